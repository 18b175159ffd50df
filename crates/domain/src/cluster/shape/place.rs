//! Where in a document something is.

use std::fmt;

use super::quote;
use crate::limits::QUOTED_CHARS_MAX;

/// A place in a document. It is written out only when something is wrong there: nearly everything is right, and there is much of it.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a>(Option<(&'a Place<'a>, Step<'a>)>);

#[derive(Debug, Clone, Copy)]
enum Step<'a> {
    Key(&'a str),
    Index(usize),
}

impl<'a> Place<'a> {
    /// The document itself.
    pub const ROOT: Place<'static> = Place(None);

    /// A member of what is here.
    pub fn key(&'a self, key: &'a str) -> Place<'a> {
        Place(Some((self, Step::Key(key))))
    }

    /// An item of the list that is here.
    pub fn index(&'a self, index: usize) -> Place<'a> {
        Place(Some((self, Step::Index(index))))
    }
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((parent, step)) = self.0 else { return Ok(()) };
        parent.fmt(f)?;
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        match step {
            Step::Index(index) => write!(f, "[{index}]"),
            Step::Key(key) if key.is_empty() || key.len() > QUOTED_CHARS_MAX || !key.bytes().all(plain) => {
                write!(f, "[{}]", quote(key))
            }
            Step::Key(key) if parent.0.is_none() => f.write_str(key),
            Step::Key(key) => write!(f, ".{key}"),
        }
    }
}
