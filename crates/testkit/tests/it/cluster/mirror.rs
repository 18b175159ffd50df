//! Copies for a CKE that carries the configuration out: only what it can execute safely, and its own planner and repairer off.

use std::time::Duration;

use sabakan_service::cluster::RoundEnd;
use sabakan_store::{Op, Txn, TxnOutcome, keys::MirroredKey};
use sabakan_testkit::{Backend, TestServer, fixtures, raw, wait_for};
use serde_json::Value;

const LONG: Duration = Duration::from_secs(60);

/// CKE's repair operation crashes on a step with an action, because it has no command.
const TEMPLATE: &str = "\
name: x
service_subnet: 10.68.0.0/16
nodes: [{user: u, control_plane: true}, {user: u}]
reboot: {reboot_command: [reboot], boot_check_command: [check], protected_job_pods: {matchLabels: {a: b}}}
repair:
  repair_procedures:
  - machine_types: [IPMI-2.0]
    repair_operations:
    - {operation: unreachable, health_check: registry, repair_steps: [{action: power-cycle}]}
";

fn put(server: &TestServer, path: &str, body: &str) {
    let answer = raw::request(&server.url(), "PUT", path, &[], body.as_bytes());
    assert_eq!(answer.status, 200, "{path}: {}", answer.body);
}

fn copy(server: &TestServer, name: &str) -> Option<String> {
    let value = server.dump().remove(&format!("/cke/{name}"))?;
    Some(String::from_utf8(value).expect("UTF-8"))
}

fn json(server: &TestServer, name: &str) -> Value {
    serde_json::from_str(&copy(server, name).expect("a copy")).expect("JSON")
}

/// Writes one of CKE's keys, as `ckecli` and earlier versions do.
fn write(server: &TestServer, name: &str, value: &str) {
    let txn = Txn { when: vec![], then: vec![Op::put(format!("/cke/{name}"), value.to_owned())] };
    let outcome = server.block_on(server.store().commit(txn)).expect("the store answers");
    assert!(matches!(outcome, TxnOutcome::Committed(_)));
}

fn assert_cke_is_off(server: &TestServer) {
    for switch in MirroredKey::SWITCHES {
        let name = switch.doc().pattern;
        assert_eq!(copy(server, name).as_deref(), Some("true"), "{name}: two programs would do the same");
    }
}

/// What the audit log says about corrections.
fn corrections(server: &TestServer) -> Vec<String> {
    let answer = raw::request(&server.url(), "GET", "/api/v1/logs", &[], b"");
    let actions = answer.body.lines().filter(|line| line.contains("correct-mirror"));
    actions.map(ToString::to_string).collect()
}

fn with_machines(mirror: Option<&str>) -> TestServer {
    let server = TestServer::start_with(Backend::Etcd, |config| {
        config.cluster.planner = true;
        config.cluster.settle = Duration::ZERO;
        config.cluster.mirror_prefix = mirror.map(str::to_owned);
    });
    let client = server.client();
    client.put_ipam(&fixtures::ipam()).expect("an IPAM configuration");
    let machines: Vec<_> = (0..3).map(|n| fixtures::machine(format!("m{n}"), n, "worker")).collect();
    client.create_machines(&machines).expect("registered");
    (0..3).for_each(|n| client.put_state(&format!("m{n}"), "healthy", false).expect("a state"));
    server
}

fn shown(server: &TestServer) -> Value {
    raw::request(&server.url(), "GET", "/api/v1/cluster/configuration", &[], b"").json()
}

/// How the last round of this server ended.
fn last(server: &TestServer) -> Option<RoundEnd> {
    server.block_on(server.cluster().status()).expect("a status").last.map(|round| round.end)
}

