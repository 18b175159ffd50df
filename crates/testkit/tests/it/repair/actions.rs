//! What a step does by itself, through provisioning: at the simulated machine is seen that it was done, or why it was not.

use std::sync::Arc;

use sabakan_domain::provision::{
    node::Node,
    power::{PowerState, PowerTarget},
    states::State,
};
use sabakan_drivers::simulated::{Call, Command, Fault, Point, Running};
use sabakan_testkit::{Backend, kubernetes::Pod, rack::WORK_MAX, wait_for};
use serde_json::json;

use super::{
    LONG, Site, procedure,
    stories::{cordon, deploy},
};

on_both_stores!(
    each_action_is_tried_until_one_helps,
    a_controller_that_fails_ends_the_repair,
    a_broken_machine_is_emptied_and_rebuilt,
    a_machine_that_cannot_be_rebuilt_says_why,
    a_rebuild_that_goes_wrong_is_no_repair,
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
    let is_asked = |note: &str| note.contains("rebuild");
    site.wait_for_entry("m1", "rebuilt", |entry| entry.step_status == "watching" && is_asked(&entry.note));
    wait_for("its workload to be put on it", WORK_MAX, || (written(&site, "m1") == 2).then_some(()));
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
    let steps = json!([{ "action": "rebuild", "watch_seconds": 600 }]);
    let site = site.with_machines(&procedure("unhealthy", &steps, &json!({})));
    deploy(&site, "m1");
    site.fleet.set_fault("m1", Fault::Fail(Point::Step(WRITE_IMAGE.to_owned())));
    site.break_alone("m1", "unhealthy");
    let failed = wait_for_node(&site, "m1", State::DeployFailed);
    assert!(failed.last_error.as_deref().unwrap_or_default().contains(WRITE_IMAGE), "{:?}", failed.last_error);
    site.looked();
    site.wait_for_status("m1", "processing", "watching");
    site.pass(601);
    let ended = site.wait_for_end("m1", "failed");
    assert!(ended.note.contains("all 1 steps were tried and the machine is not healthy"), "{}", ended.note);
    site.looked();
    assert_eq!((node(&site, "m1").state, site.entries().len()), (State::DeployFailed, 1), "it is left to a person");
}
