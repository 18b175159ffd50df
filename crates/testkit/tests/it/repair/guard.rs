//! What failed together is held: a rack without power is one incident and no repair, until a person or the rack itself says otherwise.

use sabakan_testkit::{Backend, client::RepairSwitch, raw, wait_for};
use sabakan_wire::rest::repair::IncidentSummaryJson;
use serde_json::json;

use super::{LONG, Site, procedure};

on_both_stores!(
    a_rack_without_power_is_one_incident_and_no_repair,
    machines_with_one_image_fail_together,
    a_repair_under_way_stops_when_its_rack_fails,
    the_plain_limits_let_in_all_or_nobody,
    a_guard_that_is_turned_off_says_whom_it_let_go,
);

/// Racks of 28 machines, each.
const RACKS: u32 = 4;

fn serials(rack: u32) -> Vec<String> {
    (0..28).map(|n| format!("r{rack}-{n:02}")).collect()
}

/// A hundred machines and more, all in the cluster; each repair writes a line.
fn site(backend: Backend) -> Site {
    let mut site = Site::start(backend);
    let all: Vec<String> = (0..RACKS).flat_map(serials).collect();
    for rack in 0..RACKS {
        site.register(rack, &serials(rack));
    }
    site.constrain("maximum-repair-queue-entries", 5);
    let steps = json!([
        { "repair_command": site.command("reset", "true"), "watch_seconds": 3_600 },
        { "repair_command": site.command("shutdown", "true"), "watch_seconds": 3_600 },
    ]);
    let mut repair = procedure("unreachable", &steps, &json!({}));
    repair["max_concurrent_repairs"] = json!(10);
    site.configure(&all, &repair, &json!({}));
    site
}

/// The newest first.
fn incidents(site: &Site) -> Vec<IncidentSummaryJson> {
    site.server.client().incidents(false).expect("incidents").value
}

/// The machines of a rack stop answering, one every few seconds.
fn cut_power(site: &Site, rack: u32) {
    for serial in serials(rack) {
        site.report(&serial, "unreachable");
        site.pass(5);
    }
}

fn a_rack_without_power_is_one_incident_and_no_repair(backend: Backend) {
    let site = site(backend);
    cut_power(&site, 1);
    site.report("r3-07", "unreachable");
    // For as long as anybody could believe that the first of them broke alone, and longer.
    let opened = wait_for("the incident", LONG, || incidents(&site).pop());
    site.pass(120);
    site.looked();
    let held = wait_for("all of them", LONG, || incidents(&site).pop().filter(|incident| incident.member_count == 28));
    assert_eq!((&*held.group.kind, &*held.group.value), ("rack", "1"));
    assert_eq!((held.number, held.phase.as_str(), incidents(&site).len()), (opened.number, "open", 1));
    let members = site.server.client().incident(held.number).expect("an incident").value.members;
    assert_eq!(members, serials(1));
    assert!(held.because.contains("of 28 machines of rack 1 failed within 15 minutes"), "{}", held.because);
    // Why it was opened stays; what holds is counted when somebody asks.
    assert_eq!(held.because, opened.because);
    let now = held.now.expect("it is not over");
    assert_eq!((now.broken, now.machines, now.since.is_some()), (28, 28, true));
    site.report("r1-00", "healthy");
    let now = site.server.client().incident(held.number).expect("an incident").value.summary.now.expect("now");
    assert_eq!((now.broken, now.machines), (27, 28));
    site.report("r1-00", "unreachable");
    assert_eq!(site.entries(), []);
    site.pass(300);

    // Another one that broke at the same time elsewhere is repaired.
    site.wait_for_status("r3-07", "processing", "watching");
    wait_for("its command", LONG, || (!site.ran().is_empty()).then_some(()));
    site.pass(3_000);
    site.looked();
    let entries = site.entries();
    let repaired: Vec<&str> = entries.iter().filter_map(|entry| entry.serial.as_deref()).collect();
    assert_eq!(repaired, ["r3-07"]);
    assert_eq!(site.ran(), [format!("reset {}", site.address("r3-07"))], "no command was run in the rack");

    // Each of them says why, and what would change it.
    for serial in serials(1) {
        let explanation = site.explain(&serial);
        let numbers: Vec<u64> = explanation.incidents.iter().map(|incident| incident.number).collect();
        assert_eq!(numbers, [held.number], "{serial}");
        let verdict = explanation.broken.expect("it is broken").verdict;
        assert_eq!((&*verdict.kind, verdict.incident), ("held", Some(held.number)), "{serial}");
        let way_out = format!("sabactl incidents acknowledge {}", held.number);
        assert!(verdict.change.as_deref().unwrap_or_default().contains(&way_out), "{verdict:?}");
    }
    for (series, value) in [
        ("sabakan_repair_incidents_open", 1.0),
        ("sabakan_repair_incidents_total", 1.0),
        ("sabakan_repair_machines_held", 28.0),
        ("sabakan_repair_machines_broken", 29.0),
        ("sabakan_repair_enqueued_total", 1.0),
    ] {
        assert_eq!(site.metric(series), Some(value), "{series}");
    }
    assert_eq!(site.audited(&format!("incident {}", held.number))[0], "open-incident");
    assert_eq!(site.events(&format!("incident {}", held.number))[0], "repair.open-incident");
    a_person_lets_some_in(&site, held.number);
    another_rack_comes_back_by_itself(&site);
}

