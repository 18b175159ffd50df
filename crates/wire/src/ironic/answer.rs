//! Answers, member by member: only what was asked for is put together.

use serde::{Serialize, Serializer, ser::SerializeMap};
use serde_json::Value;

use super::Field;

/// Something answers show.
pub trait Show {
    /// Its members.
    type Field: Field;

    /// The value of one member. `base`: what links begin with.
    fn value(&self, field: Self::Field, base: &str) -> Value;
}

/// Some members of something.
#[derive(Debug, Clone, Copy)]
pub struct Answer<'a, T: Show> {
    /// What it shows.
    pub of: T,
    /// Which members.
    pub fields: &'a [T::Field],
    /// What links begin with.
    pub base: &'a str,
}

impl<T: Show> Serialize for Answer<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.fields.len()))?;
        for field in self.fields {
            map.serialize_entry(field.name(), &self.of.value(*field, self.base))?;
        }
        map.end()
    }
}
