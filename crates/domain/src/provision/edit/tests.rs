//! What may be written about a node, row by row.

use serde_json::json;

use super::*;
use crate::provision::node::{Fault, Work};

/// No driver names any; the words alone decide.
static NONE: BTreeSet<&'static str> = BTreeSet::new();

fn now() -> Timestamp {
    "2026-11-15T00:00:00Z".parse().expect("a time")
}

fn node(state: State) -> Node {
    let mut node = Node::implied(NodeId(7), Serial::new("n1").expect("a name"), now());
    node.driver = Some("fake-hardware".to_owned());
    node.state = state;
    node
}

fn around(sealed: &BTreeMap<String, String>) -> Around<'_> {
    Around {
        machine: None,
        driver: Some("fake-hardware"),
        allocation: None,
        secret_settings: &NONE,
        sealed,
        knows_inspect_wait: true,
        reset_interfaces: false,
        at: now(),
    }
}

/// Changes a node in a state; the words of the refusal, or nothing.
fn outcome(node: &Node, edit: impl Fn(&mut Fields)) -> Result<Node, String> {
    let sealed = BTreeMap::new();
    let mut fields = Fields::of(node, None, Some("fake-hardware"));
    edit(&mut fields);
    change(node, &fields, &around(&sealed)).map(|changed| changed.node).map_err(|refusal| refusal.to_string())
}

#[test]
fn writing_back_what_is_there_changes_nothing() {
    let mut node = node(State::Active);
    node.driver_secrets.insert("fake_password".to_owned(), "sealed".to_owned());
    node.instance_info.insert("configdrive".to_owned(), json!("AAAA"));
    node.protected = Some("in use".to_owned());
    node.maintenance = Some(Maintenance { reason: Some("fan".to_owned()), fault: Some(Fault::Clean) });
    assert_eq!(outcome(&node, |_| {}), Ok(node.clone()));
    // As answers show it.
    let masked = outcome(&node, |fields| {
        fields.instance_info.insert("configdrive".to_owned(), json!(MASK));
    });
    assert_eq!(masked, Ok(node));
}

#[test]
fn secrets_are_sealed_kept_or_removed() {
    let mut before = node(State::Enroll);
    before.driver_secrets.insert("fake_password".to_owned(), "old".to_owned());
    let sealed = BTreeMap::from([("fake_password".to_owned(), "new".to_owned())]);
    let check = |value: Option<serde_json::Value>, expected: Option<&str>| {
        let mut fields = Fields::of(&before, None, Some("fake-hardware"));
        fields.driver_info.remove("fake_password");
        fields.driver_info.extend(value.map(|value| ("fake_password".to_owned(), value)));
        let changed = change(&before, &fields, &around(&sealed)).expect("changed").node;
        assert_eq!(changed.driver_secrets.get("fake_password").map(String::as_str), expected);
        assert!(changed.driver_info.is_empty(), "no secret among the others");
    };
    check(Some(json!(MASK)), Some("old"));
    check(Some(json!("hunter2")), Some("new"));
    check(Some(json!(12)), Some("new"));
    check(None, None);
    let mut fields = Fields::of(&node(State::Enroll), None, Some("fake-hardware"));
    fields.driver_info.insert("fake_password".to_owned(), json!(MASK));
    assert!(change(&node(State::Enroll), &fields, &around(&sealed)).is_err(), "a mask without a secret");
    fields.driver_info.insert("fake_password".to_owned(), json!({}));
    assert!(fields.open_secrets(&NONE).is_err());
    fields.driver_info.insert("other_token".to_owned(), json!("x"));
    fields.driver_info.insert("fake_password".to_owned(), json!("y"));
    assert_eq!(change(&node(State::Enroll), &fields, &around(&sealed)), Err(EditRefusal::Raced));
}

#[test]
fn work_under_way_is_not_changed_under_its_feet() {
    for (state, target, free) in [
        (State::Cleaning, Some(State::Available), false),
        (State::DeployWait, Some(State::Active), false),
        (State::Inspecting, Some(State::Manageable), false),
        (State::InspectWait, Some(State::Manageable), true),
        (State::CleanFailed, Some(State::Available), true),
        (State::Verifying, Some(State::Manageable), true),
        (State::Active, None, true),
    ] {
        let node = Node { target, ..node(state) };
        let edited = outcome(&node, |fields| {
            fields.extra.insert("a".to_owned(), json!(1));
        });
        assert_eq!(edited.is_ok(), free, "{state}");
    }
    let mut stuck = node(State::Cleaning);
    stuck.target = Some(State::Available);
    stuck.details.instance_uuid = Some("33333333-0003-4000-8000-000000000001".to_owned());
    assert!(outcome(&stuck, |fields| fields.instance_uuid = None).is_err());
    stuck.maintenance = Some(Maintenance { reason: None, fault: None });
    assert!(outcome(&stuck, |fields| fields.instance_uuid = None).is_ok(), "somebody in charge releases it");
    assert!(
        outcome(&stuck, |fields| {
            fields.instance_uuid = None;
            fields.extra.insert("a".to_owned(), json!(1));
        })
        .is_err()
    );
}

