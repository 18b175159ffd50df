//! The members of `driver_info` that concern IPMI, checked. A value of [`Target`] can be handed to ipmitool as it is.

use std::{ffi::OsString, net::IpAddr, os::unix::ffi::OsStringExt};

use serde_json::Value;
use zeroize::Zeroizing;

use super::limits;
use crate::{DriverError, Secret, Settings};

/// Keys of `driver_info` nobody may read.
pub const SECRETS: &[&str] = &["ipmi_password", "ipmi_hex_kg_key"];

/// Cipher suites in the order they are tried: 17 signs with SHA-256, 3 with SHA-1, and every controller of version 2.0 has 3.
/// ipmitool could ask the controller itself, but takes ten seconds to find out that one does not answer that question.
const CIPHER_SUITES: &[u8] = &[17, 3];

const PRIVILEGES: &[&str] = &["CALLBACK", "USER", "OPERATOR", "ADMINISTRATOR"];

/// How to reach one controller.
#[derive(Debug, Clone)]
pub struct Target {
    /// Name or address.
    pub address: String,
    /// UDP port.
    pub port: u16,
    /// None: the anonymous user.
    pub username: Option<String>,
    /// None: the empty one.
    pub password: Option<Secret>,
    /// What the session asks for.
    pub privilege: &'static str,
    /// Never empty; the first that works is used.
    pub cipher_suites: Vec<u8>,
    /// None: the controller has none.
    pub kg_key: Option<KgKey>,
    /// Arguments that lead through another controller; empty: none do.
    pub bridge: Vec<String>,
    /// Whether boot flags shall be kept longer than the 60 s after which a controller may forget them.
    pub disable_boot_timeout: bool,
}

/// The second shared secret of a session, as bytes that ipmitool takes from its environment.
#[derive(Clone)]
pub struct KgKey(Zeroizing<Vec<u8>>);

impl KgKey {
    /// The value of the variable, for the one place that starts the program.
    pub fn expose(&self) -> OsString {
        OsString::from_vec(self.0.to_vec())
    }
}

impl std::fmt::Debug for KgKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("(secret)")
    }
}

impl Target {
    /// Checks the settings.
    pub fn new(settings: &Settings) -> Result<Target, DriverError> {
        protocol_version(settings)?;
        // For the console, which this driver does not have, and for whoever starts the machine again and again, which it does not
        // either. Wrong is wrong all the same.
        number::<u16>(settings, "ipmi_terminal_port", 1, 65_535)?;
        flag(settings, "ipmi_force_boot_device")?;
        Ok(Target {
            address: address(settings)?,
            port: number(settings, "ipmi_port", 1, 65_535)?.unwrap_or(623),
            username: username(settings)?,
            password: password(settings)?,
            privilege: privilege(settings)?,
            cipher_suites: cipher_suites(settings)?,
            kg_key: kg_key(settings)?,
            bridge: bridge(settings)?,
            disable_boot_timeout: flag(settings, "ipmi_disable_boot_timeout")?.unwrap_or(true),
        })
    }
}

fn address(settings: &Settings) -> Result<String, DriverError> {
    const KEY: &str = "ipmi_address";
    let text = settings.text(KEY)?.ok_or_else(|| DriverError::settings(KEY, "is required"))?;
    let text = text.trim();
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    if bare.parse::<IpAddr>().is_ok() {
        return Ok(bare.to_owned());
    }
    let in_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    let is_name = (1..=limits::HOST_BYTES_MAX).contains(&bare.len()) && bare.chars().all(in_name);
    // A dash in front would be an option to a program less careful than ours.
    if bare != text || !is_name || bare.starts_with(['-', '.']) {
        return Err(DriverError::settings(KEY, "must be an IP address or a host name"));
    }
    Ok(bare.to_owned())
}

fn protocol_version(settings: &Settings) -> Result<(), DriverError> {
    const KEY: &str = "ipmi_protocol_version";
    match settings.text(KEY)?.as_deref() {
        None | Some("2.0") => Ok(()),
        Some("1.5") => Err(DriverError::settings(KEY, "1.5 sends everything unencrypted and is not offered; use 2.0")),
        Some(_) => Err(DriverError::settings(KEY, "must be 2.0")),
    }
}

