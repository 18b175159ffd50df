//! Workers die: at every boundary between two commits, and inside every call to a machine. What they did is completed or fails
//! visibly, nothing that must not be repeated is, and a worker that wakes up late writes nothing.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use sabakan_domain::provision::{
    node::{Node, Severity},
    states::{Kind, State},
    steps::{Interface, StepRequest},
    verbs::Verb,
};
use sabakan_drivers::simulated::{Fault, FleetConfig, Latencies};
use sabakan_service::Asked;
use sabakan_store::TxnOutcome;
use sabakan_testkit::{
    Backend,
    crash::Death,
    rack::{LoneConductor, Rack, WORK_MAX},
    wait_for,
};
use serde_json::json;

use super::{ACTIVE, AVAILABLE, MANAGEABLE, ended, history, steps_of, verb};

/// The lease of a worker in these tests, which a busy machine shall not lose, and how long the work of a dead one may take to end: the
/// lease, a look for work, and the work itself, on a machine that is busy with other tests.
const LEASE: Duration = Duration::from_secs(3);
const RECOVERY_MAX: Duration = Duration::from_secs(40);

/// One kind of work: how a machine gets there, what is asked, where it ends, and what must happen at most once.
struct Story {
    before: &'static [(Verb, State)],
    asked: Asked,
    ends: State,
    once: &'static [&'static str],
}

#[test]
fn verifying() {
    die_everywhere(Backend::Embedded, &story(&[], Verb::Manage, State::Manageable));
}

#[test]
fn inspecting() {
    die_everywhere(Backend::Embedded, &story(MANAGEABLE, Verb::Inspect, State::Manageable));
}

#[test]
fn cleaning() {
    die_everywhere(Backend::Embedded, &story(MANAGEABLE, Verb::Provide, State::Available));
}

#[test]
fn cleaning_on_etcd() {
    die_everywhere(Backend::Etcd, &story(MANAGEABLE, Verb::Provide, State::Available));
}

#[test]
fn cleaning_by_hand_with_steps_that_must_not_be_repeated() {
    let asked = Asked { verb: Verb::Clean, steps: dangerous_steps(), disable_ramdisk: false };
    let once = &["raid.create_configuration", "firmware.update", "deploy.update_nic_firmware"];
    die_everywhere(Backend::Embedded, &Story { before: MANAGEABLE, asked, ends: State::Manageable, once });
}

#[test]
fn deploying() {
    die_everywhere(Backend::Embedded, &story(AVAILABLE, Verb::Active, State::Active));
}

#[test]
fn deleting() {
    die_everywhere(Backend::Embedded, &story(ACTIVE, Verb::Deleted, State::Available));
}

#[test]
fn rescuing() {
    die_everywhere(Backend::Embedded, &story(ACTIVE, Verb::Rescue, State::Rescue));
}

#[test]
fn unrescuing() {
    die_everywhere(Backend::Embedded, &story(RESCUE, Verb::Unrescue, State::Active));
}

#[test]
fn adopting() {
    die_everywhere(Backend::Embedded, &story(MANAGEABLE, Verb::Adopt, State::Active));
}

#[test]
fn servicing() {
    let steps = dangerous_steps().into_iter().filter(|step| step.interface != Interface::Raid).collect();
    let asked = Asked { verb: Verb::Service, steps, disable_ramdisk: false };
    let once = &["firmware.update", "deploy.update_nic_firmware"];
    die_everywhere(Backend::Embedded, &Story { before: ACTIVE, asked, ends: State::Active, once });
}

const RESCUE: &[(Verb, State)] = &[
    (Verb::Manage, State::Manageable),
    (Verb::Provide, State::Available),
    (Verb::Active, State::Active),
    (Verb::Rescue, State::Rescue),
];

fn story(before: &'static [(Verb, State)], verb: Verb, ends: State) -> Story {
    Story { before, asked: super::verb(verb), ends, once: &[] }
}

/// Out of band and in band, each with something that must not be done twice.
fn dangerous_steps() -> Vec<StepRequest> {
    let volume = json!([{ "volume_name": "data", "raid_level": "0", "size_gb": 10 }]);
    let update = json!([{ "component": "bmc", "url": "http://images/firmware/2.1" }]);
    steps_of(&[
        (Interface::Raid, "delete_configuration", json!({})),
        (Interface::Raid, "create_configuration", json!({ "logical_disks": volume })),
        (Interface::Firmware, "update", json!({ "settings": update })),
        (Interface::Deploy, "update_nic_firmware", json!({})),
        (Interface::Power, "reboot", json!({})),
    ])
}

