//! The table of labels, annotations and taints: what is set, what is removed, what is left alone.

use sabakan_testkit::{
    kubelab::{self, Kubelab, Kubelet, Turn, guide},
    wait_for,
};
use serde_json::{Value, json};

use super::{LONG, stage::Stage};

const PLANE: &str = "10.69.0.4";
const WORKER: &str = "10.69.0.5";

/// Labels without those of every kubelet.
fn labels(lab: &Kubelab, node: &str) -> Value {
    let mut labels = lab.node(node)["metadata"]["labels"].clone();
    let all = labels.as_object_mut().expect("every node has labels");
    all.retain(|key, _| !key.starts_with("kubernetes.io/") && !key.starts_with("beta.kubernetes.io/"));
    labels
}

/// Annotations without those of controllers.
fn annotations(lab: &Kubelab, node: &str) -> Value {
    let mut annotations = lab.node(node)["metadata"]["annotations"].clone();
    if let Some(all) = annotations.as_object_mut() {
        // Which taints are ours is written down in one of them.
        all.retain(|key, _| key != "node.alpha.kubernetes.io/ttl" && key != "sabakan.cybozu.com/taints");
    }
    annotations
}

/// Taints as `key=value:effect`, in order of their keys.
fn taints(lab: &Kubelab, node: &str) -> Vec<String> {
    let part = |taint: &Value, name: &str| taint[name].as_str().unwrap_or_default().to_owned();
    let shown = |taint: &Value| format!("{}={}:{}", part(taint, "key"), part(taint, "value"), part(taint, "effect"));
    let node = lab.node(node);
    let mut taints: Vec<String> = node["spec"]["taints"].as_array().into_iter().flatten().map(shown).collect();
    taints.sort();
    taints
}

fn nodes(worker: &Value) -> [Value; 2] {
    let mut worker = worker.clone();
    (worker["address"], worker["user"]) = (json!(WORKER), json!("u"));
    let plane = json!({
        "address": PLANE, "user": "u", "control_plane": true, "annotations": { "cke.cybozu.com/serial": "s1" },
    });
    [plane, worker]
}

#[test]
fn nodes_get_what_the_configuration_says_and_nothing_else_is_touched() {
    let Some(lab) = kubelab::turn() else { return };
    lab.kubelets.add([PLANE, WORKER, "stranger"].map(Kubelet::new));
    lab.kubectl(&["label", "node", WORKER, "by-hand=1", "cke.cybozu.com/stale=1", "x.cke.cybozu.com/stale=1"]);
    lab.kubectl(&["annotate", "node", WORKER, "note=mine", "cke.cybozu.com/stale=1", "cke.cybozu.com/reboot=theirs"]);
    add_timed_taint(&lab);
    lab.kubectl(&["taint", "node", WORKER, "cke.cybozu.com/stale=1:NoSchedule"]);
    lab.kubectl(&["taint", "node", WORKER, "dedicated=other:NoExecute"]);
    lab.kubectl(&["label", "node", "stranger", "cke.cybozu.com/role=x"]);
    lab.kubectl(&["taint", "node", "stranger", "cke.cybozu.com/role=x:NoSchedule"]);
    let (added, stranger) = (time_added(&lab, "by-hand"), lab.node("stranger"));
    assert_eq!(added, "2026-01-02T03:04:05Z");

    let stage = Stage::start(&lab);
    let mut nodes = nodes(&json!({
        "labels": { "cke.cybozu.com/rack": "3", "topology.kubernetes.io/zone": "rack3" },
        "annotations": { "cke.cybozu.com/serial": "s2" },
        "taints": [
            { "key": "cke.cybozu.com/state", "value": "retiring", "effect": "NoExecute" },
            { "key": "dedicated", "value": "storage", "effect": "NoSchedule" },
        ],
    }))
    .to_vec();
    nodes.push(json!({ "address": "10.69.0.99", "user": "u" }));
    stage.configure(&nodes);
    let progress = stage.settle();
    assert_eq!((progress.nodes, progress.as_wanted, progress.missing), (3, 2, 1));
    assert_eq!(progress.missing_named, ["10.69.0.99"]);

    assert_eq!(labels(&lab, PLANE), json!({ "cke.cybozu.com/master": "true" }));
    assert_eq!(taints(&lab, PLANE), ["cke.cybozu.com/master=:PreferNoSchedule"]);
    assert_eq!(annotations(&lab, PLANE), json!({ "cke.cybozu.com/serial": "s1" }));
    let expected = json!({ "by-hand": "1", "cke.cybozu.com/rack": "3", "topology.kubernetes.io/zone": "rack3" });
    assert_eq!(labels(&lab, WORKER), expected);
    let expected = json!({ "cke.cybozu.com/reboot": "theirs", "cke.cybozu.com/serial": "s2", "note": "mine" });
    assert_eq!(annotations(&lab, WORKER), expected);
    let expected = ["by-hand=1:NoExecute", "cke.cybozu.com/state=retiring:NoExecute", "dedicated=storage:NoSchedule"];
    assert_eq!(taints(&lab, WORKER), expected);
    assert_eq!(time_added(&lab, "by-hand"), added);
    assert_eq!(lab.node("stranger")["metadata"]["resourceVersion"], stranger["metadata"]["resourceVersion"]);
    assert_eq!(lab.get("/api/v1/nodes")["items"].as_array().map(Vec::len), Some(3), "none is created or deleted");

    // Nothing is written where nothing differs.
    let before = [PLANE, WORKER].map(|name| lab.node(name)["metadata"]["resourceVersion"].clone());
    stage.settle();
    assert_eq!([PLANE, WORKER].map(|name| lab.node(name)["metadata"]["resourceVersion"].clone()), before);
    nobody_was_refused(&lab);
}

