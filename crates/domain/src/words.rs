//! The short texts machines are described with: serial, role, label names and values, BMC type. Each is a type of its own, so
//! that a checked text is never confused with another kind. `new` judges input. `stored` keeps what a store already holds.

use std::{borrow::Borrow, fmt, str::FromStr, sync::Arc};

use crate::limits;

/// Declares a checked text type. Cloning shares the text: indexes hold the same words many times.
macro_rules! word {
    ($(#[$doc:meta])* $name:ident, $error:ty, $check:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
        #[serde(into = "String")]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks the text and keeps it.
            pub fn new(text: impl AsRef<str>) -> Result<Self, $error> {
                let word = $name::stored(text);
                word.judge()?;
                Ok(word)
            }

            /// Keeps a text that is in the store already, or names something that may be. An older service had fewer rules, and what
            /// it stored is there whether we like it or not: [`judge`](Self::judge) tells whether input would be refused.
            pub fn stored(text: impl AsRef<str>) -> Self {
                $name(Arc::from(text.as_ref()))
            }

            /// Whether [`new`](Self::new) takes this text.
            pub fn judge(&self) -> Result<(), $error> {
                let check: fn(&str) -> Result<(), $error> = $check;
                check(&self.0)
            }

            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = $error;
            fn from_str(text: &str) -> Result<Self, $error> {
                $name::new(text)
            }
        }

        impl TryFrom<String> for $name {
            type Error = $error;
            fn try_from(text: String) -> Result<Self, $error> {
                $name::new(text)
            }
        }

        /// Only records of the store are read this way; input comes as text and is judged.
        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <std::borrow::Cow<'de, str> as serde::Deserialize>::deserialize(deserializer)?;
                Ok($name::stored(text))
            }
        }

        impl From<$name> for String {
            fn from(word: $name) -> String {
                word.0.as_ref().to_owned()
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }
    };
}

word!(
    /// Identifies a machine: its SMBIOS serial. Part of keys and paths, hence no `/`, no `,` and neither `.` nor `..`.
    Serial,
    SerialError,
    check_serial
);
word!(
    /// What a machine is for. `boot` is special: one per rack, at the lowest index.
    Role,
    RoleError,
    |text| if is_word(text) { Ok(()) } else { Err(RoleError(text.to_owned())) }
);
word!(
    /// The name of a label.
    LabelName,
    LabelError,
    |text| if is_word(text) { Ok(()) } else { Err(LabelError::Name(text.to_owned())) }
);
word!(
    /// The value of a label; may be empty.
    LabelValue,
    LabelError,
    |text| if text.is_empty() || is_word(text) { Ok(()) } else { Err(LabelError::Value(text.to_owned())) }
);
word!(
    /// The kind of management controller, such as `iDRAC-9` or `IPMI-2.0`.
    BmcType,
    BmcTypeError,
    check_bmc_type
);

impl Role {
    /// Whether this is the one special role.
    pub fn is_boot(&self) -> bool {
        self.as_str() == "boot"
    }
}

impl BmcType {
    /// For machines described in the oldest form, which has no BMC type.
    pub fn unknown() -> BmcType {
        BmcType(Arc::from("unknown"))
    }
}

/// Why a text is not a serial.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SerialError {
    /// Nothing there.
    #[error("serial is empty")]
    Empty,
    /// More than [`limits::SERIAL_BYTES_MAX`].
    #[error("invalid serial: {0} bytes, at most {max} are allowed", max = limits::SERIAL_BYTES_MAX)]
    TooLong(usize),
    /// A character that would break keys, paths or lists.
    #[error("invalid serial: {0:?} must not contain {1}")]
    Character(String, &'static str),
    /// White space that nobody sees in a table.
    #[error("invalid serial: {0:?} must not begin or end with white space")]
    Padded(String),
    /// A name with a meaning in paths.
    #[error("invalid serial: {0:?} is reserved")]
    Reserved(String),
}

/// Why a text is not a role.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid role: {0:?}; {WORD_RULE}")]
pub struct RoleError(pub String);

/// Why a text is not a label name or value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LabelError {
    /// Not a name.
    #[error("invalid label name: {0:?}; {WORD_RULE}")]
    Name(String),
    /// Not a value.
    #[error("invalid label value: {0:?}; {WORD_RULE}, or it is empty")]
    Value(String),
}

