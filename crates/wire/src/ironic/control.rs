//! What callers set and call on a single machine: how it boots, its console, its lights, wanted volumes, a vendor's methods; and what
//! other services report.

use sabakan_domain::provision::{
    boot::BootMode,
    control::{Indicator, Light, VendorMethod},
    node::Object,
    steps::Args,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{
    LinkJson, Refused, links,
    states::{flag, members},
};

/// `PUT …/states/boot_mode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BootModeRequest {
    /// UEFI or legacy.
    pub target: BootMode,
}

impl BootModeRequest {
    /// Reads the body.
    pub fn parse(body: &Value) -> Result<BootModeRequest, Refused> {
        let target = target(body)?;
        let word = target.as_str().map_or_else(|| target.to_string(), str::to_owned);
        Ok(BootModeRequest { target: word.parse().map_err(Refused::Invalid)? })
    }
}

/// `PUT …/states/secure_boot`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SecureBootRequest {
    /// Whether only signed programs start.
    pub target: bool,
}

impl SecureBootRequest {
    /// Reads the body.
    pub fn parse(body: &Value) -> Result<SecureBootRequest, Refused> {
        Ok(SecureBootRequest { target: flag("target", target(body)?)? })
    }
}

fn target(body: &Value) -> Result<&Value, Refused> {
    let target = members(body, &["target"])?.get("target");
    target.ok_or_else(|| Refused::invalid("Missing mandatory parameter: target"))
}

/// `PUT …/states/console`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConsoleRequest {
    /// On or off.
    pub enabled: bool,
}

impl ConsoleRequest {
    /// Reads the body.
    pub fn parse(body: &Value) -> Result<ConsoleRequest, Refused> {
        let enabled = members(body, &["enabled"])?.get("enabled");
        let enabled = enabled.ok_or_else(|| Refused::invalid("Missing mandatory parameter: enabled"))?;
        Ok(ConsoleRequest { enabled: flag("enabled", enabled)? })
    }
}

/// `GET …/states/console`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ConsoleJson {
    /// Whether it is on.
    pub console_enabled: bool,
    /// Where it is; nobody here has more to say than that it is on.
    pub console_info: Option<Map<String, Value>>,
}

impl ConsoleJson {
    /// A console that is on or off.
    pub fn of(console_enabled: bool) -> ConsoleJson {
        ConsoleJson { console_enabled, console_info: console_enabled.then(Map::new) }
    }
}

/// `PUT …/states/raid`: volumes somebody wants, as they are; the rules are in `domain`.
#[derive(Debug, Clone, PartialEq)]
pub struct RaidRequest {
    /// What is wanted.
    pub wanted: Object,
}

impl RaidRequest {
    /// Reads the body.
    pub fn parse(body: Value) -> Result<RaidRequest, Refused> {
        match body {
            Value::Object(members) => Ok(RaidRequest { wanted: members.into_iter().collect() }),
            _ => Err(Refused::invalid("target_raid_config is not a JSON object")),
        }
    }
}

/// A light of a machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndicatorJson {
    /// Its name, `@`, and the part it is on.
    pub name: String,
    /// The part it is on.
    pub component: String,
    /// Nobody can change it from here.
    pub readonly: bool,
    /// What it can show.
    pub states: Vec<String>,
    /// Links to it.
    pub links: Vec<LinkJson>,
}

impl IndicatorJson {
    /// A light of the node that the caller calls `node`.
    pub fn of(indicator: &Indicator, node: &str, base: &str) -> IndicatorJson {
        let Indicator { component, name, read_only, states, state: _ } = indicator;
        let name = format!("{name}@{component}");
        IndicatorJson {
            links: links(base, &format!("nodes/{node}/management/indicators/{name}")).to_vec(),
            name,
            component: (*component).to_owned(),
            readonly: *read_only,
            states: states.iter().map(|light| light.as_str().to_owned()).collect(),
        }
    }
}

/// Name and part of a light, from the name in a path.
pub fn indicator_name(text: &str) -> Result<(&str, &str), Refused> {
    let parts = text.rsplit_once('@').filter(|(name, component)| !name.is_empty() && !component.is_empty());
    parts.ok_or_else(|| Refused::invalid(format!("Malformed indicator name {text:?}")))
}

/// `PUT …/management/indicators/{name}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndicatorRequest {
    /// What it shall show.
    pub state: Light,
}

impl IndicatorRequest {
    /// Reads the body.
    pub fn parse(body: &Value) -> Result<IndicatorRequest, Refused> {
        let state = members(body, &["state"])?.get("state").and_then(Value::as_str);
        let state = state.ok_or_else(|| Refused::invalid("Missing mandatory parameter: state"))?;
        Ok(IndicatorRequest { state: state.parse().map_err(|reason| Refused::invalid(format!("state: {reason}")))? })
    }
}

/// A vendor's method.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VendorMethodJson {
    /// How it is called.
    pub http_methods: Vec<String>,
    /// The caller does not wait for a result.
    #[serde(rename = "async")]
    pub asynchronous: bool,
    /// For people.
    pub description: String,
    /// Whether the answer is a file; none is.
    pub attach: bool,
    /// It changes the machine.
    pub require_exclusive_lock: bool,
}