#[test]
fn a_cke_finds_what_was_planned_where_it_looks() {
    let server = with_machines(Some("/cke/"));
    put(&server, "/api/v1/constraints", r#"{"minimum-workers": 2, "maximum-repair-queue-entries": 5}"#);
    let constraints = json(&server, "constraints");
    assert_eq!((&constraints["minimum-workers"], &constraints["control-plane-count"]), (&2.into(), &1.into()));
    assert_eq!(constraints["maximum-repair-queue-entries"], 0, "CKE would enqueue repairs");
    assert_cke_is_off(&server);
    put(&server, "/api/v1/cluster/template", TEMPLATE);
    wait_for("the cluster", LONG, || copy(&server, "cluster"));
    let (copied, mut expected) = (json(&server, "cluster"), shown(&server));
    let members = expected.as_object_mut().expect("an object");
    assert!(members.remove("repair").is_some(), "we repair");
    members["reboot"].as_object_mut().expect("an object").remove("protected_job_pods").expect("of later versions");
    assert_eq!(copied, expected);
    let node = copied["nodes"][0].as_object().expect("a node");
    let keys: Vec<&str> = node.keys().map(String::as_str).collect();
    assert_eq!(keys, ["address", "annotations", "control_plane", "hostname", "labels", "taints", "user"]);
    assert!(copy(&server, "cluster-revision").is_some_and(|revision| revision.parse::<u64>().is_ok_and(|r| r > 0)));
    let mut documented = MirroredKey::ALL.map(|key| format!("/cke/{}", key.doc().pattern)).to_vec();
    documented.sort();
    let dump = server.dump();
    let found: Vec<_> = dump.keys().filter(|key| key.starts_with("/cke/")).cloned().collect();
    assert_eq!(found, documented);
    // A configuration that somebody writes is copied too, and turns off again what somebody turned on.
    put(&server, "/api/v1/cluster/enabled", r#"{"enabled": false}"#);
    write(&server, "auto-repair/disabled", "false");
    let mut by_hand = shown(&server);
    by_hand["nodes"][1]["labels"]["by"] = "hand".into();
    put(&server, "/api/v1/cluster/configuration", &by_hand.to_string());
    let copied = json(&server, "cluster");
    assert_eq!((&copied["nodes"][1]["labels"]["by"], copied.get("repair")), (&"hand".into(), None));
    assert_cke_is_off(&server);
}

#[test]
fn an_unsafe_copy_of_an_earlier_version_is_corrected_when_the_planner_begins_to_lead() {
    let mut server = with_machines(None);
    put(&server, "/api/v1/constraints", r#"{"minimum-workers": 2, "maximum-repair-queue-entries": 5}"#);
    put(&server, "/api/v1/cluster/template", TEMPLATE);
    wait_for("the cluster", LONG, || shown(&server)["nodes"].as_array().filter(|nodes| !nodes.is_empty()).cloned());
    assert_eq!(server.dump().keys().filter(|key| key.starts_with("/cke/")).count(), 0, "there is no mirror");
    // What was copied before.
    write(&server, "cluster", &shown(&server).to_string());
    write(&server, "constraints", r#"{"minimum-workers": 2, "maximum-repair-queue-entries": 5}"#);
    write(&server, "sabakan/disabled", "true");
    // A planner that is disabled leaves CKE alone: so does somebody who goes back to CKE's own generator.
    put(&server, "/api/v1/cluster/enabled", r#"{"enabled": false}"#);
    let mirrored = |config: &mut sabakan::config::ServerConfig| config.cluster.mirror_prefix = Some("/cke/".to_owned());
    server.restart_with(mirrored).expect("started");
    wait_for("a round", LONG, || last(&server).filter(|end| matches!(end, RoundEnd::Skipped(_))));
    assert!(json(&server, "cluster").get("repair").is_some(), "nothing was written");
    put(&server, "/api/v1/cluster/enabled", r#"{"enabled": true}"#);
    wait_for("CKE's repairer is off", LONG, || copy(&server, "repairs/disabled"));
    assert_cke_is_off(&server);
    assert_eq!(json(&server, "cluster").get("repair"), None);
    assert_eq!(json(&server, "constraints")["maximum-repair-queue-entries"], 0);
    assert_eq!(corrections(&server).len(), 1, "in one transaction");
    // Somebody turns CKE's repairer on: the next server that leads turns it off. Nothing else is written, and then nothing at all.
    write(&server, "auto-repair/disabled", "false");
    server.restart();
    wait_for("CKE's repairer is off again", LONG, || {
        copy(&server, "auto-repair/disabled").filter(|value| value == "true")
    });
    let log = corrections(&server);
    assert_eq!(log.len(), 2);
    assert!(log[1].contains("auto-repair/disabled") && !log[1].contains("constraints"), "{log:?}");
    server.restart();
    wait_for("a round", LONG, || last(&server).filter(|end| *end == RoundEnd::Nothing));
    assert_eq!(corrections(&server), log);
}
