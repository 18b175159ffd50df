//! One Node and who owns which of its fields: the rules of server-side apply, without HTTP.
//!
//! Labels and annotations are maps whose every key is a field; every member of `spec` is one, lists whole. That is what the schema of
//! Node says for labels, annotations and taints. Lists that are merged by key (conditions, addresses) belong to `status`, which nobody
//! applies here.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

/// A field that has owners.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Field {
    /// An annotation, by its key.
    Annotation(String),
    /// A label, by its key.
    Label(String),
    /// A member of the specification.
    Spec(String),
}

impl Field {
    /// Where it stands in the object: the member of the object, that of the member if it is a map, its own name.
    fn place(&self) -> (&'static str, Option<&'static str>, &str) {
        match self {
            Field::Annotation(key) => ("metadata", Some("annotations"), key),
            Field::Label(key) => ("metadata", Some("labels"), key),
            Field::Spec(name) => ("spec", None, name),
        }
    }

    /// As error messages spell it.
    pub fn path(&self) -> String {
        let (top, map, name) = self.place();
        match map {
            Some(map) => format!(".{top}.{map}.{name}"),
            None => format!(".{top}.{name}"),
        }
    }
}

/// Fields and their values.
pub type Fields = BTreeMap<Field, Value>;

/// How a manager wrote. The same name in two ways is two managers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// Server-side apply.
    Apply,
    /// Anything else.
    Update,
}

/// Another manager owns the field and wants another value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// Who.
    pub manager: String,
    /// What.
    pub field: Field,
}

/// A Node.
#[derive(Debug, Clone, PartialEq)]
pub struct Object {
    /// Its name.
    pub name: String,
    /// Tells it from others of that name.
    pub uid: String,
    /// Changes with every write.
    pub version: u64,
    /// Everything that has owners.
    pub fields: Fields,
    /// The status, which has none here.
    pub status: Value,
    /// Who owns what. An entry without fields does not exist.
    pub managers: BTreeMap<(String, Operation), BTreeSet<Field>>,
}

impl Object {
    /// A Node as a kubelet registers it.
    pub fn registered(name: &str, uid: String, version: u64, fields: Fields) -> Object {
        let addresses = match name.parse::<std::net::IpAddr>() {
            Ok(address) => json!([{ "type": "InternalIP", "address": address.to_string() }]),
            Err(_) => json!([]),
        };
        let mut object = Object {
            name: name.to_owned(),
            uid,
            version,
            fields: Fields::new(),
            status: json!({ "addresses": addresses, "conditions": [{ "type": "Ready", "status": "True" }] }),
            managers: BTreeMap::new(),
        };
        object.update("kubelet", fields);
        object
    }

    /// Whether no new pods are put on it.
    pub fn is_cordoned(&self) -> bool {
        self.fields.get(&Field::Spec("unschedulable".to_owned())) == Some(&Value::Bool(true))
    }

    /// Server-side apply: the manager owns exactly the given fields afterwards. Fields it owned before and does not give any more go,
    /// unless somebody else owns them too. Whether anything changed.
    pub fn apply(&mut self, manager: &str, given: Fields, force: bool) -> Result<bool, Vec<Conflict>> {
        let before = self.clone();
        let me = (manager.to_owned(), Operation::Apply);
        let differs = |field: &Field| self.fields.get(field) != given.get(field);
        let mut conflicts = Vec::new();
        for ((name, operation), owned) in &self.managers {
            if (name, *operation) != (&me.0, me.1) {
                let fought = owned.iter().filter(|field| given.contains_key(*field) && differs(field));
                conflicts.extend(fought.map(|field| Conflict { manager: name.clone(), field: field.clone() }));
            }
        }
        if !conflicts.is_empty() && !force {
            return Err(conflicts);
        }
        for Conflict { field, .. } in conflicts {
            self.managers.iter_mut().filter(|(key, _)| **key != me).for_each(|(_, owned)| _ = owned.remove(&field));
        }
        let dropped = self.managers.remove(&me).unwrap_or_default();
        for field in dropped.into_iter().filter(|field| !given.contains_key(field)) {
            if !self.managers.values().any(|owned| owned.contains(&field)) {
                self.fields.remove(&field);
            }
        }
        self.managers.insert(me, given.keys().cloned().collect());
        self.fields.extend(given);
        self.tidy();
        Ok(*self != before)
    }

