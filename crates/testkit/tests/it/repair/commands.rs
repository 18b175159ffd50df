//! Commands: how often they are tried, for how long, what their failure means, and that nobody runs one again after a restart.

use std::{fs, path::Path};

use sabakan_testkit::{Backend, client::RepairSwitch, wait_for};
use serde_json::{Value, json};

use super::{LONG, Site, procedure};

on_both_stores!(
    a_step_is_tried_again_and_not_for_ever,
    a_command_that_takes_too_long_is_killed,
    a_success_command_that_fails_is_told,
    deleting_an_entry_kills_its_command,
    a_restart_does_not_repeat_a_step,
    what_the_check_says_ends_a_repair,
    nothing_is_tried_again_after_the_answer,
    a_machine_that_needs_no_repair_is_not_tried_again,
);

/// Whether a process of this number runs. One that has ended and was not collected yet has no command line any more.
pub(super) fn lives(pid: &str) -> bool {
    fs::read(Path::new("/proc").join(pid).join("cmdline")).is_ok_and(|line| !line.is_empty())
}

pub(super) fn wait_for_end_of(pid: &str) {
    wait_for("the process to end", LONG, || (!lives(pid)).then_some(()));
}

/// Waits for a command to say its process number.
pub(super) fn pid(site: &Site) -> String {
    wait_for("the command to run", LONG, || {
        fs::read_to_string(site.file("pid")).ok().map(|text| text.trim().to_owned()).filter(|pid| !pid.is_empty())
    })
}

/// What a command does that says who it is and never ends.
fn endless(site: &Site) -> String {
    format!("echo $$ > {}; exec sleep 3600", site.file("pid").display())
}

fn a_step_is_tried_again_and_not_for_ever(backend: Backend) {
    let site = Site::start(backend);
    // Succeeds at the third try, of which each machine has three.
    let thrice =
        format!("test $(grep -c \"^reset $1\" {}) -ge 3 || {{ echo no luck >&2; exit 7; }}", site.log().display());
    let steps = json!([
        { "repair_command": site.command("reset", &thrice), "command_retries": 2, "watch_seconds": 600 },
        { "repair_command": site.command("shutdown", "echo broken >&2; exit 3"), "command_retries": 1, "command_interval": 1 },
        { "repair_command": site.command("never", "true") },
    ]);
    let site = site.with_machines(&procedure("unhealthy", &steps, &json!({})));
    site.break_alone("m1", "unhealthy");
    site.wait_for_entry("m1", "reset", |entry| entry.note.contains("exit status 0"));
    let reset = format!("reset {}", site.address("m1"));
    assert_eq!(site.ran(), vec![reset; 3]);
    site.pass(601);
    // A step that fails for good ends the repair: what comes after it was meant for a machine it was done to.
    let ended = site.wait_for_end("m1", "failed");
    assert!(ended.note.contains("step 1 failed 2 times") && ended.note.contains("exit status 3: broken"), "{ended:?}");
    assert_eq!(site.ran()[3..], vec![format!("shutdown {}", site.address("m1")); 2]);
    site.looked();
    assert_eq!(site.ran().len(), 5);
    assert!(site.audited("m1").ends_with(&["execute".to_owned(), "finish".to_owned()]), "{:?}", site.audited("m1"));
}

fn a_command_that_takes_too_long_is_killed(backend: Backend) {
    let site = Site::start(backend);
    let steps = json!([{ "repair_command": site.command("reset", &endless(&site)), "command_timeout_seconds": 1 }]);
    let site = site.with_machines(&procedure("unhealthy", &steps, &json!({})));
    site.break_alone("m1", "unhealthy");
    let pid = pid(&site);
    let ended = site.wait_for_end("m1", "failed");
    assert!(ended.note.contains("not done after 1 s"), "{}", ended.note);
    wait_for_end_of(&pid);
    assert_eq!(site.ran().len(), 1);
}

fn a_success_command_that_fails_is_told(backend: Backend) {
    let site = Site::start(backend);
    let steps = json!([{ "repair_command": site.command("reset", "true"), "watch_seconds": 600 }]);
    let more = json!({ "success_command": site.command("success", "echo no route >&2; exit 1") });
    let site = site.with_machines(&procedure("unhealthy", &steps, &more));
    site.break_alone("m1", "unhealthy");
    site.wait_for_entry("m1", "reset", |entry| entry.note.contains("exit status 0"));
    site.report("m1", "healthy");
    let ended = site.wait_for_end("m1", "failed");
    assert!(ended.note.contains("the machine is healthy, but its success command failed"), "{}", ended.note);
    assert!(ended.note.contains("no route"), "{}", ended.note);
    site.looked();
    assert_eq!(site.ran().len(), 2, "it is not tried again");
}

fn deleting_an_entry_kills_its_command(backend: Backend) {
    let site = Site::start(backend);
    let steps = json!([{ "repair_command": site.command("reset", &endless(&site)), "command_timeout_seconds": 0 }]);
    let site = site.with_machines(&procedure("unhealthy", &steps, &json!({})));
    site.break_alone("m1", "unhealthy");
    let pid = pid(&site);
    site.wait_for_entry("m1", "at work", |entry| entry.waits.as_deref() == Some("step 0 is being carried out"));
    assert!(lives(&pid));
    // Otherwise it is enqueued again at once.
    site.constrain("maximum-repair-queue-entries", 0);
    site.delete(&site.entries()[0]);
    wait_for("the entry to go", LONG, || site.entries().is_empty().then_some(()));
    wait_for_end_of(&pid);
    assert_eq!(site.audited("m1")[2..], ["delete", "dequeue"]);
}

