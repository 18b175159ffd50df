//! The interface every backend implements, in etcd's terms: revisioned keys, transactions that compare before they write,
//! prefix reads at a revision, watches from a revision, leases. `conformance` is its executable description.

use std::{fmt, future::Future, pin::Pin, time::Duration};

use bytes::Bytes;

/// The number of one committed transaction. Revisions only grow; `Revision::NONE` is before the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Revision(pub u64);

impl Revision {
    /// Before everything; as a compared `mod_revision` it means "the key does not exist".
    pub const NONE: Revision = Revision(0);

    /// The revision after this one: where a watch goes on that has seen everything up to here.
    pub fn next(self) -> Revision {
        Revision(self.0 + 1)
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Identifies a lease. Keys put under a lease vanish when it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseId(pub i64);

/// One key as it stands at some revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyValue {
    /// The whole key, prefix included.
    pub key: String,
    /// Its bytes.
    pub value: Bytes,
    /// When the key was last created.
    pub create_revision: Revision,
    /// When the key was last written.
    pub mod_revision: Revision,
    /// The lease it dies with, if any.
    pub lease: Option<LeaseId>,
}

/// A condition of a transaction. All must hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Compare {
    /// The key was last written at this revision; `Revision::NONE`: it does not exist.
    ModRevision(String, Revision),
    /// The key does not exist.
    Missing(String),
    /// The key exists.
    Exists(String),
    /// No key starts with this prefix.
    NoneWithPrefix(String),
}

/// A write of a transaction. One transaction must not name the same key twice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    /// Creates or replaces a key, optionally under a lease.
    Put {
        /// The key.
        key: String,
        /// Its new value.
        value: Bytes,
        /// The lease to bind it to; `None` unbinds.
        lease: Option<LeaseId>,
    },
    /// Removes a key; nothing happens when it is absent.
    Delete(String),
    /// Removes every key that starts with the prefix.
    DeletePrefix(String),
}

impl Op {
    /// A put without lease.
    pub fn put(key: impl Into<String>, value: impl Into<Bytes>) -> Op {
        Op::Put { key: key.into(), value: value.into(), lease: None }
    }
}

/// Writes that happen together, or, if a compare fails, not at all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Txn {
    /// Conditions, checked before anything is written.
    pub when: Vec<Compare>,
    /// Writes, all at one revision.
    pub then: Vec<Op>,
}

/// How a transaction ended. A conflict is an ordinary answer: re-read, ask the rule again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum TxnOutcome {
    /// Everything was written at this revision and is durable. A transaction that changes nothing may answer the current one.
    Committed(Revision),
    /// A compare did not hold; nothing was written.
    Conflicted,
}

/// What to read: keys with a prefix, in byte order, page by page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Range {
    /// Only keys starting with this.
    pub prefix: String,
    /// Only keys greater than this: the last key of the page before.
    pub after: Option<String>,
    /// As of this revision; `None`: now.
    pub at: Option<Revision>,
    /// At most this many keys.
    pub limit: usize,
}

impl Range {
    /// The first page of a prefix as it is now.
    pub fn first(prefix: impl Into<String>) -> Range {
        Range { prefix: prefix.into(), after: None, at: None, limit: crate::limits::PAGE_KEYS }
    }
}

/// One page of a range read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// Keys in byte order.
    pub items: Vec<KeyValue>,
    /// The revision the page shows. Ask for the next page at this revision to read a consistent whole.
    pub revision: Revision,
    /// Whether keys remain after the last one.
    pub more: bool,
}

/// Several keys read together; `values[i]` belongs to the i-th key asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// The keys, `None` where absent.
    pub values: Vec<Option<KeyValue>>,
    /// A revision at or after which every value was current.
    pub revision: Revision,
}

/// One change of one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The key has this value now.
    Put(KeyValue),
    /// The key is gone.
    Delete {
        /// The key.
        key: String,
        /// When it went.
        mod_revision: Revision,
    },
}

impl Event {
    /// The key that changed.
    pub fn key(&self) -> &str {
        match self {
            Event::Put(kv) => &kv.key,
            Event::Delete { key, .. } => key,
        }
    }

    /// When it changed.
    pub fn mod_revision(&self) -> Revision {
        match self {
            Event::Put(kv) => kv.mod_revision,
            Event::Delete { mod_revision, .. } => *mod_revision,
        }
    }
}

/// What a watch delivers: all events under its prefix up to `revision`, whole transactions only, in order. It may be empty; then
/// it only says that the watcher has missed nothing up to `revision`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchBatch {
    /// Everything up to and including this revision has been delivered.
    pub revision: Revision,
    /// The changes, in order of revision.
    pub events: Vec<Event>,
}

/// The backend's side of a watch.
pub trait WatchSource: Send {
    /// Waits for the next batch. After an error other than `Unavailable` the watch is over.
    fn next(&mut self) -> StoreFuture<'_, WatchBatch>;
}

/// A watch. Dropping it ends it.
pub type Watch = Box<dyn WatchSource>;

/// What a backend accepts in one transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TxnLimits {
    /// Most compares, and most writes.
    pub ops_max: usize,
    /// Most bytes of keys and values together.
    pub bytes_max: usize,
    /// Most bytes of one value.
    pub value_bytes_max: usize,
    /// What an operator turns to raise the first two, if anything.
    pub hint: &'static str,
}

