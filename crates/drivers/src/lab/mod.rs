//! Real peers for tests, as child processes on loopback. `cargo xtask lab` installs what they need; whatever is missing or goes wrong
//! panics with the reason: a test that needs a peer must not pass without it. Never part of the product (feature `lab`).

pub mod ipmi_sim;
pub mod sushy;
