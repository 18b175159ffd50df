//! JSON patches, as far as this API has them: `add`, `replace` and `remove` on members that may be written.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Document, NESTING_MAX, Refused, Version, field::check_since, nesting};

/// Operations of one patch. Clients send a few dozen; a million bytes of them would move the items of a list for seconds.
const OPERATIONS_MAX: usize = 1_000;

/// What an operation does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PatchOp {
    /// Sets a member, or makes it.
    Add,
    /// Sets a member that is there.
    Replace,
    /// Takes a member away.
    Remove,
}

/// One operation.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct OperationJson {
    op: PatchOp,
    path: String,
    #[serde(default, deserialize_with = "present")]
    value: Option<Value>,
}

/// A `null` is a value too.
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// One operation, checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Operation {
    op: PatchOp,
    path: Vec<String>,
    value: Value,
}

/// Reads a patch of a kind of document. Every operation is checked before the first is applied.
pub fn parse<D: Document>(body: Value, version: Version) -> Result<Vec<Operation>, Refused> {
    if !body.is_array() {
        return Err(Refused::invalid(format!("Schema error for patch: {body} is not of type 'array'")));
    }
    let schema = |error: serde_json::Error| Refused::invalid(format!("Schema error for patch: {error}"));
    let operations: Vec<OperationJson> = serde_json::from_value(body).map_err(schema)?;
    if operations.len() > OPERATIONS_MAX {
        return Err(Refused::invalid(format!("a patch has at most {OPERATIONS_MAX} operations")));
    }
    let writable = D::default().document();
    operations.into_iter().map(|operation| check::<D>(operation, &writable, version)).collect()
}

fn check<D: Document>(
    operation: OperationJson,
    writable: &Map<String, Value>,
    version: Version,
) -> Result<Operation, Refused> {
    let OperationJson { op, path: text, value } = operation;
    let path = split(&text, version)
        .ok_or_else(|| Refused::invalid(format!("Schema error for patch: {text:?} is not a path such as /extra/a")))?;
    let root = path.first().map(String::as_str).unwrap_or_default();
    if !writable.contains_key(root) {
        let known = writable.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
        return Err(Refused::invalid(format!("Cannot patch {text}. Only the following can be updated: {known}")));
    }
    check_since::<D::Field>(root, version)?;
    let value = match (op, value) {
        (PatchOp::Remove, _) => Value::Null,
        (_, Some(value)) => value,
        (_, None) => return Err(Refused::invalid(format!("Schema error for patch: {text} needs a value"))),
    };
    // No operation makes the document deeper than the path that leads to its value and the value itself.
    if path.len() + nesting(&value) > NESTING_MAX {
        return Err(Refused::invalid(format!("the document would be nested more than {NESTING_MAX} levels deep")));
    }
    Ok(Operation { op, path, value })
}

fn split(text: &str, version: Version) -> Option<Vec<String>> {
    let escapes = version.has(98);
    let letters = |c: char| c.is_alphanumeric() || c == '_' || c == '-' || (escapes && c == '~');
    let segments: Vec<&str> = text.strip_prefix('/')?.split('/').collect();
    let shaped = segments.iter().all(|segment| !segment.is_empty() && segment.chars().all(letters));
    shaped.then(|| segments.into_iter().map(|segment| segment.replace("~1", "/").replace("~0", "~")).collect())
}

impl Operation {
    /// Whether it takes a member away, or gives it no value.
    pub fn clears(&self, root: &str) -> bool {
        self.path.len() == 1 && self.is_about(root) && self.value.is_null()
    }

    /// Whether it says anything about a member.
    pub fn is_about(&self, root: &str) -> bool {
        self.path.first().is_some_and(|first| first == root)
    }
}

/// Applies a patch to a document, all of it or nothing.
pub fn apply(document: &Map<String, Value>, operations: &[Operation]) -> Result<Map<String, Value>, Refused> {
    let mut document = document.clone();
    for operation in operations {
        apply_one(&mut document, operation)?;
    }
    Ok(document)
}

fn apply_one(document: &mut Map<String, Value>, operation: &Operation) -> Result<(), Refused> {
    let Operation { op, path, value } = operation;
    let [root, inner @ ..] = path.as_slice() else { return Ok(()) };
    let Some((last, between)) = inner.split_last() else {
        // Every member that may be written is there; one that is taken away has its default.
        document.insert(root.clone(), value.clone());
        return Ok(());
    };
    let failed = |why: &str| Refused::invalid(format!("Couldn't apply patch to /{}: {why} {last:?}", path.join("/")));
    let mut place = document.entry(root.clone()).or_insert(Value::Null);
    if place.is_null() {
        *place = Value::Object(Map::new());
    }
    for segment in between {
        place = step_into(place, segment).ok_or_else(|| failed("there is nothing that could hold"))?;
    }
    match place {
        Value::Object(members) => match op {
            PatchOp::Add => drop(members.insert(last.clone(), value.clone())),
            PatchOp::Replace => {
                let member = members.get_mut(last).ok_or_else(|| failed("can't replace a non-existent object"))?;
                *member = value.clone();
            }
            PatchOp::Remove => {
                members.remove(last).ok_or_else(|| failed("can't remove a non-existent object"))?;
            }
        },
        Value::Array(items) => change_item(items, *op, last, value).ok_or_else(|| failed("there is no item"))?,
        _ => return Err(failed("there is nothing that could hold")),
    }
    Ok(())
}

