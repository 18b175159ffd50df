//! Ways in which a power cut could end in repairs although the guard watches. Each was one once.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::Ipv4Addr,
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use sabakan_domain::{
    lifecycle::HealthState,
    machine::Rack,
    repair::{
        enqueue::{self, Decision, Limits, Verdict},
        entry::{Backoff, Entry, Status, StepStatus},
        guard::{Census, Failure, Group, GroupKind, GuardRules, SecondOpinion, Traits},
        incident::{self, Incident, Judgement, Phase},
        procedure::Procedures,
        queue,
        round::{self, Round},
    },
    words::Serial,
};
use serde_json::json;

fn now() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().expect("a time")
}

fn ago(seconds: i64) -> Timestamp {
    now() - SignedDuration::from_secs(seconds)
}

/// Ten racks of 28 hang on one power domain.
fn traits(n: u32) -> Traits {
    Traits {
        rack: Rack(n / 28),
        role: "cs".to_owned(),
        machine_type: "type1".to_owned(),
        version: None,
        power_domain: Some(format!("pdu{}", n / 280)),
    }
}

fn failures(numbers: impl Iterator<Item = u32>, seconds: u64) -> Vec<Failure> {
    let failure = |n: u32| Failure {
        serial: Serial::new(format!("m{n:05}")).expect("a serial"),
        address: Some(Ipv4Addr::from(n + 1)),
        state: HealthState::Unreachable,
        age: Duration::from_secs(seconds),
        traits: traits(n),
        opinion: SecondOpinion::default(),
        broken_before: Duration::ZERO,
        hands_off: None,
    };
    numbers.map(failure).collect()
}

fn incident(kind: GroupKind, value: &str, members: &[Failure], phase: Phase) -> Incident {
    Incident {
        number: 4,
        group: Group { kind, value: value.to_owned() },
        opened_at: ago(4_000),
        because: String::new(),
        members: members.iter().map(|failure| failure.serial.clone()).collect(),
        member_count: members.len(),
        phase,
    }
}

fn procedures() -> Procedures {
    let step = json!({ "action": "power-cycle" });
    let operation = json!({ "operation": "unreachable", "health_check_command": ["check"], "repair_steps": [step] });
    let procedure = json!({ "machine_types": ["type1"], "repair_operations": [operation] });
    let document = json!({ "repair": { "repair_procedures": [procedure] } });
    Procedures::of(document.as_object().expect("an object"))
}

/// The judgement, and how many come into an empty queue with room for five.
fn judged(failures: &[Failure], incidents: &[Incident]) -> (Judgement, usize) {
    let all: Vec<Traits> = (0..2_800).map(traits).collect();
    let (census, rules, procedures) = (Census::of(&all), GuardRules::default(), procedures());
    let cluster: BTreeSet<Ipv4Addr> = (0..2_800_u32).map(|n| Ipv4Addr::from(n + 1)).collect();
    let (queue, reboots, wait_rebooting) = (&[], &[], Duration::ZERO);
    let judgement = incident::judge(
        failures,
        &incident::Around { census: &census, incidents, queue, reboots, wait_rebooting, rules: &rules, now: now() },
    );
    let limits = Limits { entries_max: 5, wait_rebooting, finished_counts: None, guard: &rules };
    let cluster = Some(&cluster);
    let procedures = &procedures;
    let around = enqueue::Around { queue, reboots, cluster, procedures, judgement: &judgement, limits, now: now() };
    let decision = enqueue::decide(failures, &around);
    let enqueued = decision.verdicts.iter().filter(|(_, verdict)| *verdict == Verdict::Enqueue).count();
    (judgement, enqueued)
}

/// Whether a step is begun for a machine that came into the queue before its rack failed.
fn is_begun(failure: &Failure, judgement: &Judgement) -> bool {
    let entry = Entry {
        index: 1,
        address: failure.address.expect("an address"),
        serial: Some(failure.serial.clone()),
        machine_type: "type1".to_owned(),
        operation: "unreachable".to_owned(),
        status: Status::Queued,
        step: 0,
        step_status: StepStatus::Waiting,
        deleted: false,
        changed_at: None,
        backoff: Backoff::default(),
        created_at: ago(100),
        asked_by: String::new(),
        note: String::new(),
    };
    let (nobody, procedures) = (BTreeSet::new(), procedures());
    let next = queue::next(&queue::Around {
        entries: &[entry],
        enabled: true,
        procedures: &procedures,
        nodes: &BTreeMap::new(),
        healthy: &nobody,
        unchecked: &BTreeSet::new(),
        powered: &BTreeSet::new(),
        drained: &nobody,
        gone: &BTreeMap::new(),
        lost: &BTreeMap::new(),
        cordoned: &nobody,
        reboots: &[],
        judgement,
        hands_off: &BTreeMap::new(),
        running: &BTreeSet::new(),
        blocked: None,
        now: now(),
    });
    !next.acts.is_empty()
}

