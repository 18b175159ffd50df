//! Port groups: lists, one of them, making, changing and forgetting one.

use axum::{
    Router,
    body::Body,
    extract::{Path, RawQuery, State},
    http::{HeaderMap, StatusCode},
    response::Response,
    routing::get,
};
use sabakan_domain::provision::{ids::PortGroupId, port_group::Placed};
use sabakan_service::ShownGroup;
use sabakan_wire::ironic::{Document as _, Field as _, PortGroupField, PortGroupInput, PortGroupListing, parse_patch};

use super::{
    App,
    call::{Call, empty, read_json, within},
    error::Fault,
    nodes::{find as find_node, pairs, refused},
    page::{self, Collection, chosen, made, one},
};
use crate::limits;

/// All routes.
pub(super) fn routes() -> Router<App> {
    Router::new()
        .route("/v1/portgroups", get(list).post(create))
        .route("/v1/portgroups/detail", get(list_details))
        .route("/v1/portgroups/{id}", get(show).patch(update).delete(remove))
        .route("/v1/nodes/{id}/portgroups", get(list_of_node))
        .route("/v1/nodes/{id}/portgroups/detail", get(list_details_of_node))
}

async fn list(State(app): State<App>, call: Call, query: RawQuery) -> Result<Response, Fault> {
    answer_list(&app, &call, &query, None, false).await
}

async fn list_details(State(app): State<App>, call: Call, query: RawQuery) -> Result<Response, Fault> {
    answer_list(&app, &call, &query, None, true).await
}

async fn list_of_node(
    State(app): State<App>,
    call: Call,
    Path(id): Path<String>,
    query: RawQuery,
) -> Result<Response, Fault> {
    call.needs(24)?;
    answer_list(&app, &call, &query, Some(&id), false).await
}

async fn list_details_of_node(
    State(app): State<App>,
    call: Call,
    Path(id): Path<String>,
    query: RawQuery,
) -> Result<Response, Fault> {
    call.needs(24)?;
    answer_list(&app, &call, &query, Some(&id), true).await
}

async fn answer_list(
    app: &App,
    call: &Call,
    query: &RawQuery,
    of_node: Option<&str>,
    detail: bool,
) -> Result<Response, Fault> {
    call.needs(23)?;
    let PortGroupListing { mut filter, node, slice, fields } =
        PortGroupListing::parse(pairs(query), call.version, detail)?;
    if let Some(node) = of_node.or(node.as_deref()) {
        filter.node = Some(find_node(app, call, node).await?.node.id);
    }
    let found = within(app.ports.page_groups(&filter, &slice)).await;
    let marker = slice.after.map(|id| PortGroupId(id).to_string()).unwrap_or_default();
    let found = found.map_err(|fault| fault.about("Portgroup", &marker))?;
    let path = of_node.map_or_else(|| "portgroups".to_owned(), |id| format!("nodes/{id}/portgroups"));
    let path = if detail { format!("{path}/detail") } else { path };
    let collection = Collection { name: "portgroups", path: &path, limit: slice.limit };
    let uuid_of = |placed: &Placed<'_>| placed.group.id.to_string();
    Ok(page::page(call, query, &collection, found.iter().map(placed), &fields, uuid_of))
}

fn placed(shown: &ShownGroup) -> Placed<'_> {
    Placed { node: shown.node, group: &shown.group }
}

/// One port group, by UUID or name.
pub(super) async fn find(app: &App, id: &str) -> Result<ShownGroup, Fault> {
    within(app.ports.get_group(id)).await.map_err(|fault| fault.about("Portgroup", id))
}

async fn show(State(app): State<App>, call: Call, Path(id): Path<String>, query: RawQuery) -> Result<Response, Fault> {
    call.needs(23)?;
    let fields = chosen::<PortGroupField>(&call, &query)?;
    let shown = find(&app, &id).await?;
    Ok(one(&call, placed(&shown), &fields))
}

async fn create(State(app): State<App>, call: Call, headers: HeaderMap, body: Body) -> Result<Response, Fault> {
    call.needs(23)?;
    let body = read_json(&headers, body, limits::NODE_BYTES_MAX).await?;
    let (id, node, about) = PortGroupInput::parse_new(body, call.version)?;
    let node = find_node(&app, &call, &node).await.map_err(Fault::in_body)?.node.id;
    let shown = within(app.ports.create_group(&call.actor, node, id, &about)).await?;
    Ok(made(&call, placed(&shown), &format!("portgroups/{}", shown.group.id)))
}

async fn update(
    State(app): State<App>,
    call: Call,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Fault> {
    call.needs(23)?;
    let body = read_json(&headers, body, limits::NODE_BYTES_MAX).await?;
    let operations = parse_patch::<PortGroupInput>(body, call.version)?;
    let write = |group: Placed<'_>| {
        let patched = PortGroupInput::from(group).patched(&operations);
        patched.and_then(PortGroupInput::parts).map_err(|error| refused(&error))
    };
    let shown = within(app.ports.describe_group(&call.actor, &id, write)).await;
    let shown = shown.map_err(|fault| fault.about("Portgroup", &id))?;
    Ok(one(&call, placed(&shown), &PortGroupField::all_of(call.version)))
}

async fn remove(State(app): State<App>, call: Call, Path(id): Path<String>) -> Result<Response, Fault> {
    call.needs(23)?;
    within(app.ports.remove_group(&call.actor, &id)).await.map_err(|fault| fault.about("Portgroup", &id))?;
    Ok(empty(StatusCode::NO_CONTENT, None))
}
