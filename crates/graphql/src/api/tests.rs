//! Requests without sockets: from the text to the answer, on a registry of a few machines.

use std::time::Duration;

use jiff::SignedDuration;
use sabakan_domain::{
    audit::Known,
    ipam::{IpamConfig, IpamInput, OutsidePool, PoolInput},
    machine::{NewMachine, NewMachineInput},
};
use sabakan_service::{Config, FakeClock, Foundation, error_chain};
use sabakan_store::{embedded::EmbeddedStore, keys::Keys};
use serde_json::{Value, json};

use super::*;
use crate::limits;

/// A registry in a directory of its own.
struct Case {
    api: Api,
    machines: Arc<Machines>,
    clock: Arc<FakeClock>,
    store: Arc<EmbeddedStore>,
    _dir: tempfile::TempDir,
}

fn actor() -> Actor {
    Actor { name: "alice".into(), known: Known::Declared, ip: None }
}

type Labels = &'static [(&'static str, &'static str)];

/// Serial, rack, role, labels, days until it should go.
const FLEET: &[(&str, u32, &str, Labels, i64)] = &[
    ("a1", 0, "boot", &[], 100),
    ("b2", 0, "worker", &[("product", "R630"), ("datacenter", "ty3")], 100),
    ("c3", 1, "worker", &[("product", "R640"), ("datacenter", "ty3")], 0),
    ("d4", 1, "storage", &[("product", "R630")], -30),
];

impl Case {
    async fn new() -> Case {
        let dir = tempfile::tempdir().expect("a directory");
        let store = Arc::new(EmbeddedStore::open(&dir.path().join("sabakan.db")).expect("a store"));
        let start = "2026-11-15T00:00:00Z".parse().expect("a time");
        let clock = Arc::new(FakeClock::new(start));
        let keys = Keys::new("/sabakan/", "/states/");
        let on = Foundation::open(store.clone(), keys, clock.clone(), OutsidePool::Refuse, "here".into()).await;
        let on = Arc::new(on.expect("a foundation"));
        Config::new(Arc::clone(&on)).put_ipam(&actor(), &ipam()).await.expect("ipam");
        let machines = Arc::new(Machines::new(on));
        let new = FLEET.iter().map(|(serial, rack, role, labels, days)| {
            let retire = start.saturating_add(SignedDuration::from_hours(days * 24)).expect("a time");
            let labels = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            let input = NewMachineInput {
                serial: (*serial).into(),
                labels,
                rack: *rack,
                role: (*role).into(),
                bmc_type: "IPMI-2.0".into(),
                retire_date: Some(retire.into()),
            };
            NewMachine::new(input).expect("a machine")
        });
        machines.register(&actor(), &new.collect::<Vec<_>>()).await.expect("registered");
        Case { api: Api::new(Arc::clone(&machines)), machines, clock, store, _dir: dir }
    }

    /// Body of the answer, or phase and first message.
    async fn ask(&self, query: &str, variables: Value) -> Result<Value, (Phase, Problem)> {
        let Value::Object(variables) = variables else { panic!("{variables} is no object") };
        let request = Request { query: query.to_owned(), operation_name: None, variables };
        let first = |mut refusal: Refusal| (refusal.phase, refusal.problems.remove(0));
        let prepared = self.api.prepare(request).map_err(first)?;
        let answer = self.api.run(prepared, Some(Arc::new(actor()))).await.map_err(first)?;
        Ok(serde_json::from_slice(&answer.into_bytes()).expect("JSON"))
    }

    /// Serials a search finds.
    async fn search(&self, arguments: &str, variables: Value) -> String {
        let declared = if variables.get("h").is_some() { "query($h: MachineParams)" } else { "query" };
        let query = format!("{declared} {{ searchMachines{arguments} {{ spec {{ serial }} }} }}");
        let body = self.ask(&query, variables).await.unwrap_or_else(|(_, problem)| panic!("{query}: {problem:?}"));
        let list = body["data"]["searchMachines"].as_array().unwrap_or_else(|| panic!("no list in {body}"));
        let serials = list.iter().map(|machine| machine["spec"]["serial"].as_str().expect("a serial"));
        serials.collect::<Vec<_>>().join(" ")
    }

