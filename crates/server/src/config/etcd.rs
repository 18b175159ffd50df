//! Which store, and how to get into etcd.

use std::{path::PathBuf, time::Duration};

use super::{
    StoreConfig, defaults, limits,
    raw::{File, Line},
    secret::Secret,
    sources::{Given, Rank, Sources, read_file, setting},
    values::{self, Scheme},
};

/// Takes the place of `--etcd-password`, which everybody on the host can read.
pub const PASSWORD_VARIABLE: &str = "SABAKAN_ETCD_PASSWORD";

/// Where etcd is and how to get in.
#[derive(Clone, PartialEq)]
pub struct EtcdSettings {
    /// `http://host:port`, `https://host:port`, or `host:port`, which means https if `tls` is given.
    pub endpoints: Vec<String>,
    /// Who we are, if etcd asks.
    pub credentials: Option<Credentials>,
    /// Certificates; there if any endpoint needs them.
    pub tls: Option<EtcdTls>,
    /// How long to wait for a connection.
    pub timeout: Duration,
    /// What etcd was told with `--max-txn-ops`.
    pub max_txn_ops: usize,
    /// What etcd was told with `--max-request-bytes`.
    pub max_request_bytes: usize,
}

/// A user of etcd.
#[derive(Clone, PartialEq)]
pub struct Credentials {
    pub username: String,
    pub password: Secret,
}

/// Certificates for connections to etcd.
#[derive(Clone, PartialEq)]
pub struct EtcdTls {
    /// Whom to trust.
    pub ca: Pem,
    /// Our certificate and its key, if etcd asks for one.
    pub identity: Option<(Pem, Pem)>,
}

/// Certificates or a key, read already so that a wrong path is found before anything is started.
#[derive(Clone, PartialEq)]
pub struct Pem {
    pub text: Secret,
    /// Where it was read; absent if it stood in the configuration itself.
    pub file: Option<PathBuf>,
}

#[cfg(feature = "etcd")]
impl EtcdSettings {
    /// As the store wants it.
    pub fn to_etcd(&self, prefix: &str) -> sabakan_store_etcd::EtcdConfig {
        let text = |pem: &Pem| pem.text.expose().to_owned();
        let tls = self.tls.as_ref().map(|tls| sabakan_store_etcd::Tls {
            ca_pem: text(&tls.ca),
            cert_pem: tls.identity.as_ref().map(|(cert, _)| text(cert)),
            key_pem: tls.identity.as_ref().map(|(_, key)| text(key)),
        });
        sabakan_store_etcd::EtcdConfig {
            username: self.credentials.as_ref().map(|user| user.username.clone()),
            password: self.credentials.as_ref().map(|user| user.password.expose().to_owned()),
            tls,
            connect_timeout: self.timeout,
            max_txn_ops: self.max_txn_ops,
            max_request_bytes: self.max_request_bytes,
            ..sabakan_store_etcd::EtcdConfig::new(self.endpoints.clone(), prefix)
        }
    }
}

/// Reads every setting of etcd, also when the store is embedded: a mistake is a mistake.
pub fn store(from: &mut Sources<'_>) -> StoreConfig {
    let endpoints = setting!(from, "etcd-endpoints", etcd_endpoints, "etcd.endpoints", endpoints);
    let needs_endpoints = |what: &str| format!("needs --etcd-endpoints; the embedded store has no {what}");

    let members = endpoints.as_ref().map(|given| from.check_each(given, values::endpoint));
    if let (Some(given), Some(0)) = (&endpoints, endpoints.as_ref().map(|given| given.value.items().count())) {
        from.wrong(&*given.at, "names no member; leave it out for the embedded store");
    }
    let (timeout, max_txn_ops, max_request_bytes) = limits_of_etcd(from);
    let (credentials, credentials_at) = credentials(from);
    let (tls, tls_at) = tls(from);
    let Some(members) = members else {
        for at in credentials_at {
            from.lacking(at, needs_endpoints("users"));
        }
        for at in tls_at {
            from.lacking(at, needs_endpoints("certificates"));
        }
        return StoreConfig::Embedded;
    };
    let at = endpoints.map(|given| given.at).unwrap_or_default();
    let secure = members.iter().any(|(scheme, _)| *scheme == Scheme::Https);
    let plain = !members.is_empty() && members.iter().all(|(scheme, _)| *scheme == Scheme::Http);
    if secure && tls_at.is_empty() {
        from.lacking(at, "https needs --etcd-tls-ca: the system's own authorities are not used");
    } else if plain && let Some(tls_at) = tls_at.into_iter().next() {
        from.wrong(tls_at, format!("would not be used: every member at {at} is plain http"));
    }
    let endpoints = members.into_iter().map(|(_, text)| text).collect();
    let settings = EtcdSettings { endpoints, credentials, tls, timeout, max_txn_ops, max_request_bytes };
    StoreConfig::Etcd(Box::new(settings))
}

