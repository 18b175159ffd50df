//! Everything repair decides with, read at one moment.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, Ipv4Addr},
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use sabakan_domain::{
    cluster::{attributes, input::ListedMachine, live_node::NodeMatch, shape::Problem, variables::Variables},
    lifecycle::HealthState,
    provision::{
        node::{Fault, Node},
        power::PowerState,
        power_sync,
    },
    repair::{
        enqueue::{self, Decision, Limits},
        entry::Entry,
        guard::{Census, Failure, SecondOpinion, Traits},
        hands_off::HandsOff,
        incident::{self, Judgement},
        procedure::Procedures,
        reboot::RebootRules,
        settings::RepairSettings,
    },
    words::Serial,
};
use sabakan_store::{
    limits::QUEUE_ENTRIES_MAX,
    repo::{cluster::ClusterState, repairs::RepairState},
    view::Snapshot,
};
use serde_json::Map;

use super::{Repairs, sight::matches};
use crate::{ServiceError, limits};

/// What is stored: queues, incidents, and the cluster with what can be done.
pub(crate) struct Standing {
    pub(super) state: RepairState,
    pub(super) cluster: ClusterState,
    /// What can be done for broken machines.
    pub(super) procedures: Procedures,
    /// How nodes are rebooted; `None`: they are not.
    pub(super) rebooting: Option<RebootRules>,
    /// Nodes of the cluster, by address.
    pub(super) nodes: BTreeMap<Ipv4Addr, ClusterNode>,
    pub(super) now: Timestamp,
}

/// A node of the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ClusterNode {
    /// Its name in Kubernetes.
    pub(super) name: String,
    pub(super) control_plane: bool,
}

/// What is reported about machines.
pub(crate) struct Reports {
    /// Those that may be repaired: the ones that the variables mean.
    pub(super) failures: Vec<Failure>,
    /// All that are broken. What failed together is found among them, or whoever narrows the variables would blind the guard.
    pub(super) watched: Vec<Failure>,
    pub(super) census: Census,
}

/// When all machines are counted, which takes a while where there are many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Counting {
    /// When enough are broken that groups have to be counted.
    IfGroupsMatter,
    /// Somebody asks how large a group is.
    Always,
}

impl Counting {
    /// Fewer failures than a group has are no group, whatever their groups are.
    fn is_needed(self, watched: &[Failure], settings: &RepairSettings) -> bool {
        self == Counting::Always || settings.guard.enabled && watched.len() >= settings.guard.least
    }
}

impl Reports {
    /// What our own registry says.
    fn of(
        snapshot: &Snapshot,
        variables: &Variables,
        settings: &RepairSettings,
        counting: Counting,
        now: Timestamp,
    ) -> Reports {
        let listed = |variables: &Variables| -> Vec<ListedMachine> {
            snapshot.search(&variables.query(now)).iter().map(|machine| ListedMachine::of(machine, now)).collect()
        };
        let node = |machine: &ListedMachine| snapshot.find_node(machine.serial.as_str());
        let known = |machine: &ListedMachine| failure(machine, settings, node(machine).as_deref());
        let failures: Vec<Failure> = listed(variables).iter().map(known).collect();
        let watched = all_broken(listed(&Variables::for_guard()).iter().map(known), &failures);
        let all = if counting.is_needed(&watched, settings) { listed(&Variables::for_census()) } else { Vec::new() };
        let census = census(all.iter().map(|machine| Traits::of(machine, settings, node(machine).as_deref())));
        Reports { failures, watched, census }
    }
}

/// Everything, and what the rules say about it.
pub(crate) struct Look {
    pub(super) standing: Standing,
    /// `Err`: why nothing is known about machines.
    pub(super) reports: Result<Reports, String>,
    pub(super) judgement: Judgement,
    pub(super) decision: Decision,
}

/// Which machines count as broken.
pub(super) fn variables(text: Option<&str>) -> Result<Variables, Vec<Problem>> {
    text.map_or_else(|| Ok(Variables::for_repair()), Variables::parse)
}

