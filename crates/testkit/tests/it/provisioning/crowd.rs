//! A thousand machines on one server, one in twenty of them broken: none gets stuck, and each broken one says what is wrong.

use std::{collections::BTreeMap, time::Duration};

use jiff::SignedDuration;
use sabakan_domain::{
    provision::{
        node::Node,
        running,
        states::{Kind, State},
        verbs::Verb,
    },
    words::Serial,
};
use sabakan_drivers::simulated::{Call, Fault, FleetConfig, Latencies, Point};
use sabakan_service::Shown;
use sabakan_testkit::{
    Backend,
    rack::{Rack, operator},
    wait_for,
};

use super::ended;

const MACHINES: usize = 1_000;
const PATIENCE: Duration = Duration::from_secs(180);

/// What is wrong with a machine: one in twenty, each in another way.
fn fault(n: usize) -> Option<Fault> {
    let step = |name: &str| Point::Step(name.to_owned());
    let faults = [
        Fault::WrongPassword,
        Fault::Hang(Point::Every),
        Fault::DropAfter(5),
        Fault::RamdiskSilent,
        Fault::Fail(step("deploy.erase_devices")),
        Fault::Hang(step("deploy.write_image")),
        Fault::LoseAnswer(Point::Call(Call::CommandPower)),
        Fault::Fail(Point::Call(Call::SetBoot)),
        Fault::Fail(step("deploy.prepare_instance_boot")),
        Fault::PowerStuck,
        Fault::LoseAnswer(Point::Call(Call::Ramdisk)),
        Fault::DropAfter(20),
    ];
    (n % 20 == 7).then(|| faults[n / 20 % faults.len()].clone())
}

#[test]
fn a_thousand_machines_with_faults_and_none_is_stuck() {
    let latencies =
        Latencies { limit: Duration::from_millis(100), heartbeat: Duration::from_millis(300), ..Latencies::none() };
    let fleet = FleetConfig { seed: 7, latencies, ..FleetConfig::default() };
    let rack = Rack::start_with(Backend::Embedded, fleet, |config| {
        if let Some(options) = &mut config.conductor {
            options.lease = Duration::from_secs(15);
            options.step_power = Duration::from_secs(1);
            options.task_poll = Duration::from_secs(1);
        }
    });
    let serials: Vec<String> = (0..MACHINES).map(|n| format!("m{n:04}")).collect();
    rack.register(&serials);
    for (n, serial) in serials.iter().enumerate() {
        fault(n).into_iter().for_each(|fault| rack.fleet.set_fault(serial, fault));
    }
    let mut moving: Vec<&str> = serials.iter().map(String::as_str).collect();
    for (verb, state) in super::ACTIVE {
        ask_all(&rack, &moving, *verb);
        let nodes = settle(&rack);
        moving.retain(|serial| nodes[*serial].node.state == *state);
    }
    let nodes = settle(&rack);
    let healthy = serials.iter().enumerate().filter(|(n, _)| fault(*n).is_none());
    for (_, serial) in healthy {
        let node = &nodes[serial.as_str()].node;
        assert_eq!(node.state, State::Active, "{serial} has no fault: {:?}", node.last_error);
    }
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    for shown in nodes.values().filter(|shown| shown.node.state != State::Active) {
        let node = &shown.node;
        assert_eq!(node.state.kind(), Kind::Failed, "{} is {}", node.name, node.state);
        let reason = node.last_error.clone().unwrap_or_default();
        assert!(!reason.is_empty(), "{} failed and does not say why", node.name);
        *reasons.entry(reason).or_default() += 1;
    }
    let failed: usize = reasons.values().sum();
    assert!((30..=50).contains(&failed), "{failed} of the 50 broken machines failed: {reasons:#?}");
    assert!(reasons.len() >= 6, "faults of many kinds give reasons of many kinds: {reasons:#?}");
}

fn ask_all(rack: &Rack, serials: &[&str], verb: Verb) {
    let nodes = rack.server.nodes();
    rack.server.block_on(async {
        let mut asking = tokio::task::JoinSet::new();
        for serial in serials {
            let (nodes, name) = (nodes.clone(), Serial::new(serial).expect("a serial"));
            asking.spawn(async move { nodes.ask(&operator(), &name, &super::verb(verb)).await.map(drop) });
        }
        while let Some(asked) = asking.join_next().await {
            asked.expect("no panic").expect("accepted");
        }
    });
}

/// Waits until nothing is done any more. Time only moves when nothing is left but broken machines that wait for what never comes: they
/// then meet their deadlines, and nobody else does.
fn settle(rack: &Rack) -> BTreeMap<String, Shown> {
    let (mut looks, mut still) = (0_u32, 0);
    let mut last = Vec::new();
    wait_for("every machine to come to an end", PATIENCE, || {
        // Looking at a thousand machines costs more than a look at one; the server needs the processor.
        looks += 1;
        if !looks.is_multiple_of(30) {
            return None;
        }
        let nodes = rack.server.block_on(rack.server.nodes().list()).expect("the nodes");
        let left: Vec<&Shown> = nodes.iter().filter(|shown| !ended(shown)).collect();
        if left.is_empty() {
            return Some(nodes.into_iter().map(|shown| (shown.node.name.to_string(), shown)).collect());
        }
        // Those that failed may wait until their silent ramdisk counts as gone, so that its power may be cut.
        let waits = |node: &Node| node.state.kind() == Kind::Waiting || running::postponed(node).is_some();
        let hopeless = |shown: &&Shown| waits(&shown.node) && is_broken(shown.node.name.as_str());
        let seen: Vec<_> = left.iter().map(|shown| (shown.node.name.clone(), shown.node.history.1)).collect();
        still = if left.iter().all(hopeless) && seen == last { still + 1 } else { 0 };
        last = seen;
        if still > 3 {
            rack.server.clock.advance(SignedDuration::from_secs(31 * 60));
            left.iter().filter(|shown| runs_for_ever(&shown.node)).for_each(|shown| insist(rack, &shown.node.name));
            still = 0;
        }
        None
    })
}

/// Whether the work has failed and only the power is still there, because the ramdisk says that it runs a command.
fn runs_for_ever(node: &Node) -> bool {
    node.state.kind() == Kind::Failed && running::postponed(node).is_some_and(|wait| wait.reason.contains("still runs"))
}

/// No time runs out there: a person has to say that the power may be cut.
fn insist(rack: &Rack, name: &Serial) {
    let forced = rack.server.block_on(rack.server.nodes().force_power_off(&operator(), name, None));
    // A worker that asks its ramdisk again at this moment holds the lock; the next look comes.
    forced.map(drop).unwrap_or_else(|error| eprintln!("{name}: {error}"));
}

fn is_broken(serial: &str) -> bool {
    serial.trim_start_matches('m').parse().is_ok_and(|n| fault(n).is_some())
}
