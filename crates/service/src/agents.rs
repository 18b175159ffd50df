//! Agents: what they are given, what they are told about the node they run on, and what they send back. The rules are in
//! `domain::provision::agent`; the commands they are given, in `drivers::agent`.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use bytes::Bytes;
use sabakan_domain::{
    limits::NODE_TEXT_BYTES_MAX,
    mac::Mac,
    provision::{
        agent, edit,
        ids::PortId,
        node::{Node, Object},
    },
    words::Serial,
};
use sabakan_drivers::Secret;
use sabakan_store::{repo::nodes, view::Snapshot};
use serde_json::{Map, Value, json};
use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

use crate::{ServiceError, limits, token::NoRandomness, vault::Vault};

/// What a token is sealed as. It is bound to the UUID of its node: names may change.
const SETTING: &str = "agent_token";

/// Random bytes of a token.
const TOKEN_BYTES: usize = 32;

/// A new token, and the same sealed for a node.
pub(crate) async fn issue(vault: &Vault, node: &Node) -> Result<(Secret, String), ServiceError> {
    let mut bytes = Zeroizing::new([0; TOKEN_BYTES]);
    getrandom::fill(&mut *bytes).map_err(NoRandomness::from)?;
    let token = Secret::new(URL_SAFE_NO_PAD.encode(*bytes));
    let sealed = vault.seal(&bound_to(node)?, SETTING, &token).await?;
    Ok((token, sealed))
}

/// The token that was sealed for a node.
pub(crate) async fn open(vault: &Vault, node: &Node, sealed: &str) -> Result<Secret, ServiceError> {
    vault.open(&bound_to(node)?, SETTING, sealed).await
}

/// Whether a text is the token that was sealed for a node. Takes as long for a wrong one as for the right one.
pub(crate) async fn proves(vault: &Vault, node: &Node, sealed: &str, shown: &str) -> Result<bool, ServiceError> {
    let token = open(vault, node, sealed).await?;
    Ok(token.expose().as_bytes().ct_eq(shown.as_bytes()).into())
}

fn bound_to(node: &Node) -> Result<Serial, ServiceError> {
    Serial::new(node.id.to_string()).map_err(|error| ServiceError::Invalid(error.to_string()))
}

/// A node as agents know it. No setting of its driver is in it: an agent runs on the machine itself and needs none.
pub(crate) fn node_json(node: &Node) -> Value {
    json!({
        "uuid": node.id.to_string(),
        "name": edit::shown_name(node),
        "driver_info": {},
        "driver_internal_info": agent::erasing(),
        "properties": node.properties,
        "instance_info": node.instance_info,
        "instance_uuid": node.details.instance_uuid,
        "extra": node.extra,
        "raid_config": {},
        "target_raid_config": node.details.target_raid,
        "traits": node.details.traits,
        "network_data": node.details.network_data,
        "boot_mode": node.controls.boot_mode.map(|mode| mode.as_str()),
        "secure_boot": node.controls.secure_boot,
        "provision_state": node.state.wire(),
        "target_provision_state": node.target.map(|state| state.wire()),
    })
}

/// The ports of a node as agents know them.
pub(crate) fn ports_json(snapshot: &Snapshot, node: &Node) -> Value {
    let Some(found) = snapshot.ports().of_node(node.id) else { return json!([]) };
    let port = |port: &sabakan_domain::provision::port::Port| {
        json!({
            "uuid": port.id.to_string(),
            "node_uuid": node.id.to_string(),
            "address": port.about.address,
            "name": port.about.name,
            "pxe_enabled": port.about.pxe_enabled,
            "physical_network": port.about.physical_network,
            "extra": port.about.extra,
        })
    };
    found.ports.iter().map(port).collect()
}

/// What an agent found in its machine.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Found {
    /// As it is stored and served, and the addresses that get ports.
    pub stored: nodes::Found,
    /// What it says about the node's properties.
    pub properties: Object,
    /// Addresses of the machine's interfaces.
    pub macs: Vec<Mac>,
}

/// Reads what an agent sent.
pub(crate) fn read(data: Value) -> Result<Found, ServiceError> {
    let invalid = |text: &str| ServiceError::Invalid(text.to_owned());
    let Value::Object(mut members) = data else { return Err(invalid("the inspection data is not a JSON object")) };
    let inventory = members.remove("inventory").filter(Value::is_object);
    let inventory = inventory.ok_or_else(|| invalid("inventory: an object is needed"))?;
    let interfaces = inventory["interfaces"].as_array().filter(|list| !list.is_empty());
    let interfaces = interfaces.ok_or_else(|| invalid("inventory: at least one interface is needed"))?;
    if interfaces.len() > limits::INSPECTED_INTERFACES_MAX {
        return Err(invalid("inventory: there are too many interfaces"));
    }
    let mac = |interface: &Value| interface["mac_address"].as_str().and_then(|text| text.parse().ok());
    let macs: Vec<Mac> = interfaces.iter().filter_map(mac).collect();
    if macs.is_empty() {
        return Err(invalid("inventory: no interface has a valid mac_address"));
    }
    // A log of the whole boot, of use for nothing that is done here.
    members.remove("logs");
    let all = by_name(interfaces, &members);
    let valid = all.iter().filter(|(_, interface)| mac(interface).is_some());
    members.insert("valid_interfaces".to_owned(), valid.map(|(name, value)| (name.clone(), value.clone())).collect());
    members.insert("all_interfaces".to_owned(), Value::Object(all));
    members.insert("macs".to_owned(), json!(macs));
    let properties = properties(&inventory);
    let inventory = Bytes::from(json!({ "inventory": inventory, "plugin_data": members }).to_string());
    if inventory.len() > limits::INSPECTION_STORED_BYTES_MAX {
        return Err(ServiceError::TooLarge(format!(
            "the inspection data has more than {} bytes without its logs",
            limits::INSPECTION_STORED_BYTES_MAX
        )));
    }
    let addresses = macs.iter().map(|mac| (PortId(uuid::Uuid::new_v4().as_u128()), *mac)).collect();
    Ok(Found { stored: nodes::Found { inventory, addresses }, properties, macs })
}

