//! Variables and values in the query text, row by row, and the tables against the schema.

use async_graphql::parser::parse_query;
use serde_json::{Value as Json, json};

use super::*;

/// Variables of the one operation of a query, coerced; or path and message of the problem.
fn coerced(query: &str, sent: Json) -> Result<Json, (String, String)> {
    let document = parse_query(query).expect(query);
    let (_, operation) = document.operations.iter().next().expect("an operation");
    let variables = coerce_variables(&operation.node, Variables::from_json(sent));
    let variables = variables.map_err(|problem| (path(&problem), problem.message))?;
    Ok(variables.into_value().into_json().expect("JSON"))
}

fn path(problem: &Problem) -> String {
    let segments = problem.path.iter().map(|segment| match segment {
        PathSegment::Field(name) => name.clone(),
        PathSegment::Index(index) => index.to_string(),
    });
    segments.collect::<Vec<_>>().join(".")
}

const SEARCH: &str = "query($having: MachineParams) { searchMachines(having: $having) { spec { serial } } }";

#[test]
fn what_is_sent_leniently_arrives_as_the_schema_says() {
    let check = |having: Json, expected: Json| {
        let sent = json!({ "having": having });
        assert_eq!(coerced(SEARCH, sent), Ok(json!({ "having": expected })), "{having}");
    };
    check(json!({"states": ["HEALTHY"]}), json!({"states": ["HEALTHY"]}));
    check(json!({"states": ["healthy", "ReTired"]}), json!({"states": ["HEALTHY", "RETIRED"]}));
    check(json!({"states": "retired"}), json!({"states": ["RETIRED"]}));
    check(json!({"roles": "boot"}), json!({"roles": ["boot"]}));
    check(json!({"racks": 3}), json!({"racks": [3]}));
    check(json!({"racks": "3"}), json!({"racks": [3]}));
    check(json!({"racks": ["3", 4, "-5"]}), json!({"racks": [3, 4, -5]}));
    check(json!({"minDaysBeforeRetire": "-90"}), json!({"minDaysBeforeRetire": -90}));
    check(json!({"labels": {"name": "a", "value": "1"}}), json!({"labels": [{"name": "a", "value": "1"}]}));
    let nothing = json!({"labels": null, "racks": null, "roles": null, "states": null, "minDaysBeforeRetire": null});
    check(nothing.clone(), nothing);
    check(json!({"racks": []}), json!({"racks": []}));
    check(json!({}), json!({}));
    check(Json::Null, Json::Null);
}

