//! What must hold, of every change and of every content. Written down a second time on purpose, from the specification: a rule of the
//! product that is wrong does not agree with itself here.

use sabakan_domain::{
    lifecycle::{self, HealthState},
    provision::{
        builtin,
        edges::{EDGES, takes_back},
        node::{Node, Operation, Phase},
        states::{Kind, State},
        steps::Step,
        verbs::Verb,
    },
};

use super::{
    clients::Action,
    world::{Done, Seen, World},
};

type Claim = Result<(), String>;

macro_rules! claim {
    ($holds:expr, $($text:tt)*) => {
        if !$holds {
            return Err(format!($($text)*));
        }
    };
}

/// One change.
pub struct Change<'a> {
    pub action: Action,
    pub before: &'a Seen,
    pub after: &'a Seen,
    pub done: &'a Done,
}

impl Change<'_> {
    /// Everything that must hold of a change.
    pub fn check(&self, world: &World) -> Claim {
        claim!(world.published(), "the published machine is another than the stored");
        self.check_keys()?;
        self.check_lifecycle()?;
        self.check_lock()?;
        self.check_history()?;
        self.check_steps()?;
        self.check_ramdisk()?;
        self.check_report()?;
        self.check_verb()
    }

    /// G1.
    fn check_keys(&self) -> Claim {
        use HealthState::{Retired, Retiring};
        let (before, after) = (self.before, self.after);
        let added = after.keys && !before.keys;
        let leaving = matches!(after.machine, None | Some(Retiring | Retired));
        claim!(!(added && leaving), "G1: a key was added to a machine that is {:?}", after.machine);
        let gone = matches!(after.machine, None | Some(Retired));
        claim!(!(after.keys && gone), "G1: the machine is {:?} and has a key", after.machine);
        let removed = before.machine.is_some() && after.machine.is_none();
        claim!(!removed || before.machine == Some(Retired), "G1: removed while it was {:?}", before.machine);
        claim!(!removed || idle(&before.node) && !before.locked, "removed while work goes on: {}", before.node.state);
        let arrives = before.node.state != State::Available && after.node.state == State::Available;
        claim!(!(arrives && after.keys), "G1: available with a disk key");
        claim!(!(arrives && leaving && after.machine.is_some()), "available while it is {:?}", after.machine);
        let declared = before.node.retire_declared || after.node.retire_declared;
        claim!(!(arrives && declared), "available although it is declared retiring");
        Ok(())
    }

    /// Lifecycle changes: arrows of the table, with the guards of provisioning.
    fn check_lifecycle(&self) -> Claim {
        use HealthState::{Healthy, Retired, Retiring, Unhealthy, Uninitialized, Unreachable};
        let (Some(from), Some(to)) = (self.before.machine, self.after.machine) else { return Ok(()) };
        if from == to {
            return Ok(());
        }
        let node = &self.before.node;
        let forced = matches!(self.action, Action::SetState { force: true, .. });
        let arrow = lifecycle::EDGES.iter().any(|edge| edge.from == from && edge.to == to);
        // Nothing readable was left: erased and provided at once.
        let both = (from, to) == (Retiring, Uninitialized) && self.after.node.state == State::Available;
        claim!(arrow || both || (forced && to != Retired), "the lifecycle knows no arrow from {from} to {to}");
        claim!(self.done.audited > 0, "G9: {from} -> {to} without an audit entry");
        let step = self.action == Action::EraseStep && current(node, builtin::ERASE_KEYS);
        let retires = to == Retired && !step;
        claim!(!retires || idle(node) && !self.before.locked, "retired while the node is {}", node.state);
        if !matches!(self.action, Action::SetState { .. }) || forced {
            return Ok(());
        }
        let proved = !matches!(node.state, State::Verifying | State::VerifyFailed);
        claim!((from, to) != (Uninitialized, Healthy) || proved, "healthy while the node is {}", node.state);
        let report = matches!(to, Unhealthy | Unreachable) && node.state.may_restart();
        claim!(!report, "a report was not kept while the node is {}", node.state);
        Ok(())
    }

    /// G5: who may touch the lock, and what others may touch meanwhile.
    fn check_lock(&self) -> Claim {
        let (before, after) = (self.before, self.after);
        let takes = matches!(self.action, Action::Take { .. });
        let releases = matches!(self.action, Action::Write(_) | Action::LetGo);
        claim!(!takes || !before.locked, "G5: taken while another worker holds it");
        claim!(before.locked == after.locked || takes || releases, "the lock was changed by {:?}", self.action);
        claim!(before.locked || !self.action.holds_lock(), "G5: a worker wrote without its lock");
        let epoch = self.done.node.as_ref().map_or(0, |node| node.epoch);
        claim!(epoch == u64::from(takes), "G5: the epoch became {epoch}");
        let locked = self.done.lock.as_ref().map(|lock| lock.epoch);
        claim!(locked == takes.then_some(1), "G5: the epoch of the lock is {locked:?}");
        let work = |seen: &Seen| (seen.node.state, seen.node.target, seen.node.operation.clone());
        let worker = takes || self.action.holds_lock();
        claim!(worker || !before.locked || work(before) == work(after), "G5: changed while a worker holds it");
        let keeps = matches!(self.action, Action::Write(_)) && after.locked;
        claim!(!keeps || runs(&after.node), "a worker holds on to a node that is {}", after.node.state);
        Ok(())
    }

    /// Rows are a path of the table, numbered without a gap; whoever moves a node is in the audit log, and a failure has a reason.
    fn check_history(&self) -> Claim {
        let Some(written) = &self.done.node else { return Ok(()) };
        let mut at = self.before.node.state;
        for row in &self.done.rows {
            let arrow = EDGES.iter().any(|edge| edge.from == row.from && edge.destinations().contains(&row.to))
                || takes_back(row.from, row.to);
            claim!(row.from == at && (arrow || row.from == row.to), "the history is no path: {row:?} from {at}");
            at = row.to;
        }
        claim!(at == written.state, "the history ends in {at}, the node in {}", written.state);
        let count = self.done.rows.len() as u64;
        claim!(written.history == (0, count), "{:?} rows are counted, {count} written", written.history);
        let moved = written.state != self.before.node.state;
        // A worker that takes a node up again is in the history.
        let silent = matches!(self.action, Action::Take { .. } | Action::Called | Action::TaskEnded);
        claim!(!moved || silent || self.done.audited > 0, "G9: moved to {at} without an audit entry");
        let fails = moved && written.state.kind() == Kind::Failed;
        claim!(!fails || written.last_error.is_some(), "{at} without a reason");
        Ok(())
    }

    /// Steps only go on; what must not be run twice is not begun twice.
    fn check_steps(&self) -> Claim {
        let Some(written) = &self.done.node else { return Ok(()) };
        let (Some(before), Some(after)) = (&self.before.node.operation, &written.operation) else { return Ok(()) };
        // Whoever asks for something new gives it another name; tear-down and clearing up go on under the same.
        if after.id != before.id || after.work != before.work {
            return Ok(());
        }
        claim!(after.index >= before.index, "step {} again after step {}", after.index, before.index);
        let begun = matches!(after.phase, Phase::Started { .. });
        let known = before.index == after.index && before.phase != Phase::Ready;
        let again = begun && known && before.phase != after.phase;
        // As it was when it was begun first: whoever begins it again may not call it harmless then.
        let idempotent = before.steps.get(before.index).is_none_or(|step| step.idempotent);
        claim!(!again || idempotent, "step {} is begun twice", before.steps[before.index].key());
        Ok(())
    }

    /// A ramdisk that was booted is switched off by somebody.
    fn check_ramdisk(&self) -> Claim {
        let Some(written) = &self.done.node else { return Ok(()) };
        let boots = |operation: &&Operation| operation.ramdisk.is_some() && !operation.work.clears_up();
        if self.before.node.operation.as_ref().filter(boots).is_none() || written.state == State::Rescue {
            return Ok(());
        }
        let off = |step: &Step| builtin::is(step, builtin::END_RAMDISK) || builtin::is(step, builtin::POWER_OFF);
        let switched = self.before.node.current_step().is_some_and(off) && self.action.holds_lock();
        let still = written.operation.as_ref().is_some_and(|op| op.ramdisk.is_some() || op.steps.iter().any(off));
        claim!(still || switched, "the ramdisk is forgotten in {}", written.state);
        Ok(())
    }

    /// A report that arrives while work goes on is kept, and counts when the work failed.
    fn check_report(&self) -> Claim {
        use HealthState::{Healthy, Unhealthy};
        let (before, after) = (self.before, self.after);
        let kept = |seen: &Seen| seen.node.held_report.is_some();
        if (self.action == Action::SetState { to: Unhealthy, force: false }) && before.machine == Some(Healthy) {
            let told = kept(after) || after.machine == Some(Unhealthy);
            claim!(told, "a report is lost while the node is {}", before.node.state);
        }
        let failed = before.node.state.may_restart() && after.node.state.kind() == Kind::Failed;
        let report = before.node.held_report.as_ref().map(|report| report.state);
        let counts = kept(before) && failed && before.machine == Some(Healthy);
        claim!(!counts || after.machine == report, "a kept report is lost when the work fails");
        let ended = !after.node.state.may_restart();
        claim!(!(kept(after) && ended), "a report is kept in {}", after.node.state);
        Ok(())
    }

    /// The guards of specification 7.3.
    fn check_verb(&self) -> Claim {
        use HealthState::{Healthy, Retired, Retiring, Uninitialized};
        let (Action::Ask(verb), Some(machine)) = (self.action, self.before.machine) else { return Ok(()) };
        let node = &self.before.node;
        let failed = node.state.kind() == Kind::Failed && node.state != State::VerifyFailed;
        let leaving = matches!(machine, Retiring | Retired);
        let allowed = match verb {
            Verb::Abort | Verb::Unhold => true,
            Verb::Manage if failed => true,
            Verb::Manage | Verb::Inspect | Verb::Deleted | Verb::Unrescue | Verb::Clean => machine != Retired,
            Verb::Service | Verb::Rescue => machine != Retired,
            Verb::Provide => !leaving || !node.retire_declared,
            Verb::Rebuild | Verb::Adopt => !leaving,
            Verb::Active => matches!(machine, Healthy | Uninitialized),
        };
        claim!(allowed, "{verb} was accepted while the machine is {machine}");
        let left = verb != Verb::Deleted || matches!(self.after.machine, Some(Retiring | Retired));
        claim!(left, "torn down and still {:?}", self.after.machine);
        Ok(())
    }
}

