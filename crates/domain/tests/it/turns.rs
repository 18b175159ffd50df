//! A worker's turn with a node: what it begins when it takes it, what it writes at once, and what it leaves to the next one.

use jiff::{SignedDuration, Timestamp};
use sabakan_domain::{
    lifecycle::HealthState,
    provision::{
        accept::{self, Offered, Options, Request},
        builtin,
        engine::{self, Changed, Learned, Outcome, World},
        node::{HeldReport, Node, NodeId, Phase, PowerAction, Severity, Silent, WaitOn, Work},
        power::{PowerState, PowerTarget},
        states::State,
        steps::{Args, Place, StepRequest, StepSpec},
        turn::{First, advance, end_power, first, goes_on},
        verbs::Verb,
    },
    words::Serial,
};

const WORKER: &str = "worker";

/// A ramdisk with one step.
const OFFERED: Offered<'static> = Offered {
    out_of_band: &[],
    ramdisk: &[StepSpec { name: "wipe", place: Place::InBand, ..builtin::POWER_ON }],
    inspects_in_band: false,
    driver: None,
};

fn now() -> Timestamp {
    Timestamp::from_second(1_000_000).expect("valid")
}

/// After every deadline.
fn late() -> Timestamp {
    now().checked_add(SignedDuration::from_hours(1_000)).expect("valid")
}

fn node(state: State) -> Node {
    let name = Serial::new("1234abcd").expect("valid");
    Node { state, ..Node::implied(NodeId(1), name, now()) }
}

/// A node of which somebody has asked something, with these steps where the verb takes some.
fn asked(state: State, verb: Verb, steps: &[StepSpec], options: &Options) -> Node {
    let wanted = |spec: &StepSpec| StepRequest {
        interface: spec.interface,
        name: spec.name.to_owned(),
        args: Args::new(),
        priority: None,
    };
    let request = Request {
        verb,
        steps: steps.iter().map(wanted).collect(),
        disable_ramdisk: true,
        operation: "operation".to_owned(),
        by: "someone".to_owned(),
        at: now(),
    };
    accept::accept(&node(state), &request, Some(HealthState::Healthy), true, OFFERED, options).expect("accepted").node
}

/// The same with what a site usually wants.
fn usual(state: State, verb: Verb) -> Node {
    asked(state, verb, &[], &Options::default())
}

/// A manual cleaning whose next step is this one.
fn cleaning(spec: StepSpec) -> Node {
    at_step(asked(State::Manageable, Verb::Clean, &[spec], &Options::default()), spec)
}

/// The operation has come to this step.
fn at_step(mut node: Node, spec: StepSpec) -> Node {
    let operation = node.operation.as_mut().expect("there is one");
    operation.index = operation.steps.iter().position(|step| builtin::is(step, spec)).expect(spec.name);
    node
}

/// A worker has taken it and begun the step.
fn begun(node: &Node) -> Node {
    match first(node, WORKER, now()) {
        Some((changed, First::Run)) => changed.node,
        other => panic!("nothing is begun: {other:?}"),
    }
}

/// Its step waits.
fn waiting(node: &Node, on: WaitOn) -> Node {
    after(&begun(node), Some(Outcome::Wait(on, "it takes a while".to_owned())), now(), false).node
}

fn after(node: &Node, outcome: Option<Outcome>, now: Timestamp, stopping: bool) -> Changed {
    let options = Options::default();
    let world = World { machine: Some(HealthState::Healthy), has_keys: false, offered: OFFERED, options: &options };
    advance(node, outcome, world, WORKER, now, stopping)
}

fn done() -> Option<Outcome> {
    Some(Outcome::Done(Learned::default()))
}

fn phase(node: &Node) -> Option<Phase> {
    node.operation.as_ref().map(|operation| operation.phase.clone())
}

fn texts(changed: &Changed) -> Vec<&str> {
    changed.rows.iter().map(|row| row.text.as_str()).collect()
}

