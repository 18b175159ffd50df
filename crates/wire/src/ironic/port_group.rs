//! Port groups: what callers say about one, which of them they want to see, and what they are shown.

use sabakan_domain::provision::{
    ids::{NodeId, PortGroupId},
    node::Object,
    paging::Slice,
    port_group::{About, DEFAULT_MODE, Placed, PortGroup, PortGroupFilter},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    Document, Listing, Refused, Show, Version,
    document::{Flag, parse_uuid, schema},
    field::fields,
    links,
    listing::check_condition,
    port::{Creation, internal_info, parse_mac, take_node},
    time,
};

fields! {
    /// A member of a port group, in the order answers have them.
    PortGroupField of "portgroup";
    lists show Uuid Address Name Links;

    Uuid "uuid" 1,
    CreatedAt "created_at" 1,
    UpdatedAt "updated_at" 1,
    Address "address" 1,
    Extra "extra" 1,
    InternalInfo "internal_info" 1,
    Mode "mode" 26,
    Name "name" 1,
    Properties "properties" 26,
    StandalonePortsSupported "standalone_ports_supported" 1,
    NodeUuid "node_uuid" 1,
    PhysicalNetwork "physical_network" 102,
    Category "category" 103,
    DynamicPortgroup "dynamic_portgroup" 111,
    Links "links" 1,
    Ports "ports" 24,
}

/// Members of a port group that callers may write.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PortGroupInput {
    address: Option<String>,
    category: Option<String>,
    extra: Option<Object>,
    mode: Option<String>,
    name: Option<String>,
    node_uuid: Option<String>,
    physical_network: Option<String>,
    properties: Option<Object>,
    standalone_ports_supported: Flag,
}

impl Document for PortGroupInput {
    type Field = PortGroupField;
}

impl PortGroupInput {
    /// Reads the body of a creation.
    pub fn parse_new(mut body: Value, version: Version) -> Result<Creation<PortGroupId, About>, Refused> {
        let node = take_node::<PortGroupInput>(&mut body, version, 94)?;
        let (id, input) = PortGroupInput::parse_creation(body, version)?;
        let node = node.ok_or_else(|| schema::<PortGroupField>("'node_uuid' is a required property"))?;
        Ok((id, node, input.about()?))
    }

    /// The node it names, and everything else.
    pub fn parts(self) -> Result<(NodeId, About), Refused> {
        let node = self.node_uuid.clone().ok_or_else(|| Refused::invalid("node_uuid cannot be removed"))?;
        Ok((parse_uuid("node_uuid", &node)?, self.about()?))
    }

    fn about(self) -> Result<About, Refused> {
        let PortGroupInput {
            address,
            category,
            extra,
            mode,
            name,
            node_uuid: _,
            physical_network,
            properties,
            standalone_ports_supported,
        } = self;
        Ok(About {
            address: address.as_deref().map(|text| parse_mac("address", text)).transpose()?,
            name,
            mode: mode.unwrap_or_else(|| DEFAULT_MODE.to_owned()),
            properties: properties.unwrap_or_default(),
            standalone_ports_supported: standalone_ports_supported.0.unwrap_or(true),
            physical_network,
            category,
            extra: extra.unwrap_or_default(),
        })
    }
}

impl From<Placed<'_>> for PortGroupInput {
    fn from(placed: Placed<'_>) -> PortGroupInput {
        let About { address, name, mode, properties, standalone_ports_supported, physical_network, category, extra } =
            placed.group.about.clone();
        PortGroupInput {
            address: address.map(|address| address.to_string()),
            category,
            extra: Some(extra),
            mode: Some(mode),
            name,
            node_uuid: Some(placed.node.to_string()),
            physical_network,
            properties: Some(properties),
            standalone_ports_supported: Flag(Some(standalone_ports_supported)),
        }
    }
}

