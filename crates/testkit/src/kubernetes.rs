//! A double of a Kubernetes API server: Nodes, with the rules of server-side apply, namespaces, and pods, with those of eviction, over
//! HTTP or HTTPS. For faults that a real one does not make on request, and for stories that would take a real one too long; what it is like
//! without faults is tested on [`crate::kubelab`].
//!
//! Covered of all: list (pages, expired pages, the selectors we use), UIDs; bearer tokens and client certificates; rights that are
//! missing; answers that fail, do not come, or come too late. Of Nodes: get, watch, apply, JSON merge patch; labels, annotations and
//! `spec`; field managers, conflicts, force, resource versions. Of pods: get, deletion, eviction with dry run and preconditions; pods
//! that take their time to go. Leases of kubelets, as the test sets them.
//!
//! Not covered: watches of anything else or of a moment that is forgotten, strategic merge and JSON patches, lists merged by key, admission, other kinds, creation and change of pods and
//! namespaces over HTTP. Nobody schedules: a cordoned Node only says that it is one, and no controller puts another pod where one left.
//! A disruption budget counts no pods, it says per pod what the test wants. Grace periods end when the test says so.
//!
//! Everything blocks, so that plain and async tests can use it alike.

mod http;
mod list;
mod nodes;
mod object;
mod pods;
mod serve;
mod watch;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fs,
    net::SocketAddr,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

pub use object::{Conflict, Field, Fields, Object, Operation};
pub use pods::{Budget, Pod};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The token it takes, where it takes one.
pub const TOKEN: &str = "token-of-the-double";

/// Who may talk to it, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// Everybody, over HTTP.
    Open,
    /// Whoever shows [`TOKEN`], over HTTPS.
    Token,
    /// Whoever shows a certificate of its authority, over HTTPS.
    Certificate,
}

/// What goes wrong.
#[derive(Debug, Default)]
pub struct Faults {
    /// Connections are closed without an answer.
    pub down: bool,
    /// Requests are never answered.
    pub silent: bool,
    /// Status codes of the next answers, whatever is asked.
    pub next: VecDeque<u16>,
    /// What is not allowed: a verb, or a verb and what it is about, such as `create pods/eviction`.
    pub forbidden: BTreeSet<&'static str>,
    /// The server has forgotten where the pages of this many lists began.
    pub expired_pages: usize,
    /// Somebody else writes to a Node before each of the next so many patches.
    pub interfering: usize,
}

/// What the server knows.
#[derive(Debug, Default)]
pub struct State {
    /// Nodes by name.
    pub nodes: BTreeMap<String, Object>,
    /// Pods by namespace and name, as in `default/web-1`.
    pub pods: BTreeMap<String, Pod>,
    /// Labels of namespaces, by name.
    pub namespaces: BTreeMap<String, BTreeMap<String, String>>,
    /// When kubelets renewed their leases, by the name of their Nodes.
    pub leases: BTreeMap<String, String>,
    /// Nodes that were deleted, each with the version of that moment.
    pub deleted: Vec<(u64, String)>,
    /// The last resource version.
    pub version: u64,
    /// Every write it was asked for: verb, name, field manager.
    pub writes: Vec<String>,
    /// What became of Nodes and pods on request, in order: `cordon` and `uncordon` with a Node; `would evict`, `would refuse`, `evict`,
    /// `refuse` and `delete` with a pod.
    pub drains: Vec<String>,
    /// Every right that was made use of, such as `list nodes`.
    pub rights: BTreeSet<String>,
    /// Requests answered or not.
    pub requests: usize,
    /// What goes wrong.
    pub faults: Faults,
}

impl State {
    /// The next resource version.
    pub fn tick(&mut self) -> u64 {
        self.version += 1;
        self.version
    }
}

/// A running double, stopped when dropped.
pub struct KubernetesDouble {
    address: SocketAddr,
    entry: Entry,
    state: Arc<Mutex<State>>,
    files: serve::Files,
    _server: serve::Server,
    directory: TempDir,
}

impl KubernetesDouble {
    /// Starts one without Nodes on a free port.
    pub fn start(entry: Entry) -> KubernetesDouble {
        let state = Arc::new(Mutex::new(State::default()));
        let files = serve::Files::new();
        let (server, address) = serve::Server::start(entry, &files, Arc::clone(&state));
        let directory = tempfile::tempdir().expect("a temporary directory");
        KubernetesDouble { address, entry, state, files, _server: server, directory }
    }

    /// What it knows. Hold it no longer than needed: requests wait for it.
    pub fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Where [`Self::kubeconfig`] is written.
    pub fn kubeconfig_path(&self) -> PathBuf {
        self.directory.path().join("kubeconfig")
    }

    /// A kubeconfig for it.
    pub fn kubeconfig(&self) -> PathBuf {
        self.kubeconfig_with(TOKEN)
    }

