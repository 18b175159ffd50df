//! Ports, port groups, networks and chassis, as clients use them.

use std::sync::Barrier;

use sabakan_domain::limits::NODE_PORTS_MAX;
use sabakan_store::{Op, Txn, keys::Keys, repo::consistency};
use sabakan_testkit::{Backend, rack::Rack};
use serde_json::{Value, json};

use super::{Api, fault, rack};

on_both_stores!(
    ports_belong_to_their_node_and_go_with_it,
    a_node_with_as_many_ports_as_it_can_have_goes_at_once,
    an_address_belongs_to_one_port,
    networks_are_attached_to_free_ports,
    a_chassis_goes_when_it_is_empty,
    nodes_do_not_enter_a_chassis_that_goes,
    an_inspection_makes_ports,
);

fn node(api: &Api, name: &str) -> String {
    let made = api.ask("POST", "/v1/nodes", &json!({ "driver": "fake-hardware", "name": name }), 201);
    made.json()["uuid"].as_str().expect("a UUID").to_owned()
}

fn port(api: &Api, node: &str, address: &str, more: &Value) -> Value {
    let mut body = json!({ "node_uuid": node, "address": address });
    body.as_object_mut().expect("an object").extend(more.as_object().cloned().unwrap_or_default());
    let made = api.ask("POST", "/v1/ports", &body, 201);
    let uuid = made.json()["uuid"].as_str().expect("a UUID").to_owned();
    assert!(made.header("location").is_some_and(|place| place.ends_with(&format!("/v1/ports/{uuid}"))));
    made.json()
}

/// Addresses of the ports in a list, ordered: those made in the same moment come in any order.
fn addresses(api: &Api, path: &str) -> Vec<String> {
    let ports = api.get(path)["ports"].as_array().expect("ports").clone();
    let mut found: Vec<_> = ports.iter().map(|port| port["address"].as_str().expect("an address").to_owned()).collect();
    found.sort_unstable();
    found
}

/// What contradicts itself in the store.
fn problems(rack: &Rack) -> Vec<String> {
    let (server, config) = (&rack.server, rack.server.config());
    let keys = Keys::new(&config.etcd_prefix, &config.states_prefix);
    server.block_on(consistency::check(&*server.store(), &keys)).expect("a report").problems
}

fn kept(rack: &Rack, part: &str) -> usize {
    rack.server.dump().keys().filter(|key| key.contains(part)).count()
}

