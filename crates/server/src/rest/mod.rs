//! The REST API: parses requests, delegates to services, shapes answers. No rule lives here.

pub(crate) mod access;
mod auto_repair;
pub(crate) mod body;
mod cluster;
mod config;
mod constraints;
mod contract;
mod crypts;
mod error;
mod events;
mod incidents;
mod labels;
mod logs;
mod machines;
mod path;
mod reboot_queue;
mod repair_queue;
mod retire_date;
mod state;
mod system;
mod tokens;

use std::{future::Future, sync::Arc};

pub use access::Actor;
use axum::{
    Extension, Router,
    http::Uri,
    middleware,
    routing::{any, delete, get},
};
pub use error::ApiError;
pub use events::{FeedBounds, FeedRoom};
use percent_encoding::percent_decode_str;
use sabakan_domain::access::Policy;
use sabakan_service::{
    Audit, Config, Crypts, Feeds, Foundation, Health, Machines, ServiceError, Tokens, cluster::Cluster,
    repair::Repairs, takeover,
};
use sabakan_wire::rest::{ErrorKind, UnknownParameters, paths};
use serde_json::Value;
use tokio::sync::Semaphore;
use utoipa::OpenApi as _;
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{caller::Gate, limits};

/// What handlers work with.
#[derive(Clone)]
pub struct App {
    config: Arc<Config>,
    pub(crate) machines: Arc<Machines>,
    crypts: Arc<Crypts>,
    cluster: Arc<Cluster>,
    repairs: Arc<Repairs>,
    /// Room for plans that are made for callers.
    plans: Arc<Semaphore>,
    /// Turns for cluster documents that are read.
    documents: Arc<Semaphore>,
    audit: Arc<Audit>,
    tokens: Arc<Tokens>,
    feeds: Arc<Feeds>,
    feed_room: Arc<FeedRoom>,
    health: Arc<Health>,
    /// Who may do what.
    pub(crate) gate: Gate,
    /// What becomes of search parameters that are not ours.
    unknown_parameters: UnknownParameters,
}

impl App {
    /// The same, with another answer to search parameters that are not ours.
    pub fn with_unknown_parameters(self, unknown_parameters: UnknownParameters) -> App {
        App { unknown_parameters, ..self }
    }

    /// The same, with another idea of what makes the server healthy.
    pub fn with_health(self, health: Health) -> App {
        App { health: Arc::new(health), ..self }
    }

    /// Everything handlers need, on one foundation.
    pub fn new(
        foundation: Arc<Foundation>,
        crypts: Crypts,
        cluster: Arc<Cluster>,
        repairs: Arc<Repairs>,
        policy: Policy,
        feed_room: FeedRoom,
    ) -> App {
        let machines = Arc::new(Machines::new(Arc::clone(&foundation)));
        let tokens = Arc::new(Tokens::new(Arc::clone(&foundation)));
        App {
            config: Arc::new(Config::new(Arc::clone(&foundation))),
            gate: Gate::new(Arc::clone(&tokens), Arc::clone(&machines), policy),
            machines,
            crypts: Arc::new(crypts),
            cluster,
            repairs,
            plans: Arc::new(Semaphore::new(limits::PLANS_MAX)),
            documents: Arc::new(Semaphore::new(limits::DOCUMENTS_MAX)),
            audit: Arc::new(Audit::new(Arc::clone(&foundation))),
            tokens,
            feeds: Arc::new(Feeds::new(Arc::clone(&foundation))),
            feed_room: Arc::new(feed_room),
            health: Arc::new(
                takeover::health_probes(&foundation).into_iter().fold(Health::new(foundation), Health::with),
            ),
            unknown_parameters: UnknownParameters::default(),
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
        (name = "crypts", description = "Keys of encrypted disks; HTTPS, or plain HTTP from this machine"),
        (name = "cluster", description = "The Kubernetes cluster: what people ask of it, what the planner does, and why"),
        (name = "repair", description = "Repairs, reboots, and what failed together: what is done, what is not, and why"),
        (name = "logs", description = "Who changed what: the audit log"),
        (name = "events", description = "What changes, as it changes"),
        (name = "tokens", description = "Access tokens"),
        (name = "system", description = "The server itself"),
    ),
)]
struct Document;

/// The routes and the document that describes them.
fn parts() -> (Router<App>, Value) {
    let (router, mut document) = OpenApiRouter::with_openapi(Document::openapi())
        .routes(routes!(config::get_ipam, config::put_ipam))
        .routes(routes!(config::get_dhcp, config::put_dhcp))
        .routes(routes!(machines::list, machines::register))
        .routes(routes!(machines::get, machines::remove))
        .routes(routes!(state::get, state::put))
        .routes(routes!(labels::put, labels::remove))
        .routes(routes!(retire_date::put))
        .routes(routes!(logs::list))
        .routes(routes!(events::follow))
        .routes(routes!(crypts::put, crypts::get))
        .routes(routes!(crypts::delete))
        .routes(routes!(tokens::create, tokens::list))
        .routes(routes!(tokens::revoke))
        .routes(routes!(cluster::get_template, cluster::put_template))
        .routes(routes!(cluster::get_variables, cluster::put_variables, cluster::delete_variables))
        .routes(routes!(cluster::get_enabled, cluster::put_enabled))
        .routes(routes!(cluster::get_configuration, cluster::put_configuration))
        .routes(routes!(cluster::plans::plan))
        .routes(routes!(cluster::plans::simulate))
        .routes(routes!(cluster::plans::explain))
        .routes(routes!(cluster::plans::list))
        .routes(routes!(cluster::plans::get))
        .routes(routes!(cluster::plans::status))
        .routes(routes!(constraints::get, constraints::put))
        .routes(routes!(constraints::put_one))
        .merge(repair())
        .routes(routes!(system::version))
        .routes(routes!(system::health))
        .split_for_parts();
    machines::describe_filters(&mut document);
    let mut document = serde_json::to_value(document).expect("the document serialises");
    contract::complete(&mut document);
    (router, document)
}

