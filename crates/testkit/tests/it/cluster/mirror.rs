//! Copies for a CKE that carries the configuration out.

use std::time::Duration;

use sabakan_testkit::{Backend, TestServer, fixtures, raw, wait_for};
use serde_json::Value;

fn put(server: &TestServer, path: &str, body: &str) {
    let answer = raw::request(&server.url(), "PUT", path, &[], body.as_bytes());
    assert_eq!(answer.status, 200, "{path}: {}", answer.body);
}

fn copy(server: &TestServer, name: &str) -> Option<String> {
    let value = server.dump().remove(&format!("/cke/{name}"))?;
    Some(String::from_utf8(value).expect("UTF-8"))
}

#[test]
fn a_cke_finds_what_was_planned_where_it_looks() {
    let server = TestServer::start_with(Backend::Etcd, |config| {
        config.cluster.planner = true;
        config.cluster.settle = Duration::ZERO;
        config.cluster.mirror_prefix = Some("/cke/".to_owned());
    });
    let client = server.client();
    client.put_ipam(&fixtures::ipam()).expect("an IPAM configuration");
    let machines: Vec<_> = (0..3).map(|n| fixtures::machine(format!("m{n}"), n, "worker")).collect();
    client.create_machines(&machines).expect("registered");
    (0..3).for_each(|n| client.put_state(&format!("m{n}"), "healthy", false).expect("a state"));
    put(&server, "/api/v1/constraints", r#"{"minimum-workers": 2}"#);
    let constraints: Value = serde_json::from_str(&copy(&server, "constraints").expect("a copy")).expect("JSON");
    assert_eq!((&constraints["minimum-workers"], &constraints["control-plane-count"]), (&2.into(), &1.into()));
    let template = "name: x\nservice_subnet: 10.68.0.0/16\nnodes: [{user: u, control_plane: true}, {user: u}]\n";
    put(&server, "/api/v1/cluster/template", template);
    let cluster = wait_for("the cluster", Duration::from_secs(60), || copy(&server, "cluster"));
    let shown = raw::request(&server.url(), "GET", "/api/v1/cluster/configuration", &[], b"");
    let copied: Value = serde_json::from_str(&cluster).expect("JSON");
    assert_eq!(copied, shown.json());
    let node = copied["nodes"][0].as_object().expect("a node");
    let keys: Vec<&str> = node.keys().map(String::as_str).collect();
    assert_eq!(keys, ["address", "annotations", "control_plane", "hostname", "labels", "taints", "user"]);
    assert!(copy(&server, "cluster-revision").is_some_and(|revision| revision.parse::<u64>().is_ok_and(|r| r > 0)));
    assert_eq!(copy(&server, "sabakan/disabled").as_deref(), Some("true"), "two planners would undo each other's work");
    // A configuration that somebody writes is copied too.
    put(&server, "/api/v1/cluster/enabled", r#"{"enabled": false}"#);
    let mut by_hand = copied.clone();
    by_hand["nodes"][1]["labels"]["by"] = "hand".into();
    put(&server, "/api/v1/cluster/configuration", &by_hand.to_string());
    let copied: Value = serde_json::from_str(&copy(&server, "cluster").expect("a copy")).expect("JSON");
    assert_eq!(copied["nodes"][1]["labels"]["by"], "hand");
}
