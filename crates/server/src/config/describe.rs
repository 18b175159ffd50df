//! Shows a configuration as it was understood, defaults and all, for `sabakan config check`.

use std::{collections::BTreeMap, fmt, path::Path};

use sabakan_domain::ipam::OutsidePool;
use serde::Serialize;
use serde_json::Value;

use super::{EtcdSettings, ListenAddress, Pem, ServerConfig, StoreConfig};

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
        outside_pool,
        graphql,
        metrics,
        log,
        request_id_header,
        feeds: _,
        without_effect,
    } = config;
    let mut lines = Lines::default();
    lines.put("data-dir", path(data_dir));
    lines.put("http", listeners(http));
    lines.put("https", listeners(https));
    lines.put("allow-ips", allow_ips.to_string().split(',').map(str::to_owned).collect::<Vec<_>>());
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
    lines.put("allow-outside-pool", *outside_pool == OutsidePool::Allow);
    lines.put("enable-playground", graphql.playground);
    lines.put("graphql-open-mutations", graphql.open_mutations);
    lines.put("metrics", listeners(&metrics.listen));
    lines.put("metrics-machines", metrics.options.machines);
    lines.put("metrics-raw-paths", metrics.options.raw_paths);
    lines.put("log-format", log.format.to_string());
    lines.put("log-level", log.level.to_string());
    lines.put_some("log-file", log.file.as_deref().map(path));
    let mut text = serde_saphyr::to_string(&lines).expect("texts serialise");
    if *store == StoreConfig::Embedded {
        text.push_str("# The store is the embedded one, in data-dir.\n");
    }
    if request_id_header != sabakan_wire::rest::REQUEST_ID_HEADER {
        text.push_str(&format!("# Request ids come in the header {request_id_header}.\n"));
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
