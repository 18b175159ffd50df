//! What scripts see of the program.

use std::{
    fs::File,
    io::Write,
    process::{Command, Output, Stdio},
};

use crate::fake;

pub struct Outcome {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

/// Runs the program with an environment that is the same everywhere.
pub fn sabactl<'a>(args: impl IntoIterator<Item = &'a str>, stdin: &str) -> Outcome {
    let mut child = command(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // It may end without reading.
    let _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
    ended(child.wait_with_output().unwrap())
}

/// Runs a prepared command to its end.
pub fn outcome(command: &mut Command) -> Outcome {
    ended(command.output().unwrap())
}

fn ended(output: Output) -> Outcome {
    Outcome {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// The program with an environment that is the same everywhere.
pub fn command<'a>(args: impl IntoIterator<Item = &'a str>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sabactl"));
    command.args(args).env_clear().env("COLUMNS", "100").env("USER", "operator");
    command
}

fn error_body(error: &str, status: u16, kind: &str) -> (u16, String) {
    (status, format!(r#"{{"error":"{error}","request_id":"r1","status":{status},"kind":"{kind}"}}"#))
}

const MACHINE: &str = r#"{"spec":{"serial":"a","labels":null,"rack":1,"index-in-rack":4,"role":"worker","ipv4":["10.0.0.1"],
"ipv6":null,"register-date":"2026-01-01T00:00:00Z","retire-date":"2026-01-01T00:00:00Z","bmc":{"ipv4":"10.1.0.1","ipv6":"",
"type":"iDRAC-9"}},"status":{"timestamp":"2026-01-01T00:00:00Z","duration":61.5,"state":"healthy"},"info":{"network":{"ipv4":[]},
"bmc":{"ipv4":{"address":"10.1.0.1","netmask":"255.255.255.0","maskbits":24,"gateway":"10.1.0.254"}}}}"#;

fn list(count: usize) -> String {
    format!("[{}]", vec![MACHINE; count].join(","))
}

#[test]
fn results_and_errors_go_where_scripts_look() {
    let check = |args: &[&str], answer: (u16, String), code: i32, stdout: &str, stderr: &str| {
        let (url, server) = fake::answers(vec![answer]);
        let outcome = sabactl(["--server", &url].into_iter().chain(args.iter().copied()), "{}");
        assert_eq!(
            (outcome.code, outcome.stdout.as_str(), outcome.stderr.as_str()),
            (code, stdout, stderr),
            "{args:?}"
        );
        let requests = server.join().unwrap();
        assert!(requests[0].contains("x-sabakan-user: operator\r\n"), "{requests:?}");
    };
    let dhcp = r#"{"lease-minutes":10,"gateway-offset":0}"#.to_owned();
    check(&["dhcp", "get"], (200, dhcp), 0, "{\n  \"lease-minutes\": 10,\n  \"gateway-offset\": 0\n}\n", "");
    check(&["dhcp", "set", "-f", "-"], (200, "null\n".into()), 0, "", "");
    check(&["machines", "remove", "a b"], (200, String::new()), 0, "", "");
    check(
        &["machines", "get", "-o", "simple"],
        (200, list(1)),
        0,
        "Serial Rack Role   State   IPv4     BMC\na      1    worker healthy 10.0.0.1 iDRAC-9\n",
        "",
    );
    check(
        &["ipam", "get"],
        error_body("requested resource is not found", 404, "not-found"),
        14,
        "",
        "Error: Not Found: requested resource is not found\nIt was never set. Set it with: sabactl ipam set -f FILE\n",
    );
    check(
        &["machines", "get", "--rack", "9"],
        error_body("requested resource is not found", 404, "not-found"),
        14,
        "",
        "Error: Not Found: requested resource is not found\nNo machine matches.\n",
    );
    check(
        &["machines", "remove", "a"],
        error_body("non-retired machine cannot be deleted: Internal Server Error", 500, "refused"),
        5,
        "",
        "Error: Internal Server Error: non-retired machine cannot be deleted: Internal Server Error\n",
    );
    check(
        &["ipam", "set", "-f", "-"],
        error_body("invalid request: max-nodes-in-rack must not be zero", 400, "invalid"),
        4,
        "",
        "Error: Bad Request: invalid request: max-nodes-in-rack must not be zero\n",
    );
}

#[test]
fn pipes_get_json_and_the_table_only_on_request() {
    let (url, server) = fake::answers(vec![(200, list(1)); 2]);
    let json = sabactl(["--server", &url, "machines", "get"], "");
    assert!(json.stdout.starts_with("[\n  {\n    \"spec\": {\n      \"serial\": \"a\",\n"), "{}", json.stdout);
    assert!(json.stdout.ends_with("\n  }\n]\n"), "{}", json.stdout);
    let table = sabactl(["-server", &url, "machines", "get", "-output=table"], "");
    let expected = "\
Serial  Rack  Index  Role    State    Since  IPv4      BMC       BMC type  Labels
a          1      4  worker  healthy  1m1s   10.0.0.1  10.1.0.1  iDRAC-9
";
    assert_eq!(table.stdout, expected);
    server.join().unwrap();
}

#[test]
fn ways_to_end_without_a_server() {
    // A port of a service that has not been in use for decades.
    let outcome = sabactl(["--server", "http://127.0.0.1:1", "ipam", "get"], "");
    let hint = "Is the server running? Name another one with --server or SABAKAN_URL.";
    assert_eq!(outcome.stderr, format!("Error: cannot connect to http://127.0.0.1:1: connection refused\n{hint}\n"));
    assert_eq!((outcome.code, outcome.stdout.as_str()), (1, ""));

    let check = |args: &[&str], code: i32, stderr: &str| {
        let outcome = sabactl(args.iter().copied(), "");
        assert_eq!((outcome.code, outcome.stdout.as_str()), (code, ""), "{args:?}");
        assert!(outcome.stderr.starts_with(stderr), "{args:?}: {}", outcome.stderr);
    };
    check(&["foo"], 2, "Error: unrecognized subcommand 'foo'\n");
    check(&["machines", "foo"], 2, "Error: unrecognized subcommand 'foo'\n");
    check(&["machines", "get", "--foo"], 1, "Error: unexpected argument '--foo' found\n");
    check(&["machines", "get", "-o", "yaml"], 1, "Error: unknown output format \"yaml\"\n");
    check(
        &["--server", "localhost:1", "ipam", "get"],
        1,
        "Error: invalid server URL \"localhost:1\": it must begin with",
    );
    check(&["ipam", "set", "-f", "no-such-file"], 1, "Error: no-such-file: No such file or directory\n");
    check(&["ipam", "set", "-f", "-"], 1, "Error: standard input: EOF while parsing a value at line 1 column 0\n");

    let check = |args: &[&str], stdout: &str| {
        let outcome = sabactl(args.iter().copied(), "");
        assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""), "{args:?}");
        assert!(outcome.stdout.contains(stdout), "{args:?}: {}", outcome.stdout);
    };
    check(&[], "Usage: sabactl [OPTIONS] [COMMAND]\n");
    check(&["machines"], "Usage: sabactl machines [OPTIONS] [COMMAND]\n");
    check(&["ipam"], "Usage: sabactl ipam [OPTIONS] [COMMAND]\n");
    check(&["--version"], concat!("sabactl version ", env!("CARGO_PKG_VERSION"), "\n"));
    check(&["version"], concat!("sabactl version ", env!("CARGO_PKG_VERSION"), "\n"));
    check(&["completion"], "complete -F _sabactl");
    check(&["completion", "zsh"], "#compdef sabactl");
}

