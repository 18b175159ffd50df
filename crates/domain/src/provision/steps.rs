//! Steps: the named actions that cleaning, deploying and servicing are made of, and the order they run in.

use std::{cmp::Reverse, collections::BTreeMap, fmt, str::FromStr};

use super::hardware::Aspect;

/// The interface of a driver that owns a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Interface {
    /// Network attachment; only when servicing.
    Network,
    /// Whatever a vendor offers.
    Vendor,
    /// Power.
    Power,
    /// Boot device, sensors, inspection of the controller.
    Management,
    /// Firmware.
    Firmware,
    /// Disks and images.
    Deploy,
    /// Settings of the firmware.
    Bios,
    /// Logical volumes.
    Raid,
}

impl Interface {
    /// Every interface, in the order in which steps of equal priority run.
    pub const ALL: [Interface; 8] = [
        Interface::Network,
        Interface::Vendor,
        Interface::Power,
        Interface::Management,
        Interface::Firmware,
        Interface::Deploy,
        Interface::Bios,
        Interface::Raid,
    ];

    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Interface::Network => "network",
            Interface::Vendor => "vendor",
            Interface::Power => "power",
            Interface::Management => "management",
            Interface::Firmware => "firmware",
            Interface::Deploy => "deploy",
            Interface::Bios => "bios",
            Interface::Raid => "raid",
        }
    }

    fn rank(self) -> usize {
        Interface::ALL.iter().position(|i| *i == self).unwrap_or(usize::MAX)
    }
}

impl fmt::Display for Interface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Interface {
    type Err = String;

    fn from_str(text: &str) -> Result<Interface, String> {
        let found = Interface::ALL.into_iter().find(|i| i.as_str() == text);
        found.ok_or_else(|| {
            format!("invalid interface {text:?}; one of: {}", Interface::ALL.map(Interface::as_str).join(", "))
        })
    }
}

/// Where a step is executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Place {
    /// By this program itself.
    Engine,
    /// Through the controller.
    OutOfBand,
    /// By the ramdisk that runs on the machine.
    InBand,
}

/// A flow that steps belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Flow {
    /// Cleaning.
    Clean,
    /// Deploying.
    Deploy,
    /// Servicing a machine that runs a workload.
    Service,
}

/// What a driver, the ramdisk or the engine offers as a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepSpec {
    /// The interface that owns it.
    pub interface: Interface,
    /// Its name.
    pub name: &'static str,
    /// Where it is executed.
    pub place: Place,
    /// Flows it can be part of.
    pub flows: &'static [Flow],
    /// Order in an automatic list, high first; 0: only when asked for.
    pub priority: u32,
    /// May be cut short by `abort`.
    pub abortable: bool,
    /// Running it again after a worker was lost in it does no harm.
    pub idempotent: bool,
    /// Parts of the configuration it may tear down.
    pub disturbs: &'static [Aspect],
    /// Arguments it takes.
    pub args: &'static [ArgSpec],
    /// What it does, for people.
    pub text: &'static str,
}

/// One argument of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArgSpec {
    /// Its name.
    pub name: &'static str,
    /// Whether it must be given.
    pub required: bool,
    /// What it means, for people.
    pub text: &'static str,
}

/// Arguments of a step, as the caller wrote them.
pub type Args = BTreeMap<String, serde_json::Value>;

/// One step of an operation: everything needed to run it after a restart on another server.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// The interface that owns it.
    pub interface: Interface,
    /// Its name.
    pub name: String,
    /// Where it is executed.
    pub place: Place,
    /// Its arguments.
    pub args: Args,
    /// The order it was given.
    pub priority: u32,
    /// May be cut short by `abort`.
    pub abortable: bool,
    /// Running it again after a worker was lost in it does no harm.
    pub idempotent: bool,
    /// Parts of the configuration it may tear down.
    pub disturbs: Vec<Aspect>,
}

/// A step as a caller asks for it.
#[derive(Debug, Clone, PartialEq)]
pub struct StepRequest {
    /// The interface that owns it.
    pub interface: Interface,
    /// Its name.
    pub name: String,
    /// Its arguments.
    pub args: Args,
    /// Deploying only: where it goes among the others; 0 removes the default of the same name.
    pub priority: Option<u32>,
}

