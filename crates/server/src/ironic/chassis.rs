//! Chassis: lists, one of them, making, changing and forgetting one, and the nodes in one.

use axum::{
    Router,
    body::Body,
    extract::{Path, RawQuery, State},
    http::{HeaderMap, StatusCode},
    response::Response,
    routing::get,
};
use sabakan_domain::provision::{
    chassis::{About, Chassis},
    ids::ChassisId,
};
use sabakan_wire::ironic::{ChassisField, ChassisInput, ChassisListing, Document as _, Field as _, parse_patch};

use super::{
    App,
    call::{Call, empty, read_json, within},
    error::Fault,
    nodes::{self, pairs, refused},
    page::{self, Collection, chosen, made, one},
};
use crate::limits;

/// All routes.
pub(super) fn routes() -> Router<App> {
    Router::new()
        .route("/v1/chassis", get(list).post(create))
        .route("/v1/chassis/detail", get(list_details))
        .route("/v1/chassis/{id}", get(show).patch(update).delete(remove))
        .route("/v1/chassis/{id}/nodes", get(list_nodes))
        .route("/v1/chassis/{id}/nodes/detail", get(list_node_details))
}

async fn list(State(app): State<App>, call: Call, query: RawQuery) -> Result<Response, Fault> {
    answer_list(&app, &call, &query, false).await
}

async fn list_details(State(app): State<App>, call: Call, query: RawQuery) -> Result<Response, Fault> {
    answer_list(&app, &call, &query, true).await
}

async fn answer_list(app: &App, call: &Call, query: &RawQuery, detail: bool) -> Result<Response, Fault> {
    let ChassisListing { slice, fields } = ChassisListing::parse(pairs(query), call.version, detail)?;
    let marker = slice.after.map(|id| ChassisId(id).to_string()).unwrap_or_default();
    let found = within(app.chassis.page(&slice)).await.map_err(|fault| fault.about("Chassis", &marker))?;
    let path = if detail { "chassis/detail" } else { "chassis" };
    let collection = Collection { name: "chassis", path, limit: slice.limit };
    Ok(page::page(call, query, &collection, found.iter(), &fields, |chassis: &&Chassis| chassis.id.to_string()))
}

/// The UUID in a path. Chassis have no names.
fn parse(id: &str) -> Result<ChassisId, Fault> {
    id.parse().map_err(|_| Fault::missing(format!("Chassis {id} could not be found.")))
}

async fn find(app: &App, id: &str) -> Result<Chassis, Fault> {
    within(app.chassis.get(parse(id)?)).await.map_err(|fault| fault.about("Chassis", id))
}

async fn show(State(app): State<App>, call: Call, Path(id): Path<String>, query: RawQuery) -> Result<Response, Fault> {
    let fields = chosen::<ChassisField>(&call, &query)?;
    Ok(one(&call, &find(&app, &id).await?, &fields))
}

async fn create(State(app): State<App>, call: Call, headers: HeaderMap, body: Body) -> Result<Response, Fault> {
    let body = read_json(&headers, body, limits::NODE_BYTES_MAX).await?;
    let (id, about) = ChassisInput::parse_new(body, call.version)?;
    let chassis = within(app.chassis.create(&call.actor, id, about)).await?;
    Ok(made(&call, &chassis, &format!("chassis/{}", chassis.id)))
}

async fn update(
    State(app): State<App>,
    call: Call,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Fault> {
    let body = read_json(&headers, body, limits::NODE_BYTES_MAX).await?;
    let operations = parse_patch::<ChassisInput>(body, call.version)?;
    let write = |about: &About| {
        let patched = ChassisInput::from(about).patched(&operations);
        patched.map(About::from).map_err(|error| refused(&error))
    };
    let changed = within(app.chassis.describe(&call.actor, parse(&id)?, write)).await;
    let changed = changed.map_err(|fault| fault.about("Chassis", &id))?;
    Ok(one(&call, &changed, &ChassisField::all_of(call.version)))
}

async fn remove(State(app): State<App>, call: Call, Path(id): Path<String>) -> Result<Response, Fault> {
    within(app.chassis.remove(&call.actor, parse(&id)?)).await.map_err(|fault| fault.about("Chassis", &id))?;
    Ok(empty(StatusCode::NO_CONTENT, None))
}

async fn list_nodes(
    State(app): State<App>,
    call: Call,
    Path(id): Path<String>,
    query: RawQuery,
) -> Result<Response, Fault> {
    let chassis = find(&app, &id).await?.id;
    nodes::list_in(&app, &call, &query, chassis, false).await
}

async fn list_node_details(
    State(app): State<App>,
    call: Call,
    Path(id): Path<String>,
    query: RawQuery,
) -> Result<Response, Fault> {
    let chassis = find(&app, &id).await?.id;
    nodes::list_in(&app, &call, &query, chassis, true).await
}
