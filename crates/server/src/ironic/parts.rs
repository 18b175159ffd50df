//! What hangs below a node: validation, boot device, traits, history, inventory; and correct answers about what this server keeps no
//! records of, such as volumes.

use std::collections::BTreeMap;

use axum::{
    Router,
    body::Body,
    extract::{Path, RawQuery, State},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use sabakan_domain::provision::{
    boot::BootDevice,
    node::{NodeId, Row},
};
use sabakan_service::{ServiceError, Shown, Verdict};
use sabakan_wire::ironic::{
    BootDeviceJson, Field as _, HistoryJson, NodeField, Page, TraitsJson, ValidationJson, parse_bool,
};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{
    App,
    call::{self, Call, empty, read_json, within},
    error::Fault,
    nodes::{find, next_page, pairs},
};
use crate::limits;

/// `GET /v1/nodes/{id}/validate`
pub(super) async fn validate(State(app): State<App>, call: Call, Path(id): Path<String>) -> Result<Response, Fault> {
    answer_validation(&app, &call, &id).await
}

/// `GET /v1/nodes/validate?node=…`, the oldest spelling.
pub(super) async fn validate_by_query(State(app): State<App>, call: Call, query: RawQuery) -> Result<Response, Fault> {
    let id = pairs(&query).into_iter().find(|(name, _)| matches!(name.as_str(), "node" | "node_uuid"));
    let (_, id) = id.ok_or_else(|| Fault::invalid("Missing mandatory parameter: node"))?;
    answer_validation(&app, &call, &id).await
}

async fn answer_validation(app: &App, call: &Call, id: &str) -> Result<Response, Fault> {
    let shown = find(app, call, id).await?;
    let verdicts = within(async { Ok(app.nodes.validate(&shown).await) }).await?;
    let known = |field: &str| NodeField::parse(field).is_none_or(|field| call.version.has(field.since()));
    let answer: BTreeMap<&str, ValidationJson> = verdicts
        .into_iter()
        .filter(|(slot, _)| known(slot.field()))
        .map(|(slot, verdict)| {
            let (result, reason) = match verdict {
                Verdict::Fine => (Some(true), None),
                Verdict::Wrong(reason) => (Some(false), Some(reason)),
                Verdict::Absent(reason) => (None, Some(reason)),
            };
            (slot.as_str(), ValidationJson { result, reason })
        })
        .collect();
    Ok(call::json(StatusCode::OK, &answer))
}

/// `GET /v1/nodes/{id}/management/boot_device`
pub(super) async fn boot_device(State(app): State<App>, call: Call, Path(id): Path<String>) -> Result<Response, Fault> {
    let shown = find(&app, &call, &id).await?;
    let (device, persistent) = within(app.nodes.boot_device(&shown.node.name)).await?;
    Ok(call::json(StatusCode::OK, &BootDeviceJson::of(device, persistent)))
}

/// `GET /v1/nodes/{id}/management/boot_device/supported`
pub(super) async fn boot_devices(
    State(app): State<App>,
    call: Call,
    Path(id): Path<String>,
) -> Result<Response, Fault> {
    let shown = find(&app, &call, &id).await?;
    let devices = within(app.nodes.boot_devices(&shown.node.name)).await?;
    let devices: Vec<&str> = devices.into_iter().map(BootDevice::as_str).collect();
    Ok(call::json(StatusCode::OK, &json!({ "supported_boot_devices": devices })))
}

/// `PUT /v1/nodes/{id}/management/boot_device`
pub(super) async fn set_boot_device(
    State(app): State<App>,
    call: Call,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Fault> {
    let body = read_json(&headers, body, limits::NODE_BYTES_MAX).await?;
    let request = BootDeviceJson::parse(&body)?;
    let shown = find(&app, &call, &id).await?;
    within(app.nodes.set_boot_device(&call.actor, &shown.node.name, &request)).await?;
    Ok(empty(StatusCode::NO_CONTENT, None))
}

/// `GET /v1/nodes/{id}/traits`
pub(super) async fn traits(State(app): State<App>, call: Call, Path(id): Path<String>) -> Result<Response, Fault> {
    call.needs(37)?;
    let shown = find(&app, &call, &id).await?;
    let traits = shown.node.details.traits.iter().cloned().collect();
    Ok(call::json(StatusCode::OK, &TraitsJson { traits }))
}

/// `PUT /v1/nodes/{id}/traits`
pub(super) async fn set_traits(
    State(app): State<App>,
    call: Call,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Fault> {
    call.needs(37)?;
    let TraitsJson { traits } = TraitsJson::parse(read_json(&headers, body, limits::NODE_BYTES_MAX).await?)?;
    let shown = find(&app, &call, &id).await?;
    let all = traits.into_iter().collect();
    within(app.nodes.set_traits(&call.actor, &shown.node.name, |_| Ok(Clone::clone(&all)))).await?;
    Ok(empty(StatusCode::NO_CONTENT, None))
}

/// `DELETE /v1/nodes/{id}/traits`
pub(super) async fn remove_traits(
    State(app): State<App>,
    call: Call,
    Path(id): Path<String>,
) -> Result<Response, Fault> {
    call.needs(37)?;
    let shown = find(&app, &call, &id).await?;
    within(app.nodes.set_traits(&call.actor, &shown.node.name, |_| Ok(Default::default()))).await?;
    Ok(empty(StatusCode::NO_CONTENT, None))
}

/// `PUT /v1/nodes/{id}/traits/{name}`
pub(super) async fn add_trait(
    State(app): State<App>,
    call: Call,
    Path((id, name)): Path<(String, String)>,
) -> Result<Response, Fault> {
    call.needs(37)?;
    let shown = find(&app, &call, &id).await?;
    let add = |traits: &std::collections::BTreeSet<String>| Ok(traits.iter().cloned().chain([name.clone()]).collect());
    within(app.nodes.set_traits(&call.actor, &shown.node.name, add)).await?;
    let place = format!("{}/v1/nodes/{id}/traits/{name}", call.base);
    Ok(empty(StatusCode::NO_CONTENT, Some(place)))
}

/// `DELETE /v1/nodes/{id}/traits/{name}`
pub(super) async fn remove_trait(
    State(app): State<App>,
    call: Call,
    Path((id, name)): Path<(String, String)>,
) -> Result<Response, Fault> {
    call.needs(37)?;
    let shown = find(&app, &call, &id).await?;
    let missing = || Fault::missing(format!("Node {} doesn't have a trait '{name}'", shown.node.id));
    if !shown.node.details.traits.contains(&name) {
        return Err(missing());
    }
    let remove = |traits: &std::collections::BTreeSet<String>| {
        let mut left = traits.clone();
        if left.remove(&name) { Ok(left) } else { Err(ServiceError::NotFound) }
    };
    within(app.nodes.set_traits(&call.actor, &shown.node.name, remove)).await?;
    Ok(empty(StatusCode::NO_CONTENT, None))
}

/// The rows of a node's history, each with its UUID: made from the node's and the row's number, so that it stays the same.
async fn rows(app: &App, shown: &Shown) -> Result<Vec<(String, Row)>, Fault> {
    let rows = within(app.nodes.history(&shown.node.name)).await?;
    let node = Uuid::from_u128(shown.node.id.0);
    let uuid = |number: u64| Uuid::new_v5(&node, &number.to_be_bytes()).to_string();
    Ok(rows.into_iter().map(|(number, row)| (uuid(number), row)).collect())
}

/// `GET /v1/nodes/{id}/history`
pub(super) async fn history(
    State(app): State<App>,
    call: Call,
    Path(id): Path<String>,
    query: RawQuery,
) -> Result<Response, Fault> {
    call.needs(78)?;
    let mut pairs = pairs(&query);
    let page = Page::take(&mut pairs)?;
    let mut detail = false;
    for (name, value) in pairs {
        match name.as_str() {
            "detail" => detail = parse_bool(&value).map_err(Fault::invalid)?,
            other => return Err(Fault::invalid(format!("Unexpected arguments: {other}"))),
        }
    }
    let shown = find(&app, &call, &id).await?;
    let rows = rows(&app, &shown).await?;
    let begin = match &page.marker {
        None => 0,
        Some(marker) => {
            let at = rows.iter().position(|(uuid, _)| uuid == marker);
            at.ok_or_else(|| Fault::missing(format!("History {marker} could not be found.")))? + 1
        }
    };
    let found: Vec<_> = rows.iter().skip(begin).take(page.limit).collect();
    let last = found.last().filter(|_| begin + found.len() < rows.len());
    let next = last.map(|(uuid, _)| next_page(&call, &format!("nodes/{id}/history"), &query, page.limit, uuid));
    let row = |(uuid, row): &&(String, Row)| HistoryJson::of(row, uuid.clone(), &id, detail, &call.base, call.version);
    let history: Vec<HistoryJson> = found.iter().map(row).collect();
    let mut answer = json!({ "history": history });
    if let (Some(next), Value::Object(members)) = (next, &mut answer) {
        members.insert("next".to_owned(), json!(next));
    }
    Ok(call::json(StatusCode::OK, &answer))
}

/// `GET /v1/nodes/{id}/history/{row}`
pub(super) async fn history_row(
    State(app): State<App>,
    call: Call,
    Path((id, wanted)): Path<(String, String)>,
) -> Result<Response, Fault> {
    call.needs(78)?;
    let shown = find(&app, &call, &id).await?;
    let rows = rows(&app, &shown).await?;
    let found = rows.into_iter().find(|(uuid, _)| *uuid == wanted);
    let (uuid, row) = found.ok_or_else(|| Fault::missing(format!("History {wanted} could not be found.")))?;
    Ok(call::json(StatusCode::OK, &HistoryJson::of(&row, uuid, &id, true, &call.base, call.version)))
}

/// `GET /v1/nodes/{id}/inventory`
pub(super) async fn inventory(State(app): State<App>, call: Call, Path(id): Path<String>) -> Result<Response, Fault> {
    call.needs(81)?;
    let shown = find(&app, &call, &id).await?;
    let found = within(app.nodes.inventory(&shown.node.name)).await?;
    let found =
        found.ok_or_else(|| Fault::missing(format!("Node inventory record for node {id} could not be found.")))?;
    let json = HeaderValue::from_static("application/json");
    Ok((StatusCode::OK, [(header::CONTENT_TYPE, json)], found).into_response())
}

/// Things of the API this server keeps no records of: lists of them are empty. They cannot be made.
pub(super) fn without_records() -> Router<App> {
    let mut router = Router::new();
    for (name, since) in [("connectors", 32), ("targets", 32)] {
        let list = async move |call: Call| -> Result<Response, Fault> {
            call.needs(since)?;
            Ok(call::json(StatusCode::OK, &json!({ name: [] })))
        };
        router = router.route(&format!("/v1/volume/{name}"), get(list));
    }
    for (path, name, since) in [
        ("bios", "bios", 40),
        ("firmware", "firmware", 86),
        ("volume/connectors", "connectors", 32),
        ("volume/targets", "targets", 32),
    ] {
        let list = async move |State(app): State<App>, call: Call, Path(id): Path<String>| -> Result<Response, Fault> {
            call.needs(since)?;
            find(&app, &call, &id).await?;
            Ok(call::json(StatusCode::OK, &json!({ name: [] })))
        };
        router = router.route(&format!("/v1/nodes/{{id}}/{path}"), get(list));
    }
    router.route("/v1/nodes/{id}/children", get(children))
}

/// `GET /v1/nodes/{id}/children`
async fn children(State(app): State<App>, call: Call, Path(id): Path<String>) -> Result<Response, Fault> {
    call.needs(83)?;
    let shown = find(&app, &call, &id).await?;
    let filter = sabakan_domain::provision::search::Filter { parent_node: Some(shown.node.id), ..Default::default() };
    let wanted = sabakan_service::Wanted {
        filter,
        sort: sabakan_domain::provision::search::SortKey::Created,
        descending: false,
        after: None,
        limit: usize::MAX,
    };
    let found = within(app.nodes.page(&wanted)).await?;
    let ids: Vec<String> = found.iter().map(|child| NodeId::to_string(&child.node.id)).collect();
    let link = json!({ "href": format!("{}/v1/nodes?parent_node={}", call.base, shown.node.id), "rel": "children" });
    Ok(call::json(StatusCode::OK, &json!({ "children": ids, "links": link })))
}
