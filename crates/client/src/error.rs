//! What can go wrong with a request, sorted by what a caller does about it.

use std::fmt;

use sabakan_wire::rest::{ErrorJson, ErrorKind};
use serde::Deserialize;

use crate::{limits, nodes};

/// Why a request has no result.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The URL is no address of a server. Nothing was sent.
    #[error("invalid server URL {url:?}: {reason}")]
    Url {
        /// What was given, without user name and password.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// What is asked for does not fit into a request. Nothing was sent.
    #[error("the request cannot be sent: {reason}")]
    Request {
        /// What is wrong with it.
        reason: String,
    },
    /// There is nothing to verify a server with. Nothing was sent.
    #[error("no certificates to verify the server with: {reason}")]
    Trust {
        /// Which file is missing, or what is wrong with it.
        reason: String,
    },
    /// Others could read on the way what must stay secret. Nothing was sent.
    #[error(
        "{what} is not sent to {server}, where others could read it on the way: name the server's https:// address"
    )]
    Exposed {
        /// The server's URL.
        server: String,
        /// What would have been sent.
        what: &'static str,
    },
    /// Nobody answers there. Nothing was sent.
    #[error("cannot connect to {server}: {reason}")]
    Connect {
        /// The server's URL.
        server: String,
        /// What the network said.
        reason: String,
    },
    /// Somebody answers there, but not as the server we want to talk to. Nothing was sent.
    #[error("no secure connection to {server}: {problem}")]
    Tls {
        /// The server's URL.
        server: String,
        /// What is wrong.
        problem: TlsProblem,
    },
    /// The connection broke after a part of the request may have arrived.
    #[error("lost the connection to {server}: {reason}")]
    Interrupted {
        /// The server's URL.
        server: String,
        /// What the network said.
        reason: String,
    },
    /// The server accepted the connection and did not answer in time.
    #[error("{server} did not answer in time (limit: {limit})")]
    Timeout {
        /// The server's URL.
        server: String,
        /// Which limit, and how long it is.
        limit: String,
    },
    /// The answer is not what this API sends.
    #[error("unexpected answer from {url}: {reason}")]
    Decode {
        /// The request's URL.
        url: String,
        /// What is unexpected.
        reason: String,
    },
    /// The server refused or failed, and says why.
    #[error("{reason_phrase}{body}")]
    Api {
        /// HTTP status.
        status: u16,
        /// Its usual words, such as `Not Found`.
        reason_phrase: String,
        /// What the server said.
        body: ApiBody,
    },
}

/// Why there is no secure connection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TlsProblem {
    /// Neither the certificate nor an authority that issued it is among those that are believed.
    #[error("its certificate is not trusted here")]
    Untrusted,
    /// The certificate is trusted, but it is another host's.
    #[error("its certificate is for {}", if names.is_empty() { "another host".to_owned() } else { format!("other hosts: {}", names.join(", ")) })]
    WrongName {
        /// The hosts it is for.
        names: Vec<String>,
    },
    /// The certificate is too old.
    #[error("its certificate has expired, or the clock of this host is wrong")]
    Expired,
    /// The certificate is too new.
    #[error("its certificate is not valid yet, or the clock of this host is wrong")]
    NotYetValid,
    /// Something else is spoken there, such as plain HTTP.
    #[error("what answers there is not TLS")]
    NotTls,
    /// The connection was closed before it was secure.
    #[error("the connection was closed during the TLS handshake")]
    HungUp,
    /// Anything else.
    #[error("{0}")]
    Other(String),
}

/// The body of a refusal or failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApiBody {
    /// Sabakan's own.
    Json(ErrorJson),
    /// Anything else, such as a proxy's; shortened.
    Text(String),
}

impl Error {
    /// The HTTP status, if there was an answer.
    pub fn status(&self) -> Option<u16> {
        match self {
            Error::Api { status, .. } => Some(*status),
            _ => None,
        }
    }

    /// What kind of refusal it was, if the server said.
    pub fn kind(&self) -> Option<ErrorKind> {
        self.json().and_then(|json| json.kind)
    }

    /// The server's error body, if there was one.
    pub fn json(&self) -> Option<&ErrorJson> {
        match self {
            Error::Api { body: ApiBody::Json(json), .. } => Some(json),
            _ => None,
        }
    }

    /// Whether a write may have happened although it failed. Look before sending it again.
    pub fn outcome_unknown(&self) -> bool {
        match self {
            Error::Url { .. } | Error::Request { .. } | Error::Trust { .. } | Error::Exposed { .. } => false,
            Error::Connect { .. } | Error::Tls { .. } => false,
            Error::Interrupted { .. } | Error::Timeout { .. } | Error::Decode { .. } => true,
            // Gateways say 502 and 504 when they lost a server they had passed the request on to.
            Error::Api { status, .. } => {
                self.kind() == Some(ErrorKind::OutcomeUnknown) || (self.json().is_none() && matches!(status, 502 | 504))
            }
        }
    }

