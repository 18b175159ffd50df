//! A token in a URL is refused on every listener, and its value is written down nowhere.

use std::time::Duration;

use sabakan_testkit::{process::Process, raw::request, wait_for};

use crate::SABAKAN;

const SECRET: &str = "sbk_0123456789_s3cret";

#[test]
fn a_token_in_a_url_is_refused_and_not_logged() {
    let dir = tempfile::tempdir().expect("a directory");
    let flags = ["--metrics", "127.0.0.1:0", "--metrics-raw-paths", "--log-level", "debug"];
    let server = Process::start(SABAKAN, &dir.path().join("data"), flags);
    let url = |listener| format!("http://{}", server.address(listener));
    let requests = [
        ("http", "GET", "/api/v1/machines?rack=1&token="),
        ("http", "PUT", "/api/v1/config/ipam?Access_Token="),
        ("http", "GET", "/nowhere?%74oken="),
        ("http", "GET", "/graphql?authorization=Bearer%20"),
        ("ironic", "GET", "/v1/nodes?X-Auth-Token="),
        ("metrics", "GET", "/metrics?api_key="),
    ];
    for (listener, method, path) in requests {
        let answer = request(&url(listener), method, &format!("{path}{SECRET}"), &[], b"");
        assert_eq!(answer.status, 400, "{path}: {}", answer.body);
        assert!(answer.body.contains("Authorization: Bearer"), "{path}: {}", answer.body);
        assert!(!answer.body.contains("s3cret"), "{path}: {}", answer.body);
        let shape = if listener == "ironic" { "faultstring" } else { "\"error\":" };
        assert!(answer.body.contains(shape), "{path}: {}", answer.body);
    }
    let log = wait_for("the access log", Duration::from_secs(30), || {
        Some(server.log()).filter(|log| log.matches("REDACTED").count() == requests.len())
    });
    assert!(!log.contains("s3cret"), "{log}");
    let figures = request(&url("metrics"), "GET", "/metrics", &[], b"");
    assert_eq!(figures.status, 200);
    assert!(!figures.body.contains("s3cret"), "{}", figures.body);
}
