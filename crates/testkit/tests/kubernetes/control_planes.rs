//! Control planes as kubeadm leaves them: their label and their taint are the cluster's, and no reason to replace them.

use sabakan_testkit::{
    kubelab::{self, Kubelet},
    wait_for,
};
use serde_json::{Value, json};

use super::{LONG, site::Site, stage::Stage};

const ROLE: &str = "node-role.kubernetes.io/control-plane";

fn role_of(node: &Value) -> (Value, usize) {
    let taints = node["spec"]["taints"].as_array().into_iter().flatten();
    (node["metadata"]["labels"][ROLE].clone(), taints.filter(|taint| taint["key"] == ROLE).count())
}

/// A node that is no control plane of the configuration keeps what kubeadm gave it, too.
#[test]
fn labels_and_taints_of_that_role_are_left_alone() {
    let Some(lab) = kubelab::turn() else { return };
    let (plane, other) = ("10.69.0.4", "10.69.0.5");
    lab.kubelets.add([plane, other].map(|address| Kubelet::new(address).control_plane()));
    let stage = Stage::start(&lab);
    stage.configure(&[
        json!({ "address": plane, "user": "u", "control_plane": true }),
        json!({ "address": other, "user": "u", "labels": { "tier": "gold" } }),
    ]);
    stage.settle();
    assert_eq!(lab.node(plane)["metadata"]["labels"]["cke.cybozu.com/master"], "true");
    assert_eq!(lab.node(other)["metadata"]["labels"]["tier"], "gold");
    for name in [plane, other] {
        assert_eq!(role_of(&lab.node(name)), (json!(""), 1), "{name}");
    }
    // Again after the configuration was changed.
    stage.configure(&[
        json!({ "address": plane, "user": "u", "control_plane": true }),
        json!({ "address": other, "user": "u" }),
    ]);
    stage.settle();
    assert_eq!(lab.node(other)["metadata"]["labels"]["tier"], Value::Null);
    for name in [plane, other] {
        assert_eq!(role_of(&lab.node(name)), (json!(""), 1), "{name}");
    }
}

/// The planner chooses control planes, kubeadm sets them up, and they stay.
#[test]
fn the_planner_keeps_control_planes_that_kubeadm_tainted() {
    let Some(lab) = kubelab::turn() else { return };
    let site = Site::start_with(lab, |config| config.planner = true);
    let template = json!({
        "name": "test", "service_subnet": "10.68.0.0/16",
        "nodes": [{ "user": "u", "control_plane": true }, { "user": "u" }],
    });
    site.put("/api/v1/constraints/control-plane-count", "3");
    site.put("/api/v1/cluster/template", &template.to_string());
    let cluster = site.server.cluster();
    let planes = || {
        let configuration = site.server.block_on(cluster.configuration()).expect("the store answers");
        configuration.map(|configuration| configuration.control_planes())
    };
    let first = wait_for("a cluster", LONG, planes);
    let kubelet = |address: &String| match first.contains(&address.parse().expect("an address")) {
        true => Kubelet::named(&format!("plane-{}", address.replace('.', "-")), address).control_plane(),
        false => Kubelet::new(address),
    };
    site.lab.kubelets.add(site.addresses.values().map(kubelet));
    let rounds = || site.server.block_on(cluster.status()).expect("a status").last.map(|last| last.at);
    for _round in 0..2 {
        let before = rounds();
        site.pass(61);
        site.report("m3", "unhealthy");
        site.report("m3", "healthy");
        wait_for("another round", LONG, || (rounds() > before).then_some(()));
    }
    assert_eq!(planes(), Some(first.clone()));
    let name = format!("plane-{}", first.first().expect("three").to_string().replace('.', "-"));
    wait_for("its label", LONG, || {
        (site.lab.node(&name)["metadata"]["labels"]["cke.cybozu.com/master"] == "true").then_some(())
    });
    assert_eq!(role_of(&site.lab.node(&name)), (json!(""), 1));
    // Taints are read: another one has it replaced.
    site.lab.kubectl(&["taint", "node", &name, "example.com/broken=1:NoSchedule"]);
    let tainted = first.first().expect("three");
    wait_for("a tainted control plane to be replaced", LONG, || planes().filter(|planes| !planes.contains(tainted)));
}
