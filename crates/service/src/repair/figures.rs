//! What repair tells about itself in figures.

use std::{collections::BTreeMap, net::Ipv4Addr};

use jiff::Timestamp;
use sabakan_domain::repair::{
    entry::{Entry, Status},
    reboot::{self, RebootEntry},
};

use super::Budget;

/// What the server that leads is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Phase {
    /// Nothing is to be done.
    #[default]
    Completed,
    /// Nodes are given back to the scheduler.
    Uncordon,
    /// Machines are repaired.
    Repair,
    /// Nodes are rebooted.
    Reboot,
}

impl Phase {
    /// Every phase.
    pub const ALL: [Phase; 4] = [Phase::Uncordon, Phase::Repair, Phase::Reboot, Phase::Completed];

    /// Its name, which programs around CKE know.
    pub const fn as_str(self) -> &'static str {
        match self {
            Phase::Completed => "completed",
            Phase::Uncordon => "uncordon-nodes",
            Phase::Repair => "repair-machines",
            Phase::Reboot => "reboot-nodes",
        }
    }
}

/// Figures of this server. Counters stay; everything else is only told by the server that leads.
#[derive(Debug, Clone, Default)]
pub struct Figures {
    /// What is there now; `None`: this server does not lead.
    pub now: Option<Present>,
    /// Machines that came into the queue by themselves.
    pub enqueued: u64,
    /// Steps that were begun.
    pub steps: u64,
    /// Repairs that ended with a healthy machine.
    pub succeeded: u64,
    /// Repairs that ended otherwise.
    pub failed: u64,
    /// Drains that were given up for a while.
    pub drains_given_up: u64,
    /// Incidents that were opened.
    pub incidents: u64,
    /// Looks at the registry that gave no list.
    pub query_failures: u64,
    /// Cycles that were given up because something could not be read or written.
    pub cycle_failures: u64,
}

/// What is there now.
#[derive(Debug, Clone, Default)]
pub struct Present {
    /// When it was looked at.
    pub at: Timestamp,
    /// Broken machines come into the queue by themselves.
    pub automatic: bool,
    /// Repairs are begun.
    pub enabled: bool,
    /// Reboots are begun.
    pub reboots_enabled: bool,
    /// What failed together is held.
    pub guard: bool,
    /// What this server is at.
    pub phase: Phase,
    /// Entries of the repair queue.
    pub entries: Vec<Entry>,
    /// What counts for each node in the reboot queue.
    pub reboots: Vec<RebootEntry>,
    /// Nodes of the cluster.
    pub nodes: Vec<Ipv4Addr>,
    /// How much may still be repaired.
    pub budget: Budget,
    /// Broken machines.
    pub broken: usize,
    /// Of them, those that are held because they failed together.
    pub held: usize,
    /// Of them, those for which there is no room.
    pub without_room: usize,
    /// Incidents that hold their machines: open ones, while the guard is on.
    pub incidents_open: usize,
}

impl Present {
    /// Entries of the repair queue by status.
    pub fn by_status(&self) -> BTreeMap<Status, usize> {
        let mut counts: BTreeMap<Status, usize> = Status::ALL.into_iter().map(|status| (status, 0)).collect();
        for entry in &self.entries {
            *counts.entry(entry.status).or_insert(0) += 1;
        }
        counts
    }

    /// The entry of the reboot queue that counts for each node.
    pub(super) fn counting(reboots: &[RebootEntry]) -> Vec<RebootEntry> {
        reboot::by_node(reboots).into_values().cloned().collect()
    }
}

impl Figures {
    /// Counters alone.
    pub(super) fn counters(&self) -> Figures {
        Figures { now: None, ..self.clone() }
    }
}
