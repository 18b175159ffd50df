//! [`sabakan_drivers::kubernetes::Kubernetes`] over HTTP. A crate of its own because its dependencies are heavy and nothing else needs
//! them (docs/adr/0012-applying-to-kubernetes.md).
//!
//! Labels and annotations are applied under one field manager and taints under another, because the API server forgets whatever a
//! manager leaves out: a change of labels would otherwise have to repeat the taints, everybody's taints.

mod drain;
mod failure;
mod limits;
mod list;
mod node;
mod open;
mod pod;
mod watch;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{Mutex, PoisonError},
};

use jiff::Timestamp;
use kube::{
    Client,
    core::{
        Request,
        params::{GetParams, ListParams, Patch, PatchParams},
    },
};
use sabakan_domain::{
    cluster::{attributes::Step, live_node::LiveNode},
    repair::{drain::LivePod, selector::Selector},
};
use sabakan_drivers::kubernetes::{Evicted, Kubernetes, KubernetesError, KubernetesFuture, NodeEvents, NodeList};

pub use crate::open::Source;
use crate::{failure::Failure, list::Kind, node::RawNode};

/// Who we are to the API server where labels and annotations are concerned.
pub const FIELD_MANAGER: &str = "sabakan";
/// Who we are to it where taints are.
pub const TAINTS_MANAGER: &str = "sabakan-taints";

const NODES: Kind = Kind { name: "nodes", path: "/api/v1/nodes", max: limits::NODES_MAX };

/// A Kubernetes API.
pub struct Kube {
    source: Source,
    /// Forgotten when the API server does not know us or we do not know it: its settings are then read again, so that a new token or
    /// certificate needs no restart.
    client: Mutex<Option<Client>>,
}

impl fmt::Debug for Kube {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kube").field("source", &self.source).finish_non_exhaustive()
    }
}

impl Kube {
    /// Reads the settings, so that wrong ones are known at once. Contacts nobody.
    pub async fn open(source: Source) -> Result<Kube, KubernetesError> {
        let client = open::client(&source).await?;
        Ok(Kube { source, client: Mutex::new(Some(client)) })
    }

    async fn client(&self) -> Result<Client, KubernetesError> {
        let known = self.client.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match known {
            Some(client) => Ok(client),
            None => {
                let client = open::client(&self.source).await?;
                *self.client.lock().unwrap_or_else(PoisonError::into_inner) = Some(client.clone());
                Ok(client)
            }
        }
    }

    /// Sends one request and gives the text of the answer.
    async fn send(&self, what: &str, request: http::Request<Vec<u8>>) -> Result<String, Failure> {
        let client = self.client().await.map_err(Failure::Other)?;
        let answer = tokio::time::timeout(limits::CALL_MAX, client.request_text(request)).await;
        Err(match answer {
            Ok(Ok(text)) => return Ok(text),
            Ok(Err(error)) => self.failed(failure::of(what, &error)),
            Err(_) => failure::late(),
        })
    }

    /// Takes note of a failure: settings that are refused are read again before the next request.
    fn failed(&self, failure: Failure) -> Failure {
        if let Failure::Other(KubernetesError::Credentials(_) | KubernetesError::Untrusted(_)) = failure {
            *self.client.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
        failure
    }

    async fn patch(&self, node: &LiveNode, step: &Step) -> Result<LiveNode, KubernetesError> {
        let (what, manager) = match step {
            Step::Taints { .. } => ("set the taints of a node", TAINTS_MANAGER),
            Step::OutOfService { .. } => ("mark a node as out of service", FIELD_MANAGER),
            Step::Apply { .. } => ("set labels and annotations of a node", FIELD_MANAGER),
            Step::Remove { .. } => ("remove labels and annotations of a node", FIELD_MANAGER),
        };
        let document = node::document(node, step);
        let params = PatchParams { field_manager: Some(manager.to_owned()), ..PatchParams::default() };
        // What the configuration says wins over whoever else set the same key. Others keep every key it does not name.
        let (patch, params) = match step {
            Step::Taints { .. } | Step::Apply { .. } => (Patch::Apply(document), params.force()),
            Step::OutOfService { .. } | Step::Remove { .. } => (Patch::Merge(document), params),
        };
        let request = Request::new(NODES.path).patch(&node.name, &params, &patch);
        let request = request.map_err(|error| failure::request(what, &error))?;
        match self.send(what, request).await {
            Ok(text) => Ok(node::read(&text).map_err(|error| failure::answer(what, &error))?),
            Err(Failure::NotFound) => Err(KubernetesError::Conflict("it is gone".to_owned())),
            Err(failure) => Err(failure.into()),
        }
    }
}

impl Kubernetes for Kube {
    fn list(&self) -> KubernetesFuture<'_, NodeList> {
        Box::pin(async move {
            let (nodes, moment) = self.list_all::<RawNode>(NODES, &ListParams::default()).await?;
            Ok(NodeList { nodes: nodes.into_iter().map(LiveNode::from).collect(), moment })
        })
    }

