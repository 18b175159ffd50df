//! Nodes: what callers ask of them, and what workers do with them.
//!
//! A caller's change compares the node, its machine and whether somebody works on it. A worker first takes the node: it creates the
//! lock under its own lease. From then on each of its writes compares that very lock, so that a worker that lost its lease cannot
//! write any more (G5), however late it wakes up.

pub(super) mod instance;
mod manage;

use bytes::Bytes;
use jiff::Timestamp;
pub use manage::{Taken, WrittenNode, any_secrets, create, edit, remove, reseal_page, version};
use sabakan_domain::{
    audit::Category,
    lifecycle::{self, HealthState},
    mac::Mac,
    machine::{Machine, Status},
    provision::{
        allocation::Allocation,
        engine::Changed,
        ids::PortId,
        node::{Node, Row},
        schedule::Class,
        states::State,
    },
    words::Serial,
};

use super::{
    ChangeError,
    audit::{Act, By},
    crypts::{self, StoredKey},
    get_one, machines, pause_after, ports, revision_of,
};
use crate::{
    Compare, KeyValue, LeaseId, Op, Range, Revision, Store, StoreError, Txn, TxnOutcome,
    keys::Keys,
    limits,
    records::{self, LockRecord, NodeRecord, RowRecord},
    view::implied,
};

/// What a decision about a node may look at. All of it is compared again in the transaction that writes the result.
#[derive(Debug, Clone)]
pub struct Facts {
    /// The node; by rule where none is stored.
    pub node: Node,
    /// Its machine; `None`: none is registered under its name.
    pub machine: Option<Machine>,
    /// Whether the machine has disk keys. Only looked up where the end of the work depends on it.
    pub has_keys: bool,
    /// Who works on it.
    pub lock: Option<LockRecord>,
    /// The allocation that has it. Only looked up where callers change or forget a node.
    pub allocation: Option<Allocation>,
}

/// A node a worker holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// Which node.
    pub name: Serial,
    /// How often it has been taken, this time included.
    pub epoch: u64,
    /// What every write compares.
    lock: Revision,
}

/// Why a worker's write was not made.
#[derive(Debug, thiserror::Error)]
pub enum WorkError {
    /// The lease ended, or somebody removed the node: nothing may be written any more.
    #[error("the lease on this node is lost")]
    Lost,
    /// The store failed; the lease may still hold.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Whether a worker holds on to its node after a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grip {
    /// It goes on with it.
    Keep,
    /// It lets go, in the same transaction: nobody ever sees a node that waits and is held.
    Release,
}

/// What an inspection found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// All of it, as it is served.
    pub inventory: Bytes,
    /// Addresses of network interfaces, each with the UUID its port gets if nobody has described one with that address.
    pub addresses: Vec<(PortId, Mac)>,
}

/// Everything read about a node, and the compares that hold while it is still so.
pub(super) struct Read {
    pub(super) facts: Facts,
    pub(super) compares: Vec<Compare>,
    machine: Option<machines::Stored>,
}

impl Read {
    /// Adds the allocation that has the node.
    async fn with_allocation(mut self, store: &dyn Store, keys: &Keys) -> Result<Read, StoreError> {
        if let Some(id) = self.facts.node.details.allocation {
            let (allocation, revision) = instance::read_allocation(store, keys, id).await?;
            self.compares.push(Compare::ModRevision(keys.allocation(id), revision));
            self.facts.allocation = allocation;
        }
        Ok(self)
    }
}

/// Makes a caller's change. `decide` may run again after a lost race; its rows go into the history, the audit entry says what was
/// asked.
pub async fn ask<R: std::error::Error + 'static>(
    store: &dyn Store,
    keys: &Keys,
    by: &By,
    name: &Serial,
    action: &'static str,
    decide: impl Fn(&Facts) -> Result<Option<(Changed, String)>, R>,
) -> Result<Node, ChangeError<R>> {
    let plan = || async {
        let read = read(store, keys, name).await?.ok_or(ChangeError::NotFound)?;
        let mut txn = Txn { when: read.compares.clone(), then: vec![] };
        let Some((changed, detail)) = decide(&read.facts).map_err(ChangeError::Refused)? else {
            return Ok((Txn::default(), read.facts.node));
        };
        instance::leave(store, keys, &mut txn, &read.facts.node, Some(&changed.node)).await?;
        let node = put(&mut txn, keys, changed.node, &changed.rows);
        move_machine(&mut txn, keys, read.machine.as_ref(), changed.machine, by.now);
        by.log(&mut txn, keys, act(name, action, detail));
        Ok((txn, node))
    };
    super::change(store, plan).await
}

