//! `/api/v1/retire-date/…`: when a machine should go.

use axum::{
    body::Body,
    extract::State,
    http::{HeaderMap, StatusCode},
};
use sabakan_domain::time::Moment;
use sabakan_wire::rest::ErrorJson;

use super::{
    Actor, ApiError, App, body, change_within,
    path::{SerialPath, or_bad_serial},
};
use crate::limits;

/// Sets the date on which a machine should go. The body is a time as in RFC 3339; it is kept with the offset it is given in.
#[utoipa::path(put, path = "/api/v1/retire-date/{serial}", tag = "machines", operation_id = "putRetireDate",
    params(("serial" = String, Path, description = "Serial of the machine")),
    request_body(content = String, content_type = "text/plain"), responses(
    (status = 200, description = "Set"),
    (status = 400, description = "Not a time", body = ErrorJson),
    (status = 403, description = "Not allowed", body = ErrorJson),
    (status = 404, description = "No such machine", body = ErrorJson),
))]
pub async fn put(
    State(app): State<App>,
    Actor(actor): Actor,
    SerialPath(serial): SerialPath,
    headers: HeaderMap,
    body: Body,
) -> Result<StatusCode, ApiError> {
    let body = body::read(&headers, body, limits::RETIRE_DATE_BYTES_MAX).await?;
    let date: Moment = String::from_utf8_lossy(&body).trim().parse()?;
    or_bad_serial(&app, &serial, change_within(app.machines.set_retire_date(&actor, &serial, date)).await).await?;
    Ok(StatusCode::OK)
}
