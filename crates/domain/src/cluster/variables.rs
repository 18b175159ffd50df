//! Which machines the planner and repair ask the registry for.
//!
//! What the user gives replaces the defaults as a whole, never member by member: with only `having` given, the default `notHaving`
//! is lost. [`Variables::warnings`] says so when it lets boot servers in.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::shape::{self, Field, Object, Problem, Shape, items, rules::*};
use crate::{
    lifecycle::HealthState,
    limits::{QUERY_LABELS_MAX, QUERY_VALUES_MAX},
    machine::Rack,
    query::{Criteria, DaysLeft, LabelCondition, Query},
};

/// The role of boot servers, which must not become nodes or be repaired by themselves.
const BOOT: &str = "boot";

/// Conditions on machines. An empty list is no condition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Params {
    /// Labels, names and values.
    pub labels: Vec<(String, String)>,
    /// Racks.
    pub racks: Vec<Rack>,
    /// Roles.
    pub roles: Vec<String>,
    /// States.
    pub states: Vec<HealthState>,
    /// At least so many days are left before the retire date.
    pub min_days_before_retire: Option<i64>,
}

/// The variables of the query for machines.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Variables {
    /// Every condition must hold; all labels.
    pub having: Option<Params>,
    /// No condition may hold; any label.
    pub not_having: Option<Params>,
}

/// Variables, as people write them.
pub const VARIABLES: Object = Object::new(
    "Variables",
    "Which machines are looked at. What is given replaces the defaults as a whole: with only `having`, the default of `notHaving` is \
     lost.",
    &[&[
        Field::optional("having", Shape::Object(&PARAMS), "Conditions that must all hold."),
        Field::optional("notHaving", Shape::Object(&PARAMS), "Conditions none of which may hold."),
    ]],
);

const PARAMS: Object = Object::new(
    "Machine conditions",
    "Conditions on machines. What is left out or empty is no condition.",
    &[&[
        Field::optional(
            "labels",
            Shape::List { of: &Shape::Object(&LABEL), min: 0, max: QUERY_LABELS_MAX },
            "Labels: all of them for `having`, any of them for `notHaving`.",
        ),
        Field::optional("racks", values(&Shape::at_least(0)), "The machine is in one of these racks."),
        Field::optional("roles", values(&Shape::Text(&NOT_EMPTY)), "The machine has one of these roles."),
        Field::optional("states", values(&Shape::Word(&STATES)), "The machine is in one of these states."),
        Field::optional(
            "minDaysBeforeRetire",
            Shape::Integer { min: i32::MIN as i64, max: i32::MAX as i64 },
            "At least so many whole days are left before its retire date.",
        ),
    ]],
);

const LABEL: Object = Object::new(
    "Label",
    "A label of a machine.",
    &[&[
        Field::required("name", Shape::Text(&NOT_EMPTY), "Its name."),
        Field::required("value", Shape::Text(&TEXT), "Its value."),
    ]],
);

/// States as queries name them, in the order of [`HealthState::ALL`].
const STATES: [&str; 7] = ["UNINITIALIZED", "HEALTHY", "UNHEALTHY", "UNREACHABLE", "UPDATING", "RETIRING", "RETIRED"];

const fn values(of: &'static Shape) -> Shape {
    Shape::List { of, min: 0, max: QUERY_VALUES_MAX }
}

impl Variables {
    /// Reads what a user wrote. The text itself is what is kept and shown.
    pub fn parse(text: &str) -> Result<Variables, Vec<Problem>> {
        let document: Value =
            serde_json::from_str(text).map_err(|error| vec![Problem::new("", format!("is not JSON: {error}"))])?;
        let problems = shape::check(&VARIABLES, &document);
        if !problems.is_empty() {
            return Err(problems);
        }
        let params = |name| document.get(name).and_then(Value::as_object).map(Params::of);
        Ok(Variables { having: params("having"), not_having: params("notHaving") })
    }

    /// What the planner asks for if nobody said otherwise: everything but boot servers and retired machines.
    pub fn for_planner() -> Variables {
        let not_having =
            Params { roles: vec![BOOT.to_owned()], states: vec![HealthState::Retired], ..Params::default() };
        Variables { having: None, not_having: Some(not_having) }
    }

    /// What repair asks for if nobody said otherwise: broken machines, but no boot servers.
    pub fn for_repair() -> Variables {
        let having = Params { states: vec![HealthState::Unhealthy, HealthState::Unreachable], ..Params::default() };
        let not_having = Params { roles: vec![BOOT.to_owned()], ..Params::default() };
        Variables { having: Some(having), not_having: Some(not_having) }
    }

    /// Every machine that is broken, whoever may be repaired: what failed together is found among them.
    pub fn for_guard() -> Variables {
        let having = Params { states: vec![HealthState::Unhealthy, HealthState::Unreachable], ..Params::default() };
        Variables { having: Some(having), not_having: None }
    }