/// Takes a node nobody works on: the lock is created under the worker's lease, in the transaction that records what the worker is
/// about to do. `None`: somebody else was faster, or `decide` sees nothing to do. After an error it may have been taken all the same:
/// see [`let_go`].
pub async fn take<T>(
    store: &dyn Store,
    keys: &Keys,
    lease: LeaseId,
    holder: &str,
    name: &Serial,
    now: Timestamp,
    decide: impl Fn(&Facts) -> Option<(Changed, T)>,
) -> Result<Option<(Held, Node, T)>, StoreError> {
    let Some(read) = read(store, keys, name).await? else { return Ok(None) };
    if read.facts.lock.is_some() {
        return Ok(None);
    }
    let Some((changed, then)) = decide(&read.facts) else { return Ok(None) };
    let mut node = changed.node;
    node.epoch += 1;
    let epoch = node.epoch;
    let class = Class::of(&node).as_str().to_owned();
    let lock = LockRecord { holder: holder.to_owned(), epoch, group: node.group.clone(), class, since: now };
    let mut txn = Txn { when: read.compares, then: vec![] };
    txn.then.push(Op::Put { key: keys.lock(name), value: records::encode(&lock), lease: Some(lease) });
    let node = put(&mut txn, keys, node, &changed.rows);
    match store.commit(txn).await? {
        TxnOutcome::Committed(revision) => Ok(Some((Held { name: name.clone(), epoch, lock: revision }, node, then))),
        TxnOutcome::Conflicted => Ok(None),
    }
}

/// Writes a worker's change, with what an inspection found, if it still holds the node. Changes that others made meanwhile are kept:
/// `decide` sees them.
pub async fn write(
    store: &dyn Store,
    keys: &Keys,
    held: &Held,
    by: &By,
    found: Option<&Found>,
    decide: impl Fn(&Facts) -> (Changed, Grip),
) -> Result<(Node, Grip), WorkError> {
    for attempt in 0..limits::CAS_ATTEMPTS {
        let read = read(store, keys, &held.name).await?.ok_or(WorkError::Lost)?;
        // Compared again below; asked here too, so that a lost lease is told from a lost race.
        if !read.compares.contains(&held.compare(keys)) {
            return Err(WorkError::Lost);
        }
        let (changed, grip) = decide(&read.facts);
        let moved = changed.node.state != read.facts.node.state || changed.machine.is_some();
        let mut txn = Txn { when: read.compares.clone(), then: vec![] };
        let detail = changed.rows.iter().map(|row| row.text.as_str()).collect::<Vec<_>>().join("\n");
        instance::leave(store, keys, &mut txn, &read.facts.node, Some(&changed.node)).await?;
        let node = put(&mut txn, keys, changed.node, &changed.rows);
        move_machine(&mut txn, keys, read.machine.as_ref(), changed.machine, by.now);
        if let Some(found) = found {
            txn.then.push(Op::put(keys.inventory(&held.name), found.inventory.clone()));
            ports::found(store, keys, &mut txn, by, node.id, &found.addresses).await?;
        }
        if grip == Grip::Release {
            txn.then.push(Op::Delete(keys.lock(&held.name)));
        }
        if moved {
            by.log(&mut txn, keys, act(&held.name, "provision", detail));
        }
        match store.commit(txn).await? {
            TxnOutcome::Committed(_) => return Ok((node, grip)),
            TxnOutcome::Conflicted => tokio::time::sleep(pause_after(attempt)).await,
        }
    }
    Err(StoreError::Conflict { attempts: limits::CAS_ATTEMPTS }.into())
}

/// Lets go of a node without changing it, whatever became of the attempt to take it: afterwards no lock of this lease is on it.
pub async fn let_go(store: &dyn Store, keys: &Keys, lease: LeaseId, name: &Serial) -> Result<(), StoreError> {
    let key = keys.lock(name);
    let read = store.get_many(vec![key.clone()]).await?;
    let Some(Some(lock)) = read.values.first() else { return Ok(()) };
    if lock.lease != Some(lease) {
        return Ok(());
    }
    let txn = Txn { when: vec![Compare::ModRevision(key.clone(), lock.mod_revision)], then: vec![Op::Delete(key)] };
    store.commit(txn).await.map(drop)
}

