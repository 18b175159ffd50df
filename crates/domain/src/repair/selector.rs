//! Things of Kubernetes by their labels. A selector is asked of the API server as text, and of what was read with [`Selector::matches`];
//! both mean the same.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use serde_json::Value;

/// Which labels something must have. Everything must hold; nothing to hold selects everything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selector {
    requirements: Vec<Requirement>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Test {
    In(BTreeSet<String>),
    NotIn(BTreeSet<String>),
    Exists,
    DoesNotExist,
}

impl Selector {
    /// A selector in the words of Kubernetes (`matchLabels`, `matchExpressions`). `None` for what is not one: half a selector would
    /// select more, or less, than was meant.
    pub fn of(value: &Value) -> Option<Selector> {
        let mut requirements = Vec::new();
        for (name, value) in value.as_object()? {
            match name.as_str() {
                "matchLabels" | "matchExpressions" if value.is_null() => {}
                "matchLabels" => {
                    for (key, value) in value.as_object()? {
                        let values = BTreeSet::from([value.as_str()?.to_owned()]);
                        requirements.push(Requirement { key: key.clone(), test: Test::In(values) });
                    }
                }
                "matchExpressions" => {
                    for expression in value.as_array()? {
                        requirements.push(requirement(expression)?);
                    }
                }
                _ => return None,
            }
        }
        // Whatever the order they were written in, it is the same selector and the same text.
        requirements.sort();
        Some(Selector { requirements })
    }

    /// Whether it selects whatever there is.
    pub fn is_everything(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Whether something with these labels is selected.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.requirements.iter().all(|requirement| requirement.holds(labels.get(&requirement.key)))
    }
}

impl Requirement {
    fn holds(&self, value: Option<&String>) -> bool {
        match &self.test {
            Test::In(values) => value.is_some_and(|value| values.contains(value)),
            // As in Kubernetes, what does not have the label at all is not in any set of values.
            Test::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
            Test::Exists => value.is_some(),
            Test::DoesNotExist => value.is_none(),
        }
    }
}

fn requirement(expression: &Value) -> Option<Requirement> {
    let values = match expression.get("values") {
        None | Some(Value::Null) => BTreeSet::new(),
        Some(values) => {
            values.as_array()?.iter().map(|value| value.as_str().map(str::to_owned)).collect::<Option<_>>()?
        }
    };
    let test = match (expression.get("operator")?.as_str()?, values.is_empty()) {
        ("In", false) => Test::In(values),
        ("NotIn", false) => Test::NotIn(values),
        ("Exists", true) => Test::Exists,
        ("DoesNotExist", true) => Test::DoesNotExist,
        _ => return None,
    };
    Some(Requirement { key: expression.get("key")?.as_str()?.to_owned(), test })
}

/// As the `labelSelector` of a request.
impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, requirement) in self.requirements.iter().enumerate() {
            let comma = if n == 0 { "" } else { "," };
            write!(f, "{comma}{requirement}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.key;
        match &self.test {
            Test::In(values) => write_values(f, key, "=", "in", values),
            Test::NotIn(values) => write_values(f, key, "!=", "notin", values),
            Test::Exists => f.write_str(key),
            Test::DoesNotExist => write!(f, "!{key}"),
        }
    }
}

