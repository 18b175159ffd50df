//! A store with a configuration, and an applier that brings it to a real Kubernetes and looks often.

use std::{sync::Arc, time::Duration};

use sabakan_domain::{audit::Actor, ipam::OutsidePool};
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
use sabakan_testkit::{Backend, TestServer, kubelab::Kubelab, wait_for};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::LONG;

/// How often the applier looks.
const PERIOD: Duration = Duration::from_millis(200);

/// Everything but Kubernetes.
pub struct Stage {
    /// Has the store.
    pub server: TestServer,
    /// Applies.
    pub applier: Arc<Applier>,
    cluster: Arc<Cluster>,
    stop: CancellationToken,
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Stage {
    /// Applies with the rights of the guide. There is no configuration yet.
    pub fn start(lab: &Kubelab) -> Stage {
        let server = TestServer::start(Backend::Embedded);
        let stop = CancellationToken::new();
        let (store, clock, config) = (server.store(), server.clock.clone(), server.config());
        let (cluster, applier) = server.block_on(async {
            let keys = Keys::new(&config.etcd_prefix, &config.states_prefix);
            let on = Foundation::open(store, keys, clock, OutsidePool::Refuse, "stage".to_owned()).await;
            let on = Arc::new(on.expect("the store opens"));
            let kube = Arc::new(Kube::open(Source::Kubeconfig(lab.kubeconfig())).await.expect("a client"));
            let nodes = Arc::new(LiveNodes::new(Arc::clone(&kube) as Arc<dyn Kubernetes>));
            tokio::spawn(Arc::clone(&nodes).run(stop.clone()));
            let applier = Arc::new(Applier::new(kube, Arc::clone(&nodes)).every(PERIOD));
            let options = ClusterOptions {
                nodes: Some(nodes),
                applier: Some(Arc::clone(&applier)),
                server: "stage".to_owned(),
                lease: Duration::from_secs(1),
                ..ClusterOptions::default()
            };
            let cluster = Arc::new(Cluster::new(Arc::clone(&on), options));
            tokio::spawn(applier::run(on, Arc::clone(&cluster), stop.clone()));
            (cluster, applier)
        });
        Stage { server, applier, cluster, stop }
    }

    /// Stores a configuration of these nodes.
    pub fn configure(&self, nodes: &[Value]) {
        let document = json!({
            "name": "c", "service_subnet": "10.68.0.0/16", "taint_control_plane": true, "nodes": nodes,
        });
        let operator = Actor::internal("operator");
        self.server.block_on(self.cluster.set_configuration(&operator, document)).expect("a configuration");
    }

    /// Waits until every Node that exists is as wanted.
    pub fn settle(&self) -> Progress {
        self.wait("every node as wanted", |progress| {
            progress.problem.is_none() && progress.failed == 0 && progress.nodes > 0
        })
    }

    /// Waits for the result of a round that began after this was called.
    pub fn wait(&self, what: &str, is_so: impl Fn(&Progress) -> bool) -> Progress {
        let begun = self.applier.progress().rounds;
        // The next one to end may have begun before.
        let is_later = |progress: &Progress| progress.rounds >= begun + 2;
        wait_for(what, LONG, || Some(self.applier.progress()).filter(|progress| is_later(progress) && is_so(progress)))
    }
}
