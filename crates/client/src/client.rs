//! One connection pool, one base URL, and the way every request goes: bounded in time and size, with the caller's name on it.

use std::{
    fmt,
    io::{self, BufRead, BufReader, Read},
    time::Duration,
};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use sabakan_wire::rest::USER_HEADER;
use serde::{Serialize, de::DeserializeOwned};
use ureq::{
    AsSendBody,
    http::{HeaderValue, Request, StatusCode, header, request},
};

use crate::{base::BaseUrl, connect, error::Error, failure, limits, trust::Trust};

/// A sabakan server. Cheap to clone; clones share their connections.
#[derive(Debug, Clone)]
pub struct Client {
    agent: ureq::Agent,
    base: BaseUrl,
    user: Option<HeaderValue>,
    authorization: Option<HeaderValue>,
    timeout: Duration,
    /// What every request carries besides, such as the version of an API that has versions.
    headers: Vec<(&'static str, HeaderValue)>,
}

/// How to talk to a server.
#[derive(Debug, Clone)]
pub struct ClientOptions {
    /// Who asks, for the server's audit log. Recorded, never trusted.
    pub user: Option<String>,
    /// The token to show. It decides what the server lets us do, and whose name its audit log has.
    pub token: Option<BearerToken>,
    /// How long the server may be silent.
    pub timeout: Duration,
    /// Which certificates are believed. Looked at only for an `https://` URL.
    pub trust: Trust,
}

impl Default for ClientOptions {
    fn default() -> ClientOptions {
        ClientOptions { user: None, token: None, timeout: limits::ANSWER_WAIT, trust: Trust::default() }
    }
}

/// An access token. Never shown, not even for debugging.
#[derive(Clone)]
pub struct BearerToken(String);

impl BearerToken {
    /// A token as the server printed it; white space around it, such as the newline of a file, does not belong to it.
    pub fn new(text: &str) -> BearerToken {
        BearerToken(text.trim().to_owned())
    }

    fn header(&self) -> Result<HeaderValue, Error> {
        let wrong = || Error::Request { reason: "the token is empty or has characters that no token has".to_owned() };
        if self.0.is_empty() || !self.0.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(wrong());
        }
        let mut value = HeaderValue::from_str(&format!("Bearer {}", self.0)).map_err(|_| wrong())?;
        value.set_sensitive(true);
        Ok(value)
    }
}

impl fmt::Debug for BearerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BearerToken(..)")
    }
}

/// Unreserved characters but the dot: a serial must not look like a step in a path.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'~');

impl Client {
    /// A client for the server at this URL, such as `http://localhost:8888` or `https://boot-0:8443`. Connects to nothing yet.
    pub fn new(base_url: &str) -> Result<Client, Error> {
        Client::with_options(base_url, &ClientOptions::default())
    }

    /// Like [`Client::new`]. Refuses a token for a server that only plain HTTP over the network leads to.
    pub fn with_options(base_url: &str, options: &ClientOptions) -> Result<Client, Error> {
        let base = BaseUrl::parse(base_url)?;
        let authorization = options.token.as_ref().map(BearerToken::header).transpose()?;
        if authorization.is_some() {
            base.require_private("a token")?;
        }
        let connect_wait = limits::CONNECT_WAIT.min(options.timeout);
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            // A redirected write would arrive as a read. No address of this API redirects.
            .max_redirects(0)
            .max_redirects_will_error(false)
            // A proxy meant for the internet would be asked for localhost too, and the server would see its address, not ours.
            .proxy(None)
            .user_agent(concat!("sabakan-client/", env!("CARGO_PKG_VERSION")))
            .timeout_resolve(Some(connect_wait))
            .timeout_connect(Some(connect_wait))
            .timeout_recv_response(Some(options.timeout))
            .timeout_per_read(Some(options.timeout))
            .timeout_per_write(Some(options.timeout))
            .timeout_global(Some(limits::REQUEST_WAIT_MAX.max(options.timeout)));
        let config = if base.is_https() { config.tls_config(options.trust.tls_config()?) } else { config };
        Ok(Client {
            agent: connect::agent(config.build()),
            base,
            user: options.user.as_deref().and_then(user_header),
            authorization,
            timeout: options.timeout,
            headers: Vec::new(),
        })
    }

