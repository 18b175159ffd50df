//! Incidents: what failed together, and that a person has looked.

use sabakan_domain::{
    audit::Actor,
    repair::incident::{Incident, Phase},
};
use sabakan_store::repo::repairs::{self, QueueRefusal};

use super::Repairs;
use crate::{ServiceError, limits};

impl Repairs {
    /// Incidents that are kept, the newest first.
    pub async fn incidents(&self) -> Result<Vec<Incident>, ServiceError> {
        let mut incidents = self.state().await?.incidents;
        incidents.reverse();
        Ok(incidents)
    }

    /// One incident.
    pub async fn incident(&self, number: u64) -> Result<Incident, ServiceError> {
        let incidents = self.state().await?.incidents;
        incidents.into_iter().find(|incident| incident.number == number).ok_or(ServiceError::NotFound)
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
