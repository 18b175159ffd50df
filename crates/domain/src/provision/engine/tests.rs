//! Whole lives of a node, couplings with its machine, lost workers, calls of the ramdisk, deadlines, reports, faults, clearing up.

use super::*;
use crate::provision::{
    fixtures::{Desk, OUT_OF_BAND},
    hardware::Aspect,
    node::{Object, PowerAction, Silent},
    power::PowerTarget,
    steps::StepSpec,
};

fn failed(reason: &str) -> Outcome {
    Outcome::Failed(reason.to_owned())
}

fn waits(on: WaitOn) -> Outcome {
    Outcome::Wait(on, "it takes a while".to_owned())
}

/// Asks for a verb and lets everything go well.
fn goes_well(desk: &mut Desk, verb: Verb, steps: &[&str], end: State, machine: HealthState) {
    desk.pass(10);
    desk.ask(verb, steps).unwrap_or_else(|refusal| panic!("{refusal}"));
    desk.settle();
    assert_eq!((desk.place(), desk.machine), ((end, None), Some(machine)), "{verb}");
    assert!(desk.at_rest() && desk.node.last_error.is_none(), "{verb}");
}

fn goes_straight(desk: &mut Desk, verb: Verb, end: State) {
    desk.ask(verb, &[]).unwrap_or_else(|refusal| panic!("{refusal}"));
    assert_eq!((desk.place(), desk.at_rest()), ((end, None), true), "{verb}");
}

#[test]
fn a_whole_life() {
    use HealthState::{Healthy, Uninitialized};
    for mut desk in [Desk::at(State::Enroll), Desk::full(State::Enroll)] {
        desk.machine = Some(Uninitialized);
        let rescue = !desk.ramdisk.is_empty();
        goes_well(&mut desk, Verb::Manage, &[], State::Manageable, Uninitialized);
        goes_well(&mut desk, Verb::Inspect, &[], State::Manageable, Uninitialized);
        goes_well(&mut desk, Verb::Clean, &["power.reboot"], State::Manageable, Uninitialized);
        goes_well(&mut desk, Verb::Provide, &[], State::Available, Uninitialized);
        assert!(!desk.has_keys, "the key it came with is gone");
        goes_well(&mut desk, Verb::Active, &[], State::Active, Uninitialized);
        (desk.machine, desk.has_keys) = (Some(Healthy), true);
        goes_well(&mut desk, Verb::Rebuild, &[], State::Active, Healthy);
        if rescue {
            goes_well(&mut desk, Verb::Rescue, &[], State::Rescue, Healthy);
            goes_well(&mut desk, Verb::Unrescue, &[], State::Active, Healthy);
        }
        goes_well(&mut desk, Verb::Service, &["power.reboot"], State::Active, Healthy);
        desk.node.instance_info.insert("image_source".to_owned(), "http://x".into());
        goes_well(&mut desk, Verb::Deleted, &[], State::Available, Uninitialized);
        assert!(!desk.has_keys && desk.node.instance_info.is_empty(), "nothing of the workload is left");
        goes_well(&mut desk, Verb::Manage, &[], State::Manageable, Uninitialized);
        goes_well(&mut desk, Verb::Adopt, &[], State::Active, Uninitialized);
        let momentary: Vec<&str> =
            desk.rows.iter().filter_map(|row| row.text.split_once(" through ")).map(|(_, t)| t).collect();
        let momentary: Vec<&str> = momentary.iter().filter_map(|text| text.split(':').next()).collect();
        let mut expected = vec!["verified", "inspected", "cleaned", "cleaned", "deployed", "deployed"];
        expected.extend(if rescue { &["rescued", "unrescued"][..] } else { &[] });
        expected.extend(["deleted", "cleaned"]);
        assert_eq!(momentary, expected);
    }
}

