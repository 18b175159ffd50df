//! What lists and single things of all kinds have in common: the members a caller chose, pages, places.

use axum::{
    extract::RawQuery,
    http::{HeaderValue, StatusCode, header},
    response::Response,
};
use sabakan_wire::ironic::{Answer, Field, Show, unexpected};
use serde::{Serialize, Serializer, ser::SerializeMap};

use super::{
    call::{Call, json},
    error::Fault,
    nodes::{next_page, pairs},
};

/// The members a caller wants to see of one thing: those it chose, or all.
pub(super) fn chosen<F: Field>(call: &Call, query: &RawQuery) -> Result<Vec<F>, Fault> {
    let mut fields = F::all_of(call.version);
    for (name, value) in pairs(query) {
        match name.as_str() {
            "fields" => fields = F::chosen(&value, call.version)?,
            other => return Err(unexpected(other).into()),
        }
    }
    Ok(fields)
}

/// Answers with one thing.
pub(super) fn one<T: Show>(call: &Call, of: T, fields: &[T::Field]) -> Response {
    json(StatusCode::OK, &Answer { of, fields, base: &call.base })
}

/// Answers with a thing that was just made. `path`: where it is.
pub(super) fn made<T: Show>(call: &Call, of: T, path: &str) -> Response {
    let fields = T::Field::all_of(call.version);
    let mut response = json(StatusCode::CREATED, &Answer { of, fields: &fields, base: &call.base });
    if let Ok(place) = HeaderValue::from_str(&format!("{}/v1/{path}", call.base)) {
        response.headers_mut().insert(header::LOCATION, place);
    }
    response
}

/// A list, of which one page is answered.
pub(super) struct Collection<'a> {
    /// What answers call it.
    pub name: &'static str,
    /// Where it is.
    pub path: &'a str,
    /// Most items of the page.
    pub limit: usize,
}

/// Answers with one page of a list. A page that is full may be followed by another.
pub(super) fn page<T: Show>(
    call: &Call,
    query: &RawQuery,
    collection: &Collection<'_>,
    items: impl ExactSizeIterator<Item = T>,
    fields: &[T::Field],
    uuid_of: impl Fn(&T) -> String,
) -> Response {
    let items: Vec<Answer<'_, T>> = items.map(|of| Answer { of, fields, base: &call.base }).collect();
    let last = items.last().filter(|_| items.len() == collection.limit);
    let next = last.map(|last| next_page(call, collection.path, query, collection.limit, &uuid_of(&last.of)));
    json(StatusCode::OK, &Page { name: collection.name, items, next })
}

struct Page<T> {
    name: &'static str,
    items: Vec<T>,
    next: Option<String>,
}

impl<T: Serialize> Serialize for Page<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry(self.name, &self.items)?;
        if let Some(next) = &self.next {
            map.serialize_entry("next", next)?;
        }
        map.end()
    }
}
