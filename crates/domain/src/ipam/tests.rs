//! The worked values of the specification, and every way a configuration can be wrong.

use super::*;

/// The configuration of the founding text's example, with the BMC offset its addresses need.
fn example() -> IpamInput {
    let pool = |pool: &str, offset: Option<&str>, range_size, range_mask| PoolInput {
        pool: pool.into(),
        offset: offset.map(str::to_owned),
        range_size,
        range_mask,
        gateway_offset: Some(1),
    };
    IpamInput {
        max_nodes_in_rack: 28,
        node: pool("10.69.0.0/16", None, 6, 26),
        node_ip_per_node: 3,
        node_index_offset: 3,
        bmc: pool("10.72.16.0/20", Some("0.0.1.0"), 5, 20),
    }
}

fn config() -> IpamConfig {
    IpamConfig::new(&example()).expect("the example is valid")
}

fn texts(addresses: impl IntoIterator<Item = Ipv4Addr>) -> Vec<String> {
    addresses.into_iter().map(|a| a.to_string()).collect()
}

#[test]
fn worked_addresses() {
    let check = |rack, index, nodes: [&str; 3], gateways: [&str; 3], bmc: &str| {
        let nics = config().node_nics(Rack(rack), index, OutsidePool::Refuse).expect("fits");
        assert_eq!(texts(nics.iter().map(|n| n.address)), nodes);
        assert_eq!(texts(nics.iter().map(|n| n.gateway)), gateways);
        assert!(nics.iter().all(|n| n.netmask().to_string() == "255.255.255.192" && n.maskbits == 26));
        let nic = config().bmc_nic(Rack(rack), index, OutsidePool::Refuse).expect("fits");
        assert_eq!(texts([nic.address, nic.gateway, nic.netmask()]), [bmc, "10.72.16.1", "255.255.240.0"]);
    };
    let rack0 = ["10.69.0.1", "10.69.0.65", "10.69.0.129"];
    let rack1 = ["10.69.0.193", "10.69.1.1", "10.69.1.65"];
    check(0, 3, ["10.69.0.3", "10.69.0.67", "10.69.0.131"], rack0, "10.72.17.3");
    check(0, 4, ["10.69.0.4", "10.69.0.68", "10.69.0.132"], rack0, "10.72.17.4");
    check(1, 3, ["10.69.0.195", "10.69.1.3", "10.69.1.67"], rack1, "10.72.17.35");
    check(1, 4, ["10.69.0.196", "10.69.1.4", "10.69.1.68"], rack1, "10.72.17.36");
    check(1, 5, ["10.69.0.197", "10.69.1.5", "10.69.1.69"], rack1, "10.72.17.37");
    let rack2 = ["10.69.1.129", "10.69.1.193", "10.69.2.1"];
    check(2, 31, ["10.69.1.159", "10.69.1.223", "10.69.2.31"], rack2, "10.72.17.95");
}

#[test]
fn the_founding_example_without_bmc_offset_is_one_block_lower() {
    let mut input = example();
    input.bmc.offset = None;
    let config = IpamConfig::new(&input).expect("valid");
    let bmc = |rack, index| config.bmc_nic(Rack(rack), index, OutsidePool::Refuse).expect("fits").address.to_string();
    assert_eq!(bmc(0, 4), "10.72.16.4");
    assert_eq!(bmc(1, 5), "10.72.16.37");
}

#[test]
fn worked_lease_ranges() {
    let check = |interface: &str, expected: Option<(&str, u32)>| {
        let address = interface.parse().expect(interface);
        let range = config().lease_range(address);
        match expected {
            Some((begin, count)) => {
                assert_eq!(range, Ok(LeaseRange { begin: begin.parse().expect(begin), count }), "{interface}");
            }
            None => {
                assert_eq!(range.expect_err(interface).to_string(), format!("invalid ifaddr: {interface}"));
            }
        }
    };
    check("10.69.0.1", Some(("10.69.0.32", 31)));
    check("10.69.0.3", Some(("10.69.0.32", 31)));
    check("10.69.0.129", Some(("10.69.0.160", 31)));
    check("10.69.0.195", Some(("10.69.0.224", 31)));
    check("10.69.1.3", Some(("10.69.1.32", 31)));
    check("10.69.0.0", None);
    check("10.68.10.20", None);
    check("10.70.0.5", None);
}

