//! Names of tasks, when power may be cut, and what becomes of work whose ramdisk is busy.

use super::*;
use crate::provision::{
    accept::{self, PowerRefusal},
    engine::{Next, Outcome},
    fixtures::Desk,
    node::Work,
    power::{PowerState, PowerTarget},
    states::State,
    verbs::Verb,
};

#[test]
fn names_are_read_as_they_are_written() {
    let step = |command: Option<&str>| RamdiskTask::Step {
        step: "deploy.erase_devices".to_owned(),
        command: command.map(str::to_owned),
    };
    for (task, name) in [
        (step(None), "ramdisk:deploy.erase_devices"),
        (step(Some("27374b5e")), "ramdisk:deploy.erase_devices#27374b5e"),
        (RamdiskTask::Turn { step: "deploy.write_image".to_owned() }, "ramdisk turn:deploy.write_image"),
        (RamdiskTask::Idle, "ramdisk idle"),
    ] {
        assert_eq!(task.name(), name);
        assert_eq!(RamdiskTask::parse(name), Some(task), "{name}");
    }
    assert_eq!(RamdiskTask::parse("/redfish/v1/TaskService/Tasks/1"), None);
}

#[test]
fn the_power_of_a_ramdisk_at_work_is_cut_by_force_alone() {
    let now = Timestamp::from_second(1_000_000).expect("valid");
    let ago = |seconds| now.checked_sub(SignedDuration::from_secs(seconds)).expect("valid");
    let contact = |command: Option<&str>, heard: Option<i64>| RamdiskContact {
        command: command.map(str::to_owned),
        heard_at: heard.map(ago),
        ..RamdiskContact::default()
    };
    let running = || RamdiskReport::Running("execute_clean_step".to_owned());
    let silent = || RamdiskReport::Silent("no connection".to_owned());
    let limit = i64::try_from(limits::SILENT_RAMDISK_MAX.as_secs()).expect("small");
    for (contact, report, forced, expected) in [
        (None, RamdiskReport::Absent, false, None),
        (Some(contact(None, Some(1))), RamdiskReport::Idle, false, None),
        // Whatever is noted: what the ramdisk says counts.
        (Some(contact(Some("t"), Some(1))), RamdiskReport::Idle, false, None),
        (Some(contact(None, Some(1))), running(), false, Some("still runs execute_clean_step")),
        (Some(contact(Some("t"), Some(99_999))), running(), false, Some("still runs execute_clean_step")),
        (Some(contact(Some("t"), Some(1))), running(), true, None),
        // One that is silent is asked again for a while, if it had something to do.
        (Some(contact(Some("t"), Some(limit - 1))), silent(), false, Some("does not answer now (no connection)")),
        (Some(contact(Some("t"), Some(limit))), silent(), false, None),
        (Some(contact(Some("t"), None)), silent(), false, None),
        (Some(contact(None, Some(1))), silent(), false, None),
        (Some(contact(Some("t"), Some(1))), silent(), true, None),
    ] {
        let found = postpones(contact.as_ref(), &report, forced, now);
        let fits = match (&found, expected) {
            (Some(found), Some(expected)) => found.contains(expected),
            (found, expected) => found.is_none() && expected.is_none(),
        };
        assert!(fits, "{contact:?} {report:?} {forced}: {found:?}, expected {expected:?}");
    }
}

fn until_idle_again() -> Outcome {
    Outcome::Wait(until_idle(false), "the ramdisk still runs execute_clean_step".to_owned())
}

/// A node in cleaning whose ramdisk erases a disk.
fn erasing() -> Desk {
    let mut desk = Desk::full(State::Manageable);
    desk.ask(Verb::Provide, &[]).expect("accepted");
    desk.until("deploy.erase_devices_metadata");
    let task = RamdiskTask::Step { step: "deploy.erase_devices_metadata".to_owned(), command: Some("27".to_owned()) };
    desk.step(Outcome::Wait(WaitOn::Task { id: task.name(), ended: false }, "it runs".to_owned()));
    assert_eq!(desk.node.state, State::CleanWait);
    desk
}

