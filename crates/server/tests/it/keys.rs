//! Disk keys at rest: what the store, a backup and the key file reveal, and rotation.

use std::{fs, path::Path, process::Output};

use sabakan_store::{Op, Store as _, Txn, embedded::EmbeddedStore};
use sabakan_testkit::{
    client::Client,
    fixtures::{self, machine},
    process::{Process, run},
    raw::request,
};

use crate::SABAKAN;

const NO_FLAGS: [&str; 0] = [];

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

fn succeed(output: &Output) -> String {
    let all = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{all}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    haystack.windows(needle.len()).any(|window| window == needle)
}

#[test]
fn neither_the_store_nor_a_backup_reveals_a_key_and_rotation_keeps_them() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().join("data");
    let keys = |args: &[&str]| {
        let all: Vec<&str> = ["keys"].iter().chain(args).copied().chain(["--data-dir", text(&data)]).collect();
        run(SABAKAN, all)
    };
    let secret = b"0123456789abcdef-this-is-the-share-of-a-disk-key-and-it-has-64-b";
    let server = Process::start(SABAKAN, &data, NO_FLAGS);
    let client = Client::new(&server.url()).expect("a URL");
    client.put_ipam(&fixtures::ipam()).expect("ipam");
    client.create_machines(&[machine("a", 0, "worker")]).expect("registered");
    assert_eq!(request(&server.url(), "PUT", "/api/v1/crypts/a/d1", &[], secret).status, 201);
    assert_eq!(request(&server.url(), "GET", "/api/v1/crypts/a/d1", &[], b"").body.as_bytes(), secret);
    let ironic = format!("http://{}", server.address("ironic"));
    let version = [("x-openstack-ironic-api-version", "latest")];
    let node = br#"{"driver": "redfish", "name": "n1",
        "driver_info": {"redfish_address": "192.0.2.1", "redfish_username": "u", "redfish_password": "hunter2-of-the-bmc"}}"#;
    let made = request(&ironic, "POST", "/v1/nodes", &version, node);
    assert_eq!(made.status, 201, "{}", made.body);
    assert!(!made.body.contains("hunter2"), "{}", made.body);
    let log = server.log();
    assert!(!contains(log.as_bytes(), &secret[..16]) && !log.contains("hunter2"), "no secret in the log");
    server.terminate();

    let database = fs::read(data.join("sabakan.db")).expect("the store");
    let export = succeed(&run(SABAKAN, ["store", "export", "--data-dir", text(&data)]));
    assert!(export.contains("/sabakan/crypts/a/d1"), "the sealed key is in the export");
    for (name, bytes) in [("store", &database[..]), ("export", export.as_bytes())] {
        assert!(!contains(bytes, &secret[..16]) && !contains(bytes, b"hunter2"), "{name}");
    }

    let before = succeed(&keys(&["list"]));
    let old = before.split_whitespace().next().expect("an id").to_owned();
    let refused = keys(&["forget", &old]);
    assert_eq!(refused.status.code(), Some(1), "the current key is needed");
    assert!(succeed(&keys(&["rotate"])).contains("1 disk keys and 1 BMC credentials are sealed"));
    assert_eq!(succeed(&keys(&["list"])).lines().count(), 2);
    succeed(&keys(&["forget", &old]));
    assert_eq!(succeed(&keys(&["list"])).lines().count(), 1);

    let server = Process::start(SABAKAN, &data, NO_FLAGS);
    let answer = request(&server.url(), "GET", "/api/v1/crypts/a/d1", &[], b"");
    assert_eq!((answer.status, answer.body.as_bytes()), (200, &secret[..]));
    // Whoever validates the settings of a node opens its secrets.
    let validate = |server: &Process| {
        let ironic = format!("http://{}", server.address("ironic"));
        request(&ironic, "GET", "/v1/nodes/n1/validate", &version, b"").json()["power"]["result"].clone()
    };
    assert_eq!(validate(&server), true);
    server.terminate();

    // Without its key file a server does not start: it could open nothing, and would seal under a key nobody else has.
    let ring = data.join("disk-keys.json");
    let kept = fs::read(&ring).expect("the key file");
    fs::remove_file(&ring).expect("lost");
    let failed =
        run(SABAKAN, ["--http", "127.0.0.1:0", "--https", "none", "--ironic", "none", "--data-dir", text(&data)]);
    assert_eq!(failed.status.code(), Some(1));
    let error = String::from_utf8_lossy(&failed.stderr).into_owned();
    assert!(error.contains("the store holds disk keys or BMC credentials, but the key file"), "{error}");
    assert!(!ring.exists(), "and makes no other");
    // With another one it answers anything but "not found": a client would format the disk.
    let other = dir.path().join("other");
    Process::start(SABAKAN, &other, NO_FLAGS).terminate();
    fs::copy(other.join("disk-keys.json"), &ring).expect("the wrong one");
    let server = Process::start(SABAKAN, &data, NO_FLAGS);
    let answer = request(&server.url(), "GET", "/api/v1/crypts/a/d1", &[], b"");
    assert_eq!(answer.status, 500, "{}", answer.body);
    assert!(server.log().contains("not in the key file"), "{}", server.log());
    assert_eq!(validate(&server), false, "nobody can open it");
    server.terminate();
    fs::write(&ring, kept).expect("found again");
    let server = Process::start(SABAKAN, &data, NO_FLAGS);
    assert_eq!(request(&server.url(), "GET", "/api/v1/crypts/a/d1", &[], b"").status, 200);
    let logs = request(&server.url(), "GET", "/api/v1/logs", &[], b"").body;
    assert!(logs.contains("rotate-key") && logs.contains("forget-key"), "{logs}");
}

