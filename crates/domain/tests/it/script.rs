//! The form of scenario files: a line at the left edge is a command, indented lines below it are what it says.

use std::{fs, path::Path};

/// A line with its number.
type Line = (usize, String);

/// A command and what is expected of it.
#[derive(Debug, Clone)]
struct Command {
    line: usize,
    words: String,
    expected: Vec<Line>,
}

/// Commands under one title.
#[derive(Debug, Default)]
struct Case {
    title: String,
    commands: Vec<Command>,
}

/// Splits a file: what comes before the first case is common to all.
fn parse(text: &str) -> (Vec<Command>, Vec<Case>) {
    let (mut common, mut cases) = (Vec::new(), Vec::<Case>::new());
    for (line, text) in text.lines().enumerate().map(|(n, text)| (n + 1, text)) {
        let words = text.trim();
        if words.is_empty() || words.starts_with('#') {
            continue;
        }
        if let Some(title) = words.strip_prefix("case ") {
            cases.push(Case { title: title.to_owned(), commands: Vec::new() });
            continue;
        }
        let commands = cases.last_mut().map_or(&mut common, |case| &mut case.commands);
        if text.starts_with(' ') {
            let command: &mut Command = commands.last_mut().unwrap_or_else(|| panic!("{line}: expected of nothing"));
            command.expected.push((line, words.to_owned()));
        } else {
            commands.push(Command { line, words: words.to_owned(), expected: Vec::new() });
        }
    }
    (common, cases)
}

/// Whether a line is as expected; `...` stands for anything.
fn matches(expected: &str, line: &str) -> bool {
    let mut parts = expected.split("...");
    let Some(mut rest) = parts.next().and_then(|first| line.strip_prefix(first)) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
    for part in middle {
        let Some((_, after)) = rest.split_once(part) else { return false };
        rest = after;
    }
    rest.ends_with(last)
}

/// The first line has to be told; of the others those that matter, in order.
fn compare(file: &str, command: &Command, output: &[String]) -> Result<(), String> {
    let complain = |line: usize, what: &str| {
        let output: String = output.iter().take(40).map(|line| format!("  {line}\n")).collect();
        Err(format!("{file}:{line}: {what}; `{}` says:\n{output}", command.words))
    };
    match (command.expected.first(), output.first()) {
        (None, None) => return Ok(()),
        (None, Some(_)) => return complain(command.line, "nothing is expected below"),
        (Some((line, _)), None) => return complain(*line, "something is expected"),
        (Some((line, expected)), Some(first)) if !matches(expected, first) => {
            return complain(*line, "the first line is another");
        }
        (Some(_), Some(_)) => {}
    }
    let mut left = output.iter();
    for (line, expected) in &command.expected {
        if !left.any(|line| matches(expected, line)) {
            return complain(*line, &format!("{expected:?} is missing"));
        }
    }
    Ok(())
}

/// Tells every case of a file, each to a listener of its own.
pub fn run<S: Default>(
    file: &str,
    text: &str,
    tell: impl Fn(&mut S, &str) -> Result<Vec<String>, String>,
) -> Vec<Result<(), String>> {
    let (common, cases) = parse(text);
    let one = |case: &Case| {
        let mut story = S::default();
        for command in common.iter().chain(&case.commands) {
            let wrong = |error: String| format!("case {}\n{file}:{}: {error}", case.title, command.line);
            let output = tell(&mut story, &command.words).map_err(wrong)?;
            compare(file, command, &output).map_err(|error| format!("case {}\n{error}", case.title))?;
        }
        Ok(())
    };
    cases.iter().map(one).collect()
}

/// Tells every file of a folder of `tests/scenarios`; panics with every case that comes out otherwise, or if there are fewer than `least`.
pub fn run_folder<S: Default>(folder: &str, least: usize, tell: impl Fn(&mut S, &str) -> Result<Vec<String>, String>) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios").join(folder);
    let mut files: Vec<_> =
        fs::read_dir(&folder).expect("the folder").map(|entry| entry.expect("a file").path()).collect();
    files.sort();
    let mut results = Vec::new();
    for path in files.iter().filter(|path| path.extension().is_some_and(|extension| extension == "txt")) {
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        let found = run(&name, &fs::read_to_string(path).expect("the file"), &tell);
        assert!(!found.is_empty(), "{name} has no case");
        results.extend(found);
    }
    let failures: Vec<String> = results.iter().filter_map(|result| result.clone().err()).collect();
    assert!(failures.is_empty(), "{} of {} cases:\n\n{}", failures.len(), results.len(), failures.join("\n"));
    assert!(results.len() >= least, "only {} cases were found", results.len());
}
