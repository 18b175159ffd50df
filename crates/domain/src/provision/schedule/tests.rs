//! Bounds, fairness between groups, order within them, and how many are ahead.

use super::*;

/// `name group class seconds`, one node each.
fn queue(lines: &[&str]) -> Vec<Queued> {
    let node = |line: &&str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [name, group, class, second] = words[..] else { panic!("{line}") };
        let since = Timestamp::from_second(second.parse().expect(line)).expect(line);
        Queued { name: name.to_owned(), group: group.to_owned(), class: word(class), since }
    };
    lines.iter().map(node).collect()
}

fn running(words: &[(&str, &str)]) -> Vec<Running> {
    words.iter().map(|(group, class)| Running { group: (*group).to_owned(), class: word(class) }).collect()
}

fn word(class: &str) -> Class {
    Class::ALL.into_iter().find(|c| c.as_str() == class).expect(class)
}

fn room(classes: &[(&str, usize)], per_group: usize) -> Capacity {
    Capacity { per_class: classes.iter().map(|(class, most)| (word(class), *most)).collect(), per_group }
}

/// `count` nodes of one group, named in the order in which they were queued.
fn crowd(group: &str, class: &str, count: usize) -> Vec<Queued> {
    (0..count)
        .map(|n| Queued {
            name: format!("{group}{n:04}"),
            group: group.to_owned(),
            class: word(class),
            since: Timestamp::from_second(i64::try_from(n).expect("small")).expect("valid"),
        })
        .collect()
}

#[test]
fn what_is_picked() {
    let check = |queued: &[&str], busy: &[(&str, &str)], capacity: &Capacity, expected: &[&str]| {
        assert_eq!(pick(&queue(queued), &running(busy), capacity), expected, "{queued:?} beside {busy:?}");
    };
    let two_cleans = room(&[("clean", 2), ("deploy", 1)], 9);
    // Nothing to do, and no room.
    check(&[], &[], &two_cleans, &[]);
    check(&["a1 a clean 1"], &[("x", "clean"), ("y", "clean")], &two_cleans, &[]);
    check(&["a1 a inspect 1"], &[], &two_cleans, &[]);
    // Oldest first in a group, by name among equals, whatever order they come in.
    check(&["a3 a clean 2", "a2 a clean 1", "a1 a clean 1"], &[], &two_cleans, &["a1", "a2"]);
    // One class that is full does not stop another behind it.
    check(&["a1 a clean 1", "a2 a deploy 2"], &[("x", "clean"), ("y", "clean")], &two_cleans, &["a2"]);
    // Groups in turn; the one with least first, among equals the one that waits longest.
    check(&["a1 a clean 1", "a2 a clean 2", "b1 b clean 9"], &[], &two_cleans, &["a1", "b1"]);
    check(&["a1 a clean 1", "b1 b clean 9"], &[("a", "clean")], &two_cleans, &["b1"]);
    check(&["a1 a clean 9", "b1 b clean 1"], &[("x", "clean")], &two_cleans, &["b1"]);
    // What cannot be taken now gives its group no precedence.
    check(&["a1 a deploy 1", "a2 a clean 9", "b1 b clean 5"], &[("x", "clean"), ("y", "deploy")], &two_cleans, &["b1"]);
    // The bound of a group counts all its classes.
    let small_groups = room(&[("clean", 9), ("deploy", 9)], 2);
    check(&["a1 a clean 1", "a2 a deploy 2", "a3 a clean 3", "b1 b clean 4"], &[], &small_groups, &["a1", "b1", "a2"]);
    check(&["a1 a clean 1", "a2 a deploy 2"], &[("a", "inspect")], &small_groups, &["a1"]);
}

#[test]
fn a_large_group_does_not_starve_a_small_one() {
    let mut waiting = crowd("large", "clean", 1_000);
    waiting.extend(crowd("small", "clean", 2));
    let capacity = room(&[("clean", 10)], 100);
    let picked = pick(&waiting, &[], &capacity);
    assert_eq!(picked.len(), 10);
    assert_eq!(picked.iter().filter(|name| name.starts_with("small")).count(), 2);
    // Nor does it when the large one holds every place and they become free one by one.
    let holds = vec![Running { group: "large".to_owned(), class: Class::Clean }; 9];
    assert_eq!(pick(&waiting, &holds, &capacity), ["small0000"]);
}

/// With fewer places than groups nobody waits for those who came later.
#[test]
fn more_groups_than_places() {
    let capacity = room(&[("clean", 1)], 5);
    let mut waiting = crowd("a", "clean", 3);
    waiting.extend(crowd("b", "clean", 3));
    waiting.extend(crowd("c", "clean", 3));
    let mut order = Vec::new();
    for arrival in 0..9 {
        let [next] = &pick(&waiting, &[], &capacity)[..] else { panic!("one place, one node") };
        order.push(next.clone());
        waiting.retain(|node| node.name != *next);
        // Group `a` never runs out of work.
        let since = Timestamp::from_second(100 + arrival).expect("valid");
        waiting.push(Queued { name: format!("late{arrival}"), group: "a".to_owned(), class: Class::Clean, since });
    }
    let expected = ["a0000", "b0000", "c0000", "a0001", "b0001", "c0001", "a0002", "b0002", "c0002"];
    assert_eq!(order, expected);
}

#[test]
fn as_many_are_ahead_as_are_taken_before() {
    let waiting = queue(&["a1 a clean 1", "a2 a clean 2", "a3 a clean 3", "b1 b clean 9", "b2 b deploy 0"]);
    let check = |busy: &[(&str, &str)], name: &str, expected: Option<usize>| {
        assert_eq!(ahead(&waiting, &running(busy), name), expected, "{name} beside {busy:?}");
    };
    check(&[], "a1", Some(0));
    check(&[], "b1", Some(1));
    check(&[], "a2", Some(2));
    check(&[], "a3", Some(3));
    // Another kind of work is another queue.
    check(&[], "b2", Some(0));
    // What runs already counts for whose turn it is.
    check(&[("a", "deploy")], "b1", Some(0));
    check(&[("a", "deploy")], "a1", Some(1));
    check(&[], "nobody", None);
}

#[test]
fn every_kind_of_work_has_a_class() {
    use crate::provision::node::{NodeId, Operation, Phase};
    let at = Timestamp::UNIX_EPOCH;
    let mut node = Node::implied(NodeId(1), crate::words::Serial::new("1234abcd").expect("valid"), at);
    assert_eq!(Class::of(&node), Class::Power, "nothing but a power change can be asked of it");
    let expected = [
        (Work::Verify, Class::Verify),
        (Work::Inspect, Class::Inspect),
        (Work::AutomatedClean, Class::Clean),
        (Work::ManualClean, Class::Clean),
        (Work::Deploy, Class::Deploy),
        (Work::TearDown, Class::Clean),
        (Work::Rescue, Class::Deploy),
        (Work::Unrescue, Class::Deploy),
        (Work::Adopt, Class::Verify),
        (Work::Service, Class::Deploy),
        (Work::ClearUp, Class::Clean),
        (Work::RestoreService, Class::Deploy),
    ];
    assert_eq!(expected.map(|(work, _)| work), Work::ALL);
    for (work, class) in expected {
        node.operation = Some(Operation {
            id: "1".to_owned(),
            work,
            asked_by: "someone".to_owned(),
            asked_at: at,
            steps: Vec::new(),
            index: 0,
            phase: Phase::Ready,
            deadline: None,
            before: None,
            ramdisk: None,
            abort_by: None,
            power_forced_by: None,
            origin: None,
        });
        assert_eq!(Class::of(&node), class, "{work}");
    }
}
