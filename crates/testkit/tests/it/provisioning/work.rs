//! How work is shared, bounded, stopped, remembered, and what reports about a machine count meanwhile.

use std::{collections::BTreeMap, time::Duration};

use sabakan_domain::{
    provision::{
        node::{Node, Phase},
        schedule::{Capacity, Class},
        states::State,
        verbs::Verb,
    },
    words::Serial,
};
use sabakan_drivers::simulated::{Fault, FleetConfig, Latencies};
use sabakan_service::{Shown, tasks::conductor::ConductorOptions};
use sabakan_testkit::{
    Backend,
    rack::{Rack, WORK_MAX, operator},
    wait_for,
};

use super::{ended, history};

on_both_stores!(
    a_report_during_work_is_kept_and_judged,
    a_server_that_stops_hands_over_at_the_end_of_a_step,
    several_servers_share_the_work_and_one_may_die
);

fn serials(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|n| format!("{prefix}{n:03}")).collect()
}

fn list(rack: &Rack) -> Vec<Shown> {
    rack.server.block_on(rack.server.nodes().list()).expect("the nodes")
}

fn all_ended(rack: &Rack, what: &str) -> Vec<Shown> {
    wait_for(what, WORK_MAX, || Some(list(rack)).filter(|nodes| nodes.iter().all(ended)))
}

fn slow() -> FleetConfig {
    let short = Duration::from_millis(10);
    let latencies =
        Latencies { call: short, boot: short, ramdisk_step: short, heartbeat: short * 10, ..Latencies::none() };
    FleetConfig { latencies, ..FleetConfig::default() }
}

fn a_report_during_work_is_kept_and_judged(backend: Backend) {
    let rack = Rack::start(backend);
    rack.register(&["good", "bad"]);
    let client = rack.server.client();
    for serial in ["good", "bad"] {
        super::AVAILABLE.iter().for_each(|(verb, state)| drop(rack.bring(serial, *verb, *state)));
        client.put_state(serial, "healthy", false).expect("healthy");
        rack.fleet.set_fault(serial, Fault::RamdiskSilent);
        rack.ask(serial, Verb::Active).expect("accepted");
        wait_for("the ramdisk", WORK_MAX, || {
            let shown = rack.node(serial);
            (shown.node.state == State::DeployWait && shown.lock.is_none()).then_some(())
        });
        client.put_state(serial, "unreachable", false).expect("kept");
        assert_eq!(client.get_state(serial).expect("a state"), "healthy", "a machine that restarts is not unreachable");
        assert!(rack.node(serial).node.held_report.is_some());
    }
    rack.clear_faults("good");
    rack.wait_for("good", State::Active);
    assert_eq!(client.get_state("good").expect("a state"), "healthy", "it works: the report is outdated");
    rack.ask("bad", Verb::Abort).expect("accepted");
    wait_for("the end", WORK_MAX, || ended(&rack.node("bad")).then_some(()));
    assert_eq!(client.get_state("bad").expect("a state"), "unreachable", "it does not work: the report counts");
    for serial in ["good", "bad"] {
        assert_eq!(rack.node(serial).node.held_report, None);
        assert!(history(&rack, serial).iter().any(|row| row.text.contains("the report unreachable of")));
    }
}

fn a_server_that_stops_hands_over_at_the_end_of_a_step(backend: Backend) {
    let rack = Rack::start_with(backend, slow(), |config| config.conductor = None);
    let names = serials("s", 12);
    rack.register(&names);
    let first = rack.conductor("first", |_| {});
    names.iter().for_each(|name| rack.ask(name, Verb::Manage).expect("accepted"));
    all_ended(&rack, "verification");
    names.iter().for_each(|name| rack.ask(name, Verb::Provide).expect("accepted"));
    wait_for("work to begin", WORK_MAX, || list(&rack).iter().any(|shown| shown.lock.is_some()).then_some(()));
    wait_for("the first to stop", WORK_MAX, || first.stop().then_some(()));
    for shown in list(&rack) {
        let phase = shown.node.operation.as_ref().map(|operation| operation.phase.clone());
        assert_eq!(shown.lock, None, "{}", shown.node.name);
        assert!(matches!(phase, None | Some(Phase::Ready | Phase::Waiting(_))), "{}: {phase:?}", shown.node.name);
    }
    let _second = rack.conductor("second", |_| {});
    for shown in all_ended(&rack, "the second to finish") {
        assert_eq!(shown.node.state, State::Available, "{:?}", shown.node.last_error);
        let rows = history(&rack, shown.node.name.as_str());
        assert!(rows.iter().all(|row| !row.text.contains("attempt")), "a step was begun twice: {rows:#?}");
    }
}

#[test]
fn a_restart_of_the_server_goes_on_where_it_was() {
    let mut rack = Rack::start_with(Backend::Embedded, slow(), |_| {});
    let names = serials("s", 12);
    rack.register(&names);
    names.iter().for_each(|name| rack.ask(name, Verb::Manage).expect("accepted"));
    all_ended(&rack, "verification");
    names.iter().for_each(|name| rack.ask(name, Verb::Provide).expect("accepted"));
    wait_for("work to begin", WORK_MAX, || list(&rack).iter().any(|shown| shown.lock.is_some()).then_some(()));
    rack.server.restart();
    // The machines are simulated in the server's process and have to be woken; real ones would not have noticed.
    names.iter().for_each(|name| rack.clear_faults(name));
    for shown in all_ended(&rack, "the rest of the work") {
        assert_eq!(shown.node.state, State::Available, "{:?}", shown.node.last_error);
        let rows = history(&rack, shown.node.name.as_str());
        assert!(rows.iter().all(|row| !row.text.contains("attempt")), "a step was begun twice: {rows:#?}");
    }
}

