//! A change that was made is answered as one, whatever becomes of the store right after it. Every request of every API that changes
//! anything is sent to a server whose store answers no read once the change is in it: an answer that needs another read fails.
//!
//! Requests are looked up in the document of the REST API and in the routes of the provisioning API. One that nobody sends here fails
//! the test, so that a new one cannot be forgotten.

mod provisioning;
mod rest;
mod routes;

use std::{
    collections::BTreeSet,
    sync::{Arc, OnceLock},
};

use sabakan_testkit::{
    TestServer,
    rack::{self, WORK_MAX},
    raw::{self, Answer},
    silent::SilentStore,
    simulated::{Fleet, FleetConfig},
    wait_for,
};
use serde_json::Value;

#[test]
fn no_answer_to_a_change_needs_a_read_after_it() {
    let site = Site::start();
    rest::change_everything(&site);
    provisioning::change_everything(&site);
    let sent = site.sent.lock().expect("no test panics in it").clone();
    let known: BTreeSet<String> = routes::rest().into_iter().chain(routes::provisioning()).collect();
    let forgotten: Vec<_> = known.difference(&sent).filter(|route| !is_exempt(route)).collect();
    assert!(forgotten.is_empty(), "send these here as well, or say why they write nothing: {forgotten:#?}");
    let gone: Vec<_> = sent.difference(&known).filter(|route| !route.ends_with("/graphql")).collect();
    assert!(gone.is_empty(), "these are no routes: {gone:#?}");
}

/// Requests that write nothing to the store: they end at a controller, or are refused by every driver there is.
const EXEMPT: &[&str] = &[
    "PUT /v1/nodes/{id}/management/boot_device",
    "PUT /v1/nodes/{id}/management/inject_nmi",
    "PUT /v1/nodes/{id}/management/indicators/{name}",
    "POST /v1/nodes/{id}/vmedia",
    "DELETE /v1/nodes/{id}/vmedia",
    "ANY /v1/nodes/{id}/vendor_passthru",
    "ANY /v1/nodes/{id}/vendor_passthru/{method}",
    "ANY /v1/drivers/{name}/vendor_passthru",
    "ANY /v1/drivers/{name}/vendor_passthru/{method}",
    "POST /v1/events",
];

fn is_exempt(route: &str) -> bool {
    EXEMPT.contains(&route)
}

/// A server on a store that falls silent after a change.
struct Site {
    server: TestServer,
    store: Arc<SilentStore>,
    sent: std::sync::Mutex<BTreeSet<String>>,
}

/// Who asks for the change that is looked at. It is in the entry of the audit log, and so in the transaction.
const WHO: &str = "whoever-reads-after-writing";

impl Site {
    fn start() -> Site {
        let store: Arc<OnceLock<Arc<SilentStore>>> = Arc::default();
        let made = Arc::clone(&store);
        let between = move |inner| {
            let silent = SilentStore::new(inner);
            made.set(Arc::clone(&silent)).ok().expect("the server starts once");
            silent as Arc<dyn sabakan_store::Store>
        };
        let fleet = Fleet::new(FleetConfig::instant());
        let server = TestServer::start_through(None, Some(Box::new(between)), |config| {
            config.provisioning = rack::provisioning("conductor-1", &fleet);
        });
        let store = Arc::clone(store.get().expect("the server has a store"));
        Site { server, store, sent: std::sync::Mutex::default() }
    }

    /// Sends a request that must change something, and must be answered with a success although nothing can be read after it. `route`:
    /// method and path as they are documented; `path`: as it is sent.
    fn change(&self, route: &str, path: &str, body: &Value) -> Answer {
        self.change_marked(route, path, body, WHO)
    }

    /// The same where the change is recognised by something else than who asked for it.
    fn change_marked(&self, route: &str, path: &str, body: &Value, mark: &str) -> Answer {
        self.sent.lock().expect("no test panics in it").insert(route.to_owned());
        let method = route.split(' ').next().expect("a method");
        self.store.arm(mark);
        let answer = self.send(method, path, body, WHO);
        let made = self.store.disarm();
        assert!(answer.status < 400, "{route} {path}: {} after the change: {}", answer.status, answer.body);
        assert!(made, "{route} {path} changed nothing: {} {}", answer.status, answer.body);
        answer
    }

    /// Sends a request that something else needs.
    fn prepare(&self, method: &str, path: &str, body: &Value) -> Value {
        let answer = self.send(method, path, body, "");
        assert!(answer.status < 400, "{method} {path}: {} {}", answer.status, answer.body);
        if answer.body.is_empty() { Value::Null } else { answer.json() }
    }

    /// A text is sent as it is, everything else as JSON.
    fn send(&self, method: &str, path: &str, body: &Value, user: &str) -> Answer {
        let text = match body {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let url = if path.starts_with("/v1/") { self.server.ironic_url() } else { self.server.url() };
        let kind = if body.is_string() { "text/plain" } else { "application/json" };
        let headers = [("content-type", kind), ("x-sabakan-user", user), ("x-openstack-ironic-api-version", "latest")];
        raw::request(&url, method, path, &headers, text.as_bytes())
    }

    /// Waits until a node is in a state and nobody works on it.
    fn wait_for(&self, id: &str, state: &str) {
        wait_for(&format!("{id} to become {state}"), WORK_MAX, || {
            let node = self.prepare("GET", &format!("/v1/nodes/{id}"), &Value::Null);
            assert!(node["last_error"].is_null(), "{id}: {}", node["last_error"]);
            let rests = node["reservation"].is_null() && node["target_power_state"].is_null();
            (node["provision_state"] == state && rests).then_some(())
        });
    }
}
