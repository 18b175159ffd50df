//! `kill -9` in the middle of a repair, with real commands: what was begun is not begun again, unless the documents say that it is
//! (docs/operations/repair.md, what a crash leaves).

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use sabakan_testkit::{client::Client, etcd::Etcd, fixtures, process::Process, raw, wait_for};
use sabakan_wire::rest::{BmcInput, MachineInput, QueryParams, repair::RepairEntryJson};
use serde_json::json;
use tempfile::TempDir;

use crate::SABAKAN;

/// The lead of a server that was killed ends after 15 seconds, and test machines are busy.
const LONG: Duration = Duration::from_secs(120);

/// A machine that is broken, and what is done about it.
struct Site {
    dir: TempDir,
    etcd: Option<Etcd>,
    /// The address of the machine.
    address: String,
}

impl Site {
    /// Has a machine break and its repair begin.
    fn start(etcd: Option<Etcd>) -> (Site, Process) {
        let dir = tempfile::tempdir().expect("a directory");
        let mut site = Site { dir, etcd, address: String::new() };
        let server = site.serve();
        let client = client(&server);
        client.put_ipam(&fixtures::ipam()).expect("an IPAM configuration");
        let bmc = || Some(BmcInput { kind: Some("type1".into()) });
        let machines = ["m0", "m1"].map(|serial| MachineInput { bmc: bmc(), ..fixtures::machine(serial, 0, "worker") });
        client.create_machines(&machines).expect("registered");
        let machines = client.list_machines(&QueryParams::default()).expect("machines");
        let address = |serial: &str| {
            let found = machines.iter().find(|machine| machine.spec.serial == serial);
            found.expect("a machine").spec.ipv4[0].clone()
        };
        site.address = address("m1");
        client.put_state("m1", "healthy", false).expect("a state");
        client.set_constraint("maximum-repair-queue-entries", 3).expect("a constraint");
        // It broke alone, and nobody waits.
        client.set_repair_setting("observe-seconds", "0").expect("a setting");
        let steps = json!([
            { "repair_command": site.command("reset"), "command_timeout_seconds": 0, "watch_seconds": 86_400 },
            { "repair_command": site.command("never") },
        ]);
        let operation = json!({
            "operation": "unhealthy", "health_check": "registry", "repair_steps": steps,
            "success_command": site.command("success"), "success_command_timeout": 0,
        });
        let configuration = json!({
            "name": "test", "service_subnet": "10.68.0.0/16",
            "nodes": [
                { "address": address("m0"), "user": "u", "control_plane": true },
                { "address": address("m1"), "user": "u" },
            ],
            "repair": {
                "max_concurrent_repairs": 3,
                "repair_procedures": [{ "machine_types": ["type1"], "repair_operations": [operation] }],
            },
        });
        client.put_cluster_configuration(configuration.to_string().as_bytes()).expect("a cluster");
        client.put_state("m1", "unhealthy", false).expect("a state");
        (site, server)
    }

