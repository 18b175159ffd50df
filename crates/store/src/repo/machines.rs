//! Machines: registration, removal, and every change of one. A change writes the record, its published copy and the audit entry in
//! one transaction.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    net::Ipv4Addr,
};

use sabakan_domain::{
    audit::Category,
    ipam::{IpamError, OutsidePool, StoredIpam},
    lifecycle::{self, Force, Granted, HealthState, NotRetired, TransitionRefusal},
    machine::{Machine, NewMachine, Rack, Status},
    provision::{
        guards::{self, LifecycleVerdict, ProvisionRefusal},
        node::{HeldReport, Node},
    },
    registration::{Facts, Registration, RegistrationRefusal, check_addresses, plan_registration, release_index},
    words::Serial,
};

use super::{
    ChangeError,
    audit::{Act, By},
    change, chassis, nodes, ports, revision_of,
};
use crate::{
    Compare, KeyValue, Op, Range, Store, StoreError, Txn,
    keys::Keys,
    records::{self, IpamRecord, MachineRecord, NodeRecord},
};

/// Registers machines, all or none (G3). Compared in the transaction: the configuration, the index list of every rack touched, and
/// that none of the serials is known. `holder` tells who has an address. It is not compared: under one configuration no two machines
/// get the same address, so that only those registered under another one matter, and of these there are never more.
pub async fn register(
    store: &dyn Store,
    keys: &Keys,
    by: &By,
    new: &[NewMachine],
    outside: OutsidePool,
    holder: impl Fn(Ipv4Addr) -> Option<Serial>,
) -> Result<Registration, ChangeError<RegistrationRefusal>> {
    let racks: Vec<Rack> = new.iter().map(|m| m.rack).collect::<BTreeSet<_>>().into_iter().collect();
    let plan = || async {
        let facts = read_facts(store, keys, new, &racks).await?;
        let unusable = |error: &IpamError| ChangeError::Refused(RegistrationRefusal::IpamUnusable(error.clone()));
        let ipam = facts.ipam.as_ref().map(StoredIpam::usable).transpose().map_err(unusable)?;
        let known = Facts { ipam, indices: &facts.indices, registered: &facts.registered };
        let registration = plan_registration(new, known, outside, by.now).map_err(ChangeError::Refused)?;
        check_addresses(&registration, &holder).map_err(ChangeError::Refused)?;
        let mut txn = Txn { when: facts.compares, then: Vec::with_capacity(2 * new.len() + racks.len() + 1) };
        for machine in &registration.machines {
            txn.when.push(Compare::Missing(keys.machine(&machine.serial)));
            put(&mut txn, keys, machine);
        }
        for (rack, indices) in &registration.indices {
            txn.then.push(Op::put(keys.node_indices(*rack), records::encode(indices)));
        }
        let serials: Vec<&str> = new.iter().map(|machine| machine.serial.as_str()).collect();
        by.log(&mut txn, keys, act("", "register", serials.join("\n")));
        Ok((txn, registration))
    };
    change(store, plan).await
}

