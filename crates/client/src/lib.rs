//! Typed, blocking HTTP client for the REST API of sabakan: for the command line, for programs on managed machines, and for tests.
//!
//! One file per resource; shapes and paths come from `sabakan-wire`, so both ends mean the same by a field. It repeats no request
//! by itself: whether a write may be sent twice is the caller's decision, and [`Error::outcome_unknown`] says when to ask. It reads
//! no environment and follows no redirect. Over the network secrets go through TLS or not at all, and every server is verified.
#![warn(missing_docs)]

mod base;
mod client;
mod cluster;
mod config;
mod connect;
mod crypts;
mod error;
mod events;
mod failure;
pub mod limits;
mod logs;
mod machines;
mod nodes;
mod repair;
mod server;
mod tokens;
mod trust;

#[cfg(test)]
mod fake;

pub use client::{BearerToken, Client, ClientOptions};
pub use cluster::{DocumentFormat, Sent};
pub use error::{ApiBody, Error, TlsProblem};
pub use events::{FeedEnd, FeedPosition};
pub use nodes::{Change, HistoryRow, NodeFilter, NodeJson, NodesClient, Order, StepJson};
pub use repair::{RepairSweep, RepairSwitch};
pub use trust::{Trust, words};
