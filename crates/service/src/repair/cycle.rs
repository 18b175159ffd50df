//! One cycle: what ended is written down, everything is looked at, machines come into the queue, and the next thing is begun for the
//! entries of both queues. Whatever takes time goes on in the background ([`Work`]).

use std::sync::Arc;

use sabakan_domain::repair::enqueue::Verdict;
use sabakan_store::repo::leaders::Lead;

use super::{
    Figures, Phase, Repairs, RoundEnd, Work,
    facts::{Look, Standing},
    figures::Present,
    open_incidents,
    work::Job,
};
use crate::ServiceError;

impl Repairs {
    /// Takes the next step with everything. Whether another follows at once.
    pub(crate) async fn cycle(self: &Arc<Self>, lead: &Lead, work: &mut Work) -> Result<bool, ServiceError> {
        self.write_down(lead, work).await?;
        let mut look = self.look().await?;
        self.take_note(&look);
        let (end, is_written) = self.round(lead, &look).await?;
        let overtaken = end == RoundEnd::Overtaken;
        self.told().round = Some((look.standing.now, end));
        if is_written {
            look.standing = self.standing().await?;
        }
        self.stop_unwanted(&look, work).await?;
        let mut seen = self.see(&look).await;
        self.put_back_in_service(&seen).await;
        if work.stop_orphans(|job| look.standing.has(job)) {
            seen.problem = Some("what was begun for an entry that is gone is being stopped".to_owned());
        }
        let (active, uncordons) = self.pass(lead, &look, &seen, work).await?;
        let rebooting = self.restart(lead, &look, &seen, active, work).await?;
        let phase = match (uncordons, active, rebooting) {
            (true, ..) => Phase::Uncordon,
            (_, true, _) => Phase::Repair,
            (_, _, true) => Phase::Reboot,
            _ => Phase::Completed,
        };
        self.present(&look, phase);
        Ok(overtaken || is_written)
    }

    /// Keeps what is there now for those who ask.
    fn present(&self, look: &Look, phase: Phase) {
        let Standing { state, nodes, now, .. } = &look.standing;
        let count =
            |wanted: fn(&Verdict) -> bool| look.decision.verdicts.iter().filter(|(_, verdict)| wanted(verdict)).count();
        let present = Present {
            at: *now,
            automatic: state.automatic,
            enabled: state.enabled,
            reboots_enabled: state.reboots_enabled,
            guard: state.settings.guard.enabled,
            phase,
            entries: state.entries.clone(),
            reboots: Present::counting(&state.reboots),
            nodes: nodes.keys().copied().collect(),
            budget: look.budget(),
            broken: look.decision.verdicts.len(),
            held: count(|verdict| matches!(verdict, Verdict::Held { .. })),
            without_room: count(|verdict| matches!(verdict, Verdict::NoRoom { .. })),
            // Without the guard they hold nobody, and an alert about them would say what is not so.
            incidents_open: if state.settings.guard.enabled { open_incidents(state) } else { 0 },
        };
        let mut told = self.told();
        told.figures = Figures { now: Some(present), ..told.figures.clone() };
    }
}

impl Standing {
    /// Whether the entry of a job is there.
    fn has(&self, job: Job) -> bool {
        match job {
            Job::Repair(index) | Job::Check(index) => self.state.entries.iter().any(|entry| entry.index == index),
            Job::Reboot(index) | Job::BootCheck(index) => self.state.reboots.iter().any(|entry| entry.index == index),
        }
    }
}
