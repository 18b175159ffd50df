//! Configuration kept by the server: `/api/v1/config/…`.

use sabakan_wire::rest::{DhcpConfigJson, IpamConfigJson, paths};

use crate::{client::Client, error::Error};

impl Client {
    /// How addresses are assigned. An error with status 404 until it is set.
    pub fn get_ipam(&self) -> Result<IpamConfigJson, Error> {
        self.get_json(paths::IPAM)
    }

    /// Sets how addresses are assigned. Refused while a machine is registered.
    pub fn put_ipam(&self, config: &IpamConfigJson) -> Result<(), Error> {
        self.send_json("PUT", paths::IPAM, config)
    }

    /// What DHCP clients are told. An error with status 404 until it is set.
    pub fn get_dhcp(&self) -> Result<DhcpConfigJson, Error> {
        self.get_json(paths::DHCP)
    }

    /// Sets what DHCP clients are told.
    pub fn put_dhcp(&self, config: &DhcpConfigJson) -> Result<(), Error> {
        self.send_json("PUT", paths::DHCP, config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake;

    #[test]
    fn configuration_goes_and_comes() {
        let config = DhcpConfigJson { lease_minutes: 10, dns_servers: Some(vec!["1.1.1.1".into()]), gateway_offset: 0 };
        let (url, request) = fake::answer(200, "null\n");
        Client::new(&url).unwrap().put_dhcp(&config).unwrap();
        let request = request.join().unwrap();
        assert!(request.starts_with("PUT /api/v1/config/dhcp HTTP/1.1\r\n"), "{request}");
        let body = r#"{"lease-minutes":10,"dns-servers":["1.1.1.1"],"gateway-offset":0}"#;
        assert!(request.ends_with(&format!("\r\n\r\n{body}")), "{request}");

        let (url, _request) = fake::answer(200, body);
        assert_eq!(Client::new(&url).unwrap().get_dhcp().unwrap(), config);
    }
}
