//! Allocations in the view: by UUID, by name, and those that want a node.

use std::sync::Arc;

use sabakan_domain::provision::{
    allocation::{Allocation, Progress},
    ids::AllocationId,
};

use super::{
    Snapshot,
    index::{Index, Slot},
    nodes::changed,
    table::Table,
};

/// Allocations at one revision.
#[derive(Debug, Clone, Default)]
pub struct Allocations {
    table: Table<Allocation>,
    by_id: Index<AllocationId>,
    by_name: Index<String>,
    /// Those that want a node.
    wanting: Index<AllocationId>,
}

impl Allocations {
    /// Every allocation, by UUID.
    pub fn list(&self) -> impl Iterator<Item = &Arc<Allocation>> {
        self.by_id.slots().filter_map(|slot| self.table.get(slot))
    }

    /// Those a node is looked for.
    pub fn wanting(&self) -> impl Iterator<Item = &Arc<Allocation>> {
        self.wanting.slots().filter_map(|slot| self.table.get(slot))
    }

    /// One of them.
    pub fn find(&self, id: AllocationId) -> Option<&Arc<Allocation>> {
        self.slot_of(id).and_then(|slot| self.table.get(slot))
    }

    /// The one with this name.
    pub fn find_by_name(&self, name: &str) -> Option<&Arc<Allocation>> {
        self.by_name.find(&name.to_owned()).next().and_then(|slot| self.table.get(slot))
    }

    fn slot_of(&self, id: AllocationId) -> Option<Slot> {
        self.by_id.find(&id).next()
    }

    fn reindex(&mut self, old: Option<&Allocation>, new: Option<&Allocation>, slot: Slot) {
        let id = |allocation: &Allocation| allocation.id;
        let name = |allocation: &Allocation| allocation.name.clone();
        let wants = |allocation: &&Allocation| allocation.progress == Progress::Allocating;
        changed(&mut self.by_id, old.map(id), new.map(id), slot);
        changed(&mut self.by_name, old.and_then(name), new.and_then(name), slot);
        changed(&mut self.wanting, old.filter(wants).map(id), new.filter(wants).map(id), slot);
    }
}

impl Snapshot {
    /// Wishes for nodes.
    pub fn allocations(&self) -> &Allocations {
        &self.allocations
    }

    pub(super) fn put_allocation(&mut self, allocation: Allocation) {
        let allocations = &mut self.allocations;
        let allocation = Arc::new(allocation);
        let (slot, before) = match allocations.slot_of(allocation.id) {
            Some(slot) => (slot, allocations.table.replace(slot, Some(Arc::clone(&allocation)))),
            None => (allocations.table.add(Arc::clone(&allocation)), None),
        };
        allocations.reindex(before.as_deref(), Some(&allocation), slot);
    }

    pub(super) fn remove_allocation(&mut self, id: &str) {
        let allocations = &mut self.allocations;
        let slot = id.parse::<AllocationId>().ok().and_then(|id| allocations.slot_of(id));
        if let Some(slot) = slot {
            let before = allocations.table.replace(slot, None);
            allocations.reindex(before.as_deref(), None, slot);
        }
    }
}