/// Everything that must hold of a content.
pub fn check_seen(seen: &Seen) -> Claim {
    let node = &seen.node;
    let (state, kind) = (node.state, node.state.kind());
    let nowhere = kind == Kind::Stable || matches!(state, State::Error | State::VerifyFailed);
    claim!(node.target.is_none() == nowhere, "{state} with the target {:?}", node.target);
    let works = matches!(kind, Kind::Busy | Kind::Waiting | Kind::Holding);
    claim!(!works || node.operation.is_some(), "G6: {state} without an operation");
    let Some(operation) = &node.operation else { return Ok(()) };
    let bounded = operation.deadline.is_some() || kind == Kind::Holding;
    claim!(bounded, "G6: {state} without a deadline");
    claim!(works || operation.work.clears_up(), "{} goes on in {state}", operation.work);
    claim!(kind != Kind::Holding || node.wait().is_some(), "{state} without a wait");
    Ok(())
}

/// Nothing is left to be done by anybody but a person, and a person can.
pub fn at_rest(seen: &Seen) -> bool {
    let node = &seen.node;
    match node.state.kind() {
        Kind::Stable | Kind::Failed => node.operation.is_none() && !seen.locked,
        Kind::Holding => !seen.locked,
        // Maintenance stops the clock: somebody looks at the machine.
        Kind::Waiting => node.maintenance.is_some() && !seen.locked,
        Kind::Busy => false,
    }
}

/// A step is recorded as begun.
fn runs(node: &Node) -> bool {
    let phase = node.operation.as_ref().map(|operation| &operation.phase);
    matches!(phase, Some(Phase::Started { .. } | Phase::Resumed { .. }))
}

fn idle(node: &Node) -> bool {
    matches!(node.state, State::Enroll | State::VerifyFailed | State::Manageable) && node.operation.is_none()
}

pub fn current(node: &Node, spec: sabakan_domain::provision::steps::StepSpec) -> bool {
    node.current_step().is_some_and(|step| builtin::is(step, spec))
}
