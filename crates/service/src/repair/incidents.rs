//! Incidents: what failed together, and that a person has looked.

use sabakan_domain::{
    audit::Actor,
    repair::incident::{Incident, Phase},
};
use sabakan_store::repo::repairs::{self, QueueRefusal, RepairState};

use super::Repairs;
use crate::{ServiceError, limits};

impl Repairs {
    /// Incidents that are kept, the newest first, and whether the guard is on: while it is off they hold nobody.
    pub async fn incidents(&self) -> Result<(Vec<Incident>, bool), ServiceError> {
        let RepairState { mut incidents, settings, .. } = self.state().await?;
        incidents.reverse();
        Ok((incidents, settings.guard.enabled))
    }

    /// One incident, and whether the guard is on.
    pub async fn incident(&self, number: u64) -> Result<(Incident, bool), ServiceError> {
        let (incidents, guard) = self.incidents().await?;
        let incident = incidents.into_iter().find(|incident| incident.number == number);
        Ok((incident.ok_or(ServiceError::NotFound)?, guard))
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
