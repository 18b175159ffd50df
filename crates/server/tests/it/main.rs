//! The program as its users meet it: started, stopped, killed, configured, its data moved.

mod alerts;
mod crash;
mod crash_changes;
mod crash_wide;
mod founding;
mod graphql;
mod keys;
mod other_hosts;
mod program;
mod repair;
mod store;
mod tls;
mod url_tokens;

/// The program under test.
const SABAKAN: &str = env!("CARGO_BIN_EXE_sabakan");
