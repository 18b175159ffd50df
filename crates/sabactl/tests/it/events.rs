//! `sabactl events` against servers that break off, stop and forget.

use std::{
    io::{Read, Write},
    net::TcpListener,
    process::{Command, Stdio},
};

use crate::{fake, program::sabactl};

fn event(revision: u64, serial: &str, more: bool) -> String {
    let more = if more { r#","more":true"# } else { "" };
    format!(r#"{{"revision":{revision},"kind":"machines.register","serial":"{serial}"{more}}}"#)
}

#[test]
fn prints_what_happened_and_ends() {
    let body = format!("{}\n{}\n{{\"kind\":\"progress\",\"revision\":9}}\n", event(7, "a", true), event(7, "b", false));
    let (url, server) = fake::answers(vec![(200, body)]);
    let run = sabactl(["events", "--after", "5", "--server", &url], "");
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    assert_eq!(run.stdout, format!("{}\n{}\n", event(7, "a", true), event(7, "b", false)));
    let requests = server.join().unwrap();
    assert!(requests[0].starts_with("GET /api/v1/events?after=5 HTTP/1.1\r\n"), "{requests:?}");
}

#[test]
fn history_that_is_gone_is_a_failure_with_advice() {
    let hint = "What happened in between is lost here. Begin again without --after.\n";
    let gone = r#"{"error":"no longer kept","request_id":"r","status":410,"kind":"gone"}"#;
    let (url, _server) = fake::answers(vec![(410, gone.to_owned())]);
    let run = sabactl(["events", "--after", "5", "--follow", "--server", &url], "");
    assert_eq!((run.code, run.stderr), (4, format!("Error: Gone: no longer kept\n{hint}")));
    let line = "{\"kind\":\"gone\",\"revision\":5,\"oldest\":9,\"error\":\"too late\"}\n";
    let (url, _server) = fake::answers(vec![(200, line.to_owned())]);
    let run = sabactl(["events", "--after", "5", "--follow", "--server", &url], "");
    assert_eq!((run.code, run.stderr), (1, format!("Error: too late\n{hint}")));
}

#[test]
fn a_first_connection_that_fails_is_not_repeated() {
    let run = sabactl(["events", "--follow", "--server", "http://127.0.0.1:1"], "");
    assert_eq!((run.code, run.stdout.as_str()), (1, ""));
    assert!(run.stderr.starts_with("Error: cannot connect to http://127.0.0.1:1"), "{}", run.stderr);
}

/// Ways a connection ends, one after the other, and what the next one asks for.
#[test]
fn a_follower_prints_every_event_once_however_its_connections_break() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (a, b, c, d) = (event(7, "a", true), event(7, "b", true), event(7, "c", false), event(8, "d", false));
    let ok = "HTTP/1.1 200 x\r\ntransfer-encoding: chunked\r\n\r\n";
    let chunk = |text: &str| format!("{:x}\r\n{text}\r\n", text.len());
    let answers = [
        // Cut within a revision, in the middle of a line.
        (format!("{ok}{}", chunk(&format!("{a}\n{b}\n{{\"rev"))), "/api/v1/events?after=5&follow=true"),
        ("HTTP/1.1 503 x\r\ncontent-length: 0\r\n\r\n".to_owned(), "/api/v1/events?after=5&follow=true"),
        // The same from its beginning, then a clean end.
        (format!("{ok}{}0\r\n\r\n", chunk(&format!("{a}\n{b}\n{c}\n"))), "/api/v1/events?after=5&follow=true"),
        (
            format!("{ok}{}", chunk("{\"kind\":\"dropped\",\"revision\":7,\"error\":\"slow\"}\n")) + "0\r\n\r\n",
            "/api/v1/events?after=7&follow=true",
        ),
        (format!("{ok}{}", chunk(&format!("{d}\n"))), "/api/v1/events?after=7&follow=true"),
    ];
    let mut child = Command::new(env!("CARGO_BIN_EXE_sabactl"))
        .args(["events", "--after", "5", "--follow", "--server", &url])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    for (answer, expected) in answers {
        let (mut stream, _) = listener.accept().unwrap();
        let request = fake::read_request(&mut stream);
        assert!(request.starts_with(&format!("GET {expected} HTTP/1.1\r\n")), "{request}");
        stream.write_all(answer.as_bytes()).unwrap();
    }
    // It comes back once more behind the last event; all of them are printed by now.
    let (mut stream, _) = listener.accept().unwrap();
    assert!(fake::read_request(&mut stream).starts_with("GET /api/v1/events?after=8&follow=true HTTP/1.1\r\n"));
    child.kill().unwrap();
    let mut printed = String::new();
    child.stdout.take().unwrap().read_to_string(&mut printed).unwrap();
    child.wait().unwrap();
    assert_eq!(printed, format!("{a}\n{b}\n{c}\n{d}\n"));
}