fn a_restart_does_not_repeat_a_step(backend: Backend) {
    let site = Site::start(backend);
    let steps = json!([
        { "repair_command": site.command("reset", "true"), "watch_seconds": 600 },
        { "repair_command": site.command("shutdown", &endless(&site)), "command_timeout_seconds": 0, "watch_seconds": 600 },
    ]);
    let mut site = site.with_machines(&procedure("unhealthy", &steps, &json!({})));
    site.break_alone("m1", "unhealthy");
    site.wait_for_entry("m1", "reset", |entry| entry.note.contains("exit status 0"));
    // In the middle of watching.
    site.pass(300);
    site.server.restart();
    site.looked();
    let entry = site.wait_for_status("m1", "processing", "watching");
    assert_eq!((entry.step, site.ran().len()), (0, 1));
    site.pass(310);
    // In the middle of a command: what became of it is not known, and it is not repeated.
    let pid = pid(&site);
    site.wait_for_entry("m1", "at work", |entry| entry.step == 1 && entry.step_status == "watching");
    site.server.restart();
    wait_for_end_of(&pid);
    site.looked();
    let entry = site.wait_for_entry("m1", "told about", |entry| {
        entry.waits.as_deref().unwrap_or_default().contains("the server that began it stopped")
    });
    assert_eq!((entry.step, &*entry.step_status), (1, "watching"));
    site.pass(610);
    let ended = site.wait_for_end("m1", "failed");
    assert_eq!(ended.step, 2);
    let address = site.address("m1");
    assert_eq!(site.ran(), [format!("reset {address}"), format!("shutdown {address}")]);
}

/// The check decides, not the registry: a machine that is reported broken may be found healthy before anything is done.
fn what_the_check_says_ends_a_repair(backend: Backend) {
    let site = Site::start(backend);
    let steps = json!([{ "repair_command": site.command("reset", "true"), "watch_seconds": 600 }]);
    let healthy = site.file("healthy");
    let check = format!("test -e {} && echo ' true '; exit 0", healthy.display());
    let more = json!({ "health_check_command": ["/bin/sh", "-c", check, "check"] });
    let site = site.with_machines(&procedure("unhealthy", &steps, &more));
    site.break_alone("m1", "unhealthy");
    site.wait_for_entry("m1", "reset", |entry| entry.note.contains("exit status 0"));
    site.looked();
    site.wait_for_status("m1", "processing", "watching");
    fs::write(&healthy, "").expect("a file");
    site.wait_for_end("m1", "succeeded");
    site.break_alone("m2", "unhealthy");
    let ended = site.wait_for_end("m2", "succeeded");
    assert!(ended.note.contains("healthy"), "{}", ended.note);
    assert_eq!(site.ran(), [format!("reset {}", site.address("m1"))], "nothing was done to the second");
}

/// A command that fails when it is told to, each time it is run; it may be run often, and at once.
fn failing(site: &Site) -> Value {
    let more = format!("until test -e {}-$1; do sleep 0.05; done; exit 1", site.file("fail").display());
    json!({ "repair_command": site.command("reset", &more), "command_retries": 50, "watch_seconds": 600 })
}

fn fail(site: &Site, serial: &str) {
    fs::write(site.file(&format!("fail-{}", site.address(serial))), "").expect("a file");
}

/// Who was told that the queue is disabled sees nothing begin after that, also while the repairer waits for somebody else.
fn nothing_is_tried_again_after_the_answer(backend: Backend) {
    let site = Site::start(backend);
    let steps = json!([failing(&site)]);
    let site = site.with_machines(&procedure("unhealthy", &steps, &json!({})));
    site.break_alone("m1", "unhealthy");
    wait_for("the command", LONG, || (site.ran().len() == 1).then_some(()));
    site.double.state().faults.silent = true;
    site.server.client().set_repair_enabled(RepairSwitch::RepairQueue, false).expect("switched");
    fail(&site, "m1");
    let ended = site.wait_for_end("m1", "failed");
    let expected = "step 0 failed 1 times; it is not tried again, because the queue was disabled";
    assert!(ended.note.contains(expected), "{}", ended.note);
    assert_eq!(site.ran(), [format!("reset {}", site.address("m1"))]);
}

fn a_machine_that_needs_no_repair_is_not_tried_again(backend: Backend) {
    let site = Site::start(backend);
    let steps = json!([failing(&site)]);
    let site = site.with_machines(&procedure("unhealthy", &steps, &json!({})));
    let begin = |serial: &str, ran: usize| {
        site.break_alone(serial, "unhealthy");
        wait_for("the command", LONG, || (site.ran().len() == ran).then_some(()));
    };
    // The monitor says that it works while the command runs, which then fails.
    begin("m1", 1);
    site.report("m1", "healthy");
    fail(&site, "m1");
    site.wait_for_end("m1", "succeeded");
    assert_eq!(site.ran().len(), 1);

    // The same where a command is asked.
    let check = format!("test -e {}-$1 && echo true; exit 0", site.file("healthy").display());
    let more = json!({ "health_check_command": ["/bin/sh", "-c", check, "check"] });
    site.configure(&["m0", "m1", "m2", "m3"], &procedure("unhealthy", &steps, &more), &json!({}));
    begin("m2", 2);
    fs::write(site.file(&format!("healthy-{}", site.address("m2"))), "").expect("a file");
    fail(&site, "m2");
    site.wait_for_end("m2", "succeeded");
    assert_eq!(site.ran().len(), 2);

    // Somebody takes it out of service; its check would never say that it works.
    begin("m3", 3);
    site.report("m3", "retiring");
    fail(&site, "m3");
    let ended = site.wait_for_end("m3", "failed");
    assert!(ended.note.contains("it is not tried again, because the machine is retiring"), "{}", ended.note);
    assert_eq!(site.ran().len(), 3);
}
