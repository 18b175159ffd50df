//! Allocations: somebody wants a node of some kind, and gets one. Which nodes fit, which is tried first, why none fits, and when a
//! node may be given back.
//!
//! An allocation is stored before anybody looks for a node. Whoever looks ([`matching`]) may be late; [`take`] asks again, in the
//! transaction that gives the node away.

mod search;

use std::{collections::BTreeMap, fmt::Write as _};

use jiff::Timestamp;
pub use search::Filter;

use super::{
    details::{self, NameError},
    edit,
    engine::Changed,
    guards::{self, Strictness},
    ids::AllocationId,
    node::{Node, NodeId, Object, Severity},
    states::State,
    verbs::Verb,
};
use crate::{lifecycle::HealthState, limits, words::Serial};

/// A wish for a node.
#[derive(Debug, Clone, PartialEq)]
pub struct Allocation {
    /// Its UUID; the node it gets has it as the UUID of its workload.
    pub id: AllocationId,
    /// Its name, which no other has.
    pub name: Option<String>,
    /// How far it is.
    pub progress: Progress,
    /// The kind of node. `None` only where it was made for a node without one.
    pub resource_class: Option<String>,
    /// Only these nodes; empty: any.
    pub candidates: Vec<NodeId>,
    /// What the node must be able to do.
    pub traits: Vec<String>,
    /// Whose the node must be.
    pub owner: Option<String>,
    /// Anything else a caller wants to keep.
    pub extra: Object,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Option<Timestamp>,
}

/// How far an allocation is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// A node is looked for.
    Allocating,
    /// It has this node.
    Active(NodeId),
    /// No node fits; why, for people.
    Failed(String),
}

/// What callers may change about an allocation.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Fields {
    /// Its name.
    pub name: Option<String>,
    /// Anything else.
    pub extra: Object,
}

/// What the matching looks at.
#[derive(Debug, Clone, Copy)]
pub struct Candidate<'a> {
    /// The node.
    pub node: &'a Node,
    /// The lifecycle state of its machine.
    pub machine: Option<HealthState>,
    /// Somebody works on it.
    pub locked: bool,
}

/// Why a node of the right kind is passed over. The first that holds is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unfit {
    /// Not available.
    State,
    /// It has a workload.
    Instance,
    /// Nobody knows whether it is on.
    PowerUnknown,
    /// Automation keeps its hands off.
    Maintenance,
    /// It is to be retired.
    Retired,
    /// The lifecycle state of its machine forbids a workload.
    Lifecycle,
    /// It is somebody else's.
    Owner,
    /// It cannot do what is wanted.
    Traits,
    /// Somebody works on it; it may fit in a moment.
    Busy,
}

/// What a search for a node found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Matching {
    /// Nodes to try, best first.
    pub ready: Vec<Serial>,
    /// How many others of the right kind there are, by the reason why not.
    pub passed_over: BTreeMap<Unfit, usize>,
}

/// Why an allocation is not made, changed or given back.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AllocationRefusal {
    /// The name cannot be.
    #[error("Cannot create allocation with invalid name {0:?}: letters, digits and -._~ only, and no UUID")]
    Name(String),
    /// A trait cannot be.
    #[error(transparent)]
    Trait(#[from] NameError),
    /// A text that is too long.
    #[error("{0}: is longer than {1} bytes")]
    TooLong(&'static str, usize),
    /// More nodes than one may name.
    #[error("candidate_nodes: at most {max} nodes can be named", max = limits::CANDIDATE_NODES_MAX)]
    TooManyCandidates,
    /// Without a node it must say what kind is wanted.
    #[error("The resource_class field is mandatory when not backfilling")]
    NoClass,
    /// A node that is in use already does not match what is said about it.
    #[error("Cannot backfill an allocation for node {node}: {reason}")]
    Mismatch {
        /// Which node.
        node: Serial,
        /// What does not match.
        reason: String,
    },
    /// Another workload, or none, is on the node.
    #[error("Cannot backfill an allocation for node {node}: {reason}")]
    Occupied {
        /// Which node.
        node: Serial,
        /// Why.
        reason: String,
    },
    /// The node is in use.
    #[error(
        "Cannot remove allocation {allocation} for node {node}, because the node is {state} (and maintenance mode is off)"
    )]
    InUse {
        /// Which allocation.
        allocation: AllocationId,
        /// Its node.
        node: NodeId,
        /// How the node is.
        state: String,
    },
}

