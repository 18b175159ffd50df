//! What people ask of repair over HTTP: bad input names its field and changes nothing, queues are shown as tools of the older service
//! read them, and every broken machine says why it is not repaired.

use std::time::Duration;

use sabakan::repair::RepairConfig;
use sabakan_domain::access::AllowedNetworks;
use sabakan_testkit::{
    Backend, TestServer, fixtures,
    raw::{self, Answer},
    wait_for,
};
use sabakan_wire::rest::QueryParams;
use serde_json::{Value, json};

use super::LONG;

on_both_stores!(
    bad_input_names_its_field_and_changes_nothing,
    every_part_has_a_switch_of_its_own,
    settings_are_set_all_or_none,
    variables_are_kept_byte_for_byte,
    repairs_are_asked_for_and_taken_back,
    a_machine_is_repaired_by_its_first_address,
    reboots_are_asked_for_and_taken_back,
    a_rack_that_failed_is_held_until_somebody_has_looked,
);

const JSON: (&str, &str) = ("content-type", "application/json");

fn send(server: &TestServer, method: &str, path: &str, body: &str) -> Answer {
    raw::request(&server.url(), method, &format!("/api/v1/{path}"), &[JSON], body.as_bytes())
}

fn get(server: &TestServer, path: &str) -> Value {
    fine(&send(server, "GET", path, ""))
}

fn put(server: &TestServer, path: &str, body: &Value) -> Value {
    fine(&send(server, "PUT", path, &body.to_string()))
}

fn fine(answer: &Answer) -> Value {
    assert!(matches!(answer.status, 200 | 201), "{}: {}", answer.status, answer.body);
    answer.json()
}

/// The places of everything that was wrong, sorted.
fn wrong(answer: &Answer) -> Vec<String> {
    assert_eq!(answer.status, 400, "{}", answer.body);
    let json = answer.json();
    let problems = json["problems"].as_array().unwrap_or_else(|| panic!("no problems in {json}"));
    let mut paths: Vec<String> = problems.iter().filter_map(|problem| Some(problem["path"].as_str()?.into())).collect();
    paths.sort();
    paths
}

/// Machines in two racks, all healthy and in the cluster, whose configuration says how they are repaired.
fn server(backend: Backend, per_rack: u32, repairer: bool) -> TestServer {
    let server = TestServer::start_with(backend, |config| {
        config.repair = RepairConfig { repairer, period: Duration::from_millis(200) };
    });
    let client = server.client();
    client.put_ipam(&fixtures::ipam()).expect("an IPAM configuration");
    let machine = |n: u32| fixtures::machine(format!("m{n}"), n / per_rack, "worker");
    client.create_machines(&(0..2 * per_rack).map(machine).collect::<Vec<_>>()).expect("registered");
    for n in 0..2 * per_rack {
        client.put_state(&format!("m{n}"), "healthy", false).expect("a state");
    }
    let machines = client.list_machines(&QueryParams::default()).expect("machines");
    let kind = &machines[0].spec.bmc.kind;
    let node = |(n, address): (usize, &str)| json!({ "address": address, "user": "u", "control_plane": n == 0 });
    let nodes: Vec<Value> =
        machines.iter().map(|machine| machine.spec.ipv4[0].as_str()).enumerate().map(node).collect();
    let step = json!({ "repair_command": ["/bin/true"], "watch_seconds": 600 });
    let operations = json!([
        { "operation": "unreachable", "health_check": "registry", "repair_steps": [step] },
        { "operation": "by-command", "health_check_command": ["/bin/false"], "repair_steps": [step] },
        { "operation": "by-action", "health_check_command": ["/bin/false"],
            "repair_steps": [step, { "action": "power-cycle" }] },
    ]);
    let document = json!({
        "name": "test", "service_subnet": "10.68.0.0/16", "nodes": nodes,
        "repair": { "repair_procedures": [{ "machine_types": [kind], "repair_operations": operations }] },
    });
    put(&server, "cluster/configuration", &document);
    put(&server, "constraints/maximum-repair-queue-entries", &json!(3));
    server
}

