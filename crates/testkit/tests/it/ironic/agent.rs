//! Nodes with an agent, as the ramdisk of the original runs it: lookup, heartbeat, commands. The agent is a stand-in. It does what it is
//! told at once and nothing on a disk; it does not boot, has no certificate of its own, and its timing is the test's. Whether the real
//! one understands our commands as it understands those of the original follows from the recording alone.

use std::collections::BTreeMap;

use proptest::{prelude::*, test_runner::TestRunner};
use sabakan_domain::provision::power::PowerState;
use sabakan_testkit::{
    Backend,
    agent::{Given, StandInAgent},
    rack::WORK_MAX,
    simulated::Fault,
    wait_for,
};
use serde_json::{Value, json};

use super::{Api, fault, rack, replay};

const MAC: &str = "52:54:00:a9:00:01";

/// A manageable node that has an agent.
fn node(api: &Api, name: &str, mac: &str) -> String {
    let wanted = json!({
        "name": name,
        "driver": "fake-hardware",
        "deploy_interface": "direct",
        "inspect_interface": "agent",
    });
    let id = api.ask("POST", "/v1/nodes", &wanted, 201).json()["uuid"].as_str().expect("a UUID").to_owned();
    api.ask("POST", "/v1/ports", &json!({ "node_uuid": id, "address": mac }), 201);
    api.bring(&id, &json!({ "target": "manage" }), "manageable");
    id
}

/// Waits until a node waits for its ramdisk and nobody holds it.
fn wait_until(api: &Api, id: &str, state: &str) {
    wait_for(&format!("{id} to become {state}"), WORK_MAX, || {
        let node = api.get(&format!("/v1/nodes/{id}"));
        assert!(node["last_error"].is_null(), "{}", node["last_error"]);
        (node["provision_state"] == state && node["reservation"].is_null()).then_some(())
    });
}

fn wait_for_commands(agent: &StandInAgent, count: usize) -> Vec<Given> {
    wait_for(&format!("{count} commands"), WORK_MAX, || {
        let commands = agent.commands();
        (commands.len() >= count).then_some(commands)
    })
}

/// Sends what may meet somebody who works on the node, as the real agent does: again after 409.
fn insist(api: &Api, method: &str, path: &str, body: &Value) -> sabakan_testkit::raw::Answer {
    let text = if body.is_null() { String::new() } else { body.to_string() };
    wait_for(&format!("{method} {path}"), WORK_MAX, || Some(api.send(method, path, &text)).filter(|a| a.status != 409))
}

