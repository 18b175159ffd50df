//! The founding text's commands against a real server, on both stores.

use std::fs;

use sabakan_testkit::{Backend, TestServer, fixtures};
use serde_json::{Value, json};

use crate::program::{Outcome, sabactl};

#[test]
fn a_rack_is_registered_and_found_on_the_embedded_store() {
    a_rack_is_registered_and_found(Backend::Embedded);
}

#[test]
fn a_rack_is_registered_and_found_on_etcd() {
    a_rack_is_registered_and_found(Backend::Etcd);
}

fn a_rack_is_registered_and_found(backend: Backend) {
    let server = TestServer::start(backend);
    let url = server.url();
    let run = |args: &[&str], stdin: &str| sabactl(["--server", &url].into_iter().chain(args.iter().copied()), stdin);
    let fine = |outcome: Outcome| {
        assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""), "{}", outcome.stdout);
        outcome.stdout
    };
    let fails = |outcome: Outcome, code: i32, text: &str| {
        assert_eq!(outcome.code, code, "{}", outcome.stderr);
        assert!(outcome.stderr.starts_with(text), "{}", outcome.stderr);
    };

    fails(run(&["ipam", "get"], ""), 14, "Error: Not Found: requested resource is not found");
    let machines = json!([
        {"serial": "1234abcd", "product": "R630", "datacenter": "ty3", "rack": 1, "role": "boot"},
        {"serial": "w1", "rack": 1, "role": "worker", "bmc": {"type": "iDRAC-9"}},
    ])
    .to_string();
    fails(run(&["machines", "create", "-f", "-"], &machines), 5, "Error: Internal Server Error: IPAMConfig is not set");

    let file = server.dir().path().join("ipam.json");
    fs::write(&file, serde_json::to_string(&fixtures::ipam()).expect("JSON")).expect("written");
    assert_eq!(fine(run(&["ipam", "set", "-f", file.to_str().expect("UTF-8")], "")), "");
    let shown: Value = serde_json::from_str(&fine(run(&["ipam", "get"], ""))).expect("JSON");
    assert_eq!(shown, serde_json::to_value(fixtures::ipam()).expect("JSON"));

    assert_eq!(fine(run(&["machines", "create", "-f", "-"], &machines)), "");
    fails(
        run(&["machines", "create", "-f", "-"], &machines),
        19,
        "Error: Conflict: conflicted: rack 1 already has a boot",
    );
    let simple = fine(run(&["machines", "get", "-o", "simple"], ""));
    let expected = "\
Serial   Rack Role   State         IPv4        BMC
1234abcd 1    boot   uninitialized 10.69.0.195 unknown
w1       1    worker uninitialized 10.69.0.196 iDRAC-9
";
    assert_eq!(simple, expected);
    let table = fine(run(&["machines", "get", "-o", "table", "--product", "R630"], ""));
    assert!(table.contains("1234abcd") && table.contains("10.72.17.35") && !table.contains("w1 "), "{table}");
    let found: Value =
        serde_json::from_str(&fine(run(&["machines", "get", "-without-role", "boot"], ""))).expect("JSON");
    assert_eq!(found.as_array().map(Vec::len), Some(1));
    assert_eq!(found[0]["spec"]["serial"], "w1");
    fails(run(&["machines", "get", "--serial", "nobody"], ""), 14, "Error: Not Found");
    fails(run(&["machines", "remove", "w1"], ""), 5, "Error: Internal Server Error: non-retired machine");
    fails(run(&["machines", "remove", "nobody"], ""), 14, "Error: Not Found");
    fails(
        run(&["ipam", "set", "-f", file.to_str().expect("UTF-8")], ""),
        5,
        "Error: Internal Server Error: machines already",
    );
}

#[test]
fn a_machine_is_used_and_retired_on_the_embedded_store() {
    a_machine_is_used_and_retired(Backend::Embedded);
}

