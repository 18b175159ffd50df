//! Wires all parts together and runs them: store, view, services, listeners. The only place that knows every part.

use std::{
    fs,
    net::{SocketAddr, TcpListener as StdListener},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::Context as _;
use axum::{Router, middleware};
use jiff::Timestamp;
use sabakan_domain::access::{CryptsAccess, Policy};
use sabakan_service::{
    Clock, Crypts, Foundation, Nodes, Tokens,
    cluster::Cluster,
    metrics::{MeasuredStore, Metrics, Scrapes, Task},
    repair::Repairs,
    seal::{KeyRing, SharedRing},
    takeover,
    tasks::{compactor, inspector, retention},
};
use sabakan_store::{
    Store,
    embedded::EmbeddedStore,
    keys::Keys,
    repo::{crypts, nodes},
};
use sabakan_wire::rest::ErrorKind;
use serde_json::json;
use tokio::{
    net::TcpListener,
    signal::unix::{Signal, SignalKind, signal},
};
use tokio_rustls::TlsAcceptor;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower_http::catch_panic::CatchPanicLayer;

use crate::{
    cluster,
    config::{ListenAddress, ServerConfig, StoreConfig},
    graphql,
    http::{self, Around, BodyRoom, Connections, Door, Listener, TlsSource},
    ironic, limits,
    metrics::Scraped,
    provisioning::{self, Provisioning, ProvisioningConfig},
    repair,
    rest::{self, FeedRoom},
};

/// The file of the embedded store in the data directory.
pub const STORE_FILE: &str = "sabakan.db";

/// Tells other programs where the server listens; there while it accepts connections.
pub const ADDRESSES_FILE: &str = "addresses.json";

/// A running server.
pub struct Server {
    /// Where plain HTTP is served.
    pub http: Vec<SocketAddr>,
    /// Where HTTPS is served.
    pub https: Vec<SocketAddr>,
    /// Where the provisioning API has listeners of its own.
    pub ironic: Vec<SocketAddr>,
    /// The same as URLs: each speaks TLS or not.
    pub ironic_urls: Vec<String>,
    /// What provisioning offers, for tests that do without its API.
    pub nodes: Arc<Nodes>,
    /// What is known about the cluster, for tests that do without its API.
    pub cluster: Arc<Cluster>,
    /// What is known about repair, for tests that do without its API.
    pub repairs: Arc<Repairs>,
    /// Where metrics are served if they have listeners of their own.
    pub metrics: Vec<SocketAddr>,
    addresses_file: PathBuf,
    stop: CancellationToken,
    tracker: TaskTracker,
    store: OpenStore,
}

/// The store of a server, and what has to be done when it ends.
#[derive(Clone)]
pub enum OpenStore {
    /// In the data directory.
    Embedded(Arc<EmbeddedStore>),
    /// On etcd.
    Etcd(Arc<dyn Store>),
}

impl OpenStore {
    /// The interface both have.
    pub fn store(&self) -> Arc<dyn Store> {
        match self {
            OpenStore::Embedded(store) => Arc::clone(store) as Arc<dyn Store>,
            OpenStore::Etcd(store) => Arc::clone(store),
        }
    }
}

impl Server {
    /// Starts everything. When it returns, requests are accepted.
    pub async fn start(config: &ServerConfig, clock: Arc<dyn Clock>) -> anyhow::Result<Server> {
        let store = open_store(config).await?;
        Server::start_on(config, store, clock).await
    }

    /// The same on a store that is open, for tests that have it fail.
    pub async fn start_on(config: &ServerConfig, store: OpenStore, clock: Arc<dyn Clock>) -> anyhow::Result<Server> {
        for flag in &config.without_effect {
            tracing::warn!(flag, "has no effect in this version");
        }
        if config.crypts_access == CryptsAccess::Open {
            tracing::warn!(
                require_token = config.require_token,
                "--crypts-access open gives the disk keys of every machine to whoever reaches the server (with --require-token: to \
                 every machine token); leave it out to give them to their machine only"
            );
        }
        let addresses_file = config.data_dir.join(ADDRESSES_FILE);
        let parts = Parts::open(config, store, clock).await?;
        remove_old(&addresses_file)?;
        takeover::log_at_start(&parts.foundation);
        let machines = parts.foundation.view.latest_known().machine_count();
        let (stop, tracker) = (CancellationToken::new(), TaskTracker::new());
        let named = config.provisioning.named(&config.data_dir, &host_name())?;
        let provisioning = provisioning::start(&named, &parts.foundation, &parts.ring, &tracker, &stop);
        let nodes = Arc::clone(&provisioning.nodes);
        let server_name = match named.conductor {
            Some(options) => options.name,
            None => provisioning::server_name(&config.data_dir, &host_name())?,
        };
        let cluster = cluster::open(&config.cluster, &parts.foundation, server_name).await?;
        let repairs = repair::open(&config.repair, &parts.foundation, &nodes, &cluster);
        let listeners = listeners(config, &parts, provisioning, (&cluster, &repairs), &stop).await?;
        let addresses = |(list, _): &Served| {
            list.iter().map(|listener| listener.socket.local_addr()).collect::<Result<Vec<_>, _>>()
        };
        let mut server = Server {
            http: addresses(&listeners.http)?,
            https: addresses(&listeners.https)?,
            ironic: addresses(&listeners.ironic)?,
            ironic_urls: urls(&listeners.ironic.0)?,
            metrics: addresses(&listeners.metrics)?,
            nodes,
            cluster,
            repairs,
            addresses_file,
            stop,
            tracker,
            store: parts.store.clone(),
        };
        server.serve(listeners, &door(config, &parts.metrics));
        cluster::start(&config.cluster, &parts.foundation, &server.cluster, &server.tracker, &server.stop);
        repair::start(&config.repair, &parts.foundation, &server.repairs, &server.tracker, &server.stop);
        server.tend(config, parts);
        server.announce()?;
        let Server { http, https, ironic_urls: ironic, metrics, .. } = &server;
        tracing::info!(?http, ?https, ?ironic, ?metrics, machines, "serving");
        Ok(server)
    }

    /// Begins to accept connections.
    fn serve(&self, listeners: Listeners, door: &Arc<Door>) {
        for (sockets, router) in [listeners.http, listeners.https, listeners.ironic, listeners.metrics] {
            for listener in sockets {
                let (tracker, stop) = (self.tracker.clone(), self.stop.clone());
                self.tracker.spawn(http::serve(listener, router.clone(), Arc::clone(door), tracker, stop));
            }
        }
        if let Some(certificate) = listeners.certificate {
            let watching = http::watch_files(certificate, limits::CERTIFICATE_LOOK_EVERY, self.stop.clone());
            self.tracker.spawn(watching);
        }
    }

    /// Starts what is done without being asked.
    fn tend(&self, config: &ServerConfig, parts: Parts) {
        let Parts { foundation, store, measured, metrics, clock, ring: _ } = parts;
        let succeeded = |task| metrics.task(task, Arc::clone(&clock));
        let days = config.audit_retention_days;
        self.tracker.spawn(retention::run(foundation, days, succeeded(Task::Retention), self.stop.clone()));
        if let OpenStore::Embedded(store) = store {
            self.tracker.spawn(inspector::run(store, self.stop.clone()));
            self.tracker.spawn(compactor::run(measured, succeeded(Task::Compactor), self.stop.clone()));
        }
    }

    /// The store below, for tests that do to it what no request can.
    pub fn store(&self) -> Arc<dyn Store> {
        self.store.store()
    }

    /// Stops accepting, lets requests under way finish within bounds, closes the store.
    pub async fn stop(self) {
        self.stop.cancel();
        self.tracker.close();
        if let Err(error) = fs::remove_file(&self.addresses_file) {
            tracing::warn!(%error, path = %self.addresses_file.display(), "cannot remove the file of addresses");
        }
        if tokio::time::timeout(limits::DRAIN_TIME_MAX, self.tracker.wait()).await.is_err() {
            tracing::warn!(seconds = limits::DRAIN_TIME_MAX.as_secs(), "requests under way were cut off");
        }
        if let OpenStore::Embedded(store) = &self.store {
            store.shutdown().await;
        }
        tracing::info!("stopped");
    }

    /// Writes the file of addresses, whole or not at all.
    fn announce(&mut self) -> anyhow::Result<()> {
        let texts = |list: &[SocketAddr]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
        let (http, https, metrics) = (texts(&self.http), texts(&self.https), texts(&self.metrics));
        let ironic = texts(&self.ironic);
        let content = json!({
            "http": http.first(),
            "https": https.first(),
            "ironic": ironic.first(),
            "metrics": metrics.first(),
            "all": { "http": http, "https": https, "ironic": ironic, "metrics": metrics },
            // The provisioning API alone may speak either.
            "urls": { "ironic": self.ironic_urls },
        });
        let draft = self.addresses_file.with_extension("json.new");
        fs::write(&draft, format!("{content:#}\n"))
            .and_then(|()| fs::rename(&draft, &self.addresses_file))
            .with_context(|| format!("cannot write {}", self.addresses_file.display()))
    }
}

/// Opens the file with the keys that disk keys are sealed under, or makes it, unless something in the store needs one that is lost.
async fn open_ring(config: &ServerConfig, store: &dyn Store, keys: &Keys, now: Timestamp) -> anyhow::Result<KeyRing> {
    if !config.key_file.exists() && (crypts::any_sealed(store, keys).await? || nodes::any_secrets(store, keys).await?) {
        anyhow::bail!(
            "the store holds disk keys or BMC credentials, but the key file {} they are sealed under is missing; restore it, \
             or give the right --key-file. With a new one no disk could be opened",
            config.key_file.display()
        );
    }
    Ok(KeyRing::open_or_create(&config.key_file, now)?)
}

/// Opens the store a configuration names.
pub async fn open_store(config: &ServerConfig) -> anyhow::Result<OpenStore> {
    make_data_dir(&config.data_dir)?;
    match &config.store {
        StoreConfig::Embedded => {
            let path = config.data_dir.join(STORE_FILE);
            let store = tokio::task::spawn_blocking(move || EmbeddedStore::open(&path)).await??;
            Ok(OpenStore::Embedded(Arc::new(store)))
        }
        #[cfg(feature = "etcd")]
        StoreConfig::Etcd(settings) => {
            let store = sabakan_store_etcd::EtcdStore::connect(settings.to_etcd(&config.etcd_prefix)).await?;
            Ok(OpenStore::Etcd(Arc::new(store)))
        }
        #[cfg(not(feature = "etcd"))]
        StoreConfig::Etcd(_) => {
            anyhow::bail!("this program was built without etcd; leave out --etcd-endpoints, or use another build")
        }
    }
}

fn make_data_dir(path: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(path).with_context(|| format!("cannot make the data directory {}", path.display()))
}

fn tls_source(config: &ServerConfig) -> TlsSource {
    match &config.tls {
        Some(files) => TlsSource::Files { cert: files.cert.clone(), key: files.key.clone() },
        None => TlsSource::MadeIn(config.data_dir.clone()),
    }
}

/// Removes the addresses that a process left behind when it was killed; nobody shall read ports that are no longer ours.
fn remove_old(addresses_file: &Path) -> anyhow::Result<()> {
    match fs::remove_file(addresses_file) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove the old {}", addresses_file.display()))
        }
        _ => Ok(()),
    }
}

