//! `/api/v1/repair-queue`: machines that are being repaired, were, or wait for it.

use axum::{Json, body::Body, extract::State, http::HeaderMap, http::StatusCode};
use sabakan_service::{
    ServiceError,
    repair::{ManualEntry, ShownEntry},
};
use sabakan_store::repo::repairs::Switch;
use sabakan_wire::rest::{
    ErrorJson, ErrorKind,
    cluster::EnabledJson,
    repair::{IndexesJson, NewRepair, NewRepairJson, RepairEntryJson, new_repair_from_input},
};

use super::{
    Actor, ApiError, App, auto_repair, body,
    cluster::{change, plans::whole, read},
    path::InPath,
};
use crate::limits;

/// The shape of an entry with what belongs to it.
pub(super) fn shown(shown: &ShownEntry) -> RepairEntryJson {
    let ShownEntry { entry, nodename, waits } = shown;
    RepairEntryJson::new(entry, nodename, waits.as_deref())
}

/// Runs the work for a change of entries of a queue; of which.
pub(super) async fn change_many(
    work: impl Future<Output = Result<Vec<u64>, ServiceError>>,
) -> Result<Json<IndexesJson>, ApiError> {
    Ok(Json(IndexesJson::from(change(work).await?.as_slice())))
}

/// Every entry, by index.
#[utoipa::path(get, path = "/api/v1/repair-queue", tag = "repair", operation_id = "listRepairs", responses(
    (status = 200, body = Vec<RepairEntryJson>),
))]
pub async fn list(State(app): State<App>) -> Result<Json<Vec<RepairEntryJson>>, ApiError> {
    Ok(Json(read(app.repairs.entries()).await?.iter().map(shown).collect()))
}

/// Asks for a repair. The limits of automatic repair do not hold for it, and count it.
#[utoipa::path(post, path = "/api/v1/repair-queue", tag = "repair", operation_id = "addRepair",
    request_body = NewRepairJson, responses(
    (status = 201, body = RepairEntryJson),
    (status = 400, description = "What is wrong, all of it", body = ErrorJson),
    (status = 403, description = "Not allowed", body = ErrorJson),
    (status = 409, description = "There is no cluster, the machine is being repaired already, or the queue is full", body = ErrorJson),
))]
pub async fn add(
    State(app): State<App>,
    Actor(actor): Actor,
    headers: HeaderMap,
    body: Body,
) -> Result<(StatusCode, Json<RepairEntryJson>), ApiError> {
    let document = body::read_json(&headers, body, limits::REPAIR_BYTES_MAX).await?;
    let wish = new_repair_from_input(&document).map_err(|problems| ApiError::problems(&problems))?;
    let NewRepair { operation, machine_type, address, serial } = wish;
    let wish = ManualEntry { operation, machine_type, address, serial };
    let entry = change(app.repairs.add(&actor, &wish)).await?;
    Ok((StatusCode::CREATED, Json(RepairEntryJson::new(&entry, "", None))))
}

/// Whether repairs are begun.
#[utoipa::path(get, path = "/api/v1/repair-queue/enabled", tag = "repair", operation_id = "getRepairQueueEnabled", responses(
    (status = 200, body = EnabledJson),
))]
pub async fn get_enabled(State(app): State<App>) -> Result<Json<EnabledJson>, ApiError> {
    auto_repair::is_enabled(&app, Switch::Queue).await
}

/// Has repairs begin, or not. Without it drains are given up and no command is run; health is watched all the same.
#[utoipa::path(put, path = "/api/v1/repair-queue/enabled", tag = "repair", operation_id = "putRepairQueueEnabled",
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
    auto_repair::enable(&app, &actor, Switch::Queue, &headers, body).await
}

/// One entry.
#[utoipa::path(get, path = "/api/v1/repair-queue/{index}", tag = "repair", operation_id = "getRepair",
    params(("index" = u64, Path, description = "Its index")), responses(
    (status = 200, body = RepairEntryJson),
    (status = 400, description = "Not a number", body = ErrorJson),
    (status = 404, description = "No such entry", body = ErrorJson),
))]
pub async fn get(State(app): State<App>, InPath(text): InPath<String>) -> Result<Json<RepairEntryJson>, ApiError> {
    let index = whole("index", &text)?;
    let entries = read(app.repairs.entries()).await?;
    let found = entries.iter().find(|shown| shown.entry.index == index);
    Ok(Json(shown(found.ok_or_else(|| ApiError::new(ErrorKind::NotFound, ""))?)))
}

/// Marks an entry for removal: one that has ended is cleared, any other is cancelled.
#[utoipa::path(delete, path = "/api/v1/repair-queue/{index}", tag = "repair", operation_id = "deleteRepair",
    params(("index" = u64, Path, description = "Its index")), responses(
    (status = 200, body = IndexesJson),
    (status = 400, description = "Not a number", body = ErrorJson),
    (status = 403, description = "Not allowed", body = ErrorJson),
    (status = 404, description = "No such entry", body = ErrorJson),
))]
pub async fn delete(
    State(app): State<App>,
    Actor(actor): Actor,
    InPath(text): InPath<String>,
) -> Result<Json<IndexesJson>, ApiError> {
    let index = whole("index", &text)?;
    change(app.repairs.delete(&actor, index)).await?;
    Ok(Json(IndexesJson::from([index].as_slice())))
}

/// Marks all entries that have ended for removal; which.
#[utoipa::path(post, path = "/api/v1/repair-queue/delete-finished", tag = "repair", operation_id = "deleteFinishedRepairs", responses(
    (status = 200, body = IndexesJson),
    (status = 403, description = "Not allowed", body = ErrorJson),
))]
pub async fn delete_finished(State(app): State<App>, Actor(actor): Actor) -> Result<Json<IndexesJson>, ApiError> {
    change_many(app.repairs.delete_all(&actor, true)).await
}

/// Cancels all entries that have not ended; which.
#[utoipa::path(post, path = "/api/v1/repair-queue/delete-unfinished", tag = "repair", operation_id = "deleteUnfinishedRepairs", responses(
    (status = 200, body = IndexesJson),
    (status = 403, description = "Not allowed", body = ErrorJson),
))]
pub async fn delete_unfinished(State(app): State<App>, Actor(actor): Actor) -> Result<Json<IndexesJson>, ApiError> {
    change_many(app.repairs.delete_all(&actor, false)).await
}

/// Lets drains that failed be tried at once; of which entries.
#[utoipa::path(post, path = "/api/v1/repair-queue/reset-backoff", tag = "repair", operation_id = "resetRepairBackoff", responses(
    (status = 200, body = IndexesJson),
    (status = 403, description = "Not allowed", body = ErrorJson),
))]
pub async fn reset_backoff(State(app): State<App>, Actor(actor): Actor) -> Result<Json<IndexesJson>, ApiError> {
    change_many(app.repairs.reset_backoff(&actor)).await
}
