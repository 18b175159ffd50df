//! Any blocked round: whatever is said to help does.

use std::{cell::Cell, net::Ipv4Addr};

use jiff::SignedDuration;
use proptest::{
    prelude::*,
    test_runner::{RngAlgorithm, TestCaseError, TestRng, TestRunner},
};
use sabakan_domain::{
    cluster::{
        input::ListedMachine,
        plan::Outcome,
        remedy::{Remedy, remedies},
        report::Blocked,
    },
    lifecycle::HealthState,
    machine::{Labels, Rack},
    time::Moment,
};

use super::{
    fleet::{self, Whom},
    world::World,
};

/// The world in which it was done. `purchase` says what machines are bought, where nothing says otherwise.
fn applied(world: &World, remedy: &Remedy, purchase: &Purchase) -> World {
    let mut world = world.clone();
    match remedy {
        Remedy::Heal(serial) => {
            let machine = world.machines.iter_mut().find(|machine| machine.serial == *serial).expect("it is listed");
            assert!(!machine.is_healthy(), "{serial} is healthy");
            machine.state = HealthState::Healthy;
            machine.seconds_in_state = 0.0;
        }
        Remedy::AddMachines(needed) => {
            let roles = needed.iter().flat_map(|(role, count)| std::iter::repeat_n(role.as_deref(), *count));
            for (n, role) in (0u8..).zip(roles) {
                world.machines.push(bought(n, role.unwrap_or(purchase.role), purchase));
            }
            if purchase.cautioned {
                world.caution(&Whom::Everybody);
                world.cautions.retain(|serial, _| serial.as_str().starts_with("bought"));
            }
        }
        Remedy::Constrain { name, value } => {
            let before = world.constraints;
            world.constraints = world.constraints.with(name, *value).expect("a constraint");
            assert_ne!(world.constraints, before, "nothing new");
            assert!(world.constraints.check().is_empty(), "nobody could set this");
        }
        Remedy::Tolerate(key) => assert!(world.template.tolerations.insert(key.clone()), "{key} is tolerated already"),
        Remedy::ByHand => {}
    }
    world
}

/// What somebody buys who knows only how many of which role.
#[derive(Debug, Clone)]
struct Purchase {
    role: &'static str,
    racks: Vec<u32>,
    days: i64,
    /// They are put where machines are failing.
    cautioned: bool,
}

fn purchases() -> impl Strategy<Value = Purchase> {
    let role = prop::sample::select(vec!["cs", "ss", "gpu", "unheard-of"]);
    let racks = prop::collection::vec(0u32..8, 1..4);
    (role, racks, -1_100i64..1_100, any::<bool>()).prop_map(|(role, racks, days, cautioned)| Purchase {
        role,
        racks,
        days,
        cautioned,
    })
}

fn bought(n: u8, role: &str, purchase: &Purchase) -> ListedMachine {
    ListedMachine {
        serial: format!("bought{n}").parse().expect("a serial"),
        labels: Labels::default(),
        rack: Rack(purchase.racks[usize::from(n) % purchase.racks.len()]),
        index_in_rack: u32::from(n),
        role: role.parse().expect("a role"),
        address: Some(Ipv4Addr::new(10, 9, 0, n)),
        register_date: "2020-01-01T00:00:00Z".parse().expect("a date"),
        retire_date: Moment::from(fleet::now() + SignedDuration::from_hours(24 * purchase.days)),
        state: HealthState::Healthy,
        machine_type: String::new(),
        seconds_in_state: 0.0,
    }
}

/// Whether every worker has a template. Otherwise people have to decide, however many machines there are.
fn roles_fit(world: &World) -> bool {
    let templates = &world.template.workers;
    let nodes = world.current.iter().flat_map(|current| &current.nodes);
    let workers = nodes.filter(|node| !node.control_plane).filter_map(|node| world.machine_at(node.address));
    templates.len() == 1 || workers.into_iter().all(|it| templates.iter().any(|node| node.takes(it.role.as_str())))
}

#[test]
fn what_is_said_to_help_does() {
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) };
    let (short, without) = (Cell::new(0u32), Cell::new(0u32));
    let check = |(world, purchase): (World, Purchase)| {
        let (plan, _) = world.plan();
        let Outcome::Blocked(blocked) = &plan.outcome else { return Ok(()) };
        let told = remedies(world.input(), blocked);
        if !matches!(blocked, Blocked::NoMachine { .. }) {
            prop_assert_eq!(told, vec![Remedy::ByHand]);
            return Ok(());
        }
        if roles_fit(&world) {
            short.set(short.get() + 1);
            without.set(without.get() + u32::from(told.is_empty()));
        }
        for remedy in &told {
            prop_assert!(!matches!(remedy, Remedy::ByHand));
            let (again, _) = applied(&world, remedy, &purchase).plan();
            prop_assert!(!matches!(again.outcome, Outcome::Blocked(_)), "{} did not help: {:?}", remedy, again.outcome);
        }
        let mut turned = world;
        turned.machines.reverse();
        prop_assert_eq!(remedies(turned.input(), blocked), told);
        Ok::<(), TestCaseError>(())
    };
    // The same fleets every time: a placement that nobody thought of shall be found by whoever changes the rule, not by somebody else.
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    TestRunner::new_with_rng(config, rng)
        .run(&(fleet::cautious_worlds(30), purchases()), check)
        .unwrap_or_else(|error| panic!("{error}"));
    let (short, without) = (short.get(), without.get());
    assert!(short > 50, "only {short} of the fleets had too few machines; the test shows nothing");
    assert!(without * 20 <= short, "{without} of {short} blocked rounds have no way out");
}
