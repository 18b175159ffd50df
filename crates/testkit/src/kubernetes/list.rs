//! Lists: pages, and what field and label selectors leave of them.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{
    State,
    http::{Answer, refusal},
};

type Query = BTreeMap<String, String>;

/// Objects of one page where none is asked for: all.
const NO_LIMIT: usize = usize::MAX;

pub fn nodes(state: &mut State, query: &Query) -> Answer {
    let all = state.nodes.iter().map(|(name, node)| (name.clone(), node.document())).collect();
    page(state, "NodeList", all, &[], query)
}

pub fn namespaces(state: &mut State, query: &Query) -> Answer {
    let document = |(name, labels): (&String, &BTreeMap<String, String>)| {
        let document =
            json!({ "kind": "Namespace", "apiVersion": "v1", "metadata": { "name": name, "labels": labels } });
        (name.clone(), document)
    };
    let all = state.namespaces.iter().map(document).collect();
    page(state, "NamespaceList", all, &[], query)
}

pub fn leases(state: &mut State, query: &Query) -> Answer {
    let document = |(name, renewed): (&String, &String)| {
        let document = json!({ "kind": "Lease", "metadata": { "name": name }, "spec": { "renewTime": renewed } });
        (name.clone(), document)
    };
    let all = state.leases.iter().map(document).collect();
    page(state, "LeaseList", all, &[], query)
}

pub fn pods(state: &mut State, query: &Query) -> Answer {
    let all = state.pods.iter().map(|(key, pod)| (key.clone(), pod.document())).collect();
    page(state, "PodList", all, &["spec.nodeName"], query)
}

/// A page. The token for the next one holds the key of the last object, behind something that tells it from a name.
fn page(state: &mut State, kind: &str, all: Vec<(String, Value)>, fields: &[&str], query: &Query) -> Answer {
    let limit = query.get("limit").and_then(|limit| limit.parse().ok()).filter(|limit| *limit > 0).unwrap_or(NO_LIMIT);
    let after = match query.get("continue").map(|token| token.strip_prefix("after:")) {
        Some(Some(_)) if state.faults.expired_pages > 0 => {
            state.faults.expired_pages -= 1;
            return refusal(410, "Expired", "The provided continue parameter is too old");
        }
        Some(Some(key)) => Some(key.to_owned()),
        Some(None) => return refusal(400, "BadRequest", "continue key is not valid"),
        None => None,
    };
    let tests = match tests(fields, query) {
        Ok(tests) => tests,
        Err(reason) => return refusal(400, "BadRequest", &reason),
    };
    let rest: Vec<(String, Value)> = all
        .into_iter()
        .filter(|(key, _)| after.as_ref().is_none_or(|after| key > after))
        .filter(|(_, document)| tests.iter().all(|test| test.holds(document)))
        .collect();
    let page = &rest[..rest.len().min(limit)];
    let mut metadata = json!({ "resourceVersion": state.version.to_string() });
    if let (Some((last, _)), true) = (page.last(), page.len() < rest.len()) {
        metadata["continue"] = json!(format!("after:{last}"));
        metadata["remainingItemCount"] = json!(rest.len() - page.len());
    }
    let items: Vec<&Value> = page.iter().map(|(_, document)| document).collect();
    (200, json!({ "kind": kind, "apiVersion": "v1", "metadata": metadata, "items": items }))
}

/// A condition on an object.
#[derive(Debug, PartialEq)]
enum Test {
    /// A field, by its path, has this value.
    Field(String, String),
    /// A label has one of these values.
    In(String, Vec<String>),
    /// A label has none of these values, or is not there.
    NotIn(String, Vec<String>),
    /// A label is there, or is not.
    Exists(String, bool),
}

impl Test {
    fn holds(&self, document: &Value) -> bool {
        let label = |key: &str| document["metadata"]["labels"][key].as_str().map(str::to_owned);
        match self {
            Test::Field(path, expected) => {
                let value = path.split('.').fold(document, |value, name| &value[name]);
                match value {
                    // What is not there is false, or empty.
                    Value::Null => expected == "false" || expected.is_empty(),
                    Value::String(text) => text == expected,
                    Value::Bool(value) => expected == if *value { "true" } else { "false" },
                    _ => false,
                }
            }
            Test::In(key, values) => label(key).is_some_and(|value| values.contains(&value)),
            Test::NotIn(key, values) => label(key).is_none_or(|value| !values.contains(&value)),
            Test::Exists(key, expected) => label(key).is_some() == *expected,
        }
    }
}

