//! Which node a wish gets, in which order they are tried, and why none fits.

use std::collections::BTreeSet;

use super::*;
use crate::provision::{
    fixtures::Desk,
    node::{Maintenance, Power, PowerAction},
    power::{PowerState, PowerTarget},
};

const STRICT: Strictness = Strictness { require_healthy: true };
const LAX: Strictness = Strictness { require_healthy: false };

fn now() -> Timestamp {
    Timestamp::from_second(2_000_000).expect("valid")
}

fn wish() -> Allocation {
    Allocation {
        id: AllocationId(0xa1),
        name: None,
        progress: Progress::Allocating,
        resource_class: Some("gold".to_owned()),
        candidates: Vec::new(),
        traits: Vec::new(),
        owner: None,
        extra: Object::new(),
        created_at: now(),
        updated_at: None,
    }
}

/// A node that fits.
fn node(number: u128) -> Node {
    let mut node = Desk::at(State::Available).node;
    node.id = NodeId(number);
    node.name = Serial::new(format!("n{number}")).expect("valid");
    node.power.state = Some(PowerState::Off);
    node.details.resource_class = Some("gold".to_owned());
    node
}

fn candidate(node: &Node) -> Candidate<'_> {
    Candidate { node, machine: None, locked: false }
}

fn found(allocation: &Allocation, nodes: &[Node]) -> Matching {
    matching(allocation, nodes.iter().map(candidate), LAX)
}

#[test]
fn which_nodes_fit() {
    let check = |change: &dyn Fn(&mut Allocation, &mut Node), expected: Option<Unfit>| {
        let (mut allocation, mut node) = (wish(), node(1));
        change(&mut allocation, &mut node);
        let result = found(&allocation, &[node.clone()]);
        let passed = result.passed_over.keys().next().copied();
        assert_eq!((result.ready.len(), passed), (usize::from(expected.is_none()), expected), "{node:?}");
        let taken = take(&allocation, &candidate(&node), LAX, "me", now());
        assert_eq!(taken.err(), expected.map(|_| NotTaken::Unfit), "matching and taking agree");
    };
    check(&|_, _| {}, None);
    check(&|_, node| node.state = State::Manageable, Some(Unfit::State));
    check(&|_, node| node.details.instance_uuid = Some(NodeId(9).to_string()), Some(Unfit::Instance));
    check(&|_, node| node.power = Power::default(), Some(Unfit::PowerUnknown));
    check(&|_, node| node.maintenance = Some(Maintenance { reason: None, fault: None }), Some(Unfit::Maintenance));
    check(&|_, node| node.retire_declared = true, Some(Unfit::Retired));
    check(&|allocation, _| allocation.traits = vec!["CUSTOM_GPU".to_owned()], Some(Unfit::Traits));
    let gpu = |allocation: &mut Allocation, node: &mut Node| {
        allocation.traits = vec!["CUSTOM_GPU".to_owned()];
        node.details.traits = BTreeSet::from(["CUSTOM_FAST".to_owned(), "CUSTOM_GPU".to_owned()]);
    };
    check(&gpu, None);
    check(&|allocation, _| allocation.owner = Some("me".to_owned()), Some(Unfit::Owner));
    check(&|_, node| node.details.owner = Some("somebody".to_owned()), None);
    check(&|allocation, node| allocation.candidates = vec![node.id], None);
    let action = PowerAction {
        target: PowerTarget::On,
        asked_by: "me".to_owned(),
        asked_at: now(),
        deadline: now(),
        started: false,
    };
    check(&|_, node| node.power.action = Some(action.clone()), Some(Unfit::Busy));
}

#[test]
fn nodes_of_another_kind_are_not_even_counted() {
    let mut other = node(1);
    other.details.resource_class = Some("silver".to_owned());
    assert_eq!(found(&wish(), &[other]), Matching::default());
    let named = Allocation { candidates: vec![NodeId(2)], ..wish() };
    assert_eq!(found(&named, &[node(1)]), Matching::default());
    assert_eq!(found(&named, &[node(1), node(2)]).ready, [node(2).name]);
}

