//! Queues with more entries than one transaction changes: all are changed and each is told, in a few transactions; what somebody else
//! changed meanwhile is neither changed again nor claimed.

use std::{
    net::Ipv4Addr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    thread,
    time::Duration,
};

use sabakan::config::StoreConfig;
use sabakan_domain::{
    audit::{Actor, AuditEntry},
    repair::{
        enqueue::NewEntry,
        entry::{Entry, Status},
        reboot::RebootStatus,
    },
};
use sabakan_service::Clock as _;
use sabakan_store::{
    Op, Revision, Store, Txn, TxnOutcome,
    keys::Keys,
    repo::{
        audit::By,
        feed::Feed,
        leaders,
        repairs::{self, Under},
    },
};
use sabakan_testkit::{
    Backend, TestServer,
    client::RepairSweep,
    etcd::{Etcd, EtcdOptions},
};

use super::LONG;

on_both_stores!(all_that_ended_are_deleted, all_reboots_are_cancelled, what_others_changed_meanwhile_is_not_claimed);

/// How many entries change in one transaction where the store takes that many.
const AT_ONCE: usize = 50;

/// Entries for three transactions.
const MANY: usize = 2 * AT_ONCE + 5;

/// A server that does not repair, and what its store is asked with.
struct Queue {
    server: TestServer,
    store: Arc<dyn Store>,
    keys: Keys,
}

impl Queue {
    fn of(server: TestServer) -> Queue {
        let (config, store) = (server.config(), server.store());
        let keys = Keys::new(&config.etcd_prefix, &config.states_prefix);
        Queue { server, store, keys }
    }

    fn by(&self, name: &str) -> By {
        By { actor: Actor::internal(name), host: "a server".to_owned(), now: self.server.clock.now() }
    }

    /// Adds repairs; their indexes.
    fn add(&self, count: usize) -> Vec<u64> {
        let add = |n: usize| {
            let address = Ipv4Addr::from_bits(0x0a00_0000 + u32::try_from(n).expect("few"));
            let (machine_type, operation) = ("t".to_owned(), "unreachable".to_owned());
            let new = NewEntry { serial: None, address, machine_type, operation };
            let by = self.by("test");
            self.server.block_on(repairs::add(&*self.store, &self.keys, &by, &new)).expect("added").index
        };
        (0..count).map(add).collect()
    }

    fn change(&self, name: &str, indexes: &[u64], decide: impl Fn(&Entry) -> Option<Entry>) -> Vec<u64> {
        let by = self.by(name);
        let changing = repairs::update_many(&*self.store, &self.keys, &by, indexes, "delete", decide);
        self.server.block_on(changing).expect("changed")
    }

    /// Indexes of entries that are marked for removal, and of the others.
    fn entries(&self) -> (Vec<u64>, Vec<u64>) {
        let state = self.server.block_on(repairs::read(&*self.store, &self.keys)).expect("read");
        let (marked, others): (Vec<Entry>, Vec<Entry>) = state.entries.into_iter().partition(|entry| entry.deleted);
        let indexes = |entries: Vec<Entry>| entries.iter().map(|entry| entry.index).collect();
        (indexes(marked), indexes(others))
    }

    fn now(&self) -> Revision {
        self.server.block_on(self.store.latest_commit()).expect("a revision")
    }

    /// What the feed tells of each transaction after a revision.
    fn told(&self, after: Revision) -> Vec<Vec<AuditEntry>> {
        let (store, keys, now) = (Arc::clone(&self.store), self.keys.clone(), self.now());
        let reading = async {
            let mut feed = Feed::open(store, keys, after).await.expect("a feed");
            let mut told = Vec::new();
            loop {
                let batch = feed.next().await.expect("a batch");
                if !batch.entries.is_empty() {
                    told.push(batch.entries);
                }
                if batch.revision >= now {
                    return told;
                }
            }
        };
        self.server.block_on(async { tokio::time::timeout(LONG, reading).await.expect("the feed gets there") })
    }

    /// Checks that one transaction after another did one thing to each of these entries, so many in each.
    fn check_told(&self, after: Revision, action: &str, indexes: &[u64], at_once: usize) {
        let told = self.told(after);
        let sizes: Vec<usize> = told.iter().map(Vec::len).collect();
        assert_eq!(sizes, indexes.chunks(at_once).map(<[u64]>::len).collect::<Vec<_>>());
        let told: Vec<&AuditEntry> = told.iter().flatten().collect();
        assert!(told.iter().all(|entry| entry.action == action), "{told:#?}");
        assert_eq!(told.iter().map(|entry| index_of(entry)).collect::<Vec<_>>(), indexes);
    }
}

/// The entry of a queue that an entry of the log is about: the first number in it.
fn index_of(entry: &AuditEntry) -> u64 {
    let digits = entry.detail.trim_start_matches(|c: char| !c.is_ascii_digit());
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    digits[..end].parse().unwrap_or_else(|_| panic!("no number in {:?}", entry.detail))
}

fn numbers(indexes: &[String]) -> Vec<u64> {
    indexes.iter().map(|index| index.parse().expect("a number")).collect()
}

fn deleted(entry: &Entry) -> Option<Entry> {
    (!entry.deleted).then(|| Entry { deleted: true, ..entry.clone() })
}

