//! How sabakan talks to management controllers. One contract ([`Driver`], [`Bmc`], [`Ramdisk`]) and its drivers: Redfish, IPMI, and
//! simulated machines; and the agent that real ramdisks run. Decides nothing: what is done with a machine is decided in `sabakan_domain::provision`, when and how often in
//! `sabakan-service`.
//!
//! Every call is bounded in time by the driver itself, and an answer that did not come is an error, never a guess.
#![warn(missing_docs)]

pub mod agent;
pub mod api;
#[cfg(feature = "contract")]
pub mod contract;
pub mod ipmi;
#[cfg(feature = "lab")]
pub mod lab;
pub mod power;
pub mod redfish;
pub mod simulated;

pub use api::{
    Bmc, BmcFuture, Driver, DriverError, Finished, Ramdisk, Secret, Settings, StepOutcome, TaskId, TaskState,
};
