//! From a request to an answer.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{
    State,
    object::{Field, Fields, Object, fields},
};

/// What arrives.
pub struct Asked {
    pub method: String,
    pub path: String,
    pub query: BTreeMap<String, String>,
    pub content_type: String,
    pub body: Vec<u8>,
}

/// What goes back: a status code and a document.
pub type Answer = (u16, Value);

/// Nodes of one page where none is asked for: all.
const NO_LIMIT: usize = usize::MAX;

pub fn answer(state: &mut State, asked: &Asked) -> Answer {
    if let Some(code) = state.faults.next.pop_front() {
        return refusal(code, "TestFault", "as the test wants it");
    }
    let verb = match (asked.method.as_str(), asked.path.as_str()) {
        ("GET", "/api/v1/nodes") => "list",
        ("GET", _) => "get",
        ("PATCH", _) => "patch",
        _ => return refusal(405, "MethodNotAllowed", "not covered by this double"),
    };
    if state.faults.forbidden.contains(verb) {
        let message = format!(r#"nodes is forbidden: User "sabakan" cannot {verb} resource "nodes" in API group """#);
        return refusal(403, "Forbidden", &message);
    }
    match (verb, asked.path.strip_prefix("/api/v1/nodes/")) {
        ("list", _) => list(state, &asked.query),
        ("get", Some(name)) => state.nodes.get(name).map_or_else(|| not_found(name), |node| (200, node.document())),
        ("patch", Some(name)) => patch(state, name, asked),
        // Pods and evictions belong here.
        _ => refusal(404, "NotFound", "the server could not find the requested resource"),
    }
}

pub fn refusal(code: u16, reason: &str, message: &str) -> Answer {
    let document = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code,
    });
    (code, document)
}

fn not_found(name: &str) -> Answer {
    refusal(404, "NotFound", &format!("nodes {name:?} not found"))
}

/// A page. The token for the next one holds the name of the last Node, behind something that tells it from a name.
fn list(state: &mut State, query: &BTreeMap<String, String>) -> Answer {
    let limit = query.get("limit").and_then(|limit| limit.parse().ok()).filter(|limit| *limit > 0).unwrap_or(NO_LIMIT);
    let after = match query.get("continue").map(|token| token.strip_prefix("after:")) {
        Some(Some(_)) if state.faults.expired_pages > 0 => {
            state.faults.expired_pages -= 1;
            return refusal(410, "Expired", "The provided continue parameter is too old");
        }
        Some(Some(name)) => Some(name.to_owned()),
        Some(None) => return refusal(400, "BadRequest", "continue key is not valid"),
        None => None,
    };
    let rest: Vec<&Object> =
        state.nodes.values().filter(|node| after.as_ref().is_none_or(|after| node.name > *after)).collect();
    let page = &rest[..rest.len().min(limit)];
    let mut metadata = json!({ "resourceVersion": state.version.to_string() });
    if let (Some(last), true) = (page.last(), page.len() < rest.len()) {
        metadata["continue"] = json!(format!("after:{}", last.name));
        metadata["remainingItemCount"] = json!(rest.len() - page.len());
    }
    let items: Vec<Value> = page.iter().map(|node| node.document()).collect();
    (200, json!({ "kind": "NodeList", "apiVersion": "v1", "metadata": metadata, "items": items }))
}

fn patch(state: &mut State, name: &str, asked: &Asked) -> Answer {
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
            _ => not_found(name),
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
        "application/merge-patch+json" => {
            let mut merged = node.fields.clone();
            for (field, value) in given {
                if value.is_null() {
                    merged.remove(&field)
                } else {
                    merged.insert(field, value)
                };
            }
            changed.update(manager, merged)
        }
        _ => return refusal(415, "UnsupportedMediaType", "this kind of patch is not covered by this double"),
    };
    if let Some(reason) = invalid(&changed.fields) {
        return refusal(422, "Invalid", &reason);
    }
    if is_changed {
        changed.version = state.tick();
    }
    let answer = (200, changed.document());
    state.nodes.insert(name.to_owned(), changed);
    answer
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

