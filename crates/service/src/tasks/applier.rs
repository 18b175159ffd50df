//! Brings labels, annotations and taints of live Nodes to what the configuration says, on one server among several: when the
//! configuration changed, and by period, because others change Nodes too.
//!
//! Nodes that Kubernetes does not know are reported and never created; Nodes that are not in the configuration are never touched.
//! Every request compares what it must, so that a server which lost the lead without noticing can at worst apply what was right a
//! moment ago, and the next round of the new leader puts it right.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use sabakan_domain::cluster::{
    attributes::{self, Attributes},
    config::Configuration,
    live_node::{self, LiveNode},
};
use sabakan_drivers::kubernetes::{Kubernetes, KubernetesError};
use sabakan_store::{Revision, repo::leaders::Lead};
use tokio::{task::JoinSet, time::Instant};
use tokio_util::sync::CancellationToken;

use super::leader::{self, Task};
use crate::{
    Foundation, ServiceError,
    cluster::{
        Cluster,
        kubernetes::{Applier, Progress},
        live_nodes,
    },
    error_chain, limits,
};

/// The name it is led under.
pub const TASK: &str = "cluster-nodes";

/// Applies until told to stop, whenever this server leads. Does nothing where nobody shall apply.
pub async fn run(on: Arc<Foundation>, cluster: Arc<Cluster>, stop: CancellationToken) {
    let options = cluster.options();
    let Some(applier) = options.applier.clone() else { return };
    let task = Task { name: TASK, server: options.server.clone(), lease: options.lease };
    let work = |_lead: Lead, ends: CancellationToken| {
        let (on, cluster, applier) = (Arc::clone(&on), Arc::clone(&cluster), Arc::clone(&applier));
        async move {
            applier.progress.send_modify(|progress| progress.leading = true);
            rounds(&on, &cluster, &applier, &ends).await;
            applier.progress.send_modify(|progress| progress.leading = false);
        }
    };
    leader::run(Arc::clone(&on), task, stop, work).await;
}

async fn rounds(on: &Foundation, cluster: &Cluster, applier: &Applier, ends: &CancellationToken) {
    let mut moved = on.view.moved();
    let mut nodes = Some(applier.nodes.changes());
    let mut known = None;
    let mut due = Instant::now();
    // Doubles before it is used.
    let mut pause = limits::APPLY_RETRY / 2;
    while !ends.is_cancelled() {
        moved.mark_unchanged();
        let began = Instant::now();
        match changed(cluster, known, due).await {
            Ok(None) => {}
            Ok(Some((revision, configuration))) => {
                let is_done = match &configuration {
                    Some(configuration) => round(on, applier, configuration, ends).await,
                    None => true,
                };
                pause = if is_done { limits::APPLY_RETRY / 2 } else { (pause * 2).min(applier.period) };
                due = Instant::now() + if is_done { applier.period } else { pause };
                known = Some(revision);
            }
            Err(error) => {
                tracing::warn!(error = error_chain(&error), task = TASK, "configuration not read, trying again");
                due = Instant::now() + limits::APPLY_RETRY;
            }
        }
        let wait = async {
            tokio::time::sleep(limits::APPLY_PAUSE).await;
            tokio::select! {
                _ = moved.changed() => {}
                () = tokio::time::sleep_until(due) => {}
                () = live_nodes::changed(&mut nodes) => due = due.min(began + limits::APPLY_NODES_PAUSE),
            }
        };
        tokio::select! {
            () = ends.cancelled() => {}
            () = wait => {}
        }
    }
}

/// The configuration, and a revision it is not older than; `None`: it is the known one, and nothing is due.
async fn changed(
    cluster: &Cluster,
    known: Option<Revision>,
    due: Instant,
) -> Result<Option<(Revision, Option<Configuration>)>, ServiceError> {
    let revision = cluster.configuration_revision().await?;
    if known == Some(revision) && Instant::now() < due {
        return Ok(None);
    }
    Ok(Some((revision, cluster.configuration().await?)))
}

