//! What a round of the enqueuer writes: what a judgement makes of incidents, and a decision of the queue.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::{
    enqueue::{Decision, NewEntry},
    guard::{Correlated, Failure},
    incident::{Held, Incident, Judgement, Phase},
};
use crate::{limits, words::Serial};

/// What a round of the enqueuer writes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Round {
    /// Machines that come into the queue.
    pub enqueue: Vec<NewEntry>,
    /// Incidents that are opened; they get their numbers when they are written.
    pub opened: Vec<Incident>,
    /// Incidents that changed.
    pub changed: Vec<Incident>,
}

/// Everything a round comes from.
#[derive(Debug, Clone, Copy)]
pub struct Around<'a> {
    /// What failed together.
    pub judgement: &'a Judgement,
    /// What comes into the queue.
    pub decision: &'a Decision,
    /// Broken machines come into the queue by themselves.
    pub automatic: bool,
    /// Every incident that is kept.
    pub incidents: &'a [Incident],
    /// All machines that are broken.
    pub failures: &'a [Failure],
    /// Now.
    pub now: Timestamp,
}

impl Round {
    /// What is written. More than one transaction takes is left for the next round, which follows at once.
    pub fn of(around: &Around<'_>) -> Round {
        let Around { judgement, decision, automatic, incidents, .. } = *around;
        let enqueue = if automatic { decision.enqueue.as_slice() } else { &[] };
        let opened = judgement.opened.iter().take(limits::INCIDENTS_AT_ONCE);
        let changed = incidents.iter().filter_map(|incident| changed(incident, around));
        Round {
            enqueue: enqueue.iter().take(limits::ENQUEUED_AT_ONCE).cloned().collect(),
            opened: opened.map(|found| opened_with(found, around)).collect(),
            changed: changed.take(limits::INCIDENTS_AT_ONCE).collect(),
        }
    }

    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.enqueue.is_empty() && self.opened.is_empty() && self.changed.is_empty()
    }
}

/// An incident as it is opened: all machines of the group that are held for it are its members, not only those of the window that gave
/// it away.
fn opened_with(found: &Correlated, around: &Around<'_>) -> Incident {
    let of_it = |(serial, held): (&Serial, &Held)| {
        (held.incident.is_none() && held.group == found.group).then(|| serial.clone())
    };
    let members: BTreeSet<Serial> = around.judgement.held.iter().filter_map(of_it).collect();
    Incident {
        number: 0,
        group: found.group.clone(),
        opened_at: around.now,
        because: because(found, around.failures, &members),
        member_count: members.len(),
        members: bounded(members),
        phase: Phase::Open,
    }
}

/// An incident as it is from now on; `None`: as it was.
fn changed(incident: &Incident, around: &Around<'_>) -> Option<Incident> {
    let Around { judgement, now, .. } = *around;
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
