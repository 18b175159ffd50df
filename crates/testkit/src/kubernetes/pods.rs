//! Pods, and how they leave: the rules of eviction and deletion, with budgets that say what the test wants.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{
    State,
    http::{Answer, Asked, not_found, refusal},
};

/// What the disruption budget of a pod says when it is to be evicted. Asked for pods that run and were not told to go.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Budget {
    /// Yes.
    #[default]
    Allows,
    /// No to the next so many evictions, and yes to every dry run: as where pods of one budget leave one after another.
    RefusesNext(usize),
    /// No, also to a dry run.
    Refuses,
}

/// A pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pod {
    /// Where it belongs.
    pub namespace: String,
    /// Its name there.
    pub name: String,
    /// Tells it from others of that name. Given when it is added.
    pub uid: String,
    /// The Node it is on.
    pub node: String,
    /// The kind of its controlling owner.
    pub owner: Option<String>,
    /// `Running` unless said otherwise.
    pub phase: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// What its disruption budget says.
    pub budget: Budget,
    /// When told to go it stays until [`super::KubernetesDouble::end_pod`]; otherwise it goes at once.
    pub lingers: bool,
    /// It was told to go.
    pub is_terminating: bool,
}

impl Pod {
    /// A running pod of a replica set.
    pub fn new(namespace: &str, name: &str, node: &str) -> Pod {
        Pod {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            uid: String::new(),
            node: node.to_owned(),
            owner: Some("ReplicaSet".to_owned()),
            phase: "Running".to_owned(),
            labels: BTreeMap::new(),
            budget: Budget::Allows,
            lingers: false,
            is_terminating: false,
        }
    }

    /// The same, controlled by an owner of this kind.
    pub fn owned_by(self, kind: &str) -> Pod {
        Pod { owner: Some(kind.to_owned()), ..self }
    }

    /// The same in this phase.
    pub fn in_phase(self, phase: &str) -> Pod {
        Pod { phase: phase.to_owned(), ..self }
    }

    /// The same with one more label.
    pub fn labelled(mut self, key: &str, value: &str) -> Pod {
        self.labels.insert(key.to_owned(), value.to_owned());
        self
    }

    /// The same with this budget.
    pub fn with_budget(self, budget: Budget) -> Pod {
        Pod { budget, ..self }
    }

    /// The same, and it takes its time to go.
    pub fn lingering(self) -> Pod {
        Pod { lingers: true, ..self }
    }

    /// Its key: namespace and name.
    pub fn key(&self) -> String {
        key(&self.namespace, &self.name)
    }

    /// As the server answers it.
    pub fn document(&self) -> Value {
        let Pod { namespace, name, uid, node, owner, phase, labels, .. } = self;
        let mut metadata = json!({ "namespace": namespace, "name": name, "uid": uid, "labels": labels });
        if let Some(kind) = owner {
            let owner = json!({
                "apiVersion": "apps/v1", "kind": kind, "name": "owner", "uid": "uid-of-owner", "controller": true,
            });
            metadata["ownerReferences"] = json!([owner]);
        }
        if self.is_terminating {
            metadata["deletionTimestamp"] = json!("2026-01-02T03:04:05Z");
            metadata["deletionGracePeriodSeconds"] = json!(30);
        }
        json!({
            "kind": "Pod", "apiVersion": "v1", "metadata": metadata,
            "spec": { "nodeName": node }, "status": { "phase": phase },
        })
    }

    /// Whether a budget is asked at all. Whoever does not run, or is going, disrupts nobody by leaving.
    fn has_budget(&self) -> bool {
        !self.is_terminating && !["Pending", "Succeeded", "Failed"].contains(&self.phase.as_str())
    }
}

/// How a pod is found.
pub fn key(namespace: &str, name: &str) -> String {
    format!("{namespace}/{name}")
}

pub fn get(state: &State, namespace: &str, name: &str) -> Answer {
    state.pods.get(&key(namespace, name)).map_or_else(|| not_found("pods", name), |pod| (200, pod.document()))
}

