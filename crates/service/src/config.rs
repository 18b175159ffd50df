//! IPAM and DHCP configuration.

use std::sync::Arc;

use sabakan_domain::{dhcp::DhcpConfig, ipam::IpamConfig};
use sabakan_store::{Store, keys::Keys, repo::config, view::View};

use crate::{Foundation, ServiceError};

/// Reads and sets configuration.
pub struct Config {
    store: Arc<dyn Store>,
    keys: Keys,
    view: Arc<View>,
}

impl Config {
    /// Works on a foundation.
    pub fn new(on: &Foundation) -> Config {
        Config { store: Arc::clone(&on.store), keys: on.keys.clone(), view: Arc::clone(&on.view) }
    }

    /// The IPAM configuration.
    pub async fn get_ipam(&self) -> Result<Arc<IpamConfig>, ServiceError> {
        self.view.read().await?.ipam().cloned().ok_or(ServiceError::NotFound)
    }

    /// Sets the IPAM configuration; refused once a machine is registered.
    pub async fn put_ipam(&self, config: &IpamConfig) -> Result<(), ServiceError> {
        config::put_ipam(&*self.store, &self.keys, config).await?;
        tracing::info!("ipam configuration set");
        Ok(())
    }

    /// The DHCP configuration.
    pub async fn get_dhcp(&self) -> Result<Arc<DhcpConfig>, ServiceError> {
        self.view.read().await?.dhcp().cloned().ok_or(ServiceError::NotFound)
    }

    /// Sets the DHCP configuration.
    pub async fn put_dhcp(&self, config: &DhcpConfig) -> Result<(), ServiceError> {
        config::put_dhcp(&*self.store, &self.keys, config).await?;
        tracing::info!("dhcp configuration set");
        Ok(())
    }
}
