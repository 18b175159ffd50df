//! `deploy-templates/<uuid>` and `runbooks/<uuid>`. Which of the two a record is, its key says.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use sabakan_domain::provision::{
    ids::NotUuid,
    node::Object,
    recipe::{About, Kind, Recipe, RecipeStep},
};
use serde::{Deserialize, Serialize};

use crate::{KeyValue, StoreError};

/// `deploy-templates/<uuid>`, `runbooks/<uuid>`.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RecipeRecord {
    uuid: String,
    name: String,
    steps: Vec<StepRecord>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    extra: Object,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    #[serde(default)]
    disable_ramdisk: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    owner: Option<String>,
    #[serde(default)]
    public: bool,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    traits: BTreeSet<String>,
    created_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    updated_at: Option<Timestamp>,
}

#[derive(Debug, Serialize, Deserialize)]
struct StepRecord {
    interface: String,
    step: String,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    args: BTreeMap<String, serde_json::Value>,
    place: u32,
}

impl From<&Recipe> for RecipeRecord {
    fn from(recipe: &Recipe) -> RecipeRecord {
        let Recipe { kind: _, id, about, traits, created_at, updated_at } = recipe.clone();
        let About { name, steps, extra, description, disable_ramdisk, owner, public } = about;
        let step = |RecipeStep { interface, name, args, place }: RecipeStep| StepRecord {
            interface: interface.as_str().to_owned(),
            step: name,
            args,
            place,
        };
        RecipeRecord {
            uuid: id.to_string(),
            name,
            steps: steps.into_iter().map(step).collect(),
            extra,
            description,
            disable_ramdisk,
            owner,
            public,
            traits,
            created_at,
            updated_at,
        }
    }
}

/// Reads a stored recipe.
pub(crate) fn decode_recipe(kind: Kind, kv: &KeyValue) -> Result<Recipe, StoreError> {
    let corrupt = |reason| StoreError::Corrupt { place: kv.key.clone(), reason };
    let record: RecipeRecord = serde_json::from_slice(&kv.value).map_err(|error| corrupt(error.to_string()))?;
    of_record(kind, record).map_err(corrupt)
}

fn of_record(kind: Kind, record: RecipeRecord) -> Result<Recipe, String> {
    let RecipeRecord {
        uuid,
        name,
        steps,
        extra,
        description,
        disable_ramdisk,
        owner,
        public,
        traits,
        created_at,
        updated_at,
    } = record;
    let step = |StepRecord { interface, step, args, place }: StepRecord| -> Result<RecipeStep, String> {
        Ok(RecipeStep { interface: interface.parse()?, name: step, args, place })
    };
    let steps = steps.into_iter().map(step).collect::<Result<_, _>>()?;
    let id = uuid.parse().map_err(|error: NotUuid| error.to_string())?;
    let about = About { name, steps, extra, description, disable_ramdisk, owner, public };
    Ok(Recipe { kind, id, about, traits, created_at, updated_at })
}

#[cfg(test)]
mod tests {
    use sabakan_domain::provision::{ids::RecipeId, steps::Interface};

    use super::*;

    #[test]
    fn recipes_are_read_as_they_were_written() {
        let step = RecipeStep {
            interface: Interface::Bios,
            name: "apply".to_owned(),
            args: BTreeMap::from([("a".to_owned(), 1.into())]),
            place: 5,
        };
        let about = About {
            name: "CUSTOM_A".to_owned(),
            steps: vec![step],
            extra: Object::from([("b".to_owned(), 2.into())]),
            description: Some("text".to_owned()),
            disable_ramdisk: true,
            owner: Some("me".to_owned()),
            public: true,
        };
        let recipe = Recipe {
            kind: Kind::Runbook,
            id: RecipeId(1),
            about,
            traits: BTreeSet::from(["CUSTOM_B".to_owned()]),
            created_at: Timestamp::UNIX_EPOCH,
            updated_at: Some(Timestamp::UNIX_EPOCH),
        };
        let text = serde_json::to_string(&RecipeRecord::from(&recipe)).expect("JSON");
        let record = serde_json::from_str(&text).expect("a record");
        assert_eq!(of_record(Kind::Runbook, record), Ok(recipe));
    }
}
