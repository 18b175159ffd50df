//! The client over HTTPS: whom it believes, what it says when it does not, and that what must stay secret works from another host.

use std::{
    net::{IpAddr, UdpSocket},
    path::Path,
};

use sabakan::config::{ServerConfig, TlsFiles};
use sabakan_testkit::{
    Backend, TestServer,
    client::{
        BearerToken, Client, ClientOptions, Error, FeedEnd, FeedPosition, NodeFilter, NodesClient, TlsProblem, Trust,
    },
    fixtures::{self, machine},
    rack,
    raw::request,
    simulated::{Fleet, FleetConfig},
};

fn started() -> TestServer {
    TestServer::start_with(Backend::Embedded, listen_everywhere)
}

fn listen_everywhere(config: &mut ServerConfig) {
    let everywhere = || vec!["0.0.0.0:0".parse().expect("an address")];
    (config.http, config.https) = (everywhere(), everywhere());
}

fn trusting(url: &str, file: &Path, token: Option<&str>) -> Client {
    let token = token.map(BearerToken::new);
    let options = ClientOptions { token, trust: Trust::File(file.to_owned()), ..ClientOptions::default() };
    Client::with_options(url, &options).expect("a client")
}

fn problem(client: &Client) -> TlsProblem {
    match client.version().expect_err("no connection") {
        Error::Tls { problem, .. } => problem,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_certificate_a_server_made_for_itself_is_enough() {
    let mut server = started();
    for host in ["localhost", "127.0.0.1"] {
        let client = trusting(&server.https_url(host), &server.certificate(), None);
        client.put_ipam(&fixtures::ipam()).unwrap_or_else(|error| panic!("{host}: {error}"));
        client.version().expect("again, on the same connection");
    }
    // Large bodies and answers in lines go through TLS as well.
    let client = trusting(&server.https_url("localhost"), &server.certificate(), None);
    client.create_machines(&fixtures::workers(500, 0)).expect("registered");
    let (mut position, mut lines) = (FeedPosition::after(None), 0);
    let end = client.visit_events(&mut position, false, |_| {
        lines += 1;
        Ok(())
    });
    let (end, _written) = end.expect("a feed");
    assert!(matches!(end, FeedEnd::Complete) && lines > 500, "{end:?} after {lines} lines");

    // It is made once: who trusts it can go on after a restart.
    server.restart();
    trusting(&server.https_url("localhost"), &server.certificate(), None).version().expect("trusted still");
}

#[test]
fn another_servers_certificate_is_not() {
    let (server, other) = (started(), started());
    let found = problem(&trusting(&server.https_url("localhost"), &other.certificate(), None));
    assert_eq!(found, TlsProblem::Untrusted);

    // Nor are the authorities of the system, where it has a list of them.
    match Client::new(&server.https_url("localhost")) {
        Ok(client) => assert_eq!(problem(&client), TlsProblem::Untrusted),
        Err(error) => assert!(matches!(error, Error::Trust { .. }), "{error:?}"),
    }
}

#[test]
fn a_certificate_is_for_the_hosts_it_names() {
    let server = started();
    let found = problem(&trusting(&server.https_url("127.0.0.2"), &server.certificate(), None));
    let TlsProblem::WrongName { names } = found else { panic!("{found:?}") };
    assert_eq!(names[..3], ["localhost", "127.0.0.1", "::1"]);
}

#[test]
fn the_http_port_is_told_from_the_https_port() {
    let server = started();
    let url = format!("https://{}", server.url().trim_start_matches("http://").replace("0.0.0.0", "localhost"));
    assert_eq!(problem(&trusting(&url, &server.certificate(), None)), TlsProblem::NotTls);

    let url = server.https_url("localhost").replace("https://", "http://");
    let error = Client::new(&url).expect("a client").version().expect_err("not HTTP");
    assert!(matches!(error, Error::Decode { .. }), "{error:?}");
}

/// An address of this host that is seen from other hosts, or a loopback address if it has none. Nothing is sent.
fn address_for_others() -> IpAddr {
    let look = || {
        let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
        socket.connect("192.0.2.1:9").ok()?;
        Some(socket.local_addr().ok()?.ip())
    };
    look().unwrap_or_else(|| {
        eprintln!("this host has no address for others; the loopback address stands in");
        "127.0.0.1".parse().expect("an address")
    })
}

#[test]
fn tokens_and_disk_keys_are_managed_from_another_host() {
    let address = address_for_others();
    let dir = tempfile::tempdir().expect("a directory");
    let files = TlsFiles { cert: dir.path().join("crt"), key: dir.path().join("key") };
    let made = rcgen::generate_simple_self_signed([address.to_string()]).expect("a certificate");
    std::fs::write(&files.cert, made.cert.pem()).expect("written");
    std::fs::write(&files.key, made.signing_key.serialize_pem()).expect("written");
    let server = TestServer::start_with(Backend::Embedded, |config| {
        listen_everywhere(config);
        config.tls = Some(TlsFiles { cert: files.cert.clone(), key: files.key.clone() });
    });
    let plain = server.url().replace("0.0.0.0", &address.to_string());
    let secure = server.https_url(&address.to_string());
    let root = server.client().create_token("root", "admin").expect("a token, from the server's own host").token;

    let root = trusting(&secure, &files.cert, Some(&root));
    root.put_ipam(&fixtures::ipam()).expect("ipam");
    root.create_machines(&[machine("m", 0, "worker")]).expect("registered");
    let token = root.create_token("alice", "operator").expect("a token").token;
    let alice = trusting(&secure, &files.cert, Some(&token));
    alice.put_key("m", "disk", b"the key").expect("stored");
    assert_eq!(alice.get_key("m", "disk").expect("a key"), b"the key");
    alice.put_state("m", "retiring", false).expect("retiring");

    // In the clear nothing of this works, and the client does not even try with a token.
    let options = ClientOptions { token: Some(BearerToken::new(&token)), ..ClientOptions::default() };
    if !address.is_loopback() {
        let error = Client::with_options(&plain, &options).expect_err("refused");
        assert!(matches!(error, Error::Exposed { .. }), "{error:?}");
        let error = Client::new(&plain).expect("a client").put_key("m", "other", b"key").expect_err("refused");
        assert!(matches!(error, Error::Exposed { .. }), "{error:?}");
        assert_eq!(request(&plain, "DELETE", "/api/v1/crypts/m", &[], b"").status, 403);
        assert_eq!(request(&plain, "GET", "/api/v1/tokens", &[], b"").status, 403);
    }

    assert_eq!(alice.delete_keys("m").expect("deleted"), ["disk"]);
    assert_eq!(alice.get_state("m").expect("a state"), "retired");
    let log = alice.list_logs(None, None).expect("the log");
    let entry = log.iter().find(|entry| entry.category == "crypts" && entry.action == "delete").expect("a record");
    assert_eq!((entry.user.as_str(), entry.known.as_str(), &entry.ip), ("alice", "token", &address.to_string()));
    let listed = root.list_tokens().expect("tokens");
    let id = &listed.iter().find(|token| token.name == "alice").expect("hers").id;
    root.revoke_token(id).expect("revoked");
    assert_eq!(alice.version().and_then(|_| alice.get_state("m")).expect_err("revoked").status(), Some(401));
}

#[test]
fn nodes_are_managed_over_https_beside_the_other_api() {
    let fleet = Fleet::new(FleetConfig::instant());
    let server = TestServer::start_with(Backend::Embedded, |config| {
        listen_everywhere(config);
        config.provisioning = rack::provisioning("conductor-1", &fleet);
    });
    let plain = Client::new(&server.url().replace("0.0.0.0", "127.0.0.1")).expect("a client");
    plain.put_ipam(&fixtures::ipam()).expect("ipam");
    plain.create_machines(&[machine("m", 0, "worker")]).expect("registered");
    let url = server.https_url("localhost");
    let nodes = NodesClient::over(trusting(&url, &server.certificate(), None));
    assert_eq!(nodes.get("m").expect("a node").provision_state.as_deref(), Some("enroll"));
    nodes.set_maintenance("m", Some("over HTTPS")).expect("a change");
    let listed = nodes.list(&NodeFilter::default()).expect("nodes");
    assert_eq!(listed[0].maintenance_reason.as_deref(), Some("over HTTPS"));
    let links = listed[0].other["links"].to_string();
    assert!(links.contains(&format!("{url}/v1/nodes/")), "{links}");
}
