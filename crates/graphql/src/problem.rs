//! What is wrong with a request or with a field, in the shape that goes into `errors`.

use async_graphql::{PathSegment, Pos, ServerError, Value, parser};
use serde::Serialize;

use crate::limits;

/// One element of `errors`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Problem {
    /// For people.
    pub message: String,
    /// Which field, or which part of which variable.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub path: Vec<PathSegment>,
    /// Where in the query text.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub locations: Vec<Pos>,
    /// For programs.
    #[serde(skip_serializing_if = "serde_json::Map::is_empty")]
    pub extensions: serde_json::Map<String, serde_json::Value>,
}

/// At what point a request was turned away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// The text is no GraphQL.
    Parsing,
    /// It does not fit the schema, or is larger than what is allowed.
    Validation,
}

/// A request that is not run.
#[derive(Debug, Clone, PartialEq)]
pub struct Refusal {
    /// At what point.
    pub phase: Phase,
    /// Why; at least one.
    pub problems: Vec<Problem>,
}

impl Phase {
    /// What `extensions.code` says.
    pub const fn code(self) -> &'static str {
        match self {
            Phase::Parsing => "GRAPHQL_PARSE_FAILED",
            Phase::Validation => "GRAPHQL_VALIDATION_FAILED",
        }
    }
}

impl Problem {
    /// A problem with nothing but its text.
    pub fn new(message: impl Into<String>) -> Problem {
        Problem { message: message.into(), path: Vec::new(), locations: Vec::new(), extensions: serde_json::Map::new() }
    }

    /// The same, at a place in the query text.
    #[must_use]
    pub fn at(mut self, place: Pos) -> Problem {
        self.locations.push(place);
        self
    }

    /// The same, with a word for programs.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<serde_json::Value>) -> Problem {
        self.extensions.insert(name.to_owned(), value.into());
        self
    }

    /// The same with every text cut off: what a caller sent is repeated in some of them, and must not fill the answer.
    #[must_use]
    pub fn bounded(mut self) -> Problem {
        cut(&mut self.message, limits::MESSAGE_BYTES_MAX);
        for segment in &mut self.path {
            if let PathSegment::Field(name) = segment {
                cut(name, limits::NAME_BYTES_MAX);
            }
        }
        for value in self.extensions.values_mut() {
            if let serde_json::Value::String(text) = value {
                cut(text, limits::NAME_BYTES_MAX);
            }
        }
        self
    }
}

/// Cuts a text off.
fn cut(text: &mut String, max: usize) {
    if text.len() > max {
        text.truncate(text.floor_char_boundary(max));
        text.push('…');
    }
}

impl Refusal {
    /// Turned away for one or more reasons; the code of the phase is added to each.
    pub fn new(phase: Phase, problems: impl IntoIterator<Item = Problem>) -> Refusal {
        let problems = problems.into_iter().take(limits::ERRORS_MAX);
        Refusal { phase, problems: problems.map(|problem| problem.with("code", phase.code()).bounded()).collect() }
    }
}

impl From<ServerError> for Problem {
    fn from(error: ServerError) -> Problem {
        let extensions = error.extensions.and_then(|values| serde_json::to_value(values).ok());
        let extensions = match extensions {
            Some(serde_json::Value::Object(map)) => map,
            _ => serde_json::Map::new(),
        };
        Problem { message: error.message, path: error.path, locations: error.locations, extensions }
    }
}

impl From<parser::Error> for Problem {
    fn from(error: parser::Error) -> Problem {
        let locations = error.positions().collect();
        Problem { locations, ..Problem::new(error.to_string()) }
    }
}

/// A value as the query text writes it, cut off.
pub fn shown(value: &Value) -> String {
    let mut text = value.to_string();
    cut(&mut text, limits::VALUE_BYTES_MAX);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_is_longer_than_its_bound() {
        let long = "é".repeat(5_000);
        let problem = Problem {
            path: vec![PathSegment::Field(long.clone()), PathSegment::Index(7)],
            ..Problem::new(long.clone()).with("serial", long)
        };
        let text = serde_json::to_string(&problem.bounded()).expect("JSON");
        assert!(text.len() < 2_048, "{text}");
        let short = Problem::new("a").with("b", "c");
        assert_eq!(short.clone().bounded(), short);
    }
}
