//! One exchange with an agent: bounded in time and size. The token goes into the query, where the agent wants it; so no error and no
//! log line of this module shows an address.

use std::{error::Error as StdError, sync::Arc};

use reqwest::{Client, Method, StatusCode, Url, redirect::Policy};
use rustls_pki_types::{CertificateDer, pem::PemObject};
use serde_json::Value;
use tokio::time::sleep;

use super::limits::{BODY_BYTES_MAX, CERTIFICATE_BYTES_MAX, Pace, REASON_CHARS_MAX, TRIES};
use crate::{
    DriverError, Secret,
    redfish::tls::{MinimumVersion, Trust},
};

/// A connection to one agent.
pub(super) struct Http {
    client: Client,
    url: Url,
    token: Secret,
    pace: Pace,
}

/// Checks the certificate an agent shows for itself.
pub fn check_certificate(pem: &str) -> Result<(), String> {
    certificates(pem).map(drop)
}

fn certificates(pem: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    if pem.len() > CERTIFICATE_BYTES_MAX {
        return Err(format!("is longer than {CERTIFICATE_BYTES_MAX} bytes"));
    }
    let found: Vec<_> = CertificateDer::pem_slice_iter(pem.as_bytes()).filter_map(Result::ok).collect();
    if found.is_empty() { Err("holds no certificate in PEM form".to_owned()) } else { Ok(found) }
}

impl Http {
    /// `url` was checked before it was stored (`domain::provision::agent::check_callback`).
    pub(super) fn new(url: &str, token: Secret, verify_ca: Option<&str>, pace: Pace) -> Result<Http, DriverError> {
        let unusable = |reason: String| DriverError::Protocol { what: "where the agent is".to_owned(), reason };
        let trust = match verify_ca {
            Some(pem) => Trust::Only(Arc::new(certificates(pem).map_err(unusable)?)),
            None => Trust::System,
        };
        let url = Url::parse(url).map_err(|error| unusable(error.to_string()))?;
        let builder = Client::builder()
            .http1_only()
            // Agents are reached directly, whatever the environment says about proxies, and nowhere else than where they are.
            .no_proxy()
            .redirect(Policy::none())
            .pool_max_idle_per_host(0)
            .connect_timeout(pace.connect)
            .timeout(pace.total)
            .user_agent(concat!("sabakan/", env!("CARGO_PKG_VERSION")));
        // Without TLS no certificates are needed, not even those of the system, which may have none.
        let builder = match url.scheme() {
            "https" => builder.tls_backend_preconfigured(trust.client_config(MinimumVersion::Tls12)?),
            _ => builder.tls_backend_preconfigured(Trust::Everything.client_config(MinimumVersion::Tls12)?),
        };
        let client = builder.build().map_err(|error| unusable(innermost(&error)))?;
        Ok(Http { client, url, token, pace })
    }

    /// Commands the agent was given since its start.
    pub(super) async fn commands(&self) -> Result<Value, DriverError> {
        let (status, body) = self.exchange("tell its commands", &Method::GET, "", &[], None).await?;
        expect("tell its commands", status, &body)
    }

    /// One command, by the agent's name for it; `None`: it knows none of that name.
    pub(super) async fn command_named(&self, id: &str) -> Result<Option<Value>, DriverError> {
        let what = "tell about a command";
        let (status, body) = self.exchange(what, &Method::GET, id, &[], None).await?;
        if status == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        expect(what, status, &body).map(Some)
    }

    /// Gives the agent a command. `wait`: until it is done.
    pub(super) async fn command(
        &self,
        what: &str,
        name: &str,
        params: Value,
        wait: bool,
    ) -> Result<CommandAnswer, DriverError> {
        let wait = if wait { "true" } else { "false" };
        let body = serde_json::json!({ "name": name, "params": params });
        let (status, answer) = self.exchange(what, &Method::POST, "", &[("wait", wait)], Some(&body)).await?;
        if status == StatusCode::CONFLICT {
            return Ok(CommandAnswer::Busy(told(&answer).unwrap_or_else(|| "it is busy".to_owned())));
        }
        expect(what, status, &answer).map(CommandAnswer::Taken)
    }

