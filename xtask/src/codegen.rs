//! `cargo xtask codegen [--check]`: writes the pages that our programs can print about themselves.
//!
//! A new generated file is a row of [`GENERATED`]. This module knows nothing about the contents; the programs do, in
//! hidden subcommands called `reference`.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, anyhow, bail};

use crate::{Usage, process};

struct Generated {
    path: &'static str,
    binary: &'static str,
    arguments: &'static [&'static str],
}

const GENERATED: &[Generated] = &[
    Generated { path: "docs/reference/openapi.json", binary: "sabakan", arguments: &["reference", "openapi"] },
    Generated {
        path: "docs/reference/configuration.md",
        binary: "sabakan",
        arguments: &["reference", "configuration"],
    },
    Generated { path: "docs/reference/keys.md", binary: "sabakan", arguments: &["reference", "keys"] },
    Generated { path: "docs/reference/errors.md", binary: "sabakan", arguments: &["reference", "errors"] },
    Generated { path: "docs/reference/lifecycle.md", binary: "sabakan", arguments: &["reference", "lifecycle"] },
    Generated { path: "docs/reference/provisioning.md", binary: "sabakan", arguments: &["reference", "provisioning"] },
    Generated {
        path: "docs/reference/cluster-template.md",
        binary: "sabakan",
        arguments: &["reference", "cluster-template"],
    },
    Generated { path: "docs/reference/repair.md", binary: "sabakan", arguments: &["reference", "repair"] },
    Generated { path: "docs/reference/metrics.md", binary: "sabakan", arguments: &["reference", "metrics"] },
    Generated { path: "docs/reference/schema.graphql", binary: "sabakan", arguments: &["reference", "graphql"] },
    Generated { path: "docs/reference/sabactl.md", binary: "sabactl", arguments: &["reference"] },
];

/// How many lines of a difference are shown; enough to recognise which change was forgotten.
const SHOWN_LINES: usize = 6;

pub fn run(arguments: &[String]) -> Result<()> {
    match arguments {
        [] => write(),
        [flag] if flag == "--check" => check(),
        _ => Err(Usage(format!("usage: cargo xtask codegen [--check], got `{}`", arguments.join(" "))).into()),
    }
}

/// Fails when a generated file differs from what the programs print now.
pub fn check() -> Result<()> {
    each(|generated, text| match fs::read_to_string(generated.path) {
        Ok(committed) => match difference(&committed, text) {
            None => Ok(()),
            Some(lines) => Err(anyhow!("{} is out of date:\n{lines}", generated.path)),
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(anyhow!("{} is missing", generated.path)),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", generated.path)),
    })
    .context("run `cargo xtask codegen` and commit the result")?;
    println!("codegen: {} files are up to date", GENERATED.len());
    Ok(())
}

fn write() -> Result<()> {
    each(|generated, text| {
        if fs::read_to_string(generated.path).is_ok_and(|committed| committed == text) {
            return Ok(());
        }
        let path = PathBuf::from(generated.path);
        fs::create_dir_all(path.parent().expect("every row names a directory"))?;
        fs::write(&path, text).with_context(|| format!("cannot write {}", generated.path))?;
        println!("codegen: wrote {}", generated.path);
        Ok(())
    })
}

/// Calls `act` with every row and what its command prints. Goes on after a failure, so that one run shows all of them.
fn each(act: impl Fn(&Generated, &str) -> Result<()>) -> Result<()> {
    // One build of all binaries: building them package by package would resolve features differently each time, and
    // compile shared dependencies once more.
    let binaries = process::build_binaries(&["--workspace", "--bins"])?;
    let mut problems = Vec::new();
    for generated in GENERATED {
        if let Err(error) = produce(generated, &binaries).and_then(|text| act(generated, &text)) {
            problems.push(format!("{error:#}"));
        }
    }
    if problems.is_empty() { Ok(()) } else { bail!("{}", problems.join("\n\n")) }
}

fn produce(generated: &Generated, binaries: &[(String, PathBuf)]) -> Result<String> {
    let typed = format!("{} {}", generated.binary, generated.arguments.join(" "));
    let context = || format!("cannot make {}: the command `{typed}` is missing or broken", generated.path);
    let (_, path) = binaries
        .iter()
        .find(|(name, _)| name == generated.binary)
        .ok_or_else(|| anyhow!("the workspace has no binary `{}`", generated.binary))
        .with_context(context)?;
    // Help texts wrap at the width of the terminal; a fixed width and no terminal give everyone the same bytes.
    let mut command = Command::new(path);
    command.args(generated.arguments).env("COLUMNS", "100").env("NO_COLOR", "1");
    let bytes = process::output(&mut command).with_context(context)?;
    let text = String::from_utf8(bytes).context("it printed something that is not UTF-8").with_context(context)?;
    if text.trim().is_empty() {
        return Err(anyhow!("it printed nothing")).with_context(context);
    }
    Ok(text)
}

/// The first lines that differ, or nothing if all are equal.
fn difference(committed: &str, generated: &str) -> Option<String> {
    if committed == generated {
        return None;
    }
    // Line ends stay part of the lines: a missing last newline is a difference too.
    let old: Vec<&str> = committed.split_inclusive('\n').collect();
    let new: Vec<&str> = generated.split_inclusive('\n').collect();
    let first = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
    let mut text = format!("  line {}:", first + 1);
    for (sign, lines) in [('-', &old), ('+', &new)] {
        let rest = &lines[first..];
        for line in rest.iter().take(SHOWN_LINES) {
            let end = if line.ends_with('\n') { "" } else { " (no newline at the end)" };
            text.push_str(&format!("\n  {sign} {}{end}", line.trim_end_matches('\n')));
        }
        if rest.len() > SHOWN_LINES {
            text.push_str(&format!("\n  {sign} ... and {} more lines", rest.len() - SHOWN_LINES));
        }
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_have_no_difference() {
        assert_eq!(difference("a\nb\n", "a\nb\n"), None);
    }

    #[test]
    fn difference_begins_at_the_first_differing_line() {
        let text = difference("a\nb\nc\n", "a\nB\nc\n").unwrap();
        assert_eq!(text, "  line 2:\n  - b\n  - c\n  + B\n  + c");
        assert!(difference("a\n", "a").unwrap().contains("no newline"));
        let long = "x\n".repeat(20);
        assert!(difference("", &long).unwrap().ends_with("... and 14 more lines"));
    }

    #[test]
    fn missing_command_is_named_together_with_the_file_it_makes() {
        let row =
            Generated { path: "docs/x.md", binary: "sh", arguments: &["-c", "echo no such subcommand >&2; exit 2"] };
        let error = format!("{:#}", produce(&row, &[]).unwrap_err());
        assert!(error.contains("docs/x.md") && error.contains("no binary `sh`"), "{error}");

        let binaries = [("sh".to_owned(), PathBuf::from("/bin/sh"))];
        let error = format!("{:#}", produce(&row, &binaries).unwrap_err());
        assert!(error.contains("missing or broken") && error.contains("no such subcommand"), "{error}");

        let row = Generated { arguments: &["-c", "true"], ..row };
        assert!(format!("{:#}", produce(&row, &binaries).unwrap_err()).contains("printed nothing"));

        let row = Generated { arguments: &["-c", "echo page"], ..row };
        assert_eq!(produce(&row, &binaries).unwrap(), "page\n");
    }

    #[test]
    fn other_arguments_are_refused() {
        assert!(run(&["--chek".to_owned()]).unwrap_err().is::<Usage>());
    }
}
