//! A cluster from its template to a control plane that broke, through the command line, on both stores.

use std::{fs, time::Duration};

use sabakan_testkit::{Backend, TestServer, fixtures, wait_for};
use serde_json::Value;

use crate::program::{Outcome, sabactl};

#[test]
fn a_cluster_is_made_explained_and_repaired_on_the_embedded_store() {
    a_cluster_is_made_explained_and_repaired(Backend::Embedded);
}

#[test]
fn a_cluster_is_made_explained_and_repaired_on_etcd() {
    a_cluster_is_made_explained_and_repaired(Backend::Etcd);
}

const LONG: Duration = Duration::from_secs(60);

const TEMPLATE: &str = "\
name: test
service_subnet: 10.68.0.0/16
nodes:
- user: cybozu
  control_plane: true
- user: cybozu
";

struct Shell {
    server: TestServer,
}

impl Shell {
    fn run(&self, line: &str, stdin: &str) -> Outcome {
        sabactl(["--server", &self.server.url()].into_iter().chain(line.split(' ')), stdin)
    }

    fn fine(&self, line: &str, stdin: &str) -> String {
        let outcome = self.run(line, stdin);
        assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""), "{line}: {}", outcome.stdout);
        outcome.stdout
    }

    fn json(&self, line: &str) -> Value {
        serde_json::from_str(&self.fine(line, "")).unwrap_or_else(|error| panic!("{line}: {error}"))
    }

    fn fails(&self, line: &str, stdin: &str, code: i32, text: &str) -> String {
        let outcome = self.run(line, stdin);
        assert_eq!(outcome.code, code, "{line}: {}", outcome.stderr);
        assert!(outcome.stderr.contains(text), "{line}: {}", outcome.stderr);
        outcome.stderr
    }

    /// Serials of the control planes, or of the workers.
    fn serials(&self, control_plane: bool) -> Vec<String> {
        let configuration = self.json("cluster get --json");
        let nodes = configuration["nodes"].as_array().expect("nodes").clone();
        let of = |node: &Value| {
            let serial = node["annotations"]["cke.cybozu.com/serial"].as_str().expect("a serial");
            (node["control_plane"] == control_plane).then(|| serial.to_owned())
        };
        nodes.iter().filter_map(of).collect()
    }
}

fn start(backend: Backend) -> Shell {
    let server = TestServer::start_with(backend, |config| {
        config.cluster.planner = true;
        config.cluster.settle = Duration::ZERO;
    });
    let client = server.client();
    client.put_ipam(&fixtures::ipam()).unwrap();
    let machines: Vec<_> = (0..9).map(|n| fixtures::machine(format!("m{n}"), n % 3, "worker")).collect();
    client.create_machines(&machines).unwrap();
    (0..8).for_each(|n| client.put_state(&format!("m{n}"), "healthy", false).unwrap());
    Shell { server }
}

fn a_cluster_is_made_explained_and_repaired(backend: Backend) {
    let shell = start(backend);
    before_there_is_a_cluster(&shell);
    wait_for("the cluster", LONG, || (shell.run("cluster get", "").code == 0).then_some(()));
    let planes = shell.serials(true);
    assert_eq!((planes.len(), shell.serials(false).len()), (3, 2));
    what_is_told_about_it(&shell);
    one_control_plane_breaks(&shell, &planes[0]);
    without_the_planner(&shell);
}

fn before_there_is_a_cluster(shell: &Shell) {
    shell.fails("cluster plan", "", 19, "there is no template");
    shell.fails("cluster get", "", 14, "There is none yet.");
    shell.fails("cluster get-template", "", 14, "sabactl cluster set-template FILE");
    assert_eq!(shell.fine("cluster is-enabled", ""), "true\n");
    assert_eq!(shell.fine("constraints set control-plane-count 3", ""), "");
    assert_eq!(shell.fine("constraints set minimum-workers 2", ""), "");
    let doubtful = shell.run("constraints set control-plane-count 2", "");
    assert!(doubtful.code == 0 && doubtful.stderr.starts_with("Warning: control-plane-count: "), "{}", doubtful.stderr);
    shell.fine("constraints set control-plane-count 3", "");
    let shown = shell.fine("constraints show", "");
    assert!(shown.lines().any(|line| line.split_whitespace().eq(["control-plane-count", "3"])), "{shown}");
    assert_eq!(shell.json("constraints show --json")["minimum-workers"], 2);
    shell.fails("constraints set control-plane-count 0", "", 4, "must be at least 1");
    let told = shell.fails("cluster set-template -", "name: x\nnodes: []\nsubnet: y\n", 4, "standard input: ");
    assert!(told.contains("\nsubnet: ") && told.contains("\nservice_subnet: ") && told.contains("\nnodes: "), "{told}");
    let file = shell.server.dir().path().join("template.yml");
    fs::write(&file, TEMPLATE).unwrap();
    assert_eq!(shell.fine(&format!("cluster set-template {}", file.display()), ""), "");
    let shown = shell.fine("cluster get-template", "");
    assert!(shown.contains("service_subnet: 10.68.0.0/16\n"), "{shown}");
    assert_eq!(shell.json("cluster get-template --json")["name"], "test");
}

