//! Data that many tests begin with.

use sabakan_wire::rest::{BmcInput, IpamConfigJson, MachineInput};

/// The IPAM configuration of the founding text, with the BMC offset its example addresses need.
pub fn ipam() -> IpamConfigJson {
    IpamConfigJson {
        max_nodes_in_rack: Some(28),
        node_ipv4_pool: Some("10.69.0.0/16".into()),
        node_ipv4_range_size: Some(6),
        node_ipv4_range_mask: Some(26),
        node_ip_per_node: Some(3),
        node_index_offset: Some(3),
        node_gateway_offset: Some(1),
        bmc_ipv4_pool: Some("10.72.16.0/20".into()),
        bmc_ipv4_offset: Some("0.0.1.0".into()),
        bmc_ipv4_range_size: Some(5),
        bmc_ipv4_range_mask: Some(20),
        bmc_ipv4_gateway_offset: Some(1),
        ..IpamConfigJson::default()
    }
}

/// Pools large enough for more than 100,000 machines in racks of 28.
pub fn wide_ipam() -> IpamConfigJson {
    IpamConfigJson {
        node_ipv4_pool: Some("10.0.0.0/9".into()),
        bmc_ipv4_pool: Some("10.128.0.0/10".into()),
        bmc_ipv4_offset: None,
        bmc_ipv4_range_mask: Some(10),
        ..ipam()
    }
}

/// A machine to register.
pub fn machine(serial: impl Into<String>, rack: u32, role: &str) -> MachineInput {
    MachineInput {
        serial: Some(serial.into()),
        rack: Some(rack),
        role: Some(role.to_owned()),
        bmc: Some(BmcInput { kind: Some("iDRAC-9".into()) }),
        ..MachineInput::default()
    }
}

/// `count` workers filling one rack of 28 after the other from `first_rack` on, with two labels each.
pub fn workers(count: usize, first_rack: u32) -> Vec<MachineInput> {
    let worker = |n: usize| {
        let rack = first_rack + u32::try_from(n / 28).expect("few racks");
        let labels = [("product", format!("R{}", 600 + n % 7)), ("datacenter", "ty3".to_owned())];
        let labels = labels.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        MachineInput { labels: Some(labels), ..machine(format!("w{first_rack:05}-{n:06}"), rack, "worker") }
    };
    (0..count).map(worker).collect()
}