#[test]
fn what_a_step_taught_is_kept() {
    let mut desk = Desk::at(State::Enroll);
    desk.ask(Verb::Manage, &[]).expect("accepted");
    let silent = Silent { since: desk.now, reason: "no route".to_owned(), times: 3 };
    desk.node.power.silent = Some(silent);
    let learned =
        Learned { power: Some(PowerState::On), verified: true, note: "answers".to_owned(), ..Learned::default() };
    desk.step(Outcome::Done(learned));
    assert_eq!((desk.node.power.state, desk.node.power.since), (Some(PowerState::On), Some(desk.now)));
    assert_eq!((desk.node.power.silent.as_ref(), desk.node.verified_at), (None, Some(desk.now)));
    assert_eq!(desk.last_text(), "step power.verify done: answers");
    desk.settle();
    desk.ask(Verb::Inspect, &[]).expect("accepted");
    desk.pass(5);
    let inspected = Some(Object::from([("cpus".to_owned(), 4.into())]));
    desk.node.properties.insert("rack".to_owned(), 1.into());
    desk.step(Outcome::Done(Learned { inspected, power: Some(PowerState::On), ..Learned::default() }));
    assert_eq!(desk.node.inspected_at, Some(desk.now));
    assert_eq!(desk.node.properties.len(), 2, "what somebody wrote stays");
    assert_ne!(desk.node.power.since, Some(desk.now), "it did not change");
    desk.settle();
    desk.ask(Verb::Provide, &[]).expect("accepted");
    let configuration = Some(Configuration { secure_boot: Some(true), ..Configuration::default() });
    desk.step(Outcome::Done(Learned { configuration: configuration.clone(), ..Learned::default() }));
    desk.done();
    assert_eq!(desk.node.operation.as_ref().expect("it goes on").before, configuration, "kept until it is compared");
}

#[test]
fn where_cleaning_ends() {
    use HealthState::{Healthy, Retired, Retiring, Uninitialized};
    // verb, cleaning on, keys, declared retiring, the machine at the end, the node at the end
    let table = [
        (Verb::Provide, true, true, false, Uninitialized, State::Available),
        (Verb::Provide, true, false, false, Uninitialized, State::Available),
        (Verb::Provide, false, false, false, Healthy, State::Available),
        (Verb::Provide, false, true, false, Healthy, State::Manageable),
        (Verb::Provide, true, true, true, Retired, State::Manageable),
        (Verb::Provide, false, false, true, Healthy, State::Manageable),
        (Verb::Deleted, true, true, false, Uninitialized, State::Available),
        (Verb::Deleted, true, true, true, Retired, State::Manageable),
        (Verb::Deleted, false, false, false, Uninitialized, State::Available),
        (Verb::Deleted, false, true, false, Retiring, State::Manageable),
        (Verb::Deleted, false, false, true, Retiring, State::Manageable),
    ];
    for (verb, cleans, keys, declared, machine, end) in table {
        let mut desk = Desk::full(if verb == Verb::Provide { State::Manageable } else { State::Active });
        desk.node.automated_clean = Some(cleans);
        desk.has_keys = keys;
        desk.ask(verb, &[]).expect("accepted");
        // Somebody declares it while work goes on.
        desk.node.retire_declared = declared;
        desk.settle();
        let case = format!("{verb}, cleans {cleans}, keys {keys}, declared {declared}");
        assert_eq!((desk.place(), desk.machine), ((end, None), Some(machine)), "{case}");
        assert!(end != State::Available || !desk.has_keys, "{case}: an available machine holds no key");
        if end == State::Manageable {
            assert!(desk.rows.iter().any(|row| row.text.contains("does not become available")), "{case}");
        }
    }
}

/// Before or after its keys were erased: the way back is the one every client knows.
#[test]
fn a_cleaning_that_failed_after_tear_down_is_repeated() {
    use HealthState::{Retired, Retiring, Uninitialized};
    for (step, machine) in [("management.record_configuration", Retiring), ("deploy.boot_ramdisk", Retired)] {
        let mut desk = Desk::full(State::Active);
        desk.ask(Verb::Deleted, &[]).expect("accepted");
        desk.until(step);
        desk.step(failed("no"));
        desk.settle();
        assert_eq!((desk.place(), desk.machine), ((State::CleanFailed, Some(State::Available)), Some(machine)));
        goes_straight(&mut desk, Verb::Manage, State::Manageable);
        goes_well(&mut desk, Verb::Provide, &[], State::Available, Uninitialized);
        assert!(!desk.has_keys);
    }
}

