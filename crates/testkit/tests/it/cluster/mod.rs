//! The cluster: what people ask of it, and who plans it.

mod controller;
mod figures;
mod mirror;
mod registry;
mod rest;
