//! When nothing is begun: a person wants a machine or everything left alone, Kubernetes does not answer, or a report is old.

use std::sync::Arc;

use sabakan_service::cluster::live_nodes::LiveNodes;
use sabakan_testkit::{
    Backend,
    client::{RepairSweep, RepairSwitch},
    kubernetes::Pod,
    raw, wait_for,
};
use serde_json::json;

use super::{LONG, Site, procedure};

on_both_stores!(
    a_machine_in_maintenance_is_left_alone,
    nothing_is_begun_while_kubernetes_does_not_answer,
    switches_are_obeyed,
    an_old_report_is_left_to_a_person,
);

/// Somebody takes a machine in hand, or gives it back.
pub(super) fn maintain(site: &Site, serial: &str, method: &str) {
    let headers = [("content-type", "application/json"), ("x-openstack-ironic-api-version", "1.82")];
    let body = br#"{"reason": "a disk is being replaced"}"#;
    let answer =
        raw::request(&site.server.ironic_url(), method, &format!("/v1/nodes/{serial}/maintenance"), &headers, body);
    assert_eq!(answer.status, 202, "{}", answer.body);
}

fn a_machine_in_maintenance_is_left_alone(backend: Backend) {
    let site = Site::start(backend);
    let steps = json!([
        { "repair_command": site.command("reset", "true"), "watch_seconds": 60 },
        { "repair_command": site.command("shutdown", "true"), "watch_seconds": 60 },
    ]);
    let site = site.with_machines(&procedure("unhealthy", &steps, &json!({})));
    maintain(&site, "m1", "PUT");
    site.break_alone("m1", "unhealthy");
    site.looked();
    assert_eq!((site.entries(), site.ran()), (vec![], vec![]));
    let (rule, text) = site.verdict("m1");
    assert!(rule == "hands-off" && text.contains("a disk is being replaced"), "{rule}: {text}");
    maintain(&site, "m1", "DELETE");
    site.wait_for_entry("m1", "reset", |entry| entry.note.contains("exit status 0"));

    // Again, in the middle of its repair: the next step is not begun.
    maintain(&site, "m1", "PUT");
    site.pass(61);
    site.wait_for_entry("m1", "left alone", |entry| {
        entry.waits.as_deref().unwrap_or_default().contains("a disk is being replaced")
    });
    site.looked();
    assert_eq!(site.ran(), [format!("reset {}", site.address("m1"))]);
    maintain(&site, "m1", "DELETE");
    wait_for("the next step", LONG, || (site.ran().len() == 2).then_some(()));
}

fn nothing_is_begun_while_kubernetes_does_not_answer(backend: Backend) {
    let site = Site::start(backend);
    let steps = json!([
        { "repair_command": site.command("reset", "true"), "watch_seconds": 60 },
        { "repair_command": site.command("shutdown", "true"), "need_drain": true, "watch_seconds": 60 },
    ]);
    let site = site.with_machines(&procedure("unhealthy", &steps, &json!({})));
    let node = site.address("m1").to_owned();
    site.double.add_pod(Pod::new("dev", "web", &node));
    site.double.state().faults.down = true;
    site.break_alone("m1", "unhealthy");
    let entry = site.wait_for_entry("m1", "told why it waits", |entry| {
        entry.waits.as_deref().unwrap_or_default().contains("nothing is taken from the cluster now")
    });
    assert_eq!((&*entry.status, site.ran()), ("queued", vec![]), "{entry:?}");
    site.double.state().faults.down = false;
    site.wait_for_entry("m1", "reset", |entry| entry.note.contains("exit status 0"));

    // It fails again, with words: the drain is not begun.
    site.double.state().faults.down = true;
    wait_for("the outage", LONG, || site.server.block_on(nodes(&site).read()).err());
    site.double.state().faults.forbidden.insert("list");
    site.double.state().faults.down = false;
    wait_for("the refusal", LONG, || {
        site.server.block_on(nodes(&site).read()).err().filter(|reason| reason.contains("forbidden"))
    });
    site.pass(61);
    let is_refused =
        |waits: &str| waits.contains("nothing is taken from the cluster now") && waits.contains("forbidden");
    site.wait_for_entry("m1", "refused", |entry| {
        is_refused(&entry.waits.as_deref().unwrap_or_default().to_lowercase())
    });
    assert_eq!(site.double.take_drains(), [""; 0]);
    assert_eq!(site.double.pods_on(&node), ["dev/web"]);
    site.double.state().faults.forbidden.clear();
    wait_for("the second step", LONG, || (site.ran().len() == 2).then_some(()));
    assert_eq!(site.double.take_drains(), [format!("cordon {node}"), "evict dev/web".to_owned()]);
}

