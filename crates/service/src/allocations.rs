//! Allocations: callers ask for a node of some kind. Which one they get is found by [`tasks::allocator`](crate::tasks::allocator).

use std::{collections::BTreeMap, sync::Arc};

use sabakan_domain::{
    audit::Actor,
    provision::{
        allocation::{self, Allocation, AllocationRefusal, Fields, Filter, Progress},
        ids::AllocationId,
        node::{NodeId, Object},
        paging::{self, Slice},
    },
    words::Serial,
};
use sabakan_store::{
    repo::{allocations, nodes::Facts},
    view::Snapshot,
};

use crate::{
    Foundation, ServiceError,
    error::Refusal as _,
    nodes::{AskRefusal, check_unlocked, resolve},
};

/// Asks for nodes and tells what became of it.
pub struct Allocations {
    on: Arc<Foundation>,
}

/// A wish for a node, as a caller writes it. Nodes are named by name or UUID.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Wish {
    /// Its UUID; `None`: a new one.
    pub id: Option<AllocationId>,
    /// Its name.
    pub name: Option<String>,
    /// The kind of node.
    pub resource_class: Option<String>,
    /// Only these nodes.
    pub candidates: Vec<String>,
    /// What it must be able to do.
    pub traits: Vec<String>,
    /// Whose it must be.
    pub owner: Option<String>,
    /// Anything else.
    pub extra: Object,
    /// The node that has the workload already.
    pub node: Option<String>,
}

impl Allocations {
    /// Works on a foundation.
    pub fn new(on: Arc<Foundation>) -> Allocations {
        Allocations { on }
    }

    /// One allocation, by name or UUID.
    pub async fn get(&self, id: &str) -> Result<Arc<Allocation>, ServiceError> {
        let snapshot = self.on.view.read().await?;
        find(&snapshot, id).cloned().ok_or(ServiceError::NotFound)
    }

    /// The allocation that has a node, given the name of the node.
    pub async fn of_node(&self, name: &Serial) -> Result<Arc<Allocation>, ServiceError> {
        let snapshot = self.on.view.read().await?;
        let id = snapshot.nodes().find(name.as_str()).and_then(|node| node.details.allocation);
        id.and_then(|id| snapshot.allocations().find(id)).cloned().ok_or(ServiceError::NotFound)
    }

    /// One page of a list. `node`: only the one that has this node, by name or UUID; unknown: `Invalid`.
    pub async fn page(
        &self,
        mut filter: Filter,
        node: Option<&str>,
        slice: &Slice,
    ) -> Result<Vec<Arc<Allocation>>, ServiceError> {
        let snapshot = self.on.view.read().await?;
        if let Some(id) = node {
            filter.node = Some(node_id(&snapshot, id).ok_or_else(|| unknown_nodes(&[id]))?);
        }
        let find = |id: u128| snapshot.allocations().find(AllocationId(id)).ok_or(ServiceError::NotFound);
        let after = slice.after.map(find).transpose()?;
        let all = snapshot.allocations().list().filter(|allocation| filter.matches(allocation)).cloned();
        Ok(paging::page(all, after, slice))
    }

    /// Stores a wish. It has no node yet when this returns, unless it names the node that has its workload already.
    pub async fn create(&self, actor: &Actor, wish: &Wish) -> Result<Allocation, ServiceError> {
        let on = &self.on;
        let snapshot = on.view.read().await?;
        let by = on.by(actor);
        let id = wish.id.unwrap_or_else(|| AllocationId(uuid::Uuid::new_v4().as_u128()));
        let allocation = Allocation {
            id,
            name: wish.name.clone(),
            progress: Progress::Allocating,
            resource_class: wish.resource_class.clone(),
            candidates: node_ids(&snapshot, &wish.candidates)?,
            traits: wish.traits.clone(),
            owner: wish.owner.clone(),
            extra: wish.extra.clone(),
            created_at: by.now,
            updated_at: None,
        };
        allocation.check().map_err(AskRefusal::from).map_err(AskRefusal::kind)?;
        if let Some(node) = &wish.node {
            let name = resolve(&snapshot, node).ok_or_else(|| unknown_nodes(&[node]))?;
            return self.backfill(actor, wish.id, allocation, &name).await;
        }
        if allocation.resource_class.is_none() {
            return Err(AskRefusal::from(AllocationRefusal::NoClass).kind());
        }
        allocations::create::<AskRefusal>(&*on.store, &on.keys, &by, &allocation).await?;
        tracing::info!(allocation = %allocation.id, user = actor.name, "allocation asked for");
        Ok(allocation)
    }

