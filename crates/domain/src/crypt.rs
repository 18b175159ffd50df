//! When disk keys may be added and deleted (G1). The keys themselves are opaque bytes; sealing and storing them is for others.

use crate::{
    lifecycle::{self, HealthState},
    limits,
};

/// Names a disk of a machine: one segment of a path, whatever the machine calls it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DiskPath(String);

/// Why a text names no disk.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DiskPathError {
    /// Nothing there.
    #[error("the name of the disk is empty")]
    Empty,
    /// More than [`limits::DISK_PATH_BYTES_MAX`].
    #[error("the name of the disk has {0} bytes, at most {max} are allowed", max = limits::DISK_PATH_BYTES_MAX)]
    TooLong(usize),
    /// It would leave its place among the keys of the machine.
    #[error("invalid name of a disk: {0:?} must not contain '/' or control characters, nor be . or ..")]
    Character(String),
}

impl DiskPath {
    /// Checks the text and keeps it.
    pub fn new(text: impl Into<String>) -> Result<DiskPath, DiskPathError> {
        let text = text.into();
        if text.is_empty() {
            return Err(DiskPathError::Empty);
        }
        if text.len() > limits::DISK_PATH_BYTES_MAX {
            return Err(DiskPathError::TooLong(text.len()));
        }
        if text.contains('/') || text.chars().any(char::is_control) || text == "." || text == ".." {
            return Err(DiskPathError::Character(text));
        }
        Ok(DiskPath(text))
    }

    /// Keeps the name of a disk that has a key in the store. Only what would leave its place among the keys of the machine is refused.
    pub fn stored(text: impl Into<String>) -> Result<DiskPath, DiskPathError> {
        let text = text.into();
        match text.as_str() {
            "" => Err(DiskPathError::Empty),
            name if name.contains('/') => Err(DiskPathError::Character(text)),
            _ => Ok(DiskPath(text)),
        }
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for DiskPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// Why a key was not added or deleted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyRefusal {
    /// Whatever is written on its disks from now on could not be forgotten.
    #[error("machine was retiring or retired")]
    Leaving {
        /// The state it is in.
        state: HealthState,
    },
    /// Its data is still wanted.
    #[error("machine is not retiring")]
    NotRetiring {
        /// The state it is in.
        state: HealthState,
    },
    /// More than [`limits::DISK_KEYS_MAX`].
    #[error("the machine has {0} disk keys, more are not accepted")]
    TooMany(usize),
    /// A key is never replaced: the old one opens a disk.
    #[error("a key for disk {0} exists")]
    Exists(DiskPath),
}

/// A machine that is to go gets no new key, and none gets more than it can have disks.
pub fn check_put(state: HealthState, present: usize) -> Result<(), KeyRefusal> {
    if present >= limits::DISK_KEYS_MAX {
        return Err(KeyRefusal::TooMany(present));
    }
    match state {
        HealthState::Retiring | HealthState::Retired => Err(KeyRefusal::Leaving { state }),
        HealthState::Uninitialized
        | HealthState::Healthy
        | HealthState::Unhealthy
        | HealthState::Unreachable
        | HealthState::Updating => Ok(()),
    }
}

/// The state a machine has after its keys are deleted; refused unless it is retiring.
pub fn check_delete(state: HealthState) -> Result<HealthState, KeyRefusal> {
    lifecycle::erased(state).ok_or(KeyRefusal::NotRetiring { state })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_before_and_go_while_retiring() {
        for state in HealthState::ALL {
            let leaving = matches!(state, HealthState::Retiring | HealthState::Retired);
            assert_eq!(check_put(state, 255).is_err(), leaving, "{state}");
            assert_eq!(check_put(state, 256), Err(KeyRefusal::TooMany(256)), "{state}");
            let deletable = (state == HealthState::Retiring).then_some(HealthState::Retired);
            assert_eq!(check_delete(state).ok(), deletable, "{state}");
        }
    }

    #[test]
    fn disk_names() {
        for good in ["aaaaa", "pci-0000:00:1f.2-ata-3", "0123456789abcdef", "..."] {
            assert_eq!(DiskPath::new(good).expect(good).as_str(), good);
        }
        for bad in ["", ".", "..", "a/b", "a\0", "a\nb"] {
            assert!(DiskPath::new(bad).is_err(), "{bad:?}");
        }
        assert!(DiskPath::new("a".repeat(256)).is_err());
    }
}
