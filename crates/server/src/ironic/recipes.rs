//! Deploy templates and runbooks: lists, one of them, making, changing and forgetting one, and which nodes a runbook is for.

use std::{collections::BTreeSet, sync::Arc};

use axum::{
    Router,
    body::Body,
    extract::{Path, RawQuery, State},
    http::{HeaderMap, StatusCode},
    response::Response,
    routing::{get, put},
};
use sabakan_domain::provision::{
    ids::RecipeId,
    recipe::{About, Kind, Recipe},
};
use sabakan_service::ServiceError;
use sabakan_wire::ironic::{
    Field as _, Operation, RecipeInput, RecipeListing, Runbook, RunbookField, RunbookInput, Template, TemplateField,
    TemplateInput, TraitsJson, parse_patch,
};

use super::{
    App,
    call::{self, Call, empty, read_json, within},
    error::Fault,
    nodes::{pairs, refused},
    page::{self, Collection, chosen, made, one},
};
use crate::limits;

/// All routes.
pub(super) fn routes() -> Router<App> {
    Router::new()
        .route("/v1/deploy_templates", get(list_templates).post(create_template))
        .route("/v1/deploy_templates/{id}", get(show_template).patch(update_template).delete(remove_template))
        .route("/v1/runbooks", get(list_runbooks).post(create_runbook))
        .route("/v1/runbooks/{id}", get(show_runbook).patch(update_runbook).delete(remove_runbook))
        .route("/v1/runbooks/{id}/traits", get(traits).put(set_traits).delete(remove_traits))
        .route("/v1/runbooks/{id}/traits/{name}", put(add_trait).delete(remove_trait))
}

/// The version each kind came with.
const fn since(kind: Kind) -> u16 {
    match kind {
        Kind::Template => 55,
        Kind::Runbook => 92,
    }
}

/// The version runbooks were given traits in.
const TRAITS_SINCE: u16 = 112;

/// One that was not found, in the words of the API.
fn about(kind: Kind, id: &str) -> impl Fn(Fault) -> Fault {
    let words = match kind {
        Kind::Template => "Deploy template",
        Kind::Runbook => "Runbook",
    };
    move |fault| fault.about(words, id)
}

async fn list_templates(State(app): State<App>, call: Call, query: RawQuery) -> Result<Response, Fault> {
    call.knows(since(Kind::Template), "deploy templates")?;
    let RecipeListing { slice, fields } = RecipeListing::<TemplateField>::parse(pairs(&query), call.version)?;
    let marker = slice.after.map(|id| RecipeId(id).to_string()).unwrap_or_default();
    let found = within(app.recipes.page(Kind::Template, &slice)).await.map_err(about(Kind::Template, &marker))?;
    let collection = Collection { name: "deploy_templates", path: "deploy_templates", limit: slice.limit };
    let items = found.iter().map(|recipe| Template(recipe));
    Ok(page::page(&call, &query, &collection, items, &fields, |template| template.0.id.to_string()))
}

async fn list_runbooks(State(app): State<App>, call: Call, query: RawQuery) -> Result<Response, Fault> {
    call.knows(since(Kind::Runbook), "runbooks")?;
    let RecipeListing { slice, fields } = RecipeListing::<RunbookField>::parse(pairs(&query), call.version)?;
    let marker = slice.after.map(|id| RecipeId(id).to_string()).unwrap_or_default();
    let found = within(app.recipes.page(Kind::Runbook, &slice)).await.map_err(about(Kind::Runbook, &marker))?;
    let collection = Collection { name: "runbooks", path: "runbooks", limit: slice.limit };
    let items = found.iter().map(|recipe| Runbook(recipe));
    Ok(page::page(&call, &query, &collection, items, &fields, |runbook| runbook.0.id.to_string()))
}

async fn find(app: &App, call: &Call, kind: Kind, id: &str) -> Result<Arc<Recipe>, Fault> {
    call.needs(since(kind))?;
    within(app.recipes.get(kind, id)).await.map_err(about(kind, id))
}

async fn show_template(
    State(app): State<App>,
    call: Call,
    Path(id): Path<String>,
    query: RawQuery,
) -> Result<Response, Fault> {
    let fields = chosen::<TemplateField>(&call, &query)?;
    Ok(one(&call, Template(&*find(&app, &call, Kind::Template, &id).await?), &fields))
}

async fn show_runbook(
    State(app): State<App>,
    call: Call,
    Path(id): Path<String>,
    query: RawQuery,
) -> Result<Response, Fault> {
    let fields = chosen::<RunbookField>(&call, &query)?;
    Ok(one(&call, Runbook(&*find(&app, &call, Kind::Runbook, &id).await?), &fields))
}

