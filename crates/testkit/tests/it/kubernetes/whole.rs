//! A whole server beside Kubernetes: it plans without one, not on its silence, and with its taints; and applies what it planned.

use std::{collections::BTreeSet, net::IpAddr, sync::Arc, time::Duration};

use sabakan::cluster::{ClusterConfig, KubernetesAccess, KubernetesSettings};
use sabakan_domain::{audit::Actor, cluster::config::Configuration};
use sabakan_service::cluster::{Cluster, RoundEnd};
use sabakan_testkit::{
    Backend, TestServer, fixtures,
    kubernetes::{Entry, KubernetesDouble},
    wait_for,
};
use serde_json::json;

use super::add_taint;

const LONG: Duration = Duration::from_secs(60);

on_both_stores!(from_the_first_plan_to_a_tainted_control_plane);

fn server(backend: Backend, double: &KubernetesDouble) -> TestServer {
    let _installed_before = rustls::crypto::ring::default_provider().install_default();
    let access = KubernetesAccess::Kubeconfig(double.kubeconfig());
    let server = TestServer::start_with(backend, |config| {
        config.cluster = ClusterConfig {
            planner: true,
            period: Duration::from_millis(200),
            settle: Duration::ZERO,
            kubernetes: Some(KubernetesSettings { access, apply: true }),
            ..ClusterConfig::default()
        };
    });
    let client = server.client();
    client.put_ipam(&fixtures::ipam()).expect("an IPAM configuration");
    let machines: Vec<_> = (0..6).map(|n| fixtures::machine(format!("m{n}"), n % 3, "worker")).collect();
    client.create_machines(&machines).expect("registered");
    for n in 0..6 {
        client.put_state(&format!("m{n}"), "healthy", false).expect("a state");
    }
    server
}

fn ask_for_a_cluster(server: &TestServer, cluster: &Cluster) {
    let operator = Actor::internal("operator");
    let constraints = [("control-plane-count".to_owned(), 3)];
    server.block_on(cluster.set_constraints(&operator, &constraints)).expect("constraints");
    let template = json!({
        "name": "test", "service_subnet": "10.68.0.0/16", "taint_control_plane": true,
        "nodes": [{ "user": "u", "control_plane": true }, { "user": "u", "labels": { "tier": "gold" } }],
    });
    server.block_on(cluster.set_template(&operator, template)).expect("a template");
}

fn configuration(server: &TestServer, cluster: &Cluster) -> Option<Configuration> {
    server.block_on(cluster.configuration()).expect("the store answers")
}

fn from_the_first_plan_to_a_tainted_control_plane(backend: Backend) {
    let double = KubernetesDouble::start(Entry::Token);
    double.state().faults.down = true;
    let server = server(backend, &double);
    let cluster: Arc<Cluster> = server.cluster();
    ask_for_a_cluster(&server, &cluster);
    let first = wait_for("a cluster, although Kubernetes is not there yet", LONG, || configuration(&server, &cluster));

    wait_for("rounds to say why there is no plan", LONG, || {
        let last = server.block_on(cluster.status()).expect("a status").last;
        let reason = match last?.end {
            RoundEnd::Skipped(reason) => reason,
            RoundEnd::Nothing | RoundEnd::Changed { .. } | RoundEnd::Blocked(_) | RoundEnd::Overtaken => return None,
        };
        (reason.contains("taints") && reason.contains("cannot be reached")).then_some(())
    });

    let names: Vec<String> = first.nodes.iter().map(|node| node.address.to_string()).collect();
    names.iter().for_each(|name| double.register(name));
    double.state().faults.down = false;
    let progress = wait_for("every node as wanted", LONG, || {
        cluster.applying().filter(|progress| progress.nodes > 0 && progress.as_wanted == progress.nodes)
    });
    assert_eq!((progress.nodes, progress.missing, progress.failed), (4, 0, 0));
    let worker = names.last().expect("a worker");
    assert_eq!(double.label(worker, "tier").as_deref(), Some("gold"));
    assert!(double.label(worker, "cke.cybozu.com/rack").is_some());
    assert_eq!(double.label(worker, "cke.cybozu.com/master"), None);
    let planes = first.control_planes();
    assert!(planes.iter().all(|plane| double.taints(&plane.to_string()) == ["cke.cybozu.com/master"]));

    let tainted: IpAddr = *planes.first().expect("three");
    double.edit("kubectl", &tainted.to_string(), |fields| add_taint(fields, "example.com/broken"));
    let after: BTreeSet<IpAddr> = wait_for("the tainted control plane to be replaced", LONG, || {
        let planes = configuration(&server, &cluster)?.control_planes();
        (planes.len() == 3 && !planes.contains(&tainted)).then_some(planes)
    });
    assert_eq!(after.intersection(&planes).count(), 2, "one at a time");
    wait_for("the demoted one to lose its taint and keep the other's", LONG, || {
        let name = tainted.to_string();
        (double.taints(&name) == ["example.com/broken"] && double.label(&name, "cke.cybozu.com/master").is_none())
            .then_some(())
    });
}
