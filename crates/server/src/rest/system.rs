//! The server itself: version, health and the description of its API.

use std::sync::Arc;

use axum::{
    Extension, Json,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use sabakan_service::{HealthPart, HealthReport};
use serde::Serialize;

use super::App;

#[derive(Serialize, utoipa::ToSchema)]
pub struct VersionJson {
    #[schema(example = "0.1.0")]
    version: &'static str,
}

#[derive(Serialize, utoipa::ToSchema)]
pub struct HealthJson {
    /// `healthy` or `unhealthy`.
    #[schema(example = "healthy")]
    health: &'static str,
    /// What was looked at.
    parts: Vec<HealthPartJson>,
}

/// One part of the server.
#[derive(Serialize, utoipa::ToSchema)]
pub struct HealthPartJson {
    #[schema(example = "store")]
    name: &'static str,
    /// Whether it works.
    ok: bool,
    /// Whether the server is unhealthy without it.
    needed: bool,
    /// Why it does not work.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(
        example = "the store cannot write: no space is left on the disk of the data directory; nothing was changed"
    )]
    reason: Option<String>,
}

impl From<HealthPart> for HealthPartJson {
    fn from(part: HealthPart) -> HealthPartJson {
        let HealthPart { name, needed, problem } = part;
        HealthPartJson { name, ok: problem.is_none(), needed, reason: problem.map(|problem| problem.public) }
    }
}

/// The document, rendered once.
#[derive(Clone)]
pub(super) struct DocumentText(pub(super) Arc<str>);

/// The version of this program.
#[utoipa::path(get, path = "/version", tag = "system", operation_id = "getVersion", responses((status = 200, body = VersionJson)))]
pub async fn version() -> Json<VersionJson> {
    Json(VersionJson { version: env!("CARGO_PKG_VERSION") })
}

/// Whether the store takes writes and answers reads, what is in memory keeps up with it, and whatever else this server looks after
/// works. Each part has a second to answer.
#[utoipa::path(get, path = "/health", tag = "system", operation_id = "getHealth", responses(
    (status = 200, description = "This server can do its work", body = HealthJson),
    (status = 503, description = "A part that is needed does not work; `parts` says which and why", body = HealthJson),
))]
pub async fn health(State(app): State<App>) -> (StatusCode, Json<HealthJson>) {
    let report = app.health.check().await;
    for part in &report.0 {
        if let Some(problem) = &part.problem {
            let error = problem.cause.as_deref().unwrap_or(&problem.public);
            match part.needed {
                true => tracing::warn!(part = part.name, error, "health check failed"),
                // Told when it began; whoever asks for the health every second has it in the answer.
                false => tracing::debug!(part = part.name, error, "a part needs attention"),
            }
        }
    }
    let (status, health) = match report.is_healthy() {
        true => (StatusCode::OK, "healthy"),
        false => (StatusCode::SERVICE_UNAVAILABLE, "unhealthy"),
    };
    let HealthReport(parts) = report;
    (status, Json(HealthJson { health, parts: parts.into_iter().map(HealthPartJson::from).collect() }))
}

/// The description of this API.
pub(super) async fn openapi(Extension(DocumentText(text)): Extension<DocumentText>) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], text.to_string()).into_response()
}