/// Why a node was not given away after all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotTaken {
    /// The allocation wants no node any more.
    #[error("the allocation wants no node any more")]
    Over,
    /// The node does not fit any more.
    #[error("the node does not fit any more")]
    Unfit,
}

impl Allocation {
    /// Checks what a caller says about a new allocation.
    pub fn check(&self) -> Result<(), AllocationRefusal> {
        if let Some(name) = &self.name {
            check_name(name)?;
        }
        for (field, text, max) in [
            ("resource_class", &self.resource_class, limits::RESOURCE_CLASS_BYTES_MAX),
            ("owner", &self.owner, limits::NODE_TEXT_BYTES_MAX),
        ] {
            if text.as_ref().is_some_and(|text| text.len() > max) {
                return Err(AllocationRefusal::TooLong(field, max));
            }
        }
        if self.candidates.len() > limits::CANDIDATE_NODES_MAX {
            return Err(AllocationRefusal::TooManyCandidates);
        }
        details::check_traits(self.traits.iter().map(String::as_str))?;
        Ok(())
    }

    /// The word of the provisioning API for how far it is.
    pub fn state(&self) -> &'static str {
        match self.progress {
            Progress::Allocating => "allocating",
            Progress::Active(_) => "active",
            Progress::Failed(_) => "error",
        }
    }

    /// The node it has.
    pub fn node(&self) -> Option<NodeId> {
        match self.progress {
            Progress::Active(node) => Some(node),
            Progress::Allocating | Progress::Failed(_) => None,
        }
    }

    /// Why it has none.
    pub fn last_error(&self) -> Option<&str> {
        match &self.progress {
            Progress::Failed(reason) => Some(reason),
            Progress::Allocating | Progress::Active(_) => None,
        }
    }
}

impl Unfit {
    /// What is said about the nodes it holds for.
    const fn words(self) -> &'static str {
        match self {
            Unfit::State => "not in available",
            Unfit::Instance => "with an instance",
            Unfit::PowerUnknown => "with an unknown power state",
            Unfit::Maintenance => "in maintenance",
            Unfit::Retired => "to be retired",
            Unfit::Lifecycle => "with a machine that is not healthy",
            Unfit::Owner => "of another owner",
            Unfit::Traits => "without the traits",
            Unfit::Busy => "being worked on",
        }
    }
}

impl Matching {
    /// Whether a node may fit in a moment, so that it is too early to say that none does.
    pub fn may_fit_soon(&self) -> bool {
        self.passed_over.contains_key(&Unfit::Busy)
    }
}

fn check_name(name: &str) -> Result<(), AllocationRefusal> {
    let fits = (1..=limits::NODE_TEXT_BYTES_MAX).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_' | b'~'))
        && !matches!(name, "." | "..");
    if fits && name.parse::<NodeId>().is_err() { Ok(()) } else { Err(AllocationRefusal::Name(name.to_owned())) }
}

/// Looks for nodes. The one that is called like the allocation is tried first; the others in an order that differs between
/// allocations, so that those that look at the same moment do not all try the same node.
pub fn matching<'a>(
    allocation: &Allocation,
    nodes: impl Iterator<Item = Candidate<'a>>,
    strictness: Strictness,
) -> Matching {
    let mut found = Matching::default();
    let mut ready = Vec::new();
    for candidate in nodes.filter(|candidate| is_meant(allocation, candidate.node)) {
        match unfit(allocation, &candidate, strictness) {
            Some(reason) => *found.passed_over.entry(reason).or_default() += 1,
            None => {
                let other_name = allocation.name.as_deref() != Some(candidate.node.name.as_str());
                ready.push((other_name, turn(allocation.id, candidate.node.id), candidate.node.name.clone()));
            }
        }
    }
    ready.sort_unstable();
    found.ready = ready.into_iter().map(|(_, _, name)| name).collect();
    found
}

