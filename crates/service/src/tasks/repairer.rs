//! Repairs machines and reboots nodes on one server among several: when something changed or ended, and by period.

use std::sync::Arc;

use sabakan_store::repo::leaders::Lead;
use tokio::{sync::watch, time::Instant};
use tokio_util::sync::CancellationToken;

use super::leader::{self, Task};
use crate::{
    Foundation, ServiceError,
    cluster::live_nodes,
    error_chain, limits,
    repair::{Repairs, TASK, Work},
};

/// Repairs until told to stop, whenever this server leads.
pub async fn run(on: Arc<Foundation>, repairs: Arc<Repairs>, stop: CancellationToken) {
    let options = repairs.options();
    let task = Task { name: TASK, server: options.server.clone(), lease: options.lease };
    let work = |lead: Lead, ends: CancellationToken| {
        let (on, repairs) = (Arc::clone(&on), Arc::clone(&repairs));
        async move {
            // What goes on in the background ends with it: the next leader must be the only one.
            let mut work = Work::default();
            tokio::select! {
                () = ends.cancelled() => {}
                () = cycles(&on, &repairs, &lead, &mut work) => {}
            }
            repairs.rests();
        }
    };
    leader::run(Arc::clone(&on), task, stop, work).await;
}

/// A cycle may be given up at any moment: each thing it writes is one transaction, which compares the lead.
async fn cycles(on: &Foundation, repairs: &Arc<Repairs>, lead: &Lead, work: &mut Work) {
    let mut moved = on.view.moved();
    let mut nodes = repairs.options().nodes.as_ref().map(|nodes| nodes.changes());
    loop {
        moved.mark_unchanged();
        nodes.iter_mut().for_each(watch::Receiver::mark_unchanged);
        let began = Instant::now();
        let mut again = false;
        // Looking at many machines costs time: a tenth of one core is spent on it, unless the period is shorter than that.
        let mut pause = limits::REPAIR_PAUSE;
        match repairs.cycle(lead, work).await {
            Ok(at_once) => again = at_once,
            Err(error) => {
                let chain = error_chain(&error);
                match error {
                    // Nothing goes on before a person has looked.
                    ServiceError::Damaged { .. } => {
                        tracing::error!(error = chain, task = TASK, "repair stands still");
                    }
                    _ => tracing::warn!(error = chain, task = TASK, "repair does not go on, trying again"),
                }
                repairs.gave_up();
                pause = limits::REPAIR_RETRY;
            }
        }
        pause = pause.max((began.elapsed() * 10).min(repairs.options().period));
        tokio::time::sleep(pause).await;
        if !again {
            tokio::select! {
                _ = moved.changed() => {}
                () = work.something_ends() => {}
                () = live_nodes::changed(&mut nodes) => {}
                () = tokio::time::sleep(repairs.options().period) => {}
            }
        }
    }
}
