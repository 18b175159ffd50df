//! IPAM and DHCP configuration.

use std::sync::Arc;

use sabakan_domain::{audit::Actor, dhcp::DhcpConfig, ipam::IpamConfig};
use sabakan_store::repo::config;

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

    /// The IPAM configuration.
    pub async fn get_ipam(&self) -> Result<Arc<IpamConfig>, ServiceError> {
        self.on.view.read().await?.ipam().cloned().ok_or(ServiceError::NotFound)
    }

    /// Sets the IPAM configuration; refused once a machine is registered.
    pub async fn put_ipam(&self, actor: &Actor, config: &IpamConfig) -> Result<(), ServiceError> {
        config::put_ipam(&*self.on.store, &self.on.keys, &self.on.by(actor), config).await?;
        tracing::info!(user = actor.name, "ipam configuration set");
        Ok(())
    }

    /// The DHCP configuration.
    pub async fn get_dhcp(&self) -> Result<Arc<DhcpConfig>, ServiceError> {
        self.on.view.read().await?.dhcp().cloned().ok_or(ServiceError::NotFound)
    }

    /// Sets the DHCP configuration.
    pub async fn put_dhcp(&self, actor: &Actor, config: &DhcpConfig) -> Result<(), ServiceError> {
        config::put_dhcp(&*self.on.store, &self.on.keys, &self.on.by(actor), config).await?;
        tracing::info!(user = actor.name, "dhcp configuration set");
        Ok(())
    }
}
