//! Wires repair: where its facts come from, and the task that repairs and reboots.

use std::{sync::Arc, time::Duration};

use sabakan_service::{
    Foundation, Nodes,
    cluster::{Cluster, kubernetes::Applier},
    repair::{RepairOptions, Repairs},
    tasks::repairer,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// What repair has to know before it starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepairConfig {
    /// Whether this server repairs, when it leads. Requests are answered all the same.
    pub repairer: bool,
    /// How often everything is looked at when nothing changes.
    pub period: Duration,
}

impl Default for RepairConfig {
    fn default() -> RepairConfig {
        RepairConfig { repairer: true, period: RepairOptions::default().period }
    }
}

/// Repair, for requests and for the task. It looks at the registry the cluster is planned from, and drains nodes where their
/// configuration is applied: a server that only reads Kubernetes changes nothing there.
pub fn open(
    config: &RepairConfig,
    foundation: &Arc<Foundation>,
    nodes: &Arc<Nodes>,
    cluster: &Cluster,
) -> Arc<Repairs> {
    let planned = cluster.options();
    let options = RepairOptions {
        registry: planned.registry.clone(),
        nodes: planned.nodes.clone(),
        kubernetes: planned.applier.as_deref().map(Applier::kubernetes),
        server: planned.server.clone(),
        period: config.period,
        ..RepairOptions::default()
    };
    Arc::new(Repairs::new(Arc::clone(foundation), Arc::clone(nodes), options))
}

/// Starts repairing: from here on, reports about machines become repairs.
pub fn start(
    config: &RepairConfig,
    foundation: &Arc<Foundation>,
    repairs: &Arc<Repairs>,
    tracker: &TaskTracker,
    stop: &CancellationToken,
) {
    if config.repairer {
        tracker.spawn(repairer::run(Arc::clone(foundation), Arc::clone(repairs), stop.clone()));
    }
}
