//! An entry of the reboot queue: a node that is to be rebooted in an orderly way. Repair looks at them so that a machine which is
//! rebooted on purpose is not taken for a broken one.

use std::{collections::BTreeMap, fmt, net::Ipv4Addr, time::Duration};

use jiff::Timestamp;

use super::{entry::Backoff, guard::Failure};
use crate::lifecycle::HealthState;

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
