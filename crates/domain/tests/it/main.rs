//! Properties of the rules: what holds in whatever order things are asked for.

mod cluster;
mod power_sync;
mod provisioning;
mod registration;
mod repair;
mod scheduling;
mod script;
mod turns;
