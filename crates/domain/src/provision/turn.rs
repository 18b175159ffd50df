//! One turn of a worker with a node: what it begins when it takes it, and what it writes after each thing it did. [`engine`] knows
//! single hops; here they become whole changes, so that no worker lets go of a node, or dies with it, between two hops that belong
//! together. The conductor runs what is recorded as begun, and decides nothing.

use jiff::Timestamp;

use super::{
    engine::{self, Changed, Next, Outcome, World},
    node::{Node, Phase, Severity},
    power::{PowerState, PowerTarget},
};
use crate::limits;

/// What a worker does first with a node it has just taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum First {
    /// Run the step or the power change that was recorded as begun.
    Run,
    /// Only record what follows. A step that was begun by a lost worker may still stand there as begun; it must not be run.
    Record,
}

/// What is recorded together with the lock: the step or power change that is about to begin. `None`: there is nothing to do.
pub fn first(node: &Node, worker: &str, now: Timestamp) -> Option<(Changed, First)> {
    if let Some(changed) = begin_power(node, worker, now) {
        return Some((changed, First::Run));
    }
    match engine::next(node, now) {
        Next::Leave => None,
        Next::Run { attempt, resume } => Some((engine::begin(node, attempt, resume, worker, now), First::Run)),
        Next::Finish | Next::Fail(_) | Next::Expire => Some((Changed::new(node), First::Record)),
    }
}

/// Records an outcome and everything that follows from it at once: the beginning of the next step, the end of the operation, the
/// beginning of the one after it. A worker that is `stopping` begins nothing; what was done is recorded all the same.
pub fn advance(
    node: &Node,
    outcome: Option<Outcome>,
    world: World<'_>,
    worker: &str,
    now: Timestamp,
    stopping: bool,
) -> Changed {
    let mut changed = match outcome {
        Some(outcome) => engine::record(node, outcome, world, worker, now),
        None => Changed::new(node),
    };
    for _ in 0..limits::HOPS_AT_ONCE {
        let world = World { machine: changed.machine.or(world.machine), ..world };
        let then = match engine::next(&changed.node, now) {
            Next::Leave => break,
            Next::Run { .. } if stopping => break,
            Next::Run { attempt, resume } => engine::begin(&changed.node, attempt, resume, worker, now),
            Next::Finish => engine::finish(&changed.node, world, worker, now),
            Next::Fail(reason) => engine::give_up(&changed.node, &reason, world, worker, now),
            Next::Expire => engine::expire(&changed.node, world, worker, now),
        };
        changed = Changed {
            node: then.node,
            machine: then.machine.or(changed.machine),
            rows: changed.rows.into_iter().chain(then.rows).collect(),
        };
        if goes_on(&changed.node) {
            break;
        }
    }
    changed
}

/// Whether a step is recorded as begun: whoever recorded it keeps the node and runs it. Any other node is let go of.
pub fn goes_on(node: &Node) -> bool {
    let phase = node.operation.as_ref().map(|operation| &operation.phase);
    matches!(phase, Some(Phase::Started { .. } | Phase::Resumed { .. }))
}

/// A power change is about to begin; `None`: nobody asked for one. A restart whose worker was lost is not repeated, because it may
/// have happened; but it may also have come no further than switching off, so the machine is switched on.
fn begin_power(node: &Node, worker: &str, now: Timestamp) -> Option<Changed> {
    let mut changed = Changed::new(node);
    let action = changed.node.power.action.as_mut()?;
    let lost = std::mem::replace(&mut action.started, true);
    if lost && action.target.restarts() {
        let text = format!(
            "power: the worker was lost during {}; whether it happened is not known; switching on",
            action.target
        );
        action.target = PowerTarget::On;
        changed.node.last_error = Some(text.clone());
        changed.row(worker, Severity::Error, text, now);
    }
    Some(changed)
}

/// Records how a power change ended: the power state it left behind, or why it failed. A failure is not repeated by itself.
pub fn end_power(
    node: &Node,
    target: PowerTarget,
    reached: &Result<PowerState, String>,
    worker: &str,
    now: Timestamp,
) -> Changed {
    let mut changed = Changed::new(node);
    changed.node.power.action = None;
    let (severity, text) = match reached {
        Ok(power) => {
            engine::see_power(&mut changed.node, *power, now);
            (Severity::Info, format!("power: {target} done"))
        }
        Err(reason) => {
            let text = format!("power: {target} failed: {reason}");
            changed.node.last_error = Some(text.clone());
            (Severity::Error, text)
        }
    };
    changed.row(worker, severity, text, now);
    changed
}