fn ports_belong_to_their_node_and_go_with_it(backend: Backend) {
    let (rack, api) = rack(backend);
    rack.register(&["s1"]);
    let (n1, s1) = (node(&api, "n1"), api.get("/v1/nodes/s1")["uuid"].as_str().expect("a UUID").to_owned());
    let group = json!({ "node_uuid": n1, "name": "bond0", "address": "02:00:00:00:01:00" });
    let group = api.ask("POST", "/v1/portgroups", &group, 201).json()["uuid"].clone();
    port(&api, &n1, "02:00:00:00:00:01", &json!({ "name": "eth0", "portgroup_uuid": group }));
    port(&api, &n1, "02:00:00:00:00:02", &json!({}));
    // A node nobody has asked anything about has ports too, and is still not stored.
    port(&api, &s1, "02:00:00:00:00:03", &json!({}));
    assert_eq!(kept(&rack, "/nodes/s1"), 0);
    assert_eq!(addresses(&api, "/v1/ports").len(), 3);
    for path in ["/v1/ports?node=n1", "/v1/nodes/n1/ports", "/v1/nodes/n1/ports/detail"] {
        assert_eq!(addresses(&api, path), ["02:00:00:00:00:01", "02:00:00:00:00:02"], "{path}");
    }
    for path in ["/v1/ports?portgroup=bond0", "/v1/portgroups/bond0/ports", "/v1/ports?address=02:00:00:00:00:01"] {
        assert_eq!(addresses(&api, path), ["02:00:00:00:00:01"], "{path}");
    }
    assert_eq!(api.get("/v1/nodes/n1/portgroups")["portgroups"][0]["name"], json!("bond0"));
    let page = api.get("/v1/ports?limit=2&sort_key=address&sort_dir=desc");
    assert_eq!(page["ports"][0]["address"], json!("02:00:00:00:00:03"));
    let next = page["next"].as_str().expect("another page");
    assert_eq!(addresses(&api, &next[next.find("/v1").expect("a path")..]), ["02:00:00:00:00:01"]);

    api.ask("DELETE", "/v1/portgroups/bond0", &Value::Null, 400);
    let rename = json!([{ "op": "add", "path": "/name", "value": "n2" }]);
    api.ask("PATCH", "/v1/nodes/n1", &rename, 200);
    assert_eq!(addresses(&api, "/v1/nodes/n2/ports").len(), 2);
    let out = json!([{ "op": "remove", "path": "/portgroup_uuid" }, { "op": "add", "path": "/extra/a", "value": 1 }]);
    let changed = api.ask("PATCH", "/v1/ports/eth0", &out, 200).json();
    assert!(changed["portgroup_uuid"].is_null() && changed["updated_at"].is_string(), "{changed}");
    assert_eq!(problems(&rack), Vec::<String>::new());

    api.ask("DELETE", "/v1/nodes/n2", &Value::Null, 204);
    assert_eq!(addresses(&api, "/v1/ports"), ["02:00:00:00:00:03"]);
    api.ask("GET", "/v1/ports/eth0", &Value::Null, 404);
    api.ask("GET", "/v1/portgroups/bond0", &Value::Null, 404);
    // A machine that is removed takes the ports of its node along, stored or not.
    let client = rack.server.client();
    client.put_state("s1", "retiring", false).expect("retiring");
    client.put_state("s1", "retired", false).expect("retired");
    client.remove_machine("s1").expect("removed");
    assert_eq!((kept(&rack, "/node-ports/"), kept(&rack, "/port-claims/")), (0, 0));
    let again = node(&api, "n3");
    port(&api, &again, "02:00:00:00:00:01", &json!({ "name": "eth0" }));
    api.ask("DELETE", "/v1/ports/eth0", &Value::Null, 204);
    assert_eq!((kept(&rack, "/node-ports/"), kept(&rack, "/port-claims/")), (0, 0));
    // Whoever takes the record away and leaves the claims is found out.
    port(&api, &again, "02:00:00:00:00:01", &json!({}));
    let key = format!("{}node-ports/{again}", rack.server.config().etcd_prefix);
    let txn = Txn { when: Vec::new(), then: vec![Op::Delete(key)] };
    let store = rack.server.store();
    rack.server.block_on(store.commit(txn)).map(drop).expect("deleted");
    assert_eq!(problems(&rack).len(), 2, "{:?}", problems(&rack));
}

fn a_node_with_as_many_ports_as_it_can_have_goes_at_once(backend: Backend) {
    let (rack, api) = rack(backend);
    let n1 = node(&api, "n1");
    let chassis = api.ask("POST", "/v1/chassis", &json!({}), 201).json()["uuid"].clone();
    api.ask("PATCH", "/v1/nodes/n1", &json!([{ "op": "add", "path": "/chassis_uuid", "value": chassis }]), 200);
    for n in 0..NODE_PORTS_MAX {
        port(&api, &n1, &format!("02:00:00:00:00:{n:02x}"), &json!({ "name": format!("eth{n}") }));
    }
    let more = json!({ "node_uuid": n1, "address": "02:00:00:00:01:00" });
    assert!(fault(&api.ask("POST", "/v1/ports", &more, 400)).contains("cannot have more"));
    assert_eq!(kept(&rack, "/port-claims/"), 3 * NODE_PORTS_MAX);
    api.ask("DELETE", "/v1/nodes/n1", &Value::Null, 204);
    assert_eq!((kept(&rack, "/port-claims/"), kept(&rack, "/chassis-nodes/")), (0, 0));
}