    /// The first error of a request that was run.
    async fn error(&self, query: &str) -> Value {
        let body = self.ask(query, json!({})).await.unwrap_or_else(|(_, problem)| panic!("{query}: {problem:?}"));
        assert_eq!(body["data"], Value::Null, "{body}");
        body["errors"][0].clone()
    }
}

fn ipam() -> IpamConfig {
    let pool = |pool: &str, range_size, range_mask| PoolInput {
        pool: pool.into(),
        offset: None,
        range_size,
        range_mask,
        gateway_offset: Some(1),
    };
    let input = IpamInput {
        max_nodes_in_rack: 28,
        node: pool("10.69.0.0/16", 6, 26),
        node_ip_per_node: 3,
        node_index_offset: 3,
        bmc: pool("10.72.16.0/20", 5, 20),
    };
    IpamConfig::new(&input).expect("a configuration")
}

#[tokio::test]
async fn matching_row_by_row() {
    let case = Case::new().await;
    for (arguments, expected) in [
        ("", "a1 b2 c3 d4"),
        ("(having: null, notHaving: null)", "a1 b2 c3 d4"),
        ("(having: {})", "a1 b2 c3 d4"),
        ("(having: {labels: [] racks: [] roles: null states: []} notHaving: {labels: [] racks: []})", "a1 b2 c3 d4"),
        // Of having, every condition must hold; of one list, one value, but all labels.
        ("(having: {racks: [0]})", "a1 b2"),
        ("(having: {racks: [0, 1, 7]})", "a1 b2 c3 d4"),
        ("(having: {racks: [7]})", ""),
        ("(having: {racks: [-1]})", ""),
        ("(having: {roles: [\"boot\", \"storage\"]})", "a1 d4"),
        ("(having: {states: [UNINITIALIZED]})", "a1 b2 c3 d4"),
        ("(having: {states: [HEALTHY, RETIRED]})", ""),
        ("(having: {labels: [{name: \"product\" value: \"R630\"}]})", "b2 d4"),
        ("(having: {labels: [{name: \"product\" value: \"R630\"} {name: \"datacenter\" value: \"ty3\"}]})", "b2"),
        ("(having: {racks: [1] roles: [\"worker\"]})", "c3"),
        ("(having: {racks: [1] roles: [\"boot\"]})", ""),
        ("(having: {minDaysBeforeRetire: 100})", "a1 b2"),
        ("(having: {minDaysBeforeRetire: 101})", ""),
        ("(having: {minDaysBeforeRetire: 0})", "a1 b2 c3"),
        ("(having: {minDaysBeforeRetire: -30})", "a1 b2 c3 d4"),
        ("(having: {minDaysBeforeRetire: -29})", "a1 b2 c3"),
        // Of notHaving, any condition excludes, and any label.
        ("(notHaving: {racks: [0]})", "c3 d4"),
        ("(notHaving: {roles: [\"boot\"] states: [RETIRED]})", "b2 c3 d4"),
        (
            "(notHaving: {labels: [{name: \"product\" value: \"R640\"} {name: \"datacenter\" value: \"us\"}]})",
            "a1 b2 d4",
        ),
        ("(notHaving: {labels: [{name: \"product\" value: \"R630\"} {name: \"datacenter\" value: \"ty3\"}]})", "a1"),
        ("(notHaving: {minDaysBeforeRetire: 1})", "c3 d4"),
        ("(notHaving: {racks: [1] minDaysBeforeRetire: 100})", ""),
        ("(having: {racks: [0]} notHaving: {roles: [\"boot\"]})", "b2"),
    ] {
        assert_eq!(case.search(arguments, json!({})).await, expected, "{arguments}");
    }
}

#[tokio::test]
async fn days_count_from_now() {
    let case = Case::new().await;
    let within = "(having: {minDaysBeforeRetire: 99})";
    assert_eq!(case.search(within, json!({})).await, "a1 b2");
    case.clock.advance(SignedDuration::from_hours(24));
    assert_eq!(case.search(within, json!({})).await, "a1 b2");
    case.clock.advance(SignedDuration::from_secs(1));
    assert_eq!(case.search(within, json!({})).await, "");
}

