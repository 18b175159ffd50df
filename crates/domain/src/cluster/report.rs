//! Why a plan is what it is: which rules were looked at, who was chosen over whom, why every other machine was not, and what blocks.

use std::{
    collections::BTreeMap,
    fmt,
    net::{IpAddr, Ipv4Addr},
};

use super::{caution::PlannerCaution, score::Score, shape::Problem};
use crate::{lifecycle::HealthState, machine::Rack, words::Serial};

/// A kind of change, in the order in which they are looked at. At most one is made in a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// There was no cluster.
    New,
    /// Nodes whose machines are no longer listed leave.
    RemoveNonExistent,
    /// There are too few control planes.
    IncreaseControlPlane,
    /// There are too many control planes.
    DecreaseControlPlane,
    /// A control plane is broken or tainted.
    ReplaceControlPlane,
    /// There are too few healthy workers.
    IncreaseWorker,
    /// A worker has been retired for a while.
    DecreaseWorker,
    /// The taint of a node does not tell the state of its machine.
    TaintNodes,
    /// The template changed.
    Regenerate,
}

impl Operation {
    /// Every operation, in order.
    pub const ALL: [Operation; 9] = [
        Operation::New,
        Operation::RemoveNonExistent,
        Operation::IncreaseControlPlane,
        Operation::DecreaseControlPlane,
        Operation::ReplaceControlPlane,
        Operation::IncreaseWorker,
        Operation::DecreaseWorker,
        Operation::TaintNodes,
        Operation::Regenerate,
    ];

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Operation::New => "new",
            Operation::RemoveNonExistent => "remove non-existent node",
            Operation::IncreaseControlPlane => "increase control plane",
            Operation::DecreaseControlPlane => "decrease control plane",
            Operation::ReplaceControlPlane => "replace control plane",
            Operation::IncreaseWorker => "increase worker",
            Operation::DecreaseWorker => "decrease worker",
            Operation::TaintNodes => "taint nodes",
            Operation::Regenerate => "regenerate",
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What a machine is chosen for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Purpose {
    /// To become a control plane: the highest score.
    ControlPlane,
    /// To become a worker: the highest score.
    Worker,
    /// To be a control plane no longer: the lowest score.
    LeaveControlPlane,
}

impl Purpose {
    /// Every purpose.
    pub const ALL: [Purpose; 3] = [Purpose::ControlPlane, Purpose::Worker, Purpose::LeaveControlPlane];

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Purpose::ControlPlane => "control plane",
            Purpose::Worker => "worker",
            Purpose::LeaveControlPlane => "leave control plane",
        }
    }
}

/// Among which machines one is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// Healthy machines that are not in the cluster.
    Unused,
    /// Workers of the cluster.
    Workers,
    /// Control planes of the cluster.
    ControlPlanes,
}

impl Source {
    /// Every source.
    pub const ALL: [Source; 3] = [Source::Unused, Source::Workers, Source::ControlPlanes];

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Source::Unused => "unused machines",
            Source::Workers => "workers",
            Source::ControlPlanes => "control planes",
        }
    }
}

/// How well the share of a worker template is met. The smallest ratio is due.
#[derive(Debug, Clone, PartialEq)]
pub struct Ratio {
    /// The role of the template.
    pub role: Option<String>,
    /// Workers with it.
    pub count: usize,
    /// Its share.
    pub weight: f64,
}

impl Ratio {
    /// Workers for each unit of its share.
    pub fn value(&self) -> f64 {
        // Exact below 2^53 workers.
        #[allow(clippy::cast_precision_loss)]
        let count = self.count as f64;
        count / self.weight
    }
}

/// A machine that may be chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Who it is.
    pub serial: Serial,
    /// Its address.
    pub address: Ipv4Addr,
    /// Where it is.
    pub rack: Rack,
    /// How good it is.
    pub score: Score,
    /// Why it is chosen only when nobody else fits, in words; `None`: nothing speaks against it.
    pub caution: Option<String>,
}

/// One choice.
#[derive(Debug, Clone, PartialEq)]
pub struct Selection {
    /// What for.
    pub purpose: Purpose,
    /// Among which machines.
    pub source: Source,
    /// The role that was wanted; `None`: any.
    pub role: Option<String>,
    /// Why this role: the shares of all worker templates. Empty where there is no choice.
    pub ratios: Vec<Ratio>,
    /// Who was chosen; `None`: nobody could be.
    pub chosen: Option<Candidate>,
    /// Those that came next, the runner-up first; at most [`crate::limits::RUNNERS_UP_SHOWN`].
    pub others: Vec<Candidate>,
    /// Who would have been chosen here but for its caution.
    pub passed_over: Option<Candidate>,
}

