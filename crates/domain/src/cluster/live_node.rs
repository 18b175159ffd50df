//! Nodes as Kubernetes has them: what we read of one, whose a key on it is, and which of them is which node of the configuration.
//!
//! Labels, taints, drains, cordons and the planner all ask [`find`]. Two ways to look a Node up would differ one day, and the pods of a
//! Node that one of them does not find are killed without a drain.

#[cfg(test)]
mod tests;

use std::{
    borrow::Borrow,
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt,
    net::IpAddr,
};

use jiff::Timestamp;

use super::{
    attributes,
    config::{Configuration, KUBERNETES_TAINTS, Node, Taint},
    input::LiveTaints,
};

/// The annotation with the serial of the machine behind a Node.
pub const SERIAL_ANNOTATION: &str = "cke.cybozu.com/serial";

/// Keys that say what a Node is for begin so.
const ROLE_KEYS: &str = "node-role.kubernetes.io/";

/// Labels and taints with which tools that set clusters up mark control planes, and what keeps pods away from them.
pub const CONTROL_PLANE_ROLES: [&str; 2] = ["node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"];

/// Whose a key of a label, an annotation or a taint is. The planner and whoever applies a configuration share this one answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyOwner {
    /// The configuration's. One that it does not name goes, whoever set it.
    Configuration,
    /// The role of a Node, as whoever set the cluster up gave it. One that sabakan did not set stays.
    Role,
    /// Kubernetes sets and removes it by itself.
    Kubernetes,
    /// Somebody else's.
    Others,
}

impl KeyOwner {
    /// Whose this key is.
    pub fn of(key: &str) -> KeyOwner {
        match key {
            _ if key.starts_with("cke.cybozu.com/") || key.contains(".cke.cybozu.com/") => KeyOwner::Configuration,
            _ if key.starts_with(ROLE_KEYS) => KeyOwner::Role,
            _ if key.starts_with(KUBERNETES_TAINTS) => KeyOwner::Kubernetes,
            _ => KeyOwner::Others,
        }
    }
}

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
    pub(super) fn is(&self, taint: &Taint) -> bool {
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
    /// Of taints. Their list has one owner, so what is ours in it is written down beside it.
    pub taints: BTreeSet<String>,
}

/// The condition `Ready` of a Node, which its kubelet sets and Kubernetes takes away when the kubelet is silent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadyCondition {
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// When that changed last.
    pub since: Option<Timestamp>,
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
    /// Whether its kubelet says that it works; `None`: no kubelet ever said anything.
    pub ready: Option<ReadyCondition>,
    /// What of it is ours.
    pub applied: Applied,
}

impl LiveNode {
    /// Whether its kubelet works, as far as Kubernetes knows.
    pub fn is_ready(&self) -> bool {
        self.ready.as_ref().is_some_and(|ready| ready.status == "True")
    }

    /// Whether anything differs that somebody could act on. Kubelets write to their Nodes all the time.
    pub fn differs_from(&self, other: &LiveNode) -> bool {
        let LiveNode {
            name,
            uid,
            resource_version: _,
            addresses,
            labels,
            annotations,
            taints,
            cordoned,
            ready,
            applied,
        } = self;
        let identity = (name, uid, addresses) != (&other.name, &other.uid, &other.addresses);
        let state = (taints, cordoned, ready) != (&other.taints, &other.cordoned, &other.ready);
        identity || state || (labels, annotations, applied) != (&other.labels, &other.annotations, &other.applied)
    }
}

/// Which Node is a node of the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeMatch<T> {
    /// This one.
    Found(T),
    /// None; why, for people.
    Lost(NodeLost),
}

impl<T> NodeMatch<T> {
    /// The Node, if there is one.
    pub fn found(self) -> Option<T> {
        match self {
            NodeMatch::Found(node) => Some(node),
            NodeMatch::Lost(_) => None,
        }
    }
}

/// Why it is not known which Node is a node of the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeLost {
    /// No Node has its name, its address or its serial.
    Missing {
        /// The name it was looked for by.
        name: String,
        /// The address.
        address: IpAddr,
        /// The serial, if the configuration says one.
        serial: Option<String>,
    },
    /// Several could be meant, or this one by several nodes.
    Ambiguous {
        /// The names of the Nodes.
        names: Vec<String>,
    },
}

impl fmt::Display for NodeLost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NodeLost::Missing { name, address, serial } => {
                write!(f, "Kubernetes has no Node with the name {name}, the InternalIP {address}")?;
                match serial {
                    Some(serial) => write!(f, " or the annotation {SERIAL_ANNOTATION}={serial}"),
                    None => Ok(()),
                }
            }
            NodeLost::Ambiguous { names } => {
                write!(
                    f,
                    "it is not clear which Node it is; names, addresses or serials contradict each other: {}",
                    names.join(", ")
                )
            }
        }
    }
}

