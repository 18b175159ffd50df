//! Which machines form the Kubernetes cluster, and why.
//!
//! [`plan::plan`] looks at the machines, the template, the constraints and the present configuration, and makes at most one change;
//! [`report`] says for every machine why it was chosen or not. [`template`] and [`constraints`] say what people may ask for.
//! [`simulate`] shows what later rounds would do, [`remedy`] what would let a blocked one go on.
//!
//! Machines are called nodes once they are part of the configuration, as Kubernetes does. Nothing here is applied; see
//! `service::cluster`.

pub mod attributes;
pub mod cke;
pub mod config;
pub mod constraints;
pub mod history;
pub mod hostname;
pub mod input;
pub mod live_node;
pub mod names;
pub mod plan;
mod pool;
pub mod remedy;
mod render;
pub mod report;
pub mod score;
pub mod shape;
pub mod simulate;
pub mod template;
pub mod variables;
mod working;
