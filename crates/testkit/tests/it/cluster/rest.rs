//! What people ask of the cluster over HTTP: documents are checked whole, plans are shown with their reasons, nothing is changed by
//! looking.

use std::{
    thread,
    time::{Duration, Instant},
};

use sabakan_domain::access::AllowedNetworks;
use sabakan_testkit::{
    Backend, TestServer, fixtures,
    raw::{self, Answer},
};
use serde_json::{Value, json};

on_both_stores!(
    everything_wrong_in_a_template_is_told_and_nothing_is_changed,
    documents_come_back_in_either_format,
    constraints_are_set_all_or_none,
    variables_are_kept_byte_for_byte,
    a_plan_tells_why,
    what_blocks_comes_with_what_helps,
    a_configuration_by_hand_keeps_to_the_constraints,
);

#[test]
fn a_bomb_of_aliases_is_refused_at_once_and_keeps_nobody_waiting() {
    let server = TestServer::start(Backend::Embedded);
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..12 {
        let items = vec![format!("*a{}", level - 1); 10].join(", ");
        bomb.push_str(&format!("a{level}: &a{level} [{items}]\n"));
    }
    let begun = Instant::now();
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for path in ["/api/v1/cluster/configuration", "/api/v1/cluster/template"] {
                    let answer = put(&server, path, YAML, &bomb);
                    assert_eq!(answer.status, 400, "{}", answer.body);
                    assert!(answer.error().contains("has more than 50000 values"), "{}", answer.error());
                }
            });
        }
        let answer = get(&server, "/version");
        assert_eq!(answer.status, 200);
    });
    let large = put(&server, "/api/v1/cluster/configuration", YAML, &"# nothing\n".repeat(500_000));
    assert_eq!(large.status, 400, "{}", large.body);
    assert!(large.error().contains("at most 4194304 are read as YAML"), "{}", large.error());
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
}

const JSON: (&str, &str) = ("content-type", "application/json");
const YAML: (&str, &str) = ("content-type", "application/yaml");

fn get(server: &TestServer, path: &str) -> Answer {
    raw::request(&server.url(), "GET", path, &[], b"")
}

fn put(server: &TestServer, path: &str, kind: (&str, &str), body: &str) -> Answer {
    raw::request(&server.url(), "PUT", path, &[kind], body.as_bytes())
}

fn fine(answer: &Answer) -> Value {
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.json()
}

/// The paths of everything that was wrong, sorted.
fn wrong(answer: &Answer) -> Vec<String> {
    assert_eq!(answer.status, 400, "{}", answer.body);
    let json = answer.json();
    assert_eq!(json["kind"], "invalid");
    let problems = json["problems"].as_array().unwrap_or_else(|| panic!("no problems in {json}"));
    for problem in problems {
        let (path, reason) = (problem["path"].as_str().expect("a path"), problem["reason"].as_str().expect("a reason"));
        assert!(answer.error().contains(&format!("{path}: {reason}")), "{} in {}", path, answer.error());
    }
    let mut paths: Vec<String> =
        problems.iter().map(|problem| problem["path"].as_str().expect("a path").to_owned()).collect();
    paths.sort();
    paths
}

const TEMPLATE: &str = "\
name: test
service_subnet: 10.68.0.0/16
nodes:
- user: cybozu
  control_plane: true
- user: cybozu
";

/// Nine machines in three racks, all healthy; nobody plans.
fn server(backend: Backend) -> TestServer {
    let server = TestServer::start_with(backend, |config| config.cluster.planner = false);
    let client = server.client();
    client.put_ipam(&fixtures::ipam()).expect("an IPAM configuration");
    let machines: Vec<_> = (0..9).map(|n| fixtures::machine(format!("m{n}"), n % 3, "worker")).collect();
    client.create_machines(&machines).expect("registered");
    for n in 0..9 {
        client.put_state(&format!("m{n}"), "healthy", false).expect("a state");
    }
    server
}

