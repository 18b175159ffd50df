//! What to do next with a node, and what to record of what came out, hop by hop; [`turn`](super::turn) puts the hops together that
//! are written at once. The conductor carries out what [`next`] says and hands the result to [`record`]; a worker that takes over
//! after a crash does the same with the same record.

use jiff::{SignedDuration, Timestamp};

use super::{
    accept::{self, Offered, Options},
    agent::{self, Offer},
    builtin,
    edges::{self, Destination, Edge, Target, Trigger},
    hardware::Configuration,
    node::{Fault, HeldReport, Maintenance, Node, Operation, Phase, RamdiskContact, Row, Severity, Wait, WaitOn, Work},
    power::PowerState,
    running,
    states::{Kind, State},
    steps::{Place, Step},
    verbs::{Event, Verb},
};
use crate::{
    lifecycle::{self, Facts, Force, Granted, HealthState},
    limits,
};

/// A node after a decision, and what is written with it.
#[derive(Debug, Clone, PartialEq)]
pub struct Changed {
    /// As it is afterwards.
    pub node: Node,
    /// The lifecycle state its machine moves to in the same transaction; `None`: it stays.
    pub machine: Option<HealthState>,
    /// Rows for the history.
    pub rows: Vec<Row>,
}

/// What a worker does next with a node it holds.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// Run the step at the operation's index; record the attempt first.
    Run {
        /// The first time is 1.
        attempt: u32,
        /// Look at what came of it instead of beginning it.
        resume: bool,
    },
    /// Nothing is left to run.
    Finish,
    /// It cannot go on; why.
    Fail(String),
    /// The state lasted too long.
    Expire,
    /// It waits; nobody has to hold it.
    Leave,
}

/// How a step went.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// Done.
    Done(Learned),
    /// Something else has to happen first.
    Wait(WaitOn, String),
    /// It failed; why.
    Failed(String),
}

/// What a finished step taught.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Learned {
    /// For the history; may be empty.
    pub note: String,
    /// The power state it left behind.
    pub power: Option<PowerState>,
    /// The configuration to compare with later.
    pub configuration: Option<Configuration>,
    /// Address and credentials are proved.
    pub verified: bool,
    /// The hardware was read; what it says about the node's properties.
    pub inspected: Option<super::node::Object>,
    /// The ramdisk told what it offers.
    pub offer: Option<Offer>,
}

/// What the end of an operation depends on besides the node.
#[derive(Debug, Clone, Copy)]
pub struct World<'a> {
    /// The lifecycle state of its machine; `None`: it has none.
    pub machine: Option<HealthState>,
    /// Whether the machine has disk keys.
    pub has_keys: bool,
    /// What its driver offers.
    pub offered: Offered<'a>,
    /// What the site wants.
    pub options: &'a Options,
}

impl Changed {
    /// Nothing changed yet.
    pub fn new(node: &Node) -> Changed {
        Changed { node: node.clone(), machine: None, rows: Vec::new() }
    }

    pub(super) fn row(&mut self, by: &str, severity: Severity, text: String, at: Timestamp) {
        self.rows.push(accept::row(&self.node, by, severity, text, at));
    }
}

/// When a state entered at `at` has lasted too long.
pub fn deadline(state: State, at: Timestamp) -> Option<Timestamp> {
    let limit = SignedDuration::try_from(state.time_limit()?).ok()?;
    at.checked_add(limit).ok()
}

/// When clearing up that begins at `at` has lasted too long.
pub(super) fn clear_up_deadline(at: Timestamp) -> Option<Timestamp> {
    let limit = SignedDuration::try_from(limits::CLEAR_UP_MAX).ok()?;
    at.checked_add(limit).ok()
}

