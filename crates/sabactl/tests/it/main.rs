//! The program as it is run: exit codes, what goes where, and the help texts. Servers here are a few lines that answer with given
//! bytes; stories with a real server are in `testkit`.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod fake;
mod golden;
mod program;
