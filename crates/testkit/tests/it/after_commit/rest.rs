//! Every change of the REST API and of GraphQL, each at least once.

use sabakan_domain::{
    audit::Actor,
    repair::{
        entry::{Backoff, Entry, Status},
        reboot::RebootEntry,
    },
};
use sabakan_store::{
    Op, Txn,
    keys::Keys,
    repo::{
        audit::By,
        repairs::{self, Under},
    },
};
use sabakan_testkit::fixtures;
use sabakan_wire::rest::QueryParams;
use serde_json::{Value, json};

use super::Site;

pub(super) fn change_everything(site: &Site) {
    registry(site);
    tokens(site);
    cluster(site);
    repair(site);
    incidents(site);
}

fn registry(site: &Site) {
    let change = |route: &str, path: &str, body: Value| site.change(route, &format!("/api/v1/{path}"), &body);
    let ipam = serde_json::to_value(fixtures::ipam()).expect("JSON");
    change("PUT /api/v1/config/ipam", "config/ipam", ipam);
    change("PUT /api/v1/config/dhcp", "config/dhcp", json!({ "gateway-offset": 1, "lease-minutes": 60 }));
    let machines = ["m0", "m1", "m2", "m3"].map(|serial| fixtures::machine(serial, 0, "worker"));
    change("POST /api/v1/machines", "machines", serde_json::to_value(machines).expect("JSON"));
    for serial in ["m0", "m1", "m2"] {
        change("PUT /api/v1/state/{serial}", &format!("state/{serial}"), json!("healthy"));
    }
    change("PUT /api/v1/labels/{serial}/{name}", "labels/m0/a", json!("b"));
    change("DELETE /api/v1/labels/{serial}/{name}", "labels/m0/a", Value::Null);
    change("PUT /api/v1/retire-date/{serial}", "retire-date/m0", json!("2031-01-01T00:00:00Z"));
    let query = "mutation { setMachineState(serial: \"m3\", state: HEALTHY) { state } }";
    let answer = site.change("POST /graphql", "/graphql", &json!({ "query": query }));
    assert_eq!(answer.json(), json!({ "data": { "setMachineState": { "state": "HEALTHY" } } }));
    change("PUT /api/v1/crypts/{serial}/{disk}", "crypts/m3/sda", json!("a disk key"));
    site.prepare("PUT", "/api/v1/state/m3", &json!("retiring"));
    change("DELETE /api/v1/crypts/{serial}", "crypts/m3", Value::Null);
    change("DELETE /api/v1/machines/{serial}", "machines/m3", Value::Null);
}

fn tokens(site: &Site) {
    let made = site.change("POST /api/v1/tokens", "/api/v1/tokens", &json!({ "name": "a", "role": "read" })).json();
    let id = made["id"].as_str().expect("an id");
    site.change("DELETE /api/v1/tokens/{id}", &format!("/api/v1/tokens/{id}"), &Value::Null);
}

fn cluster(site: &Site) {
    let change = |route: &str, path: &str, body: Value| site.change(route, &format!("/api/v1/{path}"), &body);
    change("PUT /api/v1/cluster/enabled", "cluster/enabled", json!({ "enabled": false }));
    let node = |role: &str| json!({ "user": "u", "labels": { "cke.cybozu.com/role": role } });
    let mut plane = node("cs");
    plane["control_plane"] = json!(true);
    let template = json!({ "name": "test", "service_subnet": "10.68.0.0/16", "nodes": [plane, node("cs")] });
    change("PUT /api/v1/cluster/template", "cluster/template", template);
    change("PUT /api/v1/cluster/variables", "cluster/variables", json!({ "having": { "racks": [0] } }));
    change("DELETE /api/v1/cluster/variables", "cluster/variables", Value::Null);
    change("PUT /api/v1/constraints", "constraints", json!({ "minimum-workers": 1 }));
    change("PUT /api/v1/constraints/{name}", "constraints/maximum-repair-queue-entries", json!(3));
    let (nodes, kind) = nodes(site);
    let step = json!({ "repair_command": ["/bin/true"] });
    let operation = json!({ "operation": "broken", "health_check_command": ["/bin/false"], "repair_steps": [step] });
    let configuration = json!({
        "name": "test", "service_subnet": "10.68.0.0/16", "nodes": nodes,
        "repair": { "repair_procedures": [{ "machine_types": [kind], "repair_operations": [operation] }] },
    });
    change("PUT /api/v1/cluster/configuration", "cluster/configuration", configuration);
}

/// The machines as nodes of a cluster, and their BMC type.
fn nodes(site: &Site) -> (Vec<Value>, String) {
    let machines = site.server.client().list_machines(&QueryParams::default()).expect("machines");
    let kind = machines[0].spec.bmc.kind.clone();
    let node = |(n, address): (usize, &String)| json!({ "address": address, "user": "u", "control_plane": n == 0 });
    (machines.iter().map(|machine| &machine.spec.ipv4[0]).enumerate().map(node).collect(), kind)
}

