//! Watches: complete, in order, resumable, and never silent about where they are.

use std::{collections::HashMap, sync::Arc};

use super::support::{brief, commit, event, latest, put, watch};
use crate::{Op, Revision, Store};

pub(super) async fn a_watch_from_the_past_sees_everything_since(store: Arc<dyn Store>, prefix: String) {
    let key = |name: &str| format!("{prefix}{name}");
    let first = put(&*store, &key("a"), "1").await;
    let second = commit(&*store, vec![Op::put(key("a"), "2"), Op::put(key("b"), "2")]).await;
    let third = commit(&*store, vec![Op::DeletePrefix(prefix.clone())]).await;
    let last = put(&*store, &key("a"), "4").await;
    let expected = [
        event("a", "1", first),
        event("a", "2", second),
        event("b", "2", second),
        event("a", "-", third),
        event("b", "-", third),
        event("a", "4", last),
    ];
    for (from, skipped) in [(first, 0), (second, 1), (third, 3), (last, 5)] {
        let events = watch(&*store, &prefix, from).await.until(last).await;
        assert_eq!(brief(&prefix, &events), expected[skipped..], "from {from}");
    }
    let crate::Event::Put(kv) = &watch(&*store, &prefix, second).await.until(last).await[0] else {
        panic!("the first event is a put")
    };
    assert_eq!((kv.create_revision, kv.mod_revision, kv.lease), (first, second, None));
}

pub(super) async fn a_watch_from_now_sees_what_comes(store: Arc<dyn Store>, prefix: String) {
    let key = format!("{prefix}key");
    let before = put(&*store, &key, "before").await;
    let mut first = watch(&*store, &prefix, before.next()).await;
    let mut second = watch(&*store, &prefix, before.next()).await;
    for number in 0..5 {
        let at = put(&*store, &key, &number.to_string()).await;
        let expected = [event("key", &number.to_string(), at)];
        assert_eq!(brief(&prefix, &first.until(at).await), expected);
        assert_eq!(brief(&prefix, &second.until(at).await), expected);
    }
}

pub(super) async fn a_watch_sees_its_prefix_only(store: Arc<dyn Store>, prefix: String) {
    let before = latest(&*store).await;
    let names = ["a", "a/", "a/\u{10FFFF}x", "a0", "b"];
    let at = commit(&*store, names.iter().map(|name| Op::put(format!("{prefix}{name}"), "1")).collect()).await;
    let gone = commit(&*store, vec![Op::DeletePrefix(prefix.clone())]).await;
    let inside = format!("{prefix}a/");
    let events = watch(&*store, &inside, before.next()).await.until(gone).await;
    let expected =
        [event("", "1", at), event("\u{10FFFF}x", "1", at), event("", "-", gone), event("\u{10FFFF}x", "-", gone)];
    assert_eq!(brief(&inside, &events), expected);
}

pub(super) async fn a_resumed_watch_has_no_gap_and_no_duplicate(store: Arc<dyn Store>, prefix: String) {
    const WRITES: usize = 200;
    let before = latest(&*store).await;
    let writer = tokio::spawn({
        let (store, prefix) = (Arc::clone(&store), prefix.clone());
        async move {
            let mut last = Revision::NONE;
            for number in 0..WRITES {
                let then = vec![Op::put(format!("{prefix}a"), number.to_string()), Op::put(format!("{prefix}b"), "x")];
                last = commit(&*store, then).await;
            }
            last
        }
    });
    let mut seen = Vec::new();
    let mut reached = before;
    // One batch per watch: each goes on where the one before was dropped.
    while seen.len() < 2 * WRITES {
        let mut watcher = watch(&*store, &prefix, reached.next()).await;
        seen.extend(watcher.next().await.events);
        reached = watcher.reached;
    }
    let last = writer.await.expect("the writer");
    let numbers: Vec<_> =
        brief(&prefix, &seen).into_iter().filter(|(key, ..)| key == "a").map(|(_, value, _)| value).collect();
    assert_eq!(numbers, (0..WRITES).map(|number| number.to_string()).collect::<Vec<_>>());
    assert_eq!(seen.len(), 2 * WRITES);
    assert_eq!(seen.last().map(crate::Event::mod_revision), Some(last));
}

pub(super) async fn a_batch_has_whole_transactions(store: Arc<dyn Store>, prefix: String) {
    const WRITES: usize = 40;
    const KEYS: usize = 50;
    let before = latest(&*store).await;
    let writer = tokio::spawn({
        let (store, prefix) = (Arc::clone(&store), prefix.clone());
        async move {
            let mut last = before;
            for round in 0..WRITES {
                let then = (0..KEYS).map(|number| Op::put(format!("{prefix}{number}"), format!("{round:0>500}")));
                last = commit(&*store, then.collect()).await;
            }
            last
        }
    });
    let mut watcher = watch(&*store, &prefix, before.next()).await;
    let mut transactions = 0;
    while transactions < WRITES {
        let mut sizes: HashMap<Revision, usize> = HashMap::new();
        for event in watcher.next().await.events {
            *sizes.entry(event.mod_revision()).or_default() += 1;
        }
        assert!(sizes.values().all(|size| *size == KEYS), "part of a transaction in a batch: {sizes:?}");
        transactions += sizes.len();
    }
    let last = writer.await.expect("the writer");
    assert_eq!(watcher.until(last).await, []);
}

pub(super) async fn a_watch_of_an_idle_prefix_reaches_the_present(store: Arc<dyn Store>, prefix: String) {
    let idle = format!("{prefix}idle/");
    let before = put(&*store, &format!("{idle}key"), "1").await;
    let mut watcher = watch(&*store, &idle, before.next()).await;
    for round in 0..5 {
        for number in 0..3 {
            put(&*store, &format!("{prefix}busy/{number}"), &round.to_string()).await;
        }
        let present = latest(&*store).await;
        assert_eq!(watcher.until(present).await, [], "round {round}");
    }
}

pub(super) async fn a_watch_from_the_future_waits_for_it(store: Arc<dyn Store>, prefix: String) {
    let key = format!("{prefix}key");
    let from = Revision(put(&*store, &key, "0").await.0 + 3);
    let mut watcher = watch(&*store, &prefix, from).await;
    let mut written = Vec::new();
    // Others may write too, so count what came, not how often.
    while written.iter().filter(|at| **at >= from).count() < 2 {
        written.push(put(&*store, &key, &written.len().to_string()).await);
    }
    let last = written[written.len() - 1];
    let seen: Vec<_> = watcher.until(last).await.iter().map(crate::Event::mod_revision).collect();
    assert_eq!(seen, written.into_iter().filter(|at| *at >= from).collect::<Vec<_>>());
}
