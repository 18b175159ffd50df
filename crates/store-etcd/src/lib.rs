//! sabakan's store interface over etcd v3: the backend for several servers that share their data.
//!
//! [`EtcdStore`] translates [`sabakan_store::Store`] to etcd's own terms, which are nearly the same. What it adds is the
//! *head key* (see `store.rs`), failover between members, and certainty about writes: an error other than `OutcomeUnknown`
//! means that nothing was written. It holds no data and caches nothing; the view above it does.
//!
//! Sharing an etcd with other users is fine: their keys are never touched, but [`sabakan_store::Store::compact`] forgets
//! history for everybody in it, as etcd has only one.
#![warn(missing_docs)]

mod cluster;
mod failure;
mod limits;
mod messages;
mod range;
mod store;
mod watch;
mod wide;

use std::{fmt, time::Duration};

pub use store::EtcdStore;

/// Where etcd is and how to get in.
#[derive(Clone)]
pub struct EtcdConfig {
    /// Members as `http://host:port`, `https://host:port` or `host:port`, which means `https` if `tls` is given.
    pub endpoints: Vec<String>,
    /// What all keys of this installation start with. Keys given to the store are whole keys; this only places the head key.
    pub prefix: String,
    /// Who we are, if etcd asks.
    pub username: Option<String>,
    /// The password that belongs to the name.
    pub password: Option<String>,
    /// Certificates, for members behind `https`.
    pub tls: Option<Tls>,
    /// How long one dial may take, and how long [`EtcdStore::connect`] looks for a member that answers.
    pub connect_timeout: Duration,
    /// How long one member may take to answer one request.
    pub request_timeout: Duration,
    /// What etcd was told with `--max-txn-ops`.
    pub max_txn_ops: usize,
    /// What etcd was told with `--max-request-bytes`.
    pub max_request_bytes: usize,
}

/// Certificates for connections to etcd, in PEM.
#[derive(Clone)]
pub struct Tls {
    /// Whom to trust.
    pub ca_pem: String,
    /// Our certificate, if etcd asks for one.
    pub cert_pem: Option<String>,
    /// The key that belongs to it.
    pub key_pem: Option<String>,
}

impl EtcdConfig {
    /// etcd with its default limits, no TLS and no user.
    pub fn new(endpoints: Vec<String>, prefix: impl Into<String>) -> EtcdConfig {
        EtcdConfig {
            endpoints,
            prefix: prefix.into(),
            username: None,
            password: None,
            tls: None,
            connect_timeout: limits::CONNECT_TIMEOUT,
            request_timeout: limits::REQUEST_TIMEOUT,
            max_txn_ops: limits::TXN_OPS_MAX,
            max_request_bytes: limits::REQUEST_BYTES_MAX,
        }
    }
}

impl fmt::Debug for EtcdConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without `..`, so that a new field is shown or hidden on purpose.
        let EtcdConfig {
            endpoints,
            prefix,
            username,
            password,
            tls,
            connect_timeout,
            request_timeout,
            max_txn_ops,
            max_request_bytes,
        } = self;
        f.debug_struct("EtcdConfig")
            // An endpoint may hold a password by mistake.
            .field("endpoints", &endpoints.len())
            .field("prefix", prefix)
            .field("username", username)
            .field("password", &password.as_ref().map(|_| "hidden"))
            .field("tls", tls)
            .field("connect_timeout", connect_timeout)
            .field("request_timeout", request_timeout)
            .field("max_txn_ops", max_txn_ops)
            .field("max_request_bytes", max_request_bytes)
            .finish()
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("client_certificate", &self.cert_pem.is_some()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_holds_no_secret() {
        let mut config = EtcdConfig::new(vec!["http://root:hunter2@h:1".into()], "/sabakan/");
        config.username = Some("root".into());
        config.password = Some("hunter2".into());
        let key = Some("-----BEGIN PRIVATE KEY-----".to_owned());
        config.tls = Some(Tls { ca_pem: "ca".into(), cert_pem: Some("cert".into()), key_pem: key });
        let text = format!("{config:?}");
        assert!(text.contains("root") && !text.contains("hunter2") && !text.contains("PRIVATE"), "{text}");
    }

    #[tokio::test]
    async fn settings_that_cannot_work_are_refused_by_place_not_by_content() {
        let check = async |change: fn(&mut EtcdConfig), expected: &str| {
            let mut config = EtcdConfig::new(vec!["127.0.0.1:1".into()], "/sabakan/");
            change(&mut config);
            let text = EtcdStore::connect(config).await.err().expect(expected).to_string();
            assert!(text.contains(expected) && !text.contains("hunter2"), "{text}");
        };
        check(|c| c.endpoints.clear(), "no endpoint").await;
        check(|c| c.endpoints.push("http://root:hunter2@h:1".into()), "endpoint 2 holds a user name").await;
        check(|c| c.endpoints.push("https://h:1".into()), "endpoint 2 wants TLS").await;
        check(|c| c.endpoints.push("ftp://h:1".into()), "endpoint 2 is neither").await;
        check(|c| c.endpoints.push("h :1".into()), "endpoint 2 is not an address").await;
        check(|c| c.password = Some("hunter2".into()), "go together").await;
    }

    #[tokio::test]
    async fn an_etcd_that_is_not_there_is_reported_after_the_timeout() {
        let mut config = EtcdConfig::new(vec!["127.0.0.1:1".into(), "http://127.0.0.1:1".into()], "/sabakan/");
        config.connect_timeout = Duration::from_millis(200);
        let error = EtcdStore::connect(config).await.err().expect("nobody listens there");
        let expected = "the store is not available: no etcd member answered within 0.2 s: the connection was refused";
        assert_eq!(error.to_string(), expected);
    }
}