/// Deletes a pod if it is the one that was meant.
pub fn delete(state: &mut State, namespace: &str, name: &str, asked: &Asked) -> Answer {
    let options = match options(&asked.body) {
        Ok(options) => options,
        Err(refused) => return refused,
    };
    let key = key(namespace, name);
    let Some(pod) = state.pods.get(&key) else { return not_found("pods", name) };
    if let Some(refused) = another(pod, &options) {
        return refused;
    }
    state.drains.push(format!("delete {key}"));
    let document = leave(state, &key);
    (200, document)
}

/// Asks the budget, then deletes the pod if it is the one that was meant: in this order, as the server does.
pub fn evict(state: &mut State, namespace: &str, name: &str, asked: &Asked) -> Answer {
    let document = match options(&asked.body) {
        Ok(document) => document,
        Err(refused) => return refused,
    };
    if document["apiVersion"] != "policy/v1" || document["kind"] != "Eviction" {
        return refusal(400, "BadRequest", "only Eviction of policy/v1 is covered by this double");
    }
    if document["metadata"]["name"] != name || document["metadata"]["namespace"] != namespace {
        return refusal(400, "BadRequest", "name in URL does not match name in Eviction object");
    }
    let options = &document["deleteOptions"];
    let is_dry = options["dryRun"] == json!(["All"]) || asked.query.get("dryRun").is_some_and(|dry| dry == "All");
    let would = if is_dry { "would " } else { "" };
    let key = key(namespace, name);
    let Some(pod) = state.pods.get_mut(&key) else { return not_found("pods", name) };
    let is_refused = pod.has_budget()
        && match (&mut pod.budget, is_dry) {
            (Budget::Allows | Budget::RefusesNext(0), _) | (Budget::RefusesNext(_), true) => false,
            (Budget::RefusesNext(left), false) => {
                *left -= 1;
                true
            }
            (Budget::Refuses, _) => true,
        };
    if is_refused {
        state.drains.push(format!("{would}refuse {key}"));
        return disrupted(name);
    }
    if let Some(refused) = another(pod, options) {
        return refused;
    }
    state.drains.push(format!("{would}evict {key}"));
    if !is_dry {
        leave(state, &key);
    }
    (201, json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201 }))
}

/// A pod goes at once, or begins to.
fn leave(state: &mut State, key: &str) -> Value {
    state.tick();
    let Some(pod) = state.pods.get_mut(key) else { return Value::Null };
    pod.is_terminating = true;
    let document = pod.document();
    if !pod.lingers {
        state.pods.remove(key);
    }
    document
}

fn options(body: &[u8]) -> Result<Value, Answer> {
    if body.is_empty() {
        return Ok(Value::Null);
    }
    serde_json::from_slice(body).map_err(|_| refusal(400, "BadRequest", "the body is not JSON"))
}

/// The refusal where another pod has the name of the one that was meant.
fn another(pod: &Pod, options: &Value) -> Option<Answer> {
    let meant = options["preconditions"]["uid"].as_str().filter(|meant| *meant != pod.uid)?;
    let Pod { name, uid, .. } = pod;
    let message = format!(
        "Operation cannot be fulfilled on pods {name:?}: Precondition failed: UID in precondition: {meant}, UID in object meta: {uid}"
    );
    Some(refusal(409, "Conflict", &message))
}

fn disrupted(name: &str) -> Answer {
    let message = "Cannot evict pod as it would violate the pod's disruption budget.";
    let (code, mut document) = refusal(429, "TooManyRequests", message);
    let cause = format!("The disruption budget {name} needs 1 healthy pods and has 1 currently");
    document["details"] = json!({ "causes": [{ "reason": "DisruptionBudget", "message": cause }] });
    (code, document)
}

#[cfg(test)]
mod tests {
    use super::{super::http::answer, *};

    fn state(pod: Pod) -> State {
        let pod = Pod { uid: "u1".to_owned(), ..pod };
        State { pods: [(pod.key(), pod)].into(), ..State::default() }
    }

    fn pod() -> Pod {
        Pod::new("default", "web-1", "10.0.0.1")
    }

