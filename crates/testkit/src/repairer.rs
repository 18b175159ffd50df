//! A repairer without a server, on a store it can be killed with.

use std::{sync::Arc, time::Duration};

use sabakan_domain::ipam::OutsidePool;
use sabakan_service::{
    Foundation,
    repair::{RepairOptions, Repairs},
    tasks::repairer,
};
use sabakan_store::keys::Keys;
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;

use crate::{TestServer, crash::CrashStore};

/// A repairer that belongs to no server.
pub struct LoneRepairer {
    /// What it works on.
    pub store: Arc<CrashStore>,
    /// What it offers.
    pub repairs: Arc<Repairs>,
    stop: CancellationToken,
    running: AbortHandle,
}

impl LoneRepairer {
    /// Starts one on the store of a server that does not repair itself. It waits for nothing longer than a test can. Power is changed
    /// through the server, which does not die with it.
    pub fn start(server: &TestServer, name: &str, prepare: impl FnOnce(&CrashStore)) -> LoneRepairer {
        let store = CrashStore::new(server.store());
        prepare(&store);
        let (config, clock, nodes) = (server.config(), server.clock.clone(), server.nodes());
        let options = RepairOptions {
            server: name.to_owned(),
            period: Duration::from_millis(200),
            lease: Duration::from_secs(1),
            ..RepairOptions::default()
        };
        let stop = CancellationToken::new();
        let (repairs, running) = server.block_on(async {
            let keys = Keys::new(&config.etcd_prefix, &config.states_prefix);
            let on = Foundation::open(store.clone(), keys, clock, OutsidePool::Refuse, name.to_owned()).await;
            let on = Arc::new(on.expect("the store opens"));
            let repairs = Arc::new(Repairs::new(Arc::clone(&on), nodes, options));
            let running = tokio::spawn(repairer::run(on, Arc::clone(&repairs), stop.clone()));
            (repairs, running.abort_handle())
        });
        LoneRepairer { store, repairs, stop, running }
    }

    /// Ends it as a crash would: nothing is answered any more, its commands die with it, its lease runs out by itself.
    pub fn kill(&self) {
        self.store.kill();
        self.running.abort();
    }

    /// Tells it to stop; whether it has.
    pub fn stop(&self) -> bool {
        self.stop.cancel();
        self.running.is_finished()
    }
}
