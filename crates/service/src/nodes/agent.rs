//! What agents ask and tell: who they are, that they live, what they found. They are believed by their token alone; whoever has none
//! learns whether a node waits for its ramdisk, and nothing else.

use std::net::IpAddr;

use sabakan_domain::{
    audit::Actor,
    mac::Mac,
    provision::{
        agent::{self, AgentCall, CallRefusal},
        node::{Node, NodeId},
    },
    words::Serial,
};
use sabakan_drivers::{Secret, agent::check_certificate};
use sabakan_store::{
    repo::nodes::{self, Facts},
    view::Snapshot,
};
use serde_json::Value;

use super::{AskRefusal, Nodes, check_unlocked, resolve};
use crate::{ServiceError, agents};

/// A ramdisk that found its node.
#[derive(Debug, Clone)]
pub struct Introduced {
    /// The node.
    pub node: Node,
    /// Its token, if it is the first to ask.
    pub token: Option<Secret>,
}

/// A call of an agent.
#[derive(Debug, Clone)]
pub struct AgentHeartbeat {
    /// What it proves itself with.
    pub token: Secret,
    /// Where it listens.
    pub callback_url: String,
    /// What it is.
    pub version: String,
    /// The certificate it shows there.
    pub verify_ca: Option<String>,
    /// Where its call came from.
    pub peer: Option<IpAddr>,
}

impl Nodes {
    /// Tells a ramdisk which node it runs on: by UUID if it knows one, by the addresses of its interfaces otherwise. The first that
    /// asks after a boot gets the token.
    pub async fn look_up(&self, actor: &Actor, id: Option<NodeId>, macs: &[Mac]) -> Result<Introduced, ServiceError> {
        let snapshot = self.on.view.read().await?;
        let node = whose(&snapshot, id, macs).ok_or(ServiceError::NotFound)?;
        agent::expected(&node).ok_or(ServiceError::NotFound)?;
        // Other ramdisks prove themselves in their own ways, or are no ramdisks at all.
        let machine = snapshot.find_machine(node.name.as_str());
        if !self.hardware.has_agent(&node, machine.map(|machine| &**machine)) {
            return Err(ServiceError::NotFound);
        }
        self.introduce(actor, &node).await
    }

    /// Gives the ramdisk of a node its token, unless it has one.
    async fn introduce(&self, actor: &Actor, node: &Node) -> Result<Introduced, ServiceError> {
        let on = &self.on;
        if agent::expected(node).is_some_and(|contact| contact.token.is_some()) {
            return Ok(Introduced { node: node.clone(), token: None });
        }
        let (token, sealed) = agents::issue(self.hardware.vault(), node).await?;
        let by = on.by(actor);
        let who = by_whom(actor);
        let decide = |facts: &Facts| -> Result<_, AskRefusal> {
            check_unlocked(facts)?;
            agent::expected(&facts.node).ok_or(AskRefusal::Unexpected)?;
            Ok(agent::introduce(&facts.node, &sealed, &who, by.now))
        };
        let node = nodes::hear(&*on.store, &on.keys, &by, &node.name, Some("lookup"), None, decide).await?;
        let won = has_token(&node, &sealed);
        tracing::info!(serial = %node.name, peer = who, first = won, "a ramdisk looked up its node");
        Ok(Introduced { node, token: won.then_some(token) })
    }

