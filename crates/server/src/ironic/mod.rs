//! The provisioning API, compatible with OpenStack's bare metal service: parses requests, delegates to services, shapes answers. No
//! rule lives here.
//!
//! Shapes and versions are in `wire::ironic`. What is ours alone is `/v1/nodes/{id}/sabakan`, which tells why a node
//! waits and how far its work is.

mod allocations;
mod call;
mod chassis;
mod drivers;
mod error;
mod nodes;
mod ours;
mod page;
mod panel;
mod parts;
mod port_groups;
mod ports;
mod ramdisk;
mod recipes;
mod states;

use std::sync::Arc;

use axum::{
    Router,
    extract::Request,
    http::{StatusCode, Uri, uri::PathAndQuery},
    middleware,
    response::{IntoResponse, Response},
    routing::{any, get, put},
};
use sabakan_service::{Allocations, ChassisService, Nodes, Ports, Recipes};
use sabakan_wire::ironic::{root, root_v1};
use tower::ServiceExt;
use tower_http::catch_panic::CatchPanicLayer;

use self::{
    call::{Call, json},
    error::Fault,
};
use crate::{
    caller::{Gate, TokenExposure},
    provisioning::Provisioning,
    rest,
};

/// What handlers work with.
#[derive(Clone)]
pub struct App {
    nodes: Arc<Nodes>,
    allocations: Arc<Allocations>,
    recipes: Arc<Recipes>,
    ports: Arc<Ports>,
    chassis: Arc<ChassisService>,
    gate: Gate,
}

impl App {
    /// Nodes, with the access control of the other listeners.
    pub fn new(provisioning: Provisioning, rest: &rest::App) -> App {
        let gate = rest.gate.clone();
        let Provisioning { nodes, allocations, recipes, ports, chassis } = provisioning;
        App { nodes, allocations, recipes, ports, chassis, gate }
    }
}

/// All routes.
pub fn router(app: App) -> Router {
    let nodes = Router::new()
        .route("/v1/nodes", get(nodes::list).post(nodes::create))
        .route("/v1/nodes/detail", get(nodes::list_details))
        .route("/v1/nodes/validate", get(parts::validate_by_query))
        .route("/v1/nodes/{id}", get(nodes::get).patch(nodes::update).delete(nodes::remove))
        .route("/v1/nodes/{id}/sabakan", get(ours::one))
        .route("/v1/sabakan", get(ours::under_way))
        .route("/v1/nodes/{id}/validate", get(parts::validate))
        .route("/v1/nodes/{id}/states", get(states::get))
        .route("/v1/nodes/{id}/states/provision", put(states::provision))
        .route("/v1/nodes/{id}/states/power", put(states::power))
        .route("/v1/nodes/{id}/maintenance", put(states::set_maintenance).delete(states::clear_maintenance))
        .route("/v1/nodes/{id}/management/boot_device", get(parts::boot_device).put(parts::set_boot_device))
        .route("/v1/nodes/{id}/management/boot_device/supported", get(parts::boot_devices))
        .route("/v1/nodes/{id}/traits", get(parts::traits).put(parts::set_traits).delete(parts::remove_traits))
        .route("/v1/nodes/{id}/traits/{name}", put(parts::add_trait).delete(parts::remove_trait))
        .route("/v1/nodes/{id}/history", get(parts::history))
        .route("/v1/nodes/{id}/history/{row}", get(parts::history_row))
        .route("/v1/nodes/{id}/inventory", get(parts::inventory));
    let router = nodes
        .merge(parts::without_records())
        .merge(panel::routes())
        .merge(ramdisk::routes())
        .merge(ports::routes())
        .merge(port_groups::routes())
        .merge(chassis::routes())
        .merge(allocations::routes())
        .merge(recipes::routes())
        .route("/", get(async |call: Call| json(StatusCode::OK, &root(&call.base))))
        .route("/v1", get(async |call: Call| json(StatusCode::OK, &root_v1(&call.base, call.version))))
        .route("/v1/drivers", get(drivers::list))
        .route("/v1/drivers/{name}", get(drivers::get))
        .route("/v1/drivers/{name}/properties", get(drivers::properties))
        .route("/v1/drivers/{name}/raid/logical_disk_properties", get(drivers::logical_disk_properties))
        .route("/v1/drivers/{name}/vendor_passthru/methods", get(drivers::no_methods))
        .route("/v1/drivers/{name}/vendor_passthru", any(drivers::no_method))
        .route("/v1/drivers/{name}/vendor_passthru/{method}", any(drivers::no_method_named))
        .route("/v1/conductors", get(drivers::conductors))
        .route("/v1/conductors/{name}", get(drivers::conductor))
        .fallback(async || Fault::nowhere())
        .method_not_allowed_fallback(async || Fault::method())
        .layer(CatchPanicLayer::custom(panicked))
        .layer(middleware::from_fn_with_state(app.clone(), call::around))
        .with_state(app);
    // Around the routes, because a path has to be put right before it is looked up.
    Router::new().fallback(move |request: Request| {
        let router = router.clone();
        async move { router.oneshot(normalise(request)).await }
    })
}

