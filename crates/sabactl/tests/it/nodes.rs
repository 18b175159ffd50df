//! `sabactl nodes` against a real server with simulated machines: whole chains, exit codes, several nodes at once.

use std::time::{Duration, Instant};

use sabakan_testkit::{
    Backend,
    rack::Rack,
    simulated::{Fault, FleetConfig, Latencies, Point},
};
use serde_json::Value;

use crate::{
    fake,
    program::{Outcome, sabactl},
};

fn run(rack: &Rack, words: &str) -> Outcome {
    run_with(rack, words, "")
}

fn run_with(rack: &Rack, words: &str, stdin: &str) -> Outcome {
    let url = rack.server.ironic_url();
    sabactl(["nodes", "--ironic-server", &url].into_iter().chain(words.split(' ')), stdin)
}

/// Succeeds; what it printed.
fn fine(rack: &Rack, words: &str) -> String {
    let outcome = run(rack, words);
    assert_eq!(outcome.code, 0, "{words}: {}{}", outcome.stdout, outcome.stderr);
    outcome.stdout
}

/// Fails; its complaints.
fn fails(rack: &Rack, words: &str, code: i32) -> String {
    let outcome = run(rack, words);
    assert_eq!(outcome.code, code, "{words}: {}{}", outcome.stdout, outcome.stderr);
    outcome.stderr
}

fn json(rack: &Rack, words: &str) -> Value {
    serde_json::from_str(&fine(rack, words)).expect("JSON")
}

#[test]
fn a_machine_goes_from_enrolment_to_use_and_back() {
    let rack = Rack::start(Backend::Embedded);
    rack.register(&["a"]);
    assert_eq!(fine(&rack, "manage a --wait"), "a: manageable\n");
    assert_eq!(fine(&rack, "inspect a --wait"), "a: manageable\n");
    let inventory = json(&rack, "inventory a");
    assert!(inventory["inventory"].is_object(), "{inventory}");
    assert_eq!(fine(&rack, "clean a --step deploy.erase_devices_metadata --wait"), "a: manageable\n");
    assert_eq!(fine(&rack, "provide a --wait"), "a: available\n");
    assert_eq!(fine(&rack, "deploy a --wait"), "a: active\n");
    assert_eq!(fine(&rack, "rebuild a --wait"), "a: active\n");
    let uuid = json(&rack, "show --json a")["uuid"].as_str().expect("a UUID").to_owned();
    assert_eq!(fine(&rack, &format!("power off {uuid} --wait")), format!("{uuid}: power off\n"));
    assert_eq!(fine(&rack, "power reboot a --wait"), "a: power on\n");
    assert_eq!(fine(&rack, "undeploy a --wait"), "a: available\n");
    assert_eq!(fine(&rack, "wait a --for available --timeout 5s"), "a: available\n");

    let history = fine(&rack, "history a");
    assert!(history.starts_with("Time "), "{history}");
    assert!(history.contains("verifying"), "{history}");
    let rows = json(&rack, "history --json a");
    let rows = rows.as_array().expect("rows");
    assert!(rows.len() > 20, "{}", rows.len());
    assert!(rows.iter().all(|row| row["created_at"].is_string() && row["event"].is_string()));

    let list = fine(&rack, "list --state available");
    let lines: Vec<&str> = list.lines().collect();
    assert!(lines[0].starts_with("Name State     Target Power Driver"), "{list}");
    assert!(lines[1].starts_with("a    available -      "), "{list}");
    assert_eq!(json(&rack, "list --json --state active,enroll"), Value::Array(vec![]));
}

#[test]
fn refused_wishes_say_why_and_change_nothing() {
    let rack = Rack::start(Backend::Embedded);
    rack.register(&["a"]);
    let stderr = fails(&rack, "deploy a --wait", 4);
    assert!(stderr.contains("Bad Request") && stderr.contains("manage"), "{stderr}");
    let stderr = fails(&rack, "show b", 14);
    assert!(stderr.contains("sabactl nodes list shows the nodes there are."), "{stderr}");
    assert!(fails(&rack, "set a", 1).contains("nothing is given to set"));
    assert!(fails(&rack, "clean a", 1).contains("no step is given"));
    assert!(fails(&rack, "inventory a", 14).contains("it was never inspected"));
    let shown = fine(&rack, "show a");
    assert!(shown.contains("\nState       enroll, since "), "{shown}");
    assert!(shown.contains("\nNext        sabactl nodes manage\n"), "{shown}");
    assert!(shown.contains("\nMachine     uninitialized\n"), "{shown}");
}

