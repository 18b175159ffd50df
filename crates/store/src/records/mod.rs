//! Stored shapes. They equal those of the service this one replaces (schema version 3), so that a cluster can be taken over with its
//! data. Only this module and `sabakan-wire` turn domain values into JSON.

mod allocation;
mod audit;
mod chassis;
mod cluster;
mod config;
mod crypt;
mod machine;
mod node;
mod ports;
mod recipe;
mod repair;
mod token;

use bytes::Bytes;
use serde::{Serialize, de::DeserializeOwned};

pub use allocation::AllocationRecord;
pub use audit::AuditRecord;
pub use chassis::ChassisRecord;
pub use cluster::{ConfigurationRecord, ConstraintsRecord, PlanNumbersRecord, PlanRecord};
pub use config::{DhcpRecord, IpamRecord};
pub use crypt::is_sealed_key;
pub use machine::MachineRecord;
pub(crate) use machine::decode_machine;
pub use node::{LockRecord, NodeRecord, RowRecord, version as node_version};
pub use ports::NodePortsRecord;
pub(crate) use recipe::{RecipeRecord, decode_recipe};
pub use repair::{IncidentRecord, RebootRecord, RepairRecord, RepairSettingsRecord};
pub use token::TokenRecord;

use crate::{KeyValue, StoreError};

/// The bytes to store.
pub(crate) fn encode(record: &impl Serialize) -> Bytes {
    serde_json::to_vec(record).expect("records hold only texts, numbers and lists").into()
}

/// Reads a stored record; what cannot be one of ours is reported with its key.
pub(crate) fn decode<R, T>(kv: &KeyValue) -> Result<T, StoreError>
where
    R: DeserializeOwned,
    T: TryFrom<R, Error = String>,
{
    let corrupt = |reason| StoreError::Corrupt { place: kv.key.clone(), reason };
    let record: R = serde_json::from_slice(&kv.value).map_err(|error| corrupt(error.to_string()))?;
    T::try_from(record).map_err(corrupt)
}
