//! No state without a way out (G6): everything that waits has a deadline and a verb, and says why it waits.

use std::time::Duration;

use jiff::SignedDuration;
use sabakan_domain::{
    provision::{
        node::{Fault as NodeFault, Severity},
        power::PowerTarget,
        states::State,
        steps::Interface,
        verbs::Verb,
    },
    words::Serial,
};
use sabakan_drivers::simulated::{Call, Fault, FleetConfig, Latencies, Point};
use sabakan_service::Asked;
use sabakan_testkit::{
    Backend,
    rack::{Rack, WORK_MAX, operator},
    raw::request,
    wait_for,
};
use serde_json::json;

use super::{ended, history, steps_of};

on_both_stores!(
    a_ramdisk_that_never_calls_ends_each_waiting_state,
    maintenance_stops_the_clock,
    work_that_nobody_takes_ends,
    without_a_worker_a_wish_is_told_and_taken_back,
    what_is_wrong_with_a_controller_is_said
);

const ALMOST: SignedDuration = SignedDuration::from_secs(29 * 60);
const REST: SignedDuration = SignedDuration::from_secs(2 * 60);

/// Waits for a state in which a node may well have work left.
fn arrive(rack: &Rack, serial: &str, state: State) {
    wait_for(&format!("{serial} to be {state}"), WORK_MAX, || (rack.node(serial).node.state == state).then_some(()));
}

fn end(rack: &Rack, serial: &str) -> State {
    wait_for(&format!("{serial} to end"), WORK_MAX, || Some(rack.node(serial)).filter(ended)).node.state
}

fn clean(steps: &[(Interface, &str, serde_json::Value)]) -> Asked {
    Asked { verb: Verb::Clean, steps: steps_of(steps), disable_ramdisk: false }
}

/// A machine, the way to its state, what is asked then, where it waits, and where it ends.
type Story = (&'static str, &'static [(Verb, State)], Asked, State, State);

fn a_ramdisk_that_never_calls_ends_each_waiting_state(backend: Backend) {
    let service = Asked {
        verb: Verb::Service,
        steps: steps_of(&[(Interface::Deploy, "update_nic_firmware", json!({}))]),
        disable_ramdisk: false,
    };
    let stories: [Story; 4] = [
        ("clean", super::MANAGEABLE, super::verb(Verb::Provide), State::CleanWait, State::CleanFailed),
        ("deploy", super::AVAILABLE, super::verb(Verb::Active), State::DeployWait, State::DeployFailed),
        ("rescue", super::ACTIVE, super::verb(Verb::Rescue), State::RescueWait, State::RescueFailed),
        ("service", super::ACTIVE, service, State::ServiceWait, State::ServiceFailed),
    ];
    let rack = Rack::start(backend);
    rack.register(&stories.each_ref().map(|story| story.0));
    for (serial, before, asked, waits, _) in &stories {
        before.iter().for_each(|(verb, state)| drop(rack.bring(serial, *verb, *state)));
        rack.fleet.set_fault(serial, Fault::RamdiskSilent);
        rack.ask_with(serial, asked).expect("accepted");
        arrive(&rack, serial, *waits);
    }
    rack.server.clock.advance(ALMOST);
    for (serial, _, _, waits, _) in &stories {
        let shown = rack.node(serial);
        assert_eq!(shown.node.state, *waits, "{serial} had a minute left");
        let waiting = shown.waiting.expect("a reason");
        assert!(waiting.reason.contains("has not called yet") && waiting.until.is_some(), "{waiting:?}");
    }
    rack.server.clock.advance(REST);
    for (serial, .., failed) in &stories {
        assert_eq!(end(&rack, serial), *failed);
        let node = rack.node(serial).node;
        let error = node.last_error.clone().unwrap_or_default();
        assert!(error.contains("did not end within 1800 s") && error.contains("has not called yet"), "{error}");
        assert_eq!(
            rack.fleet.power(serial),
            sabakan_domain::provision::power::PowerState::Off,
            "{serial} is cleared up"
        );
    }
}

fn maintenance_stops_the_clock(backend: Backend) {
    let rack = Rack::start(backend);
    rack.register(&["s1"]);
    rack.bring("s1", Verb::Manage, State::Manageable);
    rack.fleet.set_fault("s1", Fault::RamdiskSilent);
    rack.ask("s1", Verb::Provide).expect("accepted");
    arrive(&rack, "s1", State::CleanWait);
    let name = Serial::new("s1").expect("a serial");
    let nodes = rack.server.nodes();
    let set = |on| rack.server.block_on(nodes.set_maintenance(&operator(), &name, Some("look".to_owned()), on));
    set(true).expect("set");
    rack.server.clock.advance(SignedDuration::from_hours(5));
    // Another node's deadline was met meanwhile, this one's was not looked at.
    rack.register_from(1, &["s2"]);
    rack.bring("s2", Verb::Manage, State::Manageable);
    let shown = rack.node("s1");
    assert_eq!(shown.node.state, State::CleanWait);
    assert_eq!(shown.waiting.expect("a reason").until, None);
    set(false).expect("set");
    assert_eq!(end(&rack, "s1"), State::CleanFailed);
}

