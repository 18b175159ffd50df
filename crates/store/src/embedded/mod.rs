//! The default backend: one SQLite file, one writer thread, durable at commit.
//!
//! - `writer` owns the only connection that writes; concurrent commits share one flush.
//! - `read` has a few read-only connections; `watch` pulls from `recent` (memory) or from the file.
//! - `rows` is the stored format; `sweep` is compaction; `open` and `check` are for the first and the worst day of a file.
//!
//! It knows nothing about what the values mean. One process uses a file at a time: `<file>.lock` is locked while it is open.

mod apply;
mod check;
mod fault;
mod leases;
mod open;
mod read;
mod recent;
mod request;
mod rows;
mod sweep;
#[cfg(test)]
mod tests;
mod watch;
mod writer;

use std::{
    fs::File,
    path::Path,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use tokio::sync::{Semaphore, mpsc, oneshot};

pub use self::{
    check::{CheckReport, check},
    open::OpenError,
};
use self::{
    fault::stopped,
    read::Readers,
    recent::Recent,
    request::{Answer, Request},
};
use crate::{
    LeaseId, Op, Page, Range, Revision, Snapshot, Store, StoreError, StoreFuture, Txn, TxnLimits, TxnOutcome, Watch,
    check_limits, limits,
};

/// An open data file. Dropping it answers what is queued, brings everything into the main file and releases the lock.
#[derive(Debug)]
pub struct EmbeddedStore {
    shared: Arc<Shared>,
    /// Present until the store is dropped.
    inbox: Option<mpsc::Sender<Request>>,
    room: Arc<Semaphore>,
    writer: Mutex<Option<JoinHandle<()>>>,
    /// Declared last: the lock goes when everything else is closed.
    _lock: File,
}

/// What the writer thread tells everybody else.
#[derive(Debug)]
struct Shared {
    readers: Arc<Readers>,
    recent: Mutex<Recent>,
    published: tokio::sync::watch::Receiver<Revision>,
    latest: AtomicU64,
    compacted: AtomicU64,
    swept: AtomicU64,
    commits: AtomicU64,
    groups: AtomicU64,
}

/// Counters of an open store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stats {
    /// The newest revision.
    pub revision: Revision,
    /// History up to here can no longer be read.
    pub compacted: Revision,
    /// History up to here has been removed from the file; it reaches `compacted` when compaction has finished.
    pub swept: Revision,
    /// Transactions committed since the file was opened.
    pub commits: u64,
    /// Flushes they shared.
    pub groups: u64,
}

/// Permits of the queue stand for this many bytes each.
const ROOM_UNIT: usize = 1024;

impl EmbeddedStore {
    /// Opens the data file, or makes a new one. Blocks for as long as SQLite takes to read what a crash left.
    pub fn open(path: &Path) -> Result<EmbeddedStore, OpenError> {
        EmbeddedStore::start(path, open::open(path)?)
    }

    fn start(path: &Path, opened: open::Opened) -> Result<EmbeddedStore, OpenError> {
        let io = |error: std::io::Error| OpenError::Io { path: path.to_owned(), source: error.into() };
        let open::Opened { db, lock, extent, swept, leases } = opened;
        let sweep = sweep::Sweep { compacted: extent.compacted, swept };
        let (published, receiver) = tokio::sync::watch::channel(extent.revision);
        let shared = Arc::new(Shared {
            readers: Arc::new(Readers::new(path)),
            recent: Mutex::default(),
            published: receiver,
            latest: AtomicU64::new(extent.revision.0),
            compacted: AtomicU64::new(extent.compacted.0),
            swept: AtomicU64::new(sweep.revision().0),
            commits: AtomicU64::new(0),
            groups: AtomicU64::new(0),
        });
        let now = Instant::now();
        let writer = writer::Writer {
            db,
            shared: Arc::clone(&shared),
            published,
            revision: extent.revision,
            leases: leases::Leases::restored(leases, now),
            sweep,
            clock: tokio::runtime::Builder::new_current_thread().enable_time().build().map_err(io)?,
            next_tick: now + limits::LEASE_TICK,
            sweep_not_before: now,
            stopping: Vec::new(),
        };
        let (inbox, requests) = mpsc::channel(limits::WRITER_QUEUE);
        let thread = std::thread::Builder::new().name("store-writer".to_owned());
        let thread = thread.spawn(move || writer.run(requests)).map_err(io)?;
        Ok(EmbeddedStore {
            shared,
            inbox: Some(inbox),
            room: Arc::new(Semaphore::new(limits::WRITER_QUEUE_BYTES_MAX / ROOM_UNIT)),
            writer: Mutex::new(Some(thread)),
            _lock: lock,
        })
    }

    /// Counters, for metrics and tests.
    pub fn stats(&self) -> Stats {
        let shared = &self.shared;
        Stats {
            revision: Revision(shared.latest.load(Ordering::Acquire)),
            compacted: Revision(shared.compacted.load(Ordering::Acquire)),
            swept: Revision(shared.swept.load(Ordering::Acquire)),
            commits: shared.commits.load(Ordering::Relaxed),
            groups: shared.groups.load(Ordering::Relaxed),
        }
    }

