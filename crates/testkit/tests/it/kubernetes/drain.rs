//! `sabakan-kube` against the double: what it takes to empty a Node.

use std::{collections::BTreeSet, future::Future};

use sabakan_domain::{
    cluster::attributes::Step,
    repair::{
        drain::{self, Cordon, LivePod},
        selector::Selector,
    },
};
use sabakan_drivers::kubernetes::{Evicted, Kubernetes, KubernetesError};
use sabakan_kube::Kube;
use sabakan_testkit::kubernetes::{Budget, Entry, Field, KubernetesDouble, Pod};
use serde_json::{Value, json};

use super::{
    add_taint,
    client::{block_on, open},
};

const NODE: &str = "10.0.0.1";

/// A double with one Node and these pods on it, and a client for it.
fn with_pods<T: Future<Output = ()>>(pods: Vec<Pod>, story: impl FnOnce(KubernetesDouble, Kube) -> T) {
    let double = KubernetesDouble::start(Entry::Open);
    double.register(NODE);
    for pod in pods {
        double.add_pod(pod);
    }
    block_on(async {
        let kube = open(&double).await;
        story(double, kube).await;
    });
}

fn web(n: usize) -> Pod {
    Pod::new("default", &format!("web-{n}"), NODE)
}

async fn only_pod(kube: &Kube) -> LivePod {
    let mut pods = kube.pods(NODE).await.expect("pods");
    assert_eq!(pods.len(), 1, "{pods:?}");
    pods.remove(0)
}

fn selector(value: &Value) -> Selector {
    Selector::of(value).expect("a selector")
}

#[test]
fn a_cordon_and_its_mark_come_and_go_together() {
    let double = KubernetesDouble::start(Entry::Open);
    for name in [NODE, "10.0.0.2", "10.0.0.3"] {
        double.register(name);
    }
    double.edit("kube-controller-manager", NODE, |fields| add_taint(fields, "node.kubernetes.io/unschedulable"));
    double.cordon_by_hand("10.0.0.2");
    block_on(async {
        let kube = open(&double).await;
        kube.cordon(NODE).await.expect("cordoned");
        kube.cordon(NODE).await.expect("cordoned before");
        assert_eq!(double.take_writes(), vec![format!("application/merge-patch+json {NODE} sabakan"); 2]);
        let nodes = kube.list().await.expect("a list").nodes;
        let whose: Vec<_> = nodes.iter().map(|node| (node.name.as_str(), drain::cordon(node))).collect();
        assert_eq!(whose, [(NODE, Cordon::Ours), ("10.0.0.2", Cordon::Theirs), ("10.0.0.3", Cordon::Open)]);
        assert_eq!(double.taints(NODE), ["node.kubernetes.io/unschedulable"], "everything else stays");

        kube.uncordon(NODE).await.expect("uncordoned");
        kube.uncordon(NODE).await.expect("uncordoned before");
        let node = kube.find(NODE).await.expect("an answer").expect("a node");
        assert_eq!(drain::cordon(&node), Cordon::Open);
        assert!(node.annotations.is_empty(), "{:?}", node.annotations);
        assert!(double.is_cordoned("10.0.0.2"));
        assert_eq!(double.take_drains(), [format!("cordon {NODE}"), format!("uncordon {NODE}")]);
    });
}

#[test]
fn a_node_that_is_gone_cannot_be_cordoned_and_need_not_be_uncordoned() {
    let double = KubernetesDouble::start(Entry::Open);
    block_on(async {
        let kube = open(&double).await;
        let error = kube.cordon(NODE).await.expect_err("there is none");
        assert!(matches!(&error, KubernetesError::Conflict(_)) && error.is_about_one_node(), "{error}");
        assert!(error.to_string().contains(NODE), "{error}");
        kube.uncordon(NODE).await.expect("nothing to do");
        assert!(double.state().nodes.is_empty(), "nothing was created");
    });
}

#[test]
fn pods_of_a_node_are_listed_page_by_page_and_of_no_other() {
    let many: Vec<Pod> = (0..1_001).map(web).collect();
    with_pods(many, async |double, kube| {
        double.add_pod(Pod::new("default", "other", "10.0.0.11"));
        let before = double.state().requests;
        assert_eq!(kube.pods(NODE).await.expect("pods").len(), 1_001);
        assert_eq!(double.state().requests - before, 3);
        double.state().faults.expired_pages = 1;
        assert_eq!(kube.pods(NODE).await.expect("begun anew").len(), 1_001);
        assert_eq!(only(&kube.pods("10.0.0.11").await.expect("pods")).name, "other");
        assert_eq!(kube.pods("10.0.0.2").await.expect("an answer"), []);
        let error = kube.pods("").await.expect_err("pods without a node are not those of one");
        assert!(matches!(error, KubernetesError::Rejected { .. }), "{error}");
    });
}