/// What to do next. Looks only at what is recorded.
pub fn next(node: &Node, now: Timestamp) -> Next {
    let Some(operation) = &node.operation else {
        return match node.state.kind() {
            Kind::Busy | Kind::Waiting => Next::Fail("no operation is recorded for this state".to_owned()),
            Kind::Stable | Kind::Holding | Kind::Failed => Next::Leave,
        };
    };
    // Maintenance stops the clock: somebody is looking at the machine. Not that of clearing up: a failure sets maintenance itself,
    // and a clear-up that hangs would then stand in everybody's way for ever.
    let paused = node.maintenance.is_some() && !operation.work.clears_up();
    let expired = operation.deadline.is_some_and(|deadline| now >= deadline) && !paused;
    // Clearing up is not given up while a ramdisk may run a command: whoever works next would cut its power without asking it.
    let asks_again = operation.work.clears_up() && running::is_postponed(operation);
    match &operation.phase {
        _ if expired && asks_again => Next::Run { attempt: 1, resume: true },
        _ if expired => Next::Expire,
        Phase::Ready if operation.index >= operation.steps.len() => Next::Finish,
        Phase::Ready => Next::Run { attempt: 1, resume: false },
        // Found like this, its worker is gone. The step may have done anything or nothing.
        Phase::Started { attempt } | Phase::Resumed { attempt, .. } => {
            let resume = matches!(operation.phase, Phase::Resumed { .. });
            let step = operation.steps.get(operation.index);
            let again = resume || step.is_some_and(|step| step.idempotent);
            if again && *attempt < limits::STEP_ATTEMPTS {
                Next::Run { attempt: attempt + 1, resume }
            } else {
                let step = step.map_or_else(|| "a step".to_owned(), Step::key);
                Next::Fail(lost(&step, *attempt, again))
            }
        }
        Phase::Waiting(wait) => match wait.on {
            WaitOn::Heartbeat { called: true }
            | WaitOn::Inventory { arrived: true }
            | WaitOn::Task { ended: true, .. } => Next::Run { attempt: 1, resume: true },
            WaitOn::Time(until) if now >= until => Next::Run { attempt: 1, resume: true },
            WaitOn::Heartbeat { .. }
            | WaitOn::Inventory { .. }
            | WaitOn::Time(_)
            | WaitOn::Task { .. }
            | WaitOn::Hold => Next::Leave,
        },
    }
}

fn lost(step: &str, attempt: u32, again: bool) -> String {
    if again {
        format!("the worker was lost in step {step} {attempt} times")
    } else {
        format!(
            "the worker was lost in step {step}, which must not be run twice; look at the machine before trying again"
        )
    }
}

/// Records that a step is about to be run. Written before its side effect.
pub fn begin(node: &Node, attempt: u32, resume: bool, worker: &str, now: Timestamp) -> Changed {
    let mut changed = Changed::new(node);
    if resume && node.state.kind() == Kind::Waiting {
        if let Ok(edge) = edges::transition(node.state, Trigger::Event(Event::Resume)) {
            take(&mut changed, edge, worker, Event::Resume.as_str(), now);
        }
        let limit = deadline(changed.node.state, now);
        if let Some(operation) = &mut changed.node.operation {
            operation.deadline = limit;
        }
    }
    let Some(operation) = &mut changed.node.operation else { return changed };
    // From here on the machine may have been touched.
    operation.origin = None;
    if operation.work.clears_up() && running::is_postponed(operation) {
        operation.deadline = clear_up_deadline(now);
    }
    operation.phase = match &operation.phase {
        _ if !resume => Phase::Started { attempt },
        Phase::Waiting(Wait { on: WaitOn::Task { id, .. }, .. }) => Phase::Resumed { attempt, task: Some(id.clone()) },
        Phase::Resumed { task, .. } => Phase::Resumed { attempt, task: task.clone() },
        Phase::Ready | Phase::Started { .. } | Phase::Waiting(_) => Phase::Resumed { attempt, task: None },
    };
    let ramdisk = operation.steps.get(operation.index).is_some_and(boots_ramdisk);
    if ramdisk && !resume {
        operation.ramdisk = Some(RamdiskContact::default());
    }
    if let Some(step) = changed.node.current_step() {
        let again = if attempt > 1 { format!(", attempt {attempt}") } else { String::new() };
        let verb = if resume { "looking at" } else { "running" };
        let text = format!("{verb} step {}{again}", step.key());
        changed.row(worker, Severity::Info, text, now);
    }
    changed
}

fn boots_ramdisk(step: &Step) -> bool {
    [builtin::BOOT_RAMDISK, builtin::DEPLOY, builtin::INSPECT_IN_BAND].iter().any(|spec| builtin::is(step, *spec))
}

