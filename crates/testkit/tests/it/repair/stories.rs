//! From a report to its end: a machine that comes back, one that never does, and pods that do not leave.

use sabakan_domain::provision::{
    power::{PowerState, PowerTarget},
    states::State,
    verbs::Verb,
};
use sabakan_drivers::simulated::Command;
use sabakan_service::Asked;
use sabakan_testkit::{
    Backend,
    client::RepairSweep,
    kubernetes::{Budget, Pod},
    rack::{WORK_MAX, operator},
    wait_for,
};
use sabakan_wire::rest::repair::RepairEntryJson;
use serde_json::json;

use super::{LONG, Site, procedure};

on_both_stores!(
    a_machine_is_drained_power_cycled_and_given_back,
    one_that_never_recovers_is_left_to_a_person,
    a_protected_pod_makes_the_repair_wait,
);

const MARK: &str = "cke.cybozu.com/reboot";

/// Whether new pods are kept away from a machine's Node by us: that, the mark that says so, or neither.
pub(super) fn cordon(site: &Site, serial: &str) -> (bool, bool) {
    let node = site.double.node(site.address(serial));
    (node["spec"]["unschedulable"] == true, node["metadata"]["annotations"][MARK] == "true")
}

/// Brings a machine into service: its controller is known, and it is switched on.
pub(super) fn deploy(site: &Site, serial: &str) {
    let nodes = site.server.nodes();
    let name = sabakan_domain::words::Serial::new(serial).expect("a serial");
    for (verb, state) in
        [(Verb::Manage, State::Manageable), (Verb::Provide, State::Available), (Verb::Active, State::Active)]
    {
        let asked = Asked { verb, steps: Vec::new(), disable_ramdisk: false };
        site.server.block_on(nodes.ask(&operator(), &name, &asked)).unwrap_or_else(|error| panic!("{verb}: {error}"));
        wait_for(&format!("{serial} to become {state}"), WORK_MAX, || {
            let shown = site.server.block_on(nodes.get(serial)).expect("a node");
            (shown.node.state == state && shown.lock.is_none()).then_some(())
        });
    }
    site.report(serial, "healthy");
    assert_eq!(site.fleet.power(serial), PowerState::On);
}

fn a_machine_is_drained_power_cycled_and_given_back(backend: Backend) {
    let site = Site::start(backend);
    let steps = json!([{ "action": "power-cycle", "need_drain": true, "watch_seconds": 600 }]);
    let success = json!({ "success_command": site.command("success", "true") });
    let site = site.with_machines(&procedure("unhealthy", &steps, &success));
    deploy(&site, "m1");
    let node = site.address("m1").to_owned();
    site.double.add_namespace("prod", &[("protected", "true")]);
    site.double.add_pod(Pod::new("prod", "db-0", &node).owned_by("StatefulSet").lingering());
    site.double.add_pod(Pod::new("prod", "web-1", &node));
    site.double.add_pod(Pod::new("dev", "stubborn", &node).with_budget(Budget::Refuses));
    site.double.add_pod(Pod::new("kube-system", "agent", &node).owned_by("DaemonSet"));
    site.double.add_pod(Pod::new("prod", "elsewhere", site.address("m2")));
    let (commands, requests) = (site.fleet.calls("m1").commands.len(), site.double.take_drains());
    assert_eq!(requests, [""; 0]);

    // It is watched first; nothing is begun meanwhile.
    site.report("m1", "unhealthy");
    site.pass(290);
    site.looked();
    assert_eq!(site.entries(), []);
    let (rule, text) = site.verdict("m1");
    assert!(rule == "observed" && text.contains("whether it failed alone"), "{rule}: {text}");
    let opinion = site.explain("m1").broken.expect("it is broken").second_opinion;
    assert_eq!(opinion.bmc_answers, Some(true), "its controller was heard");
    site.pass(20);

    its_pods_leave(&site, commands);
    it_is_power_cycled(&site, commands);
    // It works again.
    site.report("m1", "healthy");
    let ended = site.wait_for_end("m1", "succeeded");
    assert_eq!((&*ended.index, ended.step), ("0", 0));
    assert_eq!(site.ran(), [format!("success {node}")]);
    wait_for("its node to be given back", LONG, || (cordon(&site, "m1") == (false, false)).then_some(()));
    site.looked();
    assert_eq!(site.double.take_drains(), [format!("uncordon {node}")]);
    assert_eq!(site.fleet.calls("m1").commands.len(), commands + 2);
    assert_eq!((site.entries().len(), site.ran().len()), (1, 1));
    everything_is_told(&site);
}

