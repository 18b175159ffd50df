//! The configuration of a cluster: what the planner makes, what people may write by hand, what is carried out.
//!
//! Its JSON document is a public format that other programs read, so it is written here, once, and stored and shown as it is.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use serde_json::{Map, Value, json};

use super::{
    constraints::Constraints,
    names::{self, rules},
    shape::{self, Checker, Place, Problem},
    template::tables::{ANNOTATIONS_TOO_LARGE, CONFIGURATION, WITHOUT_NODES},
};

/// The label with the role of a node.
pub const ROLE: &str = "cke.cybozu.com/role";
/// The label of a worker template with its share of the cluster.
pub const WEIGHT: &str = "cke.cybozu.com/weight";
/// The taint that tells the state of a machine.
pub const STATE_TAINT: &str = "cke.cybozu.com/state";
/// The taint of control planes.
pub const MASTER_TAINT: &str = "cke.cybozu.com/master";
/// Taints that Kubernetes itself sets and takes away begin so.
pub const KUBERNETES_TAINTS: &str = "node.kubernetes.io/";

/// What a taint does to pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Effect {
    /// New pods go elsewhere.
    NoSchedule,
    /// New pods go elsewhere if they can.
    PreferNoSchedule,
    /// All pods go.
    NoExecute,
}

impl Effect {
    /// Every effect.
    pub const ALL: [Effect; 3] = [Effect::NoSchedule, Effect::PreferNoSchedule, Effect::NoExecute];

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Effect::NoSchedule => "NoSchedule",
            Effect::PreferNoSchedule => "PreferNoSchedule",
            Effect::NoExecute => "NoExecute",
        }
    }

    /// The effect with this name.
    pub fn parse(name: &str) -> Option<Effect> {
        Effect::ALL.into_iter().find(|effect| effect.as_str() == name)
    }
}

/// Keeps pods away from a node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Taint {
    /// What it is about.
    pub key: String,
    /// More about it.
    pub value: String,
    /// What it does.
    pub effect: Effect,
}

impl Taint {
    pub(super) fn document(&self) -> Value {
        json!({ "key": self.key, "value": self.value, "effect": self.effect.as_str() })
    }
}

/// One machine of the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Its address, which is also its identity, and its name in Kubernetes unless it has another.
    pub address: IpAddr,
    /// Another name in Kubernetes, from the pattern of its template or written by hand; empty: its address.
    pub hostname: String,
    /// Who logs in on it.
    pub user: String,
    /// Runs the control plane.
    pub control_plane: bool,
    /// Annotations in Kubernetes.
    pub annotations: BTreeMap<String, String>,
    /// Labels in Kubernetes.
    pub labels: BTreeMap<String, String>,
    /// Taints in Kubernetes, in order.
    pub taints: Vec<Taint>,
}

impl Node {
    /// The taint that tells the state of its machine, if it has one. Only the first counts.
    pub fn state_taint(&self) -> Option<&Taint> {
        self.taints.iter().find(|taint| taint.key == STATE_TAINT)
    }

    /// From a node of a configuration that was checked.
    fn of(node: &Value) -> Node {
        let text = |name: &str| node.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        Node {
            address: text("address").parse().expect("the table accepts only addresses"),
            hostname: text("hostname"),
            user: text("user"),
            control_plane: node.get("control_plane") == Some(&Value::Bool(true)),
            annotations: pairs(node, "annotations"),
            labels: pairs(node, "labels"),
            taints: taints(node),
        }
    }

    /// What the table of nodes says, for a node that is not JSON. Its address is one by its type, an effect too.
    fn check(&self, place: &Place<'_>, checker: &mut Checker) {
        checker.text(&place.key("user"), &shape::rules::NOT_EMPTY, &self.user);
        let annotations = place.key("annotations");
        for key in self.annotations.keys() {
            checker.text(&annotations.key(key), &rules::ANNOTATION_KEY, key);
        }
        let pairs = self.annotations.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        if !names::annotations_fit(pairs) {
            checker.problem(&annotations, ANNOTATIONS_TOO_LARGE);
        }
        let labels = place.key("labels");
        for (key, value) in &self.labels {
            checker.text(&labels.key(key), &rules::LABEL_KEY, key);
            checker.text(&labels.key(key), &rules::LABEL_VALUE, value);
        }
        for (index, Taint { key, value, effect: _ }) in self.taints.iter().enumerate() {
            let taints = place.key("taints");
            let place = taints.index(index);
            checker.text(&place.key("key"), &rules::LABEL_KEY, key);
            checker.text(&place.key("value"), &rules::LABEL_VALUE, value);
        }
    }

