//! Compaction: the past goes, the present stays.

use std::sync::Arc;

use super::support::{brief, commit, event, get, latest, list_at, names, put, soon, text, watch};
use crate::{Op, Range, Revision, Store, StoreError};

/// Whether the error says that `requested` is gone.
fn is_compacted(error: &StoreError) -> bool {
    matches!(error, StoreError::Compacted { .. })
}

/// The error of a watch from a revision that is gone: at once, or with the first batch.
async fn watch_error(store: &dyn Store, prefix: &str, from: Revision) -> StoreError {
    match soon("a watch", store.watch(prefix.to_owned(), from)).await {
        Err(error) => error,
        Ok(_) => watch(store, prefix, from).await.error().await,
    }
}

pub(super) async fn history_before_the_revision_is_gone(store: Arc<dyn Store>, prefix: String) {
    let key = format!("{prefix}key");
    let first = put(&*store, &key, "1").await;
    let second = put(&*store, &key, "2").await;
    let third = put(&*store, &key, "3").await;
    let fourth = put(&*store, &key, "4").await;
    soon("a compaction", store.compact(third)).await.expect("a compaction");
    for gone in [first, second] {
        let range = Range { prefix: prefix.clone(), after: None, at: Some(gone), limit: 10 };
        match soon("a page", store.list(range)).await {
            Err(error) => assert!(is_compacted(&error), "a read at {gone} gave {error}"),
            Ok(page) => panic!("a read at {gone} gave {page:?}"),
        }
        let error = watch_error(&*store, &prefix, gone).await;
        assert!(is_compacted(&error), "a watch from {gone} gave {error}");
    }
    for (at, value) in [(third, "3"), (fourth, "4")] {
        let found = list_at(&*store, &prefix, Some(at), 10).await;
        assert_eq!(found.iter().map(|kv| &kv.value[..]).collect::<Vec<_>>(), [value.as_bytes()], "at {at}");
    }
    let events = watch(&*store, &prefix, fourth).await.until(fourth).await;
    assert_eq!(brief(&prefix, &events), [event("key", "4", fourth)]);
    // What is gone cannot go again; asking for it is no error.
    soon("a compaction", store.compact(second)).await.expect("compacting what is gone already");
}

pub(super) async fn the_present_survives(store: Arc<dyn Store>, prefix: String) {
    let key = |number: usize| format!("{prefix}{number:03}");
    let created = commit(&*store, (0..100).map(|number| Op::put(key(number), "first")).collect()).await;
    for round in 0..5 {
        for start in [0, 25] {
            commit(&*store, (start..start + 25).map(|number| Op::put(key(number), format!("{round}"))).collect()).await;
        }
    }
    commit(&*store, (90..100).map(|number| Op::Delete(key(number))).collect()).await;
    let before = list_at(&*store, &prefix, None, 30).await;
    assert_eq!(before.len(), 90);
    soon("a compaction", store.compact(latest(&*store).await)).await.expect("a compaction");
    assert_eq!(list_at(&*store, &prefix, None, 30).await, before);
    let kept = get(&*store, &key(0)).await.expect("it was there");
    assert_eq!((kept.create_revision, &kept.value[..]), (created, &b"4"[..]));
    // Removed keys stay removed and can come back.
    assert_eq!(get(&*store, &key(95)).await, None);
    let again = put(&*store, &key(95), "again").await;
    assert_eq!(get(&*store, &key(95)).await.map(|kv| kv.create_revision), Some(again));
    assert_eq!(names(&*store, &prefix).await.len(), 91);
}

pub(super) async fn a_watch_that_has_seen_everything_goes_on(store: Arc<dyn Store>, prefix: String) {
    let key = format!("{prefix}key");
    let start = put(&*store, &key, "0").await;
    let mut watcher = watch(&*store, &prefix, start.next()).await;
    for number in 1..5 {
        let value = number.to_string();
        let at = put(&*store, &key, &value).await;
        assert_eq!(brief(&prefix, &watcher.until(at).await), [event("key", &value, at)]);
        soon("a compaction", store.compact(at)).await.expect("a compaction");
        assert_eq!(text(&*store, &key).await, value);
    }
}
