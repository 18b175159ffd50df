//! What failed together.

use jiff::{SignedDuration, Timestamp};
use sabakan_domain::repair::{
    guard::Group,
    incident::{Incident, IncidentPresent, Phase},
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

/// What holds of an incident's group when it is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct IncidentNowJson {
    /// How many machines of the group are broken.
    pub broken: usize,
    /// How many machines the group has.
    pub machines: usize,
    /// Since when the first of them has been broken, RFC 3339; absent: none is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Controllers of the broken machines that answer.
    pub controllers_answering: usize,
    /// Controllers of the broken machines that do not answer. Of the others nothing is known.
    pub controllers_silent: usize,
}

impl IncidentNowJson {
    /// The shape of what was counted at a time.
    pub fn new(present: &IncidentPresent, now: Timestamp) -> IncidentNowJson {
        let IncidentPresent { machines, broken, oldest, controllers_answering, controllers_silent } = *present;
        let since = |age| now.saturating_sub(SignedDuration::try_from(age).unwrap_or(SignedDuration::MAX)).ok();
        IncidentNowJson {
            broken,
            machines,
            since: oldest.and_then(since).map(time_text),
            controllers_answering,
            controllers_silent,
        }
    }
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
    /// What was counted then. It does not change; `now` does.
    pub because: String,
    /// What holds now, unless it is over; absent where an incident is only named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub now: Option<IncidentNowJson>,
    /// Why it is not known what holds now, if it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub now_unknown: Option<String>,
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
            now: None,
            now_unknown: None,
            member_count: *member_count,
            acknowledged,
            recovered,
        }
    }

    /// The same with what holds now, counted at a time; `Err`: why that is not known.
    pub fn at(self, now: Option<&Result<(IncidentPresent, Timestamp), String>>) -> IncidentSummaryJson {
        match now {
            None => self,
            Some(Ok((present, at))) => IncidentSummaryJson { now: Some(IncidentNowJson::new(present, *at)), ..self },
            Some(Err(reason)) => IncidentSummaryJson { now_unknown: Some(reason.clone()), ..self },
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

    /// The same with what holds now, counted at a time; `Err`: why that is not known.
    pub fn at(self, now: Option<&Result<(IncidentPresent, Timestamp), String>>) -> IncidentJson {
        IncidentJson { summary: self.summary.at(now), ..self }
    }
}