/// Why a lifecycle state is not changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StateRefusal {
    /// The lifecycle forbids it.
    #[error(transparent)]
    Transition(#[from] TransitionRefusal),
    /// Provisioning forbids it.
    #[error(transparent)]
    Provision(#[from] ProvisionRefusal),
}

/// Why a machine is not removed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RemovalRefusal {
    /// The lifecycle forbids it.
    #[error(transparent)]
    NotRetired(#[from] NotRetired),
    /// Provisioning forbids it.
    #[error(transparent)]
    Provision(#[from] ProvisionRefusal),
}

/// Removes a machine with everything provisioning knows about it, and releases its index.
pub async fn remove(
    store: &dyn Store,
    keys: &Keys,
    by: &By,
    serial: &Serial,
) -> Result<(), ChangeError<RemovalRefusal>> {
    let plan = || async {
        let (stored, provisioned) = with_node(store, keys, serial).await?;
        let refused = |refusal| ChangeError::Refused(refusal);
        lifecycle::check_removal(stored.machine.status.state).map_err(RemovalRefusal::from).map_err(refused)?;
        guards::check_idle(&provisioned.node).map_err(RemovalRefusal::from).map_err(refused)?;
        let indices_key = keys.node_indices(stored.machine.rack);
        let read = store.get_many(vec![indices_key.clone()]).await?;
        let indices = read.values.first().and_then(Option::as_ref);
        let left = release_index(&decode_indices(indices)?, stored.machine.index_in_rack);
        let mut txn = Txn {
            when: vec![
                stored.unchanged(keys),
                provisioned.unchanged,
                Compare::Missing(keys.lock(serial)),
                Compare::ModRevision(indices_key.clone(), revision_of(indices)),
            ],
            then: vec![
                Op::Delete(keys.machine(serial)),
                Op::Delete(keys.published(serial)),
                Op::put(indices_key, records::encode(&left)),
            ],
        };
        ports::forget(store, keys, &mut txn, provisioned.node.id).await?;
        if provisioned.stored {
            let _left = chassis::follow(store, keys, &mut txn, Some(&provisioned.node), None).await?;
            nodes::instance::leave(store, keys, &mut txn, &provisioned.node, None).await?;
            txn.then.push(Op::Delete(keys.node(serial)));
            txn.then.push(Op::Delete(keys.node_id(provisioned.node.id)));
            txn.then.push(Op::Delete(keys.inventory(serial)));
            txn.then.push(Op::DeletePrefix(keys.history(serial)));
        }
        by.log(&mut txn, keys, act(serial.as_str(), "delete", String::new()));
        Ok((txn, ()))
    };
    change(store, plan).await
}

/// Moves a machine along its lifecycle. Whether it has keys is compared where the answer depends on it; asking for the state it is
/// in writes nothing. What a monitor reports while provisioning works on the machine is kept with the node instead.
pub async fn set_state(
    store: &dyn Store,
    keys: &Keys,
    by: &By,
    serial: &Serial,
    to: HealthState,
    force: Force,
) -> Result<Machine, ChangeError<StateRefusal>> {
    let plan = || async {
        let (stored, provisioned) = with_node(store, keys, serial).await?;
        let from = stored.machine.status.state;
        let has_keys = to == HealthState::Retired && has_keys(store, keys, serial).await?;
        let refused = |refusal| ChangeError::Refused(refusal);
        let granted = lifecycle::request(from, to, lifecycle::Facts { has_keys }, force);
        let granted = granted.map_err(StateRefusal::from).map_err(refused)?;
        let mut txn = Txn { when: vec![stored.unchanged(keys), provisioned.unchanged.clone()], then: vec![] };
        let mut machine = stored.machine;
        if granted == Granted::Already {
            declare(&mut txn, keys, by, &provisioned, to);
            return Ok((txn, machine));
        }
        let forced = force == Force::Yes;
        let verdict = guards::check_lifecycle(&provisioned.node, from, to, forced);
        if verdict.map_err(StateRefusal::from).map_err(refused)? == LifecycleVerdict::Hold {
            hold_report(&mut txn, keys, by, provisioned.node, to);
            return Ok((txn, machine));
        }
        machine.status = Status { state: to, since: by.now };
        put(&mut txn, keys, &machine);
        if to == HealthState::Retired {
            txn.when.push(Compare::NoneWithPrefix(keys.crypts(serial)));
            txn.when.push(Compare::Missing(keys.lock(serial)));
        }
        declare(&mut txn, keys, by, &provisioned, to);
        let forced = if forced { " (forced)" } else { "" };
        by.log(&mut txn, keys, act(serial.as_str(), "set-state", format!("{from} -> {to}{forced}")));
        Ok((txn, machine))
    };
    change(store, plan).await
}

/// Keeps what a monitor reported until the work under way has ended.
fn hold_report(txn: &mut Txn, keys: &Keys, by: &By, mut node: Node, state: HealthState) {
    let detail = format!("report {state} kept: the node is {}", node.state);
    let reporter = by.actor.name.clone();
    node.held_report = Some(HeldReport { state, at: by.now, by: reporter });
    let name = node.name.clone();
    nodes::put(txn, keys, node, &[]);
    by.log(txn, keys, act(name.as_str(), "set-state", detail));
}

/// Remembers with a stored node that its machine is declared to leave, or no longer is: tear-down alone makes a machine retiring
/// too, and that one comes back.
fn declare(txn: &mut Txn, keys: &Keys, by: &By, provisioned: &Provisioned, to: HealthState) {
    let declared = matches!(to, HealthState::Retiring | HealthState::Retired);
    if !provisioned.stored || provisioned.node.retire_declared == declared {
        return;
    }
    let mut node = provisioned.node.clone();
    node.retire_declared = declared;
    let name = node.name.clone();
    nodes::put(txn, keys, node, &[]);
    // A declaration that moves the machine is in the log already.
    if txn.then.iter().all(|op| !matches!(op, Op::Put { key, .. } if *key == keys.machine(&name))) {
        by.log(txn, keys, act(name.as_str(), "set-state", format!("declared {to}")));
    }
}

/// Changes one machine in a way that no other record has a say in. `decide` may run again after a lost race; `None` changes
/// nothing.
pub async fn update<R: std::error::Error + 'static>(
    store: &dyn Store,
    keys: &Keys,
    by: &By,
    serial: &Serial,
    decide: impl Fn(Machine) -> Result<Option<(Machine, &'static str, String)>, R>,
) -> Result<(), ChangeError<R>> {
    let plan = || async {
        let stored = get(store, keys, serial).await?;
        let mut txn = Txn { when: vec![stored.unchanged(keys)], then: vec![] };
        if let Some((machine, action, detail)) = decide(stored.machine).map_err(ChangeError::Refused)? {
            put(&mut txn, keys, &machine);
            by.log(&mut txn, keys, act(serial.as_str(), action, detail));
        }
        Ok((txn, ()))
    };
    change(store, plan).await
}

/// A machine and the revision it was read at.
pub(super) struct Stored {
    pub(super) machine: Machine,
    revision: crate::Revision,
}

impl Stored {
    /// Reads a stored machine.
    pub(super) fn decode(kv: &KeyValue) -> Result<Stored, StoreError> {
        Ok(Stored { machine: records::decode_machine(kv)?, revision: kv.mod_revision })
    }

    /// Holds while nobody has written the machine since.
    pub(super) fn unchanged(&self, keys: &Keys) -> Compare {
        Compare::ModRevision(keys.machine(&self.machine.serial), self.revision)
    }
}

pub(super) async fn get<R: std::error::Error + 'static>(
    store: &dyn Store,
    keys: &Keys,
    serial: &Serial,
) -> Result<Stored, ChangeError<R>> {
    let read = store.get_many(vec![keys.machine(serial)]).await?;
    let Some(Some(kv)) = read.values.first() else { return Err(ChangeError::NotFound) };
    Ok(Stored::decode(kv)?)
}

/// What provisioning knows about a machine, and the compare that holds while it is still so.
pub(super) struct Provisioned {
    pub(super) node: Node,
    pub(super) stored: bool,
    pub(super) unchanged: Compare,
}

/// A machine with its node.
pub(super) async fn with_node<R: std::error::Error + 'static>(
    store: &dyn Store,
    keys: &Keys,
    serial: &Serial,
) -> Result<(Stored, Provisioned), ChangeError<R>> {
    let read = store.get_many(vec![keys.machine(serial), keys.node(serial)]).await?;
    let [machine, node] = read.values.as_slice() else { return Err(ChangeError::NotFound) };
    let stored = Stored::decode(machine.as_ref().ok_or(ChangeError::NotFound)?)?;
    let unchanged = Compare::ModRevision(keys.node(serial), revision_of(node.as_ref()));
    let known = node.as_ref().map(records::decode::<NodeRecord, Node>).transpose()?;
    let is_stored = known.is_some();
    let node = known.unwrap_or_else(|| nodes::implied_now(&stored.machine));
    Ok((stored, Provisioned { node, stored: is_stored, unchanged }))
}

