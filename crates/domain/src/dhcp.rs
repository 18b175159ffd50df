//! What operators configure for DHCP.

use std::net::Ipv4Addr;

use crate::limits;

/// DHCP settings. Nothing in it depends on machines, so it may change at any time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DhcpConfig {
    /// 0: the default of an hour.
    pub lease_minutes: u32,
    /// Told to clients; at most [`limits::DNS_SERVERS_MAX`].
    dns_servers: Vec<Ipv4Addr>,
    /// Obsolete; accepted and shown again, never used.
    pub gateway_offset: u32,
}

/// Why settings were refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DhcpConfigError {
    /// Not an IPv4 address.
    #[error("invalid IPv4 address in dns-servers: {0}")]
    DnsServer(String),
    /// They would not fit the option that carries them.
    #[error("too many dns-servers: {0}, at most {max} fit into a DHCP answer", max = limits::DNS_SERVERS_MAX)]
    TooManyDnsServers(usize),
    /// Its seconds would not fit the option that carries them.
    #[error("lease-minutes is {0}, at most {max} fit into a DHCP answer", max = limits::LEASE_MINUTES_MAX)]
    Lease(u32),
}

impl DhcpConfig {
    /// Checks and keeps the settings.
    pub fn new(lease_minutes: u32, dns_servers: &[String], gateway_offset: u32) -> Result<DhcpConfig, DhcpConfigError> {
        if dns_servers.len() > limits::DNS_SERVERS_MAX {
            return Err(DhcpConfigError::TooManyDnsServers(dns_servers.len()));
        }
        let parse = |text: &String| text.parse().map_err(|_| DhcpConfigError::DnsServer(text.clone()));
        let dns_servers = dns_servers.iter().map(parse).collect::<Result<_, _>>()?;
        Ok(DhcpConfig { lease_minutes, dns_servers, gateway_offset })
    }

    /// Refuses what nobody may ask for any more. Settings that are stored are read all the same.
    pub fn check_new(&self) -> Result<(), DhcpConfigError> {
        if self.lease_minutes > limits::LEASE_MINUTES_MAX {
            return Err(DhcpConfigError::Lease(self.lease_minutes));
        }
        Ok(())
    }

    /// DNS servers told to clients.
    pub fn dns_servers(&self) -> &[Ipv4Addr] {
        &self.dns_servers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dns_servers_are_ipv4() {
        let ok = DhcpConfig::new(0, &["1.1.1.1".into()], 0).expect("valid");
        assert_eq!(ok.dns_servers(), [Ipv4Addr::new(1, 1, 1, 1)]);
        for bad in ["", "::1", "1.1.1", "dns.example"] {
            let error = DhcpConfig::new(0, &["8.8.8.8".into(), bad.into()], 0).expect_err(bad);
            assert_eq!(error.to_string(), format!("invalid IPv4 address in dns-servers: {bad}"));
        }
        for (minutes, fits) in [(0, true), (limits::LEASE_MINUTES_MAX, true), (2_147_483_648, false)] {
            let config = DhcpConfig::new(minutes, &[], 0).expect("whatever was stored is read");
            assert_eq!(config.check_new().is_ok(), fits, "{minutes}");
        }
        let many = vec!["1.1.1.1".to_owned(); 64];
        assert!(DhcpConfig::new(0, &many, 0).expect_err("many").to_string().starts_with("too many dns-servers: 64"));
    }
}
