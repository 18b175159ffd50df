//! Cleaning: what is on the disks is gone and proved so, and the machine looks as before.

use std::time::Duration;

use sabakan_domain::{
    provision::{
        node::{Fault as NodeFault, Node},
        states::State,
        steps::Interface,
        verbs::Verb,
    },
    words::Serial,
};
use sabakan_drivers::simulated::{Command, Fault, FleetConfig, Latencies};
use sabakan_service::Asked;
use sabakan_testkit::{
    Backend,
    rack::{Rack, WORK_MAX, operator},
    wait_for,
};
use serde_json::json;

use super::{history, steps_of};

on_both_stores!(
    tearing_down_deletes_the_keys,
    a_machine_declared_retiring_does_not_come_back,
    no_key_gets_in_while_a_machine_is_cleaned,
    what_erasing_tears_down_is_rebuilt,
    without_cleaning_nothing_with_keys_becomes_available
);

fn active(rack: &Rack, serial: &str) {
    super::ACTIVE.iter().for_each(|(verb, state)| drop(rack.bring(serial, *verb, *state)));
    let client = rack.server.client();
    client.put_state(serial, "healthy", false).expect("healthy");
    client.put_key(serial, "disk-0", b"a key").expect("stored");
    client.put_key(serial, "disk-1", b"another").expect("stored");
}

fn erasing() -> FleetConfig {
    FleetConfig { erases_members: true, ..FleetConfig::instant() }
}

fn tearing_down_deletes_the_keys(backend: Backend) {
    let rack = Rack::start(backend);
    rack.register(&["s1"]);
    active(&rack, "s1");
    rack.bring("s1", Verb::Deleted, State::Available);
    let client = rack.server.client();
    assert_eq!(client.get_state("s1").expect("a state"), "uninitialized");
    assert!(client.get_key("s1", "disk-0").is_err() && client.get_key("s1", "disk-1").is_err(), "a key survived");
    let rows = history(&rack, "s1");
    assert!(rows.iter().any(|row| row.text.contains("2 disk keys deleted")), "{rows:#?}");
    super::check_path("s1", &rows);
}

fn a_machine_declared_retiring_does_not_come_back(backend: Backend) {
    let rack = Rack::start(backend);
    rack.register(&["s1"]);
    active(&rack, "s1");
    let client = rack.server.client();
    client.put_state("s1", "retiring", false).expect("retiring");
    rack.bring("s1", Verb::Deleted, State::Manageable);
    assert_eq!(client.get_state("s1").expect("a state"), "retired");
    assert!(client.get_key("s1", "disk-0").is_err(), "a retired machine has a key (G1)");
    assert!(rack.ask("s1", Verb::Provide).is_err(), "it was provided although it is leaving");
}

fn no_key_gets_in_while_a_machine_is_cleaned(backend: Backend) {
    let rack = Rack::start(backend);
    rack.register(&["s1"]);
    active(&rack, "s1");
    rack.fleet.set_fault("s1", Fault::RamdiskSilent);
    rack.ask("s1", Verb::Deleted).expect("accepted");
    let client = rack.server.client();
    assert!(client.put_key("s1", "disk-2", b"late").is_err(), "a key for a machine that is being torn down");
    wait_for("the ramdisk", WORK_MAX, || (rack.node("s1").node.state == State::CleanWait).then_some(()));
    assert_eq!(client.get_state("s1").expect("a state"), "retired");
    assert!(client.put_key("s1", "disk-2", b"late").is_err(), "a retired machine got a key (G1)");
    assert!(client.put_state("s1", "healthy", false).is_ok(), "the lifecycle allows it, somebody repaired it");
    client.put_key("s1", "disk-2", b"late").expect("a healthy machine gets keys");
    rack.clear_faults("s1");
    // It has a key again that nobody erased: it must not be handed to the next one.
    rack.wait_for("s1", State::Manageable);
    assert_eq!(client.get_key("s1", "disk-2").expect("still there"), b"late");
    assert!(history(&rack, "s1").iter().any(|row| row.text.contains("nobody erased its disk keys")));
}

