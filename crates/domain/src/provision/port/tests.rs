//! What may be written about a port, row by row.

use super::*;
use crate::{
    provision::{
        node::Maintenance,
        port_group::{self, PortGroup},
    },
    words::Serial,
};

fn now() -> Timestamp {
    "2026-11-15T00:00:00Z".parse().expect("a time")
}

fn node(state: State) -> Node {
    let mut node = Node::implied(NodeId(7), Serial::new("n1").expect("a name"), now());
    node.state = state;
    node
}

fn about() -> About {
    About::new(Mac([2, 0, 0, 0, 0, 1]))
}

fn ports() -> NodePorts {
    let group = port_group::create(&NodePorts::none_of(NodeId(7)), PortGroupId(3), port_group::About::default(), now());
    NodePorts::none_of(NodeId(7)).with_group(group.expect("there is room"))
}

/// Makes a port and changes it; the words of the refusal, or nothing.
fn outcome(node: &Node, edit: impl Fn(&mut About)) -> Result<Port, PortRefusal> {
    let made = create(&ports(), PortId(1), about(), now())?;
    let mut wanted = made.about.clone();
    edit(&mut wanted);
    change(node, &ports(), &made, wanted, now())
}

#[test]
fn cables_are_described_while_nobody_uses_them() {
    let rewire: [fn(&mut About); 4] = [
        |about| about.pxe_enabled = false,
        |about| about.group = Some(PortGroupId(3)),
        |about| about.physical_network = Some("net1".to_owned()),
        |about| about.local_link.network_type = Some("unmanaged".to_owned()),
    ];
    for (state, maintenance, allowed) in [
        (State::Enroll, false, true),
        (State::Manageable, false, true),
        (State::Inspecting, false, true),
        (State::InspectWait, false, true),
        (State::Available, false, false),
        (State::Active, false, false),
        (State::Active, true, true),
        (State::Cleaning, false, false),
    ] {
        let mut node = node(state);
        node.maintenance = maintenance.then_some(Maintenance { reason: None, fault: None });
        for edit in rewire {
            let changed = outcome(&node, edit);
            assert_eq!(changed.is_ok(), allowed, "{state:?} {maintenance}: {changed:?}");
            if let Err(refusal) = changed {
                assert!(matches!(refusal, PortRefusal::Conflict(_)), "{refusal}");
            }
        }
        assert!(outcome(&node, |about| about.description = Some("x".to_owned())).is_ok(), "{state:?}");
    }
}

#[test]
fn the_address_of_a_workload_stays() {
    let other = |about: &mut About| about.address = Mac([2, 0, 0, 0, 0, 9]);
    let mut with_instance = node(State::Available);
    with_instance.details.instance_uuid = Some("x".to_owned());
    let mut kept = node(State::Active);
    kept.maintenance = Some(Maintenance { reason: None, fault: None });
    for (node, allowed) in
        [(node(State::Available), true), (node(State::Active), false), (with_instance, false), (kept, true)]
    {
        assert_eq!(outcome(&node, other).is_ok(), allowed, "{:?}", node.state);
    }
}

#[test]
fn what_can_never_be() {
    let text = |n: usize| Some("x".repeat(n));
    let link = |switch: Option<&str>, port: Option<&str>, kind: Option<&str>| LocalLink {
        switch_id: switch.map(str::to_owned),
        port_id: port.map(str::to_owned),
        network_type: kind.map(str::to_owned),
        ..LocalLink::default()
    };
    let with_link = |local_link| About { local_link, ..about() };
    for (about, fits) in [
        (about(), true),
        (About { name: Some("eth0.1_~-".to_owned()), ..about() }, true),
        (About { name: Some("detail".to_owned()), ..about() }, false),
        (About { name: Some("a b".to_owned()), ..about() }, false),
        (About { name: Some("11111111-0005-4000-8000-000000000001".to_owned()), ..about() }, false),
        (About { physical_network: text(64), ..about() }, true),
        (About { physical_network: text(65), ..about() }, false),
        (About { description: text(256), ..about() }, false),
        (About { vendor: text(33), ..about() }, false),
        (About { category: text(81), ..about() }, false),
        (About { group: Some(PortGroupId(3)), ..about() }, true),
        (About { group: Some(PortGroupId(4)), ..about() }, false),
        (with_link(link(Some("0a:1b:2c:3d:4e:5f"), Some("e1"), None)), true),
        (with_link(link(Some("0000d4e5f6a7b8c9"), Some("e1"), Some("managed"))), true),
        (with_link(link(Some("switch"), Some("e1"), None)), false),
        (with_link(link(Some("0a:1b:2c:3d:4e:5f"), None, None)), false),
        (with_link(link(None, Some("e1"), None)), false),
        (with_link(link(None, None, Some("unmanaged"))), true),
        (with_link(link(None, None, Some("other"))), false),
    ] {
        assert_eq!(create(&ports(), PortId(1), about.clone(), now()).is_ok(), fits, "{about:?}");
    }
}

