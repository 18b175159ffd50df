//! The agent: a ramdisk that is spoken to over HTTP. Which nodes have one, who may learn what from a lookup, which calls count, and
//! what its own list of steps makes of the work that was planned.
//!
//! A ramdisk proves who it is by a token. The first lookup after it was booted gets it; nobody else ever does. So whoever is faster
//! than the ramdisk gets it instead, and the ramdisk, which then has none, never calls: the work fails by its deadline. What protects
//! the lookup is the network that ramdisks boot in.

use std::{
    cmp::Reverse,
    collections::BTreeMap,
    net::{IpAddr, Ipv6Addr},
};

use jiff::Timestamp;
use serde_json::Value;

use super::{
    accept, builtin,
    engine::{self, Changed},
    interfaces::{self, Slot},
    node::{Node, Object, Operation, Phase, RamdiskContact, Severity, Wait, WaitOn, Work},
    promises,
    states::State,
    steps::{Args, Interface, Place, Step},
};
use crate::limits;

/// Steps that this program carries out by commands of their own; the agent does not list them.
pub const COMMANDS: [&str; 2] = ["deploy.write_image", "deploy.prepare_instance_boot"];

/// Whether disks of a node are written and cleaned by an agent. It is what was chosen for the node, not what its driver could.
pub fn works(chosen: &BTreeMap<Slot, String>, driver: Option<&str>) -> bool {
    matches!(interfaces::effective(chosen, driver, Slot::Deploy), Some("direct" | "custom-agent"))
}

/// Whether a node is inspected by an agent.
pub fn inspects(chosen: &BTreeMap<Slot, String>, driver: Option<&str>) -> bool {
    interfaces::effective(chosen, driver, Slot::Inspect) == Some("agent")
}

/// Whether a ramdisk may ask who it is while a node is in this state.
pub fn may_look_up(state: State) -> bool {
    matches!(
        state,
        State::Deploying
            | State::DeployWait
            | State::Cleaning
            | State::CleanWait
            | State::Inspecting
            | State::InspectWait
            | State::Rescuing
            | State::RescueWait
            | State::ServiceWait
    )
}

/// The ramdisk that was booted for a node and may introduce itself now.
pub fn expected(node: &Node) -> Option<&RamdiskContact> {
    node.operation.as_ref()?.ramdisk.as_ref().filter(|_| may_look_up(node.state))
}

/// Gives the ramdisk of a node its token: `sealed` if it has none yet. `None`: it has one.
pub fn introduce(node: &Node, sealed: &str, by: &str, now: Timestamp) -> Option<Changed> {
    expected(node).filter(|contact| contact.token.is_none())?;
    let mut changed = Changed::new(node);
    let contact = changed.node.operation.as_mut().and_then(|operation| operation.ramdisk.as_mut())?;
    contact.token = Some(sealed.to_owned());
    changed.rows.push(accept::row(node, by, Severity::Info, "the ramdisk looked up its node".to_owned(), now));
    Some(changed)
}

/// A call of an agent that has shown its token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentCall {
    /// Where it listens.
    pub url: String,
    /// What it is.
    pub version: String,
    /// The certificate it shows there.
    pub verify_ca: Option<String>,
}

/// Why a call of an agent does not count.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallRefusal {
    /// A token that is not the one of this ramdisk, or none was given to one.
    #[error("Invalid or missing agent token received.")]
    Token,
    /// It is elsewhere all of a sudden.
    #[error("the agent listens elsewhere than before; it is believed again after its machine was booted again")]
    Moved,
}

/// The agent called. `token` is the sealed one that its own was compared with; the node may have been given another since.
pub fn called(node: &Node, call: &AgentCall, token: &str, now: Timestamp) -> Result<Option<Changed>, CallRefusal> {
    let contact = node.operation.as_ref().and_then(|operation| operation.ramdisk.as_ref());
    let contact = contact.filter(|contact| contact.token.as_deref() == Some(token)).ok_or(CallRefusal::Token)?;
    if contact.url.as_ref().is_some_and(|known| *known != call.url) {
        return Err(CallRefusal::Moved);
    }
    let told = contact.version.as_deref() == Some(&call.version) && contact.verify_ca == call.verify_ca;
    let heard = engine::heartbeat(node, &call.url, now);
    let mut changed = match heard {
        Some(changed) => changed,
        None if told => return Ok(None),
        None => Changed::new(node),
    };
    if let Some(contact) = changed.node.operation.as_mut().and_then(|operation| operation.ramdisk.as_mut()) {
        contact.version = Some(call.version.clone());
        contact.verify_ca.clone_from(&call.verify_ca);
    }
    Ok(Some(changed))
}

