//! A store that dies under its user on demand: in front of a certain commit, or right after it. Run a worker on one, again and again
//! with the death one commit later, and it has been killed at every boundary there is.

use std::{
    collections::{BTreeMap, BTreeSet},
    future::pending,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use sabakan_store::{
    Compare, LeaseId, Op, Page, Range, Revision, Snapshot, Store, StoreError, StoreFuture, Txn, TxnLimits, TxnOutcome,
    Watch,
};

/// What changes of the cluster's configuration are about.
pub const CLUSTER: &str = "cluster";

/// What changes of the repair queue and of incidents are about.
pub const REPAIR: &str = "repair";

/// What claims of the lead of a task are about.
pub const LEAD: &str = "lead";

/// On which side of a commit the user dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Death {
    /// The commit is not made.
    Before,
    /// The commit is made and its answer never arrives.
    After,
}

/// A store of one server. Death is told apart by machine, so that one server can be killed in as many places as it has machines.
pub struct CrashStore {
    inner: Arc<dyn Store>,
    dead: AtomicBool,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    armed: BTreeMap<String, (usize, Death)>,
    commits: BTreeMap<String, usize>,
    frozen: BTreeSet<String>,
    /// Frozen while their last commit is still on its way: to be killed now would take it back.
    committing: BTreeSet<String>,
    unanswered: BTreeMap<String, usize>,
    /// Commits that were under way when their machine froze.
    late: Vec<Txn>,
    /// Locks written: machine and value.
    locks: Vec<(String, Vec<u8>)>,
    leases: Vec<LeaseId>,
}

impl CrashStore {
    /// In front of another store.
    pub fn new(inner: Arc<dyn Store>) -> Arc<CrashStore> {
        Arc::new(CrashStore { inner, dead: AtomicBool::new(false), seen: Mutex::default() })
    }

    /// Counts commits about a machine from here on, and freezes what is done with it at the `nth`; 0: never.
    pub fn arm(&self, serial: &str, nth: usize, death: Death) {
        let mut seen = self.seen();
        seen.commits.remove(serial);
        seen.armed.insert(serial.to_owned(), (nth, death));
    }

    /// The `nth` commit about a machine from here on is made, and its caller is told that nobody knows.
    pub fn lose_answer(&self, serial: &str, nth: usize) {
        let mut seen = self.seen();
        seen.commits.remove(serial);
        seen.unanswered.insert(serial.to_owned(), nth);
    }

    /// Commits about a machine since [`CrashStore::arm`].
    pub fn commits(&self, serial: &str) -> usize {
        self.seen().commits.get(serial).copied().unwrap_or(0)
    }

    /// Whether a machine's turn has come, and its last commit is made if it was to be made.
    pub fn is_frozen(&self, serial: &str) -> bool {
        let seen = self.seen();
        seen.frozen.contains(serial) && !seen.committing.contains(serial)
    }

    /// From now on nothing is answered.
    pub fn kill(&self) {
        self.dead.store(true, Ordering::SeqCst);
    }

    /// Ends every lease that was granted here, as the store does by itself some time after their holder died.
    pub async fn expire_leases(&self) {
        let leases = std::mem::take(&mut self.seen().leases);
        for lease in leases {
            self.inner.revoke_lease(lease).await.expect("a lease ends");
        }
    }

    /// Commits that were under way when their machine froze: packets that may arrive at any time.
    pub fn late(&self) -> Vec<Txn> {
        self.seen().late.clone()
    }

