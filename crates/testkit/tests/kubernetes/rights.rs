//! The rights of the guide: every one is used, no other is, and a missing one is told by its name. Whoever asks says who it is.

use std::collections::BTreeSet;

use sabakan_domain::{cluster::attributes::Step, repair::selector::Selector};
use sabakan_drivers::kubernetes::{Evicted, Kubernetes as _, KubernetesError};
use sabakan_kube::{Kube, Source};
use sabakan_testkit::{
    kubelab::{self, Kubelab, Kubelet},
    wait_for,
};
use serde_json::{Value, json};

use super::{
    LONG, objects,
    site::{Site, cordon, draining},
};

/// Rights of a role, as `list nodes`.
fn rights(role: &Value) -> BTreeSet<String> {
    let words = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let mut rights = BTreeSet::new();
    for rule in role["rules"].as_array().into_iter().flatten() {
        assert!(rule["resourceNames"].is_null() && rule["nonResourceURLs"].is_null(), "{rule}");
        for group in words(&rule["apiGroups"]) {
            let group = if group.is_empty() { group } else { format!("{group}/") };
            for resource in words(&rule["resources"]) {
                rights.extend(words(&rule["verbs"]).iter().map(|verb| format!("{verb} {group}{resource}")));
            }
        }
    }
    rights
}

fn granted(lab: &Kubelab) -> BTreeSet<String> {
    rights(&lab.get("/apis/rbac.authorization.k8s.io/v1/clusterroles/sabakan"))
}

/// A whole server does all it can do: it plans, applies, drains with evictions and deletions, and gives back.
#[test]
fn every_right_of_the_guide_is_used_and_no_other_is_needed() {
    let Some(lab) = kubelab::turn() else { return };
    let since = lab.audited();
    let site = Site::start_with(lab, |config| config.planner = true);
    let node = site.address("m1").to_owned();
    let kubelet = |address: &String| match address == &node {
        true => Kubelet::new(address).label("pool", "web"),
        false => Kubelet::new(address),
    };
    site.lab.kubelets.add(site.addresses.values().map(kubelet));
    site.lab.namespace("dev", &json!({}));
    objects::deployment(&site.lab, "dev", "web", 1);
    objects::budget(&site.lab, "dev", "web", 1);
    let rules = json!({ "protected_namespaces": { "matchLabels": { "protected": "true" } } });
    site.configure(&draining(&site, &rules), &json!({}));
    site.break_alone("m1", "unhealthy");
    wait_for("the node to be reset", LONG, || (site.ran() == [format!("reset {node}")]).then_some(()));
    site.report("m1", "healthy");
    wait_for("the node to be given back", LONG, || (cordon(&site.lab, &node) == (false, false)).then_some(()));
    meets_the_next_pod(&site, site.address("m2"));

    let records = site.lab.audit(since);
    let used: BTreeSet<String> = records.iter().map(|record| record.right()).collect();
    assert_eq!(used, granted(&site.lab));
    let refused: Vec<_> = records.iter().filter(|record| matches!(record.code, 401 | 403)).collect();
    assert!(refused.is_empty(), "{refused:#?}");
    let agents: BTreeSet<&str> = records.iter().map(|record| record.agent.as_str()).collect();
    assert_eq!(agents, BTreeSet::from([concat!("sabakan/", env!("CARGO_PKG_VERSION"))]));
}

/// Only a race makes a server find another pod of the name it meant, and have to look which one it is.
fn meets_the_next_pod(site: &Site, node: &str) {
    objects::stateful_set(&site.lab, "dev", "db", node);
    let kube = site.server.block_on(Kube::open(Source::Kubeconfig(site.lab.kubeconfig()))).expect("a client");
    let first = || site.server.block_on(kube.pods(node)).expect("pods").into_iter().next();
    let before = first().expect("a pod");
    let evict = || site.server.block_on(kube.evict(&before, false));
    assert_eq!(evict(), Ok(Evicted::Done));
    wait_for("the next pod", LONG, || first().filter(|pod| pod.uid != before.uid));
    assert_eq!(evict(), Ok(Evicted::Gone));
}

#[test]
fn a_missing_right_is_told_by_its_name() {
    let Some(lab) = kubelab::turn() else { return };
    lab.kubelets.add([Kubelet::new("10.69.0.5")]);
    objects::pod(&lab, "default", "alone", "10.69.0.5");
    let path = "/apis/rbac.authorization.k8s.io/v1/clusterroles/sabakan";
    let role = lab.get(path);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let kube = runtime.block_on(Kube::open(Source::Kubeconfig(lab.kubeconfig()))).expect("a client");
    let node = runtime.block_on(kube.find("10.69.0.5")).expect("an answer").expect("a node");
    let pod = runtime.block_on(kube.pods("10.69.0.5")).expect("pods").remove(0);
    for (right, resource) in [
        ("list", "nodes"),
        ("get", "nodes"),
        ("patch", "nodes"),
        ("watch", "nodes"),
        ("list", "leases"),
        ("list", "namespaces"),
        ("list", "pods"),
        ("delete", "pods"),
        ("create", "pods/eviction"),
    ] {
        take_away(&lab, path, &role, right, resource);
        let untainted = Step::Taints { list: Vec::new(), ours: Default::default() };
        let everything = Selector::of(&json!({})).expect("a selector");
        let error = wait_for("the right to be gone", LONG, || {
            runtime.block_on(async {
                match (right, resource) {
                    ("list", "nodes") => kube.list().await.err(),
                    ("get", "nodes") => kube.find(&node.name).await.err(),
                    ("patch", "nodes") => kube.take(&node, &untainted).await.err(),
                    ("watch", "nodes") => kube.watch("0").await.err(),
                    ("list", "leases") => kube.leases().await.err(),
                    ("list", "namespaces") => kube.namespaces(&everything).await.err(),
                    ("list", _) => kube.pods(&node.name).await.err(),
                    ("create", _) => kube.evict(&pod, true).await.err(),
                    // Not the pod of anybody: as long as the right is there nothing happens.
                    _ => {
                        let other = sabakan_domain::repair::drain::LivePod { name: "nobody".to_owned(), ..pod.clone() };
                        kube.delete_pod(&other).await.err()
                    }
                }
            })
        });
        assert!(matches!(&error, KubernetesError::Forbidden { .. }) && !error.is_retryable(), "{error}");
        assert!(error.to_string().contains(&format!("cannot {right} resource \"{resource}\"")), "{error}");
    }
    let (code, answer) = lab.ask("PUT", path, &without_version(&role));
    assert_eq!(code, 200, "{answer}");
}

/// Takes one right out of the role of the guide.
fn take_away(lab: &Kubelab, path: &str, role: &Value, right: &str, resource: &str) {
    let mut role = without_version(role);
    for rule in role["rules"].as_array_mut().expect("rules") {
        let is_meant = rule["resources"].as_array().is_some_and(|list| list.iter().any(|name| name == resource));
        if let (true, Some(verbs)) = (is_meant, rule["verbs"].as_array_mut()) {
            verbs.retain(|verb| verb != right);
        }
    }
    let rules = role["rules"].as_array_mut().expect("rules");
    rules.retain(|rule| rule["verbs"].as_array().is_some_and(|verbs| !verbs.is_empty()));
    let (code, answer) = lab.ask("PUT", path, &role);
    assert_eq!(code, 200, "{answer}");
}

fn without_version(role: &Value) -> Value {
    let mut role = role.clone();
    role["metadata"].as_object_mut().expect("metadata").remove("resourceVersion");
    role
}
