//! Six clients change four machines at random and at once. Afterwards every revision of the store is looked at: no key where none
//! may be (G1), every change with exactly one audit entry in its own transaction (G9), and what the clients were told is what the
//! log says, no more and no less (G4).

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use sabakan_store::{Event, Revision, Store, embedded::EmbeddedStore};
use sabakan_store_etcd::EtcdStore;
use sabakan_testkit::{
    Backend, TestServer,
    client::{Client, ClientOptions},
    fixtures::{self, machine},
};
use sabakan_wire::rest::{AuditLogJson, ErrorKind};
use serde_json::Value;

on_both_stores!(every_revision_of_a_random_history_keeps_its_promises);

const CLIENTS: u64 = 6;
const MACHINES: u64 = 4;
const REQUESTS: u64 = 150;
const STATES: [&str; 7] = ["uninitialized", "healthy", "unhealthy", "unreachable", "updating", "retiring", "retired"];

fn every_revision_of_a_random_history_keeps_its_promises(backend: Backend) {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().join("data");
    let server = TestServer::start_with(backend, |config| {
        config.key_file = data.join("disk-keys.json");
        config.data_dir = data.clone();
    });
    server.client().put_ipam(&fixtures::ipam()).expect("ipam");
    for n in 0..MACHINES {
        server.client().create_machines(&[machine(format!("m{n}"), 0, "worker")]).expect("registered");
    }
    let url = &server.url();
    let claims: BTreeMap<String, Vec<Claim>> = std::thread::scope(|scope| {
        let client = |n| scope.spawn(move || (format!("c{n}"), live(url, n)));
        let clients: Vec<_> = (0..CLIENTS).map(client).collect();
        clients.into_iter().map(|client| client.join().expect("a client")).collect()
    });
    let log = server.client().list_logs(None, None).expect("the log");
    let etcd = server.etcd.clone();
    drop(server);
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let history = runtime.block_on(async {
        let store: Arc<dyn Store> = match &etcd {
            Some(etcd) => Arc::new(EtcdStore::connect(etcd.config("/sabakan/")).await.expect("etcd")),
            None => Arc::new(EmbeddedStore::open(&data.join("sabakan.db")).expect("the file")),
        };
        read_history(&*store).await
    });
    let mut walk = Walk::default();
    for (revision, events) in &history {
        walk.take(*revision, events);
    }
    let logged: BTreeSet<u64> = log.iter().map(revision_of).collect();
    assert_eq!(logged.len(), log.len(), "two entries of one revision");
    assert_eq!(logged, walk.audited, "the log of the API is the log of the store");
    let mut acknowledged = 0;
    for (user, claims) in &claims {
        let entries: Vec<&AuditLogJson> = log.iter().filter(|entry| entry.user == *user).collect();
        acknowledged += claims.iter().filter(|claim| claim.certain).count();
        match_up(user, claims, &entries, &walk);
    }
    let changes = log.len();
    println!("{backend:?}: {acknowledged} acknowledged, {changes} changes, {} revisions, G1 at each", history.len());
    assert!(changes > 100, "a history of {changes} changes shows little");
}

/// What a client was told.
#[derive(Debug)]
struct Claim {
    category: &'static str,
    action: &'static str,
    serial: String,
    /// What the entry says, or the end of it.
    detail: String,
    /// Not, if the server itself does not know.
    certain: bool,
}

impl Claim {
    fn is_told_by(&self, entry: &AuditLogJson) -> bool {
        let named = match self.action {
            "register" => entry.instance.is_empty() && entry.detail == self.serial,
            _ => entry.instance == self.serial,
        };
        let detailed = match (self.category, self.action) {
            ("machines", "set-state") => entry.detail.ends_with(&self.detail),
            ("machines", "register" | "delete") | ("crypts", "delete") => true,
            _ => entry.detail == self.detail,
        };
        named && detailed && entry.category == self.category && entry.action == self.action
    }

    /// Whether it asked for the state that the machine was in at some time between two entries of its client.
    fn changed_nothing(&self, entries: &[&AuditLogJson], next: usize, walk: &Walk) -> bool {
        let from = next.checked_sub(1).map_or(0, |last| revision_of(entries[last]));
        let to = entries.get(next).map_or(u64::MAX, |entry| revision_of(entry));
        let state = self.detail.trim_start_matches(" -> ").trim_end_matches(" (forced)");
        self.action == "set-state" && walk.was_in(&self.serial, state, from, to)
    }
}

