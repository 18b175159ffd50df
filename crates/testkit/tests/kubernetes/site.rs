//! A whole server that repairs and applies, with simulated machines behind it and a real Kubernetes beside it.

use std::{
    collections::BTreeMap,
    fs,
    path::PathBuf,
    time::{Duration, Instant},
};

use jiff::SignedDuration;
use sabakan::{
    cluster::{ClusterConfig, KubernetesAccess, KubernetesSettings},
    repair::RepairConfig,
};
use sabakan_service::Clock as _;
use sabakan_testkit::{
    Backend, TestServer, fixtures,
    kubelab::{Kubelab, Kubelet, Turn},
    rack, raw,
    simulated::{Fleet, FleetConfig},
    wait_for,
};
use sabakan_wire::rest::{BmcInput, MachineInput, QueryParams, repair::RepairEntryJson};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::LONG;

/// The BMC type of every machine of these stories.
const KIND: &str = "simulated";

/// A server with everything around it.
pub struct Site {
    pub server: TestServer,
    pub fleet: Fleet,
    pub lab: Turn,
    /// What commands wrote.
    files: TempDir,
    pub addresses: BTreeMap<String, String>,
}

impl Site {
    /// Machines `m0` to `m5` in three racks, healthy. Nodes come with [`Self::join`] or by hand.
    pub fn start(lab: Turn) -> Site {
        Site::start_with(lab, |_| {})
    }

    /// The same with another configuration of the cluster.
    pub fn start_with(lab: Turn, adjust: impl FnOnce(&mut ClusterConfig)) -> Site {
        let fleet = Fleet::new(FleetConfig::instant());
        let access = KubernetesAccess::Kubeconfig(lab.kubeconfig());
        let server = TestServer::start_with(Backend::Embedded, |config| {
            config.provisioning = rack::provisioning("conductor-1", &fleet);
            config.provisioning.conductor.as_mut().expect("a conductor").power_sync = Duration::from_millis(500);
            config.cluster = ClusterConfig {
                planner: false,
                period: Duration::from_millis(200),
                settle: Duration::ZERO,
                kubernetes: Some(KubernetesSettings { access, apply: true }),
                ..ClusterConfig::default()
            };
            adjust(&mut config.cluster);
            config.repair = RepairConfig { repairer: true, period: Duration::from_millis(200) };
        });
        let files = tempfile::tempdir().expect("a directory");
        let mut site = Site { server, fleet, lab, files, addresses: BTreeMap::new() };
        site.register();
        site
    }

    fn register(&mut self) {
        let client = self.server.client();
        client.put_ipam(&fixtures::ipam()).expect("an IPAM configuration");
        let machine = |n: u32| MachineInput {
            bmc: Some(BmcInput { kind: Some(KIND.into()) }),
            ..fixtures::machine(format!("m{n}"), n / 2, "worker")
        };
        client.create_machines(&(0..6).map(machine).collect::<Vec<_>>()).expect("registered");
        for machine in client.list_machines(&QueryParams::default()).expect("machines") {
            self.addresses.insert(machine.spec.serial.clone(), machine.spec.ipv4[0].clone());
            self.report(&machine.spec.serial, "healthy");
        }
        self.put("/api/v1/constraints/maximum-repair-queue-entries", "3");
    }

    /// Every machine has a Node whose name is its address.
    pub fn join(&self) {
        self.lab.kubelets.add(self.addresses.values().map(|address| Kubelet::new(address)));
    }

    /// The cluster is all machines, the first as its control plane; this is how they are repaired and rebooted.
    pub fn configure(&self, repair: &Value, reboot: &Value) {
        let node = |(n, (serial, address)): (usize, (&String, &String))| {
            // As the planner writes it.
            let annotations = json!({ "cke.cybozu.com/serial": serial });
            json!({ "address": address, "user": "u", "control_plane": n == 0, "annotations": annotations })
        };
        let nodes: Vec<Value> = self.addresses.iter().enumerate().map(node).collect();
        let document = json!({
            "name": "test", "service_subnet": "10.68.0.0/16", "nodes": nodes, "repair": repair, "reboot": reboot,
        });
        self.put("/api/v1/cluster/configuration", &document.to_string());
    }

