//! What single values mean: addresses, URLs, times, sizes. Each rule takes a text and answers a value or the reason why not;
//! none of them looks at another setting.

use std::{
    fmt,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    str::FromStr,
    time::Duration,
};

use http::Uri;
use jiff::SignedDuration;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _};

use super::limits;

/// An address to listen on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListenAddress {
    address: SocketAddr,
    /// Tried if the first is not there: not every host has IPv6.
    otherwise: Option<SocketAddr>,
}

/// A text that is no address to listen on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an address such as 127.0.0.1:8888, [::1]:8888, localhost:8888 or :8888")]
pub struct ListenAddressError(String);

impl ListenAddress {
    /// The first of these that can be bound is the one to listen on.
    pub fn socket_addrs(&self) -> Vec<SocketAddr> {
        std::iter::once(self.address).chain(self.otherwise).collect()
    }

    /// Whether only this host can reach it.
    pub fn is_loopback(&self) -> bool {
        self.socket_addrs().iter().all(|address| address.ip().to_canonical().is_loopback())
    }

    /// Two listeners cannot share an address, but any number of them a free port each.
    pub fn collides(&self, other: &ListenAddress) -> bool {
        self.address == other.address && self.address.port() != 0
    }
}

impl FromStr for ListenAddress {
    type Err = ListenAddressError;

    /// Looks no names up: `localhost` is known, everything else has to be an address, so that a start does not hang on DNS.
    fn from_str(text: &str) -> Result<ListenAddress, ListenAddressError> {
        let wrong = || ListenAddressError(text.to_owned());
        if let Ok(address) = text.parse() {
            return Ok(ListenAddress { address, otherwise: None });
        }
        let (host, port) = text.split_once(':').ok_or_else(wrong)?;
        // A sign is a number to `parse`, but nobody means one.
        let port = port.bytes().all(|b| b.is_ascii_digit()).then(|| port.parse().ok()).flatten().ok_or_else(wrong)?;
        let v4 = |ip: Ipv4Addr| SocketAddr::from((ip, port));
        let v6 = |ip: Ipv6Addr| SocketAddr::from((ip, port));
        match host {
            // Listening on all IPv6 addresses takes IPv4 as well.
            "" => Ok(ListenAddress { address: v6(Ipv6Addr::UNSPECIFIED), otherwise: Some(v4(Ipv4Addr::UNSPECIFIED)) }),
            "localhost" => {
                Ok(ListenAddress { address: v4(Ipv4Addr::LOCALHOST), otherwise: Some(v6(Ipv6Addr::LOCALHOST)) })
            }
            _ => Err(wrong()),
        }
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.address.fmt(f)
    }
}

pub fn listen_address(text: &str) -> Result<ListenAddress, String> {
    text.parse().map_err(|error: ListenAddressError| error.to_string())
}

/// A URL under which others reach us, without the slash at its end. Paths are appended to it, so it can have no query.
pub fn url(text: &str, schemes: &[&str]) -> Result<String, String> {
    let uri = uri(text)?;
    if !uri.scheme_str().is_some_and(|scheme| schemes.contains(&scheme)) {
        return Err(format!("{text:?} must start with {}://", schemes.join(":// or ")));
    }
    if uri.query().is_some() || text.contains('#') {
        return Err(format!("{text:?} must end with a host, a port or a path"));
    }
    Ok(text.trim_end_matches('/').to_owned())
}

/// How an etcd member is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    Http,
    Https,
    /// Not said: whatever the other settings ask for.
    Either,
}