fn username(settings: &Settings) -> Result<Option<String>, DriverError> {
    const KEY: &str = "ipmi_username";
    let Some(name) = settings.text(KEY)?.filter(|name| !name.is_empty()) else { return Ok(None) };
    if name.len() > limits::USER_BYTES_MAX {
        return Err(DriverError::settings(KEY, format!("is longer than {} bytes", limits::USER_BYTES_MAX)));
    }
    if name.chars().any(char::is_control) {
        return Err(DriverError::settings(KEY, "must have no control characters"));
    }
    Ok(Some(name))
}

fn password(settings: &Settings) -> Result<Option<Secret>, DriverError> {
    const KEY: &str = "ipmi_password";
    let Some(password) = secret(settings, KEY)? else { return Ok(None) };
    if password.expose().len() > limits::KEY_BYTES_MAX {
        return Err(DriverError::settings(KEY, format!("is longer than {} bytes", limits::KEY_BYTES_MAX)));
    }
    if password.expose().chars().any(char::is_control) {
        return Err(DriverError::settings(KEY, "must have no control characters"));
    }
    Ok(Some(password.clone()))
}

fn privilege(settings: &Settings) -> Result<&'static str, DriverError> {
    const KEY: &str = "ipmi_priv_level";
    let Some(text) = settings.text(KEY)? else { return Ok("ADMINISTRATOR") };
    let found = PRIVILEGES.iter().find(|level| level.eq_ignore_ascii_case(&text));
    found.copied().ok_or_else(|| DriverError::settings(KEY, format!("must be one of: {}", PRIVILEGES.join(", "))))
}

fn cipher_suites(settings: &Settings) -> Result<Vec<u8>, DriverError> {
    const KEY: &str = "ipmi_cipher_suite";
    match number::<u8>(settings, KEY, 0, 17)? {
        None => Ok(CIPHER_SUITES.to_vec()),
        Some(0) => Err(DriverError::settings(KEY, "suite 0 lets everybody in without a password; use 3 or 17")),
        Some(suite) => Ok(vec![suite]),
    }
}

/// ipmitool takes the key in hexadecimal only on its command line, where every user of the machine could read it. It also takes it
/// from a variable as plain bytes; the environment of a process can be read by its own user and by root only, as its memory can.
/// A variable has no zero bytes. Short keys are padded with them, so zeros at the end may be left out, but not those before.
fn kg_key(settings: &Settings) -> Result<Option<KgKey>, DriverError> {
    const KEY: &str = "ipmi_hex_kg_key";
    let Some(text) = secret(settings, KEY)? else { return Ok(None) };
    let mut bytes = Zeroizing::new(Vec::with_capacity(limits::KEY_BYTES_MAX));
    let digits = text.expose().as_bytes();
    if digits.len() != 2 * limits::KEY_BYTES_MAX {
        let reason = format!("must be {} hexadecimal digits", 2 * limits::KEY_BYTES_MAX);
        return Err(DriverError::settings(KEY, reason));
    }
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    for pair in digits.chunks_exact(2) {
        let (Some(high), Some(low)) = (digit(pair[0]), digit(pair[1])) else {
            return Err(DriverError::settings(KEY, "must be hexadecimal digits"));
        };
        bytes.push(high << 4 | low);
    }
    while bytes.last() == Some(&0) {
        bytes.pop();
    }
    if bytes.contains(&0) {
        return Err(DriverError::settings(
            KEY,
            "must have no zero byte (00) before its end: ipmitool takes none without showing the key",
        ));
    }
    Ok((!bytes.is_empty()).then_some(KgKey(bytes)))
}

/// The way through other controllers, in ipmitool's options.
fn bridge(settings: &Settings) -> Result<Vec<String>, DriverError> {
    const KEY: &str = "ipmi_bridging";
    let kind = settings.text(KEY)?.unwrap_or_else(|| "no".to_owned());
    let single = [("-b", "ipmi_target_channel"), ("-t", "ipmi_target_address")];
    let dual = [("-B", "ipmi_transit_channel"), ("-T", "ipmi_transit_address")];
    let needed: Vec<(&str, &str)> = match kind.as_str() {
        "no" => Vec::new(),
        "single" => single.to_vec(),
        "dual" => single.into_iter().chain(dual).collect(),
        _ => return Err(DriverError::settings(KEY, "must be one of: no, single, dual")),
    };
    let mut arguments = Vec::new();
    if let Some(local) = byte(settings, "ipmi_local_address")?.filter(|_| !needed.is_empty()) {
        arguments.extend(["-m".to_owned(), format!("{local:#04x}")]);
    }
    for (option, key) in needed {
        let value = byte(settings, key)?;
        let value = value.ok_or_else(|| DriverError::settings(key, format!("is required for {kind} bridging")))?;
        arguments.extend([option.to_owned(), format!("{value:#04x}")]);
    }
    Ok(arguments)
}

