//! What happens around every request: it gets an id, its end is logged, and a refusal gets its body.

use std::{sync::Arc, time::Instant};

use axum::{
    extract::{MatchedPath, Request, State},
    http::{HeaderName, HeaderValue, header},
    middleware::Next,
    response::Response,
};
use hyper::body::Body as _;
use sabakan_service::metrics::Metrics;
use sabakan_wire::rest::ErrorKind;

use super::{Peer, url_tokens};
use crate::{caller::TokenExposure, limits, rest::ApiError};

/// What requests are wrapped in.
pub struct Around {
    /// The header that carries a request's id.
    pub id_header: HeaderName,
    /// Where requests are counted; absent: they are not.
    pub metrics: Option<Arc<Metrics>>,
    /// What answers a request whose token others may have read, in the shape of the API it was sent to.
    pub refuse_token: fn(exposure: TokenExposure) -> Response,
}

/// What went wrong in an answer that has its body already.
#[derive(Debug, Clone)]
pub(crate) struct Failures(pub(crate) Vec<ApiError>);

/// Wraps a request. The outermost layer: nothing answers without passing here.
pub async fn observe(State(around): State<Arc<Around>>, request: Request, next: Next) -> Response {
    let begun = Instant::now();
    let Around { id_header, metrics, refuse_token } = &*around;
    let id = request_id(&request, id_header);
    let seen = Seen::of(&request);
    let counted = metrics.as_ref().map(|metrics| {
        let route = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
        (metrics, metrics.request(request.method().as_str(), request.uri().path(), route))
    });
    let mut response = match TokenExposure::of(&request) {
        // Before anything is done: a caller that is served once keeps sending its token where others read it.
        Some(exposure) => refuse_token(exposure),
        None => next.run(request).await,
    };
    if let Some(error) = response.extensions_mut().remove::<ApiError>() {
        if let Some(cause) = error.cause() {
            tracing::error!(request_id = %id, status = error.status().as_u16(), error = cause, "request failed");
        }
        response = error.render(&id);
        if let Some((metrics, _)) = &counted {
            metrics.failed(error.kind().as_str());
        }
    }
    for error in response.extensions_mut().remove::<Failures>().into_iter().flat_map(|failures| failures.0) {
        if let Some(cause) = error.cause() {
            tracing::error!(request_id = %id, status = response.status().as_u16(), error = cause, "request failed");
        }
        if let Some((metrics, _)) = &counted {
            metrics.failed(error.kind().as_str());
        }
    }
    if let Some((metrics, request)) = counted {
        metrics.answered(request, response.status().as_u16());
    }
    if let Ok(value) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(id_header.clone(), value);
    }
    seen.log(&id, &response, begun);
    response
}

/// A handler that panicked: the request fails, the server goes on.
pub(crate) fn panicked(_: Box<dyn std::any::Any + Send + 'static>) -> Response {
    use axum::response::IntoResponse;
    ApiError::new(ErrorKind::Internal, "internal error").into_response()
}

/// The caller's id if it can be logged and sent back as it is, else a new one.
fn request_id(request: &Request, header: &HeaderName) -> String {
    let given = request.headers().get(header).and_then(|value| value.to_str().ok());
    match given {
        Some(id) if !id.is_empty() && id.len() <= limits::REQUEST_ID_BYTES_MAX => id.to_owned(),
        _ => uuid::Uuid::new_v4().to_string(),
    }
}

/// What the access log says of a request.
struct Seen {
    method: String,
    url: String,
    protocol: String,
    host: String,
    user_agent: String,
    size: i64,
    peer: String,
}

/// The URL of a request, cut off: one with a query may be as long as all headers together.
fn shown(mut url: String) -> String {
    if url.len() > limits::LOGGED_URL_BYTES_MAX {
        url.truncate(url.floor_char_boundary(limits::LOGGED_URL_BYTES_MAX));
        url.push('…');
    }
    url
}

impl Seen {
    fn of(request: &Request) -> Seen {
        let text = |name| {
            let value = request.headers().get(name).and_then(|value: &HeaderValue| value.to_str().ok());
            value.unwrap_or_default().to_owned()
        };
        let peer = request.extensions().get::<Peer>().map(|peer| peer.0.ip().to_canonical().to_string());
        Seen {
            method: request.method().to_string(),
            url: shown(url_tokens::redacted(request.uri())),
            protocol: format!("{:?}", request.version()),
            host: text(header::HOST),
            user_agent: text(header::USER_AGENT),
            size: text(header::CONTENT_LENGTH).parse().unwrap_or(-1),
            peer: peer.unwrap_or_default(),
        }
    }

    fn log(&self, request_id: &str, response: &Response, begun: Instant) {
        let status = response.status();
        let response_time = begun.elapsed().as_secs_f64();
        // A list that is made while it is sent has no length yet.
        let response_size = response.body().size_hint().exact().and_then(|size| i64::try_from(size).ok()).unwrap_or(-1);
        macro_rules! access {
            ($level:ident) => {
                tracing::$level!(
                    r#type = "access",
                    http_method = self.method,
                    url = self.url,
                    protocol = self.protocol,
                    http_host = self.host,
                    http_user_agent = self.user_agent,
                    request_size = self.size,
                    remote_ipaddr = self.peer,
                    http_status_code = status.as_u16(),
                    response_time,
                    response_size,
                    request_id,
                    // The message of the older service, which people's log filters know.
                    "well: access"
                )
            };
        }
        if status.is_server_error() {
            access!(error);
        } else if status.is_client_error() {
            access!(warn);
        } else {
            access!(info);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_urls_are_cut_off_in_the_log() {
        let long = format!("/graphql?query={}", "a".repeat(limits::LOGGED_URL_BYTES_MAX));
        let cut = shown(long.clone());
        assert_eq!(cut.len(), limits::LOGGED_URL_BYTES_MAX + '…'.len_utf8());
        assert!(long.starts_with(cut.trim_end_matches('…')));
        assert_eq!(shown("/version".into()), "/version");
    }
}
