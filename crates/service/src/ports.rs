//! Ports: the network interfaces of nodes, as callers describe them. Port groups are in `port_groups`, networks attached to either in
//! `vifs`; all of them change the one record that a node's ports are.

use std::sync::Arc;

use sabakan_domain::{
    audit::Actor,
    provision::{
        ids::{NodeId, PortId},
        node_ports::NodePorts,
        paging::{self, Slice},
        port::{self, About, Placed, Port, PortFilter},
    },
    words::Serial,
};
use sabakan_store::{
    repo::ports::{self, Decided, Facts, Naming},
    view::Snapshot,
};

use crate::{
    Foundation, ServiceError,
    nodes::{AskRefusal, check_unlocked},
};

/// Describes the ports of nodes.
pub struct Ports {
    on: Arc<Foundation>,
}

/// A port and the node it belongs to.
#[derive(Debug, Clone, PartialEq)]
pub struct ShownPort {
    /// The node.
    pub node: NodeId,
    /// The port.
    pub port: Port,
}

impl From<Placed<'_>> for ShownPort {
    fn from(placed: Placed<'_>) -> ShownPort {
        ShownPort { node: placed.node, port: placed.port.clone() }
    }
}

impl Ports {
    /// Works on a foundation.
    pub fn new(on: Arc<Foundation>) -> Ports {
        Ports { on }
    }

    /// One page of a list. A condition that few ports meet is looked up; only without one are all of them looked at.
    pub async fn page(&self, filter: &PortFilter, wanted: &Slice) -> Result<Vec<ShownPort>, ServiceError> {
        let snapshot = self.on.view.read().await?;
        let all = snapshot.ports();
        let after = wanted.after.map(|id| all.find(PortId(id)).ok_or(ServiceError::NotFound)).transpose()?;
        let meets = |placed: &Placed<'_>| {
            let stored = || snapshot.nodes().find_by_id(placed.node).map(Arc::as_ref);
            filter.matches(placed) && (!filter.asks_about_nodes() || filter.matches_node(stored()))
        };
        let narrowed: Vec<&Arc<NodePorts>> = match filter {
            PortFilter { address: Some(address), .. } => {
                all.find_by_address(*address).and_then(|placed| all.of_node(placed.node)).into_iter().collect()
            }
            PortFilter { group: Some(group), .. } => {
                all.find_group(*group).and_then(|placed| all.of_node(placed.node)).into_iter().collect()
            }
            PortFilter { node: Some(node), .. } => all.of_node(*node).into_iter().collect(),
            _ => all.all().collect(),
        };
        let placed = narrowed
            .into_iter()
            .flat_map(|of_node| of_node.ports.iter().map(|port| Placed { node: of_node.node, port }).filter(meets));
        Ok(paging::page(placed, after.as_ref(), wanted).into_iter().map(ShownPort::from).collect())
    }

    /// One port, by UUID or name.
    pub async fn get(&self, id: &str) -> Result<ShownPort, ServiceError> {
        let snapshot = self.on.view.read().await?;
        find(&snapshot, id).map(ShownPort::from).ok_or(ServiceError::NotFound)
    }

    /// Makes a port of a node. Without `id` it gets a new one.
    pub async fn create(
        &self,
        actor: &Actor,
        node: NodeId,
        id: Option<PortId>,
        about: &About,
    ) -> Result<ShownPort, ServiceError> {
        let id = id.unwrap_or_else(|| PortId(uuid::Uuid::new_v4().as_u128()));
        let at = self.on.clock.now();
        let naming = Naming { action: "create-port", detail: format!("uuid {id} address {}", about.address) };
        let port = self
            .edit(actor, node, &naming, |facts| {
                let port = port::create(&facts.ports, id, about.clone(), at)?;
                Ok((Some(facts.ports.with_port(port.clone())), port))
            })
            .await?;
        tracing::info!(node = %node, port = %id, user = actor.name, "port created");
        Ok(ShownPort { node, port })
    }

    /// Changes what a port is described with. `write` turns what is there into what shall be; it may run more than once.
    pub async fn describe(
        &self,
        actor: &Actor,
        id: &str,
        write: impl Fn(Placed<'_>) -> Result<(NodeId, About), ServiceError>,
    ) -> Result<ShownPort, ServiceError> {
        let ShownPort { node, port: Port { id, .. } } = self.get(id).await?;
        let at = self.on.clock.now();
        let naming = Naming { action: "update-port", detail: format!("uuid {id}") };
        let port = self
            .edit(actor, node, &naming, |facts| {
                let port = facts.ports.port(id).ok_or(AskRefusal::Driver(ServiceError::NotFound))?;
                let (named, wanted) = write(Placed { node, port }).map_err(AskRefusal::Driver)?;
                port::check_stays(node, named)?;
                if wanted == port.about {
                    return Ok((None, port.clone()));
                }
                let port = port::change(&facts.node.node, &facts.ports, port, wanted, at)?;
                Ok((Some(facts.ports.with_port(port.clone())), port))
            })
            .await?;
        Ok(ShownPort { node, port })
    }

    /// Forgets a port.
    pub async fn remove(&self, actor: &Actor, id: &str) -> Result<(), ServiceError> {
        let ShownPort { node, port: Port { id, .. } } = self.get(id).await?;
        let naming = Naming { action: "delete-port", detail: format!("uuid {id}") };
        self.edit(actor, node, &naming, |facts| {
            let port = facts.ports.port(id).ok_or(AskRefusal::Driver(ServiceError::NotFound))?;
            port::check_removal(&facts.node.node, port)?;
            Ok((Some(facts.ports.without_port(id)), ()))
        })
        .await?;
        tracing::info!(node = %node, port = %id, user = actor.name, "port forgotten");
        Ok(())
    }

    /// Changes the ports of a node nobody works on.
    pub(crate) async fn edit<T>(
        &self,
        actor: &Actor,
        node: NodeId,
        naming: &Naming,
        decide: impl Fn(&Facts) -> Result<Decided<T>, AskRefusal>,
    ) -> Result<T, ServiceError> {
        let on = &self.on;
        let name = self.name_of(node).await?;
        let decide = |facts: &Facts| {
            check_unlocked(&facts.node)?;
            decide(facts)
        };
        Ok(ports::edit(&*on.store, &on.keys, &on.by(actor), (&name, node), naming, decide).await?)
    }

    /// What a node is stored under.
    async fn name_of(&self, node: NodeId) -> Result<Serial, ServiceError> {
        let snapshot = self.on.view.read().await?;
        snapshot.find_node_by_id(node).map(|node| node.name.clone()).ok_or(ServiceError::NotFound)
    }

    /// Everything known, as of now.
    pub(crate) async fn snapshot(&self) -> Result<Arc<Snapshot>, ServiceError> {
        Ok(self.on.view.read().await?)
    }

    /// The moment of a change.
    pub(crate) fn now(&self) -> jiff::Timestamp {
        self.on.clock.now()
    }
}

fn find<'a>(snapshot: &'a Snapshot, id: &str) -> Option<Placed<'a>> {
    match id.parse::<PortId>() {
        Ok(id) => snapshot.ports().find(id),
        Err(_) => snapshot.ports().find_by_name(id),
    }
}
