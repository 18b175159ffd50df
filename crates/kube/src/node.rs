//! Node objects in JSON: the little we read of one, and what we send. Not the types of `k8s-openapi`: a Node lists every image it
//! holds, and what we write back of others' taints must be what they wrote, down to the form of a time.

use std::collections::{BTreeMap, BTreeSet};

use sabakan_domain::cluster::attributes::{Applied, LiveNode, LiveTaint, REBOOT_ANNOTATION, Step};
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
        let addresses = raw.status.and_then(|status| status.addresses).unwrap_or_default();
        let inside = addresses.iter().filter(|address| address.kind == "InternalIP");
        LiveNode {
            name,
            uid,
            resource_version,
            addresses: inside.filter_map(|address| address.address.parse().ok()).collect(),
            labels: labels.unwrap_or_default(),
            annotations: annotations.unwrap_or_default(),
            taints: taints.unwrap_or_default().into_iter().map(taint).collect(),
            cordoned: unschedulable.unwrap_or(false),
            applied: applied(&managed_fields.unwrap_or_default()),
        }
    }
}

fn taint(raw: RawTaint) -> LiveTaint {
    let RawTaint { key, value, effect, time_added } = raw;
    LiveTaint { key, value, effect, time_added }
}

/// What our last apply owns. In `fieldsV1` every member is the name of a field behind `f:`.
fn applied(managers: &[RawManager]) -> Applied {
    let ours = |manager: &&RawManager| manager.manager == FIELD_MANAGER && manager.operation == "Apply";
    let keys = |field: &str| -> BTreeSet<String> {
        let owned =
            managers.iter().filter(ours).filter_map(|manager| manager.fields_v1["f:metadata"][field].as_object());
        owned.flat_map(Map::keys).filter_map(|key| key.strip_prefix("f:")).map(str::to_owned).collect()
    };
    Applied { labels: keys("f:labels"), annotations: keys("f:annotations") }
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
        Step::Taints(taints) => {
            // Taints are one list to Kubernetes: those that somebody else added since we read it would be lost.
            metadata.insert("name".to_owned(), json!(node.name));
            metadata.insert("resourceVersion".to_owned(), json!(node.resource_version));
            let taints: Vec<Value> = taints.iter().map(taint_document).collect();
            json!({ "apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": { "taints": taints } })
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
                "labels": { "a": "1" }, "annotations": { "n": "2" },
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
            annotations: map(&[("n", "2")]),
            taints: taints(),
            cordoned: true,
            applied: Applied { labels: set(&["a", "example.com/f:b"]), annotations: set(&["n"]) },
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
                Step::Taints(taints()),
                json!({
                    "apiVersion": "v1", "kind": "Node",
                    "metadata": { "name": "10.0.0.1", "uid": "u", "resourceVersion": "7" },
                    "spec": { "taints": [
                        { "key": "node.kubernetes.io/not-ready", "effect": "NoExecute", "timeAdded": "2026-01-02T03:04:05Z" },
                        { "key": "k", "value": "v", "effect": "NoSchedule" },
                    ]},
                }),
            ),
            (
                Step::Taints(Vec::new()),
                json!({
                    "apiVersion": "v1", "kind": "Node",
                    "metadata": { "name": "10.0.0.1", "uid": "u", "resourceVersion": "7" },
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
