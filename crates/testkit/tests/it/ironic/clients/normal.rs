//! Takes out of a text what is another in every run: identifiers that a server made up, times, requests, addresses, and the widths of
//! tables, which follow from them. And what is another in every server: its notes to itself.

use serde_json::Value;

/// A text without what changes. `chosen` are the identifiers that clients chose, which must come back as they are.
pub fn text(text: &str, chosen: &dyn Fn(&str) -> bool) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut inside: Option<String> = None;
    for line in text.lines() {
        // What a server notes for itself is nobody's business, and so is what another notes.
        if let Some(end) = &inside {
            inside = (!line.starts_with(end.as_str())).then(|| end.clone());
            continue;
        }
        if let Some((indent, rest)) = line.split_once(INTERNAL) {
            inside = rest.ends_with('{').then(|| format!("{indent}}}"));
            lines.push(format!("{indent}{INTERNAL}<internal>"));
            continue;
        }
        let line = row(&words(line, chosen));
        lines.push(if line.starts_with(INTERNAL_ROW) { format!("{INTERNAL_ROW} <internal> |") } else { line });
    }
    lines.join("\n")
}

const INTERNAL: &str = "\"driver_internal_info\": ";

const INTERNAL_ROW: &str = "| driver_internal_info |";

/// An answer as lines, without what changes. The text inside a refusal is JSON of its own and shown as such.
pub fn json(value: &Value, chosen: &dyn Fn(&str) -> bool) -> String {
    let inner = value["error_message"].as_str().and_then(|inner| serde_json::from_str(inner).ok());
    let shown = inner.unwrap_or_else(|| value.clone());
    let lines = serde_json::to_string_pretty(&shown).expect("JSON can be written");
    if shown.is_null() { String::new() } else { text(&lines, chosen) }
}

fn words(line: &str, chosen: &dyn Fn(&str) -> bool) -> String {
    let mut found = String::new();
    let mut rest = line;
    while let Some(first) = rest.chars().next() {
        let fresh = !found.ends_with(|last: char| last.is_ascii_alphanumeric());
        let (shown, taken) = match () {
            () if fresh && rest.starts_with("req-") && is_uuid(&rest[4..]) => ("<request>", 40),
            () if fresh && is_uuid(rest) => (if chosen(&rest[..36]) { &rest[..36] } else { "<uuid>" }, 36),
            () if fresh && time_at(rest) > 0 => ("<time>", time_at(rest)),
            () if fresh && address_at(rest) > 0 => ("<server>", address_at(rest)),
            () => (&rest[..first.len_utf8()], first.len_utf8()),
        };
        found.push_str(shown);
        rest = &rest[taken..];
    }
    found
}

/// Whether a text begins with one.
fn is_uuid(text: &str) -> bool {
    let bytes = text.as_bytes();
    let hyphens = [8, 13, 18, 23];
    bytes.len() >= 36
        && bytes[..36].iter().enumerate().all(|(at, byte)| match hyphens.contains(&at) {
            true => *byte == b'-',
            false => byte.is_ascii_digit() || (b'a'..=b'f').contains(byte),
        })
}

/// The length of a time at the beginning: `2026-11-15T19:41:56.275221+00:00`, with or without the fraction.
fn time_at(text: &str) -> usize {
    let like = |pattern: &str, text: &str| {
        text.len() >= pattern.len()
            && pattern.bytes().zip(text.bytes()).all(|(shape, byte)| match shape {
                b'0' => byte.is_ascii_digit(),
                other => byte == other,
            })
    };
    if !like("0000-00-00T00:00:00", text) {
        return 0;
    }
    let fraction = text[19..].strip_prefix('.').map_or(0, |rest| {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        1 + digits
    });
    if text[19 + fraction..].starts_with("+00:00") { 19 + fraction + 6 } else { 0 }
}

/// The length of a server's address at the beginning.
fn address_at(text: &str) -> usize {
    ["http://127.0.0.1:", "http://test"]
        .iter()
        .find_map(|known| text.strip_prefix(known).map(|rest| (known, rest)))
        .map_or(0, |(known, rest)| known.len() + rest.bytes().take_while(u8::is_ascii_digit).count())
}

/// A line of a table without its padding.
fn row(line: &str) -> String {
    let is_rule = line.starts_with("+-") && line.bytes().all(|byte| byte == b'+' || byte == b'-');
    if is_rule {
        return "+".repeat(line.matches('+').count());
    }
    if !line.starts_with('|') {
        return line.trim_end().to_owned();
    }
    line.split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

#[test]
fn what_changes_is_taken_out() {
    let chosen = |id: &str| id.starts_with("11111111-");
    let check = |given: &str, expected: &str| assert_eq!(text(given, &chosen), expected, "{given}");
    check("node 11111111-0005-4000-8000-000000000001", "node 11111111-0005-4000-8000-000000000001");
    check("node 3a077950-8555-4738-b694-d673d3a98c5d.", "node <uuid>.");
    check("(Request-ID: req-952d76f3-ba1e-42d7-b2c2-98f55c9b1d0a)", "(Request-ID: <request>)");
    check("at 2026-11-15T19:53:16.162223+00:00, 2026-11-15T19:53:16+00:00", "at <time>, <time>");
    check("at 2026-11-15T19:53:16Z", "at 2026-11-15T19:53:16Z");
    check("http://127.0.0.1:6385/v1/nodes, http://192.0.2.1/img", "<server>/v1/nodes, http://192.0.2.1/img");
    check("+------+---+\n| a    | b |\n+------+---+", "+++\n| a | b |\n+++");
    check("two  words", "two  words");
    let internal = "{\n  \"driver_internal_info\": {\n    \"a\": {\n    }\n  },\n  \"extra\": {}\n}";
    check(internal, "{\n  \"driver_internal_info\": <internal>\n  \"extra\": {}\n}");
    check("  \"driver_internal_info\": {},\n}", "  \"driver_internal_info\": <internal>\n}");
    check("| driver_internal_info | {'a':  1} |", "| driver_internal_info | <internal> |");
}
