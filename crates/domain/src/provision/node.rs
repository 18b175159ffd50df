//! A node: what provisioning knows about a machine. Its operation record is the only truth about work under way; whoever works on it
//! keeps nothing in memory that is not here.

use std::{collections::BTreeMap, fmt};

use jiff::Timestamp;
use serde_json::Value;

use super::{
    control::Controls,
    details::Details,
    hardware::{Configuration, HardwareHealth},
    power::{PowerState, PowerTarget},
    states::State,
    steps::Step,
};
use crate::{lifecycle::HealthState, limits::IMAGE_NAME_MAX, words::Serial};

pub use super::ids::{NodeId, NotUuid};

/// A JSON object of the provisioning API that this program passes on and rarely looks into.
pub type Object = BTreeMap<String, Value>;

/// What provisioning knows about one machine.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Its UUID.
    pub id: NodeId,
    /// Its name: the serial of its machine.
    pub name: Serial,
    /// The driver that was chosen for it; `None`: by the BMC type of its machine.
    pub driver: Option<String>,
    /// How to reach its BMC, without secrets; added to what the registry and the configuration say.
    pub driver_info: Object,
    /// Secrets of `driver_info`, sealed.
    pub driver_secrets: BTreeMap<String, String>,
    /// What the hardware is said to be.
    pub properties: Object,
    /// What runs on it; emptied when the workload is taken away.
    pub instance_info: Object,
    /// Anything else a caller wants to keep.
    pub extra: Object,
    /// What callers note about it.
    pub details: Details,
    /// The group it belongs to when work is shared fairly.
    pub group: String,
    /// Where it is.
    pub state: State,
    /// Where it is heading.
    pub target: Option<State>,
    /// Since when it is there.
    pub since: Timestamp,
    /// Work under way, or what is left to clear up after it.
    pub operation: Option<Operation>,
    /// Power.
    pub power: Power,
    /// What else is set on the machine.
    pub controls: Controls,
    /// Why the last work failed.
    pub last_error: Option<String>,
    /// Automation keeps its hands off.
    pub maintenance: Option<Maintenance>,
    /// Must not be deleted or rebuilt; why.
    pub protected: Option<String>,
    /// Must never be switched off.
    pub disable_power_off: bool,
    /// Whether automated cleaning runs; `None`: as configured.
    pub automated_clean: Option<bool>,
    /// Somebody declared the machine retiring: its next cleaning ends in `manageable`.
    pub retire_declared: bool,
    /// What a monitor reported while work went on.
    pub held_report: Option<HeldReport>,
    /// The BMC's own verdict.
    pub health: Option<HardwareHealth>,
    /// When the credentials were proved last.
    pub verified_at: Option<Timestamp>,
    /// When the hardware was read last.
    pub inspected_at: Option<Timestamp>,
    /// When somebody first asked something of it.
    pub created_at: Timestamp,
    /// How often a worker has taken it. Only grows.
    pub epoch: u64,
    /// Rows of its history: the first kept and the next to write.
    pub history: (u64, u64),
}

/// Power as last seen, and what is asked of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Power {
    /// As last read; `None`: unknown.
    pub state: Option<PowerState>,
    /// When it last changed.
    pub since: Option<Timestamp>,
    /// What somebody asked for and is not done yet.
    pub action: Option<PowerAction>,
    /// Why the BMC did not answer when it was last asked; `None`: it did.
    pub silent: Option<Silent>,
}

/// A BMC that does not answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Silent {
    /// Since when.
    pub since: Timestamp,
    /// What it was asked and what happened.
    pub reason: String,
    /// How often in a row.
    pub times: u32,
}

/// A power change that somebody asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PowerAction {
    /// What.
    pub target: PowerTarget,
    /// Who.
    pub asked_by: String,
    /// When.
    pub asked_at: Timestamp,
    /// Until when it must be done.
    pub deadline: Timestamp,
    /// A worker has begun.
    pub started: bool,
}

/// Automation keeps its hands off the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Maintenance {
    /// Why, for people.
    pub reason: Option<String>,
    /// Set by the engine, because of this.
    pub fault: Option<Fault>,
}

/// Why the engine stopped looking after a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fault {
    /// Its BMC does not answer.
    Power,
    /// A clean step failed half way.
    Clean,
    /// A rescue could not be undone.
    RescueAbort,
    /// A service step failed half way.
    Service,
}

/// A health report that arrived while work went on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldReport {
    /// What was reported.
    pub state: HealthState,
    /// When.
    pub at: Timestamp,
    /// By whom.
    pub by: String,
}

/// A kind of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Work {
    /// Prove the credentials.
    Verify,
    /// Read the hardware.
    Inspect,
    /// Clean by ourselves.
    AutomatedClean,
    /// Clean as the caller says.
    ManualClean,
    /// Put a workload on it.
    Deploy,
    /// Take the workload away.
    TearDown,
    /// Boot a temporary system.
    Rescue,
    /// Go back to the workload.
    Unrescue,
    /// Take over a running machine.
    Adopt,
    /// Service it.
    Service,
    /// Clear up after work that failed or was stopped.
    ClearUp,
    /// Clear up after an aborted service, then go back to the workload.
    RestoreService,
}