impl Repairs {
    pub(super) async fn standing(&self) -> Result<Standing, ServiceError> {
        let (cluster, state) = (self.cluster().await?, self.state().await?);
        let configuration = cluster.configuration.as_ref().map(|configured| &configured.configuration);
        let empty = Map::new();
        let rest = configuration.map_or(&empty, |configuration| &configuration.rest);
        let nodes = configuration.into_iter().flat_map(|configuration| &configuration.nodes);
        let node = |node: &sabakan_domain::cluster::config::Node| {
            // What has no IPv4 address has no machine of a registry behind it.
            let IpAddr::V4(address) = node.address else { return None };
            Some((address, ClusterNode { name: attributes::name(node), control_plane: node.control_plane }))
        };
        Ok(Standing {
            procedures: Procedures::of(rest),
            rebooting: RebootRules::of(rest),
            nodes: nodes.filter_map(node).collect(),
            state,
            cluster,
            now: self.now(),
        })
    }

    /// Looks at everything.
    pub(super) async fn look(&self) -> Result<Look, ServiceError> {
        let standing = self.standing().await?;
        let mut reports = self.reports(&standing.state, Counting::IfGroupsMatter, standing.now).await?;
        if let Ok(reports) = &mut reports {
            self.remember(reports, standing.now);
            self.hear_kubelets(reports, &standing).await;
        }
        // So does grouping them.
        away(move || Look::of(standing, reports)).await
    }

    /// Adds what kubelets say about broken machines. Nothing depends on it alone, so nobody waits long for it.
    async fn hear_kubelets(&self, reports: &mut Reports, standing: &Standing) {
        let in_cluster =
            |failure: &Failure| failure.address.is_some_and(|address| standing.nodes.contains_key(&address));
        let (Some(nodes), true) = (&self.options.nodes, reports.watched.iter().any(in_cluster)) else { return };
        let Some(sight) = nodes.glance() else { return };
        let leases = nodes.leases().await;
        let found = matches(standing, &sight);
        for failure in reports.failures.iter_mut().chain(&mut reports.watched) {
            let node = failure.address.and_then(|address| found.get(&address));
            let Some(NodeMatch::Found(node)) = node else { continue };
            let lease = leases.as_ref().and_then(|leases| leases.get(&node.name).copied());
            let age = SignedDuration::try_from(failure.age).unwrap_or(SignedDuration::MAX);
            let reported = standing.now.saturating_sub(age).unwrap_or(Timestamp::MIN);
            failure.opinion = failure.opinion.with_kubelet(node, lease, reported);
        }
    }

    /// Adds for how long machines have been broken in other ways. The registry forgets that with each change, and so does a server that
    /// has only begun to look.
    pub(super) fn remember(&self, reports: &mut Reports, now: Timestamp) {
        let known = &self.told().broken_since;
        for failure in reports.failures.iter_mut().chain(&mut reports.watched) {
            let since =
                known.get(&failure.serial).and_then(|since| Duration::try_from(now.duration_since(*since)).ok());
            failure.broken_before = since.unwrap_or_default().saturating_sub(failure.age);
        }
    }

    /// Takes note of who is broken now.
    pub(super) fn take_note(&self, look: &Look) {
        let Ok(reports) = &look.reports else { return };
        let since = |failure: &Failure| {
            let age = SignedDuration::try_from(failure.broken_for()).unwrap_or(SignedDuration::MAX);
            (failure.serial.clone(), look.standing.now.saturating_sub(age).unwrap_or(Timestamp::MIN))
        };
        self.told().broken_since = reports.watched.iter().map(since).collect();
    }