/// Records what was noticed about a node nobody works on: a call of the ramdisk, the end of a task, a power state. `None` from
/// `decide` writes nothing; so does a lock, because its holder sees for itself.
pub async fn notice(
    store: &dyn Store,
    keys: &Keys,
    name: &Serial,
    decide: impl Fn(&Facts) -> Option<Changed>,
) -> Result<bool, StoreError> {
    for attempt in 0..limits::CAS_ATTEMPTS {
        let Some(read) = read(store, keys, name).await? else { return Ok(false) };
        if read.facts.lock.is_some() {
            return Ok(false);
        }
        let Some(changed) = decide(&read.facts) else { return Ok(false) };
        let mut txn = Txn { when: read.compares, then: vec![] };
        instance::leave(store, keys, &mut txn, &read.facts.node, Some(&changed.node)).await?;
        put(&mut txn, keys, changed.node, &changed.rows);
        match store.commit(txn).await? {
            TxnOutcome::Committed(_) => return Ok(true),
            TxnOutcome::Conflicted => tokio::time::sleep(pause_after(attempt)).await,
        }
    }
    Err(StoreError::Conflict { attempts: limits::CAS_ATTEMPTS })
}

/// Records what the ramdisk of a node said, with what it found in its machine. `action`: how the audit log calls it; `None`: it is a
/// call like many others. `decide` may run again after a lost race.
pub async fn hear<R: std::error::Error + 'static>(
    store: &dyn Store,
    keys: &Keys,
    by: &By,
    name: &Serial,
    action: Option<&'static str>,
    found: Option<&Found>,
    decide: impl Fn(&Facts) -> Result<Option<Changed>, R>,
) -> Result<Node, ChangeError<R>> {
    let plan = || async {
        let read = read(store, keys, name).await?.ok_or(ChangeError::NotFound)?;
        let decided = decide(&read.facts).map_err(ChangeError::Refused)?;
        let Some(changed) = decided else { return Ok((Txn::default(), read.facts.node)) };
        let mut txn = Txn { when: read.compares.clone(), then: vec![] };
        let detail = changed.rows.iter().map(|row| row.text.as_str()).collect::<Vec<_>>().join("\n");
        let node = put(&mut txn, keys, changed.node, &changed.rows);
        if let Some(found) = found {
            txn.then.push(Op::put(keys.inventory(name), found.inventory.clone()));
            ports::found(store, keys, &mut txn, by, node.id, &found.addresses).await?;
        }
        if let Some(action) = action {
            by.log(&mut txn, keys, act(name, action, detail));
        }
        Ok((txn, node))
    };
    super::change(store, plan).await
}

/// Deletes the disk keys of a node's machine, which makes it retired. A machine that is not leaving yet becomes retiring first: from
/// then on it gets no new key, so that those deleted are those recorded. How many were deleted; `None`: there is no machine, or it
/// is retired already.
pub async fn erase_keys(
    store: &dyn Store,
    keys: &Keys,
    held: &Held,
    by: &By,
    describe: impl Fn(&[StoredKey]) -> String,
) -> Result<Option<usize>, WorkError> {
    for attempt in 0..limits::CAS_ATTEMPTS {
        let read = read(store, keys, &held.name).await?.ok_or(WorkError::Lost)?;
        if !read.compares.contains(&held.compare(keys)) {
            return Err(WorkError::Lost);
        }
        let Some(machine) = &read.machine else { return Ok(None) };
        let state = machine.machine.status.state;
        let mut txn = Txn { when: read.compares.clone(), then: vec![] };
        let erased = match (lifecycle::torn_down(state), lifecycle::erased(state)) {
            (Some(retiring), _) => {
                move_machine(&mut txn, keys, Some(machine), Some(retiring), by.now);
                by.log(&mut txn, keys, act(&held.name, "set-state", format!("{state} -> {retiring}, to be erased")));
                None
            }
            (None, Some(retired)) => {
                let found = crypts::list(store, keys, &held.name).await?;
                txn.then.push(Op::DeletePrefix(keys.crypts(&held.name)));
                move_machine(&mut txn, keys, Some(machine), Some(retired), by.now);
                by.log(&mut txn, keys, crypts::act(&held.name, "delete", describe(&found)));
                Some(found.len())
            }
            (None, None) => return Ok(None),
        };
        match (store.commit(txn).await?, erased) {
            (TxnOutcome::Committed(_), Some(count)) => return Ok(Some(count)),
            (TxnOutcome::Committed(_), None) => {}
            (TxnOutcome::Conflicted, _) => tokio::time::sleep(pause_after(attempt)).await,
        }
    }
    Err(StoreError::Conflict { attempts: limits::CAS_ATTEMPTS }.into())
}

/// A server that does provisioning work, as long as its lease lives.
pub async fn announce(store: &dyn Store, keys: &Keys, lease: LeaseId, name: &str) -> Result<(), StoreError> {
    let put = Op::Put { key: keys.conductor(name), value: Bytes::from_static(b"{}"), lease: Some(lease) };
    store.commit(Txn { when: vec![], then: vec![put] }).await.map(drop)
}

