//! Allocations, and how many nodes each shard has.

use std::sync::Arc;

use axum::{
    Router,
    body::Body,
    extract::{Path, RawQuery, State},
    http::{HeaderMap, StatusCode},
    response::Response,
    routing::get,
};
use sabakan_domain::provision::{
    allocation::{Allocation, Fields},
    ids::AllocationId,
};
use sabakan_service::Wish;
use sabakan_wire::ironic::{
    AllocationEdit, AllocationField, AllocationInput, AllocationListing, Document as _, Field as _, ShardJson,
    parse_patch,
};
use serde_json::json;

use super::{
    App,
    call::{self, Call, empty, read_json, within},
    error::Fault,
    nodes::{find as find_node, pairs, refused},
    page::{self, Collection, chosen, made, one},
};
use crate::limits;

/// All routes.
pub(super) fn routes() -> Router<App> {
    Router::new()
        .route("/v1/allocations", get(list).post(create))
        .route("/v1/allocations/{id}", get(show).patch(update).delete(remove))
        .route("/v1/nodes/{id}/allocation", get(show_of_node).delete(remove_of_node))
        .route("/v1/shards", get(shards))
}

async fn list(State(app): State<App>, call: Call, query: RawQuery) -> Result<Response, Fault> {
    call.knows(52, "allocations")?;
    let AllocationListing { filter, node, slice, fields } = AllocationListing::parse(pairs(&query), call.version)?;
    let marker = slice.after.map(|id| AllocationId(id).to_string()).unwrap_or_default();
    let found = within(app.allocations.page(filter, node.as_deref(), &slice)).await;
    let found = found.map_err(|fault| fault.about("Allocation", &marker))?;
    let collection = Collection { name: "allocations", path: "allocations", limit: slice.limit };
    let items = found.iter().map(Arc::as_ref);
    Ok(page::page(&call, &query, &collection, items, &fields, |of: &&Allocation| of.id.to_string()))
}

async fn show(State(app): State<App>, call: Call, Path(id): Path<String>, query: RawQuery) -> Result<Response, Fault> {
    call.knows(52, "allocations")?;
    let fields = chosen::<AllocationField>(&call, &query)?;
    let found = within(app.allocations.get(&id)).await.map_err(|fault| fault.about("Allocation", &id))?;
    Ok(one(&call, &*found, &fields))
}

async fn create(State(app): State<App>, call: Call, headers: HeaderMap, body: Body) -> Result<Response, Fault> {
    call.has_method(52)?;
    let body = read_json(&headers, body, limits::NODE_BYTES_MAX).await?;
    let (id, input) = AllocationInput::parse_new(body, call.version)?;
    let AllocationInput { candidate_nodes, extra, name, node, owner, resource_class, traits } = input;
    let wish = Wish {
        id,
        name,
        resource_class,
        candidates: candidate_nodes.unwrap_or_default(),
        traits: traits.unwrap_or_default(),
        owner,
        extra: extra.unwrap_or_default(),
        node,
    };
    let allocation = within(app.allocations.create(&call.actor, &wish)).await?;
    Ok(made(&call, &allocation, &format!("allocations/{}", allocation.id)))
}

async fn update(
    State(app): State<App>,
    call: Call,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Fault> {
    call.has_method(57)?;
    let body = read_json(&headers, body, limits::NODE_BYTES_MAX).await?;
    let operations = parse_patch::<AllocationEdit>(body, call.version)?;
    let write = |fields: &Fields| {
        let patched = AllocationEdit::from(fields).patched(&operations);
        patched.map(Fields::from).map_err(|error| refused(&error))
    };
    let changed = within(app.allocations.change(&call.actor, &id, write)).await;
    let changed = changed.map_err(|fault| fault.about("Allocation", &id))?;
    Ok(one(&call, &changed, &AllocationField::all_of(call.version)))
}

async fn remove(State(app): State<App>, call: Call, Path(id): Path<String>) -> Result<Response, Fault> {
    call.has_method(52)?;
    let removed = within(app.allocations.remove(&call.actor, &id)).await;
    removed.map_err(|fault| fault.about("Allocation", &id))?;
    Ok(empty(StatusCode::NO_CONTENT, None))
}

async fn show_of_node(
    State(app): State<App>,
    call: Call,
    Path(id): Path<String>,
    query: RawQuery,
) -> Result<Response, Fault> {
    call.knows(52, "allocations")?;
    let fields = chosen::<AllocationField>(&call, &query)?;
    let found = find_of_node(&app, &call, &id).await?;
    Ok(one(&call, &*found, &fields))
}

async fn remove_of_node(State(app): State<App>, call: Call, Path(id): Path<String>) -> Result<Response, Fault> {
    call.has_method(52)?;
    let found = find_of_node(&app, &call, &id).await?;
    within(app.allocations.remove(&call.actor, &found.id.to_string())).await?;
    Ok(empty(StatusCode::NO_CONTENT, None))
}

async fn find_of_node(app: &App, call: &Call, id: &str) -> Result<Arc<Allocation>, Fault> {
    let shown = find_node(app, call, id).await?;
    let found = within(app.allocations.of_node(&shown.node.name)).await;
    found.map_err(|fault| fault.about("Allocation for node", &shown.node.id.to_string()))
}

async fn shards(State(app): State<App>, call: Call) -> Result<Response, Fault> {
    call.knows(82, "shards")?;
    let shards: Vec<ShardJson> = within(app.allocations.shards()).await?.into_iter().map(ShardJson::of).collect();
    Ok(call::json(StatusCode::OK, &json!({ "shards": shards })))
}
