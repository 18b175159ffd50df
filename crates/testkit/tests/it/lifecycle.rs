//! States, labels and dates of a machine over REST, and what programs outside see of them.

use jiff::SignedDuration;
use sabakan_domain::lifecycle::{EDGES, HealthState, Trigger};
use sabakan_testkit::{
    Backend, TestServer,
    fixtures::{self, machine},
    raw::{Answer, request},
};
use serde_json::{Value, json};

on_both_stores!(
    every_cell_of_the_table,
    force_goes_anywhere_but_into_retired,
    the_same_state_keeps_its_timestamp,
    words_that_are_no_state,
    labels_come_and_go,
    retire_dates_keep_their_offset,
    published_states_follow_the_record,
);

fn started(backend: Backend) -> TestServer {
    let server = TestServer::start(backend);
    server.client().put_ipam(&fixtures::ipam()).expect("ipam");
    server.client().create_machines(&[machine("m", 0, "worker")]).expect("registered");
    server
}

fn put_state(server: &TestServer, query: &str, word: &str) -> Answer {
    request(&server.url(), "PUT", &format!("/api/v1/state/m{query}"), &[], word.as_bytes())
}

fn get_state(server: &TestServer) -> String {
    let answer = request(&server.url(), "GET", "/api/v1/state/m", &[], b"");
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("text/plain")));
    answer.body
}

fn get(server: &TestServer) -> Value {
    request(&server.url(), "GET", "/api/v1/machines/m", &[], b"").json()[0].clone()
}

/// Brings the machine into a state, by force where the lifecycle knows no direct way.
fn bring(server: &TestServer, state: HealthState) {
    let path: &[HealthState] =
        if state == HealthState::Retired { &[HealthState::Retiring, HealthState::Retired] } else { &[state] };
    for state in path {
        let force = if *state == HealthState::Retired { "" } else { "?force=true" };
        let answer = put_state(server, force, state.as_str());
        assert_eq!((answer.status, answer.body.as_str()), (200, ""), "{state}");
    }
    assert_eq!(get_state(server), state.as_str());
}

fn pairs() -> impl Iterator<Item = (HealthState, HealthState)> {
    HealthState::ALL.into_iter().flat_map(|from| HealthState::ALL.into_iter().map(move |to| (from, to)))
}

fn every_cell_of_the_table(backend: Backend) {
    let server = started(backend);
    let mut moved = 0;
    for (from, to) in pairs() {
        bring(&server, from);
        let answer = put_state(&server, "", to.as_str());
        let allowed = EDGES.iter().any(|edge| (edge.from, edge.to, edge.on) == (from, to, Trigger::Request));
        if allowed || from == to {
            assert_eq!((answer.status, answer.body.as_str()), (200, ""), "{from} {to}");
            assert_eq!((answer.header("content-type"), answer.header("content-length")), (None, Some("0")));
            assert_eq!(get_state(&server), to.as_str());
            moved += 1;
        } else {
            let text = format!("transition from [ {from} ] to [ {to} ] is forbidden: Internal Server Error");
            assert_eq!((answer.status, answer.error()), (500, text));
            assert_eq!(answer.json()["kind"], "refused");
            assert_eq!(get_state(&server), from.as_str());
        }
    }
    assert_eq!(moved, 7 + 18, "the table of the documents, and retired to healthy");
}

fn force_goes_anywhere_but_into_retired(backend: Backend) {
    let server = started(backend);
    for (from, to) in pairs() {
        bring(&server, from);
        let answer = put_state(&server, "?force=true", to.as_str());
        let expected = if to != HealthState::Retired || matches!(from, HealthState::Retiring | HealthState::Retired) {
            200
        } else {
            500
        };
        assert_eq!(answer.status, expected, "{from} {to}");
        let now = if expected == 200 { to } else { from };
        assert_eq!(get_state(&server), now.as_str(), "{from} {to}");
    }
    // The log says which changes were forced.
    bring(&server, HealthState::Updating);
    put_state(&server, "?force=true", "unhealthy");
    put_state(&server, "?force=true", "healthy");
    let log = server.client().list_logs(None, None).expect("the log");
    let last: Vec<_> = log.iter().rev().take(2).map(|entry| entry.detail.as_str()).collect();
    assert_eq!(last, ["unhealthy -> healthy (forced)", "updating -> unhealthy (forced)"]);
    let other = put_state(&server, "?force=false", "uninitialized");
    assert_eq!(other.status, 500, "only a plain yes is force");
}

