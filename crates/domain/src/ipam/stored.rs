//! The configuration that is in the store, which an older service may have accepted where this one would not.

use super::{IpamConfig, IpamError, IpamInput};

/// A stored configuration: what it says, and whether addresses can be computed from it. One that cannot be used is still shown as it is,
/// and may be replaced although machines are registered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredIpam {
    given: IpamInput,
    judged: Result<IpamConfig, IpamError>,
}

impl StoredIpam {
    /// Keeps what is stored, whatever it is.
    pub fn stored(given: IpamInput) -> StoredIpam {
        StoredIpam { judged: IpamConfig::new(&given), given }
    }

    /// What is stored.
    pub fn given(&self) -> &IpamInput {
        &self.given
    }

    /// The configuration, or why input would refuse it.
    pub fn usable(&self) -> Result<&IpamConfig, &IpamError> {
        self.judged.as_ref()
    }
}

impl From<&IpamConfig> for StoredIpam {
    fn from(config: &IpamConfig) -> StoredIpam {
        StoredIpam { given: config.input(), judged: Ok(config.clone()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ipam::PoolInput;

    fn given() -> IpamInput {
        let pool = |pool: &str, range_size| PoolInput {
            pool: pool.to_owned(),
            offset: None,
            range_size,
            range_mask: 26,
            gateway_offset: Some(1),
        };
        IpamInput {
            max_nodes_in_rack: 28,
            node: pool("10.69.0.0/16", 6),
            node_ip_per_node: 3,
            node_index_offset: 3,
            bmc: pool("10.72.16.0/20", 5),
        }
    }

    #[test]
    fn what_input_refuses_is_kept_and_not_used() {
        let check = |change: &dyn Fn(&mut IpamInput), expected: Option<&str>| {
            let mut input = given();
            change(&mut input);
            let kept = StoredIpam::stored(input.clone());
            assert_eq!(kept.given(), &input);
            let reason = kept.usable().err().map(ToString::to_string);
            assert_eq!(reason.is_some(), expected.is_some(), "{reason:?}");
            assert!(reason.unwrap_or_default().starts_with(expected.unwrap_or_default()), "{expected:?}");
        };
        check(&|_| {}, None);
        check(&|i| i.bmc.pool = "10.69.128.0/20".into(), Some("bmc-ipv4-pool"));
        check(&|i| i.bmc.range_size = 4, Some("max-nodes-in-rack does not fit bmc-ipv4-range-size"));
        check(&|i| i.node.pool = "fd00::/64".into(), Some("invalid node-ipv4-pool"));
        check(&|i| i.node.offset = Some("::1".into()), Some("invalid node-ipv4-offset"));
        check(&|i| i.node_ip_per_node = 65, Some("invalid node-ip-per-node"));
        check(&|i| i.node.range_size = 40, Some("invalid node-ipv4-range-size"));
    }

    #[test]
    fn a_checked_configuration_says_what_was_written() {
        let config = IpamConfig::new(&given()).expect("valid");
        assert_eq!(config.input(), given());
        assert_eq!(StoredIpam::from(&config), StoredIpam::stored(given()));
    }
}
