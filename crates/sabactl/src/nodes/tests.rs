//! What is judged and said without a server: ends of work, steps, filters, and the words of `show`.

use std::time::Duration;

use jiff::Timestamp;
use sabakan_client::NodeJson;
use sabakan_domain::provision::{power::PowerTarget, states::State, verbs::Verb};
use sabakan_wire::ironic::NodeStatusJson;
use serde_json::{Value, json};

use super::{
    derived, duration, list, many, orders, steps,
    wait::{Goal, Verdict, judge},
    words,
};
use crate::exit::Failure;

#[expect(clippy::needless_pass_by_value, reason = "rows of a table read better without references")]
fn node(fields: Value) -> NodeJson {
    let mut all = json!({ "uuid": "u", "name": "a", "provision_updated_at": "2026-11-16T00:00:00+00:00" });
    all.as_object_mut().expect("an object").extend(fields.as_object().expect("an object").clone());
    serde_json::from_value(all).expect("a node")
}

#[expect(clippy::needless_pass_by_value, reason = "rows of a table read better without references")]
fn progress(fields: Value) -> NodeStatusJson {
    let mut all =
        json!({ "uuid": "u", "name": "a", "state": "clean wait", "since": "2026-11-16T00:00:00Z", "accepted": [] });
    all.as_object_mut().expect("an object").extend(fields.as_object().expect("an object").clone());
    serde_json::from_value(all).expect("a status")
}

fn at(text: &str) -> Timestamp {
    text.parse().expect("a time")
}

#[test]
fn the_api_is_beside_the_server() {
    for (server, expected) in [
        ("http://localhost:8888", "http://localhost:6385"),
        ("http://localhost", "http://localhost:6385"),
        ("http://127.0.0.1:8888", "http://127.0.0.1:6385"),
        ("http://boot-0:8888", "https://boot-0:6385"),
        ("http://10.0.0.1:8888/sabakan/", "https://10.0.0.1:6385"),
        ("http://[2001:db8::1]:8888", "https://[2001:db8::1]:6385"),
        ("https://boot-0:8443", "https://boot-0:8443"),
        ("https://boot-0:8443/sabakan/", "https://boot-0:8443/sabakan/"),
        ("https://localhost:8443", "https://localhost:8443"),
        ("http://[::1]:8888", "http://[::1]:6385"),
        ("http://[::1]", "http://[::1]:6385"),
        ("nonsense", "nonsense"),
    ] {
        assert_eq!(derived(server), expected);
    }
}

#[test]
fn durations_have_units() {
    for (text, expected) in
        [("90s", Some(90)), ("30m", Some(1800)), ("2h", Some(7200)), ("1h30m", Some(5400)), ("0", Some(0))]
    {
        assert_eq!(duration(text).ok(), expected.map(Duration::from_secs), "{text}");
    }
    for text in ["5", "-5s", "soon", ""] {
        assert!(duration(text).is_err(), "{text}");
    }
}

#[test]
fn ends_of_work_are_told_apart() {
    let check = |fields: Value, goal: Goal, expected: Verdict| {
        assert_eq!(judge(&node(fields.clone()), goal), expected, "{fields} {goal:?}");
    };
    let failed = |text: &str| Verdict::Failed(text.to_owned());
    let manageable = Goal::State(State::Manageable);
    check(json!({ "provision_state": "manageable" }), manageable, Verdict::Reached);
    check(json!({ "provision_state": "verifying", "target_provision_state": "manageable" }), manageable, Verdict::Open);
    check(json!({ "provision_state": "from the future" }), manageable, Verdict::Open);
    check(
        json!({ "provision_state": "enroll", "last_error": "wrong password" }),
        manageable,
        failed("verify failed: wrong password"),
    );
    check(
        json!({ "provision_state": "clean failed", "target_provision_state": "available", "last_error": "x" }),
        Goal::State(State::Available),
        failed("clean failed: x"),
    );
    check(
        json!({ "provision_state": "clean failed", "target_provision_state": "available" }),
        Goal::End,
        Verdict::Reached,
    );
    check(
        json!({ "provision_state": "manageable" }),
        Goal::State(State::Available),
        failed("it came to rest in manageable, not in available"),
    );
    check(json!({ "provision_state": "active" }), Goal::Rest, Verdict::Reached);
    check(json!({ "provision_state": "error", "last_error": "y" }), Goal::Rest, failed("error: y"));
    check(json!({ "provision_state": "clean hold", "target_provision_state": "available" }), Goal::Rest, Verdict::Open);
    let reboot = Goal::Power(PowerTarget::Reboot);
    check(json!({ "power_state": "power on", "target_power_state": "rebooting" }), reboot, Verdict::Open);
    check(json!({ "power_state": "power on" }), reboot, Verdict::Reached);
    check(json!({ "power_state": null, "last_error": "silent" }), reboot, failed("its power is unknown: silent"));
}

