//! `sabakan store …`: data moves between both stores and damage is found.

use std::{fs, path::Path, process::Output};

use sabakan_testkit::{
    client::Client,
    etcd::Etcd,
    fixtures,
    process::{Process, run},
};
use sabakan_wire::rest::{MachineJson, QueryParams};

use crate::SABAKAN;

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

fn succeed(output: &Output) -> String {
    assert!(output.status.success(), "{}{}", shown(&output.stdout), shown(&output.stderr));
    shown(&output.stdout)
}

fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn machines(server: &Process) -> Vec<MachineJson> {
    let client = Client::new(&server.url()).expect("a URL");
    let mut machines = client.list_machines(&QueryParams::default()).expect("machines");
    for machine in &mut machines {
        machine.status.duration = 0.0;
    }
    machines
}

/// The lines of an export without the header and the end, which tell the revision.
fn lines(path: &Path) -> Vec<String> {
    let all: Vec<String> = fs::read_to_string(path).expect("an export").lines().map(str::to_owned).collect();
    all[1..all.len() - 1].to_vec()
}

#[test]
fn data_moves_to_etcd_and_back() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = |name: &str| dir.path().join(name);
    let no_flags: [&str; 0] = [];
    let server = Process::start(SABAKAN, &path("first"), no_flags);
    let client = Client::new(&server.url()).expect("a URL");
    client.put_ipam(&fixtures::ipam()).expect("ipam");
    client.create_machines(&fixtures::workers(300, 0)).expect("registered");
    let registered = machines(&server);
    server.terminate();
    succeed(&run(SABAKAN, ["store", "export", "--data-dir", text(&path("first")), "--out", text(&path("1.jsonl"))]));

    let etcd = Etcd::start();
    let endpoints = etcd.endpoints().join(",");
    let on_etcd = |command: &str, flag: &str, file: &str| {
        let unused = path("none");
        run(SABAKAN, ["store", command, "--etcd-endpoints", &endpoints, "--data-dir", text(&unused), flag, file])
    };
    succeed(&on_etcd("import", "--in", text(&path("1.jsonl"))));
    let again = on_etcd("import", "--in", text(&path("1.jsonl")));
    assert_eq!(again.status.code(), Some(1), "a store with data is not written over");
    let server = Process::start(SABAKAN, &path("second"), ["--etcd-endpoints", &endpoints]);
    assert_eq!(machines(&server), registered);
    server.terminate();
    succeed(&on_etcd("export", "--out", text(&path("2.jsonl"))));
    assert_eq!(lines(&path("2.jsonl")), lines(&path("1.jsonl")));

    succeed(&run(SABAKAN, ["store", "import", "--data-dir", text(&path("third")), "--in", text(&path("2.jsonl"))]));
    let report = succeed(&run(SABAKAN, ["store", "check", "--data-dir", text(&path("third"))]));
    assert!(report.contains("300 machines read") && report.contains("no problem found"), "{report}");
    let server = Process::start(SABAKAN, &path("third"), no_flags);
    assert_eq!(machines(&server), registered);
}

#[test]
fn a_file_that_was_cut_or_edited_is_refused_and_nothing_is_imported() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = |name: &str| dir.path().join(name);
    let no_flags: [&str; 0] = [];
    let server = Process::start(SABAKAN, &path("first"), no_flags);
    Client::new(&server.url()).expect("a URL").put_ipam(&fixtures::ipam()).expect("ipam");
    server.terminate();
    let export = succeed(&run(SABAKAN, ["store", "export", "--data-dir", text(&path("first"))]));
    let cut = &export[..export.len() - 30];
    let edited = export.replacen("10.69.0.0", "10.70.0.0", 1);
    assert_ne!(edited, export);
    for (name, content) in [("cut", cut), ("edited", edited.as_str()), ("empty", "")] {
        let file = path(name);
        fs::write(&file, content).expect("written");
        let data = path("target");
        let failed = run(SABAKAN, ["store", "import", "--data-dir", text(&data), "--in", text(&file)]);
        assert_eq!(failed.status.code(), Some(1), "{name}");
        assert!(shown(&failed.stderr).starts_with("Error: "), "{name}: {}", shown(&failed.stderr));
        let left = succeed(&run(SABAKAN, ["store", "export", "--data-dir", text(&data)]));
        assert_eq!(left.lines().count(), 2, "{name}: nothing between the header and the end: {left}");
    }
}

