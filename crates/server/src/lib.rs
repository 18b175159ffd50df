//! The server program: transports around the services of `sabakan-service`, and the wiring of all parts in [`run`].
//!
//! A library beside the program, so that tests can run a server in their own process.

mod caller;
pub mod cli;
pub mod cluster;
pub mod config;
mod demo;
mod graphql;
pub mod http;
mod ironic;
mod keys;
pub mod limits;
pub mod logging;
mod maintenance;
pub mod metrics;
pub mod provisioning;
mod reference;
pub mod repair;
pub mod rest;
pub mod run;
mod status;
mod yaml;
