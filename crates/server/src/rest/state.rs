//! `/api/v1/state/…`: where a machine is in its lifecycle.

use axum::{
    body::Body,
    extract::{RawQuery, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use sabakan_domain::lifecycle::{Force, HealthState};
use sabakan_wire::rest::ErrorJson;

use super::{
    Actor, ApiError, App,
    access::forced,
    body, change_within,
    path::{SerialPath, or_bad_serial},
    read_within,
};
use crate::limits;

/// The state of a machine, one word.
#[utoipa::path(get, path = "/api/v1/state/{serial}", tag = "machines", operation_id = "getState",
    params(("serial" = String, Path, description = "Serial of the machine")), responses(
    (status = 200, description = "The state", body = String, content_type = "text/plain"),
    (status = 404, description = "No such machine", body = ErrorJson),
))]
pub async fn get(State(app): State<App>, SerialPath(serial): SerialPath) -> Result<Response, ApiError> {
    let machine = or_bad_serial(&app, &serial, read_within(app.machines.get(&serial)).await).await?;
    Ok(([(header::CONTENT_TYPE, "text/plain")], machine.status.state.as_str()).into_response())
}

/// Moves a machine along its lifecycle. The body is the word of the state and nothing else; `dead` means `unreachable`. Asking for
/// the state it is in changes nothing.
#[utoipa::path(put, path = "/api/v1/state/{serial}", tag = "machines", operation_id = "putState",
    params(
        ("serial" = String, Path, description = "Serial of the machine"),
        ("force" = Option<bool>, Query, description = "Any change except into `retired`, also against the lifecycle"),
    ),
    request_body(content = String, content_type = "text/plain"), responses(
    (status = 200, description = "The machine is in that state"),
    (status = 400, description = "No such state, or `retired` while disk keys exist", body = ErrorJson),
    (status = 403, description = "Not allowed", body = ErrorJson),
    (status = 404, description = "No such machine", body = ErrorJson),
    (status = 500, description = "No arrow of the lifecycle leads there", body = ErrorJson),
))]
pub async fn put(
    State(app): State<App>,
    Actor(actor): Actor,
    SerialPath(serial): SerialPath,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    body: Body,
) -> Result<StatusCode, ApiError> {
    check_force(query.as_deref())?;
    let body = body::read(&headers, body, limits::STATE_BYTES_MAX).await?;
    let state: HealthState = String::from_utf8_lossy(&body).parse()?;
    let force = if forced(query.as_deref()) { Force::Yes } else { Force::No };
    or_bad_serial(&app, &serial, change_within(app.machines.set_state(&actor, &serial, state, force)).await).await?;
    Ok(StatusCode::OK)
}

/// Refuses a `force` that is neither yes nor no: ignored, a change would be refused that somebody believes to have forced.
fn check_force(query: Option<&str>) -> Result<(), ApiError> {
    let given = query.unwrap_or_default().split('&').find_map(|pair| pair.strip_prefix("force="));
    match given {
        None | Some("true" | "1" | "false" | "0") => Ok(()),
        Some(other) => Err(ApiError::invalid(format!("force is {other:?}; true or false is expected"))),
    }
}
