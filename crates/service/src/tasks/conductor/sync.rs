//! Reads the power state of every machine from time to time. Whose is read, when, and what a reading says about a node is decided by
//! [`sabakan_domain::provision::power_sync`].

use std::{collections::HashMap, sync::Arc};

use sabakan_domain::{provision::power_sync, words::Serial};
use sabakan_drivers::DriverError;
use sabakan_store::repo::nodes;
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
        for node in snapshot.nodes().stored().filter(|node| power_sync::wants_reading(node)) {
            let name = &node.name;
            if !conductor.looks_after(&snapshot, name) {
                continue;
            }
            let first_met = || Instant::now() + power_sync::first_pause(every, name);
            let at = *due.entry(name.clone()).or_insert_with(first_met);
            if at > Instant::now() {
                continue;
            }
            let Ok(permit) = Arc::clone(&room).try_acquire_owned() else { break };
            let Some(question) = in_flight.begin(name) else { continue };
            due.insert(name.clone(), Instant::now() + power_sync::pause(every, node));
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
    let read = read.map_err(|error| error.to_string());
    let observed = |facts: &nodes::Facts| power_sync::observe(&facts.node, &read, &conductor.options.name, now);
    if let Err(error) = nodes::notice(&*conductor.on.store, &conductor.on.keys, name, observed).await {
        tracing::warn!(serial = %name, error = error_chain(&error), "a power state was not recorded");
    }
}