/// Why a list of steps cannot be run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StepsRefusal {
    /// Nothing to do.
    #[error("no step is given; name at least one")]
    Empty,
    /// More than [`crate::limits::STEPS_MAX`].
    #[error("{0} steps are given, at most {max} are allowed", max = crate::limits::STEPS_MAX)]
    TooMany(usize),
    /// Nobody offers it.
    #[error("there is no step {0}; offered here: {1}")]
    Unknown(String, String),
    /// An argument the step does not take.
    #[error("step {step} takes no argument {arg:?}; it takes: {takes}")]
    UnknownArg {
        /// The step.
        step: String,
        /// The argument.
        arg: String,
        /// What it takes.
        takes: String,
    },
    /// An argument the step needs.
    #[error("step {step} needs the argument {arg:?}: {text}")]
    MissingArg {
        /// The step.
        step: String,
        /// The argument.
        arg: &'static str,
        /// What it means.
        text: &'static str,
    },
    /// Named twice, so that nobody knows which counts.
    #[error("step {0} is given twice")]
    Twice(String),
    /// Deploying needs to know where it goes.
    #[error("step {0} needs a priority: where it goes among the other deploy steps")]
    NoPriority(String),
    /// Without it nothing is deployed.
    #[error("step {0} cannot be replaced or removed: it is what deploys")]
    Core(String),
    /// Needs the ramdisk while the caller wants none.
    #[error("step {0} runs in the ramdisk, which `disable_ramdisk` forbids")]
    NeedsRamdisk(String),
    /// Tears something down that nobody can rebuild.
    #[error("step {step} may tear down {aspect} and no step here can rebuild it; run it by manual cleaning")]
    CannotRebuild {
        /// The step.
        step: String,
        /// What would be lost.
        aspect: Aspect,
    },
}

impl StepSpec {
    /// How it is written: interface, dot, name.
    pub fn key(&self) -> String {
        format!("{}.{}", self.interface, self.name)
    }

    /// The step with these arguments.
    pub fn step(&self, args: Args, priority: u32) -> Step {
        let StepSpec {
            interface,
            name,
            place,
            flows: _,
            priority: _,
            abortable,
            idempotent,
            disturbs,
            args: _,
            text: _,
        } = *self;
        Step {
            interface,
            name: name.to_owned(),
            place,
            args,
            priority,
            abortable,
            idempotent,
            disturbs: disturbs.to_vec(),
        }
    }

    fn check_args(&self, args: &Args) -> Result<(), StepsRefusal> {
        for arg in args.keys() {
            if !self.args.iter().any(|spec| spec.name == arg) {
                let takes = self.args.iter().map(|spec| spec.name).collect::<Vec<_>>().join(", ");
                let takes = if takes.is_empty() { "none".to_owned() } else { takes };
                return Err(StepsRefusal::UnknownArg { step: self.key(), arg: arg.clone(), takes });
            }
        }
        match self.args.iter().find(|spec| spec.required && !args.contains_key(spec.name)) {
            Some(spec) => Err(StepsRefusal::MissingArg { step: self.key(), arg: spec.name, text: spec.text }),
            None => Ok(()),
        }
    }
}

impl Step {
    /// How it is written: interface, dot, name.
    pub fn key(&self) -> String {
        format!("{}.{}", self.interface, self.name)
    }
}

impl StepRequest {
    /// How it is written: interface, dot, name.
    pub fn key(&self) -> String {
        format!("{}.{}", self.interface, self.name)
    }
}

