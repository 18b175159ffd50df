//! What callers write about a node: the members of a creation, and the document a patch is applied to.

use std::collections::BTreeMap;

use sabakan_domain::provision::{
    edit::Fields,
    interfaces::Slot,
    node::{NodeId, Object},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    Document, NodeField, Operation, Refused, Version,
    document::{Flag, schema},
    patch,
};

/// Members of a node that callers may write. `null` is as good as absent.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NodeInput {
    automated_clean: Flag,
    bios_interface: Option<String>,
    boot_interface: Option<String>,
    chassis_uuid: Option<String>,
    conductor_group: Option<String>,
    console_interface: Option<String>,
    deploy_interface: Option<String>,
    description: Option<String>,
    disable_power_off: Flag,
    driver: Option<String>,
    driver_info: Option<Object>,
    extra: Option<Object>,
    firmware_interface: Option<String>,
    inspect_interface: Option<String>,
    instance_info: Option<Object>,
    instance_name: Option<String>,
    instance_uuid: Option<String>,
    lessee: Option<String>,
    maintenance: Flag,
    management_interface: Option<String>,
    name: Option<String>,
    network_data: Option<Object>,
    network_interface: Option<String>,
    owner: Option<String>,
    parent_node: Option<String>,
    power_interface: Option<String>,
    properties: Option<Object>,
    protected: Flag,
    protected_reason: Option<String>,
    raid_interface: Option<String>,
    rescue_interface: Option<String>,
    resource_class: Option<String>,
    retired: Flag,
    retired_reason: Option<String>,
    shard: Option<String>,
    storage_interface: Option<String>,
    vendor_interface: Option<String>,
}

impl Document for NodeInput {
    type Field = NodeField;
}

impl NodeInput {
    /// Reads the body of a creation: the UUID, if one is given, and everything else.
    pub fn parse_new(body: Value, version: Version) -> Result<(Option<NodeId>, NodeInput), Refused> {
        let (id, input) = NodeInput::parse_creation(body, version)?;
        if input.driver.is_none() {
            return Err(schema::<NodeField>("'driver' is a required property"));
        }
        Ok((id, input))
    }

    /// Reads a patch. A node leaves its chassis for none since 1.25 only.
    pub fn parse_patch(body: Value, version: Version) -> Result<Vec<Operation>, Refused> {
        let operations = patch::parse::<NodeInput>(body, version)?;
        if !version.has(25) && operations.iter().any(|operation| operation.clears("chassis_uuid")) {
            return Err(Refused::newer("chassis_uuid", 25));
        }
        Ok(operations)
    }

    /// The implementations that are chosen.
    fn interfaces(&self) -> BTreeMap<Slot, String> {
        let chosen = [
            (Slot::Bios, &self.bios_interface),
            (Slot::Boot, &self.boot_interface),
            (Slot::Console, &self.console_interface),
            (Slot::Deploy, &self.deploy_interface),
            (Slot::Firmware, &self.firmware_interface),
            (Slot::Inspect, &self.inspect_interface),
            (Slot::Management, &self.management_interface),
            (Slot::Network, &self.network_interface),
            (Slot::Power, &self.power_interface),
            (Slot::Raid, &self.raid_interface),
            (Slot::Rescue, &self.rescue_interface),
            (Slot::Storage, &self.storage_interface),
            (Slot::Vendor, &self.vendor_interface),
        ];
        chosen.into_iter().filter_map(|(slot, name)| Some((slot, name.clone()?))).collect()
    }
}

impl From<&Fields> for NodeInput {
    fn from(fields: &Fields) -> NodeInput {
        let Fields {
            name,
            driver,
            interfaces,
            driver_info,
            properties,
            extra,
            instance_info,
            network_data,
            chassis_uuid,
            resource_class,
            conductor_group,
            owner,
            lessee,
            shard,
            description,
            instance_name,
            instance_uuid,
            parent_node,
            automated_clean,
            disable_power_off,
            maintenance,
            retired,
            retired_reason,
            protected,
            protected_reason,
        } = fields.clone();
        let slot = |slot: Slot| interfaces.get(&slot).cloned();
        NodeInput {
            automated_clean: Flag(automated_clean),
            bios_interface: slot(Slot::Bios),
            boot_interface: slot(Slot::Boot),
            chassis_uuid,
            conductor_group: Some(conductor_group),
            console_interface: slot(Slot::Console),
            deploy_interface: slot(Slot::Deploy),
            description,
            disable_power_off: Flag(Some(disable_power_off)),
            driver,
            driver_info: Some(driver_info),
            extra: Some(extra),
            firmware_interface: slot(Slot::Firmware),
            inspect_interface: slot(Slot::Inspect),
            instance_info: Some(instance_info),
            instance_name,
            instance_uuid,
            lessee,
            maintenance: Flag(Some(maintenance)),
            management_interface: slot(Slot::Management),
            name,
            network_data: Some(network_data),
            network_interface: slot(Slot::Network),
            owner,
            parent_node,
            power_interface: slot(Slot::Power),
            properties: Some(properties),
            protected: Flag(Some(protected)),
            protected_reason,
            raid_interface: slot(Slot::Raid),
            rescue_interface: slot(Slot::Rescue),
            resource_class,
            retired: Flag(Some(retired)),
            retired_reason,
            shard,
            storage_interface: slot(Slot::Storage),
            vendor_interface: slot(Slot::Vendor),
        }
    }
}

