//! What hangs on the workload of a node: the claim that no other node has the same, and the allocation that chose the node for it.
//! Both are written with the node, wherever its workload may change.

use sabakan_domain::{
    provision::{allocation::Allocation, ids::AllocationId, node::Node},
    words::Serial,
};

use crate::{
    Compare, Op, Revision, Store, StoreError, Txn,
    keys::Keys,
    records::{self, AllocationRecord},
    repo::{get_one, revision_of},
};

/// Adds to the transaction that turns `before` into `after` what has to change with it: a workload that leaves frees its claim and
/// takes its allocation along, one that comes is claimed. The answer is the node that has the new workload already; then the
/// transaction must not be committed.
pub(in crate::repo) async fn follow(
    store: &dyn Store,
    keys: &Keys,
    txn: &mut Txn,
    before: Option<&Node>,
    after: Option<&Node>,
) -> Result<Option<Serial>, StoreError> {
    let allocation = |node: &Node| node.details.allocation;
    let instance = |node: &'_ Node| node.details.instance_uuid.clone();
    if let Some(left) = before.and_then(allocation)
        && after.and_then(allocation) != Some(left)
    {
        destroy(store, keys, txn, left).await?;
    }
    let (old, new) = (before.and_then(instance), after.and_then(instance));
    if let Some(old) = old.as_ref().filter(|old| new.as_ref() != Some(*old)) {
        txn.then.push(Op::Delete(keys.instance(old)));
    }
    let (Some(new), Some(after)) = (new, after) else { return Ok(None) };
    let comes = old.as_ref() != Some(&new);
    if comes {
        if let Some(other) = holder(store, keys, &new).await? {
            return Ok(Some(other));
        }
        txn.when.push(Compare::Missing(keys.instance(&new)));
    }
    if comes || before.is_none_or(|before| before.name != after.name) {
        txn.then.push(Op::put(keys.instance(&new), after.name.as_str().to_owned()));
    }
    Ok(None)
}

/// The node that has a workload.
pub(in crate::repo) async fn holder(store: &dyn Store, keys: &Keys, uuid: &str) -> Result<Option<Serial>, StoreError> {
    let Some(kv) = get_one(store, keys.instance(uuid)).await? else { return Ok(None) };
    Ok(Some(Serial::stored(String::from_utf8_lossy(&kv.value))))
}

/// [`follow`] where no workload ever comes: in the work on a node.
pub(in crate::repo) async fn leave(
    store: &dyn Store,
    keys: &Keys,
    txn: &mut Txn,
    before: &Node,
    after: Option<&Node>,
) -> Result<(), StoreError> {
    match follow(store, keys, txn, Some(before), after).await? {
        None => Ok(()),
        Some(other) => {
            Err(StoreError::Invalid { reason: format!("work on {} gave it the workload of {other}", before.name) })
        }
    }
}

/// An allocation and the revision it was read at.
pub(in crate::repo) async fn read_allocation(
    store: &dyn Store,
    keys: &Keys,
    id: AllocationId,
) -> Result<(Option<Allocation>, Revision), StoreError> {
    let found = store.get_many(vec![keys.allocation(id)]).await?.values.into_iter().next().flatten();
    let allocation = found.as_ref().map(records::decode::<AllocationRecord, Allocation>).transpose()?;
    Ok((allocation, revision_of(found.as_ref())))
}

/// Forgets an allocation and its name.
pub(in crate::repo) fn forget(txn: &mut Txn, keys: &Keys, allocation: &Allocation) {
    txn.then.push(Op::Delete(keys.allocation(allocation.id)));
    if let Some(name) = &allocation.name {
        txn.then.push(Op::Delete(keys.allocation_name(name)));
    }
}

async fn destroy(store: &dyn Store, keys: &Keys, txn: &mut Txn, id: AllocationId) -> Result<(), StoreError> {
    let (found, revision) = read_allocation(store, keys, id).await?;
    txn.when.push(Compare::ModRevision(keys.allocation(id), revision));
    if let Some(allocation) = found {
        forget(txn, keys, &allocation);
    }
    Ok(())
}