#[test]
fn a_port_goes_unless_a_workload_is_attached() {
    let free = create(&ports(), PortId(1), about(), now()).expect("nothing is wrong");
    let attached = Port { vif: Some("net".to_owned()), ..free.clone() };
    for (state, allowed) in [(State::Available, true), (State::Active, false), (State::Cleaning, false)] {
        let mut node = node(state);
        assert!(check_removal(&node, &free).is_ok(), "{state:?}");
        assert_eq!(check_removal(&node, &attached).is_ok(), allowed, "{state:?}");
        node.maintenance = Some(Maintenance { reason: None, fault: None });
        assert!(check_removal(&node, &attached).is_ok(), "{state:?}");
    }
}

#[test]
fn nothing_is_made_twice() {
    let made = create(&ports(), PortId(1), about(), now()).expect("nothing is wrong");
    let again = create(&ports().with_port(made), PortId(1), About::new(Mac([2; 6])), now());
    assert!(matches!(again, Err(PortRefusal::Conflict(_))), "{again:?}");
    let group = port_group::create(&ports(), PortGroupId(3), port_group::About::default(), now());
    assert!(matches!(group, Err(PortRefusal::Conflict(_))), "{group:?}");
    assert!(check_stays(NodeId(7), NodeId(7)).is_ok() && check_stays(NodeId(7), NodeId(8)).is_err());
}

#[test]
fn a_group_goes_when_it_is_empty() {
    let ports = ports();
    let group: &PortGroup = ports.group(PortGroupId(3)).expect("it is there");
    assert!(port_group::check_removal(&ports, group).is_ok());
    let member = create(&ports, PortId(1), About { group: Some(group.id), ..about() }, now()).expect("fits");
    let full = ports.with_port(member);
    let refused = port_group::check_removal(&full, group).expect_err("it has a port");
    assert!(refused.to_string().ends_with("contains ports."), "{refused}");
}

#[test]
fn conditions_and_orders_look_at_the_port() {
    let mut port = create(&ports(), PortId(1), about(), now()).expect("nothing is wrong");
    port.about.name = Some("eth0".to_owned());
    let placed = Placed { node: NodeId(7), port: &port };
    for (filter, expected) in [
        (PortFilter::default(), true),
        (PortFilter { node: Some(NodeId(8)), ..PortFilter::default() }, false),
        (PortFilter { address: Some(Mac([2, 0, 0, 0, 0, 1])), ..PortFilter::default() }, true),
        (PortFilter { address: Some(Mac([2; 6])), ..PortFilter::default() }, false),
        (PortFilter { group: Some(PortGroupId(3)), ..PortFilter::default() }, false),
    ] {
        assert_eq!(filter.matches(&placed), expected, "{filter:?}");
    }
    let mut node = node(State::Enroll);
    node.details.shard = Some("s1".to_owned());
    let shards = |shard: &str| PortFilter { shards: Some(vec![shard.to_owned()]), ..PortFilter::default() };
    assert!(shards("s1").matches_node(Some(&node)) && !shards("s2").matches_node(Some(&node)));
    let groups = PortFilter { conductor_groups: Some(vec![String::new()]), ..PortFilter::default() };
    assert!(groups.matches_node(None) && !shards("s1").matches_node(None), "as nobody described it");
    let absent = ["category", "description", "physical_network", "portgroup_uuid", "updated_at", "vendor"];
    for member in Placed::SORTABLE {
        assert_eq!(placed.sort_value(member).is_none(), absent.contains(member), "{member}");
    }
}
