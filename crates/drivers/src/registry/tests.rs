//! Answers of a registry: what is taken for a list, and what is not.

use serde_json::{Value, json};

use super::*;

fn machine(serial: &str) -> Value {
    json!({
        "spec": {
            "serial": serial, "labels": [{ "name": "product", "value": "R630" }], "rack": 3, "indexInRack": 4, "role": "cs",
            "ipv4": ["10.0.0.1", "10.0.0.2"], "registerDate": "2018-12-02T00:00:00Z",
            "retireDate": "2023-12-02T09:00:00+09:00", "bmc": { "bmcType": "iDRAC-9" },
        },
        "status": { "state": "UNREACHABLE", "duration": 600.5 },
    })
}

fn listed(list: &Value) -> Result<Vec<ListedMachine>, String> {
    answer::machines(json!({ "data": { "searchMachines": list } }).to_string().as_bytes())
}

#[test]
fn a_machine_is_taken_as_it_was_sent() {
    let machines = listed(&json!([machine("a"), machine("b")])).expect("a list");
    assert_eq!(machines.iter().map(|machine| machine.serial.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    let first = &machines[0];
    assert_eq!((first.rack.0, first.index_in_rack, first.role.as_str()), (3, 4, "cs"));
    assert_eq!(first.address.map(|address| address.to_string()).as_deref(), Some("10.0.0.1"));
    assert_eq!((first.state.as_str(), first.seconds_in_state), ("unreachable", 600.5));
    assert_eq!(first.retire_date.to_string(), "2023-12-02T09:00:00+09:00");
    assert_eq!(listed(&json!([])), Ok(Vec::new()));
    let mut bare = machine("c");
    bare["spec"]["labels"] = Value::Null;
    bare["spec"]["ipv4"] = json!([]);
    let bare = listed(&json!([bare])).expect("a list");
    assert!(bare[0].address.is_none());
}

#[test]
fn no_answer_is_taken_for_an_empty_list() {
    let check = |body: &str, reason: &str| {
        let error = answer::machines(body.as_bytes()).expect_err(body);
        assert!(error.contains(reason), "{body}: {error}");
    };
    check("", "not JSON");
    check("<html>", "not JSON");
    check("{}", "no data.searchMachines");
    check(r#"{"data": null}"#, "no data.searchMachines");
    check(r#"{"data": {"searchMachines": null}}"#, "no data.searchMachines");
    check(r#"{"data": {"searchMachines": []}, "errors": [{"message": "too much"}]}"#, "too much");
    check(r#"{"data": {"searchMachines": [{}]}}"#, "machine 0 of its answer: spec.serial is not a text");
    for (path, value, reason) in [
        ("/spec/rack", json!(-1), "a: spec.rack is not a number"),
        ("/spec/role", json!(7), "a: spec.role is not a text"),
        ("/spec/ipv4", json!(["::1"]), "a: \"::1\" in spec.ipv4 is not an IPv4 address"),
        ("/spec/retireDate", json!("soon"), "a: spec.retireDate is not a time"),
        ("/spec/labels", json!([{ "name": "x" }]), "a: value is not a text"),
        ("/status/state", json!("healthy"), "a: there is no state \"healthy\""),
        ("/status/duration", Value::Null, "a: status.duration is not a number"),
    ] {
        let mut wrong = machine("a");
        *wrong.pointer_mut(path).expect("a field") = value;
        let error = listed(&json!([machine("b"), wrong])).expect_err(path);
        assert!(error.contains(reason), "{path}: {error}");
    }
    // An empty list of errors is none.
    assert_eq!(answer::machines(br#"{"data": {"searchMachines": []}, "errors": []}"#), Ok(Vec::new()));
}

#[test]
fn where_graphql_is() {
    for (given, expected) in [
        ("http://a:1", "http://a:1/graphql"),
        ("http://a:1/", "http://a:1/graphql"),
        ("https://a/sabakan", "https://a/sabakan/graphql"),
        ("https://a/sabakan/graphql", "https://a/sabakan/graphql"),
        ("http://a/graphql/", "http://a/graphql"),
    ] {
        assert_eq!(endpoint(given).map(String::from).as_deref(), Ok(expected));
    }
    for wrong in ["", "a:1", "ftp://a/", "/graphql", "http://"] {
        assert!(endpoint(wrong).is_err(), "{wrong}");
    }
}

/// What a registry says goes to logs and to callers.
#[test]
fn its_words_are_short_and_in_one_line() {
    assert_eq!(quoted(b"a\nb\x1b[31m"), "a b [31m");
    assert_eq!(quoted(&vec![b'x'; 10 * QUOTED_MAX]).chars().count(), QUOTED_MAX);
    assert_eq!(quoted(b" \n"), "nothing");
}