/// Work under way. Written before each side effect.
#[derive(Debug, Clone, PartialEq)]
pub struct Operation {
    /// Identifies it in the history.
    pub id: String,
    /// What is done.
    pub work: Work,
    /// Who asked.
    pub asked_by: String,
    /// When.
    pub asked_at: Timestamp,
    /// All of it, in order.
    pub steps: Vec<Step>,
    /// The step that is next or under way.
    pub index: usize,
    /// How far that step is.
    pub phase: Phase,
    /// When the state it is in has lasted too long; `None`: never.
    pub deadline: Option<Timestamp>,
    /// The configuration to compare with at the end.
    pub before: Option<Configuration>,
    /// The ramdisk, once booted for this work.
    pub ramdisk: Option<RamdiskContact>,
    /// Somebody wants it stopped as soon as the step ends.
    pub abort_by: Option<String>,
    /// Who said that the power may be cut although the ramdisk runs a command; `None`: nobody.
    pub power_forced_by: Option<String>,
    /// Where the node stood when it was asked for; `None`: a worker has begun, and it can no longer be taken back.
    pub origin: Option<WishOrigin>,
}

/// Where a node stood before a wish about it was accepted. With it the wish can be taken back as if nobody had asked.
#[derive(Debug, Clone, PartialEq)]
pub struct WishOrigin {
    /// Its state.
    pub state: State,
    /// Where it was heading.
    pub target: Option<State>,
    /// Why its last work had failed.
    pub last_error: Option<String>,
    /// What was left to clear up after that work. The new work took it over.
    pub clear_up: Option<Box<Operation>>,
}

/// How far the step at `index` is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Phase {
    /// Not begun.
    Ready,
    /// A worker began it, for the nth time.
    Started {
        /// The first time is 1.
        attempt: u32,
    },
    /// A worker looks at what came of it.
    Resumed {
        /// The first time is 1.
        attempt: u32,
        /// The task that was waited for.
        task: Option<String>,
    },
    /// Something else has to happen.
    Waiting(Wait),
}

/// What a node waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wait {
    /// What.
    pub on: WaitOn,
    /// Why, for people.
    pub reason: String,
    /// Since when.
    pub since: Timestamp,
}

/// What ends a wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WaitOn {
    /// The ramdisk calls; `called`: it has.
    Heartbeat {
        /// It has called since the wait began.
        called: bool,
    },
    /// The ramdisk tells what it found in the machine; `arrived`: it has.
    Inventory {
        /// It has since the wait began.
        arrived: bool,
    },
    /// A task of the BMC or of the ramdisk ends; `ended`: it has.
    Task {
        /// The name to ask for it by.
        id: String,
        /// Somebody asked and it has.
        ended: bool,
    },
    /// A moment passes.
    Time(Timestamp),
    /// A person goes on.
    Hold,
}

/// The ramdisk that was booted for an operation.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RamdiskContact {
    /// Where it listens; `None`: it has not called yet.
    pub url: Option<String>,
    /// When it called last.
    pub heard_at: Option<Timestamp>,
    /// What it proves itself with, sealed; `None`: it has not asked for one.
    pub token: Option<String>,
    /// What it is.
    pub version: Option<String>,
    /// The certificate it shows where it listens.
    pub verify_ca: Option<String>,
    /// Versions of what runs its steps.
    pub managers: Object,
    /// What it was given to do and is not known to have ended, by the name to ask for it: written down before anybody waits for it.
    pub command: Option<String>,
}

/// How serious a row of the history is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Severity {
    /// As it should be.
    Info,
    /// Something failed.
    Error,
}

/// One row of a node's history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// When.
    pub at: Timestamp,
    /// Who, or which worker.
    pub by: String,
    /// How serious.
    pub severity: Severity,
    /// What happened, for people.
    pub text: String,
    /// The state it was in.
    pub from: State,
    /// The state it is in; the same where it did not move.
    pub to: State,
    /// How long it had been in `from`, in milliseconds.
    pub lasted_ms: i64,
}

impl Node {
    /// The node of a machine nobody has asked anything about yet.
    pub fn implied(id: NodeId, name: Serial, registered: Timestamp) -> Node {
        Node {
            id,
            name,
            driver: None,
            driver_info: Object::new(),
            driver_secrets: BTreeMap::new(),
            properties: Object::new(),
            instance_info: Object::new(),
            extra: Object::new(),
            details: Details::default(),
            group: String::new(),
            state: State::Enroll,
            target: None,
            since: registered,
            operation: None,
            power: Power::default(),
            controls: Controls::default(),
            last_error: None,
            maintenance: None,
            protected: None,
            disable_power_off: false,
            automated_clean: None,
            retire_declared: false,
            held_report: None,
            health: None,
            verified_at: None,
            inspected_at: None,
            created_at: registered,
            epoch: 0,
            history: (0, 0),
        }
    }

