//! The ports and port groups of a node as stored under `node-ports/<node uuid>`. Absent members have their default.

use std::collections::BTreeMap;

use jiff::Timestamp;
use sabakan_domain::{
    mac::Mac,
    provision::{
        ids::NotUuid,
        node::Object,
        node_ports::NodePorts,
        port::{self, LocalLink, Port},
        port_group::{self, PortGroup},
    },
};
use serde::{Deserialize, Serialize};

/// `node-ports/<node uuid>`.
#[derive(Debug, Serialize, Deserialize)]
pub struct NodePortsRecord {
    node: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    ports: Vec<PortRecord>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    groups: Vec<PortGroupRecord>,
}

#[derive(Debug, Serialize, Deserialize)]
struct PortRecord {
    uuid: String,
    address: Mac,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    vendor: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    category: Option<String>,
    pxe_enabled: bool,
    #[serde(default, skip_serializing_if = "LocalLinkRecord::is_default")]
    local_link: LocalLinkRecord,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    group: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    physical_network: Option<String>,
    #[serde(default)]
    is_smartnic: bool,
    available_for_dynamic_portgroup: bool,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    extra: Object,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    vif: Option<String>,
    created_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    updated_at: Option<Timestamp>,
}

#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct LocalLinkRecord {
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

#[derive(Debug, Serialize, Deserialize)]
struct PortGroupRecord {
    uuid: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    address: Option<Mac>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    mode: String,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    properties: Object,
    standalone_ports_supported: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    physical_network: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    category: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    extra: Object,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    vif: Option<String>,
    created_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    updated_at: Option<Timestamp>,
}

impl From<&NodePorts> for NodePortsRecord {
    fn from(ports: &NodePorts) -> NodePortsRecord {
        let NodePorts { node, ports, groups } = ports;
        NodePortsRecord {
            node: node.to_string(),
            ports: ports.iter().cloned().map(PortRecord::from).collect(),
            groups: groups.iter().cloned().map(PortGroupRecord::from).collect(),
        }
    }
}

impl TryFrom<NodePortsRecord> for NodePorts {
    type Error = String;

    fn try_from(record: NodePortsRecord) -> Result<NodePorts, String> {
        let NodePortsRecord { node, ports, groups } = record;
        Ok(NodePorts {
            node: uuid(&node)?,
            ports: ports.into_iter().map(TryInto::try_into).collect::<Result<_, _>>()?,
            groups: groups.into_iter().map(TryInto::try_into).collect::<Result<_, _>>()?,
        })
    }
}

fn uuid<I: std::str::FromStr<Err = NotUuid>>(text: &str) -> Result<I, String> {
    text.parse().map_err(|error: NotUuid| error.to_string())
}

impl From<Port> for PortRecord {
    fn from(port: Port) -> PortRecord {
        let Port { id, about, vif, created_at, updated_at } = port;
        let port::About {
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
        PortRecord {
            uuid: id.to_string(),
            address,
            name,
            description,
            vendor,
            category,
            pxe_enabled,
            local_link: local_link.into(),
            group: group.map(|id| id.to_string()),
            physical_network,
            is_smartnic,
            available_for_dynamic_portgroup,
            extra,
            vif,
            created_at,
            updated_at,
        }
    }
}

impl TryFrom<PortRecord> for Port {
    type Error = String;