fn only(pods: &[LivePod]) -> &LivePod {
    assert_eq!(pods.len(), 1, "{pods:?}");
    &pods[0]
}

#[test]
fn a_pod_is_seen_as_it_is() {
    let job = Pod::new("batch", "sum", NODE).owned_by("Job").labelled("app", "sum").in_phase("Succeeded");
    with_pods(vec![job, Pod { owner: None, ..web(1).lingering() }], async |double, kube| {
        double.edit_pod("default/web-1", |pod| pod.is_terminating = true);
        let pods = kube.pods(NODE).await.expect("pods");
        let uid = |key: &str| double.state().pods[key].uid.clone();
        let expected = [
            LivePod {
                namespace: "batch".to_owned(),
                name: "sum".to_owned(),
                uid: uid("batch/sum"),
                owner: Some("Job".to_owned()),
                phase: "Succeeded".to_owned(),
                labels: [("app".to_owned(), "sum".to_owned())].into(),
                terminating: false,
            },
            LivePod {
                namespace: "default".to_owned(),
                name: "web-1".to_owned(),
                uid: uid("default/web-1"),
                phase: "Running".to_owned(),
                terminating: true,
                ..LivePod::default()
            },
        ];
        assert_eq!(pods, expected);
    });
}

#[test]
fn namespaces_are_selected_by_their_labels() {
    let double = KubernetesDouble::start(Entry::Open);
    for (name, labels) in [
        ("a", &[("team", "infra"), ("tier", "prod")][..]),
        ("b", &[("team", "infra"), ("tier", "dev")]),
        ("c", &[("team", "")]),
        ("d", &[]),
    ] {
        double.add_namespace(name, labels);
    }
    block_on(async {
        let kube = open(&double).await;
        let expression = |key: &str, operator: &str, values: &[&str]| match values {
            [] => json!({ "matchExpressions": [{ "key": key, "operator": operator }] }),
            values => json!({ "matchExpressions": [{ "key": key, "operator": operator, "values": values }] }),
        };
        for (value, expected) in [
            (json!({ "matchLabels": { "team": "infra" } }), "a b"),
            (json!({ "matchLabels": { "team": "infra", "tier": "dev" } }), "b"),
            (json!({ "matchLabels": { "team": "" } }), "c"),
            (expression("team", "In", &["infra", ""]), "a b c"),
            (expression("tier", "NotIn", &["dev"]), "a c d"),
            (expression("tier", "NotIn", &["dev", "prod"]), "c d"),
            (expression("team", "Exists", &[]), "a b c"),
            (expression("team", "DoesNotExist", &[]), "d"),
            (expression("kubernetes.io/metadata.name", "In", &["c", "d", "e"]), "c d"),
            (json!({ "matchLabels": { "team": "nobody" } }), ""),
        ] {
            let selector = selector(&value);
            let found = kube.namespaces(&selector).await.expect("namespaces");
            let expected: BTreeSet<String> = expected.split_whitespace().map(str::to_owned).collect();
            assert_eq!(found, expected, "{value}");
            // What the server selects and what we would select ourselves is the same.
            let state = double.state();
            let ours = state.namespaces.iter().filter(|(_, labels)| selector.matches(labels));
            assert_eq!(ours.map(|(name, _)| name.clone()).collect::<BTreeSet<_>>(), expected, "{value}");
        }
    });
}

#[test]
fn namespaces_come_in_pages() {
    let double = KubernetesDouble::start(Entry::Open);
    for n in 0..1_001 {
        double.add_namespace(&format!("n{n:04}"), &[("team", "infra")]);
    }
    block_on(async {
        let kube = open(&double).await;
        let found = kube.namespaces(&selector(&json!({ "matchLabels": { "team": "infra" } }))).await;
        assert_eq!(found.expect("namespaces").len(), 1_001);
        assert_eq!(double.state().requests, 3);
    });
}

