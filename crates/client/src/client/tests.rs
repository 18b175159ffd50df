//! How requests go out and how failures are sorted, against servers that misbehave on purpose.

use std::io::Write;

use sabakan_wire::rest::{ErrorKind, MachineInput};

use super::*;
use crate::{ApiBody, fake};

mod https;

#[test]
fn requests_say_who_asks() {
    let check = |user: Option<&str>, expected: Option<&str>| {
        let (url, request) = fake::answer(200, "{}");
        let options = ClientOptions { user: user.map(str::to_owned), ..ClientOptions::default() };
        Client::with_options(&url, &options).unwrap().get_dhcp().unwrap();
        let request = request.join().unwrap();
        let header = request.lines().find_map(|line| line.strip_prefix("x-sabakan-user: "));
        assert_eq!(header, expected, "{request}");
    };
    check(Some("operator"), Some("operator"));
    check(Some(" oper\r\nator: x "), Some("operator: x"));
    check(Some("\n"), None);
    check(None, None);
}

#[test]
fn requests_show_the_token_and_nobody_else_does() {
    let (url, request) = fake::answer(200, "{}");
    let options = ClientOptions { token: Some(BearerToken::new("sbk_id_secret\n")), ..ClientOptions::default() };
    let client = Client::with_options(&url, &options).unwrap();
    client.get_dhcp().unwrap();
    let request = request.join().unwrap();
    assert!(request.contains("authorization: Bearer sbk_id_secret\r\n"), "{request}");
    assert!(!format!("{options:?}{client:?}").contains("secret"));
    for wrong in ["", "\n", "a b", "a\nb", "tökén"] {
        let options = ClientOptions { token: Some(BearerToken::new(wrong)), ..ClientOptions::default() };
        let error = Client::with_options(&url, &options).unwrap_err().to_string();
        assert_eq!(
            error, "the request cannot be sent: the token is empty or has characters that no token has",
            "{wrong:?}"
        );
    }
}

#[test]
fn refusals_carry_status_kind_and_text() {
    let body = r#"{"error":"serial a is already registered","request_id":"r1","status":409,"kind":"conflict"}"#;
    let (url, _request) = fake::answer(409, body);
    let error = Client::new(&url).unwrap().create_machines(&[]).unwrap_err();
    assert_eq!(error.to_string(), "Conflict: serial a is already registered");
    assert_eq!((error.status(), error.kind()), (Some(409), Some(ErrorKind::Conflict)));
    assert_eq!(error.json().map(|json| json.request_id.as_str()), Some("r1"));

    let (url, _request) = fake::answer(302, "elsewhere");
    let error = Client::new(&url).unwrap().get_ipam().unwrap_err();
    assert!(matches!(error, Error::Api { status: 302, body: ApiBody::Text(_), .. }), "{error:?}");
    assert_eq!(error.to_string(), "Found: elsewhere");
}

#[test]
fn nobody_there() {
    // A port of a service that has not been in use for decades.
    let error = Client::new("http://127.0.0.1:1").unwrap().version().unwrap_err();
    assert!(matches!(error, Error::Connect { .. }), "{error:?}");
    assert_eq!(error.to_string(), "cannot connect to http://127.0.0.1:1: connection refused");

    let error = Client::new("http://host.invalid:1").unwrap().version().unwrap_err();
    assert!(matches!(error, Error::Connect { .. }), "{error:?}");
    assert!(!error.outcome_unknown());
}

#[test]
fn silent_server_ends_in_a_timeout() {
    let (done, wait) = std::sync::mpsc::channel::<()>();
    let (url, _server) = fake::serve(move |_| wait.recv());
    // Long enough for the connection itself, also on a busy machine.
    let options = ClientOptions { timeout: Duration::from_millis(500), ..ClientOptions::default() };
    let error = Client::with_options(&url, &options).unwrap().version().unwrap_err();
    drop(done);
    assert_eq!(error.to_string(), format!("{url} did not answer in time (limit: 0.5 s of silence)"));
    assert!(error.outcome_unknown());
}

#[test]
fn lost_connections_are_no_refusals() {
    let check = |response: &'static str, expected: &str| {
        let (url, _server) = fake::serve(move |stream| {
            fake::read_head(stream);
            stream.write_all(response.as_bytes()).unwrap();
        });
        let error = Client::new(&url).unwrap().version().unwrap_err();
        assert!(error.outcome_unknown(), "{error:?}");
        assert!(error.to_string().starts_with(&expected.replace("URL", &url)), "{error}");
    };
    check("", "lost the connection to URL");
    check("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n{", "lost the connection to URL");
    check("SSH-2.0-x\r\n\r\n", "unexpected answer from URL: it is not HTTP");
}

#[test]
fn refusal_of_a_large_body_arrives_before_the_body() {
    let (url, server) = fake::serve(|stream| {
        let head = fake::read_head(stream);
        let body = r#"{"error":"at most 5 machines","request_id":"1","status":413,"kind":"too-large"}"#;
        let length = body.len();
        write!(stream, "HTTP/1.1 413 x\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}").unwrap();
        head
    });
    let machine = MachineInput { serial: Some("a".repeat(100)), ..MachineInput::default() };
    let error = Client::new(&url).unwrap().create_machines(&vec![machine; 50_000]).unwrap_err();
    assert_eq!(error.to_string(), "Payload Too Large: at most 5 machines");
    assert!(server.join().unwrap().contains("expect: 100-continue\r\n"));
}

#[test]
fn answers_are_bounded() {
    let (url, _server) = fake::serve(|stream| {
        fake::read_head(stream);
        let length = limits::ANSWER_BYTES_MAX + 1;
        write!(stream, "HTTP/1.1 200 x\r\ncontent-length: {length}\r\n\r\n").unwrap();
        // The client hangs up at its limit.
        let _ = std::io::copy(&mut std::io::repeat(b' '), stream);
    });
    let error = Client::new(&url).unwrap().version().unwrap_err();
    assert_eq!(error.to_string(), format!("unexpected answer from {url}: it is larger than 1048576 bytes"));
}