#[tokio::test]
async fn variables_as_clients_send_them() {
    let case = Case::new().await;
    let h = "(having: $h)";
    assert_eq!(case.search(h, json!({"h": {"racks": "1", "roles": "worker"}})).await, "c3");
    assert_eq!(case.search(h, json!({"h": {"states": ["uninitialized"]}})).await, "a1 b2 c3 d4");
    assert_eq!(case.search(h, json!({"h": {"states": "retired"}})).await, "");
    let nulls = json!({"labels": null, "racks": null, "roles": null, "states": null, "minDaysBeforeRetire": null});
    assert_eq!(case.search(h, json!({ "h": nulls })).await, "a1 b2 c3 d4");
    assert_eq!(case.search(h, json!({ "h": null })).await, "a1 b2 c3 d4");
    assert_eq!(case.search(h, json!({ "h": null, "unused": 1 })).await, "a1 b2 c3 d4");
    // A name that is none in GraphQL does not take the others away.
    assert_eq!(case.search(h, json!({ "h": {"racks": 1}, "a b": 1, "": null })).await, "c3 d4");
    assert_eq!(case.search("(having: $h, notHaving: $h)", json!({ "h": null })).await, "a1 b2 c3 d4");
}

const CKE: &str = r#"query ckeSearch($having: MachineParams = null,
                $notHaving: MachineParams = {
                  roles: ["boot"]
                  states: [RETIRED]
                }) {
  searchMachines(having: $having, notHaving: $notHaving) {
    # snip
    spec { serial }
  }
}"#;

#[tokio::test]
async fn defaults_of_the_query_hold_until_something_is_sent() {
    let case = Case::new().await;
    let check = async |variables: Value, expected: Value| {
        let body = case.ask(CKE, variables.clone()).await.expect("an answer");
        let serials: Vec<_> = body["data"]["searchMachines"].as_array().expect("a list").iter().collect();
        let serials: Vec<_> = serials.into_iter().map(|machine| &machine["spec"]["serial"]).collect();
        assert_eq!(json!(serials), expected, "{variables}");
    };
    check(json!({}), json!(["b2", "c3", "d4"])).await;
    check(json!({"notHaving": null}), json!(["a1", "b2", "c3", "d4"])).await;
    check(json!({"having": {"racks": [0]}}), json!(["b2"])).await;
    let nothing = json!({"labels": null, "racks": null, "roles": null, "states": null, "minDaysBeforeRetire": null});
    check(json!({"having": nothing, "notHaving": nothing}), json!(["a1", "b2", "c3", "d4"])).await;
}

#[tokio::test]
async fn every_field_of_a_machine() {
    let case = Case::new().await;
    case.clock.advance(SignedDuration::from_millis(1_500));
    let query = r#"{ machine(serial: "b2") {
        __typename
        spec { serial labels { name value } rack indexInRack role ipv4 registerDate retireDate bmc { bmcType ipv4 } }
        status { state timestamp duration }
        info { network { ipv4 { address netmask maskbits gateway } } bmc { ipv4 { address maskbits } } }
    } }"#;
    let nic = |address: &str, gateway: &str| json!({"address": address, "netmask": "255.255.255.192", "maskbits": 26, "gateway": gateway});
    let expected = json!({"data": {"machine": {
        "__typename": "Machine",
        "spec": {
            "serial": "b2",
            "labels": [{"name": "datacenter", "value": "ty3"}, {"name": "product", "value": "R630"}],
            "rack": 0, "indexInRack": 4, "role": "worker",
            "ipv4": ["10.69.0.4", "10.69.0.68", "10.69.0.132"],
            "registerDate": "2026-11-15T00:00:00Z", "retireDate": "2027-02-23T00:00:00Z",
            "bmc": {"bmcType": "IPMI-2.0", "ipv4": "10.72.16.4"},
        },
        "status": {"state": "UNINITIALIZED", "timestamp": "2026-11-15T00:00:00Z", "duration": 1.5},
        "info": {
            "network": {"ipv4": [
                nic("10.69.0.4", "10.69.0.1"), nic("10.69.0.68", "10.69.0.65"), nic("10.69.0.132", "10.69.0.129"),
            ]},
            "bmc": {"ipv4": {"address": "10.72.16.4", "maskbits": 20}},
        },
    }}});
    assert_eq!(case.ask(query, json!({})).await, Ok(expected));
    let bare = case.ask("{ machine(serial: \"a1\") { spec { labels { name } } } }", json!({})).await;
    assert_eq!(bare, Ok(json!({"data": {"machine": {"spec": {"labels": null}}}})));
}