fn everything_wrong_in_a_template_is_told_and_nothing_is_changed(backend: Backend) {
    let server = TestServer::start(backend);
    let before = server.dump();
    let bad = "\
name: ''
service_subnet: ten
dns_server: [1.1.1.1]
control_plane_tolerations: ['not a key']
nodes:
- user: cybozu
  control_plane: true
  address: 10.0.0.1
- user: ''
  labels: {cke.cybozu.com/role: a, cke.cybozu.com/weight: heavy}
- user: cybozu
  labels: {cke.cybozu.com/role: a, cke.cybozu.com/weight: '0'}
options:
  kube-api:
    audit_log_policy: '- a list'
";
    let paths = wrong(&put(&server, "/api/v1/cluster/template", YAML, bad));
    for expected in [
        "name",
        "service_subnet",
        "dns_server",
        "control_plane_tolerations[0]",
        "nodes[0].address",
        "nodes[1].user",
        "nodes[1].labels[cke.cybozu.com/weight]",
        "nodes[2].labels[cke.cybozu.com/weight]",
        "nodes[2].labels[cke.cybozu.com/role]",
        "options.kube-api.audit_log_policy",
    ] {
        let named = |path: &String| path.replace(['"', '\''], "") == expected || path == expected;
        assert!(paths.iter().any(named), "{expected} in {paths:?}");
    }
    for (kind, body) in [(JSON, "{"), (YAML, "a: ["), (JSON, "[]"), (JSON, "null"), (YAML, "")] {
        let answer = put(&server, "/api/v1/cluster/template", kind, body);
        assert_eq!(answer.status, 400, "{body}: {}", answer.body);
    }
    assert_eq!(put(&server, "/api/v1/cluster/template", ("content-type", "image/png"), TEMPLATE).status, 400);
    assert_eq!(get(&server, "/api/v1/cluster/template").status, 404);
    assert_eq!(server.dump(), before, "nothing was written");
}

