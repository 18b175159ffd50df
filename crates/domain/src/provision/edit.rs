//! What callers may write about a node, and when: making one, changing one, forgetting one. All of a change or nothing of it.
//!
//! A change is the whole of what may be written, as it shall be ([`Fields`]); [`change`] compares it with what is there. So it does not
//! matter how a caller said it.

use std::{
    collections::{BTreeMap, BTreeSet},
    str::FromStr,
};

use jiff::Timestamp;

use super::{
    allocation::Allocation,
    details::{self, Details, NameError},
    engine::Changed,
    interfaces::{self, HardwareType, Slot, UnknownImplementation},
    node::{Maintenance, Node, NodeId, Object},
    states::State,
};
use crate::{
    lifecycle::{self, Force, Granted, HealthState},
    limits,
    words::Serial,
};

/// What stands in answers for a secret. Written back, it means "as it is".
pub const MASK: &str = "******";

/// Everything callers may write about a node.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Fields {
    /// Its name; `None`: only its UUID names it.
    pub name: Option<String>,
    /// Its driver; `None`: none is known for its machine.
    pub driver: Option<String>,
    /// Implementations; those absent have the default of the driver.
    pub interfaces: BTreeMap<Slot, String>,
    /// Settings of the driver; secrets in the open, or [`MASK`].
    pub driver_info: Object,
    /// What the hardware is said to be.
    pub properties: Object,
    /// Anything else.
    pub extra: Object,
    /// What runs on it.
    pub instance_info: Object,
    /// How that is connected.
    pub network_data: Object,
    /// The chassis it is in.
    pub chassis_uuid: Option<String>,
    /// What kind of machine it is.
    pub resource_class: Option<String>,
    /// The group it belongs to when work is shared.
    pub conductor_group: String,
    /// Whose it is.
    pub owner: Option<String>,
    /// Who has it for a while.
    pub lessee: Option<String>,
    /// Which part of a divided fleet it belongs to.
    pub shard: Option<String>,
    /// For people.
    pub description: Option<String>,
    /// The workload, by name.
    pub instance_name: Option<String>,
    /// The workload, by UUID.
    pub instance_uuid: Option<String>,
    /// The node it is a part of.
    pub parent_node: Option<String>,
    /// Whether automated cleaning runs.
    pub automated_clean: Option<bool>,
    /// Must never be switched off.
    pub disable_power_off: bool,
    /// Automation keeps its hands off.
    pub maintenance: bool,
    /// Is to be retired.
    pub retired: bool,
    /// Why.
    pub retired_reason: Option<String>,
    /// Must not be taken down or rebuilt.
    pub protected: bool,
    /// Why.
    pub protected_reason: Option<String>,
}

/// What the rules look at besides the node.
#[derive(Debug, Clone, Copy)]
pub struct Around<'a> {
    /// The lifecycle state of its machine; `None`: it has none.
    pub machine: Option<HealthState>,
    /// Its driver as callers see it.
    pub driver: Option<&'a str>,
    /// The allocation that has the node.
    pub allocation: Option<&'a Allocation>,
    /// Settings that some driver calls secret.
    pub secret_settings: &'a BTreeSet<&'static str>,
    /// Secrets in the open, as they were sealed for this change, by setting.
    pub sealed: &'a BTreeMap<String, String>,
    /// The caller knows the state `inspect wait`; before that, a node was changed while it was inspected.
    pub knows_inspect_wait: bool,
    /// Interfaces that were not named go back to the defaults of the new driver.
    pub reset_interfaces: bool,
    /// Now.
    pub at: Timestamp,
}

/// Why a node is not made, changed or forgotten.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EditRefusal {
    /// A value that cannot be.
    #[error("{field}: {reason}")]
    Invalid {
        /// Which field.
        field: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// The name cannot be.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The driver does not know it.
    #[error(transparent)]
    Implementation(#[from] UnknownImplementation),
    /// The state of the node forbids it.
    #[error("{0}")]
    Conflict(String),
    /// Somebody protected it.
    #[error("node {0} is protected ({1}); remove the protection first")]
    Protected(Serial, String),
    /// A secret was changed by somebody else meanwhile.
    #[error(
        "the settings of the driver were changed by somebody else at the same time; nothing was changed, try again"
    )]
    Raced,
}

