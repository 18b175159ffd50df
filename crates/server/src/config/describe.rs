//! Shows a configuration as it was understood, defaults and all, for `sabakan config check`.

use std::{collections::BTreeMap, fmt, path::Path};

use sabakan_domain::{
    access::CryptsAccess,
    ipam::OutsidePool,
    provision::{accept::Options, guards::Strictness, schedule::Class},
};
use sabakan_service::{hardware::BmcTypeRule, tasks::conductor::ConductorOptions};
use sabakan_wire::rest::UnknownParameters;
use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    cluster::{ClusterConfig, KubernetesAccess, KubernetesSettings, RegistrySettings},
    logging::LogConfig,
    provisioning::ProvisioningConfig,
    repair::RepairConfig,
};

use super::{EtcdSettings, ListenAddress, MetricsConfig, Pem, ServerConfig, StoreConfig, cluster::IN_CLUSTER};

/// Stands where a secret would.
const SET: &str = "(set)";

/// The configuration as YAML, in the words of the configuration file. Passwords and keys are not in it.
pub fn describe(config: &ServerConfig) -> String {
    // Every field is named, so that a new one is shown or hidden on purpose.
    let ServerConfig {
        data_dir,
        http,
        https,
        allow_ips,
        tls,
        advertise_url,
        advertise_url_https,
        store,
        etcd_prefix,
        states_prefix,
        key_file,
        audit_retention_days,
        require_token,
        crypts_access,
        outside_pool,
        unknown_parameters,
        provisioning,
        cluster,
        repair,
        graphql,
        metrics,
        log,
        request_id_header: _,
        feeds: _,
        connections,
        bodies: _,
        without_effect: _,
    } = config;
    let mut lines = Lines::default();
    lines.put("data-dir", path(data_dir));
    lines.put("http", listeners(http));
    lines.put("https", listeners(https));
    lines.put("allow-ips", allow_ips.to_string().split(',').map(str::to_owned).collect::<Vec<_>>());
    lines.put_some("connections-per-address", connections.per_address);
    lines.put_some("advertise-url", advertise_url.as_deref());
    lines.put_some("advertise-url-https", advertise_url_https.as_deref());
    lines.put_some("server-cert", tls.as_ref().map(|tls| path(&tls.cert)));
    lines.put_some("server-key", tls.as_ref().map(|tls| path(&tls.key)));
    lines.put("etcd-prefix", etcd_prefix.as_str());
    if let StoreConfig::Etcd(settings) = store {
        etcd(&mut lines, settings);
    }
    lines.put("states-prefix", states_prefix.as_str());
    lines.put("key-file", path(key_file));
    lines.put("audit-retention-days", *audit_retention_days);
    lines.put("require-token", *require_token);
    lines.put("crypts-access", crypts_access.as_str());
    lines.put("allow-outside-pool", *outside_pool == OutsidePool::Allow);
    lines.put("lenient-queries", *unknown_parameters == UnknownParameters::Ignore);
    lines.put("enable-playground", graphql.playground);
    lines.put("graphql-open-mutations", graphql.open_mutations);
    self::metrics(&mut lines, metrics);
    self::provisioning(&mut lines, provisioning);
    self::cluster(&mut lines, cluster);
    self::repair(&mut lines, repair);
    self::log(&mut lines, log);
    let mut text = serde_saphyr::to_string(&lines).expect("texts serialise");
    text.push_str(&remarks(config));
    text
}

/// What the keys do not say, as comments.
fn remarks(config: &ServerConfig) -> String {
    let ServerConfig { store, request_id_header, crypts_access, without_effect, .. } = config;
    let mut text = String::new();
    if *store == StoreConfig::Embedded {
        text.push_str("# The store is the embedded one, in data-dir.\n");
    }
    if request_id_header != sabakan_wire::rest::REQUEST_ID_HEADER {
        text.push_str(&format!("# Request ids come in the header {request_id_header}.\n"));
    }
    if *crypts_access == CryptsAccess::Open {
        text.push_str("# crypts-access gives the disk keys of every machine to everybody who reaches the server.\n");
    }
    for setting in without_effect {
        text.push_str(&format!("# {setting} has no effect in this version.\n"));
    }
    text
}

impl fmt::Debug for ServerConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&describe(self))
    }
}

/// Keys and values.
#[derive(Default, Serialize)]
#[serde(transparent)]
struct Lines(BTreeMap<&'static str, Value>);

impl Lines {
    fn put(&mut self, key: &'static str, value: impl Into<Value>) {
        self.0.insert(key, value.into());
    }

    fn put_some(&mut self, key: &'static str, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.put(key, value);
        }
    }
}

fn metrics(lines: &mut Lines, metrics: &MetricsConfig) {
    let MetricsConfig { listen, options } = metrics;
    lines.put("metrics", listeners(listen));
    lines.put("metrics-machines", options.machines);
    lines.put("metrics-raw-paths", options.raw_paths);
}

fn repair(lines: &mut Lines, config: &RepairConfig) {
    let RepairConfig { repairer, period } = config;
    lines.put("repairer", *repairer);
    lines.put("repair-period", format!("{period:?}"));
}