    /// Every machine that can break: what groups of broken machines are compared with.
    pub fn for_census() -> Variables {
        let not_having = Params { states: vec![HealthState::Retired], ..Params::default() };
        Variables { having: None, not_having: Some(not_having) }
    }

    /// The machines that are meant.
    pub fn query(&self, now: Timestamp) -> Query {
        let criteria = |params: &Option<Params>, group: fn(Vec<(String, String)>) -> LabelCondition| {
            params.clone().unwrap_or_default().criteria(group, now)
        };
        Query {
            having: criteria(&self.having, LabelCondition::AllOf),
            not_having: criteria(&self.not_having, LabelCondition::AnyOf),
        }
    }

    /// What is sent with a GraphQL query.
    pub fn document(&self) -> Value {
        let params = |params: &Option<Params>| params.as_ref().map_or(Value::Null, Params::document);
        json!({ "having": params(&self.having), "notHaving": params(&self.not_having) })
    }

    /// What is allowed but rarely meant.
    pub fn warnings(&self) -> Vec<Problem> {
        let wanted = self.having.as_ref().map_or(&[][..], |params| &params.roles);
        let unwanted = self.not_having.as_ref().map_or(&[][..], |params| &params.roles);
        let is_boot = |role: &String| role == BOOT;
        let included = (wanted.is_empty() || wanted.iter().any(is_boot)) && !unwanted.iter().any(is_boot);
        let reason = "boot servers are included: these variables replace the defaults, which leave the role boot out; add it here";
        included.then(|| Problem::new("notHaving.roles", reason)).into_iter().collect()
    }
}

impl Params {
    /// From an object that was checked.
    fn of(members: &Map<String, Value>) -> Params {
        let texts = |name| items(members, name).iter().filter_map(Value::as_str);
        let label = |label: &Value| {
            let label = label.as_object()?;
            Some((shape::text(label, "name").to_owned(), shape::text(label, "value").to_owned()))
        };
        let rack = |rack: &Value| u32::try_from(rack.as_u64()?).ok().map(Rack);
        Params {
            labels: items(members, "labels").iter().filter_map(label).collect(),
            racks: items(members, "racks").iter().filter_map(rack).collect(),
            roles: texts("roles").map(str::to_owned).collect(),
            states: texts("states").filter_map(state).collect(),
            min_days_before_retire: members.get("minDaysBeforeRetire").and_then(Value::as_i64),
        }
    }

    fn criteria(self, group: fn(Vec<(String, String)>) -> LabelCondition, now: Timestamp) -> Criteria {
        let Params { labels, racks, roles, states, min_days_before_retire } = self;
        Criteria {
            racks: given(racks),
            roles: given(roles),
            states: given(states),
            labels: group(labels),
            days_left: min_days_before_retire.map(|at_least| DaysLeft { at_least, now }),
            ..Criteria::default()
        }
    }

    /// Lists without a value are `null`; a number that is not set is left out, as older registries expect.
    fn document(&self) -> Value {
        let Params { labels, racks, roles, states, min_days_before_retire } = self;
        let list = |values: Vec<Value>| given(values).map_or(Value::Null, Value::Array);
        let mut document = json!({
            "labels": list(labels.iter().map(|(name, value)| json!({ "name": name, "value": value })).collect()),
            "racks": list(racks.iter().map(|rack| rack.0.into()).collect()),
            "roles": list(roles.iter().map(|role| role.as_str().into()).collect()),
            "states": list(states.iter().map(|state| state.as_str().to_ascii_uppercase().into()).collect()),
        });
        if let Some(days) = min_days_before_retire {
            document["minDaysBeforeRetire"] = (*days).into();
        }
        document
    }
}

fn state(name: &str) -> Option<HealthState> {
    STATES.iter().zip(HealthState::ALL).find(|(known, _)| **known == name).map(|(_, state)| state)
}

