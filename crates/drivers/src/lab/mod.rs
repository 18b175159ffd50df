//! Real peers for tests, as child processes on loopback. `cargo xtask lab` installs what they need; whatever is missing or goes wrong
//! panics with the reason: a test that needs a peer must not pass without it. Never part of the product (feature `lab`).

use std::{
    env,
    path::{Path, PathBuf},
};

pub mod ipmi_sim;
pub mod sushy;

/// The environment variable that names the directory prepared by `cargo xtask lab`, if it is not `target/lab`.
pub const LAB: &str = "SABAKAN_LAB";

/// A program of the Python environment that `cargo xtask lab` prepares.
pub fn program(name: &str) -> PathBuf {
    let default = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/lab");
    let program = env::var_os(LAB).map_or(default, PathBuf::from).join("python/bin").join(name);
    assert!(program.is_file(), "this test needs {name}: run `cargo xtask lab`, or set {LAB} to where it prepared one");
    program
}
