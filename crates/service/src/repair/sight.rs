//! What Kubernetes says about the nodes that are looked after: which Node each is, who is cordoned, whose pods have left, and who is gone.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
    time::Duration,
};

use sabakan_domain::{
    cluster::live_node::{self, LiveNode, NodeMatch},
    lifecycle::HealthState,
    provision::power::PowerState,
    repair::{
        drain::{Cordon, Obstacle, cordon},
        entry::{Entry, Status, StepStatus},
        gone::{self, NodeGone, NodeSigns},
        procedure::DrainRules,
        reboot::{RebootEntry, RebootStatus},
    },
};
use sabakan_drivers::kubernetes::Kubernetes;

use super::{
    Repairs, TASK,
    facts::{Look, Standing, known_power},
};
use crate::{cluster::live_nodes::LiveNodes, error_chain, limits};

/// What Kubernetes says about the nodes of the cluster.
#[derive(Debug, Default)]
pub(super) struct Sight {
    /// The Node of each, as it was a moment ago.
    pub(super) nodes: BTreeMap<Ipv4Addr, Arc<LiveNode>>,
    /// Those of which it is not known which Node they are, and why.
    pub(super) lost: BTreeMap<Ipv4Addr, String>,
    /// Those of the queues that are gone, with what proves it.
    pub(super) gone: BTreeMap<Ipv4Addr, NodeGone>,
    /// Nodes that were cordoned for us, with their names. Also such that are no longer in the cluster.
    pub(super) cordoned: BTreeMap<Ipv4Addr, String>,
    /// Nodes from which all pods have gone.
    pub(super) drained: BTreeSet<Ipv4Addr>,
    /// What is left on others.
    pub(super) left: BTreeMap<Ipv4Addr, String>,
    /// Power of the machines of the queues and of Nodes that are marked, as far as their controllers say.
    pub(super) power: BTreeMap<Ipv4Addr, PowerState>,
    /// Why nothing is taken away: not more is known, or what was begun is not in order.
    pub(super) problem: Option<String>,
}

impl Sight {
    /// What proves that nodes are gone, for the rules.
    pub(super) fn evidence(&self) -> BTreeMap<Ipv4Addr, String> {
        self.gone.iter().map(|(address, gone)| (*address, gone.evidence.clone())).collect()
    }
}

/// What is known about every node of the cluster, before anybody in the queues is looked at more closely.
type Matches = BTreeMap<Ipv4Addr, NodeMatch<Arc<LiveNode>>>;

impl Repairs {
    /// What Kubernetes says about the nodes of the cluster, and about the pods on those that are being drained.
    pub(super) async fn see(&self, look: &Look) -> Sight {
        let mut sight = Sight::default();
        let Some(nodes) = &self.options.nodes else { return sight };
        let reading = self.read_nodes(nodes, look, &mut sight);
        let problem = match tokio::time::timeout(limits::NODES_READ_MAX, reading).await {
            Ok(Ok(())) => return sight,
            Ok(Err(reason)) => reason,
            Err(_) => "Kubernetes takes too long to answer".to_owned(),
        };
        tracing::debug!(task = TASK, problem, "not everything is known about nodes in kubernetes");
        // A server that may not change Kubernetes drains nobody, and waits for nobody there.
        sight.problem = self.options.kubernetes.as_ref().map(|_| problem);
        sight
    }

    async fn read_nodes(&self, nodes: &LiveNodes, look: &Look, sight: &mut Sight) -> Result<(), String> {
        let live = nodes.read().await?;
        let matches = matches(&look.standing, &live);
        for (address, found) in &matches {
            match found {
                NodeMatch::Found(node) => drop(sight.nodes.insert(*address, Arc::clone(node))),
                NodeMatch::Lost(lost) => drop(sight.lost.insert(*address, lost.to_string())),
            }
        }
        sight.cordoned = cordoned(&sight.nodes, &live);
        self.read_power(look, sight).await;
        self.read_gone(nodes, look, &matches, sight).await;
        let Some(kubernetes) = &self.options.kubernetes else { return Ok(()) };
        read_pods(&**kubernetes, &look.standing, sight).await;
        Ok(())
    }

