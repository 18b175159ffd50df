//! Incidents: what failed together, and that a person has looked.

use std::mem;

use jiff::Timestamp;
use sabakan_domain::{
    audit::Actor,
    repair::incident::{Incident, IncidentPresent, Phase},
};
use sabakan_store::repo::repairs::{self, QueueRefusal};

use super::{Repairs, facts::Counting};
use crate::{ServiceError, limits};

/// An incident as it is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownIncident {
    /// The incident, with why it was opened.
    pub incident: Incident,
    /// The guard is on: while it is off, incidents hold nobody.
    pub guard: bool,
    /// What holds of its group now, and at which time that was counted. `None`: it is over.
    pub now: Option<Result<(IncidentPresent, Timestamp), String>>,
}

impl Repairs {
    /// Incidents that are kept, the newest first, and what holds of those that are not over.
    pub async fn incidents(&self) -> Result<Vec<ShownIncident>, ServiceError> {
        self.shown_incidents(|_| true).await
    }

    /// One incident, and what holds of it now.
    pub async fn incident(&self, number: u64) -> Result<ShownIncident, ServiceError> {
        let mut shown = self.shown_incidents(|incident| incident.number == number).await?;
        shown.pop().ok_or(ServiceError::NotFound)
    }

    /// What holds now is counted when somebody asks, and only if it is asked about an incident that is not over.
    async fn shown_incidents(&self, wanted: impl Fn(&Incident) -> bool) -> Result<Vec<ShownIncident>, ServiceError> {
        let mut state = self.state().await?;
        let mut incidents = mem::take(&mut state.incidents);
        incidents.retain(wanted);
        incidents.reverse();
        let is_over = |incident: &Incident| matches!(incident.phase, Phase::Recovered { .. });
        let now = self.now();
        let reports = if incidents.iter().all(is_over) {
            None
        } else {
            let mut reports = self.reports(&state, Counting::Always, now).await?;
            if let Ok(reports) = &mut reports {
                self.remember(reports, now);
            }
            Some(reports)
        };
        let present = |incident: &Incident| match reports.as_ref().filter(|_| !is_over(incident))? {
            Ok(reports) => Some(Ok((IncidentPresent::of(&incident.group, &reports.watched, &reports.census), now))),
            Err(reason) => Some(Err(reason.clone())),
        };
        let guard = state.settings.guard.enabled;
        let shown = |incident: Incident| ShownIncident { guard, now: present(&incident), incident };
        Ok(incidents.into_iter().map(shown).collect())
    }

    /// Says that a person has looked: its machines may be repaired, as far as the limits allow.
    pub async fn acknowledge(&self, actor: &Actor, number: u64, reason: &str) -> Result<Incident, ServiceError> {
        if reason.chars().count() > limits::ACKNOWLEDGE_CHARS_MAX {
            let max = limits::ACKNOWLEDGE_CHARS_MAX;
            return Err(ServiceError::Invalid(format!("reason: has more than {max} characters")));
        }
        let on = &self.on;
        let by = on.by(actor);
        let decide = |incident: Incident| match incident.phase {
            Phase::Recovered { .. } => Err(QueueRefusal::Over(number)),
            Phase::Open | Phase::Acknowledged { .. } => {
                let phase = Phase::Acknowledged { by: actor.called(), at: by.now, reason: reason.to_owned() };
                Ok(Incident { phase, ..incident })
            }
        };
        let incident = repairs::edit_incident(&*on.store, &on.keys, &by, number, decide).await?;
        tracing::warn!(incident = number, group = %incident.group, user = actor.name, "incident acknowledged");
        Ok(incident)
    }
}
