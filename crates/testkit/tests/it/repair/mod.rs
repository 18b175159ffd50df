//! Broken machines are repaired, end to end: a whole server, simulated machines behind its drivers, a double of Kubernetes, and real
//! programs as commands. The clock stands still unless a story moves it; the guard and the limits are as an operator leaves them,
//! unless a story says otherwise.

mod actions;
mod commands;
mod control_planes;
mod crash;
mod damaged;
mod guard;
mod hindered;
mod limits;
mod live_nodes;
mod many;
mod reboots;
mod rest;
mod servers;
mod stories;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use jiff::SignedDuration;
use sabakan::{
    cluster::{ClusterConfig, KubernetesAccess, KubernetesSettings},
    config::ServerConfig,
    repair::RepairConfig,
};
use sabakan_service::Clock as _;
use sabakan_testkit::{
    Backend, TestServer,
    etcd::Etcd,
    fixtures,
    kubernetes::{Entry, KubernetesDouble},
    rack, raw,
    simulated::{Fleet, FleetConfig},
    wait_for,
};
use sabakan_wire::rest::{
    BmcInput, MachineInput, QueryParams,
    repair::{RepairEntryJson, RepairExplanationJson},
};
use serde_json::{Value, json};
use tempfile::TempDir;

/// How long a story waits for a level, on a machine that is busy with other tests.
const LONG: Duration = Duration::from_secs(60);

/// The BMC type of every machine of these stories.
const KIND: &str = "simulated";

/// A server that repairs, with everything around it.
struct Site {
    server: TestServer,
    fleet: Fleet,
    double: Arc<KubernetesDouble>,
    /// What commands wrote, and what they are told.
    files: Arc<TempDir>,
    addresses: BTreeMap<String, String>,
}

impl Site {
    /// Starts a server without machines and without a cluster.
    fn start(backend: Backend) -> Site {
        let etcd = (backend == Backend::Etcd).then(|| Arc::new(Etcd::start()));
        let double = Arc::new(KubernetesDouble::start(Entry::Token));
        Site::start_on(etcd, double, Arc::new(tempfile::tempdir().expect("a directory")))
    }

    fn start_on(etcd: Option<Arc<Etcd>>, double: Arc<KubernetesDouble>, files: Arc<TempDir>) -> Site {
        let _installed_before = rustls::crypto::ring::default_provider().install_default();
        let fleet = Fleet::new(FleetConfig::instant());
        let server = TestServer::start_on(etcd, |config| repairing(config, &fleet, &double));
        Site { fleet, ..Site::around(server, double, files) }
    }

    /// The same around a server that may not repair.
    fn around(server: TestServer, double: Arc<KubernetesDouble>, files: Arc<TempDir>) -> Site {
        Site { server, fleet: Fleet::new(FleetConfig::instant()), double, files, addresses: BTreeMap::new() }
    }

    /// Registers machines in a rack, all healthy, and Nodes for them.
    fn register(&mut self, rack: u32, serials: &[String]) {
        let client = self.server.client();
        if self.addresses.is_empty() {
            client.put_ipam(&fixtures::ipam()).expect("an IPAM configuration");
        }
        let machine = |serial: &String| MachineInput {
            bmc: Some(BmcInput { kind: Some(KIND.into()) }),
            ..fixtures::machine(serial.clone(), rack, "worker")
        };
        let machines: Vec<_> = serials.iter().map(machine).collect();
        client.create_machines(&machines).expect("registered");
        for machine in client.list_machines(&QueryParams::default()).expect("machines") {
            self.addresses.insert(machine.spec.serial.clone(), machine.spec.ipv4[0].clone());
        }
        for serial in serials {
            self.report(serial, "healthy");
            self.double.register(self.address(serial));
        }
    }

    /// Four machines, `m0` to `m3`, in two racks and all in the cluster, and room for three repairs.
    fn with_machines(mut self, repair: &Value) -> Site {
        let site = &mut self;
        site.register(0, &["m0", "m1"].map(str::to_owned));
        site.register(1, &["m2", "m3"].map(str::to_owned));
        site.constrain("maximum-repair-queue-entries", 3);
        site.configure(&["m0", "m1", "m2", "m3"], repair, &json!({}));
        self
    }

