//! Index-driven search against a plain scan, and bookkeeping of slots.

use std::collections::BTreeMap;

use jiff::Timestamp;
use proptest::prelude::*;
use sabakan_domain::{
    machine::{Bmc, Labels, Nic, Status},
    query::{Criteria, DaysLeft, LabelCondition},
};

use super::*;

fn machine(serial: u8, rack: u32, role: u8, state: usize, label: u8) -> Machine {
    let nic = |third| Nic {
        address: Ipv4Addr::new(10, third, u8::try_from(rack).unwrap_or(0), serial),
        maskbits: 24,
        gateway: Ipv4Addr::UNSPECIFIED,
    };
    Machine {
        serial: format!("s{serial}").parse().expect("serial"),
        labels: Labels::new([("k", format!("v{label}")), ("all", "x".into())]).expect("labels"),
        rack: Rack(rack),
        index_in_rack: u32::from(serial),
        role: format!("r{role}").parse().expect("role"),
        nics: [nic(0), nic(1)].into(),
        bmc: Bmc { kind: format!("b{role}").parse().expect("type"), nic: nic(2) },
        register_date: Timestamp::UNIX_EPOCH,
        retire_date: date(i64::from(serial) * 12).into(),
        status: Status { state: HealthState::ALL[state % 7], since: Timestamp::UNIX_EPOCH },
    }
}

fn date(hours: i64) -> Timestamp {
    Timestamp::from_second(hours * 60 * 60).expect("a time")
}

fn days_left() -> impl Strategy<Value = DaysLeft> {
    (-20i64..20, 0i64..480).prop_map(|(at_least, hours)| DaysLeft { at_least, now: date(hours) })
}

fn criteria() -> impl Strategy<Value = Criteria> {
    let some = |what: BoxedStrategy<String>| prop::option::weighted(0.3, prop::collection::vec(what, 0..3));
    let labels = prop::collection::vec(
        prop_oneof![(0u8..4).prop_map(|v| ("k".to_owned(), format!("v{v}"))), Just(("all".to_owned(), "x".to_owned()))],
        0..3,
    );
    let labels = (any::<bool>(), labels)
        .prop_map(|(all, pairs)| if all { LabelCondition::AllOf(pairs) } else { LabelCondition::AnyOf(pairs) });
    (
        prop::option::weighted(0.3, prop::collection::vec((0u32..5).prop_map(Rack), 0..3)),
        some((0u8..4).prop_map(|r| format!("r{r}")).boxed()),
        some((0u8..4).prop_map(|r| format!("b{r}")).boxed()),
        prop::option::weighted(0.3, prop::collection::vec((0usize..7).prop_map(|s| HealthState::ALL[s]), 0..3)),
        prop::option::weighted(
            0.3,
            prop::collection::vec((0u8..3, 0u8..4, 0u8..40).prop_map(|(a, r, s)| Ipv4Addr::new(10, a, r, s)), 0..3),
        ),
        labels,
        prop::option::weighted(0.3, days_left()),
    )
        .prop_map(|(racks, roles, bmc_types, states, ipv4, labels, days_left)| Criteria {
            racks,
            roles,
            bmc_types,
            states,
            ipv4,
            labels,
            days_left,
            ..Criteria::default()
        })
}

