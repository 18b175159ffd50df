//! Verbs, power and maintenance of a node.

use axum::{
    body::Body,
    extract::{Path, State},
    http::{HeaderMap, StatusCode},
    response::Response,
};
use jiff::SignedDuration;
use sabakan_domain::provision::node::Object;
use sabakan_service::Asked;
use sabakan_wire::ironic::{MaintenanceRequest, PowerRequest, ProvisionRequest, StatesJson};

use super::{
    App,
    call::{Call, empty, json, read_json, within},
    error::Fault,
    nodes::find,
};
use crate::limits;

/// `GET /v1/nodes/{id}/states`
pub(super) async fn get(State(app): State<App>, call: Call, Path(id): Path<String>) -> Result<Response, Fault> {
    let shown = find(&app, &call, &id).await?;
    Ok(json(StatusCode::OK, &StatesJson::of(&shown.node, call.version)))
}

/// `PUT /v1/nodes/{id}/states/provision`
pub(super) async fn provision(
    State(app): State<App>,
    call: Call,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Fault> {
    let body = read_json(&headers, body, limits::PROVISION_BYTES_MAX).await?;
    let shown = find(&app, &call, &id).await?;
    let request = ProvisionRequest::parse(body, call.version)?;
    let verb = request.verb_for(&shown.node, call.version)?;
    let asked = Asked { verb, steps: request.steps, disable_ramdisk: request.disable_ramdisk };
    let instance: Object = request.configdrive.map(|drive| ("configdrive".to_owned(), drive)).into_iter().collect();
    let name = &shown.node.name;
    if let Some(runbook) = &request.runbook {
        let done = within(app.nodes.ask_by_runbook(&call.actor, name, &asked, runbook, call.known)).await;
        done.map_err(|fault| fault.about("Runbook", runbook))?;
    } else {
        let done = within(app.nodes.ask_knowing(&call.actor, name, &asked, &instance, call.known)).await;
        done.map_err(|fault| fault.about_node(&id))?;
    }
    Ok(empty(StatusCode::ACCEPTED, Some(states_of(&call, &id))))
}

/// `PUT /v1/nodes/{id}/states/power`
pub(super) async fn power(
    State(app): State<App>,
    call: Call,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Fault> {
    let body = read_json(&headers, body, limits::NODE_BYTES_MAX).await?;
    let request = PowerRequest::parse(&body, call.version)?;
    let shown = find(&app, &call, &id).await?;
    let limit = request.timeout.map(|seconds| SignedDuration::from_secs(seconds.into()));
    let name = &shown.node.name;
    let done = if request.force {
        within(app.nodes.force_power_off(&call.actor, name, limit)).await
    } else {
        within(app.nodes.set_power(&call.actor, name, request.target, limit)).await
    };
    done.map_err(|fault| fault.about_node(&id))?;
    Ok(empty(StatusCode::ACCEPTED, Some(states_of(&call, &id))))
}

pub(super) fn states_of(call: &Call, id: &str) -> String {
    format!("{}/v1/nodes/{id}/states", call.base)
}

/// `PUT /v1/nodes/{id}/maintenance`
pub(super) async fn set_maintenance(
    State(app): State<App>,
    call: Call,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Fault> {
    let body = read_json(&headers, body, limits::NODE_BYTES_MAX).await?;
    let MaintenanceRequest { reason } = MaintenanceRequest::parse(&body)?;
    let shown = find(&app, &call, &id).await?;
    within(app.nodes.set_maintenance(&call.actor, &shown.node.name, reason, true)).await?;
    Ok(empty(StatusCode::ACCEPTED, None))
}

/// `DELETE /v1/nodes/{id}/maintenance`
pub(super) async fn clear_maintenance(
    State(app): State<App>,
    call: Call,
    Path(id): Path<String>,
) -> Result<Response, Fault> {
    let shown = find(&app, &call, &id).await?;
    within(app.nodes.set_maintenance(&call.actor, &shown.node.name, None, false)).await?;
    Ok(empty(StatusCode::ACCEPTED, None))
}