#[test]
fn the_lifecycle_of_the_machine_has_a_say() {
    use HealthState::{Healthy, Retired, Retiring, Unhealthy, Uninitialized, Unreachable, Updating};
    for (machine, lax, strict) in [
        (Healthy, true, true),
        (Uninitialized, true, false),
        (Unhealthy, false, false),
        (Unreachable, false, false),
        (Updating, false, false),
        (Retiring, false, false),
        (Retired, false, false),
    ] {
        for (strictness, fits) in [(LAX, lax), (STRICT, strict)] {
            let node = node(1);
            let candidate = Candidate { machine: Some(machine), ..candidate(&node) };
            assert_eq!(matching(&wish(), [candidate].into_iter(), strictness).ready.len() == 1, fits, "{machine}");
        }
    }
}

#[test]
fn a_node_somebody_works_on_is_waited_for() {
    let node = node(1);
    let locked = Candidate { locked: true, ..candidate(&node) };
    let found = matching(&wish(), [locked].into_iter(), LAX);
    assert!(found.ready.is_empty() && found.may_fit_soon());
    assert_eq!(take(&wish(), &locked, LAX, "me", now()).err(), Some(NotTaken::Unfit));
}

#[test]
fn the_order_differs_between_allocations_and_prefers_the_name() {
    let nodes: Vec<Node> = (1..=20).map(node).collect();
    let order = |allocation: &Allocation| found(allocation, &nodes).ready;
    let first = order(&wish());
    assert_eq!(first.len(), 20);
    assert_eq!(order(&wish()), first, "the same every time");
    let firsts: BTreeSet<_> =
        (0..20).map(|n| order(&Allocation { id: AllocationId(n), ..wish() }).first().cloned()).collect();
    assert!(firsts.len() > 8, "twenty allocations begin with {} different nodes", firsts.len());
    let named = Allocation { name: Some("n7".to_owned()), ..wish() };
    assert_eq!(order(&named).first().map(Serial::as_str), Some("n7"));
}

#[test]
fn both_know_each_other_afterwards() {
    let allocation = Allocation { traits: vec!["CUSTOM_GPU".to_owned()], name: Some("mine".to_owned()), ..wish() };
    let mut node = node(1);
    node.details.traits.insert("CUSTOM_GPU".to_owned());
    let (taken, changed) = take(&allocation, &candidate(&node), LAX, "me", now()).expect("fits");
    assert_eq!((taken.node(), taken.state(), taken.updated_at), (Some(node.id), "active", Some(now())));
    let details = &changed.node.details;
    assert_eq!((details.instance_uuid.as_ref(), details.allocation), (Some(&taken.id.to_string()), Some(taken.id)));
    assert_eq!(changed.node.instance_info["traits"], serde_json::json!(["CUSTOM_GPU"]));
    assert!(changed.rows[0].text.contains("(mine)"));
    assert_eq!(take(&taken, &candidate(&node), LAX, "me", now()).err(), Some(NotTaken::Over));
    let back = release(&taken, &changed.node, "me", now()).expect("nothing runs on it").node;
    assert_eq!((back.details.instance_uuid, back.details.allocation, back.instance_info), (None, None, Object::new()));
}

#[test]
fn why_none_fits_is_told() {
    let check = |allocation: &Allocation, nodes: &[Node], expected: &str| {
        let failed = fail(allocation, &found(allocation, nodes), now());
        assert_eq!(failed.state(), "error");
        let text = failed.last_error().expect("a reason");
        let begin = format!("Failed to process allocation {}: ", allocation.id);
        assert_eq!(text.strip_prefix(&begin), Some(expected));
    };
    check(&wish(), &[], "no available nodes match the resource class gold.");
    let named = Allocation { candidates: vec![NodeId(1)], ..wish() };
    check(&named, &[node(2)], "none of the requested nodes are available and match the resource class gold.");
    let clever = Allocation { traits: vec!["CUSTOM_A".to_owned(), "CUSTOM_B".to_owned()], ..wish() };
    check(
        &clever,
        &[node(1)],
        "no suitable nodes have the requested traits CUSTOM_A, CUSTOM_B. Passed over: 1 without the traits.",
    );
    let used = |number| {
        let mut node = node(number);
        node.details.instance_uuid = Some(NodeId(number).to_string());
        node
    };
    let enrolled = Node { state: State::Enroll, ..node(3) };
    check(
        &wish(),
        &[used(1), used(2), enrolled],
        "no available nodes match the resource class gold. Passed over: 1 not in available, 2 with an instance.",
    );
}