/// Every verb that is accepted somewhere has a goal, and it is where the table leads.
#[test]
fn every_verb_leads_somewhere() {
    for verb in Verb::ALL {
        let expected = match verb {
            Verb::Abort => Goal::End,
            Verb::Unhold => Goal::Rest,
            Verb::Manage | Verb::Inspect | Verb::Clean => Goal::State(State::Manageable),
            Verb::Provide | Verb::Deleted => Goal::State(State::Available),
            Verb::Active | Verb::Rebuild | Verb::Unrescue | Verb::Adopt | Verb::Service => Goal::State(State::Active),
            Verb::Rescue => Goal::State(State::Rescue),
        };
        assert_eq!(orders::goal(verb.as_str()), expected, "{verb}");
    }
}

#[test]
fn steps_as_people_write_them() {
    let step = steps::parse("raid.create:level=1,name=root,disks=[1],priority=50").expect("a step");
    assert_eq!((step.interface.as_str(), step.step.as_str(), step.priority), ("raid", "create", Some(50)));
    assert_eq!(Value::Object(step.args), json!({ "level": 1, "name": "root", "disks": [1] }));
    assert_eq!(steps::parse("deploy.erase_devices").expect("a step").priority, None);
    for (text, reason) in [
        ("erase", "interface.step is expected"),
        ("deploy.", "interface.step is expected"),
        ("disk.erase", "invalid interface \"disk\""),
        ("deploy.x:a", "\"a\" is not key=value"),
        ("deploy.x:a=1,a=2", "\"a\" is given twice"),
        ("deploy.x:priority=high", "priority must be a number"),
    ] {
        let refusal = steps::parse(text).expect_err(text);
        assert!(refusal.starts_with(reason), "{text}: {refusal}");
    }
}

#[test]
fn a_waiting_node_explains_itself() {
    let node = node(json!({
        "provision_state": "clean wait", "target_provision_state": "available", "power_state": "power on",
        "driver": "redfish", "health": "OK",
    }));
    let progress = progress(json!({
        "machine_state": "retired",
        "operation": { "id": "1", "steps": [], "work": "automated clean", "asked_by": "alice", "asked_at": "2026-11-16T00:00:00Z",
            "step": "deploy.erase_devices", "step_number": 2, "step_count": 5 },
        "waiting": { "reason": "the ramdisk has to call", "since": "2026-11-16T00:01:00Z", "until": "2026-11-16T00:31:00Z" },
        "accepted": ["abort"],
    }));
    let text = words::explain(&node, Some(&progress), at("2026-11-16T00:03:05Z"));
    let expected = "\
Node        a (u)
State       clean wait -> available (waiting), since 2026-11-16T00:00:00Z (3m5s ago)
Why         Waits for the ramdisk, or for a clean step that runs by itself.
Work        automated clean, asked for 2026-11-16T00:00:00Z (3m5s ago) by alice; step 2 of 5 deploy.erase_devices
Waits for   the ramdisk has to call, since 2026-11-16T00:01:00Z (2m5s ago); given up at 2026-11-16T00:31:00Z (in 27m55s)
Worker      nobody
Power       power on
Driver      redfish
Health      OK
Machine     retired
Next        sabactl nodes abort
";
    assert_eq!(text, expected);
    let line = words::progress_line(&node, Some(&progress));
    assert_eq!(line, "clean wait -> available, step 2 of 5 deploy.erase_devices: the ramdisk has to call");
}

