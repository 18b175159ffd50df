//! Tests of the embedded backend and of moving data, through the public interface.
#![allow(clippy::unwrap_used, reason = "what the tests share is test code too; clippy exempts only the test functions")]

mod conformance;
mod crash;
mod damage;
mod model;
mod model_check;
mod opening;
mod running;
mod support;
mod transfer;
mod work_check;
