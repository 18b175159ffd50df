//! Verbs, power, maintenance, boot device, traits: what callers send about a single node besides its description.

use sabakan_domain::provision::{
    boot::{BootDevice, BootMode, BootRequest},
    edges,
    node::Node,
    power::PowerTarget,
    states::State,
    steps::{Interface, StepRequest},
    verbs::Verb,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{Refused, Version, node::state_in, parse_bool, time};

/// `GET /v1/nodes/{id}/states`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StatesJson {
    /// Whether a console is offered.
    pub console_enabled: bool,
    /// Why the last work failed.
    pub last_error: Option<String>,
    /// Power as last seen.
    pub power_state: Option<String>,
    /// Where it is.
    pub provision_state: Option<String>,
    /// What is asked of its power.
    pub target_power_state: Option<String>,
    /// Where it is heading.
    pub target_provision_state: Option<String>,
    /// Since when it is there.
    pub provision_updated_at: Option<String>,
    /// Logical volumes there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raid_config: Option<Map<String, Value>>,
    /// Logical volumes somebody wants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_raid_config: Option<Map<String, Value>>,
    /// How it boots; only shown to versions that know it, and null where nobody does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot_mode: Option<Value>,
    /// Whether only signed systems boot; the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secure_boot: Option<Value>,
}

impl StatesJson {
    /// The states of a node, as a version knows them.
    pub fn of(node: &Node, version: Version) -> StatesJson {
        let word = |value: Value| value.as_str().map(str::to_owned);
        let target_raid = || node.details.target_raid.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
        StatesJson {
            console_enabled: node.controls.console_enabled,
            last_error: node.last_error.clone(),
            power_state: node.power.state.map(|state| state.as_str().to_owned()),
            provision_state: word(state_in(node.state, version)),
            target_power_state: node.power.action.as_ref().map(|action| action.target.result().as_str().to_owned()),
            target_provision_state: node.target.and_then(|state: State| word(state_in(state, version))),
            provision_updated_at: node.moved_at().map(time),
            raid_config: version.has(12).then(Map::new),
            target_raid_config: version.has(12).then(target_raid),
            boot_mode: version.has(75).then(|| json!(node.controls.boot_mode.map(BootMode::as_str))),
            secure_boot: version.has(75).then(|| json!(node.controls.secure_boot)),
        }
    }
}

/// `PUT /v1/nodes/{id}/states/provision`.
#[derive(Debug, Clone, PartialEq)]
pub struct ProvisionRequest {
    /// The verb; `None`: a word that names none, kept in `word`.
    pub verb: Option<Verb>,
    /// The word as written.
    pub word: String,
    /// Steps, where the verb takes some.
    pub steps: Vec<StepRequest>,
    /// Run the steps without booting the ramdisk.
    pub disable_ramdisk: bool,
    /// What the workload finds on its configuration drive.
    pub configdrive: Option<Value>,
    /// The password of a temporary system.
    pub rescue_password: Option<String>,
    /// The runbook that has the steps, by name or UUID.
    pub runbook: Option<String>,
}

/// When a verb came; `inspect` and `abort` are known to older versions in fewer states.
pub fn verb_since(word: &str, from: Option<State>) -> u16 {
    match (word, from) {
        ("manage" | "provide", _) => 4,
        ("inspect", _) => 6,
        ("abort", Some(State::InspectWait)) => 41,
        ("abort", Some(State::DeployWait | State::DeployHold)) => 110,
        ("abort", _) => 13,
        ("clean", _) => 15,
        ("adopt", _) => 17,
        ("rescue" | "unrescue", _) => 38,
        ("deploy" | "undeploy", _) => 73,
        ("unhold", _) => 85,
        ("service", _) => 87,
        _ => 1,
    }
}