/// What requests and background work share.
struct Parts {
    store: OpenStore,
    /// The same store, its calls timed.
    measured: Arc<dyn Store>,
    metrics: Arc<Metrics>,
    foundation: Arc<Foundation>,
    ring: Arc<SharedRing>,
    clock: Arc<dyn Clock>,
}

impl Parts {
    async fn open(config: &ServerConfig, store: OpenStore, clock: Arc<dyn Clock>) -> anyhow::Result<Parts> {
        let metrics = Arc::new(Metrics::new(config.metrics.options, env!("CARGO_PKG_VERSION")));
        metrics.declare_errors(ErrorKind::ALL.map(ErrorKind::as_str));
        let measured: Arc<dyn Store> = Arc::new(MeasuredStore::new(store.store(), Arc::clone(&metrics)));
        let keys = config.cluster.mirrored(Keys::new(&config.etcd_prefix, &config.states_prefix));
        let ring = open_ring(config, &*measured, &keys, clock.now()).await?;
        let ring = Arc::new(SharedRing::new(ring, config.key_file.clone()));
        let foundation =
            Foundation::open(Arc::clone(&measured), keys, Arc::clone(&clock), config.outside_pool, host_name()).await?;
        let foundation = Arc::new(foundation);
        if config.require_token && !Tokens::new(Arc::clone(&foundation)).has_admin().await? {
            anyhow::bail!(
                "--require-token needs an admin token, or nobody could change anything; start without it, run \
                 `sabactl tokens create --role admin NAME` from an allowed address, and start again"
            );
        }
        Ok(Parts { store, measured, metrics, foundation, ring, clock })
    }
}

