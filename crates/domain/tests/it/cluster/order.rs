//! Any fleet: both planners say the same, and the order of the list says nothing.

use proptest::prelude::*;
use sabakan_domain::cluster::plan::plan;

use super::{fleet, world::World};

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(500) })]

    #[test]
    fn the_slow_planner_says_the_same(world in fleet::worlds(40)) {
        world.plan();
    }

    #[test]
    fn the_slow_planner_says_the_same_with_cautions(world in fleet::cautious_worlds(40)) {
        world.plan();
    }

    #[test]
    fn the_order_of_the_list_says_nothing(
        (world, shuffled) in fleet::cautious_worlds(40).prop_flat_map(|world| {
            let shuffled = Just(world.machines.clone()).prop_shuffle();
            (Just(world), shuffled)
        }),
    ) {
        let first = plan(world.input());
        let second = World { machines: shuffled, ..world };
        let second = plan(second.input());
        let bytes = |made: &sabakan_domain::cluster::plan::Plan| {
            made.outcome.made().map(|made| made.configuration.document().to_string())
        };
        prop_assert_eq!(bytes(&first), bytes(&second));
        prop_assert_eq!(first, second);
    }
}
