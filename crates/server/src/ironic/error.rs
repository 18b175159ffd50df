//! Refusals and failures of the provisioning API, in the shapes its clients read.

use std::sync::Arc;

use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use sabakan_service::ServiceError;
use sabakan_wire::{
    ironic::{Refused, VersionError, error_text, framework_text},
    rest::ErrorKind,
};
use serde_json::json;

use crate::{caller::CallerRefusal, rest::ApiError, status::status};

/// An answer that is not a success.
#[derive(Debug, Clone)]
pub(super) struct Fault {
    status: StatusCode,
    text: String,
    shape: Shape,
    /// What only the log may say.
    cause: Option<Arc<str>>,
}

/// Which of the shapes of this API an answer has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// By what the API is about.
    Fault,
    /// By what every API has: paths, methods, versions.
    Framework,
    /// By who asks.
    Stranger,
}

/// How long clients shall wait before they try again, in seconds.
const RETRY_AFTER: &str = "2";

impl Fault {
    fn new(status: StatusCode, text: impl Into<String>) -> Fault {
        Fault { status, text: text.into(), shape: Shape::Fault, cause: None }
    }

    /// The caller's mistake.
    pub(super) fn invalid(text: impl Into<String>) -> Fault {
        Fault::new(StatusCode::BAD_REQUEST, text)
    }

    /// Something of this API that is not there.
    pub(super) fn missing(text: impl Into<String>) -> Fault {
        Fault::new(StatusCode::NOT_FOUND, text)
    }

    /// A path that leads nowhere, or came with a later version.
    pub(super) fn nowhere() -> Fault {
        Fault { shape: Shape::Framework, ..Fault::new(StatusCode::NOT_FOUND, "") }
    }

    /// A path without this method.
    pub(super) fn method() -> Fault {
        Fault { shape: Shape::Framework, ..Fault::new(StatusCode::METHOD_NOT_ALLOWED, "") }
    }

    /// A request that is wrong before anybody looks at what it is about.
    pub(super) fn framework(status: StatusCode) -> Fault {
        Fault { shape: Shape::Framework, ..Fault::new(status, "") }
    }

    /// Nobody knows who asks.
    pub(super) fn stranger(text: impl Into<String>) -> Fault {
        Fault { shape: Shape::Stranger, ..Fault::new(StatusCode::UNAUTHORIZED, text) }
    }

    /// The one who asks may not.
    pub(super) fn forbidden(text: impl Into<String>) -> Fault {
        Fault::new(StatusCode::FORBIDDEN, text)
    }

    /// A defect of ours.
    pub(super) fn defect(text: impl Into<String>) -> Fault {
        Fault::new(StatusCode::INTERNAL_SERVER_ERROR, text)
    }

    /// The same about a node that was not found.
    pub(super) fn about_node(self, id: &str) -> Fault {
        self.about("Node", id)
    }

    /// The same about a thing of some kind that was not found.
    pub(super) fn about(self, kind: &str, id: &str) -> Fault {
        if self.status == StatusCode::NOT_FOUND && self.shape == Shape::Fault {
            return Fault::missing(format!("{kind} {id} could not be found."));
        }
        self
    }

    /// The same about something that a body names: then the request is wrong, not its path.
    pub(super) fn in_body(self) -> Fault {
        if self.status == StatusCode::NOT_FOUND { Fault::invalid(self.text) } else { self }
    }

    /// The same without a word about what is missing: whoever asks has shown nothing.
    pub(super) fn bare(self) -> Fault {
        self.worded("Resource could not be found.")
    }

    /// The same in other words about what is missing.
    pub(super) fn worded(self, text: impl Into<String>) -> Fault {
        if self.status == StatusCode::NOT_FOUND { Fault::missing(text) } else { self }
    }

    /// What only the log may say.
    pub(super) fn cause(&self) -> Option<&str> {
        self.cause.as_deref()
    }
}