fn invalid(field: &'static str, reason: impl Into<String>) -> EditRefusal {
    EditRefusal::Invalid { field, reason: reason.into() }
}

fn conflict(reason: impl Into<String>) -> EditRefusal {
    EditRefusal::Conflict(reason.into())
}

/// Whether a setting is sealed when it is stored and hidden in answers. `known`: settings that some driver calls secret.
pub fn is_secret(setting: &str, known: &BTreeSet<&'static str>) -> bool {
    known.contains(setting) || looks_secret(setting)
}

/// Whether a word is to be hidden whatever it is for.
fn looks_secret(setting: &str) -> bool {
    let setting = setting.to_ascii_lowercase();
    ["password", "secret", "token"].iter().any(|word| setting.contains(word))
}

/// Whether a member of `instance_info` is to be hidden in answers.
pub fn hides_instance(key: &str, value: &serde_json::Value) -> bool {
    let signed = |url: &str| ["signature=", "sig=", "temp_url_sig="].iter().any(|mark| url.contains(mark));
    key == "configdrive" || looks_secret(key) || value.as_str().is_some_and(signed)
}

/// Whether callers see a node as retired: its machine is leaving, or, without a machine, somebody said so.
pub fn is_retired(node: &Node, machine: Option<HealthState>) -> bool {
    match machine {
        Some(state) => matches!(state, HealthState::Retiring | HealthState::Retired),
        None => node.retire_declared,
    }
}

/// The name callers see: a node that was given none is stored under its UUID.
pub fn shown_name(node: &Node) -> Option<&str> {
    let name = node.name.as_str();
    (name != node.id.to_string()).then_some(name)
}

impl Fields {
    /// What may be written about a node, as it is. `driver`: its driver as callers see it.
    pub fn of(node: &Node, machine: Option<HealthState>, driver: Option<&str>) -> Fields {
        let Details {
            resource_class,
            owner,
            lessee,
            shard,
            description,
            instance_uuid,
            instance_name,
            allocation: _,
            parent,
            chassis,
            network_data,
            retired_reason,
            interfaces,
            traits: _,
            target_raid: _,
            edited_at: _,
        } = node.details.clone();
        let mut driver_info = node.driver_info.clone();
        driver_info.extend(node.driver_secrets.keys().map(|key| (key.clone(), MASK.into())));
        Fields {
            name: shown_name(node).map(str::to_owned),
            driver: driver.map(str::to_owned),
            interfaces,
            driver_info,
            properties: node.properties.clone(),
            extra: node.extra.clone(),
            instance_info: node.instance_info.clone(),
            network_data,
            chassis_uuid: chassis.map(|id| id.to_string()),
            resource_class,
            conductor_group: node.group.clone(),
            owner,
            lessee,
            shard,
            description,
            instance_name,
            instance_uuid,
            parent_node: parent.map(|id| id.to_string()),
            automated_clean: node.automated_clean,
            disable_power_off: node.disable_power_off,
            maintenance: node.maintenance.is_some(),
            retired: is_retired(node, machine),
            retired_reason,
            protected: node.protected.is_some(),
            protected_reason: node.protected.clone().filter(|reason| !reason.is_empty()),
        }
    }

    /// Secrets in the open, by setting.
    pub fn open_secrets(&self, known: &BTreeSet<&'static str>) -> Result<BTreeMap<String, String>, EditRefusal> {
        let open = |(key, value): &(&String, &serde_json::Value)| is_secret(key, known) && value.as_str() != Some(MASK);
        let secrets = self.driver_info.iter().filter(open);
        secrets.map(|(key, value)| Ok((key.clone(), secret_text(key, value)?))).collect()
    }
}

fn secret_text(key: &str, value: &serde_json::Value) -> Result<String, EditRefusal> {
    match value {
        serde_json::Value::String(text) => Ok(text.clone()),
        serde_json::Value::Number(number) => Ok(number.to_string()),
        serde_json::Value::Bool(truth) => Ok(truth.to_string()),
        _ => Err(invalid("driver_info", format!("{key} must be a text"))),
    }
}