/// The Nodes of the configuration, by position in it: the one with the node's name, or else the only one with its address as
/// `InternalIP`, or else the only one with its serial.
///
/// A Node that has the name of one node of the configuration is never taken for another. Where two Nodes claim one address, one Node is
/// claimed twice, or name and addresses say different things, it is not known which is meant, and none is: names that are off by one
/// would have the pods of a neighbour sent away, and those of the machine killed.
pub fn find<N: Borrow<LiveNode>>(configuration: &Configuration, live: &[N]) -> Vec<NodeMatch<usize>> {
    let nodes = &configuration.nodes;
    let by_name: HashMap<&str, usize> =
        live.iter().enumerate().map(|(at, node)| (node.borrow().name.as_str(), at)).collect();
    let mut found: Vec<Vec<usize>> =
        nodes.iter().map(|node| by_name.get(attributes::name(node).as_str()).copied().into_iter().collect()).collect();
    contradict(&mut found, nodes, live);
    claim(&mut found, nodes, live, |node| Some(node.address), |live| live.addresses.clone());
    let serial = |annotations: &BTreeMap<String, String>| annotations.get(SERIAL_ANNOTATION).cloned();
    claim(
        &mut found,
        nodes,
        live,
        |node| serial(&node.annotations),
        |live| serial(&live.annotations).into_iter().collect(),
    );
    let mut claims = vec![0_u32; live.len()];
    found.iter().filter(|found| found.len() == 1).flatten().for_each(|at| claims[*at] += 1);
    let matched = |(node, found): (&Node, Vec<usize>)| match found.as_slice() {
        [only] if claims[*only] == 1 => NodeMatch::Found(*only),
        [] => NodeMatch::Lost(NodeLost::Missing {
            name: attributes::name(node),
            address: node.address,
            serial: serial(&node.annotations),
        }),
        several => {
            let names: BTreeSet<String> = several.iter().map(|at| live[*at].borrow().name.clone()).collect();
            NodeMatch::Lost(NodeLost::Ambiguous { names: names.into_iter().collect() })
        }
    };
    nodes.iter().zip(found).map(matched).collect()
}

/// Makes doubts about what was found by name visible: whoever else claims the address of the node is found beside it, and a Node that says
/// it is at the address of another node is found twice.
fn contradict<N: Borrow<LiveNode>>(found: &mut [Vec<usize>], nodes: &[Node], live: &[N]) {
    let mut claimants: HashMap<IpAddr, Vec<usize>> = HashMap::new();
    for (at, node) in live.iter().enumerate() {
        let addresses: BTreeSet<IpAddr> = node.borrow().addresses.iter().copied().collect();
        addresses.into_iter().for_each(|address| claimants.entry(address).or_default().push(at));
    }
    let configured: BTreeSet<IpAddr> = nodes.iter().map(|node| node.address).collect();
    for (found, node) in found.iter_mut().zip(nodes) {
        let [named] = found[..] else { continue };
        let others = claimants.get(&node.address).into_iter().flatten().filter(|at| **at != named);
        found.extend(others.copied());
        let addresses = &live[named].borrow().addresses;
        let elsewhere = |address: &IpAddr| *address != node.address && configured.contains(address);
        if found.len() == 1 && !addresses.contains(&node.address) && addresses.iter().any(elsewhere) {
            // The same one twice: it is there, and it is not the one.
            found.push(named);
        }
    }
}

/// Looks for the nodes that were not found yet among the Nodes that nobody has, by something both of them say.
fn claim<N: Borrow<LiveNode>, K: Eq + std::hash::Hash + Ord>(
    found: &mut [Vec<usize>],
    nodes: &[Node],
    live: &[N],
    wanted: impl Fn(&Node) -> Option<K>,
    said: impl Fn(&LiveNode) -> Vec<K>,
) {
    let taken: BTreeSet<usize> = found.iter().flatten().copied().collect();
    let mut who: HashMap<K, Vec<usize>> = HashMap::new();
    for (at, node) in live.iter().enumerate().filter(|(at, _)| !taken.contains(at)) {
        let keys: BTreeSet<K> = said(node.borrow()).into_iter().collect();
        keys.into_iter().for_each(|key| who.entry(key).or_default().push(at));
    }
    for (found, node) in found.iter_mut().zip(nodes).filter(|(found, _)| found.is_empty()) {
        let claimed = wanted(node).and_then(|key| who.get(&key).cloned());
        *found = claimed.unwrap_or_default();
    }
}

/// Keys of the taints of all Nodes, by the address that is a Node's name, by those it says it has, and by that of the node of the
/// configuration that it is.
pub fn live_taints<N: Borrow<LiveNode>>(configuration: Option<&Configuration>, live: &[N]) -> LiveTaints {
    let mut taints = LiveTaints::new();
    let mut add = |address: IpAddr, node: &LiveNode| {
        taints.entry(address).or_default().extend(node.taints.iter().map(|taint| taint.key.clone()));
    };
    for node in live.iter().map(Borrow::borrow) {
        let addresses: BTreeSet<IpAddr> = node.name.parse().into_iter().chain(node.addresses.iter().copied()).collect();
        addresses.into_iter().for_each(|address| add(address, node));
    }
    if let Some(configuration) = configuration {
        let found = find(configuration, live).into_iter().map(NodeMatch::found);
        for (node, at) in configuration.nodes.iter().zip(found).filter_map(|(node, at)| Some((node, at?))) {
            add(node.address, live[at].borrow());
        }
    }
    taints
}
