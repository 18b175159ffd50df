//! What cannot be done is refused by name, by validation and by the verb, and nothing is told as done that did not happen (G14).

use sabakan_domain::provision::promises;
use sabakan_drivers::simulated::FleetConfig;
use sabakan_testkit::{Backend, rack::Rack};
use serde_json::{Value, json};

use super::{Api, fault};

on_both_stores!(what_interfaces_cannot_do_is_refused_by_validation_and_by_the_verb);

fn what_interfaces_cannot_do_is_refused_by_validation_and_by_the_verb(backend: Backend) {
    // No step erases disks here, as where no agent runs.
    let none = promises::ERASING.map(|key| (key.to_owned(), 0));
    let rack = Rack::start_with(backend, FleetConfig::instant(), |config| config.rules.clean_priorities = none.into());
    let api = Api::of(&rack);
    choices_nobody_has_built_are_refused(&api);
    api.ask("POST", "/v1/nodes", &json!({ "driver": "fake-hardware", "name": "n1" }), 201);
    api.bring("n1", &json!({ "target": "manage" }), "manageable");
    refused(&api, "n1", "provide", "deploy", "automated cleaning would erase neither disks nor keys");
    set(&api, "n1", "/driver_info/cleaning", &json!("keys"));
    refused(&api, "n1", "provide", "deploy", "driver_info.cleaning is \"keys\"; one of: full, keys-only");
    set(&api, "n1", "/driver_info/cleaning", &json!("keys-only"));
    assert_eq!(api.get("/v1/nodes/n1/validate")["deploy"]["result"], json!(true));
    api.bring("n1", &json!({ "target": "provide" }), "available");
    for (path, value, text) in [
        ("/instance_info/capabilities", json!({ "secure_boot": "true" }), "instance_info.capabilities.secure_boot"),
        ("/properties/capabilities", json!("boot_mode:bios"), "properties.capabilities.boot_mode"),
    ] {
        set(&api, "n1", path, &value);
        refused(&api, "n1", "active", "boot", &format!("{text} cannot be granted"));
        api.ask("PATCH", "/v1/nodes/n1", &json!([{ "op": "remove", "path": path }]), 200);
    }
    api.bring("n1", &json!({ "target": "active" }), "active");
    what_nobody_writes_is_refused(&api);
}

/// An agent of the site's own, which offers no step that writes an image.
fn what_nobody_writes_is_refused(api: &Api) {
    let node = json!({
        "driver": "fake-hardware", "name": "n2", "deploy_interface": "custom-agent", "automated_clean": false,
    });
    api.ask("POST", "/v1/nodes", &node, 201);
    api.bring("n2", &json!({ "target": "manage" }), "manageable");
    api.bring("n2", &json!({ "target": "provide" }), "available");
    for (field, value) in [("image_source", json!("http://192.0.2.1/i")), ("configdrive", json!({ "meta_data": {} }))] {
        let path = format!("/instance_info/{field}");
        set(api, "n2", &path, &value);
        refused(api, "n2", "active", "deploy", &format!("instance_info.{field} cannot be written"));
        api.ask("PATCH", "/v1/nodes/n2", &json!([{ "op": "remove", "path": path }]), 200);
    }
    // With the verb itself, and nothing of it is kept.
    let drive = json!({ "target": "active", "configdrive": "H4sIAAAA" });
    let answer = api.ask("PUT", "/v1/nodes/n2/states/provision", &drive, 400);
    assert!(fault(&answer).contains("configdrive cannot be written"), "{}", fault(&answer));
    assert_eq!(api.get("/v1/nodes/n2")["instance_info"], json!({}));
}

fn choices_nobody_has_built_are_refused(api: &Api) {
    for (driver, field, name) in [
        ("redfish", "boot_interface", "redfish-virtual-media"),
        ("redfish", "boot_interface", "redfish-https"),
        ("redfish", "raid_interface", "agent"),
        ("fake-hardware", "raid_interface", "agent"),
    ] {
        let mut wanted = json!({ "driver": driver, "name": "unbuilt" });
        wanted[field] = json!(name);
        let text = fault(&api.ask("POST", "/v1/nodes", &wanted, 400));
        assert!(text.contains(field) && text.contains(name) && text.contains("is not built yet"), "{text}");
    }
    api.ask("GET", "/v1/nodes/unbuilt", &Value::Null, 404);
}

fn set(api: &Api, name: &str, path: &str, value: &Value) {
    api.ask("PATCH", &format!("/v1/nodes/{name}"), &json!([{ "op": "add", "path": path, "value": value }]), 200);
}

/// Validation and the verb say the same, and the node stays as it is.
fn refused(api: &Api, name: &str, verb: &str, slot: &str, text: &str) {
    let before = api.get(&format!("/v1/nodes/{name}"));
    let verdict = api.get(&format!("/v1/nodes/{name}/validate"))[slot].clone();
    let reason = verdict["reason"].as_str().unwrap_or_default();
    assert!(verdict["result"] == json!(false) && reason.contains(text), "{slot}: {verdict}");
    let told = fault(&api.ask("PUT", &format!("/v1/nodes/{name}/states/provision"), &json!({ "target": verb }), 400));
    assert!(told.contains(text), "{told}");
    assert_eq!(api.get(&format!("/v1/nodes/{name}")), before);
}
