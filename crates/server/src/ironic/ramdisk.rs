//! What ramdisks ask and tell. Everybody may; tokens of the API mean nothing here.

use axum::{
    Router,
    body::Body,
    extract::{Path, RawQuery, State},
    http::{HeaderMap, StatusCode},
    response::Response,
    routing::{get, post},
};
use sabakan_drivers::Secret;
use sabakan_service::{AgentHeartbeat, Introduced};
use sabakan_wire::ironic::{HeartbeatRequest, LookupQuery, inspected_node, lookup_json};
use serde_json::json;

use super::{
    App,
    call::{self, Call, empty, read_json, within},
    error::Fault,
    nodes::pairs,
};
use crate::limits;

/// All of them.
pub(super) fn routes() -> Router<App> {
    Router::new()
        .route("/v1/lookup", get(lookup))
        .route("/v1/heartbeat/{id}", post(heartbeat))
        .route("/v1/continue_inspection", post(continue_inspection))
}

/// Whether a path is one of these.
pub(super) fn is_open(path: &str) -> bool {
    matches!(path, "/v1/lookup" | "/v1/continue_inspection") || path.starts_with("/v1/heartbeat/")
}

/// `GET /v1/lookup`
async fn lookup(State(app): State<App>, call: Call, query: RawQuery) -> Result<Response, Fault> {
    call.needs(22)?;
    let LookupQuery { id, addresses } = LookupQuery::parse(pairs(&query))?;
    let Introduced { node, token } =
        Box::pin(within(app.nodes.look_up(&call.actor, id, &addresses))).await.map_err(Fault::bare)?;
    let answer = lookup_json(&node, token.as_ref().map(Secret::expose), &call.base);
    Ok(call::json(StatusCode::OK, &answer))
}

/// `POST /v1/heartbeat/{id}`
async fn heartbeat(
    State(app): State<App>,
    call: Call,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Fault> {
    call.needs(22)?;
    let body = read_json(&headers, body, limits::NODE_BYTES_MAX).await?;
    let HeartbeatRequest { callback_url, agent_token, agent_version, agent_verify_ca } =
        HeartbeatRequest::parse(&body, call.version)?;
    let said = AgentHeartbeat {
        token: Secret::new(agent_token),
        callback_url,
        version: agent_version,
        verify_ca: agent_verify_ca,
        peer: call.actor.ip,
    };
    Box::pin(within(app.nodes.hear(&call.actor, &id, &said))).await.map_err(Fault::bare)?;
    Ok(empty(StatusCode::ACCEPTED, None))
}

/// `POST /v1/continue_inspection`
async fn continue_inspection(
    State(app): State<App>,
    call: Call,
    query: RawQuery,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Fault> {
    let id = inspected_node(pairs(&query))?;
    let data = read_json(&headers, body, limits::INSPECTION_BYTES_MAX).await?;
    let taken = Box::pin(within(app.nodes.take_inspection(&call.actor, id, data))).await;
    let Introduced { node, token } = taken.map_err(Fault::bare)?;
    // Ramdisks that speak no newer version take the answer for a receipt.
    let answer = if call.version.has(84) {
        lookup_json(&node, token.as_ref().map(Secret::expose), &call.base)
    } else {
        json!({ "uuid": node.id.to_string() })
    };
    Ok(call::json(StatusCode::ACCEPTED, &answer))
}
