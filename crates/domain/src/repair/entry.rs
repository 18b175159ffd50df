//! An entry of the repair queue: one machine, what is wrong with it, and how far its repair is.

use std::{fmt, net::Ipv4Addr};

use jiff::{SignedDuration, Timestamp};

use crate::{limits, words::Serial};

/// Where an entry is. Names exist once, in [`Status::as_str`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Status {
    /// Waits for its turn.
    Queued,
    /// Is being worked on.
    Processing,
    /// Ended; the machine is healthy.
    Succeeded,
    /// Ended; a person has to look.
    Failed,
}

impl Status {
    /// Every status.
    pub const ALL: [Status; 4] = [Status::Queued, Status::Processing, Status::Succeeded, Status::Failed];

    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Status::Queued => "queued",
            Status::Processing => "processing",
            Status::Succeeded => "succeeded",
            Status::Failed => "failed",
        }
    }

    /// The status with this name.
    pub fn parse(name: &str) -> Option<Status> {
        Status::ALL.into_iter().find(|status| status.as_str() == name)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What the present step of an entry is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StepStatus {
    /// Not begun.
    Waiting,
    /// Pods leave the node.
    Draining,
    /// The command ran; the machine is given time to become healthy.
    Watching,
}

impl StepStatus {
    /// Every status.
    pub const ALL: [StepStatus; 3] = [StepStatus::Waiting, StepStatus::Draining, StepStatus::Watching];

    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            StepStatus::Waiting => "waiting",
            StepStatus::Draining => "draining",
            StepStatus::Watching => "watching",
        }
    }

    /// The status with this name.
    pub fn parse(name: &str) -> Option<StepStatus> {
        StepStatus::ALL.into_iter().find(|status| status.as_str() == name)
    }
}

/// Draining failed; it is not tried again before a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Backoff {
    /// How often in a row.
    pub count: u32,
    /// Until when nothing is tried.
    pub until: Option<Timestamp>,
}

/// The first pause after a drain that failed, and what each further one may add.
pub const BACKOFF_STEP: SignedDuration = SignedDuration::from_secs(300);

/// How many failures make the pause longer: at most an hour and five minutes, however often it fails.
pub const BACKOFF_COUNT_MAX: u32 = 12;

/// The longest pause there can be.
const BACKOFF_LONGEST: SignedDuration = SignedDuration::from_secs(300 * (1 + BACKOFF_COUNT_MAX as i64));

impl Backoff {
    /// One more failure. `random` chooses within the span, so that several do not come back together.
    pub fn after_failure(self, now: Timestamp, random: u64) -> Backoff {
        let count = self.count.saturating_add(1);
        let span = u64::from(count.min(BACKOFF_COUNT_MAX)) * BACKOFF_STEP.unsigned_abs().as_secs();
        let extra = i64::try_from(random % span.max(1)).unwrap_or(0);
        let until = now.checked_add(BACKOFF_STEP + SignedDuration::from_secs(extra)).unwrap_or(now);
        Backoff { count, until: Some(until) }
    }

    /// Whether nothing may be tried yet. A pause that would last longer than any was written by a clock that has been set back since;
    /// waiting for that moment could take years.
    pub fn holds(&self, now: Timestamp) -> bool {
        self.holds_for(now, BACKOFF_LONGEST)
    }

    /// The same for pauses that are never longer than `longest`.
    pub(super) fn holds_for(&self, now: Timestamp, longest: SignedDuration) -> bool {
        self.until.is_some_and(|until| now < until && until.duration_since(now) <= longest)
    }
}

/// One machine that is to be repaired.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its number.
    pub index: u64,
    /// The address of the machine, which identifies it.
    pub address: Ipv4Addr,
    /// The machine, if the entry was not made by hand.
    pub serial: Option<Serial>,
    /// Its BMC type, which selects the procedure.
    pub machine_type: String,
    /// What is wrong, which selects the operation.
    pub operation: String,
    /// Where it is.
    pub status: Status,
    /// The number of the present step, from 0.
    pub step: usize,
    /// What it is at.
    pub step_status: StepStatus,
    /// Somebody wants it gone.
    pub deleted: bool,
    /// When any of this changed last.
    pub changed_at: Option<Timestamp>,
    /// Drains that failed.
    pub backoff: Backoff,
    /// When it was made.
    pub created_at: Timestamp,
    /// Who asked.
    pub asked_by: String,
    /// What the last thing that was done came to, for people.
    pub note: String,
}

impl Entry {
    /// Whether it has ended.
    pub fn is_finished(&self) -> bool {
        matches!(self.status, Status::Succeeded | Status::Failed)
    }

    /// Since when it has been where it is.
    pub fn since(&self) -> Timestamp {
        self.changed_at.unwrap_or(self.created_at)
    }

    /// The same where a step begins: with a drain, or with what it does.
    pub fn begun(&self, step: usize, step_status: StepStatus, now: Timestamp) -> Entry {
        let (status, changed_at, note) = (Status::Processing, Some(now), String::new());
        Entry { status, step, step_status, changed_at, note, ..self.clone() }
    }

    /// The same with its drain given up for a while; `random` chooses for how long.
    pub fn backed_off(&self, because: &str, now: Timestamp, random: u64) -> Entry {
        Entry {
            status: Status::Processing,
            step_status: StepStatus::Waiting,
            changed_at: Some(now),
            backoff: self.backoff.after_failure(now, random),
            note: bounded_note(because),
            ..self.clone()
        }
    }

    /// The same at its end, at the step where it is.
    pub fn ended(&self, status: Status, because: &str, now: Timestamp) -> Entry {
        Entry { status, changed_at: Some(now), note: bounded_note(because), ..self.clone() }
    }
}

/// As much of a text as an entry holds.
pub fn bounded_note(text: &str) -> String {
    text.chars().take(limits::REPAIR_NOTE_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_grows_and_is_bounded() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().expect("a time");
        let mut backoff = Backoff::default();
        for count in 1..=40_u32 {
            let (least, most) = (backoff.after_failure(now, 0), backoff.after_failure(now, u64::MAX));
            let pause = |backoff: Backoff| backoff.until.expect("a time").duration_since(now).as_secs();
            assert_eq!(pause(least), 300);
            assert!(pause(most) < 300 + 300 * i64::from(count.min(BACKOFF_COUNT_MAX)));
            assert!(pause(most) <= 3_900 && least.count == count);
            assert!(least.holds(now) && !least.holds(now + SignedDuration::from_secs(300)));
            assert!(most.holds(now) && !most.holds(now - SignedDuration::from_hours(2)), "a clock that was set back");
            backoff = least;
        }
    }

    #[test]
    fn every_name_is_read_as_it_is_written() {
        for status in Status::ALL {
            assert_eq!(Status::parse(status.as_str()), Some(status));
        }
        for status in StepStatus::ALL {
            assert_eq!(StepStatus::parse(status.as_str()), Some(status));
        }
        assert_eq!((Status::parse("done"), StepStatus::parse("")), (None, None));
    }
}