#[tokio::test]
async fn selections_are_merged_renamed_and_skipped() {
    let case = Case::new().await;
    let query = r#"query($yes: Boolean = true, $no: Boolean!) {
        machine(serial: "b2") { spec { serial } ...more ... on Machine { spec { rack } } }
        machine(serial: "b2") { id: spec { serial } ... @skip(if: $yes) { status { state } } }
        other: machine(serial: "a1") { spec { role @include(if: $no) serial @skip(if: true) } }
        none: searchMachines(having: {racks: [9]}) { spec { serial } }
        __typename
    }
    fragment more on Machine { spec { role ...place } }
    fragment place on MachineSpec { indexInRack }"#;
    let body = case.ask(query, json!({"no": false})).await.expect("an answer");
    let expected = json!({
        "machine": {"spec": {"serial": "b2", "role": "worker", "indexInRack": 4, "rack": 0}, "id": {"serial": "b2"}},
        "other": {"spec": {}},
        "none": [],
        "__typename": "Query",
    });
    assert_eq!(body, json!({ "data": expected }));
}

#[tokio::test]
async fn errors_of_fields() {
    let case = Case::new().await;
    let not_found = case.error("{\n  m: machine(serial: \"nobody\") { spec { serial } }\n}").await;
    assert_eq!(not_found, json!({"message": "not found", "path": ["m"], "locations": [{"line": 2, "column": 3}]}));
    assert_eq!(case.error("{ machine(serial: \"a/b\") { spec { serial } } }").await["message"], "not found");
    // One failure takes everything away, because no root field can be null.
    let both = "{ a: machine(serial: \"a1\") { spec { serial } } b: machine(serial: \"x\") { spec { serial } } }";
    assert_eq!(case.error(both).await["path"], json!(["b"]));

    let set = |serial: &str, state: &str| {
        format!("mutation {{ setMachineState(serial: \"{serial}\", state: {state}) {{ state timestamp duration }} }}")
    };
    let error = |message: &str, serial: &str, kind: &str| {
        json!({
            "message": message, "path": ["setMachineState"], "locations": [{"line": 1, "column": 12}],
            "extensions": {"serial": serial, "type": kind},
        })
    };
    let unknown = error("not found", "nobody", "MACHINE_NOT_FOUND");
    assert_eq!(case.error(&set("nobody", "HEALTHY")).await, unknown);
    assert_eq!(case.error(&set("", "HEALTHY")).await, error("not found", "", "MACHINE_NOT_FOUND"));
    let text = "transition from [ uninitialized ] to [ updating ] is forbidden";
    assert_eq!(case.error(&set("b2", "UPDATING")).await, error(text, "b2", "INVALID_STATE_TRANSITION"));

    case.clock.advance(SignedDuration::from_secs(60));
    let body = case.ask(&set("b2", "HEALTHY"), json!({})).await.expect("an answer");
    let status = json!({"state": "HEALTHY", "timestamp": "2026-11-15T00:01:00Z", "duration": 0.0});
    assert_eq!(body, json!({"data": {"setMachineState": status}}));
    assert_eq!(case.search("(having: {states: [HEALTHY]})", json!({})).await, "b2");
}