impl From<&VendorMethod> for VendorMethodJson {
    fn from(method: &VendorMethod) -> VendorMethodJson {
        let VendorMethod { name: _, http_methods, asynchronous, exclusive, parameters: _, text } = *method;
        VendorMethodJson {
            http_methods: http_methods.iter().map(|name| (*name).to_owned()).collect(),
            asynchronous,
            description: text.to_owned(),
            attach: false,
            require_exclusive_lock: exclusive,
        }
    }
}

/// Parameters of a vendor's method: those of the query, and over them those of the body.
pub fn parameters(query: Vec<(String, String)>, body: Value) -> Result<Args, Refused> {
    let mut args: Args = query.into_iter().map(|(name, value)| (name, Value::String(value))).collect();
    match body {
        Value::Null => {}
        Value::Object(members) => args.extend(members),
        _ => return Err(Refused::invalid("the body is not a JSON object")),
    }
    Ok(args)
}

/// `POST /v1/events`: what another service noticed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventsRequest {
    /// What happened, by name.
    pub names: Vec<String>,
}

/// Events of a network service. Nothing here waits for one.
const EVENTS: [&str; 3] = ["network.bind_port", "network.unbind_port", "network.delete_port"];

impl EventsRequest {
    /// Reads the body.
    pub fn parse(body: &Value) -> Result<EventsRequest, Refused> {
        let events = members(body, &["events"])?.get("events").and_then(Value::as_array);
        let events = events.filter(|events| !events.is_empty());
        let events = events.ok_or_else(|| Refused::invalid("Invalid events: a list with at least one is needed"))?;
        let name = |event: &Value| {
            let name = event.get("event").and_then(Value::as_str).filter(|name| EVENTS.contains(name));
            let name =
                name.ok_or_else(|| Refused::invalid(format!("Invalid events: event is one of {}", EVENTS.join(", "))))?;
            let missing = |member: &&str| event.get(*member).and_then(Value::as_str).is_none();
            match ["port_id", "mac_address", "status"].into_iter().find(missing) {
                Some(member) => Err(Refused::invalid(format!("Invalid events: {name} needs {member}"))),
                None => Ok(name.to_owned()),
            }
        };
        Ok(EventsRequest { names: events.iter().map(name).collect::<Result<_, _>>()? })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_set_on_a_machine() {
        assert_eq!(BootModeRequest::parse(&json!({ "target": "uefi" })).map(|r| r.target), Ok(BootMode::Uefi));
        let weird = BootModeRequest::parse(&json!({ "target": "weird" })).expect_err("no mode").to_string();
        assert_eq!(weird, "Invalid boot mode weird requested for node. Allowed boot modes are: bios, uefi");
        assert!(BootModeRequest::parse(&json!({ "target": 1 })).is_err());
        assert!(BootModeRequest::parse(&json!({})).is_err() && BootModeRequest::parse(&json!(null)).is_err());
        assert_eq!(SecureBootRequest::parse(&json!({ "target": "off" })).map(|r| r.target), Ok(false));
        assert!(SecureBootRequest::parse(&json!({ "target": "weird" })).is_err());
        assert_eq!(ConsoleRequest::parse(&json!({ "enabled": true })).map(|r| r.enabled), Ok(true));
        assert!(ConsoleRequest::parse(&json!({ "enabled": 7 })).is_err());
        assert!(RaidRequest::parse(json!([])).is_err());
        assert_eq!(serde_json::to_value(ConsoleJson::of(false)).expect("JSON")["console_info"], json!(null));
    }

    #[test]
    fn lights_are_named_with_their_part() {
        assert_eq!(indicator_name("led-0@chassis"), Ok(("led-0", "chassis")));
        for bad in ["chassis", "@chassis", "led@", ""] {
            assert!(indicator_name(bad).is_err(), "{bad}");
        }
        assert_eq!(IndicatorRequest::parse(&json!({ "state": "ON" })).map(|r| r.state), Ok(Light::On));
        assert!(IndicatorRequest::parse(&json!({ "state": "purple" })).is_err());
    }

    #[test]
    fn a_body_goes_over_the_query() {
        let query = vec![("a".to_owned(), "1".to_owned()), ("b".to_owned(), "2".to_owned())];
        let args = parameters(query, json!({ "b": 3 })).expect("parameters");
        assert_eq!(args, Args::from([("a".to_owned(), json!("1")), ("b".to_owned(), json!(3))]));
        assert!(parameters(Vec::new(), json!("x")).is_err());
    }

    #[test]
    fn events_of_a_network_are_understood() {
        let event = json!({ "event": "network.bind_port", "port_id": "p", "mac_address": "m", "status": "ACTIVE" });
        assert_eq!(EventsRequest::parse(&json!({ "events": [event] })).map(|r| r.names.len()), Ok(1));
        for bad in [
            json!({}),
            json!({ "events": [] }),
            json!({ "events": "x" }),
            json!({ "events": [{ "event": "tea" }] }),
            json!({ "events": [{ "event": "network.bind_port" }] }),
            json!({ "events": [null] }),
        ] {
            assert!(EventsRequest::parse(&bad).is_err(), "{bad}");
        }
    }
}
