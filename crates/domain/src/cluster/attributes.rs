//! What a node shall carry in Kubernetes, and the next step that brings a live Node there.
//!
//! Labels and annotations are set through server-side apply, where every key has its owner: what we applied once and leave out later
//! goes by itself. Taints are one list that has one owner, so that whoever writes ours also writes everybody else's: [`next_step`]
//! keeps those of others as they were read, and whoever carries the step out does so only if the Node has not changed since.
//!
//! Decides about Nodes of the configuration only. Which of them exist is found out by [`find`]; none is ever created or deleted.

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    net::IpAddr,
};

use serde_json::Value;

use super::{
    config::{Configuration, Effect, MASTER_TAINT, Node, Taint},
    input::LiveTaints,
};

/// The label of control planes.
pub const MASTER_LABEL: &str = "cke.cybozu.com/master";
/// The annotation of whoever reboots nodes. Never set and never removed here.
pub const REBOOT_ANNOTATION: &str = "cke.cybozu.com/reboot";

/// A taint as Kubernetes has it. Unlike those of a configuration it may have an effect nobody here knows of.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct LiveTaint {
    /// What it is about.
    pub key: String,
    /// More about it.
    pub value: String,
    /// What it does, in the words of Kubernetes.
    pub effect: String,
    /// When it was added, as text. Pods that tolerate a taint for some time are counted from it, so it must survive a rewrite of the
    /// list.
    pub time_added: Option<String>,
}

impl LiveTaint {
    fn is(&self, taint: &Taint) -> bool {
        self.key == taint.key && self.value == taint.value && self.effect == taint.effect.as_str()
    }
}

impl From<&Taint> for LiveTaint {
    fn from(taint: &Taint) -> LiveTaint {
        LiveTaint {
            key: taint.key.clone(),
            value: taint.value.clone(),
            effect: taint.effect.as_str().to_owned(),
            time_added: None,
        }
    }
}

/// Keys that Kubernetes says belong to us: the ones of our last apply, unless somebody else has changed them since.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Applied {
    /// Of labels.
    pub labels: BTreeSet<String>,
    /// Of annotations.
    pub annotations: BTreeSet<String>,
}

/// A Node object, as far as we look at it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LiveNode {
    /// Its name.
    pub name: String,
    /// Tells it from another Node that had or will have this name.
    pub uid: String,
    /// Changes with every write to it, by anybody.
    pub resource_version: String,
    /// Addresses inside the cluster.
    pub addresses: Vec<IpAddr>,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
    /// Its taints, in order.
    pub taints: Vec<LiveTaint>,
    /// No new pods are put on it.
    pub cordoned: bool,
    /// What of it is ours.
    pub applied: Applied,
}

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
    /// Replace the list of taints by this one, if the Node is still as it was read.
    Taints(Vec<LiveTaint>),
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

/// Whether a key is the cluster's own, so that one nobody wants any more is removed whoever set it.
pub fn is_owned(key: &str) -> bool {
    key.starts_with("cke.cybozu.com/")
        || key.contains(".cke.cybozu.com/")
        || key.starts_with("node-role.kubernetes.io/")
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
    if let Some(taints) = taints(&wanted.taints, &live.taints) {
        return Some(Step::Taints(taints));
    }
    let is_applied = is_applied(&wanted.labels, &live.labels, &live.applied.labels)
        && is_applied(&wanted.annotations, &live.annotations, &live.applied.annotations);
    if !is_applied {
        return Some(Step::Apply { labels: wanted.labels.clone(), annotations: wanted.annotations.clone() });
    }
    let labels = left_over(&wanted.labels, &live.labels);
    let mut annotations = left_over(&wanted.annotations, &live.annotations);
    annotations.remove(REBOOT_ANNOTATION);
    let is_clean = labels.is_empty() && annotations.is_empty();
    (!is_clean).then_some(Step::Remove { labels, annotations })
}

