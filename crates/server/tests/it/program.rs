//! Starting, stopping, configuring.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    process::{Command, Stdio},
    time::Duration,
};

use sabakan_testkit::{
    client::{Client, NodeFilter, NodesClient},
    process::{Process, run},
    wait_for,
};
use serde_json::Value;

use crate::SABAKAN;

const NO_FLAGS: [&str; 0] = [];

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn sigterm_ends_it_cleanly_and_takes_the_addresses_away() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().join("data");
    let server = Process::start(SABAKAN, &data, NO_FLAGS);
    assert_eq!(Client::new(&server.url()).expect("a URL").version().expect("a version"), env!("CARGO_PKG_VERSION"));
    let status = server.terminate();
    assert_eq!(status.code(), Some(0));
    assert!(!data.join("addresses.json").exists());
    assert!(data.join("sabakan.db").exists());
}

#[test]
fn as_many_connections_as_the_hard_bound_of_open_files_allows() {
    let dir = tempfile::tempdir().expect("a directory");
    let program = dir.path().join("program");
    // As many systems start programs: few files at once, many if asked for.
    fs::write(&program, format!("#!/bin/sh\nulimit -S -n 300\nexec {SABAKAN} \"$@\"\n")).expect("written");
    fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("executable");
    let server = Process::start(&program, &dir.path().join("data"), NO_FLAGS);
    let limits = fs::read_to_string(format!("/proc/{}/limits", server.id())).expect("its limits");
    let files = limits.lines().find_map(|line| line.strip_prefix("Max open files")).expect("a line");
    let mut files = files.split_whitespace();
    assert_eq!(files.next(), files.next(), "the soft bound is the hard one: {limits}");
    let metrics = sabakan_testkit::raw::request(&server.url(), "GET", "/metrics", &[], b"").body;
    let max = metrics.lines().find_map(|line| line.strip_prefix("sabakan_http_connections_max ")?.parse::<u64>().ok());
    assert!(max.is_some_and(|max| max > 150), "more than half of 300: {max:?}");
}

#[test]
fn a_signal_at_any_moment_of_the_start_ends_it_cleanly() {
    for round in 0..20 {
        let dir = tempfile::tempdir().expect("a directory");
        let data = dir.path().join("data");
        fs::create_dir(&data).expect("made");
        let mut child = Command::new(SABAKAN)
            .args([
                "--http",
                "127.0.0.1:0",
                "--https",
                "none",
                "--ironic",
                "none",
                "--log-level",
                "error",
                "--data-dir",
            ])
            .arg(&data)
            .spawn()
            .expect("started");
        // Every fourth round as soon as the handlers are there, which the log would tell too late; the others when it serves.
        let marker = if round % 4 == 0 { "sabakan.db" } else { "addresses.json" };
        wait_for(marker, Duration::from_secs(30), || data.join(marker).exists().then_some(()));
        let sent = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().expect("kill runs");
        assert!(sent.success());
        let status = wait_for("the end", Duration::from_secs(60), || child.try_wait().expect("its state"));
        assert_eq!(status.code(), Some(0), "round {round}: {status}");
        assert!(!data.join("addresses.json").exists(), "round {round}");
    }
}

#[test]
fn addresses_of_a_killed_server_are_not_left_to_be_read() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().join("data");
    Process::start(SABAKAN, &data, NO_FLAGS).kill();
    let left = fs::read_to_string(data.join("addresses.json")).expect("left by the killed one");
    // The next one gets no further than its port: the old file is gone all the same.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let failed = run(
        SABAKAN,
        ["--http", &address, "--https", "none", "--ironic", "none", "--data-dir", data.to_str().expect("UTF-8")],
    );
    assert_eq!(failed.status.code(), Some(1));
    assert!(!data.join("addresses.json").exists(), "{left}");
}

#[test]
fn a_second_server_on_the_same_data_says_who_has_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().join("data");
    let server = Process::start(SABAKAN, &data, NO_FLAGS);
    let data = data.to_str().expect("UTF-8");
    let second = run(SABAKAN, ["--http", "127.0.0.1:0", "--https", "none", "--ironic", "none", "--data-dir", data]);
    assert_eq!(second.status.code(), Some(1));
    let error = text(&second.stderr);
    assert!(error.contains("in use") && error.contains(&server.id().to_string()), "{error}");
}

#[test]
fn a_port_in_use_is_named() {
    let dir = tempfile::tempdir().expect("a directory");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let data = dir.path().join("data");
    let failed = run(
        SABAKAN,
        ["--http", &address, "--https", "none", "--ironic", "none", "--data-dir", data.to_str().expect("UTF-8")],
    );
    assert_eq!(failed.status.code(), Some(1));
    let error = text(&failed.stderr);
    assert!(error.contains(&format!("cannot listen on {address} (--http)")), "{error}");
}

#[test]
fn configuration_is_checked_as_a_whole() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("sabakan.yml");
    fs::write(&file, "http: nonsense\nallow-ips: [10.0.0.0/33]\nfuture-key: 1\n").expect("written");
    let failed = run(SABAKAN, ["config", "check", "--config-file", file.to_str().expect("UTF-8")]);
    assert_eq!(failed.status.code(), Some(1));
    assert!(text(&failed.stderr).contains("future-key"), "{}", text(&failed.stderr));
    fs::write(&file, "http: nonsense\nallow-ips: [10.0.0.0/33]\n").expect("written");
    let failed = text(&run(SABAKAN, ["config", "check", "--config-file", file.to_str().expect("UTF-8")]).stderr);
    assert!(failed.contains("http") && failed.contains("nonsense") && failed.contains("10.0.0.0/33"), "{failed}");

    // Flags win over the file, before or after the command, with one dash or two.
    fs::write(&file, "http: 127.0.0.1:1\ndata-dir: /from/file\n").expect("written");
    let file = file.to_str().expect("UTF-8");
    for args in [
        ["-http", "127.0.0.1:2", "config", "check", "--config-file", file],
        ["config", "check", "--http", "127.0.0.1:2", "-config-file", file],
    ] {
        let checked = run(SABAKAN, args);
        let shown = text(&checked.stdout);
        assert!(checked.status.success(), "{}", text(&checked.stderr));
        assert!(shown.contains("127.0.0.1:2") && shown.contains("/from/file"), "{shown}");
    }
}

