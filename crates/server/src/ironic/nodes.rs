//! Nodes: lists, one of them, making, changing and forgetting one.

use axum::{
    body::Body,
    extract::{Path, RawQuery, State},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::Response,
};
use percent_encoding::percent_decode_str;
use sabakan_domain::provision::{
    edit::Fields,
    ids::{ChassisId, NodeId},
    states::State as ProvisionState,
};
use sabakan_service::{Edit, Nodes, ServiceError, Shown, Wanted};
use sabakan_wire::ironic::{
    Document as _, Field as _, NodeAnswer, NodeField, NodeInput, NodeListing, NodeParts, Refused, Version, drop_query,
    parse_bool, parse_pairs,
};
use serde::Serialize;

use super::{
    App,
    call::{Call, empty, json, read_json, within},
    error::Fault,
};
use crate::limits;

/// The pairs of a query.
pub(super) fn pairs(query: &RawQuery) -> Vec<(String, String)> {
    let decode = |text: &str| percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned();
    parse_pairs(query.0.as_deref().unwrap_or_default(), decode)
}

/// One node, by UUID or, since 1.5, by name.
pub(super) async fn find(app: &App, call: &Call, id: &str) -> Result<Shown, Fault> {
    let id = if call.version.has(91) { id } else { id.strip_suffix(".json").unwrap_or(id) };
    if !call.version.has(5) && id.parse::<NodeId>().is_err() {
        return Err(Fault::missing(format!("Node {id} could not be found.")));
    }
    within(app.nodes.glance(id)).await.map_err(|fault| fault.about_node(id))
}

/// A node as answers show it.
pub(super) fn parts<'a>(shown: &'a Shown, conductor: Option<&'a str>) -> NodeParts<'a> {
    let holder = shown.lock.as_ref().map(|lock| lock.record.holder.as_str());
    NodeParts {
        node: &shown.node,
        machine: shown.machine.as_ref().map(|machine| machine.status.state),
        driver: shown.node.driver.as_deref().or(shown.driver),
        holder,
        conductor: holder.or(conductor),
    }
}

#[derive(Serialize)]
struct Listed<'a> {
    nodes: Vec<NodeAnswer<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// `GET /v1/nodes`
pub(super) async fn list(State(app): State<App>, call: Call, query: RawQuery) -> Result<Response, Fault> {
    answer_list(&app, &call, &query, None, false).await
}

/// `GET /v1/nodes/detail`
pub(super) async fn list_details(State(app): State<App>, call: Call, query: RawQuery) -> Result<Response, Fault> {
    answer_list(&app, &call, &query, None, true).await
}

/// Nodes in a chassis.
pub(super) async fn list_in(
    app: &App,
    call: &Call,
    query: &RawQuery,
    chassis: ChassisId,
    detail: bool,
) -> Result<Response, Fault> {
    answer_list(app, call, query, Some(chassis), detail).await
}

async fn answer_list(
    app: &App,
    call: &Call,
    query: &RawQuery,
    chassis: Option<ChassisId>,
    detail: bool,
) -> Result<Response, Fault> {
    let NodeListing { mut filter, sort, page, after, fields } = NodeListing::parse(pairs(query), call.version, detail)?;
    filter.chassis = chassis.or(filter.chassis);
    let wanted = Wanted { filter, sort, descending: page.descending, after, limit: page.limit };
    let missing = |fault: Fault| match (&page.marker, fault) {
        (Some(marker), fault) => fault.about_node(marker),
        (None, fault) => fault,
    };
    let found = within(app.nodes.page(&wanted)).await.map_err(missing)?;
    let conductor = app.nodes.conductor();
    let last = found.last().filter(|_| found.len() == page.limit);
    let below = chassis.map(|id| format!("chassis/{id}/")).unwrap_or_default();
    let path = format!("{below}{}", if detail { "nodes/detail" } else { "nodes" });
    let next = last.map(|shown| next_page(call, &path, query, page.limit, &shown.node.id.to_string()));
    let answer = |shown| NodeAnswer {
        parts: parts(shown, conductor.as_deref()),
        fields: &fields,
        version: call.version,
        base: &call.base,
    };
    Ok(json(StatusCode::OK, &Listed { nodes: found.iter().map(answer).collect(), next }))
}

/// The address of the next page: everything that was asked for stays.
pub(super) fn next_page(call: &Call, path: &str, query: &RawQuery, limit: usize, marker: &str) -> String {
    let mut kept = drop_query(query.0.as_deref().unwrap_or_default(), &["marker", "limit"]);
    if !kept.is_empty() {
        kept.push('&');
    }
    format!("{}/v1/{path}?{kept}limit={limit}&marker={marker}", call.base)
}