#[test]
fn one_broken_machine_among_several_is_named() {
    let rack = Rack::start(Backend::Embedded);
    rack.register(&["a", "b", "c"]);
    rack.fleet.set_fault("b", Fault::WrongPassword);
    let outcome = run(&rack, "manage a b c --wait");
    assert_eq!(outcome.code, 6, "{}", outcome.stderr);
    let mut lines: Vec<&str> = outcome.stdout.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["a: manageable", "c: manageable"]);
    assert!(outcome.stderr.contains("b: verify failed: "), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("Error: 1 of 3 nodes did not succeed\n"), "{}", outcome.stderr);

    let outcome = run(&rack, "manage b --wait --json");
    assert_eq!(outcome.code, 6, "{}", outcome.stdout);
    let told: Value = serde_json::from_str(&outcome.stdout).expect("JSON");
    assert_eq!((&told[0]["node"], &told[0]["ok"], &told[0]["exit_code"]), (&"b".into(), &false.into(), &6.into()));
    let shown = fine(&rack, "show b");
    assert!(shown.contains("verify failed (failed)") && shown.contains("\nLast error  "), "{shown}");
    let listed = fine(&rack, "list --stuck=0");
    assert!(listed.contains("\nb ") && !listed.contains("\na "), "{listed}");

    rack.fleet.clear_faults("b");
    assert_eq!(fine(&rack, "manage b --wait"), "b: manageable\n");
}

#[test]
fn waiting_shows_what_is_waited_for_and_ends_in_time() {
    let latencies = Latencies { boot: Duration::from_secs(3600), ..Latencies::none() };
    let rack = Rack::start_with(Backend::Embedded, FleetConfig { latencies, ..FleetConfig::default() }, |_| {});
    rack.register(&["a"]);
    fine(&rack, "manage a --wait");
    let begun = Instant::now();
    let stderr = fails(&rack, "provide a --wait --timeout 2s", 7);
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    assert!(stderr.contains("a: clean wait -> available, step "), "{stderr}");
    assert!(stderr.contains("Error: a: not done after 2s"), "{stderr}");
    let shown = fine(&rack, "show a");
    assert!(shown.contains("\nWaits for   ") && shown.contains("; given up at "), "{shown}");
    assert!(shown.contains("\nWork        automated clean, asked for "), "{shown}");
    assert!(shown.contains("\nNext        sabactl nodes abort\n"), "{shown}");
    let listed = fine(&rack, "list");
    assert!(listed.contains("clean-wait") && listed.contains("step "), "{listed}");

    assert_eq!(fine(&rack, "abort a --wait"), "a: clean failed -> available\n");
    assert!(fails(&rack, "wait a", 6).contains("aborted"));
    assert_eq!(fine(&rack, "manage a --wait"), "a: manageable\n");
}

#[test]
fn what_people_say_about_a_node_is_kept_and_its_secrets_are_not_shown() {
    let rack = Rack::start(Backend::Embedded);
    rack.register(&["a", "b"]);
    assert_eq!(fine(&rack, "maintenance set --reason fan a b").lines().count(), 2);
    let listed = json(&rack, "list --json --maintenance");
    assert_eq!(listed.as_array().map(Vec::len), Some(2));
    assert_eq!(listed[0]["maintenance_reason"], "fan");
    assert!(fine(&rack, "show a").contains("Maintenance yes: fan"));
    fine(&rack, "maintenance clear a b");
    assert_eq!(json(&rack, "list --json --maintenance"), Value::Array(vec![]));

    let set = "set a --driver fake-hardware --driver-info fake_delay_ms=1 --driver-secret fake_password=-";
    let outcome = run_with(&rack, set, "sim-Pa55word\n");
    assert_eq!((outcome.code, outcome.stdout.as_str()), (0, "a: set\n"), "{}", outcome.stderr);
    let shown = fine(&rack, "show --json a");
    assert!(!shown.contains("sim-Pa55word") && shown.contains("fake_password"), "{shown}");
    assert_eq!(fine(&rack, "manage a --wait"), "a: manageable\n");
    assert_eq!(run_with(&rack, "set a --driver-secret fake_password=-", "wrong").code, 0);
    rack.fleet.set_fault("b", Fault::Fail(Point::Every));
    assert!(fails(&rack, "manage b --wait", 6).contains("b: verify failed"));
    fine(&rack, "set a --remove-driver-info fake_password --automated-clean false");
    assert_eq!(json(&rack, "show --json a")["automated_clean"], false);
}

#[test]
fn an_api_that_is_not_there_is_named() {
    let outcome = sabactl(["--server", "http://127.0.0.1:1", "nodes", "list"], "");
    assert_eq!(outcome.code, 1);
    assert!(
        outcome.stderr.contains("cannot connect to http://127.0.0.1:6385: connection refused"),
        "{}",
        outcome.stderr
    );
    assert!(outcome.stderr.contains("--ironic-server or SABAKAN_IRONIC_SERVER"), "{}", outcome.stderr);
    let (url, server) =
        fake::answers(vec![(404, r#"{"error_message":"{\"faultstring\":\"Node x could not be found.\"}"}"#.into())]);
    let outcome = sabactl(["nodes", "--ironic-server", &url, "history", "x"], "");
    assert_eq!((outcome.code, outcome.stdout.as_str()), (14, ""));
    assert!(outcome.stderr.starts_with("Error: Not Found: Node x could not be found.\n"), "{}", outcome.stderr);
    assert!(server.join().unwrap()[0].contains("x-openstack-ironic-api-version: latest\r\n"));
}
