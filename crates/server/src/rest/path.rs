//! Names in paths. Our own extractors, so that a path that cannot be decoded gets the error body every other mistake gets.

use axum::{
    extract::{FromRequestParts, Path},
    http::request::Parts,
};
use sabakan_domain::words::Serial;
use sabakan_service::ServiceError;
use serde::de::DeserializeOwned;

use super::{ApiError, App};

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

/// The serial a path names. Not judged: it may be that of a machine of the older service, and one that nobody has is not found.
pub struct SerialPath(pub Serial);

impl<S: Send + Sync> FromRequestParts<S> for SerialPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<SerialPath, ApiError> {
        let InPath(text) = InPath::<String>::from_request_parts(parts, state).await?;
        Ok(SerialPath(Serial::stored(text)))
    }
}

/// What to answer about a machine. Serials are looked up whatever they are, since those of the older service were never judged. One that is
/// none and that no machine has is a mistake of the caller, who must not read it as "there is no such key".
pub async fn or_bad_serial<T>(app: &App, serial: &Serial, done: Result<T, ApiError>) -> Result<T, ApiError> {
    let Err(bad) = serial.judge() else { return done };
    if !done.as_ref().is_err_and(ApiError::is_not_found) {
        return done;
    }
    match app.machines.get(serial).await {
        Err(ServiceError::NotFound) => Err(bad.into()),
        _ => done,
    }
}
