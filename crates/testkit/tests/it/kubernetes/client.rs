//! `sabakan-kube` against the double: what is asked for, what comes back, and which error is which.

use std::{collections::BTreeMap, fs, future::Future};

use sabakan_domain::cluster::{
    attributes::Step,
    live_node::{Applied, LiveNode, LiveTaint},
};
use sabakan_drivers::kubernetes::{Kubernetes, KubernetesError};
use sabakan_kube::{Kube, Source};
use sabakan_testkit::kubernetes::{Entry, KubernetesDouble, TOKEN};

use super::{add_taint, label};

pub(super) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
    runtime.block_on(future)
}

pub(super) async fn open(double: &KubernetesDouble) -> Kube {
    // Whoever runs first installs it; the others find it there.
    let _installed_before = rustls::crypto::ring::default_provider().install_default();
    Kube::open(Source::Kubeconfig(double.kubeconfig())).await.expect("a client")
}

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn apply(labels: &[(&str, &str)]) -> Step {
    Step::Apply { labels: map(labels), annotations: map(&[("note", "free text; any")]) }
}

fn taints(key: &str) -> Step {
    Step::Taints { list: vec![taint(key)], ours: [key.to_owned()].into() }
}

fn taint(key: &str) -> LiveTaint {
    LiveTaint { key: key.to_owned(), value: String::new(), effect: "NoExecute".to_owned(), time_added: None }
}

async fn node(kube: &Kube, name: &str) -> LiveNode {
    kube.find(name).await.expect("an answer").expect("a node")
}

#[test]
fn nodes_are_listed_page_by_page() {
    let double = KubernetesDouble::start(Entry::Open);
    for n in 0..1_201 {
        double.register(&format!("node-{n:04}"));
    }
    block_on(async {
        let kube = open(&double).await;
        let nodes = kube.list().await.expect("a list").nodes;
        assert_eq!(nodes.len(), 1_201);
        assert_eq!(nodes[1_200].name, "node-1200");
        assert_eq!(double.state().requests, 3);

        double.state().faults.expired_pages = 1;
        assert_eq!(kube.list().await.expect("begun anew").nodes.len(), 1_201);
        double.state().faults.expired_pages = 9;
        let error = kube.list().await.expect_err("it forgets faster than it lists");
        assert!(error.is_retryable() && error.to_string().contains("change faster"), "{error}");
    });
}

#[test]
fn steps_do_what_they_say_and_answer_with_what_is() {
    let double = KubernetesDouble::start(Entry::Open);
    double.register("10.0.0.1");
    double.edit("kube-controller-manager", "10.0.0.1", |fields| add_taint(fields, "node.kubernetes.io/not-ready"));
    double.edit("cke", "10.0.0.1", |fields| fields.extend([label("cke.cybozu.com/old", "1")]));
    block_on(async {
        let kube = open(&double).await;
        let read = node(&kube, "10.0.0.1").await;
        assert_eq!(read.addresses, ["10.0.0.1".parse::<std::net::IpAddr>().expect("an address")]);
        assert_eq!(read.applied, Applied::default());

        let applied = kube.take(&read, &apply(&[("a", "1"), ("example.com/b", "")])).await.expect("applied");
        assert_eq!(applied.labels["a"], "1");
        assert_eq!(applied.applied.labels.iter().collect::<Vec<_>>(), ["a", "example.com/b"]);
        assert_eq!(applied.applied.annotations.iter().collect::<Vec<_>>(), ["note"]);
        assert_eq!(applied.taints, read.taints, "taints were not mentioned");

        let mut list = applied.taints.clone();
        list.push(taint("cke.cybozu.com/state"));
        let tainted = kube
            .take(&applied, &Step::Taints { list, ours: ["cke.cybozu.com/state".to_owned()].into() })
            .await
            .expect("tainted");
        assert_eq!(double.taints("10.0.0.1"), ["node.kubernetes.io/not-ready", "cke.cybozu.com/state"]);
        assert_eq!(tainted.taints[0].time_added.as_deref(), Some("2026-01-02T03:04:05Z"));
        assert_eq!(tainted.applied.taints.iter().collect::<Vec<_>>(), ["cke.cybozu.com/state"]);

        let fewer = kube.take(&tainted, &apply(&[("a", "1")])).await.expect("applied");
        assert!(!fewer.labels.contains_key("example.com/b"), "what is not applied any more goes");
        assert_eq!(fewer.taints, tainted.taints, "labels and taints have different managers");

        let labels = ["cke.cybozu.com/old".to_owned()].into();
        let removed = kube.take(&fewer, &Step::Remove { labels, annotations: [].into() }).await.expect("removed");
        assert_eq!(removed.labels, map(&[("a", "1"), ("kubernetes.io/hostname", "10.0.0.1")]));
        let none = kube.take(&removed, &Step::Taints { list: Vec::new(), ours: [].into() }).await.expect("no taints");
        assert_eq!(none.taints, []);
        assert!(none.applied.taints.is_empty(), "what is ours is written down together with the list");
    });
    let managers: Vec<String> = double.take_writes();
    assert_eq!(managers[1], "application/apply-patch+yaml 10.0.0.1 sabakan-taints");
    assert_eq!(managers[3], "application/merge-patch+json 10.0.0.1 sabakan");
}