impl Selection {
    /// Who would have been chosen otherwise.
    pub fn runner_up(&self) -> Option<&Candidate> {
        self.others.first()
    }
}

/// What happens to a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ChangeKind {
    /// A control plane whose machine is not listed leaves.
    NonExistentControlPlaneRemoved,
    /// A worker whose machine is not listed leaves.
    NonExistentWorkerRemoved,
    /// An unused machine becomes a control plane.
    ControlPlaneAdded,
    /// An unused machine becomes a worker.
    WorkerAdded,
    /// A worker becomes a control plane.
    WorkerPromoted,
    /// A control plane becomes a worker.
    ControlPlaneDemoted,
    /// A control plane too many leaves.
    SurplusControlPlaneRemoved,
    /// A broken or tainted control plane leaves.
    BadControlPlaneRemoved,
    /// A worker that has been retired for a while leaves.
    RetiredWorkerRemoved,
    /// A taint tells the state of a machine now.
    TaintChanged,
}

impl ChangeKind {
    /// Every kind.
    pub const ALL: [ChangeKind; 10] = [
        ChangeKind::NonExistentControlPlaneRemoved,
        ChangeKind::NonExistentWorkerRemoved,
        ChangeKind::ControlPlaneAdded,
        ChangeKind::WorkerAdded,
        ChangeKind::WorkerPromoted,
        ChangeKind::ControlPlaneDemoted,
        ChangeKind::SurplusControlPlaneRemoved,
        ChangeKind::BadControlPlaneRemoved,
        ChangeKind::RetiredWorkerRemoved,
        ChangeKind::TaintChanged,
    ];

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            ChangeKind::NonExistentControlPlaneRemoved => "non-existent control plane removed",
            ChangeKind::NonExistentWorkerRemoved => "non-existent worker removed",
            ChangeKind::ControlPlaneAdded => "control plane added",
            ChangeKind::WorkerAdded => "worker added",
            ChangeKind::WorkerPromoted => "worker promoted",
            ChangeKind::ControlPlaneDemoted => "control plane demoted",
            ChangeKind::SurplusControlPlaneRemoved => "surplus control plane removed",
            ChangeKind::BadControlPlaneRemoved => "bad control plane removed",
            ChangeKind::RetiredWorkerRemoved => "retired worker removed",
            ChangeKind::TaintChanged => "taint changed",
        }
    }
}

/// One node that changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// What happens.
    pub kind: ChangeKind,
    /// To which node.
    pub address: IpAddr,
    /// Its machine, if it is listed.
    pub serial: Option<Serial>,
    /// Why.
    pub why: String,
}

/// What became of one rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// Nothing to do.
    NotNeeded,
    /// It would be needed, and cannot be done; later rules were looked at.
    Passed,
    /// It made the change of this round.
    Made,
    /// It is needed and cannot be done; nothing else is tried.
    Blocked,
}

impl Verdict {
    /// Every verdict.
    pub const ALL: [Verdict; 4] = [Verdict::NotNeeded, Verdict::Passed, Verdict::Made, Verdict::Blocked];

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Verdict::NotNeeded => "not needed",
            Verdict::Passed => "passed over",
            Verdict::Made => "made",
            Verdict::Blocked => "blocked",
        }
    }
}

/// One rule that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    /// Which.
    pub operation: Operation,
    /// What became of it.
    pub verdict: Verdict,
    /// The facts it looked at.
    pub because: String,
}

/// Why a round could not be finished. Nothing is changed then.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Blocked {
    /// A majority of the control planes is not listed.
    #[error(
        "too many non-existent control plane nodes: {} of {of} are not in the list of machines ({}); replacing half of them or more would \
         break etcd",
        gone.len(), names(gone)
    )]
    TooManyGone {
        /// Which.
        gone: Vec<IpAddr>,
        /// Of how many.
        of: usize,
    },
    /// Somebody has to be found and nobody can be.
    #[error("no healthy machine is available: {shortage}")]
    NoMachine {
        /// For which rule.
        operation: Operation,
        /// Who is missing, and why nobody fits.
        shortage: Shortage,
    },
    /// The template changed while machines of nodes are not listed.
    #[error("missing machines: {} of the nodes are not in the list of machines ({})", gone.len(), names(gone))]
    MissingMachines {
        /// Which.
        gone: Vec<IpAddr>,
    },
    /// No worker template has the role of a worker.
    #[error(
        "node {address} ({serial}) has role {role}, and no worker template has it; add one, or take the node out of the cluster by hand"
    )]
    NoTemplate {
        /// Its address.
        address: IpAddr,
        /// Who it is.
        serial: Serial,
        /// Its role.
        role: String,
    },
    /// The configuration would not be valid.
    #[error("the configuration would not be valid: {}", problems.iter().map(Problem::to_string).collect::<Vec<_>>().join("; "))]
    Invalid {
        /// Why.
        problems: Vec<Problem>,
    },
}

