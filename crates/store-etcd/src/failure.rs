//! What a failed call means: whether etcd may have acted on it, and what to tell the caller. Pure. The texts made here hold no
//! address and no credential; details of broken connections go to the log only.

use std::{error::Error, io};

use sabakan_store::StoreError;
use tonic::{Code, ConnectError, Status};

/// Why a call failed, sorted by what may be done about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// It certainly had no effect, and another member may do better.
    NotProcessed(String),
    /// It had no effect because the token is not, or no longer, valid.
    StaleToken,
    /// No answer came: it may have had its effect.
    Unanswered(String),
    /// etcd refused it; it had no effect, and no other member would answer otherwise.
    Refused(Refusal),
}

/// What etcd did not like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    Compacted,
    FutureRevision,
    LeaseNotFound,
    TooManyOps,
    RequestTooLarge,
    /// Not etcd but our own bound: the answer is larger than we take.
    AnswerTooLarge,
    AuthDisabled,
    Credentials,
    Other(String),
}

/// Sorts a gRPC status. etcd tells its errors apart by text alone (several share a code), so the text decides here, in this one
/// place; whatever is not recognised is sorted by how certain its code makes us that nothing happened.
pub fn classify(status: &Status) -> Failure {
    if let Some(reason) = connect_failure(status) {
        return Failure::NotProcessed(reason.to_owned());
    }
    let text = status.message();
    if let Some(known) = known_answer(text.strip_prefix("etcdserver: ").unwrap_or(text)) {
        return known;
    }
    // etcd's own texts are constants; any other may quote an address.
    let reason = if text == "etcdserver: mvcc: database space exceeded" {
        "etcd's space quota is used up (mvcc: database space exceeded); compact and defragment etcd, then disarm its alarm"
            .to_owned()
    } else if text.starts_with("etcdserver: ") {
        text.to_owned()
    } else if status.code() == Code::DeadlineExceeded {
        "no answer came in time".to_owned()
    } else {
        format!("the connection failed ({:?})", status.code())
    };
    match status.code() {
        Code::OutOfRange if text.contains("message length too large") => Failure::Refused(Refusal::AnswerTooLarge),
        // The text of grpc-go, which cuts off a request before etcd sees it.
        Code::ResourceExhausted if text.starts_with("grpc: received message larger") => {
            Failure::Refused(Refusal::RequestTooLarge)
        }
        Code::Unauthenticated => Failure::StaleToken,
        Code::InvalidArgument
        | Code::NotFound
        | Code::AlreadyExists
        | Code::PermissionDenied
        | Code::FailedPrecondition
        | Code::OutOfRange
        | Code::Unimplemented => Failure::Refused(Refusal::Other(reason)),
        _ => Failure::Unanswered(reason),
    }
}

/// Texts of etcd 3.4 and later, without their common beginning.
fn known_answer(text: &str) -> Option<Failure> {
    use Refusal::{AuthDisabled, Compacted, Credentials, FutureRevision, LeaseNotFound, RequestTooLarge, TooManyOps};
    Some(match text {
        // Checked before the request is proposed to the cluster. "request timed out", "leader changed" and "server
        // stopped" are not: they may follow the proposal. Nor is "database space exceeded": a member that notices only
        // while it applies a write has written it when it says so.
        "no leader" | "not capable" | "rpc not supported for learner" | "too many requests" => {
            Failure::NotProcessed(format!("etcd says: {text}"))
        }
        // The second follows a change of users or roles; a new token carries the new revision. The third answers a call
        // without token, when authentication was enabled after we asked.
        "invalid auth token" | "revision of auth store is old" | "user name is empty" => Failure::StaleToken,
        "mvcc: required revision has been compacted" => Failure::Refused(Compacted),
        "mvcc: required revision is a future revision" => Failure::Refused(FutureRevision),
        "requested lease not found" => Failure::Refused(LeaseNotFound),
        "too many operations in txn request" => Failure::Refused(TooManyOps),
        "request is too large" => Failure::Refused(RequestTooLarge),
        "authentication is not enabled" => Failure::Refused(AuthDisabled),
        "authentication failed, invalid user ID or password" => Failure::Refused(Credentials),
        _ => return None,
    })
}

/// Says why no connection came about, `None` if there was one.
fn connect_failure(status: &Status) -> Option<&'static str> {
    let mut cause = status.source();
    let mut connecting = false;
    while let Some(error) = cause {
        connecting |= error.is::<ConnectError>();
        if connecting && let Some(error) = error.downcast_ref::<io::Error>() {
            return Some(match error.kind() {
                io::ErrorKind::ConnectionRefused => "the connection was refused",
                io::ErrorKind::TimedOut => "connecting took too long",
                // How rustls reports that it does not trust, or is not trusted.
                io::ErrorKind::InvalidData => "the TLS handshake failed",
                _ => "no connection came about",
            });
        }
        cause = error.source();
    }
    connecting.then_some("no connection came about")
}

