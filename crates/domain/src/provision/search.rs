//! Which nodes a caller wants to see, and in which order.

use super::{
    edit,
    ids::ChassisId,
    interfaces::{self, Slot},
    node::{Fault, Node, NodeId},
    states::State,
};
use crate::lifecycle::HealthState;

/// What a search looks at.
#[derive(Debug, Clone, Copy)]
pub struct Candidate<'a> {
    /// The node.
    pub node: &'a Node,
    /// The lifecycle state of its machine.
    pub machine: Option<HealthState>,
    /// Its driver.
    pub driver: Option<&'a str>,
    /// Who works on it.
    pub holder: Option<&'a str>,
    /// Who works on it, or would.
    pub conductor: Option<&'a str>,
}

/// Conditions. Absent ones hold for every node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Filter {
    /// The workload on it.
    pub instance_uuid: Option<String>,
    /// The workload on it, by name.
    pub instance_name: Option<String>,
    /// The chassis it is in.
    pub chassis: Option<ChassisId>,
    /// Whether it has a workload.
    pub associated: Option<bool>,
    /// Whether automation keeps its hands off.
    pub maintenance: Option<bool>,
    /// Whether it is to be retired.
    pub retired: Option<bool>,
    /// Where it is, in the words of the API.
    pub provision_state: Option<String>,
    /// Its driver.
    pub driver: Option<String>,
    /// What kind of machine it is.
    pub resource_class: Option<String>,
    /// Why the engine stopped looking after it.
    pub fault: Option<String>,
    /// Its group.
    pub conductor_group: Option<String>,
    /// Who works on it, or would.
    pub conductor: Option<String>,
    /// Whose it is.
    pub owner: Option<String>,
    /// Who has it for a while.
    pub lessee: Option<String>,
    /// Either of the two.
    pub project: Option<String>,
    /// A part of its description.
    pub description_contains: Option<String>,
    /// One of these parts of a divided fleet.
    pub shard: Option<Vec<String>>,
    /// Whether it is in one at all.
    pub sharded: Option<bool>,
    /// The node it is a part of.
    pub parent_node: Option<NodeId>,
    /// Parts of other nodes are shown as well.
    pub include_children: bool,
}

impl Filter {
    /// Whether every node that is no part of another meets it.
    pub fn is_empty(&self) -> bool {
        *self == Filter::default()
    }

    /// Whether a node meets every condition.
    pub fn matches(&self, candidate: &Candidate<'_>) -> bool {
        let Candidate { node, machine, driver, holder: _, conductor } = *candidate;
        let details = &node.details;
        let same = |wanted: &Option<String>, has: Option<&str>| wanted.as_deref().is_none_or(|text| has == Some(text));
        let is = |wanted: Option<bool>, has: bool| wanted.is_none_or(|wanted| wanted == has);
        let (owner, lessee) = (details.owner.as_deref(), details.lessee.as_deref());
        let fault = node.maintenance.as_ref().and_then(|maintenance| maintenance.fault).map(Fault::as_str);
        let described = |part: &str| details.description.as_ref().is_some_and(|text| text.contains(part));
        let in_shard = |wanted: &Vec<String>| details.shard.as_ref().is_some_and(|shard| wanted.contains(shard));
        let family = match self.parent_node {
            Some(parent) => details.parent == Some(parent),
            None => self.include_children || details.parent.is_none(),
        };
        family
            && self.chassis.is_none_or(|wanted| details.chassis == Some(wanted))
            && same(&self.instance_uuid, details.instance_uuid.as_deref())
            && same(&self.instance_name, details.instance_name.as_deref())
            && is(self.associated, details.instance_uuid.is_some())
            && is(self.maintenance, node.maintenance.is_some())
            && is(self.retired, edit::is_retired(node, machine))
            && same(&self.provision_state, Some(node.state.wire()))
            && same(&self.driver, driver)
            && same(&self.resource_class, details.resource_class.as_deref())
            && same(&self.fault, fault)
            && same(&self.conductor_group, Some(&node.group))
            && same(&self.conductor, conductor)
            && same(&self.owner, owner)
            && same(&self.lessee, lessee)
            && self.project.as_deref().is_none_or(|text| owner == Some(text) || lessee == Some(text))
            && self.description_contains.as_deref().is_none_or(described)
            && self.shard.as_ref().is_none_or(in_shard)
            && is(self.sharded, details.shard.is_some())
    }
}