#[test]
fn environment_names_the_server_and_the_flag_wins() {
    let (url, server) = fake::answers(vec![(200, "{}".into()); 2]);
    let get = |variable: &str, args: &[&str]| {
        let output = command(args.iter().copied()).env("SABAKAN_URL", variable).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    };
    get(&url, &["dhcp", "get"]);
    get("http://localhost:1", &["dhcp", "get", "--server", &url]);
    server.join().unwrap();
}

#[test]
fn the_token_comes_from_a_file_or_the_environment() {
    let (url, server) = fake::answers(vec![(200, "{}".into()); 4]);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "from-file\n").unwrap();
    let name = file.path().to_str().unwrap();
    let get = |token: &str, args: &[&str]| {
        let all = ["--server", &url, "dhcp", "get"].into_iter().chain(args.iter().copied());
        let output = command(all).env("SABAKAN_TOKEN", token).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    };
    get("from-environment", &[]);
    get("from-environment", &["--token-file", name]);
    get("", &["-token-file", name]);
    get("", &[]);
    let requests = server.join().unwrap();
    let shown: Vec<_> = requests
        .iter()
        .map(|request| request.lines().find_map(|line| line.strip_prefix("authorization: Bearer ")))
        .collect();
    assert_eq!(shown, [Some("from-environment"), Some("from-file"), Some("from-file"), None]);
}

#[test]
fn one_machine_that_stays_does_not_keep_the_others() {
    let one = MACHINE.replace(r#""serial":"a""#, r#""serial":"b""#);
    let refusal = error_body("non-retired machine cannot be deleted: Internal Server Error", 500, "refused");
    let answers = vec![(200, format!("[{MACHINE},{one}]")), refusal, (200, String::new())];
    let (url, server) = fake::answers(answers);
    let outcome = sabactl(["--server", &url, "machines", "remove", "--state", "retired"], "");
    let expected = "\
a is not removed: Internal Server Error: non-retired machine cannot be deleted: Internal Server Error
Error: 1 of 2 machines are not removed
";
    assert_eq!((outcome.code, outcome.stdout.as_str(), outcome.stderr.as_str()), (5, "removed b\n", expected));
    let requests = server.join().unwrap();
    let lines: Vec<_> = requests.iter().map(|request| request.lines().next().unwrap()).collect();
    let expected = [
        "GET /api/v1/machines?state=retired HTTP/1.1",
        "DELETE /api/v1/machines/a HTTP/1.1",
        "DELETE /api/v1/machines/b HTTP/1.1",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn reader_that_has_seen_enough_is_no_failure() {
    let (url, server) = fake::answers(vec![(200, list(1000))]);
    let args = ["--server", &url, "machines", "get"];
    let mut child = command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), b"".as_slice()));
    server.join().unwrap();
}

