//! Entries as tools of the older service read them, what people send, and what an operator is told.

use std::{net::Ipv4Addr, time::Duration};

use sabakan_domain::{
    lifecycle::HealthState,
    machine::Rack,
    repair::{
        enqueue::Verdict,
        entry::{Backoff, Entry, Status, StepStatus},
        guard::{Failure, Group, GroupKind, SecondOpinion, Traits},
        hands_off::HandsOff,
        incident::{Incident, IncidentPresent, Phase},
        procedure::NoStep,
        reboot::{RebootEntry, RebootStatus},
        settings::{RepairSettings, Setting},
    },
    words::Serial,
};
use serde_json::{Value, json};

use super::*;

fn at(text: &str) -> Timestamp {
    text.parse().expect("a time")
}

fn entry() -> Entry {
    Entry {
        index: 17,
        address: Ipv4Addr::new(10, 0, 0, 1),
        serial: None,
        machine_type: "type1".into(),
        operation: "unreachable".into(),
        status: Status::Queued,
        step: 0,
        step_status: StepStatus::Waiting,
        deleted: false,
        changed_at: None,
        backoff: Backoff::default(),
        created_at: at("2026-01-02T03:04:05.678Z"),
        asked_by: String::new(),
        note: String::new(),
    }
}

#[test]
fn an_entry_has_the_keys_of_the_older_service() {
    let fresh = serde_json::to_value(RepairEntryJson::new(&entry(), "", None)).expect("JSON");
    let expected = json!({
        "index": "17", "address": "10.0.0.1", "nodename": "", "machine_type": "type1", "operation": "unreachable",
        "status": "queued", "step": 0, "step_status": "waiting", "deleted": false,
        "last_transition_time": "0001-01-01T00:00:00Z", "drain_backoff_expire": "0001-01-01T00:00:00Z",
        "created": "2026-01-02T03:04:05Z",
    });
    assert_eq!(fresh, expected);
    let full = Entry {
        serial: Some(Serial::new("m1").expect("a serial")),
        status: Status::Processing,
        step: 2,
        step_status: StepStatus::Draining,
        deleted: true,
        changed_at: Some(at("2026-01-02T03:05:00.999Z")),
        backoff: Backoff { count: 3, until: Some(at("2026-01-02T03:15:00Z")) },
        asked_by: "alice".into(),
        note: "a pod stays".into(),
        ..entry()
    };
    let shown = RepairEntryJson::new(&full, "node1", Some("draining is not tried again yet"));
    let expected = json!({
        "index": "17", "address": "10.0.0.1", "nodename": "node1", "serial": "m1", "machine_type": "type1",
        "operation": "unreachable", "status": "processing", "step": 2, "step_status": "draining", "deleted": true,
        "last_transition_time": "2026-01-02T03:05:00Z", "drain_backoff_count": 3,
        "drain_backoff_expire": "2026-01-02T03:15:00Z", "created": "2026-01-02T03:04:05Z", "asked_by": "alice",
        "note": "a pod stays", "waits": "draining is not tried again yet",
    });
    assert_eq!(serde_json::to_value(&shown).expect("JSON"), expected);
    assert_eq!(serde_json::from_value::<RepairEntryJson>(expected).expect("read"), shown);
    assert!(!shown.is_finished());
}

#[test]
fn a_reboot_has_the_keys_of_the_older_service() {
    let entry = RebootEntry {
        index: 3,
        node: Ipv4Addr::new(10, 0, 0, 2),
        status: RebootStatus::Rebooting,
        changed_at: Some(at("2026-01-02T03:05:00.5Z")),
        backoff: Backoff::default(),
        note: String::new(),
    };
    let shown = serde_json::to_value(RebootEntryJson::new(&entry, None)).expect("JSON");
    let expected = json!({
        "index": "3", "node": "10.0.0.2", "status": "rebooting", "last_transition_time": "2026-01-02T03:05:00Z",
        "drain_backoff_expire": "0001-01-01T00:00:00Z",
    });
    assert_eq!(shown, expected);
}

/// Where a refusal lies, and what is wrong there, of the first problem of each place.
fn places<T>(read: Result<T, Vec<sabakan_domain::cluster::shape::Problem>>) -> Vec<String> {
    let mut places: Vec<String> = read.err().unwrap_or_default().into_iter().map(|problem| problem.path).collect();
    places.sort();
    places
}