fn nodes(site: &Site) -> Arc<LiveNodes> {
    Arc::clone(site.server.cluster().options().nodes.as_ref().expect("a Kubernetes"))
}

/// Whoever repairs can be told to stop, as a whole or in part; what was begun is given up in order.
fn switches_are_obeyed(backend: Backend) {
    let site = Site::start(backend);
    let steps = json!([{ "repair_command": site.command("reset", "true"), "need_drain": true, "watch_seconds": 60 }]);
    let site = site.with_machines(&procedure("unhealthy", &steps, &json!({})));
    let (node, client) = (site.address("m1").to_owned(), site.server.client());
    let switch = |switch: RepairSwitch, enabled: bool| {
        client.set_repair_enabled(switch, enabled).expect("switched");
    };
    switch(RepairSwitch::Automatic, false);
    site.break_alone("m1", "unhealthy");
    site.looked();
    assert_eq!(site.entries(), []);
    assert_eq!(site.metric("cke_auto_repair_enabled"), Some(0.0));
    let status = client.repair_status(10).expect("a status").value;
    assert!(status.messages.join(" ").contains("sabactl auto-repair enable"), "{:?}", status.messages);

    // Enqueued, and nothing is begun.
    switch(RepairSwitch::RepairQueue, false);
    switch(RepairSwitch::Automatic, true);
    let entry = site.wait_for_entry("m1", "told why it waits", |entry| {
        entry.waits.as_deref().unwrap_or_default().contains("sabactl repair-queue enable")
    });
    site.looked();
    assert_eq!((&*entry.status, site.metric("cke_repair_queue_enabled")), ("queued", Some(0.0)));
    site.double.add_pod(Pod::new("dev", "web", &node).lingering());
    switch(RepairSwitch::RepairQueue, true);
    site.wait_for_status("m1", "processing", "draining");
    wait_for("the node to be closed", LONG, || site.double.is_cordoned(&node).then_some(()));

    // In the middle of a drain: it is given up, and the node is given back.
    switch(RepairSwitch::RepairQueue, false);
    let given_up = site.wait_for_status("m1", "processing", "waiting");
    assert!(given_up.note.contains("disabled"), "{}", given_up.note);
    wait_for("the node to be given back", LONG, || (!site.double.is_cordoned(&node)).then_some(()));
    switch(RepairSwitch::RepairQueue, true);
    client.sweep_repairs(RepairSweep::ResetBackoff).expect("reset");
    site.wait_for_status("m1", "processing", "draining");
    wait_for("the node to be closed", LONG, || site.double.is_cordoned(&node).then_some(()));

    // Nobody wants it repaired any more.
    switch(RepairSwitch::Automatic, false);
    site.delete(&site.entries()[0]);
    wait_for("the entry to go", LONG, || site.entries().is_empty().then_some(()));
    wait_for("the node to be given back", LONG, || (!site.double.is_cordoned(&node)).then_some(()));
    assert_eq!(site.ran(), [""; 0]);
}

/// A report nobody has renewed for a week says little about today.
fn an_old_report_is_left_to_a_person(backend: Backend) {
    let site = Site::start(backend);
    let steps = json!([{ "repair_command": site.command("reset", "true"), "watch_seconds": 60 }]);
    let site = site.with_machines(&procedure("unhealthy", &steps, &json!({})));
    site.server.client().set_repair_enabled(RepairSwitch::Automatic, false).expect("switched");
    site.report("m1", "unhealthy");
    site.pass(7 * 86_400 + 1);
    site.server.client().set_repair_enabled(RepairSwitch::Automatic, true).expect("switched");
    site.looked();
    assert_eq!((site.entries(), site.ran()), (vec![], vec![]));
    let (rule, text) = site.verdict("m1");
    assert!(rule == "stale" && text.contains("a person has to look"), "{rule}: {text}");
    site.report("m1", "healthy");
    site.break_alone("m1", "unhealthy");
    site.wait_for_status("m1", "processing", "watching");
}
