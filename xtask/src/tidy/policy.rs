//! Reads the lists we need out of `deny.toml`, the file that `cargo deny` reads too.
//!
//! It understands the part of TOML which that file uses: sections, strings, booleans, numbers, arrays and inline
//! tables. Anything else is an error rather than a guess: a ban that is silently not read is worse than none.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, anyhow, bail};

/// What may enter the dependency graph.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Policy {
    pub licences: BTreeSet<String>,
    pub bans: Vec<Ban>,
    /// As packages name them, with the prefix `registry+`.
    pub registries: BTreeSet<String>,
}

#[derive(Debug, PartialEq, Eq)]
pub struct Ban {
    pub package: String,
    pub reason: String,
    /// The only packages that may depend on it. Empty: it must not be in the graph at all.
    pub wrappers: BTreeSet<String>,
}

#[derive(Debug, PartialEq, Eq)]
enum Value {
    Text(String),
    /// A boolean or a number; we need none of them, but have to read past them.
    Bare,
    List(Vec<Value>),
    Table(BTreeMap<String, Value>),
}

pub fn read(text: &str) -> Result<Policy> {
    let keys = parse(text)?;
    let list = |key: &str| match keys.get(key) {
        Some(Value::List(values)) => Ok(values.as_slice()),
        _ => Err(anyhow!("`{key}` is missing or is not a list")),
    };
    let registries = texts(list("sources.allow-registry")?)?;
    Ok(Policy {
        licences: texts(list("licenses.allow")?)?,
        bans: list("bans.deny")?.iter().map(ban).collect::<Result<_>>()?,
        registries: registries.iter().map(|address| format!("registry+{address}")).collect(),
    })
}

fn texts(values: &[Value]) -> Result<BTreeSet<String>> {
    let text = |value: &Value| match value {
        Value::Text(text) => Ok(text.clone()),
        other => Err(anyhow!("expected a string, got {other:?}")),
    };
    values.iter().map(text).collect()
}

fn ban(value: &Value) -> Result<Ban> {
    let (package, reason, wrappers) = match value {
        Value::Text(package) => (package, "", BTreeSet::new()),
        Value::Table(table) => {
            let text = |key: &str| match table.get(key) {
                Some(Value::Text(text)) => Some(text),
                _ => None,
            };
            let wrappers = match table.get("wrappers") {
                Some(Value::List(values)) => texts(values)?,
                _ => BTreeSet::new(),
            };
            let package = text("crate").or(text("name")).context("an entry of bans.deny names no `crate`")?;
            (package, text("reason").map_or("", String::as_str), wrappers)
        }
        other => bail!("an entry of bans.deny is neither a string nor a table: {other:?}"),
    };
    if package.contains(['@', ':', '*', '=', '<']) {
        bail!("bans.deny: `{package}` is more than a name, which tidy does not understand");
    }
    Ok(Ban { package: package.clone(), reason: reason.to_owned(), wrappers })
}

/// All keys with their sections, as in `licenses.allow`.
fn parse(text: &str) -> Result<BTreeMap<String, Value>> {
    let mut keys = BTreeMap::new();
    let mut reader = Reader { rest: text };
    let mut section = String::new();
    loop {
        reader.skip_blank();
        if reader.rest.is_empty() {
            return Ok(keys);
        }
        let line = text[..text.len() - reader.rest.len()].lines().count() + 1;
        let entry = reader.entry(&mut section).with_context(|| format!("near line {line}"))?;
        if let Some((key, value)) = entry
            && keys.insert(key.clone(), value).is_some()
        {
            bail!("`{key}` stands there twice");
        }
    }
}

struct Reader<'a> {
    rest: &'a str,
}

impl<'a> Reader<'a> {
    fn skip_blank(&mut self) {
        loop {
            self.rest = self.rest.trim_start();
            match self.rest.strip_prefix('#') {
                Some(comment) => self.rest = comment.find('\n').map_or("", |end| &comment[end..]),
                None => return,
            }
        }
    }

    fn accept(&mut self, c: char) -> bool {
        self.skip_blank();
        let after = self.rest.strip_prefix(c);
        self.rest = after.unwrap_or(self.rest);
        after.is_some()
    }

    fn expect(&mut self, c: char) -> Result<()> {
        if self.accept(c) { Ok(()) } else { bail!("expected `{c}` before `{}`", self.glimpse()) }
    }