#[test]
fn a_machine_is_used_and_retired_on_etcd() {
    a_machine_is_used_and_retired(Backend::Etcd);
}

fn a_machine_is_used_and_retired(backend: Backend) {
    let server = TestServer::start(backend);
    server.client().put_ipam(&fixtures::ipam()).expect("ipam");
    server.client().create_machines(&fixtures::workers(3, 0)).expect("registered");
    let (one, two, three) = ("w00000-000000", "w00000-000001", "w00000-000002");
    let url = server.url();
    let run = |args: &[&str]| sabactl(["--server", &url].into_iter().chain(args.iter().copied()), "");
    let fine = |args: &[&str], stdout: &str| {
        let outcome = run(args);
        assert_eq!((outcome.code, outcome.stderr.as_str(), outcome.stdout.as_str()), (0, "", stdout), "{args:?}");
    };
    let fails = |args: &[&str], code: i32, text: &str| {
        let outcome = run(args);
        assert_eq!((outcome.code, outcome.stderr.lines().next()), (code, Some(text)), "{args:?}");
    };
    fine(&["machines", "get-state", one], "uninitialized\n");
    fine(&["machines", "set-state", one, "HEALTHY"], "");
    fine(&["machines", "get-state", one], "healthy\n");
    let forbidden = "Error: Internal Server Error: transition from [ healthy ] to [ uninitialized ] is forbidden: Internal Server Error";
    fails(&["machines", "set-state", one, "uninitialized"], 5, forbidden);
    fine(&["machines", "set-state", "--force", one, "uninitialized"], "");
    fails(&["machines", "set-state", one, "asleep"], 4, "Error: Bad Request: invalid request: invalid state: asleep");
    fails(&["machines", "get-state", "nobody"], 14, "Error: Not Found: requested resource is not found");
    fine(&["machines", "set-label", one, "slot", "u7"], "");
    fine(&["machines", "set-label", one, "empty", ""], "");
    fine(&["machines", "remove-label", one, "empty"], "");
    fails(&["machines", "remove-label", one, "empty"], 14, "Error: Not Found: requested resource is not found");
    fine(&["machines", "set-retire-date", one, "2031-02-28"], "");
    let machine = &server.client().list_machines(&Default::default()).expect("machines")[0].spec;
    assert_eq!(machine.retire_date, "2031-02-28T00:00:00Z");
    assert_eq!(machine.labels.as_ref().and_then(|labels| labels.get("slot")).map(String::as_str), Some("u7"));

    server.client().put_key(one, "disk", b"the key").expect("a key");
    fails(&["crypts", "delete", one], 1, "Error: use --force explicitly");
    fails(
        &["crypts", "delete", "--force", one],
        5,
        "Error: Internal Server Error: machine is not retiring: Internal Server Error",
    );
    let outcome = run(&["machines", "remove", "--state", "retired"]);
    assert_eq!((outcome.code, outcome.stdout.as_str(), outcome.stderr.as_str()), (0, "", "No machine is retired.\n"));
    for serial in [one, two] {
        fine(&["machines", "set-state", serial, "retiring"], "");
        fine(&["crypts", "delete", "-force", serial], "");
        fine(&["machines", "get-state", serial], "retired\n");
    }
    fine(&["machines", "remove", "--state", "retired"], &format!("removed {one}\nremoved {two}\n"));
    let left = server.client().list_machines(&Default::default()).expect("machines");
    assert_eq!(left.iter().map(|machine| machine.spec.serial.as_str()).collect::<Vec<_>>(), [three]);

    let all = run(&["logs"]).stdout;
    assert!(
        all.contains(&format!("Nov 15 00:00:00.000 operator@127.0.0.1 machines/{one} put-label detail:slot/u7\n")),
        "{all}"
    );
    assert!(all.contains(&format!("crypts/{one} delete detail:disk sha256:")), "{all}");
    assert_eq!(run(&["log", "20261115"]).stdout, all, "all of it is of this day");
    fine(&["logs", "20261116"], "");
    fine(&["logs", "20261114", "20261115"], "");
    let lines = run(&["logs", "--json", "20261101", "20261201"]).stdout;
    assert_eq!(lines.lines().count(), all.lines().count());
    let entry: Value = serde_json::from_str(lines.lines().last().expect("a line")).expect("JSON");
    assert_eq!((&entry["action"], &entry["instance"]), (&json!("delete"), &json!(two)));
}

