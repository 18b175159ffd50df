//! The ports and port groups of one node, and the networks they are attached to. They are one record: rules among them then compare
//! one key, and go with their node in the transaction that forgets it.

use std::collections::BTreeMap;

use super::{
    ids::{NodeId, PortGroupId, PortId},
    interfaces::Slot,
    port::{Port, PortRefusal, conflict, invalid},
    port_group::PortGroup,
};
use crate::{limits, mac::Mac};

/// The ports and port groups of one node, each in the order they were made.
#[derive(Debug, Clone, PartialEq)]
pub struct NodePorts {
    /// The node.
    pub node: NodeId,
    /// Its ports.
    pub ports: Vec<Port>,
    /// Its port groups.
    pub groups: Vec<PortGroup>,
}

/// A network to attach to a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vif {
    /// What the caller calls it.
    pub id: String,
    /// Where to; `None`: wherever there is room.
    pub to: Option<VifTarget>,
}

/// What a network is attached to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VifTarget {
    /// A port.
    Port(PortId),
    /// A port group.
    Group(PortGroupId),
}

impl NodePorts {
    /// Nothing yet.
    pub fn none_of(node: NodeId) -> NodePorts {
        NodePorts { node, ports: Vec::new(), groups: Vec::new() }
    }

    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.ports.is_empty() && self.groups.is_empty()
    }

    /// A port.
    pub fn port(&self, id: PortId) -> Option<&Port> {
        self.ports.iter().find(|port| port.id == id)
    }

    /// A port group.
    pub fn group(&self, id: PortGroupId) -> Option<&PortGroup> {
        self.groups.iter().find(|group| group.id == id)
    }

    /// Ports in a group.
    pub fn members(&self, group: PortGroupId) -> impl Iterator<Item = &Port> {
        self.ports.iter().filter(move |port| port.about.group == Some(group))
    }

    /// Whether another port or group may be made.
    pub fn check_room(&self) -> Result<(), PortRefusal> {
        if self.ports.len() + self.groups.len() < limits::NODE_PORTS_MAX {
            return Ok(());
        }
        let max = limits::NODE_PORTS_MAX;
        Err(invalid(format!("node {} has {max} ports and port groups, and cannot have more", self.node)))
    }

    /// The same with a port made or changed.
    #[must_use]
    pub fn with_port(&self, port: Port) -> NodePorts {
        let mut next = self.clone();
        match next.ports.iter_mut().find(|known| known.id == port.id) {
            Some(known) => *known = port,
            None => next.ports.push(port),
        }
        next
    }

    /// The same without a port.
    #[must_use]
    pub fn without_port(&self, id: PortId) -> NodePorts {
        let mut next = self.clone();
        next.ports.retain(|port| port.id != id);
        next
    }

    /// The same with a group made or changed.
    #[must_use]
    pub fn with_group(&self, group: PortGroup) -> NodePorts {
        let mut next = self.clone();
        match next.groups.iter_mut().find(|known| known.id == group.id) {
            Some(known) => *known = group,
            None => next.groups.push(group),
        }
        next
    }

    /// The same without a group.
    #[must_use]
    pub fn without_group(&self, id: PortGroupId) -> NodePorts {
        let mut next = self.clone();
        next.groups.retain(|group| group.id != id);
        next
    }

    /// Networks that are attached: those of groups, then those of ports.
    pub fn vifs(&self) -> impl Iterator<Item = &str> {
        self.attached().map(|(_, vif)| vif)
    }

    fn attached(&self) -> impl Iterator<Item = (VifTarget, &str)> {
        let groups = self.groups.iter().filter_map(|group| Some((VifTarget::Group(group.id), group.vif.as_deref()?)));
        let ports = self.ports.iter().filter_map(|port| Some((VifTarget::Port(port.id), port.vif.as_deref()?)));
        groups.chain(ports)
    }

    /// Whether networks are none of our business: somebody chose so, and there is nothing to note one with. Any network is then
    /// attached and detached, and none is remembered.
    pub fn ignores_networks(&self, interfaces: &BTreeMap<Slot, String>) -> bool {
        self.ports.is_empty() && interfaces.get(&Slot::Network).is_some_and(|chosen| chosen == "noop")
    }

    /// The same with a network attached.
    pub fn attach(&self, vif: &Vif) -> Result<NodePorts, PortRefusal> {
        if vif.id.is_empty() || vif.id.len() > limits::NODE_TEXT_BYTES_MAX {
            let max = limits::NODE_TEXT_BYTES_MAX;
            return Err(invalid(format!("the id of a VIF has 1 to {max} bytes")));
        }
        if let Some((target, _)) = self.attached().find(|(_, known)| *known == vif.id) {
            return Err(conflict(format!(
                "Unable to attach VIF because VIF {} is already attached to {target}",
                vif.id
            )));
        }
        let free = self.free();
        let target = match vif.to {
            None => free.first().copied(),
            Some(wanted) => {
                self.check_known(wanted)?;
                free.into_iter().find(|target| *target == wanted)
            }
        };
        let target = target
            .ok_or_else(|| invalid(format!("Unable to attach VIF {}, not enough free physical ports.", vif.id)))?;
        Ok(self.holding(target, Some(&vif.id)))
    }

    /// The same with a network detached.
    pub fn detach(&self, vif: &str) -> Result<NodePorts, PortRefusal> {
        let (target, _) = self.attached().find(|(_, known)| *known == vif).ok_or_else(|| {
            invalid(format!("Unable to detach VIF {vif} from node {} because it is not attached to it.", self.node))
        })?;
        Ok(self.holding(target, None))
    }

    /// What a network can be attached to, best first: groups before ports, because a port of a group is only a part of a link; ports
    /// the machine boots through before others.
    fn free(&self) -> Vec<VifTarget> {
        let group_free = |group: &&PortGroup| {
            group.vif.is_none()
                && self.members(group.id).next().is_some()
                && self.members(group.id).all(|port| port.vif.is_none())
        };
        // A port of a group that is in use, or whose ports cannot be used one by one, is not free.
        let alone = |port: &&Port| match port.about.group.and_then(|group| self.group(group)) {
            Some(group) => group.about.standalone_ports_supported && group.vif.is_none(),
            None => true,
        };
        let mut ports: Vec<&Port> = self.ports.iter().filter(|port| port.vif.is_none()).filter(alone).collect();
        ports.sort_by_key(|port| !port.about.pxe_enabled);
        let groups = self.groups.iter().filter(group_free).map(|group| VifTarget::Group(group.id));
        groups.chain(ports.into_iter().map(|port| VifTarget::Port(port.id))).collect()
    }

    fn check_known(&self, target: VifTarget) -> Result<(), PortRefusal> {
        let known = match target {
            VifTarget::Port(id) => self.port(id).is_some(),
            VifTarget::Group(id) => self.group(id).is_some(),
        };
        if known { Ok(()) } else { Err(invalid(format!("{target} could not be found on node {}.", self.node))) }
    }

    fn holding(&self, target: VifTarget, vif: Option<&str>) -> NodePorts {
        let mut next = self.clone();
        let vif = vif.map(str::to_owned);
        match target {
            VifTarget::Port(id) => {
                next.ports.iter_mut().filter(|port| port.id == id).for_each(|port| port.vif.clone_from(&vif));
            }
            VifTarget::Group(id) => {
                next.groups.iter_mut().filter(|group| group.id == id).for_each(|group| group.vif.clone_from(&vif));
            }
        }
        next
    }

    /// Whether a port has an address.
    pub fn has_address(&self, address: Mac) -> bool {
        self.ports.iter().any(|port| port.about.address == address)
    }
}

