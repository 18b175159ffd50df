//! Ports: the network interfaces of a node, as callers describe them. A port belongs to one node for as long as it exists.

use jiff::Timestamp;

use super::{
    details,
    ids::{NodeId, PortGroupId, PortId},
    node::{Node, Object},
    node_ports::NodePorts,
    paging::{Listed, time_value},
    states::{Kind, State},
};
use crate::{limits, mac::Mac};

/// A network interface of a node.
#[derive(Debug, Clone, PartialEq)]
pub struct Port {
    /// Its UUID.
    pub id: PortId,
    /// What callers may write about it.
    pub about: About,
    /// The network somebody attached it to, by the caller's name for it.
    pub vif: Option<String>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was changed last.
    pub updated_at: Option<Timestamp>,
}

/// Everything callers may write about a port.
#[derive(Debug, Clone, PartialEq)]
pub struct About {
    /// Its hardware address. No two ports share one.
    pub address: Mac,
    /// Another name for it. No two ports share one.
    pub name: Option<String>,
    /// For people.
    pub description: Option<String>,
    /// Who made it.
    pub vendor: Option<String>,
    /// What it is used for.
    pub category: Option<String>,
    /// Whether its machine may boot through it.
    pub pxe_enabled: bool,
    /// Where it is plugged in.
    pub local_link: LocalLink,
    /// The group it is a part of.
    pub group: Option<PortGroupId>,
    /// The network its cable leads to.
    pub physical_network: Option<String>,
    /// It runs software of its own.
    pub is_smartnic: bool,
    /// Groups may be made of it as they are needed.
    pub available_for_dynamic_portgroup: bool,
    /// Anything else.
    pub extra: Object,
}

/// The other end of a cable.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LocalLink {
    /// The switch, by its hardware address or its OpenFlow identifier.
    pub switch_id: Option<String>,
    /// The port of the switch.
    pub port_id: Option<String>,
    /// The switch, for people.
    pub switch_info: Option<String>,
    /// The machine a port with software of its own is in.
    pub hostname: Option<String>,
    /// Whether anybody configures the switch.
    pub network_type: Option<String>,
}

/// Why a port or a port group is not made, changed or forgotten.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PortRefusal {
    /// It can never be.
    #[error("{0}")]
    Invalid(String),
    /// It collides with what is there, or the state of the node forbids it.
    #[error("{0}")]
    Conflict(String),
}

pub(super) fn invalid(reason: impl Into<String>) -> PortRefusal {
    PortRefusal::Invalid(reason.into())
}

pub(super) fn conflict(reason: impl Into<String>) -> PortRefusal {
    PortRefusal::Conflict(reason.into())
}

impl About {
    /// A port with an address, and everything else as it is unless somebody says otherwise.
    pub fn new(address: Mac) -> About {
        About {
            address,
            name: None,
            description: None,
            vendor: None,
            category: None,
            pxe_enabled: true,
            local_link: LocalLink::default(),
            group: None,
            physical_network: None,
            is_smartnic: false,
            available_for_dynamic_portgroup: true,
            extra: Object::new(),
        }
    }
}

/// A new port of a node.
pub fn create(ports: &NodePorts, id: PortId, about: About, at: Timestamp) -> Result<Port, PortRefusal> {
    ports.check_room()?;
    if ports.port(id).is_some() {
        return Err(conflict(format!("A port with UUID {id} already exists.")));
    }
    check(ports, &about)?;
    Ok(Port { id, about, vif: None, created_at: at, updated_at: None })
}

/// A port as it shall be. What cannot be changed while its node is in use is refused as a whole.
pub fn change(node: &Node, ports: &NodePorts, port: &Port, wanted: About, at: Timestamp) -> Result<Port, PortRefusal> {
    check(ports, &wanted)?;
    let was = &port.about;
    let connected = [
        ("pxe_enabled", was.pxe_enabled != wanted.pxe_enabled),
        ("local_link_connection", was.local_link != wanted.local_link),
        ("portgroup_uuid", was.group != wanted.group),
        ("physical_network", was.physical_network != wanted.physical_network),
    ];
    let changed: Vec<&str> = connected.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name).collect();
    if !changed.is_empty() && !may_be_rewired(node) {
        return Err(conflict(format!(
            "Port {} can not have any connectivity attributes ({}) updated unless node {} is in a enroll, inspecting, inspect \
             wait, manageable state or in maintenance mode. The current state is {}.",
            port.id,
            changed.join(", "),
            node.id,
            node.state.wire()
        )));
    }
    if was.address != wanted.address {
        check_address_change(node, "port", &port.id.to_string())?;
    }
    Ok(Port { about: wanted, updated_at: Some(at), ..port.clone() })
}

