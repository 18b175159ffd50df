//! What people run on Kubernetes, as short as it can be said.

use sabakan_testkit::{kubelab::Kubelab, wait_for};
use serde_json::{Value, json};

use super::LONG;

/// Pods of one container. They stay on the node of this name.
fn template(node: &str, labels: &Value) -> Value {
    json!({
        "metadata": { "labels": labels },
        "spec": {
            "nodeName": node, "containers": [{ "name": "main", "image": "none" }], "terminationGracePeriodSeconds": 1,
        },
    })
}

/// A pod that nobody controls.
pub fn pod(lab: &Kubelab, namespace: &str, name: &str, node: &str) {
    let mut pod = template(node, &json!({ "app": name }));
    pod["metadata"]["name"] = json!(name);
    lab.create(&format!("/api/v1/namespaces/{namespace}/pods"), &pod);
    wait_running(lab, namespace, &format!("app={name}"), 1);
}

/// A deployment of so many pods that the scheduler puts where it likes among nodes with the label `pool=<name>`.
pub fn deployment(lab: &Kubelab, namespace: &str, name: &str, replicas: usize) {
    let labels = json!({ "app": name });
    let mut template = template("", &labels);
    let spec = template["spec"].as_object_mut().expect("an object");
    spec.remove("nodeName");
    spec.insert("nodeSelector".to_owned(), json!({ "pool": name }));
    let spec = json!({ "replicas": replicas, "selector": { "matchLabels": labels }, "template": template });
    let document = json!({ "metadata": { "name": name }, "spec": spec });
    lab.create(&format!("/apis/apps/v1/namespaces/{namespace}/deployments"), &document);
    wait_running(lab, namespace, &format!("app={name}"), replicas);
}

/// A stateful set of one pod.
pub fn stateful_set(lab: &Kubelab, namespace: &str, name: &str, node: &str) {
    let labels = json!({ "app": name });
    let spec = json!({
        "replicas": 1, "serviceName": name, "selector": { "matchLabels": labels }, "template": template(node, &labels),
    });
    let document = json!({ "metadata": { "name": name }, "spec": spec });
    lab.create(&format!("/apis/apps/v1/namespaces/{namespace}/statefulsets"), &document);
    wait_running(lab, namespace, &format!("app={name}"), 1);
}

/// A daemon set of nodes with the label `pool=<name>`.
pub fn daemon_set(lab: &Kubelab, namespace: &str, name: &str, pods: usize) {
    let labels = json!({ "app": name });
    let mut template = template("", &labels);
    let spec = template["spec"].as_object_mut().expect("an object");
    spec.remove("nodeName");
    spec.insert("nodeSelector".to_owned(), json!({ "pool": name }));
    let document = json!({
        "metadata": { "name": name }, "spec": { "selector": { "matchLabels": labels }, "template": template },
    });
    lab.create(&format!("/apis/apps/v1/namespaces/{namespace}/daemonsets"), &document);
    wait_running(lab, namespace, &format!("app={name}"), pods);
}

/// A job of one pod. `more` are labels of the pod, such as those the kubelets look at.
pub fn job(lab: &Kubelab, namespace: &str, name: &str, node: &str, more: &[&str]) {
    let mut labels = json!({ "app": name });
    more.iter().for_each(|label| labels[*label] = json!("1"));
    let mut template = template(node, &labels);
    template["spec"]["restartPolicy"] = json!("Never");
    let document = json!({ "metadata": { "name": name }, "spec": { "template": template, "backoffLimit": 6 } });
    lab.create(&format!("/apis/batch/v1/namespaces/{namespace}/jobs"), &document);
    let phase = match more {
        labels if labels.contains(&"lab/pending") => "Pending",
        labels if labels.contains(&"lab/finished") => "Succeeded",
        _ => "Running",
    };
    wait_for(&format!("{name} to be {phase}"), LONG, || {
        (phases(lab, namespace, &format!("app={name}")) == [phase]).then_some(())
    });
}

/// A disruption budget of pods with the label `app=<name>`, once it has counted them.
pub fn budget(lab: &Kubelab, namespace: &str, name: &str, available_min: usize) {
    let path = format!("/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets");
    let spec = json!({ "minAvailable": available_min, "selector": { "matchLabels": { "app": name } } });
    lab.create(&path, &json!({ "metadata": { "name": name }, "spec": spec }));
    wait_for("the budget to have counted", LONG, || {
        let budget = lab.get(&format!("{path}/{name}"));
        (budget["status"]["observedGeneration"] == budget["metadata"]["generation"]).then_some(())
    });
}

/// Waits until so many pods with a label run.
pub fn wait_running(lab: &Kubelab, namespace: &str, label: &str, count: usize) {
    wait_for(&format!("{count} pods {label} to run"), LONG, || {
        let running = phases(lab, namespace, label).iter().filter(|phase| *phase == "Running").count();
        (running == count).then_some(())
    });
}

fn phases(lab: &Kubelab, namespace: &str, label: &str) -> Vec<String> {
    let label = label.replace('=', "%3D");
    let list = lab.get(&format!("/api/v1/namespaces/{namespace}/pods?labelSelector={label}"));
    let phase = |pod: &Value| pod["status"]["phase"].as_str().unwrap_or_default().to_owned();
    list["items"].as_array().into_iter().flatten().map(phase).collect()
}
