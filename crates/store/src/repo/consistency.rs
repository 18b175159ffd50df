//! Reads the whole registry and reports what cannot be read or contradicts itself. Changes nothing.

mod allocations;

use std::collections::{BTreeMap, HashMap, HashSet};

use sabakan_domain::{
    consistency::check_registry,
    dhcp::DhcpConfig,
    ipam::StoredIpam,
    lifecycle::HealthState,
    machine::Machine,
    provision::{
        chassis::Chassis,
        node::{Node, NodeId},
        node_ports::NodePorts,
    },
    takeover,
};

use super::{
    machines::decode_indices,
    ports,
    repairs::unreadable,
    schema::{self, SchemaError},
};
use crate::{
    KeyValue, Range, Revision, Store, StoreError,
    keys::Keys,
    records::{self, ChassisRecord, DhcpRecord, IpamRecord, NodePortsRecord, NodeRecord},
    view::implied_id,
};

/// What was found.
#[derive(Debug, Default)]
pub struct Report {
    /// Machines that can be read.
    pub machines: usize,
    /// What is wrong, for people. Empty: nothing.
    pub problems: Vec<String>,
    /// What an older service stored and input would refuse, for people. It is served, and waits to be mended.
    pub notes: Vec<String>,
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
            Ok(machine) if kv.key == keys.machine(&machine.serial) => {
                let remarks = takeover::remarks(&machine);
                report.notes.extend(remarks.iter().map(|remark| format!("takeover: {}: {remark}", kv.key)));
                machines.push(machine);
            }
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
        match records::decode::<IpamRecord, StoredIpam>(kv).as_ref().map(StoredIpam::usable) {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => report.notes.push(format!("takeover: {} cannot be used: {error}", kv.key)),
            Err(error) => report.problems.push(error.to_string()),
        }
    }
    if let Some(Some(kv)) = config.get(1) {
        report.problems.extend(records::decode::<DhcpRecord, DhcpConfig>(kv).err().map(|error| error.to_string()));
    }
    report.problems.extend(check_registry(&machines, &indices).iter().map(ToString::to_string));
    report.problems.extend(check_keys(store, keys, &machines, at).await?);
    report.problems.extend(check_published(store, keys, &stored, at).await?);
    report.problems.extend(check_ports(store, keys, &machines, at).await?);
    report.problems.extend(allocations::check(store, keys, at).await?);
    report.problems.extend(unreadable::check(store, keys).await?);
    report.machines = machines.len();
    Ok(report)
}

/// Ports belong to nodes that are there, and claim what they have; nobody else claims anything. Chassis that hold nodes are there.
async fn check_ports(
    store: &dyn Store,
    keys: &Keys,
    machines: &[Machine],
    at: Revision,
) -> Result<Vec<String>, StoreError> {
    let mut problems = Vec::new();
    let mut nodes: HashSet<NodeId> = machines.iter().map(|machine| implied_id(&machine.serial)).collect();
    let mut in_chassis = HashSet::new();
    for kv in read_all(store, keys.nodes(), Some(at)).await?.0 {
        match records::decode::<NodeRecord, Node>(&kv) {
            Ok(node) => {
                nodes.insert(node.id);
                in_chassis.extend(node.details.chassis.map(|chassis| keys.chassis_node(chassis, node.id)));
            }
            Err(error) => problems.push(error.to_string()),
        }
    }
    let (mut claimed, mut chassis) = (HashSet::new(), HashSet::new());
    for kv in read_all(store, keys.all_node_ports(), Some(at)).await?.0 {
        match records::decode::<NodePortsRecord, NodePorts>(&kv) {
            Ok(ports) if !nodes.contains(&ports.node) => {
                problems.push(format!("{} holds the ports of a node that is not there", kv.key));
            }
            Ok(ports) => claimed.extend(ports::claimed_keys(keys, &ports)),
            Err(error) => problems.push(error.to_string()),
        }
    }
    for kv in read_all(store, keys.all_chassis(), Some(at)).await?.0 {
        match records::decode::<ChassisRecord, Chassis>(&kv) {
            Ok(one) => drop(chassis.insert(keys.chassis_nodes(one.id))),
            Err(error) => problems.push(error.to_string()),
        }
    }
    differences(&mut problems, claimed, read_all(store, keys.port_claims(), Some(at)).await?.0);
    let inside = read_all(store, keys.all_chassis_nodes(), Some(at)).await?.0;
    let lost = |kv: &&KeyValue| kv.key.rfind('/').is_none_or(|end| !chassis.contains(&kv.key[..=end]));
    problems.extend(inside.iter().filter(lost).map(|kv| format!("{} is in a chassis that is not there", kv.key)));
    differences(&mut problems, in_chassis, inside);
    Ok(problems)
}

/// Keys that should be there and are not, and the other way round.
fn differences(problems: &mut Vec<String>, mut expected: HashSet<String>, found: Vec<KeyValue>) {
    let left_behind = found.into_iter().filter(|kv| !expected.remove(&kv.key));
    problems.extend(left_behind.map(|kv| format!("{} belongs to nothing", kv.key)).collect::<Vec<_>>());
    problems.extend(expected.into_iter().map(|key| format!("{key} is missing")));
}

/// G1: a retired machine has no disk key, and neither has one that was removed.
async fn check_keys(
    store: &dyn Store,
    keys: &Keys,
    machines: &[Machine],
    at: Revision,
) -> Result<Vec<String>, StoreError> {
    let states: HashMap<&str, HealthState> = machines.iter().map(|m| (m.serial.as_str(), m.status.state)).collect();
    let prefix = keys.all_crypts();
    let mut problems = Vec::new();
    for kv in read_all(store, prefix.clone(), Some(at)).await?.0 {
        let serial = kv.key.strip_prefix(&prefix).and_then(|rest| rest.rsplit_once('/')).map_or("", |(s, _)| s);
        match states.get(serial) {
            Some(HealthState::Retired) => {
                problems.push(format!("the retired machine {serial} has a disk key: {}", kv.key));
            }
            None => problems.push(format!("there is a disk key of a machine that is not registered: {}", kv.key)),
            Some(_) => {}
        }
    }
    Ok(problems)
}

/// What is published of a machine is what is stored, and nothing else is published.
async fn check_published(
    store: &dyn Store,
    keys: &Keys,
    stored: &[KeyValue],
    at: Revision,
) -> Result<Vec<String>, StoreError> {
    let (machines, states) = (keys.machines(), keys.all_published());
    let mut published: HashMap<String, KeyValue> = HashMap::new();
    for kv in read_all(store, states.clone(), Some(at)).await?.0 {
        published.insert(kv.key.strip_prefix(&states).unwrap_or_default().to_owned(), kv);
    }
    let mut problems = Vec::new();
    for kv in stored {
        let serial = kv.key.strip_prefix(&machines).unwrap_or_default();
        match published.remove(serial) {
            Some(copy) if copy.value != kv.value => problems.push(format!("{} differs from {}", copy.key, kv.key)),
            // Not published yet: data taken over from elsewhere, unchanged since.
            Some(_) | None => {}
        }
    }
    problems.extend(published.into_values().map(|kv| format!("{} publishes a machine that is not registered", kv.key)));
    Ok(problems)
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