    /// Says which machines are the cluster, the first as its control plane, and how it is repaired and rebooted.
    fn configure<S: AsRef<str>>(&self, serials: &[S], repair: &Value, reboot: &Value) {
        self.configure_planes(1, serials, repair, reboot);
    }

    /// The same with the first few as control planes.
    fn configure_planes<S: AsRef<str>>(&self, planes: usize, serials: &[S], repair: &Value, reboot: &Value) {
        let node = |(n, serial): (usize, &S)| json!({ "address": self.address(serial.as_ref()), "user": "u", "control_plane": n < planes });
        let nodes: Vec<Value> = serials.iter().enumerate().map(node).collect();
        let document = json!({
            "name": "test", "service_subnet": "10.68.0.0/16", "nodes": nodes, "repair": repair, "reboot": reboot,
        });
        self.put("/api/v1/cluster/configuration", &document.to_string());
    }

    fn constrain(&self, name: &str, value: u32) {
        self.put(&format!("/api/v1/constraints/{name}"), &value.to_string());
    }

    fn put(&self, path: &str, body: &str) {
        let headers = [("content-type", "application/json")];
        let answer = raw::request(&self.server.url(), "PUT", path, &headers, body.as_bytes());
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
    }

    /// The monitor says how a machine is.
    fn report(&self, serial: &str, state: &str) {
        self.server.client().put_state(serial, state, false).unwrap_or_else(|error| panic!("{serial}: {error}"));
    }

    /// A machine breaks, and is watched for long enough to be sure that it broke alone.
    fn break_alone(&self, serial: &str, state: &str) {
        self.report(serial, state);
        self.pass(301);
    }

    /// Time goes by.
    fn pass(&self, seconds: i64) {
        self.server.clock.advance(SignedDuration::from_secs(seconds));
    }

    fn address(&self, serial: &str) -> &str {
        &self.addresses[serial]
    }

    /// The repair queue.
    fn entries(&self) -> Vec<RepairEntryJson> {
        entries(&self.server)
    }

    /// Waits for the entry of a machine to be as wanted, the newest if there are several.
    fn wait_for_entry(&self, serial: &str, what: &str, wanted: impl Fn(&RepairEntryJson) -> bool) -> RepairEntryJson {
        let begun = Instant::now();
        wait_for(what, LONG * 2, || {
            let last = self.entries().into_iter().rfind(|entry| entry.address == self.address(serial));
            let is_late = begun.elapsed() > LONG;
            assert!(!is_late, "the repair of {serial} is not {what} but {last:#?}, {:?}", self.verdict(serial));
            last.filter(|entry| wanted(entry))
        })
    }

    /// Waits for the entry of a machine to be at a status and a status of its step.
    fn wait_for_status(&self, serial: &str, status: &str, step_status: &str) -> RepairEntryJson {
        let is_there = |entry: &RepairEntryJson| entry.status == status && entry.step_status == step_status;
        self.wait_for_entry(serial, &format!("{status}/{step_status}"), is_there)
    }

    /// Waits for the entry of a machine to have ended in a certain way.
    fn wait_for_end(&self, serial: &str, status: &str) -> RepairEntryJson {
        self.wait_for_entry(serial, status, |entry| entry.status == status)
    }

    /// Waits until the repairer has looked at everything again after this moment, so that what it has not done it does not do.
    fn looked(&self) {
        // What a look that was under way has read may be older than what is asked for; a second one has read it.
        for _look in 0..2 {
            self.pass(1);
            let now = self.server.clock.now().as_second();
            wait_for("the repairer to look again", LONG, || {
                self.metric("sabakan_repair_timestamp_seconds").filter(|at| *at >= now as f64)
            });
        }
    }

