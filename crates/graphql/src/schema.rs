//! The root of the schema: finding machines and moving one along its lifecycle. Every rule is in the services below.

use std::sync::{Arc, Mutex, PoisonError};

use async_graphql::{
    Context, EmptySubscription, Error, ErrorExtensions as _, ID, Object, Result, SDLExportOptions, Schema,
};
use jiff::Timestamp;
use sabakan_domain::{
    audit::Actor,
    lifecycle::Force,
    limits::QUERY_VALUES_MAX,
    query::{Criteria, Query as Search},
    words::Serial,
};
use sabakan_service::{Machines, ServiceError, error_chain};

use crate::{
    api::Phases,
    input::{self, MachineParams, MachineState, TooManyValues},
    limits::{
        CHANGE_COMPLEXITY, COMPLEXITY_MAX, DEPTH_MAX, DIRECTIVES_MAX, QUERY_NESTING_MAX, SEARCH_COMPLEXITY,
        SEARCHED_FIELD_COMPLEXITY,
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
    /// What only the log may say of what failed.
    pub causes: Mutex<Vec<String>>,
}

impl RequestData {
    /// The text of a failure for the caller; the log gets its causes.
    fn failed(&self, error: &ServiceError) -> String {
        let text = error.to_string();
        let chain = error_chain(error);
        if chain != text {
            self.causes.lock().unwrap_or_else(PoisonError::into_inner).push(chain);
        }
        text
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
        let found = machines.search(&Search { having, ..Search::default() }).await;
        let (found, _) = found.map_err(|error| Error::new(request.failed(&error)))?;
        found.into_iter().next().map(One::machine).ok_or_else(|| Error::new(NOT_FOUND))
    }

    /// Every machine that meets all conditions of `having` and none of `notHaving`, in byte order of serials.
    #[graphql(complexity = "SEARCH_COMPLEXITY + SEARCHED_FIELD_COMPLEXITY * child_complexity")]
    async fn search_machines(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "What machines must have.")] having: Option<MachineParams>,
        #[graphql(desc = "What machines must not have.")] not_having: Option<MachineParams>,
    ) -> Result<Many<MachineObject>> {
        let (machines, request) = (ctx.data::<Arc<Machines>>()?, ctx.data::<Arc<RequestData>>()?);
        let query = input::query(having, not_having, request.now).map_err(|TooManyValues(name)| {
            Error::new(format!("{name} has too many values, at most {QUERY_VALUES_MAX} are allowed"))
        })?;
        let found = machines.search(&query).await;
        found.map(|(found, _)| Many::machines(found)).map_err(|error| Error::new(request.failed(&error)))
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
        // What is no serial is no machine's.
        let done = match Serial::new(&serial.0) {
            Ok(serial) => machines.set_state(actor, &serial, state.0, Force::No).await,
            Err(_) => Err(ServiceError::NotFound),
        };
        let machine = done.map_err(|error| state_error(request, &serial, &error))?;
        Ok(One::status(machine.status))
    }
}

/// What clients are told of a change that was not made. They read `type`.
fn state_error(request: &RequestData, serial: &ID, error: &ServiceError) -> Error {
    let (text, kind) = match error {
        ServiceError::NotFound => (NOT_FOUND.to_owned(), "MACHINE_NOT_FOUND"),
        ServiceError::KeysExist => (error.to_string(), "ENCRYPTION_KEY_EXISTS"),
        // The lifecycle is the only rule that can refuse a state.
        ServiceError::Refused(_) => (error.to_string(), "INVALID_STATE_TRANSITION"),
        other => (request.failed(other), "INTERNAL_SERVER_ERROR"),
    };
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