#[test]
fn what_depends_on_the_state() {
    let raid = |fields: &mut Fields| drop(fields.interfaces.insert(Slot::Raid, "no-raid".to_owned()));
    let class = |fields: &mut Fields| fields.resource_class = Some("silver".to_owned());
    let mut active = node(State::Active);
    assert!(outcome(&active, raid).is_err());
    assert!(outcome(&active, class).is_ok(), "it had none");
    active.details.resource_class = Some("gold".to_owned());
    assert!(outcome(&active, class).is_err());
    active.maintenance = Some(Maintenance { reason: None, fault: None });
    assert!(outcome(&active, raid).is_ok());
    assert!(outcome(&active, class).is_err(), "maintenance does not help here");
    assert!(outcome(&active, |fields| fields.owner = Some("o".to_owned())).is_err());
    assert!(outcome(&active, |fields| fields.protected = true).is_ok());
    assert!(outcome(&node(State::Available), |fields| fields.protected = true).is_err());
    assert!(outcome(&node(State::Available), |fields| fields.retired = true).is_err());
    assert!(outcome(&node(State::Manageable), |fields| fields.retired = true).is_ok_and(|node| node.retire_declared));
    active.details.instance_uuid = Some("33333333-0003-4000-8000-000000000001".to_owned());
    let other = "33333333-0003-4000-8000-000000000002";
    assert!(outcome(&active, |fields| fields.instance_uuid = Some(other.to_owned())).is_err());
}

#[test]
fn values_that_cannot_be() {
    let node = node(State::Enroll);
    let refused = |edit: fn(&mut Fields)| outcome(&node, edit).expect_err("refused");
    assert_eq!(refused(|f| f.driver = None), "driver: is required");
    assert!(refused(|f| f.resource_class = Some("x".repeat(81))).contains("80 bytes"));
    assert!(refused(|f| f.conductor_group = "Upper".to_owned()).starts_with("conductor_group"));
    assert!(refused(|f| f.instance_uuid = Some("x".to_owned())).contains("not a UUID"));
    assert!(refused(|f| f.chassis_uuid = Some("x".to_owned())).contains("is not a UUID"));
    assert!(refused(|f| f.protected_reason = Some("x".to_owned())).contains("protected"));
    assert!(refused(|f| f.retired_reason = Some("x".to_owned())).contains("retired"));
    assert!(refused(|f| f.name = None).starts_with("name"));
    assert!(refused(|f| f.name = Some("detail".to_owned())).contains("paths"));
    assert!(refused(|f| drop(f.interfaces.insert(Slot::Power, "ipmitool".to_owned()))).contains("not known to driver"));
}

#[test]
fn maintenance_that_ends_takes_reason_and_fault_along() {
    let mut node = node(State::CleanFailed);
    node.target = Some(State::Available);
    node.maintenance = Some(Maintenance { reason: Some("half way".to_owned()), fault: Some(Fault::Clean) });
    let after = outcome(&node, |fields| fields.maintenance = false).expect("cleared");
    assert_eq!(after.maintenance, None);
    assert_eq!(after.details.edited_at, Some(now()));
}

#[test]
fn a_node_is_made_under_its_name_or_its_uuid() {
    let sealed = BTreeMap::new();
    let around = Around { driver: None, ..around(&sealed) };
    let mut fields = Fields { driver: Some("fake-hardware".to_owned()), ..Fields::default() };
    let unnamed = create(NodeId(9), &fields, State::Enroll, &around).expect("made");
    assert_eq!(unnamed.name.as_str(), NodeId(9).to_string());
    assert_eq!(shown_name(&unnamed), None);
    assert_eq!((unnamed.moved_at(), unnamed.updated_at(), unnamed.target), (None, None, None));
    fields.name = Some("n9".to_owned());
    assert_eq!(create(NodeId(9), &fields, State::Available, &around).map(|node| node.state), Ok(State::Available));
    fields.driver = None;
    assert!(create(NodeId(9), &fields, State::Enroll, &around).is_err());
}

#[test]
fn what_may_be_forgotten() {
    let check = |node: &Node, machine, expected: bool| {
        assert_eq!(check_removal(node, machine).is_ok(), expected, "{} {machine:?}", node.state);
    };
    for state in State::ALL {
        let idle = matches!(
            state,
            State::Enroll | State::VerifyFailed | State::Manageable | State::Available | State::AdoptFailed
        );
        check(&node(state), None, idle);
        let maintained = Node { maintenance: Some(Maintenance { reason: None, fault: None }), ..node(state) };
        check(&maintained, None, true);
        check(&maintained, Some(HealthState::Healthy), false);
        check(&Node { protected: Some(String::new()), ..maintained }, None, false);
    }
    check(&node(State::Manageable), Some(HealthState::Uninitialized), true);
    check(&node(State::Manageable), Some(HealthState::Retired), true);
    check(&node(State::Manageable), Some(HealthState::Unhealthy), false);
    let mut used = node(State::Available);
    used.details.instance_uuid = Some("33333333-0003-4000-8000-000000000001".to_owned());
    check(&used, None, false);
}

