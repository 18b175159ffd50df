//! The etcd backend against real etcd processes: what the conformance suite asks of every backend, and what only a cluster can
//! do wrong.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use sabakan_store::{
    Compare, Event, KeyValue, Op, Range, Revision, Store, StoreError, Txn, TxnOutcome, Watch, WatchBatch, conformance,
};
use sabakan_store_etcd::{EtcdConfig, EtcdStore};
use sabakan_testkit::{
    etcd::{Etcd, EtcdOptions},
    wait_for,
};
use tokio::time::timeout;

/// How long anything may take that should happen soon. Far more than needed, for loaded machines.
const SOON: Duration = Duration::from_secs(60);

async fn connect(config: EtcdConfig) -> EtcdStore {
    EtcdStore::connect(config).await.expect("etcd answers")
}

async fn put(store: &EtcdStore, key: &str, value: &str) -> Revision {
    let txn = Txn { when: vec![], then: vec![Op::put(key, value.to_owned())] };
    match store.commit(txn).await.expect("the put is accepted") {
        TxnOutcome::Committed(revision) => revision,
        TxnOutcome::Conflicted => panic!("nothing was compared"),
    }
}

async fn next(watch: &mut Watch) -> Result<WatchBatch, StoreError> {
    timeout(SOON, watch.next()).await.expect("a batch arrives")
}