    /// What is reported about machines; the inner `Err` says, for people, why that is not known.
    pub(super) async fn reports(
        &self,
        state: &RepairState,
        counting: Counting,
        now: Timestamp,
    ) -> Result<Result<Reports, String>, ServiceError> {
        let settings = &state.settings;
        let variables = match variables(state.variables.as_deref()) {
            Ok(variables) => variables,
            Err(problems) => {
                let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
                return Ok(Err(format!("the variables of automatic repair cannot be used: {}", problems.join("; "))));
            }
        };
        let Some(registry) = &self.options.registry else {
            let (snapshot, settings) = (self.on.view.read().await?, settings.clone());
            // All machines are looked at: that takes a while where there are many, and waits for nothing.
            let reports = away(move || Reports::of(&snapshot, &variables, &settings, counting, now)).await?;
            return Ok(Ok(reports));
        };
        let ask = |variables: Variables| async move {
            let answer = tokio::time::timeout(limits::REGISTRY_TIME_MAX, registry.machines(&variables)).await;
            answer.map_or_else(
                |_| Err("the registry did not answer in time".to_owned()),
                |answer| answer.map_err(|error| error.to_string()),
            )
        };
        let answer = async {
            let told = |machine: &ListedMachine| failure(machine, settings, None);
            let failures: Vec<Failure> = ask(variables).await?.iter().map(told).collect();
            let watched = all_broken(ask(Variables::for_guard()).await?.iter().map(told), &failures);
            let all =
                if counting.is_needed(&watched, settings) { ask(Variables::for_census()).await? } else { Vec::new() };
            let census = census(all.iter().map(|machine| Traits::of(machine, settings, None)));
            Ok(Reports { failures, watched, census })
        };
        Ok(answer.await)
    }

    /// Machines that automation shall leave alone, and why.
    pub(super) fn hands_off(&self, snapshot: &Snapshot, standing: &Standing) -> BTreeMap<Serial, HandsOff> {
        if self.options.registry.is_some() {
            return BTreeMap::new();
        }
        let repaired = standing.state.entries.iter().filter(|entry| !entry.is_finished());
        let repaired = repaired.filter_map(|entry| entry.serial.clone());
        let rebooted = standing.state.reboots.iter().filter_map(|entry| snapshot.find_by_address(entry.node));
        let serials = repaired.chain(rebooted.map(|machine| machine.serial.clone()));
        serials
            .filter_map(|serial| Some((serial.clone(), HandsOff::of(&*snapshot.find_node(serial.as_str())?)?)))
            .collect()
    }
}

/// Does work away from the threads that serve connections.
async fn away<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, ServiceError> {
    tokio::task::spawn_blocking(work).await.map_err(|error| {
        tracing::error!(%error, "a look at broken machines was not finished");
        ServiceError::Defect("a look at broken machines was not finished")
    })
}

/// All that are broken, and what the variables call so.
fn all_broken(broken: impl Iterator<Item = Failure>, failures: &[Failure]) -> Vec<Failure> {
    let mut all: Vec<Failure> = broken.collect();
    let known: BTreeSet<&Serial> = all.iter().map(|failure| &failure.serial).collect();
    let others: Vec<Failure> = failures.iter().filter(|failure| !known.contains(&failure.serial)).cloned().collect();
    all.extend(others);
    all
}

fn census(machines: impl Iterator<Item = Traits>) -> Census {
    Census::of(&machines.collect::<Vec<_>>())
}

/// A machine that is reported, with what provisioning knows about it.
fn failure(machine: &ListedMachine, settings: &RepairSettings, node: Option<&Node>) -> Failure {
    // A registry whose clock is behind counts negative times, and one that does not know gives no number.
    let age = Duration::try_from_secs_f64(machine.seconds_in_state.max(0.0)).unwrap_or_default();
    Failure {
        serial: machine.serial.clone(),
        address: machine.address,
        state: machine.state,
        age,
        broken_before: Duration::ZERO,
        traits: Traits::of(machine, settings, node),
        opinion: node.map(opinion).unwrap_or_default(),
        hands_off: node.and_then(HandsOff::of),
    }
}

