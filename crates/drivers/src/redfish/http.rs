//! One exchange over HTTP: bounded in time and size, and every way it can fail turned into the kind an operator acts on. Knows nothing
//! of sessions or of what Redfish means.

use std::{error::Error as StdError, io};

use reqwest::{
    Client, Method, Response, StatusCode, Url,
    header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, ETAG, HeaderMap, HeaderValue, LOCATION},
    redirect::Policy,
};
use rustls::ClientConfig;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::{
    limits::{BODY_BYTES_MAX, Pace, REASON_CHARS_MAX, REDIRECTS_MAX},
    tls::untrusted_reason,
};
use crate::{DriverError, Secret};

/// Clients of one way of trusting certificates; every controller with that trust shares them.
#[derive(Debug)]
pub struct Http {
    /// Follows redirects on the same host, and keeps a connection for a moment: an inspection makes dozens of requests.
    reads: Client,
    /// A fresh connection each time: on an old one nobody could tell whether a lost command had arrived.
    writes: Client,
    pace: Pace,
}

/// What came back, whatever its status.
#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    headers: HeaderMap,
    body: Vec<u8>,
    /// What the controller may repeat in its explanations and nobody shall read there.
    pub hide: Vec<Secret>,
}

impl Http {
    pub fn new(tls: &ClientConfig, pace: &Pace) -> Result<Http, DriverError> {
        let mut headers = HeaderMap::new();
        headers.insert("OData-Version", HeaderValue::from_static("4.0"));
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        // Some controllers send damaged data when they compress.
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let builder = || {
            Client::builder()
                .tls_backend_preconfigured(tls.clone())
                .http1_only()
                // Controllers are reached directly, whatever the environment says about proxies.
                .no_proxy()
                .default_headers(headers.clone())
                .connect_timeout(pace.connect)
                .read_timeout(pace.read)
                .timeout(pace.total)
                .user_agent(concat!("sabakan/", env!("CARGO_PKG_VERSION")))
        };
        let same_host = Policy::custom(|attempt| {
            let first = attempt.previous().first();
            let here = first.is_some_and(|first| first.origin() == attempt.url().origin());
            if here && attempt.previous().len() <= REDIRECTS_MAX { attempt.follow() } else { attempt.stop() }
        });
        let reads = builder().redirect(same_host).pool_max_idle_per_host(1).pool_idle_timeout(pace.connect_pause / 2);
        let writes = builder().redirect(Policy::none()).pool_max_idle_per_host(0);
        let unusable = |error: reqwest::Error| DriverError::settings("redfish_verify_ca", error.to_string());
        Ok(Http {
            reads: reads.build().map_err(unusable)?,
            writes: writes.build().map_err(unusable)?,
            pace: pace.clone(),
        })
    }

    /// Sends one request and reads the whole answer. Tries again only while no connection was made, so nothing is sent twice.
    pub async fn exchange(
        &self,
        what: &str,
        method: Method,
        url: &Url,
        headers: &HeaderMap,
        body: Option<&Value>,
    ) -> Result<Answer, DriverError> {
        let client = if method == Method::GET { &self.reads } else { &self.writes };
        let began = Instant::now();
        for attempt in 1.. {
            let mut request = client.request(method.clone(), url.clone()).headers(headers.clone());
            if let Some(body) = body {
                request = request.header(CONTENT_TYPE, "application/json").body(body.to_string());
            }
            let error = match request.send().await {
                Ok(response) => return self.read(what, response).await,
                Err(error) => error,
            };
            // A kept connection that the controller closed meanwhile. Reading twice does no harm.
            if method == Method::GET && attempt == 1 && error.is_request() && !error.is_connect() && !error.is_timeout()
            {
                continue;
            }
            let hopeless = !error.is_connect() || attempt >= self.pace.connect_attempts || tls_error(&error).is_some();
            if hopeless || began.elapsed() + self.pace.connect_pause >= self.pace.connect {
                return Err(self.failure(what, &error));
            }
            tracing::debug!(attempt, what, "no connection to the BMC, trying again");
            sleep(self.pace.connect_pause).await;
        }
        unreachable!("the last attempt returns")
    }

    async fn read(&self, what: &str, mut response: Response) -> Result<Answer, DriverError> {
        let status = response.status();
        let headers = response.headers().clone();
        let too_large = || DriverError::Protocol {
            what: what.to_owned(),
            reason: format!("it is larger than {} MiB", BODY_BYTES_MAX >> 20),
        };
        if response.content_length().is_some_and(|length| length > BODY_BYTES_MAX as u64) {
            return Err(too_large());
        }
        let mut body = Vec::new();
        while let Some(piece) = response.chunk().await.map_err(|error| self.failure(what, &error))? {
            if body.len() + piece.len() > BODY_BYTES_MAX {
                return Err(too_large());
            }
            body.extend_from_slice(&piece);
        }
        Ok(Answer { status, headers, body, hide: Vec::new() })
    }

