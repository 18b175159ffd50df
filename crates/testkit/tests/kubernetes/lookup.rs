//! Nodes that kubeadm named after their hosts are found for drains and reboots as they are for labels; one that nobody finds is not
//! taken for empty.

use sabakan_testkit::{
    client::RepairSweep,
    kubelab::{self, Kubelet},
    wait_for,
};
use serde_json::json;

use super::{
    LONG, objects,
    site::{Site, cordon, draining},
};

const NODE: &str = "host-5";

/// A budget refuses, so that the node keeps its pod and the machine is left alone; then it allows.
#[test]
fn a_node_with_a_name_of_its_own_is_drained_before_its_machine_is_repaired() {
    let Some(lab) = kubelab::turn() else { return };
    let site = Site::start(lab);
    site.lab.kubelets.add([Kubelet::named(NODE, site.address("m1")).label("pool", "web")]);
    objects::deployment(&site.lab, "default", "web", 1);
    objects::budget(&site.lab, "default", "web", 1);
    site.configure(&draining(&site, &json!({})), &json!({}));
    site.break_alone("m1", "unhealthy");
    site.wait_for_entry("m1", "refused by the budget", |entry| entry.note.contains("may not be evicted"));
    assert_eq!((cordon(&site.lab, NODE), site.ran()), ((false, false), vec![]));
    site.lab.kubectl(&["delete", "poddisruptionbudget", "web"]);
    site.server.client().sweep_repairs(RepairSweep::ResetBackoff).expect("reset");
    wait_for("the node to be reset", LONG, || (site.ran() == [format!("reset {}", site.address("m1"))]).then_some(()));
    assert_eq!((cordon(&site.lab, NODE), site.lab.pods_on(NODE)), ((true, true), vec![]));
    site.report("m1", "healthy");
    wait_for("the node to be given back", LONG, || (cordon(&site.lab, NODE) == (false, false)).then_some(()));
}

#[test]
fn a_node_with_a_name_of_its_own_is_drained_before_it_is_rebooted() {
    let Some(lab) = kubelab::turn() else { return };
    let site = Site::start(lab);
    site.lab.kubelets.add([Kubelet::named(NODE, site.address("m1"))]);
    objects::pod(&site.lab, "default", "alone", NODE);
    site.lab.kubelets.keep_pods(NODE, true);
    let reboot = json!({
        "reboot_command": site.command("reboot", "true"), "boot_check_command": site.command("check", "echo true"),
    });
    site.configure(&draining(&site, &json!({})), &reboot);
    site.server.client().add_reboots(site.address("m1").as_bytes()).expect("added");
    wait_for("the pod to be told", LONG, || {
        let pod = site.lab.get("/api/v1/namespaces/default/pods/alone");
        (!pod["metadata"]["deletionTimestamp"].is_null()).then_some(())
    });
    site.looked();
    assert_eq!((cordon(&site.lab, NODE), site.ran()), ((true, true), vec![]), "not before its pods have gone");
    site.lab.kubelets.keep_pods(NODE, false);
    let told = format!("reboot {}", site.address("m1"));
    wait_for("the node to be rebooted", LONG, || (site.ran().first()? == &told).then_some(()));
    wait_for("the node to be given back", LONG, || (cordon(&site.lab, NODE) == (false, false)).then_some(()));
}

/// By the annotation that holds the serial, where neither name nor address say which machine it is.
#[test]
fn a_node_is_found_by_the_serial_it_carries() {
    let Some(lab) = kubelab::turn() else { return };
    let site = Site::start(lab);
    site.lab.kubelets.add([Kubelet::named(NODE, "192.0.2.5")]);
    site.lab.kubectl(&["annotate", "node", NODE, "cke.cybozu.com/serial=m1"]);
    objects::pod(&site.lab, "default", "alone", NODE);
    site.configure(&draining(&site, &json!({})), &json!({}));
    site.break_alone("m1", "unhealthy");
    wait_for("the node to be reset", LONG, || (site.ran() == [format!("reset {}", site.address("m1"))]).then_some(()));
    assert_eq!((cordon(&site.lab, NODE), site.lab.pods_on(NODE)), ((true, true), vec![]));
}

#[test]
fn a_node_that_nobody_finds_is_not_taken_for_empty() {
    let Some(lab) = kubelab::turn() else { return };
    let site = Site::start(lab);
    site.lab.kubelets.add([Kubelet::named("elsewhere", "192.0.2.5")]);
    site.configure(&draining(&site, &json!({})), &json!({}));
    site.break_alone("m1", "unhealthy");
    let entry = site.wait_for_entry("m1", "told why it waits", |entry| {
        entry.waits.as_deref().unwrap_or_default().contains("cannot be drained")
    });
    let waits = entry.waits.unwrap_or_default();
    assert!(waits.contains(site.address("m1")) && waits.contains("InternalIP"), "{waits}");
    site.looked();
    assert_eq!(site.ran(), [""; 0]);
}
