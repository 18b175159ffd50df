//! Chassis: boxes that hold nodes. Nothing depends on them; they are for people and for searches.

use jiff::Timestamp;

use super::{
    ids::ChassisId,
    node::Object,
    paging::{Listed, time_value},
};
use crate::limits;

/// A box that holds nodes.
#[derive(Debug, Clone, PartialEq)]
pub struct Chassis {
    /// Its UUID.
    pub id: ChassisId,
    /// What callers may write about it.
    pub about: About,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was changed last.
    pub updated_at: Option<Timestamp>,
}

/// Everything callers may write about a chassis.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct About {
    /// For people.
    pub description: Option<String>,
    /// Anything else.
    pub extra: Object,
}

/// Why a chassis is not made, changed or forgotten.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChassisRefusal {
    /// For people, not for novels.
    #[error("description is longer than {max} bytes", max = limits::NODE_TEXT_BYTES_MAX)]
    Description,
    /// Nodes are in it.
    #[error("Cannot complete the requested action because chassis {0} contains nodes.")]
    NotEmpty(ChassisId),
    /// Somebody else has the UUID.
    #[error("A chassis with UUID {0} already exists.")]
    Taken(ChassisId),
}

/// A new chassis.
pub fn create(id: ChassisId, about: About, at: Timestamp) -> Result<Chassis, ChassisRefusal> {
    check(&about)?;
    Ok(Chassis { id, about, created_at: at, updated_at: None })
}

/// A chassis as it shall be.
pub fn change(chassis: &Chassis, wanted: About, at: Timestamp) -> Result<Chassis, ChassisRefusal> {
    check(&wanted)?;
    Ok(Chassis { about: wanted, updated_at: Some(at), ..chassis.clone() })
}

fn check(about: &About) -> Result<(), ChassisRefusal> {
    let fits = about.description.as_ref().is_none_or(|text| text.len() <= limits::NODE_TEXT_BYTES_MAX);
    if fits { Ok(()) } else { Err(ChassisRefusal::Description) }
}

impl Listed for &Chassis {
    const SORTABLE: &'static [&'static str] = &["created_at", "description", "updated_at", "uuid"];

    fn uuid(&self) -> u128 {
        self.id.0
    }

    fn created_at(&self) -> Timestamp {
        self.created_at
    }

    fn sort_value(&self, member: &str) -> Option<String> {
        match member {
            "created_at" => time_value(Some(self.created_at)),
            "description" => self.about.description.clone(),
            "updated_at" => time_value(self.updated_at),
            "uuid" => Some(self.id.to_string()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_has_a_bound() {
        for (bytes, expected) in [(0, true), (255, true), (256, false)] {
            let about = About { description: Some("x".repeat(bytes)), ..About::default() };
            let made = create(ChassisId(1), about.clone(), Timestamp::UNIX_EPOCH);
            assert_eq!(made.is_ok(), expected, "{bytes}");
            let blank = create(ChassisId(1), About::default(), Timestamp::UNIX_EPOCH).expect("nothing is wrong");
            assert_eq!(change(&blank, about, Timestamp::MAX).is_ok(), expected, "{bytes}");
        }
    }

    #[test]
    fn a_change_keeps_what_it_is() {
        let made = create(ChassisId(1), About::default(), Timestamp::UNIX_EPOCH).expect("nothing is wrong");
        let about = About { description: Some("row 4".to_owned()), ..About::default() };
        let changed = change(&made, about.clone(), Timestamp::MAX).expect("nothing is wrong");
        let expected = Chassis { about, updated_at: Some(Timestamp::MAX), ..made };
        assert_eq!(changed, expected);
    }
}
