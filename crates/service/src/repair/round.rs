//! One round of the enqueuer: broken machines come into the queue, what failed together is held. What a round decides is written in
//! one transaction that compares everything it was decided with.

use std::{collections::BTreeSet, fmt};

use sabakan_domain::{
    repair::{
        enqueue::Verdict,
        guard::{Correlated, Failure},
        incident::{Incident, Phase},
    },
    words::Serial,
};
use sabakan_store::repo::{
    leaders::Lead,
    repairs::{self, Round},
};

use super::{Repairs, TASK, facts::Look};
use crate::{ServiceError, limits};

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
        let round = plan(look);
        let end = match round.enqueue.len() {
            _ if !state.automatic => {
                RoundEnd::Skipped("automatic repair is disabled; `sabactl auto-repair enable` lets it work".to_owned())
            }
            0 => self.nothing(look),
            count => RoundEnd::Enqueued(count),
        };
        if round.enqueue.is_empty() && round.opened.is_empty() && round.changed.is_empty() {
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

/// What is written. More than one transaction takes is left for the next round, which follows at once.
fn plan(look: &Look) -> Round {
    let state = &look.standing.state;
    let (judgement, now) = (&look.judgement, look.standing.now);
    let enqueue = if state.automatic { look.decision.enqueue.as_slice() } else { &[] };
    let opened = judgement.opened.iter().take(limits::INCIDENTS_AT_ONCE).map(|found| {
        let of_it = |(serial, held): (&Serial, &sabakan_domain::repair::incident::Held)| {
            (held.incident.is_none() && held.group == found.group).then(|| serial.clone())
        };
        let members: BTreeSet<Serial> = judgement.held.iter().filter_map(of_it).collect();
        Incident {
            // The number is given when it is written.
            number: 0,
            group: found.group.clone(),
            opened_at: now,
            because: because(found, look.watched(), &members),
            member_count: members.len(),
            members: bounded(members),
            phase: Phase::Open,
        }
    });
    let changed = state.incidents.iter().filter_map(|incident| {
        // What is left of one may be opened as others: it is not over before they all are.
        let all_opened = judgement.opened.len() <= limits::INCIDENTS_AT_ONCE;
        if all_opened && judgement.recovered.contains(&incident.number) {
            return Some(Incident { phase: Phase::Recovered { at: now }, ..incident.clone() });
        }
        let joined = judgement.joined.get(&incident.number)?;
        let all: BTreeSet<Serial> = incident.members.union(joined).cloned().collect();
        let member_count = incident.member_count.max(all.len());
        let changed = Incident { member_count, members: bounded(all), ..incident.clone() };
        (changed != *incident).then_some(changed)
    });
    Round {
        enqueue: enqueue.iter().take(limits::ENQUEUED_AT_ONCE).cloned().collect(),
        opened: opened.collect(),
        changed: changed.take(limits::INCIDENTS_AT_ONCE).collect(),
    }
}

/// As many as one transaction takes. Those that are left out are held all the same, because their group is.
fn bounded(members: BTreeSet<Serial>) -> BTreeSet<Serial> {
    let mut bytes = 0;
    let fits = |serial: &Serial| {
        // Two quotes and a comma.
        bytes += serial.as_str().len() + 3;
        bytes <= limits::INCIDENT_MEMBERS_BYTES_MAX
    };
    members.into_iter().take_while(fits).collect()
}

/// What was counted, and what others than the monitor say.
fn because(found: &Correlated, failures: &[Failure], members: &BTreeSet<Serial>) -> String {
    let opinions = failures.iter().filter(|failure| members.contains(&failure.serial));
    let answers: Vec<bool> = opinions.filter_map(|failure| failure.opinion.bmc_answers).collect();
    if answers.is_empty() {
        return format!("{found}; whether their controllers answer is not known");
    }
    let yes = answers.iter().filter(|answers| **answers).count();
    format!("{found}; {yes} of {} controllers answer", answers.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_kept_as_long_as_there_is_room() {
        let kept = |length: usize| {
            let serials = (0..30_000).map(|n| Serial::new(format!("{n:0length$}")).expect("a serial"));
            bounded(serials.collect()).len()
        };
        assert_eq!((kept(13), kept(255)), (16_384, 1_016));
    }
}
