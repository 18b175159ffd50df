//! Ports: what callers say about one, which of them they want to see, and what they are shown.

use std::collections::BTreeMap;

use sabakan_domain::{
    mac::Mac,
    provision::{
        ids::{NodeId, PortId},
        node::Object,
        paging::Slice,
        port::{About, LocalLink, Placed, Port, PortFilter},
    },
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    Document, Listing, Refused, Show, Version,
    document::{Flag, parse_uuid, schema},
    field::fields,
    links,
    listing::check_condition,
    time,
};

fields! {
    /// A member of a port, in the order answers have them.
    PortField of "port";
    lists show Uuid Address Links;

    Uuid "uuid" 1,
    CreatedAt "created_at" 1,
    UpdatedAt "updated_at" 1,
    Address "address" 1,
    Extra "extra" 1,
    InternalInfo "internal_info" 18,
    IsSmartnic "is_smartnic" 53,
    LocalLinkConnection "local_link_connection" 19,
    PhysicalNetwork "physical_network" 34,
    PxeEnabled "pxe_enabled" 19,
    NodeUuid "node_uuid" 1,
    Name "name" 88,
    Description "description" 97,
    Vendor "vendor" 100,
    Category "category" 101,
    AvailableForDynamicPortgroup "available_for_dynamic_portgroup" 111,
    Links "links" 1,
    PortgroupUuid "portgroup_uuid" 24,
}

/// Members of a port that callers may write.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PortInput {
    address: Option<String>,
    available_for_dynamic_portgroup: Flag,
    category: Option<String>,
    description: Option<String>,
    extra: Option<Object>,
    is_smartnic: Flag,
    local_link_connection: Option<Object>,
    name: Option<String>,
    node_uuid: Option<String>,
    physical_network: Option<String>,
    portgroup_uuid: Option<String>,
    pxe_enabled: Flag,
    vendor: Option<String>,
}

impl Document for PortInput {
    type Field = PortField;
}

/// What a creation says: the UUID, if one is given, the node as the caller names it, and everything else.
pub type Creation<I, T> = (Option<I>, String, T);

/// Takes the node out of the body of a creation: by UUID, or, since 1.94 for ports, by whatever names it.
pub(super) fn take_node<D: Document>(
    body: &mut Value,
    version: Version,
    ident_since: u16,
) -> Result<Option<String>, Refused> {
    let Some(members) = body.as_object_mut() else { return Ok(None) };
    let ident = match members.remove("node_ident") {
        None | Some(Value::Null) => None,
        Some(_) if !version.has(ident_since) => return Err(Refused::newer("node_ident", ident_since)),
        Some(Value::String(text)) => Some(text),
        Some(other) => return Err(schema::<D::Field>(format!("{other} is not of type 'string'"))),
    };
    match (ident, members.get("node_uuid").and_then(Value::as_str)) {
        (Some(_), Some(_)) => Err(schema::<D::Field>("node_uuid and node_ident name the node twice")),
        (ident, None) => Ok(ident),
        (None, Some(uuid)) => parse_uuid::<NodeId>("node_uuid", uuid).map(|_| Some(uuid.to_owned())),
    }
}

impl PortInput {
    /// Reads the body of a creation.
    pub fn parse_new(mut body: Value, version: Version) -> Result<Creation<PortId, About>, Refused> {
        let node = take_node::<PortInput>(&mut body, version, 94)?;
        if body.pointer("/local_link_connection/network_type").is_some() && !version.has(64) {
            return Err(Refused::newer("local_link_connection/network_type", 64));
        }
        let (id, input) = PortInput::parse_creation(body, version)?;
        let about = input.about()?;
        let node = node.ok_or_else(|| schema::<PortField>("'node_uuid' is a required property"))?;
        Ok((id, node, about))
    }

    /// The node it names, and everything else.
    pub fn parts(self) -> Result<(NodeId, About), Refused> {
        let node = self.node_uuid.clone().ok_or_else(|| Refused::invalid("node_uuid cannot be removed"))?;
        Ok((parse_uuid("node_uuid", &node)?, self.about()?))
    }

