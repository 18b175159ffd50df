//! Brings a control plane up, part by part, and gives the product the access that the guide describes.

use std::{
    env,
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
    sync::Mutex,
    time::Duration,
};

use serde_json::{Value, json};

use super::{GRACE, Kubelab, Kubelets, LONG, api::Api, certificates, guide, part::Part};
use crate::{etcd::free_ports, wait_for};

pub const ETCD: &str = "etcd";
pub const API: &str = "kube-apiserver";
pub const CONTROLLERS: &str = "kube-controller-manager";
pub const SCHEDULER: &str = "kube-scheduler";

/// Where everybody listens.
pub struct Ports {
    pub api: u16,
    etcd: u16,
    etcd_peers: u16,
    controllers: u16,
    scheduler: u16,
}

/// Only what the product asks for is written down, and who asked: nobody reads the rest.
const AUDIT_POLICY: &str = r#"{
    "apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"],
    "rules": [{ "level": "Metadata", "users": ["system:serviceaccount:kube-system:sabakan"] }, { "level": "None" }]
}"#;

/// Starts one that is ready for work.
pub fn start(program: PathBuf) -> Kubelab {
    let _installed_before = rustls::crypto::ring::default_provider().install_default();
    let only_one = File::create(env::temp_dir().join("sabakan-kubelab.lock")).expect("a lock file");
    only_one.lock().expect("the lock of all control planes of this machine");
    let directory = tempfile::Builder::new().prefix("kubelab-").tempdir().expect("a temporary directory").keep();
    let [api, etcd, etcd_peers, controllers, scheduler] =
        free_ports(5).try_into().expect("as many ports as were asked for");
    let ports = Ports { api, etcd, etcd_peers, controllers, scheduler };
    prepare(&directory, &program, &ports);
    let api = Api::new(&directory.join("admin.kubeconfig"));
    let lab = Kubelab {
        kubelets: Kubelets::start(&api),
        api,
        program,
        directory,
        ports,
        parts: Mutex::default(),
        _only_one: only_one,
    };
    etcd_server(&lab);
    self::api(&lab);
    wait_for("the API server", LONG, || {
        lab.parts().values_mut().for_each(Part::check);
        lab.is_ready().then_some(())
    });
    self::controllers(&lab, GRACE);
    self::scheduler(&lab);
    grant(&lab);
    lab
}

/// Writes what the parts read.
fn prepare(directory: &Path, program: &Path, ports: &Ports) {
    certificates::write(directory);
    let put = |name: &str, text: &str| fs::write(directory.join(name), text).expect("the directory is ours");
    put("audit.json", AUDIT_POLICY);
    let server = format!("https://127.0.0.1:{}", ports.api);
    let path = |name: &str| directory.join(name);
    let user = json!({ "client-certificate": path("admin.crt"), "client-key": path("admin.key") });
    let document = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "lab",
        "contexts": [{ "name": "lab", "context": { "cluster": "lab", "user": "admin" } }],
        "clusters": [{ "name": "lab", "cluster": { "server": server, "certificate-authority": path("ca.crt") } }],
        "users": [{ "name": "admin", "user": user }],
    });
    put("admin.kubeconfig", &document.to_string());
    // A shell writes it: a program that another test starts meanwhile would otherwise keep it open for writing.
    let write =
        r#"mkdir "$1" && printf '#!/bin/sh\nexec %s kubectl "$@"\n' "$2" > "$1/kubectl" && chmod 755 "$1/kubectl""#;
    let written = Command::new("sh").args(["-c", write, "sh"]).arg(path("bin")).arg(program).status();
    assert!(written.is_ok_and(|status| status.success()), "kubectl cannot be written");
}

fn run(lab: &Kubelab, name: &'static str, flags: &[(&str, String)], removes: Option<&Path>) {
    let arguments = flags.iter().map(|(flag, value)| format!("--{flag}={value}"));
    let arguments: Vec<String> = [name.to_owned()].into_iter().chain(arguments).collect();
    let log = lab.directory.join(format!("{name}.log"));
    lab.parts().insert(name, Part::start(&lab.program, &arguments, &log, removes));
}

