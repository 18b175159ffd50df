//! Everything the store holds, at one revision, ready to be searched. Cloning is cheap and a clone never changes, so that readers
//! need no lock and never block the task that follows the store.

mod counts;
mod plan;
mod walk;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::Ipv4Addr,
    sync::Arc,
};

use bytes::Bytes;

use sabakan_domain::{
    dhcp::DhcpConfig,
    ipam::StoredIpam,
    lifecycle::HealthState,
    machine::{Machine, Rack},
    provision::node::NodeId,
    query::Query,
    takeover,
    words::{BmcType, LabelName, LabelValue, Role, Serial},
};

pub use counts::{ByState, Counts};
pub use plan::Plan;

use super::{
    allocations::Allocations,
    chassis::ChassisTable,
    index::{Index, Slot},
    nodes::{Nodes, implied_id},
    ports::Ports,
    recipes::Recipes,
    table::Table,
};
use crate::Revision;

/// Machines a search looks at before it asks whether anybody still waits for it: about a millisecond.
const LOOKED_AT_ONCE: usize = 4_096;

/// The registry at one revision.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    pub(super) revision: Revision,
    pub(super) ipam: Option<Arc<StoredIpam>>,
    pub(super) dhcp: Option<Arc<DhcpConfig>>,
    pub(super) tokens: Arc<BTreeMap<String, Bytes>>,
    pub(super) nodes: Nodes,
    pub(super) ports: Ports,
    pub(super) chassis: ChassisTable,
    pub(super) allocations: Allocations,
    pub(super) recipes: Recipes,
    pub(super) conductors: Arc<BTreeSet<String>>,
    /// Records that are there and cannot be read, by key, with the reason.
    pub(super) unreadable: Arc<BTreeMap<String, String>>,
    /// Names (machine and disk) of disk keys that are not sealed. Never the keys.
    raw_keys: Arc<BTreeSet<String>>,
    /// Machines with values that input would refuse.
    marked: Arc<BTreeSet<Serial>>,
    table: Table<Machine>,
    by_serial: Index<Serial>,
    /// By the identifier of the node a machine has by rule.
    by_node: Index<NodeId>,
    by_ipv4: Index<Ipv4Addr>,
    by_rack: Index<Rack>,
    by_role: Index<Role>,
    by_bmc_type: Index<BmcType>,
    by_state: Index<HealthState>,
    by_label: Index<(LabelName, LabelValue)>,
}

impl Snapshot {
    /// What it shows: everything up to this revision, nothing after it.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// The address configuration, if set. It may be one that cannot be used.
    pub fn ipam(&self) -> Option<&Arc<StoredIpam>> {
        self.ipam.as_ref()
    }

    /// The DHCP configuration, if set.
    pub fn dhcp(&self) -> Option<&Arc<DhcpConfig>> {
        self.dhcp.as_ref()
    }

    /// The stored record of an access token.
    pub fn find_token(&self, id: &str) -> Option<&Bytes> {
        self.tokens.get(id)
    }

    /// What provisioning knows.
    pub fn nodes(&self) -> &Nodes {
        &self.nodes
    }

    /// Servers that do provisioning work, by name.
    pub fn conductors(&self) -> impl Iterator<Item = &str> {
        self.conductors.iter().map(String::as_str)
    }

    /// Records that are in the store and cannot be read, by key, with the reason. Nothing else in here knows of them.
    pub fn unreadable(&self) -> &BTreeMap<String, String> {
        &self.unreadable
    }

    /// Names, machine and disk, of the disk keys that an older service stored as they are.
    pub fn raw_keys(&self) -> &BTreeSet<String> {
        &self.raw_keys
    }

    /// Machines with values that an older service took and input would refuse.
    pub fn marked(&self) -> &BTreeSet<Serial> {
        &self.marked
    }

    /// How many machines there are.
    pub fn machine_count(&self) -> usize {
        self.table.len()
    }

    /// Every machine, in byte order of serials.
    pub fn machines(&self) -> impl Iterator<Item = &Arc<Machine>> {
        self.by_serial.slots().filter_map(|slot| self.table.get(slot))
    }

    /// One machine.
    pub fn find_machine(&self, serial: &str) -> Option<&Arc<Machine>> {
        self.slot_of(serial).and_then(|slot| self.table.get(slot))
    }

    /// The machine an address belongs to, its own or its controller's.
    pub fn find_by_address(&self, address: Ipv4Addr) -> Option<&Arc<Machine>> {
        self.by_ipv4.find(&address).next().and_then(|slot| self.table.get(slot))
    }

    /// The machine whose node has an identifier by rule. Found without a walk: anybody may ask, with any identifier.
    pub(super) fn find_by_implied_node(&self, id: NodeId) -> Option<&Arc<Machine>> {
        self.by_node.find(&id).next().and_then(|slot| self.table.get(slot))
    }

    /// Every machine a search means, in byte order of serials; a search by serials keeps their order and repetitions.
    pub fn search(&self, query: &Query) -> Vec<Arc<Machine>> {
        self.search_while(query, self.plan(query), || true).expect("nothing stops it")
    }

