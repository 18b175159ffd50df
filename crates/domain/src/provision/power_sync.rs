//! What is read of a machine's power from time to time, so that what is shown is what is: whose is read, how long until the next
//! reading, and what a reading says about a node. A controller that does not answer becomes an observation: after a few tries the
//! node is put into maintenance with the fault `power failure`, and nobody guesses.

use std::{
    hash::{DefaultHasher, Hash as _, Hasher as _},
    time::Duration,
};

use jiff::Timestamp;

use super::{
    engine::{self, Changed},
    node::{Fault, Maintenance, Node, Severity, Silent},
    power::PowerState,
    states::State,
};
use crate::{limits, words::Serial};

/// Whether a node's power is read: not where work changes it, not where nobody proved the credentials, and in maintenance only to
/// see whether a silent controller answers again.
pub fn wants_reading(node: &Node) -> bool {
    let settled = !node.state.may_restart()
        && !matches!(node.state, State::Enroll | State::VerifyFailed | State::AdoptFailed)
        && node.operation.is_none()
        && node.power.action.is_none();
    settled && (node.maintenance.is_none() || given_up(node))
}

/// Whether its controller was silent too often.
fn given_up(node: &Node) -> bool {
    node.maintenance.as_ref().is_some_and(|maintenance| maintenance.fault == Some(Fault::Power))
}

/// Until the first reading of a node that was just met: somewhere within the period, so that a start does not ask all controllers
/// at once.
pub fn first_pause(every: Duration, name: &Serial) -> Duration {
    every.mul_f64(spread(name, 0))
}

/// Until the next reading: the period, give or take a fifth; longer the longer the controller has been silent.
pub fn pause(every: Duration, node: &Node) -> Duration {
    let silent = node.power.silent.as_ref().map_or(0, |silent| silent.times.min(limits::POWER_BACKOFF_STEPS));
    let spread = 0.8 + 0.4 * spread(&node.name, node.epoch + u64::from(silent));
    every.mul_f64(spread) * (1 + silent)
}

/// A number from 0 to 1 that differs between machines.
fn spread(name: &Serial, salt: u64) -> f64 {
    let mut hasher = DefaultHasher::new();
    (name.as_str(), salt).hash(&mut hasher);
    f64::from(u16::try_from(hasher.finish() & 0xffff).unwrap_or(0)) / f64::from(u16::MAX)
}

/// What a reading says about a node: its power, which a controller may not know, or why there was no answer. `None`: nothing new,
/// or it is none of its business any more.
pub fn observe(
    node: &Node,
    read: &Result<Option<PowerState>, String>,
    worker: &str,
    now: Timestamp,
) -> Option<Changed> {
    if !wants_reading(node) {
        return None;
    }
    let mut changed = Changed::new(node);
    match read {
        Ok(power) => hear(&mut changed, *power, worker, now),
        Err(reason) => miss(&mut changed, reason, worker, now),
    }
    (changed.node != *node).then_some(changed)
}

/// The controller answered. That clears the fault an earlier silence set.
fn hear(changed: &mut Changed, power: Option<PowerState>, worker: &str, now: Timestamp) {
    let given_up = given_up(&changed.node);
    let silent = changed.node.power.silent.take();
    if let Some(power) = power {
        engine::see_power(&mut changed.node, power, now);
    }
    if given_up {
        changed.node.maintenance = None;
    }
    if let Some(Silent { since, .. }) = silent.filter(|_| given_up) {
        let text = format!("power: the BMC answers again, silent since {since}");
        changed.row(worker, Severity::Info, text, now);
    }
}

/// The controller did not answer.
fn miss(changed: &mut Changed, reason: &str, worker: &str, now: Timestamp) {
    let given_up = given_up(&changed.node);
    let silent = changed.node.power.silent.take();
    let times = silent.as_ref().map_or(0, |silent| silent.times).saturating_add(1);
    let since = silent.map_or(now, |silent| silent.since);
    if times >= limits::POWER_TRIES && !given_up {
        // Unknown from here on: what was read last may long be untrue.
        changed.node.power.state = None;
        let reason = format!("the BMC did not answer {times} times: {reason}");
        changed.row(worker, Severity::Error, format!("power: {reason}"), now);
        changed.node.maintenance = Some(Maintenance { reason: Some(reason), fault: Some(Fault::Power) });
    }
    // Counting further would be a write for every try.
    let times = times.min(limits::POWER_BACKOFF_STEPS);
    changed.node.power.silent = Some(Silent { since, reason: reason.to_owned(), times });
}
