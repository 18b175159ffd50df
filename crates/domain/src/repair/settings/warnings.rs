//! Settings that are allowed and leave machines without protection. The measure is a rack that goes dark: how much of it is broken
//! before the guard finds it, and whether the first of its machines are repaired before that.

use std::time::Duration;

use super::{RepairSettings, Setting};
use crate::{cluster::shape::Problem, repair::guard};

/// The rack by which settings are measured, and how long a monitor takes to report all of it.
const RACK: usize = 28;
const GOES_DARK: Duration = Duration::from_secs(15 * 60);

/// Groups of a data centre of 100 such racks. Ten times more or fewer make no difference of more than a machine.
const GROUPS: usize = 162;

/// Settings with which so many times more machines must fail than with the defaults are told.
const LATE: usize = 2;

/// What decides when a group is found.
const FINDING: [Setting; 4] =
    [Setting::FailuresPercentPerDay, Setting::WindowsMinutes, Setting::GroupLeast, Setting::Chance];

impl RepairSettings {
    /// What is allowed but leaves machines without protection, or repairs nothing: which setting, or `settings` where it is no single
    /// one. `open` is how many incidents are open.
    pub fn warnings(&self, open: usize) -> Vec<Problem> {
        if !self.guard.enabled {
            return vec![Problem::new(Setting::Guard.as_str(), guard_off(open))];
        }
        let mut warnings: Vec<Problem> = FINDING.into_iter().filter_map(|setting| self.alone(setting)).collect();
        let found = self.found_at();
        if warnings.is_empty() && is_late(found) {
            let reason = format!("protect little: {}, because of several of them together", found_late(found));
            warnings.push(Problem::new("settings", reason));
        }
        warnings.extend(found.and_then(|found| self.repaired_before(found)));
        if self.guard.stale_after <= self.guard.observe {
            let reason = "is not longer than observe-seconds: every report is too old before it may be acted on, and nothing is \
                          repaired automatically";
            warnings.push(Problem::new(Setting::StaleAfterHours.as_str(), reason));
        }
        warnings
    }

    /// What one setting does, were all others at their defaults.
    fn alone(&self, setting: Setting) -> Option<Problem> {
        let only = RepairSettings::default().with(setting.as_str(), &self.get(setting)).ok()?;
        let found = only.found_at();
        let reason = || format!("is {}: {}", self.get(setting), found_late(found));
        is_late(found).then(|| Problem::new(setting.as_str(), reason()))
    }

    /// Whether machines of the rack are repaired before it is found.
    fn repaired_before(&self, found: usize) -> Option<Problem> {
        let until = guard::pause(RACK, GOES_DARK) * u32::try_from(found.saturating_sub(1)).unwrap_or(u32::MAX);
        let reason = || {
            format!(
                "is {}: {} is found after {} s, and its first machines are repaired before that",
                self.guard.observe.as_secs(),
                the_rack(),
                until.as_secs()
            )
        };
        (self.guard.observe <= until).then(|| Problem::new(Setting::ObserveSeconds.as_str(), reason()))
    }

    /// How many machines of the rack must be reported until it is found.
    fn found_at(&self) -> Option<usize> {
        guard::found_at(RACK, GOES_DARK, GROUPS, &self.guard)
    }
}

fn is_late(found: Option<usize>) -> bool {
    let usual = RepairSettings::default().found_at().unwrap_or(RACK);
    found.is_none_or(|found| found > LATE * usual)
}

fn guard_off(open: usize) -> String {
    let incidents = match open {
        0 => String::new(),
        1 => "; 1 incident is open and holds nobody".to_owned(),
        open => format!("; {open} incidents are open and hold nobody"),
    };
    format!(
        "is false: machines that failed together are not held, and a rack without power is repaired machine by machine as far as \
         maximum-repair-queue-entries allows{incidents}"
    )
}

fn the_rack() -> String {
    format!("a rack of {RACK} machines that goes dark within {} minutes", GOES_DARK.as_secs() / 60)
}