    /// `below`: what follows in the path; an agent's own name for a command.
    async fn exchange(
        &self,
        what: &str,
        method: &Method,
        below: &str,
        query: &[(&str, &str)],
        body: Option<&Value>,
    ) -> Result<(StatusCode, Vec<u8>), DriverError> {
        let mut url = self.url.clone();
        url.set_path("/v1/commands/");
        if let (false, Ok(mut segments)) = (below.is_empty(), url.path_segments_mut()) {
            // Escaped: it came from the agent, and must not lead anywhere else.
            segments.pop_if_empty().push(below);
        }
        url.query_pairs_mut().extend_pairs(query).append_pair("agent_token", self.token.expose());
        for attempt in 1.. {
            let mut request = self.client.request(method.clone(), url.clone());
            if let Some(body) = body {
                request = request.header("content-type", "application/json").body(body.to_string());
            }
            let failed = match request.send().await {
                Ok(response) => match self.read(what, response).await {
                    Ok(answer) => return Ok(answer),
                    Err(failed) => failed,
                },
                Err(error) => Failed::of(&error, &self.pace),
            };
            // A command may have arrived; only one that certainly did not is sent again. Reading twice does no harm.
            let again = failed.unsent || *method == Method::GET;
            if attempt >= TRIES || !again || !failed.error.is_retryable() {
                return Err(failed.error);
            }
            tracing::debug!(attempt, what, "the agent does not answer, trying again");
            sleep(self.pace.pause).await;
        }
        unreachable!("the last attempt returns")
    }

    async fn read(&self, what: &str, mut response: reqwest::Response) -> Result<(StatusCode, Vec<u8>), Failed> {
        let status = response.status();
        let mut body = Vec::new();
        while let Some(piece) = response.chunk().await.map_err(|error| Failed::of(&error, &self.pace))? {
            if body.len() + piece.len() > BODY_BYTES_MAX {
                let reason = format!("it is larger than {} MiB", BODY_BYTES_MAX >> 20);
                return Err(Failed { error: DriverError::Protocol { what: what.to_owned(), reason }, unsent: false });
            }
            body.extend_from_slice(&piece);
        }
        Ok((status, body))
    }
}

/// What an agent answers to a command.
pub(super) enum CommandAnswer {
    /// The command, as it tells about it.
    Taken(Value),
    /// It runs another one; what it says.
    Busy(String),
}

/// A call that came to nothing.
struct Failed {
    error: DriverError,
    /// No connection was made.
    unsent: bool,
}

impl Failed {
    fn of(error: &reqwest::Error, pace: &Pace) -> Failed {
        let text = match (error.is_timeout(), error.is_connect()) {
            (true, true) => format!("no connection to the ramdisk within {} s", pace.connect.as_secs_f32()),
            (true, false) => format!("no answer of the ramdisk within {} s", pace.total.as_secs_f32()),
            (false, true) => format!("no connection to the ramdisk: {}", innermost(error)),
            (false, false) => format!("the connection to the ramdisk broke: {}", innermost(error)),
        };
        Failed { error: DriverError::Unreachable(text), unsent: error.is_connect() }
    }
}

/// What the innermost cause says: that one names no address.
fn innermost(error: &reqwest::Error) -> String {
    let Some(mut cause) = error.source() else { return "it failed".to_owned() };
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    shortened(&cause.to_string())
}

/// An agent's text made fit for one line.
pub(super) fn shortened(text: &str) -> String {
    let one_line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    one_line.chars().filter(|c| !c.is_control()).take(REASON_CHARS_MAX).collect()
}

/// What an agent says about its refusal.
fn told(body: &[u8]) -> Option<String> {
    let value: Value = serde_json::from_slice(body).ok()?;
    value["faultstring"].as_str().or(value["message"].as_str()).map(shortened)
}

/// The object in an answer that is a success.
fn expect(what: &str, status: StatusCode, body: &[u8]) -> Result<Value, DriverError> {
    if status.is_success() {
        let value: Option<Value> = serde_json::from_slice(body).ok().filter(Value::is_object);
        let reason = "no JSON object".to_owned();
        return value.ok_or(DriverError::Protocol { what: what.to_owned(), reason });
    }
    let told = told(body).map(|text| format!(": {text}")).unwrap_or_default();
    let (what, reason) = (format!("{what} (the ramdisk)"), format!("HTTP {status}{told}"));
    Err(match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            DriverError::Credentials(format!("the ramdisk does not accept its token ({reason})"))
        }
        status if status.is_server_error() => DriverError::Failed { what, reason },
        _ => DriverError::Rejected { what, reason },
    })
}