/// What nodes are ordered by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SortKey {
    /// When they were made, then by name.
    Created,
    /// A member of the node, by its name in the API.
    Member(&'static str),
}

/// Members that nodes can be ordered by.
const SORTABLE: &[&str] = &[
    "allocation_uuid",
    "automated_clean",
    "boot_mode",
    "chassis_uuid",
    "conductor_group",
    "console_enabled",
    "created_at",
    "description",
    "disable_power_off",
    "driver",
    "fault",
    "health",
    "inspection_finished_at",
    "inspection_started_at",
    "instance_name",
    "instance_uuid",
    "last_error",
    "lessee",
    "maintenance",
    "maintenance_reason",
    "name",
    "owner",
    "parent_node",
    "power_state",
    "protected",
    "protected_reason",
    "provision_state",
    "provision_updated_at",
    "reservation",
    "resource_class",
    "retired",
    "retired_reason",
    "secure_boot",
    "shard",
    "target_power_state",
    "target_provision_state",
    "updated_at",
    "uuid",
];

impl SortKey {
    /// The key with this name; `None`: nodes cannot be ordered by it.
    pub fn parse(name: &str) -> Option<SortKey> {
        if name == "id" {
            return Some(SortKey::Created);
        }
        let slots = Slot::ALL.into_iter().map(Slot::field);
        SORTABLE.iter().copied().chain(slots).find(|known| *known == name).map(SortKey::Member)
    }