fn the_same_state_keeps_its_timestamp(backend: Backend) {
    let server = started(backend);
    put_state(&server, "", "healthy");
    let before = get(&server)["status"]["timestamp"].clone();
    let entries = server.client().list_logs(None, None).expect("the log").len();
    server.clock.advance(SignedDuration::from_secs(90));
    for query in ["", "?force=true"] {
        assert_eq!(put_state(&server, query, "healthy").status, 200);
    }
    let status = get(&server)["status"].clone();
    assert_eq!((&status["timestamp"], &status["duration"]), (&before, &json!(90.0)));
    assert_eq!(server.client().list_logs(None, None).expect("the log").len(), entries, "nothing changed");
    put_state(&server, "", "unhealthy");
    assert_eq!(get(&server)["status"]["timestamp"], "2026-11-15T00:01:30Z");
}

fn words_that_are_no_state(backend: Backend) {
    let server = started(backend);
    put_state(&server, "", "healthy");
    for bad in ["", "healthy\n", " healthy", "HEALTHY", "Dead", "broken", "ret\0ired"] {
        let answer = put_state(&server, "", bad);
        assert_eq!((answer.status, answer.error()), (400, format!("invalid request: invalid state: {bad}")));
    }
    let not_text = request(&server.url(), "PUT", "/api/v1/state/m", &[], b"\xff\xfe");
    assert_eq!(not_text.status, 400);
    let long = put_state(&server, "", &"x".repeat(129));
    assert_eq!((long.status, long.error().as_str()), (413, "the request body is larger than 128 bytes"));
    assert_eq!(put_state(&server, "", &"x".repeat(128)).status, 400);
    assert_eq!(get_state(&server), "healthy");
    // The oldest text's word.
    assert_eq!(put_state(&server, "", "dead").status, 200);
    assert_eq!(get_state(&server), "unreachable");

    let answer = |method: &str, path: &str| request(&server.url(), method, path, &[], b"healthy");
    for method in ["GET", "PUT"] {
        assert_eq!(answer(method, "/api/v1/state/nobody").status, 404);
        for nameless in ["/api/v1/state", "/api/v1/state/"] {
            let answer = answer(method, nameless);
            assert_eq!((answer.status, answer.error().as_str()), (400, "invalid request: serial is empty"));
        }
        for bad in ["..", "%2e%2e", "a%2Fb", "a%00"] {
            assert_eq!(answer(method, &format!("/api/v1/state/{bad}")).status, 400, "{method} {bad}");
        }
    }
    assert_eq!(answer("DELETE", "/api/v1/state/m").status, 405);
}

fn labels_come_and_go(backend: Backend) {
    let server = started(backend);
    let label = |method: &str, path: &str, body: &[u8]| {
        let answer = request(&server.url(), method, &format!("/api/v1/labels{path}"), &[], body);
        (answer.status, if answer.status == 200 { answer.body } else { answer.error() })
    };
    let labels = || get(&server)["spec"]["labels"].clone();
    let fine = || (200, String::new());
    assert_eq!(label("PUT", "/m/datacenter", b"ty3"), fine());
    assert_eq!(label("PUT", "/m/empty", b""), fine());
    assert_eq!(label("PUT", "/m/datacenter", b"ty4"), fine());
    assert_eq!(labels(), json!({"datacenter": "ty4", "empty": ""}));
    // In any state.
    bring(&server, HealthState::Retired);
    assert_eq!(label("PUT", "/m/late", b"1"), fine());
    assert_eq!(label("DELETE", "/m/empty", b""), fine());
    assert_eq!(labels(), json!({"datacenter": "ty4", "late": "1"}));
    let found = request(&server.url(), "GET", "/api/v1/machines?labels=late=1", &[], b"");
    assert_eq!(found.status, 200);

    let before = labels();
    let log = server.client().list_logs(None, None).expect("the log").len();
    let not_found = (404, "requested resource is not found".to_owned());
    assert_eq!(label("DELETE", "/m/empty", b""), not_found);
    assert_eq!(label("DELETE", "/nobody/late", b""), not_found);
    assert_eq!(label("PUT", "/nobody/late", b"1"), not_found);
    assert_eq!(label("PUT", "/m/late", b"1"), fine(), "the value it has");
    let bad = |method: &str, path: &str, body: &[u8], begin: &str| {
        let (status, text) = label(method, path, body);
        assert!(status == 400 && text.starts_with(&format!("invalid request: {begin}")), "{path}: {status} {text}");
    };
    for name in ["a%20b", "-a", "%2e%2e", "a%2Fb", "a%00", &"a".repeat(64)] {
        bad("PUT", &format!("/m/{name}"), b"1", "invalid label name");
        bad("DELETE", &format!("/m/{name}"), b"1", "invalid label name");
    }
    for value in [&b"a b"[..], b"a\n", b" ", b"\xff", b"a/b", &[b'a'; 64]] {
        bad("PUT", "/m/x", value, "invalid label value");
    }
    bad("PUT", "/%2e%2e/x", b"1", "invalid serial");
    for path in ["", "/", "/m", "/m/", "/m/x/", "/m/x/y"] {
        bad("PUT", path, b"1", "the path must be labels/<serial>/<name>");
    }
    assert_eq!(label("PUT", "/m/x", &[b'a'; 1025]).0, 413);
    assert_eq!(label("GET", "/m/late", b""), (405, "method not allowed".to_owned()));
    assert_eq!(labels(), before);
    assert_eq!(server.client().list_logs(None, None).expect("the log").len(), log, "what is refused is no change");
}

