//! What callers set and call on a single machine besides verbs, power and boot device; and what other services report.

use axum::{
    Router,
    body::Body,
    extract::{Path, RawQuery, State},
    http::{HeaderMap, Method, StatusCode},
    response::Response,
    routing::{any, get, post, put},
};
use sabakan_domain::provision::interfaces::Slot;
use sabakan_service::BootChange;
use sabakan_wire::ironic::{
    BootModeRequest, ConsoleJson, ConsoleRequest, EventsRequest, IndicatorJson, IndicatorRequest, RaidRequest,
    SecureBootRequest, VendorMethodJson, collection_links, indicator_name, links, parameters,
};
use serde_json::{Map, Value, json};

use super::{
    App,
    call::{self, Call, empty, read_json, within},
    error::Fault,
    nodes::{find, pairs},
    states::states_of,
};
use crate::limits;

/// All of them.
pub(super) fn routes() -> Router<App> {
    Router::new()
        .route("/v1/nodes/{id}/states/raid", put(raid))
        .route("/v1/nodes/{id}/states/boot_mode", put(boot_mode))
        .route("/v1/nodes/{id}/states/secure_boot", put(secure_boot))
        .route("/v1/nodes/{id}/states/console", get(console).put(set_console))
        .route("/v1/nodes/{id}/management/inject_nmi", put(inject_nmi))
        .route("/v1/nodes/{id}/management/indicators", get(indicators))
        .route("/v1/nodes/{id}/management/indicators/{name}", get(indicator).put(set_indicator))
        .route("/v1/nodes/{id}/bios/{name}", get(bios_setting))
        .route("/v1/nodes/{id}/vmedia", get(no_media).post(no_media).delete(no_media))
        .route("/v1/nodes/{id}/vendor_passthru/methods", get(vendor_methods))
        .route("/v1/nodes/{id}/vendor_passthru", any(call_vendor))
        .route("/v1/nodes/{id}/vendor_passthru/{method}", any(call_vendor_named))
        .route("/v1/nodes/{id}/volume", get(node_volume))
        .route("/v1/volume", get(volume))
        .route("/v1/events", post(events))
}

