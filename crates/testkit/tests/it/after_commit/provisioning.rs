//! Every change of the provisioning API, each at least once.

use sabakan_testkit::agent::StandInAgent;
use serde_json::{Value, json};

use super::Site;

pub(super) fn change_everything(site: &Site) {
    nodes(site);
    ports(site);
    chassis(site);
    recipes(site);
    allocations(site);
    ramdisks(site);
    let made = site.prepare("GET", "/v1/nodes/n1", &Value::Null);
    assert_eq!(made["extra"]["a"], "b", "what was answered was made");
    site.change("DELETE /v1/nodes/{id}", "/v1/nodes/n1", &Value::Null);
}

fn nodes(site: &Site) {
    let fields = json!({ "name": "n1", "driver": "fake-hardware" });
    let made = site.change("POST /v1/nodes", "/v1/nodes", &fields).json();
    assert_eq!((&made["name"], &made["provision_state"]), (&json!("n1"), &json!("enroll")));
    let patch = json!([{ "op": "add", "path": "/extra/a", "value": "b" }]);
    let patched = site.change("PATCH /v1/nodes/{id}", "/v1/nodes/n1", &patch);
    assert_eq!(patched.json()["extra"], json!({ "a": "b" }));
    let tag = patched.header("etag").map(str::to_owned);
    let read = site.send("GET", "/v1/nodes/n1", &Value::Null, "");
    assert_eq!(read.header("etag").map(str::to_owned), tag, "the version that was answered is the one that is stored");
    let change = |route: &str, body: Value| {
        let (method, rest) = route.split_once(' ').expect("a method");
        let path = format!("/v1/nodes/n1/{}", rest.replace("{name}", "CUSTOM_B"));
        site.change(&format!("{method} /v1/nodes/{{id}}/{rest}"), &path, &body);
    };
    change("PUT maintenance", json!({ "reason": "a test" }));
    change("DELETE maintenance", Value::Null);
    change("PUT traits", json!({ "traits": ["CUSTOM_A"] }));
    change("PUT traits/{name}", Value::Null);
    change("DELETE traits/{name}", Value::Null);
    change("DELETE traits", Value::Null);
    change("PUT states/raid", json!({ "logical_disks": [{ "size_gb": 100, "raid_level": "1" }] }));
    change("PUT states/console", json!({ "enabled": true }));
    change("PUT states/boot_mode", json!({ "target": "uefi" }));
    change("PUT states/secure_boot", json!({ "target": true }));
    change("PUT states/power", json!({ "target": "power on" }));
    site.wait_for("n1", "enroll");
    change("PUT states/provision", json!({ "target": "manage" }));
    site.wait_for("n1", "manageable");
}

fn ports(site: &Site) {
    let node = site.prepare("GET", "/v1/nodes/n1", &Value::Null)["uuid"].clone();
    let fields = json!({ "node_uuid": node, "address": "02:00:00:00:00:01" });
    let made = site.change("POST /v1/ports", "/v1/ports", &fields).json();
    let port = format!("/v1/ports/{}", made["uuid"].as_str().expect("a UUID"));
    let patch = json!([{ "op": "add", "path": "/extra/a", "value": "b" }]);
    site.change("PATCH /v1/ports/{id}", &port, &patch);
    site.change("POST /v1/nodes/{id}/vifs", "/v1/nodes/n1/vifs", &json!({ "id": "net1" }));
    site.change("DELETE /v1/nodes/{id}/vifs/{vif}", "/v1/nodes/n1/vifs/net1", &Value::Null);
    site.change("DELETE /v1/ports/{id}", &port, &Value::Null);
    site.change("POST /v1/portgroups", "/v1/portgroups", &json!({ "node_uuid": node, "name": "bond0" }));
    site.change("PATCH /v1/portgroups/{id}", "/v1/portgroups/bond0", &patch);
    site.change("DELETE /v1/portgroups/{id}", "/v1/portgroups/bond0", &Value::Null);
}

fn chassis(site: &Site) {
    let made = site.change("POST /v1/chassis", "/v1/chassis", &json!({})).json();
    let path = format!("/v1/chassis/{}", made["uuid"].as_str().expect("a UUID"));
    let patch = json!([{ "op": "add", "path": "/description", "value": "row 4" }]);
    site.change("PATCH /v1/chassis/{id}", &path, &patch);
    site.change("DELETE /v1/chassis/{id}", &path, &Value::Null);
}

