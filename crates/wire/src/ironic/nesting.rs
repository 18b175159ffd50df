//! How deep JSON of callers may be nested. What is stored has to be read again by a parser that goes no deeper than 128 levels: deeper,
//! and nobody could read the record it is in any more. So this holds for bodies and for whatever patches put together.

use serde_json::Value;

/// Levels of nesting. Nobody means more, and every level costs stack.
pub const NESTING_MAX: usize = 25;

/// How many levels of lists and objects a value has.
pub fn nesting(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(nesting).max().unwrap_or(0),
        Value::Object(members) => 1 + members.values().map(nesting).max().unwrap_or(0),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deep_values_are_measured() {
        let nested = |levels: usize| (0..levels).fold(Value::Null, |inner, _| Value::Array(vec![inner]));
        assert_eq!(nesting(&nested(0)), 0);
        assert_eq!(nesting(&nested(26)), 26);
        assert_eq!(nesting(&serde_json::json!({ "a": { "b": [] }, "c": 1 })), 3);
    }
}
