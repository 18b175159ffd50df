//! Machines and the Nodes they are: found as labels are, never taken for empty because nobody found them, and repaired when they are gone
//! for good.

use std::{sync::Arc, time::Duration};

use sabakan_domain::provision::power::{PowerState, PowerTarget};
use sabakan_drivers::simulated::{Call, Command, Fault, Point};
use sabakan_service::Clock as _;
use sabakan_testkit::{
    Backend, TestServer,
    client::RepairSweep,
    etcd::Etcd,
    kubernetes::{Budget, Entry, Field, KubernetesDouble, Pod},
    simulated::{Fleet, FleetConfig},
    wait_for,
};
use serde_json::{Value, json};

use super::{LONG, Site, procedure, repairing, stories::deploy};

on_both_stores!(
    a_node_with_another_name_is_drained_before_its_machine_is_touched,
    a_node_that_nobody_finds_is_not_taken_for_empty,
    a_node_with_another_name_is_drained_before_it_is_rebooted,
    a_machine_without_power_is_repaired_although_its_pods_stay,
    a_machine_that_nobody_reaches_is_repaired_in_the_end,
    a_power_that_came_back_stops_the_step,
    kubelets_are_heard_before_a_machine_is_called_broken,
);

/// Puts another Node in the place of a machine's: with a name of its own, and the address as `InternalIP`.
fn rename(site: &Site, serial: &str, name: &str) -> String {
    let address = site.address(serial).to_owned();
    site.double.delete(&address);
    site.double.register(name);
    site.double.edit_status(name, |status| {
        status["addresses"] =
            json!([{ "type": "InternalIP", "address": address }, { "type": "Hostname", "address": name }]);
    });
    name.to_owned()
}

fn draining(site: &Site) -> Value {
    json!([{ "repair_command": site.command("reset", "true"), "need_drain": true, "watch_seconds": 600 }])
}

fn a_node_with_another_name_is_drained_before_its_machine_is_touched(backend: Backend) {
    let site = Site::start(backend);
    let steps = draining(&site);
    let site = site.with_machines(&procedure("unhealthy", &steps, &json!({})));
    let node = rename(&site, "m1", "host-5");
    site.double.add_namespace("prod", &[("protected", "true")]);
    site.double.add_pod(Pod::new("prod", "db-0", &node).with_budget(Budget::Refuses));
    site.break_alone("m1", "unhealthy");
    let entry = site.wait_for_entry("m1", "stopped by the budget", |entry| entry.drain_backoff_count > 0);
    assert!(entry.note.contains("prod/db-0 may not be evicted"), "{}", entry.note);
    assert_eq!(site.ran(), [""; 0], "its pods are there");

    site.double.edit_pod("prod/db-0", |pod| pod.budget = Budget::Allows);
    site.server.client().sweep_repairs(RepairSweep::ResetBackoff).expect("reset");
    site.wait_for_entry("m1", "reset", |entry| entry.note.contains("exit status 0"));
    assert_eq!(site.ran(), [format!("reset {}", site.address("m1"))]);
    let drains = site.double.take_drains();
    let at = |what: &str| drains.iter().position(|drain| drain == what).unwrap_or_else(|| panic!("{what}: {drains:?}"));
    assert!(at("cordon host-5") < at("evict prod/db-0"), "{drains:?}");
    site.report("m1", "healthy");
    wait_for("its node to be given back", LONG, || (!site.double.is_cordoned(&node)).then_some(()));
}

fn a_node_that_nobody_finds_is_not_taken_for_empty(backend: Backend) {
    let site = Site::start(backend);
    let steps = draining(&site);
    let site = site.with_machines(&procedure("unhealthy", &steps, &json!({})));
    site.double.delete(site.address("m1"));
    site.break_alone("m1", "unhealthy");
    let entry = site.wait_for_entry("m1", "told why it waits", |entry| {
        entry.waits.as_deref().unwrap_or_default().contains("cannot be drained")
    });
    let waits = entry.waits.unwrap_or_default();
    for part in [format!("the name {}", site.address("m1")), "InternalIP".to_owned()] {
        assert!(waits.contains(&part), "{waits}");
    }
    site.looked();
    assert_eq!((site.ran(), site.double.take_drains()), (vec![], vec![]));
    // It joins, under whatever name.
    let node = rename_back(&site, "m1", "late-comer");
    site.wait_for_entry("m1", "reset", |entry| entry.note.contains("exit status 0"));
    assert_eq!(site.double.take_drains(), [format!("cordon {node}")]);
}

