//! A store that is written to under conditions: whoever acts for a task must not write once another server has it, whichever of the many
//! changes of this module is made.

use std::{sync::Arc, time::Duration};

use crate::{Compare, LeaseId, Page, Range, Revision, Snapshot, Store, StoreFuture, Txn, TxnLimits, TxnOutcome, Watch};

/// A store in which every transaction compares more than it says. A change that cannot be made because of that ends as one that lost
/// every race.
pub struct Conditional {
    store: Arc<dyn Store>,
    when: Vec<Compare>,
}

impl Conditional {
    /// Writes to `store` only as long as all of `when` holds.
    pub(super) fn new(store: Arc<dyn Store>, when: Vec<Compare>) -> Conditional {
        Conditional { store, when }
    }
}

impl Store for Conditional {
    fn commit(&self, mut txn: Txn) -> StoreFuture<'_, TxnOutcome> {
        txn.when.extend_from_slice(&self.when);
        self.store.commit(txn)
    }

    fn get_many(&self, keys: Vec<String>) -> StoreFuture<'_, Snapshot> {
        self.store.get_many(keys)
    }

    fn list(&self, range: Range) -> StoreFuture<'_, Page> {
        self.store.list(range)
    }

    fn latest_commit(&self) -> StoreFuture<'_, Revision> {
        self.store.latest_commit()
    }

    fn watch(&self, prefix: String, from: Revision) -> StoreFuture<'_, Watch> {
        self.store.watch(prefix, from)
    }

    fn grant_lease(&self, ttl: Duration) -> StoreFuture<'_, LeaseId> {
        self.store.grant_lease(ttl)
    }

    fn keep_alive(&self, lease: LeaseId) -> StoreFuture<'_, bool> {
        self.store.keep_alive(lease)
    }

    fn revoke_lease(&self, lease: LeaseId) -> StoreFuture<'_, ()> {
        self.store.revoke_lease(lease)
    }

    fn compact(&self, revision: Revision) -> StoreFuture<'_, ()> {
        self.store.compact(revision)
    }

    fn limits(&self) -> TxnLimits {
        let limits = self.store.limits();
        TxnLimits { ops_max: limits.ops_max.saturating_sub(self.when.len()), ..limits }
    }

    fn check_writable(&self) -> StoreFuture<'_, ()> {
        self.store.check_writable()
    }
}
