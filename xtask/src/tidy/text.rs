//! Rules about lines of text: what a module must begin with, and words that must not be committed.

use super::allowance::Excess;
use super::source::{RustText, line_of, words};
use super::{Finding, RustFile};

/// Every module says what it is for before it says anything else.
pub fn module_docs(file: &RustFile, text: &str) -> Option<Finding> {
    let first = (1..).zip(text.lines()).find(|(_, line)| !line.trim().is_empty());
    let opens = first.is_some_and(|(_, line)| line.starts_with("//!"));
    let line = first.map_or(1, |(line, _)| line);
    let advice = "open the module with `//!`: what it is for, what it refuses to do, where to look next";
    (in_source(&file.path) && !file.is_generated && !opens)
        .then(|| Finding::new(&file.path, line, "module-docs", advice))
}

fn in_source(path: &str) -> bool {
    path.starts_with("xtask/src/") || (path.starts_with("crates/") && path.split('/').nth(2) == Some("src"))
}

/// A promise without an issue is forgotten. In Rust files `text` is the comments; elsewhere, the whole text.
pub fn promises(file: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (line, text) in (1..).zip(text.lines()) {
        for word in ["TODO", "FIXME", "XXX"] {
            if words(text, word).iter().any(|at| !names_issue(&text[at + word.len()..])) {
                let advice = format!("`{word}` must name an issue, as in `{word}(#12)`; otherwise do it or delete it");
                findings.push(Finding::new(file, line, "todo", advice));
            }
        }
    }
    findings
}

fn names_issue(after: &str) -> bool {
    let inside = after.strip_prefix("(#").and_then(|rest| rest.split_once(')'));
    inside.is_some_and(|(number, _)| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
}

/// Code that pretends: tests that do not run, functions that are not there.
pub fn pretence(file: &str, rust: &RustText) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (line, code) in rust.code_lines() {
        let dense: String = code.split_whitespace().collect();
        if dense.contains("#[ignore]") || dense.contains("#[ignore=") || dense.contains(",ignore)]") {
            let advice = "an ignored test proves nothing; assert today's wrong answer and say so";
            findings.push(Finding::new(file, line, "ignore", advice));
        }
        for name in ["todo", "unimplemented"] {
            if words(code, name).iter().any(|at| code[at + name.len()..].starts_with("!(")) {
                let advice =
                    format!("`{name}!` ends the process at run time; write it, or return an error that says so");
                findings.push(Finding::new(file, line, "unfinished", advice));
            }
        }
    }
    findings
}

/// Outside tests, whoever is sure that something cannot fail writes down why.
pub fn unwraps(file: &RustFile) -> Vec<Finding> {
    if file.is_test || file.is_generated {
        return Vec::new();
    }
    let lines = file.rust.code_lines().filter(|(line, code)| code.contains(".unwrap()") && !file.rust.is_test(*line));
    let advice = "`unwrap()` outside tests; return the error, or `expect(\"why it cannot fail\")`";
    lines.map(|(line, _)| Finding::new(&file.path, line, "unwrap", advice)).collect()
}

/// Paths of somebody's own machine. Written in pieces, because this file is checked as well.
const HOMES: &[&str] = &[concat!("/ho", "me/"), concat!("/ro", "ot/")];

/// What works on one machine only does not belong into the repository.
pub fn machine_paths(file: &str, text: &str) -> Option<Excess> {
    let hits = HOMES.iter().flat_map(|home| text.match_indices(home)).map(|(at, _)| at);
    // After a name these are parts of a longer path or address, such as a page of a web site.
    let starts = |at: &usize| {
        let before = text[..*at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '}' | '~' | '*' | '$'))
    };
    let hits: Vec<usize> = hits.filter(starts).collect();
    let first = hits.iter().min()?;
    let advice = "a path of one particular machine; use a relative path, a temporary directory or a made-up name.";
    let finding = Finding::new(file, line_of(text, *first), "machine-path", advice);
    Some(Excess { kind: "machine-path", subject: file.to_owned(), measured: hits.len(), finding })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(findings: impl IntoIterator<Item = Finding>) -> Vec<String> {
        findings.into_iter().map(|finding| format!("{}:{}", finding.line, finding.rule)).collect()
    }

    #[test]
    fn modules_open_with_their_purpose() {
        let check = |path: &str, text: &str| shown(module_docs(&RustFile::new(path, text), text));
        assert_eq!(check("crates/x/src/a.rs", "//! What it is for.\n"), [""; 0]);
        assert_eq!(check("crates/x/src/a.rs", "\nuse x;\n//! Late.\n"), ["2:module-docs"]);
        assert_eq!(check("xtask/src/a.rs", ""), ["1:module-docs"]);
        assert_eq!(check("crates/x/src/a.rs", "// This file is @generated by x.\n"), [""; 0]);
        assert_eq!(check("crates/x/tests/it/main.rs", "use x;\n"), [""; 0]);
    }

    #[test]
    fn promise_names_an_issue() {
        assert_eq!(shown(promises("a", "x\n// TODO: later\n")), ["2:todo"]);
        assert_eq!(shown(promises("a", "FIXME(bob) XXX")), ["1:todo", "1:todo"]);
        assert_eq!(shown(promises("a", "// TODO(#12): later\n// mktemp XXXXXX, todo\n")), [""; 0]);
        assert_eq!(shown(promises("a", "// TODO(#): x TODO(#1a): y")), ["1:todo"]);
    }

    #[test]
    fn pretending_is_found() {
        let check = |text: &str| shown(pretence("a.rs", &RustText::new(text)));
        assert_eq!(check("#[ignore]\nfn a() {}"), ["1:ignore"]);
        assert_eq!(check("#[ignore = \"slow\"]"), ["1:ignore"]);
        assert_eq!(check("#[cfg_attr(x, ignore)]"), ["1:ignore"]);
        assert_eq!(check("fn a() { todo!() }\nfn b() { unimplemented!(\"x\") }"), ["1:unfinished", "2:unfinished"]);
        assert_eq!(check("// todo!()\nlet x = \"#[ignore]\"; mytodo!(x); self.ignore();"), [""; 0]);
    }

    #[test]
    fn unwrap_is_for_tests() {
        let check = |path: &str, text: &str| shown(unwraps(&RustFile::new(path, text)));
        assert_eq!(check("a.rs", "fn a() {\n    x.unwrap();\n}"), ["2:unwrap"]);
        assert_eq!(check("a.rs", "x.unwrap_or(1); x.expect(\"y\"); // x.unwrap()"), [""; 0]);
        assert_eq!(check("a.rs", "#[cfg(test)]\nmod tests {\n    fn a() { x.unwrap(); }\n}"), [""; 0]);
        assert_eq!(check("crates/x/tests/it/a.rs", "x.unwrap();"), [""; 0]);
    }

    #[test]
    fn paths_of_a_machine_are_found() {
        let measured = |text: &str| machine_paths("a", text).map(|e| (e.finding.line, e.measured));
        let (home, root) = (HOMES[0], HOMES[1]);
        assert_eq!(measured(&format!("x\ncd {home}ann and {root}x")), Some((2, 2)));
        assert_eq!(measured(&format!("https://example.com{home}x {{dir}}{root}x")), None);
        assert_eq!(measured("relative/path /var/lib/sabakan"), None);
    }
}
