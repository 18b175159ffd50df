//! Typed reads and compare-and-swap changes, one file per resource. A change reads its facts, asks a rule of the domain, and writes
//! the answer in one transaction that compares every fact the rule saw. A lost race starts over: the rule, not the transaction,
//! explains a refusal.

pub mod allocations;
pub mod audit;
pub mod chassis;
pub mod cluster;
pub mod config;
pub mod consistency;
pub mod crypts;
pub mod feed;
pub mod leaders;
pub mod machines;
pub mod nodes;
pub mod ports;
pub mod recipes;
pub mod repairs;
pub mod schema;
pub mod tokens;

use std::{
    collections::hash_map::RandomState,
    future::Future,
    hash::{BuildHasher as _, Hasher as _},
    time::Duration,
};

use crate::{KeyValue, Revision, Store, StoreError, Txn, TxnOutcome, limits};

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
