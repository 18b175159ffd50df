//! The body of every refusal and failure.

use serde::{Deserialize, Serialize};

use super::cluster::ProblemJson;

/// What kind of refusal or failure it was, whatever status an older API gave it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ErrorKind {
    /// The request is not well formed, or a value is out of range.
    Invalid,
    /// The token shown is not one of ours.
    Unauthorized,
    /// The caller may not do this.
    Forbidden,
    /// There is no such thing.
    NotFound,
    /// The method does not exist here.
    MethodNotAllowed,
    /// A rule forbids it in the present state.
    Refused,
    /// It collides with what is there.
    Conflict,
    /// The history asked for is no longer kept.
    Gone,
    /// More than is accepted at once.
    TooLarge,
    /// Not now; trying again may work.
    Unavailable,
    /// The write may or may not have happened.
    OutcomeUnknown,
    /// A defect of the server.
    Internal,
}

impl ErrorKind {
    /// Every kind.
    pub const ALL: [ErrorKind; 12] = [
        ErrorKind::Invalid,
        ErrorKind::Unauthorized,
        ErrorKind::Forbidden,
        ErrorKind::NotFound,
        ErrorKind::MethodNotAllowed,
        ErrorKind::Refused,
        ErrorKind::Conflict,
        ErrorKind::Gone,
        ErrorKind::TooLarge,
        ErrorKind::Unavailable,
        ErrorKind::OutcomeUnknown,
        ErrorKind::Internal,
    ];

    /// The word for it, as it stands in answers.
    pub const fn as_str(self) -> &'static str {
        match self {
            ErrorKind::Invalid => "invalid",
            ErrorKind::Unauthorized => "unauthorized",
            ErrorKind::Forbidden => "forbidden",
            ErrorKind::NotFound => "not-found",
            ErrorKind::MethodNotAllowed => "method-not-allowed",
            ErrorKind::Refused => "refused",
            ErrorKind::Conflict => "conflict",
            ErrorKind::Gone => "gone",
            ErrorKind::TooLarge => "too-large",
            ErrorKind::Unavailable => "unavailable",
            ErrorKind::OutcomeUnknown => "outcome-unknown",
            ErrorKind::Internal => "internal",
        }
    }
}

/// The body of every answer that is not a success.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ErrorJson {
    /// What went wrong and what to do, for people.
    #[schema(example = "requested resource is not found")]
    pub error: String,
    /// Find the request in the server's log by this.
    pub request_id: String,
    /// The HTTP status once more.
    #[schema(example = 404)]
    pub status: u16,
    /// For programs; answers of older servers do not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<ErrorKind>,
    /// Everything that is wrong in a document that was sent, each with its place; absent where there is only one thing to say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<ProblemJson>,
    /// How many of what was sent fit into one request, where it was too many; about, and never more than that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = 900)]
    pub fits: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_answers() {
        for kind in ErrorKind::ALL {
            assert_eq!(serde_json::to_value(kind).expect("a word"), kind.as_str());
        }
    }
}
