//! Ports and port groups. Those of one node are one record, linked by the node's UUID: renaming the node leaves it alone, and a node
//! nobody has asked anything about can have one too. Addresses, names and UUIDs are claimed under keys of their own, so that no two
//! ports of the fleet share one, whoever is faster.

use std::collections::BTreeSet;

use sabakan_domain::{
    mac::Mac,
    provision::{
        ids::{NodeId, PortId},
        node_ports::NodePorts,
        port::{self, Port},
    },
    words::Serial,
};

use super::{ChangeError, audit::By, change, nodes, revision_of};
use crate::{
    Compare, Op, Revision, Store, StoreError, Txn,
    keys::{Keys, PortClaim},
    records::{self, NodePortsRecord},
};

/// What a decision about the ports of a node may look at. All of it is compared again in the transaction that writes the result.
#[derive(Debug, Clone)]
pub struct Facts {
    /// The node.
    pub node: nodes::Facts,
    /// Its ports and port groups.
    pub ports: NodePorts,
}

/// What a decision came to: the ports as they shall be, and what to tell the caller. `None`: nothing changes.
pub type Decided<T> = (Option<NodePorts>, T);

/// Why the ports of a node are not changed.
#[derive(Debug, thiserror::Error)]
pub enum Taken<R: std::error::Error + 'static> {
    /// Another port or group has it.
    #[error("A {0} already exists.")]
    Claimed(PortClaim),
    /// A rule forbids it.
    #[error(transparent)]
    Refused(R),
}

/// What a change is called in the audit log.
#[derive(Debug, Clone)]
pub struct Naming {
    /// What is done.
    pub action: &'static str,
    /// To which port or group, or with which network.
    pub detail: String,
}

/// Changes the ports of a node. `decide` may run again after a lost race.
pub async fn edit<T, R: std::error::Error + 'static>(
    store: &dyn Store,
    keys: &Keys,
    by: &By,
    (name, id): (&Serial, NodeId),
    naming: &Naming,
    decide: impl Fn(&Facts) -> Result<Decided<T>, R>,
) -> Result<T, ChangeError<Taken<R>>> {
    let plan = || async {
        let read = nodes::read(store, keys, name).await?.ok_or(ChangeError::NotFound)?;
        // Forgotten meanwhile, and another one is called the same.
        if read.facts.node.id != id {
            return Err(ChangeError::NotFound);
        }
        let (before, revision) = get(store, keys, id).await?;
        let facts = Facts { node: read.facts, ports: before };
        let decided = decide(&facts).map_err(|refusal| ChangeError::Refused(Taken::Refused(refusal)))?;
        let (Some(after), answer) = decided else { return Ok((Txn::default(), decided.1)) };
        let mut txn = Txn { when: read.compares, then: vec![] };
        txn.when.push(Compare::ModRevision(keys.node_ports(id), revision));
        if let Some(taken) = exchange(store, keys, &mut txn, &facts.ports, &after).await? {
            return Err(ChangeError::Refused(Taken::Claimed(taken)));
        }
        put(&mut txn, keys, &after);
        by.log(&mut txn, keys, nodes::act(name, naming.action, naming.detail.clone()));
        Ok((txn, answer))
    };
    change(store, plan).await
}

/// Adds ports for addresses an inspection found to the transaction that records it. Addresses some port has already are left where
/// they are, and what a node has no room for is left out.
pub(super) async fn found(
    store: &dyn Store,
    keys: &Keys,
    txn: &mut Txn,
    by: &By,
    node: NodeId,
    addresses: &[(PortId, Mac)],
) -> Result<(), StoreError> {
    let wanted = addresses.iter().map(|(_, address)| keys.port_claim(&PortClaim::Address(*address))).collect();
    let taken = store.get_many(wanted).await?.values;
    let (before, revision) = get(store, keys, node).await?;
    let mut after = before.clone();
    for ((id, address), taken) in addresses.iter().zip(taken) {
        if taken.is_some() || after.has_address(*address) {
            continue;
        }
        if let Ok(port) = port::create(&after, *id, port::About::new(*address), by.now) {
            after = after.with_port(port);
        }
    }
    if after == before {
        return Ok(());
    }
    txn.when.push(Compare::ModRevision(keys.node_ports(node), revision));
    // Whoever takes one of them meanwhile makes the transaction conflict, and then all of this is read again.
    claim(txn, keys, node, claims(&after).difference(&claims(&before)));
    put(txn, keys, &after);
    Ok(())
}