impl From<Failure> for StoreError {
    /// For calls that had no effect or may be repeated. Commits look at `Failure::Unanswered` first.
    fn from(failure: Failure) -> Self {
        let reason = match failure {
            Failure::NotProcessed(reason) | Failure::Unanswered(reason) => reason,
            Failure::StaleToken => "etcd denies access: the user is missing or not permitted".to_owned(),
            Failure::Refused(Refusal::LeaseNotFound) => {
                return StoreError::Invalid { reason: "the lease does not exist".to_owned() };
            }
            Failure::Refused(Refusal::FutureRevision) => {
                return StoreError::Invalid { reason: "the revision lies in the future".to_owned() };
            }
            Failure::Refused(Refusal::Credentials) => "etcd refused the user name or the password".to_owned(),
            Failure::Refused(Refusal::AuthDisabled) => "etcd has no authentication enabled".to_owned(),
            Failure::Refused(Refusal::Compacted) => "etcd has forgotten that revision".to_owned(),
            Failure::Refused(Refusal::TooManyOps) => "etcd accepts fewer operations at once".to_owned(),
            Failure::Refused(Refusal::RequestTooLarge) => "etcd accepts smaller requests only".to_owned(),
            Failure::Refused(Refusal::AnswerTooLarge) => {
                "etcd's answer is too large; --etcd-max-request-bytes must say what etcd's --max-request-bytes is"
                    .to_owned()
            }
            Failure::Refused(Refusal::Other(text)) => format!("etcd refused the request: {text}"),
        };
        StoreError::Unavailable { reason }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_is_repeated_only_if_it_certainly_did_not_happen() {
        let safe = |code, text: &str| {
            let failure = classify(&Status::new(code, text));
            assert!(matches!(failure, Failure::NotProcessed(_) | Failure::StaleToken), "{text}: {failure:?}");
        };
        safe(Code::Unavailable, "etcdserver: no leader");
        safe(Code::ResourceExhausted, "etcdserver: too many requests");
        safe(Code::Unauthenticated, "etcdserver: invalid auth token");
        safe(Code::InvalidArgument, "etcdserver: revision of auth store is old");

        let unsafe_ = |code, text: &str| {
            let failure = classify(&Status::new(code, text));
            assert!(matches!(failure, Failure::Unanswered(_)), "{text}: {failure:?}");
        };
        unsafe_(Code::Unavailable, "etcdserver: request timed out");
        unsafe_(Code::Unavailable, "etcdserver: request timed out, possibly due to previous leader failure");
        unsafe_(Code::Unavailable, "etcdserver: leader changed");
        unsafe_(Code::Unavailable, "etcdserver: server stopped");
        unsafe_(Code::ResourceExhausted, "etcdserver: mvcc: database space exceeded");
        unsafe_(Code::Unavailable, "error reading from 10.0.0.1:2379");
        unsafe_(Code::Unknown, "transport error");
        unsafe_(Code::Cancelled, "");
        unsafe_(Code::Internal, "h2 protocol error");
        unsafe_(Code::DeadlineExceeded, "");
    }

    #[test]
    fn refusals_are_told_apart() {
        let check = |code, text: &str, expected: Refusal| {
            assert_eq!(classify(&Status::new(code, text)), Failure::Refused(expected), "{text}");
        };
        check(Code::OutOfRange, "etcdserver: mvcc: required revision has been compacted", Refusal::Compacted);
        check(Code::OutOfRange, "etcdserver: mvcc: required revision is a future revision", Refusal::FutureRevision);
        check(Code::NotFound, "etcdserver: requested lease not found", Refusal::LeaseNotFound);
        check(Code::InvalidArgument, "etcdserver: too many operations in txn request", Refusal::TooManyOps);
        check(Code::InvalidArgument, "etcdserver: request is too large", Refusal::RequestTooLarge);
        check(
            Code::PermissionDenied,
            "etcdserver: permission denied",
            Refusal::Other("etcdserver: permission denied".into()),
        );
    }

    #[test]
    fn no_text_of_a_connection_reaches_the_caller() {
        for code in [Code::Unavailable, Code::InvalidArgument, Code::Unknown] {
            let failure = classify(&Status::new(code, "dial 10.0.0.1:2379 as root:secret"));
            let text = StoreError::from(failure).to_string();
            assert!(!text.contains("10.0.0.1") && !text.contains("secret"), "{text}");
        }
    }
}
