//! One worker on one node: takes it, runs what is to be run, records, and lets go of it when it waits or is done.

use std::time::Duration;

use sabakan_domain::{
    provision::{
        accept::{self, Offered},
        engine::{self, Changed, Next, Outcome, World},
        node::{Node, Phase, PowerAction, Severity},
        power::PowerTarget,
    },
    words::Serial,
};
use sabakan_store::repo::nodes::{self, Facts, Grip, Held, WorkError};
use tokio_util::sync::CancellationToken;

use super::{Conductor, steps};
use crate::tasks::lease::Lease;
use crate::{error_chain, limits};

/// Works on a node until it waits, is done, or the server stops. When it returns, the node is let go of.
pub(super) async fn run(conductor: &Conductor, lease: &Lease, name: &Serial, stop: &CancellationToken) {
    if let Err(error) = work(conductor, lease, name, stop).await {
        tracing::warn!(serial = %name, error = error_chain(&error), "work on the node ended early; it is taken up again");
        let_go(conductor, lease, name).await;
    }
}

/// Lets go of a node, however long the store takes to say so: a lock that nobody minds would live as long as this server does. Only
/// the end of the lease ends this sooner.
pub(super) async fn let_go(conductor: &Conductor, lease: &Lease, name: &Serial) {
    let on = &conductor.on;
    while let Err(error) = nodes::let_go(&*on.store, &on.keys, lease.id, name).await {
        tracing::warn!(serial = %name, error = error_chain(&error), "the lock was not released, trying again");
        tokio::time::sleep(limits::CONDUCTOR_RETRY).await;
    }
}

async fn work(conductor: &Conductor, lease: &Lease, name: &Serial, stop: &CancellationToken) -> Result<(), WorkError> {
    let on = &conductor.on;
    let now = on.clock.now();
    let worker = conductor.options.name.clone();
    let begin = |facts: &Facts| first(facts, &worker, now);
    let taken = nodes::take(&*on.store, &on.keys, lease.id, &worker, name, now, begin).await?;
    // Somebody else was faster, or there is nothing to do any more.
    let Some((held, node, first)) = taken else { return Ok(()) };
    tracing::debug!(serial = %name, epoch = held.epoch, state = %node.state, "node taken");
    match node.power.action.clone() {
        Some(action) => change_power(conductor, lease, &held, &node, &action).await,
        None => go_on(conductor, lease, &held, node, first, stop).await,
    }
}

/// What a worker does first with a node it has just taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum First {
    /// Run the step or the power change that was recorded as begun.
    Run,
    /// Only record what follows. A step that was begun by a lost worker may still stand there as begun; it must not be run.
    Record,
}

/// What is recorded together with the lock: the step or power change that is about to begin.
fn first(facts: &Facts, worker: &str, now: jiff::Timestamp) -> Option<(Changed, First)> {
    let node = &facts.node;
    if node.power.action.is_some() {
        return Some((begin_power(node, worker, now), First::Run));
    }
    match engine::next(node, now) {
        Next::Leave => None,
        Next::Run { attempt, resume } => Some((engine::begin(node, attempt, resume, worker, now), First::Run)),
        Next::Finish | Next::Fail(_) | Next::Expire => Some((Changed::new(node), First::Record)),
    }
}

/// A power change is about to begin. A restart whose worker was lost is not repeated, because it may have happened; but it may also
/// have come no further than switching off, so the machine is switched on.
fn begin_power(node: &Node, worker: &str, now: jiff::Timestamp) -> Changed {
    let mut changed = Changed::new(node);
    let Some(action) = changed.node.power.action.as_mut() else { return changed };
    let lost = std::mem::replace(&mut action.started, true);
    if lost && action.target.restarts() {
        let text = format!(
            "power: the worker was lost during {}; whether it happened is not known; switching on",
            action.target
        );
        action.target = PowerTarget::On;
        changed.node.last_error = Some(text.clone());
        changed.rows.push(accept::row(node, worker, Severity::Error, text, now));
    }
    changed
}