impl ProvisionRequest {
    /// Reads the body.
    pub fn parse(body: Value, version: Version) -> Result<ProvisionRequest, Refused> {
        let Value::Object(mut members) = body else {
            return Err(Refused::invalid("Missing mandatory parameter: target"));
        };
        let word = match members.remove("target") {
            Some(Value::String(word)) => word,
            Some(_) => String::new(),
            None => return Err(Refused::invalid("Missing mandatory parameter: target")),
        };
        let verb = word.parse::<Verb>().ok();
        let deploys = matches!(verb, Some(Verb::Active | Verb::Rebuild));
        let mut request = ProvisionRequest {
            verb,
            steps: Vec::new(),
            disable_ramdisk: false,
            configdrive: None,
            rescue_password: None,
            runbook: None,
            word,
        };
        let only = |name: &str, with: &str| {
            Refused::invalid(format!("{name:?} is only valid when setting target provision state to {with}"))
        };
        for (name, value) in members {
            match name.as_str() {
                _ if value.is_null() => {}
                "clean_steps" if verb == Some(Verb::Clean) => request.steps = steps(&name, value, false)?,
                "clean_steps" => return Err(only(&name, "clean")),
                "service_steps" if verb == Some(Verb::Service) => request.steps = steps(&name, value, false)?,
                "service_steps" => return Err(only(&name, "service")),
                "deploy_steps" if !version.has(69) => return Err(Refused::newer(&name, 69)),
                "deploy_steps" if deploys => request.steps = steps(&name, value, true)?,
                "deploy_steps" => return Err(only(&name, "active or rebuild")),
                "disable_ramdisk" if !version.has(70) => return Err(Refused::newer(&name, 70)),
                "disable_ramdisk" => request.disable_ramdisk = flag(&name, &value)?,
                "configdrive" if verb == Some(Verb::Rebuild) && !version.has(35) => {
                    return Err(Refused::newer(&name, 35));
                }
                "configdrive" if value.is_object() && !version.has(56) => return Err(Refused::newer(&name, 56)),
                "configdrive" if deploys => request.configdrive = Some(value),
                "configdrive" => return Err(only(&name, "active or rebuild")),
                "rescue_password" if verb == Some(Verb::Rescue) => {
                    request.rescue_password = value.as_str().map(str::to_owned);
                }
                "rescue_password" => return Err(only(&name, "rescue")),
                "runbook" if !version.has(92) => return Err(Refused::newer(&name, 92)),
                "runbook" if matches!(verb, Some(Verb::Clean | Verb::Service)) => {
                    request.runbook = value.as_str().map(str::to_owned);
                }
                "runbook" => return Err(only(&name, "clean or service")),
                _ => return Err(Refused::invalid(format!("Unexpected arguments: {name}"))),
            }
        }
        request.check()?;
        Ok(request)
    }

    /// The verb, for a node in this state. A verb that would be accepted there but came later is a matter of versions; any other is
    /// one of states, whatever the version.
    pub fn verb_for(&self, node: &Node, version: Version) -> Result<Verb, Refused> {
        let Some(verb) = self.verb else {
            return Err(Refused::invalid(format!(
                "The requested action \"{}\" can not be performed on node \"{}\" while it is in state \"{}\".",
                self.word,
                node.id,
                node.state.wire()
            )));
        };
        let since = verb_since(&self.word, Some(node.state));
        let too_new = edges::accepts(node.state, verb) && !version.has(since);
        if too_new { Err(Refused::newer(&self.word, since)) } else { Ok(verb) }
    }

