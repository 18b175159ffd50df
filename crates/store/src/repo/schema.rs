//! The version of the stored data: written once into an empty store, checked at every start.

use super::get_one;
use crate::{
    Compare, Op, Range, Store, StoreError, Txn, TxnOutcome,
    keys::{Keys, SCHEMA_VERSION},
    transfer,
};

/// Why a server must not work on this store.
#[derive(Debug, thiserror::Error)]
pub enum SchemaError {
    /// Written by another generation of programs.
    #[error(
        "the data under {prefix} has schema version {found}, this program reads and writes version {SCHEMA_VERSION}; \
         upgrade it with the program that wrote it, or give another --etcd-prefix or --data-dir"
    )]
    Version {
        /// Where.
        prefix: String,
        /// What is there.
        found: String,
    },
    /// Half of an import is there.
    #[error(
        "an import into this store was interrupted, so it holds only a part of the data; \
         run `sabakan store import` again with the same file"
    )]
    InterruptedImport,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Makes sure that the store is ours: marks an empty one, accepts one with our version, refuses anything else.
pub async fn prepare(store: &dyn Store, keys: &Keys) -> Result<(), SchemaError> {
    // Two rounds: when another server marks the store first, or an import begins, that is seen in the second.
    for _ in 0..2 {
        if transfer::interrupted_import(store, keys.prefix()).await? {
            return Err(SchemaError::InterruptedImport);
        }
        let read = store.get_many(vec![keys.version(), keys.ipam()]).await?.values;
        let [version, ipam] = &read[..] else {
            return Err(StoreError::Invalid { reason: "two keys asked, another number answered".into() }.into());
        };
        let found = match (version, ipam) {
            (Some(kv), _) => String::from_utf8_lossy(&kv.value).into_owned(),
            // The first generation wrote no version.
            (None, Some(_)) => "1".to_owned(),
            (None, None) => {
                let mark = Txn {
                    when: vec![
                        Compare::Missing(keys.version()),
                        Compare::Missing(keys.ipam()),
                        Compare::Missing(transfer::marker(keys.prefix())),
                    ],
                    then: vec![Op::put(keys.version(), SCHEMA_VERSION)],
                };
                match store.commit(mark).await? {
                    TxnOutcome::Committed(_) => return Ok(()),
                    TxnOutcome::Conflicted => continue,
                }
            }
        };
        if found == SCHEMA_VERSION {
            return Ok(());
        }
        return Err(SchemaError::Version { prefix: keys.prefix().to_owned(), found });
    }
    Err(StoreError::Conflict { attempts: 2 }.into())
}

/// Why a server would refuse this store; an empty one is fine. Writes nothing.
pub async fn check(store: &dyn Store, keys: &Keys) -> Result<(), SchemaError> {
    if transfer::interrupted_import(store, keys.prefix()).await? {
        return Err(SchemaError::InterruptedImport);
    }
    let found = get_one(store, keys.version()).await?.map(|kv| String::from_utf8_lossy(&kv.value).into_owned());
    match found {
        Some(found) if found != SCHEMA_VERSION => Err(SchemaError::Version { prefix: keys.prefix().to_owned(), found }),
        _ => Ok(()),
    }
}

/// Whether the store answers at all: reads the smallest key there is.
pub async fn probe(store: &dyn Store, keys: &Keys) -> Result<(), StoreError> {
    store.list(Range { limit: 1, ..Range::first(keys.version()) }).await.map(drop)
}
