//! A server in the test's own process, on port 0, with its own store and a clock the test moves.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use sabakan::{
    cluster::ClusterConfig,
    config::{EtcdSettings, GraphqlConfig, MetricsConfig, ServerConfig, StoreConfig},
    http::{BodyBounds, ConnectionBounds},
    logging::LogConfig,
    provisioning::ProvisioningConfig,
    repair::RepairConfig,
    rest::FeedBounds,
    run::{OpenStore, Server, open_store},
};
use sabakan_client::Client;
use sabakan_domain::{
    access::{AllowedNetworks, CryptsAccess},
    ipam::OutsidePool,
};
use sabakan_service::{FakeClock, Nodes, cluster::Cluster, repair::Repairs};
use sabakan_store::{Range, Revision, Store};
use sabakan_wire::rest::UnknownParameters;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::etcd::Etcd;

/// Which store a test runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    /// One file.
    Embedded,
    /// A real etcd of one member, started for the test.
    Etcd,
}

/// A running server. Dropping it stops it.
pub struct TestServer {
    /// Moves only when told to.
    pub clock: Arc<FakeClock>,
    /// The etcd below, if that is the backend.
    pub etcd: Option<Arc<Etcd>>,
    config: ServerConfig,
    dir: Arc<TempDir>,
    /// What stands between the server and its store.
    between: Option<Box<Between>>,
    runtime: Option<Runtime>,
    server: Option<Server>,
}

/// Puts something between a server and its store.
pub type Between = dyn Fn(Arc<dyn Store>) -> Arc<dyn Store> + Send + Sync;

impl TestServer {
    /// Starts a server on an empty store.
    pub fn start(backend: Backend) -> TestServer {
        TestServer::start_with(backend, |_| {})
    }

    /// Starts a server on an empty store, its configuration adjusted.
    pub fn start_with(backend: Backend, adjust: impl FnOnce(&mut ServerConfig)) -> TestServer {
        let etcd = (backend == Backend::Etcd).then(|| Arc::new(Etcd::start()));
        TestServer::start_on(etcd, adjust)
    }

    /// Starts a server on an etcd, or without one on the embedded store.
    pub fn start_on(etcd: Option<Arc<Etcd>>, adjust: impl FnOnce(&mut ServerConfig)) -> TestServer {
        TestServer::start_through(etcd, None, adjust)
    }

    /// The same with something between the server and its store.
    pub fn start_through(
        etcd: Option<Arc<Etcd>>,
        between: Option<Box<Between>>,
        adjust: impl FnOnce(&mut ServerConfig),
    ) -> TestServer {
        let dir = Arc::new(tempfile::tempdir().expect("a temporary directory"));
        let mut config = configuration(dir.path().join("data"), etcd.as_deref());
        adjust(&mut config);
        let start = "2026-11-15T00:00:00Z".parse().expect("a time");
        let clock = Arc::new(FakeClock::new(start));
        let mut server = TestServer { clock, etcd, config, dir, between, runtime: None, server: None };
        server.boot();
        server
    }

    /// Another server on the same etcd.
    pub fn start_sibling(&self) -> TestServer {
        let etcd = self.etcd.clone().expect("only servers on etcd share a store");
        TestServer::start_on(Some(etcd), |_| {})
    }

    /// Stops the server and starts it again on the same store.
    pub fn restart(&mut self) {
        self.halt();
        self.boot();
    }

    /// Starts it again on the same store, its configuration adjusted; why it did not start otherwise.
    pub fn restart_with(&mut self, adjust: impl FnOnce(&mut ServerConfig)) -> Result<(), String> {
        self.halt();
        adjust(&mut self.config);
        self.try_boot()
    }

    /// Everything that is stored, read past the services.
    pub fn dump(&self) -> BTreeMap<String, Vec<u8>> {
        let (runtime, server) = (self.runtime.as_ref().expect("running"), self.server.as_ref().expect("running"));
        let (store, mut all, mut range) = (server.store(), BTreeMap::new(), Range::first("/"));
        loop {
            let page = runtime.block_on(store.list(range.clone())).expect("the store lists");
            range.after = page.items.last().map(|kv| kv.key.clone());
            all.extend(page.items.into_iter().map(|kv| (kv.key, kv.value.to_vec())));
            if !page.more {
                return all;
            }
        }
    }

    /// Where it serves, `http://127.0.0.1:port`.
    pub fn url(&self) -> String {
        let server = self.server.as_ref().expect("running");
        format!("http://{}", server.http[0])
    }

    /// Where it serves over HTTPS, for this host name or address; needs an address in `config.https`.
    pub fn https_url(&self, host: &str) -> String {
        let server = self.server.as_ref().expect("running");
        format!("https://{host}:{}", server.https[0].port())
    }

    /// The certificate it made for itself, for clients to trust.
    pub fn certificate(&self) -> PathBuf {
        self.data_dir().join("server.crt")
    }

