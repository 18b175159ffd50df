//! Who is cautioned, in tables: by open incidents, by neighbours that have only just broken, and after coming back.

use std::collections::BTreeSet;

use jiff::SignedDuration;

use super::*;
use crate::{
    machine::{Labels, Rack},
    time::Moment,
};

fn now() -> Timestamp {
    "2026-11-18T00:00:00Z".parse().expect("a time")
}

fn seconds_ago(seconds: i64) -> Timestamp {
    now() - SignedDuration::from_secs(seconds)
}

/// `NAME RACK DOMAIN STATE SECONDS`; `-`: no power domain.
fn machine(text: &str) -> (ListedMachine, Traits) {
    let [name, rack, domain, state, seconds] = text.split(' ').collect::<Vec<_>>()[..] else { panic!("{text}") };
    let listed = ListedMachine {
        serial: name.parse().expect("a serial"),
        labels: Labels::default(),
        rack: Rack(rack.parse().expect("a rack")),
        index_in_rack: 0,
        role: "cs".parse().expect("a role"),
        machine_type: "type".to_owned(),
        address: None,
        register_date: Moment::from(now()),
        retire_date: Moment::from(now()),
        state: state.parse().expect("a state"),
        seconds_in_state: seconds.parse().expect("seconds"),
    };
    let traits = Traits {
        rack: listed.rack,
        role: "cs".to_owned(),
        machine_type: "type".to_owned(),
        version: Some("1".to_owned()),
        power_domain: (domain != "-").then(|| domain.to_owned()),
    };
    (listed, traits)
}

fn incident(number: u64, kind: GroupKind, value: &str, members: &[&str], phase: Phase) -> Incident {
    let members: BTreeSet<Serial> = members.iter().map(|serial| serial.parse().expect("a serial")).collect();
    Incident {
        number,
        group: Group { kind, value: value.to_owned() },
        opened_at: seconds_ago(600),
        because: String::new(),
        member_count: members.len(),
        members,
        phase,
    }
}

fn acknowledged() -> Phase {
    Phase::Acknowledged { by: "somebody".to_owned(), at: seconds_ago(60), reason: String::new() }
}

fn check(rules: &GuardRules, incidents: &[Incident], machines: &[&str], expected: &[&str]) {
    let known: Vec<(ListedMachine, Traits)> = machines.iter().map(|text| machine(text)).collect();
    let mut known: Vec<MachineTraits<'_>> =
        known.iter().map(|(machine, traits)| MachineTraits { machine, traits: traits.clone() }).collect();
    let mut incidents = incidents.to_vec();
    for _order in 0..2 {
        let facts = CautionFacts { rules, incidents: &incidents, machines: &known, now: now() };
        let told: Vec<String> =
            decide_cautions(&facts).iter().map(|(serial, caution)| format!("{serial}: {caution}")).collect();
        assert_eq!(told, expected, "{machines:?} {incidents:?}");
        known.reverse();
        incidents.reverse();
    }
}

#[test]
fn the_group_of_an_open_incident_is_cautioned() {
    let rules = GuardRules::default();
    let fleet = ["a 1 east healthy 9000", "b 2 east healthy 9000", "c 3 west healthy 9000", "d 1 - unreachable 9000"];
    let open = |kind, value| incident(7, kind, value, &["d"], Phase::Open);
    let told = |text: &str, serials: &[&str]| -> Vec<String> {
        serials.iter().map(|serial| format!("{serial}: {text} failed together (incident 7, open)")).collect()
    };
    for (kind, value, text, serials) in [
        (GroupKind::Rack, "1", "rack 1", &["a"][..]),
        (GroupKind::PowerDomain, "east", "power-domain east", &["a", "b"]),
        (GroupKind::Role, "cs", "role cs", &["a", "b", "c"]),
        (GroupKind::Fleet, "", "the whole fleet", &["a", "b", "c"]),
        (GroupKind::Version, "2", "version 2", &[]),
    ] {
        let expected = told(text, serials);
        check(&rules, &[open(kind, value)], &fleet, &expected.iter().map(String::as_str).collect::<Vec<_>>());
    }
    let both = [open(GroupKind::Rack, "1"), incident(5, GroupKind::PowerDomain, "east", &[], Phase::Open)];
    let first = "power-domain east failed together (incident 5, open)";
    check(&rules, &both, &fleet, &[&format!("a: {first}"), &format!("b: {first}")]);
    for phase in [acknowledged(), Phase::Recovered { at: seconds_ago(10) }] {
        check(&rules, &[incident(7, GroupKind::Rack, "1", &["d"], phase)], &fleet, &[]);
    }
    let off = GuardRules { enabled: false, ..rules };
    check(&off, &[open(GroupKind::Rack, "1")], &["a 1 - healthy 5", "b 1 - unreachable 5"], &[]);
}