    pub fn put(&self, path: &str, body: &str) {
        let headers = [("content-type", "application/json")];
        let answer = raw::request(&self.server.url(), "PUT", path, &headers, body.as_bytes());
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
    }

    /// The monitor says how a machine is.
    pub fn report(&self, serial: &str, state: &str) {
        self.server.client().put_state(serial, state, false).unwrap_or_else(|error| panic!("{serial}: {error}"));
    }

    /// A machine breaks, and is watched for long enough to be sure that it broke alone.
    pub fn break_alone(&self, serial: &str, state: &str) {
        self.report(serial, state);
        self.pass(301);
    }

    /// The server begins at the time of the control plane, which is real: for stories in which times of Kubernetes matter.
    #[allow(clippy::disallowed_methods, reason = "a real control plane looks at the real clock")]
    pub fn follow_real_time(&self) {
        self.server.clock.advance(jiff::Timestamp::now().duration_since(self.server.clock.now()));
    }

    /// Time goes by.
    pub fn pass(&self, seconds: i64) {
        self.server.clock.advance(SignedDuration::from_secs(seconds));
    }

    pub fn address(&self, serial: &str) -> &str {
        &self.addresses[serial]
    }

    /// Waits for the entry of a machine to be as wanted, the newest if there are several.
    pub fn wait_for_entry(
        &self,
        serial: &str,
        what: &str,
        wanted: impl Fn(&RepairEntryJson) -> bool,
    ) -> RepairEntryJson {
        let begun = Instant::now();
        wait_for(what, LONG * 2, || {
            let entries = self.server.client().repairs().expect("entries").value;
            let last = entries.into_iter().rfind(|entry| entry.address == self.address(serial));
            assert!(begun.elapsed() < LONG, "the repair of {serial} is not {what} but {last:#?}");
            last.filter(|entry| wanted(entry))
        })
    }

    /// Waits until the repairer has looked at everything again, so that what it has not done it does not do.
    pub fn looked(&self) {
        for _look in 0..2 {
            self.pass(1);
            let now = self.server.clock.now().as_second();
            wait_for("the repairer to look again", LONG, || {
                self.metric("sabakan_repair_timestamp_seconds").filter(|at| *at >= now as f64)
            });
        }
    }

    pub fn metric(&self, series: &str) -> Option<f64> {
        let answer = raw::request(&self.server.url(), "GET", "/metrics", &[], b"");
        let line = answer.body.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        line.map(|number| number.parse().expect("a number"))
    }

    /// A command that writes its name and its arguments.
    pub fn command(&self, name: &str, more: &str) -> Value {
        json!(["/bin/sh", "-c", format!("echo {name} \"$@\" >> {}; {more}", self.log().display()), name])
    }

    /// What commands wrote, in order.
    pub fn ran(&self) -> Vec<String> {
        fs::read_to_string(self.log()).unwrap_or_default().lines().map(str::to_owned).collect()
    }

    fn log(&self) -> PathBuf {
        self.files.path().join("log")
    }
}

/// Unhealthy machines are drained and reset; more rules of draining as given.
pub fn draining(site: &Site, rules: &Value) -> Value {
    let steps = json!([{ "repair_command": site.command("reset", "true"), "need_drain": true, "watch_seconds": 60 }]);
    let operation = json!({ "operation": "unhealthy", "health_check": "registry", "repair_steps": steps });
    let mut repair = json!({ "repair_procedures": [{ "machine_types": [KIND], "repair_operations": [operation] }] });
    for (name, value) in rules.as_object().expect("an object") {
        repair[name] = value.clone();
    }
    repair
}

/// Whether new pods are kept away from a Node, and the mark that says that it was us.
pub fn cordon(lab: &Kubelab, node: &str) -> (bool, bool) {
    let node = lab.node(node);
    (node["spec"]["unschedulable"] == true, node["metadata"]["annotations"]["cke.cybozu.com/reboot"] == "true")
}