/// Why a text is not a BMC type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BmcTypeError {
    /// Nothing there.
    #[error("BMC type is empty")]
    Empty,
    /// Outside the pattern.
    #[error("BMC type contains invalid character: {0:?}; letters, digits, - _ / . are allowed")]
    Character(String),
    /// More than [`limits::BMC_TYPE_BYTES_MAX`].
    #[error("BMC type is too long: {0} bytes, at most {max} are allowed", max = limits::BMC_TYPE_BYTES_MAX)]
    TooLong(usize),
}

const WORD_RULE: &str = "1 to 63 letters, digits, _ . - are allowed, and the first and last must be a letter or digit";

/// Kubernetes' pattern for label values, without the empty one.
pub(crate) fn is_word(text: &str) -> bool {
    let bytes = text.as_bytes();
    let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else { return false };
    bytes.len() <= limits::WORD_BYTES_MAX
        && first.is_ascii_alphanumeric()
        && last.is_ascii_alphanumeric()
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-'))
}

fn check_serial(text: &str) -> Result<(), SerialError> {
    if text.is_empty() {
        return Err(SerialError::Empty);
    }
    if text.len() > limits::SERIAL_BYTES_MAX {
        return Err(SerialError::TooLong(text.len()));
    }
    let forbidden = [('/', "'/'"), (',', "','")];
    if let Some((_, name)) = forbidden.iter().find(|(c, _)| text.contains(*c)) {
        return Err(SerialError::Character(text.to_owned(), name));
    }
    if text.chars().any(char::is_control) {
        return Err(SerialError::Character(text.to_owned(), "control characters"));
    }
    if text.trim() != text {
        return Err(SerialError::Padded(text.to_owned()));
    }
    if text == "." || text == ".." {
        return Err(SerialError::Reserved(text.to_owned()));
    }
    Ok(())
}

fn check_bmc_type(text: &str) -> Result<(), BmcTypeError> {
    if text.is_empty() {
        return Err(BmcTypeError::Empty);
    }
    if text.len() > limits::BMC_TYPE_BYTES_MAX {
        return Err(BmcTypeError::TooLong(text.len()));
    }
    if text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'/' | b'.')) {
        Ok(())
    } else {
        Err(BmcTypeError::Character(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn long(n: usize) -> String {
        "a".repeat(n)
    }

    #[test]
    fn serials() {
        for good in ["1234abcd", "SRV 0001", "日本", "a.b", "...", &long(255)] {
            assert_eq!(Serial::new(good).map(String::from), Ok(good.to_owned()));
        }
        let check = |text: &str, message: &str| {
            let error = Serial::new(text).expect_err(text).to_string();
            assert!(error.starts_with(message), "{text:?}: {error}");
        };
        check("", "serial is empty");
        check(&long(256), "invalid serial: 256 bytes");
        check("a/b", "invalid serial: \"a/b\" must not contain '/'");
        check("a,b", "invalid serial: \"a,b\" must not contain ','");
        check("a\nb", "invalid serial: \"a\\nb\" must not contain control characters");
        check("a\u{7f}", "invalid serial: \"a\\u{7f}\" must not contain control characters");
        check(" a", "invalid serial: \" a\" must not begin or end with white space");
        check("a\u{a0}", "invalid serial: \"a\\u{a0}\" must not begin or end with white space");
        check(".", "invalid serial: \".\" is reserved");
        check("..", "invalid serial: \"..\" is reserved");
    }

    #[test]
    fn roles_and_label_names() {
        for good in ["boot", "w", "A9", "a_b.c-d", "a--b", &long(63)] {
            assert!(Role::new(good).is_ok(), "{good}");
            assert!(LabelName::new(good).is_ok(), "{good}");
            assert!(LabelValue::new(good).is_ok(), "{good}");
        }
        for bad in ["", "-a", "a-", "_a", "a.", "a b", "a/b", "é", "worker\n", &long(64)] {
            assert!(Role::new(bad).expect_err(bad).to_string().starts_with("invalid role"));
            assert!(LabelName::new(bad).is_err(), "{bad:?}");
            assert_eq!(LabelValue::new(bad).is_ok(), bad.is_empty(), "{bad:?}");
        }
    }

    #[test]
    fn bmc_types() {
        for good in ["iDRAC-9", "IPMI-2.0", "a/b_c", "-"] {
            assert!(BmcType::new(good).is_ok(), "{good}");
        }
        assert_eq!(BmcType::new("").expect_err("empty").to_string(), "BMC type is empty");
        for bad in ["a b", "a+", "é", "iDRAC\n"] {
            let error = BmcType::new(bad).expect_err(bad).to_string();
            assert!(error.starts_with("BMC type contains invalid character"), "{error}");
        }
        assert!(BmcType::new(long(256)).is_err());
    }
}
