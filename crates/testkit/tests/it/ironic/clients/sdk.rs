//! openstacksdk, in a script of ours: `sdk.py` says what it does and checks most of what it sees.

use sabakan::config::ServerConfig;
use sabakan_testkit::{Backend, rack::Rack};
use serde_json::{Value, json};
use tempfile::TempDir;

#[test]
fn scripts_that_use_openstacksdk_work() {
    let rack = Rack::start(Backend::Embedded);
    run_the_script(&rack, &rack.server.ironic_url());
}

/// Beside the other API, verifying the certificate.
#[test]
fn scripts_that_use_openstacksdk_work_over_https() {
    let mut rack = Rack::start(Backend::Embedded);
    let https = |config: &mut ServerConfig| config.https = vec!["127.0.0.1:0".parse().expect("an address")];
    rack.server.restart_with(https).expect("started again");
    run_the_script(&rack, &format!("{}/v1", rack.server.https_url("localhost")));
}

fn run_the_script(rack: &Rack, url: &str) {
    let home = TempDir::new().expect("a temporary directory");
    let mut python = super::python(home.path(), url);
    python.env("REQUESTS_CA_BUNDLE", rack.server.certificate());
    let output = python.arg(super::here().join("sdk.py")).arg(url).output().expect("Python of the lab runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let summary: Value = serde_json::from_slice(&output.stdout).expect("one line of JSON");
    assert_eq!(
        summary,
        json!({
            "refusals": { "bad_path": 400, "twice": 409, "unknown": 404, "verb": 400 },
            "life": ["manageable", "manageable", "available", "active", "active", "available", "manageable", "available"],
            "parts": { "duplicate_port": 409, "powers": ["power on", "power off"] },
            "allocations": { "sdk-found": "active", "sdk-none": "error" },
            "drivers": ["fake-hardware", "ipmi", "redfish"],
            "conductors": ["conductor-1"],
            "left": 0,
        })
    );
}