impl Show for Placed<'_> {
    type Field = PortGroupField;

    fn value(&self, field: PortGroupField, base: &str) -> Value {
        let PortGroup { id, about, vif, created_at, updated_at } = self.group;
        let About { address, name, mode, properties, standalone_ports_supported, physical_network, category, extra } =
            about;
        match field {
            PortGroupField::Uuid => json!(id.to_string()),
            PortGroupField::CreatedAt => json!(time(*created_at)),
            PortGroupField::UpdatedAt => json!(updated_at.map(time)),
            PortGroupField::Address => json!(address),
            PortGroupField::Extra => json!(extra),
            PortGroupField::InternalInfo => internal_info(vif.as_deref()),
            PortGroupField::Mode => json!(mode),
            PortGroupField::Name => json!(name),
            PortGroupField::Properties => json!(properties),
            PortGroupField::StandalonePortsSupported => json!(standalone_ports_supported),
            PortGroupField::NodeUuid => json!(self.node.to_string()),
            PortGroupField::PhysicalNetwork => json!(physical_network),
            PortGroupField::Category => json!(category),
            // Groups are made by callers only.
            PortGroupField::DynamicPortgroup => json!(false),
            PortGroupField::Links => json!(links(base, &format!("portgroups/{id}"))),
            PortGroupField::Ports => json!(links(base, &format!("portgroups/{id}/ports"))),
        }
    }
}

/// Which port groups are wanted, and what of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortGroupListing {
    /// Which. The node is not among them: callers may name it in two ways.
    pub filter: PortGroupFilter,
    /// The node they belong to, as the caller names it.
    pub node: Option<String>,
    /// Which part of them.
    pub slice: Slice,
    /// What of them.
    pub fields: Vec<PortGroupField>,
}

/// Conditions and the versions they came with.
const CONDITIONS: &[(&str, u16)] = &[("node", 23), ("address", 23)];

impl PortGroupListing {
    /// Reads the parameters of a list of port groups. `detail`: the path asks for whole groups.
    pub fn parse(pairs: Vec<(String, String)>, version: Version, detail: bool) -> Result<PortGroupListing, Refused> {
        let listing = Listing::<PortGroupField, PortGroupId>::parse(pairs, version, detail)?;
        let slice = listing.slice::<Placed<'_>>(listing.after.map(|id| id.0))?;
        let (mut filter, mut node) = (PortGroupFilter::default(), None);
        for (name, value) in listing.conditions {
            check_condition(CONDITIONS, &name, version)?;
            match name.as_str() {
                "node" => node = Some(value),
                "address" => filter.address = Some(parse_mac("address", &value)?),
                _ => {}
            }
        }
        Ok(PortGroupListing { filter, node, slice, fields: listing.fields })
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use sabakan_domain::mac::Mac;

    use super::*;
    use crate::ironic::{Answer, Field as _};

    fn group() -> PortGroup {
        let text = || Some("x".to_owned());
        let about = About {
            address: Some(Mac([2, 0, 0, 0, 0, 1])),
            name: text(),
            mode: "802.3ad".to_owned(),
            properties: Object::from([("miimon".to_owned(), json!("100"))]),
            standalone_ports_supported: false,
            physical_network: text(),
            category: text(),
            extra: Object::new(),
        };
        let (created_at, updated_at) = (Timestamp::UNIX_EPOCH, Some(Timestamp::UNIX_EPOCH));
        PortGroup { id: PortGroupId(1), about, vif: text(), created_at, updated_at }
    }

    #[test]
    fn a_document_is_read_as_it_is_written() {
        let group = group();
        let placed = Placed { node: NodeId(7), group: &group };
        let input = PortGroupInput::parse(PortGroupInput::from(placed).document()).expect("reads");
        assert_eq!(input.parts(), Ok((NodeId(7), group.about.clone())));
        assert_eq!(PortGroupInput::default().about(), Ok(About::default()));
    }

    #[test]
    fn every_member_of_a_full_group_is_shown() {
        let group = group();
        let of = Placed { node: NodeId(7), group: &group };
        let answer = Answer { of, fields: PortGroupField::ALL, base: "http://h:1" };
        let answer = serde_json::to_value(answer).expect("serialises");
        let shown = PortGroupField::ALL.iter().all(|field| !answer[field.name()].is_null());
        assert!(shown, "{answer}");
    }
}
