//! Bounds of a query before and after it is parsed. The parser and the validator call themselves for every bracket and follow every
//! fragment wherever it is used; whatever goes past here is small enough for both.
//!
//! Nesting is bounded twice, because reading words and signs here can never be proven to agree with the parser, and a disagreement
//! would end the process: once as the language reads brackets, and once by how many brackets there are at all, wherever they stand.

use std::collections::HashMap;

use async_graphql::{
    Name,
    parser::types::{ExecutableDocument, Selection, SelectionSet},
};

use crate::{
    limits::{QUERY_BRACKETS_MAX, QUERY_BYTES_MAX, QUERY_NESTING_MAX, QUERY_TOKENS_MAX, SELECTIONS_MAX},
    problem::Problem,
};

/// Refuses texts that are too long, have too many words, or nest too deep.
pub fn check_text(query: &str) -> Result<(), Problem> {
    if query.len() > QUERY_BYTES_MAX {
        return Err(Problem::new(format!("the query is longer than {QUERY_BYTES_MAX} bytes")));
    }
    // Nothing is nested deeper than there are brackets, also for a parser that takes a comment for something else.
    if query.bytes().filter(|byte| opens(*byte)).count() > QUERY_BRACKETS_MAX {
        return Err(Problem::new(format!("the query opens more than {QUERY_BRACKETS_MAX} brackets")));
    }
    let (mut tokens, mut nesting) = (0, 0usize);
    let mut rest = query.as_bytes();
    while let Some((token, behind)) = next_token(rest)? {
        rest = behind;
        tokens += 1;
        match token {
            token if opens(token) => nesting += 1,
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

fn opens(byte: u8) -> bool {
    matches!(byte, b'{' | b'[' | b'(')
}

/// A text without an end. The parser would start over and read its beginning as something shorter, so that what follows is no text.
struct Unclosed;

impl From<Unclosed> for Problem {
    fn from(_: Unclosed) -> Problem {
        Problem::new("a text in the query is not closed")
    }
}

/// The first byte of the next token, and what follows the token. Comments and blanks are none. What is no GraphQL counts byte by
/// byte; the parser will say so.
fn next_token(mut rest: &[u8]) -> Result<Option<(u8, &[u8])>, Unclosed> {
    loop {
        match rest {
            [] => return Ok(None),
            [b' ' | b'\t' | b'\r' | b'\n' | b',', behind @ ..] => rest = behind,
            [b'#', ..] => rest = &rest[rest.iter().position(|byte| ends_line(*byte)).unwrap_or(rest.len())..],
            [b'"', b'"', b'"', behind @ ..] => return Ok(Some((b'"', after_block(behind)?))),
            [b'"', behind @ ..] => return Ok(Some((b'"', after_string(behind)?))),
            [first, ..] if is_word(*first) => {
                let end = rest.iter().position(|byte| !is_word(*byte)).unwrap_or(rest.len());
                return Ok(Some((*first, &rest[end..])));
            }
            [first, behind @ ..] => return Ok(Some((*first, behind))),
        }
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Either one does, not only both together.
fn ends_line(byte: u8) -> bool {
    matches!(byte, b'\r' | b'\n')
}

fn after_string(mut rest: &[u8]) -> Result<&[u8], Unclosed> {
    loop {
        match rest {
            [b'"', behind @ ..] => return Ok(behind),
            // A text ends on its line, whatever the line says.
            [] => return Err(Unclosed),
            [first, ..] if ends_line(*first) => return Err(Unclosed),
            [b'\\', escaped, behind @ ..] if !ends_line(*escaped) => rest = behind,
            [_, behind @ ..] => rest = behind,
        }
    }
}

fn after_block(mut rest: &[u8]) -> Result<&[u8], Unclosed> {
    loop {
        match rest {
            [] => return Err(Unclosed),
            [b'"', b'"', b'"', behind @ ..] => return Ok(behind),
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
    use async_graphql_value::Value;
    use proptest::prelude::*;

    use super::*;

    /// The first bytes of all tokens; `!`: a text is not closed.
    fn tokens(text: &str) -> String {
        let (mut rest, mut firsts) = (text.as_bytes(), String::new());
        loop {
            match next_token(rest) {
                Ok(Some((token, behind))) => {
                    firsts.push(char::from(token));
                    rest = behind;
                }
                Ok(None) => return firsts,
                Err(Unclosed) => return firsts + "!",
            }
        }
    }

    #[test]
    fn tokens_are_told_apart() {
        for (text, firsts) in [
            ("", ""),
            (" ,\n\t", ""),
            ("{ abc(d: 12) }", "{a(d:1)}"),
            ("# { ( [\n{a}", "{a}"),
            ("# { ( [\r{a}", "{a}"),
            ("# no end", ""),
            (r#"{a(b: "} \" }")}"#, r#"{a(b:")}"#),
            (r#"{a(b: """ } " "" \""" { """)}"#, r#"{a(b:")}"#),
            (r#"{a(b: "" "")}"#, r#"{a(b:"")}"#),
            ("\"\"\"\r\n\"\"\"{", "\"{"),
            (r#"{"no end"#, "{!"),
            ("{\"\n\"", "{!"),
            ("{\"\r\"", "{!"),
            ("{\"\\\n\"", "{!"),
            (r#"{"""no end""#, "{!"),
            (r#"{"""" "#, "{!"),
            ("{\"\\", "{!"),
            ("...f @b", "...f@b"),
        ] {
            assert_eq!(tokens(text), firsts, "{text}");
        }
    }

    /// Texts that once looked shallow here and deep to the parser, which then ran out of stack.
    #[test]
    fn brackets_cannot_hide_in_what_looks_like_a_comment_or_a_text() {
        let brackets = format!("{}1{}", "[".repeat(2_000), "]".repeat(2_000));
        let short = format!("{}1{}", "[".repeat(100), "]".repeat(100));
        for (before, after, expected) in [
            ("{a(b:\n#\r", "\n)}", "the query is nested deeper than 32 brackets"),
            ("{a(b:[\"\"\"\" ", "])}", "a text in the query is not closed"),
            ("{a(b:\"\r", "\n)}", "a text in the query is not closed"),
        ] {
            let refused = |text: String| check_text(&text).expect_err("refused").message;
            assert_eq!(refused(format!("{before}{brackets}{after}")), "the query opens more than 1024 brackets");
            assert_eq!(refused(format!("{before}{short}{after}")), expected);
        }
    }

    /// Whatever this module takes a text for: the parser has the stack for as many brackets as pass, on a thread of the server.
    #[test]
    fn the_parser_has_the_stack_for_every_bracket_that_passes() {
        let deep = |open: &str, close: &str| {
            let count = (QUERY_BRACKETS_MAX - 8) / open.matches(|c: char| c.is_ascii() && opens(c as u8)).count();
            format!("{}1{}", open.repeat(count), close.repeat(count))
        };
        let texts = [
            format!("{{a(b:{})}}", deep("[", "]")),
            format!("{{a(b:{})}}", deep("{a:", "}")),
            format!("{{a(b:{})}}", deep("[{a:", "}]")),
            format!("query($a: T = {}) {{a}}", deep("[", "]")),
            deep("{a", "}").replacen('1', "", 1),
            deep("{...on X", "}").replacen('1', "a", 1),
            format!("query($a: {}) {{a}}", deep("[", "]").replacen('1', "T", 1)),
        ];
        let parsing = std::thread::Builder::new().stack_size(2 * 1024 * 1024).spawn(move || {
            for text in texts {
                // Dropping what was parsed, counting it and showing it call themselves as deep.
                if let Ok(document) = parse_query(&text) {
                    assert!(check_size(&document).is_ok(), "{text}");
                }
            }
        });
        parsing.expect("a thread").join().expect("enough stack");
    }

    fn depth_of_value(value: &Value) -> usize {
        match value {
            Value::List(list) => 1 + list.iter().map(depth_of_value).max().unwrap_or(0),
            Value::Object(fields) => 1 + fields.values().map(depth_of_value).max().unwrap_or(0),
            _ => 0,
        }
    }

    fn depth_of(set: &SelectionSet) -> usize {
        let inner = set.items.iter().map(|selection| match &selection.node {
            Selection::Field(field) => {
                let values = field.node.arguments.iter().map(|(_, value)| 1 + depth_of_value(&value.node));
                values.max().unwrap_or(0).max(depth_of(&field.node.selection_set.node))
            }
            Selection::InlineFragment(fragment) => depth_of(&fragment.node.selection_set.node),
            Selection::FragmentSpread(_) => 0,
        });
        if set.items.is_empty() { 0 } else { 1 + inner.max().unwrap_or(0) }
    }

    proptest! {
        /// Pieces of which comments, texts and brackets are made, in every order: what passes is as shallow as it was said to be.
        #[test]
        fn what_passes_and_parses_is_shallow(pieces in prop::collection::vec(prop::sample::select(vec![
            "#", "\r", "\n", "\r\n", "\"", "\"\"", "\"\"\"", "\\", "\\\"\"\"", "\u{feff}", " ", "a", "1", "u12", "[1]", "{a:1}",
            "[[[[[[[[[1]]]]]]]]]", "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]",
        ]), 0..12)) {
            let text = format!("{{a(b:[{}])}}", pieces.concat());
            if check_text(&text).is_ok() && let Ok(document) = parse_query(&text) {
                for (_, operation) in document.operations.iter() {
                    prop_assert!(depth_of(&operation.node.selection_set.node) <= QUERY_NESTING_MAX, "{text:?}");
                }
            }
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