fn an_address_belongs_to_one_port(backend: Backend) {
    let (rack, api) = rack(backend);
    let nodes: Vec<String> = (0..8).map(|n| node(&api, &format!("n{n}"))).collect();
    let barrier = Barrier::new(8);
    let made: usize = std::thread::scope(|scope| {
        let racers: Vec<_> = nodes
            .iter()
            .map(|node| {
                let (api, barrier) = (&api, &barrier);
                scope.spawn(move || {
                    barrier.wait();
                    let body = json!({ "node_uuid": node, "address": "02:00:00:00:00:01", "name": "eth0" });
                    let answer = api.send("POST", "/v1/ports", &body.to_string());
                    assert!(matches!(answer.status, 201 | 409), "{} {}", answer.status, answer.body);
                    usize::from(answer.status == 201)
                })
            })
            .collect();
        racers.into_iter().map(|racer| racer.join().expect("answered")).sum()
    });
    assert_eq!((made, kept(&rack, "/port-claims/")), (1, 3));
    let taken = json!({ "node_uuid": nodes[0], "address": "02:00:00:00:00:01" });
    let refused = api.ask("POST", "/v1/ports", &taken, 409);
    assert_eq!(fault(&refused), "A port with MAC address 02:00:00:00:00:01 already exists.");
    let named = json!({ "node_uuid": nodes[0], "address": "02:00:00:00:00:02", "name": "eth0" });
    assert_eq!(fault(&api.ask("POST", "/v1/ports", &named, 409)), "A port with name eth0 already exists.");
    // Two ports of one node must not share one either.
    let other = port(&api, &nodes[0], "02:00:00:00:00:03", &json!({}))["uuid"].as_str().expect("a UUID").to_owned();
    let same = json!([{ "op": "replace", "path": "/address", "value": "02:00:00:00:00:01" }]);
    api.ask("PATCH", &format!("/v1/ports/{other}"), &same, 409);
    let free = json!([{ "op": "replace", "path": "/address", "value": "02:00:00:00:00:04" }]);
    api.ask("PATCH", &format!("/v1/ports/{other}"), &free, 200);
    port(&api, &nodes[1], "02:00:00:00:00:03", &json!({}));
    assert_eq!(problems(&rack), Vec::<String>::new());
}

fn networks_are_attached_to_free_ports(backend: Backend) {
    let (_rack, api) = rack(backend);
    let n1 = node(&api, "n1");
    let attach = |id: &str, status| api.ask("POST", "/v1/nodes/n1/vifs", &json!({ "id": id }), status);
    assert!(fault(&attach("net0", 400)).contains("not enough free physical ports"));
    let slow = port(&api, &n1, "02:00:00:00:00:01", &json!({ "pxe_enabled": false }))["uuid"].clone();
    let fast = port(&api, &n1, "02:00:00:00:00:02", &json!({}))["uuid"].clone();
    attach("net1", 204);
    let shown =
        |uuid: &Value| api.get(&format!("/v1/ports/{}", uuid.as_str().expect("a UUID")))["internal_info"].clone();
    assert_eq!(shown(&fast), json!({ "tenant_vif_port_id": "net1" }), "the machine boots through it");
    attach("net1", 409);
    api.ask("POST", "/v1/nodes/n1/vifs", &json!({ "id": "net2", "port_uuid": fast }), 400);
    api.ask("POST", "/v1/nodes/n1/vifs", &json!({ "id": "net2", "port_uuid": slow }), 204);
    assert_eq!(api.get("/v1/nodes/n1/vifs"), json!({ "vifs": [{ "id": "net2" }, { "id": "net1" }] }));
    api.ask("DELETE", "/v1/nodes/n1/vifs/net1", &Value::Null, 204);
    api.ask("DELETE", "/v1/nodes/n1/vifs/net1", &Value::Null, 400);
    assert_eq!(shown(&fast), json!({}));
    Api::at(api.url.clone(), "1.27").ask("GET", "/v1/nodes/n1/vifs", &Value::Null, 404);
    // What a workload talks through stays while it runs.
    api.bring("n1", &json!({ "target": "manage" }), "manageable");
    api.bring("n1", &json!({ "target": "provide" }), "available");
    let slow = slow.as_str().expect("a UUID");
    let rewire = json!([{ "op": "add", "path": "/pxe_enabled", "value": true }]);
    api.ask("PATCH", &format!("/v1/ports/{slow}"), &rewire, 409);
    let image = json!([{ "op": "add", "path": "/instance_info/image_source", "value": "http://192.0.2.1/i" }]);
    api.ask("PATCH", "/v1/nodes/n1", &image, 200);
    api.bring("n1", &json!({ "target": "active" }), "active");
    api.ask("DELETE", &format!("/v1/ports/{slow}"), &Value::Null, 409);
    api.ask("DELETE", "/v1/nodes/n1/vifs/net2", &Value::Null, 204);
    api.ask("DELETE", &format!("/v1/ports/{slow}"), &Value::Null, 204);
}

