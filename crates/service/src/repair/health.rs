//! Whether the machines of the repair queue are healthy: asked of a command in the background, or of the registry.

use std::{collections::BTreeSet, net::Ipv4Addr, sync::Arc, time::Duration};

use sabakan_domain::repair::{
    entry::Entry,
    procedure::{HealthCheck, is_well},
};
use sabakan_store::view::Snapshot;

use super::{
    Repairs, Work,
    facts::Look,
    work::{Job, Outcome},
};
use crate::{error_chain, limits};

impl Repairs {
    /// Machines of the queue that are healthy, and entries of which that is not known yet. Begins the checks that are due.
    pub(super) fn healthy(
        self: &Arc<Self>,
        look: &Look,
        entries: &[Entry],
        snapshot: &Snapshot,
        work: &mut Work,
    ) -> (BTreeSet<Ipv4Addr>, BTreeSet<u64>) {
        let standing = &look.standing;
        let (mut healthy, mut unchecked) = (BTreeSet::new(), BTreeSet::new());
        let asked = |entry: &&Entry| !entry.is_finished() && !entry.deleted;
        let entries: Vec<&Entry> = entries.iter().filter(asked).collect();
        let indexes: BTreeSet<u64> = entries.iter().map(|entry| entry.index).collect();
        work.keep(|job| !matches!(job, Job::Check(index) | Job::Repair(index) if !indexes.contains(&index)));
        let running = work.repairs();
        let broken = look.broken();
        for entry in entries {
            // Nothing is asked about what cannot be repaired: it ends by itself.
            let Ok(operation) = standing.procedures.operation(&entry.machine_type, &entry.operation) else { continue };
            let command = match &operation.health_check {
                HealthCheck::Command(command) => command.clone(),
                HealthCheck::Registry => {
                    if self.is_well(look, entry, snapshot, &broken) {
                        healthy.insert(entry.address);
                    }
                    continue;
                }
            };
            let job = Job::Check(entry.index);
            if work.is_due(job, self.options.period) && !running.contains(&entry.index) {
                let (limit, address) = (operation.health_check_timeout, entry.address.to_string());
                let this = Arc::clone(self);
                let check = async move { this.check(&command, &[address], limit).await };
                work.begin(job, "its health is being checked".to_owned(), check);
            }
            match work.answer(job) {
                Some(answer) if answer.yes => drop(healthy.insert(entry.address)),
                Some(_) => {}
                None => drop(unchecked.insert(entry.index)),
            }
        }
        (healthy, unchecked)
    }

    /// Whether the registry says that nothing is left to repair.
    fn is_well(&self, look: &Look, entry: &Entry, snapshot: &Snapshot, broken: &BTreeSet<Ipv4Addr>) -> bool {
        match &self.options.registry {
            None => is_well(snapshot.find_by_address(entry.address).map(|machine| machine.status.state)),
            // Another registry was asked for broken machines alone.
            Some(_) => look.reports.is_ok() && !broken.contains(&entry.address),
        }
    }

    /// The same where the registry is who is asked.
    pub(super) fn is_told_well(
        &self,
        look: &Look,
        entry: &Entry,
        snapshot: &Snapshot,
        broken: &BTreeSet<Ipv4Addr>,
    ) -> bool {
        let operation = look.standing.procedures.operation(&entry.machine_type, &entry.operation);
        operation.is_ok_and(|operation| operation.health_check == HealthCheck::Registry)
            && self.is_well(look, entry, snapshot, broken)
    }

    /// Asks a command that prints `true` for yes.
    pub(super) async fn check(&self, command: &[String], added: &[String], limit: Option<Duration>) -> Outcome {
        let limit = limit.unwrap_or(limits::COMMAND_TIME_MAX);
        match self.options.checker.run(command, added, Some(limit)).await {
            Ok(finished) if finished.is_success() => Outcome::Checked(finished.says_true(), None),
            Ok(finished) => Outcome::Checked(false, Some(format!("the check failed: {}", finished.summary()))),
            Err(error) => Outcome::Checked(false, Some(error_chain(&error))),
        }
    }
}