/// As many as there is room for, and the rest is told so.
fn a_person_lets_some_in(site: &Site, number: u64) {
    let known = site.server.client().acknowledge_incident(number, "the breaker was replaced").expect("accepted").value;
    assert_eq!(known.acknowledged.expect("somebody has looked").reason, "the breaker was replaced");
    wait_for("the queue to fill up", LONG, || (site.entries().len() == 5).then_some(()));
    site.looked();
    let in_rack = site.entries().iter().filter(|entry| entry.serial.as_deref().unwrap_or_default() != "r3-07").count();
    assert_eq!((site.entries().len(), in_rack), (5, 4), "never more than allowed");
    let waiting = serials(1).iter().filter(|serial| site.verdict(serial).0 == "no-room").count();
    assert_eq!(waiting, 24, "the others wait for room");
    assert_eq!(site.metric("sabakan_repair_machines_without_room"), Some(24.0));
    for entry in site.entries() {
        let serial = entry.serial.expect("a machine");
        assert_eq!(site.audited(&serial)[0], "enqueue", "{serial}");
        assert_eq!(
            site.events(&serial)[0],
            "repair.enqueue",
            "{serial}: those that come in together are told one by one"
        );
    }
    assert!(site.audited(&format!("incident {number}")).contains(&"acknowledge-incident".to_owned()));
}

fn another_rack_comes_back_by_itself(site: &Site) {
    cut_power(site, 2);
    let second =
        wait_for("another incident", LONG, || incidents(site).into_iter().find(|incident| incident.phase == "open"));
    assert_eq!((&*second.group.kind, &*second.group.value), ("rack", "2"));
    let before = site.ran().len();
    serials(2).iter().for_each(|serial| site.report(serial, "healthy"));
    wait_for("it to be over", LONG, || {
        let incident = incidents(site).into_iter().find(|incident| incident.number == second.number)?;
        incident.recovered.filter(|_| incident.phase == "recovered")
    });
    site.looked();
    assert_eq!((site.ran().len(), site.entries().len()), (before, 5), "nothing was done to it");
    assert_eq!(site.metric("sabakan_repair_incidents_open"), Some(0.0));
    assert_eq!(site.metric("sabakan_repair_machines_held"), Some(0.0));
}

/// It was enqueued when nobody could know; its next step is not begun.
/// Nobody labelled them: what provisioning knows is enough.
fn machines_with_one_image_fail_together(backend: Backend) {
    let site = site(backend);
    let with_image: Vec<String> =
        (0..RACKS).flat_map(|rack| serials(rack).into_iter().skip(9).take(3).collect::<Vec<_>>()).collect();
    let image = json!([{ "op": "add", "path": "/instance_info/image_source",
        "value": "https://me:secret@images.example.com/os/9.raw?token=secret" }]);
    for serial in &with_image {
        let headers = [("content-type", "application/json"), ("x-openstack-ironic-api-version", "1.82")];
        let path = format!("/v1/nodes/{serial}");
        let answer = raw::request(&site.server.ironic_url(), "PATCH", &path, &headers, image.to_string().as_bytes());
        assert_eq!(answer.status, 200, "{}", answer.body);
    }
    // Two of each rack: no rack has failed.
    for pair in with_image.chunks(3) {
        pair[..2].iter().for_each(|serial| site.report(serial, "unreachable"));
    }
    let opened = wait_for("the incident", LONG, || incidents(&site).pop());
    assert_eq!((&*opened.group.kind, &*opened.group.value), ("version", "images.example.com/os/9.raw"));
    site.pass(600);
    site.looked();
    assert_eq!((site.entries(), site.ran(), incidents(&site).len()), (vec![], vec![], 1));
}

