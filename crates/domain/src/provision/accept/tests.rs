//! What each verb plans, what it writes beside, what it refuses, and how work is stopped or let go on.

use super::*;
use crate::provision::{
    edges::EDGES,
    engine::Next,
    fixtures::{Desk, OUT_OF_BAND},
    node::{Fault, Maintenance, NodeId},
    power::PowerState,
};

/// What is planned when a verb is accepted.
fn plans(mut desk: Desk, verb: Verb, steps: &[&str], work: Work, expected: &[&str]) {
    let from = desk.node.state;
    desk.node.last_error = Some("an older one".to_owned());
    desk.ask(verb, steps).unwrap_or_else(|refusal| panic!("{verb} in {from}: {refusal}"));
    let operation = desk.node.operation.as_ref().expect("work begins");
    assert_eq!(desk.steps(), expected, "{verb} in {from}");
    assert_eq!((operation.work, operation.index, &operation.phase), (work, 0, &Phase::Ready), "{verb} in {from}");
    assert_eq!((operation.asked_by.as_str(), operation.asked_at), ("someone", desk.now));
    assert_eq!(desk.deadline_in(), Some(4 * 60 * 60), "{verb} in {from}: busy states end in time");
    assert_eq!(desk.node.last_error, None, "new work begins without the error of the last");
    assert_eq!(desk.node.target.map(State::kind), Some(Kind::Stable));
    assert_eq!(desk.rows.len(), 1, "one row says who asked");
}

const BARE: [&str; 4] = [
    "management.record_configuration",
    "deploy.erase_disk_keys",
    "management.verify_configuration",
    "management.compare_configuration",
];

const WHOLE: [&str; 10] = [
    "management.record_configuration",
    "deploy.erase_disk_keys",
    "deploy.boot_ramdisk",
    "deploy.erase_devices_metadata",
    "raid.erase_members",
    "management.restore_configuration",
    "deploy.erase_devices",
    "deploy.tear_down_agent",
    "management.verify_configuration",
    "management.compare_configuration",
];

#[test]
fn every_verb_plans_its_steps() {
    let (at, full) = (Desk::at, Desk::full);
    plans(at(State::Enroll), Verb::Manage, &[], Work::Verify, &["power.verify"]);
    let mut off = at(State::VerifyFailed);
    off.options.power_off_after_verify = true;
    plans(off, Verb::Manage, &[], Work::Verify, &["power.verify", "power.power_off"]);
    plans(at(State::Manageable), Verb::Inspect, &[], Work::Inspect, &["management.inspect"]);
    plans(at(State::Manageable), Verb::Adopt, &[], Work::Adopt, &["power.verify"]);
    plans(at(State::Available), Verb::Active, &[], Work::Deploy, &["deploy.deploy"]);
    let image = ["deploy.deploy", "deploy.write_image", "deploy.tear_down_agent", "deploy.boot_instance"];
    plans(full(State::Available), Verb::Active, &[], Work::Deploy, &image);
    for from in [State::Active, State::DeployFailed, State::Error] {
        plans(full(from), Verb::Rebuild, &[], Work::Deploy, &image);
    }
    let undo = ["power.power_off", "management.clear_boot", "deploy.clear_instance"];
    for from in [State::Active, State::Rescue, State::DeployFailed, State::Error, State::ServiceFailed] {
        plans(full(from), Verb::Deleted, &[], Work::TearDown, &undo);
    }
    for from in [State::Active, State::Rescue, State::RescueFailed, State::UnrescueFailed, State::ServiceFailed] {
        plans(full(from), Verb::Rescue, &[], Work::Rescue, &["deploy.boot_ramdisk"]);
    }
    let back = ["deploy.tear_down_agent", "deploy.boot_instance"];
    plans(full(State::Rescue), Verb::Unrescue, &[], Work::Unrescue, &back);
    let serviced = [
        "power.power_off",
        "management.record_configuration",
        "deploy.boot_ramdisk",
        "deploy.burn_in",
        "deploy.tear_down_agent",
        "management.compare_configuration",
        "deploy.boot_instance",
    ];
    plans(full(State::Active), Verb::Service, &["deploy.burn_in"], Work::Service, &serviced);
}