/// An etcd member as `http://host:port`, `https://host:port` or `host:port`.
pub fn endpoint(text: &str) -> Result<(Scheme, String), String> {
    let with_scheme = if text.contains("://") { text.to_owned() } else { format!("either://{text}") };
    let uri = uri(&with_scheme).map_err(|reason| reason.replace("either://", ""))?;
    let scheme = match uri.scheme_str() {
        Some("http") => Scheme::Http,
        Some("https") => Scheme::Https,
        Some("either") => Scheme::Either,
        _ => return Err(format!("{text:?} must start with http:// or https://, or be host:port")),
    };
    if !matches!(uri.path(), "" | "/") || uri.query().is_some() || text.contains('#') {
        return Err(format!("{text:?} must end with its port"));
    }
    if uri.port_u16().is_none() {
        return Err(format!("{text:?} has no port; etcd's is 2379"));
    }
    Ok((scheme, text.trim_end_matches('/').to_owned()))
}

fn uri(text: &str) -> Result<Uri, String> {
    // Said first and without the text, because what stands before the @ may be a password.
    if text.contains('@') {
        return Err("must not hold a user name or password".to_owned());
    }
    let uri: Uri = text.parse().map_err(|_| format!("{text:?} is not a URL"))?;
    let host = uri.host().unwrap_or_default();
    let port_is_wrong = uri.authority().is_some_and(|a| a.as_str().len() > host.len()) && uri.port_u16().is_none();
    if host.is_empty() || port_is_wrong {
        return Err(format!("{text:?} is not a URL with a host and a valid port"));
    }
    Ok(uri)
}

/// What keys start with. Without the slash, `/sabakan` would also claim the keys of `/sabakan-test/`.
pub fn prefix(text: &str) -> Result<String, String> {
    if text.is_empty() || !text.ends_with('/') {
        return Err(format!("{text:?} must end with a slash"));
    }
    if text.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err(format!("{text:?} must not hold blanks or control characters"));
    }
    Ok(text.to_owned())
}

pub fn path(text: &str) -> Result<std::path::PathBuf, String> {
    if text.is_empty() { Err("must not be empty".to_owned()) } else { Ok(text.into()) }
}

pub fn name(text: &str) -> Result<String, String> {
    if text.is_empty() { Err("must not be empty".to_owned()) } else { Ok(text.to_owned()) }
}

/// A number of days; zero for ever.
pub fn days(text: &str) -> Result<u32, String> {
    let days = text.trim().parse().ok().filter(|days| (0..=36_500).contains(days));
    days.ok_or_else(|| format!("{text:?} is not a number of days from 0 to 36500"))
}

/// A number of connections.
pub fn connections(text: &str) -> Result<u64, String> {
    let number = text.trim().parse().ok().filter(|number| (1..=limits::CONNECTIONS_PER_ADDRESS_MAX).contains(number));
    number.ok_or_else(|| format!("{text:?} is not a number from 1 to {}", limits::CONNECTIONS_PER_ADDRESS_MAX))
}

pub fn boolean(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" | "1" => Ok(true),
        "false" | "no" | "off" | "0" => Ok(false),
        _ => Err(format!("{text:?} is neither true nor false")),
    }
}

pub fn etcd_timeout(text: &str) -> Result<Duration, String> {
    time_within(text, (Duration::from_millis(1), limits::ETCD_TIMEOUT_MAX))
}

/// A time that is neither shorter nor longer than these.
pub fn time_within(text: &str, (min, max): (Duration, Duration)) -> Result<Duration, String> {
    let time = text.parse::<SignedDuration>().ok().and_then(|time| Duration::try_from(time).ok());
    let time = time.ok_or_else(|| format!("{text:?} is not a time such as 500ms, 2s or 1m"))?;
    if time < min || time > max {
        return Err(format!("{text:?} is not between {min:?} and {max:?}"));
    }
    Ok(time)
}

pub fn txn_ops(text: &str) -> Result<usize, String> {
    let number = text.parse().map_err(|_| format!("{text:?} is not a number"))?;
    within(text, number, limits::ETCD_TXN_OPS_MIN, limits::ETCD_TXN_OPS_MAX)
}

