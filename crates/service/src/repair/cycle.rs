//! One cycle: what ended is written down, everything is looked at, machines come into the queue, and the next thing is begun for the
//! entries of both queues. Whatever takes time goes on in the background ([`Work`]).

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
};

use sabakan_domain::{
    cluster::attributes::LiveNode,
    repair::{
        drain::{Cordon, Obstacle, cordon},
        enqueue::Verdict,
        entry::{Status, StepStatus},
        reboot::RebootStatus,
    },
};
use sabakan_drivers::kubernetes::{Kubernetes, KubernetesError};
use sabakan_store::repo::leaders::Lead;
use tokio::time::Instant;

use super::{
    Figures, Phase, Repairs, RoundEnd, Work,
    facts::{Look, Standing},
    figures::Present,
    open_incidents,
    work::Job,
};
use crate::{ServiceError, limits};

/// What Kubernetes says about the nodes that are looked after.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Nodes that were cordoned for us, with their names.
    pub(super) cordoned: BTreeMap<Ipv4Addr, String>,
    /// Nodes from which all pods have gone.
    pub(super) drained: BTreeSet<Ipv4Addr>,
    /// What is left on others.
    pub(super) left: BTreeMap<Ipv4Addr, String>,
    /// Why nothing is taken away: not more is known, or what was begun is not in order.
    pub(super) problem: Option<String>,
}

impl Repairs {
    /// Takes the next step with everything. Whether another follows at once.
    pub(crate) async fn cycle(self: &Arc<Self>, lead: &Lead, work: &mut Work) -> Result<bool, ServiceError> {
        self.write_down(lead, work).await?;
        let mut look = self.look().await?;
        self.take_note(&look);
        let (end, is_written) = self.round(lead, &look).await?;
        let overtaken = end == RoundEnd::Overtaken;
        self.told().round = Some((look.standing.now, end));
        if is_written {
            look.standing = self.standing().await?;
        }
        self.stop_unwanted(&look, work).await?;
        let mut seen = self.see(&look.standing, work).await;
        if work.stop_orphans(|job| look.standing.has(job)) {
            seen.problem = Some("what was begun for an entry that is gone is being stopped".to_owned());
        }
        let (active, uncordons) = self.pass(lead, &look, &seen, work).await?;
        let rebooting = self.restart(lead, &look, &seen, active, work).await?;
        let phase = match (uncordons, active, rebooting) {
            (true, ..) => Phase::Uncordon,
            (_, true, _) => Phase::Repair,
            (_, _, true) => Phase::Reboot,
            _ => Phase::Completed,
        };
        self.present(&look, phase);
        Ok(overtaken || is_written)
    }

    /// What Kubernetes says about the nodes that are looked after. Nobody is asked about a queue that is empty, but for nodes that
    /// were left cordoned.
    async fn see(&self, standing: &Standing, work: &mut Work) -> Seen {
        let mut seen = Seen::default();
        let Some(kubernetes) = &self.options.kubernetes else { return seen };
        let state = &standing.state;
        let idle = state.entries.iter().all(|entry| entry.is_finished() && !entry.deleted) && state.reboots.is_empty();
        let fresh = work.cordons_read.is_some_and(|at| at.elapsed() < limits::CORDONS_EVERY);
        if idle && fresh {
            return seen;
        }
        let reading = self.read_nodes(&**kubernetes, standing, &mut seen);
        let read = tokio::time::timeout(limits::NODES_READ_MAX, reading).await;
        let problem = match read {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some("Kubernetes takes too long to answer".to_owned()),
        };
        if let Some(problem) = problem {
            tracing::warn!(task = super::TASK, problem, "not everything is known about nodes in kubernetes");
            seen.problem = Some(problem);
        }
        // What was cordoned is looked at again until nothing is.
        work.cordons_read = (seen.problem.is_none() && seen.cordoned.is_empty()).then(Instant::now);
        seen
    }

    async fn read_nodes(
        &self,
        kubernetes: &dyn Kubernetes,
        standing: &Standing,
        seen: &mut Seen,
    ) -> Result<(), KubernetesError> {
        for node in kubernetes.cordoned().await? {
            if cordon(&node) == Cordon::Ours
                && let Some(address) = address_of(&node, standing)
            {
                seen.cordoned.insert(address, node.name);
            }
        }
        let state = &standing.state;
        let repairs = state.entries.iter().filter(|entry| {
            entry.status == Status::Processing && entry.step_status == StepStatus::Draining && !entry.deleted
        });
        let repairs = repairs.map(|entry| (entry.address, &standing.procedures.drain));
        let rules = standing.rebooting.as_ref().map(|rules| &rules.drain);
        let reboots = state.reboots.iter().filter(|entry| entry.status == RebootStatus::Draining);
        let reboots = reboots.filter_map(|entry| Some((entry.node, rules?)));
        for (address, rules) in repairs.chain(reboots) {
            let Some(node) = standing.nodes.get(&address) else { continue };
            // What is wrong with one node must not stop the others.
            let left = match kubernetes.pods(&node.name).await {
                Ok(pods) => Obstacle::left(&pods, rules).map(|obstacle| obstacle.to_string()),
                Err(error) => Some(error.to_string()),
            };
            match left {
                Some(reason) => drop(seen.left.insert(address, reason)),
                None => drop(seen.drained.insert(address)),
            }
        }
        Ok(())
    }

    /// Keeps what is there now for those who ask.
    fn present(&self, look: &Look, phase: Phase) {
        let Standing { state, nodes, now, .. } = &look.standing;
        let count =
            |wanted: fn(&Verdict) -> bool| look.decision.verdicts.iter().filter(|(_, verdict)| wanted(verdict)).count();
        let present = Present {
            at: *now,
            automatic: state.automatic,
            enabled: state.enabled,
            reboots_enabled: state.reboots_enabled,
            guard: state.settings.guard.enabled,
            phase,
            entries: state.entries.clone(),
            reboots: Present::counting(&state.reboots),
            nodes: nodes.keys().copied().collect(),
            budget: look.budget(),
            broken: look.decision.verdicts.len(),
            held: count(|verdict| matches!(verdict, Verdict::Held { .. })),
            without_room: count(|verdict| matches!(verdict, Verdict::NoRoom { .. })),
            // Without the guard they hold nobody, and an alert about them would say what is not so.
            incidents_open: if state.settings.guard.enabled { open_incidents(state) } else { 0 },
        };
        let mut told = self.told();
        told.figures = Figures { now: Some(present), ..told.figures.clone() };
    }
}

impl Standing {
    /// Whether the entry of a job is there.
    fn has(&self, job: Job) -> bool {
        match job {
            Job::Repair(index) | Job::Check(index) => self.state.entries.iter().any(|entry| entry.index == index),
            Job::Reboot(index) | Job::BootCheck(index) => self.state.reboots.iter().any(|entry| entry.index == index),
        }
    }
}

/// The address a node is known by here: that of the configuration, if it is in there.
fn address_of(node: &LiveNode, standing: &Standing) -> Option<Ipv4Addr> {
    let own = standing.nodes.iter().find(|(_, known)| known.name == node.name).map(|(address, _)| *address);
    let v4 = |address: &IpAddr| if let IpAddr::V4(address) = address { Some(*address) } else { None };
    own.or_else(|| node.addresses.iter().find_map(v4)).or_else(|| node.name.parse().ok())
}
