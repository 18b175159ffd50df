//! From what `kube` says to what a caller can act on. The log has the cause with its addresses; the error has not.

use std::error::Error as StdError;

use http_body_util::LengthLimitError;
use kube::core::Status;
use sabakan_drivers::kubernetes::KubernetesError;

use crate::limits;

/// How a request went wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// There is no such object.
    NotFound,
    /// A list has to begin anew.
    Expired,
    /// A disruption budget does not allow it now, in its words.
    Budget(String),
    /// For the caller.
    Other(KubernetesError),
}

impl From<Failure> for KubernetesError {
    fn from(failure: Failure) -> KubernetesError {
        let failed = |reason: &str| KubernetesError::Failed { what: "answer".to_owned(), reason: reason.to_owned() };
        match failure {
            Failure::NotFound => failed("it does not know what it was asked for"),
            Failure::Expired => failed("its objects change faster than it lists them"),
            Failure::Budget(reason) => failed(&reason),
            Failure::Other(error) => error,
        }
    }
}

/// No answer in time.
pub fn late() -> Failure {
    Failure::Other(KubernetesError::Unreachable("no answer in time".to_owned()))
}

/// A request that could not be made.
pub fn request(what: &str, error: &kube::core::request::Error) -> Failure {
    let reason = cut(&error.to_string());
    Failure::Other(KubernetesError::Rejected { what: what.to_owned(), reason })
}

/// An answer that is not what was asked for.
pub fn answer(what: &str, error: &serde_json::Error) -> Failure {
    let reason = format!("line {} column {} is not as expected", error.line(), error.column());
    Failure::Other(KubernetesError::Protocol { what: what.to_owned(), reason })
}

/// What an error of `kube` means.
pub fn of(what: &str, error: &kube::Error) -> Failure {
    let other = match error {
        kube::Error::Api(status) => return of_status(what, status),
        kube::Error::Auth(cause) => {
            tracing::warn!(error = %cause, "kubernetes credentials cannot be read");
            KubernetesError::Credentials("they cannot be read".to_owned())
        }
        kube::Error::FromUtf8(_) => {
            KubernetesError::Protocol { what: what.to_owned(), reason: "it is not text".to_owned() }
        }
        kube::Error::BuildRequest(_) | kube::Error::HttpError(_) => {
            KubernetesError::Rejected { what: what.to_owned(), reason: "it cannot be asked for".to_owned() }
        }
        error => {
            tracing::debug!(error = chain(error), "kubernetes not reached");
            of_transport(what, error)
        }
    };
    Failure::Other(other)
}

/// What a refusal of the API server means.
pub fn of_status(what: &str, status: &Status) -> Failure {
    let what = what.to_owned();
    let reason = if status.message.is_empty() { status.reason.clone() } else { status.message.clone() };
    let reason = cut(&reason);
    Failure::Other(match status.code {
        404 => return Failure::NotFound,
        410 => return Failure::Expired,
        429 if let Some(words) = budget(status) => return Failure::Budget(words),
        401 => KubernetesError::Credentials(reason),
        403 => KubernetesError::Forbidden { what, reason },
        409 => KubernetesError::Conflict(reason),
        408 | 429 | 500.. => KubernetesError::Failed { what, reason },
        _ => KubernetesError::Rejected { what, reason },
    })
}

/// What a disruption budget says. A server that has too much to do answers with the same code, and without this cause.
fn budget(status: &Status) -> Option<String> {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let causes: Vec<&str> =
        causes.filter(|cause| cause.reason == "DisruptionBudget").map(|cause| cause.message.as_str()).collect();
    let words = || [&[status.message.as_str()], &causes[..]].concat().join(" ");
    (!causes.is_empty()).then(|| cut(words().trim()))
}

