//! Kubelets of Nodes that have no machine: they make their Nodes as kubeadm does, renew their leases, let pods run, and finish the
//! deletion of pods that were told to go. Each can fall silent, or leave its pods where they are.
//!
//! A pod says by its labels what becomes of it: `lab/pending` never begins, `lab/finished` ends well at once.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{
    LONG,
    api::{Api, Asker},
};
use crate::wait_for;

/// How often they look at pods.
const PERIOD: Duration = Duration::from_millis(200);

/// How often a lease is renewed. Several times within what the controllers of these tests allow.
const BEAT: Duration = Duration::from_secs(2);

/// Nodes made at once.
const BIRTHS: usize = 16;

/// The label and taint of control planes, as kubeadm calls them.
const CONTROL_PLANE: &str = "node-role.kubernetes.io/control-plane";

/// One of them, and how it is.
#[derive(Debug, Clone, Default)]
pub struct Kubelet {
    name: String,
    address: String,
    labels: BTreeMap<String, String>,
    taints: Vec<Value>,
    static_pods: Vec<String>,
    /// Makes its Node and is not heard of again, without being taken for dead.
    is_quiet: bool,
    is_dead: bool,
    keeps_pods: bool,
    is_born: bool,
    is_ready: bool,
    beaten: Option<Instant>,
    problem: String,
}

impl Kubelet {
    /// Of a Node whose name is its address.
    pub fn new(address: &str) -> Kubelet {
        Kubelet { name: address.to_owned(), address: address.to_owned(), ..Kubelet::default() }
    }

    /// Of a Node with a name, as kubeadm makes them by itself.
    pub fn named(name: &str, address: &str) -> Kubelet {
        Kubelet { name: name.to_owned(), ..Kubelet::new(address) }
    }

    /// With this label from the beginning.
    pub fn label(mut self, key: &str, value: &str) -> Kubelet {
        self.labels.insert(key.to_owned(), value.to_owned());
        self
    }

    /// With the label, the taint and a static pod of a control plane, as `kubeadm init` leaves it.
    pub fn control_plane(mut self) -> Kubelet {
        self.taints.push(json!({ "key": CONTROL_PLANE, "effect": "NoSchedule" }));
        self.static_pods.push("kube-apiserver".to_owned());
        self.label(CONTROL_PLANE, "")
    }

    /// With a pod out of a file of its own; the API server only knows its image.
    pub fn static_pod(mut self, name: &str) -> Kubelet {
        self.static_pods.push(name.to_owned());
        self
    }

    /// Makes its Node and does nothing else: for many of them, with controllers that are patient.
    pub fn quiet(mut self) -> Kubelet {
        self.is_quiet = true;
        self
    }
}

/// All kubelets of a control plane.
pub struct Kubelets {
    all: Arc<Mutex<BTreeMap<String, Kubelet>>>,
    api: Api,
}

impl Kubelets {
    /// None yet.
    pub fn start(api: &Api) -> Kubelets {
        let all: Arc<Mutex<BTreeMap<String, Kubelet>>> = Arc::default();
        let asker: &Asker = api;
        api.spawn(work(asker.clone(), Arc::downgrade(&all)));
        Kubelets { all, api: api.clone() }
    }

    /// Starts kubelets and waits until their Nodes are ready and take pods.
    pub fn add(&self, kubelets: impl IntoIterator<Item = Kubelet>) {
        let names: Vec<String> = {
            let mut all = locked(&self.all);
            all.extend(kubelets.into_iter().map(|kubelet| (kubelet.name.clone(), kubelet)));
            all.keys().cloned().collect()
        };
        let begun = Instant::now();
        wait_for("Nodes to be ready", LONG * 2, || {
            let problems = || locked(&self.all).values().map(|kubelet| kubelet.problem.clone()).collect::<Vec<_>>();
            assert!(begun.elapsed() < LONG, "Nodes are not ready: {:?}", problems());
            let is_up = |name: &String| locked(&self.all).get(name).is_none_or(|kubelet| kubelet.is_born);
            (names.iter().all(is_up) && self.not_ready() == 0).then_some(())
        });
    }

    /// The kubelet falls silent, its pods stay as they are, and the controllers notice that some time later.
    pub fn kill(&self, name: &str) {
        self.change(name, |kubelet| kubelet.is_dead = true);
    }

    /// It is back.
    pub fn revive(&self, name: &str) {
        self.change(name, |kubelet| {
            kubelet.is_dead = false;
            kubelet.is_ready = false;
            kubelet.beaten = None;
        });
    }

