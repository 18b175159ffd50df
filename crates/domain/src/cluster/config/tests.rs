//! Reading configurations, and that the rules for nodes are the same in either form.

use proptest::prelude::*;

use super::*;

fn node(address: &str, control_plane: bool) -> Value {
    json!({ "address": address, "user": "u", "control_plane": control_plane })
}

fn document(nodes: &Value) -> Value {
    json!({ "name": "c", "service_subnet": "10.68.0.0/16", "nodes": nodes })
}

fn paths(problems: &[Problem]) -> Vec<&str> {
    problems.iter().map(|problem| problem.path.as_str()).collect()
}

#[test]
fn a_document_of_another_program_is_read() {
    let written = json!({
        "name": "c",
        "nodes": [
            { "address": "10.0.0.1", "hostname": "", "user": "u", "control_plane": true, "annotations": null, "labels": { "a": "b" },
              "taints": [{ "key": "cke.cybozu.com/state", "value": "retiring", "effect": "NoExecute" }] },
            { "address": "fd00::0:1", "hostname": "h", "user": "u", "control_plane": false, "annotations": { "a": "b" }, "labels": null,
              "taints": null },
        ],
        "taint_control_plane": false, "control_plane_tolerations": null, "service_subnet": "10.68.0.0/16", "dns_servers": null,
        "dns_service": "",
        "reboot": { "reboot_command": null, "boot_check_command": null, "command_retries": null },
        "repair": { "repair_procedures": null },
        "options": {
            "etcd": { "extra_args": null, "extra_binds": null, "extra_env": null, "volume_name": "etcd-cke" },
            "kubelet": { "extra_args": [], "boot_taints": null, "cni_conf_file": { "name": "", "content": "" },
                         "cri_endpoint": "/run/containerd/containerd.sock" },
        },
    });
    let configuration = Configuration::parse(written.clone()).expect("valid");
    assert_eq!(configuration.nodes[0].state_taint().map(|taint| taint.effect), Some(Effect::NoExecute));
    assert_eq!(configuration.nodes[1].address.to_string(), "fd00::1");
    assert_eq!(configuration.nodes[1].hostname, "h");
    let again = configuration.document();
    assert_eq!((&again["options"], &again["reboot"]), (&written["options"], &written["reboot"]));
    assert_eq!(Configuration::parse(again), Ok(configuration));
}

#[test]
fn what_is_refused() {
    let check = |nodes: Value, expected: &[&str]| {
        let problems = Configuration::parse(document(&nodes)).err().unwrap_or_default();
        assert_eq!(paths(&problems), expected, "{problems:?}");
    };
    check(json!([]), &[]);
    check(json!([node("10.0.0.1", true), node("10.0.0.2", false)]), &[]);
    check(
        json!([node("", true), node("10.0.0", false), { "user": "u" }]),
        &["nodes[0].address", "nodes[1].address", "nodes[2].address"],
    );
    check(
        json!([node("10.0.0.1", true), node("::1", false), node("0:0::1", false), node("10.0.0.1", false)]),
        &["nodes[2].address", "nodes[3].address"],
    );
    check(Value::Null, &["nodes"]);
    assert_eq!(paths(&Configuration::parse(json!(1)).expect_err("no object")), [""]);
    let mut unknown = document(&json!([]));
    unknown["extra"] = json!(1);
    assert_eq!(paths(&Configuration::parse(unknown).expect_err("unknown")), ["extra"]);
}

#[test]
fn constraints() {
    let nodes = json!([node("10.0.0.1", true), node("10.0.0.2", false), node("10.0.0.3", false)]);
    let configuration = Configuration::parse(document(&nodes)).expect("valid");
    let check = |control_plane_count, minimum_workers, maximum_workers, expected: &[&str]| {
        let constraints =
            Constraints { control_plane_count, minimum_workers, maximum_workers, ..Constraints::default() };
        let problems = configuration.check_constraints(&constraints);
        let problems: Vec<String> = problems.iter().map(Problem::to_string).collect();
        assert_eq!(problems, expected);
    };
    check(1, 2, 0, &[]);
    check(1, 1, 2, &[]);
    check(
        3,
        3,
        0,
        &["nodes: has 1 control planes; control-plane-count is 3", "nodes: has 2 workers; minimum-workers is 3"],
    );
    check(1, 0, 1, &["nodes: has 2 workers; maximum-workers is 1"]);
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![4 => "[a-z]{1,3}", 1 => Just("-".to_owned()), 1 => Just("a/b".to_owned()), 1 => Just(String::new()), 1 => Just("é".to_owned())]
}

fn nodes() -> impl Strategy<Value = Node> {
    let pairs = || prop::collection::btree_map(text(), text(), 0..3);
    let effect = prop::sample::select(Effect::ALL.to_vec());
    let taint = (text(), text(), effect).prop_map(|(key, value, effect)| Taint { key, value, effect });
    (0u8..12, text(), text(), any::<bool>(), pairs(), pairs(), prop::collection::vec(taint, 0..3)).prop_map(
        |(address, hostname, user, control_plane, annotations, labels, taints)| Node {
            address: IpAddr::from([10, 0, 0, address]),
            hostname,
            user,
            control_plane,
            annotations,
            labels,
            taints,
        },
    )
}

proptest! {
    /// The rules for nodes are in a table for JSON and in a function for nodes; both must refuse the same at the same places.
    #[test]
    fn a_node_is_judged_alike_in_either_form(nodes in prop::collection::vec(nodes(), 0..4)) {
        let rest = json!({
            "name": "c", "service_subnet": "10.68.0.0/16",
            "options": { "etcd": { "volume_name": "v" }, "kubelet": { "cri_endpoint": "e" } },
        });
        let Value::Object(rest) = rest else { panic!("an object") };
        let configuration = Configuration { nodes, rest };
        let found: BTreeSet<String> = configuration.check().into_iter().map(|problem| problem.path).collect();
        match Configuration::parse(configuration.document()) {
            Ok(parsed) => {
                prop_assert_eq!(&parsed, &configuration);
                prop_assert_eq!(found, BTreeSet::new());
            }
            Err(problems) => {
                let told: BTreeSet<String> = problems.into_iter().map(|problem| problem.path).collect();
                // Addresses are compared only once every node could be read.
                let found: BTreeSet<String> =
                    found.into_iter().filter(|path| told.contains(path) || !path.ends_with(".address")).collect();
                prop_assert_eq!(found, told);
            }
        }
    }
}

#[test]
fn a_broken_rest_is_found() {
    let mut configuration = Configuration::parse(document(&json!([]))).expect("valid");
    assert_eq!(configuration.check(), []);
    configuration.rest.insert("service_subnet".to_owned(), json!("10.68.0.0"));
    configuration.rest.remove("name");
    assert_eq!(paths(&configuration.check()), ["name", "service_subnet"]);
}
