//! GraphQL over HTTP: the queries programs send, every way a request can come and be refused, who may change something, and that a
//! search sees what was acknowledged before it.

use jiff::SignedDuration;
use sabakan_domain::{access::AllowedNetworks, lifecycle::HealthState};
use sabakan_testkit::{
    Backend, TestServer,
    fixtures::{self, machine},
    raw::{Answer, request},
};
use sabakan_wire::rest::MachineInput;
use serde_json::{Value, json};

on_both_stores!(
    the_founding_queries_work_verbatim,
    a_controller_finds_and_moves_machines,
    every_way_a_request_can_come,
    what_is_refused_and_how,
    changes_that_are_not_made,
    changes_are_for_those_who_may,
    everybody_may_change_if_the_server_says_so,
    tokens_are_required_of_readers_too,
    a_search_sees_what_was_acknowledged,
    days_are_counted_by_the_clock,
    the_playground_is_there_if_asked_for,
);

const PATH: &str = "/graphql";
const JSON: (&str, &str) = ("content-type", "application/json");

fn started(backend: Backend) -> TestServer {
    let server = TestServer::start(backend);
    fill(&server);
    server
}

fn fill(server: &TestServer) {
    let labels = [("datacenter", "ty3"), ("foo", "bar")].map(|(name, value)| (name.to_owned(), value.to_owned()));
    let gpu = MachineInput {
        labels: Some(labels.into()),
        retire_date: Some("2030-01-02T03:04:05+09:00".into()),
        ..machine("g1", 1, "gpu")
    };
    let machines = [machine("b1", 0, "boot"), machine("w1", 0, "worker"), machine("w2", 1, "worker"), gpu];
    server.client().put_ipam(&fixtures::ipam()).expect("ipam");
    server.client().create_machines(&machines).expect("registered");
}

fn post(server: &TestServer, headers: &[(&str, &str)], body: &Value) -> Answer {
    let headers: Vec<_> = headers.iter().copied().chain([JSON]).collect();
    request(&server.url(), "POST", PATH, &headers, body.to_string().as_bytes())
}

/// The data of an answer without errors.
fn data(server: &TestServer, query: &str, variables: Value) -> Value {
    let mut body = json!({ "query": query });
    body["variables"] = variables;
    let answer = post(server, &[], &body);
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")), "{}", answer.body);
    let mut body = answer.json();
    assert!(body.get("errors").is_none(), "{query}: {body}");
    body["data"].take()
}

fn serials(data: &Value) -> Vec<&str> {
    let list = data["searchMachines"].as_array().unwrap_or_else(|| panic!("no list in {data}"));
    list.iter().map(|machine| machine["spec"]["serial"].as_str().expect("a serial")).collect()
}

/// From the text on cluster configuration, with what its authors cut out.
const CKE: &str = r#"
query ckeSearch($having: MachineParams = null,
                $notHaving: MachineParams = {
                  roles: ["boot"]
                  states: [RETIRED]
                }) {
  searchMachines(having: $having, notHaving: $notHaving) {
    # snip
    spec { serial labels { name value } rack indexInRack role ipv4 registerDate retireDate bmc { bmcType } }
    status { state duration }
  }
}
"#;

/// From the text on repair.
const REPAIR: &str = "
query ckeSearch($having: MachineParams, $notHaving: MachineParams) {
  searchMachines(having: $having, notHaving: $notHaving) {
    # snip
    spec { serial ipv4 bmc { bmcType } }
    status { state }
  }
}
";

