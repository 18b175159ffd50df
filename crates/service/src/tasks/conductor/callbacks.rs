//! Calls of simulated ramdisks. Real ones arrive through the provisioning API and end in the same place.

use std::sync::{Arc, OnceLock};

use sabakan_domain::{provision::engine, words::Serial};
use sabakan_drivers::simulated::Heartbeat;
use sabakan_store::repo::nodes;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{Conductor, poll};
use crate::error_chain;

pub(super) async fn run(conductor: Arc<Conductor>, mut callbacks: mpsc::Receiver<Heartbeat>, stop: CancellationToken) {
    loop {
        let heartbeat = tokio::select! {
            () = stop.cancelled() => return,
            heartbeat = callbacks.recv() => heartbeat,
        };
        let Some(Heartbeat { machine, url }) = heartbeat else { return };
        let name = Serial::stored(&machine);
        let conductor = Arc::clone(&conductor);
        // Each in its own task: a store that is slow with one must not hold up the calls of all others.
        tokio::spawn(async move {
            let on = &conductor.on;
            let now = on.clock.now();
            let taken = OnceLock::new();
            let called = |facts: &nodes::Facts| {
                // Somebody had the node since this call came, and may have started the machine anew: nobody answers there any more.
                if *taken.get_or_init(|| facts.node.epoch) != facts.node.epoch {
                    return None;
                }
                // Where an agent was chosen, its calls come through the provisioning API and nothing else is listened to.
                let agent = conductor.hardware.has_agent(&facts.node, facts.machine.as_ref());
                engine::heartbeat(&facts.node, &url, now).filter(|_| !agent)
            };
            match nodes::notice(&*on.store, &on.keys, &name, called).await {
                Ok(_) => poll::ask(&conductor, &name).await,
                // The ramdisk calls again.
                Err(error) => {
                    tracing::warn!(serial = %name, error = error_chain(&error), "a ramdisk's call was not recorded");
                }
            }
        });
    }
}
