//! Typed reads and compare-and-swap changes, one file per resource. A change reads its facts, asks a rule of the domain, and writes
//! the answer in one transaction that compares every fact the rule saw. A lost race starts over: the rule, not the transaction,
//! explains a refusal.

pub mod allocations;
pub mod audit;
pub mod chassis;
pub mod cluster;
pub mod conditional;
pub mod config;
pub mod consistency;
pub mod crypts;
pub mod feed;
pub mod leaders;
pub mod machines;
pub mod mirror;
pub mod nodes;
pub mod ports;
pub mod recipes;
pub mod repairs;
pub mod schema;
pub mod tokens;

use std::{
    collections::hash_map::RandomState,
    convert::Infallible,
    future::Future,
    hash::{BuildHasher as _, Hasher as _},
    time::Duration,
};

use self::audit::{Act, By};
use crate::{Compare, KeyValue, Op, Range, Revision, Store, StoreError, Txn, TxnOutcome, keys::Keys, limits};

/// Why a change was not made.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError<R: std::error::Error + 'static> {
    /// A rule forbids it.
    #[error(transparent)]
    Refused(R),
    /// What it is about does not exist.
    #[error("not found")]
    NotFound,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Plans a transaction from what the store holds now and commits it; plans again when another writer was faster.
async fn change<T, R, F>(store: &dyn Store, mut plan: impl FnMut() -> F) -> Result<T, ChangeError<R>>
where
    R: std::error::Error + 'static,
    F: Future<Output = Result<(Txn, T), ChangeError<R>>>,
{
    for attempt in 0..limits::CAS_ATTEMPTS {
        let (txn, result) = plan().await?;
        match store.commit(txn).await? {
            TxnOutcome::Committed(_) => return Ok(result),
            TxnOutcome::Conflicted => tokio::time::sleep(pause_after(attempt)).await,
        }
    }
    Err(StoreError::Conflict { attempts: limits::CAS_ATTEMPTS }.into())
}

/// Writes one key and its entry in the log, whatever was there before.
async fn write(store: &dyn Store, keys: &Keys, by: &By, op: Op, act: Act) -> Result<(), ChangeError<Infallible>> {
    let plan = || async {
        let mut txn = Txn { when: vec![], then: vec![op.clone()] };
        by.log(&mut txn, keys, act.clone());
        Ok((txn, ()))
    };
    change(store, plan).await
}

/// Changes many keys, a bounded number of them in one transaction, each of which compares `when`; which were changed. `add` gets a key as
/// it is and adds what becomes of it: one write and its entry in the log, or nothing and `false`. A key that is gone is passed over.
/// Keys of a transaction that lost a race are planned again. An error after the first of several transactions is `OutcomeUnknown`:
/// those before it stay, and any other error would say that nothing was written.
async fn change_many(
    store: &dyn Store,
    when: &[Compare],
    indexes: &[u64],
    key: impl Fn(u64) -> String,
    add: impl Fn(&mut Txn, u64, &KeyValue) -> Result<bool, StoreError>,
) -> Result<Vec<u64>, ChangeError<Infallible>> {
    // Two compares and two writes for each.
    let accepted = store.limits().ops_max.saturating_sub(when.len()) / 2;
    let at_once = limits::CHANGED_AT_ONCE.min(accepted).max(1);
    let mut changed = Vec::new();
    for some in indexes.chunks(at_once) {
        let plan = || async {
            let found = store.get_many(some.iter().map(|index| key(*index)).collect()).await?.values;
            let (mut txn, mut planned) = (Txn::default(), Vec::new());
            for (index, kv) in some.iter().zip(&found) {
                if let Some(kv) = kv
                    && add(&mut txn, *index, kv)?
                {
                    txn.when.push(Compare::ModRevision(kv.key.clone(), kv.mod_revision));
                    planned.push(*index);
                }
            }
            if !planned.is_empty() {
                txn.when.extend_from_slice(when);
            }
            Ok((txn, planned))
        };
        match change(store, plan).await {
            Ok(planned) => changed.extend(planned),
            Err(ChangeError::Store(error)) if !changed.is_empty() => {
                let (done, of) = (changed.len(), indexes.len());
                let reason = format!("{done} of {of} entries were changed before it failed: {error}");
                return Err(StoreError::OutcomeUnknown { reason }.into());
            }
            Err(error) => return Err(error),
        }
    }
    Ok(changed)
}

/// One key.
async fn get_one(store: &dyn Store, key: String) -> Result<Option<KeyValue>, StoreError> {
    Ok(store.get_many(vec![key]).await?.values.into_iter().flatten().next())
}

/// Every key with a prefix, as of one moment: the given one, or now.
async fn all(store: &dyn Store, prefix: String, at: Option<Revision>) -> Result<(Vec<KeyValue>, Revision), StoreError> {
    let (mut items, mut range) = (Vec::new(), Range { at, ..Range::first(prefix) });
    loop {
        let page = store.list(range.clone()).await?;
        range.after = page.items.last().map(|kv| kv.key.clone());
        range.at = Some(page.revision);
        items.extend(page.items);
        if !page.more {
            return Ok((items, page.revision));
        }
    }
}

/// A pause that grows with the number of lost races, and differs between those who lost the same one.
fn pause_after(attempt: usize) -> Duration {
    let growing = limits::CAS_PAUSE * u32::try_from(attempt).unwrap_or(u32::MAX);
    let jitter = RandomState::new().build_hasher().finish() % 1_000;
    (growing + limits::CAS_PAUSE * u32::try_from(jitter).unwrap_or(0) / 1_000).min(limits::CAS_PAUSE_MAX)
}

/// The revision to compare a key with: the one read, or "does not exist".
fn revision_of(read: Option<&KeyValue>) -> Revision {
    read.map_or(Revision::NONE, |kv| kv.mod_revision)
}
