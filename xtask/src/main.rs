//! Developer commands: `cargo xtask <command>`. This file only knows their names; each command has its own module.
//!
//! It is the first thing a fresh clone builds, so it depends on two small crates and on no crate of the workspace.

mod ci;
mod codegen;
mod dist;
mod etcd;
mod hostile;
mod kubernetes;
mod lab;
mod openapi;
mod process;
mod setup;
mod soak;
mod tidy;

use std::fmt;
use std::process::ExitCode;

use anyhow::Result;

struct Command {
    name: &'static str,
    arguments: &'static str,
    about: &'static str,
    examples: &'static [&'static str],
    run: fn(&[String]) -> Result<()>,
}

const COMMANDS: &[Command] = &[
    Command {
        name: "ci",
        arguments: "[step ...]",
        about: "run everything CI runs, or only the named steps; stop at the first failure",
        examples: &["cargo xtask ci", "cargo xtask ci fmt tidy clippy"],
        run: ci::run,
    },
    Command {
        name: "tidy",
        arguments: "",
        about: "check what the compiler does not: directions, sizes, links, module docs, licences",
        examples: &["cargo xtask tidy"],
        run: tidy::run,
    },
    Command {
        name: "codegen",
        arguments: "[--check]",
        about: "write the generated reference pages; --check only compares them",
        examples: &["cargo xtask codegen", "cargo xtask codegen --check"],
        run: codegen::run,
    },
    Command {
        name: "golden",
        arguments: "",
        about: "rewrite the golden files of all tests; review the result as a diff",
        examples: &["cargo xtask golden && git diff"],
        run: golden,
    },
    Command {
        name: "etcd",
        arguments: "",
        about: "run a throw-away etcd until Ctrl-C",
        examples: &["cargo xtask etcd"],
        run: etcd::run,
    },
    Command {
        name: "lab",
        arguments: "",
        about: "prepare the Redfish emulator and the stock clients that tests talk to, in target/lab",
        examples: &["cargo xtask lab"],
        run: lab::run,
    },
    Command {
        name: "openapi",
        arguments: "[seconds [seed]]",
        about: "hold a demo to its OpenAPI document with requests it allows and forbids",
        examples: &["cargo xtask openapi", "cargo xtask openapi 30 7"],
        run: openapi::run,
    },
    Command {
        name: "kubernetes",
        arguments: "",
        about: "build the Kubernetes control plane that tests start, once, into a cache directory",
        examples: &["cargo xtask kubernetes"],
        run: kubernetes::run,
    },
    Command {
        name: "dev",
        arguments: "[arguments]",
        about: "run `sabakan demo` from a debug build",
        examples: &["cargo xtask dev", "cargo xtask dev --help"],
        run: dev,
    },
    Command {
        name: "bench",
        arguments: "[arguments]",
        about: "run the benchmarks of the product's targets and print them as a table",
        examples: &["cargo xtask bench", "cargo xtask bench search"],
        run: bench,
    },
    Command {
        name: "hostile",
        arguments: "",
        about: "print what an operator feels while hostile clients do their worst; needs root",
        examples: &["cargo xtask hostile"],
        run: hostile::run,
    },
    Command {
        name: "soak",
        arguments: "[rounds] | crash [cycles]",
        about: "property tests with other random numbers; crash: kill the server a thousand times",
        examples: &["cargo xtask soak", "cargo xtask soak 100", "cargo xtask soak crash"],
        run: soak::run,
    },
    Command {
        name: "dist",
        arguments: "[--target TRIPLE]",
        about: "build the published binaries into target/dist/*.tar.gz",
        examples: &["cargo xtask dist"],
        run: dist::run,
    },
];

/// The commands that hand all their arguments, `--help` included, to another program.
const PASS_THROUGH: &[&str] = &["dev", "bench"];

/// The caller's mistake, not the tree's: exit status 2.
#[derive(Debug)]
pub struct Usage(pub String);

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match dispatch(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::from(if error.is::<Usage>() { 2 } else { 1 })
        }
    }
}