/// Refuses a token that others may have read, in the shape this API's clients read.
pub fn refuse_token(exposure: TokenExposure) -> Response {
    let text = exposure.to_string();
    match exposure {
        TokenExposure::InUrl(_) => {
            let headers =
                "send it as the header Authorization: Bearer TOKEN, or as the password of HTTP basic authentication";
            Fault::invalid(format!("{text}; {headers}"))
        }
        TokenExposure::InTheClear => Fault::forbidden(text),
    }
    .into_response()
}

/// Two APIs on one listener: this one below `/v1`, the other everywhere else.
pub fn beside(other: Router, ironic: Router) -> Router {
    Router::new().fallback(move |request: Request| {
        let router = if is_ours(request.uri().path()) { ironic.clone() } else { other.clone() };
        async move { router.oneshot(request).await }
    })
}

/// Whether a path beside another API is of this one. A path that was meant to lead to a disk key is not: the other API calls it wrong,
/// where this one would say "not found", which a machine takes as leave to format its disk.
fn is_ours(path: &str) -> bool {
    let Some(rest) = path.strip_prefix("/v1").filter(|rest| rest.is_empty() || rest.starts_with('/')) else {
        return false;
    };
    let first = rest.split('/').nth(1).unwrap_or_default();
    KNOWN.contains(&first) || !rest::names_a_key(path)
}

/// Paths with a slash at their end, and paths without `/v1`, mean the same.
fn normalise(mut request: Request) -> Request {
    let uri = request.uri();
    let path = uri.path().trim_end_matches('/');
    let path = match path {
        "" => "/".to_owned(),
        path if path == "/v1" || path.starts_with("/v1/") => path.to_owned(),
        path if KNOWN.iter().any(|known| path[1..].split('/').next() == Some(known)) => format!("/v1{path}"),
        path => path.to_owned(),
    };
    let text = uri.query().map_or_else(|| path.clone(), |query| format!("{path}?{query}"));
    if let Ok(path) = text.parse::<PathAndQuery>() {
        let mut parts = uri.clone().into_parts();
        parts.path_and_query = Some(path);
        if let Ok(uri) = Uri::from_parts(parts) {
            *request.uri_mut() = uri;
        }
    }
    request
}

/// What may stand first in a path without `/v1`.
const KNOWN: &[&str] = &[
    "nodes",
    "ports",
    "portgroups",
    "chassis",
    "drivers",
    "conductors",
    "allocations",
    "volume",
    "deploy_templates",
    "events",
    "lookup",
    "heartbeat",
    "continue_inspection",
    "runbooks",
    "shards",
];

/// A handler that panicked: the request fails, the server goes on.
fn panicked(_: Box<dyn std::any::Any + Send + 'static>) -> Response {
    Fault::defect("internal error").into_response()
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    #[test]
    fn paths_that_mean_the_same() {
        for (given, meant) in [
            ("/", "/"),
            ("/v1/", "/v1"),
            ("/v1/nodes/", "/v1/nodes"),
            ("/v1/nodes/?limit=1", "/v1/nodes?limit=1"),
            ("/nodes/x/states", "/v1/nodes/x/states"),
            ("/nodes", "/v1/nodes"),
            ("/v2", "/v2"),
            ("/nodesx", "/nodesx"),
            ("//", "/"),
        ] {
            let request = Request::builder().uri(given).body(Body::empty()).expect("a request");
            assert_eq!(normalise(request).uri().to_string(), meant, "{given}");
        }
    }

    #[test]
    fn paths_beside_another_api() {
        let ours = ["/v1", "/v1/", "/v1/nodes", "/v1/nodes/crypts", "/v1/sabakan", "/v1/lookup?x", "/v1/nowhere"];
        for path in ours {
            assert!(is_ours(path), "{path}");
        }
        let others = ["/", "/api/v1/machines", "/v1x", "/v2", "/nodes", "/V1", "/v1/crypts/m/d", "/v1//crypts/m/d"];
        for path in others.into_iter().chain(["/v1/%63rypts/m/d", "/v1/api/v1/crypts/m/d", "/v1/../api/v1/Crypts/m/d"])
        {
            assert!(!is_ours(path), "{path}");
        }
    }
}
