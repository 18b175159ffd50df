//! The lease of a server: as long as it lives, what it holds in the store is its own: nodes it works on, tasks it leads. Time is the
//! store's, not ours: it alone decides when a lease has ended.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use sabakan_store::{LeaseId, StoreError};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::{Foundation, error_chain};

pub(super) struct Lease {
    pub(super) id: LeaseId,
    /// Whose it is, for those who read logs.
    task: &'static str,
    time: Duration,
    /// When the last renewal that the store confirmed was asked for: from then on it counts.
    renewed: Mutex<Instant>,
    lost: CancellationToken,
}

impl Lease {
    /// Opens a lease.
    pub(super) async fn obtain(on: &Foundation, task: &'static str, time: Duration) -> Result<Lease, StoreError> {
        let renewed = Mutex::new(Instant::now());
        let id = on.store.grant_lease(time).await?;
        Ok(Lease { id, task, time, renewed, lost: CancellationToken::new() })
    }

    /// When the store may have ended it, unless it is renewed before.
    fn ends(&self) -> Instant {
        *self.renewed.lock().expect("no holder of this lock panics") + self.time
    }

    /// Whether the store may have ended it, told or not.
    pub(super) fn has_ended(&self) -> bool {
        self.is_lost() || Instant::now() >= self.ends()
    }

    /// Everybody who works under it drops what they do. It still lives in the store.
    pub(super) fn give_up(&self) {
        self.lost.cancel();
    }

    pub(super) fn is_lost(&self) -> bool {
        self.lost.is_cancelled()
    }

    /// Returns when the lease is lost, or may be.
    pub(super) async fn lost(&self) {
        self.lost.cancelled().await;
    }

    /// Ends the lease in good order.
    pub(super) async fn end(&self, on: &Foundation) {
        if let Err(error) = on.store.revoke_lease(self.id).await {
            tracing::warn!(error = error_chain(&error), task = self.task, "the lease was not ended; it ends by itself");
        }
    }
}

/// Renews a lease at a third of its time. Without an answer for the whole of it, it counts as lost here, and not a moment later: the
/// store may have given what it holds to others.
pub(super) async fn keep(on: Arc<Foundation>, lease: Arc<Lease>) {
    while !lease.has_ended() {
        tokio::time::sleep_until(lease.ends().min(Instant::now() + lease.time / 3)).await;
        let asked = Instant::now();
        let until = lease.ends().min(asked + lease.time / 3);
        match tokio::time::timeout_at(until, on.store.keep_alive(lease.id)).await {
            Ok(Ok(true)) => *lease.renewed.lock().expect("no holder of this lock panics") = asked,
            Ok(Ok(false)) => break,
            Ok(Err(error)) => {
                tracing::warn!(error = error_chain(&error), task = lease.task, "the lease was not renewed");
            }
            Err(_) => tracing::warn!(task = lease.task, "the lease was not renewed in time"),
        }
    }
    lease.lost.cancel();
}
