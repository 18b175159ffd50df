//! Chassis: what callers say about one, and what they are shown.

use sabakan_domain::provision::{
    chassis::{About, Chassis},
    ids::ChassisId,
    node::Object,
    paging::Slice,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Document, Listing, Refused, Show, Version, field::fields, links, time};

fields! {
    /// A member of a chassis, in the order answers have them.
    ChassisField of "chassis";
    lists show Uuid Description Links;

    Uuid "uuid" 1,
    CreatedAt "created_at" 1,
    UpdatedAt "updated_at" 1,
    Description "description" 1,
    Extra "extra" 1,
    Links "links" 1,
    Nodes "nodes" 1,
}

/// Members of a chassis that callers may write.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ChassisInput {
    description: Option<String>,
    extra: Option<Object>,
}

impl Document for ChassisInput {
    type Field = ChassisField;
}

impl ChassisInput {
    /// Reads the body of a creation: the UUID, if one is given, and everything else.
    pub fn parse_new(body: Value, version: Version) -> Result<(Option<ChassisId>, About), Refused> {
        let (id, input) = ChassisInput::parse_creation(body, version)?;
        Ok((id, input.into()))
    }
}

impl From<&About> for ChassisInput {
    fn from(about: &About) -> ChassisInput {
        let About { description, extra } = about.clone();
        ChassisInput { description, extra: Some(extra) }
    }
}

impl From<ChassisInput> for About {
    fn from(input: ChassisInput) -> About {
        let ChassisInput { description, extra } = input;
        About { description, extra: extra.unwrap_or_default() }
    }
}

impl Show for &Chassis {
    type Field = ChassisField;

    fn value(&self, field: ChassisField, base: &str) -> Value {
        let Chassis { id, about: About { description, extra }, created_at, updated_at } = self;
        match field {
            ChassisField::Uuid => json!(id.to_string()),
            ChassisField::CreatedAt => json!(time(*created_at)),
            ChassisField::UpdatedAt => json!(updated_at.map(time)),
            ChassisField::Description => json!(description),
            ChassisField::Extra => json!(extra),
            ChassisField::Links => json!(links(base, &format!("chassis/{id}"))),
            // A list in a list: so the original has it, and clients only pass it on.
            ChassisField::Nodes => json!([links(base, &format!("chassis/{id}/nodes"))]),
        }
    }
}

/// Which chassis are wanted, and what of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChassisListing {
    /// Which part of them.
    pub slice: Slice,
    /// What of them.
    pub fields: Vec<ChassisField>,
}

impl ChassisListing {
    /// Reads the parameters of a list of chassis. `detail`: the path asks for whole chassis.
    pub fn parse(pairs: Vec<(String, String)>, version: Version, detail: bool) -> Result<ChassisListing, Refused> {
        let listing = Listing::<ChassisField, ChassisId>::parse(pairs, version, detail)?;
        listing.unconditional()?;
        let slice = listing.slice::<&Chassis>(listing.after.map(|id| id.0))?;
        Ok(ChassisListing { slice, fields: listing.fields })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ironic::parse_pairs;

    #[test]
    fn a_document_is_read_as_it_is_written() {
        let about = About { description: Some("x".to_owned()), extra: Object::from([("a".to_owned(), json!(1))]) };
        let input = ChassisInput::parse(ChassisInput::from(&about).document()).expect("reads");
        assert_eq!(About::from(input), about);
        for bad in [json!({ "description": 5 }), json!({ "uuid": "nope" }), json!({ "name": "x" })] {
            assert!(matches!(ChassisInput::parse_new(bad.clone(), Version::MAX), Err(Refused::Invalid(_))), "{bad}");
        }
    }

    #[test]
    fn what_lists_take() {
        let listing = |query: &str| ChassisListing::parse(parse_pairs(query, str::to_owned), Version::MAX, false);
        assert_eq!(listing("sort_key=uuid&sort_dir=desc").expect("valid").slice.sort, Some("uuid"));
        for bad in ["node=x", "sort_key=extra", "marker=x"] {
            assert!(matches!(listing(bad), Err(Refused::Invalid(_))), "{bad}");
        }
    }
}