    fn watch(&self, after: &str) -> KubernetesFuture<'_, Box<dyn NodeEvents>> {
        Box::pin(watch::watch(self, after.to_owned()))
    }

    fn leases(&self) -> KubernetesFuture<'_, BTreeMap<String, Timestamp>> {
        Box::pin(watch::leases(self))
    }

    fn find(&self, name: &str) -> KubernetesFuture<'_, Option<LiveNode>> {
        let name = name.to_owned();
        Box::pin(async move {
            let what = "read a node";
            let request = Request::new(NODES.path).get(&name, &GetParams::default());
            let request = request.map_err(|error| failure::request(what, &error))?;
            match self.send(what, request).await {
                Ok(text) => Ok(Some(node::read(&text).map_err(|error| failure::answer(what, &error))?)),
                Err(Failure::NotFound) => Ok(None),
                Err(failure) => Err(failure.into()),
            }
        })
    }

    fn take(&self, node: &LiveNode, step: &Step) -> KubernetesFuture<'_, LiveNode> {
        let (node, step) = (node.clone(), step.clone());
        Box::pin(async move { self.patch(&node, &step).await })
    }

    fn cordon(&self, name: &str) -> KubernetesFuture<'_, ()> {
        Box::pin(drain::cordon(self, name.to_owned()))
    }

    fn uncordon(&self, name: &str) -> KubernetesFuture<'_, ()> {
        Box::pin(drain::uncordon(self, name.to_owned()))
    }

    fn pods(&self, node: &str) -> KubernetesFuture<'_, Vec<LivePod>> {
        Box::pin(drain::pods(self, node.to_owned()))
    }

    fn namespaces(&self, selector: &Selector) -> KubernetesFuture<'_, BTreeSet<String>> {
        Box::pin(drain::namespaces(self, selector.to_string()))
    }

    fn evict(&self, pod: &LivePod, dry_run: bool) -> KubernetesFuture<'_, Evicted> {
        Box::pin(drain::evict(self, pod.clone(), dry_run))
    }

    fn delete_pod(&self, pod: &LivePod) -> KubernetesFuture<'_, ()> {
        Box::pin(drain::delete_pod(self, pod.clone()))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A server that takes connections and says nothing. Time passes as soon as everybody waits.
    #[tokio::test(start_paused = true)]
    async fn silence_ends_in_time() {
        let _installed_before = rustls::crypto::ring::default_provider().install_default();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("kubeconfig");
        let server = listener.local_addr().unwrap();
        let text = format!(
            "current-context: x\ncontexts: [{{name: x, context: {{cluster: x}}}}]\n\
             clusters: [{{name: x, cluster: {{server: 'http://{server}'}}}}]\n"
        );
        std::fs::write(&path, text).unwrap();
        let kube = Kube::open(Source::Kubeconfig(path)).await.unwrap();
        let (pod, everything) =
            (LivePod { name: "x".to_owned(), ..LivePod::default() }, Selector::of(&json!({})).unwrap());
        for waited in [
            kube.list().await.err(),
            kube.find("x").await.err(),
            kube.watch("1").await.err(),
            kube.leases().await.err(),
            kube.cordon("x").await.err(),
            kube.uncordon("x").await.err(),
            kube.pods("x").await.err(),
            kube.namespaces(&everything).await.err(),
            kube.evict(&pod, true).await.err(),
            kube.delete_pod(&pod).await.err(),
        ] {
            assert!(matches!(waited, Some(KubernetesError::Unreachable(_))), "{waited:?}");
        }
        assert!(format!("{kube:?}").contains("kubeconfig"));
    }
}
