//! Recipes: lists of steps under a name. A deploy template joins a deployment when the instance asks for the trait it is called like;
//! a runbook is asked for by name when a node is cleaned or serviced.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

use jiff::Timestamp;

use super::{
    details::{self, NameError},
    ids::{NodeId, RecipeId},
    node::{Node, Object},
    paging::{Listed, time_value},
    steps::{Interface, StepRequest},
};
use crate::limits;

/// What a recipe is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Deploying.
    Template,
    /// Cleaning and servicing.
    Runbook,
}

/// A list of steps under a name.
#[derive(Debug, Clone, PartialEq)]
pub struct Recipe {
    /// What it is for.
    pub kind: Kind,
    /// Its UUID.
    pub id: RecipeId,
    /// What callers may write about it.
    pub about: About,
    /// A node must have one of these to be treated with a runbook; templates have none.
    pub traits: BTreeSet<String>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was changed last.
    pub updated_at: Option<Timestamp>,
}

/// Everything callers may write about a recipe. Of a template that is its name, its steps and `extra`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct About {
    /// Its name, which no other of its kind has.
    pub name: String,
    /// What to do.
    pub steps: Vec<RecipeStep>,
    /// Anything else.
    pub extra: Object,
    /// For people.
    pub description: Option<String>,
    /// Run the steps without booting the ramdisk.
    pub disable_ramdisk: bool,
    /// Whose it is.
    pub owner: Option<String>,
    /// Whether others may use it.
    pub public: bool,
}

/// One step of a recipe.
#[derive(Debug, Clone, PartialEq)]
pub struct RecipeStep {
    /// The interface that owns it.
    pub interface: Interface,
    /// Its name.
    pub name: String,
    /// Its arguments.
    pub args: BTreeMap<String, serde_json::Value>,
    /// Where it goes: its priority in a template, high first; its place in a runbook, low first.
    pub place: u32,
}

