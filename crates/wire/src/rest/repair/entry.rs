//! Entries of the repair queue and of the reboot queue.

use sabakan_domain::repair::{
    entry::{Backoff, Entry},
    reboot::RebootEntry,
};
use serde::{Deserialize, Serialize};

use super::{time_or_never, time_text};

/// One machine that is to be repaired.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RepairEntryJson {
    /// Its number, in decimal.
    #[schema(example = "17")]
    pub index: String,
    /// The address of the machine, which identifies it.
    pub address: String,
    /// Its node in Kubernetes; empty: it is not in the cluster.
    pub nodename: String,
    /// Its serial, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serial: Option<String>,
    /// Its BMC type, which selects the procedure.
    pub machine_type: String,
    /// What is wrong, which selects the operation.
    pub operation: String,
    /// `queued`, `processing`, `succeeded` or `failed`.
    pub status: String,
    /// The number of the present step, from 0.
    pub step: usize,
    /// `waiting`, `draining` or `watching`.
    pub step_status: String,
    /// Somebody wants it gone, and it soon is.
    pub deleted: bool,
    /// When its status changed last, RFC 3339; `0001-01-01T00:00:00Z`: never.
    pub last_transition_time: String,
    /// How often in a row the node could not be drained.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub drain_backoff_count: u32,
    /// Until when draining is not tried again; `0001-01-01T00:00:00Z`: there is no such time.
    pub drain_backoff_expire: String,
    /// When it was made, RFC 3339.
    #[serde(default)]
    pub created: String,
    /// Who asked for it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub asked_by: String,
    /// What the last thing that was done came to.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
    /// Why nothing is done with it right now, if the server that was asked knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<String>,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl RepairEntryJson {
    /// The shape of an entry with what belongs to it.
    pub fn new(entry: &Entry, nodename: &str, waits: Option<&str>) -> RepairEntryJson {
        let Entry {
            index,
            address,
            serial,
            machine_type,
            operation,
            status,
            step,
            step_status,
            deleted,
            changed_at,
            backoff: Backoff { count, until },
            created_at,
            asked_by,
            note,
        } = entry;
        RepairEntryJson {
            index: index.to_string(),
            address: address.to_string(),
            nodename: nodename.to_owned(),
            serial: serial.as_ref().map(ToString::to_string),
            machine_type: machine_type.clone(),
            operation: operation.clone(),
            status: status.as_str().to_owned(),
            step: *step,
            step_status: step_status.as_str().to_owned(),
            deleted: *deleted,
            last_transition_time: time_or_never(*changed_at),
            drain_backoff_count: *count,
            drain_backoff_expire: time_or_never(*until),
            created: time_text(*created_at),
            asked_by: asked_by.clone(),
            note: note.clone(),
            waits: waits.map(str::to_owned),
        }
    }

    /// Whether it has ended.
    pub fn is_finished(&self) -> bool {
        matches!(self.status.as_str(), "succeeded" | "failed")
    }
}

/// One node that is to be rebooted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RebootEntryJson {
    /// Its number, in decimal.
    #[schema(example = "17")]
    pub index: String,
    /// The address of the node.
    pub node: String,
    /// `queued`, `draining`, `rebooting` or `cancelled`.
    pub status: String,
    /// When that changed, RFC 3339; `0001-01-01T00:00:00Z`: never.
    pub last_transition_time: String,
    /// How often in a row the node could not be drained.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub drain_backoff_count: u32,
    /// Until when draining is not tried again; `0001-01-01T00:00:00Z`: there is no such time.
    pub drain_backoff_expire: String,
    /// What the last thing that was done came to.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
    /// Why nothing is done with it right now, if the server that was asked knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<String>,
}

impl RebootEntryJson {
    /// The shape of an entry with what belongs to it.
    pub fn new(entry: &RebootEntry, waits: Option<&str>) -> RebootEntryJson {
        let RebootEntry { index, node, status, changed_at, backoff: Backoff { count, until }, note } = entry;
        RebootEntryJson {
            index: index.to_string(),
            node: node.to_string(),
            status: status.as_str().to_owned(),
            last_transition_time: time_or_never(*changed_at),
            drain_backoff_count: *count,
            drain_backoff_expire: time_or_never(*until),
            note: note.clone(),
            waits: waits.map(str::to_owned),
        }
    }
}

/// Entries that were added or changed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct IndexesJson {
    /// Their numbers, in decimal.
    pub indexes: Vec<String>,
}

impl From<&[u64]> for IndexesJson {
    fn from(indexes: &[u64]) -> IndexesJson {
        IndexesJson { indexes: indexes.iter().map(u64::to_string).collect() }
    }
}
