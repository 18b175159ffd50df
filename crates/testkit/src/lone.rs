//! Tasks of a server without the server, on a store they can be killed with.

use std::{sync::Arc, time::Duration};

use sabakan_domain::ipam::OutsidePool;
use sabakan_service::{
    Foundation,
    cluster::{Cluster, ClusterOptions},
    repair::{RepairOptions, Repairs},
    tasks,
};
use sabakan_store::keys::Keys;
use tokio::{runtime::Handle, task::AbortHandle};
use tokio_util::sync::CancellationToken;

use crate::{TestServer, crash::CrashStore};

/// How often one looks when nothing changes: a test can wait for it.
const PERIOD: Duration = Duration::from_millis(200);

/// Longer than any pause of a busy machine. Nobody waits for its end: [`Lone::kill`] ends it.
const LEASE: Duration = Duration::from_secs(60);

/// A task that belongs to no server.
pub struct Lone<T> {
    /// What it works on.
    pub store: Arc<CrashStore>,
    /// What it offers.
    pub service: Arc<T>,
    stop: CancellationToken,
    running: AbortHandle,
    runtime: Handle,
}

/// Starts a planner of the cluster on the store of a server that does not plan itself. It waits for nothing longer than a test can.
pub fn planner(server: &TestServer, name: &str, prepare: impl FnOnce(&CrashStore)) -> Lone<Cluster> {
    let options = ClusterOptions {
        server: name.to_owned(),
        period: PERIOD,
        settle: Duration::ZERO,
        lease: LEASE,
        ..ClusterOptions::default()
    };
    start(server, name, prepare, |on| Cluster::new(on, options), tasks::planner::run)
}

/// Starts a repairer on the store of a server that does not repair itself. Power is changed through the server, which does not die with
/// it.
pub fn repairer(server: &TestServer, name: &str, prepare: impl FnOnce(&CrashStore)) -> Lone<Repairs> {
    let options = RepairOptions { server: name.to_owned(), period: PERIOD, lease: LEASE, ..RepairOptions::default() };
    start(server, name, prepare, |on| Repairs::new(on, server.nodes(), options), tasks::repairer::run)
}

fn start<T, F>(
    server: &TestServer,
    name: &str,
    prepare: impl FnOnce(&CrashStore),
    make: impl FnOnce(Arc<Foundation>) -> T,
    run: impl FnOnce(Arc<Foundation>, Arc<T>, CancellationToken) -> F,
) -> Lone<T>
where
    F: Future<Output = ()> + Send + 'static,
{
    let store = CrashStore::new(server.store());
    prepare(&store);
    let (config, clock, stop) = (server.config(), server.clock.clone(), CancellationToken::new());
    let (service, running, runtime) = server.block_on(async {
        let keys = Keys::new(&config.etcd_prefix, &config.states_prefix);
        let on = Foundation::open(store.clone(), keys, clock, OutsidePool::Refuse, name.to_owned()).await;
        let on = Arc::new(on.expect("the store opens"));
        let service = Arc::new(make(Arc::clone(&on)));
        let running = tokio::spawn(run(on, Arc::clone(&service), stop.clone()));
        (service, running.abort_handle(), Handle::current())
    });
    Lone { store, service, stop, running, runtime }
}

impl<T> Lone<T> {
    /// Ends it as a crash would: nothing is answered any more, and its commands die with it. Its lease runs out at once, so that no test
    /// waits for it; that leases run out by themselves is in the conformance suite of the stores.
    pub fn kill(&self) {
        self.store.kill();
        self.running.abort();
        self.runtime.block_on(self.store.expire_leases());
    }

    /// Tells it to stop; whether it has.
    pub fn stop(&self) -> bool {
        self.stop.cancel();
        self.running.is_finished()
    }
}
