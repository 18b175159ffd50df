//! The states of a node and what kind each is. Names exist once, in [`State::as_str`]; what older clients see instead is
//! [`State::wire`].

use std::{fmt, str::FromStr, time::Duration};

/// Where a node is on its way from enrolment to use and back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    /// Known, nothing else.
    Enroll,
    /// Its credentials are being proved.
    Verifying,
    /// They could not be proved.
    VerifyFailed,
    /// Can be managed.
    Manageable,
    /// Its hardware is being read.
    Inspecting,
    /// The ramdisk reads its hardware.
    InspectWait,
    /// Reading its hardware failed.
    InspectFailed,
    /// Being cleaned.
    Cleaning,
    /// Waits for the ramdisk or for a step that runs by itself.
    CleanWait,
    /// A step asked to wait for a person.
    CleanHold,
    /// Cleaning failed.
    CleanFailed,
    /// Clean, ready to be used.
    Available,
    /// Being prepared for a workload.
    Deploying,
    /// Waits for the ramdisk or for a step that runs by itself.
    DeployWait,
    /// A step asked to wait for a person.
    DeployHold,
    /// Deploying failed.
    DeployFailed,
    /// Runs a workload.
    Active,
    /// What deploying added is being taken away.
    Deleting,
    /// Taking it away failed.
    Error,
    /// Being booted into a temporary system.
    Rescuing,
    /// Waits for the temporary system.
    RescueWait,
    /// Runs a temporary system instead of its workload.
    Rescue,
    /// Booting the temporary system failed.
    RescueFailed,
    /// On its way back to its workload.
    Unrescuing,
    /// The way back failed.
    UnrescueFailed,
    /// Being taken over as it runs.
    Adopting,
    /// It could not be taken over.
    AdoptFailed,
    /// Being serviced in the middle of its workload's life.
    Servicing,
    /// Waits for the ramdisk or for a step that runs by itself.
    ServiceWait,
    /// A step asked to wait for a person.
    ServiceHold,
    /// Servicing failed.
    ServiceFailed,
}

/// What kind of state it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Left only because somebody asks.
    Stable,
    /// This program works on the node, or will as soon as a worker is free.
    Busy,
    /// Something outside has to happen, until a deadline. Nobody holds the node.
    Waiting,
    /// A person has to go on. Nobody holds the node.
    Holding,
    /// Something went wrong; a person or a tool decides what next.
    Failed,
}

/// Passed through in the same change that enters the next state; seen in the history, never at rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Momentary {
    /// Credentials are proved.
    Verified,
    /// Hardware is read.
    Inspected,
    /// Cleaning is done.
    Cleaned,
    /// The workload runs.
    Deployed,
    /// The temporary system runs.
    Rescued,
    /// The workload runs again.
    Unrescued,
    /// What deploying added is gone.
    Deleted,
}

/// A text that names no state.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid provision state {0:?}")]
pub struct UnknownProvisionState(pub String);

/// How long a busy state may last. Long work is done in waiting states, so that this only ends what hangs. Several hours: a list of
/// out-of-band steps, each bounded itself, runs in one busy state.
const BUSY_MAX: Duration = Duration::from_secs(4 * 60 * 60);

/// How long to wait for a machine, as the service whose API we speak does.
const WAIT_MAX: Duration = Duration::from_secs(30 * 60);

impl State {
    /// Every state, in the order of a node's life.
    pub const ALL: [State; 31] = [
        State::Enroll,
        State::Verifying,
        State::VerifyFailed,
        State::Manageable,
        State::Inspecting,
        State::InspectWait,
        State::InspectFailed,
        State::Cleaning,
        State::CleanWait,
        State::CleanHold,
        State::CleanFailed,
        State::Available,
        State::Deploying,
        State::DeployWait,
        State::DeployHold,
        State::DeployFailed,
        State::Active,
        State::Deleting,
        State::Error,
        State::Rescuing,
        State::RescueWait,
        State::Rescue,
        State::RescueFailed,
        State::Unrescuing,
        State::UnrescueFailed,
        State::Adopting,
        State::AdoptFailed,
        State::Servicing,
        State::ServiceWait,
        State::ServiceHold,
        State::ServiceFailed,
    ];