fn a_chassis_goes_when_it_is_empty(backend: Backend) {
    let (rack, api) = rack(backend);
    let chassis = || {
        let made = api.ask("POST", "/v1/chassis", &json!({ "description": "row 4" }), 201).json();
        made["uuid"].as_str().expect("a UUID").to_owned()
    };
    let (first, second) = (chassis(), chassis());
    let body = json!({ "driver": "fake-hardware", "name": "n1", "chassis_uuid": first });
    assert_eq!(api.ask("POST", "/v1/nodes", &body, 201).json()["chassis_uuid"], json!(first));
    let inside = |id: &str| api.get(&format!("/v1/chassis/{id}/nodes"))["nodes"].as_array().map(Vec::len);
    assert_eq!((inside(&first), inside(&second)), (Some(1), Some(0)));
    let refused = api.ask("DELETE", &format!("/v1/chassis/{first}"), &Value::Null, 400);
    assert!(fault(&refused).ends_with("contains nodes."), "{}", fault(&refused));
    let to = |id: &str| json!([{ "op": "add", "path": "/chassis_uuid", "value": id }]);
    api.ask("PATCH", "/v1/nodes/n1", &to(&second), 200);
    api.ask("DELETE", &format!("/v1/chassis/{first}"), &Value::Null, 204);
    let gone = api.ask("PATCH", "/v1/nodes/n1", &to(&first), 400);
    assert_eq!(fault(&gone), format!("Chassis {first} could not be found."));
    assert_eq!(api.get(&format!("/v1/nodes?chassis_uuid={second}"))["nodes"][0]["name"], json!("n1"));
    api.ask("POST", "/v1/chassis", &json!({ "uuid": second }), 409);
    assert_eq!(problems(&rack), Vec::<String>::new());
    api.ask("DELETE", "/v1/nodes/n1", &Value::Null, 204);
    api.ask("DELETE", &format!("/v1/chassis/{second}"), &Value::Null, 204);
    assert_eq!(kept(&rack, "/chassis"), 0);
}

fn nodes_do_not_enter_a_chassis_that_goes(backend: Backend) {
    let (rack, api) = rack(backend);
    let made = api.ask("POST", "/v1/chassis", &json!({}), 201).json();
    let chassis = made["uuid"].as_str().expect("a UUID");
    let barrier = Barrier::new(5);
    std::thread::scope(|scope| {
        for n in 0..4 {
            let (api, barrier) = (&api, &barrier);
            scope.spawn(move || {
                let body = json!({ "driver": "fake-hardware", "name": format!("n{n}"), "chassis_uuid": chassis });
                barrier.wait();
                let answer = api.send("POST", "/v1/nodes", &body.to_string());
                assert!(matches!(answer.status, 201 | 400), "{} {}", answer.status, answer.body);
            });
        }
        let (api, barrier) = (&api, &barrier);
        scope.spawn(move || {
            barrier.wait();
            let answer = api.send("DELETE", &format!("/v1/chassis/{chassis}"), "");
            assert!(matches!(answer.status, 204 | 400), "{} {}", answer.status, answer.body);
        });
    });
    assert_eq!(problems(&rack), Vec::<String>::new());
}

fn an_inspection_makes_ports(backend: Backend) {
    let (rack, api) = rack(backend);
    let n1 = node(&api, "n1");
    api.bring("n1", &json!({ "target": "manage" }), "manageable");
    api.bring("n1", &json!({ "target": "inspect" }), "manageable");
    let found = addresses(&api, "/v1/nodes/n1/ports");
    let inventory = api.get("/v1/nodes/n1/inventory")["inventory"]["interfaces"].as_array().map(Vec::len);
    assert!(!found.is_empty() && inventory == Some(found.len()), "{found:?} {inventory:?}");
    // Those somebody described stay as they are.
    let described = json!([{ "op": "add", "path": "/name", "value": "eth0" }]);
    let first = api.get(&format!("/v1/ports?node={n1}"))["ports"][0]["uuid"].as_str().expect("a UUID").to_owned();
    api.ask("PATCH", &format!("/v1/ports/{first}"), &described, 200);
    api.bring("n1", &json!({ "target": "inspect" }), "manageable");
    assert_eq!(addresses(&api, "/v1/nodes/n1/ports"), found);
    assert_eq!(api.get("/v1/ports/eth0")["uuid"], json!(first));
    assert_eq!(problems(&rack), Vec::<String>::new());
}

