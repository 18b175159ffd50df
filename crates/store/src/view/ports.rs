//! Ports and port groups in the view: all of a node together, found by node, by UUID, by address, by name and by group.

use std::sync::Arc;

use sabakan_domain::{
    mac::Mac,
    provision::{
        ids::{NodeId, PortGroupId, PortId},
        node_ports::NodePorts,
        port, port_group,
    },
};

use super::{
    Snapshot,
    index::{Index, Slot},
    snapshot::moved,
    table::Table,
};

/// Ports and port groups at one revision.
#[derive(Debug, Clone, Default)]
pub struct Ports {
    table: Table<NodePorts>,
    by_node: Index<NodeId>,
    by_port: Index<PortId>,
    by_address: Index<Mac>,
    by_name: Index<String>,
    by_group: Index<PortGroupId>,
    by_group_address: Index<Mac>,
    by_group_name: Index<String>,
}

impl Ports {
    /// Those of one node.
    pub fn of_node(&self, node: NodeId) -> Option<&Arc<NodePorts>> {
        self.first(&self.by_node, &node)
    }

    /// Those of all nodes, by node.
    pub fn all(&self) -> impl Iterator<Item = &Arc<NodePorts>> {
        self.by_node.slots().filter_map(|slot| self.table.get(slot))
    }

    /// One port.
    pub fn find(&self, id: PortId) -> Option<port::Placed<'_>> {
        self.find_port(&self.by_port, &id, |port| port.id == id)
    }

    /// The port with an address.
    pub fn find_by_address(&self, address: Mac) -> Option<port::Placed<'_>> {
        self.find_port(&self.by_address, &address, |port| port.about.address == address)
    }

    /// The port with a name.
    pub fn find_by_name(&self, name: &str) -> Option<port::Placed<'_>> {
        self.find_port(&self.by_name, &name.to_owned(), |port| port.about.name.as_deref() == Some(name))
    }

    /// One port group.
    pub fn find_group(&self, id: PortGroupId) -> Option<port_group::Placed<'_>> {
        self.find_placed_group(&self.by_group, &id, |group| group.id == id)
    }

    /// The port group with an address.
    pub fn find_group_by_address(&self, address: Mac) -> Option<port_group::Placed<'_>> {
        self.find_placed_group(&self.by_group_address, &address, |group| group.about.address == Some(address))
    }

    /// The port group with a name.
    pub fn find_group_by_name(&self, name: &str) -> Option<port_group::Placed<'_>> {
        let named = |group: &port_group::PortGroup| group.about.name.as_deref() == Some(name);
        self.find_placed_group(&self.by_group_name, &name.to_owned(), named)
    }

    fn first<K: Ord + Clone>(&self, index: &Index<K>, key: &K) -> Option<&Arc<NodePorts>> {
        index.find(key).next().and_then(|slot| self.table.get(slot))
    }

    fn find_port<K: Ord + Clone>(
        &self,
        index: &Index<K>,
        key: &K,
        wanted: impl Fn(&port::Port) -> bool,
    ) -> Option<port::Placed<'_>> {
        let of_node = self.first(index, key)?;
        of_node.ports.iter().find(|port| wanted(port)).map(|port| port::Placed { node: of_node.node, port })
    }

    fn find_placed_group<K: Ord + Clone>(
        &self,
        index: &Index<K>,
        key: &K,
        wanted: impl Fn(&port_group::PortGroup) -> bool,
    ) -> Option<port_group::Placed<'_>> {
        let of_node = self.first(index, key)?;
        of_node.groups.iter().find(|group| wanted(group)).map(|group| port_group::Placed { node: of_node.node, group })
    }

    fn slot_of(&self, node: NodeId) -> Option<Slot> {
        self.by_node.find(&node).next()
    }

    fn reindex(&mut self, old: Option<&NodePorts>, new: Option<&NodePorts>, slot: Slot) {
        moved(&mut self.by_node, old, new, slot, |all, keys| keys.push(all.node));
        moved(&mut self.by_port, old, new, slot, |all, keys| keys.extend(all.ports.iter().map(|port| port.id)));
        moved(&mut self.by_address, old, new, slot, |all, keys| {
            keys.extend(all.ports.iter().map(|port| port.about.address));
        });
        moved(&mut self.by_name, old, new, slot, |all, keys| {
            keys.extend(all.ports.iter().filter_map(|port| port.about.name.clone()));
        });
        moved(&mut self.by_group, old, new, slot, |all, keys| keys.extend(all.groups.iter().map(|group| group.id)));
        moved(&mut self.by_group_address, old, new, slot, |all, keys| {
            keys.extend(all.groups.iter().filter_map(|group| group.about.address));
        });
        moved(&mut self.by_group_name, old, new, slot, |all, keys| {
            keys.extend(all.groups.iter().filter_map(|group| group.about.name.clone()));
        });
    }
}

