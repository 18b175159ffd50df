//! Disk keys: the story of a machine's life as its disks see it, and that nobody but the machine ever sees a key.

use std::fs;

use sabakan_testkit::{
    Backend, TestServer,
    fixtures::{self, machine},
    raw::request,
};
use serde_json::json;

on_both_stores!(
    a_key_from_storing_to_erasing,
    refused_input_stores_nothing,
    keys_are_never_stored_in_plain,
    a_path_that_names_no_disk_is_never_not_found,
    many_keys_are_erased_at_once
);

fn started(backend: Backend) -> TestServer {
    let server = TestServer::start(backend);
    server.client().put_ipam(&fixtures::ipam()).expect("ipam");
    server.client().create_machines(&[machine("m", 0, "worker"), machine("n", 0, "worker")]).expect("registered");
    server.client().put_state("m", "healthy", false).expect("healthy");
    server
}

/// What the story does: method, path after `/api/v1/`, body, status, text of the error or the whole body.
type Step<'a> = (&'a str, &'a str, &'a [u8], u16, &'a str);

fn walk(server: &TestServer, steps: &[Step<'_>]) {
    for (method, path, body, status, expected) in steps {
        let answer = request(&server.url(), method, &format!("/api/v1/{path}"), &[], body);
        assert_eq!(answer.status, *status, "{method} {path}: {}", answer.body);
        let shown = if *status < 400 { answer.body.trim().to_owned() } else { answer.error() };
        assert_eq!(shown, *expected, "{method} {path}");
    }
}

fn a_key_from_storing_to_erasing(backend: Backend) {
    let server = started(backend);
    let not_found = "requested resource is not found";
    let leaving = "machine was retiring or retired: Internal Server Error";
    let staying = "machine is not retiring: Internal Server Error";
    walk(
        &server,
        &[
            ("GET", "crypts/m/abc", b"", 404, not_found),
            ("PUT", "crypts/m/abc", b"the key", 201, r#"{"status":201,"path":"abc"}"#),
            ("PUT", "crypts/m/abc", b"the key", 409, "conflicted: a key for disk abc exists"),
            ("GET", "crypts/m/abc", b"", 200, "the key"),
            ("GET", "crypts/n/abc", b"", 404, not_found),
            ("DELETE", "crypts/m", b"", 500, staying),
            ("PUT", "state/m", b"retiring", 200, ""),
            ("PUT", "crypts/m/def", b"another", 500, leaving),
            ("GET", "crypts/m/abc", b"", 200, "the key"),
            ("PUT", "state/m", b"retired", 400, "invalid request: encryption key exists"),
            ("PUT", "state/m?force=true", b"retired", 400, "invalid request: encryption key exists"),
            ("GET", "state/m", b"", 200, "retiring"),
            ("DELETE", "machines/m", b"", 500, "non-retired machine cannot be deleted: Internal Server Error"),
            ("DELETE", "crypts/m", b"", 200, r#"["abc"]"#),
            ("GET", "state/m", b"", 200, "retired"),
            ("GET", "crypts/m/abc", b"", 404, not_found),
            ("PUT", "crypts/m/abc", b"the key", 500, leaving),
            ("DELETE", "crypts/m", b"", 500, staying),
            ("DELETE", "machines/m", b"", 200, ""),
            ("GET", "machines/m", b"", 404, not_found),
            ("DELETE", "crypts/m", b"", 404, not_found),
            ("PUT", "crypts/m/abc", b"the key", 404, not_found),
            // Without keys the request alone is enough, and so is deleting none.
            ("PUT", "state/n", b"retiring", 200, ""),
            ("DELETE", "crypts/n", b"", 200, "[]"),
            ("GET", "state/n", b"", 200, "retired"),
        ],
    );
    let erased = server.client().list_logs(None, None).expect("the log");
    let erased = erased.iter().find(|entry| entry.action == "delete" && entry.category == "crypts").expect("recorded");
    let hash_of_the_key = "3a0aac44832e55528a834fec737786c999e7b8dea8bd601bb59f195237d58b2e";
    assert_eq!(erased.detail, format!("abc sha256:{hash_of_the_key}"), "what proves later which key it was");
}

fn refused_input_stores_nothing(backend: Backend) {
    let mut server = started(backend);
    let put = |disk: &str, body: &[u8]| {
        let answer = request(&server.url(), "PUT", &format!("/api/v1/crypts/m/{disk}"), &[], body);
        (answer.status, answer.error())
    };
    assert_eq!(put("a", b""), (400, "invalid request: the key is empty".into()));
    assert_eq!(put("a", &[7; 4097]), (413, "the request body is larger than 4096 bytes".into()));
    for disk in ["%2e%2e", "..", "a%2Fb", "a%00", "%0a", &"d".repeat(256)] {
        let (status, text) = put(disk, b"key");
        assert!(status == 400 && text.starts_with("invalid request: "), "{disk}: {status} {text}");
    }
    let unknown = request(&server.url(), "PUT", "/api/v1/crypts/nobody/a", &[], b"key");
    assert_eq!(unknown.status, 404);
    let traversal = request(&server.url(), "GET", "/api/v1/crypts/%2e%2e/ipam", &[], b"");
    assert_eq!(traversal.status, 400, "{}", traversal.body);
    // The largest key, of every byte there is, comes back as it went.
    let largest: Vec<u8> = (0..4096u32).map(|n| u8::try_from(n % 256).expect("a byte")).collect();
    server.client().put_key("m", "a", &largest).expect("stored");
    assert_eq!(server.client().get_key("m", "a").expect("a key"), largest);
    assert_eq!(server.client().get_key("m", "b").expect_err("no key").status(), Some(404));
    let stored: Vec<String> = server.dump().into_keys().filter(|key| key.contains("/crypts/")).collect();
    assert_eq!(stored, ["/sabakan/crypts/m/a"]);
    server.restart();
    assert_eq!(server.client().get_key("m", "a").expect("a key, after a restart"), largest);
}

const KEY: &str = "correct horse battery staple 42";
const KEY_BASE64: &str = "Y29ycmVjdCBob3JzZSBiYXR0ZXJ5IHN0YXBsZSA0M";

fn contains(bytes: &[u8], needle: &str) -> bool {
    bytes.windows(needle.len()).any(|window| window == needle.as_bytes())
}

/// The key in the forms in which programs tend to write bytes.
fn shows_the_key(bytes: &[u8]) -> bool {
    let hex: String = KEY.bytes().map(|byte| format!("{byte:02x}")).collect();
    let numbers: Vec<String> = KEY.bytes().map(|byte| byte.to_string()).collect();
    [KEY, &hex, &hex.to_uppercase(), KEY_BASE64, &numbers.join(",")].iter().any(|form| contains(bytes, form))
}

fn keys_are_never_stored_in_plain(backend: Backend) {
    let server = started(backend);
    assert!(shows_the_key(format!("x{KEY}").as_bytes()), "the search works");
    server.client().put_key("m", "disk-1", KEY.as_bytes()).expect("stored");
    server.client().put_key("n", "disk-1", KEY.as_bytes()).expect("stored");
    let check = |server: &TestServer| {
        let all = server.dump();
        for (key, value) in &all {
            assert!(!shows_the_key(value) && !shows_the_key(key.as_bytes()), "{key} shows a disk key");
        }
        if let Some(etcd) = &server.etcd {
            assert!(!shows_the_key(etcd.etcdctl(&["get", "--prefix", "/"]).as_bytes()));
        }
        for entry in fs::read_dir(server.data_dir()).expect("the data directory") {
            let path = entry.expect("an entry").path();
            assert!(!shows_the_key(&fs::read(&path).expect("a file")), "{} shows a disk key", path.display());
        }
        all
    };
    let all = check(&server);
    let (one, other) = (&all["/sabakan/crypts/m/disk-1"], &all["/sabakan/crypts/n/disk-1"]);
    assert_ne!(one, other, "sealed twice, a key never looks the same");
    server.client().put_state("m", "retiring", false).expect("retiring");
    server.client().delete_keys("m").expect("erased");
    check(&server);
    let answers = request(&server.url(), "GET", "/api/v1/logs", &[], b"").body
        + &request(&server.url(), "GET", "/api/v1/machines", &[], b"").body;
    assert!(!shows_the_key(answers.as_bytes()), "{answers}");
    assert_eq!(json!(server.client().get_key("n", "disk-1").expect("a key")), json!(KEY.as_bytes()));
}

/// A machine that is answered 404 formats its disk.
fn a_path_that_names_no_disk_is_never_not_found(backend: Backend) {
    let server = started(backend);
    for path in ["", "/", "/m", "/m/", "/m/d/", "/m/d/e", "/%FF/d", "/m/%FF", "/../d", "/m/.."] {
        for method in ["GET", "PUT"] {
            let answer = request(&server.url(), method, &format!("/api/v1/crypts{path}"), &[], b"key");
            assert_eq!(answer.status, 400, "{method} {path}: {}", answer.body);
        }
    }
    // Nor is one that is spelled wrong, whether there is a key or not.
    assert_eq!(request(&server.url(), "PUT", "/api/v1/crypts/m/d", &[], b"key").status, 201);
    for path in
        ["//api/v1/crypts/m/d", "/api/v1//crypts/m/d", "/api/v1/%63rypts/m/d", "/api/v1/Crypts/m/d", "/crypts/m/d"]
    {
        let answer = request(&server.url(), "GET", path, &[], b"");
        assert_eq!((answer.status, &answer.json()["kind"]), (400, &json!("invalid")), "{path}: {}", answer.body);
    }
}

/// Keys are put by whoever says to be the machine; that must not keep it from being retired.
fn many_keys_are_erased_at_once(backend: Backend) {
    let server = started(backend);
    let put = |n: usize| {
        let path = format!("/api/v1/crypts/m/{n:0>200}");
        request(&server.url(), "PUT", &path, &[], format!("key {n}").as_bytes())
    };
    for n in 0..256 {
        assert_eq!(put(n).status, 201, "{n}");
    }
    let refused = put(256);
    assert_eq!(refused.status, 500);
    assert!(refused.error().starts_with("the machine has 256 disk keys, more are not accepted"), "{}", refused.error());
    server.client().put_state("m", "retiring", false).expect("retiring");
    let erased = request(&server.url(), "DELETE", "/api/v1/crypts/m", &[], b"");
    assert_eq!((erased.status, erased.json().as_array().map(Vec::len)), (200, Some(256)));
    let log = server.client().list_logs(None, None).expect("the log");
    let record = log.iter().find(|entry| entry.category == "crypts" && entry.action == "delete").expect("a record");
    assert_eq!(record.detail.lines().filter(|line| line.contains(" sha256:")).count(), 256);
}

#[test]
fn a_half_sent_key_is_not_stored() {
    use std::io::{Read as _, Write as _};
    let server = started(Backend::Embedded);
    let mut stream = sabakan_testkit::raw::connect(&server.url());
    stream
        .write_all(b"PUT /api/v1/crypts/m/d HTTP/1.1\r\nhost: t\r\ncontent-length: 64\r\n\r\nhalf a key")
        .expect("sent");
    stream.shutdown(std::net::Shutdown::Write).expect("half closed");
    let mut answer = String::new();
    // The server may close without an answer: the request never came to its end.
    let _closed = stream.read_to_string(&mut answer);
    assert!(!answer.contains(" 201 "), "{answer}");
    assert_eq!(request(&server.url(), "GET", "/api/v1/crypts/m/d", &[], b"").status, 404);
}

/// The founding examples send keys and JSON as `curl -d` does, as a form; that and what other clients say is accepted.
#[test]
fn a_body_of_another_kind_is_refused() {
    let server = started(Backend::Embedded);
    for wrong in ["image/png", "multipart/form-data; boundary=x", "application/xml", "nonsense"] {
        for (method, path) in [("PUT", "/api/v1/crypts/m/d"), ("PUT", "/api/v1/state/m"), ("POST", "/api/v1/machines")]
        {
            let answer = request(&server.url(), method, path, &[("content-type", wrong)], b"healthy");
            assert_eq!(answer.status, 400, "{method} {path} {wrong}: {}", answer.body);
            assert!(answer.error().contains("is not accepted"), "{}", answer.error());
        }
    }
    assert_eq!(request(&server.url(), "GET", "/api/v1/crypts/m/d", &[], b"").status, 404);
    let accepted = ["application/x-www-form-urlencoded", "application/json", "Text/Plain; charset=utf-8", ""];
    for (n, name) in accepted.iter().enumerate() {
        let path = format!("/api/v1/crypts/m/d{n}");
        assert_eq!(request(&server.url(), "PUT", &path, &[("content-type", name)], b"k&=%").status, 201, "{name}");
        assert_eq!(request(&server.url(), "GET", &path, &[], b"").body, "k&=%");
    }
}
