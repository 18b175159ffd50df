//! What people write: the flags and the YAML file, before anybody asked whether it makes sense. Every value stays the text it
//! was written as, so that one pass over both (`super::load`) can report everything that is wrong, with its place.

use serde::{Deserialize, Deserializer, de};
use serde_saphyr::Spanned;

use super::{
    cluster::ClusterFlags,
    defaults,
    provisioning::{BmcTypeFile, Numbers, ProvisioningFlags},
    repair::RepairFlags,
    secret::Secret,
};
use crate::yaml::{self, YamlRefusal};

/// The flags of the server. Nothing is checked here and no default is filled in: what is absent may stand in the file.
#[derive(Clone, Default, clap::Args)]
// The last one wins, as in Go's flags: a container's entry point sets some and people add theirs behind it.
#[command(args_override_self = true)]
pub struct Flags {
    #[arg(long, value_name = "FILE", help = "YAML file with the same settings; flags win over it")]
    pub config_file: Option<String>,
    #[arg(long, value_name = "DIR", help = help("Where the server keeps its data", defaults::DATA_DIR))]
    pub data_dir: Option<String>,
    #[arg(long, value_name = "ADDRESS", help_heading = "Listeners",
        help = help("Addresses for HTTP, separated by commas or given repeatedly. `:8888` means all addresses, port 0 a free \
            port", defaults::HTTP))]
    pub http: Option<Vec<String>>,
    #[arg(long, value_name = "ADDRESS", help_heading = "Listeners",
        help = help("Addresses for HTTPS, as for --http; `none` turns it off", defaults::HTTPS))]
    pub https: Option<Vec<String>>,
    #[arg(long, value_name = "ADDRESS", help_heading = "Listeners",
        help = help("Addresses for the Ironic-compatible provisioning API, as for --http; it is also below /v1 of --https. `none` \
            turns it off in both places", defaults::IRONIC))]
    pub ironic: Option<Vec<String>>,
    #[arg(long, value_name = "WHEN", help_heading = "Listeners",
        help = help("Whether --ironic speaks TLS, with the certificate of --https: auto (where other hosts can reach it), on or off. \
            Off, its tokens and BMC passwords can be read on the way", defaults::IRONIC_TLS))]
    pub ironic_tls: Option<String>,
    #[arg(long, value_name = "ADDRESS", help_heading = "Listeners",
        help = help("Addresses for /metrics alone, as for --http", "/metrics is on --http and --https"))]
    pub metrics: Option<Vec<String>>,
    #[arg(long, value_name = "ADDRESS", help_heading = "Listeners",
        help = later("Address and port for DHCP; `none` turns it off", defaults::OFF))]
    pub dhcp_bind: Option<String>,
    #[arg(
        long,
        value_name = "URL",
        help_heading = "Listeners",
        help = later("URL under which machines and other servers reach --http", "derived from --http")
    )]
    pub advertise_url: Option<String>,
    #[arg(
        long,
        value_name = "URL",
        help_heading = "Listeners",
        help = later("URL under which machines reach --https", "derived from --https")
    )]
    pub advertise_url_https: Option<String>,
    #[arg(
        long,
        value_name = "FILE",
        help_heading = "Listeners",
        help = "Certificate for HTTPS, PEM, the whole chain [default: one is made in --data-dir at the first start]"
    )]
    pub server_cert: Option<String>,
    #[arg(long, value_name = "FILE", help_heading = "Listeners", help = "Private key of --server-cert, PEM")]
    pub server_key: Option<String>,
    #[arg(long, value_name = "NETWORKS", help_heading = "Access",
        help = help("Addresses and networks from which changes are accepted, separated by commas; empty means nobody",
            defaults::ALLOW_IPS))]
    pub allow_ips: Option<Vec<String>>,
    #[arg(long, value_name = "NUMBER", help_heading = "Access",
        help = help("Connections that one address may hold, so that nobody keeps everybody else out; a proxy in front of many needs \
            more. This machine has no bound", defaults::CONNECTIONS_PER_ADDRESS))]
    pub connections_per_address: Option<String>,
    #[arg(
        long,
        value_name = "URL",
        help_heading = "Store",
        help = "Members of the etcd that holds the data, separated by commas; https needs --etcd-tls-ca [default: none, the \
            data is in --data-dir]"
    )]
    pub etcd_endpoints: Option<Vec<String>>,
    #[arg(long, value_name = "PREFIX", help_heading = "Store",
        help = help("What every key starts with, in either store; ends with a slash", defaults::ETCD_PREFIX))]
    pub etcd_prefix: Option<String>,
    #[arg(long, value_name = "TIME", help_heading = "Store",
        help = help("How long to wait for a connection to etcd, such as 500ms, 2s or 1m", defaults::ETCD_TIMEOUT))]
    pub etcd_timeout: Option<String>,
    #[arg(long, value_name = "NAME", help_heading = "Store", help = "User name, if etcd asks for one")]
    pub etcd_username: Option<String>,
    #[arg(
        long,
        value_name = "PASSWORD",
        help_heading = "Store",
        help = "Its password. Everybody on this host can read a command line: prefer --etcd-password-file or the environment \
            variable SABAKAN_ETCD_PASSWORD"
    )]
    pub etcd_password: Option<Secret>,
    #[arg(
        long,
        value_name = "FILE",
        help_heading = "Store",
        help = "File with the password; one newline at its end is left out"
    )]
    pub etcd_password_file: Option<String>,
    #[arg(
        long,
        value_name = "FILE",
        help_heading = "Store",
        help = "Certificates of the authorities trusted for etcd, PEM. The system's own list is not used"
    )]
    pub etcd_tls_ca: Option<String>,
    #[arg(long, value_name = "FILE", help_heading = "Store", help = "Our certificate for etcd, PEM")]
    pub etcd_tls_cert: Option<String>,
    #[arg(long, value_name = "FILE", help_heading = "Store", help = "Private key of --etcd-tls-cert, PEM")]
    pub etcd_tls_key: Option<String>,
    #[arg(long, value_name = "NUMBER", help_heading = "Store",
        help = help("What etcd was started with as --max-txn-ops", defaults::ETCD_MAX_TXN_OPS))]
    pub etcd_max_txn_ops: Option<String>,
    #[arg(long, value_name = "BYTES", help_heading = "Store",
        help = help("What etcd was started with as --max-request-bytes; also with KiB or MiB", defaults::ETCD_MAX_REQUEST_BYTES))]
    pub etcd_max_request_bytes: Option<String>,
    #[arg(long, value_name = "PREFIX", help_heading = "Store",
        help = help("Where the state of each machine is published for other programs", defaults::STATES_PREFIX))]
    pub states_prefix: Option<String>,
    #[arg(long, value_name = "FILE", help_heading = "Store",
        help = help("The keys that disk keys are sealed under. Servers that share an etcd need the same file",
            "disk-keys.json in --data-dir"))]
    pub key_file: Option<String>,
    #[arg(long, value_name = "DAYS", help_heading = "Store",
        help = help("How long audit entries are kept; 0 keeps them for ever", defaults::AUDIT_RETENTION_DAYS))]
    pub audit_retention_days: Option<String>,
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        help_heading = "Access",
        help = help("Give rights to tokens only, not to addresses. Needs an admin token: sabactl tokens create --role admin",
            defaults::NO))]
    pub require_token: Option<String>,
    #[arg(long, value_name = "WHO", help_heading = "Access",
        help = help("Who is given disk keys besides operators: machine (only the machine they belong to, known by its address or its \
            token) or open (everybody who reaches the server, as with the older service). Dangerous: open gives away the keys of \
            every disk", defaults::CRYPTS_ACCESS))]
    pub crypts_access: Option<String>,
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        help_heading = "Registry",
        help = help("Register machines although their addresses leave the IPAM pool: for a registry taken over from a service \
            that never checked", defaults::NO))]
    pub allow_outside_pool: Option<String>,
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        help_heading = "Registry",
        help = help("Ignore unknown query parameters of GET /api/v1/machines, as the older service does. Dangerous: a misspelled \
            condition then matches every machine", defaults::NO))]
    pub lenient_queries: Option<String>,
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        help_heading = "GraphQL", help = help("Serve a page to try GraphQL queries at /playground", defaults::NO))]
    pub enable_playground: Option<String>,
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        help_heading = "GraphQL",
        help = help("Let everybody who reaches the server change states through /graphql, as the older service does. Dangerous: \
            a state decides whether a machine's data is erased", defaults::NO))]
    pub graphql_open_mutations: Option<String>,
    #[arg(
        long,
        value_name = "FILE",
        help_heading = "Registry",
        help = later("iPXE program sent to machines that boot over HTTP", defaults::IPXE)
    )]
    pub ipxe_efi_path: Option<String>,
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        help_heading = "Metrics",
        help = help("Seven series for each machine in /metrics; off, its size does not grow with the number of machines",
            defaults::YES))]
    pub metrics_machines: Option<String>,
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        help_heading = "Metrics",
        help = help("Count requests by the path that was asked for, as the older service does, instead of its route; past a bound \
            they are counted together", defaults::NO))]
    pub metrics_raw_paths: Option<String>,
    #[command(flatten)]
    pub provisioning: ProvisioningFlags,
    #[command(flatten)]
    pub cluster: ClusterFlags,
    #[command(flatten)]
    pub repair: RepairFlags,
    #[arg(long, alias = "logformat", value_name = "FORMAT", help_heading = "Logging",
        help = help("plain, logfmt or json", defaults::LOG_FORMAT))]
    pub log_format: Option<String>,
    #[arg(long, alias = "loglevel", value_name = "LEVEL", help_heading = "Logging",
        help = help("critical, error, warning, info or debug", defaults::LOG_LEVEL))]
    pub log_level: Option<String>,
    #[arg(
        long,
        alias = "logfile",
        value_name = "FILE",
        help_heading = "Logging",
        help = "File to which the log is appended [default: standard error]"
    )]
    pub log_file: Option<String>,
}

