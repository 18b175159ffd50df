//! Registering machines, getting addresses, finding them again: the same stories on both stores.

use sabakan_testkit::{
    Backend, TestServer,
    fixtures::{self, machine},
    raw::request,
};
use sabakan_wire::rest::UnknownParameters;
use serde_json::{Value, json};

on_both_stores!(
    configuration_is_set_and_read,
    machines_get_indices_and_addresses,
    answers_carry_both_forms,
    every_filter_and_its_negation,
    lenient_queries_ignore_unknown_parameters,
    everything_is_there_after_a_restart,
    only_retired_machines_are_removed,
    the_document_describes_what_is_served,
);

fn started(backend: Backend) -> TestServer {
    let server = TestServer::start(backend);
    server.client().put_ipam(&fixtures::ipam()).expect("ipam");
    server
}

fn get(server: &TestServer, query: &str) -> Vec<Value> {
    let answer = request(&server.url(), "GET", &format!("/api/v1/machines{query}"), &[], b"");
    assert_eq!(answer.status, 200, "{query}: {}", answer.body);
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert!(answer.body.ends_with("]\n"), "a list ends with a newline");
    answer.json().as_array().expect("a list").clone()
}

fn serials(server: &TestServer, query: &str) -> Vec<String> {
    get(server, query).iter().map(|m| m["spec"]["serial"].as_str().expect("serial").to_owned()).collect()
}

fn configuration_is_set_and_read(backend: Backend) {
    let server = TestServer::start(backend);
    let url = server.url();
    for path in ["/api/v1/config/ipam", "/api/v1/config", "/api/v1/config/dhcp"] {
        let answer = request(&url, "GET", path, &[], b"");
        assert_eq!((answer.status, answer.error().as_str()), (404, "requested resource is not found"));
    }
    let put =
        request(&url, "PUT", "/api/v1/config", &[], serde_json::to_string(&fixtures::ipam()).expect("JSON").as_bytes());
    assert_eq!((put.status, put.body.as_str()), (200, "null\n"));
    assert_eq!(put.header("content-type"), Some("application/json"));
    assert_eq!(server.client().get_ipam().expect("ipam"), fixtures::ipam());
    // May be changed while nothing is registered.
    let mut other = fixtures::ipam();
    other.max_nodes_in_rack = Some(27);
    server.client().put_ipam(&other).expect("no machine yet");
    assert_eq!(request(&url, "GET", "/api/v1/config", &[], b"").json()["max-nodes-in-rack"], 27);

    let dhcp = br#"{"Lease-Minutes":10,"dns-servers":["1.1.1.1"]}"#;
    assert_eq!(request(&url, "PUT", "/api/v1/config/dhcp", &[], dhcp).status, 200);
    let expected = json!({"lease-minutes": 10, "dns-servers": ["1.1.1.1"], "gateway-offset": 0});
    assert_eq!(request(&url, "GET", "/api/v1/config/dhcp", &[], b"").json(), expected);

    server.client().create_machines(&[machine("a", 0, "worker")]).expect("registered");
    let refused =
        request(&url, "PUT", "/api/v1/config/ipam", &[], serde_json::to_string(&other).expect("JSON").as_bytes());
    assert_eq!(refused.status, 500);
    assert_eq!(refused.error(), "machines already exists: Internal Server Error");
    assert_eq!(refused.json()["kind"], "refused");
}

fn machines_get_indices_and_addresses(backend: Backend) {
    let server = started(backend);
    let request = [machine("b1", 0, "boot"), machine("w1", 0, "worker"), machine("w2", 1, "worker")];
    server.client().create_machines(&request).expect("registered");
    let all = get(&server, "");
    let facts: Vec<_> = all
        .iter()
        .map(|m| {
            (m["spec"]["serial"].as_str().expect("a serial"), &m["spec"]["index-in-rack"], &m["spec"]["bmc"]["ipv4"])
        })
        .collect();
    let expected = [("b1", 3, "10.72.17.3"), ("w1", 4, "10.72.17.4"), ("w2", 4, "10.72.17.36")];
    assert_eq!(facts.len(), expected.len());
    for ((serial, index, bmc), (s, i, b)) in facts.into_iter().zip(expected) {
        assert_eq!((serial, index, bmc), (s, &json!(i), &json!(b)));
    }
    assert_eq!(all[2]["spec"]["ipv4"], json!(["10.69.0.196", "10.69.1.4", "10.69.1.68"]));
    if let Some(etcd) = &server.etcd {
        // What other programs find in etcd is what the documents say.
        let value = |key: &str| etcd.etcdctl(&["get", "--print-value-only", key]).trim().to_owned();
        assert_eq!(value("/sabakan/node-indices/0"), "[3,4]");
        assert_eq!(value("/sabakan/node-indices/1"), "[4]");
        assert_eq!(value("/sabakan/version"), "3");
        let stored: Value = serde_json::from_str(&value("/sabakan/machines/w2")).expect("JSON");
        assert_eq!(stored["info"]["network"]["ipv4"][0]["gateway"], "10.69.0.193");
        assert_eq!(stored["status"]["duration"], 0);
    }
}

