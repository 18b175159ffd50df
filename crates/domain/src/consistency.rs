//! What must hold over the whole registry (G2): no two machines share an address or an index in a rack, a rack has at most one boot
//! machine, and the index list of a rack names exactly the indices in use. Used to check stored data, and by tests after every story.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    net::Ipv4Addr,
};

use crate::{
    machine::{Machine, Rack},
    words::Serial,
};

/// One broken promise.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Inconsistency {
    /// Two machines have one address.
    #[error("machines {first} and {second} share the address {address}")]
    SharedAddress {
        /// The address.
        address: Ipv4Addr,
        /// One of them.
        first: Serial,
        /// The other.
        second: Serial,
    },
    /// Two machines have one index.
    #[error("machines {first} and {second} share index {index} of rack {rack}")]
    SharedIndex {
        /// The rack.
        rack: Rack,
        /// The index.
        index: u32,
        /// One of them.
        first: Serial,
        /// The other.
        second: Serial,
    },
    /// Two boot machines in a rack.
    #[error("rack {rack} has two boot machines, {first} and {second}")]
    TwoBootMachines {
        /// The rack.
        rack: Rack,
        /// One of them.
        first: Serial,
        /// The other.
        second: Serial,
    },
    /// The index list of a rack says something else than its machines.
    #[error("the index list of rack {rack} is {listed:?}, its machines have {used:?}")]
    IndexList {
        /// The rack.
        rack: Rack,
        /// What the list says, sorted.
        listed: Vec<u32>,
        /// What machines have, sorted.
        used: Vec<u32>,
    },
}

/// Every broken promise of a registry.
pub fn check_registry<'a>(
    machines: impl IntoIterator<Item = &'a Machine>,
    indices: &BTreeMap<Rack, Vec<u32>>,
) -> Vec<Inconsistency> {
    let mut found = Vec::new();
    let mut by_address: HashMap<Ipv4Addr, &Serial> = HashMap::new();
    let mut by_index: BTreeMap<(Rack, u32), &Serial> = BTreeMap::new();
    let mut boots: BTreeMap<Rack, &Serial> = BTreeMap::new();
    for machine in machines {
        let second = machine.serial.clone();
        for address in machine.ipv4().chain(machine.bmc.address()) {
            if let Some(first) = by_address.insert(address, &machine.serial) {
                found.push(Inconsistency::SharedAddress { address, first: first.clone(), second: second.clone() });
            }
        }
        let (rack, index) = (machine.rack, machine.index_in_rack);
        if let Some(first) = by_index.insert((rack, index), &machine.serial) {
            found.push(Inconsistency::SharedIndex { rack, index, first: first.clone(), second: second.clone() });
        }
        if machine.role.is_boot()
            && let Some(first) = boots.insert(rack, &machine.serial)
        {
            found.push(Inconsistency::TwoBootMachines { rack, first: first.clone(), second });
        }
    }
    let racks: BTreeSet<Rack> = by_index.keys().map(|(rack, _)| *rack).chain(indices.keys().copied()).collect();
    for rack in racks {
        let used: Vec<u32> = by_index.range((rack, 0)..=(rack, u32::MAX)).map(|((_, index), _)| *index).collect();
        let mut listed = indices.get(&rack).cloned().unwrap_or_default();
        listed.sort_unstable();
        if listed != used {
            found.push(Inconsistency::IndexList { rack, listed, used });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::{
        lifecycle::HealthState,
        machine::{Bmc, Labels, Nic, Status},
    };

    fn machine(serial: &str, role: &str, index: u32, last: u8) -> Machine {
        let nic =
            |third| Nic { address: Ipv4Addr::new(10, 0, third, last), maskbits: 24, gateway: Ipv4Addr::UNSPECIFIED };
        Machine {
            serial: serial.parse().expect("serial"),
            labels: Labels::default(),
            rack: Rack(1),
            index_in_rack: index,
            role: role.parse().expect("role"),
            nics: [nic(0)].into(),
            bmc: Bmc { kind: "x".parse().expect("type"), nic: nic(1) },
            register_date: Timestamp::UNIX_EPOCH,
            retire_date: Timestamp::UNIX_EPOCH.into(),
            status: Status { state: HealthState::Healthy, since: Timestamp::UNIX_EPOCH },
        }
    }

    #[test]
    fn each_broken_promise_is_named() {
        let check = |machines: &[Machine], listed: &[u32], expected: &[&str]| {
            let found = check_registry(machines, &BTreeMap::from([(Rack(1), listed.to_vec())]));
            let texts: Vec<_> = found.iter().map(ToString::to_string).collect();
            assert_eq!(texts, expected);
        };
        check(&[], &[], &[]);
        check(&[machine("a", "boot", 3, 3), machine("b", "w", 4, 4)], &[4, 3], &[]);
        check(
            &[machine("a", "w", 3, 3), machine("b", "w", 4, 3)],
            &[3, 4],
            &["machines a and b share the address 10.0.0.3", "machines a and b share the address 10.0.1.3"],
        );
        check(&[machine("a", "w", 3, 3), machine("b", "w", 3, 4)], &[3], &["machines a and b share index 3 of rack 1"]);
        check(
            &[machine("a", "boot", 3, 3), machine("b", "boot", 4, 4)],
            &[3, 4],
            &["rack 1 has two boot machines, a and b"],
        );
        let wrong_list = "the index list of rack 1 is [5], its machines have [3]";
        check(&[machine("a", "w", 3, 3)], &[5], &[wrong_list]);
        check(&[machine("a", "w", 3, 3)], &[], &["the index list of rack 1 is [], its machines have [3]"]);
        check(&[machine("a", "w", 3, 3)], &[3, 3], &["the index list of rack 1 is [3, 3], its machines have [3]"]);
    }
}