fn command(desk: &Desk) -> Option<&str> {
    desk.node.operation.as_ref()?.ramdisk.as_ref()?.command.as_deref()
}

#[test]
fn what_a_ramdisk_was_given_is_written_down_until_it_has_ended() {
    let mut desk = erasing();
    assert_eq!(command(&desk), Some("ramdisk:deploy.erase_devices_metadata#27"));
    assert_eq!(desk.node.power.state, Some(PowerState::On), "it was switched on to boot the ramdisk");
    assert!(desk.wake() && desk.turn());
    assert_eq!(command(&desk), None);
}

#[test]
fn an_aborted_step_keeps_the_power_until_its_ramdisk_is_idle() {
    let mut desk = erasing();
    desk.ask(Verb::Abort, &[]).expect("accepted");
    let operation = desk.node.operation.as_ref().expect("clearing up");
    assert_eq!((desk.node.state, operation.work), (State::CleanFailed, Work::ClearUp));
    assert_eq!(command(&desk), Some("ramdisk:deploy.erase_devices_metadata#27"), "the ramdisk can still be asked");
    desk.step(until_idle_again());
    assert!(postponed(&desk.node).is_some_and(|wait| wait.reason.contains("still runs")));
    // Time alone does not end it: it is asked again, as often as it takes.
    for _ in 0..3 {
        desk.pass(11 * 60);
        assert_eq!(desk.next(), Next::Run { attempt: 1, resume: true });
        desk.begin();
        // A worker that dies now leaves somebody else to ask.
        desk.pass(11 * 60);
        assert_eq!(desk.next(), Next::Run { attempt: 1, resume: true });
        desk.begin();
        desk.record(until_idle_again());
        assert_eq!(desk.next(), Next::Leave);
    }
    assert!(desk.wake() && desk.turn());
    desk.settle();
    assert!(desk.at_rest(), "{:?}", desk.node.operation);
}

#[test]
fn only_force_cuts_the_power_of_a_ramdisk_at_work() {
    let mut desk = erasing();
    let limit = SignedDuration::from_mins(1);
    assert_eq!(accept::force_power_off(&desk.node, "someone", desk.now), None, "nothing is postponed yet");
    desk.ask(Verb::Abort, &[]).expect("accepted");
    desk.step(until_idle_again());
    let refused = accept::accept_power(&desk.node, PowerTarget::Off, "someone", desk.now, limit);
    assert!(
        matches!(&refused, Err(PowerRefusal::RamdiskRuns { reason }) if reason.contains("still runs")),
        "{refused:?}"
    );
    let forced = accept::force_power_off(&desk.node, "someone", desk.now).expect("it waits");
    desk.write(forced);
    assert_eq!(desk.next(), Next::Run { attempt: 1, resume: true });
    let operation = desk.node.operation.as_ref().expect("clearing up");
    assert_eq!(operation.power_forced_by.as_deref(), Some("someone"));
    assert!(desk.last_text().contains("forced"));
}

#[test]
fn new_work_does_not_forget_a_ramdisk_at_work() {
    let mut desk = Desk::full(State::Available);
    desk.ask(Verb::Active, &[]).expect("accepted");
    desk.until("deploy.write_image");
    let task = RamdiskTask::Step { step: "deploy.write_image".to_owned(), command: Some("27".to_owned()) };
    desk.step(Outcome::Wait(WaitOn::Task { id: task.name(), ended: false }, "it runs".to_owned()));
    desk.ask(Verb::Deleted, &[]).expect("accepted");
    assert_eq!(desk.node.current_step().map(|step| step.key()).as_deref(), Some("power.power_off"));
    assert_eq!(command(&desk), Some("ramdisk:deploy.write_image#27"));
    desk.step(until_idle_again());
    assert_eq!(desk.node.state, State::Deleting);
    // Tearing down does not wait for ever; what is left is cleared up as after any failure, and still asks first.
    desk.pass(5 * 60 * 60);
    assert_eq!(desk.next(), Next::Expire);
    assert!(desk.turn());
    assert_eq!((desk.node.state, command(&desk)), (State::Error, Some("ramdisk:deploy.write_image#27")));
}
