//! The store of the model, as one call sees it: reads are answered from one content, the first transaction is noted, and nothing is
//! answered after it. A call is so run from its beginning to its commit as if nobody else were there; what others do meanwhile is
//! the explorer's business.

use std::{
    future::{pending, ready},
    sync::{Arc, Mutex, PoisonError},
};

use sabakan_store::{Compare, KeyValue, LeaseId, Page, Range, Revision, Snapshot, Store, StoreFuture, Txn, TxnOutcome};

use super::{
    broken::Broken,
    clients::Action,
    world::{Keys, World},
};
use crate::model::{self, lock, rest_of_the_store};

/// The revision of a key that was not written since it was read. Revisions are only compared for equality with the present one.
const FRESH: Revision = Revision(2);
/// The revision of a lock for the worker that took it.
const MINE: Revision = Revision(3);
/// The lease of that worker.
pub const LEASE: LeaseId = LeaseId(1);
const OTHER_LEASE: LeaseId = LeaseId(2);

/// One content of the store, answering one call.
pub struct Desk {
    world: Arc<World>,
    /// Whether the caller is the worker that holds the lock.
    holder: bool,
    action: Action,
    broken: Broken,
    noted: Mutex<Noted>,
}

/// What a call did.
#[derive(Debug, Default)]
pub struct Noted {
    /// What it read.
    pub reads: Keys,
    /// What it commits, if all compares hold.
    pub txn: Option<Txn>,
}

impl Desk {
    pub fn new(world: &Arc<World>, holder: bool, action: Action, broken: Broken) -> Desk {
        Desk { world: Arc::clone(world), holder, action, broken, noted: Mutex::default() }
    }

    /// Runs a call as far as it comes. What it answers is nobody's concern: what it commits is noted.
    pub fn run<T>(&self, call: impl Future<Output = T>) {
        drop(self.result_of(call));
    }

    /// The same, with the answer. `None`: it goes on after its commit.
    pub fn result_of<T>(&self, call: impl Future<Output = T>) -> Option<T> {
        model::run(call)
    }

    pub fn noted(self) -> Noted {
        self.noted.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    fn stored(&self, key: &str) -> Option<KeyValue> {
        let value = self.world.stored.get(key)?.clone();
        let lock = Keys::of(key) == Keys::LOCK;
        let mod_revision = if lock && self.holder { MINE } else { FRESH };
        let lease = lock.then_some(if self.holder { LEASE } else { OTHER_LEASE });
        Some(KeyValue { key: key.to_owned(), value, create_revision: mod_revision, mod_revision, lease })
    }

    fn holds(&self, compare: &Compare) -> bool {
        let exists = |key: &String| self.world.stored.contains_key(key);
        match compare {
            Compare::ModRevision(key, Revision::NONE) | Compare::Missing(key) => !exists(key),
            Compare::ModRevision(key, revision) => self.stored(key).is_some_and(|kv| kv.mod_revision == *revision),
            Compare::Exists(key) => exists(key),
            Compare::NoneWithPrefix(prefix) => !self.world.stored.keys().any(|key| key.starts_with(prefix.as_str())),
        }
    }
}

impl Store for Desk {
    fn commit(&self, mut txn: Txn) -> StoreFuture<'_, TxnOutcome> {
        self.broken.send(self.action, &mut txn);
        if lock(&self.noted).txn.is_some() || !txn.when.iter().all(|compare| self.holds(compare)) {
            return Box::pin(pending());
        }
        // Nothing is written: as good as a read.
        if !txn.then.is_empty() {
            lock(&self.noted).txn = Some(txn);
        }
        Box::pin(ready(Ok(TxnOutcome::Committed(MINE))))
    }

    fn get_many(&self, keys: Vec<String>) -> StoreFuture<'_, Snapshot> {
        if lock(&self.noted).txn.is_some() {
            return Box::pin(pending());
        }
        let mut values: Vec<Option<KeyValue>> = keys.iter().map(|key| self.stored(key)).collect();
        for (key, value) in keys.iter().zip(&mut values) {
            lock(&self.noted).reads |= Keys::of(key);
            self.broken.show(self.action, key, value);
        }
        Box::pin(ready(Ok(Snapshot { values, revision: FRESH })))
    }

    fn list(&self, range: Range) -> StoreFuture<'_, Page> {
        if lock(&self.noted).txn.is_some() {
            return Box::pin(pending());
        }
        lock(&self.noted).reads |= Keys::of(&range.prefix);
        let found = self.world.stored.keys().filter(|key| key.starts_with(range.prefix.as_str()));
        let items: Vec<KeyValue> = found.take(range.limit).filter_map(|key| self.stored(key)).collect();
        Box::pin(ready(Ok(Page { items, revision: FRESH, more: false })))
    }

    rest_of_the_store!();
}
