//! Which of several servers does a task: whoever holds its key, as long as the lease behind it lives.

use super::{get_one, revision_of};
use crate::{Compare, KeyValue, LeaseId, Op, Revision, Store, StoreError, Txn, TxnOutcome, keys::Keys};

/// Proof that a server leads a task. What it writes compares it, so that nobody who lost the lead writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lead {
    key: String,
    revision: Revision,
}

impl Lead {
    pub(super) fn compare(&self) -> Compare {
        Compare::ModRevision(self.key.clone(), self.revision)
    }

    pub(super) fn key(&self) -> &str {
        &self.key
    }

    /// Whether the key as it was read says that this server leads.
    pub(super) fn is_proved_by(&self, found: Option<&KeyValue>) -> bool {
        revision_of(found) == self.revision
    }
}

/// Takes the lead of a task, unless somebody has it.
pub async fn claim(
    store: &dyn Store,
    keys: &Keys,
    task: &str,
    server: &str,
    lease: LeaseId,
) -> Result<Option<Lead>, StoreError> {
    let key = keys.leader(task);
    let txn = Txn {
        when: vec![Compare::Missing(key.clone())],
        then: vec![Op::Put { key: key.clone(), value: server.to_owned().into(), lease: Some(lease) }],
    };
    Ok(match store.commit(txn).await? {
        TxnOutcome::Committed(revision) => Some(Lead { key, revision }),
        TxnOutcome::Conflicted => None,
    })
}

/// The server that leads a task.
pub async fn holder(store: &dyn Store, keys: &Keys, task: &str) -> Result<Option<String>, StoreError> {
    let found = get_one(store, keys.leader(task)).await?;
    Ok(found.map(|kv| String::from_utf8_lossy(&kv.value).into_owned()))
}
