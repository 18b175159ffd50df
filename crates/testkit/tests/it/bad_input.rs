//! Bad input gets a clear answer naming the field and the reason, and changes nothing.

use sabakan_testkit::{
    Backend, TestServer,
    fixtures::{self, machine},
    raw::{Answer, request},
};
use serde_json::{Value, json};

on_both_stores!(
    every_field_of_a_machine,
    every_field_of_the_ipam_configuration,
    what_a_request_asks_together,
    broken_json_at_every_byte,
    bodies_that_are_too_large,
    ids_and_methods,
);

#[test]
fn what_the_openapi_document_forbids_is_refused() {
    let server = started(Backend::Embedded);
    let before = server.dump();
    for (method, path, body, reason) in [
        ("PUT", "cluster/enabled", "[true]", "is expected: "),
        ("PUT", "auto-repair/enabled", "[false]", "is expected: "),
        ("PUT", "repair-queue/enabled", r#"{"enabled": true, "more": 1}"#, "unknown field"),
        ("PUT", "config/dhcp", r#"{"lease-minutes": 2147483648}"#, "lease-minutes is 2147483648, at most 71582788"),
        ("PUT", "state/only?force=maybe", "healthy", "force is \"maybe\""),
        ("PUT", "state/only?force=", "healthy", "force is \"\""),
        ("GET", "cluster/plans?limit=", "", "limit is \"\""),
        ("GET", "cluster/template?format=", "", "format is \"\""),
        ("GET", "auto-repair/status?machines=", "", "machines is \"\""),
    ] {
        let answer = request(&server.url(), method, &format!("/api/v1/{path}"), &[], body.as_bytes());
        assert_eq!(answer.status, 400, "{method} {path} {body}: {}", answer.body);
        assert!(answer.error().contains(reason), "{method} {path} {body}: {}", answer.error());
    }
    assert_eq!(server.dump(), before, "nothing was written");
}

/// A server with one machine, which must be all it has at the end.
fn started(backend: Backend) -> TestServer {
    let server = TestServer::start(backend);
    server.client().put_ipam(&fixtures::ipam()).expect("ipam");
    server.client().create_machines(&[machine("only", 0, "boot")]).expect("registered");
    server
}

fn assert_untouched(server: &TestServer) {
    let machines = request(&server.url(), "GET", "/api/v1/machines", &[], b"").json();
    let serials: Vec<_> = machines.as_array().expect("a list").iter().map(|m| &m["serial"]).collect();
    assert_eq!(serials, ["only"]);
    assert_eq!(server.client().get_ipam().expect("ipam"), fixtures::ipam());
}

fn post(server: &TestServer, body: &Value) -> Answer {
    request(&server.url(), "POST", "/api/v1/machines", &[], body.to_string().as_bytes())
}

/// A valid machine with one field changed.
fn with(field: &str, value: Value) -> Value {
    let mut machine =
        json!({"serial": "x", "rack": 1, "role": "worker", "labels": {"a": "1"}, "bmc": {"type": "IPMI-2.0"}});
    machine[field] = value;
    machine
}

fn every_field_of_a_machine(backend: Backend) {
    let server = started(backend);
    let check = |field: &str, value: Value, reason: &str| {
        // As the second of two, so that a part of the request would show.
        let answer = post(&server, &json!([with("serial", json!("good")), with(field, value.clone())]));
        assert_eq!(answer.status, 400, "{field} = {value}: {}", answer.body);
        let error = answer.error();
        assert!(error.starts_with(&format!("invalid request: {reason}")), "{field} = {value}: {error}");
        assert_eq!(answer.json()["kind"], "invalid");
    };
    check("serial", json!(""), "serial is empty (machine 2 of the request");
    check("serial", Value::Null, "serial is empty");
    check("serial", json!(7), "[1].serial: invalid type: integer `7`, expected a string");
    check("serial", json!("a/b"), "invalid serial");
    check("serial", json!("a,b"), "invalid serial");
    check("serial", json!(" a"), "invalid serial");
    check("serial", json!("a\u{0}"), "invalid serial");
    check("serial", json!(".."), "invalid serial");
    check("serial", json!("s".repeat(256)), "invalid serial");
    check("role", json!(""), "invalid role");
    check("role", Value::Null, "invalid role");
    check("role", json!("a b"), "invalid role");
    check("role", json!("r".repeat(64)), "invalid role");
    check("role", json!(["worker"]), "[1].role: invalid type: sequence");
    check("labels", json!({"a b": "1"}), "labels contain invalid character");
    check("labels", json!({"a": "b c"}), "labels contain invalid character");
    check("labels", json!({"": "1"}), "labels contain invalid character");
    check("labels", json!({"a": 1}), "[1].labels.a: invalid type: integer `1`");
    check("labels", json!(["a"]), "[1].labels: invalid type: sequence");
    check("bmc", Value::Null, "BMC type is empty");
    check("bmc", json!({}), "BMC type is empty");
    check("bmc", json!({"type": ""}), "BMC type is empty");
    check("bmc", json!({"type": "a b"}), "BMC type contains invalid character");
    check("bmc", json!("IPMI-2.0"), "[1].bmc: invalid type: string");
    check("rack", json!(-1), "[1].rack: invalid value: integer `-1`");
    check("rack", json!(1.5), "[1].rack: invalid type: floating point `1.5`");
    check("rack", json!(4_294_967_296_u64), "[1].rack: invalid value");
    check("rack", json!("1"), "[1].rack: invalid type: string \"1\"");
    check("rack", json!(341), "rack 341 does not fit node-ipv4-pool: 10.70.0.4 is outside of 10.69.0.0/16");
    check("rack", json!(120), "rack 120 does not fit bmc-ipv4-pool");
    check("rack", json!(u32::MAX), "rack 4294967295 does not fit node-ipv4-pool");
    check("retire-date", json!("tomorrow"), "retire-date: invalid time: \"tomorrow\"");
    check("retire-date", json!(0), "[1].retire-date: invalid type");
    check("product", json!("a b"), "labels contain invalid character");
    assert_untouched(&server);
    // Unknown keys and what the server assigns are ignored, as ever.
    let extra = with("future", json!({"deep": [1]}));
    let mut extra = extra.as_object().expect("an object").clone();
    extra.extend([
        ("index-in-rack".to_owned(), json!("x")),
        ("ipv4".to_owned(), json!(7)),
        ("ipv6".to_owned(), json!({})),
    ]);
    assert_eq!(post(&server, &json!([extra])).status, 201);
}

fn every_field_of_the_ipam_configuration(backend: Backend) {
    let server = TestServer::start(backend);
    server.client().put_ipam(&fixtures::ipam()).expect("ipam");
    let check = |field: &str, value: Value, reason: &str| {
        let mut config = serde_json::to_value(fixtures::ipam()).expect("JSON");
        config[field] = value.clone();
        let answer = request(&server.url(), "PUT", "/api/v1/config/ipam", &[], config.to_string().as_bytes());
        assert_eq!(answer.status, 400, "{field} = {value}: {}", answer.body);
        let error = answer.error();
        assert!(error.starts_with(&format!("invalid request: {reason}")), "{field} = {value}: {error}");
    };
    for field in
        ["max-nodes-in-rack", "node-ip-per-node", "node-index-offset", "node-gateway-offset", "bmc-ipv4-gateway-offset"]
    {
        check(field, json!(0), &format!("{field} must not be zero"));
        check(field, json!(-1), &format!("{field}: invalid value"));
        check(field, json!("3"), &format!("{field}: invalid type"));
    }
    for pool in ["node-ipv4", "bmc-ipv4"] {
        check(&format!("{pool}-pool"), json!("10.0.0.0"), &format!("invalid {pool}-pool"));
        check(&format!("{pool}-pool"), json!("fd00::/64"), &format!("invalid {pool}-pool"));
        check(&format!("{pool}-pool"), Value::Null, &format!("invalid {pool}-pool"));
        check(&format!("{pool}-pool"), json!("10.0.0.1/8"), &format!("host part of {pool}-pool must be cleared"));
        check(&format!("{pool}-offset"), json!("0.1"), &format!("invalid {pool}-offset"));
        check(&format!("{pool}-offset"), json!("::1"), &format!("invalid {pool}-offset"));
        check(&format!("{pool}-range-size"), json!(0), &format!("{pool}-range-size must not be zero"));
        check(&format!("{pool}-range-size"), json!(32), &format!("invalid {pool}-range-size"));
        check(&format!("{pool}-range-mask"), json!(7), &format!("invalid {pool}-range-mask"));
        check(&format!("{pool}-range-mask"), json!(33), &format!("invalid {pool}-range-mask"));
    }
    check("node-ip-per-node", json!(65), "invalid node-ip-per-node");
    check("max-nodes-in-rack", json!(61), "max-nodes-in-rack does not fit node-ipv4-range-size");
    check("bmc-ipv4-range-size", json!(4), "max-nodes-in-rack does not fit bmc-ipv4-range-size");
    check("bmc-ipv4-pool", json!("10.69.0.0/20"), "bmc-ipv4-pool 10.69.0.0/20 overlaps node-ipv4-pool");
    for (body, reason) in
        [("null", "max-nodes-in-rack must not be zero"), ("[]", "invalid type: sequence"), ("", "EOF")]
    {
        let answer = request(&server.url(), "PUT", "/api/v1/config/ipam", &[], body.as_bytes());
        assert_eq!(answer.status, 400);
        assert!(answer.error().contains(reason), "{body}: {}", answer.error());
    }
    let dhcp = request(&server.url(), "PUT", "/api/v1/config/dhcp", &[], br#"{"dns-servers":["1.1.1.1","::1"]}"#);
    assert_eq!(
        (dhcp.status, dhcp.error().as_str()),
        (400, "invalid request: invalid IPv4 address in dns-servers: ::1")
    );
    assert_eq!(request(&server.url(), "GET", "/api/v1/config/dhcp", &[], b"").status, 404);
    assert_eq!(server.client().get_ipam().expect("ipam"), fixtures::ipam());
}

fn what_a_request_asks_together(backend: Backend) {
    let server = started(backend);
    let check = |machines: &[sabakan_wire::rest::MachineInput], status: u16, reason: &str| {
        let answer = post(&server, &serde_json::to_value(machines).expect("JSON"));
        assert_eq!(answer.status, status, "{}", answer.body);
        assert!(answer.error().starts_with(reason), "{}", answer.error());
    };
    check(
        &[machine("a", 0, "worker"), machine("b", 0, "worker"), machine("a", 1, "worker")],
        400,
        "invalid request: serial a is given twice in one request",
    );
    check(
        &[machine("a", 1, "worker"), machine("only", 1, "worker")],
        409,
        "conflicted: serial only is already registered",
    );
    check(&[machine("a", 1, "worker"), machine("b", 0, "boot")], 409, "conflicted: rack 0 already has a boot machine");
    check(&[machine("a", 1, "boot"), machine("b", 1, "boot")], 409, "conflicted: rack 1 already has a boot machine");
    let full = fixtures::workers(28, 3);
    let mut crowded = full.clone();
    crowded.push(machine("one-more", 3, "worker"));
    let text = "no node index is available for new machine: rack 3 is full with 28 machines; one-more does not fit: Internal Server Error";
    check(&crowded, 500, text);
    assert_untouched(&server);
    for nothing in ["[]", "null"] {
        assert_eq!(request(&server.url(), "POST", "/api/v1/machines", &[], nothing.as_bytes()).status, 201);
    }
    let null = request(&server.url(), "POST", "/api/v1/machines", &[], b"[null]");
    assert_eq!((null.status, null.json()["kind"].as_str()), (400, Some("invalid")));
    assert_untouched(&server);
    // 28 workers and a boot machine fit.
    let mut rack = full;
    rack.push(machine("boot-3", 3, "boot"));
    server.client().create_machines(&rack).expect("fits");

    let bare = TestServer::start(Backend::Embedded);
    let answer = post(&bare, &json!([with("serial", json!("a"))]));
    assert_eq!((answer.status, answer.error().as_str()), (500, "IPAMConfig is not set: Internal Server Error"));
}

fn broken_json_at_every_byte(backend: Backend) {
    let server = started(backend);
    let good = json!([with("serial", json!("cut"))]).to_string();
    for end in 0..good.len() {
        let answer = request(&server.url(), "POST", "/api/v1/machines", &[], &good.as_bytes()[..end]);
        assert_eq!(answer.status, 400, "cut at {end}: {}", answer.body);
    }
    for at in 0..good.len() {
        let mut bytes = good.clone().into_bytes();
        bytes[at] = 0x01;
        let answer = request(&server.url(), "POST", "/api/v1/machines", &[], &bytes);
        assert_eq!(answer.status, 400, "control character at {at}: {}", answer.body);
    }
    let deep = "[".repeat(10_000);
    assert_eq!(request(&server.url(), "POST", "/api/v1/machines", &[], deep.as_bytes()).status, 400);
    let not_text = request(&server.url(), "POST", "/api/v1/machines", &[], b"[{\"serial\":\"\xff\xfe\"}]");
    assert_eq!(not_text.status, 400);
    assert_untouched(&server);
}

fn bodies_that_are_too_large(backend: Backend) {
    let server = started(backend);
    let huge = vec![b' '; 100 * 1024 * 1024];
    for (method, path, limit) in [
        ("POST", "/api/v1/machines", 33_554_432),
        ("PUT", "/api/v1/config/ipam", 65_536),
        ("PUT", "/api/v1/config/dhcp", 65_536),
        ("PUT", "/api/v1/state/only", 128),
        ("PUT", "/api/v1/labels/only/a", 1_024),
        ("PUT", "/api/v1/retire-date/only", 1_024),
        ("PUT", "/api/v1/crypts/only/a", 4_096),
        ("POST", "/api/v1/tokens", 65_536),
    ] {
        let answer = request(&server.url(), method, path, &[], &huge);
        assert_eq!(answer.status, 413, "{path}");
        assert_eq!(answer.error(), format!("the request body is larger than {limit} bytes"));
        assert_eq!(answer.json()["kind"], "too-large");
    }
    // Without a length the limit holds as well.
    use std::io::Write as _;
    let mut stream = sabakan_testkit::raw::connect(&server.url());
    stream
        .write_all(
            b"PUT /api/v1/config/ipam HTTP/1.1\r\nhost: t\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n",
        )
        .expect("sent");
    for _ in 0..20 {
        let chunk = format!("{:x}\r\n{}\r\n", 8_192, " ".repeat(8_192));
        if stream.write_all(chunk.as_bytes()).is_err() {
            break; // refused already
        }
    }
    assert_eq!(sabakan_testkit::raw::read_answer(stream).status, 413);
    assert_untouched(&server);
}

fn ids_and_methods(backend: Backend) {
    let server = started(backend);
    let url = server.url();
    let given = request(&url, "GET", "/api/v1/nothing", &[("X-Cybozu-Request-ID", "abc-1")], b"");
    assert_eq!((given.status, &given.json()["request_id"]), (404, &json!("abc-1")));
    assert_eq!(given.header("x-cybozu-request-id"), Some("abc-1"));
    let made = request(&url, "GET", "/api/v1/nothing", &[], b"").json()["request_id"].clone();
    assert_eq!(made.as_str().map(str::len), Some(36), "{made}");
    let long = "x".repeat(1_000);
    let replaced = request(&url, "GET", "/api/v1/nothing", &[("X-Cybozu-Request-ID", &long)], b"");
    assert_ne!(replaced.json()["request_id"], json!(long));
    for (method, path) in [("POST", "/api/v1/config/ipam"), ("PUT", "/api/v1/machines"), ("DELETE", "/version")] {
        let answer = request(&url, method, path, &[], b"");
        assert_eq!((answer.status, answer.error().as_str()), (405, "method not allowed"), "{method} {path}");
    }
    let head = request(&url, "HEAD", "/api/v1/machines", &[], b"");
    assert_eq!((head.status, head.body.as_str()), (200, ""));
    for undecodable in ["GET", "DELETE"] {
        let answer = request(&url, undecodable, "/api/v1/machines/%FF", &[], b"");
        assert_eq!(answer.status, 400);
        assert_eq!(answer.error(), "invalid request: serial: the path is not percent-encoded UTF-8");
    }
    let many = request(&url, "GET", &format!("/api/v1/machines?without-serial={}", "x,".repeat(10_000)), &[], b"");
    assert_eq!(many.status, 400);
    assert!(many.error().contains("without-serial has 10001 values"), "{}", many.error());
    for path in ["/", "/api/v1/", "/api/v2/machines", "/api/v1//machines"] {
        assert_eq!(request(&url, "GET", path, &[], b"").status, 404, "{path}");
    }
    assert_untouched(&server);
}