#[test]
fn automated_cleaning_is_planned() {
    let check = |desk: Desk, expected: &[&str]| plans(desk, Verb::Provide, &[], Work::AutomatedClean, expected);
    // Keys go first: whatever happens to the disks afterwards, nothing on them can be read.
    check(Desk::at(State::Manageable), &BARE);
    check(Desk::full(State::Manageable), &WHOLE);
    // Out-of-band steps alone boot no ramdisk.
    let mut outside = Desk::at(State::Manageable);
    outside.out_of_band = OUT_OF_BAND;
    let steps = [BARE[0], BARE[1], "raid.erase_members", "management.restore_configuration", BARE[2], BARE[3]];
    check(outside, &steps);
    // Priorities of the site.
    let mut moved = Desk::full(State::Manageable);
    moved.options.clean_priorities = BTreeMap::from([
        ("raid.erase_members".to_owned(), 300),
        ("deploy.erase_devices_metadata".to_owned(), 0),
        ("management.verify_configuration".to_owned(), 0),
    ]);
    let steps = [
        "management.record_configuration",
        "raid.erase_members",
        "management.restore_configuration",
        "deploy.erase_disk_keys",
        "deploy.boot_ramdisk",
        "deploy.erase_devices",
        "deploy.tear_down_agent",
        "management.compare_configuration",
    ];
    check(moved, &steps);
}

#[test]
fn cleaning_can_be_switched_off_for_a_site_and_for_a_node() {
    // The node's own word wins.
    for (site_off, own, runs) in [
        (false, None, true),
        (false, Some(false), false),
        (false, Some(true), true),
        (true, None, false),
        (true, Some(false), false),
        (true, Some(true), true),
    ] {
        let mut desk = Desk::at(State::Manageable);
        desk.options.no_automated_clean = site_off;
        desk.node.automated_clean = own;
        assert_eq!(cleans(&desk.node, &desk.options), runs, "{site_off} {own:?}");
        let expected: &[&str] = if runs { &BARE } else { &[] };
        plans(desk, Verb::Provide, &[], Work::AutomatedClean, expected);
    }
}

#[test]
fn manual_cleaning_is_framed_and_finds_the_engines_own_steps_under_any_interface() {
    let check = |steps: &[&str], expected: &[&str]| {
        let mut all = vec!["management.record_configuration"];
        all.extend(expected);
        all.push("management.compare_configuration");
        plans(Desk::full(State::Manageable), Verb::Clean, steps, Work::ManualClean, &all);
    };
    check(&["raid.erase_members"], &["raid.erase_members"]);
    check(&["bios.apply", "raid.erase_members", "bios.apply"], &["bios.apply", "raid.erase_members", "bios.apply"]);
    let (boot, end) = ("deploy.boot_ramdisk", "deploy.tear_down_agent");
    check(
        &["bios.apply", "deploy.burn_in", "raid.erase_members", "deploy.erase_devices", "bios.apply"],
        &["bios.apply", boot, "deploy.burn_in", "raid.erase_members", "deploy.erase_devices", end, "bios.apply"],
    );
    check(&["raid.hold", "bios.reboot", "vendor.power_off"], &["deploy.hold", "power.reboot", "power.power_off"]);
    check(&["deploy.erase_disk_keys"], &["deploy.erase_disk_keys"]);
}

#[test]
fn steps_that_cannot_be_run_are_refused_and_nothing_changes() {
    let check = |verb: Verb, from: State, steps: &[&str], disable_ramdisk: bool, expected: &str| {
        let mut desk = Desk::full(from);
        let before = desk.node.clone();
        let request = Request { disable_ramdisk, ..desk.request(verb, steps) };
        let refusal = desk.submit(&request).expect_err("refused").to_string();
        assert!(refusal.contains(expected), "{refusal}");
        assert_eq!(desk.node, before);
    };
    check(Verb::Clean, State::Manageable, &[], false, "no step is given");
    check(Verb::Service, State::Active, &[], false, "no step is given");
    check(Verb::Clean, State::Manageable, &["deploy.write_image"], false, "there is no step deploy.write_image");
    check(Verb::Clean, State::Manageable, &["firmware.update"], false, "needs the argument \"url\"");
    check(Verb::Clean, State::Manageable, &["deploy.burn_in"], true, "`disable_ramdisk` forbids");
    check(Verb::Active, State::Available, &["bios.apply"], false, "needs a priority");
    check(Verb::Active, State::Available, &["deploy.deploy"], false, "cannot be replaced");
    // Steps the engine puts around others are not for callers.
    check(Verb::Clean, State::Manageable, &["deploy.boot_ramdisk"], false, "there is no step deploy.boot_ramdisk");
    let mut bare = Desk::at(State::Active);
    assert_eq!(bare.ask(Verb::Rescue, &[]), Err(VerbRefusal::NoRamdisk(Verb::Rescue)));
}