#[test]
fn a_cleaning_that_cannot_be_planned_ends_the_tear_down_visibly() {
    let mut desk = Desk::full(State::Active);
    const LOST: &[StepSpec] = &[StepSpec { disturbs: &[Aspect::SecureBoot], ..OUT_OF_BAND[0] }];
    desk.out_of_band = LOST;
    desk.ask(Verb::Deleted, &[]).expect("accepted");
    desk.settle();
    assert_eq!(desk.place(), (State::Error, None));
    assert!(desk.node.last_error.as_ref().is_some_and(|error| error.contains("may tear down secure_boot")));
}

#[test]
fn a_lost_worker() {
    // An idempotent step is begun again, and not for ever.
    let mut desk = Desk::full(State::Manageable);
    desk.ask(Verb::Provide, &[]).expect("accepted");
    for attempt in 1..=limits::STEP_ATTEMPTS {
        assert_eq!(desk.next(), Next::Run { attempt, resume: false });
        desk.begin();
    }
    let text = "the worker was lost in step management.record_configuration 3 times";
    assert_eq!(desk.next(), Next::Fail(text.to_owned()));
    desk.settle();
    assert_eq!((desk.node.state, desk.node.last_error.as_deref()), (State::CleanFailed, Some(text)));
    assert_eq!(desk.node.maintenance, None, "nothing was touched");
    // Any other is not, because nobody knows what it did.
    let mut desk = Desk::full(State::Manageable);
    desk.ask(Verb::Provide, &[]).expect("accepted");
    desk.until("raid.erase_members");
    desk.begin();
    let Next::Fail(text) = desk.next() else { panic!("{:?}", desk.next()) };
    assert!(text.contains("raid.erase_members, which must not be run twice"), "{text}");
    desk.settle();
    assert_eq!(desk.node.state, State::CleanFailed);
    assert_eq!(desk.node.maintenance.as_ref().and_then(|m| m.fault), Some(Fault::Clean), "it may be half way");
    assert_eq!(desk.ran.iter().filter(|key| *key == "raid.erase_members").count(), 1);
}

#[test]
fn a_worker_lost_while_looking_at_a_step_looks_again() {
    let mut desk = Desk::full(State::Manageable);
    desk.ask(Verb::Provide, &[]).expect("accepted");
    desk.until("deploy.erase_devices");
    assert!(desk.turn() && desk.wake());
    for attempt in 1..=limits::STEP_ATTEMPTS {
        assert_eq!(desk.next(), Next::Run { attempt, resume: true });
        desk.begin();
        let phase = &desk.node.operation.as_ref().expect("it goes on").phase;
        let task = Some("task-erase_devices".to_owned());
        assert_eq!(*phase, Phase::Resumed { attempt, task }, "the task is not forgotten");
        assert_eq!(desk.node.state, State::Cleaning);
    }
    assert!(matches!(desk.next(), Next::Fail(_)));
    assert_eq!(desk.ran.iter().filter(|key| *key == "deploy.erase_devices").count(), 1, "never begun again");
}

#[test]
fn a_state_without_an_operation_fails_instead_of_lasting() {
    for state in State::ALL {
        let mut desk = Desk::full(state);
        desk.node.target = Some(State::Manageable);
        match state.kind() {
            Kind::Busy | Kind::Waiting => {
                desk.settle();
                assert_eq!(desk.node.state.kind(), Kind::Failed, "{state}");
                assert!(desk.node.last_error.is_some(), "{state}");
            }
            Kind::Stable | Kind::Holding | Kind::Failed => assert_eq!(desk.next(), Next::Leave, "{state}"),
        }
    }
}