    /// What each verb cannot do without.
    fn check(&self) -> Result<(), Refused> {
        let needs = |name: &str, word: &str| {
            Refused::invalid(format!("{name:?} is required when setting target provision state to {word}"))
        };
        match self.verb {
            _ if self.runbook.is_some() && !self.steps.is_empty() => {
                Err(Refused::invalid("Steps and a runbook cannot be given together"))
            }
            _ if self.runbook.is_some() => Ok(()),
            Some(Verb::Clean) if self.steps.is_empty() => Err(needs("clean_steps", "clean")),
            Some(Verb::Service) if self.steps.is_empty() => Err(needs("service_steps", "service")),
            Some(Verb::Rescue) if self.rescue_password.as_ref().is_none_or(|text| text.trim().is_empty()) => {
                Err(needs("rescue_password", "rescue"))
            }
            _ => Ok(()),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StepInput {
    interface: String,
    step: String,
    #[serde(default)]
    args: Option<Map<String, Value>>,
    #[serde(default)]
    priority: Option<u32>,
    // What a driver would do on parts of a machine; there are none.
    #[serde(default)]
    #[expect(dead_code, reason = "clients write its default")]
    execute_on_child_nodes: Option<bool>,
    #[serde(default)]
    #[expect(dead_code, reason = "clients write its default")]
    limit_child_node_execution: Option<Vec<String>>,
}

fn steps(name: &str, value: Value, ordered: bool) -> Result<Vec<StepRequest>, Refused> {
    let wrong = |reason: String| Refused::invalid(format!("Invalid {name}: {reason}"));
    if !value.is_array() {
        return Err(wrong(format!("{value} is not of type 'array'")));
    }
    let steps: Vec<StepInput> = serde_json::from_value(value).map_err(|error| wrong(error.to_string()))?;
    let mut requests = Vec::with_capacity(steps.len());
    for step in steps {
        let interface: Interface = step.interface.parse().map_err(wrong)?;
        if ordered && step.priority.is_none() {
            return Err(wrong(format!("step {}.{} needs a priority", step.interface, step.step)));
        }
        requests.push(StepRequest {
            interface,
            name: step.step,
            args: step.args.unwrap_or_default().into_iter().collect(),
            priority: step.priority,
        });
    }
    Ok(requests)
}

pub(super) fn flag(name: &str, value: &Value) -> Result<bool, Refused> {
    let wrong = |reason: String| Refused::invalid(format!("Invalid {name}: {reason}"));
    match value {
        Value::Bool(truth) => Ok(*truth),
        Value::String(text) => parse_bool(text).map_err(wrong),
        other => Err(wrong(format!("{other} is not of type 'boolean'"))),
    }
}

/// `PUT /v1/nodes/{id}/states/power`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PowerRequest {
    /// What.
    pub target: PowerTarget,
    /// How many seconds it may take.
    pub timeout: Option<u32>,
    /// Cut the power although the ramdisk runs a command. Ours alone.
    pub force: bool,
}

impl PowerRequest {
    /// Reads the body.
    pub fn parse(body: &Value, version: Version) -> Result<PowerRequest, Refused> {
        let members = members(body, &["target", "timeout", "force"])?;
        let target = members.get("target").ok_or_else(|| Refused::invalid("Missing mandatory parameter: target"))?;
        let word = target.as_str().unwrap_or_default();
        let target: PowerTarget =
            word.parse().map_err(|_| Refused::invalid(format!("Invalid power target: {target}")))?;
        if target.is_soft() && !version.has(27) {
            return Err(Refused::newer(word, 27));
        }
        let timeout = match members.get("timeout") {
            None | Some(Value::Null) => None,
            Some(_) if !version.has(27) => return Err(Refused::newer("timeout", 27)),
            Some(value) => {
                let seconds = value.as_u64().and_then(|seconds| u32::try_from(seconds).ok()).filter(|s| *s > 0);
                Some(seconds.ok_or_else(|| Refused::invalid(format!("Invalid timeout: {value}; it is at least 1")))?)
            }
        };
        let force = members.get("force").map_or(Ok(false), |value| flag("force", value))?;
        if force && target != PowerTarget::Off {
            return Err(Refused::invalid("force goes with \"power off\" alone"));
        }
        Ok(PowerRequest { target, timeout, force })
    }
}

/// `PUT /v1/nodes/{id}/maintenance`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MaintenanceRequest {
    /// Why.
    pub reason: Option<String>,
}

impl MaintenanceRequest {
    /// Reads the body, which may be absent.
    pub fn parse(body: &Value) -> Result<MaintenanceRequest, Refused> {
        if body.is_null() {
            return Ok(MaintenanceRequest { reason: None });
        }
        match members(body, &["reason"])?.get("reason") {
            None | Some(Value::Null) => Ok(MaintenanceRequest { reason: None }),
            Some(Value::String(reason)) => Ok(MaintenanceRequest { reason: Some(reason.clone()) }),
            Some(other) => Err(Refused::invalid(format!("reason: {other} is not of type 'string'"))),
        }
    }
}

/// `…/management/boot_device`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BootDeviceJson {
    /// The device.
    pub boot_device: String,
    /// Every time, or the next time only.
    pub persistent: bool,
}

impl BootDeviceJson {
    /// What a machine starts from.
    pub fn of(device: BootDevice, persistent: bool) -> BootDeviceJson {
        BootDeviceJson { boot_device: device.as_str().to_owned(), persistent }
    }

    /// Reads what a machine shall start from.
    pub fn parse(body: &Value) -> Result<BootRequest, Refused> {
        let members = members(body, &["boot_device", "persistent"])?;
        let device = members.get("boot_device").and_then(Value::as_str);
        let device = device.ok_or_else(|| Refused::invalid("Missing mandatory parameter: boot_device"))?;
        let device =
            device.parse().map_err(|_| Refused::invalid(format!("Invalid boot device {device} specified.")))?;
        let persistent = members.get("persistent").map_or(Ok(false), |value| flag("persistent", value))?;
        Ok(BootRequest { device, persistent, http_uri: None })
    }
}

/// `…/traits`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TraitsJson {
    /// What it can do.
    pub traits: Vec<String>,
}

impl TraitsJson {
    /// Reads all traits of a node.
    pub fn parse(body: Value) -> Result<TraitsJson, Refused> {
        serde_json::from_value(body).map_err(|error| {
            Refused::invalid(format!(
                "{error}; one trait is added by PUT …/traits/<trait> without a body, all are replaced by PUT …/traits with \
                 {}",
                json!({ "traits": ["CUSTOM_A"] })
            ))
        })
    }
}

