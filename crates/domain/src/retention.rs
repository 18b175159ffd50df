//! Which day of the audit log may be deleted. A clock alone never decides that: the log itself says how late it is, one day goes at a
//! time, and a floor of entries stays. Reading the log and deleting from it are `store::repo::audit` and the retention task.

use std::fmt;

use jiff::{SignedDuration, Timestamp, ToSpan, civil::Date, tz::TimeZone};

use crate::limits::{AUDIT_CLOCK_LEAD, AUDIT_ENTRIES_FLOOR};

/// One UTC day of the audit log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuditDay {
    /// Which day.
    pub day: Date,
    /// How many entries it has.
    pub entries: usize,
    /// How many of them may be deleted: records of erased disk keys may not.
    pub deletable: usize,
}

/// What is done about old entries now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RetentionDecision {
    /// Nothing is old enough.
    Keep,
    /// This day goes. `waiting` more days are old enough and go later, one at a time.
    Delete {
        /// The oldest day that has something to delete.
        day: AuditDay,
        /// How many days are left for later.
        waiting: usize,
    },
    /// By the clock something is old enough, but it stays.
    Refuse(RetentionRefusal),
}

/// Why old entries stay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RetentionRefusal {
    /// The clock is far ahead of the log, and by the log's own time nothing is old enough.
    ClockAhead {
        /// What the clock says.
        now: Timestamp,
        /// How late it is by the log; nothing is known of an empty one.
        log: Option<Timestamp>,
        /// Days that would go by the clock.
        days: usize,
        /// Their entries.
        entries: usize,
    },
    /// Fewer entries would be left than always stay.
    Floor {
        /// Days that are old enough.
        days: usize,
        /// Entries that the log has.
        entries: usize,
    },
}

impl fmt::Display for RetentionRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RetentionRefusal::ClockAhead { now, log: Some(log), .. } => {
                let days = now.duration_since(*log).as_hours() / 24;
                write!(
                    f,
                    "the clock says {now:.0} and is {days} days ahead of the audit log, which has come to {log:.0}"
                )
            }
            RetentionRefusal::ClockAhead { now, log: None, .. } => {
                write!(f, "the clock says {now:.0}, and the audit log has no entry to compare it with")
            }
            RetentionRefusal::Floor { entries, .. } => {
                write!(f, "the audit log has {entries} entries, of which {AUDIT_ENTRIES_FLOOR} always stay")
            }
        }
    }
}

/// Decides about the days of the log, the oldest first; of days that are not old enough by the clock, only as many need be told as
/// hold the floor. `log` is how late it is by the log: the time of the newest entry that was there when the server began to look,
/// and how long the server has run since. An entry that this server wrote later is no second witness of its clock. Zero
/// `retention_days` keep everything.
pub fn decide_retention(
    days: &[AuditDay],
    log: Option<Timestamp>,
    now: Timestamp,
    retention_days: u32,
) -> RetentionDecision {
    if retention_days == 0 {
        return RetentionDecision::Keep;
    }
    let old = |at: Timestamp| {
        let oldest_kept = oldest_day_kept(at, retention_days);
        days.iter().filter(move |day| day.day < oldest_kept && day.deletable > 0)
    };
    let by_clock = old(now).count();
    if by_clock == 0 {
        return RetentionDecision::Keep;
    }
    let reference = match log {
        Some(log) if now.duration_since(log) <= AUDIT_CLOCK_LEAD => Some(now),
        log => log,
    };
    let due: Vec<&AuditDay> = reference.into_iter().flat_map(old).collect();
    let Some(first) = due.first() else {
        let entries = old(now).map(|day| day.deletable).sum();
        return RetentionDecision::Refuse(RetentionRefusal::ClockAhead { now, log, days: by_clock, entries });
    };
    let entries: usize = days.iter().map(|day| day.entries).sum();
    if entries - first.deletable.min(entries) < AUDIT_ENTRIES_FLOOR {
        return RetentionDecision::Refuse(RetentionRefusal::Floor { days: due.len(), entries });
    }
    RetentionDecision::Delete { day: **first, waiting: due.len() - 1 }
}

/// The oldest day that stays, counted from an instant.
pub fn oldest_day_kept(at: Timestamp, retention_days: u32) -> Date {
    let day = at.to_zoned(TimeZone::UTC).date();
    day.checked_sub(i64::from(retention_days).days()).unwrap_or(Date::MIN)
}

