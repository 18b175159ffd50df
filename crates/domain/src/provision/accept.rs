//! Accepting a verb: what is written in the one transaction that answers the caller. The work itself comes later.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::{
    builtin,
    edges::{self, Trigger},
    engine::{self, Changed},
    guards::{self, GuardRefusal, Strictness},
    interfaces::Slot,
    node::{Node, NodeId, Operation, Phase, PowerAction, Row, Severity, Wait, WaitOn, WishOrigin, Work},
    power::PowerTarget,
    promises::{self, CleaningExtent, UnmetWish},
    running,
    states::{Kind, State},
    steps::{self, Flow, Place, Step, StepRequest, StepSpec, StepsRefusal},
    verbs::Verb,
};
use crate::lifecycle::{self, HealthState};

/// What a caller asks.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// The verb.
    pub verb: Verb,
    /// Steps, where the verb takes some.
    pub steps: Vec<StepRequest>,
    /// Run the steps without booting the ramdisk.
    pub disable_ramdisk: bool,
    /// Identifies the operation.
    pub operation: String,
    /// Who asks.
    pub by: String,
    /// When.
    pub at: Timestamp,
}

/// What the node's driver offers.
#[derive(Debug, Clone, Copy)]
pub struct Offered<'a> {
    /// Through the BMC.
    pub out_of_band: &'a [StepSpec],
    /// By the ramdisk; empty: there is none.
    pub ramdisk: &'a [StepSpec],
    /// The hardware is read by the ramdisk, not by the controller.
    pub inspects_in_band: bool,
    /// The driver's name; `None`: it is not known.
    pub driver: Option<&'a str>,
}

/// What a site wants of provisioning.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Options {
    /// Guards.
    pub strictness: Strictness,
    /// Machines are not cleaned unless they say so.
    pub no_automated_clean: bool,
    /// Switch a machine off once its credentials are proved.
    pub power_off_after_verify: bool,
    /// `provide` is refused in maintenance.
    pub no_provide_in_maintenance: bool,
    /// Priorities of automated clean steps, by `interface.step`.
    pub clean_priorities: BTreeMap<String, u32>,
    /// What automated cleaning erases, unless a node says otherwise.
    pub cleaning: CleaningExtent,
}

/// Why a verb is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VerbRefusal {
    /// The state machine has no such arrow.
    #[error("The requested action \"{}\" can not be performed on node \"{node}\" while it is in state \"{}\". Accepted: {}.", .verb.as_str(), .from.wire(), edges::accepted_text(*.from))]
    NoEdge {
        /// The node.
        node: NodeId,
        /// Where it is.
        from: State,
        /// What was asked.
        verb: Verb,
    },
    /// Something else about the node or its machine forbids it.
    #[error(transparent)]
    Guard(#[from] GuardRefusal),
    /// The steps cannot be run.
    #[error(transparent)]
    Steps(#[from] StepsRefusal),
    /// The driver cannot do it.
    #[error("{verb:?} is not supported by the driver of this node: it boots no ramdisk", verb = .0.as_str())]
    NoRamdisk(Verb),
    /// Somebody chose that the node does without it.
    #[error("Driver {driver} does not support {} (disabled or not implemented).", .verb.as_str())]
    Disabled {
        /// The driver.
        driver: String,
        /// What was asked.
        verb: Verb,
    },
    /// A power change is not done yet.
    #[error(
        "a power change of this node is not done yet; wait for it, or take it back with \"abort\" if no worker has begun"
    )]
    PowerPending,
    /// It would be told as done, and would not be.
    #[error(transparent)]
    Unmet(UnmetWish),
}

