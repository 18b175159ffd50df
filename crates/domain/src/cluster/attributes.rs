//! What a node shall carry in Kubernetes, and the next step that brings a live Node there.
//!
//! Labels and annotations are set through server-side apply, where every key has its owner: what we applied once and leave out later
//! goes by itself. Taints are one list that has one owner, so that whoever writes ours also writes everybody else's: [`next_step`]
//! keeps those of others as they were read, and whoever carries the step out does so only if the Node has not changed since.
//!
//! What is ours in that list is written down in an annotation of the same request ([`TAINTS_ANNOTATION`]).
//!
//! Decides about Nodes of the configuration only. Which of them exist is found out by [`super::live_node::find`]; none is ever created
//! or deleted.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{
    config::{Configuration, Effect, MASTER_TAINT, Node, Taint},
    input::LiveTaints,
    live_node::{CONTROL_PLANE_ROLES, KeyOwner, LiveNode, LiveTaint},
};

/// The label of control planes.
pub const MASTER_LABEL: &str = "cke.cybozu.com/master";
/// The annotation of whoever reboots nodes. Never set and never removed here.
pub const REBOOT_ANNOTATION: &str = "cke.cybozu.com/reboot";
/// The annotation with the keys of the taints that we set, separated by commas.
pub const TAINTS_ANNOTATION: &str = "sabakan.cybozu.com/taints";

/// What a node shall carry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attributes {
    /// Labels and their values.
    pub labels: BTreeMap<String, String>,
    /// Annotations and their values.
    pub annotations: BTreeMap<String, String>,
    /// Taints, in order.
    pub taints: Vec<Taint>,
}

/// One request that brings a Node closer to what it shall be. Each is complete by itself: whoever dies between two of them leaves a
/// Node from which [`next_step`] goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Replace the list of taints, if the Node is still as it was read.
    Taints {
        /// The whole list, everybody's taints.
        list: Vec<LiveTaint>,
        /// The keys of it that are ours from now on.
        ours: BTreeSet<String>,
    },
    /// Replace the list of taints because the machine of the Node has no power, or has it again, if the Node is still as it was read.
    /// The mark that says so comes and goes with it. Taken by whoever repairs, see [`crate::repair::gone`].
    OutOfService {
        /// The whole list, everybody's taints.
        list: Vec<LiveTaint>,
        /// It has no power.
        is_on: bool,
    },
    /// Apply exactly these labels and annotations as ours. Keys of our last apply that are not among them go.
    Apply {
        /// All our labels.
        labels: BTreeMap<String, String>,
        /// All our annotations.
        annotations: BTreeMap<String, String>,
    },
    /// Remove these keys, whoever set them.
    Remove {
        /// Labels.
        labels: BTreeSet<String>,
        /// Annotations.
        annotations: BTreeSet<String>,
    },
}

/// Whether the configuration wants its control planes tainted.
pub fn taints_control_planes(configuration: &Configuration) -> bool {
    configuration.rest.get("taint_control_plane") == Some(&Value::Bool(true))
}

/// The name of a node in Kubernetes.
pub fn name(node: &Node) -> String {
    if node.hostname.is_empty() { node.address.to_string() } else { node.hostname.clone() }
}

/// What a node of the configuration shall carry.
pub fn wanted(node: &Node, taint_control_plane: bool) -> Attributes {
    let mut labels = node.labels.clone();
    let mut annotations = node.annotations.clone();
    let mut taints = node.taints.clone();
    annotations.remove(REBOOT_ANNOTATION);
    if node.control_plane {
        labels.insert(MASTER_LABEL.to_owned(), "true".to_owned());
    }
    if node.control_plane && taint_control_plane {
        taints.retain(|taint| taint.key != MASTER_TAINT);
        let master = Taint { key: MASTER_TAINT.to_owned(), value: String::new(), effect: Effect::PreferNoSchedule };
        taints.push(master);
    }
    // Kubernetes refuses two taints with one key and effect, which a template and a hand-made configuration may have.
    let mut seen = BTreeSet::new();
    taints.retain(|taint| seen.insert((taint.key.clone(), taint.effect)));
    Attributes { labels, annotations, taints }
}

