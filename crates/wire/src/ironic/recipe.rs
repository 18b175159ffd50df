//! Deploy templates and runbooks: what callers say about one, and what they are shown.

use std::{collections::BTreeMap, sync::Arc};

use sabakan_domain::provision::{
    ids::RecipeId,
    node::Object,
    paging::Slice,
    recipe::{About, Recipe, RecipeStep},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Document, Field, Listing, Refused, Show, Version, document::schema, field::fields, links, time};

fields! {
    /// A member of a deploy template, in the order answers have them.
    TemplateField of "template";
    lists show Uuid Name Links;

    Uuid "uuid" 55,
    CreatedAt "created_at" 55,
    UpdatedAt "updated_at" 55,
    Name "name" 55,
    Extra "extra" 55,
    Links "links" 55,
    Steps "steps" 55,
}

fields! {
    /// A member of a runbook, in the order answers have them.
    RunbookField of "runbook";
    lists show Uuid Name Links;

    Uuid "uuid" 92,
    CreatedAt "created_at" 92,
    UpdatedAt "updated_at" 92,
    Name "name" 92,
    Extra "extra" 92,
    Public "public" 92,
    Owner "owner" 92,
    DisableRamdisk "disable_ramdisk" 92,
    Description "description" 112,
    Links "links" 92,
    Steps "steps" 92,
    Traits "traits" 112,
}

/// A step of a template.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TemplateStep {
    interface: String,
    step: String,
    args: BTreeMap<String, Value>,
    priority: u32,
}

/// A step of a runbook.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RunbookStep {
    interface: String,
    step: String,
    #[serde(default)]
    args: BTreeMap<String, Value>,
    order: u32,
}

/// Members of a deploy template that callers may write.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TemplateInput {
    name: Option<String>,
    steps: Option<Vec<TemplateStep>>,
    extra: Option<Object>,
}

/// Members of a runbook that callers may write.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RunbookInput {
    name: Option<String>,
    steps: Option<Vec<RunbookStep>>,
    extra: Option<Object>,
    description: Option<String>,
    disable_ramdisk: Option<bool>,
    owner: Option<String>,
    public: Option<bool>,
}

impl Document for TemplateInput {
    type Field = TemplateField;
}

impl Document for RunbookInput {
    type Field = RunbookField;
}

/// Something callers write about a recipe.
pub trait RecipeInput: Document + for<'a> From<&'a About> {
    /// What it says.
    fn about(self) -> Result<About, Refused>;

    /// Reads the body of a creation: the UUID, if one is given, and everything else.
    fn parse_new(body: Value, version: Version) -> Result<(Option<RecipeId>, About), Refused> {
        let (id, input) = Self::parse_creation(body, version)?;
        Ok((id, input.about()?))
    }
}

fn required<F: Field, T>(name: &str, value: Option<T>) -> Result<T, Refused> {
    value.ok_or_else(|| schema::<F>(format!("'{name}' is a required property")))
}

fn step<F: Field>(
    interface: &str,
    name: String,
    args: BTreeMap<String, Value>,
    place: u32,
) -> Result<RecipeStep, Refused> {
    Ok(RecipeStep { interface: interface.parse().map_err(schema::<F>)?, name, args, place })
}

impl From<&About> for TemplateInput {
    fn from(about: &About) -> TemplateInput {
        // The rest is for runbooks.
        let About { name, steps, extra, description: _, disable_ramdisk: _, owner: _, public: _ } = about.clone();
        let steps = steps.into_iter().map(|RecipeStep { interface, name, args, place }| TemplateStep {
            interface: interface.as_str().to_owned(),
            step: name,
            args,
            priority: place,
        });
        TemplateInput { name: Some(name), steps: Some(steps.collect()), extra: Some(extra) }
    }
}

impl RecipeInput for TemplateInput {
    fn about(self) -> Result<About, Refused> {
        let TemplateInput { name, steps, extra } = self;
        let steps = required::<TemplateField, _>("steps", steps)?.into_iter();
        let steps = steps.map(|TemplateStep { interface, step: name, args, priority }| {
            step::<TemplateField>(&interface, name, args, priority)
        });
        Ok(About {
            name: required::<TemplateField, _>("name", name)?,
            steps: steps.collect::<Result<_, _>>()?,
            extra: extra.unwrap_or_default(),
            ..About::default()
        })
    }
}

impl From<&About> for RunbookInput {
    fn from(about: &About) -> RunbookInput {
        let About { name, steps, extra, description, disable_ramdisk, owner, public } = about.clone();
        let steps = steps.into_iter().map(|RecipeStep { interface, name, args, place }| RunbookStep {
            interface: interface.as_str().to_owned(),
            step: name,
            args,
            order: place,
        });
        RunbookInput {
            name: Some(name),
            steps: Some(steps.collect()),
            extra: Some(extra),
            description,
            disable_ramdisk: Some(disable_ramdisk),
            owner,
            public: Some(public),
        }
    }
}