/// A Node comes for a machine that has none.
fn rename_back(site: &Site, serial: &str, name: &str) -> String {
    site.double.register(site.address(serial));
    rename(site, serial, name)
}

fn a_node_with_another_name_is_drained_before_it_is_rebooted(backend: Backend) {
    let site = Site::start(backend);
    let reboot = json!({
        "reboot_command": site.command("reboot", "true"),
        "boot_check_command": ["/bin/sh", "-c", "echo true"],
    });
    let site = site.with_machines(&json!({}));
    site.configure(&["m0", "m1", "m2", "m3"], &json!({}), &reboot);
    let node = rename(&site, "m1", "host-5");
    site.double.delete(site.address("m2"));
    site.double.add_pod(Pod::new("dev", "web", &node));
    let addresses = ["m1", "m2"].map(|serial| site.address(serial));
    site.server.client().add_reboots(addresses.join("\n").as_bytes()).expect("queued");
    wait_for("the reboot", LONG, || (!site.ran().is_empty()).then_some(()));
    wait_for("its node to be given back", LONG, || (!site.double.is_cordoned(&node)).then_some(()));
    let drains = site.double.take_drains();
    assert_eq!(drains[..3], ["would evict dev/web", "cordon host-5", "evict dev/web"], "{drains:?}");
    let entries = site.server.client().reboots().expect("entries").value;
    let waits = entries.last().and_then(|entry| entry.waits.clone()).unwrap_or_default();
    assert!(waits.contains("cannot be drained: Kubernetes has no Node"), "{waits}");
    assert_eq!(site.ran(), [format!("reboot {}", site.address("m1"))], "the one that nobody finds is left alone");
}

/// The same with controllers that are asked for the power of their machines all the time.
fn with_power(backend: Backend) -> Site {
    let _installed_before = rustls::crypto::ring::default_provider().install_default();
    let etcd = (backend == Backend::Etcd).then(|| Arc::new(Etcd::start()));
    let double = Arc::new(KubernetesDouble::start(Entry::Token));
    let fleet = Fleet::new(FleetConfig::instant());
    let server = TestServer::start_on(etcd, |config| {
        repairing(config, &fleet, &double);
        config.provisioning.conductor.as_mut().expect("a conductor").power_sync = Duration::from_millis(200);
    });
    let files = Arc::new(tempfile::tempdir().expect("a directory"));
    Site { fleet, ..Site::around(server, double, files) }
}

/// Switches a machine off behind everybody's back, silences its kubelet, and waits until its controller was asked.
fn switch_off(site: &Site, serial: &str) {
    site.server.block_on(async { site.fleet.set_power(serial, PowerState::Off) });
    site.double.set_ready(site.address(serial), "Unknown");
    wait_for("the controller to be asked", LONG, || {
        let shown = site.server.block_on(site.server.nodes().get(serial)).expect("a node");
        (shown.node.power.state == Some(PowerState::Off)).then_some(())
    });
}

