//! Who may change things: so far, whoever calls from an allowed network. Reading is open.

use std::{fmt, net::IpAddr, str::FromStr};

use ipnet::IpNet;

/// Networks from which changes are accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedNetworks(Vec<IpNet>);

/// A text that is neither an address nor a network.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is neither an address such as 10.0.0.1 nor a network such as 10.0.0.0/8")]
pub struct NetworkError(pub String);

impl AllowedNetworks {
    /// Reads addresses and networks. A bare address, IPv4 or IPv6, means that one address.
    pub fn new<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> Result<AllowedNetworks, NetworkError> {
        let parse = |text: T| {
            let text = text.as_ref().trim();
            let net = IpNet::from_str(text).or_else(|_| IpAddr::from_str(text).map(IpNet::from));
            net.map_err(|_| NetworkError(text.to_owned()))
        };
        texts.into_iter().map(parse).collect::<Result<_, _>>().map(AllowedNetworks)
    }

    /// Whether changes from this peer are accepted. IPv4 addresses written as IPv6 count as IPv4.
    pub fn contains(&self, peer: IpAddr) -> bool {
        let peer = peer.to_canonical();
        self.0.iter().any(|net| net.contains(&peer))
    }
}

impl Default for AllowedNetworks {
    /// This machine only.
    fn default() -> AllowedNetworks {
        AllowedNetworks::new(["127.0.0.1", "::1"]).expect("both are addresses")
    }
}

impl fmt::Display for AllowedNetworks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<_> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&texts.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn membership() {
        let allowed = AllowedNetworks::new(["127.0.0.1", "10.0.0.0/8", "2001:db8::1", "fd00::/8"]).expect("valid");
        for (peer, expected) in [
            ("127.0.0.1", true),
            ("127.0.0.2", false),
            ("10.255.0.1", true),
            ("11.0.0.1", false),
            ("::ffff:10.1.2.3", true),
            ("2001:db8::1", true),
            ("2001:db8::2", false), // a bare IPv6 address is one address
            ("fd12::1", true),
            ("::1", false),
        ] {
            assert_eq!(allowed.contains(peer.parse().expect(peer)), expected, "{peer}");
        }
        assert!(AllowedNetworks::default().contains("::1".parse().expect("address")));
        assert!(AllowedNetworks::new(["10.0.0.0/33"]).is_err());
        assert!(AllowedNetworks::new(["localhost"]).is_err());
    }
}