/// What all keys start with, in either store.
pub fn prefix(from: &mut Sources<'_>) -> String {
    let given = setting!(from, "etcd-prefix", etcd_prefix, "etcd.prefix", prefix);
    from.check(&given, values::prefix).unwrap_or_else(|| defaults::ETCD_PREFIX.to_owned())
}

fn limits_of_etcd(from: &mut Sources<'_>) -> (Duration, usize, usize) {
    let timeout = setting!(from, "etcd-timeout", etcd_timeout, "etcd.timeout", timeout);
    let ops = setting!(from, "etcd-max-txn-ops", etcd_max_txn_ops, "etcd.max-txn-ops", max_txn_ops);
    let bytes =
        setting!(from, "etcd-max-request-bytes", etcd_max_request_bytes, "etcd.max-request-bytes", max_request_bytes);
    let timeout = from.check(&timeout, values::etcd_timeout);
    let ops = from.check(&ops, values::txn_ops);
    let bytes = from.check(&bytes, values::request_bytes);
    (
        or_default(timeout, values::etcd_timeout, defaults::ETCD_TIMEOUT),
        or_default(ops, values::txn_ops, defaults::ETCD_MAX_TXN_OPS),
        or_default(bytes, values::request_bytes, defaults::ETCD_MAX_REQUEST_BYTES),
    )
}

fn or_default<T>(value: Option<T>, rule: impl Fn(&str) -> Result<T, String>, default: &str) -> T {
    value.or_else(|| rule(default).ok()).expect("the defaults follow the rules; a test reads them all")
}

/// The user, and where its settings stand.
fn credentials(from: &mut Sources<'_>) -> (Option<Credentials>, Vec<String>) {
    let username = setting!(from, "etcd-username", etcd_username, "etcd.username", username);
    let password = password(from);
    let places = username.iter().map(|given| given.at.clone()).chain(password.iter().map(|given| given.at.clone()));
    let places = places.collect();
    match (&username, &password) {
        (Some(username), None) => from.lacking(&*username.at, "needs a password: see --etcd-password-file"),
        (None, Some(password)) => from.lacking(&*password.at, "needs --etcd-username"),
        _ => {}
    }
    let username = from.check(&username, values::name);
    let password = password.and_then(|given| given.value);
    (username.zip(password).map(|(username, password)| Credentials { username, password }), places)
}

/// The password from the strongest place that has one. The value is absent if it cannot be used.
fn password(from: &mut Sources<'_>) -> Option<Given<Option<Secret>>> {
    let direct = setting!(from, "etcd-password", etcd_password, "etcd.password", password);
    let path = setting!(from, "etcd-password-file", etcd_password_file, "etcd.password-file", password_file);
    // An empty variable is how many tools say "not set".
    let variable = (from.env)(PASSWORD_VARIABLE).filter(|text| !text.is_empty());
    let variable = variable.map(|text| Given {
        value: Secret::new(text),
        rank: Rank::Environment,
        at: PASSWORD_VARIABLE.to_owned(),
    });
    let direct = strongest(direct, variable);

    let rank = |given: &Option<Given<Secret>>| given.as_ref().map(|given| given.rank);
    let path_rank = path.as_ref().map(|given| given.rank);
    if let (Some(direct), Some(path)) = (&direct, &path)
        && direct.rank == path.rank
    {
        from.wrong(&*path.at, format!("the password is also given at {}", direct.at));
    }
    let found = if path_rank > rank(&direct) {
        path.map(|given| {
            let text = read_file(&given.value).map(Secret::new).map(|secret| without_newline(&secret));
            Given { value: text, rank: given.rank, at: given.at }
        })
    } else {
        direct.map(|given| given.map(Ok))
    }?;
    let usable = found.value.and_then(|secret| match secret.expose().len() {
        0 => Err("the password is empty".to_owned()),
        length if length > limits::PASSWORD_BYTES_MAX => {
            Err(format!("the password is longer than {} bytes", limits::PASSWORD_BYTES_MAX))
        }
        _ => Ok(secret),
    });
    let value = usable.map_err(|reason| from.wrong(&*found.at, reason)).ok();
    Some(Given { value, rank: found.rank, at: found.at })
}