/// Why a power change is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PowerRefusal {
    /// Cleaning switches the power itself.
    #[error("the power is not changed while the node is {0}")]
    Cleaning(&'static str),
    /// Work goes on.
    #[error("the node is {0}; its power is changed by that work")]
    Working(&'static str),
    /// Somebody asked already.
    #[error("another power change is not done yet")]
    Pending,
    /// It must never be off.
    #[error("this node must not be switched off (disable_power_off)")]
    MustStayOn,
    /// Its ramdisk runs a command, and the power would be cut in the middle of it.
    #[error("{reason}; to cut the power now: `sabactl nodes power off --force`, or \"force\": true with \"power off\"")]
    RamdiskRuns {
        /// What it runs, and what happens when it ends.
        reason: String,
    },
}

/// Decides a verb: the node as it is afterwards, or why nothing changes. `has_keys`: whether the machine has disk keys.
pub fn accept(
    node: &Node,
    request: &Request,
    machine: Option<HealthState>,
    has_keys: bool,
    offered: Offered<'_>,
    options: &Options,
) -> Result<Changed, VerbRefusal> {
    let verb = request.verb;
    if verb == Verb::Abort
        && let Some(changed) = take_back(node, machine, &request.by, request.at)
    {
        return Ok(changed);
    }
    let no_edge = |_| VerbRefusal::NoEdge { node: node.id, from: node.state, verb };
    let edge = edges::transition(node.state, Trigger::Verb(verb)).map_err(no_edge)?;
    check_interface(node, verb)?;
    guards::check_verb(node, verb, machine, options.strictness)?;
    if verb == Verb::Provide && options.no_provide_in_maintenance && node.maintenance.is_some() {
        return Err(GuardRefusal::Maintenance(verb).into());
    }
    if node.power.action.is_some() {
        return Err(VerbRefusal::PowerPending);
    }
    match verb {
        Verb::Abort => return Ok(abort(node, request, machine)),
        Verb::Unhold => return Ok(unhold(node, request)),
        _ => {}
    }
    let mut changed = Changed::new(node);
    engine::take(&mut changed, edge, &request.by, verb.as_str(), request.at);
    let next = &mut changed.node;
    if next.state.kind() == Kind::Stable {
        // Immediate: what is left to clear up after a failure goes on by itself; the last error stays until new work begins.
        return Ok(changed);
    }
    let (work, mut steps) = plan(next, request, offered, options)?;
    if let Some(wish) = promises::check_verb(next, verb, &steps, offered, has_keys, options) {
        return Err(VerbRefusal::Unmet(wish));
    }
    if node.maintenance.is_some() && steps.iter().any(|step| boots_ramdisk(step, offered)) {
        // No call of a ramdisk counts in maintenance: it would be booted and never be heard.
        return Err(GuardRefusal::Maintenance(verb).into());
    }
    clear_up_first(node, &mut steps);
    // A ramdisk that runs a command for the work before is asked before the new work takes its power away.
    let ramdisk = node.operation.as_ref().and_then(|operation| operation.ramdisk.clone());
    next.last_error = None;
    next.operation = Some(Operation {
        id: request.operation.clone(),
        work,
        asked_by: request.by.clone(),
        asked_at: request.at,
        steps,
        index: 0,
        phase: Phase::Ready,
        deadline: engine::deadline(next.state, request.at),
        before: None,
        ramdisk,
        abort_by: None,
        power_forced_by: None,
        origin: None,
    });
    if verb == Verb::Deleted {
        // A machine that is declared retiring stays so; any other passes through retiring, so that its keys can be erased.
        changed.machine = machine.and_then(lifecycle::torn_down);
    }
    remember_origin(node, &mut changed);
    Ok(changed)
}

/// Keeps where the node stood, for as long as the wish can be taken back. No arrow leads a machine back from retiring, so that the
/// wish which retires it stands.
fn remember_origin(node: &Node, changed: &mut Changed) {
    let Some(operation) = changed.node.operation.as_mut().filter(|_| changed.machine.is_none()) else { return };
    operation.origin = Some(WishOrigin {
        state: node.state,
        target: node.target,
        last_error: node.last_error.clone(),
        clear_up: node.operation.clone().map(Box::new),
    });
}

/// Whether a wish about a node waits that no worker has begun with, so that `abort` takes it back.
pub fn can_take_back(node: &Node) -> bool {
    match &node.power.action {
        Some(action) => !action.started,
        None => origin(node).is_some(),
    }
}

/// Where a node goes when its wish is taken back. What is to retire does not become available again.
fn origin(node: &Node) -> Option<&WishOrigin> {
    let origin = node.operation.as_ref()?.origin.as_ref()?;
    (origin.state != State::Available || !node.retire_declared).then_some(origin)
}

/// Takes back the wish that waits, a power change first: the node is as it was before, and its history says who did it. `None`: there
/// is none, or a worker has begun with it.
fn take_back(node: &Node, machine: Option<HealthState>, by: &str, at: Timestamp) -> Option<Changed> {
    if node.power.action.is_some() {
        return withdraw_power(node, |_| true, by, at);
    }
    let WishOrigin { state, target, last_error, clear_up } = origin(node)?.clone();
    let work = node.operation.as_ref().map_or("work", |operation| operation.work.as_str());
    let mut changed = Changed::new(node);
    let text = format!("{} -> {state}: {work} taken back before a worker began with it", node.state);
    changed.rows.push(Row { to: state, ..row(node, by, Severity::Info, text, at) });
    changed.node = Node { state, target, since: at, last_error, operation: clear_up.map(|left| *left), ..node.clone() };
    engine::judge_report(&mut changed, false, machine, by, at);
    Some(changed)
}

/// An interface that was chosen to do nothing does nothing.
fn check_interface(node: &Node, verb: Verb) -> Result<(), VerbRefusal> {
    let slot = match verb {
        Verb::Inspect => Slot::Inspect,
        Verb::Rescue => Slot::Rescue,
        _ => return Ok(()),
    };
    match node.details.interfaces.get(&slot) {
        Some(chosen) if chosen.starts_with("no-") => {
            Err(VerbRefusal::Disabled { driver: node.driver.clone().unwrap_or_default(), verb })
        }
        _ => Ok(()),
    }
}

/// The kind of work a verb asks for, and its steps.
fn plan(
    node: &Node,
    request: &Request,
    offered: Offered<'_>,
    options: &Options,
) -> Result<(Work, Vec<Step>), VerbRefusal> {
    let ramdisk = !offered.ramdisk.is_empty();
    Ok(match request.verb {
        Verb::Manage => {
            let off = options.power_off_after_verify.then_some(builtin::POWER_OFF);
            (Work::Verify, [builtin::VERIFY].into_iter().chain(off).map(builtin::step).collect())
        }
        Verb::Adopt => (Work::Adopt, vec![builtin::step(builtin::VERIFY)]),
        Verb::Inspect if offered.inspects_in_band => {
            (Work::Inspect, vec_of(&[builtin::INSPECT_IN_BAND, builtin::END_RAMDISK]))
        }
        Verb::Inspect => (Work::Inspect, vec![builtin::step(builtin::INSPECT)]),
        Verb::Provide => (Work::AutomatedClean, automated_cleaning(node, offered, options)?),
        Verb::Clean => (Work::ManualClean, by_hand(offered, Flow::Clean, request)?),
        Verb::Service => (Work::Service, service(offered, request)?),
        Verb::Active | Verb::Rebuild => (Work::Deploy, deployment(offered, &request.steps)?),
        Verb::Deleted => (Work::TearDown, vec_of(&[builtin::POWER_OFF, builtin::CLEAR_BOOT, builtin::CLEAR_INSTANCE])),
        Verb::Rescue if !ramdisk => return Err(VerbRefusal::NoRamdisk(Verb::Rescue)),
        Verb::Rescue => (Work::Rescue, vec_of(&[builtin::BOOT_RAMDISK])),
        Verb::Unrescue => (Work::Unrescue, vec_of(&[builtin::END_RAMDISK, builtin::BOOT_INSTANCE])),
        Verb::Abort | Verb::Unhold => unreachable!("handled before any work is planned"),
    })
}

/// Whether a step boots a ramdisk and waits for its call.
fn boots_ramdisk(step: &Step, offered: Offered<'_>) -> bool {
    let deploys = builtin::is(step, builtin::DEPLOY) && !offered.ramdisk.is_empty();
    deploys || [builtin::BOOT_RAMDISK, builtin::INSPECT_IN_BAND].iter().any(|spec| builtin::is(step, *spec))
}

/// Clearing up that is not done yet is not forgotten over new work, unless that begins by switching the machine off anyway.
fn clear_up_first(node: &Node, steps: &mut Vec<Step>) {
    let pending = node.operation.as_ref().is_some_and(|operation| operation.work.clears_up());
    let switches_off = |step: &Step| builtin::is(step, builtin::END_RAMDISK) || builtin::is(step, builtin::POWER_OFF);
    if pending && !steps.first().is_some_and(switches_off) {
        steps.insert(0, builtin::step(builtin::END_RAMDISK));
    }
}

fn vec_of(specs: &[StepSpec]) -> Vec<Step> {
    specs.iter().copied().map(builtin::step).collect()
}

/// Whether automated cleaning runs for a node.
pub fn cleans(node: &Node, options: &Options) -> bool {
    node.automated_clean.unwrap_or(!options.no_automated_clean)
}

/// The steps of an automated cleaning, from recording what the machine looks like to comparing it. Empty when it is switched off.
pub fn automated_cleaning(node: &Node, offered: Offered<'_>, options: &Options) -> Result<Vec<Step>, StepsRefusal> {
    if !cleans(node, options) {
        return Ok(Vec::new());
    }
    let all: Vec<StepSpec> =
        offered.out_of_band.iter().chain(offered.ramdisk).copied().chain(builtin::offered()).collect();
    let steps = steps::automated_cleaning(&all, &clean_priorities(node, options), &builtin::rebuilds())?;
    Ok(framed(steps))
}

/// Priorities of automated clean steps for a node: those of the site, without steps that erase disks where keys are enough.
pub(super) fn clean_priorities(node: &Node, options: &Options) -> BTreeMap<String, u32> {
    let mut priorities = options.clean_priorities.clone();
    if promises::extent(node, options) == CleaningExtent::KeysOnly {
        priorities.extend(promises::ERASING.iter().map(|key| ((*key).to_owned(), 0)));
    }
    priorities
}

/// Manual cleaning: the caller's steps inside the same frame.
fn by_hand(offered: Offered<'_>, flow: Flow, request: &Request) -> Result<Vec<Step>, StepsRefusal> {
    let all: Vec<StepSpec> =
        offered.out_of_band.iter().chain(offered.ramdisk).copied().chain(builtin::offered()).collect();
    let wanted: Vec<StepRequest> = request.steps.iter().cloned().map(reserved).collect();
    Ok(framed(steps::manual(&all, flow, &wanted, !request.disable_ramdisk)?))
}

/// Service steps, between switching off and booting the workload again.
fn service(offered: Offered<'_>, request: &Request) -> Result<Vec<Step>, StepsRefusal> {
    let mut steps = vec_of(&[builtin::POWER_OFF]);
    steps.extend(by_hand(offered, Flow::Service, request)?);
    steps.push(builtin::step(builtin::BOOT_INSTANCE));
    Ok(steps)
}

/// Steps the engine runs itself are found whatever interface the caller wrote.
fn reserved(mut request: StepRequest) -> StepRequest {
    let own = [builtin::POWER_ON, builtin::POWER_OFF, builtin::REBOOT, builtin::HOLD, builtin::WAIT];
    if let Some(spec) = own.iter().find(|spec| spec.name == request.name) {
        request.interface = spec.interface;
    }
    request
}

/// Record, boot the ramdisk if a step needs it, the steps, end the ramdisk, compare.
fn framed(steps: Vec<Step>) -> Vec<Step> {
    let first = steps.iter().position(|step| step.place == Place::InBand);
    let last = steps.iter().rposition(|step| step.place == Place::InBand);
    let mut all = vec_of(&[builtin::RECORD]);
    for (n, step) in steps.into_iter().enumerate() {
        if first == Some(n) {
            all.push(builtin::step(builtin::BOOT_RAMDISK));
        }
        all.push(step);
        if last == Some(n) {
            all.push(builtin::step(builtin::END_RAMDISK));
        }
    }
    all.push(builtin::step(builtin::COMPARE));
    all
}

/// Deploy steps: those of the driver and the caller, from booting the ramdisk to booting the workload.
pub(super) fn deployment(offered: Offered<'_>, wanted: &[StepRequest]) -> Result<Vec<Step>, StepsRefusal> {
    let all: Vec<StepSpec> =
        offered.out_of_band.iter().chain(offered.ramdisk).copied().chain(builtin::offered()).collect();
    let wanted: Vec<StepRequest> = wanted.iter().cloned().map(reserved).collect();
    let mut steps = steps::deployment(&all, &builtin::DEPLOY.key(), &wanted)?;
    if !offered.ramdisk.is_empty() {
        steps.extend(vec_of(&[builtin::END_RAMDISK, builtin::BOOT_INSTANCE]));
    }
    Ok(steps)
}

/// Stops a wait. A step that must not be cut short ends first; the wish is remembered.
fn abort(node: &Node, request: &Request, machine: Option<HealthState>) -> Changed {
    let mut changed = Changed::new(node);
    if node.state == State::ServiceFailed {
        leave_service(&mut changed, request);
        return changed;
    }
    let running = node.current_step().filter(|_| node.wait().is_some_and(|wait| wait.on != WaitOn::Hold));
    if let Some(step) = running.filter(|step| !step.abortable && step.place != Place::Engine) {
        let text = format!("abort asked for; {} cannot be cut short and ends first", step.key());
        changed.row(&request.by, Severity::Info, text, request.at);
        if let Some(operation) = &mut changed.node.operation {
            operation.abort_by = Some(request.by.clone());
        }
        return changed;
    }
    engine::abort(&mut changed, &request.by, machine, request.at);
    changed
}

/// Goes on without the service that failed. Servicing switched the machine off: its workload is booted again.
fn leave_service(changed: &mut Changed, request: &Request) {
    let ramdisk = changed.node.operation.as_ref().and_then(|operation| operation.ramdisk.clone());
    if let Ok(edge) = edges::transition(changed.node.state, Trigger::Verb(Verb::Abort)) {
        engine::take(changed, edge, &request.by, Verb::Abort.as_str(), request.at);
    }
    changed.node.last_error = None;
    changed.node.operation = Some(Operation {
        id: request.operation.clone(),
        work: Work::ClearUp,
        asked_by: request.by.clone(),
        asked_at: request.at,
        steps: vec_of(&[builtin::END_RAMDISK, builtin::BOOT_INSTANCE]),
        index: 0,
        phase: Phase::Ready,
        deadline: engine::clear_up_deadline(request.at),
        before: None,
        ramdisk,
        abort_by: None,
        power_forced_by: None,
        origin: None,
    });
}

/// Goes on after a hold: the hold step is done.
fn unhold(node: &Node, request: &Request) -> Changed {
    let mut changed = Changed::new(node);
    if let Ok(edge) = edges::transition(node.state, Trigger::Verb(Verb::Unhold)) {
        engine::take(&mut changed, edge, &request.by, Verb::Unhold.as_str(), request.at);
    }
    let deadline = engine::deadline(changed.node.state, request.at);
    if let Some(operation) = &mut changed.node.operation {
        operation.deadline = deadline;
        let reason = "somebody let it go on; a worker takes it next".to_owned();
        operation.phase = Phase::Waiting(Wait { on: WaitOn::Time(request.at), reason, since: request.at });
    }
    changed
}

/// Decides a power change.
pub fn accept_power(
    node: &Node,
    target: PowerTarget,
    by: &str,
    at: Timestamp,
    limit: jiff::SignedDuration,
) -> Result<Changed, PowerRefusal> {
    if let Some(wait) = running::postponed(node) {
        return Err(PowerRefusal::RamdiskRuns { reason: wait.reason.clone() });
    }
    match node.state {
        State::Cleaning | State::CleanWait => return Err(PowerRefusal::Cleaning(node.state.as_str())),
        state if state.may_restart() => return Err(PowerRefusal::Working(state.as_str())),
        _ => {}
    }
    if node.power.action.is_some() || node.operation.is_some() {
        return Err(PowerRefusal::Pending);
    }
    if node.disable_power_off && target.result() == super::power::PowerState::Off {
        return Err(PowerRefusal::MustStayOn);
    }
    let mut changed = Changed::new(node);
    changed.row(by, Severity::Info, format!("power: {target} asked for"), at);
    if node.state.kind() != Kind::Failed {
        changed.node.last_error = None;
    }
    let deadline = at.saturating_add(limit).unwrap_or(Timestamp::MAX);
    changed.node.power.action =
        Some(PowerAction { target, asked_by: by.to_owned(), asked_at: at, deadline, started: false });
    Ok(changed)
}

/// Decides that the power is cut although a ramdisk runs a command; `None`: nothing is postponed because of one, and a power change is
/// decided as any other.
pub fn force_power_off(node: &Node, by: &str, at: Timestamp) -> Option<Changed> {
    let wait = running::postponed(node)?.clone();
    let mut changed = Changed::new(node);
    let text = format!("power: cutting it now is forced; {}", wait.reason);
    changed.row(by, Severity::Info, text, at);
    if let Some(operation) = &mut changed.node.operation {
        operation.power_forced_by = Some(by.to_owned());
        operation.phase = Phase::Waiting(Wait { on: running::until_idle(true), ..wait });
    }
    Some(changed)
}

/// Takes a power change back that its asker does not want any more; `None`: there is none that `is_meant`, or a worker has begun with it,
/// and then it has to be waited for.
pub fn withdraw_power(
    node: &Node,
    is_meant: impl Fn(&PowerAction) -> bool,
    by: &str,
    at: Timestamp,
) -> Option<Changed> {
    let action = node.power.action.as_ref().filter(|action| !action.started && is_meant(action))?;
    let mut changed = Changed::new(node);
    changed.row(by, Severity::Info, format!("power: {} withdrawn before it was begun", action.target), at);
    changed.node.power.action = None;
    Some(changed)
}

/// A row that says a verb was refused is not written: refusals change nothing. Kept here so that the shape of rows is in one place.
pub fn row(node: &Node, by: &str, severity: Severity, text: String, at: Timestamp) -> Row {
    let lasted_ms = at.duration_since(node.since).as_millis();
    Row {
        at,
        by: by.to_owned(),
        severity,
        text,
        from: node.state,
        to: node.state,
        lasted_ms: i64::try_from(lasted_ms).unwrap_or(i64::MAX),
    }
}

#[cfg(test)]
mod tests;
