//! `/graphql` and `/playground`: HTTP around `sabakan-graphql`. What a request means is decided there; here it is taken from and put
//! into HTTP the way clients of the older service expect, and its caller is judged.

mod body;
mod error;
mod playground;
mod transport;

use axum::{
    Router,
    extract::{Request, State},
    http::{HeaderValue, Method, StatusCode, header},
    response::{IntoResponse, Response},
    routing::{any, get},
};
use error::{Failure, Media};
use sabakan_domain::access::Deed;
use sabakan_graphql::{Answer, Api, Operation, Prepared};
use sabakan_service::ServiceError;
use sabakan_wire::rest::ErrorKind;

use crate::{
    caller::{KnownCaller, Schemes},
    config::GraphqlConfig,
    http::{Failures, Peer},
    limits,
    rest::{ApiError, App},
};

/// Where queries go.
const PATH: &str = "/graphql";

/// What the handler works with.
#[derive(Clone)]
struct Graphql {
    app: App,
    api: Api,
    open_mutations: bool,
}

/// The routes. Without the playground its path does not exist.
pub fn router(app: App, config: GraphqlConfig) -> Router {
    let api = Api::new(app.machines.clone());
    let mut router = Router::new().route(PATH, any(answer));
    if config.playground {
        let wrong_method = async || ApiError::new(ErrorKind::MethodNotAllowed, "");
        router = router.route("/playground", get(playground::page).fallback(wrong_method));
    }
    router.with_state(Graphql { app, api, open_mutations: config.open_mutations })
}

async fn answer(State(graphql): State<Graphql>, request: Request) -> Response {
    let media = Media::wanted(request.headers());
    let allow = (header::ALLOW, HeaderValue::from_static("OPTIONS, GET, POST"));
    match *request.method() {
        Method::OPTIONS => return [allow].into_response(),
        Method::HEAD => return (StatusCode::METHOD_NOT_ALLOWED, [allow]).into_response(),
        _ => {}
    }
    match serve(&graphql, request).await {
        Ok(answer) => show(answer, media),
        Err(failure) => failure.into_response(media),
    }
}

async fn serve(graphql: &Graphql, request: Request) -> Result<Answer, Failure> {
    let app = &graphql.app;
    let (parts, body) = request.into_parts();
    let peer = parts.extensions.get::<Peer>();
    let caller = app.gate.recognise(&parts.headers, peer, Schemes::Bearer).await.map_err(ApiError::from)?;
    app.gate.judge(&caller, Deed::ReadRegistry).await.map_err(ApiError::from)?;
    let request = transport::read(&parts, body).await?;
    let prepared = graphql.api.prepare(request)?;
    if prepared.operation() != Operation::Query {
        if parts.method == Method::GET {
            return Err(Failure::only_queries());
        }
        if !graphql.open_mutations {
            app.gate.judge(&caller, Deed::ChangeRegistry).await.map_err(ApiError::from)?;
        }
    }
    run(graphql, prepared, &caller).await
}

/// Runs a request, within bounds.
async fn run(graphql: &Graphql, prepared: Prepared, caller: &KnownCaller) -> Result<Answer, Failure> {
    let (actor, kind, text) = match prepared.operation() {
        Operation::Query | Operation::Subscription => {
            (None, ErrorKind::Unavailable, "the answer took too long; try again, or ask for less")
        }
        Operation::Mutation => (
            Some(caller.actor.clone()),
            ErrorKind::OutcomeUnknown,
            "the change took too long and may or may not have been made; look before trying again",
        ),
    };
    let Ok(answer) = tokio::time::timeout(limits::WORK_TIME_MAX, graphql.api.run(prepared, actor)).await else {
        return Err(ApiError::new(kind, text).into());
    };
    let mut answer = answer?;
    // Not a failure of a field but of the server, and no other field would have fared better.
    match answer.failures.iter().position(|error| matches!(error, ServiceError::Crowded(_))) {
        Some(at) => Err(ApiError::from(answer.failures.swap_remove(at)).into()),
        None => Ok(answer),
    }
}

/// Errors of fields are part of a successful answer, as the protocol says.
fn show(mut answer: Answer, media: Media) -> Response {
    let failures: Vec<ApiError> = std::mem::take(&mut answer.failures).into_iter().map(ApiError::from).collect();
    let mut response = ([(header::CONTENT_TYPE, media.name())], body::of(answer)).into_response();
    response.extensions_mut().insert(Failures(failures));
    response
}
