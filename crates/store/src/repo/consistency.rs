//! Reads the whole registry and reports what cannot be read or contradicts itself. Changes nothing.

use std::collections::BTreeMap;

use sabakan_domain::{consistency::check_registry, dhcp::DhcpConfig, ipam::IpamConfig, machine::Machine};

use super::{
    machines::decode_indices,
    schema::{self, SchemaError},
};
use crate::{
    KeyValue, Range, Revision, Store, StoreError,
    keys::Keys,
    records::{self, DhcpRecord, IpamRecord},
};

/// What was found.
#[derive(Debug, Default)]
pub struct Report {
    /// Machines that can be read.
    pub machines: usize,
    /// What is wrong, for people. Empty: nothing.
    pub problems: Vec<String>,
}

/// Checks the registry at one revision.
pub async fn check(store: &dyn Store, keys: &Keys) -> Result<Report, StoreError> {
    let mut report = Report::default();
    match schema::check(store, keys).await {
        Ok(()) => {}
        Err(SchemaError::Store(error)) => return Err(error),
        Err(refusal) => report.problems.push(refusal.to_string()),
    }
    let (stored, at) = read_all(store, keys.machines(), None).await?;
    let mut machines: Vec<Machine> = Vec::with_capacity(stored.len());
    for kv in &stored {
        match records::decode_machine(kv) {
            Ok(machine) if kv.key == keys.machine(&machine.serial) => machines.push(machine),
            Ok(machine) => report.problems.push(format!("{} holds the machine {}", kv.key, machine.serial)),
            Err(error) => report.problems.push(error.to_string()),
        }
    }
    let mut indices = BTreeMap::new();
    let prefix = keys.all_node_indices();
    for kv in read_all(store, prefix.clone(), Some(at)).await?.0 {
        let rack = kv.key.strip_prefix(&prefix).and_then(|rack| rack.parse().ok());
        match (rack, decode_indices(Some(&kv))) {
            (Some(rack), Ok(list)) => drop(indices.insert(rack, list)),
            (None, _) => report.problems.push(format!("{} names no rack", kv.key)),
            (_, Err(error)) => report.problems.push(error.to_string()),
        }
    }
    let config = store.get_many(vec![keys.ipam(), keys.dhcp()]).await?.values;
    if let Some(Some(kv)) = config.first() {
        report.problems.extend(records::decode::<IpamRecord, IpamConfig>(kv).err().map(|error| error.to_string()));
    }
    if let Some(Some(kv)) = config.get(1) {
        report.problems.extend(records::decode::<DhcpRecord, DhcpConfig>(kv).err().map(|error| error.to_string()));
    }
    report.problems.extend(check_registry(&machines, &indices).iter().map(ToString::to_string));
    report.machines = machines.len();
    Ok(report)
}

async fn read_all(
    store: &dyn Store,
    prefix: String,
    mut at: Option<Revision>,
) -> Result<(Vec<KeyValue>, Revision), StoreError> {
    let mut range = Range { at, ..Range::first(prefix) };
    let mut all = Vec::new();
    loop {
        let page = store.list(range.clone()).await?;
        at = Some(page.revision);
        all.extend(page.items);
        match all.last() {
            Some(last) if page.more => range = Range { at, after: Some(last.key.clone()), ..range },
            _ => return Ok((all, page.revision)),
        }
    }
}