fn repair(site: &Site) {
    let change = |route: &str, path: &str, body: Value| site.change(route, &format!("/api/v1/{path}"), &body);
    let off = json!({ "enabled": false });
    for part in ["auto-repair", "repair-queue", "reboot-queue"] {
        change(&format!("PUT /api/v1/{part}/enabled"), &format!("{part}/enabled"), off.clone());
    }
    change("PUT /api/v1/auto-repair/settings", "auto-repair/settings", json!({ "observe-seconds": 60 }));
    // What is warned of is counted before it is set.
    change("PUT /api/v1/auto-repair/settings/{name}", "auto-repair/settings/guard", json!(false));
    change("PUT /api/v1/auto-repair/variables", "auto-repair/variables", json!({ "having": { "racks": [0] } }));
    change("DELETE /api/v1/auto-repair/variables", "auto-repair/variables", Value::Null);
    let (nodes, kind) = nodes(site);
    let wish = |n: usize| json!({ "operation": "broken", "machine_type": kind, "address": nodes[n]["address"] });
    let added = change("POST /api/v1/repair-queue", "repair-queue", wish(0)).json();
    let index = added["index"].as_str().expect("an index").to_owned();
    for n in [1, 2] {
        site.prepare("POST", "/api/v1/repair-queue", &wish(n));
    }
    set_entry(site, 1, |entry| Entry { status: Status::Succeeded, ..entry });
    set_entry(site, 2, |entry| Entry { backoff: Backoff { count: 1, until: None }, ..entry });
    change("POST /api/v1/repair-queue/reset-backoff", "repair-queue/reset-backoff", Value::Null);
    change("DELETE /api/v1/repair-queue/{index}", &format!("repair-queue/{index}"), Value::Null);
    change("POST /api/v1/repair-queue/delete-finished", "repair-queue/delete-finished", Value::Null);
    change("POST /api/v1/repair-queue/delete-unfinished", "repair-queue/delete-unfinished", Value::Null);
    let all: Vec<&Value> = nodes.iter().map(|node| &node["address"]).collect();
    let added = change("POST /api/v1/reboot-queue", "reboot-queue", json!({ "nodes": all })).json();
    let first = added["indexes"][0].as_str().expect("an index");
    set_reboot(site, 1, |entry| RebootEntry { backoff: Backoff { count: 1, until: None }, ..entry });
    change("POST /api/v1/reboot-queue/reset-backoff", "reboot-queue/reset-backoff", Value::Null);
    change("DELETE /api/v1/reboot-queue/{index}", &format!("reboot-queue/{first}"), Value::Null);
    change("POST /api/v1/reboot-queue/cancel-all", "reboot-queue/cancel-all", Value::Null);
}

/// An incident is opened by a rule that watches a whole rack fail; here its record is enough.
fn incidents(site: &Site) {
    let record = json!({
        "number": 1, "kind": "rack", "value": "0", "opened": "2026-11-15T00:00:00Z", "because": "a test", "members": ["m0"],
        "member-count": 1, "phase": "open",
    });
    let key = "/sabakan/incidents/data/0000000000000001";
    let txn = Txn { when: vec![], then: vec![Op::put(key, record.to_string())] };
    let _written = site.server.block_on(site.server.store().commit(txn)).expect("written");
    let route = "POST /api/v1/incidents/{number}/acknowledge";
    site.change(route, "/api/v1/incidents/1/acknowledge", &json!({ "reason": "seen" }));
}

fn by(site: &Site) -> (Keys, By) {
    let config = site.server.config();
    let now = sabakan_service::Clock::now(&*site.server.clock);
    let by = By { actor: Actor::internal("test"), host: "test".to_owned(), now };
    (Keys::new(&config.etcd_prefix, &config.states_prefix), by)
}

fn set_entry(site: &Site, index: u64, write: impl Fn(Entry) -> Entry) {
    let ((keys, by), store) = (by(site), site.server.store());
    let edit = |entry: &Entry| Some(write(entry.clone()));
    let edited = repairs::update(&*store, &keys, &by, Under::default(), index, "test", edit);
    site.server.block_on(edited).expect("an entry");
}

fn set_reboot(site: &Site, index: u64, write: impl Fn(RebootEntry) -> RebootEntry) {
    let ((keys, by), store) = (by(site), site.server.store());
    let edit = |entry: &RebootEntry| Some(write(entry.clone()));
    let edited = repairs::edit_reboot(&*store, &keys, &by, Under::default(), index, edit);
    site.server.block_on(edited).expect("an entry");
}
