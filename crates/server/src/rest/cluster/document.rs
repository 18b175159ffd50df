//! Documents of the cluster, as JSON or YAML, whichever people write or ask for.

use std::sync::Arc;

use axum::{
    body::Body,
    http::{HeaderMap, header},
    response::{IntoResponse, Response},
};
use sabakan_domain::cluster::shape::Problem;
use sabakan_wire::rest::ErrorKind;
use serde_json::Value;
use tokio::sync::Semaphore;

use super::super::{ApiError, body};
use crate::{
    limits,
    yaml::{self, YamlRefusal},
};

/// Names of YAML; the first is the registered one.
const YAML: [&str; 4] = ["application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml"];

/// How a document is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Json,
    Yaml,
}

/// Which format a caller asks for: `?format=`, or else the header `Accept`, or else JSON.
pub(super) fn wanted(headers: &HeaderMap, format: Option<&str>) -> Result<Format, ApiError> {
    match format {
        Some("yaml") => return Ok(Format::Yaml),
        Some("json") => return Ok(Format::Json),
        Some(other) => return Err(ApiError::invalid(format!("format is {other:?}; json and yaml are known"))),
        None => {}
    }
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let first = accept.split(',').map(media_type).find(|name| *name == "application/json" || is_yaml(name));
    Ok(if first.is_some_and(is_yaml) { Format::Yaml } else { Format::Json })
}

/// A document in that format.
pub(super) fn answer(document: &Value, format: Format) -> Response {
    let (name, text) = match format {
        Format::Json => ("application/json", format!("{document}\n")),
        Format::Yaml => (YAML[0], to_yaml(document)),
    };
    ([(header::CONTENT_TYPE, name), (header::VARY, "accept")], text).into_response()
}

/// A document in YAML.
pub(super) fn to_yaml(document: &Value) -> String {
    serde_saphyr::to_string(document).expect("JSON can be written as YAML")
}

/// A document somebody sent, and what only a reader of YAML can say about it.
pub(super) struct ReadDocument {
    pub(super) document: Value,
    pub(super) policy_problem: Option<Problem>,
}

/// Reads a document of at most `max` bytes, away from the threads that serve connections, and after those before it: two at once keep
/// two threads busy, and a hundred would take the memory of the machine.
pub(super) async fn read(
    turns: &Arc<Semaphore>,
    headers: &HeaderMap,
    body: Body,
    max: usize,
) -> Result<ReadDocument, ApiError> {
    let given =
        headers.get(header::CONTENT_TYPE).map(|value| media_type(value.to_str().unwrap_or_default()).to_owned());
    let format = match given.as_deref() {
        Some(name) if is_yaml(name) => Some(Format::Yaml),
        Some("application/json") => Some(Format::Json),
        // What simple clients call anything. It is recognised by its first character.
        Some("" | "application/x-www-form-urlencoded" | "application/octet-stream" | "text/plain") | None => None,
        Some(name) => {
            let text = format!("content type {name:?} is not accepted; application/json and {} are, or none", YAML[0]);
            return Err(ApiError::invalid(text));
        }
    };
    let payload = body::read_any(headers, body, max).await?;
    let turn = tokio::time::timeout(limits::DOCUMENT_WAIT_MAX, Arc::clone(turns).acquire_owned()).await;
    let Ok(Ok(turn)) = turn else {
        let text = "too many documents are being read; nothing was changed, try again";
        return Err(ApiError::new(ErrorKind::Unavailable, text));
    };
    let read = move || {
        // Given back when the work is done, also if nobody waits for it any more.
        let _turn = turn;
        let document = parse(&payload, format)?;
        let policy_problem = policy_problem(&document);
        Ok(ReadDocument { document, policy_problem })
    };
    let parsed = tokio::task::spawn_blocking(read).await;
    let parsed = parsed.map_err(|_| ApiError::new(ErrorKind::Internal, "internal error"))?;
    parsed.map_err(|problem| ApiError::problems(&[problem]))
}

fn parse(bytes: &[u8], format: Option<Format>) -> Result<Value, Problem> {
    let text = std::str::from_utf8(bytes).map_err(|error| Problem::new("", format!("is not UTF-8: {error}")))?;
    let looks_like_json = text.trim_start().starts_with(['{', '[']);
    let format = format.unwrap_or(if looks_like_json { Format::Json } else { Format::Yaml });
    match format {
        Format::Json if body::json_values(bytes) > limits::DOCUMENT_VALUES_MAX => {
            Err(Problem::new("", format!("has more than {} values", limits::DOCUMENT_VALUES_MAX)))
        }
        Format::Json => serde_json::from_str(text).map_err(|error| Problem::new("", format!("is not JSON: {error}"))),
        Format::Yaml => yaml::parse(text).map_err(|refusal| Problem::new("", unreadable(&refusal))),
    }
}