#[test]
fn https_uses_a_certificate_that_is_made_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().join("data");
    let version = |server: &Process| {
        let ca = data.join("server.crt");
        let url = format!("https://{}/version", server.address("https"));
        run("curl", ["--silent", "--show-error", "--cacert", ca.to_str().expect("UTF-8"), &url])
    };
    let server = Process::start(SABAKAN, &data, NO_FLAGS);
    let answer = version(&server);
    assert!(answer.status.success(), "{}", text(&answer.stderr));
    assert!(text(&answer.stdout).contains("version"));
    let made = fs::read(data.join("server.crt")).expect("a certificate");
    use std::os::unix::fs::PermissionsExt as _;
    let mode = fs::metadata(data.join("server.key")).expect("a key").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "nobody else reads the key");
    server.terminate();
    let server = Process::start(SABAKAN, &data, NO_FLAGS);
    assert!(version(&server).status.success());
    assert_eq!(fs::read(data.join("server.crt")).expect("a certificate"), made);
}

#[test]
fn logs_are_json_lines_when_asked() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = Process::start(SABAKAN, &dir.path().join("data"), ["-logformat", "json"]);
    let client = Client::new(&server.url()).expect("a URL");
    client.version().expect("a version");
    let access = |log: &str| log.lines().any(|line| line.contains("\"url\":\"/version\""));
    wait_for("the access log", Duration::from_secs(20), || access(&server.log()).then_some(()));
    let log = server.log();
    let line = log.lines().find(|line| line.contains("\"url\":\"/version\"")).expect("the line");
    let entry: Value = serde_json::from_str(line).expect("JSON");
    assert_eq!(entry["response_size"], format!("{{\"version\":\"{}\"}}", env!("CARGO_PKG_VERSION")).len(), "{line}");
    assert_eq!((&entry["http_status_code"], &entry["message"]), (&Value::from(200), &Value::from("well: access")));
    for line in log.lines() {
        let entry: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        for field in ["topic", "logged_at", "severity", "utsname", "message"] {
            assert!(entry[field].is_string(), "{field}: {line}");
        }
    }
}

#[test]
fn the_demo_has_two_racks_and_leaves_nothing_behind() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut demo = Command::new(SABAKAN)
        .args(["demo", "--http", "127.0.0.1:0", "--https", "none", "--ironic", "127.0.0.1:0"])
        .env("TMPDIR", dir.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the demo starts");
    let lines = BufReader::new(demo.stdout.take().expect("its output")).lines();
    let mut shown = Vec::new();
    for line in lines {
        shown.push(line.expect("UTF-8"));
        if shown.last().is_some_and(|line| line.contains("curl ")) {
            break;
        }
    }
    let word = |marker: &str| {
        let line = shown.iter().find(|line| line.contains(marker)).unwrap_or_else(|| panic!("{marker} in {shown:?}"));
        line.split_whitespace().find(|word| word.starts_with("http://")).expect("a URL").to_owned()
    };
    let url = word("API").replace("/api/v1/machines", "");
    let machines = Client::new(&url).expect("a URL").list_machines(&Default::default()).expect("machines");
    assert_eq!(machines.len(), 26);
    assert_eq!(machines.iter().filter(|m| m.spec.role == "boot").count(), 2);
    let ironic = word("Ironic").replace("/v1/nodes", "");
    let nodes = NodesClient::over(Client::new(&ironic).expect("a URL")).list(&NodeFilter::default()).expect("nodes");
    assert_eq!(nodes.len(), 26);
    assert!(nodes.iter().all(|node| node.driver.as_deref() == Some("fake-hardware")));
    assert!(
        shown.iter().any(|line| line.contains("sabactl -- nodes") && line.contains("manage demo-0-01")),
        "{shown:?}"
    );
    // The commands it prints are real ones.
    let curl = shown.iter().find(|line| line.trim_start().starts_with("curl ")).expect("a curl command");
    let output = Command::new("sh").args(["-c", curl]).output().expect("sh runs");
    assert!(text(&output.stdout).contains("\"10.69.0.4\""), "{curl}");
    let sent = Command::new("kill").args(["-TERM", &demo.id().to_string()]).status().expect("kill runs");
    assert!(sent.success());
    let status = wait_for("the demo to end", Duration::from_secs(60), || demo.try_wait().expect("its state"));
    assert_eq!(status.code(), Some(0));
    let left: Vec<_> = fs::read_dir(dir.path()).expect("listed").collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn etcd_that_does_not_answer_is_said_soon() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().join("data");
    let failed = run(
        SABAKAN,
        [
            "--etcd-endpoints",
            "http://127.0.0.1:1",
            "--https",
            "none",
            "--ironic",
            "none",
            "--data-dir",
            data.to_str().expect("UTF-8"),
        ],
    );
    assert_eq!(failed.status.code(), Some(1));
    let error = text(&failed.stderr);
    assert!(error.contains("not available"), "{error}");
}
