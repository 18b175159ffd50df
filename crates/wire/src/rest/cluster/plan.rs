//! A plan that was made now: what a round would do, why, and what would change.

use sabakan_domain::cluster::{
    caution::PlannerCaution,
    plan::{Made, Outcome, Plan},
    remedy::Remedy,
    report::{Blocked, Report, Standing, Why},
};
use serde::{Deserialize, Serialize};

use super::parts::{ChangeJson, CheckedJson, ScoreJson, SelectionJson, ShortageJson, TotalsJson};

/// What a round would do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct PlanJson {
    /// `change`, `nothing` or `blocked`.
    #[schema(example = "change")]
    pub outcome: String,
    /// The rule that makes the change; `null` without one.
    #[schema(example = "replace control plane")]
    pub operation: Option<String>,
    /// What would change, node by node.
    pub changes: Vec<ChangeJson>,
    /// Why nothing can be done; `null` unless the outcome is `blocked`.
    pub blocked: Option<BlockedJson>,
    /// What would let a blocked plan go on. Each is enough alone, and was tried.
    pub remedies: Vec<RemedyJson>,
    /// Rules that were looked at, in order.
    pub checked: Vec<CheckedJson>,
    /// Choices, in order.
    pub selections: Vec<SelectionJson>,
    /// What is odd.
    pub warnings: Vec<String>,
    /// Numbers after the round.
    pub totals: TotalsJson,
    /// The planner does nothing by itself at the moment.
    #[serde(default)]
    pub disabled: bool,
    /// How the configuration would change, in YAML, as a unified diff with one hunk for each node; absent where it was not asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
    /// Every machine of the list, by serial; absent where it was not asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machines: Option<Vec<StandingJson>>,
}

impl PlanJson {
    /// The shape of a plan, without what has to be asked for.
    pub fn new(plan: &Plan, remedies: &[Remedy], disabled: bool) -> PlanJson {
        let Plan { outcome, report } = plan;
        let Report { checked, selections, standings: _, warnings, totals } = report;
        let (operation, changes) = match outcome {
            Outcome::Change(Made { operation, configuration: _, changes }) => (Some(operation), changes.as_slice()),
            Outcome::Nothing | Outcome::Blocked(_) => (None, &[][..]),
        };
        let blocked = match outcome {
            Outcome::Blocked(blocked) => Some(BlockedJson::from(blocked)),
            Outcome::Nothing | Outcome::Change(_) => None,
        };
        PlanJson {
            outcome: outcome_word(outcome).to_owned(),
            operation: operation.map(|operation| operation.as_str().to_owned()),
            changes: changes.iter().map(ChangeJson::from).collect(),
            blocked,
            remedies: remedies.iter().map(RemedyJson::from).collect(),
            checked: checked.iter().map(CheckedJson::from).collect(),
            selections: selections.iter().map(SelectionJson::from).collect(),
            warnings: warnings.iter().map(ToString::to_string).collect(),
            totals: totals.into(),
            disabled,
            diff: None,
            machines: None,
        }
    }

    /// The same with the reasons of every machine.
    pub fn with_machines(mut self, plan: &Plan) -> PlanJson {
        self.machines = Some(plan.report.standings.iter().map(StandingJson::from).collect());
        self
    }

    /// The same with the difference it makes.
    pub fn with_diff(mut self, diff: String) -> PlanJson {
        self.diff = Some(diff);
        self
    }
}

pub(super) fn outcome_word(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Change(_) => "change",
        Outcome::Nothing => "nothing",
        Outcome::Blocked(_) => "blocked",
    }
}

/// Why a round cannot be finished.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct BlockedJson {
    /// `too-many-non-existent`, `no-machine`, `missing-machines`, `no-template` or `invalid`.
    pub kind: String,
    /// The reason, for people.
    pub reason: String,
    /// The rule that cannot be carried out, where one is.
    pub operation: Option<String>,
    /// Who is missing, and why nobody fits; only of the kind `no-machine`.
    pub shortage: Option<ShortageJson>,
    /// Nodes whose machines are not in the list; only of the kinds that are about them.
    pub gone: Vec<String>,
}

impl From<&Blocked> for BlockedJson {
    fn from(blocked: &Blocked) -> BlockedJson {
        let (operation, shortage, gone) = match blocked {
            Blocked::NoMachine { operation, shortage } => (Some(operation), Some(shortage), &[][..]),
            Blocked::TooManyGone { gone, of: _ } | Blocked::MissingMachines { gone } => (None, None, gone.as_slice()),
            Blocked::NoTemplate { address: _, serial: _, role: _ } | Blocked::Invalid { problems: _ } => {
                (None, None, &[][..])
            }
        };
        BlockedJson {
            kind: blocked.kind().to_owned(),
            reason: blocked.to_string(),
            operation: operation.map(|operation| operation.as_str().to_owned()),
            shortage: shortage.map(ShortageJson::from),
            gone: gone.iter().map(ToString::to_string).collect(),
        }
    }
}

/// One thing that would help.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RemedyJson {
    /// `heal`, `add-machines`, `constrain`, `tolerate` or `by-hand`.
    pub kind: String,
    /// For people.
    pub text: String,
    /// Which machine becomes healthy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serial: Option<String>,
    /// How many healthy machines more, of which roles.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub machines: Vec<MoreMachinesJson>,
    /// Which constraint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub constraint: Option<String>,
    /// Its value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<u32>,
    /// The key of the taint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taint: Option<String>,
}

