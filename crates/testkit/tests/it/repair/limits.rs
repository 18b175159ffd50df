//! How many repairs there may be, who counts, and that a queue which looks idle says why.

use sabakan_testkit::{Backend, wait_for};
use serde_json::json;

use super::{LONG, Site, procedure};

on_both_stores!(
    without_room_nothing_is_repaired,
    repairs_that_have_ended_use_the_room_and_say_so,
    one_machine_is_worked_on_at_a_time,
);

/// What the last round came to.
fn last(site: &Site) -> String {
    let status = site.server.client().repair_status(10).expect("a status").value;
    status.last_round.and_then(|round| round.reason).unwrap_or_default()
}

fn site(backend: Backend) -> Site {
    let site = Site::start(backend);
    let steps = json!([{ "repair_command": site.command("reset", "true"), "watch_seconds": 60 }]);
    site.with_machines(&procedure("unhealthy", &steps, &json!({})))
}

fn without_room_nothing_is_repaired(backend: Backend) {
    let site = site(backend);
    site.constrain("maximum-repair-queue-entries", 0);
    site.break_alone("m1", "unhealthy");
    site.looked();
    assert_eq!((site.entries(), site.ran()), (vec![], vec![]));
    assert!(last(&site).contains("maximum-repair-queue-entries 0"), "{}", last(&site));
    let (rule, text) = site.verdict("m1");
    assert!(rule == "no-room" && text.contains("maximum-repair-queue-entries 0"), "{rule}: {text}");
    assert_eq!(site.metric("sabakan_repair_budget_max"), Some(0.0));
    assert_eq!(site.metric("sabakan_repair_machines_without_room"), Some(1.0));
    assert_eq!(site.metric("sabakan_repair_queue_blocked_by_finished"), Some(0.0), "nothing has ended");
    site.constrain("maximum-repair-queue-entries", 1);
    site.wait_for_status("m1", "processing", "watching");
}

fn repairs_that_have_ended_use_the_room_and_say_so(backend: Backend) {
    let site = site(backend);
    site.constrain("maximum-repair-queue-entries", 1);
    site.break_alone("m1", "unhealthy");
    site.wait_for_entry("m1", "reset", |entry| entry.note.contains("exit status 0"));
    assert_eq!(site.metric("sabakan_repair_queue_blocked_by_finished"), Some(0.0));
    site.report("m1", "healthy");
    site.wait_for_end("m1", "succeeded");

    site.break_alone("m2", "unhealthy");
    site.looked();
    let reason = last(&site);
    assert!(reason.contains("1 of the entries have ended and still count"), "{reason}");
    assert!(reason.contains("sabactl repair-queue delete-finished"), "{reason}");
    assert_eq!(site.metric("sabakan_repair_queue_blocked_by_finished"), Some(1.0));
    assert_eq!(site.metric("sabakan_repair_budget_finished"), Some(1.0));
    let budget = site.explain("m2").budget;
    assert_eq!((budget.left, budget.blocked_by_finished), (0, true));
    let messages = site.server.client().repair_status(10).expect("a status").value.messages.join("\n");
    assert!(messages.contains("sabactl repair-queue delete-finished"), "{messages}");

    // An hour later it does not count any more.
    site.set("finished-count-hours", "1");
    site.looked();
    assert_eq!(site.entries().len(), 1, "not yet");
    site.pass(3_600);
    site.wait_for_status("m2", "processing", "watching");
    wait_for("the figures", LONG, || {
        site.metric("sabakan_repair_queue_blocked_by_finished").filter(|blocked| *blocked == 0.0)
    });
    assert_eq!(site.entries().len(), 2, "what has ended is kept until somebody deletes it");
}

fn one_machine_is_worked_on_at_a_time(backend: Backend) {
    let site = site(backend);
    site.break_alone("m1", "unhealthy");
    site.wait_for_entry("m1", "reset", |entry| entry.note.contains("exit status 0"));
    site.report("m3", "unhealthy");
    site.pass(10);
    site.set("observe-seconds", "5");
    let second = site.wait_for_entry("m3", "told why it waits", |entry| {
        entry.waits.as_deref().unwrap_or_default().contains("max_concurrent_repairs")
    });
    assert_eq!((&*second.status, site.ran().len()), ("queued", 1));
    site.looked();
    assert_eq!(site.ran(), [format!("reset {}", site.address("m1"))]);
    site.report("m1", "healthy");
    wait_for("the second", LONG, || (site.ran().len() == 2).then_some(()));
    assert_eq!(site.ran()[1], format!("reset {}", site.address("m3")));
}