#[test]
fn an_export_that_fails_leaves_the_older_one_alone() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("backup.jsonl");
    fs::write(&file, "yesterday's").expect("written");
    let nowhere = dir.path().join("mistyped");
    for command in ["export", "check"] {
        let mut args = vec!["store", command, "--data-dir", text(&nowhere)];
        args.extend(["--out", text(&file)].into_iter().filter(|_| command == "export"));
        let failed = run(SABAKAN, args);
        assert_eq!(failed.status.code(), Some(1), "{command}");
        assert!(shown(&failed.stderr).contains("there is no store at"), "{}", shown(&failed.stderr));
    }
    assert!(!nowhere.exists(), "nothing is made where nothing was");
    assert_eq!(fs::read_to_string(&file).expect("still there"), "yesterday's");
    // A good one replaces it, for its owner's eyes only.
    let no_flags: [&str; 0] = [];
    let data = dir.path().join("data");
    Process::start(SABAKAN, &data, no_flags).terminate();
    succeed(&run(SABAKAN, ["store", "export", "--data-dir", text(&data), "--out", text(&file)]));
    assert!(fs::read_to_string(&file).expect("written").starts_with("{\"format\""));
    // A link goes on pointing at it, and what is no file is written to, not replaced.
    let link = dir.path().join("latest");
    std::os::unix::fs::symlink(&file, &link).expect("a link");
    succeed(&run(SABAKAN, ["store", "export", "--data-dir", text(&data), "--out", text(&link)]));
    assert!(fs::symlink_metadata(&link).expect("the link").is_symlink());
    let shown_through = run(SABAKAN, ["store", "export", "--data-dir", text(&data), "--out", "/dev/stdout"]);
    assert!(succeed(&shown_through).starts_with("{\"format\""));
    use std::os::unix::fs::PermissionsExt as _;
    assert_eq!(fs::metadata(&file).expect("a file").permissions().mode() & 0o777, 0o600);
}

#[test]
fn contradictions_in_the_registry_are_found() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = |name: &str| dir.path().join(name);
    let etcd = Etcd::start();
    let endpoints = etcd.endpoints().join(",");
    let server = Process::start(SABAKAN, &path("data"), ["--etcd-endpoints", &endpoints]);
    let client = Client::new(&server.url()).expect("a URL");
    client.put_ipam(&fixtures::ipam()).expect("ipam");
    client.create_machines(&fixtures::workers(3, 0)).expect("registered");
    // Somebody edits etcd by hand.
    etcd.etcdctl(&["put", "/sabakan/node-indices/0", "[4,5]"]);
    etcd.etcdctl(&["put", "/sabakan/machines/broken", "{}"]);
    let check = run(SABAKAN, ["store", "check", "--etcd-endpoints", &endpoints, "--data-dir", text(&path("none"))]);
    assert_eq!(check.status.code(), Some(1));
    let report = shown(&check.stdout);
    assert!(report.contains("the index list of rack 0 is [4, 5], its machines have [4, 5, 6]"), "{report}");
    assert!(report.contains("/sabakan/machines/broken") && report.contains("2 problems found"), "{report}");
    // The server goes on with what it can read.
    assert_eq!(machines(&server).len(), 3);
}

/// A server that ran with machines and was stopped, and its file.
fn stopped_with_machines(data: &Path) -> std::path::PathBuf {
    let no_flags: [&str; 0] = [];
    let server = Process::start(SABAKAN, data, no_flags);
    let client = Client::new(&server.url()).expect("a URL");
    client.put_ipam(&fixtures::ipam()).expect("ipam");
    client.create_machines(&fixtures::workers(300, 0)).expect("registered");
    server.terminate();
    data.join("sabakan.db")
}

fn health(server: &Process) -> (u16, String) {
    let answer = sabakan_testkit::raw::request(&server.url(), "GET", "/health", &[], b"");
    (answer.status, answer.body)
}