    pub(crate) fn api(status: ureq::http::StatusCode, body: &[u8]) -> Error {
        let reason_phrase =
            status.canonical_reason().map_or_else(|| format!("HTTP {}", status.as_u16()), str::to_owned);
        Error::Api { status: status.as_u16(), reason_phrase, body: ApiBody::new(status.as_u16(), body) }
    }
}

/// An error body as any version of the server may write it.
#[derive(Deserialize)]
struct LenientError {
    error: String,
    #[serde(default)]
    request_id: String,
    /// A kind we do not know must not cost us the text.
    #[serde(default)]
    kind: serde_json::Value,
    #[serde(default)]
    problems: serde_json::Value,
    #[serde(default)]
    fits: serde_json::Value,
}

impl ApiBody {
    fn new(status: u16, body: &[u8]) -> ApiBody {
        if let Some(error) = nodes::fault_text(body) {
            let (request_id, problems) = (String::new(), Vec::new());
            return ApiBody::Json(ErrorJson { error, request_id, status, kind: None, problems, fits: None });
        }
        match serde_json::from_slice::<LenientError>(body) {
            Ok(LenientError { error, request_id, kind, problems, fits }) => ApiBody::Json(ErrorJson {
                error,
                request_id,
                status,
                kind: serde_json::from_value(kind).ok(),
                problems: serde_json::from_value(problems).unwrap_or_default(),
                fits: fits.as_u64(),
            }),
            Err(_) => ApiBody::Text(foreign_text(&String::from_utf8_lossy(body))),
        }
    }
}

/// `: text`, or nothing for an empty body.
impl fmt::Display for ApiBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            ApiBody::Json(json) => json.error.as_str(),
            ApiBody::Text(text) => text.as_str(),
        };
        if text.is_empty() { Ok(()) } else { write!(f, ": {text}") }
    }
}

/// What a terminal may be shown of a text from somewhere: no control characters, and not too much of it.
pub(crate) fn foreign_text(text: &str) -> String {
    let visible = text.trim().chars().map(|c| if c.is_control() && c != '\n' { ' ' } else { c });
    let mut short: String = visible.clone().take(limits::FOREIGN_TEXT_CHARS_MAX).collect();
    if visible.count() > limits::FOREIGN_TEXT_CHARS_MAX {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use ureq::http::StatusCode;

    use super::*;

    fn api(status: u16, body: &str) -> Error {
        Error::api(StatusCode::from_u16(status).expect("status"), body.as_bytes())
    }

    #[test]
    fn text_of_refusals() {
        let check = |status: u16, body: &str, expected: &str| assert_eq!(api(status, body).to_string(), expected);
        let not_found =
            r#"{"error":"requested resource is not found","request_id":"1","status":404,"kind":"not-found"}"#;
        check(404, not_found, "Not Found: requested resource is not found");
        check(409, r#"{"error":"conflicted","request_id":"1","status":409}"#, "Conflict: conflicted");
        check(400, r#"{"error":"invalid request"}"#, "Bad Request: invalid request");
        check(400, r#"{"error":"no","kind":"from the future"}"#, "Bad Request: no");
        check(502, "<html>\u{1b}[31mgone</html>\r\n", "Bad Gateway: <html> [31mgone</html>");
        check(500, "", "Internal Server Error");
        check(599, "x", "HTTP 599: x");
        let long = api(500, &"é".repeat(limits::FOREIGN_TEXT_CHARS_MAX + 1)).to_string();
        assert!(long.ends_with("é…"), "{long}");
        assert_eq!(long.chars().filter(|c| *c == 'é').count(), limits::FOREIGN_TEXT_CHARS_MAX);
    }

    #[test]
    fn when_a_write_may_have_happened() {
        let server = || "http://x".to_owned();
        let reason = || "y".to_owned();
        let check = |error: Error, expected: bool| assert_eq!(error.outcome_unknown(), expected, "{error}");
        check(Error::Url { url: server(), reason: reason() }, false);
        check(Error::Request { reason: reason() }, false);
        check(Error::Trust { reason: reason() }, false);
        check(Error::Exposed { server: server(), what: "a token" }, false);
        check(Error::Connect { server: server(), reason: reason() }, false);
        check(Error::Tls { server: server(), problem: TlsProblem::NotTls }, false);
        check(Error::Interrupted { server: server(), reason: reason() }, true);
        check(Error::Timeout { server: server(), limit: reason() }, true);
        check(Error::Decode { url: server(), reason: reason() }, true);
        check(api(409, r#"{"error":"x","kind":"conflict"}"#), false);
        check(api(500, r#"{"error":"x","kind":"outcome-unknown"}"#), true);
        check(api(500, r#"{"error":"x","kind":"internal"}"#), false);
        check(api(504, "gateway"), true);
        check(api(502, r#"{"error":"x","kind":"unavailable"}"#), false);
    }
}
