//! What callers may ask of a node, and what the machinery reports. Two types on purpose: no caller can pretend that work is done.

use std::{fmt, str::FromStr};

/// What a caller asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verb {
    /// Prove that the node can be managed, or go back to being managed only.
    Manage,
    /// Clean it and make it available.
    Provide,
    /// Read its hardware.
    Inspect,
    /// Run given clean steps.
    Clean,
    /// Put a workload on it.
    Active,
    /// Put the workload on it again.
    Rebuild,
    /// Take the workload away and clean it.
    Deleted,
    /// Boot a temporary system.
    Rescue,
    /// Go back to the workload.
    Unrescue,
    /// Take it over as it runs.
    Adopt,
    /// Run given service steps.
    Service,
    /// Stop waiting.
    Abort,
    /// Go on after a hold.
    Unhold,
}

/// What the machinery reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Event {
    /// All work of the state is done.
    Done,
    /// The workload's traces are gone; cleaning follows.
    TornDown,
    /// Something outside has to happen first.
    Wait,
    /// It happened.
    Resume,
    /// A step wants a person to go on.
    Hold,
    /// The work failed.
    Fail,
    /// The state lasted too long.
    Deadline,
    /// What was left after an aborted service is put back.
    Restored,
}

/// A word that names no verb.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid verb {0:?}; one of: {names}", names = Verb::ALL.map(Verb::as_str).join(", "))]
pub struct UnknownVerb(pub String);

impl Verb {
    /// Every verb.
    pub const ALL: [Verb; 13] = [
        Verb::Manage,
        Verb::Provide,
        Verb::Inspect,
        Verb::Clean,
        Verb::Active,
        Verb::Rebuild,
        Verb::Deleted,
        Verb::Rescue,
        Verb::Unrescue,
        Verb::Adopt,
        Verb::Service,
        Verb::Abort,
        Verb::Unhold,
    ];

    /// The word of the provisioning API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Verb::Manage => "manage",
            Verb::Provide => "provide",
            Verb::Inspect => "inspect",
            Verb::Clean => "clean",
            Verb::Active => "active",
            Verb::Rebuild => "rebuild",
            Verb::Deleted => "deleted",
            Verb::Rescue => "rescue",
            Verb::Unrescue => "unrescue",
            Verb::Adopt => "adopt",
            Verb::Service => "service",
            Verb::Abort => "abort",
            Verb::Unhold => "unhold",
        }
    }
}

impl Event {
    /// Every event.
    pub const ALL: [Event; 8] = [
        Event::Done,
        Event::TornDown,
        Event::Wait,
        Event::Resume,
        Event::Hold,
        Event::Fail,
        Event::Deadline,
        Event::Restored,
    ];

    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Event::Done => "done",
            Event::TornDown => "torn down",
            Event::Wait => "wait",
            Event::Resume => "resume",
            Event::Hold => "hold",
            Event::Fail => "fail",
            Event::Deadline => "deadline",
            Event::Restored => "restored",
        }
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Verb {
    type Err = UnknownVerb;

    fn from_str(text: &str) -> Result<Verb, UnknownVerb> {
        // The newer spellings of two old verbs.
        let text = match text {
            "deploy" => "active",
            "undeploy" => "deleted",
            other => other,
        };
        Verb::ALL.into_iter().find(|v| v.as_str() == text).ok_or_else(|| UnknownVerb(text.to_owned()))
    }
}
