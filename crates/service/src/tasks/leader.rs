//! One server among several does a task: whoever holds its key in the store, as long as its lease lives. Everything the task writes
//! compares that key, so that a server which lost the lead without noticing cannot write.

use std::{future::Future, sync::Arc, time::Duration};

use sabakan_store::repo::leaders::{self, Lead};
use tokio_util::sync::CancellationToken;

use super::lease::{self, Lease};
use crate::{Foundation, error_chain, limits};

/// A task that one server among several does.
pub(super) struct Task {
    /// Its name: the key it is led under, and the word in logs.
    pub(super) name: &'static str,
    /// This server.
    pub(super) server: String,
    /// How long the lead outlives its server.
    pub(super) lease: Duration,
}

/// Waits for the lead, does the work while it lasts, and begins again when it is lost. `work` returns when the token it gets is
/// cancelled: the lead is lost, or the server stops.
pub(super) async fn run<F>(
    on: Arc<Foundation>,
    task: Task,
    stop: CancellationToken,
    work: impl Fn(Lead, CancellationToken) -> F,
) where
    F: Future<Output = ()>,
{
    while !stop.is_cancelled() {
        match Lease::obtain(&on, task.name, task.lease).await {
            Ok(lease) => under(&on, &task, &stop, Arc::new(lease), &work).await,
            Err(error) => {
                tracing::warn!(error = error_chain(&error), task = task.name, "no lease, trying again");
                pause(&stop, limits::LEADER_RETRY).await;
            }
        }
    }
}

/// Waits and works under one lease.
async fn under<F>(
    on: &Arc<Foundation>,
    task: &Task,
    stop: &CancellationToken,
    lease: Arc<Lease>,
    work: &impl Fn(Lead, CancellationToken) -> F,
) where
    F: Future<Output = ()>,
{
    let keeping = tokio::spawn(lease::keep(Arc::clone(on), Arc::clone(&lease)));
    let mut moved = on.view.moved();
    while !stop.is_cancelled() && !lease.is_lost() {
        match leaders::claim(&*on.store, &on.keys, task.name, &task.server, lease.id).await {
            Ok(Some(lead)) => {
                tracing::info!(task = task.name, server = task.server, "leading");
                let ends = stop.child_token();
                let working = work(lead, ends.clone());
                tokio::pin!(working);
                tokio::select! {
                    () = &mut working => {}
                    () = lease.lost() => {
                        tracing::warn!(task = task.name, "the lead is lost; another server may have it");
                        ends.cancel();
                        working.await;
                    }
                }
                break;
            }
            // Another server leads. Its key vanishes with it, which moves the view.
            Ok(None) => {
                tokio::select! {
                    () = stop.cancelled() => {}
                    () = lease.lost() => {}
                    () = async {
                        tokio::time::sleep(limits::LEADER_PAUSE).await;
                        let _woken_or_later = tokio::time::timeout(limits::LEADER_TICK, moved.changed()).await;
                    } => {}
                }
            }
            // Whether the claim was written may not be known. If it was, the key is held by this very lease: as long as that is kept
            // alive nobody leads, this server neither. So it ends, and the next claim is made under another.
            Err(error) => {
                tracing::warn!(error = error_chain(&error), task = task.name, "cannot tell who leads, trying again");
                pause(stop, limits::LEADER_RETRY).await;
                break;
            }
        }
    }
    keeping.abort();
    lease.end(on).await;
}

async fn pause(stop: &CancellationToken, time: Duration) {
    tokio::select! {
        () = stop.cancelled() => {}
        () = tokio::time::sleep(time) => {}
    }
}
