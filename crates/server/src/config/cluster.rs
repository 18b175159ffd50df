//! Settings of the cluster: whether this server plans it, how often, from which machines, and for whom.

use std::time::Duration;

use super::{
    StoreConfig, defaults, limits,
    raw::help,
    sources::{Given, Sources},
    values,
};
use crate::cluster::{ClusterConfig, KubernetesAccess, KubernetesSettings, RegistrySettings};

/// Stands for the service account of a pod where a kubeconfig could be named.
pub(super) const IN_CLUSTER: &str = "in-cluster";

/// The flags of the cluster.
#[derive(Clone, Default, clap::Args)]
#[command(next_help_heading = "Cluster")]
pub struct ClusterFlags {
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        help = help("Plan the Kubernetes cluster, on one server among several; off, this server leaves it to others",
            defaults::YES))]
    pub cluster_planner: Option<String>,
    #[arg(long, value_name = "TIME",
        help = help("How often the cluster is planned when nothing changes", defaults::CLUSTER_PERIOD))]
    pub cluster_period: Option<String>,
    #[arg(long, value_name = "TIME",
        help = help("How long a change of the cluster is left to take effect before the next; 0 not at all",
            defaults::CLUSTER_SETTLE))]
    pub cluster_settle: Option<String>,
    #[arg(long, value_name = "URL",
        help = help("Plan with the machines of another sabakan, asked over GraphQL; /graphql is added unless it is there",
            "our own machines"))]
    pub cluster_registry_url: Option<String>,
    #[arg(long, value_name = "TIME",
        help = help("How long --cluster-registry-url may take to answer", defaults::CLUSTER_REGISTRY_TIMEOUT))]
    pub cluster_registry_timeout: Option<String>,
    #[arg(long, value_name = "PREFIX",
        help = help("Copy configuration and constraints to the keys below this prefix of etcd, where a CKE reads them, such as \
            /cke/", "none"))]
    pub cluster_mirror_prefix: Option<String>,
    #[arg(long, value_name = "FILE",
        help = help("How the Kubernetes API of the cluster is reached: a kubeconfig, or `in-cluster` in a pod of it; the planner \
            then knows the taints of its nodes", "none"))]
    pub cluster_kubeconfig: Option<String>,
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        help = help("Set labels, annotations and taints of existing nodes in Kubernetes as the configuration says, on one server \
            among several", defaults::NO))]
    pub cluster_apply: Option<String>,
}

/// Takes one setting out of the sources.
macro_rules! setting {
    ($from:ident, $name:literal, $field:ident) => {{
        let flag = $from.flags.cluster.$field.take();
        let lines = vec![($name, $from.file.$field.take())];
        $from.pick($name, flag, lines)
    }};
}

/// Everything about the cluster. Where the store is and what its keys start with are judged before.
pub fn cluster(from: &mut Sources<'_>, store: &StoreConfig, prefixes: [&str; 2]) -> ClusterConfig {
    let default = ClusterConfig::default();
    let planner = setting!(from, "cluster-planner", cluster_planner);
    let period = setting!(from, "cluster-period", cluster_period);
    let settle = setting!(from, "cluster-settle", cluster_settle);
    let mirror = setting!(from, "cluster-mirror-prefix", cluster_mirror_prefix);
    ClusterConfig {
        planner: from.check(&planner, values::boolean).unwrap_or(default.planner),
        period: from.check(&period, |text| values::time_within(text, limits::CLUSTER_PERIOD)).unwrap_or(default.period),
        settle: from.check(&settle, settle_time).unwrap_or(default.settle),
        registry: registry(from),
        mirror_prefix: mirror_prefix(from, &mirror, store, prefixes),
        kubernetes: kubernetes(from),
    }
}

fn registry(from: &mut Sources<'_>) -> Option<RegistrySettings> {
    let url = setting!(from, "cluster-registry-url", cluster_registry_url);
    let timeout = setting!(from, "cluster-registry-timeout", cluster_registry_timeout);
    if let Some(timeout) = timeout.as_ref().filter(|_| url.is_none()) {
        from.lacking(&*timeout.at, "needs --cluster-registry-url");
    }
    let time = from.check(&timeout, |text| values::time_within(text, limits::CLUSTER_REGISTRY_TIMEOUT));
    let timeout = time.unwrap_or(crate::cluster::REGISTRY_TIMEOUT);
    let url = from.check(&url, |text| values::url(text, &["http", "https"]))?;
    Some(RegistrySettings { url, timeout })
}

fn kubernetes(from: &mut Sources<'_>) -> Option<KubernetesSettings> {
    let kubeconfig = setting!(from, "cluster-kubeconfig", cluster_kubeconfig);
    let apply = setting!(from, "cluster-apply", cluster_apply);
    let applies = from.check(&apply, values::boolean).unwrap_or_default();
    if let Some(apply) = apply.as_ref().filter(|_| applies && kubeconfig.is_none()) {
        from.lacking(&*apply.at, "needs --cluster-kubeconfig");
    }
    let access = from.check(&kubeconfig, |text| match text {
        IN_CLUSTER => Ok(KubernetesAccess::InCluster),
        path => values::path(path).map(KubernetesAccess::Kubeconfig),
    })?;
    Some(KubernetesSettings { access, apply: applies })
}

fn settle_time(text: &str) -> Result<Duration, String> {
    if text == "0" { Ok(Duration::ZERO) } else { values::time_within(text, limits::CLUSTER_SETTLE) }
}

/// Copies are for a program that reads etcd, and must not stand where our own keys are.
fn mirror_prefix(
    from: &mut Sources<'_>,
    given: &Option<Given<String>>,
    store: &StoreConfig,
    prefixes: [&str; 2],
) -> Option<String> {
    let prefix = from.check(given, values::prefix)?;
    let at = given.as_ref().map(|given| given.at.clone()).unwrap_or_default();
    if *store == StoreConfig::Embedded {
        from.lacking(&*at, "needs --etcd-endpoints: what is copied can only be read from etcd");
    }
    if let Some(own) = prefixes.iter().find(|own| own.starts_with(&*prefix) || prefix.starts_with(**own)) {
        from.wrong(at, format!("{prefix:?} and our own {own:?} stand inside each other"));
    }
    Some(prefix)
}
