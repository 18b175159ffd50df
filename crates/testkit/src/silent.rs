//! A store that answers no read once it has taken a certain change: whoever reads after writing finds out that the answer must not
//! depend on it.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use sabakan_store::{
    LeaseId, Op, Page, Range, Revision, Snapshot, Store, StoreError, StoreFuture, Txn, TxnLimits, TxnOutcome, Watch,
};

/// A store in front of another one. Watches go on, as they do when a store is merely slow.
pub struct SilentStore {
    inner: Arc<dyn Store>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// What a change has in one of its keys or values to be the one.
    mark: Option<String>,
    silent: bool,
}

impl SilentStore {
    /// In front of another store.
    pub fn new(inner: Arc<dyn Store>) -> Arc<SilentStore> {
        Arc::new(SilentStore { inner, state: Mutex::default() })
    }

    /// From the next change on that has `mark` in one of its keys or values, no read is answered.
    pub fn arm(&self, mark: &str) {
        *self.state() = State { mark: Some(mark.to_owned()), silent: false };
    }

    /// Answers again; whether the change was made.
    pub fn disarm(&self) -> bool {
        std::mem::take(&mut *self.state()).silent
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_marked(&self, txn: &Txn) -> bool {
        let state = self.state();
        let Some(mark) = &state.mark else { return false };
        txn.then.iter().any(|op| match op {
            Op::Put { key, value, .. } => key.contains(mark) || String::from_utf8_lossy(value).contains(mark),
            Op::Delete(key) | Op::DeletePrefix(key) => key.contains(mark),
        })
    }

    fn check(&self) -> Result<(), StoreError> {
        if self.state().silent {
            return Err(StoreError::Unavailable { reason: "silent after a commit".to_owned() });
        }
        Ok(())
    }
}

impl Store for SilentStore {
    fn commit(&self, txn: Txn) -> StoreFuture<'_, TxnOutcome> {
        Box::pin(async move {
            let marked = self.is_marked(&txn);
            let outcome = self.inner.commit(txn).await?;
            if marked && matches!(outcome, TxnOutcome::Committed(_)) {
                self.state().silent = true;
            }
            Ok(outcome)
        })
    }

    fn get_many(&self, keys: Vec<String>) -> StoreFuture<'_, Snapshot> {
        Box::pin(async move {
            self.check()?;
            self.inner.get_many(keys).await
        })
    }

    fn list(&self, range: Range) -> StoreFuture<'_, Page> {
        Box::pin(async move {
            self.check()?;
            self.inner.list(range).await
        })
    }

    fn latest_commit(&self) -> StoreFuture<'_, Revision> {
        Box::pin(async move {
            self.check()?;
            self.inner.latest_commit().await
        })
    }

    fn watch(&self, prefix: String, from: Revision) -> StoreFuture<'_, Watch> {
        self.inner.watch(prefix, from)
    }

    fn grant_lease(&self, ttl: Duration) -> StoreFuture<'_, LeaseId> {
        self.inner.grant_lease(ttl)
    }

    fn keep_alive(&self, lease: LeaseId) -> StoreFuture<'_, bool> {
        self.inner.keep_alive(lease)
    }

    fn revoke_lease(&self, lease: LeaseId) -> StoreFuture<'_, ()> {
        self.inner.revoke_lease(lease)
    }

    fn compact(&self, revision: Revision) -> StoreFuture<'_, ()> {
        self.inner.compact(revision)
    }

    fn limits(&self) -> TxnLimits {
        self.inner.limits()
    }
}