/// What is said about settings of parts that this version does not have.
pub const NO_EFFECT: &str = "no effect in this version";

/// A value of the file and its line.
pub type Line<T> = Option<Spanned<T>>;

/// The YAML file: the same names as the flags.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct File {
    pub data_dir: Line<String>,
    pub http: Line<Texts>,
    pub https: Line<Texts>,
    pub ironic: Line<Texts>,
    pub ironic_tls: Line<String>,
    pub metrics: Line<Texts>,
    pub metrics_machines: Line<String>,
    pub metrics_raw_paths: Line<String>,
    pub dhcp_bind: Line<String>,
    pub advertise_url: Line<String>,
    pub advertise_url_https: Line<String>,
    pub server_cert: Line<String>,
    pub server_key: Line<String>,
    pub allow_ips: Line<Texts>,
    pub connections_per_address: Line<String>,
    pub etcd_endpoints: Line<Texts>,
    pub etcd_prefix: Line<String>,
    pub etcd_timeout: Line<String>,
    pub etcd_username: Line<String>,
    pub etcd_password: Line<Secret>,
    pub etcd_password_file: Line<String>,
    pub etcd_tls_ca: Line<String>,
    pub etcd_tls_cert: Line<String>,
    pub etcd_tls_key: Line<String>,
    pub etcd_max_txn_ops: Line<String>,
    pub etcd_max_request_bytes: Line<String>,
    pub states_prefix: Line<String>,
    pub key_file: Line<String>,
    pub audit_retention_days: Line<String>,
    pub require_token: Line<String>,
    pub crypts_access: Line<String>,
    pub allow_outside_pool: Line<String>,
    pub lenient_queries: Line<String>,
    pub enable_playground: Line<String>,
    pub graphql_open_mutations: Line<String>,
    pub ipxe_efi_path: Line<String>,
    pub conductor: Line<String>,
    pub conductor_name: Line<String>,
    pub simulated_hardware: Line<String>,
    pub automated_clean: Line<String>,
    pub cleaning: Line<String>,
    pub require_healthy: Line<String>,
    pub power_off_after_verify: Line<String>,
    pub provide_in_maintenance: Line<String>,
    pub power_sync_interval: Line<String>,
    pub work_lease: Line<String>,
    pub verify_concurrency: Line<String>,
    pub inspect_concurrency: Line<String>,
    pub clean_concurrency: Line<String>,
    pub deploy_concurrency: Line<String>,
    pub group_concurrency: Line<String>,
    pub ipmitool: Line<String>,
    pub clean_priorities: Numbers,
    pub bmc_types: Line<Vec<BmcTypeFile>>,
    pub cluster_planner: Line<String>,
    pub cluster_period: Line<String>,
    pub cluster_settle: Line<String>,
    pub cluster_registry_url: Line<String>,
    pub cluster_registry_timeout: Line<String>,
    pub cluster_mirror_prefix: Line<String>,
    pub cluster_kubeconfig: Line<String>,
    pub cluster_apply: Line<String>,
    pub repairer: Line<String>,
    pub repair_period: Line<String>,
    pub log_format: Line<String>,
    pub log_level: Line<String>,
    pub log_file: Line<String>,
    #[serde(deserialize_with = "null_is_absent")]
    pub etcd: EtcdFile,
}

