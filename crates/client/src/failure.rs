//! Sorts the transport's errors by what they mean to a caller.

use std::{io, net::IpAddr, time::Duration};

use rustls::{CertificateError, InvalidMessage};
use ureq::Timeout;

use crate::{
    base::BaseUrl,
    connect::Unconnected,
    error::{Error, TlsProblem, foreign_text},
    limits,
};

/// What an error of the transport means; `silence` is how long the server was allowed to say nothing.
pub fn sorted(base: &BaseUrl, silence: Duration, error: ureq::Error) -> Error {
    let server = base.as_str().to_owned();
    match error {
        ureq::Error::Other(other) => match other.downcast::<Unconnected>() {
            Ok(unconnected) => before_the_request(server, silence, unconnected.0),
            Err(other) => Error::Interrupted { server, reason: other.to_string() },
        },
        ureq::Error::Timeout(Timeout::Resolve | Timeout::Connect) => no_connection_in_time(server, silence),
        ureq::Error::Timeout(Timeout::Global | Timeout::PerCall) => {
            Error::Timeout { server, limit: format!("{} s in total", limits::REQUEST_WAIT_MAX.as_secs()) }
        }
        ureq::Error::Timeout(_) => Error::Timeout { server, limit: format!("{} s of silence", silence.as_secs_f64()) },
        ureq::Error::Io(error) => Error::Interrupted { server, reason: network_text(&error) },
        ureq::Error::Http(error) => Error::Request { reason: error.to_string() },
        ureq::Error::BadUri(reason) => Error::Request { reason },
        ureq::Error::BodyExceedsLimit(bytes) => {
            Error::Decode { url: server, reason: format!("it is larger than {bytes} bytes") }
        }
        ureq::Error::Protocol(error) => Error::Decode { url: server, reason: format!("it is not HTTP: {error}") },
        other => Error::Interrupted { server, reason: other.to_string() },
    }
}

fn before_the_request(server: String, silence: Duration, error: ureq::Error) -> Error {
    let reason = match error {
        ureq::Error::Timeout(_) => return no_connection_in_time(server, silence),
        ureq::Error::Rustls(error) => return Error::Tls { server, problem: tls_problem(&error) },
        ureq::Error::Tls(text) => return Error::Tls { server, problem: TlsProblem::Other(text.to_owned()) },
        ureq::Error::Io(error) => match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
            Some(error) => return Error::Tls { server, problem: tls_problem(error) },
            None if error.kind() == io::ErrorKind::UnexpectedEof => {
                return Error::Tls { server, problem: TlsProblem::HungUp };
            }
            None => network_text(&error),
        },
        ureq::Error::HostNotFound => "host not found".to_owned(),
        ureq::Error::ConnectionFailed => "connection failed".to_owned(),
        other => other.to_string(),
    };
    Error::Connect { server, reason }
}

fn no_connection_in_time(server: String, silence: Duration) -> Error {
    let limit = limits::CONNECT_WAIT.min(silence);
    Error::Connect { server, reason: format!("no answer within {} s", limit.as_secs_f64()) }
}

fn tls_problem(error: &rustls::Error) -> TlsProblem {
    use CertificateError::{
        BadSignature, Expired, ExpiredContext, NotValidForName, NotValidForNameContext, NotValidYet,
        NotValidYetContext, UnknownIssuer,
    };
    match error {
        // Certificates that servers make for themselves all have the same issuer by name; the signature tells them apart.
        rustls::Error::InvalidCertificate(UnknownIssuer | BadSignature) => TlsProblem::Untrusted,
        rustls::Error::InvalidCertificate(NotValidForNameContext { presented, .. }) => {
            TlsProblem::WrongName { names: presented.iter().map(|name| bare_name(name)).collect() }
        }
        rustls::Error::InvalidCertificate(NotValidForName) => TlsProblem::WrongName { names: Vec::new() },
        rustls::Error::InvalidCertificate(Expired | ExpiredContext { .. }) => TlsProblem::Expired,
        rustls::Error::InvalidCertificate(NotValidYet | NotValidYetContext { .. }) => TlsProblem::NotYetValid,
        rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType) => TlsProblem::NotTls,
        other => TlsProblem::Other(foreign_text(&other.to_string())),
    }
}

/// The name in `DnsName("name")` and `IpAddress(name)`, which is how names in certificates are told. Somebody else chose it.
fn bare_name(shown: &str) -> String {
    let inner = shown.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')')).unwrap_or(shown);
    match inner.parse::<IpAddr>() {
        Ok(address) => address.to_string(),
        Err(_) => foreign_text(inner.trim_matches('"')),
    }
}

/// The words for an error of the network. Numbers of the operating system help nobody where words exist.
fn network_text(error: &io::Error) -> String {
    if error.raw_os_error().is_some() && error.kind() != io::ErrorKind::Other {
        error.kind().to_string()
    } else {
        error.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_with_a_certificate() {
        let check = |error: rustls::Error, expected: &str| assert_eq!(tls_problem(&error).to_string(), expected);
        let certificate = rustls::Error::InvalidCertificate;
        check(
            certificate(CertificateError::Expired),
            "its certificate has expired, or the clock of this host is wrong",
        );
        check(
            certificate(CertificateError::NotValidYet),
            "its certificate is not valid yet, or the clock of this host is wrong",
        );
        check(certificate(CertificateError::NotValidForName), "its certificate is for another host");
        check(certificate(CertificateError::UnknownIssuer), "its certificate is not trusted here");
        check(certificate(CertificateError::BadSignature), "its certificate is not trusted here");
        check(certificate(CertificateError::Revoked), "invalid peer certificate: Revoked");
        check(rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType), "what answers there is not TLS");
    }

    #[test]
    fn names_of_certificates_do_not_steer_a_terminal() {
        assert_eq!(bare_name("DnsName(\"a.example\")"), "a.example");
        assert_eq!(bare_name("IpAddress(0::1)"), "::1");
        assert_eq!(bare_name("odd\u{1b}[31m"), "odd [31m");
    }
}