    /// Takes note of the power of machines whose nodes may be gone, or were marked as gone.
    async fn read_power(&self, look: &Look, sight: &mut Sight) {
        if self.options.registry.is_some() {
            return;
        }
        let Ok(snapshot) = self.on.view.read().await else { return };
        let marked = sight.nodes.iter().filter(|(_, node)| is_marked(node)).map(|(address, _)| *address);
        for address in targets(&look.standing).map(|(address, _)| address).chain(marked) {
            let machine = snapshot.find_by_address(address);
            let node = machine.and_then(|machine| snapshot.find_node(machine.serial.as_str()));
            if let Some(power) = node.and_then(|node| known_power(&node)) {
                sight.power.insert(address, power);
            }
        }
    }

    /// Finds out which nodes of the queues are gone.
    async fn read_gone(&self, nodes: &LiveNodes, look: &Look, matches: &Matches, sight: &mut Sight) {
        let silent = |found: &NodeMatch<Arc<LiveNode>>| !matches!(found, NodeMatch::Found(node) if node.is_ready());
        let suspects: Vec<(Ipv4Addr, Duration)> = targets(&look.standing)
            .filter(|(address, _)| matches.get(address).is_some_and(silent))
            .map(|(address, rules)| (address, rules.timeout))
            .collect();
        if suspects.is_empty() {
            return;
        }
        let leases = nodes.leases().await;
        let unreachable: BTreeMap<Ipv4Addr, Duration> = look
            .watched()
            .iter()
            .filter(|failure| failure.state == HealthState::Unreachable)
            .filter_map(|failure| Some((failure.address?, failure.age)))
            .collect();
        for (address, limit) in suspects {
            let node: NodeMatch<&LiveNode> = match &matches[&address] {
                NodeMatch::Found(node) => NodeMatch::Found(node),
                NodeMatch::Lost(lost) => NodeMatch::Lost(lost.clone()),
            };
            let name = if let NodeMatch::Found(node) = &node { Some(&node.name) } else { None };
            let signs = NodeSigns {
                node: &node,
                lease: name.and_then(|name| leases.as_ref()?.get(name).copied()),
                power: sight.power.get(&address).copied(),
                unreachable: unreachable.get(&address).copied(),
                limit,
                now: look.standing.now,
            };
            match signs.judge() {
                Ok(gone) => drop(sight.gone.insert(address, gone)),
                Err(reason) => drop(sight.left.insert(address, reason)),
            }
        }
    }

    /// Takes our mark away from Nodes that are back.
    pub(super) async fn put_back_in_service(&self, sight: &Sight) {
        let Some(kubernetes) = &self.options.kubernetes else { return };
        let back = |(address, node): (&Ipv4Addr, &Arc<LiveNode>)| {
            Some((Arc::clone(node), gone::back_in_service(node, sight.power.get(address).copied())?))
        };
        for (node, step) in sight.nodes.iter().filter_map(back).take(limits::UNCORDONED_AT_ONCE) {
            match kubernetes.take(&node, &step).await {
                Ok(_) => tracing::info!(task = TASK, node = node.name, "node is back in service"),
                // It is seen and tried again in the next cycle.
                Err(error) => tracing::warn!(task = TASK, node = node.name, %error, "node not put back in service"),
            }
        }
    }

    /// Makes sure that a machine has no power, and tells Kubernetes so where that is wanted. `Err` says, for people, why nothing is done.
    pub(super) async fn confirm_off(&self, entry: &Entry, node: Option<Arc<LiveNode>>) -> Result<(), String> {
        let serial = self.serial_of(entry).await?;
        match self.nodes.read_power(&serial).await {
            Ok(Some(PowerState::Off)) => {}
            Ok(Some(PowerState::On)) => return Err("its power was off a moment ago and is on again".to_owned()),
            Ok(None) => return Err("its controller does not say any more whether its power is off".to_owned()),
            Err(error) => {
                return Err(format!(
                    "its controller cannot be asked whether its power is off: {}",
                    error_chain(&error)
                ));
            }
        }
        let wanted = self.state().await.map_err(|error| error.to_string())?.settings.out_of_service_taint;
        let (Some(kubernetes), Some(node)) = (self.options.kubernetes.as_ref().filter(|_| wanted), node) else {
            return Ok(());
        };
        // Read anew: the step is taken on the Node as it was read, and kubelets of others write to theirs all the time.
        let read = kubernetes.find(&node.name).await.map_err(|error| error.to_string())?;
        let Some(read) = read.filter(|read| read.uid == node.uid && !read.is_ready()) else {
            return Err(format!("Node {} is another one than before, or is ready again", node.name));
        };
        if let Some(step) = gone::out_of_service(&read) {
            kubernetes.take(&read, &step).await.map_err(|error| error.to_string())?;
            tracing::warn!(task = TASK, node = node.name, %serial, "node has no power and was marked as out of service");
        }
        Ok(())
    }
}

