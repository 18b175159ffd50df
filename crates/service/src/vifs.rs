//! Networks attached to nodes. There is no network service here: what is attached is noted with the port, for whoever asks.

use sabakan_domain::{
    audit::Actor,
    provision::{
        ids::NodeId,
        node_ports::{NodePorts, Vif},
        port::PortRefusal,
    },
};
use sabakan_store::repo::ports::{Facts, Naming};

use crate::{Ports, ServiceError};

/// What is noted of a change of networks, if anything.
fn kept(facts: &Facts, change: impl Fn() -> Result<NodePorts, PortRefusal>) -> Result<Option<NodePorts>, PortRefusal> {
    if facts.ports.ignores_networks(&facts.node.node.details.interfaces) { Ok(None) } else { change().map(Some) }
}

impl Ports {
    /// Networks attached to a node.
    pub async fn vifs(&self, node: NodeId) -> Result<Vec<String>, ServiceError> {
        let snapshot = self.snapshot().await?;
        let of_node = snapshot.ports().of_node(node);
        Ok(of_node.map(|of_node| of_node.vifs().map(str::to_owned).collect()).unwrap_or_default())
    }

    /// Attaches a network to a free port of a node.
    pub async fn attach(&self, actor: &Actor, node: NodeId, vif: &Vif) -> Result<(), ServiceError> {
        let naming = Naming { action: "attach-vif", detail: vif.id.clone() };
        self.edit(actor, node, &naming, |facts| Ok((kept(facts, || facts.ports.attach(vif))?, ()))).await
    }

    /// Detaches a network from a node.
    pub async fn detach(&self, actor: &Actor, node: NodeId, vif: &str) -> Result<(), ServiceError> {
        let naming = Naming { action: "detach-vif", detail: vif.to_owned() };
        self.edit(actor, node, &naming, |facts| Ok((kept(facts, || facts.ports.detach(vif))?, ()))).await
    }
}
