//! What callers note about a node, as stored inside its record.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use sabakan_domain::provision::{
    details::Details,
    ids::{NodeId, NotUuid},
    interfaces::Slot,
    node::Object,
};
use serde::{Deserialize, Serialize};

#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct DetailsRecord {
    #[serde(skip_serializing_if = "Option::is_none")]
    resource_class: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lessee: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    shard: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    instance_uuid: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    instance_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    allocation: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    chassis: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    network_data: Object,
    #[serde(skip_serializing_if = "Option::is_none")]
    retired_reason: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    interfaces: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    traits: BTreeSet<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    target_raid: Object,
    #[serde(skip_serializing_if = "Option::is_none")]
    edited_at: Option<Timestamp>,
}

impl DetailsRecord {
    pub(super) fn is_default(&self) -> bool {
        *self == DetailsRecord::default()
    }
}

impl From<Details> for DetailsRecord {
    fn from(details: Details) -> DetailsRecord {
        let Details {
            resource_class,
            owner,
            lessee,
            shard,
            description,
            instance_uuid,
            instance_name,
            allocation,
            parent,
            chassis,
            network_data,
            retired_reason,
            interfaces,
            traits,
            target_raid,
            edited_at,
        } = details;
        DetailsRecord {
            resource_class,
            owner,
            lessee,
            shard,
            description,
            instance_uuid,
            instance_name,
            allocation: allocation.map(|id| id.to_string()),
            parent: parent.map(|id| id.to_string()),
            chassis: chassis.map(|id| id.to_string()),
            network_data,
            retired_reason,
            interfaces: interfaces.into_iter().map(|(slot, name)| (slot.as_str().to_owned(), name)).collect(),
            traits,
            target_raid,
            edited_at,
        }
    }
}

impl TryFrom<DetailsRecord> for Details {
    type Error = String;

    fn try_from(record: DetailsRecord) -> Result<Details, String> {
        let DetailsRecord {
            resource_class,
            owner,
            lessee,
            shard,
            description,
            instance_uuid,
            instance_name,
            allocation,
            parent,
            chassis,
            network_data,
            retired_reason,
            interfaces,
            traits,
            target_raid,
            edited_at,
        } = record;
        let parent = parent.map(|text| text.parse::<NodeId>().map_err(|error| error.to_string())).transpose()?;
        let allocation = allocation.map(|text| text.parse().map_err(|error: NotUuid| error.to_string())).transpose()?;
        let chassis = chassis.map(|text| text.parse().map_err(|error: NotUuid| error.to_string())).transpose()?;
        let interfaces = interfaces.into_iter().map(|(slot, name)| Ok((slot.parse::<Slot>()?, name)));
        Ok(Details {
            resource_class,
            owner,
            lessee,
            shard,
            description,
            instance_uuid,
            instance_name,
            allocation,
            parent,
            chassis,
            network_data,
            retired_reason,
            interfaces: interfaces.collect::<Result<_, String>>()?,
            traits,
            target_raid,
            edited_at,
        })
    }
}
