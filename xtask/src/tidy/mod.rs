//! `cargo xtask tidy`: what we agreed on and no compiler checks. Every rule is a function over text, beside its tests;
//! this file gathers the texts, asks the rules and prints what they found.
//!
//! A rule says where, what, and what to do. It has no switch to turn it off; existing excess goes into the allowance
//! list. What clippy or rustdoc can find is left to them.

mod allowance;
mod directions;
mod licences;
mod links;
mod pages;
mod policy;
mod purity;
mod sizes;
mod source;
mod spdx;
mod text;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use std::{fmt, fs};

use anyhow::{Context, Result, bail};

use crate::{no_arguments, process};
use source::RustText;

/// One broken rule.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// From the top of the repository.
    pub file: String,
    /// From 1.
    pub line: usize,
    pub rule: &'static str,
    /// What is wrong, and what to do.
    pub text: String,
}

impl Finding {
    pub fn new(file: &str, line: usize, rule: &'static str, text: impl Into<String>) -> Self {
        Self { file: file.to_owned(), line, rule, text: text.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}: {}", self.file, self.line, self.rule, self.text)
    }
}

/// A Rust file, prepared for the rules.
pub struct RustFile {
    pub path: String,
    pub rust: RustText,
    /// The whole file exists for tests only.
    pub is_test: bool,
    /// Nobody wrote it, so rules about writing do not apply.
    pub is_generated: bool,
}

impl RustFile {
    pub fn new(path: &str, text: &str) -> Self {
        let is_test = path.split('/').any(|part| matches!(part, "tests" | "benches" | "tests.rs"));
        let is_generated = text.lines().take(3).any(|line| line.starts_with("//") && line.contains("@generated"));
        Self { path: path.to_owned(), rust: RustText::new(text), is_test, is_generated }
    }
}

/// All texts of the repository by path; files that are not UTF-8 are known with an empty text.
struct Tree {
    texts: BTreeMap<String, String>,
}

pub fn run(arguments: &[String]) -> Result<()> {
    no_arguments("tidy", arguments)?;
    check()
}

/// Checks the repository; fails if any rule found something.
pub fn check() -> Result<()> {
    let tree = Tree::load(process::root())?;
    let rust = rust_files(&tree);
    let mut findings = text_findings(&tree, &rust);
    findings.extend(workspace_findings()?);
    findings.extend(dependency_findings(&tree)?);
    findings.sort();
    findings.dedup();
    for finding in &findings {
        println!("{finding}");
    }
    match findings.len() {
        0 => {
            println!("tidy: {} files, no problem", tree.texts.len());
            Ok(())
        }
        1 => bail!("tidy found a problem"),
        count => bail!("tidy found {count} problems"),
    }
}

impl Tree {
    fn load(root: &Path) -> Result<Self> {
        let mut texts = BTreeMap::new();
        for path in paths(root)? {
            match fs::read(root.join(&path)) {
                Ok(bytes) => texts.insert(path, String::from_utf8(bytes).unwrap_or_default()),
                // Deleted, but not yet in the index.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error).with_context(|| format!("cannot read {path}")),
            };
        }
        Ok(Self { texts })
    }

    fn files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.texts.iter().map(|(path, text)| (path.as_str(), text.as_str()))
    }

    fn exists(&self, path: &str) -> bool {
        let below = |path: &str| self.texts.range(format!("{path}/")..).next().is_some_and(|(f, _)| starts(f, path));
        path.is_empty() || self.texts.contains_key(path) || below(path)
    }
}

fn starts(file: &str, directory: &str) -> bool {
    file.strip_prefix(directory).is_some_and(|rest| rest.starts_with('/'))
}

