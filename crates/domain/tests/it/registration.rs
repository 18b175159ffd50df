//! Any order of registrations and removals keeps G2, and what is refused changes nothing.

use std::collections::{BTreeMap, HashSet};

use jiff::Timestamp;
use proptest::prelude::*;
use sabakan_domain::{
    consistency::check_registry,
    ipam::{IpamConfig, IpamInput, OutsidePool, PoolInput},
    machine::{Machine, NewMachine, NewMachineInput, Rack},
    registration::{Facts, plan_registration, release_index},
    words::Serial,
};

#[derive(Debug, Clone)]
enum Step {
    Register(Vec<(u8, u32, bool)>),
    Remove(u8),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let machine = (0u8..80, prop_oneof![0u32..4, 900u32..1_100], prop::bool::weighted(0.1));
    let register = prop::collection::vec(machine, 0..8).prop_map(Step::Register);
    prop::collection::vec(prop_oneof![3 => register, 2 => (0u8..80).prop_map(Step::Remove)], 0..60)
}

/// Any configuration that is accepted, small enough that racks fill up and pools end.
fn configurations() -> impl Strategy<Value = IpamConfig> {
    let pool = |net: &'static str| {
        // Small offsets, and those that reach the other pool and beyond.
        let offset = prop_oneof![0u32..40, 65_400u32..65_700, Just(65_536), Just(131_072)];
        (2u32..5, 8u32..33, offset, 1u32..4).prop_map(move |(range_size, range_mask, offset, gateway)| PoolInput {
            pool: net.to_owned(),
            offset: Some(std::net::Ipv4Addr::from(offset).to_string()),
            range_size,
            range_mask,
            gateway_offset: Some(gateway),
        })
    };
    let input = (1u32..12, pool("10.1.0.0/24"), 1u32..4, 1u32..5, pool("10.2.0.0/24")).prop_map(
        |(max_nodes_in_rack, node, node_ip_per_node, node_index_offset, bmc)| IpamInput {
            max_nodes_in_rack,
            node,
            node_ip_per_node,
            node_index_offset,
            bmc,
        },
    );
    input.prop_filter_map("the configuration is refused", |input| IpamConfig::new(&input).ok())
}

fn new(serial: u8, rack: u32, boot: bool) -> NewMachine {
    NewMachine::new(NewMachineInput {
        serial: format!("s{serial}"),
        rack,
        role: if boot { "boot" } else { "worker" }.into(),
        bmc_type: "x".into(),
        ..NewMachineInput::default()
    })
    .expect("valid")
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn no_order_of_requests_breaks_the_registry(
        ipam in configurations(),
        steps in steps(),
        outside in prop_oneof![Just(OutsidePool::Refuse), Just(OutsidePool::Allow)],
    ) {
        let mut machines: BTreeMap<Serial, Machine> = BTreeMap::new();
        let mut indices: BTreeMap<Rack, Vec<u32>> = BTreeMap::new();
        for step in steps {
            match step {
                Step::Register(request) => {
                    let request: Vec<_> = request.into_iter().map(|(s, r, b)| new(s, r, b)).collect();
                    let registered: HashSet<Serial> = machines.keys().cloned().collect();
                    let facts = Facts { ipam: Some(&ipam), indices: &indices, registered: &registered };
                    let planned = plan_registration(&request, facts, outside, Timestamp::UNIX_EPOCH);
                    if let Ok(done) = planned {
                        prop_assert_eq!(done.machines.len(), request.len());
                        for (machine, asked) in done.machines.iter().zip(&request) {
                            prop_assert_eq!(&machine.serial, &asked.serial);
                            let inside = machine.ipv4().all(|address| ipam.node_pool().net.contains(&address))
                                && ipam.bmc_pool().net.contains(&machine.bmc.nic.address);
                            prop_assert!(inside || outside == OutsidePool::Allow);
                            prop_assert_eq!(!inside, done.outside_pool.contains(&machine.rack) && !inside);
                            let expected = if asked.role.is_boot() { ipam.boot_index()..=ipam.boot_index() }
                                else { ipam.boot_index() + 1..=ipam.last_index() };
                            prop_assert!(expected.contains(&machine.index_in_rack));
                        }
                        machines.extend(done.machines.into_iter().map(|m| (m.serial.clone(), m)));
                        indices.extend(done.indices);
                    }
                }
                Step::Remove(serial) => {
                    let serial = Serial::new(format!("s{serial}")).expect("valid");
                    if let Some(gone) = machines.remove(&serial) {
                        let list = release_index(&indices[&gone.rack], gone.index_in_rack);
                        indices.insert(gone.rack, list);
                    }
                }
            }
            prop_assert_eq!(check_registry(machines.values(), &indices), vec![]);
        }
    }

    /// Leases never meet static addresses: they begin after the last index of a block and end inside of it.
    #[test]
    fn lease_ranges_and_static_addresses_do_not_meet(ipam in configurations(), rack in 0u32..4, last in any::<u8>()) {
        let interface = std::net::Ipv4Addr::new(10, 1, 0, last);
        if let Ok(range) = ipam.lease_range(interface) {
            let leased = |address: std::net::Ipv4Addr| {
                let distance = u64::from(u32::from(address)).checked_sub(u64::from(u32::from(range.begin)));
                distance.is_some_and(|d| d < u64::from(range.count))
            };
            for index in ipam.boot_index()..=ipam.last_index() {
                for nic in ipam.node_nics(Rack(rack), index, OutsidePool::Allow).into_iter().flatten() {
                    prop_assert!(!leased(nic.address), "{} is static and in {:?}", nic.address, range);
                }
            }
        }
    }
}
