//! `cargo xtask hostile`: hostile clients against a release build, and what an operator feels of them. The clients are a program of
//! their own, `crates/testkit/src/bin/hostile`; here it is built and started.

use anyhow::Result;

use crate::{no_arguments, process};

pub fn run(arguments: &[String]) -> Result<()> {
    no_arguments("hostile", arguments)?;
    // The server that is attacked stands beside the program that attacks it.
    process::run(&mut process::cargo(&["build", "--release", "--package", "sabakan", "--package", "sabakan-testkit"]))?;
    process::replace(&mut process::cargo(&["run", "--release", "--package", "sabakan-testkit", "--bin", "hostile"]))
}