fn tests(fields: &[&str], query: &Query) -> Result<Vec<Test>, String> {
    let given = |name: &str| query.get(name).filter(|text| !text.is_empty());
    let mut tests = Vec::new();
    if let Some(text) = given("fieldSelector") {
        match text.split_once('=') {
            Some((field, value)) if fields.contains(&field) && !value.contains([',', '\\', '=']) => {
                tests.push(Test::Field(field.to_owned(), value.to_owned()));
            }
            _ => return Err(format!("field selector {text:?} is not covered by this double")),
        }
    }
    if let Some(text) = given("labelSelector") {
        for part in parts(text) {
            tests.push(label_test(part).ok_or_else(|| format!("unable to parse requirement {part:?}"))?);
        }
    }
    Ok(tests)
}

/// The requirements of a label selector: what stands between commas that are not in parentheses.
fn parts(text: &str) -> Vec<&str> {
    let mut is_inside = false;
    text.split(|c| {
        is_inside = (is_inside || c == '(') && c != ')';
        c == ',' && !is_inside
    })
    .collect()
}

fn label_test(part: &str) -> Option<Test> {
    let part = part.trim();
    let set = |text: &str| {
        let inside = text.trim().strip_prefix('(')?.strip_suffix(')').filter(|inside| !inside.is_empty())?;
        Some(inside.split(',').map(|value| value.trim().to_owned()).collect())
    };
    if let Some((key, values)) = part.split_once(" notin ") {
        return Some(Test::NotIn(key.to_owned(), set(values)?));
    }
    if let Some((key, values)) = part.split_once(" in ") {
        return Some(Test::In(key.to_owned(), set(values)?));
    }
    if let Some((key, value)) = part.split_once("!=") {
        return Some(Test::NotIn(key.to_owned(), vec![value.to_owned()]));
    }
    if let Some((key, value)) = part.split_once('=') {
        let value = value.strip_prefix('=').unwrap_or(value);
        return Some(Test::In(key.to_owned(), vec![value.to_owned()]));
    }
    let (key, expected) = part.strip_prefix('!').map_or((part, true), |key| (key, false));
    (!key.is_empty() && !key.contains([' ', '(', ')'])).then(|| Test::Exists(key.to_owned(), expected))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selected(document: &Value, name: &str, text: &str) -> Result<bool, String> {
        let query = Query::from([(name.to_owned(), text.to_owned())]);
        let tests = tests(&["spec.nodeName", "spec.unschedulable"], &query)?;
        Ok(tests.iter().all(|test| test.holds(document)))
    }

    #[test]
    fn label_selectors() {
        let document = json!({ "metadata": { "labels": { "a": "1", "example.com/b": "" } } });
        for (text, expected) in [
            ("", true),
            ("a=1", true),
            ("a==1", true),
            ("a=2", false),
            ("a!=1", false),
            ("c!=1", true),
            ("example.com/b=", true),
            ("a in (1,2)", true),
            ("a in (2,3)", false),
            ("example.com/b in (,x)", true),
            ("a notin (1,2)", false),
            ("c notin (1)", true),
            ("a,example.com/b", true),
            ("!a", false),
            ("!c", true),
            ("a in (1,2),!c,example.com/b=", true),
            ("a in (1,2),c", false),
        ] {
            assert_eq!(selected(&document, "labelSelector", text), Ok(expected), "{text}");
        }
        for text in ["a in ()", "a in 1", "a (1)", "a,", "!"] {
            assert!(selected(&document, "labelSelector", text).is_err(), "{text}");
        }
    }

    #[test]
    fn field_selectors() {
        let document = json!({ "spec": { "nodeName": "10.0.0.1", "unschedulable": true } });
        let bare = json!({ "spec": {} });
        for (document, text, expected) in [
            (&document, "spec.nodeName=10.0.0.1", true),
            (&document, "spec.nodeName=10.0.0.11", false),
            (&bare, "spec.nodeName=10.0.0.1", false),
            (&document, "spec.unschedulable=true", true),
            (&bare, "spec.unschedulable=true", false),
            (&bare, "spec.unschedulable=false", true),
        ] {
            assert_eq!(selected(document, "fieldSelector", text), Ok(expected), "{text}");
        }
        for text in ["status.phase=Running", "spec.nodeName", r"spec.nodeName=a\,b", "spec.nodeName=a,b=c"] {
            assert!(selected(&document, "fieldSelector", text).is_err(), "{text}");
        }
    }
}