impl From<&Remedy> for RemedyJson {
    fn from(remedy: &Remedy) -> RemedyJson {
        let told = |kind: &str| RemedyJson { kind: kind.to_owned(), text: remedy.to_string(), ..RemedyJson::default() };
        match remedy {
            Remedy::Heal(serial) => RemedyJson { serial: Some(serial.to_string()), ..told("heal") },
            Remedy::AddMachines(needed) => {
                let more =
                    |(role, count): (&Option<String>, &usize)| MoreMachinesJson { role: role.clone(), count: *count };
                RemedyJson { machines: needed.iter().map(more).collect(), ..told("add-machines") }
            }
            Remedy::Constrain { name, value } => {
                RemedyJson { constraint: Some((*name).to_owned()), value: Some(*value), ..told("constrain") }
            }
            Remedy::Tolerate(key) => RemedyJson { taint: Some(key.clone()), ..told("tolerate") },
            Remedy::ByHand => told("by-hand"),
        }
    }
}

/// Machines that would help.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct MoreMachinesJson {
    /// Their role; `null`: any.
    pub role: Option<String>,
    /// How many.
    pub count: usize,
}

/// Why a machine was not chosen for something.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct WhyJson {
    /// `no-address`, `same-address`, `not-healthy`, `other-role`, `tainted`, `cautioned`, `not-needed`, `not-due`, `outscored`, `left` or
    /// `blocked`.
    pub kind: String,
    /// For people.
    pub text: String,
    /// The machine that has its address, or that was better.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Its own score, where another was better.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own: Option<ScoreJson>,
    /// The other's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best: Option<ScoreJson>,
    /// The incident that speaks against it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incident: Option<u64>,
}

impl From<&Why> for WhyJson {
    fn from(why: &Why) -> WhyJson {
        let told = |kind: &str| WhyJson { kind: kind.to_owned(), text: why.to_string(), ..WhyJson::default() };
        match why {
            Why::NoAddress => told("no-address"),
            Why::SameAddress(other) => WhyJson { by: Some(other.to_string()), ..told("same-address") },
            Why::NotHealthy(_) => told("not-healthy"),
            Why::OtherRole { own: _, wanted: _ } => told("other-role"),
            Why::Tainted(_) => told("tainted"),
            Why::Cautioned(caution) => WhyJson { incident: caution.incident(), ..told("cautioned") },
            Why::NotNeeded(_) => told("not-needed"),
            Why::NotDue { due: _ } => told("not-due"),
            Why::Outscored { by, own, best } => WhyJson {
                by: Some(by.to_string()),
                own: Some(own.into()),
                best: Some(best.into()),
                ..told("outscored")
            },
            Why::Left(_) => told("left"),
            Why::Blocked => told("blocked"),
        }
    }
}

/// Why others are preferred to a machine, whatever the score.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct CautionJson {
    /// `group-failed`, `just-back` or `neighbour-broken`.
    pub kind: String,
    /// For people.
    #[schema(example = "rack 1 failed together (incident 7, open)")]
    pub text: String,
    /// The incident that is the reason, if one is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incident: Option<u64>,
}

impl From<&PlannerCaution> for CautionJson {
    fn from(caution: &PlannerCaution) -> CautionJson {
        let kind = match caution {
            PlannerCaution::GroupFailed { incident: _, group: _ } => "group-failed",
            PlannerCaution::JustBack { incident: _, group: _, phase: _, observe: _ } => "just-back",
            PlannerCaution::NeighbourBroken { group: _, serial: _, observe: _ } => "neighbour-broken",
        };
        CautionJson { kind: kind.to_owned(), text: caution.to_string(), incident: caution.incident() }
    }
}

/// One machine after the round.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct StandingJson {
    /// Its serial.
    pub serial: String,
    /// Its address; `null`: it has none.
    pub address: Option<String>,
    /// `control plane`, `worker` or `outside`.
    pub place: String,
    /// Why it is no control plane; `null`: it is one.
    pub not_control_plane: Option<WhyJson>,
    /// Why it is no worker; `null`: it is a worker or a control plane.
    pub not_worker: Option<WhyJson>,
    /// Why others are preferred to it, whatever the score; absent where nothing speaks against it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caution: Option<CautionJson>,
}

impl From<&Standing> for StandingJson {
    fn from(standing: &Standing) -> StandingJson {
        let Standing { serial, address, place, not_control_plane, not_worker, caution } = standing;
        StandingJson {
            serial: serial.to_string(),
            address: address.map(|address| address.to_string()),
            place: place.as_str().to_owned(),
            not_control_plane: not_control_plane.as_ref().map(WhyJson::from),
            not_worker: not_worker.as_ref().map(WhyJson::from),
            caution: caution.as_ref().map(CautionJson::from),
        }
    }
}

/// What the next rounds would do if nothing but time changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct SimulationJson {
    /// Round after round.
    pub rounds: Vec<PlanJson>,
    /// Whether later rounds would do nothing more.
    pub settled: bool,
}

impl SimulationJson {
    /// The shape of simulated rounds, of which so many were asked for: fewer come if waiting changes nothing more.
    pub fn new(rounds: Vec<PlanJson>, asked: usize) -> SimulationJson {
        let settled = rounds.len() < asked && rounds.last().is_some_and(|round| round.operation.is_none());
        SimulationJson { rounds, settled }
    }
}