/// Records how a step went.
pub fn record(node: &Node, outcome: Outcome, world: World<'_>, worker: &str, now: Timestamp) -> Changed {
    let mut changed = Changed::new(node);
    match outcome {
        Outcome::Done(mut learned) => {
            if let Some(offer) = learned.offer.take()
                && let Err(reason) = take_offer(&mut changed.node, offer, world.options)
            {
                fail(&mut changed, Event::Fail, &bounded(reason), world, worker, now);
                return changed;
            }
            learn(&mut changed, learned, worker, now);
            let Some(operation) = &mut changed.node.operation else { return changed };
            forget_command(operation);
            operation.index += 1;
            operation.phase = Phase::Ready;
            if let Some(by) = operation.abort_by.take() {
                abort(&mut changed, &by, world.machine, now);
            }
        }
        Outcome::Wait(on, reason) => wait(&mut changed, on, reason, worker, now),
        Outcome::Failed(reason) => {
            let step = node.current_step().map(Step::key);
            let reason = step.map_or_else(|| reason.clone(), |step| format!("step {step} failed: {reason}"));
            fail(&mut changed, Event::Fail, &reason, world, worker, now);
        }
    }
    changed
}

fn forget_command(operation: &mut Operation) {
    if let Some(contact) = &mut operation.ramdisk {
        contact.command = None;
    }
}

/// What the ramdisk offers decides which steps follow.
fn take_offer(node: &mut Node, offer: Offer, options: &Options) -> Result<(), String> {
    let priorities = accept::clean_priorities(node, options);
    let Some(operation) = &mut node.operation else { return Ok(()) };
    operation.steps = agent::replan(operation, &offer, &priorities)?;
    if let Some(contact) = &mut operation.ramdisk {
        contact.managers = offer.managers;
    }
    Ok(())
}

fn learn(changed: &mut Changed, learned: Learned, worker: &str, now: Timestamp) {
    let Learned { note, power, configuration, verified, inspected, offer: _ } = learned;
    let step = changed.node.current_step().map(Step::key).unwrap_or_default();
    let note = if note.is_empty() { String::new() } else { format!(": {note}") };
    changed.row(worker, Severity::Info, format!("step {step} done{note}"), now);
    let node = &mut changed.node;
    if let Some(power) = power {
        see_power(node, power, now);
    }
    if verified {
        node.verified_at = Some(now);
    }
    if let Some(properties) = inspected {
        node.inspected_at = Some(now);
        node.properties.extend(properties);
    }
    let ended = node.current_step().is_some_and(|step| builtin::is(step, builtin::END_RAMDISK));
    let restarted = |step: &Step| builtin::is(step, builtin::POWER_OFF) || builtin::is(step, builtin::REBOOT);
    let restarted = node.current_step().is_some_and(restarted);
    let cleared = node.current_step().is_some_and(|step| builtin::is(step, builtin::CLEAR_INSTANCE));
    if let Some(Configuration { boot_mode, secure_boot, .. }) = &configuration {
        node.controls.boot_mode = boot_mode.or(node.controls.boot_mode);
        node.controls.secure_boot = secure_boot.or(node.controls.secure_boot);
    }
    if let Some(operation) = &mut node.operation {
        operation.before = configuration.or(operation.before.take());
        if ended {
            operation.ramdisk = None;
        }
        if restarted {
            forget_command(operation);
        }
        // A ramdisk that proved itself is gone with its machine's power; another one has to prove itself anew.
        if restarted && operation.ramdisk.as_ref().is_some_and(|contact| contact.token.is_some()) {
            operation.ramdisk = Some(RamdiskContact::default());
        }
    }
    if cleared {
        node.instance_info.clear();
        node.details.clear_instance();
    }
}

/// The BMC answered with a power state.
pub fn see_power(node: &mut Node, power: PowerState, now: Timestamp) {
    if node.power.state != Some(power) {
        node.power.state = Some(power);
        node.power.since = Some(now);
    }
    node.power.silent = None;
}

/// Lets go of the node until something happens. Work without a waiting state, and clearing up, waits where it is, and its clock
/// goes on: nothing would end a step that waits again and again.
fn wait(changed: &mut Changed, on: WaitOn, reason: String, worker: &str, now: Timestamp) {
    let event = if on == WaitOn::Hold { Event::Hold } else { Event::Wait };
    // A service that failed may be revived by its ramdisk, but not by what clears up after it.
    let clears_up = changed.node.operation.as_ref().is_some_and(|operation| operation.work.clears_up());
    let edge = edges::transition(changed.node.state, Trigger::Event(event)).ok().filter(|_| !clears_up);
    match edge {
        Some(edge) => take(changed, edge, worker, &reason, now),
        None => changed.row(worker, Severity::Info, reason.clone(), now),
    }
    let limit = deadline(changed.node.state, now);
    let step = changed.node.current_step();
    let in_band = step.is_some_and(|step| step.place == Place::InBand);
    if step.is_some_and(boots_ramdisk) && matches!(on, WaitOn::Heartbeat { .. } | WaitOn::Inventory { .. }) {
        // The controller confirmed it before anybody began to wait for the ramdisk.
        see_power(&mut changed.node, PowerState::On, now);
    }
    if let Some(operation) = &mut changed.node.operation {
        if let WaitOn::Task { id, .. } = &on
            && in_band
            && let Some(contact) = &mut operation.ramdisk
        {
            contact.command = Some(id.clone());
        }
        operation.phase = Phase::Waiting(Wait { on, reason, since: now });
        if edge.is_some() {
            operation.deadline = limit;
        }
    }
}

