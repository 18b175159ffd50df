//! Licence expressions of packages, such as `(MIT OR Apache-2.0) AND Unicode-3.0`.

use std::collections::BTreeSet;

/// Whether the expression can be met with allowed licences only. `Err` says why the expression makes no sense.
///
/// A licence `WITH` an exception is another licence: it has to be allowed under that whole name.
pub fn is_satisfied(expression: &str, allowed: &BTreeSet<String>) -> Result<bool, String> {
    let tokens = tokens(expression);
    let mut parser = Parser { rest: &tokens, allowed };
    let satisfied = parser.alternatives()?;
    match parser.rest.first() {
        None => Ok(satisfied),
        Some(token) => Err(format!("`{token}` is not expected there")),
    }
}

fn tokens(expression: &str) -> Vec<String> {
    // Before SPDX expressions, Cargo packages separated alternatives with a slash.
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    spaced.split_whitespace().map(ToOwned::to_owned).collect()
}

struct Parser<'a> {
    rest: &'a [String],
    allowed: &'a BTreeSet<String>,
}

impl Parser<'_> {
    fn accept(&mut self, token: &str) -> bool {
        let found = self.rest.first().is_some_and(|first| first == token);
        if found {
            self.rest = &self.rest[1..];
        }
        found
    }

    fn alternatives(&mut self) -> Result<bool, String> {
        let mut satisfied = self.conjunction()?;
        while self.accept("OR") {
            satisfied |= self.conjunction()?;
        }
        Ok(satisfied)
    }

    fn conjunction(&mut self) -> Result<bool, String> {
        let mut satisfied = self.licence()?;
        while self.accept("AND") {
            satisfied &= self.licence()?;
        }
        Ok(satisfied)
    }

    fn licence(&mut self) -> Result<bool, String> {
        if self.accept("(") {
            let satisfied = self.alternatives()?;
            return if self.accept(")") { Ok(satisfied) } else { Err("a `)` is missing".to_owned()) };
        }
        let mut name = self.name()?;
        if self.accept("WITH") {
            name = format!("{name} WITH {}", self.name()?);
        }
        Ok(self.allowed.contains(&name))
    }

    fn name(&mut self) -> Result<String, String> {
        match self.rest.split_first() {
            Some((name, rest)) if !matches!(name.as_str(), "OR" | "AND" | "WITH" | "(" | ")") => {
                self.rest = rest;
                Ok(name.clone())
            }
            Some((token, _)) => Err(format!("`{token}` stands where a licence should")),
            None => Err("it ends where a licence should follow".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn satisfied(expression: &str) -> Result<bool, String> {
        let allowed = ["MIT", "Apache-2.0", "Unicode-3.0", "Apache-2.0 WITH LLVM-exception"];
        is_satisfied(expression, &allowed.map(ToOwned::to_owned).into())
    }

    #[test]
    fn expressions_that_can_be_met() {
        for expression in [
            "MIT",
            "MIT OR GPL-3.0",
            "LGPL-2.1-or-later OR MIT OR Apache-2.0",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "(GPL-2.0 OR (MIT AND Apache-2.0))",
            "Apache-2.0 WITH LLVM-exception",
            "GPL-2.0 WITH Classpath-exception-2.0 OR MIT",
            "MPL-2.0/MIT",
            "Apache-2.0 / MIT",
            // AND binds more tightly than OR.
            "MIT OR Apache-2.0 AND GPL-3.0",
        ] {
            assert_eq!(satisfied(expression), Ok(true), "{expression}");
        }
    }

    #[test]
    fn expressions_that_cannot() {
        for expression in [
            "GPL-3.0",
            "MIT AND GPL-3.0",
            "(MIT OR Apache-2.0) AND OpenSSL",
            "MIT WITH LLVM-exception",
            "mit",
            "GPL-2.0/MPL-2.0",
            "MIT AND GPL-3.0 OR MPL-2.0",
        ] {
            assert_eq!(satisfied(expression), Ok(false), "{expression}");
        }
    }

    #[test]
    fn nonsense_is_an_error() {
        for expression in ["", "MIT OR", "OR MIT", "(MIT", "MIT)", "MIT Apache-2.0", "MIT WITH", "()"] {
            assert!(satisfied(expression).is_err(), "{expression}");
        }
    }
}
