//! Thousands of bad GraphQL requests cost the server nothing that stays: memory and latency are as before, and good queries are
//! answered.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    time::{Duration, Instant},
};

use sabakan_testkit::{client::Client, fixtures, process::Process, raw::connect};
use serde_json::{Value, json};

use crate::SABAKAN;

/// Requests in total, over a few connections that are kept.
const REQUESTS: usize = 10_000;
const CONNECTIONS: usize = 4;

/// What the resident memory may grow by. A single leaked body of the largest kind per request would be a hundred times that.
const GROWTH_MAX_KB: u64 = 24 * 1024;

/// What a good query may take meanwhile, on a busy test machine.
const LATENCY_MAX: Duration = Duration::from_secs(2);

const GOOD: &str =
    "{ searchMachines(having: {racks: [3]}) { spec { serial labels { name value } } status { state } } }";

/// A connection that is used again and again.
struct Connection(BufReader<TcpStream>);

impl Connection {
    fn open(url: &str) -> Connection {
        Connection(BufReader::new(connect(url)))
    }

    /// Status and body.
    fn post(&mut self, body: &str) -> (u16, String) {
        // In one piece: the kernel would hold the second back until the first is acknowledged.
        let text = format!(
            "POST /graphql HTTP/1.1\r\nhost: test\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        self.0.get_mut().write_all(text.as_bytes()).expect("sent");
        let (mut status, mut length) = (0, 0);
        for number in 0.. {
            let mut line = String::new();
            assert!(self.0.read_line(&mut line).expect("an answer") > 0, "the connection was closed");
            let line = line.trim_end().to_ascii_lowercase();
            match line.strip_prefix("content-length: ") {
                _ if number == 0 => status = line.split(' ').nth(1).and_then(|s| s.parse().ok()).expect("a status"),
                Some(bytes) => length = bytes.parse().expect("a length"),
                None if line.is_empty() => break,
                None => {}
            }
        }
        let mut bytes = vec![0; length];
        self.0.read_exact(&mut bytes).expect("a body");
        (status, String::from_utf8(bytes).expect("UTF-8"))
    }
}

/// Bad requests of every kind, with the status of each. Those with a body that is too large come on a connection of their own.
fn bad() -> Vec<(Value, u16)> {
    let query = |text: String| json!({ "query": text });
    let variables = |having: Value| json!({"query": "query($h: MachineParams) { searchMachines(having: $h) { spec { serial } } }", "variables": {"h": having}});
    let aliases = |count: usize| {
        (0..count)
            .map(|n| format!("a{n}: searchMachines {{ info {{ bmc {{ ipv4 {{ address }} }} }} }} "))
            .collect::<String>()
    };
    let bomb = (0..40).map(|n| format!(" fragment f{n} on Query {{ ...f{m} ...f{m} }}", m = n + 1)).collect::<String>();
    vec![
        (query("{ searchMachines { spec { serial }".into()), 422),
        (query("}{".repeat(1_000)), 422),
        (query("{ searchMachines { spec { colour } } }".into()), 422),
        (query("{ searchMachines(having: {states: [BROKEN]}) { spec { serial } } }".into()), 422),
        (query(format!("{}{}", "{a".repeat(8_000), "}".repeat(8_000))), 422),
        (query("[".repeat(32_000)), 422),
        (query(format!("{{a(b:\n#\r{}1{}\n)}}", "[".repeat(2_000), "]".repeat(2_000))), 422),
        (query(format!("{{a(b:[\"\"\"\" {}1{}])}}", "[".repeat(2_000), "]".repeat(2_000))), 422),
        (query(format!("{{a(b:\n#\r{}1{}\n)}}", "[".repeat(900), "]".repeat(900))), 422),
        (query(format!("query($a: {}Int{}) {{ a }}", "[".repeat(10_000), "]".repeat(10_000))), 422),
        (query(format!("{{ {} }}", aliases(20))), 422),
        (query(format!("{{ ...f0 }} {bomb} fragment f40 on Query {{ __typename }}")), 422),
        (query("x".repeat(100_000)), 422),
        (query(format!("{{ machine(serial: \"{}\") {{ spec {{ serial }} }} }}", "s".repeat(1_000))), 200),
        (variables(json!({"racks": "one"})), 422),
        (variables(json!({"states": [1]})), 422),
        (variables(json!({"labels": vec![json!({"name": "a"}); 100]})), 422),
        (variables(json!({ "x".repeat(10_000): 1 })), 422),
        (variables(json!({"labels": vec![json!({"name": "a", "value": "b"}); 1_001]})), 422),
        (json!([]), 400),
        (json!("text"), 400),
        (json!({"query": GOOD, "operationName": "Nobody"}), 422),
        (query("mutation { setMachineState(serial: \"nobody\", state: HEALTHY) { state } }".into()), 200),
    ]
}

fn resident_kb(process: &Process) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", process.id())).expect("the state of the process");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("VmRSS");
    line.split_whitespace().nth(1).and_then(|kb| kb.parse().ok()).expect("a number")
}

fn good(connection: &mut Connection) -> Duration {
    let begun = Instant::now();
    let (status, body) = connection.post(&json!({ "query": GOOD }).to_string());
    let body: Value = serde_json::from_str(&body).expect("JSON");
    assert_eq!((status, body["data"]["searchMachines"].as_array().map(Vec::len)), (200, Some(28)));
    begun.elapsed()
}

#[test]
fn ten_thousand_bad_requests_leave_nothing_behind() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = Process::start(SABAKAN, &dir.path().join("data"), ["--log-level", "critical"]);
    let client = Client::new(&server.url()).expect("a URL");
    client.put_ipam(&fixtures::wide_ipam()).expect("ipam");
    client.create_machines(&fixtures::workers(2_800, 0)).expect("registered");
    let bad: Vec<(String, u16)> = bad().into_iter().map(|(body, status)| (body.to_string(), status)).collect();
    let too_large = json!({"query": "x".repeat(1_000_000)}).to_string();

    let flood = |rounds: usize| {
        std::thread::scope(|scope| {
            for _ in 0..CONNECTIONS {
                scope.spawn(|| {
                    let mut connection = Connection::open(&server.url());
                    for (body, expected) in bad.iter().cycle().take(rounds / CONNECTIONS) {
                        let (status, answer) = connection.post(body);
                        let shown: String = body.chars().take(100).collect();
                        assert_eq!(status, *expected, "{shown}: {answer}");
                        assert!(answer.len() < 8_192, "{shown}: {} bytes", answer.len());
                    }
                });
            }
        });
        for _ in 0..20 {
            let answer = sabakan_testkit::raw::request(
                &server.url(),
                "POST",
                "/graphql",
                &[("content-type", "application/json")],
                too_large.as_bytes(),
            );
            assert_eq!(answer.status, 413);
        }
    };
    // The first round fills what is filled once: pools, buffers, the arenas of the allocator.
    flood(REQUESTS / 5);
    good(&mut Connection::open(&server.url()));
    let before = resident_kb(&server);
    let slowest = std::thread::scope(|scope| {
        let flooded = scope.spawn(|| flood(REQUESTS - REQUESTS / 5));
        let mut connection = Connection::open(&server.url());
        let mut slowest = good(&mut connection);
        while !flooded.is_finished() {
            slowest = slowest.max(good(&mut connection));
        }
        slowest
    });
    let after = resident_kb(&server);
    assert!(after <= before + GROWTH_MAX_KB, "{before} kB became {after} kB");
    assert!(slowest <= LATENCY_MAX, "a good query took {slowest:?} meanwhile");
    assert!(server.terminate().success());
}
