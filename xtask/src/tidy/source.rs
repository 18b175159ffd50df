//! Reads Rust text just well enough for the rules: which bytes are code, comment or literal, where functions begin and
//! end, and which lines exist only for tests. It is not a parser, and refuses to become one; a rule that needs types
//! belongs into clippy.

/// One Rust file, split by kind. Both texts have the lines of the original; what does not belong is blank.
pub struct RustText {
    pub code: String,
    pub comments: String,
    test_lines: Vec<bool>,
}

/// A function with a body.
#[derive(Debug, PartialEq, Eq)]
pub struct Function {
    pub name: String,
    /// Where `fn` stands; the first line of a file is 1.
    pub line: usize,
    /// From the line of `fn` to that of the closing brace, both included.
    pub lines: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Code,
    Comment,
    Literal,
}

impl RustText {
    pub fn new(text: &str) -> Self {
        let classes = classify(text.as_bytes());
        let code = keep(text, &classes, Class::Code);
        let comments = keep(text, &classes, Class::Comment);
        let test_lines = test_lines(&code);
        Self { code, comments, test_lines }
    }

    /// Whether this line, counted from 1, is compiled for tests only.
    pub fn is_test(&self, line: usize) -> bool {
        self.test_lines.get(line - 1).copied().unwrap_or(false)
    }

    /// Lines of code with their numbers.
    pub fn code_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.code.lines())
    }

    pub fn functions(&self) -> Vec<Function> {
        let bytes = self.code.as_bytes();
        let mut functions = Vec::new();
        for at in words(&self.code, "fn") {
            let rest = self.code[at + 2..].trim_start();
            let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            let end = item_end(bytes, at);
            // No name: a function pointer type. No brace: a declaration in a trait.
            if name.is_empty() || bytes.get(end) != Some(&b'}') {
                continue;
            }
            let line = line_of(&self.code, at);
            functions.push(Function { name, line, lines: line_of(&self.code, end) - line + 1 });
        }
        functions
    }

    /// Names of modules in other files that are declared for tests only: `#[cfg(test)] mod name;`.
    pub fn test_modules(&self) -> Vec<String> {
        let declared = words(&self.code, "mod").into_iter().filter_map(|at| {
            let (name, _) = self.code[at + 3..].split_once(';')?;
            let name = name.trim();
            let plain = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_');
            (plain && self.is_test(line_of(&self.code, at))).then(|| name.to_owned())
        });
        declared.collect()
    }
}

/// Offsets at which `word` stands as a whole word.
pub fn words(text: &str, word: &str) -> Vec<usize> {
    let bytes = text.as_bytes();
    let outside = |at: Option<usize>| !at.and_then(|at| bytes.get(at)).is_some_and(|b| is_identifier(*b));
    let found = text.match_indices(word).map(|(at, _)| at);
    found.filter(|at| outside(at.checked_sub(1)) && outside(Some(at + word.len()))).collect()
}

/// The number of the line, from 1, in which this offset lies.
pub fn line_of(text: &str, offset: usize) -> usize {
    text.as_bytes()[..offset].iter().filter(|b| **b == b'\n').count() + 1
}

fn keep(text: &str, classes: &[Class], wanted: Class) -> String {
    let kept = text.bytes().zip(classes).map(|(b, class)| if *class == wanted || b == b'\n' { b } else { b' ' });
    String::from_utf8(kept.collect()).expect("classes change only between whole characters")
}

fn classify(bytes: &[u8]) -> Vec<Class> {
    let mut classes = vec![Class::Code; bytes.len()];
    let mut at = 0;
    while at < bytes.len() {
        let (class, length) = token(&bytes[at..]);
        let end = (at + length).min(bytes.len());
        classes[at..end].fill(class);
        at = end;
    }
    classes
}