/// Puts a key as the older service stores it.
fn put_raw(data: &Path, name: &str, value: &'static str) {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let store = EmbeddedStore::open(&data.join("sabakan.db")).expect("a store");
        let then = vec![Op::put(format!("/sabakan/crypts/{name}"), value)];
        let _committed = store.commit(Txn { when: vec![], then }).await.expect("written");
        store.shutdown().await;
    });
}

#[test]
fn raw_keys_of_the_older_service_stop_no_command_and_are_named_but_never_told() {
    const RAW: &str = "a-raw-share-of-a-disk-key-as-the-older-service-stores-it";
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().join("data");
    let server = Process::start(SABAKAN, &data, NO_FLAGS);
    let client = Client::new(&server.url()).expect("a URL");
    client.put_ipam(&fixtures::ipam()).expect("ipam");
    client.create_machines(&[machine("a", 0, "worker")]).expect("registered");
    server.terminate();
    // A store with raw keys alone and no key file yet is one that was just taken over.
    put_raw(&data, "a/raw-disk", RAW);
    fs::remove_file(data.join("disk-keys.json")).expect("no key file");
    let server = Process::start(SABAKAN, &data, NO_FLAGS);
    assert!(server.log().contains("1 raw keys to import"), "{}", server.log());
    assert_eq!(request(&server.url(), "GET", "/api/v1/crypts/a/raw-disk", &[], b"").status, 503);
    assert_eq!(request(&server.url(), "PUT", "/api/v1/crypts/a/d1", &[], b"ours").status, 201);
    server.terminate();

    let command = |args: &[&str]| run(SABAKAN, args.iter().copied().chain(["--data-dir", text(&data)]));
    let rotated = command(&["keys", "rotate"]);
    assert!(succeed(&rotated).contains("1 disk keys and 0 BMC credentials are sealed"));
    let told = String::from_utf8_lossy(&rotated.stderr).into_owned();
    assert!(told.contains("1 raw keys") && told.contains("a/raw-disk") && !told.contains(RAW), "{told}");
    let checked = succeed(&command(&["store", "check"]));
    assert!(checked.contains("note: takeover: crypts/a/raw-disk is a raw key") && !checked.contains(RAW), "{checked}");
    let file = dir.path().join("export.jsonl");
    let exported = command(&["store", "export", "--out", text(&file)]);
    succeed(&exported);
    let told = String::from_utf8_lossy(&exported.stderr).into_owned();
    assert!(told.contains("1 raw keys") && told.contains("readable for whoever has the file"), "{told}");
    let copy = dir.path().join("copy");
    succeed(&run(SABAKAN, ["store", "import", "--in", text(&file), "--data-dir", text(&copy)]));
    fs::copy(data.join("disk-keys.json"), copy.join("disk-keys.json")).expect("the key file");
    let server = Process::start(SABAKAN, &copy, NO_FLAGS);
    assert_eq!(request(&server.url(), "GET", "/api/v1/crypts/a/raw-disk", &[], b"").status, 503);
    assert_eq!(request(&server.url(), "GET", "/api/v1/crypts/a/d1", &[], b"").body, "ours");
    server.terminate();
}
