//! Every driver against the contract, and what each does beyond it.
#![allow(clippy::unwrap_used, reason = "what the tests share is test code too; clippy exempts only the test functions")]

mod ipmi;
mod redfish;
mod simulated;