#[test]
fn bad_requests_about_ports_change_nothing() {
    let (rack, api) = rack(Backend::Embedded);
    let n1 = node(&api, "n1");
    let uuid = port(&api, &n1, "02:00:00:00:00:01", &json!({ "extra": { "a": 1 } }))["uuid"]
        .as_str()
        .expect("a UUID")
        .to_owned();
    let before = rack.server.dump();
    let check = |method: &str, path: &str, body: Value, status: u16, text: &str| {
        let answer = api.ask(method, path, &body, status);
        assert!(fault(&answer).contains(text), "{method} {path} {body}: {}", fault(&answer));
    };
    let (nobody, free) = ("11111111-0008-4000-8000-00000000000f", "02:00:00:00:00:02");
    let make = |more: Value| {
        let mut body = json!({ "node_uuid": n1, "address": free });
        body.as_object_mut().expect("an object").extend(more.as_object().cloned().expect("an object"));
        body
    };
    check(
        "POST",
        "/v1/ports",
        make(json!({ "address": "not-a-mac" })),
        400,
        "Expected valid MAC address for address: not",
    );
    check("POST", "/v1/ports", make(json!({ "address": "02:00:00:00:00:01" })), 409, "already exists");
    check("POST", "/v1/ports", make(json!({ "uuid": uuid })), 409, "A port with UUID");
    check("POST", "/v1/ports", make(json!({ "node_uuid": nobody })), 400, "could not be found");
    check("POST", "/v1/ports", make(json!({ "node_uuid": "n1" })), 400, "Expected UUID for node_uuid: n1");
    check("POST", "/v1/ports", make(json!({ "name": "a/b" })), 400, "invalid name");
    check("POST", "/v1/ports", make(json!({ "portgroup_uuid": nobody })), 400, "could not be found");
    check("POST", "/v1/ports", make(json!({ "local_link_connection": { "port_id": "e1" } })), 400, "switch_id");
    check("POST", "/v1/ports", json!({ "address": free }), 400, "required property");
    let place = format!("/v1/ports/{uuid}");
    let patch = |operation: Value| json!([{ "op": "add", "path": "/extra/b", "value": 2 }, operation]);
    check("PATCH", &place, patch(json!({ "op": "add", "path": "/uuid", "value": nobody })), 400, "Cannot patch /uuid");
    check("PATCH", &place, patch(json!({ "op": "add", "path": "/internal_info/a", "value": 1 })), 400, "Cannot patch");
    check("PATCH", &place, patch(json!({ "op": "remove", "path": "/address" })), 400, "'address' is a required");
    check(
        "PATCH",
        &place,
        patch(json!({ "op": "add", "path": "/node_uuid", "value": nobody })),
        400,
        "cannot be moved",
    );
    check("PATCH", &place, patch(json!({ "op": "remove", "path": "/extra/zz" })), 400, "non-existent");
    check("PATCH", "/v1/ports/nope", patch(json!({ "op": "remove", "path": "/extra/a" })), 404, "Port nope could not");
    check("GET", "/v1/ports?node=nope", Value::Null, 404, "Node nope could not be found.");
    check("GET", &format!("/v1/ports?marker={nobody}"), Value::Null, 404, "could not be found");
    check("GET", "/v1/ports?address=x", Value::Null, 400, "Expected valid MAC address");
    check("GET", "/v1/portgroups/nope/ports", Value::Null, 404, "Portgroup nope could not be found.");
    check("POST", "/v1/portgroups", json!({ "name": "x" }), 400, "'node_uuid' is a required property");
    check("POST", "/v1/chassis", json!({ "description": 5 }), 400, "Schema error for chassis");
    check("POST", "/v1/chassis", json!({ "description": "x".repeat(256) }), 400, "longer than 255");
    check("DELETE", "/v1/chassis/nope", Value::Null, 404, "Chassis nope could not be found.");
    check("POST", "/v1/nodes/n1/vifs", json!({}), 400, "Missing mandatory keys: id");
    assert_eq!(rack.server.dump(), before, "nothing was changed");
    let old = Api::at(api.url.clone(), "1.22");
    old.ask("GET", "/v1/portgroups", &Value::Null, 404);
    old.ask("POST", "/v1/portgroups", &json!({ "node_uuid": n1 }), 404);
    old.ask("POST", "/v1/ports", &make(json!({ "name": "x" })), 406);
    let shown = old.get(&place);
    assert!(shown.get("portgroup_uuid").is_none() && shown.get("pxe_enabled").is_some(), "{shown}");
}