#[test]
fn evictions_ask_the_budget_and_a_dry_run_changes_nothing() {
    with_pods(vec![web(1).with_budget(Budget::RefusesNext(1)).lingering()], async |double, kube| {
        let pod = only_pod(&kube).await;
        assert_eq!(kube.evict(&pod, true).await, Ok(Evicted::Done));
        assert!(!only_pod(&kube).await.terminating);
        let refused = kube.evict(&pod, false).await.expect("an answer");
        let Evicted::Refused(words) = &refused else { panic!("{refused:?}") };
        assert!(words.contains("disruption budget web-1 needs 1 healthy pods"), "{words}");
        assert_eq!(kube.evict(&pod, false).await, Ok(Evicted::Done));
        assert!(only_pod(&kube).await.terminating, "it is still there, and going");
        assert_eq!(kube.evict(&pod, false).await, Ok(Evicted::Done), "telling it again is no error");
        double.end_pod("default/web-1");
        for dry_run in [true, false] {
            assert_eq!(kube.evict(&pod, dry_run).await, Ok(Evicted::Gone));
        }
        let expected = ["would evict", "refuse", "evict", "evict"].map(|what| format!("{what} default/web-1"));
        assert_eq!(double.take_drains(), expected);
    });
}

#[test]
fn a_busy_server_is_not_a_budget() {
    with_pods(vec![web(1)], async |double, kube| {
        let pod = only_pod(&kube).await;
        for code in [429, 500, 504] {
            double.state().faults.next.push_back(code);
            let error = kube.evict(&pod, false).await.expect_err("whoever hears of a budget may delete the pod");
            assert!(matches!(&error, KubernetesError::Failed { .. }) && error.is_retryable(), "{code}: {error}");
            assert!(error.to_string().contains("default/web-1"), "{error}");
        }
        assert_eq!(double.pods_on(NODE), ["default/web-1"]);
    });
}

#[test]
fn deletion_asks_no_budget_and_ends_where_there_is_nothing() {
    with_pods(vec![web(1).with_budget(Budget::Refuses).lingering()], async |double, kube| {
        let pod = only_pod(&kube).await;
        assert!(matches!(kube.evict(&pod, true).await, Ok(Evicted::Refused(_))));
        assert!(matches!(kube.evict(&pod, false).await, Ok(Evicted::Refused(_))));
        kube.delete_pod(&pod).await.expect("deleted");
        assert!(only_pod(&kube).await.terminating);
        double.end_pod("default/web-1");
        kube.delete_pod(&pod).await.expect("gone is what was wanted");
        let expected = ["would refuse", "refuse", "delete"].map(|what| format!("{what} default/web-1"));
        assert_eq!(double.take_drains(), expected);
    });
}

#[test]
fn the_next_pod_of_a_stateful_set_is_left_alone() {
    let db = || Pod::new("default", "db-0", NODE).owned_by("StatefulSet");
    with_pods(vec![db()], async |double, kube| {
        let before = only_pod(&kube).await;
        double.add_pod(db());
        let after = only_pod(&kube).await;
        assert_ne!(before.uid, after.uid);
        for dry_run in [true, false] {
            assert_eq!(kube.evict(&before, dry_run).await, Ok(Evicted::Gone));
        }
        kube.delete_pod(&before).await.expect("the one that was meant is gone");
        assert_eq!(only_pod(&kube).await, after);
        assert_eq!(double.take_drains(), [""; 0]);

        // A conflict of another kind leaves open whether the pod went.
        double.state().faults.next.push_back(409);
        let error = kube.evict(&after, false).await.expect_err("a conflict");
        assert!(matches!(&error, KubernetesError::Conflict(_)) && error.is_retryable(), "{error}");
        double.state().faults.next.push_back(409);
        let error = kube.delete_pod(&after).await.expect_err("a conflict");
        assert!(matches!(&error, KubernetesError::Conflict(_)), "{error}");
    });
}