#[test]
fn what_is_no_arrow_is_refused_whatever_else_holds() {
    for state in State::ALL {
        for verb in Verb::ALL {
            let known = EDGES.iter().any(|edge| edge.from == state && edge.on == Trigger::Verb(verb));
            for machine in [None, Some(HealthState::Healthy), Some(HealthState::Retired)] {
                let mut desk = Desk::full(state);
                desk.machine = machine;
                let found = desk.ask(verb, &["deploy.burn_in"]);
                let refused = found == Err(VerbRefusal::NoEdge { node: desk.node.id, from: state, verb });
                assert_eq!(refused, !known, "{verb} in {state}: {found:?}");
            }
        }
    }
}

#[test]
fn an_interface_that_was_chosen_to_do_nothing_does_nothing() {
    let check = |slot: Slot, interface: &str, verb: Verb, state: State, expected: &str| {
        let mut desk = Desk::full(state);
        desk.node.driver = Some("fake-hardware".to_owned());
        desk.node.details.interfaces.insert(slot, interface.to_owned());
        let found = desk.ask(verb, &[]);
        assert_eq!(found.err().map(|refusal| refusal.to_string()).unwrap_or_default(), expected);
    };
    let refused = "Driver fake-hardware does not support inspect (disabled or not implemented).";
    check(Slot::Inspect, "no-inspect", Verb::Inspect, State::Manageable, refused);
    check(Slot::Inspect, "fake", Verb::Inspect, State::Manageable, "");
    let refused = "Driver fake-hardware does not support rescue (disabled or not implemented).";
    check(Slot::Rescue, "no-rescue", Verb::Rescue, State::Active, refused);
    check(Slot::Rescue, "no-rescue", Verb::Rebuild, State::Active, "");
}

#[test]
fn other_refusals() {
    let mut pending = Desk::full(State::Manageable);
    let changed =
        accept_power(&pending.node, PowerTarget::On, "someone", pending.now, jiff::SignedDuration::from_mins(1));
    pending.write(changed.expect("allowed"));
    assert_eq!(pending.ask(Verb::Provide, &[]), Err(VerbRefusal::PowerPending));
    let mut maintained = Desk::full(State::Manageable);
    maintained.node.maintenance = Some(Maintenance { reason: None, fault: None });
    maintained.options.no_provide_in_maintenance = true;
    let refused: Result<(), _> = Err(VerbRefusal::Guard(GuardRefusal::Maintenance(Verb::Provide)));
    assert_eq!(maintained.ask(Verb::Provide, &[]), refused);
    maintained.options.no_provide_in_maintenance = false;
    // Its ramdisk would be booted and never be heard.
    assert_eq!(maintained.ask(Verb::Provide, &[]), refused);
    maintained.ramdisk = &[];
    assert_eq!(maintained.ask(Verb::Provide, &[]), Ok(()));
}

#[test]
fn manage_out_of_a_stable_or_failed_state_is_immediate_and_keeps_the_last_error() {
    for from in [State::Available, State::InspectFailed, State::CleanFailed, State::AdoptFailed] {
        let mut desk = Desk::at(from);
        desk.node.last_error = Some("disk on fire".to_owned());
        desk.ask(Verb::Manage, &[]).expect("accepted");
        assert_eq!((desk.place(), desk.node.operation.is_none()), ((State::Manageable, None), true), "{from}");
        assert_eq!(desk.node.last_error.as_deref(), Some("disk on fire"), "{from}");
    }
}

#[test]
fn deleted_makes_the_machine_retiring() {
    use HealthState::{Retiring, Uninitialized};
    for machine in HealthState::ALL.into_iter().filter(|machine| *machine != HealthState::Retired) {
        let mut desk = Desk::full(State::Active);
        desk.machine = Some(machine);
        desk.ask(Verb::Deleted, &[]).expect("accepted");
        assert_eq!(
            (desk.machine, desk.place()),
            (Some(Retiring), (State::Deleting, Some(State::Available))),
            "{machine}"
        );
    }
    // No other verb touches the lifecycle.
    for (from, verb) in
        [(State::Manageable, Verb::Provide), (State::Available, Verb::Active), (State::Active, Verb::Rescue)]
    {
        let mut desk = Desk::full(from);
        desk.machine = Some(Uninitialized);
        desk.ask(verb, &[]).expect("accepted");
        assert_eq!(desk.machine, Some(Uninitialized), "{verb}");
    }
    let mut alone = Desk::full(State::Active);
    alone.machine = None;
    alone.ask(Verb::Deleted, &[]).expect("a node without a machine can be torn down");
    assert_eq!(alone.machine, None);
}

