//! `/metrics`: what it tells, that it tells it in Prometheus' format, and that nobody makes it grow.

mod exposition;

use std::time::Duration;

use exposition::Exposition;
use sabakan_domain::lifecycle::HealthState;
use sabakan_testkit::{
    Backend, TestServer,
    fixtures::{self, machine},
    raw::{connect, request},
    wait_for,
};
use sabakan_wire::rest::MachineInput;

on_both_stores!(
    machines_show_their_status,
    machines_are_counted_by_status_role_and_rack,
    requests_are_counted_with_their_real_answer,
    the_store_and_the_view_are_watched,
);

fn started(backend: Backend) -> TestServer {
    let server = TestServer::start(backend);
    server.client().put_ipam(&fixtures::ipam()).expect("ipam");
    server
}

/// A whole answer, parsed: that it parses is half of every test here.
fn scrape_at(url: &str) -> Exposition {
    let answer = request(url, "GET", "/metrics", &[], b"");
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert_eq!(answer.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    Exposition::parse(&answer.body).unwrap_or_else(|error| panic!("{error}"))
}

fn scrape(server: &TestServer) -> Exposition {
    scrape_at(&server.url())
}

fn put_state(server: &TestServer, serial: &str, state: &str) {
    let answer = request(&server.url(), "PUT", &format!("/api/v1/state/{serial}?force=true"), &[], state.as_bytes());
    assert_eq!(answer.status, 200, "{}", answer.body);
}

fn labelled(serial: &str, rack: u32, role: &str, labels: &[(&str, &str)]) -> MachineInput {
    let mut machine = machine(serial, rack, role);
    let own = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    machine.labels.get_or_insert_default().extend(own);
    machine
}

fn machines_show_their_status(backend: Backend) {
    let server = started(backend);
    let machines =
        [labelled("a", 0, "worker", &[("machine-type", "r640")]), labelled("b", 1, "boot", &[("unrelated", "x")])];
    server.client().create_machines(&machines).expect("registered");
    let check = |serial: &str, address: &str, rack: &str, role: &str, kind: &str, current: HealthState| {
        let page = scrape(&server);
        assert_eq!(page.family("sabakan_machine_status").len(), 2 * HealthState::ALL.len());
        for state in HealthState::ALL {
            let labels = [
                ("status", state.as_str()),
                ("address", address),
                ("serial", serial),
                ("rack", rack),
                ("role", role),
                ("machine_type", kind),
            ];
            let expected = f64::from(u8::from(state == current));
            assert_eq!(page.value("sabakan_machine_status", &labels), Some(expected), "{serial} {state}");
        }
    };
    check("a", "10.69.0.4", "0", "worker", "r640", HealthState::Uninitialized);
    for state in [HealthState::Healthy, HealthState::Unreachable, HealthState::Retiring] {
        put_state(&server, "a", state.as_str());
        check("a", "10.69.0.4", "0", "worker", "r640", state);
        check("b", "10.69.0.195", "1", "boot", "", HealthState::Uninitialized);
    }
}

fn machines_are_counted_by_status_role_and_rack(backend: Backend) {
    let server = started(backend);
    let page = scrape(&server);
    for state in HealthState::ALL {
        assert_eq!(page.value("sabakan_machines", &[("status", state.as_str())]), Some(0.0));
    }
    assert_eq!((page.family("sabakan_machines_by_role").len(), page.family("sabakan_machines_by_rack").len()), (0, 0));
    let machines =
        [machine("a", 0, "worker"), machine("b", 0, "worker"), machine("c", 7, "worker"), machine("d", 7, "boot")];
    server.client().create_machines(&machines).expect("registered");
    put_state(&server, "a", "healthy");
    put_state(&server, "c", "healthy");
    let page = scrape(&server);
    let mut expected = vec![
        ("sabakan_machines", vec![("status", "uninitialized")], 2.0),
        ("sabakan_machines", vec![("status", "healthy")], 2.0),
        ("sabakan_machines", vec![("status", "retired")], 0.0),
    ];
    let groups = [
        ("role", "worker", "healthy", 2.0),
        ("role", "worker", "uninitialized", 1.0),
        ("role", "boot", "uninitialized", 1.0),
        ("role", "boot", "healthy", 0.0),
        ("rack", "0", "healthy", 1.0),
        ("rack", "0", "uninitialized", 1.0),
        ("rack", "7", "healthy", 1.0),
        ("rack", "7", "uninitialized", 1.0),
    ];
    for (group, name, status, count) in groups {
        let family = if group == "role" { "sabakan_machines_by_role" } else { "sabakan_machines_by_rack" };
        expected.push((family, vec![(group, name), ("status", status)], count));
    }
    for (family, labels, count) in expected {
        assert_eq!(page.value(family, &labels), Some(count), "{family} {labels:?}");
    }
    assert_eq!((page.family("sabakan_machines_by_role").len(), page.family("sabakan_machines_by_rack").len()), (14, 4));
    for (name, value) in [
        ("sabakan_assets_bytes_total", 0.0),
        ("sabakan_assets_items_total", 0.0),
        ("sabakan_images_bytes_total", 0.0),
        ("sabakan_images_items_total", 0.0),
    ] {
        assert_eq!(page.value(name, &[]), Some(value), "{name}");
    }
}

fn requests_are_counted_with_their_real_answer(backend: Backend) {
    let server = started(backend);
    server.client().create_machines(&[machine("a", 0, "worker")]).expect("registered");
    let url = server.url();
    let count = |code: &str, path: &str, verb: &str| {
        scrape(&server).value("sabakan_api_request_count", &[("code", code), ("path", path), ("verb", verb)])
    };
    let one = "/api/v1/machines/{serial}";
    assert_eq!(count("200", one, "GET"), None);
    for path in ["/api/v1/machines/a", "/api/v1/machines/a", "/api/v1/machines/nobody"] {
        request(&url, "GET", path, &[], b"");
    }
    assert_eq!((count("200", one, "GET"), count("404", one, "GET")), (Some(2.0), Some(1.0)));
    // Answers without a body, which the older service counts as 0.
    put_state(&server, "a", "healthy");
    assert_eq!(count("200", "/api/v1/state/{serial}", "PUT"), Some(1.0));
    assert_eq!(count("201", "/api/v1/machines", "POST"), Some(1.0));
    request(&url, "PATCH", "/api/v1/machines/a", &[], b"");
    request(&url, "BREW", "/api/v1/machines/a", &[], b"");
    request(&url, "GET", "/nothing/here", &[], b"");
    assert_eq!((count("405", one, "PATCH"), count("405", one, "other")), (Some(1.0), Some(1.0)));
    assert_eq!(count("404", "other", "GET"), Some(1.0));
    assert!(count("200", "/metrics", "GET").is_some_and(|scrapes| scrapes >= 1.0));
    let page = scrape(&server);
    let times = page.value("sabakan_api_request_duration_seconds_count", &[("path", one), ("verb", "GET")]);
    assert_eq!(times, Some(3.0));
    assert_eq!(page.value("sabakan_api_errors_total", &[("kind", "not-found")]), Some(2.0));
    assert_eq!(page.value("sabakan_api_errors_total", &[("kind", "method-not-allowed")]), Some(2.0));
    assert_eq!(page.value("sabakan_api_errors_total", &[("kind", "internal")]), Some(0.0));
}

fn the_store_and_the_view_are_watched(backend: Backend) {
    let server = started(backend);
    let before = scrape(&server);
    let txn = |page: &Exposition, outcome: &str| {
        let labels = [("operation", "txn"), ("outcome", outcome)];
        page.value("sabakan_store_request_duration_seconds_count", &labels)
    };
    server.client().create_machines(&[machine("a", 0, "worker")]).expect("registered");
    let after = scrape(&server);
    assert_eq!(txn(&after, "ok"), txn(&before, "ok").map(|count| count + 1.0));
    assert_eq!(after.value("sabakan_store_up", &[]), Some(1.0));
    assert_eq!(after.value("sabakan_view_lag_seconds", &[]), Some(0.0));
    assert!(after.value("sabakan_view_lag_revisions", &[]).is_some_and(|lag| lag >= 0.0));
    let revision = |page: &Exposition| page.value("sabakan_view_revision", &[]).expect("a revision");
    assert!(revision(&after) > revision(&before));
    assert_eq!(after.value("sabakan_build_info", &[("version", env!("CARGO_PKG_VERSION"))]), Some(1.0));
    let positive = [
        "process_cpu_seconds_total",
        "process_resident_memory_bytes",
        "process_virtual_memory_bytes",
        "process_open_fds",
        "process_max_fds",
        "process_start_time_seconds",
        "process_threads",
    ];
    for name in positive {
        assert!(after.value(name, &[]).is_some_and(|value| value > 0.0), "{name}");
    }
    // Looked for at the start; nothing was old enough, which is a success too.
    let retention = [("task", "retention")];
    wait_for("the first look for old audit entries", Duration::from_secs(30), || {
        scrape(&server).value("sabakan_task_last_success_timestamp_seconds", &retention).filter(|at| *at > 1.7e9)
    });
}

#[test]
fn paths_nobody_knows_add_no_series() {
    let server = started(Backend::Embedded);
    let url = server.url();
    let random = |n: u64| format!("{:016x}", n.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let try_all = |range: std::ops::Range<u64>| {
        for n in range {
            for path in [format!("/{}", random(n)), format!("/api/v1/machines/{}", random(n))] {
                assert_eq!(request(&url, "GET", &path, &[], b"").status, 404);
            }
        }
    };
    try_all(0..10);
    scrape(&server);
    let before = scrape(&server);
    try_all(10..1_010);
    let after = scrape(&server);
    assert_eq!(after.series(), before.series());
    let unknown = [("code", "404"), ("path", "other"), ("verb", "GET")];
    assert_eq!(after.value("sabakan_api_request_count", &unknown), Some(1_010.0));
    assert!(!after.contains(&random(7)));
}

#[test]
fn raw_paths_come_back_on_request() {
    let server = TestServer::start_with(Backend::Embedded, |config| config.metrics.options.raw_paths = true);
    let url = server.url();
    for path in ["/api/v1/machines/1234abcd", "/api/v1/crypts/1234abcd/by-path-0", "/elsewhere/token"] {
        request(&url, "GET", path, &[], b"");
    }
    let page = scrape(&server);
    let counted = |path: &str| {
        let labels = [("code", "404"), ("path", path), ("verb", "GET")];
        page.value("sabakan_api_request_count", &labels)
    };
    assert_eq!(counted("/api/v1/machines/1234abcd"), Some(1.0));
    assert_eq!(counted("/api/v1/crypts/{serial}/{disk}"), Some(1.0));
    assert_eq!(counted("other"), Some(1.0));
    assert!(!page.contains("by-path-0") && !page.contains("/elsewhere/token"));
}

#[test]
fn metrics_have_a_listener_of_their_own_if_wanted() {
    let mut server = TestServer::start_with(Backend::Embedded, |config| {
        config.metrics.listen = vec!["127.0.0.1:0".parse().expect("an address")];
    });
    let own = server.metrics_url();
    assert_ne!(own, server.url());
    let page = scrape_at(&own);
    assert_eq!(request(&server.url(), "GET", "/metrics", &[], b"").status, 404, "not there any more");
    for (method, path, status) in [("GET", "/api/v1/machines", 404), ("GET", "/health", 404), ("POST", "/metrics", 405)]
    {
        assert_eq!(request(&own, method, path, &[], b"").status, status, "{method} {path}");
    }
    assert_eq!(page.family("sabakan_api_request_count").len(), 0, "scrapes there are no API calls");
    let addresses = std::fs::read_to_string(server.data_dir().join("addresses.json")).expect("addresses");
    let addresses: serde_json::Value = serde_json::from_str(&addresses).expect("JSON");
    assert_eq!(format!("http://{}", addresses["metrics"].as_str().expect("an address")), own);
    assert_eq!(addresses["all"]["metrics"].as_array().map(Vec::len), Some(1));

    server.restart_with(|config| config.metrics.listen.clear()).expect("started");
    scrape(&server);
    assert_eq!(request(&server.url(), "POST", "/metrics", &[], b"").status, 405);
    assert_eq!(request(&server.url(), "HEAD", "/metrics", &[], b"").status, 200);
}

#[test]
fn without_single_machines_the_size_is_that_of_the_racks() {
    let server = TestServer::start_with(Backend::Embedded, |config| config.metrics.options.machines = false);
    server.client().put_ipam(&fixtures::ipam()).expect("ipam");
    let few: Vec<_> = (0..3).map(|rack| machine(format!("first-{rack}"), rack, "worker")).collect();
    server.client().create_machines(&few).expect("registered");
    scrape(&server);
    let before = scrape(&server);
    for batch in 0..25_u32 {
        let more: Vec<_> = (0..3).map(|rack| machine(format!("more-{batch}-{rack}"), rack, "worker")).collect();
        server.client().create_machines(&more).expect("registered");
    }
    let after = scrape(&server);
    assert_eq!(after.value("sabakan_machines", &[("status", "uninitialized")]), Some(78.0));
    assert_eq!(after.series(), before.series());
    assert!(after.family("sabakan_machine_status").is_empty() && !after.contains("first-0"));
    let grown = after.bytes().abs_diff(before.bytes());
    assert!(grown < 500, "{grown} bytes: more than the digits of its figures");
}

#[test]
fn a_fleet_is_scraped_whole_while_it_changes() {
    let server = TestServer::start(Backend::Embedded);
    server.client().put_ipam(&fixtures::wide_ipam()).expect("ipam");
    // Several pieces of the answer.
    let fleet = fixtures::workers(2_000, 0);
    server.client().create_machines(&fleet).expect("registered");
    std::thread::scope(|scope| {
        let changes = scope.spawn(|| {
            for machine in fleet.iter().take(100) {
                put_state(&server, machine.serial.as_deref().expect("a serial"), "healthy");
            }
        });
        let mut scrapes = 0;
        while !changes.is_finished() || scrapes < 3 {
            let page = scrape(&server);
            let states = page.family("sabakan_machine_status");
            assert_eq!(states.len(), 7 * fleet.len());
            assert_eq!(states.iter().sum::<f64>(), 2_000.0, "each machine is in one state");
            scrapes += 1;
        }
    });
}

#[test]
fn nothing_secret_is_told() {
    let mut server = started(Backend::Embedded);
    let url = server.url();
    server.client().create_machines(&[machine("a", 0, "worker")]).expect("registered");
    let token = request(&url, "POST", "/api/v1/tokens", &[], br#"{"name": "t", "role": "admin"}"#);
    assert!(token.status < 300, "{}", token.body);
    let token = token.json()["token"].as_str().expect("a token").to_owned();
    let bearer = format!("Bearer {token}");
    let headers = [("authorization", bearer.as_str())];
    let put = request(&url, "PUT", "/api/v1/crypts/a/pci-0000-by-path", &headers, b"secret-disk-key");
    assert!(put.status < 300, "{}", put.body);
    server.restart_with(|config| config.require_token = true).expect("started");
    for path in ["/api/v1/crypts/a/pci-0000-by-path", &format!("/{token}")] {
        request(&server.url(), "GET", path, &headers, b"");
    }
    for other in ["", "Bearer nonsense"] {
        let refused = request(&server.url(), "GET", "/metrics", &[("authorization", other)], b"");
        assert!(matches!(refused.status, 401 | 403), "{}", refused.status);
        assert!(!refused.body.contains("worker"), "{}", refused.body);
    }
    // Open to those who may list machines.
    let page = request(&server.url(), "GET", "/metrics", &headers, b"");
    assert_eq!(page.status, 200);
    let page = Exposition::parse(&page.body).expect("figures");
    for secret in [token.as_str(), "secret-disk-key", "pci-0000-by-path"] {
        assert!(!page.contains(secret), "{secret}");
    }
    let read = [("code", "200"), ("path", "/api/v1/crypts/{serial}/{disk}"), ("verb", "GET")];
    assert_eq!(page.value("sabakan_api_request_count", &read), Some(1.0), "but that it was read is");

    // A listener of its own is for a network of its own, and asks for nothing.
    server
        .restart_with(|config| config.metrics.listen = vec!["127.0.0.1:0".parse().expect("an address")])
        .expect("started");
    assert_eq!(scrape_at(&server.metrics_url()).value("sabakan_machines", &[("status", "uninitialized")]), Some(1.0));
}

#[test]
fn errors_of_graphql_are_counted_by_kind() {
    let server = started(Backend::Embedded);
    let count = |kind: &str| scrape(&server).value("sabakan_api_errors_total", &[("kind", kind)]).unwrap_or(0.0);
    let ask = |query: &str, status: u16| {
        let body = serde_json::json!({ "query": query }).to_string();
        let headers = [("content-type", "application/json")];
        let answer = request(&server.url(), "POST", "/graphql", &headers, body.as_bytes());
        assert_eq!(answer.status, status, "{}", answer.body);
    };
    let before = ["invalid", "not-found", "too-large"].map(count);
    ask("{ nothing }", 422);
    ask("{", 422);
    ask("{ machine(serial: \"nobody\") { spec { serial } } }", 200);
    ask("mutation { setMachineState(serial: \"nobody\", state: HEALTHY) { state } }", 200);
    ask(&"x".repeat(1_000_000), 413);
    let after = ["invalid", "not-found", "too-large"].map(count);
    let counted: Vec<_> = after.iter().zip(before).map(|(after, before)| after - before).collect();
    assert_eq!(counted, [2.0, 2.0, 1.0]);
}

#[test]
fn figures_are_told_while_the_store_does_not_answer() {
    let server = started(Backend::Etcd);
    server.client().create_machines(&[machine("a", 0, "worker")]).expect("registered");
    let etcd = server.etcd.as_ref().expect("an etcd");
    assert_eq!(scrape(&server).value("sabakan_store_up", &[]), Some(1.0));
    etcd.pause_member(0);
    let page = scrape(&server);
    assert_eq!(page.value("sabakan_store_up", &[]), Some(0.0));
    assert_eq!(page.value("sabakan_machines", &[("status", "uninitialized")]), Some(1.0));
    etcd.resume_member(0);
    wait_for("the store to answer again", Duration::from_secs(60), || {
        (scrape(&server).value("sabakan_store_up", &[]) == Some(1.0)).then_some(())
    });
}

#[test]
fn connections_and_feeds_are_counted_while_they_are_open() {
    use std::io::{Read as _, Write as _};
    let server = started(Backend::Embedded);
    let gauge = |name: &str, expected: f64| {
        wait_for(name, Duration::from_secs(30), || (scrape(&server).value(name, &[]) == Some(expected)).then_some(()));
    };
    // The scrape is a connection itself.
    gauge("sabakan_http_connections", 1.0);
    let idle: Vec<_> = (0..5).map(|_| connect(&server.url())).collect();
    gauge("sabakan_http_connections", 6.0);
    drop(idle);
    gauge("sabakan_http_connections", 1.0);
    let mut feed = connect(&server.url());
    feed.write_all(b"GET /api/v1/events?follow=true HTTP/1.1\r\nhost: t\r\n\r\n").expect("sent");
    feed.read_exact(&mut [0; 12]).expect("an answer begins");
    gauge("sabakan_event_feeds", 1.0);
    drop(feed);
    // Without anything to send, the server finds out when it closes or at the next sign of life.
    server.client().create_machines(&[machine("a", 0, "worker")]).expect("registered");
    gauge("sabakan_event_feeds", 0.0);
}