#[test]
fn a_block_without_lease_space_is_legal_and_leases_nothing() {
    // 3 + 59 = 62: static indices reach the last but one address.
    let full = IpamInput { max_nodes_in_rack: 59, bmc: PoolInput { range_size: 6, ..example().bmc }, ..example() };
    let range = IpamConfig::new(&full).expect("legal").lease_range("10.69.0.1".parse().expect("address"));
    assert_eq!(range.expect("a range").count, 0);
    let one = IpamInput { max_nodes_in_rack: 58, ..full };
    let range = IpamConfig::new(&one).expect("legal").lease_range("10.69.0.1".parse().expect("address"));
    assert_eq!(range, Ok(LeaseRange { begin: "10.69.0.62".parse().expect("address"), count: 1 }));
}

#[test]
fn every_field_out_of_range_is_named() {
    let check = |change: &dyn Fn(&mut IpamInput), message: &str| {
        let mut input = example();
        change(&mut input);
        let error = IpamConfig::new(&input).expect_err(message).to_string();
        assert!(error.starts_with(message), "{error:?} should start with {message:?}");
    };
    check(&|i| i.max_nodes_in_rack = 0, "max-nodes-in-rack must not be zero");
    for bad in ["", "10.69.0.0", "10.69.0.0/33", "fd00::/64", "10.69.0/16"] {
        check(&|i| i.node.pool = bad.into(), "invalid node-ipv4-pool");
        check(&|i| i.bmc.pool = bad.into(), "invalid bmc-ipv4-pool");
    }
    check(&|i| i.node.pool = "10.69.0.1/16".into(), "host part of node-ipv4-pool must be cleared");
    check(&|i| i.bmc.pool = "10.72.17.0/20".into(), "host part of bmc-ipv4-pool must be cleared");
    for bad in ["1", "0.0.1", "::1", "0.0.1.256"] {
        check(&|i| i.node.offset = Some(bad.into()), "invalid node-ipv4-offset");
        check(&|i| i.bmc.offset = Some(bad.into()), "invalid bmc-ipv4-offset");
    }
    check(&|i| i.node.range_size = 0, "node-ipv4-range-size must not be zero");
    check(&|i| i.bmc.range_size = 0, "bmc-ipv4-range-size must not be zero");
    check(&|i| i.node.range_size = 32, "invalid node-ipv4-range-size: 32");
    check(&|i| i.bmc.range_size = u32::MAX, "invalid bmc-ipv4-range-size");
    for bad in [0, 7, 33, 256 + 26] {
        check(&|i| i.node.range_mask = bad, "invalid node-ipv4-range-mask");
        check(&|i| i.bmc.range_mask = bad, "invalid bmc-ipv4-range-mask");
    }
    check(&|i| i.node_ip_per_node = 0, "node-ip-per-node must not be zero");
    check(&|i| i.node_ip_per_node = 65, "invalid node-ip-per-node: 65");
    check(&|i| i.node_index_offset = 0, "node-index-offset must not be zero");
    check(&|i| i.node.gateway_offset = Some(0), "node-gateway-offset must not be zero");
    check(&|i| i.bmc.gateway_offset = Some(0), "bmc-ipv4-gateway-offset must not be zero");
    check(
        &|i| i.max_nodes_in_rack = 61,
        "max-nodes-in-rack does not fit node-ipv4-range-size: the highest index is 64",
    );
    check(&|i| i.max_nodes_in_rack = 29, "max-nodes-in-rack does not fit bmc-ipv4-range-size: the highest index is 32");
    check(&|i| i.node_index_offset = u32::MAX, "max-nodes-in-rack does not fit node-ipv4-range-size");
    check(&|i| i.bmc.pool = "10.69.0.0/20".into(), "bmc-ipv4-pool 10.69.0.0/20 overlaps node-ipv4-pool 10.69.0.0/16");
    check(&|i| i.bmc.pool = "10.0.0.0/8".into(), "bmc-ipv4-pool 10.0.0.0/8 overlaps");
    // Two pools apart from each other, both of which begin at 10.72.17.0.
    check(&|i| i.node.offset = Some("0.3.17.0".into()), "bmc-ipv4-pool 10.72.16.0/20 overlaps");
}

