//! Which allocations a caller wants to see, and in which order.

use std::sync::Arc;

use jiff::Timestamp;

use super::Allocation;
use crate::provision::{
    ids::NodeId,
    paging::{Listed, time_value},
};

/// Which allocations a caller wants to see. Absent conditions hold for every one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Filter {
    /// The node it has.
    pub node: Option<NodeId>,
    /// The kind of node.
    pub resource_class: Option<String>,
    /// How far it is, in the words of the API.
    pub state: Option<String>,
    /// Whose it is.
    pub owner: Option<String>,
}

impl Filter {
    /// Whether an allocation meets every condition.
    pub fn matches(&self, allocation: &Allocation) -> bool {
        let Filter { node, resource_class, state, owner } = self;
        node.is_none_or(|node| allocation.node() == Some(node))
            && state.as_deref().is_none_or(|state| state == allocation.state())
            && (resource_class.is_none() || *resource_class == allocation.resource_class)
            && (owner.is_none() || *owner == allocation.owner)
    }
}

impl Listed for Arc<Allocation> {
    const SORTABLE: &'static [&'static str] =
        &["uuid", "name", "state", "resource_class", "owner", "last_error", "created_at", "updated_at"];

    fn uuid(&self) -> u128 {
        self.id.0
    }

    fn created_at(&self) -> Timestamp {
        self.created_at
    }

    fn sort_value(&self, member: &str) -> Option<String> {
        match member {
            "uuid" => Some(self.id.to_string()),
            "name" => self.name.clone(),
            "state" => Some(self.state().to_owned()),
            "resource_class" => self.resource_class.clone(),
            "owner" => self.owner.clone(),
            "last_error" => self.last_error().map(str::to_owned),
            "created_at" => time_value(Some(self.created_at)),
            "updated_at" => time_value(self.updated_at),
            _ => None,
        }
    }
}