/// How late it is by the log, after the server has run for a while since it found its newest entry.
pub fn log_time(newest: Timestamp, running: SignedDuration) -> Timestamp {
    newest.checked_add(running).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLOOR: usize = AUDIT_ENTRIES_FLOOR;

    fn time(text: &str) -> Timestamp {
        text.parse().expect("a time")
    }

    fn day(text: &str, entries: usize) -> AuditDay {
        AuditDay { day: text.parse().expect("a day"), entries, deletable: entries }
    }

    fn told(decision: &RetentionDecision) -> String {
        match decision {
            RetentionDecision::Keep => "keep".to_owned(),
            RetentionDecision::Delete { day, waiting } => format!("delete {} then {waiting}", day.day),
            RetentionDecision::Refuse(RetentionRefusal::ClockAhead { days, entries, .. }) => {
                format!("clock: {days} days, {entries} entries")
            }
            RetentionDecision::Refuse(RetentionRefusal::Floor { days, .. }) => format!("floor: {days} days"),
        }
    }

    /// A log from the first of January to the first of March, enough of it recent.
    fn log() -> Vec<AuditDay> {
        vec![day("2026-01-01", 5), day("2026-01-02", 7), day("2026-02-20", FLOOR), day("2026-03-01", 3)]
    }

    #[test]
    fn the_clock_and_the_log_decide_together() {
        let newest = "2026-03-01T12:00:00Z";
        let rows: &[(&str, Option<&str>, &str, u32, &str)] = &[
            ("nothing is old enough", Some(newest), "2026-03-02T00:00:00Z", 60, "keep"),
            ("the oldest day alone", Some(newest), "2026-03-02T00:00:00Z", 59, "delete 2026-01-01 then 0"),
            ("two days are old enough", Some(newest), "2026-03-02T11:00:00Z", 58, "delete 2026-01-01 then 1"),
            ("zero keeps everything", Some(newest), "2030-01-01T00:00:00Z", 0, "keep"),
            ("a clock 100 days ahead", Some(newest), "2026-06-09T12:00:00Z", 60, "clock: 4 days, 1015 entries"),
            ("the same, old by the log too", Some(newest), "2026-06-09T12:00:00Z", 58, "delete 2026-01-01 then 0"),
            (
                "just a day ahead is no disagreement",
                Some(newest),
                "2026-03-02T12:00:00Z",
                59,
                "delete 2026-01-01 then 0",
            ),
            ("more than a day is", Some(newest), "2026-03-02T12:00:01Z", 59, "clock: 1 days, 5 entries"),
            ("a clock behind the log", Some(newest), "2026-02-01T00:00:00Z", 30, "delete 2026-01-01 then 0"),
            ("no entry to compare with", None, "2026-06-09T12:00:00Z", 60, "clock: 4 days, 1015 entries"),
        ];
        for (name, log_at, now, retention, expected) in rows {
            let expected = expected.replace("1015", &(FLOOR + 15).to_string());
            let decision = decide_retention(&log(), log_at.map(time), time(now), *retention);
            assert_eq!(told(&decision), expected, "{name}");
        }
    }

    #[test]
    fn a_floor_of_entries_stays() {
        let (newest, now) = (Some(time("2026-03-01T12:00:00Z")), time("2026-03-01T13:00:00Z"));
        let rows = [(FLOOR, "delete 2026-01-01 then 0"), (FLOOR - 1, "floor: 1 days")];
        for (recent, expected) in rows {
            let days = [day("2026-01-01", 5), day("2026-03-01", recent)];
            assert_eq!(told(&decide_retention(&days, newest, now, 30)), expected, "{recent}");
        }
        // One day alone is never deleted, however large.
        assert_eq!(told(&decide_retention(&[day("2026-01-01", 9 * FLOOR)], newest, now, 30)), "floor: 1 days");
    }

    #[test]
    fn days_of_which_everything_stays_hide_no_other() {
        let (newest, now) = (Some(time("2026-03-01T12:00:00Z")), time("2026-03-01T13:00:00Z"));
        let proof = AuditDay { deletable: 0, ..day("2025-01-01", 2) };
        let days = [vec![proof], log()].concat();
        assert_eq!(told(&decide_retention(&days, newest, now, 30)), "delete 2026-01-01 then 1");
        assert_eq!(told(&decide_retention(&[proof], newest, now, 30)), "keep");
    }

    #[test]
    fn refusals_name_both_times() {
        let decision = decide_retention(&log(), Some(time("2026-03-01T12:00:00Z")), time("2026-06-09T12:00:00Z"), 60);
        let RetentionDecision::Refuse(refusal) = decision else { panic!("{decision:?}") };
        assert_eq!(
            refusal.to_string(),
            "the clock says 2026-06-09T12:00:00Z and is 100 days ahead of the audit log, which has come to 2026-03-01T12:00:00Z"
        );
    }

    #[test]
    fn the_ends_of_time_are_no_trouble() {
        assert_eq!(oldest_day_kept(Timestamp::MIN, 36_500), Date::MIN);
        assert_eq!(log_time(Timestamp::MAX, SignedDuration::from_hours(1)), Timestamp::MAX);
        assert_eq!(told(&decide_retention(&[], None, Timestamp::MAX, 1)), "keep");
    }
}