/// `GET /v1/nodes/{id}`
pub(super) async fn get(
    State(app): State<App>,
    call: Call,
    Path(id): Path<String>,
    query: RawQuery,
) -> Result<Response, Fault> {
    let mut fields = NodeField::all_of(call.version);
    for (name, value) in pairs(&query) {
        match name.as_str() {
            "fields" => fields = NodeField::chosen(&value, call.version)?,
            other => return Err(Fault::invalid(format!("Unexpected arguments: {other}"))),
        }
    }
    let shown = find(&app, &call, &id).await?;
    Ok(show(&app, &call, &shown, &fields, StatusCode::OK))
}

/// Answers with a node and the version of it. Reads nothing and cannot fail: the node may have been changed a moment ago.
fn show(app: &App, call: &Call, shown: &Shown, fields: &[NodeField], status: StatusCode) -> Response {
    let conductor = app.nodes.conductor();
    let parts = parts(shown, conductor.as_deref());
    let answer = NodeAnswer { parts, fields, version: call.version, base: &call.base };
    let mut response = json(status, &answer);
    let tag = format!("\"{:016x}\"", Nodes::version(&shown.node));
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        response.headers_mut().insert(header::ETAG, tag);
    }
    response
}

/// `POST /v1/nodes`
pub(super) async fn create(
    State(app): State<App>,
    call: Call,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Fault> {
    let body = read_json(&headers, body, limits::NODE_BYTES_MAX).await?;
    let (id, input) = NodeInput::parse_new(body, call.version)?;
    // Older clients know no `enroll`.
    let first = if call.version.has(11) { ProvisionState::Enroll } else { ProvisionState::Available };
    let fields = Fields::from(input);
    let shown = within(app.nodes.create(&call.actor, id, &fields, first)).await?;
    let mut response = show(&app, &call, &shown, &NodeField::all_of(call.version), StatusCode::CREATED);
    let place = format!("{}/v1/nodes/{}", call.base, shown.node.id);
    if let Ok(place) = HeaderValue::from_str(&place) {
        response.headers_mut().insert(header::LOCATION, place);
    }
    Ok(response)
}

/// `PATCH /v1/nodes/{id}`
pub(super) async fn update(
    State(app): State<App>,
    call: Call,
    Path(id): Path<String>,
    query: RawQuery,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Fault> {
    let reset_interfaces = reset(&query, call.version)?;
    let body = read_json(&headers, body, limits::NODE_BYTES_MAX).await?;
    let operations = NodeInput::parse_patch(body, call.version)?;
    let shown = find(&app, &call, &id).await?;
    let how = Edit { known: call.known, knows_inspect_wait: call.version.has(39), reset_interfaces };
    let write = |fields: &Fields| {
        let patched = NodeInput::from(fields).patched(&operations);
        patched.map(Fields::from).map_err(|error| refused(&error))
    };
    let name = shown.node.name.as_str();
    let shown = Box::pin(within(app.nodes.describe(&call.actor, name, how, write)))
        .await
        .map_err(|fault| fault.about_node(&id))?;
    Ok(show(&app, &call, &shown, &NodeField::all_of(call.version), StatusCode::OK))
}

/// A patch that does not fit what is there.
pub(super) fn refused(refused: &Refused) -> ServiceError {
    ServiceError::Invalid(refused.to_string())
}

fn reset(query: &RawQuery, version: Version) -> Result<bool, Fault> {
    let mut reset = false;
    for (name, value) in pairs(query) {
        match name.as_str() {
            "reset_interfaces" if version.has(45) => reset = parse_bool(&value).map_err(Fault::invalid)?,
            "reset_interfaces" => return Err(Refused::newer(&name, 45).into()),
            other => return Err(Fault::invalid(format!("Unexpected arguments: {other}"))),
        }
    }
    Ok(reset)
}

/// `DELETE /v1/nodes/{id}`
pub(super) async fn remove(State(app): State<App>, call: Call, Path(id): Path<String>) -> Result<Response, Fault> {
    let shown = find(&app, &call, &id).await?;
    let removed = within(app.nodes.remove(&call.actor, &shown.node.name, call.known)).await;
    removed.map_err(|fault| fault.about_node(&id))?;
    Ok(empty(StatusCode::NO_CONTENT, None))
}
