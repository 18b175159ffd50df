//! Transactions with more compares and writes than some backends take at once: they are one transaction all the same.

use std::{sync::Arc, time::Duration};

use super::support::{commit_when, get, list_at, names, put, put_leased, soon, text, try_commit, watch};
use crate::{Compare, Op, Revision, Store, StoreError, TxnOutcome};

const PUTS: usize = 1_000;
const COMPARES: usize = 200;

fn key(prefix: &str, number: usize) -> String {
    format!("{prefix}wide/{number:04}")
}

fn puts(prefix: &str, value: &str) -> Vec<Op> {
    (0..PUTS).map(|number| Op::put(key(prefix, number), value.to_owned())).collect()
}

fn absent(prefix: &str) -> Vec<Compare> {
    (0..COMPARES).map(|number| Compare::Missing(key(prefix, number))).collect()
}

pub(super) async fn many_writes_are_one_revision(store: Arc<dyn Store>, prefix: String) {
    let before = put(&*store, &format!("{prefix}first"), "1").await;
    let mut watcher = watch(&*store, &prefix, before.next()).await;
    let at = commit_when(&*store, absent(&prefix), puts(&prefix, "1")).await;
    let all = list_at(&*store, &format!("{prefix}wide/"), None, PUTS).await;
    assert_eq!(all.len(), PUTS);
    assert!(all.iter().all(|kv| kv.mod_revision == at && kv.create_revision == at), "not all at {at}");
    let batch = loop {
        let batch = watcher.next().await;
        if !batch.events.is_empty() {
            break batch;
        }
    };
    assert_eq!((batch.events.len(), batch.revision), (PUTS, at), "a watcher sees all of it or nothing");
    assert!(batch.events.iter().all(|event| event.mod_revision() == at));
    // The second time, each is compared with what it has become, and half of them go.
    let when = (0..COMPARES).map(|number| Compare::ModRevision(key(&prefix, number), at)).collect();
    let half = (0..PUTS).map(|number| match number % 2 {
        0 => Op::Delete(key(&prefix, number)),
        _ => Op::put(key(&prefix, number), "2"),
    });
    let changed = commit_when(&*store, when, half.collect()).await;
    let events = watcher.until(changed).await;
    assert_eq!(events.len(), PUTS);
    assert!(events.iter().all(|event| event.mod_revision() == changed));
    assert_eq!(names(&*store, &format!("{prefix}wide/")).await.len(), PUTS / 2);
}

pub(super) async fn one_compare_of_many_that_fails_stops_all_writes(store: Arc<dyn Store>, prefix: String) {
    let other = format!("{prefix}other");
    let before = put(&*store, &other, "1").await;
    let wrong = [
        Compare::Missing(other.clone()),
        Compare::ModRevision(other.clone(), before.next()),
        Compare::Exists(format!("{prefix}never")),
        Compare::NoneWithPrefix(other.clone()),
    ];
    for (kind, wrong) in wrong.into_iter().enumerate() {
        for place in [0, 63, 64, 65, 127, 128, COMPARES / 2 + kind, COMPARES - 1] {
            let mut when = absent(&prefix);
            when[place] = wrong.clone();
            let outcome = try_commit(&*store, when, puts(&prefix, "no")).await.expect("an answer");
            assert_eq!(outcome, TxnOutcome::Conflicted, "{wrong:?} at {place}");
        }
    }
    assert_eq!(names(&*store, &prefix).await, ["other"]);
    let mut watcher = watch(&*store, &prefix, before.next()).await;
    let after = put(&*store, &other, "2").await;
    assert_eq!(watcher.until(after).await.len(), 1, "nobody saw what did not happen");
    // With all of them right, the same goes through.
    let mut when = absent(&prefix);
    when.push(Compare::ModRevision(other.clone(), after));
    commit_when(&*store, when, puts(&prefix, "yes")).await;
    assert_eq!(text(&*store, &key(&prefix, PUTS - 1)).await, "yes");
}

pub(super) async fn many_compares_and_no_write_are_answered(store: Arc<dyn Store>, prefix: String) {
    assert!(commit_when(&*store, absent(&prefix), Vec::new()).await >= Revision::NONE);
    put(&*store, &key(&prefix, COMPARES - 1), "1").await;
    let outcome = try_commit(&*store, absent(&prefix), Vec::new()).await.expect("an answer");
    assert_eq!(outcome, TxnOutcome::Conflicted);
}

pub(super) async fn many_writes_under_a_lost_lead_do_not_happen(store: Arc<dyn Store>, prefix: String) {
    let lead = format!("{prefix}lead");
    let lease = soon("a lease", store.grant_lease(Duration::from_secs(60))).await.expect("a lease");
    let held = super::support::commit(&*store, vec![put_leased(&lead, "me", lease)]).await;
    let leads = || {
        let mut when = absent(&prefix);
        when.push(Compare::ModRevision(lead.clone(), held));
        when
    };
    soon("the end of a lease", store.revoke_lease(lease)).await.expect("it ends");
    assert_eq!(get(&*store, &lead).await, None);
    let outcome = try_commit(&*store, leads(), puts(&prefix, "1")).await.expect("an answer");
    assert_eq!(outcome, TxnOutcome::Conflicted);
    // Somebody else leads: still not.
    put(&*store, &lead, "other").await;
    let outcome = try_commit(&*store, leads(), puts(&prefix, "1")).await.expect("an answer");
    assert_eq!(outcome, TxnOutcome::Conflicted);
    // Keys under a lease that has ended are refused, and what came before them in the transaction is not written either.
    let mut then = puts(&prefix, "1");
    then.push(put_leased(&format!("{prefix}leased"), "1", lease));
    match try_commit(&*store, absent(&prefix), then).await {
        Err(StoreError::Invalid { .. }) => {}
        other => panic!("a lease that has ended gave {other:?}"),
    }
    assert_eq!(names(&*store, &prefix).await, ["lead"]);
}

pub(super) async fn many_keys_vanish_with_their_lease(store: Arc<dyn Store>, prefix: String) {
    let lease = soon("a lease", store.grant_lease(Duration::from_secs(60))).await.expect("a lease");
    let leased = (0..PUTS).map(|number| put_leased(&key(&prefix, number), "1", lease)).collect();
    commit_when(&*store, absent(&prefix), leased).await;
    assert_eq!(names(&*store, &prefix).await.len(), PUTS);
    soon("the end of a lease", store.revoke_lease(lease)).await.expect("it ends");
    assert_eq!(names(&*store, &prefix).await, [""; 0]);
}
