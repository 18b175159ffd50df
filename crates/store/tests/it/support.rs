//! A store in a temporary directory, and short words for using it.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use sabakan_store::{Op, Revision, Store, Txn, TxnOutcome, embedded::EmbeddedStore};
use tempfile::TempDir;

/// How long anything that must happen may take.
pub const SOON: Duration = Duration::from_secs(20);

/// The data file in a directory, named as the server names it.
pub fn file(directory: &TempDir) -> PathBuf {
    directory.path().join("sabakan.db")
}

pub fn open(path: &Path) -> Arc<EmbeddedStore> {
    Arc::new(EmbeddedStore::open(path).unwrap())
}

pub fn directory() -> TempDir {
    tempfile::tempdir().unwrap()
}

pub async fn commit(store: &dyn Store, then: Vec<Op>) -> Revision {
    match store.commit(Txn { when: Vec::new(), then }).await.unwrap() {
        TxnOutcome::Committed(revision) => revision,
        TxnOutcome::Conflicted => panic!("a transaction without compares conflicted"),
    }
}

pub async fn put(store: &dyn Store, key: &str, value: &str) -> Revision {
    commit(store, vec![Op::put(key, value.to_owned())]).await
}

pub async fn get(store: &dyn Store, key: &str) -> Option<String> {
    let found = store.get_many(vec![key.to_owned()]).await.unwrap().values.remove(0)?;
    Some(String::from_utf8(found.value.to_vec()).unwrap())
}

/// Waits until something holds.
pub async fn wait_for(what: &str, holds: impl Fn() -> bool) {
    let start = Instant::now();
    let mut looks = tokio::time::interval(Duration::from_millis(5));
    while !holds() {
        assert!(start.elapsed() < SOON, "{what}: not within {SOON:?}");
        looks.tick().await;
    }
}

/// Numbers that look random and are the same in every run.
pub struct Random(pub u64);

impl Random {
    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        // Xorshift; the state must not be 0.
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}