/// A new node, stored under its name or, without one, under its UUID. `first`: where it starts; older clients expect `available`.
pub fn create(id: NodeId, fields: &Fields, first: State, around: &Around<'_>) -> Result<Node, EditRefusal> {
    let name = match &fields.name {
        Some(name) => {
            details::check_name(name)?;
            name.clone()
        }
        None => id.to_string(),
    };
    let name = Serial::new(&name).map_err(|error| invalid("name", error.to_string()))?;
    if fields.driver.is_none() {
        return Err(invalid("driver", "is required"));
    }
    if fields.protected {
        return Err(conflict("only a node in active or rescue can be protected"));
    }
    let blank = Node::implied(id, name, around.at);
    let mut node = written(&blank, fields, around)?;
    node.state = first;
    node.details.edited_at = None;
    node.retire_declared = fields.retired;
    Ok(node)
}

/// Changes a node. What cannot be changed in its state, or at all, is refused as a whole.
pub fn change(node: &Node, wanted: &Fields, around: &Around<'_>) -> Result<Changed, EditRefusal> {
    let now = Fields::of(node, around.machine, around.driver);
    let wanted = &followed(&now, wanted);
    check_busy(node, &now, wanted, around)?;
    check_state(node, &now, wanted)?;
    check_allocation(node, &now, wanted, around)?;
    let mut changed = Changed { node: written(node, wanted, around)?, machine: None, rows: Vec::new() };
    rename(&mut changed.node, &now, wanted)?;
    if now.retired != wanted.retired {
        changed.machine = retire(node, wanted.retired, around.machine)?;
        changed.node.retire_declared = wanted.retired;
    }
    if changed.node != *node {
        changed.node.details.edited_at = Some(around.at);
    }
    Ok(changed)
}

/// What follows from a change without being asked for: a reason goes with what it was the reason for, and an instance that is described
/// with a name to show is called by it until somebody gives it another.
fn followed(now: &Fields, wanted: &Fields) -> Fields {
    let mut wanted = wanted.clone();
    if now.retired && !wanted.retired && wanted.retired_reason == now.retired_reason {
        wanted.retired_reason = None;
    }
    if now.protected && !wanted.protected && wanted.protected_reason == now.protected_reason {
        wanted.protected_reason = None;
    }
    let shown =
        |fields: &Fields| fields.instance_info.get("display_name").and_then(|name| name.as_str()).map(str::to_owned);
    if now.instance_name.is_none() && wanted.instance_name.is_none() && shown(&wanted) != shown(now) {
        wanted.instance_name = shown(&wanted);
    }
    wanted
}

/// Whether a node may be forgotten. `machine`: the lifecycle state of its machine.
pub fn check_removal(node: &Node, machine: Option<HealthState>) -> Result<(), EditRefusal> {
    if let Some(reason) = &node.protected {
        return Err(EditRefusal::Protected(node.name.clone(), reason.clone()));
    }
    if let Some(state) = machine
        && !matches!(state, HealthState::Uninitialized | HealthState::Retired)
    {
        return Err(conflict(format!(
            "the machine of node {} is {state}; its node is forgotten only while it is uninitialized or retired",
            node.name
        )));
    }
    if node.maintenance.is_some() {
        return Ok(());
    }
    let idle = matches!(
        node.state,
        State::Enroll | State::VerifyFailed | State::Manageable | State::Available | State::AdoptFailed
    );
    if !idle {
        return Err(conflict(format!(
            "Can not delete node \"{}\" while it is in provision state {:?}. Valid provision states to perform deletion are: \
             \"('manageable', 'enroll', 'adopt failed', 'available')\", or set the node into maintenance mode",
            node.id,
            node.state.wire()
        )));
    }
    match &node.details.instance_uuid {
        Some(instance) => Err(conflict(format!("node {} is associated with instance {instance}", node.id))),
        None => Ok(()),
    }
}

/// Whether a node that is on its way elsewhere may be written about.
pub(super) fn is_editable(state: State) -> bool {
    matches!(
        state,
        State::DeployFailed
            | State::InspectFailed
            | State::InspectWait
            | State::CleanFailed
            | State::Error
            | State::Verifying
            | State::AdoptFailed
            | State::RescueFailed
            | State::UnrescueFailed
            | State::ServiceHold
            | State::ServiceFailed
    )
}