/// Somebody adds a taint and says when, as the controllers do with theirs.
fn add_timed_taint(lab: &Kubelab) {
    let taint = json!({ "key": "by-hand", "value": "1", "effect": "NoExecute", "timeAdded": "2026-01-02T03:04:05Z" });
    let patch = json!({ "spec": { "taints": [taint] } });
    let (code, answer) = lab.ask("PATCH", &format!("/api/v1/nodes/{WORKER}"), &patch);
    assert_eq!(code, 200, "{answer}");
}

/// Since when the worker has a taint.
fn time_added(lab: &Kubelab, key: &str) -> Value {
    let node = lab.node(WORKER);
    let mut taints = node["spec"]["taints"].as_array().into_iter().flatten();
    taints.find(|taint| taint["key"] == key).map(|taint| taint["timeAdded"].clone()).unwrap_or_default()
}

pub fn nobody_was_refused(lab: &Turn) {
    let refused: Vec<_> = lab.asked().into_iter().filter(|record| matches!(record.code, 401 | 403)).collect();
    assert_eq!(refused, [], "the rights of the guide are enough");
}

#[test]
fn what_the_configuration_says_wins_over_kubectl() {
    let Some(lab) = kubelab::turn() else { return };
    lab.kubelets.add([PLANE, WORKER].map(Kubelet::new));
    let stage = Stage::start(&lab);
    stage.configure(&nodes(&json!({
        "labels": { "cke.cybozu.com/rack": "3", "tier": "gold" }, "annotations": { "note": "ours" },
        "taints": [{ "key": "dedicated", "value": "storage", "effect": "NoSchedule" }],
    })));
    stage.settle();
    // Whoever set what can be seen, as the guide says.
    let shown = lab.kubectl(&["get", "node", WORKER, "-o", "yaml", "--show-managed-fields"]);
    assert!(shown.contains("manager: sabakan\n") && shown.contains("manager: sabakan-taints\n"), "{shown}");

    lab.kubectl(&["label", "--overwrite", "node", WORKER, "cke.cybozu.com/rack=9", "tier-", "mine=1"]);
    lab.kubectl(&["annotate", "--overwrite", "node", WORKER, "note=theirs", "other=1"]);
    lab.kubectl(&["taint", "--overwrite", "node", WORKER, "dedicated=theirs:NoSchedule"]);
    add_timed_taint(&lab);
    wait_for("all of it to be put right", LONG, || {
        let is_right = labels(&lab, WORKER) == json!({ "cke.cybozu.com/rack": "3", "mine": "1", "tier": "gold" })
            && annotations(&lab, WORKER) == json!({ "note": "ours", "other": "1" })
            && taints(&lab, WORKER) == ["by-hand=1:NoExecute", "dedicated=storage:NoSchedule"];
        is_right.then_some(())
    });
    assert_eq!(time_added(&lab, "by-hand"), "2026-01-02T03:04:05Z");

    // Somebody who applies on the server by force, too.
    let theirs = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": WORKER, "labels": { "tier": "iron", "owned": "1" } },
    });
    let forced = ["apply", "--server-side", "--force-conflicts", "--field-manager=other", "-f", "-"];
    lab.kubectl_with(&forced, &theirs.to_string());
    let expected = json!({ "cke.cybozu.com/rack": "3", "mine": "1", "owned": "1", "tier": "gold" });
    wait_for("our label to be back", LONG, || (labels(&lab, WORKER) == expected).then_some(()));
    nobody_was_refused(&lab);
}