/// Whether a search means a machine, written a second time as the specification says it: condition by condition, value by value.
fn naive(query: &Query, machine: &Machine) -> bool {
    // What each condition says; `None`: it is not given.
    let verdicts = |criteria: &Criteria| {
        let has = |(name, value): &(String, String)| {
            machine.labels.iter().any(|(n, v)| (n.as_str(), v.as_str()) == (name.as_str(), value.as_str()))
        };
        let labels = match &criteria.labels {
            LabelCondition::AllOf(pairs) | LabelCondition::AnyOf(pairs) if pairs.is_empty() => None,
            LabelCondition::AllOf(pairs) => Some(pairs.iter().filter(|pair| has(pair)).count() == pairs.len()),
            LabelCondition::AnyOf(pairs) => Some(pairs.iter().any(has)),
        };
        let days = criteria.days_left.map(|days| {
            let seconds = machine.retire_date.timestamp().as_second() - days.now.as_second();
            seconds / (24 * 60 * 60) >= days.at_least
        });
        let own: Vec<Ipv4Addr> = machine.nics.iter().map(|nic| nic.address).collect();
        vec![
            criteria.serials.as_ref().map(|list| list.contains(&machine.serial.to_string())),
            criteria.racks.as_ref().map(|list| list.contains(&machine.rack)),
            criteria.indices.as_ref().map(|list| list.contains(&machine.index_in_rack)),
            criteria.roles.as_ref().map(|list| list.contains(&machine.role.to_string())),
            criteria.bmc_types.as_ref().map(|list| list.contains(&machine.bmc.kind.to_string())),
            criteria.states.as_ref().map(|list| list.contains(&machine.status.state)),
            criteria.ipv4.as_ref().map(|list| list.iter().any(|address| own.contains(address))),
            criteria.ipv6.as_ref().map(|_| false),
            labels,
            days,
        ]
    };
    !verdicts(&query.having).contains(&Some(false)) && !verdicts(&query.not_having).contains(&Some(true))
}

proptest! {
    #[test]
    fn index_driven_search_equals_a_plain_scan(
        steps in prop::collection::vec((any::<bool>(), 0u8..40, 0u32..4, 0u8..4, 0usize..7, 0u8..4), 0..120),
        queries in prop::collection::vec((criteria(), criteria()), 1..20),
    ) {
        let (mut snapshot, mut model) = (Snapshot::default(), BTreeMap::new());
        for (put, serial, rack, role, state, label) in steps {
            let machine = machine(serial, rack, role, state, label);
            if put {
                snapshot.put_machine(machine.clone());
                model.insert(machine.serial.clone(), machine);
            } else {
                snapshot.remove_machine(machine.serial.as_str());
                model.remove(&machine.serial);
            }
        }
        prop_assert_eq!(snapshot.machine_count(), model.len());
        for (having, not_having) in queries {
            let query = Query { having, not_having };
            let found: Vec<Machine> = snapshot.search(&query).iter().map(|m| Machine::clone(m)).collect();
            let expected: Vec<Machine> = model.values().filter(|m| naive(&query, m)).cloned().collect();
            prop_assert_eq!(found, expected, "{:?}", query);
        }
    }
}

#[test]
fn a_snapshot_does_not_change_under_its_reader() {
    let mut snapshot = Snapshot::default();
    for serial in 0..200 {
        snapshot.put_machine(machine(serial, 0, 0, 0, 0));
    }
    let kept = snapshot.clone();
    for serial in 0..100 {
        snapshot.remove_machine(&format!("s{serial}"));
    }
    snapshot.put_machine(machine(201, 3, 1, 1, 1));
    assert_eq!((kept.machine_count(), snapshot.machine_count()), (200, 101));
    assert_eq!(kept.search(&Query::default()).len(), 200);
    assert!(kept.find_machine("s201").is_none() && snapshot.find_machine("s201").is_some());
}

#[test]
fn a_search_by_serials_keeps_their_order_and_repetitions() {
    let mut snapshot = Snapshot::default();
    for serial in 1..4 {
        snapshot.put_machine(machine(serial, 0, 0, 0, 0));
    }
    let serials = ["s3", "s1", "nobody", "s3"].map(str::to_owned).to_vec();
    let query = Query { having: Criteria { serials: Some(serials), ..Criteria::default() }, ..Query::default() };
    let found: Vec<_> = snapshot.search(&query).iter().map(|m| m.serial.to_string()).collect();
    assert_eq!(found, ["s3", "s1", "s3"]);
}

#[test]
fn addresses_of_machines_and_controllers_are_found() {
    let mut snapshot = Snapshot::default();
    snapshot.put_machine(machine(7, 2, 0, 0, 0));
    for (address, expected) in [("10.0.2.7", true), ("10.1.2.7", true), ("10.2.2.7", true), ("10.3.2.7", false)] {
        assert_eq!(snapshot.find_by_address(address.parse().expect(address)).is_some(), expected, "{address}");
    }
}