/// Kills the worker of one machine after another: first at every commit, then inside every call.
fn die_everywhere(backend: Backend, story: &Story) {
    die_at_every_commit(backend, story);
    die_in_every_call(backend, story);
}

fn rack(backend: Backend, latencies: Latencies) -> Rack {
    let latencies = Latencies { heartbeat: Duration::from_millis(100), ..latencies };
    let fleet = FleetConfig { latencies, erases_members: true, ..FleetConfig::default() };
    Rack::start_with(backend, fleet, |config| config.conductor = None)
}

fn conductor(rack: &Rack, name: &str) -> LoneConductor {
    rack.conductor(name, |options| options.lease = LEASE)
}

/// Brings machines to where a story begins.
fn prepare(rack: &Rack, story: &Story, serials: &[String]) {
    for (verb, state) in story.before {
        serials.iter().for_each(|serial| rack.ask(serial, *verb).expect("accepted"));
        serials.iter().for_each(|serial| drop(rack.wait_for(serial, *state)));
    }
}

fn die_at_every_commit(backend: Backend, story: &Story) {
    let rack = rack(backend, Latencies::none());
    let first = conductor(&rack, "first");
    rack.register(&["probe"]);
    prepare(&rack, story, &["probe".to_owned()]);
    first.store.arm("probe", 0, Death::Before);
    rack.ask_with("probe", &story.asked).expect("accepted");
    rack.wait_for("probe", story.ends);
    let commits = first.store.commits("probe");
    assert!(commits >= 2, "taken and done are at least two commits, not {commits}");

    // A few more: how often a ramdisk calls differs from run to run.
    let deaths = (1..=commits + 3).flat_map(|nth| [(nth, Death::Before), (nth, Death::After)]);
    let machines: Vec<(String, usize, Death)> =
        deaths.map(|(nth, death)| (format!("{death:?}-{nth:02}").to_lowercase(), nth, death)).collect();
    let serials: Vec<String> = machines.iter().map(|(serial, ..)| serial.clone()).collect();
    rack.register_from(1, &serials);
    prepare(&rack, story, &serials);
    for (serial, nth, death) in &machines {
        first.store.arm(serial, *nth, *death);
        rack.ask_with(serial, &story.asked).expect("accepted");
    }
    for serial in &serials {
        wait_for(&format!("{serial} to freeze or end"), WORK_MAX, || {
            (first.store.is_frozen(serial) || ended(&rack.node(serial))).then_some(())
        });
    }
    for (serial, nth, _) in &machines {
        assert!(first.store.is_frozen(serial) || *nth > 2, "{serial} was not killed");
    }
    let unharmed = serials.iter().filter(|serial| !first.store.is_frozen(serial)).count();
    assert!(unharmed > 0, "the last commit was not reached: there may be more places to die at");

    recover(&rack, story, &serials, &first);
}

fn die_in_every_call(backend: Backend, story: &Story) {
    // A call that hangs does so for longer than the test.
    let rack = rack(backend, Latencies { limit: Duration::from_secs(3_600), ..Latencies::none() });
    let first = conductor(&rack, "first");
    rack.register(&["probe"]);
    prepare(&rack, story, &["probe".to_owned()]);
    let before = rack.fleet.calls("probe").total;
    rack.ask_with("probe", &story.asked).expect("accepted");
    rack.wait_for("probe", story.ends);
    let calls = rack.fleet.calls("probe").total - before;
    assert!(calls > 0, "the work asks nothing of the machine");

    let serials: Vec<String> = (0..calls).map(|n| format!("call-{n:02}")).collect();
    rack.register_from(1, &serials);
    prepare(&rack, story, &serials);
    for (n, serial) in (0..).zip(&serials) {
        rack.fleet.set_fault(serial, Fault::HangAfter(n));
        let total = rack.fleet.calls(serial).total;
        rack.ask_with(serial, &story.asked).expect("accepted");
        let asked = Instant::now();
        wait_for(&format!("{serial} to hang or end"), WORK_MAX * 2, || {
            let (shown, calls) = (rack.node(serial), rack.fleet.calls(serial));
            assert!(
                asked.elapsed() < WORK_MAX,
                "{serial} after {} calls: {:?} {:?}",
                calls.total - total,
                shown.node,
                shown.waiting
            );
            (calls.total > total + n || ended(&shown)).then_some(())
        });
    }
    first.store.kill();
    rack.server.block_on(async { serials.iter().for_each(|serial| rack.fleet.clear_faults(serial)) });
    recover(&rack, story, &serials, &first);
}