pub fn request_bytes(text: &str) -> Result<usize, String> {
    let unit = [("KiB", 1024), ("MiB", 1024 * 1024)];
    let (number, unit) = unit
        .iter()
        .find_map(|(suffix, unit)| text.strip_suffix(suffix).map(|rest| (rest.trim_end(), *unit)))
        .unwrap_or((text, 1));
    let bytes = number.parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
    let bytes = bytes.ok_or_else(|| format!("{text:?} is not a size such as 1572864, 1536KiB or 2MiB"))?;
    within(text, bytes, limits::ETCD_REQUEST_BYTES_MIN, limits::ETCD_REQUEST_BYTES_MAX)
}

pub fn within(text: &str, number: u64, min: u64, max: u64) -> Result<usize, String> {
    let number = (min..=max).contains(&number).then(|| usize::try_from(number).ok()).flatten();
    number.ok_or_else(|| format!("{text:?} is not between {min} and {max}"))
}

/// Whether a text holds certificates. Whom they belong to is for the handshake to judge.
pub fn certificates(pem: &str) -> Result<(), String> {
    let mut all = CertificateDer::pem_slice_iter(pem.as_bytes()).peekable();
    if all.peek().is_none() || all.any(|one| one.is_err()) {
        return Err("holds no certificate in PEM".to_owned());
    }
    Ok(())
}

