//! What is wrong with a configuration: everything at once, each with the place where a person wrote it.

use std::fmt;

/// One thing to correct.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    /// Flag, environment variable, or file, line and key.
    pub at: String,
    /// What is wrong with it. Never holds a password or a key.
    pub reason: String,
}

/// Everything to correct. Never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigErrors(Vec<ConfigError>);

impl ConfigErrors {
    /// `None` if there is nothing to correct.
    pub fn collect(errors: Vec<ConfigError>) -> Option<ConfigErrors> {
        (!errors.is_empty()).then_some(ConfigErrors(errors))
    }

    /// In the order in which the configuration is read.
    pub fn iter(&self) -> impl Iterator<Item = &ConfigError> {
        self.0.iter()
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.at, self.reason)
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the configuration cannot be used:")?;
        self.0.iter().try_for_each(|error| write!(f, "\n  {error}"))
    }
}

impl std::error::Error for ConfigErrors {}
