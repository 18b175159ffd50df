//! Whose a key is, and which Node is which.

use serde_json::Map;

use super::*;

fn live_list(text: &str) -> Vec<LiveTaint> {
    let taint = |text: &str| {
        let (key, effect) = text.split_once(':').unwrap_or((text, "NoSchedule"));
        LiveTaint { key: key.to_owned(), value: String::new(), effect: effect.to_owned(), time_added: None }
    };
    text.split_whitespace().map(taint).collect()
}

fn node(address: &str) -> Node {
    Node {
        address: address.parse().expect("an address"),
        hostname: String::new(),
        user: "core".to_owned(),
        control_plane: false,
        annotations: BTreeMap::new(),
        labels: BTreeMap::new(),
        taints: Vec::new(),
    }
}

fn serial(serial: &str) -> BTreeMap<String, String> {
    [(SERIAL_ANNOTATION.to_owned(), serial.to_owned())].into()
}

fn with_serial(address: &str, of: &str) -> Node {
    Node { annotations: serial(of), ..node(address) }
}

fn annotated(name: &str, addresses: &str, of: &str) -> LiveNode {
    LiveNode { annotations: serial(of), ..named(name, addresses) }
}

#[test]
fn whose_a_key_is() {
    for (key, owner) in [
        ("cke.cybozu.com/role", KeyOwner::Configuration),
        ("cke.cybozu.com/", KeyOwner::Configuration),
        ("sabakan.cke.cybozu.com/datacenter", KeyOwner::Configuration),
        ("a.b.cke.cybozu.com/x", KeyOwner::Configuration),
        ("node-role.kubernetes.io/worker", KeyOwner::Role),
        ("node-role.kubernetes.io/", KeyOwner::Role),
        ("node.kubernetes.io/not-ready", KeyOwner::Kubernetes),
        ("xcke.cybozu.com/role", KeyOwner::Others),
        ("cke.cybozu.com", KeyOwner::Others),
        ("cke.cybozu.com.example/role", KeyOwner::Others),
        ("x.node-role.kubernetes.io/worker", KeyOwner::Others),
        ("topology.kubernetes.io/zone", KeyOwner::Others),
        ("sabakan.cybozu.com/taints", KeyOwner::Others),
        ("role", KeyOwner::Others),
        ("", KeyOwner::Others),
    ] {
        assert_eq!(KeyOwner::of(key), owner, "{key}");
    }
}

fn named(name: &str, addresses: &str) -> LiveNode {
    let addresses = addresses.split_whitespace().map(|text| text.parse().expect("an address")).collect();
    LiveNode { name: name.to_owned(), addresses, ..LiveNode::default() }
}

