//! The REST API: parses requests, delegates to services, shapes answers. No rule lives here.

mod body;
mod config;
mod error;
mod machines;
mod path;
mod system;

use std::{future::Future, sync::Arc};

use axum::{
    Extension, Router,
    extract::{Request, State},
    http::Method,
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::{delete, get},
};
pub use error::ApiError;
use sabakan_domain::access::AllowedNetworks;
use sabakan_service::{Config, Foundation, Health, Machines, ServiceError};
use sabakan_wire::rest::{ErrorKind, paths};
use tokio::sync::Semaphore;
use utoipa::{OpenApi as _, openapi::OpenApi};
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{http::Peer, limits};

/// What handlers work with.
#[derive(Clone)]
pub struct App {
    config: Arc<Config>,
    machines: Arc<Machines>,
    health: Arc<Health>,
    /// Room for request bodies, in units of a kibibyte.
    bodies: Arc<Semaphore>,
    allowed: Arc<AllowedNetworks>,
}

impl App {
    /// Everything handlers need, on one foundation.
    pub fn new(foundation: &Foundation, allowed: AllowedNetworks) -> App {
        App {
            config: Arc::new(Config::new(foundation)),
            machines: Arc::new(Machines::new(foundation)),
            health: Arc::new(Health::new(foundation)),
            bodies: Arc::new(Semaphore::new(limits::BODIES_BYTES_MAX / body::UNIT)),
            allowed: Arc::new(allowed),
        }
    }
}

#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "sabakan",
        description = "Looks after every physical server of a data centre. JSON object keys of request bodies match in any case, \
            unknown keys are ignored. Every refusal has the same body; its `kind` tells programs what happened.",
        license(name = "Apache-2.0", identifier = "Apache-2.0"),
    ),
    tags(
        (name = "machines", description = "Registered servers"),
        (name = "config", description = "How addresses are assigned"),
        (name = "system", description = "The server itself"),
    ),
)]
struct Document;

/// The routes and the document that describes them.
fn parts() -> (Router<App>, OpenApi) {
    let (router, mut document) = OpenApiRouter::with_openapi(Document::openapi())
        .routes(routes!(config::get_ipam, config::put_ipam))
        .routes(routes!(config::get_dhcp, config::put_dhcp))
        .routes(routes!(machines::list, machines::register))
        .routes(routes!(machines::get, machines::remove))
        .routes(routes!(system::version))
        .routes(routes!(system::health))
        .split_for_parts();
    machines::describe_filters(&mut document);
    (router, document)
}

/// The document at `/openapi.json`.
pub fn document() -> OpenApi {
    parts().1
}

/// All routes.
pub fn router(app: App) -> Router {
    let (router, document) = parts();
    let text: Arc<str> = document.to_pretty_json().expect("the document serialises").into();
    router
        .route(paths::IPAM_ALIAS, get(config::get_ipam).put(config::put_ipam))
        // Paths without a serial: a list for readers, a machine without a name for removers.
        .route(paths::MACHINES, delete(machines::remove_nothing))
        .route("/api/v1/machines/", get(machines::list).post(machines::register).delete(machines::remove_nothing))
        .route(paths::OPENAPI, get(system::openapi))
        .layer(Extension(system::DocumentText(text)))
        .fallback(async || ApiError::new(ErrorKind::NotFound, ""))
        .method_not_allowed_fallback(async || ApiError::new(ErrorKind::MethodNotAllowed, ""))
        .layer(middleware::from_fn_with_state(app.clone(), check_access))
        .with_state(app)
}

/// Changes under `/api/v1/` are accepted from allowed networks only, and refused before anything else is looked at.
async fn check_access(State(app): State<App>, request: Request, next: Next) -> Response {
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    let guarded = request.uri().path().starts_with("/api/v1/");
    let allowed = request.extensions().get::<Peer>().is_some_and(|peer| app.allowed.contains(peer.0.ip()));
    if reads || !guarded || allowed {
        next.run(request).await
    } else {
        ApiError::new(ErrorKind::Forbidden, "").into_response()
    }
}

/// Runs the work for a read, within bounds.
async fn read_within<T>(work: impl Future<Output = Result<T, ServiceError>>) -> Result<T, ApiError> {
    match tokio::time::timeout(limits::WORK_TIME_MAX, work).await {
        Ok(done) => Ok(done?),
        Err(_) => Err(ApiError::new(
            ErrorKind::Unavailable,
            "the answer took too long; the store may be overloaded, try again",
        )),
    }
}

/// Runs the work for a change, within bounds. One that took too long may still happen.
async fn change_within<T>(work: impl Future<Output = Result<T, ServiceError>>) -> Result<T, ApiError> {
    match tokio::time::timeout(limits::WORK_TIME_MAX, work).await {
        Ok(done) => Ok(done?),
        Err(_) => Err(ApiError::new(
            ErrorKind::OutcomeUnknown,
            "the change took too long and may or may not have been made; look before trying again",
        )),
    }
}