#[test]
fn the_ramdisk_calls() {
    let mut desk = Desk::full(State::Manageable);
    assert_eq!(heartbeat(&desk.node, "http://x", desk.now), None, "nobody booted one");
    desk.ask(Verb::Provide, &[]).expect("accepted");
    assert_eq!(heartbeat(&desk.node, "http://x", desk.now), None, "not yet");
    desk.until("deploy.boot_ramdisk");
    assert!(desk.turn());
    assert_eq!((desk.node.state, desk.next(), desk.deadline_in()), (State::CleanWait, Next::Leave, Some(1_800)));
    desk.pass(600);
    desk.call();
    assert_eq!((desk.next(), desk.deadline_in()), (Next::Run { attempt: 1, resume: true }, Some(1_800)));
    let contact = desk.node.operation.as_ref().and_then(|op| op.ramdisk.clone()).expect("known");
    assert_eq!((contact.url.as_deref(), contact.heard_at), (Some("http://10.0.0.9:9999"), Some(desk.now)));
    // Further calls are written now and then, and when something is new in them.
    assert_eq!(heartbeat(&desk.node, "http://10.0.0.9:9999", desk.now), None);
    assert!(heartbeat(&desk.node, "http://10.0.0.10:9999", desk.now).is_some());
    desk.until("deploy.erase_devices");
    assert!(desk.turn());
    desk.pass(1_799);
    desk.call();
    assert_eq!((desk.next(), desk.deadline_in()), (Next::Leave, Some(1_800)), "alive, but the task goes on");
    desk.until("management.verify_configuration");
    assert_eq!(heartbeat(&desk.node, "http://x", desk.now), None, "it was switched off");
}

#[test]
fn in_maintenance_calls_are_recorded_only_and_the_clock_stands() {
    let mut desk = Desk::full(State::Manageable);
    desk.ask(Verb::Provide, &[]).expect("accepted");
    desk.until("deploy.boot_ramdisk");
    assert!(desk.turn());
    desk.node.maintenance = Some(Maintenance { reason: None, fault: None });
    desk.pass(1_700);
    desk.call();
    assert_eq!(desk.deadline_in(), Some(100), "recorded, not acted on");
    desk.pass(100_000);
    assert_eq!(desk.next(), Next::Leave, "somebody is looking at it");
    desk.node.maintenance = None;
    assert_eq!(desk.next(), Next::Expire);
}

#[test]
fn tasks_end() {
    let mut desk = Desk::full(State::Manageable);
    desk.ask(Verb::Provide, &[]).expect("accepted");
    assert_eq!(task_ended(&desk.node, "task-erase_devices"), None);
    desk.until("deploy.erase_devices");
    assert!(desk.turn());
    assert_eq!(task_ended(&desk.node, "another"), None, "a late answer about something else");
    assert_eq!(desk.next(), Next::Leave);
    assert!(desk.wake());
    assert_eq!(task_ended(&desk.node, "task-erase_devices"), None, "known already");
    assert_eq!(desk.next(), Next::Run { attempt: 1, resume: true });
    // A moment that passes is no different.
    desk.begin();
    let until = desk.now.checked_add(SignedDuration::from_secs(30)).expect("valid");
    desk.record(waits(WaitOn::Time(until)));
    assert_eq!((desk.node.state, desk.next()), (State::CleanWait, Next::Leave));
    desk.now = until;
    assert_eq!(desk.next(), Next::Run { attempt: 1, resume: true });
}

