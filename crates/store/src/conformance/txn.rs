//! Transactions: what they compare, what they write, what they refuse.

use std::sync::Arc;

use bytes::Bytes;

use super::support::{commit, commit_when, get, latest, names, put, text, try_commit, watch};
use crate::{Compare, Op, Revision, Store, StoreError, TxnOutcome, limits};

pub(super) async fn a_put_keeps_the_create_revision_until_the_key_is_removed(store: Arc<dyn Store>, prefix: String) {
    let key = format!("{prefix}key");
    let created = put(&*store, &key, "1").await;
    let changed = put(&*store, &key, "2").await;
    assert!(changed > created, "{changed} after {created}");
    let kv = get(&*store, &key).await.expect("it was put");
    assert_eq!((kv.create_revision, kv.mod_revision, &kv.value[..]), (created, changed, &b"2"[..]));
    assert_eq!(kv.lease, None);
    commit(&*store, vec![Op::Delete(key.clone())]).await;
    assert_eq!(get(&*store, &key).await, None);
    let again = put(&*store, &key, "3").await;
    let kv = get(&*store, &key).await.expect("it was put again");
    assert_eq!((kv.create_revision, kv.mod_revision), (again, again));
}

pub(super) async fn each_compare_holds_and_fails(store: Arc<dyn Store>, prefix: String) {
    let (there, gone, never) = (format!("{prefix}there"), format!("{prefix}gone"), format!("{prefix}never"));
    let first = put(&*store, &there, "1").await;
    let second = commit(&*store, vec![Op::put(&there, "2"), Op::put(&gone, "x")]).await;
    commit(&*store, vec![Op::Delete(gone.clone())]).await;
    let table = [
        (Compare::ModRevision(there.clone(), second), true),
        (Compare::ModRevision(there.clone(), first), false),
        (Compare::ModRevision(there.clone(), second.next()), false),
        (Compare::ModRevision(there.clone(), Revision::NONE), false),
        (Compare::ModRevision(gone.clone(), Revision::NONE), true),
        (Compare::ModRevision(gone.clone(), second), false),
        (Compare::ModRevision(never.clone(), Revision::NONE), true),
        (Compare::ModRevision(never.clone(), second), false),
        (Compare::Missing(there.clone()), false),
        (Compare::Missing(gone.clone()), true),
        (Compare::Missing(never.clone()), true),
        (Compare::Exists(there.clone()), true),
        (Compare::Exists(gone.clone()), false),
        (Compare::Exists(never.clone()), false),
        (Compare::NoneWithPrefix(prefix.clone()), false),
        (Compare::NoneWithPrefix(format!("{prefix}the")), false),
        (Compare::NoneWithPrefix(there.clone()), false),
        (Compare::NoneWithPrefix(format!("{prefix}there/")), true),
        (Compare::NoneWithPrefix(gone.clone()), true),
    ];
    let probe = format!("{prefix}~probe");
    for (number, (compare, holds)) in table.into_iter().enumerate() {
        let value = number.to_string();
        let outcome = try_commit(&*store, vec![compare.clone()], vec![Op::put(&probe, value.clone())]).await;
        let held = matches!(outcome.expect("a commit"), TxnOutcome::Committed(_));
        assert_eq!(held, holds, "{compare:?} with {there} at {second}");
        assert_eq!(text(&*store, &probe).await == value, holds, "what {compare:?} let through");
    }
}

