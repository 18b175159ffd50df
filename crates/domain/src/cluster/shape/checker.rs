//! Holds a document against a table.

use serde_json::{Map, Value};

use super::{Object, Place, Presence, Problem, Rule, Shape, quote};
use crate::limits::{PROBLEMS_SHOWN_MAX, QUOTED_CHARS_MAX, TEMPLATE_DEPTH_MAX};

/// Collects what is wrong.
#[derive(Debug, Default)]
pub struct Checker {
    problems: Vec<Problem>,
    /// How many are not shown.
    more: usize,
}

impl Checker {
    /// Something is wrong there.
    pub fn problem(&mut self, place: &Place<'_>, reason: impl Into<String>) {
        if self.problems.len() < PROBLEMS_SHOWN_MAX {
            self.problems.push(Problem::new(place.to_string(), reason));
        } else {
            self.more += 1;
        }
    }

    /// Everything that is wrong; the last says how much is not shown.
    pub fn finish(mut self) -> Vec<Problem> {
        if self.more > 0 {
            self.problems.push(Problem::new("", format!("… and {} more", self.more)));
        }
        self.problems
    }

    /// Checks a value.
    pub fn value(&mut self, place: &Place<'_>, shape: &Shape, value: &Value) {
        match shape {
            Shape::Text(rule) => match value {
                Value::String(text) => self.text(place, rule, text),
                // What YAML takes for something else without quotes.
                Value::Number(_) | Value::Bool(_) => self.wrong_kind(place, "a text in quotes", value),
                _ => self.wrong_kind(place, "a text", value),
            },
            Shape::Word(words) => match value {
                Value::String(word) if words.contains(&word.as_str()) => {}
                Value::String(word) => {
                    self.problem(place, format!("{} is not one of {}", quote(word), words.join(", ")));
                }
                _ => self.wrong_kind(place, &format!("one of {}", words.join(", ")), value),
            },
            Shape::Bool if value.is_boolean() => {}
            Shape::Bool => self.wrong_kind(place, "true or false", value),
            Shape::Integer { min, max } => match value {
                Value::Number(number) if number.as_i64().is_some_and(|number| (*min..=*max).contains(&number)) => {}
                Value::Number(number) => {
                    self.problem(place, format!("{number} is not a whole number from {min} to {max}"));
                }
                _ => self.wrong_kind(place, &format!("a whole number from {min} to {max}"), value),
            },
            Shape::List { of, min, max } => self.list(place, of, *min, *max, value),
            Shape::Map { key, value: of } => self.map(place, key, of, value),
            Shape::Object(object) => self.object(place, object, value),
            Shape::Any => self.any(place, value, TEMPLATE_DEPTH_MAX),
        }
    }

    /// Checks a text.
    pub fn text(&mut self, place: &Place<'_>, rule: &Rule, text: &str) {
        if !(rule.accepts)(text) {
            self.problem(place, format!("{} is not a valid {}: {}", quote(text), rule.name, rule.text));
        }
    }

    /// Checks an object.
    pub fn object(&mut self, place: &Place<'_>, object: &Object, value: &Value) {
        match value {
            Value::Object(members) => self.members(place, object, members),
            _ => self.wrong_kind(place, "an object", value),
        }
    }

    /// Checks the members of an object.
    pub fn members(&mut self, place: &Place<'_>, object: &Object, members: &Map<String, Value>) {
        for field in object.fields() {
            match (members.get(field.name), field.presence) {
                (None | Some(Value::Null), Presence::Required) => {
                    self.problem(&place.key(field.name), format!("is missing. {}", field.text));
                }
                (None | Some(Value::Null), _) => {}
                (Some(Value::String(text)), Presence::OrEmpty) if text.is_empty() => {}
                (Some(value), _) => self.value(&place.key(field.name), &field.shape, value),
            }
        }
        for (key, value) in members {
            if object.fields().any(|field| field.name == key) {
                continue;
            }
            if object.open {
                self.any(&place.key(key), value, TEMPLATE_DEPTH_MAX);
            } else {
                self.problem(&place.key(key), unknown(object, key));
            }
        }
        (object.check)(members, place, self);
    }

    fn list(&mut self, place: &Place<'_>, of: &Shape, min: usize, max: usize, value: &Value) {
        let Value::Array(items) = value else { return self.wrong_kind(place, "a list", value) };
        if items.len() < min {
            self.problem(place, format!("has {} entries; at least {min} is needed", items.len()));
        }
        if items.len() > max {
            return self.problem(place, format!("has {} entries; at most {max} are allowed", items.len()));
        }
        for (index, item) in items.iter().enumerate() {
            self.value(&place.index(index), of, item);
        }
    }

    fn map(&mut self, place: &Place<'_>, key: &Rule, of: &Shape, value: &Value) {
        let Value::Object(members) = value else { return self.wrong_kind(place, "an object", value) };
        for (name, value) in members {
            let place = place.key(name);
            self.text(&place, key, name);
            self.value(&place, of, value);
        }
    }

    fn any(&mut self, place: &Place<'_>, value: &Value, depth: usize) {
        match value {
            Value::Array(_) | Value::Object(_) if depth == 0 => {
                self.problem(place, format!("is too deep; at most {TEMPLATE_DEPTH_MAX} levels are allowed"));
            }
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.any(&place.index(index), item, depth - 1);
                }
            }
            Value::Object(members) => {
                for (key, value) in members {
                    self.any(&place.key(key), value, depth - 1);
                }
            }
            _ => {}
        }
    }

    fn wrong_kind(&mut self, place: &Place<'_>, wanted: &str, value: &Value) {
        let found = match value {
            Value::Null => "null",
            Value::Bool(_) => "true or false",
            Value::Number(_) => "a number",
            Value::String(_) => "a text",
            Value::Array(_) => "a list",
            Value::Object(_) => "an object",
        };
        self.problem(place, format!("must be {wanted}, is {found}"));
    }
}

/// What to say about a key that an object does not have.
fn unknown(object: &Object, key: &str) -> String {
    let known: Vec<&str> = object.fields().map(|field| field.name).collect();
    // A third of the letters: `extra_arg` and `extra-args` are meant as `extra_args`, `labels` is not meant as `tables`.
    let near = |name: &&&str| distance(name, key) <= name.len().div_ceil(3).min(4);
    let nearest = known.iter().filter(near).min_by_key(|name| distance(name, key));
    let known_list = known.join(", ");
    match nearest {
        Some(name) => format!("unknown key; did you mean {name}? Known: {known_list}"),
        None => format!("unknown key; known: {known_list}"),
    }
}

/// How many letters have to be changed, added or taken away (Levenshtein); small and capital ones are alike. Long texts count as
/// different.
fn distance(a: &str, b: &str) -> usize {
    if b.len() > 2 * QUOTED_CHARS_MAX {
        return usize::MAX;
    }
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.bytes().enumerate() {
            let changed = diagonal + usize::from(!x.eq_ignore_ascii_case(&y));
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}