#[test]
fn every_busy_and_waiting_state_expires() {
    // How to get there, where it ends and what it says; whether something is left to clear up.
    let check = |from: State, verb: Verb, step: &str, end: State, text: &str, clears: bool| {
        let mut desk = Desk::full(from);
        desk.ask(verb, &[]).expect("accepted");
        if !step.is_empty() {
            desk.until(step);
            assert!(desk.turn());
        }
        let limit = desk.deadline_in().expect("limited");
        desk.pass(limit - 1);
        assert_ne!(desk.next(), Next::Expire, "{verb}");
        desk.pass(1);
        assert_eq!(desk.next(), Next::Expire, "{verb}");
        assert!(desk.turn());
        assert_eq!(desk.node.state, end, "{verb}");
        assert!(desk.node.last_error.as_ref().is_some_and(|error| error.contains(text)), "{:?}", desk.node.last_error);
        assert_eq!(desk.steps() == ["deploy.tear_down_agent"], clears, "{verb}: {:?}", desk.steps());
        assert_eq!(desk.node.maintenance, None, "{verb}: no step of a driver had begun");
        desk.settle();
        assert!(desk.at_rest(), "{verb}");
    };
    check(State::Enroll, Verb::Manage, "", State::VerifyFailed, "verifying did not end within 14400 s", false);
    check(State::Manageable, Verb::Inspect, "", State::InspectFailed, "inspecting did not end", false);
    check(State::Manageable, Verb::Provide, "", State::CleanFailed, "cleaning did not end", false);
    let waited =
        "clean wait did not end within 1800 s in step deploy.boot_ramdisk; it waited because the ramdisk boots";
    check(State::Manageable, Verb::Provide, "deploy.boot_ramdisk", State::CleanFailed, waited, true);
    check(State::Available, Verb::Active, "deploy.deploy", State::DeployFailed, "wait call-back did not end", true);
    check(State::Active, Verb::Deleted, "", State::Error, "deleting did not end", false);
    check(State::Active, Verb::Rescue, "deploy.boot_ramdisk", State::RescueFailed, "rescue wait did not end", true);
    check(State::Rescue, Verb::Unrescue, "", State::UnrescueFailed, "unrescuing did not end", false);
    check(State::Manageable, Verb::Adopt, "", State::AdoptFailed, "adopting did not end", false);
}

#[test]
fn a_step_that_waits_again_and_again_where_there_is_no_waiting_state_ends_in_time() {
    let mut desk = Desk::full(State::Active);
    desk.ask(Verb::Deleted, &[]).expect("accepted");
    let mut turns = 0;
    while desk.next() != Next::Expire {
        desk.step(waits(WaitOn::Time(desk.now)));
        assert_eq!(desk.node.state, State::Deleting);
        desk.pass(600);
        turns += 1;
        assert!(turns < 100, "it never ends");
    }
    assert_eq!(turns, 24, "four hours");
}

#[test]
fn faults_are_set_only_when_a_step_had_begun() {
    let check = |from: State, verb: Verb, steps: &[&str], step: &str, fault: Option<Fault>| {
        let mut desk = Desk::full(from);
        desk.ask(verb, steps).expect("accepted");
        desk.until(step);
        desk.step(failed("no"));
        assert_eq!(desk.node.state.kind(), Kind::Failed, "{step}");
        assert_eq!(desk.node.last_error.as_deref(), Some(format!("step {step} failed: no").as_str()));
        let found = desk.node.maintenance.as_ref().map(|maintenance| maintenance.fault);
        assert_eq!(found, fault.map(Some), "{verb} fails in {step}");
        assert!(desk.rows.iter().any(|row| row.severity == Severity::Error && row.text.contains("failed: no")));
        desk.settle();
        assert!(desk.at_rest(), "{step}");
    };
    let clean = |step, fault| check(State::Manageable, Verb::Provide, &[], step, fault);
    clean("management.record_configuration", None);
    clean("deploy.erase_disk_keys", None);
    clean("deploy.boot_ramdisk", None);
    clean("deploy.erase_devices_metadata", Some(Fault::Clean));
    clean("raid.erase_members", Some(Fault::Clean));
    clean("management.compare_configuration", Some(Fault::Clean));
    check(State::Manageable, Verb::Clean, &["raid.erase_members"], "raid.erase_members", Some(Fault::Clean));
    check(State::Manageable, Verb::Clean, &["power.reboot"], "power.reboot", None);
    // That the machine does not look as before is a fault, whoever did it.
    let compare = "management.compare_configuration";
    check(State::Manageable, Verb::Clean, &["power.reboot"], compare, Some(Fault::Clean));
    check(State::Active, Verb::Service, &["deploy.burn_in"], "deploy.burn_in", Some(Fault::Service));
    check(State::Active, Verb::Service, &["deploy.burn_in"], "power.power_off", None);
    // Deploying and tearing down have a state of their own to go back from.
    check(State::Available, Verb::Active, &[], "deploy.write_image", None);
    check(State::Active, Verb::Deleted, &[], "management.clear_boot", None);
    check(State::Enroll, Verb::Manage, &[], "power.verify", None);
}