/// Whether somebody waits for what an agent finds in a machine.
pub fn awaits_inventory(node: &Node) -> bool {
    let waiting = matches!(node.wait(), Some(Wait { on: WaitOn::Inventory { arrived: false }, .. }));
    waiting && node.state == State::InspectWait
}

/// What an agent found in its machine arrived. Whoever tells it first has introduced itself and gets the token: `sealed`, if it has
/// none yet. `None`: nobody waits for it.
pub fn inspected(node: &Node, properties: &Object, sealed: &str, by: &str, now: Timestamp) -> Option<Changed> {
    let mut changed = Changed::new(node);
    let operation = changed.node.operation.as_mut().filter(|_| node.state == State::InspectWait)?;
    let Phase::Waiting(Wait { on: WaitOn::Inventory { arrived: arrived @ false }, .. }) = &mut operation.phase else {
        return None;
    };
    *arrived = true;
    if let Some(contact) = &mut operation.ramdisk {
        contact.token.get_or_insert_with(|| sealed.to_owned());
    }
    changed.node.inspected_at = Some(now);
    changed.node.properties.extend(properties.clone());
    changed.rows.push(accept::row(node, by, Severity::Info, "the ramdisk told what it found".to_owned(), now));
    Some(changed)
}

/// How agents erase disks, in the words they are told in: once, with zeroes, and a disk that cannot be erased is not passed over.
pub fn erasing() -> Object {
    let settings = [
        ("agent_erase_devices_iterations", Value::from(1)),
        ("agent_erase_devices_zeroize", Value::from(true)),
        ("agent_continue_if_secure_erase_failed", Value::from(false)),
        ("agent_continue_if_ata_erase_failed", Value::from(false)),
        ("agent_enable_nvme_secure_erase", Value::from(true)),
        ("agent_enable_ata_secure_erase", Value::from(true)),
        ("disk_erasure_concurrency", Value::from(4)),
        ("agent_erase_skip_read_only", Value::from(false)),
    ];
    settings.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Why an agent cannot be called back where it says.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("callback_url: {0}")]
pub struct CallbackRefusal(pub &'static str);

/// Checks where an agent wants to be called back. This server will send requests there, so that it must be plain: a scheme, an
/// address and a port. Names are refused, because what they mean can change between this check and the request; so are addresses
/// that lead back to this server or to services of its own host, unless the agent itself calls from there.
pub fn check_callback(url: &str, peer: Option<IpAddr>) -> Result<(), CallbackRefusal> {
    let refuse = |text| Err(CallbackRefusal(text));
    if url.len() > limits::CALLBACK_URL_BYTES_MAX {
        return refuse("is too long");
    }
    let Some(rest) = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://")) else {
        return refuse("must begin with http:// or https://");
    };
    let authority = rest.strip_suffix('/').unwrap_or(rest);
    let Some(ip) = host_of(authority) else {
        return refuse("must be an IP address, IPv6 in brackets, and perhaps a port; no name, no path, no user");
    };
    let ip = ip.to_canonical();
    if ip.is_unspecified() || ip.is_multicast() {
        return refuse("is no address of a machine");
    }
    let local = match ip {
        IpAddr::V4(v4) => v4.is_loopback() || v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_loopback() || is_link_local(v6),
    };
    if local && peer.map(|peer| peer.to_canonical()) != Some(ip) {
        return refuse("is a local address that the agent does not call from");
    }
    Ok(())
}

fn is_link_local(ip: Ipv6Addr) -> bool {
    ip.segments()[0] & 0xffc0 == 0xfe80
}

