//! Chassis. Which nodes are in one stands under keys of its own, written with the node: a chassis goes only while there are none.

use sabakan_domain::{
    audit::Category,
    provision::{
        chassis::{Chassis, ChassisRefusal},
        ids::ChassisId,
        node::Node,
    },
};

use super::{
    ChangeError,
    audit::{Act, By},
    change,
};
use crate::{
    Compare, KeyValue, Op, Range, Store, StoreError, Txn,
    keys::Keys,
    records::{self, ChassisRecord},
};

/// Stores a new chassis, unless its UUID is in use.
pub async fn create(
    store: &dyn Store,
    keys: &Keys,
    by: &By,
    chassis: &Chassis,
) -> Result<(), ChangeError<ChassisRefusal>> {
    let plan = || async {
        if find(store, keys, chassis.id).await?.is_some() {
            return Err(ChangeError::Refused(ChassisRefusal::Taken(chassis.id)));
        }
        let mut txn = Txn { when: vec![Compare::Missing(keys.chassis(chassis.id))], then: vec![] };
        put(&mut txn, keys, chassis);
        by.log(&mut txn, keys, act(chassis.id, "create-chassis"));
        Ok((txn, ()))
    };
    change(store, plan).await
}

/// Changes a chassis. `decide` may run again after a lost race; what it leaves as it is, is not written.
pub async fn edit<R: std::error::Error + 'static>(
    store: &dyn Store,
    keys: &Keys,
    by: &By,
    id: ChassisId,
    decide: impl Fn(&Chassis) -> Result<Option<Chassis>, R>,
) -> Result<Chassis, ChangeError<R>> {
    let plan = || async {
        let (kv, chassis) = find(store, keys, id).await?.ok_or(ChangeError::NotFound)?;
        let Some(changed) = decide(&chassis).map_err(ChangeError::Refused)? else {
            return Ok((Txn::default(), chassis));
        };
        let mut txn = Txn { when: vec![Compare::ModRevision(kv.key, kv.mod_revision)], then: vec![] };
        put(&mut txn, keys, &changed);
        by.log(&mut txn, keys, act(id, "update-chassis"));
        Ok((txn, changed))
    };
    change(store, plan).await
}

/// Forgets a chassis without nodes.
pub async fn remove(store: &dyn Store, keys: &Keys, by: &By, id: ChassisId) -> Result<(), ChangeError<ChassisRefusal>> {
    let plan = || async {
        let (kv, _) = find(store, keys, id).await?.ok_or(ChangeError::NotFound)?;
        let inside = store.list(Range { limit: 1, ..Range::first(keys.chassis_nodes(id)) }).await?;
        if !inside.items.is_empty() {
            return Err(ChangeError::Refused(ChassisRefusal::NotEmpty(id)));
        }
        let compares = vec![
            Compare::ModRevision(kv.key.clone(), kv.mod_revision),
            Compare::NoneWithPrefix(keys.chassis_nodes(id)),
        ];
        let mut txn = Txn { when: compares, then: vec![Op::Delete(kv.key)] };
        by.log(&mut txn, keys, act(id, "delete-chassis"));
        Ok((txn, ()))
    };
    change(store, plan).await
}

/// Adds to the transaction that turns `before` into `after` that the node leaves one chassis and enters another. The answer is the
/// chassis that is not there; then the transaction must not be committed.
pub(super) async fn follow(
    store: &dyn Store,
    keys: &Keys,
    txn: &mut Txn,
    before: Option<&Node>,
    after: Option<&Node>,
) -> Result<Option<ChassisId>, StoreError> {
    let place = |node: &Node| node.details.chassis.map(|chassis| (chassis, node.id));
    let (old, new) = (before.and_then(place), after.and_then(place));
    if old == new {
        return Ok(None);
    }
    if let Some((chassis, node)) = old {
        txn.then.push(Op::Delete(keys.chassis_node(chassis, node)));
    }
    let (Some((chassis, node)), Some(after)) = (new, after) else { return Ok(None) };
    if find(store, keys, chassis).await?.is_none() {
        return Ok(Some(chassis));
    }
    txn.when.push(Compare::Exists(keys.chassis(chassis)));
    txn.then.push(Op::put(keys.chassis_node(chassis, node), after.name.as_str().to_owned()));
    Ok(None)
}

async fn find(store: &dyn Store, keys: &Keys, id: ChassisId) -> Result<Option<(KeyValue, Chassis)>, StoreError> {
    let found = store.get_many(vec![keys.chassis(id)]).await?.values.into_iter().next().flatten();
    found.map(|kv| Ok((kv.clone(), records::decode::<ChassisRecord, Chassis>(&kv)?))).transpose()
}

fn put(txn: &mut Txn, keys: &Keys, chassis: &Chassis) {
    txn.then.push(Op::put(keys.chassis(chassis.id), records::encode(&ChassisRecord::from(chassis))));
}

fn act(id: ChassisId, action: &'static str) -> Act {
    Act { category: Category::Nodes, instance: id.to_string(), action, detail: String::new() }
}