/// The same settings in the nested spelling of the older service, which also takes certificates in place of their files.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct EtcdFile {
    pub endpoints: Line<Texts>,
    pub prefix: Line<String>,
    pub timeout: Line<String>,
    pub username: Line<String>,
    pub password: Line<Secret>,
    pub password_file: Line<String>,
    pub tls_ca_file: Line<String>,
    pub tls_cert_file: Line<String>,
    pub tls_key_file: Line<String>,
    pub tls_ca: Line<Secret>,
    pub tls_cert: Line<Secret>,
    pub tls_key: Line<Secret>,
    pub max_txn_ops: Line<String>,
    pub max_request_bytes: Line<String>,
}

/// Flags whose nested spelling is not simply `etcd.` and the rest of their name. Both are files.
pub const NESTED_SPELLINGS: &[(&str, &str)] = &[
    ("etcd-tls-ca", "etcd.tls-ca-file"),
    ("etcd-tls-cert", "etcd.tls-cert-file"),
    ("etcd-tls-key", "etcd.tls-key-file"),
];

/// Several values: a YAML list, or one text with commas.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Texts(Vec<String>);

/// Words that turn a listener off.
const OFF: &str = "off";
const NONE: &str = "none";

impl Texts {
    /// Whether this turns a listener off.
    pub fn is_off(&self) -> bool {
        let mut items = self.items();
        matches!((items.next(), items.next()), (None | Some(OFF | NONE), None))
    }