fn found_late(found: Option<usize>) -> String {
    let rack = the_rack();
    let usual = RepairSettings::default().found_at().unwrap_or(RACK);
    match found {
        None => format!("{rack} is never found to have failed together, and none of it is held"),
        Some(found) => format!("{rack} is found when {found} of them are broken, by default when {usual} are"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(values: &[(&str, &str)]) -> RepairSettings {
        let set = |settings: RepairSettings, (name, value): &(&str, &str)| settings.with(name, value).expect(name);
        values.iter().fold(RepairSettings::default(), set)
    }

    /// What is told about settings: where, and a part of the text.
    fn check(values: &[(&str, &str)], expected: &[(&str, &str)]) {
        let told = settings(values).warnings(0);
        let paths: Vec<&str> = told.iter().map(|problem| problem.path.as_str()).collect();
        assert_eq!(paths, expected.iter().map(|(path, _)| *path).collect::<Vec<_>>(), "{values:?}: {told:?}");
        for (problem, (_, text)) in told.iter().zip(expected) {
            assert!(problem.reason.contains(text), "{values:?}: {problem:?}");
        }
    }

    #[test]
    fn settings_that_blind_the_guard_are_told() {
        let never = "is never found";
        check(&[("group-least", "1000000")], &[("group-least", never)]);
        check(&[("group-least", "29")], &[("group-least", never)]);
        check(&[("group-least", "28")], &[("group-least", "when 28 of them"), ("observe-seconds", "after 899 s")]);
        check(&[("chance", "1e-300")], &[("chance", "is 1e-300: a rack of 28 machines")]);
        check(&[("windows-minutes", "1")], &[("windows-minutes", never)]);
        check(&[("failures-percent-per-day", "100")], &[("failures-percent-per-day", "when 7 of them")]);
        check(&[("observe-seconds", "0")], &[("observe-seconds", "is 0: a rack of 28 machines")]);
        check(&[("observe-seconds", "66")], &[("observe-seconds", "after 66 s")]);
        check(&[("stale-after-hours", "0")], &[("stale-after-hours", "nothing is repaired")]);
        let two = [("group-least", "500"), ("chance", "1e-300")];
        check(&two, &[("group-least", never), ("chance", never)]);
        // Each of them would do.
        let together = [("failures-percent-per-day", "40"), ("chance", "1e-7")];
        check(&together[..1], &[]);
        check(&together[1..], &[]);
        check(&together, &[("settings", "protect little: a rack of 28 machines")]);
    }

    #[test]
    fn what_people_choose_with_reason_is_taken_silently() {
        check(&[], &[]);
        for (name, value) in [
            ("failures-percent-per-day", "0.1"),
            ("failures-percent-per-day", "5"),
            ("windows-minutes", "15,120"),
            ("windows-minutes", "10"),
            ("group-least", "2"),
            ("group-least", "5"),
            ("chance", "1e-7"),
            ("observe-seconds", "120"),
            ("observe-seconds", "900"),
            ("stale-after-hours", "24"),
            ("finished-count-hours", "24"),
            ("version-label", "image"),
        ] {
            check(&[(name, value)], &[]);
        }
    }

    #[test]
    fn a_guard_that_is_off_is_told_with_what_it_let_go() {
        let off = settings(&[("guard", "false"), ("observe-seconds", "0")]);
        let told = |open: usize| {
            let warnings = off.warnings(open);
            assert_eq!((warnings.len(), warnings[0].path.as_str()), (1, "guard"), "what is off has no other faults");
            warnings[0].reason.clone()
        };
        assert!(told(0).ends_with("maximum-repair-queue-entries allows"), "{}", told(0));
        assert!(told(1).ends_with("; 1 incident is open and holds nobody"), "{}", told(1));
        assert!(told(7).ends_with("; 7 incidents are open and hold nobody"), "{}", told(7));
        assert!(RepairSettings::default().warnings(7).is_empty());
    }
}