#[test]
fn a_missing_right_is_named() {
    with_pods(vec![web(1)], async |double, kube| {
        let pod = only_pod(&kube).await;
        let everything = selector(&json!({}));
        for (right, resource) in [
            ("list nodes", "nodes"),
            ("watch nodes", "nodes"),
            ("list leases", "leases"),
            ("patch nodes", "nodes"),
            ("list pods", "pods"),
            ("list namespaces", "namespaces"),
            ("create pods/eviction", "pods/eviction"),
            ("delete pods", "pods"),
        ] {
            double.state().faults.forbidden = [right].into();
            let errors = match right {
                "list nodes" => vec![kube.list().await.err()],
                "watch nodes" => vec![kube.watch("0").await.err()],
                "list leases" => vec![kube.leases().await.err()],
                "patch nodes" => vec![kube.cordon(NODE).await.err(), kube.uncordon(NODE).await.err()],
                "list pods" => vec![kube.pods(NODE).await.err()],
                "list namespaces" => vec![kube.namespaces(&everything).await.err()],
                "create pods/eviction" => vec![kube.evict(&pod, true).await.err(), kube.evict(&pod, false).await.err()],
                _ => vec![kube.delete_pod(&pod).await.err()],
            };
            for error in errors {
                let error = error.unwrap_or_else(|| panic!("{right} is not allowed"));
                assert!(matches!(&error, KubernetesError::Forbidden { .. }) && !error.is_retryable(), "{error}");
                let verb = right.split(' ').next().expect("a verb");
                assert!(error.to_string().contains(&format!("cannot {verb} resource \"{resource}\"")), "{error}");
            }
        }
        assert_eq!(double.take_drains(), [""; 0]);
    });
}

/// Rights of the role in the guide, as `list nodes`.
fn documented_rights() -> BTreeSet<String> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guides/kubernetes.md");
    let guide = std::fs::read_to_string(path).expect("the guide");
    let words = |line: &str, member: &str| -> Option<Vec<String>> {
        let list = line.trim().strip_prefix(member)?.trim().strip_prefix('[')?.strip_suffix(']')?;
        Some(list.split(',').map(|word| word.trim().trim_matches('"').to_owned()).collect())
    };
    let mut rights = BTreeSet::new();
    let mut resources = Vec::new();
    for line in guide.lines() {
        resources = words(line, "resources:").unwrap_or(resources);
        for verb in words(line, "verbs:").unwrap_or_default() {
            rights.extend(resources.iter().map(|resource| format!("{verb} {resource}")));
        }
    }
    rights
}

#[test]
fn the_guide_asks_for_the_rights_that_are_used_and_no_others() {
    with_pods(vec![web(1), web(2)], async |double, kube| {
        let node = kube.find(NODE).await.expect("an answer").expect("a node");
        let [first, second] = &kube.pods(NODE).await.expect("pods")[..] else { panic!("two pods") };
        kube.take(&node, &Step::Taints { list: Vec::new(), ours: [].into() }).await.expect("no taints");
        let list = kube.list().await.expect("nodes");
        kube.watch(&list.moment).await.expect("events");
        kube.leases().await.expect("leases");
        kube.cordon(NODE).await.expect("cordoned");
        kube.namespaces(&selector(&json!({}))).await.expect("namespaces");
        double.add_pod(web(1));
        assert_eq!(kube.evict(first, false).await, Ok(Evicted::Gone), "which has to be found out");
        kube.delete_pod(second).await.expect("deleted");
        assert_eq!(kube.evict(second, false).await, Ok(Evicted::Gone));
        kube.uncordon(NODE).await.expect("uncordoned");
        assert_eq!(double.state().rights, documented_rights());
    });
}

#[test]
fn a_server_that_is_down_does_not_look_like_an_empty_node() {
    with_pods(vec![web(1)], async |double, kube| {
        let pod = only_pod(&kube).await;
        double.state().faults.down = true;
        for error in [
            kube.pods(NODE).await.err(),
            kube.list().await.err(),
            kube.watch("0").await.err(),
            kube.leases().await.err(),
            kube.cordon(NODE).await.err(),
            kube.uncordon(NODE).await.err(),
            kube.namespaces(&selector(&json!({}))).await.err(),
            kube.evict(&pod, false).await.err(),
            kube.delete_pod(&pod).await.err(),
        ] {
            let error = error.expect("down");
            assert!(matches!(&error, KubernetesError::Unreachable(_)) && error.is_retryable(), "{error}");
            assert!(!error.to_string().contains("127.0.0.1"), "{error}");
        }
    });
}

#[test]
fn a_cordon_does_not_take_what_was_applied() {
    with_pods(vec![], async |double, kube| {
        double.edit("cke", NODE, |fields| {
            fields.insert(Field::Annotation("cke.cybozu.com/note".to_owned()), json!("theirs"));
        });
        kube.cordon(NODE).await.expect("cordoned");
        kube.uncordon(NODE).await.expect("uncordoned");
        assert_eq!(double.node(NODE)["metadata"]["annotations"], json!({ "cke.cybozu.com/note": "theirs" }));
        assert_eq!(double.node(NODE)["spec"], json!({}));
    });
}
