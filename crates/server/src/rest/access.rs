//! Who asks, and whether that one may: the caller is recognised and judged before anything else of a request is looked at. The
//! rule itself is `domain::access::permits`; here stands which request is which deed.

use std::sync::Arc;

use axum::{
    extract::{FromRequestParts, Request, State},
    http::{HeaderMap, Method, header, request::Parts},
    middleware::Next,
    response::{IntoResponse, Response},
};
use sabakan_domain::{
    access::{Caller, Deed, permits},
    audit::{self, Known},
};
use sabakan_service::token::TokenText;
use sabakan_wire::rest::{ErrorKind, USER_HEADER};

use super::{ApiError, App};
use crate::{http::Peer, limits};

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

fn token_id(text: &str) -> Option<String> {
    TokenText::parse(text).ok().map(|token| token.id().to_owned())
}

/// A caller, as far as it is known.
pub(crate) struct Recognised {
    caller: Caller,
    /// Whether the connection can be listened to.
    plain: bool,
    /// Its name for the audit log.
    pub(crate) actor: Arc<audit::Actor>,
    /// The id of the token it showed.
    shown: Option<String>,
}

impl Recognised {
    /// Recognises a caller by its connection and by the token it shows. Without `look_up` the token is not looked at.
    pub(crate) async fn new(
        app: &App,
        headers: &HeaderMap,
        peer: Option<&Peer>,
        look_up: bool,
    ) -> Result<Recognised, ApiError> {
        let ip = peer.map(|peer| peer.0.ip().to_canonical());
        let plain = !peer.is_some_and(|peer| peer.1);
        let Some(text) = bearer(headers).filter(|_| look_up) else {
            let actor = audit::Actor { name: declared(headers), known: Known::Declared, ip };
            return Ok(Recognised { caller: Caller { ip, token: None }, plain, actor: Arc::new(actor), shown: None });
        };
        let Some((name, role)) = app.tokens.recognise(text).await? else {
            let text = "the token is malformed, unknown or revoked; leave it out or use another";
            return Err(ApiError::new(ErrorKind::Unauthorized, text));
        };
        let actor = Arc::new(audit::Actor { name, known: Known::Token, ip });
        let shown = Some(token_id(text).unwrap_or_default());
        Ok(Recognised { caller: Caller { ip, token: Some(role) }, plain, actor, shown })
    }

    /// Whether it may do that.
    pub(crate) fn judge(&self, app: &App, deed: Deed) -> Result<(), ApiError> {
        let secret = matches!(deed, Deed::ReadKey | Deed::PutKey | Deed::DeleteKeys | Deed::ManageTokens);
        // Keys and new tokens do not travel in the clear, except inside this machine. Not 404, as the older service says: a
        // machine takes that as leave to format its disk.
        if secret && self.plain && !self.caller.ip.is_some_and(|ip| ip.is_loopback()) {
            return Err(ApiError::new(ErrorKind::Forbidden, "disk keys and tokens are served over HTTPS"));
        }
        let judged = permits(deed, &self.caller, &app.policy);
        judged.map_err(|denied| ApiError::new(ErrorKind::Forbidden, denied.to_string()))
    }
}

/// Recognises and judges the caller of every request.
pub async fn check(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let wanted = deed(request.method(), request.uri().path(), request.uri().query());
    // Who asks for something everybody may have is not looked up: it must be answered when the store is not.
    let peer = request.extensions().get::<Peer>();
    let recognised = match Recognised::new(&app, request.headers(), peer, wanted.is_some()).await {
        Ok(recognised) => recognised,
        Err(refusal) => return refusal.into_response(),
    };
    if let Some(refusal) = wanted.and_then(|deed| recognised.judge(&app, deed).err()) {
        return refusal.into_response();
    }
    if let Some(id) = recognised.shown {
        request.extensions_mut().insert(Shown(id));
    }
    request.extensions_mut().insert(Actor(recognised.actor));
    next.run(request).await
}

/// Judges readers of what lies outside of `/api/v1` and tells about machines as well. Where everybody may read, nobody is looked up:
/// figures are wanted most when the store does not answer.
pub(crate) async fn check_reader(State(app): State<App>, request: Request, next: Next) -> Response {
    if app.policy.require_token {
        let peer = request.extensions().get::<Peer>();
        let recognised = Recognised::new(&app, request.headers(), peer, true).await;
        if let Err(refusal) = recognised.and_then(|caller| caller.judge(&app, Deed::ReadRegistry)) {
            return refusal.into_response();
        }
    }
    next.run(request).await
}

/// What a request wants to do; `None`: something everybody may do, whatever the policy.
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

/// Refuses a token in the URL. The token is not checked and not repeated: that it was sent so is reason enough to replace it.
pub(crate) fn refuse_url_token(parameter: &str) -> Response {
    ApiError::invalid(format!("{}; send it as the header Authorization: Bearer TOKEN", url_token_text(parameter)))
        .into_response()
}

/// What is wrong with a token in the URL.
pub(crate) fn url_token_text(parameter: &str) -> String {
    format!(
        "the query parameter {parameter} is refused, because URLs are written into logs; if it held a token, revoke that token"
    )
}

pub(crate) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// The name a caller gives itself: printable and short, or nothing.
pub(crate) fn declared(headers: &HeaderMap) -> String {
    let name = headers.get(USER_HEADER).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let fits = name.len() <= limits::USER_BYTES_MAX && !name.chars().any(char::is_control);
    if fits { name.to_owned() } else { String::new() }
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
}
