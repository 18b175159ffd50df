//! The background task that applies the configuration, with a real store and the double.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use sabakan_domain::{audit::Actor, cluster::live_node::live_taints, ipam::OutsidePool};
use sabakan_drivers::kubernetes::Kubernetes;
use sabakan_kube::{Kube, Source};
use sabakan_service::{
    Foundation,
    cluster::{
        Cluster, ClusterOptions,
        kubernetes::{Applier, Progress},
        live_nodes::LiveNodes,
    },
    tasks::applier,
};
use sabakan_store::keys::Keys;
use sabakan_testkit::{
    Backend, TestServer,
    kubernetes::{Entry, KubernetesDouble},
    wait_for,
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{add_taint, label};

const LONG: Duration = Duration::from_secs(60);
const PLANE: &str = "10.0.0.1";
const WORKER: &str = "10.0.0.2";

on_both_stores!(
    nodes_get_what_the_configuration_says_and_nothing_else_is_touched,
    what_others_do_to_our_attributes_is_put_right,
    what_the_configuration_drops_goes,
    a_busy_node_is_tried_again,
    an_api_that_is_down_is_reported_and_recovers,
    one_bad_node_does_not_stop_the_others,
    two_servers_apply_once,
);

/// A server with its store, a Kubernetes double with two Nodes and a stranger, and an applier between them.
struct Stage {
    server: TestServer,
    double: KubernetesDouble,
    cluster: Arc<Cluster>,
    applier: Arc<Applier>,
    stop: CancellationToken,
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Stage {
    fn new(backend: Backend) -> Stage {
        let server = TestServer::start(backend);
        let double = KubernetesDouble::start(Entry::Token);
        for name in [PLANE, WORKER, "stranger"] {
            double.register(name);
        }
        let stop = CancellationToken::new();
        let (cluster, applier) = start(&server, &double, "one", &stop);
        Stage { server, double, cluster, applier, stop }
    }

    fn nodes(&self) -> Arc<LiveNodes> {
        Arc::clone(self.cluster.options().nodes.as_ref().expect("a Kubernetes"))
    }

    /// Stores a configuration with these attributes of the worker.
    fn configure(&self, labels: &Value, taints: &Value, others: &[&str]) {
        let mut nodes = vec![
            json!({ "address": PLANE, "user": "u", "control_plane": true, "annotations": { "cke.cybozu.com/serial": "s1" } }),
            json!({ "address": WORKER, "user": "u", "labels": labels, "taints": taints }),
        ];
        nodes.extend(others.iter().map(|address| json!({ "address": address, "user": "u" })));
        let document = json!({
            "name": "c", "service_subnet": "10.68.0.0/16", "taint_control_plane": true, "nodes": nodes,
        });
        let operator = Actor::internal("operator");
        self.server.block_on(self.cluster.set_configuration(&operator, document)).expect("a configuration");
    }

    /// Waits until every Node that exists is as wanted.
    fn settle(&self) -> Progress {
        self.wait("every node as wanted", |progress| {
            progress.problem.is_none() && progress.failed == 0 && progress.nodes > 0
        })
    }

    /// Waits for the result of a round that began after this was called.
    fn wait(&self, what: &str, is_so: impl Fn(&Progress) -> bool) -> Progress {
        let begun = self.applier.progress().rounds;
        // The next one to end may have begun before.
        let is_later = |progress: &Progress| progress.rounds >= begun + 2;
        wait_for(what, LONG, || Some(self.applier.progress()).filter(|progress| is_later(progress) && is_so(progress)))
    }
}

fn start(
    server: &TestServer,
    double: &KubernetesDouble,
    name: &str,
    stop: &CancellationToken,
) -> (Arc<Cluster>, Arc<Applier>) {
    let _installed_before = rustls::crypto::ring::default_provider().install_default();
    let (store, clock, config) = (server.store(), server.clock.clone(), server.config());
    let source = Source::Kubeconfig(double.kubeconfig());
    server.block_on(async {
        let keys = Keys::new(&config.etcd_prefix, &config.states_prefix);
        let on = Foundation::open(store, keys, clock, OutsidePool::Refuse, name.to_owned()).await;
        let on = Arc::new(on.expect("the store opens"));
        let kube = Arc::new(Kube::open(source).await.expect("a client"));
        let nodes = Arc::new(LiveNodes::new(Arc::clone(&kube) as Arc<dyn Kubernetes>));
        tokio::spawn(Arc::clone(&nodes).run(stop.clone()));
        let applier = Arc::new(Applier::new(kube, Arc::clone(&nodes)).every(Duration::from_millis(200)));
        let options = ClusterOptions {
            nodes: Some(nodes),
            applier: Some(Arc::clone(&applier)),
            server: name.to_owned(),
            lease: Duration::from_secs(1),
            ..ClusterOptions::default()
        };
        let cluster = Arc::new(Cluster::new(Arc::clone(&on), options));
        tokio::spawn(applier::run(on, Arc::clone(&cluster), stop.clone()));
        (cluster, applier)
    })
}

fn nodes_get_what_the_configuration_says_and_nothing_else_is_touched(backend: Backend) {
    let stage = Stage::new(backend);
    let double = &stage.double;
    double.edit("kubectl", WORKER, |fields| fields.extend([label("by-hand", "1"), label("cke.cybozu.com/stale", "1")]));
    double.edit("kube-controller-manager", WORKER, |fields| add_taint(fields, "node.kubernetes.io/not-ready"));
    double.edit("cke", "stranger", |fields| fields.extend([label("cke.cybozu.com/role", "x")]));
    let stranger = double.node("stranger");
    let taints = json!([{ "key": "cke.cybozu.com/state", "value": "retiring", "effect": "NoExecute" }]);
    stage.configure(
        &json!({ "cke.cybozu.com/rack": "3", "topology.kubernetes.io/zone": "rack3" }),
        &taints,
        &["10.0.0.9"],
    );
    let progress = stage.settle();
    assert_eq!((progress.nodes, progress.as_wanted, progress.changed), (3, 2, 2));
    assert_eq!((progress.missing, progress.missing_named), (1, vec!["10.0.0.9".to_owned()]));
    assert!(progress.leading && progress.last_success.is_some());

    assert_eq!(double.label(PLANE, "cke.cybozu.com/master").as_deref(), Some("true"));
    assert_eq!(double.taints(PLANE), ["cke.cybozu.com/master"]);
    assert_eq!(double.node(PLANE)["spec"]["taints"][0]["effect"], "PreferNoSchedule");
    assert_eq!(double.node(PLANE)["metadata"]["annotations"]["cke.cybozu.com/serial"], "s1");
    let expected = json!({
        "by-hand": "1", "cke.cybozu.com/rack": "3", "kubernetes.io/hostname": WORKER, "topology.kubernetes.io/zone": "rack3",
    });
    assert_eq!(double.node(WORKER)["metadata"]["labels"], expected);
    assert_eq!(double.taints(WORKER), ["node.kubernetes.io/not-ready", "cke.cybozu.com/state"]);
    assert_eq!(double.node(WORKER)["spec"]["taints"][0]["timeAdded"], "2026-01-02T03:04:05Z");
    assert_eq!(double.node("stranger"), stranger, "not in the configuration");
    assert!(!double.state().nodes.contains_key("10.0.0.9"), "never created");

    double.take_writes();
    stage.settle();
    assert_eq!(double.take_writes(), [""; 0], "nothing is written where nothing differs");
    let known = live_taints::<Arc<_>>(None, &stage.server.block_on(stage.nodes().read()).expect("nodes"));
    assert_eq!(known.len(), 2);
    let worker = &known[&WORKER.parse().expect("an address")];
    assert_eq!(worker.iter().collect::<Vec<_>>(), ["cke.cybozu.com/state", "node.kubernetes.io/not-ready"]);
}

fn what_others_do_to_our_attributes_is_put_right(backend: Backend) {
    let stage = Stage::new(backend);
    let double = &stage.double;
    let taints = json!([{ "key": "dedicated", "value": "storage", "effect": "NoSchedule" }]);
    stage.configure(&json!({ "cke.cybozu.com/rack": "3", "tier": "gold" }), &taints, &[]);
    stage.settle();
    double.edit("kubectl", WORKER, |fields| {
        fields.extend([label("cke.cybozu.com/rack", "9"), label("mine", "1")]);
        fields.remove(&label("tier", "").0);
        fields.retain(|field, _| *field != sabakan_testkit::kubernetes::Field::Spec("taints".to_owned()));
        add_taint(fields, "by-hand");
    });
    stage.settle();
    let expected = json!({ "cke.cybozu.com/rack": "3", "kubernetes.io/hostname": WORKER, "mine": "1", "tier": "gold" });
    assert_eq!(double.node(WORKER)["metadata"]["labels"], expected);
    assert_eq!(double.taints(WORKER), ["by-hand", "dedicated"]);
}

fn what_the_configuration_drops_goes(backend: Backend) {
    let stage = Stage::new(backend);
    let double = &stage.double;
    let taints = json!([{ "key": "cke.cybozu.com/state", "value": "retired", "effect": "NoExecute" }]);
    stage.configure(&json!({ "tier": "gold", "cke.cybozu.com/a": "1", "cke.cybozu.com/b": "1" }), &taints, &[]);
    stage.settle();
    double.edit("kube-controller-manager", WORKER, |fields| add_taint(fields, "node.kubernetes.io/not-ready"));
    // Somebody took one of them over, so that it does not go with our own.
    double.edit("cke", WORKER, |fields| fields.extend([label("cke.cybozu.com/b", "2")]));
    stage.configure(&json!({ "cke.cybozu.com/c": "1" }), &Value::Null, &[]);
    stage.settle();
    let expected = json!({ "cke.cybozu.com/c": "1", "kubernetes.io/hostname": WORKER });
    assert_eq!(double.node(WORKER)["metadata"]["labels"], expected);
    assert_eq!(double.taints(WORKER), ["node.kubernetes.io/not-ready"]);
}

fn a_busy_node_is_tried_again(backend: Backend) {
    let stage = Stage::new(backend);
    stage.double.state().faults.interfering = 4;
    stage.configure(&json!({}), &Value::Null, &[]);
    let progress = stage.settle();
    assert_eq!(progress.failed_named, BTreeMap::new());
    let taints = stage.double.taints(PLANE);
    assert_eq!(taints.iter().filter(|key| key.starts_with("node.kubernetes.io/")).count(), 4, "{taints:?}");
    assert_eq!(taints.last().map(String::as_str), Some("cke.cybozu.com/master"));
}

fn an_api_that_is_down_is_reported_and_recovers(backend: Backend) {
    let stage = Stage::new(backend);
    stage.double.state().faults.down = true;
    stage.configure(&json!({ "tier": "gold" }), &Value::Null, &[]);
    let down = wait_for("the outage to be seen", LONG, || {
        Some(stage.applier.progress()).filter(|progress| progress.problem.is_some())
    });
    assert_eq!((down.as_wanted, down.last_success), (0, None));
    let text = down.problem.expect("a problem");
    assert!(text.starts_with("Kubernetes cannot be reached") && !text.contains("127.0.0.1"), "{text}");
    assert!(stage.server.block_on(stage.nodes().read()).is_err(), "unknown is not untainted");
    stage.double.state().faults.down = false;
    let up = stage.settle();
    assert!(up.last_success.is_some());
    assert_eq!(stage.double.label(WORKER, "tier").as_deref(), Some("gold"));
    // Connections are lost, and then nothing may be listed any more.
    stage.double.state().faults.down = true;
    stage.wait("the second outage to be seen", |progress| progress.problem.is_some());
    stage.double.state().faults.forbidden.insert("list");
    stage.double.state().faults.down = false;
    let text = stage.wait("the refusal to be seen", |progress| progress.problem.is_some()).problem.expect("a problem");
    assert!(text.contains("does not allow sabakan to list nodes"), "{text}");
}

fn one_bad_node_does_not_stop_the_others(backend: Backend) {
    let stage = Stage::new(backend);
    // A name our own rules allow and the double does not: the kind of refusal a webhook makes.
    stage.double.edit("kubectl", WORKER, |fields| fields.extend([label("broken", "not a value")]));
    stage.configure(&json!({ "tier": "gold" }), &Value::Null, &[]);
    let progress = stage.wait("the refusal to be seen", |progress| progress.failed > 0);
    assert_eq!((progress.as_wanted, progress.failed, progress.problem.is_none()), (1, 1, true));
    assert!(progress.failed_named[WORKER].contains("refused"), "{:?}", progress.failed_named);
    assert_eq!(stage.double.taints(PLANE), ["cke.cybozu.com/master"]);
    stage.double.edit("kubectl", WORKER, |fields| fields.extend([label("broken", "fixed")]));
    assert_eq!(stage.settle().as_wanted, 2);
}

fn two_servers_apply_once(backend: Backend) {
    let stage = Stage::new(backend);
    stage.configure(&json!({ "tier": "gold" }), &Value::Null, &[]);
    stage.settle();
    let stop = CancellationToken::new();
    let (_, second) = start(&stage.server, &stage.double, "two", &stop);
    stage.settle();
    assert!(!second.progress().leading && stage.applier.progress().leading);
    stage.stop.cancel();
    wait_for("the second to take over", LONG, || second.progress().last_success);
    assert!(!stage.applier.progress().leading);
    stop.cancel();
}
