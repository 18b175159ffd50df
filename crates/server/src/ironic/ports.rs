//! Ports: lists, one of them, making, changing and forgetting one; and the networks attached to a node.

use axum::{
    Router,
    body::Body,
    extract::{Path, RawQuery, State},
    http::{HeaderMap, StatusCode},
    response::Response,
    routing::{delete, get},
};
use sabakan_domain::provision::{ids::PortId, port::Placed};
use sabakan_service::ShownPort;
use sabakan_wire::ironic::{
    Document as _, Field as _, PortField, PortInput, PortListing, parse_patch, parse_vif, vifs_json,
};

use super::{
    App,
    call::{Call, empty, json, read_json, within},
    error::Fault,
    nodes::{find as find_node, pairs, refused},
    page::{self, Collection, chosen, made, one},
    port_groups,
};
use crate::limits;

/// All routes of ports and of networks.
pub(super) fn routes() -> Router<App> {
    Router::new()
        .route("/v1/ports", get(list).post(create))
        .route("/v1/ports/detail", get(list_details))
        .route("/v1/ports/{id}", get(show).patch(update).delete(remove))
        .route("/v1/nodes/{id}/ports", get(list_of_node))
        .route("/v1/nodes/{id}/ports/detail", get(list_details_of_node))
        .route("/v1/portgroups/{id}/ports", get(list_of_group))
        .route("/v1/portgroups/{id}/ports/detail", get(list_details_of_group))
        .route("/v1/nodes/{id}/vifs", get(vifs).post(attach))
        .route("/v1/nodes/{id}/vifs/{vif}", delete(detach))
}

/// Which ports a path means.
enum Of<'a> {
    /// All.
    All,
    /// Those of a node.
    Node(&'a str),
    /// Those in a group.
    Group(&'a str),
}

async fn list(State(app): State<App>, call: Call, query: RawQuery) -> Result<Response, Fault> {
    answer_list(&app, &call, &query, Of::All, false).await
}

async fn list_details(State(app): State<App>, call: Call, query: RawQuery) -> Result<Response, Fault> {
    answer_list(&app, &call, &query, Of::All, true).await
}

async fn list_of_node(
    State(app): State<App>,
    call: Call,
    Path(id): Path<String>,
    query: RawQuery,
) -> Result<Response, Fault> {
    answer_list(&app, &call, &query, Of::Node(&id), false).await
}

async fn list_details_of_node(
    State(app): State<App>,
    call: Call,
    Path(id): Path<String>,
    query: RawQuery,
) -> Result<Response, Fault> {
    answer_list(&app, &call, &query, Of::Node(&id), true).await
}

async fn list_of_group(
    State(app): State<App>,
    call: Call,
    Path(id): Path<String>,
    query: RawQuery,
) -> Result<Response, Fault> {
    call.needs(24)?;
    answer_list(&app, &call, &query, Of::Group(&id), false).await
}

async fn list_details_of_group(
    State(app): State<App>,
    call: Call,
    Path(id): Path<String>,
    query: RawQuery,
) -> Result<Response, Fault> {
    call.needs(24)?;
    answer_list(&app, &call, &query, Of::Group(&id), true).await
}

async fn answer_list(app: &App, call: &Call, query: &RawQuery, of: Of<'_>, detail: bool) -> Result<Response, Fault> {
    let PortListing { mut filter, node, group, slice, fields } =
        PortListing::parse(pairs(query), call.version, detail)?;
    let (path, node, group) = match of {
        Of::All => ("ports".to_owned(), node, group),
        Of::Node(id) => (format!("nodes/{id}/ports"), Some(id.to_owned()), group),
        Of::Group(id) => (format!("portgroups/{id}/ports"), node, Some(id.to_owned())),
    };
    if let Some(node) = &node {
        filter.node = Some(find_node(app, call, node).await?.node.id);
    }
    if let Some(group) = &group {
        filter.group = Some(port_groups::find(app, group).await?.group.id);
    }
    let found = within(app.ports.page(&filter, &slice)).await;
    let found = found.map_err(|fault| fault.about("Port", &slice.after.map(marker).unwrap_or_default()))?;
    let path = if detail { format!("{path}/detail") } else { path };
    let collection = Collection { name: "ports", path: &path, limit: slice.limit };
    let uuid_of = |placed: &Placed<'_>| placed.port.id.to_string();
    Ok(page::page(call, query, &collection, found.iter().map(placed), &fields, uuid_of))
}

fn marker(id: u128) -> String {
    PortId(id).to_string()
}

fn placed(shown: &ShownPort) -> Placed<'_> {
    Placed { node: shown.node, port: &shown.port }
}