/// Class and length of what begins here.
fn token(rest: &[u8]) -> (Class, usize) {
    match rest[0] {
        b'/' if rest.starts_with(b"//") => {
            (Class::Comment, rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len()))
        }
        b'/' if rest.starts_with(b"/*") => (Class::Comment, block_comment_length(rest)),
        b'"' => (Class::Literal, string_length(rest)),
        b'\'' => character_length(rest).map_or((Class::Code, 1), |length| (Class::Literal, length)),
        b if is_identifier(b) => {
            let length = rest.iter().position(|b| !is_identifier(*b)).unwrap_or(rest.len());
            let raw = matches!(&rest[..length], b"r" | b"br" | b"cr").then(|| raw_string_length(&rest[length..]));
            match raw.flatten() {
                Some(string) => (Class::Literal, length + string),
                None => (Class::Code, length),
            }
        }
        _ => (Class::Code, 1),
    }
}

/// Bytes of characters beyond ASCII count, which keeps them together.
fn is_identifier(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

fn block_comment_length(rest: &[u8]) -> usize {
    let (mut at, mut depth) = (0, 0);
    while at < rest.len() {
        if rest[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    rest.len()
}

fn string_length(rest: &[u8]) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// After the `r` of a raw string: hashes, quote, content, quote, as many hashes. Nothing for a raw identifier.
fn raw_string_length(rest: &[u8]) -> Option<usize> {
    let hashes = rest.iter().take_while(|b| **b == b'#').count();
    if rest.get(hashes) != Some(&b'"') {
        return None;
    }
    let mut end = vec![b'"'];
    end.resize(hashes + 1, b'#');
    let content = &rest[hashes + 1..];
    let found = content.windows(end.len()).position(|window| window == end);
    Some(found.map_or(rest.len(), |at| hashes + 1 + at + end.len()))
}

/// Nothing for a lifetime.
fn character_length(rest: &[u8]) -> Option<usize> {
    let first = *rest.get(1)?;
    if first == b'\\' {
        // The byte after the backslash may itself be a quote.
        return rest.iter().skip(3).position(|b| *b == b'\'').map(|at| at + 4);
    }
    let width = match first {
        0..=0x7f => 1,
        0x80..=0xdf => 2,
        0xe0..=0xef => 3,
        _ => 4,
    };
    (rest.get(1 + width) == Some(&b'\'')).then_some(width + 2)
}

/// Where the item at `from` ends: its closing brace, its semicolon, or the end of what surrounds it.
fn item_end(code: &[u8], from: usize) -> usize {
    let mut nesting = 0i32;
    let mut at = from;
    while at < code.len() {
        match code[at] {
            b'(' | b'[' => nesting += 1,
            b')' | b']' => nesting -= 1,
            b'{' if nesting == 0 => break,
            b';' if nesting == 0 => return at,
            _ => {}
        }
        if nesting < 0 || (nesting == 0 && code[at] == b'}') {
            return at.saturating_sub(1);
        }
        at += 1;
    }
    let mut braces = 0;
    for (at, byte) in code.iter().enumerate().skip(at) {
        match byte {
            b'{' => braces += 1,
            b'}' => braces -= 1,
            _ => {}
        }
        if braces == 0 {
            return at;
        }
    }
    code.len().saturating_sub(1)
}

fn test_lines(code: &str) -> Vec<bool> {
    let mut lines = vec![false; code.lines().count()];
    for (at, start) in code.match_indices("#[").chain(code.match_indices("#![")) {
        let open = at + start.len() - 1;
        let Some(close) = matching_bracket(code.as_bytes(), open) else { continue };
        if !is_test_attribute(&code[open + 1..close]) {
            continue;
        }
        let range = if start == "#![" {
            0..lines.len()
        } else {
            line_of(code, at) - 1..line_of(code, item_after_attributes(code.as_bytes(), close + 1))
        };
        lines[range].fill(true);
    }
    lines
}

fn item_after_attributes(code: &[u8], mut at: usize) -> usize {
    loop {
        at += code[at..].iter().take_while(|b| b.is_ascii_whitespace()).count();
        if !code[at..].starts_with(b"#[") {
            return item_end(code, at);
        }
        match matching_bracket(code, at + 1) {
            Some(close) => at = close + 1,
            None => return item_end(code, at),
        }
    }
}

fn matching_bracket(code: &[u8], open: usize) -> Option<usize> {
    let mut depth = 0;
    for (at, byte) in code.iter().enumerate().skip(open) {
        match byte {
            b'[' => depth += 1,
            b']' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

fn is_test_attribute(attribute: &str) -> bool {
    let text: String = attribute.split_whitespace().collect();
    let path = text.split('(').next().unwrap_or_default();
    text == "cfg(test)" || text.starts_with("cfg(all(test,") || path == "test" || path.ends_with("::test")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> String {
        RustText::new(text).code.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    fn comments(text: &str) -> String {
        RustText::new(text).comments.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn comments_and_literals_are_not_code() {
        for (text, expected) in [
            ("a(); // b()", "a();"),
            ("a(); /* b /* c */ d */ e();", "a(); e();"),
            (r#"a("b \" // c"); d();"#, "a( ); d();"),
            ("a(r#\"b \" } \"#); c();", "a( ); c();"),
            ("a(br\"\\\"); c();", "a( ); c();"),
            ("a('{', '\\'', '\\u{7d}', 'ß', b'}'); c();", "a( , , , , b ); c();"),
            ("fn f<'a>(x: &'a str, y: &'a str) {}", "fn f<'a>(x: &'a str, y: &'a str) {}"),
            ("let r#fn = 1; let bar = \"}\";", "let r#fn = 1; let bar = ;"),
        ] {
            assert_eq!(code(text), expected, "{text}");
        }
    }

    #[test]
    fn comments_are_kept_apart() {
        assert_eq!(comments("let x = \"// no\"; // yes"), "// yes");
        assert_eq!(comments("/* one\ntwo */ three"), "/* one two */");
    }

    #[test]
    fn lines_stay_where_they_were() {
        let text = "a();\n/*\n*/\nlet s = \"\n\n\"; b();\n";
        let rust = RustText::new(text);
        assert_eq!(rust.code.lines().count(), 6);
        assert!(rust.code.lines().nth(5).unwrap().contains("b();"));
    }

    #[test]
    fn functions_have_names_and_lengths() {
        let text = "trait T {\n    fn declared(&self);\n}\nfn one() {}\nfn two<T>(\n    x: [u8; 4],\n) -> fn(u8) -> u8\nwhere\n    T: Copy,\n{\n    if x { \"}\" }\n}\n";
        let function = |name: &str, line, lines| Function { name: name.to_owned(), line, lines };
        assert_eq!(RustText::new(text).functions(), [function("one", 4, 1), function("two", 5, 8)]);
    }

    #[test]
    fn test_items_are_found() {
        let text = "fn a() {\n}\n#[cfg(test)]\n#[allow(x)]\nmod tests {\n    fn b() {}\n}\nfn c() {}\n#[tokio::test(flavor = \"x\")]\nasync fn d() {\n}\nfn e() {}\n";
        let rust = RustText::new(text);
        let tests: Vec<usize> = (1..=12).filter(|line| rust.is_test(*line)).collect();
        assert_eq!(tests, [3, 4, 5, 6, 7, 9, 10, 11]);
        assert!(RustText::new("#![cfg(test)]\nfn a() {}\n").is_test(2));
        assert!(!RustText::new("#[cfg(not(test))]\nfn a() {}\n").is_test(2));
        assert!(!RustText::new("#[cfg(feature = \"test\")]\nfn a() {}\n").is_test(2));
    }

    #[test]
    fn modules_for_tests_are_found() {
        let text = "mod a;\n#[cfg(test)]\nmod b;\n#[cfg(test)]\nmod c { }\n";
        assert_eq!(RustText::new(text).test_modules(), ["b"]);
    }

    #[test]
    fn unfinished_text_does_not_panic() {
        for text in ["", "\"", "'", "'\\", "/*", "r#\"", "#[", "#[cfg(test)]", "fn f(", "fn f() {", "mod", "b'"] {
            let rust = RustText::new(text);
            rust.functions();
            rust.test_modules();
        }
    }
}