/// Makes random requests; what came of them, in order.
fn live(url: &str, client: u64) -> Vec<Claim> {
    let options = ClientOptions { user: Some(format!("c{client}")), ..ClientOptions::default() };
    let server = Client::with_options(url, &options).expect("a URL");
    let mut random = Random(0x9e37_79b9 * (client + 1));
    let mut claims = Vec::new();
    for n in 0..REQUESTS {
        let serial = format!("m{}", random.below(MACHINES));
        let (category, action, detail, result) = request(&server, &serial, &mut random, &format!("c{client}-{n}"));
        let certain = match result {
            Ok(()) => true,
            Err(error) if error.outcome_unknown() => false,
            Err(error) => {
                let refused = [
                    ErrorKind::Refused,
                    ErrorKind::Conflict,
                    ErrorKind::NotFound,
                    ErrorKind::Invalid,
                    ErrorKind::Unavailable,
                ];
                let kind = error.kind().unwrap_or_else(|| panic!("{action} of {serial}: {error}"));
                assert!(refused.contains(&kind), "{action} of {serial}: {error}");
                continue;
            }
        };
        claims.push(Claim { category, action, serial, detail, certain });
    }
    claims
}

type Asked = (&'static str, &'static str, String, Result<(), sabakan_testkit::client::Error>);

fn request(server: &Client, serial: &str, random: &mut Random, unique: &str) -> Asked {
    match random.below(100) {
        0..40 => {
            // Retiring machines are where it becomes interesting.
            let state = if random.below(4) == 0 { "retiring" } else { STATES[random.index(STATES.len())] };
            let force = random.below(3) == 0;
            let detail = format!(" -> {state}{}", if force { " (forced)" } else { "" });
            ("machines", "set-state", detail, server.put_state(serial, state, force))
        }
        40..65 => {
            let disk = format!("d{}", random.below(6));
            let result = server.put_key(serial, &disk, unique.as_bytes());
            ("crypts", "put", disk, result)
        }
        65..77 => ("crypts", "delete", String::new(), server.delete_keys(serial).map(drop)),
        77..88 => {
            let label = format!("l{}", random.below(4));
            // No value comes twice, so that setting one always changes something.
            let result = server.put_label(serial, &label, unique);
            ("machines", "put-label", format!("{label}/{unique}"), result)
        }
        88..92 => {
            let label = format!("l{}", random.below(4));
            let result = server.remove_label(serial, &label);
            ("machines", "delete-label", label, result)
        }
        92..96 => ("machines", "delete", String::new(), server.remove_machine(serial)),
        _ => ("machines", "register", String::new(), server.create_machines(&[machine(serial, 0, "worker")])),
    }
}

/// A client makes one request after the other, so its entries tell of its acknowledged requests in their order. Only asking for the
/// state a machine is in leaves no entry. Which of two equal requests an entry tells of cannot always be said: every way is followed.
fn match_up(user: &str, claims: &[Claim], entries: &[&AuditLogJson], walk: &Walk) {
    // How many entries may have been told of so far.
    let mut told = BTreeSet::from([0]);
    for claim in claims {
        let mut after = BTreeSet::new();
        for next in told {
            if entries.get(next).is_some_and(|entry| claim.is_told_by(entry)) {
                after.insert(next + 1);
            }
            if !claim.certain || claim.changed_nothing(entries, next, walk) {
                after.insert(next);
            }
        }
        assert!(
            !after.is_empty(),
            "{user} was told {claim:?}, but neither the log nor the machine's states bear it out"
        );
        told = after;
    }
    let most = told.last().copied().unwrap_or_default();
    assert_eq!(most, entries.len(), "{user} was never told of {:?}", entries.get(most));
}

fn revision_of(entry: &AuditLogJson) -> u64 {
    entry.rev.parse().expect("a revision")
}

/// Every change since the beginning, by revision.
async fn read_history(store: &dyn Store) -> BTreeMap<u64, Vec<Event>> {
    let last = store.latest_commit().await.expect("the latest commit");
    let mut watch = store.watch(String::new(), Revision(1)).await.expect("a watch");
    let mut history: BTreeMap<u64, Vec<Event>> = BTreeMap::new();
    let mut reached = Revision::NONE;
    while reached < last {
        let batch =
            tokio::time::timeout(Duration::from_secs(60), watch.next()).await.expect("in time").expect("a batch");
        reached = batch.revision;
        for event in batch.events {
            history.entry(event.mod_revision().0).or_default().push(event);
        }
    }
    history
}

/// What the store held at the revision reached, and what was seen on the way.
#[derive(Default)]
struct Walk {
    states: BTreeMap<String, String>,
    keys: BTreeSet<(String, String)>,
    /// Since which revision each machine was in which state; nothing: not registered.
    stays: Vec<(u64, String, Option<String>)>,
    audited: BTreeSet<u64>,
}

