//! What the configuration means. [`Flags`] and a YAML file say what people want (`raw`); [`ServerConfig::load`] turns it into
//! values that the rest of the program need not question, or into everything that is wrong with it at once.
//!
//! Nothing is started here and nothing is looked up in the network. The rules for single values are in `values`, those of the
//! store in `etcd`; [`describe`] shows the outcome and [`reference()`] writes the page of the documentation.

mod cluster;
mod defaults;
mod describe;
mod error;
mod etcd;
mod limits;
mod provisioning;
mod raw;
mod reference;
mod repair;
mod secret;
mod sources;
#[cfg(test)]
mod tests;
mod values;

use std::path::PathBuf;

use axum::http::HeaderName;
use sabakan_domain::{
    access::{AllowedNetworks, CryptsAccess, UnknownCryptsAccess},
    ipam::OutsidePool,
};
use sabakan_service::metrics::MetricsOptions;
use sabakan_wire::rest::UnknownParameters;

use crate::{
    cluster::ClusterConfig,
    http::{BodyBounds, ConnectionBounds},
    logging::{LogConfig, UnknownWord},
    provisioning::{IronicTls, ProvisioningConfig, UnknownIronicTls},
    repair::RepairConfig,
    rest::FeedBounds,
};

pub use self::{
    describe::describe,
    error::{ConfigError, ConfigErrors},
    etcd::{Credentials, EtcdSettings, EtcdTls, Pem},
    raw::Flags,
    reference::reference,
    secret::Secret,
    values::{ListenAddress, ListenAddressError},
};

use self::{
    raw::Texts,
    sources::{Given, Sources, read_file, setting},
};

/// Everything the server has to know before it starts.
#[derive(Clone)]
pub struct ServerConfig {
    /// Where the server keeps its data.
    pub data_dir: PathBuf,
    /// Addresses for HTTP.
    pub http: Vec<ListenAddress>,
    /// Addresses for HTTPS; none if it is off.
    pub https: Vec<ListenAddress>,
    /// From where changes are accepted.
    pub allow_ips: AllowedNetworks,
    /// The certificate for HTTPS. Absent: one is made.
    pub tls: Option<TlsFiles>,
    /// The URL under which others reach us, without a slash at its end. Absent: derived.
    pub advertise_url: Option<String>,
    /// The same for HTTPS.
    pub advertise_url_https: Option<String>,
    /// Where the data is.
    pub store: StoreConfig,
    /// What every key starts with, in either store.
    pub etcd_prefix: String,
    /// What the published copy of a machine's key starts with.
    pub states_prefix: String,
    /// The keys disk keys are sealed under.
    pub key_file: PathBuf,
    /// How long audit entries are kept; zero: for ever.
    pub audit_retention_days: u32,
    /// Whether only tokens give rights.
    pub require_token: bool,
    /// Who is given disk keys besides operators.
    pub crypts_access: CryptsAccess,
    /// Whether machines may be registered whose addresses leave the pool.
    pub outside_pool: OutsidePool,
    /// What becomes of search parameters that are not ours.
    pub unknown_parameters: UnknownParameters,
    /// Provisioning.
    pub provisioning: ProvisioningConfig,
    /// The Kubernetes cluster.
    pub cluster: ClusterConfig,
    /// Repair.
    pub repair: RepairConfig,
    /// What GraphQL offers.
    pub graphql: GraphqlConfig,
    /// Where metrics are, and how many.
    pub metrics: MetricsConfig,
    /// How to log.
    pub log: LogConfig,
    /// The header that carries a request's id from one service of a site to the next.
    pub request_id_header: HeaderName,
    /// The bounds of event feeds; nobody sets them.
    pub feeds: FeedBounds,
    /// The bounds of connections; people set the share of an address.
    pub connections: ConnectionBounds,
    /// The bounds of request bodies; nobody sets them.
    pub bodies: BodyBounds,
    /// Settings that are understood but do nothing yet, as people wrote them.
    pub without_effect: Vec<String>,
}

