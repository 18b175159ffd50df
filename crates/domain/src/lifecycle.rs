//! The lifecycle of a machine: its states, every arrow between them, what each arrow needs, and what a state forbids.
//!
//! [`EDGES`] is the lifecycle. The documentation page is printed from it, and [`request`] and [`erased`] only look things up in it.

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

use HealthState::{Healthy, Retired, Retiring, Unhealthy, Uninitialized, Unreachable, Updating};

/// What makes a machine move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Trigger {
    /// Somebody asks for the state.
    Request,
    /// Its disk keys were deleted, in the same transaction.
    KeysErased,
    /// Provisioning begins to take its workload away, or to erase it.
    TornDown,
    /// Provisioning has erased it and makes it available again.
    Provided,
}

/// What must hold for an arrow to be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Guard {
    /// The machine has no disk key.
    NoKeys,
}

/// One arrow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edge {
    /// Where it begins.
    pub from: HealthState,
    /// Where it leads.
    pub to: HealthState,
    /// What makes a machine take it.
    pub on: Trigger,
    /// What must hold.
    pub guards: &'static [Guard],
    /// When it is taken, for people.
    pub text: &'static str,
}

const fn edge(from: HealthState, to: HealthState, text: &'static str) -> Edge {
    Edge { from, to, on: Trigger::Request, guards: &[], text }
}

/// Every arrow, grouped by where it begins.
pub const EDGES: &[Edge] = &[
    edge(Uninitialized, Healthy, "It is prepared and may run applications."),
    edge(Uninitialized, Retiring, "It is not wanted after all, or broken on arrival."),
    edge(Healthy, Unhealthy, "A monitor found a problem."),
    edge(Healthy, Unreachable, "A monitor cannot contact it."),
    edge(Healthy, Updating, "A planned restart begins."),
    edge(Healthy, Retiring, "An operator decided to repair or discard it."),
    edge(Unhealthy, Healthy, "The problem is gone."),
    edge(Unhealthy, Unreachable, "A monitor can no longer contact it."),
    edge(Unhealthy, Updating, "A planned restart begins."),
    edge(Unhealthy, Retiring, "An operator decided to repair or discard it."),
    edge(Unreachable, Healthy, "It answers again, without a problem."),
    edge(Unreachable, Unhealthy, "It answers again, with a problem."),
    edge(Unreachable, Updating, "A planned restart begins."),
    edge(Unreachable, Retiring, "An operator decided to repair or discard it."),
    edge(Updating, Uninitialized, "It restarted and has to be prepared again."),
    Edge {
        from: Retiring,
        to: Retired,
        on: Trigger::Request,
        guards: &[Guard::NoKeys],
        text: "It never had a disk key, or they are gone: nothing readable is left.",
    },
    Edge {
        from: Retiring,
        to: Retired,
        on: Trigger::KeysErased,
        guards: &[],
        text: "Its disk keys were deleted: nothing readable is left on its disks.",
    },
    Edge { on: Trigger::TornDown, ..edge(Uninitialized, Retiring, TEAR_DOWN) },
    Edge { on: Trigger::TornDown, ..edge(Healthy, Retiring, TEAR_DOWN) },
    Edge { on: Trigger::TornDown, ..edge(Unhealthy, Retiring, TEAR_DOWN) },
    Edge { on: Trigger::TornDown, ..edge(Unreachable, Retiring, TEAR_DOWN) },
    Edge { on: Trigger::TornDown, ..edge(Updating, Retiring, TEAR_DOWN) },
    Edge { on: Trigger::Provided, ..edge(Retired, Uninitialized, "It is erased and available for another workload.") },
    edge(Retired, Uninitialized, "It was repaired and is brought back."),
    edge(Retired, Healthy, "It was repaired and is brought back, prepared already."),
];

const TEAR_DOWN: &str = "Its workload is taken away, or its disks are to be erased.";

/// What the rules have to know. All of it is compared again in the transaction that writes the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    /// Whether the machine has a disk key.
    pub has_keys: bool,
}