    /// Answers what is queued, closes the file, and returns when that is done. Every later call answers `Unavailable`.
    pub async fn shutdown(&self) {
        self.shared.readers.close();
        let (done, wait) = oneshot::channel();
        if let Some(inbox) = &self.inbox
            && inbox.send(Request::Stop { done }).await.is_ok()
        {
            // An error means that the writer is gone already, which is what we wait for.
            let _ = wait.await;
        }
    }

    /// Hands a request to the writer thread and waits for its answer.
    async fn ask<T>(&self, request: impl FnOnce(Answer<T>) -> Request) -> Result<T, StoreError> {
        let inbox = self.inbox.as_ref().ok_or_else(stopped)?;
        let (answer, wait) = Answer::channel();
        inbox.send(request(answer)).await.map_err(|_| stopped())?;
        wait.await.unwrap_or_else(|_| {
            Err(StoreError::OutcomeUnknown { reason: "the writer stopped before it answered".to_owned() })
        })
    }

    async fn commit_txn(&self, txn: Txn) -> Result<TxnOutcome, StoreError> {
        check_limits(&txn, &self.limits())?;
        let permits = u32::try_from(txn_bytes(&txn) / ROOM_UNIT + 1).unwrap_or(u32::MAX);
        let most = u32::try_from(limits::WRITER_QUEUE_BYTES_MAX / ROOM_UNIT).unwrap_or(u32::MAX);
        let room = Arc::clone(&self.room).acquire_many_owned(permits.min(most)).await.map_err(|_| stopped())?;
        self.ask(|answer| Request::Commit { txn, answer, room }).await
    }
}

fn txn_bytes(txn: &Txn) -> usize {
    let op_bytes = |op: &Op| match op {
        Op::Put { key, value, .. } => key.len() + value.len(),
        Op::Delete(key) | Op::DeletePrefix(key) => key.len(),
    };
    txn.then.iter().map(op_bytes).sum()
}

impl Store for EmbeddedStore {
    fn commit(&self, txn: Txn) -> StoreFuture<'_, TxnOutcome> {
        Box::pin(self.commit_txn(txn))
    }

    fn get_many(&self, keys: Vec<String>) -> StoreFuture<'_, Snapshot> {
        Box::pin(self.shared.readers.run(move |db| read::get_many(db, &keys)))
    }

    fn list(&self, range: Range) -> StoreFuture<'_, Page> {
        Box::pin(self.shared.readers.run(move |db| read::list(db, &range)))
    }

    fn latest_commit(&self) -> StoreFuture<'_, Revision> {
        Box::pin(async {
            match self.inbox.as_ref().is_some_and(|inbox| !inbox.is_closed()) {
                true => Ok(Revision(self.shared.latest.load(Ordering::Acquire))),
                false => Err(stopped()),
            }
        })
    }

    fn watch(&self, prefix: String, from: Revision) -> StoreFuture<'_, Watch> {
        Box::pin(async move {
            let compacted = Revision(self.shared.compacted.load(Ordering::Acquire));
            // Revision 0 is before everything, so watching from it is watching from the first.
            let from = from.max(Revision(1));
            if from <= compacted {
                return Err(StoreError::Compacted { requested: from, compacted });
            }
            let published = self.shared.published.clone();
            let watch = watch::EmbeddedWatch { shared: Arc::clone(&self.shared), published, prefix, from };
            Ok(Box::new(watch) as Watch)
        })
    }

    fn grant_lease(&self, ttl: Duration) -> StoreFuture<'_, LeaseId> {
        // Whole seconds, rounded up, so that a holder never has less than it asked for.
        let seconds = ttl.as_secs() + u64::from(ttl.subsec_nanos() > 0);
        let ttl = Duration::from_secs(seconds.clamp(1, u32::MAX.into()));
        Box::pin(self.ask(move |answer| Request::Grant { ttl, answer }))
    }

    fn keep_alive(&self, lease: LeaseId) -> StoreFuture<'_, bool> {
        Box::pin(self.ask(move |answer| Request::KeepAlive { lease, answer }))
    }

    fn revoke_lease(&self, lease: LeaseId) -> StoreFuture<'_, ()> {
        Box::pin(self.ask(move |answer| Request::Revoke { lease, answer }))
    }

    fn compact(&self, revision: Revision) -> StoreFuture<'_, ()> {
        Box::pin(self.ask(move |answer| Request::Compact { revision, answer }))
    }

    fn limits(&self) -> TxnLimits {
        TxnLimits {
            ops_max: limits::EMBEDDED_TXN_OPS_MAX,
            bytes_max: limits::EMBEDDED_TXN_BYTES_MAX,
            value_bytes_max: limits::VALUE_BYTES_MAX,
            hint: "",
        }
    }
}

impl Drop for EmbeddedStore {
    fn drop(&mut self) {
        self.shared.readers.close();
        // Closing the queue makes the writer thread finish.
        self.inbox = None;
        let writer = self.writer.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(writer) = writer
            && writer.join().is_err()
        {
            tracing::error!("the writer of the store panicked");
        }
    }
}