/// Ends an operation whose steps are all done.
pub fn finish(node: &Node, world: World<'_>, worker: &str, now: Timestamp) -> Changed {
    let mut changed = Changed::new(node);
    let Some(work) = node.operation.as_ref().map(|operation| operation.work) else { return changed };
    let event = match work {
        Work::ClearUp => {
            changed.node.operation = None;
            changed.row(worker, Severity::Info, "cleared up".to_owned(), now);
            return changed;
        }
        Work::RestoreService => Event::Restored,
        Work::TearDown if accept::cleans(node, world.options) => Event::TornDown,
        _ => Event::Done,
    };
    let edge = match edges::transition(node.state, Trigger::Event(event)) {
        Ok(edge) => edge,
        Err(error) => {
            fail(&mut changed, Event::Fail, &error.to_string(), world, worker, now);
            return changed;
        }
    };
    if event == Event::TornDown {
        continue_with_cleaning(&mut changed, edge, world, worker, now);
        return changed;
    }
    let why = if node.target == Some(State::Available) { arrive_at_available(&mut changed, world) } else { ALL_DONE };
    take(&mut changed, edge, worker, why, now);
    changed.node.operation = None;
    changed.node.last_error = None;
    judge_report(&mut changed, true, world.machine, worker, now);
    changed
}

/// Tear-down is over: cleaning follows in the same change.
fn continue_with_cleaning(changed: &mut Changed, edge: &Edge, world: World<'_>, worker: &str, now: Timestamp) {
    match accept::automated_cleaning(&changed.node, world.offered, world.options) {
        Ok(steps) => {
            take(changed, edge, worker, "torn down; cleaning follows", now);
            let limit = deadline(changed.node.state, now);
            if let Some(operation) = &mut changed.node.operation {
                operation.work = Work::AutomatedClean;
                operation.steps = steps;
                operation.index = 0;
                operation.phase = Phase::Ready;
                operation.deadline = limit;
                operation.ramdisk = None;
            }
        }
        Err(refusal) => fail(changed, Event::Fail, &refusal.to_string(), world, worker, now),
    }
}

const ALL_DONE: &str = "all steps are done";

