//! Machines go from enroll to active and back, on simulated hardware.

mod cleaning;
mod crash;
mod crowd;
mod power;
mod redfish;
mod waits;
mod work;

use sabakan_domain::{
    provision::{
        edges::{self, Destination, Trigger},
        node::Row,
        power::PowerState,
        states::{Kind, State},
        steps::{Args, Interface, StepRequest},
        verbs::Verb,
    },
    words::Serial,
};
use sabakan_service::{Asked, Shown};
use sabakan_testkit::{Backend, rack::Rack};

on_both_stores!(a_machine_goes_from_enroll_to_active_and_back);

fn a_machine_goes_from_enroll_to_active_and_back(backend: Backend) {
    let rack = Rack::start(backend);
    rack.register(&["s1"]);
    assert_eq!(rack.node("s1").node.state, State::Enroll);
    rack.bring("s1", Verb::Manage, State::Manageable);
    let inspected = rack.bring("s1", Verb::Inspect, State::Manageable);
    assert!(inspected.node.inspected_at.is_some() && inspected.node.properties.contains_key("memory_mb"));
    rack.bring("s1", Verb::Provide, State::Available);
    rack.bring("s1", Verb::Active, State::Active);
    assert_eq!(rack.fleet.power("s1"), PowerState::On);
    rack.bring("s1", Verb::Deleted, State::Available);
    assert_eq!(rack.fleet.power("s1"), PowerState::Off);
    let machine = rack.server.client().get_state("s1");
    assert_eq!(machine.expect("a state"), "uninitialized");
}

/// The way to a state.
const MANAGEABLE: &[(Verb, State)] = &[(Verb::Manage, State::Manageable)];
const AVAILABLE: &[(Verb, State)] = &[(Verb::Manage, State::Manageable), (Verb::Provide, State::Available)];
const ACTIVE: &[(Verb, State)] =
    &[(Verb::Manage, State::Manageable), (Verb::Provide, State::Available), (Verb::Active, State::Active)];

/// A verb without steps.
fn verb(verb: Verb) -> Asked {
    Asked { verb, steps: Vec::new(), disable_ramdisk: false }
}

/// Steps with their arguments.
fn steps_of(steps: &[(Interface, &str, serde_json::Value)]) -> Vec<StepRequest> {
    let request = |(interface, name, args): &(Interface, &str, serde_json::Value)| StepRequest {
        interface: *interface,
        name: (*name).to_owned(),
        args: args.as_object().expect("an object").clone().into_iter().collect::<Args>(),
        priority: None,
    };
    steps.iter().map(request).collect()
}

/// Whether nothing is done with a node any more: it is stable or failed, nothing is left to clear up, and nobody holds it.
fn ended(shown: &Shown) -> bool {
    let node = &shown.node;
    matches!(node.state.kind(), Kind::Stable | Kind::Failed)
        && node.operation.is_none()
        && node.power.action.is_none()
        && shown.lock.is_none()
}

/// What happened to a node, oldest first.
fn history(rack: &Rack, serial: &str) -> Vec<Row> {
    let name = Serial::new(serial).expect("a serial");
    let rows = rack.server.block_on(rack.server.nodes().history(&name));
    rows.expect("the history").into_iter().map(|(_, row)| row).collect()
}

/// The rows of a history are a path of the state table.
fn check_path(serial: &str, rows: &[Row]) {
    for (before, after) in rows.iter().zip(rows.iter().skip(1)) {
        assert_eq!(before.to, after.from, "{serial}: {before:?} is followed by {after:?}");
        assert!(before.at <= after.at && after.lasted_ms >= 0, "{serial}: {before:?}, {after:?}");
    }
    let is_taken_back = |row: &&Row| edges::takes_back(row.from, row.to);
    for row in rows.iter().filter(|row| row.from != row.to && !is_taken_back(row)) {
        let leads = |edge: &&edges::Edge| match edge.to {
            Destination::To(state) => state == row.to,
            Destination::Target => matches!(row.to.kind(), Kind::Stable),
        };
        let edge = edges::EDGES.iter().filter(|edge| edge.from == row.from).find(leads);
        let edge = edge.unwrap_or_else(|| panic!("{serial}: no arrow from {} to {}: {row:?}", row.from, row.to));
        assert!(matches!(edge.on, Trigger::Verb(_) | Trigger::Event(_)));
    }
}