/// Pods leave, in order; one that may not be evicted and is not protected is deleted. One takes its time.
fn its_pods_leave(site: &Site, commands: usize) {
    let node = site.address("m1").to_owned();
    let entry = site.wait_for_entry("m1", "waiting for its pods", |entry| {
        entry.waits.as_deref() == Some("pods leave its node; 1 of its pods are still there: prod/db-0 (terminating)")
    });
    let fields = [&*entry.operation, &*entry.machine_type, &*entry.status, &*entry.step_status, &*entry.nodename];
    assert_eq!(fields, ["unhealthy", super::KIND, "processing", "draining", &node]);
    assert_eq!((&*entry.index, &*entry.address, entry.serial.as_deref()), ("0", &*node, Some("m1")));
    assert_eq!((entry.step, entry.deleted, entry.drain_backoff_count), (0, false, 0));
    assert!(entry.asked_by.contains("repair"), "{entry:?}");
    let expected = [
        "would evict prod/db-0".to_owned(),
        "would evict prod/web-1".to_owned(),
        format!("cordon {node}"),
        "refuse dev/stubborn".to_owned(),
        "delete dev/stubborn".to_owned(),
        "evict prod/db-0".to_owned(),
        "evict prod/web-1".to_owned(),
    ];
    assert_eq!(site.double.take_drains(), expected);
    assert_eq!(cordon(site, "m1"), (true, true));
    assert_eq!(site.double.pods_on(&node), ["kube-system/agent", "prod/db-0"]);
    site.looked();
    assert_eq!(site.metric("cke_repair_queue_items{status=\"processing\"}"), Some(1.0));
    assert_eq!(site.metric("cke_operation_phase{phase=\"repair-machines\"}"), Some(1.0));
    assert_eq!(site.fleet.calls("m1").commands.len(), commands, "nothing is done to it before its pods have gone");
}

/// The last pod goes: off and on again, once.
fn it_is_power_cycled(site: &Site, commands: usize) {
    site.double.end_pod("prod/db-0");
    let is_done = |entry: &RepairEntryJson| entry.step_status == "watching" && entry.note.contains("power-cycle");
    site.wait_for_entry("m1", "power-cycled", is_done);
    let calls = site.fleet.calls("m1");
    let power = [PowerTarget::Off, PowerTarget::On].map(Command::Power);
    assert_eq!((&calls.commands[commands..], calls.forgotten), (&power[..], 0));
    assert_eq!(site.fleet.power("m1"), PowerState::On);
    site.looked();
    assert_eq!((site.entries().len(), site.ran()), (1, vec![]));
    assert_eq!(cordon(site, "m1"), (true, true), "it is not given back before it is healthy");
}

/// Every step was written down, and told.
fn everything_is_told(site: &Site) {
    let node = site.address("m1");
    let told = ["enqueue", "drain-start", "execute", "executed", "conclude", "finish"];
    assert_eq!(site.audited("m1"), told);
    assert_eq!(site.events("m1"), told.map(|action| format!("repair.{action}")));
    for (series, value) in [
        ("cke_repair_queue_items{status=\"succeeded\"}", 1.0),
        ("cke_repair_queue_items{status=\"processing\"}", 0.0),
        ("cke_operation_phase{phase=\"completed\"}", 1.0),
        ("sabakan_repair_enqueued_total", 1.0),
        ("sabakan_repair_steps_total", 1.0),
        ("sabakan_repair_ended_total{status=\"succeeded\"}", 1.0),
        ("sabakan_repair_ended_total{status=\"failed\"}", 0.0),
        ("sabakan_repair_drains_given_up_total", 0.0),
        ("sabakan_repair_machines_broken", 0.0),
    ] {
        assert_eq!(site.metric(series), Some(value), "{series}");
    }
    let status = format!("cke_machine_repair_status{{address=\"{node}\",status=\"succeeded\"}}");
    assert_eq!(site.metric(&status), Some(1.0));
}