/// A node that waits in a step of an operation.
fn waiting(from: State, verb: Verb, steps: &[&str], step: &str) -> Desk {
    let mut desk = Desk::full(from);
    desk.ask(verb, steps).expect("accepted");
    desk.until(step);
    assert!(desk.turn(), "{step} begins");
    assert!(desk.node.wait().is_some(), "{step} waits");
    desk
}

#[test]
fn deleted_ends_waiting() {
    let waits = [
        (State::Available, Verb::Active, "deploy.deploy", State::DeployWait),
        (State::Available, Verb::Active, "deploy.write_image", State::DeployWait),
        (State::Active, Verb::Rescue, "deploy.boot_ramdisk", State::RescueWait),
        (State::Active, Verb::Service, "deploy.burn_in", State::ServiceWait),
    ];
    for (from, verb, step, state) in waits {
        let mut desk = waiting(from, verb, if verb == Verb::Service { &["deploy.burn_in"] } else { &[] }, step);
        assert_eq!(desk.node.state, state);
        desk.ask(Verb::Deleted, &[]).expect("accepted");
        assert_eq!(desk.place(), (State::Deleting, Some(State::Available)), "{step}");
        assert_eq!(desk.steps()[0], "power.power_off", "the ramdisk ends with the power");
        desk.settle();
        assert_eq!(desk.place(), (State::Available, None), "{step}");
        assert_eq!(desk.machine, Some(HealthState::Uninitialized), "{step}");
    }
}

#[test]
fn abort_of_a_step_that_can_be_cut_short_is_immediate() {
    let check = |desk: &mut Desk, state: State, target: State, text: &str| {
        desk.ask(Verb::Abort, &[]).expect("accepted");
        assert_eq!(desk.place(), (state, Some(target)));
        assert_eq!(desk.node.last_error.as_deref(), Some(text));
        assert_eq!(desk.node.maintenance, None, "stopping is no failure of the machine");
        assert_eq!(desk.steps()[0], "deploy.tear_down_agent", "the ramdisk is switched off");
        desk.settle();
        assert!(desk.node.operation.is_none());
    };
    let cleaning = |verb, steps: &[&str], step| waiting(State::Manageable, verb, steps, step);
    check(
        &mut cleaning(Verb::Provide, &[], "deploy.boot_ramdisk"),
        State::CleanFailed,
        State::Available,
        "automated clean was aborted by request of someone in step deploy.boot_ramdisk",
    );
    check(
        &mut cleaning(Verb::Provide, &[], "deploy.erase_devices_metadata"),
        State::CleanFailed,
        State::Available,
        "automated clean was aborted by request of someone in step deploy.erase_devices_metadata",
    );
    check(
        &mut cleaning(Verb::Clean, &["deploy.burn_in"], "deploy.burn_in"),
        State::CleanFailed,
        State::Manageable,
        "manual clean was aborted by request of someone in step deploy.burn_in",
    );
    check(
        &mut waiting(State::Available, Verb::Active, &[], "deploy.deploy"),
        State::DeployFailed,
        State::Active,
        "deploy was aborted by request of someone in step deploy.deploy",
    );
    check(
        &mut waiting(State::Active, Verb::Rescue, &[], "deploy.boot_ramdisk"),
        State::RescueFailed,
        State::Rescue,
        "rescue was aborted by request of someone in step deploy.boot_ramdisk",
    );
}