    /// Why a machine is, or is not, repaired.
    fn explain(&self, serial: &str) -> RepairExplanationJson {
        self.server.client().explain_repair(serial).expect("an explanation").value
    }

    /// What becomes of a machine in the next round: the rule, and in words; empty: nothing is wrong with it.
    fn verdict(&self, serial: &str) -> (String, String) {
        self.explain(serial).broken.map(|broken| (broken.verdict.kind, broken.verdict.text)).unwrap_or_default()
    }

    fn set(&self, name: &str, value: &str) {
        self.server.client().set_repair_setting(name, value).expect("a setting");
    }

    fn delete(&self, entry: &RepairEntryJson) {
        self.server.client().delete_repair(entry.index.parse().expect("a number")).expect("deleted");
    }

    /// A command that writes its name and its arguments, and then does more, in which the arguments are `$1`, `$2` and so on.
    fn command(&self, name: &str, more: &str) -> Value {
        json!(["/bin/sh", "-c", format!("echo {name} \"$@\" >> {}; {more}", self.log().display()), name])
    }

    /// What commands wrote, in order.
    fn ran(&self) -> Vec<String> {
        lines(&self.log())
    }

    fn log(&self) -> PathBuf {
        self.files.path().join("log")
    }

    fn file(&self, name: &str) -> PathBuf {
        self.files.path().join(name)
    }

    /// The value of a series.
    fn metric(&self, series: &str) -> Option<f64> {
        metric(&self.server, series)
    }

    /// Actions of the audit log about one thing, in order.
    fn audited(&self, instance: &str) -> Vec<String> {
        let log = self.server.client().list_logs(None, None).expect("a log");
        let wanted = log.into_iter().filter(|entry| entry.category == "repair" && entry.instance == instance);
        wanted.map(|entry| entry.action).collect()
    }

    /// Kinds of events about one thing, in order, from the beginning.
    fn events(&self, instance: &str) -> Vec<String> {
        let answer = raw::request(&self.server.url(), "GET", "/api/v1/events?after=0", &[], b"");
        let events = answer.body.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        let about = events.filter(|event| event["serial"] == instance);
        let kinds = about.map(|event| event["kind"].as_str().unwrap_or_default().to_owned());
        kinds.filter(|kind| kind.starts_with("repair.")).collect()
    }
}

/// The configuration of a server that repairs, and neither plans nor waits for longer than a test can.
fn repairing(config: &mut ServerConfig, fleet: &Fleet, double: &KubernetesDouble) {
    config.provisioning = rack::provisioning("conductor-1", fleet);
    let access = KubernetesAccess::Kubeconfig(double.kubeconfig());
    config.cluster = ClusterConfig {
        planner: false,
        kubernetes: Some(KubernetesSettings { access, apply: true }),
        ..ClusterConfig::default()
    };
    config.repair = RepairConfig { repairer: true, period: Duration::from_millis(200) };
}

fn entries(server: &TestServer) -> Vec<RepairEntryJson> {
    server.client().repairs().expect("entries").value
}

fn metric(server: &TestServer, series: &str) -> Option<f64> {
    let answer = raw::request(&server.url(), "GET", "/metrics", &[], b"");
    let line = answer.body.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.map(|number| number.parse().expect("a number"))
}

fn lines(path: &Path) -> Vec<String> {
    fs::read_to_string(path).unwrap_or_default().lines().map(str::to_owned).collect()
}

/// What is done for one kind of trouble, one machine at a time; pods of namespaces with the label `protected` are never deleted.
fn procedure(operation: &str, steps: &Value, more: &Value) -> Value {
    let mut whole = json!({ "operation": operation, "health_check": "registry", "repair_steps": steps });
    for (name, value) in more.as_object().expect("an object") {
        whole[name] = value.clone();
    }
    if whole.get("health_check_command").is_some() {
        whole.as_object_mut().expect("an object").remove("health_check");
    }
    json!({
        "protected_namespaces": { "matchLabels": { "protected": "true" } },
        "repair_procedures": [{ "machine_types": [KIND], "repair_operations": [whole] }],
    })
}
