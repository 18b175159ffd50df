//! What a step does by itself, through provisioning: at the simulated machine is seen that it was done, or why it was not.

use std::{sync::Arc, time::Duration};

use sabakan_domain::{
    provision::{
        node::{Node, PowerAction, Row},
        power::{PowerState, PowerTarget},
        states::State,
    },
    words::Serial,
};
use sabakan_drivers::simulated::{Call, Command, Fault, Point, Running};
use sabakan_testkit::{
    Backend, TestServer,
    etcd::Etcd,
    kubernetes::{Entry, KubernetesDouble, Pod},
    rack::WORK_MAX,
    simulated::{Fleet, FleetConfig},
    wait_for,
};
use serde_json::json;

use super::{
    LONG, Site, procedure, repairing,
    stories::{cordon, deploy},
};

on_both_stores!(
    each_action_is_tried_until_one_helps,
    a_controller_that_fails_ends_the_repair,
    a_broken_machine_is_emptied_and_rebuilt,
    a_machine_that_cannot_be_rebuilt_says_why,
    a_rebuild_that_goes_wrong_is_no_repair,
    what_nobody_has_begun_is_taken_back,
    what_was_begun_ends_before_the_node_is_given_back,
);

fn each_action_is_tried_until_one_helps(backend: Backend) {
    let site = Site::start(backend);
    let steps = json!([
        { "action": "power-on", "watch_seconds": 60 },
        { "action": "bmc-reset", "watch_seconds": 60 },
        { "action": "retire", "watch_seconds": 60 },
    ]);
    let site = site.with_machines(&procedure("unreachable", &steps, &json!({})));
    deploy(&site, "m1");
    // Somebody pressed the button; a machine that is off is not contacted.
    site.server.block_on(async { site.fleet.set_power("m1", PowerState::Off) });
    let before = site.fleet.calls("m1").commands.len();
    let new = || site.fleet.calls("m1").commands[before..].to_vec();
    site.break_alone("m1", "unreachable");
    site.wait_for_entry("m1", "switched on", |entry| entry.note.contains("power-on"));
    assert_eq!((new(), site.fleet.power("m1")), (vec![Command::Power(PowerTarget::On)], PowerState::On));
    site.pass(61);
    site.wait_for_entry("m1", "reset", |entry| entry.note.contains("bmc-reset"));
    assert_eq!(new(), [Command::Power(PowerTarget::On), Command::ResetBmc]);
    // Nothing helps. It is declared retiring, and nobody repairs it any more.
    site.pass(61);
    let ended = site.wait_for_end("m1", "succeeded");
    assert_eq!(ended.step, 2);
    assert_eq!(site.server.client().get_state("m1").expect("a state"), "retiring");
    let states = site.server.client().list_logs(None, None).expect("a log");
    let by = states.iter().rfind(|entry| entry.instance == "m1" && entry.action == "set-state").expect("an entry");
    assert!(by.user.contains("repair"), "{by:?}");
    site.looked();
    assert_eq!((new().len(), site.entries().len()), (2, 1));
}

fn a_controller_that_fails_ends_the_repair(backend: Backend) {
    let site = Site::start(backend);
    let steps = json!([
        { "action": "power-cycle", "command_retries": 1, "watch_seconds": 60 },
        { "repair_command": site.command("never", "true") },
    ]);
    let site = site.with_machines(&procedure("unhealthy", &steps, &json!({})));
    deploy(&site, "m1");
    let before = site.fleet.calls("m1").commands.len();
    site.fleet.set_fault("m1", Fault::Fail(Point::Call(Call::CommandPower)));
    site.break_alone("m1", "unhealthy");
    let ended = site.wait_for_end("m1", "failed");
    assert!(ended.note.contains("step 0 failed 2 times"), "{}", ended.note);
    assert!(ended.note.contains("the simulation was asked to fail here"), "{}", ended.note);
    assert_eq!(site.fleet.power("m1"), PowerState::On, "nothing was done to it");
    let tries = site.fleet.calls("m1").commands[before..].to_vec();
    assert!(tries.iter().all(|command| matches!(command, Command::Power(_))) && !tries.is_empty(), "{tries:?}");
    assert_eq!(site.ran(), [""; 0], "what comes after it was meant for a machine it was done to");
}

/// The step of provisioning that puts the workload on a machine.
const WRITE_IMAGE: &str = "deploy.write_image";

