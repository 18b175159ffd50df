//! Repair through the command line, on both stores: what is asked, what is shown, and what scripts of the older service read. Nobody
//! repairs here, so that what is shown stays; that repairs are made is told elsewhere.

use sabakan_testkit::{Backend, TestServer, fixtures};
use sabakan_wire::rest::QueryParams;
use serde_json::{Value, json};

use crate::program::{Outcome, sabactl};

#[test]
fn repair_is_steered_and_explained_on_the_embedded_store() {
    repair_is_steered_and_explained(Backend::Embedded);
}

#[test]
fn repair_is_steered_and_explained_on_etcd() {
    repair_is_steered_and_explained(Backend::Etcd);
}

struct Shell {
    server: TestServer,
    /// The address of `m1`.
    address: String,
}

impl Shell {
    fn run(&self, args: &[&str], stdin: &str) -> Outcome {
        sabactl(["--server", &self.server.url()].into_iter().chain(args.iter().copied()), stdin)
    }

    fn fine(&self, line: &str, stdin: &str) -> String {
        let args: Vec<&str> = line.split(' ').collect();
        let outcome = self.run(&args, stdin);
        assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""), "{line}: {}", outcome.stdout);
        outcome.stdout
    }

    fn json(&self, line: &str) -> Value {
        serde_json::from_str(&self.fine(line, "")).unwrap_or_else(|error| panic!("{line}: {error}"))
    }

    fn fails(&self, line: &str, stdin: &str, code: i32, text: &str) {
        let args: Vec<&str> = line.split(' ').collect();
        let outcome = self.run(&args, stdin);
        assert_eq!(outcome.code, code, "{line}: {}", outcome.stderr);
        assert!(outcome.stderr.contains(text), "{line}: {}", outcome.stderr);
    }
}

/// Three machines that are a cluster, and what is done when one is unreachable.
fn start(backend: Backend) -> Shell {
    let server = TestServer::start(backend);
    let client = server.client();
    client.put_ipam(&fixtures::ipam()).unwrap();
    let machines: Vec<_> = (0..3).map(|n| fixtures::machine(format!("m{n}"), n, "worker")).collect();
    client.create_machines(&machines).unwrap();
    (0..3).for_each(|n| client.put_state(&format!("m{n}"), "healthy", false).unwrap());
    let mut machines = client.list_machines(&QueryParams::default()).unwrap();
    machines.sort_by(|a, b| a.spec.serial.cmp(&b.spec.serial));
    let addresses: Vec<&String> = machines.iter().map(|machine| &machine.spec.ipv4[0]).collect();
    let node = |(n, address): (usize, &&String)| json!({ "address": address, "user": "u", "control_plane": n == 0 });
    let nodes: Vec<Value> = addresses.iter().enumerate().map(node).collect();
    let steps = json!([{ "repair_command": ["/bin/true"] }]);
    let operation = json!({ "operation": "unreachable", "health_check": "registry", "repair_steps": steps });
    let procedure = json!({ "machine_types": ["iDRAC-9"], "repair_operations": [operation] });
    let document = json!({
        "name": "test", "service_subnet": "10.68.0.0/16", "nodes": nodes, "repair": { "repair_procedures": [procedure] },
    });
    client.put_cluster_configuration(document.to_string().as_bytes()).unwrap();
    let address = addresses[1].clone();
    Shell { server, address }
}

fn repair_is_steered_and_explained(backend: Backend) {
    let shell = start(backend);
    switches_and_settings(&shell);
    what_counts_as_broken(&shell);
    the_repair_queue(&shell);
    the_reboot_queue(&shell);
    what_is_told(&shell);
}

fn switches_and_settings(shell: &Shell) {
    for noun in ["auto-repair", "repair-queue", "reboot-queue"] {
        assert_eq!(shell.fine(&format!("{noun} is-enabled"), ""), "true\n");
        assert_eq!(shell.fine(&format!("{noun} disable"), ""), "");
        assert_eq!(shell.fine(&format!("{noun} is-enabled"), ""), "false\n");
        assert_eq!(shell.json(&format!("{noun} enable -o json")), json!({ "enabled": true }));
    }
    assert_eq!(shell.fine("rq is-enabled", ""), "true\n");
    let shown = shell.fine("auto-repair settings", "");
    let line = shown.lines().find(|line| line.starts_with("observe-seconds ")).unwrap();
    assert!(line.split_whitespace().take(3).eq(["observe-seconds", "300", "300"]), "{line}");
    assert_eq!(shell.fine("auto-repair settings set windows-minutes 120,15", ""), "");
    let settings = shell.json("auto-repair settings --json");
    let windows = settings.as_array().unwrap().iter().find(|setting| setting["name"] == "windows-minutes").unwrap();
    assert_eq!(windows["value"], "15,120");
    let doubtful = shell.run(&["auto-repair", "settings", "set", "guard", "false"], "");
    assert!(doubtful.code == 0 && doubtful.stderr.starts_with("Warning: guard: is false: "), "{}", doubtful.stderr);
    let status = shell.fine("auto-repair status", "");
    assert!(
        status.contains("Guard:             DISABLED") && status.contains("- setting `guard` is false"),
        "{status}"
    );
    assert_eq!(shell.json("auto-repair settings set guard true -o json"), json!({ "warnings": [] }));
    shell.fails("auto-repair settings set observe-seconds soon", "", 4, "observe-seconds: ");
    shell.fails("auto-repair settings set observe-seconds -1", "", 4, "observe-seconds: ");
}