/// Whichever condition is the selective one, only the machines under it are looked at.
#[test]
fn a_selective_condition_spares_the_scan() {
    let mut snapshot = Snapshot::default();
    for serial in 0..200 {
        snapshot.put_machine(machine(serial, u32::from(serial) / 10, serial / 10, 0, serial / 10));
    }
    snapshot.put_machine(machine(201, 30, 30, 6, 30));
    let cost = |having: Criteria| {
        let query = Query { having, ..Query::default() };
        (snapshot.plan(&query).cost(), snapshot.search(&query).len())
    };
    let label = |value: &str| ("k".to_owned(), value.to_owned());
    let all = ("all".to_owned(), "x".to_owned());
    let texts = |text: &str| Some(vec![text.to_owned()]);
    let serials = Criteria { serials: texts("s7"), ..Criteria::default() };
    let racks = Criteria { racks: Some(vec![Rack(3)]), ..Criteria::default() };
    let roles = Criteria { roles: texts("r4"), states: Some(vec![HealthState::ALL[0]]), ..Criteria::default() };
    let states = Criteria { states: Some(vec![HealthState::ALL[6]]), ..Criteria::default() };
    let both = LabelCondition::AllOf(vec![all.clone(), label("v5")]);
    let either = LabelCondition::AnyOf(vec![label("v5"), label("v6")]);
    assert_eq!(cost(serials), (1, 1));
    assert_eq!(cost(racks), (10, 10));
    assert_eq!(cost(roles), (10, 10));
    assert_eq!(cost(states), (1, 1));
    assert_eq!(cost(Criteria { labels: both, ..Criteria::default() }), (10, 10));
    assert_eq!(cost(Criteria { labels: either, ..Criteria::default() }), (20, 20));
    assert_eq!(cost(Criteria { labels: LabelCondition::AnyOf(vec![all]), ..Criteria::default() }), (201, 201));
    assert_eq!(cost(Criteria::default()), (201, 201));
}

/// A search nobody waits for any more ends soon, also one that finds nothing.
#[test]
fn a_search_stops_when_nobody_wants_it() {
    let mut snapshot = Snapshot::default();
    for n in 0..2 * LOOKED_AT_ONCE {
        let machine = machine(0, 0, 0, 0, 0);
        snapshot.put_machine(Machine { serial: format!("m{n}").parse().expect("serial"), ..machine });
    }
    let nothing = Criteria { indices: Some(vec![99]), ..Criteria::default() };
    for query in [Query::default(), Query { having: nothing, ..Query::default() }] {
        let asked = std::cell::Cell::new(0);
        let wanted = || {
            asked.set(asked.get() + 1);
            false
        };
        assert_eq!(snapshot.search_while(&query, snapshot.plan(&query), wanted), None);
        assert_eq!(asked.get(), 1);
        assert!(snapshot.search_while(&query, snapshot.plan(&query), || true).is_some());
    }
}

#[test]
fn a_node_nobody_described_is_found_by_its_identifier_while_its_machine_is_there() {
    let mut snapshot = Snapshot::default();
    let id = |serial: u8| implied_id(&format!("s{serial}").parse().expect("serial"));
    let found =
        |snapshot: &Snapshot, serial| snapshot.find_node_by_id(id(serial)).map(|node| node.name.as_str().to_owned());
    for serial in [1, 2, 3] {
        snapshot.put_machine(machine(serial, 0, 0, 0, 0));
    }
    snapshot.put_machine(machine(2, 1, 1, 1, 1));
    assert_eq!((found(&snapshot, 2).as_deref(), found(&snapshot, 9)), (Some("s2"), None));
    snapshot.remove_machine("s2");
    assert_eq!((found(&snapshot, 2), found(&snapshot, 3).as_deref()), (None, Some("s3")));
    // Its slot goes to another machine, its identifier does not.
    snapshot.put_machine(machine(4, 0, 0, 0, 0));
    assert_eq!((found(&snapshot, 2), found(&snapshot, 4).as_deref()), (None, Some("s4")));
}