#[test]
fn neighbours_of_a_machine_that_has_only_just_broken_are_cautioned() {
    let rules = GuardRules::default();
    let rack = "of rack 1 broke less than 300 s ago";
    let domain = "of power-domain east broke less than 300 s ago";
    for (broken, expected) in [
        ("x 1 - unreachable 0", vec![format!("a: x {rack}")]),
        ("x 1 - unhealthy 299.9", vec![format!("a: x {rack}")]),
        ("x 1 - unreachable -3", vec![format!("a: x {rack}")]),
        ("x 1 - unreachable 300", vec![]),
        ("x 1 - updating 0", vec![]),
        ("x 1 - retiring 0", vec![]),
        ("x 9 - unreachable 0", vec![]),
        ("x 9 east unreachable 0", vec![format!("a: x {domain}"), format!("b: x {domain}")]),
        ("x 1 east unreachable 0", vec![format!("a: x {rack}"), format!("b: x {domain}")]),
    ] {
        let fleet = ["a 1 east healthy 9000", "b 2 east healthy 9000", "c 3 - healthy 9000", broken];
        check(&rules, &[], &fleet, &expected.iter().map(String::as_str).collect::<Vec<_>>());
    }
    let fleet = ["a 1 - healthy 0", "y 1 - unreachable 0", "x 1 - unreachable 200"];
    check(&rules, &[], &fleet, &[&format!("a: x {rack}")]);
    let hasty = GuardRules { observe: Duration::ZERO, ..rules };
    check(&hasty, &[], &fleet, &[]);
}

#[test]
fn members_that_have_only_just_come_back_are_cautioned() {
    let rules = GuardRules::default();
    let fleet = ["a 1 - healthy 299", "b 1 - healthy 300", "c 2 - healthy 10", "d 1 - healthy 10"];
    let told = |phase: &str| {
        ["a", "c"].map(|serial| {
            format!("{serial}: it came back less than 300 s ago after rack 1 failed together (incident 7, {phase})")
        })
    };
    // `c` was moved to another rack meanwhile; `d` was never broken.
    for (phase, is_cautioned) in [
        (acknowledged(), true),
        (Phase::Recovered { at: seconds_ago(299) }, true),
        (Phase::Recovered { at: seconds_ago(300) }, false),
        (Phase::Recovered { at: seconds_ago(-10) }, true),
        (Phase::Recovered { at: seconds_ago(-400) }, false),
    ] {
        let name = phase.as_str();
        let one = incident(7, GroupKind::Rack, "1", &["a", "b", "c"], phase);
        let (told, none) = (told(name), []);
        let expected: &[String] = if is_cautioned { &told } else { &none };
        check(&rules, &[one], &fleet, &expected.iter().map(String::as_str).collect::<Vec<_>>());
    }
    let moved = incident(7, GroupKind::Rack, "1", &["c"], Phase::Open);
    check(&rules, &[moved], &["c 2 - healthy 10"], &told("open")[1..].iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn an_incident_is_named_where_there_is_one() {
    let group = || Group { kind: GroupKind::Rack, value: "1".to_owned() };
    let observe = Duration::from_secs(300);
    let serial: Serial = "x".parse().expect("a serial");
    assert_eq!(PlannerCaution::GroupFailed { incident: 7, group: group() }.incident(), Some(7));
    let back = PlannerCaution::JustBack { incident: 8, group: group(), phase: "open", observe };
    assert_eq!(back.incident(), Some(8));
    assert_eq!(PlannerCaution::NeighbourBroken { group: group(), serial, observe }.incident(), None);
}