/// The list of taints to write; `None`: the present one is right.
///
/// A key that the configuration names is the configuration's, with every value and effect. A key of ours that it does not name goes. All
/// others belong to somebody else and stay as they are, `node.kubernetes.io/not-ready` among them.
fn taints(wanted: &[Taint], live: &[LiveTaint]) -> Option<Vec<LiveTaint>> {
    let stays = |taint: &LiveTaint| {
        let is_named = wanted.iter().any(|wanted| wanted.key == taint.key);
        wanted.iter().any(|wanted| taint.is(wanted)) || !(is_named || is_owned(&taint.key))
    };
    let mut list: Vec<LiveTaint> = live.iter().filter(|taint| stays(taint)).cloned().collect();
    let missing = wanted.iter().filter(|wanted| !live.iter().any(|taint| taint.is(wanted)));
    list.extend(missing.map(LiveTaint::from));
    (list != live).then_some(list)
}

/// Whether every wanted value is there and the keys that are ours are exactly the wanted ones. A right value that somebody else set is
/// not enough: it would stay for ever when nobody wants it any more.
fn is_applied(wanted: &BTreeMap<String, String>, live: &BTreeMap<String, String>, ours: &BTreeSet<String>) -> bool {
    wanted.iter().all(|(key, value)| live.get(key) == Some(value)) && wanted.keys().eq(ours.iter())
}

/// Keys of the cluster that nobody wants and that did not go with our own apply: somebody else set them.
fn left_over(wanted: &BTreeMap<String, String>, live: &BTreeMap<String, String>) -> BTreeSet<String> {
    live.keys().filter(|key| is_owned(key) && !wanted.contains_key(*key)).cloned().collect()
}

/// The Nodes of the configuration, by position in it: the one with the node's name, or else the only one that has its address.
///
/// A Node that has the name of one node of the configuration is never taken for another. Where two Nodes claim one address, or one
/// Node is claimed twice, it is not known which is meant, and none is.
pub fn find(configuration: &Configuration, live: &[LiveNode]) -> Vec<Option<usize>> {
    let by_name: HashMap<&str, usize> = live.iter().enumerate().map(|(at, node)| (node.name.as_str(), at)).collect();
    let named: Vec<Option<usize>> =
        configuration.nodes.iter().map(|node| by_name.get(name(node).as_str()).copied()).collect();
    let taken: BTreeSet<usize> = named.iter().flatten().copied().collect();
    let mut by_address: HashMap<IpAddr, Vec<usize>> = HashMap::new();
    for (at, node) in live.iter().enumerate().filter(|(at, _)| !taken.contains(at)) {
        let addresses: BTreeSet<IpAddr> = node.addresses.iter().copied().collect();
        addresses.into_iter().for_each(|address| by_address.entry(address).or_default().push(at));
    }
    let addressed = |node: &Node| match by_address.get(&node.address).map(Vec::as_slice) {
        Some([only]) => Some(*only),
        _ => None,
    };
    let mut found: Vec<Option<usize>> =
        named.into_iter().zip(&configuration.nodes).map(|(named, node)| named.or_else(|| addressed(node))).collect();
    let mut claims = vec![0_u32; live.len()];
    found.iter().flatten().for_each(|at| claims[*at] += 1);
    for claim in &mut found {
        *claim = claim.filter(|at| claims[*at] == 1);
    }
    found
}

/// Keys of the taints of all Nodes, by the address that is a Node's name and by those it says it has.
pub fn live_taints(live: &[LiveNode]) -> LiveTaints {
    let mut taints = LiveTaints::new();
    for node in live {
        let addresses: BTreeSet<IpAddr> = node.name.parse().into_iter().chain(node.addresses.iter().copied()).collect();
        for address in addresses {
            taints.entry(address).or_default().extend(node.taints.iter().map(|taint| taint.key.clone()));
        }
    }
    taints
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