fn answers_carry_both_forms(backend: Backend) {
    let server = started(backend);
    let body = br#"[{"serial":"1234abcd","product":"R630","datacenter":"ty3","rack":1,"role":"boot",
                     "retire-date":"2030-01-02T03:04:05+09:00"}]"#;
    let created = request(&server.url(), "POST", "/api/v1/machines", &[], body);
    assert_eq!((created.status, created.body.as_str()), (201, ""));
    server.clock.advance(jiff::SignedDuration::from_millis(1500));
    let machine = get(&server, "?serial=1234abcd").remove(0);
    let nic = |address: &str, gateway: &str| json!({"address": address, "netmask": "255.255.255.192", "maskbits": 26, "gateway": gateway});
    let expected = json!({
        "spec": {
            "serial": "1234abcd", "labels": {"product": "R630", "datacenter": "ty3"}, "rack": 1, "index-in-rack": 3,
            "role": "boot", "ipv4": ["10.69.0.195", "10.69.1.3", "10.69.1.67"], "ipv6": null,
            "register-date": "2026-11-15T00:00:00Z", "retire-date": "2030-01-02T03:04:05+09:00",
            "bmc": {"ipv4": "10.72.17.35", "ipv6": "", "type": "unknown"},
        },
        "status": {"timestamp": "2026-11-15T00:00:00Z", "duration": 1.5, "state": "uninitialized"},
        "info": {
            "network": {"ipv4": [
                nic("10.69.0.195", "10.69.0.193"), nic("10.69.1.3", "10.69.1.1"), nic("10.69.1.67", "10.69.1.65"),
            ]},
            "bmc": {"ipv4": {"address": "10.72.17.35", "netmask": "255.255.240.0", "maskbits": 20, "gateway": "10.72.16.1"}},
        },
        "serial": "1234abcd", "product": "R630", "datacenter": "ty3", "rack": 1, "index-in-rack": 3, "role": "boot",
        "network": {
            "node0": {"ipv4": ["10.69.0.195"], "ipv6": null},
            "node1": {"ipv4": ["10.69.1.3"], "ipv6": null},
            "node2": {"ipv4": ["10.69.1.67"], "ipv6": null},
        },
        "bmc": {"ipv4": ["10.72.17.35"], "type": "unknown"},
    });
    assert_eq!(machine, expected);
    // What comes out can be sent to another server as it is.
    let other = started(Backend::Embedded);
    let again =
        request(&other.url(), "POST", "/api/v1/machines", &[], Value::from(vec![machine]).to_string().as_bytes());
    assert_eq!(again.status, 201, "{}", again.body);
    assert_eq!(get(&other, "/1234abcd")[0]["spec"]["labels"]["product"], "R630");
}