    /// The values without the blanks around them. Empty ones, as behind a last comma, are left out.
    pub fn items(&self) -> impl Iterator<Item = &str> {
        self.0.iter().flat_map(|text| text.split(',')).map(str::trim).filter(|item| !item.is_empty())
    }
}

impl From<Vec<String>> for Texts {
    fn from(texts: Vec<String>) -> Texts {
        Texts(texts)
    }
}

impl From<String> for Texts {
    fn from(text: String) -> Texts {
        Texts(vec![text])
    }
}

impl<'de> Deserialize<'de> for Texts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Texts, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Texts;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a text or a list of texts")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Texts, E> {
                Ok(Texts(vec![text.to_owned()]))
            }

            /// Some words for turning a listener off are truth values in YAML.
            fn visit_bool<E: de::Error>(self, value: bool) -> Result<Texts, E> {
                if value { Err(E::invalid_type(de::Unexpected::Bool(value), &self)) } else { self.visit_str(OFF) }
            }

            fn visit_seq<A: de::SeqAccess<'de>>(self, mut items: A) -> Result<Texts, A::Error> {
                let mut texts = Vec::new();
                while let Some(text) = items.next_element()? {
                    texts.push(text);
                }
                Ok(Texts(texts))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// What is wrong with a file as a whole. Says which line, never what stands there: it may be a password.
pub struct Unreadable {
    pub line: Option<u64>,
    pub reason: String,
}

/// Reads the file's text. Stops at the first thing that is not as the types above say; what values mean is judged later.
pub fn parse(text: &str) -> Result<File, Unreadable> {
    yaml::parse::<Option<File>>(text).map(Option::unwrap_or_default).map_err(|refusal| match refusal {
        YamlRefusal::Bound(bound) => Unreadable { line: None, reason: bound },
        YamlRefusal::Malformed(error) => Unreadable {
            line: error.location().map(|location| location.line()).filter(|line| *line > 0),
            reason: reason(&error),
        },
    })
}

/// The library's own texts quote what they found, so only those of the scanner are passed on.
fn reason(error: &serde_saphyr::Error) -> String {
    use serde_saphyr::Error as E;
    match error.without_snippet() {
        E::SerdeUnknownField { field, .. } => format!("there is no setting called {field:?}"),
        E::DuplicateMappingKey { key: Some(key), .. } => format!("{key:?} is given twice"),
        E::SerdeInvalidType { expected, .. } => format!("expected {expected}"),
        E::Unexpected { expected: "mapping start", .. } => "expected keys and values".to_owned(),
        E::Unexpected { expected: "string scalar", .. } => "expected one text".to_owned(),
        E::Unexpected { expected, .. } => format!("expected {expected}"),
        E::ExternalMessage { msg, .. } => format!("not YAML: {msg}"),
        E::MultipleDocuments { .. } => "more than one YAML document".to_owned(),
        E::AliasError { error, .. } => reason(error),
        _ => "cannot be read as a configuration".to_owned(),
    }
}

/// `etcd:` with nothing behind it is as good as no `etcd:`.
fn null_is_absent<'de, D: Deserializer<'de>>(deserializer: D) -> Result<EtcdFile, D::Error> {
    Option::<EtcdFile>::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// The help text of a setting that `super::without_effect` reports.
fn later(text: &str, default: &str) -> String {
    help(&format!("{text} ({NO_EFFECT})"), default)
}

/// A help text with the default at its end, the way clap itself writes it; `super::reference` takes it apart again.
pub fn help(text: &str, default: &str) -> String {
    format!("{text} [default: {default}]")
}
