//! One round of the enqueuer: broken machines come into the queue, what failed together is held. What a round decides is written in
//! one transaction that compares everything it was decided with.

use std::fmt;

use sabakan_domain::{
    repair::{
        enqueue::Verdict,
        incident::Phase,
        round::{Around, Round},
    },
    words::Serial,
};
use sabakan_store::repo::{leaders::Lead, repairs};

use super::{Repairs, TASK, facts::Look};
use crate::ServiceError;

/// What a round came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RoundEnd {
    /// There was nothing to enqueue.
    Nothing,
    /// So many machines came into the queue.
    Enqueued(usize),
    /// Nothing was enqueued; why.
    Skipped(String),
    /// Something it was decided with changed meanwhile; nothing was written.
    Overtaken,
}

impl fmt::Display for RoundEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RoundEnd::Nothing => f.write_str("nothing to enqueue"),
            RoundEnd::Enqueued(count) => write!(f, "{count} machines came into the queue"),
            RoundEnd::Skipped(reason) => f.write_str(reason),
            RoundEnd::Overtaken => f.write_str("something changed meanwhile; it is decided again"),
        }
    }
}

impl Repairs {
    /// Writes what a look came to. Whether anything was written.
    pub(super) async fn round(&self, lead: &Lead, look: &Look) -> Result<(RoundEnd, bool), ServiceError> {
        if let Err(reason) = &look.reports {
            let end = RoundEnd::Skipped(reason.clone());
            if self.is_news(&end) {
                tracing::warn!(task = TASK, reason, "it is not known which machines are broken");
            }
            self.told().figures.query_failures += 1;
            return Ok((end, false));
        }
        let state = &look.standing.state;
        let round = Round::of(&Around {
            judgement: &look.judgement,
            decision: &look.decision,
            automatic: state.automatic,
            incidents: &state.incidents,
            failures: look.watched(),
            now: look.standing.now,
        });
        let end = match round.enqueue.len() {
            _ if !state.automatic => {
                RoundEnd::Skipped("automatic repair is disabled; `sabactl auto-repair enable` lets it work".to_owned())
            }
            0 => self.nothing(look),
            count => RoundEnd::Enqueued(count),
        };
        if round.is_empty() {
            return Ok((end, false));
        }
        let on = &self.on;
        let by = on.by(&self.actor());
        if !repairs::put_round(&*on.store, &on.keys, &by, lead, state, &look.standing.cluster, &round).await? {
            return Ok((RoundEnd::Overtaken, true));
        }
        self.tell(&round);
        Ok((end, true))
    }

    /// Why nothing is enqueued.
    fn nothing(&self, look: &Look) -> RoundEnd {
        let no_room = |(_, verdict): &&(Serial, Verdict)| matches!(verdict, Verdict::NoRoom { .. });
        let Some((_, full)) = look.decision.verdicts.iter().find(no_room) else { return RoundEnd::Nothing };
        let mut reason = full.to_string();
        let budget = look.budget();
        if budget.is_used_up_by_finished() {
            reason = format!(
                "{reason}; {} of the entries have ended and still count: `sabactl repair-queue delete-finished`, or \
                 `sabactl auto-repair settings set finished-count-hours N`",
                budget.finished
            );
        }
        let end = RoundEnd::Skipped(reason);
        if self.is_news(&end) {
            tracing::warn!(task = TASK, reason = %end, finished = budget.finished, "broken machines are not repaired");
        }
        end
    }

    /// Rounds follow each other fast where much changes: what is known is not said again.
    fn is_news(&self, end: &RoundEnd) -> bool {
        self.told().round.as_ref().is_none_or(|(_, last)| last != end)
    }

    fn tell(&self, round: &Round) {
        for new in &round.enqueue {
            let serial = new.serial.as_ref().map(ToString::to_string).unwrap_or_default();
            tracing::info!(task = TASK, serial, address = %new.address, operation = new.operation, "machine enqueued");
        }
        for incident in &round.opened {
            let (group, because) = (&incident.group, &incident.because);
            tracing::warn!(task = TASK, %group, because, "machines failed together and are held");
        }
        for incident in round.changed.iter().filter(|incident| matches!(incident.phase, Phase::Recovered { .. })) {
            tracing::info!(task = TASK, incident = incident.number, group = %incident.group, "incident is over");
        }
        let mut told = self.told();
        told.figures.enqueued += u64::try_from(round.enqueue.len()).unwrap_or(0);
        told.figures.incidents += u64::try_from(round.opened.len()).unwrap_or(0);
    }
}
