//! What sabakan asks a Kubernetes API for: the Nodes there are, one step at a time on one of them, and what it takes to empty one.
//! `sabakan-kube` implements it over HTTP; which step is taken is decided in `sabakan_domain::cluster::attributes`, what becomes of a pod
//! in `sabakan_domain::repair::drain`.
//!
//! Every call is bounded in time by whoever implements it.

use std::{
    collections::{BTreeMap, BTreeSet},
    future::Future,
    pin::Pin,
};

use jiff::Timestamp;
use sabakan_domain::{
    cluster::{attributes::Step, live_node::LiveNode},
    repair::{drain::LivePod, selector::Selector},
};

/// A boxed future of a call to Kubernetes, so that tasks can hold `Arc<dyn Kubernetes>`.
pub type KubernetesFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, KubernetesError>> + Send + 'a>>;

/// A Kubernetes API. Nodes are never created and never deleted through it; pods are never created.
pub trait Kubernetes: Send + Sync + 'static {
    /// All Nodes, read in pages, as of one moment.
    fn list(&self) -> KubernetesFuture<'_, NodeList>;

    /// What becomes of Nodes after a moment, which is that of a list or of the last event. It ends by itself after some minutes; whoever
    /// goes on asks again. A moment that Kubernetes has forgotten is [`KubernetesError::Conflict`].
    fn watch(&self, after: &str) -> KubernetesFuture<'_, Box<dyn NodeEvents>>;

    /// When each kubelet renewed its lease last, by the name of its Node.
    fn leases(&self) -> KubernetesFuture<'_, BTreeMap<String, Timestamp>>;

    /// The Node with this name; `None`: there is none.
    fn find(&self, name: &str) -> KubernetesFuture<'_, Option<LiveNode>>;

    /// Takes a step on the Node that was read, and answers with what it is now. [`Step::Taints`] and [`Step::OutOfService`] are a conflict
    /// if anybody wrote to the Node since; every step is one if the Node is gone or another one has its name.
    fn take(&self, node: &LiveNode, step: &Step) -> KubernetesFuture<'_, LiveNode>;

    /// Lets no new pods onto the Node with this name, and marks that as ours, in one write. A conflict if there is no such Node. To be
    /// asked for again is no error. Whoever asks has made sure that nobody else keeps pods away: the mark would say it was us.
    fn cordon(&self, name: &str) -> KubernetesFuture<'_, ()>;

    /// Lets new pods onto the Node with this name again and takes our mark away, in one write. A Node that is gone needs neither.
    fn uncordon(&self, name: &str) -> KubernetesFuture<'_, ()>;

    /// All pods on the Node with this name, finished ones and those that are being deleted among them.
    fn pods(&self, node: &str) -> KubernetesFuture<'_, Vec<LivePod>>;

    /// Names of the namespaces that are selected by their labels.
    fn namespaces(&self, selector: &Selector) -> KubernetesFuture<'_, BTreeSet<String>>;

    /// Asks a pod to leave, as far as its disruption budget allows. As a dry run it only says what would be. Another pod that has the
    /// name meanwhile is left alone.
    fn evict(&self, pod: &LivePod, dry_run: bool) -> KubernetesFuture<'_, Evicted>;

    /// Deletes a pod, whatever its disruption budget says; it is given the time it wants to end. One that is gone needs no deletion,
    /// and another pod that has the name meanwhile is left alone.
    fn delete_pod(&self, pod: &LivePod) -> KubernetesFuture<'_, ()>;
}

/// All Nodes at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeList {
    /// The Nodes.
    pub nodes: Vec<LiveNode>,
    /// The moment, to go on from.
    pub moment: String,
}

/// What becomes of Nodes, one after the other.
pub trait NodeEvents: Send {
    /// The next event; `None`: this watch is over. Waits for as long as nothing happens.
    fn next(&mut self) -> KubernetesFuture<'_, Option<NodeEvent>>;
}

/// Something that became of a Node, or that nothing did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeEvent {
    /// It came, or is another than before. Its resource version is the moment.
    Present(Box<LiveNode>),
    /// It is gone.
    Gone {
        /// Its name.
        name: String,
        /// The moment.
        moment: String,
    },
    /// Nothing else happened until this moment.
    Nothing {
        /// The moment.
        moment: String,
    },
}

/// How the eviction of a pod went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Evicted {
    /// It was told to go, or would have been. It is gone when [`Kubernetes::pods`] does not show it any more.
    Done,
    /// There is no such pod any more.
    Gone,
    /// Its disruption budget does not allow it now, in the words of Kubernetes. Never said for another reason: a server that is only
    /// busy is [`KubernetesError::Failed`], since a refused pod may be deleted by force.
    Refused(String),
}

/// Why Kubernetes did not do it. Texts are for operators; they hold neither credentials nor the address of the API server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KubernetesError {
    /// The kubeconfig, or what stands for it inside a cluster, cannot be used.
    #[error("the settings for Kubernetes cannot be used: {0}")]
    Settings(String),
    /// No connection, or no answer in time. Whether a write arrived is not known; all of ours may be repeated.
    #[error("Kubernetes cannot be reached: {0}")]
    Unreachable(String),
    /// The certificate of the API server is not one we trust.
    #[error("the certificate of the Kubernetes API is not trusted: {0}")]
    Untrusted(String),
    /// It does not know us.
    #[error("Kubernetes refused the credentials: {0}")]
    Credentials(String),
    /// It knows us and we may not do this.
    #[error("Kubernetes does not allow sabakan to {what}: {reason}")]
    Forbidden {
        /// What it was asked to do.
        what: String,
        /// Its answer.
        reason: String,
    },
    /// What was read is no longer so; read again.
    #[error("what was read has changed meanwhile: {0}")]
    Conflict(String),
    /// It understood and said no.
    #[error("Kubernetes refused to {what}: {reason}")]
    Rejected {
        /// What it was asked to do.
        what: String,
        /// Its answer.
        reason: String,
    },
    /// It is overloaded, or failed by its own account.
    #[error("Kubernetes failed to {what}: {reason}")]
    Failed {
        /// What it was asked to do.
        what: String,
        /// Its answer.
        reason: String,
    },
    /// Its answer makes no sense, or is larger than we take.
    #[error("the answer of Kubernetes to {what} cannot be understood: {reason}")]
    Protocol {
        /// What it was asked to do.
        what: String,
        /// What is wrong with the answer.
        reason: String,
    },
}

impl KubernetesError {
    /// Whether the same call, after reading again what it was made from, may succeed without anybody changing anything.
    pub fn is_retryable(&self) -> bool {
        match self {
            KubernetesError::Unreachable(_) | KubernetesError::Conflict(_) | KubernetesError::Failed { .. } => true,
            KubernetesError::Settings(_)
            | KubernetesError::Untrusted(_)
            | KubernetesError::Credentials(_)
            | KubernetesError::Forbidden { .. }
            | KubernetesError::Rejected { .. }
            | KubernetesError::Protocol { .. } => false,
        }
    }

    /// Whether it says something about one Node only. Otherwise the next Node would hear the same.
    pub fn is_about_one_node(&self) -> bool {
        matches!(self, KubernetesError::Conflict(_) | KubernetesError::Rejected { .. })
    }
}
