//! Request bodies, within bounds: a size, no long silence while one is being sent, and room for all of them together.

use std::{ops::Deref, sync::Arc};

use axum::{
    body::Body,
    http::{HeaderMap, header},
};
use http_body_util::BodyExt;
use sabakan_wire::rest::{ErrorKind, cluster::EnabledJson};
use serde_json::Value;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

use zeroize::Zeroizing;

use super::ApiError;
use crate::limits;

/// What one permit of the room for bodies stands for.
pub(super) const UNIT: usize = 1024;

/// Bodies up to this size are kept where they were first put.
const SMALL: usize = 8 * 1024;

/// A whole body, and the room it takes.
pub(crate) struct Payload {
    /// Wiped, whatever becomes of the request: it may be a disk key.
    bytes: Zeroizing<Vec<u8>>,
    _room: OwnedSemaphorePermit,
}

impl Payload {
    /// The bytes themselves, for those who wipe them.
    pub(super) fn into_bytes(mut self) -> Vec<u8> {
        std::mem::take(&mut *self.bytes)
    }

    /// The text that it is.
    pub(super) fn text(&self) -> Result<&str, ApiError> {
        std::str::from_utf8(&self.bytes).map_err(|_| ApiError::invalid("the body is not UTF-8"))
    }
}

impl Deref for Payload {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

/// What clients call the bodies of this API: JSON and bytes by their names, and whatever `curl -d` and simple libraries call anything.
const TYPES: [&str; 4] =
    ["application/json", "application/octet-stream", "application/x-www-form-urlencoded", "text/plain"];

/// Refuses a body that says to be something else, such as a picture or a multipart form, before it is taken for a key.
fn check_type(headers: &HeaderMap) -> Result<(), ApiError> {
    let Some(value) = headers.get(header::CONTENT_TYPE) else { return Ok(()) };
    let name = value.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim();
    if name.is_empty() || TYPES.iter().any(|known| name.eq_ignore_ascii_case(known)) {
        return Ok(());
    }
    Err(ApiError::invalid(format!("content type {name:?} is not accepted; {} are, or none", TYPES.join(", "))))
}

/// Reads a whole body of at most `max` bytes. Length announced or not, no more than that is kept.
pub(crate) async fn read(
    room: &Arc<Semaphore>,
    headers: &HeaderMap,
    body: Body,
    max: usize,
) -> Result<Payload, ApiError> {
    check_type(headers)?;
    read_any(room, headers, body, max).await
}

/// A document of JSON of at most `max` bytes.
pub(super) async fn read_json(
    room: &Arc<Semaphore>,
    headers: &HeaderMap,
    body: Body,
    max: usize,
) -> Result<Value, ApiError> {
    let body = read(room, headers, body, max).await?;
    serde_json::from_slice(&body).map_err(|error| ApiError::invalid(format!("not JSON: {error}")))
}

/// How a switch shall be.
pub(super) async fn read_switch(
    room: &Arc<Semaphore>,
    headers: &HeaderMap,
    body: Body,
) -> Result<EnabledJson, ApiError> {
    let body = read(room, headers, body, limits::STATE_BYTES_MAX).await?;
    let wrong = |error| ApiError::invalid(format!("{{\"enabled\": true}} is expected: {error}"));
    serde_json::from_slice(&body).map_err(wrong)
}

/// The same as [`read`], whatever the body says to be.
pub(crate) async fn read_any(
    room: &Arc<Semaphore>,
    headers: &HeaderMap,
    mut body: Body,
    max: usize,
) -> Result<Payload, ApiError> {
    let too_large = || ApiError::new(ErrorKind::TooLarge, format!("the request body is larger than {max} bytes"));
    let announced = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    if announced.is_some_and(|length| length > max) {
        return Err(too_large());
    }
    // What may come is reserved, what has come is allocated.
    let units = u32::try_from(announced.unwrap_or(max) / UNIT + 1).unwrap_or(u32::MAX);
    let reserved = timeout(limits::BODY_PAUSE_MAX, Arc::clone(room).acquire_many_owned(units)).await;
    let Ok(Ok(room)) = reserved else {
        let text = "too many large requests at once; nothing was changed, try again";
        return Err(ApiError::new(ErrorKind::Unavailable, text));
    };
    // A small body is never moved while it grows, so that no copy of a key is left behind.
    let mut bytes = Zeroizing::new(Vec::with_capacity(max.min(SMALL)));
    loop {
        let frame = timeout(limits::BODY_PAUSE_MAX, body.frame()).await;
        let frame = frame.map_err(|_| ApiError::invalid("the request body stopped coming"))?;
        let Some(frame) = frame else { return Ok(Payload { bytes, _room: room }) };
        let frame = frame.map_err(|_| ApiError::invalid("the request body ended early"))?;
        if let Some(data) = frame.data_ref() {
            if bytes.len() + data.len() > max {
                return Err(too_large());
            }
            bytes.extend_from_slice(data);
        }
    }
}