#[tokio::test]
async fn nothing_is_changed_without_an_actor() {
    let case = Case::new().await;
    let query = "mutation { setMachineState(serial: \"b2\", state: HEALTHY) { state } }";
    let request = Request { query: query.into(), ..Request::default() };
    let prepared = case.api.prepare(request).expect("a request");
    assert_eq!(prepared.operation(), Operation::Mutation);
    let answer = case.api.run(prepared, None).await.expect("an answer");
    assert_eq!(answer.problems[0].message, "this request may not change anything");
    assert_eq!(case.search("(having: {states: [HEALTHY]})", json!({})).await, "");
}

#[tokio::test]
async fn a_store_that_is_gone_is_told_without_its_insides() {
    let case = Case::new().await;
    case.store.shutdown().await;
    let query = "{ searchMachines { spec { serial } } }";
    let prepared = case.api.prepare(Request { query: query.into(), ..Request::default() }).expect("a request");
    let answer = tokio::time::timeout(Duration::from_secs(60), case.api.run(prepared, None)).await.expect("in time");
    let answer = answer.expect("an answer");
    assert_eq!(answer.problems[0].message, "the store is not available; nothing was changed, try again");
    let cause = error_chain(&answer.failures[0]);
    assert!(cause.contains("the store is not available"), "{cause}");
    let set = "mutation { setMachineState(serial: \"b2\", state: HEALTHY) { state } }";
    assert_eq!(case.error(set).await["extensions"], json!({"serial": "b2", "type": "INTERNAL_SERVER_ERROR"}));
}

#[tokio::test]
async fn what_is_refused_before_it_runs() {
    let case = Case::new().await;
    let check = async |query: &str, phase: Phase, part: &str| {
        let (refused, problem) = case.ask(query, json!({})).await.expect_err(query);
        let shown: String = query.chars().take(80).collect();
        assert_eq!((refused, &problem.extensions["code"]), (phase, &json!(phase.code())), "{shown}: {problem:?}");
        assert!(problem.message.contains(part), "{shown}: {problem:?}");
    };
    use Phase::{Parsing, Validation};
    check("", Validation, "no operation provided").await;
    check("{", Parsing, "expected").await;
    check("nonsense", Parsing, "expected").await;
    check("{a} {b}", Parsing, "").await;
    check("{ nothing }", Validation, "Unknown field \"nothing\"").await;
    check("{ machine { spec { serial } } }", Validation, "serial").await;
    check("{ machine(serial: 1) }", Validation, "must have a selection").await;
    check("{ machine(serial: 1) { spec { serial { x } } } }", Validation, "must not have a selection").await;
    check("{ machine(serial: 1, x: 2) { spec { serial } } }", Validation, "x").await;
    check("{ machine(serial: $s) { spec { serial } } }", Validation, "s").await;
    check("query($s: Int) { machine(serial: $s) { spec { serial } } }", Validation, "s").await;
    check("query A { a } query B { b }", Validation, "operationName").await;
    let brackets = format!("{}1{}", "[".repeat(2_000), "]".repeat(2_000));
    check(&format!("{{a(b:\n#\r{brackets}\n)}}"), Parsing, "brackets").await;
    check(&format!("{{a(b:[\"\"\"\" {brackets}])}}"), Parsing, "brackets").await;
    check("{a(b:[\"\"\"\" [[1]]])}", Parsing, "not closed").await;
    check("query A($x: Nope = 3) { __typename }", Validation, "Nope").await;
    check("subscription { machine }", Validation, "").await;
    check("{ searchMachines(having: {states: [BROKEN]}) { spec { serial } } }", Validation, "BROKEN").await;
    check("{ ...f } fragment f on Query { ...f }", Validation, "uses itself").await;
    check(&format!("{}a{}", "{a".repeat(40), "}".repeat(40)), Parsing, "nested deeper").await;
    check(&format!("{{ {} }}", "machine ".repeat(5_000)), Parsing, "longer than").await;
    check(&format!("{{ {} }}", "a ".repeat(4_500)), Parsing, "words and signs").await;
    let many = |count: usize, field: &str| {
        let fields = (0..count).map(|n| format!("a{n}: {field}")).collect::<Vec<_>>().join(" ");
        format!("{{ {fields} }}")
    };
    check(&many(10, "searchMachines { spec { serial } }"), Validation, "too complex").await;
    check(&many(1_100, "__typename"), Validation, "more than 1000 fields").await;
    let spec = many(300, "serial");
    check(&format!("{{ searchMachines {{ spec {spec} }} }}"), Validation, "too complex").await;
    let deep = format!("{{ __schema {{ types {}name{} }} }}", "{ ofType ".repeat(20), " }".repeat(20));
    check(&deep, Validation, "too deep").await;
    let directives = "@skip(if: false) ".repeat(limits::DIRECTIVES_MAX + 1);
    check(&format!("{{ __typename {directives} }}"), Validation, "directives").await;
}