fn strongest<T>(one: Option<Given<T>>, other: Option<Given<T>>) -> Option<Given<T>> {
    let rank = |given: &Option<Given<T>>| given.as_ref().map(|given| given.rank);
    if rank(&other) > rank(&one) { other } else { one }
}

/// Editors put a newline at the end of a file; a password hardly has one.
fn without_newline(secret: &Secret) -> Secret {
    let text = secret.expose();
    let text = text.strip_suffix('\n').unwrap_or(text);
    Secret::new(text.strip_suffix('\r').unwrap_or(text))
}

/// The certificates, and where they are set.
fn tls(from: &mut Sources<'_>) -> (Option<EtcdTls>, Vec<String>) {
    let ca = setting!(from, "etcd-tls-ca", etcd_tls_ca, "etcd.tls-ca-file", tls_ca_file);
    let ca = pem(from, ca, ("etcd.tls-ca", |file| file.etcd.tls_ca.take()), values::certificates);
    let cert = setting!(from, "etcd-tls-cert", etcd_tls_cert, "etcd.tls-cert-file", tls_cert_file);
    let cert = pem(from, cert, ("etcd.tls-cert", |file| file.etcd.tls_cert.take()), values::certificates);
    let key = setting!(from, "etcd-tls-key", etcd_tls_key, "etcd.tls-key-file", tls_key_file);
    let key = pem(from, key, ("etcd.tls-key", |file| file.etcd.tls_key.take()), values::private_key);
    match (&cert, &key) {
        (Some(cert), None) => from.lacking(&*cert.at, "needs --etcd-tls-key"),
        (None, Some(key)) => from.lacking(&*key.at, "needs --etcd-tls-cert"),
        (Some(cert), Some(_)) if ca.is_none() => from.lacking(&*cert.at, "needs --etcd-tls-ca"),
        _ => {}
    }
    let places = [&ca, &cert, &key].into_iter().flatten().map(|given| given.at.clone()).collect();
    let value = |given: Option<Given<Option<Pem>>>| given.and_then(|given| given.value);
    let identity = value(cert).zip(value(key));
    (value(ca).map(|ca| EtcdTls { ca, identity }), places)
}

/// One certificate or key, from a file or out of the configuration itself. The value is absent if it cannot be used.
fn pem(
    from: &mut Sources<'_>,
    path: Option<Given<String>>,
    (key, inline): (&str, fn(&mut File) -> Line<Secret>),
    rule: fn(&str) -> Result<(), String>,
) -> Option<Given<Option<Pem>>> {
    let inline = inline(&mut from.file);
    let inline = from.written(vec![(key, inline)]);
    if let (Some(Given { rank: Rank::File, at, .. }), Some(inline)) = (&path, &inline) {
        from.wrong(&*inline.at, format!("the same is said at {at}"));
    }
    let (read, rank, at) = match (path, inline) {
        (Some(Given { value: path, rank, at }), _) => {
            let read = read_file(&path).map(Secret::new).and_then(|text| {
                rule(text.expose()).map_err(|reason| format!("{path} {reason}"))?;
                Ok(Pem { text, file: Some(path.into()) })
            });
            (read, rank, at)
        }
        (None, Some(Given { value: text, rank, at })) => {
            let read = rule(text.expose()).map(|()| Pem { text, file: None });
            (read, rank, at)
        }
        (None, None) => return None,
    };
    let value = read.map_err(|reason| from.wrong(&*at, reason)).ok();
    Some(Given { value, rank, at })
}