fn step_into<'a>(place: &'a mut Value, segment: &str) -> Option<&'a mut Value> {
    match place {
        Value::Object(members) => members.get_mut(segment),
        Value::Array(items) => items.get_mut(segment.parse::<usize>().ok()?),
        _ => None,
    }
}

fn change_item(items: &mut Vec<Value>, op: PatchOp, at: &str, value: &Value) -> Option<()> {
    if op == PatchOp::Add && at == "-" {
        items.push(value.clone());
        return Some(());
    }
    let index = at.parse::<usize>().ok()?;
    match op {
        PatchOp::Add if index <= items.len() => items.insert(index, value.clone()),
        PatchOp::Replace => *items.get_mut(index)? = value.clone(),
        PatchOp::Remove if index < items.len() => drop(items.remove(index)),
        _ => return None,
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::ironic::NodeInput;

    fn outcome(patch: Value) -> Result<Value, Refused> {
        let mut document = NodeInput::default().document();
        document.insert("extra".to_owned(), json!({ "a": 1, "list": [1, 2], "deep": { "x": 1 } }));
        let operations = parse::<NodeInput>(patch, Version::MAX)?;
        apply(&document, &operations).map(|mut document| document.remove("extra").unwrap_or_default())
    }

    #[test]
    fn what_operations_do() {
        let check = |patch: Value, expected: Value| assert_eq!(outcome(patch.clone()), Ok(expected), "{patch}");
        let whole = json!({ "a": 1, "list": [1, 2], "deep": { "x": 1 } });
        check(json!([]), whole);
        check(json!([{ "op": "replace", "path": "/extra", "value": { "b": 2 } }]), json!({ "b": 2 }));
        check(json!([{ "op": "remove", "path": "/extra" }]), Value::Null);
        check(
            json!([{ "op": "remove", "path": "/extra" }, { "op": "add", "path": "/extra/x~1y", "value": null }]),
            json!({ "x/y": null }),
        );
        let lists = json!([
            { "op": "add", "path": "/extra/list/-", "value": 3 },
            { "op": "add", "path": "/extra/list/0", "value": 0 },
            { "op": "replace", "path": "/extra/list/1", "value": 9 },
            { "op": "remove", "path": "/extra/list/2" },
            { "op": "remove", "path": "/extra/a" },
            { "op": "replace", "path": "/extra/deep/x", "value": 2 },
        ]);
        check(lists, json!({ "list": [0, 9, 3], "deep": { "x": 2 } }));
    }

    #[test]
    fn no_patch_makes_a_document_deeper_than_a_body_may_be() {
        let nested = |levels: usize| (0..levels).fold(json!(1), |inner, _| json!({ "a": inner }));
        let add = |segments: usize, levels: usize| {
            let path = format!("/extra{}", "/a".repeat(segments));
            json!({ "op": "add", "path": path, "value": nested(levels) })
        };
        // Each operation is harmless alone; together they would be stored and never read again.
        let deep = outcome(json!([add(1, 20), add(21, 20)]));
        assert!(matches!(deep, Err(Refused::Invalid(text)) if text.contains("levels deep")));
        assert!(outcome(json!([add(1, 23)])).is_ok_and(|extra| nesting(&extra) == NESTING_MAX - 1));
        assert!(outcome(json!([add(1, 24)])).is_err());
        let many = vec![json!({ "op": "add", "path": "/extra/list/0", "value": 1 }); OPERATIONS_MAX + 1];
        assert!(matches!(outcome(json!(many)), Err(Refused::Invalid(text)) if text.contains("operations")));
    }

    #[test]
    fn what_is_no_patch() {
        for bad in [
            json!({ "op": "add" }),
            json!([{ "op": "test", "path": "/extra/a", "value": 2 }]),
            json!([{ "op": "move", "from": "/extra/a", "path": "/extra/c" }]),
            json!([{ "path": "/extra/a", "value": 1 }]),
            json!([{ "op": "add", "path": "extra/a", "value": 1 }]),
            json!([{ "op": "add", "path": "/extra//a", "value": 1 }]),
            json!([{ "op": "add", "path": "/extra/a" }]),
            json!([{ "op": "add", "path": "/nosuch", "value": 1 }]),
            json!([{ "op": "replace", "path": "/uuid", "value": "x" }]),
            json!([{ "op": "replace", "path": "/provision_state", "value": "active" }]),
            json!([{ "op": "add", "path": "/traits/-", "value": "CUSTOM_Z" }]),
            json!([{ "op": "replace", "path": "/extra/zz", "value": 2 }]),
            json!([{ "op": "remove", "path": "/extra/zz" }]),
            json!([{ "op": "add", "path": "/extra/a/b", "value": 2 }]),
            json!([{ "op": "add", "path": "/extra/list/9", "value": 2 }]),
            json!([{ "op": "remove", "path": "/extra/list/2" }]),
        ] {
            assert!(matches!(outcome(bad.clone()), Err(Refused::Invalid(_))), "{bad}");
        }
        let newer = parse::<NodeInput>(json!([{ "op": "add", "path": "/owner", "value": "me" }]), Version(30));
        assert!(matches!(newer, Err(Refused::Version(_))));
    }
}