pub(super) async fn all_compares_must_hold(store: Arc<dyn Store>, prefix: String) {
    let (a, b, c) = (format!("{prefix}a"), format!("{prefix}b"), format!("{prefix}c"));
    let at = commit(&*store, vec![Op::put(&a, "1"), Op::put(&b, "1")]).await;
    let good = || {
        vec![
            Compare::ModRevision(a.clone(), at),
            Compare::Exists(b.clone()),
            Compare::Missing(c.clone()),
            Compare::NoneWithPrefix(format!("{prefix}z/")),
        ]
    };
    let bad = [
        Compare::ModRevision(b.clone(), at.next()),
        Compare::Exists(c.clone()),
        Compare::Missing(a.clone()),
        Compare::NoneWithPrefix(prefix.clone()),
    ];
    for (place, bad) in bad.into_iter().enumerate() {
        let mut when = good();
        when.insert(place, bad);
        let outcome = try_commit(&*store, when.clone(), vec![Op::put(&c, "2")]).await.expect("a commit");
        assert_eq!(outcome, TxnOutcome::Conflicted, "{when:?}");
    }
    commit_when(&*store, good(), vec![Op::put(&c, "2")]).await;
    assert_eq!(text(&*store, &c).await, "2");
}

pub(super) async fn a_conflict_writes_nothing(store: Arc<dyn Store>, prefix: String) {
    let (a, b) = (format!("{prefix}a"), format!("{prefix}b"));
    let before = commit(&*store, vec![Op::put(&a, "1"), Op::put(&b, "1")]).await;
    let mut watcher = watch(&*store, &prefix, before.next()).await;
    let then = vec![Op::put(&a, "2"), Op::Delete(b.clone()), Op::put(format!("{prefix}c"), "2")];
    let outcome = try_commit(&*store, vec![Compare::Missing(a.clone())], then).await.expect("a commit");
    assert_eq!(outcome, TxnOutcome::Conflicted);
    assert_eq!(names(&*store, &prefix).await, ["a", "b"]);
    assert_eq!(get(&*store, &a).await.map(|kv| kv.mod_revision), Some(before));
    // The next change is the first one the watcher sees.
    let after = put(&*store, &a, "3").await;
    assert_eq!(watcher.until(after).await.len(), 1);
}

pub(super) async fn the_writes_share_one_revision(store: Arc<dyn Store>, prefix: String) {
    let key = |name: &str| format!("{prefix}{name}");
    let before =
        commit(&*store, vec![Op::put(key("old"), "1"), Op::put(key("dir/1"), "1"), Op::put(key("dir/2"), "1")]).await;
    let mut watcher = watch(&*store, &prefix, before.next()).await;
    let then = vec![
        Op::put(key("new"), "2"),
        Op::Delete(key("old")),
        Op::DeletePrefix(key("dir/")),
        Op::put(key("other"), "2"),
    ];
    let at = commit(&*store, then).await;
    assert!(at > before);
    assert_eq!(names(&*store, &prefix).await, ["new", "other"]);
    for name in ["new", "other"] {
        assert_eq!(get(&*store, &key(name)).await.map(|kv| kv.mod_revision), Some(at), "{name}");
    }
    let events = watcher.until(at).await;
    assert_eq!(events.len(), 5, "{events:?}");
    assert!(events.iter().all(|event| event.mod_revision() == at), "{events:?}");
}

pub(super) async fn a_key_written_twice_is_refused(store: Arc<dyn Store>, prefix: String) {
    let key = format!("{prefix}a/key");
    let twice = [
        vec![Op::put(&key, "1"), Op::put(&key, "2")],
        vec![Op::put(&key, "1"), Op::Delete(key.clone())],
        vec![Op::DeletePrefix(format!("{prefix}a/")), Op::put(&key, "1")],
    ];
    for then in twice {
        match try_commit(&*store, Vec::new(), then.clone()).await {
            Err(StoreError::Invalid { reason }) => assert!(reason.contains(&key), "{reason} does not name the key"),
            other => panic!("{then:?} gave {other:?}"),
        }
    }
    assert_eq!(names(&*store, &prefix).await, [""; 0]);
}

pub(super) async fn removing_what_is_absent_changes_nothing(store: Arc<dyn Store>, prefix: String) {
    let kept = format!("{prefix}kept");
    let before = put(&*store, &kept, "1").await;
    let mut watcher = watch(&*store, &prefix, before.next()).await;
    let absent = vec![Op::Delete(format!("{prefix}absent")), Op::DeletePrefix(format!("{prefix}nothing/"))];
    let at = commit(&*store, absent).await;
    assert!(at >= before, "{at} after {before}");
    assert!(commit(&*store, Vec::new()).await >= at);
    let after = put(&*store, &kept, "2").await;
    let events = watcher.until(after).await;
    assert_eq!(events.len(), 1, "{events:?}");
}