    /// An agent called. What follows from it is done by whoever does the work.
    pub async fn hear(&self, actor: &Actor, id: &str, call: &AgentHeartbeat) -> Result<(), ServiceError> {
        let on = &self.on;
        let snapshot = on.view.read().await?;
        let name = resolve(&snapshot, id).ok_or(ServiceError::NotFound)?;
        let node = snapshot.find_node(name.as_str()).ok_or(ServiceError::NotFound)?;
        let sealed = self.check_token(&node, call).await?;
        let invalid = |error: String| ServiceError::Invalid(error);
        agent::check_callback(&call.callback_url, call.peer).map_err(|error| invalid(error.to_string()))?;
        if let Some(pem) = &call.verify_ca {
            check_certificate(pem).map_err(|reason| invalid(format!("agent_verify_ca {reason}")))?;
        }
        let said = AgentCall {
            url: call.callback_url.trim_end_matches('/').to_owned(),
            version: call.version.clone(),
            verify_ca: call.verify_ca.clone(),
        };
        let by = on.by(actor);
        let decide = |facts: &Facts| -> Result<_, AskRefusal> {
            check_unlocked(facts)?;
            Ok(agent::called(&facts.node, &said, &sealed, by.now)?)
        };
        nodes::hear(&*on.store, &on.keys, &by, &name, None, None, decide).await?;
        Ok(())
    }

    /// The sealed token of a node, if the agent showed the same.
    async fn check_token(&self, node: &Node, call: &AgentHeartbeat) -> Result<String, ServiceError> {
        let refused = || ServiceError::Invalid(CallRefusal::Token.to_string());
        let contact = node.operation.as_ref().and_then(|operation| operation.ramdisk.as_ref());
        let sealed = contact.and_then(|contact| contact.token.clone()).ok_or_else(refused)?;
        let proved = agents::proves(self.hardware.vault(), node, &sealed, call.token.expose()).await?;
        if proved { Ok(sealed) } else { Err(refused()) }
    }

    /// What a ramdisk found in its machine: kept, and its node goes on. The node is found by UUID if the ramdisk knows one, by the
    /// addresses it found otherwise.
    pub async fn take_inspection(
        &self,
        actor: &Actor,
        id: Option<NodeId>,
        data: Value,
    ) -> Result<Introduced, ServiceError> {
        let on = &self.on;
        let found = agents::read(data)?;
        let snapshot = on.view.read().await?;
        let node = whose(&snapshot, id, &found.macs).ok_or(ServiceError::NotFound)?;
        let by = on.by(actor);
        let who = by_whom(actor);
        // Nobody who could not send anything makes this server seal a token.
        if !agent::awaits_inventory(&node) {
            return Err(ServiceError::NotFound);
        }
        let (token, sealed) = agents::issue(self.hardware.vault(), &node).await?;
        let decide = |facts: &Facts| -> Result<_, AskRefusal> {
            check_unlocked(facts)?;
            let inspected = agent::inspected(&facts.node, &found.properties, &sealed, &who, by.now);
            inspected.ok_or(AskRefusal::Unexpected).map(Some)
        };
        let stored = Some(&found.stored);
        let node = nodes::hear(&*on.store, &on.keys, &by, &node.name, Some("inspection"), stored, decide).await?;
        tracing::info!(serial = %node.name, peer = who, "a ramdisk told what it found");
        let won = has_token(&node, &sealed);
        Ok(Introduced { node, token: won.then_some(token) })
    }
}

/// Whether the ramdisk of a node was given this very token.
fn has_token(node: &Node, sealed: &str) -> bool {
    agent::expected(node).is_some_and(|contact| contact.token.as_deref() == Some(sealed))
}

/// Where a call came from, for the history.
fn by_whom(actor: &Actor) -> String {
    actor.ip.map_or_else(|| actor.name.clone(), |ip| format!("ramdisk at {ip}"))
}

/// The node somebody means; `None`: none, or not one alone.
fn whose(snapshot: &Snapshot, id: Option<NodeId>, macs: &[Mac]) -> Option<Node> {
    let name: Serial = match id {
        Some(id) => snapshot.find_node_by_id(id)?.name.clone(),
        None => {
            let mut found =
                macs.iter().filter_map(|mac| snapshot.ports().find_by_address(*mac)).map(|placed| placed.node);
            let first = found.next()?;
            if found.any(|other| other != first) {
                return None;
            }
            snapshot.find_node_by_id(first)?.name.clone()
        }
    };
    snapshot.find_node(name.as_str()).map(|node| (*node).clone())
}
