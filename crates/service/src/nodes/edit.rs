//! Nodes that callers make, describe and forget. Secrets among their settings are sealed before they come near a transaction.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use sabakan_domain::{
    audit::Actor,
    provision::{
        details,
        edit::{self, Around, EditRefusal, Fields},
        engine::Changed,
        node::{Node, NodeId},
        states::State,
    },
    words::Serial,
};
use sabakan_drivers::Secret;
use sabakan_store::{
    repo::nodes::{self, Facts, WrittenNode},
    view::Snapshot,
};

use super::{AskRefusal, Nodes, Shown, check_unlocked, check_version, resolve};
use crate::ServiceError;

/// How a caller wants a node to be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Edit {
    /// The version of the node the caller has seen; another one is left alone.
    pub known: Option<u64>,
    /// The caller knows the state `inspect wait`.
    pub knows_inspect_wait: bool,
    /// Interfaces go back to the defaults of the new driver.
    pub reset_interfaces: bool,
}

impl Nodes {
    /// A number that differs whenever anything stored about a node differs.
    pub fn version(node: &Node) -> u64 {
        nodes::version(node)
    }

    /// Makes a node. Without `id` it gets a new one. `first`: where it starts.
    pub async fn create(
        &self,
        actor: &Actor,
        id: Option<NodeId>,
        fields: &Fields,
        first: State,
    ) -> Result<Shown, ServiceError> {
        let on = &self.on;
        self.check_driver(fields)?;
        let snapshot = on.view.read().await?;
        check_parent(&snapshot, fields.parent_node.as_deref())?;
        if id.is_some_and(|id| snapshot.find_node_by_id(id).is_some()) {
            return Err(ServiceError::Conflict(format!(
                "a node with UUID {} already exists",
                id.map(|id| id.to_string()).unwrap_or_default()
            )));
        }
        let id = id.unwrap_or_else(|| NodeId(uuid::Uuid::new_v4().as_u128()));
        let by = on.by(actor);
        // Checked first: the name is what secrets are sealed for.
        let open = fields.open_secrets(self.hardware.secret_settings()).map_err(AskRefusal::from).map_err(kind)?;
        let name = fields.name.clone().unwrap_or_else(|| id.to_string());
        details::check_name(&name)
            .or_else(|error| if fields.name.is_none() { Ok(()) } else { Err(error) })
            .map_err(|error| ServiceError::Invalid(error.to_string()))?;
        let name = Serial::new(&name).map_err(|error| ServiceError::Invalid(error.to_string()))?;
        let sealed = self.seal(&name, &open).await?;
        let around = Around {
            machine: None,
            driver: None,
            allocation: None,
            secret_settings: self.hardware.secret_settings(),
            sealed: &sealed,
            knows_inspect_wait: true,
            reset_interfaces: false,
            at: by.now,
        };
        let node = edit::create(id, fields, first, &around).map_err(AskRefusal::from).map_err(kind)?;
        nodes::create(&*on.store, &on.keys, &by, &node).await?;
        tracing::info!(serial = %node.name, uuid = %node.id, user = actor.name, "node created");
        Ok(self.written(WrittenNode { node, machine: None }))
    }