/// Runs step after step. Each is recorded as begun before it is run; how it went and the beginning of the next one are one write.
async fn go_on(
    conductor: &Conductor,
    lease: &Lease,
    held: &Held,
    mut node: Node,
    mut next: First,
    stop: &CancellationToken,
) -> Result<(), WorkError> {
    let on = &conductor.on;
    // A bound for a list of steps that never ends, which no list does.
    for _ in 0..limits::STEPS_PER_TURN {
        let snapshot = on.view.latest_known();
        let machine = snapshot.find_machine(held.name.as_str()).cloned();
        let offered = conductor.hardware.offered(&node, machine.as_deref());
        let offered = offered.unwrap_or(Offered { out_of_band: &[], ramdisk: &[], inspects_in_band: false });
        let (outcome, found) = match next {
            // Whoever slept over the end of its lease must not wake up with a command in its hand.
            First::Run if lease.has_ended() => return Err(WorkError::Lost),
            First::Run => steps::run(conductor, held, &node, machine.as_deref()).await?,
            First::Record => (None, None),
        };
        let stopping = stop.is_cancelled();
        let now = on.clock.now();
        let worker = conductor.options.name.as_str();
        let decide = |facts: &Facts| {
            let world = World {
                machine: facts.machine.as_ref().map(|machine| machine.status.state),
                has_keys: facts.has_keys,
                offered,
                options: &conductor.rules,
            };
            let changed = advance(&facts.node, outcome.clone(), world, worker, now, stopping);
            let grip = if goes_on(&changed.node) { Grip::Keep } else { Grip::Release };
            (changed, grip)
        };
        let by = conductor.by();
        let (written, grip) = nodes::write(&*on.store, &on.keys, held, &by, found.as_ref(), decide).await?;
        if grip == Grip::Release {
            return Ok(());
        }
        (node, next) = (written, First::Run);
    }
    Ok(nodes::let_go(&*on.store, &on.keys, lease.id, &held.name).await?)
}

/// Whether the node's next step was recorded as begun.
fn goes_on(node: &Node) -> bool {
    let phase = node.operation.as_ref().map(|operation| &operation.phase);
    matches!(phase, Some(Phase::Started { .. } | Phase::Resumed { .. }))
}

/// Records an outcome and everything that follows from it at once: the beginning of the next step, the end of the operation, the
/// beginning of the one after it.
fn advance(
    node: &Node,
    outcome: Option<Outcome>,
    world: World<'_>,
    worker: &str,
    now: jiff::Timestamp,
    stopping: bool,
) -> Changed {
    let mut changed = match outcome {
        Some(outcome) => engine::record(node, outcome, world, worker, now),
        None => Changed::new(node),
    };
    // Record, finish, begin: an operation that ends and its successor are at most a few hops.
    for _ in 0..limits::HOPS_AT_ONCE {
        let next = engine::next(&changed.node, now);
        let world = World { machine: changed.machine.or(world.machine), ..world };
        let then = match next {
            Next::Leave => break,
            Next::Run { .. } if stopping => break,
            Next::Run { attempt, resume } => engine::begin(&changed.node, attempt, resume, worker, now),
            Next::Finish => engine::finish(&changed.node, world, worker, now),
            Next::Fail(reason) => engine::give_up(&changed.node, &reason, world, worker, now),
            Next::Expire => engine::expire(&changed.node, world, worker, now),
        };
        let begun = goes_on(&then.node);
        changed = Changed {
            node: then.node,
            machine: then.machine.or(changed.machine),
            rows: changed.rows.into_iter().chain(then.rows).collect(),
        };
        if begun {
            break;
        }
    }
    changed
}

/// Carries out a power change that somebody asked for.
async fn change_power(
    conductor: &Conductor,
    lease: &Lease,
    held: &Held,
    node: &Node,
    action: &PowerAction,
) -> Result<(), WorkError> {
    let on = &conductor.on;
    let snapshot = on.view.latest_known();
    let machine = snapshot.find_machine(held.name.as_str()).cloned();
    if lease.has_ended() {
        return Err(WorkError::Lost);
    }
    let left = Duration::try_from(action.deadline.duration_since(on.clock.now())).unwrap_or_default();
    let changed = async {
        if left.is_zero() {
            return Err("no worker was free before its time was over".to_owned());
        }
        let chosen = conductor.hardware.choose(node, machine.as_deref()).await;
        let chosen = chosen.map_err(|error| error_chain(&error))?;
        let bmc = chosen.connect().map_err(|error| error.to_string())?;
        steps::change_power(node, &*bmc, action.target, left).await.map_err(|error| error.to_string())
    };
    let reached = changed.await;
    let now = on.clock.now();
    let worker = conductor.options.name.clone();
    let decide = |facts: &Facts| {
        let mut changed = Changed::new(&facts.node);
        changed.node.power.action = None;
        let (severity, text) = match &reached {
            Ok(power) => {
                engine::see_power(&mut changed.node, *power, now);
                (Severity::Info, format!("power: {} done", action.target))
            }
            Err(reason) => {
                let text = format!("power: {} failed: {reason}", action.target);
                changed.node.last_error = Some(text.clone());
                (Severity::Error, text)
            }
        };
        changed.rows.push(accept::row(&changed.node, &worker, severity, text, now));
        (changed, Grip::Release)
    };
    nodes::write(&*on.store, &on.keys, held, &conductor.by(), None, decide).await.map(drop)
}
