//! What callers write about something: the members of a creation, and the document a patch is applied to. Both are the same type, so
//! that what may be written at all may be written in either way.

use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, de::DeserializeOwned, de::Error as _};
use serde_json::{Map, Value};

use super::{Field, Operation, Refused, Version, field::check_since, patch};

/// Members that callers may write. `null` is as good as absent; an unknown member is refused.
pub trait Document: Default + Serialize + DeserializeOwned {
    /// Members that answers show of it.
    type Field: Field;

    /// Reads the body of a creation: the UUID, if one is given, and everything else.
    fn parse_creation<I: FromStr>(body: Value, version: Version) -> Result<(Option<I>, Self), Refused> {
        let Value::Object(mut members) = body else {
            return Err(schema::<Self::Field>(format!("{body} is not of type 'object'")));
        };
        for name in members.keys() {
            check_since::<Self::Field>(name, version)?;
        }
        let id = match members.remove("uuid") {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) => Some(parse_uuid("uuid", &text)?),
            Some(other) => return Err(Refused::invalid(format!("Expected UUID for uuid: {other}"))),
        };
        Ok((id, Self::parse(members)?))
    }

    /// Reads a whole document.
    fn parse(members: Map<String, Value>) -> Result<Self, Refused> {
        serde_json::from_value(Value::Object(members)).map_err(|error| schema::<Self::Field>(error.to_string()))
    }

    /// The document itself.
    fn document(&self) -> Map<String, Value> {
        match serde_json::to_value(self) {
            Ok(Value::Object(members)) => members,
            // Texts, truth values and JSON serialise to an object.
            _ => Map::new(),
        }
    }

    /// The document after a patch: all of it is applied, or nothing.
    fn patched(&self, operations: &[Operation]) -> Result<Self, Refused> {
        Self::parse(patch::apply(&self.document(), operations)?)
    }
}

/// A document that is not as it has to be.
pub(super) fn schema<F: Field>(why: impl AsRef<str>) -> Refused {
    Refused::invalid(format!("Schema error for {}: {}", F::OF, why.as_ref()))
}

/// A UUID under a name.
pub fn parse_uuid<I: FromStr>(name: &str, text: &str) -> Result<I, Refused> {
    text.parse().map_err(|_| Refused::invalid(format!("Expected UUID for {name}: {text}")))
}

/// A truth value, or a word for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(transparent)]
pub(super) struct Flag(pub(super) Option<bool>);

impl<'de> Deserialize<'de> for Flag {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Flag, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::Null => Ok(Flag(None)),
            Value::Bool(truth) => Ok(Flag(Some(truth))),
            Value::String(text) => parse_bool(&text).map(|truth| Flag(Some(truth))).map_err(D::Error::custom),
            other => Err(D::Error::custom(format!("{other} is not of type 'boolean'"))),
        }
    }
}

/// A word for a truth value.
pub fn parse_bool(text: &str) -> Result<bool, String> {
    match text.trim().to_ascii_lowercase().as_str() {
        "true" | "t" | "yes" | "y" | "on" | "1" => Ok(true),
        "false" | "f" | "no" | "n" | "off" | "0" => Ok(false),
        _ => Err(format!(
            "Unrecognized value '{text}', acceptable values are: '0', '1', 'f', 'false', 'n', 'no', 'off', 'on', 't', 'true', \
             'y', 'yes'"
        )),
    }
}
