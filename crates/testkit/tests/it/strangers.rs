//! What a stranger cannot use up: room for bodies, connections, feeds. Strangers come from an address of this machine that is not
//! loopback; operators from loopback.

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    time::{Duration, Instant},
};

use sabakan::provisioning::IronicTls;
use sabakan_domain::admission::BodyPace;
use sabakan_testkit::{
    Backend, TestServer, fixtures,
    hostile::{Crowd, IdleHttp2, SlowRequest, own_address},
    raw::{Answer, read_answer, request},
    wait_for,
};

/// How long an operator may wait. Generous: without the shares it is half a minute and more.
const PROMPT: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_secs(60);

/// A server that others than this machine reach.
fn open_to_all(adjust: impl FnOnce(&mut sabakan::config::ServerConfig)) -> TestServer {
    TestServer::start_with(Backend::Embedded, |config| {
        let everywhere = || vec!["0.0.0.0:0".parse().expect("an address")];
        (config.http, config.https, config.provisioning.ironic) = (everywhere(), everywhere(), everywhere());
        // Ramdisks that report in the clear are the cheapest way to be hostile.
        config.provisioning.ironic_tls = IronicTls::Off;
        adjust(config);
    })
}

fn port(url: &str) -> u16 {
    url.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port")
}

/// Where strangers reach what operators reach at `url`.
fn outside(url: &str) -> SocketAddr {
    SocketAddr::new(own_address(), port(url))
}

/// Where operators reach it.
fn inside(url: &str) -> String {
    format!("http://127.0.0.1:{}", port(url))
}

fn stranger(server: &TestServer) -> TcpStream {
    let stream = TcpStream::connect(outside(&server.url())).expect("connected");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream
}

fn metric(server: &TestServer, name: &str) -> f64 {
    let answer = request(&inside(&server.url()), "GET", "/metrics", &[], b"");
    let value = answer.body.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    value.unwrap_or_else(|| panic!("no {name} in {}", answer.body))
}

/// Reads the answer to a request on a connection that stays open.
fn answer_head(stream: &mut TcpStream) -> String {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).expect("an answer");
        head.extend(byte);
    }
    String::from_utf8(head).expect("text")
}

#[test]
fn two_hundred_slow_bodies_do_not_hold_up_an_operator() {
    let server = open_to_all(|_| {});
    let (http, ironic) = (outside(&server.url()), outside(&server.ironic_url()));
    let slow = (0..200).map(|number| match number % 4 {
        0 => SlowRequest::body(http, "POST", "/graphql"),
        1 => SlowRequest::body(ironic, "POST", "/v1/heartbeat/1be26c0b-03f2-4d2e-ae87-c02d7f33c123"),
        _ => SlowRequest::body(ironic, "POST", "/v1/continue_inspection"),
    });
    let crowd = Crowd::start(slow.collect(), Duration::from_secs(1));
    let all = 200.0 * 64.0 * 1024.0;
    wait_for("every slow body to be read", PATIENCE, || {
        (metric(&server, "sabakan_http_body_bytes ") >= all).then_some(())
    });
    let ipam = serde_json::to_vec(&fixtures::ipam()).expect("JSON");
    for _ in 0..20 {
        let begun = Instant::now();
        let answer = request(&inside(&server.url()), "PUT", "/api/v1/config/ipam", &[], &ipam);
        assert_eq!((answer.status, begun.elapsed() < PROMPT), (200, true), "{answer:?} after {:?}", begun.elapsed());
    }
    drop(crowd);
    wait_for("their room to be free", PATIENCE, || (metric(&server, "sabakan_http_body_bytes ") == 0.0).then_some(()));
}

#[test]
fn a_body_that_comes_too_slowly_is_refused_and_its_connection_closed() {
    let server = open_to_all(|config| {
        config.bodies.pace = BodyPace { grace: Duration::from_millis(200), bytes_per_second_min: 1_000_000 };
    });
    let mut stream = TcpStream::connect(outside(&server.ironic_url())).expect("connected");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream.write_all(&SlowRequest::body(outside(&server.url()), "POST", "/v1/continue_inspection").head).expect("sent");
    let answer = read_answer(stream);
    assert_eq!(answer.status, 400, "{answer:?}");
    assert!(answer.body.contains("the request body comes too slowly"), "{answer:?}");
    assert_eq!(metric(&server, "sabakan_http_refusals_total{room=\"bodies\",reason=\"slow\"}"), 1.0);
}