/// Whether an allocation is about nodes like this one at all.
fn is_meant(allocation: &Allocation, node: &Node) -> bool {
    node.details.resource_class == allocation.resource_class
        && (allocation.candidates.is_empty() || allocation.candidates.contains(&node.id))
}

fn unfit(allocation: &Allocation, candidate: &Candidate<'_>, strictness: Strictness) -> Option<Unfit> {
    let Candidate { node, machine, locked } = *candidate;
    let details = &node.details;
    let foreign = allocation.owner.is_some() && allocation.owner != details.owner;
    let working = locked || node.operation.is_some() || node.power.action.is_some();
    let reasons = [
        (node.state != State::Available, Unfit::State),
        (details.instance_uuid.is_some(), Unfit::Instance),
        (node.maintenance.is_some(), Unfit::Maintenance),
        (node.retire_declared || edit::is_retired(node, machine), Unfit::Retired),
        (guards::check_verb(node, Verb::Active, machine, strictness).is_err(), Unfit::Lifecycle),
        (foreign, Unfit::Owner),
        (!allocation.traits.iter().all(|wanted| details.traits.contains(wanted)), Unfit::Traits),
        (working, Unfit::Busy),
        (node.power.state.is_none(), Unfit::PowerUnknown),
    ];
    reasons.into_iter().find(|(holds, _)| *holds).map(|(_, reason)| reason)
}

/// A number that looks random and is the same every time: multiplied by an odd number and folded, twice.
fn turn(allocation: AllocationId, node: NodeId) -> u128 {
    const GOLDEN: u128 = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;
    let mix = |x: u128| (x ^ (x >> 67)).wrapping_mul(GOLDEN);
    let mixed = mix(mix(allocation.0.rotate_left(64) ^ node.0));
    mixed ^ (mixed >> 67)
}

/// Gives a node to an allocation, if both are still as they were when they were matched.
pub fn take(
    allocation: &Allocation,
    candidate: &Candidate<'_>,
    strictness: Strictness,
    by: &str,
    at: Timestamp,
) -> Result<(Allocation, Changed), NotTaken> {
    if allocation.progress != Progress::Allocating {
        return Err(NotTaken::Over);
    }
    if !is_meant(allocation, candidate.node) || unfit(allocation, candidate, strictness).is_some() {
        return Err(NotTaken::Unfit);
    }
    Ok(bound(allocation, candidate.node, by, at))
}

/// An allocation for a node that has its workload already.
pub fn backfill(
    allocation: &Allocation,
    node: &Node,
    by: &str,
    at: Timestamp,
) -> Result<(Allocation, Changed), AllocationRefusal> {
    let occupied = |reason: String| AllocationRefusal::Occupied { node: node.name.clone(), reason };
    let mismatch = |reason: String| AllocationRefusal::Mismatch { node: node.name.clone(), reason };
    if let Some(other) = node.details.allocation {
        return Err(occupied(format!("it has the allocation {other} already")));
    }
    if node.state != State::Active {
        return Err(occupied(format!("it is {:?}, and only an active node has a workload", node.state.wire())));
    }
    if let Some(instance) = node.details.instance_uuid.as_ref().filter(|uuid| **uuid != allocation.id.to_string()) {
        return Err(occupied(format!("it is associated with instance {instance}")));
    }
    if allocation.resource_class.is_some() && allocation.resource_class != node.details.resource_class {
        return Err(mismatch("its resource class is another".to_owned()));
    }
    if let Some(missing) = allocation.traits.iter().find(|wanted| !node.details.traits.contains(*wanted)) {
        return Err(mismatch(format!("it does not have the trait {missing}")));
    }
    if !allocation.candidates.is_empty() && !allocation.candidates.contains(&node.id) {
        return Err(mismatch("it is not among the candidate nodes".to_owned()));
    }
    let allocation = Allocation { resource_class: node.details.resource_class.clone(), ..allocation.clone() };
    Ok(bound(&allocation, node, by, at))
}

