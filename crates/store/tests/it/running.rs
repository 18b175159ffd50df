//! A running store: shared flushes, slow watchers, compaction of the file, leases over a restart, the end.

use std::{sync::Arc, time::Duration};

use sabakan_store::{
    Compare, LeaseId, Op, Range, Revision, Store, StoreError, Txn, TxnOutcome, embedded::check, limits,
};
use tokio::task::JoinSet;

use crate::support::{SOON, commit, directory, file, get, open, put, wait_for};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_commits_share_a_flush() {
    const WRITERS: u64 = 64;
    const WRITES: u64 = 40;
    let directory = directory();
    let store = open(&file(&directory));
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let store = Arc::clone(&store);
        writers.spawn(async move {
            for number in 0..WRITES {
                put(&*store, &format!("/{writer}/{number}"), "x").await;
            }
        });
    }
    while let Some(writer) = writers.join_next().await {
        writer.unwrap();
    }
    let stats = store.stats();
    assert_eq!(stats.commits, WRITERS * WRITES);
    assert_eq!(stats.revision, Revision(WRITERS * WRITES), "each has a revision of its own");
    assert!(stats.groups < stats.commits / 2, "{stats:?}");
}

#[tokio::test]
async fn a_transaction_that_changes_nothing_takes_no_revision() {
    let directory = directory();
    let store = open(&file(&directory));
    let at = put(&*store, "/key", "1").await;
    let groups = store.stats().groups;
    assert_eq!(commit(&*store, vec![]).await, at);
    assert_eq!(commit(&*store, vec![Op::Delete("/absent".to_owned()), Op::DeletePrefix("/no/".to_owned())]).await, at);
    let txn = Txn { when: vec![Compare::Missing("/key".to_owned())], then: vec![Op::put("/key", "2")] };
    assert_eq!(store.commit(txn).await.unwrap(), TxnOutcome::Conflicted);
    assert_eq!(store.latest_commit().await.unwrap(), at);
    assert_eq!(store.stats().groups, groups, "nothing was flushed");
    assert_eq!(put(&*store, "/key", "2").await, at.next());
}