/// Work under way must not be changed under its feet.
fn check_busy(node: &Node, now: &Fields, wanted: &Fields, around: &Around<'_>) -> Result<(), EditRefusal> {
    if node.target.is_none() {
        return Ok(());
    }
    let editable = is_editable(node.state) || (node.state == State::Inspecting && !around.knows_inspect_wait);
    // The workload may be gone although the node hangs; somebody in charge says so.
    let released = node.maintenance.is_some()
        && wanted.instance_uuid.is_none()
        && Fields { instance_uuid: None, ..now.clone() } == *wanted;
    if editable || released {
        return Ok(());
    }
    Err(conflict(format!("Node {} can not be updated while a state transition is in progress.", node.name)))
}

/// Whether nothing runs on a node in this state, and nothing is about to.
fn is_open(state: State) -> bool {
    matches!(
        state,
        State::Enroll
            | State::VerifyFailed
            | State::Manageable
            | State::Available
            | State::Inspecting
            | State::InspectWait
    )
}

/// What an allocation depends on.
fn check_allocation(node: &Node, now: &Fields, wanted: &Fields, around: &Around<'_>) -> Result<(), EditRefusal> {
    let Some(allocation) = around.allocation else { return Ok(()) };
    let taken_away = now.instance_uuid.is_some() && wanted.instance_uuid.is_none();
    if taken_away && !is_open(node.state) && node.maintenance.is_none() {
        return Err(conflict(format!(
            "instance_uuid of node {} belongs to allocation {} and cannot be removed while the node is {:?}; bring it to \
             manageable, or set maintenance",
            node.name,
            allocation.id,
            node.state.wire()
        )));
    }
    if allocation.owner.is_some() && now.owner != wanted.owner {
        return Err(conflict(format!(
            "the owner of node {} cannot be changed: allocation {} asked for a node of this owner",
            node.name, allocation.id
        )));
    }
    Ok(())
}

/// What may only change in some states.
fn check_state(node: &Node, now: &Fields, wanted: &Fields) -> Result<(), EditRefusal> {
    let maintenance = node.maintenance.is_some();
    let open = is_open(node.state);
    let refuse = |what: &str| {
        Err(conflict(format!(
            "{what} of node {} cannot be changed while it is {:?}; bring it to manageable{}",
            node.name,
            node.state.wire(),
            if what == "resource_class" { "" } else { ", or set maintenance" }
        )))
    };
    if now.interfaces != wanted.interfaces && !open && !maintenance {
        return refuse("an interface");
    }
    if now.resource_class.is_some() && now.resource_class != wanted.resource_class && !open {
        return refuse("resource_class");
    }
    if now.owner != wanted.owner && node.state == State::Active {
        return Err(conflict(format!("the owner of node {} cannot be changed while it is active", node.name)));
    }
    if now.driver != wanted.driver && node.controls.console_enabled {
        return Err(conflict(format!(
            "the console of node {} is on; switch it off before its driver changes",
            node.name
        )));
    }
    match (&now.instance_uuid, &wanted.instance_uuid) {
        (Some(old), Some(new)) if old != new => {
            return Err(conflict(format!("node {} is associated with instance {old} already", node.name)));
        }
        _ => {}
    }
    if wanted.protected && !now.protected && !matches!(node.state, State::Active | State::Rescue) {
        return Err(conflict(format!(
            "node {} is {:?}; only a node in active or rescue can be protected",
            node.name,
            node.state.wire()
        )));
    }
    if wanted.retired && !now.retired && node.state == State::Available {
        return Err(conflict(format!("node {} is available; bring it to manageable before it is retired", node.name)));
    }
    Ok(())
}

