//! Links between our own documents. Links to other sites are not followed: a build must not depend on them.

use std::collections::BTreeSet;

use super::Finding;

/// A link as written, with the line it stands in.
#[derive(Debug, PartialEq, Eq)]
struct Link {
    line: usize,
    target: String,
}

/// Checks the links of one document. `exists` knows files and directories by their path from the top of the repository,
/// `read` gives the text of a document.
pub fn check<'a>(
    file: &str,
    text: &str,
    exists: impl Fn(&str) -> bool,
    read: impl Fn(&str) -> Option<&'a str>,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for Link { line, target } in links(text) {
        if is_elsewhere(&target) {
            continue;
        }
        let (path, anchor) = target.split_once('#').map_or((target.as_str(), None), |(p, a)| (p, Some(a)));
        let resolved = if path.is_empty() { Some(file.to_owned()) } else { resolve(file, path) };
        let Some(resolved) = resolved.filter(|resolved| exists(resolved)) else {
            let advice = format!("link to `{target}`: no such file; correct the path or remove the link");
            findings.push(Finding::new(file, line, "links", advice));
            continue;
        };
        // A renderer makes anchors from headings; for other files they mean line numbers.
        let document = if resolved == file { Some(text) } else { read(&resolved) };
        if let (Some(anchor), Some(document), true) = (anchor, document, resolved.ends_with(".md"))
            && !anchors(document).contains(anchor)
        {
            let advice = format!("link to `{target}`: {resolved} has no heading with the anchor `#{anchor}`");
            findings.push(Finding::new(file, line, "links", advice));
        }
    }
    findings
}

/// The text with code blocks and code spans blanked; line numbers stay.
pub fn without_code(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut fence: Option<String> = None;
    for line in text.split_inclusive('\n') {
        let start = line.trim_start();
        let mark: String = start.chars().take_while(|c| *c == '`' || *c == '~').collect();
        let is_fence = mark.len() >= 3 && mark.chars().all(|c| mark.starts_with(c));
        match &fence {
            Some(open) => {
                if is_fence && mark.starts_with(open.as_str()) && start.trim_end() == mark {
                    fence = None;
                }
                kept.push('\n');
            }
            None if is_fence => {
                fence = Some(mark);
                kept.push('\n');
            }
            None => kept.push_str(line),
        }
    }
    without_spans(&kept)
}

/// A span of code ends at as many backticks as it began with, and at the latest with its paragraph.
fn without_spans(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('`') {
        let ticks = rest[at..].chars().take_while(|c| *c == '`').count();
        let (before, span) = (&rest[..at], &rest[at + ticks..]);
        kept.push_str(before);
        let paragraph = span.find("\n\n").unwrap_or(span.len());
        match closing_ticks(&span[..paragraph], ticks) {
            Some(length) => {
                kept.extend(span[..length].chars().filter(|c| *c == '\n'));
                rest = &span[length + ticks..];
            }
            None => rest = span,
        }
    }
    kept.push_str(rest);
    kept
}

fn closing_ticks(span: &str, ticks: usize) -> Option<usize> {
    let mut at = 0;
    while let Some(found) = span[at..].find('`') {
        let run = span[at + found..].chars().take_while(|c| *c == '`').count();
        if run == ticks {
            return Some(at + found);
        }
        at += found + run;
    }
    None
}

fn links(text: &str) -> Vec<Link> {
    let text = without_code(text);
    let mut links = Vec::new();
    for (line, text) in (1..).zip(text.lines()) {
        for (at, _) in text.match_indices("](") {
            if let Some(target) = inline_target(&text[at + 2..]) {
                links.push(Link { line, target });
            }
        }
        // A reference: `[name]: target`. Footnotes look alike and are none.
        let reference = text.trim_start().strip_prefix('[').and_then(|rest| rest.split_once("]: "));
        if let Some((name, rest)) = reference
            && !name.starts_with('^')
            && !name.contains(']')
            && let Some(target) = rest.split_whitespace().next()
        {
            links.push(Link { line, target: target.trim_matches(['<', '>']).to_owned() });
        }
    }
    links
}

/// The target of an inline link: up to the parenthesis that closes it, without a title.
fn inline_target(rest: &str) -> Option<String> {
    if let Some(rest) = rest.strip_prefix('<') {
        return rest.split_once('>').map(|(target, _)| target.to_owned());
    }
    let mut depth = 0;
    for (at, c) in rest.char_indices() {
        match c {
            '(' => depth += 1,
            ')' if depth == 0 => return rest[..at].split_whitespace().next().map(ToOwned::to_owned),
            ')' => depth -= 1,
            _ => {}
        }
    }
    None
}