impl From<NodeInput> for Fields {
    fn from(input: NodeInput) -> Fields {
        let interfaces = input.interfaces();
        let NodeInput {
            automated_clean,
            bios_interface: _,
            boot_interface: _,
            chassis_uuid,
            conductor_group,
            console_interface: _,
            deploy_interface: _,
            description,
            disable_power_off,
            driver,
            driver_info,
            extra,
            firmware_interface: _,
            inspect_interface: _,
            instance_info,
            instance_name,
            instance_uuid,
            lessee,
            maintenance,
            management_interface: _,
            name,
            network_data,
            network_interface: _,
            owner,
            parent_node,
            power_interface: _,
            properties,
            protected,
            protected_reason,
            raid_interface: _,
            rescue_interface: _,
            resource_class,
            retired,
            retired_reason,
            shard,
            storage_interface: _,
            vendor_interface: _,
        } = input;
        Fields {
            name,
            driver,
            interfaces,
            driver_info: driver_info.unwrap_or_default(),
            properties: properties.unwrap_or_default(),
            extra: extra.unwrap_or_default(),
            instance_info: instance_info.unwrap_or_default(),
            network_data: network_data.unwrap_or_default(),
            chassis_uuid,
            resource_class,
            conductor_group: conductor_group.unwrap_or_default(),
            owner,
            lessee,
            shard,
            description,
            instance_name,
            instance_uuid: instance_uuid.map(|text| text.to_ascii_lowercase()),
            parent_node,
            automated_clean: automated_clean.0,
            disable_power_off: disable_power_off.0.unwrap_or_default(),
            maintenance: maintenance.0.unwrap_or_default(),
            retired: retired.0.unwrap_or_default(),
            retired_reason,
            protected: protected.0.unwrap_or_default(),
            protected_reason,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_document_is_read_as_it_is_written() {
        let fields = Fields {
            name: Some("n1".to_owned()),
            driver: Some("redfish".to_owned()),
            interfaces: Slot::ALL.into_iter().map(|slot| (slot, slot.as_str().to_owned())).collect(),
            extra: Object::from([("a".to_owned(), json!({ "b": [1] }))]),
            maintenance: true,
            automated_clean: Some(false),
            ..Fields::default()
        };
        let input = NodeInput::parse(NodeInput::from(&fields).document()).expect("reads");
        assert_eq!(Fields::from(input), fields);
    }

    #[test]
    fn a_node_leaves_its_chassis_since_1_25() {
        let leave = json!([{ "op": "remove", "path": "/chassis_uuid" }]);
        let other = json!([{ "op": "replace", "path": "/chassis_uuid", "value": "x" }]);
        assert!(matches!(NodeInput::parse_patch(leave.clone(), Version(24)), Err(Refused::Version(_))));
        assert!(NodeInput::parse_patch(leave, Version(25)).is_ok());
        assert!(NodeInput::parse_patch(other, Version(1)).is_ok());
    }

    #[test]
    fn what_a_creation_may_say() {
        let read = |body: Value, version| NodeInput::parse_new(body, Version(version));
        assert!(matches!(read(json!([]), 115), Err(Refused::Invalid(_))));
        assert!(matches!(read(json!({ "name": "x" }), 115), Err(Refused::Invalid(text)) if text.contains("'driver'")));
        assert!(matches!(read(json!({ "driver": "d", "nosuchattr": 1 }), 115), Err(Refused::Invalid(_))));
        assert!(matches!(read(json!({ "driver": "d", "provision_state": "active" }), 115), Err(Refused::Invalid(_))));
        assert!(matches!(read(json!({ "driver": "d", "properties": "x" }), 115), Err(Refused::Invalid(_))));
        assert!(matches!(read(json!({ "driver": "d", "name": 7 }), 115), Err(Refused::Invalid(_))));
        assert!(matches!(read(json!({ "driver": "d", "uuid": "x" }), 115), Err(Refused::Invalid(_))));
        assert!(matches!(read(json!({ "driver": "d", "name": "x" }), 4), Err(Refused::Version(_))));
        let (id, input) = read(json!({ "driver": "d", "retired": "yes", "extra": null }), 115).expect("reads");
        assert!(id.is_none() && Fields::from(input).retired);
    }
}
