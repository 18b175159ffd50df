//! The cluster: what people ask of it, and who plans it.

mod controller;
mod figures;
mod mirror;
mod names;
mod registry;
mod rest;
