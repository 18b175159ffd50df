//! Every change has exactly one entry in the audit log, which says who, from where and what; nothing else has one.

use std::time::Duration;

use jiff::SignedDuration;
use sabakan_testkit::{
    Backend, TestServer,
    fixtures::{self, machine},
    raw::request,
    wait_for,
};
use sabakan_wire::rest::AuditLogJson;

on_both_stores!(
    every_change_has_one_entry,
    days_are_chosen_in_utc,
    a_long_log_comes_in_pages,
    a_start_with_the_clock_ahead_deletes_nothing
);

fn as_yuri(server: &TestServer, method: &str, path: &str, body: &str) -> u16 {
    let headers = [("x-sabakan-user", "yuri")];
    request(&server.url(), method, &format!("/api/v1/{path}"), &headers, body.as_bytes()).status
}

fn log(server: &TestServer) -> Vec<AuditLogJson> {
    server.client().list_logs(None, None).expect("the log")
}

fn every_change_has_one_entry(backend: Backend) {
    let server = TestServer::start(backend);
    let ipam = serde_json::to_string(&fixtures::ipam()).expect("JSON");
    let machines = serde_json::to_string(&[machine("m", 0, "worker"), machine("n", 1, "worker")]).expect("JSON");
    let token = r#"{"name":"ci","role":"read"}"#;
    // Request and its status; what the log says of it: category, instance, action, detail. Refusals have no entry.
    type Row<'a> = (&'a str, &'a str, &'a str, u16, Option<[&'a str; 4]>);
    let rows: &[Row<'_>] = &[
        ("PUT", "config/ipam", &ipam, 200, Some(["ipam", "config", "put", "{"])),
        ("PUT", "config/dhcp", r#"{"lease-minutes":5}"#, 200, Some(["dhcp", "config", "put", "{"])),
        ("PUT", "config/dhcp", r#"{"dns-servers":["x"]}"#, 400, None),
        ("POST", "machines", &machines, 201, Some(["machines", "", "register", "m\nn"])),
        ("POST", "machines", &machines, 409, None),
        ("PUT", "state/m", "healthy", 200, Some(["machines", "m", "set-state", "uninitialized -> healthy"])),
        ("PUT", "state/m", "healthy", 200, None),
        ("PUT", "state/m", "retired", 500, None),
        ("PUT", "labels/m/a", "1", 200, Some(["machines", "m", "put-label", "a/1"])),
        ("DELETE", "labels/m/a", "", 200, Some(["machines", "m", "delete-label", "a"])),
        ("DELETE", "labels/m/a", "", 404, None),
        (
            "PUT",
            "retire-date/m",
            "2030-01-02T03:04:05Z",
            200,
            Some(["machines", "m", "set-retire-date", "2030-01-02T03:04:05Z"]),
        ),
        ("PUT", "crypts/m/disk", "secret", 201, Some(["crypts", "m", "put", "disk"])),
        ("PUT", "crypts/m/disk", "secret", 409, None),
        ("GET", "crypts/m/disk", "", 200, None),
        ("PUT", "state/m", "retiring", 200, Some(["machines", "m", "set-state", "healthy -> retiring"])),
        ("DELETE", "crypts/m", "", 200, Some(["crypts", "m", "delete", "disk sha256:"])),
        ("DELETE", "machines/m", "", 200, Some(["machines", "m", "delete", ""])),
        (
            "PUT",
            "state/n?force=true",
            "updating",
            200,
            Some(["machines", "n", "set-state", "uninitialized -> updating (forced)"]),
        ),
        ("POST", "tokens", token, 201, Some(["tokens", "", "create", "ci read"])),
        ("POST", "tokens", r#"{"name":"","role":"read"}"#, 400, None),
    ];
    let mut revision = 0;
    for (method, path, body, status, expected) in rows {
        let before = log(&server).len();
        server.clock.advance(SignedDuration::from_secs(1));
        assert_eq!(as_yuri(&server, method, path, body), *status, "{method} {path}");
        let entries = log(&server);
        let Some([category, instance, action, detail]) = expected else {
            assert_eq!(entries.len(), before, "{method} {path} changed nothing");
            continue;
        };
        assert_eq!(entries.len(), before + 1, "{method} {path}");
        let entry = entries.last().expect("an entry");
        assert_eq!((entry.user.as_str(), entry.known.as_str(), entry.ip.as_str()), ("yuri", "declared", "127.0.0.1"));
        assert_eq!((entry.category.as_str(), entry.action.as_str()), (*category, *action));
        assert!(!entry.host.is_empty() && entry.ts.starts_with("2026-11-15T00:00:"), "{entry:?}");
        if *category != "tokens" {
            assert_eq!(entry.instance, *instance);
        }
        // Values that are long or random are compared at their beginning.
        let whole = !matches!(*detail, "{" | "disk sha256:");
        assert!(if whole { entry.detail == *detail } else { entry.detail.starts_with(detail) }, "{entry:?}");
        let written: u64 = entry.rev.parse().expect("a revision");
        assert!(written > revision, "revisions grow: {written} after {revision}");
        revision = written;
    }
    let text = serde_json::to_string(&log(&server)).expect("JSON");
    assert!(!text.contains("secret"), "no key in the log");
}

fn days_are_chosen_in_utc(backend: Backend) {
    let server = TestServer::start(backend);
    server.client().put_ipam(&fixtures::ipam()).expect("ipam");
    server.client().create_machines(&[machine("m", 0, "worker")]).expect("registered");
    // One label a day, the first at the last moment of 15 November.
    server.clock.advance(SignedDuration::from_millis(86_399_999));
    for n in 0..4 {
        server.client().put_label("m", "day", &n.to_string()).expect("labelled");
        server.clock.advance(SignedDuration::from_secs(86_400));
    }
    let days = |query: &str| {
        let answer = request(&server.url(), "GET", &format!("/api/v1/logs{query}"), &[], b"");
        assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/x-ndjson")), "{query}");
        let entry = |line: &str| serde_json::from_str::<AuditLogJson>(line).expect("a line is an entry");
        let entries = answer.body.lines().map(entry).filter(|entry| entry.action == "put-label");
        entries.map(|entry| entry.detail.trim_start_matches("day/").to_owned()).collect::<Vec<_>>().join("")
    };
    assert_eq!(days(""), "0123");
    assert_eq!(days("?since=20261116"), "123");
    assert_eq!(days("?until=20261116"), "0");
    assert_eq!(days("?since=20261116&until=20261118"), "12");
    assert_eq!(days("?since=20261116&until=20261116"), "");
    assert_eq!(days("?since=20270101"), "");
    assert_eq!(days("?since=&until="), "0123");
    let empty = request(&server.url(), "GET", "/api/v1/logs?since=20270101", &[], b"");
    assert_eq!((empty.status, empty.body.as_str()), (200, ""));
    for bad in ["since=2026-11-16", "until=20261301", "since=yesterday", "until=2026111"] {
        let answer = request(&server.url(), "GET", &format!("/api/v1/logs?{bad}"), &[], b"");
        assert_eq!(answer.status, 400, "{bad}");
        assert!(answer.error().contains("a day such as 20300102 is expected"), "{}", answer.error());
    }
    assert_eq!(request(&server.url(), "POST", "/api/v1/logs", &[], b"").status, 405);
}

/// More entries than the store hands out at once.
fn a_long_log_comes_in_pages(backend: Backend) {
    const CHANGES: usize = 1_100;
    let server = TestServer::start(backend);
    server.client().put_ipam(&fixtures::ipam()).expect("ipam");
    server.client().create_machines(&[machine("m", 0, "worker")]).expect("registered");
    let client = server.client();
    for n in 0..CHANGES {
        client.put_label("m", "n", &n.to_string()).expect("labelled");
        server.clock.advance(SignedDuration::from_millis(1));
    }
    let details: Vec<String> = log(&server).into_iter().skip(2).map(|entry| entry.detail).collect();
    let expected: Vec<String> = (0..CHANGES).map(|n| format!("n/{n}")).collect();
    assert_eq!(details, expected, "all of them, in order");
}

/// A host whose clock is wrong for one boot must not cost the history of who did what.
fn a_start_with_the_clock_ahead_deletes_nothing(backend: Backend) {
    let mut server = TestServer::start(backend);
    server.client().put_ipam(&fixtures::ipam()).expect("ipam");
    server.client().create_machines(&[machine("m", 0, "worker")]).expect("registered");
    let before = log(&server);
    assert_eq!(before.len(), 2);
    server.clock.advance(SignedDuration::from_hours(100 * 24));
    server.restart();
    wait_for("the first look for old audit entries", Duration::from_secs(30), || {
        let figures = request(&server.url(), "GET", "/metrics", &[], b"").body;
        let line = figures.lines().find(|line| line.starts_with(LOOKED))?;
        line.rsplit_once(' ').and_then(|(_, at)| at.parse::<f64>().ok()).filter(|at| *at > 1.7e9)
    });
    assert_eq!(log(&server), before);
}

const LOOKED: &str = "sabakan_task_last_success_timestamp_seconds{task=\"retention\"}";