/// Why a text is not read, as it follows the name of the text.
fn unreadable(refusal: &YamlRefusal) -> String {
    match refusal {
        YamlRefusal::Bound(bound) => bound.clone(),
        YamlRefusal::Malformed(error) => {
            format!("is not YAML: {}", error.to_string().lines().next().unwrap_or_default())
        }
    }
}

/// What only a reader of YAML can say about a template or a configuration.
fn policy_problem(document: &Value) -> Option<Problem> {
    let policy = document.pointer("/options/kube-api/audit_log_policy")?.as_str()?;
    if policy.is_empty() {
        return None;
    }
    let reason = match yaml::parse(policy) {
        Ok(Value::Object(_)) => return None,
        Ok(_) => "must be the text of a YAML mapping".to_owned(),
        Err(refusal) => format!("must be the text of a YAML mapping, and {}", unreadable(&refusal)),
    };
    Some(Problem::new("options.kube-api.audit_log_policy", reason))
}

fn media_type(text: &str) -> &str {
    text.split(';').next().unwrap_or_default().trim()
}

fn is_yaml(name: &str) -> bool {
    YAML.iter().any(|known| known.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_written_as_yaml_is_read_as_the_same_document() {
        let document = json!({
            "name": "a", "nodes": [{ "user": "cybozu", "control_plane": true, "labels": { "a.b/c": "1.0", "d": "true" } }],
            "strange": ["", "yes", "null", "~", "0x10", "1e3", " a", "a: b", "- c", "#d", "é\u{1F600}", "line\nline\n", "\t"],
            "number": 17, "float": 1.5, "negative": -3, "nothing": null, "empty": {}, "none": [], "truth": false,
            "service_subnet": "10.68.0.0/16",
        });
        let text = to_yaml(&document);
        assert_eq!(parse(text.as_bytes(), None).expect("read"), document, "{text}");
        assert_eq!(parse(document.to_string().as_bytes(), None).expect("read"), document);
        // JSON is YAML, for those who say that it is.
        assert_eq!(parse(document.to_string().as_bytes(), Some(Format::Yaml)).expect("read"), document);
    }

    #[test]
    fn what_cannot_be_read_says_where() {
        for (text, format, expected) in [
            ("{\"a\": }", None, "is not JSON: expected value at line 1"),
            ("a: [1", None, "is not YAML: "),
            ("a: 1\na: 2\n", None, "is not YAML: "),
            ("a: 1\n---\nb: 2\n", None, "is not YAML: "),
            ("name: x", Some(Format::Json), "is not JSON: "),
        ] {
            let problem = parse(text.as_bytes(), format).expect_err(text);
            assert!(problem.path.is_empty() && problem.reason.starts_with(expected), "{text}: {problem}");
        }
        assert!(parse(b"\xff", None).is_err());
    }

    #[test]
    fn an_audit_policy_is_a_mapping() {
        let check = |policy: &str, wrong: bool| {
            let document = json!({ "options": { "kube-api": { "audit_log_policy": policy } } });
            assert_eq!(policy_problem(&document).is_some(), wrong, "{policy}");
        };
        check("", false);
        check("apiVersion: audit.k8s.io/v1\nkind: Policy\n", false);
        check("{}", false);
        check("- a", true);
        check("a: [", true);
        check("word", true);
    }

    #[test]
    fn yaml_is_given_to_those_who_ask() {
        let check = |accept: &str, format: Option<&str>, expected: Format| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, accept.parse().expect("a header"));
            assert_eq!(wanted(&headers, format).expect("known"), expected, "{accept} {format:?}");
        };
        check("*/*", None, Format::Json);
        check("application/yaml", None, Format::Yaml);
        check("text/html, application/x-yaml;q=0.9, application/json;q=0.8", None, Format::Yaml);
        check("application/json, application/yaml", None, Format::Json);
        check("application/json", Some("yaml"), Format::Yaml);
        check("application/yaml", Some("json"), Format::Json);
        assert!(wanted(&HeaderMap::new(), Some("toml")).is_err());
    }
}