/// The first conductor is dead; a second one has to bring everything to an end.
fn recover(rack: &Rack, story: &Story, serials: &[String], first: &LoneConductor) {
    first.store.kill();
    let killed = Instant::now();
    let second = conductor(rack, "second");
    for serial in serials {
        wait_for(&format!("{serial} to end"), RECOVERY_MAX, || {
            let shown = rack.node(serial);
            assert!(killed.elapsed() < RECOVERY_MAX, "{serial} is stuck: {:?} {:?}", shown.node, shown.waiting);
            ended(&shown).then_some(())
        });
    }
    for serial in serials {
        check_end(rack, story, serial);
    }
    check_epochs(rack, serials, &[first, &second]);
    // Packets of the dead that arrive only now.
    for txn in first.store.late() {
        let outcome = rack.server.block_on(rack.server.store().commit(txn.clone()));
        assert_eq!(outcome.expect("the store answers"), TxnOutcome::Conflicted, "a lost worker wrote {txn:?}");
    }
    wait_for("the second conductor to stop", WORK_MAX, || second.stop().then_some(()));
}

fn check_end(rack: &Rack, story: &Story, serial: &str) {
    let node = rack.node(serial).node;
    let rows = history(rack, serial);
    if node.state != story.ends {
        assert_eq!(node.state.kind(), Kind::Failed, "{serial} is {}", node.state);
        let reason = node.last_error.clone().unwrap_or_default();
        assert!(reason.contains("the worker was lost in step"), "{serial} failed because {reason:?}");
        assert!(rows.iter().any(|row| row.severity == Severity::Error), "{serial}: no row tells of the failure");
        assert!(!story.once.is_empty(), "{serial} failed although all its steps may be repeated: {reason}");
    }
    super::check_path(serial, &rows);
    let calls = rack.fleet.calls(serial);
    assert_eq!(calls.forgotten, 0, "{serial}: commands were forgotten");
    for step in story.once {
        assert!(calls.steps(step) <= 1, "{serial}: {step} ran {} times", calls.steps(step));
    }
    if story.asked.verb == Verb::Provide {
        assert_eq!(rack.server.client().get_state(serial).expect("a state"), "uninitialized");
    }
}

/// No two takings of a machine had the same number, whoever took it.
fn check_epochs(rack: &Rack, serials: &[String], conductors: &[&LoneConductor]) {
    let locks: Vec<(String, Vec<u8>)> = conductors.iter().flat_map(|conductor| conductor.store.locks()).collect();
    for serial in serials {
        let epochs: Vec<u64> = locks.iter().filter(|(name, _)| name == serial).map(|(_, lock)| epoch(lock)).collect();
        let distinct: BTreeSet<u64> = epochs.iter().copied().collect();
        assert_eq!(distinct.len(), epochs.len(), "{serial}: an epoch was used twice: {epochs:?}");
        let node: &Node = &rack.node(serial).node;
        assert_eq!(distinct.last(), Some(&node.epoch), "{serial}");
    }
}

fn epoch(lock: &[u8]) -> u64 {
    let lock: serde_json::Value = serde_json::from_slice(lock).expect("JSON");
    lock["epoch"].as_u64().expect("an epoch")
}

#[test]
fn a_lost_answer_to_taking_a_node_does_not_keep_it_locked_for_ever() {
    // Not a death: the server lives on, its lease too. Only this one answer is lost.
    let rack = rack(Backend::Embedded, Latencies::none());
    let first = conductor(&rack, "first");
    rack.register(&["s1"]);
    first.store.lose_answer("s1", 1);
    rack.ask_with("s1", &verb(Verb::Manage)).expect("accepted");
    rack.wait_for("s1", State::Manageable);
    assert_eq!(first.store.locks().len(), 2, "taken, let go of, taken again");
}