#[test]
fn what_the_configuration_drops_goes() {
    let Some(lab) = kubelab::turn() else { return };
    lab.kubelets.add([PLANE, WORKER].map(Kubelet::new));
    let stage = Stage::start(&lab);
    stage.configure(&nodes(&json!({
        "labels": { "tier": "gold", "cke.cybozu.com/a": "1", "cke.cybozu.com/b": "1" }, "annotations": { "note": "ours" },
        "taints": [{ "key": "cke.cybozu.com/state", "value": "retired", "effect": "NoExecute" }],
    })));
    stage.settle();
    assert_eq!(taints(&lab, WORKER), ["cke.cybozu.com/state=retired:NoExecute"]);
    lab.kubectl(&["taint", "node", WORKER, "by-hand=1:NoSchedule"]);
    // Somebody takes one of them over, so that it does not go with our own.
    lab.kubectl(&["label", "--overwrite", "node", WORKER, "cke.cybozu.com/b=2"]);
    stage.configure(&nodes(&json!({ "labels": { "cke.cybozu.com/c": "1" } })));
    let expected = json!({ "cke.cybozu.com/c": "1" });
    wait_for("the rest to go", LONG, || (labels(&lab, WORKER) == expected).then_some(()));
    assert!(
        matches!(&annotations(&lab, WORKER), Value::Object(left) if left.is_empty())
            || annotations(&lab, WORKER).is_null()
    );
    assert_eq!(taints(&lab, WORKER), ["by-hand=1:NoSchedule"]);
    nobody_was_refused(&lab);
}

#[test]
fn a_node_is_the_one_with_its_name_or_else_the_only_one_with_its_address() {
    let Some(lab) = kubelab::turn() else { return };
    lab.kubelets.add([
        Kubelet::named("host-4", PLANE),
        Kubelet::named("host-5", WORKER),
        Kubelet::named("host-6", "10.69.0.6"),
        Kubelet::named("double-6", "10.69.0.6"),
        Kubelet::named("called", "10.69.0.77"),
    ]);
    let stage = Stage::start(&lab);
    let labelled = |n: u32| json!({ "address": format!("10.69.0.{n}"), "user": "u", "labels": { "n": n.to_string() } });
    let mut called = labelled(7);
    called["hostname"] = json!("called");
    let [plane, _] = nodes(&json!({}));
    stage.configure(&[plane, labelled(5), labelled(6), called]);
    let progress = stage.settle();
    assert_eq!((progress.as_wanted, &progress.missing_named[..]), (3, &["10.69.0.6".to_owned()][..]));
    assert_eq!(labels(&lab, "host-4"), json!({ "cke.cybozu.com/master": "true" }));
    assert_eq!(labels(&lab, "host-5"), json!({ "n": "5" }));
    assert_eq!(labels(&lab, "called"), json!({ "n": "7" }));
    for name in ["host-6", "double-6"] {
        assert_eq!(labels(&lab, name), json!({}), "nobody knows which of the two is meant");
    }
}

/// The last command of the guide: what was applied is taken away by applying nothing in our name.
#[test]
fn what_was_applied_can_be_taken_away() {
    let Some(lab) = kubelab::turn() else { return };
    lab.kubelets.add([PLANE, WORKER].map(Kubelet::new));
    let stage = Stage::start(&lab);
    stage.configure(&nodes(&json!({ "labels": { "tier": "gold" }, "annotations": { "note": "ours" } })));
    stage.settle();
    lab.kubectl(&["label", "node", WORKER, "mine=1"]);
    drop(stage);
    let command = guide::only("sh", "--field-manager sabakan");
    assert!(command.contains("10.0.0.1"), "{command}");
    lab.shell(&command.replace("10.0.0.1", WORKER));
    wait_for("what was ours to be gone", LONG, || (labels(&lab, WORKER) == json!({ "mine": "1" })).then_some(()));
    assert_eq!(annotations(&lab, WORKER)["note"], Value::Null);
}
