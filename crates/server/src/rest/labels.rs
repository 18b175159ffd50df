//! `/api/v1/labels/…`: what people note about a machine.

use axum::{
    body::Body,
    extract::State,
    http::{HeaderMap, StatusCode},
};
use sabakan_domain::words::{LabelName, LabelValue, Serial};
use sabakan_wire::rest::ErrorJson;

use super::{
    Actor, ApiError, App, body, change_within,
    path::{InPath, or_bad_serial},
};
use crate::limits;

/// Sets a label. The body is its value as it is, and may be empty.
#[utoipa::path(put, path = "/api/v1/labels/{serial}/{name}", tag = "machines", operation_id = "putLabel",
    params(("serial" = String, Path, description = "Serial of the machine"), ("name" = String, Path, description = "Name of the label")),
    request_body(content = String, content_type = "text/plain"), responses(
    (status = 200, description = "The label has the value"),
    (status = 400, description = "Name or value cannot be one, or the machine has too many labels", body = ErrorJson),
    (status = 403, description = "Not allowed", body = ErrorJson),
    (status = 404, description = "No such machine", body = ErrorJson),
))]
pub async fn put(
    State(app): State<App>,
    Actor(actor): Actor,
    InPath((serial, name)): InPath<(String, String)>,
    headers: HeaderMap,
    body: Body,
) -> Result<StatusCode, ApiError> {
    let (serial, name) = (Serial::stored(serial), LabelName::new(name)?);
    let body = body::read(&headers, body, limits::LABEL_VALUE_BYTES_MAX).await?;
    // What is no text becomes a character that no value may have.
    let value = LabelValue::new(String::from_utf8_lossy(&body))?;
    or_bad_serial(&app, &serial, change_within(app.machines.put_label(&actor, &serial, &name, &value)).await).await?;
    Ok(StatusCode::OK)
}

/// Takes a label away.
#[utoipa::path(delete, path = "/api/v1/labels/{serial}/{name}", tag = "machines", operation_id = "removeLabel",
    params(("serial" = String, Path, description = "Serial of the machine"), ("name" = String, Path, description = "Name of the label")),
    responses(
    (status = 200, description = "The label is gone"),
    (status = 403, description = "Not allowed", body = ErrorJson),
    (status = 404, description = "No such machine, or it has no such label", body = ErrorJson),
))]
pub async fn remove(
    State(app): State<App>,
    Actor(actor): Actor,
    InPath((serial, name)): InPath<(String, String)>,
) -> Result<StatusCode, ApiError> {
    // A label of the older service goes away under whatever name it has.
    let (serial, name) = (Serial::stored(serial), LabelName::stored(name));
    let removed =
        or_bad_serial(&app, &serial, change_within(app.machines.remove_label(&actor, &serial, &name)).await).await;
    if removed.as_ref().is_err_and(ApiError::is_not_found) {
        name.judge()?;
    }
    removed?;
    Ok(StatusCode::OK)
}

/// A path that does not name one label of one machine.
pub async fn unnamed() -> ApiError {
    ApiError::invalid("the path must be labels/<serial>/<name>")
}
