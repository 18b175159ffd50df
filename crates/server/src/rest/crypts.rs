//! `/api/v1/crypts/…`: disk keys as raw bytes.

use axum::{
    Json,
    body::{Body, Bytes},
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use sabakan_domain::{crypt::DiskPath, limits::DISK_KEY_BYTES_MAX, words::Serial};
use sabakan_service::seal::SecretBytes;
use sabakan_wire::rest::{ErrorJson, StoredKeyJson};

use super::{
    Actor, ApiError, App,
    access::JudgedMachine,
    body, change_within,
    path::{InPath, SerialPath, or_bad_serial},
    read_within,
};

/// Stores the key of a disk. The body is the key, 1 to 4096 bytes.
#[utoipa::path(put, path = "/api/v1/crypts/{serial}/{disk}", tag = "crypts", operation_id = "putKey",
    params(("serial" = String, Path, description = "Serial of the machine"), ("disk" = String, Path, description = "Name of the disk")),
    request_body(content = Vec<u8>, content_type = "application/octet-stream"), responses(
    (status = 201, body = StoredKeyJson),
    (status = 400, description = "The key is empty, or a name is not one", body = ErrorJson),
    (status = 403, description = "Neither that machine nor an operator, whether or not there is such a machine", body = ErrorJson),
    (status = 404, description = "No such machine", body = ErrorJson),
    (status = 409, description = "The disk has a key", body = ErrorJson),
    (status = 413, description = "The key is larger than 4096 bytes", body = ErrorJson),
    (status = 500, description = "The machine is retiring or retired", body = ErrorJson),
))]
pub async fn put(
    State(app): State<App>,
    Actor(actor): Actor,
    InPath((serial, disk)): InPath<(String, String)>,
    judged: Result<JudgedMachine, ApiError>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let (serial, disk) = (Serial::stored(serial), DiskPath::new(disk)?);
    let serial = judged?.agree(serial)?;
    let bytes = body::read(&headers, body, DISK_KEY_BYTES_MAX).await?;
    if bytes.is_empty() {
        return Err(ApiError::invalid("the key is empty"));
    }
    let key = SecretBytes::new(bytes.into_bytes()).map_err(|error| ApiError::invalid(error.to_string()))?;
    or_bad_serial(&app, &serial, change_within(app.crypts.put(&actor, &serial, &disk, &key)).await).await?;
    let answer = StoredKeyJson { status: 201, path: disk.to_string() };
    Ok((StatusCode::CREATED, Json(answer)).into_response())
}

/// Fetches the key of a disk. 404 means that there is none; every other trouble has another status, because clients format a disk
/// whose key does not exist.
#[utoipa::path(get, path = "/api/v1/crypts/{serial}/{disk}", tag = "crypts", operation_id = "getKey",
    params(("serial" = String, Path, description = "Serial of the machine"), ("disk" = String, Path, description = "Name of the disk")),
    responses(
    (status = 200, description = "The key", content_type = "application/octet-stream"),
    (status = 403, description = "Neither that machine nor an operator, whether or not there is such a key", body = ErrorJson),
    (status = 404, description = "No such key", body = ErrorJson),
    (status = 503, description = "The store does not answer, or the key is a raw one of the older service", body = ErrorJson),
))]
pub async fn get(
    State(app): State<App>,
    InPath((serial, disk)): InPath<(String, String)>,
    judged: Result<JudgedMachine, ApiError>,
) -> Result<Response, ApiError> {
    let (serial, disk) = (Serial::stored(serial), DiskPath::stored(disk)?);
    let serial = judged?.agree(serial)?;
    let found = or_bad_serial(&app, &serial, read_within(app.crypts.get(&serial, &disk)).await).await;
    if found.as_ref().is_err_and(ApiError::is_not_found) {
        // A name that no disk can have is a mistake as well.
        DiskPath::new(disk.as_str())?;
    }
    let key = found?;
    let octets = [(header::CONTENT_TYPE, "application/octet-stream"), (header::CACHE_CONTROL, "no-store")];
    // The copy that is sent is wiped as well, when the connection has let go of it.
    Ok((octets, Body::from(Bytes::from_owner(Wiped(key)))).into_response())
}

struct Wiped(SecretBytes);

impl AsRef<[u8]> for Wiped {
    fn as_ref(&self) -> &[u8] {
        self.0.expose()
    }
}

/// Deletes every key of a retiring machine, which makes it retired. Answers the disks.
#[utoipa::path(delete, path = "/api/v1/crypts/{serial}", tag = "crypts", operation_id = "deleteKeys",
    params(("serial" = String, Path, description = "Serial of the machine")), responses(
    (status = 200, body = Vec<String>),
    (status = 403, description = "Not allowed", body = ErrorJson),
    (status = 404, description = "No such machine", body = ErrorJson),
    (status = 500, description = "The machine is not retiring", body = ErrorJson),
))]
pub async fn delete(
    State(app): State<App>,
    Actor(actor): Actor,
    SerialPath(serial): SerialPath,
) -> Result<Json<Vec<String>>, ApiError> {
    let erased = or_bad_serial(&app, &serial, change_within(app.crypts.erase(&actor, &serial)).await).await?;
    Ok(Json(erased.iter().map(ToString::to_string).collect()))
}

/// A path that does not name one disk of one machine. Never 404: a client takes that as leave to format.
pub async fn unnamed() -> ApiError {
    ApiError::invalid("the path must be crypts/<serial>/<disk>, or crypts/<serial> to delete")
}
