//! What tests and benchmarks are made of: servers in this process or as real programs, real etcd clusters, waiting without
//! sleeping. Never part of the product. `tests/` is the end-to-end suite.

pub mod agent;
pub mod crash;
pub mod etcd;
pub mod fixtures;
pub mod hostile;
pub mod kubelab;
pub mod kubernetes;
pub mod lone;
pub mod netns;
pub mod process;
pub mod rack;
pub mod raw;
pub mod server;
pub mod silent;
mod wait;

pub use sabakan_client as client;
pub use sabakan_drivers::{
    lab::{self, sushy},
    simulated,
};
pub use server::{Backend, TestServer};
pub use wait::wait_for;
