//! Serials in paths. Our own extractor, so that a path that cannot be decoded gets the error body every other mistake gets.

use axum::{
    extract::{FromRequestParts, Path},
    http::request::Parts,
};
use sabakan_domain::words::Serial;

use super::ApiError;

/// The serial a path names.
pub struct SerialPath(pub Serial);

impl<S: Send + Sync> FromRequestParts<S> for SerialPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<SerialPath, ApiError> {
        let Path(text) = Path::<String>::from_request_parts(parts, state)
            .await
            .map_err(|_| ApiError::invalid("serial: the path is not percent-encoded UTF-8"))?;
        Ok(SerialPath(Serial::new(text)?))
    }
}