async fn create_template(
    State(app): State<App>,
    call: Call,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Fault> {
    let recipe = create::<TemplateInput>(&app, &call, Kind::Template, &headers, body).await?;
    Ok(made(&call, Template(&recipe), &format!("deploy_templates/{}", recipe.id)))
}

async fn create_runbook(State(app): State<App>, call: Call, headers: HeaderMap, body: Body) -> Result<Response, Fault> {
    let recipe = create::<RunbookInput>(&app, &call, Kind::Runbook, &headers, body).await?;
    Ok(made(&call, Runbook(&recipe), &format!("runbooks/{}", recipe.id)))
}

async fn create<D: RecipeInput>(
    app: &App,
    call: &Call,
    kind: Kind,
    headers: &HeaderMap,
    body: Body,
) -> Result<Recipe, Fault> {
    call.has_method(since(kind))?;
    let body = read_json(headers, body, limits::NODE_BYTES_MAX).await?;
    let (id, about) = D::parse_new(body, call.version)?;
    within(app.recipes.create(&call.actor, kind, id, about)).await
}

async fn update_template(
    State(app): State<App>,
    call: Call,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Fault> {
    let changed = update::<TemplateInput>(&app, &call, Kind::Template, &id, &headers, body).await?;
    Ok(one(&call, Template(&changed), &TemplateField::all_of(call.version)))
}

async fn update_runbook(
    State(app): State<App>,
    call: Call,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Fault> {
    let changed = update::<RunbookInput>(&app, &call, Kind::Runbook, &id, &headers, body).await?;
    Ok(one(&call, Runbook(&changed), &RunbookField::all_of(call.version)))
}

async fn update<D: RecipeInput>(
    app: &App,
    call: &Call,
    kind: Kind,
    id: &str,
    headers: &HeaderMap,
    body: Body,
) -> Result<Recipe, Fault> {
    call.has_method(since(kind))?;
    let body = read_json(headers, body, limits::NODE_BYTES_MAX).await?;
    let operations: Vec<Operation> = parse_patch::<D>(body, call.version)?;
    let write = |about: &About| {
        let patched = D::from(about).patched(&operations).and_then(D::about);
        patched.map_err(|error| refused(&error))
    };
    within(app.recipes.describe(&call.actor, kind, id, write)).await.map_err(about(kind, id))
}

async fn remove_template(State(app): State<App>, call: Call, Path(id): Path<String>) -> Result<Response, Fault> {
    remove(&app, &call, Kind::Template, &id).await
}

async fn remove_runbook(State(app): State<App>, call: Call, Path(id): Path<String>) -> Result<Response, Fault> {
    remove(&app, &call, Kind::Runbook, &id).await
}

async fn remove(app: &App, call: &Call, kind: Kind, id: &str) -> Result<Response, Fault> {
    call.has_method(since(kind))?;
    within(app.recipes.remove(&call.actor, kind, id)).await.map_err(about(kind, id))?;
    Ok(empty(StatusCode::NO_CONTENT, None))
}

async fn traits(State(app): State<App>, call: Call, Path(id): Path<String>) -> Result<Response, Fault> {
    call.needs(TRAITS_SINCE)?;
    let traits = find(&app, &call, Kind::Runbook, &id).await?.traits.iter().cloned().collect();
    Ok(call::json(StatusCode::OK, &TraitsJson { traits }))
}

async fn set_traits(
    State(app): State<App>,
    call: Call,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Fault> {
    let body = read_json(&headers, body, limits::NODE_BYTES_MAX).await?;
    let TraitsJson { traits } = TraitsJson::parse(body)?;
    let all: BTreeSet<String> = traits.into_iter().collect();
    change_traits(&app, &call, &id, |_| Ok(all.clone())).await?;
    Ok(empty(StatusCode::NO_CONTENT, None))
}

async fn remove_traits(State(app): State<App>, call: Call, Path(id): Path<String>) -> Result<Response, Fault> {
    change_traits(&app, &call, &id, |_| Ok(BTreeSet::new())).await?;
    Ok(empty(StatusCode::NO_CONTENT, None))
}

async fn add_trait(
    State(app): State<App>,
    call: Call,
    Path((id, name)): Path<(String, String)>,
) -> Result<Response, Fault> {
    change_traits(&app, &call, &id, |traits| Ok(traits.iter().cloned().chain([name.clone()]).collect())).await?;
    Ok(empty(StatusCode::NO_CONTENT, Some(format!("{}/v1/runbooks/{id}/traits/{name}", call.base))))
}

async fn remove_trait(
    State(app): State<App>,
    call: Call,
    Path((id, name)): Path<(String, String)>,
) -> Result<Response, Fault> {
    // Unlike that of a node, one that is not there is as good as removed.
    let others = |traits: &BTreeSet<String>| Ok(traits.iter().filter(|other| **other != name).cloned().collect());
    change_traits(&app, &call, &id, others).await?;
    Ok(empty(StatusCode::NO_CONTENT, None))
}

async fn change_traits(
    app: &App,
    call: &Call,
    id: &str,
    write: impl Fn(&BTreeSet<String>) -> Result<BTreeSet<String>, ServiceError>,
) -> Result<(), Fault> {
    call.has_method(TRAITS_SINCE)?;
    within(app.recipes.set_traits(&call.actor, id, write)).await.map_err(about(Kind::Runbook, id))
}
