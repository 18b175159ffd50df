//! Repair and reboot queues, incidents and settings as stored. Entries have the shape that tools of the older service read.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::Ipv4Addr,
};

use jiff::Timestamp;
use sabakan_domain::{
    repair::{
        entry::{Backoff, Entry, Status, StepStatus},
        guard::{Group, GroupKind},
        incident::{Incident, Phase},
        reboot::{RebootEntry, RebootStatus},
        settings::{RepairSettings, Setting},
    },
    words::Serial,
};
use serde::{Deserialize, Serialize};

/// A time that was never set, as the older service writes it.
const NEVER: &str = "0001-01-01T00:00:00Z";

fn time_text(at: Option<Timestamp>) -> String {
    at.map_or_else(|| NEVER.to_owned(), |at| at.to_string())
}

fn time_of(text: &str) -> Result<Option<Timestamp>, String> {
    if text == NEVER {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| format!("{text:?} is no time"))
}

fn index_of(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("{text:?} is no index"))
}

/// `repairs/data/<index>`.
#[derive(Debug, Serialize, Deserialize)]
pub struct RepairRecord {
    index: String,
    address: Ipv4Addr,
    #[serde(default)]
    nodename: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    serial: Option<Serial>,
    machine_type: String,
    operation: String,
    status: String,
    step: usize,
    step_status: String,
    #[serde(default)]
    deleted: bool,
    last_transition_time: String,
    #[serde(default, skip_serializing_if = "is_zero")]
    drain_backoff_count: u32,
    drain_backoff_expire: String,
    /// The older service does not write it.
    #[serde(default = "long_ago")]
    created: Timestamp,
    #[serde(default)]
    asked_by: String,
    #[serde(default)]
    note: String,
}

