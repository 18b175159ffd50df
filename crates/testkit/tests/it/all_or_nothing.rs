//! Registration is all or nothing (G3), also for thousands at once and under concurrent requests into the same racks, and no two
//! machines share an address or an index (G2).

use std::{
    cell::Cell,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use proptest::{
    prelude::*,
    test_runner::{Config, TestRunner},
};
use sabakan::config::StoreConfig;
use sabakan_domain::{
    audit::Actor,
    ipam::{IpamConfig, OutsidePool},
};
use sabakan_store::{
    Store,
    embedded::EmbeddedStore,
    keys::Keys,
    repo::{self, audit::By},
};
use sabakan_store_etcd::EtcdStore;
use sabakan_testkit::{
    Backend, TestServer,
    etcd::{Etcd, EtcdOptions},
    fixtures::{self, machine},
    raw::request,
};
use sabakan_wire::rest::{IpamConfigJson, MachineInput, MachineJson, QueryParams, machines_from_input};

on_both_stores!(
    concurrent_requests_into_the_same_racks,
    racing_registrations_keep_every_promise,
    random_requests_keep_every_promise,
);

fn all(server: &TestServer) -> Vec<MachineJson> {
    match server.client().list_machines(&QueryParams::default()) {
        Ok(machines) => machines,
        Err(error) if error.status() == Some(404) => Vec::new(),
        Err(error) => panic!("{error}"),
    }
}

/// G2 over everything registered.
fn assert_nothing_is_shared(machines: &[MachineJson]) {
    let mut addresses = BTreeSet::new();
    let mut indices = BTreeSet::new();
    let mut boots = BTreeSet::new();
    for machine in machines {
        let spec = &machine.spec;
        for address in spec.ipv4.iter().chain([&spec.bmc.ipv4]) {
            assert!(addresses.insert(address.clone()), "{address} belongs to two machines");
        }
        assert!(
            indices.insert((spec.rack, spec.index_in_rack)),
            "two machines at {:?}",
            (spec.rack, spec.index_in_rack)
        );
        assert!(spec.role != "boot" || boots.insert(spec.rack), "two boot machines in rack {}", spec.rack);
    }
}

fn concurrent_requests_into_the_same_racks(backend: Backend) {
    let server = TestServer::start(backend);
    server.client().put_ipam(&fixtures::ipam()).expect("ipam");
    // Twelve clients want five places each in each of two racks with 28: some requests find no room for all of theirs.
    let batches: Vec<Vec<MachineInput>> =
        (0..12).map(|client| (0..10).map(|n| machine(format!("c{client}-{n}"), n % 2, "worker")).collect()).collect();
    let url = server.url();
    let outcomes: Vec<u16> = std::thread::scope(|scope| {
        let post = |batch: &Vec<MachineInput>| {
            let body = serde_json::to_string(batch).expect("JSON");
            let url = &url;
            scope.spawn(move || request(url, "POST", "/api/v1/machines", &[], body.as_bytes()).status)
        };
        let handles: Vec<_> = batches.iter().map(post).collect();
        handles.into_iter().map(|handle| handle.join().expect("a client")).collect()
    });
    let registered = all(&server);
    assert_nothing_is_shared(&registered);
    let known: BTreeSet<&str> = registered.iter().map(|m| m.spec.serial.as_str()).collect();
    for (batch, status) in batches.iter().zip(&outcomes) {
        let present = batch.iter().filter(|m| known.contains(m.serial.as_deref().expect("a serial"))).count();
        match status {
            201 => assert_eq!(present, 10, "accepted whole"),
            500 => assert_eq!(present, 0, "refused whole"),
            other => panic!("unexpected status {other}"),
        }
    }
    // 28 places hold five batches of five, and three stay free.
    assert_eq!(outcomes.iter().filter(|status| **status == 201).count(), 5);
}

/// The store alone decides these races: the registrations go past the service, which would let them in one after the other.
fn racing_registrations_keep_every_promise(backend: Backend) {
    let etcd = (backend == Backend::Etcd).then(Etcd::start);
    let dir = tempfile::tempdir().expect("a directory");
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().expect("a runtime");
    let store: Arc<dyn Store> = match &etcd {
        Some(etcd) => Arc::new(runtime.block_on(EtcdStore::connect(etcd.config("/sabakan/"))).expect("connected")),
        None => Arc::new(EmbeddedStore::open(&dir.path().join("race.db")).expect("a store")),
    };
    let ipam = IpamConfigJson { max_nodes_in_rack: Some(9), ..fixtures::ipam() };
    let ipam = IpamConfig::try_from(ipam).expect("valid");
    let cases = if backend == Backend::Embedded { 40 } else { 12 };
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let number = Cell::new(0);
    let outcome = runner.run(&requests(), |batches| {
        number.set(number.get() + 1);
        // A prefix of its own for each case; the head key of etcd stays where it is.
        let keys = Keys::new(format!("/sabakan/race-{}/", number.get()), format!("/sabakan/states-{}/", number.get()));
        let by = By { actor: Actor::internal("test"), host: "here".into(), now: jiff::Timestamp::UNIX_EPOCH };
        runtime.block_on(repo::config::put_ipam(&*store, &keys, &by, &ipam)).expect("ipam");
        let race = batches.iter().map(|batch| {
            let inputs = batch.iter().map(|(serial, rack, boot)| {
                machine(format!("s{serial}"), *rack, if *boot { "boot" } else { "worker" })
            });
            let new = machines_from_input(inputs.collect()).expect("valid");
            let (store, keys, by) = (Arc::clone(&store), keys.clone(), by.clone());
            runtime.spawn(async move {
                repo::machines::register(&*store, &keys, &by, &new, OutsidePool::Refuse, |_| None).await.is_ok()
            })
        });
        let race: Vec<_> = race.collect();
        let won: Vec<bool> = race.into_iter().map(|task| runtime.block_on(task).expect("a task")).collect();
        let report = runtime.block_on(repo::consistency::check(&*store, &keys)).expect("a report");
        prop_assert!(report.problems.is_empty(), "{:?}", report.problems);
        // What was accepted is there, and nothing else.
        let accepted = batches.iter().zip(&won).filter(|(_, won)| **won).map(|(batch, _)| batch.len()).sum::<usize>();
        prop_assert_eq!(report.machines, accepted, "{:?} {:?}", &batches, &won);
        Ok(())
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
fn two_servers_on_one_etcd_fill_the_same_racks() {
    let first = TestServer::start(Backend::Etcd);
    first.client().put_ipam(&fixtures::ipam()).expect("ipam");
    let second = first.start_sibling();
    let outcomes: Vec<u16> = std::thread::scope(|scope| {
        let client = |number: u32| {
            let url = if number.is_multiple_of(2) { first.url() } else { second.url() };
            scope.spawn(move || {
                let post = |n: u32| {
                    let one =
                        serde_json::to_string(&[machine(format!("c{number}-{n}"), n % 2, "worker")]).expect("JSON");
                    request(&url, "POST", "/api/v1/machines", &[], one.as_bytes()).status
                };
                (0..8).map(post).collect::<Vec<_>>()
            })
        };
        let handles: Vec<_> = (0..8).map(client).collect();
        handles.into_iter().flat_map(|handle| handle.join().expect("a client")).collect()
    });
    let registered = all(&second);
    assert_nothing_is_shared(&registered);
    // 64 want one of 56 places: every place is taken, and the others were told that there is none.
    assert_eq!(outcomes.iter().filter(|status| **status == 201).count(), 56);
    assert_eq!(outcomes.iter().filter(|status| **status == 500).count(), 8);
    assert_eq!(registered.len(), 56);
}

/// What a random request asks for: serials from a small range, few racks, so that requests collide often.
fn requests() -> impl Strategy<Value = Vec<Vec<(u8, u32, bool)>>> {
    prop::collection::vec(prop::collection::vec((0u8..60, 0u32..3, prop::bool::weighted(0.15)), 0..14), 1..10)
}

fn random_requests_keep_every_promise(backend: Backend) {
    let etcd = (backend == Backend::Etcd).then(|| Arc::new(Etcd::start()));
    let cases = if backend == Backend::Embedded { 24 } else { 8 };
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let number = Cell::new(0);
    let outcome = runner.run(&requests(), |requests| {
        number.set(number.get() + 1);
        let prefix = format!("/case-{}/", number.get());
        let server = TestServer::start_on(etcd.clone(), |config| config.etcd_prefix = prefix);
        let mut ipam = fixtures::ipam();
        ipam.max_nodes_in_rack = Some(9);
        server.client().put_ipam(&ipam).expect("ipam");
        let mut model: BTreeMap<String, (u32, bool)> = BTreeMap::new();
        for request in requests {
            let inputs: Vec<MachineInput> = request
                .iter()
                .map(|(serial, rack, boot)| machine(format!("s{serial}"), *rack, if *boot { "boot" } else { "worker" }))
                .collect();
            let expected = expected_status(&model, &request);
            let status = match server.client().create_machines(&inputs) {
                Ok(()) => 201,
                Err(error) => error.status().expect("the server answers"),
            };
            prop_assert_eq!(status, expected, "{:?} on {:?}", &request, &model);
            if status == 201 {
                model.extend(request.iter().map(|(serial, rack, boot)| (format!("s{serial}"), (*rack, *boot))));
            }
        }
        let registered = all(&server);
        assert_nothing_is_shared(&registered);
        let known: BTreeMap<_, _> =
            registered.into_iter().map(|m| (m.spec.serial, (m.spec.rack, m.spec.role == "boot"))).collect();
        prop_assert_eq!(known, model);
        Ok(())
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
}

/// The rules once more, in the plainest form.
fn expected_status(model: &BTreeMap<String, (u32, bool)>, request: &[(u8, u32, bool)]) -> u16 {
    let serials: BTreeSet<u8> = request.iter().map(|(serial, ..)| *serial).collect();
    if serials.len() < request.len() {
        return 400;
    }
    let count = |rack: u32, boot: bool| {
        let registered = model.values().filter(|place| **place == (rack, boot)).count();
        registered + request.iter().filter(|(_, r, b)| (*r, *b) == (rack, boot)).count()
    };
    let asks = |rack: u32, boot: bool| request.iter().any(|(_, r, b)| (*r, *b) == (rack, boot));
    if (0..3).any(|rack| asks(rack, true) && count(rack, true) > 1) {
        return 409;
    }
    if request.iter().any(|(serial, ..)| model.contains_key(&format!("s{serial}"))) {
        return 409;
    }
    if (0..3).any(|rack| asks(rack, false) && count(rack, false) > 9) { 500 } else { 201 }
}

#[test]
fn ten_thousand_at_once_on_the_embedded_store() {
    let server = TestServer::start(Backend::Embedded);
    ten_thousand(&server);
}

#[test]
fn ten_thousand_at_once_on_an_etcd_with_raised_limits() {
    let options =
        EtcdOptions { max_txn_ops: Some(40_000), max_request_bytes: Some(64 * 1024 * 1024), ..EtcdOptions::default() };
    let etcd = Arc::new(Etcd::start_with(&options));
    let server = TestServer::start_on(Some(etcd), |config| {
        let StoreConfig::Etcd(settings) = &mut config.store else { panic!("not on etcd") };
        settings.max_txn_ops = 40_000;
        settings.max_request_bytes = 64 * 1024 * 1024;
    });
    ten_thousand(&server);
}

fn ten_thousand(server: &TestServer) {
    server.client().put_ipam(&fixtures::wide_ipam()).expect("ipam");
    let machines = fixtures::workers(10_000, 0);
    // The last of ten thousand is wrong: nothing is registered.
    let mut wrong = machines.clone();
    wrong[9_999].rack = Some(u32::MAX);
    let error = server.client().create_machines(&wrong).expect_err("the last one fits nowhere");
    assert_eq!(error.status(), Some(400), "{error}");
    assert!(all(server).is_empty());
    server.client().create_machines(&machines).expect("all of them");
    let registered = all(server);
    assert_eq!(registered.len(), 10_000);
    assert_nothing_is_shared(&registered);
    // One of ten thousand new ones is known: none of the others is registered.
    let mut known = fixtures::workers(10_000, 1_000);
    known[5_000] = machines[17].clone();
    let error = server.client().create_machines(&known).expect_err("one is known");
    assert_eq!(error.status(), Some(409), "{error}");
    assert_eq!(all(server).len(), 10_000);
}

#[test]
fn more_than_etcd_takes_at_once_is_refused_with_how_many_fit() {
    let server = TestServer::start(Backend::Etcd);
    server.client().put_ipam(&fixtures::wide_ipam()).expect("ipam");
    let machines = fixtures::workers(10_000, 0);
    let error = server.client().create_machines(&machines).expect_err("1.5 MiB at most");
    assert_eq!(error.status(), Some(413), "{error}");
    let text = error.to_string();
    assert!(text.contains("fit into one request") && text.contains("--max-request-bytes"), "{text}");
    assert!(all(&server).is_empty(), "nothing is stored");
    let fits = error.json().and_then(|json| json.fits).expect("a number");
    let fits = usize::try_from(fits).expect("a small one");
    assert!(fits > 500, "{fits}");
    server.client().create_machines(&machines[..fits]).expect("as many as it said");
    assert_eq!(all(&server).len(), fits);
}

/// What clients of the older service send, and what it takes on an etcd with default limits.
#[test]
fn a_hundred_and_twenty_at_once_on_an_etcd_with_default_limits() {
    let server = TestServer::start(Backend::Etcd);
    server.client().put_ipam(&fixtures::wide_ipam()).expect("ipam");
    let machines = fixtures::workers(120, 0);
    let post = |machines: &[MachineInput]| {
        let body = serde_json::to_string(machines).expect("JSON");
        request(&server.url(), "POST", "/api/v1/machines", &[], body.as_bytes()).status
    };
    assert_eq!(post(&machines), 201);
    assert_nothing_is_shared(&all(&server));
    assert_eq!(all(&server).len(), 120);
    // The last of them is known: none of the others is registered.
    let mut known = fixtures::workers(120, 10);
    known[119] = machines[0].clone();
    assert_eq!(post(&known), 409);
    assert_eq!(all(&server).len(), 120);
    // One of two servers registers a machine, the other many with the same among them.
    let sibling = server.start_sibling();
    let many = fixtures::workers(600, 100);
    let one = [many[599].clone()];
    let (first, second) = std::thread::scope(|scope| {
        let first = scope.spawn(|| server.client().create_machines(&many));
        let second = scope.spawn(|| sibling.client().create_machines(&one));
        (first.join().expect("a client"), second.join().expect("a client"))
    });
    assert!(first.is_ok() != second.is_ok(), "one of them, not both: {first:?} {second:?}");
    assert_eq!(all(&server).len(), 120 + if first.is_ok() { 600 } else { 1 });
}
