//! Pods and namespaces in JSON: the little we read of one, and what we send to make a pod leave.

use std::collections::BTreeMap;

use sabakan_domain::repair::drain::LivePod;
use serde::Deserialize;
use serde_json::{Value, json};

/// A pod, as it is answered.
#[derive(Deserialize)]
pub struct RawPod {
    metadata: RawMeta,
    status: Option<RawStatus>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawMeta {
    namespace: String,
    name: String,
    uid: String,
    labels: Option<BTreeMap<String, String>>,
    owner_references: Option<Vec<RawOwner>>,
    deletion_timestamp: Option<String>,
}

#[derive(Deserialize)]
struct RawOwner {
    kind: String,
    controller: Option<bool>,
}

#[derive(Deserialize)]
struct RawStatus {
    phase: Option<String>,
}

/// A namespace, as it is answered.
#[derive(Deserialize)]
pub struct RawNamespace {
    metadata: RawNamespaceMeta,
}

#[derive(Deserialize)]
struct RawNamespaceMeta {
    name: String,
}

impl RawNamespace {
    pub fn name(self) -> String {
        self.metadata.name
    }
}

impl From<RawPod> for LivePod {
    fn from(raw: RawPod) -> LivePod {
        let RawMeta { namespace, name, uid, labels, owner_references, deletion_timestamp } = raw.metadata;
        let mut owners = owner_references.unwrap_or_default().into_iter();
        LivePod {
            namespace,
            name,
            uid,
            // Others may be named too, so that the pod goes with them; they do not make another in its place.
            owner: owners.find(|owner| owner.controller == Some(true)).map(|owner| owner.kind),
            phase: raw.status.and_then(|status| status.phase).unwrap_or_default(),
            labels: labels.unwrap_or_default(),
            terminating: deletion_timestamp.is_some(),
        }
    }
}

/// Reads a pod.
pub fn read(text: &str) -> Result<LivePod, serde_json::Error> {
    serde_json::from_str::<RawPod>(text).map(LivePod::from)
}

/// What is sent to evict a pod. Its UID is a condition: the next pod of a stateful set has the same name.
pub fn eviction(pod: &LivePod, dry_run: bool) -> Value {
    let mut options = json!({ "preconditions": { "uid": pod.uid } });
    if dry_run {
        options["dryRun"] = json!(["All"]);
    }
    json!({
        "apiVersion": "policy/v1", "kind": "Eviction",
        "metadata": { "namespace": pod.namespace, "name": pod.name },
        "deleteOptions": options,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_is_read() {
        let document = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "namespace": "prod", "name": "db-0", "uid": "u", "resourceVersion": "7", "labels": { "app": "db" },
                "ownerReferences": [
                    { "apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "x" },
                    { "apiVersion": "v1", "kind": "Secret", "name": "s", "uid": "y", "controller": false },
                    { "apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "z", "controller": true },
                ],
                "deletionTimestamp": "2026-01-02T03:04:05Z", "deletionGracePeriodSeconds": 30,
            },
            "spec": { "nodeName": "10.0.0.1" },
            "status": { "phase": "Running", "reason": "NodeLost" },
        });
        let expected = LivePod {
            namespace: "prod".to_owned(),
            name: "db-0".to_owned(),
            uid: "u".to_owned(),
            owner: Some("StatefulSet".to_owned()),
            phase: "Running".to_owned(),
            labels: [("app".to_owned(), "db".to_owned())].into(),
            terminating: true,
        };
        assert_eq!(read(&document.to_string()).unwrap(), expected);
    }

    #[test]
    fn a_bare_pod_is_read() {
        let bare = json!({ "metadata": { "namespace": "n", "name": "x", "uid": "u" }, "spec": {}, "status": {} });
        let expected =
            LivePod { namespace: "n".to_owned(), name: "x".to_owned(), uid: "u".to_owned(), ..LivePod::default() };
        assert_eq!(read(&bare.to_string()).unwrap(), expected);
        assert!(read(r#"{"metadata":{"name":"x","namespace":"n"}}"#).is_err(), "without a UID none may be deleted");
    }

    #[test]
    fn a_dry_run_says_so_where_the_deletion_is_described() {
        let pod = LivePod {
            namespace: "prod".to_owned(),
            name: "db-0".to_owned(),
            uid: "u".to_owned(),
            ..LivePod::default()
        };
        let document = |options: Value| {
            json!({
                "apiVersion": "policy/v1", "kind": "Eviction", "metadata": { "namespace": "prod", "name": "db-0" },
                "deleteOptions": options,
            })
        };
        assert_eq!(eviction(&pod, false), document(json!({ "preconditions": { "uid": "u" } })));
        assert_eq!(eviction(&pod, true), document(json!({ "preconditions": { "uid": "u" }, "dryRun": ["All"] })));
    }
}
