//! Which request of this API is which deed. The caller is recognised and judged by the [`Gate`](crate::caller::Gate) before anything
//! else of a request is looked at.

use std::sync::Arc;

use axum::{
    extract::{FromRequestParts, Request, State},
    http::{HeaderMap, Method, request::Parts},
    middleware::Next,
    response::{IntoResponse, Response},
};
use percent_encoding::percent_decode_str;
use sabakan_domain::{access::Deed, audit, words::Serial};
use sabakan_wire::rest::ErrorKind;

use super::{ApiError, App};
use crate::{
    caller::{CallerRefusal, Schemes, TokenExposure, Wish},
    http::Peer,
};

/// Who asks, for the audit log. Handlers that change something take it.
#[derive(Debug, Clone)]
pub struct Actor(pub Arc<audit::Actor>);

impl<S: Send + Sync> FromRequestParts<S> for Actor {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Actor, ApiError> {
        let missing = || ApiError::new(ErrorKind::Internal, "the caller was not looked at");
        parts.extensions.get::<Actor>().cloned().ok_or_else(missing)
    }
}

/// The id of the token that was shown and recognised.
#[derive(Debug, Clone)]
pub(super) struct Shown(pub(super) String);

/// The machine whose secret the caller may have. Handlers of secrets take it, so that nothing else is served than was judged.
#[derive(Debug, Clone)]
pub(super) struct JudgedMachine(Serial);

impl JudgedMachine {
    /// The serial of the path, if it is the one that was judged.
    pub(super) fn agree(self, serial: Serial) -> Result<Serial, ApiError> {
        let JudgedMachine(judged) = self;
        if judged == serial { Ok(serial) } else { Err(unjudged()) }
    }
}

fn unjudged() -> ApiError {
    ApiError::new(ErrorKind::Internal, "the caller was not judged for this machine")
}

impl<S: Send + Sync> FromRequestParts<S> for JudgedMachine {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<JudgedMachine, ApiError> {
        parts.extensions.get::<JudgedMachine>().cloned().ok_or_else(unjudged)
    }
}

/// Recognises and judges the caller of every request.
pub async fn check(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let wanted = wish(request.method(), request.uri().path(), request.uri().query());
    // Who asks for something everybody may have is not looked up: it must be answered when the store is not.
    let schemes = if wanted.is_some() { Schemes::Bearer } else { Schemes::Ignored };
    let caller = match app.gate.recognise(request.headers(), request.extensions().get::<Peer>(), schemes).await {
        Ok(caller) => caller,
        Err(refusal) => return ApiError::from(refusal).into_response(),
    };
    if let Some(wish) = wanted {
        if let Err(refusal) = app.gate.judge(&caller, wish.clone()).await {
            return ApiError::from(refusal).into_response();
        }
        if let Some(serial) = wish.machine {
            request.extensions_mut().insert(JudgedMachine(serial));
        }
    }
    if let Some(id) = caller.token_id {
        request.extensions_mut().insert(Shown(id));
    }
    request.extensions_mut().insert(Actor(caller.actor));
    next.run(request).await
}

/// Judges readers of what lies outside of `/api/v1` and tells about machines as well. Where everybody may read, nobody is looked up:
/// figures are wanted most when the store does not answer.
pub(crate) async fn check_reader(State(app): State<App>, request: Request, next: Next) -> Response {
    if app.gate.requires_token() {
        let peer = request.extensions().get::<Peer>();
        if let Err(refusal) = judge_reader(&app, request.headers(), peer).await {
            return ApiError::from(refusal).into_response();
        }
    }
    next.run(request).await
}

async fn judge_reader(app: &App, headers: &HeaderMap, peer: Option<&Peer>) -> Result<(), CallerRefusal> {
    let caller = app.gate.recognise(headers, peer, Schemes::Bearer).await?;
    app.gate.judge(&caller, Deed::ReadRegistry).await
}

/// What a request wants to do and, if it is about the secrets of a machine, which; `None`: something everybody may do, whatever the
/// policy.
fn wish(method: &Method, path: &str, query: Option<&str>) -> Option<Wish> {
    let deed = deed(method, path, query)?;
    let machine = if deed.is_for_the_machine() { machine_of_key(path) } else { None };
    Some(Wish { deed, machine })
}

/// The serial in the path of a disk key. Read as the router reads it: segments as they are sent, each decoded once.
fn machine_of_key(path: &str) -> Option<Serial> {
    let segment = path.strip_prefix("/api/v1/crypts/")?.split('/').next()?;
    let text = percent_decode_str(segment).decode_utf8().ok()?;
    (!text.is_empty()).then(|| Serial::stored(text))
}

fn deed(method: &Method, path: &str, query: Option<&str>) -> Option<Deed> {
    let reads = matches!(*method, Method::GET | Method::HEAD);
    let rest = path.strip_prefix("/api/v1/")?;
    let first = rest.split('/').next().unwrap_or_default();
    Some(match (first, reads) {
        ("crypts", true) => Deed::ReadKey,
        ("crypts", false) if *method == Method::DELETE => Deed::DeleteKeys,
        ("crypts", false) => Deed::PutKey,
        ("tokens", _) => Deed::ManageTokens,
        ("logs", true) => Deed::ReadAudit,
        ("cluster" | "constraints", false) => Deed::ChangeCluster,
        ("auto-repair" | "repair-queue" | "reboot-queue" | "incidents", false) => Deed::ChangeRepair,
        ("state", false) if forced(query) => Deed::ForceState,
        (_, true) => Deed::ReadRegistry,
        (_, false) => Deed::ChangeRegistry,
    })
}