/// Reads the watch up to a revision; passing unavailability is allowed, nothing else is.
async fn reach(watch: &mut Watch, revision: Revision) -> Vec<Event> {
    let mut events = Vec::new();
    let mut last = Revision::NONE;
    let began = Instant::now();
    while last < revision {
        assert!(began.elapsed() < SOON, "the watch stays at {last}, {revision} was written");
        match next(watch).await {
            Ok(batch) => {
                assert!(batch.revision > last, "{} after {last}", batch.revision);
                last = batch.revision;
                events.extend(batch.events);
            }
            Err(StoreError::Unavailable { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    events
}

async fn list(store: &EtcdStore, prefix: &str) -> Vec<KeyValue> {
    let mut range = Range::first(prefix);
    let mut all = Vec::new();
    loop {
        let page = store.list(range.clone()).await.expect("the list is readable");
        all.extend(page.items);
        if !page.more {
            return all;
        }
        range.at = Some(page.revision);
        range.after = all.last().map(|kv| kv.key.clone());
    }
}

fn keys(items: &[KeyValue]) -> Vec<&str> {
    items.iter().map(|kv| kv.key.as_str()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn it_keeps_every_promise_of_a_backend() {
    let etcd = Etcd::start();
    let store = Arc::new(connect(etcd.config("/sabakan/")).await);
    conformance::run_all(store, "/sabakan/").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn it_behaves_like_the_model() {
    let etcd = Etcd::start();
    let store = Arc::new(connect(etcd.config("/sabakan/")).await);
    // Around the head key, and far from it.
    for (seed, prefix) in (1..).zip(["/sabakan/", "/sabakan/he", "/sabakan/model/", "/states/", "/a/"]) {
        conformance::random_operations(store.clone(), prefix, seed, 200).await;
        let emptied = Txn { when: vec![], then: vec![Op::DeletePrefix(prefix.into())] };
        let _ = store.commit(emptied).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_with_client_certificates() {
    let etcd = Etcd::start_with(&EtcdOptions { tls: true, ..EtcdOptions::default() });
    let store = connect(etcd.config("/sabakan/")).await;
    let mut watch = store.watch("/sabakan/".into(), Revision::NONE).await.unwrap();
    let revision = put(&store, "/sabakan/a", "1").await;
    assert_eq!(reach(&mut watch, revision).await.len(), 1);

    // A bare address means TLS once certificates are given.
    let mut bare = etcd.config("/sabakan/");
    bare.endpoints = vec![etcd.endpoints()[0].replace("https://", "")];
    assert_eq!(connect(bare).await.latest_commit().await.unwrap(), revision);

    let mut stranger = etcd.config("/sabakan/");
    stranger.tls.as_mut().unwrap().cert_pem = None;
    stranger.tls.as_mut().unwrap().key_pem = None;
    let error = EtcdStore::connect(stranger).await.err().expect("etcd wants a certificate").to_string();
    assert!(error.contains("no etcd member answered within 2 s"), "{error}");

    let mut distrustful = etcd.config("/sabakan/");
    let other = Etcd::start_with(&EtcdOptions { tls: true, ..EtcdOptions::default() }).config("/");
    distrustful.tls.as_mut().unwrap().ca_pem = other.tls.unwrap().ca_pem;
    let error = EtcdStore::connect(distrustful).await.err().expect("the CA is another").to_string();
    assert!(error.contains("the TLS handshake failed") && !error.contains("127.0.0.1"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn user_and_password() {
    let user = ("sabakan".to_owned(), "hunter2".to_owned());
    let etcd = Etcd::start_with(&EtcdOptions { auth: Some(user), ..EtcdOptions::default() });

    let mut wrong = etcd.config("/sabakan/");
    wrong.password = Some("Password1".into());
    let error = EtcdStore::connect(wrong).await.err().expect("the password is wrong");
    assert_eq!(error.to_string(), "the store is not available: etcd refused the user name or the password");

    let mut nobody = etcd.config("/sabakan/");
    nobody.username = None;
    nobody.password = None;
    let error = EtcdStore::connect(nobody).await.err().expect("etcd wants a user").to_string();
    assert!(error.contains("etcd denies access"), "{error}");

    // The user may read and write /sabakan/ and nothing else: no more than that is needed.
    let store = connect(etcd.config("/sabakan/")).await;
    let mut watch = store.watch("/sabakan/machines/".into(), Revision::NONE).await.unwrap();
    let first = put(&store, "/sabakan/machines/a", "1").await;
    assert_eq!(reach(&mut watch, first).await.len(), 1);
    let error = store.get_many(vec!["/other/a".into()]).await.unwrap_err().to_string();
    assert!(error.contains("permission denied"), "{error}");
    assert!(matches!(store.watch("/other/".into(), first).await, Err(StoreError::Unavailable { .. })));

    // A restart makes etcd forget its tokens. Whatever comes first gets a new one: a write, ...
    etcd.restart_member(0);
    let second = put(&store, "/sabakan/machines/a", "2").await;
    // ... the watch that was open, ...
    assert_eq!(reach(&mut watch, second).await.len(), 1);
    // ... a new watch, ...
    etcd.restart_member(0);
    let mut late = store.watch("/sabakan/machines/".into(), first).await.unwrap();
    assert_eq!(reach(&mut late, second).await.len(), 2);
    // ... or a read.
    etcd.restart_member(0);
    assert_eq!(store.latest_commit().await.unwrap(), second);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_of_two_endpoints_is_dead() {
    let etcd = Etcd::start();
    let mut config = etcd.config("/sabakan/");
    config.endpoints.insert(0, "127.0.0.1:1".into());
    let store = connect(config).await;
    let revision = put(&store, "/sabakan/a", "1").await;
    assert_eq!(store.latest_commit().await.unwrap(), revision);
    let mut watch = store.watch("/sabakan/".into(), revision).await.unwrap();
    assert_eq!(reach(&mut watch, revision).await.len(), 1);
}

/// What became of each key a writer was told about.
struct Acknowledged {
    key: String,
    /// `None`: etcd never said, but a second try found it written.
    revision: Option<Revision>,
}

/// Writes `count` keys, each exactly once, whatever etcd does meanwhile.
async fn write_keys(store: &EtcdStore, writer: usize, count: usize, done: &AtomicUsize) -> Vec<Acknowledged> {
    let mut acknowledged = Vec::new();
    for i in 0..count {
        let key = format!("/sabakan/machines/{writer}-{i:04}");
        let mut unknown = false;
        let began = Instant::now();
        let revision = loop {
            assert!(began.elapsed() < SOON, "{key} could not be written");
            let txn = Txn { when: vec![Compare::Missing(key.clone())], then: vec![Op::put(&key, "x")] };
            match store.commit(txn).await {
                Ok(TxnOutcome::Committed(revision)) => break Some(revision),
                // Only a write whose outcome was unknown may turn out to have happened.
                Ok(TxnOutcome::Conflicted) if unknown => break None,
                Ok(TxnOutcome::Conflicted) => panic!("{key} was written although etcd was said to be unavailable"),
                Err(StoreError::OutcomeUnknown { .. }) => unknown = true,
                Err(StoreError::CannotWrite { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        };
        acknowledged.push(Acknowledged { key, revision });
        done.fetch_add(1, Ordering::Relaxed);
    }
    acknowledged
}

#[tokio::test(flavor = "multi_thread")]
async fn the_leader_is_killed_while_writing() {
    const WRITERS: usize = 16;
    const KEYS: usize = 60;
    let etcd = Etcd::start_with(&EtcdOptions { members: 3, ..EtcdOptions::default() });
    let leader = etcd.leader();
    let mut config = etcd.config("/sabakan/");
    // Everybody talks to the leader first.
    config.endpoints.rotate_left(leader);
    let store = Arc::new(connect(config).await);
    let mut watch = store.watch("/sabakan/".into(), Revision::NONE).await.unwrap();
    let (end, mut ended) = tokio::sync::watch::channel(None);
    let watcher = tokio::spawn(async move {
        let mut events = Vec::new();
        let mut last = Revision::NONE;
        while ended.borrow_and_update().is_none_or(|end| last < end) {
            tokio::select! {
                batch = watch.next() => match batch {
                    Ok(batch) => {
                        assert!(batch.revision > last, "{} after {last}", batch.revision);
                        last = batch.revision;
                        events.extend(batch.events);
                    }
                    Err(error) => assert!(matches!(error, StoreError::Unavailable { .. }), "{error}"),
                },
                changed = ended.changed() => changed.unwrap(),
            }
        }
        events
    });

    let done = Arc::new(AtomicUsize::new(0));
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let (store, done) = (store.clone(), done.clone());
            tokio::spawn(async move { write_keys(&store, writer, KEYS, &done).await })
        })
        .collect();
    while done.load(Ordering::Relaxed) < WRITERS * KEYS / 4 {
        tokio::task::yield_now().await;
    }
    etcd.kill_member(leader);
    assert!(done.load(Ordering::Relaxed) < WRITERS * KEYS, "the leader was killed too late to prove anything");

    let mut acknowledged = Vec::new();
    for writer in writers {
        acknowledged.extend(writer.await.unwrap());
    }
    etcd.restart_member(leader);
    let last = put(&store, "/sabakan/last", "x").await;
    end.send(Some(last)).unwrap();

    // Nothing acknowledged is lost, also on the member that was away.
    let mut returned = etcd.config("/sabakan/");
    returned.endpoints = vec![etcd.endpoints()[leader].clone()];
    let stored = list(&connect(returned).await, "/sabakan/").await;
    let stored: BTreeMap<_, _> = stored.into_iter().map(|kv| (kv.key, kv.mod_revision)).collect();
    assert_eq!(stored.len(), WRITERS * KEYS + 1);
    for Acknowledged { key, revision } in acknowledged {
        let found = stored.get(&key).unwrap_or_else(|| panic!("{key} is lost"));
        assert!(revision.is_none_or(|revision| revision == *found), "{key}");
    }
    // The watcher saw each write once, in order.
    let events = timeout(SOON, watcher).await.expect("the watcher arrives").unwrap();
    assert!(events.is_sorted_by_key(Event::mod_revision));
    let seen: Vec<_> = events.iter().map(|event| (event.key().to_owned(), event.mod_revision())).collect();
    assert_eq!(seen.len(), stored.len(), "no gap, no duplicate");
    assert_eq!(seen.into_iter().collect::<BTreeMap<_, _>>(), stored);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_stops_answering_is_left() {
    let etcd = Etcd::start_with(&EtcdOptions { members: 3, ..EtcdOptions::default() });
    let follower = (etcd.leader() + 1) % 3;
    let mut config = etcd.config("/sabakan/");
    config.endpoints.rotate_left(follower);
    config.request_timeout = Duration::from_secs(1);
    let store = connect(config).await;
    let first = put(&store, "/sabakan/a", "1").await;
    let mut watch = store.watch("/sabakan/".into(), Revision::NONE).await.unwrap();
    assert_eq!(reach(&mut watch, first).await.len(), 1);

    etcd.pause_member(follower);
    let began = Instant::now();
    assert_eq!(store.latest_commit().await.unwrap(), first);
    assert!(began.elapsed() < Duration::from_secs(10), "a read moves on: {:?}", began.elapsed());
    let second = put(&store, "/sabakan/a", "2").await;
    // The watch notices by itself that its connection is dead.
    assert_eq!(reach(&mut watch, second).await.len(), 1);
    etcd.resume_member(follower);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_without_majority_says_so_and_recovers() {
    let etcd = Etcd::start_with(&EtcdOptions { members: 3, ..EtcdOptions::default() });
    let survivor = (etcd.leader() + 1) % 3;
    let mut config = etcd.config("/sabakan/");
    config.endpoints.rotate_left(survivor);
    config.request_timeout = Duration::from_secs(1);
    let store = connect(config).await;
    let first = put(&store, "/sabakan/a", "1").await;
    let mut watch = store.watch("/sabakan/".into(), Revision::NONE).await.unwrap();
    assert_eq!(reach(&mut watch, first).await.len(), 1);

    etcd.kill_member((survivor + 1) % 3);
    etcd.kill_member((survivor + 2) % 3);
    // The connection to the survivor is fine; only its answers tell.
    let watched = next(&mut watch).await;
    assert!(matches!(watched, Err(StoreError::Unavailable { .. })), "{watched:?}");
    let read = store.latest_commit().await;
    assert!(matches!(read, Err(StoreError::Unavailable { .. })), "{read:?}");
    let txn = Txn { when: vec![], then: vec![Op::put("/sabakan/b", "1")] };
    let written = store.commit(txn).await;
    assert!(matches!(written, Err(StoreError::CannotWrite { .. })), "{written:?}");

    etcd.restart_member((survivor + 1) % 3);
    let second = put(&store, "/sabakan/a", "2").await;
    let events = reach(&mut watch, second).await;
    assert_eq!(events.iter().map(Event::key).collect::<Vec<_>>(), ["/sabakan/a"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_etcd_that_hangs_gets_a_deadline_and_an_honest_answer() {
    let etcd = Etcd::start();
    let mut config = etcd.config("/sabakan/");
    config.request_timeout = Duration::from_millis(500);
    let store = connect(config).await;
    put(&store, "/sabakan/a", "1").await;
    etcd.pause_member(0);
    let create = Txn { when: vec![Compare::Missing("/sabakan/b".into())], then: vec![Op::put("/sabakan/b", "1")] };
    let began = Instant::now();
    let written = store.commit(create.clone()).await;
    assert!(matches!(written, Err(StoreError::OutcomeUnknown { .. })), "{written:?}");
    let read = store.latest_commit().await;
    assert!(matches!(read, Err(StoreError::Unavailable { .. })), "{read:?}");
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    etcd.resume_member(0);
    // Either the first attempt happened or the second does; there is one key in any case.
    let _ = store.commit(create).await.unwrap();
    assert_eq!(keys(&list(&store, "/sabakan/").await), ["/sabakan/a", "/sabakan/b"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_is_too_large_writes_nothing() {
    let etcd = Etcd::start();
    let store = connect(etcd.config("/sabakan/")).await;
    let before = put(&store, "/sabakan/a", "1").await;
    let limits = store.limits();
    assert!(limits.ops_max >= 40_000, "{limits:?}");
    let keys_of = |count: usize| (0..count).map(|i| Op::put(format!("/sabakan/k{i:03}"), "x")).collect::<Vec<_>>();
    let error = store.commit(Txn { when: vec![], then: keys_of(limits.ops_max + 1) }).await.unwrap_err();
    assert!(matches!(error, StoreError::TooLarge { what: "operations", .. }), "{error}");
    for count in [2, 4_000] {
        let value = vec![0; 1600 * 1024 / count];
        let large = (0..count).map(|i| Op::put(format!("/sabakan/h{i}"), value.clone())).collect();
        let error = store.commit(Txn { when: vec![], then: large }).await.unwrap_err();
        assert!(matches!(error, StoreError::TooLarge { what: "bytes", .. }), "{error}");
        assert!(error.to_string().contains("--etcd-max-request-bytes"), "{error}");
    }
    assert_eq!(store.latest_commit().await.unwrap(), before);
    assert_eq!(keys(&list(&store, "/sabakan/").await), ["/sabakan/a"]);

    // What we state as limit, etcd accepts to the last byte, in one transaction of an import or in many small pieces.
    for count in [127, 128, 1_000, 4_500] {
        let names: Vec<_> = (0..count).map(|i| format!("/sabakan/{count}/{i:04}")).collect();
        let most = if count <= 1_000 { limits.bytes_max } else { limits.bytes_max / 2 };
        let value = vec![0; most / count - 2 * names[0].len()];
        let when = names.iter().map(|name| Compare::ModRevision(name.clone(), Revision::NONE)).collect();
        let then = names.iter().map(|name| Op::put(name, value.clone())).collect();
        assert!(matches!(store.commit(Txn { when, then }).await.unwrap(), TxnOutcome::Committed(_)), "{count}");
        assert_eq!(list(&store, &format!("/sabakan/{count}/")).await.len(), count);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_etcd_with_lower_limits_than_stated_is_named_as_the_cause() {
    let options = EtcdOptions { max_txn_ops: Some(16), max_request_bytes: Some(64 * 1024), ..EtcdOptions::default() };
    let etcd = Etcd::start_with(&options);
    let store = connect(etcd.config("/sabakan/")).await;
    let before = put(&store, "/sabakan/a", "1").await;
    let many = (0..20).map(|i| Op::put(format!("/sabakan/k{i}"), "x")).collect();
    let error = store.commit(Txn { when: vec![], then: many }).await.unwrap_err().to_string();
    assert!(error.contains("operations of one transaction: 21") && error.contains("etcd itself refused"), "{error}");
    for bytes in [100 * 1024, 900 * 1024] {
        let large = vec![Op::put("/sabakan/k", vec![0; bytes])];
        let error = store.commit(Txn { when: vec![], then: large }).await.unwrap_err();
        assert!(matches!(error, StoreError::TooLarge { what: "bytes", .. }), "{error}");
        assert!(error.to_string().contains("etcd itself refused"), "{error}");
    }
    assert_eq!(store.latest_commit().await.unwrap(), before);
    // Reads adapt by themselves.
    let wanted: Vec<_> = (0..20).map(|i| format!("/sabakan/{}", if i == 13 { "a" } else { "none" })).collect();
    let found = store.get_many(wanted).await.unwrap().values;
    assert_eq!(found.iter().position(Option::is_some), Some(13));

    // With the true limits stated, it is nested so that etcd takes it.
    let mut config = etcd.config("/sabakan/");
    config.max_txn_ops = 16;
    let store = connect(config).await;
    let most = store.limits().ops_max;
    let many: Vec<_> = (0..most).map(|i| format!("/sabakan/n{i:02}")).collect();
    let when = many.iter().map(|key| Compare::Missing(key.clone())).collect();
    let then = many.iter().map(|key| Op::put(key, "x")).collect();
    let done = store.commit(Txn { when, then }).await.unwrap();
    assert!(most > 16 && matches!(done, TxnOutcome::Committed(_)), "{most}: {done:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn foreign_writes_never_stall_a_watcher() {
    let etcd = Etcd::start();
    let store = connect(etcd.config("/sabakan/")).await;
    assert_eq!(store.latest_commit().await.unwrap(), Revision::NONE);
    put(&store, "/sabakan/machines/a", "1").await;
    // Before, within and behind the range that is really watched.
    for key in ["/aaa", "/sabakanx", "/zzz"] {
        etcd.etcdctl(&["put", key, "x"]);
    }
    for prefix in ["/sabakan/", "/sabakan/machines/", "/sabakan/audit/", "/states/", ""] {
        let latest = store.latest_commit().await.unwrap();
        let mut watch = store.watch(prefix.into(), Revision::NONE).await.unwrap();
        let events = reach(&mut watch, latest).await;
        assert!(events.iter().all(|event| event.key().starts_with(prefix)), "{prefix}: {events:?}");
        // Also when only other prefixes of ours change.
        let latest = put(&store, "/sabakan/other/b", "1").await;
        etcd.etcdctl(&["put", "/sabakanx", "y"]);
        reach(&mut watch, latest).await;
        assert_eq!(store.latest_commit().await.unwrap(), latest, "foreign writes are no commits");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_watch_is_gone_from_etcd() {
    let etcd = Etcd::start();
    let store = connect(etcd.config("/sabakan/")).await;
    let open = || etcd.metric(0, "etcd_debugging_mvcc_watcher_total");
    let mut watches = Vec::new();
    for _ in 0..20 {
        watches.push(store.watch("/sabakan/".into(), Revision::NONE).await.unwrap());
    }
    assert_eq!(open(), 20.0);
    drop(watches);
    wait_for("etcd to end the watches", SOON, || (open() == 0.0).then_some(()));
}

#[tokio::test(flavor = "multi_thread")]
async fn many_callers_and_a_watcher_that_does_not_read_get_along() {
    const CALLERS: usize = 250;
    const CALLS: usize = 24;
    let etcd = Etcd::start();
    let store = Arc::new(connect(etcd.config("/sabakan/")).await);
    let mut idle = Vec::new();
    for _ in 0..5 {
        idle.push(store.watch("/sabakan/".into(), Revision::NONE).await.unwrap());
    }
    let callers = (0..CALLERS).map(|caller| {
        let store = store.clone();
        tokio::spawn(async move {
            for i in 0..CALLS {
                put(&store, &format!("/sabakan/{caller}-{i}"), "x").await;
            }
        })
    });
    for caller in callers.collect::<Vec<_>>() {
        caller.await.unwrap();
    }
    let last = store.latest_commit().await.unwrap();
    for mut watch in idle {
        assert_eq!(reach(&mut watch, last).await.len(), CALLERS * CALLS);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_head_key_is_invisible() {
    let etcd = Etcd::start();
    let store = connect(etcd.config("/sabakan/")).await;
    let empty = || vec![Compare::NoneWithPrefix("/sabakan/".into())];
    for key in ["/sabakan/a", "/sabakan/z"] {
        let outcome = store.commit(Txn { when: empty(), then: vec![Op::put(key, "1")] }).await.unwrap();
        let TxnOutcome::Committed(revision) = outcome else { panic!("{key}: the prefix is empty") };
        let outcome = store.commit(Txn { when: empty(), then: vec![Op::put("/sabakan/b", "1")] }).await.unwrap();
        assert_eq!(outcome, TxnOutcome::Conflicted, "{key} is there");
        let mut watch = store.watch("/sabakan/".into(), revision).await.unwrap();
        let batch = next(&mut watch).await.unwrap();
        assert_eq!((batch.revision, batch.events.len()), (revision, 1));
        let _ = store.commit(Txn { when: vec![], then: vec![Op::DeletePrefix("/sabakan/".into())] }).await.unwrap();
        let batch = next(&mut watch).await.unwrap();
        assert!(matches!(&batch.events[..], [Event::Delete { key: gone, .. }] if gone == key), "{batch:?}");
        assert_eq!(batch.revision, store.latest_commit().await.unwrap());
    }
    assert_eq!(etcd.etcdctl(&["get", "--prefix", "--keys-only", "/sabakan/"]).trim(), "/sabakan/head");

    // Pages are full and say truly whether more follows, wherever the head key would be.
    let txn = ["a", "g", "i", "z"].map(|key| Op::put(format!("/sabakan/{key}"), "1"));
    let _ = store.commit(Txn { when: vec![], then: txn.to_vec() }).await.unwrap();
    for limit in 1..=5 {
        let mut range = Range { limit, ..Range::first("/sabakan/") };
        let mut seen = Vec::new();
        loop {
            let page = store.list(range.clone()).await.unwrap();
            seen.extend(page.items.iter().map(|kv| kv.key.clone()));
            assert_eq!(page.more, seen.len() < 4, "{limit}: {seen:?}");
            if !page.more {
                break;
            }
            assert_eq!(page.items.len(), limit);
            range.after = seen.last().cloned();
        }
        assert_eq!(seen, ["/sabakan/a", "/sabakan/g", "/sabakan/i", "/sabakan/z"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_larger_than_a_message_come_in_parts() {
    const COUNT: usize = 40;
    let etcd = Etcd::start();
    let store = connect(etcd.config("/sabakan/")).await;
    let wanted: Vec<_> = (0..COUNT).map(|i| format!("/sabakan/images/{i:02}")).collect();
    let mut last = Revision::NONE;
    for key in &wanted {
        last = put(&store, key, &key.repeat(1024 * 1024 / key.len())).await;
    }
    assert_eq!(keys(&list(&store, "/sabakan/").await), wanted);
    let snapshot = store.get_many(wanted.clone()).await.unwrap();
    assert!(snapshot.values.iter().zip(&wanted).all(|(found, key)| found.as_ref().is_some_and(|kv| kv.key == *key)));
    let mut watch = store.watch("/sabakan/images/".into(), Revision::NONE).await.unwrap();
    let events = reach(&mut watch, last).await;
    assert_eq!(events.iter().map(Event::key).collect::<Vec<_>>(), wanted);
    // One revision of many events, larger than a fragment with its keys alone, arrives whole.
    let _ = store.commit(Txn { when: vec![], then: vec![Op::DeletePrefix("/sabakan/images/".into())] }).await.unwrap();
    assert_eq!(next(&mut watch).await.unwrap().events.len(), COUNT);
}

#[tokio::test(flavor = "multi_thread")]
async fn raised_limits_hold_for_writing_and_watching() {
    const BYTES: u32 = 64 * 1024 * 1024;
    let etcd = Etcd::start_with(&EtcdOptions { max_request_bytes: Some(BYTES), ..EtcdOptions::default() });
    let mut config = etcd.config("/sabakan/");
    config.max_request_bytes = usize::try_from(BYTES).unwrap();
    // A debug build and a busy disk take their time for this much.
    config.request_timeout = SOON;
    let store = connect(config).await;
    let large = (0..50).map(|i| Op::put(format!("/sabakan/images/{i:02}"), vec![i; 1024 * 1024]));
    let _ = store.commit(Txn { when: vec![], then: large.collect() }).await.unwrap();
    let mut watch = store.watch("/sabakan/".into(), Revision::NONE).await.unwrap();
    assert_eq!(next(&mut watch).await.unwrap().events.len(), 50);
    assert_eq!(list(&store, "/sabakan/").await.len(), 50);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revision_split_into_fragments_arrives_whole() {
    // Fragments hold at most the request limit and half a megabyte; the delete events of this many long keys take more.
    let etcd = Etcd::start_with(&EtcdOptions { max_request_bytes: Some(100 * 1024), ..EtcdOptions::default() });
    let store = connect(etcd.config("/sabakan/")).await;
    let first = put(&store, "/sabakan/a", "1").await;
    let name = "x".repeat(700);
    let mut count = 0;
    for part in 0..10 {
        let long = (0..100).map(|i| Op::put(format!("/sabakan/long/{part}-{i:03}-{name}"), "x"));
        let _ = store.commit(Txn { when: vec![], then: long.collect() }).await.unwrap();
        count += 100;
    }
    let gone = Txn { when: vec![], then: vec![Op::DeletePrefix("/sabakan/long/".into())] };
    let TxnOutcome::Committed(gone) = store.commit(gone).await.unwrap() else { panic!("nothing was compared") };
    let last = put(&store, "/sabakan/a", "2").await;

    let mut watch = store.watch("/sabakan/".into(), first).await.unwrap();
    let mut batches = Vec::new();
    while batches.last().is_none_or(|batch: &WatchBatch| batch.revision < last) {
        batches.push(next(&mut watch).await.unwrap());
    }
    assert!(batches.len() > 1, "too little to be split");
    let deletes = |batch: &WatchBatch| batch.events.iter().filter(|event| event.mod_revision() == gone).count();
    assert_eq!(batches.iter().map(deletes).filter(|n| *n > 0).collect::<Vec<_>>(), [count]);
    assert_eq!(batches.iter().map(|batch| batch.events.len()).sum::<usize>(), 2 * count + 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_lease_is_a_commit_for_readers() {
    let etcd = Etcd::start();
    let store = connect(etcd.config("/sabakan/")).await;
    let lease = store.grant_lease(Duration::from_secs(60)).await.unwrap();
    let then = vec![Op::Put { key: "/sabakan/leader".into(), value: "me".into(), lease: Some(lease) }];
    let _ = store.commit(Txn { when: vec![], then }).await.unwrap();
    let before = store.latest_commit().await.unwrap();
    let mut watch = store.watch("/sabakan/".into(), Revision::NONE).await.unwrap();
    assert_eq!(reach(&mut watch, before).await.len(), 1);
    assert!(store.keep_alive(lease).await.unwrap());
    store.revoke_lease(lease).await.unwrap();
    let latest = store.latest_commit().await.unwrap();
    assert!(latest > before, "readers are told that there is something to wait for");
    let events = reach(&mut watch, latest).await;
    assert!(matches!(events.last(), Some(Event::Delete { .. })), "{events:?}");
    assert!(!store.keep_alive(lease).await.unwrap());
}