    /// The program, on the same data each time.
    fn serve(&self) -> Process {
        let mut args = vec!["--repair-period".to_owned(), "200ms".to_owned(), "--cluster-planner=false".to_owned()];
        if let Some(etcd) = &self.etcd {
            args.extend(["--etcd-endpoints".to_owned(), etcd.endpoints().join(",")]);
        }
        Process::start(SABAKAN, &self.path("data"), args)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A command that says that it began and who it is, goes on until it is released, and says that it ended. It does not outlive the
    /// directory.
    fn command(&self, name: &str) -> serde_json::Value {
        let (log, pid, go) = (self.path("log"), self.path(&format!("{name}.pid")), self.path(&format!("{name}.go")));
        let (log, pid, go) = (log.display(), pid.display(), go.display());
        let script = format!(
            "echo {name} \"$1\" >> {log}; echo $$ > {pid}; \
             while test -e {log} && ! test -e {go}; do sleep 0.1; done; test -e {log} && echo {name} ended >> {log}"
        );
        json!(["/bin/sh", "-c", script, name])
    }

    /// Lets a command end.
    fn release(&self, name: &str) {
        fs::write(self.path(&format!("{name}.go")), "").expect("a file");
    }

    /// The process of the last command of this name.
    fn pid(&self, name: &str) -> String {
        let pid = wait_for(&format!("{name} to run"), LONG, || {
            fs::read_to_string(self.path(&format!("{name}.pid"))).ok().filter(|pid| pid.ends_with('\n'))
        });
        pid.trim().to_owned()
    }

    /// What commands wrote, in order.
    fn ran(&self) -> Vec<String> {
        fs::read_to_string(self.path("log")).unwrap_or_default().lines().map(str::to_owned).collect()
    }

    fn wait_for_lines(&self, lines: &[&str]) {
        let expected: Vec<String> = lines.iter().map(|line| line.replace("ADDRESS", &self.address)).collect();
        wait_for(&format!("{expected:?}"), LONG, || {
            let ran = self.ran();
            assert!(expected.starts_with(&ran), "{ran:?} is not the beginning of {expected:?}");
            (ran == expected).then_some(())
        });
    }

    /// Waits for the entry to be as wanted. There is never another one.
    fn wait_for_entry(
        &self,
        client: &Client,
        what: &str,
        wanted: impl Fn(&RepairEntryJson) -> bool,
    ) -> RepairEntryJson {
        wait_for(what, LONG, || {
            let mut entries = client.repairs().expect("entries").value;
            assert!(entries.len() <= 1, "{entries:#?}");
            entries.pop().inspect(|entry| assert_eq!(entry.index, "0")).filter(|entry| wanted(entry))
        })
    }
}

fn client(server: &Process) -> Client {
    Client::new(&server.url()).expect("a URL")
}

fn lives(pid: &str) -> bool {
    fs::read(Path::new("/proc").join(pid).join("cmdline")).is_ok_and(|line| !line.is_empty())
}

/// Waits until the server has looked at everything twice from here on, so that what it has not done it does not do.
fn looked(server: &Process) {
    let name = "sabakan_repair_timestamp_seconds ";
    let at = || {
        let answer = raw::request(&server.url(), "GET", "/metrics", &[], b"");
        answer.body.lines().find_map(|line| line.strip_prefix(name)?.parse::<f64>().ok())
    };
    let before = wait_for("a server that repairs", LONG, at);
    wait_for("it to look again", LONG, || at().filter(|now| *now >= before + 2.0));
}

fn a_repair_goes_on_after_its_server_was_killed(etcd: Option<Etcd>) {
    let (site, server) = Site::start(etcd);
    let pid = site.pid("reset");
    site.wait_for_entry(&client(&server), "being reset", |entry| entry.step_status == "watching");
    server.kill();
    assert!(lives(&pid), "nobody is left to end it");

    // What it came to is not known, and it is not repeated; the time that the machine is given goes on.
    let server = site.serve();
    let unknown = |entry: &RepairEntryJson| {
        entry.waits.as_deref().unwrap_or_default().contains("the server that began it stopped")
    };
    let entry = site.wait_for_entry(&client(&server), "not known about", unknown);
    assert_eq!((&*entry.status, &*entry.step_status, entry.step), ("processing", "watching", 0));
    looked(&server);
    assert!(lives(&pid));
    site.wait_for_lines(&["reset ADDRESS"]);
    // It runs to its end.
    site.release("reset");
    site.wait_for_lines(&["reset ADDRESS", "reset ended"]);
    looked(&server);
    site.wait_for_entry(&client(&server), "not known about", unknown);

    // It helped. The command that tells so is under way when the server is killed, so nobody can know whether it was told.
    client(&server).put_state("m1", "healthy", false).expect("a state");
    let pid = site.pid("success");
    site.wait_for_lines(&["reset ADDRESS", "reset ended", "success ADDRESS"]);
    server.kill();
    assert!(lives(&pid));
    let server = site.serve();
    site.wait_for_lines(&["reset ADDRESS", "reset ended", "success ADDRESS", "success ADDRESS"]);
    let running = site.wait_for_entry(&client(&server), "being told", |entry| {
        entry.waits.as_deref().unwrap_or_default().contains("the success command is running")
    });
    assert_eq!(running.status, "processing");
    site.release("success");
    site.wait_for_entry(&client(&server), "over", |entry| entry.status == "succeeded");
    looked(&server);
    wait_for("both to end", LONG, || (site.ran().len() == 6).then_some(()));
    let begun = site.ran().into_iter().filter(|line| !line.ends_with("ended")).collect::<Vec<String>>();
    assert_eq!(begun, ["reset", "success", "success"].map(|name| format!("{name} {}", site.address)));
    let log = client(&server).list_logs(None, None).expect("a log");
    let actions = log.into_iter().filter(|entry| entry.category == "repair" && entry.instance == "m1");
    let actions: Vec<String> = actions.map(|entry| entry.action).collect();
    assert_eq!(actions, ["enqueue", "execute", "conclude", "conclude", "finish"]);
}

#[test]
fn a_repair_goes_on_after_its_server_was_killed_on_one_file() {
    a_repair_goes_on_after_its_server_was_killed(None);
}

#[test]
fn a_repair_goes_on_after_its_server_was_killed_on_etcd() {
    a_repair_goes_on_after_its_server_was_killed(Some(Etcd::start()));
}
