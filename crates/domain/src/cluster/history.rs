//! Plans that were made, as they are kept: what changed or what blocked, and the reasons. What is said about machines that were not
//! chosen is left out; that can be asked for the present at any time.

use jiff::Timestamp;

use super::{
    plan::{Outcome, Plan},
    remedy::Remedy,
    report::{Change, Checked, Operation, Selection, Totals},
};
use crate::limits;

/// A plan as it is kept.
#[derive(Debug, Clone, PartialEq)]
pub struct KeptPlan {
    /// Its number.
    pub number: u64,
    /// The plan that was made before it.
    pub parent: Option<u64>,
    /// When.
    pub at: Timestamp,
    /// Which server made it.
    pub server: String,
    /// What came out.
    pub result: KeptResult,
    /// Rules that were looked at, in order.
    pub checked: Vec<Checked>,
    /// Choices, in order; of a large plan the first.
    pub selections: Vec<Selection>,
    /// How many choices are not kept.
    pub selections_left_out: usize,
    /// What was odd, in words; of many the first.
    pub warnings: Vec<String>,
    /// Numbers after the round.
    pub totals: Totals,
}

/// What came out of a plan.
#[derive(Debug, Clone, PartialEq)]
pub enum KeptResult {
    /// The configuration was changed.
    Changed {
        /// By which rule.
        operation: Operation,
        /// What, node by node; of a large plan the first.
        changes: Vec<Change>,
        /// How many are not kept.
        left_out: usize,
    },
    /// It could not go on.
    Blocked {
        /// The kind, as counted.
        kind: String,
        /// Why, in words.
        reason: String,
        /// What would have helped, in words.
        remedies: Vec<String>,
    },
    /// Nothing was to be done, after a plan that could not go on.
    Settled,
}

/// Where a plan comes from.
#[derive(Debug, Clone)]
pub struct Origin {
    /// Its number.
    pub number: u64,
    /// The plan that was made before it.
    pub parent: Option<u64>,
    /// When it was made.
    pub at: Timestamp,
    /// Which server made it.
    pub server: String,
}

/// How much of a plan is kept.
#[derive(Debug, Clone, Copy)]
pub struct Room {
    /// Choices.
    pub selections: usize,
    /// Changes.
    pub changes: usize,
    /// Warnings.
    pub warnings: usize,
}

impl Room {
    /// Half of it; `None`: nothing is left to give up.
    pub fn half(self) -> Option<Room> {
        let Room { selections, changes, warnings } = self;
        let half = Room { selections: selections / 2, changes: changes / 2, warnings: warnings / 2 };
        (half.selections + half.changes + half.warnings < selections + changes + warnings).then_some(half)
    }
}

impl KeptResult {
    /// What is kept of the result of a plan.
    pub fn of(outcome: &Outcome, remedies: &[Remedy], room: Room) -> KeptResult {
        match outcome {
            Outcome::Nothing => KeptResult::Settled,
            Outcome::Blocked(blocked) => KeptResult::Blocked {
                kind: blocked.kind().to_owned(),
                reason: blocked.to_string(),
                remedies: remedies.iter().map(Remedy::to_string).collect(),
            },
            Outcome::Change(made) => KeptResult::Changed {
                operation: made.operation,
                changes: made.changes.iter().take(room.changes).cloned().collect(),
                left_out: made.changes.len().saturating_sub(room.changes),
            },
        }
    }
}

/// Whether a plan tells something that the last kept one did not: a change always does; a plan that is blocked, or is no longer, does
/// if that is new. Reasons have numbers in them, of machines that are not healthy for example, which change all the time where many
/// machines are: another reason of the same kind is news once in a while only.
pub fn is_news(last: Option<&KeptPlan>, outcome: &Outcome, now: Timestamp) -> bool {
    match (outcome, last.map(|last| (&last.result, last.at))) {
        (Outcome::Change(_), _) => true,
        (Outcome::Nothing, last) => matches!(last, Some((KeptResult::Blocked { .. }, _))),
        (Outcome::Blocked(blocked), Some((KeptResult::Blocked { kind, reason, .. }, at))) => {
            let since = now.duration_since(at);
            // A clock that was set back makes nothing recent.
            let is_recent = !since.is_negative() && since < limits::BLOCKED_NEWS_PAUSE;
            blocked.kind() != kind || (blocked.to_string() != *reason && !is_recent)
        }
        (Outcome::Blocked(_), Some((KeptResult::Changed { .. } | KeptResult::Settled, _)) | None) => true,
    }
}

impl KeptPlan {
    /// What is kept of a plan.
    pub fn of(origin: Origin, plan: &Plan, remedies: &[Remedy], room: Room) -> KeptPlan {
        let report = &plan.report;
        let Origin { number, parent, at, server } = origin;
        KeptPlan {
            number,
            parent,
            at,
            server,
            result: KeptResult::of(&plan.outcome, remedies, room),
            checked: report.checked.clone(),
            selections: report.selections.iter().take(room.selections).cloned().collect(),
            selections_left_out: report.selections.len().saturating_sub(room.selections),
            warnings: report.warnings.iter().take(room.warnings).map(ToString::to_string).collect(),
            totals: report.totals.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::{
        plan::Outcome,
        report::{Blocked, Purpose, Shortage},
    };

    fn shortage(not_healthy: usize) -> Outcome {
        let shortage = Shortage {
            purpose: Purpose::Worker,
            role: None,
            have: 1,
            want: 2,
            not_healthy,
            other_role: 0,
            tainted: 0,
            promotion: None,
        };
        Outcome::Blocked(Blocked::NoMachine { operation: Operation::New, shortage })
    }

    fn kept(outcome: &Outcome, at: Timestamp) -> KeptPlan {
        let room = Room { selections: 0, changes: 0, warnings: 0 };
        KeptPlan {
            number: 1,
            parent: None,
            at,
            server: "s".to_owned(),
            result: KeptResult::of(outcome, &[], room),
            checked: Vec::new(),
            selections: Vec::new(),
            selections_left_out: 0,
            warnings: Vec::new(),
            totals: Totals::default(),
        }
    }

    /// A machine outside the cluster that breaks and comes back must not fill the history and the audit log.
    #[test]
    fn numbers_in_a_reason_are_news_once_in_a_while() {
        let at: Timestamp = "2026-11-15T00:00:00Z".parse().expect("a time");
        let later = at.checked_add(limits::BLOCKED_NEWS_PAUSE).expect("a time");
        let soon = at.checked_add(jiff::SignedDuration::from_secs(1)).expect("a time");
        let earlier = at.checked_sub(jiff::SignedDuration::from_secs(1)).expect("a time");
        let last = kept(&shortage(3), at);
        let is_news = |outcome: &Outcome, now| is_news(Some(&last), outcome, now);
        assert!(!is_news(&shortage(4), soon));
        assert!(is_news(&shortage(4), later));
        assert!(is_news(&shortage(4), earlier), "a clock that was set back hides nothing");
        assert!(!is_news(&shortage(3), later), "the same again is no news, however late");
        let other = Outcome::Blocked(Blocked::TooManyGone { gone: Vec::new(), of: 3 });
        assert!(is_news(&other, soon), "another kind is");
        assert!(is_news(&Outcome::Nothing, soon), "the end of it is");
        assert!(super::is_news(Some(&kept(&Outcome::Nothing, at)), &shortage(3), soon));
        assert!(!super::is_news(Some(&kept(&Outcome::Nothing, at)), &Outcome::Nothing, later));
        assert!(super::is_news(None, &shortage(3), at));
        assert!(!super::is_news(None, &Outcome::Nothing, at));
    }
}