    /// Changes what a node is described with. `write` turns what is there into what shall be; it may run more than once.
    pub async fn describe(
        &self,
        actor: &Actor,
        id: &str,
        how: Edit,
        write: impl Fn(&Fields) -> Result<Fields, ServiceError>,
    ) -> Result<Shown, ServiceError> {
        let on = &self.on;
        let snapshot = on.view.read().await?;
        let name = resolve(&snapshot, id).ok_or(ServiceError::NotFound)?;
        let shown = self.show(&snapshot, name.as_str(), &BTreeMap::new()).ok_or(ServiceError::NotFound)?;
        let machine = shown.machine.as_ref().map(|machine| machine.status.state);
        let driver = shown.node.driver.as_deref().or(shown.driver);
        let before = Fields::of(&shown.node, machine, driver);
        let wanted = write(&before)?;
        if wanted.driver != before.driver {
            self.check_driver(&wanted)?;
        }
        check_parent(&snapshot, wanted.parent_node.as_deref().filter(|_| wanted.parent_node != before.parent_node))?;
        let open = wanted.open_secrets(self.hardware.secret_settings()).map_err(AskRefusal::from).map_err(kind)?;
        let new_name = self.new_name(&shown, &before, &wanted)?;
        let sealed = self.seal(new_name.as_ref().unwrap_or(&name), &open).await?;
        let moved = match &new_name {
            Some(new_name) => self.reseal_for(&shown.node, new_name).await?,
            None => BTreeMap::new(),
        };
        let by = on.by(actor);
        let decide = |facts: &Facts| -> Result<Option<Changed>, AskRefusal> {
            check_version(facts, how.known)?;
            let machine = facts.machine.as_ref().map(|machine| machine.status.state);
            let known = self.hardware.driver_of(&facts.node, facts.machine.as_ref()).ok().map(|driver| driver.name());
            let driver = facts.node.driver.as_deref().or(known);
            let around = Around {
                machine,
                driver,
                allocation: facts.allocation.as_ref(),
                secret_settings: self.hardware.secret_settings(),
                sealed: &sealed,
                knows_inspect_wait: how.knows_inspect_wait,
                reset_interfaces: how.reset_interfaces,
                at: by.now,
            };
            let wanted = write(&Fields::of(&facts.node, machine, driver)).map_err(AskRefusal::Driver)?;
            // What the rule says lasts longer than a lock; who may not write at all is told so first.
            let mut changed = edit::change(&facts.node, &wanted, &around)?;
            check_unlocked(facts)?;
            if changed.node.name != facts.node.name {
                rebind(&facts.node, &mut changed.node, &moved)?;
            }
            Ok((changed.node != facts.node || changed.machine.is_some()).then_some(changed))
        };
        let written = nodes::edit(&*on.store, &on.keys, &by, &name, "update", decide).await?;
        Ok(self.written(written))
    }

    /// A node as its change left it. Nothing is read: whatever a read would say now, the change is made, and has to be told. Nobody
    /// works on the node, because nobody may change it otherwise.
    fn written(&self, WrittenNode { node, machine }: WrittenNode) -> Shown {
        let driver = self.hardware.driver_of(&node, machine.as_ref()).ok().map(|driver| driver.name());
        Shown { node: Arc::new(node), machine: machine.map(Arc::new), driver, lock: None, waiting: None }
    }

    /// Forgets a node. Its machine, if there is one, stays and has a node by rule again.
    pub async fn remove(&self, actor: &Actor, name: &Serial, known: Option<u64>) -> Result<(), ServiceError> {
        let on = &self.on;
        let decide = |facts: &Facts| -> Result<(), AskRefusal> {
            check_version(facts, known)?;
            check_unlocked(facts)?;
            edit::check_removal(&facts.node, facts.machine.as_ref().map(|machine| machine.status.state))?;
            Ok(())
        };
        nodes::remove(&*on.store, &on.keys, &on.by(actor), name, decide).await?;
        tracing::info!(serial = %name, user = actor.name, "node forgotten");
        Ok(())
    }

    /// Changes the traits of a node. `write` may run more than once.
    pub async fn set_traits(
        &self,
        actor: &Actor,
        name: &Serial,
        write: impl Fn(&BTreeSet<String>) -> Result<BTreeSet<String>, ServiceError>,
    ) -> Result<(), ServiceError> {
        let on = &self.on;
        let now = on.clock.now();
        let decide = |facts: &Facts| -> Result<Option<Changed>, AskRefusal> {
            check_unlocked(facts)?;
            let traits = write(&facts.node.details.traits).map_err(AskRefusal::Driver)?;
            let traits = details::check_traits(traits.iter().map(String::as_str));
            let traits = traits.map_err(EditRefusal::from)?;
            if traits == facts.node.details.traits {
                return Ok(None);
            }
            let mut changed = Changed { node: facts.node.clone(), machine: None, rows: Vec::new() };
            changed.node.details.traits = traits;
            changed.node.details.edited_at = Some(now);
            Ok(Some(changed))
        };
        let by = on.by(actor);
        // Boxed: it holds a node several times over, and every caller would carry the room for it.
        Box::pin(nodes::edit(&*on.store, &on.keys, &by, name, "traits", decide)).await?;
        Ok(())
    }