fn of_transport(what: &str, error: &kube::Error) -> KubernetesError {
    let mut words = None;
    let mut next: Option<&(dyn StdError + 'static)> = Some(error);
    while let Some(cause) = next {
        if cause.is::<LengthLimitError>() {
            let reason = format!("it is longer than {} bytes", limits::ANSWER_BYTES_MAX);
            return KubernetesError::Protocol { what: what.to_owned(), reason };
        }
        if let Some(tls) = tls(cause) {
            return tls;
        }
        if let Some(io) = cause.downcast_ref::<std::io::Error>() {
            words = Some(io.kind().to_string());
        }
        next = inner(cause);
    }
    KubernetesError::Unreachable(words.unwrap_or_else(|| "the connection failed".to_owned()))
}

/// The next cause. An I/O error hides the one it was made from behind `get_ref`.
fn inner<'a>(cause: &'a (dyn StdError + 'static)) -> Option<&'a (dyn StdError + 'static)> {
    let wrapped = cause.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
    wrapped.map(|cause| cause as &(dyn StdError + 'static)).or_else(|| cause.source())
}

fn tls(cause: &(dyn StdError + 'static)) -> Option<KubernetesError> {
    match cause.downcast_ref::<rustls::Error>()? {
        error @ rustls::Error::InvalidCertificate(_) => Some(KubernetesError::Untrusted(cut(&error.to_string()))),
        // The API server ends the handshake so where it wants a certificate and does not take ours.
        rustls::Error::AlertReceived(alert) => Some(KubernetesError::Credentials(format!("TLS alert {alert:?}"))),
        error => Some(KubernetesError::Unreachable(cut(&error.to_string()))),
    }
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(limits::REASON_CHARS_MAX) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

fn chain(error: &kube::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        next = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use std::io;

    use serde_json::json;

    use super::*;

    fn status(code: u16) -> Failure {
        let status = Status { code, ..Status::failure("because", "Reason") };
        of("list nodes", &kube::Error::Api(Box::new(status)))
    }

    #[test]
    fn status_codes() {
        let (what, reason) = ("list nodes".to_owned(), "because".to_owned());
        let forbidden = KubernetesError::Forbidden { what: what.clone(), reason: reason.clone() };
        let rejected = KubernetesError::Rejected { what: what.clone(), reason: reason.clone() };
        let failed = KubernetesError::Failed { what, reason: reason.clone() };
        for (code, expected) in [
            (401, Failure::Other(KubernetesError::Credentials(reason.clone()))),
            (403, Failure::Other(forbidden)),
            (404, Failure::NotFound),
            (409, Failure::Other(KubernetesError::Conflict(reason))),
            (410, Failure::Expired),
            (400, Failure::Other(rejected.clone())),
            (422, Failure::Other(rejected)),
            (408, Failure::Other(failed.clone())),
            (429, Failure::Other(failed.clone())),
            (500, Failure::Other(failed.clone())),
            (503, Failure::Other(failed)),
        ] {
            assert_eq!(status(code), expected, "{code}");
        }
    }

    #[test]
    fn a_disruption_budget_is_told_from_a_busy_server() {
        let refused = |reason: &str, message: &str| {
            let document = json!({
                "kind": "Status", "status": "Failure", "code": 429, "reason": "TooManyRequests",
                "message": "Cannot evict pod.", "details": { "causes": [{ "reason": reason, "message": message }] },
            });
            let status: Status = serde_json::from_value(document).unwrap();
            of("evict a pod", &kube::Error::Api(Box::new(status)))
        };
        let words = "Cannot evict pod. The budget web needs 3 healthy pods and has 3.".to_owned();
        let budget = refused("DisruptionBudget", "The budget web needs 3 healthy pods and has 3.");
        assert_eq!(budget, Failure::Budget(words));
        assert_eq!(refused("DisruptionBudget", ""), Failure::Budget("Cannot evict pod.".to_owned()));
        assert!(matches!(refused("Other", "x"), Failure::Other(KubernetesError::Failed { .. })));
    }

    #[test]
    fn transport_errors_say_what_happened_but_not_where() {
        let service = |error: io::Error| of("list nodes", &kube::Error::Service(Box::new(error)));
        let refused = service(io::Error::new(io::ErrorKind::ConnectionRefused, "10.1.2.3:6443 said no"));
        assert_eq!(refused, Failure::Other(KubernetesError::Unreachable("connection refused".to_owned())));
        let nested = service(io::Error::other(io::Error::from(io::ErrorKind::TimedOut)));
        assert_eq!(nested, Failure::Other(KubernetesError::Unreachable("timed out".to_owned())));
        let cause = rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer);
        let Failure::Other(KubernetesError::Untrusted(text)) = service(io::Error::other(cause)) else {
            panic!("a certificate nobody trusts is told from a server that is down")
        };
        assert!(text.contains("UnknownIssuer"), "{text}");
        let alert = rustls::Error::AlertReceived(rustls::AlertDescription::CertificateRequired);
        let Failure::Other(KubernetesError::Credentials(_)) = service(io::Error::other(alert)) else {
            panic!("a missing client certificate is told from a server that is down")
        };
    }

    #[test]
    fn long_reasons_are_cut() {
        let long = "é".repeat(limits::REASON_CHARS_MAX + 1);
        assert_eq!(cut(&long).chars().count(), limits::REASON_CHARS_MAX + 1);
        assert!(cut(&long).ends_with('…'));
        let fits = "é".repeat(limits::REASON_CHARS_MAX);
        assert_eq!(cut(&fits), fits);
    }
}
