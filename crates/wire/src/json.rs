//! Reading JSON the way clients of this API have always been able to write it: object keys match whatever their case, unknown keys
//! are ignored, only the first value of a body counts. Errors name the path of the field that is wrong.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, IntoDeserializer, MapAccess, SeqAccess, Visitor},
};

/// A body that is not the JSON that was expected.
#[derive(Debug, thiserror::Error)]
pub struct DecodeError {
    path: String,
    reason: serde_json::Error,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() { self.reason.fmt(f) } else { write!(f, "{}: {}", self.path, self.reason) }
    }
}

/// Decodes the first JSON value of a body. `null` is the type's default.
pub fn decode<'de, T: Deserialize<'de> + Default>(body: &'de [u8]) -> Result<T, DecodeError> {
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    let value: Option<T> = serde_path_to_error::deserialize(FoldKeys(&mut deserializer)).map_err(|error| {
        // A path may end in a place that has no name yet, shown as `?`; the whole body is shown as `.`.
        let path = error.path().to_string();
        DecodeError { path: path.trim_end_matches(['.', '?']).to_owned(), reason: error.into_inner() }
    })?;
    Ok(value.unwrap_or_default())
}

/// A deserializer that lower-cases the keys of structs, at any depth. Maps are left as they are: the case of a label matters.
/// Unlike serde's default it takes no array for a struct.
struct FoldKeys<D>(D);

/// Forwards what holds no struct.
macro_rules! forward {
    ($($method:ident)*) => { $(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
            self.0.$method(visitor)
        }
    )* };
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for FoldKeys<D> {
    type Error = D::Error;

    forward! {
        deserialize_any deserialize_bool deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_u8
        deserialize_u16 deserialize_u32 deserialize_u64 deserialize_f32 deserialize_f64 deserialize_char deserialize_str
        deserialize_string deserialize_bytes deserialize_byte_buf deserialize_unit deserialize_map deserialize_identifier
        deserialize_ignored_any
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_option(Fold(visitor))
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_seq(Fold(visitor))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_struct(name, fields, FoldStruct(visitor))
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_unit_struct(name, visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_newtype_struct(name, visitor)
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_tuple(len, visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_tuple_struct(name, len, visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_enum(name, variants, visitor)
    }
}

/// Carries the folding into options and lists.
struct Fold<T>(T);

impl<'de, V: Visitor<'de>> Visitor<'de> for Fold<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(f)
    }

    fn visit_none<E: serde::de::Error>(self) -> Result<V::Value, E> {
        self.0.visit_none()
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<V::Value, E> {
        self.0.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<V::Value, D::Error> {
        self.0.visit_some(FoldKeys(deserializer))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<V::Value, A::Error> {
        self.0.visit_seq(Fold(seq))
    }
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Fold<A> {
    type Error = A::Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        self.0.next_element_seed(Fold(seed))
    }

    fn size_hint(&self) -> Option<usize> {
        self.0.size_hint()
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Fold<S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<S::Value, D::Error> {
        self.0.deserialize(FoldKeys(deserializer))
    }
}

/// Visits an object as a struct with lower-case keys.
struct FoldStruct<V>(V);

impl<'de, V: Visitor<'de>> Visitor<'de> for FoldStruct<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<V::Value, A::Error> {
        self.0.visit_map(FoldStruct(map))
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for FoldStruct<A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        let Some(mut key) = self.0.next_key::<String>()? else { return Ok(None) };
        key.make_ascii_lowercase();
        seed.deserialize(key.into_deserializer()).map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        self.0.next_value_seed(Fold(seed))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(rename_all = "kebab-case", default)]
    struct Outer {
        max_nodes: Option<u32>,
        inner: Option<Inner>,
        list: Vec<Inner>,
        labels: Option<BTreeMap<String, String>>,
    }

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(default)]
    struct Inner {
        name: String,
    }

    #[test]
    fn keys_of_objects_match_in_any_case_and_labels_do_not() {
        let body =
            br#"{"Max-Nodes":3,"INNER":{"Name":"a"},"List":[{"NAME":"b"}],"labels":{"Rack":"A"},"unknown":[{}]} junk"#;
        let value: Outer = decode(body).expect("decodes");
        assert_eq!(value.max_nodes, Some(3));
        assert_eq!(value.inner, Some(Inner { name: "a".into() }));
        assert_eq!(value.list, [Inner { name: "b".into() }]);
        assert_eq!(value.labels, Some(BTreeMap::from([("Rack".to_owned(), "A".to_owned())])));
        assert_eq!(decode::<Outer>(b"null").expect("null"), Outer::default());
    }

    #[test]
    fn errors_name_the_field() {
        let check = |body: &str, expected: &str| {
            let error = decode::<Outer>(body.as_bytes()).expect_err(body).to_string();
            assert!(error.starts_with(expected), "{body}: {error}");
        };
        check("", "EOF while parsing");
        check("{", "EOF while parsing an object");
        check(r#"{"max-nodes":-1}"#, "max-nodes: invalid value: integer `-1`, expected u32");
        check(r#"{"max-nodes":1.5}"#, "max-nodes: invalid type: floating point `1.5`, expected u32");
        check(r#"{"max-nodes":4294967296}"#, "max-nodes: invalid value");
        check(r#"{"inner":{"name":3}}"#, "inner.name: invalid type: integer `3`, expected a string");
        check(r#"{"list":[{"name":"a"},null]}"#, "list[1]: invalid type: null, expected an object");
        check(r#"{"inner":["a"]}"#, "inner: invalid type: sequence, expected an object");
        check("[]", "invalid type: sequence, expected an object");
        check(r#"{"max-nodes":1,"MAX-NODES":2}"#, "duplicate field `max-nodes`");
    }

    #[test]
    fn a_body_cut_at_any_byte_is_an_error() {
        let body = br#"{"max-nodes":3,"inner":{"name":"a"},"list":[{"name":"b"}],"labels":{"x":"y"}}"#;
        for end in 0..body.len() {
            assert!(decode::<Outer>(&body[..end]).is_err(), "{end}");
        }
    }
}