fn one_that_never_recovers_is_left_to_a_person(backend: Backend) {
    let site = Site::start(backend);
    let steps = json!([
        { "repair_command": site.command("reset", "true"), "watch_seconds": 600 },
        { "repair_command": site.command("shutdown", "true"), "need_drain": true },
        { "repair_command": site.command("discharge", "true"), "watch_seconds": 360 },
    ]);
    let site = site.with_machines(&procedure("unhealthy", &steps, &json!({})));
    let node = site.address("m2").to_owned();
    site.double.add_pod(Pod::new("dev", "web", &node));
    site.break_alone("m2", "unhealthy");

    let ran = |name: &str| format!("{name} {node}");
    site.wait_for_entry("m2", "reset", |entry| entry.step_status == "watching" && entry.note.contains("exit status 0"));
    assert_eq!(site.ran(), [ran("reset")]);
    assert_eq!(cordon(&site, "m2"), (false, false), "this step needs no drain");
    site.pass(590);
    site.looked();
    assert_eq!(site.ran(), [ran("reset")], "it is given ten minutes");
    site.pass(20);
    // The second gives it no time at all.
    site.wait_for_entry("m2", "discharged", |entry| entry.step == 2 && entry.note.contains("exit status 0"));
    assert_eq!(site.ran(), [ran("reset"), ran("shutdown"), ran("discharge")]);
    assert_eq!((cordon(&site, "m2"), site.double.pods_on(&node)), ((true, true), vec![]));
    site.pass(350);
    site.looked();
    site.wait_for_status("m2", "processing", "watching");
    site.pass(20);

    let ended = site.wait_for_end("m2", "failed");
    assert_eq!((ended.step, &*ended.step_status), (3, "waiting"));
    assert!(ended.note.contains("all 3 steps were tried and the machine is not healthy"), "{}", ended.note);
    wait_for("its node to be given back", LONG, || (cordon(&site, "m2") == (false, false)).then_some(()));
    assert_eq!(site.server.client().get_state("m2").expect("a state"), "unhealthy", "repair changes no state");

    // It is held for a person, and says so.
    site.pass(3_600);
    site.looked();
    assert_eq!((site.entries().len(), site.ran().len()), (1, 3));
    let explanation = site.explain("m2");
    assert_eq!((explanation.entries.len(), explanation.state.as_deref()), (1, Some("unhealthy")));
    let (rule, text) = site.verdict("m2");
    assert!(rule == "has-entry" && text.contains("failed"), "{rule}: {text}");
    let change = explanation.change.expect("something would change it");
    assert!(change.contains("sabactl repair-queue delete 0"), "{change}");
    assert_eq!(site.metric("sabakan_repair_ended_total{status=\"failed\"}"), Some(1.0));
    assert_eq!(site.metric("cke_repair_queue_items{status=\"failed\"}"), Some(1.0));

    site.delete(&ended);
    let again = site.wait_for_entry("m2", "repaired again", |entry| entry.index != ended.index);
    assert_eq!((&*again.index, site.entries().len()), ("1", 1), "numbers are never used twice");
    wait_for("the first step again", LONG, || (site.ran().len() == 4).then_some(()));
    assert_eq!(site.ran()[3], ran("reset"));
}

fn a_protected_pod_makes_the_repair_wait(backend: Backend) {
    let site = Site::start(backend);
    let steps = json!([{ "repair_command": site.command("reset", "true"), "need_drain": true, "watch_seconds": 600 }]);
    let mut repair = procedure("unhealthy", &steps, &json!({}));
    repair["eviction_timeout_seconds"] = json!(120);
    let site = site.with_machines(&repair);
    let node = site.address("m3").to_owned();
    site.double.add_namespace("prod", &[("protected", "true")]);
    site.double.add_pod(Pod::new("prod", "db-0", &node).with_budget(Budget::RefusesNext(1)));
    site.break_alone("m3", "unhealthy");

    // The rehearsal goes well, the eviction does not: the node is given back.
    let waiting = site.wait_for_status("m3", "processing", "waiting");
    assert_eq!(waiting.drain_backoff_count, 1);
    assert!(waiting.note.contains("prod/db-0") && waiting.note.contains("budget"), "{}", waiting.note);
    wait_for("its node to be given back", LONG, || (cordon(&site, "m3") == (false, false)).then_some(()));
    let waits = site.wait_for_entry("m3", "waiting", |entry| entry.waits.is_some()).waits.expect("a reason");
    assert!(waits.contains("draining failed 1 times; tried again at 20"), "{waits}");
    assert_eq!(
        site.double.take_drains()[1..],
        [format!("cordon {node}"), "refuse prod/db-0".to_owned(), format!("uncordon {node}")]
    );
    site.pass(290);
    site.looked();
    assert_eq!((site.double.take_drains(), site.ran()), (vec![], vec![]), "five minutes at least");

    // A person does not want to wait. The pod was told to go now, and does not.
    site.double.edit_pod("prod/db-0", |pod| pod.lingers = true);
    let reset = site.server.client().sweep_repairs(RepairSweep::ResetBackoff).expect("reset").value;
    assert_eq!(reset.indexes, ["0"]);
    site.wait_for_entry("m3", "draining again", |entry| {
        entry.step_status == "draining" && entry.waits.as_deref().unwrap_or_default().contains("terminating")
    });
    assert_eq!(cordon(&site, "m3"), (true, true));
    site.pass(125);
    let given_up = site.wait_for_status("m3", "processing", "waiting");
    assert_eq!(given_up.drain_backoff_count, 1, "counted anew");
    assert!(given_up.note.contains("after 120 s"), "{}", given_up.note);
    wait_for("its node to be given back", LONG, || (cordon(&site, "m3") == (false, false)).then_some(()));
    assert_eq!(site.metric("sabakan_repair_drains_given_up_total"), Some(2.0));
    assert_eq!(site.ran(), [""; 0], "no step without an empty node");

    // At last it goes, and so does the repair.
    site.double.end_pod("prod/db-0");
    site.pass(1_200);
    wait_for("the step", LONG, || (site.ran() == [format!("reset {node}")]).then_some(()));
    let expected = ["enqueue", "drain-start", "back-off", "reset-backoff", "drain-start", "back-off", "drain-start"];
    assert_eq!(site.audited("m3")[..7], expected);
}
