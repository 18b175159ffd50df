//! What callers may ask of nodes, and what they are told. The work itself is done by the conductor (`tasks::conductor`).

mod agent;
mod control;
mod edit;
mod list;
mod panel;

use std::{collections::BTreeMap, sync::Arc};

use jiff::{SignedDuration, Timestamp};
use sabakan_domain::{
    audit::Actor,
    machine::Machine,
    provision::{
        accept::{self, Options, PowerRefusal, Request, VerbRefusal},
        agent::CallRefusal,
        allocation::AllocationRefusal,
        control::ControlRefusal,
        edit::EditRefusal,
        engine::{self, Changed},
        node::{Maintenance, Node, NodeId, Object, PowerAction, Row},
        port::PortRefusal,
        power::PowerTarget,
        recipe::{self, Kind, Recipe, RecipeRefusal},
        running,
        schedule::{self, Class, Queued, Running},
        steps::StepRequest,
        verbs::Verb,
    },
    words::Serial,
};
use sabakan_store::{
    repo::nodes::{self, Facts},
    view::{Lock, Snapshot},
};

pub use self::{
    agent::{AgentHeartbeat, Introduced},
    control::Verdict,
    edit::Edit,
    list::Wanted,
    panel::BootChange,
};
use crate::{Foundation, ServiceError, hardware::Hardware, limits, recipes};

/// Asks of nodes and tells about them.
pub struct Nodes {
    on: Arc<Foundation>,
    hardware: Arc<Hardware>,
    options: Arc<Options>,
}

/// A verb with its parameters, as a caller writes it.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    /// The verb.
    pub verb: Verb,
    /// Steps, where the verb takes some.
    pub steps: Vec<StepRequest>,
    /// Run the steps without booting the ramdisk.
    pub disable_ramdisk: bool,
}

/// A node with what belongs to it, at one revision.
#[derive(Debug, Clone)]
pub struct Shown {
    /// The node.
    pub node: Arc<Node>,
    /// Its machine.
    pub machine: Option<Arc<Machine>>,
    /// Its driver; `None`: none is known for its BMC type.
    pub driver: Option<&'static str>,
    /// Who works on it.
    pub lock: Option<Lock>,
    /// What it waits for, for people; `None`: nothing.
    pub waiting: Option<Waiting>,
}

/// Why nothing happens with a node right now, and what will change that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// Why.
    pub reason: String,
    /// Since when.
    pub since: Timestamp,
    /// When it is given up; `None`: never.
    pub until: Option<Timestamp>,
}

impl Nodes {
    /// Works on a foundation, with these drivers.
    pub fn new(on: Arc<Foundation>, hardware: Arc<Hardware>, options: Arc<Options>) -> Nodes {
        Nodes { on, hardware, options }
    }

    /// The same on another foundation.
    pub(crate) fn on(&self, on: Arc<Foundation>) -> Nodes {
        Nodes { on, hardware: Arc::clone(&self.hardware), options: Arc::clone(&self.options) }
    }

    /// All drivers and the table that chooses among them.
    pub fn hardware(&self) -> &Hardware {
        &self.hardware
    }

    /// Every node, in byte order of names: those of all machines, and those without one.
    pub async fn list(&self) -> Result<Vec<Shown>, ServiceError> {
        let snapshot = self.on.view.read().await?;
        let line = line(&snapshot, self.on.clock.now());
        let mut names: Vec<Serial> = snapshot.machines().map(|machine| machine.serial.clone()).collect();
        let without = snapshot.nodes().stored().filter(|node| snapshot.find_machine(node.name.as_str()).is_none());
        names.extend(without.map(|node| node.name.clone()));
        names.sort_unstable();
        Ok(names.iter().filter_map(|name| self.show(&snapshot, name.as_str(), &line)).collect())
    }

