//! Deploy templates and runbooks: who may be called how, and what their steps do to a node.

use std::sync::Barrier;

use sabakan_testkit::Backend;
use serde_json::{Value, json};

use super::{Api, fault, rack};

on_both_stores!(a_template_joins_the_deployment_that_asks_for_it, a_runbook_treats_nodes_with_its_traits);

fn made(api: &Api, name: &str) {
    api.ask("POST", "/v1/nodes", &json!({ "driver": "fake-hardware", "name": name }), 201);
    api.bring(name, &json!({ "target": "manage" }), "manageable");
}

/// Everything that was done to a node.
fn events(api: &Api, name: &str) -> String {
    let history = api.get(&format!("/v1/nodes/{name}/history"));
    let rows = history["history"].as_array().expect("rows").iter();
    rows.filter_map(|row| row["event"].as_str()).collect::<Vec<_>>().join("\n")
}

fn a_template_joins_the_deployment_that_asks_for_it(backend: Backend) {
    let (_rack, api) = rack(backend);
    let settings = json!({ "settings": [{ "name": "HyperThreading", "value": "Disabled" }] });
    let steps = json!([{ "interface": "bios", "step": "apply_configuration", "args": settings, "priority": 150 }]);
    api.ask("POST", "/v1/deploy_templates", &json!({ "name": "CUSTOM_TURBO", "steps": steps }), 201);
    for (name, traits) in [("n1", json!([])), ("n2", json!(["CUSTOM_TURBO"]))] {
        made(&api, name);
        api.bring(name, &json!({ "target": "provide" }), "available");
        let wanted = json!([{ "op": "add", "path": "/instance_info/traits", "value": traits }]);
        api.ask("PATCH", &format!("/v1/nodes/{name}"), &wanted, 200);
        api.bring(name, &json!({ "target": "active" }), "active");
        let applied = events(&api, name).contains("bios.apply_configuration");
        assert_eq!(applied, name == "n2", "{}", events(&api, name));
    }
}

fn a_runbook_treats_nodes_with_its_traits(backend: Backend) {
    let (_rack, api) = rack(backend);
    made(&api, "n1");
    let steps = json!([{ "interface": "bios", "step": "factory_reset", "args": {}, "order": 1 }]);
    let runbook = json!({ "name": "reset", "steps": steps });
    let uuid = api.ask("POST", "/v1/runbooks", &runbook, 201).json()["uuid"].as_str().expect("one").to_owned();
    let clean = |id: &str| json!({ "target": "clean", "runbook": id });
    let provision = "/v1/nodes/n1/states/provision";
    let refused = api.ask("PUT", provision, &clean("reset"), 400);
    assert!(fault(&refused).contains("has no traits configured"), "{}", fault(&refused));
    api.ask("PUT", "/v1/runbooks/reset/traits/CUSTOM_A", &Value::Null, 204);
    let refused = api.ask("PUT", provision, &clean("reset"), 400);
    assert!(fault(&refused).contains("none of its traits (CUSTOM_A)"), "{}", fault(&refused));
    api.ask("PUT", "/v1/nodes/n1/traits/CUSTOM_A", &Value::Null, 204);
    api.bring("n1", &clean(&uuid), "manageable");
    assert!(events(&api, "n1").contains("bios.factory_reset"), "{}", events(&api, "n1"));
    let both = json!({ "target": "clean", "runbook": "reset", "clean_steps": steps });
    api.ask("PUT", provision, &both, 400);
    api.ask("PUT", provision, &json!({ "target": "provide", "runbook": "reset" }), 400);
    let missing = api.ask("PUT", provision, &clean("nope"), 404);
    assert_eq!(fault(&missing), "Runbook nope could not be found.");
    Api::at(api.url, "1.91").ask("PUT", provision, &clean("reset"), 406);
}

#[test]
fn a_name_belongs_to_one_runbook() {
    let (_rack, api) = rack(Backend::Embedded);
    let steps = json!([{ "interface": "bios", "step": "factory_reset", "args": {}, "order": 1 }]);
    let start = Barrier::new(4);
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let create = || {
            start.wait();
            api.send("POST", "/v1/runbooks", &json!({ "name": "one", "steps": steps }).to_string()).status
        };
        let all: Vec<_> = (0..4).map(|_| scope.spawn(create)).collect();
        all.into_iter().map(|one| one.join().expect("an answer")).collect()
    });
    assert_eq!(statuses.iter().filter(|status| **status == 201).count(), 1, "{statuses:?}");
    api.ask("POST", "/v1/runbooks", &json!({ "name": "two", "steps": steps }), 201);
    let rename = |name: &str| json!([{ "op": "replace", "path": "/name", "value": name }]);
    api.ask("PATCH", "/v1/runbooks/two", &rename("one"), 409);
    api.ask("PATCH", "/v1/runbooks/two", &rename("three"), 200);
    api.ask("PATCH", "/v1/runbooks/one", &rename("two"), 200);
    let names: Vec<Value> = api.get("/v1/runbooks?sort_key=name&fields=name")["runbooks"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|runbook| runbook["name"].clone())
        .collect();
    assert_eq!(names, ["three", "two"]);
}
