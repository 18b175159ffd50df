//! What the configuration makes of live Nodes, against a double of an API server.

mod applier;
mod client;
mod drain;
mod live_nodes;
mod whole;

use sabakan_testkit::kubernetes::{Field, Fields};
use serde_json::json;

fn label(key: &str, value: &str) -> (Field, serde_json::Value) {
    (Field::Label(key.to_owned()), json!(value))
}

/// Adds a taint as the node controller does.
fn add_taint(fields: &mut Fields, key: &str) {
    let taints = fields.entry(Field::Spec("taints".to_owned())).or_insert_with(|| json!([]));
    let taint = json!({ "key": key, "effect": "NoExecute", "timeAdded": "2026-01-02T03:04:05Z" });
    taints.as_array_mut().expect("a list").push(taint);
}
