//! What a step does by itself, through provisioning: at the simulated machine is seen that it was done, or why it was not.

use sabakan_domain::provision::power::{PowerState, PowerTarget};
use sabakan_drivers::simulated::{Call, Command, Fault, Point};
use sabakan_testkit::Backend;
use serde_json::json;

use super::{Site, procedure, stories::deploy};

on_both_stores!(each_action_is_tried_until_one_helps, a_controller_that_fails_ends_the_repair);

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
