//! What every request has: a version, somebody who asks, an address that links begin with, a body. And what every answer has.

use std::{future::Future, sync::Arc};

use axum::{
    body::Body,
    extract::{FromRequestParts, Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header, request::Parts},
    middleware::Next,
    response::{IntoResponse, Response},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use sabakan_domain::{
    access::{Caller, Deed, permits},
    audit::{self, Known},
};
use sabakan_service::{ServiceError, error_chain};
use sabakan_wire::ironic::{
    API_VERSION, MAX_VERSION_HEADER, MIN_VERSION_HEADER, NESTING_MAX, REQUEST_ID, VERSION_HEADER, Version, nesting,
};
use serde::Serialize;
use serde_json::Value;

use super::{App, error::Fault, ramdisk};
use crate::{
    http::Peer,
    limits,
    rest::access::{bearer, declared},
};

/// A request, as handlers see it.
#[derive(Debug, Clone)]
pub(super) struct Call {
    /// The version it speaks.
    pub version: Version,
    /// What links begin with.
    pub base: String,
    /// Who asks.
    pub actor: Arc<audit::Actor>,
    /// The version of the node the caller has seen, if it said so.
    pub known: Option<u64>,
}

impl<S: Send + Sync> FromRequestParts<S> for Call {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Call, Fault> {
        parts.extensions.get::<Call>().cloned().ok_or_else(|| Fault::defect("the request was not looked at"))
    }
}

impl Call {
    /// Refuses what came with a later version, as if there were no such path.
    pub(super) fn needs(&self, since: u16) -> Result<(), Fault> {
        if self.version.has(since) { Ok(()) } else { Err(Fault::nowhere()) }
    }

    /// Refuses a kind of thing that came with a later version, and says so.
    pub(super) fn knows(&self, since: u16, things: &str) -> Result<(), Fault> {
        if self.version.has(since) {
            Ok(())
        } else {
            Err(Fault::missing(format!("The API version does not allow {things}")))
        }
    }

    /// Refuses what came with a later version, as if the path had no such method.
    pub(super) fn has_method(&self, since: u16) -> Result<(), Fault> {
        if self.version.has(since) { Ok(()) } else { Err(Fault::method()) }
    }
}

/// Agrees on a version, finds out who asks, and judges. Nothing answers without passing here.
pub(super) async fn around(State(app): State<App>, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    let id = format!("req-{}", uuid::Uuid::new_v4());
    let text = |name: &str| parts.headers.get(name).and_then(|value| value.to_str().ok());
    let version = Version::negotiate(text(VERSION_HEADER), text(API_VERSION));
    let response = match version.clone() {
        Err(error) => Fault::from(error).into_response(),
        Ok(version) => match look(&app, &parts, version).await {
            Err(fault) => fault.into_response(),
            Ok(call) => {
                parts.extensions.insert(call);
                spoken(next.run(Request::from_parts(parts, body)).await)
            }
        },
    };
    if let Some(fault) = response.extensions().get::<Fault>()
        && let Some(cause) = fault.cause()
    {
        tracing::error!(request_id = id, error = cause, "request failed");
    }
    finish(response, version.ok(), &id)
}

/// A refusal in the shape of this API, also where the framework found the mistake: a path that is no text, for example.
fn spoken(response: Response) -> Response {
    let refused = response.status().is_client_error() && response.extensions().get::<Fault>().is_none();
    if refused { Fault::framework(response.status()).into_response() } else { response }
}

/// The headers every answer has.
fn finish(mut response: Response, version: Option<Version>, id: &str) -> Response {
    let headers = response.headers_mut();
    let mut put = |name: &'static str, value: &str| {
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.insert(HeaderName::from_static(name), value);
        }
    };
    put(MIN_VERSION_HEADER, &Version::MIN.to_string());
    put(MAX_VERSION_HEADER, &Version::MAX.to_string());
    if let Some(version) = version {
        put(VERSION_HEADER, &version.to_string());
    }
    put(REQUEST_ID, id);
    put("x-openstack-request-id", id);
    response
}

/// Recognises and judges the caller.
async fn look(app: &App, parts: &Parts, version: Version) -> Result<Call, Fault> {
    let headers = &parts.headers;
    let ip = parts.extensions.get::<Peer>().map(|peer| peer.0.ip().to_canonical());
    let wanted = deed(&parts.method, parts.uri.path());
    let shown = bearer(headers).map(str::to_owned).or_else(|| basic(headers)).filter(|_| wanted.is_some());
    let recognised = match &shown {
        None => None,
        Some(text) => match app.tokens.recognise(text).await? {
            Some(found) => Some(found),
            None => {
                return Err(Fault::stranger("the token is malformed, unknown or revoked; leave it out or use another"));
            }
        },
    };
    let caller = Caller { ip, token: recognised.as_ref().map(|(_, role)| *role) };
    if let Some(deed) = wanted
        && let Err(denied) = permits(deed, &caller, &app.policy)
    {
        let text = denied.to_string();
        return Err(if shown.is_some() { Fault::forbidden(text) } else { Fault::stranger(text) });
    }
    let (name, known) = match recognised {
        Some((name, _)) => (name, Known::Token),
        None => (declared(headers), Known::Declared),
    };
    let seen = headers.get(header::IF_MATCH).and_then(|value| value.to_str().ok()).filter(|value| *value != "*");
    let seen = seen.map(|value| u64::from_str_radix(value.trim_matches('"'), 16));
    Ok(Call {
        version,
        base: base(headers),
        actor: Arc::new(audit::Actor { name, known, ip }),
        // A version that is none of ours is no node's version.
        known: seen.map(|seen| seen.unwrap_or(u64::MAX)),
    })
}