/// The list of an automated cleaning: everything offered with a priority, high first; `overrides` (by `interface.step`) replace
/// priorities. A step that disturbs an aspect is only taken when `rebuilds` names the one that puts it back; the engine runs that
/// one right after the last step that disturbs.
pub fn automated_cleaning(
    offered: &[StepSpec],
    overrides: &BTreeMap<String, u32>,
    rebuilds: &BTreeMap<Aspect, StepSpec>,
) -> Result<Vec<Step>, StepsRefusal> {
    let mut steps: Vec<Step> = offered
        .iter()
        .filter(|spec| spec.flows.contains(&Flow::Clean))
        .map(|spec| spec.step(Args::new(), overrides.get(&spec.key()).copied().unwrap_or(spec.priority)))
        .filter(|step| step.priority > 0)
        .collect();
    sort(&mut steps);
    for aspect in Aspect::ALL {
        let Some(last) = steps.iter().rposition(|step| step.disturbs.contains(&aspect)) else { continue };
        let Some(rebuild) = rebuilds.get(&aspect) else {
            return Err(StepsRefusal::CannotRebuild { step: steps[last].key(), aspect });
        };
        // One that puts several aspects back is not run twice in a row.
        if steps.get(last + 1).is_none_or(|next| next.key() != rebuild.key()) {
            let priority = steps[last].priority;
            steps.insert(last + 1, rebuild.step(Args::new(), priority));
        }
    }
    Ok(steps)
}

/// The list of a manual cleaning or a service: what the caller asks for, in the caller's order.
pub fn manual(
    offered: &[StepSpec],
    flow: Flow,
    wanted: &[StepRequest],
    ramdisk: bool,
) -> Result<Vec<Step>, StepsRefusal> {
    check_count(wanted)?;
    let mut steps = Vec::with_capacity(wanted.len());
    for request in wanted {
        let spec = find(offered, flow, request)?;
        if spec.place == Place::InBand && !ramdisk {
            return Err(StepsRefusal::NeedsRamdisk(spec.key()));
        }
        spec.check_args(&request.args)?;
        steps.push(spec.step(request.args.clone(), spec.priority));
    }
    Ok(steps)
}

/// The list of a deployment: the defaults, replaced or joined by what the caller asks for. `core` cannot be replaced.
pub fn deployment(offered: &[StepSpec], core: &str, wanted: &[StepRequest]) -> Result<Vec<Step>, StepsRefusal> {
    if wanted.len() > crate::limits::STEPS_MAX {
        return Err(StepsRefusal::TooMany(wanted.len()));
    }
    let mut steps: Vec<Step> = offered
        .iter()
        .filter(|spec| spec.flows.contains(&Flow::Deploy) && spec.priority > 0)
        .map(|spec| spec.step(Args::new(), spec.priority))
        .collect();
    for (n, request) in wanted.iter().enumerate() {
        let key = request.key();
        if wanted[..n].iter().any(|earlier| earlier.key() == key) {
            return Err(StepsRefusal::Twice(key));
        }
        if key == core {
            return Err(StepsRefusal::Core(key));
        }
        let spec = find(offered, Flow::Deploy, request)?;
        let priority = request.priority.ok_or_else(|| StepsRefusal::NoPriority(key.clone()))?;
        spec.check_args(&request.args)?;
        steps.retain(|step| step.key() != key);
        if priority > 0 {
            steps.push(spec.step(request.args.clone(), priority));
        }
    }
    sort(&mut steps);
    Ok(steps)
}

fn check_count(wanted: &[StepRequest]) -> Result<(), StepsRefusal> {
    match wanted.len() {
        0 => Err(StepsRefusal::Empty),
        count if count > crate::limits::STEPS_MAX => Err(StepsRefusal::TooMany(count)),
        _ => Ok(()),
    }
}

fn find<'a>(offered: &'a [StepSpec], flow: Flow, request: &StepRequest) -> Result<&'a StepSpec, StepsRefusal> {
    let usable = || offered.iter().filter(|spec| spec.flows.contains(&flow));
    usable()
        .find(|spec| spec.interface == request.interface && spec.name == request.name)
        .ok_or_else(|| StepsRefusal::Unknown(request.key(), usable().map(StepSpec::key).collect::<Vec<_>>().join(", ")))
}

/// High priority first; equal ones in the order of their interfaces, then by name, so that the order is the same everywhere.
fn sort(steps: &mut [Step]) {
    steps.sort_by(|a, b| {
        let order = |s: &Step| (Reverse(s.priority), s.interface.rank());
        order(a).cmp(&order(b)).then_with(|| a.name.cmp(&b.name))
    });
}

#[cfg(test)]
mod tests;