    fn glimpse(&self) -> &'a str {
        self.rest.lines().next().unwrap_or_default()
    }

    /// A section header, which changes `section`, or a key with its value.
    fn entry(&mut self, section: &mut String) -> Result<Option<(String, Value)>> {
        if self.rest.starts_with("[[") {
            bail!("tables of the form `[[...]]` are not read; write them inline");
        }
        if self.accept('[') {
            let (name, rest) = self.rest.split_once(']').context("a section has no end")?;
            *section = format!("{}.", name.trim());
            self.rest = rest;
            return Ok(None);
        }
        let (key, value) = self.pair()?;
        Ok(Some((format!("{section}{key}"), value)))
    }

    fn pair(&mut self) -> Result<(String, Value)> {
        let key = self.word();
        if key.is_empty() {
            bail!("expected a key before `{}`", self.glimpse());
        }
        self.expect('=')?;
        Ok((key.to_owned(), self.value()?))
    }

    fn word(&mut self) -> &'a str {
        self.skip_blank();
        let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '+');
        let end = self.rest.find(|c| !is_word(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word
    }

    fn value(&mut self) -> Result<Value> {
        if self.accept('"') {
            let (text, rest) = self.rest.split_once('"').context("a string has no end")?;
            if text.contains(['\\', '\n']) {
                bail!("strings with escapes are not read: `{text}`");
            }
            self.rest = rest;
            return Ok(Value::Text(text.to_owned()));
        }
        if self.accept('[') {
            let mut values = Vec::new();
            while !self.accept(']') {
                values.push(self.value()?);
                if !self.accept(',') {
                    self.expect(']')?;
                    break;
                }
            }
            return Ok(Value::List(values));
        }
        if self.accept('{') {
            let mut table = BTreeMap::new();
            while !self.accept('}') {
                let (key, value) = self.pair()?;
                table.insert(key, value);
                if !self.accept(',') {
                    self.expect('}')?;
                    break;
                }
            }
            return Ok(Value::Table(table));
        }
        match self.word() {
            "" => bail!("expected a value before `{}`", self.glimpse()),
            _ => Ok(Value::Bare),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = r#"
[graph]
all-features = true # everything

[licenses]
allow = [
    "MIT", # a comment with ] and "
    "Apache-2.0 WITH LLVM-exception",
]
confidence-threshold = 0.9

[bans]
deny = [
    "plain",
    { crate = "old", wrappers = [
        "user",
    ], reason = "use # std" },
]

[sources]
allow-registry = ["https://example.com/index"]
"#;

    fn set(texts: &[&str]) -> BTreeSet<String> {
        texts.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn lists_are_read() {
        let ban = |package: &str, reason: &str, wrappers: &[&str]| Ban {
            package: package.to_owned(),
            reason: reason.to_owned(),
            wrappers: set(wrappers),
        };
        let expected = Policy {
            licences: set(&["MIT", "Apache-2.0 WITH LLVM-exception"]),
            bans: vec![ban("plain", "", &[]), ban("old", "use # std", &["user"])],
            registries: set(&["registry+https://example.com/index"]),
        };
        assert_eq!(read(SMALL).unwrap(), expected);
    }

    #[test]
    fn what_is_not_understood_is_an_error() {
        for (from, to) in [
            ("allow = [", "allow = "),
            ("\"MIT\",", "\"MIT\" \"ISC\","),
            ("\"plain\"", "\"plain@1.0\""),
            ("crate = \"old\"", "spec = \"old\""),
            ("[sources]", "[source]"),
            ("[sources]", "[[sources]]"),
            ("\"MIT\"", "\"M\\u0049T\""),
            ("all-features = true", "all-features"),
            ("confidence-threshold = 0.9", "allow = []"),
        ] {
            assert!(SMALL.contains(from));
            assert!(read(&SMALL.replacen(from, to, 1)).is_err(), "{from} -> {to}");
        }
    }

    #[test]
    fn our_own_file_is_understood() {
        let policy = read(include_str!("../../../deny.toml")).unwrap();
        assert!(policy.licences.contains("MIT") && policy.licences.contains("Apache-2.0 WITH LLVM-exception"));
        assert!(!policy.licences.iter().any(|licence| licence.contains("GPL") || licence.starts_with("MPL")));
        for package in ["openssl-sys", "native-tls", "aws-lc-sys", "aws-lc-rs", "serde_yaml", "tokio-tar", "chrono"] {
            let ban = policy.bans.iter().find(|ban| ban.package == package).expect(package);
            assert!(ban.wrappers.is_empty() && !ban.reason.is_empty(), "{package}");
        }
        assert_eq!(policy.registries.len(), 1);
    }
}
