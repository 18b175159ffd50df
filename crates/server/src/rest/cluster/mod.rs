//! `/api/v1/cluster/…`: what people ask of the Kubernetes cluster, and its configuration. What the planner makes of it is in `plans`.

mod diff;
mod document;
pub(super) mod plans;

use std::future::Future;

use axum::{
    Json,
    body::Body,
    extract::{Query, State},
    http::HeaderMap,
    response::Response,
};
use sabakan_domain::cluster::{config::Configuration, shape::Problem, template::Template};
use sabakan_service::ServiceError;
use sabakan_wire::rest::{
    ErrorJson, ErrorKind,
    cluster::{EnabledJson, VariablesJson, WarningsJson},
};
use serde_json::Value;

use self::document::{ReadDocument, answer, wanted};
use super::{Actor, ApiError, App, body, change_within, read_within};
use crate::limits;

/// Runs the work for a read. The older API has no cluster, so none of its clients is surprised by a status.
pub(super) async fn read<T>(work: impl Future<Output = Result<T, ServiceError>>) -> Result<T, ApiError> {
    read_within(work).await.map_err(ApiError::plainly)
}

/// Runs the work for a change.
pub(super) async fn change<T>(work: impl Future<Output = Result<T, ServiceError>>) -> Result<T, ApiError> {
    change_within(work).await.map_err(ApiError::plainly)
}

/// One value of a query. An empty one is one that nobody understands: only the older API has clients that send those.
pub(super) fn given<'a>(pairs: &'a [(String, String)], name: &str) -> Option<&'a str> {
    pairs.iter().find(|(given, _)| given == name).map(|(_, value)| value.as_str())
}

/// The template, with defaults filled in.
#[utoipa::path(get, path = "/api/v1/cluster/template", tag = "cluster", operation_id = "getClusterTemplate",
    params(("format" = Option<String>, Query, description = "`json` or `yaml`; without it the header `Accept` decides")),
    responses(
    (status = 200, description = "The template", content(
        (Value = "application/json"), (String = "application/yaml"))),
    (status = 404, description = "There is none", body = ErrorJson),
))]
pub async fn get_template(
    State(app): State<App>,
    Query(pairs): Query<Vec<(String, String)>>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let format = wanted(&headers, given(&pairs, "format"))?;
    let template = read(app.cluster.template()).await?;
    let template = template.ok_or_else(|| ApiError::new(ErrorKind::NotFound, ""))?;
    Ok(answer(&template.document, format))
}

/// Sets the template. The planner soon makes the cluster from it. Everything wrong in it is told at once.
#[utoipa::path(put, path = "/api/v1/cluster/template", tag = "cluster", operation_id = "putClusterTemplate",
    request_body(content((Value = "application/json"), (String = "application/yaml"))), responses(
    (status = 200, body = WarningsJson),
    (status = 400, description = "What is wrong, all of it", body = ErrorJson),
    (status = 403, description = "Not allowed", body = ErrorJson),
))]
pub async fn put_template(
    State(app): State<App>,
    Actor(actor): Actor,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<WarningsJson>, ApiError> {
    let read = document::read(&app.documents, &headers, body, limits::TEMPLATE_BYTES_MAX).await?;
    let document = check_policy(read, |document| Template::parse(document).err())?;
    let warnings = change(app.cluster.set_template(&actor, document)).await?;
    Ok(Json(WarningsJson::from(warnings.as_slice())))
}

/// Tells what is wrong with a text in YAML inside a document, together with everything else that is wrong.
fn check_policy(read: ReadDocument, others: impl FnOnce(Value) -> Option<Vec<Problem>>) -> Result<Value, ApiError> {
    let ReadDocument { document, policy_problem } = read;
    let Some(problem) = policy_problem else { return Ok(document) };
    let mut problems = others(document).unwrap_or_default();
    problems.push(problem);
    Err(ApiError::problems(&problems))
}

/// Which machines the planner may use.
#[utoipa::path(get, path = "/api/v1/cluster/variables", tag = "cluster", operation_id = "getClusterVariables", responses(
    (status = 200, body = VariablesJson),
))]
pub async fn get_variables(State(app): State<App>) -> Result<Json<VariablesJson>, ApiError> {
    let (given, variables) = read(app.cluster.variables()).await?;
    Ok(Json(VariablesJson::new(given, &variables)))
}