fn work_that_nobody_takes_ends(backend: Backend) {
    let rack = Rack::start_with(backend, FleetConfig::instant(), |config| config.conductor = None);
    rack.register(&["s1"]);
    rack.ask("s1", Verb::Manage).expect("accepted");
    let waiting = rack.node("s1").waiting.expect("a reason");
    assert!(waiting.reason.contains("no server does provisioning work"), "{waiting:?}");
    rack.server.clock.advance(SignedDuration::from_hours(5));
    let _late = rack.conductor("late", |_| {});
    assert_eq!(end(&rack, "s1"), State::VerifyFailed);
    assert_eq!(rack.fleet.calls("s1").total, 0, "nothing was begun after the end");
}

fn without_a_worker_a_wish_is_told_and_taken_back(backend: Backend) {
    let rack = Rack::start_with(backend, FleetConfig::instant(), |config| config.conductor = None);
    rack.register(&["s1"]);
    let part = || {
        let answer = request(&rack.server.url(), "GET", "/health", &[], b"");
        assert_eq!(answer.status, 200, "everything else works: {}", answer.body);
        let parts = answer.json()["parts"].as_array().cloned().unwrap_or_default();
        let part = parts.into_iter().find(|part| part["name"] == "provisioning").expect("it is looked at");
        part["reason"].as_str().map(str::to_owned)
    };
    assert_eq!(part(), None, "nothing waits");
    rack.ask("s1", Verb::Manage).expect("accepted");
    let told = rack.node("s1").waiting.expect("a reason").reason;
    assert!(told.contains("no server does provisioning work") && told.contains("sabactl nodes abort"), "{told}");
    let sick = part().expect("a reason");
    assert!(sick.contains("no server does provisioning work") && sick.contains("1 nodes"), "{sick}");

    rack.ask("s1", Verb::Abort).expect("taken back");
    let node = rack.node("s1").node;
    assert_eq!((node.state, node.target, &node.operation), (State::Enroll, None, &None));
    let rows = history(&rack, "s1");
    let last = rows.last().expect("history");
    assert!(last.text.contains("taken back") && last.by == operator().name, "{last:?}");
    assert_eq!(part(), None);
    rack.ask("s1", Verb::Abort).expect_err("nothing is left to take back");

    // A power change is a wish as well.
    let (nodes, name) = (rack.server.nodes(), Serial::new("s1").expect("a serial"));
    rack.server.block_on(nodes.set_power(&operator(), &name, PowerTarget::On, None)).expect("accepted");
    rack.ask("s1", Verb::Abort).expect("taken back");
    assert_eq!(rack.node("s1").node.power.action, None);
    // Later somebody does the work, and nothing that was taken back happens.
    let _late = rack.conductor("late", |_| {});
    rack.ask("s1", Verb::Manage).expect("accepted");
    assert_eq!(end(&rack, "s1"), State::Manageable);
}

fn what_is_wrong_with_a_controller_is_said(backend: Backend) {
    let latencies = Latencies { limit: Duration::from_millis(200), ..Latencies::none() };
    let rack = Rack::start_with(backend, FleetConfig { latencies, ..FleetConfig::default() }, |_| {});
    let faults = [
        ("password", Fault::WrongPassword, "password is wrong"),
        ("hangs", Fault::Hang(Point::Every), "no answer within"),
        ("drops", Fault::DropAfter(0), "connection was refused"),
        ("fails", Fault::Fail(Point::Call(Call::Power)), "asked to fail"),
    ];
    rack.register(&faults.each_ref().map(|fault| fault.0));
    for (serial, fault, _) in &faults {
        rack.fleet.set_fault(serial, fault.clone());
        rack.ask(serial, Verb::Manage).expect("accepted");
    }
    for (serial, _, text) in &faults {
        assert_eq!(end(&rack, serial), State::VerifyFailed);
        let node = rack.node(serial).node;
        let error = node.last_error.clone().unwrap_or_default();
        assert!(error.contains(text) && error.contains("power.verify"), "{serial}: {error}");
        assert_eq!((node.state.wire(), node.target), ("enroll", None), "{serial}");
        assert!(history(&rack, serial).iter().any(|row| row.severity == Severity::Error));
        rack.clear_faults(serial);
        rack.bring(serial, Verb::Manage, State::Manageable);
        assert_eq!(rack.node(serial).node.last_error, None, "{serial}: a new beginning clears it");
    }
}