    fn check_driver(&self, fields: &Fields) -> Result<(), ServiceError> {
        let Some(wanted) = &fields.driver else { return Ok(()) };
        if self.hardware.drivers().any(|driver| driver.name() == wanted) {
            return Ok(());
        }
        let known: Vec<_> = self.hardware.drivers().map(|driver| driver.name()).collect();
        Err(ServiceError::Invalid(format!("there is no driver {wanted:?}; known: {}", known.join(", "))))
    }

    /// The name a node shall have, if it is another one. A node with a machine is called like it.
    fn new_name(&self, shown: &Shown, before: &Fields, wanted: &Fields) -> Result<Option<Serial>, ServiceError> {
        let Some(name) = wanted.name.as_deref().filter(|_| wanted.name != before.name) else { return Ok(None) };
        if shown.machine.is_some() {
            return Err(ServiceError::Invalid(format!(
                "name: node {} is called like its machine and cannot be renamed",
                shown.node.name
            )));
        }
        details::check_name(name).map_err(|error| ServiceError::Invalid(error.to_string()))?;
        Serial::new(name).map(Some).map_err(|error| ServiceError::Invalid(error.to_string()))
    }

    async fn seal(
        &self,
        name: &Serial,
        open: &BTreeMap<String, String>,
    ) -> Result<BTreeMap<String, String>, ServiceError> {
        let mut sealed = BTreeMap::new();
        for (setting, secret) in open {
            let secret = Secret::new(secret.clone());
            sealed.insert(setting.clone(), self.hardware.vault().seal(name, setting, &secret).await?);
        }
        Ok(sealed)
    }

    /// The secrets of a node, sealed for another name, each with what it was sealed as.
    async fn reseal_for(&self, node: &Node, name: &Serial) -> Result<BTreeMap<String, (String, String)>, ServiceError> {
        let mut moved = BTreeMap::new();
        for (setting, sealed) in &node.driver_secrets {
            let secret = self.hardware.vault().open(&node.name, setting, sealed).await?;
            let again = self.hardware.vault().seal(name, setting, &secret).await?;
            moved.insert(setting.clone(), (sealed.clone(), again));
        }
        Ok(moved)
    }
}

/// The node that another one is said to be a part of. It may be forgotten later; nothing depends on it.
fn check_parent(snapshot: &Snapshot, parent: Option<&str>) -> Result<(), ServiceError> {
    let Some(parent) = parent else { return Ok(()) };
    match parent.parse::<NodeId>().ok().and_then(|id| snapshot.find_node_by_id(id)) {
        Some(_) => Ok(()),
        None => Err(ServiceError::Invalid(format!(
            "Unable to apply the requested parent_node '{parent}'. Requested value was invalid."
        ))),
    }
}

/// A secret is bound to the name of its node: those that stay are exchanged for the ones sealed for the new name.
fn rebind(before: &Node, after: &mut Node, moved: &BTreeMap<String, (String, String)>) -> Result<(), EditRefusal> {
    for (setting, sealed) in &mut after.driver_secrets {
        if before.driver_secrets.get(setting) != Some(sealed) {
            continue;
        }
        match moved.get(setting) {
            Some((old, new)) if old == sealed => sealed.clone_from(new),
            _ => return Err(EditRefusal::Raced),
        }
    }
    Ok(())
}

fn kind(refusal: AskRefusal) -> ServiceError {
    crate::error::Refusal::kind(refusal)
}
