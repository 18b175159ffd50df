//! What a CKE that carries the configuration out is given of it: only what it can execute without hurting the cluster.
//!
//! CKE repairs machines by itself, by default, with whatever `repair` says. Machines are repaired here, behind the guard; a second
//! program that repairs the same machines would bypass it, and CKE crashes on steps that have an `action` in place of a command.
//! So it never sees that part, and its budget is 0. `store::repo::mirror` writes the copies and turns its repairer off besides.

use serde_json::Value;

use super::{config::Configuration, constraints::Constraints};

/// Members of a configuration that the copy has not, each as the path to it.
///
/// - `repair`: see above.
/// - The others are of later versions. CKE 1.30.2, for which the copy is made, ignores what it does not know, so they would only
///   pretend to have an effect.
///
/// `reboot` stays. CKE reboots nothing by itself: it works its own queue off, which only `ckecli reboot-queue add` fills, and does
/// nothing without both commands.
pub const LEFT_OUT: [&[&str]; 4] =
    [&["repair"], &["sabakan"], &["trusted_rest_mappings"], &["reboot", "protected_job_pods"]];

impl Configuration {
    /// The document without what CKE must not, or cannot, carry out.
    pub fn for_cke(&self) -> Value {
        let mut document = self.document();
        for path in LEFT_OUT {
            let Some((last, parents)) = path.split_last() else { continue };
            let parent = parents.iter().try_fold(&mut document, |value, name| value.get_mut(name));
            if let Some(members) = parent.and_then(Value::as_object_mut) {
                members.remove(*last);
            }
        }
        document
    }
}

impl Constraints {
    /// The same without any repair: with a budget of 0 CKE enqueues nothing.
    pub fn for_cke(self) -> Constraints {
        Constraints { maximum_repair_queue_entries: 0, ..self }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{
        super::{shape::Shape, template::tables::CONFIGURATION},
        *,
    };

    /// Members that CKE 1.30.2 knows.
    const CLUSTER: [&str; 9] = [
        "name",
        "nodes",
        "taint_control_plane",
        "control_plane_tolerations",
        "service_subnet",
        "dns_servers",
        "dns_service",
        "reboot",
        "options",
    ];
    const REBOOT: [&str; 10] = [
        "reboot_command",
        "boot_check_command",
        "max_concurrent_reboots",
        "eviction_timeout_seconds",
        "command_timeout_seconds",
        "command_retries",
        "command_interval",
        "evict_retries",
        "evict_interval",
        "protected_namespaces",
    ];

    #[test]
    fn only_what_cke_can_execute_safely_is_left() {
        let configuration = |more: Value| {
            let mut document = json!({
                "name": "c", "service_subnet": "10.68.0.0/16",
                "nodes": [{ "address": "10.0.0.1", "hostname": "a", "user": "u", "control_plane": true, "taints": null }],
            });
            let members = document.as_object_mut().expect("an object");
            members.extend(more.as_object().expect("an object").clone());
            Configuration::parse(document).unwrap_or_else(|problems| panic!("{problems:?}"))
        };
        let step = json!({ "action": "power-cycle" });
        let operation = json!({ "operation": "unreachable", "repair_steps": [step], "health_check": "registry" });
        let procedure = json!({ "machine_types": ["IPMI-2.0"], "repair_operations": [operation] });
        let reboot = json!({ "reboot_command": ["r"], "boot_check_command": ["b"], "evict_retries": 3 });
        let mut later_reboot = reboot.clone();
        later_reboot["protected_job_pods"] = json!({ "matchLabels": { "a": "b" } });
        let mapping = json!({ "version": "v1", "kind": "A", "resource": "as" });
        for (name, given, left) in [
            ("nothing to leave out", json!({}), json!({})),
            ("built-in actions", json!({ "repair": { "repair_procedures": [procedure] } }), json!({})),
            ("an empty repair part", json!({ "repair": {} }), json!({})),
            ("no repair part", json!({ "repair": null }), json!({})),
            ("reboots are CKE's too", json!({ "reboot": reboot }), json!({ "reboot": reboot })),
            ("what later versions know", json!({ "reboot": later_reboot }), json!({ "reboot": reboot })),
            ("no reboot part", json!({ "reboot": null }), json!({ "reboot": null })),
            ("spare machines", json!({ "sabakan": { "spare_node_taint_key": "a" } }), json!({})),
            ("mappings", json!({ "trusted_rest_mappings": [mapping] }), json!({})),
        ] {
            assert_eq!(configuration(given).for_cke(), configuration(left).document(), "{name}");
        }
    }

    #[test]
    fn every_member_is_known_to_cke_or_left_out() {
        let mut unknown = Vec::new();
        for field in CONFIGURATION.fields() {
            let Shape::Object(object) = field.shape else {
                unknown.extend((!CLUSTER.contains(&field.name)).then(|| vec![field.name]));
                continue;
            };
            if field.name == "reboot" {
                let inner = object.fields().filter(|inner| !REBOOT.contains(&inner.name));
                unknown.extend(inner.map(|inner| vec!["reboot", inner.name]));
            } else if !CLUSTER.contains(&field.name) {
                unknown.push(vec![field.name]);
            }
        }
        let mut left_out: Vec<Vec<&str>> = LEFT_OUT.iter().map(|path| path.to_vec()).collect();
        unknown.sort();
        left_out.sort();
        assert_eq!(unknown, left_out, "a new member of the template: can CKE 1.30.2 execute it safely?");
    }

    #[test]
    fn cke_has_no_budget_for_repairs() {
        let given = Constraints { minimum_workers: 5, maximum_repair_queue_entries: 7, ..Constraints::default() };
        assert_eq!(given.for_cke(), Constraints { maximum_repair_queue_entries: 0, ..given });
    }
}