fn all_that_ended_are_deleted(backend: Backend) {
    delete_all(&Queue::of(TestServer::start(backend)), MANY, AT_ONCE);
}

#[test]
fn an_etcd_that_takes_few_operations_is_sent_nested_ones() {
    let etcd = Etcd::start_with(&EtcdOptions { max_txn_ops: Some(16), ..EtcdOptions::default() });
    let server = TestServer::start_on(Some(Arc::new(etcd)), |config| {
        let StoreConfig::Etcd(settings) = &mut config.store else { panic!("not on etcd") };
        settings.max_txn_ops = 16;
    });
    delete_all(&Queue::of(server), 2 * AT_ONCE + 1, AT_ONCE);
}

/// Deletes all entries that have ended, and takes them out of the queue as the server that leads does.
fn delete_all(queue: &Queue, count: usize, at_once: usize) {
    let indexes = queue.add(count + 2);
    let (ended, queued) = indexes.split_at(count);
    queue.change("test", ended, |entry| Some(Entry { status: Status::Failed, ..entry.clone() }));
    let before = queue.now();
    let told = queue.server.client().sweep_repairs(RepairSweep::DeleteFinished).expect("deleted");
    assert_eq!(numbers(&told.value.indexes), ended);
    assert_eq!(queue.entries(), (ended.to_vec(), queued.to_vec()));
    queue.check_told(before, "delete", ended, at_once);
    let (store, keys) = (&*queue.store, &queue.keys);
    let lead = queue.server.block_on(async {
        let lease = store.grant_lease(Duration::from_secs(600)).await.expect("a lease");
        leaders::claim(store, keys, "repair", "test", lease).await.expect("claimed").expect("nobody else leads")
    });
    let before = queue.now();
    let gone = queue.server.block_on(repairs::remove(store, keys, &queue.by("test"), &lead, &indexes));
    assert_eq!(gone.expect("removed"), ended, "nobody wants the others gone");
    assert_eq!(queue.entries(), (vec![], queued.to_vec()));
    queue.check_told(before, "dequeue", ended, at_once);
}

fn all_reboots_are_cancelled(backend: Backend) {
    let queue = Queue::of(TestServer::start(backend));
    let (store, keys, by) = (&*queue.store, &queue.keys, queue.by("test"));
    let mut indexes = Vec::new();
    for some in vec![Ipv4Addr::LOCALHOST; MANY].chunks(AT_ONCE) {
        indexes.extend(queue.server.block_on(repairs::add_reboots(store, keys, &by, some)).expect("added"));
    }
    let before = queue.now();
    let told = queue.server.client().cancel_reboots().expect("cancelled");
    assert_eq!(numbers(&told.value.indexes), indexes);
    let state = queue.server.block_on(repairs::read(store, keys)).expect("read");
    assert!(state.reboots.iter().all(|entry| entry.status == RebootStatus::Cancelled) && state.reboots.len() == MANY);
    queue.check_told(before, "change-reboot", &indexes, AT_ONCE);
    assert_eq!(queue.server.client().cancel_reboots().expect("cancelled").value.indexes, [""; 0], "they are already");
}

fn what_others_changed_meanwhile_is_not_claimed(backend: Backend) {
    let queue = Queue::of(TestServer::start(backend));
    let indexes = queue.add(MANY);
    // One of the first transaction goes, another is deleted by somebody else, after they were read and before they are written.
    let (gone, marked) = (indexes[3], indexes[7]);
    let meddle = || {
        let (store, keys) = (&*queue.store, &queue.keys);
        let key = queue.server.dump().into_keys().filter(|key| key.contains("/repairs/data/")).nth(3);
        let txn = Txn { when: vec![], then: vec![Op::Delete(key.expect("an entry"))] };
        let outcome = queue.server.block_on(store.commit(txn)).expect("the store answers");
        assert!(matches!(outcome, TxnOutcome::Committed(_)), "it goes");
        let by = queue.by("somebody else");
        let marking = repairs::update(store, keys, &by, Under::default(), marked, "delete", deleted);
        queue.server.block_on(marking).expect("marked");
    };
    let (before, asked) = (queue.now(), AtomicUsize::new(0));
    let changed = queue.change("test", &indexes, |entry| {
        if asked.fetch_add(1, SeqCst) == 0 {
            thread::scope(|scope| scope.spawn(meddle).join().expect("meddled"));
        }
        deleted(entry)
    });
    assert_eq!(asked.load(SeqCst), MANY + AT_ONCE - 1, "those of the first transaction are looked at again");
    let ours: Vec<u64> = indexes.iter().copied().filter(|index| ![gone, marked].contains(index)).collect();
    assert_eq!(changed, ours);
    let marked_now: Vec<u64> = indexes.iter().copied().filter(|index| *index != gone).collect();
    assert_eq!(queue.entries(), (marked_now, vec![]));
    // Each is told once, by whoever did it.
    let told: Vec<AuditEntry> = queue.told(before).into_iter().flatten().collect();
    let of = |name: &str| -> Vec<u64> { told.iter().filter(|told| told.actor.name == name).map(index_of).collect() };
    assert_eq!((of("somebody else"), of("test")), (vec![marked], ours));
}