fn every_filter_and_its_negation(backend: Backend) {
    let server = started(backend);
    let labelled = |serial: &str, rack, role, labels: &[(&str, &str)]| {
        let labels = labels.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
        sabakan_wire::rest::MachineInput { labels: Some(labels), ..machine(serial, rack, role) }
    };
    let mut third = labelled("c", 1, "storage", &[("a", "1"), ("b", "2"), ("datacenter", "ty3")]);
    third.bmc = Some(sabakan_wire::rest::BmcInput { kind: Some("IPMI-2.0".into()) });
    let machines = [machine("a", 0, "boot"), labelled("b", 0, "worker", &[("a", "1"), ("product", "R630")]), third];
    server.client().create_machines(&machines).expect("registered");

    let check = |query: &str, expected: &[&str]| assert_eq!(serials(&server, query), expected, "{query}");
    let none = |query: &str| {
        let answer = request(&server.url(), "GET", &format!("/api/v1/machines{query}"), &[], b"");
        assert_eq!((answer.status, answer.error().as_str()), (404, "requested resource is not found"), "{query}");
    };
    check("", &["a", "b", "c"]);
    check("/", &["a", "b", "c"]);
    check("/b", &["b"]);
    check("?serial=c,a,c,nobody", &["c", "a", "c"]);
    check("?without-serial=c,a", &["b"]);
    check("?rack=0", &["a", "b"]);
    check("?rack=0,1", &["a", "b", "c"]);
    check("?without-rack=0", &["c"]);
    check("?role=worker,boot", &["a", "b"]);
    check("?without-role=boot", &["b", "c"]);
    check("?ipv4=10.69.0.68", &["b"]);
    check("?without-ipv4=10.69.0.68", &["a", "c"]);
    check("?without-ipv6=fd00::1", &["a", "b", "c"]);
    check("?bmc-type=IPMI-2.0", &["c"]);
    check("?without-bmc-type=IPMI-2.0", &["a", "b"]);
    check("?state=uninitialized", &["a", "b", "c"]);
    check("?without-state=healthy,dead", &["a", "b", "c"]);
    check("?labels=a=1", &["b", "c"]);
    check("?labels=a=1,b=2", &["c"]);
    check("?without-labels=a=1", &["a"]);
    check("?without-labels=a=1,b=2", &["a", "b"]); // only machines with both are left out
    check("?index-in-rack=4", &["b", "c"]);
    check("?without-index-in-rack=4", &["a"]);
    check("?datacenter=ty3", &["c"]);
    check("?product=R630", &["b"]);
    check("?without-product=R630", &["a", "c"]);
    // Conditions are ANDed; empty ones count as not given.
    check("?rack=0&role=worker&serial=&without-state=&foo=", &["b"]);
    check("?rack=0&without-role=boot", &["b"]);
    none("?serial=nobody");
    none("?ipv4=10.72.17.4"); // a controller's
    none("?ipv6=fd00::1");
    none("?rack=7");
    none("?state=healthy");
    none("?without-state=uninitialized");
    none("/nobody");
    let both = request(&server.url(), "GET", "/api/v1/machines?rack=1&without-rack=2", &[], b"");
    assert_eq!(both.status, 400);
    let text = "invalid request: 'with' and 'without' options about the same things are specified.";
    assert_eq!(both.error(), text);
    let wrong = |query: &str, expected: &str| {
        let answer = request(&server.url(), "GET", &format!("/api/v1/machines{query}"), &[], b"");
        assert_eq!(answer.status, 400, "{query}: {}", answer.body);
        assert!(answer.error().starts_with(&format!("invalid request: {expected}")), "{query}: {}", answer.error());
    };
    wrong("?state=broken", "state: \"broken\" is not a state; they are uninitialized, ");
    wrong("?rack=x", "rack: \"x\" is not a rack number");
    wrong("?rack=00", "rack: \"00\" is not spelled as machines have it; write 0");
    wrong("?foo=R", "unknown query parameter \"foo\"; known are serial, rack, ");
    wrong("?rack=0&roles=boot", "unknown query parameter \"roles\"; did you mean role?");
    wrong("?rack=0&rack=1", "the query parameter rack is given more than once");
}

/// A site whose programs send parameters of their own may go on as before; wrong values are wrong all the same.
fn lenient_queries_ignore_unknown_parameters(backend: Backend) {
    let server = TestServer::start_with(backend, |config| config.unknown_parameters = UnknownParameters::Ignore);
    server.client().put_ipam(&fixtures::ipam()).expect("ipam");
    server.client().create_machines(&[machine("m", 0, "worker")]).expect("registered");
    let status = |query: &str| request(&server.url(), "GET", &format!("/api/v1/machines{query}"), &[], b"").status;
    assert_eq!(["?foo=R", "?rack=0&rack=1", "?rack=1&foo=R", "?state=broken"].map(status), [200, 200, 404, 400]);
}

