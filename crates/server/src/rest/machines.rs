//! `/api/v1/machines`

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};

use axum::{
    body::{Body, Bytes},
    extract::{Query, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use hyper::body::Frame;
use jiff::Timestamp;
use sabakan_domain::{machine::NewMachine, query::Criteria};
use sabakan_service::FoundMachines;
use sabakan_wire::{
    json,
    rest::{ErrorJson, ErrorKind, MachineInput, MachineJson, QueryParams, machines_from_input, paths},
};
use utoipa::openapi::{
    OpenApi, RefOr, Required,
    path::{ParameterBuilder, ParameterIn},
    schema::{ObjectBuilder, Type},
};

use super::{
    Actor, ApiError, App, body, change_within,
    path::{SerialPath, or_bad_serial},
    read_within,
};
use crate::limits;

/// Registers machines, all of them or none. Index, addresses and dates are assigned by the server.
#[utoipa::path(post, path = "/api/v1/machines", tag = "machines", operation_id = "registerMachines", request_body = Vec<MachineInput>, responses(
    (status = 201, description = "All are registered"),
    (status = 400, description = "A field is wrong, a serial comes twice, or a rack has no addresses", body = ErrorJson),
    (status = 403, description = "Not from an allowed network", body = ErrorJson),
    (status = 409, description = "A serial is registered already, or a rack has a boot machine already", body = ErrorJson),
    (status = 413, description = "More than the server or its store takes at once", body = ErrorJson),
    (status = 500, description = "A rack is full, or IPAM is not configured", body = ErrorJson),
    (status = 503, description = "The store does not answer", body = ErrorJson),
))]
pub async fn register(
    State(app): State<App>,
    Actor(actor): Actor,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let body = body::read(&headers, body, limits::MACHINES_BYTES_MAX).await?;
    let machines = if body.len() > limits::DECODE_INLINE_MAX {
        let decoded = tokio::task::spawn_blocking(move || decode(&body)).await;
        decoded.map_err(|_| ApiError::new(ErrorKind::Internal, "internal error"))??
    } else {
        decode(&body)?
    };
    change_within(app.machines.register(&actor, &machines)).await?;
    Ok((StatusCode::CREATED, [(header::CONTENT_TYPE, "application/json")]).into_response())
}

/// Finds machines. Conditions are ANDed; values of one condition are separated by commas and ORed, labels are ANDed. No condition
/// means every machine. Answers are in byte order of serials, or in the order of `serial`.
#[utoipa::path(get, path = "/api/v1/machines", tag = "machines", operation_id = "findMachines", responses(
    (status = 200, body = Vec<MachineJson>),
    (status = 400, description = "A parameter is unknown or given twice, a value is none a machine can have, a condition and its negation are given, or a label has no value", body = ErrorJson),
    (status = 404, description = "No machine matches", body = ErrorJson),
))]
pub async fn list(State(app): State<App>, Query(pairs): Query<Vec<(String, String)>>) -> Result<Response, ApiError> {
    let params: QueryParams = pairs.into_iter().collect();
    answer(&app, params.query(app.unknown_parameters)?).await
}

/// One machine, in a list of its own.
#[utoipa::path(get, path = "/api/v1/machines/{serial}", tag = "machines", operation_id = "getMachine",
    params(("serial" = String, Path, description = "Serial of the machine")), responses(
    (status = 200, body = Vec<MachineJson>),
    (status = 400, description = "Not a serial", body = ErrorJson),
    (status = 404, description = "No such machine", body = ErrorJson),
))]
pub async fn get(State(app): State<App>, SerialPath(serial): SerialPath) -> Result<Response, ApiError> {
    let having = Criteria { serials: Some(vec![serial.to_string()]), ..Criteria::default() };
    answer(&app, sabakan_domain::query::Query { having, ..Default::default() }).await
}