/// Adds to the transaction that forgets a node that its ports go with it, and what they claimed with them.
pub(super) async fn forget(store: &dyn Store, keys: &Keys, txn: &mut Txn, node: NodeId) -> Result<(), StoreError> {
    let (ports, revision) = get(store, keys, node).await?;
    // Compared even where there are none: one that is made meanwhile would be left behind.
    txn.when.push(Compare::ModRevision(keys.node_ports(node), revision));
    if revision != Revision::NONE {
        txn.then.push(Op::Delete(keys.node_ports(node)));
        txn.then.extend(claims(&ports).iter().map(|claim| Op::Delete(keys.port_claim(claim))));
    }
    Ok(())
}

/// The ports of a node and the revision they were read at.
async fn get(store: &dyn Store, keys: &Keys, node: NodeId) -> Result<(NodePorts, Revision), StoreError> {
    let found = store.get_many(vec![keys.node_ports(node)]).await?.values.into_iter().next().flatten();
    let ports = found.as_ref().map(records::decode::<NodePortsRecord, NodePorts>).transpose()?;
    Ok((ports.unwrap_or_else(|| NodePorts::none_of(node)), revision_of(found.as_ref())))
}

/// Writes the record, or takes it away when nothing is left in it.
fn put(txn: &mut Txn, keys: &Keys, ports: &NodePorts) {
    let key = keys.node_ports(ports.node);
    txn.then.push(match ports.is_empty() {
        true => Op::Delete(key),
        false => Op::put(key, records::encode(&NodePortsRecord::from(ports))),
    });
}

/// Claims what is new and gives back what is no longer used. The answer is what somebody else has already.
async fn exchange(
    store: &dyn Store,
    keys: &Keys,
    txn: &mut Txn,
    before: &NodePorts,
    after: &NodePorts,
) -> Result<Option<PortClaim>, StoreError> {
    let (old, new) = (claims(before), claims(after));
    // Two ports of this very node may want the same, too.
    let all = claim_list(after);
    if all.len() != new.len() {
        let mut seen = BTreeSet::new();
        return Ok(all.into_iter().find(|claim| !seen.insert(claim.clone())));
    }
    let added: Vec<&PortClaim> = new.difference(&old).collect();
    if !added.is_empty() {
        let found = store.get_many(added.iter().map(|claim| keys.port_claim(claim)).collect()).await?.values;
        if let Some((taken, _)) = added.iter().zip(&found).find(|(_, found)| found.is_some()) {
            return Ok(Some((*taken).clone()));
        }
    }
    claim(txn, keys, after.node, added);
    txn.then.extend(old.difference(&new).map(|claim| Op::Delete(keys.port_claim(claim))));
    Ok(None)
}

fn claim<'a>(txn: &mut Txn, keys: &Keys, node: NodeId, added: impl IntoIterator<Item = &'a PortClaim>) {
    for claim in added {
        txn.when.push(Compare::Missing(keys.port_claim(claim)));
        txn.then.push(Op::put(keys.port_claim(claim), node.to_string()));
    }
}

fn claims(ports: &NodePorts) -> BTreeSet<PortClaim> {
    claim_list(ports).into_iter().collect()
}

fn claim_list(ports: &NodePorts) -> Vec<PortClaim> {
    let of_port = |port: &Port| {
        let name = port.about.name.clone().map(PortClaim::Name);
        [Some(PortClaim::Address(port.about.address)), name, Some(PortClaim::Port(port.id))].into_iter().flatten()
    };
    let of_group = |group: &sabakan_domain::provision::port_group::PortGroup| {
        let name = group.about.name.clone().map(PortClaim::GroupName);
        let address = group.about.address.map(PortClaim::GroupAddress);
        [address, name, Some(PortClaim::Group(group.id))].into_iter().flatten()
    };
    ports.ports.iter().flat_map(of_port).chain(ports.groups.iter().flat_map(of_group)).collect()
}

/// What the ports of a node claim, for whoever checks the store.
pub(super) fn claimed_keys(keys: &Keys, ports: &NodePorts) -> BTreeSet<String> {
    claims(ports).iter().map(|claim| keys.port_claim(claim)).collect()
}
