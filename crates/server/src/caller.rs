//! Who asks, and whether that one may: the one recogniser of callers, for every API and every listener. The rule itself is
//! `domain::access::permits`, and [`Gate::judge`] is the only place that asks it. Which request is which deed is for each API to say,
//! and each dresses a [`CallerRefusal`] in its own words.

use std::sync::Arc;

use axum::{
    extract::Request,
    http::{HeaderMap, header},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use sabakan_domain::{
    access::{Caller, Deed, MachineIdentity, Policy, permits},
    audit::{self, Known},
    words::Serial,
};
use sabakan_service::{Machines, RecognisedToken, ServiceError, Tokens};
use sabakan_wire::rest::{ErrorKind, USER_HEADER};

use crate::{
    http::{Peer, url_tokens},
    limits,
    rest::ApiError,
};

/// Recognises callers and judges them.
#[derive(Clone)]
pub(crate) struct Gate {
    tokens: Arc<Tokens>,
    machines: Arc<Machines>,
    policy: Arc<Policy>,
}

/// How an API lets its callers show a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Schemes {
    /// `Authorization: Bearer TOKEN`. Passwords, which browsers send by themselves, are not looked at.
    Bearer,
    /// That, or as the password of HTTP basic authentication; the user name is for the client's own use.
    BearerOrBasic,
    /// None: what is asked for is open to everybody, and is answered also when the store is not.
    Ignored,
}

/// A caller, as far as it is known.
pub(crate) struct KnownCaller {
    caller: Caller,
    /// Whether the connection can be listened to.
    plain: bool,
    /// Its name for the audit log.
    pub(crate) actor: Arc<audit::Actor>,
    /// The id of the token it showed.
    pub(crate) token_id: Option<String>,
}

/// What a request wants to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wish {
    /// What.
    pub(crate) deed: Deed,
    /// To which machine, where the deed is about a secret of one.
    pub(crate) machine: Option<Serial>,
}

/// Why a caller is turned away. Never "not found": a machine takes that as leave to format its disk.
#[derive(Debug)]
pub(crate) enum CallerRefusal {
    /// It showed a token that nobody knows.
    UnknownToken,
    /// It may not.
    Denied {
        /// What would help.
        text: String,
        /// Whether it showed a token at all.
        shown: bool,
    },
    /// Nobody could be asked.
    Trouble(ServiceError),
}

/// How others came to read a token on its way here. What went over a proxy's log or an open wire is no longer a secret, so that such
/// a request is refused on every listener, whatever it asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TokenExposure {
    /// It was a query parameter of this name.
    #[error(
        "the query parameter {0} is refused, because URLs are written into logs; if it held a token, revoke that token"
    )]
    InUrl(&'static str),
    /// It came from another host over plain HTTP.
    #[error(
        "a token or password is not accepted over plain HTTP from another host, because others can read it on the way; use \
         HTTPS, and revoke this token (sabactl tokens revoke)"
    )]
    InTheClear,
}

impl TokenExposure {
    /// What is wrong with how a request shows a token.
    pub(crate) fn of(request: &Request) -> Option<TokenExposure> {
        if let Some(parameter) = url_tokens::token_parameter(request.uri()) {
            return Some(TokenExposure::InUrl(parameter));
        }
        let is_open = |peer: &Peer| !peer.1 && !peer.0.ip().to_canonical().is_loopback();
        let in_the_clear = request.headers().contains_key(header::AUTHORIZATION)
            && request.extensions().get::<Peer>().is_some_and(is_open);
        in_the_clear.then_some(TokenExposure::InTheClear)
    }
}

impl CallerRefusal {
    /// What is wrong with a token that nobody knows.
    pub(crate) const UNKNOWN_TOKEN: &str = "the token is malformed, unknown or revoked; leave it out or use another";
}

impl From<Deed> for Wish {
    fn from(deed: Deed) -> Wish {
        Wish { deed, machine: None }
    }
}

impl From<CallerRefusal> for ApiError {
    fn from(refusal: CallerRefusal) -> ApiError {
        match refusal {
            CallerRefusal::UnknownToken => ApiError::new(ErrorKind::Unauthorized, CallerRefusal::UNKNOWN_TOKEN),
            CallerRefusal::Denied { text, shown: _ } => ApiError::new(ErrorKind::Forbidden, text),
            CallerRefusal::Trouble(error) => error.into(),
        }
    }
}

impl Gate {
    /// Judges by a policy.
    pub(crate) fn new(tokens: Arc<Tokens>, machines: Arc<Machines>, policy: Policy) -> Gate {
        Gate { tokens, machines, policy: Arc::new(policy) }
    }

    /// Whether only tokens give rights.
    pub(crate) fn requires_token(&self) -> bool {
        self.policy.require_token
    }

