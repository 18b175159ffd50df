//! Nodes that callers make, change, rename and forget. A node's UUID is claimed under a key of its own, so that two callers who give
//! the same one at the same time cannot both have it; its name is the key it is stored under.

use std::collections::BTreeMap;

use sabakan_domain::{
    machine::Machine,
    provision::{
        engine::Changed,
        ids::ChassisId,
        node::{Node, NodeId},
    },
    words::Serial,
};

use super::{Facts, act, history, instance, inventory, put, read};
use crate::{
    Compare, KeyValue, Op, Range, Store, StoreError, Txn, TxnOutcome,
    keys::Keys,
    limits,
    records::{self, NodeRecord, RowRecord},
    repo::{ChangeError, audit::By, change, chassis, get_one, pause_after, ports},
};

/// Why a node is not made or renamed.
#[derive(Debug, thiserror::Error)]
pub enum Taken<R: std::error::Error + 'static> {
    /// A node or a machine has the name.
    #[error("a node with name {0} already exists")]
    Name(Serial),
    /// A node has the UUID.
    #[error("a node with UUID {0} already exists")]
    Uuid(NodeId),
    /// A node has the workload.
    #[error("instance {0} is on node {1} already")]
    Instance(String, Serial),
    /// It names a chassis that is not there.
    #[error("Chassis {0} could not be found.")]
    NoChassis(ChassisId),
    /// A rule forbids it.
    #[error(transparent)]
    Refused(R),
}

/// A node and its machine as a transaction wrote or found them. Answers are made from this: a read after the commit may fail, and the
/// change is made all the same.
#[derive(Debug, Clone)]
pub struct WrittenNode {
    /// The node.
    pub node: Node,
    /// Its machine; `None`: none is registered under its name.
    pub machine: Option<Machine>,
}

/// Stores a new node, unless its name or its UUID is in use.
pub async fn create(
    store: &dyn Store,
    keys: &Keys,
    by: &By,
    node: &Node,
) -> Result<(), ChangeError<Taken<std::convert::Infallible>>> {
    let plan = || async {
        let claims = [keys.node(&node.name), keys.machine(&node.name), keys.node_id(node.id)];
        let found = store.get_many(claims.to_vec()).await?.values;
        match found.as_slice() {
            [None, None, None] => {}
            [None, None, Some(_)] => return Err(ChangeError::Refused(Taken::Uuid(node.id))),
            _ => return Err(ChangeError::Refused(Taken::Name(node.name.clone()))),
        }
        let mut txn = Txn { when: claims.into_iter().map(Compare::Missing).collect(), then: vec![] };
        follow(store, keys, &mut txn, None, node).await?;
        put(&mut txn, keys, node.clone(), &[]);
        txn.then.push(claim(keys, node));
        by.log(&mut txn, keys, act(&node.name, "create", format!("uuid {}", node.id)));
        Ok((txn, ()))
    };
    change(store, plan).await
}

/// Changes what a node is described with, and its name if `decide` gives it another; the node as it is then. `None` from `decide`
/// writes nothing.
pub async fn edit<R: std::error::Error + 'static>(
    store: &dyn Store,
    keys: &Keys,
    by: &By,
    name: &Serial,
    action: &'static str,
    decide: impl Fn(&Facts) -> Result<Option<Changed>, R>,
) -> Result<WrittenNode, ChangeError<Taken<R>>> {
    let plan = || async {
        let read = read(store, keys, name).await?.ok_or(ChangeError::NotFound)?;
        let read = read.with_allocation(store, keys).await?;
        let decided = decide(&read.facts).map_err(|refusal| ChangeError::Refused(Taken::Refused(refusal)))?;
        let Some(changed) = decided else {
            let Facts { node, machine, .. } = read.facts;
            return Ok((Txn::default(), WrittenNode { node, machine }));
        };
        let mut txn = Txn { when: read.compares.clone(), then: vec![] };
        let mut node = changed.node;
        let mut detail = String::new();
        follow(store, keys, &mut txn, Some(&read.facts.node), &node).await?;
        if node.name != *name {
            detail = format!("{name} -> {}", node.name);
            move_to(store, keys, &mut txn, name, &mut node).await?;
        }
        let node = put(&mut txn, keys, node, &changed.rows);
        let machine = super::move_machine(&mut txn, keys, read.machine.as_ref(), changed.machine, by.now);
        by.log(&mut txn, keys, act(name, action, detail));
        Ok((txn, WrittenNode { node, machine }))
    };
    change(store, plan).await
}

/// Claims the workload of a node, or says who has it; puts the node into its chassis, or says that it is not there.
async fn follow<R: std::error::Error + 'static>(
    store: &dyn Store,
    keys: &Keys,
    txn: &mut Txn,
    before: Option<&Node>,
    after: &Node,
) -> Result<(), ChangeError<Taken<R>>> {
    if let Some(missing) = chassis::follow(store, keys, txn, before, Some(after)).await? {
        return Err(ChangeError::Refused(Taken::NoChassis(missing)));
    }
    let instance = || after.details.instance_uuid.clone().unwrap_or_default();
    match instance::follow(store, keys, txn, before, Some(after)).await? {
        None => Ok(()),
        Some(other) => Err(ChangeError::Refused(Taken::Instance(instance(), other))),
    }
}

