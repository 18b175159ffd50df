//! The API server is away for a while: nobody guesses, everybody says why, and all goes on when it is back.

use sabakan_service::cluster::RoundEnd;
use sabakan_testkit::{kubelab, wait_for};
use serde_json::json;

use super::{
    LONG, objects,
    site::{Site, draining},
    stage::Stage,
};

const NODE: &str = "10.69.0.5";

#[test]
fn applying_stops_and_goes_on() {
    let Some(lab) = kubelab::turn() else { return };
    lab.kubelets.add([kubelab::Kubelet::new(NODE)]);
    let stage = Stage::start(&lab);
    let tier = |tier: &str| {
        let labels = json!({ "tier": tier });
        let plane = json!({ "address": "10.69.0.4", "user": "u", "control_plane": true });
        stage.configure(&[plane, json!({ "address": NODE, "user": "u", "labels": labels })]);
    };
    tier("gold");
    stage.settle();
    lab.stop_api();
    tier("iron");
    let down = stage.wait("the outage to be seen", |progress| progress.problem.is_some());
    let text = down.problem.expect("a problem");
    assert!(text.starts_with("Kubernetes cannot be reached") && !text.contains("127.0.0.1"), "{text}");
    assert!(down.last_success.is_some(), "the last success is remembered");
    lab.start_api();
    wait_for("the label", LONG, || (lab.node(NODE)["metadata"]["labels"]["tier"] == "iron").then_some(()));
    stage.settle();
}

#[test]
fn nothing_is_planned_or_begun_without_an_answer() {
    let Some(lab) = kubelab::turn() else { return };
    let site = Site::start_with(lab, |config| config.planner = true);
    site.join();
    let node = site.address("m1").to_owned();
    objects::pod(&site.lab, "default", "alone", &node);
    site.configure(&draining(&site, &json!({})), &json!({}));
    let template = json!({
        "name": "test", "service_subnet": "10.68.0.0/16", "repair": draining(&site, &json!({})),
        "nodes": [{ "user": "u", "control_plane": true }, { "user": "u" }],
    });
    site.lab.stop_api();
    site.put("/api/v1/cluster/template", &template.to_string());
    let cluster = site.server.cluster();
    wait_for("rounds to say why there is no plan", LONG, || {
        let last = site.server.block_on(cluster.status()).expect("a status").last?;
        let RoundEnd::Skipped(reason) = last.end else { return None };
        (reason.contains("taints") && reason.contains("cannot be reached")).then_some(())
    });
    site.break_alone("m1", "unhealthy");
    site.looked();
    assert_eq!(site.ran(), [""; 0]);

    site.lab.start_api();
    wait_for("the planner to go on", LONG, || {
        let last = site.server.block_on(cluster.status()).expect("a status").last?;
        (!matches!(last.end, RoundEnd::Skipped(_))).then_some(())
    });
}