fn what_counts_as_broken(shell: &Shell) {
    let shown = shell.run(&["auto-repair", "get-variables"], "");
    assert!(shown.stderr.starts_with("Nobody set any") && shown.stdout.contains("UNREACHABLE"), "{}", shown.stdout);
    shell.fails("auto-repair set-variables -", r#"{"having": {"state": []}}"#, 4, "standard input: ");
    let text = r#"{"having": {"states": ["UNREACHABLE"]}}"#;
    let doubtful = shell.run(&["auto-repair", "set-variables", "-"], text);
    assert!(doubtful.code == 0 && doubtful.stderr.starts_with("Warning: notHaving.roles: "), "{}", doubtful.stderr);
    assert_eq!(shell.fine("auto-repair get-variables", ""), format!("{text}\n"));
    shell.fine("auto-repair reset-variables", "");
    assert_eq!(shell.json("auto-repair get-variables -o json")["given"], Value::Null);
}

fn the_repair_queue(shell: &Shell) {
    assert_eq!(shell.fine("repair-queue list", ""), "null\n", "programs read JSON, and this of an empty queue");
    assert_eq!(shell.fine("repair-queue list -o table", "").lines().count(), 1, "people see a header");
    assert_eq!(shell.fine("repair-queue wait --timeout-seconds 0", ""), "");
    let address = &shell.address;
    let index = shell.fine(&format!("repair-queue add unreachable iDRAC-9 {address}"), "");
    let index = index.trim_end();
    shell.fails(
        &format!("repair-queue add unreachable iDRAC-9 {address}"),
        "",
        19,
        "a machine is repaired once at a time",
    );
    shell.fails("repair-queue add broken iDRAC-9 10.0.0.1", "", 4, "has no operation \"broken\"");
    let listed = shell.json("repair-queue list");
    assert_eq!((&listed[0]["index"], &listed[0]["serial"]), (&json!(index), &json!("m1")));
    let table = shell.fine("repair-queue list -o table", "");
    assert!(table.starts_with("Index ") && table.contains(" 0/waiting ") && table.contains(address), "{table}");
    shell.fails("repair-queue wait --timeout-seconds 0", "", 7, "not empty: 1 entry is left: 1 queued");
    let late = shell.run(&["repair-queue", "wait", "--timeout-seconds", "1"], "");
    assert!(late.code == 7 && late.stderr.starts_with("1 entry is left: 1 queued\nError: "), "{}", late.stderr);
    assert_eq!(shell.fine("repair-queue delete-finished", ""), "");
    assert_eq!(shell.fine("repair-queue reset-backoff", ""), "");
    assert_eq!(shell.fine("repair-queue delete-unfinished", ""), format!("{index}\n"));
    assert_eq!(shell.json("repair-queue list")[0]["deleted"], true);
    assert_eq!(shell.fine(&format!("repair-queue delete {index}"), ""), "");
    shell.fails("repair-queue delete 4711", "", 14, "sabactl repair-queue list shows");
}

fn the_reboot_queue(shell: &Shell) {
    assert_eq!(shell.fine("reboot-queue list", ""), "null\n");
    let address = &shell.address;
    let index = shell.fine("reboot-queue add -", &format!("{address}\n"));
    let index = index.trim_end();
    shell.fails("reboot-queue add -", &format!("{address}\n\nx\n"), 4, "standard input: ");
    shell.fails("rq add -", "10.9.9.9\n", 4, "not a node of the cluster: 10.9.9.9");
    let listed = shell.json("rq list");
    assert_eq!((&listed[0]["index"], &listed[0]["node"], listed.get(1)), (&json!(index), &json!(address), None));
    assert!(shell.fine("rq list -o table", "").contains("queued"));
    assert_eq!(shell.fine("rq reset-backoff", ""), "");
    assert_eq!(shell.fine(&format!("rq cancel {index}"), ""), "");
    assert_eq!(shell.fine("reboot-queue cancel-all", ""), "", "it is cancelled already");
    assert_eq!(shell.json("rq list")[0]["status"], "cancelled");
    shell.fails("rq cancel 4711", "", 14, "sabactl reboot-queue list shows");
}

fn what_is_told(shell: &Shell) {
    shell.fine("machines set-state m2 unreachable", "");
    let status = shell.fine("auto-repair status", "");
    assert!(status.contains("Repaired by:       nobody\n"), "{status}");
    assert!(status.contains("- maximum-repair-queue-entries is 0"), "{status}");
    assert!(status.contains("Broken machines:   1\n"), "{status}");
    assert_eq!(shell.json("auto-repair status -o json")["broken"][0]["serial"], "m2");
    shell.fine("auto-repair disable", "");
    let told = shell.fine("auto-repair explain m2", "");
    assert!(told.starts_with("m2 (") && told.contains(" is unreachable since "), "{told}");
    for part in ["Second opinion: ", "Repair: ", "What would change that: ", "\nBudget\n", "sabactl auto-repair enable"]
    {
        assert!(told.contains(part), "{part} in {told}");
    }
    assert_eq!(shell.json("auto-repair explain -o json m2")["broken"]["verdict"]["kind"], "observed");
    let told = shell.fine("auto-repair explain m1", "");
    assert!(told.contains("\nRepairs\n  repair "), "{told}");
    shell.fails("auto-repair explain nobody", "", 14, "sabactl machines get");
    assert_eq!(shell.json("incidents list -o json"), json!([]));
    assert!(shell.fine("incidents list --open", "").starts_with("Number "));
    shell.fails("incidents show 4", "", 14, "sabactl incidents list");
    shell.fails("incidents acknowledge 4 --reason seen", "", 14, "sabactl incidents list");
}