fn recipes(site: &Site) {
    let steps = |order: &str| json!([{ "interface": "bios", "step": "factory_reset", "args": {}, order: 1 }]);
    for (kind, order, name, renamed) in
        [("deploy_templates", "priority", "CUSTOM_A", "CUSTOM_B"), ("runbooks", "order", "reset", "again")]
    {
        let all = format!("/v1/{kind}");
        site.change(&format!("POST {all}"), &all, &json!({ "name": name, "steps": steps(order) }));
        let patch = json!([{ "op": "replace", "path": "/name", "value": renamed }]);
        site.change(&format!("PATCH {all}/{{id}}"), &format!("{all}/{name}"), &patch);
    }
    let traits = "/v1/runbooks/again/traits";
    site.change("PUT /v1/runbooks/{id}/traits", traits, &json!({ "traits": ["CUSTOM_A"] }));
    site.change("PUT /v1/runbooks/{id}/traits/{name}", &format!("{traits}/CUSTOM_B"), &Value::Null);
    site.change("DELETE /v1/runbooks/{id}/traits/{name}", &format!("{traits}/CUSTOM_B"), &Value::Null);
    site.change("DELETE /v1/runbooks/{id}/traits", traits, &Value::Null);
    site.change("DELETE /v1/runbooks/{id}", "/v1/runbooks/again", &Value::Null);
    site.change("DELETE /v1/deploy_templates/{id}", "/v1/deploy_templates/CUSTOM_B", &Value::Null);
}

fn allocations(site: &Site) {
    let fields = json!({ "name": "n2", "driver": "fake-hardware", "resource_class": "gold" });
    site.prepare("POST", "/v1/nodes", &fields);
    for (target, state) in [("manage", "manageable"), ("provide", "available")] {
        site.prepare("PUT", "/v1/nodes/n2/states/provision", &json!({ "target": target }));
        site.wait_for("n2", state);
    }
    let wish = |name: &str, class: &str| json!({ "name": name, "resource_class": class });
    site.change("POST /v1/allocations", "/v1/allocations", &wish("a1", "gold"));
    sabakan_testkit::wait_for("the allocation", sabakan_testkit::rack::WORK_MAX, || {
        (site.prepare("GET", "/v1/allocations/a1", &Value::Null)["state"] == "active").then_some(())
    });
    let patch = json!([{ "op": "add", "path": "/extra/a", "value": "b" }]);
    site.change("PATCH /v1/allocations/{id}", "/v1/allocations/a1", &patch);
    site.change("DELETE /v1/nodes/{id}/allocation", "/v1/nodes/n2/allocation", &Value::Null);
    site.prepare("POST", "/v1/allocations", &wish("a2", "silver"));
    site.change("DELETE /v1/allocations/{id}", "/v1/allocations/a2", &Value::Null);
}

/// A ramdisk looks up its node, tells what it found and calls. It gives no name: the changes are known by the node.
fn ramdisks(site: &Site) {
    let (agent, mac) = (StandInAgent::start(), "52:54:00:a9:00:01");
    let fields = json!({
        "name": "n3", "driver": "fake-hardware", "deploy_interface": "direct", "inspect_interface": "agent",
    });
    let id = site.prepare("POST", "/v1/nodes", &fields)["uuid"].as_str().expect("a UUID").to_owned();
    site.prepare("POST", "/v1/ports", &json!({ "node_uuid": id, "address": mac }));
    let ask = |target: &str| site.prepare("PUT", "/v1/nodes/n3/states/provision", &json!({ "target": target }));
    ask("manage");
    site.wait_for("n3", "manageable");
    ask("inspect");
    site.wait_for("n3", "inspect wait");
    let found = json!({ "inventory": {
        "interfaces": [{ "name": "eth0", "mac_address": mac }], "disks": [], "cpu": { "count": 1, "architecture": "x86_64" },
        "memory": { "physical_mb": 1024 }, "system_vendor": {}, "boot": { "current_boot_mode": "uefi" },
    }});
    site.change_marked("POST /v1/continue_inspection", "/v1/continue_inspection", &found, "nodes/n3");
    site.wait_for("n3", "manageable");
    ask("provide");
    site.wait_for("n3", "clean wait");
    let looked = site.change_marked("GET /v1/lookup", &format!("/v1/lookup?addresses={mac}"), &Value::Null, "nodes/n3");
    let token = looked.json()["config"]["agent_token"].as_str().expect("a token").to_owned();
    agent.learn(&token);
    let call = json!({ "callback_url": agent.url, "agent_token": token, "agent_version": "13.0.0" });
    site.change_marked("POST /v1/heartbeat/{id}", &format!("/v1/heartbeat/{id}"), &call, "nodes/n3");
}