#[tokio::test]
async fn operations_are_chosen_by_name() {
    let case = Case::new().await;
    let query = "query A { __typename } mutation B { __typename }";
    let operation = |name: Option<&str>| {
        let request = Request { query: query.into(), operation_name: name.map(str::to_owned), ..Request::default() };
        case.api.prepare(request).map(|prepared| prepared.operation()).map_err(|refusal| refusal.phase)
    };
    assert_eq!(operation(Some("A")), Ok(Operation::Query));
    assert_eq!(operation(Some("B")), Ok(Operation::Mutation));
    for unclear in [None, Some(""), Some("C")] {
        assert_eq!(operation(unclear), Err(Phase::Validation), "{unclear:?}");
    }
}

#[tokio::test]
async fn introspection_tells_the_schema() {
    let case = Case::new().await;
    let query = r#"{ __schema { queryType { name } mutationType { name } subscriptionType { name }
        types { name kind fields(includeDeprecated: true) { name args { name type { ...T } } type { ...T } }
          inputFields { name type { ...T } defaultValue } enumValues { name } } } }
      fragment T on __Type { kind name ofType { kind name ofType { kind name ofType { kind name ofType { kind name
        ofType { kind name ofType { kind name ofType { kind name } } } } } } } }"#;
    let body = case.ask(query, json!({})).await.expect("an answer");
    let schema = &body["data"]["__schema"];
    assert_eq!((&schema["queryType"]["name"], &schema["subscriptionType"]), (&json!("Query"), &Value::Null));
    let types = schema["types"].as_array().expect("types");
    let find = |name: &str| types.iter().find(|ty| ty["name"] == name).unwrap_or_else(|| panic!("no {name}"));
    let names = |list: &Value| {
        let names = list.as_array().expect("a list").iter().map(|item| item["name"].as_str().expect("a name"));
        names.collect::<Vec<_>>().join(" ")
    };
    let states = "UNINITIALIZED HEALTHY UNHEALTHY UNREACHABLE UPDATING RETIRING RETIRED";
    assert_eq!(names(&find("MachineState")["enumValues"]), states);
    let spec = "serial labels rack indexInRack role ipv4 registerDate retireDate bmc";
    assert_eq!(names(&find("MachineSpec")["fields"]), spec);
    assert_eq!(find("MachineSpec")["fields"][1]["type"]["kind"], "LIST", "labels can be null");
    assert_eq!(find("MachineParams")["inputFields"][0]["defaultValue"], "null");
}

/// A list that is longer than one chunk is whole.
#[tokio::test]
async fn long_lists_come_in_chunks() {
    let case = Case::new().await;
    let new: Vec<_> = (0..200)
        .map(|n| {
            let input = NewMachineInput {
                serial: format!("w{n:03}"),
                rack: 10 + n / 20,
                role: "worker".into(),
                bmc_type: "IPMI-2.0".into(),
                ..NewMachineInput::default()
            };
            NewMachine::new(input).expect("a machine")
        })
        .collect();
    case.machines.register(&actor(), &new).await.expect("registered");
    let query = "{ a: searchMachines { spec { serial } } b: searchMachines { status { state } } }";
    let prepared = case.api.prepare(Request { query: query.into(), ..Request::default() }).expect("a request");
    let chunks: Vec<_> = case.api.run(prepared, None).await.expect("an answer").into_chunks().collect();
    assert_eq!(chunks.len(), 3 + 2 * 204_usize.div_ceil(limits::MACHINES_PER_CHUNK));
    let body: Value = serde_json::from_slice(&chunks.concat()).expect("JSON");
    let lengths = ["a", "b"].map(|name| body["data"][name].as_array().expect("a list").len());
    assert_eq!(lengths, [204, 204]);
    assert_eq!(body["data"]["a"][203]["spec"]["serial"], "w199");
}

