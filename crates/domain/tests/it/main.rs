//! Properties of the rules: what holds in whatever order things are asked for.

mod provisioning;
mod registration;
mod scheduling;
