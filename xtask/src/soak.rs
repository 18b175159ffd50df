//! `cargo xtask soak`: the property tests with other random numbers than those of every day, to find what nobody thought of.
//!
//! CI draws the same numbers each time (`.cargo/config.toml`), so that a red build is the fault of the change that was built.

use std::hash::{BuildHasher, RandomState};

use anyhow::{Context, Result};

use crate::{Usage, process};

/// Packages whose tests draw random numbers and need nothing but this checkout.
const PACKAGES: [&str; 4] = ["sabakan-domain", "sabakan-graphql", "sabakan-service", "sabakan-store"];
const ROUNDS: u64 = 10;

pub fn run(arguments: &[String]) -> Result<()> {
    let rounds = rounds(arguments)?;
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

fn rounds(arguments: &[String]) -> Result<u64> {
    match arguments {
        [] => Ok(ROUNDS),
        [rounds] => match rounds.parse() {
            Ok(rounds) if rounds > 0 => Ok(rounds),
            _ => Err(Usage(format!("`soak` takes a number of rounds, got `{rounds}`")).into()),
        },
        [_, more, ..] => Err(Usage(format!("`soak` takes one argument, got also `{more}`")).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(arguments: &[&str]) -> Result<u64> {
        rounds(&arguments.iter().map(ToString::to_string).collect::<Vec<_>>())
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