/// How often the workload was put on a machine.
fn written(site: &Site, serial: &str) -> usize {
    site.fleet.calls(serial).steps(WRITE_IMAGE)
}

fn node(site: &Site, serial: &str) -> Arc<Node> {
    site.server.block_on(site.server.nodes().get(serial)).expect("a node").node
}

/// Waits until provisioning has brought a machine somewhere and left it.
fn wait_for_node(site: &Site, serial: &str, state: State) -> Arc<Node> {
    wait_for(&format!("{serial} to become {state}"), WORK_MAX, || {
        let shown = site.server.block_on(site.server.nodes().get(serial)).expect("a node");
        (shown.node.state == state && shown.lock.is_none()).then_some(shown.node)
    })
}

fn a_broken_machine_is_emptied_and_rebuilt(backend: Backend) {
    let site = Site::start(backend);
    let steps = json!([{ "action": "rebuild", "need_drain": true, "watch_seconds": 3_600 }]);
    let site = site.with_machines(&procedure("unhealthy", &steps, &json!({})));
    deploy(&site, "m1");
    let address = site.address("m1").to_owned();
    site.double.add_pod(Pod::new("dev", "web", &address).lingering());
    assert_eq!(written(&site, "m1"), 1);
    site.break_alone("m1", "unhealthy");
    // Its disks are written, so nothing may run there any more.
    site.wait_for_entry("m1", "waiting for its pods", |entry| {
        entry.step_status == "draining" && entry.waits.as_deref().unwrap_or_default().contains("dev/web (terminating)")
    });
    site.looked();
    assert_eq!((written(&site, "m1"), node(&site, "m1").state), (1, State::Active));
    site.double.end_pod("dev/web");
    let is_done = |note: &str| note.contains("rebuild: done");
    site.wait_for_entry("m1", "rebuilt", |entry| entry.step_status == "watching" && is_done(&entry.note));
    assert_eq!(written(&site, "m1"), 2, "the step ends when that is done");
    let rebuilt = wait_for_node(&site, "m1", State::Active);
    assert_eq!((rebuilt.last_error.as_deref(), rebuilt.maintenance.is_some()), (None, false));
    assert_eq!((site.fleet.power("m1"), site.fleet.running("m1")), (PowerState::On, Running::Instance));
    // Whether that helped is for the monitor to say, and until then the machine stays empty.
    site.looked();
    let entry = site.wait_for_status("m1", "processing", "watching");
    assert_eq!((entry.step, cordon(&site, "m1")), (0, (true, true)));
    site.report("m1", "healthy");
    site.wait_for_end("m1", "succeeded");
    wait_for("its node to be given back", LONG, || (cordon(&site, "m1") == (false, false)).then_some(()));
    site.looked();
    assert_eq!((written(&site, "m1"), site.entries().len()), (2, 1), "once");
    let log = site.server.client().list_logs(None, None).expect("a log");
    let asked: Vec<_> = log.iter().filter(|entry| entry.instance == "m1" && entry.action == "rebuild").collect();
    assert!(asked.len() == 1 && asked[0].user.contains("repair"), "{asked:?}");
}

/// Nobody ever put a workload on it that could be put there again.
fn a_machine_that_cannot_be_rebuilt_says_why(backend: Backend) {
    let site = Site::start(backend);
    let steps = json!([
        { "action": "rebuild", "command_retries": 1, "watch_seconds": 60 },
        { "repair_command": site.command("never", "true") },
    ]);
    let site = site.with_machines(&procedure("unhealthy", &steps, &json!({})));
    assert_eq!(node(&site, "m2").state, State::Enroll);
    site.break_alone("m2", "unhealthy");
    let ended = site.wait_for_end("m2", "failed");
    for part in
        ["step 0 failed 2 times", "\"rebuild\" can not be performed on node", "in state \"enroll\"", "Accepted: manage"]
    {
        assert!(ended.note.contains(part), "{part}: {}", ended.note);
    }
    site.looked();
    assert_eq!((node(&site, "m2").state, site.fleet.calls("m2").commands), (State::Enroll, vec![]), "nothing was done");
    assert_eq!(site.ran(), [""; 0], "what comes after it was meant for a machine it was done to");
    let (rule, text) = site.verdict("m2");
    assert!(rule == "has-entry" && text.contains("failed"), "{rule}: {text}");
}