fn long_ago() -> Timestamp {
    Timestamp::UNIX_EPOCH
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl From<&Entry> for RepairRecord {
    fn from(entry: &Entry) -> RepairRecord {
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
        RepairRecord {
            index: index.to_string(),
            address: *address,
            nodename: String::new(),
            serial: serial.clone(),
            machine_type: machine_type.clone(),
            operation: operation.clone(),
            status: status.as_str().to_owned(),
            step: *step,
            step_status: step_status.as_str().to_owned(),
            deleted: *deleted,
            last_transition_time: time_text(*changed_at),
            drain_backoff_count: *count,
            drain_backoff_expire: time_text(*until),
            created: *created_at,
            asked_by: asked_by.clone(),
            note: note.clone(),
        }
    }
}

impl TryFrom<RepairRecord> for Entry {
    type Error = String;

    fn try_from(record: RepairRecord) -> Result<Entry, String> {
        let RepairRecord {
            index,
            address,
            nodename: _,
            serial,
            machine_type,
            operation,
            status,
            step,
            step_status,
            deleted,
            last_transition_time,
            drain_backoff_count,
            drain_backoff_expire,
            created,
            asked_by,
            note,
        } = record;
        Ok(Entry {
            index: index_of(&index)?,
            address,
            serial,
            machine_type,
            operation,
            status: Status::parse(&status).ok_or_else(|| format!("{status:?} is no status"))?,
            step,
            step_status: StepStatus::parse(&step_status).ok_or_else(|| format!("{step_status:?} is no status"))?,
            deleted,
            changed_at: time_of(&last_transition_time)?,
            backoff: Backoff { count: drain_backoff_count, until: time_of(&drain_backoff_expire)? },
            created_at: created,
            asked_by,
            note,
        })
    }
}

/// `reboots/data/<index>`.
#[derive(Debug, Serialize, Deserialize)]
pub struct RebootRecord {
    index: String,
    node: Ipv4Addr,
    status: String,
    last_transition_time: String,
    #[serde(default, skip_serializing_if = "is_zero")]
    drain_backoff_count: u32,
    drain_backoff_expire: String,
    #[serde(default)]
    note: String,
}

impl From<&RebootEntry> for RebootRecord {
    fn from(entry: &RebootEntry) -> RebootRecord {
        let RebootEntry { index, node, status, changed_at, backoff: Backoff { count, until }, note } = entry;
        RebootRecord {
            index: index.to_string(),
            node: *node,
            status: status.as_str().to_owned(),
            last_transition_time: time_text(*changed_at),
            drain_backoff_count: *count,
            drain_backoff_expire: time_text(*until),
            note: note.clone(),
        }
    }
}

impl TryFrom<RebootRecord> for RebootEntry {
    type Error = String;

    fn try_from(record: RebootRecord) -> Result<RebootEntry, String> {
        let RebootRecord { index, node, status, last_transition_time, drain_backoff_count, drain_backoff_expire, note } =
            record;
        Ok(RebootEntry {
            index: index_of(&index)?,
            node,
            status: RebootStatus::parse(&status).ok_or_else(|| format!("{status:?} is no status"))?,
            changed_at: time_of(&last_transition_time)?,
            backoff: Backoff { count: drain_backoff_count, until: time_of(&drain_backoff_expire)? },
            note,
        })
    }
}

/// `incidents/data/<number>`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct IncidentRecord {
    number: u64,
    kind: String,
    value: String,
    opened: Timestamp,
    because: String,
    members: BTreeSet<Serial>,
    member_count: usize,
    phase: PhaseRecord,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum PhaseRecord {
    Open,
    Acknowledged { by: String, at: Timestamp, reason: String },
    Recovered { at: Timestamp },
}

impl From<&Incident> for IncidentRecord {
    fn from(incident: &Incident) -> IncidentRecord {
        let Incident { number, group: Group { kind, value }, opened_at, because, members, member_count, phase } =
            incident;
        IncidentRecord {
            number: *number,
            kind: kind.as_str().to_owned(),
            value: value.clone(),
            opened: *opened_at,
            because: because.clone(),
            members: members.clone(),
            member_count: *member_count,
            phase: match phase {
                Phase::Open => PhaseRecord::Open,
                Phase::Acknowledged { by, at, reason } => {
                    PhaseRecord::Acknowledged { by: by.clone(), at: *at, reason: reason.clone() }
                }
                Phase::Recovered { at } => PhaseRecord::Recovered { at: *at },
            },
        }
    }
}

impl TryFrom<IncidentRecord> for Incident {
    type Error = String;

    fn try_from(record: IncidentRecord) -> Result<Incident, String> {
        let IncidentRecord { number, kind, value, opened, because, members, member_count, phase } = record;
        Ok(Incident {
            number,
            group: Group {
                kind: GroupKind::parse(&kind).ok_or_else(|| format!("{kind:?} is no kind of group"))?,
                value,
            },
            opened_at: opened,
            because,
            members,
            member_count,
            phase: match phase {
                PhaseRecord::Open => Phase::Open,
                PhaseRecord::Acknowledged { by, at, reason } => Phase::Acknowledged { by, at, reason },
                PhaseRecord::Recovered { at } => Phase::Recovered { at },
            },
        })
    }
}

/// `auto-repair/settings`. What is absent has its default.
#[derive(Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RepairSettingsRecord(BTreeMap<String, String>);

impl From<&RepairSettings> for RepairSettingsRecord {
    fn from(settings: &RepairSettings) -> RepairSettingsRecord {
        let entry = |setting: Setting| (setting.as_str().to_owned(), settings.get(setting));
        RepairSettingsRecord(Setting::ALL.into_iter().map(entry).collect())
    }
}

impl TryFrom<RepairSettingsRecord> for RepairSettings {
    type Error = String;

    fn try_from(record: RepairSettingsRecord) -> Result<RepairSettings, String> {
        let set = |settings: RepairSettings, (name, value): (&String, &String)| settings.with(name, value);
        record.0.iter().try_fold(RepairSettings::default(), set).map_err(|problem| problem.to_string())
    }
}
