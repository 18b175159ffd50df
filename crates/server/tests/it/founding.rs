//! The curl examples of the founding text, letter by letter but for the port.

use std::process::Command;

use sabakan_testkit::process::Process;
use serde_json::{Value, json};

use crate::SABAKAN;

const PUT_CONFIG: &str = r#"curl -XPUT localhost:8888/api/v1/config -d '
{
   "max-nodes-in-rack": 28,
   "node-ipv4-pool": "10.69.0.0/16",
   "node-ipv4-range-size": 6,
   "node-ipv4-range-mask": 26,
   "node-ip-per-node": 3,
   "node-index-offset": 3,
   "bmc-ipv4-pool": "10.72.16.0/20",
   "bmc-ipv4-range-size": 5,
   "bmc-ipv4-range-mask": 20
}'"#;

const GET_CONFIG: &str = "curl -XGET localhost:8888/api/v1/config";

const POST_MACHINES: &str = r#"curl -i -X POST \
   -H "Content-Type:application/json" \
   -d \
'[{
  "serial": "1234abcd",
  "product": "R630",
  "datacenter": "ty3",
  "rack": 1,
  "role": "boot"
}]' \
 'http://localhost:8888/api/v1/machines'"#;

const GET_BY_SERIAL: &str = "curl -XGET 'localhost:8888/api/v1/machines?serial=1234abcd'";
const GET_BY_THREE: &str = "curl -XGET 'localhost:8888/api/v1/machines?datacenter=ty3&rack=1&product=R630'";
const GET_BY_ADDRESS: &str = "curl -XGET 'localhost:8888/api/v1/machines?ipv4=10.20.30.40'";
const DELETE_MACHINE: &str = "curl -i -X DELETE 'localhost:8888/api/v1/machines/1234abcd'";

/// Runs a command line of the text against a server; its standard output.
fn shell(server: &Process, command: &str) -> String {
    assert!(command.contains("localhost:8888"));
    let command = command.replace("localhost:8888", &server.address("http"));
    let output = Command::new("sh").args(["-c", &command]).output().expect("sh runs");
    assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

fn json_of(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn the_examples_of_the_founding_text_work() {
    let dir = tempfile::tempdir().expect("a directory");
    let no_flags: [&str; 0] = [];
    let server = Process::start(SABAKAN, &dir.path().join("data"), no_flags);

    assert_eq!(json_of(&shell(&server, GET_CONFIG))["status"], 404);
    assert_eq!(shell(&server, PUT_CONFIG), "null\n");
    let config = json_of(&shell(&server, GET_CONFIG));
    for (key, value) in [
        ("max-nodes-in-rack", json!(28)),
        ("node-ipv4-pool", json!("10.69.0.0/16")),
        ("node-ipv4-range-size", json!(6)),
        ("node-ipv4-range-mask", json!(26)),
        ("node-ip-per-node", json!(3)),
        ("node-index-offset", json!(3)),
        ("bmc-ipv4-pool", json!("10.72.16.0/20")),
        ("bmc-ipv4-range-size", json!(5)),
        ("bmc-ipv4-range-mask", json!(20)),
    ] {
        assert_eq!(config[key], value, "{key}");
    }

    let created = shell(&server, POST_MACHINES);
    assert!(created.starts_with("HTTP/1.1 201 Created\r\n"), "{created}");
    let again = shell(&server, POST_MACHINES);
    assert!(again.starts_with("HTTP/1.1 409 Conflict\r\n"), "{again}");

    // Its flat keys; the addresses are those of rack 1 and index 3, which the example in the text does not compute.
    let found = json_of(&shell(&server, GET_BY_SERIAL));
    let machine = &found[0];
    let node = |address: &str| json!({"ipv4": [address], "ipv6": null});
    for (key, value) in [
        ("serial", json!("1234abcd")),
        ("product", json!("R630")),
        ("datacenter", json!("ty3")),
        ("rack", json!(1)),
        ("index-in-rack", json!(3)),
        ("role", json!("boot")),
        ("network", json!({"node0": node("10.69.0.195"), "node1": node("10.69.1.3"), "node2": node("10.69.1.67")})),
    ] {
        assert_eq!(machine[key], value, "{key}");
    }
    assert_eq!(machine["bmc"]["ipv4"], json!(["10.72.16.35"]));
    assert_eq!(json_of(&shell(&server, GET_BY_THREE))[0]["serial"], "1234abcd");
    assert_eq!(json_of(&shell(&server, GET_BY_ADDRESS))["status"], 404);

    // The product's decision over the text's: only retired machines are removed.
    let refused = shell(&server, DELETE_MACHINE);
    assert!(refused.starts_with("HTTP/1.1 500 Internal Server Error\r\n"), "{refused}");
    assert!(refused.contains("non-retired machine cannot be deleted"), "{refused}");

    let put_again = json_of(&shell(&server, PUT_CONFIG));
    assert_eq!((&put_again["status"], &put_again["kind"]), (&json!(500), &json!("refused")));
}
