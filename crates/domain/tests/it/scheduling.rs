//! Any queue: bounds hold, no place stays empty, nobody overtakes within a group and kind, and the number ahead is the
//! truth. Any servers: exactly one of them looks after a node.

use std::collections::BTreeMap;

use jiff::Timestamp;
use proptest::prelude::*;
use sabakan_domain::provision::schedule::{Capacity, Class, Queued, Running, ahead, looks_after, pick, positions};

fn classes() -> impl Strategy<Value = Class> {
    prop::sample::select(Class::ALL.to_vec())
}

fn queues(class: impl Strategy<Value = Class>) -> impl Strategy<Value = Vec<Queued>> {
    prop::collection::vec((0u8..4, class, 0i64..20), 0..40).prop_map(|nodes| {
        let node = |(n, (group, class, second)): (usize, (u8, Class, i64))| {
            let since = Timestamp::from_second(second).expect("valid");
            Queued { name: format!("node{n:02}"), group: format!("group{group}"), class, since }
        };
        nodes.into_iter().enumerate().map(node).collect()
    })
}

fn others(class: impl Strategy<Value = Class>) -> impl Strategy<Value = Vec<Running>> {
    prop::collection::vec((0u8..4, class), 0..12).prop_map(|nodes| {
        nodes.into_iter().map(|(group, class)| Running { group: format!("group{group}"), class }).collect()
    })
}

fn capacities() -> impl Strategy<Value = Capacity> {
    let per_class = prop::collection::vec(0usize..8, Class::ALL.len());
    (per_class, 1usize..8)
        .prop_map(|(most, per_group)| Capacity { per_class: Class::ALL.into_iter().zip(most).collect(), per_group })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn bounds_hold_and_no_place_stays_empty(
        queued in queues(classes()),
        running in others(classes()),
        capacity in capacities(),
    ) {
        let picked = pick(&queued, &running, &capacity);
        let taken: Vec<&Queued> = picked
            .iter()
            .map(|name| queued.iter().find(|node| node.name == *name).expect("it was queued"))
            .collect();
        let (mut per_class, mut per_group) = (BTreeMap::new(), BTreeMap::new());
        for Running { group, class } in &running {
            *per_class.entry(*class).or_insert(0) += 1;
            *per_group.entry(group.as_str()).or_insert(0) += 1;
        }
        for node in &taken {
            // Others may hold more than the bound already; nothing is added then.
            let (class, group) = (per_class.entry(node.class).or_insert(0), per_group.entry(&node.group).or_insert(0));
            prop_assert!(*class < capacity.per_class[&node.class] && *group < capacity.per_group, "{node:?}");
            *class += 1;
            *group += 1;
        }
        for left in queued.iter().filter(|node| !picked.contains(&node.name)) {
            let full = per_class.get(&left.class).copied().unwrap_or(0) >= capacity.per_class[&left.class]
                || per_group.get(left.group.as_str()).copied().unwrap_or(0) >= capacity.per_group;
            prop_assert!(full, "{left:?} waits although there is room");
            // Nobody of the same group and kind who came later was taken instead.
            let overtaken = taken.iter().find(|node| {
                (&node.group, node.class) == (&left.group, left.class)
                    && (node.since, &node.name) > (left.since, &left.name)
            });
            prop_assert!(overtaken.is_none(), "{left:?} was overtaken by {overtaken:?}");
        }
    }

    #[test]
    fn as_many_are_ahead_as_are_taken_first(
        queued in queues(Just(Class::Clean)),
        running in others(Just(Class::Clean)),
        room in 0usize..50,
    ) {
        let most = running.len() + room;
        let capacity = Capacity { per_class: BTreeMap::from([(Class::Clean, most)]), per_group: usize::MAX };
        let picked = pick(&queued, &running, &capacity);
        let all = positions(&queued, &running);
        for node in &queued {
            let before = ahead(&queued, &running, &node.name).expect("it is queued");
            prop_assert_eq!(all[&node.name], before);
            prop_assert_eq!(picked.get(before), (before < room).then_some(&node.name));
        }
    }

    /// The groups that want more differ by at most one node in what they hold, if they began equal.
    #[test]
    fn groups_share_what_there_is(queued in queues(Just(Class::Clean)), room in 0usize..50) {
        let capacity = Capacity { per_class: BTreeMap::from([(Class::Clean, room)]), per_group: usize::MAX };
        let picked = pick(&queued, &[], &capacity);
        let (mut held, mut wants): (BTreeMap<&str, usize>, BTreeMap<&str, usize>) = Default::default();
        for node in &queued {
            let counts = if picked.contains(&node.name) { &mut held } else { &mut wants };
            *counts.entry(&node.group).or_default() += 1;
        }
        let most = held.values().copied().max().unwrap_or(0);
        for (group, waiting) in wants {
            let own = held.get(group).copied().unwrap_or(0);
            prop_assert!(own + 1 >= most, "{group} holds {own} and {waiting} wait; another holds {most}");
        }
    }

    #[test]
    fn one_server_looks_after_a_node(servers in prop::collection::btree_set("[a-z]{1,6}", 1..6), node in "[a-z0-9]{4}") {
        let alive = || servers.iter().map(String::as_str);
        let mine: Vec<&str> = alive().filter(|own| looks_after(own, &node, alive())).collect();
        prop_assert_eq!(mine.len(), 1, "{:?}", mine);
        // Another one that goes takes nothing from it.
        for gone in alive().filter(|name| *name != mine[0]) {
            prop_assert!(looks_after(mine[0], &node, alive().filter(|name| *name != gone)), "{gone} is gone");
        }
        // One that is not announced yet does not wait for itself to be.
        prop_assert!(looks_after(mine[0], &node, alive().filter(|name| *name != mine[0])));
    }
}

#[test]
fn servers_share_the_nodes() {
    let servers = ["one", "two", "three"];
    let nodes: Vec<String> = (0..300).map(|n| format!("node{n}")).collect();
    for own in servers {
        let mine = nodes.iter().filter(|node| looks_after(own, node, servers)).count();
        assert!((60..=140).contains(&mine), "{own} looks after {mine} of 300");
    }
}