pub(super) async fn values_are_any_bytes(store: Arc<dyn Store>, prefix: String) {
    let values: [&[u8]; 4] = [b"", b"\0", &[0xff, 0xfe, 0, 0x80], "ü\n\"".as_bytes()];
    let key = |number: usize| format!("{prefix}{number}");
    let puts = values.iter().enumerate().map(|(number, value)| Op::put(key(number), Bytes::from_static(value)));
    commit(&*store, puts.collect()).await;
    for (number, value) in values.iter().enumerate() {
        let kv = get(&*store, &key(number)).await.expect("it was put");
        assert_eq!(&kv.value[..], *value);
    }
}

pub(super) async fn a_value_of_the_largest_size_fits_and_a_larger_one_does_not(store: Arc<dyn Store>, prefix: String) {
    let key = format!("{prefix}key");
    assert_eq!(store.limits().value_bytes_max, limits::VALUE_BYTES_MAX, "data could not move between stores");
    let largest = Bytes::from(vec![0xa5; limits::VALUE_BYTES_MAX]);
    commit(&*store, vec![Op::put(&key, largest.clone())]).await;
    assert_eq!(get(&*store, &key).await.map(|kv| kv.value), Some(largest.clone()));
    let larger = Bytes::from(vec![0x5a; limits::VALUE_BYTES_MAX + 1]);
    let then = vec![Op::put(format!("{prefix}other"), "x"), Op::put(&key, larger)];
    match try_commit(&*store, Vec::new(), then).await {
        Err(StoreError::TooLarge { size, limit, .. }) => {
            assert_eq!((size, limit), (limits::VALUE_BYTES_MAX + 1, limits::VALUE_BYTES_MAX));
        }
        other => panic!("a value that is too large gave {other:?}"),
    }
    assert_eq!(names(&*store, &prefix).await, ["key"]);
    assert_eq!(get(&*store, &key).await.map(|kv| kv.value), Some(largest));
}

pub(super) async fn a_transaction_over_the_limits_is_refused(store: Arc<dyn Store>, prefix: String) {
    let accepted = store.limits();
    let before = latest(&*store).await;
    let many = (0..=accepted.ops_max).map(|number| Op::put(format!("{prefix}{number}"), "")).collect();
    match try_commit(&*store, Vec::new(), many).await {
        Err(StoreError::TooLarge { size, limit, hint, .. }) => {
            assert_eq!((size, limit, hint), (accepted.ops_max + 1, accepted.ops_max, accepted.hint));
        }
        other => panic!("too many operations gave {other:?}"),
    }
    let value = Bytes::from(vec![0; accepted.value_bytes_max]);
    let heavy =
        (0..=accepted.bytes_max / value.len()).map(|number| Op::put(format!("{prefix}{number}"), value.clone()));
    match try_commit(&*store, Vec::new(), heavy.collect()).await {
        Err(StoreError::TooLarge { size, limit, .. }) => {
            // A small backend may run into its limit of operations first.
            assert!(size > limit && (limit == accepted.bytes_max || limit == accepted.ops_max), "{size} over {limit}");
        }
        other => panic!("too many bytes gave {other:?}"),
    }
    let compares = (0..=accepted.ops_max).map(|number| Compare::Missing(format!("{prefix}{number}"))).collect();
    match try_commit(&*store, compares, vec![Op::put(format!("{prefix}x"), "")]).await {
        Err(StoreError::TooLarge { .. }) => {}
        other => panic!("too many compares gave {other:?}"),
    }
    assert_eq!(names(&*store, &prefix).await, [""; 0]);
    let mut watcher = watch(&*store, &prefix, before.next()).await;
    let after = put(&*store, &format!("{prefix}y"), "").await;
    assert_eq!(watcher.until(after).await.len(), 1);
}