/// Why the store did not do it.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Other writers won every race for these keys.
    #[error("lost {attempts} races for the same keys")]
    Conflict {
        /// How often it was tried.
        attempts: usize,
    },
    /// The store cannot be reached, or is stopping. Nothing was read or written.
    #[error("the store is not available: {reason}")]
    Unavailable {
        /// What was tried and what happened; holds no address and no credential.
        reason: String,
    },
    /// The store answers, or would, but no change can be made durable. Nothing was written.
    #[error("the store cannot write: {reason}; nothing was changed")]
    CannotWrite {
        /// Why, and what to do if that is known. Callers read it: no address, no path, no credential.
        reason: String,
    },
    /// A write was sent and its answer never came: it may or may not have happened.
    #[error("the store did not answer in time; whether the change was made is not known: {reason}")]
    OutcomeUnknown {
        /// What was tried and what happened. Callers read it: no address, no path, no credential.
        reason: String,
    },
    /// The history asked for is gone. Read the present and go on from there.
    #[error("revision {requested} is no longer in the store; it keeps history after {compacted}")]
    Compacted {
        /// What was asked for.
        requested: Revision,
        /// History up to here is gone.
        compacted: Revision,
    },
    /// More than the backend takes in one transaction.
    #[error("{what} of one transaction: {size}, the store accepts {limit}{hint}")]
    TooLarge {
        /// Which limit: operations, bytes, bytes of a value.
        what: &'static str,
        /// What was asked for.
        size: usize,
        /// The most that is accepted.
        limit: usize,
        /// How to raise it; empty, or starts with a separator.
        hint: &'static str,
    },
    /// The caller named the same key twice in one transaction, or a lease that does not exist.
    #[error("the transaction is not well formed: {reason}")]
    Invalid {
        /// What is wrong.
        reason: String,
    },
    /// What is stored cannot be what this program wrote.
    #[error("the stored data is damaged at {place}: {reason}")]
    Corrupt {
        /// Key or file.
        place: String,
        /// What is wrong with it.
        reason: String,
    },
}

/// A boxed future of a store operation, so that services can hold `Arc<dyn Store>`.
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// A revisioned key-value store.
pub trait Store: Send + Sync + 'static {
    /// Commits a transaction. When it returns `Committed` the writes are durable and every later read sees them.
    fn commit(&self, txn: Txn) -> StoreFuture<'_, TxnOutcome>;

    /// Reads several keys as they are now.
    fn get_many(&self, keys: Vec<String>) -> StoreFuture<'_, Snapshot>;

    /// Reads one page of a prefix.
    fn list(&self, range: Range) -> StoreFuture<'_, Page>;

    /// A revision at or after every commit acknowledged before this call, by any process. A watcher that has reached it has
    /// seen all of them.
    fn latest_commit(&self) -> StoreFuture<'_, Revision>;

    /// Watches a prefix from a revision on, that revision included. Batches arrive even when other prefixes change.
    fn watch(&self, prefix: String, from: Revision) -> StoreFuture<'_, Watch>;

    /// Opens a lease that ends unless kept alive within `ttl` (whole seconds; a backend may give more, never less).
    fn grant_lease(&self, ttl: Duration) -> StoreFuture<'_, LeaseId>;

    /// Extends a lease by its time to live; `false` when it has ended.
    fn keep_alive(&self, lease: LeaseId) -> StoreFuture<'_, bool>;

    /// Ends a lease and removes its keys. Ending one that has ended is fine.
    fn revoke_lease(&self, lease: LeaseId) -> StoreFuture<'_, ()>;

    /// Forgets history before `revision`: reads at and watches from earlier ones answer `Compacted` afterwards.
    fn compact(&self, revision: Revision) -> StoreFuture<'_, ()>;

    /// What one transaction may hold.
    fn limits(&self) -> TxnLimits;

    /// Whether a change could be made durable now; if not, the error says why. Changes nothing that anybody reads. A backend may
    /// answer from what it learned within the last seconds, so asking often costs nothing.
    fn check_writable(&self) -> StoreFuture<'_, ()> {
        Box::pin(async { self.latest_commit().await.map(drop) })
    }

    /// What is wrong with the stored data, if the backend found it damaged. Such a store takes no writes until somebody acts.
    fn damage(&self) -> Option<String> {
        None
    }
}

/// Refuses a transaction that exceeds `limits` or names a key twice, before it reaches a backend. Every backend calls this,
/// so that the same transaction gets the same answer everywhere.
pub fn check_limits(txn: &Txn, limits: &TxnLimits) -> Result<(), StoreError> {
    let too_large = |what, size, limit| Err(StoreError::TooLarge { what, size, limit, hint: limits.hint });
    let ops = txn.when.len().max(txn.then.len());
    if ops > limits.ops_max {
        return too_large("operations", ops, limits.ops_max);
    }
    let mut bytes = 0;
    let mut written = std::collections::HashSet::with_capacity(txn.then.len());
    for op in &txn.then {
        let (Op::Put { key, .. } | Op::Delete(key) | Op::DeletePrefix(key)) = op;
        bytes += key.len();
        if let Op::Put { value, .. } = op {
            if value.len() > limits.value_bytes_max {
                return too_large("bytes in one value", value.len(), limits.value_bytes_max);
            }
            bytes += value.len();
        }
        if !matches!(op, Op::DeletePrefix(_)) && !written.insert(key.as_str()) {
            return Err(StoreError::Invalid { reason: format!("key {key} is written twice") });
        }
    }
    for compare in &txn.when {
        let (Compare::ModRevision(key, _)
        | Compare::Missing(key)
        | Compare::Exists(key)
        | Compare::NoneWithPrefix(key)) = compare;
        bytes += key.len();
    }
    if bytes > limits.bytes_max {
        return too_large("bytes", bytes, limits.bytes_max);
    }
    for op in &txn.then {
        if let Op::DeletePrefix(prefix) = op
            && let Some(key) = written.iter().find(|key| key.starts_with(prefix.as_str()))
        {
            return Err(StoreError::Invalid {
                reason: format!("key {key} is written and its prefix {prefix} removed"),
            });
        }
    }
    Ok(())
}
