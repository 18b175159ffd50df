//! An entry of the reboot queue: a node that is to be rebooted in an orderly way. [`next`] says what is done with each. Repair looks at
//! them so that a machine which is rebooted on purpose is not taken for a broken one.

use std::{collections::BTreeMap, fmt, net::Ipv4Addr, time::Duration};

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value};

use super::{
    entry::Backoff,
    guard::Failure,
    procedure::{self, DrainRules},
};
use crate::lifecycle::HealthState;

mod next;
pub use next::{Act, Around, Next, next};

/// Where an entry is. Names exist once, in [`RebootStatus::as_str`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RebootStatus {
    /// Waits for its turn.
    Queued,
    /// Pods leave the node.
    Draining,
    /// The node was told to reboot.
    Rebooting,
    /// Somebody wants it gone.
    Cancelled,
}

impl RebootStatus {
    /// Every status.
    pub const ALL: [RebootStatus; 4] =
        [RebootStatus::Queued, RebootStatus::Draining, RebootStatus::Rebooting, RebootStatus::Cancelled];

    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            RebootStatus::Queued => "queued",
            RebootStatus::Draining => "draining",
            RebootStatus::Rebooting => "rebooting",
            RebootStatus::Cancelled => "cancelled",
        }
    }

    /// The status with this name.
    pub fn parse(name: &str) -> Option<RebootStatus> {
        RebootStatus::ALL.into_iter().find(|status| status.as_str() == name)
    }
}

impl fmt::Display for RebootStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A node that is to be rebooted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RebootEntry {
    /// Its number.
    pub index: u64,
    /// The node.
    pub node: Ipv4Addr,
    /// Where it is.
    pub status: RebootStatus,
    /// When that changed.
    pub changed_at: Option<Timestamp>,
    /// Drains that failed.
    pub backoff: Backoff,
    /// What the last thing that was done came to, for people. While its command is running there is nothing to say.
    pub note: String,
}

/// The pause after the first drain that failed; each further one doubles it.
const BACKOFF_FIRST: u64 = 300;

/// The longest pause, without what chance adds.
const BACKOFF_MOST: u64 = 1_200;

/// What chance adds, at most, so that several nodes do not come back together.
const BACKOFF_CHANCE: u64 = 300;

/// The longest pause there can be.
const BACKOFF_LONGEST: SignedDuration = SignedDuration::from_secs((BACKOFF_MOST + BACKOFF_CHANCE) as i64);

impl RebootEntry {
    /// The pause after one more drain that failed. `random` chooses within the span.
    pub fn backoff_after_failure(&self, now: Timestamp, random: u64) -> Backoff {
        let count = self.backoff.count.saturating_add(1);
        let doubled = 1_u64.checked_shl(count - 1).and_then(|times| times.checked_mul(BACKOFF_FIRST));
        let pause = doubled.map_or(BACKOFF_MOST, |pause| pause.min(BACKOFF_MOST)) + random % BACKOFF_CHANCE;
        let until = now.checked_add(Duration::from_secs(pause)).unwrap_or(now);
        Backoff { count, until: Some(until) }
    }

    /// Until when its drain is not tried again, if it is not. A pause that would last longer than any was written by a clock that has
    /// been set back since.
    pub fn pauses_until(&self, now: Timestamp) -> Option<Timestamp> {
        self.backoff.until.filter(|_| self.backoff.holds_for(now, BACKOFF_LONGEST))
    }

    /// Whether its node is about to go away or has gone.
    pub fn is_under_way(&self) -> bool {
        matches!(self.status, RebootStatus::Draining | RebootStatus::Rebooting)
    }
}

/// How nodes are rebooted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RebootRules {
    /// Reboots a node, whose address is added. No shell.
    pub reboot_command: Vec<String>,
    /// Prints `true` when a node has booted. Its address is added, and the time of the reboot in Unix seconds.
    pub boot_check_command: Vec<String>,
    /// How many nodes at the same time.
    pub concurrent_max: usize,
    /// How long one try of a command may take; `None`: as long as it likes.
    pub timeout: Option<Duration>,
    /// How often a command is tried again.
    pub retries: u32,
    /// The pause after each try that failed.
    pub interval: Duration,
    /// How pods leave a node.
    pub drain: DrainRules,
}

impl RebootRules {
    /// From a cluster's configuration, which was checked when it was stored. Without both commands nothing is rebooted.
    pub fn of(rest: &Map<String, Value>) -> Option<RebootRules> {
        let members = rest.get("reboot")?.as_object()?;
        let command = |name| procedure::texts(members, name).filter(|command| !command.is_empty());
        let concurrent_max = members.get("max_concurrent_reboots").and_then(Value::as_u64).unwrap_or(1);
        let timeout = procedure::seconds(members, "command_timeout_seconds", 0);
        Some(RebootRules {
            reboot_command: command("reboot_command")?,
            boot_check_command: command("boot_check_command")?,
            concurrent_max: usize::try_from(concurrent_max).unwrap_or(usize::MAX),
            timeout: (!timeout.is_zero()).then_some(timeout),
            retries: procedure::retries(members),
            interval: procedure::seconds(members, "command_interval", 0),
            drain: DrainRules::of(members),
        })
    }
}

/// Whether a machine that cannot be contacted is one that was told to reboot a short while ago.
pub fn is_planned(failure: &Failure, reboots: &BTreeMap<Ipv4Addr, &RebootEntry>, wait: Duration) -> bool {
    let rebooting = |address| reboots.get(&address).is_some_and(|entry| entry.status == RebootStatus::Rebooting);
    failure.state == HealthState::Unreachable && failure.age < wait && failure.address.is_some_and(rebooting)
}

/// What counts for each node: its first entry.
pub fn by_node(entries: &[RebootEntry]) -> BTreeMap<Ipv4Addr, &RebootEntry> {
    let mut sorted: Vec<&RebootEntry> = entries.iter().collect();
    sorted.sort_by_key(|entry| entry.index);
    let mut first = BTreeMap::new();
    for entry in sorted {
        first.entry(entry.node).or_insert(entry);
    }
    first
}

#[cfg(test)]
mod tests;
