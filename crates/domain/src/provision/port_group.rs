//! Port groups: ports of one node that act as one, for example a bond.

use jiff::Timestamp;

use super::{
    ids::{NodeId, PortGroupId},
    node::{Node, Object},
    node_ports::NodePorts,
    paging::{Listed, time_value},
    port::{PortRefusal, check_address_change, check_name, check_text, conflict, invalid},
};
use crate::{limits, mac::Mac};

/// Ports of one node that act as one.
#[derive(Debug, Clone, PartialEq)]
pub struct PortGroup {
    /// Its UUID.
    pub id: PortGroupId,
    /// What callers may write about it.
    pub about: About,
    /// The network somebody attached it to, by the caller's name for it.
    pub vif: Option<String>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was changed last.
    pub updated_at: Option<Timestamp>,
}

/// Everything callers may write about a port group.
#[derive(Debug, Clone, PartialEq)]
pub struct About {
    /// Its hardware address. No two groups share one.
    pub address: Option<Mac>,
    /// Another name for it. No two groups share one.
    pub name: Option<String>,
    /// How its ports share the work.
    pub mode: String,
    /// Settings of that.
    pub properties: Object,
    /// Its ports may be used one by one as well.
    pub standalone_ports_supported: bool,
    /// The network its cables lead to.
    pub physical_network: Option<String>,
    /// What it is used for.
    pub category: Option<String>,
    /// Anything else.
    pub extra: Object,
}

/// How ports share the work unless somebody says otherwise.
pub const DEFAULT_MODE: &str = "active-backup";

impl Default for About {
    fn default() -> About {
        About {
            address: None,
            name: None,
            mode: DEFAULT_MODE.to_owned(),
            properties: Object::new(),
            standalone_ports_supported: true,
            physical_network: None,
            category: None,
            extra: Object::new(),
        }
    }
}

/// A new group of a node.
pub fn create(ports: &NodePorts, id: PortGroupId, about: About, at: Timestamp) -> Result<PortGroup, PortRefusal> {
    ports.check_room()?;
    if ports.group(id).is_some() {
        return Err(conflict(format!("A portgroup with UUID {id} already exists.")));
    }
    check(&about)?;
    Ok(PortGroup { id, about, vif: None, created_at: at, updated_at: None })
}

/// A group as it shall be.
pub fn change(node: &Node, group: &PortGroup, wanted: About, at: Timestamp) -> Result<PortGroup, PortRefusal> {
    check(&wanted)?;
    if group.about.address != wanted.address {
        check_address_change(node, "portgroup", &group.id.to_string())?;
    }
    Ok(PortGroup { about: wanted, updated_at: Some(at), ..group.clone() })
}

/// Whether a group may be forgotten: not while ports are in it.
pub fn check_removal(ports: &NodePorts, group: &PortGroup) -> Result<(), PortRefusal> {
    if ports.members(group.id).next().is_none() {
        return Ok(());
    }
    Err(invalid(format!("Cannot complete the requested action because portgroup {} contains ports.", group.id)))
}

fn check(about: &About) -> Result<(), PortRefusal> {
    if let Some(name) = &about.name {
        check_name("portgroup", name)?;
    }
    check_text("mode", Some(&about.mode), limits::NODE_TEXT_BYTES_MAX)?;
    check_text("category", about.category.as_deref(), limits::PORT_CATEGORY_BYTES_MAX)?;
    check_text("physical_network", about.physical_network.as_deref(), limits::PHYSICAL_NETWORK_BYTES_MAX)
}

/// A group and the node it belongs to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Placed<'a> {
    /// The node.
    pub node: NodeId,
    /// The group.
    pub group: &'a PortGroup,
}

impl Listed for Placed<'_> {
    const SORTABLE: &'static [&'static str] = &[
        "address",
        "category",
        "created_at",
        "mode",
        "name",
        "node_uuid",
        "physical_network",
        "standalone_ports_supported",
        "updated_at",
        "uuid",
    ];

    fn uuid(&self) -> u128 {
        self.group.id.0
    }

    fn created_at(&self) -> Timestamp {
        self.group.created_at
    }

    fn sort_value(&self, member: &str) -> Option<String> {
        let PortGroup { id, about, vif: _, created_at, updated_at } = self.group;
        match member {
            "address" => about.address.map(|address| address.to_string()),
            "category" => about.category.clone(),
            "created_at" => time_value(Some(*created_at)),
            "mode" => Some(about.mode.clone()),
            "name" => about.name.clone(),
            "node_uuid" => Some(self.node.to_string()),
            "physical_network" => about.physical_network.clone(),
            "standalone_ports_supported" => Some(about.standalone_ports_supported.to_string()),
            "updated_at" => time_value(*updated_at),
            "uuid" => Some(id.to_string()),
            _ => None,
        }
    }
}

/// Which groups a caller wants to see.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PortGroupFilter {
    /// Those of one node.
    pub node: Option<NodeId>,
    /// The one with an address.
    pub address: Option<Mac>,
}

impl PortGroupFilter {
    /// Whether a group meets every condition.
    pub fn matches(&self, placed: &Placed<'_>) -> bool {
        self.node.is_none_or(|node| placed.node == node)
            && self.address.is_none_or(|address| placed.group.about.address == Some(address))
    }
}