#[test]
fn failures_keep_the_target_except_where_clients_expect_none() {
    let check = |from: State, verb: Verb, steps: &[&str], end: State, target: Option<State>| {
        let mut desk = Desk::full(from);
        desk.ask(verb, steps).expect("accepted");
        desk.step(failed("no"));
        assert_eq!(desk.place(), (end, target), "{verb}");
    };
    check(State::Enroll, Verb::Manage, &[], State::VerifyFailed, None);
    check(State::Manageable, Verb::Inspect, &[], State::InspectFailed, Some(State::Manageable));
    check(State::Manageable, Verb::Provide, &[], State::CleanFailed, Some(State::Available));
    check(State::Manageable, Verb::Clean, &["power.reboot"], State::CleanFailed, Some(State::Manageable));
    check(State::Available, Verb::Active, &[], State::DeployFailed, Some(State::Active));
    check(State::Active, Verb::Deleted, &[], State::Error, None);
    check(State::Active, Verb::Rescue, &[], State::RescueFailed, Some(State::Rescue));
    check(State::Active, Verb::Service, &["power.reboot"], State::ServiceFailed, Some(State::Active));
}

#[test]
fn clearing_up_ends_whatever_happens() {
    let aborted = |verb: Verb, step: &str| {
        let mut desk = Desk::full(if verb == Verb::Provide { State::Manageable } else { State::Active });
        desk.ask(verb, &[]).expect("accepted");
        desk.until(step);
        assert!(desk.turn());
        desk.ask(Verb::Abort, &[]).expect("accepted");
        desk
    };
    // It fails: that is said, and that is all; the first error stays.
    let mut desk = aborted(Verb::Provide, "deploy.boot_ramdisk");
    desk.step(failed("no answer"));
    assert_eq!(desk.last_text(), "could not clear up: step deploy.tear_down_agent failed: no answer");
    assert!(desk.at_rest() && desk.node.last_error.as_ref().is_some_and(|error| error.contains("aborted")));
    assert_eq!(desk.node.maintenance, None);
    // A rescue that cannot be undone leaves a machine with an open door.
    let mut desk = aborted(Verb::Rescue, "deploy.boot_ramdisk");
    desk.step(failed("no answer"));
    assert_eq!(desk.node.maintenance.as_ref().and_then(|m| m.fault), Some(Fault::RescueAbort));
    assert!(desk.at_rest());
    // It hangs: its clock goes on, in maintenance, and after somebody went on by hand.
    for (maintenance, managed) in [(false, false), (true, false), (false, true), (true, true)] {
        let mut desk = aborted(Verb::Provide, "deploy.boot_ramdisk");
        desk.node.maintenance = maintenance.then_some(Maintenance { reason: None, fault: Some(Fault::Clean) });
        if managed {
            desk.ask(Verb::Manage, &[]).expect("accepted");
        }
        let before = desk.place();
        desk.step(waits(WaitOn::Task { id: "never".to_owned(), ended: false }));
        assert_eq!((desk.place(), desk.next()), (before, Next::Leave));
        desk.pass(600);
        assert_eq!(desk.next(), Next::Expire);
        assert!(desk.turn());
        let text = "could not clear up: clearing up did not end within 600 s in step deploy.tear_down_agent; \
                    it waited because it takes a while";
        assert_eq!(desk.last_text(), text);
        assert!(desk.at_rest() && desk.place() == before);
    }
    // Its worker is lost every time.
    let mut desk = aborted(Verb::Provide, "deploy.boot_ramdisk");
    for _ in 0..limits::STEP_ATTEMPTS {
        desk.begin();
    }
    desk.settle();
    assert!(desk.at_rest());
}