#[test]
fn nodes_are_found_by_name_then_address_then_serial() {
    let hostname = |hostname: &str, address: &str| Node { hostname: hostname.to_owned(), ..node(address) };
    type Row = (&'static str, Vec<Node>, Vec<LiveNode>, Vec<Option<usize>>);
    let rows: Vec<Row> = vec![
        ("by name", vec![node("10.0.0.1")], vec![named("x", ""), named("10.0.0.1", "")], vec![Some(1)]),
        ("by hostname", vec![hostname("n1", "10.0.0.1")], vec![named("n1", "")], vec![Some(0)]),
        ("not there", vec![node("10.0.0.1")], vec![named("10.0.0.11", "10.0.0.11")], vec![None]),
        ("by address", vec![node("10.0.0.1")], vec![named("n1", "10.0.0.9 10.0.0.1")], vec![Some(0)]),
        (
            "name before address",
            vec![node("10.0.0.1")],
            vec![named("n1", "10.0.0.1"), named("10.0.0.1", "")],
            vec![Some(1)],
        ),
        ("two claim it", vec![node("10.0.0.1")], vec![named("n1", "10.0.0.1"), named("n2", "10.0.0.1")], vec![None]),
        ("told twice", vec![node("10.0.0.1")], vec![named("n1", "10.0.0.1 10.0.0.1")], vec![Some(0)]),
        (
            "named as another",
            vec![node("10.0.0.1"), node("10.0.0.2")],
            vec![named("10.0.0.2", "10.0.0.1")],
            vec![None, Some(0)],
        ),
        (
            "one for two",
            vec![node("10.0.0.1"), node("10.0.0.2")],
            vec![named("n1", "10.0.0.1 10.0.0.2")],
            vec![None, None],
        ),
        (
            "two of one name",
            vec![hostname("n", "10.0.0.1"), hostname("n", "10.0.0.2")],
            vec![named("n", "")],
            vec![None, None],
        ),
        ("no nodes", vec![], vec![named("n", "10.0.0.1")], vec![]),
        ("by serial", vec![with_serial("10.0.0.1", "s1")], vec![annotated("n1", "", "s1")], vec![Some(0)]),
        (
            "address before serial",
            vec![with_serial("10.0.0.1", "s1")],
            vec![annotated("n1", "", "s1"), named("n2", "10.0.0.1")],
            vec![Some(1)],
        ),
        (
            "of another serial",
            vec![with_serial("10.0.0.1", "s1"), with_serial("10.0.0.2", "s2")],
            vec![annotated("n1", "10.0.0.2", "s1")],
            vec![None, Some(0)],
        ),
        (
            "two of one serial",
            vec![with_serial("10.0.0.1", "s1")],
            vec![annotated("n1", "", "s1"), annotated("n2", "", "s1")],
            vec![None],
        ),
        ("no serial is no serial", vec![node("10.0.0.1")], vec![named("n1", "")], vec![None]),
    ];
    for (what, nodes, live, expected) in rows {
        let configuration = Configuration { nodes, rest: Map::new() };
        let found: Vec<Option<usize>> = find(&configuration, &live).into_iter().map(NodeMatch::found).collect();
        assert_eq!(found, expected, "{what}");
    }
}

#[test]
fn a_node_that_is_not_found_says_how_it_was_looked_for() {
    let look = |live: &[LiveNode]| {
        let configuration = Configuration { nodes: vec![with_serial("10.0.0.1", "s1")], rest: Map::new() };
        match find(&configuration, live).remove(0) {
            NodeMatch::Lost(lost) => lost.to_string(),
            NodeMatch::Found(at) => panic!("{at}"),
        }
    };
    let missing = look(&[named("n1", "10.0.0.9")]);
    for part in ["the name 10.0.0.1,", "InternalIP 10.0.0.1", "cke.cybozu.com/serial=s1"] {
        assert!(missing.contains(part), "{missing}");
    }
    let several = look(&[named("n1", "10.0.0.1"), named("n2", "10.0.0.1")]);
    assert!(several.ends_with("n1, n2"), "{several}");
}

#[test]
fn taints_are_known_by_address() {
    let nodes = [
        LiveNode { taints: live_list("a b:NoExecute a:NoExecute"), ..named("10.0.0.1", "10.0.0.1 fd00::1") },
        LiveNode { taints: live_list("c"), ..named("n2", "10.0.0.2") },
        LiveNode { taints: live_list("d"), ..named("n3", "") },
        named("10.0.0.4", ""),
    ];
    let keys = |text: &str| live_list(text).into_iter().map(|taint| taint.key).collect::<BTreeSet<_>>();
    let expected = [("10.0.0.1", "a b"), ("10.0.0.2", "c"), ("10.0.0.4", ""), ("fd00::1", "a b")];
    let expected = expected.map(|(address, taints)| (address.parse().expect("an address"), keys(taints)));
    assert_eq!(live_taints(None, &nodes), expected.into_iter().collect());
    let configuration = Configuration { nodes: vec![with_serial("10.0.0.7", "s7")], rest: Map::new() };
    let by_serial = LiveNode { taints: live_list("e"), ..annotated("n7", "10.0.0.8", "s7") };
    let address = "10.0.0.7".parse::<IpAddr>().expect("an address");
    assert_eq!(live_taints(Some(&configuration), &[by_serial]).get(&address), Some(&keys("e")));
}

#[test]
fn a_heartbeat_is_no_difference() {
    let node = named("n1", "10.0.0.1");
    let heartbeat = LiveNode { resource_version: "9".to_owned(), ..node.clone() };
    assert!(!node.differs_from(&heartbeat));
    let ready = |status: &str| Some(ReadyCondition { status: status.to_owned(), since: None });
    for other in [
        LiveNode { uid: "u".to_owned(), ..node.clone() },
        LiveNode { addresses: Vec::new(), ..node.clone() },
        LiveNode { labels: serial("a"), ..node.clone() },
        LiveNode { annotations: serial("a"), ..node.clone() },
        LiveNode { taints: live_list("x"), ..node.clone() },
        LiveNode { cordoned: true, ..node.clone() },
        LiveNode { ready: ready("True"), ..node.clone() },
        LiveNode { applied: Applied { taints: ["x".to_owned()].into(), ..Applied::default() }, ..node.clone() },
    ] {
        assert!(node.differs_from(&other) && other.differs_from(&node), "{other:?}");
    }
}