    /// The same client, whose requests carry this header too.
    pub(crate) fn with_header(mut self, name: &'static str, value: &'static str) -> Client {
        self.headers.push((name, HeaderValue::from_static(value)));
        self
    }

    /// The server's URL, without a slash at its end.
    pub fn base_url(&self) -> &str {
        self.base.as_str()
    }

    /// Whether nobody can read on the way what is sent: it is encrypted, or does not leave this host.
    pub fn is_private(&self) -> bool {
        self.base.is_private()
    }

    /// Refuses what must not be readable on the way, such as a disk key, where it would be.
    pub(crate) fn require_private(&self, what: &'static str) -> Result<(), Error> {
        self.base.require_private(what)
    }

    pub(crate) fn get(&self, path: &str, query: &[(String, String)], bytes_max: u64) -> Result<Vec<u8>, Error> {
        self.success(self.request("GET", &self.target(path, query)?), (), bytes_max)
    }

    pub(crate) fn get_json<T: DeserializeOwned>(&self, path: &str) -> Result<T, Error> {
        self.decode(path, &self.get(path, &[], limits::ANSWER_BYTES_MAX)?)
    }

    /// Sends a body; what a successful answer says besides its status is of no interest.
    pub(crate) fn send_json(&self, method: &str, path: &str, body: &impl Serialize) -> Result<(), Error> {
        self.exchange_json(method, path, body).map(drop)
    }

    /// Sends a body and gives back the answer's.
    pub(crate) fn exchange_json(&self, method: &str, path: &str, body: &impl Serialize) -> Result<Vec<u8>, Error> {
        let body = serde_json::to_vec(body).map_err(|error| self.unexpected(path, &error))?;
        self.exchange_bytes(method, path, &[], "application/json", &body)
    }

    /// Puts bytes as they are.
    pub(crate) fn put_bytes(
        &self,
        path: &str,
        query: &[(String, String)],
        content_type: &str,
        body: &[u8],
    ) -> Result<(), Error> {
        self.exchange_bytes("PUT", path, query, content_type, body).map(drop)
    }

    /// Sends bytes as they are and gives back the answer's.
    pub(crate) fn exchange_bytes(
        &self,
        method: &str,
        path: &str,
        query: &[(String, String)],
        content_type: &str,
        body: &[u8],
    ) -> Result<Vec<u8>, Error> {
        let mut request = self.request(method, &self.target(path, query)?).header(header::CONTENT_TYPE, content_type);
        if body.len() >= limits::EXPECT_CONTINUE_BYTES_MIN {
            request = request.header(header::EXPECT, "100-continue");
        }
        self.success(request, body, limits::ANSWER_BYTES_MAX)
    }

    pub(crate) fn delete(&self, path: &str) -> Result<Vec<u8>, Error> {
        self.success(self.request("DELETE", &self.target(path, &[])?), (), limits::ANSWER_BYTES_MAX)
    }

    /// Gives `visit` one line after the other, without its end, while the answer arrives. Stops when `visit` says so.
    pub(crate) fn get_lines(
        &self,
        path: &str,
        query: &[(String, String)],
        visit: impl FnMut(&str) -> io::Result<()>,
    ) -> Result<io::Result<()>, Error> {
        let request = self.request("GET", &self.target(path, query)?);
        self.visit_lines(path, request.body(()).map_err(|error| self.failure(error.into()))?, visit)
    }

    /// The same for an answer that need not end: only its silence is bounded.
    pub(crate) fn follow_lines(
        &self,
        path: &str,
        query: &[(String, String)],
        visit: impl FnMut(&str) -> io::Result<()>,
    ) -> Result<io::Result<()>, Error> {
        let request = self.request("GET", &self.target(path, query)?);
        let request = request.body(()).map_err(|error| self.failure(error.into()))?;
        let request = self.agent.configure_request(request).timeout_global(None).build();
        self.visit_lines(path, request, visit)
    }