/// One value is compared, more are a set: `key in ()` is not the same as `key=`, so that an empty value cannot stand alone in a set.
fn write_values(
    f: &mut fmt::Formatter<'_>,
    key: &str,
    one: &str,
    several: &str,
    values: &BTreeSet<String>,
) -> fmt::Result {
    match values.first() {
        Some(value) if values.len() == 1 => write!(f, "{key}{one}{value}"),
        _ => {
            let values: Vec<&str> = values.iter().map(String::as_str).collect();
            write!(f, "{key} {several} ({})", values.join(","))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn selector(value: &Value) -> Selector {
        Selector::of(value).unwrap_or_else(|| panic!("{value} is a selector"))
    }

    /// Labels as `a=1 b=`.
    fn labels(text: &str) -> BTreeMap<String, String> {
        let pair = |pair: &str| pair.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()));
        text.split_whitespace().filter_map(pair).collect()
    }

    #[test]
    fn what_is_selected_and_how_it_is_asked_for() {
        let expression = |key: &str, operator: &str, values: &[&str]| match values {
            [] => json!({ "matchExpressions": [{ "key": key, "operator": operator }] }),
            values => json!({ "matchExpressions": [{ "key": key, "operator": operator, "values": values }] }),
        };
        let both = json!({
            "matchLabels": { "team": "infra" },
            "matchExpressions": [{ "key": "tier", "operator": "NotIn", "values": ["test", "dev"] }],
        });
        for (value, text, yes, no) in [
            (json!({}), "", &["", "a=1"][..], &[][..]),
            (json!({ "matchLabels": null, "matchExpressions": [] }), "", &["", "a=1"], &[]),
            (json!({ "matchLabels": { "a": "1" } }), "a=1", &["a=1", "a=1 b=2"], &["", "a=2", "b=1"]),
            (json!({ "matchLabels": { "a": "1", "b": "2" } }), "a=1,b=2", &["a=1 b=2"], &["a=1", "b=2", "a=2 b=2"]),
            (json!({ "matchLabels": { "a": "" } }), "a=", &["a="], &["", "a=1"]),
            (expression("a", "In", &["2", "1"]), "a in (1,2)", &["a=1", "a=2"], &["", "a=3"]),
            (expression("a", "In", &["1", "1"]), "a=1", &["a=1"], &["", "a=2"]),
            (expression("a", "In", &["x", ""]), "a in (,x)", &["a=", "a=x"], &["", "a=y"]),
            (expression("a", "NotIn", &["1"]), "a!=1", &["", "a=2", "b=1"], &["a=1"]),
            (expression("a", "NotIn", &["1", "2"]), "a notin (1,2)", &["", "a=3"], &["a=1", "a=2"]),
            (expression("example.com/a", "Exists", &[]), "example.com/a", &["example.com/a="], &["", "a=1"]),
            (expression("a", "DoesNotExist", &[]), "!a", &["", "b=1"], &["a=", "a=1"]),
            (
                both,
                "team=infra,tier notin (dev,test)",
                &["team=infra", "team=infra tier=prod"],
                &["tier=prod", "team=infra tier=dev"],
            ),
        ] {
            let selector = selector(&value);
            assert_eq!(selector.to_string(), text, "{value}");
            assert_eq!(selector.is_everything(), text.is_empty(), "{value}");
            for (list, expected) in [(yes, true), (no, false)] {
                for given in list {
                    assert_eq!(selector.matches(&labels(given)), expected, "{value} of {given:?}");
                }
            }
        }
    }

    #[test]
    fn what_is_not_a_selector_selects_nothing_by_mistake() {
        for value in [
            json!(null),
            json!("a=1"),
            json!([]),
            json!({ "matchlabels": { "a": "1" } }),
            json!({ "matchLabels": ["a"] }),
            json!({ "matchLabels": { "a": 1 } }),
            json!({ "matchExpressions": { "key": "a", "operator": "Exists" } }),
            json!({ "matchExpressions": [{ "key": "a" }] }),
            json!({ "matchExpressions": [{ "operator": "Exists" }] }),
            json!({ "matchExpressions": [{ "key": "a", "operator": "in", "values": ["1"] }] }),
            json!({ "matchExpressions": [{ "key": "a", "operator": "In" }] }),
            json!({ "matchExpressions": [{ "key": "a", "operator": "In", "values": [] }] }),
            json!({ "matchExpressions": [{ "key": "a", "operator": "NotIn", "values": [1] }] }),
            json!({ "matchExpressions": [{ "key": "a", "operator": "Exists", "values": ["1"] }] }),
        ] {
            assert_eq!(Selector::of(&value), None, "{value}");
        }
    }
}
