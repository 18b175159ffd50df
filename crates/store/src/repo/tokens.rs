//! Access tokens: name, role and the hash of a secret that only its holder has.

use std::convert::Infallible;

use bytes::Bytes;
use sabakan_domain::audit::Category;

use super::{
    ChangeError, all,
    audit::{Act, By},
    change,
};
use crate::{Compare, Op, Store, StoreError, Txn, keys::Keys};

/// Stores a new token. `description` goes to the log and holds no secret.
pub async fn create(
    store: &dyn Store,
    keys: &Keys,
    by: &By,
    id: &str,
    value: &Bytes,
    description: &str,
) -> Result<(), ChangeError<Infallible>> {
    let plan = || async {
        let key = keys.token(id);
        let mut txn = Txn { when: vec![Compare::Missing(key.clone())], then: vec![Op::put(key, value.clone())] };
        by.log(&mut txn, keys, act(id, "create", description));
        Ok((txn, ()))
    };
    change(store, plan).await
}

/// Takes a token away; it opens nothing from then on.
pub async fn revoke(store: &dyn Store, keys: &Keys, by: &By, id: &str) -> Result<(), ChangeError<Infallible>> {
    let plan = || async {
        let key = keys.token(id);
        let read = store.get_many(vec![key.clone()]).await?;
        let Some(Some(kv)) = read.values.first() else { return Err(ChangeError::NotFound) };
        let mut txn =
            Txn { when: vec![Compare::ModRevision(key.clone(), kv.mod_revision)], then: vec![Op::Delete(key)] };
        by.log(&mut txn, keys, act(id, "revoke", ""));
        Ok((txn, ()))
    };
    change(store, plan).await
}

/// Every token: id and value.
pub async fn list(store: &dyn Store, keys: &Keys) -> Result<Vec<(String, Bytes)>, StoreError> {
    let prefix = keys.tokens();
    let id = |key: &str| key.strip_prefix(&prefix).unwrap_or_default().to_owned();
    let (found, _) = all(store, prefix.clone(), None).await?;
    Ok(found.into_iter().map(|kv| (id(&kv.key), kv.value)).collect())
}

fn act(id: &str, action: &'static str, detail: &str) -> Act {
    Act { category: Category::Tokens, instance: id.to_owned(), action, detail: detail.to_owned() }
}