/// Looks at all Nodes and changes those that differ. Whether every one of them is as it shall be now.
async fn round(on: &Foundation, applier: &Applier, configuration: &Configuration, ends: &CancellationToken) -> bool {
    let mut progress = Progress { nodes: configuration.nodes.len(), ..Progress::default() };
    let listed = tokio::select! {
        () = ends.cancelled() => return false,
        listed = applier.nodes.read() => listed,
    };
    match listed {
        Ok(live) => {
            let work = differing(configuration, &live, &mut progress);
            change(&applier.kubernetes, work, &mut progress, ends).await;
        }
        Err(reason) => progress.problem = Some(reason),
    }
    if ends.is_cancelled() {
        return false;
    }
    let is_done = progress.problem.is_none() && progress.failed == 0;
    if let Some(reason) = progress.problem.as_ref().or_else(|| progress.failed_named.values().next()) {
        tracing::warn!(reason, failed = progress.failed, task = TASK, "not every node is as the configuration says");
    }
    if progress.missing > 0 && progress.missing_named != applier.progress.borrow().missing_named {
        let (missing, named) = (progress.missing, progress.missing_named.join(" "));
        tracing::warn!(missing, named, task = TASK, "kubernetes does not know nodes of the configuration");
    }
    let now = on.clock.now();
    applier.progress.send_modify(|last| {
        progress.leading = last.leading;
        progress.rounds = last.rounds + 1;
        progress.last_round = Some(now);
        progress.last_success = if is_done { Some(now) } else { last.last_success };
        progress.changed += last.changed;
        *last = progress;
    });
    is_done
}

/// The Nodes that are not as they shall be. Takes note of the others.
fn differing(
    configuration: &Configuration,
    live: &[Arc<LiveNode>],
    progress: &mut Progress,
) -> Vec<(Attributes, LiveNode)> {
    let taint_control_plane = attributes::taints_control_planes(configuration);
    let mut work = Vec::new();
    for (node, found) in configuration.nodes.iter().zip(live_node::find(configuration, live)) {
        let Some(live) = found.found().map(|at| &*live[at]) else {
            progress.miss(attributes::name(node));
            continue;
        };
        let wanted = attributes::wanted(node, taint_control_plane);
        match attributes::next_step(&wanted, live) {
            Some(_) => work.push((wanted, live.clone())),
            None => progress.as_wanted += 1,
        }
    }
    work
}

/// Changes the Nodes, some at once, until all are done or Kubernetes says something that is not about one Node.
async fn change(
    kubernetes: &Arc<dyn Kubernetes>,
    work: Vec<(Attributes, LiveNode)>,
    progress: &mut Progress,
    ends: &CancellationToken,
) {
    let mut work = work.into_iter();
    let mut running = JoinSet::new();
    loop {
        while running.len() < limits::APPLIED_AT_ONCE && progress.problem.is_none() {
            let Some((wanted, live)) = work.next() else { break };
            let kubernetes = Arc::clone(kubernetes);
            running.spawn(async move {
                let name = live.name.clone();
                (name, bring(&*kubernetes, &wanted, live).await)
            });
        }
        let done = tokio::select! {
            // Requests may be given up at any moment: each is complete by itself.
            () = ends.cancelled() => return running.shutdown().await,
            done = running.join_next() => done,
        };
        match done {
            None => return,
            Some(Ok((name, Ok(steps)))) => {
                progress.as_wanted += 1;
                progress.changed += 1;
                tracing::info!(node = name, steps, task = TASK, "node changed as the configuration says");
            }
            Some(Ok((name, Err(error)))) => {
                tracing::debug!(node = name, error = error_chain(&error), task = TASK, "node not changed");
                if !error.is_about_one_node() {
                    progress.problem = Some(error.to_string());
                }
                progress.fail(name, error.to_string());
            }
            Some(Err(error)) => {
                tracing::error!(%error, task = TASK, "a change of a node ended without an answer");
                progress.problem = Some("a change of a node ended without an answer".to_owned());
            }
        }
    }
}

/// Takes steps on one Node until it is as it shall be; how many it took.
async fn bring(kubernetes: &dyn Kubernetes, wanted: &Attributes, mut live: LiveNode) -> Result<usize, KubernetesError> {
    let (mut steps, mut lost) = (0, 0);
    while let Some(step) = attributes::next_step(wanted, &live) {
        if steps == limits::APPLY_STEPS_MAX {
            let what = "keep what is applied".to_owned();
            let reason = "another program changes the same labels, annotations or taints".to_owned();
            return Err(KubernetesError::Rejected { what, reason });
        }
        match kubernetes.take(&live, &step).await {
            Ok(now) => {
                live = now;
                steps += 1;
            }
            Err(error @ KubernetesError::Conflict(_)) => {
                lost += 1;
                let again = if lost < limits::APPLY_ATTEMPTS { kubernetes.find(&live.name).await? } else { None };
                // One that has its name now is another Node. Whether it is meant is found out in the next round.
                live = again.filter(|now| now.uid == live.uid).ok_or(error)?;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(steps)
}