/// Whether a text holds a private key.
pub fn private_key(pem: &str) -> Result<(), String> {
    PrivateKeyDer::from_pem_slice(pem.as_bytes()).map(drop).map_err(|_| "holds no private key in PEM".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_to_listen_on() {
        let check = |text: &str, expected: &[&str]| {
            let address = listen_address(text).expect(text);
            let all: Vec<_> = address.socket_addrs().iter().map(ToString::to_string).collect();
            assert_eq!(all, expected, "{text}");
            assert_eq!(address.to_string(), expected[0], "{text}");
        };
        check("127.0.0.1:8888", &["127.0.0.1:8888"]);
        check("0.0.0.0:0", &["0.0.0.0:0"]);
        check("[::1]:8888", &["[::1]:8888"]);
        check("localhost:8888", &["127.0.0.1:8888", "[::1]:8888"]);
        check(":8888", &["[::]:8888", "0.0.0.0:8888"]);
        for text in
            ["8888", "127.0.0.1", "::1:8888", "localhost", "localhost:", ":+1", ":65536", "example.com:80", "a:b:1", ""]
        {
            assert!(listen_address(text).is_err(), "{text}");
        }
        for text in ["127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "localhost:1"] {
            assert!(listen_address(text).unwrap().is_loopback(), "{text}");
        }
        for text in [":1", "0.0.0.0:1", "[::]:1", "10.0.0.1:1", "[2001:db8::1]:1"] {
            assert!(!listen_address(text).unwrap().is_loopback(), "{text}");
        }
        let collide = |one: &str, other: &str| listen_address(one).unwrap().collides(&listen_address(other).unwrap());
        assert!(collide("localhost:1", "127.0.0.1:1") && !collide("127.0.0.1:1", "127.0.0.1:2"));
        assert!(!collide("127.0.0.1:0", "127.0.0.1:0"));
    }

    #[test]
    fn urls() {
        let check = |text: &str, expected: Result<&str, &str>| match (url(text, &["http", "https"]), expected) {
            (Ok(url), Ok(expected)) => assert_eq!(url, expected),
            (Err(reason), Err(part)) => {
                assert!(reason.contains(part) && !reason.contains("hunter2"), "{text}: {reason}");
            }
            (other, _) => panic!("{text}: {other:?}"),
        };
        check("http://10.0.0.1:8888", Ok("http://10.0.0.1:8888"));
        check("https://sabakan.example.com/", Ok("https://sabakan.example.com"));
        check("https://example.com/sabakan/", Ok("https://example.com/sabakan"));
        check("http://[::1]:8888", Ok("http://[::1]:8888"));
        check("10.0.0.1:8888", Err("must start with http:// or https://"));
        check("/path", Err("host"));
        check("http://", Err("not a URL"));
        check("http://:8888", Err("host"));
        check("http://h:99999", Err("port"));
        check("http://h:", Err("port"));
        check("ftp://h", Err("must start with"));
        check("http://h/?q", Err("must end with"));
        check("http://h/#f", Err("must end with"));
        check("http://user:hunter2@h", Err("must not hold a user name"));
        check("", Err("not a URL"));
        assert!(url("http://h", &["https"]).is_err());
    }

    #[test]
    fn etcd_members() {
        for (text, scheme, expected) in [
            ("http://h:2379", Scheme::Http, "http://h:2379"),
            ("https://10.0.0.1:2379/", Scheme::Https, "https://10.0.0.1:2379"),
            ("h:2379", Scheme::Either, "h:2379"),
            ("[::1]:2379", Scheme::Either, "[::1]:2379"),
        ] {
            assert_eq!(endpoint(text), Ok((scheme, expected.to_owned())));
        }
        for (text, part) in [
            ("h", "has no port"),
            ("http://h", "has no port"),
            ("http://h:2379/v3", "must end with its port"),
            ("h:2379/v3", "must end with its port"),
            ("http://h:2379?a", "must end with its port"),
            ("unix://h:1", "must start with http://"),
            ("user:hunter2@h:1", "must not hold a user name"),
            ("h :1", "\"h :1\" is not a URL"),
            (":2379", "\":2379\" is not a URL with a host"),
        ] {
            let reason = endpoint(text).expect_err(text);
            assert!(reason.contains(part) && !reason.contains("hunter2"), "{text}: {reason}");
        }
    }

    #[test]
    fn prefixes_end_with_a_slash() {
        for (text, valid) in [("/sabakan/", true), ("sabakan/", true), ("/", true), ("", false), ("/sabakan", false)] {
            assert_eq!(prefix(text).is_ok(), valid, "{text}");
        }
        assert!(prefix("/a b/").is_err() && prefix("/a\n/").is_err());
    }

    #[test]
    fn times_numbers_sizes_and_truth() {
        for (text, expected) in [
            ("2s", Some(2_000)),
            ("500ms", Some(500)),
            ("1m", Some(60_000)),
            ("1m30s", Some(90_000)),
            ("1.5s", Some(1_500)),
            ("2", None),
            ("0s", None),
            ("-2s", None),
            ("1us", None),
            ("11m", None),
            ("soon", None),
            ("", None),
        ] {
            assert_eq!(etcd_timeout(text).ok(), expected.map(Duration::from_millis), "{text}");
        }
        for (text, expected) in
            [("128", Some(128)), ("16", Some(16)), ("15", None), ("100001", None), ("-1", None), ("many", None)]
        {
            assert_eq!(txn_ops(text).ok(), expected, "{text}");
        }
        for (text, expected) in [
            ("1572864", Some(1_572_864)),
            ("1536KiB", Some(1_572_864)),
            ("2 MiB", Some(2_097_152)),
            ("1KiB", None),
            ("1GiB", None),
            ("17592186044416MiB", None),
            ("", None),
        ] {
            assert_eq!(request_bytes(text).ok(), expected, "{text}");
        }
        for (text, expected) in
            [("true", Some(true)), ("Yes", Some(true)), ("off", Some(false)), ("0", Some(false)), ("", None)]
        {
            assert_eq!(boolean(text).ok(), expected, "{text}");
        }
    }

    #[test]
    fn certificates_and_keys_are_told_apart() {
        let made = rcgen::generate_simple_self_signed(vec!["h".into()]).expect("a certificate");
        let (cert, key) = (made.cert.pem(), made.signing_key.serialize_pem());
        assert!(certificates(&cert).is_ok() && certificates(&format!("{cert}{cert}")).is_ok());
        assert!(certificates(&key).is_err() && certificates("").is_err());
        assert!(certificates(&format!("{cert}{}", &cert[..40])).is_err(), "the second one is cut off");
        assert!(private_key(&key).is_ok());
        assert!(private_key(&cert).is_err() && private_key("").is_err());
    }
}