    fn visit_lines(
        &self,
        path: &str,
        request: Request<()>,
        mut visit: impl FnMut(&str) -> io::Result<()>,
    ) -> Result<io::Result<()>, Error> {
        let mut response = self.agent.run(request).map_err(|error| self.failure(error))?;
        if !response.status().is_success() {
            let body = response.body_mut().with_config().limit(limits::ANSWER_BYTES_MAX).read_to_vec();
            return Err(Error::api(response.status(), &body.map_err(|error| self.failure(error))?));
        }
        let mut reader = BufReader::new(response.body_mut().as_reader());
        let mut line = Vec::new();
        loop {
            line.clear();
            let bytes = reader.by_ref().take(limits::LINE_BYTES_MAX).read_until(b'\n', &mut line);
            if bytes.map_err(|error| self.failure(error.into()))? == 0 {
                return Ok(Ok(()));
            }
            let Some((b'\n', line)) = line.split_last() else {
                return Err(self.unexpected(path, &"its last line has no end, or a line is too long"));
            };
            let text = std::str::from_utf8(line).map_err(|error| self.unexpected(path, &error))?;
            if let Err(stopped) = visit(text) {
                return Ok(Err(stopped));
            }
        }
    }

    /// Any answer, whatever its status.
    pub(crate) fn get_any(&self, path: &str) -> Result<(StatusCode, Vec<u8>), Error> {
        self.exchange(self.request("GET", &self.target(path, &[])?), (), limits::ANSWER_BYTES_MAX)
    }

    pub(crate) fn decode<T: DeserializeOwned>(&self, path: &str, body: &[u8]) -> Result<T, Error> {
        serde_json::from_slice(body).map_err(|error| self.unexpected(path, &error))
    }

    pub(crate) fn unexpected(&self, path: &str, reason: &dyn std::fmt::Display) -> Error {
        Error::Decode { url: format!("{}{path}", self.base.as_str()), reason: reason.to_string() }
    }

    fn target(&self, path: &str, query: &[(String, String)]) -> Result<String, Error> {
        let mut url = format!("{}{path}", self.base.as_str());
        for (n, (name, value)) in query.iter().enumerate() {
            url.push(if n == 0 { '?' } else { '&' });
            url.extend([encoded(name), "=".to_owned(), encoded(value)]);
        }
        if url.len() > limits::URL_BYTES_MAX {
            let reason = format!("it names too much at once: {} bytes, at most {}", url.len(), limits::URL_BYTES_MAX);
            return Err(Error::Request { reason });
        }
        Ok(url)
    }

    fn request(&self, method: &str, url: &str) -> request::Builder {
        let request = Request::builder().method(method).uri(url).header(header::ACCEPT, "application/json");
        let request = self.user.iter().fold(request, |request, user| request.header(USER_HEADER, user));
        let request = self.headers.iter().fold(request, |request, (name, value)| request.header(*name, value));
        self.authorization.iter().fold(request, |request, value| request.header(header::AUTHORIZATION, value))
    }

    fn success(&self, request: request::Builder, body: impl AsSendBody, bytes_max: u64) -> Result<Vec<u8>, Error> {
        let (status, body) = self.exchange(request, body, bytes_max)?;
        if status.is_success() { Ok(body) } else { Err(Error::api(status, &body)) }
    }

    fn exchange(
        &self,
        request: request::Builder,
        body: impl AsSendBody,
        bytes_max: u64,
    ) -> Result<(StatusCode, Vec<u8>), Error> {
        let request = request.body(body).map_err(|error| self.failure(error.into()))?;
        let mut response = self.agent.run(request).map_err(|error| self.failure(error))?;
        let status = response.status();
        let bytes_max = if status.is_success() { bytes_max } else { limits::ANSWER_BYTES_MAX };
        let body = response.body_mut().with_config().limit(bytes_max).read_to_vec();
        Ok((status, body.map_err(|error| self.failure(error))?))
    }

    fn failure(&self, error: ureq::Error) -> Error {
        failure::sorted(&self.base, self.timeout, error)
    }
}

/// A text as one segment of a path, or as a name or value of a query.
pub(crate) fn encoded(text: &str) -> String {
    utf8_percent_encode(text, ENCODED).to_string()
}

/// A header can carry no control character; a strange name must not stop the work.
fn user_header(user: &str) -> Option<HeaderValue> {
    let visible: String = user.chars().filter(|c| !c.is_control()).collect();
    HeaderValue::from_bytes(visible.trim().as_bytes()).ok().filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests;
