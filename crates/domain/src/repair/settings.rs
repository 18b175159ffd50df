//! What an operator may choose about automatic repair, by name. Each has a default that is safe.

mod warnings;

use std::{fmt, time::Duration};

use super::guard::GuardRules;
use crate::{cluster::shape::Problem, limits, words::LabelName};

/// What an operator may choose.
#[derive(Debug, Clone, PartialEq)]
pub struct RepairSettings {
    /// When machines count as having failed together.
    pub guard: GuardRules,
    /// How long a repair counts after it ended; `None`: until somebody deletes it.
    pub finished_counts: Option<Duration>,
    /// The label that names the power domain of a machine.
    pub power_domain_label: String,
    /// The label that names the version of what runs on a machine.
    pub version_label: String,
    /// Kubernetes is told of nodes without power, so that their volumes are detached and their pods started elsewhere.
    pub out_of_service_taint: bool,
}

impl Default for RepairSettings {
    fn default() -> RepairSettings {
        RepairSettings {
            guard: GuardRules::default(),
            finished_counts: None,
            power_domain_label: "power-domain".to_owned(),
            version_label: "version".to_owned(),
            // Whoever is wrong about the power of a machine has two machines write to one volume.
            out_of_service_taint: false,
        }
    }
}

/// One thing to choose. Names exist once, in [`Setting::as_str`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Setting {
    /// [`GuardRules::enabled`].
    Guard,
    /// [`GuardRules::percent_per_day`].
    FailuresPercentPerDay,
    /// [`GuardRules::windows`].
    WindowsMinutes,
    /// [`GuardRules::least`].
    GroupLeast,
    /// [`GuardRules::chance`].
    Chance,
    /// [`GuardRules::observe`].
    ObserveSeconds,
    /// [`GuardRules::stale_after`].
    StaleAfterHours,
    /// [`RepairSettings::finished_counts`].
    FinishedCountHours,
    /// [`RepairSettings::power_domain_label`].
    PowerDomainLabel,
    /// [`RepairSettings::version_label`].
    VersionLabel,
    /// [`RepairSettings::out_of_service_taint`].
    OutOfServiceTaint,
}

impl Setting {
    /// Every setting.
    pub const ALL: [Setting; 11] = [
        Setting::Guard,
        Setting::FailuresPercentPerDay,
        Setting::WindowsMinutes,
        Setting::GroupLeast,
        Setting::Chance,
        Setting::ObserveSeconds,
        Setting::StaleAfterHours,
        Setting::FinishedCountHours,
        Setting::PowerDomainLabel,
        Setting::VersionLabel,
        Setting::OutOfServiceTaint,
    ];

    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Setting::Guard => "guard",
            Setting::FailuresPercentPerDay => "failures-percent-per-day",
            Setting::WindowsMinutes => "windows-minutes",
            Setting::GroupLeast => "group-least",
            Setting::Chance => "chance",
            Setting::ObserveSeconds => "observe-seconds",
            Setting::StaleAfterHours => "stale-after-hours",
            Setting::FinishedCountHours => "finished-count-hours",
            Setting::PowerDomainLabel => "power-domain-label",
            Setting::VersionLabel => "version-label",
            Setting::OutOfServiceTaint => "out-of-service-taint",
        }
    }

    /// What it does, for people.
    pub const fn text(self) -> &'static str {
        match self {
            Setting::Guard => "`true`: machines that failed together are held. `false`: the plain limits decide alone.",
            Setting::FailuresPercentPerDay => "How many machines of a hundred break in a day, each by itself.",
            Setting::WindowsMinutes => "Over which times failures are counted, in minutes, separated by commas.",
            Setting::GroupLeast => "Fewer failures are never a group.",
            Setting::Chance => "What is less likely than this is no chance.",
            Setting::ObserveSeconds => {
                "How long a failure is watched before it is repaired: a rack does not fail in one moment."
            }
            Setting::StaleAfterHours => "A report that is older is not acted on; a person has to look.",
            Setting::FinishedCountHours => "How long a repair counts after it ended; `0`: until somebody deletes it.",
            Setting::PowerDomainLabel => "The label that names the power domain of a machine.",
            Setting::VersionLabel => "The label that names the version of what runs on a machine.",
            Setting::OutOfServiceTaint => {
                "`true`: a node that is being repaired and whose controller confirms that its power is off gets the taint \
                 `node.kubernetes.io/out-of-service` until it is back."
            }
        }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl RepairSettings {
    /// The value of a setting, as it is written.
    pub fn get(&self, setting: Setting) -> String {
        let RepairSettings { guard, finished_counts, power_domain_label, version_label, out_of_service_taint } = self;
        match setting {
            Setting::Guard => guard.enabled.to_string(),
            Setting::FailuresPercentPerDay => guard.percent_per_day.to_string(),
            Setting::WindowsMinutes => {
                let minutes = guard.windows.iter().map(|window| (window.as_secs() / 60).to_string());
                minutes.collect::<Vec<_>>().join(",")
            }
            Setting::GroupLeast => guard.least.to_string(),
            // Hundreds of zeros say nothing to people.
            Setting::Chance => format!("{:?}", guard.chance),
            Setting::ObserveSeconds => guard.observe.as_secs().to_string(),
            Setting::StaleAfterHours => (guard.stale_after.as_secs() / 3_600).to_string(),
            Setting::FinishedCountHours => (finished_counts.unwrap_or_default().as_secs() / 3_600).to_string(),
            Setting::PowerDomainLabel => power_domain_label.clone(),
            Setting::VersionLabel => version_label.clone(),
            Setting::OutOfServiceTaint => out_of_service_taint.to_string(),
        }
    }

    /// The same with one changed.
    pub fn with(mut self, name: &str, value: &str) -> Result<RepairSettings, Problem> {
        let Some(setting) = Setting::ALL.into_iter().find(|setting| setting.as_str() == name) else {
            let known = Setting::ALL.map(Setting::as_str).join(", ");
            return Err(Problem::new(name, format!("is not known; known: {known}")));
        };
        let wrong = |expected: &str| Problem::new(name, format!("{value:?} does not fit: {expected}"));
        let whole = |max: u64, expected: &str| {
            value.parse::<u64>().ok().filter(|number| *number <= max).ok_or_else(|| wrong(expected))
        };
        let hours = |text| whole(limits::REPAIR_HOURS_MAX, text).map(|hours| Duration::from_secs(3_600 * hours));
        let label =
            |text: &str| LabelName::new(text).map(|name| name.to_string()).map_err(|error| wrong(&error.to_string()));
        match setting {
            Setting::Guard => self.guard.enabled = value.parse().map_err(|_| wrong("true or false"))?,
            Setting::FailuresPercentPerDay => {
                let percent = value.parse::<f64>().ok().filter(|percent| *percent > 0.0 && *percent <= 100.0);
                self.guard.percent_per_day = percent.ok_or_else(|| wrong("a number above 0, at most 100"))?;
            }
            Setting::WindowsMinutes => {
                self.guard.windows =
                    windows(value).ok_or_else(|| wrong("1 to 8 whole numbers of minutes, each from 1 to 10080"))?;
            }
            Setting::GroupLeast => {
                let least = whole(1_000_000, "a whole number from 2 on")?;
                self.guard.least = usize::try_from(least)
                    .ok()
                    .filter(|least| *least >= 2)
                    .ok_or_else(|| wrong("a whole number from 2 on"))?;
            }
            Setting::Chance => {
                let chance = value.parse::<f64>().ok().filter(|chance| *chance > 0.0 && *chance < 1.0);
                self.guard.chance = chance.ok_or_else(|| wrong("a number between 0 and 1"))?;
            }
            Setting::ObserveSeconds => {
                self.guard.observe = Duration::from_secs(whole(86_400, "whole seconds, at most a day")?);
            }
            Setting::StaleAfterHours => {
                self.guard.stale_after = hours("whole hours, at most a year")?;
            }
            Setting::FinishedCountHours => {
                self.finished_counts =
                    Some(hours("whole hours, at most a year; 0: for ever")?).filter(|time| !time.is_zero());
            }
            Setting::PowerDomainLabel => self.power_domain_label = label(value)?,
            Setting::VersionLabel => self.version_label = label(value)?,
            Setting::OutOfServiceTaint => {
                self.out_of_service_taint = value.parse().map_err(|_| wrong("true or false"))?;
            }
        }
        Ok(self)
    }
}

