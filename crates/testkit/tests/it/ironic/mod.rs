//! The provisioning API, as its clients use it: over HTTP, with simulated machines behind it.

mod access;
mod agent;
mod allocations;
mod bad_input;
mod clients;
mod nodes;
mod ours;
mod ports;
mod promises;
mod recipes;
mod replay;

use sabakan_testkit::{
    Backend,
    rack::{Rack, WORK_MAX},
    raw::{self, Answer},
    wait_for,
};
use serde_json::Value;

/// A client of the API.
struct Api {
    url: String,
    headers: Vec<(String, String)>,
}

impl Api {
    /// Speaks the newest version.
    fn of(rack: &Rack) -> Api {
        Api::at(rack.server.ironic_url(), "latest")
    }

    fn at(url: String, version: &str) -> Api {
        let mut api = Api { url, headers: Vec::new() };
        api.set("x-openstack-ironic-api-version", version);
        api
    }

    fn set(&mut self, name: &str, value: &str) {
        self.headers.retain(|(known, _)| known != name);
        self.headers.push((name.to_owned(), value.to_owned()));
    }

    fn send(&self, method: &str, path: &str, body: &str) -> Answer {
        let headers: Vec<(&str, &str)> = self.headers.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        raw::request(&self.url, method, path, &headers, body.as_bytes())
    }

    /// Sends JSON and insists on a status.
    fn ask(&self, method: &str, path: &str, body: &Value, status: u16) -> Answer {
        let text = if body.is_null() { String::new() } else { body.to_string() };
        let answer = self.send(method, path, &text);
        assert_eq!(answer.status, status, "{method} {path} {body}: {}", answer.body);
        answer
    }

    fn get(&self, path: &str) -> Value {
        self.ask("GET", path, &Value::Null, 200).json()
    }

    /// Asks a verb and waits for a state nobody works in.
    fn bring(&self, id: &str, body: &Value, state: &str) -> Value {
        self.ask("PUT", &format!("/v1/nodes/{id}/states/provision"), body, 202);
        self.wait_for(id, state)
    }

    fn wait_for(&self, id: &str, state: &str) -> Value {
        wait_for(&format!("{id} to become {state}"), WORK_MAX, || {
            let node = self.get(&format!("/v1/nodes/{id}"));
            let failed = node["provision_state"].as_str().is_some_and(|now| now.ends_with("failed"));
            assert!(!failed || state.ends_with("failed"), "{id}: {}", node["last_error"]);
            (node["provision_state"] == state
                && node["reservation"].is_null()
                && node["target_provision_state"].is_null())
            .then_some(node)
        })
    }
}

/// The text of a refusal: JSON in a text in JSON.
fn fault(answer: &Answer) -> String {
    let body = answer.json();
    let inner: Value = serde_json::from_str(body["error_message"].as_str().expect("a text")).expect("JSON in it");
    let text = inner["faultstring"].as_str().or(inner["description"].as_str());
    text.unwrap_or_else(|| panic!("no text in {inner}")).to_owned()
}

fn rack(backend: Backend) -> (Rack, Api) {
    let rack = Rack::start(backend);
    let api = Api::of(&rack);
    (rack, api)
}
