//! How applying the configuration to Kubernetes goes. `tasks::applier` does the applying, `sabakan_domain::cluster::attributes` decides
//! what is applied.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use jiff::Timestamp;
use sabakan_drivers::kubernetes::Kubernetes;
use tokio::sync::watch;

use super::live_nodes::LiveNodes;
use crate::limits;

/// Applies the configuration to Kubernetes, on one server among several.
pub struct Applier {
    pub(crate) kubernetes: Arc<dyn Kubernetes>,
    pub(crate) nodes: Arc<LiveNodes>,
    pub(crate) period: Duration,
    pub(crate) progress: watch::Sender<Progress>,
}

impl Applier {
    /// An applier for this Kubernetes and its Nodes.
    pub fn new(kubernetes: Arc<dyn Kubernetes>, nodes: Arc<LiveNodes>) -> Applier {
        Applier { kubernetes, nodes, period: limits::APPLY_PERIOD, progress: watch::Sender::new(Progress::default()) }
    }

    /// Looks at Nodes this often although the configuration has not changed.
    #[must_use]
    pub fn every(mut self, period: Duration) -> Applier {
        self.period = period;
        self
    }

    /// The Kubernetes it applies to.
    pub fn kubernetes(&self) -> Arc<dyn Kubernetes> {
        Arc::clone(&self.kubernetes)
    }

    /// How it goes on this server.
    pub fn progress(&self) -> Progress {
        self.progress.borrow().clone()
    }
}

/// How applying goes on this server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Progress {
    /// Whether this server is the one that applies. The rest is about the last time it was.
    pub leading: bool,
    /// How often it looked at Kubernetes since this server started.
    pub rounds: u64,
    /// When it last did.
    pub last_round: Option<Timestamp>,
    /// When it last left every Node as it shall be. Nodes that do not exist yet do not count against it.
    pub last_success: Option<Timestamp>,
    /// Why the last round could not be finished; Nodes it did not come to are as they were.
    pub problem: Option<String>,
    /// Nodes of the configuration.
    pub nodes: usize,
    /// Those that are as they shall be.
    pub as_wanted: usize,
    /// Those that Kubernetes does not know.
    pub missing: usize,
    /// Names of some of them: at most `limits::NODES_NAMED_MAX`.
    pub missing_named: Vec<String>,
    /// Those that could not be changed.
    pub failed: usize,
    /// Some of them, with the reason: at most `limits::NODES_NAMED_MAX`.
    pub failed_named: BTreeMap<String, String>,
    /// Nodes that were changed since this server started.
    pub changed: u64,
}

impl Progress {
    pub(crate) fn miss(&mut self, name: String) {
        self.missing += 1;
        if self.missing_named.len() < limits::NODES_NAMED_MAX {
            self.missing_named.push(name);
        }
    }

    pub(crate) fn fail(&mut self, name: String, reason: String) {
        self.failed += 1;
        if self.failed_named.len() < limits::NODES_NAMED_MAX {
            self.failed_named.insert(name, reason);
        }
    }
}
