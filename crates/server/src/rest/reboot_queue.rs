//! `/api/v1/reboot-queue`: nodes that are to be rebooted in an orderly way.

use axum::{
    Json,
    body::Body,
    extract::State,
    http::{HeaderMap, StatusCode},
};
use sabakan_service::repair::ShownReboot;
use sabakan_store::repo::repairs::Switch;
use sabakan_wire::rest::{
    ErrorJson,
    cluster::EnabledJson,
    repair::{IndexesJson, NewRebootsJson, RebootEntryJson, nodes_from_input},
};

use super::{
    Actor, ApiError, App, auto_repair, body,
    cluster::{change, plans::whole, read},
    path::InPath,
    repair_queue::change_many,
};
use crate::limits;

/// Every entry, by index.
#[utoipa::path(get, path = "/api/v1/reboot-queue", tag = "repair", operation_id = "listReboots", responses(
    (status = 200, body = Vec<RebootEntryJson>),
))]
pub async fn list(State(app): State<App>) -> Result<Json<Vec<RebootEntryJson>>, ApiError> {
    let shown = |ShownReboot { entry, waits }: &ShownReboot| RebootEntryJson::new(entry, waits.as_deref());
    Ok(Json(read(app.repairs.reboots()).await?.iter().map(shown).collect()))
}

/// Asks for reboots of nodes of the cluster, all of them or none.
#[utoipa::path(post, path = "/api/v1/reboot-queue", tag = "repair", operation_id = "addReboots",
    request_body(content((NewRebootsJson = "application/json"), (String = "text/plain")),
        description = "An object, or a text with one address in each line"), responses(
    (status = 201, body = IndexesJson),
    (status = 400, description = "What is wrong, all of it", body = ErrorJson),
    (status = 403, description = "Not allowed", body = ErrorJson),
    (status = 409, description = "The queue is full", body = ErrorJson),
))]
pub async fn add(
    State(app): State<App>,
    Actor(actor): Actor,
    headers: HeaderMap,
    body: Body,
) -> Result<(StatusCode, Json<IndexesJson>), ApiError> {
    let body = body::read(&headers, body, limits::REBOOTS_BYTES_MAX).await?;
    let nodes = nodes_from_input(body.text()?).map_err(|problems| ApiError::problems(&problems))?;
    Ok((StatusCode::CREATED, change_many(app.repairs.add_reboots(&actor, &nodes)).await?))
}

/// Whether reboots are begun.
#[utoipa::path(get, path = "/api/v1/reboot-queue/enabled", tag = "repair", operation_id = "getRebootQueueEnabled", responses(
    (status = 200, body = EnabledJson),
))]
pub async fn get_enabled(State(app): State<App>) -> Result<Json<EnabledJson>, ApiError> {
    auto_repair::is_enabled(&app, Switch::Reboots).await
}

/// Has reboots begin, or not.
#[utoipa::path(put, path = "/api/v1/reboot-queue/enabled", tag = "repair", operation_id = "putRebootQueueEnabled",
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
    auto_repair::enable(&app, &actor, Switch::Reboots, &headers, body).await
}

/// Cancels a reboot.
#[utoipa::path(delete, path = "/api/v1/reboot-queue/{index}", tag = "repair", operation_id = "cancelReboot",
    params(("index" = u64, Path, description = "Its index")), responses(
    (status = 200, body = IndexesJson),
    (status = 400, description = "Not a number", body = ErrorJson),
    (status = 403, description = "Not allowed", body = ErrorJson),
    (status = 404, description = "No such entry", body = ErrorJson),
))]
pub async fn cancel(
    State(app): State<App>,
    Actor(actor): Actor,
    InPath(text): InPath<String>,
) -> Result<Json<IndexesJson>, ApiError> {
    let index = whole("index", &text)?;
    change(app.repairs.cancel_reboot(&actor, index)).await?;
    Ok(Json(IndexesJson::from([index].as_slice())))
}

/// Cancels all reboots; which.
#[utoipa::path(post, path = "/api/v1/reboot-queue/cancel-all", tag = "repair", operation_id = "cancelAllReboots", responses(
    (status = 200, body = IndexesJson),
    (status = 403, description = "Not allowed", body = ErrorJson),
))]
pub async fn cancel_all(State(app): State<App>, Actor(actor): Actor) -> Result<Json<IndexesJson>, ApiError> {
    change_many(app.repairs.cancel_all_reboots(&actor)).await
}

/// Lets drains that failed be tried at once; of which entries.
#[utoipa::path(post, path = "/api/v1/reboot-queue/reset-backoff", tag = "repair", operation_id = "resetRebootBackoff", responses(
    (status = 200, body = IndexesJson),
    (status = 403, description = "Not allowed", body = ErrorJson),
))]
pub async fn reset_backoff(State(app): State<App>, Actor(actor): Actor) -> Result<Json<IndexesJson>, ApiError> {
    change_many(app.repairs.reset_reboot_backoff(&actor)).await
}