    fn about(self) -> Result<About, Refused> {
        let PortInput {
            address,
            available_for_dynamic_portgroup,
            category,
            description,
            extra,
            is_smartnic,
            local_link_connection,
            name,
            node_uuid: _,
            physical_network,
            portgroup_uuid,
            pxe_enabled,
            vendor,
        } = self;
        let address = address.ok_or_else(|| schema::<PortField>("'address' is a required property"))?;
        Ok(About {
            address: parse_mac("address", &address)?,
            name,
            description,
            vendor,
            category,
            pxe_enabled: pxe_enabled.0.unwrap_or(true),
            local_link: parse_link(local_link_connection.unwrap_or_default())?,
            group: portgroup_uuid.as_deref().map(|text| parse_uuid("portgroup_uuid", text)).transpose()?,
            physical_network,
            is_smartnic: is_smartnic.0.unwrap_or_default(),
            available_for_dynamic_portgroup: available_for_dynamic_portgroup.0.unwrap_or(true),
            extra: extra.unwrap_or_default(),
        })
    }
}

impl From<Placed<'_>> for PortInput {
    fn from(placed: Placed<'_>) -> PortInput {
        let About {
            address,
            name,
            description,
            vendor,
            category,
            pxe_enabled,
            local_link,
            group,
            physical_network,
            is_smartnic,
            available_for_dynamic_portgroup,
            extra,
        } = placed.port.about.clone();
        PortInput {
            address: Some(address.to_string()),
            available_for_dynamic_portgroup: Flag(Some(available_for_dynamic_portgroup)),
            category,
            description,
            extra: Some(extra),
            is_smartnic: Flag(Some(is_smartnic)),
            local_link_connection: Some(link_object(&local_link)),
            name,
            node_uuid: Some(placed.node.to_string()),
            physical_network,
            portgroup_uuid: group.map(|id| id.to_string()),
            pxe_enabled: Flag(Some(pxe_enabled)),
            vendor,
        }
    }
}

/// An address under a name.
pub(super) fn parse_mac(name: &str, text: &str) -> Result<Mac, Refused> {
    text.parse().map_err(|_| Refused::invalid(format!("Expected valid MAC address for {name}: {text}")))
}

/// Where a port is plugged in, in JSON. Only what is known is there.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct LinkJson {
    #[serde(skip_serializing_if = "Option::is_none")]
    switch_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    port_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    switch_info: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hostname: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    network_type: Option<String>,
}

fn parse_link(object: Object) -> Result<LocalLink, Refused> {
    let object = Value::Object(object.into_iter().collect());
    let link = serde_json::from_value::<LinkJson>(object);
    let link = link.map_err(|error| Refused::invalid(format!("Schema error for local_link_connection: {error}")))?;
    let LinkJson { switch_id, port_id, switch_info, hostname, network_type } = link;
    Ok(LocalLink { switch_id, port_id, switch_info, hostname, network_type })
}

fn link_object(link: &LocalLink) -> Object {
    let LocalLink { switch_id, port_id, switch_info, hostname, network_type } = link.clone();
    let members = [
        ("switch_id", switch_id),
        ("port_id", port_id),
        ("switch_info", switch_info),
        ("hostname", hostname),
        ("network_type", network_type),
    ];
    members.into_iter().filter_map(|(name, text)| Some((name.to_owned(), json!(text?)))).collect()
}

/// What a port or a group is attached to, where this API shows it.
pub(super) fn internal_info(vif: Option<&str>) -> Value {
    let attached: BTreeMap<&str, &str> = vif.map(|vif| ("tenant_vif_port_id", vif)).into_iter().collect();
    json!(attached)
}