fn a_rebuild_that_goes_wrong_is_no_repair(backend: Backend) {
    let site = Site::start(backend);
    let steps = json!([
        { "action": "rebuild", "command_retries": 1, "watch_seconds": 600 },
        { "repair_command": site.command("never", "true") },
    ]);
    let site = site.with_machines(&procedure("unhealthy", &steps, &json!({})));
    deploy(&site, "m1");
    site.fleet.set_fault("m1", Fault::Fail(Point::Step(WRITE_IMAGE.to_owned())));
    site.break_alone("m1", "unhealthy");
    let ended = site.wait_for_end("m1", "failed");
    let failed = node(&site, "m1");
    let reason = failed.last_error.as_deref().unwrap_or_default();
    assert!(reason.contains(WRITE_IMAGE), "{reason}");
    for part in ["step 0 failed 2 times", "rebuild: its node is in state deploy failed", WRITE_IMAGE] {
        assert!(ended.note.contains(part), "{part}: {}", ended.note);
    }
    site.looked();
    assert_eq!((node(&site, "m1").state, site.entries().len()), (State::DeployFailed, 1), "it is left to a person");
    assert_eq!(site.ran(), [""; 0], "what comes after it was meant for a machine it was done to");
}

/// What happened to a machine, the oldest first.
fn history(site: &Site, serial: &str) -> Vec<Row> {
    let name = Serial::new(serial).expect("a serial");
    let rows = site.server.block_on(site.server.nodes().history(&name)).expect("rows");
    rows.into_iter().map(|(_, row)| row).collect()
}

/// Asks for a power change of an emptied machine, and then nobody wants it repaired any more.
fn delete_in_the_middle(site: &Site, serial: &str, is_begun: impl Fn(&PowerAction) -> bool) {
    site.break_alone(serial, "unhealthy");
    wait_for("the power change", LONG, || {
        node(site, serial).power.action.as_ref().is_some_and(&is_begun).then_some(())
    });
    assert_eq!(cordon(site, serial), (true, true));
    // Otherwise it is enqueued again at once.
    site.constrain("maximum-repair-queue-entries", 0);
    site.delete(&site.entries()[0]);
}

/// Whether nobody is about to change the power of a machine whose node was given back.
fn is_at_rest(site: &Site, serial: &str) -> bool {
    let is_open = cordon(site, serial) == (false, false);
    assert!(!is_open || node(site, serial).power.action.is_none(), "its node was given back before");
    is_open && site.entries().is_empty()
}

fn what_nobody_has_begun_is_taken_back(backend: Backend) {
    let etcd = (backend == Backend::Etcd).then(|| Arc::new(Etcd::start()));
    let double = Arc::new(KubernetesDouble::start(Entry::Token));
    let fleet = Fleet::new(FleetConfig::instant());
    let server = TestServer::start_on(etcd, |config| {
        repairing(config, &fleet, &double);
        config.provisioning.conductor = None;
    });
    let site = Site { fleet, ..Site::around(server, double, Arc::new(tempfile::tempdir().expect("a directory"))) };
    let steps = json!([{ "action": "power-cycle", "need_drain": true, "command_timeout_seconds": 600 }]);
    let site = site.with_machines(&procedure("unhealthy", &steps, &json!({})));
    delete_in_the_middle(&site, "m1", |action| !action.started);
    wait_for("the node to be given back", LONG, || is_at_rest(&site, "m1").then_some(()));
    let rows = history(&site, "m1");
    let last = rows.last().expect("a row");
    assert!(last.text.contains("power: rebooting withdrawn") && last.by.contains("repair"), "{last:?}");
}

fn what_was_begun_ends_before_the_node_is_given_back(backend: Backend) {
    let site = Site::start(backend);
    let steps = json!([{ "action": "power-cycle", "need_drain": true, "command_timeout_seconds": 600 }]);
    let site = site.with_machines(&procedure("unhealthy", &steps, &json!({})));
    deploy(&site, "m1");
    site.fleet.set_fault("m1", Fault::Slow(Duration::from_millis(800)));
    delete_in_the_middle(&site, "m1", |action| action.started);
    wait_for("the node to be given back", LONG, || is_at_rest(&site, "m1").then_some(()));
    let rows = history(&site, "m1");
    let last = rows.last().expect("a row");
    assert!(last.text.starts_with("power: rebooting") && last.by == "conductor-1", "it was not broken off: {last:?}");
}