#[test]
fn tokens_are_made_used_and_revoked() {
    let server = TestServer::start(Backend::Embedded);
    let url = server.url();
    let run = |args: &[&str]| sabactl(["--server", &url].into_iter().chain(args.iter().copied()), "");
    let created = run(&["tokens", "create", "--role", "read", "alice"]);
    assert_eq!((created.code, created.stderr.as_str(), created.stdout.lines().count()), (0, "", 1));
    let id = created.stdout.split('_').nth(1).expect("an id").to_owned();
    let list = run(&["tokens", "list"]).stdout;
    let begin = format!(
        "{:width$} Role Serial Created              Name\n{id} read -      2026-11-15T00:00:00Z alice\n",
        "ID",
        width = id.len()
    );
    assert_eq!(list, begin);
    let file = server.dir().path().join("alice.token");
    fs::write(&file, &created.stdout).expect("written");
    let file = file.to_str().expect("UTF-8");
    // From an allowed address a token takes no right away.
    let logs = run(&["--token-file", file, "logs"]);
    assert_eq!((logs.code, logs.stdout.lines().count()), (0, 1), "{}", logs.stderr);
    assert_eq!(run(&["tokens", "revoke", &id]).code, 0);
    let refused = run(&["logs", "--token-file", file]);
    assert_eq!(refused.code, 4);
    let text = "Error: Unauthorized: unauthorized: the token is malformed, unknown or revoked";
    assert!(refused.stderr.starts_with(text) && refused.stderr.contains("--token-file"), "{}", refused.stderr);
    let missing = run(&["--token-file", "/nonexistent/token", "logs"]);
    assert_eq!((missing.code, missing.stderr.as_str()), (1, "Error: /nonexistent/token: No such file or directory\n"));
}

#[test]
fn thousands_are_sent_in_batches() {
    let server = TestServer::start(Backend::Embedded);
    server.client().put_ipam(&fixtures::wide_ipam()).expect("ipam");
    let machines = serde_json::to_string(&fixtures::workers(2_500, 0)).expect("JSON");
    let outcome = sabactl(["--server", &server.url(), "machines", "create", "-f", "-"], &machines);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert_eq!(server.client().list_machines(&Default::default()).expect("machines").len(), 2_500);
}

#[test]
fn what_etcd_does_not_take_at_once_is_sent_in_smaller_requests() {
    let server = TestServer::start(Backend::Etcd);
    server.client().put_ipam(&fixtures::wide_ipam()).expect("ipam");
    let machines = serde_json::to_string(&fixtures::workers(1_800, 0)).expect("JSON");
    let url = server.url();
    let create = ["--server", &url, "machines", "create", "-f", "-"];
    // Whoever asks for one size gets that one or none.
    let refused = sabactl(create.into_iter().chain(["--batch-size", "1800"]), &machines);
    assert_eq!(refused.code, 4, "{}", refused.stderr);
    assert!(
        refused.stderr.contains("fit into one request") && refused.stderr.contains("--batch-size"),
        "{}",
        refused.stderr
    );
    assert_eq!(server.client().list_machines(&Default::default()).map_or(0, |machines| machines.len()), 0);
    let accepted = sabactl(create, &machines);
    assert_eq!(accepted.code, 0, "{}", accepted.stderr);
    assert!(accepted.stderr.contains("Registered 1800 machines in "), "{}", accepted.stderr);
    assert_eq!(server.client().list_machines(&Default::default()).expect("machines").len(), 1_800);
}
