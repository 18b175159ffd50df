//! Names in paths. Our own extractors, so that a path that cannot be decoded gets the error body every other mistake gets.

use axum::{
    extract::{FromRequestParts, Path},
    http::request::Parts,
};
use sabakan_domain::words::Serial;
use serde::de::DeserializeOwned;

use super::ApiError;

/// What a path names, as texts.
pub struct InPath<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for InPath<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<InPath<T>, ApiError> {
        let Path(named) = Path::<T>::from_request_parts(parts, state)
            .await
            .map_err(|_| ApiError::invalid("serial: the path is not percent-encoded UTF-8"))?;
        Ok(InPath(named))
    }
}

/// The serial a path names.
pub struct SerialPath(pub Serial);

impl<S: Send + Sync> FromRequestParts<S> for SerialPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<SerialPath, ApiError> {
        let InPath(text) = InPath::<String>::from_request_parts(parts, state).await?;
        Ok(SerialPath(Serial::new(text)?))
    }
}
