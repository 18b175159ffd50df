//! What clients of the original API do not ask for: what goes on with a node, and with all that are not at rest in one answer.

use sabakan_testkit::{Backend, client::NodesClient, rack::WORK_MAX, simulated::Fault, wait_for};
use serde_json::json;

use super::rack;

#[test]
fn what_goes_on_with_many_nodes_is_one_answer() {
    let (rack, api) = rack(Backend::Embedded);
    for name in ["a-waits", "b-rests", "c-waits"] {
        api.ask("POST", "/v1/nodes", &json!({ "driver": "fake-hardware", "name": name }), 201);
        api.bring(name, &json!({ "target": "manage" }), "manageable");
    }
    assert_eq!(api.get("/v1/sabakan"), json!({ "nodes": [] }), "all are at rest");
    for name in ["a-waits", "c-waits"] {
        rack.fleet.set_fault(name, Fault::RamdiskSilent);
        api.ask("PUT", &format!("/v1/nodes/{name}/states/provision"), &json!({ "target": "provide" }), 202);
        wait_for("it to wait for its ramdisk", WORK_MAX, || {
            let status = api.get(&format!("/v1/nodes/{name}/sabakan"));
            (status["state"] == "clean wait" && status["worker"].is_null()).then_some(())
        });
    }
    let all = api.get("/v1/sabakan");
    let names: Vec<_> = all["nodes"].as_array().expect("a list").iter().map(|status| status["name"].clone()).collect();
    assert_eq!(names, ["a-waits", "c-waits"]);
    assert_eq!(all["nodes"][0], api.get("/v1/nodes/a-waits/sabakan"), "as if each was asked for");
    assert!(all["nodes"][1]["waiting"]["reason"].is_string(), "{all}");

    // Page by page, as every list.
    let first = api.get("/v1/sabakan?limit=1");
    assert_eq!(first["nodes"][0]["name"], "a-waits");
    assert!(first["next"].as_str().is_some_and(|next| next.ends_with("/v1/sabakan?limit=1&marker=a-waits")), "{first}");
    let second = api.get("/v1/sabakan?limit=1&marker=a-waits");
    assert_eq!((&second["nodes"][0]["name"], second.get("next")), (&json!("c-waits"), None));
    api.ask("GET", "/v1/sabakan?fields=name", &json!(null), 400);

    let client = NodesClient::over(sabakan_testkit::client::Client::new(&rack.server.ironic_url()).expect("a URL"));
    let statuses = client.statuses().expect("an answer");
    assert_eq!(statuses.iter().map(|status| status.name.as_str()).collect::<Vec<_>>(), ["a-waits", "c-waits"]);
}