impl IntoResponse for Fault {
    fn into_response(self) -> Response {
        let Fault { status, text, shape, cause: _ } = &self;
        let body = match shape {
            Shape::Fault => error_text(status.is_client_error(), text),
            Shape::Framework => framework_text(status.as_u16(), status.canonical_reason().unwrap_or_default(), text),
            Shape::Stranger => json!({ "error": { "message": text, "code": status.as_u16() } }).to_string(),
        };
        let json = HeaderValue::from_static("application/json");
        let mut response = (*status, [(header::CONTENT_TYPE, json)], body).into_response();
        let headers = response.headers_mut();
        match *status {
            StatusCode::UNAUTHORIZED => {
                headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Basic realm=\"sabakan\""));
            }
            StatusCode::SERVICE_UNAVAILABLE => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER));
            }
            _ => {}
        }
        response.extensions_mut().insert(self);
        response
    }
}

impl From<ApiError> for Fault {
    fn from(error: ApiError) -> Fault {
        let status = match error.kind() {
            // A rule forbids it in the present state: clients of this API expect a mistake of theirs, not a conflict to wait for.
            ErrorKind::Refused => StatusCode::BAD_REQUEST,
            kind => status(kind),
        };
        Fault { cause: error.cause().map(Arc::from), ..Fault::new(status, error.reason()) }
    }
}

impl From<CallerRefusal> for Fault {
    fn from(refusal: CallerRefusal) -> Fault {
        match refusal {
            CallerRefusal::UnknownToken => Fault::stranger(CallerRefusal::UNKNOWN_TOKEN),
            CallerRefusal::Denied { text, shown: true } => Fault::forbidden(text),
            // Clients of this API ask for credentials when they read 401, and give up when they read 403.
            CallerRefusal::Denied { text, shown: false } => Fault::stranger(text),
            CallerRefusal::Trouble(error) => error.into(),
        }
    }
}

impl From<ServiceError> for Fault {
    fn from(error: ServiceError) -> Fault {
        match error {
            ServiceError::Stale(text) => Fault::new(StatusCode::PRECONDITION_FAILED, text),
            ServiceError::Hardware(text) => Fault::new(StatusCode::INTERNAL_SERVER_ERROR, text),
            other => ApiError::from(other).into(),
        }
    }
}

impl From<Refused> for Fault {
    fn from(refused: Refused) -> Fault {
        match refused {
            Refused::Invalid(text) => Fault::invalid(text),
            // The only use of this status: clients lower their version when they see it.
            Refused::Version(_) => Fault::new(StatusCode::NOT_ACCEPTABLE, refused.to_string()),
        }
    }
}

impl From<VersionError> for Fault {
    fn from(error: VersionError) -> Fault {
        Fault { shape: Shape::Framework, ..Fault::new(StatusCode::NOT_ACCEPTABLE, error.to_string()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_and_their_statuses() {
        let check = |error: ServiceError, expected: u16| {
            let text = error.to_string();
            assert_eq!(Fault::from(error).into_response().status().as_u16(), expected, "{text}");
        };
        check(ServiceError::NotFound, 404);
        check(ServiceError::Invalid(String::new()), 400);
        check(ServiceError::Refused("the verb is not accepted".to_owned()), 400);
        check(ServiceError::Conflict("locked".to_owned()), 409);
        check(ServiceError::Forbidden("protected".to_owned()), 403);
        check(ServiceError::Stale(String::new()), 412);
        check(ServiceError::Hardware(String::new()), 500);
        check(ServiceError::TooLarge(String::new()), 413);
        check(ServiceError::Busy, 503);
        let busy = Fault::from(ServiceError::Busy).into_response();
        assert!(busy.headers().contains_key(header::RETRY_AFTER));
        let stranger = Fault::stranger("who?").into_response();
        assert!(stranger.headers().contains_key(header::WWW_AUTHENTICATE));
    }
}