/// The address of `address[:port]`.
fn host_of(authority: &str) -> Option<IpAddr> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']')?;
            (IpAddr::V6(host.parse().ok()?), rest)
        }
        None => {
            let end = authority.find(':').unwrap_or(authority.len());
            (IpAddr::V4(authority[..end].parse().ok()?), &authority[end..])
        }
    };
    let fits = match port.strip_prefix(':') {
        None => port.is_empty(),
        // A sign would be read as a number too.
        Some(port) => port.bytes().all(|b| b.is_ascii_digit()) && port.parse::<u16>().is_ok_and(|port| port != 0),
    };
    fits.then_some(host)
}

/// A step an agent offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfferedStep {
    /// The interface that owns it.
    pub interface: Interface,
    /// Its name.
    pub name: String,
    /// Order in an automatic list, high first; 0: only when asked for.
    pub priority: u32,
    /// May be cut short by `abort`.
    pub abortable: bool,
}

/// What an agent offers.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Offer {
    /// Its steps.
    pub steps: Vec<OfferedStep>,
    /// Versions of what runs them; to be said back when a step is started.
    pub managers: Object,
}

/// The steps of an operation, now that its agent told what it offers. Automated cleaning runs what the agent says, in the order of
/// priorities; whatever a caller asked for by name has to be there. `overrides`: priorities of the site, by `interface.step`.
pub fn replan(operation: &Operation, offer: &Offer, overrides: &BTreeMap<String, u32>) -> Result<Vec<Step>, String> {
    let offers = |step: &Step| {
        COMMANDS.contains(&step.key().as_str())
            || offer.steps.iter().any(|known| known.interface == step.interface && known.name == step.name)
    };
    let done = (operation.index + 1).min(operation.steps.len());
    let (before, rest) = operation.steps.split_at(done);
    if operation.work != Work::AutomatedClean {
        let missing = rest.iter().find(|step| step.place == Place::InBand && !offers(step));
        return match missing {
            Some(step) => Err(format!("the ramdisk does not offer {}; it offers: {}", step.key(), names(offer))),
            None => Ok(operation.steps.clone()),
        };
    }
    let end = rest.iter().position(|step| builtin::is(step, builtin::END_RAMDISK)).unwrap_or(rest.len());
    let (frame, after) = rest.split_at(end);
    let mut between: Vec<Step> = frame.iter().filter(|step| step.place != Place::InBand).cloned().collect();
    for offered in &offer.steps {
        let key = format!("{}.{}", offered.interface, offered.name);
        let priority = overrides.get(&key).copied().unwrap_or(offered.priority);
        // Several of its parts may offer the same; each step runs once.
        if priority == 0 || between.iter().any(|step| step.place == Place::InBand && step.key() == key) {
            continue;
        }
        let planned = frame.iter().find(|step| step.place == Place::InBand && step.key() == key).cloned();
        between.push(Step { priority, abortable: offered.abortable, ..planned.unwrap_or_else(|| unknown(offered)) });
    }
    if between.len() > limits::STEPS_MAX {
        return Err(format!("the ramdisk offers more than {} steps", limits::STEPS_MAX));
    }
    // Cleaning was accepted because it erases disks.
    if frame.iter().any(promises::erases) && !between.iter().any(promises::erases) {
        return Err(format!("the ramdisk offers no step that erases disks; it offers: {}", names(offer)));
    }
    between.sort_by_key(|step| Reverse(step.priority));
    Ok(before.iter().chain(&between).chain(after).cloned().collect())
}

/// A step nobody here knows: what it does when it is run twice is not known either.
fn unknown(offered: &OfferedStep) -> Step {
    let OfferedStep { interface, name, priority, abortable } = offered.clone();
    let (place, args, disturbs) = (Place::InBand, Args::new(), Vec::new());
    Step { interface, name, place, args, priority, abortable, idempotent: false, disturbs }
}

fn names(offer: &Offer) -> String {
    let names: Vec<String> = offer.steps.iter().map(|step| format!("{}.{}", step.interface, step.name)).collect();
    if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
}

#[cfg(test)]
mod tests;
