//! Reads `driver_info`: where the controller is, who we are to it, and which certificates we believe.

use reqwest::Url;

use super::tls::{MinimumVersion, Trust};
use crate::{DriverError, Secret, Settings};

/// Keys of `driver_info` whose values are secret.
pub const SECRETS: &[&str] = &["redfish_password"];

/// How to log in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AuthType {
    /// Name and password with every request.
    Basic,
    /// A session only.
    Session,
    /// A session, or name and password where the controller has none.
    Auto,
}

/// Who we are to the controller.
#[derive(Debug, Clone)]
pub struct Account {
    pub user: String,
    pub password: Secret,
}

/// Everything known about one controller before it is contacted.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// The service root, with a slash at its end.
    pub root: Url,
    /// Path of the system; absent: the only one there is.
    pub system: Option<String>,
    pub account: Option<Account>,
    pub auth: AuthType,
    pub trust: Trust,
    pub minimum_version: MinimumVersion,
}

impl Endpoint {
    /// Checks and reads the settings. Reads the files of `redfish_verify_ca`; contacts nobody.
    pub fn read(settings: &Settings) -> Result<Endpoint, DriverError> {
        let address = settings.text("redfish_address")?;
        let address = address.ok_or_else(|| DriverError::settings("redfish_address", "is missing"))?;
        let root = root(&address)?;
        let system = settings.text("redfish_system_id")?.map(|id| system_path(&root, &id)).transpose()?;
        if settings.values.contains_key("redfish_tls_ciphers") {
            let reason = "cannot be chosen; remove it, the safe ones are used";
            return Err(DriverError::settings("redfish_tls_ciphers", reason));
        }
        Ok(Endpoint {
            system,
            account: account(settings)?,
            auth: auth(settings)?,
            trust: Trust::read(settings.values.get("redfish_verify_ca"))?,
            minimum_version: MinimumVersion::read(settings.text("redfish_tls_minimum_version")?.as_deref())?,
            root,
        })
    }

    /// Which controller this is, for what is shared by everybody who talks to it.
    pub fn origin(&self) -> String {
        self.root.origin().ascii_serialization()
    }
}

fn root(address: &str) -> Result<Url, DriverError> {
    let invalid = |reason: &str| DriverError::settings("redfish_address", reason);
    let address = address.trim();
    let written = if address.contains("://") { address.to_owned() } else { format!("https://{address}") };
    let mut url = Url::parse(&written).map_err(|_| invalid("is neither a URL nor a host name or address"))?;
    if !matches!(url.scheme(), "https" | "http") {
        return Err(invalid("must begin with https:// or http://"));
    }
    if url.host_str().is_none_or(str::is_empty) {
        return Err(invalid("names no host"));
    }
    // It would end up in lists and logs. Its own text is not repeated here, for the same reason.
    if !url.username().is_empty() || url.password().is_some() {
        return Err(invalid("must not hold a user name or password; use redfish_username and redfish_password"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(invalid("must not hold a query or a fragment"));
    }
    // A path is the service root itself, or what stands before it.
    let path = url.path().trim_end_matches('/');
    let path = path.strip_suffix("/redfish/v1").unwrap_or(path);
    let path = format!("{path}/redfish/v1/");
    url.set_path(&path);
    Ok(url)
}

fn system_path(root: &Url, id: &str) -> Result<String, DriverError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._~/:@".contains(c);
    if id.is_empty() || !id.chars().all(plain) || id.split('/').any(|part| part == ".." || part == ".") {
        let reason = "must be the path of a system, such as /redfish/v1/Systems/1";
        return Err(DriverError::settings("redfish_system_id", reason));
    }
    Ok(if id.starts_with('/') { id.to_owned() } else { format!("{}Systems/{id}", root.path()) })
}

fn account(settings: &Settings) -> Result<Option<Account>, DriverError> {
    let password = settings.secrets.get("redfish_password").cloned();
    match (settings.text("redfish_username")?, password) {
        (Some(user), Some(password)) if !user.contains(':') => Ok(Some(Account { user, password })),
        // The colon ends the name in HTTP's basic scheme.
        (Some(_), Some(_)) => Err(DriverError::settings("redfish_username", "must not contain a colon")),
        (None, None) => Ok(None),
        (Some(_), None) => Err(DriverError::settings("redfish_password", "is missing, but redfish_username is given")),
        (None, Some(_)) => Err(DriverError::settings("redfish_username", "is missing, but redfish_password is given")),
    }
}

fn auth(settings: &Settings) -> Result<AuthType, DriverError> {
    match settings.text("redfish_auth_type")?.as_deref() {
        None | Some("auto") => Ok(AuthType::Auto),
        Some("basic") => Ok(AuthType::Basic),
        Some("session") => Ok(AuthType::Session),
        Some(_) => Err(DriverError::settings("redfish_auth_type", "must be one of: auto, basic, session")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(values: &[(&str, &str)]) -> Settings {
        let values = values.iter().map(|(key, value)| ((*key).to_owned(), serde_json::json!(value))).collect();
        Settings { values, ..Settings::default() }
    }

    #[test]
    fn addresses_in_all_their_spellings() {
        for (written, expected) in [
            ("10.0.0.1", "https://10.0.0.1/redfish/v1/"),
            ("bmc.example:8443", "https://bmc.example:8443/redfish/v1/"),
            ("[fd00::1]", "https://[fd00::1]/redfish/v1/"),
            ("https://bmc", "https://bmc/redfish/v1/"),
            ("https://bmc/redfish/v1", "https://bmc/redfish/v1/"),
            ("https://proxy/rack7/", "https://proxy/rack7/redfish/v1/"),
            ("http://10.0.0.1", "http://10.0.0.1/redfish/v1/"),
        ] {
            assert_eq!(root(written).unwrap().as_str(), expected, "{written}");
        }
    }

    #[test]
    fn unusable_settings_name_their_key_and_repeat_no_secret() {
        for (values, key) in [
            (&[][..], "redfish_address"),
            (&[("redfish_address", "https://root:hunter2@bmc")], "redfish_address"),
            (&[("redfish_address", "ftp://bmc")], "redfish_address"),
            (&[("redfish_address", "https://bmc/?hunter2")], "redfish_address"),
            (&[("redfish_address", "a b")], "redfish_address"),
            (&[("redfish_address", "bmc"), ("redfish_username", "root")], "redfish_password"),
            (&[("redfish_address", "bmc"), ("redfish_auth_type", "digest")], "redfish_auth_type"),
            (&[("redfish_address", "bmc"), ("redfish_system_id", "../x")], "redfish_system_id"),
            (&[("redfish_address", "bmc"), ("redfish_verify_ca", "/no/such/file")], "redfish_verify_ca"),
            (&[("redfish_address", "bmc"), ("redfish_tls_minimum_version", "1.0")], "redfish_tls_minimum_version"),
            (&[("redfish_address", "bmc"), ("redfish_tls_ciphers", "RC4")], "redfish_tls_ciphers"),
        ] {
            let error = Endpoint::read(&settings(values)).unwrap_err();
            assert!(matches!(&error, DriverError::Settings { field, .. } if field == key), "{values:?}: {error}");
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn system_is_a_path_or_a_bare_name() {
        let root = root("bmc").unwrap();
        assert_eq!(system_path(&root, "/redfish/v1/Systems/1").unwrap(), "/redfish/v1/Systems/1");
        assert_eq!(system_path(&root, "System.Embedded.1").unwrap(), "/redfish/v1/Systems/System.Embedded.1");
    }
}
