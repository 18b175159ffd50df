//! Another sabakan as the registry of machines, when the planner of a cluster runs apart from the registry.
//!
//! [`GraphqlRegistry`] asks it over HTTP, in one GraphQL query. A list that did not come is never an empty one: whatever is wrong
//! with an answer is a failure, also a machine in it that cannot be understood.

mod answer;

use std::{future::Future, pin::Pin, time::Duration};

use reqwest::{
    Client, StatusCode, Url,
    header::{ACCEPT, CONTENT_TYPE},
    redirect::Policy,
};
use sabakan_domain::cluster::{input::ListedMachine, variables::Variables};
use serde_json::json;

/// A boxed future of a question to a registry.
pub type RegistryFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, RegistryError>> + Send + 'a>>;

/// Why a registry gave no list. A list that did not come is never an empty one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the registry gave no list of machines: {0}")]
pub struct RegistryError(pub String);

/// Lists machines.
pub trait Registry: Send + Sync {
    /// The machines that the variables mean.
    fn machines<'a>(&'a self, variables: &'a Variables) -> RegistryFuture<'a, Vec<ListedMachine>>;
}

/// Most bytes of an answer: about 100,000 machines with many labels.
const ANSWER_BYTES_MAX: usize = 256 * 1024 * 1024;

/// Most characters of what is wrong with an answer, which may be its own words.
const QUOTED_MAX: usize = 300;

/// What is asked. The defaults of the variables hold for those who give none; the planner gives its own.
const QUERY: &str = "query ckeSearch($having: MachineParams = null, $notHaving: MachineParams = { roles: [\"boot\"], states: [RETIRED] }) {
  searchMachines(having: $having, notHaving: $notHaving) {
    spec {
      serial
      labels {
        name
        value
      }
      rack
      indexInRack
      role
      ipv4
      registerDate
      retireDate
      bmc {
        bmcType
      }
    }
    status {
      state
      duration
    }
  }
}";

/// Another sabakan, asked over HTTP.
#[derive(Debug, Clone)]
pub struct GraphqlRegistry {
    client: Client,
    url: Url,
}

impl GraphqlRegistry {
    /// A registry at a URL, which may leave `/graphql` at its end out, and how long it may take to answer. Connects to nothing yet.
    pub fn new(url: &str, timeout: Duration) -> Result<GraphqlRegistry, RegistryError> {
        let client = Client::builder()
            // A registry is reached directly, whatever the environment says about proxies, and answers at its own address.
            .no_proxy()
            .redirect(Policy::none())
            .connect_timeout(timeout)
            .timeout(timeout)
            .user_agent(concat!("sabakan/", env!("CARGO_PKG_VERSION")))
            .build();
        let client = client.map_err(|error| RegistryError(format!("no client can be made: {error}")))?;
        Ok(GraphqlRegistry { client, url: endpoint(url).map_err(RegistryError)? })
    }

    /// Where it asks.
    pub fn url(&self) -> &str {
        self.url.as_str()
    }

    async fn ask(&self, variables: &Variables) -> Result<Vec<ListedMachine>, RegistryError> {
        let body = json!({ "query": QUERY, "variables": variables.document() }).to_string();
        let request = self.client.post(self.url.clone()).header(CONTENT_TYPE, "application/json");
        let sent = request.header(ACCEPT, "application/json").body(body).send().await;
        let response = sent.map_err(|error| failed(&error))?;
        let status = response.status();
        let body = whole(response).await?;
        if status != StatusCode::OK {
            return Err(RegistryError(format!("it answered {status}: {}", quoted(&body))));
        }
        // Many machines take a while to read, and nothing is waited for meanwhile.
        let read = tokio::task::spawn_blocking(move || answer::machines(&body)).await;
        let read = read.map_err(|_| RegistryError("its answer was not read".to_owned()))?;
        // What is wrong may repeat any part of the answer.
        read.map_err(|reason| RegistryError(quoted(reason.as_bytes())))
    }
}

impl Registry for GraphqlRegistry {
    fn machines<'a>(&'a self, variables: &'a Variables) -> RegistryFuture<'a, Vec<ListedMachine>> {
        Box::pin(self.ask(variables))
    }
}

/// The address of GraphQL, from what people write.
fn endpoint(text: &str) -> Result<Url, String> {
    let mut url: Url = text.parse().map_err(|_| format!("{text:?} is not a URL"))?;
    if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
        return Err(format!("{text:?} is not an http or https URL"));
    }
    let path = url.path().trim_end_matches('/').to_owned();
    url.set_path(&if path.ends_with("/graphql") { path } else { format!("{path}/graphql") });
    Ok(url)
}

/// A whole body, within bounds.
async fn whole(mut response: reqwest::Response) -> Result<Vec<u8>, RegistryError> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| failed(&error))? {
        if body.len() + chunk.len() > ANSWER_BYTES_MAX {
            return Err(RegistryError(format!("its answer is larger than {ANSWER_BYTES_MAX} bytes")));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// What went wrong on the way, with its causes and without the address, which callers may see.
fn failed(error: &reqwest::Error) -> RegistryError {
    if error.is_timeout() {
        return RegistryError("it did not answer in time".to_owned());
    }
    let mut text = if error.is_connect() { "it cannot be reached" } else { "the connection broke" }.to_owned();
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    RegistryError(text)
}

fn quoted(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(QUOTED_MAX).collect();
    if line.trim().is_empty() { "nothing".to_owned() } else { line }
}

#[cfg(test)]
mod tests;