/// The address and the BMC type of a machine.
fn known(server: &TestServer, serial: &str) -> (String, String) {
    let machines = server.client().list_machines(&QueryParams::default()).expect("machines");
    let machine = machines.into_iter().find(|machine| machine.spec.serial == serial).expect(serial);
    (machine.spec.ipv4[0].clone(), machine.spec.bmc.kind)
}

fn bad_input_names_its_field_and_changes_nothing(backend: Backend) {
    let server = server(backend, 2, false);
    let (address, kind) = known(&server, "m1");
    let before = server.dump();
    let check = |method: &str, path: &str, body: &str, expected: &[&str]| {
        assert_eq!(wrong(&send(&server, method, path, body)), expected, "{method} {path} {body}");
    };
    check("POST", "repair-queue", "{}", &["address", "machine_type", "operation"]);
    let bad = json!({ "operation": "", "machine_type": 1, "address": "node1", "serial": [], "serials": "m1" });
    check("POST", "repair-queue", &bad.to_string(), &["address", "machine_type", "operation", "serial", "serials"]);
    check("POST", "repair-queue", "[]", &[""]);
    check("POST", "reboot-queue", r#"{"nodes": ["10.0.0.1", "x"]}"#, &["nodes[1]"]);
    check("POST", "reboot-queue", "10.0.0.1\nx y\n", &["line 2"]);
    check("POST", "reboot-queue", "", &["nodes"]);
    check("PUT", "auto-repair/settings", r#"{"guard": 1, "guards": true, "chance": 0.5}"#, &["guard", "guards"]);
    check("PUT", "auto-repair/settings", "[]", &[""]);
    check("PUT", "auto-repair/settings/observe-seconds", "-1", &["observe-seconds"]);
    check("PUT", "auto-repair/settings/observe-seconds", r#"{"a": 1}"#, &["observe-seconds"]);
    check("PUT", "auto-repair/variables", r#"{"having": {"state": ["UNHEALTHY"]}}"#, &["having.state"]);
    check("POST", "incidents/1/acknowledge", r#"{"reason": 1}"#, &["reason"]);
    let refused = |method: &str, path: &str, body: &str, status: u16, word: &str| {
        let answer = send(&server, method, path, body);
        assert_eq!(answer.status, status, "{method} {path} {body}: {}", answer.body);
        assert!(answer.error().contains(word), "{method} {path} {body}: {}", answer.error());
    };
    for path in ["auto-repair/enabled", "repair-queue/enabled", "reboot-queue/enabled"] {
        for bad in ["true", r#"{"enabled": "yes"}"#, r#"{"enable": true}"#, ""] {
            refused("PUT", path, bad, 400, "enabled");
        }
    }
    let repair = |operation: &str, kind: &str| {
        json!({ "operation": operation, "machine_type": kind, "address": address }).to_string()
    };
    refused("POST", "repair-queue", &repair("unhealthy", &kind), 400, "has no operation \"unhealthy\"");
    refused("POST", "repair-queue", &repair("unreachable", "type9"), 400, "machine type \"type9\"");
    refused("POST", "repair-queue", "{", 400, "not JSON");
    refused("POST", "repair-queue", &format!("\"{}\"", "x".repeat(20_000)), 413, "larger than");
    refused("POST", "reboot-queue", "10.9.9.9\n", 400, "not a node of the cluster: 10.9.9.9");
    let long = json!({ "reason": "x".repeat(501) }).to_string();
    refused("POST", "incidents/1/acknowledge", &long, 400, "reason: ");
    refused("POST", "incidents/1/acknowledge", "{}", 404, "not found");
    refused("GET", "incidents/first", "", 400, "number is \"first\"");
    refused("GET", "incidents?open=maybe", "", 400, "open is \"maybe\"");
    refused("GET", "incidents/1", "", 404, "not found");
    refused("GET", "auto-repair/status?machines=all", "", 400, "machines is \"all\"");
    refused("GET", "auto-repair/status?machines=100001", "", 400, "at most 100000");
    refused("GET", "auto-repair/explain/nobody", "", 404, "not found");
    refused("PUT", "auto-repair/settings/guards", "true", 404, "not found");
    for queue in ["repair-queue", "reboot-queue"] {
        refused("DELETE", &format!("{queue}/first"), "", 400, "index is \"first\"");
        refused("DELETE", &format!("{queue}/0"), "", 404, "not found");
    }
    refused("GET", "repair-queue/0", "", 404, "not found");
    refused("GET", "repair-queue/delete-finished", "", 405, "");
    assert_eq!(server.dump(), before, "nothing was written");
}

fn every_part_has_a_switch_of_its_own(backend: Backend) {
    let server = TestServer::start(backend);
    let paths = ["auto-repair/enabled", "repair-queue/enabled", "reboot-queue/enabled"];
    for off in paths {
        put(&server, off, &json!({ "enabled": false }));
        for path in paths {
            assert_eq!(get(&server, path), json!({ "enabled": path != off }), "{path} while {off} is off");
        }
        put(&server, off, &json!({ "enabled": true }));
    }
    put(&server, "auto-repair/enabled", &json!({ "enabled": false }));
    let status = get(&server, "auto-repair/status");
    let switches = json!({ "automatic": false, "repair_queue": true, "guard": true, "reboot_queue": true });
    assert_eq!(status["switches"], switches);
    let messages = status["messages"].to_string();
    assert!(messages.contains("sabactl auto-repair enable") && messages.contains("no server leads"), "{messages}");
    assert!(messages.contains("maximum-repair-queue-entries is 0"), "the default lets nothing in: {messages}");
    // Only those who may change something do.
    let closed = TestServer::start_with(Backend::Embedded, |config| {
        config.allow_ips = AllowedNetworks::new(["10.0.0.1"]).expect("a network");
    });
    for (method, path) in [
        ("PUT", "auto-repair/enabled"),
        ("PUT", "auto-repair/variables"),
        ("DELETE", "auto-repair/variables"),
        ("PUT", "auto-repair/settings"),
        ("PUT", "auto-repair/settings/guard"),
        ("POST", "repair-queue"),
        ("PUT", "repair-queue/enabled"),
        ("DELETE", "repair-queue/1"),
        ("POST", "repair-queue/delete-finished"),
        ("POST", "repair-queue/delete-unfinished"),
        ("POST", "repair-queue/reset-backoff"),
        ("POST", "reboot-queue"),
        ("PUT", "reboot-queue/enabled"),
        ("DELETE", "reboot-queue/1"),
        ("POST", "reboot-queue/cancel-all"),
        ("POST", "reboot-queue/reset-backoff"),
        ("POST", "incidents/1/acknowledge"),
    ] {
        let answer = send(&closed, method, path, "");
        assert_eq!((answer.status, answer.json()["kind"].as_str()), (403, Some("forbidden")), "{method} {path}");
        assert!(answer.error().contains("changing repairs needs"), "{}", answer.error());
    }
    for path in ["auto-repair/settings", "repair-queue", "reboot-queue", "incidents"] {
        get(&closed, path);
    }
}

fn setting(server: &TestServer, name: &str) -> Value {
    let settings = get(server, "auto-repair/settings");
    settings.as_array().expect("a list").iter().find(|setting| setting["name"] == name).expect(name).clone()
}

fn settings_are_set_all_or_none(backend: Backend) {
    let server = TestServer::start(backend);
    let observe = setting(&server, "observe-seconds");
    assert_eq!((&observe["value"], &observe["default"]), (&json!("300"), &json!("300")));
    assert!(observe["text"].as_str().is_some_and(|text| !text.is_empty()));
    put(
        &server,
        "auto-repair/settings",
        &json!({ "observe-seconds": 60, "windows-minutes": [60, 10], "guard": false }),
    );
    let told = fine(&send(&server, "PUT", "auto-repair/settings/chance", "1e-300"));
    assert_eq!(told["warnings"][0]["path"], "guard", "while it is off nothing else matters: {told}");
    let told = fine(&send(&server, "PUT", "auto-repair/settings", r#"{"guard": true, "observe-seconds": 300}"#));
    assert_eq!((&told["warnings"][0]["path"], told["warnings"].get(1)), (&json!("chance"), None), "{told}");
    put(&server, "auto-repair/settings", &json!({ "chance": 0.001, "guard": false, "observe-seconds": 60 }));
    put(&server, "auto-repair/settings/version-label", &json!("image"));
    for (name, value) in
        [("observe-seconds", "60"), ("windows-minutes", "10,60"), ("guard", "false"), ("version-label", "image")]
    {
        assert_eq!(setting(&server, name)["value"], value, "{name}");
    }
    let set = get(&server, "auto-repair/settings");
    let bad = json!({ "observe-seconds": 90, "chance": 2 }).to_string();
    assert_eq!(wrong(&send(&server, "PUT", "auto-repair/settings", &bad)), ["chance"]);
    assert_eq!(get(&server, "auto-repair/settings"), set, "nothing of it was changed");
}

fn variables_are_kept_byte_for_byte(backend: Backend) {
    let server = TestServer::start(backend);
    let path = "auto-repair/variables";
    let defaults = get(&server, path);
    assert_eq!(defaults["effective"]["having"]["states"], json!(["UNHEALTHY", "UNREACHABLE"]));
    assert_eq!((&defaults["given"], &defaults["effective"]["notHaving"]["roles"]), (&Value::Null, &json!(["boot"])));
    let text = "{ \"having\":\t{\"states\": [\"UNHEALTHY\"]} }\n";
    let warnings = fine(&send(&server, "PUT", path, text));
    assert_eq!(warnings["warnings"][0]["path"], "notHaving.roles", "boot servers are let in");
    assert_eq!(get(&server, path)["given"], text);
    fine(&send(&server, "DELETE", path, ""));
    assert_eq!(get(&server, path), defaults);
}

fn repairs_are_asked_for_and_taken_back(backend: Backend) {
    let server = server(backend, 2, false);
    assert_eq!(get(&server, "repair-queue"), json!([]));
    let ask = |serial: &str, more: &Value| {
        let (address, kind) = known(&server, serial);
        let mut wish = json!({ "operation": "unreachable", "machine_type": kind, "address": address });
        wish.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        send(&server, "POST", "repair-queue", &wish.to_string())
    };
    let added = ask("m1", &json!({}));
    assert_eq!(added.status, 201, "{}", added.body);
    let (entry, (address, kind)) = (added.json(), known(&server, "m1"));
    let mut expected = json!({
        "index": entry["index"], "address": address, "nodename": "", "serial": "m1", "machine_type": kind,
        "operation": "unreachable", "status": "queued", "step": 0, "step_status": "waiting", "deleted": false,
        "last_transition_time": "0001-01-01T00:00:00Z", "drain_backoff_expire": "0001-01-01T00:00:00Z",
    });
    for own in ["created", "asked_by"] {
        if let Some(value) = entry.get(own) {
            expected[own] = value.clone();
        }
    }
    assert_eq!(entry, expected, "the keys that tools of the older service read");
    assert!(entry["created"].as_str().is_some_and(|at| at.len() == "2026-01-02T03:04:05Z".len()), "{entry}");
    let again = ask("m1", &json!({}));
    assert_eq!((again.status, again.json()["kind"].as_str()), (409, Some("conflict")), "{}", again.body);
    ask("m2", &json!({ "serial": "m2" }));
    let listed = get(&server, "repair-queue");
    let indexes: Vec<&Value> = listed.as_array().expect("a list").iter().map(|entry| &entry["index"]).collect();
    assert_eq!(indexes.len(), 2);
    assert_ne!(listed[0]["nodename"], "", "it is a node of the cluster");
    let one = format!("repair-queue/{}", indexes[0].as_str().expect("a text"));
    assert_eq!(get(&server, &one), listed[0]);
    let explained = get(&server, "auto-repair/explain/m1");
    assert_eq!((&explained["entries"][0], &explained["broken"]), (&listed[0], &Value::Null));
    assert!(explained["answer"].as_str().is_some_and(|text| text.contains("is queued")), "{explained}");
    assert_eq!(get(&server, "auto-repair/status")["budget"]["left"], 1);
    assert_eq!(fine(&send(&server, "DELETE", &one, "")), json!({ "indexes": [indexes[0]] }));
    assert_eq!(get(&server, &one)["deleted"], true);
    assert_eq!(fine(&send(&server, "POST", "repair-queue/delete-finished", "")), json!({ "indexes": [] }));
    assert_eq!(fine(&send(&server, "POST", "repair-queue/reset-backoff", "")), json!({ "indexes": [] }));
    assert_eq!(fine(&send(&server, "POST", "repair-queue/delete-unfinished", "")), json!({ "indexes": [indexes[1]] }));
}

fn a_machine_is_repaired_by_its_first_address(backend: Backend) {
    let server = server(backend, 2, false);
    let machines = server.client().list_machines(&QueryParams::default()).expect("machines");
    let machine = machines.into_iter().find(|machine| machine.spec.serial == "m1").expect("m1").spec;
    let (own, controller) = (&machine.ipv4, machine.bmc.ipv4.as_str());
    let ask = |operation: &str, address: &str, serial: Option<&str>| {
        let mut wish = json!({ "operation": operation, "machine_type": machine.bmc.kind, "address": address });
        if let Some(serial) = serial {
            wish["serial"] = json!(serial);
        }
        send(&server, "POST", "repair-queue", &wish.to_string())
    };
    let before = server.dump();
    let refused = |operation: &str, address: &str, serial: Option<&str>, words: &[&str]| {
        let answer = ask(operation, address, serial);
        assert_eq!(answer.status, 400, "{operation} {address}: {}", answer.body);
        let error = answer.error();
        assert!(words.iter().all(|word| error.contains(word)), "{operation} {address}: {error}");
    };
    for serial in [None, Some("m1")] {
        refused("by-command", &own[1], serial, &["not the first address of machine m1", &own[0]]);
        refused("by-command", controller, serial, &["the controller of machine m1", &own[0]]);
    }
    refused("by-command", &own[0], Some("m2"), &["machine m2 does not have the address"]);
    refused("by-command", &own[0], Some("m9"), &["no machine m9 is registered"]);
    for operation in ["unreachable", "by-action"] {
        refused(operation, "10.9.9.9", None, &["no machine with the address 10.9.9.9 is registered", operation]);
    }
    // Who is rebooted is known by the address of the node.
    for address in [own[1].as_str(), controller] {
        let answer = send(&server, "POST", "reboot-queue", &json!({ "nodes": [address] }).to_string());
        assert_eq!(answer.status, 400, "{}", answer.body);
    }
    assert_eq!(server.dump(), before, "what was refused changed nothing");
    // Commands alone may know more than the registry.
    assert_eq!(ask("by-command", "10.9.9.9", None).status, 201);
    assert_eq!(ask("by-action", &own[0], None).status, 201);
}

fn reboots_are_asked_for_and_taken_back(backend: Backend) {
    let server = server(backend, 2, false);
    let (one, two) = (known(&server, "m1").0, known(&server, "m2").0);
    let added = send(&server, "POST", "reboot-queue", &json!({ "nodes": [one] }).to_string());
    assert_eq!((added.status, added.json()["indexes"].as_array().map(Vec::len)), (201, Some(1)), "{}", added.body);
    let plain = [("content-type", "text/plain")];
    let body = format!("{two}\n\n{one}\n");
    let more = raw::request(&server.url(), "POST", "/api/v1/reboot-queue", &plain, body.as_bytes());
    assert_eq!(more.status, 201, "{}", more.body);
    let listed = get(&server, "reboot-queue");
    let nodes: Vec<&Value> = listed.as_array().expect("a list").iter().map(|entry| &entry["node"]).collect();
    assert_eq!(nodes, [&json!(one), &json!(two), &json!(one)]);
    let expected = json!({
        "index": added.json()["indexes"][0], "node": one, "status": "queued", "last_transition_time": "0001-01-01T00:00:00Z",
        "drain_backoff_expire": "0001-01-01T00:00:00Z",
    });
    assert_eq!(listed[0], expected, "the keys that tools of the older service read");
    let stranger = format!("{one}\n10.9.9.9\n");
    assert_eq!(send(&server, "POST", "reboot-queue", &stranger).status, 400);
    assert_eq!(get(&server, "reboot-queue"), listed, "all or none");
    let first = listed[0]["index"].as_str().expect("a text");
    fine(&send(&server, "DELETE", &format!("reboot-queue/{first}"), ""));
    assert_eq!(get(&server, "reboot-queue")[0]["status"], "cancelled");
    assert_eq!(fine(&send(&server, "POST", "reboot-queue/reset-backoff", "")), json!({ "indexes": [] }));
    let cancelled = fine(&send(&server, "POST", "reboot-queue/cancel-all", ""));
    assert_eq!(cancelled, json!({ "indexes": [listed[1]["index"], listed[2]["index"]] }));
    // As many as one transaction of an etcd with default limits holds are taken; more are not, and it is said how many would be.
    let many = |count| send(&server, "POST", "reboot-queue", &format!("{one}\n").repeat(count));
    let refused = many(101);
    assert_eq!(refused.status, 400, "{}", refused.body);
    assert!(refused.error().contains("more than 100"), "{}", refused.error());
    let count = || get(&server, "reboot-queue").as_array().map(Vec::len);
    assert_eq!(count(), Some(3));
    assert_eq!((many(100).status, count()), (201, Some(103)));
}

fn a_rack_that_failed_is_held_until_somebody_has_looked(backend: Backend) {
    let server = server(backend, 8, true);
    for n in 8..16 {
        server.client().put_state(&format!("m{n}"), "unreachable", false).expect("a state");
    }
    let whole = || {
        let open = get(&server, "incidents?open=true");
        open.get(0).cloned().filter(|incident| incident["member_count"] == 8)
    };
    let mut open = wait_for("the incident", LONG, whole);
    let now =
        open.as_object_mut().and_then(|open| open.remove("now")).expect("what holds now, which only incidents tell");
    assert_eq!((&now["broken"], &now["machines"]), (&json!(8), &json!(8)));
    assert_eq!((&open["group"], &open["phase"]), (&json!({ "kind": "rack", "value": "1" }), &json!("open")));
    assert_eq!(open.get("members"), None, "a list counts");
    let path = format!("incidents/{}", open["number"]);
    assert_eq!(get(&server, &path)["members"].as_array().map(Vec::len), Some(8), "the incident names");
    let status = get(&server, "auto-repair/status?machines=3");
    assert_eq!((&status["broken_count"], &status["broken_left_out"]), (&json!(8), &json!(5)));
    let held = &status["verdicts"][0];
    assert_eq!((&held["count"], &held["first"]["kind"]), (&json!(8), &json!("held")), "{status}");
    assert_eq!(status["incidents"], json!([open]));
    assert!(status["messages"].to_string().contains("sabactl incidents acknowledge"), "{status}");
    let explained = get(&server, "auto-repair/explain/m9");
    assert_eq!(explained["broken"]["verdict"]["incident"], open["number"]);
    assert_eq!(explained["incidents"], json!([open]));
    assert!(explained["change"].as_str().is_some_and(|text| text.contains("acknowledge")), "{explained}");
    let seen = fine(&send(&server, "POST", &format!("{path}/acknowledge"), r#"{"reason": "power is back"}"#));
    assert_eq!((&seen["phase"], &seen["acknowledged"]["reason"]), (&json!("acknowledged"), &json!("power is back")));
    assert_eq!(get(&server, "incidents?open=true"), json!([]));
    assert_eq!(get(&server, "incidents")[0]["phase"], "acknowledged");
    assert_ne!(get(&server, "auto-repair/explain/m9")["broken"]["verdict"]["kind"], "held");
    for n in 8..16 {
        server.client().put_state(&format!("m{n}"), "healthy", false).expect("a state");
    }
    let over = || (get(&server, &path)["phase"] == "recovered").then_some(());
    wait_for("the end of the incident", LONG, over);
    let late = send(&server, "POST", &format!("{path}/acknowledge"), "");
    assert_eq!((late.status, late.json()["kind"].as_str()), (409, Some("refused")), "{}", late.body);
    assert_eq!(get(&server, "repair-queue"), json!([]), "nothing was repaired");
}