#[test]
fn an_aborted_service_whose_workload_cannot_be_put_back_stays_failed() {
    let mut desk = Desk::full(State::Active);
    desk.ask(Verb::Service, &["deploy.burn_in"]).expect("accepted");
    desk.until("deploy.burn_in");
    assert!(desk.turn());
    desk.ask(Verb::Abort, &[]).expect("accepted");
    desk.done();
    desk.step(failed("no answer"));
    assert_eq!(desk.place(), (State::ServiceFailed, Some(State::Active)));
    assert!(desk.at_rest());
}

#[test]
fn reports_that_arrived_meanwhile_are_judged_when_work_ends() {
    use HealthState::{Healthy, Retiring, Unhealthy, Unreachable};
    let report = |state| Some(HeldReport { state, at: Timestamp::UNIX_EPOCH, by: "monitor".to_owned() });
    let check = |verb: Verb, reported: HealthState, end: &str, machine: HealthState, text: &str| {
        let mut desk = Desk::full(if verb == Verb::Inspect { State::Manageable } else { State::Active });
        desk.ask(verb, &[]).expect("accepted");
        desk.node.held_report = report(reported);
        match end {
            "well" => desk.settle(),
            "badly" => desk.step(failed("no")),
            "aborted" => {
                assert!(desk.turn());
                assert!(desk.node.held_report.is_some(), "not judged while work goes on");
                desk.ask(Verb::Abort, &[]).expect("accepted");
            }
            other => panic!("{other}"),
        }
        assert_eq!((desk.machine, desk.node.held_report.as_ref()), (Some(machine), None), "{verb} ends {end}");
        let said = desk.rows.iter().any(|row| row.text.contains(text) && row.text.contains("of monitor"));
        assert!(said, "{:?}", desk.rows);
    };
    check(Verb::Inspect, Unhealthy, "well", Healthy, "is outdated");
    check(Verb::Inspect, Unhealthy, "badly", Unhealthy, "now counts");
    check(Verb::Rescue, Unreachable, "badly", Unreachable, "now counts");
    check(Verb::Rescue, Unreachable, "aborted", Unreachable, "now counts");
    // A machine that is leaving stays so.
    check(Verb::Deleted, Unreachable, "badly", Retiring, "has no place any more");
    // Tear-down goes over into cleaning: work has not ended.
    let mut desk = Desk::full(State::Active);
    desk.ask(Verb::Deleted, &[]).expect("accepted");
    desk.node.held_report = report(Unreachable);
    desk.until("management.record_configuration");
    assert!(desk.node.held_report.is_some());
}

#[test]
fn long_errors_are_cut_at_a_character() {
    let mut desk = Desk::at(State::Enroll);
    desk.ask(Verb::Manage, &[]).expect("accepted");
    desk.step(failed(&"ü".repeat(5_000)));
    let error = desk.node.last_error.expect("it failed");
    assert!(error.len() <= limits::ERROR_TEXT_BYTES_MAX + '…'.len_utf8() && error.ends_with("ü…"), "{}", error.len());
}

#[test]
fn rows_tell_how_long_it_took() {
    let mut desk = Desk::at(State::Enroll);
    desk.pass(7);
    desk.ask(Verb::Manage, &[]).expect("accepted");
    desk.pass(3);
    desk.settle();
    let moves: Vec<_> = desk.rows.iter().filter(|row| row.from != row.to).collect();
    let told: Vec<_> = moves.iter().map(|row| (row.text.as_str(), row.by.as_str(), row.lasted_ms)).collect();
    let expected = [
        ("enroll -> verifying: manage", "someone", 7_000),
        ("verifying -> manageable through verified: all steps are done", "worker", 3_000),
    ];
    assert_eq!(told, expected);
    assert_eq!(desk.node.since, desk.now);
}

#[test]
fn a_power_change_under_way_is_no_work_of_the_engine() {
    let mut desk = Desk::at(State::Active);
    let (target, asked_by) = (PowerTarget::Off, "someone".to_owned());
    let (asked_at, deadline) = (desk.now, desk.now);
    desk.node.power.action = Some(PowerAction { target, asked_by, asked_at, deadline, started: true });
    assert_eq!(desk.next(), Next::Leave);
}