    /// One node, by name or UUID.
    pub async fn get(&self, id: &str) -> Result<Shown, ServiceError> {
        let snapshot = self.on.view.read().await?;
        let name = resolve(&snapshot, id).ok_or(ServiceError::NotFound)?;
        let now = self.on.clock.now();
        let queued = snapshot.nodes().find(name.as_str()).is_some_and(|node| is_queued(&snapshot, node, now));
        // The whole queue is looked at only for one of those in it.
        let line = if queued { line(&snapshot, now) } else { BTreeMap::new() };
        self.show(&snapshot, name.as_str(), &line).ok_or(ServiceError::NotFound)
    }

    /// The name of a node, given its name or UUID.
    pub async fn name_of(&self, id: &str) -> Result<Serial, ServiceError> {
        let snapshot = self.on.view.read().await?;
        resolve(&snapshot, id).ok_or(ServiceError::NotFound)
    }

    fn show(&self, snapshot: &Snapshot, name: &str, line: &BTreeMap<String, usize>) -> Option<Shown> {
        let node = snapshot.find_node(name)?;
        let machine = snapshot.find_machine(name).cloned();
        let driver = self.hardware.driver_of(&node, machine.as_deref()).ok().map(|driver| driver.name());
        let lock = snapshot.nodes().lock(name).cloned();
        let works = snapshot.conductors().next().is_some();
        let waiting = waiting(&node, lock.as_ref(), line.get(name).copied(), works);
        Some(Shown { node, machine, driver, lock, waiting })
    }

    /// Asks for a verb. When it returns, the wish is stored and will be carried out, or fail visibly, whatever crashes.
    pub async fn ask(&self, actor: &Actor, name: &Serial, asked: &Asked) -> Result<Node, ServiceError> {
        self.ask_knowing(actor, name, asked, &Object::new(), None).await
    }

    /// The same, with facts about the workload that are stored together with the wish. `known`: the version of the node the caller
    /// has seen; another one is left alone.
    pub async fn ask_knowing(
        &self,
        actor: &Actor,
        name: &Serial,
        asked: &Asked,
        instance: &Object,
        known: Option<u64>,
    ) -> Result<Node, ServiceError> {
        self.ask_by(actor, name, asked, instance, known, None).await
    }

    /// Asks for a verb with the steps of a runbook, by name or UUID.
    pub async fn ask_by_runbook(
        &self,
        actor: &Actor,
        name: &Serial,
        asked: &Asked,
        runbook: &str,
        known: Option<u64>,
    ) -> Result<Node, ServiceError> {
        let snapshot = self.on.view.read().await?;
        let runbook = recipes::find(&snapshot, Kind::Runbook, runbook)?;
        let disable_ramdisk = asked.disable_ramdisk || runbook.about.disable_ramdisk;
        let asked = Asked { disable_ramdisk, ..asked.clone() };
        self.ask_by(actor, name, &asked, &Object::new(), known, Some(&runbook)).await
    }

    /// The operation gets its own copy of the steps of runbooks and templates, as they were when it was asked for: what happens to
    /// those at the same moment, happens after it.
    async fn ask_by(
        &self,
        actor: &Actor,
        name: &Serial,
        asked: &Asked,
        instance: &Object,
        known: Option<u64>,
        runbook: Option<&Recipe>,
    ) -> Result<Node, ServiceError> {
        let on = &self.on;
        self.check_queue()?;
        let snapshot = on.view.read().await?;
        let templates = || snapshot.recipes().list(Kind::Template);
        let by = on.by(actor);
        let operation = uuid::Uuid::now_v7().to_string();
        let request = Request {
            verb: asked.verb,
            steps: asked.steps.clone(),
            disable_ramdisk: asked.disable_ramdisk,
            operation,
            by: actor.name.clone(),
            at: by.now,
        };
        // Not compared when the wish is written: the step that deletes the keys finds out what there is, and fails if that is nothing.
        let erases = matches!(asked.verb, Verb::Provide | Verb::Deleted);
        let has_keys = erases && nodes::has_keys(&*on.store, &on.keys, name).await?;
        let decide = |facts: &Facts| -> Result<Option<(Changed, String)>, AskRefusal> {
            check_version(facts, known)?;
            check_unlocked(facts)?;
            let offered = self.hardware.offered(&facts.node, facts.machine.as_ref()).map_err(AskRefusal::Driver)?;
            let machine = facts.machine.as_ref().map(|machine| machine.status.state);
            let steps = match (runbook, request.verb) {
                (Some(runbook), _) => recipe::by_runbook(runbook, &facts.node)?,
                (None, Verb::Active | Verb::Rebuild) => {
                    recipe::with_templates(&request.steps, &facts.node, templates())
                }
                (None, _) => request.steps.clone(),
            };
            let request = Request { steps, ..request.clone() };
            let mut node = facts.node.clone();
            node.instance_info.extend(instance.clone());
            let changed = accept::accept(&node, &request, machine, has_keys, offered, &self.options)?;
            let detail = format!("{} -> {}", facts.node.state, changed.node.state);
            Ok(Some((changed, detail)))
        };
        let node = nodes::ask(&*on.store, &on.keys, &by, name, asked.verb.as_str(), decide).await?;
        tracing::info!(serial = %name, verb = %asked.verb, state = %node.state, user = actor.name, "verb accepted");
        Ok(node)
    }

