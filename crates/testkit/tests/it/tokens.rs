//! Access tokens: what each role may do, that a revoked one opens nothing, and whose name the audit log has.

use sabakan_domain::access::AllowedNetworks;
use sabakan_testkit::{
    Backend, TestServer,
    client::{BearerToken, Client, ClientOptions},
    fixtures::{self, machine},
    raw::{Answer, request},
};
use sabakan_wire::rest::NewTokenJson;

on_both_stores!(
    a_token_is_made_used_and_revoked,
    what_each_role_may_do,
    without_an_admin_token_none_is_required,
    a_feed_ends_with_its_token
);

fn started(backend: Backend) -> TestServer {
    let server = TestServer::start(backend);
    server.client().put_ipam(&fixtures::ipam()).expect("ipam");
    server.client().create_machines(&[machine("m", 0, "worker")]).expect("registered");
    server
}

fn with(server: &TestServer, token: &str) -> Client {
    let options = ClientOptions {
        user: Some("declared".into()),
        token: Some(BearerToken::new(token)),
        ..ClientOptions::default()
    };
    Client::with_options(&server.url(), &options).expect("a client")
}

fn send(server: &TestServer, token: Option<&NewTokenJson>, method: &str, path: &str, body: &[u8]) -> Answer {
    let bearer = token.map(|token| format!("Bearer {}", token.token));
    let headers: Vec<_> = bearer.iter().map(|value| ("authorization", value.as_str())).collect();
    request(&server.url(), method, &format!("/api/v1/{path}"), &headers, body)
}

fn a_token_is_made_used_and_revoked(backend: Backend) {
    let mut server = started(backend);
    let created = server.client().create_token("ci robot", "operator").expect("a token");
    assert_eq!((created.name.as_str(), created.role.as_str()), ("ci robot", "operator"));
    with(&server, &created.token).put_label("m", "a", "1").expect("labelled");
    let log = server.client().list_logs(None, None).expect("the log");
    let entry = log.last().expect("an entry");
    assert_eq!((entry.user.as_str(), entry.known.as_str(), entry.ip.as_str()), ("ci robot", "token", "127.0.0.1"));

    let listed = server.client().list_tokens().expect("tokens");
    assert_eq!((listed.len(), &listed[0].id, listed[0].role.as_str()), (1, &created.id, "operator"));
    // The secret itself may hold the character that stands before it.
    let secret = created.token.splitn(3, '_').nth(2).expect("a secret");
    let shown = serde_json::to_string(&listed).expect("JSON") + &serde_json::to_string(&log).expect("JSON");
    assert!(!shown.contains(secret), "the secret is shown once");
    for (key, value) in server.dump() {
        let value = String::from_utf8_lossy(&value);
        assert!(!value.contains(secret) && !value.contains(&created.token), "{key} holds a token");
    }
    server.restart();
    with(&server, &created.token).put_label("m", "a", "2").expect("good after a restart");

    for wrong in [format!("{}x", created.token), "nonsense".to_owned(), created.token.replace(&created.id, "0000")] {
        let error = with(&server, &wrong).get_state("m").expect_err("not a token");
        assert_eq!(error.status(), Some(401), "{error}");
        assert!(!error.to_string().contains(secret), "{error}");
    }
    server.client().revoke_token(&created.id).expect("revoked");
    let error = with(&server, &created.token).get_state("m").expect_err("revoked");
    assert_eq!(error.status(), Some(401), "{error}");
    assert!(error.to_string().starts_with("Unauthorized: unauthorized: the token is malformed, unknown or revoked"));
    assert_eq!(server.client().list_tokens().expect("tokens"), []);
    assert_eq!(server.client().revoke_token(&created.id).expect_err("gone").status(), Some(404));
    let log = server.client().list_logs(None, None).expect("the log");
    let last = log.last().expect("an entry");
    assert_eq!((&last.instance, last.category.as_str(), last.action.as_str()), (&created.id, "tokens", "revoke"));
    for (name, role) in [("x", "root"), ("", "read"), ("a\nb", "read"), (&*"n".repeat(64), "read")] {
        let status = server.client().create_token(name, role).err().and_then(|error| error.status());
        assert_eq!(status, Some(400), "{name:?} {role}");
    }
}