fn dispatch(arguments: &[String]) -> Result<()> {
    let Some((name, rest)) = arguments.split_first() else {
        return Err(Usage(format!("a command is missing\n\n{}", overview())).into());
    };
    if matches!(name.as_str(), "--help" | "-h" | "help") {
        println!("{}", overview());
        return Ok(());
    }
    let Some(command) = COMMANDS.iter().find(|command| command.name == name) else {
        return Err(Usage(format!("unknown command `{name}`\n\n{}", overview())).into());
    };
    if !PASS_THROUGH.contains(&command.name) && rest.iter().any(|argument| argument == "--help" || argument == "-h") {
        println!("{}", page(command));
        return Ok(());
    }
    std::env::set_current_dir(process::root())?;
    (command.run)(rest)
}

/// Refuses arguments, for commands that take none: a mistyped flag must not be ignored.
pub fn no_arguments(command: &str, arguments: &[String]) -> Result<()> {
    match arguments.first() {
        None => Ok(()),
        Some(argument) => Err(Usage(format!("`{command}` takes no argument, got `{argument}`")).into()),
    }
}

fn golden(arguments: &[String]) -> Result<()> {
    no_arguments("golden", arguments)?;
    process::run(process::cargo(&["test", "--workspace", "golden"]).env("SABAKAN_GOLDEN", "write"))?;
    println!("golden: files are rewritten; review them with `git diff`");
    Ok(())
}

fn dev(arguments: &[String]) -> Result<()> {
    process::replace(process::cargo(&["run", "--package", "sabakan", "--", "demo"]).args(arguments))
}

fn bench(arguments: &[String]) -> Result<()> {
    // The fleet is measured on the real program, which stands beside the benchmark.
    process::run(&mut process::cargo(&["build", "--release", "--package", "sabakan", "--package", "sabakan-testkit"]))?;
    let run = ["run", "--release", "--package", "sabakan-testkit", "--bin", "bench", "--"];
    process::replace(process::cargo(&run).args(arguments))
}

fn overview() -> String {
    let mut text = String::from("Developer commands.\n\nUsage: cargo xtask <command> [arguments]\n\nCommands:\n");
    for command in COMMANDS {
        let usage = format!("{} {}", command.name, command.arguments);
        text.push_str(&format!("  {usage:<24}{}\n", command.about));
    }
    text.push_str("\nExamples:\n");
    for example in COMMANDS.iter().flat_map(|command| command.examples) {
        text.push_str(&format!("  {example}\n"));
    }
    text.push_str("\nExit status: 0 done, 1 failed, 2 wrong arguments.");
    text
}

fn page(command: &Command) -> String {
    let mut text = format!("cargo xtask {} {}\n\n{}\n\nExamples:", command.name, command.arguments, command.about);
    for example in command.examples {
        text.push_str(&format!("\n  {example}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(arguments: &[&str]) -> Vec<String> {
        arguments.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn unknown_command_is_a_usage_error_that_lists_the_commands() {
        let error = dispatch(&strings(&["tidyy"])).unwrap_err();
        assert!(error.is::<Usage>());
        for command in COMMANDS {
            assert!(error.to_string().contains(&format!("\n  {} ", command.name)), "{error}");
        }
        assert!(dispatch(&[]).unwrap_err().is::<Usage>());
    }

    #[test]
    fn every_command_has_one_line_and_an_example() {
        for command in COMMANDS {
            assert!(!command.about.contains('\n') && command.about.len() < 90, "{}", command.name);
            assert!(command.examples.iter().all(|e| e.starts_with(&format!("cargo xtask {}", command.name))));
            assert!(!command.examples.is_empty());
        }
    }

    #[test]
    fn argument_of_a_command_without_arguments_is_refused() {
        assert!(no_arguments("tidy", &strings(&["--fix"])).unwrap_err().is::<Usage>());
        assert!(no_arguments("tidy", &[]).is_ok());
    }
}