fn what_erasing_tears_down_is_rebuilt(backend: Backend) {
    let rack = Rack::start_with(backend, erasing(), |_| {});
    rack.register(&["s1"]);
    let before = rack.fleet.configuration("s1");
    rack.bring("s1", Verb::Manage, State::Manageable);
    rack.bring("s1", Verb::Provide, State::Available);
    let calls = rack.fleet.calls("s1");
    assert_eq!(calls.steps("raid.erase_members"), 1);
    assert_eq!(calls.count(&Command::Restore), 1);
    assert_eq!(rack.fleet.configuration("s1"), before);
}

fn without_cleaning_nothing_with_keys_becomes_available(backend: Backend) {
    let rack = Rack::start(backend);
    rack.register(&["s1"]);
    active(&rack, "s1");
    let name = Serial::new("s1").expect("a serial");
    let off = |node: &Node| Ok(Node { automated_clean: Some(false), ..node.clone() });
    rack.server.block_on(rack.server.nodes().edit(&operator(), &name, "edit", off)).expect("edited");
    rack.bring("s1", Verb::Deleted, State::Manageable);
    let client = rack.server.client();
    assert_eq!(client.get_state("s1").expect("a state"), "retiring");
    assert_eq!(client.get_key("s1", "disk-0").expect("still there"), b"a key");
    client.delete_keys("s1").expect("deleted");
    assert_eq!(client.get_state("s1").expect("a state"), "retired");
    rack.bring("s1", Verb::Provide, State::Available);
    assert_eq!(client.get_state("s1").expect("a state"), "uninitialized");
    assert_eq!(
        rack.fleet.calls("s1").steps("deploy.erase_devices"),
        1,
        "only the first time, before it was switched off"
    );
}

#[test]
fn a_machine_that_does_not_look_as_before_fails_its_cleaning() {
    let rack = Rack::start_with(Backend::Embedded, erasing(), |_| {});
    rack.register(&["s1"]);
    rack.bring("s1", Verb::Manage, State::Manageable);
    rack.fleet.set_fault("s1", Fault::RaidLost);
    rack.ask("s1", Verb::Provide).expect("accepted");
    let node = rack.wait_for("s1", State::CleanFailed).node;
    let error = node.last_error.clone().unwrap_or_default();
    assert!(error.contains("does not look as before") && error.contains("raid: missing"), "{error}");
    assert_eq!(node.maintenance.as_ref().and_then(|maintenance| maintenance.fault), Some(NodeFault::Clean));
}

#[test]
fn cleaning_by_hand_changes_what_it_says_and_nothing_else() {
    let latencies = Latencies { task: Duration::from_millis(50), ..Latencies::none() };
    let rack = Rack::start_with(Backend::Embedded, FleetConfig { latencies, ..erasing() }, |_| {});
    rack.register(&["s1"]);
    rack.bring("s1", Verb::Manage, State::Manageable);
    let before = rack.fleet.configuration("s1");
    let settings = json!({ "settings": [{ "name": "HyperThreading", "value": "Disabled" }] });
    let steps = steps_of(&[(Interface::Bios, "apply_configuration", settings)]);
    rack.ask_with("s1", &Asked { verb: Verb::Clean, steps, disable_ramdisk: false }).expect("accepted");
    rack.wait_for("s1", State::Manageable);
    let after = rack.fleet.configuration("s1");
    assert_ne!(after.bios, before.bios);
    assert_eq!((after.volumes, after.boot_device), (before.volumes, before.boot_device));
    // From now on this is how it looks, and automated cleaning keeps it so.
    rack.bring("s1", Verb::Provide, State::Available);
    assert_eq!(rack.fleet.configuration("s1").bios, after.bios);
}