    /// Asks for a power change. `limit`: how long it may take.
    pub async fn set_power(
        &self,
        actor: &Actor,
        name: &Serial,
        target: PowerTarget,
        limit: Option<SignedDuration>,
    ) -> Result<Node, ServiceError> {
        self.change_power(actor, name, target, limit, false).await
    }

    /// Switches a machine off, also one whose ramdisk runs a command.
    pub async fn force_power_off(
        &self,
        actor: &Actor,
        name: &Serial,
        limit: Option<SignedDuration>,
    ) -> Result<Node, ServiceError> {
        self.change_power(actor, name, PowerTarget::Off, limit, true).await
    }

    async fn change_power(
        &self,
        actor: &Actor,
        name: &Serial,
        target: PowerTarget,
        limit: Option<SignedDuration>,
        force: bool,
    ) -> Result<Node, ServiceError> {
        let on = &self.on;
        let by = on.by(actor);
        let limit = limit.unwrap_or(if target.is_soft() { limits::SOFT_POWER_MAX } else { limits::POWER_MAX });
        let decide = |facts: &Facts| -> Result<Option<(Changed, String)>, AskRefusal> {
            check_unlocked(facts)?;
            let forced = accept::force_power_off(&facts.node, &actor.name, by.now).filter(|_| force);
            if let Some(changed) = forced {
                return Ok(Some((changed, format!("{target}, forced"))));
            }
            let changed = accept::accept_power(&facts.node, target, &actor.name, by.now, limit)?;
            Ok(Some((changed, target.as_str().to_owned())))
        };
        let node = nodes::ask(&*on.store, &on.keys, &by, name, "power", decide).await?;
        tracing::info!(serial = %name, target = %target, user = actor.name, "power change accepted");
        Ok(node)
    }

    /// Takes a power change back that `is_meant`. Whether that was possible: what a worker has begun with goes on.
    pub(crate) async fn withdraw_power(
        &self,
        actor: &Actor,
        name: &Serial,
        is_meant: impl Fn(&PowerAction) -> bool,
    ) -> Result<bool, ServiceError> {
        let on = &self.on;
        let by = on.by(actor);
        let decide = |facts: &Facts| -> Result<Option<(Changed, String)>, AskRefusal> {
            let withdrawn = accept::withdraw_power(&facts.node, &is_meant, &actor.name, by.now);
            Ok(withdrawn.filter(|_| facts.lock.is_none()).map(|changed| (changed, "withdrawn".to_owned())))
        };
        let node = nodes::ask(&*on.store, &on.keys, &by, name, "power", decide).await?;
        Ok(node.power.action.is_none())
    }

    /// Keeps automation off a node, or lets it back.
    pub async fn set_maintenance(
        &self,
        actor: &Actor,
        name: &Serial,
        maintenance: Option<String>,
        on_or_off: bool,
    ) -> Result<Node, ServiceError> {
        self.edit(actor, name, "maintenance", |node| {
            let mut node = node.clone();
            let fault = node.maintenance.as_ref().and_then(|maintenance| maintenance.fault);
            node.maintenance = on_or_off.then(|| Maintenance { reason: maintenance.clone(), fault });
            node.details.edited_at = Some(self.on.clock.now());
            Ok(node)
        })
        .await
    }