/// Writes the record and its copy for programs outside.
pub(super) fn put(txn: &mut Txn, keys: &Keys, machine: &Machine) {
    let value = records::encode(&MachineRecord::from(machine));
    txn.then.push(Op::put(keys.machine(&machine.serial), value.clone()));
    txn.then.push(Op::put(keys.published(&machine.serial), value));
}

pub(super) async fn has_keys(store: &dyn Store, keys: &Keys, serial: &Serial) -> Result<bool, StoreError> {
    let page = store.list(Range { limit: 1, ..Range::first(keys.crypts(serial)) }).await?;
    Ok(!page.items.is_empty())
}

fn act(instance: &str, action: &'static str, detail: String) -> Act {
    Act { category: Category::Machines, instance: instance.to_owned(), action, detail }
}

/// What a registration has to know, and the compares that hold while it is still so.
struct StoredFacts {
    ipam: Option<StoredIpam>,
    indices: BTreeMap<Rack, Vec<u32>>,
    registered: HashSet<Serial>,
    compares: Vec<Compare>,
}

async fn read_facts(
    store: &dyn Store,
    keys: &Keys,
    new: &[NewMachine],
    racks: &[Rack],
) -> Result<StoredFacts, StoreError> {
    let mut wanted = vec![keys.ipam()];
    wanted.extend(racks.iter().map(|rack| keys.node_indices(*rack)));
    let compared = wanted.len();
    wanted.extend(new.iter().map(|machine| keys.machine(&machine.serial)));
    let read = store.get_many(wanted.clone()).await?.values;
    let (facts, machines) = read.split_at(compared);
    let compares = wanted.into_iter().zip(facts).map(|(key, kv)| Compare::ModRevision(key, revision_of(kv.as_ref())));
    let compares = compares.collect();
    let ipam = facts[0].as_ref().map(records::decode::<IpamRecord, _>).transpose()?;
    let mut indices = BTreeMap::new();
    for (rack, kv) in racks.iter().zip(&facts[1..]) {
        indices.insert(*rack, decode_indices(kv.as_ref())?);
    }
    let known = new.iter().zip(machines).filter(|(_, kv)| kv.is_some());
    let registered = known.map(|(machine, _)| machine.serial.clone()).collect();
    Ok(StoredFacts { ipam, indices, registered, compares })
}

pub(super) fn decode_indices(kv: Option<&KeyValue>) -> Result<Vec<u32>, StoreError> {
    let Some(kv) = kv else { return Ok(Vec::new()) };
    // The service this schema comes from writes `null` for a list it has just created.
    let decoded: Result<Option<Vec<u32>>, _> = serde_json::from_slice(&kv.value);
    decoded.map(Option::unwrap_or_default).map_err(|error| StoreError::Corrupt {
        place: kv.key.clone(),
        reason: format!("not a list of indices: {error}"),
    })
}
