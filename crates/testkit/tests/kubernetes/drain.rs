//! Emptying a node: what becomes of each pod, who has a say in it, and who closed the node.

use sabakan_domain::repair::drain::LivePod;
use sabakan_drivers::kubernetes::{Evicted, Kubernetes as _};
use sabakan_kube::{Kube, Source};
use sabakan_testkit::{
    client::RepairSweep,
    kubelab::{self, Kubelet, guide},
    wait_for,
};
use serde_json::json;

use super::{
    LONG,
    attributes::nobody_was_refused,
    objects,
    site::{Site, cordon, draining},
};

/// The table of the guide, row by row, with pods that real controllers made.
#[test]
fn what_becomes_of_a_pod_depends_on_who_controls_it() {
    let Some(lab) = kubelab::turn() else { return };
    let site = Site::start(lab);
    let node = site.address("m1").to_owned();
    let pool = |kubelet: Kubelet| kubelet.label("pool", "agent");
    site.lab.kubelets.add([pool(Kubelet::new(&node)).static_pod("proxy"), Kubelet::new(site.address("m0"))]);
    site.lab.namespace("batch", &json!({ "protected": "true" }));
    objects::daemon_set(&site.lab, "default", "agent", 1);
    objects::job(&site.lab, "batch", "waits", &node, &["lab/pending"]);
    objects::job(&site.lab, "batch", "finished", &node, &["lab/finished"]);
    objects::job(&site.lab, "batch", "works", &node, &["may-go"]);
    objects::pod(&site.lab, "default", "alone", &node);
    site.lab.kubelets.keep_pods(&node, true);
    let rules = json!({
        "protected_namespaces": { "matchLabels": { "protected": "true" } },
        "protected_job_pods": { "matchLabels": { "protected": "true" } },
    });
    site.configure(&draining(&site, &rules), &json!({}));
    site.break_alone("m1", "unhealthy");
    let entry = site.wait_for_entry("m1", "waiting for its pods", |entry| {
        entry.waits.as_deref().unwrap_or_default().contains("2 of its pods are still there")
    });
    let waits = entry.waits.unwrap_or_default();
    assert!(waits.contains("batch/works-") && waits.contains("default/alone (terminating)"), "{waits}");
    assert_eq!(cordon(&site.lab, &node), (true, true));
    let who = site.lab.shell(&guide::only("sh", "spec.unschedulable=true"));
    let lines: Vec<Vec<&str>> = who.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines, [["NAME", "OURS"], [&*node, "true"]]);
    site.looked();
    assert_eq!(site.ran(), [""; 0], "not before its pods have gone");

    site.lab.kubelets.keep_pods(&node, false);
    wait_for("the node to be reset", LONG, || (site.ran() == [format!("reset {node}")]).then_some(()));
    // A job that was interrupted begins anew: its pods are new ones.
    let left: Vec<String> =
        site.lab.pods_on(&node).into_iter().filter(|pod| !pod.starts_with("batch/works-")).collect();
    let kinds: Vec<&str> = left.iter().map(|pod| pod.trim_end_matches(|c| c != '-').trim_end_matches('-')).collect();
    assert_eq!(kinds, ["batch/finished", "batch/waits", "default/agent", "kube-system/proxy"]);
    site.report("m1", "healthy");
    wait_for("the node to be given back", LONG, || (cordon(&site.lab, &node) == (false, false)).then_some(()));
    nobody_was_refused(&site.lab);
}

#[test]
fn a_running_job_keeps_its_node() {
    let Some(lab) = kubelab::turn() else { return };
    let site = Site::start(lab);
    site.join();
    let node = site.address("m1").to_owned();
    objects::job(&site.lab, "default", "works", &node, &[]);
    site.configure(&draining(&site, &json!({})), &json!({}));
    site.break_alone("m1", "unhealthy");
    site.wait_for_entry("m1", "kept by a job", |entry| {
        entry.note.contains("default/works-") && entry.note.contains("of a job is running")
    });
    assert_eq!((cordon(&site.lab, &node), site.ran()), ((false, false), vec![]), "nothing was touched");
    assert_eq!(site.lab.pods_on(&node).len(), 1);
}

/// A real budget refuses, its words are told, and nothing is touched until it allows.
#[test]
fn a_disruption_budget_is_respected_in_protected_namespaces() {
    let Some(lab) = kubelab::turn() else { return };
    let site = Site::start(lab);
    let (node, other) = (site.address("m1").to_owned(), site.address("m2").to_owned());
    site.lab.kubelets.add([Kubelet::new(&node).label("pool", "web")]);
    site.lab.namespace("prod", &json!({ "protected": "true" }));
    objects::deployment(&site.lab, "prod", "web", 1);
    objects::budget(&site.lab, "prod", "web", 1);
    let rules = json!({ "protected_namespaces": { "matchLabels": { "protected": "true" } } });
    site.configure(&draining(&site, &rules), &json!({}));
    site.break_alone("m1", "unhealthy");
    let refused = site.wait_for_entry("m1", "refused by the budget", |entry| entry.note.contains("may not be evicted"));
    assert!(refused.note.contains("disruption budget web needs 1 healthy pods"), "{}", refused.note);
    assert_eq!(cordon(&site.lab, &node), (false, false), "it was asked before anything was touched");

    // Somewhere else to run, and one more pod than needed.
    site.lab.kubelets.add([Kubelet::new(&other).label("pool", "web")]);
    site.lab.kubectl(&["-n", "prod", "scale", "deployment", "web", "--replicas=3"]);
    objects::wait_running(&site.lab, "prod", "app=web", 3);
    let is_allowed = || {
        let budget = site.lab.get("/apis/policy/v1/namespaces/prod/poddisruptionbudgets/web");
        (budget["status"]["disruptionsAllowed"] == 2).then_some(())
    };
    wait_for("the budget to allow it", LONG, is_allowed);
    site.server.client().sweep_repairs(RepairSweep::ResetBackoff).expect("reset");
    wait_for("the node to be reset", LONG, || (site.ran() == [format!("reset {node}")]).then_some(()));
    assert_eq!(site.lab.pods_on(&node), [""; 0]);
    nobody_was_refused(&site.lab);
}