fn the_founding_queries_work_verbatim(backend: Backend) {
    let server = started(backend);
    server.clock.advance(SignedDuration::from_millis(2_500));
    let all = data(&server, CKE, Value::Null);
    assert_eq!(serials(&all), ["g1", "w1", "w2"]);
    let expected = json!({
        "spec": {
            "serial": "g1",
            "labels": [{"name": "datacenter", "value": "ty3"}, {"name": "foo", "value": "bar"}],
            "rack": 1, "indexInRack": 5, "role": "gpu", "ipv4": ["10.69.0.197", "10.69.1.5", "10.69.1.69"],
            "registerDate": "2026-11-15T00:00:00Z", "retireDate": "2030-01-02T03:04:05+09:00",
            "bmc": {"bmcType": "iDRAC-9"},
        },
        "status": {"state": "UNINITIALIZED", "duration": 2.5},
    });
    assert_eq!(all["searchMachines"][0], expected);
    assert_eq!(all["searchMachines"][1]["spec"]["labels"], Value::Null);

    // The example of the text, and what a program sends that knows every field.
    let example = json!({
        "having": {"labels": [{"name": "foo", "value": "bar"}], "roles": ["worker", "gpu"]},
        "notHaving": {"states": ["UNINITIALIZED", "RETIRED"]},
    });
    assert_eq!(serials(&data(&server, CKE, example)), [] as [&str; 0]);
    server.client().put_state("g1", "healthy", false).expect("healthy");
    let example = json!({
        "having": {"labels": [{"name": "foo", "value": "bar"}], "roles": ["worker", "gpu"]},
        "notHaving": {"states": ["UNINITIALIZED", "RETIRED"]},
    });
    assert_eq!(serials(&data(&server, CKE, example)), ["g1"]);
    let nothing = json!({"labels": null, "racks": null, "roles": null, "states": null, "minDaysBeforeRetire": null});
    let everything = data(&server, CKE, json!({"having": nothing, "notHaving": nothing}));
    assert_eq!(serials(&everything), ["b1", "g1", "w1", "w2"]);

    // The defaults of the text on repair.
    let broken = json!({"having": {"states": ["UNHEALTHY", "UNREACHABLE"]}, "notHaving": {"roles": ["boot"]}});
    assert_eq!(serials(&data(&server, REPAIR, broken.clone())), [] as [&str; 0]);
    server.client().put_state("g1", "unreachable", false).expect("unreachable");
    let found = data(&server, REPAIR, broken);
    assert_eq!((serials(&found), &found["searchMachines"][0]["status"]["state"]), (vec!["g1"], &json!("UNREACHABLE")));
}

fn a_controller_finds_and_moves_machines(backend: Backend) {
    let server = started(backend);
    let search =
        "query search($having: MachineParams) { searchMachines(having: $having, notHaving: null) { spec { serial } } }";
    let with_state = |state: &str| data(&server, search, json!({"having": {"states": [state]}}));
    assert_eq!(serials(&with_state("uninitialized")).len(), 4);
    server.clock.advance(SignedDuration::from_secs(60));
    let moved = data(
        &server,
        "mutation { setMachineState(serial: \"w1\", state: HEALTHY) { state timestamp duration } }",
        Value::Null,
    );
    let status = json!({"state": "HEALTHY", "timestamp": "2026-11-15T00:01:00Z", "duration": 0.0});
    assert_eq!(moved, json!({ "setMachineState": status }));
    assert_eq!(serials(&with_state("healthy")), ["w1"]);
    let one = data(&server, "query($s: ID!) { machine(serial: $s) { status { state } } }", json!({"s": "w1"}));
    assert_eq!(one, json!({"machine": {"status": {"state": "HEALTHY"}}}));
    // One condition of each kind, and what nothing meets.
    for (having, expected) in [
        (json!({"racks": 1}), vec!["g1", "w2"]),
        (json!({"racks": ["0"], "roles": "worker"}), vec!["w1"]),
        (json!({"labels": {"name": "foo", "value": "bar"}}), vec!["g1"]),
        (json!({"racks": [7]}), vec![]),
    ] {
        assert_eq!(serials(&data(&server, search, json!({"having": having}))), expected, "{having}");
    }
}