#[test]
fn what_is_begun_together_with_the_lock() {
    let verify = usual(State::Enroll, Verb::Manage);
    let never_cleaned = Options { no_automated_clean: true, ..Options::default() };
    let boots = waiting(&usual(State::Active, Verb::Rescue), WaitOn::Heartbeat { called: false });
    let called = engine::heartbeat(&boots, "http://10.0.0.9:9999", now()).expect("somebody listens").node;
    let runs = waiting(&cleaning(builtin::POWER_ON), WaitOn::Task { id: "task".to_owned(), ended: false });
    let ended = engine::task_ended(&runs, "task").expect("it waits for that task").node;
    let empty = asked(State::Manageable, Verb::Provide, &[], &never_cleaned);
    let (run, record) = (|phase| Some((First::Run, phase)), |phase| Some((First::Record, phase)));
    let started = |attempt| run(Phase::Started { attempt });
    let cases = [
        ("nothing to do", node(State::Manageable), now(), None),
        ("a new operation", verify.clone(), now(), started(1)),
        ("its worker was lost", begun(&verify), now(), started(2)),
        ("it was lost twice", begun(&begun(&verify)), now(), started(3)),
        ("it is always lost", begun(&begun(&begun(&verify))), now(), record(Phase::Started { attempt: 3 })),
        // Nobody knows what the lost worker did to the machine.
        ("lost in a restart", begun(&cleaning(builtin::REBOOT)), now(), record(Phase::Started { attempt: 1 })),
        ("too late", verify, late(), record(Phase::Ready)),
        ("nothing to run", empty, now(), record(Phase::Ready)),
        ("nobody called", boots, now(), None),
        ("the ramdisk called", called, now(), run(Phase::Resumed { attempt: 1, task: None })),
        ("the task goes on", runs, now(), None),
        ("the task has ended", ended, now(), run(Phase::Resumed { attempt: 1, task: Some("task".to_owned()) })),
        ("a person holds it", waiting(&cleaning(builtin::HOLD), WaitOn::Hold), now(), None),
    ];
    for (what, node, now, expected) in cases {
        let found = first(&node, WORKER, now);
        let begins = found.as_ref().map(|(changed, first)| (*first, phase(&changed.node).expect("it has work")));
        assert_eq!(begins, expected, "{what}");
        match found {
            Some((changed, First::Run)) => assert!(goes_on(&changed.node), "{what}"),
            // What follows is written by the next change; the lock alone says nothing new.
            Some((changed, First::Record)) => assert_eq!(changed, Changed::new(&node), "{what}"),
            None => assert!(!goes_on(&node), "{what}"),
        }
    }
}

#[test]
fn record_finish_and_begin_are_one_change() {
    let last = begun(&at_step(usual(State::Active, Verb::Deleted), builtin::CLEAR_INSTANCE));
    let changed = after(&last, done(), now(), false);
    assert_eq!(
        texts(&changed),
        [
            "step deploy.clear_instance done",
            "deleting -> cleaning through deleted: torn down; cleaning follows",
            "running step management.record_configuration",
        ]
    );
    let operation = changed.node.operation.as_ref().expect("cleaning follows");
    assert_eq!((changed.node.state, operation.work, operation.index), (State::Cleaning, Work::AutomatedClean, 0));
    assert_eq!(operation.phase, Phase::Started { attempt: 1 });
    assert!(goes_on(&changed.node), "the worker goes on with it");
}

#[test]
fn only_one_step_is_begun_at_once() {
    let changed = after(&begun(&usual(State::Active, Verb::Deleted)), done(), now(), false);
    assert_eq!(texts(&changed), ["step power.power_off done", "running step management.clear_boot"]);
    assert_eq!(changed.node.operation.as_ref().map(|operation| operation.index), Some(1));
    assert_eq!(phase(&changed.node), Some(Phase::Started { attempt: 1 }));
}

