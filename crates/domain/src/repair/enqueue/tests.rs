//! The cases and the example of the specification, without the guard; then what the guard changes.

use serde_json::json;

use super::*;
use crate::{
    machine::Rack,
    repair::{
        entry::{Backoff, StepStatus},
        guard::{Census, SecondOpinion, Traits},
        incident,
        reboot::RebootStatus,
    },
};

const NOW: &str = "2026-01-01T00:00:00Z";

fn now() -> Timestamp {
    NOW.parse().expect("a time")
}

fn traits(rack: u32) -> Traits {
    Traits { rack: Rack(rack), role: "cs".into(), machine_type: "type1".into(), version: None, power_domain: None }
}

fn failure(n: u32, state: HealthState, seconds: u64) -> Failure {
    Failure {
        serial: Serial::new(format!("m{n:03}")).expect("a serial"),
        address: Some(Ipv4Addr::new(10, 0, 0, u8::try_from(n % 250).expect("small"))),
        state,
        age: Duration::from_secs(seconds),
        traits: traits(n),
        opinion: SecondOpinion::default(),
        broken_before: Duration::ZERO,
        hands_off: None,
    }
}

/// The machines of the specification's table.
fn known(name: char) -> Failure {
    match name {
        'A' => failure(1, HealthState::Unreachable, 30),
        'B' => failure(2, HealthState::Unhealthy, 30),
        'C' => failure(3, HealthState::Unreachable, 3_000),
        'D' => failure(4, HealthState::Unreachable, 30),
        'N' => Failure { address: None, ..failure(5, HealthState::Unreachable, 30) },
        other => panic!("there is no machine {other}"),
    }
}

fn entry(index: u64, address: Ipv4Addr, status: Status) -> Entry {
    Entry {
        index,
        address,
        serial: None,
        machine_type: "type1".into(),
        operation: "any".into(),
        status,
        step: 0,
        step_status: StepStatus::Waiting,
        deleted: false,
        changed_at: Some(now()),
        backoff: Backoff::default(),
        created_at: now(),
        asked_by: String::new(),
        note: String::new(),
    }
}

fn procedures() -> Procedures {
    let operation = |name: &str| json!({ "operation": name, "health_check_command": ["check"], "repair_steps": [{ "action": "power-cycle" }] });
    let document = json!({ "repair": { "repair_procedures": [
        { "machine_types": ["type1"], "repair_operations": [operation("unhealthy"), operation("unreachable")] },
    ] } });
    Procedures::of(document.as_object().expect("an object"))
}

struct World {
    queue: Vec<Entry>,
    reboots: Vec<RebootEntry>,
    cluster: Option<BTreeSet<Ipv4Addr>>,
    max: u32,
    wait: Duration,
    finished_counts: Option<Duration>,
    guard: GuardRules,
    judgement: Judgement,
}

impl World {
    /// The limits of the specification's table, without the guard.
    fn plain() -> World {
        World {
            queue: Vec::new(),
            reboots: Vec::new(),
            cluster: Some("ABCD".chars().filter_map(|name| known(name).address).collect()),
            max: 3,
            wait: Duration::from_secs(300),
            finished_counts: None,
            guard: GuardRules { enabled: false, ..GuardRules::default() },
            judgement: Judgement::default(),
        }
    }

    fn decide(&self, failures: &[Failure]) -> Decision {
        let procedures = procedures();
        decide(
            failures,
            &Around {
                queue: &self.queue,
                reboots: &self.reboots,
                cluster: self.cluster.as_ref(),
                procedures: &procedures,
                judgement: &self.judgement,
                limits: Limits {
                    entries_max: self.max,
                    wait_rebooting: self.wait,
                    finished_counts: self.finished_counts,
                    guard: &self.guard,
                },
                now: now(),
            },
        )
    }
}