    fn document(&self) -> Value {
        let taints: Vec<Value> = self.taints.iter().map(Taint::document).collect();
        json!({
            "address": self.address.to_string(),
            "hostname": self.hostname,
            "user": self.user,
            "control_plane": self.control_plane,
            "annotations": self.annotations,
            "labels": self.labels,
            "taints": if taints.is_empty() { Value::Null } else { Value::Array(taints) },
        })
    }
}

/// A cluster.
#[derive(Debug, Clone, PartialEq)]
pub struct Configuration {
    /// Its nodes, control planes first when the planner made it.
    pub nodes: Vec<Node>,
    /// Everything else, as the template says.
    pub rest: Map<String, Value>,
}

impl Configuration {
    /// Reads a configuration that somebody wrote or that was stored, fills defaults in, and refuses what cannot work, all of it at
    /// once. What [`Configuration::document`] gives is read as it was.
    pub fn parse(document: Value) -> Result<Configuration, Vec<Problem>> {
        let problems = shape::check(&CONFIGURATION, &document);
        let Value::Object(mut rest) = document else { return Err(problems) };
        if !problems.is_empty() {
            return Err(problems);
        }
        shape::fill(&CONFIGURATION, &mut rest);
        let nodes = rest.remove("nodes").unwrap_or_default();
        let nodes = nodes.as_array().map_or(&[][..], Vec::as_slice).iter().map(Node::of).collect();
        let configuration = Configuration { nodes, rest };
        let mut checker = Checker::default();
        configuration.check_addresses(&mut checker);
        let problems = checker.finish();
        if problems.is_empty() { Ok(configuration) } else { Err(problems) }
    }

    /// Everything that is wrong with it.
    pub fn check(&self) -> Vec<Problem> {
        let mut checker = Checker::default();
        for (index, node) in self.nodes.iter().enumerate() {
            node.check(&Place::ROOT.key("nodes").index(index), &mut checker);
        }
        self.check_addresses(&mut checker);
        checker.members(&Place::ROOT, &WITHOUT_NODES, &self.rest);
        checker.finish()
    }

    /// Where it does not keep to the constraints.
    pub fn check_constraints(&self, constraints: &Constraints) -> Vec<Problem> {
        let control_planes = self.nodes.iter().filter(|node| node.control_plane).count();
        let workers = self.nodes.len() - control_planes;
        let Constraints { control_plane_count, minimum_workers, maximum_workers, .. } = *constraints;
        let mut problems = Vec::new();
        if control_planes != control_plane_count as usize {
            let reason = format!("has {control_planes} control planes; control-plane-count is {control_plane_count}");
            problems.push(Problem::new("nodes", reason));
        }
        if maximum_workers != 0 && workers > maximum_workers as usize {
            let reason = format!("has {workers} workers; maximum-workers is {maximum_workers}");
            problems.push(Problem::new("nodes", reason));
        }
        if workers < minimum_workers as usize {
            let reason = format!("has {workers} workers; minimum-workers is {minimum_workers}");
            problems.push(Problem::new("nodes", reason));
        }
        problems
    }

    /// No address is used twice: it is the identity of a node.
    fn check_addresses(&self, checker: &mut Checker) {
        for (index, first) in shape::repeats(self.nodes.iter().map(|node| Some(node.address))) {
            let reason = format!("{} is the address of nodes[{first}] too", self.nodes[index].address);
            checker.problem(&Place::ROOT.key("nodes").index(index).key("address"), reason);
        }
    }

    /// The published document. Members are in the order of their names, so the same configuration has the same bytes.
    pub fn document(&self) -> Value {
        let mut members: BTreeMap<String, Value> = self.rest.clone().into_iter().collect();
        members.insert("nodes".to_owned(), self.nodes.iter().map(Node::document).collect());
        Value::Object(members.into_iter().collect())
    }

    /// Addresses of its control planes.
    pub fn control_planes(&self) -> BTreeSet<IpAddr> {
        self.nodes.iter().filter(|node| node.control_plane).map(|node| node.address).collect()
    }

    /// Addresses of its workers.
    pub fn workers(&self) -> BTreeSet<IpAddr> {
        self.nodes.iter().filter(|node| !node.control_plane).map(|node| node.address).collect()
    }
}

/// Names and values of a node that was checked.
pub(super) fn pairs(node: &Value, name: &str) -> BTreeMap<String, String> {
    let members = node.get(name).and_then(Value::as_object);
    let pairs = members.into_iter().flatten();
    pairs.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}

/// Taints of a node that was checked.
pub(super) fn taints(node: &Value) -> Vec<Taint> {
    let items = node.get("taints").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let text = |taint: &Value, name: &str| taint.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let taint = |taint: &Value| {
        let effect = Effect::parse(&text(taint, "effect"))?;
        Some(Taint { key: text(taint, "key"), value: text(taint, "value"), effect })
    };
    items.iter().filter_map(taint).collect()
}

#[cfg(test)]
mod tests;
