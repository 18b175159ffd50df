//! Writes to Nodes.

use serde_json::{Value, json};

use super::{
    State,
    http::{Answer, Asked, not_found, refusal},
    object::{Conflict, Field, Fields, Object, fields},
};

pub fn patch(state: &mut State, name: &str, asked: &Asked) -> Answer {
    let manager = asked.query.get("fieldManager").map_or("", String::as_str);
    state.writes.push(format!("{} {name} {manager}", asked.content_type));
    if state.faults.interfering > 0 {
        state.faults.interfering -= 1;
        interfere(state, name);
    }
    let Ok(document) = serde_json::from_slice::<Value>(&asked.body) else {
        return refusal(400, "BadRequest", "the body is not JSON, which is all of YAML this double reads");
    };
    let given = match fields(&document) {
        Ok(given) => given,
        Err(reason) => return refusal(501, "NotCovered", &reason),
    };
    let uid = document["metadata"]["uid"].as_str();
    let Some(node) = state.nodes.get(name) else {
        return match (asked.content_type.as_str(), uid) {
            ("application/apply-patch+yaml", None) => create(state, name, manager, given),
            ("application/apply-patch+yaml", Some(_)) => {
                refusal(409, "Conflict", "uid mismatch: no existing object was found")
            }
            _ => not_found("nodes", name),
        };
    };
    if uid.is_some_and(|uid| uid != node.uid) {
        return refusal(422, "Invalid", "metadata.uid: Invalid value: field is immutable");
    }
    let version = document["metadata"]["resourceVersion"].as_str();
    if version.is_some_and(|version| version != node.version.to_string()) {
        let message = "the object has been modified; please apply your changes to the latest version and try again";
        return refusal(409, "Conflict", message);
    }
    let mut changed = node.clone();
    let is_changed = match asked.content_type.as_str() {
        "application/apply-patch+yaml" => {
            if manager.is_empty() {
                return refusal(400, "BadRequest", "fieldManager is required for apply patch");
            }
            let force = asked.query.get("force").is_some_and(|force| force == "true");
            match changed.apply(manager, given, force) {
                Ok(is_changed) => is_changed,
                Err(conflicts) => return conflict(&conflicts),
            }
        }
        "application/merge-patch+json" => changed.update(manager, merged(&node.fields, given)),
        _ => return refusal(415, "UnsupportedMediaType", "this kind of patch is not covered by this double"),
    };
    if let Some(reason) = invalid(&changed.fields) {
        return refusal(422, "Invalid", &reason);
    }
    let was_cordoned = node.is_cordoned();
    if is_changed {
        changed.version = state.tick();
    }
    match (was_cordoned, changed.is_cordoned()) {
        (false, true) => state.drains.push(format!("cordon {name}")),
        (true, false) => state.drains.push(format!("uncordon {name}")),
        _ => {}
    }
    let answer = (200, changed.document());
    state.nodes.insert(name.to_owned(), changed);
    answer
}

/// What a merge patch makes of an object: `null` removes.
fn merged(before: &Fields, given: Fields) -> Fields {
    let mut merged = before.clone();
    for (field, value) in given {
        if value.is_null() {
            merged.remove(&field)
        } else {
            merged.insert(field, value)
        };
    }
    merged
}

/// Applying to what does not exist creates it, which is what nobody here wants to see.
fn create(state: &mut State, name: &str, manager: &str, given: Fields) -> Answer {
    let version = state.tick();
    let mut node = Object::registered(name, format!("uid-{version}"), version, Fields::new());
    node.managers.clear();
    if let Err(conflicts) = node.apply(manager, given, false) {
        return conflict(&conflicts);
    }
    let answer = (201, node.document());
    state.nodes.insert(name.to_owned(), node);
    answer
}

fn conflict(conflicts: &[Conflict]) -> Answer {
    let causes: Vec<Value> = conflicts
        .iter()
        .map(|conflict| {
            json!({
                "reason": "FieldManagerConflict",
                "message": format!("conflict with {:?} using v1", conflict.manager),
                "field": conflict.field.path(),
            })
        })
        .collect();
    let named: Vec<String> = conflicts
        .iter()
        .map(|conflict| format!("conflict with {:?}: {}", conflict.manager, conflict.field.path()))
        .collect();
    let message = format!("Apply failed with {} conflicts: {}", conflicts.len(), named.join(", "));
    let (code, mut document) = refusal(409, "Conflict", &message);
    document["details"] = json!({ "causes": causes });
    (code, document)
}

/// The node controller finds that a kubelet has gone quiet, or is back.
fn interfere(state: &mut State, name: &str) {
    let version = state.tick();
    let Some(node) = state.nodes.get_mut(name) else { return };
    let mut fields = node.fields.clone();
    let taints = fields.entry(Field::Spec("taints".to_owned())).or_insert_with(|| json!([]));
    let list = taints.as_array_mut().expect("taints are a list");
    list.push(json!({ "key": format!("node.kubernetes.io/seen-{version}"), "effect": "NoSchedule" }));
    node.update("kube-controller-manager", fields);
    node.version = version;
}

/// What the server would not store.
fn invalid(fields: &Fields) -> Option<String> {
    for (field, value) in fields {
        match field {
            Field::Label(key) => {
                let text = value.as_str()?;
                let is_word = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
                if text.len() > 63 || !text.chars().all(is_word) {
                    return Some(format!("metadata.labels: Invalid value: {text:?} of {key}"));
                }
            }
            Field::Spec(name) if name == "taints" => {
                let list = value.as_array().into_iter().flatten();
                let mut seen = std::collections::BTreeSet::new();
                for taint in list {
                    let (key, effect) = (taint["key"].as_str()?, taint["effect"].as_str()?);
                    if !["NoSchedule", "PreferNoSchedule", "NoExecute"].contains(&effect) {
                        return Some(format!("spec.taints: Unsupported value: {effect:?}"));
                    }
                    if !seen.insert((key, effect)) {
                        return Some(format!("spec.taints: Duplicate value: {key}:{effect}"));
                    }
                }
            }
            Field::Annotation(_) | Field::Spec(_) => {}
        }
    }
    None
}