/// `PUT /v1/nodes/{id}/states/raid`
async fn raid(
    State(app): State<App>,
    call: Call,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Fault> {
    call.needs(12)?;
    let body = read_json(&headers, body, limits::NODE_BYTES_MAX).await?;
    let RaidRequest { wanted } = RaidRequest::parse(body)?;
    let shown = find(&app, &call, &id).await?;
    let noted = within(app.nodes.want_volumes(&call.actor, &shown.node.name, &wanted)).await?;
    noted.map(|()| empty(StatusCode::NO_CONTENT, None)).ok_or_else(|| {
        let driver = shown.node.driver.as_deref().or(shown.driver).unwrap_or("unknown");
        Fault::missing(format!("Driver {driver} does not support {} (disabled or not implemented).", Slot::Raid))
    })
}

/// `PUT /v1/nodes/{id}/states/boot_mode`
async fn boot_mode(
    State(app): State<App>,
    call: Call,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Fault> {
    call.needs(76)?;
    let body = read_json(&headers, body, limits::NODE_BYTES_MAX).await?;
    let BootModeRequest { target } = BootModeRequest::parse(&body)?;
    change_boot(&app, &call, &id, BootChange::Mode(target)).await
}

/// `PUT /v1/nodes/{id}/states/secure_boot`
async fn secure_boot(
    State(app): State<App>,
    call: Call,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Fault> {
    call.needs(76)?;
    let body = read_json(&headers, body, limits::NODE_BYTES_MAX).await?;
    let SecureBootRequest { target } = SecureBootRequest::parse(&body)?;
    change_boot(&app, &call, &id, BootChange::Secure(target)).await
}

async fn change_boot(app: &App, call: &Call, id: &str, change: BootChange) -> Result<Response, Fault> {
    let shown = find(app, call, id).await?;
    within(app.nodes.change_boot(&call.actor, &shown.node.name, change)).await?;
    Ok(empty(StatusCode::ACCEPTED, Some(states_of(call, id))))
}

/// `GET /v1/nodes/{id}/states/console`
async fn console(State(app): State<App>, call: Call, Path(id): Path<String>) -> Result<Response, Fault> {
    let shown = find(&app, &call, &id).await?;
    let enabled = within(app.nodes.console(&shown.node.name)).await?;
    Ok(call::json(StatusCode::OK, &ConsoleJson::of(enabled)))
}

/// `PUT /v1/nodes/{id}/states/console`
async fn set_console(
    State(app): State<App>,
    call: Call,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Fault> {
    let body = read_json(&headers, body, limits::NODE_BYTES_MAX).await?;
    let ConsoleRequest { enabled } = ConsoleRequest::parse(&body)?;
    let shown = find(&app, &call, &id).await?;
    within(app.nodes.set_console(&call.actor, &shown.node.name, enabled)).await?;
    Ok(empty(StatusCode::ACCEPTED, Some(format!("{}/console", states_of(&call, &id)))))
}

/// `PUT /v1/nodes/{id}/management/inject_nmi`
async fn inject_nmi(State(app): State<App>, call: Call, Path(id): Path<String>) -> Result<Response, Fault> {
    call.needs(29)?;
    let shown = find(&app, &call, &id).await?;
    within(app.nodes.interrupt(&call.actor, &shown.node.name)).await?;
    Ok(empty(StatusCode::NO_CONTENT, None))
}

/// `GET /v1/nodes/{id}/management/indicators`
async fn indicators(State(app): State<App>, call: Call, Path(id): Path<String>) -> Result<Response, Fault> {
    call.needs(63)?;
    let shown = find(&app, &call, &id).await?;
    let found = within(app.nodes.indicators(&shown.node.name)).await?;
    let found: Vec<_> = found.iter().map(|indicator| IndicatorJson::of(indicator, &id, &call.base)).collect();
    Ok(call::json(StatusCode::OK, &json!({ "indicators": found })))
}

/// `GET /v1/nodes/{id}/management/indicators/{name}`
async fn indicator(
    State(app): State<App>,
    call: Call,
    Path((id, wanted)): Path<(String, String)>,
) -> Result<Response, Fault> {
    call.needs(63)?;
    let (name, component) = indicator_name(&wanted)?;
    let shown = find(&app, &call, &id).await?;
    let found = within(app.nodes.indicators(&shown.node.name)).await?;
    let found = found.iter().find(|indicator| indicator.name == name && indicator.component == component);
    let found = found.ok_or_else(|| Fault::invalid(format!("Invalid indicator {name} specified.")))?;
    Ok(call::json(StatusCode::OK, &json!({ "state": found.state.as_str() })))
}

/// `PUT /v1/nodes/{id}/management/indicators/{name}`: no driver here can.
async fn set_indicator(
    State(app): State<App>,
    call: Call,
    Path((id, wanted)): Path<(String, String)>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Fault> {
    call.needs(63)?;
    let body = read_json(&headers, body, limits::NODE_BYTES_MAX).await?;
    IndicatorRequest::parse(&body)?;
    indicator_name(&wanted)?;
    Err(unsupported(&app, &call, &id, "set_indicator_state").await?)
}

/// A function that no driver here has.
async fn unsupported(app: &App, call: &Call, id: &str, what: &str) -> Result<Fault, Fault> {
    let shown = find(app, call, id).await?;
    let driver = shown.node.driver.as_deref().or(shown.driver).unwrap_or("unknown");
    Ok(Fault::invalid(format!("Driver {driver} does not support {what} (disabled or not implemented).")))
}

/// `GET /v1/nodes/{id}/bios/{name}`: nobody keeps settings of firmware.
async fn bios_setting(
    State(app): State<App>,
    call: Call,
    Path((id, name)): Path<(String, String)>,
) -> Result<Response, Fault> {
    call.needs(40)?;
    let shown = find(&app, &call, &id).await?;
    Err(Fault::missing(format!("Node {} doesn't have a BIOS setting '{name}'", shown.node.id)))
}

/// `/v1/nodes/{id}/vmedia`: no driver here inserts anything.
async fn no_media(
    State(app): State<App>,
    call: Call,
    method: Method,
    Path(id): Path<String>,
) -> Result<Response, Fault> {
    call.needs(if method == Method::GET { 93 } else { 89 })?;
    let what = match method {
        Method::GET => "get_virtual_media",
        Method::DELETE => "detach_virtual_media",
        _ => "attach_virtual_media",
    };
    Err(unsupported(&app, &call, &id, what).await?)
}

/// `GET /v1/nodes/{id}/vendor_passthru/methods`
async fn vendor_methods(State(app): State<App>, call: Call, Path(id): Path<String>) -> Result<Response, Fault> {
    let shown = find(&app, &call, &id).await?;
    let methods = within(app.nodes.vendor_methods(&shown.node.name)).await?;
    let all: Map<String, Value> =
        methods.iter().map(|method| (method.name.to_owned(), json!(VendorMethodJson::from(method)))).collect();
    Ok(call::json(StatusCode::OK, &all))
}

/// `/v1/nodes/{id}/vendor_passthru?method=…`
async fn call_vendor(
    State(app): State<App>,
    call: Call,
    http: Method,
    Path(id): Path<String>,
    query: RawQuery,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Fault> {
    let mut query = pairs(&query);
    let at = query.iter().position(|(name, _)| name == "method");
    let at = at.ok_or_else(|| Fault::invalid("Missing mandatory parameter: method"))?;
    let (_, method) = query.swap_remove(at);
    let body = read_json(&headers, body, limits::NODE_BYTES_MAX).await?;
    answer_vendor(&app, &call, &id, (&http, &method), query, body).await
}

/// `/v1/nodes/{id}/vendor_passthru/{method}`
async fn call_vendor_named(
    State(app): State<App>,
    call: Call,
    http: Method,
    Path((id, method)): Path<(String, String)>,
    query: RawQuery,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Fault> {
    let body = read_json(&headers, body, limits::NODE_BYTES_MAX).await?;
    answer_vendor(&app, &call, &id, (&http, &method), pairs(&query), body).await
}

async fn answer_vendor(
    app: &App,
    call: &Call,
    id: &str,
    (http, method): (&Method, &str),
    query: Vec<(String, String)>,
    body: Value,
) -> Result<Response, Fault> {
    let args = parameters(query, body)?;
    let shown = find(app, call, id).await?;
    let answer = within(app.nodes.call_vendor(&call.actor, &shown.node.name, method, http.as_str(), &args)).await?;
    Ok(match answer {
        Some(answer) => call::json(StatusCode::OK, &answer),
        None => empty(StatusCode::ACCEPTED, None),
    })
}

/// `GET /v1/nodes/{id}/volume`
async fn node_volume(State(app): State<App>, call: Call, Path(id): Path<String>) -> Result<Response, Fault> {
    call.needs(32)?;
    find(&app, &call, &id).await?;
    let path = format!("nodes/{id}/volume");
    let below = |name: &str| collection_links(&call.base, &format!("{path}/{name}"));
    let answer = json!({
        "connectors": below("connectors"), "targets": below("targets"), "links": links(&call.base, &format!("{path}/")),
    });
    Ok(call::json(StatusCode::OK, &answer))
}

/// `GET /v1/volume`
async fn volume(call: Call) -> Result<Response, Fault> {
    call.needs(32)?;
    let below = |name: &str| collection_links(&call.base, &format!("volume/{name}"));
    let answer = json!({
        "connectors": below("connectors"), "targets": below("targets"), "links": collection_links(&call.base, "volume"),
    });
    Ok(call::json(StatusCode::OK, &answer))
}

/// `POST /v1/events`: understood, and of no consequence here: nothing waits for a network service.
async fn events(call: Call, headers: HeaderMap, body: Body) -> Result<Response, Fault> {
    call.needs(54)?;
    let body = read_json(&headers, body, limits::NODE_BYTES_MAX).await?;
    let EventsRequest { names } = EventsRequest::parse(&body)?;
    tracing::debug!(events = names.len(), "events of a network service, of no consequence here");
    Ok(empty(StatusCode::NO_CONTENT, None))
}
