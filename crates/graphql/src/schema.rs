//! The root of the schema: finding machines and moving one along its lifecycle. Every rule is in the services below.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use async_graphql::{
    Context, EmptySubscription, Error, ErrorExtensions as _, ID, Object, Result, SDLExportOptions, Schema,
};
use jiff::Timestamp;
use sabakan_domain::{
    audit::Actor,
    lifecycle::Force,
    query::{Criteria, Query as Search},
    words::Serial,
};
use sabakan_service::{FoundMachines, Machines, ServiceError};

use crate::{
    api::Phases,
    input::{self, MachineParams, MachineState},
    limits::{
        CHANGE_COMPLEXITY, COMPLEXITY_MAX, DEPTH_MAX, DIRECTIVES_MAX, QUERY_NESTING_MAX, SEARCHED_FIELD_COMPLEXITY,
    },
    objects::{MachineObject, StatusObject},
    render::{Many, One},
};

/// The schema.
pub type Root = Schema<Query, Mutation, EmptySubscription>;

/// Finding machines.
pub struct Query;

/// Changing machines.
pub struct Mutation;

/// What belongs to one request.
pub struct RequestData {
    /// When it began.
    pub now: Timestamp,
    /// Who asks, if a change is to be made.
    pub actor: Option<Arc<Actor>>,
    failures: Mutex<Vec<ServiceError>>,
    /// Whether a change was not made. Those after it are not tried: whoever wrote them down in an order meant the order.
    change_failed: AtomicBool,
    /// What was searched for and found. Searches of one request come one after the other, so that it takes one turn at a time, and
    /// those that are the same share their list.
    searched: tokio::sync::Mutex<Vec<(Search, Arc<FoundMachines>)>>,
}

impl RequestData {
    /// A request that begins now.
    pub fn new(now: Timestamp, actor: Option<Arc<Actor>>) -> RequestData {
        let (failures, searched) = (Mutex::default(), tokio::sync::Mutex::default());
        RequestData { now, actor, failures, change_failed: AtomicBool::new(false), searched }
    }

    /// Everything that failed so far.
    pub fn failures(&self) -> Vec<ServiceError> {
        std::mem::take(&mut *self.failures.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The text of a failure for the caller; the log gets all of it.
    fn failed(&self, error: ServiceError) -> String {
        let text = error.to_string();
        self.failures.lock().unwrap_or_else(PoisonError::into_inner).push(error);
        text
    }

    async fn search(&self, machines: &Machines, query: Search) -> Result<Arc<FoundMachines>> {
        let mut searched = self.searched.lock().await;
        if let Some((_, found)) = searched.iter().find(|(earlier, _)| *earlier == query) {
            return Ok(Arc::clone(found));
        }
        let (found, _) = machines.search(&query).await.map_err(|error| Error::new(self.failed(error)))?;
        let found = Arc::new(found);
        searched.push((query, Arc::clone(&found)));
        Ok(found)
    }
}

/// The schema over the services; without them it can only be described.
pub fn build(machines: Option<Arc<Machines>>) -> Root {
    let mut schema = Schema::build(Query, Mutation, EmptySubscription)
        .extension(Phases)
        .limit_depth(DEPTH_MAX)
        .limit_complexity(COMPLEXITY_MAX)
        .limit_directives(DIRECTIVES_MAX)
        .limit_recursive_depth(QUERY_NESTING_MAX);
    if let Some(machines) = machines {
        schema = schema.data(machines);
    }
    schema.finish()
}

/// The schema as a document, for people and for programs that generate code from it.
pub fn sdl() -> String {
    build(None)
        .sdl_with_options(SDLExportOptions::new().prefer_single_line_descriptions().use_space_ident().indent_width(2))
}

const NOT_FOUND: &str = "not found";

#[Object]
impl Query {
    /// One machine. An unknown serial is an error.
    async fn machine(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Its serial number.")] serial: ID,
    ) -> Result<One<MachineObject>> {
        let (machines, request) = (ctx.data::<Arc<Machines>>()?, ctx.data::<Arc<RequestData>>()?);
        let having = Criteria { serials: Some(vec![serial.0]), ..Criteria::default() };
        let found = request.search(machines, Search { having, ..Search::default() }).await?;
        found.first().cloned().map(One::machine).ok_or_else(|| {
            request.failed(ServiceError::NotFound);
            Error::new(NOT_FOUND)
        })
    }

    /// Every machine that meets all conditions of `having` and none of `notHaving`, in byte order of serials.
    #[graphql(complexity = "input::complexity(&having, &not_having) + SEARCHED_FIELD_COMPLEXITY * child_complexity")]
    async fn search_machines(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "What machines must have.")] having: Option<MachineParams>,
        #[graphql(desc = "What machines must not have.")] not_having: Option<MachineParams>,
    ) -> Result<Many<MachineObject>> {
        let (machines, request) = (ctx.data::<Arc<Machines>>()?, ctx.data::<Arc<RequestData>>()?);
        let query = input::query(having, not_having, request.now);
        request.search(machines, query).await.map(Many::machines)
    }
}

#[Object]
impl Mutation {
    /// Moves a machine along its lifecycle. Asking for the state it is in changes nothing.
    #[graphql(complexity = "CHANGE_COMPLEXITY + child_complexity")]
    async fn set_machine_state(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Its serial number.")] serial: ID,
        #[graphql(desc = "Where it should be.")] state: MachineState,
    ) -> Result<One<StatusObject>> {
        let (machines, request) = (ctx.data::<Arc<Machines>>()?, ctx.data::<Arc<RequestData>>()?);
        let actor = request.actor.as_deref().ok_or("this request may not change anything")?;
        if request.change_failed.load(Ordering::Relaxed) {
            return Err(change_error("not tried, because a change before it failed".to_owned(), &serial, "NOT_TRIED"));
        }
        let done = machines.set_state(actor, &Serial::stored(&serial.0), state.0, Force::No).await;
        let machine = done.map_err(|error| state_error(request, &serial, error))?;
        Ok(One::status(machine.status))
    }
}

/// What clients are told of a change that was not made. They read `type`.
fn state_error(request: &RequestData, serial: &ID, error: ServiceError) -> Error {
    let kind = match &error {
        ServiceError::NotFound => "MACHINE_NOT_FOUND",
        ServiceError::KeysExist => "ENCRYPTION_KEY_EXISTS",
        // The lifecycle is the only rule that can refuse a state.
        ServiceError::Refused(_) => "INVALID_STATE_TRANSITION",
        _ => "INTERNAL_SERVER_ERROR",
    };
    request.change_failed.store(true, Ordering::Relaxed);
    let text = request.failed(error);
    let text = if kind == "MACHINE_NOT_FOUND" { NOT_FOUND.to_owned() } else { text };
    change_error(text, serial, kind)
}

fn change_error(text: String, serial: &ID, kind: &str) -> Error {
    Error::new(text).extend_with(|_, extensions| {
        extensions.set("serial", serial.as_str());
        extensions.set("type", kind);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The schema programs were written against, without what is written for people.
    #[test]
    fn the_schema_is_the_published_one() {
        let sdl = sdl();
        let lines = sdl.lines().filter(|line| !line.trim_start().starts_with('"') && !line.starts_with("directive"));
        let text: String =
            lines.filter(|line| !line.trim().is_empty()).map(|line| format!("{}\n", line.trim_end())).collect();
        let golden = include_str!("../tests/golden/schema.graphql");
        assert_eq!(text, golden, "the schema is a contract; see what changed");
    }
}