impl Show for Placed<'_> {
    type Field = PortField;

    fn value(&self, field: PortField, base: &str) -> Value {
        let Port { id, about, vif, created_at, updated_at } = self.port;
        let About {
            address,
            name,
            description,
            vendor,
            category,
            pxe_enabled,
            local_link,
            group,
            physical_network,
            is_smartnic,
            available_for_dynamic_portgroup,
            extra,
        } = about;
        match field {
            PortField::Uuid => json!(id.to_string()),
            PortField::CreatedAt => json!(time(*created_at)),
            PortField::UpdatedAt => json!(updated_at.map(time)),
            PortField::Address => json!(address),
            PortField::Extra => json!(extra),
            PortField::InternalInfo => internal_info(vif.as_deref()),
            PortField::IsSmartnic => json!(is_smartnic),
            PortField::LocalLinkConnection => json!(link_object(local_link)),
            PortField::PhysicalNetwork => json!(physical_network),
            PortField::PxeEnabled => json!(pxe_enabled),
            PortField::NodeUuid => json!(self.node.to_string()),
            PortField::Name => json!(name),
            PortField::Description => json!(description),
            PortField::Vendor => json!(vendor),
            PortField::Category => json!(category),
            PortField::AvailableForDynamicPortgroup => json!(available_for_dynamic_portgroup),
            PortField::Links => json!(links(base, &format!("ports/{id}"))),
            PortField::PortgroupUuid => json!(group.map(|id| id.to_string())),
        }
    }
}

/// Which ports are wanted, and what of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortListing {
    /// Which. Node and group are not among them: callers may name them in two ways.
    pub filter: PortFilter,
    /// The node they belong to, as the caller names it.
    pub node: Option<String>,
    /// The group they are in, as the caller names it.
    pub group: Option<String>,
    /// Which part of them.
    pub slice: Slice,
    /// What of them.
    pub fields: Vec<PortField>,
}

/// Conditions and the versions they came with.
const CONDITIONS: &[(&str, u16)] =
    &[("node", 1), ("node_uuid", 1), ("address", 1), ("portgroup", 24), ("shard", 82), ("conductor_groups", 99)];