/// Whether the query asks for force. The handler reads it the same way.
pub(super) fn forced(query: Option<&str>) -> bool {
    query.unwrap_or_default().split('&').any(|pair| matches!(pair, "force" | "force=true" | "force=1"))
}

/// Refuses a token that others may have read. It is not checked and not repeated: how it was sent is reason enough to replace it.
pub(crate) fn refuse_token(exposure: TokenExposure) -> Response {
    let text = exposure.to_string();
    match exposure {
        TokenExposure::InUrl(_) => {
            ApiError::invalid(format!("{text}; send it as the header Authorization: Bearer TOKEN"))
        }
        TokenExposure::InTheClear => ApiError::new(ErrorKind::Forbidden, text),
    }
    .into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_is_a_deed() {
        let check = |method: Method, path: &str, query: Option<&str>, expected: Option<Deed>| {
            assert_eq!(deed(&method, path, query), expected, "{method} {path}");
        };
        check(Method::GET, "/api/v1/machines", None, Some(Deed::ReadRegistry));
        check(Method::HEAD, "/api/v1/state/x", None, Some(Deed::ReadRegistry));
        check(Method::POST, "/api/v1/machines", None, Some(Deed::ChangeRegistry));
        check(Method::OPTIONS, "/api/v1/unknown", None, Some(Deed::ChangeRegistry));
        check(Method::PUT, "/api/v1/state/x", None, Some(Deed::ChangeRegistry));
        check(Method::PUT, "/api/v1/state/x", Some("a=b&force=true"), Some(Deed::ForceState));
        check(Method::PUT, "/api/v1/crypts/x/y", None, Some(Deed::PutKey));
        check(Method::POST, "/api/v1/crypts/x/y", None, Some(Deed::PutKey));
        check(Method::GET, "/api/v1/crypts/x/y", None, Some(Deed::ReadKey));
        check(Method::DELETE, "/api/v1/crypts/x", None, Some(Deed::DeleteKeys));
        check(Method::GET, "/api/v1/logs", None, Some(Deed::ReadAudit));
        check(Method::GET, "/api/v1/tokens", None, Some(Deed::ManageTokens));
        check(Method::DELETE, "/api/v1/tokens/x", None, Some(Deed::ManageTokens));
        check(Method::GET, "/api/v1/cluster/plan", None, Some(Deed::ReadRegistry));
        check(Method::PUT, "/api/v1/cluster/template", None, Some(Deed::ChangeCluster));
        check(Method::DELETE, "/api/v1/cluster/variables", None, Some(Deed::ChangeCluster));
        check(Method::GET, "/api/v1/constraints", None, Some(Deed::ReadRegistry));
        check(Method::PUT, "/api/v1/constraints/minimum-workers", None, Some(Deed::ChangeCluster));
        check(Method::GET, "/api/v1/auto-repair/explain/x", None, Some(Deed::ReadRegistry));
        check(Method::PUT, "/api/v1/auto-repair/settings", None, Some(Deed::ChangeRepair));
        check(Method::GET, "/api/v1/repair-queue", None, Some(Deed::ReadRegistry));
        check(Method::POST, "/api/v1/repair-queue", None, Some(Deed::ChangeRepair));
        check(Method::DELETE, "/api/v1/repair-queue/1", None, Some(Deed::ChangeRepair));
        check(Method::POST, "/api/v1/reboot-queue/cancel-all", None, Some(Deed::ChangeRepair));
        check(Method::GET, "/api/v1/incidents/1", None, Some(Deed::ReadRegistry));
        check(Method::POST, "/api/v1/incidents/1/acknowledge", None, Some(Deed::ChangeRepair));
        check(Method::GET, "/version", None, None);
        check(Method::POST, "/health", None, None);
    }

    #[test]
    fn a_request_for_a_key_names_its_machine() {
        let check = |path: &str, expected: Option<&str>| {
            let wish = wish(&Method::GET, path, None).expect("a wish");
            assert_eq!(wish.machine.as_ref().map(Serial::as_str), expected, "{path}");
        };
        check("/api/v1/crypts/m/disk", Some("m"));
        check("/api/v1/crypts/%6d/disk", Some("m"));
        check("/api/v1/crypts/a%20b/disk", Some("a b"));
        check("/api/v1/crypts/%256d/disk", Some("%6d"));
        check("/api/v1/crypts/m", Some("m"));
        for nothing in ["/api/v1/crypts", "/api/v1/crypts/", "/api/v1/crypts//m/disk", "/api/v1/crypts/%ff/disk"] {
            check(nothing, None);
        }
        check("/api/v1/machines", None);
        assert_eq!(wish(&Method::DELETE, "/api/v1/crypts/m", None), Some(Deed::DeleteKeys.into()));
        assert_eq!(wish(&Method::GET, "/version", None), None);
    }
}
