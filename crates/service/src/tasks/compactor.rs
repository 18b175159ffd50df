//! Forgets old history of the embedded store, so that its file does not grow for ever. A shared etcd has its own setting for this
//! (`--auto-compaction-retention`); compacting it would also take history from its other users.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use sabakan_store::{Revision, Store};
use tokio_util::sync::CancellationToken;

use crate::error_chain;

/// How often history is looked at.
pub const TICK: Duration = Duration::from_secs(5 * 60);

/// How many ticks of history stay: an hour, for a reader that resumes after a restart or a long pause.
pub const TICKS_KEPT: usize = 12;

/// Forgets history until told to stop.
pub async fn run(store: Arc<dyn Store>, tick: Duration, stop: CancellationToken) {
    let mut seen: VecDeque<Revision> = VecDeque::with_capacity(TICKS_KEPT + 1);
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(tick) => {}
        }
        match store.latest_commit().await {
            Ok(revision) => seen.push_back(revision),
            Err(error) => {
                tracing::warn!(error = error_chain(&error), task = "compactor", "cannot tell the current revision");
                continue;
            }
        }
        if seen.len() <= TICKS_KEPT {
            continue;
        }
        let Some(revision) = seen.pop_front() else { continue };
        match store.compact(revision).await {
            Ok(()) => tracing::debug!(%revision, task = "compactor", "history forgotten"),
            Err(error) => tracing::warn!(error = error_chain(&error), task = "compactor", "history not forgotten"),
        }
    }
}
