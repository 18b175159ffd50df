//! The default backend: one SQLite file, one writer thread, durable at commit.
//!
//! - `writer` owns the only connection that writes; concurrent commits share one flush.
//! - `read` has a few read-only connections; `watch` pulls from `recent` (memory) or from the file.
//! - `rows` is the stored format; `sweep` is compaction; `open` and `check` are for the first and the worst day of a file.
//! - `length` and `structure` find damage at start, `inspect` in the background, `salvage` reads what is left of a damaged file.
//!
//! It knows nothing about what the values mean. One process uses a file at a time: `<file>.lock` is locked while it is open.

mod apply;
mod check;
mod fault;
mod inspect;
mod leases;
mod length;
mod open;
mod read;
mod recent;
mod request;
mod rows;
mod salvage;
mod structure;
mod sweep;
#[cfg(test)]
mod tests;
mod watch;
mod writable;
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
    inspect::Inspection,
    open::OpenError,
    salvage::{DamagedPage, LostKey, SalvageReport},
};
use self::{
    fault::stopped,
    read::Readers,
    recent::Recent,
    request::{Answer, Request},
    writable::{Writable, WriteVerdict},
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
    writable: Arc<Writable>,
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
    ///
    /// A damaged file is not written to: every change is refused, and reads are answered from a copy in memory of what is readable. If
    /// it cannot be told which keys are lost, it is not opened at all.
    pub fn open(path: &Path) -> Result<EmbeddedStore, OpenError> {
        let (lock, reason) = match open::open(path)? {
            open::FileStart::Sound(opened) => return EmbeddedStore::start(path, opened),
            open::FileStart::Damaged { lock, reason } => (lock, reason),
        };
        let saved = salvage::salvage(path)?;
        salvage::tell(&saved.report);
        if !saved.report.names_all {
            return Err(OpenError::Damaged { path: path.to_owned(), reason });
        }
        EmbeddedStore::start_saved(path, lock, saved.db, saved.report.revision, &reason)
    }

    /// Opens what is readable of a file, whatever is lost, and says what that is. The file is not changed.
    pub fn open_salvaged(path: &Path) -> Result<(EmbeddedStore, SalvageReport), OpenError> {
        let lock = open::lock_existing(path)?;
        let salvage::Salvage { db, report } = salvage::salvage(path)?;
        let reason = "it was opened to save what is readable";
        Ok((EmbeddedStore::start_saved(path, lock, db, report.revision, reason)?, report))
    }

    /// Serves a copy of what is readable.
    fn start_saved(
        path: &Path,
        lock: File,
        saved: rusqlite::Connection,
        revision: Revision,
        reason: &str,
    ) -> Result<EmbeddedStore, OpenError> {
        // The writer has nothing to write to.
        let db = rusqlite::Connection::open_in_memory().map_err(|error| open::classify(path, error))?;
        let extent = rows::Extent { revision, compacted: revision };
        let swept = rows::end_of(revision) - 1;
        let writable = Writable::default();
        writable.condemn(reason);
        let opened = open::Opened { db, lock, extent, swept, leases: Vec::new() };
        let store = EmbeddedStore::start_with(path, opened, writable)?;
        store.shared.readers.read_from(saved);
        Ok(store)
    }

    fn start(path: &Path, opened: open::Opened) -> Result<EmbeddedStore, OpenError> {
        EmbeddedStore::start_with(path, opened, Writable::default())
    }

    fn start_with(path: &Path, opened: open::Opened, writable: Writable) -> Result<EmbeddedStore, OpenError> {
        let io = |error: std::io::Error| OpenError::Io { path: path.to_owned(), source: error.into() };
        let open::Opened { db, lock, extent, swept, leases } = opened;
        let sweep = sweep::Sweep { compacted: extent.compacted, swept };
        let (published, receiver) = tokio::sync::watch::channel(extent.revision);
        let writable = Arc::new(writable);
        let shared = Arc::new(Shared {
            readers: Arc::new(Readers::new(path, Arc::clone(&writable))),
            recent: Mutex::default(),
            published: receiver,
            writable,
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
            next_probe: now,
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

    /// Reads the whole file slowly and looks for damage; from the first that is found nothing is written any more. Blocks; `go_on` is
    /// asked often.
    pub fn inspect(&self, go_on: impl Fn() -> bool + Send + 'static) -> Result<Inspection, OpenError> {
        if self.shared.writable.damage().is_some() {
            return Ok(Inspection::Damaged);
        }
        inspect::inspect(self.shared.readers.path(), &self.shared.writable, go_on)
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
        Box::pin(self.shared.readers.run(move |db, _| read::get_many(db, &keys)))
    }

    fn list(&self, range: Range) -> StoreFuture<'_, Page> {
        Box::pin(self.shared.readers.run(move |db, on_damage| read::list(db, &range, on_damage)))
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

    fn check_writable(&self) -> StoreFuture<'_, ()> {
        Box::pin(async {
            match self.shared.writable.verdict() {
                WriteVerdict::Proved => Ok(()),
                WriteVerdict::Refused(error) => Err(error),
                WriteVerdict::Stale => self.ask(|answer| Request::Probe { answer }).await,
            }
        })
    }

    fn damage(&self) -> Option<String> {
        self.shared.writable.damage()
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