#[test]
fn a_taint_that_came_meanwhile_is_a_conflict_and_stays() {
    let double = KubernetesDouble::start(Entry::Open);
    double.register("10.0.0.1");
    block_on(async {
        let kube = open(&double).await;
        let read = node(&kube, "10.0.0.1").await;
        double
            .edit("kube-controller-manager", "10.0.0.1", |fields| add_taint(fields, "node.kubernetes.io/unreachable"));
        let error = kube.take(&read, &taints("x")).await.expect_err("stale");
        assert!(matches!(error, KubernetesError::Conflict(_)), "{error}");
        assert_eq!(double.taints("10.0.0.1"), ["node.kubernetes.io/unreachable"]);
        kube.take(&read, &apply(&[("a", "1")])).await.expect("labels depend on nobody's taints");
    });
}

#[test]
fn nodes_that_are_gone_or_replaced_are_left_alone() {
    let double = KubernetesDouble::start(Entry::Open);
    double.register("10.0.0.1");
    let steps =
        [apply(&[("a", "1")]), taints("x"), Step::Remove { labels: ["a".to_owned()].into(), annotations: [].into() }];
    block_on(async {
        let kube = open(&double).await;
        let read = node(&kube, "10.0.0.1").await;
        double.delete("10.0.0.1");
        for step in &steps {
            let error = kube.take(&read, step).await.expect_err("gone");
            assert!(matches!(error, KubernetesError::Conflict(_)), "{error}");
        }
        assert_eq!(kube.find("10.0.0.1").await, Ok(None), "nothing was created");
        double.register("10.0.0.1");
        for step in &steps {
            let error = kube.take(&read, step).await.expect_err("another");
            assert!(error.is_about_one_node(), "{error}");
        }
        assert_eq!(double.label("10.0.0.1", "a"), None);
    });
}

#[test]
fn refusals_have_kinds() {
    let double = KubernetesDouble::start(Entry::Open);
    double.register("10.0.0.1");
    block_on(async {
        let kube = open(&double).await;
        let read = node(&kube, "10.0.0.1").await;
        let error = kube.take(&read, &apply(&[("a", "no value")])).await.expect_err("invalid");
        assert!(matches!(&error, KubernetesError::Rejected { .. }) && error.is_about_one_node(), "{error}");
        double.state().faults.forbidden.extend(["list", "patch"]);
        for error in [kube.list().await.err(), kube.take(&read, &apply(&[])).await.err()] {
            let error = error.expect("forbidden");
            assert!(matches!(&error, KubernetesError::Forbidden { .. }) && !error.is_retryable(), "{error}");
            assert!(error.to_string().contains("cannot"), "{error}");
        }
        double.state().faults.forbidden.clear();
        for code in [429, 500, 503] {
            double.state().faults.next.push_back(code);
            let error = kube.list().await.expect_err("a failure");
            assert!(matches!(&error, KubernetesError::Failed { .. }) && error.is_retryable(), "{error}");
        }
        kube.list().await.expect("nothing was repeated behind our back");
        double.state().faults.down = true;
        let error = kube.list().await.expect_err("down");
        assert!(matches!(&error, KubernetesError::Unreachable(_)) && error.is_retryable(), "{error}");
        assert!(!error.to_string().contains("127.0.0.1"), "{error}");
        double.state().faults.down = false;
        kube.list().await.expect("back");
    });
}

#[test]
fn a_token_is_shown_over_tls_and_a_new_one_needs_no_restart() {
    let double = KubernetesDouble::start(Entry::Token);
    double.register("10.0.0.1");
    block_on(async {
        let kube = open(&double).await;
        assert_eq!(kube.list().await.expect("a list").nodes.len(), 1);
        assert!(!format!("{kube:?}").contains(TOKEN));

        double.kubeconfig_with("an old token");
        let old = open_as_is(&double).await;
        let error = old.list().await.expect_err("unknown");
        assert!(matches!(&error, KubernetesError::Credentials(_)), "{error}");
        assert!(!error.to_string().contains("old token"), "{error}");
        double.kubeconfig();
        assert_eq!(old.list().await.expect("the file was read again").nodes.len(), 1);
    });
}

#[test]
fn a_certificate_is_shown() {
    let double = KubernetesDouble::start(Entry::Certificate);
    double.register("10.0.0.1");
    block_on(async {
        assert_eq!(open(&double).await.list().await.expect("a list").nodes.len(), 1);
    });
}

#[test]
fn a_server_nobody_vouches_for_is_not_talked_to() {
    let double = KubernetesDouble::start(Entry::Token);
    let other = KubernetesDouble::start(Entry::Token);
    block_on(async {
        let path = double.kubeconfig();
        let authority = other.kubeconfig().with_file_name("ca.crt");
        fs::copy(authority, path.with_file_name("ca.crt")).expect("another authority");
        let error = open_as_is(&double).await.list().await.expect_err("untrusted");
        assert!(matches!(&error, KubernetesError::Untrusted(_)), "{error}");
        assert_eq!(double.state().requests, 0, "no token was shown");
    });
}

/// A client for the kubeconfig that was written last.
async fn open_as_is(double: &KubernetesDouble) -> Kube {
    let _installed_before = rustls::crypto::ring::default_provider().install_default();
    let source = Source::Kubeconfig(double.kubeconfig_path());
    Kube::open(source).await.expect("a client")
}
