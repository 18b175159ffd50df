//! Leases: keys that vanish with their holder. The only cases that take real time.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use super::support::{brief, commit, event, get, names, put, put_leased, soon, text, try_commit, watch};
use crate::{LeaseId, Op, Store, StoreError};

/// The shortest that backends agree on.
const TTL: Duration = Duration::from_secs(2);

async fn grant(store: &dyn Store, ttl: Duration) -> LeaseId {
    soon("a lease", store.grant_lease(ttl)).await.expect("a lease")
}

async fn keep_alive(store: &dyn Store, lease: LeaseId) -> bool {
    soon("a renewal", store.keep_alive(lease)).await.expect("a renewal")
}

pub(super) async fn keys_vanish_when_their_lease_runs_out(store: Arc<dyn Store>, prefix: String) {
    let start = Instant::now();
    let lease = grant(&*store, TTL).await;
    let key = |name: &str| format!("{prefix}{name}");
    let then = vec![put_leased(&key("a"), "1", lease), put_leased(&key("b"), "1", lease), Op::put(key("c"), "1")];
    let at = commit(&*store, then).await;
    assert_eq!(get(&*store, &key("a")).await.and_then(|kv| kv.lease), Some(lease));
    let mut watcher = watch(&*store, &prefix, at.next()).await;
    let mut events = Vec::new();
    while events.len() < 2 {
        events.extend(watcher.next().await.events);
    }
    assert!(start.elapsed() >= TTL, "the lease of {TTL:?} ran out after {:?}", start.elapsed());
    let gone = events[0].mod_revision();
    assert_eq!(brief(&prefix, &events), [event("a", "-", gone), event("b", "-", gone)]);
    assert_eq!(names(&*store, &prefix).await, ["c"]);
    assert!(!keep_alive(&*store, lease).await, "a lease that ran out lives");
}

pub(super) async fn a_lease_kept_alive_lives(store: Arc<dyn Store>, prefix: String) {
    let key = format!("{prefix}key");
    let lease = grant(&*store, TTL).await;
    commit(&*store, vec![put_leased(&key, "1", lease)]).await;
    let start = Instant::now();
    let mut renewals = tokio::time::interval(TTL / 8);
    while start.elapsed() < 3 * TTL {
        renewals.tick().await;
        assert!(keep_alive(&*store, lease).await, "the lease ended after {:?}", start.elapsed());
        assert_eq!(text(&*store, &key).await, "1", "the key was gone after {:?}", start.elapsed());
    }
    let at = get(&*store, &key).await.expect("it lives").mod_revision;
    let mut watcher = watch(&*store, &prefix, at.next()).await;
    while watcher.next().await.events.is_empty() {}
    assert_eq!(get(&*store, &key).await, None, "nobody keeps the lease alive");
}

pub(super) async fn keys_vanish_when_their_lease_is_ended(store: Arc<dyn Store>, prefix: String) {
    let key = |name: &str| format!("{prefix}{name}");
    let (lease, other) = (grant(&*store, 60 * TTL).await, grant(&*store, 60 * TTL).await);
    let then = vec![put_leased(&key("a"), "1", lease), put_leased(&key("b"), "1", other), Op::put(key("c"), "1")];
    let at = commit(&*store, then).await;
    let mut watcher = watch(&*store, &prefix, at.next()).await;
    soon("the end", store.revoke_lease(lease)).await.expect("the end");
    assert_eq!(names(&*store, &prefix).await, ["b", "c"]);
    let mut events = Vec::new();
    while events.is_empty() {
        events.extend(watcher.next().await.events);
    }
    assert_eq!(brief(&prefix, &events), [event("a", "-", events[0].mod_revision())]);
    assert!(!keep_alive(&*store, lease).await);
    soon("the end", store.revoke_lease(lease)).await.expect("ending it twice");
    soon("the end", store.revoke_lease(other)).await.expect("the end of the other");
    assert_eq!(names(&*store, &prefix).await, ["c"]);
}

pub(super) async fn a_key_put_again_follows_its_new_lease(store: Arc<dyn Store>, prefix: String) {
    let key = |name: &str| format!("{prefix}{name}");
    let (old, new) = (grant(&*store, 60 * TTL).await, grant(&*store, 60 * TTL).await);
    let names_under = ["free", "moved", "again", "removed"];
    commit(&*store, names_under.iter().map(|name| put_leased(&key(name), "1", old)).collect()).await;
    put(&*store, &key("free"), "2").await;
    commit(&*store, vec![put_leased(&key("moved"), "2", new), put_leased(&key("again"), "2", old)]).await;
    commit(&*store, vec![Op::Delete(key("removed"))]).await;
    put(&*store, &key("removed"), "3").await;
    soon("the end", store.revoke_lease(old)).await.expect("the end");
    assert_eq!(names(&*store, &prefix).await, ["free", "moved", "removed"]);
    soon("the end", store.revoke_lease(new)).await.expect("the end");
    assert_eq!(names(&*store, &prefix).await, ["free", "removed"]);
    assert_eq!(get(&*store, &key("free")).await.and_then(|kv| kv.lease), None);
}

pub(super) async fn an_unknown_lease_is_refused(store: Arc<dyn Store>, prefix: String) {
    let unknown = LeaseId(0x7fff_ffff_ffff_0001);
    let then = vec![Op::put(format!("{prefix}a"), "1"), put_leased(&format!("{prefix}b"), "1", unknown)];
    match try_commit(&*store, Vec::new(), then).await {
        Err(StoreError::Invalid { .. }) => {}
        other => panic!("a put under an unknown lease gave {other:?}"),
    }
    assert_eq!(names(&*store, &prefix).await, [""; 0]);
    assert!(!keep_alive(&*store, unknown).await);
    soon("the end", store.revoke_lease(unknown)).await.expect("ending an unknown lease");
}
