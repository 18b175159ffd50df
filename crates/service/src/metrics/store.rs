//! Any store, with the time it takes written down.

use std::{
    array,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use sabakan_store::{
    LeaseId, Page, Range, Revision, Snapshot, Store, StoreError, StoreFuture, Txn, TxnLimits, TxnOutcome, Watch,
};

use super::{Metrics, catalogue, family::Histogram, text::Text};

/// What the store was asked for.
#[derive(Debug, Clone, Copy)]
enum Operation {
    Txn,
    Get,
    Range,
    Latest,
    Watch,
    Lease,
    Compact,
}

const OPERATIONS: [&str; 7] = ["txn", "get", "range", "latest", "watch", "lease", "compact"];

const OUTCOMES: [&str; 7] = ["ok", "conflict", "unavailable", "unknown", "refused", "compacted", "corrupt"];

/// The place of an outcome in [`OUTCOMES`].
fn outcome(error: &StoreError) -> usize {
    match error {
        StoreError::Conflict { .. } => 1,
        StoreError::Unavailable { .. } | StoreError::CannotWrite { .. } => 2,
        StoreError::OutcomeUnknown { .. } => 3,
        StoreError::TooLarge { .. } | StoreError::Invalid { .. } => 4,
        StoreError::Compacted { .. } => 5,
        StoreError::Corrupt { .. } => 6,
    }
}

/// What is known of the store.
pub(super) struct StoreFigures {
    times: [[Histogram; OUTCOMES.len()]; OPERATIONS.len()],
    /// The newest revision anybody here was told of.
    newest: AtomicU64,
}

impl Default for StoreFigures {
    fn default() -> StoreFigures {
        StoreFigures { times: array::from_fn(|_| array::from_fn(|_| Histogram::default())), newest: AtomicU64::new(0) }
    }
}

impl StoreFigures {
    pub(super) fn newest(&self) -> Revision {
        Revision(self.newest.load(Ordering::Relaxed))
    }

    pub(super) fn write(&self, text: &mut Text) {
        text.head(&catalogue::STORE_DURATIONS);
        for (operation, outcomes) in OPERATIONS.iter().zip(&self.times) {
            for (outcome, times) in OUTCOMES.iter().zip(outcomes).filter(|(_, times)| times.count() > 0) {
                times.write(text, &catalogue::STORE_DURATIONS, &[operation, outcome]);
            }
        }
    }

    fn observe(&self, operation: Operation, outcome: usize, time: Duration) {
        self.times[operation as usize][outcome].observe(time);
    }

    fn saw(&self, revision: Revision) {
        self.newest.fetch_max(revision.0, Ordering::Relaxed);
    }
}

/// A store that counts. Answers are those of the store below.
pub struct MeasuredStore {
    store: Arc<dyn Store>,
    metrics: Arc<Metrics>,
}

impl MeasuredStore {
    /// Counts what goes to `store`.
    pub fn new(store: Arc<dyn Store>, metrics: Arc<Metrics>) -> MeasuredStore {
        MeasuredStore { store, metrics }
    }

    /// A request whose caller stops waiting is not counted: nobody knows what came of it.
    fn timed<'a, T: 'a>(
        &'a self,
        operation: Operation,
        work: StoreFuture<'a, T>,
        judge: impl FnOnce(&T) -> usize + Send + 'a,
    ) -> StoreFuture<'a, T> {
        Box::pin(async move {
            let begun = Instant::now();
            let result = work.await;
            let outcome = result.as_ref().map_or_else(outcome, judge);
            self.metrics.store.observe(operation, outcome, begun.elapsed());
            result
        })
    }

    fn simple<'a, T: 'a>(&'a self, operation: Operation, work: StoreFuture<'a, T>) -> StoreFuture<'a, T> {
        self.timed(operation, work, |_| 0)
    }
}

impl Store for MeasuredStore {
    fn commit(&self, txn: Txn) -> StoreFuture<'_, TxnOutcome> {
        self.timed(Operation::Txn, self.store.commit(txn), |outcome| match outcome {
            TxnOutcome::Committed(revision) => {
                self.metrics.store.saw(*revision);
                0
            }
            TxnOutcome::Conflicted => 1,
        })
    }

    fn get_many(&self, keys: Vec<String>) -> StoreFuture<'_, Snapshot> {
        self.simple(Operation::Get, self.store.get_many(keys))
    }

    fn list(&self, range: Range) -> StoreFuture<'_, Page> {
        self.simple(Operation::Range, self.store.list(range))
    }

    fn latest_commit(&self) -> StoreFuture<'_, Revision> {
        self.timed(Operation::Latest, self.store.latest_commit(), |revision| {
            self.metrics.store.saw(*revision);
            0
        })
    }

    fn watch(&self, prefix: String, from: Revision) -> StoreFuture<'_, Watch> {
        self.simple(Operation::Watch, self.store.watch(prefix, from))
    }

    fn grant_lease(&self, ttl: Duration) -> StoreFuture<'_, LeaseId> {
        self.simple(Operation::Lease, self.store.grant_lease(ttl))
    }

    fn keep_alive(&self, lease: LeaseId) -> StoreFuture<'_, bool> {
        self.simple(Operation::Lease, self.store.keep_alive(lease))
    }

    fn revoke_lease(&self, lease: LeaseId) -> StoreFuture<'_, ()> {
        self.simple(Operation::Lease, self.store.revoke_lease(lease))
    }

    fn compact(&self, revision: Revision) -> StoreFuture<'_, ()> {
        self.simple(Operation::Compact, self.store.compact(revision))
    }

    fn limits(&self) -> TxnLimits {
        self.store.limits()
    }

    fn check_writable(&self) -> StoreFuture<'_, ()> {
        self.store.check_writable()
    }

    fn damage(&self) -> Option<String> {
        self.store.damage()
    }
}

#[cfg(test)]
mod tests {
    use sabakan_store::{Compare, Op, embedded::EmbeddedStore};

    use super::*;
    use crate::metrics::MetricsOptions;

    #[tokio::test]
    async fn operations_are_counted_with_what_came_of_them() {
        let dir = tempfile::tempdir().expect("a directory");
        let store = EmbeddedStore::open(&dir.path().join("s.db")).expect("a store");
        let metrics = Arc::new(Metrics::new(MetricsOptions::default(), "1"));
        let store = MeasuredStore::new(Arc::new(store), Arc::clone(&metrics));
        let put = || Txn { when: vec![Compare::Missing("/a".into())], then: vec![Op::put("/a", "x")] };
        let committed = store.commit(put()).await.expect("an answer");
        assert!(matches!(committed, TxnOutcome::Committed(revision) if revision == metrics.store.newest()));
        assert_eq!(store.commit(put()).await.expect("an answer"), TxnOutcome::Conflicted);
        let twice = Txn { when: vec![], then: vec![Op::put("/b", "x"), Op::put("/b", "y")] };
        store.commit(twice).await.expect_err("a key twice");
        store.list(Range::first("/")).await.expect("a page");
        let mut text = Text::default();
        metrics.store.write(&mut text);
        let text = String::from_utf8(text.0).expect("UTF-8");
        let counts: Vec<_> = text.lines().filter(|line| line.contains("_count{")).collect();
        let line = |operation: &str, outcome: &str| {
            format!("sabakan_store_request_duration_seconds_count{{operation=\"{operation}\",outcome=\"{outcome}\"}} 1")
        };
        assert_eq!(counts, [line("txn", "ok"), line("txn", "conflict"), line("txn", "refused"), line("range", "ok")]);
    }
}