    fn failure(&self, what: &str, error: &reqwest::Error) -> DriverError {
        if let Some(error) = tls_error(error) {
            return match error {
                rustls::Error::InvalidCertificate(error) => DriverError::Untrusted(untrusted_reason(error)),
                other => DriverError::Protocol { what: what.to_owned(), reason: format!("TLS failed: {other}") },
            };
        }
        let limit = if error.is_connect() { self.pace.connect } else { self.pace.total.min(self.pace.read) };
        DriverError::Unreachable(match (error.is_timeout(), error.is_connect()) {
            (true, true) => format!("no connection within {} s", limit.as_secs_f32()),
            (true, false) => format!("no answer within {} s", limit.as_secs_f32()),
            // The innermost cause says it without addresses: connection refused, no such host, connection reset.
            (false, true) => format!("no connection: {}", root_cause(error)),
            (false, false) => format!("the connection broke: {}", root_cause(error)),
        })
    }
}

impl Answer {
    /// Whether the controller did it.
    pub fn is_success(&self) -> bool {
        self.status.is_success()
    }

    /// A header's text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// Where something that was created, or is being worked on, is.
    pub fn location(&self) -> Option<&str> {
        self.header(LOCATION.as_str())
    }

    /// The version of the resource, for changing it.
    pub fn etag(&self) -> Option<String> {
        let body = || serde_json::from_slice::<Value>(&self.body).ok()?.get("@odata.etag")?.as_str().map(str::to_owned);
        self.header(ETAG.as_str()).map(str::to_owned).or_else(body)
    }

    /// The body as an object.
    pub fn json(&self, what: &str) -> Result<Value, DriverError> {
        let protocol = |reason: String| DriverError::Protocol { what: what.to_owned(), reason };
        let value: Value = serde_json::from_slice(&self.body).map_err(|error| protocol(format!("no JSON: {error}")))?;
        if value.is_object() { Ok(value) } else { Err(protocol("it is not a JSON object".to_owned())) }
    }

    /// The body if it is an object.
    pub fn json_if_any(&self) -> Option<Value> {
        serde_json::from_slice(&self.body).ok().filter(Value::is_object)
    }

    /// Names of the messages in an error answer, by which quirks are recognised.
    pub fn message_ids(&self) -> Vec<String> {
        let error = self.json_if_any().map(|body| body["error"].clone()).unwrap_or_default();
        let extended = error["@Message.ExtendedInfo"].as_array().cloned().unwrap_or_default();
        let ids = extended.iter().map(|info| &info["MessageId"]).chain([&error["code"]]);
        ids.filter_map(Value::as_str).map(str::to_owned).collect()
    }

    /// The error for an answer that is no success.
    pub fn refusal(&self, what: &str) -> DriverError {
        let reason = format!("HTTP {}{}", self.status, self.explanation());
        let what = what.to_owned();
        match self.status {
            StatusCode::UNAUTHORIZED => DriverError::Credentials(format!("user name or password is wrong ({reason})")),
            StatusCode::FORBIDDEN => DriverError::Credentials(format!("the user may not {what} ({reason})")),
            StatusCode::NOT_IMPLEMENTED => DriverError::Unsupported(format!("what is needed to {what} ({reason})")),
            status if status.is_server_error() => DriverError::Failed { what, reason },
            status if status.is_client_error() => DriverError::Rejected { what, reason },
            status if status.is_redirection() => DriverError::Protocol {
                what,
                reason: format!("{status}: it points to another place, which is not followed"),
            },
            _ => DriverError::Protocol { what, reason },
        }
    }

    fn explanation(&self) -> String {
        let error = self.json_if_any().map(|body| body["error"].clone()).unwrap_or_default();
        let extended = error["@Message.ExtendedInfo"].as_array().cloned().unwrap_or_default();
        let texts = extended.iter().map(|info| &info["Message"]).chain([&error["message"]]);
        let text = texts.filter_map(Value::as_str).find(|text| !text.is_empty());
        text.map(|text| format!(": {}", shortened(&self.without_secrets(text)))).unwrap_or_default()
    }

    fn without_secrets(&self, text: &str) -> String {
        let secrets = self.hide.iter().map(Secret::expose).filter(|secret| !secret.is_empty());
        secrets.fold(text.to_owned(), |text, secret| text.replace(secret, "(secret)"))
    }
}

/// A controller's text made fit for one line of a log.
pub fn shortened(text: &str) -> String {
    let one_line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    one_line.chars().filter(|c| !c.is_control()).take(REASON_CHARS_MAX).collect()
}

fn root_cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn StdError = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    shortened(&cause.to_string())
}

/// The TLS library's own error, wherever it is wrapped. `io::Error` hides what it carries from `source`.
fn tls_error(error: &reqwest::Error) -> Option<&rustls::Error> {
    let mut next: Option<&(dyn StdError + 'static)> = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref::<rustls::Error>() {
            return Some(found);
        }
        let inside = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        next = inside.map(|inside| inside as &(dyn StdError + 'static)).or_else(|| error.source());
    }
    None
}
