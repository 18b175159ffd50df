//! The Nodes as they are now: followed by a watch, listed where that is not allowed, and not known while nobody answers.

use std::{sync::Arc, time::Duration};

use sabakan_domain::cluster::live_node::LiveNode;
use sabakan_drivers::kubernetes::Kubernetes;
use sabakan_service::cluster::live_nodes::LiveNodes;
use sabakan_testkit::kubernetes::{Entry, KubernetesDouble};
use tokio_util::sync::CancellationToken;

use super::{
    add_taint,
    client::{block_on, open},
    label,
};

const LONG: Duration = Duration::from_secs(60);

/// Follows the Nodes of a double with one Node.
fn followed<T: Future<Output = ()>>(story: impl FnOnce(KubernetesDouble, Arc<LiveNodes>) -> T) {
    let double = KubernetesDouble::start(Entry::Open);
    double.register("10.0.0.1");
    block_on(async {
        let kube: Arc<dyn Kubernetes> = Arc::new(open(&double).await);
        let (nodes, stop) = (Arc::new(LiveNodes::new(kube)), CancellationToken::new());
        let following = tokio::spawn(Arc::clone(&nodes).run(stop.clone()));
        story(double, nodes).await;
        stop.cancel();
        tokio::time::timeout(LONG, following).await.expect("it stops when told").expect("no panic");
    });
}

/// Waits until what is read is as wanted.
async fn wait(nodes: &LiveNodes, wanted: impl Fn(Result<Vec<Arc<LiveNode>>, String>) -> bool) {
    let mut changes = nodes.changes();
    let change = async {
        while !wanted(nodes.read().await) {
            changes.changed().await.expect("it goes on");
        }
    };
    tokio::time::timeout(LONG, change).await.expect("it is seen");
}

fn names(nodes: &[Arc<LiveNode>]) -> Vec<&str> {
    nodes.iter().map(|node| node.name.as_str()).collect()
}

#[test]
fn whatever_becomes_of_nodes_is_seen_without_listing_them_again() {
    followed(async |double, nodes| {
        assert_eq!(names(&nodes.read().await.expect("nodes")), ["10.0.0.1"]);
        double.register("10.0.0.2");
        wait(&nodes, |read| read.is_ok_and(|nodes| names(&nodes) == ["10.0.0.1", "10.0.0.2"])).await;
        double.edit("kube-controller-manager", "10.0.0.2", |fields| add_taint(fields, "x"));
        wait(&nodes, |read| read.is_ok_and(|nodes| nodes[1].taints.len() == 1)).await;
        double.set_ready("10.0.0.2", "Unknown");
        wait(&nodes, |read| read.is_ok_and(|nodes| !nodes[1].is_ready())).await;
        double.delete("10.0.0.1");
        wait(&nodes, |read| read.is_ok_and(|nodes| names(&nodes) == ["10.0.0.2"])).await;
        assert_eq!(double.state().requests, 2, "one list and one watch");
    });
}

#[test]
fn nobody_is_told_what_was_so_before_the_server_went_away() {
    followed(async |double, nodes| {
        nodes.read().await.expect("nodes");
        double.state().faults.down = true;
        wait(&nodes, |read| read.is_err_and(|reason| reason.contains("cannot be reached"))).await;
        assert!(nodes.glance().is_none());
        double.edit("kubectl", "10.0.0.1", |fields| fields.extend([label("a", "1")]));
        double.state().faults.down = false;
        wait(&nodes, |read| read.is_ok_and(|nodes| nodes[0].labels.contains_key("a"))).await;
    });
}

#[test]
fn without_the_right_to_watch_nodes_are_listed_from_time_to_time() {
    followed(async |double, nodes| {
        nodes.read().await.expect("nodes");
        double.state().faults.forbidden.insert("watch");
        // The watch ends with the connection.
        double.state().faults.down = true;
        wait(&nodes, |read| read.is_err()).await;
        double.state().faults.down = false;
        wait(&nodes, |read| read.is_ok()).await;
        double.register("10.0.0.2");
        wait(&nodes, |read| read.is_ok_and(|nodes| nodes.len() == 2)).await;
    });
}

#[test]
fn leases_are_read_when_asked_for_and_need_not_be_known() {
    followed(async |double, nodes| {
        double.state().leases.insert("10.0.0.1".to_owned(), "2026-01-02T03:04:05.000006Z".to_owned());
        double.state().faults.forbidden.insert("list leases");
        assert!(nodes.leases().await.is_none());
        let requests = double.state().requests;
        assert!(nodes.leases().await.is_none(), "nobody waits for the same refusal at once");
        assert_eq!(double.state().requests, requests);
        double.state().faults.forbidden.clear();
        let others = LiveNodes::new(Arc::new(open(&double).await));
        let leases = others.leases().await.expect("leases");
        assert_eq!(leases["10.0.0.1"].to_string(), "2026-01-02T03:04:05.000006Z");
    });
}