fn a_repair_under_way_stops_when_its_rack_fails(backend: Backend) {
    let site = site(backend);
    site.break_alone("r1-00", "unreachable");
    site.wait_for_entry("r1-00", "reset", |entry| entry.note.contains("exit status 0"));
    // The others follow while it is given its hour.
    serials(1)[1..].iter().for_each(|serial| site.report(serial, "unreachable"));
    let incident = wait_for("the incident", LONG, || incidents(&site).pop());
    site.pass(3_700);
    site.looked();
    let held = format!("incident {}", incident.number);
    let entry =
        site.wait_for_entry("r1-00", "held", |entry| entry.waits.as_deref().unwrap_or_default().contains(&held));
    assert_eq!((&*entry.status, entry.step), ("processing", 0));
    assert_eq!((site.ran().len(), site.entries().len()), (1, 1), "its second step is not begun");
    // Power is back.
    serials(1).iter().for_each(|serial| site.report(serial, "healthy"));
    site.wait_for_end("r1-00", "succeeded");
    wait_for("it to be over", LONG, || incidents(&site).pop().filter(|incident| incident.phase == "recovered"));
    assert_eq!((site.ran().len(), site.entries().len()), (1, 1));
}

/// Without the guard the founding text holds: 56 do not fit, so none is let in; when all but two are back, both are.
fn the_plain_limits_let_in_all_or_nobody(backend: Backend) {
    let site = site(backend);
    site.set("guard", "false");
    // Reports that come one by one would be let in one by one.
    let all_at_once = |report: &dyn Fn()| {
        site.server.client().set_repair_enabled(RepairSwitch::Automatic, false).expect("switched");
        site.looked();
        report();
        site.server.client().set_repair_enabled(RepairSwitch::Automatic, true).expect("switched");
        site.looked();
    };
    let both: Vec<String> = [1, 2].into_iter().flat_map(serials).collect();
    all_at_once(&|| both.iter().for_each(|serial| site.report(serial, "unhealthy")));
    let (rule, unknown) = site.verdict("r1-00");
    assert!(rule == "no-procedure" && unknown.contains("has no operation \"unhealthy\""), "{rule}: {unknown}");
    all_at_once(&|| both.iter().for_each(|serial| site.report(serial, "unreachable")));
    let (rule, refused) = site.verdict("r1-00");
    assert!(rule == "no-room" && refused.contains("maximum-repair-queue-entries 5"), "{rule}: {refused}");
    assert_eq!((site.entries(), site.ran()), (vec![], vec![]));
    let left = |serial: &&String| !["r1-03", "r2-05"].contains(&serial.as_str());
    all_at_once(&|| both.iter().filter(left).for_each(|serial| site.report(serial, "healthy")));
    wait_for("both", LONG, || (site.ran().len() == 2).then_some(()));
    let entries = site.entries();
    let repaired: Vec<&str> = entries.iter().filter_map(|entry| entry.serial.as_deref()).collect();
    assert_eq!(repaired, ["r1-03", "r2-05"]);
}

/// An incident that is open holds nobody any more, and nothing says that it does: not the answer, not the status, no figure.
fn a_guard_that_is_turned_off_says_whom_it_let_go(backend: Backend) {
    let site = site(backend);
    cut_power(&site, 1);
    let held = wait_for("the incident", LONG, || incidents(&site).pop().filter(|incident| incident.member_count == 28));
    assert!(held.holds);
    site.looked();
    let figures = || {
        site.looked();
        ["guard_enabled", "incidents_open", "machines_held"].map(|name| site.metric(&format!("sabakan_repair_{name}")))
    };
    assert_eq!(figures(), [Some(1.0), Some(1.0), Some(28.0)]);

    let told = site.server.client().set_repair_setting("guard", "false").expect("a setting").value.warnings;
    assert_eq!((told.len(), told[0].path.as_str()), (1, "guard"), "{told:?}");
    assert!(told[0].reason.contains("1 incident is open and holds nobody"), "{told:?}");
    assert_eq!(figures(), [Some(0.0), Some(0.0), Some(0.0)]);
    let status = site.server.client().repair_status(0).expect("a status").value;
    let messages = status.messages.join("\n");
    assert!(messages.contains("setting `guard` is false") && messages.contains("of rack 1, 28 machines"), "{messages}");
    assert!(!messages.contains("back") && !status.switches.guard, "{messages}");
    let loose = [status.incidents[0].holds, incidents(&site)[0].holds, site.explain("r1-00").incidents[0].holds];
    assert_eq!(loose, [false; 3]);
    assert_eq!((incidents(&site)[0].phase.as_str(), site.verdict("r1-00").0.as_str()), ("open", "no-room"));

    let told = site.server.client().set_repair_setting("guard", "true").expect("a setting").value.warnings;
    assert_eq!(told, []);
    assert_eq!(figures(), [Some(1.0), Some(1.0), Some(28.0)], "it is held again");
    assert_eq!((site.entries(), site.ran()), (vec![], vec![]));
}
