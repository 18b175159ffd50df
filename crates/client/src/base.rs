//! The URL of a server: which texts name one, and whether what is sent there can be read on the way.

use std::net::IpAddr;

use ureq::http::{Uri, uri::Authority};

use crate::error::Error;

/// A checked URL, without a slash at its end.
#[derive(Debug, Clone)]
pub struct BaseUrl {
    text: String,
    is_https: bool,
    is_loopback: bool,
}

impl BaseUrl {
    /// Understands a URL of a server.
    pub fn parse(url: &str) -> Result<BaseUrl, Error> {
        // Whoever puts a password into a URL must not find it in an error text.
        let shown = url.rsplit_once('@').map_or_else(|| url.to_owned(), |(_, rest)| format!("…@{rest}"));
        let refuse = |reason: &str| Err(Error::Url { url: shown.clone(), reason: reason.to_owned() });
        if !url.contains("://") {
            return refuse("it must begin with http:// or https://, as in http://localhost:8888");
        }
        let Ok(uri) = url.parse::<Uri>() else { return refuse("it is not a URL, as in http://localhost:8888") };
        let Some(authority) = uri.authority() else { return refuse("it names no host") };
        let Some(scheme @ ("http" | "https")) = uri.scheme_str() else {
            return refuse("only http:// and https:// are supported");
        };
        if authority.as_str().contains('@') {
            return refuse("user names and passwords are not supported");
        }
        let after_host = authority.as_str().strip_prefix(authority.host()).unwrap_or_default();
        if authority.host().is_empty() || (!after_host.is_empty() && authority.port_u16().is_none()) {
            return refuse("host or port is wrong");
        }
        if uri.query().is_some() || url.contains('#') {
            return refuse("it must end with the host, the port or a path");
        }
        Ok(BaseUrl {
            text: format!("{scheme}://{authority}{}", uri.path().trim_end_matches('/')),
            is_https: scheme == "https",
            is_loopback: is_loopback(authority),
        })
    }

    /// The URL.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether what is sent is encrypted.
    pub fn is_https(&self) -> bool {
        self.is_https
    }

    /// Whether nobody can read on the way what is sent.
    pub fn is_private(&self) -> bool {
        self.is_https || self.is_loopback
    }

    /// Refuses to send something to where others could read it on the way.
    pub fn require_private(&self, what: &'static str) -> Result<(), Error> {
        if self.is_private() { Ok(()) } else { Err(Error::Exposed { server: self.text.clone(), what }) }
    }
}

/// Whether connections there stay on this host. A name is not looked up: what it means may change until it is used.
fn is_loopback(authority: &Authority) -> bool {
    let host = authority.host();
    let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    match address.parse::<IpAddr>() {
        Ok(address) => address.to_canonical().is_loopback(),
        Err(_) => host.eq_ignore_ascii_case("localhost"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_of_servers() {
        let check = |url: &str, expected: &str| assert_eq!(BaseUrl::parse(url).unwrap().as_str(), expected);
        check("http://localhost:8888", "http://localhost:8888");
        check("http://localhost:8888/", "http://localhost:8888");
        check("http://[::1]:8888//", "http://[::1]:8888");
        check("http://10.0.0.1", "http://10.0.0.1");
        check("http://gateway/sabakan/", "http://gateway/sabakan");
        check("HTTP://h", "http://h");
        check("https://h", "https://h");
        check("HTTPS://h:8443/", "https://h:8443");

        let check = |url: &str, expected: &str| {
            let error = BaseUrl::parse(url).unwrap_err().to_string();
            assert_eq!(error, format!("invalid server URL {expected}"), "{url}");
        };
        let begin = "it must begin with http:// or https://, as in http://localhost:8888";
        check("", &format!("\"\": {begin}"));
        check("localhost:8888", &format!("\"localhost:8888\": {begin}"));
        check("http://", "\"http://\": it is not a URL, as in http://localhost:8888");
        check("http://a b", "\"http://a b\": it is not a URL, as in http://localhost:8888");
        check("ftp://h", "\"ftp://h\": only http:// and https:// are supported");
        check("http://h:99999", "\"http://h:99999\": host or port is wrong");
        check("https://h:", "\"https://h:\": host or port is wrong");
        check("http://me:secret@h", "\"…@h\": user names and passwords are not supported");
        check("http://h/?a=b", "\"http://h/?a=b\": it must end with the host, the port or a path");
        check("http://h/#a", "\"http://h/#a\": it must end with the host, the port or a path");
    }

    #[test]
    fn where_secrets_may_go() {
        let check = |url: &str, expected: bool| {
            assert_eq!(BaseUrl::parse(url).unwrap().require_private("a token").is_ok(), expected, "{url}");
        };
        check("https://10.0.0.1:8443", true);
        check("http://localhost:8888", true);
        check("http://LOCALHOST", true);
        check("http://127.0.0.1:8888", true);
        check("http://127.9.9.9/x", true);
        check("http://[::1]:8888", true);
        check("http://[::ffff:127.0.0.1]:8888", true);
        check("http://10.0.0.1:8888", false);
        check("http://0.0.0.0:8888", false);
        check("http://[::]:8888", false);
        check("http://[::ffff:10.0.0.1]", false);
        check("http://localhost.example.com", false);
        check("http://127.0.0.1.example.com", false);
        let error = BaseUrl::parse("http://boot-0:8888").unwrap().require_private("a token").unwrap_err();
        assert_eq!(
            error.to_string(),
            "a token is not sent to http://boot-0:8888, where others could read it on the way: name the server's https:// address"
        );
    }
}
