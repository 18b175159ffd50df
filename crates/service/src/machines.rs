//! Registering, finding and removing machines.

use std::sync::Arc;

use jiff::Timestamp;
use sabakan_domain::{
    ipam::OutsidePool,
    machine::{Machine, NewMachine},
    query::Query,
    words::Serial,
};
use sabakan_store::{Store, StoreError, keys::Keys, repo::machines, view::View};
use tokio::sync::{Mutex, MutexGuard};

use crate::{Clock, Foundation, ServiceError, limits};

/// Registers, finds and removes machines.
pub struct Machines {
    store: Arc<dyn Store>,
    keys: Keys,
    view: Arc<View>,
    clock: Arc<dyn Clock>,
    outside_pool: OutsidePool,
    /// Changes of index lists in this process queue here instead of racing: a burst of registrations into one rack would otherwise
    /// lose most of its work to conflicts. Between servers the transaction decides.
    index_changes: Mutex<()>,
}

impl Machines {
    /// Works on a foundation.
    pub fn new(on: &Foundation) -> Machines {
        Machines {
            store: Arc::clone(&on.store),
            keys: on.keys.clone(),
            view: Arc::clone(&on.view),
            clock: Arc::clone(&on.clock),
            outside_pool: on.outside_pool,
            index_changes: Mutex::new(()),
        }
    }

    /// Registers machines, all or none.
    pub async fn register(&self, new: &[NewMachine]) -> Result<Vec<Machine>, ServiceError> {
        let _turn = self.turn().await?;
        let now = self.clock.now();
        let done = machines::register(&*self.store, &self.keys, new, self.outside_pool, now).await?;
        tracing::info!(count = done.machines.len(), "machines registered");
        for rack in done.outside_pool {
            tracing::warn!(%rack, "addresses of this rack are outside of their pool");
        }
        Ok(done.machines)
    }

    /// Every machine a search means, in byte order of serials, and the time to show them at.
    pub async fn search(&self, query: &Query) -> Result<(Vec<Arc<Machine>>, Timestamp), ServiceError> {
        let snapshot = self.view.read().await?;
        let now = self.clock.now();
        if snapshot.cost(query) <= limits::SEARCH_INLINE_MAX {
            return Ok((snapshot.search(query), now));
        }
        let query = query.clone();
        let found = tokio::task::spawn_blocking(move || snapshot.search(&query)).await;
        let stopped = |_| StoreError::Unavailable { reason: "the server is stopping".to_owned() };
        Ok((found.map_err(stopped)?, now))
    }

    /// Waits for the turn, not for long: who has not begun has certainly changed nothing, and can be told so.
    async fn turn(&self) -> Result<MutexGuard<'_, ()>, ServiceError> {
        let waited = tokio::time::timeout(limits::TURN_WAIT_MAX, self.index_changes.lock()).await;
        waited.map_err(|_| ServiceError::Busy)
    }

    /// Removes a machine; refused unless it is retired.
    pub async fn remove(&self, serial: &Serial) -> Result<(), ServiceError> {
        let _turn = self.turn().await?;
        machines::remove(&*self.store, &self.keys, serial).await?;
        tracing::info!(%serial, "machine removed");
        Ok(())
    }
}
