//! Which of the nodes that have work are taken next: bounded by kind and by group, oldest first within a group, groups in turn. The
//! same function tells how long the queue before a node is, so that a machine that waits for a worker says so. What needs no worker,
//! because it only reads, is done by the server that [`looks_after`] the node.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{DefaultHasher, Hash as _, Hasher as _},
};

use jiff::Timestamp;

use super::node::{Node, Work};

/// Kinds of work that have bounds of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Power changes.
    Power,
    /// Proving credentials, taking over.
    Verify,
    /// Reading hardware.
    Inspect,
    /// Cleaning, tearing down, clearing up.
    Clean,
    /// Deploying, rescuing, servicing.
    Deploy,
}

impl Class {
    /// Every class.
    pub const ALL: [Class; 5] = [Class::Power, Class::Verify, Class::Inspect, Class::Clean, Class::Deploy];

    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Class::Power => "power",
            Class::Verify => "verify",
            Class::Inspect => "inspect",
            Class::Clean => "clean",
            Class::Deploy => "deploy",
        }
    }

    /// The class of what is to be done with a node.
    pub fn of(node: &Node) -> Class {
        match node.operation.as_ref().map(|operation| operation.work) {
            None => Class::Power,
            Some(Work::Verify | Work::Adopt) => Class::Verify,
            Some(Work::Inspect) => Class::Inspect,
            Some(Work::AutomatedClean | Work::ManualClean | Work::TearDown | Work::ClearUp) => Class::Clean,
            Some(Work::Deploy | Work::Rescue | Work::Unrescue | Work::Service | Work::RestoreService) => Class::Deploy,
        }
    }
}

/// A node that has work and nobody who does it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queued {
    /// Which.
    pub name: String,
    /// Its group.
    pub group: String,
    /// What kind of work.
    pub class: Class,
    /// Since when.
    pub since: Timestamp,
}

/// A node somebody works on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Running {
    /// Its group.
    pub group: String,
    /// What kind of work.
    pub class: Class,
}

/// Most nodes worked on at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capacity {
    /// Of each kind.
    pub per_class: BTreeMap<Class, usize>,
    /// Of each group.
    pub per_group: usize,
}

/// Those to take now, in order. `running` are all nodes worked on, by any server.
pub fn pick(queued: &[Queued], running: &[Running], capacity: &Capacity) -> Vec<String> {
    let mut used_class: BTreeMap<Class, usize> = BTreeMap::new();
    let mut used_group: BTreeMap<&str, usize> = BTreeMap::new();
    for Running { group, class } in running {
        *used_class.entry(*class).or_default() += 1;
        *used_group.entry(group).or_default() += 1;
    }
    let mut groups: BTreeMap<&str, Vec<&Queued>> = BTreeMap::new();
    for node in queued {
        groups.entry(&node.group).or_default().push(node);
    }
    for nodes in groups.values_mut() {
        nodes.sort_by(|a, b| (a.since, &a.name).cmp(&(b.since, &b.name)).reverse());
    }
    let mut picked = Vec::new();
    // In turn, beginning with the group that has least: a group with a thousand machines does not keep one with two waiting. Among
    // equals the one that waits longest: with fewer places than groups, an order by name would starve the last ones.
    while !groups.is_empty() {
        let mut order = BTreeSet::new();
        for (group, nodes) in &mut groups {
            drop_blocked(nodes, &used_class, capacity);
            order.insert((used_group.get(group).copied().unwrap_or(0), nodes.last().map(|node| node.since), *group));
        }
        for (used, _, group) in order {
            let Some(nodes) = groups.get_mut(group) else { continue };
            let node = if used < capacity.per_group { take_next(nodes, &used_class, capacity) } else { None };
            match node {
                Some(node) => {
                    *used_class.entry(node.class).or_default() += 1;
                    *used_group.entry(group).or_default() += 1;
                    picked.push(node.name.clone());
                }
                None => drop(groups.remove(group)),
            }
        }
    }
    picked
}

/// The oldest whose kind has room.
fn take_next<'a>(
    nodes: &mut Vec<&'a Queued>,
    used: &BTreeMap<Class, usize>,
    capacity: &Capacity,
) -> Option<&'a Queued> {
    drop_blocked(nodes, used, capacity);
    nodes.pop()
}

/// Passes over the oldest ones whose kind has no room. Room only shrinks while nodes are picked, so that nothing is lost by it.
fn drop_blocked(nodes: &mut Vec<&Queued>, used: &BTreeMap<Class, usize>, capacity: &Capacity) {
    let room = |class: Class| {
        let most = capacity.per_class.get(&class).copied().unwrap_or(0);
        used.get(&class).copied().unwrap_or(0) < most
    };
    while nodes.last().is_some_and(|node| !room(node.class)) {
        nodes.pop();
    }
}

/// How many nodes of the same kind are taken before this one, as things stand; `None`: it is not in the queue.
pub fn ahead(queued: &[Queued], running: &[Running], name: &str) -> Option<usize> {
    positions(queued, running).remove(name)
}

/// [`ahead`] for every queued node at once.
pub fn positions(queued: &[Queued], running: &[Running]) -> BTreeMap<String, usize> {
    let of_class = |class: Class| {
        let same: Vec<Queued> = queued.iter().filter(|node| node.class == class).cloned().collect();
        let room = Capacity { per_class: BTreeMap::from([(class, usize::MAX)]), per_group: usize::MAX };
        pick(&same, running, &room).into_iter().enumerate().map(|(ahead, name)| (name, ahead))
    };
    Class::ALL.into_iter().flat_map(of_class).collect()
}

/// Whether a server looks after a node: the one with the highest number for it among those alive. Two may think so while one comes
/// or goes; they read twice, no more.
pub fn looks_after<'a>(own: &str, node: &str, alive: impl IntoIterator<Item = &'a str>) -> bool {
    let weight = |server: &str| {
        let mut hasher = DefaultHasher::new();
        (server, node).hash(&mut hasher);
        hasher.finish()
    };
    alive.into_iter().all(|other| other == own || weight(other) <= weight(own))
}

#[cfg(test)]
mod tests;