/// One port, by UUID or, since 1.88, by name.
async fn find(app: &App, call: &Call, id: &str) -> Result<ShownPort, Fault> {
    if !call.version.has(88) && id.parse::<PortId>().is_err() {
        return Err(Fault::missing(format!("Port {id} could not be found.")));
    }
    within(app.ports.get(id)).await.map_err(|fault| fault.about("Port", id))
}

async fn show(State(app): State<App>, call: Call, Path(id): Path<String>, query: RawQuery) -> Result<Response, Fault> {
    let fields = chosen::<PortField>(&call, &query)?;
    let shown = find(&app, &call, &id).await?;
    Ok(one(&call, placed(&shown), &fields))
}

async fn create(State(app): State<App>, call: Call, headers: HeaderMap, body: Body) -> Result<Response, Fault> {
    let body = read_json(&headers, body, limits::NODE_BYTES_MAX).await?;
    let (id, node, about) = PortInput::parse_new(body, call.version)?;
    let node = find_node(&app, &call, &node).await.map_err(Fault::in_body)?.node.id;
    let shown = within(app.ports.create(&call.actor, node, id, &about)).await?;
    Ok(made(&call, placed(&shown), &format!("ports/{}", shown.port.id)))
}

async fn update(
    State(app): State<App>,
    call: Call,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Fault> {
    let body = read_json(&headers, body, limits::NODE_BYTES_MAX).await?;
    let operations = parse_patch::<PortInput>(body, call.version)?;
    find(&app, &call, &id).await?;
    let write = |port: Placed<'_>| {
        let patched = PortInput::from(port).patched(&operations);
        patched.and_then(PortInput::parts).map_err(|error| refused(&error))
    };
    let shown = within(app.ports.describe(&call.actor, &id, write)).await.map_err(|fault| fault.about("Port", &id))?;
    Ok(one(&call, placed(&shown), &PortField::all_of(call.version)))
}

async fn remove(State(app): State<App>, call: Call, Path(id): Path<String>) -> Result<Response, Fault> {
    find(&app, &call, &id).await?;
    within(app.ports.remove(&call.actor, &id)).await.map_err(|fault| fault.about("Port", &id))?;
    Ok(empty(StatusCode::NO_CONTENT, None))
}

async fn vifs(State(app): State<App>, call: Call, Path(id): Path<String>) -> Result<Response, Fault> {
    call.needs(28)?;
    let shown = find_node(&app, &call, &id).await?;
    let vifs = within(app.ports.vifs(shown.node.id)).await?;
    Ok(json(StatusCode::OK, &vifs_json(&vifs)))
}

async fn attach(
    State(app): State<App>,
    call: Call,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Fault> {
    call.needs(28)?;
    let body = read_json(&headers, body, limits::NODE_BYTES_MAX).await?;
    let vif = parse_vif(&body, call.version)?;
    let shown = find_node(&app, &call, &id).await?;
    let attached = within(app.ports.attach(&call.actor, shown.node.id, &vif)).await;
    attached.map_err(|fault| fault.about_node(&id))?;
    Ok(empty(StatusCode::NO_CONTENT, None))
}

async fn detach(
    State(app): State<App>,
    call: Call,
    Path((id, vif)): Path<(String, String)>,
) -> Result<Response, Fault> {
    call.needs(28)?;
    let shown = find_node(&app, &call, &id).await?;
    let detached = within(app.ports.detach(&call.actor, shown.node.id, &vif)).await;
    detached.map_err(|fault| fault.about_node(&id))?;
    Ok(empty(StatusCode::NO_CONTENT, None))
}
