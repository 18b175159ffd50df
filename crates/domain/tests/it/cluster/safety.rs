//! G7: whatever happens to machines, constraints and template, no round takes more than a minority of the control planes away, every
//! node has a machine, nobody unfit is chosen, and once nothing happens any more the cluster comes to rest.

use std::{collections::BTreeSet, net::IpAddr};

use proptest::{prelude::*, sample::select};
use sabakan_domain::{
    cluster::{
        config::Configuration,
        constraints::Constraints,
        input::ListedMachine,
        plan::{Outcome, Plan},
        report::Operation,
        simulate::simulate,
        template::Template,
    },
    lifecycle::HealthState,
    machine::Rack,
};

use super::{
    fleet::{self, Whom},
    world::World,
};

/// The largest fleet of a story.
const MOST: usize = 24;

/// Something that happens between two rounds. Numbers choose a machine, whatever there are.
#[derive(Debug, Clone)]
enum Event {
    State(usize, HealthState),
    RackFails(u32, HealthState),
    Leaves(usize),
    Returns(usize),
    Constraints(Constraints),
    Template(Box<Template>),
    Taint(usize, &'static str),
    NoTaints,
    Cautions(Whom),
    Wait(u32),
}

fn events() -> impl Strategy<Value = Event> {
    prop_oneof![
        6 => (0..MOST, fleet::states()).prop_map(|(n, state)| Event::State(n, state)),
        1 => (0u32..4, select(vec![HealthState::Unreachable, HealthState::Healthy]))
            .prop_map(|(rack, state)| Event::RackFails(rack, state)),
        3 => (0..MOST).prop_map(Event::Leaves),
        3 => (0..MOST).prop_map(Event::Returns),
        2 => fleet::constraints().prop_map(Event::Constraints),
        1 => fleet::templates().prop_map(|template| Event::Template(Box::new(template))),
        1 => (0..MOST, select(&fleet::TAINTS[..])).prop_map(|(n, key)| Event::Taint(n, key)),
        1 => Just(Event::NoTaints),
        2 => fleet::cautioned(MOST).prop_map(Event::Cautions),
        1 => select(vec![60u32, 301]).prop_map(Event::Wait),
    ]
}

/// A fleet that generates a cluster more often than not.
fn beginnings() -> impl Strategy<Value = World> {
    let fleet = prop_oneof![3 => fleet::healthy_machines(MOST).boxed(), 1 => fleet::machines(MOST).boxed()];
    let constraints = prop_oneof![
        3 => (1u32..=5, 0u32..=5, prop::option::of(0u32..=3)).prop_map(|(control_plane_count, minimum_workers, room)| {
            let maximum_workers = room.map_or(0, |room| (minimum_workers + room).max(1));
            Constraints { control_plane_count, minimum_workers, maximum_workers, ..Constraints::default() }
        }),
        1 => fleet::constraints(),
    ];
    (fleet, fleet::templates(), constraints).prop_map(|(machines, template, constraints)| World {
        machines,
        template,
        template_changed: false,
        constraints,
        current: None,
        taints: Default::default(),
        cautions: Default::default(),
        now: fleet::now(),
    })
}

fn apply(world: &mut World, away: &mut Vec<ListedMachine>, event: Event) {
    let count = world.machines.len();
    match event {
        Event::State(n, state) if count > 0 => {
            let machine = &mut world.machines[n % count];
            machine.state = state;
            machine.seconds_in_state = 0.0;
        }
        Event::RackFails(rack, state) => {
            for machine in world.machines.iter_mut().filter(|machine| machine.rack == Rack(rack)) {
                machine.state = state;
                machine.seconds_in_state = 0.0;
            }
        }
        Event::Leaves(n) if count > 0 => away.push(world.machines.remove(n % count)),
        Event::Returns(n) if !away.is_empty() => world.machines.push(away.remove(n % away.len())),
        Event::Constraints(constraints) => world.constraints = constraints,
        Event::Template(template) => {
            world.template = *template;
            world.template_changed = true;
        }
        Event::Taint(n, key) if count > 0 => {
            if let Some(address) = world.machines[n % count].address {
                world.taints.entry(IpAddr::V4(address)).or_default().insert(key.to_owned());
            }
        }
        Event::NoTaints => world.taints.clear(),
        Event::Cautions(whom) => world.caution(&whom),
        Event::Wait(seconds) => world.wait(seconds),
        Event::State(..) | Event::Leaves(_) | Event::Returns(_) | Event::Taint(..) => {}
    }
}

/// What no round may do, whatever it does.
fn check_round(world: &World, before: Option<&Configuration>, plan: &Plan) {
    let Outcome::Change(made) = &plan.outcome else { return };
    let after = &made.configuration;
    let addresses: BTreeSet<IpAddr> = after.nodes.iter().map(|node| node.address).collect();
    assert_eq!(addresses.len(), after.nodes.len(), "an address is there twice");
    let stayed: BTreeSet<IpAddr> = before.iter().flat_map(|before| &before.nodes).map(|node| node.address).collect();
    for node in &after.nodes {
        let machine = world.machine_at(node.address).expect("every node has a machine in the list");
        assert!(stayed.contains(&node.address) || machine.is_healthy(), "{} is {}", machine.serial, machine.state);
    }
    let constraints = &world.constraints;
    assert!(after.control_planes().len() >= constraints.control_plane_count as usize);
    assert!(after.workers().len() >= constraints.minimum_workers as usize);
    let empty = Configuration { nodes: Vec::new(), rest: serde_json::Map::new() };
    let before = before.unwrap_or(&empty);
    for new in after.control_planes().difference(&before.control_planes()) {
        assert!(world.machine_at(*new).is_some_and(ListedMachine::is_healthy), "{new} became a control plane");
        assert_eq!(world.intolerable(*new), Vec::<String>::new(), "{new} became a control plane");
    }
    check_control_planes_taken(world, before, made.operation, after);
    check_workers_taken(world, before, after);
}

fn check_control_planes_taken(world: &World, before: &Configuration, operation: Operation, after: &Configuration) {
    let count = before.control_planes().len();
    let taken: Vec<IpAddr> = before.control_planes().difference(&after.control_planes()).copied().collect();
    let (there, gone): (Vec<IpAddr>, Vec<IpAddr>) =
        taken.iter().partition(|address| world.machine_at(**address).is_some());
    assert!(count != 1 || taken.is_empty(), "the only control plane was taken");
    assert!(2 * gone.len() < count || count == 0, "{} of {count} vanished", gone.len());
    assert!(taken.len() <= (count.saturating_sub(1) / 2).max(1), "{} of {count} were taken", taken.len());
    match operation {
        Operation::DecreaseControlPlane => assert!(gone.is_empty()),
        Operation::ReplaceControlPlane => assert_eq!((there.len(), gone.len()), (1, 0), "one at a time"),
        _ => assert!(there.is_empty(), "{operation} took {there:?}"),
    }
}

fn check_workers_taken(world: &World, before: &Configuration, after: &Configuration) {
    let left: Vec<IpAddr> = before.workers().difference(&after.workers()).copied().collect();
    let listed = |address: &IpAddr| world.machine_at(*address).is_some();
    for address in left.into_iter().filter(|address| !after.control_planes().contains(address) && listed(address)) {
        let machine = world.machine_at(address).expect("it is listed");
        assert_eq!(machine.state, HealthState::Retired, "{} was removed", machine.serial);
        assert!(machine.seconds_in_state > 300.0, "{} was removed", machine.serial);
    }
}

/// Plans until nothing changes any more, and then once again.
fn check_rest(mut world: World) {
    // Retired machines leave after a while; from then on time does not matter.
    world.wait(301);
    let bound = 3 * world.machines.len() + 20;
    for _ in 0..bound {
        let before = world.current.clone();
        let plan = world.round();
        check_round(&world, before.as_ref(), &plan);
        if plan.outcome.made().is_none() {
            let again = world.round();
            assert_eq!(again, plan, "a cluster at rest stays as it is");
            return;
        }
    }
    panic!("no rest after {bound} rounds");
}

/// The rounds that were told in advance are those that come.
fn check_told(mut world: World) {
    let period = std::time::Duration::from_secs(100);
    let told = simulate(world.input(), 12, period, Plan::clone);
    assert!(!told.is_empty());
    for plan in &told {
        let came = world.round();
        assert_eq!(came.outcome, plan.outcome);
        assert_eq!(came.report, plan.report);
        world.wait(100);
    }
    if told.len() < 12 {
        assert!(world.round().outcome.made().is_none(), "it ended too early");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn no_story_takes_a_majority_away_and_all_come_to_rest(
        mut world in beginnings(),
        story in prop::collection::vec(prop::collection::vec(events(), 0..4), 0..16),
    ) {
        let mut away = Vec::new();
        world.round();
        for happens in story {
            for event in happens {
                apply(&mut world, &mut away, event);
            }
            let before = world.current.clone();
            let plan = world.round();
            check_round(&world, before.as_ref(), &plan);
        }
        check_told(world.clone());
        check_rest(world);
    }

    #[test]
    fn clusters_written_by_hand_come_to_rest(world in fleet::cautious_worlds(MOST)) {
        check_rest(world);
    }
}
