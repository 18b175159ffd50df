//! Deploy templates and runbooks. What is done with their steps is decided when a verb is asked for (`nodes`).

use std::{collections::BTreeSet, sync::Arc};

use sabakan_domain::{
    audit::Actor,
    provision::{
        ids::RecipeId,
        paging::{self, Slice},
        recipe::{self, About, Kind, Recipe},
    },
};
use sabakan_store::{repo::recipes, view::Snapshot};

use crate::{Foundation, ServiceError, error::Refusal as _, nodes::AskRefusal};

/// Keeps lists of steps.
pub struct Recipes {
    on: Arc<Foundation>,
}

impl Recipes {
    /// Works on a foundation.
    pub fn new(on: Arc<Foundation>) -> Recipes {
        Recipes { on }
    }

    /// One page of a list.
    pub async fn page(&self, kind: Kind, slice: &Slice) -> Result<Vec<Arc<Recipe>>, ServiceError> {
        let snapshot = self.on.view.read().await?;
        let all = snapshot.recipes();
        let find = |id: u128| all.find(kind, RecipeId(id)).ok_or(ServiceError::NotFound);
        let after = slice.after.map(find).transpose()?;
        Ok(paging::page(all.list(kind).cloned(), after, slice))
    }

    /// One recipe, by name or UUID.
    pub async fn get(&self, kind: Kind, id: &str) -> Result<Arc<Recipe>, ServiceError> {
        find(&*self.on.view.read().await?, kind, id)
    }

    /// Makes a recipe. Without `id` it gets a new one.
    pub async fn create(
        &self,
        actor: &Actor,
        kind: Kind,
        id: Option<RecipeId>,
        about: About,
    ) -> Result<Recipe, ServiceError> {
        let on = &self.on;
        let by = on.by(actor);
        let id = id.unwrap_or_else(|| RecipeId(uuid::Uuid::new_v4().as_u128()));
        let made = recipe::create(kind, id, about, by.now).map_err(AskRefusal::from).map_err(AskRefusal::kind)?;
        recipes::create(&*on.store, &on.keys, &by, &made).await?;
        Ok(made)
    }

    /// Changes a recipe. `write` turns what is there into what shall be; it may run more than once.
    pub async fn describe(
        &self,
        actor: &Actor,
        kind: Kind,
        id: &str,
        write: impl Fn(&About) -> Result<About, ServiceError>,
    ) -> Result<Recipe, ServiceError> {
        let on = &self.on;
        let id = self.get(kind, id).await?.id;
        let by = on.by(actor);
        let decide = |found: &Recipe| -> Result<Option<Recipe>, AskRefusal> {
            let wanted = write(&found.about).map_err(AskRefusal::Driver)?;
            Ok(recipe::change(found, wanted, by.now)?)
        };
        Ok(recipes::edit(&*on.store, &on.keys, &by, kind, id, decide).await?)
    }

    /// Changes which nodes a runbook is for. `write` may run more than once.
    pub async fn set_traits(
        &self,
        actor: &Actor,
        id: &str,
        write: impl Fn(&BTreeSet<String>) -> Result<BTreeSet<String>, ServiceError>,
    ) -> Result<(), ServiceError> {
        let on = &self.on;
        let id = self.get(Kind::Runbook, id).await?.id;
        let by = on.by(actor);
        let decide = |found: &Recipe| -> Result<Option<Recipe>, AskRefusal> {
            let traits = write(&found.traits).map_err(AskRefusal::Driver)?;
            Ok(recipe::set_traits(found, &traits, by.now)?)
        };
        recipes::edit(&*on.store, &on.keys, &by, Kind::Runbook, id, decide).await?;
        Ok(())
    }

    /// Forgets a recipe.
    pub async fn remove(&self, actor: &Actor, kind: Kind, id: &str) -> Result<(), ServiceError> {
        let on = &self.on;
        let id = self.get(kind, id).await?.id;
        recipes::remove(&*on.store, &on.keys, &on.by(actor), kind, id).await?;
        Ok(())
    }
}

/// One recipe, by name or UUID.
pub(crate) fn find(snapshot: &Snapshot, kind: Kind, id: &str) -> Result<Arc<Recipe>, ServiceError> {
    let by_id = id.parse().ok().and_then(|id| snapshot.recipes().find(kind, id));
    let found = by_id.or_else(|| snapshot.recipes().find_by_name(kind, id));
    found.cloned().ok_or(ServiceError::NotFound)
}