#[test]
fn a_repair_that_is_asked_for_names_every_wrong_field() {
    let good = json!({ "operation": "unreachable", "machine_type": "type1", "address": "10.0.0.1", "serial": "m1" });
    let read = new_repair_from_input(&good).expect("good");
    assert_eq!((read.address, read.serial.map(|s| s.to_string())), (Ipv4Addr::new(10, 0, 0, 1), Some("m1".to_owned())));
    let check = |name: &str, value: Value, expected: &[&str]| {
        let mut bad = good.clone();
        bad[name] = value;
        assert_eq!(places(new_repair_from_input(&bad)), expected, "{bad}");
    };
    check("operation", json!(""), &["operation"]);
    check("operation", json!(3), &["operation"]);
    check("machine_type", Value::Null, &["machine_type"]);
    check("address", json!("10.0.0"), &["address"]);
    check("address", json!("fd00::1"), &["address"]);
    check("serial", json!(["m1"]), &["serial"]);
    check("serial", json!(""), &["serial"]);
    check("serial", Value::Null, &[]);
    check("machine-type", json!("x"), &["machine-type"]);
    assert_eq!(places(new_repair_from_input(&json!({}))), ["address", "machine_type", "operation"]);
    for wrong in [json!([]), json!("x"), Value::Null] {
        assert_eq!(places(new_repair_from_input(&wrong)), [""]);
    }
}