    /// What a node is compared by; absent comes first. [`SortKey::Created`] compares nothing here.
    pub fn value(self, candidate: &Candidate<'_>) -> Option<String> {
        let SortKey::Member(name) = self else { return None };
        let Candidate { node, machine, driver, holder, conductor: _ } = *candidate;
        let details = &node.details;
        let owned = |text: &str| Some(text.to_owned());
        let time = |at: Option<jiff::Timestamp>| at.map(|at| format!("{:032}", at.as_nanosecond()));
        match name {
            "automated_clean" => node.automated_clean.map(|truth| truth.to_string()),
            "chassis_uuid" => details.chassis.map(|id| id.to_string()),
            "conductor_group" => owned(&node.group),
            "created_at" => time(Some(node.created_at)),
            "description" => details.description.clone(),
            "disable_power_off" => owned(if node.disable_power_off { "true" } else { "false" }),
            "driver" => driver.map(str::to_owned),
            "fault" => node.maintenance.as_ref()?.fault.map(|fault| fault.as_str().to_owned()),
            "health" => node.health.map(|health| health.as_str().to_owned()),
            "inspection_finished_at" => time(node.inspected_at),
            "inspection_started_at" => time(node.inspection_started()),
            "instance_name" => details.instance_name.clone(),
            "instance_uuid" => details.instance_uuid.clone(),
            "last_error" => node.last_error.clone(),
            "lessee" => details.lessee.clone(),
            "maintenance" => owned(if node.maintenance.is_some() { "true" } else { "false" }),
            "maintenance_reason" => node.maintenance.as_ref()?.reason.clone(),
            "name" => edit::shown_name(node).map(str::to_owned),
            "owner" => details.owner.clone(),
            "parent_node" => details.parent.map(|id| id.to_string()),
            "power_state" => node.power.state.map(|state| state.as_str().to_owned()),
            "protected" => owned(if node.protected.is_some() { "true" } else { "false" }),
            "protected_reason" => node.protected.clone(),
            "provision_state" => owned(node.state.wire()),
            "provision_updated_at" => time(node.moved_at()),
            "reservation" => holder.map(str::to_owned),
            "resource_class" => details.resource_class.clone(),
            "retired" => owned(if edit::is_retired(node, machine) { "true" } else { "false" }),
            "retired_reason" => details.retired_reason.clone(),
            "shard" => details.shard.clone(),
            "target_power_state" => node.power.action.as_ref().map(|action| action.target.result().as_str().to_owned()),
            "target_provision_state" => node.target.map(State::wire).map(str::to_owned),
            "updated_at" => time(node.updated_at()),
            "uuid" => owned(&node.id.to_string()),
            field => {
                let slot = Slot::ALL.into_iter().find(|slot| slot.field() == field)?;
                interfaces::effective(&details.interfaces, driver, slot).map(str::to_owned)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::Serial;

    fn node() -> Node {
        let mut node = Node::implied(
            NodeId(7),
            Serial::new("n1").expect("a name"),
            "2026-11-15T00:00:00Z".parse().expect("a time"),
        );
        node.details.resource_class = Some("gold".to_owned());
        node.details.description = Some("first rack".to_owned());
        node.details.shard = Some("s1".to_owned());
        node.details.owner = Some("o".to_owned());
        node
    }

    fn candidate(node: &Node) -> Candidate<'_> {
        Candidate { node, machine: None, driver: Some("redfish"), holder: None, conductor: Some("c1") }
    }

    #[test]
    fn every_condition_decides() {
        let node = node();
        let check = |filter: Filter, expected: bool| {
            assert_eq!(filter.matches(&candidate(&node)), expected, "{filter:?}");
        };
        let text = |text: &str| Some(text.to_owned());
        check(Filter::default(), true);
        for (wanted, expected) in [("gold", true), ("silver", false)] {
            check(Filter { resource_class: text(wanted), ..Filter::default() }, expected);
        }
        for (wanted, expected) in [(true, false), (false, true)] {
            check(Filter { associated: Some(wanted), ..Filter::default() }, expected);
            check(Filter { maintenance: Some(wanted), ..Filter::default() }, expected);
            check(Filter { retired: Some(wanted), ..Filter::default() }, expected);
            check(Filter { sharded: Some(!wanted), ..Filter::default() }, expected);
        }
        check(Filter { provision_state: text("enroll"), ..Filter::default() }, true);
        check(Filter { driver: text("ipmi"), ..Filter::default() }, false);
        check(Filter { fault: text("power failure"), ..Filter::default() }, false);
        check(Filter { conductor_group: text(""), ..Filter::default() }, true);
        check(Filter { conductor: text("c2"), ..Filter::default() }, false);
        check(Filter { project: text("o"), ..Filter::default() }, true);
        check(Filter { lessee: text("o"), ..Filter::default() }, false);
        check(Filter { description_contains: text("rack"), ..Filter::default() }, true);
        check(Filter { shard: Some(vec!["s2".into(), "s1".into()]), ..Filter::default() }, true);
        check(Filter { chassis: Some(ChassisId(1)), ..Filter::default() }, false);
        check(Filter { parent_node: Some(NodeId(1)), ..Filter::default() }, false);
    }

    #[test]
    fn parts_of_other_nodes_are_hidden_unless_asked_for() {
        let mut part = node();
        part.details.parent = Some(NodeId(1));
        assert!(!Filter::default().matches(&candidate(&part)));
        assert!(Filter { include_children: true, ..Filter::default() }.matches(&candidate(&part)));
        assert!(Filter { parent_node: Some(NodeId(1)), ..Filter::default() }.matches(&candidate(&part)));
    }

    #[test]
    fn every_sort_key_has_a_value_or_is_always_absent() {
        let node = node();
        let absent: Vec<&str> = SORTABLE
            .iter()
            .copied()
            .filter(|name| SortKey::parse(name).and_then(|key| key.value(&candidate(&node))).is_some())
            .collect();
        assert!(absent.contains(&"name") && absent.contains(&"created_at") && absent.contains(&"resource_class"));
        assert_eq!(SortKey::parse("id"), Some(SortKey::Created));
        for bad in ["nope", "properties", "driver_info", "traits", "clean_step"] {
            assert_eq!(SortKey::parse(bad), None, "{bad}");
        }
        assert_eq!(SortKey::Member("power_interface").value(&candidate(&node)).as_deref(), Some("redfish"));
    }
}
