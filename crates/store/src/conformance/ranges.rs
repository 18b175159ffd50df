//! Reading prefixes: exact bounds, byte order, pages, the past.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use super::support::{commit, commit_when, get, latest, list_at, names, put, soon, text, try_commit};
use crate::{Compare, Op, Range, Revision, Store, StoreError, TxnOutcome};

/// Names around every edge of the prefix `a/`, in byte order.
const NAMES: [&str; 15] = [
    "A/x",
    "a",
    "a!",
    "a.",
    "a/",
    "a/\0",
    "a/ with spaces",
    "a/0",
    "a/b/c",
    "a/é",
    "a/\u{D7FF}",
    "a/\u{10FFFF}",
    "a/\u{10FFFF}/deeper",
    "a0",
    "b",
];

/// Those that start with `a/`.
const INSIDE: std::ops::Range<usize> = 4..13;

async fn put_names(store: &dyn Store, prefix: &str) {
    commit(store, NAMES.iter().rev().map(|name| Op::put(format!("{prefix}{name}"), *name)).collect()).await;
}

pub(super) async fn a_prefix_is_exact_and_sorted_by_bytes(store: Arc<dyn Store>, prefix: String) {
    put_names(&*store, &prefix).await;
    assert_eq!(names(&*store, &prefix).await, NAMES);
    let check = async |part: &str, expected: &[&str]| {
        let found = list_at(&*store, &format!("{prefix}{part}"), None, 1000).await;
        let found: Vec<_> = found.iter().map(|kv| kv.key.strip_prefix(&prefix).expect("a key of ours")).collect();
        assert_eq!(found, expected, "{part:?}");
    };
    check("a/", &NAMES[INSIDE]).await;
    let paged = list_at(&*store, &format!("{prefix}a/"), None, 1).await;
    assert_eq!(paged, list_at(&*store, &format!("{prefix}a/"), None, 1000).await, "page by page");
    check("a", &NAMES[1..14]).await;
    check("a/\u{10FFFF}", &NAMES[11..13]).await;
    check("a/\u{D7FF}", &NAMES[10..11]).await;
    check("b/", &[]).await;
    check("c", &[]).await;
}

pub(super) async fn removing_a_prefix_is_exact(store: Arc<dyn Store>, prefix: String) {
    put_names(&*store, &prefix).await;
    commit(&*store, vec![Op::DeletePrefix(format!("{prefix}a/\u{10FFFF}"))]).await;
    assert_eq!(names(&*store, &format!("{prefix}a/")).await.len(), INSIDE.len() - 2);
    // Prefixes that overlap are one removal of each key.
    let then = vec![Op::DeletePrefix(format!("{prefix}a/")), Op::DeletePrefix(format!("{prefix}a/b/"))];
    commit(&*store, then).await;
    assert_eq!(names(&*store, &prefix).await, [&NAMES[..INSIDE.start], &NAMES[INSIDE.end..]].concat());
}

pub(super) async fn no_key_with_a_prefix_is_exact(store: Arc<dyn Store>, prefix: String) {
    let outside = NAMES.iter().enumerate().filter(|(place, _)| !INSIDE.contains(place));
    commit(&*store, outside.map(|(_, name)| Op::put(format!("{prefix}{name}"), "x")).collect()).await;
    let none = Compare::NoneWithPrefix(format!("{prefix}a/"));
    for inside in &NAMES[INSIDE] {
        let key = format!("{prefix}{inside}");
        commit_when(&*store, vec![none.clone()], vec![Op::put(&key, "x")]).await;
        let outcome = try_commit(&*store, vec![none.clone()], vec![Op::put(format!("{prefix}b"), "y")]).await;
        assert_eq!(outcome.expect("a commit"), TxnOutcome::Conflicted, "{inside:?} exists");
        commit(&*store, vec![Op::Delete(key)]).await;
    }
    assert_eq!(text(&*store, &format!("{prefix}b")).await, "x");
}

pub(super) async fn pages_end_where_the_keys_end(store: Arc<dyn Store>, prefix: String) {
    commit(&*store, (0..6).map(|number| Op::put(format!("{prefix}{number}"), "x")).collect()).await;
    // A key behind the prefix must not make the last page promise more.
    put(&*store, &format!("{}0", prefix.trim_end_matches('/')), "x").await;
    let page = async |after: Option<&str>, limit| {
        let after = after.map(|name| format!("{prefix}{name}"));
        let range = Range { prefix: prefix.clone(), after, at: None, limit };
        let page = soon("a page", store.list(range)).await.expect("a page");
        let names: Vec<_> =
            page.items.iter().map(|kv| kv.key.strip_prefix(&prefix).expect("ours").to_owned()).collect();
        (names.concat(), page.more)
    };
    let check = async |after, limit, expected: &str, more| {
        assert_eq!(page(after, limit).await, (expected.to_owned(), more), "after {after:?}, at most {limit}");
    };
    check(None, 3, "012", true).await;
    check(Some("2"), 3, "345", false).await;
    check(Some("2"), 2, "34", true).await;
    check(Some("2"), 100, "345", false).await;
    check(Some("22"), 1, "3", true).await;
    check(Some("5"), 3, "", false).await;
    check(Some(""), 6, "012345", false).await;
}