#[tokio::test]
async fn more_values_than_anybody_looks_for() {
    let case = Case::new().await;
    let h = "query($h: MachineParams) { searchMachines(notHaving: $h) { spec { serial } } }";
    let label = json!({"name": "a", "value": "b"});
    for (list, most, value) in [("labels", 1_000, label), ("racks", 10_000, json!(1)), ("roles", 10_000, json!("x"))] {
        case.ask(h, json!({"h": { list: vec![value.clone(); most] }})).await.expect("as many as allowed");
        let (phase, problem) = case.ask(h, json!({"h": { list: vec![value; most + 1] }})).await.expect_err(list);
        assert_eq!(phase, Phase::Validation);
        assert_eq!(problem.message, format!("has {} values, at most {most} are allowed", most + 1));
    }
    // Ten thousand values cost as much as a search, and a request has only so much.
    let several = (0..6).map(|n| format!("a{n}: searchMachines(having: $h) {{ __typename }} ")).collect::<String>();
    let several = format!("query($h: MachineParams) {{ {several} }}");
    case.ask(&several, json!({"h": {"racks": [0]}})).await.expect("six searches");
    let (phase, problem) = case.ask(&several, json!({"h": {"racks": vec![0; 10_000]}})).await.expect_err("too much");
    assert_eq!((phase, problem.message.contains("too complex")), (Phase::Validation, true), "{problem:?}");
}

#[tokio::test]
async fn searches_that_are_the_same_share_their_list() {
    let case = Case::new().await;
    let query = "{ a: searchMachines { spec { serial } } b: searchMachines { spec { rack } } \
                 c: searchMachines(having: {racks: [0]}) { spec { serial } } }";
    let prepared = case.api.prepare(Request { query: query.into(), ..Request::default() }).expect("a request");
    let answer = case.api.run(prepared, None).await.expect("an answer");
    let lists = answer.lists();
    assert_eq!(lists.len(), 3);
    assert!(Arc::ptr_eq(lists[0], lists[1]) && !Arc::ptr_eq(lists[0], lists[2]));
    let body: Value = serde_json::from_slice(&answer.into_bytes()).expect("JSON");
    assert_eq!(body["data"]["a"][3], json!({"spec": {"serial": "d4"}}));
    assert_eq!((&body["data"]["b"][3], &body["data"]["c"][2]), (&json!({"spec": {"rack": 1}}), &Value::Null));
}

#[tokio::test]
async fn a_query_that_skips_everything_has_data() {
    let case = Case::new().await;
    for query in ["{ __typename @skip(if: true) }", "{ machine(serial: 1) @include(if: false) { spec { serial } } }"] {
        assert_eq!(case.ask(query, json!({})).await.expect(query), json!({"data": {}}), "{query}");
    }
}

#[tokio::test]
async fn after_a_change_that_failed_no_other_is_made() {
    let case = Case::new().await;
    let query = "mutation { a: setMachineState(serial: \"a1\", state: HEALTHY) { state } \
                 b: setMachineState(serial: \"nobody\", state: HEALTHY) { state } \
                 c: setMachineState(serial: \"c3\", state: HEALTHY) { state } }";
    let body = case.ask(query, json!({})).await.expect("run");
    let errors = body["errors"].as_array().expect("errors").iter();
    let errors: Vec<_> = errors.map(|error| (&error["path"][0], &error["extensions"]["type"])).collect();
    let expected = [(&json!("b"), &json!("MACHINE_NOT_FOUND")), (&json!("c"), &json!("NOT_TRIED"))];
    assert_eq!((&body["data"], errors), (&Value::Null, expected.to_vec()), "{body}");
    assert_eq!(case.search("(having: {states: [HEALTHY]})", json!({})).await, "a1");
}