impl Walk {
    /// Goes on to a revision and checks it.
    fn take(&mut self, revision: u64, events: &[Event]) {
        let (mut audit, mut touched, mut published) = (Vec::new(), BTreeSet::new(), BTreeMap::new());
        let (mut records, mut added) = (BTreeMap::new(), Vec::new());
        for event in events {
            let value = match event {
                Event::Put(kv) => Some(kv.value.clone()),
                Event::Delete { .. } => None,
            };
            let json = || value.as_ref().map(|value| serde_json::from_slice::<Value>(value).expect("JSON"));
            let key = event.key();
            if let Some(serial) = key.strip_prefix("/sabakan/machines/") {
                records.insert(serial.to_owned(), json());
                touched.insert(serial.to_owned());
            } else if let Some(serial) = key.strip_prefix("/states/") {
                published.insert(serial.to_owned(), json());
            } else if let Some((serial, disk)) = key.strip_prefix("/sabakan/crypts/").and_then(|k| k.split_once('/')) {
                touched.insert(serial.to_owned());
                let place = (serial.to_owned(), disk.to_owned());
                match value {
                    Some(_) => added.push(place),
                    None => assert!(self.keys.remove(&place), "{revision}: a key went that was not there"),
                }
            } else if key.starts_with("/sabakan/audit/") {
                audit.push(json().expect("entries are never removed here"));
            }
        }
        assert_eq!(records, published, "{revision}: published is what is stored");
        for (serial, record) in records {
            self.move_machine(revision, &serial, record.as_ref());
        }
        for (serial, disk) in added {
            let state = self.states.get(&serial).map_or("absent", String::as_str);
            assert!(
                !["retiring", "retired", "absent"].contains(&state),
                "G1 at {revision}: a key for {serial}: {state}"
            );
            assert!(self.keys.insert((serial, disk)), "{revision}: a key was replaced");
        }
        for (serial, _) in &self.keys {
            let state = self.states.get(serial).map_or("absent", String::as_str);
            assert!(!["retired", "absent"].contains(&state), "G1 at {revision}: {serial} has a key and is {state}");
        }
        self.check_audit(revision, &audit, &touched);
    }

    fn move_machine(&mut self, revision: u64, serial: &str, record: Option<&Value>) {
        let state = record.map(|record| record["status"]["state"].as_str().expect("a state").to_owned());
        let before = match &state {
            Some(state) => self.states.insert(serial.to_owned(), state.clone()),
            None => self.states.remove(serial),
        };
        if state.is_none() {
            assert_eq!(before.as_deref(), Some("retired"), "G1 at {revision}: {serial} was removed");
        }
        self.stays.push((revision, serial.to_owned(), state));
    }

    fn check_audit(&mut self, revision: u64, audit: &[Value], touched: &BTreeSet<String>) {
        match audit {
            [] => assert!(touched.is_empty(), "G9: {revision} changed {touched:?} and says nothing"),
            [entry] => {
                let instance = entry["instance"].as_str().expect("an instance");
                let named = if instance.is_empty() { entry["detail"].as_str().expect("a detail") } else { instance };
                let expected: BTreeSet<String> =
                    if instance == "config" { BTreeSet::new() } else { [named.to_owned()].into() };
                assert_eq!(*touched, expected, "G9: {revision} changed something else than it says: {entry}");
                if let (Some("set-state"), Some(state)) = (entry["action"].as_str(), self.states.get(named)) {
                    let detail = entry["detail"].as_str().expect("a detail").trim_end_matches(" (forced)");
                    let (from, to) = detail.split_once(" -> ").expect("from and to");
                    let before = self.stays.iter().rev().filter(|(_, serial, _)| serial == named).nth(1);
                    assert_eq!(before.and_then(|(_, _, state)| state.as_deref()), Some(from), "{revision}: {entry}");
                    assert_eq!(state, to, "{revision}: {entry}");
                }
                self.audited.insert(revision);
            }
            several => panic!("G9: {revision} has {} audit entries", several.len()),
        }
    }

    /// Whether a machine was in a state at some revision from `from` to before `to`.
    fn was_in(&self, serial: &str, state: &str, from: u64, to: u64) -> bool {
        let stays: Vec<_> = self.stays.iter().filter(|(_, of, _)| of == serial).collect();
        let ends = stays.iter().skip(1).map(|(revision, _, _)| *revision).chain([u64::MAX]);
        let mut stays = stays.iter().zip(ends);
        stays.any(|((begin, _, was), end)| was.as_deref() == Some(state) && *begin < to && end > from)
    }
}

/// Numbers that look random and are the same in every run.
struct Random(u64);

impl Random {
    /// A number below `bound`.
    fn below(&mut self, bound: u64) -> u64 {
        // Xorshift; the state must not be 0.
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).expect("an index")
    }
}
