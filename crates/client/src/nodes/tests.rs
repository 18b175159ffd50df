//! Requests as they go out, answers as they come in, and that every page is read.

use serde_json::json;

use super::*;
use crate::fake;

fn nodes(url: &str) -> NodesClient {
    NodesClient::over(Client::new(url).unwrap())
}

fn check(status: u16, body: &str, act: impl FnOnce(&NodesClient), line: &str, sent: &str) {
    let (url, request) = fake::answer(status, body);
    act(&nodes(&url));
    let request = request.join().unwrap();
    assert!(request.starts_with(&format!("{line} HTTP/1.1\r\n")), "{request}");
    assert!(request.contains("x-openstack-ironic-api-version: latest\r\n"), "{request}");
    assert!(request.ends_with(&format!("\r\n\r\n{sent}")), "{request}");
}

#[test]
fn requests_go_where_the_api_has_them() {
    let order = Order { target: "manage".into(), ..Order::default() };
    let manage = |nodes: &NodesClient| nodes.order("a b", &order).unwrap();
    check(202, "", manage, "PUT /v1/nodes/a%20b/states/provision", r#"{"target":"manage"}"#);
    let step = StepJson { interface: "deploy".into(), step: "erase_devices".into(), ..StepJson::default() };
    let order = Order { target: "clean".into(), clean_steps: Some(vec![step]), ..Order::default() };
    let sent = r#"{"target":"clean","clean_steps":[{"interface":"deploy","step":"erase_devices","args":{}}]}"#;
    check(202, "", |nodes| nodes.order("a", &order).unwrap(), "PUT /v1/nodes/a/states/provision", sent);
    let off = |nodes: &NodesClient| nodes.set_power("a", "power off").unwrap();
    check(202, "", off, "PUT /v1/nodes/a/states/power", r#"{"target":"power off"}"#);
    let set = |nodes: &NodesClient| nodes.set_maintenance("a", Some("fan")).unwrap();
    check(202, "", set, "PUT /v1/nodes/a/maintenance", r#"{"reason":"fan"}"#);
    check(202, "", |nodes| nodes.set_maintenance("a", None).unwrap(), "PUT /v1/nodes/a/maintenance", "{}");
    check(202, "", |nodes| nodes.clear_maintenance("a").unwrap(), "DELETE /v1/nodes/a/maintenance", "");
    let changes = [Change::add("/driver", "ipmi"), Change::remove("/extra/x")];
    let sent = r#"[{"op":"add","path":"/driver","value":"ipmi"},{"op":"remove","path":"/extra/x"}]"#;
    check(200, "{}", |nodes| drop(nodes.change("a", &changes).unwrap()), "PATCH /v1/nodes/a", sent);
    let found = |nodes: &NodesClient| assert_eq!(nodes.inventory("a").unwrap(), json!({ "inventory": 1 }));
    check(200, r#"{"inventory":1}"#, found, "GET /v1/nodes/a/inventory", "");
}

#[test]
fn fields_of_newer_servers_are_kept() {
    let (url, _request) = fake::answer(200, r#"{"uuid":"u","name":"a","maintenance":true,"new":[1],"health":null}"#);
    let node = nodes(&url).get("a").unwrap();
    assert_eq!((node.name.as_deref(), node.maintenance, node.power_state.as_deref()), (Some("a"), true, None));
    assert_eq!(serde_json::to_value(&node).unwrap()["new"], json!([1]));
}

#[test]
fn every_page_is_read() {
    let pages = [
        r#"{"nodes":[{"uuid":"1"},{"uuid":"2"}],"next":"http://elsewhere/v1/nodes?marker=2"}"#,
        r#"{"nodes":[{"uuid":"3"}],"next":null}"#,
    ];
    let (url, requests) = fake::answers(&pages);
    let filter = NodeFilter { state: Some("clean wait".into()), driver: None, maintenance: Some(true) };
    let uuids: Vec<String> = nodes(&url).list(&filter).unwrap().into_iter().map(|node| node.uuid).collect();
    assert_eq!(uuids, ["1", "2", "3"]);
    let query = "detail=true&provision_state=clean%20wait&maintenance=true";
    let lines: Vec<String> = requests.join().unwrap();
    assert!(lines[0].starts_with(&format!("GET /v1/nodes?{query} HTTP/1.1\r\n")), "{lines:?}");
    assert!(lines[1].starts_with(&format!("GET /v1/nodes?{query}&marker=2 HTTP/1.1\r\n")), "{lines:?}");
}

#[test]
fn refusals_are_texts() {
    let check = |body: &str, expected: Option<&str>| assert_eq!(fault_text(body.as_bytes()).as_deref(), expected);
    check(r#"{"error_message":"{\"faultcode\":\"Client\",\"faultstring\":\"no\",\"debuginfo\":null}"}"#, Some("no"));
    check(r#"{"error_message":{"faultstring":"no"}}"#, Some("no"));
    check(r#"{"error_message":"plain"}"#, Some("plain"));
    check(r#"{"error":{"message":"who are you","code":401}}"#, Some("who are you"));
    check(r#"{"error":"text"}"#, None);
    check("<html>", None);
    let (url, _request) = fake::answer(409, r#"{"error_message":"{\"faultstring\":\"node a is locked\"}"}"#);
    let error = nodes(&url).get("a").unwrap_err();
    assert_eq!((error.status(), error.to_string().as_str()), (Some(409), "Conflict: node a is locked"));
}

#[test]
fn secrets_do_not_leave_the_host_in_the_clear() {
    // An address for documentation: nobody is there, and nobody is asked.
    let nodes = nodes("http://192.0.2.1:1");
    let error = nodes.change("a", &[Change::secret("/driver_info/redfish_password", "x".into())]).unwrap_err();
    assert!(matches!(error, Error::Exposed { what: "a secret of a BMC", .. }), "{error:?}");
    let order = Order { target: "rescue".into(), rescue_password: Some("x".into()), ..Order::default() };
    let error = nodes.order("a", &order).unwrap_err();
    assert!(matches!(error, Error::Exposed { what: "a password", .. }), "{error:?}");
}