    /// Recognises a caller by its connection and by the token it shows.
    pub(crate) async fn recognise(
        &self,
        headers: &HeaderMap,
        peer: Option<&Peer>,
        schemes: Schemes,
    ) -> Result<KnownCaller, CallerRefusal> {
        let ip = peer.map(|peer| peer.0.ip().to_canonical());
        let plain = !peer.is_some_and(|peer| peer.1);
        let Some(text) = shown_token(headers, schemes) else {
            let actor = Arc::new(audit::Actor { name: declared(headers), known: Known::Declared, ip });
            return Ok(KnownCaller { caller: Caller { ip, token: None }, plain, actor, token_id: None });
        };
        let found = self.tokens.recognise(&text).await.map_err(CallerRefusal::Trouble)?;
        let Some(RecognisedToken { id, name, grant }) = found else { return Err(CallerRefusal::UnknownToken) };
        let actor = Arc::new(audit::Actor { name, known: Known::Token, ip });
        Ok(KnownCaller { caller: Caller { ip, token: Some(grant) }, plain, actor, token_id: Some(id) })
    }

    /// Whether a caller may do that.
    pub(crate) async fn judge(&self, known: &KnownCaller, wish: impl Into<Wish>) -> Result<(), CallerRefusal> {
        let Wish { deed, machine } = wish.into();
        let KnownCaller { caller, plain, .. } = known;
        let denied = |text: String| CallerRefusal::Denied { text, shown: caller.token.is_some() };
        let is_secret = matches!(deed, Deed::ReadKey | Deed::PutKey | Deed::DeleteKeys | Deed::ManageTokens);
        // Keys and new tokens do not travel in the clear, except inside this machine.
        if is_secret && *plain && !caller.ip.is_some_and(|ip| ip.is_loopback()) {
            return Err(denied("disk keys and tokens are served over HTTPS".to_owned()));
        }
        let machine = match machine {
            Some(serial) => Some(self.identity(serial).await.map_err(CallerRefusal::Trouble)?),
            None => None,
        };
        permits(deed, machine.as_ref(), caller, &self.policy).map_err(|refused| denied(refused.to_string()))
    }

    /// What a caller has to be to be that machine. A machine that is not registered is not told apart from one that is: whoever may
    /// not ask about it learns neither.
    async fn identity(&self, serial: Serial) -> Result<MachineIdentity, ServiceError> {
        match self.machines.get(&serial).await {
            Ok(machine) => Ok(MachineIdentity::from(&*machine)),
            Err(ServiceError::NotFound) => Ok(MachineIdentity::unknown(serial)),
            Err(error) => Err(error),
        }
    }
}

/// The text of the token a caller shows.
pub(crate) fn shown_token(headers: &HeaderMap, schemes: Schemes) -> Option<String> {
    if schemes == Schemes::Ignored {
        return None;
    }
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, text) = value.split_once(' ')?;
    if scheme.eq_ignore_ascii_case("bearer") {
        return Some(text.trim().to_owned());
    }
    if schemes != Schemes::BearerOrBasic || !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = STANDARD.decode(text.trim()).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let password = decoded.as_deref().and_then(|text| text.split_once(':')).map(|(_, password)| password.to_owned());
    // What cannot be read was meant to be something; it is refused as a token nobody knows.
    Some(password.unwrap_or_default())
}

/// The name a caller gives itself: printable and short, or nothing.
fn declared(headers: &HeaderMap) -> String {
    let name = headers.get(USER_HEADER).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let fits = name.len() <= limits::USER_BYTES_MAX && !name.chars().any(char::is_control);
    if fits { name.to_owned() } else { String::new() }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn tokens_are_shown_in_the_ways_an_api_takes() {
        let check = |value: &str, bearer: Option<&str>, basic: Option<&str>| {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, HeaderValue::from_str(value).expect("a header"));
            assert_eq!(shown_token(&headers, Schemes::Bearer).as_deref(), bearer, "{value}");
            assert_eq!(shown_token(&headers, Schemes::BearerOrBasic).as_deref(), basic, "{value}");
            assert_eq!(shown_token(&headers, Schemes::Ignored), None, "{value}");
        };
        check("Bearer x", Some("x"), Some("x"));
        check("bearer  x ", Some("x"), Some("x"));
        check(&format!("Basic {}", STANDARD.encode("me:secret:x")), None, Some("secret:x"));
        check(&format!("Basic {}", STANDARD.encode("no password")), None, Some(""));
        check("Basic ???", None, Some(""));
        check("Digest x", None, None);
        check("x", None, None);
    }

    #[test]
    fn names_that_cannot_be_written_down_are_no_names() {
        let check = |value: &str, expected: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(USER_HEADER, HeaderValue::from_str(value).expect("a header"));
            assert_eq!(declared(&headers), expected, "{value}");
        };
        check("alice", "alice");
        check("a\tb", "");
        check(&"n".repeat(limits::USER_BYTES_MAX + 1), "");
        assert_eq!(declared(&HeaderMap::new()), "");
    }
}
