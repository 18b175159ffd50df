//! Refusals and failures of `/api/v1`. Handlers return an [`ApiError`]; `http::observe` writes the body, because only it knows the
//! id of the request.

use std::sync::Arc;

use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use sabakan_domain::{
    access::UnknownTokenRole,
    cluster::shape::Problem,
    crypt::DiskPathError,
    dhcp::DhcpConfigError,
    ipam::IpamError,
    lifecycle::UnknownState,
    time::MomentError,
    words::{LabelError, SerialError},
};
use sabakan_service::{ServiceError, error_chain};
use sabakan_wire::{
    json::DecodeError,
    rest::{ErrorJson, ErrorKind, InputError, QueryError, cluster::ProblemJson},
};

use crate::status::status;

/// When a request that could not be served may be tried again: what it waited for is usually over within a second.
const RETRY_AFTER_SECONDS: &str = "1";

/// An answer that is not a success.
#[derive(Debug, Clone)]
pub struct ApiError {
    kind: ErrorKind,
    reason: String,
    /// Everything that is wrong in a document, each with its place.
    problems: Vec<ProblemJson>,
    /// How many of what was sent fit into one request.
    fits: Option<u64>,
    /// Whether clients of the older API may ask for this, and expect its statuses and texts.
    older: bool,
    /// What only the log may say.
    cause: Option<Arc<str>>,
}

impl ApiError {
    /// An error of a kind; the reason is shown to the caller.
    pub fn new(kind: ErrorKind, reason: impl Into<String>) -> ApiError {
        ApiError { kind, reason: reason.into(), problems: Vec::new(), fits: None, older: true, cause: None }
    }

    /// The caller's mistakes, all of them.
    pub fn problems(problems: &[Problem]) -> ApiError {
        let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
        let reason = match lines.as_slice() {
            [line] => line.clone(),
            lines => format!("{} problems\n{}", lines.len(), lines.join("\n")),
        };
        let problems = problems.iter().map(ProblemJson::from).collect();
        ApiError { problems, ..ApiError::new(ErrorKind::Invalid, reason) }
    }

    /// The same where the older API has nothing: statuses and texts need not be its own.
    pub fn plainly(self) -> ApiError {
        ApiError { older: false, ..self }
    }

    fn caused(kind: ErrorKind, reason: String, cause: Option<Arc<str>>) -> ApiError {
        ApiError { cause, ..ApiError::new(kind, reason) }
    }

    /// The caller's mistake.
    pub fn invalid(reason: impl Into<String>) -> ApiError {
        ApiError::new(ErrorKind::Invalid, reason)
    }

    /// The status of this API.
    pub fn status(&self) -> StatusCode {
        match self.kind {
            // The older API knows no refusal; its clients expect 500 when a rule forbids something.
            ErrorKind::Refused if self.older => StatusCode::INTERNAL_SERVER_ERROR,
            kind => status(kind),
        }
    }

    /// What kind of error it is.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// What is wrong, without the words this API puts before it.
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// Whether it says that there is no such thing.
    pub fn is_not_found(&self) -> bool {
        self.kind == ErrorKind::NotFound
    }

    /// What only the log may say.
    pub fn cause(&self) -> Option<&str> {
        self.cause.as_deref()
    }

    /// The text of this API: fixed beginnings that clients of the older one know, then the reason.
    pub fn text(&self) -> String {
        let reason = &self.reason;
        match self.kind {
            ErrorKind::Refused | ErrorKind::Conflict | ErrorKind::Internal if !self.older => reason.clone(),
            ErrorKind::Invalid if reason.is_empty() => "invalid request".to_owned(),
            ErrorKind::Invalid => format!("invalid request: {reason}"),
            ErrorKind::Forbidden => format!("forbidden: {reason}"),
            ErrorKind::Unauthorized => format!("unauthorized: {reason}"),
            ErrorKind::NotFound => "requested resource is not found".to_owned(),
            ErrorKind::MethodNotAllowed => "method not allowed".to_owned(),
            ErrorKind::Conflict => format!("conflicted: {reason}"),
            ErrorKind::Refused | ErrorKind::Internal => format!("{reason}: Internal Server Error"),
            ErrorKind::Gone | ErrorKind::TooLarge | ErrorKind::Unavailable | ErrorKind::OutcomeUnknown => {
                reason.clone()
            }
        }
    }

    /// The complete answer.
    pub fn render(&self, request_id: &str) -> Response {
        let body = ErrorJson {
            error: self.text(),
            request_id: request_id.to_owned(),
            status: self.status().as_u16(),
            kind: Some(self.kind),
            problems: self.problems.clone(),
            fits: self.fits,
        };
        let mut text = serde_json::to_string(&body).expect("texts and numbers serialise");
        text.push('\n');
        let json = HeaderValue::from_static("application/json");
        let mut response = (self.status(), [(header::CONTENT_TYPE, json)], text).into_response();
        if self.kind == ErrorKind::Unavailable {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER_SECONDS));
        }
        response
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = self.status().into_response();
        response.extensions_mut().insert(self);
        response
    }
}

