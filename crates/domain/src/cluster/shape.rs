//! What people may write, as a table: which members an object has and what each must be. Everything that is wrong is told at once,
//! each with its place.
//!
//! A table is an [`Object`] with its [`Field`]s. [`check`] holds a document against it, [`fill`] puts defaults in, and [`page`]
//! prints it for people, so that what is accepted and what is documented cannot differ. What a table cannot say, such as two members
//! that exclude each other, is a function of the object; its sentence is in [`Object::text`].

mod checker;
pub mod page;
mod place;

use std::{
    collections::{BTreeMap, btree_map::Entry},
    fmt,
};

use serde_json::{Map, Value};

pub use checker::Checker;
pub use place::Place;

use crate::limits::{QUOTED_CHARS_MAX, TEMPLATE_ITEMS_MAX};

/// Something wrong in what somebody wrote.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// Where, such as `nodes[1].labels`; empty: the document as a whole.
    pub path: String,
    /// What, and what would be right.
    pub reason: String,
}

impl Problem {
    /// Something wrong there.
    pub fn new(path: impl Into<String>, reason: impl Into<String>) -> Problem {
        Problem { path: path.into(), reason: reason.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() { f.write_str(&self.reason) } else { write!(f, "{}: {}", self.path, self.reason) }
    }
}

/// What a text must be like.
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    /// What such a text is called.
    pub name: &'static str,
    /// How it looks, to follow "must be" or a colon.
    pub text: &'static str,
    /// Whether a text is one.
    pub accepts: fn(&str) -> bool,
}

/// What a value must be.
#[derive(Debug, Clone, Copy)]
pub enum Shape {
    /// A text.
    Text(&'static Rule),
    /// One of these words.
    Word(&'static [&'static str]),
    /// True or false.
    Bool,
    /// A whole number within bounds.
    Integer {
        /// The least.
        min: i64,
        /// The greatest.
        max: i64,
    },
    /// A list of so many.
    List {
        /// What each is.
        of: &'static Shape,
        /// The fewest.
        min: usize,
        /// The most.
        max: usize,
    },
    /// An object whose keys are free.
    Map {
        /// What each key is.
        key: &'static Rule,
        /// What each value is.
        value: &'static Shape,
    },
    /// An object with known members.
    Object(&'static Object),
    /// Any JSON: somebody else's document that is passed on.
    Any,
}

impl Shape {
    /// A list of any length.
    pub const fn list(of: &'static Shape) -> Shape {
        Shape::List { of, min: 0, max: TEMPLATE_ITEMS_MAX }
    }

    /// A list of one or more.
    pub const fn some(of: &'static Shape) -> Shape {
        Shape::List { of, min: 1, max: TEMPLATE_ITEMS_MAX }
    }

    /// A whole number that is not less.
    pub const fn at_least(min: i64) -> Shape {
        Shape::Integer { min, max: i32::MAX as i64 }
    }
}

/// Whether a member must be there. `null` always counts as not there: other programs write it for an empty list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// It must.
    Required,
    /// It may be left out.
    Optional,
    /// It may be left out; an empty text counts as that, because other programs write one.
    OrEmpty,
}

/// What holds when a member is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fallback {
    /// Nothing in particular.
    None,
    /// Whoever carries the document out takes this; the document stays as it is.
    Means(&'static str),
    /// This text is put there.
    Filled(&'static str),
}

/// A member of an object.
#[derive(Debug, Clone, Copy)]
pub struct Field {
    /// Its key.
    pub name: &'static str,
    /// What it must be.
    pub shape: Shape,
    /// Whether it must be there.
    pub presence: Presence,
    /// What holds otherwise.
    pub fallback: Fallback,
    /// What it is for, in a sentence.
    pub text: &'static str,
}

impl Field {
    /// A member that must be there.
    pub const fn required(name: &'static str, shape: Shape, text: &'static str) -> Field {
        Field { name, shape, presence: Presence::Required, fallback: Fallback::None, text }
    }

    /// A member that may be left out.
    pub const fn optional(name: &'static str, shape: Shape, text: &'static str) -> Field {
        Field { name, shape, presence: Presence::Optional, fallback: Fallback::None, text }
    }

    /// A member that may be left out or empty.
    pub const fn or_empty(name: &'static str, shape: Shape, text: &'static str) -> Field {
        Field { name, shape, presence: Presence::OrEmpty, fallback: Fallback::None, text }
    }

    /// The same, and what its absence means.
    pub const fn means(self, value: &'static str) -> Field {
        Field { fallback: Fallback::Means(value), ..self }
    }

    /// The same, and what is put in its place.
    pub const fn filled(self, value: &'static str) -> Field {
        Field { fallback: Fallback::Filled(value), ..self }
    }
}

/// Looks at the members of an object at a place.
pub type Check = fn(&Map<String, Value>, &Place<'_>, &mut Checker);

/// An object with known members.
#[derive(Debug, Clone, Copy)]
pub struct Object {
    /// What it is called; different for each.
    pub name: &'static str,
    /// What it is for, and what [`Object::check`] demands.
    pub text: &'static str,
    /// Its members, in groups so that objects can share some.
    pub fields: &'static [&'static [Field]],
    /// Other members are passed on. Otherwise they are refused: a misspelt key would have no effect and no message.
    pub open: bool,
    /// What no field can say alone. It sees members that may be wrong, and then says nothing about them.
    pub check: Check,
}

impl Object {
    /// An object that refuses other members.
    pub const fn new(name: &'static str, text: &'static str, fields: &'static [&'static [Field]]) -> Object {
        Object { name, text, fields, open: false, check: |_, _, _| {} }
    }

    /// The same with a function for what no field can say alone.
    pub const fn checked(self, check: Check) -> Object {
        Object { check, ..self }
    }

    /// The same, passing other members on.
    pub const fn open(self) -> Object {
        Object { open: true, ..self }
    }

    /// Its members in order.
    pub fn fields(&self) -> impl Iterator<Item = &'static Field> + use<> {
        self.fields.iter().copied().flatten()
    }

    /// Whether it or an object in it has a member to be filled in.
    fn has_filled(&self) -> bool {
        self.fields().any(|field| match (field.fallback, field.shape) {
            (Fallback::Filled(_), _) => true,
            (_, Shape::Object(inner)) => inner.has_filled(),
            _ => false,
        })
    }
}

