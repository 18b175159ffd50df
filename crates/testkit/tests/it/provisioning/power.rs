//! Power: what is asked is done and confirmed, what cannot be is said, and what is shown is what is.

use std::time::Duration;

use jiff::SignedDuration;
use sabakan_domain::{
    provision::{
        node::{Fault as NodeFault, Node},
        power::{PowerState, PowerTarget},
        states::State,
        verbs::Verb,
    },
    words::Serial,
};
use sabakan_drivers::simulated::{Call, Command, Fault, FleetConfig, Latencies, Point};
use sabakan_service::ServiceError;
use sabakan_testkit::{
    Backend,
    crash::Death,
    rack::{Rack, WORK_MAX, operator},
    wait_for,
};

use super::{ended, history};

on_both_stores!(what_is_asked_is_done_and_confirmed, a_silent_controller_is_an_observation);

fn set(rack: &Rack, serial: &str, target: PowerTarget, seconds: i64) -> Result<(), ServiceError> {
    let name = Serial::new(serial).expect("a serial");
    let limit = Some(SignedDuration::from_secs(seconds));
    rack.server.block_on(rack.server.nodes().set_power(&operator(), &name, target, limit)).map(drop)
}

fn done(rack: &Rack, serial: &str) -> sabakan_service::Shown {
    wait_for("the power change", WORK_MAX, || Some(rack.node(serial)).filter(ended))
}

fn what_is_asked_is_done_and_confirmed(backend: Backend) {
    let rack = Rack::start(backend);
    rack.register(&["s1"]);
    rack.bring("s1", Verb::Manage, State::Manageable);
    let wishes = [
        (PowerTarget::On, PowerState::On),
        (PowerTarget::Reboot, PowerState::On),
        (PowerTarget::SoftReboot, PowerState::On),
        (PowerTarget::SoftOff, PowerState::Off),
        (PowerTarget::On, PowerState::On),
        (PowerTarget::Off, PowerState::Off),
    ];
    for (target, expected) in wishes {
        set(&rack, "s1", target, 30).expect("accepted");
        let shown = done(&rack, "s1");
        assert_eq!(shown.node.power.state, Some(expected), "{target}");
        assert_eq!(rack.fleet.power("s1"), expected, "{target}");
        assert_eq!(shown.node.last_error, None, "{target}");
    }
    let calls = rack.fleet.calls("s1");
    assert_eq!(calls.count(&Command::Power(PowerTarget::Off)), 2, "one restart and one switching off");
    assert_eq!(calls.count(&Command::Power(PowerTarget::SoftOff)), 2);
}

#[test]
fn a_machine_that_must_stay_on_is_restarted_without_switching_it_off() {
    let rack = Rack::start(Backend::Embedded);
    rack.register(&["s1"]);
    rack.bring("s1", Verb::Manage, State::Manageable);
    set(&rack, "s1", PowerTarget::On, 30).expect("accepted");
    done(&rack, "s1");
    let name = Serial::new("s1").expect("a serial");
    let stays_on = |node: &Node| Ok(Node { disable_power_off: true, ..node.clone() });
    rack.server.block_on(rack.server.nodes().edit(&operator(), &name, "edit", stays_on)).expect("edited");
    assert!(set(&rack, "s1", PowerTarget::Off, 30).is_err() && set(&rack, "s1", PowerTarget::SoftOff, 30).is_err());
    set(&rack, "s1", PowerTarget::Reboot, 30).expect("accepted");
    assert_eq!(done(&rack, "s1").node.last_error, None);
    // Cleaning restarts it into the ramdisk and would switch it off at the end.
    rack.bring("s1", Verb::Provide, State::Available);
    let calls = rack.fleet.calls("s1");
    assert_eq!(calls.count(&Command::Power(PowerTarget::Off)), 0);
    assert_eq!(calls.count(&Command::Power(PowerTarget::Reboot)), 2);
    assert_eq!(rack.fleet.power("s1"), PowerState::On);
}

#[test]
fn wishes_at_the_same_time_do_not_mix() {
    let rack = Rack::start_with(Backend::Embedded, FleetConfig::instant(), |config| config.conductor = None);
    rack.register(&["s1"]);
    set(&rack, "s1", PowerTarget::On, 30).expect("accepted");
    let refused = set(&rack, "s1", PowerTarget::Off, 30).expect_err("one at a time");
    assert!(refused.to_string().contains("not done yet"), "{refused}");
    let refused = rack.ask("s1", Verb::Manage).expect_err("not while the power changes");
    assert!(refused.to_string().contains("power change"), "{refused}");
    let _conductor = rack.conductor("c", |_| {});
    assert_eq!(done(&rack, "s1").node.power.state, Some(PowerState::On));
    assert_eq!(rack.fleet.calls("s1").count(&Command::Power(PowerTarget::Off)), 0);
}