/// Routes about repair.
fn repair() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(auto_repair::get_enabled, auto_repair::put_enabled))
        .routes(routes!(auto_repair::get_variables, auto_repair::put_variables, auto_repair::delete_variables))
        .routes(routes!(auto_repair::get_settings, auto_repair::put_settings))
        .routes(routes!(auto_repair::put_setting))
        .routes(routes!(auto_repair::status))
        .routes(routes!(auto_repair::explain))
        .routes(routes!(repair_queue::list, repair_queue::add))
        .routes(routes!(repair_queue::get_enabled, repair_queue::put_enabled))
        .routes(routes!(repair_queue::get, repair_queue::delete))
        .routes(routes!(repair_queue::delete_finished))
        .routes(routes!(repair_queue::delete_unfinished))
        .routes(routes!(repair_queue::reset_backoff))
        .routes(routes!(reboot_queue::list, reboot_queue::add))
        .routes(routes!(reboot_queue::get_enabled, reboot_queue::put_enabled))
        .routes(routes!(reboot_queue::cancel))
        .routes(routes!(reboot_queue::cancel_all))
        .routes(routes!(reboot_queue::reset_backoff))
        .routes(routes!(incidents::list))
        .routes(routes!(incidents::get))
        .routes(routes!(incidents::acknowledge))
}

/// The document at `/openapi.json`.
pub fn document() -> Value {
    parts().1
}

/// All routes.
pub fn router(app: App) -> Router {
    let (router, document) = parts();
    let text: Arc<str> = format!("{document:#}").into();
    router
        .route(paths::IPAM_ALIAS, get(config::get_ipam).put(config::put_ipam))
        // Paths without a serial: a list for readers, a machine without a name for removers.
        .route(paths::MACHINES, delete(machines::no_serial))
        .route("/api/v1/machines/", get(machines::list).post(machines::register).delete(machines::no_serial))
        .merge(incomplete())
        .route(paths::OPENAPI, get(system::openapi))
        .layer(Extension(system::DocumentText(text)))
        .fallback(unknown)
        .method_not_allowed_fallback(async || ApiError::new(ErrorKind::MethodNotAllowed, ""))
        .layer(middleware::from_fn_with_state(app.clone(), access::check))
        .with_state(app)
}

/// A path that leads nowhere. One that was meant to lead to a disk key is called wrong instead of "not found": a machine that is told
/// so formats its disk, and a doubled slash must not do that.
async fn unknown(uri: Uri) -> ApiError {
    if names_a_key(uri.path()) {
        return ApiError::invalid("the path must be /api/v1/crypts/<serial>/<disk>, spelled exactly like this");
    }
    ApiError::new(ErrorKind::NotFound, "")
}

/// Whether a path was meant to lead to a disk key, however it is spelled.
pub(crate) fn names_a_key(path: &str) -> bool {
    let path = percent_decode_str(path).decode_utf8_lossy().to_lowercase();
    path.split('/').any(|segment| segment == "crypts")
}

/// Paths that name too little or too much: their clients are told so instead of "not found", which they would take for the answer
/// about a machine.
fn incomplete() -> Router<App> {
    let mut router = Router::new();
    for path in [paths::STATE, "/api/v1/state/", paths::RETIRE_DATE, "/api/v1/retire-date/"] {
        router = router.route(path, any(machines::no_serial));
    }
    let labels = ["", "/", "/{serial}", "/{serial}/", "/{serial}/{name}/", "/{serial}/{name}/{*rest}"];
    for rest in labels {
        router = router.route(&format!("{}{rest}", paths::LABELS), any(labels::unnamed));
    }
    for rest in ["", "/", "/{serial}/", "/{serial}/{disk}/", "/{serial}/{disk}/{*rest}"] {
        router = router.route(&format!("{}{rest}", paths::CRYPTS), any(crypts::unnamed));
    }
    router.route(&format!("{}/{{serial}}", paths::CRYPTS), get(crypts::unnamed).put(crypts::unnamed))
}

/// Runs the work for a read, within bounds.
async fn read_within<T>(work: impl Future<Output = Result<T, ServiceError>>) -> Result<T, ApiError> {
    match tokio::time::timeout(limits::WORK_TIME_MAX, work).await {
        Ok(done) => Ok(done?),
        Err(_) => Err(ApiError::new(ErrorKind::Unavailable, "the answer took too long; try again, or ask for less")),
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
