//! Wires the planner of the Kubernetes cluster: where its machines come from, and the tasks that plan and apply.

use std::{path::PathBuf, sync::Arc, time::Duration};

use anyhow::Context as _;
use sabakan_drivers::{
    kubernetes::Kubernetes,
    registry::{GraphqlRegistry, Registry},
};
use sabakan_service::{
    Foundation,
    cluster::{Cluster, ClusterOptions, kubernetes::Applier, live_nodes::LiveNodes},
    tasks::{applier, planner},
};
use sabakan_store::keys::Keys;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// How long another registry may take to answer, unless somebody says otherwise.
pub const REGISTRY_TIMEOUT: Duration = Duration::from_secs(10);

/// What planning has to know before it starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterConfig {
    /// Whether this server plans, when it leads. Requests are answered all the same.
    pub planner: bool,
    /// How often is planned when nothing changes.
    pub period: Duration,
    /// How long a change is left to take effect before the next.
    pub settle: Duration,
    /// Another registry; `None`: our own.
    pub registry: Option<RegistrySettings>,
    /// Below which prefix of etcd another program finds copies.
    pub mirror_prefix: Option<String>,
    /// The Kubernetes the cluster is; `None`: its taints are not known and nothing is applied to it.
    pub kubernetes: Option<KubernetesSettings>,
}

/// A Kubernetes API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KubernetesSettings {
    /// How it is reached.
    pub access: KubernetesAccess,
    /// Whether this server applies the configuration to its Nodes, when it leads. Otherwise taints are read and nothing is written.
    pub apply: bool,
}

/// How a Kubernetes API is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KubernetesAccess {
    /// With the current context of a kubeconfig file.
    Kubeconfig(PathBuf),
    /// With the service account of the pod this program runs in.
    InCluster,
}

/// Another sabakan whose machines are planned with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistrySettings {
    /// Where it is; `/graphql` may be left out.
    pub url: String,
    /// How long it may take to answer.
    pub timeout: Duration,
}

impl Default for ClusterConfig {
    fn default() -> ClusterConfig {
        let ClusterOptions { period, settle, .. } = ClusterOptions::default();
        ClusterConfig { planner: true, period, settle, registry: None, mirror_prefix: None, kubernetes: None }
    }
}

impl ClusterConfig {
    /// The same keys, with copies where another program reads them.
    pub fn mirrored(&self, keys: Keys) -> Keys {
        match &self.mirror_prefix {
            Some(prefix) => keys.with_mirror(prefix),
            None => keys,
        }
    }
}

/// What is known about the cluster, for requests and for the planner.
pub async fn open(
    config: &ClusterConfig,
    foundation: &Arc<Foundation>,
    server: String,
) -> anyhow::Result<Arc<Cluster>> {
    let registry = config.registry.as_ref().map(|RegistrySettings { url, timeout }| {
        let registry = GraphqlRegistry::new(url, *timeout).context("--cluster-registry-url")?;
        anyhow::Ok(Arc::new(registry) as Arc<dyn Registry>)
    });
    let (mut nodes, mut applier) = (None, None);
    if let Some(settings) = &config.kubernetes {
        let kubernetes = kubernetes(&settings.access).await.context("--cluster-kubeconfig")?;
        let live = Arc::new(LiveNodes::new(Arc::clone(&kubernetes)));
        applier = settings.apply.then(|| Arc::new(Applier::new(kubernetes, Arc::clone(&live))));
        nodes = Some(live);
    }
    let options = ClusterOptions {
        registry: registry.transpose()?,
        nodes,
        applier,
        server,
        period: config.period,
        settle: config.settle,
        ..ClusterOptions::default()
    };
    Ok(Arc::new(Cluster::new(Arc::clone(foundation), options)))
}

#[cfg(feature = "kubernetes")]
async fn kubernetes(access: &KubernetesAccess) -> anyhow::Result<Arc<dyn Kubernetes>> {
    let source = match access {
        KubernetesAccess::Kubeconfig(path) => sabakan_kube::Source::Kubeconfig(path.clone()),
        KubernetesAccess::InCluster => sabakan_kube::Source::InCluster,
    };
    Ok(Arc::new(sabakan_kube::Kube::open(source).await?))
}

#[cfg(not(feature = "kubernetes"))]
async fn kubernetes(_access: &KubernetesAccess) -> anyhow::Result<Arc<dyn Kubernetes>> {
    anyhow::bail!("this program was built without Kubernetes: its feature `kubernetes` is off")
}

/// Starts planning and applying: from here on, changes of machines become changes of the cluster.
pub fn start(
    config: &ClusterConfig,
    foundation: &Arc<Foundation>,
    cluster: &Arc<Cluster>,
    tracker: &TaskTracker,
    stop: &CancellationToken,
) {
    if config.planner {
        tracker.spawn(planner::run(Arc::clone(foundation), Arc::clone(cluster), stop.clone()));
    }
    if let Some(nodes) = &cluster.options().nodes {
        tracker.spawn(Arc::clone(nodes).run(stop.clone()));
    }
    tracker.spawn(applier::run(Arc::clone(foundation), Arc::clone(cluster), stop.clone()));
}