/// The members of a body that has only these.
pub(super) fn members<'a>(body: &'a Value, known: &[&str]) -> Result<&'a Map<String, Value>, Refused> {
    let Value::Object(members) = body else { return Err(Refused::invalid("the body is not a JSON object")) };
    match members.keys().find(|name| !known.contains(&name.as_str())) {
        Some(name) => Err(Refused::invalid(format!("Unexpected arguments: {name}"))),
        None => Ok(members),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verbs_and_their_parameters() {
        let parse = |body: Value, version| ProvisionRequest::parse(body, Version(version));
        let clean = parse(
            json!({ "target": "clean", "clean_steps": [{ "interface": "deploy", "step": "erase_devices" }], "runbook": null }),
            115,
        );
        assert_eq!(clean.expect("valid").steps.len(), 1);
        assert_eq!(parse(json!({ "target": "undeploy" }), 115).expect("valid").verb, Some(Verb::Deleted));
        assert_eq!(parse(json!({ "target": "fly" }), 115).expect("kept").verb, None);
        for bad in [
            json!({}),
            json!({ "target": "manage", "extra": 1 }),
            json!({ "target": "clean" }),
            json!({ "target": "clean", "clean_steps": { "interface": "deploy" } }),
            json!({ "target": "clean", "clean_steps": [{ "step": "hold" }] }),
            json!({ "target": "clean", "clean_steps": [{ "interface": "deploy", "step": "x", "bogus": 1 }] }),
            json!({ "target": "manage", "clean_steps": [] }),
            json!({ "target": "rescue" }),
            json!({ "target": "rescue", "rescue_password": " " }),
            json!({ "target": "manage", "configdrive": "x" }),
            json!({ "target": "active", "deploy_steps": [{ "interface": "deploy", "step": "x" }] }),
        ] {
            assert!(matches!(parse(bad.clone(), 115), Err(Refused::Invalid(_))), "{bad}");
        }
        let drive = json!({ "target": "active", "configdrive": { "meta_data": {} } });
        assert!(matches!(parse(drive.clone(), 55), Err(Refused::Version(_))));
        assert!(parse(drive, 56).is_ok());
    }

    #[test]
    fn power_boot_and_maintenance() {
        let power = |body: Value, version| PowerRequest::parse(&body, Version(version));
        assert_eq!(power(json!({ "target": "power on" }), 1).map(|p| p.target), Ok(PowerTarget::On));
        assert!(matches!(power(json!({ "target": "soft power off" }), 26), Err(Refused::Version(_))));
        assert!(matches!(power(json!({ "target": "power on", "timeout": 0 }), 27), Err(Refused::Invalid(_))));
        assert!(matches!(power(json!({ "target": "up" }), 27), Err(Refused::Invalid(_))));
        assert!(
            BootDeviceJson::parse(&json!({ "boot_device": "pxe", "persistent": "yes" })).is_ok_and(|r| r.persistent)
        );
        assert!(BootDeviceJson::parse(&json!({ "boot_device": "moon" })).is_err());
        assert_eq!(MaintenanceRequest::parse(&Value::Null), Ok(MaintenanceRequest { reason: None }));
        assert!(MaintenanceRequest::parse(&json!({ "reason": 1 })).is_err());
        assert!(TraitsJson::parse(json!({})).is_err());
    }

    #[test]
    fn a_verb_is_too_new_only_where_it_would_be_accepted() {
        let name = sabakan_domain::words::Serial::new("n1").expect("a name");
        let mut node = Node::implied(sabakan_domain::provision::node::NodeId(1), name, jiff::Timestamp::UNIX_EPOCH);
        let verb = |node: &Node, word: &str, version| {
            let request = ProvisionRequest::parse(json!({ "target": word }), Version(version)).expect("a request");
            request.verb_for(node, Version(version))
        };
        assert_eq!(verb(&node, "manage", 4), Ok(Verb::Manage));
        assert!(matches!(verb(&node, "manage", 3), Err(Refused::Version(_))));
        // Whoever decides about states says no to it.
        assert_eq!(verb(&node, "adopt", 16), Ok(Verb::Adopt));
        node.state = State::Manageable;
        assert!(matches!(verb(&node, "adopt", 16), Err(Refused::Version(_))));
        assert!(matches!(verb(&node, "fly", 115), Err(Refused::Invalid(text)) if text.contains("\"manageable\"")));
    }

    #[test]
    fn verbs_came_one_after_another() {
        assert_eq!(verb_since("abort", Some(State::CleanWait)), 13);
        assert_eq!(verb_since("abort", Some(State::InspectWait)), 41);
        assert_eq!(verb_since("active", None), 1);
        assert_eq!(verb_since("undeploy", None), 73);
    }
}