/// Why a recipe is not made, changed or used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecipeRefusal {
    /// Another one has the name.
    #[error("A {0} with name {1} already exists.")]
    NameTaken(Kind, String),
    /// Another one has the UUID.
    #[error("A {0} with UUID {1} already exists.")]
    UuidTaken(Kind, RecipeId),
    /// A template is called like a trait, and a runbook asks for some.
    #[error(transparent)]
    Trait(#[from] NameError),
    /// The name cannot be.
    #[error("{0:?} cannot name a runbook: letters, digits and -._~ are allowed, and no UUID")]
    Name(String),
    /// Nothing to do, or too much.
    #[error("steps: between 1 and {max} are allowed", max = limits::STEPS_MAX)]
    Steps,
    /// Steps of this interface are no part of it.
    #[error("steps: {0:?} is not one of: vendor, power, management, firmware, deploy, bios, raid")]
    Interface(&'static str),
    /// Named twice, so that nobody knows which counts.
    #[error("steps: {0} is given twice")]
    Twice(String),
    /// A text that is too long.
    #[error("{0}: is longer than {1} bytes")]
    TooLong(&'static str, usize),
    /// Nobody said which nodes it is for.
    #[error("Runbook {0} has no traits configured. Please ask an administrator to add traits to the runbook.")]
    NoTraits(RecipeId),
    /// It is for other nodes.
    #[error("Runbook {runbook} is not for node {node}: the node has none of its traits ({traits})")]
    OtherNodes {
        /// Which runbook.
        runbook: RecipeId,
        /// Which node.
        node: NodeId,
        /// What the node would have to have.
        traits: String,
    },
}

impl Kind {
    /// The words for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Kind::Template => "deploy template",
            Kind::Runbook => "runbook",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A new recipe.
pub fn create(kind: Kind, id: RecipeId, about: About, at: Timestamp) -> Result<Recipe, RecipeRefusal> {
    check(kind, &about)?;
    Ok(Recipe { kind, id, about, traits: BTreeSet::new(), created_at: at, updated_at: None })
}

/// A recipe as it shall be; `None`: it is so already.
pub fn change(recipe: &Recipe, wanted: About, at: Timestamp) -> Result<Option<Recipe>, RecipeRefusal> {
    check(recipe.kind, &wanted)?;
    let changed = wanted != recipe.about;
    Ok(changed.then(|| Recipe { about: wanted, updated_at: Some(at), ..recipe.clone() }))
}

/// A runbook for nodes with other traits; `None`: it is so already.
pub fn set_traits(recipe: &Recipe, traits: &BTreeSet<String>, at: Timestamp) -> Result<Option<Recipe>, RecipeRefusal> {
    let traits = details::check_traits(traits.iter().map(String::as_str))?;
    let changed = traits != recipe.traits;
    Ok(changed.then(|| Recipe { traits, updated_at: Some(at), ..recipe.clone() }))
}

fn check(kind: Kind, about: &About) -> Result<(), RecipeRefusal> {
    match kind {
        Kind::Template => details::check_trait(&about.name)?,
        Kind::Runbook => check_name(&about.name)?,
    }
    if !(1..=limits::STEPS_MAX).contains(&about.steps.len()) {
        return Err(RecipeRefusal::Steps);
    }
    for (n, step) in about.steps.iter().enumerate() {
        if step.interface == Interface::Network {
            return Err(RecipeRefusal::Interface(step.interface.as_str()));
        }
        // A runbook may well do the same twice; a deployment has one place for each step.
        let same = |other: &RecipeStep| other.interface == step.interface && other.name == step.name;
        if kind == Kind::Template && about.steps[..n].iter().any(same) {
            return Err(RecipeRefusal::Twice(format!("{}.{}", step.interface, step.name)));
        }
    }
    for (field, text, max) in [
        ("description", &about.description, limits::DESCRIPTION_BYTES_MAX),
        ("owner", &about.owner, limits::NODE_TEXT_BYTES_MAX),
    ] {
        if text.as_ref().is_some_and(|text| text.len() > max) {
            return Err(RecipeRefusal::TooLong(field, max));
        }
    }
    Ok(())
}

fn check_name(name: &str) -> Result<(), RecipeRefusal> {
    match details::check_name(name) {
        // Words of other paths are as good as any here.
        Ok(()) | Err(NameError::Reserved(_)) => Ok(()),
        Err(_) => Err(RecipeRefusal::Name(name.to_owned())),
    }
}

/// The steps of a runbook for a node, in order.
pub fn by_runbook(runbook: &Recipe, node: &Node) -> Result<Vec<StepRequest>, RecipeRefusal> {
    if runbook.traits.is_empty() {
        return Err(RecipeRefusal::NoTraits(runbook.id));
    }
    if runbook.traits.is_disjoint(&node.details.traits) {
        let traits = runbook.traits.iter().cloned().collect::<Vec<_>>().join(", ");
        return Err(RecipeRefusal::OtherNodes { runbook: runbook.id, node: node.id, traits });
    }
    let mut steps: Vec<&RecipeStep> = runbook.about.steps.iter().collect();
    steps.sort_by_key(|step| step.place);
    Ok(steps.into_iter().map(|step| request(step, None)).collect())
}

/// The steps a caller wants of a deployment, and those of the templates its instance asks for; what the caller says about a step
/// counts more.
pub fn with_templates<'a>(
    wanted: &[StepRequest],
    node: &Node,
    templates: impl Iterator<Item = &'a Arc<Recipe>>,
) -> Vec<StepRequest> {
    let traits = node.instance_info.get("traits").and_then(serde_json::Value::as_array);
    let asks = |name: &str| traits.is_some_and(|traits| traits.iter().any(|wanted| wanted.as_str() == Some(name)));
    let mut steps = wanted.to_vec();
    for step in templates.filter(|template| asks(&template.about.name)).flat_map(|template| &template.about.steps) {
        let request = request(step, Some(step.place));
        if !wanted.iter().any(|wanted| wanted.key() == request.key()) {
            steps.push(request);
        }
    }
    steps
}

fn request(step: &RecipeStep, priority: Option<u32>) -> StepRequest {
    let RecipeStep { interface, name, args, place: _ } = step.clone();
    StepRequest { interface, name, args, priority }
}

impl Listed for Arc<Recipe> {
    const SORTABLE: &'static [&'static str] = &["uuid", "name", "created_at", "updated_at"];

    fn uuid(&self) -> u128 {
        self.id.0
    }

    fn created_at(&self) -> Timestamp {
        self.created_at
    }

    fn sort_value(&self, member: &str) -> Option<String> {
        match member {
            "uuid" => Some(self.id.to_string()),
            "name" => Some(self.about.name.clone()),
            "created_at" => time_value(Some(self.created_at)),
            "updated_at" => time_value(self.updated_at),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provision::{fixtures::Desk, states::State};

    fn step(key: &str, place: u32) -> RecipeStep {
        let (interface, name) = key.split_once('.').expect(key);
        RecipeStep { interface: interface.parse().expect(key), name: name.to_owned(), args: BTreeMap::new(), place }
    }

    fn about(name: &str, steps: &[(&str, u32)]) -> About {
        let steps = steps.iter().map(|(key, place)| step(key, *place)).collect();
        About { name: name.to_owned(), steps, ..About::default() }
    }

    fn made(kind: Kind, about: About) -> Result<Recipe, RecipeRefusal> {
        create(kind, RecipeId(1), about, Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn what_may_be_written() {
        let one: &[(&str, u32)] = &[("bios.apply", 1)];
        let check = |kind: Kind, about: About, fits: bool| {
            let text = format!("{kind:?} {about:?}");
            assert_eq!(made(kind, about).is_ok(), fits, "{text}");
        };
        check(Kind::Template, about("CUSTOM_A", one), true);
        check(Kind::Template, about("badname", one), false);
        check(Kind::Runbook, about("badname", one), true);
        check(Kind::Runbook, about("bad name", one), false);
        check(Kind::Runbook, about(&RecipeId(7).to_string(), one), false);
        check(Kind::Template, about("CUSTOM_A", &[]), false);
        check(Kind::Runbook, about("a", &vec![("bios.apply", 1); limits::STEPS_MAX + 1]), false);
        check(Kind::Template, about("CUSTOM_A", &[("network.x", 1)]), false);
        let twice = [("bios.apply", 1), ("bios.apply", 2)];
        check(Kind::Template, about("CUSTOM_A", &twice), false);
        check(Kind::Runbook, about("a", &twice), true);
        let long = Some("x".repeat(limits::DESCRIPTION_BYTES_MAX + 1));
        check(Kind::Runbook, About { description: long, ..about("a", one) }, false);
        let recipe = made(Kind::Runbook, about("a", one)).expect("valid");
        assert_eq!(change(&recipe, recipe.about.clone(), Timestamp::MAX), Ok(None));
        let renamed = change(&recipe, about("b", one), Timestamp::MAX).expect("valid").expect("another name");
        assert_eq!((renamed.about.name.as_str(), renamed.updated_at), ("b", Some(Timestamp::MAX)));
    }

    #[test]
    fn a_runbook_is_for_nodes_with_one_of_its_traits() {
        let recipe = made(Kind::Runbook, about("a", &[("bios.apply", 2), ("raid.erase", 1)])).expect("valid");
        let mut node = Desk::at(State::Manageable).node;
        assert_eq!(by_runbook(&recipe, &node), Err(RecipeRefusal::NoTraits(RecipeId(1))));
        let traits = BTreeSet::from(["CUSTOM_A".to_owned(), "CUSTOM_B".to_owned()]);
        let recipe = set_traits(&recipe, &traits, Timestamp::MAX).expect("valid").expect("others");
        assert!(matches!(by_runbook(&recipe, &node), Err(RecipeRefusal::OtherNodes { .. })));
        node.details.traits.insert("CUSTOM_B".to_owned());
        let steps: Vec<String> = by_runbook(&recipe, &node).expect("fits").iter().map(StepRequest::key).collect();
        assert_eq!(steps, ["raid.erase", "bios.apply"]);
        let bad = BTreeSet::from(["nope".to_owned()]);
        assert!(matches!(set_traits(&recipe, &bad, Timestamp::MAX), Err(RecipeRefusal::Trait(_))));
    }

    #[test]
    fn templates_join_when_their_trait_is_asked_for() {
        let template =
            |name: &str, steps: &[(&str, u32)]| Arc::new(made(Kind::Template, about(name, steps)).expect(name));
        let all = [
            template("CUSTOM_A", &[("bios.apply", 60), ("raid.create", 70)]),
            template("CUSTOM_B", &[("firmware.update", 50)]),
        ];
        let mut node = Desk::at(State::Available).node;
        let steps = |node: &Node, wanted: &[StepRequest]| -> Vec<(String, Option<u32>)> {
            with_templates(wanted, node, all.iter()).iter().map(|step| (step.key(), step.priority)).collect()
        };
        assert_eq!(steps(&node, &[]), []);
        node.instance_info.insert("traits".to_owned(), serde_json::json!(["CUSTOM_A"]));
        assert_eq!(steps(&node, &[]), [("bios.apply".to_owned(), Some(60)), ("raid.create".to_owned(), Some(70))]);
        let own = request(&step("bios.apply", 0), Some(10));
        assert_eq!(steps(&node, &[own]), [("bios.apply".to_owned(), Some(10)), ("raid.create".to_owned(), Some(70))]);
    }
}
