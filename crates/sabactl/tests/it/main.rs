//! The program as it is run: exit codes, what goes where, and the help texts. Most servers here are a few lines that answer
//! with given bytes; `story` has a real one.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod cluster;
mod events;
mod fake;
mod golden;
mod https;
mod nodes;
mod program;
mod repair;
mod story;