#[test]
fn the_cases_of_the_specification() {
    let check = |failed: &str, queued: &str, reboots: &[(char, RebootStatus)], in_cluster: bool, expected: &str| {
        let mut world = World::plain();
        let address = |name: char| known(name).address.expect("an address");
        world.queue =
            queued.chars().zip(1..).map(|(name, index)| entry(index, address(name), Status::Queued)).collect();
        let reboot = |(index, (name, status)): (u64, &(char, RebootStatus))| RebootEntry {
            index,
            node: address(*name),
            status: *status,
            changed_at: None,
            backoff: Backoff::default(),
            note: String::new(),
        };
        world.reboots = (1..).zip(reboots).map(reboot).collect();
        if !in_cluster {
            world.cluster = Some(BTreeSet::new());
        }
        let failures: Vec<Failure> = failed.chars().map(known).collect();
        let found: Vec<Serial> = world.decide(&failures).enqueue.into_iter().filter_map(|new| new.serial).collect();
        let expected: Vec<Serial> = expected.chars().map(|name| known(name).serial).collect();
        assert_eq!(found, expected, "{failed} beside {queued}, {reboots:?}");
    };
    use RebootStatus::{Cancelled, Draining, Queued, Rebooting};
    check("", "B", &[], true, "");
    check("A", "B", &[], true, "A");
    check("NA", "B", &[], true, "A");
    check("ABC", "B", &[], true, "AC");
    check("ABC", "BD", &[], true, "");
    check("A", "", &[('A', Rebooting)], true, "");
    check("B", "", &[('B', Rebooting)], true, "B");
    check("C", "", &[('C', Rebooting)], true, "C");
    check("D", "", &[('D', Draining)], true, "D");
    check("A", "", &[], false, "");
    check("B", "", &[], false, "B");
    check("C", "", &[], false, "C");
    check("ABC", "", &[], true, "ABC");
    check("ABCD", "", &[], true, "");
    check("ABCD", "", &[('A', Rebooting)], true, "BCD");
    // Only the first entry of a node counts, and only one that reboots.
    check("A", "", &[('A', Queued), ('A', Rebooting)], true, "A");
    check("A", "", &[('A', Cancelled)], true, "A");
}

#[test]
fn a_rack_without_power_and_what_comes_after() {
    let mut world = World { max: 5, ..World::plain() };
    world.queue = (1..=3)
        .map(|n| entry(n, Ipv4Addr::new(10, 9, 9, 9 + u8::try_from(n).expect("small")), Status::Succeeded))
        .collect();
    let rack: Vec<Failure> = (10..38).map(|n| failure(n, HealthState::Unreachable, 600)).collect();
    world.cluster = Some(rack.iter().filter_map(|failure| failure.address).collect());
    let decision = world.decide(&rack);
    assert_eq!((decision.enqueue.len(), decision.entries, decision.finished), (0, 3, 3));
    assert_eq!(decision.needed, 28, "all or none");
    let guarded = World { guard: GuardRules::default(), queue: world.queue.clone(), ..World::plain() };
    assert_eq!(guarded.decide(&rack).needed, 1, "as many as fit");
    let (_, verdict) = &decision.verdicts[0];
    assert_eq!(*verdict, Verdict::NoRoom { entries: 3, new: 28, max: 5 });
    assert!(verdict.to_string().contains("3 repairs and 28 new failures"), "{verdict}");
    // Two stay dark.
    assert_eq!(world.decide(&rack[..2]).enqueue.len(), 2);
    for (n, failure) in (4..).zip(&rack[..2]) {
        world.queue.push(entry(n, failure.address.expect("an address"), Status::Failed));
    }
    assert!(world.decide(&rack[2..3]).enqueue.is_empty(), "five entries, all of them finished, leave no room");
    // Unless finished ones stop counting.
    world.finished_counts = Some(Duration::from_secs(60));
    for entry in &mut world.queue {
        entry.changed_at = Some(now() - jiff::SignedDuration::from_secs(61));
    }
    assert_eq!(world.decide(&rack[2..3]).enqueue.len(), 1);
    assert_eq!(world.decide(&rack[..1]).enqueue.len(), 1, "and a machine can be repaired again");
    world.queue[3].status = Status::Processing;
    assert!(world.decide(&rack[..1]).enqueue.is_empty(), "but never twice at once");
}

#[test]
fn limits_at_their_edges() {
    let world =
        |max, wait| World { max, wait: Duration::from_secs(wait), cluster: Some(BTreeSet::new()), ..World::plain() };
    assert!(world(0, 0).decide(&[known('B')]).enqueue.is_empty(), "0 means that nothing is ever repaired");
    assert_eq!(world(1, 30).decide(&[known('A')]).enqueue.len(), 1, "a wait that is over is over");
    assert!(world(1, 31).decide(&[known('A')]).enqueue.is_empty());
    assert_eq!(world(1, 0).decide(&[known('A')]).enqueue.len(), 1, "no wait");
    let none = World { cluster: None, ..World::plain() };
    assert_eq!(none.decide(&[known('B')]).verdicts[0].1, Verdict::NoCluster);
}

