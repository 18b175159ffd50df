//! Allocations through the API, and what happens when several want the same.

use std::{
    collections::BTreeSet,
    sync::{Arc, Barrier},
};

use sabakan_domain::{
    audit::Actor,
    ipam::OutsidePool,
    provision::{
        accept::Options,
        allocation::{self, Allocation, Candidate, NotTaken, Progress},
        engine::Changed,
        guards::Strictness,
        ids::AllocationId,
        power::PowerState,
    },
    words::Serial,
};
use sabakan_service::{Foundation, tasks::allocator::Allocator};
use sabakan_store::{
    Op, StoreError, Txn, TxnOutcome,
    keys::Keys,
    repo::{
        ChangeError,
        allocations::{self, NotClaimed},
        audit::By,
        consistency,
        nodes::{self, Facts},
    },
};
use sabakan_testkit::{
    Backend,
    rack::{Rack, WORK_MAX},
    simulated::FleetConfig,
    wait_for,
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{Api, fault, rack};

on_both_stores!(
    an_allocation_gets_a_node_and_gives_it_back,
    an_allocation_goes_with_the_workload_of_its_node,
    of_two_that_claim_a_node_one_gets_it,
    every_node_goes_to_one_of_those_that_wait,
    a_workload_is_on_one_node,
);

/// A node that fits every wish for gold.
fn provided(api: &Api, name: &str) {
    let body = json!({ "driver": "fake-hardware", "name": name, "resource_class": "gold" });
    api.ask("POST", "/v1/nodes", &body, 201);
    api.bring(name, &json!({ "target": "manage" }), "manageable");
    api.bring(name, &json!({ "target": "provide" }), "available");
}

fn settled(api: &Api, id: &str) -> Value {
    wait_for(&format!("{id} to be settled"), WORK_MAX, || {
        let allocation = api.get(&format!("/v1/allocations/{id}"));
        (allocation["state"] != "allocating").then_some(allocation)
    })
}

fn an_allocation_gets_a_node_and_gives_it_back(backend: Backend) {
    let (rack, api) = rack(backend);
    provided(&api, "n1");
    let made = api.ask("POST", "/v1/allocations", &json!({ "resource_class": "gold", "name": "a1" }), 201);
    let uuid = made.json()["uuid"].as_str().expect("a UUID").to_owned();
    assert_eq!((made.json()["state"].as_str(), made.json()["node_uuid"].is_null()), (Some("allocating"), true));
    assert!(made.header("location").is_some_and(|place| place.ends_with(&format!("/v1/allocations/{uuid}"))));
    let active = settled(&api, "a1");
    let node = api.get("/v1/nodes/n1");
    assert_eq!((&active["state"], &active["node_uuid"]), (&json!("active"), &node["uuid"]), "{active}");
    assert_eq!((&node["instance_uuid"], &node["allocation_uuid"]), (&json!(uuid), &json!(uuid)));
    assert_eq!(node["instance_info"]["traits"], json!([]));
    assert_eq!(api.get("/v1/nodes/n1/allocation"), active);
    assert_eq!(api.get("/v1/allocations?node=n1&state=active")["allocations"][0]["uuid"], json!(uuid));
    // Nothing is left for another one, and it says why.
    api.ask("POST", "/v1/allocations", &json!({ "resource_class": "gold", "name": "a2" }), 201);
    let failed = settled(&api, "a2");
    let why = failed["last_error"].as_str().unwrap_or_default();
    assert!(
        why.contains("no available nodes match the resource class gold. Passed over: 1 with an instance."),
        "{why}"
    );

    api.bring("n1", &json!({ "target": "active" }), "active");
    let kept = api.ask("DELETE", "/v1/allocations/a1", &Value::Null, 409);
    assert!(fault(&kept).contains("because the node is active"), "{}", fault(&kept));
    api.ask("DELETE", "/v1/nodes/n1/allocation", &Value::Null, 409);
    api.bring("n1", &json!({ "target": "deleted" }), "available");
    let gone = api.ask("GET", "/v1/allocations/a1", &Value::Null, 404);
    assert_eq!(fault(&gone), "Allocation a1 could not be found.");
    // Its name and its UUID are free again.
    let again = json!({ "resource_class": "gold", "name": "a1", "uuid": uuid });
    api.ask("POST", "/v1/allocations", &again, 201);
    assert_eq!(settled(&api, "a1")["state"], json!("active"));
    api.ask("DELETE", "/v1/allocations/a1", &Value::Null, 204);
    let node = api.get("/v1/nodes/n1");
    assert!(node["instance_uuid"].is_null() && node["allocation_uuid"].is_null(), "{node}");
    let texts: Vec<String> = api.get("/v1/nodes/n1/history")["history"]
        .as_array()
        .expect("rows")
        .iter()
        .filter_map(|row| row["event"].as_str().map(str::to_owned))
        .collect();
    assert!(texts.iter().any(|text| text.starts_with("given to allocation")), "{texts:?}");
    assert!(texts.iter().any(|text| text.starts_with("given back by allocation")), "{texts:?}");
    assert_eq!(problems(&rack), Vec::<String>::new());
}

fn an_allocation_goes_with_the_workload_of_its_node(backend: Backend) {
    let (rack, api) = rack(backend);
    provided(&api, "n1");
    let allocate = |name: &str| {
        api.ask("POST", "/v1/allocations", &json!({ "resource_class": "gold", "name": name }), 201);
        assert_eq!(settled(&api, name)["state"], json!("active"));
    };
    let gone = |name: &str| api.ask("GET", &format!("/v1/allocations/{name}"), &Value::Null, 404);
    allocate("patched");
    let renamed = json!([{ "op": "add", "path": "/name", "value": "n2" }]);
    api.ask("PATCH", "/v1/nodes/n1", &renamed, 200);
    assert_eq!(api.get("/v1/nodes/n2/allocation")["name"], json!("patched"), "a new name changes nothing");
    let leave = json!([{ "op": "remove", "path": "/instance_uuid" }]);
    assert!(api.ask("PATCH", "/v1/nodes/n2", &leave, 200).json()["allocation_uuid"].is_null());
    gone("patched");
    allocate("removed");
    api.ask("DELETE", "/v1/nodes/n2", &Value::Null, 409);
    api.ask("PUT", "/v1/nodes/n2/maintenance", &json!({}), 202);
    api.ask("DELETE", "/v1/nodes/n2", &Value::Null, 204);
    gone("removed");
    assert_eq!(api.get("/v1/allocations"), json!({ "allocations": [] }));
    assert_eq!(problems(&rack), Vec::<String>::new());
}

/// A server that gives no nodes to anybody, with nodes that fit.
fn idle(backend: Backend, names: &[&str]) -> (Rack, Api) {
    let rack = Rack::start_with(backend, FleetConfig::instant(), |provisioning| provisioning.conductor = None);
    let api = Api::of(&rack);
    let old = Api::at(api.url.clone(), "1.10");
    for name in names {
        old.ask("POST", "/v1/nodes", &json!({ "driver": "fake-hardware", "name": name }), 201);
        let class = json!([{ "op": "add", "path": "/resource_class", "value": "gold" }]);
        api.ask("PATCH", &format!("/v1/nodes/{name}"), &class, 200);
        let see = |facts: &Facts| {
            let mut changed = Changed::new(&facts.node);
            changed.node.power.state = Some(PowerState::Off);
            Some(changed)
        };
        let (store, keys) = (rack.server.store(), keys(&rack));
        let name = Serial::new(name).expect("a name");
        assert!(rack.server.block_on(nodes::notice(&*store, &keys, &name, see)).expect("written"));
    }
    (rack, api)
}

fn keys(rack: &Rack) -> Keys {
    let config = rack.server.config();
    Keys::new(&config.etcd_prefix, &config.states_prefix)
}

/// What `sabakan store check` says.
fn problems(rack: &Rack) -> Vec<String> {
    let (store, keys) = (rack.server.store(), keys(rack));
    rack.server.block_on(consistency::check(&*store, &keys)).expect("a report").problems
}

fn of_two_that_claim_a_node_one_gets_it(backend: Backend) {
    let (rack, api) = idle(backend, &["n1"]);
    let (store, keys) = (rack.server.store(), keys(&rack));
    let by = By { actor: Actor::internal("test"), host: "here".to_owned(), now: jiff::Timestamp::UNIX_EPOCH };
    let name = Serial::new("n1").expect("a name");
    for round in 0..10 {
        let ids: Vec<AllocationId> = (0..2).map(|n| AllocationId(round * 10 + n + 1)).collect();
        for id in &ids {
            let wish = json!({ "resource_class": "gold", "uuid": id.to_string() });
            api.ask("POST", "/v1/allocations", &wish, 201);
        }
        let decide = |allocation: &Allocation, facts: &Facts| {
            let candidate = Candidate { node: &facts.node, machine: None, locked: false };
            allocation::take(allocation, &candidate, Strictness::default(), "test", by.now)
        };
        let claim = |id: AllocationId| allocations::claim(&*store, &keys, &by, id, &name, decide);
        let results = rack.server.block_on(async { tokio::join!(claim(ids[0]), claim(ids[1])) });
        let (won, lost) = match results {
            (Ok(won), Err(lost)) | (Err(lost), Ok(won)) => (won, lost),
            other => panic!("one gets it: {other:?}"),
        };
        assert!(matches!(lost, ChangeError::Refused(NotClaimed::Rule(NotTaken::Unfit))), "{lost:?}");
        assert!(matches!(won.progress, Progress::Active(_)));
        // Whoever looked before it had a node and gives it back now must not leave the node behind with it.
        let release =
            |allocation: &Allocation, facts: &Facts| allocation::release(allocation, &facts.node, "test", by.now);
        let late = rack.server.block_on(allocations::remove(&*store, &keys, &by, won.id, None, release));
        assert!(matches!(late, Err(ChangeError::Store(StoreError::Conflict { .. }))), "{late:?}");
        assert_eq!(api.get("/v1/nodes/n1")["allocation_uuid"], json!(won.id.to_string()));
        for id in ids {
            api.ask("DELETE", &format!("/v1/allocations/{id}"), &Value::Null, 204);
        }
    }
}

fn every_node_goes_to_one_of_those_that_wait(backend: Backend) {
    let names: Vec<String> = (0..6).map(|n| format!("n{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let (rack, api) = idle(backend, &names);
    // Nobody looks yet: these wait, as they would while every server is down.
    for n in 0..10 {
        let wish = json!({ "resource_class": "gold", "name": format!("a{n}") });
        assert_eq!(api.ask("POST", "/v1/allocations", &wish, 201).json()["state"], json!("allocating"));
    }
    let stop = CancellationToken::new();
    for server in ["one", "two"] {
        let (store, keys, clock) = (rack.server.store(), keys(&rack), rack.server.clock.clone());
        let stop = stop.clone();
        rack.server.block_on(async move {
            let on = Foundation::open(store, keys, clock, OutsidePool::Refuse, server.to_owned()).await;
            let allocator = Allocator::new(Arc::new(on.expect("opens")), Arc::new(Options::default()), server);
            tokio::spawn(allocator.run(stop));
        });
    }
    let all: Vec<Value> = (0..10).map(|n| settled(&api, &format!("a{n}"))).collect();
    stop.cancel();
    let active: Vec<&Value> = all.iter().filter(|allocation| allocation["state"] == "active").collect();
    let given: BTreeSet<&str> = active.iter().filter_map(|allocation| allocation["node_uuid"].as_str()).collect();
    assert_eq!((active.len(), given.len()), (6, 6), "{all:?}");
    for node in api.get("/v1/nodes/detail")["nodes"].as_array().expect("nodes") {
        let allocation = api.get(&format!("/v1/allocations/{}", node["allocation_uuid"].as_str().expect("one")));
        assert_eq!(allocation["node_uuid"], node["uuid"]);
    }
    assert_eq!(problems(&rack), Vec::<String>::new());
    // Nothing of ours writes half of it; somebody else may.
    let id = active[0]["uuid"].as_str().expect("a UUID");
    let prefix = keys(&rack).prefix().to_owned();
    let lost = [format!("{prefix}allocations/{id}"), format!("{prefix}instances/{id}")];
    let then = lost.iter().cloned().map(Op::Delete).collect();
    let written = rack.server.block_on(rack.server.store().commit(Txn { when: vec![], then }));
    assert!(matches!(written, Ok(TxnOutcome::Committed(_))), "{written:?}");
    let found = problems(&rack).join("\n");
    assert!(found.contains("names an allocation that is not there"), "{found}");
    assert!(found.contains(&format!("instances/{id} is missing")), "{found}");
    assert!(found.contains("allocation-names/") && found.contains("belongs to nothing"), "{found}");
}

fn a_workload_is_on_one_node(backend: Backend) {
    let (_rack, api) = rack(backend);
    let instance = "33333333-0003-4000-8000-000000000001";
    for name in ["n1", "n2"] {
        api.ask("POST", "/v1/nodes", &json!({ "driver": "fake-hardware", "name": name }), 201);
    }
    let put = json!([{ "op": "add", "path": "/instance_uuid", "value": instance }]);
    let leave = json!([{ "op": "remove", "path": "/instance_uuid" }]);
    for _ in 0..10 {
        let start = Barrier::new(2);
        let race = |name: &'static str| {
            start.wait();
            api.send("PATCH", &format!("/v1/nodes/{name}"), &put.to_string()).status
        };
        let mut answers = std::thread::scope(|scope| {
            let both = [scope.spawn(|| race("n1")), scope.spawn(|| race("n2"))];
            both.map(|one| one.join().expect("an answer"))
        });
        answers.sort_unstable();
        assert_eq!(answers, [200, 409]);
        let found = api.get(&format!("/v1/nodes?instance_uuid={instance}"));
        let holder = found["nodes"][0]["name"].as_str().expect("a name").to_owned();
        api.ask("PATCH", &format!("/v1/nodes/{holder}"), &leave, 200);
    }
    api.ask("PATCH", "/v1/nodes/n1", &put, 200);
    api.ask("PATCH", "/v1/nodes/n1", &json!([{ "op": "add", "path": "/name", "value": "n3" }]), 200);
    let taken = api.ask("PATCH", "/v1/nodes/n2", &put, 409);
    assert!(fault(&taken).contains("is on node n3 already"), "{}", fault(&taken));
    let created = json!({ "driver": "fake-hardware", "name": "n4", "instance_uuid": instance });
    api.ask("POST", "/v1/nodes", &created, 409);
    api.ask("POST", "/v1/allocations", &json!({ "resource_class": "gold", "uuid": instance }), 409);
    api.ask("PUT", "/v1/nodes/n3/maintenance", &json!({}), 202);
    api.ask("DELETE", "/v1/nodes/n3", &Value::Null, 204);
    api.ask("POST", "/v1/nodes", &created, 201);
}

#[test]
fn what_is_refused_changes_nothing() {
    let (_rack, api) = rack(Backend::Embedded);
    for (body, status) in [
        (json!({}), 400),
        (json!({ "resource_class": "gold", "candidate_nodes": ["nope"] }), 400),
        (json!({ "resource_class": "gold", "traits": ["bad_trait"] }), 400),
        (json!({ "resource_class": "gold", "name": "a b" }), 400),
        (json!({ "resource_class": "gold", "state": "active" }), 400),
        (json!({ "node": "nope" }), 400),
    ] {
        api.ask("POST", "/v1/allocations", &body, status);
    }
    let at = |version: &str| Api::at(api.url.clone(), version);
    at("1.51").ask("GET", "/v1/allocations", &Value::Null, 404);
    at("1.51").ask("POST", "/v1/allocations", &json!({ "resource_class": "gold" }), 405);
    at("1.59").ask("POST", "/v1/allocations", &json!({ "resource_class": "gold", "owner": "me" }), 406);
    at("1.57").ask("POST", "/v1/allocations", &json!({ "node": "n1" }), 406);
    at("1.56").ask("PATCH", "/v1/allocations/x", &json!([]), 405);
    api.ask("GET", "/v1/nodes/nope/allocation", &Value::Null, 404);
    api.ask("POST", "/v1/nodes", &json!({ "driver": "fake-hardware", "name": "n1" }), 201);
    api.ask("GET", "/v1/nodes/n1/allocation", &Value::Null, 404);
    api.ask("POST", "/v1/allocations", &json!({ "node": "n1" }), 409);
    assert_eq!(api.get("/v1/allocations"), json!({ "allocations": [] }));
}