impl std::fmt::Display for VifTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            VifTarget::Port(id) => write!(f, "Port {id}"),
            VifTarget::Group(id) => write!(f, "Portgroup {id}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::provision::{port, port_group};

    fn mac(last: u8) -> Mac {
        Mac([2, 0, 0, 0, 0, last])
    }

    fn port(n: u8, pxe_enabled: bool, group: Option<u128>) -> Port {
        let about = port::About { pxe_enabled, group: group.map(PortGroupId), ..port::About::new(mac(n)) };
        let (created_at, updated_at) = (Timestamp::UNIX_EPOCH, None);
        Port { id: PortId(n.into()), about, vif: None, created_at, updated_at }
    }

    fn group(n: u128, standalone_ports_supported: bool) -> PortGroup {
        let about = port_group::About { standalone_ports_supported, ..port_group::About::default() };
        PortGroup { id: PortGroupId(n), about, vif: None, created_at: Timestamp::UNIX_EPOCH, updated_at: None }
    }

    fn attach(ports: &NodePorts, id: &str, to: Option<VifTarget>) -> Result<NodePorts, PortRefusal> {
        ports.attach(&Vif { id: id.to_owned(), to })
    }

    #[test]
    fn networks_are_ignored_where_somebody_chose_so_and_there_is_nothing_to_note_them_with() {
        let check = |ports: Vec<Port>, network: Option<&str>, expected: bool| {
            let chosen = network.map(|network| (Slot::Network, network.to_owned())).into_iter().collect();
            assert_eq!(NodePorts { node: NodeId(7), ports, groups: Vec::new() }.ignores_networks(&chosen), expected);
        };
        check(Vec::new(), Some("noop"), true);
        check(Vec::new(), Some("flat"), false);
        check(Vec::new(), None, false);
        check(vec![port(1, true, None)], Some("noop"), false);
    }

    #[test]
    fn networks_go_to_the_best_free_place() {
        let ports = vec![port(1, false, None), port(2, true, None), port(3, true, Some(1)), port(4, true, Some(2))];
        let mut all =
            NodePorts { node: NodeId(7), ports, groups: vec![group(1, false), group(2, true), group(3, true)] };
        let mut places = Vec::new();
        for n in 0..4 {
            let id = format!("net{n}");
            all = attach(&all, &id, None).expect("there is room");
            places.extend(all.attached().find(|(_, vif)| *vif == id).map(|(target, _)| target.to_string()));
        }
        let expected = [
            VifTarget::Group(PortGroupId(1)),
            VifTarget::Group(PortGroupId(2)),
            VifTarget::Port(PortId(2)),
            VifTarget::Port(PortId(1)),
        ];
        assert_eq!(places, expected.map(|target| target.to_string()));
        assert!(
            matches!(attach(&all, "net9", None), Err(PortRefusal::Invalid(why)) if why.contains("not enough free"))
        );
        assert!(matches!(attach(&all, "net0", None), Err(PortRefusal::Conflict(_))), "attached already");
        let freed = all.detach("net2").expect("it is attached");
        assert_eq!(freed.vifs().collect::<Vec<_>>(), ["net0", "net1", "net3"]);
        assert!(matches!(freed.detach("net2"), Err(PortRefusal::Invalid(_))));
    }

    #[test]
    fn a_network_can_be_sent_to_a_place() {
        let ports = vec![port(1, true, None), port(2, false, None), port(3, true, Some(1))];
        let all = NodePorts { node: NodeId(7), ports, groups: vec![group(1, false)] };
        let to = |n| Some(VifTarget::Port(PortId(n)));
        let attached = attach(&all, "net", to(2)).expect("it is free");
        assert_eq!(attached.port(PortId(2)).and_then(|port| port.vif.as_deref()), Some("net"));
        for (target, text) in [(to(2), "not enough free"), (to(9), "could not be found"), (to(3), "not enough free")] {
            let refused = attach(&attached, "other", target).expect_err("no room");
            assert!(refused.to_string().contains(text), "{refused}");
        }
        assert!(matches!(attach(&all, "", None), Err(PortRefusal::Invalid(_))));
        assert!(matches!(attach(&all, &"x".repeat(256), None), Err(PortRefusal::Invalid(_))));
    }

    #[test]
    fn a_node_has_a_bounded_number() {
        let mut all = NodePorts::none_of(NodeId(7));
        for n in 0..u8::try_from(limits::NODE_PORTS_MAX).expect("small") {
            all.check_room().expect("there is room");
            all = all.with_port(port(n, true, None));
        }
        assert!(matches!(all.check_room(), Err(PortRefusal::Invalid(_))));
        assert!(all.without_port(PortId(3)).check_room().is_ok());
    }
}