#[test]
fn a_controller_that_lies_about_power_is_found_out() {
    let rack = Rack::start(Backend::Embedded);
    rack.register(&["stuck", "inverted"]);
    rack.fleet.set_fault("stuck", Fault::PowerStuck);
    rack.fleet.set_fault("inverted", Fault::PowerInverted);
    for (serial, target) in [("stuck", PowerTarget::On), ("inverted", PowerTarget::Reboot)] {
        rack.bring(serial, Verb::Manage, State::Manageable);
        set(&rack, serial, target, 1).expect("accepted");
        let error = done(&rack, serial).node.last_error.clone().unwrap_or_default();
        assert!(error.contains("failed") && error.contains("still"), "{serial}: {error}");
    }
}

#[test]
fn a_wish_whose_time_is_over_is_not_carried_out() {
    let rack = Rack::start_with(Backend::Embedded, FleetConfig::instant(), |config| config.conductor = None);
    rack.register(&["s1"]);
    set(&rack, "s1", PowerTarget::On, 30).expect("accepted");
    rack.server.clock.advance(SignedDuration::from_secs(31));
    let _late = rack.conductor("late", |_| {});
    let error = done(&rack, "s1").node.last_error.clone().unwrap_or_default();
    assert!(error.contains("its time was over"), "{error}");
    assert_eq!(rack.fleet.power("s1"), PowerState::Off);
}

#[test]
fn a_restart_whose_worker_died_leaves_the_machine_on() {
    let rack = Rack::start_with(Backend::Embedded, FleetConfig::instant(), |config| config.conductor = None);
    let options = |options: &mut sabakan_service::tasks::conductor::ConductorOptions| {
        options.lease = Duration::from_secs(1);
    };
    let first = rack.conductor("first", options);
    rack.register(&["s1"]);
    set(&rack, "s1", PowerTarget::On, 60).expect("accepted");
    done(&rack, "s1");
    // It dies when the restart is done and not recorded; as if half way, the machine is off.
    first.store.arm("s1", 2, Death::Before);
    set(&rack, "s1", PowerTarget::Reboot, 60).expect("accepted");
    wait_for("the death", WORK_MAX, || first.store.is_frozen("s1").then_some(()));
    first.store.kill();
    rack.server.block_on(async { rack.fleet.set_power("s1", PowerState::Off) });
    let _second = rack.conductor("second", options);
    let shown = done(&rack, "s1");
    assert_eq!(rack.fleet.power("s1"), PowerState::On);
    assert_eq!(rack.fleet.calls("s1").count(&Command::Power(PowerTarget::Off)), 1, "restarted once");
    assert!(shown.node.last_error.clone().unwrap_or_default().contains("not known"), "{:?}", shown.node.last_error);
}

fn a_silent_controller_is_an_observation(backend: Backend) {
    let latencies = Latencies { limit: Duration::from_millis(50), ..Latencies::none() };
    let fleet = FleetConfig { latencies, ..FleetConfig::default() };
    let rack = Rack::start_with(backend, fleet, |config| {
        config.conductor.as_mut().expect("a conductor").power_sync = Duration::from_millis(100);
    });
    rack.register(&["s1", "s2"]);
    rack.bring("s1", Verb::Manage, State::Manageable);
    rack.bring("s2", Verb::Manage, State::Manageable);
    // Somebody presses the button: what is shown follows.
    rack.server.block_on(async { rack.fleet.set_power("s1", PowerState::On) });
    wait_for("the button to be seen", WORK_MAX, || {
        (rack.node("s1").node.power.state == Some(PowerState::On)).then_some(())
    });

    rack.fleet.set_fault("s1", Fault::Hang(Point::Call(Call::Power)));
    let node = wait_for("the silence to count", WORK_MAX, || {
        let node = rack.node("s1").node;
        node.maintenance.is_some().then_some(node)
    });
    let maintenance = node.maintenance.clone().expect("maintenance");
    assert_eq!(maintenance.fault, Some(NodeFault::Power));
    assert_eq!((node.power.state, node.state), (None, State::Manageable), "nobody guesses");
    assert!(maintenance.reason.unwrap_or_default().contains("did not answer 3 times"));
    assert_eq!(rack.node("s2").node.maintenance, None);

    rack.clear_faults("s1");
    wait_for("the controller to be heard", WORK_MAX, || {
        let node = rack.node("s1").node;
        (node.maintenance.is_none() && node.power.state == Some(PowerState::On)).then_some(())
    });
    let rows: Vec<String> = history(&rack, "s1").into_iter().map(|row| row.text).collect();
    assert!(
        rows.iter().any(|text| text.contains("did not answer"))
            && rows.iter().any(|text| text.contains("answers again")),
        "{rows:#?}"
    );
}