#[test]
fn one_address_one_entry() {
    let twin = Failure { serial: Serial::new("twin").expect("a serial"), ..known('C') };
    let decision = World::plain().decide(&[known('C'), twin]);
    assert_eq!(decision.enqueue.len(), 1);
    assert_eq!(decision.verdicts[1].1, Verdict::SameAddress(known('C').serial));
}

#[test]
fn what_nobody_knows_how_to_repair_takes_no_room() {
    let mut strange = known('C');
    strange.traits.machine_type = "type2".into();
    let odd = Failure { state: HealthState::Updating, ..known('B') };
    let decision = World { max: 1, ..World::plain() }.decide(&[strange, odd, known('D')]);
    assert!(matches!(decision.verdicts[0].1, Verdict::NoProcedure(NoStep::Procedure(_))));
    assert!(matches!(decision.verdicts[1].1, Verdict::NoProcedure(NoStep::Operation { .. })));
    assert_eq!(decision.enqueue.len(), 1);
}

/// A fleet with the guard: what failed together is held, what failed alone gets the room there is.
#[test]
fn the_guard_holds_a_rack_and_repairs_the_rest() {
    let in_rack = |n: u32, rack: u32, seconds: u64| Failure {
        traits: traits(rack),
        ..failure(n, HealthState::Unreachable, seconds)
    };
    let mut failures: Vec<Failure> = (0..28).map(|n| in_rack(n, 7, 400)).collect();
    failures.extend([
        in_rack(100, 50, 4_000),
        in_rack(101, 51, 9_000),
        in_rack(102, 52, 50_000),
        in_rack(103, 53, 100),
    ]);
    failures[28].opinion.bmc_answers = Some(true);
    let all: Vec<Traits> = (0..2_800).map(|n| traits(n / 28)).collect();
    let guard = GuardRules::default();
    let census = Census::of(&all);
    let wait_rebooting = Duration::from_secs(300);
    let (queue, incidents, reboots) = (&[], &[], &[]);
    let around =
        incident::Around { census: &census, incidents, queue, reboots, wait_rebooting, rules: &guard, now: now() };
    let judgement = incident::judge(&failures, &around);
    assert_eq!(judgement.opened.len(), 1);
    let cluster = failures.iter().filter_map(|failure| failure.address).collect();
    let world = World { max: 2, guard, judgement, cluster: Some(cluster), ..World::plain() };
    let decision = world.decide(&failures);
    let serials: Vec<&str> =
        decision.enqueue.iter().filter_map(|new| new.serial.as_ref().map(Serial::as_str)).collect();
    assert_eq!(serials, ["m100", "m102"], "whose controller answers, then who has been broken for longest");
    let held = decision.verdicts.iter().filter(|(_, verdict)| matches!(verdict, Verdict::Held { .. })).count();
    assert_eq!(held, 28);
    assert_eq!(decision.verdicts[29].1, Verdict::NoRoom { entries: 0, new: 3, max: 2 });
    assert_eq!(decision.verdicts[31].1, Verdict::Observed { left: Duration::from_secs(200) });
    for (serial, verdict) in &decision.verdicts {
        assert!(verdict.to_string().len() > 10, "{serial}: {verdict}");
    }
}

#[test]
fn old_reports_are_not_acted_on() {
    let guard = GuardRules::default();
    let days = |days: u64| failure(9, HealthState::Unhealthy, days * 86_400);
    let world = World { guard, ..World::plain() };
    assert_eq!(world.decide(&[days(7)]).verdicts[0].1, Verdict::Enqueue);
    assert_eq!(world.decide(&[days(8)]).verdicts[0].1, Verdict::Stale);
}

#[test]
fn a_machine_that_goes_from_trouble_to_trouble_has_not_only_just_failed() {
    let world = World { guard: GuardRules::default(), ..World::plain() };
    let fresh = failure(1, HealthState::Unreachable, 30);
    let decided = |failure: &Failure| world.decide(std::slice::from_ref(failure)).verdicts[0].1.clone();
    assert_eq!(decided(&fresh), Verdict::Observed { left: Duration::from_secs(270) });
    let flapping = Failure { broken_before: Duration::from_secs(280), ..fresh };
    assert_eq!(decided(&flapping), Verdict::Observed { left: Duration::from_secs(30) }, "it may be the first of many");
    assert_eq!(decided(&Failure { age: Duration::from_secs(60), ..flapping }), Verdict::Enqueue);
}