fn etcd_server(lab: &Kubelab) {
    let url = |port: u16| format!("http://127.0.0.1:{port}");
    let (clients, peers) = (url(lab.ports.etcd), url(lab.ports.etcd_peers));
    let flags = [
        ("data-dir", lab.directory.join("etcd").display().to_string()),
        ("listen-client-urls", clients.clone()),
        ("advertise-client-urls", clients),
        ("listen-peer-urls", peers.clone()),
        ("initial-advertise-peer-urls", peers.clone()),
        ("initial-cluster", format!("default={peers}")),
        ("log-level", "warn".to_owned()),
        // Nothing of it outlives the test.
        ("unsafe-no-fsync", "true".to_owned()),
    ];
    run(lab, ETCD, &flags, Some(&lab.directory));
}

pub fn api(lab: &Kubelab) {
    let path = |name: &str| lab.directory.join(name).display().to_string();
    let flags = [
        ("etcd-servers", format!("http://127.0.0.1:{}", lab.ports.etcd)),
        ("bind-address", "127.0.0.1".to_owned()),
        ("advertise-address", "127.0.0.1".to_owned()),
        ("secure-port", lab.ports.api.to_string()),
        ("endpoint-reconciler-type", "none".to_owned()),
        ("cert-dir", path("apiserver")),
        ("client-ca-file", path("ca.crt")),
        ("tls-cert-file", path("apiserver.crt")),
        ("tls-private-key-file", path("apiserver.key")),
        ("authorization-mode", "Node,RBAC".to_owned()),
        ("service-cluster-ip-range", "10.96.0.0/16".to_owned()),
        ("service-account-issuer", "https://kubernetes.default.svc".to_owned()),
        ("service-account-key-file", path("accounts.pub")),
        ("service-account-signing-key-file", path("accounts.key")),
        ("audit-policy-file", path("audit.json")),
        ("audit-log-path", path("audit.log")),
    ];
    run(lab, API, &flags, None);
}

pub fn controllers(lab: &Kubelab, grace: Duration) {
    let path = |name: &str| lab.directory.join(name).display().to_string();
    let flags = [
        ("kubeconfig", path("admin.kubeconfig")),
        ("leader-elect", "false".to_owned()),
        ("bind-address", "127.0.0.1".to_owned()),
        ("secure-port", lab.ports.controllers.to_string()),
        ("cert-dir", path("controllers")),
        ("root-ca-file", path("ca.crt")),
        ("service-account-private-key-file", path("accounts.key")),
        ("node-monitor-period", "1s".to_owned()),
        ("node-monitor-grace-period", format!("{}s", grace.as_secs())),
        // As many Nodes as there are come at once.
        ("kube-api-qps", "300".to_owned()),
        ("kube-api-burst", "600".to_owned()),
    ];
    run(lab, CONTROLLERS, &flags, None);
}

fn scheduler(lab: &Kubelab) {
    let flags = [
        ("kubeconfig", lab.admin().display().to_string()),
        ("leader-elect", "false".to_owned()),
        ("bind-address", "127.0.0.1".to_owned()),
        ("secure-port", lab.ports.scheduler.to_string()),
        ("cert-dir", lab.directory.join("scheduler").display().to_string()),
    ];
    run(lab, SCHEDULER, &flags, None);
}

/// Does what the guide says: its objects are applied and its commands are run, so that whatever is wrong with them is found by all.
fn grant(lab: &Kubelab) {
    lab.kubectl_with(&["apply", "-f", "-"], &guide::access());
    let secret = "/api/v1/namespaces/kube-system/secrets/sabakan-token";
    wait_for("the token of the service account", LONG, || {
        lab.parts().values_mut().for_each(Part::check);
        let (_, document) = lab.ask("GET", secret, &Value::Null);
        document["data"]["token"].as_str().map(drop)
    });
    let kubeconfig = lab.kubeconfig().display().to_string();
    lab.shell(&guide::kubeconfig_commands(&kubeconfig, &lab.url()));
    lab.namespace("default", &json!({}));
}
