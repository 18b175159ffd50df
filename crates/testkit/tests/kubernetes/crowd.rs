//! As many Nodes as a large site has.

use std::time::{Duration, Instant};

use sabakan_testkit::kubelab::{self, Kubelet};
use serde_json::{Value, json};

use super::stage::Stage;

const COUNT: usize = 1_000;

fn address(n: usize) -> String {
    format!("10.70.{}.{}", n / 250, n % 250 + 1)
}

#[test]
fn a_thousand_nodes_become_as_wanted() {
    let Some(lab) = kubelab::turn() else { return };
    lab.set_grace(Duration::from_secs(3600));
    let begun = Instant::now();
    lab.kubelets.add((0..COUNT).map(|n| Kubelet::new(&address(n)).quiet()));
    println!("{COUNT} Nodes are ready after {:?}", begun.elapsed());
    let stage = Stage::start(&lab);
    let node = |n: usize| {
        json!({
            "address": address(n), "user": "u", "control_plane": n == 0,
            "labels": { "cke.cybozu.com/rack": (n / 28).to_string() },
            "taints": [{ "key": "cke.cybozu.com/state", "value": "new", "effect": "NoSchedule" }],
        })
    };
    let begun = Instant::now();
    stage.configure(&(0..COUNT).map(node).collect::<Vec<_>>());
    let progress = stage.wait("every node as wanted", |progress| progress.as_wanted == COUNT);
    println!("{COUNT} Nodes are as wanted after {:?}", begun.elapsed());
    assert_eq!((progress.failed, progress.missing, progress.problem), (0, 0, None));
    let list = lab.get("/api/v1/nodes");
    let is_right = |node: &&Value| {
        let taints = node["spec"]["taints"].as_array().into_iter().flatten();
        let keys: Vec<&str> = taints.filter_map(|taint| taint["key"].as_str()).collect();
        !node["metadata"]["labels"]["cke.cybozu.com/rack"].is_null() && keys.contains(&"cke.cybozu.com/state")
    };
    assert_eq!(list["items"].as_array().into_iter().flatten().filter(is_right).count(), COUNT);
    lab.set_grace(Duration::from_secs(8));
}