/// Bound sockets of one kind, and what they serve.
type Served = (Vec<Listener>, Router);

/// Everything that is listened on.
struct Listeners {
    http: Served,
    https: Served,
    ironic: Served,
    metrics: Served,
    certificate: Option<Arc<http::CertificateReloader>>,
}

/// Binds every address and says what is served there. Scrapes on listeners of their own are no API calls, not counted, and open to
/// whoever reaches them.
async fn listeners(
    config: &ServerConfig,
    parts: &Parts,
    provisioning: Provisioning,
    (cluster, repairs): (&Arc<Cluster>, &Arc<Repairs>),
    stop: &CancellationToken,
) -> anyhow::Result<Listeners> {
    let crypts = Crypts::new(Arc::clone(&parts.foundation), Arc::clone(&parts.ring));
    let policy =
        Policy { allowed: config.allow_ips.clone(), require_token: config.require_token, crypts: config.crypts_access };
    let feed_room = FeedRoom::new(config.feeds, Arc::clone(&parts.metrics), stop.clone());
    let app = rest::App::new(
        Arc::clone(&parts.foundation),
        crypts,
        Arc::clone(cluster),
        Arc::clone(repairs),
        policy,
        feed_room,
    )
    .with_unknown_parameters(config.unknown_parameters);
    let scrapes = Scrapes::new(Arc::clone(&parts.foundation), Arc::clone(&parts.metrics));
    let scraped = Scraped::new(scrapes.with_cluster(Arc::clone(cluster)).with_repairs(Arc::clone(repairs)));
    let around = |metrics, refuse_token| Around { id_header: config.request_id_header.clone(), metrics, refuse_token };
    let counted = || Some(Arc::clone(&parts.metrics));
    let ironic = ironic::router(ironic::App::new(provisioning, &app));
    let ironic = layers(ironic, around(counted(), ironic::refuse_token));
    let mut api = rest::router(app.clone()).merge(graphql::router(app.clone(), config.graphql));
    if config.metrics.listen.is_empty() {
        // Figures name machines: only to those who may list them.
        let judged = middleware::from_fn_with_state(app, rest::access::check_reader);
        api = api.merge(scraped.clone().route().layer(judged));
    }
    let api = layers(api, around(counted(), rest::access::refuse_token));
    let scraped = layers(scraped.alone(), around(None, rest::access::refuse_token));
    let ProvisioningConfig { ironic: ironic_at, ironic_tls, .. } = &config.provisioning;
    let wants_tls = !config.https.is_empty() || ironic_at.iter().any(|address| ironic_tls.is_on(address));
    let (tls, certificate) = wants_tls.then(|| http::load_tls(&tls_source(config))).transpose()?.unzip();
    let secure = if ironic_at.is_empty() { api.clone() } else { ironic::beside(api.clone(), ironic.clone()) };
    Ok(Listeners {
        http: (bind(&config.http, "http", |_| None).await?, api),
        https: (bind(&config.https, "https", |_| tls.clone()).await?, secure),
        ironic: (bind(ironic_at, "ironic", |at| tls.clone().filter(|_| ironic_tls.is_on(at))).await?, ironic),
        metrics: (bind(&config.metrics.listen, "metrics", |_| None).await?, scraped),
        certificate,
    })
}