#[test]
fn abort_of_a_step_that_cannot_be_cut_short_waits_for_its_end() {
    let mut desk = waiting(State::Manageable, Verb::Provide, &[], "deploy.erase_devices");
    desk.ask(Verb::Abort, &[]).expect("accepted");
    assert_eq!(desk.place(), (State::CleanWait, Some(State::Available)), "it stays");
    assert_eq!(desk.last_text(), "abort asked for; deploy.erase_devices cannot be cut short and ends first");
    assert_eq!(desk.node.operation.as_ref().and_then(|op| op.abort_by.as_deref()), Some("someone"));
    // The step ends; nothing after it is begun.
    assert!(desk.wake() && desk.turn());
    assert_eq!(desk.place(), (State::CleanFailed, Some(State::Available)));
    assert!(desk.node.last_error.as_ref().is_some_and(|error| error.contains("aborted by request of someone")));
    assert_eq!((desk.node.maintenance.as_ref(), desk.steps()), (None, vec!["deploy.tear_down_agent".to_owned()]));
    desk.settle();
    assert_eq!(desk.ran.last().map(String::as_str), Some("deploy.tear_down_agent"));
    assert!(!desk.ran.contains(&"management.compare_configuration".to_owned()));
}

#[test]
fn an_aborted_service_goes_back_to_its_workload() {
    let mut desk = waiting(State::Active, Verb::Service, &["deploy.burn_in"], "deploy.burn_in");
    desk.ask(Verb::Abort, &[]).expect("accepted");
    assert_eq!(desk.place(), (State::ServiceFailed, Some(State::Active)));
    assert_eq!(desk.node.operation.as_ref().map(|op| op.work), Some(Work::RestoreService));
    // What clears up may wait too, and stays where it is meanwhile.
    desk.step(engine::Outcome::Wait(WaitOn::Time(desk.now), "the power goes off".to_owned()));
    assert_eq!(desk.node.state, State::ServiceFailed);
    desk.settle();
    assert_eq!((desk.place(), desk.node.last_error.as_deref()), ((State::Active, None), None));
    assert_eq!(desk.ran.last().map(String::as_str), Some("deploy.boot_instance"));
    // A hold is aborted the same way.
    let mut desk = waiting(State::Active, Verb::Service, &["deploy.hold"], "deploy.hold");
    assert_eq!(desk.node.state, State::ServiceHold);
    desk.ask(Verb::Abort, &[]).expect("accepted");
    desk.settle();
    assert_eq!(desk.place(), (State::Active, None));
}

#[test]
fn abort_leaves_a_failed_service_and_boots_the_workload_again() {
    let mut desk = waiting(State::Active, Verb::Service, &["deploy.burn_in"], "deploy.burn_in");
    assert!(desk.wake());
    desk.step(engine::Outcome::Failed("too hot".to_owned()));
    assert_eq!(desk.place(), (State::ServiceFailed, Some(State::Active)));
    assert_eq!(desk.node.maintenance.as_ref().and_then(|m| m.fault), Some(Fault::Service));
    let conflict = Err(VerbRefusal::Guard(GuardRefusal::MaintenanceConflict(Verb::Abort)));
    assert_eq!(desk.ask(Verb::Abort, &[]), conflict);
    desk.node.maintenance = None;
    let begun = desk.ran.len();
    desk.ask(Verb::Abort, &[]).expect("accepted");
    assert_eq!(desk.place(), (State::Active, None), "at once");
    desk.settle();
    assert_eq!(desk.ran[begun..], ["deploy.tear_down_agent", "deploy.boot_instance"]);
    assert!(desk.at_rest());
}

#[test]
fn unhold_goes_on_after_the_hold() {
    let holds = [
        (State::Manageable, Verb::Clean, State::CleanHold, State::CleanWait, State::Manageable),
        (State::Active, Verb::Service, State::ServiceHold, State::ServiceWait, State::Active),
    ];
    for (from, verb, hold, wait, end) in holds {
        let mut desk = waiting(from, verb, &["deploy.hold", "power.reboot"], "deploy.hold");
        assert_eq!((desk.node.state, desk.deadline_in(), desk.next()), (hold, None, Next::Leave), "a hold lasts");
        desk.pass(1_000_000);
        assert_eq!(desk.next(), Next::Leave);
        desk.ask(Verb::Unhold, &[]).expect("accepted");
        assert_eq!((desk.node.state, desk.deadline_in()), (wait, Some(30 * 60)));
        assert_eq!(desk.next(), Next::Run { attempt: 1, resume: true }, "a worker takes it at once");
        desk.settle();
        assert_eq!(desk.place(), (end, None));
        assert_eq!(desk.ran.iter().filter(|key| *key == "deploy.hold").count(), 1);
    }
}

