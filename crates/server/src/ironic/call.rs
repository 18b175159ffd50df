//! What every request has: a version, somebody who asks, an address that links begin with, a body. And what every answer has.

use std::{future::Future, sync::Arc};

use axum::{
    body::Body,
    extract::{FromRequestParts, Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header, request::Parts},
    middleware::Next,
    response::{IntoResponse, Response},
};
use sabakan_domain::{access::Deed, audit};
use sabakan_service::{ServiceError, error_chain};
use sabakan_wire::ironic::{
    API_VERSION, MAX_VERSION_HEADER, MIN_VERSION_HEADER, NESTING_MAX, REQUEST_ID, VERSION_HEADER, Version, nesting,
};
use serde::Serialize;
use serde_json::Value;

use super::{App, error::Fault, ramdisk};
use crate::{caller::Schemes, http::Peer, limits, rest::body::json_values};

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
    let wanted = deed(&parts.method, parts.uri.path());
    let schemes = if wanted.is_some() { Schemes::BearerOrBasic } else { Schemes::Ignored };
    let caller = app.gate.recognise(headers, parts.extensions.get::<Peer>(), schemes).await?;
    if let Some(deed) = wanted {
        app.gate.judge(&caller, deed).await?;
    }
    let seen = headers.get(header::IF_MATCH).and_then(|value| value.to_str().ok()).filter(|value| *value != "*");
    let seen = seen.map(|value| u64::from_str_radix(value.trim_matches('"'), 16));
    Ok(Call {
        version,
        base: base(parts),
        actor: caller.actor,
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

/// The address the client used. A proxy's word for the scheme is believed: nothing but links depends on it.
fn base(parts: &Parts) -> String {
    let text = |name: &str| parts.headers.get(name).and_then(|value| value.to_str().ok());
    let is_tls = parts.extensions.get::<Peer>().is_some_and(|peer| peer.1);
    let own = if is_tls { "https" } else { "http" };
    let scheme = text("x-forwarded-proto").filter(|scheme| matches!(*scheme, "http" | "https")).unwrap_or(own);
    // HTTP/2 has no such header; the address is in the URL.
    let host = text("host").or_else(|| parts.uri.authority().map(|authority| authority.as_str()));
    format!("{scheme}://{}", host.unwrap_or("localhost"))
}

/// Reads a JSON body of at most `max` bytes; none at all is `null`.
pub(super) async fn read_json(headers: &HeaderMap, body: Body, max: usize) -> Result<Value, Fault> {
    let payload = crate::rest::body::read_any(headers, body, max).await?;
    if payload.is_empty() {
        return Ok(Value::Null);
    }
    if payload.len() <= limits::DECODE_INLINE_MAX {
        return decode(&payload);
    }
    // Megabytes of what a ramdisk found would keep everybody waiting whose connection this thread serves.
    let decoded = tokio::task::spawn_blocking(move || decode(&payload)).await;
    decoded.map_err(|_| Fault::defect("internal error"))?
}

fn decode(payload: &[u8]) -> Result<Value, Fault> {
    if json_values(payload) > limits::JSON_VALUES_MAX {
        return Err(Fault::invalid(format!("the body has more than {} values", limits::JSON_VALUES_MAX)));
    }
    // The parser's text names a place, never what stands there: it may be a password.
    let value: Value = serde_json::from_slice(payload).map_err(|error| {
        Fault::invalid(format!("the body is not JSON (line {}, column {})", error.line(), error.column()))
    })?;
    if nesting(&value) > NESTING_MAX {
        return Err(Fault::invalid(format!("the body is nested more than {NESTING_MAX} levels deep")));
    }
    Ok(value)
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
    fn requests_and_deeds() {
        assert_eq!(deed(&Method::GET, "/"), None);
        assert_eq!(deed(&Method::GET, "/v1/nodes"), Some(Deed::ReadRegistry));
        assert_eq!(deed(&Method::PUT, "/v1/nodes/x/states/power"), Some(Deed::ChangeNodes));
    }

    #[test]
    fn links_begin_with_the_address_the_client_used() {
        let check = |uri: &str, headers: &[(&str, &str)], is_tls: bool, expected: &str| {
            let mut request = Request::builder().uri(uri);
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            let (mut parts, ()) = request.body(()).expect("a request").into_parts();
            parts.extensions.insert(Peer("192.0.2.1:1".parse().expect("an address"), is_tls));
            assert_eq!(base(&parts), expected);
        };
        check("/v1", &[("host", "h:6385")], false, "http://h:6385");
        check("/v1", &[("host", "h:8443")], true, "https://h:8443");
        check("https://h:8443/v1", &[], true, "https://h:8443");
        check("/v1", &[("host", "h"), ("x-forwarded-proto", "https")], false, "https://h");
        check("/v1", &[("host", "h"), ("x-forwarded-proto", "gopher")], true, "https://h");
        check("/v1", &[], false, "http://localhost");
    }
}
