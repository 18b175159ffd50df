//! Text that must not be seen: it cannot be printed by accident, and its memory is wiped when it goes.

use serde::Deserialize;
use zeroize::Zeroizing;

/// A password or a private key. Has no `Debug` and no `Display`; [`Secret::expose`] is easy to search for.
///
/// Comparing two is meant for configurations: it takes longer the more they agree, so it is no way to check what a caller sent.
#[derive(Clone, PartialEq)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Takes the text over.
    pub fn new(text: impl Into<String>) -> Secret {
        Secret(Zeroizing::new(text.into()))
    }

    /// The text itself, for whoever checks it or sends it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Secret {
        Secret::new(text)
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Secret, D::Error> {
        String::deserialize(deserializer).map(Secret::new)
    }
}
