//! The view follows its store, waits for acknowledged writes, and recovers when it loses its place.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use sabakan_domain::{
    audit::Actor,
    ipam::{IpamConfig, IpamInput, OutsidePool, PoolInput},
};

use super::*;
use crate::repo::audit::By;
use crate::{LeaseId, Op, Page, StoreFuture, Txn, TxnLimits, TxnOutcome, WatchSource, embedded::EmbeddedStore, repo};

/// A store whose watches fail when told to. Everything else is the real thing.
struct Faulty {
    store: EmbeddedStore,
    /// What the next call of any watch answers instead.
    fault: Arc<Mutex<Option<StoreError>>>,
    watches: AtomicUsize,
}

struct FaultyWatch(Watch, Arc<Mutex<Option<StoreError>>>);

impl WatchSource for FaultyWatch {
    fn next(&mut self) -> StoreFuture<'_, WatchBatch> {
        Box::pin(async {
            let batch = self.0.next().await;
            // After the batch has come: what it held is lost to the watcher, as after a compaction.
            self.1.lock().expect("the fault").take().map_or(batch, Err)
        })
    }
}

impl Store for Faulty {
    fn commit(&self, txn: Txn) -> StoreFuture<'_, TxnOutcome> {
        self.store.commit(txn)
    }
    fn get_many(&self, keys: Vec<String>) -> StoreFuture<'_, crate::Snapshot> {
        self.store.get_many(keys)
    }
    fn list(&self, range: Range) -> StoreFuture<'_, Page> {
        self.store.list(range)
    }
    fn latest_commit(&self) -> StoreFuture<'_, Revision> {
        self.store.latest_commit()
    }
    fn watch(&self, prefix: String, from: Revision) -> StoreFuture<'_, Watch> {
        self.watches.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move {
            let watch = self.store.watch(prefix, from).await?;
            Ok(Box::new(FaultyWatch(watch, Arc::clone(&self.fault))) as Watch)
        })
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
        self.store.limits()
    }
}

fn by() -> By {
    By { actor: Actor::internal("test"), host: "here".into(), now: jiff::Timestamp::UNIX_EPOCH }
}

struct Rig {
    _dir: tempfile::TempDir,
    store: Arc<Faulty>,
    keys: Keys,
    view: View,
}

impl Rig {
    async fn new() -> Rig {
        let dir = tempfile::tempdir().expect("a directory");
        let store = EmbeddedStore::open(&dir.path().join("view.db")).expect("a store");
        let store = Arc::new(Faulty { store, fault: Arc::default(), watches: AtomicUsize::new(0) });
        let keys = Keys::new("/sabakan/", "/states/");
        let view = View::spawn(Arc::clone(&store) as Arc<dyn Store>, keys.clone()).await.expect("a view");
        Rig { _dir: dir, store, keys, view }
    }

    async fn put_ipam(&self, max_nodes_in_rack: u32) {
        let pool = |pool: &str| PoolInput { pool: pool.into(), range_size: 6, range_mask: 26, ..PoolInput::default() };
        let input = IpamInput {
            max_nodes_in_rack,
            node: pool("10.0.0.0/16"),
            node_ip_per_node: 1,
            node_index_offset: 3,
            bmc: pool("10.1.0.0/16"),
        };
        let config = IpamConfig::new(&input).expect("valid");
        repo::config::put_ipam(&*self.store, &self.keys, &by(), &config).await.expect("put");
    }

    async fn max_nodes(&self) -> Option<u32> {
        let snapshot = self.view.read().await.expect("a snapshot");
        snapshot.ipam().map(|config| config.given().max_nodes_in_rack)
    }
}

#[tokio::test]
async fn a_read_includes_every_acknowledged_write() {
    let rig = Rig::new().await;
    assert_eq!(rig.max_nodes().await, None);
    for n in 1..50 {
        rig.put_ipam(n).await;
        assert_eq!(rig.max_nodes().await, Some(n));
    }
    assert_eq!(rig.store.watches.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_view_whose_history_is_gone_loads_the_present() {
    let rig = Rig::new().await;
    rig.put_ipam(1).await;
    assert_eq!(rig.max_nodes().await, Some(1));
    let gone = StoreError::Compacted { requested: Revision(2), compacted: Revision(9) };
    *rig.store.fault.lock().expect("the fault") = Some(gone);
    rig.put_ipam(2).await;
    assert_eq!(rig.max_nodes().await, Some(2));
    assert_eq!(rig.store.watches.load(Ordering::SeqCst), 2, "it watches again from the present");
    rig.put_ipam(3).await;
    assert_eq!(rig.max_nodes().await, Some(3));
}

#[tokio::test]
async fn damaged_records_are_left_out_and_the_rest_is_served() {
    let rig = Rig::new().await;
    rig.put_ipam(5).await;
    let new = sabakan_domain::machine::NewMachine::new(sabakan_domain::machine::NewMachineInput {
        serial: "good".into(),
        role: "worker".into(),
        bmc_type: "x".into(),
        ..Default::default()
    })
    .expect("valid");
    repo::machines::register(&*rig.store, &rig.keys, &by(), &[new], OutsidePool::Refuse, |_| None)
        .await
        .expect("registered");
    let broken =
        Txn { when: vec![], then: vec![Op::put("/sabakan/machines/bad", "{"), Op::put("/sabakan/ipam", "{}")] };
    assert!(matches!(rig.store.commit(broken).await, Ok(TxnOutcome::Committed(_))));
    let snapshot = rig.view.read().await.expect("a snapshot");
    assert_eq!(snapshot.machine_count(), 1);
    assert!(snapshot.find_machine("good").is_some());
    assert!(snapshot.ipam().is_none(), "what was replaced is not shown any more");
    // A view that loads them from scratch comes to the same.
    let fresh = View::spawn(Arc::clone(&rig.store) as Arc<dyn Store>, rig.keys.clone()).await.expect("a view");
    let fresh = fresh.read().await.expect("a snapshot");
    assert_eq!((fresh.machine_count(), fresh.ipam().is_none()), (1, true));
    let report = repo::consistency::check(&*rig.store, &rig.keys).await.expect("a report");
    assert_eq!((report.machines, report.problems.len()), (1, 2), "{:?}", report.problems);
}

#[tokio::test]
async fn a_view_that_has_stopped_says_so() {
    let rig = Rig::new().await;
    rig.view.task.abort();
    let txn = Txn { when: vec![], then: vec![Op::put("/sabakan/dhcp", "{}")] };
    assert!(matches!(rig.store.commit(txn).await, Ok(TxnOutcome::Committed(_))));
    let error = rig.view.read().await.expect_err("the view stands still").to_string();
    assert!(error.contains("the view of the registry"), "{error}");
}
