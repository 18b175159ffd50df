//! Nodes that are rebooted on purpose: emptied, told, asked whether they are back; and not taken for broken ones meanwhile.

use std::fs;

use sabakan_service::Clock as _;
use sabakan_testkit::{Backend, kubernetes::Pod, wait_for};
use sabakan_wire::rest::repair::RebootEntryJson;
use serde_json::json;

use super::{LONG, Site, procedure};

on_both_stores!(a_node_is_rebooted_and_not_repaired, a_reboot_can_be_cancelled_at_any_time);

/// Three nodes; a file says whether one has booted.
fn site(backend: Backend) -> Site {
    let mut site = Site::start(backend);
    site.register(0, &["m0", "m1", "m2"].map(str::to_owned));
    site.constrain("maximum-repair-queue-entries", 3);
    site.constrain("wait-seconds-to-repair-rebooting", 1_800);
    let steps = json!([{ "repair_command": site.command("reset", "true"), "watch_seconds": 60 }]);
    let booted = format!("test -e {} && echo true || echo false", site.file("booted").display());
    let reboot = json!({
        "reboot_command": site.command("reboot", "true"),
        "boot_check_command": site.command("check", &booted),
    });
    site.configure(&["m0", "m1", "m2"], &procedure("unreachable", &steps, &json!({})), &reboot);
    site
}

pub(super) fn reboots(site: &Site) -> Vec<RebootEntryJson> {
    site.server.client().reboots().expect("reboots").value
}

/// Asks for the reboot of a node; its number.
pub(super) fn reboot(site: &Site, serial: &str) -> u64 {
    let added = site.server.client().add_reboots(site.address(serial).as_bytes()).expect("added").value;
    added.indexes[0].parse().expect("a number")
}

pub(super) fn wait_for_status(site: &Site, status: &str) -> RebootEntryJson {
    wait_for(&format!("the reboot to be {status}"), LONG, || reboots(site).pop().filter(|entry| entry.status == status))
}

fn cancel(site: &Site, index: u64) {
    site.server.client().cancel_reboot(index).expect("cancelled");
    wait_for("the entry to go", LONG, || reboots(site).is_empty().then_some(()));
}

/// What commands wrote, without questions that were repeated.
fn ran(site: &Site) -> Vec<String> {
    let mut lines = site.ran();
    lines.dedup();
    lines
}

fn a_node_is_rebooted_and_not_repaired(backend: Backend) {
    let site = site(backend);
    let node = site.address("m1").to_owned();
    site.double.add_pod(Pod::new("dev", "web", &node).lingering());
    reboot(&site, "m1");
    wait_for_status(&site, "draining");
    wait_for("the pod to be told", LONG, || {
        let drains = site.double.state().drains.clone();
        (drains.last().map(String::as_str) == Some("evict dev/web")).then_some(())
    });
    assert!(site.double.is_cordoned(&node));
    site.looked();
    assert_eq!(site.ran(), [""; 0], "not before its pods have gone");
    let since = site.server.clock.now().as_second();
    site.double.end_pod("dev/web");
    wait_for_status(&site, "rebooting");
    let check = format!("check {node} {since}");
    wait_for("the question whether it is back", LONG, || (site.ran().last() == Some(&check)).then_some(()));
    assert_eq!(ran(&site), [format!("reboot {node}"), check.clone()]);
    site.looked();
    assert_eq!(site.metric("cke_reboot_queue_items{status=\"rebooting\"}"), Some(1.0));
    assert_eq!(site.metric(&format!("cke_node_reboot_status{{node=\"{node}\",status=\"rebooting\"}}")), Some(1.0));

    // Of course it cannot be contacted.
    site.break_alone("m1", "unreachable");
    site.looked();
    assert_eq!(site.entries(), []);
    let (rule, text) = site.verdict("m1");
    assert!(rule == "rebooting" && text.contains("rebooted on purpose"), "{rule}: {text}");
    // Whoever is reported otherwise is not rebooting, and is repaired.
    site.break_alone("m2", "unreachable");
    site.wait_for_status("m2", "processing", "watching");

    fs::write(site.file("booted"), "").expect("a file");
    site.report("m1", "healthy");
    wait_for("the entry to go", LONG, || reboots(&site).is_empty().then_some(()));
    wait_for("the node to be given back", LONG, || (!site.double.is_cordoned(&node)).then_some(()));
    site.looked();
    let repaired = site.entries();
    assert_eq!((repaired.len(), repaired[0].serial.as_deref()), (1, Some("m2")));
    let commands: Vec<String> = site.ran().into_iter().filter(|line| *line != check).collect();
    assert_eq!(commands, [format!("reboot {node}"), format!("reset {}", site.address("m2"))]);
    assert!(site.audited("reboot-queue").contains(&"add-reboots".to_owned()));
}

fn a_reboot_can_be_cancelled_at_any_time(backend: Backend) {
    let site = site(backend);
    let node = site.address("m2").to_owned();
    site.double.add_pod(Pod::new("dev", "web", &node).lingering());
    let index = reboot(&site, "m2");
    wait_for_status(&site, "draining");
    wait_for("the node to be closed", LONG, || site.double.is_cordoned(&node).then_some(()));
    cancel(&site, index);
    wait_for("the node to be given back", LONG, || (!site.double.is_cordoned(&node)).then_some(()));
    site.double.end_pod("dev/web");

    // One that was told to reboot and never comes back goes too, and may be repaired from then on.
    let index = reboot(&site, "m2");
    wait_for_status(&site, "rebooting");
    site.break_alone("m2", "unreachable");
    site.looked();
    assert_eq!(site.entries(), []);
    cancel(&site, index);
    site.wait_for_status("m2", "processing", "watching");
    let told = site.ran().iter().filter(|line| line.starts_with("reboot")).count();
    assert_eq!(told, 1, "the first was cancelled before");
}