/// A list that is a condition.
fn given<T>(list: Vec<T>) -> Option<Vec<T>> {
    if list.is_empty() { None } else { Some(list) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2026-01-01T00:00:00Z".parse().expect("a time")
    }

    fn paths(text: &str) -> Vec<String> {
        Variables::parse(text).expect_err(text).into_iter().map(|problem| problem.path).collect()
    }

    #[test]
    fn states_are_those_of_the_lifecycle() {
        let names = HealthState::ALL.map(|state| state.as_str().to_ascii_uppercase());
        assert_eq!(STATES.map(str::to_owned), names);
        for (name, expected) in STATES.iter().zip(HealthState::ALL) {
            assert_eq!(state(name), Some(expected));
        }
    }

    #[test]
    fn what_is_sent_replaces_the_defaults_as_a_whole() {
        let params = |roles: Value| json!({ "labels": null, "racks": null, "roles": roles, "states": null });
        let check = |text: &str, having: Value, not_having: Value| {
            let document = Variables::parse(text).expect(text).document();
            assert_eq!(document, json!({ "having": having, "notHaving": not_having }), "{text}");
        };
        check("{}", Value::Null, Value::Null);
        check(r#"{"having": null}"#, Value::Null, Value::Null);
        check(r#"{"having": {"roles": ["w"]}}"#, params(json!(["w"])), Value::Null);
        check(r#"{"notHaving": {"roles": ["w"]}}"#, Value::Null, params(json!(["w"])));
        check(r#"{"having": {}, "notHaving": {"roles": [], "racks": null}}"#, params(Value::Null), params(Value::Null));
        let all = json!({
            "labels": [{ "name": "a", "value": "b" }, { "name": "c", "value": "" }],
            "racks": [0, 7],
            "roles": ["ss"],
            "states": STATES,
            "minDaysBeforeRetire": -3,
        });
        check(&json!({ "having": all, "notHaving": all }).to_string(), all.clone(), all);
    }

    #[test]
    fn the_defaults() {
        let planner = json!({
            "having": null,
            "notHaving": { "labels": null, "racks": null, "roles": ["boot"], "states": ["RETIRED"] },
        });
        assert_eq!(Variables::for_planner().document(), planner);
        let repair = json!({
            "having": { "labels": null, "racks": null, "roles": null, "states": ["UNHEALTHY", "UNREACHABLE"] },
            "notHaving": { "labels": null, "racks": null, "roles": ["boot"], "states": null },
        });
        assert_eq!(Variables::for_repair().document(), repair);
    }

    #[test]
    fn what_a_query_means() {
        let text = r#"{"having": {"labels": [{"name": "a", "value": "b"}], "racks": [], "minDaysBeforeRetire": 5},
                       "notHaving": {"labels": [{"name": "c", "value": "d"}], "racks": [1], "roles": ["boot"], "states": ["RETIRED"]}}"#;
        let pair = |name: &str, value: &str| vec![(name.to_owned(), value.to_owned())];
        let expected = Query {
            having: Criteria {
                labels: LabelCondition::AllOf(pair("a", "b")),
                days_left: Some(DaysLeft { at_least: 5, now: now() }),
                ..Criteria::default()
            },
            not_having: Criteria {
                labels: LabelCondition::AnyOf(pair("c", "d")),
                racks: Some(vec![Rack(1)]),
                roles: Some(vec!["boot".to_owned()]),
                states: Some(vec![HealthState::Retired]),
                ..Criteria::default()
            },
        };
        assert_eq!(Variables::parse(text).expect("variables").query(now()), expected);
        let everything = Variables::default().query(now());
        assert_eq!(everything.having, Criteria::default());
        assert!(everything.not_having.labels.pairs().is_empty() && everything.value_count() == 0);
    }

    #[test]
    fn what_is_refused() {
        assert_eq!(paths("having"), [""]);
        assert_eq!(paths("null"), [""]);
        assert_eq!(paths("[]"), [""]);
        assert_eq!(paths(r#"{"nothaving": {}}"#), ["nothaving"]);
        assert_eq!(paths(r#"{"having": []}"#), ["having"]);
        assert_eq!(
            paths(r#"{"having": {"states": ["HEALTHY", "healthy", "DEAD"], "racks": [-1, 1.5, "2", 4294967296]}}"#),
            ["racks[0]", "racks[1]", "racks[2]", "racks[3]", "states[1]", "states[2]"]
                .map(|path| format!("having.{path}")),
        );
        assert_eq!(
            paths(
                r#"{"notHaving": {"labels": [{"name": "a"}, {"name": "", "value": "b"}], "role": ["a"], "minDaysBeforeRetire": "1"}}"#
            ),
            ["labels[0].value", "labels[1].name", "minDaysBeforeRetire", "role"]
                .map(|path| format!("notHaving.{path}")),
        );
        let reason = &Variables::parse(r#"{"having": {"states": ["DEAD"]}}"#).expect_err("no state")[0].reason;
        assert!(reason.contains("UNREACHABLE, UPDATING"), "{reason}");
    }

    #[test]
    fn boot_servers_are_rarely_meant() {
        let check = |text: &str, doubtful: bool| {
            let paths: Vec<String> =
                Variables::parse(text).expect(text).warnings().into_iter().map(|problem| problem.path).collect();
            assert_eq!(paths, if doubtful { vec!["notHaving.roles"] } else { vec![] }, "{text}");
        };
        check("{}", true);
        check(r#"{"having": {"racks": [1]}}"#, true);
        check(r#"{"having": {"roles": ["boot"]}}"#, true);
        check(r#"{"having": {"roles": ["cs"]}}"#, false);
        check(r#"{"notHaving": {"states": ["RETIRED"]}}"#, true);
        check(r#"{"notHaving": {"roles": ["cs", "boot"]}}"#, false);
        for variables in [Variables::for_planner(), Variables::for_repair()] {
            assert_eq!(variables.warnings(), []);
        }
    }
}