#[test]
fn an_abortable_step_is_cut_short() {
    let rack = Rack::start(Backend::Embedded);
    rack.register(&["s1"]);
    rack.bring("s1", Verb::Manage, State::Manageable);
    rack.fleet.set_fault("s1", Fault::Hang(Point::Step("management.burn_in".to_owned())));
    rack.ask_with("s1", &clean(&[(Interface::Management, "burn_in", json!({}))])).expect("accepted");
    arrive(&rack, "s1", State::CleanWait);
    wait_for("nobody to hold it", WORK_MAX, || rack.ask("s1", Verb::Abort).ok());
    assert_eq!(end(&rack, "s1"), State::CleanFailed);
    let node = rack.node("s1").node;
    let error = node.last_error.clone().unwrap_or_default();
    assert!(error.contains("aborted") && error.contains("management.burn_in"), "{error}");
    assert_eq!((node.target, &node.maintenance), (Some(State::Manageable), &None), "an abort is no fault");
}

#[test]
fn a_step_that_is_not_abortable_ends_first() {
    let latencies = Latencies { task: Duration::from_secs(2), ..Latencies::none() };
    let rack = Rack::start_with(Backend::Embedded, FleetConfig { latencies, ..FleetConfig::default() }, |_| {});
    rack.register(&["s1"]);
    rack.bring("s1", Verb::Manage, State::Manageable);
    let update = json!({ "settings": [{ "component": "bmc", "url": "http://images/9.9" }] });
    let steps = [(Interface::Firmware, "update", update), (Interface::Bios, "factory_reset", json!({}))];
    rack.ask_with("s1", &clean(&steps)).expect("accepted");
    arrive(&rack, "s1", State::CleanWait);
    wait_for("nobody to hold it", WORK_MAX, || rack.ask("s1", Verb::Abort).ok());
    assert_eq!(rack.node("s1").node.state, State::CleanWait, "the update goes on");
    assert_eq!(end(&rack, "s1"), State::CleanFailed);
    assert!(rack.node("s1").node.last_error.clone().unwrap_or_default().contains("aborted"));
    assert_eq!(rack.fleet.calls("s1").steps("bios.factory_reset"), 0, "what comes after it does not");
}

#[test]
fn a_deployment_that_waits_can_be_deleted() {
    let rack = Rack::start(Backend::Embedded);
    rack.register(&["s1"]);
    super::AVAILABLE.iter().for_each(|(verb, state)| drop(rack.bring("s1", *verb, *state)));
    rack.fleet.set_fault("s1", Fault::RamdiskSilent);
    rack.ask("s1", Verb::Active).expect("accepted");
    arrive(&rack, "s1", State::DeployWait);
    rack.clear_faults("s1");
    wait_for("nobody to hold it", WORK_MAX, || rack.ask("s1", Verb::Deleted).ok());
    rack.wait_for("s1", State::Available);
}

#[test]
fn a_hold_waits_for_a_person_for_ever() {
    let rack = Rack::start(Backend::Embedded);
    rack.register(&["on", "off"]);
    for serial in ["on", "off"] {
        rack.bring(serial, Verb::Manage, State::Manageable);
        let steps = [(Interface::Deploy, "hold", json!({})), (Interface::Bios, "factory_reset", json!({}))];
        rack.ask_with(serial, &clean(&steps)).expect("accepted");
        arrive(&rack, serial, State::CleanHold);
    }
    rack.server.clock.advance(SignedDuration::from_hours(24 * 30));
    assert_eq!(rack.node("on").node.state, State::CleanHold);
    assert!(rack.node("on").waiting.expect("a reason").reason.contains("unhold"));
    wait_for("nobody to hold it", WORK_MAX, || rack.ask("on", Verb::Unhold).ok());
    rack.wait_for("on", State::Manageable);
    rack.ask("off", Verb::Abort).expect("accepted");
    assert_eq!(end(&rack, "off"), State::CleanFailed);
    let ran = |serial| rack.fleet.calls(serial).steps("bios.factory_reset");
    assert_eq!((ran("on"), ran("off")), (1, 0));
}

#[test]
fn a_machine_with_a_failed_step_is_left_for_people_to_look_at() {
    let rack = Rack::start(Backend::Embedded);
    rack.register(&["s1"]);
    rack.bring("s1", Verb::Manage, State::Manageable);
    rack.fleet.set_fault("s1", Fault::Fail(Point::Step("deploy.erase_devices".to_owned())));
    rack.ask("s1", Verb::Provide).expect("accepted");
    assert_eq!(end(&rack, "s1"), State::CleanFailed);
    let node = rack.node("s1").node;
    let maintenance = node.maintenance.clone().expect("maintenance");
    assert_eq!(maintenance.fault, Some(NodeFault::Clean));
    assert!(node.last_error.clone().unwrap_or_default().contains("deploy.erase_devices"));
    // Its keys are gone and the machine is retired; it comes back all the same.
    rack.clear_faults("s1");
    rack.bring("s1", Verb::Manage, State::Manageable);
    let name = Serial::new("s1").expect("a serial");
    rack.server.block_on(rack.server.nodes().set_maintenance(&operator(), &name, None, false)).expect("cleared");
    rack.bring("s1", Verb::Provide, State::Available);
    assert_eq!(rack.server.client().get_state("s1").expect("a state"), "uninitialized");
}