/// The node with everything written that does not move anything else.
fn written(node: &Node, wanted: &Fields, around: &Around<'_>) -> Result<Node, EditRefusal> {
    check_texts(wanted)?;
    let mut next = node.clone();
    if wanted.driver.as_deref() != around.driver {
        let driver = wanted.driver.clone().ok_or_else(|| invalid("driver", "is required"))?;
        next.driver = Some(driver);
    }
    let known = wanted.driver.as_deref().and_then(interfaces::hardware_type);
    let interfaces = chosen(known, node, wanted, around)?;
    (next.driver_info, next.driver_secrets) = settings(node, wanted, around)?;
    next.properties = wanted.properties.clone();
    next.extra = wanted.extra.clone();
    next.instance_info = kept_instance(&node.instance_info, &wanted.instance_info);
    next.group = wanted.conductor_group.clone();
    next.automated_clean = wanted.automated_clean;
    next.disable_power_off = wanted.disable_power_off;
    next.maintenance = maintenance(node, wanted.maintenance);
    next.protected = wanted.protected.then(|| wanted.protected_reason.clone().unwrap_or_default());
    next.details = Details {
        resource_class: wanted.resource_class.clone(),
        owner: wanted.owner.clone(),
        lessee: wanted.lessee.clone(),
        shard: wanted.shard.clone(),
        description: wanted.description.clone(),
        instance_uuid: wanted.instance_uuid.clone(),
        instance_name: wanted.instance_name.clone(),
        allocation: node.details.allocation.filter(|_| wanted.instance_uuid == node.details.instance_uuid),
        parent: wanted.parent_node.as_deref().map(|text| parse_uuid("parent_node", text)).transpose()?,
        chassis: wanted.chassis_uuid.as_deref().map(|text| parse_uuid("chassis_uuid", text)).transpose()?,
        network_data: wanted.network_data.clone(),
        retired_reason: wanted.retired_reason.clone().filter(|_| wanted.retired),
        interfaces,
        traits: node.details.traits.clone(),
        target_raid: node.details.target_raid.clone(),
        edited_at: node.details.edited_at,
    };
    Ok(next)
}

/// Maintenance that goes on keeps its reason and its fault; maintenance that ends forgets both.
fn maintenance(node: &Node, wanted: bool) -> Option<Maintenance> {
    wanted.then(|| node.maintenance.clone().unwrap_or(Maintenance { reason: None, fault: None }))
}

fn parse_uuid<I: FromStr>(field: &'static str, text: &str) -> Result<I, EditRefusal> {
    text.parse().map_err(|_| invalid(field, format!("{text:?} is not a UUID")))
}

/// A hidden member that comes back hidden stays as it is.
fn kept_instance(before: &Object, wanted: &Object) -> Object {
    let kept = |key: &String, value: &serde_json::Value| {
        let hidden = value.as_str() == Some(MASK) && before.get(key).is_some_and(|old| hides_instance(key, old));
        if hidden { before.get(key).cloned().unwrap_or_default() } else { value.clone() }
    };
    wanted.iter().map(|(key, value)| (key.clone(), kept(key, value))).collect()
}

fn chosen(
    known: Option<&HardwareType>,
    node: &Node,
    wanted: &Fields,
    around: &Around<'_>,
) -> Result<BTreeMap<Slot, String>, EditRefusal> {
    if around.reset_interfaces && wanted.driver.as_deref() == around.driver {
        return Err(invalid("reset_interfaces", "is only for a change of the driver"));
    }
    let stays = |slot: &Slot, name: &String| node.details.interfaces.get(slot) == Some(name);
    let given = wanted.interfaces.iter().filter(|(slot, name)| !(around.reset_interfaces && stays(slot, name)));
    let given: BTreeMap<Slot, String> = given.map(|(slot, name)| (*slot, name.clone())).collect();
    // What was chosen before stays readable and does not stand in the way of other changes; validation says what is wrong with it.
    let same_driver = wanted.driver.as_deref() == around.driver;
    for (slot, name) in given.iter().filter(|(slot, name)| !(same_driver && stays(slot, name))) {
        if let Some(reason) = interfaces::not_built(*slot, name) {
            return Err(invalid(slot.field(), format!("{name:?} {reason}")));
        }
        known.map_or(Ok(()), |known| known.check(*slot, name))?;
    }
    Ok(given)
}

