//! GraphQL over the registry: reads a request, checks it against the schema and against limits, runs it, and writes the answer. No
//! sockets: `sabakan`'s `graphql` module turns what comes out of here into HTTP, and decides who may change something.
//!
//! The way of a request: [`Api::prepare`] bounds the text (`guard`), parses it, fits the variables to their types (`coerce`) and says
//! what kind of operation it is. [`Api::run`] lets async-graphql validate and execute it. Its resolvers only find machines; what was
//! selected of them is written straight to JSON (`render`) while the answer is sent, because a tree of values for 100,000 machines
//! takes hundreds of megabytes.

mod answer;
mod api;
mod coerce;
mod guard;
mod input;
pub mod limits;
mod objects;
mod problem;
mod render;
mod schema;

pub use answer::{Answer, Chunks};
pub use api::{Api, Operation, Prepared, Request};
pub use problem::{Phase, Problem, Refusal};
pub use schema::sdl;