#[test]
fn the_machine_follows_a_declaration() {
    let (sealed, node) = (BTreeMap::new(), node(State::Manageable));
    let change_to = |machine, retired| {
        let around = Around { machine: Some(machine), ..around(&sealed) };
        let mut fields = Fields::of(&node, Some(machine), Some("fake-hardware"));
        fields.retired = retired;
        change(&node, &fields, &around).map(|changed| changed.machine)
    };
    assert_eq!(change_to(HealthState::Healthy, true), Ok(Some(HealthState::Retiring)));
    assert_eq!(change_to(HealthState::Retiring, true), Ok(None));
    // Taken back as long as nothing is erased; no monitor does that by accident.
    assert_eq!(change_to(HealthState::Retiring, false), Ok(Some(HealthState::Uninitialized)));
    assert!(matches!(change_to(HealthState::Retired, false), Err(EditRefusal::Conflict(_))));
    assert!(matches!(change_to(HealthState::Updating, true), Err(EditRefusal::Conflict(_))));
}

#[test]
fn an_inspection_under_way_is_seen() {
    let mut node = node(State::Inspecting);
    assert_eq!(node.inspection_started(), None);
    node.operation = Some(crate::provision::node::Operation {
        id: "o".to_owned(),
        work: Work::Inspect,
        asked_by: "me".to_owned(),
        asked_at: now(),
        steps: Vec::new(),
        index: 0,
        phase: crate::provision::node::Phase::Ready,
        deadline: None,
        before: None,
        ramdisk: None,
        abort_by: None,
        power_forced_by: None,
        origin: None,
    });
    assert_eq!(node.inspection_started(), Some(now()));
}

#[test]
fn what_an_allocation_depends_on() {
    let allocation = Allocation {
        id: crate::provision::ids::AllocationId(9),
        name: None,
        progress: super::super::allocation::Progress::Active(NodeId(7)),
        resource_class: None,
        candidates: Vec::new(),
        traits: Vec::new(),
        owner: Some("me".to_owned()),
        extra: Object::new(),
        created_at: now(),
        updated_at: None,
    };
    let sealed = BTreeMap::new();
    let around = Around { allocation: Some(&allocation), ..around(&sealed) };
    let check = |state: State, maintenance: bool, edit: &dyn Fn(&mut Fields)| {
        let mut node = node(state);
        node.details.instance_uuid = Some(allocation.id.to_string());
        node.details.allocation = Some(allocation.id);
        node.details.owner.clone_from(&allocation.owner);
        node.maintenance = maintenance.then_some(Maintenance { reason: None, fault: None });
        let mut fields = Fields::of(&node, None, Some("fake-hardware"));
        edit(&mut fields);
        change(&node, &fields, &around).map(|changed| changed.node.details.allocation)
    };
    let leave = |fields: &mut Fields| fields.instance_uuid = None;
    assert_eq!(check(State::Available, false, &leave), Ok(None), "the allocation goes with the workload");
    assert_eq!(check(State::Active, true, &leave), Ok(None));
    assert!(matches!(check(State::Active, false, &leave), Err(EditRefusal::Conflict(_))));
    assert_eq!(check(State::Active, false, &|fields| fields.extra.clear()), Ok(Some(allocation.id)));
    let sell = |fields: &mut Fields| fields.owner = Some("you".to_owned());
    assert!(matches!(check(State::Available, false, &sell), Err(EditRefusal::Conflict(_))));
}

#[test]
fn what_follows_from_a_change_without_being_asked_for() {
    let sealed = BTreeMap::new();
    let after = |node: &Node, edit: &dyn Fn(&mut Fields)| {
        let mut fields = Fields::of(node, None, Some("fake-hardware"));
        edit(&mut fields);
        change(node, &fields, &around(&sealed)).expect("allowed").node
    };
    // A reason goes with what it was the reason for.
    let retired = after(&node(State::Manageable), &|fields| {
        (fields.retired, fields.retired_reason) = (true, Some("old".to_owned()));
    });
    assert_eq!(retired.details.retired_reason.as_deref(), Some("old"));
    let back = after(&retired, &|fields| fields.retired = false);
    assert_eq!((back.retire_declared, back.details.retired_reason), (false, None));
    let protected = after(&node(State::Active), &|fields| {
        (fields.protected, fields.protected_reason) = (true, Some("mine".to_owned()));
    });
    assert_eq!(after(&protected, &|fields| fields.protected = false).protected, None);

    // An instance is called by the name it is shown with, until somebody gives it another.
    let show = |name: &'static str| {
        move |fields: &mut Fields| drop(fields.instance_info.insert("display_name".into(), json!(name)))
    };
    let shown = after(&node(State::Active), &show("web"));
    assert_eq!(shown.details.instance_name.as_deref(), Some("web"));
    let named = after(&shown, &|fields| fields.instance_name = Some("db".to_owned()));
    assert_eq!(after(&named, &show("cache")).details.instance_name.as_deref(), Some("db"));
}
