//! Every rule as a table, and that three steps bring any Node where it shall be.

use serde_json::{Map, json};

use super::*;

const READ: &str = "2026-01-02T03:04:05Z";

fn map(text: &str) -> BTreeMap<String, String> {
    let pair = |pair: &str| pair.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()));
    text.split_whitespace().map(|text| pair(text).expect("key=value")).collect()
}

fn set(text: &str) -> BTreeSet<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// `key=value:effect@time`; value, effect and time may be absent.
fn live_taint(text: &str) -> LiveTaint {
    let (text, time) = text.split_once('@').map_or((text, None), |(text, time)| (text, Some(time.to_owned())));
    let (text, effect) = text.rsplit_once(':').unwrap_or((text, "NoSchedule"));
    let (key, value) = text.split_once('=').unwrap_or((text, ""));
    LiveTaint { key: key.to_owned(), value: value.to_owned(), effect: effect.to_owned(), time_added: time }
}

fn live_list(text: &str) -> Vec<LiveTaint> {
    text.split_whitespace().map(live_taint).collect()
}

fn wanted_list(text: &str) -> Vec<Taint> {
    let taint = |live: LiveTaint| {
        let effect = Effect::parse(&live.effect).expect("an effect");
        Taint { key: live.key, value: live.value, effect }
    };
    live_list(text).into_iter().map(taint).collect()
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

fn attributes(labels: &str, annotations: &str, taints: &str) -> Attributes {
    Attributes { labels: map(labels), annotations: map(annotations), taints: wanted_list(taints) }
}

/// A Node whose labels and annotations are all ours.
fn live(labels: &str, annotations: &str, taints: &str) -> LiveNode {
    let (labels, annotations) = (map(labels), map(annotations));
    let applied =
        Applied { labels: labels.keys().cloned().collect(), annotations: annotations.keys().cloned().collect() };
    LiveNode { labels, annotations, taints: live_list(taints), applied, ..LiveNode::default() }
}

#[test]
fn owned_keys() {
    for (key, owned) in [
        ("cke.cybozu.com/role", true),
        ("cke.cybozu.com/", true),
        ("sabakan.cke.cybozu.com/datacenter", true),
        ("a.b.cke.cybozu.com/x", true),
        ("node-role.kubernetes.io/worker", true),
        ("node-role.kubernetes.io/", true),
        ("xcke.cybozu.com/role", false),
        ("cke.cybozu.com", false),
        ("cke.cybozu.com.example/role", false),
        ("x.node-role.kubernetes.io/worker", false),
        ("node.kubernetes.io/not-ready", false),
        ("topology.kubernetes.io/zone", false),
        ("role", false),
        ("", false),
    ] {
        assert_eq!(is_owned(key), owned, "{key}");
    }
}

#[test]
fn control_planes_get_their_label_and_if_wanted_their_taint() {
    let labels = map("a=1");
    for (control_plane, taint, expected_labels, expected_taints) in [
        (false, false, "a=1", ""),
        (false, true, "a=1", ""),
        (true, false, "a=1 cke.cybozu.com/master=true", ""),
        (true, true, "a=1 cke.cybozu.com/master=true", "cke.cybozu.com/master=:PreferNoSchedule"),
    ] {
        let node = Node { control_plane, labels: labels.clone(), ..node("10.0.0.1") };
        let wanted = wanted(&node, taint);
        assert_eq!(wanted, attributes(expected_labels, "", expected_taints), "{control_plane} {taint}");
    }
}

#[test]
fn taints_of_a_node_come_first_and_once() {
    for (taints, expected) in [
        ("t:NoExecute", "t:NoExecute cke.cybozu.com/master=:PreferNoSchedule"),
        ("cke.cybozu.com/master=x:NoExecute t", "t cke.cybozu.com/master=:PreferNoSchedule"),
        ("t=1 t=2 t=1:NoExecute", "t=1 t=1:NoExecute cke.cybozu.com/master=:PreferNoSchedule"),
    ] {
        let node = Node { control_plane: true, taints: wanted_list(taints), ..node("10.0.0.1") };
        assert_eq!(wanted(&node, true).taints, wanted_list(expected), "{taints}");
    }
}

#[test]
fn whoever_reboots_keeps_the_annotation() {
    let annotations = map("cke.cybozu.com/reboot=true cke.cybozu.com/serial=s");
    let node = Node { annotations, ..node("10.0.0.1") };
    assert_eq!(wanted(&node, false).annotations, map("cke.cybozu.com/serial=s"));
    let live = live("", "cke.cybozu.com/serial=s", "");
    let rebooting = LiveNode { annotations: map("cke.cybozu.com/reboot=true cke.cybozu.com/serial=s"), ..live };
    assert_eq!(next_step(&wanted(&node, false), &rebooting), None);
}

#[test]
fn configuration_says_whether_control_planes_are_tainted() {
    for (rest, expected) in [
        (json!({}), false),
        (json!({ "taint_control_plane": false }), false),
        (json!({ "taint_control_plane": true }), true),
        (json!({ "taint_control_plane": "true" }), false),
        (json!({ "taint_control_plane": null }), false),
    ] {
        let rest = rest.as_object().expect("an object").clone();
        assert_eq!(taints_control_planes(&Configuration { nodes: Vec::new(), rest }), expected);
    }
}

#[test]
fn lists_of_taints() {
    let foreign = format!("node.kubernetes.io/not-ready:NoExecute@{READ}");
    let state = "cke.cybozu.com/state=retiring:NoExecute";
    let timed = format!("{state}@{READ}");
    // wanted, live, and the list to write; the same as live where nothing is to be done.
    let rows: Vec<(&str, String, String)> = vec![
        ("", String::new(), String::new()),
        ("", foreign.clone(), foreign.clone()),
        (state, String::new(), state.to_owned()),
        (state, foreign.clone(), format!("{foreign} {state}")),
        (state, timed.clone(), timed.clone()),
        (state, format!("{timed} {foreign}"), format!("{timed} {foreign}")),
        ("", timed.clone(), String::new()),
        ("", format!("{foreign} {timed} x"), format!("{foreign} x")),
        (state, "cke.cybozu.com/state=retired:NoExecute".to_owned(), state.to_owned()),
        (state, "cke.cybozu.com/state=retiring:NoSchedule".to_owned(), state.to_owned()),
        ("gpu", "gpu:NoExecute".to_owned(), "gpu".to_owned()),
        ("gpu", "gpu=1".to_owned(), "gpu".to_owned()),
        ("gpu", "gpu gpu:NoExecute".to_owned(), "gpu".to_owned()),
        ("gpu gpu:NoExecute", "gpu:NoExecute x".to_owned(), "gpu:NoExecute x gpu".to_owned()),
        ("", "gpu".to_owned(), "gpu".to_owned()),
        ("", "x:OfTheFuture".to_owned(), "x:OfTheFuture".to_owned()),
        ("", "cke.cybozu.com/x:OfTheFuture".to_owned(), String::new()),
        ("", "node-role.kubernetes.io/master".to_owned(), String::new()),
        ("a b", "b a".to_owned(), "b a".to_owned()),
    ];
    for (wanted, live, expected) in rows {
        let list = taints(&wanted_list(wanted), &live_list(&live));
        let expected = (live != expected).then(|| live_list(&expected));
        assert_eq!(list, expected, "wanted {wanted}, live {live}");
    }
}

#[test]
fn labels_and_annotations() {
    let ours = live("a=1", "n=1", "");
    let with = |change: fn(&mut LiveNode)| {
        let mut node = ours.clone();
        change(&mut node);
        node
    };
    let apply =
        |labels: &str, annotations: &str| Some(Step::Apply { labels: map(labels), annotations: map(annotations) });
    let remove =
        |labels: &str, annotations: &str| Some(Step::Remove { labels: set(labels), annotations: set(annotations) });
    let rows: Vec<(&str, LiveNode, &str, &str, Option<Step>)> = vec![
        ("as wanted", ours.clone(), "a=1", "n=1", None),
        ("nothing wanted and nothing there", live("", "", ""), "", "", None),
        ("another label", ours.clone(), "a=1 b=2", "n=1", apply("a=1 b=2", "n=1")),
        ("another value", ours.clone(), "a=2", "n=1", apply("a=2", "n=1")),
        ("another annotation", ours.clone(), "a=1", "n=1 m=2", apply("a=1", "n=1 m=2")),
        ("another value of one", ours.clone(), "a=1", "n=2", apply("a=1", "n=2")),
        ("no longer wanted", ours.clone(), "", "n=1", apply("", "n=1")),
        ("annotation no longer wanted", ours.clone(), "a=1", "", apply("a=1", "")),
        (
            "changed by hand",
            with(|node| {
                node.labels = map("a=9");
                node.applied.labels.clear();
            }),
            "a=1",
            "n=1",
            apply("a=1", "n=1"),
        ),
        (
            "removed by hand",
            with(|node| {
                node.labels.clear();
                node.applied.labels.clear();
            }),
            "a=1",
            "n=1",
            apply("a=1", "n=1"),
        ),
        ("right, but somebody else's", with(|node| node.applied.labels.clear()), "a=1", "n=1", apply("a=1", "n=1")),
        ("foreign label", with(|node| node.labels.extend(map("f=1 example.com/g=2"))), "a=1", "n=1", None),
        ("foreign annotation", with(|node| node.annotations.extend(map("f=1"))), "a=1", "n=1", None),
        (
            "left over of the cluster's own",
            with(|node| {
                node.labels.extend(map("cke.cybozu.com/old=1 node-role.kubernetes.io/cs=true keep=1"));
                node.annotations.extend(map("x.cke.cybozu.com/old=1 keep=1 cke.cybozu.com/reboot=true"));
            }),
            "a=1",
            "n=1",
            remove("cke.cybozu.com/old node-role.kubernetes.io/cs", "x.cke.cybozu.com/old"),
        ),
        (
            "first ours, then what is left over",
            with(|node| node.labels.extend(map("cke.cybozu.com/old=1"))),
            "a=2",
            "n=1",
            apply("a=2", "n=1"),
        ),
    ];
    for (what, live, labels, annotations, expected) in rows {
        assert_eq!(next_step(&attributes(labels, annotations, ""), &live), expected, "{what}");
    }
}

#[test]
fn taints_go_first() {
    let step = next_step(&attributes("a=1", "", "t"), &live("", "", "x"));
    assert_eq!(step, Some(Step::Taints(live_list("x t"))));
}

/// What a server that keeps to the rules makes of a step.
fn carry_out(step: &Step, node: &mut LiveNode) {
    match step {
        Step::Taints(taints) => node.taints.clone_from(taints),
        Step::Apply { labels, annotations } => {
            node.labels.retain(|key, _| !node.applied.labels.contains(key));
            node.annotations.retain(|key, _| !node.applied.annotations.contains(key));
            node.labels.extend(labels.clone());
            node.annotations.extend(annotations.clone());
            node.applied.labels = labels.keys().cloned().collect();
            node.applied.annotations = annotations.keys().cloned().collect();
        }
        Step::Remove { labels, annotations } => {
            node.labels.retain(|key, _| !labels.contains(key));
            node.annotations.retain(|key, _| !annotations.contains(key));
        }
    }
}

#[test]
fn three_steps_are_enough_from_anywhere() {
    let texts = ["", "a=1", "a=2 cke.cybozu.com/x=1", "cke.cybozu.com/x=2 b=1"];
    let lists = ["", "x", "cke.cybozu.com/state=retired:NoExecute x", "x:NoExecute cke.cybozu.com/old"];
    let mut tried = 0;
    for (labels, annotations, taints) in product(&texts, &texts, &lists) {
        let wanted = attributes(labels, annotations, taints);
        for (labels, annotations, taints) in product(&texts, &texts, &lists) {
            for is_ours in [false, true] {
                let mut node = live(labels, annotations, taints);
                if !is_ours {
                    node.applied = Applied::default();
                }
                let foreign: Vec<LiveTaint> =
                    node.taints.iter().filter(|taint| is_foreign(&wanted, taint)).cloned().collect();
                let steps = std::iter::from_fn(|| {
                    let step = next_step(&wanted, &node)?;
                    carry_out(&step, &mut node);
                    Some(step)
                });
                assert!(steps.take(4).count() <= 3, "{wanted:?} from {labels} {annotations} {taints}");
                assert!(wanted.labels.iter().all(|(key, value)| node.labels.get(key) == Some(value)));
                assert!(wanted.taints.iter().all(|taint| node.taints.iter().any(|live| live.is(taint))));
                assert!(foreign.iter().all(|taint| node.taints.contains(taint)), "{foreign:?} {node:?}");
                tried += 1;
            }
        }
    }
    assert_eq!(tried, 64 * 64 * 2);
}

fn is_foreign(wanted: &Attributes, taint: &LiveTaint) -> bool {
    !is_owned(&taint.key) && !wanted.taints.iter().any(|wanted| wanted.key == taint.key)
}

fn product<'a>(a: &[&'a str], b: &[&'a str], c: &[&'a str]) -> Vec<(&'a str, &'a str, &'a str)> {
    let pairs = a.iter().flat_map(|a| b.iter().map(move |b| (*a, *b)));
    pairs.flat_map(|(a, b)| c.iter().map(move |c| (a, b, *c))).collect()
}

fn named(name: &str, addresses: &str) -> LiveNode {
    let addresses = addresses.split_whitespace().map(|text| text.parse().expect("an address")).collect();
    LiveNode { name: name.to_owned(), addresses, ..LiveNode::default() }
}

#[test]
fn nodes_are_found_by_name_and_else_by_their_only_address() {
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
    ];
    for (what, nodes, live, expected) in rows {
        let configuration = Configuration { nodes, rest: Map::new() };
        assert_eq!(find(&configuration, &live), expected, "{what}");
    }
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
    assert_eq!(live_taints(&nodes), expected.into_iter().collect());
}

#[test]
fn silence_stops_the_round_once_there_is_a_cluster() {
    let read = || Ok(live_taints(&[named("10.0.0.1", "")]));
    let silence = || Err("no answer".to_owned());
    assert_eq!(taints_to_plan_with(true, read()), read());
    assert_eq!(taints_to_plan_with(false, read()), read());
    assert_eq!(taints_to_plan_with(true, silence()), silence());
    assert_eq!(taints_to_plan_with(false, silence()), Ok(LiveTaints::new()));
}