/// The history of a node, oldest row first.
pub async fn history(store: &dyn Store, keys: &Keys, name: &Serial) -> Result<Vec<(u64, Row)>, StoreError> {
    let prefix = keys.history(name);
    let page = store.list(Range { limit: limits::NODE_HISTORY_ROWS, ..Range::first(prefix.clone()) }).await?;
    let number = |kv: &KeyValue| kv.key.strip_prefix(&prefix).and_then(|text| text.parse().ok()).unwrap_or(0);
    page.items.iter().map(|kv| Ok((number(kv), records::decode::<RowRecord, Row>(kv)?))).collect()
}

/// Whether the machine of a node has disk keys.
pub async fn has_keys(store: &dyn Store, keys: &Keys, name: &Serial) -> Result<bool, StoreError> {
    machines::has_keys(store, keys, name).await
}

/// What the last inspection found, as it was stored.
pub async fn inventory(store: &dyn Store, keys: &Keys, name: &Serial) -> Result<Option<Bytes>, StoreError> {
    Ok(get_one(store, keys.inventory(name)).await?.map(|kv| kv.value))
}

impl Held {
    /// Holds while this worker's lease lives and nobody else has taken the node.
    fn compare(&self, keys: &Keys) -> Compare {
        Compare::ModRevision(keys.lock(&self.name), self.lock)
    }
}

pub(super) async fn read(store: &dyn Store, keys: &Keys, name: &Serial) -> Result<Option<Read>, StoreError> {
    let wanted = vec![keys.node(name), keys.machine(name), keys.lock(name)];
    let values = store.get_many(wanted.clone()).await?.values;
    let mut compares: Vec<Compare> =
        wanted.into_iter().zip(&values).map(|(key, kv)| Compare::ModRevision(key, revision_of(kv.as_ref()))).collect();
    let [node, machine, lock] = values.as_slice() else {
        return Err(StoreError::Invalid { reason: "a read of three keys answered with another number".to_owned() });
    };
    let machine = machine.as_ref().map(machines::Stored::decode).transpose()?;
    let node = match (node, &machine) {
        (Some(kv), _) => records::decode::<NodeRecord, Node>(kv)?,
        (None, Some(stored)) => implied_now(&stored.machine),
        (None, None) => return Ok(None),
    };
    let lock = lock.as_ref().map(decode_lock).transpose()?;
    // Only the end of work that makes a node available asks for it.
    let ends = node.operation.as_ref().is_some_and(|operation| operation.index + 1 >= operation.steps.len());
    let arrives = ends && node.target == Some(State::Available);
    let has_keys = arrives && machines::has_keys(store, keys, name).await?;
    if arrives && !has_keys {
        compares.push(Compare::NoneWithPrefix(keys.crypts(name)));
    }
    let facts = Facts {
        node,
        machine: machine.as_ref().map(|stored| stored.machine.clone()),
        has_keys,
        lock,
        allocation: None,
    };
    Ok(Some(Read { facts, compares, machine }))
}

/// The node a machine has by rule, with what its machine says now.
pub(super) fn implied_now(machine: &Machine) -> Node {
    let leaving = matches!(machine.status.state, HealthState::Retiring | HealthState::Retired);
    Node { retire_declared: leaving, ..implied(machine) }
}

fn decode_lock(kv: &KeyValue) -> Result<LockRecord, StoreError> {
    serde_json::from_slice(&kv.value)
        .map_err(|error| StoreError::Corrupt { place: kv.key.clone(), reason: error.to_string() })
}

/// Writes a node with new rows of its history, and forgets rows beyond the number kept.
pub(super) fn put(txn: &mut Txn, keys: &Keys, mut node: Node, rows: &[Row]) -> Node {
    let (first, next) = &mut node.history;
    for row in rows {
        txn.then.push(Op::put(keys.history_row(&node.name, *next), records::encode(&RowRecord::from(row))));
        *next += 1;
    }
    while *next - *first > limits::NODE_HISTORY_ROWS as u64 {
        txn.then.push(Op::Delete(keys.history_row(&node.name, *first)));
        *first += 1;
    }
    txn.then.push(Op::put(keys.node(&node.name), records::encode(&NodeRecord::from(&node))));
    node
}

/// Moves the machine of a node, if it shall; the machine as it is then.
fn move_machine(
    txn: &mut Txn,
    keys: &Keys,
    stored: Option<&machines::Stored>,
    to: Option<HealthState>,
    now: Timestamp,
) -> Option<Machine> {
    let mut machine = stored?.machine.clone();
    if let Some(state) = to {
        machine.status = Status { state, since: now };
        machines::put(txn, keys, &machine);
    }
    Some(machine)
}

pub(super) fn act(name: &Serial, action: &'static str, detail: String) -> Act {
    Act { category: Category::Nodes, instance: name.to_string(), action, detail }
}