/// What the controller of a machine said about its power when it was last asked; `None`: it said nothing, or it is not asked from time to
/// time, and what was read once says nothing about now.
pub(super) fn known_power(node: &Node) -> Option<PowerState> {
    node.power.state.filter(|_| power_sync::wants_reading(node) && node.power.silent.is_none())
}

/// What provisioning says about a machine.
fn opinion(node: &Node) -> SecondOpinion {
    // Controllers are asked for the power every two minutes or so, but for nodes that nobody manages and those in maintenance, unless their
    // silence is why: what was read of others says nothing about now.
    let is_read = node.maintenance.as_ref().is_none_or(|maintenance| maintenance.fault == Some(Fault::Power));
    let bmc_answers = match (&node.power.silent, node.power.state) {
        _ if !is_read => None,
        (Some(_), _) => Some(false),
        (None, Some(_)) => Some(true),
        (None, None) => None,
    };
    SecondOpinion { bmc_answers, lease_renewed: None }
}

impl Look {
    fn of(standing: Standing, reports: Result<Reports, String>) -> Look {
        let nobody = Reports { failures: Vec::new(), watched: Vec::new(), census: Census::default() };
        let Reports { failures, watched, census } = reports.as_ref().unwrap_or(&nobody);
        let Standing { state, cluster, procedures, nodes, now, .. } = &standing;
        let constraints = cluster.constraints.unwrap_or_default();
        let wait_rebooting = Duration::from_secs(constraints.wait_seconds_to_repair_rebooting.into());
        let around = incident::Around {
            census,
            incidents: &state.incidents,
            queue: &state.entries,
            reboots: &state.reboots,
            wait_rebooting,
            rules: &state.settings.guard,
            now: *now,
        };
        let judgement = match reports {
            Ok(_) => incident::judge(watched, &around),
            // Nothing is known, and so no incident is over.
            Err(_) => Judgement::default(),
        };
        let addresses: BTreeSet<Ipv4Addr> = nodes.keys().copied().collect();
        let most = u32::try_from(QUEUE_ENTRIES_MAX).unwrap_or(u32::MAX);
        let decision = enqueue::decide(
            failures,
            &enqueue::Around {
                queue: &state.entries,
                reboots: &state.reboots,
                cluster: cluster.configuration.as_ref().map(|_| &addresses),
                procedures,
                judgement: &judgement,
                limits: Limits {
                    entries_max: constraints.maximum_repair_queue_entries.min(most),
                    wait_rebooting,
                    finished_counts: state.settings.finished_counts,
                    guard: &state.settings.guard,
                },
                now: *now,
            },
        );
        Look { standing, reports, judgement, decision }
    }

    pub(super) fn failures(&self) -> &[Failure] {
        self.reports.as_ref().map_or(&[], |reports| &reports.failures)
    }

    /// All that are broken.
    pub(super) fn watched(&self) -> &[Failure] {
        self.reports.as_ref().map_or(&[], |reports| &reports.watched)
    }

    /// Addresses of all that are broken.
    pub(super) fn broken(&self) -> BTreeSet<Ipv4Addr> {
        self.watched().iter().filter_map(|failure| failure.address).collect()
    }

    /// The same entry with the machine that has its address, if somebody asked for an address alone: what failed together is known by
    /// machine.
    pub(super) fn named(&self, entry: &Entry) -> Entry {
        let own = |failure: &&Failure| failure.address == Some(entry.address);
        let known = || self.watched().iter().find(own).map(|failure| failure.serial.clone());
        Entry { serial: entry.serial.clone().or_else(known), ..entry.clone() }
    }

    /// Nodes of the cluster that cannot be contacted.
    pub(super) fn unreachable(&self) -> impl Iterator<Item = Ipv4Addr> {
        let unreachable = self.watched().iter().filter(|failure| failure.state == HealthState::Unreachable);
        unreachable.filter_map(|failure| failure.address).filter(|address| self.standing.nodes.contains_key(address))
    }
}