/// A certificate and its key, in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    pub cert: PathBuf,
    pub key: PathBuf,
}

/// What GraphQL offers beyond what it must.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GraphqlConfig {
    /// A page to try queries.
    pub playground: bool,
    /// Whether everybody may change states.
    pub open_mutations: bool,
}

/// How the server tells about itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MetricsConfig {
    /// Addresses for metrics alone; none: they are served with everything else.
    pub listen: Vec<ListenAddress>,
    /// What is counted.
    pub options: MetricsOptions,
}

/// Where the data is.
#[derive(Clone, PartialEq)]
pub enum StoreConfig {
    /// In the data directory.
    Embedded,
    /// In etcd, shared with other servers.
    Etcd(Box<EtcdSettings>),
}

impl ServerConfig {
    /// Reads the flags, the file they name, and the environment through `env`. Reports everything that is wrong, not only the
    /// first; only a file that is no configuration at all hides what else may be wrong in it.
    pub fn load(flags: Flags, env: &dyn Fn(&str) -> Option<String>) -> Result<ServerConfig, ConfigErrors> {
        let mut from = Sources::read(flags, env);
        let config = ServerConfig::from_sources(&mut from);
        match ConfigErrors::collect(from.into_errors()) {
            Some(errors) => Err(errors),
            None => Ok(config),
        }
    }

    /// Where a setting is wrong, its default stands in; the caller throws the whole away then.
    fn from_sources(from: &mut Sources<'_>) -> ServerConfig {
        let data_dir = setting!(from, "data-dir", data_dir);
        let data_dir = from.check(&data_dir, values::path).unwrap_or_else(|| defaults::DATA_DIR.into());
        let [http, https, metrics, ironic] = listeners(from);
        let ironic_tls = ironic_tls(from);
        let advertise_url = setting!(from, "advertise-url", advertise_url);
        let advertise_url_https = setting!(from, "advertise-url-https", advertise_url_https);
        let outside_pool = setting!(from, "allow-outside-pool", allow_outside_pool);
        let outside_pool = from.check(&outside_pool, values::boolean).unwrap_or_default();
        let states_prefix = setting!(from, "states-prefix", states_prefix);
        let key_file = setting!(from, "key-file", key_file);
        let key_file = from.check(&key_file, values::path).unwrap_or_else(|| data_dir.join("disk-keys.json"));
        let retention = setting!(from, "audit-retention-days", audit_retention_days);
        let require_token = setting!(from, "require-token", require_token);
        let require_token = from.check(&require_token, values::boolean).unwrap_or_default();
        let tls = tls(from);
        let advertise_url = from.check(&advertise_url, |text| values::url(text, &["http", "https"]));
        let advertise_url_https = from.check(&advertise_url_https, |text| values::url(text, &["https"]));
        let allow_ips = allow_ips(from);
        let (store, etcd_prefix) = (etcd::store(from), etcd::prefix(from));
        let states_prefix = from.check(&states_prefix, values::prefix);
        let states_prefix = states_prefix.unwrap_or_else(|| defaults::STATES_PREFIX.to_owned());
        ServerConfig {
            data_dir,
            http,
            https,
            tls,
            advertise_url,
            advertise_url_https,
            allow_ips,
            key_file,
            audit_retention_days: from.check(&retention, values::days).unwrap_or(60),
            require_token,
            crypts_access: crypts_access(from),
            outside_pool: if outside_pool { OutsidePool::Allow } else { OutsidePool::Refuse },
            unknown_parameters: unknown_parameters(from),
            provisioning: provisioning::provisioning(from, ironic, ironic_tls),
            cluster: cluster::cluster(from, &store, [&etcd_prefix, &states_prefix]),
            repair: repair::repair(from),
            store,
            etcd_prefix,
            states_prefix,
            graphql: graphql(from, require_token),
            metrics: MetricsConfig { listen: metrics, options: metrics_options(from) },
            log: log(from),
            request_id_header: request_id_header(from),
            feeds: FeedBounds::default(),
            connections: ConnectionBounds { per_address: per_address(from), ..ConnectionBounds::default() },
            bodies: BodyBounds::default(),
            without_effect: without_effect(from),
        }
    }
}