#[test]
fn a_worker_that_stops_begins_nothing() {
    // What was done is recorded, and what follows from it, up to the next step.
    let last = begun(&at_step(usual(State::Active, Verb::Deleted), builtin::CLEAR_INSTANCE));
    let changed = after(&last, done(), now(), true);
    assert_eq!((changed.node.state, phase(&changed.node)), (State::Cleaning, Some(Phase::Ready)));
    assert_eq!(changed.rows.len(), 2, "{:?}", texts(&changed));
    assert!(!goes_on(&changed.node), "it is let go of");
    // Whoever takes it next begins there.
    assert_eq!(phase(&begun(&changed.node)), Some(Phase::Started { attempt: 1 }));
    // An end is no beginning.
    let changed = after(&begun(&usual(State::Enroll, Verb::Manage)), done(), now(), true);
    assert_eq!((changed.node.state, changed.node.operation), (State::Manageable, None));
}

#[test]
fn a_node_that_waits_or_is_done_is_let_go_of() {
    let boot = begun(&usual(State::Active, Verb::Rescue));
    let waits = Outcome::Wait(WaitOn::Heartbeat { called: false }, "the ramdisk boots".to_owned());
    let changed = after(&boot, Some(waits), now(), false);
    assert_eq!(changed.node.state, State::RescueWait);
    assert!(!goes_on(&changed.node) && changed.rows.len() == 1, "{:?}", texts(&changed));
    let changed = after(&begun(&usual(State::Enroll, Verb::Manage)), done(), now(), false);
    assert_eq!((changed.node.state, &changed.node.operation), (State::Manageable, &None));
    assert!(!goes_on(&changed.node));
}

#[test]
fn clearing_up_begins_with_the_failure_and_the_report_that_was_kept_counts() {
    let mut boot = begun(&usual(State::Active, Verb::Rescue));
    boot.held_report = Some(HeldReport { state: HealthState::Unhealthy, at: now(), by: "monitor".to_owned() });
    let changed = after(&boot, Some(Outcome::Failed("no answer".to_owned())), now(), false);
    assert_eq!(changed.node.state, State::RescueFailed);
    let operation = changed.node.operation.as_ref().expect("the ramdisk is switched off");
    assert_eq!((operation.work, &operation.phase), (Work::ClearUp, &Phase::Started { attempt: 1 }));
    assert_eq!(changed.node.last_error.as_deref(), Some("step deploy.boot_ramdisk failed: no answer"));
    // Said by the first of two hops, and not forgotten by the second.
    assert_eq!(changed.machine, Some(HealthState::Unhealthy));
}

#[test]
fn what_cannot_go_on_fails_without_being_run() {
    let lost = begun(&cleaning(builtin::REBOOT));
    let cases = [
        (now(), "the worker was lost in step power.reboot, which must not be run twice"),
        (late(), "cleaning did not end within"),
    ];
    for (now, expected) in cases {
        let changed = after(&lost, None, now, false);
        assert_eq!((changed.node.state, &changed.node.operation), (State::CleanFailed, &None), "{expected}");
        let error = changed.node.last_error.as_deref().unwrap_or_default();
        assert!(error.contains(expected), "{error}");
        assert_eq!(changed.rows.len(), 1, "{:?}", texts(&changed));
    }
}

#[test]
fn a_step_that_was_done_too_late_counts_as_done_and_the_work_ends() {
    let first_of_two = begun(&cleaning(builtin::REBOOT));
    let changed = after(&first_of_two, done(), late(), false);
    assert_eq!(changed.node.state, State::CleanFailed);
    assert_eq!(texts(&changed).first(), Some(&"step power.reboot done"));
    assert!(!goes_on(&changed.node), "nothing is begun after the deadline");
}

fn with_power(target: PowerTarget, started: bool) -> Node {
    let mut node = node(State::Active);
    let (asked_by, deadline) = ("someone".to_owned(), late());
    node.power.action = Some(PowerAction { target, asked_by, asked_at: now(), deadline, started });
    node
}

