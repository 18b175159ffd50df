//! What there is to repair, and whoever is faster.

use std::{
    collections::BTreeSet,
    net::Ipv4Addr,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use jiff::Timestamp;
use sabakan_domain::{
    audit::Actor,
    repair::{
        enqueue::NewEntry,
        entry::Entry,
        guard::{Group, GroupKind},
        incident::{Incident, Phase},
        reboot::{RebootEntry, RebootStatus},
        round::Round,
    },
    words::Serial,
};

use serde_json::json;

use super::super::support::list_at;
use crate::{
    KeyValue, LeaseId, Op, Page, Range, Revision, Snapshot, Store, StoreFuture, Txn, TxnLimits, TxnOutcome, Watch,
    keys::Keys,
    records::{self, RepairRecord},
    repo::{
        audit::By,
        cluster, leaders,
        leaders::Lead,
        repairs::{self, RepairState, Switch, Under},
    },
};

/// Longer than any case takes.
const TTL: Duration = Duration::from_secs(600);

/// A store with a leader of repair.
#[derive(Clone)]
pub(super) struct Site {
    pub(super) store: Arc<dyn Store>,
    pub(super) keys: Keys,
    pub(super) by: By,
    pub(super) lead: Lead,
    lease: LeaseId,
    prefix: String,
}

pub(super) fn address(machine: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, machine)
}

pub(super) fn machine(machine: u8) -> NewEntry {
    NewEntry {
        serial: Some(Serial::new(format!("m{machine}")).expect("a serial")),
        address: address(machine),
        machine_type: "type1".to_owned(),
        operation: "unreachable".to_owned(),
    }
}

pub(super) fn incident(now: Timestamp) -> Incident {
    Incident {
        number: 0,
        group: Group { kind: GroupKind::Rack, value: "1".to_owned() },
        opened_at: now,
        because: "3 of 3".to_owned(),
        members: BTreeSet::new(),
        member_count: 3,
        phase: Phase::Open,
    }
}

pub(super) fn acknowledged(incident: Incident) -> Incident {
    let (by, at, reason) = ("operator".to_owned(), incident.opened_at, "seen".to_owned());
    Incident { phase: Phase::Acknowledged { by, at, reason }, ..incident }
}

impl Site {
    pub(super) async fn new(store: Arc<dyn Store>, prefix: String) -> Site {
        let by = By {
            actor: Actor::internal("test"),
            host: "here".to_owned(),
            now: "2030-01-01T00:00:00Z".parse().expect("a time"),
        };
        let keys = Keys::new(prefix.clone(), format!("{prefix}states/"));
        let (lead, lease) = claim(&*store, &keys).await;
        Site { store, keys, by, lead, lease, prefix }
    }

    /// Whoever leads from now on.
    pub(super) async fn succeed(&self) -> Site {
        self.store.revoke_lease(self.lease).await.expect("ended");
        let (lead, lease) = claim(&*self.store, &self.keys).await;
        Site { lead, lease, ..self.clone() }
    }

    /// Everything there is.
    pub(super) async fn dump(&self) -> Vec<KeyValue> {
        list_at(&*self.store, &self.prefix, None, 1_000).await
    }

    pub(super) async fn read(&self) -> RepairState {
        repairs::read(&*self.store, &self.keys).await.expect("readable")
    }

    pub(super) async fn entries(&self) -> Vec<Entry> {
        self.read().await.entries
    }

    pub(super) async fn add(&self, machine: u8) -> Entry {
        repairs::add(&*self.store, &self.keys, &self.by, &self::machine(machine)).await.expect("added")
    }

    pub(super) async fn add_reboot(&self, machine: u8) -> u64 {
        let added = repairs::add_reboots(&*self.store, &self.keys, &self.by, &[address(machine)]).await;
        added.expect("added")[0]
    }

    async fn mark(&self, index: u64, deleted: bool) {
        let mark = |entry: &Entry| Some(Entry { deleted, ..entry.clone() });
        let under = Under::default();
        let marked = repairs::update(&*self.store, &self.keys, &self.by, under, index, "delete", mark).await;
        marked.expect("a change").expect("an entry");
    }

    pub(super) async fn delete(&self, index: u64) {
        self.mark(index, true).await;
    }

    pub(super) async fn undelete(&self, index: u64) {
        self.mark(index, false).await;
    }

    pub(super) async fn put(&self, entry: &Entry) {
        let after = |_: &Entry| Some(entry.clone());
        let under = Under::default();
        let put = repairs::update(&*self.store, &self.keys, &self.by, under, entry.index, "finish", after).await;
        put.expect("a change").expect("an entry");
    }

    pub(super) async fn cancel(&self, index: u64) {
        let cancel = |entry: &RebootEntry| Some(RebootEntry { status: RebootStatus::Cancelled, ..entry.clone() });
        let under = Under::default();
        repairs::edit_reboot(&*self.store, &self.keys, &self.by, under, index, cancel).await.expect("cancelled");
    }

    /// Turns a switch.
    pub(super) async fn switch(self, switch: Switch, on: bool) {
        repairs::set_enabled(&*self.store, &self.keys, &self.by, switch, on).await.expect("switched");
    }