    /// Pods that are told to go stay, or go from now on.
    pub fn keep_pods(&self, name: &str, keeps: bool) {
        self.change(name, |kubelet| kubelet.keeps_pods = keeps);
    }

    /// Nobody plays any Node any more.
    pub fn clear(&self) {
        locked(&self.all).clear();
    }

    fn change(&self, name: &str, change: impl FnOnce(&mut Kubelet)) {
        change(locked(&self.all).get_mut(name).unwrap_or_else(|| panic!("no kubelet of {name}")));
    }

    /// Nodes that new pods are kept away from because of their condition.
    fn not_ready(&self) -> usize {
        let asked = self.api.block_on(self.api.ask("GET", "/api/v1/nodes", &Value::Null));
        let Ok((200, list)) = asked else { return 1 };
        let is_ready = |node: &Value| {
            let taints = node["spec"]["taints"].as_array();
            let is_bad = |taint: &Value| taint["key"].as_str().unwrap_or_default() == "node.kubernetes.io/not-ready";
            taints.is_none_or(|taints| !taints.iter().any(is_bad))
        };
        list["items"].as_array().map_or(0, |nodes| nodes.iter().filter(|node| !is_ready(node)).count())
    }
}

fn locked(all: &Mutex<BTreeMap<String, Kubelet>>) -> MutexGuard<'_, BTreeMap<String, Kubelet>> {
    all.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Works until nobody wants it any more. What fails is tried again: the API server may be away.
async fn work(api: Asker, all: std::sync::Weak<Mutex<BTreeMap<String, Kubelet>>>) {
    let mut pause = tokio::time::interval(PERIOD);
    pause.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        pause.tick().await;
        let Some(all) = all.upgrade() else { return };
        let alive: Vec<Kubelet> = locked(&all).values().filter(|kubelet| !kubelet.is_dead).cloned().collect();
        let due = alive.iter().filter(|kubelet| {
            let is_new = !kubelet.is_ready;
            is_new || (!kubelet.is_quiet && kubelet.beaten.is_none_or(|at| at.elapsed() > BEAT))
        });
        let due: Vec<Kubelet> = due.cloned().collect();
        for some in due.chunks(BIRTHS) {
            let mut beats = JoinSet::new();
            for kubelet in some {
                let (api, kubelet) = (api.clone(), kubelet.clone());
                beats.spawn(async move { (kubelet.name.clone(), beat(&api, &kubelet).await) });
            }
            for (name, went) in beats.join_all().await {
                match (went, locked(&all).get_mut(&name)) {
                    (Ok(()), Some(kubelet)) => {
                        (kubelet.is_born, kubelet.is_ready, kubelet.beaten) = (true, true, Some(Instant::now()));
                    }
                    (Err(problem), Some(kubelet)) => kubelet.problem = problem,
                    (_, None) => {}
                }
            }
        }
        let is_any_busy = alive.iter().any(|kubelet| !kubelet.is_quiet);
        if is_any_busy {
            let _tried_again = pods(&api, &alive).await;
        }
    }
}

/// Makes the Node if it is new, says that it is ready if that is not known, and renews the lease.
async fn beat(api: &Asker, kubelet: &Kubelet) -> Result<(), String> {
    let name = &kubelet.name;
    if !kubelet.is_born {
        register(api, kubelet).await?;
    }
    if !kubelet.is_ready {
        let size = json!({ "cpu": "16", "memory": "64Gi", "pods": "110" });
        let addresses =
            json!([{ "type": "InternalIP", "address": kubelet.address }, { "type": "Hostname", "address": name }]);
        let ready =
            json!({ "type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": seconds() });
        let status = json!({ "addresses": addresses, "capacity": size, "allocatable": size, "conditions": [ready] });
        done(api, "PATCH", &format!("/api/v1/nodes/{name}/status"), &json!({ "status": status })).await?;
    }
    let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
    let renewed = json!({ "spec": { "renewTime": micros() } });
    let (code, answer) = api.ask("PATCH", &format!("{leases}/{name}"), &renewed).await?;
    if code != 200 && code != 404 {
        return Err(format!("the lease of {name}: {code} {answer}"));
    }
    if code == 404 {
        let spec = json!({ "holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": micros() });
        done(api, "POST", leases, &json!({ "metadata": { "name": name }, "spec": spec })).await?;
    }
    Ok(())
}