/// Everything wrong in a document, the first [`crate::limits::PROBLEMS_SHOWN_MAX`] of it.
pub fn check(object: &Object, document: &Value) -> Vec<Problem> {
    let mut checker = Checker::default();
    checker.object(&Place::ROOT, object, document);
    checker.finish()
}

/// Puts defaults in, making objects where one needs a place.
pub fn fill(object: &Object, members: &mut Map<String, Value>) {
    for field in object.fields() {
        let absent = members.get(field.name).is_none_or(Value::is_null);
        match (field.fallback, field.shape) {
            (Fallback::Filled(text), _) if absent => {
                members.insert(field.name.to_owned(), text.into());
            }
            (_, Shape::Object(inner)) if inner.has_filled() => {
                if absent {
                    members.insert(field.name.to_owned(), Value::Object(Map::new()));
                }
                if let Some(Value::Object(members)) = members.get_mut(field.name) {
                    fill(inner, members);
                }
            }
            _ => {}
        }
    }
}

/// A member that is a text; empty if it is not there or something else.
pub(super) fn text<'a>(members: &'a Map<String, Value>, name: &str) -> &'a str {
    members.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// The items of a member that is a list; none if it is not there or something else.
pub(super) fn items<'a>(members: &'a Map<String, Value>, name: &str) -> &'a [Value] {
    members.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Items that have the key of an earlier one: the place of each, and of the first with that key. `None` is no key.
pub(super) fn repeats<K: Ord>(keys: impl IntoIterator<Item = Option<K>>) -> Vec<(usize, usize)> {
    let mut places = BTreeMap::new();
    let mut repeats = Vec::new();
    for (place, key) in keys.into_iter().enumerate() {
        let Some(key) = key else { continue };
        match places.entry(key) {
            Entry::Occupied(first) => repeats.push((place, *first.get())),
            Entry::Vacant(free) => {
                free.insert(place);
            }
        }
    }
    repeats
}

/// Somebody's text, short enough to be shown.
pub(super) fn quote(text: &str) -> String {
    match text.char_indices().nth(QUOTED_CHARS_MAX) {
        Some((end, _)) => format!("{:?}…", &text[..end]),
        None => format!("{text:?}"),
    }
}

/// Rules that have nothing to do with Kubernetes.
pub mod rules {
    use std::net::IpAddr;

    use super::Rule;

    /// Any text.
    pub const TEXT: Rule = Rule { name: "text", text: "any text", accepts: |_| true };
    /// Something.
    pub const NOT_EMPTY: Rule =
        Rule { name: "non-empty text", text: "at least one character", accepts: |text| !text.is_empty() };
    /// An address.
    pub const ADDRESS: Rule = Rule {
        name: "IP address",
        text: "an IPv4 or IPv6 address, such as `10.0.0.1`",
        accepts: |text| text.parse::<IpAddr>().is_ok(),
    };
    /// A network.
    pub const NETWORK: Rule = Rule {
        name: "network",
        text: "an address and the bits of its prefix, such as `10.68.0.0/16`",
        accepts: |text| text.parse::<ipnet::IpNet>().is_ok(),
    };
    /// A path that does not depend on where somebody stands.
    pub const ABSOLUTE_PATH: Rule =
        Rule { name: "absolute path", text: "a path that begins with `/`", accepts: |text| text.starts_with('/') };
    /// The name of an environment variable.
    pub const VARIABLE: Rule = Rule {
        name: "environment variable",
        text: "at least one character, none of them `=` or NUL",
        accepts: |text| !text.is_empty() && !text.contains(['=', '\0']),
    };
}

#[cfg(test)]
mod tests;