fn windows(text: &str) -> Option<Vec<Duration>> {
    let minutes = |text: &str| text.trim().parse::<u64>().ok().filter(|minutes| (1..=10_080).contains(minutes));
    let mut windows: Vec<u64> = text.split(',').map(minutes).collect::<Option<_>>()?;
    if windows.len() > limits::REPAIR_WINDOWS_MAX {
        return None;
    }
    windows.sort_unstable();
    windows.dedup();
    Some(windows.into_iter().map(|m| Duration::from_secs(60 * m)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_is_read_as_it_is_written() {
        let mut other = RepairSettings::default();
        for (name, value) in [
            ("guard", "false"),
            ("failures-percent-per-day", "0.5"),
            ("windows-minutes", "10,60"),
            ("group-least", "4"),
            ("chance", "0.001"),
            ("observe-seconds", "60"),
            ("stale-after-hours", "24"),
            ("finished-count-hours", "12"),
            ("power-domain-label", "pdu"),
            ("version-label", "image"),
            ("out-of-service-taint", "true"),
        ] {
            other = other.with(name, value).expect(name);
        }
        let mut copy = RepairSettings::default();
        for setting in Setting::ALL {
            assert_ne!(other.get(setting), copy.get(setting), "{setting}");
            copy = copy.with(setting.as_str(), &other.get(setting)).expect("reads");
            assert_eq!(other.get(setting), copy.get(setting), "{setting}");
        }
        assert_eq!(copy, other);
    }

    #[test]
    fn what_does_not_fit_is_named() {
        for (name, value) in [
            ("guard", "yes"),
            ("failures-percent-per-day", "0"),
            ("failures-percent-per-day", "NaN"),
            ("windows-minutes", ""),
            ("windows-minutes", "0"),
            ("windows-minutes", "1,2,3,4,5,6,7,8,9"),
            ("group-least", "1"),
            ("chance", "1"),
            ("chance", "inf"),
            ("observe-seconds", "-1"),
            ("stale-after-hours", "100000"),
            ("finished-count-hours", "a"),
            ("power-domain-label", "a b"),
            ("out-of-service-taint", "1"),
            ("no-such", "1"),
        ] {
            let problem = RepairSettings::default().with(name, value).expect_err(name);
            assert_eq!(problem.path, name);
        }
    }
}