    /// Every lock that was written: machine and value.
    pub fn locks(&self) -> Vec<(String, Vec<u8>)> {
        self.seen().locks.clone()
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Goes on, unless whoever asks is dead.
    async fn alive(&self, serial: Option<&str>) {
        let frozen = serial.is_some_and(|serial| self.seen().frozen.contains(serial));
        if frozen || self.dead.load(Ordering::SeqCst) {
            pending::<()>().await;
        }
    }

    /// What becomes of a commit about a machine.
    fn fate(&self, serial: &str, txn: &Txn) -> Option<Death> {
        let mut seen = self.seen();
        let count = seen.commits.entry(serial.to_owned()).or_default();
        *count += 1;
        let count = *count;
        let (nth, death) = seen.armed.get(serial).copied()?;
        if count != nth {
            return None;
        }
        seen.frozen.insert(serial.to_owned());
        match death {
            Death::Before => seen.late.push(txn.clone()),
            Death::After => drop(seen.committing.insert(serial.to_owned())),
        }
        Some(death)
    }
}

impl Seen {
    fn is_unanswered(&self, serial: &str) -> bool {
        self.unanswered.get(serial).is_some_and(|nth| self.commits.get(serial) == Some(nth))
    }
}

/// The machine a change of a node is about.
fn subject(txn: &Txn) -> Option<String> {
    let keys = txn.when.iter().filter_map(|compare| match compare {
        Compare::ModRevision(key, _) => Some(key),
        Compare::Missing(_) | Compare::Exists(_) | Compare::NoneWithPrefix(_) => None,
    });
    keys.filter_map(|key| named(key)).next().or_else(|| claim(txn))
}

/// Claims of leads count as one machine, [`LEAD`].
fn claim(txn: &Txn) -> Option<String> {
    let is_lead = |compare: &Compare| matches!(compare, Compare::Missing(key) if key.contains("leaders/"));
    txn.when.iter().any(is_lead).then(|| LEAD.to_owned())
}

/// The planner of the cluster counts as one machine, [`CLUSTER`], and so does everything repair decides, [`REPAIR`].
fn named(key: &str) -> Option<String> {
    let (folder, serial) = key.rsplit_once('/')?;
    if folder.ends_with("/repairs") || folder.ends_with("/repairs/data") {
        return Some(REPAIR.to_owned());
    }
    if folder.ends_with("/cluster") && serial == "configuration" {
        return Some(CLUSTER.to_owned());
    }
    (folder.ends_with("/nodes") || folder.ends_with("/node-locks")).then(|| serial.to_owned())
}

impl Store for CrashStore {
    fn commit(&self, txn: Txn) -> StoreFuture<'_, TxnOutcome> {
        Box::pin(async move {
            let serial = subject(&txn);
            self.alive(serial.as_deref()).await;
            let Some(serial) = serial else { return self.inner.commit(txn).await };
            let fate = self.fate(&serial, &txn);
            if fate == Some(Death::Before) {
                pending::<()>().await;
            }
            let lock = txn.then.iter().find_map(|op| match op {
                Op::Put { value, lease: Some(_), .. } => Some(value.to_vec()),
                _ => None,
            });
            let outcome = self.inner.commit(txn).await;
            if let (Ok(TxnOutcome::Committed(_)), Some(lock)) = (&outcome, lock) {
                self.seen().locks.push((serial.clone(), lock));
            }
            if fate == Some(Death::After) {
                self.seen().committing.remove(&serial);
                pending::<()>().await;
            }
            if self.seen().is_unanswered(&serial) {
                return Err(StoreError::OutcomeUnknown { reason: "the answer was lost".to_owned() });
            }
            outcome
        })
    }

    fn get_many(&self, keys: Vec<String>) -> StoreFuture<'_, Snapshot> {
        Box::pin(async move {
            let serial = keys.first().and_then(|key| named(key));
            self.alive(serial.as_deref()).await;
            self.inner.get_many(keys).await
        })
    }

    fn list(&self, range: Range) -> StoreFuture<'_, Page> {
        Box::pin(async move {
            self.alive(None).await;
            self.inner.list(range).await
        })
    }

    fn latest_commit(&self) -> StoreFuture<'_, Revision> {
        Box::pin(async move {
            self.alive(None).await;
            self.inner.latest_commit().await
        })
    }

    fn watch(&self, prefix: String, from: Revision) -> StoreFuture<'_, Watch> {
        self.inner.watch(prefix, from)
    }

    fn grant_lease(&self, ttl: Duration) -> StoreFuture<'_, LeaseId> {
        Box::pin(async move {
            self.alive(None).await;
            let lease = self.inner.grant_lease(ttl).await?;
            self.seen().leases.push(lease);
            Ok(lease)
        })
    }

    fn keep_alive(&self, lease: LeaseId) -> StoreFuture<'_, bool> {
        Box::pin(async move {
            self.alive(None).await;
            self.inner.keep_alive(lease).await
        })
    }

    fn revoke_lease(&self, lease: LeaseId) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            self.alive(None).await;
            self.inner.revoke_lease(lease).await?;
            self.seen().leases.retain(|granted| *granted != lease);
            Ok(())
        })
    }

    fn compact(&self, revision: Revision) -> StoreFuture<'_, ()> {
        self.inner.compact(revision)
    }

    fn limits(&self) -> TxnLimits {
        self.inner.limits()
    }

    fn check_writable(&self) -> StoreFuture<'_, ()> {
        self.inner.check_writable()
    }
}
