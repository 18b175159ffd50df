//! IPAM and DHCP configuration.

use sabakan_domain::{
    dhcp::{DhcpConfig, DhcpConfigError},
    ipam::{IpamConfig, IpamError, IpamInput, PoolInput},
};
use serde::{Deserialize, Serialize};

/// How addresses are assigned.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "kebab-case", default)]
pub struct IpamConfigJson {
    /// Most machines in a rack, not counting the boot machine. Not zero.
    #[schema(value_type = u32, example = 28)]
    pub max_nodes_in_rack: Option<u32>,
    /// Network for addresses of operating systems; host bits zero.
    #[schema(value_type = String, example = "10.69.0.0/16")]
    pub node_ipv4_pool: Option<String>,
    /// Added to the pool's first address.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "0.0.0.0")]
    pub node_ipv4_offset: Option<String>,
    /// Each rack has 2^this addresses for each address of a machine. 1 to 31.
    #[schema(value_type = u32, example = 6)]
    pub node_ipv4_range_size: Option<u32>,
    /// Prefix length told to machines. 8 to 32.
    #[schema(value_type = u32, example = 26)]
    pub node_ipv4_range_mask: Option<u32>,
    /// Addresses of each machine. 1 to 64.
    #[schema(value_type = u32, example = 3)]
    pub node_ip_per_node: Option<u32>,
    /// The index of a rack's boot machine. Not zero.
    #[schema(value_type = u32, example = 3)]
    pub node_index_offset: Option<u32>,
    /// Gateway = network address + this. Absent: 1.
    #[schema(example = 1)]
    pub node_gateway_offset: Option<u32>,
    /// Network for addresses of management controllers; host bits zero.
    #[schema(value_type = String, example = "10.72.16.0/20")]
    pub bmc_ipv4_pool: Option<String>,
    /// Added to the pool's first address.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "0.0.1.0")]
    pub bmc_ipv4_offset: Option<String>,
    /// Each rack has 2^this controller addresses. 1 to 31.
    #[schema(value_type = u32, example = 5)]
    pub bmc_ipv4_range_size: Option<u32>,
    /// Prefix length told to controllers. 8 to 32.
    #[schema(value_type = u32, example = 20)]
    pub bmc_ipv4_range_mask: Option<u32>,
    /// Gateway = network address + this. Absent: 1.
    #[schema(example = 1)]
    pub bmc_ipv4_gateway_offset: Option<u32>,
}

impl TryFrom<IpamConfigJson> for IpamConfig {
    type Error = IpamError;

    fn try_from(json: IpamConfigJson) -> Result<IpamConfig, IpamError> {
        let IpamConfigJson {
            max_nodes_in_rack,
            node_ipv4_pool,
            node_ipv4_offset,
            node_ipv4_range_size,
            node_ipv4_range_mask,
            node_ip_per_node,
            node_index_offset,
            node_gateway_offset,
            bmc_ipv4_pool,
            bmc_ipv4_offset,
            bmc_ipv4_range_size,
            bmc_ipv4_range_mask,
            bmc_ipv4_gateway_offset,
        } = json;
        IpamConfig::new(&IpamInput {
            max_nodes_in_rack: max_nodes_in_rack.unwrap_or_default(),
            node: PoolInput {
                pool: node_ipv4_pool.unwrap_or_default(),
                offset: node_ipv4_offset,
                range_size: node_ipv4_range_size.unwrap_or_default(),
                range_mask: node_ipv4_range_mask.unwrap_or_default(),
                gateway_offset: node_gateway_offset,
            },
            node_ip_per_node: node_ip_per_node.unwrap_or_default(),
            node_index_offset: node_index_offset.unwrap_or_default(),
            bmc: PoolInput {
                pool: bmc_ipv4_pool.unwrap_or_default(),
                offset: bmc_ipv4_offset,
                range_size: bmc_ipv4_range_size.unwrap_or_default(),
                range_mask: bmc_ipv4_range_mask.unwrap_or_default(),
                gateway_offset: bmc_ipv4_gateway_offset,
            },
        })
    }
}