    /// Changes what a node is described with. `edit` must not touch what work depends on; nobody may be working on it.
    pub async fn edit(
        &self,
        actor: &Actor,
        name: &Serial,
        action: &'static str,
        edit: impl Fn(&Node) -> Result<Node, String>,
    ) -> Result<Node, ServiceError> {
        let on = &self.on;
        let decide = |facts: &Facts| -> Result<Option<(Changed, String)>, AskRefusal> {
            check_unlocked(facts)?;
            let node = edit(&facts.node).map_err(AskRefusal::Invalid)?;
            if node == facts.node {
                return Ok(None);
            }
            Ok(Some((Changed { node, machine: None, rows: Vec::new() }, String::new())))
        };
        Ok(nodes::ask(&*on.store, &on.keys, &on.by(actor), name, action, decide).await?)
    }

    /// The history of a node, oldest row first, each with its number.
    pub async fn history(&self, name: &Serial) -> Result<Vec<(u64, Row)>, ServiceError> {
        Ok(nodes::history(&*self.on.store, &self.on.keys, name).await?)
    }

    /// What the last inspection of a node found, as JSON; `None`: there was none.
    pub async fn inventory(&self, name: &Serial) -> Result<Option<bytes::Bytes>, ServiceError> {
        Ok(nodes::inventory(&*self.on.store, &self.on.keys, name).await?)
    }

    /// Servers that do provisioning work.
    pub async fn conductors(&self) -> Result<Vec<String>, ServiceError> {
        Ok(self.on.view.read().await?.conductors().map(str::to_owned).collect())
    }

    /// More than the queue takes would only wait until it fails; better to say so at once.
    fn check_queue(&self) -> Result<(), ServiceError> {
        let snapshot = self.on.view.latest_known();
        if snapshot.nodes().with_work_count() >= limits::WORK_QUEUE_MAX {
            return Err(ServiceError::Busy);
        }
        Ok(())
    }
}

/// Nodes that have work and nobody who does it, in a snapshot.
pub(crate) fn queue(snapshot: &Snapshot, now: Timestamp) -> Vec<Queued> {
    let idle = |node: &&Arc<Node>| is_queued(snapshot, node, now);
    let queued = |node: &Arc<Node>| Queued {
        name: node.name.to_string(),
        group: node.group.clone(),
        class: Class::of(node),
        since: node.operation.as_ref().map_or(node.since, |operation| operation.asked_at),
    };
    snapshot.nodes().with_work().filter(idle).map(queued).collect()
}

/// Whether a node has work and nobody who does it.
fn is_queued(snapshot: &Snapshot, node: &Node, now: Timestamp) -> bool {
    needs_worker(node, now) && snapshot.nodes().lock(node.name.as_str()).is_none()
}

/// How many nodes are before each queued one.
fn line(snapshot: &Snapshot, now: Timestamp) -> BTreeMap<String, usize> {
    schedule::positions(&queue(snapshot, now), &running(snapshot))
}

/// Nodes somebody works on, in a snapshot.
fn running(snapshot: &Snapshot) -> Vec<Running> {
    let locks = snapshot.nodes().locks();
    locks.map(|(_, lock)| Running { group: lock.record.group.clone(), class: lock.record.class() }).collect()
}

/// Whether a worker has something to do with a node.
pub(crate) fn needs_worker(node: &Node, now: Timestamp) -> bool {
    node.power.action.is_some() || !matches!(engine::next(node, now), engine::Next::Leave)
}

/// What is said of work while no server is there to do it.
pub(crate) const NO_WORKERS: &str = "no server does provisioning work now, so that it waits; start one with --conductor, or look why none holds its lease";

