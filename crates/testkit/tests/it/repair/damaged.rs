//! A stored record that cannot be read: nothing is begun, whoever asks is told which it is and what to do, and a person can do it.

use sabakan_store::{Op, Txn, TxnOutcome, keys::Keys, repo::consistency};
use sabakan_testkit::{
    Backend,
    raw::{self, Answer},
    wait_for,
};
use serde_json::json;

use super::{
    LONG, Site,
    commands::{lives, pid, wait_for_end_of},
    procedure,
};

on_both_stores!(
    a_damaged_repair_stops_everything_and_says_so,
    a_damaged_reboot_can_be_discarded,
    what_cannot_be_discarded_is_named,
);

/// Writes past the services, as a person with a tool or a failing disk would.
fn write(site: &Site, op: Op) {
    let txn = Txn { when: vec![], then: vec![op] };
    let outcome = site.server.block_on(site.server.store().commit(txn)).expect("the store answers");
    assert!(matches!(outcome, TxnOutcome::Committed(_)));
}

fn ask(site: &Site, method: &str, path: &str) -> Answer {
    raw::request(&site.server.url(), method, &format!("/api/v1/{path}"), &[], b"")
}

/// Everybody who asks about repair is told which record is damaged, and the way out.
fn says(site: &Site, key: &str, way_out: &str) {
    for path in ["repair-queue", "reboot-queue", "incidents", "auto-repair/status", "auto-repair/explain/m2"] {
        let answer = ask(site, "GET", path);
        assert_eq!((answer.status, answer.json()["kind"].as_str()), (500, Some("internal")), "{path}: {}", answer.body);
        let text = answer.json()["error"].as_str().expect("a text").to_owned();
        assert!(text.contains(key) && text.contains(way_out), "{path}: {text}");
        assert!(text.contains("nothing is repaired or rebooted"), "{path}: {text}");
    }
}

/// Waits until the repairer has looked twice from here on, and given up each time.
fn gave_up(site: &Site) {
    let failures = || site.metric("sabakan_repair_cycle_failures_total").expect("a figure");
    let before = failures();
    wait_for("the repairer to give up", LONG, || (failures() >= before + 2.0).then_some(()));
}

fn a_damaged_repair_stops_everything_and_says_so(backend: Backend) {
    let site = Site::start(backend);
    // Says who it is, and whether the one before it still runs.
    let one = format!(
        "test -e {pid} && grep -q . /proc/$(cat {pid})/cmdline 2>/dev/null && echo twice >> {log}; echo $$ > {pid}; exec sleep 3600",
        pid = site.file("pid").display(),
        log = site.log().display()
    );
    let steps = json!([{ "repair_command": site.command("reset", &one), "command_timeout_seconds": 0 }]);
    let site = site.with_machines(&procedure("unhealthy", &steps, &json!({})));
    site.break_alone("m1", "unhealthy");
    let first = pid(&site);
    site.wait_for_entry("m1", "at work", |entry| entry.waits.as_deref() == Some("step 0 is being carried out"));
    assert_eq!(site.metric("sabakan_repair_cycle_failures_total"), Some(0.0));

    let key = "/sabakan/repairs/data/0000000000000000";
    write(&site, Op::put(key, r#"{"index": "0", "address": "10.69.0."#));
    site.break_alone("m2", "unhealthy");
    gave_up(&site);
    let looked_at = site.metric("sabakan_repair_timestamp_seconds");
    says(&site, key, "sabactl repair-queue delete 0");
    // Whose repair that is nobody knows: nothing is begun, and what was begun goes on.
    site.pass(3_600);
    gave_up(&site);
    assert_eq!(site.metric("sabakan_repair_timestamp_seconds"), looked_at, "the alert for repair that does not run");
    assert_eq!(site.ran(), [format!("reset {}", site.address("m1"))]);
    assert!(lives(&first));
    let refused = ask(&site, "POST", "repair-queue/delete-finished");
    assert!(refused.status == 500 && refused.body.contains(key), "{}", refused.body);
    // Switches work all the same, and the rest of the server.
    for enabled in [false, true] {
        site.put("/api/v1/repair-queue/enabled", &json!({ "enabled": enabled }).to_string());
        let answer = ask(&site, "GET", "repair-queue/enabled");
        assert_eq!((answer.status, answer.json()), (200, json!({ "enabled": enabled })), "{}", answer.body);
    }
    assert_eq!(raw::request(&site.server.url(), "GET", "/health", &[], b"").status, 200);

    assert_eq!(ask(&site, "DELETE", "repair-queue/0").status, 200);
    wait_for_end_of(&first);
    // Both are broken, and come in anew. Nothing was done twice at once.
    site.wait_for_entry("m1", "at work again", |entry| {
        entry.index != "0" && entry.waits.as_deref() == Some("step 0 is being carried out")
    });
    site.wait_for_entry("m2", "waiting for its turn", |entry| {
        entry.waits.as_deref().unwrap_or_default().contains("max_concurrent_repairs")
    });
    let second = wait_for("the command", LONG, || Some(pid(&site)).filter(|pid| *pid != first));
    assert!(lives(&second));
    assert_eq!(site.ran(), vec![format!("reset {}", site.address("m1")); 2]);
    assert_eq!(site.audited("repair-queue").last().map(String::as_str), Some("discard"));
    let again = ask(&site, "DELETE", "repair-queue/0");
    assert_eq!(again.status, 404, "{}", again.body);
}

fn a_damaged_reboot_can_be_discarded(backend: Backend) {
    let site = Site::start(backend);
    let steps = json!([{ "repair_command": site.command("reset", "true"), "watch_seconds": 600 }]);
    let site = site.with_machines(&procedure("unhealthy", &steps, &json!({})));
    let key = "/sabakan/reboots/data/000000000000001f";
    write(&site, Op::put(key, "nonsense"));
    site.break_alone("m2", "unhealthy");
    gave_up(&site);
    says(&site, key, "sabactl reboot-queue cancel 31");
    assert_eq!(site.ran(), [""; 0]);
    site.server.client().cancel_reboot(31).expect("discarded");
    wait_for("the repair", LONG, || (site.ran() == [format!("reset {}", site.address("m2"))]).then_some(()));
    assert_eq!(site.server.client().reboots().expect("reboots").value, []);
    assert!(site.audited("reboot-queue").contains(&"discard".to_owned()));
}

/// There is no command for these; the page that the text names says what to do.
fn what_cannot_be_discarded_is_named(backend: Backend) {
    let site = Site::start(backend);
    let steps = json!([{ "repair_command": site.command("reset", "true"), "watch_seconds": 600 }]);
    let site = site.with_machines(&procedure("unhealthy", &steps, &json!({})));
    site.report("m2", "unhealthy");
    for key in
        ["/sabakan/incidents/data/0000000000000007", "/sabakan/auto-repair/settings", "/sabakan/repairs/write-index"]
    {
        write(&site, Op::put(key, "nonsense"));
        says(&site, key, "docs/operations/recovery.md");
        // `sabakan store check` finds it as well.
        let (store, keys) = (site.server.store(), Keys::new("/sabakan/", "/states/"));
        let problems = site.server.block_on(consistency::check(&*store, &keys)).expect("a report").problems;
        assert!(problems.len() == 1 && problems[0].contains(key), "{problems:?}");
        write(&site, Op::Delete(key.to_owned()));
    }
    site.pass(301);
    wait_for("the repair", LONG, || (site.ran() == [format!("reset {}", site.address("m2"))]).then_some(()));
}
