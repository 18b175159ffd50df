//! Request bodies, within bounds: a size, and what becomes of one for which there is no room or that
//! comes too slowly (`http::metered`).

use std::ops::Deref;

use axum::{
    body::Body,
    http::{HeaderMap, header},
};
use http_body_util::BodyExt;
use sabakan_domain::admission::NoRoom;
use sabakan_wire::rest::{ErrorKind, cluster::EnabledJson};
use serde_json::Value;
use zeroize::Zeroizing;

use super::ApiError;
use crate::{http::BodyRefusal, limits};

/// Bodies up to this size are kept where they were first put.
const SMALL: usize = 8 * 1024;

/// A whole body, and the room it takes.
pub(crate) struct Payload {
    /// Wiped, whatever becomes of the request: it may be a disk key.
    bytes: Zeroizing<Vec<u8>>,
    /// Read to its end, and kept because the room goes with it.
    _room: Body,
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
pub(crate) async fn read(headers: &HeaderMap, body: Body, max: usize) -> Result<Payload, ApiError> {
    check_type(headers)?;
    read_any(headers, body, max).await
}

/// A document of JSON of at most `max` bytes.
pub(super) async fn read_json(headers: &HeaderMap, body: Body, max: usize) -> Result<Value, ApiError> {
    let body = read(headers, body, max).await?;
    serde_json::from_slice(&body).map_err(|error| ApiError::invalid(format!("not JSON: {error}")))
}

/// How a switch shall be.
pub(super) async fn read_switch(headers: &HeaderMap, body: Body) -> Result<EnabledJson, ApiError> {
    let body = read(headers, body, limits::STATE_BYTES_MAX).await?;
    let wrong = |error: serde_json::Error| ApiError::invalid(format!("{{\"enabled\": true}} is expected: {error}"));
    // By way of an object: a list of values is no object, although the decoder of structs would take it for one.
    let members: serde_json::Map<String, Value> = serde_json::from_slice(&body).map_err(wrong)?;
    serde_json::from_value(Value::Object(members)).map_err(wrong)
}

/// The same as [`read`], whatever the body says to be.
pub(crate) async fn read_any(headers: &HeaderMap, mut body: Body, max: usize) -> Result<Payload, ApiError> {
    let too_large = || ApiError::new(ErrorKind::TooLarge, format!("the request body is larger than {max} bytes"));
    let announced = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    if announced.is_some_and(|length| length > max) {
        return Err(too_large());
    }
    // A small body is never moved while it grows, so that no copy of a key is left behind.
    let mut bytes = Zeroizing::new(Vec::with_capacity(max.min(SMALL)));
    loop {
        let Some(frame) = body.frame().await else { return Ok(Payload { bytes, _room: body }) };
        let frame = frame.map_err(|error| refused(&error))?;
        if let Some(data) = frame.data_ref() {
            if bytes.len() + data.len() > max {
                return Err(too_large());
            }
            bytes.extend_from_slice(data);
        }
    }
}

/// What a sender is told whose body was not read to its end.
fn refused(error: &axum::Error) -> ApiError {
    let why = match BodyRefusal::of(error) {
        Some(BodyRefusal::NoRoom(NoRoom::Address)) => "your address is sending too much at once",
        Some(BodyRefusal::NoRoom(NoRoom::Class | NoRoom::Full)) => "too many large requests at once",
        Some(BodyRefusal::TooSlow) => {
            let rate = limits::BODY_BYTES_PER_SECOND_MIN;
            return ApiError::invalid(format!(
                "the request body comes too slowly; at least {rate} bytes each second are expected"
            ));
        }
        Some(BodyRefusal::Broken(_)) | None => return ApiError::invalid("the request body ended early"),
    };
    ApiError::new(ErrorKind::Unavailable, format!("{why}; nothing was changed, try again"))
}

/// How many values a JSON text has at most: one more in every bracket and after every comma. Counted in the text, before there is any.
pub(crate) fn json_values(text: &[u8]) -> usize {
    let (mut count, mut quoted, mut escaped) = (1, false, false);
    for byte in text {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b',' | b'[' | b'{' if !quoted => count += 1,
            _ => {}
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_counted_before_they_are_made() {
        let check = |text: &str, expected: usize| assert_eq!(json_values(text.as_bytes()), expected, "{text}");
        check("7", 1);
        check("[[],[],[]]", 7);
        check(r#"{"a":1,"b":[2,3]}"#, 5);
        check(r#"{"a":"[,{\",["}"#, 2);
    }
}