impl From<&IpamInput> for IpamConfigJson {
    fn from(input: &IpamInput) -> IpamConfigJson {
        let IpamInput { max_nodes_in_rack, node, node_ip_per_node, node_index_offset, bmc } = input;
        IpamConfigJson {
            max_nodes_in_rack: Some(*max_nodes_in_rack),
            node_ipv4_pool: Some(node.pool.clone()),
            node_ipv4_offset: node.offset.clone(),
            node_ipv4_range_size: Some(node.range_size),
            node_ipv4_range_mask: Some(node.range_mask),
            node_ip_per_node: Some(*node_ip_per_node),
            node_index_offset: Some(*node_index_offset),
            node_gateway_offset: node.gateway_offset,
            bmc_ipv4_pool: Some(bmc.pool.clone()),
            bmc_ipv4_offset: bmc.offset.clone(),
            bmc_ipv4_range_size: Some(bmc.range_size),
            bmc_ipv4_range_mask: Some(bmc.range_mask),
            bmc_ipv4_gateway_offset: bmc.gateway_offset,
        }
    }
}

impl From<&IpamConfig> for IpamConfigJson {
    fn from(config: &IpamConfig) -> IpamConfigJson {
        IpamConfigJson::from(&config.input())
    }
}

/// What DHCP clients are told.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "kebab-case", default)]
pub struct DhcpConfigJson {
    /// How long a lease lasts; 0: an hour.
    #[serde(deserialize_with = "null_is_zero")]
    pub lease_minutes: u32,
    /// IPv4 addresses, at most 63.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dns_servers: Option<Vec<String>>,
    /// Obsolete.
    #[serde(deserialize_with = "null_is_zero")]
    pub gateway_offset: u32,
}

fn null_is_zero<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

impl TryFrom<DhcpConfigJson> for DhcpConfig {
    type Error = DhcpConfigError;

    fn try_from(json: DhcpConfigJson) -> Result<DhcpConfig, DhcpConfigError> {
        let DhcpConfigJson { lease_minutes, dns_servers, gateway_offset } = json;
        DhcpConfig::new(lease_minutes, &dns_servers.unwrap_or_default(), gateway_offset)
    }
}

impl From<&DhcpConfig> for DhcpConfigJson {
    fn from(config: &DhcpConfig) -> DhcpConfigJson {
        let servers: Vec<String> = config.dns_servers().iter().map(ToString::to_string).collect();
        DhcpConfigJson {
            lease_minutes: config.lease_minutes,
            dns_servers: (!servers.is_empty()).then_some(servers),
            gateway_offset: config.gateway_offset,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: &str = r#"{"max-nodes-in-rack":28,"node-ipv4-pool":"10.69.0.0/16","node-ipv4-range-size":6,
        "node-ipv4-range-mask":26,"node-ip-per-node":3,"node-index-offset":3,"bmc-ipv4-pool":"10.72.16.0/20",
        "bmc-ipv4-offset":"0.0.1.0","bmc-ipv4-range-size":5,"bmc-ipv4-range-mask":20,"future":1}"#;

    #[test]
    fn ipam_round_trips_and_absent_gateways_become_one() {
        let json: IpamConfigJson = crate::json::decode(EXAMPLE.as_bytes()).expect("decodes");
        let config = IpamConfig::try_from(json).expect("valid");
        let out = IpamConfigJson::from(&config);
        assert_eq!((out.node_gateway_offset, out.bmc_ipv4_gateway_offset), (Some(1), Some(1)));
        assert_eq!(IpamConfig::try_from(out.clone()), Ok(config));
        let text = serde_json::to_string(&out).expect("serialises");
        assert!(!text.contains("node-ipv4-offset"), "an absent offset is not shown: {text}");
        assert!(text.contains(r#""bmc-ipv4-offset":"0.0.1.0""#), "{text}");
    }

    #[test]
    fn dhcp_output_is_as_documented() {
        let json: DhcpConfigJson =
            crate::json::decode(br#"{"dns-servers":["1.1.1.1"],"lease-minutes":null}"#).expect("decodes");
        let config = DhcpConfig::try_from(json).expect("valid");
        let text = serde_json::to_string(&DhcpConfigJson::from(&config)).expect("serialises");
        assert_eq!(text, r#"{"lease-minutes":0,"dns-servers":["1.1.1.1"],"gateway-offset":0}"#);
        let empty = serde_json::to_string(&DhcpConfigJson::from(&DhcpConfig::default())).expect("serialises");
        assert_eq!(empty, r#"{"lease-minutes":0,"gateway-offset":0}"#);
    }
}