impl Blocked {
    /// Its kind, for those who count.
    pub fn kind(&self) -> &'static str {
        match self {
            Blocked::TooManyGone { .. } => "too-many-non-existent",
            Blocked::NoMachine { .. } => "no-machine",
            Blocked::MissingMachines { .. } => "missing-machines",
            Blocked::NoTemplate { .. } => "no-template",
            Blocked::Invalid { .. } => "invalid",
        }
    }
}

fn names(list: &[impl ToString]) -> String {
    let shown = list.iter().take(crate::limits::NAMES_SHOWN).map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let more = list.len().saturating_sub(crate::limits::NAMES_SHOWN);
    if more == 0 { shown } else { format!("{shown} and {more} more") }
}

/// Who is missing, and why nobody fits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shortage {
    /// What for.
    pub purpose: Purpose,
    /// The role that is due; `None`: any.
    pub role: Option<String>,
    /// How many there are.
    pub have: usize,
    /// How many there must be.
    pub want: u32,
    /// Machines outside the cluster that are not healthy but would fit otherwise.
    pub not_healthy: usize,
    /// Healthy machines outside the cluster with another role.
    pub other_role: usize,
    /// Healthy machines outside the cluster with the role, tainted in Kubernetes.
    pub tainted: usize,
    /// Why no worker became a control plane; `None` where that was not asked.
    pub promotion: Option<Promotion>,
}

/// Why no worker became a control plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Promotion {
    /// There would be too few workers.
    AtMinimum {
        /// How many there are.
        workers: usize,
        /// How many there must be.
        minimum: u32,
    },
    /// None of them is healthy, untainted and of the role.
    NoneFits,
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let role = self.role.as_ref().map_or_else(|| "any role".to_owned(), |role| format!("role {role}"));
        write!(f, "{} of {} {}s, ", self.have, self.want, self.purpose.as_str())?;
        write!(f, "and no unused healthy machine of {role} is left")?;
        let apart = [
            (self.not_healthy, "not healthy"),
            (self.other_role, "of another role"),
            (self.tainted, "tainted in Kubernetes"),
        ];
        let apart: Vec<String> =
            apart.iter().filter(|(count, _)| *count > 0).map(|(count, text)| format!("{count} {text}")).collect();
        if !apart.is_empty() {
            write!(f, " (outside the cluster: {})", apart.join(", "))?;
        }
        match self.promotion {
            None => Ok(()),
            Some(Promotion::AtMinimum { workers, minimum }) => {
                write!(f, "; no worker can be promoted: {workers} workers are not more than minimum-workers {minimum}")
            }
            Some(Promotion::NoneFits) => {
                write!(f, "; no worker can be promoted: none is healthy, untainted and of {role}")
            }
        }
    }
}

/// Where a machine is after the round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Place {
    /// A control plane.
    ControlPlane,
    /// A worker.
    Worker,
    /// Not in the cluster.
    Outside,
}

impl Place {
    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Place::ControlPlane => "control plane",
            Place::Worker => "worker",
            Place::Outside => "outside",
        }
    }
}