pub(super) async fn pages_at_a_revision_are_consistent_while_writers_go_on(store: Arc<dyn Store>, prefix: String) {
    const KEYS: usize = 300;
    let key = |number: usize| format!("{prefix}{number:04}");
    for start in (0..KEYS).step_by(50) {
        commit(&*store, (start..start + 50).map(|number| Op::put(key(number), "first")).collect()).await;
    }
    let stop = Arc::new(AtomicBool::new(false));
    let writer = tokio::spawn({
        let (store, prefix, stop) = (Arc::clone(&store), prefix.clone(), Arc::clone(&stop));
        async move {
            let mut round = 0;
            while !stop.load(Ordering::Relaxed) {
                // Changed, removed and new keys, before and behind wherever the reader is.
                let number = round * 7 % KEYS;
                let then = vec![
                    Op::put(format!("{prefix}{number:04}"), format!("round {round}")),
                    Op::Delete(format!("{prefix}{:04}", (number + KEYS / 2) % KEYS)),
                    Op::put(format!("{prefix}{number:04}+{round}"), "new"),
                ];
                commit(&*store, then).await;
                round += 1;
            }
            round
        }
    });
    for limit in [7, 50, 1000] {
        let first = Range { prefix: prefix.clone(), after: None, at: None, limit: 1 };
        let at = soon("a page", store.list(first)).await.expect("a page").revision;
        let paged = list_at(&*store, &prefix, Some(at), limit).await;
        let whole = list_at(&*store, &prefix, Some(at), 100_000).await;
        assert_eq!(paged, whole, "in pages of {limit} at {at}");
        assert!(paged.iter().all(|kv| kv.mod_revision <= at), "something newer than {at}");
    }
    stop.store(true, Ordering::Relaxed);
    let rounds = soon("the writer", writer).await.expect("the writer");
    assert!(rounds > 0, "nobody wrote meanwhile");
}

pub(super) async fn the_past_can_be_read(store: Arc<dyn Store>, prefix: String) {
    let key = |name: &str| format!("{prefix}{name}");
    let mut expected: BTreeMap<Revision, Vec<(&str, &str)>> = BTreeMap::new();
    let at = put(&*store, &key("a"), "1").await;
    expected.insert(at, vec![("a", "1")]);
    let at = put(&*store, &key("b"), "2").await;
    expected.insert(at, vec![("a", "1"), ("b", "2")]);
    let at = commit(&*store, vec![Op::Delete(key("a")), Op::put(key("b"), "3")]).await;
    expected.insert(at, vec![("b", "3")]);
    let at = put(&*store, &key("a"), "4").await;
    expected.insert(at, vec![("a", "4"), ("b", "3")]);
    let at = commit(&*store, vec![Op::DeletePrefix(prefix.clone())]).await;
    expected.insert(at, vec![]);
    for (at, expected) in &expected {
        let found = list_at(&*store, &prefix, Some(*at), 1).await;
        let found: Vec<_> = found
            .iter()
            .map(|kv| (kv.key.strip_prefix(&prefix).expect("ours"), std::str::from_utf8(&kv.value).expect("text")))
            .collect();
        assert_eq!(&found, expected, "at {at}");
    }
    let first = Revision(expected.keys().next().map_or(0, |first| first.0 - 1));
    assert_eq!(list_at(&*store, &prefix, Some(first), 10).await, [], "before the first write");
}

pub(super) async fn the_future_cannot_be_read(store: Arc<dyn Store>, prefix: String) {
    put(&*store, &format!("{prefix}key"), "1").await;
    let at = Some(Revision(latest(&*store).await.0 + 1_000_000));
    match soon("a page", store.list(Range { prefix, after: None, at, limit: 10 })).await {
        Err(StoreError::Invalid { .. }) => {}
        other => panic!("a read of the future gave {other:?}"),
    }
}

pub(super) async fn several_keys_are_read_in_the_order_asked(store: Arc<dyn Store>, prefix: String) {
    let key = |name: &str| format!("{prefix}{name}");
    commit(&*store, vec![Op::put(key("a"), "1"), Op::put(key("b"), "2")]).await;
    let at = put(&*store, &key("a"), "3").await;
    let keys = ["b", "absent", "a", "b"].map(key);
    let snapshot = soon("a read", store.get_many(keys.to_vec())).await.expect("a read");
    let found: Vec<_> = snapshot.values.iter().map(|kv| kv.as_ref().map(|kv| (&kv.key[..], &kv.value[..]))).collect();
    let expected = [Some((&*keys[0], &b"2"[..])), None, Some((&*keys[2], b"3")), Some((&*keys[3], b"2"))];
    assert_eq!(found, expected);
    assert!(snapshot.revision >= at, "{} is before {at}", snapshot.revision);
    assert_eq!(soon("a read", store.get_many(Vec::new())).await.expect("a read of nothing").values, []);
    assert_eq!(get(&*store, &key("a")).await.map(|kv| kv.mod_revision), Some(at));
}

pub(super) async fn thousands_of_keys_are_listed_page_by_page(store: Arc<dyn Store>, prefix: String) {
    const KEYS: usize = 5_000;
    // Written in another order than they sort.
    let key = |number: usize| format!("{prefix}{:05}", number * 7_919 % KEYS);
    for start in (0..KEYS).step_by(100) {
        commit(&*store, (start..start + 100).map(|number| Op::put(key(number), number.to_string())).collect()).await;
    }
    let found = list_at(&*store, &prefix, None, 999).await;
    let expected: BTreeMap<_, _> = (0..KEYS).map(|number| (key(number), number.to_string().into_bytes())).collect();
    assert_eq!(found.len(), KEYS);
    assert!(found.into_iter().map(|kv| (kv.key, kv.value.to_vec())).eq(expected), "keys or values differ");
}
