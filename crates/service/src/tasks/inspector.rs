//! Looks for damage in the file of the embedded store: once after the start, then daily. What it finds is told by the store, which writes
//! nothing from then on.

use std::sync::Arc;

use sabakan_store::embedded::{EmbeddedStore, Inspection};
use tokio_util::sync::CancellationToken;

use crate::{error_chain, limits};

/// Looks until told to stop, or until damage is found: a damaged file does not become whole while it is open.
pub async fn run(store: Arc<EmbeddedStore>, stop: CancellationToken) {
    loop {
        let (looked, stopped) = (Arc::clone(&store), stop.clone());
        let look = tokio::task::spawn_blocking(move || looked.inspect(move || !stopped.is_cancelled()));
        match look.await {
            Ok(Ok(Inspection::Sound)) => tracing::debug!(task = "inspector", "the data file is sound"),
            Ok(Ok(Inspection::Damaged)) => return,
            Ok(Ok(Inspection::Unfinished)) if stop.is_cancelled() => return,
            Ok(Ok(Inspection::Unfinished)) => {
                tracing::warn!(task = "inspector", "the look for damage took too long and was given up until tomorrow");
            }
            Ok(Err(error)) => {
                tracing::warn!(error = error_chain(&error), task = "inspector", "cannot look for damage");
            }
            Err(error) => tracing::error!(error = %error, task = "inspector", "the look for damage broke off"),
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(limits::INSPECTION_EVERY) => {}
        }
    }
}
