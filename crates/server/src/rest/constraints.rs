//! `/api/v1/constraints`: how large the cluster may be, and how much may be repaired at once.

use axum::{Json, body::Body, extract::State, http::HeaderMap};
use sabakan_domain::cluster::constraints::Constraints;
use sabakan_wire::rest::{
    ErrorJson, ErrorKind,
    cluster::{ConstraintsJson, WarningsJson, constraints_from_input},
};
use serde_json::{Value, json};

use super::{
    Actor, ApiError, App, body,
    cluster::{change, read},
    path::InPath,
};
use crate::limits;

/// What the cluster must keep to; defaults where nobody said otherwise.
#[utoipa::path(get, path = "/api/v1/constraints", tag = "cluster", operation_id = "getConstraints", responses(
    (status = 200, body = ConstraintsJson),
))]
pub async fn get(State(app): State<App>) -> Result<Json<ConstraintsJson>, ApiError> {
    Ok(Json(ConstraintsJson::from(&read(app.cluster.constraints()).await?)))
}

/// Changes the constraints that are given, all of them or none.
#[utoipa::path(put, path = "/api/v1/constraints", tag = "cluster", operation_id = "putConstraints",
    request_body = ConstraintsJson, responses(
    (status = 200, body = WarningsJson),
    (status = 400, description = "What is wrong, all of it", body = ErrorJson),
    (status = 403, description = "Not allowed", body = ErrorJson),
))]
pub async fn put(
    State(app): State<App>,
    Actor(actor): Actor,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<WarningsJson>, ApiError> {
    let document = body::read_json(&headers, body, limits::VARIABLES_BYTES_MAX).await?;
    set(&app, &actor, &document).await
}

/// Changes one constraint. The body is a number.
#[utoipa::path(put, path = "/api/v1/constraints/{name}", tag = "cluster", operation_id = "putConstraint",
    params(("name" = String, Path, description = "Which")), request_body = u32, responses(
    (status = 200, body = WarningsJson),
    (status = 400, description = "Not a number, or it cannot be", body = ErrorJson),
    (status = 403, description = "Not allowed", body = ErrorJson),
    (status = 404, description = "No such constraint", body = ErrorJson),
))]
pub async fn put_one(
    State(app): State<App>,
    Actor(actor): Actor,
    InPath(name): InPath<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<WarningsJson>, ApiError> {
    if !Constraints::NAMES.contains(&name.as_str()) {
        return Err(ApiError::new(ErrorKind::NotFound, ""));
    }
    let value = body::read_json(&headers, body, limits::VARIABLES_BYTES_MAX).await?;
    set(&app, &actor, &json!({ name: value })).await
}

async fn set(
    app: &App,
    actor: &sabakan_domain::audit::Actor,
    document: &Value,
) -> Result<Json<WarningsJson>, ApiError> {
    let values = constraints_from_input(document).map_err(|problems| ApiError::problems(&problems))?;
    let (_, warnings) = change(app.cluster.set_constraints(actor, &values)).await?;
    Ok(Json(WarningsJson::from(warnings.as_slice())))
}
