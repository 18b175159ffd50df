//! The way to the ramdisk of a node: an agent over HTTP where one was chosen, the driver's own otherwise.

use std::sync::Arc;

use sabakan_domain::{
    machine::Machine,
    provision::{
        node::{Node, Work},
        running::{self, RamdiskReport},
        steps::Flow,
    },
};
use sabakan_drivers::{
    DriverError, Ramdisk,
    agent::{Agent, AgentAddress, Errand, Pace},
};

use super::Conductor;
use crate::{agents, error_chain, hardware::Chosen, limits};

/// The ramdisk that was booted for a node's work. Contacts nobody yet.
pub(super) async fn reach(
    conductor: &Conductor,
    node: &Node,
    machine: Option<&Machine>,
    chosen: &Chosen,
) -> Result<Arc<dyn Ramdisk>, DriverError> {
    let operation = node.operation.as_ref();
    let contact = operation.and_then(|operation| operation.ramdisk.as_ref());
    let url = contact.and_then(|contact| contact.url.clone()).unwrap_or_default();
    if !conductor.hardware.has_agent(node, machine) {
        return chosen.driver.ramdisk(&chosen.settings, &url);
    }
    let silent = || DriverError::Unreachable("no ramdisk has called since the machine was started".to_owned());
    let (operation, contact) = operation.zip(contact).filter(|_| !url.is_empty()).ok_or_else(silent)?;
    let sealed = contact.token.as_deref().ok_or_else(silent)?;
    let token = agents::open(conductor.hardware.vault(), node, sealed).await;
    let token = token.map_err(|error| DriverError::settings("agent_token", error_chain(&error)))?;
    let snapshot = conductor.on.view.latest_known();
    let errand = Errand {
        flow: flow_of(operation.work).unwrap_or(Flow::Clean),
        node: agents::node_json(node),
        ports: agents::ports_json(&snapshot, node),
        managers: contact.managers.clone(),
    };
    let address = AgentAddress { url, token, verify_ca: contact.verify_ca.clone() };
    Ok(Arc::new(Agent::new(address, errand, Pace::default())?))
}

/// Why the power of a node is not cut yet: its ramdisk runs a command. `None`: it may be.
pub(super) async fn postpones_power(
    conductor: &Conductor,
    node: &Node,
    machine: Option<&Machine>,
    chosen: &Chosen,
) -> Option<String> {
    let operation = node.operation.as_ref()?;
    let contact = operation.ramdisk.as_ref();
    let forced = operation.power_forced_by.is_some();
    // One that never called was given nothing to do; and a person who insists need not wait for an answer.
    let report = if forced || contact.is_none_or(|contact| contact.url.is_none()) {
        RamdiskReport::Absent
    } else {
        report(conductor, node, machine, chosen).await
    };
    running::postpones(contact, &report, forced, conductor.on.clock.now())
}

async fn report(conductor: &Conductor, node: &Node, machine: Option<&Machine>, chosen: &Chosen) -> RamdiskReport {
    let asking = async { reach(conductor, node, machine, chosen).await?.running().await };
    match tokio::time::timeout(limits::BMC_CALL_MAX, asking).await {
        Ok(Ok(Some(command))) => RamdiskReport::Running(command),
        Ok(Ok(None)) => RamdiskReport::Idle,
        Ok(Err(error)) => RamdiskReport::Silent(error.to_string()),
        Err(_) => RamdiskReport::Silent("no answer in time".to_owned()),
    }
}

/// The flow whose steps a ramdisk runs in this kind of work; `None`: it runs none.
pub(super) fn flow_of(work: Work) -> Option<Flow> {
    match work {
        Work::AutomatedClean | Work::ManualClean => Some(Flow::Clean),
        Work::Deploy => Some(Flow::Deploy),
        Work::Service => Some(Flow::Service),
        Work::Verify
        | Work::Inspect
        | Work::TearDown
        | Work::Rescue
        | Work::Unrescue
        | Work::Adopt
        | Work::ClearUp
        | Work::RestoreService => None,
    }
}
