//! The health states of a machine, and what a state forbids.

use std::{fmt, str::FromStr};

/// The lifecycle state of a machine. Names exist once, in [`HealthState::as_str`]; parsing and lists derive from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HealthState {
    /// Registered, not yet prepared.
    Uninitialized,
    /// May run applications.
    Healthy,
    /// Has a problem.
    Unhealthy,
    /// Cannot be contacted.
    Unreachable,
    /// Being updated; becomes uninitialized after its restart.
    Updating,
    /// To be repaired or discarded.
    Retiring,
    /// Holds no disk key; may be removed or brought back.
    Retired,
}

/// A word that names no state.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid state: {0}")]
pub struct UnknownState(pub String);

/// Why a machine may not be removed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("non-retired machine cannot be deleted")]
pub struct NotRetired {
    /// The state it is in.
    pub state: HealthState,
}

impl HealthState {
    /// Every state, in the order of a machine's life.
    pub const ALL: [HealthState; 7] = [
        HealthState::Uninitialized,
        HealthState::Healthy,
        HealthState::Unhealthy,
        HealthState::Unreachable,
        HealthState::Updating,
        HealthState::Retiring,
        HealthState::Retired,
    ];

    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            HealthState::Uninitialized => "uninitialized",
            HealthState::Healthy => "healthy",
            HealthState::Unhealthy => "unhealthy",
            HealthState::Unreachable => "unreachable",
            HealthState::Updating => "updating",
            HealthState::Retiring => "retiring",
            HealthState::Retired => "retired",
        }
    }
}

/// Only a retired machine may be removed: a removed machine cannot leave a readable disk behind (G1).
pub fn check_removal(state: HealthState) -> Result<(), NotRetired> {
    if state == HealthState::Retired { Ok(()) } else { Err(NotRetired { state }) }
}

impl fmt::Display for HealthState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for HealthState {
    type Err = UnknownState;

    fn from_str(text: &str) -> Result<HealthState, UnknownState> {
        // The oldest lifecycle text says `dead` for a machine nobody can reach.
        if text == "dead" {
            return Ok(HealthState::Unreachable);
        }
        HealthState::ALL.into_iter().find(|s| s.as_str() == text).ok_or_else(|| UnknownState(text.to_owned()))
    }
}

impl serde::Serialize for HealthState {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> serde::Deserialize<'de> for HealthState {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<HealthState, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_round_trip() {
        for state in HealthState::ALL {
            assert_eq!(state.as_str().parse(), Ok(state));
        }
        assert_eq!("dead".parse(), Ok(HealthState::Unreachable));
        for bad in ["", "HEALTHY", "healthy\n", "running"] {
            assert_eq!(bad.parse::<HealthState>(), Err(UnknownState(bad.to_owned())));
        }
    }

    #[test]
    fn only_retired_machines_may_go() {
        for state in HealthState::ALL {
            assert_eq!(check_removal(state).is_ok(), state == HealthState::Retired, "{state}");
        }
    }
}