#[test]
fn the_recorded_agent_is_inspected_and_cleans() {
    let (rack, _) = rack(Backend::Embedded);
    let agent = StandInAgent::start();
    let id = "11111111-0a9e-4000-8000-000000000001";
    let mut known: BTreeMap<String, String> =
        BTreeMap::from([("http://127.0.0.1:19999".to_owned(), agent.url.clone())]);
    let (mut problems, mut commands, mut heartbeats) = (Vec::new(), 0, 0);
    for line in include_str!("transcripts/agent-inspect-clean.jsonl").lines() {
        let recorded: Value = serde_json::from_str(line).expect("JSON");
        let line = known.iter().fold(line.to_owned(), |line, (theirs, ours)| line.replace(theirs, ours));
        let exchange: Value = serde_json::from_str(&line).expect("JSON");
        if exchange["to_agent"].is_string() {
            let given = wait_for_commands(&agent, commands + 1).swap_remove(commands);
            compare_command(&exchange, &given);
            commands += 1;
            continue;
        }
        let api = replay::client(&rack, &exchange);
        let path = exchange["path"].as_str().expect("a path");
        match path {
            "/v1/continue_inspection" => wait_until(&api, id, "inspect wait"),
            "/v1/lookup" => wait_until(&Api::of(&rack), id, "clean wait"),
            path if path.starts_with("/v1/heartbeat") => heartbeats += 1,
            _ => replay::settle(&api, &exchange),
        }
        let query = exchange["query"].as_str().map(|query| format!("?{query}")).unwrap_or_default();
        let method = exchange["method"].as_str().expect("a method");
        let answer = insist(&api, method, &format!("{path}{query}"), &exchange["body"]);
        assert_eq!(
            answer.status,
            exchange["status"].as_u64().and_then(|status| u16::try_from(status).ok()).expect("a status"),
            "{method} {path}: {}",
            answer.body
        );
        if answer.status < 400 && !answer.body.is_empty() {
            let ours = answer.json();
            let token = |answer: &Value| answer["config"]["agent_token"].as_str().map(str::to_owned);
            if let (Some(theirs), Some(ours)) = (token(&recorded["answer"]), token(&ours)) {
                agent.learn(&ours);
                known.insert(theirs, ours);
            }
            replay::compare(&format!("{method} {path}"), path, &exchange["answer"], &ours, &mut problems);
        }
        // The first call after the boot has nothing to tell; before each other one the agent has finished what it was told.
        if heartbeats > 2 && path.starts_with("/v1/heartbeat") {
            agent.finish("SUCCEEDED");
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert_eq!((agent.strangers(), agent.commands().len()), (0, 3));
    assert_no_token_is_kept(&rack, known.values());
}

/// The command our server gave, beside the recorded one.
fn compare_command(recorded: &Value, given: &Given) {
    assert_eq!(recorded["to_agent"], given.name.as_str());
    assert_eq!(recorded["wait"], given.waits, "{}", given.name);
    let names: Vec<&String> = given.params.as_object().expect("parameters").keys().collect();
    let theirs: Vec<&str> = recorded["params"].as_array().expect("names").iter().filter_map(Value::as_str).collect();
    assert!(theirs.iter().all(|name| names.iter().any(|ours| ours == name)), "{theirs:?} {names:?}");
    for member in ["interface", "step"] {
        assert_eq!(recorded["step"][member], given.params["step"][member], "{}", given.name);
    }
    assert_eq!(given.params["node"]["uuid"], "11111111-0a9e-4000-8000-000000000001");
    assert_eq!(given.params["ports"][0]["address"], MAC);
    if given.name.contains("execute") {
        assert_eq!(given.params["clean_version"], json!({ "generic_hardware_manager": "1.2" }));
    }
}

/// What proves an agent is in no value of the store.
fn assert_no_token_is_kept<'a>(rack: &sabakan_testkit::rack::Rack, tokens: impl Iterator<Item = &'a String>) {
    let tokens: Vec<&String> = tokens.filter(|token| !token.starts_with("http")).collect();
    assert!(!tokens.is_empty() && tokens.iter().all(|token| token.len() >= 32));
    for (key, value) in rack.server.dump() {
        let value = String::from_utf8_lossy(&value);
        assert!(tokens.iter().all(|token| !value.contains(token.as_str())), "a token is in {key}");
    }
}

fn lookup(api: &Api, mac: &str) -> Value {
    let answer = insist(api, "GET", &format!("/v1/lookup?addresses={mac}"), &Value::Null);
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.json()
}

/// A node that is being cleaned, its agent with its token, and what the agent says when it calls.
fn cleaning(api: &Api, agent: &StandInAgent, name: &str, mac: &str) -> (String, Value) {
    let id = node(api, name, mac);
    api.ask("PUT", &format!("/v1/nodes/{id}/states/provision"), &json!({ "target": "provide" }), 202);
    wait_until(api, &id, "clean wait");
    let token = lookup(api, mac)["config"]["agent_token"].as_str().expect("a token").to_owned();
    agent.learn(&token);
    (id, json!({ "callback_url": agent.url, "agent_token": token, "agent_version": "13.0.0" }))
}

fn on_both(story: fn(Backend)) {
    story(Backend::Embedded);
    story(Backend::Etcd);
}

#[test]
fn only_the_ramdisk_that_was_booted_is_believed() {
    on_both(|backend| {
        let (_rack, api) = rack(backend);
        let agent = StandInAgent::start();
        let (id, call) = cleaning(&api, &agent, "a-1", MAC);
        assert_eq!(lookup(&api, MAC)["config"]["agent_token"], "******", "the first has it");
        let path = format!("/v1/heartbeat/{id}");
        let but = |member: &str, value: Value| {
            let mut call = call.clone();
            call[member] = value;
            call
        };
        for (wrong, text) in [
            (but("agent_token", json!("x".repeat(43))), "Invalid or missing agent token"),
            (but("agent_token", json!("******")), "Invalid or missing agent token"),
            (but("agent_version", Value::Null), "agent_version"),
            (but("callback_url", json!("ftp://192.0.2.1")), "must begin with http"),
            (but("callback_url", json!("http://agent.example:9999")), "must be an IP address"),
            (but("callback_url", json!("http://169.254.169.254")), "local address"),
            (but("agent_verify_ca", json!("not a certificate")), "agent_verify_ca"),
        ] {
            let answer = api.ask("POST", &path, &wrong, 400);
            assert!(fault(&answer).contains(text), "{wrong}: {}", fault(&answer));
        }
        api.ask("POST", "/v1/heartbeat/11111111-0000-4000-8000-00000000dead", &call, 404);
        assert_eq!(agent.commands().len(), 0);
        assert_eq!(insist(&api, "POST", &path, &call).status, 202);
        wait_for_commands(&agent, 2);
        let shown = api.get(&format!("/v1/nodes/{id}"));
        let internal = &shown["driver_internal_info"];
        assert_eq!((&internal["agent_secret_token"], &internal["agent_url"]), (&json!("******"), &json!(agent.url)));
        let elsewhere = insist(&api, "POST", &path, &but("callback_url", json!("http://127.0.0.1:1")));
        assert!(fault(&elsewhere).contains("listens elsewhere"), "{}", elsewhere.body);
        agent.finish("SUCCEEDED");
        wait_for_commands(&agent, 3);
        agent.finish("SUCCEEDED");
        api.wait_for(&id, "available");
        // The work is over, and with it the token.
        api.ask("POST", &path, &call, 400);
        api.ask("GET", &format!("/v1/lookup?node_uuid={id}"), &Value::Null, 404);
    });
}

#[test]
fn a_step_that_fails_in_the_ramdisk_fails_the_cleaning() {
    let (_rack, api) = rack(Backend::Embedded);
    let agent = StandInAgent::start();
    let (id, call) = cleaning(&api, &agent, "a-1", MAC);
    assert_eq!(insist(&api, "POST", &format!("/v1/heartbeat/{id}"), &call).status, 202);
    wait_for_commands(&agent, 2);
    agent.finish("FAILED");
    let failed = wait_for("clean failed", WORK_MAX, || {
        let node = api.get(&format!("/v1/nodes/{id}"));
        (node["provision_state"] == "clean failed" && node["reservation"].is_null()).then_some(node)
    });
    let error = failed["last_error"].as_str().expect("a reason");
    assert!(error.contains("erase_devices_metadata") && error.contains("it burns"), "{error}");
    assert_eq!(failed["fault"], "clean failure");
}

/// Why a node waits, as `nodes show` has it.
fn waits_for(api: &Api, id: &str) -> String {
    api.get(&format!("/v1/nodes/{id}/sabakan"))["waiting"]["reason"].as_str().unwrap_or_default().to_owned()
}

/// A node whose agent erases a disk when somebody aborts the cleaning.
fn aborted_while_erasing(api: &Api, agent: &StandInAgent) -> String {
    let (id, call) = cleaning(api, agent, "a-1", MAC);
    assert_eq!(insist(api, "POST", &format!("/v1/heartbeat/{id}"), &call).status, 202);
    wait_for_commands(agent, 2);
    wait_until(api, &id, "clean wait");
    assert_eq!(api.get(&format!("/v1/nodes/{id}"))["power_state"], "power on", "the ramdisk runs");
    assert_eq!(
        insist(api, "PUT", &format!("/v1/nodes/{id}/states/provision"), &json!({ "target": "abort" })).status,
        202
    );
    wait_for("clearing up to wait for the agent", WORK_MAX, || {
        waits_for(api, &id).contains("still runs").then_some(())
    });
    id
}

#[test]
fn a_machine_whose_agent_runs_a_command_keeps_its_power() {
    on_both(|backend| {
        let (rack, api) = rack(backend);
        let agent = StandInAgent::start();
        let id = aborted_while_erasing(&api, &agent);
        let node = api.get(&format!("/v1/nodes/{id}"));
        assert_eq!((&node["provision_state"], &node["power_state"]), (&json!("clean failed"), &json!("power on")));
        assert_eq!(rack.fleet.power("a-1"), PowerState::On, "its disk is being erased");
        let text = waits_for(&api, &id);
        assert!(text.contains("execute_clean_step") && text.contains("--force"), "{text}");
        let power = format!("/v1/nodes/{id}/states/power");
        let refused = insist_on(&api, &power, &json!({ "target": "power off" }), 409);
        assert!(refused.contains("still runs execute_clean_step") && refused.contains("force"), "{refused}");
        assert_eq!(rack.fleet.power("a-1"), PowerState::On);
        agent.finish("SUCCEEDED");
        wait_for("the power to go", WORK_MAX, || (rack.fleet.power("a-1") == PowerState::Off).then_some(()));
        wait_for("nothing to be left", WORK_MAX, || waits_for(&api, &id).is_empty().then_some(()));
    });
}

#[test]
fn only_force_switches_off_a_machine_whose_agent_runs_a_command() {
    let (rack, api) = rack(Backend::Embedded);
    let agent = StandInAgent::start();
    let id = aborted_while_erasing(&api, &agent);
    let power = format!("/v1/nodes/{id}/states/power");
    api.ask("PUT", &power, &json!({ "target": "rebooting", "force": true }), 400);
    api.ask("PUT", &power, &json!({ "target": "power off", "force": "perhaps" }), 400);
    insist_on(&api, &power, &json!({ "target": "power off", "force": true }), 202);
    wait_for("the power to go", WORK_MAX, || (rack.fleet.power("a-1") == PowerState::Off).then_some(()));
    let history = api.get(&format!("/v1/nodes/{id}/history?detail=true")).to_string();
    assert!(history.contains("cutting it now is forced"), "{history}");
}

/// Sends to a node that somebody may hold at the moment, and insists on a status.
fn insist_on(api: &Api, path: &str, body: &Value, status: u16) -> String {
    wait_for(&format!("{status} for {body}"), WORK_MAX, || {
        let answer = api.send("PUT", path, &body.to_string());
        let locked = answer.status == 409 && answer.body.contains("is locked by");
        (!locked).then(|| {
            assert_eq!(answer.status, status, "{}", answer.body);
            answer.body
        })
    })
}

#[test]
fn an_agent_writes_the_image() {
    let (_rack, api) = rack(Backend::Embedded);
    let agent = StandInAgent::start();
    let id = node(&api, "a-1", MAC);
    let image =
        json!({ "image_source": "http://192.0.2.1/os.raw", "image_checksum": "9f86d081", "configdrive": "H4sI" });
    let about = json!([
        { "op": "add", "path": "/automated_clean", "value": false },
        { "op": "add", "path": "/instance_info", "value": image },
    ]);
    api.ask("PATCH", &format!("/v1/nodes/{id}"), &about, 200);
    api.bring(&id, &json!({ "target": "provide" }), "available");
    api.ask("PUT", &format!("/v1/nodes/{id}/states/provision"), &json!({ "target": "active" }), 202);
    wait_until(&api, &id, "wait call-back");
    let told = lookup(&api, MAC);
    assert_eq!(told["node"]["instance_info"]["configdrive"], "******");
    let token = told["config"]["agent_token"].as_str().expect("a token").to_owned();
    agent.learn(&token);
    let call = json!({ "callback_url": agent.url, "agent_token": token, "agent_version": "13.0.0" });
    assert_eq!(insist(&api, "POST", &format!("/v1/heartbeat/{id}"), &call).status, 202);
    let writes = wait_for_commands(&agent, 2).swap_remove(1);
    assert_eq!(writes.params["image_info"]["urls"], json!(["http://192.0.2.1/os.raw"]));
    assert_eq!(
        (&writes.params["image_info"]["checksum"], &writes.params["configdrive"]),
        (&json!("9f86d081"), &json!("H4sI"))
    );
    agent.finish("SUCCEEDED");
    wait_for_commands(&agent, 3);
    agent.finish("SUCCEEDED");
    let active = api.wait_for(&id, "active");
    assert_eq!(active["power_state"], "power on");
    let names: Vec<String> = agent.commands().into_iter().map(|command| command.name).collect();
    let expected = ["deploy.get_deploy_steps", "standby.prepare_image", "image.install_bootloader", "standby.sync"];
    assert_eq!(names, expected);
}

#[test]
fn a_node_that_chose_no_agent_listens_to_none() {
    let (rack, api) = rack(Backend::Embedded);
    let id = api.ask("POST", "/v1/nodes", &json!({ "name": "s-1", "driver": "fake-hardware" }), 201).json()["uuid"]
        .as_str()
        .expect("a UUID")
        .to_owned();
    api.bring(&id, &json!({ "target": "manage" }), "manageable");
    // Its ramdisk boots and never calls.
    rack.fleet.set_fault("s-1", Fault::RamdiskSilent);
    api.ask("PUT", &format!("/v1/nodes/{id}/states/provision"), &json!({ "target": "provide" }), 202);
    wait_until(&api, &id, "clean wait");
    api.ask("GET", &format!("/v1/lookup?node_uuid={id}"), &Value::Null, 404);
    let call = json!({ "callback_url": "http://127.0.0.1:1", "agent_token": "x", "agent_version": "13" });
    api.ask("POST", &format!("/v1/heartbeat/{id}"), &call, 400);
    let found = json!({ "inventory": { "interfaces": [{ "mac_address": MAC }] } });
    api.ask("POST", &format!("/v1/continue_inspection?node_uuid={id}"), &found, 404);
}

#[test]
fn strangers_may_only_ask_what_ramdisks_ask() {
    let (rack, api) = rack(Backend::Embedded);
    let id = node(&api, "a-1", MAC);
    let mut strict = sabakan_testkit::TestServer::start_with(Backend::Embedded, |config| {
        config.provisioning = sabakan_testkit::rack::provisioning("conductor-1", &rack.fleet);
    });
    strict.client().create_token("t", "admin").expect("a token");
    strict.restart_with(|config| config.require_token = true).expect("started");
    let api = Api::at(strict.ironic_url(), "latest");
    api.ask("GET", "/v1/nodes", &Value::Null, 401);
    api.ask("GET", "/v1/lookup?addresses=52:54:00:00:00:99", &Value::Null, 404);
    api.ask("GET", "/v1/lookup", &Value::Null, 400);
    api.ask("POST", "/v1/heartbeat/nobody", &json!({}), 400);
    api.ask("POST", "/v1/continue_inspection", &json!({}), 400);
    // A node nobody boots a ramdisk for is as unknown as no node at all.
    let of_rack = Api::of(&rack);
    let unknown = of_rack.ask("GET", "/v1/lookup?addresses=52:54:00:00:00:99", &Value::Null, 404);
    assert_eq!(of_rack.ask("GET", &format!("/v1/lookup?node_uuid={id}"), &Value::Null, 404).body, unknown.body);
    of_rack.ask("GET", "/v1/lookup?addresses=x", &Value::Null, 400);
    let old = Api::at(of_rack.url.clone(), "1.21");
    old.ask("GET", &format!("/v1/lookup?node_uuid={id}"), &Value::Null, 404);
    for (name, since, before) in [("lookup", "1.22", "1.21"), ("heartbeat", "1.22", "1.21")] {
        assert!(Api::at(of_rack.url.clone(), since).get("/v1").get(name).is_some());
        assert!(Api::at(of_rack.url.clone(), before).get("/v1").get(name).is_none());
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        ".{0,20}".prop_map(Value::from),
        Just(json!("http://127.0.0.1:1")),
        Just(json!(MAC)),
    ];
    let key = prop_oneof![
        Just("inventory".to_owned()),
        Just("interfaces".to_owned()),
        Just("mac_address".to_owned()),
        Just("disks".to_owned()),
        Just("callback_url".to_owned()),
        Just("agent_token".to_owned()),
        Just("agent_version".to_owned()),
        Just("agent_verify_ca".to_owned()),
        "[a-z]{0,6}",
    ];
    leaf.prop_recursive(4, 40, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map(key.clone(), inner, 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

#[test]
fn whatever_a_ramdisk_sends_is_no_defect_of_the_server() {
    let (_rack, api) = rack(Backend::Embedded);
    let agent = StandInAgent::start();
    let (id, _) = cleaning(&api, &agent, "a-1", MAC);
    let other = node(&api, "a-2", "52:54:00:a9:00:02");
    api.ask("PUT", &format!("/v1/nodes/{other}/states/provision"), &json!({ "target": "inspect" }), 202);
    wait_until(&api, &other, "inspect wait");
    let paths = [
        format!("/v1/heartbeat/{id}"),
        "/v1/continue_inspection".to_owned(),
        format!("/v1/continue_inspection?node_uuid={id}"),
    ];
    let mut runner =
        TestRunner::new(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() });
    let sent = runner.run(&any_json(), |body| {
        for path in &paths {
            let answer = api.send("POST", path, &body.to_string());
            prop_assert!((400..500).contains(&answer.status), "{path}: {} {}", answer.status, answer.body);
        }
        Ok(())
    });
    sent.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(api.get(&format!("/v1/nodes/{id}"))["provision_state"], "clean wait");
}