/// A secret that somebody put among the open settings is refused: it has been shown already.
fn secret<'a>(settings: &'a Settings, key: &str) -> Result<Option<&'a Secret>, DriverError> {
    if settings.values.contains_key(key) {
        return Err(DriverError::settings(key, "is secret and was given as an open setting"));
    }
    Ok(settings.secrets.get(key).filter(|secret| !secret.expose().is_empty()))
}

fn number<T: TryFrom<u32>>(settings: &Settings, key: &str, least: u32, most: u32) -> Result<Option<T>, DriverError> {
    let Some(text) = settings.text(key)? else { return Ok(None) };
    let number = text.trim().parse::<u32>().ok().filter(|number| (least..=most).contains(number));
    let number = number.and_then(|number| T::try_from(number).ok());
    number.map(Some).ok_or_else(|| DriverError::settings(key, format!("must be a number from {least} to {most}")))
}

fn byte(settings: &Settings, key: &str) -> Result<Option<u8>, DriverError> {
    let Some(text) = settings.text(key)? else { return Ok(None) };
    let number = match text.strip_prefix("0x") {
        Some(digits) => u8::from_str_radix(digits, 16),
        None => text.parse(),
    };
    number.map(Some).map_err(|_| DriverError::settings(key, "must be a number from 0 to 255, or 0x00 to 0xff"))
}

