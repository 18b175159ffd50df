//! Deploy templates and runbooks. A name is claimed under a key of its own, so that two callers who give the same one at the same
//! time cannot both have it.

use sabakan_domain::{
    audit::Category,
    provision::{
        ids::RecipeId,
        recipe::{Kind, Recipe, RecipeRefusal},
    },
};

use super::{
    ChangeError,
    audit::{Act, By},
    change,
};
use crate::{
    Compare, KeyValue, Op, Store, StoreError, Txn,
    keys::Keys,
    records::{self, RecipeRecord},
};

/// Stores a new recipe, unless its name or its UUID is in use.
pub async fn create(
    store: &dyn Store,
    keys: &Keys,
    by: &By,
    recipe: &Recipe,
) -> Result<(), ChangeError<RecipeRefusal>> {
    let plan = || async {
        if find(store, keys, recipe.kind, recipe.id).await?.is_some() {
            return Err(ChangeError::Refused(RecipeRefusal::UuidTaken(recipe.kind, recipe.id)));
        }
        let mut txn = Txn { when: vec![Compare::Missing(keys.recipe(recipe.kind, recipe.id))], then: vec![] };
        claim(store, keys, &mut txn, recipe).await?;
        put(&mut txn, keys, recipe);
        by.log(&mut txn, keys, act(recipe, ["create-template", "create-runbook"]));
        Ok((txn, ()))
    };
    change(store, plan).await
}

/// Changes a recipe. `decide` may run again after a lost race; `None` writes nothing.
pub async fn edit<R: std::error::Error + From<RecipeRefusal> + 'static>(
    store: &dyn Store,
    keys: &Keys,
    by: &By,
    kind: Kind,
    id: RecipeId,
    decide: impl Fn(&Recipe) -> Result<Option<Recipe>, R>,
) -> Result<Recipe, ChangeError<R>> {
    let plan = || async {
        let (kv, before) = find(store, keys, kind, id).await?.ok_or(ChangeError::NotFound)?;
        let Some(after) = decide(&before).map_err(ChangeError::Refused)? else {
            return Ok((Txn::default(), before));
        };
        let mut txn = Txn { when: vec![Compare::ModRevision(kv.key, kv.mod_revision)], then: vec![] };
        if before.about.name != after.about.name {
            claim(store, keys, &mut txn, &after).await.map_err(refused)?;
            txn.then.push(Op::Delete(keys.recipe_name(kind, &before.about.name)));
        }
        put(&mut txn, keys, &after);
        by.log(&mut txn, keys, act(&after, ["update-template", "update-runbook"]));
        Ok((txn, after))
    };
    change(store, plan).await
}

/// Forgets a recipe. Work that was asked for with it goes on: it has its own copy of the steps.
pub async fn remove(
    store: &dyn Store,
    keys: &Keys,
    by: &By,
    kind: Kind,
    id: RecipeId,
) -> Result<(), ChangeError<RecipeRefusal>> {
    let plan = || async {
        let (kv, recipe) = find(store, keys, kind, id).await?.ok_or(ChangeError::NotFound)?;
        let mut txn = Txn { when: vec![Compare::ModRevision(kv.key.clone(), kv.mod_revision)], then: vec![] };
        txn.then.push(Op::Delete(kv.key));
        txn.then.push(Op::Delete(keys.recipe_name(kind, &recipe.about.name)));
        by.log(&mut txn, keys, act(&recipe, ["delete-template", "delete-runbook"]));
        Ok((txn, ()))
    };
    change(store, plan).await
}

async fn find(
    store: &dyn Store,
    keys: &Keys,
    kind: Kind,
    id: RecipeId,
) -> Result<Option<(KeyValue, Recipe)>, StoreError> {
    let found = store.get_many(vec![keys.recipe(kind, id)]).await?.values.into_iter().next().flatten();
    found.map(|kv| Ok((kv.clone(), records::decode_recipe(kind, &kv)?))).transpose()
}

/// Claims the name of a recipe.
async fn claim(
    store: &dyn Store,
    keys: &Keys,
    txn: &mut Txn,
    recipe: &Recipe,
) -> Result<(), ChangeError<RecipeRefusal>> {
    let key = keys.recipe_name(recipe.kind, &recipe.about.name);
    if store.get_many(vec![key.clone()]).await?.values.iter().any(Option::is_some) {
        let name = recipe.about.name.clone();
        return Err(ChangeError::Refused(RecipeRefusal::NameTaken(recipe.kind, name)));
    }
    txn.when.push(Compare::Missing(key.clone()));
    txn.then.push(Op::put(key, recipe.id.to_string()));
    Ok(())
}

fn refused<R: std::error::Error + From<RecipeRefusal> + 'static>(error: ChangeError<RecipeRefusal>) -> ChangeError<R> {
    match error {
        ChangeError::Refused(refusal) => ChangeError::Refused(refusal.into()),
        ChangeError::NotFound => ChangeError::NotFound,
        ChangeError::Store(error) => ChangeError::Store(error),
    }
}

fn put(txn: &mut Txn, keys: &Keys, recipe: &Recipe) {
    let value = records::encode(&RecipeRecord::from(recipe));
    txn.then.push(Op::put(keys.recipe(recipe.kind, recipe.id), value));
}

/// The entry in the log, with one word for each kind.
fn act(recipe: &Recipe, [template, runbook]: [&'static str; 2]) -> Act {
    let action = match recipe.kind {
        Kind::Template => template,
        Kind::Runbook => runbook,
    };
    Act { category: Category::Nodes, instance: recipe.id.to_string(), action, detail: recipe.about.name.clone() }
}