#[tokio::test]
async fn a_group_that_fails_is_undone_and_the_writer_goes_on() {
    let directory = directory();
    let path = file(&directory);
    let store = open(&path);
    let at = put(&*store, "/key", "1").await;
    let trigger =
        "CREATE TRIGGER poison BEFORE INSERT ON entry WHEN NEW.key = '/poison' BEGIN SELECT RAISE(ABORT, 'no'); END";
    rusqlite::Connection::open(&path).unwrap().execute_batch(trigger).unwrap();
    let then = vec![Op::put("/key", "2"), Op::put("/poison", "x")];
    let outcome = store.commit(Txn { when: vec![], then }).await;
    assert!(matches!(outcome, Err(StoreError::CannotWrite { .. })), "{outcome:?}");
    assert_eq!(get(&*store, "/key").await.as_deref(), Some("1"));
    assert_eq!(put(&*store, "/key", "3").await, at.next());
    assert_eq!(get(&*store, "/key").await.as_deref(), Some("3"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_watcher_reads_what_memory_has_forgotten_from_the_file() {
    const WRITES: usize = 60;
    let directory = directory();
    let store = open(&file(&directory));
    let mut watch = store.watch("/".to_owned(), Revision(1)).await.unwrap();
    let value = vec![1; limits::VALUE_BYTES_MAX];
    // Several times what memory keeps, and at the end more small revisions than one read of history takes.
    assert!(WRITES * value.len() > 3 * limits::RECENT_BYTES_MAX);
    for number in 0..WRITES {
        commit(
            &*store,
            vec![Op::put(format!("/large/{number}"), value.clone()), Op::put("/small", number.to_string())],
        )
        .await;
    }
    for number in 0..limits::HISTORY_ROWS {
        let then = vec![Op::put("/a", number.to_string()), Op::put("/b", number.to_string())];
        // Not waited for one by one: the revisions are what counts.
        let _ = store.commit(Txn { when: vec![], then }).await.unwrap();
    }
    let last = store.latest_commit().await.unwrap();
    let (mut expected, mut events, mut batches) = (Revision(1), 0, 0);
    while expected <= last {
        let batch = tokio::time::timeout(SOON, watch.next()).await.unwrap().unwrap();
        for pair in batch.events.chunks(2) {
            assert_eq!(pair.iter().map(|event| event.mod_revision()).collect::<Vec<_>>(), [expected; 2]);
            expected = expected.next();
        }
        assert_eq!(batch.revision.next(), expected);
        events += batch.events.len();
        batches += 1;
    }
    assert_eq!(events, 2 * (WRITES + limits::HISTORY_ROWS));
    assert!(batches > 3, "{batches} batches: the bounds of a batch were not kept");
}

#[tokio::test]
async fn a_transaction_larger_than_memory_keeps_arrives_in_one_batch() {
    let directory = directory();
    let store = open(&file(&directory));
    let mut watch = store.watch("/".to_owned(), Revision(1)).await.unwrap();
    let value = vec![1; limits::VALUE_BYTES_MAX];
    let count = limits::RECENT_BYTES_MAX / value.len() + 2;
    let at = commit(&*store, (0..count).map(|number| Op::put(format!("/{number}"), value.clone())).collect()).await;
    let batch = watch.next().await.unwrap();
    assert_eq!((batch.events.len(), batch.revision), (count, at));
}

#[tokio::test]
async fn compaction_overtakes_a_watcher_that_needs_the_file() {
    let directory = directory();
    let path = file(&directory);
    {
        let store = open(&path);
        for number in 0..10 {
            put(&*store, "/key", &number.to_string()).await;
        }
    }
    // After reopening nothing is in memory.
    let store = open(&path);
    let mut behind = Vec::new();
    for from in [3, 5] {
        behind.push((from, store.watch("/".to_owned(), Revision(from)).await.unwrap()));
    }
    store.compact(Revision(5)).await.unwrap();
    for (from, mut watch) in behind {
        match watch.next().await.unwrap_err() {
            StoreError::Compacted { requested, compacted } => assert_eq!((requested.0, compacted.0), (from, 5)),
            other => panic!("{other}"),
        }
    }
    let mut ahead = store.watch("/".to_owned(), Revision(6)).await.unwrap();
    assert_eq!(ahead.next().await.unwrap().events.len(), 5);
    assert!(matches!(store.compact(Revision(11)).await, Err(StoreError::Invalid { .. })));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn compaction_empties_the_file_and_the_revision_survives_it() {
    let directory = directory();
    let path = file(&directory);
    let store = open(&path);
    for round in 0..20 {
        commit(&*store, (0..100).map(|number| Op::put(format!("/key/{number}"), round.to_string())).collect()).await;
    }
    let last = commit(&*store, vec![Op::DeletePrefix("/".to_owned())]).await;
    assert_eq!(check(&path).unwrap().rows, 2_100);
    store.compact(last).await.unwrap();
    wait_for("the end of compaction", || store.stats().swept == last).await;
    let report = check(&path).unwrap();
    assert_eq!((report.rows, report.keys, report.revision, report.compacted), (0, 0, last, last), "{report:?}");
    assert!(report.is_clean(), "{report:?}");
    drop(store);
    // No row is left that could tell the revision.
    let store = open(&path);
    assert_eq!(store.latest_commit().await.unwrap(), last);
    assert_eq!(store.list(Range::first("/")).await.unwrap().revision, last);
    assert_eq!(put(&*store, "/key/1", "again").await, last.next());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn compaction_that_was_interrupted_goes_on_after_a_restart() {
    let directory = directory();
    let path = file(&directory);
    let last = {
        let store = open(&path);
        for round in 0..30 {
            commit(&*store, (0..100).map(|number| Op::put(format!("/key/{number}"), round.to_string())).collect())
                .await;
        }
        store.latest_commit().await.unwrap()
    };
    // What a crash right after `compact` was acknowledged leaves: recorded, nothing removed.
    let recorded = format!("UPDATE meta SET value = {} WHERE name = 'compacted'", last.0);
    rusqlite::Connection::open(&path).unwrap().execute_batch(&recorded).unwrap();
    assert_eq!(check(&path).unwrap().rows, 3_000);
    let store = open(&path);
    wait_for("the end of compaction", || store.stats().swept == last).await;
    assert_eq!(check(&path).unwrap().rows, 100);
    assert_eq!(get(&*store, "/key/99").await.unwrap(), "29");
}

#[tokio::test]
async fn a_lease_lives_on_after_a_restart_and_is_never_given_twice() {
    let directory = directory();
    let path = file(&directory);
    let leased = |lease| vec![Op::Put { key: "/leased".to_owned(), value: "x".into(), lease: Some(lease) }];
    let (lease, ended) = {
        let store = open(&path);
        let lease = store.grant_lease(Duration::from_secs(2)).await.unwrap();
        commit(&*store, leased(lease)).await;
        let ended = store.grant_lease(Duration::from_secs(2)).await.unwrap();
        store.revoke_lease(ended).await.unwrap();
        (lease, ended)
    };
    let store = open(&path);
    assert!(store.keep_alive(lease).await.unwrap());
    assert!(!store.keep_alive(ended).await.unwrap());
    assert!(store.grant_lease(Duration::from_secs(60)).await.unwrap() > ended);
    // Nobody keeps it alive any more.
    let mut watch = store.watch("/".to_owned(), Revision(2)).await.unwrap();
    let batch = tokio::time::timeout(SOON, watch.next()).await.unwrap().unwrap();
    assert_eq!(batch.events.len(), 1);
    assert_eq!(get(&*store, "/leased").await, None);
    let outcome = store.commit(Txn { when: vec![], then: leased(lease) }).await;
    assert!(matches!(outcome, Err(StoreError::Invalid { .. })), "{outcome:?}");
    assert!(!store.keep_alive(LeaseId(0)).await.unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shutdown_answers_what_is_queued_and_refuses_what_comes() {
    let directory = directory();
    let path = file(&directory);
    let store = open(&path);
    let mut watch = store.watch("/".to_owned(), Revision(1_000_000)).await.unwrap();
    let mut writers = JoinSet::new();
    for number in 0..200 {
        let store = Arc::clone(&store);
        writers.spawn(async move {
            let txn = Txn { when: vec![], then: vec![Op::put(format!("/{number:03}"), "x")] };
            (number, store.commit(txn).await)
        });
    }
    wait_for("some commits", || store.stats().commits > 20).await;
    store.shutdown().await;
    let mut done = Vec::new();
    while let Some(writer) = writers.join_next().await {
        match writer.unwrap() {
            (number, Ok(_)) => done.push(format!("/{number:03}")),
            (_, Err(StoreError::Unavailable { .. })) => {}
            (number, Err(other)) => panic!("{number}: {other}"),
        }
    }
    let unavailable = |error: StoreError| assert!(matches!(error, StoreError::Unavailable { .. }), "{error}");
    unavailable(store.commit(Txn::default()).await.unwrap_err());
    unavailable(store.get_many(vec![]).await.unwrap_err());
    unavailable(store.list(Range::first("/")).await.unwrap_err());
    unavailable(store.latest_commit().await.unwrap_err());
    unavailable(store.grant_lease(Duration::from_secs(1)).await.unwrap_err());
    unavailable(watch.next().await.unwrap_err());
    store.shutdown().await;
    assert!(!path.with_extension("db-wal").exists(), "the log was not brought into the main file");
    drop(store);

    let store = open(&path);
    done.sort();
    let found: Vec<_> = store.list(Range::first("/")).await.unwrap().items.into_iter().map(|kv| kv.key).collect();
    assert_eq!(found, done, "exactly what was acknowledged is there");
}
