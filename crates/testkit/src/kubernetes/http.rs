//! From a request to an answer.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{State, list, nodes, pods};

/// What arrives.
pub struct Asked {
    pub method: String,
    pub path: String,
    pub query: BTreeMap<String, String>,
    pub content_type: String,
    pub body: Vec<u8>,
}

impl Asked {
    /// Whether it is for events instead of a list.
    pub fn is_watch(&self) -> bool {
        self.query.get("watch").is_some_and(|watch| watch == "true")
    }
}

/// What goes back: a status code and a document.
pub type Answer = (u16, Value);

/// What a path names.
enum Target<'a> {
    Nodes,
    Node(&'a str),
    Namespaces,
    Leases,
    Pods,
    Pod(&'a str, &'a str),
    Eviction(&'a str, &'a str),
}

impl Target<'_> {
    fn of(path: &str) -> Option<Target<'_>> {
        if path == "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases" {
            return Some(Target::Leases);
        }
        let parts: Vec<&str> = path.strip_prefix("/api/v1/")?.split('/').collect();
        match parts[..] {
            ["nodes"] => Some(Target::Nodes),
            ["nodes", name] => Some(Target::Node(name)),
            ["namespaces"] => Some(Target::Namespaces),
            ["pods"] => Some(Target::Pods),
            ["namespaces", namespace, "pods", name] => Some(Target::Pod(namespace, name)),
            ["namespaces", namespace, "pods", name, "eviction"] => Some(Target::Eviction(namespace, name)),
            _ => None,
        }
    }

    /// As rights name it.
    fn resource(&self) -> &'static str {
        match self {
            Target::Nodes | Target::Node(_) => "nodes",
            Target::Namespaces => "namespaces",
            Target::Leases => "leases",
            Target::Pods | Target::Pod(..) => "pods",
            Target::Eviction(..) => "pods/eviction",
        }
    }
}

pub fn answer(state: &mut State, asked: &Asked) -> Answer {
    if let Some(code) = state.faults.next.pop_front() {
        return refusal(code, "TestFault", "as the test wants it");
    }
    let Some(target) = Target::of(&asked.path) else {
        return refusal(404, "NotFound", "the server could not find the requested resource");
    };
    let verb = match (asked.method.as_str(), &target) {
        ("GET", Target::Nodes) if asked.is_watch() => "watch",
        ("GET", Target::Nodes | Target::Namespaces | Target::Leases | Target::Pods) => "list",
        ("GET", Target::Node(_) | Target::Pod(..)) => "get",
        ("PATCH", Target::Node(_)) => "patch",
        ("DELETE", Target::Pod(..)) => "delete",
        ("POST", Target::Eviction(..)) => "create",
        _ => return refusal(405, "MethodNotAllowed", "not covered by this double"),
    };
    if let Some(refused) = forbidden(state, verb, &target) {
        return refused;
    }
    state.rights.insert(format!("{verb} {}", target.resource()));
    match target {
        // What becomes of them is told by whoever keeps the connection.
        Target::Nodes if verb == "watch" => (200, Value::Null),
        Target::Nodes => list::nodes(state, &asked.query),
        Target::Leases => list::leases(state, &asked.query),
        Target::Namespaces => list::namespaces(state, &asked.query),
        Target::Pods => list::pods(state, &asked.query),
        Target::Node(name) if verb == "get" => {
            state.nodes.get(name).map_or_else(|| not_found("nodes", name), |node| (200, node.document()))
        }
        Target::Node(name) => nodes::patch(state, name, asked),
        Target::Pod(namespace, name) if verb == "get" => pods::get(state, namespace, name),
        Target::Pod(namespace, name) => pods::delete(state, namespace, name, asked),
        Target::Eviction(namespace, name) => pods::evict(state, namespace, name, asked),
    }
}

fn forbidden(state: &State, verb: &str, target: &Target<'_>) -> Option<Answer> {
    let resource = target.resource();
    let right = format!("{verb} {resource}");
    state.faults.forbidden.iter().find(|forbidden| **forbidden == verb || **forbidden == right)?;
    let place = match target {
        Target::Pod(namespace, _) | Target::Eviction(namespace, _) => format!(r#" in the namespace "{namespace}""#),
        _ => " at the cluster scope".to_owned(),
    };
    let message = format!(
        r#"{resource} is forbidden: User "sabakan" cannot {verb} resource "{resource}" in API group ""{place}"#
    );
    Some(refusal(403, "Forbidden", &message))
}

pub fn refusal(code: u16, reason: &str, message: &str) -> Answer {
    let document = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code,
    });
    (code, document)
}

pub fn not_found(resource: &str, name: &str) -> Answer {
    refusal(404, "NotFound", &format!("{resource} {name:?} not found"))
}

#[cfg(test)]
mod tests {
    use super::{
        super::object::{Fields, Object},
        *,
    };

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