#[test]
fn power_that_comes_back_for_a_moment_does_not_end_the_watch() {
    // The incident was over 401 seconds ago; 100 seconds later the rack was dark again.
    let rack = failures(28..56, 301);
    let (judgement, enqueued) =
        judged(&rack, &[incident(GroupKind::Rack, "1", &rack, Phase::Recovered { at: ago(401) })]);
    assert_eq!((judgement.opened.len(), judgement.held.len(), enqueued), (1, 28, 0));
}

#[test]
fn a_rack_that_stays_dark_when_its_power_domain_returns_is_held_by_itself() {
    let (domain, rest) = (failures(0..280, 3_600), failures(28..56, 3_600));
    let open = incident(GroupKind::PowerDomain, "pdu0", &domain, Phase::Open);
    let (judgement, enqueued) = judged(&rest, std::slice::from_ref(&open));
    assert_eq!((judgement.recovered.as_slice(), enqueued), (&[4][..], 0));
    assert_eq!(judgement.opened[0].group.to_string(), "rack 1");
    assert!(!is_begun(&rest[0], &judgement));
    // Also if nobody noticed when it was over.
    let over = Incident { phase: Phase::Recovered { at: ago(301) }, ..open.clone() };
    assert_eq!(judged(&rest, &[over]).1, 0);
    // Once it has an incident of its own, that is the only one.
    let own = Incident { number: 5, ..incident(GroupKind::Rack, "1", &rest, Phase::Open) };
    let (judgement, enqueued) = judged(&rest, &[open, own]);
    assert_eq!((judgement.opened.len(), judgement.held.len(), enqueued), (0, 28, 0));
}

#[test]
fn what_failed_while_nobody_looked_failed_together_all_the_same() {
    let (judgement, enqueued) = judged(&failures(28..56, 25 * 3_600), &[]);
    assert_eq!((judgement.opened.len(), enqueued), (1, 0));
}

#[test]
fn time_alone_ends_no_incident() {
    let rack = failures(28..56, 7 * 86_400 + 1);
    let (judgement, enqueued) = judged(&rack, &[incident(GroupKind::Rack, "1", &rack, Phase::Open)]);
    assert_eq!((judgement.recovered.len(), enqueued), (0, 0));
    assert!(!is_begun(&rack[0], &judgement));
}

#[test]
fn what_a_person_acknowledged_hides_nothing_that_fails_later() {
    let all = failures(0..2_700, 3_600);
    let phase = Phase::Acknowledged { by: "operator".to_owned(), at: ago(3_000), reason: String::new() };
    let known = incident(GroupKind::Fleet, "", &all, phase);
    // A tenth has been broken ever since. A rack that had come back loses power.
    let mut broken = failures((0..300).map(|n| n * 9).filter(|n| n / 28 != 1), 3_600);
    let rack = failures(28..56, 360);
    broken.extend(rack.iter().cloned());
    let (judgement, _) = judged(&broken, &[known]);
    assert!(rack.iter().all(|failure| judgement.held.contains_key(&failure.serial)));
    assert!(broken[..100].iter().all(|failure| !judgement.held.contains_key(&failure.serial)));
}

#[test]
fn a_machine_that_is_called_healthy_for_a_moment_is_held_with_its_rack() {
    let rack = failures(28..56, 600);
    let open = incident(GroupKind::Rack, "1", &rack, Phase::Open);
    let (judgement, _) = judged(&rack[1..], std::slice::from_ref(&open));
    assert!(!is_begun(&rack[0], &judgement));
    // And when all of them are, for a while.
    let (judgement, _) = judged(&[], &[open]);
    assert_eq!(judgement.recovered, [4]);
    assert!(!is_begun(&rack[0], &judgement));
}

