//! The store below a server cannot make anything durable: a full disk, a lost majority, a quota that is used up. Health and metrics
//! say so, with the reason, the refusal names the store, reads that can be answered are, and everything goes on without a restart.

use std::{path::Path, process::Command, sync::Arc, time::Duration};

use sabakan_store::{Op, Store, Txn};
use sabakan_store_etcd::EtcdStore;
use sabakan_testkit::{
    TestServer,
    etcd::{Etcd, EtcdOptions},
    fixtures::{self, machine},
    raw::request,
    wait_for,
};
use sabakan_wire::rest::{ErrorKind, QueryParams};

/// How long anything may take that must happen, on a busy machine.
const SOON: Duration = Duration::from_secs(60);

/// Status of `/health`, and why its store does not work.
fn health(server: &TestServer) -> (u16, Option<String>) {
    let answer = request(&server.url(), "GET", "/health", &[], b"");
    let json = answer.json();
    assert_eq!(json["health"], if answer.status == 200 { "healthy" } else { "unhealthy" });
    let part = &json["parts"][0];
    assert_eq!((part["name"].as_str(), part["ok"].as_bool()), (Some("store"), Some(part["reason"].is_null())));
    (answer.status, part["reason"].as_str().map(str::to_owned))
}

fn store_up(server: &TestServer) -> bool {
    let page = request(&server.url(), "GET", "/metrics", &[], b"").body;
    let line = page.lines().find_map(|line| line.strip_prefix("sabakan_store_up ")).expect("the metric is there");
    line == "1"
}

/// Waits until the server is unhealthy because of `part` of a reason.
fn falls_ill(server: &TestServer, part: &str) {
    wait_for(&format!("unhealthy: {part}"), SOON, || {
        let (status, reason) = health(server);
        (status == 503 && reason.is_some_and(|reason| reason.contains(part))).then_some(())
    });
    assert!(!store_up(server));
}

fn recovers(server: &TestServer) {
    wait_for("healthy again", SOON, || (health(server) == (200, None)).then_some(()));
    assert!(store_up(server));
}

/// What a client is told that wants to register a machine.
fn refusal(server: &TestServer, serial: &str, kind: ErrorKind) -> String {
    let error = server.client().create_machines(&[machine(serial, 1, "worker")]).expect_err("it cannot be stored");
    let body = error.json().expect("a body of ours");
    assert_eq!(body.kind, Some(kind), "{}", body.error);
    assert!(body.error.contains("the store") && !body.error.contains("127.0.0.1"), "{}", body.error);
    body.error.clone()
}

/// A small file system of its own, gone when dropped.
struct SmallDisk<'a>(&'a Path);

impl SmallDisk<'_> {
    fn mount(at: &Path) -> SmallDisk<'_> {
        std::fs::create_dir_all(at).expect("a directory");
        let done = Command::new("mount").args(["-t", "tmpfs", "-o", "size=8m", "tmpfs"]).arg(at).status();
        assert!(
            done.is_ok_and(|status| status.success()),
            "this test mounts a small file system and needs root for it"
        );
        SmallDisk(at)
    }

    /// Takes all the space that is left.
    fn fill(&self) {
        let full = std::fs::write(self.0.join("ballast"), vec![7; 16 << 20]).expect_err("more than there is");
        assert_eq!(full.kind(), std::io::ErrorKind::StorageFull);
    }

    fn free(&self) {
        std::fs::remove_file(self.0.join("ballast")).expect("it was written");
    }
}

impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(self.0).status();
    }
}

#[test]
fn a_full_disk_is_told_and_ends_by_itself() {
    let dir = tempfile::tempdir().expect("a directory");
    let disk = SmallDisk::mount(dir.path());
    let server = TestServer::start_on(None, |config| {
        config.data_dir = dir.path().join("data");
        config.key_file = config.data_dir.join("disk-keys.json");
    });
    server.client().put_ipam(&fixtures::ipam()).expect("ipam");
    server.client().create_machines(&[machine("before", 0, "worker")]).expect("there is room");
    recovers(&server);
    disk.fill();
    // Nobody asks for a change, and it is found out all the same.
    falls_ill(&server, "the store cannot write: no space is left on the disk");
    let text = refusal(&server, "during", ErrorKind::Unavailable);
    assert_eq!(text, "the store cannot write: no space is left on the disk of the data directory; nothing was changed");
    let machines = server.client().list_machines(&QueryParams::default()).expect("reads go on");
    assert_eq!(machines.len(), 1);
    disk.free();
    recovers(&server);
    server.client().create_machines(&[machine("after", 0, "worker")]).expect("there is room again");
    let machines = server.client().list_machines(&QueryParams::default()).expect("machines");
    let serials: Vec<_> = machines.into_iter().map(|machine| machine.spec.serial).collect();
    assert_eq!(serials, ["after", "before"]);
}

#[test]
fn a_lost_majority_is_told_and_ends_by_itself() {
    let etcd = Arc::new(Etcd::start_with(&EtcdOptions { members: 3, ..EtcdOptions::default() }));
    let server = TestServer::start_on(Some(Arc::clone(&etcd)), |_| {});
    server.client().put_ipam(&fixtures::ipam()).expect("ipam");
    recovers(&server);
    let first = etcd.leader();
    let second = (first + 1) % 3;
    etcd.kill_member(first);
    etcd.kill_member(second);
    falls_ill(&server, "the store");
    wait_for("a plain refusal", SOON, || {
        let error = server.client().create_machines(&[machine("a", 0, "worker")]).expect_err("nobody can store it");
        (error.kind() == Some(ErrorKind::Unavailable)).then_some(())
    });
    refusal(&server, "b", ErrorKind::Unavailable);
    etcd.restart_member(first);
    etcd.restart_member(second);
    recovers(&server);
    server.client().create_machines(&[machine("c", 0, "worker")]).expect("etcd is back");
}

#[test]
fn a_quota_that_is_used_up_is_told() {
    let quota = EtcdOptions { quota_backend_bytes: Some(4 << 20), ..EtcdOptions::default() };
    let etcd = Arc::new(Etcd::start_with(&quota));
    let server = TestServer::start_on(Some(Arc::clone(&etcd)), |_| {});
    server.client().put_ipam(&fixtures::ipam()).expect("ipam");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let other = EtcdStore::connect(etcd.config("/other/")).await.expect("etcd answers");
        for number in 0..100 {
            let put = Op::put(format!("/other/{number}"), vec![7; 256 * 1024]);
            if other.commit(Txn { when: Vec::new(), then: vec![put] }).await.is_err() {
                return;
            }
        }
        panic!("the quota was never reached");
    });
    falls_ill(&server, "etcd's space quota is used up");
    let text = refusal(&server, "a", ErrorKind::OutcomeUnknown);
    assert!(text.contains("etcd's space quota is used up"), "{text}");
    // What the text says helps.
    etcd.etcdctl(&["del", "--prefix", "/other/"]);
    let status: serde_json::Value = serde_json::from_str(&etcd.etcdctl(&["get", "/", "-w", "json"])).expect("JSON");
    etcd.etcdctl(&["compaction", &status["header"]["revision"].to_string()]);
    etcd.etcdctl(&["defrag"]);
    etcd.etcdctl(&["alarm", "disarm"]);
    recovers(&server);
}