#[test]
fn nodes_are_an_object_or_lines() {
    let (one, two) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
    for text in [r#"{"nodes": ["10.0.0.1", "10.0.0.2"]}"#, "10.0.0.1\n10.0.0.2\n", "\r\n 10.0.0.1 \r\n\r\n10.0.0.2"] {
        assert_eq!(nodes_from_input(text), Ok(vec![one, two]), "{text}");
    }
    let check = |text: &str, expected: &[&str]| assert_eq!(places(nodes_from_input(text)), expected, "{text}");
    check("", &["nodes"]);
    check(r#"{"nodes": []}"#, &["nodes"]);
    check(r#"{"nodes": "10.0.0.1"}"#, &["nodes"]);
    check("{}", &["nodes"]);
    check(r#"{"node": ["10.0.0.1"]}"#, &["node"]);
    check(r#"["10.0.0.1"]"#, &[""]);
    check("{", &[""]);
    check(r#"{"nodes": ["10.0.0.1", "x", 3]}"#, &["nodes[1]", "nodes[2]"]);
    check("10.0.0.1\n\nnode2\n10.0.0.300\n", &["line 3", "line 4"]);
}

#[test]
fn a_reason_need_not_be_given() {
    let read = |body: &str| acknowledge_from_input(body.as_bytes());
    assert_eq!(read(" \n"), Ok(AcknowledgeJson::default()));
    assert_eq!(read("{}"), Ok(AcknowledgeJson::default()));
    assert_eq!(read(r#"{"reason": "seen"}"#), Ok(AcknowledgeJson { reason: "seen".into() }));
    assert_eq!(places(read(r#"{"reason": 3}"#)), ["reason"]);
    assert_eq!(places(read(r#"{"reasons": "x"}"#)), ["reasons"]);
    assert_eq!(places(read("seen")), [""]);
    assert_eq!(places(read("[]")), [""]);
}

#[test]
fn settings_are_read_in_every_way_people_write_them_and_all_that_is_wrong_is_told() {
    let document = json!({
        "guard": false, "observe-seconds": 60.0, "chance": 0.001, "windows-minutes": [10, 60], "stale-after-hours": "24",
    });
    let mut values = settings_from_input(&document).expect("good");
    values.sort();
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let expected = [
        pair("chance", "0.001"),
        pair("guard", "false"),
        pair("observe-seconds", "60"),
        pair("stale-after-hours", "24"),
        pair("windows-minutes", "10,60"),
    ];
    assert_eq!(values, expected);
    let bad = json!({
        "guard": "maybe", "observe-seconds": -1, "observe": 1, "chance": [0.1], "windows-minutes": [[1]], "group-least": null,
        "version-label": { "a": 1 }, "power-domain-label": 5, "stale-after-hours": 24,
    });
    let expected = [
        "chance",
        "group-least",
        "guard",
        "observe",
        "observe-seconds",
        "power-domain-label",
        "version-label",
        "windows-minutes",
    ];
    assert_eq!(places(settings_from_input(&bad)), expected);
    assert_eq!(places(settings_from_input(&json!([]))), [""]);
    let shown = settings_json(&RepairSettings::default().with("group-least", "5").expect("good"));
    assert_eq!(shown.len(), Setting::ALL.len());
    let least = shown.iter().find(|setting| setting.name == "group-least").expect("shown");
    assert_eq!((least.value.as_str(), least.default.as_str()), ("5", "3"));
    // What is shown can be sent back.
    let again: serde_json::Map<String, Value> =
        shown.into_iter().map(|setting| (setting.name, Value::String(setting.value))).collect();
    assert_eq!(settings_from_input(&Value::Object(again)).expect("read").len(), Setting::ALL.len());
}

fn incident(phase: Phase) -> Incident {
    Incident {
        number: 4,
        group: Group { kind: GroupKind::Rack, value: "1".into() },
        opened_at: at("2026-01-02T03:00:00Z"),
        because: "28 of 28 within 15 minutes".into(),
        members: ["m1", "m2"].map(|serial| Serial::new(serial).expect("a serial")).into(),
        member_count: 2,
        phase,
    }
}

#[test]
fn lists_count_the_machines_of_an_incident_and_the_incident_names_them() {
    let shown = |phase: Phase| serde_json::to_value(IncidentSummaryJson::new(&incident(phase), true)).expect("JSON");
    let open = json!({
        "number": 4, "group": { "kind": "rack", "value": "1" }, "phase": "open", "holds": true,
        "opened": "2026-01-02T03:00:00Z", "because": "28 of 28 within 15 minutes", "member_count": 2,
    });
    assert_eq!(shown(Phase::Open), open);
    assert!(!IncidentSummaryJson::new(&incident(Phase::Open), false).holds, "without the guard nobody is held");
    let time = at("2026-01-02T04:00:00Z");
    let seen = shown(Phase::Acknowledged { by: "alice".into(), at: time, reason: "power is back".into() });
    assert_eq!(seen["acknowledged"], json!({ "by": "alice", "at": "2026-01-02T04:00:00Z", "reason": "power is back" }));
    assert_eq!(shown(Phase::Recovered { at: time })["recovered"], "2026-01-02T04:00:00Z");
    assert_eq!((&seen["holds"], &shown(Phase::Recovered { at: time })["holds"]), (&json!(false), &json!(false)));
    let whole = serde_json::to_value(IncidentJson::new(&incident(Phase::Open), true)).expect("JSON");
    assert_eq!(
        (&whole["members"], &whole["number"], &whole["member_count"]),
        (&json!(["m1", "m2"]), &json!(4), &json!(2))
    );
    let present = IncidentPresent {
        machines: 28,
        broken: 27,
        oldest: Some(Duration::from_secs(3_600)),
        controllers_answering: 3,
        controllers_silent: 20,
    };
    let summary = IncidentSummaryJson::new(&incident(Phase::Open), true);
    let now = serde_json::to_value(summary.clone().at(Some(&Ok((present, time))))).expect("JSON");
    let expected = json!({
        "broken": 27, "machines": 28, "since": "2026-01-02T03:00:00Z", "controllers_answering": 3, "controllers_silent": 20,
    });
    assert_eq!((&now["now"], &now["because"]), (&expected, &json!("28 of 28 within 15 minutes")));
    assert_eq!(summary.clone().at(None), summary);
    let unknown = summary.at(Some(&Err("the registry did not answer in time".into())));
    assert_eq!((unknown.now, unknown.now_unknown.as_deref()), (None, Some("the registry did not answer in time")));
    let back: IncidentJson = serde_json::from_value(whole).expect("read");
    assert_eq!(back, IncidentJson::new(&incident(Phase::Open), true));
}

fn failure(serial: &str) -> Failure {
    Failure {
        serial: Serial::new(serial).expect("a serial"),
        address: Some(Ipv4Addr::new(10, 0, 0, 1)),
        state: HealthState::Unreachable,
        age: Duration::from_secs(90),
        traits: Traits {
            rack: Rack(1),
            role: "cs".into(),
            machine_type: "type1".into(),
            version: None,
            power_domain: None,
        },
        opinion: SecondOpinion { bmc_answers: Some(true), lease_renewed: None },
        broken_before: Duration::ZERO,
        hands_off: None,
    }
}

#[test]
fn every_verdict_has_a_kind_of_its_own_and_says_what_would_change_it() {
    let left = Duration::from_secs(60);
    let group = Group { kind: GroupKind::Rack, value: "1".into() };
    let other = Serial::new("m9").expect("a serial");
    let verdicts = [
        (Verdict::Enqueue, "enqueue"),
        (Verdict::NoAddress, "no-address"),
        (Verdict::SameAddress(other), "same-address"),
        (Verdict::HasEntry { index: 3, status: Status::Failed }, "has-entry"),
        (Verdict::HandsOff(HandsOff::Maintenance("mine".into())), "hands-off"),
        (Verdict::Rebooting { left }, "rebooting"),
        (Verdict::OutOfCluster { left }, "out-of-cluster"),
        (Verdict::Held { incident: Some(4), group }, "held"),
        (Verdict::Settling { incident: 4, left }, "settling"),
        (Verdict::Observed { left }, "observed"),
        (Verdict::Stale, "stale"),
        (Verdict::NoProcedure(NoStep::Procedure("type1".into())), "no-procedure"),
        (Verdict::NoRoom { entries: 3, new: 28, max: 5 }, "no-room"),
        (Verdict::NoCluster, "no-cluster"),
    ];
    for (verdict, kind) in &verdicts {
        let shown = VerdictJson::from(verdict);
        assert_eq!((shown.kind.as_str(), shown.text.as_str()), (*kind, verdict.to_string().as_str()));
        assert_eq!(shown.change.is_none(), *kind == "enqueue", "{kind}");
    }
    let of = |kind: &str| VerdictJson::from(&verdicts.iter().find(|(_, known)| *known == kind).expect(kind).0);
    let full = of("no-room");
    assert_eq!((full.entries, full.new, full.max), (Some(3), Some(28), Some(5)));
    assert_eq!((of("held").incident, of("held").group.map(|group| group.value)), (Some(4), Some("1".into())));
    assert_eq!((of("settling").seconds_left, of("has-entry").index), (Some(60), Some("3".into())));
    let shown = serde_json::to_value(BrokenJson::new(&failure("m1"), &Verdict::Stale)).expect("JSON");
    assert_eq!(shown["second_opinion"], json!({ "bmc_answers": true, "lease_renewed": null }));
    assert_eq!(
        (&shown["verdict"]["kind"], &shown["seconds"], shown.get("hands_off")),
        (&json!("stale"), &json!(90), None)
    );
}

const ON: SwitchesJson = SwitchesJson { automatic: true, repair_queue: true, guard: true, reboot_queue: Some(true) };

fn reported<'a>(broken: Result<&'a [(Failure, Verdict)], &'a str>, budget: BudgetJson) -> Reported<'a> {
    let leader = Some("boot-0".to_owned());
    Reported { switches: ON, budget, broken, warnings: &[], incidents: &[], leader, last_round: None, shown_max: 2 }
}

#[test]
fn a_status_says_loudly_what_stands_in_the_way() {
    let room = || BudgetJson::new((1, 0), 5, (4, 1), false);
    let fine = RepairStatusJson::from(reported(Ok(&[]), room()));
    assert_eq!((fine.messages, fine.broken_count), (Vec::<String>::new(), Some(0)));
    let told = |reported: Reported<'_>, words: &[&str]| {
        let messages = RepairStatusJson::from(reported).messages;
        assert_eq!(messages.len(), 1, "{messages:?}");
        assert!(words.iter().all(|word| messages[0].contains(word)), "{messages:?}");
    };
    let blocked = BudgetJson::new((5, 3), 5, (0, 1), true);
    told(reported(Ok(&[]), blocked), &["NO REPAIR BEGINS", "3 finished", "sabactl repair-queue delete-finished"]);
    told(reported(Ok(&[]), BudgetJson::new((0, 0), 0, (0, 1), false)), &["maximum-repair-queue-entries is 0"]);
    told(reported(Ok(&[]), BudgetJson::new((5, 0), 5, (0, 1), false)), &["5 repairs are under way"]);
    let all_or_none = "3 machines want in and there is room for 2; all or none";
    let blocked = BudgetJson::new((3, 3), 5, (2, 3), true);
    told(reported(Ok(&[]), blocked), &["NO REPAIR BEGINS", "3 finished", all_or_none, "delete-finished"]);
    told(reported(Ok(&[]), BudgetJson::new((3, 0), 5, (2, 3), false)), &[all_or_none]);
    told(Reported { leader: None, ..reported(Ok(&[]), room()) }, &["no server leads repair"]);
    let off = SwitchesJson { automatic: false, ..ON };
    told(Reported { switches: off, ..reported(Ok(&[]), room()) }, &["sabactl auto-repair enable"]);
    let off = SwitchesJson { repair_queue: false, ..ON };
    told(Reported { switches: off, ..reported(Ok(&[]), room()) }, &["sabactl repair-queue enable"]);
    told(reported(Err("no answer"), room()), &["not known: no answer"]);
    assert_eq!(RepairStatusJson::from(reported(Err("no answer"), room())).broken_count, None);
    let open = [incident(Phase::Open)];
    told(
        Reported { incidents: &open, ..reported(Ok(&[]), room()) },
        &["holds rack 1 back", "2 machines", "acknowledge 4"],
    );
}

#[test]
fn a_status_says_loudly_that_nobody_is_protected() {
    let switches = SwitchesJson { guard: false, ..ON };
    let settings = RepairSettings::default().with("guard", "false").expect("good");
    let (warnings, open) = (settings.warnings(1), [incident(Phase::Open)]);
    let room = BudgetJson::new((1, 0), 5, (4, 1), false);
    let reported = Reported { switches, warnings: &warnings, incidents: &open, ..reported(Ok(&[]), room.clone()) };
    let status = RepairStatusJson::from(reported);
    let [off, loose] = &status.messages[..] else { panic!("{:?}", status.messages) };
    assert!(off.starts_with("setting `guard` is false: machines that failed together are not held"), "{off}");
    assert!(off.contains("1 incident is open and holds nobody"), "{off}");
    assert!(off.ends_with("; `sabactl auto-repair settings set guard true` is the default"), "{off}");
    assert!(loose.contains("incident 4 of rack 1") && loose.contains("holds nobody"), "{loose}");
    assert!(!status.incidents[0].holds && !status.messages.join("").contains("holds rack 1 back"));
    let explained = RepairExplanationJson::from(Explained {
        serial: &Serial::new("m1").expect("a serial"),
        machine: None,
        broken: None,
        broken_unknown: None,
        entries: vec![],
        warnings: &warnings,
        incidents: &open,
        switches,
        budget: room,
        leader: Some("boot-0".into()),
    });
    assert_eq!((&explained.messages[..], explained.incidents[0].holds), (&status.messages[..1], false));
}

#[test]
fn a_status_counts_many_and_names_some() {
    let group = Group { kind: GroupKind::Rack, value: "1".into() };
    let held = Verdict::Held { incident: Some(4), group };
    let broken = [(failure("m1"), Verdict::Stale), (failure("m2"), held.clone()), (failure("m3"), held)];
    let status = RepairStatusJson::from(reported(Ok(&broken), BudgetJson::new((0, 0), 5, (5, 1), false)));
    let counts: Vec<(usize, &str)> =
        status.verdicts.iter().map(|seen| (seen.count, seen.first.kind.as_str())).collect();
    assert_eq!(counts, [(2, "held"), (1, "stale")]);
    assert_eq!((status.broken.len(), status.broken_left_out, status.broken_count), (2, 1, Some(3)));
    let text = serde_json::to_string(&status).expect("JSON");
    assert_eq!(serde_json::from_str::<RepairStatusJson>(&text).expect("read"), status);
}

#[test]
fn an_explanation_answers_in_a_sentence() {
    let serial = Serial::new("m1").expect("a serial");
    let (broken, stale, go) = (failure("m1"), Verdict::Stale, Verdict::Enqueue);
    let explained = |broken, entries, switches| {
        let told = RepairExplanationJson::from(Explained {
            serial: &serial,
            machine: None,
            broken,
            broken_unknown: None,
            entries,
            warnings: &[],
            incidents: &[],
            switches,
            budget: BudgetJson::new((0, 0), 5, (5, 1), false),
            leader: Some("boot-0".into()),
        });
        (told.answer, told.change.is_some())
    };
    let off = SwitchesJson { automatic: false, ..ON };
    assert_eq!(explained(None, vec![], ON), ("nobody reports that it is broken".to_owned(), false));
    assert_eq!(explained(Some((&broken, &stale)), vec![], ON), (stale.to_string(), true));
    let next = "it comes into the repair queue in the next round";
    assert_eq!(explained(Some((&broken, &go)), vec![], ON), (next.to_owned(), false));
    let disabled = "it would be repaired, but automatic repair is disabled";
    assert_eq!(explained(Some((&broken, &go)), vec![], off), (disabled.to_owned(), true));
    let active = RepairEntryJson::new(&entry(), "", Some("another control plane comes first"));
    let under_way = "repair 17 of it is queued, step 0 waiting (another control plane comes first)";
    let known = Verdict::HasEntry { index: 17, status: Status::Queued };
    assert_eq!(explained(Some((&broken, &known)), vec![active], ON), (under_way.to_owned(), false));
}
