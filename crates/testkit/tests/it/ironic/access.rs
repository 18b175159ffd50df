//! Who may use the API: the same callers as everywhere else, and clients that only know HTTP basic authentication.

use sabakan_domain::access::AllowedNetworks;
use sabakan_drivers::simulated::{Fleet, FleetConfig};
use sabakan_testkit::{Backend, TestServer, rack};
use serde_json::{Value, json};

use super::Api;

/// `Basic` and a user name with a password, as clients send them.
fn basic(password: &str) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::from("Basic ");
    for chunk in format!("me:{password}").as_bytes().chunks(3) {
        let bits = chunk.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for n in 0..4 {
            let index = (bits >> (18 - 6 * n)) & 63;
            text.push(if n <= chunk.len() { char::from(ALPHABET[index as usize]) } else { '=' });
        }
    }
    text
}

#[test]
fn strangers_look_and_only_tokens_change() {
    let fleet = Fleet::new(FleetConfig::instant());
    let mut server = TestServer::start_with(Backend::Embedded, |config| {
        config.provisioning = rack::provisioning("conductor-1", &fleet);
    });
    let token = |role| server.client().create_token("t", role).expect("a token").token;
    let (operator, read) = (token("operator"), token("read"));
    server
        .restart_with(|config| config.allow_ips = AllowedNetworks::new(["192.0.2.1"]).expect("networks"))
        .expect("started");

    let mut api = Api::at(server.ironic_url(), "latest");
    let body = json!({ "driver": "fake-hardware", "name": "n1" });
    let refused = api.ask("POST", "/v1/nodes", &body, 401);
    assert_eq!(refused.header("www-authenticate"), Some("Basic realm=\"sabakan\""));
    assert_eq!(refused.json()["error"]["code"], json!(401));
    assert_eq!(api.get("/v1/nodes")["nodes"], json!([]), "reading is open");
    for (header, status) in [
        (basic(&read), 403),
        (basic("sabakan_nobody"), 401),
        ("Basic ???".to_owned(), 401),
        (format!("Bearer {operator}x"), 401),
        (basic(&operator), 201),
    ] {
        api.set("authorization", &header);
        api.ask("POST", "/v1/nodes", &body, status);
    }
    api.set("authorization", &format!("Bearer {operator}"));
    api.ask("DELETE", "/v1/nodes/n1", &Value::Null, 204);
    // Discovery comes without credentials, or with those of another service.
    api.set("authorization", "Bearer elsewhere");
    assert_eq!(api.get("/")["versions"][0]["id"], json!("v1"));
    api.get("/v1/");
}