fn a_machine_without_power_is_repaired_although_its_pods_stay(backend: Backend) {
    let site = with_power(backend);
    let steps = json!([{ "action": "power-on", "need_drain": true, "watch_seconds": 600 }]);
    let site = site.with_machines(&procedure("unreachable", &steps, &json!({})));
    site.set("out-of-service-taint", "true");
    deploy(&site, "m1");
    let node = site.address("m1").to_owned();
    site.double.add_namespace("prod", &[("protected", "true")]);
    // Nobody lets it go, and nobody is there to end it.
    site.double.add_pod(Pod::new("prod", "db-0", &node).with_budget(Budget::Refuses).lingering());
    switch_off(&site, "m1");
    let before = site.fleet.calls("m1").commands.len();
    site.break_alone("m1", "unreachable");
    let entry = site.wait_for_entry("m1", "switched on", |entry| entry.note.contains("power-on"));
    for part in ["not drained", "is not Ready", "the power is off"] {
        assert!(entry.note.contains(part), "{}", entry.note);
    }
    assert_eq!(site.fleet.calls("m1").commands[before..], [Command::Power(PowerTarget::On)]);
    assert_eq!(site.double.take_drains(), [""; 0]);
    let log = site.server.client().list_logs(None, None).expect("a log");
    let told = log.iter().rfind(|entry| entry.instance == "m1" && entry.action == "execute").expect("an entry");
    assert!(told.detail.contains("the power is off"), "{told:?}");

    // Kubernetes was told, and is told when it is back.
    assert_eq!(site.double.taints(&node), ["node.kubernetes.io/out-of-service"]);
    site.looked();
    assert_eq!(site.double.taints(&node), ["node.kubernetes.io/out-of-service"], "its kubelet is silent still");
    site.double.set_ready(&node, "True");
    wait_for("the mark to go", LONG, || site.double.taints(&node).is_empty().then_some(()));
    assert_eq!(site.double.node(&node)["metadata"]["annotations"]["sabakan.cybozu.com/out-of-service"], Value::Null);
}

fn a_machine_that_nobody_reaches_is_repaired_in_the_end(backend: Backend) {
    let site = Site::start(backend);
    let steps = draining(&site);
    let site = site.with_machines(&procedure("unreachable", &steps, &json!({})));
    let node = site.address("m1").to_owned();
    site.double.add_pod(Pod::new("dev", "web", &node).lingering());
    site.double.set_ready(&node, "Unknown");
    let renewed = site.server.clock.now().to_string();
    site.double.state().leases.insert(node.clone(), renewed);
    // Its pods are told to leave, and stay.
    site.break_alone("m1", "unreachable");
    site.wait_for_entry("m1", "waiting for its pods", |entry| {
        let waits = entry.waits.as_deref().unwrap_or_default();
        waits.contains("dev/web (terminating)") && waits.contains("unreachable for 600 s")
    });
    assert_eq!(site.ran(), [""; 0]);
    site.pass(300);
    let entry = site.wait_for_entry("m1", "reset", |entry| entry.note.contains("exit status 0"));
    assert!(entry.note.contains("the machine has been unreachable for 60"), "{}", entry.note);
    assert_eq!(site.double.pods_on(&node), ["dev/web"]);
    assert!(site.double.taints(&node).is_empty(), "nobody knows about its power");
}

fn a_power_that_came_back_stops_the_step(backend: Backend) {
    let site = with_power(backend);
    let steps = draining(&site);
    let site = site.with_machines(&procedure("unreachable", &steps, &json!({})));
    deploy(&site, "m1");
    switch_off(&site, "m1");
    // What was read is believed until the controller is asked again, which is before anything is done.
    site.fleet.set_fault("m1", Fault::Fail(Point::Call(Call::Power)));
    site.break_alone("m1", "unreachable");
    site.looked();
    assert_eq!(site.ran(), [""; 0], "its controller does not say any more that it is off");
}

fn kubelets_are_heard_before_a_machine_is_called_broken(backend: Backend) {
    let site = Site::start(backend);
    let steps = draining(&site);
    let site = site.with_machines(&procedure("unreachable", &steps, &json!({})));
    let node = site.address("m1").to_owned();
    let opinion = || site.explain("m1").broken.expect("it is broken").second_opinion.lease_renewed;
    site.report("m1", "unreachable");
    site.looked();
    assert_eq!(opinion(), Some(true), "its Node is Ready");
    site.double.set_ready(&node, "Unknown");
    site.double.edit("kubectl", &node, |fields| drop(fields.insert(Field::Label("a".to_owned()), json!("1"))));
    wait_for("the kubelet to be missed", LONG, || {
        site.looked();
        (opinion() == Some(false)).then_some(())
    });
}
