//! Deploy templates and runbooks in the view. There are a few dozen: a change copies the list of them.

use std::{collections::BTreeMap, sync::Arc};

use sabakan_domain::provision::{
    ids::RecipeId,
    recipe::{Kind, Recipe},
};

use super::Snapshot;

/// Deploy templates and runbooks at one revision.
#[derive(Debug, Clone, Default)]
pub struct Recipes {
    all: Arc<BTreeMap<(Kind, RecipeId), Arc<Recipe>>>,
}

impl Recipes {
    /// Every one of a kind, by UUID.
    pub fn list(&self, kind: Kind) -> impl Iterator<Item = &Arc<Recipe>> {
        self.all.values().filter(move |recipe| recipe.kind == kind)
    }

    /// One of them.
    pub fn find(&self, kind: Kind, id: RecipeId) -> Option<&Arc<Recipe>> {
        self.all.get(&(kind, id))
    }

    /// The one with this name.
    pub fn find_by_name(&self, kind: Kind, name: &str) -> Option<&Arc<Recipe>> {
        self.list(kind).find(|recipe| recipe.about.name == name)
    }
}

impl Snapshot {
    /// Deploy templates and runbooks.
    pub fn recipes(&self) -> &Recipes {
        &self.recipes
    }

    pub(super) fn put_recipe(&mut self, recipe: Recipe) {
        Arc::make_mut(&mut self.recipes.all).insert((recipe.kind, recipe.id), Arc::new(recipe));
    }

    pub(super) fn remove_recipe(&mut self, kind: Kind, id: &str) {
        if let Ok(id) = id.parse() {
            Arc::make_mut(&mut self.recipes.all).remove(&(kind, id));
        }
    }
}