impl RecipeInput for RunbookInput {
    fn about(self) -> Result<About, Refused> {
        let RunbookInput { name, steps, extra, description, disable_ramdisk, owner, public } = self;
        let steps = required::<RunbookField, _>("steps", steps)?.into_iter();
        let steps = steps.map(|RunbookStep { interface, step: name, args, order }| {
            step::<RunbookField>(&interface, name, args, order)
        });
        Ok(About {
            name: required::<RunbookField, _>("name", name)?,
            steps: steps.collect::<Result<_, _>>()?,
            extra: extra.unwrap_or_default(),
            description,
            disable_ramdisk: disable_ramdisk.unwrap_or_default(),
            owner,
            public: public.unwrap_or_default(),
        })
    }
}

/// A deploy template, as answers show it.
#[derive(Debug, Clone, Copy)]
pub struct Template<'a>(pub &'a Recipe);

/// A runbook, as answers show it.
#[derive(Debug, Clone, Copy)]
pub struct Runbook<'a>(pub &'a Recipe);

impl Show for Template<'_> {
    type Field = TemplateField;

    fn value(&self, field: TemplateField, base: &str) -> Value {
        let Recipe { kind: _, id, about, traits: _, created_at, updated_at } = self.0;
        match field {
            TemplateField::Uuid => json!(id.to_string()),
            TemplateField::CreatedAt => json!(time(*created_at)),
            TemplateField::UpdatedAt => json!(updated_at.map(time)),
            TemplateField::Name => json!(about.name),
            TemplateField::Extra => json!(about.extra),
            TemplateField::Links => json!(links(base, &format!("deploy_templates/{id}"))),
            TemplateField::Steps => json!(TemplateInput::from(about).steps),
        }
    }
}

impl Show for Runbook<'_> {
    type Field = RunbookField;

    fn value(&self, field: RunbookField, base: &str) -> Value {
        let Recipe { kind: _, id, about, traits, created_at, updated_at } = self.0;
        match field {
            RunbookField::Uuid => json!(id.to_string()),
            RunbookField::CreatedAt => json!(time(*created_at)),
            RunbookField::UpdatedAt => json!(updated_at.map(time)),
            RunbookField::Name => json!(about.name),
            RunbookField::Extra => json!(about.extra),
            RunbookField::Public => json!(about.public),
            RunbookField::Owner => json!(about.owner),
            RunbookField::DisableRamdisk => json!(about.disable_ramdisk),
            RunbookField::Description => json!(about.description),
            RunbookField::Links => json!(links(base, &format!("runbooks/{id}"))),
            RunbookField::Steps => json!(RunbookInput::from(about).steps),
            RunbookField::Traits => json!(traits),
        }
    }
}

/// Which recipes are wanted, and what of them. These lists have no conditions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecipeListing<F> {
    /// Which part of them.
    pub slice: Slice,
    /// What of them.
    pub fields: Vec<F>,
}

impl<F: Field> RecipeListing<F> {
    /// Reads the parameters of a list.
    pub fn parse(pairs: Vec<(String, String)>, version: Version) -> Result<RecipeListing<F>, Refused> {
        let listing = Listing::<F, RecipeId>::parse(pairs, version, false)?;
        listing.unconditional()?;
        let slice = listing.slice::<Arc<Recipe>>(listing.after.map(|id| id.0))?;
        Ok(RecipeListing { slice, fields: listing.fields })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_creation_may_say() {
        let template = |body: Value| TemplateInput::parse_new(body, Version::MAX);
        let good = json!([{ "interface": "bios", "step": "apply", "args": {}, "priority": 50 }]);
        let (_, about) = template(json!({ "name": "CUSTOM_A", "steps": good })).expect("reads");
        assert_eq!((about.name.as_str(), about.steps[0].place), ("CUSTOM_A", 50));
        assert_eq!(TemplateInput::from(&about).about(), Ok(about));
        for bad in [
            json!({ "steps": good }),
            json!({ "name": "CUSTOM_A" }),
            json!({ "name": "CUSTOM_A", "steps": [{ "interface": "xx", "step": "a", "args": {}, "priority": 1 }] }),
            json!({ "name": "CUSTOM_A", "steps": [{ "interface": "bios", "step": "a", "args": {} }] }),
            json!({ "name": "CUSTOM_A", "steps": good, "public": true }),
        ] {
            assert!(matches!(template(bad.clone()), Err(Refused::Invalid(_))), "{bad}");
        }
        let runbook = |body: Value| RunbookInput::parse_new(body, Version::MAX);
        let good = json!([{ "interface": "bios", "step": "apply", "args": { "a": 1 }, "order": 2 }]);
        let (_, about) = runbook(json!({ "name": "rb", "steps": good, "public": true })).expect("reads");
        assert!(about.public && about.steps[0].place == 2);
        assert_eq!(RunbookInput::from(&about).about(), Ok(about));
        for bad in [
            json!({ "name": "rb", "steps": [{ "interface": "bios" }] }),
            json!({ "name": "rb", "steps": good, "public": "True" }),
            json!({ "name": "rb", "steps": good, "traits": [] }),
        ] {
            assert!(matches!(runbook(bad.clone()), Err(Refused::Invalid(_))), "{bad}");
        }
    }
}