/// Finds out whose pods have left.
async fn read_pods(kubernetes: &dyn Kubernetes, standing: &Standing, sight: &mut Sight) {
    for (address, rules) in draining(standing) {
        let Some(node) = sight.nodes.get(&address) else { continue };
        // What is wrong with one node must not stop the others.
        let left = match kubernetes.pods(&node.name).await {
            Ok(pods) => Obstacle::left(&pods, rules).map(|obstacle| obstacle.to_string()),
            Err(error) => Some(error.to_string()),
        };
        match left {
            None => drop(sight.drained.insert(address)),
            Some(reason) => {
                let more = sight.left.remove(&address).map_or(String::new(), |more| format!("; {more}"));
                sight.left.insert(address, format!("{reason}{more}"));
            }
        }
    }
}

fn is_marked(node: &LiveNode) -> bool {
    node.annotations.contains_key(gone::OUT_OF_SERVICE_ANNOTATION)
}

/// The Node of every node of the cluster.
pub(super) fn matches(standing: &Standing, live: &[Arc<LiveNode>]) -> Matches {
    let Some(configured) = &standing.cluster.configuration else { return Matches::new() };
    let found = live_node::find(&configured.configuration, live);
    let known = |(node, found): (&sabakan_domain::cluster::config::Node, NodeMatch<usize>)| {
        // What has no IPv4 address has no machine of a registry behind it.
        let IpAddr::V4(address) = node.address else { return None };
        let found = match found {
            NodeMatch::Found(at) => NodeMatch::Found(Arc::clone(&live[at])),
            NodeMatch::Lost(lost) => NodeMatch::Lost(lost),
        };
        Some((address, found))
    };
    configured.configuration.nodes.iter().zip(found).filter_map(known).collect()
}

/// Nodes that were cordoned for us, by the address of the configuration, or else by their own.
fn cordoned(nodes: &BTreeMap<Ipv4Addr, Arc<LiveNode>>, live: &[Arc<LiveNode>]) -> BTreeMap<Ipv4Addr, String> {
    let configured: BTreeMap<&str, Ipv4Addr> =
        nodes.iter().map(|(address, node)| (node.name.as_str(), *address)).collect();
    let v4 = |address: &IpAddr| if let IpAddr::V4(address) = address { Some(*address) } else { None };
    let address = |node: &LiveNode| {
        let own = configured.get(node.name.as_str()).copied();
        own.or_else(|| node.addresses.iter().find_map(v4)).or_else(|| node.name.parse().ok())
    };
    let ours = live.iter().filter(|node| cordon(node) == Cordon::Ours);
    ours.filter_map(|node| Some((address(node)?, node.name.clone()))).collect()
}

/// Nodes of both queues that are worked on or may be, with how pods leave them.
fn targets(standing: &Standing) -> impl Iterator<Item = (Ipv4Addr, &DrainRules)> {
    let repairs = standing.state.entries.iter().filter(|entry| !entry.is_finished() && !entry.deleted);
    let reboots = standing.state.reboots.iter().filter(|entry| entry.status != RebootStatus::Cancelled);
    with_rules(standing, repairs, reboots)
}

/// Nodes whose pods are told to leave.
fn draining(standing: &Standing) -> impl Iterator<Item = (Ipv4Addr, &DrainRules)> {
    let repairs = standing.state.entries.iter().filter(|entry| {
        entry.status == Status::Processing && entry.step_status == StepStatus::Draining && !entry.deleted
    });
    let reboots = standing.state.reboots.iter().filter(|entry| entry.status == RebootStatus::Draining);
    with_rules(standing, repairs, reboots)
}

fn with_rules<'a>(
    standing: &'a Standing,
    repairs: impl Iterator<Item = &'a Entry>,
    reboots: impl Iterator<Item = &'a RebootEntry>,
) -> impl Iterator<Item = (Ipv4Addr, &'a DrainRules)> {
    let rules = standing.rebooting.as_ref().map(|rules| &rules.drain);
    let repairs = repairs.map(|entry| (entry.address, &standing.procedures.drain));
    repairs.chain(reboots.filter_map(move |entry| Some((entry.node, rules?))))
}
