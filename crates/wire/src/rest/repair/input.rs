//! What people send about repairs and reboots. Everything that is wrong is told at once, each with its field.

use std::net::Ipv4Addr;

use sabakan_domain::{cluster::shape::Problem, words::Serial};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A repair that somebody asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct NewRepairJson {
    /// What is wrong; an operation of the procedure for the machine type.
    #[schema(example = "unreachable")]
    pub operation: String,
    /// The BMC type of the machine.
    pub machine_type: String,
    /// Its IPv4 address.
    pub address: String,
    /// Its serial; without it, that of the registered machine with the address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serial: Option<String>,
}

/// The same, understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRepair {
    /// What is wrong.
    pub operation: String,
    /// The BMC type of the machine.
    pub machine_type: String,
    /// Its address.
    pub address: Ipv4Addr,
    /// Its serial.
    pub serial: Option<Serial>,
}

/// Nodes that somebody wants rebooted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct NewRebootsJson {
    /// Their IPv4 addresses.
    pub nodes: Vec<String>,
}

/// That a person has looked at an incident.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct AcknowledgeJson {
    /// What they say.
    #[serde(default)]
    pub reason: String,
}

/// Reads a repair that somebody asks for.
pub fn new_repair_from_input(document: &Value) -> Result<NewRepair, Vec<Problem>> {
    let mut problems = Vec::new();
    let members = object(document, &["operation", "machine_type", "address", "serial"], &mut problems);
    let operation = text(members, "operation", &mut problems);
    let machine_type = text(members, "machine_type", &mut problems);
    let address = text(members, "address", &mut problems).and_then(|text| {
        let address = ipv4(&text).map_err(|reason| problems.push(Problem::new("address", reason)));
        address.ok()
    });
    let serial = match members.and_then(|members| members.get("serial")) {
        None | Some(Value::Null) => None,
        Some(Value::String(text)) => {
            let serial = Serial::new(text).map_err(|error| problems.push(Problem::new("serial", error.to_string())));
            serial.ok()
        }
        Some(_) => {
            problems.push(Problem::new("serial", "must be a text"));
            None
        }
    };
    match (operation, machine_type, address) {
        (Some(operation), Some(machine_type), Some(address)) if problems.is_empty() => {
            Ok(NewRepair { operation, machine_type, address, serial })
        }
        _ => Err(problems),
    }
}

/// Reads nodes that somebody wants rebooted: an object with `nodes`, or a text with one address in each line.
pub fn nodes_from_input(body: &str) -> Result<Vec<Ipv4Addr>, Vec<Problem>> {
    let mut problems = Vec::new();
    let nodes = if body.trim_start().starts_with(['{', '[', '"']) {
        let document = serde_json::from_str(body).map_err(|error| vec![not_json(&error)])?;
        let members = object(&document, &["nodes"], &mut problems);
        listed(members.and_then(|members| members.get("nodes")), &mut problems)
    } else {
        let lines = body.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        let mut node = |(n, line): (usize, &str)| {
            let address = ipv4(line.trim());
            address.map_err(|reason| problems.push(Problem::new(format!("line {}", n + 1), reason))).ok()
        };
        lines.filter_map(&mut node).collect()
    };
    if nodes.is_empty() && problems.is_empty() {
        problems.push(Problem::new("nodes", "names no node"));
    }
    if problems.is_empty() { Ok(nodes) } else { Err(problems) }
}

/// Reads what a person says about an incident. An empty body says nothing, which is allowed.
pub fn acknowledge_from_input(body: &[u8]) -> Result<AcknowledgeJson, Vec<Problem>> {
    if body.trim_ascii().is_empty() {
        return Ok(AcknowledgeJson::default());
    }
    let document: Value = serde_json::from_slice(body).map_err(|error| vec![not_json(&error)])?;
    let mut problems = Vec::new();
    let members = object(&document, &["reason"], &mut problems);
    let reason = match members.and_then(|members| members.get("reason")) {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(_) => {
            problems.push(Problem::new("reason", "must be a text"));
            String::new()
        }
    };
    if problems.is_empty() { Ok(AcknowledgeJson { reason }) } else { Err(problems) }
}

fn not_json(error: &serde_json::Error) -> Problem {
    Problem::new("", format!("is not JSON: {error}"))
}

/// The members of an object, whose names are known. A misspelt name must not be taken for something left out.
fn object<'a>(document: &'a Value, known: &[&str], problems: &mut Vec<Problem>) -> Option<&'a Map<String, Value>> {
    let Some(members) = document.as_object() else {
        problems.push(Problem::new("", format!("must be an object with {}", known.join(", "))));
        return None;
    };
    let unknown = members.keys().filter(|name| !known.contains(&name.as_str()));
    problems.extend(unknown.map(|name| Problem::new(name, format!("is not known; known: {}", known.join(", ")))));
    Some(members)
}

/// A text that must be there. Nothing is told about it if there is no object at all.
fn text(members: Option<&Map<String, Value>>, name: &str, problems: &mut Vec<Problem>) -> Option<String> {
    let reason = match members?.get(name) {
        Some(Value::String(text)) if !text.is_empty() => return Some(text.clone()),
        Some(Value::String(_)) => "must not be empty",
        None | Some(Value::Null) => "is missing",
        Some(_) => "must be a text",
    };
    problems.push(Problem::new(name, reason));
    None
}

fn listed(value: Option<&Value>, problems: &mut Vec<Problem>) -> Vec<Ipv4Addr> {
    let Some(items) = value.and_then(Value::as_array) else {
        if problems.is_empty() {
            problems.push(Problem::new("nodes", "must be a list of IPv4 addresses"));
        }
        return Vec::new();
    };
    let mut node = |(n, item): (usize, &Value)| {
        let address = item.as_str().ok_or_else(|| "must be a text with an IPv4 address".to_owned()).and_then(ipv4);
        address.map_err(|reason| problems.push(Problem::new(format!("nodes[{n}]"), reason))).ok()
    };
    items.iter().enumerate().filter_map(&mut node).collect()
}

/// How much of what somebody wrote is told back.
const QUOTED: usize = 40;

fn ipv4(text: &str) -> Result<Ipv4Addr, String> {
    let quoted: String = text.chars().take(QUOTED).collect();
    text.parse().map_err(|_| format!("{quoted:?} is no IPv4 address such as 10.0.0.1"))
}