/// Removes a machine for good. Only a retired one can be removed.
#[utoipa::path(delete, path = "/api/v1/machines/{serial}", tag = "machines", operation_id = "removeMachine",
    params(("serial" = String, Path, description = "Serial of the machine")), responses(
    (status = 200, description = "Removed"),
    (status = 400, description = "Not a serial", body = ErrorJson),
    (status = 403, description = "Not from an allowed network", body = ErrorJson),
    (status = 404, description = "No such machine", body = ErrorJson),
    (status = 500, description = "The machine is not retired", body = ErrorJson),
))]
pub async fn remove(
    State(app): State<App>,
    Actor(actor): Actor,
    SerialPath(serial): SerialPath,
) -> Result<StatusCode, ApiError> {
    or_bad_serial(&app, &serial, change_within(app.machines.remove(&actor, &serial)).await).await?;
    Ok(StatusCode::OK)
}

fn decode(body: &[u8]) -> Result<Vec<NewMachine>, ApiError> {
    Ok(machines_from_input(json::decode::<Vec<MachineInput>>(body)?)?)
}

/// A path without a serial where one belongs.
pub async fn no_serial() -> ApiError {
    ApiError::invalid("serial is empty")
}

/// Adds every search parameter and its negation to the description.
pub(super) fn describe_filters(document: &mut OpenApi) {
    let item = document.paths.paths.get_mut(paths::MACHINES).and_then(|item| item.get.as_mut());
    let Some(operation) = item else { return };
    let names = QueryParams::NAMES.into_iter();
    let parameter = |name: String, description: String| {
        let text = ObjectBuilder::new().schema_type(Type::String).build();
        let parameter = ParameterBuilder::new()
            .name(name)
            .parameter_in(ParameterIn::Query)
            .required(Required::False)
            .description(Some(description))
            .schema(Some(text));
        RefOr::T(parameter.build())
    };
    let with = names.clone().map(|name| parameter(name.to_owned(), format!("Comma-separated values of {name}")));
    let without = names.map(|name| {
        parameter(format!("without-{name}"), format!("Machines that `{name}` with the same value means are left out"))
    });
    operation.parameters.get_or_insert_default().extend(with.chain(without));
}

async fn answer(app: &App, query: sabakan_domain::query::Query) -> Result<Response, ApiError> {
    let (machines, now) = read_within(app.machines.search(&query)).await?;
    if machines.is_empty() {
        return Err(ApiError::new(ErrorKind::NotFound, ""));
    }
    let body = Body::new(MachineList { machines, now, written: 0, gave_way: false });
    Ok(([(header::CONTENT_TYPE, "application/json")], body).into_response())
}

/// A list that is serialised while it is sent: a client that reads slowly costs a reference per machine, and the room for those is
/// bounded over all answers.
struct MachineList {
    machines: FoundMachines,
    now: Timestamp,
    written: usize,
    /// The thread was given to others since the last piece.
    gave_way: bool,
}

impl hyper::body::Body for MachineList {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let list = self.get_mut();
        // A reader as fast as we are would otherwise keep this thread for its whole list, and every other connection waiting.
        if list.written > 0 && !std::mem::replace(&mut list.gave_way, true) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        list.gave_way = false;
        let end = list.machines.len().min(list.written + limits::MACHINES_PER_CHUNK);
        if list.written == end {
            return Poll::Ready(None);
        }
        let mut chunk = Vec::with_capacity(limits::MACHINES_PER_CHUNK * 2_048);
        for at in list.written..end {
            chunk.push(if at == 0 { b'[' } else { b',' });
            let shape = MachineJson::new(&list.machines[at], list.now);
            serde_json::to_writer(&mut chunk, &shape).expect("texts and numbers serialise into memory");
        }
        list.written = end;
        if end == list.machines.len() {
            chunk.extend_from_slice(b"]\n");
        }
        Poll::Ready(Some(Ok(Frame::data(chunk.into()))))
    }
}