/// Sends most of a report of 16 MiB and keeps the rest.
fn large_report(to: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(to).expect("connected");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let length = 16 << 20;
    let head = format!("POST /v1/continue_inspection HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n");
    stream.write_all(head.as_bytes()).expect("sent");
    // A server that refuses may close before it has all of it.
    let _refused_early = stream.write_all(&vec![b' '; length - 1]);
    stream
}

#[test]
fn an_address_past_its_share_of_bodies_is_told_to_try_again() {
    let server = open_to_all(|_| {});
    let ironic = outside(&server.ironic_url());
    let held: Vec<_> = (0..2).map(|_| large_report(ironic)).collect();
    let two = 2.0 * f64::from(16 << 20) - 2.0;
    wait_for("two reports to be here", PATIENCE, || (metric(&server, "sabakan_http_body_bytes ") >= two).then_some(()));
    let mut third = TcpStream::connect(ironic).expect("connected");
    third.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    third.write_all(&SlowRequest::body(ironic, "POST", "/v1/continue_inspection").head).expect("sent");
    let answer = read_answer(third);
    assert_eq!((answer.status, answer.header("retry-after")), (503, Some("2")), "{answer:?}");
    assert!(answer.body.contains("your address is sending too much at once"), "{answer:?}");
    // Whoever shows no ramdisk's report has room of its own, and so has the operator.
    let query = br#"{"query": "{ __typename }"}"#;
    let url = format!("http://{}", outside(&server.url()));
    let answer = request(&url, "POST", "/graphql", &[("content-type", "application/json")], query);
    assert_eq!(answer.status, 200, "{answer:?}");
    let registration = vec![b' '; 31 << 20];
    let answer = request(&inside(&server.url()), "POST", "/api/v1/machines", &[], &registration);
    assert_eq!(answer.status, 400, "read to its end and found to be empty: {answer:?}");
    drop(held);
}

#[test]
fn idle_http2_connections_lock_nobody_out() {
    let server = open_to_all(|config| {
        (config.connections.connections_max, config.connections.per_address) = (Some(64), Some(48));
    });
    let https = SocketAddr::new(own_address(), port(&server.https_url("localhost")));
    let stranger = IdleHttp2::new(https, &server.certificate()).expect("a certificate");
    let idle: Vec<_> = (0..100).map(|_| stranger.open().expect("connected")).collect();
    wait_for("the stranger to be back at its share", PATIENCE, || {
        (metric(&server, "sabakan_http_connections ") <= 49.0).then_some(())
    });
    assert!(metric(&server, "sabakan_http_connections_shed_total ") >= 52.0);
    assert_eq!(metric(&server, "sabakan_http_connections_max "), 64.0);
    let operators: Vec<_> = (0..16).map(|_| request(&inside(&server.url()), "GET", "/version", &[], b"")).collect();
    assert!(operators.iter().all(|answer: &Answer| answer.status == 200));
    let mut idle = idle.into_iter();
    let (first, last) = (idle.next().expect("the first"), idle.next_back().expect("the last"));
    // It was closed long ago; the last one would keep us waiting.
    drop((first.until_closed(), last));
}

#[test]
fn an_http2_connection_without_a_request_is_closed() {
    let server = open_to_all(|config| config.connections.idle_max = Duration::from_millis(300));
    let https = SocketAddr::new(own_address(), port(&server.https_url("localhost")));
    let stranger = IdleHttp2::new(https, &server.certificate()).expect("a certificate");
    let frames = stranger.open().expect("connected").until_closed();
    let goaway = frames.windows(4).any(|bytes| bytes == [8, 7, 0, 0]) || frames.windows(2).any(|bytes| bytes == [7, 0]);
    assert!(goaway, "it is told so first: {frames:?}");
}