/// Addresses for HTTP, for HTTPS and for metrics. Each may be off, but not the first two: nobody could reach the server then.
fn listeners(from: &mut Sources<'_>) -> [Vec<ListenAddress>; 4] {
    let http = setting!(from, "http", http);
    let https = setting!(from, "https", https);
    let metrics = setting!(from, "metrics", metrics);
    let ironic = setting!(from, "ironic", ironic);
    let all = [
        addresses(from, &http, Some(defaults::HTTP)),
        addresses(from, &https, Some(defaults::HTTPS)),
        addresses(from, &metrics, None),
        addresses(from, &ironic, Some(defaults::IRONIC)),
    ];
    let off = |given: &Option<Given<Texts>>| given.as_ref().is_some_and(|given| given.value.is_off());
    if let Some(given) = https.as_ref().filter(|_| off(&http) && off(&https)) {
        from.wrong(&*given.at, "HTTP and HTTPS cannot both be off");
    }
    let listeners: Vec<_> = all.iter().flatten().collect();
    for (index, listener) in listeners.iter().enumerate() {
        if listeners[..index].iter().any(|earlier| earlier.collides(listener)) {
            let given = ironic.as_ref().or(metrics.as_ref());
            let at = given.or(https.as_ref()).or(http.as_ref()).map_or("--http", |given| &given.at);
            from.wrong(at, format!("{listener} is listened on twice"));
        }
    }
    all
}

fn addresses(from: &mut Sources<'_>, given: &Option<Given<Texts>>, default: Option<&str>) -> Vec<ListenAddress> {
    match given {
        Some(given) if given.value.is_off() => Vec::new(),
        Some(given) => from.check_each(given, values::listen_address),
        None => default
            .into_iter()
            .map(|text| text.parse().expect("the defaults follow the rules; a test reads them all"))
            .collect(),
    }
}

fn ironic_tls(from: &mut Sources<'_>) -> IronicTls {
    let given = setting!(from, "ironic-tls", ironic_tls);
    let rule = |text: &str| text.parse().map_err(|error: UnknownIronicTls| error.to_string());
    from.check(&given, rule).unwrap_or_default()
}

fn allow_ips(from: &mut Sources<'_>) -> AllowedNetworks {
    let Some(given) = setting!(from, "allow-ips", allow_ips) else {
        return AllowedNetworks::default();
    };
    let rule = |text: &str| AllowedNetworks::new([text]).map(|_| text.to_owned()).map_err(|error| error.to_string());
    let networks = from.check_each(&given, rule);
    AllowedNetworks::new(networks).expect("each was accepted alone")
}

fn crypts_access(from: &mut Sources<'_>) -> CryptsAccess {
    let given = setting!(from, "crypts-access", crypts_access);
    let rule = |text: &str| text.parse().map_err(|error: UnknownCryptsAccess| error.to_string());
    from.check(&given, rule).unwrap_or_default()
}

fn per_address(from: &mut Sources<'_>) -> Option<u64> {
    let given = setting!(from, "connections-per-address", connections_per_address);
    from.check(&given, values::connections)
}

