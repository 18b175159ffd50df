//! A kubelet that is silent for good: its pods stay *Terminating*, and its machine is repaired all the same once it is known that
//! nothing runs there.

use std::time::Instant;

use sabakan_domain::provision::{power::PowerState, states::State, verbs::Verb};
use sabakan_service::Asked;
use sabakan_testkit::{kubelab, rack::operator, wait_for};
use serde_json::{Value, json};

use super::{
    LONG, objects,
    site::{Site, draining},
};

fn is_ready(site: &Site, node: &str) -> bool {
    let node = site.lab.node(node);
    let mut conditions = node["status"]["conditions"].as_array().into_iter().flatten();
    conditions.any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

fn out_of_service(site: &Site, node: &str) -> bool {
    let node = site.lab.node(node);
    let mut taints = node["spec"]["taints"].as_array().into_iter().flatten();
    taints.any(|taint| taint["key"] == "node.kubernetes.io/out-of-service")
}

/// The kubelet falls silent, and the controllers of Kubernetes notice.
fn silence(site: &Site, node: &str) {
    site.lab.kubelets.kill(node);
    let begun = Instant::now();
    wait_for("the Node not to be ready", LONG, || (!is_ready(site, node)).then_some(()));
    println!("{node} is not ready after {:?}", begun.elapsed());
}

fn unreachable(site: &Site) -> Value {
    let mut repair = draining(site, &json!({}));
    repair["repair_procedures"][0]["repair_operations"][0]["operation"] = json!("unreachable");
    repair
}

/// Brings a machine into service, so that its controller is known and it is switched on.
fn deploy(site: &Site, serial: &str) {
    let nodes = site.server.nodes();
    let name = sabakan_domain::words::Serial::new(serial).expect("a serial");
    for (verb, state) in
        [(Verb::Manage, State::Manageable), (Verb::Provide, State::Available), (Verb::Active, State::Active)]
    {
        let asked = Asked { verb, steps: Vec::new(), disable_ramdisk: false };
        site.server.block_on(nodes.ask(&operator(), &name, &asked)).unwrap_or_else(|error| panic!("{verb}: {error}"));
        wait_for(&format!("{serial} to become {state}"), LONG, || {
            let shown = site.server.block_on(nodes.get(serial)).expect("a node");
            (shown.node.state == state && shown.lock.is_none()).then_some(())
        });
    }
    site.report(serial, "healthy");
}

#[test]
fn a_machine_that_nobody_reaches_is_repaired_although_its_pods_stay() {
    let Some(lab) = kubelab::turn() else { return };
    let site = Site::start(lab);
    site.follow_real_time();
    site.join();
    let node = site.address("m1").to_owned();
    objects::pod(&site.lab, "default", "alone", &node);
    site.configure(&unreachable(&site), &json!({}));
    silence(&site, &node);
    site.break_alone("m1", "unreachable");
    site.wait_for_entry("m1", "waiting for its pods", |entry| {
        entry.waits.as_deref().unwrap_or_default().contains("default/alone (terminating)")
    });
    site.looked();
    assert_eq!(site.ran(), [""; 0], "it may come back");
    site.pass(300);
    let entry = site.wait_for_entry("m1", "reset", |entry| entry.note.contains("exit status 0"));
    assert!(entry.note.contains("is not Ready") && entry.note.contains("unreachable for"), "{}", entry.note);
    assert_eq!(site.ran(), [format!("reset {node}")]);
    assert_eq!(site.lab.pods_on(&node), ["default/alone"], "nobody could end it");
    assert!(!out_of_service(&site, &node), "nobody knows about its power");
}

#[test]
fn a_machine_without_power_is_marked_repaired_and_given_back() {
    let Some(lab) = kubelab::turn() else { return };
    let site = Site::start(lab);
    site.follow_real_time();
    site.join();
    let node = site.address("m1").to_owned();
    objects::stateful_set(&site.lab, "default", "db", &node);
    site.server.client().set_repair_setting("out-of-service-taint", "true").expect("a setting");
    site.configure(&unreachable(&site), &json!({}));
    deploy(&site, "m1");
    site.server.block_on(async { site.fleet.set_power("m1", PowerState::Off) });
    silence(&site, &node);
    wait_for("the controller to be asked", LONG, || {
        let shown = site.server.block_on(site.server.nodes().get("m1")).expect("a node");
        (shown.node.power.state == Some(PowerState::Off)).then_some(())
    });
    site.break_alone("m1", "unreachable");
    let entry = site.wait_for_entry("m1", "reset", |entry| entry.note.contains("exit status 0"));
    assert!(entry.note.contains("the power is off"), "{}", entry.note);
    assert!(out_of_service(&site, &node));
    // Kubernetes itself acts on it: the pod ends without its kubelet.
    site.lab.kubectl(&["delete", "statefulset", "db", "--cascade=orphan"]);
    wait_for("Kubernetes to end the pod", LONG, || site.lab.pods_on(&node).is_empty().then_some(()));

    site.server.block_on(async { site.fleet.set_power("m1", PowerState::On) });
    site.lab.kubelets.revive(&node);
    site.report("m1", "healthy");
    wait_for("the mark to go", LONG, || (!out_of_service(&site, &node)).then_some(()));
}
