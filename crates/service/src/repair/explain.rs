//! Why a machine is, or is not, being repaired, and how repair is doing.

use sabakan_domain::{
    cluster::shape::Problem,
    machine::Machine,
    repair::{
        enqueue::{Decision, Verdict},
        guard::Failure,
        incident::Incident,
    },
    words::Serial,
};
use sabakan_store::repo::leaders;

use super::{Repairs, RoundEnd, ShownEntry, TASK, facts::Look, open_incidents};
use crate::ServiceError;

/// How much may still be repaired.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Budget {
    /// Entries that count.
    pub entries: usize,
    /// Of them, those that have ended.
    pub finished: usize,
    /// How many there may be: `maximum-repair-queue-entries`.
    pub max: u32,
    /// How many places must be free before any machine is let in.
    pub needed: usize,
}

impl Budget {
    /// Repairs that may still be begun.
    pub fn left(&self) -> usize {
        (self.max as usize).saturating_sub(self.entries)
    }

    /// Nothing is begun, only because nobody deleted repairs that have ended.
    pub fn is_used_up_by_finished(&self) -> bool {
        let active = self.entries - self.finished;
        self.needed > self.left() && active + self.needed <= self.max as usize
    }
}

/// Why a machine is, or is not, being repaired.
#[derive(Debug, Clone)]
pub struct Explanation {
    /// The machine, if it is in our own registry.
    pub machine: Option<Machine>,
    /// What is reported about it; `None`: nothing is wrong with it.
    pub failure: Option<Failure>,
    /// Why nothing is known about broken machines, if nothing is.
    pub unknown: Option<String>,
    /// What becomes of it in the next round; `None`: nothing is wrong with it.
    pub verdict: Option<Verdict>,
    /// Its entries in the repair queue.
    pub entries: Vec<ShownEntry>,
    /// Incidents it belongs or belonged to, the newest first.
    pub incidents: Vec<Incident>,
    /// Broken machines come into the queue by themselves.
    pub automatic: bool,
    /// Repairs are begun.
    pub enabled: bool,
    /// What failed together is held.
    pub guard: bool,
    /// Settings that leave machines without protection.
    pub warnings: Vec<Problem>,
    /// How much may still be repaired.
    pub budget: Budget,
    /// The server that repairs.
    pub leader: Option<String>,
}

/// How repair is doing.
#[derive(Debug, Clone)]
pub struct Status {
    /// Broken machines come into the queue by themselves.
    pub automatic: bool,
    /// Repairs are begun.
    pub enabled: bool,
    /// Reboots are begun.
    pub reboots_enabled: bool,
    /// What failed together is held.
    pub guard: bool,
    /// Settings that leave machines without protection.
    pub warnings: Vec<Problem>,
    /// How much may still be repaired.
    pub budget: Budget,
    /// What becomes of every broken machine in the next round; `Err`: why that is not known.
    pub broken: Result<Vec<(Failure, Verdict)>, String>,
    /// Incidents that are open.
    pub incidents: Vec<Incident>,
    /// The server that repairs.
    pub leader: Option<String>,
    /// What the last round of this server came to, and when, if it leads.
    pub last: Option<(jiff::Timestamp, RoundEnd)>,
}

impl Repairs {
    /// Why a machine is, or is not, being repaired.
    pub async fn explain(&self, serial: &Serial) -> Result<Explanation, ServiceError> {
        let machine = self.on.view.read().await?.find_machine(serial.as_str()).cloned();
        let look = self.look().await?;
        let place = look.failures().iter().position(|failure| failure.serial == *serial);
        let mut entries = self.shown(&look.standing);
        let address = machine.as_ref().and_then(|machine| machine.ipv4().next());
        let address = address.or_else(|| place.and_then(|place| look.failures()[place].address));
        entries.retain(|shown| shown.entry.serial.as_ref() == Some(serial) || Some(shown.entry.address) == address);
        let mut incidents: Vec<Incident> = look.standing.state.incidents.clone();
        incidents.retain(|incident| incident.members.contains(serial));
        incidents.reverse();
        if machine.is_none() && place.is_none() && entries.is_empty() && incidents.is_empty() {
            return Err(ServiceError::NotFound);
        }
        let state = &look.standing.state;
        Ok(Explanation {
            machine: machine.map(|machine| (*machine).clone()),
            failure: place.map(|place| look.failures()[place].clone()),
            unknown: look.reports.as_ref().err().cloned(),
            verdict: place.map(|place| look.decision.verdicts[place].1.clone()),
            entries,
            incidents,
            automatic: state.automatic,
            enabled: state.enabled,
            guard: state.settings.guard.enabled,
            warnings: state.settings.warnings(open_incidents(state)),
            budget: look.budget(),
            leader: self.leader().await?,
        })
    }

    /// How repair is doing.
    pub async fn status(&self) -> Result<Status, ServiceError> {
        let look = self.look().await?;
        let broken = match &look.reports {
            Ok(reports) => {
                let verdicts = look.decision.verdicts.iter().map(|(_, verdict)| verdict.clone());
                Ok(reports.failures.iter().cloned().zip(verdicts).collect())
            }
            Err(reason) => Err(reason.clone()),
        };
        let state = &look.standing.state;
        Ok(Status {
            automatic: state.automatic,
            enabled: state.enabled,
            reboots_enabled: state.reboots_enabled,
            guard: state.settings.guard.enabled,
            warnings: state.settings.warnings(open_incidents(state)),
            budget: look.budget(),
            broken,
            incidents: state.incidents.iter().filter(|incident| incident.is_open()).cloned().collect(),
            leader: self.leader().await?,
            last: self.told().round.clone(),
        })
    }

    async fn leader(&self) -> Result<Option<String>, ServiceError> {
        Ok(leaders::holder(&*self.on.store, &self.on.keys, TASK).await?)
    }
}

impl Look {
    /// How much may still be repaired.
    pub(super) fn budget(&self) -> Budget {
        let Decision { entries, finished, max, needed, .. } = self.decision;
        Budget { entries, finished, max, needed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ended_repairs_block_others_only_if_deleting_them_would_help() {
        let check = |entries, finished, max, needed, expected| {
            let budget = Budget { entries, finished, max, needed };
            assert_eq!(budget.is_used_up_by_finished(), expected, "{budget:?}");
        };
        // One place is enough for somebody to come in.
        check(5, 3, 5, 1, true);
        check(5, 5, 5, 1, true);
        check(5, 0, 5, 1, false);
        check(4, 4, 5, 1, false);
        check(0, 0, 0, 1, false);
        // All that want in, or nobody.
        check(3, 3, 5, 3, true);
        check(3, 3, 5, 2, false);
        check(3, 1, 5, 3, true);
        check(3, 0, 5, 3, false);
        check(3, 3, 5, 28, false);
    }
}
