//! Forgets audit entries that are older than the operator wants to keep them.

use std::{sync::Arc, time::Duration};

use sabakan_store::repo::audit;
use tokio_util::sync::CancellationToken;

use crate::{Foundation, error_chain, metrics::Succeeded};

/// How often old entries are looked for. Several servers on one store may do it; who comes second finds nothing.
const TICK: Duration = Duration::from_secs(60 * 60);

/// Forgets until told to stop.
pub async fn run(on: Arc<Foundation>, days: u32, succeeded: Succeeded, stop: CancellationToken) {
    loop {
        let oldest = audit::days_before(on.clock.now(), days);
        match audit::forget_before(&*on.store, &on.keys, oldest).await {
            Ok(count) => {
                succeeded.mark();
                if count > 0 {
                    tracing::info!(count, days, task = "retention", "old audit entries forgotten");
                }
            }
            Err(error) => {
                tracing::warn!(error = error_chain(&error), task = "retention", "audit entries not forgotten");
            }
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(TICK) => {}
        }
    }
}
