//! The first day with the command line: everything a person does with one machine, in this order, with the stock program.

use sabakan_testkit::{Backend, rack::Rack};
use serde_json::Value;

use super::Commands;

/// A person at a terminal.
struct Person {
    commands: Commands,
}

impl Person {
    /// Types a command that must succeed, and reads what it prints.
    fn types(&mut self, command: &str) -> String {
        let outcome = self.commands.run(&format!("baremetal {command}"));
        assert_eq!(outcome.exit, 0, "{command}: {}{}", outcome.stdout, outcome.stderr);
        outcome.stdout
    }

    /// The same, as JSON.
    fn reads(&mut self, command: &str) -> Value {
        let text = self.types(&format!("{command} -f json"));
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{command}: {error}: {text}"))
    }

    /// Some fields of the node.
    fn node(&mut self, fields: &str) -> Value {
        self.reads(&format!("node show day-1 --fields {fields}"))
    }

    /// A verb, waited for until its end.
    fn brings(&mut self, verb: &str, state: &str) {
        self.types(&format!("node {verb} --wait 120"));
        assert_eq!(self.node("provision_state")["provision_state"], state, "{verb}");
    }
}

#[test]
fn first_day_with_the_command_line() {
    first_day(Backend::Embedded);
}

#[test]
fn first_day_with_the_command_line_on_etcd() {
    first_day(Backend::Etcd);
}

fn first_day(backend: Backend) {
    let rack = Rack::start(backend);
    let mut person = Person { commands: Commands::of(&rack) };
    enroll(&mut person);
    make_available(&mut person);
    use_it(&mut person);
    give_it_back(&mut person);
    assert_eq!(person.reads("node list"), Value::Array(Vec::new()));
    assert_eq!(person.reads("port list"), Value::Array(Vec::new()), "its port went with it");
}

fn enroll(person: &mut Person) {
    let drivers = person.reads("driver list");
    assert!(drivers.as_array().expect("a list").iter().any(|driver| driver["name"] == "fake-hardware"));
    let conductors = person.reads("conductor list");
    assert_eq!((&conductors[0]["hostname"], &conductors[0]["alive"]), (&"conductor-1".into(), &true.into()));
    let node = person.reads("node create --driver fake-hardware --name day-1 --resource-class gold --property cpus=2");
    assert_eq!((&node["provision_state"], &node["properties"]["cpus"]), (&"enroll".into(), &2.into()));
    let uuid = node["uuid"].as_str().expect("a UUID").to_owned();
    let port = person.reads(&format!("port create 52:54:00:12:34:56 --node {uuid}"));
    assert_eq!((&port["address"], &port["node_uuid"]), (&"52:54:00:12:34:56".into(), &node["uuid"]));
    assert_eq!(person.reads("node list")[0]["name"], "day-1");
    assert_eq!(person.reads("node show day-1")["uuid"], node["uuid"]);
    person.types("node set day-1 --extra rack=7 --description 'the first'");
    assert_eq!(
        person.node("extra description"),
        serde_json::json!({ "extra": { "rack": 7 }, "description": "the first" })
    );
    let checks = person.reads("node validate day-1");
    let check = |name: &str| checks.as_array().expect("a list").iter().find(|check| check["Interface"] == name);
    for name in ["boot", "deploy", "management", "power"] {
        assert_eq!(check(name).expect("a check")["Result"], true, "{name}");
    }
}

fn make_available(person: &mut Person) {
    person.brings("manage day-1", "manageable");
    person.brings("inspect day-1", "manageable");
    assert!(!person.node("inspection_finished_at")["inspection_finished_at"].is_null());
    let inventory: Value = serde_json::from_str(&person.types("node inventory save day-1")).expect("JSON");
    assert!(inventory["inventory"]["cpu"]["count"].as_u64().is_some_and(|count| count > 0), "{inventory}");
    let steps = r#"[{"interface": "deploy", "step": "erase_devices_metadata"}]"#;
    person.brings(&format!("clean day-1 --clean-steps '{steps}'"), "manageable");
    person.brings("provide day-1", "available");
    let allocation = person.reads("allocation create --resource-class gold --name first --wait 60");
    assert_eq!((&allocation["state"], &allocation["node_uuid"]), (&"active".into(), &person.node("uuid")["uuid"]));
    assert_eq!(person.node("allocation_uuid")["allocation_uuid"], allocation["uuid"]);
}

fn use_it(person: &mut Person) {
    person.brings("deploy day-1", "active");
    for (command, power) in [("power off", "power off"), ("power on", "power on"), ("reboot", "power on")] {
        person.types(&format!("node {command} day-1"));
        sabakan_testkit::wait_for(command, sabakan_testkit::rack::WORK_MAX, || {
            let node = person.node("power_state target_power_state reservation");
            let rests = node["target_power_state"].is_null() && node["reservation"].is_null();
            (rests && node["power_state"] == power).then_some(())
        });
    }
    person.types("node boot device set day-1 disk --persistent");
    let device = person.reads("node boot device show day-1");
    assert_eq!(device, serde_json::json!({ "boot_device": "disk", "persistent": true }));
    let vif = "7a1f3b52-7c52-4d3e-9a0e-6d2f1c1b0a99";
    person.types(&format!("node vif attach day-1 {vif}"));
    assert_eq!(person.reads("node vif list day-1")[0]["id"], vif);
    person.types(&format!("node vif detach day-1 {vif}"));
    assert_eq!(person.reads("node vif list day-1"), Value::Array(Vec::new()));
    person.types("node trait add day-1 CUSTOM_FIRST");
    assert!(person.types("node trait list day-1").contains("CUSTOM_FIRST"));
    person.types("node maintenance set day-1 --reason 'a new fan'");
    assert_eq!(person.node("maintenance maintenance_reason")["maintenance_reason"], "a new fan");
    person.types("node maintenance unset day-1");
    assert_eq!(person.node("maintenance")["maintenance"], false);
    person.brings("rescue day-1 --rescue-password 'open sesame'", "rescue");
    person.brings("unrescue day-1", "active");
    person.brings("rebuild day-1", "active");
}

fn give_it_back(person: &mut Person) {
    person.brings("undeploy day-1", "available");
    let node = person.node("instance_uuid allocation_uuid power_state");
    assert!(node["instance_uuid"].is_null() && node["allocation_uuid"].is_null(), "{node}");
    let history = person.reads("node history list day-1");
    assert!(!history.as_array().expect("a list").is_empty());
    person.types("node manage day-1 --wait 60");
    assert_eq!(person.node("provision_state")["provision_state"], "manageable");
    person.types("node delete day-1");
}
