//! Lines of the event feed. A line without `more` is a place to go on from: everything up to its revision has been sent.

use sabakan_domain::audit::Actor;
use serde::{Deserialize, Serialize};

use super::MachineJson;

/// Kinds of lines that tell of no change.
pub mod event_kinds {
    /// A machine as it is.
    pub const SNAPSHOT: &str = "snapshot";
    /// Every machine has been sent.
    pub const SNAPSHOT_END: &str = "snapshot-end";
    /// Nothing happened up to this revision that has not been sent.
    pub const PROGRESS: &str = "progress";
    /// History is gone; the feed ends.
    pub const GONE: &str = "gone";
    /// The reader took nothing for too long; the feed ends.
    pub const DROPPED: &str = "dropped";
    /// The server could not go on; the feed ends.
    pub const FAILED: &str = "failed";
}

/// One event: something that changed, or a machine of the snapshot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct EventJson {
    /// The transaction. Everything it changed has the same number; later ones have greater numbers.
    pub revision: u64,
    /// RFC 3339; `null` when the store was written past sabakan.
    pub time: Option<String>,
    /// `<category>.<action>` of the audit log, or `snapshot`.
    #[schema(example = "machines.set-state")]
    pub kind: String,
    /// The machine; for other things their name in the audit log.
    pub serial: String,
    /// Who; `null` in a snapshot, and when the store was written past sabakan.
    pub actor: Option<EventActorJson>,
    /// The machine before; `null` when it did not exist, or when no machine changed.
    pub before: Option<MachineJson>,
    /// The machine after; `null` when it is gone, or when no machine changed.
    pub after: Option<MachineJson>,
    /// Present and true when this revision is not complete yet: do not go on from here.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub more: bool,
}

/// Who made a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct EventActorJson {
    /// Its name; may be empty.
    pub name: String,
    /// How the name is known: `declared`, `token`, `internal`.
    pub known: String,
    /// Where the request came from; `null` for the server itself.
    pub ip: Option<String>,
}

/// A line about the feed itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct EventMarkJson {
    /// `snapshot-end`, `progress`, `gone`, `dropped` or `failed`.
    #[schema(example = "snapshot-end")]
    pub kind: String,
    /// Everything up to here has been sent; `null` when the snapshot is not complete.
    pub revision: Option<u64>,
    /// Of `gone`: the oldest revision to go on after.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest: Option<u64>,
    /// Why the feed ends, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl EventMarkJson {
    /// A line that only says how far the feed is.
    pub fn new(kind: &str, revision: Option<u64>) -> EventMarkJson {
        EventMarkJson { kind: kind.to_owned(), revision, oldest: None, error: None }
    }
}

impl From<&Actor> for EventActorJson {
    fn from(actor: &Actor) -> EventActorJson {
        let Actor { name, known, ip } = actor;
        EventActorJson { name: name.clone(), known: known.as_str().to_owned(), ip: ip.map(|ip| ip.to_string()) }
    }
}

/// As much of any line as a reader needs to know where to go on. Unknown fields and kinds of newer servers are no obstacle.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct EventHead {
    /// What it is.
    pub kind: String,
    /// When it was.
    #[serde(default)]
    pub revision: Option<u64>,
    /// Whether more of this revision follows.
    #[serde(default)]
    pub more: bool,
    /// Why the feed ends.
    #[serde(default)]
    pub error: Option<String>,
}