fn urls(listeners: &[Listener]) -> std::io::Result<Vec<String>> {
    let url = |listener: &Listener| {
        let scheme = if listener.tls.is_some() { "https" } else { "http" };
        Ok(format!("{scheme}://{}", listener.socket.local_addr()?))
    };
    listeners.iter().map(url).collect()
}

/// What all listeners share: a bound on each of them would leave nothing for the others.
fn door(config: &ServerConfig, metrics: &Arc<Metrics>) -> Arc<Door> {
    let bounds = config.connections;
    Arc::new(Door {
        connections: Connections::new(&bounds, http::open_files_max(), Arc::clone(metrics)),
        bounds,
        bodies: Arc::new(BodyRoom::new(config.bodies, Arc::clone(metrics))),
        allowed: config.allow_ips.clone(),
    })
}

/// What happens around every request, outermost last.
fn layers(router: Router, around: Around) -> Router {
    let around = Arc::new(around);
    router.layer(CatchPanicLayer::custom(http::panicked)).layer(middleware::from_fn_with_state(around, http::observe))
}

async fn bind(
    addresses: &[ListenAddress],
    what: &str,
    tls: impl Fn(&ListenAddress) -> Option<TlsAcceptor>,
) -> anyhow::Result<Vec<Listener>> {
    let mut listeners = Vec::with_capacity(addresses.len());
    for address in addresses {
        let socket = TcpListener::bind(&address.socket_addrs()[..]).await;
        let socket = socket.with_context(|| format!("cannot listen on {address} (--{what})"))?;
        listeners.push(Listener { socket, tls: tls(address) });
    }
    Ok(listeners)
}

/// Whether an address can be listened on now.
pub(crate) fn is_free(address: &ListenAddress) -> bool {
    StdListener::bind(&address.socket_addrs()[..]).is_ok()
}

/// The name of this machine, for the audit log.
pub(crate) fn host_name() -> String {
    fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned()
}

/// The signals that mean "stop". Made before anything is started: whoever learns that the server is there may stop it at once.
pub struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl StopSignals {
    /// From now on the signals no longer end the process by themselves.
    pub fn listen() -> anyhow::Result<StopSignals> {
        let listen = |kind| signal(kind).context("cannot listen to signals");
        Ok(StopSignals { terminate: listen(SignalKind::terminate())?, interrupt: listen(SignalKind::interrupt())? })
    }

    /// Waits for one of them.
    pub async fn received(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

/// Runs `work` on a runtime of its own.
pub fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start threads")?;
    let result = runtime.block_on(work);
    // Blocking reads that nobody waits for any more must not keep the program alive.
    runtime.shutdown_timeout(Duration::from_secs(5));
    result
}
