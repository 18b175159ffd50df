//! IPAM and DHCP configuration.

use std::sync::Arc;

use sabakan_domain::{
    audit::Actor,
    dhcp::DhcpConfig,
    ipam::{IpamConfig, StoredIpam},
};
use sabakan_store::{StoreError, repo::config, view::Snapshot};

use crate::{Foundation, ServiceError};

/// Reads and sets configuration.
pub struct Config {
    on: Arc<Foundation>,
}

impl Config {
    /// Works on a foundation.
    pub fn new(on: Arc<Foundation>) -> Config {
        Config { on }
    }

    /// The IPAM configuration as it is stored. "Not found" means that there is none; one that cannot be read is another error.
    pub async fn get_ipam(&self) -> Result<Arc<StoredIpam>, ServiceError> {
        let snapshot = self.on.view.read().await?;
        snapshot.ipam().cloned().ok_or_else(|| self.absent(&snapshot, &self.on.keys.ipam()))
    }

    /// What to say of a configuration that is not in memory.
    fn absent(&self, snapshot: &Snapshot, key: &str) -> ServiceError {
        let Some(reason) = snapshot.unreadable().get(key) else { return ServiceError::NotFound };
        ServiceError::Damaged {
            text: "the stored configuration cannot be read; put another".to_owned(),
            source: StoreError::Corrupt { place: key.to_owned(), reason: reason.clone() },
        }
    }

    /// Sets the IPAM configuration; refused once a machine is registered, unless the present one cannot be used.
    pub async fn put_ipam(&self, actor: &Actor, config: &IpamConfig) -> Result<(), ServiceError> {
        config::put_ipam(&*self.on.store, &self.on.keys, &self.on.by(actor), config).await?;
        tracing::info!(user = actor.name, "ipam configuration set");
        Ok(())
    }

    /// The DHCP configuration.
    pub async fn get_dhcp(&self) -> Result<Arc<DhcpConfig>, ServiceError> {
        let snapshot = self.on.view.read().await?;
        snapshot.dhcp().cloned().ok_or_else(|| self.absent(&snapshot, &self.on.keys.dhcp()))
    }

    /// Sets the DHCP configuration.
    pub async fn put_dhcp(&self, actor: &Actor, config: &DhcpConfig) -> Result<(), ServiceError> {
        config::put_dhcp(&*self.on.store, &self.on.keys, &self.on.by(actor), config).await?;
        tracing::info!(user = actor.name, "dhcp configuration set");
        Ok(())
    }
}
