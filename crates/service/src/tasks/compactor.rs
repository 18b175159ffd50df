//! Forgets old history of the embedded store, so that its file does not grow for ever. A shared etcd has its own setting for this
//! (`--auto-compaction-retention`); compacting it would also take history from its other users.

use std::{collections::VecDeque, sync::Arc};

use sabakan_store::{Revision, Store};
use tokio_util::sync::CancellationToken;

use crate::{error_chain, limits, metrics::Succeeded};

/// Forgets history until told to stop.
pub async fn run(store: Arc<dyn Store>, succeeded: Succeeded, stop: CancellationToken) {
    let mut seen: VecDeque<Revision> = VecDeque::with_capacity(limits::COMPACTION_TICKS_KEPT + 1);
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(limits::COMPACTION_TICK) => {}
        }
        match store.latest_commit().await {
            Ok(revision) => seen.push_back(revision),
            Err(error) => {
                tracing::warn!(error = error_chain(&error), task = "compactor", "cannot tell the current revision");
                continue;
            }
        }
        if seen.len() <= limits::COMPACTION_TICKS_KEPT {
            continue;
        }
        let Some(revision) = seen.pop_front() else { continue };
        match store.compact(revision).await {
            Ok(()) => {
                succeeded.mark();
                tracing::debug!(%revision, task = "compactor", "history forgotten");
            }
            Err(error) => tracing::warn!(error = error_chain(&error), task = "compactor", "history not forgotten"),
        }
    }
}
