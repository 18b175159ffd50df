//! Plans the cluster on one server among several: when something changed, and by period.

use std::sync::Arc;

use sabakan_store::repo::leaders::Lead;
use tokio::{sync::watch, time::Instant};
use tokio_util::sync::CancellationToken;

use super::leader::{self, Task};
use crate::{
    Foundation,
    cluster::{Cluster, RoundEnd, TASK, live_nodes},
    error_chain, limits,
};

/// Plans until told to stop, whenever this server leads.
pub async fn run(on: Arc<Foundation>, cluster: Arc<Cluster>, stop: CancellationToken) {
    let options = cluster.options();
    let task = Task { name: TASK, server: options.server.clone(), lease: options.lease };
    let work = |lead: Lead, ends: CancellationToken| {
        let (on, cluster) = (Arc::clone(&on), Arc::clone(&cluster));
        async move {
            rounds(&on, &cluster, &lead, &ends).await;
            cluster.rests();
        }
    };
    leader::run(Arc::clone(&on), task, stop, work).await;
}

async fn rounds(on: &Foundation, cluster: &Cluster, lead: &Lead, ends: &CancellationToken) {
    let mut moved = on.view.moved();
    let mut nodes = cluster.options().nodes.as_ref().map(|nodes| nodes.changes());
    let mut first = true;
    while !ends.is_cancelled() {
        moved.mark_unchanged();
        nodes.iter_mut().for_each(watch::Receiver::mark_unchanged);
        let began = Instant::now();
        let mut again = false;
        // A round may be given up at any moment: what it writes is one transaction, which compares the lead.
        let round = tokio::select! {
            () = ends.cancelled() => return,
            round = cluster.round(lead, first) => round,
        };
        // Planning costs time in proportion to the machines: a tenth of one core is spent on it, unless the period is shorter than that.
        let mut pause = limits::PLAN_PAUSE.max((began.elapsed() * 10).min(cluster.options().period));
        match round {
            Ok(round) => {
                // After the first round, the ordinary one follows at once.
                again = first || round.end == RoundEnd::Overtaken;
                first = false;
            }
            Err(error) => {
                tracing::warn!(error = error_chain(&error), task = TASK, "no plan, trying again");
                pause = pause.max(limits::PLAN_RETRY);
            }
        }
        let wait = async {
            tokio::time::sleep(pause).await;
            if !again {
                tokio::select! {
                    _ = moved.changed() => {}
                    () = live_nodes::changed(&mut nodes) => {}
                    () = tokio::time::sleep(cluster.options().period) => {}
                }
            }
        };
        tokio::select! {
            () = ends.cancelled() => {}
            () = wait => {}
        }
    }
}
