//! Bounds of a query before and after it is parsed. The parser and the validator call themselves for every bracket and follow every
//! fragment wherever it is used; whatever goes past here is small enough for both.

use std::collections::HashMap;

use async_graphql::{
    Name,
    parser::types::{ExecutableDocument, Selection, SelectionSet},
};

use crate::{
    limits::{QUERY_BYTES_MAX, QUERY_NESTING_MAX, QUERY_TOKENS_MAX, SELECTIONS_MAX},
    problem::Problem,
};

/// Refuses texts that are too long, have too many words, or nest too deep.
pub fn check_text(query: &str) -> Result<(), Problem> {
    if query.len() > QUERY_BYTES_MAX {
        return Err(Problem::new(format!("the query is longer than {QUERY_BYTES_MAX} bytes")));
    }
    let (mut tokens, mut nesting) = (0, 0usize);
    let mut rest = query.as_bytes();
    while let Some((token, behind)) = next_token(rest) {
        rest = behind;
        tokens += 1;
        match token {
            b'{' | b'[' | b'(' => nesting += 1,
            b'}' | b']' | b')' => nesting = nesting.saturating_sub(1),
            _ => {}
        }
        if tokens > QUERY_TOKENS_MAX {
            return Err(Problem::new(format!("the query has more than {QUERY_TOKENS_MAX} words and signs")));
        }
        if nesting > QUERY_NESTING_MAX {
            return Err(Problem::new(format!("the query is nested deeper than {QUERY_NESTING_MAX} brackets")));
        }
    }
    Ok(())
}

/// The first byte of the next token, and what follows the token. Comments and blanks are none. What is no GraphQL counts byte by
/// byte; the parser will say so.
fn next_token(mut rest: &[u8]) -> Option<(u8, &[u8])> {
    loop {
        match rest {
            [] => return None,
            [b' ' | b'\t' | b'\r' | b'\n' | b',', behind @ ..] => rest = behind,
            [b'#', ..] => rest = &rest[rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len())..],
            [b'"', b'"', b'"', behind @ ..] => return Some((b'"', after_block(behind))),
            [b'"', behind @ ..] => return Some((b'"', after_string(behind))),
            [first, ..] if is_word(*first) => {
                let end = rest.iter().position(|byte| !is_word(*byte)).unwrap_or(rest.len());
                return Some((*first, &rest[end..]));
            }
            [first, behind @ ..] => return Some((*first, behind)),
        }
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn after_string(mut rest: &[u8]) -> &[u8] {
    loop {
        match rest {
            [] => return rest,
            // A string ends with its line, whatever the line says.
            [b'"' | b'\n', behind @ ..] => return behind,
            [b'\\', _, behind @ ..] | [_, behind @ ..] => rest = behind,
        }
    }
}

fn after_block(mut rest: &[u8]) -> &[u8] {
    loop {
        match rest {
            [] => return rest,
            [b'"', b'"', b'"', behind @ ..] => return behind,
            [b'\\', b'"', b'"', b'"', behind @ ..] | [_, behind @ ..] => rest = behind,
        }
    }
}

/// Refuses fragments that use themselves, and documents that become too large when every fragment is put where it is used.
pub fn check_size(document: &ExecutableDocument) -> Result<(), Problem> {
    let mut sizes = Sizes { document, known: HashMap::new() };
    let mut total = 0usize;
    for (_, operation) in document.operations.iter() {
        total = total.saturating_add(sizes.of(&operation.node.selection_set.node)?);
    }
    // Also those nobody uses: the validator looks at them.
    for name in document.fragments.keys() {
        total = total.saturating_add(sizes.of_fragment(name)?);
    }
    if total > SELECTIONS_MAX {
        return Err(Problem::new(format!("the query selects more than {SELECTIONS_MAX} fields, fragments included")));
    }
    Ok(())
}

/// Sizes of fragments, each counted once.
struct Sizes<'a> {
    document: &'a ExecutableDocument,
    /// `None`: being counted.
    known: HashMap<&'a Name, Option<usize>>,
}

impl<'a> Sizes<'a> {
    fn of(&mut self, set: &'a SelectionSet) -> Result<usize, Problem> {
        let mut total = 0usize;
        for selection in &set.items {
            let inner = match &selection.node {
                Selection::Field(field) => self.of(&field.node.selection_set.node)?,
                Selection::InlineFragment(fragment) => self.of(&fragment.node.selection_set.node)?,
                Selection::FragmentSpread(spread) => self.of_fragment(&spread.node.fragment_name.node)?,
            };
            total = total.saturating_add(inner).saturating_add(1);
        }
        Ok(total)
    }

