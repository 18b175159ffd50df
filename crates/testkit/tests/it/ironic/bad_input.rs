//! Requests nobody should send: the documented status and text, and nothing changed.

use sabakan_testkit::Backend;
use serde_json::{Value, json};

use super::{Api, fault, rack};

#[test]
fn bad_requests_change_nothing() {
    let (rack, api) = rack(Backend::Embedded);
    let body = json!({ "driver": "fake-hardware", "name": "n1", "extra": { "a": 1 } });
    api.ask("POST", "/v1/nodes", &body, 201);
    let before = rack.server.dump();
    let deep = (0..30).fold(json!(1), |inner, _| json!([inner]));
    let check = |method: &str, path: &str, body: &str, status: u16, text: &str| {
        let answer = api.send(method, path, body);
        assert_eq!(answer.status, status, "{method} {path} {body}: {}", answer.body);
        assert!(fault(&answer).contains(text), "{method} {path}: {}", fault(&answer));
        assert!(answer.header("openstack-request-id").is_some_and(|id| id.starts_with("req-")));
        assert_eq!(answer.header("x-openstack-ironic-api-maximum-version"), Some("1.115"));
    };
    check("GET", "/v1/nodes/nope", "", 404, "Node nope could not be found.");
    check("GET", "/v1/nosuch", "", 404, "");
    check("PUT", "/v1/nodes/n1", "{}", 405, "");
    check("POST", "/v1/nodes", &body.to_string(), 409, "a node with name n1 already exists");
    check("POST", "/v1/nodes", "{not json", 400, "not JSON");
    check("POST", "/v1/nodes", &json!({ "driver": "nobody" }).to_string(), 400, "there is no driver");
    check(
        "POST",
        "/v1/nodes",
        &json!({ "driver": "fake-hardware", "extra": { "d": deep } }).to_string(),
        400,
        "nested",
    );
    check("POST", "/v1/nodes", &json!({ "driver": "fake-hardware", "name": "a b" }).to_string(), 400, "cannot name");
    let large = json!({ "driver": "fake-hardware", "extra": { "x": "x".repeat(10 << 20) } }).to_string();
    check("POST", "/v1/nodes", &large, 413, "larger than");
    let provision = "/v1/nodes/n1/states/provision";
    check("PUT", provision, &json!({ "target": "provide" }).to_string(), 400, "Accepted: manage");
    check("PUT", provision, &json!({ "target": "fly" }).to_string(), 400, "can not be performed");
    check("PUT", provision, "{}", 400, "Missing mandatory parameter: target");
    check("PUT", "/v1/nodes/n1/states/power", &json!({ "target": "up" }).to_string(), 400, "power target");
    let patch = |operation: Value| json!([{ "op": "add", "path": "/extra/b", "value": 2 }, operation]).to_string();
    let missing = patch(json!({ "op": "replace", "path": "/extra/zz", "value": 2 }));
    check("PATCH", "/v1/nodes/n1", &missing, 400, "non-existent");
    check("PATCH", "/v1/nodes/n1", &patch(json!({ "op": "remove", "path": "/driver" })), 400, "driver");
    check("PATCH", "/v1/nodes/n1", &patch(json!({ "op": "add", "path": "/uuid", "value": "x" })), 400, "Cannot patch");
    let other = patch(json!({ "op": "add", "path": "/power_interface", "value": "ipmitool" }));
    check("PATCH", "/v1/nodes/n1", &other, 400, "not known to driver");
    // Each operation is harmless alone. Together they would make a record that nobody can read any more.
    let nested = (0..20).fold(json!({}), |inner, _| json!({ "a": inner }));
    let deeper = json!([
        { "op": "add", "path": "/extra/a", "value": nested },
        { "op": "add", "path": format!("/extra{}", "/a".repeat(21)), "value": nested },
    ]);
    check("PATCH", "/v1/nodes/n1", &deeper.to_string(), 400, "levels deep");
    check("POST", "/v1/continue_inspection", &format!("[{}0]", "[],".repeat(200_000)), 400, "values");
    check("GET", "/v1/nodes/%ff", "", 400, "");
    check("GET", "/v1/nodes?limit=0", "", 400, "Limit must be positive");
    check("GET", "/v1/nodes?nosuch=1", "", 400, "Unexpected arguments: nosuch");
    check("PUT", "/v1/nodes/n1/traits/lower", "", 400, "no trait");
    check("DELETE", "/v1/nodes/n1/traits/CUSTOM_X", "", 404, "doesn't have a trait");
    assert_eq!(rack.server.dump(), before, "nothing was changed");
}

#[test]
fn versions_are_agreed_on() {
    let (_rack, api) = rack(Backend::Embedded);
    for bad in ["1.116", "2.0", "abc"] {
        let answer = Api::at(api.url.clone(), bad).send("GET", "/v1/nodes", "");
        assert_eq!(answer.status, 406, "{bad}");
        assert_eq!(answer.header("x-openstack-ironic-api-minimum-version"), Some("1.1"));
        assert_eq!(answer.header("x-openstack-ironic-api-version"), None);
    }
    let body = json!({ "driver": "fake-hardware", "owner": "me" });
    Api::at(api.url.clone(), "1.49").ask("POST", "/v1/nodes", &body, 406);
    let old = Api::at(api.url.clone(), "1.10");
    let made = old.ask("POST", "/v1/nodes", &json!({ "driver": "fake-hardware", "name": "o" }), 201);
    assert_eq!(made.json()["provision_state"], json!("available"), "older clients know no enroll");
    assert_eq!(made.header("x-openstack-ironic-api-version"), Some("1.10"));
    assert!(made.json().get("traits").is_none());
    Api::at(api.url.clone(), "1.4").ask("GET", "/v1/nodes/o", &Value::Null, 404);
    Api::at(api.url, "1.36").ask("GET", "/v1/nodes/o/traits", &Value::Null, 404);
}