fn conflict(conflicts: &[super::Conflict]) -> Answer {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn with_nodes(names: &[&str]) -> State {
        let mut state = State::default();
        for name in names {
            let version = state.tick();
            let node = Object::registered(name, format!("uid-{version}"), version, Fields::new());
            state.nodes.insert((*name).to_owned(), node);
        }
        state
    }

    fn ask(state: &mut State, method: &str, path: &str, content_type: &str, body: &Value) -> Answer {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let pair = |pair: &str| pair.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()));
        let asked = Asked {
            method: method.to_owned(),
            path: path.to_owned(),
            query: query.split('&').filter_map(pair).collect(),
            content_type: content_type.to_owned(),
            body: body.to_string().into_bytes(),
        };
        answer(state, &asked)
    }

    fn apply(state: &mut State, path: &str, body: &Value) -> Answer {
        ask(state, "PATCH", &format!("/api/v1/nodes/{path}"), "application/apply-patch+yaml", body)
    }

    fn names(answer: &Answer) -> Vec<&str> {
        answer.1["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].as_str().unwrap()).collect()
    }

    #[test]
    fn pages() {
        let mut state = with_nodes(&["a", "b", "c"]);
        let get =
            |state: &mut State, query: &str| ask(state, "GET", &format!("/api/v1/nodes?{query}"), "", &Value::Null);
        let first = get(&mut state, "limit=2");
        assert_eq!(names(&first), ["a", "b"]);
        assert_eq!(first.1["metadata"]["remainingItemCount"], 1);
        let second = get(&mut state, "limit=2&continue=after:b");
        assert_eq!(names(&second), ["c"]);
        assert_eq!(second.1["metadata"]["continue"], Value::Null);
        assert_eq!(names(&get(&mut state, "")), ["a", "b", "c"]);
        state.faults.expired_pages = 1;
        assert_eq!(get(&mut state, "continue=after:b").0, 410);
        assert_eq!(get(&mut state, "continue=x").0, 400);
    }

    #[test]
    fn versions_and_uids_are_compared() {
        let mut state = with_nodes(&["a"]);
        let document = |metadata: Value| json!({ "metadata": metadata, "spec": { "unschedulable": true } });
        let path = "a?fieldManager=me";
        assert_eq!(apply(&mut state, path, &document(json!({ "resourceVersion": "7" }))).0, 409);
        assert_eq!(apply(&mut state, path, &document(json!({ "uid": "x" }))).0, 422);
        assert_eq!(apply(&mut state, path, &document(json!({ "resourceVersion": "1", "uid": "uid-1" }))).0, 200);
        assert_eq!(state.nodes["a"].version, 2);
        assert_eq!(apply(&mut state, path, &document(json!({}))).0, 200);
        assert_eq!(state.nodes["a"].version, 2, "nothing changed");
    }

    #[test]
    fn applying_to_nothing_creates_unless_a_uid_says_what_is_meant() {
        let mut state = with_nodes(&[]);
        let labelled = json!({ "metadata": { "labels": { "a": "1" } } });
        let with_uid = json!({ "metadata": { "uid": "u", "labels": { "a": "1" } } });
        assert_eq!(apply(&mut state, "a?fieldManager=me", &with_uid).0, 409);
        assert_eq!(apply(&mut state, "a?fieldManager=me", &labelled).0, 201);
        let merge = ask(&mut state, "PATCH", "/api/v1/nodes/b", "application/merge-patch+json", &labelled);
        assert_eq!(merge.0, 404);
    }

    #[test]
    fn conflicts_name_the_other_manager() {
        let mut state = with_nodes(&["a"]);
        let value = |value: &str| json!({ "metadata": { "labels": { "k": value } } });
        assert_eq!(apply(&mut state, "a?fieldManager=you", &value("1")).0, 200);
        let (code, refused) = apply(&mut state, "a?fieldManager=me", &value("2"));
        assert_eq!(code, 409);
        assert_eq!(refused["details"]["causes"][0]["message"], r#"conflict with "you" using v1"#);
        assert_eq!(refused["details"]["causes"][0]["field"], ".metadata.labels.k");
        assert_eq!(apply(&mut state, "a?fieldManager=me&force=true", &value("2")).0, 200);
        assert_eq!(apply(&mut state, "a", &value("2")).0, 400, "a manager is required");
    }

    #[test]
    fn merge_patches_remove_what_is_null_and_leave_the_rest() {
        let mut state = with_nodes(&["a"]);
        let labels = json!({ "metadata": { "labels": { "a": "1", "b": "1" } } });
        apply(&mut state, "a?fieldManager=you", &labels);
        let merge = json!({ "metadata": { "labels": { "a": null, "none": null } } });
        let path = "/api/v1/nodes/a?fieldManager=me";
        let (code, node) = ask(&mut state, "PATCH", path, "application/merge-patch+json", &merge);
        assert_eq!((code, &node["metadata"]["labels"]), (200, &json!({ "b": "1" })));
        let other = ask(&mut state, "PATCH", path, "application/strategic-merge-patch+json", &merge);
        assert_eq!(other.0, 415);
    }

    #[test]
    fn nonsense_is_refused() {
        let mut state = with_nodes(&["a"]);
        let taint = json!({ "key": "k", "effect": "NoSchedule" });
        for document in [
            json!({ "metadata": { "labels": { "k": "not a value" } } }),
            json!({ "spec": { "taints": [taint, taint] } }),
            json!({ "spec": { "taints": [{ "key": "k", "effect": "Never" }] } }),
        ] {
            assert_eq!(apply(&mut state, "a?fieldManager=me", &document).0, 422, "{document}");
        }
        assert_eq!(apply(&mut state, "a?fieldManager=me", &json!({ "status": {} })).0, 501);
        assert_eq!(state.nodes["a"].version, 1);
        state.faults.forbidden.insert("patch");
        assert_eq!(apply(&mut state, "a?fieldManager=me", &json!({})).0, 403);
        assert_eq!(ask(&mut state, "DELETE", "/api/v1/nodes/a", "", &Value::Null).0, 405);
    }
}