/// Interfaces by their names, each with whether its machine booted through it.
fn by_name(interfaces: &[Value], told: &Map<String, Value>) -> Map<String, Value> {
    // The type of the hardware in front, dashes between, as boot loaders write it.
    let booted = told.get("boot_interface").and_then(Value::as_str).unwrap_or_default().to_ascii_lowercase();
    let booted = booted.strip_prefix("01-").unwrap_or(&booted).replace('-', ":");
    let named = |interface: &Value| {
        let mut members = interface.as_object()?.clone();
        let mac = members.get("mac_address").and_then(Value::as_str).map(str::to_ascii_lowercase);
        members.insert("pxe_enabled".to_owned(), json!(mac.is_some_and(|mac| mac == booted)));
        let name = members.get("name").and_then(Value::as_str)?.to_owned();
        Some((name, Value::Object(members)))
    };
    interfaces.iter().filter_map(named).collect()
}

/// What an inventory says about a node, in the words of the provisioning API.
fn properties(inventory: &Value) -> Object {
    let mut properties = Object::new();
    let mut set = |name: &str, value: Option<Value>| properties.extend(value.map(|value| (name.to_owned(), value)));
    // They go into the node, which everybody reads all the time; what is longer is in the inventory.
    let text = |value: &Value| value.as_str().filter(|text| text.len() <= NODE_TEXT_BYTES_MAX).map(|text| json!(text));
    set("cpu_arch", text(&inventory["cpu"]["architecture"]));
    set("cpus", inventory["cpu"]["count"].as_u64().map(|count| json!(count)));
    set("memory_mb", inventory["memory"]["physical_mb"].as_u64().map(|mib| json!(mib)));
    set("vendor", text(&inventory["system_vendor"]["manufacturer"]));
    // As for other inspections: the smallest disk a system fits on, less a gibibyte.
    let gib = 1_u64 << 30;
    let disks = inventory["disks"].as_array().into_iter().flatten();
    let root = disks.filter_map(|disk| disk["size"].as_u64()).filter(|size| *size >= 4 * gib).min();
    set("local_gb", root.map(|size| json!(size / gib - 1)));
    properties
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_agent_found_is_read_with_care() {
        let data = json!({
            "inventory": {
                "interfaces": [
                    { "name": "eth0", "mac_address": "52:54:00:A9:00:01" },
                    { "name": "eth1", "mac_address": "nonsense" },
                    7,
                ],
                "cpu": { "architecture": "x86_64", "count": 4 },
                "system_vendor": { "manufacturer": "x".repeat(NODE_TEXT_BYTES_MAX + 1) },
                "memory": { "physical_mb": 8192 },
                "disks": [{ "size": 53_687_091_200_u64 }, { "size": 1 }, { "size": "x" }],
            },
            "logs": "very long",
            "boot_interface": "01-52-54-00-a9-00-01",
        });
        let found = read(data).expect("it is read");
        assert_eq!(found.macs.iter().map(ToString::to_string).collect::<Vec<_>>(), ["52:54:00:a9:00:01"]);
        assert_eq!((&found.properties["local_gb"], &found.properties["cpus"]), (&json!(49), &json!(4)));
        assert!(found.properties.contains_key("cpu_arch") && !found.properties.contains_key("vendor"), "too long");
        let stored: Value = serde_json::from_slice(&found.stored.inventory).expect("JSON");
        let derived = &stored["plugin_data"];
        assert_eq!(derived["macs"], json!(["52:54:00:a9:00:01"]));
        assert_eq!(derived["valid_interfaces"]["eth0"]["pxe_enabled"], json!(true));
        assert_eq!(derived["all_interfaces"].as_object().map(Map::len), Some(2));
        assert!(derived.get("logs").is_none() && derived["valid_interfaces"].get("eth1").is_none());
        for bad in [
            json!(null),
            json!([]),
            json!({}),
            json!({ "inventory": 7 }),
            json!({ "inventory": { "interfaces": [] } }),
            json!({ "inventory": { "interfaces": [{ "mac_address": 7 }] } }),
            json!({ "inventory": { "interfaces": vec![json!({}); limits::INSPECTED_INTERFACES_MAX + 1] } }),
        ] {
            assert!(matches!(read(bad.clone()), Err(ServiceError::Invalid(_))), "{bad}");
        }
        let large = json!({
            "inventory": { "interfaces": [{ "mac_address": "52:54:00:a9:00:01" }] },
            "x": "y".repeat(limits::INSPECTION_STORED_BYTES_MAX),
        });
        assert!(matches!(read(large), Err(ServiceError::TooLarge(_))));
    }
}
