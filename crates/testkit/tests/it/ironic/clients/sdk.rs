//! openstacksdk, in a script of ours: `sdk.py` says what it does and checks most of what it sees.

use sabakan_testkit::{Backend, rack::Rack};
use serde_json::{Value, json};
use tempfile::TempDir;

#[test]
fn scripts_that_use_openstacksdk_work() {
    let rack = Rack::start(Backend::Embedded);
    let home = TempDir::new().expect("a temporary directory");
    let url = rack.server.ironic_url();
    let output = super::python(home.path(), &url).arg(super::here().join("sdk.py")).arg(&url).output();
    let output = output.expect("Python of the lab runs");
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