fn flag(settings: &Settings, key: &str) -> Result<Option<bool>, DriverError> {
    match settings.values.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Bool(flag)) => Ok(Some(*flag)),
        Some(Value::String(text)) if text.eq_ignore_ascii_case("true") => Ok(Some(true)),
        Some(Value::String(text)) if text.eq_ignore_ascii_case("false") => Ok(Some(false)),
        Some(_) => Err(DriverError::settings(key, "must be true or false")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn settings(values: Value, secrets: &[(&str, &str)]) -> Settings {
        let Value::Object(values) = values else { panic!("settings are an object") };
        Settings {
            values: values.into_iter().collect(),
            secrets: secrets.iter().map(|(key, text)| ((*key).to_owned(), Secret::new(*text))).collect(),
            machine: "test".to_owned(),
        }
    }

    fn refused(values: Value, secrets: &[(&str, &str)]) -> (String, String) {
        match Target::new(&settings(values, secrets)) {
            Err(DriverError::Settings { field, reason }) => (field, reason),
            other => panic!("not refused: {other:?}"),
        }
    }

    #[test]
    fn defaults_are_those_of_the_specification() {
        let target = Target::new(&settings(json!({"ipmi_address": "10.0.0.1"}), &[])).unwrap();
        assert_eq!((target.address.as_str(), target.port, target.privilege), ("10.0.0.1", 623, "ADMINISTRATOR"));
        assert_eq!(target.cipher_suites, [17, 3]);
        assert!(target.username.is_none() && target.password.is_none() && target.kg_key.is_none());
        assert!(target.bridge.is_empty() && target.disable_boot_timeout);
    }

    #[test]
    fn every_setting_is_taken() {
        let values = json!({
            "ipmi_address": "[fd00::1]", "ipmi_port": "6230", "ipmi_username": "admin", "ipmi_priv_level": "operator",
            "ipmi_protocol_version": "2.0", "ipmi_cipher_suite": 3, "ipmi_bridging": "dual", "ipmi_target_channel": "7",
            "ipmi_target_address": "0x72", "ipmi_transit_channel": 0, "ipmi_transit_address": "0x82",
            "ipmi_local_address": "0x20", "ipmi_force_boot_device": "True", "ipmi_disable_boot_timeout": false,
            "ipmi_terminal_port": 8023,
        });
        let key = "6162636400000000000000000000000000000000";
        let target = Target::new(&settings(values, &[("ipmi_password", "p"), ("ipmi_hex_kg_key", key)])).unwrap();
        assert_eq!((target.address.as_str(), target.port, target.privilege), ("fd00::1", 6230, "OPERATOR"));
        assert_eq!(target.username.as_deref(), Some("admin"));
        assert_eq!(target.password.as_ref().unwrap().expose(), "p");
        assert_eq!(target.kg_key.as_ref().unwrap().expose(), "abcd");
        assert_eq!(target.cipher_suites, [3]);
        let bridge = "-m 0x20 -b 0x07 -t 0x72 -B 0x00 -T 0x82";
        assert_eq!(target.bridge.join(" "), bridge);
        assert!(!target.disable_boot_timeout);
        let shown = format!("{target:?}");
        assert!(!shown.contains("abcd") && !shown.contains("\"p\""), "{shown}");
    }

    #[test]
    fn wrong_settings_are_refused_by_name() {
        let rows = [
            (json!({}), "ipmi_address", "is required"),
            (json!({"ipmi_address": ""}), "ipmi_address", "must be an IP address or a host name"),
            (json!({"ipmi_address": "-v"}), "ipmi_address", "must be an IP address or a host name"),
            (json!({"ipmi_address": "a b"}), "ipmi_address", "must be an IP address or a host name"),
            (json!({"ipmi_address": "[name]"}), "ipmi_address", "must be an IP address or a host name"),
            (json!({"ipmi_address": ["a"]}), "ipmi_address", "must be a text"),
            (json!({"ipmi_port": 0}), "ipmi_port", "must be a number from 1 to 65535"),
            (json!({"ipmi_port": "x"}), "ipmi_port", "must be a number from 1 to 65535"),
            (json!({"ipmi_terminal_port": 70000}), "ipmi_terminal_port", "must be a number from 1 to 65535"),
            (json!({"ipmi_username": "seventeen-letters"}), "ipmi_username", "is longer than 16 bytes"),
            (json!({"ipmi_username": "a\nb"}), "ipmi_username", "must have no control characters"),
            (json!({"ipmi_password": "open"}), "ipmi_password", "is secret and was given as an open setting"),
            (
                json!({"ipmi_priv_level": "ROOT"}),
                "ipmi_priv_level",
                "must be one of: CALLBACK, USER, OPERATOR, ADMINISTRATOR",
            ),
            (json!({"ipmi_cipher_suite": 18}), "ipmi_cipher_suite", "must be a number from 0 to 17"),
            (
                json!({"ipmi_cipher_suite": 0}),
                "ipmi_cipher_suite",
                "suite 0 lets everybody in without a password; use 3 or 17",
            ),
            (json!({"ipmi_protocol_version": "3"}), "ipmi_protocol_version", "must be 2.0"),
            (json!({"ipmi_bridging": "triple"}), "ipmi_bridging", "must be one of: no, single, dual"),
            (json!({"ipmi_bridging": "single"}), "ipmi_target_channel", "is required for single bridging"),
            (
                json!({"ipmi_bridging": "single", "ipmi_target_channel": "0x100"}),
                "ipmi_target_channel",
                "must be a number from 0 to 255, or 0x00 to 0xff",
            ),
            (
                json!({"ipmi_bridging": "dual", "ipmi_target_channel": 1, "ipmi_target_address": 2}),
                "ipmi_transit_channel",
                "is required for dual bridging",
            ),
            (json!({"ipmi_force_boot_device": 1}), "ipmi_force_boot_device", "must be true or false"),
            (json!({"ipmi_disable_boot_timeout": "no"}), "ipmi_disable_boot_timeout", "must be true or false"),
        ];
        for (mut values, field, reason) in rows {
            if field != "ipmi_address" {
                values["ipmi_address"] = json!("bmc.example");
            }
            assert_eq!(refused(values, &[]), (field.to_owned(), reason.to_owned()));
        }
    }

    #[test]
    fn wrong_secrets_are_refused_without_being_shown() {
        let long = "a".repeat(21);
        let inner_zero = format!("00{}", "61".repeat(19));
        let rows = [
            ("ipmi_password", long.as_str(), "is longer than 20 bytes"),
            ("ipmi_password", "two\nlines", "must have no control characters"),
            ("ipmi_hex_kg_key", "61", "must be 40 hexadecimal digits"),
            ("ipmi_hex_kg_key", "zz00000000000000000000000000000000000000", "must be hexadecimal digits"),
            (
                "ipmi_hex_kg_key",
                &inner_zero,
                "must have no zero byte (00) before its end: ipmitool takes none without showing the key",
            ),
        ];
        for (key, text, reason) in rows {
            let address = json!({"ipmi_address": "bmc.example"});
            assert_eq!(refused(address, &[(key, text)]), (key.to_owned(), reason.to_owned()));
        }
    }
}
