//! Reads the power state of every machine from time to time, so that what is shown is what is. A controller that does not answer
//! becomes an observation: after a few tries the node is put into maintenance with the fault `power failure`, and nobody guesses.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use sabakan_domain::{
    provision::{
        accept,
        engine::{self, Changed},
        node::{Fault, Maintenance, Node, Severity, Silent},
        power::PowerState,
        states::State,
    },
    words::Serial,
};
use sabakan_drivers::DriverError;
use sabakan_store::{repo::nodes, view::Snapshot};
use tokio::{sync::Semaphore, time::Instant};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{Conductor, in_flight::InFlight};
use crate::{error_chain, limits};

/// Reads power states until told to stop.
pub(super) async fn run(conductor: Arc<Conductor>, stop: CancellationToken) {
    let every = conductor.options.power_sync;
    let mut due: HashMap<Serial, Instant> = HashMap::new();
    let room = Arc::new(Semaphore::new(limits::POWER_READS_AT_ONCE));
    let in_flight = InFlight::default();
    let reading = TaskTracker::new();
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            () = tokio::time::sleep(limits::POWER_SYNC_TICK.min(every)) => {}
        }
        let snapshot = conductor.on.view.latest_known();
        due.retain(|name, _| snapshot.nodes().find(name.as_str()).is_some());
        for node in snapshot.nodes().stored().filter(|node| wants_sync(node)) {
            let name = &node.name;
            if !is_mine(&snapshot, &conductor.options.name, name.as_str()) {
                continue;
            }
            // First met: somewhere within the period, so that a start does not ask all controllers at once.
            let at = *due.entry(name.clone()).or_insert_with(|| Instant::now() + every.mul_f64(spread(name, 0)));
            if at > Instant::now() {
                continue;
            }
            let Ok(permit) = Arc::clone(&room).try_acquire_owned() else { break };
            let Some(question) = in_flight.begin(name) else { continue };
            due.insert(name.clone(), Instant::now() + pause(every, node));
            let (conductor, name) = (Arc::clone(&conductor), name.clone());
            reading.spawn(async move {
                read(&conductor, &name).await;
                drop((question, permit));
            });
        }
    }
    reading.close();
    reading.wait().await;
}

/// Whether a node's power is read: not where work changes it, not where nobody proved the credentials, and in maintenance only to
/// see whether a silent controller answers again.
fn wants_sync(node: &Node) -> bool {
    let fault = node.maintenance.as_ref().and_then(|maintenance| maintenance.fault);
    let settled = !node.state.may_restart()
        && !matches!(node.state, State::Enroll | State::VerifyFailed | State::AdoptFailed)
        && node.operation.is_none()
        && node.power.action.is_none();
    settled && (node.maintenance.is_none() || fault == Some(Fault::Power))
}

/// Until the next reading: the period, give or take a fifth; longer the longer the controller has been silent.
fn pause(every: Duration, node: &Node) -> Duration {
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

/// Whether this server looks after a node: the one with the highest number for it among those alive. Two may think so while one
/// comes or goes; they read twice, no more.
pub(super) fn is_mine(snapshot: &Snapshot, own: &str, node: &str) -> bool {
    let weight = |conductor: &str| {
        let mut hasher = DefaultHasher::new();
        (conductor, node).hash(&mut hasher);
        hasher.finish()
    };
    snapshot.conductors().all(|other| other == own || weight(other) <= weight(own))
}

async fn read(conductor: &Conductor, name: &Serial) {
    let snapshot = conductor.on.view.latest_known();
    let Some(node) = snapshot.nodes().find(name.as_str()) else { return };
    let machine = snapshot.find_machine(name.as_str());
    let reading = async {
        let chosen = conductor.hardware.choose(node, machine.map(|machine| &**machine)).await;
        let chosen = chosen.map_err(|error| DriverError::settings("driver", error_chain(&error)))?;
        chosen.connect()?.power().await
    };
    let read = match tokio::time::timeout(limits::POWER_READ_MAX, reading).await {
        Ok(read) => read,
        Err(_) => Err(DriverError::Unreachable("no answer about the power state in time".to_owned())),
    };
    let now = conductor.on.clock.now();
    let observed = |facts: &nodes::Facts| {
        if !wants_sync(&facts.node) {
            return None;
        }
        let (node, told) = observe(&facts.node, &read, now);
        let rows = told.map(|(severity, text)| accept::row(&facts.node, &conductor.options.name, severity, text, now));
        (node != facts.node).then(|| Changed { node, machine: None, rows: rows.into_iter().collect() })
    };
    if let Err(error) = nodes::notice(&*conductor.on.store, &conductor.on.keys, name, observed).await {
        tracing::warn!(serial = %name, error = error_chain(&error), "a power state was not recorded");
    }
}

/// What a reading says about a node, and what of it is worth a row of the history. An answer clears the fault an earlier silence set.
fn observe(
    node: &Node,
    read: &Result<Option<PowerState>, DriverError>,
    now: Timestamp,
) -> (Node, Option<(Severity, String)>) {
    let mut node = node.clone();
    let given_up = node.maintenance.as_ref().is_some_and(|maintenance| maintenance.fault == Some(Fault::Power));
    match read {
        Ok(power) => {
            let silent = node.power.silent.take();
            if let Some(power) = power {
                engine::see_power(&mut node, *power, now);
            }
            if given_up {
                node.maintenance = None;
            }
            let since = silent.filter(|_| given_up).map(|silent| silent.since);
            (node, since.map(|since| (Severity::Info, format!("power: the BMC answers again, silent since {since}"))))
        }
        Err(error) => {
            let reason = error.to_string();
            let silent = node.power.silent.take();
            let times = silent.as_ref().map_or(0, |silent| silent.times).saturating_add(1);
            let since = silent.map_or(now, |silent| silent.since);
            let mut told = None;
            if times >= limits::POWER_TRIES && !given_up {
                // Unknown from here on: what was read last may long be untrue.
                node.power.state = None;
                let reason = format!("the BMC did not answer {times} times: {reason}");
                told = Some((Severity::Error, format!("power: {reason}")));
                node.maintenance = Some(Maintenance { reason: Some(reason), fault: Some(Fault::Power) });
            }
            // Counting further would be a write for every try.
            let times = times.min(limits::POWER_BACKOFF_STEPS);
            node.power.silent = Some(Silent { since, reason, times });
            (node, told)
        }
    }
}
