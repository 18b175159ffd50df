//! One request from its text to its answer.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use async_graphql::{
    Positioned, Response, Value as Const, Variables,
    async_trait::async_trait,
    extensions::{Extension, ExtensionContext, ExtensionFactory, NextExecute},
    parser::{
        self,
        types::{DocumentOperations, ExecutableDocument, OperationDefinition, OperationType},
    },
};
use sabakan_domain::audit::Actor;
use sabakan_service::Machines;

use crate::{
    answer::Answer,
    coerce, guard, limits,
    problem::{Phase, Problem, Refusal},
    render::Slots,
    schema::{self, RequestData, Root},
};

/// A request as it comes, whatever carried it.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// The query text.
    pub query: String,
    /// Which of its operations is meant; needed if there are several.
    pub operation_name: Option<String>,
    /// Values for the variables of the operation.
    pub variables: serde_json::Map<String, serde_json::Value>,
}

/// What an operation does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Looks.
    Query,
    /// Changes.
    Mutation,
    /// Would follow changes; there are none in the schema.
    Subscription,
}

/// A request that can be run.
pub struct Prepared {
    document: ExecutableDocument,
    operation_name: Option<String>,
    operation: Operation,
    variables: Variables,
}

impl Prepared {
    /// What it would do.
    pub fn operation(&self) -> Operation {
        self.operation
    }
}

/// GraphQL over the registry.
#[derive(Clone)]
pub struct Api {
    schema: Root,
    machines: Arc<Machines>,
}

impl Api {
    /// Over these services.
    pub fn new(machines: Arc<Machines>) -> Api {
        Api { schema: schema::build(Some(Arc::clone(&machines))), machines }
    }

    /// Reads a request. Nothing is looked up yet, so that the caller can be judged by what the request would do.
    pub fn prepare(&self, request: Request) -> Result<Prepared, Refusal> {
        let parsing = |problem| Refusal::new(Phase::Parsing, [problem]);
        let invalid = |problem| Refusal::new(Phase::Validation, [problem]);
        guard::check_text(&request.query).map_err(parsing)?;
        if request.query.trim().is_empty() {
            return Err(invalid(Problem::new("no operation provided")));
        }
        let document = parser::parse_query(&request.query).map_err(|error| parsing(error.into()))?;
        guard::check_size(&document).map_err(invalid)?;
        let operation_name = request.operation_name.filter(|name| !name.is_empty());
        let chosen = operation(&document, operation_name.as_deref()).map_err(invalid)?;
        coerce::check_literals(&document).map_err(invalid)?;
        let sent = Const::from_json(request.variables.into());
        let sent = sent.map_err(|error| invalid(Problem::new(format!("variables cannot be read: {error}"))))?;
        let sent = Variables::from_value(sent);
        let variables = coerce::coerce_variables(&chosen.node, sent).map_err(invalid)?;
        let operation = match chosen.node.ty {
            OperationType::Query => Operation::Query,
            OperationType::Mutation => Operation::Mutation,
            OperationType::Subscription => Operation::Subscription,
        };
        Ok(Prepared { document, operation_name, operation, variables })
    }

    /// Validates and runs a request. Without an actor nothing is changed.
    pub async fn run(&self, prepared: Prepared, actor: Option<Arc<Actor>>) -> Result<Answer, Refusal> {
        let now = self.machines.now();
        let slots = Arc::new(Slots::default());
        let state = Arc::new(RequestData::new(now, actor));
        let executed = Arc::new(Executed::default());
        let mut request = async_graphql::Request::new(String::new())
            .variables(prepared.variables)
            .data(Arc::clone(&slots))
            .data(Arc::clone(&state))
            .data(Arc::clone(&executed));
        request.operation_name = prepared.operation_name;
        request.set_parsed_query(prepared.document);
        let response = self.schema.execute(request).await;
        let problems: Vec<Problem> = response.errors.into_iter().map(Problem::from).collect();
        if !executed.0.load(Ordering::Relaxed) {
            return Err(Refusal::new(Phase::Validation, problems));
        }
        Ok(Answer::new(problems, state.failures(), response.data, slots.take(), now))
    }
}

/// The operation that is meant.
fn operation<'a>(
    document: &'a ExecutableDocument,
    name: Option<&str>,
) -> Result<&'a Positioned<OperationDefinition>, Problem> {
    match (&document.operations, name) {
        (DocumentOperations::Single(operation), None) => Ok(operation),
        (DocumentOperations::Multiple(operations), None) => match operations.len() {
            1 => Ok(operations.values().next().expect("there is one")),
            _ => Err(Problem::new("the query has several operations; operationName must name one of them")),
        },
        (DocumentOperations::Multiple(operations), Some(name)) if operations.contains_key(name) => {
            Ok(&operations[name])
        }
        (_, Some(name)) => {
            let name: String = name.chars().take(limits::VALUE_BYTES_MAX).collect();
            Err(Problem::new(format!("the query has no operation {name:?}")))
        }
    }
}

/// Whether validation was passed: the library gives the errors of both phases in one list.
#[derive(Default)]
struct Executed(AtomicBool);

/// Notes the beginning of the execution.
pub struct Phases;

impl ExtensionFactory for Phases {
    fn create(&self) -> Arc<dyn Extension> {
        Arc::new(Phases)
    }
}

#[async_trait]
impl Extension for Phases {
    async fn execute(&self, ctx: &ExtensionContext<'_>, name: Option<&str>, next: NextExecute<'_>) -> Response {
        if let Some(executed) = ctx.data_opt::<Arc<Executed>>() {
            executed.0.store(true, Ordering::Relaxed);
        }
        next.run(ctx, name).await
    }
}

#[cfg(test)]
mod tests;
