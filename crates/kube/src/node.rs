//! Node objects in JSON: the little we read of one, and what we send. Not the types of `k8s-openapi`: a Node lists every image it
//! holds, and what we write back of others' taints must be what they wrote, down to the form of a time.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use sabakan_domain::{
    cluster::{
        attributes::{REBOOT_ANNOTATION, Step, TAINTS_ANNOTATION},
        live_node::{Applied, LiveNode, LiveTaint, ReadyCondition},
    },
    repair::gone::OUT_OF_SERVICE_ANNOTATION,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::FIELD_MANAGER;

/// A Node, as it is answered.
#[derive(Deserialize)]
pub struct RawNode {
    metadata: RawMeta,
    spec: Option<RawSpec>,
    status: Option<RawStatus>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawMeta {
    name: String,
    uid: String,
    resource_version: String,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
    managed_fields: Option<Vec<RawManager>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawManager {
    #[serde(default)]
    manager: String,
    #[serde(default)]
    operation: String,
    #[serde(default)]
    fields_v1: Value,
}

#[derive(Deserialize, Default)]
struct RawSpec {
    taints: Option<Vec<RawTaint>>,
    unschedulable: Option<bool>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawTaint {
    key: String,
    #[serde(default)]
    value: String,
    effect: String,
    time_added: Option<String>,
}

#[derive(Deserialize)]
struct RawStatus {
    addresses: Option<Vec<RawAddress>>,
    conditions: Option<Vec<RawCondition>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawCondition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    last_transition_time: Option<String>,
}

#[derive(Deserialize)]
struct RawAddress {
    #[serde(rename = "type")]
    kind: String,
    address: String,
}

/// Reads a node.
pub fn read(text: &str) -> Result<LiveNode, serde_json::Error> {
    serde_json::from_str::<RawNode>(text).map(LiveNode::from)
}

impl From<RawNode> for LiveNode {
    fn from(raw: RawNode) -> LiveNode {
        let RawMeta { name, uid, resource_version, labels, annotations, managed_fields } = raw.metadata;
        let RawSpec { taints, unschedulable } = raw.spec.unwrap_or_default();
        let (addresses, conditions) =
            raw.status.map(|status| (status.addresses, status.conditions)).unwrap_or_default();
        let (addresses, conditions) = (addresses.unwrap_or_default(), conditions.unwrap_or_default());
        let annotations = annotations.unwrap_or_default();
        let inside = addresses.iter().filter(|address| address.kind == "InternalIP");
        LiveNode {
            name,
            uid,
            resource_version,
            addresses: inside.filter_map(|address| address.address.parse().ok()).collect(),
            labels: labels.unwrap_or_default(),
            applied: applied(&managed_fields.unwrap_or_default(), &annotations),
            annotations,
            taints: taints.unwrap_or_default().into_iter().map(taint).collect(),
            cordoned: unschedulable.unwrap_or(false),
            ready: conditions.into_iter().find(|condition| condition.kind == "Ready").map(ready),
        }
    }
}

fn taint(raw: RawTaint) -> LiveTaint {
    let RawTaint { key, value, effect, time_added } = raw;
    LiveTaint { key, value, effect, time_added }
}

fn ready(raw: RawCondition) -> ReadyCondition {
    let since = raw.last_transition_time.and_then(|text| text.parse::<Timestamp>().ok());
    ReadyCondition { status: raw.status, since }
}

/// What our last apply owns. In `fieldsV1` every member is the name of a field behind `f:`.
fn applied(managers: &[RawManager], annotations: &BTreeMap<String, String>) -> Applied {
    let ours = |manager: &&RawManager| manager.manager == FIELD_MANAGER && manager.operation == "Apply";
    let keys = |field: &str| -> BTreeSet<String> {
        let owned =
            managers.iter().filter(ours).filter_map(|manager| manager.fields_v1["f:metadata"][field].as_object());
        owned.flat_map(Map::keys).filter_map(|key| key.strip_prefix("f:")).map(str::to_owned).collect()
    };
    let taints = annotations.get(TAINTS_ANNOTATION).map(String::as_str).unwrap_or_default();
    let taints = taints.split(',').filter(|key| !key.is_empty()).map(str::to_owned).collect();
    Applied { labels: keys("f:labels"), annotations: keys("f:annotations"), taints }
}

/// What keeps new pods away from a Node and marks that as ours, or undoes both. One document, so that nobody sees one without the other.
pub fn cordon_document(is_on: bool) -> Value {
    let (mark, unschedulable) = if is_on { (json!("true"), json!(true)) } else { (Value::Null, Value::Null) };
    json!({ "metadata": { "annotations": { (REBOOT_ANNOTATION): mark } }, "spec": { "unschedulable": unschedulable } })
}

/// The document of a step.
pub fn document(node: &LiveNode, step: &Step) -> Value {
    // With the UID a Node that is gone is not created again, and one that took its name is left alone.
    let mut metadata = Map::from_iter([("uid".to_owned(), json!(node.uid))]);
    match step {
        // Taints are one list to Kubernetes: those that somebody else added since we read it would be lost.
        Step::Taints { list, ours } => {
            metadata.insert("name".to_owned(), json!(node.name));
            metadata.insert("resourceVersion".to_owned(), json!(node.resource_version));
            if !ours.is_empty() {
                let ours = ours.iter().map(String::as_str).collect::<Vec<_>>().join(",");
                metadata.insert("annotations".to_owned(), json!({ (TAINTS_ANNOTATION): ours }));
            }
            json!({ "apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": { "taints": taints_document(list) } })
        }
        Step::OutOfService { list, is_on } => {
            metadata.insert("resourceVersion".to_owned(), json!(node.resource_version));
            let mark = if *is_on { json!("true") } else { Value::Null };
            metadata.insert("annotations".to_owned(), json!({ (OUT_OF_SERVICE_ANNOTATION): mark }));
            json!({ "metadata": metadata, "spec": { "taints": taints_document(list) } })
        }
        Step::Apply { labels, annotations } => {
            metadata.insert("name".to_owned(), json!(node.name));
            // An empty map would be applied too, as a field of its own.
            for (field, values) in [("labels", labels), ("annotations", annotations)] {
                if !values.is_empty() {
                    metadata.insert(field.to_owned(), json!(values));
                }
            }
            json!({ "apiVersion": "v1", "kind": "Node", "metadata": metadata })
        }
        Step::Remove { labels, annotations } => {
            let nulls =
                |keys: &BTreeSet<String>| keys.iter().map(|key| (key.clone(), Value::Null)).collect::<Map<_, _>>();
            metadata.insert("labels".to_owned(), Value::Object(nulls(labels)));
            metadata.insert("annotations".to_owned(), Value::Object(nulls(annotations)));
            json!({ "metadata": metadata })
        }
    }
}

fn taints_document(list: &[LiveTaint]) -> Value {
    list.iter().map(taint_document).collect()
}

fn taint_document(taint: &LiveTaint) -> Value {
    let mut document =
        Map::from_iter([("key".to_owned(), json!(taint.key)), ("effect".to_owned(), json!(taint.effect))]);
    if !taint.value.is_empty() {
        document.insert("value".to_owned(), json!(taint.value));
    }
    if let Some(time) = &taint.time_added {
        document.insert("timeAdded".to_owned(), json!(time));
    }
    Value::Object(document)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node() -> Value {
        json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {
                "name": "10.0.0.1", "uid": "u", "resourceVersion": "7",
                "labels": { "a": "1" }, "annotations": { "n": "2", "sabakan.cybozu.com/taints": "gpu,k" },
                "managedFields": [
                    { "manager": "sabakan", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {
                        "f:metadata": {
                            "f:labels": { ".": {}, "f:a": {}, "f:example.com/f:b": {} },
                            "f:annotations": { "f:n": {} },
                        },
                    }},
                    { "manager": "sabakan", "operation": "Update", "fieldsV1": { "f:metadata": { "f:labels": { "f:u": {} } } } },
                    { "manager": "sabakan-taints", "operation": "Apply", "fieldsV1": { "f:spec": { "f:taints": {} } } },
                    { "manager": "kubelet", "operation": "Apply", "fieldsV1": { "f:metadata": { "f:labels": { "f:k": {} } } } },
                    { "manager": "sabakan", "operation": "Apply" },
                ],
            },
            "spec": { "unschedulable": true, "taints": [
                { "key": "node.kubernetes.io/not-ready", "effect": "NoExecute", "timeAdded": "2026-01-02T03:04:05Z" },
                { "key": "k", "value": "v", "effect": "NoSchedule", "ofTheFuture": 1 },
            ]},
            "status": {
                "addresses": [
                    { "type": "InternalIP", "address": "10.0.0.1" },
                    { "type": "Hostname", "address": "10.0.0.2" },
                    { "type": "ExternalIP", "address": "192.0.2.1" },
                    { "type": "InternalIP", "address": "no address" },
                    { "type": "InternalIP", "address": "fd00::1" },
                ],
                "images": [{ "names": ["x"] }],
                "conditions": [
                    { "type": "MemoryPressure", "status": "False" },
                    { "type": "Ready", "status": "Unknown", "lastTransitionTime": "2026-01-02T03:04:05Z", "reason": "NodeStatusUnknown" },
                ],
            },
        })
    }

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn set(keys: &[&str]) -> BTreeSet<String> {
        keys.iter().map(|key| (*key).to_owned()).collect()
    }

    fn taints() -> Vec<LiveTaint> {
        let taint = |key: &str, value: &str, effect: &str, time: Option<&str>| LiveTaint {
            key: key.to_owned(),
            value: value.to_owned(),
            effect: effect.to_owned(),
            time_added: time.map(str::to_owned),
        };
        vec![
            taint("node.kubernetes.io/not-ready", "", "NoExecute", Some("2026-01-02T03:04:05Z")),
            taint("k", "v", "NoSchedule", None),
        ]
    }

    #[test]
    fn a_node_is_read() {
        let expected = LiveNode {
            name: "10.0.0.1".to_owned(),
            uid: "u".to_owned(),
            resource_version: "7".to_owned(),
            addresses: vec!["10.0.0.1".parse().unwrap(), "fd00::1".parse().unwrap()],
            labels: map(&[("a", "1")]),
            annotations: map(&[("n", "2"), ("sabakan.cybozu.com/taints", "gpu,k")]),
            taints: taints(),
            cordoned: true,
            ready: Some(ReadyCondition { status: "Unknown".to_owned(), since: "2026-01-02T03:04:05Z".parse().ok() }),
            applied: Applied {
                labels: set(&["a", "example.com/f:b"]),
                annotations: set(&["n"]),
                taints: set(&["gpu", "k"]),
            },
        };
        assert_eq!(read(&node().to_string()).unwrap(), expected);
    }

    #[test]
    fn a_bare_node_is_read() {
        let bare = json!({ "metadata": { "name": "x", "uid": "u", "resourceVersion": "1" }, "spec": {}, "status": {} });
        let expected = LiveNode {
            name: "x".to_owned(),
            uid: "u".to_owned(),
            resource_version: "1".to_owned(),
            ..LiveNode::default()
        };
        assert_eq!(read(&bare.to_string()).unwrap(), expected);
        assert!(read("{}").is_err());
        assert!(read(r#"{"metadata":{"name":"x"}}"#).is_err(), "without a UID nothing can be written safely");
    }

    #[test]
    fn only_taints_depend_on_the_version_read_and_everything_on_the_node_read() {
        let live = read(&node().to_string()).unwrap();
        let none = BTreeMap::new();
        for (step, expected) in [
            (
                Step::Taints { list: taints(), ours: set(&["k", "l"]) },
                json!({
                    "apiVersion": "v1", "kind": "Node",
                    "metadata": {
                        "name": "10.0.0.1", "uid": "u", "resourceVersion": "7",
                        "annotations": { "sabakan.cybozu.com/taints": "k,l" },
                    },
                    "spec": { "taints": [
                        { "key": "node.kubernetes.io/not-ready", "effect": "NoExecute", "timeAdded": "2026-01-02T03:04:05Z" },
                        { "key": "k", "value": "v", "effect": "NoSchedule" },
                    ]},
                }),
            ),
            (
                Step::Taints { list: Vec::new(), ours: set(&[]) },
                json!({
                    "apiVersion": "v1", "kind": "Node",
                    "metadata": { "name": "10.0.0.1", "uid": "u", "resourceVersion": "7" },
                    "spec": { "taints": [] },
                }),
            ),
            (
                Step::OutOfService { list: taints(), is_on: true },
                json!({
                    "metadata": {
                        "uid": "u", "resourceVersion": "7",
                        "annotations": { "sabakan.cybozu.com/out-of-service": "true" },
                    },
                    "spec": { "taints": [
                        { "key": "node.kubernetes.io/not-ready", "effect": "NoExecute", "timeAdded": "2026-01-02T03:04:05Z" },
                        { "key": "k", "value": "v", "effect": "NoSchedule" },
                    ]},
                }),
            ),
            (
                Step::OutOfService { list: Vec::new(), is_on: false },
                json!({
                    "metadata": {
                        "uid": "u", "resourceVersion": "7",
                        "annotations": { "sabakan.cybozu.com/out-of-service": null },
                    },
                    "spec": { "taints": [] },
                }),
            ),
            (
                Step::Apply { labels: map(&[("a", "2")]), annotations: none.clone() },
                json!({
                    "apiVersion": "v1", "kind": "Node",
                    "metadata": { "name": "10.0.0.1", "uid": "u", "labels": { "a": "2" } },
                }),
            ),
            (
                Step::Apply { labels: none.clone(), annotations: none },
                json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "10.0.0.1", "uid": "u" } }),
            ),
            (
                Step::Remove { labels: set(&["a"]), annotations: set(&[]) },
                json!({ "metadata": { "uid": "u", "labels": { "a": null }, "annotations": {} } }),
            ),
        ] {
            assert_eq!(document(&live, &step), expected);
        }
    }
}
