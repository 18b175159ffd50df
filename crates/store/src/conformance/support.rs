//! Short words for the cases. Everything that waits has a deadline, and everything unexpected panics.

use std::{future::Future, time::Duration};

use bytes::Bytes;

use crate::{Compare, Event, KeyValue, Op, Range, Revision, Store, StoreError, Txn, TxnOutcome, Watch, WatchBatch};

/// How long anything that must happen may take.
pub(super) const SOON: Duration = Duration::from_secs(20);

/// Waits for something that must happen.
pub(super) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(SOON, future).await {
        Ok(value) => value,
        Err(_) => panic!("{what}: not within {SOON:?}"),
    }
}

pub(super) async fn try_commit(store: &dyn Store, when: Vec<Compare>, then: Vec<Op>) -> Result<TxnOutcome, StoreError> {
    soon("a commit", store.commit(Txn { when, then })).await
}

/// Commits and expects success.
pub(super) async fn commit_when(store: &dyn Store, when: Vec<Compare>, then: Vec<Op>) -> Revision {
    match try_commit(store, when.clone(), then).await.expect("a commit") {
        TxnOutcome::Committed(revision) => revision,
        TxnOutcome::Conflicted => panic!("these must hold: {when:?}"),
    }
}

/// Commits without conditions.
pub(super) async fn commit(store: &dyn Store, then: Vec<Op>) -> Revision {
    commit_when(store, Vec::new(), then).await
}

/// Puts one key.
pub(super) async fn put(store: &dyn Store, key: &str, value: &str) -> Revision {
    commit(store, vec![Op::put(key, value.to_owned())]).await
}

/// Reads one key as it is now.
pub(super) async fn get(store: &dyn Store, key: &str) -> Option<KeyValue> {
    let snapshot = soon("a read", store.get_many(vec![key.to_owned()])).await.expect("a read");
    let [value] = <[_; 1]>::try_from(snapshot.values).expect("one answer for one key");
    value
}

/// The value of a key as text, empty when absent.
pub(super) async fn text(store: &dyn Store, key: &str) -> String {
    get(store, key).await.map_or(String::new(), |kv| String::from_utf8(kv.value.to_vec()).expect("text"))
}

/// A whole prefix at one revision, in pages of `limit`.
pub(super) async fn list_at(store: &dyn Store, prefix: &str, at: Option<Revision>, limit: usize) -> Vec<KeyValue> {
    let mut range = Range { prefix: prefix.to_owned(), after: None, at, limit };
    let mut items: Vec<KeyValue> = Vec::new();
    loop {
        let page = soon("a page", store.list(range.clone())).await.expect("a page");
        assert!(page.items.len() <= limit, "{} keys in a page of {limit}", page.items.len());
        assert!(!page.more || !page.items.is_empty(), "an empty page promises more");
        range.at = Some(page.revision);
        items.extend(page.items);
        if !page.more {
            return items;
        }
        range.after = items.last().map(|kv| kv.key.clone());
    }
}

/// The keys of a prefix as it is now, without the prefix.
pub(super) async fn names(store: &dyn Store, prefix: &str) -> Vec<String> {
    let items = list_at(store, prefix, None, 1000).await;
    items.into_iter().map(|kv| kv.key.strip_prefix(prefix).expect("a key of the prefix").to_owned()).collect()
}

pub(super) async fn latest(store: &dyn Store) -> Revision {
    soon("the latest commit", store.latest_commit()).await.expect("the latest commit")
}

pub(super) async fn watch(store: &dyn Store, prefix: &str, from: Revision) -> Watcher {
    let watch = soon("a watch", store.watch(prefix.to_owned(), from)).await.expect("a watch");
    Watcher { watch, prefix: prefix.to_owned(), reached: Revision(from.0.saturating_sub(1)) }
}

/// A watch that checks what every batch promises.
pub(super) struct Watcher {
    watch: Watch,
    prefix: String,
    /// Everything up to here has been delivered.
    pub reached: Revision,
}

impl Watcher {
    /// The next batch, empty or not.
    pub async fn next(&mut self) -> WatchBatch {
        let batch = soon("a batch", self.watch.next()).await.expect("a batch");
        assert!(batch.revision >= self.reached, "a watch went back from {} to {}", self.reached, batch.revision);
        let mut last = self.reached.next();
        for event in &batch.events {
            let at = event.mod_revision();
            assert!(event.key().starts_with(&self.prefix), "{} is not under {}", event.key(), self.prefix);
            assert!(at >= last, "revision {at} after {last}");
            assert!(at <= batch.revision, "revision {at} in a batch that reaches {}", batch.revision);
            last = at;
        }
        self.reached = batch.revision;
        batch
    }

    /// Every event up to `revision`.
    pub async fn until(&mut self, revision: Revision) -> Vec<Event> {
        let mut events = Vec::new();
        while self.reached < revision {
            events.extend(self.next().await.events);
        }
        events
    }

    /// Waits for an error; a watch that asks too much may fail at the first batch only.
    pub async fn error(&mut self) -> StoreError {
        loop {
            if let Err(error) = soon("an error of the watch", self.watch.next()).await {
                return error;
            }
        }
    }
}

/// An event in short: key without prefix, value or `-`, revision.
pub(super) fn brief(prefix: &str, events: &[Event]) -> Vec<(String, String, Revision)> {
    let brief = |event: &Event| {
        let key = event.key().strip_prefix(prefix).unwrap_or(event.key()).to_owned();
        let value = match event {
            Event::Put(kv) => String::from_utf8_lossy(&kv.value).into_owned(),
            Event::Delete { .. } => "-".to_owned(),
        };
        (key, value, event.mod_revision())
    };
    events.iter().map(brief).collect()
}

/// An expected event.
pub(super) fn event(key: &str, value: &str, revision: Revision) -> (String, String, Revision) {
    (key.to_owned(), value.to_owned(), revision)
}

/// A put under a lease.
pub(super) fn put_leased(key: &str, value: &str, lease: crate::LeaseId) -> Op {
    Op::Put { key: key.to_owned(), value: Bytes::from(value.to_owned()), lease: Some(lease) }
}
