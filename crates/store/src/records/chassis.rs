//! A chassis as stored under `chassis/<uuid>`.

use std::collections::BTreeMap;

use jiff::Timestamp;
use sabakan_domain::provision::{
    chassis::{About, Chassis},
    ids::NotUuid,
    node::Object,
};
use serde::{Deserialize, Serialize};

/// `chassis/<uuid>`.
#[derive(Debug, Serialize, Deserialize)]
pub struct ChassisRecord {
    uuid: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    extra: Object,
    created_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    updated_at: Option<Timestamp>,
}

impl From<&Chassis> for ChassisRecord {
    fn from(chassis: &Chassis) -> ChassisRecord {
        let Chassis { id, about: About { description, extra }, created_at, updated_at } = chassis.clone();
        ChassisRecord { uuid: id.to_string(), description, extra, created_at, updated_at }
    }
}

impl TryFrom<ChassisRecord> for Chassis {
    type Error = String;

    fn try_from(record: ChassisRecord) -> Result<Chassis, String> {
        let ChassisRecord { uuid, description, extra, created_at, updated_at } = record;
        let id = uuid.parse().map_err(|error: NotUuid| error.to_string())?;
        Ok(Chassis { id, about: About { description, extra }, created_at, updated_at })
    }
}
