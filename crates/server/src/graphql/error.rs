//! Answers to requests that were not run: the shape of GraphQL, with an HTTP status that says why.

use axum::{
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use sabakan_graphql::{Problem, Refusal};
use sabakan_wire::rest::ErrorKind;
use serde::Serialize;

use crate::{http::Failures, rest::ApiError};

/// What the client calls the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Media {
    /// `application/json`, unless asked otherwise.
    Json,
    /// `application/graphql-response+json`, whose clients expect 400 where others expect 422.
    GraphqlResponse,
}

impl Media {
    const ALL: [Media; 2] = [Media::Json, Media::GraphqlResponse];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Media::Json => "application/json",
            Media::GraphqlResponse => "application/graphql-response+json",
        }
    }

    /// The first of the two that is accepted; a weight of zero means that it is not.
    pub(super) fn wanted(headers: &HeaderMap) -> Media {
        let values = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
        let items = values.flat_map(|value| value.split(',')).filter(|item| !is_excluded(item));
        let names = items.map(|item| item.split(';').next().unwrap_or_default().trim());
        let known = |name: &str| Media::ALL.into_iter().find(|media| media.name().eq_ignore_ascii_case(name));
        names.into_iter().find_map(known).unwrap_or(Media::Json)
    }
}

/// Whether an element of `Accept` names what the client does not want.
fn is_excluded(item: &str) -> bool {
    let weight = item.split(';').skip(1).find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim().eq_ignore_ascii_case("q").then(|| value.trim())
    });
    weight.and_then(|weight| weight.parse::<f32>().ok()).is_some_and(|weight| weight <= 0.0)
}

/// The body.
#[derive(Serialize)]
struct FailureJson<'a> {
    errors: &'a [Problem],
    data: (),
}

/// A request that was not run.
#[derive(Debug)]
pub(super) struct Failure {
    status: StatusCode,
    problems: Vec<Problem>,
    /// What it is to whoever counts and logs.
    reported: ApiError,
}

impl Failure {
    fn new(status: StatusCode, message: impl Into<String>) -> Failure {
        Failure { status, problems: vec![Problem::new(message)], reported: ApiError::invalid("") }
    }

    /// Neither of the ways a request can come.
    pub(super) fn no_transport() -> Failure {
        Failure::new(StatusCode::BAD_REQUEST, "transport not supported")
    }

    /// The parts of a request cannot be read.
    pub(super) fn undecodable(what: &str, reason: impl std::fmt::Display) -> Failure {
        Failure::new(StatusCode::BAD_REQUEST, format!("{what} could not be decoded: {reason}"))
    }

    /// A URL must not change anything: browsers and proxies fetch them as they like.
    pub(super) fn only_queries() -> Failure {
        Failure::new(StatusCode::NOT_ACCEPTABLE, "GET requests only allow query operations")
    }

    pub(super) fn into_response(self, media: Media) -> Response {
        let status = match (self.status, media) {
            (StatusCode::UNPROCESSABLE_ENTITY, Media::GraphqlResponse) => StatusCode::BAD_REQUEST,
            (status, _) => status,
        };
        let body = FailureJson { errors: &self.problems, data: () };
        let mut body = serde_json::to_string(&body).expect("texts serialise");
        body.push('\n');
        let mut response = (status, [(header::CONTENT_TYPE, media.name())], body).into_response();
        response.extensions_mut().insert(Failures(vec![self.reported]));
        response
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Failure {
        let reported = ApiError::invalid("");
        Failure { status: StatusCode::UNPROCESSABLE_ENTITY, problems: refusal.problems, reported }
    }
}

/// What is the same for every API: who may not, what is too large, what is not available.
impl From<ApiError> for Failure {
    fn from(error: ApiError) -> Failure {
        let problem = Problem::new(error.text()).with("code", code(error.kind()));
        Failure { status: error.status(), problems: vec![problem], reported: error }
    }
}

fn code(kind: ErrorKind) -> String {
    kind.as_str().to_ascii_uppercase().replace('-', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_known_type_is_taken() {
        for (accept, expected) in [
            ("", Media::Json),
            ("*/*", Media::Json),
            ("text/html", Media::Json),
            ("application/json", Media::Json),
            ("application/graphql-response+json", Media::GraphqlResponse),
            ("application/graphql-response+json; charset=utf-8, application/json;q=0.9", Media::GraphqlResponse),
            ("text/html, application/json, application/graphql-response+json", Media::Json),
            ("Application/GraphQL-Response+JSON", Media::GraphqlResponse),
            ("application/graphql-response+json;q=0, application/json", Media::Json),
            ("application/json; q=0.000, application/graphql-response+json;Q=0.1", Media::GraphqlResponse),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, accept.parse().expect("a value"));
            assert_eq!(Media::wanted(&headers), expected, "{accept}");
        }
        assert_eq!(Media::wanted(&HeaderMap::new()), Media::Json);
    }

    #[test]
    fn only_what_the_protocol_calls_unprocessable_changes_its_status() {
        let status = |failure: Failure, media| failure.into_response(media).status().as_u16();
        for (media, expected) in [(Media::Json, 422), (Media::GraphqlResponse, 400)] {
            let refusal = Refusal::new(sabakan_graphql::Phase::Parsing, [Problem::new("x")]);
            assert_eq!(status(refusal.into(), media), expected);
            assert_eq!(status(Failure::only_queries(), media), 406);
            assert_eq!(status(ApiError::new(ErrorKind::TooLarge, "x").into(), media), 413);
        }
    }
}