/// Whether an operator insists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Force {
    /// Only arrows of the table.
    #[default]
    No,
    /// Any change except into retired. Always audited as forced.
    Yes,
}

/// What a granted request changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Granted {
    /// The machine is in that state: nothing changes, not even since when.
    Already,
    /// It moves.
    Move(HealthState),
}

/// Why a machine stays where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TransitionRefusal {
    /// No arrow leads there.
    #[error("transition from [ {from} ] to [ {to} ] is forbidden")]
    NoEdge {
        /// Where it is.
        from: HealthState,
        /// Where it should go.
        to: HealthState,
    },
    /// A retired machine must not have a disk key (G1).
    #[error("encryption key exists")]
    KeysExist,
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

impl Guard {
    fn holds(self, facts: Facts) -> bool {
        match self {
            Guard::NoKeys => !facts.has_keys,
        }
    }

    /// What must hold, for people.
    pub const fn text(self) -> &'static str {
        match self {
            Guard::NoKeys => "it has no disk key",
        }
    }
}

/// Decides a request for a state. Refuses, naming the reason, if no arrow leads there or keys remain.
pub fn request(from: HealthState, to: HealthState, facts: Facts, force: Force) -> Result<Granted, TransitionRefusal> {
    // Retired is guarded whatever else is said: no force and no repetition makes a machine with keys a retired one.
    if to == Retired && facts.has_keys && matches!(from, Retiring | Retired) {
        return Err(TransitionRefusal::KeysExist);
    }
    if from == to {
        return Ok(Granted::Already);
    }
    let forced = force == Force::Yes && to != Retired;
    let edge = EDGES.iter().find(|e| e.from == from && e.to == to && e.on == Trigger::Request);
    match edge {
        Some(edge) if edge.guards.iter().all(|guard| guard.holds(facts)) => Ok(Granted::Move(to)),
        Some(_) => Err(TransitionRefusal::KeysExist),
        None if forced => Ok(Granted::Move(to)),
        None => Err(TransitionRefusal::NoEdge { from, to }),
    }
}

/// Where a machine goes when its keys are deleted; `None`: its keys must not be deleted now.
pub fn erased(from: HealthState) -> Option<HealthState> {
    EDGES.iter().find(|e| e.from == from && e.on == Trigger::KeysErased).map(|e| e.to)
}

/// Where a machine goes when provisioning takes its workload away or erases it; `None`: it is leaving already.
pub fn torn_down(from: HealthState) -> Option<HealthState> {
    EDGES.iter().find(|e| e.from == from && e.on == Trigger::TornDown).map(|e| e.to)
}

/// Where a machine goes when provisioning makes it available again; `None`: it was not erased and stays as it is.
pub fn provided(from: HealthState) -> Option<HealthState> {
    EDGES.iter().find(|e| e.from == from && e.on == Trigger::Provided).map(|e| e.to)
}

/// Only a retired machine may be removed: a removed machine cannot leave a readable disk behind (G1).
pub fn check_removal(state: HealthState) -> Result<(), NotRetired> {
    if state == Retired { Ok(()) } else { Err(NotRetired { state }) }
}

impl HealthState {
    /// Every state, in the order of a machine's life.
    pub const ALL: [HealthState; 7] = [Uninitialized, Healthy, Unhealthy, Unreachable, Updating, Retiring, Retired];

    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Uninitialized => "uninitialized",
            Healthy => "healthy",
            Unhealthy => "unhealthy",
            Unreachable => "unreachable",
            Updating => "updating",
            Retiring => "retiring",
            Retired => "retired",
        }
    }

    /// What it means, for people.
    pub const fn text(self) -> &'static str {
        match self {
            Uninitialized => "Registered, not yet prepared.",
            Healthy => "May run applications.",
            Unhealthy => "Has a problem.",
            Unreachable => "Cannot be contacted.",
            Updating => "Being updated; becomes uninitialized after its restart.",
            Retiring => "To be repaired or discarded. Gets no new disk key; its keys may be deleted.",
            Retired => "Holds no disk key and gets none. May be removed or brought back.",
        }
    }
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
            return Ok(Unreachable);
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
mod tests;