#[test]
#[cfg(target_os = "linux")]
fn full_disk_is_a_failure() {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let output = command(["version"]).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(output.stderr, b"Error: cannot write to standard output: No space left on device\n");
}

fn file_of_machines(count: usize) -> String {
    let machine = |n| format!(r#"{{"serial":"s{n}","rack":{n},"role":"worker","bmc":{{"type":"IPMI-2.0"}}}}"#);
    format!("[{}]", (1..=count).map(machine).collect::<Vec<_>>().join(","))
}

/// How many machines each request registers, and the first of them.
fn registered(requests: &[String]) -> Vec<(usize, String)> {
    let one = |request: &String| {
        let (head, body) = request.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("POST /api/v1/machines HTTP/1.1\r\n"), "{head}");
        let machines: Vec<serde_json::Value> = serde_json::from_str(body).unwrap();
        let first = machines.first().map(|m| m["serial"].as_str().unwrap().to_owned());
        (machines.len(), first.unwrap_or_default())
    };
    requests.iter().map(one).collect()
}

#[test]
fn files_of_up_to_a_thousand_machines_are_one_request() {
    for (count, first) in [(0, ""), (1, "s1"), (1000, "s1")] {
        let (url, server) = fake::answers(vec![(201, String::new())]);
        let outcome = sabactl(["--server", &url, "machines", "create", "-f", "-"], &file_of_machines(count));
        assert_eq!((outcome.code, outcome.stdout.as_str(), outcome.stderr.as_str()), (0, "", ""));
        assert_eq!(registered(&server.join().unwrap()), [(count, first.to_owned())]);
    }
}

#[test]
fn larger_files_go_in_batches_and_can_be_resumed() {
    let created = || (201, String::new());
    let (url, server) = fake::answers(vec![created(), created(), created()]);
    let outcome = sabactl(["--server", &url, "machines", "create", "-f", "-"], &file_of_machines(2500));
    assert_eq!((outcome.code, outcome.stdout.as_str()), (0, ""));
    assert_eq!(outcome.stderr, "Registered 2500 machines in 3 requests.\n");
    let expected = [(1000, "s1".to_owned()), (1000, "s1001".to_owned()), (500, "s2001".to_owned())];
    assert_eq!(registered(&server.join().unwrap()), expected);

    let conflict = error_body("serial s3 is already registered", 409, "conflict");
    let (url, server) = fake::answers(vec![created(), conflict]);
    let args = ["--server", &url, "machines", "create", "-f", "-", "-batch-size", "2"];
    let outcome = sabactl(args, &file_of_machines(5));
    assert_eq!(outcome.code, 19);
    let expected = "\
Error: Conflict: serial s3 is already registered
2 machines were registered before this.
None of machines 3 to 4 of standard input is registered. When the reason is gone, run the same command with --skip 2.
";
    assert_eq!(outcome.stderr, expected);
    assert_eq!(registered(&server.join().unwrap()), [(2, "s1".to_owned()), (2, "s3".to_owned())]);

    let (url, server) = fake::answers(vec![created()]);
    let args = ["--server", &url, "machines", "create", "-f", "-", "--skip", "2"];
    assert_eq!(sabactl(args, &file_of_machines(5)).code, 0);
    assert_eq!(registered(&server.join().unwrap()), [(3, "s3".to_owned())]);
}

#[test]
fn bad_file_reaches_no_server() {
    // Nobody listens: a request would be told by another error.
    let check = |file: &str, expected: &str| {
        let outcome = sabactl(["--server", "http://127.0.0.1:1", "machines", "create", "-f", "-"], file);
        assert_eq!((outcome.code, outcome.stderr), (1, format!("Error: standard input: {expected}\n")));
    };
    let (good, twice) = (file_of_machines(1500), r#",{"serial":"s7","role":"w","product":"x"}]"#);
    check(
        &good.replace(r#""serial":"s1400""#, r#""serial":"a/b""#),
        "invalid serial: \"a/b\" must not contain '/' (machine 1400 of the request, serial \"a/b\")",
    );
    check(&format!("{}{twice}", good.trim_end_matches(']')), "serial s7 is given twice: machine 7 and machine 1501");
    check(
        r#"[{"serial":"a","role":"w","rack":"one"}]"#,
        "[0].rack: invalid type: string \"one\", expected u32 at line 1 column 38",
    );
    check(r#"{"serial":"a"}"#, "invalid type: map, expected a sequence at line 1 column 0");
    check("[][]", "more than one JSON value");
}