    /// The word for it, distinct for each.
    pub const fn as_str(self) -> &'static str {
        match self {
            State::Enroll => "enroll",
            State::Verifying => "verifying",
            State::VerifyFailed => "verify failed",
            State::Manageable => "manageable",
            State::Inspecting => "inspecting",
            State::InspectWait => "inspect wait",
            State::InspectFailed => "inspect failed",
            State::Cleaning => "cleaning",
            State::CleanWait => "clean wait",
            State::CleanHold => "clean hold",
            State::CleanFailed => "clean failed",
            State::Available => "available",
            State::Deploying => "deploying",
            State::DeployWait => "wait call-back",
            State::DeployHold => "deploy hold",
            State::DeployFailed => "deploy failed",
            State::Active => "active",
            State::Deleting => "deleting",
            State::Error => "error",
            State::Rescuing => "rescuing",
            State::RescueWait => "rescue wait",
            State::Rescue => "rescue",
            State::RescueFailed => "rescue failed",
            State::Unrescuing => "unrescuing",
            State::UnrescueFailed => "unrescue failed",
            State::Adopting => "adopting",
            State::AdoptFailed => "adopt failed",
            State::Servicing => "servicing",
            State::ServiceWait => "service wait",
            State::ServiceHold => "service hold",
            State::ServiceFailed => "service failed",
        }
    }

    /// What the provisioning API shows. Its clients know no failed verification: they see `enroll` and the last error.
    pub const fn wire(self) -> &'static str {
        match self {
            State::VerifyFailed => State::Enroll.as_str(),
            other => other.as_str(),
        }
    }

    /// What kind of state it is.
    pub const fn kind(self) -> Kind {
        match self {
            State::Enroll | State::Manageable | State::Available | State::Active | State::Rescue => Kind::Stable,
            State::Verifying
            | State::Inspecting
            | State::Cleaning
            | State::Deploying
            | State::Deleting
            | State::Rescuing
            | State::Unrescuing
            | State::Adopting
            | State::Servicing => Kind::Busy,
            State::InspectWait | State::CleanWait | State::DeployWait | State::RescueWait | State::ServiceWait => {
                Kind::Waiting
            }
            State::CleanHold | State::DeployHold | State::ServiceHold => Kind::Holding,
            State::VerifyFailed
            | State::InspectFailed
            | State::CleanFailed
            | State::DeployFailed
            | State::Error
            | State::RescueFailed
            | State::UnrescueFailed
            | State::AdoptFailed
            | State::ServiceFailed => Kind::Failed,
        }
    }

    /// How long it may last; `None`: for ever.
    pub const fn time_limit(self) -> Option<Duration> {
        match self.kind() {
            Kind::Busy => Some(BUSY_MAX),
            Kind::Waiting => Some(WAIT_MAX),
            Kind::Stable | Kind::Holding | Kind::Failed => None,
        }
    }

    /// Whether work goes on that may restart the machine: what a monitor reports meanwhile says nothing about its health.
    pub const fn may_restart(self) -> bool {
        matches!(self.kind(), Kind::Busy | Kind::Waiting | Kind::Holding)
    }

    /// What it means, for people.
    pub const fn text(self) -> &'static str {
        match self {
            State::Enroll => "Known, nothing else. A registered machine nobody manages stays here.",
            State::Verifying => "Its BMC is contacted to prove address and credentials.",
            State::VerifyFailed => {
                "The BMC could not be reached or refused. API clients see `enroll` and the last error."
            }
            State::Manageable => "The BMC answers. Can be inspected, cleaned, or provided.",
            State::Inspecting => "Its hardware is being read.",
            State::InspectWait => "Waits for the ramdisk to report its hardware.",
            State::InspectFailed => "Its hardware could not be read.",
            State::Cleaning => "Clean steps run, or the ramdisk is being prepared.",
            State::CleanWait => "Waits for the ramdisk, or for a clean step that runs by itself.",
            State::CleanHold => "A clean step asked to wait for a person.",
            State::CleanFailed => "A clean step failed, or the machine does not look as before.",
            State::Available => "Clean, holds no disk key, ready to be deployed.",
            State::Deploying => "Deploy steps run.",
            State::DeployWait => "Waits for the ramdisk, or for a deploy step that runs by itself.",
            State::DeployHold => "A deploy step asked to wait for a person.",
            State::DeployFailed => "A deploy step failed.",
            State::Active => "Runs a workload. Left alone except for power and sensors being read.",
            State::Deleting => "What deploying added is being taken away.",
            State::Error => "Taking it away failed.",
            State::Rescuing => "Is being booted into a temporary system.",
            State::RescueWait => "Waits for the temporary system.",
            State::Rescue => "Runs a temporary system instead of its workload.",
            State::RescueFailed => "The temporary system did not come up.",
            State::Unrescuing => "Is on its way back to its workload.",
            State::UnrescueFailed => "The way back failed.",
            State::Adopting => "Is being taken over as it runs.",
            State::AdoptFailed => "Could not be taken over.",
            State::Servicing => "Service steps run.",
            State::ServiceWait => "Waits for the ramdisk, or for a service step that runs by itself.",
            State::ServiceHold => "A service step asked to wait for a person.",
            State::ServiceFailed => "A service step failed.",
        }
    }
}

impl Momentary {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Momentary::Verified => "verified",
            Momentary::Inspected => "inspected",
            Momentary::Cleaned => "cleaned",
            Momentary::Deployed => "deployed",
            Momentary::Rescued => "rescued",
            Momentary::Unrescued => "unrescued",
            Momentary::Deleted => "deleted",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for State {
    type Err = UnknownProvisionState;

    fn from_str(text: &str) -> Result<State, UnknownProvisionState> {
        State::ALL.into_iter().find(|s| s.as_str() == text).ok_or_else(|| UnknownProvisionState(text.to_owned()))
    }
}