/// Whether a port may be forgotten.
pub fn check_removal(node: &Node, port: &Port) -> Result<(), PortRefusal> {
    let Some(vif) = &port.vif else { return Ok(()) };
    if node.maintenance.is_some() || !in_use(node) {
        return Ok(());
    }
    Err(conflict(format!(
        "Cannot delete the port {} as node {} is {} and VIF {vif} is attached to the port. Detach it, or set maintenance.",
        port.id,
        node.id,
        node.state.wire()
    )))
}

/// Ports and groups stay with their node: what they claim is claimed for it.
pub fn check_stays(node: NodeId, wanted: NodeId) -> Result<(), PortRefusal> {
    if node == wanted {
        return Ok(());
    }
    Err(invalid(format!("node_uuid: it belongs to node {node} and cannot be moved; delete it and create it there")))
}

/// Something runs on the node, or is about to.
fn in_use(node: &Node) -> bool {
    let working = !matches!(node.state.kind(), Kind::Stable);
    working || node.state == State::Active || node.details.instance_uuid.is_some()
}

/// Whether the cables of a node may be described anew.
fn may_be_rewired(node: &Node) -> bool {
    node.maintenance.is_some()
        || matches!(
            node.state,
            State::Enroll | State::VerifyFailed | State::Manageable | State::Inspecting | State::InspectWait
        )
}

/// The address of what a workload talks through stays.
pub(super) fn check_address_change(node: &Node, what: &str, id: &str) -> Result<(), PortRefusal> {
    let used = node.state == State::Active || node.details.instance_uuid.is_some();
    if node.maintenance.is_some() || !used {
        return Ok(());
    }
    Err(conflict(format!(
        "Cannot change the address of {what} {id} of node {}: it is active or has an instance. Set maintenance first.",
        node.id
    )))
}

fn check(ports: &NodePorts, about: &About) -> Result<(), PortRefusal> {
    if let Some(name) = &about.name {
        check_name("port", name)?;
    }
    for (field, text, max) in [
        ("description", &about.description, limits::PORT_DESCRIPTION_BYTES_MAX),
        ("vendor", &about.vendor, limits::PORT_VENDOR_BYTES_MAX),
        ("category", &about.category, limits::PORT_CATEGORY_BYTES_MAX),
        ("physical_network", &about.physical_network, limits::PHYSICAL_NETWORK_BYTES_MAX),
    ] {
        check_text(field, text.as_deref(), max)?;
    }
    check_link(&about.local_link)?;
    match about.group {
        Some(group) if ports.group(group).is_none() => {
            Err(invalid(format!("Portgroup {group} could not be found among those of node {}.", ports.node)))
        }
        _ => Ok(()),
    }
}

pub(super) fn check_text(field: &str, text: Option<&str>, max: usize) -> Result<(), PortRefusal> {
    match text {
        Some(text) if text.len() > max => Err(invalid(format!("{field} is longer than {max} bytes"))),
        _ => Ok(()),
    }
}

/// Names stand in paths, where they must be no UUID and no word of the API.
pub(super) fn check_name(what: &str, name: &str) -> Result<(), PortRefusal> {
    let taken = matches!(name, "detail" | "ports") || name.parse::<NodeId>().is_ok();
    if taken || !details::fits_in_path(name) {
        return Err(invalid(format!(
            "Cannot create {what} with invalid name {name:?}: letters, digits and -._~ are allowed, and it must be no UUID"
        )));
    }
    Ok(())
}