/// The machine of a node that would become available: one that holds no key begins anew, one that still has keys does not become
/// available at all. Returns why the node ends where it does.
fn arrive_at_available(changed: &mut Changed, world: World<'_>) -> &'static str {
    if changed.node.retire_declared {
        changed.node.target = Some(State::Manageable);
        return "all steps are done; its machine is declared retiring, so that it does not become available";
    }
    if world.has_keys {
        changed.node.target = Some(State::Manageable);
        return "all steps are done; nobody erased its disk keys, so that it does not become available";
    }
    if let Some(machine) = world.machine {
        // One that was torn down and never had a key, or was not cleaned, is still retiring: nothing readable is left all the same.
        let erased = lifecycle::erased(machine).unwrap_or(machine);
        changed.machine = lifecycle::provided(erased);
    }
    ALL_DONE
}

/// Ends an operation without success.
pub fn fail(changed: &mut Changed, event: Event, reason: &str, world: World<'_>, worker: &str, now: Timestamp) {
    let before = changed.node.state;
    let work = changed.node.operation.as_ref().map(|operation| operation.work);
    if work.is_some_and(Work::clears_up) {
        // It failed already; what could not be cleared up is said, and that is all.
        changed.row(worker, Severity::Error, format!("could not clear up: {reason}"), now);
        if work == Some(Work::ClearUp) && changed.node.state == State::RescueFailed {
            set_fault(&mut changed.node, Fault::RescueAbort, reason);
        }
        changed.node.operation = None;
        return;
    }
    let touched = changed.node.operation.as_ref().is_some_and(touched_hardware);
    match edges::transition(before, Trigger::Event(event)) {
        Ok(edge) => take(changed, edge, worker, reason, now),
        Err(error) => changed.row(worker, Severity::Error, error.to_string(), now),
    }
    if let Some(row) = changed.rows.last_mut() {
        row.severity = Severity::Error;
    }
    changed.node.last_error = Some(bounded(reason.to_owned()));
    if touched {
        match work {
            Some(Work::AutomatedClean | Work::ManualClean) => set_fault(&mut changed.node, Fault::Clean, reason),
            Some(Work::Service) => set_fault(&mut changed.node, Fault::Service, reason),
            _ => {}
        }
    }
    clear_up(changed, now);
    judge_report(changed, false, world.machine, worker, now);
}

/// Expires the state a node is in.
pub fn expire(node: &Node, world: World<'_>, worker: &str, now: Timestamp) -> Changed {
    let mut changed = Changed::new(node);
    let clears_up = node.operation.as_ref().is_some_and(|operation| operation.work.clears_up());
    let limit = if clears_up { Some(limits::CLEAR_UP_MAX) } else { node.state.time_limit() };
    let limit = limit.map_or(0, |limit| limit.as_secs());
    let what = if clears_up { "clearing up" } else { node.state.as_str() };
    let step = node.current_step().map_or_else(String::new, |step| format!(" in step {}", step.key()));
    let waited = node.wait().map_or_else(String::new, |wait| format!("; it waited because {}", wait.reason));
    let reason = format!("{what} did not end within {limit} s{step}{waited}");
    fail(&mut changed, Event::Deadline, &reason, world, worker, now);
    changed
}

/// Fails a node that cannot go on.
pub fn give_up(node: &Node, reason: &str, world: World<'_>, worker: &str, now: Timestamp) -> Changed {
    let mut changed = Changed::new(node);
    fail(&mut changed, Event::Fail, reason, world, worker, now);
    changed
}

/// Stops a waiting or holding node, because somebody wants it. Not a failure of the machine: no maintenance, no fault.
pub(super) fn abort(changed: &mut Changed, by: &str, machine: Option<HealthState>, now: Timestamp) {
    let step = changed.node.current_step().filter(|_| changed.node.wait().is_some());
    let step = step.map_or_else(String::new, |step| format!(" in step {}", step.key()));
    let work = changed.node.operation.as_ref().map_or("the work", |operation| operation.work.as_str());
    let of = if by.is_empty() { String::new() } else { format!(" of {by}") };
    let reason = format!("{work} was aborted by request{of}{step}");
    let from = changed.node.state;
    // From a busy state, when a step that could not be cut short has just ended, the arrow is that of a failure.
    let edge = edges::transition(from, Trigger::Verb(Verb::Abort))
        .or_else(|_| edges::transition(from, Trigger::Event(Event::Fail)));
    if let Ok(edge) = edge {
        take(changed, edge, by, &reason, now);
    }
    changed.node.last_error = (changed.node.state.kind() == Kind::Failed).then_some(reason);
    clear_up(changed, now);
    if changed.node.state == State::ServiceFailed
        && let Some(operation) = &mut changed.node.operation
    {
        operation.work = Work::RestoreService;
        operation.steps.push(builtin::step(builtin::BOOT_INSTANCE));
    }
    judge_report(changed, false, machine, by, now);
}

/// Whether a step of a driver or of the ramdisk began: disks or firmware may be half way. So they are when the machine turns out not
/// to look as before, whoever did it.
fn touched_hardware(operation: &Operation) -> bool {
    let begun = if operation.phase == Phase::Ready { operation.index } else { operation.index + 1 };
    let own = [builtin::RESTORE, builtin::COMPARE];
    let touches = |step: &Step| step.place != Place::Engine || own.iter().any(|spec| builtin::is(step, *spec));
    operation.steps.iter().take(begun).any(touches)
}

fn set_fault(node: &mut Node, fault: Fault, reason: &str) {
    node.maintenance = Some(Maintenance { reason: Some(bounded(reason.to_owned())), fault: Some(fault) });
}

/// What is left to do after a failure: a ramdisk that was booted is switched off, boot settings are undone. How to reach it is kept: it
/// may run a command, and is asked before its power goes ([`running`]). An aborted service has its workload to go back to in any case.
fn clear_up(changed: &mut Changed, now: Timestamp) {
    let service = changed.node.state == State::ServiceFailed;
    let Some(operation) = changed.node.operation.take() else { return };
    if operation.ramdisk.is_none() && !service {
        return;
    }
    changed.node.operation = Some(Operation {
        work: Work::ClearUp,
        steps: vec![builtin::step(builtin::END_RAMDISK)],
        index: 0,
        phase: Phase::Ready,
        deadline: clear_up_deadline(now),
        before: None,
        abort_by: None,
        power_forced_by: None,
        origin: None,
        ..operation
    });
}

/// A report that arrived while work went on. After success it is outdated: the machine was started anew since. After a failure it
/// stands, if the lifecycle knows the way.
pub(super) fn judge_report(
    changed: &mut Changed,
    succeeded: bool,
    machine: Option<HealthState>,
    worker: &str,
    now: Timestamp,
) {
    if changed.node.state.may_restart() {
        return;
    }
    let Some(HeldReport { state, at, by }) = changed.node.held_report.take() else { return };
    let from = changed.machine.or(machine);
    let granted = from.map(|from| lifecycle::request(from, state, Facts { has_keys: false }, Force::No));
    let text = match granted {
        _ if succeeded => format!("the report {state} of {by} at {at} is outdated: the work ended well since"),
        Some(Ok(Granted::Move(to))) => {
            changed.machine = Some(to);
            format!("the report {state} of {by} at {at}, kept while work went on, now counts")
        }
        _ => format!("the report {state} of {by} at {at}, kept while work went on, has no place any more"),
    };
    changed.row(worker, Severity::Info, text, now);
}

/// Moves a node along an arrow: state, target, since when, and a row for each hop.
pub(super) fn take(changed: &mut Changed, edge: &Edge, by: &str, why: &str, now: Timestamp) {
    let node = &mut changed.node;
    let to = match edge.to {
        Destination::To(state) => state,
        // Only work that heads for a stable state ends this way; without a target, managed only is the careful choice.
        Destination::Target => node.target.unwrap_or(State::Manageable),
    };
    let lasted_ms = i64::try_from(now.duration_since(node.since).as_millis()).unwrap_or(i64::MAX);
    let via = edge.via.map_or_else(String::new, |via| format!(" through {}", via.as_str()));
    let text = format!("{} -> {to}{via}: {why}", node.state);
    changed.rows.push(Row {
        at: now,
        by: by.to_owned(),
        severity: Severity::Info,
        text,
        from: node.state,
        to,
        lasted_ms,
    });
    node.state = to;
    node.since = now;
    node.target = match edge.target {
        Target::Set(state) => Some(state),
        Target::Keep => node.target,
        Target::Clear => None,
    };
}

/// The ramdisk called. A wait for its call is over; any other wait goes on, and lasts longer: the machine is alive. `None`: nobody
/// booted a ramdisk here, or there is nothing new in it.
pub fn heartbeat(node: &Node, url: &str, now: Timestamp) -> Option<Changed> {
    let mut changed = Changed::new(node);
    let waiting = node.state.kind() == Kind::Waiting && node.maintenance.is_none();
    let limit = deadline(node.state, now);
    let operation = changed.node.operation.as_mut()?;
    let contact = operation.ramdisk.as_mut()?;
    let known = contact.clone();
    contact.url = Some(url.to_owned());
    contact.heard_at = Some(now);
    // An inspection ends by what is found, and is given that time once.
    if waiting && node.state != State::InspectWait {
        operation.deadline = limit;
        if let Phase::Waiting(Wait { on: WaitOn::Heartbeat { called: called @ false }, .. }) = &mut operation.phase {
            *called = true;
            return Some(changed);
        }
    }
    // Every call would be a write otherwise.
    let fresh = SignedDuration::try_from(limits::HEARTBEAT_RECORD_EVERY).unwrap_or(SignedDuration::ZERO);
    let recent = known.heard_at.is_some_and(|at| now.duration_since(at) < fresh);
    (known.url.as_deref() != Some(url) || !recent).then_some(changed)
}

/// Somebody asked for the task the node waits for, and it has ended: the next worker looks at it. `None`: the node does not wait for
/// that one any more.
pub fn task_ended(node: &Node, task: &str) -> Option<Changed> {
    let mut changed = Changed::new(node);
    let operation = changed.node.operation.as_mut()?;
    let Phase::Waiting(Wait { on: WaitOn::Task { id, ended: ended @ false }, .. }) = &mut operation.phase else {
        return None;
    };
    if id != task {
        return None;
    }
    *ended = true;
    Some(changed)
}

/// Texts of errors come from controllers and may be long.
fn bounded(mut text: String) -> String {
    if text.len() > limits::ERROR_TEXT_BYTES_MAX {
        let mut end = limits::ERROR_TEXT_BYTES_MAX;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests;