#[test]
fn backfilling_is_for_active_nodes_without_an_allocation() {
    let active = Node { state: State::Active, ..node(1) };
    let (made, changed) = backfill(&wish(), &active, "me", now()).expect("fits");
    assert_eq!((made.node(), changed.node.details.allocation), (Some(active.id), Some(made.id)));
    assert_eq!(backfill_id(&active), None);
    let mut busy = active.clone();
    busy.details.instance_uuid = Some(NodeId(77).to_string());
    assert_eq!(backfill_id(&busy), Some(AllocationId(77)));
    assert!(matches!(backfill(&wish(), &busy, "me", now()), Err(AllocationRefusal::Occupied { .. })));
    let same = Allocation { id: AllocationId(77), resource_class: None, ..wish() };
    let (made, _) = backfill(&same, &busy, "me", now()).expect("the allocation of this workload");
    assert_eq!(made.resource_class.as_deref(), Some("gold"));
    assert!(matches!(backfill(&made, &changed.node, "me", now()), Err(AllocationRefusal::Occupied { .. })));
    assert!(matches!(backfill(&wish(), &node(1), "me", now()), Err(AllocationRefusal::Occupied { .. })));
    for wrong in [
        Allocation { resource_class: Some("silver".to_owned()), ..wish() },
        Allocation { traits: vec!["CUSTOM_A".to_owned()], ..wish() },
        Allocation { candidates: vec![NodeId(5)], ..wish() },
    ] {
        assert!(matches!(backfill(&wrong, &active, "me", now()), Err(AllocationRefusal::Mismatch { .. })));
    }
}

#[test]
fn a_node_in_use_is_not_given_back() {
    let taken = Allocation { progress: Progress::Active(NodeId(1)), ..wish() };
    for (state, target, gives) in [
        (State::Available, None, true),
        (State::Manageable, None, true),
        (State::Rescue, None, true),
        (State::Active, None, false),
        (State::Deploying, Some(State::Active), false),
        (State::DeployFailed, Some(State::Active), true),
        (State::Cleaning, Some(State::Available), false),
    ] {
        let node = Node { state, target, ..node(1) };
        assert_eq!(release(&taken, &node, "me", now()).is_ok(), gives, "{state}");
        let maintenance = Some(Maintenance { reason: None, fault: None });
        assert!(release(&taken, &Node { maintenance, ..node }, "me", now()).is_ok(), "{state} in maintenance");
    }
    let text = release(&taken, &Node { state: State::Active, ..node(1) }, "me", now()).expect_err("in use").to_string();
    assert!(text.ends_with("because the node is active (and maintenance mode is off)"), "{text}");
}

#[test]
fn what_callers_may_say() {
    assert_eq!(wish().check(), Ok(()));
    let named = |name: &str| Allocation { name: Some(name.to_owned()), ..wish() }.check();
    assert_eq!(named("a-b.c_d~1"), Ok(()));
    for bad in ["", "a b", "a/b", ".", &NodeId(1).to_string(), &"x".repeat(256)] {
        assert!(matches!(named(bad), Err(AllocationRefusal::Name(_))), "{bad}");
    }
    let traits = Allocation { traits: vec!["bad_trait".to_owned()], ..wish() };
    assert!(matches!(traits.check(), Err(AllocationRefusal::Trait(_))));
    let long = Allocation { resource_class: Some("x".repeat(81)), ..wish() };
    assert!(matches!(long.check(), Err(AllocationRefusal::TooLong("resource_class", 80))));
    let many = Allocation { candidates: vec![NodeId(1); limits::CANDIDATE_NODES_MAX + 1], ..wish() };
    assert_eq!(many.check(), Err(AllocationRefusal::TooManyCandidates));
    let fields = Fields { name: Some("new".to_owned()), extra: Object::new() };
    let changed = change(&wish(), &fields, now()).expect("valid").expect("another name");
    assert_eq!(change(&changed, &fields, now()), Ok(None));
    assert!(change(&wish(), &Fields { name: Some("a b".to_owned()), ..fields }, now()).is_err());
}