    /// Any other write: whoever changes a field owns it, alone, and fights nobody. Whether anything changed.
    pub fn update(&mut self, manager: &str, new: Fields) -> bool {
        let before = self.clone();
        let changed: BTreeSet<Field> = new
            .iter()
            .filter(|(field, value)| self.fields.get(field) != Some(value))
            .map(|(field, _)| field.clone())
            .collect();
        let touched: BTreeSet<Field> =
            self.fields.keys().filter(|field| !new.contains_key(field)).chain(&changed).cloned().collect();
        self.managers.values_mut().for_each(|owned| owned.retain(|field| !touched.contains(field)));
        self.managers.entry((manager.to_owned(), Operation::Update)).or_default().extend(changed);
        self.fields = new;
        self.tidy();
        *self != before
    }

    fn tidy(&mut self) {
        self.managers.retain(|_, owned| !owned.is_empty());
        // The server forgets empty lists: its types leave them out.
        self.fields.retain(|_, value| value != &json!([]));
    }

    /// The object as the server answers it.
    pub fn document(&self) -> Value {
        let mut document = json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": self.name,
                "uid": self.uid,
                "resourceVersion": self.version.to_string(),
                "managedFields": self.managers.iter().map(manager_document).collect::<Vec<_>>(),
            },
            "spec": {},
            "status": self.status,
        });
        for (field, value) in &self.fields {
            let (top, map, name) = field.place();
            let parent = &mut document[top];
            match map {
                Some(map) => parent[map][name] = value.clone(),
                None => parent[name] = value.clone(),
            }
        }
        document
    }
}