/// What a request wants to do; `None`: something everybody may do, whatever the policy.
fn deed(method: &Method, path: &str) -> Option<Deed> {
    match path {
        "/" | "/v1" => None,
        path if ramdisk::is_open(path) => None,
        _ if matches!(*method, Method::GET | Method::HEAD) => Some(Deed::ReadRegistry),
        _ => Some(Deed::ChangeNodes),
    }
}

/// The password of HTTP basic authentication: a token. The user name is for the client's own use.
fn basic(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, text) = value.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = STANDARD.decode(text.trim()).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    // What cannot be read was meant to be something; it is refused as a token nobody knows.
    Some(
        decoded
            .as_deref()
            .and_then(|text| text.split_once(':'))
            .map_or_else(String::new, |(_, password)| password.to_owned()),
    )
}

/// The address the client used. A proxy's word for the scheme is believed: nothing but links depends on it.
fn base(headers: &HeaderMap) -> String {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let scheme = text("x-forwarded-proto").filter(|scheme| matches!(*scheme, "http" | "https")).unwrap_or("http");
    format!("{scheme}://{}", text("host").unwrap_or("localhost"))
}

/// Reads a JSON body of at most `max` bytes; none at all is `null`.
pub(super) async fn read_json(app: &App, headers: &HeaderMap, body: Body, max: usize) -> Result<Value, Fault> {
    let payload = crate::rest::body::read_any(&app.bodies, headers, body, max).await?;
    if payload.is_empty() {
        return Ok(Value::Null);
    }
    if values(&payload) > limits::JSON_VALUES_MAX {
        return Err(Fault::invalid(format!("the body has more than {} values", limits::JSON_VALUES_MAX)));
    }
    // The parser's text names a place, never what stands there: it may be a password.
    let value: Value = serde_json::from_slice(&payload).map_err(|error| {
        Fault::invalid(format!("the body is not JSON (line {}, column {})", error.line(), error.column()))
    })?;
    if nesting(&value) > NESTING_MAX {
        return Err(Fault::invalid(format!("the body is nested more than {NESTING_MAX} levels deep")));
    }
    Ok(value)
}

/// How many values a JSON text has at most: one more in every bracket and after every comma. Counted in the text, before there is any.
fn values(text: &[u8]) -> usize {
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

/// An answer with a body.
pub(super) fn json(status: StatusCode, body: &impl Serialize) -> Response {
    match serde_json::to_vec(body) {
        Ok(text) => {
            (status, [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))], text).into_response()
        }
        Err(error) => {
            tracing::error!(error = error_chain(&error), "an answer cannot be written");
            Fault::defect("the answer cannot be written").into_response()
        }
    }
}

/// An answer without a body, and with the place where to look if there is one.
pub(super) fn empty(status: StatusCode, location: Option<String>) -> Response {
    let mut response = status.into_response();
    if let Some(Ok(place)) = location.map(|place| HeaderValue::from_str(&place)) {
        response.headers_mut().insert(header::LOCATION, place);
    }
    response
}

/// Runs the work for a request, within bounds.
pub(super) async fn within<T>(work: impl Future<Output = Result<T, ServiceError>>) -> Result<T, Fault> {
    match tokio::time::timeout(limits::WORK_TIME_MAX, work).await {
        Ok(done) => Ok(done?),
        Err(_) => Err(Fault::defect(
            "the request took too long; a change may or may not have been made, look before trying again",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_counted_before_they_are_made() {
        let check = |text: &str, expected: usize| assert_eq!(values(text.as_bytes()), expected, "{text}");
        check("7", 1);
        check("[[],[],[]]", 7);
        check(r#"{"a":1,"b":[2,3]}"#, 5);
        check(r#"{"a":"[,{\",["}"#, 2);
    }

    #[test]
    fn who_shows_what() {
        let check = |value: &str, expected: Option<&str>| {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, HeaderValue::from_str(value).expect("a header"));
            assert_eq!(basic(&headers).as_deref(), expected, "{value}");
        };
        check(&format!("Basic {}", STANDARD.encode("me:secret:x")), Some("secret:x"));
        check("Basic ???", Some(""));
        check("Bearer x", None);
        assert_eq!(deed(&Method::GET, "/"), None);
        assert_eq!(deed(&Method::GET, "/v1/nodes"), Some(Deed::ReadRegistry));
        assert_eq!(deed(&Method::PUT, "/v1/nodes/x/states/power"), Some(Deed::ChangeNodes));
    }
}
