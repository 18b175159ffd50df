//! Where the provision state and the lifecycle state of a machine meet. Each side's changes are checked against the other side in the
//! transaction that writes them; neither is computed from the other.

use super::{
    node::Node,
    states::{Kind, State},
    verbs::Verb,
};
use crate::lifecycle::HealthState;

/// What a site wants of the rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Strictness {
    /// Only a healthy machine may be deployed. Off: an uninitialized one too, as on sites where nobody drives the lifecycle.
    pub require_healthy: bool,
}

/// Why a verb is refused although the state machine knows it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GuardRefusal {
    /// The lifecycle state of the machine forbids it.
    #[error("{verb:?} is refused while the machine is {machine}; it must be {must}", verb = .verb.as_str())]
    Lifecycle {
        /// What was asked.
        verb: Verb,
        /// The machine's lifecycle state.
        machine: HealthState,
        /// What it would have to be.
        must: &'static str,
    },
    /// Automation keeps its hands off.
    #[error("{verb:?} is refused while the node is in maintenance; clear maintenance first", verb = .0.as_str())]
    Maintenance(Verb),
    /// As before, where clients expect a conflict.
    #[error("{verb:?} is refused while the node is in maintenance; clear maintenance first", verb = .0.as_str())]
    MaintenanceConflict(Verb),
    /// Somebody protected it.
    #[error("{verb:?} is refused: the node is protected ({reason})", verb = .verb.as_str())]
    Protected {
        /// What was asked.
        verb: Verb,
        /// Why it is protected.
        reason: String,
    },
}

/// Why a lifecycle change is refused because of provisioning.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProvisionRefusal {
    /// Nobody knows yet whether it can be managed.
    #[error("the machine's BMC credentials are not proved: its provision state is {0:?}; wait for `manage` to succeed")]
    NotProved(&'static str),
    /// Work goes on, or it is in use.
    #[error(
        "a machine becomes retired or is removed only in the provision state enroll or manageable and without work under way; \
         it is {0:?}; undeploy it, or bring it to manageable first"
    )]
    InUse(&'static str),
}

/// What becomes of a lifecycle change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LifecycleVerdict {
    /// Make it.
    Make,
    /// Keep the report and judge it when the work under way has ended.
    Hold,
}

/// Whether the machine's lifecycle, maintenance and protection let a verb be. The state machine itself is asked elsewhere. A node
/// without a machine has no lifecycle to mind.
pub fn check_verb(
    node: &Node,
    verb: Verb,
    machine: Option<HealthState>,
    strictness: Strictness,
) -> Result<(), GuardRefusal> {
    if let Some(machine) = machine
        && let Some(must) = missing(node, verb, machine, strictness)
    {
        return Err(GuardRefusal::Lifecycle { verb, machine, must });
    }
    if node.maintenance.is_some() {
        match (verb, node.state) {
            (Verb::Active | Verb::Rebuild | Verb::Clean | Verb::Rescue | Verb::Unrescue | Verb::Service, _) => {
                return Err(GuardRefusal::Maintenance(verb));
            }
            (Verb::Abort, State::ServiceFailed) => return Err(GuardRefusal::MaintenanceConflict(verb)),
            _ => {}
        }
    }
    match &node.protected {
        Some(reason) if matches!(verb, Verb::Deleted | Verb::Rebuild) => {
            Err(GuardRefusal::Protected { verb, reason: reason.clone() })
        }
        _ => Ok(()),
    }
}

/// What the lifecycle would have to be; `None`: it is.
fn missing(node: &Node, verb: Verb, machine: HealthState, strictness: Strictness) -> Option<&'static str> {
    use HealthState::{Healthy, Retired, Retiring, Uninitialized};
    let (holds, must) = match verb {
        // Getting out of trouble is always possible, or a machine that was retired by a cleaning that then failed would be stuck.
        Verb::Abort | Verb::Unhold => (true, ""),
        Verb::Manage if node.state.kind() == Kind::Failed && node.state != State::VerifyFailed => (true, ""),
        Verb::Manage | Verb::Inspect | Verb::Deleted | Verb::Unrescue | Verb::Clean | Verb::Service | Verb::Rescue => {
            (machine != Retired, "anything but retired; bring it back to uninitialized first")
        }
        // Tear-down made it so and the cleaning after it failed: providing it again is how it comes back. Nobody declared it leaving.
        Verb::Provide if !node.retire_declared => (true, ""),
        Verb::Provide | Verb::Rebuild | Verb::Adopt => {
            (!matches!(machine, Retiring | Retired), "neither retiring nor retired")
        }
        Verb::Active if strictness.require_healthy => (machine == Healthy, "healthy"),
        Verb::Active => (matches!(machine, Healthy | Uninitialized), "healthy or uninitialized"),
    };
    (!holds).then_some(must)
}

/// Whether provisioning lets a lifecycle change be. `forced`: an operator insists; work under way is still not disturbed, but a
/// report by force is no report and is made at once.
pub fn check_lifecycle(
    node: &Node,
    from: HealthState,
    to: HealthState,
    forced: bool,
) -> Result<LifecycleVerdict, ProvisionRefusal> {
    use HealthState::{Healthy, Retired, Unhealthy, Uninitialized, Unreachable};
    match (from, to) {
        // A machine nobody manages stays in enroll and behaves as in a plain registry; one that somebody began to manage has to
        // be proved first.
        (Uninitialized, Healthy) if !forced && matches!(node.state, State::Verifying | State::VerifyFailed) => {
            Err(ProvisionRefusal::NotProved(node.state.as_str()))
        }
        (_, Retired) => check_idle(node).map(|()| LifecycleVerdict::Make),
        (_, Unhealthy | Unreachable) if !forced && node.state.may_restart() => Ok(LifecycleVerdict::Hold),
        _ => Ok(LifecycleVerdict::Make),
    }
}

/// Whether a machine may become retired by request, or be removed: nothing is done with it and nothing runs on it.
pub fn check_idle(node: &Node) -> Result<(), ProvisionRefusal> {
    let idle = matches!(node.state, State::Enroll | State::VerifyFailed | State::Manageable)
        && node.operation.is_none()
        && node.power.action.is_none();
    if idle { Ok(()) } else { Err(ProvisionRefusal::InUse(node.state.as_str())) }
}

#[cfg(test)]
mod tests;