fn manager_document(((name, operation), owned): (&(String, Operation), &BTreeSet<Field>)) -> Value {
    let mut fields = json!({});
    for field in owned {
        let (top, map, name) = field.place();
        let parent = &mut fields[format!("f:{top}")];
        let parent = match map {
            Some(map) => &mut parent[format!("f:{map}")],
            None => parent,
        };
        parent[format!("f:{name}")] = json!({});
    }
    json!({
        "manager": name,
        "operation": format!("{operation:?}"),
        "apiVersion": "v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    })
}

/// The fields of a document that somebody sent. `null` stands for "remove". `Err`: it has what this double does not cover.
pub fn fields(document: &Value) -> Result<Fields, String> {
    let empty = Map::new();
    let object = |value: &Value| value.as_object().cloned().ok_or_else(|| "not an object".to_owned());
    let mut fields = Fields::new();
    for (name, value) in document.as_object().unwrap_or(&empty) {
        match name.as_str() {
            "apiVersion" | "kind" => {}
            "spec" => fields.extend(object(value)?.into_iter().map(|(name, value)| (Field::Spec(name), value))),
            "metadata" => {
                for (name, value) in &object(value)? {
                    let entries = |kind: fn(String) -> Field| {
                        let entries = object(value)?;
                        Ok::<_, String>(entries.into_iter().map(move |(key, value)| (kind(key), value)))
                    };
                    match name.as_str() {
                        "name" | "uid" | "resourceVersion" => {}
                        "labels" => fields.extend(entries(Field::Label)?),
                        "annotations" => fields.extend(entries(Field::Annotation)?),
                        other => return Err(format!("metadata.{other} is not covered by this double")),
                    }
                }
            }
            other => return Err(format!("{other} is not covered by this double")),
        }
    }
    Ok(fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> Fields {
        pairs.iter().map(|(key, value)| (Field::Label((*key).to_owned()), json!(value))).collect()
    }

    fn taints(keys: &[&str]) -> Fields {
        let list: Vec<Value> = keys.iter().map(|key| json!({ "key": key, "effect": "NoSchedule" })).collect();
        Fields::from([(Field::Spec("taints".to_owned()), Value::Array(list))])
    }

    fn object(fields: Fields) -> Object {
        Object::registered("10.0.0.1", "u".to_owned(), 1, fields)
    }

    fn owners(object: &Object, field: &Field) -> Vec<String> {
        let owning = object.managers.iter().filter(|(_, owned)| owned.contains(field));
        owning.map(|((name, operation), _)| format!("{name} {operation:?}")).collect()
    }

    fn label(key: &str) -> Field {
        Field::Label(key.to_owned())
    }

    #[test]
    fn applying_adds_beside_what_others_have() {
        let mut node = object(labels(&[("theirs", "1")]));
        assert_eq!(node.apply("me", labels(&[("mine", "1")]), false), Ok(true));
        assert_eq!(node.fields, labels(&[("mine", "1"), ("theirs", "1")]));
        assert_eq!(owners(&node, &label("mine")), ["me Apply"]);
        assert_eq!(owners(&node, &label("theirs")), ["kubelet Update"]);
        assert_eq!(node.apply("me", labels(&[("mine", "1")]), false), Ok(false), "the same again changes nothing");
    }

    #[test]
    fn what_is_no_longer_applied_goes_unless_somebody_else_has_it_too() {
        let mut node = object(Fields::new());
        node.apply("me", labels(&[("a", "1"), ("b", "1"), ("c", "1")]), false).unwrap();
        node.apply("you", labels(&[("b", "1")]), false).expect("the same value is shared");
        assert_eq!(owners(&node, &label("b")), ["me Apply", "you Apply"]);
        node.apply("me", labels(&[("a", "1")]), false).unwrap();
        assert_eq!(node.fields, labels(&[("a", "1"), ("b", "1")]));
        assert_eq!(owners(&node, &label("b")), ["you Apply"]);
        node.apply("me", Fields::new(), false).unwrap();
        assert_eq!(node.fields, labels(&[("b", "1")]));
        assert_eq!(node.managers.len(), 1, "whoever owns nothing is forgotten");
    }

    #[test]
    fn another_value_is_a_conflict_unless_forced() {
        let mut node = object(labels(&[("a", "1"), ("b", "1")]));
        let conflicts = node.apply("me", labels(&[("a", "2"), ("b", "1")]), false).unwrap_err();
        assert_eq!(conflicts, [Conflict { manager: "kubelet".to_owned(), field: label("a") }]);
        assert_eq!(node.fields, labels(&[("a", "1"), ("b", "1")]), "nothing of it was applied");
        assert_eq!(node.apply("me", labels(&[("a", "2"), ("b", "1")]), true), Ok(true));
        assert_eq!(node.fields, labels(&[("a", "2"), ("b", "1")]));
        assert_eq!(owners(&node, &label("a")), ["me Apply"], "taken from the other");
        assert_eq!(owners(&node, &label("b")), ["kubelet Update", "me Apply"], "shared");
    }

    #[test]
    fn an_update_takes_what_it_changes_without_a_conflict() {
        let mut node = object(Fields::new());
        node.apply("me", labels(&[("a", "1"), ("b", "1"), ("c", "1")]), false).unwrap();
        assert!(node.update("kubectl", labels(&[("a", "2"), ("b", "1")])));
        assert_eq!(owners(&node, &label("a")), ["kubectl Update"]);
        assert_eq!(owners(&node, &label("b")), ["me Apply"], "unchanged, so still ours");
        assert_eq!(owners(&node, &label("c")), [""; 0], "removed");
        node.apply("me", Fields::new(), false).unwrap();
        assert_eq!(node.fields, labels(&[("a", "2")]), "what was taken from us does not go with us");
        assert!(!node.update("kubectl", labels(&[("a", "2")])));
    }

    #[test]
    fn the_list_of_taints_is_one_field() {
        let mut node = object(taints(&["theirs"]));
        let conflicts = node.apply("me", taints(&["mine"]), false).unwrap_err();
        assert_eq!(conflicts[0].field.path(), ".spec.taints");
        assert_eq!(node.apply("me", taints(&["mine"]), true), Ok(true));
        assert_eq!(node.fields, taints(&["mine"]), "not merged: theirs is lost");
        node.apply("me", Fields::new(), true).unwrap();
        assert_eq!(node.fields, Fields::new(), "and with its last owner the whole list goes");
    }

    #[test]
    fn an_empty_list_empties_it() {
        let mut node = object(taints(&["theirs"]));
        assert_eq!(node.apply("me", taints(&[]), true), Ok(true));
        assert_eq!(node.document()["spec"], json!({}));
    }

    #[test]
    fn documents_show_owners_as_the_server_does() {
        let mut node = object(Fields::new());
        let mut given = labels(&[("example.com/a", "1")]);
        given.extend(taints(&["t"]));
        node.apply("me", given, false).unwrap();
        let document = node.document();
        assert_eq!(document["metadata"]["labels"], json!({ "example.com/a": "1" }));
        assert_eq!(
            document["metadata"]["managedFields"],
            json!([{
                "manager": "me", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1",
                "fieldsV1": { "f:metadata": { "f:labels": { "f:example.com/a": {} } }, "f:spec": { "f:taints": {} } },
            }])
        );
        assert_eq!(document["status"]["addresses"], json!([{ "type": "InternalIP", "address": "10.0.0.1" }]));
    }

    #[test]
    fn what_is_not_covered_is_refused() {
        let covered = json!({ "metadata": { "name": "n", "labels": { "a": "1" } }, "spec": { "unschedulable": true } });
        assert_eq!(fields(&covered).unwrap().len(), 2);
        for document in [json!({ "status": {} }), json!({ "metadata": { "finalizers": [] } }), json!({ "spec": 1 })] {
            assert!(fields(&document).is_err(), "{document}");
        }
    }
}