fn every_way_a_request_can_come(backend: Backend) {
    let server = started(backend);
    let send = |method: &str, path: &str, headers: &[(&str, &str)], body: &str| {
        request(&server.url(), method, path, headers, body.as_bytes())
    };
    let body = |query: &str, operation: &str| json!({"query": query, "operationName": operation}).to_string();
    let two = "query A { __typename } query B($x: Boolean = true) { a: __typename machine(serial: 1) @skip(if: $x) { __typename } }";
    let good = &body(two, "B");
    let answer = send("POST", PATH, &[("content-type", "application/json; charset=utf-8")], good);
    assert_eq!((answer.status, answer.body.as_str()), (200, "{\"data\":{\"a\":\"Query\"}}\n"));
    assert!(answer.header("content-length").is_some(), "a short answer has a length");

    let query = "query($s:ID!)%7B__typename+machine(serial:$s)%7Bspec%7Brole%7D%7D%7D";
    let answer = send("GET", &format!("/graphql?query={query}&variables=%7B%22s%22:%22w1%22%7D"), &[], "");
    let expected = json!({"data": {"__typename": "Query", "machine": {"spec": {"role": "worker"}}}});
    assert_eq!((answer.status, answer.json()), (200, expected));

    let only = r#"{"errors":[{"message":"GET requests only allow query operations"}],"data":null}"#;
    let mutation = "/graphql?query=mutation%7BsetMachineState(serial:%22w1%22,state:HEALTHY)%7Bstate%7D%7D";
    let answer = send("GET", mutation, &[], "");
    assert_eq!((answer.status, answer.body.trim()), (406, only));
    assert_eq!(server.client().get_state("w1").expect("a state"), "uninitialized");

    let unsupported = r#"{"errors":[{"message":"transport not supported"}],"data":null}"#;
    for (method, kind) in [
        ("POST", "text/plain"),
        ("POST", "application/graphql"),
        ("POST", "multipart/form-data; boundary=x"),
        ("PUT", "application/json"),
        ("PATCH", "application/json"),
        ("DELETE", "application/json"),
    ] {
        let answer = send(method, PATH, &[("content-type", kind)], good);
        assert_eq!((answer.status, answer.body.trim()), (400, unsupported), "{method} {kind}");
        assert_eq!(answer.header("content-type"), Some("application/json"));
    }
    assert_eq!(send("POST", PATH, &[], good).status, 400);

    let answer = send("OPTIONS", PATH, &[], "");
    assert_eq!((answer.status, answer.header("allow"), answer.body.as_str()), (200, Some("OPTIONS, GET, POST"), ""));
    assert_eq!(send("HEAD", PATH, &[], "").status, 405);

    for body in ["", "{", "[]", r#"{"query": 1}"#, r#"{"query": "{a}", "variables": [1]}"#] {
        let answer = send("POST", PATH, &[JSON], body);
        assert_eq!(answer.status, 400, "{body}: {}", answer.body);
        let message = answer.json()["errors"][0]["message"].as_str().expect("a message").to_owned();
        assert!(message.starts_with("the JSON of the request body could not be decoded"), "{message}");
    }
    let answer = send("POST", PATH, &[JSON], r#"{"Query": "{ __typename }"} {"query": "{"}"#);
    assert_eq!((answer.status, answer.body.as_str()), (200, "{\"data\":{\"__typename\":\"Query\"}}\n"));
    assert_eq!(send("POST", PATH, &[JSON], "null").status, 422, "no operation");
    let answer = send("GET", "/graphql?query=%7B__typename%7D&variables=x", &[], "");
    assert_eq!((answer.status, answer.json()["data"].is_null()), (400, true));

    // The other content type changes the status of what cannot be processed, and the name of every answer.
    let response = ("accept", "application/graphql-response+json, application/json;q=0.5");
    for (query, accept, status) in [
        ("{ __typename }", response, 200),
        ("{", response, 400),
        ("{ nothing }", response, 400),
        ("{", ("accept", "application/json"), 422),
        ("{ nothing }", ("accept", "*/*"), 422),
    ] {
        let answer = post(&server, &[accept], &json!({ "query": query }));
        let kind = if accept == response { "application/graphql-response+json" } else { "application/json" };
        assert_eq!((answer.status, answer.header("content-type")), (status, Some(kind)), "{query} {accept:?}");
    }
}

fn what_is_refused_and_how(backend: Backend) {
    let server = started(backend);
    let check = |body: Value, status: u16, code: &str| {
        let answer = post(&server, &[], &body);
        let shown: String = body.to_string().chars().take(100).collect();
        assert_eq!(answer.status, status, "{shown}: {}", answer.body);
        let answer = answer.json();
        assert_eq!(answer["data"], Value::Null, "{shown}");
        assert_eq!(answer["errors"][0]["extensions"]["code"], code, "{shown}: {answer}");
        assert!(answer.to_string().len() < 8_192, "{shown}: the answer is short, whatever was sent");
        answer["errors"][0].clone()
    };
    let (parse, validation) = ("GRAPHQL_PARSE_FAILED", "GRAPHQL_VALIDATION_FAILED");
    let query = |text: &str| json!({ "query": text });
    check(query("{ searchMachines { spec { serial }"), 422, parse);
    check(query("{ searchMachines { spec { colour } } }"), 422, validation);
    check(query("{ searchMachines }"), 422, validation);
    check(query("{ machine { spec { serial } } }"), 422, validation);
    check(json!({}), 422, validation);
    check(json!({"query": "query A { __typename }", "operationName": "B"}), 422, validation);
    check(query(&format!("{}{}", "{a".repeat(5_000), "}".repeat(5_000))), 422, parse);
    check(query(&"[".repeat(30_000)), 422, parse);
    // What the parser reads as brackets where others see a comment, or a text without an end.
    let brackets = format!("{}1{}", "[".repeat(2_000), "]".repeat(2_000));
    check(query(&format!("{{a(b:\n#\r{brackets}\n)}}")), 422, parse);
    check(query(&format!("{{a(b:[\"\"\"\" {brackets}])}}")), 422, parse);
    let aliases = (0..400).map(|n| format!("a{n}: searchMachines {{ spec {{ serial }} }}")).collect::<Vec<_>>();
    check(query(&format!("{{ {} }}", aliases.join(" "))), 422, validation);
    check(query("{ ...f } fragment f on Query { ...f }"), 422, validation);
    check(json!({"query": "x".repeat(1_000_000)}), 413, "TOO_LARGE");
    check(json!({"query": CKE, "variables": {"having": {"racks": vec![1; 1_000_000]}}}), 413, "TOO_LARGE");
    check(json!({"query": "x".repeat(100_000)}), 422, parse);

    let state = "{ searchMachines(having: {states: [BROKEN]}) { spec { serial } } }";
    let mutation = "mutation { setMachineState(serial: \"w1\", state: DEAD) { state } }";
    let variable = json!({"query": CKE, "variables": {"having": {"states": ["broken"]}}});
    for body in [query(state), query(mutation), variable] {
        assert_eq!(check(body, 422, validation)["extensions"]["type"], "INVALID_STATE_NAME");
    }
    for having in [
        json!({"racks": "one"}),
        json!({"racks": [1.5]}),
        json!({"roles": 7}),
        json!({"labels": [{"name": "a"}]}),
        json!({"serial": "w1"}),
        json!("all"),
    ] {
        let error = check(json!({"query": CKE, "variables": {"having": having}}), 422, validation);
        assert_eq!(error["path"][0], "variable", "{error}");
        assert!(error["extensions"].get("type").is_none(), "{error}");
    }
    // More values than the registry looks for.
    let label = json!({"name": "a", "value": "b"});
    for having in [json!({"racks": vec![1; 10_001]}), json!({"labels": vec![label; 1_001]})] {
        let error = check(json!({"query": CKE, "variables": {"having": having}}), 422, validation);
        assert!(error["message"].as_str().is_some_and(|text| text.contains("are allowed")), "{error}");
    }
    let long = vec!["a=b"; 1_001].join(",");
    let answer = request(&server.url(), "GET", &format!("/api/v1/machines?without-labels={long}"), &[], b"");
    assert_eq!((answer.status, answer.error().contains("at most 1000 are allowed")), (400, true), "{}", answer.body);
}

fn changes_that_are_not_made(backend: Backend) {
    let server = started(backend);
    server.client().put_key("w2", "disk", b"0123456789abcdef").expect("a key");
    server.client().put_state("w2", "retiring", false).expect("retiring");
    let log = server.client().list_logs(None, None).expect("the log").len();
    for (serial, state, message, kind) in [
        ("nobody", "HEALTHY", "not found", "MACHINE_NOT_FOUND"),
        ("a/b", "HEALTHY", "not found", "MACHINE_NOT_FOUND"),
        ("w2", "RETIRED", "encryption key exists", "ENCRYPTION_KEY_EXISTS"),
        (
            "w1",
            "UPDATING",
            "transition from [ uninitialized ] to [ updating ] is forbidden",
            "INVALID_STATE_TRANSITION",
        ),
        ("w1", "RETIRED", "transition from [ uninitialized ] to [ retired ] is forbidden", "INVALID_STATE_TRANSITION"),
    ] {
        let query = format!("mutation {{ go: setMachineState(serial: \"{serial}\", state: {state}) {{ state }} }}");
        let answer = post(&server, &[], &json!({ "query": query }));
        let error = json!({
            "message": message, "path": ["go"], "locations": [{"line": 1, "column": 12}],
            "extensions": {"serial": serial, "type": kind},
        });
        assert_eq!((answer.status, answer.json()), (200, json!({"errors": [error], "data": null})));
    }
    let answer = post(&server, &[], &json!({"query": "{ machine(serial: \"nobody\") { spec { serial } } }"}));
    let error = json!({"message": "not found", "path": ["machine"], "locations": [{"line": 1, "column": 3}]});
    assert_eq!((answer.status, answer.json()), (200, json!({"errors": [error], "data": null})));
    assert_eq!(server.client().list_logs(None, None).expect("the log").len(), log, "nothing was changed");
}

const HEALTHY: &str = "mutation { setMachineState(serial: \"w1\", state: HEALTHY) { state } }";

fn changes_are_for_those_who_may(backend: Backend) {
    let mut server = started(backend);
    let operator = server.client().create_token("robot", "operator").expect("a token");
    let reader = server.client().create_token("eyes", "read").expect("a token");
    server
        .restart_with(|config| config.allow_ips = AllowedNetworks::new(["192.0.2.0/24"]).expect("a network"))
        .expect("started");
    let change = |token: Option<&str>| {
        let bearer = token.map(|token| format!("Bearer {token}"));
        let headers: Vec<_> = bearer.iter().map(|value| ("authorization", value.as_str())).collect();
        post(&server, &headers, &json!({ "query": HEALTHY }))
    };
    for (token, status, code) in [
        (None, 403, "FORBIDDEN"),
        (Some(reader.token.as_str()), 403, "FORBIDDEN"),
        (Some("nonsense"), 401, "UNAUTHORIZED"),
    ] {
        let answer = change(token);
        assert_eq!(
            (answer.status, answer.header("content-type")),
            (status, Some("application/json")),
            "{}",
            answer.body
        );
        let body = answer.json();
        assert_eq!((&body["data"], &body["errors"][0]["extensions"]["code"]), (&Value::Null, &json!(code)));
        assert!(body["errors"][0]["message"].as_str().is_some_and(|text| text.contains("token")), "{body}");
    }
    assert_eq!(server.client().get_state("w1").expect("a state"), "uninitialized");
    assert_eq!(serials(&data(&server, CKE, Value::Null)).len(), 3, "queries are open");
    assert_eq!(change(Some(&operator.token)).status, 200);
    let log = server.client().list_logs(None, None).expect("the log");
    let entry = log.last().expect("an entry");
    let named = (entry.user.as_str(), entry.known.as_str(), entry.ip.as_str(), entry.instance.as_str());
    assert_eq!(named, ("robot", "token", "127.0.0.1", "w1"));
    assert_eq!(entry.detail, "uninitialized -> healthy");
}

fn everybody_may_change_if_the_server_says_so(backend: Backend) {
    let server = TestServer::start_with(backend, |config| config.graphql.open_mutations = true);
    fill(&server);
    let mut server = server;
    server
        .restart_with(|config| config.allow_ips = AllowedNetworks::new(["192.0.2.0/24"]).expect("a network"))
        .expect("started");
    let answer = post(&server, &[("x-sabakan-user", "anybody")], &json!({ "query": HEALTHY }));
    assert_eq!((answer.status, answer.json()), (200, json!({"data": {"setMachineState": {"state": "HEALTHY"}}})));
    let log = server.client().list_logs(None, None).expect("the log");
    let entry = log.last().expect("an entry");
    assert_eq!((entry.user.as_str(), entry.known.as_str(), entry.ip.as_str()), ("anybody", "declared", "127.0.0.1"));
    let rest = request(&server.url(), "PUT", "/api/v1/state/w1", &[], b"unhealthy");
    assert_eq!(rest.status, 403, "only GraphQL is open");
}

fn tokens_are_required_of_readers_too(backend: Backend) {
    let mut server = started(backend);
    server.client().create_token("root", "admin").expect("a token");
    let reader = server.client().create_token("eyes", "read").expect("a token");
    server.restart_with(|config| config.require_token = true).expect("started");
    let ask = |headers: &[(&str, &str)]| post(&server, headers, &json!({"query": CKE}));
    let answer = ask(&[]);
    assert_eq!((answer.status, &answer.json()["errors"][0]["extensions"]["code"]), (403, &json!("FORBIDDEN")));
    let bearer = format!("Bearer {}", reader.token);
    assert_eq!(serials(&ask(&[("authorization", &bearer)]).json()["data"]), ["g1", "w1", "w2"]);
}

fn a_search_sees_what_was_acknowledged(backend: Backend) {
    let server = TestServer::start(backend);
    server.client().put_ipam(&fixtures::wide_ipam()).expect("ipam");
    let other = (backend == Backend::Etcd).then(|| server.start_sibling());
    let readers: Vec<_> = [Some(&server), other.as_ref()].into_iter().flatten().collect();
    let search = "query($h: MachineParams) { searchMachines(having: $h) { spec { serial } status { state } } }";
    for n in 0..40u32 {
        let serial = format!("seen-{n:03}");
        server.client().create_machines(&[machine(serial.clone(), n, "worker")]).expect("registered");
        for reader in &readers {
            assert_eq!(serials(&data(reader, search, json!({"h": {"racks": n}}))), [serial.as_str()]);
        }
        // Each server sees what the other one was told.
        let query = "mutation($s: ID!) { setMachineState(serial: $s, state: HEALTHY) { state } }";
        data(readers.last().expect("a server"), query, json!({"s": serial}));
        for reader in &readers {
            let found = data(reader, search, json!({"h": {"racks": n, "states": "healthy"}}));
            assert_eq!(serials(&found), [serial.as_str()]);
        }
        server.client().put_label(&serial, "n", &n.to_string()).expect("labelled");
        for reader in &readers {
            let found = data(reader, search, json!({"h": {"labels": {"name": "n", "value": n.to_string()}}}));
            assert_eq!(found["searchMachines"][0]["status"]["state"], "HEALTHY");
        }
    }
}

fn days_are_counted_by_the_clock(backend: Backend) {
    let server = started(backend);
    let put = |date: &str| {
        let answer = request(&server.url(), "PUT", "/api/v1/retire-date/w1", &[], date.as_bytes());
        assert_eq!(answer.status, 200, "{}", answer.body);
    };
    let at_least = |days: i64| {
        let search = "query($d: Int) { searchMachines(having: {minDaysBeforeRetire: $d, racks: [0], roles: [\"worker\"]}) { spec { serial } } }";
        !serials(&data(&server, search, json!({"d": days}))).is_empty()
    };
    put("2026-11-25T00:00:00Z");
    assert!(at_least(10) && !at_least(11));
    server.clock.advance(SignedDuration::from_secs(1));
    assert!(at_least(9) && !at_least(10));
    server.clock.advance(SignedDuration::from_hours(24 * 10));
    assert!(at_least(0) && !at_least(1), "the date has passed, less than a day ago");
    server.clock.advance(SignedDuration::from_hours(24 * 5));
    assert!(at_least(-5) && !at_least(-4));
    put("2126-11-15T00:00:00+09:00");
    assert!(at_least(36_000));
}

fn the_playground_is_there_if_asked_for(backend: Backend) {
    let mut server = TestServer::start(backend);
    let get = |server: &TestServer, method: &str| request(&server.url(), method, "/playground", &[], b"");
    assert_eq!(get(&server, "GET").status, 404);
    server.restart_with(|config| config.graphql.playground = true).expect("started");
    let answer = get(&server, "GET");
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("text/html; charset=utf-8")));
    let policy = answer.header("content-security-policy").expect("a policy");
    assert!(policy.starts_with("default-src 'none'; script-src 'nonce-"), "{policy}");
    let nonce = policy.split("'nonce-").nth(1).and_then(|rest| rest.split('\'').next()).expect("a nonce");
    assert_eq!(answer.body.matches(&format!("nonce=\"{nonce}\"")).count(), 2, "the style and the script");
    for foreign in ["http://", "https://", "src=", "href=", "@import", "url(", "{{"] {
        assert!(!answer.body.contains(foreign), "the page needs nothing from elsewhere, but has {foreign}");
    }
    let again = get(&server, "GET");
    assert_ne!(again.header("content-security-policy"), Some(policy), "a word is good for one answer");
    assert_eq!(get(&server, "POST").status, 405);
}

/// The enumeration of the schema is the list of the domain.
#[test]
fn every_state_can_be_asked_for() {
    let server = started(Backend::Embedded);
    for state in HealthState::ALL {
        let name = state.as_str().to_ascii_uppercase();
        let query = format!("{{ searchMachines(having: {{states: [{name}]}}) {{ spec {{ serial }} }} }}");
        let expected = if state == HealthState::Uninitialized { 4 } else { 0 };
        assert_eq!(serials(&data(&server, &query, Value::Null)).len(), expected, "{name}");
    }
}
