//! `allocations/<uuid>`: a wish for a node, and what became of it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use sabakan_domain::provision::{
    allocation::{Allocation, Progress},
    ids::{NodeId, NotUuid},
    node::Object,
};
use serde::{Deserialize, Serialize};

/// `allocations/<uuid>`.
#[derive(Debug, Serialize, Deserialize)]
pub struct AllocationRecord {
    uuid: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// At most one of `node` and `error` is there; without either, a node is looked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    node: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    resource_class: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    candidates: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    traits: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    owner: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    extra: Object,
    created_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    updated_at: Option<Timestamp>,
}

impl From<&Allocation> for AllocationRecord {
    fn from(allocation: &Allocation) -> AllocationRecord {
        let Allocation { id, name, progress, resource_class, candidates, traits, owner, extra, created_at, updated_at } =
            allocation.clone();
        let (node, error) = match progress {
            Progress::Allocating => (None, None),
            Progress::Active(node) => (Some(node.to_string()), None),
            Progress::Failed(reason) => (None, Some(reason)),
        };
        AllocationRecord {
            uuid: id.to_string(),
            name,
            node,
            error,
            resource_class,
            candidates: candidates.iter().map(NodeId::to_string).collect(),
            traits,
            owner,
            extra,
            created_at,
            updated_at,
        }
    }
}

impl TryFrom<AllocationRecord> for Allocation {
    type Error = String;

    fn try_from(record: AllocationRecord) -> Result<Allocation, String> {
        let AllocationRecord {
            uuid,
            name,
            node,
            error,
            resource_class,
            candidates,
            traits,
            owner,
            extra,
            created_at,
            updated_at,
        } = record;
        let parse = |text: &String| text.parse::<NodeId>().map_err(|error| error.to_string());
        let progress = match (node, error) {
            (None, None) => Progress::Allocating,
            (Some(node), None) => Progress::Active(parse(&node)?),
            (None, Some(reason)) => Progress::Failed(reason),
            (Some(_), Some(_)) => return Err("it has a node and a reason why it has none".to_owned()),
        };
        Ok(Allocation {
            id: uuid.parse().map_err(|error: NotUuid| error.to_string())?,
            name,
            progress,
            resource_class,
            candidates: candidates.iter().map(parse).collect::<Result<_, _>>()?,
            traits,
            owner,
            extra,
            created_at,
            updated_at,
        })
    }
}

#[cfg(test)]
mod tests {
    use sabakan_domain::provision::ids::AllocationId;

    use super::*;

    #[test]
    fn allocations_are_read_as_they_were_written() {
        for progress in [Progress::Allocating, Progress::Active(NodeId(2)), Progress::Failed("none fits".to_owned())] {
            let allocation = Allocation {
                id: AllocationId(1),
                name: Some("mine".to_owned()),
                progress,
                resource_class: Some("gold".to_owned()),
                candidates: vec![NodeId(3)],
                traits: vec!["CUSTOM_GPU".to_owned()],
                owner: Some("me".to_owned()),
                extra: Object::from([("a".to_owned(), 1.into())]),
                created_at: Timestamp::UNIX_EPOCH,
                updated_at: Some(Timestamp::UNIX_EPOCH),
            };
            let text = serde_json::to_string(&AllocationRecord::from(&allocation)).expect("JSON");
            let record: AllocationRecord = serde_json::from_str(&text).expect("a record");
            assert_eq!(Allocation::try_from(record), Ok(allocation));
        }
        let both = r#"{"uuid":"00000000-0000-0000-0000-000000000001","node":"x","error":"y","created_at":"2026-01-01T00:00:00Z"}"#;
        let record: AllocationRecord = serde_json::from_str(both).expect("a record");
        assert!(Allocation::try_from(record).is_err());
    }
}