/// A link that is described at all says which port of which switch, or of which machine.
fn check_link(link: &LocalLink) -> Result<(), PortRefusal> {
    let LocalLink { switch_id, port_id, switch_info, hostname, network_type } = link;
    for text in [switch_id, port_id, switch_info, hostname].into_iter().flatten() {
        check_text("local_link_connection", Some(text), limits::NODE_TEXT_BYTES_MAX)?;
    }
    let wrong = |why: &str| Err(invalid(format!("Schema error for local_link_connection: {why}")));
    let unmanaged = match network_type.as_deref() {
        None | Some("managed") => false,
        Some("unmanaged") => true,
        Some(_) => return wrong("network_type is managed or unmanaged"),
    };
    if *link == LocalLink::default() || unmanaged {
        return Ok(());
    }
    if let Some(id) = switch_id {
        let datapath = id.len() == 16 && id.bytes().all(|b| b.is_ascii_hexdigit());
        if !datapath && id.parse::<Mac>().is_err() {
            return wrong("switch_id is a MAC address or an OpenFlow datapath ID of 16 hexadecimal digits");
        }
    }
    match (port_id, switch_id, hostname) {
        (None, ..) => wrong("'port_id' is a required property"),
        (Some(_), None, None) => wrong("'switch_id' is a required property"),
        _ => Ok(()),
    }
}

/// A port and the node it belongs to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Placed<'a> {
    /// The node.
    pub node: NodeId,
    /// The port.
    pub port: &'a Port,
}

impl Listed for Placed<'_> {
    const SORTABLE: &'static [&'static str] = &[
        "address",
        "available_for_dynamic_portgroup",
        "category",
        "created_at",
        "description",
        "is_smartnic",
        "name",
        "node_uuid",
        "physical_network",
        "portgroup_uuid",
        "pxe_enabled",
        "updated_at",
        "uuid",
        "vendor",
    ];

    fn uuid(&self) -> u128 {
        self.port.id.0
    }

    fn created_at(&self) -> Timestamp {
        self.port.created_at
    }

    fn sort_value(&self, member: &str) -> Option<String> {
        let Port { id, about, vif: _, created_at, updated_at } = self.port;
        match member {
            "address" => Some(about.address.to_string()),
            "available_for_dynamic_portgroup" => Some(about.available_for_dynamic_portgroup.to_string()),
            "category" => about.category.clone(),
            "created_at" => time_value(Some(*created_at)),
            "description" => about.description.clone(),
            "is_smartnic" => Some(about.is_smartnic.to_string()),
            "name" => about.name.clone(),
            "node_uuid" => Some(self.node.to_string()),
            "physical_network" => about.physical_network.clone(),
            "portgroup_uuid" => about.group.map(|group| group.to_string()),
            "pxe_enabled" => Some(about.pxe_enabled.to_string()),
            "updated_at" => time_value(*updated_at),
            "uuid" => Some(id.to_string()),
            "vendor" => about.vendor.clone(),
            _ => None,
        }
    }
}

/// Which ports a caller wants to see. Absent conditions hold for every port.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PortFilter {
    /// Those of one node.
    pub node: Option<NodeId>,
    /// The one with an address.
    pub address: Option<Mac>,
    /// Those in a group.
    pub group: Option<PortGroupId>,
    /// Those of nodes in one of these parts of a divided fleet.
    pub shards: Option<Vec<String>>,
    /// Those of nodes in one of these groups of conductors.
    pub conductor_groups: Option<Vec<String>>,
}

impl PortFilter {
    /// Whether a port meets every condition about itself.
    pub fn matches(&self, placed: &Placed<'_>) -> bool {
        let about = &placed.port.about;
        self.node.is_none_or(|node| placed.node == node)
            && self.address.is_none_or(|address| about.address == address)
            && self.group.is_none_or(|group| about.group == Some(group))
    }

    /// Whether it has conditions about the nodes of ports.
    pub fn asks_about_nodes(&self) -> bool {
        self.shards.is_some() || self.conductor_groups.is_some()
    }

    /// Whether the node of a port meets every condition about nodes. `None`: nobody has described it.
    pub fn matches_node(&self, node: Option<&Node>) -> bool {
        let one_of = |wanted: &Option<Vec<String>>, has: Option<&str>| {
            wanted.as_ref().is_none_or(|wanted| has.is_some_and(|has| wanted.iter().any(|text| text == has)))
        };
        one_of(&self.shards, node.and_then(|node| node.details.shard.as_deref()))
            && one_of(&self.conductor_groups, Some(node.map_or("", |node| node.group.as_str())))
    }
}

#[cfg(test)]
mod tests;
