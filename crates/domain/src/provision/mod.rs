//! Provisioning: what a node is, which states it passes, what may be asked of it, and what is done next.
//!
//! [`edges::EDGES`] is the state machine; [`guards`] says where it meets the lifecycle of the machine; [`engine`] turns "what is
//! recorded" into "what to do next" and "what came out" into "what to record", one hop at a time; [`turn`] makes of the hops what a
//! worker writes at once. Nothing here does anything.

pub mod accept;
pub mod agent;
pub mod allocation;
pub mod boot;
pub mod builtin;
pub mod chassis;
pub mod control;
pub mod details;
pub mod edges;
pub mod edit;
pub mod engine;
#[cfg(test)]
pub(crate) mod fixtures;
pub mod guards;
pub mod hardware;
pub mod ids;
pub mod interfaces;
pub mod node;
pub mod node_ports;
pub mod paging;
pub mod port;
pub mod port_group;
pub mod power;
pub mod power_sync;
pub mod promises;
pub mod raid;
pub mod recipe;
pub mod running;
pub mod schedule;
pub mod search;
pub mod states;
pub mod steps;
pub mod turn;
pub mod verbs;