fn documents_come_back_in_either_format(backend: Backend) {
    let server = TestServer::start(backend);
    assert_eq!(fine(&put(&server, "/api/v1/cluster/template", YAML, TEMPLATE)), json!({ "warnings": [] }));
    let as_json = fine(&get(&server, "/api/v1/cluster/template"));
    assert_eq!(
        as_json["options"]["kubelet"]["cri_endpoint"], "/run/containerd/containerd.sock",
        "defaults are filled in"
    );
    let yaml = raw::request(&server.url(), "GET", "/api/v1/cluster/template", &[("accept", "application/yaml")], b"");
    assert_eq!(yaml.header("content-type"), Some("application/yaml"));
    assert!(yaml.body.contains("\nservice_subnet: 10.68.0.0/16\n"), "{}", yaml.body);
    assert_eq!(get(&server, "/api/v1/cluster/template?format=yaml").body, yaml.body);
    // What was read can be written, whatever it is called.
    for (kind, body) in
        [(YAML, yaml.body.as_str()), (JSON, &as_json.to_string()), (("content-type", "text/plain"), &yaml.body)]
    {
        fine(&put(&server, "/api/v1/cluster/template", kind, body));
        assert_eq!(fine(&get(&server, "/api/v1/cluster/template")), as_json);
    }
    // What cannot be undone and rests on the monitor alone is taken, and told.
    let mut doubtful = as_json;
    let step = json!({ "action": "rebuild" });
    let operation = json!({ "operation": "unhealthy", "health_check": "registry", "repair_steps": [step] });
    let procedure = json!({ "machine_types": ["a"], "repair_operations": [operation] });
    doubtful["repair"] = json!({ "repair_procedures": [procedure] });
    let told = fine(&put(&server, "/api/v1/cluster/template", JSON, &doubtful.to_string()));
    let place = "repair.repair_procedures[0].repair_operations[0].repair_steps[0].action";
    assert_eq!((&told["warnings"][0]["path"], told["warnings"].get(1)), (&json!(place), None), "{told}");
    assert_eq!(get(&server, "/api/v1/cluster/template?format=toml").status, 400);
    // Only those who may change something do.
    let closed = TestServer::start_with(Backend::Embedded, |config| {
        config.allow_ips = AllowedNetworks::new(["10.0.0.1"]).expect("a network");
    });
    for (method, path, body) in [
        ("PUT", "/api/v1/cluster/template", TEMPLATE),
        ("PUT", "/api/v1/cluster/enabled", r#"{"enabled": false}"#),
        ("PUT", "/api/v1/cluster/variables", "{}"),
        ("DELETE", "/api/v1/cluster/variables", ""),
        ("PUT", "/api/v1/cluster/configuration", "{}"),
        ("PUT", "/api/v1/constraints", "{}"),
        ("PUT", "/api/v1/constraints/minimum-workers", "1"),
    ] {
        let answer = raw::request(&closed.url(), method, path, &[], body.as_bytes());
        assert_eq!((answer.status, answer.json()["kind"].as_str()), (403, Some("forbidden")), "{method} {path}");
    }
    assert_eq!(fine(&get(&closed, "/api/v1/cluster/enabled")), json!({ "enabled": true }));
}

fn constraints_are_set_all_or_none(backend: Backend) {
    let server = TestServer::start(backend);
    let defaults = fine(&get(&server, "/api/v1/constraints"));
    assert_eq!((&defaults["control-plane-count"], &defaults["maximum-workers"]), (&json!(1), &json!(0)));
    let both = r#"{"control-plane-count": 2, "minimum-workers": 5}"#;
    let warnings = fine(&put(&server, "/api/v1/constraints", JSON, both));
    assert_eq!(warnings["warnings"][0]["path"], "control-plane-count", "an even number is doubtful");
    assert_eq!(fine(&put(&server, "/api/v1/constraints/control-plane-count", JSON, "3"))["warnings"], json!([]));
    let set = fine(&get(&server, "/api/v1/constraints"));
    assert_eq!((&set["control-plane-count"], &set["minimum-workers"]), (&json!(3), &json!(5)));
    let bad = r#"{"control-plane-count": 0, "maximum-workers": 4, "minimum-worker": 1, "minimum-workers": -1}"#;
    assert_eq!(wrong(&put(&server, "/api/v1/constraints", JSON, bad)), ["minimum-worker", "minimum-workers"]);
    let bad = r#"{"control-plane-count": 0, "maximum-workers": 4}"#;
    assert_eq!(wrong(&put(&server, "/api/v1/constraints", JSON, bad)), ["control-plane-count", "minimum-workers"]);
    assert_eq!(put(&server, "/api/v1/constraints/minimum-workers", JSON, "many").status, 400);
    assert_eq!(put(&server, "/api/v1/constraints/workers", JSON, "1").status, 404);
    assert_eq!(fine(&get(&server, "/api/v1/constraints")), set, "nothing of it was changed");
}

fn variables_are_kept_byte_for_byte(backend: Backend) {
    let server = TestServer::start(backend);
    let path = "/api/v1/cluster/variables";
    let defaults = fine(&get(&server, path));
    assert_eq!((&defaults["given"], &defaults["effective"]["notHaving"]["roles"]), (&Value::Null, &json!(["boot"])));
    let text = "{ \"having\":\t{\"racks\": [1]} }\n";
    assert_eq!(
        fine(&put(&server, path, JSON, text))["warnings"][0]["path"],
        "notHaving.roles",
        "boot servers are let in"
    );
    let kept = fine(&get(&server, path));
    assert_eq!((kept["given"].as_str(), &kept["effective"]["having"]["racks"]), (Some(text), &json!([1])));
    let bad = r#"{"having": {"states": ["healthy"], "rack": [1]}, "nothaving": {}}"#;
    assert_eq!(wrong(&put(&server, path, JSON, bad)), ["having.rack", "having.states[0]", "nothaving"]);
    assert_eq!(fine(&get(&server, path)), kept);
    fine(&raw::request(&server.url(), "DELETE", path, &[], b""));
    assert_eq!(fine(&get(&server, path)), defaults);
}

fn a_plan_tells_why(backend: Backend) {
    let server = server(backend);
    let refused = get(&server, "/api/v1/cluster/plan");
    assert_eq!((refused.status, refused.json()["kind"].as_str()), (409, Some("refused")));
    assert!(refused.error().contains("sabactl cluster set-template"), "{}", refused.error());
    fine(&put(&server, "/api/v1/cluster/template", YAML, TEMPLATE));
    fine(&put(&server, "/api/v1/constraints", JSON, r#"{"control-plane-count": 3, "minimum-workers": 2}"#));
    let before = server.dump();
    let plan = fine(&get(&server, "/api/v1/cluster/plan?machines=true"));
    assert_eq!((plan["outcome"].as_str(), plan["operation"].as_str()), (Some("change"), Some("new")));
    assert_eq!(plan["changes"].as_array().map(Vec::len), Some(5));
    assert_eq!((&plan["totals"]["control-planes"], &plan["totals"]["unused"]), (&json!(3), &json!(4)));
    let first = &plan["selections"][0];
    assert_eq!(
        (first["purpose"].as_str(), first["chosen"]["score"]["total"].as_i64()),
        (Some("control plane"), Some(1000))
    );
    assert_eq!(first["runner-up"]["score"]["rack"], 1000);
    let machines = plan["machines"].as_array().expect("every machine");
    assert_eq!(machines.len(), 9);
    let outside: Vec<&Value> = machines.iter().filter(|machine| machine["place"] == "outside").collect();
    assert_eq!(outside.len(), 4);
    assert!(outside.iter().all(|machine| machine["not-worker"]["text"].is_string()), "{outside:?}");
    let diff = plan["diff"].as_str().expect("a difference");
    assert_eq!(diff.matches("\n@@ node ").count(), 5, "{diff}");
    let serial = outside[0]["serial"].as_str().expect("a serial");
    let explanation = fine(&get(&server, &format!("/api/v1/cluster/machines/{serial}")));
    assert_eq!((explanation["now"].as_str(), &explanation["standing"]), (Some("outside"), outside[0]));
    assert_eq!(get(&server, "/api/v1/cluster/machines/nobody").status, 404);
    let simulation = fine(&get(&server, "/api/v1/cluster/simulation?rounds=5"));
    let outcomes: Vec<_> =
        simulation["rounds"].as_array().expect("rounds").iter().map(|round| round["outcome"].clone()).collect();
    assert_eq!((outcomes, &simulation["settled"]), (vec![json!("change"), json!("nothing")], &json!(true)));
    for bad in ["simulation?rounds=0", "simulation?rounds=many", "plan?machines=maybe", "plans?limit=0", "plans/last"] {
        assert_eq!(get(&server, &format!("/api/v1/cluster/{bad}")).status, 400, "{bad}");
    }
    assert_eq!(fine(&get(&server, "/api/v1/cluster/plans")), json!([]));
    assert_eq!(get(&server, "/api/v1/cluster/plans/1").status, 404);
    let status = fine(&get(&server, "/api/v1/cluster/status"));
    assert_eq!((&status["enabled"], &status["leader"], &status["nodes"]), (&json!(true), &Value::Null, &Value::Null));
    assert_eq!(server.dump(), before, "looking changes nothing");
}

fn what_blocks_comes_with_what_helps(backend: Backend) {
    let server = server(backend);
    fine(&put(&server, "/api/v1/cluster/template", YAML, TEMPLATE));
    fine(&put(&server, "/api/v1/constraints", JSON, r#"{"control-plane-count": 3, "minimum-workers": 7}"#));
    let plan = fine(&get(&server, "/api/v1/cluster/plan"));
    assert_eq!((plan["outcome"].as_str(), plan["blocked"]["kind"].as_str()), (Some("blocked"), Some("no-machine")));
    let shortage = &plan["blocked"]["shortage"];
    assert_eq!((&shortage["have"], &shortage["want"], &shortage["purpose"]), (&json!(6), &json!(7), &json!("worker")));
    let remedies = plan["remedies"].as_array().expect("remedies");
    let constrain = remedies.iter().find(|remedy| remedy["constraint"] == "minimum-workers").expect("a way out");
    assert_eq!((&constrain["value"], constrain["kind"].as_str()), (&json!(6), Some("constrain")));
    // It was told that this helps, and it does.
    fine(&put(&server, "/api/v1/constraints/minimum-workers", JSON, &constrain["value"].to_string()));
    assert_eq!(fine(&get(&server, "/api/v1/cluster/plan"))["outcome"], "change");
}

fn a_configuration_by_hand_keeps_to_the_constraints(backend: Backend) {
    let server = TestServer::start(backend);
    let path = "/api/v1/cluster/configuration";
    assert_eq!(get(&server, path).status, 404);
    let nodes = |addresses: &[&str]| {
        let node = |(n, address): (usize, &&str)| json!({ "address": address, "user": "u", "control_plane": n == 0 });
        let nodes: Vec<Value> = addresses.iter().enumerate().map(node).collect();
        json!({ "name": "x", "service_subnet": "10.68.0.0/16", "nodes": nodes }).to_string()
    };
    assert_eq!(wrong(&put(&server, path, JSON, &nodes(&["10.0.0.1", "10.0.0.1"]))), ["nodes[1].address"]);
    assert_eq!(wrong(&put(&server, path, JSON, &nodes(&["10.0.0.1"]))), ["nodes"], "too few workers");
    assert_eq!(get(&server, path).status, 404);
    fine(&put(&server, path, JSON, &nodes(&["10.0.0.1", "10.0.0.2"])));
    let stored = fine(&get(&server, path));
    assert_eq!(stored["nodes"][1]["address"], "10.0.0.2");
    assert_eq!((&stored["nodes"][1]["hostname"], &stored["nodes"][1]["taints"]), (&json!(""), &Value::Null));
    let logged = server.client();
    let mut actions = Vec::new();
    let seen = logged.visit_logs(None, None, |line| {
        let entry: Value = serde_json::from_str(line)?;
        actions.push(format!(
            "{}/{}",
            entry["category"].as_str().unwrap_or_default(),
            entry["action"].as_str().unwrap_or_default()
        ));
        Ok(())
    });
    seen.expect("a log").expect("read");
    assert!(actions.contains(&"cluster/put-configuration".to_owned()), "{actions:?}");
}