    /// Where it serves metrics alone; needs an address in `config.metrics`.
    pub fn metrics_url(&self) -> String {
        let server = self.server.as_ref().expect("running");
        format!("http://{}", server.metrics[0])
    }

    /// Where it serves the provisioning API, `http://127.0.0.1:port`.
    pub fn ironic_url(&self) -> String {
        let server = self.server.as_ref().expect("running");
        server.ironic_urls.first().expect("the provisioning API is on").clone()
    }

    /// A client of it.
    pub fn client(&self) -> Client {
        Client::new(&self.url()).expect("a valid URL")
    }

    /// What provisioning offers, without its API.
    pub fn nodes(&self) -> Arc<Nodes> {
        Arc::clone(&self.server.as_ref().expect("running").nodes)
    }

    /// What is known about the cluster, without its API.
    pub fn cluster(&self) -> Arc<Cluster> {
        Arc::clone(&self.server.as_ref().expect("running").cluster)
    }

    /// What is known about repair, without its API.
    pub fn repairs(&self) -> Arc<Repairs> {
        Arc::clone(&self.server.as_ref().expect("running").repairs)
    }

    /// The store below.
    pub fn store(&self) -> Arc<dyn Store> {
        self.server.as_ref().expect("running").store()
    }

    /// Waits for something on the server's own threads.
    pub fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.as_ref().expect("running").block_on(future)
    }

    /// Where its data is.
    pub fn data_dir(&self) -> PathBuf {
        self.config.data_dir.clone()
    }

    /// Its configuration.
    pub fn config(&self) -> &ServerConfig {
        &self.config
    }

    /// The directory everything of the test is in.
    pub fn dir(&self) -> &TempDir {
        &self.dir
    }

    /// Makes the store forget what happened before a revision.
    pub fn compact(&self, revision: u64) {
        let (runtime, server) = (self.runtime.as_ref().expect("running"), self.server.as_ref().expect("running"));
        let store = server.store();
        runtime.block_on(store.compact(Revision(revision))).expect("compacted");
    }

    fn boot(&mut self) {
        self.try_boot().unwrap_or_else(|error| panic!("the server did not start: {error}"));
    }

    fn try_boot(&mut self) -> Result<(), String> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime.expect("a runtime");
        // The program does this in its `main`; a second time it is refused, and nothing is lost.
        let _already_set = rustls::crypto::ring::default_provider().install_default();
        let server = runtime.block_on(async {
            let store = open_store(&self.config).await?;
            let store = match &self.between {
                Some(between) => OpenStore::Etcd(between(store.store())),
                None => store,
            };
            Server::start_on(&self.config, store, self.clock.clone()).await
        });
        self.server = Some(server.map_err(|error| format!("{error:#}"))?);
        self.runtime = Some(runtime);
        Ok(())
    }

    fn halt(&mut self) {
        if let (Some(runtime), Some(server)) = (self.runtime.take(), self.server.take()) {
            runtime.block_on(server.stop());
            runtime.shutdown_timeout(Duration::from_secs(5));
        }
    }
}

/// The defaults of the program, but on free ports and without HTTPS.
fn configuration(data_dir: PathBuf, etcd: Option<&Etcd>) -> ServerConfig {
    let settings = |etcd: &Etcd| EtcdSettings {
        endpoints: etcd.endpoints(),
        credentials: None,
        tls: None,
        timeout: Duration::from_secs(5),
        max_txn_ops: 128,
        max_request_bytes: 1_572_864,
    };
    ServerConfig {
        key_file: data_dir.join("disk-keys.json"),
        data_dir,
        http: vec!["127.0.0.1:0".parse().expect("an address")],
        https: Vec::new(),
        allow_ips: AllowedNetworks::default(),
        tls: None,
        advertise_url: None,
        advertise_url_https: None,
        store: etcd.map_or(StoreConfig::Embedded, |etcd| StoreConfig::Etcd(Box::new(settings(etcd)))),
        etcd_prefix: "/sabakan/".into(),
        states_prefix: "/states/".into(),
        audit_retention_days: 60,
        require_token: false,
        crypts_access: CryptsAccess::Machine,
        outside_pool: OutsidePool::Refuse,
        unknown_parameters: UnknownParameters::Refuse,
        provisioning: ProvisioningConfig::default(),
        // Whoever does not test it must not find its keys in the store.
        cluster: ClusterConfig { planner: false, ..ClusterConfig::default() },
        repair: RepairConfig { repairer: false, ..RepairConfig::default() },
        graphql: GraphqlConfig::default(),
        metrics: MetricsConfig::default(),
        log: LogConfig::default(),
        request_id_header: "x-cybozu-request-id".parse().expect("a header"),
        feeds: FeedBounds::default(),
        connections: ConnectionBounds::default(),
        bodies: BodyBounds::default(),
        without_effect: Vec::new(),
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.halt();
    }
}
