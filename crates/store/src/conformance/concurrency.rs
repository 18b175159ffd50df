//! Many writers at once.

use std::sync::Arc;

use tokio::task::JoinSet;

use super::support::{commit, get, latest, list_at, put, text, try_commit, watch};
use crate::{Compare, Op, Revision, Store, TxnOutcome};

const WRITERS: usize = 32;

pub(super) async fn no_increment_is_lost(store: Arc<dyn Store>, prefix: String) {
    const INCREMENTS: usize = 8;
    let key = format!("{prefix}counter");
    let before = put(&*store, &key, "0").await;
    let mut writers = JoinSet::new();
    for _ in 0..WRITERS {
        let (store, key) = (Arc::clone(&store), key.clone());
        writers.spawn(async move {
            for _ in 0..INCREMENTS {
                while !increment(&*store, &key).await {}
            }
        });
    }
    while let Some(writer) = writers.join_next().await {
        writer.expect("a writer");
    }
    let total = WRITERS * INCREMENTS;
    assert_eq!(text(&*store, &key).await, total.to_string());
    // Every value was there once.
    let events = watch(&*store, &prefix, before.next()).await.until(latest(&*store).await).await;
    assert_eq!(events.len(), total);
}

async fn increment(store: &dyn Store, key: &str) -> bool {
    let kv = get(store, key).await.expect("the counter");
    let count: usize = std::str::from_utf8(&kv.value).expect("text").parse().expect("a number");
    let when = vec![Compare::ModRevision(key.to_owned(), kv.mod_revision)];
    let outcome = try_commit(store, when, vec![Op::put(key, (count + 1).to_string())]).await.expect("a commit");
    outcome != TxnOutcome::Conflicted
}

pub(super) async fn writers_of_different_keys_all_succeed(store: Arc<dyn Store>, prefix: String) {
    const WRITES: usize = 20;
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let (store, prefix) = (Arc::clone(&store), prefix.clone());
        writers.spawn(async move {
            let mut revisions = Vec::new();
            for number in 0..WRITES {
                let key = format!("{prefix}{writer:02}/{number:02}");
                let outcome =
                    try_commit(&*store, vec![Compare::Missing(key.clone())], vec![Op::put(&key, key.clone())]);
                match outcome.await.expect("a commit") {
                    TxnOutcome::Committed(revision) => revisions.push(revision),
                    TxnOutcome::Conflicted => panic!("nobody else writes {key}"),
                }
            }
            assert!(revisions.is_sorted(), "{revisions:?}");
            revisions
        });
    }
    let mut revisions: Vec<Revision> = Vec::new();
    while let Some(writer) = writers.join_next().await {
        revisions.extend(writer.expect("a writer"));
    }
    revisions.sort();
    revisions.dedup();
    assert_eq!(revisions.len(), WRITERS * WRITES, "two transactions share a revision");
    let found = list_at(&*store, &prefix, None, 100).await;
    assert_eq!(found.len(), WRITERS * WRITES);
    assert!(found.iter().all(|kv| kv.key.as_bytes() == kv.value));
}

pub(super) async fn an_acknowledged_commit_is_seen_by_every_later_read(store: Arc<dyn Store>, prefix: String) {
    let mut writers = JoinSet::new();
    for writer in 0..8 {
        let (store, prefix) = (Arc::clone(&store), format!("{prefix}{writer}/"));
        writers.spawn(async move {
            let key = format!("{prefix}key");
            for number in 0..20 {
                let at = commit(&*store, vec![Op::put(&key, number.to_string())]).await;
                assert!(latest(&*store).await >= at, "the latest commit is before {at}");
                let kv = get(&*store, &key).await.expect("it was put");
                assert_eq!((kv.mod_revision, &kv.value[..]), (at, number.to_string().as_bytes()));
                assert_eq!(list_at(&*store, &prefix, None, 10).await, [kv]);
            }
        });
    }
    while let Some(writer) = writers.join_next().await {
        writer.expect("a writer");
    }
}
