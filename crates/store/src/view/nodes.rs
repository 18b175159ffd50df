//! Nodes in the view: those somebody has asked something about, and by rule one for every other machine.

use std::{collections::BTreeMap, sync::Arc};

use sabakan_domain::{
    machine::Machine,
    provision::{
        node::{Node, NodeId},
        states::Kind,
    },
    words::Serial,
};
use uuid::Uuid;

use super::{
    Snapshot,
    index::{Index, Slot},
    table::Table,
};
use crate::{Revision, records::LockRecord};

/// Who works on a node, and the revision that proves it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lock {
    /// What the worker says.
    pub record: LockRecord,
    /// When it was written.
    pub revision: Revision,
}

/// Stored nodes at one revision.
#[derive(Debug, Clone, Default)]
pub struct Nodes {
    table: Table<Node>,
    by_name: Index<Serial>,
    by_id: Index<NodeId>,
    /// Those with work or a power change under way.
    with_work: Index<Serial>,
    locks: Arc<BTreeMap<String, Lock>>,
}

/// The namespace of identifiers made from serials; made once, never changed.
const NAMESPACE: Uuid = Uuid::from_u128(0x6f1b_2c6e_9d0f_4a51_8c57_3e0d_7a94_b2c1);

/// The identifier of the node of a machine nobody has asked anything about: the same on every server and after every restart.
pub fn implied_id(serial: &Serial) -> NodeId {
    NodeId(Uuid::new_v5(&NAMESPACE, serial.as_str().as_bytes()).as_u128())
}

/// The node every registered machine has by rule.
pub(crate) fn implied(machine: &Machine) -> Node {
    Node::implied(implied_id(&machine.serial), machine.serial.clone(), machine.register_date)
}

impl Nodes {
    /// Stored nodes, in byte order of their names.
    pub fn stored(&self) -> impl Iterator<Item = &Arc<Node>> {
        self.by_name.slots().filter_map(|slot| self.table.get(slot))
    }

    /// Stored nodes with work or a power change under way.
    pub fn with_work(&self) -> impl Iterator<Item = &Arc<Node>> {
        self.with_work.slots().filter_map(|slot| self.table.get(slot))
    }

    /// How many nodes have work or a power change under way.
    pub fn with_work_count(&self) -> usize {
        self.with_work.len()
    }

    /// A stored node.
    pub fn find(&self, name: &str) -> Option<&Arc<Node>> {
        self.slot_of(name).and_then(|slot| self.table.get(slot))
    }

    /// A stored node by its identifier.
    pub fn find_by_id(&self, id: NodeId) -> Option<&Arc<Node>> {
        self.by_id.find(&id).next().and_then(|slot| self.table.get(slot))
    }

    /// Who works on a node.
    pub fn lock(&self, name: &str) -> Option<&Lock> {
        self.locks.get(name)
    }

    /// Everybody who works on a node.
    pub fn locks(&self) -> impl Iterator<Item = (&str, &Lock)> {
        self.locks.iter().map(|(name, lock)| (name.as_str(), lock))
    }

    fn slot_of(&self, name: &str) -> Option<Slot> {
        self.by_name.find(&Serial::stored(name)).next()
    }
}

impl Snapshot {
    /// A node by name, stored or by rule.
    pub fn find_node(&self, name: &str) -> Option<Arc<Node>> {
        let by_rule = || self.find_machine(name).map(|machine| Arc::new(implied(machine)));
        self.nodes.find(name).cloned().or_else(by_rule)
    }

    /// A node by identifier, stored or by rule.
    pub fn find_node_by_id(&self, id: NodeId) -> Option<Arc<Node>> {
        if let Some(node) = self.nodes.find_by_id(id) {
            return Some(Arc::clone(node));
        }
        let machine = self.find_by_implied_node(id)?;
        self.find_node(machine.serial.as_str()).filter(|node| node.id == id)
    }

    pub(super) fn put_node(&mut self, node: Node) {
        let nodes = &mut self.nodes;
        let node = Arc::new(node);
        let (slot, before) = match nodes.slot_of(node.name.as_str()) {
            Some(slot) => (slot, nodes.table.replace(slot, Some(Arc::clone(&node)))),
            None => (nodes.table.add(Arc::clone(&node)), None),
        };
        nodes.reindex(before.as_deref(), Some(&node), slot);
    }

    pub(super) fn remove_node(&mut self, name: &str) {
        let nodes = &mut self.nodes;
        if let Some(slot) = nodes.slot_of(name) {
            let before = nodes.table.replace(slot, None);
            nodes.reindex(before.as_deref(), None, slot);
        }
    }

    pub(super) fn put_lock(&mut self, name: &str, lock: Lock) {
        Arc::make_mut(&mut self.nodes.locks).insert(name.to_owned(), lock);
    }

    pub(super) fn remove_lock(&mut self, name: &str) {
        Arc::make_mut(&mut self.nodes.locks).remove(name);
    }
}

impl Nodes {
    fn reindex(&mut self, old: Option<&Node>, new: Option<&Node>, slot: Slot) {
        // A busy node without work cannot be; if it is, a worker has to find it and say so.
        let busy = |node: &Node| matches!(node.state.kind(), Kind::Busy | Kind::Waiting);
        let has_work = |node: &&Node| node.operation.is_some() || node.power.action.is_some() || busy(node);
        let name = |node: &Node| node.name.clone();
        changed(&mut self.by_name, old.map(name), new.map(name), slot);
        changed(&mut self.by_id, old.map(|node| node.id), new.map(|node| node.id), slot);
        changed(&mut self.with_work, old.filter(has_work).map(name), new.filter(has_work).map(name), slot);
    }
}

pub(super) fn changed<K: Ord + Clone>(index: &mut Index<K>, old: Option<K>, new: Option<K>, slot: Slot) {
    if old == new {
        return;
    }
    if let Some(key) = old {
        index.remove(key, slot);
    }
    if let Some(key) = new {
        index.insert(key, slot);
    }
}