    fn ask(state: &mut State, method: &str, path: &str, query: &[(&str, &str)], body: &Value) -> u16 {
        let asked = Asked {
            method: method.to_owned(),
            path: format!("/api/v1/namespaces/default/pods/{path}"),
            query: query.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
            content_type: "application/json".to_owned(),
            body: body.to_string().into_bytes(),
        };
        answer(state, &asked).0
    }

    fn evict(state: &mut State, options: &Value) -> u16 {
        let metadata = json!({ "namespace": "default", "name": "web-1" });
        let body =
            json!({ "apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata, "deleteOptions": options });
        ask(state, "POST", "web-1/eviction", &[], &body)
    }

    #[test]
    fn budgets_are_asked_for_pods_that_run() {
        let dry = json!({ "dryRun": ["All"] });
        let mut counted = state(pod().with_budget(Budget::RefusesNext(1)));
        assert_eq!(evict(&mut counted, &dry), 201);
        assert_eq!(evict(&mut counted, &json!({})), 429);
        assert_eq!(evict(&mut counted, &json!({})), 201);
        assert_eq!(evict(&mut counted, &json!({})), 404, "it went at once");
        let expected = ["would evict default/web-1", "refuse default/web-1", "evict default/web-1"];
        assert_eq!(counted.drains, expected);

        let mut never = state(pod().with_budget(Budget::Refuses));
        assert_eq!((evict(&mut never, &dry), evict(&mut never, &json!({}))), (429, 429));
        assert_eq!(ask(&mut never, "DELETE", "web-1", &[], &Value::Null), 200, "deletion asks no budget");
        assert_eq!(ask(&mut never, "DELETE", "web-1", &[], &Value::Null), 404);

        let mut finished = state(pod().with_budget(Budget::Refuses).in_phase("Failed"));
        assert_eq!(evict(&mut finished, &json!({})), 201);
    }

    #[test]
    fn a_pod_that_lingers_is_going_until_it_is_gone() {
        let mut state = state(pod().lingering());
        assert_eq!(evict(&mut state, &json!({})), 201);
        assert!(state.pods["default/web-1"].document()["metadata"]["deletionTimestamp"].is_string());
        state.pods.get_mut("default/web-1").unwrap().budget = Budget::Refuses;
        assert_eq!(evict(&mut state, &json!({})), 201, "it is going already");
        assert_eq!(state.pods.len(), 1);
    }

    #[test]
    fn another_pod_of_the_name_is_left_alone() {
        let mut state = state(pod());
        let (this, other) = (json!({ "preconditions": { "uid": "u1" } }), json!({ "preconditions": { "uid": "u0" } }));
        assert_eq!(evict(&mut state, &other), 409);
        assert_eq!(ask(&mut state, "DELETE", "web-1", &[], &other), 409);
        assert_eq!(state.drains, [""; 0]);
        assert_eq!(evict(&mut state, &this), 201);
    }

    #[test]
    fn documents_must_be_about_the_pod() {
        let mut state = state(pod());
        let wrong = json!({ "apiVersion": "policy/v1", "kind": "Eviction", "metadata": { "name": "web-2" } });
        assert_eq!(ask(&mut state, "POST", "web-1/eviction", &[], &wrong), 400);
        let old = json!({ "apiVersion": "policy/v1beta1", "kind": "Eviction", "metadata": { "name": "web-1" } });
        assert_eq!(ask(&mut state, "POST", "web-1/eviction", &[], &old), 400);
        let right = json!({
            "apiVersion": "policy/v1", "kind": "Eviction", "metadata": { "namespace": "default", "name": "web-1" },
        });
        assert_eq!(ask(&mut state, "POST", "web-1/eviction", &[("dryRun", "All")], &right), 201);
        assert_eq!(state.pods.len(), 1, "a dry run, as the request says");
        assert_eq!(ask(&mut state, "GET", "web-1", &[], &Value::Null), 200);
        assert_eq!(ask(&mut state, "GET", "web-2", &[], &Value::Null), 404);
    }
}