/// Judges again and again and writes down what comes of it, as the enqueuer does; how many incidents are opened.
fn rounds(failures: &[Failure], incidents: &mut Vec<Incident>, count: usize) -> usize {
    let before = incidents.len();
    for _ in 0..count {
        let (judgement, _) = judged(failures, incidents);
        let decision = Decision::default();
        let (judgement, decision, now) = (&judgement, &decision, now());
        let around = round::Around { judgement, decision, automatic: true, incidents, failures, now };
        let Round { opened, changed, .. } = Round::of(&around);
        for incident in changed {
            let place = incidents.iter().position(|known| known.number == incident.number);
            incidents[place.expect("one that is kept")] = incident;
        }
        for incident in opened {
            let number = 100 + u64::try_from(incidents.len()).expect("few");
            incidents.push(Incident { number, ..incident });
        }
    }
    incidents.len() - before
}

#[test]
fn one_cut_is_one_incident() {
    let rack = failures(28..56, 60);
    let over = |at| incident(GroupKind::Rack, "1", &rack, Phase::Recovered { at });
    // Dark again while the group settles.
    let mut again = vec![over(ago(100))];
    assert_eq!(rounds(&rack, &mut again, 20), 1);
    // A person releases the new one, and the old one does not hold it again.
    again[1].phase = Phase::Acknowledged { by: "operator".to_owned(), at: ago(5), reason: String::new() };
    assert_eq!(rounds(&rack, &mut again, 20), 0);
    assert!(!judged(&rack, &again).0.held.contains_key(&rack[0].serial));
}

#[test]
fn what_a_person_releases_is_not_held_as_the_rest_of_something_older() {
    let (domain, rest) = (failures(0..280, 3_600), failures(28..56, 3_600));
    let mut incidents = vec![incident(GroupKind::PowerDomain, "pdu0", &domain, Phase::Open)];
    assert_eq!(rounds(&rest, &mut incidents, 5), 1);
    incidents[1].phase = Phase::Acknowledged { by: "operator".to_owned(), at: now(), reason: String::new() };
    assert_eq!(rounds(&rest, &mut incidents, 5), 0);
}

#[test]
fn less_than_half_of_a_rack_that_stays_dark_is_a_group_all_the_same() {
    let all = failures(0..2_800, 3_600);
    // The monitor was blind; one feed of a rack is dead besides, and a few machines are broken elsewhere.
    let left = failures((28..41).chain((0..20).map(|n| 100 + 130 * n)), 3_600);
    let open = incident(GroupKind::Fleet, "", &all, Phase::Open);
    let (judgement, _) = judged(&left, &[open]);
    assert_eq!(judgement.recovered, [4]);
    assert_eq!(judgement.opened.iter().map(|found| found.group.to_string()).collect::<Vec<_>>(), ["rack 1"]);
}

#[test]
fn a_clock_that_was_set_back_releases_nobody() {
    let rack = failures(28..56, 600);
    for ahead in [-60, -100_000] {
        let over = incident(GroupKind::Rack, "1", &rack, Phase::Recovered { at: ago(ahead) });
        let (judgement, enqueued) = judged(&rack, &[over]);
        assert_eq!((judgement.held.len(), enqueued), (28, 0), "{ahead}");
    }
}

#[test]
fn another_label_ends_no_incident() {
    let rack = failures(28..56, 600);
    let mut incidents = vec![incident(GroupKind::PowerDomain, "old-name", &rack, Phase::Open)];
    assert_eq!(rounds(&rack, &mut incidents, 10), 0);
    assert!(incidents[0].is_open());
}

#[test]
fn a_monitor_that_sees_again_slowly_has_not_recovered() {
    let all = failures(0..2_800, 3_600);
    let open = incident(GroupKind::Fleet, "", &all, Phase::Open);
    let left = |count: u32| failures((0..count).map(|n| n * 2_800 / count), 3_600);
    // A tenth is not seen yet, here and there.
    let (judgement, enqueued) = judged(&left(280), std::slice::from_ref(&open));
    assert_eq!((judgement.recovered.len(), judgement.held.len(), enqueued), (0, 2_800, 0));
    // As many as break on any day.
    assert_eq!(judged(&left(50), &[open]).0.recovered, [4]);
}

#[test]
fn an_incident_has_every_machine_that_is_held_for_it() {
    // Two were broken long before the others.
    let mut rack = failures(28..54, 60);
    rack.extend(failures(54..56, 86_400));
    let mut incidents = Vec::new();
    assert_eq!(rounds(&rack, &mut incidents, 1), 1);
    let (judgement, _) = judged(&rack, &[]);
    assert_eq!((judgement.opened[0].members.len(), judgement.held.len()), (26, 28));
    assert_eq!((incidents[0].members.len(), incidents[0].member_count), (28, 28));
}
