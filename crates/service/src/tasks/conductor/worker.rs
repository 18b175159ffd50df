//! One worker on one node: takes it, runs what is to be run, records, and lets go of it when it waits or is done. What is begun and
//! what is recorded is decided by [`sabakan_domain::provision::turn`].

use std::time::Duration;

use sabakan_domain::{
    provision::{
        accept::Offered,
        engine::World,
        node::{Node, PowerAction},
        turn::{self, First},
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
    let begin = |facts: &Facts| turn::first(&facts.node, &worker, now);
    let taken = nodes::take(&*on.store, &on.keys, lease.id, &worker, name, now, begin).await?;
    // Somebody else was faster, or there is nothing to do any more.
    let Some((held, node, first)) = taken else { return Ok(()) };
    tracing::debug!(serial = %name, epoch = held.epoch, state = %node.state, "node taken");
    match node.power.action.clone() {
        Some(action) => change_power(conductor, lease, &held, &node, &action).await,
        None => go_on(conductor, lease, &held, node, first, stop).await,
    }
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
        let nothing = Offered { out_of_band: &[], ramdisk: &[], inspects_in_band: false, driver: None };
        let offered = offered.unwrap_or(nothing);
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
            let changed = turn::advance(&facts.node, outcome.clone(), world, worker, now, stopping);
            let grip = if turn::goes_on(&changed.node) { Grip::Keep } else { Grip::Release };
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
    let decide = |facts: &Facts| {
        (turn::end_power(&facts.node, action.target, &reached, &conductor.options.name, now), Grip::Release)
    };
    nodes::write(&*on.store, &on.keys, held, &conductor.by(), None, decide).await.map(drop)
}
