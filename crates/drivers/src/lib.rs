//! How sabakan talks to what is outside. To management controllers: one contract ([`Driver`], [`Bmc`], [`Ramdisk`]) and its drivers,
//! Redfish, IPMI and simulated machines; and to the [`agent`] that real ramdisks run. To another sabakan ([`registry`]). To a Kubernetes
//! API ([`kubernetes`]: the contract only, its implementation is `sabakan-kube`). To programs that operators bring ([`command`]). Decides
//! nothing: what is done is decided in `sabakan_domain`, when and how often in `sabakan-service`.
//!
//! Every call is bounded in time by the driver itself, and an answer that did not come is an error, never a guess.
#![warn(missing_docs)]

pub mod agent;
pub mod api;
pub mod command;
#[cfg(feature = "contract")]
pub mod contract;
pub mod ipmi;
pub mod kubernetes;
#[cfg(feature = "lab")]
pub mod lab;
pub mod power;
pub mod redfish;
pub mod registry;
pub mod simulated;

pub use api::{
    Bmc, BmcFuture, Driver, DriverError, Finished, Ramdisk, Secret, Settings, StepOutcome, StepStart, TaskId, TaskState,
};
