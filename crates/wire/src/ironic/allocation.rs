//! Allocations: what callers say about one, what they may change, and what they are shown.

use std::sync::Arc;

use sabakan_domain::provision::{
    allocation::{Allocation, Fields, Filter},
    ids::AllocationId,
    node::{NodeId, Object},
    paging::Slice,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Document, Listing, Refused, Show, Version, field::fields, links, time, unexpected};

fields! {
    /// A member of an allocation.
    AllocationField of "allocation";
    lists show Uuid CreatedAt UpdatedAt CandidateNodes Extra LastError Name Owner ResourceClass State Traits Links NodeUuid;
    Uuid "uuid" 52,
    CreatedAt "created_at" 52,
    UpdatedAt "updated_at" 52,
    CandidateNodes "candidate_nodes" 52,
    Extra "extra" 52,
    LastError "last_error" 52,
    Name "name" 52,
    Owner "owner" 60,
    ResourceClass "resource_class" 52,
    State "state" 52,
    Traits "traits" 52,
    Links "links" 52,
    NodeUuid "node_uuid" 52,
}

/// What callers say about a new allocation.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AllocationInput {
    /// Nodes it may get, by name or UUID.
    pub candidate_nodes: Option<Vec<String>>,
    /// Anything else.
    pub extra: Option<Object>,
    /// Its name.
    pub name: Option<String>,
    /// The node that has its workload already, by name or UUID.
    pub node: Option<String>,
    /// Whose the node must be.
    pub owner: Option<String>,
    /// The kind of node.
    pub resource_class: Option<String>,
    /// What the node must be able to do.
    pub traits: Option<Vec<String>>,
}

impl Document for AllocationInput {
    type Field = AllocationField;
}

impl AllocationInput {
    /// Reads the body of a creation: the UUID, if one is given, and everything else.
    pub fn parse_new(body: Value, version: Version) -> Result<(Option<AllocationId>, AllocationInput), Refused> {
        if body.get("node").is_some() && !version.has(58) {
            return Err(Refused::newer("node", 58));
        }
        AllocationInput::parse_creation(body, version)
    }
}

/// What callers may change about an allocation.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AllocationEdit {
    name: Option<String>,
    extra: Option<Object>,
}

impl Document for AllocationEdit {
    type Field = AllocationField;
}

impl From<&Fields> for AllocationEdit {
    fn from(fields: &Fields) -> AllocationEdit {
        let Fields { name, extra } = fields.clone();
        AllocationEdit { name, extra: Some(extra) }
    }
}

impl From<AllocationEdit> for Fields {
    fn from(edit: AllocationEdit) -> Fields {
        let AllocationEdit { name, extra } = edit;
        Fields { name, extra: extra.unwrap_or_default() }
    }
}

/// Which allocations are wanted, and what of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllocationListing {
    /// Which. The node is not among them: callers may name it in two ways.
    pub filter: Filter,
    /// The node they have, as the caller names it.
    pub node: Option<String>,
    /// Which part of them.
    pub slice: Slice,
    /// What of them.
    pub fields: Vec<AllocationField>,
}

impl AllocationListing {
    /// Reads the parameters of a list.
    pub fn parse(pairs: Vec<(String, String)>, version: Version) -> Result<AllocationListing, Refused> {
        let listing = Listing::<AllocationField, AllocationId>::parse(pairs, version, false)?;
        let slice = listing.slice::<Arc<Allocation>>(listing.after.map(|id| id.0))?;
        let Listing { page: _, after: _, fields, conditions } = listing;
        let (mut filter, mut node) = (Filter::default(), None);
        for (name, value) in conditions {
            match name.as_str() {
                "node" => node = Some(value),
                "resource_class" => filter.resource_class = Some(value),
                "state" => filter.state = Some(value),
                "owner" if version.has(60) => filter.owner = Some(value),
                "owner" => return Err(Refused::newer("owner", 60)),
                other => return Err(unexpected(other)),
            }
        }
        Ok(AllocationListing { filter, node, slice, fields })
    }
}

impl Show for &Allocation {
    type Field = AllocationField;

    fn value(&self, field: AllocationField, base: &str) -> Value {
        let Allocation {
            id,
            name,
            progress: _,
            resource_class,
            candidates,
            traits,
            owner,
            extra,
            created_at,
            updated_at,
        } = self;
        match field {
            AllocationField::Uuid => json!(id.to_string()),
            AllocationField::CreatedAt => json!(time(*created_at)),
            AllocationField::UpdatedAt => json!(updated_at.map(time)),
            AllocationField::CandidateNodes => candidates.iter().map(NodeId::to_string).collect(),
            AllocationField::Extra => json!(extra),
            AllocationField::LastError => json!(self.last_error()),
            AllocationField::Name => json!(name),
            AllocationField::Owner => json!(owner),
            AllocationField::ResourceClass => json!(resource_class),
            AllocationField::State => json!(self.state()),
            AllocationField::Traits => json!(traits),
            AllocationField::Links => json!(links(base, &format!("allocations/{id}"))),
            AllocationField::NodeUuid => json!(self.node().map(|node| node.to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ironic::{Field as _, parse_pairs};

    fn listing(query: &str, version: u16) -> Result<AllocationListing, Refused> {
        AllocationListing::parse(parse_pairs(query, str::to_owned), Version(version))
    }

    #[test]
    fn what_a_creation_may_say() {
        let read = |body: Value, version| AllocationInput::parse_new(body, Version(version));
        let (id, input) = read(json!({ "resource_class": "gold", "traits": ["CUSTOM_A"] }), 52).expect("reads");
        assert_eq!((id, input.resource_class.as_deref()), (None, Some("gold")));
        for bad in [
            json!([]),
            json!({ "resource_class": 7 }),
            json!({ "state": "active" }),
            json!({ "node_uuid": "x" }),
            json!({ "uuid": "x" }),
            json!({ "candidate_nodes": "x" }),
        ] {
            assert!(matches!(read(bad.clone(), 115), Err(Refused::Invalid(_))), "{bad}");
        }
        assert!(matches!(read(json!({ "node": "n" }), 57), Err(Refused::Version(_))));
        assert!(matches!(read(json!({ "owner": "me" }), 59), Err(Refused::Version(_))));
    }

    #[test]
    fn what_lists_take() {
        let some = listing("node=n&state=active&owner=me&sort_key=name&fields=uuid,state&limit=2", 115).expect("valid");
        assert_eq!((some.node.as_deref(), some.slice.sort, some.slice.limit), (Some("n"), Some("name"), 2));
        assert_eq!(some.fields, [AllocationField::Uuid, AllocationField::State, AllocationField::Links]);
        assert_eq!(listing("", 59).expect("valid").fields.len(), AllocationField::ALL.len() - 1);
        for bad in ["nosuch=1", "sort_key=traits", "fields=nope", "marker=name"] {
            assert!(matches!(listing(bad, 115), Err(Refused::Invalid(_))), "{bad}");
        }
        assert!(matches!(listing("owner=me", 59), Err(Refused::Version(_))));
    }
}