fn log(lines: &mut Lines, log: &LogConfig) {
    let LogConfig { format, level, file } = log;
    lines.put("log-format", format.to_string());
    lines.put("log-level", level.to_string());
    lines.put_some("log-file", file.as_deref().map(path));
}

fn etcd(lines: &mut Lines, settings: &EtcdSettings) {
    let EtcdSettings { endpoints, credentials, tls, timeout, max_txn_ops, max_request_bytes } = settings;
    lines.put("etcd-endpoints", endpoints.clone());
    lines.put_some("etcd-username", credentials.as_ref().map(|user| user.username.as_str()));
    lines.put_some("etcd-password", credentials.as_ref().map(|_| SET));
    lines.put_some("etcd-tls-ca", tls.as_ref().map(|tls| pem(&tls.ca)));
    let identity = tls.as_ref().and_then(|tls| tls.identity.as_ref());
    lines.put_some("etcd-tls-cert", identity.map(|(cert, _)| pem(cert)));
    lines.put_some("etcd-tls-key", identity.map(|(_, key)| pem(key)));
    lines.put("etcd-timeout", format!("{}ms", timeout.as_millis()));
    lines.put("etcd-max-txn-ops", *max_txn_ops);
    lines.put("etcd-max-request-bytes", *max_request_bytes);
}

fn provisioning(lines: &mut Lines, config: &ProvisioningConfig) {
    let ProvisioningConfig { ironic, ironic_tls, bmc_types, rules, conductor, ipmitool, fleet } = config;
    lines.put("ironic", listeners(ironic));
    lines.put("ironic-tls", ironic_tls.as_str());
    lines.put("simulated-hardware", fleet.is_some());
    lines.put("ipmitool", path(ipmitool));
    let Options {
        strictness: Strictness { require_healthy },
        no_automated_clean,
        power_off_after_verify,
        no_provide_in_maintenance,
        clean_priorities,
        cleaning,
    } = rules;
    lines.put("require-healthy", *require_healthy);
    lines.put("automated-clean", !no_automated_clean);
    lines.put("cleaning", cleaning.as_str());
    lines.put("power-off-after-verify", *power_off_after_verify);
    lines.put("provide-in-maintenance", !no_provide_in_maintenance);
    lines.put_some("clean-priorities", (!clean_priorities.is_empty()).then(|| json!(clean_priorities)));
    lines.put_some("bmc-types", (!bmc_types.is_empty()).then(|| bmc_types.iter().map(bmc_type).collect::<Value>()));
    lines.put("conductor", conductor.is_some());
    let Some(ConductorOptions { name, capacity, lease, power_sync, .. }) = conductor else { return };
    lines.put_some("conductor-name", Some(name.as_str()).filter(|name| !name.is_empty()));
    lines.put("work-lease", format!("{lease:?}"));
    lines.put("power-sync-interval", format!("{power_sync:?}"));
    let bounds = [
        ("verify-concurrency", Class::Verify),
        ("inspect-concurrency", Class::Inspect),
        ("clean-concurrency", Class::Clean),
        ("deploy-concurrency", Class::Deploy),
    ];
    for (key, class) in bounds {
        lines.put_some(key, capacity.per_class.get(&class).copied());
    }
    lines.put("group-concurrency", capacity.per_group);
}

fn cluster(lines: &mut Lines, config: &ClusterConfig) {
    let ClusterConfig { planner, period, settle, registry, mirror_prefix, kubernetes } = config;
    lines.put("cluster-planner", *planner);
    lines.put("cluster-period", format!("{period:?}"));
    lines.put("cluster-settle", format!("{settle:?}"));
    lines.put_some("cluster-mirror-prefix", mirror_prefix.as_deref());
    if let Some(KubernetesSettings { access, apply }) = kubernetes {
        lines.put("cluster-apply", *apply);
        match access {
            KubernetesAccess::Kubeconfig(file) => lines.put("cluster-kubeconfig", path(file)),
            KubernetesAccess::InCluster => lines.put("cluster-kubeconfig", IN_CLUSTER),
        }
    }
    let Some(RegistrySettings { url, timeout }) = registry else { return };
    lines.put("cluster-registry-url", url.as_str());
    lines.put("cluster-registry-timeout", format!("{timeout:?}"));
}

fn bmc_type(rule: &BmcTypeRule) -> Value {
    let BmcTypeRule { bmc_type, driver, settings, secrets } = rule;
    let secrets: BTreeMap<&String, &str> = secrets.keys().map(|key| (key, SET)).collect();
    json!({ "type": bmc_type, "driver": driver, "settings": settings, "secret-files": secrets })
}

fn pem(pem: &Pem) -> String {
    pem.file.as_deref().map_or_else(|| SET.to_owned(), path)
}

fn path(path: &Path) -> String {
    path.display().to_string()
}

fn listeners(addresses: &[ListenAddress]) -> Value {
    if addresses.is_empty() {
        return "none".into();
    }
    addresses.iter().map(ToString::to_string).collect::<Vec<_>>().into()
}