#[test]
fn a_restart_whose_worker_was_lost_is_switched_on_and_not_repeated() {
    use PowerTarget::{Off, On, Reboot, SoftOff, SoftReboot};
    let cases = [
        // Nobody has begun.
        (On, false, On, None),
        (Off, false, Off, None),
        (Reboot, false, Reboot, None),
        (SoftOff, false, SoftOff, None),
        (SoftReboot, false, SoftReboot, None),
        // Being where it leads already is as good as going there.
        (On, true, On, None),
        (Off, true, Off, None),
        (SoftOff, true, SoftOff, None),
        (Reboot, true, On, Some("rebooting")),
        (SoftReboot, true, On, Some("soft rebooting")),
    ];
    for (asked, started, target, lost) in cases {
        let node = with_power(asked, started);
        let (changed, first) = first(&node, WORKER, now()).expect("it is to be done");
        assert_eq!(first, First::Run, "{asked}, {started}");
        let action = changed.node.power.action.as_ref().expect("it is not done yet");
        assert_eq!((action.target, action.started), (target, true), "{asked}, {started}");
        let told = lost.map(|word| {
            format!("power: the worker was lost during {word}; whether it happened is not known; switching on")
        });
        assert_eq!(changed.node.last_error, told, "{asked}, {started}");
        let rows: Vec<_> = changed.rows.iter().map(|row| (row.severity, row.text.clone())).collect();
        assert_eq!(rows, told.into_iter().map(|text| (Severity::Error, text)).collect::<Vec<_>>());
    }
    // A worker that is lost while it switches on is followed by another that does, and that is all there is to say.
    let (changed, _) = first(&with_power(Reboot, true), WORKER, now()).expect("it is to be done");
    let (again, _) = first(&changed.node, WORKER, now()).expect("it is still to be done");
    assert_eq!((again.node, again.rows), (changed.node, vec![]));
}

#[test]
fn a_power_change_comes_before_other_work() {
    let mut node = usual(State::Enroll, Verb::Manage);
    node.power.action = with_power(PowerTarget::On, false).power.action;
    let (changed, _) = first(&node, WORKER, now()).expect("there is work");
    assert_eq!(phase(&changed.node), Some(Phase::Ready), "the step waits for it");
}

#[test]
fn what_the_end_of_a_power_change_records() {
    let mut node = with_power(PowerTarget::Reboot, true);
    node.power.state = Some(PowerState::Off);
    node.power.silent = Some(Silent { since: now(), reason: "no answer".to_owned(), times: 2 });
    node.last_error = Some("from before".to_owned());

    let changed = end_power(&node, PowerTarget::Reboot, &Ok(PowerState::On), WORKER, late());
    let power = &changed.node.power;
    assert_eq!((power.state, power.since, &power.silent), (Some(PowerState::On), Some(late()), &None));
    assert_eq!(changed.node.last_error.as_deref(), Some("from before"));
    assert_eq!((changed.rows[0].severity, texts(&changed)), (Severity::Info, vec!["power: rebooting done"]));
    assert_eq!(first(&changed.node, WORKER, late()), None, "it is done");

    let failed = Err("it stays off".to_owned());
    let changed = end_power(&node, PowerTarget::Reboot, &failed, WORKER, late());
    let text = "power: rebooting failed: it stays off";
    assert_eq!(changed.node.last_error.as_deref(), Some(text));
    assert_eq!((changed.rows[0].severity, texts(&changed)), (Severity::Error, vec![text]));
    assert_eq!(changed.node.power.state, Some(PowerState::Off), "as last read");
    assert_eq!(first(&changed.node, WORKER, late()), None, "a failure is not repeated by itself");
}

/// The rows name whoever did it.
#[test]
fn a_worker_signs_what_it_writes() {
    let lost = with_power(PowerTarget::Reboot, true);
    let (power, _) = first(&lost, WORKER, now()).expect("it is to be done");
    let ended = end_power(&lost, PowerTarget::Reboot, &Ok(PowerState::On), WORKER, now());
    let step = after(&begun(&usual(State::Active, Verb::Deleted)), done(), now(), false);
    for changed in [power, ended, step] {
        assert!(!changed.rows.is_empty() && changed.rows.iter().all(|row| row.by == WORKER), "{:?}", changed.rows);
    }
}