#[test]
fn new_work_finishes_clearing_up_first() {
    let failed = || {
        let mut desk = waiting(State::Manageable, Verb::Provide, &[], "deploy.erase_devices_metadata");
        desk.ask(Verb::Abort, &[]).expect("accepted");
        desk.ask(Verb::Manage, &[]).expect("accepted");
        assert_eq!(desk.place(), (State::Manageable, None));
        assert_eq!(desk.node.operation.as_ref().map(|op| op.work), Some(Work::ClearUp), "it goes on by itself");
        desk
    };
    let mut undisturbed = failed();
    undisturbed.settle();
    assert!(undisturbed.at_rest() && undisturbed.node.state == State::Manageable);
    let mut busy = failed();
    busy.machine = Some(HealthState::Healthy);
    busy.ask(Verb::Inspect, &[]).expect("accepted");
    assert_eq!(busy.steps(), ["deploy.tear_down_agent", "management.inspect"]);
    // Work that begins by switching the machine off needs nothing before.
    let mut stopped = waiting(State::Available, Verb::Active, &[], "deploy.write_image");
    assert!(stopped.wake());
    stopped.step(engine::Outcome::Failed("no space".to_owned()));
    stopped.ask(Verb::Deleted, &[]).expect("accepted");
    assert_eq!(stopped.steps()[0], "power.power_off");
}

#[test]
fn power_changes() {
    let limit = jiff::SignedDuration::from_mins(1);
    let ask = |node: &Node, target| accept_power(node, target, "someone", Timestamp::UNIX_EPOCH, limit);
    for state in State::ALL {
        let found = ask(&Desk::at(state).node, PowerTarget::Reboot).map(|changed| changed.node.power.action.is_some());
        let expected = match state.kind() {
            _ if matches!(state, State::Cleaning | State::CleanWait) => Err(PowerRefusal::Cleaning(state.as_str())),
            Kind::Busy | Kind::Waiting | Kind::Holding => Err(PowerRefusal::Working(state.as_str())),
            Kind::Stable | Kind::Failed => Ok(true),
        };
        assert_eq!(found, expected, "{state}");
    }
    let node = Node { disable_power_off: true, ..Desk::at(State::Active).node };
    for target in PowerTarget::ALL {
        let off = target.result() == PowerState::Off;
        assert_eq!(ask(&node, target).is_err_and(|refusal| refusal == PowerRefusal::MustStayOn), off, "{target}");
    }
    // One at a time, and its limit is stored, not kept in memory.
    let changed = ask(&Desk::at(State::Active).node, PowerTarget::SoftOff).expect("allowed");
    let action = changed.node.power.action.clone().expect("asked for");
    assert_eq!((action.deadline, action.started), (Timestamp::from_second(60).expect("valid"), false));
    assert_eq!(ask(&changed.node, PowerTarget::On).map(drop), Err(PowerRefusal::Pending));
    // A failure's text stays for whoever comes to look; elsewhere an old one is in the way.
    for (state, kept) in [(State::CleanFailed, true), (State::Active, false)] {
        let node = Node { last_error: Some("old".to_owned()), ..Desk::at(state).node };
        assert_eq!(ask(&node, PowerTarget::On).expect("allowed").node.last_error.is_some(), kept, "{state}");
    }
}

#[test]
fn a_power_change_is_taken_back_until_a_worker_has_begun_with_it() {
    let (limit, at) = (jiff::SignedDuration::from_mins(1), Timestamp::UNIX_EPOCH);
    let asked =
        accept_power(&Desk::at(State::Active).node, PowerTarget::Reboot, "somebody", at, limit).expect("allowed").node;
    let withdraw = |node: &Node, by: &str| withdraw_power(node, |action| action.asked_by == by, "who", at);
    let withdrawn = withdraw(&asked, "somebody").expect("not begun");
    assert_eq!((&withdrawn.node.power.action, withdrawn.rows.len()), (&None, 1));
    assert!(withdrawn.rows[0].text.contains("rebooting withdrawn"), "{:?}", withdrawn.rows);
    assert_eq!(withdraw(&asked, "somebody else"), None);
    assert_eq!(withdraw(&withdrawn.node, "somebody"), None, "there is none");
    let mut begun = asked;
    begun.power.action.as_mut().expect("asked for").started = true;
    assert_eq!(withdraw(&begun, "somebody"), None, "it may have happened");
}

