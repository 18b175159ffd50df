//! The server itself: version, health and the description of its API.

use std::sync::Arc;

use axum::{
    Extension, Json,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use sabakan_service::error_chain;
use serde::Serialize;

use super::App;
use crate::limits;

#[derive(Serialize, utoipa::ToSchema)]
pub struct VersionJson {
    #[schema(example = "0.1.0")]
    version: &'static str,
}

#[derive(Serialize, utoipa::ToSchema)]
pub struct HealthJson {
    #[schema(example = "healthy")]
    health: &'static str,
}

/// The document, rendered once.
#[derive(Clone)]
pub(super) struct DocumentText(pub(super) Arc<str>);

/// The version of this program.
#[utoipa::path(get, path = "/version", tag = "system", operation_id = "getVersion", responses((status = 200, body = VersionJson)))]
pub async fn version() -> Json<VersionJson> {
    Json(VersionJson { version: env!("CARGO_PKG_VERSION") })
}

/// Whether the store answers a read, and what is in memory keeps up with it, within a second.
#[utoipa::path(get, path = "/health", tag = "system", operation_id = "getHealth", responses(
    (status = 200, description = "This server can do its work", body = HealthJson),
    (status = 500, description = "The store does not answer, or the memory lags behind it", body = HealthJson),
))]
pub async fn health(State(app): State<App>) -> (StatusCode, Json<HealthJson>) {
    match tokio::time::timeout(limits::HEALTH_TIME_MAX, app.health.check()).await {
        Ok(Ok(())) => return (StatusCode::OK, Json(HealthJson { health: "healthy" })),
        Ok(Err(error)) => tracing::warn!(error = error_chain(&error), "health check failed"),
        Err(_) => tracing::warn!("health check took too long"),
    }
    (StatusCode::INTERNAL_SERVER_ERROR, Json(HealthJson { health: "unhealthy" }))
}

/// The description of this API.
pub(super) async fn openapi(Extension(DocumentText(text)): Extension<DocumentText>) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], text.to_string()).into_response()
}
