//! Constraints as people write them, and as they are shown; what is told about a machine.

use serde_json::json;

use super::*;

#[test]
fn constraints_tell_all_that_is_wrong() {
    let read = |document: serde_json::Value| {
        constraints_from_input(&document).map_err(|problems| problems.into_iter().map(|p| p.path).collect::<Vec<_>>())
    };
    for three in [json!(3), json!(3.0)] {
        assert_eq!(read(json!({ "minimum-workers": three })), Ok(vec![("minimum-workers".to_owned(), 3)]));
    }
    assert_eq!(read(json!({})), Ok(Vec::new()));
    for wrong in [json!(3), json!([]), json!(null), json!("minimum-workers")] {
        assert_eq!(read(wrong), Err(vec![String::new()]));
    }
    let many = json!({
        "minimum-workers": -1, "maximum-workers": "5", "control-plane-count": 1.5, "workers": 1,
        "maximum-repair-queue-entries": 4_294_967_296_u64, "wait-seconds-to-repair-rebooting": null,
    });
    let mut wrong = read(many).expect_err("six");
    wrong.sort();
    let expected = [
        "control-plane-count",
        "maximum-repair-queue-entries",
        "maximum-workers",
        "minimum-workers",
        "wait-seconds-to-repair-rebooting",
        "workers",
    ];
    assert_eq!(wrong, expected);
}

#[test]
fn constraints_are_named_as_people_set_them() {
    use sabakan_domain::cluster::constraints::Constraints;
    let shown = serde_json::to_value(ConstraintsJson::from(&Constraints::default())).expect("JSON");
    let names: Vec<&String> = shown.as_object().expect("an object").keys().collect();
    assert_eq!(names.len(), Constraints::NAMES.len());
    for (name, value) in Constraints::default().entries() {
        assert_eq!(shown[name], json!(value), "{name}");
    }
}

/// Its node leaves because it is not in the list: whoever asks about it must not read that nothing happens.
#[test]
fn a_machine_that_is_not_listed_is_told_that_its_node_leaves() {
    use sabakan_domain::{
        cluster::{
            caution::Cautions,
            config::Configuration,
            constraints::Constraints,
            input::{Input, ListedMachine, LiveTaints},
            plan::plan,
            template::Template,
        },
        lifecycle::HealthState,
        machine::{Labels, Rack},
        time::Moment,
        words::{Role, Serial},
    };
    let now: jiff::Timestamp = "2026-11-15T00:00:00Z".parse().expect("a time");
    let machine = |n: u8| ListedMachine {
        serial: Serial::new(format!("m{n}")).expect("a serial"),
        labels: Labels::default(),
        rack: Rack(0),
        index_in_rack: n.into(),
        role: Role::new("worker").expect("a role"),
        address: Some([10, 0, 0, n].into()),
        register_date: Moment::from(now),
        retire_date: Moment::from(now),
        state: HealthState::Healthy,
        machine_type: String::new(),
        seconds_in_state: 0.0,
    };
    let document = json!({
        "name": "c", "service_subnet": "10.68.0.0/16", "nodes": [{ "user": "u", "control_plane": true }, { "user": "u" }],
    });
    let template = Template::parse(document.clone()).expect("a template");
    let mut present = document;
    present["nodes"][0]["address"] = json!("10.0.0.1");
    present["nodes"][1]["address"] = json!("10.0.0.2");
    present["nodes"][1]["annotations"] = json!({ "cke.cybozu.com/serial": "m2" });
    let current = Configuration::parse(present).expect("a configuration");
    let (machines, constraints, taints) = ([machine(1), machine(3)], Constraints::default(), LiveTaints::new());
    let cautions = Cautions::new();
    let plan = plan(Input {
        machines: &machines,
        template: &template,
        template_changed: false,
        constraints: &constraints,
        current: Some(&current),
        taints: &taints,
        cautions: &cautions,
        now,
    });
    let serial = Serial::new("m2").expect("a serial");
    let told = ExplanationJson::from(Explained {
        serial: &serial,
        registered: true,
        standing: plan.report.standing(&serial),
        current: Some(&current),
        plan: &plan,
        disabled: false,
        past: &[],
    });
    assert_eq!((told.now.as_str(), told.standing), ("worker", None));
    let kinds: Vec<&str> = told.next.changes.iter().map(|change| change.kind.as_str()).collect();
    assert_eq!(kinds, ["non-existent worker removed"]);
}