/// Why a machine was not chosen for something.
#[derive(Debug, Clone, PartialEq)]
pub enum Why {
    /// It has no IPv4 address.
    NoAddress,
    /// Another machine has its address.
    SameAddress(Serial),
    /// Only healthy machines are chosen.
    NotHealthy(HealthState),
    /// Templates want other roles.
    OtherRole {
        /// Its own.
        own: String,
        /// Those that are wanted.
        wanted: Vec<String>,
    },
    /// Its node carries taints that control planes must not have.
    Tainted(Vec<String>),
    /// Others were preferred, whatever the score.
    Cautioned(PlannerCaution),
    /// Nobody was looked for.
    NotNeeded(String),
    /// Another role was due.
    NotDue {
        /// Which.
        due: String,
    },
    /// Another machine was better.
    Outscored {
        /// Who.
        by: Serial,
        /// Its own score at that choice.
        own: Score,
        /// The other's.
        best: Score,
    },
    /// It left the cluster in this round.
    Left(ChangeKind),
    /// It was chosen, and nothing comes of it because the round cannot be finished.
    Blocked,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::NoAddress => f.write_str("it has no IPv4 address"),
            Why::SameAddress(other) => write!(f, "machine {other} has the same address"),
            Why::NotHealthy(state) => write!(f, "it is {state}; only healthy machines are chosen"),
            Why::OtherRole { own, wanted } => write!(f, "its role is {own}; wanted: {}", wanted.join(", ")),
            Why::Tainted(keys) => write!(f, "its node is tainted with {}", keys.join(", ")),
            Why::Cautioned(caution) => write!(f, "not chosen: {caution}"),
            Why::NotNeeded(reason) => f.write_str(reason),
            Why::NotDue { due } => write!(f, "role {due} was due, by the weights of the template"),
            Why::Outscored { by, own, best } if own.total() == best.total() => {
                write!(f, "{by} has the same score, {}, and comes first by rack, index and address", own.total())
            }
            Why::Outscored { by, own, best } => write!(f, "{by} has {} points, it has {}", best.total(), own.total()),
            Why::Blocked => f.write_str("it was chosen, but nothing changes while the round is blocked"),
            Why::Left(kind) => write!(f, "it left the cluster in this round: {}", kind.as_str()),
        }
    }
}

/// One machine after the round.
#[derive(Debug, Clone, PartialEq)]
pub struct Standing {
    /// Who it is.
    pub serial: Serial,
    /// Its address.
    pub address: Option<Ipv4Addr>,
    /// Where it is.
    pub place: Place,
    /// Why it is no control plane; `None`: it is one.
    pub not_control_plane: Option<Why>,
    /// Why it is no worker; `None`: it is a worker or a control plane.
    pub not_worker: Option<Why>,
    /// Why others are preferred to it, whatever the score.
    pub caution: Option<PlannerCaution>,
}

/// Something odd in the list of machines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Warning {
    /// Without an address a machine cannot be a node.
    NoAddress(Serial),
    /// Two machines say they have one address; the first serial counts.
    SameAddress {
        /// Which address.
        address: Ipv4Addr,
        /// Who is taken to have it.
        kept: Serial,
        /// Who is left out.
        dropped: Serial,
    },
    /// There are fewer healthy workers than there should be, and no more can be added.
    MinimumNotMet {
        /// How many there are.
        healthy: usize,
        /// How many there should be.
        minimum: u32,
        /// Why no more.
        because: String,
    },
    /// Machines were chosen that others are preferred to, because no others would do.
    CautionedChosen {
        /// What for.
        purpose: Purpose,
        /// Who, in the order in which they were chosen.
        serials: Vec<Serial>,
        /// Why others are preferred, in words.
        caution: String,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Warning::NoAddress(serial) => write!(f, "machine {serial} has no IPv4 address and is left out"),
            Warning::SameAddress { address, kept, dropped } => {
                write!(f, "machines {kept} and {dropped} both have address {address}; {dropped} is left out")
            }
            Warning::MinimumNotMet { healthy, minimum, because } => {
                write!(f, "{healthy} healthy workers, minimum-workers is {minimum}: {because}")
            }
            Warning::CautionedChosen { purpose, serials, caution } => {
                let (names, purpose) = (names(serials), purpose.as_str());
                write!(f, "chosen as {purpose} because no other machine would do: {names}, although {caution}")
            }
        }
    }
}

/// Numbers after the round.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Totals {
    /// Machines in the list.
    pub machines: usize,
    /// Control planes.
    pub control_planes: usize,
    /// Workers by role.
    pub workers: BTreeMap<String, usize>,
    /// Healthy workers.
    pub healthy_workers: usize,
    /// Healthy machines outside the cluster.
    pub unused: usize,
}

/// Why a plan is what it is.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Report {
    /// Rules that were looked at, in order.
    pub checked: Vec<Checked>,
    /// Choices, in order.
    pub selections: Vec<Selection>,
    /// Every machine of the list, by serial.
    pub standings: Vec<Standing>,
    /// What is odd.
    pub warnings: Vec<Warning>,
    /// Numbers.
    pub totals: Totals,
}

impl Report {
    /// What is said about one machine.
    pub fn standing(&self, serial: &Serial) -> Option<&Standing> {
        self.standings.binary_search_by(|standing| standing.serial.cmp(serial)).ok().map(|place| &self.standings[place])
    }
}