#[test]
fn variables_that_do_not_fit_are_named_with_their_place() {
    let check = |having: Json, path: &str, message: &str| {
        let expected = (format!("variable.having{path}"), message.to_owned());
        assert_eq!(coerced(SEARCH, json!({ "having": having })), Err(expected), "{having}");
    };
    check(json!({"states": ["DEAD"]}), ".states.0", r#""DEAD" is not a valid MachineState"#);
    check(json!({"states": ["HEALTHY", 1]}), ".states.1", "1 is not a valid MachineState");
    check(json!({"states": [null]}), ".states.0", "cannot be null");
    check(json!({"racks": "three"}), ".racks", r#""three" is not a valid Int"#);
    check(json!({"racks": [1.5]}), ".racks.0", "1.5 is not a valid Int");
    check(json!({"racks": [18446744073709551615u64]}), ".racks.0", "18446744073709551615 is not a valid Int");
    check(json!({"racks": {"a": 1}}), ".racks", "{a: 1} is not a valid Int");
    check(json!({"roles": [7]}), ".roles.0", "7 is not a valid String");
    check(json!({"roles": true}), ".roles", "true is not a valid String");
    check(json!({"labels": [{"name": "a"}]}), ".labels.0.value", "must be defined");
    check(json!({"labels": [{"name": "a", "value": null}]}), ".labels.0.value", "cannot be null");
    check(json!({"labels": ["a=1"]}), ".labels.0", r#""a=1" is not a valid LabelInput"#);
    check(json!({"labels": [{"name": "a", "value": "1", "x": 1}]}), ".labels.0.x", "unknown field of LabelInput");
    check(json!({"serials": ["a"]}), ".serials", "unknown field of MachineParams");
    check(json!("all"), "", r#""all" is not a valid MachineParams"#);
    check(json!([]), "", "[] is not a valid MachineParams");
}

#[test]
fn a_long_value_does_not_fill_the_answer() {
    let (_, message) = coerced(SEARCH, json!({"having": {"states": "é".repeat(1000)}})).expect_err("no state");
    assert!(message.len() < 150 && message.contains("…\u{20}is not a valid"), "{message}");
}

#[test]
fn what_is_not_sent_takes_its_default() {
    let check = |declared: &str, sent: Json, expected: Result<Json, (&str, &str)>| {
        let expected = expected.map_err(|(path, message)| (path.to_owned(), message.to_owned()));
        assert_eq!(coerced(&format!("query({declared}) {{ a }}"), sent.clone()), expected, "{declared} {sent}");
    };
    let boot = r#"$v: MachineParams = {roles: ["boot"] states: [RETIRED]}"#;
    check(boot, json!({}), Ok(json!({"v": {"roles": ["boot"], "states": ["RETIRED"]}})));
    check(boot, json!({"v": null}), Ok(json!({"v": null})));
    check(boot, json!({"v": {}}), Ok(json!({"v": {}})));
    check(boot, json!({"other": 1}), Ok(json!({"v": {"roles": ["boot"], "states": ["RETIRED"]}})));
    check("$v: MachineParams = null", json!({}), Ok(json!({"v": null})));
    check("$v: MachineParams", json!({}), Ok(json!({})));
    check("$v: Boolean = true", json!({}), Ok(json!({"v": true})));
    check("$v: ID!", json!({"v": 12}), Ok(json!({"v": "12"})));
    check("$v: ID!", json!({"v": "12"}), Ok(json!({"v": "12"})));
    check("$v: Float", json!({"v": 1.5}), Ok(json!({"v": 1.5})));
    check("$v: [[Int]]", json!({"v": 1}), Ok(json!({"v": [[1]]})));
    check("$v: ID!", json!({}), Err(("variable.v", "must be defined")));
    check("$v: ID!", json!({"v": null}), Err(("variable.v", "cannot be null")));
    check("$v: ID!", json!({"v": 1.5}), Err(("variable.v", "1.5 is not a valid ID")));
    check("$v: Boolean", json!({"v": "true"}), Err(("variable.v", r#""true" is not a valid Boolean"#)));
}

#[test]
fn the_query_text_is_read_strictly() {
    let check = |query: &str, expected: Option<(&str, &str)>| {
        let document = parse_query(query).expect(query);
        let problem = check_literals(&document).err().map(|problem| (path(&problem), problem.message));
        let expected = expected.map(|(path, message)| (path.to_owned(), message.to_owned()));
        assert_eq!(problem, expected, "{query}");
    };
    let search = |having: &str| format!("{{ searchMachines(having: {having}) {{ a }} }}");
    check(&search("{states: [HEALTHY]}"), None);
    check(&search("{states: RETIRED racks: 1 labels: {name: \"a\" value: \"b\"}}"), None);
    check(&search("null"), None);
    check(&search("$x"), None);
    check(&search("{racks: [$x, 1], roles: null}"), None);
    let states = "searchMachines.having.states";
    let healthy = (format!("{states}.0"), "healthy is not a valid MachineState");
    check(&search("{states: [healthy]}"), Some((&healthy.0, healthy.1)));
    check(&search("{states: \"HEALTHY\"}"), Some((states, r#""HEALTHY" is not a valid MachineState"#)));
    check(&search("{racks: \"1\"}"), Some(("searchMachines.having.racks", r#""1" is not a valid Int"#)));
    check(&search("5"), Some(("searchMachines.having", "5 is not a valid MachineParams")));
    check(&search("{x: 1}"), Some(("searchMachines.having.x", "unknown field of MachineParams")));
    check("{ s: searchMachines(notHaving: 1) {a} }", Some(("s.notHaving", "1 is not a valid MachineParams")));
    check("{ machine(serial: null) {a} }", Some(("machine.serial", "cannot be null")));
    check("{ machine(serial: 12) {a} }", None);
    check("{ ...on Query { x { machine(serial: 1.5) {a} } } }", Some(("machine.serial", "1.5 is not a valid ID")));
    check("{ a } fragment f on Query { machine(serial: []) {a} }", Some(("machine.serial", "[] is not a valid ID")));
    check("{ unknown(x: 1) { a } machine(y: 2) { a } }", None);
    let mutation =
        |state: &str| format!("mutation {{ m: setMachineState(serial: \"a\", state: {state}) {{ state }} }}");
    check(&mutation("UPDATING"), None);
    check(&mutation("DEAD"), Some(("m.state", "DEAD is not a valid MachineState")));
    let skip = "__typename @skip(if: ";
    check(&format!("{{ {skip}true) }}"), None);
    check(&format!("{{ {skip}1) }}"), Some(("skip.if", "1 is not a valid Boolean")));
    check("query($a: Nope) { a }", Some(("", "\"Nope\" is no type that a variable can have")));
    check(
        "query A { a } query B($a: [Machine!] = 1) { a }",
        Some(("", "\"Machine\" is no type that a variable can have")),
    );
    check("query($a: MachineState = healthy) { a }", Some(("", "healthy is not a valid MachineState")));
    check("query($a: Int! = null) { a }", Some(("", "cannot be null")));
}

#[test]
fn variables_stand_where_their_type_belongs() {
    let check = |declared: &str, place: &str, allowed: bool| {
        let arguments = match place {
            "serial" => "machine(serial: $v)",
            "having" => "searchMachines(having: $v)",
            "states" => "searchMachines(notHaving: {states: $v})",
            "state" => "searchMachines(notHaving: {states: [$v]})",
            "skip" => "machine(serial: 1) @skip(if: $v)",
            _ => "...f",
        };
        let query = format!(
            "query($v: {declared}) {{ {arguments} {{ __typename }} }} fragment f on Query {{ machine(serial: $v) }}"
        )
        .replace("...f { __typename }", "...f");
        let document = parse_query(&query).expect(&query);
        let problem = check_literals(&document).err().map(|problem| problem.message);
        assert_eq!(problem.is_none(), allowed, "{declared} as {place}: {problem:?}");
        assert!(problem.is_none_or(|text| text.starts_with("variable $v of type ")));
    };
    check("ID!", "serial", true);
    check("ID", "serial", false);
    check("ID = 1", "serial", true);
    check("ID = null", "serial", false);
    check("Int!", "serial", false);
    check("[ID!]!", "serial", false);
    check("MachineParams", "having", true);
    check("MachineParams!", "having", true);
    check("LabelInput", "having", false);
    check("[MachineState!]", "states", true);
    check("[MachineState]", "states", false);
    check("MachineState", "states", false);
    check("MachineState!", "state", true);
    check("MachineState", "state", false);
    check("Boolean!", "skip", true);
    check("Boolean = true", "skip", true);
    check("Boolean", "skip", false);
    check("String!", "skip", false);
    check("ID!", "fragment", true);
    check("Int", "fragment", false);
}

#[test]
fn a_wrong_state_is_told_to_programs() {
    let document = parse_query("mutation { setMachineState(serial: 1 state: BROKEN) { state } }").expect("a query");
    let problem = check_literals(&document).expect_err("no such state");
    assert_eq!(problem.extensions.get("type"), Some(&json!("INVALID_STATE_NAME")));
    assert_eq!((problem.locations[0].line, problem.locations[0].column), (1, 45));
    let sent = Variables::from_json(json!({"having": {"states": ["broken"]}}));
    let document = parse_query(SEARCH).expect("a query");
    let (_, operation) = document.operations.iter().next().expect("an operation");
    let problem = coerce_variables(&operation.node, sent).expect_err("no such state");
    assert_eq!(problem.extensions.get("type"), Some(&json!("INVALID_STATE_NAME")));
}

/// The tables repeat what the schema says; here it is compared.
#[test]
fn the_tables_are_those_of_the_schema() {
    let sdl = crate::sdl();
    let block = |name: &str| {
        let from = sdl.find(&format!("input {name} {{")).unwrap_or_else(|| panic!("no {name} in {sdl}"));
        sdl[from..].split("\n}").next().expect("a block").to_owned()
    };
    let fields = |text: &str| {
        let lines = text.lines().skip(1).map(str::trim).filter(|line| !line.starts_with('"'));
        let lines = lines
            .filter_map(|line| line.split_once(": "))
            .map(|(name, rest)| (name.to_owned(), rest.trim_end_matches(" = null").to_owned()));
        lines.collect::<Vec<_>>()
    };
    for (name, expected) in OBJECTS {
        let expected: Vec<_> = expected.iter().map(|(n, t)| ((*n).to_owned(), (*t).to_owned())).collect();
        assert_eq!(fields(&block(name)), expected, "{name}");
    }
    assert_eq!(sdl.matches("\ninput ").count(), OBJECTS.len(), "every input object is in the table");
    for (field, argument, ty) in ARGUMENTS {
        let from = sdl
            .find(&format!("{field}("))
            .or_else(|| sdl.find(&format!("@{field}(")))
            .unwrap_or_else(|| panic!("no {field} in {sdl}"));
        let arguments = sdl[from..].split("): ").next().expect("arguments");
        assert!(arguments.contains(&format!("{argument}: {ty}")), "{field} {argument} in {arguments}");
    }
}