    fn of_fragment(&mut self, name: &'a Name) -> Result<usize, Problem> {
        match self.known.get(name) {
            Some(Some(size)) => return Ok(*size),
            Some(None) => return Err(Problem::new(format!("fragment \"{name}\" uses itself"))),
            None => {}
        }
        // The validator says what is missing.
        let Some(fragment) = self.document.fragments.get(name) else { return Ok(0) };
        self.known.insert(name, None);
        let size = self.of(&fragment.node.selection_set.node)?;
        self.known.insert(name, Some(size));
        Ok(size)
    }
}

#[cfg(test)]
mod tests {
    use async_graphql::parser::parse_query;

    use super::*;

    fn tokens(text: &str) -> String {
        let (mut rest, mut firsts) = (text.as_bytes(), String::new());
        while let Some((token, behind)) = next_token(rest) {
            firsts.push(char::from(token));
            rest = behind;
        }
        firsts
    }

    #[test]
    fn tokens_are_told_apart() {
        for (text, firsts) in [
            ("", ""),
            (" ,\n\t", ""),
            ("{ abc(d: 12) }", "{a(d:1)}"),
            ("# { ( [\n{a}", "{a}"),
            ("# no end", ""),
            (r#"{a(b: "} \" }")}"#, r#"{a(b:")}"#),
            (r#"{a(b: """ } " "" \""" { """)}"#, r#"{a(b:")}"#),
            (r#""no end"#, "\""),
            ("\"\n{", "\"{"),
            (r#""""no end"#, "\""),
            ("\"\\", "\""),
            ("...f @b", "...f@b"),
        ] {
            assert_eq!(tokens(text), firsts, "{text}");
        }
    }

    #[test]
    fn long_and_deep_texts_are_refused() {
        let check = |text: String, expected: Option<&str>| {
            let problem = check_text(&text).err().map(|problem| problem.message);
            assert_eq!(problem.as_deref(), expected, "{} bytes", text.len());
        };
        let nested = |depth: usize| format!("{}{}", "{a".repeat(depth), "}".repeat(depth));
        check(nested(QUERY_NESTING_MAX), None);
        check(nested(QUERY_NESTING_MAX + 1), Some("the query is nested deeper than 32 brackets"));
        check("[".repeat(QUERY_NESTING_MAX + 1), Some("the query is nested deeper than 32 brackets"));
        check("}".repeat(100), None);
        check("a ".repeat(QUERY_TOKENS_MAX), None);
        check("a ".repeat(QUERY_TOKENS_MAX + 1), Some("the query has more than 4096 words and signs"));
        check("#".repeat(QUERY_BYTES_MAX), None);
        check("#".repeat(QUERY_BYTES_MAX + 1), Some("the query is longer than 32768 bytes"));
        // Within a text they are no brackets.
        check(format!("{{a(b: \"{}\")}}", "(".repeat(100)), None);
    }

    #[test]
    fn fragments_are_counted_where_they_are_used() {
        let check = |text: &str, expected: Option<&str>| {
            let document = parse_query(text).expect(text);
            let problem = check_size(&document).err().map(|problem| problem.message);
            assert_eq!(problem.as_deref(), expected, "{text}");
        };
        check("{a{b ...on X{c}}}", None);
        check("{...missing}", None);
        check("{...a} fragment a on X {...a}", Some("fragment \"a\" uses itself"));
        let round = parse_query("{x} fragment a on X {y{...b}} fragment b on X {...on X{...a}}").expect("a query");
        assert!(check_size(&round).is_err_and(|problem| problem.message.ends_with("uses itself")));
        // Every step doubles; counting does not.
        let mut bomb = String::from("{...f0}");
        for n in 0..60 {
            bomb.push_str(&format!(" fragment f{n} on X {{...f{m} ...f{m}}}", m = n + 1));
        }
        bomb.push_str(" fragment f60 on X {a}");
        check(&bomb, Some("the query selects more than 1000 fields, fragments included"));
        check(&format!("{{{}}}", "a ".repeat(SELECTIONS_MAX)), None);
        check(
            &format!("{{{}}}", "a ".repeat(SELECTIONS_MAX + 1)),
            Some("the query selects more than 1000 fields, fragments included"),
        );
    }
}