fn retire_dates_keep_their_offset(backend: Backend) {
    let server = started(backend);
    let put = |path: &str, body: &str| request(&server.url(), "PUT", path, &[], body.as_bytes());
    for (written, shown) in [
        ("2030-01-02T03:04:05Z", "2030-01-02T03:04:05Z"),
        (" 2030-01-02T03:04:05.5+09:00\n", "2030-01-02T03:04:05.5+09:00"),
    ] {
        let answer = put("/api/v1/retire-date/m", written);
        assert_eq!((answer.status, answer.body.as_str()), (200, ""));
        assert_eq!(get(&server)["spec"]["retire-date"], shown);
    }
    let before = get(&server);
    for bad in ["", "2030-01-02", "tomorrow", "2030-01-02T03:04:05", "2030-13-02T03:04:05Z", "2030-01-02T03:04:05Z x"] {
        let answer = put("/api/v1/retire-date/m", bad);
        assert!(answer.status == 400 && answer.error().starts_with("invalid request: invalid time"), "{bad}");
    }
    assert_eq!(put("/api/v1/retire-date/m", &" ".repeat(1025)).status, 413);
    assert_eq!(put("/api/v1/retire-date/nobody", "2030-01-02T03:04:05Z").status, 404);
    assert_eq!(put("/api/v1/retire-date/", "2030-01-02T03:04:05Z").status, 400);
    assert_eq!(put("/api/v1/retire-date/%2e%2e", "2030-01-02T03:04:05Z").status, 400);
    assert_eq!(get(&server), before);
}

fn published_states_follow_the_record(backend: Backend) {
    let server = started(backend);
    server.client().create_machines(&[machine("other", 0, "worker")]).expect("registered");
    put_state(&server, "", "healthy");
    server.client().put_label("m", "a", "1").expect("labelled");
    check_published(&server, "healthy");
    put_state(&server, "", "retiring");
    check_published(&server, "retiring");
    server.client().delete_keys("m").expect("no keys, but retired now");
    check_published(&server, "retired");
    server.client().remove_machine("m").expect("removed");
    let all = server.dump();
    assert!(!all.contains_key("/states/m") && !all.contains_key("/sabakan/machines/m"), "{:?}", all.keys());
    assert!(all.contains_key("/states/other"), "{:?}", all.keys());
    if let Some(etcd) = &server.etcd {
        assert_eq!(etcd.etcdctl(&["get", "/states/m"]), "");
    }
}

fn check_published(server: &TestServer, state: &str) {
    let all = server.dump();
    let record = &all["/sabakan/machines/m"];
    assert_eq!(&all["/states/m"], record, "the published copy is the record");
    let json: Value = serde_json::from_slice(record).expect("JSON");
    assert_eq!(json["status"]["state"], state);
    assert_eq!(json["spec"]["labels"], json!({"a": "1"}));
    if let Some(etcd) = &server.etcd {
        let value = |key: &str| etcd.etcdctl(&["get", "--print-value-only", key]);
        assert_eq!(value("/states/m").trim().as_bytes(), record.as_slice(), "what a foreign program reads");
    }
}

#[test]
fn a_foreign_watcher_of_etcd_sees_every_state() {
    use std::{
        io::{BufRead as _, BufReader},
        process::{Command, Stdio},
    };
    let server = started(Backend::Etcd);
    let etcd = server.etcd.as_ref().expect("on etcd");
    let mut watcher = Command::new("etcdctl")
        .env("ETCDCTL_API", "3")
        .args(["--endpoints", &etcd.endpoints().join(","), "watch", "--prefix", "/states/", "--rev", "1"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("etcdctl runs");
    server.client().put_state("m", "healthy", false).expect("healthy");
    let lines = BufReader::new(watcher.stdout.take().expect("its output")).lines();
    let told = lines.map_while(Result::ok).find(|line| line.contains("\"state\":\"healthy\""));
    watcher.kill().expect("stopped");
    watcher.wait().expect("ended");
    assert!(told.is_some_and(|line| line.contains("\"serial\":\"m\"")), "the state was published");
}
