//! A planner of the cluster without a server, on a store it can be killed with.

use std::{sync::Arc, time::Duration};

use sabakan_domain::ipam::OutsidePool;
use sabakan_service::{
    Foundation,
    cluster::{Cluster, ClusterOptions},
    tasks::planner,
};
use sabakan_store::keys::Keys;
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;

use crate::{TestServer, crash::CrashStore};

/// A planner that belongs to no server.
pub struct LonePlanner {
    /// What it works on.
    pub store: Arc<CrashStore>,
    /// What it offers.
    pub cluster: Arc<Cluster>,
    stop: CancellationToken,
    running: AbortHandle,
}

impl LonePlanner {
    /// Starts one on the store of a server that does not plan itself. It waits for nothing longer than a test can.
    pub fn start(server: &TestServer, name: &str, prepare: impl FnOnce(&CrashStore)) -> LonePlanner {
        let store = CrashStore::new(server.store());
        prepare(&store);
        let (config, clock) = (server.config(), server.clock.clone());
        let options = ClusterOptions {
            server: name.to_owned(),
            period: Duration::from_millis(200),
            settle: Duration::ZERO,
            // Long enough that a busy machine does not lose it, short enough to be waited for.
            lease: Duration::from_secs(3),
            ..ClusterOptions::default()
        };
        let stop = CancellationToken::new();
        let (cluster, running) = server.block_on(async {
            let keys = Keys::new(&config.etcd_prefix, &config.states_prefix);
            let on = Foundation::open(store.clone(), keys, clock, OutsidePool::Refuse, name.to_owned()).await;
            let on = Arc::new(on.expect("the store opens"));
            let cluster = Arc::new(Cluster::new(Arc::clone(&on), options));
            let running = tokio::spawn(planner::run(on, Arc::clone(&cluster), stop.clone()));
            (cluster, running.abort_handle())
        });
        LonePlanner { store, cluster, stop, running }
    }

    /// Ends it as a crash would: nothing is answered any more, its lease runs out by itself.
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