fn several_servers_share_the_work_and_one_may_die(backend: Backend) {
    let rack = Rack::start_with(backend, slow(), |config| config.conductor = None);
    let names = serials("s", 30);
    rack.register(&names);
    let short = |options: &mut ConductorOptions| {
        options.lease = Duration::from_secs(1);
        options.capacity.per_class.insert(Class::Clean, 12);
    };
    let crew = [rack.conductor("a", short), rack.conductor("b", short), rack.conductor("c", short)];
    names.iter().for_each(|name| rack.ask(name, Verb::Manage).expect("accepted"));
    all_ended(&rack, "verification");
    names.iter().for_each(|name| rack.ask(name, Verb::Provide).expect("accepted"));
    // The one that dies has work in its hands.
    let victim = wait_for("somebody to work", WORK_MAX, || {
        let holders: Vec<String> =
            list(&rack).into_iter().filter_map(|shown| Some(shown.lock?.record.holder)).collect();
        ["a", "b"].into_iter().position(|name| holders.iter().any(|holder| holder == name))
    });
    crew[victim].store.kill();
    for shown in all_ended(&rack, "the others to finish") {
        assert_eq!(shown.node.state, State::Available, "{}: {:?}", shown.node.name, shown.node.last_error);
        super::check_path(shown.node.name.as_str(), &history(&rack, shown.node.name.as_str()));
    }
    let takings = crew.each_ref().map(|conductor| conductor.store.locks().len());
    assert!(takings.iter().all(|count| *count > 0), "somebody did nothing: {takings:?}");
}

#[test]
fn bounds_hold_and_a_small_group_does_not_wait_for_a_large_one() {
    let capacity = Capacity { per_class: BTreeMap::from([(Class::Verify, 4), (Class::Clean, 4)]), per_group: 3 };
    let rack = Rack::start_with(Backend::Embedded, slow(), |config| config.conductor = None);
    let (large, small) = (serials("large", 40), serials("small", 2));
    rack.register(&large);
    rack.register_from(5, &small);
    let nodes = rack.server.nodes();
    for name in &small {
        let name = Serial::new(name).expect("a serial");
        let grouped = |node: &Node| Ok(Node { group: "small".to_owned(), ..node.clone() });
        rack.server.block_on(nodes.edit(&operator(), &name, "edit", grouped)).expect("edited");
    }
    large.iter().chain(&small).for_each(|name| rack.ask(name, Verb::Manage).expect("accepted"));
    let _conductor = rack.conductor("c", |options| options.capacity = capacity);
    wait_for("the last one to say how many are before it", WORK_MAX, || {
        let waiting = rack.node(&large[39]).waiting?;
        waiting.reason.contains("other nodes with verify work are before it").then_some(())
    });
    let (mut most, mut most_large) = (0, 0);
    let large_left = wait_for("the small group", WORK_MAX, || {
        let nodes = list(&rack);
        let held = |group: &str| {
            nodes.iter().filter_map(|shown| shown.lock.as_ref()).filter(|lock| lock.record.group == group).count()
        };
        (most, most_large) = (most.max(held("") + held("small")), most_large.max(held("")));
        let left = |prefix: &str| {
            nodes.iter().filter(|shown| shown.node.name.as_str().starts_with(prefix) && !ended(shown)).count()
        };
        (left("small") == 0).then(|| left("large"))
    });
    assert!(large_left > 20, "the small group waited for the large one: {large_left} of 40 were left");
    wait_for("the large group", WORK_MAX, || {
        let nodes = list(&rack);
        let held = nodes.iter().filter(|shown| shown.lock.is_some()).count();
        (most, most_large) = (most.max(held), most_large.max(held));
        nodes.iter().all(ended).then_some(())
    });
    assert!((1..=4).contains(&most) && (1..=3).contains(&most_large), "{most} at once, {most_large} of one group");
}

#[test]
fn history_is_a_path_and_is_bounded() {
    let rack = Rack::start(Backend::Embedded);
    rack.register(&["s1"]);
    rack.fleet.set_fault("s1", Fault::WrongPassword);
    for _ in 0..110 {
        rack.server.clock.advance(jiff::SignedDuration::from_secs(7));
        rack.bring("s1", Verb::Manage, State::VerifyFailed);
    }
    let rows = history(&rack, "s1");
    assert_eq!(rows.len(), 300);
    super::check_path("s1", &rows);
    let left = rows.iter().filter(|row| row.from == State::VerifyFailed && row.to == State::Verifying);
    assert!(left.clone().count() > 50 && left.clone().all(|row| row.lasted_ms == 7_000 && row.by == "operator"));
    let numbers = rack.server.dump().into_keys().filter(|key| key.contains("/node-history/")).count();
    assert_eq!(numbers, 300, "rows beyond those kept are gone from the store too");
}