impl From<ServiceError> for ApiError {
    fn from(error: ServiceError) -> ApiError {
        let cause = Some(error_chain(&error).into());
        let reason = error.to_string();
        match error {
            ServiceError::NotFound => ApiError::new(ErrorKind::NotFound, reason),
            ServiceError::Invalid(_) => ApiError::new(ErrorKind::Invalid, reason),
            ServiceError::Refused(_) => ApiError::new(ErrorKind::Refused, reason),
            // The older API answers 400 here, where it answers 500 to every other refusal.
            ServiceError::KeysExist => ApiError::new(ErrorKind::Invalid, reason),
            ServiceError::Forbidden(_) => ApiError::new(ErrorKind::Forbidden, reason),
            ServiceError::Conflict(_) | ServiceError::Stale(_) => ApiError::new(ErrorKind::Conflict, reason),
            ServiceError::Hardware(_) => ApiError::new(ErrorKind::Unavailable, reason),
            ServiceError::Gone { .. } => ApiError::new(ErrorKind::Gone, reason),
            ServiceError::TooLarge(_) => ApiError::new(ErrorKind::TooLarge, reason),
            ServiceError::TooManyAtOnce { fits, .. } => {
                ApiError { fits: Some(fits), ..ApiError::new(ErrorKind::TooLarge, reason) }
            }
            ServiceError::Busy | ServiceError::Crowded(_) => ApiError::new(ErrorKind::Unavailable, reason),
            ServiceError::Problems(problems) => ApiError::problems(&problems.0),
            ServiceError::Unavailable(_) | ServiceError::StoreRefusesWrites(_) | ServiceError::RawKey(_) => {
                ApiError::caused(ErrorKind::Unavailable, reason, cause)
            }
            ServiceError::OutcomeUnknown(_) => ApiError::caused(ErrorKind::OutcomeUnknown, reason, cause),
            ServiceError::Sealing(_) | ServiceError::KeyFile(_) | ServiceError::Randomness(_) => {
                ApiError::caused(ErrorKind::Internal, reason, cause)
            }
            ServiceError::Damaged { .. } | ServiceError::Defect(_) | ServiceError::Internal(_) => {
                ApiError::caused(ErrorKind::Internal, reason, cause)
            }
        }
    }
}

/// What a caller wrote and the domain or the decoder refused.
macro_rules! invalid_input {
    ($($error:ty),*) => { $(
        impl From<$error> for ApiError {
            fn from(error: $error) -> ApiError {
                ApiError::invalid(error.to_string())
            }
        }
    )* };
}

invalid_input!(
    DecodeError,
    InputError,
    QueryError,
    IpamError,
    DhcpConfigError,
    SerialError,
    LabelError,
    DiskPathError,
    MomentError,
    UnknownState,
    UnknownTokenRole
);

#[cfg(test)]
mod tests {
    use sabakan_store::StoreError;

    use super::*;

    #[test]
    fn documented_statuses_and_texts() {
        let check = |error: ServiceError, status: u16, text: &str| {
            let error = ApiError::from(error);
            assert_eq!((error.status().as_u16(), error.text().as_str()), (status, text));
        };
        let store = || StoreError::Unavailable { reason: "member 10.0.0.1 refused".into() };
        check(ServiceError::NotFound, 404, "requested resource is not found");
        check(ServiceError::Invalid("invalid role".into()), 400, "invalid request: invalid role");
        check(
            ServiceError::Refused("machines already exists".into()),
            500,
            "machines already exists: Internal Server Error",
        );
        check(
            ServiceError::Conflict("serial a is already registered".into()),
            409,
            "conflicted: serial a is already registered",
        );
        check(ServiceError::TooLarge("too much".into()), 413, "too much");
        check(ServiceError::Internal(store()), 500, "internal error: Internal Server Error");
        check(ServiceError::Unavailable(store()), 503, "the store is not available; nothing was changed, try again");
        let full = StoreError::CannotWrite { reason: "no space is left".into() };
        check(ServiceError::from(full), 503, "the store cannot write: no space is left; nothing was changed");
        let unknown = ApiError::from(ServiceError::OutcomeUnknown(store()));
        assert_eq!(unknown.status().as_u16(), 504);
        assert!(unknown.cause().is_some_and(|cause| cause.contains("member 10.0.0.1")), "the log has the cause");
        assert!(!unknown.text().contains("10.0.0.1"), "the caller does not");
        assert_eq!(ApiError::invalid("").text(), "invalid request");
        let problem = |path: &str| Problem::new(path, "is wrong");
        assert_eq!(ApiError::problems(&[problem("a")]).text(), "invalid request: a: is wrong");
        let two = ApiError::problems(&[problem("a"), problem("b")]);
        assert_eq!(two.text(), "invalid request: 2 problems\na: is wrong\nb: is wrong");
        let refused = ApiError::from(ServiceError::Refused("there is no template".into())).plainly();
        assert_eq!((refused.status().as_u16(), refused.text().as_str()), (409, "there is no template"));
    }
}