/// What git knows or would add. Without git, which is how an unpacked archive looks, everything but build output.
fn paths(root: &Path) -> Result<Vec<String>> {
    let mut git = Command::new("git");
    git.current_dir(root).args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    if let Ok(bytes) = process::output(&mut git) {
        let text = String::from_utf8(bytes).context("a file has a name that is not UTF-8")?;
        let paths: BTreeSet<String> = text.split('\0').filter(|path| !path.is_empty()).map(ToOwned::to_owned).collect();
        // A link to a directory is one entry for git, and not a text.
        return Ok(paths.into_iter().filter(|path| !root.join(path).is_dir()).collect());
    }
    let mut paths = Vec::new();
    let mut directories = vec![String::new()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(root.join(&directory))? {
            let entry = entry?;
            let name = entry.file_name().into_string().ok().context("a file has a name that is not UTF-8")?;
            let path = if directory.is_empty() { name.clone() } else { format!("{directory}/{name}") };
            match entry.file_type()? {
                kind if kind.is_dir() && !matches!(name.as_str(), "target" | ".git" | "sabakan-data") => {
                    directories.push(path);
                }
                kind if kind.is_file() => paths.push(path),
                _ => {}
            }
        }
    }
    Ok(paths)
}

fn rust_files(tree: &Tree) -> Vec<RustFile> {
    let rust = tree.files().filter(|(path, _)| path.ends_with(".rs"));
    let mut files: Vec<RustFile> = rust.map(|(path, text)| RustFile::new(path, text)).collect();
    let tests: Vec<String> = files.iter().flat_map(test_module_paths).collect();
    for file in &mut files {
        let is_below = |module: &String| file.path == format!("{module}.rs") || starts(&file.path, module);
        file.is_test = file.is_test || tests.iter().any(is_below);
    }
    files
}

/// Paths, without `.rs`, of the modules which this file declares for tests only.
fn test_module_paths(file: &RustFile) -> Vec<String> {
    let stem = file.path.trim_end_matches(".rs");
    let (directory, name) = stem.rsplit_once('/').unwrap_or(("", stem));
    let base = if matches!(name, "mod" | "lib" | "main") { directory } else { stem };
    file.rust.test_modules().into_iter().map(|module| format!("{base}/{module}")).collect()
}

/// The rules that look at one text at a time, and the allowance list over what they measured.
fn text_findings(tree: &Tree, rust: &[RustFile]) -> Vec<Finding> {
    let (mut findings, mut excesses) = (Vec::new(), Vec::new());
    for file in rust {
        findings.extend(text::module_docs(file, &tree.texts[&file.path]));
        findings.extend(text::promises(&file.path, &file.rust.comments));
        findings.extend(text::pretence(&file.path, &file.rust));
        findings.extend(text::unwraps(file));
        if file.path.starts_with(purity::DIRECTORY) {
            findings.extend(purity::check(&file.path, &file.rust));
        }
        excesses.extend(sizes::measure(file));
    }
    for (path, text) in tree.files() {
        // Golden files are what programs print; their links start from where the text is shown, not from here.
        if path.contains("/golden/") {
            continue;
        }
        if path.ends_with(".md") {
            findings.extend(text::promises(path, &links::without_code(text)));
            let read = |path: &str| tree.texts.get(path).map(String::as_str);
            findings.extend(links::check(path, text, |path| tree.exists(path), read));
        } else if !path.ends_with(".rs") {
            findings.extend(text::promises(path, text));
        }
        excesses.extend(text::machine_paths(path, text));
    }
    findings.extend(pages::changes(tree.files()));
    findings.extend(pages::decisions(tree.files()));
    let list = tree.texts.get(allowance::FILE).map_or("", String::as_str);
    findings.extend(allowance::judge(excesses, list));
    findings
}

fn workspace_findings() -> Result<Vec<Finding>> {
    let metadata = process::metadata(&["--no-deps"])?;
    let root = metadata["workspace_root"].as_str().context("`cargo metadata` names no workspace")?;
    let read = |path: &str| fs::read_to_string(path).with_context(|| format!("cannot read {path}"));
    Ok(directions::check(&directions::packages(&metadata, root, read)?))
}