fn everything_is_there_after_a_restart(backend: Backend) {
    let mut server = started(backend);
    server.client().create_machines(&fixtures::workers(50, 0)).expect("registered");
    let before = get(&server, "");
    server.restart();
    assert_eq!(get(&server, ""), before);
    // The next one gets the next index, not one in use.
    server.client().create_machines(&[machine("next", 1, "worker")]).expect("registered");
    assert_eq!(get(&server, "/next")[0]["spec"]["index-in-rack"], 26);
}

fn only_retired_machines_are_removed(backend: Backend) {
    let server = started(backend);
    server.client().create_machines(&[machine("a b", 0, "worker")]).expect("registered");
    let remove = |path: &str| request(&server.url(), "DELETE", path, &[], b"");
    let refused = remove("/api/v1/machines/a%20b");
    assert_eq!(refused.status, 500);
    assert_eq!(refused.error(), "non-retired machine cannot be deleted: Internal Server Error");
    assert_eq!(get(&server, "/a%20b").len(), 1);
    assert_eq!(remove("/api/v1/machines/nobody").status, 404);
    for nameless in ["/api/v1/machines", "/api/v1/machines/"] {
        let answer = remove(nameless);
        assert_eq!((answer.status, answer.error().as_str()), (400, "invalid request: serial is empty"), "{nameless}");
    }
    for traversal in ["/api/v1/machines/..", "/api/v1/machines/%2e%2e", "/api/v1/machines/a%2Fb"] {
        assert_eq!(remove(traversal).status, 400, "{traversal}");
    }
}

fn the_document_describes_what_is_served(backend: Backend) {
    let server = TestServer::start(backend);
    let document = request(&server.url(), "GET", "/openapi.json", &[], b"").json();
    assert!(document["openapi"].as_str().is_some_and(|v| v.starts_with("3.1")), "{}", document["openapi"]);
    let paths = document["paths"].as_object().expect("paths");
    for (path, methods) in [
        ("/api/v1/config/ipam", &["get", "put"][..]),
        ("/api/v1/config/dhcp", &["get", "put"]),
        ("/api/v1/machines", &["get", "post"]),
        ("/api/v1/machines/{serial}", &["get", "delete"]),
        ("/api/v1/state/{serial}", &["get", "put"]),
        ("/api/v1/labels/{serial}/{name}", &["put", "delete"]),
        ("/api/v1/retire-date/{serial}", &["put"]),
        ("/api/v1/crypts/{serial}/{disk}", &["get", "put"]),
        ("/api/v1/crypts/{serial}", &["delete"]),
        ("/api/v1/tokens", &["get", "post"]),
        ("/api/v1/tokens/{id}", &["delete"]),
        ("/api/v1/logs", &["get"]),
        ("/api/v1/cluster/template", &["get", "put"]),
        ("/api/v1/cluster/variables", &["get", "put", "delete"]),
        ("/api/v1/cluster/enabled", &["get", "put"]),
        ("/api/v1/cluster/configuration", &["get", "put"]),
        ("/api/v1/cluster/plan", &["get"]),
        ("/api/v1/cluster/simulation", &["get"]),
        ("/api/v1/cluster/machines/{serial}", &["get"]),
        ("/api/v1/cluster/plans", &["get"]),
        ("/api/v1/cluster/plans/{number}", &["get"]),
        ("/api/v1/cluster/status", &["get"]),
        ("/api/v1/constraints", &["get", "put"]),
        ("/api/v1/constraints/{name}", &["put"]),
        ("/version", &["get"]),
        ("/health", &["get"]),
    ] {
        for method in methods {
            assert!(paths[path][method].is_object(), "{method} {path}");
        }
    }
    // Every documented path answers, with something else than "no such path".
    for path in paths.keys() {
        let answer = request(&server.url(), "PATCH", &path.replace("{serial}", "x"), &[], b"");
        assert_eq!(answer.status, 405, "{path}");
    }
    let filters = document["paths"]["/api/v1/machines"]["get"]["parameters"].as_array().expect("parameters");
    assert_eq!(filters.len(), 22);
    assert_eq!(request(&server.url(), "GET", "/version", &[], b"").json()["version"], env!("CARGO_PKG_VERSION"));
    let part = |name: &str| json!({"name": name, "ok": true, "needed": true});
    let health = request(&server.url(), "GET", "/health", &[], b"").json();
    assert_eq!(health["health"], "healthy");
    assert_eq!(health["parts"].as_array().expect("parts")[..2], [part("store"), part("registry")]);
}