#[test]
fn a_data_file_that_was_cut_is_served_read_only_and_can_be_saved() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = |name: &str| dir.path().join(name);
    let no_flags: [&str; 0] = [];
    let data = stopped_with_machines(&path("first"));
    let file = fs::File::options().write(true).open(&data).expect("the data file");
    let pages = file.metadata().expect("its length").len() / 4096;
    file.set_len(pages * 4096 - 100).expect("cut");
    drop(file);

    let server = Process::start(SABAKAN, &path("first"), no_flags);
    let (status, body) = health(&server);
    assert!(status == 503 && body.contains(&format!("the data file is damaged (page {pages}: ")), "{status} {body}");
    let readable = machines(&server).len();
    assert!(readable > 200, "{readable} machines");
    let client = Client::new(&server.url()).expect("a URL");
    let refused = client.create_machines(&[fixtures::machine("late", 60, "worker")]).expect_err("not written");
    assert!(refused.to_string().contains("the data file is damaged"), "{refused}");
    let figures = sabakan_testkit::raw::request(&server.url(), "GET", "/metrics", &[], b"").body;
    assert!(figures.contains("sabakan_store_damaged 1") && figures.contains("sabakan_store_up 0"), "{figures}");
    server.terminate();

    let first = path("first");
    let check = run(SABAKAN, ["store", "check", "--data-dir", text(&first)]);
    assert_eq!(check.status.code(), Some(1));
    assert!(
        shown(&check.stdout).contains(&format!("problem: page {pages}: the file has ")),
        "{}",
        shown(&check.stdout)
    );
    let out = path("saved.jsonl");
    let saved = run(SABAKAN, ["store", "export", "--salvage", "--data-dir", text(&first), "--out", text(&out)]);
    let summary = fs::read_to_string(path("saved.jsonl.salvage.json")).expect("a summary");
    let summary: serde_json::Value = serde_json::from_str(&summary).expect("JSON");
    let lost = summary["lost"].as_array().expect("a list").len();
    assert_eq!(saved.status.code(), Some(if lost == 0 { 0 } else { 3 }), "{}", shown(&saved.stderr));
    assert!(summary["lost-is-complete"].as_bool() == Some(true) && summary["pages"][0]["page"] == pages, "{summary}");
    assert_eq!(fs::metadata(&data).expect("still there").len(), pages * 4096 - 100, "nobody wrote to it");

    let second = path("second");
    succeed(&run(SABAKAN, ["store", "import", "--data-dir", text(&second), "--in", text(&out)]));
    let server = Process::start(SABAKAN, &second, no_flags);
    assert_eq!(health(&server).0, 200);
    assert_eq!(machines(&server).len(), readable);
}

#[test]
fn one_record_that_makes_no_sense_stops_neither_the_start_nor_an_export() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = |name: &str| dir.path().join(name);
    stopped_with_machines(&path("first"));
    // Through the store, so that the checksum is right and only the record is not.
    let export = path("all.jsonl");
    let first = path("first");
    succeed(&run(SABAKAN, ["store", "export", "--data-dir", text(&first), "--out", text(&export)]));
    let store = sabakan_store::embedded::EmbeddedStore::open(&first.join("sabakan.db")).expect("a store");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        use sabakan_store::{Op, Range, Store as _, Txn};
        let some = store.list(Range { limit: 1, ..Range::first("/sabakan/machines/") }).await.expect("a machine");
        let then = vec![Op::put(some.items[0].key.clone(), "{broken")];
        let written = store.commit(Txn { when: Vec::new(), then }).await.expect("written");
        assert!(matches!(written, sabakan_store::TxnOutcome::Committed(_)));
        store.shutdown().await;
    });
    drop(store);
    let no_flags: [&str; 0] = [];
    let server = Process::start(SABAKAN, &first, no_flags);
    assert_eq!(health(&server).0, 200, "the file is sound");
    assert_eq!(machines(&server).len(), 299);
    server.terminate();
    let saved = run(SABAKAN, ["store", "export", "--salvage", "--data-dir", text(&first), "--out", text(&export)]);
    let told = shown(&saved.stderr);
    assert!(
        saved.status.success() && told.contains("problem: the stored data is damaged at /sabakan/machines/"),
        "{told}"
    );
    assert_eq!(lines(&export).iter().filter(|line| line.contains("\"/sabakan/machines/")).count(), 300);
}
