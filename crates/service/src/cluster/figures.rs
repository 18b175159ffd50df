//! What the planner tells about itself in figures.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use sabakan_domain::cluster::report::Totals;

/// Figures of the rounds of this server. Counters stay; everything else is only told by the server that leads, while the planner works:
/// what another server has long changed would be told twice, and wrongly.
#[derive(Debug, Clone, Default)]
pub struct Figures {
    /// Whether the last plan could go on, and when it was made; `None`: this server made none.
    pub last: Option<(bool, Timestamp)>,
    /// Workers by role after the last plan that could go on.
    pub workers: BTreeMap<String, usize>,
    /// Unused healthy machines after it.
    pub unused: usize,
    /// Whether there are as many healthy workers as there should be.
    pub minimum_met: bool,
    /// How long the last plan took to make.
    pub seconds: f64,
    /// Rounds without a list of machines or of taints.
    pub query_failures: u64,
    /// Changes that were stored.
    pub changes: u64,
}

impl Figures {
    /// A round could not be finished for a reason that is not the cluster's, such as a store that does not take what was planned.
    pub(super) fn failed(&mut self, at: Timestamp) {
        self.last = Some((false, at));
    }

    pub(super) fn planned(&mut self, at: Timestamp, took: Duration, totals: Option<&Totals>, minimum: u32) {
        self.seconds = took.as_secs_f64();
        self.last = Some((totals.is_some(), at));
        if let Some(totals) = totals {
            self.workers.clone_from(&totals.workers);
            self.unused = totals.unused;
            self.minimum_met = totals.healthy_workers >= minimum as usize;
        }
    }
}
