//! Nodes that are not called by their addresses.

use std::time::Duration;

use sabakan_store::{Op, Txn, TxnOutcome};
use sabakan_testkit::{Backend, TestServer, fixtures, raw, wait_for};
use serde_json::Value;

fn template(hostname: &str) -> String {
    format!(
        "name: x\nservice_subnet: 10.68.0.0/16\nnodes:\n- {{user: u, control_plane: true, hostname: \"{hostname}\"}}\n\
         - {{user: u, hostname: \"{hostname}\"}}\n"
    )
}

fn names(server: &TestServer) -> Option<Vec<Value>> {
    let shown = raw::request(&server.url(), "GET", "/api/v1/cluster/configuration", &[], b"").json();
    let names: Vec<Value> = shown["nodes"].as_array()?.iter().map(|node| node["hostname"].clone()).collect();
    (!names.is_empty()).then_some(names)
}

#[test]
fn nodes_are_called_as_the_template_says_and_an_old_template_is_still_read() {
    let server = TestServer::start_with(Backend::Embedded, |config| {
        config.cluster.planner = true;
        config.cluster.settle = Duration::ZERO;
    });
    let put = |path: &str, body: &str| raw::request(&server.url(), "PUT", path, &[], body.as_bytes());
    let client = server.client();
    client.put_ipam(&fixtures::ipam()).expect("an IPAM configuration");
    let machines: Vec<_> = (0..2).map(|n| fixtures::machine(format!("M{n}"), n, "worker")).collect();
    client.create_machines(&machines).expect("registered");
    let refused = put("/api/v1/cluster/template", &template("h"));
    assert_eq!(refused.status, 400, "{}", refused.body);
    assert!(refused.body.contains("nodes[0].hostname"), "{}", refused.body);
    // An earlier version took it. The planner goes on with addresses, and says nothing about a broken store.
    let path = "/api/v1/cluster/template";
    assert_eq!(put(path, &template("{serial}")).status, 200);
    let (key, stored) = server.dump().into_iter().find(|(key, _)| key.ends_with("cluster/template")).expect("stored");
    let old = String::from_utf8(stored).expect("UTF-8").replace("{serial}", "h");
    let txn = Txn { when: vec![], then: vec![Op::put(key, old)] };
    let outcome = server.block_on(server.store().commit(txn)).expect("the store answers");
    assert!(matches!(outcome, TxnOutcome::Committed(_)));
    (0..2).for_each(|n| client.put_state(&format!("M{n}"), "healthy", false).expect("a state"));
    let found = wait_for("a cluster", Duration::from_secs(60), || names(&server));
    assert_eq!(found, ["", ""]);
    // A pattern alone is a change: every node is written anew.
    assert_eq!(put(path, &template("node-{serial}")).status, 200);
    let renamed = || names(&server).filter(|names| names.iter().all(|name| name != ""));
    let mut found = wait_for("names", Duration::from_secs(60), renamed);
    found.sort_by_key(ToString::to_string);
    assert_eq!(found, ["node-m0", "node-m1"]);
}