#[test]
fn a_failed_node_says_why_and_what_to_do() {
    let node = node(json!({
        "provision_state": "clean failed", "target_provision_state": "available", "last_error": "disk 3\u{1b}[31m broke",
        "maintenance": true, "maintenance_reason": "half way", "fault": "clean failure",
    }));
    let text = words::explain(&node, None, at("2026-11-16T01:00:00Z"));
    let expected = "\
Node        a (u)
State       clean failed -> available (failed), since 2026-11-16T00:00:00Z (1h ago)
Why         A clean step failed, or the machine does not look as before.
Last error  disk 3 [31m broke
Maintenance yes: half way (clean failure); automation keeps its hands off, deadlines rest
Worker      nobody
Power       unknown
Driver      none is known for its BMC type
Next        sabactl nodes manage | maintenance clear
";
    assert_eq!(text, expected);
}

#[test]
fn what_is_stuck() {
    let now = at("2026-11-16T00:20:00Z");
    let check = |state: &str, limit: u64, expected: bool| {
        let node = node(json!({ "provision_state": state }));
        assert_eq!(list::is_stuck(&node, None, Duration::from_secs(limit), now), expected, "{state}");
    };
    check("active", 60, false);
    check("clean wait", 900, true);
    check("clean wait", 1201, false);
    check("deploy failed", 900, true);
    check("from the future", 900, true);
    let silent = node(json!({ "provision_state": "enroll", "last_error": "x", "provision_updated_at": null }));
    assert!(!list::is_stuck(&silent, None, Duration::ZERO, now), "nobody knows since when");
    assert!(list::is_stuck(&silent, Some(&progress(json!({}))), Duration::from_secs(900), now));
}

#[test]
fn states_as_we_know_them() {
    let check = |fields: Value, states: &[State], expected: bool| {
        assert_eq!(list::is_in(&node(fields.clone()), states), expected, "{fields}");
    };
    check(json!({ "provision_state": "from the future" }), &[], true);
    check(json!({ "provision_state": "from the future" }), &[State::Enroll], false);
    check(json!({ "provision_state": "enroll" }), &[State::Enroll, State::Active], true);
    check(json!({ "provision_state": "enroll", "last_error": "x" }), &[State::Enroll], false);
    check(json!({ "provision_state": "enroll", "last_error": "x" }), &[State::VerifyFailed], true);
}

#[test]
fn several_nodes_at_once_and_in_order() {
    let ids: Vec<String> = (0..100).map(|n| n.to_string()).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    assert_eq!(many::in_parallel(&ids, |id| format!("{id}!")).join(""), ids.join("!") + "!");
    assert!(many::in_parallel(&[], |_| ()).is_empty());
}

#[test]
fn the_first_failure_decides_the_exit_code() {
    let done = || Ok(many::Done::of(&node(json!({ "provision_state": "active" }))));
    let broke = || Err(Failure::work_failed("broke"));
    let other = || Err(Failure::general("other"));
    let check = |results: Vec<Result<many::Done, Failure>>, expected: Result<(), (u8, &str)>| {
        let told = many::summary(results).map_err(|failure| (failure.code, failure.text));
        assert_eq!(told, expected.map_err(|(code, text)| (code, text.to_owned())));
    };
    check(vec![done(), done()], Ok(()));
    check(vec![broke()], Err((6, "broke")));
    check(vec![done(), broke(), other()], Err((6, "2 of 3 nodes did not succeed")));
    check(vec![other(), broke()], Err((1, "2 of 2 nodes did not succeed")));
    let names = ["a", "b", "a"].map(str::to_owned);
    assert_eq!(many::distinct(&names), ["a", "b"]);
}
