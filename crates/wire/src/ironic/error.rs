//! Refusals, and how this API writes them: JSON whose one member is a text that is JSON again. Clients decode it twice.

use serde_json::json;

/// Why a request cannot be understood, in the kinds this API has a status for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// It contradicts itself or asks for what can never be.
    #[error("{0}")]
    Invalid(String),
    /// It uses something that its version does not have.
    #[error("Request not acceptable: {0}")]
    Version(String),
}

impl Refused {
    /// The caller's mistake.
    pub fn invalid(text: impl Into<String>) -> Refused {
        Refused::Invalid(text.into())
    }

    /// Something that came later than the version of the request.
    pub fn newer(what: &str, since: u16) -> Refused {
        Refused::Version(format!("{what} needs version 1.{since}"))
    }
}

/// The body of a refusal by this API.
pub fn error_text(by_client: bool, text: &str) -> String {
    let code = if by_client { "Client" } else { "Server" };
    let inner = json!({ "faultcode": code, "faultstring": text, "debuginfo": null });
    json!({ "error_message": inner.to_string() }).to_string()
}

/// The body of a refusal that has nothing to do with what the API is about: no such path, no such version.
pub fn framework_text(status: u16, title: &str, text: &str) -> String {
    let inner = json!({ "code": status, "title": title, "description": text });
    json!({ "error_message": inner.to_string() }).to_string()
}