fn what_is_told_about_it(shell: &Shell) {
    let plan = shell.fine("cluster plan", "");
    assert!(plan.starts_with("The next round would change nothing.\n"), "{plan}");
    assert!(
        plan.contains("Rules looked at, in order\n") && plan.contains("3 control planes; 2 workers (worker 2)"),
        "{plan}"
    );
    assert_eq!(shell.json("cluster plan --json")["outcome"], "nothing");
    let status = shell.fine("cluster status", "");
    assert!(status.contains("Enabled:          yes\n") && status.contains("Newest plan:      1 at "), "{status}");
    assert_eq!(shell.json("cluster plans --json")[0]["operation"], "new");
    let first = shell.fine("cluster show-plan 1", "");
    assert!(first.starts_with("Plan 1 changed the cluster: new.\n") && first.contains("  runner-up  "), "{first}");
    shell.fails("cluster show-plan 99", "", 14, "sabactl cluster plans shows them");
    // The ninth is not healthy.
    let why = shell.fine("cluster why-not m8", "");
    assert!(why.contains("m8 (10.69.1.134) is not in the cluster.\n"), "{why}");
    assert!(why.contains("It is no worker: it is uninitialized; only healthy machines are chosen.\n"), "{why}");
    shell.fails("cluster why-not nobody", "", 14, "sabactl machines get");
    let plane = &shell.serials(true)[0];
    let told = shell.fine(&format!("cluster explain {plane}"), "");
    assert!(
        told.contains("is a control plane.\n") && told.contains("plan 1, ") && told.contains("control plane added"),
        "{told}"
    );
    let variables = shell.run("cluster get-variables", "");
    assert!(
        variables.stderr.starts_with("Nobody set any") && variables.stdout.contains("\"boot\""),
        "{}",
        variables.stdout
    );
}

fn one_control_plane_breaks(shell: &Shell, broken: &str) {
    shell.fine("cluster disable", "");
    assert_eq!(shell.fine("cluster is-enabled", ""), "false\n");
    shell.fine(&format!("machines set-state {broken} unhealthy"), "");
    let plan = shell.fine("cluster plan", "");
    assert!(plan.starts_with("The next round would change the cluster: replace control plane.\n"), "{plan}");
    assert!(plan.contains("The planner is disabled") && plan.contains("control plane demoted"), "{plan}");
    assert!(
        plan.contains("  runner-up  ") && plan.contains("\n-  control_plane: true\n+  control_plane: false\n"),
        "{plan}"
    );
    assert!(!plan.contains('\u{1b}'), "no colours without a terminal");
    let rounds = shell.fine("cluster simulate --rounds 3", "");
    assert!(rounds.starts_with("Round 1: replace control plane\n"), "{rounds}");
    assert!(rounds.ends_with("Later rounds would do nothing more.\n"), "{rounds}");
    assert!(shell.serials(true).contains(&broken.to_owned()), "nothing happened yet");
    shell.fine("cluster enable", "");
    let replaced = || (!shell.serials(true).contains(&broken.to_owned())).then_some(());
    wait_for("the broken one to be replaced", LONG, replaced);
    assert_eq!(shell.serials(true).len(), 3);
    assert!(shell.serials(false).contains(&broken.to_owned()), "it became a worker");
    let past = shell.json(&format!("cluster explain --json {broken}"));
    assert_eq!(past["past"][0]["changes"][0]["kind"], "control plane demoted");
}

fn without_the_planner(shell: &Shell) {
    shell.fine("cluster disable", "");
    let present = shell.fine("cluster get", "");
    assert_eq!(shell.fine("cluster set -", &present), "", "what was read can be written");
    assert_eq!(shell.fine("cluster get", ""), present);
    let broken = present.replace("control_plane: true", "control_plane: false");
    shell.fails("cluster set -", &broken, 4, "control-plane-count is 3");
    let shown =
        shell.fine("cluster set-variables -", r#"{"having": {"racks": [0]}, "notHaving": {"roles": ["boot"]}}"#);
    assert_eq!(shown, "");
    let plan = shell.fine("cluster plan", "");
    assert!(plan.starts_with("The next round is blocked: too many non-existent control plane nodes"), "{plan}");
    assert!(plan.contains("What would unblock it, each alone\n"), "{plan}");
    let planes = shell.serials(true);
    let unseen = planes.iter().find(|serial| ["m1", "m2", "m4", "m5", "m7"].contains(&serial.as_str())).unwrap();
    let told = shell.fine(&format!("cluster why-not {unseen}"), "");
    assert!(told.contains("is a control plane.\n") && told.contains("the query variables leave it out"), "{told}");
    shell.fine("cluster reset-variables", "");
    assert_eq!(shell.json("cluster get-variables --json")["given"], Value::Null);
}