    async fn backfill(
        &self,
        actor: &Actor,
        wanted: Option<AllocationId>,
        allocation: Allocation,
        node: &Serial,
    ) -> Result<Allocation, ServiceError> {
        let on = &self.on;
        let by = on.by(actor);
        let decide = |facts: &Facts| -> Result<_, AskRefusal> {
            check_unlocked(facts)?;
            let of_workload = allocation::backfill_id(&facts.node).filter(|_| wanted.is_none());
            let allocation = Allocation { id: of_workload.unwrap_or(allocation.id), ..allocation.clone() };
            Ok(allocation::backfill(&allocation, &facts.node, &actor.name, by.now)?)
        };
        let made = allocations::backfill(&*on.store, &on.keys, &by, node, decide).await?;
        tracing::info!(allocation = %made.id, serial = %node, user = actor.name, "allocation made for a workload");
        Ok(made)
    }

    /// Changes an allocation. `write` turns what is there into what shall be; it may run more than once.
    pub async fn change(
        &self,
        actor: &Actor,
        id: &str,
        write: impl Fn(&Fields) -> Result<Fields, ServiceError>,
    ) -> Result<Allocation, ServiceError> {
        let on = &self.on;
        let found = self.get(id).await?;
        let by = on.by(actor);
        let decide = |allocation: &Allocation| -> Result<Option<Allocation>, AskRefusal> {
            let fields = Fields { name: allocation.name.clone(), extra: allocation.extra.clone() };
            let wanted = write(&fields).map_err(AskRefusal::Driver)?;
            Ok(allocation::change(allocation, &wanted, by.now)?)
        };
        Ok(allocations::edit(&*on.store, &on.keys, &by, found.id, "update-allocation", decide).await?)
    }

    /// Forgets an allocation and takes the workload off its node.
    pub async fn remove(&self, actor: &Actor, id: &str) -> Result<(), ServiceError> {
        let on = &self.on;
        let snapshot = on.view.read().await?;
        let found = find(&snapshot, id).ok_or(ServiceError::NotFound)?;
        let node = found.node().and_then(|node| snapshot.find_node_by_id(node)).map(|node| node.name.clone());
        let by = on.by(actor);
        let decide = |allocation: &Allocation, facts: &Facts| -> Result<_, AskRefusal> {
            let released = allocation::release(allocation, &facts.node, &actor.name, by.now)?;
            check_unlocked(facts)?;
            Ok(released)
        };
        allocations::remove(&*on.store, &on.keys, &by, found.id, node.as_ref(), decide).await?;
        tracing::info!(allocation = %found.id, user = actor.name, "allocation given back");
        Ok(())
    }

    /// How many nodes are in each part of a divided fleet, most first; `None`: in no part.
    pub async fn shards(&self) -> Result<Vec<(Option<String>, usize)>, ServiceError> {
        let snapshot = self.on.view.read().await?;
        let mut counts: BTreeMap<Option<String>, usize> = BTreeMap::new();
        for node in snapshot.nodes().stored() {
            *counts.entry(node.details.shard.clone()).or_default() += 1;
        }
        let by_rule = |serial: &str| snapshot.nodes().find(serial).is_none();
        let implied = snapshot.machines().filter(|machine| by_rule(machine.serial.as_str())).count();
        if implied > 0 {
            *counts.entry(None).or_default() += implied;
        }
        let mut counts: Vec<_> = counts.into_iter().collect();
        counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        Ok(counts)
    }
}

fn find<'a>(snapshot: &'a Snapshot, id: &str) -> Option<&'a Arc<Allocation>> {
    let by_id = id.parse().ok().and_then(|id| snapshot.allocations().find(id));
    by_id.or_else(|| snapshot.allocations().find_by_name(id))
}

fn node_id(snapshot: &Snapshot, id: &str) -> Option<NodeId> {
    resolve(snapshot, id).and_then(|name| snapshot.find_node(name.as_str())).map(|node| node.id)
}

/// Identifiers of nodes that callers name; all that are unknown are told at once.
fn node_ids(snapshot: &Snapshot, names: &[String]) -> Result<Vec<NodeId>, ServiceError> {
    let found: Vec<_> = names.iter().map(|name| (name, node_id(snapshot, name))).collect();
    let unknown: Vec<&str> = found.iter().filter(|(_, id)| id.is_none()).map(|(name, _)| name.as_str()).collect();
    if unknown.is_empty() {
        Ok(found.into_iter().filter_map(|(_, id)| id).collect())
    } else {
        Err(unknown_nodes(&unknown))
    }
}

fn unknown_nodes(names: &[&str]) -> ServiceError {
    ServiceError::Invalid(format!("Nodes cannot be found: {}", names.join(", ")))
}
