//! Cautions: nobody who is cautioned is chosen while others exist, they never block, and without them nothing is different.

use std::{cell::Cell, collections::BTreeSet, net::IpAddr};

use proptest::{
    prelude::*,
    test_runner::{RngAlgorithm, TestCaseError, TestRng, TestRunner},
};
use sabakan_domain::cluster::{
    caution::Cautions,
    config::Configuration,
    input::Input,
    plan::{Outcome, plan},
};
use serde_json::json;

use super::{
    fleet::{self, Whom},
    world::{World, template},
};

/// Everybody with an address may be anything: whoever is healthy and clean is enough.
fn one_kind_of_machine(mut world: World) -> World {
    world.template = template(&[json!({"user": "u", "control_plane": true}), json!({"user": "u"})], &[]);
    world.taints.clear();
    world
}

fn addresses(configuration: Option<&Configuration>) -> BTreeSet<(IpAddr, bool)> {
    let nodes = configuration.into_iter().flat_map(|configuration| &configuration.nodes);
    nodes.map(|node| (node.address, node.control_plane)).collect()
}

/// Who became a control plane, or a worker that was outside before.
fn newly_chosen(before: Option<&Configuration>, after: &Configuration) -> Vec<IpAddr> {
    let (before, after) = (addresses(before), addresses(Some(after)));
    let was_node = |address: IpAddr| before.contains(&(address, true)) || before.contains(&(address, false));
    let new = |(address, control_plane): &&(IpAddr, bool)| {
        if *control_plane { !before.contains(&(*address, true)) } else { !was_node(*address) }
    };
    after.iter().filter(new).map(|(address, _)| *address).collect()
}

#[test]
fn nobody_cautioned_is_chosen_while_others_exist() {
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(600) };
    let (mattered, against) = (Cell::new(0u32), Cell::new(0u32));
    let check = |world: World| {
        let world = one_kind_of_machine(world);
        let (planned, _) = world.plan();
        let Outcome::Change(made) = &planned.outcome else { return Ok(()) };
        let nodes = addresses(Some(&made.configuration));
        let is_cautioned = |address: &IpAddr| {
            world.machine_at(*address).is_some_and(|machine| world.cautions.contains_key(&machine.serial))
        };
        let outside = |address: &IpAddr| !nodes.contains(&(*address, true)) && !nodes.contains(&(*address, false));
        let left = world.machines.iter().filter(|machine| machine.is_healthy());
        let mut left = left.filter_map(|machine| machine.address.map(IpAddr::V4)).filter(outside);
        let clean_left =
            left.any(|address| !is_cautioned(&address) && world.machine_at(address).is_some_and(|it| it.is_healthy()));
        let mut new = newly_chosen(world.current.as_ref(), &made.configuration);
        new.retain(is_cautioned);
        // A worker that left in this round is not taken back, clean or not.
        prop_assert!(new.is_empty() || !clean_left, "{:?} were chosen", new);
        against.set(against.get() + u32::from(!new.is_empty()));
        mattered.set(mattered.get() + u32::from(clean_left && !world.cautions.is_empty()));
        Ok::<(), TestCaseError>(())
    };
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    TestRunner::new_with_rng(config, rng)
        .run(&fleet::cautious_worlds(40), check)
        .unwrap_or_else(|error| panic!("{error}"));
    let (mattered, against) = (mattered.get(), against.get());
    assert!(mattered > 100 && against > 20, "{mattered} and {against} of the fleets; the test shows nothing");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    /// Machines that are never chosen, that nobody knows, or that are all there are: whether they are cautioned does not matter.
    #[test]
    fn cautions_that_leave_no_choice_change_nothing(world in fleet::worlds(40), which in 0..3) {
        let expected = plan(world.input());
        let mut cautious = world.clone();
        cautious.caution(&Whom::Everybody);
        match which {
            0 => {}
            1 => cautious.cautions.retain(|serial, _| {
                world.machines.iter().any(|machine| machine.serial == *serial && !machine.is_healthy())
            }),
            _ => cautious.cautions = cautious
                .cautions
                .into_values()
                .zip(0..)
                .map(|(caution, n)| (format!("unknown-{n}").parse().expect("a serial"), caution))
                .collect(),
        }
        let (told, _) = cautious.plan();
        prop_assert_eq!(&told.outcome, &expected.outcome);
        prop_assert_eq!(told.report.totals, expected.report.totals);
    }

    #[test]
    fn cautions_never_block(world in fleet::cautious_worlds(40)) {
        let careless = plan(Input { cautions: &Cautions::new(), ..world.input() });
        let (careful, _) = world.plan();
        if let Outcome::Blocked(_) = careful.outcome {
            prop_assert_eq!(careful.outcome, careless.outcome);
        }
    }
}