#[test]
fn busy_connections_past_a_share_are_refused() {
    let server = open_to_all(|config| {
        (config.connections.connections_max, config.connections.per_address) = (Some(64), Some(4));
        config.feeds.feeds_max = 256;
    });
    let busy: Vec<_> = (0..4)
        .map(|_| {
            let mut stream = stranger(&server);
            stream.write_all(b"GET /api/v1/events?follow=true HTTP/1.1\r\nhost: x\r\n\r\n").expect("sent");
            assert!(answer_head(&mut stream).starts_with("HTTP/1.1 200 "));
            stream
        })
        .collect();
    let mut fifth = stranger(&server);
    // Sending may fail already: it was closed as soon as it came.
    let _closed = fifth.write_all(b"GET /version HTTP/1.1\r\nhost: x\r\n\r\n");
    let mut nothing = Vec::new();
    let _reset = fifth.read_to_end(&mut nothing);
    assert_eq!(nothing, b"", "it is closed at once");
    assert!(metric(&server, "sabakan_http_refusals_total{room=\"connections\",reason=\"address\"}") >= 1.0);
    drop(busy);
}

#[test]
fn a_stranger_cannot_have_all_feeds() {
    let server = open_to_all(|config| config.feeds.feeds_max = 16);
    let follow = b"GET /api/v1/events?follow=true HTTP/1.1\r\nhost: x\r\n\r\n";
    let mut first = stranger(&server);
    first.write_all(follow).expect("sent");
    assert!(answer_head(&mut first).starts_with("HTTP/1.1 200 "));
    let url = format!("http://{}", outside(&server.url()));
    let answer = request(&url, "GET", "/api/v1/events?follow=true", &[], b"");
    assert_eq!((answer.status, answer.header("retry-after")), (503, Some("1")));
    assert!(answer.error().starts_with("your address has its share of the 16 event feeds"), "{answer:?}");
    for _ in 0..4 {
        let mut operator = TcpStream::connect(("127.0.0.1", port(&server.url()))).expect("connected");
        operator.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        operator.write_all(follow).expect("sent");
        assert!(answer_head(&mut operator).starts_with("HTTP/1.1 200 "));
    }
}

#[test]
fn an_idle_connection_outlives_the_time_for_headers() {
    let server = open_to_all(|config| config.connections.header_max = Duration::from_millis(200));
    let ask = b"GET /api/v1/machines/none HTTP/1.1\r\nhost: x\r\n\r\n";
    let mut polling = stranger(&server);
    polling.write_all(ask).expect("sent");
    let head = answer_head(&mut polling);
    assert!(head.contains("\r\nkeep-alive: timeout=180\r\n"), "{head}");
    let (begun, mut slow) = (Instant::now(), stranger(&server));
    slow.write_all(b"GET /version HTTP/1.1\r\nhost:").expect("sent");
    let mut nothing = Vec::new();
    // A reset is an end as well.
    let _reset = slow.read_to_end(&mut nothing);
    assert_eq!(nothing, b"", "headers that do not come end the connection");
    wait_for("more time to pass than headers have", PATIENCE, || {
        (begun.elapsed() > Duration::from_millis(500)).then_some(())
    });
    let length: usize =
        head.split_once("content-length: ").and_then(|(_, rest)| rest.lines().next()?.parse().ok()).expect("a length");
    polling.read_exact(&mut vec![0; length]).expect("the body");
    polling.write_all(ask).expect("sent");
    assert!(answer_head(&mut polling).starts_with("HTTP/1.1 404 "), "it is still there");
}

#[test]
fn the_oldest_idle_connection_makes_room() {
    let server = TestServer::start_with(Backend::Embedded, |config| config.connections.connections_max = Some(8));
    let connect = || {
        let mut stream = sabakan_testkit::raw::connect(&server.url());
        stream.write_all(b"GET /version HTTP/1.1\r\nhost: x\r\n\r\n").expect("sent");
        assert!(answer_head(&mut stream).starts_with("HTTP/1.1 200 "));
        stream
    };
    let mut idle: Vec<_> = (0..8).map(|_| connect()).collect();
    let newcomer = connect();
    let mut rest = Vec::new();
    idle.remove(0).read_to_end(&mut rest).expect("closed in good order");
    drop((newcomer, idle));
}