    /// The same along a plan for this search, as long as somebody wants to know; `None`: nobody did.
    pub fn search_while(&self, query: &Query, plan: Plan, wanted: impl Fn() -> bool) -> Option<Vec<Arc<Machine>>> {
        let matcher = query.matcher();
        let mut looked = 0_usize;
        let mut go_on = move || {
            looked += 1;
            !looked.is_multiple_of(LOOKED_AT_ONCE) || wanted()
        };
        let mut found = Vec::new();
        let mut look = |machine: Option<&Arc<Machine>>| {
            found.extend(machine.filter(|machine| matcher.matches(machine)).cloned());
            go_on().then_some(())
        };
        if let Some(serials) = &query.having.serials {
            serials.iter().try_for_each(|serial| look(self.find_machine(serial)))?;
            return Some(found);
        }
        match self.slots(plan) {
            None => self.by_serial.slots().try_for_each(|slot| look(self.table.get(slot)))?,
            Some(mut slots) => {
                slots.sort_unstable();
                slots.dedup();
                slots.into_iter().try_for_each(|slot| look(self.table.get(slot)))?;
                found.sort_unstable_by(|a, b| a.serial.cmp(&b.serial));
            }
        }
        Some(found)
    }

    pub(super) fn put_machine(&mut self, machine: Machine) {
        let machine = Arc::new(machine);
        let (slot, before) = match self.slot_of(machine.serial.as_str()) {
            Some(slot) => (slot, self.table.replace(slot, Some(Arc::clone(&machine)))),
            None => (self.table.add(Arc::clone(&machine)), None),
        };
        self.reindex(before.as_deref(), Some(&machine), slot);
        self.mark(&machine.serial, takeover::is_marked(&machine));
    }

    /// Forgets that a record could not be read: it can now, or it is gone.
    pub(super) fn note_readable(&mut self, key: &str) {
        if self.unreadable.contains_key(key) {
            Arc::make_mut(&mut self.unreadable).remove(key);
        }
    }

    /// Remembers the names of keys that are not sealed; the others are nobody's business here.
    pub(super) fn note_key(&mut self, name: &str, sealed: bool) {
        if sealed == self.raw_keys.contains(name) {
            let all = Arc::make_mut(&mut self.raw_keys);
            let _changed = if sealed { all.remove(name) } else { all.insert(name.to_owned()) };
        }
    }

    fn mark(&mut self, serial: &Serial, marked: bool) {
        if marked != self.marked.contains(serial) {
            let all = Arc::make_mut(&mut self.marked);
            let _changed = if marked { all.insert(serial.clone()) } else { all.remove(serial) };
        }
    }

    pub(super) fn remove_machine(&mut self, serial: &str) {
        if let Some(slot) = self.slot_of(serial) {
            let before = self.table.replace(slot, None);
            self.reindex(before.as_deref(), None, slot);
            self.mark(&Serial::stored(serial), false);
        }
    }

    fn slot_of(&self, serial: &str) -> Option<Slot> {
        self.by_serial.find(&Serial::stored(serial)).next()
    }

    /// Brings every index from the old machine to the new one; an index whose keys stay the same is not touched.
    fn reindex(&mut self, old: Option<&Machine>, new: Option<&Machine>, slot: Slot) {
        moved(&mut self.by_serial, old, new, slot, |m, keys| keys.push(m.serial.clone()));
        // Made from the serial, so that it cannot change while the slot has a machine.
        if old.is_none() || new.is_none() {
            moved(&mut self.by_node, old, new, slot, |m, keys| keys.push(implied_id(&m.serial)));
        }
        moved(&mut self.by_ipv4, old, new, slot, |m, keys| keys.extend(m.ipv4().chain(m.bmc.address())));
        moved(&mut self.by_rack, old, new, slot, |m, keys| keys.push(m.rack));
        moved(&mut self.by_role, old, new, slot, |m, keys| keys.push(m.role.clone()));
        moved(&mut self.by_bmc_type, old, new, slot, |m, keys| keys.push(m.bmc.kind.clone()));
        moved(&mut self.by_state, old, new, slot, |m, keys| keys.push(m.status.state));
        moved(&mut self.by_label, old, new, slot, |m, keys| {
            keys.extend(m.labels.iter().map(|(n, v)| (n.clone(), v.clone())));
        });
    }
}

/// Brings one index from the keys of what was in a slot to the keys of what is.
pub(super) fn moved<T, K: Ord + Clone>(
    index: &mut Index<K>,
    old: Option<&T>,
    new: Option<&T>,
    slot: Slot,
    keys_of: impl Fn(&T, &mut Vec<K>),
) {
    let keys = |value: Option<&T>| {
        let mut keys = Vec::new();
        if let Some(value) = value {
            keys_of(value, &mut keys);
        }
        keys
    };
    let (old, new) = (keys(old), keys(new));
    if old == new {
        return;
    }
    for key in old {
        index.remove(key, slot);
    }
    for key in new {
        index.insert(key, slot);
    }
}

#[cfg(test)]
mod tests;