fn dependency_findings(tree: &Tree) -> Result<Vec<Finding>> {
    let text = |path: &str| tree.texts.get(path).with_context(|| format!("{path} is missing"));
    let policy = policy::read(text("deny.toml")?).context("cannot read deny.toml")?;
    match process::metadata(&["--locked", "--all-features"]) {
        Ok(metadata) => Ok(licences::check(&licences::packages(&metadata)?, &policy, text("Cargo.lock")?)),
        // The usual reason is a manifest that changed; the other rules still have something to say.
        Err(error) => {
            let advice = format!("{error:#}\nrun `cargo check` and commit Cargo.lock");
            Ok(vec![Finding::new("Cargo.lock", 1, "licences", advice)])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> Tree {
        Tree { texts: files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect() }
    }

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let tree = tree(files);
        let mut findings = text_findings(&tree, &rust_files(&tree));
        findings.sort();
        findings.iter().map(|finding| format!("{}:{}: {}", finding.file, finding.line, finding.rule)).collect()
    }

    #[test]
    fn files_and_directories_exist() {
        let tree = tree(&[("docs/guides/a.md", ""), ("docs-old.md", "")]);
        assert!(
            tree.exists("docs/guides/a.md") && tree.exists("docs/guides") && tree.exists("docs") && tree.exists("")
        );
        assert!(!tree.exists("doc") && !tree.exists("docs-old") && !tree.exists("docs/guides/a"));
    }

    #[test]
    fn every_rule_over_texts_is_asked() {
        let long = format!("//! X.\nfn f() {{\n{}}}\n", "    g();\n".repeat(70));
        let files = [
            ("crates/domain/src/a.rs", "//! X.\nuse tokio::spawn;\n"),
            ("crates/x/src/b.rs", "fn f() { x.unwrap() } // FIXME\n"),
            ("crates/x/src/c.rs", "//! X.\n#[ignore]\nfn f() { todo!() }\n"),
            ("crates/x/src/d.rs", long.as_str()),
            ("docs/e.md", "[x](y.md) TODO but not `TODO`\n"),
            ("docs/adr/0002-x.md", "## Context\n## Decision\n## Consequences\n## Alternatives\n"),
            ("changelog.d/x.md", "One sentence.\n"),
            ("crates/x/tests/golden/page.md", "[x](y.md) TODO\n"),
            ("run.sh", &format!("cd {}ann\n", concat!("/ho", "me/"))),
            ("xtask/tidy-allow.txt", "file-lines gone.rs 900\n"),
        ];
        let expected = [
            "changelog.d/x.md:1: changelog",
            "crates/domain/src/a.rs:2: purity",
            "crates/x/src/b.rs:1: module-docs",
            "crates/x/src/b.rs:1: todo",
            "crates/x/src/b.rs:1: unwrap",
            "crates/x/src/c.rs:2: ignore",
            "crates/x/src/c.rs:3: unfinished",
            "crates/x/src/d.rs:2: sizes",
            "docs/adr/0002-x.md:1: adr",
            "docs/e.md:1: links",
            "docs/e.md:1: todo",
            "run.sh:1: machine-path",
            "xtask/tidy-allow.txt:1: allowance",
        ];
        assert_eq!(found(&files), expected);
    }

    #[test]
    fn module_declared_for_tests_is_a_test() {
        let unwraps = "//! X.\nfn f() { x.unwrap() }\n";
        let library = "//! X.\n#[cfg(test)]\nmod fixtures;\nmod other;\n";
        let files = [
            ("crates/x/src/lib.rs", library),
            ("crates/x/src/fixtures.rs", unwraps),
            ("crates/x/src/other.rs", "//! X.\n#[cfg(test)]\nmod helpers;\n"),
            ("crates/x/src/other/helpers.rs", unwraps),
            ("crates/x/src/helpers.rs", unwraps),
        ];
        assert_eq!(found(&files), ["crates/x/src/helpers.rs:2: unwrap"]);
    }
}