/// The identifier of an allocation that is made for a node with a workload: that of the workload.
pub fn backfill_id(node: &Node) -> Option<AllocationId> {
    node.details.instance_uuid.as_deref().and_then(|uuid| uuid.parse().ok())
}

/// An allocation and its node, each with the other's identifier.
fn bound(allocation: &Allocation, node: &Node, by: &str, at: Timestamp) -> (Allocation, Changed) {
    let allocation = Allocation { progress: Progress::Active(node.id), updated_at: Some(at), ..allocation.clone() };
    let mut changed = Changed::new(node);
    let name = allocation.name.as_deref().map(|name| format!(" ({name})")).unwrap_or_default();
    changed.row(by, Severity::Info, format!("given to allocation {}{name}", allocation.id), at);
    changed.node.details.instance_uuid = Some(allocation.id.to_string());
    changed.node.details.allocation = Some(allocation.id);
    changed.node.details.edited_at = Some(at);
    changed.node.instance_info.insert("traits".to_owned(), allocation.traits.clone().into());
    (allocation, changed)
}

/// An allocation for which no node was found.
pub fn fail(allocation: &Allocation, found: &Matching, at: Timestamp) -> Allocation {
    let class = allocation.resource_class.as_deref().unwrap_or_default();
    let mut reason = if found.passed_over.contains_key(&Unfit::Traits) {
        format!("no suitable nodes have the requested traits {}", allocation.traits.join(", "))
    } else if allocation.candidates.is_empty() {
        format!("no available nodes match the resource class {class}")
    } else {
        format!("none of the requested nodes are available and match the resource class {class}")
    };
    let passed: Vec<String> =
        found.passed_over.iter().map(|(unfit, count)| format!("{count} {}", unfit.words())).collect();
    if !passed.is_empty() {
        let _infallible = write!(reason, ". Passed over: {}", passed.join(", "));
    }
    fail_because(allocation, &reason, at)
}

/// An allocation that gets no node for this reason.
pub fn fail_because(allocation: &Allocation, reason: &str, at: Timestamp) -> Allocation {
    let reason = format!("Failed to process allocation {}: {reason}.", allocation.id);
    Allocation { progress: Progress::Failed(reason), updated_at: Some(at), ..allocation.clone() }
}

/// The node of an allocation after it was given back.
pub fn release(allocation: &Allocation, node: &Node, by: &str, at: Timestamp) -> Result<Changed, AllocationRefusal> {
    let refuse = |state: String| Err(AllocationRefusal::InUse { allocation: allocation.id, node: node.id, state });
    if node.maintenance.is_none() {
        if node.target.is_some() && !edit::is_editable(node.state) {
            return refuse(format!("in state {:?} where updates are not allowed", node.state.wire()));
        }
        if node.state == State::Active {
            return refuse("active".to_owned());
        }
    }
    let mut changed = Changed::new(node);
    changed.row(by, Severity::Info, format!("given back by allocation {}", allocation.id), at);
    changed.node.details.clear_allocation();
    changed.node.details.edited_at = Some(at);
    changed.node.instance_info.remove("traits");
    Ok(changed)
}

/// An allocation as a caller wants it; `None`: it is so already.
pub fn change(
    allocation: &Allocation,
    wanted: &Fields,
    at: Timestamp,
) -> Result<Option<Allocation>, AllocationRefusal> {
    let Fields { name, extra } = wanted;
    if allocation.name == *name && allocation.extra == *extra {
        return Ok(None);
    }
    if let Some(name) = name {
        check_name(name)?;
    }
    let changed = Allocation { name: name.clone(), extra: extra.clone(), ..allocation.clone() };
    Ok(Some(Allocation { updated_at: Some(at), ..changed }))
}

#[cfg(test)]
mod tests;
