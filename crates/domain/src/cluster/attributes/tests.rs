//! Every rule as a table, and that three steps bring any Node where it shall be.

use serde_json::json;

use super::*;
use crate::cluster::live_node::Applied;

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
    let applied = Applied {
        labels: labels.keys().cloned().collect(),
        annotations: annotations.keys().cloned().collect(),
        taints: BTreeSet::new(),
    };
    LiveNode { labels, annotations, taints: live_list(taints), applied, ..LiveNode::default() }
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
    let kubeadm = "node-role.kubernetes.io/control-plane";
    // Wanted, live, the keys that we set before, and the list to write; the same as live where the list is right.
    let rows: Vec<(&str, String, &str, String)> = vec![
        ("", String::new(), "", String::new()),
        ("", foreign.clone(), "", foreign.clone()),
        (state, String::new(), "", state.to_owned()),
        (state, foreign.clone(), "", format!("{foreign} {state}")),
        (state, timed.clone(), "", timed.clone()),
        (state, format!("{timed} {foreign}"), "", format!("{timed} {foreign}")),
        ("", timed.clone(), "", String::new()),
        ("", format!("{foreign} {timed} x"), "", format!("{foreign} x")),
        (state, "cke.cybozu.com/state=retired:NoExecute".to_owned(), "", state.to_owned()),
        (state, "cke.cybozu.com/state=retiring:NoSchedule".to_owned(), "", state.to_owned()),
        ("gpu", "gpu:NoExecute".to_owned(), "", "gpu".to_owned()),
        ("gpu", "gpu=1".to_owned(), "", "gpu".to_owned()),
        ("gpu", "gpu gpu:NoExecute".to_owned(), "", "gpu".to_owned()),
        ("gpu gpu:NoExecute", "gpu:NoExecute x".to_owned(), "", "gpu:NoExecute x gpu".to_owned()),
        ("", "gpu".to_owned(), "", "gpu".to_owned()),
        ("", "gpu x".to_owned(), "gpu", "x".to_owned()),
        ("", "x:OfTheFuture".to_owned(), "", "x:OfTheFuture".to_owned()),
        ("", "cke.cybozu.com/x:OfTheFuture".to_owned(), "", String::new()),
        // What a tool that set the cluster up put on its control planes stays, unless it was us.
        ("", kubeadm.to_owned(), "", kubeadm.to_owned()),
        (state, kubeadm.to_owned(), "", format!("{kubeadm} {state}")),
        ("", "node-role.kubernetes.io/master".to_owned(), "", "node-role.kubernetes.io/master".to_owned()),
        ("", "node-role.kubernetes.io/infra".to_owned(), "", "node-role.kubernetes.io/infra".to_owned()),
        ("", "node-role.kubernetes.io/infra".to_owned(), "node-role.kubernetes.io/infra", String::new()),
        ("a b", "b a".to_owned(), "", "b a".to_owned()),
    ];
    for (wanted, live, ours, expected) in rows {
        let wanted = wanted_list(wanted);
        let mut node = LiveNode { taints: live_list(&live), ..LiveNode::default() };
        node.applied.taints = set(ours);
        let named: BTreeSet<String> = wanted.iter().map(|taint| taint.key.clone()).collect();
        let step = taints(&wanted, &node);
        let is_right = live == expected && named == node.applied.taints;
        let expected = Step::Taints { list: live_list(&expected), ours: named };
        assert_eq!(step, (!is_right).then_some(expected), "wanted {wanted:?}, live {live}, ours {ours}");
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
                node.labels.extend(map("cke.cybozu.com/old=1 node-role.kubernetes.io/x=true keep=1"));
                node.annotations.extend(map("x.cke.cybozu.com/old=1 keep=1 cke.cybozu.com/reboot=true"));
            }),
            "a=1",
            "n=1",
            remove("cke.cybozu.com/old", "x.cke.cybozu.com/old"),
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
    assert_eq!(step, Some(Step::Taints { list: live_list("x t"), ours: set("t") }));
}

/// A tool that sets clusters up marks control planes with an empty value, and it stays theirs.
#[test]
fn roles_that_others_gave_are_left_as_they_are() {
    let role = "node-role.kubernetes.io/control-plane";
    let wanted = attributes(&format!("a=1 {role}=true"), "", "");
    let mut node = live("a=1", "", "");
    assert!(matches!(next_step(&wanted, &node), Some(Step::Apply { labels, .. }) if labels[role] == "true"));
    node.labels.insert(role.to_owned(), String::new());
    assert_eq!(next_step(&wanted, &node), None, "the value is theirs");
    assert_eq!(next_step(&attributes("a=1", "", ""), &node), None, "and so is the label of a demoted node");
    node.applied.labels.insert(role.to_owned());
    let expected = Step::Apply { labels: map("a=1"), annotations: map("") };
    assert_eq!(next_step(&attributes("a=1", "", ""), &node), Some(expected), "what we set goes");
}

/// What a server that keeps to the rules makes of a step.
fn carry_out(step: &Step, node: &mut LiveNode) {
    match step {
        Step::Taints { list, ours } => {
            node.taints.clone_from(list);
            node.applied.taints.clone_from(ours);
        }
        Step::OutOfService { .. } => panic!("no configuration says so"),
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
    KeyOwner::of(&taint.key) != KeyOwner::Configuration && !wanted.taints.iter().any(|wanted| wanted.key == taint.key)
}

fn product<'a>(a: &[&'a str], b: &[&'a str], c: &[&'a str]) -> Vec<(&'a str, &'a str, &'a str)> {
    let pairs = a.iter().flat_map(|a| b.iter().map(move |b| (*a, *b)));
    pairs.flat_map(|(a, b)| c.iter().map(move |c| (a, b, *c))).collect()
}

#[test]
fn silence_stops_the_round_once_there_is_a_cluster() {
    let read = || Ok(LiveTaints::from([("10.0.0.1".parse().expect("an address"), set("a"))]));
    let silence = || Err("no answer".to_owned());
    assert_eq!(taints_to_plan_with(true, read()), read());
    assert_eq!(taints_to_plan_with(false, read()), read());
    assert_eq!(taints_to_plan_with(true, silence()), silence());
    assert_eq!(taints_to_plan_with(false, silence()), Ok(LiveTaints::new()));
}