fn is_elsewhere(target: &str) -> bool {
    let scheme = target.split_once(':').map(|(scheme, _)| scheme);
    target.starts_with("//")
        || scheme.is_some_and(|scheme| !scheme.is_empty() && scheme.bytes().all(|b| b.is_ascii_alphanumeric()))
}

/// The path from the top of the repository; nothing if it leads out of it.
fn resolve(file: &str, path: &str) -> Option<String> {
    let mut parts: Vec<&str> = if path.starts_with('/') { Vec::new() } else { file.split('/').collect() };
    parts.pop();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// Every anchor of a document, as GitHub makes them from headings, and those written by hand.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    // Headings may contain code spans, so only whole blocks of code are left out here.
    let blanked = without_code(text);
    for (line, visible) in text.lines().zip(blanked.lines()) {
        for start in ["id=\"", "name=\""] {
            anchors.extend(visible.split(start).skip(1).filter_map(|rest| Some(rest.split_once('"')?.0.to_owned())));
        }
        let level = visible.chars().take_while(|c| *c == '#').count();
        if (1..=6).contains(&level) && visible[level..].starts_with([' ', '\t']) {
            let slug = slug(&line[level..]);
            let numbered = (1..).map(|n| format!("{slug}-{n}"));
            let free = std::iter::once(slug.clone()).chain(numbered).find(|slug| !anchors.contains(slug));
            anchors.extend(free);
        }
    }
    anchors
}

fn slug(heading: &str) -> String {
    // Of a link only its text is shown.
    let mut shown = String::new();
    let mut rest = heading;
    while let Some((before, after)) = rest.split_once("](") {
        shown.push_str(before);
        rest = after.split_once(')').map_or("", |(_, rest)| rest);
    }
    shown.push_str(rest);
    let kept = shown.trim().chars().filter(|c| c.is_alphanumeric() || matches!(c, '-' | '_' | ' '));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const README: &str = "# Start\n## What is it?\n## What is it?\n### The `sabactl` tool\n<a id=\"by-hand\"></a>\n";

    fn check(text: &str) -> Vec<String> {
        let exists = |path: &str| matches!(path, "README.md" | "docs/guides/a.md" | "docs" | "docs/img.png");
        let read = |path: &str| (path == "README.md").then_some(README);
        let findings = super::check("docs/guides/a.md", text, exists, read);
        findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn good_links_pass() {
        for text in [
            "[a](../../README.md) and [b](../img.png \"title\") and ![c](<../img.png>)",
            "[root](/README.md#what-is-it) [second](../../README.md#what-is-it-1) [dir](..)",
            "[code](../../README.md#the-sabactl-tool) [hand](../../README.md#by-hand)",
            "[web](https://example.com/x) [mail](mailto:a@example.com)",
            "# Here we are\n[self](#here-we-are)",
            "`[code](nowhere.md)`\n\n```text\n[code](nowhere.md)\n```\n~~~\n[x](no.md)\n~~~\n",
            "[ref]\n\n[ref]: ../../README.md\n[^1]: not a link\n",
            "``a ` [code](nowhere.md) ` b``",
        ] {
            assert_eq!(check(text), [""; 0], "{text}");
        }
    }

    #[test]
    fn broken_links_are_found() {
        for text in [
            "[a](nowhere.md)",
            "[a](../README.md)",
            "[a](../../../README.md)",
            "![a](missing.png)",
            "[a](../../README.md#nothing)",
            "[self](#nothing)",
            "[ref]: nowhere.md",
            "[`code`](nowhere.md)",
        ] {
            assert_eq!(check(text).len(), 1, "{text}");
        }
        let found = check("one\n```\n```\n[a](nowhere.md)");
        let advice = "link to `nowhere.md`: no such file; correct the path or remove the link";
        assert_eq!(found, [format!("docs/guides/a.md:4: links: {advice}")]);
    }

    #[test]
    fn code_is_blanked_and_lines_stay() {
        assert_eq!(without_code("a `b\nc` d\n```\ne\n```\nf"), "a \n d\n\n\n\nf");
        assert_eq!(without_code("one ` tick\n\nother ` tick"), "one  tick\n\nother  tick");
    }
}