    /// A kubeconfig with this token.
    pub fn kubeconfig_with(&self, token: &str) -> PathBuf {
        let file = |name: &str, text: &str| {
            let path = self.directory.path().join(name);
            fs::write(&path, text).expect("a file is written");
            path
        };
        let user = match self.entry {
            Entry::Open => json!({}),
            Entry::Token => json!({ "token": token }),
            Entry::Certificate => json!({
                "client-certificate": file("client.crt", &self.files.client_certificate),
                "client-key": file("client.key", &self.files.client_key),
            }),
        };
        let cluster = match self.entry {
            Entry::Open => json!({ "server": format!("http://{}", self.address) }),
            Entry::Token | Entry::Certificate => json!({
                "server": format!("https://{}", self.address),
                "certificate-authority": file("ca.crt", &self.files.authority),
            }),
        };
        let document = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "double",
            "contexts": [{ "name": "double", "context": { "cluster": "double", "user": "sabakan" } }],
            "clusters": [{ "name": "double", "cluster": cluster }],
            "users": [{ "name": "sabakan", "user": user }],
        });
        file("kubeconfig", &document.to_string())
    }

    /// A kubelet registers a Node.
    pub fn register(&self, name: &str) {
        let mut state = self.state();
        let version = state.tick();
        let fields = Fields::from([(Field::Label("kubernetes.io/hostname".to_owned()), json!(name))]);
        let object = Object::registered(name, format!("uid-{version}"), version, fields);
        state.nodes.insert(name.to_owned(), object);
    }

    /// Somebody deletes a Node.
    pub fn delete(&self, name: &str) {
        let mut state = self.state();
        state.nodes.remove(name).expect("a node of this name");
        let version = state.tick();
        state.deleted.push((version, name.to_owned()));
    }

    /// A kubelet, or whoever notices its silence, changes the status of a Node.
    pub fn edit_status(&self, name: &str, edit: impl FnOnce(&mut Value)) {
        let mut state = self.state();
        let version = state.tick();
        let node = state.nodes.get_mut(name).expect("a node of this name");
        edit(&mut node.status);
        node.version = version;
    }

    /// The condition `Ready` of a Node changes: `True`, `False` or `Unknown`.
    pub fn set_ready(&self, name: &str, status: &str) {
        self.edit_status(name, |node| node["conditions"] = json!([{ "type": "Ready", "status": status }]));
    }

    /// Somebody who does not use server-side apply changes a Node, such as `kubectl label` or the node controller.
    pub fn edit(&self, manager: &str, name: &str, edit: impl FnOnce(&mut Fields)) {
        let mut state = self.state();
        let version = state.tick();
        let node = state.nodes.get_mut(name).expect("a node of this name");
        let mut fields = node.fields.clone();
        edit(&mut fields);
        if node.update(manager, fields) {
            node.version = version;
        }
    }

    /// A Node as the server answers it.
    pub fn node(&self, name: &str) -> Value {
        self.state().nodes.get(name).expect("a node of this name").document()
    }

    /// The value of a label.
    pub fn label(&self, name: &str, key: &str) -> Option<String> {
        self.node(name)["metadata"]["labels"][key].as_str().map(str::to_owned)
    }

    /// Keys of the taints of a Node, in order.
    pub fn taints(&self, name: &str) -> Vec<String> {
        let node = self.node(name);
        let taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
        taints.iter().map(|taint| taint["key"].as_str().unwrap_or_default().to_owned()).collect()
    }

    /// Writes since this was last asked.
    pub fn take_writes(&self) -> Vec<String> {
        std::mem::take(&mut self.state().writes)
    }

    /// Somebody makes a namespace, or labels it anew.
    pub fn add_namespace(&self, name: &str, labels: &[(&str, &str)]) {
        let mut state = self.state();
        state.tick();
        let own = [("kubernetes.io/metadata.name", name)];
        let labels = labels.iter().chain(&own).map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        state.namespaces.insert(name.to_owned(), labels);
    }

    /// A pod begins on a Node, in place of the one that had its name. Its namespace exists or is made.
    pub fn add_pod(&self, pod: Pod) {
        let is_known = self.state().namespaces.contains_key(&pod.namespace);
        if !is_known {
            self.add_namespace(&pod.namespace, &[]);
        }
        let mut state = self.state();
        let version = state.tick();
        state.pods.insert(pod.key(), Pod { uid: format!("uid-{version}"), ..pod });
    }

    /// A pod, by namespace and name as in `default/web-1`, has ended and is gone.
    pub fn end_pod(&self, key: &str) {
        let mut state = self.state();
        state.pods.remove(key).expect("a pod of this name");
        state.tick();
    }

    /// A pod changes.
    pub fn edit_pod(&self, key: &str, edit: impl FnOnce(&mut Pod)) {
        let mut state = self.state();
        state.tick();
        edit(state.pods.get_mut(key).expect("a pod of this name"));
    }

    /// The pods on a Node, in order of namespace and name.
    pub fn pods_on(&self, node: &str) -> Vec<String> {
        let state = self.state();
        state.pods.iter().filter(|(_, pod)| pod.node == node).map(|(key, _)| key.clone()).collect()
    }

    /// Somebody keeps new pods away from a Node by hand.
    pub fn cordon_by_hand(&self, name: &str) {
        self.edit("kubectl", name, |fields| _ = fields.insert(Field::Spec("unschedulable".to_owned()), json!(true)));
    }

    /// Whether new pods are kept away from a Node.
    pub fn is_cordoned(&self, name: &str) -> bool {
        self.state().nodes.get(name).expect("a node of this name").is_cordoned()
    }

    /// What became of Nodes and pods on request since this was last asked. See [`State::drains`].
    pub fn take_drains(&self) -> Vec<String> {
        std::mem::take(&mut self.state().drains)
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
