//! Allocations: made, given a node, changed, given back. An allocation and its node name each other; both are compared and written in
//! one transaction, so that of several that want a node exactly one gets it, whichever server they run on.

use sabakan_domain::{
    audit::Category,
    provision::{
        allocation::{Allocation, NotTaken},
        engine::Changed,
        ids::AllocationId,
    },
    words::Serial,
};

use super::{
    ChangeError,
    audit::{Act, By},
    change,
    nodes::{self, Facts, instance},
};
use crate::{
    Compare, Op, Store, StoreError, Txn,
    keys::Keys,
    records::{self, AllocationRecord},
};

/// Why an allocation is not stored.
#[derive(Debug, thiserror::Error)]
pub enum AllocationTaken<R: std::error::Error + 'static> {
    /// Another one has the name.
    #[error("An allocation with name {0} already exists.")]
    Name(String),
    /// Another one has the UUID.
    #[error("An allocation with UUID {0} already exists.")]
    Uuid(AllocationId),
    /// A node has a workload with this UUID.
    #[error("Instance {0} is on node {1} already.")]
    Instance(AllocationId, Serial),
    /// A rule forbids it.
    #[error(transparent)]
    Refused(R),
}

/// Why a node was not given to an allocation.
#[derive(Debug, thiserror::Error)]
pub enum NotClaimed {
    /// One of the two is no longer as it was when they were matched.
    #[error(transparent)]
    Rule(NotTaken),
    /// Another node has a workload with the UUID of the allocation.
    #[error("instance {0} is on node {1} already")]
    Instance(AllocationId, Serial),
}

/// Stores a new allocation, unless its name or its UUID is in use.
pub async fn create<R: std::error::Error + 'static>(
    store: &dyn Store,
    keys: &Keys,
    by: &By,
    allocation: &Allocation,
) -> Result<(), ChangeError<AllocationTaken<R>>> {
    let plan = || async {
        let mut txn = Txn::default();
        check_free(store, keys, &mut txn, allocation).await?;
        let workload = allocation.id.to_string();
        if let Some(node) = instance::holder(store, keys, &workload).await? {
            return Err(ChangeError::Refused(AllocationTaken::Instance(allocation.id, node)));
        }
        txn.when.push(Compare::Missing(keys.instance(&workload)));
        put(&mut txn, keys, allocation, None);
        by.log(&mut txn, keys, act(allocation, "create-allocation", String::new()));
        Ok((txn, ()))
    };
    change(store, plan).await
}

/// Stores an allocation for a node that has its workload already. `decide` may run again after a lost race.
pub async fn backfill<R: std::error::Error + 'static>(
    store: &dyn Store,
    keys: &Keys,
    by: &By,
    node: &Serial,
    decide: impl Fn(&Facts) -> Result<(Allocation, Changed), R>,
) -> Result<Allocation, ChangeError<AllocationTaken<R>>> {
    let plan = || async {
        let read = nodes::read(store, keys, node).await?.ok_or(ChangeError::NotFound)?;
        let decided = decide(&read.facts).map_err(|refusal| ChangeError::Refused(AllocationTaken::Refused(refusal)));
        let (allocation, changed) = decided?;
        let mut txn = Txn { when: read.compares, then: vec![] };
        check_free(store, keys, &mut txn, &allocation).await?;
        if let Some(other) =
            instance::follow(store, keys, &mut txn, Some(&read.facts.node), Some(&changed.node)).await?
        {
            return Err(ChangeError::Refused(AllocationTaken::Instance(allocation.id, other)));
        }
        put(&mut txn, keys, &allocation, None);
        nodes::put(&mut txn, keys, changed.node, &changed.rows);
        by.log(&mut txn, keys, act(&allocation, "create-allocation", format!("for node {node}")));
        Ok((txn, allocation))
    };
    change(store, plan).await
}

/// Gives a node to an allocation. `decide` may run again after a lost race; it sees both as they are.
pub async fn claim(
    store: &dyn Store,
    keys: &Keys,
    by: &By,
    id: AllocationId,
    node: &Serial,
    decide: impl Fn(&Allocation, &Facts) -> Result<(Allocation, Changed), NotTaken>,
) -> Result<Allocation, ChangeError<NotClaimed>> {
    let plan = || async {
        let (allocation, revision) = instance::read_allocation(store, keys, id).await?;
        let allocation = allocation.ok_or(ChangeError::NotFound)?;
        let unfit = || ChangeError::Refused(NotClaimed::Rule(NotTaken::Unfit));
        let read = nodes::read(store, keys, node).await?.ok_or_else(unfit)?;
        let rule = |refusal| ChangeError::Refused(NotClaimed::Rule(refusal));
        let (after, changed) = decide(&allocation, &read.facts).map_err(rule)?;
        let mut txn = Txn { when: read.compares, then: vec![] };
        txn.when.push(Compare::ModRevision(keys.allocation(id), revision));
        if let Some(other) =
            instance::follow(store, keys, &mut txn, Some(&read.facts.node), Some(&changed.node)).await?
        {
            return Err(ChangeError::Refused(NotClaimed::Instance(id, other)));
        }
        put(&mut txn, keys, &after, Some(&allocation));
        nodes::put(&mut txn, keys, changed.node, &changed.rows);
        by.log(&mut txn, keys, act(&after, "allocate", format!("node {node}")));
        Ok((txn, after))
    };
    change(store, plan).await
}

