//! Request bodies, within bounds: a size, and no long silence while one is being sent.

use axum::{body::Body, http::header};
use http_body_util::BodyExt;
use sabakan_wire::rest::ErrorKind;

use super::ApiError;
use crate::limits;

/// Reads a whole body of at most `max` bytes. Length announced or not, no more than that is kept.
pub(super) async fn read(headers: &axum::http::HeaderMap, mut body: Body, max: usize) -> Result<Vec<u8>, ApiError> {
    let too_large = || ApiError::new(ErrorKind::TooLarge, format!("the request body is larger than {max} bytes"));
    let announced = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    if announced.is_some_and(|length| length > max) {
        return Err(too_large());
    }
    let mut bytes = Vec::with_capacity(announced.unwrap_or(0));
    loop {
        let frame = tokio::time::timeout(limits::BODY_PAUSE_MAX, body.frame()).await;
        let frame = frame.map_err(|_| ApiError::invalid("the request body stopped coming"))?;
        let Some(frame) = frame else { return Ok(bytes) };
        let frame = frame.map_err(|_| ApiError::invalid("the request body ended early"))?;
        if let Some(data) = frame.data_ref() {
            if bytes.len() + data.len() > max {
                return Err(too_large());
            }
            bytes.extend_from_slice(data);
        }
    }
}