    fn try_from(record: PortRecord) -> Result<Port, String> {
        let PortRecord {
            uuid: id,
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
            vif,
            created_at,
            updated_at,
        } = record;
        let about = port::About {
            address,
            name,
            description,
            vendor,
            category,
            pxe_enabled,
            local_link: local_link.into(),
            group: group.as_deref().map(uuid).transpose()?,
            physical_network,
            is_smartnic,
            available_for_dynamic_portgroup,
            extra,
        };
        Ok(Port { id: uuid(&id)?, about, vif, created_at, updated_at })
    }
}

impl LocalLinkRecord {
    fn is_default(&self) -> bool {
        *self == LocalLinkRecord::default()
    }
}

impl From<LocalLink> for LocalLinkRecord {
    fn from(link: LocalLink) -> LocalLinkRecord {
        let LocalLink { switch_id, port_id, switch_info, hostname, network_type } = link;
        LocalLinkRecord { switch_id, port_id, switch_info, hostname, network_type }
    }
}

impl From<LocalLinkRecord> for LocalLink {
    fn from(record: LocalLinkRecord) -> LocalLink {
        let LocalLinkRecord { switch_id, port_id, switch_info, hostname, network_type } = record;
        LocalLink { switch_id, port_id, switch_info, hostname, network_type }
    }
}

impl From<PortGroup> for PortGroupRecord {
    fn from(group: PortGroup) -> PortGroupRecord {
        let PortGroup { id, about, vif, created_at, updated_at } = group;
        let port_group::About {
            address,
            name,
            mode,
            properties,
            standalone_ports_supported,
            physical_network,
            category,
            extra,
        } = about;
        PortGroupRecord {
            uuid: id.to_string(),
            address,
            name,
            mode,
            properties,
            standalone_ports_supported,
            physical_network,
            category,
            extra,
            vif,
            created_at,
            updated_at,
        }
    }
}

impl TryFrom<PortGroupRecord> for PortGroup {
    type Error = String;

    fn try_from(record: PortGroupRecord) -> Result<PortGroup, String> {
        let PortGroupRecord {
            uuid: id,
            address,
            name,
            mode,
            properties,
            standalone_ports_supported,
            physical_network,
            category,
            extra,
            vif,
            created_at,
            updated_at,
        } = record;
        let about = port_group::About {
            address,
            name,
            mode,
            properties,
            standalone_ports_supported,
            physical_network,
            category,
            extra,
        };
        Ok(PortGroup { id: uuid(&id)?, about, vif, created_at, updated_at })
    }
}

#[cfg(test)]
mod tests {
    use sabakan_domain::provision::ids::{NodeId, PortGroupId, PortId};
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_stored_is_read_again() {
        let text = || Some("x".to_owned());
        let extra = Object::from([("a".to_owned(), json!({ "b": [1] }))]);
        let about = port::About {
            address: Mac([2, 0, 0, 0, 0, 1]),
            name: text(),
            description: text(),
            vendor: text(),
            category: text(),
            pxe_enabled: false,
            local_link: LocalLink {
                switch_id: text(),
                port_id: text(),
                switch_info: text(),
                hostname: text(),
                network_type: text(),
            },
            group: Some(PortGroupId(3)),
            physical_network: text(),
            is_smartnic: true,
            available_for_dynamic_portgroup: false,
            extra: extra.clone(),
        };
        let (created_at, updated_at) = (Timestamp::UNIX_EPOCH, Some(Timestamp::UNIX_EPOCH));
        let full = Port { id: PortId(1), about, vif: text(), created_at, updated_at };
        let plain = port::About::new(Mac([2, 0, 0, 0, 0, 2]));
        let plain = Port { id: PortId(2), about: plain, vif: None, created_at, updated_at: None };
        let about = port_group::About {
            address: Some(Mac([2, 0, 0, 0, 0, 3])),
            name: text(),
            mode: "802.3ad".to_owned(),
            properties: extra.clone(),
            standalone_ports_supported: false,
            physical_network: text(),
            category: text(),
            extra,
        };
        let group = PortGroup { id: PortGroupId(3), about, vif: text(), created_at, updated_at };
        let ports = NodePorts { node: NodeId(7), ports: vec![full, plain], groups: vec![group] };
        let json = serde_json::to_string(&NodePortsRecord::from(&ports)).expect("serialises");
        let record: NodePortsRecord = serde_json::from_str(&json).expect("reads");
        assert_eq!(NodePorts::try_from(record), Ok(ports));
        let damaged: NodePortsRecord = serde_json::from_str(r#"{ "node": "x" }"#).expect("reads");
        assert!(NodePorts::try_from(damaged).is_err());
    }
}
