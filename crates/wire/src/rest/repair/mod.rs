//! Automatic repair: entries of the two queues (`entry`), what failed together (`incident`), what becomes of a broken machine and why
//! (`verdict`), how repair is doing (`status`), and what people send (`input`, `settings`).
//!
//! Entries have the keys that tools of the older service read; what is our own comes beside them. Everything else follows their style.

mod entry;
mod incident;
mod input;
mod settings;
mod status;
mod verdict;

use jiff::Timestamp;

pub use entry::{IndexesJson, RebootEntryJson, RepairEntryJson};
pub use incident::{AcknowledgedJson, GroupJson, IncidentJson, IncidentNowJson, IncidentSummaryJson};
pub use input::{
    AcknowledgeJson, NewRebootsJson, NewRepair, NewRepairJson, acknowledge_from_input, new_repair_from_input,
    nodes_from_input,
};
pub use settings::{SettingJson, settings_from_input, settings_json};
pub use status::{
    BudgetJson, Explained, RepairExplanationJson, RepairRoundJson, RepairStatusJson, Reported, SwitchesJson,
    VerdictCountJson,
};
pub use verdict::{BrokenJson, OpinionJson, VerdictJson};

/// A time that was never set, as the older service writes it.
const NEVER: &str = "0001-01-01T00:00:00Z";

/// RFC 3339, UTC, whole seconds.
fn time_text(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// The same of a time that may never have been set.
fn time_or_never(at: Option<Timestamp>) -> String {
    at.map_or_else(|| NEVER.to_owned(), time_text)
}

#[cfg(test)]
mod tests;
