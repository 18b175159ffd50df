//! Every command line of the server that the documentation shows is one the server understands.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
};

use super::{command, long_flags, parse};

/// Command lines of a page: those of its blocks that begin with the program, and in its text those between backquotes that do and
/// have a flag, or that are a flag of ours with one more word.
fn command_lines(page: &str, flags: &[String]) -> Vec<String> {
    let (mut lines, mut text, mut joined, mut is_block) = (Vec::new(), String::new(), String::new(), false);
    for line in page.lines() {
        if line.trim_start().starts_with("```") {
            is_block = !is_block;
            continue;
        }
        if !is_block {
            text.push_str(line);
            text.push(if line.is_empty() { '\n' } else { ' ' });
            continue;
        }
        joined.push_str(line.trim().trim_end_matches('\\'));
        if !line.ends_with('\\') {
            lines.push(std::mem::take(&mut joined));
        }
    }
    lines.retain(|line| line.trim_start_matches("$ ").starts_with("sabakan "));
    let spans = text.lines().flat_map(|paragraph| paragraph.split('`').skip(1).step_by(2));
    for span in spans {
        let words: Vec<&str> = span.split_whitespace().collect();
        let is_flag = |word: &str| word.strip_prefix("--").is_some_and(|name| flags.iter().any(|flag| flag == name));
        match words[..] {
            // Without a flag it is a name of a command, not a command line.
            ["sabakan", ref more @ ..] if more.iter().any(|word| word.starts_with("--")) => lines.push(span.to_owned()),
            [flag, _] if is_flag(flag) => lines.push(format!("sabakan {span}")),
            _ => {}
        }
    }
    lines
}

/// The words of a command line, without what stands for something else.
fn words(line: &str) -> Vec<OsString> {
    let line = line.trim_start_matches("$ ");
    let line = line.split(" #").next().unwrap_or_default();
    let (before, after) = line.split_once("$(").unwrap_or((line, ""));
    let line = match after.split_once(')') {
        Some((_, after)) => format!("{before}x{after}"),
        None => before.to_owned(),
    };
    let mut words: Vec<String> = Vec::new();
    for word in line.split_whitespace() {
        let is_value = words.last().is_some_and(|before| before.starts_with("--"));
        if word != "…" || is_value {
            words.push(word.trim_matches(['"', '\'']).to_owned());
        }
    }
    words.into_iter().map(OsString::from).collect()
}

fn pages(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("the documentation") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            pages(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
}

#[test]
fn command_lines_of_the_docs_are_understood() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found = vec![root.join("README.md")];
    pages(&root.join("docs"), &mut found);
    let flags = long_flags(&command());
    let (mut count, mut wrong) = (0, Vec::new());
    for path in found {
        for line in command_lines(&fs::read_to_string(&path).expect("a page"), &flags) {
            count += 1;
            if let Err(error) = parse(words(&line)) {
                wrong.push(format!(
                    "{}: {line}\n  {}",
                    path.display(),
                    error.to_string().lines().next().unwrap_or_default()
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 15, "only {count} command lines were found");
}

#[test]
fn command_lines_are_found_where_pages_have_them() {
    let flags = ["repairer".to_owned(), "data-dir".to_owned()];
    let page = "Run `sabakan store check --data-dir\n…`, or `--repairer false`, or `--server URL`, or `sabakan`.\n\n```sh\n\
                sabakan --data-dir /d \\\n  --repairer …   # why\nsabactl x\n```\n";
    let expected =
        ["sabakan --data-dir /d --repairer …   # why", "sabakan store check --data-dir …", "sabakan --repairer false"];
    assert_eq!(command_lines(page, &flags), expected);
    assert_eq!(words(expected[1]), ["sabakan", "store", "check", "--data-dir", "…"]);
    assert_eq!(words("sabakan … --out a-$(date +%F).jsonl # x"), ["sabakan", "--out", "a-x.jsonl"]);
    assert!(parse(words("sabakan --repairer false")).is_err(), "a word behind a switch is taken for a command");
    assert!(parse(words("sabakan --repairer=false")).is_ok());
}