/// Settings that may be shown, and sealed ones.
fn settings(
    node: &Node,
    wanted: &Fields,
    around: &Around<'_>,
) -> Result<(Object, BTreeMap<String, String>), EditRefusal> {
    let (mut open, mut secrets) = (Object::new(), BTreeMap::new());
    for (key, value) in &wanted.driver_info {
        let masked = value.as_str() == Some(MASK);
        match node.driver_secrets.get(key) {
            Some(sealed) if masked => {
                secrets.insert(key.clone(), sealed.clone());
            }
            _ if !is_secret(key, around.secret_settings) => {
                open.insert(key.clone(), value.clone());
            }
            _ if masked => {
                return Err(invalid(
                    "driver_info",
                    format!("{key} is {MASK}, which stands for a secret there is none of"),
                ));
            }
            _ => {
                let sealed = around.sealed.get(key).ok_or(EditRefusal::Raced)?;
                secrets.insert(key.clone(), sealed.clone());
            }
        }
    }
    Ok((open, secrets))
}

fn check_texts(wanted: &Fields) -> Result<(), EditRefusal> {
    let short = limits::NODE_TEXT_BYTES_MAX;
    for (field, text, max) in [
        ("resource_class", &wanted.resource_class, limits::RESOURCE_CLASS_BYTES_MAX),
        ("description", &wanted.description, limits::DESCRIPTION_BYTES_MAX),
        ("owner", &wanted.owner, short),
        ("lessee", &wanted.lessee, short),
        ("shard", &wanted.shard, short),
        ("instance_name", &wanted.instance_name, short),
        ("retired_reason", &wanted.retired_reason, limits::DESCRIPTION_BYTES_MAX),
        ("protected_reason", &wanted.protected_reason, limits::DESCRIPTION_BYTES_MAX),
    ] {
        if text.as_ref().is_some_and(|text| text.len() > max) {
            return Err(invalid(field, format!("is longer than {max} bytes")));
        }
    }
    let group = &wanted.conductor_group;
    let letters = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'_' | b'-' | b'.');
    if group.len() > short || !group.bytes().all(letters) {
        return Err(invalid("conductor_group", "has lower-case letters, digits, _, - and . only"));
    }
    if let Some(uuid) = &wanted.instance_uuid
        && uuid.parse::<NodeId>().is_err()
    {
        return Err(invalid("instance_uuid", format!("{uuid:?} is not a UUID")));
    }
    if wanted.protected_reason.is_some() && !wanted.protected {
        return Err(invalid("protected_reason", "needs protected to be true"));
    }
    if wanted.retired_reason.is_some() && !wanted.retired {
        return Err(invalid("retired_reason", "needs retired to be true"));
    }
    Ok(())
}

/// A node that has, or may get, a machine is named after it; others may be renamed.
fn rename(next: &mut Node, now: &Fields, wanted: &Fields) -> Result<(), EditRefusal> {
    if now.name == wanted.name {
        return Ok(());
    }
    let name = wanted.name.as_deref().ok_or_else(|| invalid("name", "cannot be removed; give another"))?;
    details::check_name(name)?;
    next.name = Serial::new(name).map_err(|error| invalid("name", error.to_string()))?;
    Ok(())
}

/// Where the machine goes when its node is declared to leave, or no longer is.
fn retire(node: &Node, wanted: bool, machine: Option<HealthState>) -> Result<Option<HealthState>, EditRefusal> {
    let Some(from) = machine else { return Ok(None) };
    if !wanted && from == HealthState::Retired {
        return Err(conflict(format!(
            "the machine of node {} is retired: its disk keys are gone for good; bring it back through the registry (PUT \
             /api/v1/state/{} with uninitialized)",
            node.name, node.name
        )));
    }
    // No arrow leads out of retiring, so that no monitor undoes it. Whoever takes the declaration back is asked by name, as with
    // `force` in the registry; the machine has to be prepared again.
    let (to, force) =
        if wanted { (HealthState::Retiring, Force::No) } else { (HealthState::Uninitialized, Force::Yes) };
    let granted = lifecycle::request(from, to, lifecycle::Facts { has_keys: false }, force);
    match granted.map_err(|refusal| conflict(refusal.to_string()))? {
        Granted::Already => Ok(None),
        Granted::Move(to) => Ok(Some(to)),
    }
}

#[cfg(test)]
mod tests;
