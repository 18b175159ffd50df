//! Rules about small documents: notes of changes and records of decisions.

use super::Finding;

const CHANGELOG: &str = "changelog.d/";
const CHANGE_KINDS: &[&str] = &["added", "changed", "fixed", "removed", "security"];

/// Notes become part of a release by their names, and are read by operators.
pub fn changes<'a>(files: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in files {
        let Some(name) = path.strip_prefix(CHANGELOG) else { continue };
        // What keeps or explains the directory while it is empty.
        if matches!(name, "README.md" | ".gitkeep") {
            continue;
        }
        if !is_change_name(name) {
            let advice = format!("name it `<slug>.<{}>.md`", CHANGE_KINDS.join("|"));
            findings.push(Finding::new(path, 1, "changelog", advice));
        }
        if !has_sentence(text) {
            findings.push(Finding::new(path, 1, "changelog", "write at least one sentence to an operator"));
        }
    }
    findings
}

fn is_change_name(name: &str) -> bool {
    let parts: Vec<&str> = name.split('.').collect();
    let is_slug = |slug: &str| {
        !slug.is_empty() && slug.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
    };
    matches!(parts.as_slice(), [slug, kind, "md"] if is_slug(slug) && CHANGE_KINDS.contains(kind))
}

fn has_sentence(text: &str) -> bool {
    let ends = |word: &str| word.ends_with(['.', '!', '?', ':']) || word.ends_with(".)");
    text.split_whitespace().skip(1).any(ends)
}

const DECISIONS: &str = "docs/adr/";
const DECISION_SECTIONS: &[&str] = &["Context", "Decision", "Consequences", "Alternatives"];

/// Decisions are numbered without gaps, so that nobody wonders which one was taken back, and have the same sections.
pub fn decisions<'a>(files: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut numbered: Vec<(usize, &str)> = Vec::new();
    for (path, text) in files {
        let Some(name) = path.strip_prefix(DECISIONS) else { continue };
        if name == "README.md" {
            continue;
        }
        match decision_number(name) {
            Some(number) => numbered.push((number, path)),
            None => findings.push(Finding::new(path, 1, "adr", "name it `NNNN-title.md`, lower case")),
        }
        for section in DECISION_SECTIONS {
            let is_heading =
                |line: &str| line.starts_with('#') && line.trim_start_matches(['#', ' ']).starts_with(section);
            if !text.lines().any(is_heading) {
                findings.push(Finding::new(path, 1, "adr", format!("the section `## {section}` is missing")));
            }
        }
    }
    numbered.sort_unstable();
    for (index, (number, path)) in numbered.iter().enumerate() {
        let expected = index.checked_sub(1).map_or(1, |previous| numbered[previous].0 + 1);
        if *number != expected {
            let advice = format!("number {number:04} follows {:04}; number it {expected:04}", expected - 1);
            findings.push(Finding::new(path, 1, "adr", advice));
        }
    }
    findings
}

fn decision_number(name: &str) -> Option<usize> {
    let (number, title) = name.strip_suffix(".md")?.split_once('-')?;
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    let is_named = number.len() == 4 && !title.is_empty() && title.bytes().all(plain);
    number.parse().ok().filter(|_| is_named)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(findings: &[Finding]) -> Vec<String> {
        findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn changes_have_a_kind_and_a_sentence() {
        let check = |path, text| changes([(path, text)].into_iter()).len();
        assert_eq!(check("changelog.d/retire-keys.fixed.md", "Keys are deleted now.\n"), 0);
        assert_eq!(check("changelog.d/README.md", ""), 0);
        assert_eq!(check("docs/x.md", ""), 0);
        assert_eq!(check("changelog.d/retire.md", "Keys are deleted now."), 1);
        assert_eq!(check("changelog.d/retire.improved.md", "Keys are deleted now."), 1);
        assert_eq!(check("changelog.d/Retire keys.fixed.md", "Keys are deleted now."), 1);
        assert_eq!(check("changelog.d/retire.fixed.md", "\n"), 1);
        assert_eq!(check("changelog.d/retire.fixed.md", "fixed"), 1);
    }

    const RECORD: &str = "# 1. Title\n## Context\n## Decision\n## Consequences\n## Alternatives considered\n";

    #[test]
    fn decisions_have_all_sections() {
        assert_eq!(shown(&decisions([("docs/adr/0001-layout.md", RECORD)].into_iter())), [""; 0]);
        let text = RECORD.replace("## Decision\n", "");
        let found = shown(&decisions([("docs/adr/0001-layout.md", text.as_str())].into_iter()));
        assert_eq!(found, ["docs/adr/0001-layout.md:1: adr: the section `## Decision` is missing"]);
    }

    #[test]
    fn decisions_are_numbered_without_gaps() {
        let check = |names: &[&str]| {
            let paths: Vec<String> = names.iter().map(|name| format!("docs/adr/{name}")).collect();
            decisions(paths.iter().map(|path| (path.as_str(), RECORD))).len()
        };
        assert_eq!(check(&["0002-b.md", "0001-a.md", "README.md"]), 0);
        assert_eq!(check(&["0001-a.md", "0003-c.md", "0004-d.md"]), 1);
        assert_eq!(check(&["0001-a.md", "0001-b.md"]), 1);
        assert_eq!(check(&["0002-a.md"]), 1);
        assert_eq!(check(&["1-a.md"]), 1);
    }
}