/// Takes everything kept under the old name along. Of the history the last rows: one transaction has to hold them all.
async fn move_to<R: std::error::Error + 'static>(
    store: &dyn Store,
    keys: &Keys,
    txn: &mut Txn,
    from: &Serial,
    node: &mut Node,
) -> Result<(), ChangeError<Taken<R>>> {
    let free = [keys.node(&node.name), keys.machine(&node.name)];
    if store.get_many(free.to_vec()).await?.values.iter().any(Option::is_some) {
        return Err(ChangeError::Refused(Taken::Name(node.name.clone())));
    }
    txn.when.extend(free.into_iter().map(Compare::Missing));
    txn.then.push(Op::Delete(keys.node(from)));
    txn.then.push(claim(keys, node));
    let rows = history(store, keys, from).await?;
    let kept = &rows[rows.len().saturating_sub(limits::RENAME_HISTORY_ROWS)..];
    for (number, row) in kept {
        txn.then.push(Op::put(keys.history_row(&node.name, *number), records::encode(&RowRecord::from(row))));
    }
    node.history.0 = kept.first().map_or(node.history.1, |(number, _)| *number);
    txn.then.push(Op::DeletePrefix(keys.history(from)));
    if let Some(found) = inventory(store, keys, from).await? {
        txn.then.push(Op::put(keys.inventory(&node.name), found));
        txn.then.push(Op::Delete(keys.inventory(from)));
    }
    Ok(())
}

/// Forgets a node with everything kept about it. A machine under its name stays, and has a node by rule again.
pub async fn remove<R: std::error::Error + 'static>(
    store: &dyn Store,
    keys: &Keys,
    by: &By,
    name: &Serial,
    decide: impl Fn(&Facts) -> Result<(), R>,
) -> Result<(), ChangeError<R>> {
    let plan = || async {
        let read = read(store, keys, name).await?.ok_or(ChangeError::NotFound)?;
        decide(&read.facts).map_err(ChangeError::Refused)?;
        let mut txn = Txn { when: read.compares.clone(), then: vec![] };
        instance::leave(store, keys, &mut txn, &read.facts.node, None).await?;
        let _left = chassis::follow(store, keys, &mut txn, Some(&read.facts.node), None).await?;
        ports::forget(store, keys, &mut txn, read.facts.node.id).await?;
        txn.then.push(Op::Delete(keys.node(name)));
        txn.then.push(Op::Delete(keys.node_id(read.facts.node.id)));
        txn.then.push(Op::Delete(keys.inventory(name)));
        txn.then.push(Op::DeletePrefix(keys.history(name)));
        by.log(&mut txn, keys, act(name, "delete", format!("uuid {}", read.facts.node.id)));
        Ok((txn, ()))
    };
    change(store, plan).await
}

/// One page of all nodes with secrets, for sealing those anew. `reseal` gives the new ones, or `None` where they are fine. How many
/// secrets were written, and where the next page begins.
pub async fn reseal_page(
    store: &dyn Store,
    keys: &Keys,
    after: Option<String>,
    reseal: impl Fn(&Node) -> Result<Option<BTreeMap<String, String>>, StoreError>,
) -> Result<(usize, Option<String>), StoreError> {
    let page = store.list(Range { after, ..Range::first(keys.nodes()) }).await?;
    let mut resealed = 0;
    for kv in &page.items {
        resealed += reseal_one(store, kv.clone(), &reseal).await?;
    }
    let next = page.items.last().filter(|_| page.more).map(|kv| kv.key.clone());
    Ok((resealed, next))
}

/// A worker may write the same node meanwhile; its change is kept.
async fn reseal_one(
    store: &dyn Store,
    kv: KeyValue,
    reseal: &impl Fn(&Node) -> Result<Option<BTreeMap<String, String>>, StoreError>,
) -> Result<usize, StoreError> {
    let mut current = Some(kv);
    for attempt in 0..limits::CAS_ATTEMPTS {
        let Some(kv) = current else { return Ok(0) };
        let mut node = records::decode::<NodeRecord, Node>(&kv)?;
        let Some(secrets) = reseal(&node)? else { return Ok(0) };
        let count = secrets.iter().filter(|(key, sealed)| node.driver_secrets.get(*key) != Some(sealed)).count();
        node.driver_secrets = secrets;
        let txn = Txn {
            when: vec![Compare::ModRevision(kv.key.clone(), kv.mod_revision)],
            then: vec![Op::put(kv.key.clone(), records::encode(&NodeRecord::from(&node)))],
        };
        if matches!(store.commit(txn).await?, TxnOutcome::Committed(_)) {
            return Ok(count);
        }
        tokio::time::sleep(pause_after(attempt)).await;
        current = get_one(store, kv.key).await?;
    }
    Err(StoreError::Conflict { attempts: limits::CAS_ATTEMPTS })
}

/// A number that differs whenever anything stored about a node differs.
pub fn version(node: &Node) -> u64 {
    records::node_version(node)
}

/// Whether any node has secrets.
pub async fn any_secrets(store: &dyn Store, keys: &Keys) -> Result<bool, StoreError> {
    let mut range = Range::first(keys.nodes());
    loop {
        let page = store.list(range.clone()).await?;
        for kv in &page.items {
            if !records::decode::<NodeRecord, Node>(kv)?.driver_secrets.is_empty() {
                return Ok(true);
            }
        }
        match page.items.last() {
            Some(last) if page.more => range = Range { after: Some(last.key.clone()), ..range },
            _ => return Ok(false),
        }
    }
}

fn claim(keys: &Keys, node: &Node) -> Op {
    Op::put(keys.node_id(node.id), node.name.as_str().to_owned())
}