/// Changes an allocation, but not which node it has. `None` from `decide` writes nothing.
pub async fn edit<R: std::error::Error + 'static>(
    store: &dyn Store,
    keys: &Keys,
    by: &By,
    id: AllocationId,
    action: &'static str,
    decide: impl Fn(&Allocation) -> Result<Option<Allocation>, R>,
) -> Result<Allocation, ChangeError<AllocationTaken<R>>> {
    let plan = || async {
        let (before, revision) = instance::read_allocation(store, keys, id).await?;
        let before = before.ok_or(ChangeError::NotFound)?;
        let decided = decide(&before).map_err(|refusal| ChangeError::Refused(AllocationTaken::Refused(refusal)))?;
        let Some(after) = decided else { return Ok((Txn::default(), before)) };
        let mut txn = Txn { when: vec![Compare::ModRevision(keys.allocation(id), revision)], then: vec![] };
        if before.name != after.name {
            check_name_free(store, keys, &mut txn, &after).await?;
        }
        put(&mut txn, keys, &after, Some(&before));
        by.log(&mut txn, keys, act(&after, action, after.last_error().unwrap_or_default().to_owned()));
        Ok((txn, after))
    };
    change(store, plan).await
}

/// Forgets an allocation; its node gets what `decide` makes of it. `node`: the name of the node it has, as the caller knows it; if
/// that is not so any more, nothing is done and the caller is told to look again.
pub async fn remove<R: std::error::Error + 'static>(
    store: &dyn Store,
    keys: &Keys,
    by: &By,
    id: AllocationId,
    node: Option<&Serial>,
    decide: impl Fn(&Allocation, &Facts) -> Result<Changed, R>,
) -> Result<(), ChangeError<R>> {
    let plan = || async {
        let (allocation, revision) = instance::read_allocation(store, keys, id).await?;
        let allocation = allocation.ok_or(ChangeError::NotFound)?;
        let mut txn = Txn { when: vec![Compare::ModRevision(keys.allocation(id), revision)], then: vec![] };
        let raced = || StoreError::Conflict { attempts: 1 };
        let mut detail = String::new();
        match (allocation.node(), node) {
            (Some(_), Some(name)) => {
                let read = nodes::read(store, keys, name).await?.ok_or_else(raced)?;
                if read.facts.node.details.allocation != Some(id) {
                    return Err(raced().into());
                }
                let changed = decide(&allocation, &read.facts).map_err(ChangeError::Refused)?;
                txn.when.extend(read.compares);
                // The allocation goes with the workload of its node.
                instance::leave(store, keys, &mut txn, &read.facts.node, Some(&changed.node)).await?;
                nodes::put(&mut txn, keys, changed.node, &changed.rows);
                detail = format!("node {name}");
            }
            // It got a node, or lost it, after the caller looked: forgetting it alone would leave a node that names it for ever.
            (None, Some(_)) | (Some(_), None) => return Err(raced().into()),
            (None, None) => instance::forget(&mut txn, keys, &allocation),
        }
        by.log(&mut txn, keys, act(&allocation, "delete-allocation", detail));
        Ok((txn, ()))
    };
    change(store, plan).await
}

async fn check_free<R: std::error::Error + 'static>(
    store: &dyn Store,
    keys: &Keys,
    txn: &mut Txn,
    allocation: &Allocation,
) -> Result<(), ChangeError<AllocationTaken<R>>> {
    let key = keys.allocation(allocation.id);
    if store.get_many(vec![key.clone()]).await?.values.iter().any(Option::is_some) {
        return Err(ChangeError::Refused(AllocationTaken::Uuid(allocation.id)));
    }
    txn.when.push(Compare::Missing(key));
    check_name_free(store, keys, txn, allocation).await
}

async fn check_name_free<R: std::error::Error + 'static>(
    store: &dyn Store,
    keys: &Keys,
    txn: &mut Txn,
    allocation: &Allocation,
) -> Result<(), ChangeError<AllocationTaken<R>>> {
    let Some(name) = &allocation.name else { return Ok(()) };
    let key = keys.allocation_name(name);
    if store.get_many(vec![key.clone()]).await?.values.iter().any(Option::is_some) {
        return Err(ChangeError::Refused(AllocationTaken::Name(name.clone())));
    }
    txn.when.push(Compare::Missing(key));
    Ok(())
}

/// Writes an allocation, and its name if it has another than before.
fn put(txn: &mut Txn, keys: &Keys, allocation: &Allocation, before: Option<&Allocation>) {
    let value = records::encode(&AllocationRecord::from(allocation));
    txn.then.push(Op::put(keys.allocation(allocation.id), value));
    let old = before.and_then(|before| before.name.as_ref());
    let new = allocation.name.as_ref();
    if old == new {
        return;
    }
    txn.then.extend(old.map(|name| Op::Delete(keys.allocation_name(name))));
    txn.then.extend(new.map(|name| Op::put(keys.allocation_name(name), allocation.id.to_string())));
}

fn act(allocation: &Allocation, action: &'static str, detail: String) -> Act {
    Act { category: Category::Nodes, instance: allocation.id.to_string(), action, detail }
}
