//! What `/metrics` tells about the planner, and when it says nothing.

use std::time::Duration;

use sabakan_testkit::{Backend, TestServer, fixtures, raw, wait_for};

const LONG: Duration = Duration::from_secs(60);

on_both_stores!(only_a_server_that_plans_tells_about_the_cluster);

fn put(server: &TestServer, path: &str, body: &str) {
    let answer = raw::request(&server.url(), "PUT", path, &[], body.as_bytes());
    assert_eq!(answer.status, 200, "{path}: {}", answer.body);
}

/// The value of a series.
fn value(server: &TestServer, series: &str) -> Option<f64> {
    let answer = raw::request(&server.url(), "GET", "/metrics", &[], b"");
    let line = answer.body.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.map(|number| number.parse().expect("a number"))
}

fn only_a_server_that_plans_tells_about_the_cluster(backend: Backend) {
    let server = TestServer::start_with(backend, |config| {
        config.cluster.planner = true;
        config.cluster.settle = Duration::ZERO;
    });
    let client = server.client();
    client.put_ipam(&fixtures::ipam()).expect("an IPAM configuration");
    let machines: Vec<_> = (0..3).map(|n| fixtures::machine(format!("m{n}"), n, "worker")).collect();
    client.create_machines(&machines).expect("registered");
    (0..3).for_each(|n| client.put_state(&format!("m{n}"), "healthy", false).expect("a state"));
    let successful = "cke_sabakan_integration_successful";
    assert_eq!(value(&server, successful), None, "there was no plan yet");
    assert_eq!(value(&server, "sabakan_cluster_changes_total"), Some(0.0));
    let template = "name: x\nservice_subnet: 10.68.0.0/16\nnodes: [{user: u, control_plane: true}, {user: u}]\n";
    put(&server, "/api/v1/cluster/template", template);
    wait_for("the first plan", LONG, || value(&server, successful).filter(|value| *value == 1.0));
    assert_eq!(value(&server, "cke_sabakan_workers{role=\"worker\"}"), Some(1.0));
    assert_eq!(value(&server, "cke_sabakan_unused_machines"), Some(1.0));
    assert_eq!(value(&server, "sabakan_cluster_minimum_workers_met"), Some(1.0));
    assert_eq!(value(&server, "sabakan_cluster_changes_total"), Some(1.0));
    assert!(value(&server, "cke_sabakan_integration_timestamp_seconds").is_some_and(|at| at > 1.7e9));
    // More than there are machines: the plan cannot go on.
    put(&server, "/api/v1/constraints/control-plane-count", "5");
    wait_for("a plan that is blocked", LONG, || value(&server, successful).filter(|value| *value == 0.0));
    put(&server, "/api/v1/cluster/enabled", r#"{"enabled": false}"#);
    wait_for("the planner to rest", LONG, || value(&server, successful).is_none().then_some(()));
}
