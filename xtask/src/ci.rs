//! `cargo xtask ci`: every check, in the order in which a mistake is cheapest to find. CI runs the same command.
//!
//! The tree is compiled twice, once for clippy and once for running; the other steps reuse one of the two. Keep it so:
//! the whole run has to stay below half an hour on two cores, from nothing.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::{Usage, codegen, kubernetes, lab, openapi, process, setup, tidy};

struct Step {
    name: &'static str,
    run: fn() -> Result<()>,
}

const STEPS: &[Step] = &[
    Step { name: "setup", run: setup },
    Step { name: "fmt", run: || process::run(&mut process::cargo(&["fmt", "--all", "--check"])) },
    Step { name: "tidy", run: tidy::check },
    Step { name: "clippy", run: clippy },
    Step { name: "codegen", run: codegen::check },
    Step { name: "test", run: test },
    Step { name: "openapi", run: openapi::check },
    Step { name: "no-etcd", run: no_etcd },
    Step { name: "doc", run: doc },
];

/// Runs the steps named in `arguments`, or all of them.
pub fn run(arguments: &[String]) -> Result<()> {
    let steps = select(STEPS, arguments)?;
    let begin = Instant::now();
    let mut durations = Vec::new();
    let result = steps.iter().try_for_each(|step| {
        println!("==> {}", step.name);
        let begin = Instant::now();
        let result = (step.run)();
        durations.push((step.name, begin.elapsed()));
        result.with_context(|| format!("step `{}` failed", step.name))
    });
    println!("{}", report(&durations, begin.elapsed()));
    // Said where it happened already; whoever reads the end only has to see it too.
    if let Some(reason) = kubernetes::skipped() {
        println!("{}", kubernetes::banner(&reason));
    }
    result
}

fn select<'a>(steps: &'a [Step], names: &[String]) -> Result<Vec<&'a Step>> {
    if let Some(unknown) = names.iter().find(|name| !steps.iter().any(|step| step.name == **name)) {
        let known: Vec<&str> = steps.iter().map(|step| step.name).collect();
        return Err(Usage(format!("unknown step `{unknown}`; steps are: {}", known.join(" "))).into());
    }
    Ok(steps.iter().filter(|step| names.is_empty() || names.iter().any(|name| name == step.name)).collect())
}

fn report(durations: &[(&str, Duration)], total: Duration) -> String {
    let mut text = String::from("==> durations\n");
    for (name, duration) in durations {
        text.push_str(&format!("{name:<10}{:>8.1} s\n", duration.as_secs_f64()));
    }
    text.push_str(&format!("{:<10}{:>8.1} s", "total", total.as_secs_f64()));
    text
}

fn setup() -> Result<()> {
    setup::run()?;
    lab::prepare()?;
    kubernetes::prepare_or_skip()
}

fn clippy() -> Result<()> {
    let arguments = ["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"];
    process::run(&mut process::cargo(&arguments))
}

fn test() -> Result<()> {
    let has_nextest = has_nextest();
    let arguments: &[&str] =
        if has_nextest { &["nextest", "run", "--workspace", "--locked"] } else { &["test", "--workspace", "--locked"] };
    let mut tests = process::cargo(arguments);
    kubernetes::settle(&mut tests)?;
    process::run(&mut tests)?;
    if !has_nextest {
        return Ok(());
    }
    // nextest does not run documentation tests.
    process::run(&mut process::cargo(&["test", "--doc", "--workspace", "--locked"]))
}

fn has_nextest() -> bool {
    let mut command: Command = process::cargo(&["nextest", "--version"]);
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// The server must build without gRPC; `--workspace` hides a mistake here, because another crate turns the feature on.
fn no_etcd() -> Result<()> {
    process::run(&mut process::cargo(&["check", "--package", "sabakan", "--no-default-features", "--locked"]))
}

fn doc() -> Result<()> {
    let mut command = process::cargo(&["doc", "--workspace", "--no-deps", "--locked"]);
    process::run(command.env("RUSTDOCFLAGS", "-D warnings"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(arguments: &[&str]) -> Result<Vec<&'static str>> {
        let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
        Ok(select(STEPS, &arguments)?.iter().map(|step| step.name).collect())
    }

    #[test]
    fn no_name_means_all_steps_in_order() {
        let all = names(&[]).unwrap();
        assert_eq!(all, ["setup", "fmt", "tidy", "clippy", "codegen", "test", "openapi", "no-etcd", "doc"]);
    }

    #[test]
    fn named_steps_keep_the_order_of_the_list() {
        assert_eq!(names(&["clippy", "fmt"]).unwrap(), ["fmt", "clippy"]);
        assert!(names(&["clipy"]).unwrap_err().is::<Usage>());
    }

    #[test]
    fn report_has_a_line_per_step_and_the_total() {
        let text = report(&[("fmt", Duration::from_millis(1500))], Duration::from_secs(2));
        assert_eq!(text, "==> durations\nfmt            1.5 s\ntotal          2.0 s");
    }
}
