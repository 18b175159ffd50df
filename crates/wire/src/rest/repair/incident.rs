//! What failed together.

use sabakan_domain::repair::{
    guard::Group,
    incident::{Incident, Phase},
};
use serde::{Deserialize, Serialize};

use super::time_text;

/// Machines with something in common.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct GroupJson {
    /// What: `rack`, `power-domain`, `version`, `machine-type`, `role` or `fleet`.
    pub kind: String,
    /// Which; empty for the fleet.
    pub value: String,
}

impl From<&Group> for GroupJson {
    fn from(group: &Group) -> GroupJson {
        let Group { kind, value } = group;
        GroupJson { kind: kind.as_str().to_owned(), value: value.clone() }
    }
}

/// That a person has looked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct AcknowledgedJson {
    /// Who.
    pub by: String,
    /// When, RFC 3339.
    pub at: String,
    /// What they say.
    pub reason: String,
}

/// An incident without the names of its machines, of which there may be thousands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct IncidentSummaryJson {
    /// Its number.
    pub number: u64,
    /// Which machines failed together.
    pub group: GroupJson,
    /// `open`: they are held while the guard is on. `acknowledged`: a person has looked, and they may be repaired. `recovered`: they work
    /// again, but for a few.
    pub phase: String,
    /// Its machines are held: it is open, and the guard is on.
    pub holds: bool,
    /// When it was opened, RFC 3339.
    pub opened: String,
    /// What was counted then.
    pub because: String,
    /// How many of its machines were ever broken.
    pub member_count: usize,
    /// Who has looked, if somebody has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acknowledged: Option<AcknowledgedJson>,
    /// When it was noticed that they work again, RFC 3339, if they do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovered: Option<String>,
}

impl IncidentSummaryJson {
    /// The shape of an incident. Without the guard it holds nobody.
    pub fn new(incident: &Incident, guard: bool) -> IncidentSummaryJson {
        let Incident { number, group, opened_at, because, members: _, member_count, phase } = incident;
        let (acknowledged, recovered) = match phase {
            Phase::Open => (None, None),
            Phase::Acknowledged { by, at, reason } => {
                (Some(AcknowledgedJson { by: by.clone(), at: time_text(*at), reason: reason.clone() }), None)
            }
            Phase::Recovered { at } => (None, Some(time_text(*at))),
        };
        IncidentSummaryJson {
            number: *number,
            group: group.into(),
            phase: phase.as_str().to_owned(),
            holds: guard && incident.is_open(),
            opened: time_text(*opened_at),
            because: because.clone(),
            member_count: *member_count,
            acknowledged,
            recovered,
        }
    }
}

/// An incident, whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct IncidentJson {
    /// All but the machines.
    #[serde(flatten)]
    pub summary: IncidentSummaryJson,
    /// Serials of every machine of it that was ever broken.
    pub members: Vec<String>,
}

impl IncidentJson {
    /// The shape of an incident. Without the guard it holds nobody.
    pub fn new(incident: &Incident, guard: bool) -> IncidentJson {
        let members = incident.members.iter().map(ToString::to_string).collect();
        IncidentJson { summary: IncidentSummaryJson::new(incident, guard), members }
    }
}