/// Says which machines the planner may use, in place of the defaults: an object with `having` and `notHaving`, as in GraphQL searches.
#[utoipa::path(put, path = "/api/v1/cluster/variables", tag = "cluster", operation_id = "putClusterVariables",
    request_body(content = Value), responses(
    (status = 200, body = WarningsJson),
    (status = 400, description = "What is wrong, all of it", body = ErrorJson),
    (status = 403, description = "Not allowed", body = ErrorJson),
))]
pub async fn put_variables(
    State(app): State<App>,
    Actor(actor): Actor,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<WarningsJson>, ApiError> {
    let body = body::read(&headers, body, limits::VARIABLES_BYTES_MAX).await?;
    let warnings = change(app.cluster.set_variables(&actor, Some(body.text()?))).await?;
    Ok(Json(WarningsJson::from(warnings.as_slice())))
}

/// Lets the planner use what it uses by default: everything but boot servers and retired machines.
#[utoipa::path(delete, path = "/api/v1/cluster/variables", tag = "cluster", operation_id = "resetClusterVariables", responses(
    (status = 200, body = WarningsJson),
    (status = 403, description = "Not allowed", body = ErrorJson),
))]
pub async fn delete_variables(State(app): State<App>, Actor(actor): Actor) -> Result<Json<WarningsJson>, ApiError> {
    let warnings = change(app.cluster.set_variables(&actor, None)).await?;
    Ok(Json(WarningsJson::from(warnings.as_slice())))
}

/// Whether the planner works.
#[utoipa::path(get, path = "/api/v1/cluster/enabled", tag = "cluster", operation_id = "getClusterEnabled", responses(
    (status = 200, body = EnabledJson),
))]
pub async fn get_enabled(State(app): State<App>) -> Result<Json<EnabledJson>, ApiError> {
    Ok(Json(EnabledJson { enabled: read(app.cluster.is_enabled()).await? }))
}

/// Has the planner work, or not. Dry runs work all the same.
#[utoipa::path(put, path = "/api/v1/cluster/enabled", tag = "cluster", operation_id = "putClusterEnabled",
    request_body = EnabledJson, responses(
    (status = 200, body = EnabledJson),
    (status = 400, description = "Not a truth value", body = ErrorJson),
    (status = 403, description = "Not allowed", body = ErrorJson),
))]
pub async fn put_enabled(
    State(app): State<App>,
    Actor(actor): Actor,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<EnabledJson>, ApiError> {
    let wish = body::read_switch(&headers, body).await?;
    change(app.cluster.set_enabled(&actor, wish.enabled)).await?;
    Ok(Json(wish))
}

/// The configuration: what the planner made, or somebody wrote.
#[utoipa::path(get, path = "/api/v1/cluster/configuration", tag = "cluster", operation_id = "getClusterConfiguration",
    params(("format" = Option<String>, Query, description = "`json` or `yaml`; without it the header `Accept` decides")),
    responses(
    (status = 200, description = "The configuration", content(
        (Value = "application/json"), (String = "application/yaml"))),
    (status = 404, description = "There is none", body = ErrorJson),
))]
pub async fn get_configuration(
    State(app): State<App>,
    Query(pairs): Query<Vec<(String, String)>>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let format = wanted(&headers, given(&pairs, "format"))?;
    let configuration = read(app.cluster.configuration()).await?;
    let configuration = configuration.ok_or_else(|| ApiError::new(ErrorKind::NotFound, ""))?;
    let written = tokio::task::spawn_blocking(move || answer(&configuration.document(), format)).await;
    written.map_err(|_| ApiError::new(ErrorKind::Internal, "internal error"))
}

/// Stores a configuration that somebody wrote. It must keep to the constraints; the planner goes on from it.
#[utoipa::path(put, path = "/api/v1/cluster/configuration", tag = "cluster", operation_id = "putClusterConfiguration",
    request_body(content((Value = "application/json"), (String = "application/yaml"))), responses(
    (status = 200, body = WarningsJson),
    (status = 400, description = "What is wrong, all of it", body = ErrorJson),
    (status = 403, description = "Not allowed", body = ErrorJson),
))]
pub async fn put_configuration(
    State(app): State<App>,
    Actor(actor): Actor,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<WarningsJson>, ApiError> {
    let read = document::read(&app.documents, &headers, body, limits::CONFIGURATION_BYTES_MAX).await?;
    let document = check_policy(read, |document| Configuration::parse(document).err())?;
    let warnings = change(app.cluster.set_configuration(&actor, document)).await?;
    Ok(Json(WarningsJson::from(warnings.as_slice())))
}
