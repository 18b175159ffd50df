//! Registration and removal of machines.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use jiff::Timestamp;
use sabakan_domain::{
    ipam::{IpamConfig, OutsidePool},
    lifecycle::{self, NotRetired},
    machine::{NewMachine, Rack},
    registration::{Facts, Registration, RegistrationRefusal, plan_registration, release_index},
    words::Serial,
};

use super::{ChangeError, change, revision_of};
use crate::{
    Compare, KeyValue, Op, Store, StoreError, Txn,
    keys::Keys,
    records::{self, IpamRecord, MachineRecord},
};

/// Registers machines, all or none (G3). Compared in the transaction: the configuration, the index list of every rack touched, and
/// that none of the serials is known.
pub async fn register(
    store: &dyn Store,
    keys: &Keys,
    new: &[NewMachine],
    outside: OutsidePool,
    now: Timestamp,
) -> Result<Registration, ChangeError<RegistrationRefusal>> {
    let racks: Vec<Rack> = new.iter().map(|m| m.rack).collect::<BTreeSet<_>>().into_iter().collect();
    let plan = || async {
        let facts = read_facts(store, keys, new, &racks).await?;
        let registration = plan_registration(
            new,
            Facts { ipam: facts.ipam.as_ref(), indices: &facts.indices, registered: &facts.registered },
            outside,
            now,
        )
        .map_err(ChangeError::Refused)?;
        let mut txn = Txn { when: facts.compares, then: Vec::with_capacity(new.len() + racks.len()) };
        for machine in &registration.machines {
            let key = keys.machine(&machine.serial);
            txn.when.push(Compare::Missing(key.clone()));
            txn.then.push(Op::put(key, records::encode(&MachineRecord::from(machine))));
        }
        for (rack, indices) in &registration.indices {
            txn.then.push(Op::put(keys.node_indices(*rack), records::encode(indices)));
        }
        Ok((txn, registration))
    };
    change(store, plan).await
}

/// Removes a machine and releases its index.
pub async fn remove(store: &dyn Store, keys: &Keys, serial: &Serial) -> Result<(), ChangeError<NotRetired>> {
    let machine_key = keys.machine(serial);
    let plan = || async {
        let read = store.get_many(vec![machine_key.clone()]).await?;
        let Some(Some(stored)) = read.values.first() else { return Err(ChangeError::NotFound) };
        let machine = records::decode_machine(stored)?;
        lifecycle::check_removal(machine.status.state).map_err(ChangeError::Refused)?;
        let indices_key = keys.node_indices(machine.rack);
        let read = store.get_many(vec![indices_key.clone()]).await?;
        let indices = read.values.first().and_then(Option::as_ref);
        let left = release_index(&decode_indices(indices)?, machine.index_in_rack);
        let txn = Txn {
            when: vec![
                Compare::ModRevision(machine_key.clone(), stored.mod_revision),
                Compare::ModRevision(indices_key.clone(), revision_of(indices)),
            ],
            then: vec![Op::Delete(machine_key.clone()), Op::put(indices_key, records::encode(&left))],
        };
        Ok((txn, ()))
    };
    change(store, plan).await
}

/// What a registration has to know, and the compares that hold while it is still so.
struct StoredFacts {
    ipam: Option<IpamConfig>,
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
