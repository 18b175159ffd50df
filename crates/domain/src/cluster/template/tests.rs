//! What a template may say: a full one, and everything that can be wrong with it, one mistake at a time.

use proptest::prelude::*;
use serde_json::json;

use super::{super::config::Effect, super::shape::*, *};

fn minimal() -> Value {
    json!({
        "name": "cluster",
        "nodes": [{ "user": "cybozu", "control_plane": true }, { "user": "cybozu", "control_plane": false }],
        "service_subnet": "10.68.0.0/16",
    })
}

/// A template that says everything a template can say.
fn full() -> Value {
    let taint = json!({ "key": "example.com/a", "value": "b", "effect": "NoExecute" });
    let selector = json!({
        "matchLabels": { "team": "neco" },
        "matchExpressions": [{ "key": "a", "operator": "In", "values": ["b", ""] }, { "key": "c", "operator": "Exists", "values": [] }],
    });
    let bind = json!({
        "source": "/var/lib/a", "destination": "/a", "read_only": true, "propagation": "rslave", "selinux_label": "z",
    });
    let with = |more: Value| {
        let mut component = json!({ "extra_args": ["--v=2"], "extra_binds": [bind], "extra_env": { "A": "b" } });
        component.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        component
    };
    let config = |version: &str, kind: &str, key: &str, value: &str| json!({ "apiVersion": version, "kind": kind, key: value, "x": { "y": [1] } });
    json!({
        "name": "cluster",
        "nodes": [
            { "address": "", "hostname": "", "user": "u", "control_plane": true, "annotations": { "Example.com/a": "b c" },
              "labels": { "cke.cybozu.com/role": "cs", "cke.cybozu.com/weight": "none" }, "taints": [taint] },
            { "address": null, "hostname": "{role}-{serial}", "user": "u", "control_plane": false, "annotations": {},
              "labels": { "cke.cybozu.com/role": "cs", "cke.cybozu.com/weight": "6.0" }, "taints": [taint] },
            { "address": "", "hostname": "", "user": "u", "control_plane": false, "annotations": {},
              "labels": { "cke.cybozu.com/role": "ss", "cke.cybozu.com/weight": "1e-1" },
              "taints": [{ "key": "a", "value": "", "effect": "PreferNoSchedule" }] },
        ],
        "taint_control_plane": true,
        "control_plane_tolerations": ["foo", "example.com/bar"],
        "service_subnet": "10.68.0.0/16",
        "dns_servers": ["10.0.0.1", "fd00::1"],
        "dns_service": "kube-system/dns",
        "reboot": {
            "reboot_command": ["reboot", ""], "boot_check_command": ["check"], "max_concurrent_reboots": 1,
            "command_timeout_seconds": 0, "command_retries": 0, "command_interval": 0, "protected_namespaces": selector,
            "evict_retries": 0, "evict_interval": 0, "eviction_timeout_seconds": 1, "protected_job_pods": selector,
        },
        "repair": {
            "repair_procedures": [
                { "machine_types": ["iDRAC-9", "Redfish"], "repair_operations": [
                    { "operation": "unreachable", "health_check_command": ["check"], "health_check": "", "command_timeout_seconds": 10,
                      "success_command": ["hurrah"], "success_command_timeout": 5, "repair_steps": [
                        { "repair_command": ["reset", "--now"], "action": "", "command_timeout_seconds": 0, "command_retries": 2,
                          "command_interval": 3, "need_drain": true, "watch_seconds": 600 },
                        { "repair_command": null, "action": "power-cycle", "command_timeout_seconds": 0, "command_retries": 2,
                          "command_interval": 3, "need_drain": false, "watch_seconds": 0 },
                    ] },
                    { "operation": "unhealthy", "health_check_command": null, "health_check": "registry", "command_timeout_seconds": 0,
                      "success_command": ["hurrah"], "success_command_timeout": 0,
                      "repair_steps": [{ "action": "retire" }] },
                ] },
                { "machine_types": ["IPMI-2.0"], "repair_operations": [
                    { "operation": "unreachable", "health_check_command": ["check"], "repair_steps": [{ "action": "rebuild" }] },
                ] },
            ],
            "max_concurrent_repairs": 1, "protected_namespaces": selector, "evict_retries": 0, "evict_interval": 0,
            "eviction_timeout_seconds": 600, "protected_job_pods": selector,
        },
        "sabakan": { "spare_node_taint_key": "example.com/spare" },
        "trusted_rest_mappings": [
            { "group": "a.io", "version": "v1", "kind": "A", "resource": "as", "namespaced": true },
            { "group": "", "version": "v1", "kind": "B", "resource": "bs", "namespaced": false },
        ],
        "options": {
            "etcd": with(json!({ "volume_name": "v" })),
            "etcd-rivers": with(json!({})),
            "rivers": with(json!({})),
            "kube-api": with(json!({ "audit_log_enabled": true, "audit_log_policy": "a: b", "audit_log_path": "/log" })),
            "kube-controller-manager": with(json!({})),
            "kube-scheduler": with(json!({ "config": config("kubescheduler.config.k8s.io/v1", "KubeSchedulerConfiguration", "y", "z") })),
            "kube-proxy": with(json!({
                "disable": false, "config": config("kubeproxy.config.k8s.io/v1alpha1", "KubeProxyConfiguration", "mode", "ipvs"),
            })),
            "kubelet": with(json!({
                "boot_taints": [taint],
                "cni_conf_file": { "name": "a.conflist", "content": r#"{"name": "n", "plugins": [{"type": "p"}]}"# },
                "config": config("kubelet.config.k8s.io/v1beta1", "KubeletConfiguration", "clusterDomain", "cluster.local"),
                "cri_endpoint": "/run/x.sock",
                "in_place_update": true,
            })),
        },
    })
}

fn problems(document: Value) -> Vec<Problem> {
    Template::parse(document).err().unwrap_or_default()
}

fn paths(document: Value) -> Vec<String> {
    problems(document).into_iter().map(|problem| problem.path).collect()
}

/// A place of a document, and what the table says about it.
#[derive(Debug, Clone)]
struct Spot {
    path: String,
    pointer: String,
    shape: Shape,
    presence: Presence,
}

/// Every place of a document that a table knows.
fn spots(object: &Object, value: &Value, place: &Place<'_>, pointer: &str, found: &mut Vec<Spot>) {
    for field in object.fields() {
        let Some(value) = value.get(field.name).filter(|value| !value.is_null()) else { continue };
        let pointer = format!("{pointer}/{}", field.name);
        spot(field.shape, field.presence, value, &place.key(field.name), &pointer, found);
    }
}

fn spot(shape: Shape, presence: Presence, value: &Value, place: &Place<'_>, pointer: &str, found: &mut Vec<Spot>) {
    found.push(Spot { path: place.to_string(), pointer: pointer.to_owned(), shape, presence });
    match shape {
        Shape::List { of, .. } => {
            for (index, item) in value.as_array().expect("a list").iter().enumerate() {
                spot(*of, Presence::Required, item, &place.index(index), &format!("{pointer}/{index}"), found);
            }
        }
        Shape::Map { value: of, .. } => {
            for (key, value) in value.as_object().expect("an object") {
                let pointer = format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1"));
                spot(*of, Presence::Required, value, &place.key(key), &pointer, found);
            }
        }
        Shape::Object(object) => spots(object, value, place, pointer, found),
        _ => {}
    }
}

fn all_spots(document: &Value) -> Vec<Spot> {
    let mut found = Vec::new();
    spots(&tables::TEMPLATE, document, &Place::ROOT, "", &mut found);
    found
}

/// Values that a shape does not allow.
fn wrong(shape: Shape) -> Vec<Value> {
    match shape {
        Shape::Text(rule) => {
            let texts = ["", "-", "\0", "a=b", "a/b/c", "10.0.0.1"];
            let texts = texts.into_iter().filter(|text| !(rule.accepts)(text)).map(Value::from);
            texts.chain([json!(1), json!(true), json!({})]).collect()
        }
        Shape::Word(_) => vec![json!("nonsense"), json!(1)],
        Shape::Bool => vec![json!("true"), json!(0)],
        Shape::Integer { min, max } => vec![json!(min - 1), json!(max + 1), json!("1"), json!(1.5)],
        Shape::List { min, .. } => [json!({}), json!("a")].into_iter().chain((min > 0).then(|| json!([]))).collect(),
        Shape::Map { .. } | Shape::Object(_) => vec![json!([]), json!("a")],
        Shape::Any => vec![],
    }
}

/// Members whose absence is wrong only because of what others say.
const TOGETHER: [&str; 10] = [
    "control_plane",
    "labels",
    "repair_command",
    "action",
    "health_check_command",
    "health_check",
    "audit_log_policy",
    "name",
    "content",
    "values",
];

fn may_go(spot: &Spot) -> bool {
    let name = spot.pointer.rsplit('/').next().unwrap_or_default();
    spot.presence != Presence::Required && !TOGETHER.contains(&name)
}

fn remove(document: &mut Value, pointer: &str) {
    let (parent, name) = pointer.rsplit_once('/').expect("not the document itself");
    // Something around it may be gone already.
    if let Some(Value::Object(members)) = document.pointer_mut(parent) {
        members.remove(&name.replace("~1", "/"));
    }
}

fn set(mut document: Value, pointer: &str, value: Value) -> Value {
    *document.pointer_mut(pointer).unwrap_or_else(|| panic!("there is no {pointer}")) = value;
    document
}

#[test]
fn the_full_template_has_every_member_of_every_table() {
    fn shape_of(shape: &Shape, values: &[&Value], seen: &mut BTreeMap<&'static str, &'static str>) {
        match shape {
            Shape::List { of, .. } => {
                let items: Vec<&Value> = values.iter().filter_map(|value| value.as_array()).flatten().collect();
                shape_of(of, &items, seen);
            }
            Shape::Object(object) => members(object, values, seen),
            _ => {}
        }
    }
    fn members(object: &'static Object, values: &[&Value], seen: &mut BTreeMap<&'static str, &'static str>) {
        // The page explains an object once, by its name.
        assert_eq!(*seen.entry(object.name).or_insert(object.text), object.text, "{} is two things", object.name);
        for field in object.fields() {
            let values: Vec<&Value> = values.iter().filter_map(|value| value.get(field.name)).collect();
            assert!(values.iter().any(|value| !value.is_null()), "{} has no {}", object.name, field.name);
            shape_of(&field.shape, &values, seen);
        }
    }
    members(&tables::TEMPLATE, &[&full()], &mut BTreeMap::new());
    assert_eq!(problems(full()), []);
}

#[test]
fn a_wrong_value_is_told_where_it_is() {
    let spots = all_spots(&full());
    assert!(spots.len() > 200, "{}", spots.len());
    for spot in &spots {
        for value in
            wrong(spot.shape).into_iter().filter(|value| spot.presence != Presence::OrEmpty || *value != json!(""))
        {
            let paths = paths(set(full(), &spot.pointer, value.clone()));
            assert!(paths.contains(&spot.path), "{} = {value}: {paths:?}", spot.path);
        }
    }
}

#[test]
fn a_missing_or_unknown_member_is_told_where_it_is() {
    for spot in all_spots(&full()) {
        let mut document = full();
        remove(&mut document, &spot.pointer);
        if document != full() {
            let paths = paths(document);
            let member = spot.pointer.rsplit('/').next().is_some_and(|name| name.parse::<usize>().is_err());
            if spot.presence == Presence::Required && member && !spot.pointer.contains("/labels/") && !is_pair(&spot) {
                assert!(paths.contains(&spot.path), "without {}: {paths:?}", spot.path);
            } else if may_go(&spot) {
                assert_eq!(paths, [""; 0], "without {}", spot.path);
            }
        }
        if let Shape::Object(object) = spot.shape
            && !object.open
        {
            let mut document = full();
            document.pointer_mut(&spot.pointer).expect("it is there")["nodez"] = json!(1);
            assert_eq!(paths(document), [format!("{}.nodez", spot.path)]);
        }
    }
    let mut document = full();
    document["dns_server"] = json!([]);
    let [problem] = &problems(document)[..] else { panic!("one problem") };
    assert_eq!(problem.path, "dns_server");
    assert!(problem.reason.starts_with("unknown key; did you mean dns_servers? Known: nodes, name"), "{problem}");
}

/// An entry of an object whose keys are free; each may be left out.
fn is_pair(spot: &Spot) -> bool {
    ["/annotations/", "/matchLabels/", "/extra_env/"].iter().any(|map| spot.pointer.contains(map))
}

proptest! {
    /// Whatever a valid template leaves out, it stays valid, and one wrong value is told at its place and does not hide others.
    #[test]
    fn any_valid_template_with_one_mistake_is_refused_there(
        gone in prop::collection::vec(any::<prop::sample::Index>(), 0..40),
        at in any::<prop::sample::Index>(),
        which in any::<prop::sample::Index>(),
    ) {
        let mut document = full();
        let optional: Vec<Spot> = all_spots(&document).into_iter().filter(may_go).collect();
        for index in gone {
            remove(&mut document, &index.get(&optional).pointer);
        }
        let template = Template::parse(document.clone()).map_err(|problems| TestCaseError::fail(format!("{problems:?}")))?;
        prop_assert_eq!(Template::parse(template.document.clone()), Ok(template));
        let spots = all_spots(&document);
        let spot = at.get(&spots);
        let mut values = wrong(spot.shape);
        values.retain(|value| spot.presence != Presence::OrEmpty || *value != json!(""));
        if !values.is_empty() {
            let value = which.get(&values).clone();
            let paths = paths(set(document, &spot.pointer, value));
            prop_assert!(paths.contains(&spot.path), "{}: {:?}", spot.path, paths);
        }
    }
}

#[test]
fn node_templates_together() {
    let check = |nodes: Value, expected: &[&str]| {
        let mut document = minimal();
        document["nodes"] = nodes.clone();
        let problems: Vec<String> = problems(document).iter().map(Problem::to_string).collect();
        assert_eq!(problems.len(), expected.len(), "{nodes}: {problems:?}");
        for (problem, expected) in problems.iter().zip(expected) {
            assert!(problem.starts_with(expected), "{problem} does not begin with {expected}");
        }
    };
    let cp = json!({ "user": "u", "control_plane": true });
    let worker = json!({ "user": "u" });
    let with = |labels: Value| json!({ "user": "u", "labels": labels });
    let role = |role: &str| with(json!({ ROLE: role }));
    check(json!([cp, worker]), &[]);
    check(json!([worker, cp]), &[]);
    check(json!([]), &["nodes: has 0; at least 2", "nodes: has 0 templates with control_plane"]);
    check(json!([cp]), &["nodes: has 1; at least 2"]);
    check(json!([worker]), &["nodes: has 1; at least 2", "nodes: has 0 templates with control_plane"]);
    check(json!([cp, cp]), &["nodes: has 2 templates with control_plane: true; exactly one is needed"]);
    check(json!([role("a"), role("b")]), &["nodes: has 0 templates with control_plane"]);
    check(json!([role("a"), cp, role("b"), role("c")]), &[]);
    let role_path = |index: usize| format!("nodes[{index}].labels[\"{ROLE}\"]: ");
    check(
        json!([cp, role("a"), worker, role("")]),
        &[&format!("{}is missing: two or more", role_path(2)), &format!("{}is missing: two or more", role_path(3))],
    );
    check(
        json!([role("a"), cp, role("b"), role("a")]),
        &[&format!("{}\"a\" is the role of nodes[0] too", role_path(3))],
    );
    let weight_path = format!("nodes[1].labels[\"{WEIGHT}\"]: ");
    for weight in ["1", "0.5", "1e3", "6.0"] {
        check(json!([cp, with(json!({ WEIGHT: weight }))]), &[]);
        assert_eq!(paths(set(full(), "/nodes/1/labels/cke.cybozu.com~1weight", json!(weight))), [""; 0]);
    }
    for weight in ["0", "0.0", "NaN", "inf", "Infinity", "1e999", "heavy", ""] {
        check(json!([cp, with(json!({ WEIGHT: weight }))]), &[&format!("{weight_path}{weight:?} is not a number")]);
        check(json!([{ "user": "u", "control_plane": true, "labels": { WEIGHT: weight } }, worker]), &[]);
    }
    check(
        json!([cp, with(json!({ WEIGHT: "-1" }))]),
        &[
            &format!("{weight_path}\"-1\" is not a number greater than 0"),
            &format!("{weight_path}\"-1\" is not a valid label value"),
        ],
    );
    check(json!([cp, with(json!({ WEIGHT: 2 }))]), &[&format!("{weight_path}must be a text in quotes, is a number")]);
    let state = json!({ "user": "u", "taints": [{ "key": "a", "effect": "NoExecute" }, { "key": STATE, "effect": "NoExecute" }] });
    check(json!([cp, state]), &["nodes[1].taints[1].key: cke.cybozu.com/state is set by the generator"]);
    check(
        json!([cp, { "user": "u", "address": "10.0.0.1" }]),
        &["nodes[1].address: \"10.0.0.1\" is not a valid address"],
    );
    let many: Vec<Value> = std::iter::once(cp.clone()).chain((0..64).map(|i| role(&i.to_string()))).collect();
    check(json!(many), &["nodes: has 65 entries; at most 64"]);
    check(json!(many[..64]), &[]);
    let large = json!({ "user": "u", "annotations": { "a": "x".repeat(256 * 1024) } });
    check(json!([cp, large]), &["nodes[1].annotations: are too large"]);
}

const STATE: &str = super::super::config::STATE_TAINT;

/// The bounds of every kind of member, apart from the tables.
#[test]
fn what_members_take() {
    let check = |pointer: &str, good: Value, bad: Value| {
        let path = pointer[1..].replace('/', ".");
        let path = (0..4).fold(path, |path, index| path.replace(&format!(".{index}"), &format!("[{index}]")));
        for value in good.as_array().expect("a list") {
            assert_eq!(paths(set(full(), pointer, value.clone())), [""; 0], "{pointer} = {value}");
        }
        for value in bad.as_array().expect("a list") {
            assert_eq!(paths(set(full(), pointer, value.clone())), [path.as_str()], "{pointer} = {value}");
        }
    };
    check("/name", json!(["a", "a b"]), json!(["", null, 1]));
    check("/taint_control_plane", json!([true, null]), json!(["true", 1]));
    check("/control_plane_tolerations/0", json!(["a", "a.b/c"]), json!(["", "a/b/c", "-a", null]));
    check("/service_subnet", json!(["10.0.0.0/8", "fd00::/108"]), json!(["", "10.0.0.0", null]));
    check("/dns_servers", json!([[], null, ["10.0.0.1"]]), json!(["10.0.0.1"]));
    check("/dns_servers/1", json!(["10.0.0.1"]), json!(["dns.example.com", ""]));
    check("/dns_service", json!(["", null, "a/b"]), json!(["a", "a/b/c", "/b"]));
    check("/nodes/0/user", json!(["u"]), json!(["", null]));
    check(
        "/nodes/0/taints/0/effect",
        json!(["NoSchedule", "PreferNoSchedule", "NoExecute"]),
        json!(["", "noexecute", null]),
    );
    check("/nodes/0/taints/0/value", json!(["", null, "a"]), json!(["-", "a/b"]));
    check("/nodes/0/taints/0/key", json!(["a", "b.c/a"]), json!(["", "a b", null]));
    for section in ["reboot", "repair"] {
        for positive in [&format!("max_concurrent_{section}s"), "eviction_timeout_seconds"] {
            check(&format!("/{section}/{positive}"), json!([1, 600, null]), json!([0, -1, 1.5, "1"]));
        }
        for natural in ["evict_retries", "evict_interval"] {
            check(&format!("/{section}/{natural}"), json!([0, 9, null]), json!([-1, 1.5, "1"]));
        }
    }
    for natural in ["command_timeout_seconds", "command_retries", "command_interval"] {
        check(&format!("/reboot/{natural}"), json!([0, 9, null]), json!([-1, "1"]));
        check(
            &format!("/repair/repair_procedures/0/repair_operations/0/repair_steps/0/{natural}"),
            json!([0, 9, null]),
            json!([-1, "1"]),
        );
    }
    check("/reboot/reboot_command", json!([null, ["a"]]), json!([[], "a"]));
    let operation = "/repair/repair_procedures/0/repair_operations/0";
    check(&format!("{operation}/health_check_command"), json!([["a", ""]]), json!([[], null, "a"]));
    check(&format!("{operation}/repair_steps"), json!([[{ "action": "power-on" }]]), json!([[], null]));
    check(&format!("{operation}/success_command"), json!([null, ["a"]]), json!([[]]));
    check(&format!("{operation}/success_command_timeout"), json!([0, null]), json!([-1]));
    check(&format!("{operation}/repair_steps/0/watch_seconds"), json!([0, null]), json!([-1]));
    check("/repair/repair_procedures", json!([[], null]), json!([{}]));
    check("/repair/repair_procedures/0/machine_types", json!([["a"]]), json!([[], null]));
    for component in [
        "etcd",
        "etcd-rivers",
        "rivers",
        "kube-api",
        "kube-controller-manager",
        "kube-scheduler",
        "kube-proxy",
        "kubelet",
    ] {
        for member in ["source", "destination"] {
            check(&format!("/options/{component}/extra_binds/0/{member}"), json!(["/"]), json!(["a", "", null]));
        }
        check(&format!("/options/{component}/extra_args/0"), json!([""]), json!([null, 1]));
        check(&format!("/options/{component}/extra_env/A"), json!([""]), json!([null, 1]));
    }
    check("/options/kubelet/config/clusterDomain", json!(["", "a.b"]), json!(["A", "a_b"]));
    check("/options/kubelet/config/apiVersion", json!([]), json!(["kubelet.config.k8s.io/v1", "", null]));
    check("/options/kube-scheduler/config/apiVersion", json!([]), json!(["kubescheduler.config.k8s.io/v1beta1", null]));
    check("/options/kube-proxy/config/mode", json!(["", "userspace", "iptables", "ipvs"]), json!(["nftables"]));
    check("/sabakan/spare_node_taint_key", json!(["", "a.b/c"]), json!(["/"]));
    check("/trusted_rest_mappings/0/group", json!(["", null]), json!([1]));
    check("/trusted_rest_mappings/0/resource", json!(["a"]), json!(["", null]));
}

#[test]
fn members_that_depend_on_each_other() {
    let check = |pointer: &str, value: Value, path: &str, reason: &str| {
        let problems = problems(set(full(), pointer, value));
        let [problem] = &problems[..] else { panic!("{pointer}: {problems:?}") };
        assert_eq!(problem.path, path);
        assert!(problem.reason.contains(reason), "{problem}");
    };
    let steps = "repair.repair_procedures[0].repair_operations[0].repair_steps";
    let pointer = "/repair/repair_procedures/0/repair_operations/0/repair_steps";
    check(&format!("{pointer}/0/action"), json!("retire"), &format!("{steps}[0].action"), "excludes repair_command");
    check(
        &format!("{pointer}/0/repair_command"),
        Value::Null,
        &format!("{steps}[0].repair_command"),
        "power-on, bmc-reset",
    );
    let operations = "repair.repair_procedures[0].repair_operations";
    let operation = "/repair/repair_procedures/0/repair_operations";
    check(
        &format!("{operation}/0/health_check"),
        json!("registry"),
        &format!("{operations}[0].health_check"),
        "excludes health_check_command",
    );
    for nobody in [Value::Null, json!("")] {
        check(
            &format!("{operation}/1/health_check"),
            nobody,
            &format!("{operations}[1].health_check_command"),
            "is missing; or give health_check: registry",
        );
    }
    check(
        &format!("{operation}/1/health_check"),
        json!("oracle"),
        &format!("{operations}[1].health_check"),
        "registry",
    );
    check(
        &format!("{pointer}/0/repair_command/0"),
        json!(""),
        &format!("{steps}[0].repair_command[0]"),
        "program is empty",
    );
    check(
        &format!("{pointer}/1/action"),
        json!("explode"),
        &format!("{steps}[1].action"),
        "power-cycle, power-on, bmc-reset, rebuild, retire",
    );
    check(
        "/repair/repair_procedures/0/repair_operations/1/operation",
        json!("unreachable"),
        "repair.repair_procedures[0].repair_operations[1].operation",
        "repair_operations[0] too",
    );
    check(
        "/repair/repair_procedures/1/machine_types/0",
        json!("Redfish"),
        "repair.repair_procedures[1].machine_types[0]",
        "repair_procedures[0] already",
    );
    check(
        "/repair/repair_procedures/0/machine_types/1",
        json!("iDRAC-9"),
        "repair.repair_procedures[0].machine_types[1]",
        "repair_procedures[0] already",
    );
    check("/reboot/reboot_command/0", json!(""), "reboot.reboot_command[0]", "program is empty");
    check(
        "/reboot/protected_namespaces/matchExpressions/0/values",
        json!([]),
        "reboot.protected_namespaces.matchExpressions[0].values",
        "In and NotIn",
    );
    check(
        "/reboot/protected_namespaces/matchExpressions/1/values",
        json!(["a"]),
        "reboot.protected_namespaces.matchExpressions[1].values",
        "compare with nothing",
    );
    let mapping = json!({ "group": "a.io", "version": "v1", "kind": "A", "resource": "other" });
    check("/trusted_rest_mappings/1", mapping, "trusted_rest_mappings[1]", "trusted_rest_mappings[0]");
    check("/options/kube-api/audit_log_policy", json!(""), "options.kube-api.audit_log_policy", "needs a policy");
    let cni = "options.kubelet.cni_conf_file";
    let (name, content) = ("/options/kubelet/cni_conf_file/name", "/options/kubelet/cni_conf_file/content");
    check(name, json!(""), &format!("{cni}.name"), "the content needs one");
    check(content, json!(""), &format!("{cni}.content"), "would be empty");
    check(content, json!("{"), &format!("{cni}.content"), "is not JSON");
    check(content, json!("[]"), &format!("{cni}.content"), "must be an object");
    check(content, json!(r#"{"name": "n", "plugins": []}"#), &format!("{cni}.content.plugins"), "at least 1");
    check(
        content,
        json!(r#"{"name": "n", "plugins": [{"type": ""}]}"#),
        &format!("{cni}.content.plugins[0].type"),
        "non-empty text",
    );
    check(name, json!("a.conf"), &format!("{cni}.content.type"), "is missing");
    check(name, json!("a b.conflist"), &format!("{cni}.name"), "file name");
    check("/options/kubelet/config/kind", json!("Kubelet"), "options.kubelet.config.kind", "KubeletConfiguration");
    check("/options/kubelet/cri_endpoint", json!(""), "options.kubelet.cri_endpoint", "at least one character");
}

#[test]
fn what_a_template_means() {
    let template = Template::parse(full()).expect("valid");
    let taint = Taint { key: "example.com/a".to_owned(), value: "b".to_owned(), effect: Effect::NoExecute };
    assert_eq!(template.control_plane.role.as_deref(), Some("cs"));
    assert_eq!((template.control_plane.weight, &template.control_plane.taints), (1.0, &vec![taint]));
    assert_eq!(template.control_plane.annotations.get("Example.com/a").map(String::as_str), Some("b c"));
    let workers: Vec<_> = template.workers.iter().map(|worker| (worker.role.as_deref(), worker.weight)).collect();
    assert_eq!(workers, [(Some("cs"), 6.0), (Some("ss"), 0.1)]);
    assert_eq!(template.workers[1].labels.get(WEIGHT).map(String::as_str), Some("1e-1"));
    let tolerations: Vec<&str> = template.tolerations.iter().map(String::as_str).collect();
    assert_eq!(
        tolerations,
        ["example.com/a", "example.com/bar", "foo"],
        "with its own taint, without those of workers"
    );
    assert_eq!(template.audit_log_policy(), Some("a: b"));
    assert_eq!(template.document, full());
    assert!(!template.rest.contains_key("nodes") && template.rest.len() == full().as_object().map_or(0, Map::len) - 1);
}

#[test]
fn a_host_name_is_judged_at_the_door_and_read_as_it_was_stored() {
    let with = |hostname: Value| set(full(), "/nodes/1/hostname", hostname);
    let refused = problems(with(json!("h")));
    assert_eq!(refused.iter().map(|problem| problem.path.as_str()).collect::<Vec<_>>(), ["nodes[1].hostname"]);
    assert!(refused[0].reason.contains("{serial}"), "it says what to do: {refused:?}");
    for (hostname, pattern) in [
        (json!("h"), None),
        (json!("{zone}-{serial}"), None),
        (json!(""), None),
        (json!(null), None),
        (json!("{serial}"), Some("{serial}".to_owned())),
    ] {
        let template = Template::stored(with(hostname)).expect("what was stored is read");
        assert_eq!(template.workers[0].hostname.as_ref().map(ToString::to_string), pattern);
    }
}

#[test]
fn names_that_change_with_the_role_in_the_cluster_are_doubtful() {
    let warned = |control_plane: &str, worker: &str| {
        let mut document = minimal();
        document["nodes"][0]["hostname"] = json!(control_plane);
        document["nodes"][1]["hostname"] = json!(worker);
        Template::parse(document).expect("valid").warnings().len()
    };
    for (control_plane, worker, count) in
        [("", "", 0), ("{serial}", "{serial}", 0), ("cp-{serial}", "{serial}", 1), ("", "{serial}", 1)]
    {
        assert_eq!(warned(control_plane, worker), count, "{control_plane:?} {worker:?}");
    }
}

#[test]
fn the_minimal_template_gets_defaults() {
    let template = Template::parse(minimal()).expect("valid");
    let options = json!({
        "etcd": { "volume_name": "etcd-cke" },
        "kubelet": { "cri_endpoint": "/run/containerd/containerd.sock" },
    });
    assert_eq!((&template.document["options"], &template.rest["options"]), (&options, &options));
    assert_eq!((template.audit_log_policy(), &template.control_plane.role), (None, &None));
    assert!(template.workers[0].takes("any") && template.workers.len() == 1);
}

#[test]
fn the_page_names_every_object() {
    let page = reference();
    for part in [
        "## Cluster template\n",
        "## Node template\n",
        "## Repair step\n",
        "## Cluster configuration\n",
        "## Node\n",
        "\n| label key |",
    ] {
        assert_eq!(page.matches(part).count(), 1, "{part}");
    }
    assert!(
        page.contains("| `action` | one of `power-cycle`, `power-on`, `bmc-reset`, `rebuild`, `retire` | no |"),
        "{page}"
    );
}