#[test]
fn where_the_budget_refuses_pods_of_other_namespaces_are_deleted() {
    let Some(lab) = kubelab::turn() else { return };
    let site = Site::start(lab);
    let node = site.address("m1").to_owned();
    site.lab.kubelets.add([Kubelet::new(&node).label("pool", "web")]);
    site.lab.namespace("dev", &json!({}));
    objects::deployment(&site.lab, "dev", "web", 1);
    objects::budget(&site.lab, "dev", "web", 1);
    let rules = json!({ "protected_namespaces": { "matchLabels": { "protected": "true" } } });
    site.configure(&draining(&site, &rules), &json!({}));
    let since = site.lab.audited();
    site.break_alone("m1", "unhealthy");
    wait_for("the node to be reset", LONG, || (site.ran() == [format!("reset {node}")]).then_some(()));
    assert_eq!(site.lab.pods_on(&node), [""; 0]);
    let about_pods: Vec<(String, u64)> = site
        .lab
        .audit(since)
        .into_iter()
        .filter(|record| matches!(record.verb.as_str(), "create" | "delete"))
        .map(|record| (record.right(), record.code))
        .collect();
    assert_eq!(about_pods, [("create pods/eviction".to_owned(), 429), ("delete pods".to_owned(), 200)]);
}

#[test]
fn a_node_that_somebody_else_closed_stays_closed() {
    let Some(lab) = kubelab::turn() else { return };
    let site = Site::start(lab);
    site.join();
    let node = site.address("m1").to_owned();
    site.lab.kubectl(&["cordon", &node]);
    objects::pod(&site.lab, "default", "alone", &node);
    site.configure(&draining(&site, &json!({})), &json!({}));
    site.break_alone("m1", "unhealthy");
    wait_for("the node to be reset", LONG, || (site.ran() == [format!("reset {node}")]).then_some(()));
    assert_eq!((cordon(&site.lab, &node), site.lab.pods_on(&node)), ((true, false), vec![]));
    site.report("m1", "healthy");
    site.wait_for_entry("m1", "succeeded", |entry| entry.status == "succeeded");
    site.looked();
    assert_eq!(cordon(&site.lab, &node), (true, false));
}

/// A reboot empties its node as a repair does.
#[test]
fn a_reboot_empties_its_node_first() {
    let Some(lab) = kubelab::turn() else { return };
    let site = Site::start(lab);
    site.join();
    let node = site.address("m1").to_owned();
    objects::pod(&site.lab, "default", "alone", &node);
    site.lab.kubelets.keep_pods(&node, true);
    let reboot = json!({
        "reboot_command": site.command("reboot", "true"), "boot_check_command": site.command("check", "echo true"),
    });
    site.configure(&draining(&site, &json!({})), &reboot);
    site.server.client().add_reboots(node.as_bytes()).expect("added");
    wait_for("the pod to be told", LONG, || {
        let pod = site.lab.get("/api/v1/namespaces/default/pods/alone");
        (!pod["metadata"]["deletionTimestamp"].is_null()).then_some(())
    });
    assert_eq!(cordon(&site.lab, &node), (true, true));
    site.looked();
    assert_eq!(site.ran(), [""; 0], "not before its pods have gone");
    site.lab.kubelets.keep_pods(&node, false);
    wait_for("the node to be rebooted", LONG, || (site.ran().first()? == &format!("reboot {node}")).then_some(()));
    wait_for("the node to be given back", LONG, || (cordon(&site.lab, &node) == (false, false)).then_some(()));
}

/// The next pod of a stateful set has the name of the one that was meant.
#[test]
fn the_next_pod_of_a_stateful_set_is_left_alone() {
    let Some(lab) = kubelab::turn() else { return };
    let site = Site::start(lab);
    site.join();
    let node = site.address("m1").to_owned();
    objects::stateful_set(&site.lab, "default", "db", &node);
    let kube = site.server.block_on(Kube::open(Source::Kubeconfig(site.lab.kubeconfig()))).expect("a client");
    let only = || site.server.block_on(kube.pods(&node)).expect("pods").pop();
    let before: LivePod = only().expect("a pod");
    let evict = |dry_run: bool| site.server.block_on(kube.evict(&before, dry_run));
    assert_eq!(evict(true), Ok(Evicted::Done));
    assert_eq!(only().as_ref(), Some(&before), "a dry run changes nothing");
    assert_eq!(evict(false), Ok(Evicted::Done));
    let is_next = |pod: &LivePod| pod.uid != before.uid && pod.phase == "Running";
    let after = wait_for("the next pod", LONG, || only().filter(is_next));
    assert_eq!((&after.name, after.owner.as_deref()), (&before.name, Some("StatefulSet")));
    for dry_run in [true, false] {
        assert_eq!(evict(dry_run), Ok(Evicted::Gone));
    }
    site.server.block_on(kube.delete_pod(&before)).expect("the one that was meant is gone");
    assert_eq!(only(), Some(after));
}
