//! What people ask of the repair queue, and what they are told about it.

use std::{collections::BTreeMap, net::Ipv4Addr};

use sabakan_domain::{
    audit::Actor,
    machine::Machine,
    repair::{
        enqueue::NewEntry,
        entry::{Backoff, Entry},
        procedure::Operation,
    },
    words::Serial,
};
use sabakan_store::repo::repairs::{self, Under, unreadable::Queue};

use super::{Repairs, facts::Standing};
use crate::ServiceError;

/// An entry with what belongs to it.
#[derive(Debug, Clone)]
pub struct ShownEntry {
    /// The entry.
    pub entry: Entry,
    /// Its node in Kubernetes; empty: it is not in the cluster.
    pub nodename: String,
    /// Why nothing is done with it right now; `None`: something is, or this server does not know because another one leads.
    pub waits: Option<String>,
}

/// An entry that somebody asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManualEntry {
    /// What is wrong.
    pub operation: String,
    /// The BMC type of the machine.
    pub machine_type: String,
    /// The machine.
    pub address: Ipv4Addr,
    /// Its serial; `None`: the machine with that address, if one is registered.
    pub serial: Option<Serial>,
}

impl Repairs {
    /// Every entry, by index.
    pub async fn entries(&self) -> Result<Vec<ShownEntry>, ServiceError> {
        let standing = self.standing().await?;
        Ok(self.shown(&standing))
    }

    pub(super) fn shown(&self, standing: &Standing) -> Vec<ShownEntry> {
        let waits = self.told().waits.clone();
        let show = |entry: &Entry| ShownEntry {
            entry: entry.clone(),
            nodename: standing.nodes.get(&entry.address).map(|node| node.name.clone()).unwrap_or_default(),
            waits: waits.get(&entry.index).cloned(),
        };
        standing.state.entries.iter().map(show).collect()
    }

    /// Adds an entry by hand. The limits do not hold for it, and count it.
    pub async fn add(&self, actor: &Actor, wish: &ManualEntry) -> Result<Entry, ServiceError> {
        let ManualEntry { operation, machine_type, address, serial } = wish;
        let standing = self.standing().await?;
        if standing.cluster.configuration.is_none() {
            return Err(ServiceError::Refused("there is no cluster configuration that says how to repair".to_owned()));
        }
        let known = standing.procedures.operation(machine_type, operation);
        let known = known.map_err(|reason| ServiceError::Invalid(reason.to_string()))?;
        let serial = self.serial_for(known, *address, serial.as_ref()).await?;
        let new =
            NewEntry { serial, address: *address, machine_type: machine_type.clone(), operation: operation.clone() };
        let on = &self.on;
        let entry = repairs::add(&*on.store, &on.keys, &on.by(actor), &new).await?;
        tracing::info!(index = entry.index, %address, operation, user = actor.name, "repair asked for");
        Ok(entry)
    }

    /// The machine that is meant. A machine is known by its first address: its node, whether pods have to leave that, and that it is
    /// repaired once at a time. By another one, none of this would hold.
    async fn serial_for(
        &self,
        operation: &Operation,
        address: Ipv4Addr,
        named: Option<&Serial>,
    ) -> Result<Option<Serial>, ServiceError> {
        if self.options.registry.is_some() {
            return Ok(named.cloned());
        }
        let snapshot = self.on.view.read().await?;
        let machine = match named {
            Some(named) => Some(
                snapshot
                    .find_machine(named.as_str())
                    .ok_or_else(|| ServiceError::Invalid(format!("serial: no machine {named} is registered")))?,
            ),
            None => snapshot.find_by_address(address),
        };
        match machine {
            Some(machine) => match why_not_by(machine, address) {
                Some(problem) => Err(ServiceError::Invalid(problem)),
                None => Ok(Some(machine.serial.clone())),
            },
            None if operation.needs_registered() => Err(ServiceError::Invalid(format!(
                "address: no machine with the address {address} is registered, and operation {:?} needs the registry",
                operation.name
            ))),
            None => Ok(None),
        }
    }

    /// Marks an entry for removal: a finished one is cleared, any other is cancelled. One that cannot be read goes at once.
    pub async fn delete(&self, actor: &Actor, index: u64) -> Result<(), ServiceError> {
        let mark = |entry: &Entry| (!entry.deleted).then(|| Entry { deleted: true, ..entry.clone() });
        let on = &self.on;
        let marked =
            repairs::update(&*on.store, &on.keys, &on.by(actor), Under::default(), index, "delete", mark).await;
        self.or_discard(marked.map(drop).map_err(ServiceError::from), actor, Queue::Repairs, index).await
    }

    /// Marks all finished entries, or all others; which.
    pub async fn delete_all(&self, actor: &Actor, finished: bool) -> Result<Vec<u64>, ServiceError> {
        let mark = |entry: &Entry| {
            let wanted = entry.is_finished() == finished && !entry.deleted;
            wanted.then(|| Entry { deleted: true, ..entry.clone() })
        };
        self.change_all(actor, "delete", mark).await
    }

    /// Lets drains that failed be tried at once; of which entries.
    pub async fn reset_backoff(&self, actor: &Actor) -> Result<Vec<u64>, ServiceError> {
        let reset = |entry: &Entry| {
            let wanted = entry.backoff != Backoff::default();
            wanted.then(|| Entry { backoff: Backoff::default(), ..entry.clone() })
        };
        self.change_all(actor, "reset-backoff", reset).await
    }

    /// Makes a change of all entries that it changes; which.
    async fn change_all(
        &self,
        actor: &Actor,
        action: &'static str,
        change: impl Fn(&Entry) -> Option<Entry>,
    ) -> Result<Vec<u64>, ServiceError> {
        let (on, state) = (&self.on, self.state().await?);
        let concerned = state.entries.iter().filter(|entry| change(entry).is_some());
        let indexes: Vec<u64> = concerned.map(|entry| entry.index).collect();
        Ok(repairs::update_many(&*on.store, &on.keys, &on.by(actor), &indexes, action, change).await?)
    }
}

/// Why a machine is not repaired by an address; `None`: it is the one it is known by.
fn why_not_by(machine: &Machine, address: Ipv4Addr) -> Option<String> {
    let serial = &machine.serial;
    let first = machine.ipv4().next();
    if first == Some(address) {
        return None;
    }
    let instead = first.map_or_else(|| "it has none itself".to_owned(), |first| format!("repair it by {first}"));
    Some(if machine.bmc.nic.address == address {
        format!("address: {address} is that of the controller of machine {serial}; {instead}")
    } else if machine.ipv4().any(|own| own == address) {
        format!("address: {address} is not the first address of machine {serial}; {instead}")
    } else {
        format!("serial: machine {serial} does not have the address {address}")
    })
}

/// Entries by index.
pub(super) fn by_index(entries: &[Entry]) -> BTreeMap<u64, &Entry> {
    entries.iter().map(|entry| (entry.index, entry)).collect()
}