/// Nodes that wait for a worker although no server has any.
pub(crate) fn stranded(snapshot: &Snapshot, now: Timestamp) -> usize {
    if snapshot.conductors().next().is_some() {
        return 0;
    }
    snapshot.nodes().stored().filter(|node| is_queued(snapshot, node, now)).count()
}

/// Why nothing happens with a node.
fn waiting(node: &Node, lock: Option<&Lock>, ahead: Option<usize>, works: bool) -> Option<Waiting> {
    let until = node.operation.as_ref().and_then(|operation| operation.deadline);
    if let Some(lock) = lock {
        let step = node.current_step().map_or_else(|| "its power".to_owned(), |step| format!("step {}", step.key()));
        let reason = format!("{} works on {step}", lock.record.holder);
        return Some(Waiting { reason, since: lock.record.since, until });
    }
    if let Some(ahead) = ahead {
        let class = Class::of(node).as_str();
        let since = node.operation.as_ref().map_or(node.since, |operation| operation.asked_at);
        let mut reason = match works {
            true => format!("waits for a free worker; {ahead} other nodes with {class} work are before it"),
            false => NO_WORKERS.to_owned(),
        };
        if accept::can_take_back(node) {
            reason.push_str("; `sabactl nodes abort` takes it back");
        }
        return Some(Waiting { reason, since, until });
    }
    let wait = node.wait()?;
    let mut reason = wait.reason.clone();
    let clears_up = node.operation.as_ref().is_some_and(|operation| operation.work.clears_up());
    let paused = node.maintenance.is_some() && !clears_up;
    if paused {
        // Its ramdisk may well have called: nobody would understand why nothing happens.
        reason.push_str("; in maintenance no call of its ramdisk counts and no time runs out");
    }
    let postponed = running::postponed(node).is_some();
    if postponed {
        reason
            .push_str("; `sabactl nodes power off --force` switches it off now, and may leave its disks half written");
    }
    // Clearing up is not given up while a ramdisk runs a command.
    let until = until.filter(|_| !(paused || postponed && clears_up));
    Some(Waiting { reason, since: wait.since, until })
}

pub(crate) fn resolve(snapshot: &Snapshot, id: &str) -> Option<Serial> {
    if let Some(node) = snapshot.find_node(id) {
        return Some(node.name.clone());
    }
    let id = id.parse::<NodeId>().ok()?;
    snapshot.find_node_by_id(id).map(|node| node.name.clone())
}

/// Why a caller's wish about a node is refused.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AskRefusal {
    #[error(transparent)]
    Verb(#[from] VerbRefusal),
    #[error(transparent)]
    Power(#[from] PowerRefusal),
    #[error(transparent)]
    Driver(ServiceError),
    #[error("{0}")]
    Invalid(String),
    #[error(transparent)]
    Call(#[from] CallRefusal),
    #[error("nobody waits for this ramdisk")]
    Unexpected,
    #[error(transparent)]
    Control(#[from] ControlRefusal),
    #[error(transparent)]
    Edit(#[from] EditRefusal),
    #[error(transparent)]
    Allocation(#[from] AllocationRefusal),
    #[error(transparent)]
    Recipe(#[from] RecipeRefusal),
    #[error(transparent)]
    Port(#[from] PortRefusal),
    #[error("node {name} is no longer as you know it; look at it again")]
    Stale { name: Serial },
    #[error("Node {id} is locked by host {holder}, please retry after the current operation is completed.")]
    Locked { id: NodeId, holder: String },
}

/// A caller that says which version it knows wants nothing to happen to another.
fn check_version(facts: &Facts, known: Option<u64>) -> Result<(), AskRefusal> {
    if known.is_some_and(|known| known != nodes::version(&facts.node)) {
        return Err(AskRefusal::Stale { name: facts.node.name.clone() });
    }
    Ok(())
}

pub(crate) fn check_unlocked(facts: &Facts) -> Result<(), AskRefusal> {
    match &facts.lock {
        Some(lock) => Err(AskRefusal::Locked { id: facts.node.id, holder: lock.holder.clone() }),
        None => Ok(()),
    }
}
