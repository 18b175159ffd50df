//! A planner that asks another sabakan for the machines.

use std::time::Duration;

use sabakan::cluster::RegistrySettings;
use sabakan_domain::cluster::variables::Variables;
use sabakan_drivers::registry::{GraphqlRegistry, Registry as _};
use sabakan_testkit::{Backend, TestServer, fixtures, raw};
use serde_json::Value;

fn registry() -> TestServer {
    let server = TestServer::start(Backend::Embedded);
    let client = server.client();
    client.put_ipam(&fixtures::ipam()).expect("an IPAM configuration");
    let mut machines: Vec<_> = (0..4).map(|n| fixtures::machine(format!("m{n}"), n, "worker")).collect();
    machines.push(fixtures::machine("b0", 0, "boot"));
    client.create_machines(&machines).expect("registered");
    for serial in ["m0", "m1", "m2", "b0"] {
        client.put_state(serial, "healthy", false).expect("a state");
    }
    server
}

#[test]
fn another_sabakan_lists_its_machines() {
    let server = registry();
    let ask = |url: &str, variables: &Variables| {
        let registry = GraphqlRegistry::new(url, Duration::from_secs(10)).expect("a registry");
        server.block_on(registry.machines(variables))
    };
    let machines = ask(&server.url(), &Variables::for_planner()).expect("a list");
    let serials: Vec<&str> = machines.iter().map(|machine| machine.serial.as_str()).collect();
    assert_eq!(serials, ["m0", "m1", "m2", "m3"], "boot servers are left out");
    let first = &machines[0];
    assert_eq!((first.rack.0, first.state.as_str(), first.role.as_str()), (0, "healthy", "worker"));
    assert_eq!(first.address.map(|address| address.to_string()).as_deref(), Some("10.69.0.4"));
    let everything = ask(&format!("{}/graphql", server.url()), &Variables::default()).expect("a list");
    assert_eq!(everything.len(), 5);
    let racks = Variables::parse(r#"{"having": {"racks": [1, 2], "minDaysBeforeRetire": -1}}"#).expect("variables");
    assert_eq!(ask(&server.url(), &racks).expect("a list").len(), 2);
    // Whatever is no list is a failure.
    let nowhere = ask(&format!("{}/nowhere", server.url()), &racks).expect_err("not there").to_string();
    assert!(nowhere.contains("404"), "{nowhere}");
    let closed = ask("http://127.0.0.1:1", &racks).expect_err("nobody listens").to_string();
    assert!(closed.contains("cannot be reached") && !closed.contains("127.0.0.1"), "{closed}");
}

#[test]
fn a_cluster_is_planned_from_the_machines_of_another_server() {
    let registry = registry();
    let planner = TestServer::start_with(Backend::Embedded, |config| {
        config.cluster.registry = Some(RegistrySettings { url: registry.url(), timeout: Duration::from_secs(10) });
    });
    let template = "name: x\nservice_subnet: 10.68.0.0/16\nnodes: [{user: u, control_plane: true}, {user: u}]\n";
    let put = raw::request(&planner.url(), "PUT", "/api/v1/cluster/template", &[], template.as_bytes());
    assert_eq!(put.status, 200, "{}", put.body);
    let plan = || raw::request(&planner.url(), "GET", "/api/v1/cluster/plan", &[], b"");
    let made: Value = plan().json();
    assert_eq!((made["outcome"].as_str(), made["totals"]["machines"].as_u64()), (Some("change"), Some(4)), "{made}");
    // A registry that does not answer is not one without machines.
    drop(registry);
    let refused = plan();
    assert_eq!((refused.status, refused.json()["kind"].as_str()), (409, Some("refused")), "{}", refused.body);
    assert!(refused.error().starts_with("the registry gave no list of machines"), "{}", refused.error());
}