impl PortListing {
    /// Reads the parameters of a list of ports. `detail`: the path asks for whole ports.
    pub fn parse(pairs: Vec<(String, String)>, version: Version, detail: bool) -> Result<PortListing, Refused> {
        let listing = Listing::<PortField, PortId>::parse(pairs, version, detail)?;
        let slice = listing.slice::<Placed<'_>>(listing.after.map(|id| id.0))?;
        let (mut filter, mut node, mut group) = (PortFilter::default(), None, None);
        let list = |value: &str| Some(value.split(',').map(str::to_owned).collect());
        for (name, value) in listing.conditions {
            check_condition(CONDITIONS, &name, version)?;
            match name.as_str() {
                "node" => node = Some(value),
                "node_uuid" => node = Some(parse_uuid::<NodeId>("node_uuid", &value)?.to_string()),
                "address" => filter.address = Some(parse_mac("address", &value)?),
                "portgroup" => group = Some(value),
                "shard" => filter.shards = list(&value),
                "conductor_groups" => filter.conductor_groups = list(&value),
                _ => {}
            }
        }
        Ok(PortListing { filter, node, group, slice, fields: listing.fields })
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use sabakan_domain::provision::ids::PortGroupId;

    use super::*;
    use crate::ironic::{Answer, Field as _, parse_pairs};

    fn port() -> Port {
        let text = || Some("x".to_owned());
        let about = About {
            address: Mac([2, 0, 0, 0, 0, 1]),
            name: text(),
            description: text(),
            vendor: text(),
            category: text(),
            pxe_enabled: false,
            local_link: LocalLink { switch_id: text(), port_id: text(), ..LocalLink::default() },
            group: Some(PortGroupId(3)),
            physical_network: text(),
            is_smartnic: true,
            available_for_dynamic_portgroup: false,
            extra: Object::from([("a".to_owned(), json!(1))]),
        };
        let (created_at, updated_at) = (Timestamp::UNIX_EPOCH, Some(Timestamp::UNIX_EPOCH));
        Port { id: PortId(1), about, vif: text(), created_at, updated_at }
    }

    #[test]
    fn a_document_is_read_as_it_is_written() {
        let port = port();
        let placed = Placed { node: NodeId(7), port: &port };
        let input = PortInput::parse(PortInput::from(placed).document()).expect("reads");
        assert_eq!(input.parts(), Ok((NodeId(7), port.about.clone())));
    }

    #[test]
    fn every_member_of_a_full_port_is_shown() {
        let port = port();
        let of = Placed { node: NodeId(7), port: &port };
        let answer = Answer { of, fields: PortField::ALL, base: "http://h:1" };
        let answer = serde_json::to_value(answer).expect("serialises");
        let absent: Vec<&str> = PortField::ALL.iter().map(|f| f.name()).filter(|name| answer[name].is_null()).collect();
        assert!(absent.is_empty(), "{absent:?}");
        assert_eq!(answer["internal_info"], json!({ "tenant_vif_port_id": "x" }));
        assert_eq!(answer["local_link_connection"], json!({ "switch_id": "x", "port_id": "x" }));
        assert_eq!(PortField::all_of(Version(1)).len(), 7);
    }

    #[test]
    fn what_a_creation_may_say() {
        let node = "11111111-0008-4000-8000-000000000001";
        let read = |body: Value, version| PortInput::parse_new(body, Version(version));
        let (id, named, about) =
            read(json!({ "address": "52:54:00:BB:00:02", "node_uuid": node, "pxe_enabled": "false" }), 115)
                .expect("reads");
        assert_eq!((id, named.as_str(), about.pxe_enabled), (None, node, false));
        assert_eq!(about.address.to_string(), "52:54:00:bb:00:02");
        let by_name = json!({ "address": "52:54:00:bb:00:02", "node_ident": "po-1" });
        assert!(matches!(read(by_name.clone(), 93), Err(Refused::Version(_))));
        assert_eq!(read(by_name, 94).expect("reads").1, "po-1");
        for (body, text) in [
            (json!([]), "is not of type 'object'"),
            (json!({ "node_uuid": node }), "'address' is a required property"),
            (json!({ "address": "52:54:00:bb:00:02" }), "'node_uuid' is a required property"),
            (
                json!({ "address": "52-54-00-bb-00-02", "node_uuid": node }),
                "Expected valid MAC address for address: 52-",
            ),
            (json!({ "address": "52:54:00:bb:00:02", "node_uuid": "po-2" }), "Expected UUID for node_uuid: po-2"),
            (json!({ "address": "52:54:00:bb:00:02", "node_uuid": node, "node_ident": "a" }), "twice"),
            (json!({ "address": "52:54:00:bb:00:02", "node_uuid": node, "bogus": 1 }), "bogus"),
            (
                json!({ "address": "52:54:00:bb:00:02", "node_uuid": node, "local_link_connection": { "bogus": 1 } }),
                "Schema error for local_link_connection: unknown field `bogus`",
            ),
        ] {
            let refused = read(body.clone(), 115).expect_err("refused").to_string();
            assert!(refused.contains(text), "{body}: {refused}");
        }
        let linked = json!({ "address": "52:54:00:bb:00:02", "node_uuid": node, "local_link_connection": { "network_type": "unmanaged" } });
        assert!(matches!(read(linked.clone(), 63), Err(Refused::Version(_))));
        assert!(read(linked, 64).is_ok());
    }

    #[test]
    fn what_lists_take() {
        let listing =
            |query: &str, version| PortListing::parse(parse_pairs(query, str::to_owned), Version(version), false);
        let some = listing("node=po-1&address=52:54:00:BB:00:02&limit=3&sort_key=address", 115).expect("valid");
        assert_eq!((some.node.as_deref(), some.slice.limit, some.slice.sort), (Some("po-1"), 3, Some("address")));
        assert_eq!(some.fields.len(), 3);
        for bad in ["address=x", "node_uuid=po-1", "nosuch=1", "sort_key=extra", "fields=nope"] {
            assert!(matches!(listing(bad, 115), Err(Refused::Invalid(_))), "{bad}");
        }
        for (newer, version) in
            [("portgroup=x", 23), ("shard=x", 81), ("conductor_groups=x", 98), ("sort_key=name", 87)]
        {
            assert!(matches!(listing(newer, version), Err(Refused::Version(_))), "{newer}");
        }
    }
}