#[test]
fn the_first_wrong_field_in_the_documented_order_is_reported() {
    // Everything is wrong; mending one field after the other shows the order.
    let mut input = IpamInput {
        node: PoolInput { gateway_offset: Some(0), offset: Some("x".into()), ..PoolInput::default() },
        bmc: PoolInput { gateway_offset: Some(0), offset: Some("x".into()), ..PoolInput::default() },
        ..IpamInput::default()
    };
    let mut expect = |message: &str, mend: &dyn Fn(&mut IpamInput)| {
        let error = IpamConfig::new(&input).expect_err(message).to_string();
        assert!(error.starts_with(message), "{error:?} should start with {message:?}");
        mend(&mut input);
    };
    expect("max-nodes-in-rack", &|i| i.max_nodes_in_rack = 28);
    expect("invalid node-ipv4-pool", &|i| i.node.pool = "10.69.0.1/16".into());
    expect("host part of node-ipv4-pool", &|i| i.node.pool = "10.69.0.0/16".into());
    expect("invalid node-ipv4-offset", &|i| i.node.offset = Some(String::new()));
    expect("node-ipv4-range-size", &|i| i.node.range_size = 6);
    expect("invalid node-ipv4-range-mask", &|i| i.node.range_mask = 26);
    expect("node-ip-per-node", &|i| i.node_ip_per_node = 3);
    expect("node-index-offset", &|i| i.node_index_offset = 3);
    expect("node-gateway-offset", &|i| i.node.gateway_offset = None);
    expect("invalid bmc-ipv4-pool", &|i| i.bmc.pool = "10.72.16.0/20".into());
    expect("invalid bmc-ipv4-offset", &|i| i.bmc.offset = None);
    expect("bmc-ipv4-range-size", &|i| i.bmc.range_size = 5);
    expect("invalid bmc-ipv4-range-mask", &|i| i.bmc.range_mask = 20);
    expect("bmc-ipv4-gateway-offset", &|i| i.bmc.gateway_offset = None);
    let config = IpamConfig::new(&input).expect("everything mended");
    assert_eq!((config.node_pool().gateway_offset, config.bmc_pool().gateway_offset), (1, 1));
}

#[test]
fn racks_beyond_the_pool_are_refused_unless_allowed() {
    // 65,536 addresses hold 341 racks of 192.
    assert!(config().node_nics(Rack(340), 31, OutsidePool::Refuse).is_ok());
    let error = config().node_nics(Rack(341), 3, OutsidePool::Refuse).expect_err("outside");
    assert_eq!(error.to_string(), "rack 341 does not fit node-ipv4-pool: 10.70.0.3 is outside of 10.69.0.0/16");
    assert!(config().node_nics(Rack(341), 3, OutsidePool::Allow).is_ok());
    // Where leaving is allowed, the lower pool still ends where the higher one begins: 10.69.0.0 + 192 * 1025 is 10.72.0.192.
    assert!(config().node_nics(Rack(1_024), 3, OutsidePool::Allow).is_ok());
    let error = config().node_nics(Rack(1_049), 3, OutsidePool::Allow).expect_err("meets the other pool").to_string();
    assert!(error.starts_with("rack 1049 does not fit node-ipv4-pool") && error.ends_with("at 10.72.17.0"), "{error}");
    let error = config().bmc_nic(Rack(120), 3, OutsidePool::Refuse).expect_err("outside");
    assert_eq!(error.to_string(), "rack 120 does not fit bmc-ipv4-pool: 10.72.32.3 is outside of 10.72.16.0/20");
    for outside in [OutsidePool::Refuse, OutsidePool::Allow] {
        let error = config().node_nics(Rack(u32::MAX), 3, outside).expect_err("overflow").to_string();
        assert!(error.starts_with("rack 4294967295 does not fit node-ipv4-pool"), "{error}");
        let error = config().bmc_nic(Rack(u32::MAX), 3, outside).expect_err("overflow").to_string();
        assert!(error.starts_with("rack 4294967295 does not fit bmc-ipv4-pool"), "{error}");
    }
}
