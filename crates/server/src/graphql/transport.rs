//! The two ways a request comes: a JSON body, or the query of a URL. Everything else, forms and persisted queries included, is refused.

use axum::{
    body::Body,
    extract::Query,
    http::{HeaderMap, Method, Uri, header, request::Parts},
};
use sabakan_graphql::Request;
use sabakan_wire::json;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::error::Failure;
use crate::{limits, rest::body};

/// A body as clients send it. Keys it does not know are ignored, and the decoder lowers those it knows.
#[derive(Default, Deserialize)]
#[serde(default)]
struct RequestJson {
    query: Option<String>,
    #[serde(rename = "operationname")]
    operation_name: Option<String>,
    variables: Option<Map<String, Value>>,
}

/// Takes a request from HTTP.
pub(super) async fn read(parts: &Parts, body: Body) -> Result<Request, Failure> {
    match parts.method {
        Method::POST if is_json(&parts.headers) => {
            let bytes = body::read(&parts.headers, body, limits::GRAPHQL_BYTES_MAX).await?;
            from_json(&bytes)
        }
        Method::GET => from_uri(&parts.uri),
        _ => Err(Failure::no_transport()),
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json")
}

fn from_json(bytes: &[u8]) -> Result<Request, Failure> {
    let request = json::decode::<RequestJson>(bytes);
    let request = request.map_err(|error| Failure::undecodable("the JSON of the request body", error))?;
    Ok(Request {
        query: request.query.unwrap_or_default(),
        operation_name: request.operation_name,
        variables: request.variables.unwrap_or_default(),
    })
}

fn from_uri(uri: &Uri) -> Result<Request, Failure> {
    let pairs = Query::<Vec<(String, String)>>::try_from_uri(uri);
    let Query(pairs) = pairs.map_err(|error| Failure::undecodable("the query of the URL", error))?;
    let mut request = Request::default();
    for (name, value) in pairs {
        match name.as_str() {
            "query" => request.query = value,
            "operationName" => request.operation_name = Some(value),
            "variables" if !value.is_empty() => {
                let variables: Option<Map<String, Value>> =
                    serde_json::from_str(&value).map_err(|error| Failure::undecodable("variables", error))?;
                request.variables = variables.unwrap_or_default();
            }
            _ => {}
        }
    }
    Ok(request)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_read_as_clients_send_them() {
        let check = |body: &str, expected: Option<(&str, Option<&str>, &str)>| {
            let read = from_json(body.as_bytes()).ok();
            let read = read.map(|r| (r.query, r.operation_name, Value::Object(r.variables).to_string()));
            let expected = expected.map(|(q, o, v)| (q.to_owned(), o.map(str::to_owned), v.to_owned()));
            assert_eq!(read, expected, "{body}");
        };
        check(r#"{"query": "{a}"}"#, Some(("{a}", None, "{}")));
        check(r#"{"query": "{a}", "operationName": null, "variables": null}"#, Some(("{a}", None, "{}")));
        let full = r#"{"query": "{a}", "operationName": "x", "variables": {"v": [1]}, "extensions": {}, "z": 1}"#;
        check(full, Some(("{a}", Some("x"), r#"{"v":[1]}"#)));
        check("{}", Some(("", None, "{}")));
        // As everywhere: keys in any case, the first value of the body, null for nothing. Names of variables are the caller's.
        check(
            r#"{"Query": "{a}", "OPERATIONNAME": "x", "variables": {"V": {"Query": 1}}} trailing"#,
            Some(("{a}", Some("x"), r#"{"V":{"Query":1}}"#)),
        );
        check("null", Some(("", None, "{}")));
        for bad in [
            "",
            "{",
            "7",
            "[]",
            r#"["{a}"]"#,
            r#"[{"query": "{a}"}]"#,
            r#"{"query": 7}"#,
            r#"{"variables": [1]}"#,
            "\u{feff}{}",
        ] {
            check(bad, None);
        }
        check(&format!("{}{}", "[".repeat(10_000), "]".repeat(10_000)), None);
    }

    #[test]
    fn urls_are_read_as_clients_send_them() {
        let read = |uri: &str| from_uri(&uri.parse().expect(uri)).map_err(drop);
        let request = read("/graphql?query=%7B+a%7D&operationName=x&variables=%7B%22v%22%3A1%7D&extensions=%7B%7D")
            .expect("read");
        assert_eq!((request.query.as_str(), request.operation_name.as_deref()), ("{ a}", Some("x")));
        assert_eq!(Value::Object(request.variables).to_string(), r#"{"v":1}"#);
        for empty in ["/graphql", "/graphql?query=&variables=", "/graphql?variables=null"] {
            assert!(
                read(empty).is_ok_and(|request| request.query.is_empty() && request.variables.is_empty()),
                "{empty}"
            );
        }
        for bad in ["/graphql?variables=x", "/graphql?variables=7", "/graphql?variables=%5B%5D"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn json_by_its_name() {
        let check = |name: &str, expected: bool| {
            let mut headers = HeaderMap::new();
            headers.insert(header::CONTENT_TYPE, name.parse().expect(name));
            assert_eq!(is_json(&headers), expected, "{name}");
        };
        check("application/json", true);
        check("Application/JSON ; charset=utf-8", true);
        for other in ["", "text/plain", "application/graphql", "application/jsonx", "multipart/form-data; boundary=x"] {
            check(other, false);
        }
        assert!(!is_json(&HeaderMap::new()));
    }
}