    /// The step that is next or under way.
    pub fn current_step(&self) -> Option<&Step> {
        self.operation.as_ref().and_then(|operation| operation.steps.get(operation.index))
    }

    /// When it last entered a state; `None`: it never left the one it began in.
    pub fn moved_at(&self) -> Option<Timestamp> {
        (self.since != self.created_at).then_some(self.since)
    }

    /// When anything about it last changed that callers see; `None`: nothing has since it was made.
    pub fn updated_at(&self) -> Option<Timestamp> {
        [self.moved_at(), self.power.since, self.details.edited_at].into_iter().flatten().max()
    }

    /// When the inspection under way began.
    pub fn inspection_started(&self) -> Option<Timestamp> {
        let inspection = self.operation.as_ref().filter(|operation| operation.work == Work::Inspect);
        inspection.map(|operation| operation.asked_at)
    }

    /// Which image it runs, for people: without what a URL may keep secret, and bounded. Long names differ at their end.
    pub fn image(&self) -> Option<String> {
        let text = |key| self.instance_info.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
        let source = text("image_source").or_else(|| text("image_url"))?;
        let source = source.split(['?', '#']).next().unwrap_or_default();
        let name = match source.split_once("://") {
            Some((_, rest)) => {
                let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
                format!("{}/{path}", host.rsplit('@').next().unwrap_or_default())
            }
            None => source.to_owned(),
        };
        let extra = name.chars().count().saturating_sub(IMAGE_NAME_MAX);
        Some(name.chars().skip(extra).collect())
    }

    /// What it waits for.
    pub fn wait(&self) -> Option<&Wait> {
        match &self.operation.as_ref()?.phase {
            Phase::Waiting(wait) => Some(wait),
            Phase::Ready | Phase::Started { .. } | Phase::Resumed { .. } => None,
        }
    }
}

impl Fault {
    /// Every fault.
    pub const ALL: [Fault; 4] = [Fault::Power, Fault::Clean, Fault::RescueAbort, Fault::Service];

    /// The words of the provisioning API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Fault::Power => "power failure",
            Fault::Clean => "clean failure",
            Fault::RescueAbort => "rescue abort failure",
            Fault::Service => "service failure",
        }
    }
}

impl Work {
    /// Every kind.
    pub const ALL: [Work; 12] = [
        Work::Verify,
        Work::Inspect,
        Work::AutomatedClean,
        Work::ManualClean,
        Work::Deploy,
        Work::TearDown,
        Work::Rescue,
        Work::Unrescue,
        Work::Adopt,
        Work::Service,
        Work::ClearUp,
        Work::RestoreService,
    ];

    /// Whether it is what is left to do after other work has failed or was stopped.
    pub const fn clears_up(self) -> bool {
        matches!(self, Work::ClearUp | Work::RestoreService)
    }

    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Work::Verify => "verify",
            Work::Inspect => "inspect",
            Work::AutomatedClean => "automated clean",
            Work::ManualClean => "manual clean",
            Work::Deploy => "deploy",
            Work::TearDown => "tear down",
            Work::Rescue => "rescue",
            Work::Unrescue => "unrescue",
            Work::Adopt => "adopt",
            Work::Service => "service",
            Work::ClearUp => "clear up",
            Work::RestoreService => "restore after service",
        }
    }
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::{super::fixtures::Desk, *};

    #[test]
    fn an_image_is_named_without_secrets() {
        let image = |info: Value| {
            let instance_info = serde_json::from_value(info).expect("an object");
            Node { instance_info, ..Desk::at(State::Active).node }.image()
        };
        for (source, name) in [
            ("https://images.example.com/os/3.raw", "images.example.com/os/3.raw"),
            ("https://me:secret@images.example.com/os/3.raw?token=secret#secret", "images.example.com/os/3.raw"),
            ("http://images.example.com", "images.example.com/"),
            ("b1ff0f0e-0000-4000-8000-000000000001", "b1ff0f0e-0000-4000-8000-000000000001"),
        ] {
            assert_eq!(image(serde_json::json!({ "image_source": source })).as_deref(), Some(name));
        }
        assert_eq!(image(serde_json::json!({ "image_url": "http://i/x" })).as_deref(), Some("i/x"));
        for nothing in
            [serde_json::json!({}), serde_json::json!({ "image_source": "" }), serde_json::json!({ "image_source": 3 })]
        {
            assert_eq!(image(nothing), None);
        }
        let long = format!("http://i/{}-9.raw", "a".repeat(1_000));
        let long = image(serde_json::json!({ "image_source": long })).expect("a name");
        assert!(long.len() == IMAGE_NAME_MAX && long.ends_with("-9.raw"));
    }
}