/// What each request needs; columns: no token, read, machine, operator, admin. `y` is allowed.
const RIGHTS: [(&str, &str, &[u8], &str, &str); 10] = [
    // request, body, allowed from elsewhere, allowed when tokens are required
    ("GET", "machines", b"", "yyyyy", "-yyyy"),
    ("GET", "state/m", b"", "yyyyy", "-yyyy"),
    ("PUT", "labels/m/a", b"1", "---yy", "---yy"),
    ("PUT", "state/m", b"healthy", "---yy", "---yy"),
    ("PUT", "state/m?force=true", b"healthy", "---yy", "---yy"),
    ("PUT", "crypts/m/disk", b"key", "---yy", "---yy"),
    ("GET", "crypts/m/disk", b"", "---yy", "---yy"),
    ("DELETE", "crypts/m", b"", "---yy", "---yy"),
    ("GET", "logs", b"", "yyyyy", "-y-yy"),
    ("GET", "tokens", b"", "----y", "----y"),
];

fn what_each_role_may_do(backend: Backend) {
    let mut server = started(backend);
    let tokens = ["read", "machine", "operator", "admin"]
        .map(|role| Some(server.client().create_token(&format!("a {role}"), role).expect("a token")));
    let tokens: Vec<Option<NewTokenJson>> = std::iter::once(None).chain(tokens).collect();
    for require_token in [false, true] {
        let restarted = server.restart_with(|config| {
            config.allow_ips = AllowedNetworks::new(["192.0.2.1"]).expect("a network");
            config.require_token = require_token;
        });
        restarted.expect("there is an admin token");
        for (method, path, body, elsewhere, required) in RIGHTS {
            let columns = if require_token { required } else { elsewhere };
            for (column, token) in columns.bytes().zip(&tokens) {
                let answer = send(&server, token.as_ref(), method, path, body);
                let role = token.as_ref().map_or("none", |token| &token.role);
                let denied = answer.status == 403;
                assert_eq!(denied, column == b'-', "{method} {path} {role} {require_token}: {}", answer.body);
                if denied {
                    assert!(answer.error().starts_with("forbidden: "), "{}", answer.error());
                    assert_eq!(answer.json()["kind"], "forbidden");
                } else {
                    assert!(answer.status < 400 || matches!(answer.status, 404 | 409 | 500), "{}", answer.body);
                }
            }
        }
        // What everybody may ask, whatever is required.
        assert_eq!(request(&server.url(), "GET", "/health", &[], b"").json()["health"], "healthy");
        assert_eq!(request(&server.url(), "GET", "/version", &[], b"").status, 200);
    }
}

fn without_an_admin_token_none_is_required(backend: Backend) {
    let mut server = TestServer::start(backend);
    server.client().create_token("x", "operator").expect("a token");
    let text = server.restart_with(|config| config.require_token = true).expect_err("nobody could change anything");
    assert!(text.contains("--require-token needs an admin token"), "{text}");
}

fn a_feed_ends_with_its_token(backend: Backend) {
    use std::io::{Read as _, Write as _};
    let server = started(backend);
    let token = server.client().create_token("watcher", "read").expect("a token");
    let mut stream = sabakan_testkit::raw::connect(&server.url());
    let head = format!("GET /api/v1/events?follow=true HTTP/1.0\r\nauthorization: Bearer {}\r\n\r\n", token.token);
    stream.write_all(head.as_bytes()).expect("sent");
    let mut seen = Vec::new();
    let mut byte = [0];
    while !seen.ends_with(b"snapshot-end") {
        stream.read_exact(&mut byte).expect("the snapshot");
        seen.push(byte[0]);
    }
    server.client().revoke_token(&token.id).expect("revoked");
    server.client().put_label("m", "wakes", "it").expect("labelled");
    let mut rest = String::new();
    stream.read_to_string(&mut rest).expect("the feed comes to its end");
}
