//! `cargo xtask soak`: the property tests with other random numbers than those of every day, to find what nobody thought of.
//!
//! `cargo xtask soak crash`: the server killed a thousand times in the middle of random changes, on a release build. CI does fifty.
//!
//! CI draws the same numbers each time (`.cargo/config.toml`), so that a red build is the fault of the change that was built.

use std::hash::{BuildHasher, RandomState};

use anyhow::{Context, Result};

use crate::{Usage, process};

/// Packages whose tests draw random numbers and need nothing but this checkout.
const PACKAGES: [&str; 4] = ["sabakan-domain", "sabakan-graphql", "sabakan-service", "sabakan-store"];
const ROUNDS: u64 = 10;
/// Kills of `soak crash`.
const CYCLES: u64 = 1_000;
/// The test that kills, and what it reads from the environment.
const CRASH_TEST: &str = "crash_changes::changes_survive_and_the_feed_goes_on";
const CYCLES_VARIABLE: &str = "SABAKAN_CRASH_CYCLES";
const SEED_VARIABLE: &str = "SABAKAN_CRASH_SEED";

pub fn run(arguments: &[String]) -> Result<()> {
    match arguments.split_first() {
        Some((first, rest)) if first == "crash" => crash(number(rest, CYCLES, "cycles")?),
        _ => properties(number(arguments, ROUNDS, "rounds")?),
    }
}

fn crash(cycles: u64) -> Result<()> {
    // Between 1 and 2^32, as the test wants it.
    let seed = RandomState::new().hash_one(cycles) % 0xffff_fffe + 1;
    println!("soak: {cycles} kills, seed {seed}");
    let test =
        ["test", "--release", "--package", "sabakan", "--test", "it", "--", "--exact", "--nocapture", CRASH_TEST];
    let mut command = process::cargo(&test);
    command.env(CYCLES_VARIABLE, cycles.to_string()).env(SEED_VARIABLE, seed.to_string());
    process::run(&mut command).with_context(|| {
        format!("to see it again, set {SEED_VARIABLE}={seed} and {CYCLES_VARIABLE}={cycles} and run the test")
    })
}

fn properties(rounds: u64) -> Result<()> {
    let packages = PACKAGES.iter().flat_map(|package| ["--package", package]);
    let test: Vec<&str> = ["test", "--quiet"].into_iter().chain(packages).collect();
    for round in 1..=rounds {
        let seed = RandomState::new().hash_one(round);
        println!("soak: round {round} of {rounds}, seed {seed}");
        let mut command = process::cargo(&test);
        process::run(command.env("PROPTEST_RNG_SEED", seed.to_string())).with_context(|| {
            format!("round {round}; to see it again, set PROPTEST_RNG_SEED={seed} and run the test that failed")
        })?;
    }
    println!("soak: {rounds} rounds, nothing found");
    Ok(())
}

fn number(arguments: &[String], otherwise: u64, what: &str) -> Result<u64> {
    match arguments {
        [] => Ok(otherwise),
        [number] => match number.parse() {
            Ok(number) if number > 0 => Ok(number),
            _ => Err(Usage(format!("`soak` takes a number of {what}, got `{number}`")).into()),
        },
        [_, more, ..] => Err(Usage(format!("`soak` takes one number of {what}, got also `{more}`")).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(arguments: &[&str]) -> Result<u64> {
        number(&arguments.iter().map(ToString::to_string).collect::<Vec<_>>(), 10, "rounds")
    }

    #[test]
    fn a_number_of_rounds_or_ten() {
        assert_eq!(asked(&[]).ok(), Some(10));
        assert_eq!(asked(&["3"]).ok(), Some(3));
        for wrong in [&["0"][..], &["-1"], &["many"], &["1", "2"]] {
            assert!(asked(wrong).unwrap_err().is::<Usage>(), "{wrong:?}");
        }
    }
}