#[test]
fn every_wish_is_taken_back_until_a_worker_has_begun_with_it() {
    let asks =
        |edge: &&edges::Edge| matches!(edge.on, Trigger::Verb(verb) if verb != Verb::Abort && verb != Verb::Unhold);
    for edge in EDGES.iter().filter(asks) {
        let Trigger::Verb(verb) = edge.on else { continue };
        let mut desk = Desk::full(edge.from);
        desk.node.last_error = Some("an older one".to_owned());
        let before = desk.node.clone();
        let steps: &[&str] = if matches!(verb, Verb::Clean | Verb::Service) { &["deploy.burn_in"] } else { &[] };
        if desk.ask(verb, steps).is_err() || desk.node.state.kind() == Kind::Stable {
            continue;
        }
        let what = format!("{verb} in {}", edge.from);
        let at = Timestamp::UNIX_EPOCH;
        let retires = verb == Verb::Deleted && desk.node.operation.as_ref().is_some_and(|work| work.origin.is_none());
        assert_eq!(can_take_back(&desk.node), !retires, "{what}");
        if retires {
            assert_eq!(take_back(&desk.node, None, "me", at), None, "{what}: no arrow leads back from retiring");
            continue;
        }
        let back = take_back(&desk.node, None, "me", at).unwrap_or_else(|| panic!("{what} cannot be taken back"));
        assert_eq!(back.node, Node { since: at, ..before }, "{what}");
        let row = &back.rows[0];
        assert_eq!((row.from, row.to, row.by.as_str()), (desk.node.state, edge.from, "me"), "{what}");
        assert!(row.text.contains("taken back before a worker began with it"), "{what}: {}", row.text);
        assert_eq!(engine::next(&back.node, at), Next::Leave, "{what}: nothing is left to do");

        let begun = engine::begin(&desk.node, 1, false, "worker", at).node;
        assert!(!can_take_back(&begun) && take_back(&begun, None, "me", at).is_none(), "{what}: it may have happened");
    }
}

#[test]
fn a_wish_that_took_over_clearing_up_gives_it_back() {
    let mut desk = Desk::full(State::CleanFailed);
    desk.node.operation = Some(Operation { work: Work::ClearUp, ..work_of(Verb::Manage) });
    let before = desk.node.clone();
    let changed = super::Changed::new(&desk.node);
    let mut asked = Node { state: State::Cleaning, ..changed.node };
    let origin = WishOrigin {
        state: before.state,
        target: before.target,
        last_error: before.last_error.clone(),
        clear_up: before.operation.clone().map(Box::new),
    };
    asked.operation = Some(Operation { origin: Some(origin), ..work_of(Verb::Manage) });
    let back = take_back(&asked, None, "me", Timestamp::UNIX_EPOCH).expect("not begun");
    assert_eq!(back.node, Node { since: Timestamp::UNIX_EPOCH, ..before });
}

/// The work that a verb asks of a new node.
fn work_of(verb: Verb) -> Operation {
    let mut desk = Desk::at(State::Enroll);
    desk.ask(verb, &[]).expect("accepted");
    let work = desk.node.operation.expect("work");
    Operation { origin: None, ..work }
}

#[test]
fn an_abort_takes_a_power_change_back_in_any_state() {
    let (limit, at) = (jiff::SignedDuration::from_mins(1), Timestamp::UNIX_EPOCH);
    let mut desk = Desk::at(State::Active);
    desk.node = accept_power(&desk.node, PowerTarget::Off, "somebody", at, limit).expect("allowed").node;
    assert!(can_take_back(&desk.node));
    desk.ask(Verb::Abort, &[]).expect("accepted although no arrow begins here");
    assert_eq!((desk.node.state, &desk.node.power.action), (State::Active, &None));
    assert!(desk.ask(Verb::Abort, &[]).is_err(), "there is nothing left to take back");
}

#[test]
fn a_machine_nobody_asked_about_rests_in_enroll() {
    let serial = crate::words::Serial::new("1234abcd").expect("valid");
    let node = Node::implied(NodeId(7), serial, Timestamp::UNIX_EPOCH);
    assert_eq!((node.state, node.target, engine::next(&node, Timestamp::MAX)), (State::Enroll, None, Next::Leave));
    assert_eq!(edges::accepted(node.state).collect::<Vec<_>>(), [Verb::Manage]);
    assert_eq!(node.id.to_string().parse(), Ok(node.id));
}