impl Snapshot {
    /// Ports and port groups.
    pub fn ports(&self) -> &Ports {
        &self.ports
    }

    pub(super) fn put_ports(&mut self, all: NodePorts) {
        let ports = &mut self.ports;
        let all = Arc::new(all);
        let (slot, before) = match ports.slot_of(all.node) {
            Some(slot) => (slot, ports.table.replace(slot, Some(Arc::clone(&all)))),
            None => (ports.table.add(Arc::clone(&all)), None),
        };
        ports.reindex(before.as_deref(), Some(&all), slot);
    }

    pub(super) fn remove_ports(&mut self, node: &str) {
        let ports = &mut self.ports;
        let slot = node.parse::<NodeId>().ok().and_then(|node| ports.slot_of(node));
        if let Some(slot) = slot {
            let before = ports.table.replace(slot, None);
            ports.reindex(before.as_deref(), None, slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use sabakan_domain::provision::port::{About, Port};

    use super::*;

    fn mac(last: u8) -> Mac {
        Mac([2, 0, 0, 0, 0, last])
    }

    fn of(node: u128, ports: &[(u128, u8, &str)]) -> NodePorts {
        let port = |(id, address, name): &(u128, u8, &str)| Port {
            id: PortId(*id),
            about: About { name: Some((*name).to_owned()), ..About::new(mac(*address)) },
            vif: None,
            created_at: Timestamp::UNIX_EPOCH,
            updated_at: None,
        };
        NodePorts { node: NodeId(node), ports: ports.iter().map(port).collect(), groups: Vec::new() }
    }

    #[test]
    fn ports_are_found_by_what_they_have_now() {
        let mut snapshot = Snapshot::default();
        snapshot.put_ports(of(1, &[(11, 1, "a"), (12, 2, "b")]));
        snapshot.put_ports(of(2, &[(21, 3, "c")]));
        let kept = snapshot.clone();
        // The same port with another address and name, and one gone.
        snapshot.put_ports(of(1, &[(11, 9, "z")]));
        let found = |snapshot: &Snapshot, address| {
            snapshot.ports().find_by_address(mac(address)).map(|placed| (placed.node.0, placed.port.id.0))
        };
        assert_eq!((found(&kept, 1), found(&kept, 2), found(&kept, 9)), (Some((1, 11)), Some((1, 12)), None));
        assert_eq!((found(&snapshot, 1), found(&snapshot, 2)), (None, None));
        assert_eq!((found(&snapshot, 9), found(&snapshot, 3)), (Some((1, 11)), Some((2, 21))));
        assert!(snapshot.ports().find(PortId(12)).is_none() && snapshot.ports().find_by_name("a").is_none());
        assert_eq!(snapshot.ports().find_by_name("z").map(|placed| placed.port.id), Some(PortId(11)));
        snapshot.remove_ports(&NodeId(1).to_string());
        assert_eq!(snapshot.ports().all().map(|all| all.node.0).collect::<Vec<_>>(), [2]);
        assert!(snapshot.ports().of_node(NodeId(1)).is_none() && found(&snapshot, 9).is_none());
    }
}