/// The next step from what a Node carries to what it shall carry; `None`: it is as wanted.
///
/// Taints go first. They keep pods away, and a Node without its labels does less harm than one that takes pods it must not have.
pub fn next_step(wanted: &Attributes, live: &LiveNode) -> Option<Step> {
    if let Some(step) = taints(&wanted.taints, live) {
        return Some(step);
    }
    let mut labels = wanted.labels.clone();
    labels.retain(|key, _| !is_role_of_others(key, live));
    let is_applied = is_applied(&labels, &live.labels, &live.applied.labels)
        && is_applied(&wanted.annotations, &live.annotations, &live.applied.annotations);
    if !is_applied {
        return Some(Step::Apply { labels, annotations: wanted.annotations.clone() });
    }
    let labels = left_over(&wanted.labels, &live.labels);
    let mut annotations = left_over(&wanted.annotations, &live.annotations);
    annotations.remove(REBOOT_ANNOTATION);
    let is_clean = labels.is_empty() && annotations.is_empty();
    (!is_clean).then_some(Step::Remove { labels, annotations })
}

/// Whether a label that marks control planes was put there by somebody else. Its value is theirs: tools that set clusters up write none,
/// and a label that we had taken over would go when we demote the node.
fn is_role_of_others(key: &str, live: &LiveNode) -> bool {
    CONTROL_PLANE_ROLES.contains(&key) && live.labels.contains_key(key) && !live.applied.labels.contains(key)
}

/// The step that puts the taints right; `None`: they are.
///
/// A key that the configuration names is the configuration's, with every value and effect, but for the role of a control plane that
/// somebody else gave: that stays theirs. A key of the configuration, or one that we set before, goes when it is not named. All others belong to somebody else and stay as they are, `node.kubernetes.io/not-ready` and
/// the role that a tool gave to a control plane among them.
fn taints(wanted: &[Taint], live: &LiveNode) -> Option<Step> {
    let theirs = |key: &str| {
        let is_there = live.taints.iter().any(|taint| taint.key == key);
        CONTROL_PLANE_ROLES.contains(&key) && is_there && !live.applied.taints.contains(key)
    };
    let wanted: Vec<&Taint> = wanted.iter().filter(|taint| !theirs(&taint.key)).collect();
    let ours: BTreeSet<String> = wanted.iter().map(|taint| taint.key.clone()).collect();
    let is_ours = |key: &str| {
        ours.contains(key) || live.applied.taints.contains(key) || KeyOwner::of(key) == KeyOwner::Configuration
    };
    let stays = |taint: &LiveTaint| wanted.iter().any(|wanted| taint.is(wanted)) || !is_ours(&taint.key);
    let mut list: Vec<LiveTaint> = live.taints.iter().filter(|taint| stays(taint)).cloned().collect();
    let missing = wanted.iter().filter(|wanted| !live.taints.iter().any(|taint| taint.is(wanted)));
    list.extend(missing.map(|taint| LiveTaint::from(*taint)));
    (list != live.taints || ours != live.applied.taints).then_some(Step::Taints { list, ours })
}

/// Whether every wanted value is there and the keys that are ours are exactly the wanted ones. A right value that somebody else set is
/// not enough: it would stay for ever when nobody wants it any more.
fn is_applied(wanted: &BTreeMap<String, String>, live: &BTreeMap<String, String>, ours: &BTreeSet<String>) -> bool {
    wanted.iter().all(|(key, value)| live.get(key) == Some(value)) && wanted.keys().eq(ours.iter())
}

/// Keys of the configuration that it does not name and that did not go with our own apply: somebody else set them.
fn left_over(wanted: &BTreeMap<String, String>, live: &BTreeMap<String, String>) -> BTreeSet<String> {
    let is_configured = |key: &&String| KeyOwner::of(key) == KeyOwner::Configuration;
    live.keys().filter(is_configured).filter(|key| !wanted.contains_key(*key)).cloned().collect()
}

/// Taints to plan with, from what reading them gave.
///
/// Where there is no cluster yet there is no Kubernetes to ask, and nothing carries a taint. Later an unanswered question stops the
/// round: whoever takes silence for "untainted" makes a tainted machine a control plane.
pub fn taints_to_plan_with(is_cluster_there: bool, read: Result<LiveTaints, String>) -> Result<LiveTaints, String> {
    match read {
        Err(_) if !is_cluster_there => Ok(LiveTaints::new()),
        read => read,
    }
}
