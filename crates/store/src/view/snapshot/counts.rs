//! How many machines there are of each kind, found out from the indexes without looking at a single machine.

use std::collections::BTreeMap;

use sabakan_domain::{lifecycle::HealthState, machine::Rack, words::Role};

use super::Snapshot;

/// Machines by state, in the order of [`HealthState::ALL`].
pub type ByState = [u64; HealthState::ALL.len()];

/// How many machines there are.
#[derive(Debug, PartialEq, Eq)]
pub struct Counts<'a> {
    /// By state.
    pub by_state: ByState,
    /// By role and state.
    pub by_role: BTreeMap<&'a Role, ByState>,
    /// By rack and state.
    pub by_rack: BTreeMap<Rack, ByState>,
}

impl Snapshot {
    /// Counts the machines by state, role and rack.
    pub fn counts(&self) -> Counts<'_> {
        let mut counts = Counts { by_state: ByState::default(), by_role: BTreeMap::new(), by_rack: BTreeMap::new() };
        // Small enough to stay in the processor's cache while the other indexes are gone through.
        let mut states = vec![0_u8; self.table.room()];
        for (place, state) in (0_u8..).zip(HealthState::ALL) {
            for slot in self.by_state.find(&state) {
                states[slot as usize] = place;
                counts.by_state[usize::from(place)] += 1;
            }
        }
        let add = |sums: &mut ByState, slots: &mut dyn Iterator<Item = u32>| {
            slots.for_each(|slot| sums[usize::from(states[slot as usize])] += 1);
        };
        for (role, mut slots) in self.by_role.runs() {
            add(counts.by_role.entry(role).or_default(), &mut slots);
        }
        for (rack, mut slots) in self.by_rack.runs() {
            add(counts.by_rack.entry(*rack).or_default(), &mut slots);
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use jiff::Timestamp;
    use sabakan_domain::{
        machine::{Bmc, Labels, Machine, Nic, Status},
        words::{BmcType, Serial},
    };

    use super::*;

    fn machine(n: usize, rack: usize, role: usize, state: usize) -> Machine {
        let nic = Nic { address: Ipv4Addr::UNSPECIFIED, maskbits: 8, gateway: Ipv4Addr::UNSPECIFIED };
        Machine {
            serial: Serial::new(format!("m{n}")).expect("a serial"),
            labels: Labels::default(),
            rack: Rack(u32::try_from(rack).expect("small")),
            index_in_rack: 0,
            role: Role::new(format!("r{role}")).expect("a role"),
            nics: [nic].into(),
            bmc: Bmc { kind: BmcType::unknown(), nic },
            register_date: Timestamp::UNIX_EPOCH,
            retire_date: "2030-01-01T00:00:00Z".parse().expect("a date"),
            status: Status { state: HealthState::ALL[state], since: Timestamp::UNIX_EPOCH },
        }
    }

    /// The same, one machine after the other.
    fn counted<'a>(machines: impl Iterator<Item = &'a Machine>) -> Counts<'a> {
        let mut counts = Counts { by_state: ByState::default(), by_role: BTreeMap::new(), by_rack: BTreeMap::new() };
        for machine in machines {
            let state = HealthState::ALL.iter().position(|state| *state == machine.status.state).expect("a state");
            counts.by_state[state] += 1;
            counts.by_role.entry(&machine.role).or_default()[state] += 1;
            counts.by_rack.entry(machine.rack).or_default()[state] += 1;
        }
        counts
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig::with_cases(48))]
        #[test]
        fn counts_and_walks_are_those_of_the_machines(
            steps in proptest::collection::vec((0_usize..600, 0_usize..50, 0_usize..5, 0_usize..8), 0..900),
            from in 0_usize..900,
        ) {
            let (mut snapshot, mut model) = (Snapshot::default(), BTreeMap::new());
            for (n, rack, role, state) in steps {
                // One in eight goes.
                if state == HealthState::ALL.len() {
                    snapshot.remove_machine(&format!("m{n}"));
                    model.remove(&n);
                } else {
                    snapshot.put_machine(machine(n, rack, role, state));
                    model.insert(n, machine(n, rack, role, state));
                }
            }
            proptest::prop_assert_eq!(snapshot.counts(), counted(model.values()));
            let whole: Vec<_> = snapshot.walk(0).map(|(slot, machine)| (slot, machine.serial.clone())).collect();
            proptest::prop_assert_eq!(whole.len(), model.len());
            proptest::prop_assert!(whole.is_sorted_by(|a, b| a.0 < b.0));
            let rest: Vec<_> = snapshot.walk(from).map(|(slot, machine)| (slot, machine.serial.clone())).collect();
            proptest::prop_assert!(rest.iter().eq(whole.iter().filter(|(slot, _)| *slot >= from)));
        }
    }
}
