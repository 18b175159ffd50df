//! IPAM and DHCP configuration as stored.

use sabakan_domain::{
    dhcp::DhcpConfig,
    ipam::{IpamConfig, IpamInput, PoolInput, StoredIpam},
};
use serde::{Deserialize, Serialize};

/// `ipam`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct IpamRecord {
    max_nodes_in_rack: u32,
    node_ipv4_pool: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    node_ipv4_offset: Option<String>,
    node_ipv4_range_size: u32,
    node_ipv4_range_mask: u32,
    node_ip_per_node: u32,
    node_index_offset: u32,
    node_gateway_offset: u32,
    bmc_ipv4_pool: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bmc_ipv4_offset: Option<String>,
    bmc_ipv4_range_size: u32,
    bmc_ipv4_range_mask: u32,
    bmc_ipv4_gateway_offset: u32,
}

impl From<&IpamConfig> for IpamRecord {
    fn from(config: &IpamConfig) -> IpamRecord {
        let IpamInput { max_nodes_in_rack, node, node_ip_per_node, node_index_offset, bmc } = config.input();
        IpamRecord {
            max_nodes_in_rack,
            node_ipv4_pool: node.pool,
            node_ipv4_offset: node.offset,
            node_ipv4_range_size: node.range_size,
            node_ipv4_range_mask: node.range_mask,
            node_ip_per_node,
            node_index_offset,
            node_gateway_offset: config.node_pool().gateway_offset,
            bmc_ipv4_pool: bmc.pool,
            bmc_ipv4_offset: bmc.offset,
            bmc_ipv4_range_size: bmc.range_size,
            bmc_ipv4_range_mask: bmc.range_mask,
            bmc_ipv4_gateway_offset: config.bmc_pool().gateway_offset,
        }
    }
}

impl TryFrom<IpamRecord> for StoredIpam {
    type Error = String;

    /// Never fails: what can be read is kept, and judged by whoever computes addresses from it.
    fn try_from(record: IpamRecord) -> Result<StoredIpam, String> {
        let IpamRecord {
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
        } = record;
        Ok(StoredIpam::stored(IpamInput {
            max_nodes_in_rack,
            node: PoolInput {
                pool: node_ipv4_pool,
                offset: node_ipv4_offset,
                range_size: node_ipv4_range_size,
                range_mask: node_ipv4_range_mask,
                gateway_offset: Some(node_gateway_offset),
            },
            node_ip_per_node,
            node_index_offset,
            bmc: PoolInput {
                pool: bmc_ipv4_pool,
                offset: bmc_ipv4_offset,
                range_size: bmc_ipv4_range_size,
                range_mask: bmc_ipv4_range_mask,
                gateway_offset: Some(bmc_ipv4_gateway_offset),
            },
        }))
    }
}

/// `dhcp`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct DhcpRecord {
    #[serde(default)]
    lease_minutes: u32,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    dns_servers: Vec<String>,
    #[serde(default)]
    gateway_offset: u32,
}

impl From<&DhcpConfig> for DhcpRecord {
    fn from(config: &DhcpConfig) -> DhcpRecord {
        DhcpRecord {
            lease_minutes: config.lease_minutes,
            dns_servers: config.dns_servers().iter().map(ToString::to_string).collect(),
            gateway_offset: config.gateway_offset,
        }
    }
}

impl TryFrom<DhcpRecord> for DhcpConfig {
    type Error = String;

    fn try_from(record: DhcpRecord) -> Result<DhcpConfig, String> {
        let DhcpRecord { lease_minutes, dns_servers, gateway_offset } = record;
        DhcpConfig::new(lease_minutes, &dns_servers, gateway_offset).map_err(|error| error.to_string())
    }
}