/// Both files are opened now, because a wrong path is better found before anything has started.
fn tls(from: &mut Sources<'_>) -> Option<TlsFiles> {
    let cert = setting!(from, "server-cert", server_cert);
    let key = setting!(from, "server-key", server_key);
    match (&cert, &key) {
        (Some(cert), None) => from.lacking(&*cert.at, "needs --server-key"),
        (None, Some(key)) => from.lacking(&*key.at, "needs --server-cert"),
        _ => {}
    }
    let readable = |rule: fn(&str) -> Result<(), String>| {
        move |path: &str| {
            let text = read_file(path).map(Secret::new)?;
            rule(text.expose()).map_err(|reason| format!("{path} {reason}"))?;
            Ok(PathBuf::from(path))
        }
    };
    let cert = from.check(&cert, readable(values::certificates));
    let key = from.check(&key, readable(values::private_key));
    cert.zip(key).map(|(cert, key)| TlsFiles { cert, key })
}

fn unknown_parameters(from: &mut Sources<'_>) -> UnknownParameters {
    let lenient = setting!(from, "lenient-queries", lenient_queries);
    let lenient = from.check(&lenient, values::boolean).unwrap_or_default();
    if lenient { UnknownParameters::Ignore } else { UnknownParameters::Refuse }
}

fn graphql(from: &mut Sources<'_>, require_token: bool) -> GraphqlConfig {
    let playground = setting!(from, "enable-playground", enable_playground);
    let open = setting!(from, "graphql-open-mutations", graphql_open_mutations);
    let open_mutations = from.check(&open, values::boolean).unwrap_or_default();
    if let Some(open) = open.filter(|_| open_mutations && require_token) {
        from.wrong(&*open.at, "contradicts --require-token, under which nothing is open to everybody");
    }
    GraphqlConfig { playground: from.check(&playground, values::boolean).unwrap_or_default(), open_mutations }
}

fn metrics_options(from: &mut Sources<'_>) -> MetricsOptions {
    let machines = setting!(from, "metrics-machines", metrics_machines);
    let raw_paths = setting!(from, "metrics-raw-paths", metrics_raw_paths);
    let default = MetricsOptions::default();
    MetricsOptions {
        machines: from.check(&machines, values::boolean).unwrap_or(default.machines),
        raw_paths: from.check(&raw_paths, values::boolean).unwrap_or(default.raw_paths),
    }
}

fn log(from: &mut Sources<'_>) -> LogConfig {
    let format = setting!(from, "log-format", log_format);
    let level = setting!(from, "log-level", log_level);
    let file = setting!(from, "log-file", log_file);
    LogConfig {
        format: from
            .check(&format, |text| text.parse().map_err(|error: UnknownWord| error.to_string()))
            .unwrap_or_default(),
        level: from
            .check(&level, |text| text.parse().map_err(|error: UnknownWord| error.to_string()))
            .unwrap_or_default(),
        file: from.check(&file, values::path),
    }
}

/// Named by a variable, because it is agreed on for a whole site.
fn request_id_header(from: &mut Sources<'_>) -> HeaderName {
    const VARIABLE: &str = "REQUEST_ID_HEADER";
    let default = HeaderName::from_static(sabakan_wire::rest::REQUEST_ID_HEADER);
    let Some(text) = (from.env)(VARIABLE) else { return default };
    text.parse().unwrap_or_else(|_| {
        from.wrong(VARIABLE, format!("{text:?} is not the name of a header"));
        default
    })
}

/// Settings of parts that this version does not have. They are judged all the same, so that they do not surprise anybody on the
/// day they begin to matter. Turning off what is not there needs no word.
fn without_effect(from: &mut Sources<'_>) -> Vec<String> {
    let mut places = Vec::new();
    let dhcp = setting!(from, "dhcp-bind", dhcp_bind).filter(|given| !Texts::from(given.value.clone()).is_off());
    from.check(&dhcp, values::listen_address);
    let ipxe = setting!(from, "ipxe-efi-path", ipxe_efi_path);
    from.check(&ipxe, values::path);
    let urls =
        [setting!(from, "advertise-url", advertise_url), setting!(from, "advertise-url-https", advertise_url_https)];
    places.extend([dhcp, ipxe].into_iter().chain(urls).flatten().map(|given| given.at));
    places
}