async fn register(api: &Asker, kubelet: &Kubelet) -> Result<(), String> {
    let name = &kubelet.name;
    let mut labels = kubelet.labels.clone();
    for (key, value) in [("hostname", name.as_str()), ("os", "linux"), ("arch", "amd64")] {
        labels.insert(format!("kubernetes.io/{key}"), value.to_owned());
    }
    let node = json!({ "metadata": { "name": name, "labels": labels }, "spec": { "taints": kubelet.taints } });
    let (_, node) = done(api, "POST", "/api/v1/nodes?fieldManager=kubelet", &node).await?;
    for pod in &kubelet.static_pods {
        let owner = json!({
            "apiVersion": "v1", "kind": "Node", "name": name, "uid": node["metadata"]["uid"], "controller": true,
        });
        let mark = json!({ "kubernetes.io/config.mirror": "0", "kubernetes.io/config.source": "file" });
        let pod = json!({
            "metadata": { "name": format!("{pod}-{name}"), "annotations": mark, "ownerReferences": [owner] },
            "spec": {
                "nodeName": name, "hostNetwork": true, "containers": [{ "name": "main", "image": "static" }],
                "automountServiceAccountToken": false, "enableServiceLinks": false,
                "tolerations": [{ "operator": "Exists", "effect": "NoExecute" }],
            },
        });
        done(api, "POST", "/api/v1/namespaces/kube-system/pods", &pod).await?;
    }
    Ok(())
}

/// An answer that says that it was done, or was before.
async fn done(api: &Asker, method: &str, path: &str, body: &Value) -> Result<(u16, Value), String> {
    match api.ask(method, path, body).await? {
        (code @ (200 | 201 | 409), document) => Ok((code, document)),
        (code, document) => Err(format!("{method} {path}: {code} {document}")),
    }
}

/// Lets new pods run, and those that were told to go go.
async fn pods(api: &Asker, alive: &[Kubelet]) -> Result<(), String> {
    let (_, list) = api.ask("GET", "/api/v1/pods", &Value::Null).await?;
    for pod in list["items"].as_array().into_iter().flatten() {
        let (meta, spec) = (&pod["metadata"], &pod["spec"]);
        let Some(kubelet) = alive.iter().find(|kubelet| spec["nodeName"] == kubelet.name.as_str()) else { continue };
        let part = |name: &str| meta[name].as_str().unwrap_or_default();
        let path = format!("/api/v1/namespaces/{}/pods/{}", part("namespace"), part("name"));
        let is_labelled = |label: &str| !meta["labels"][label].is_null();
        if !meta["deletionTimestamp"].is_null() {
            if !kubelet.keeps_pods {
                let end = json!({ "gracePeriodSeconds": 0, "preconditions": { "uid": meta["uid"] } });
                api.ask("DELETE", &path, &end).await?;
            }
        } else if pod["status"]["phase"] == "Pending" && !is_labelled("lab/pending") {
            let status = status(pod, is_labelled("lab/finished"));
            api.ask("PATCH", &format!("{path}/status"), &json!({ "status": status })).await?;
        }
    }
    Ok(())
}

/// The status of a pod that runs, or has ended well.
fn status(pod: &Value, is_finished: bool) -> Value {
    let at = seconds();
    let ready = if is_finished { "False" } else { "True" };
    let conditions: Vec<Value> = [("Initialized", "True"), ("ContainersReady", ready), ("Ready", ready)]
        .iter()
        .map(|(kind, status)| json!({ "type": kind, "status": status, "lastTransitionTime": at }))
        .collect();
    let container = |container: &Value| {
        let state = if is_finished {
            json!({ "terminated": { "exitCode": 0, "reason": "Completed", "startedAt": at, "finishedAt": at } })
        } else {
            json!({ "running": { "startedAt": at } })
        };
        json!({
            "name": container["name"], "image": container["image"], "imageID": "none", "restartCount": 0,
            "ready": !is_finished, "started": !is_finished, "state": state,
        })
    };
    let containers: Vec<Value> = pod["spec"]["containers"].as_array().into_iter().flatten().map(container).collect();
    json!({
        "phase": if is_finished { "Succeeded" } else { "Running" }, "startTime": at, "conditions": conditions,
        "containerStatuses": containers, "podIP": "10.244.0.1", "podIPs": [{ "ip": "10.244.0.1" }],
    })
}

#[allow(clippy::disallowed_methods, reason = "the controllers of a real control plane look at the real clock")]
fn now() -> Timestamp {
    Timestamp::now()
}

/// As most times of Kubernetes are written.
fn seconds() -> String {
    now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// As leases are written: with exactly six digits, or they are refused.
fn micros() -> String {
    now().strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}
