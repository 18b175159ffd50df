//! Tests of the embedded backend and of moving data, through the public interface.
#![allow(clippy::unwrap_used, reason = "the helpers are tests too, clippy only exempts the test functions themselves")]

mod conformance;
mod crash;
mod damage;
mod opening;
mod running;
mod support;
mod transfer;