    /// Adds many entries after the last one.
    pub(super) async fn fill(&self, entries: &[Entry]) {
        // A hundred at once: more would be too many bytes for a store that takes as many operations as anybody likes.
        for some in entries.chunks((self.store.limits().ops_max - 1).min(100)) {
            let put =
                |entry: &Entry| Op::put(self.keys.repair(entry.index), records::encode(&RepairRecord::from(entry)));
            let mut then: Vec<Op> = some.iter().map(put).collect();
            let next = some.last().expect("no empty part").index + 1;
            then.push(Op::put(self.keys.repairs_next(), next.to_string()));
            let outcome = self.store.commit(Txn { when: vec![], then }).await.expect("a commit");
            assert!(matches!(outcome, TxnOutcome::Committed(_)));
        }
    }

    /// Writes a round that was decided with what is there now.
    pub(super) async fn round(&self, round: &Round) {
        let (state, cluster) = (self.read().await, cluster::read(&*self.store, &self.keys).await.expect("readable"));
        let Site { store, keys, by, lead, .. } = self;
        assert!(repairs::put_round(&**store, keys, by, lead, &state, &cluster, round).await.expect("an answer"));
    }

    pub(super) async fn open_incident(&self) -> Incident {
        self.round(&Round { opened: vec![incident(self.by.now)], ..Round::default() }).await;
        self.read().await.incidents.pop().expect("an incident")
    }

    pub(super) async fn change_incident(&self, incident: &Incident) {
        self.round(&Round { changed: vec![incident.clone()], ..Round::default() }).await;
    }

    /// The monitor says how a machine is; the rest of its record is as in any registry.
    pub(super) async fn report(&self, machine: u8, state: &str) {
        let (serial, address) = (format!("m{machine}"), address(machine).to_string());
        let nic = json!({ "address": address, "netmask": "255.255.255.0", "maskbits": 24, "gateway": "10.0.0.254" });
        let record = json!({
            "spec": {
                "serial": serial, "labels": null, "rack": 1, "index-in-rack": 4, "role": "worker", "ipv4": [address], "ipv6": null,
                "register-date": "2026-01-01T00:00:00Z", "retire-date": "2030-01-01T00:00:00Z",
                "bmc": { "ipv4": address, "ipv6": "", "type": "type1" },
            },
            "status": { "timestamp": "2026-01-01T00:00:00Z", "duration": 0, "state": state },
            "info": { "network": { "ipv4": [nic] }, "bmc": { "ipv4": nic } },
        });
        let key = self.keys.machine(&Serial::new(serial).expect("a serial"));
        let then = vec![Op::put(key, records::encode(&record))];
        let written = self.store.commit(Txn { when: vec![], then }).await.expect("written");
        assert!(matches!(written, TxnOutcome::Committed(_)));
    }

    /// The same store, in which `other` comes between the reads and the first commit of whoever uses it.
    pub(super) fn faster(&self, other: impl Future<Output = ()> + Send + 'static) -> Faster {
        Faster { store: Arc::clone(&self.store), other: Mutex::new(Some(Box::pin(other))) }
    }
}

async fn claim(store: &dyn Store, keys: &Keys) -> (Lead, LeaseId) {
    let lease = store.grant_lease(TTL).await.expect("a lease");
    let lead = leaders::claim(store, keys, "repair", "here", lease).await.expect("an answer").expect("the lead");
    (lead, lease)
}

/// See [`Site::faster`].
pub(super) struct Faster {
    store: Arc<dyn Store>,
    other: Mutex<Option<Pin<Box<dyn Future<Output = ()> + Send>>>>,
}

impl Faster {
    fn take(&self) -> Option<Pin<Box<dyn Future<Output = ()> + Send>>> {
        self.other.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Panics if nothing came between.
    pub(super) fn happened(&self) {
        assert!(self.take().is_none(), "nothing was committed");
    }
}

impl Store for Faster {
    fn commit(&self, txn: Txn) -> StoreFuture<'_, TxnOutcome> {
        Box::pin(async move {
            if let Some(other) = self.take() {
                other.await;
            }
            self.store.commit(txn).await
        })
    }

    fn get_many(&self, keys: Vec<String>) -> StoreFuture<'_, Snapshot> {
        self.store.get_many(keys)
    }

    fn list(&self, range: Range) -> StoreFuture<'_, Page> {
        self.store.list(range)
    }

    fn latest_commit(&self) -> StoreFuture<'_, Revision> {
        self.store.latest_commit()
    }

    fn watch(&self, prefix: String, from: Revision) -> StoreFuture<'_, Watch> {
        self.store.watch(prefix, from)
    }

    fn grant_lease(&self, ttl: Duration) -> StoreFuture<'_, LeaseId> {
        self.store.grant_lease(ttl)
    }

    fn keep_alive(&self, lease: LeaseId) -> StoreFuture<'_, bool> {
        self.store.keep_alive(lease)
    }

    fn revoke_lease(&self, lease: LeaseId) -> StoreFuture<'_, ()> {
        self.store.revoke_lease(lease)
    }

    fn compact(&self, revision: Revision) -> StoreFuture<'_, ()> {
        self.store.compact(revision)
    }

    fn limits(&self) -> TxnLimits {
        self.store.limits()
    }
}
