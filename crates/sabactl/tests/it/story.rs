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
fn thousands_are_sent_in_batches() {
    let server = TestServer::start(Backend::Embedded);
    server.client().put_ipam(&fixtures::wide_ipam()).expect("ipam");
    let machines = serde_json::to_string(&fixtures::workers(2_500, 0)).expect("JSON");
    let outcome = sabactl(["--server", &server.url(), "machines", "create", "-f", "-"], &machines);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert_eq!(server.client().list_machines(&Default::default()).expect("machines").len(), 2_500);
}

#[test]
fn what_etcd_does_not_take_at_once_comes_with_advice() {
    let server = TestServer::start(Backend::Etcd);
    server.client().put_ipam(&fixtures::wide_ipam()).expect("ipam");
    let machines = serde_json::to_string(&fixtures::workers(300, 0)).expect("JSON");
    let url = server.url();
    let create = ["--server", &url, "machines", "create", "-f", "-"];
    let refused = sabactl(create, &machines);
    assert_eq!(refused.code, 4, "{}", refused.stderr);
    assert!(refused.stderr.contains("--max-txn-ops") && refused.stderr.contains("--batch-size"), "{}", refused.stderr);
    let accepted = sabactl(create.into_iter().chain(["--batch-size", "100"]), &machines);
    assert_eq!(accepted.code, 0, "{}", accepted.stderr);
    assert_eq!(server.client().list_machines(&Default::default()).expect("machines").len(), 300);
}
