//! What is told about one machine, about the planner, and about what somebody wrote.

use std::net::IpAddr;

use sabakan_domain::{
    cluster::{
        config::{Configuration, Node},
        constraints::{Constraints, UnknownConstraint},
        history::KeptPlan,
        plan::{Outcome, Plan},
        report::{Change, Standing},
        shape::Problem,
        variables::Variables,
    },
    words::Serial,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    kept::{KeptPlanJson, PlanSummaryJson},
    parts::{ChangeJson, SelectionJson},
    plan::{BlockedJson, StandingJson, outcome_word},
};

/// The annotation of a node that names its machine.
const SERIAL: &str = "cke.cybozu.com/serial";

/// Something wrong, or doubtful, in what somebody wrote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ProblemJson {
    /// Where; empty: the document as a whole.
    #[schema(example = "nodes[1].user")]
    pub path: String,
    /// What, and what would be right.
    pub reason: String,
}

impl From<&Problem> for ProblemJson {
    fn from(problem: &Problem) -> ProblemJson {
        let Problem { path, reason } = problem;
        ProblemJson { path: path.clone(), reason: reason.clone() }
    }
}

/// The answer to a change that was made.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct WarningsJson {
    /// What is allowed but rarely meant.
    pub warnings: Vec<ProblemJson>,
}

impl From<&[Problem]> for WarningsJson {
    fn from(problems: &[Problem]) -> WarningsJson {
        WarningsJson { warnings: problems.iter().map(ProblemJson::from).collect() }
    }
}

/// Whether something works by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EnabledJson {
    /// Whether it does.
    pub enabled: bool,
}

/// Which machines are meant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct VariablesJson {
    /// What somebody wrote, byte for byte; `null`: nobody did, and the defaults hold.
    pub given: Option<String>,
    /// What is meant: `having` and `notHaving` of a search.
    #[schema(value_type = Object)]
    pub effective: Value,
}

impl VariablesJson {
    /// The shape of what somebody wrote and what is meant by it.
    pub fn new(given: Option<String>, effective: &Variables) -> VariablesJson {
        VariablesJson { given, effective: effective.document() }
    }
}

/// How large the cluster may be, and how much may be repaired at once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct ConstraintsJson {
    /// How many control planes, exactly.
    pub control_plane_count: u32,
    /// How many workers at least: in all when nodes are filled up, healthy ones when workers are added.
    pub minimum_workers: u32,
    /// How many workers at most; 0: no bound.
    pub maximum_workers: u32,
    /// How many nodes may be unreachable while others are rebooted.
    pub maximum_unreachable_nodes_for_reboot: u32,
    /// How many repairs there may be; 0: none is ever begun.
    pub maximum_repair_queue_entries: u32,
    /// How long an unreachable machine is given before it is repaired when it may be rebooting, in seconds.
    pub wait_seconds_to_repair_rebooting: u32,
}

impl From<&Constraints> for ConstraintsJson {
    fn from(constraints: &Constraints) -> ConstraintsJson {
        let Constraints {
            control_plane_count,
            minimum_workers,
            maximum_workers,
            maximum_unreachable_nodes_for_reboot,
            maximum_repair_queue_entries,
            wait_seconds_to_repair_rebooting,
        } = *constraints;
        ConstraintsJson {
            control_plane_count,
            minimum_workers,
            maximum_workers,
            maximum_unreachable_nodes_for_reboot,
            maximum_repair_queue_entries,
            wait_seconds_to_repair_rebooting,
        }
    }
}

/// Reads constraints somebody wants to change: an object of some of the names, each with a number. All that is wrong is told.
pub fn constraints_from_input(document: &Value) -> Result<Vec<(String, u32)>, Vec<Problem>> {
    let Some(members) = document.as_object() else {
        let reason = format!("must be an object with some of {}", Constraints::NAMES.join(", "));
        return Err(vec![Problem::new("", reason)]);
    };
    let (mut values, mut problems) = (Vec::new(), Vec::new());
    for (name, value) in members {
        let number = whole(value).and_then(|number| i32::try_from(number).ok()).and_then(|n| u32::try_from(n).ok());
        if !Constraints::NAMES.contains(&name.as_str()) {
            problems.push(Problem::new(name, UnknownConstraint(name.clone()).to_string()));
        } else if let Some(number) = number {
            values.push((name.clone(), number));
        } else {
            problems.push(Problem::new(name, format!("{value} is not a whole number from 0 to {}", i32::MAX)));
        }
    }
    if problems.is_empty() { Ok(values) } else { Err(problems) }
}

/// A whole number. 5.0 is one as well, however somebody's library writes it.
fn whole(value: &Value) -> Option<i64> {
    // Far below where numbers with a fraction skip whole ones.
    let float = || {
        let whole = value.as_f64().filter(|float| float.fract() == 0.0 && float.abs() < 1e15)?;
        format!("{whole:.0}").parse().ok()
    };
    value.as_i64().or_else(float)
}

/// Why a machine is, or is not, in the cluster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ExplanationJson {
    /// Its serial.
    pub serial: String,
    /// Whether it is in the registry of this server.
    pub registered: bool,
    /// What the next round says about it; `null`: it is not in the list of machines, so the query variables leave it out.
    pub standing: Option<StandingJson>,
    /// What it is in the present configuration: `control plane`, `worker` or `outside`.
    pub now: String,
    /// What the next round would do.
    pub next: NextJson,
    /// Choices of the next round that it was part of.
    pub selections: Vec<SelectionJson>,
    /// What was done with it, newest first.
    pub past: Vec<PastJson>,
}

/// What the next round would do, as far as one machine is concerned.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct NextJson {
    /// `change`, `nothing` or `blocked`.
    pub outcome: String,
    /// The rule that makes the change.
    pub operation: Option<String>,
    /// What would change about the machine.
    pub changes: Vec<ChangeJson>,
    /// Why nothing can be done.
    pub blocked: Option<BlockedJson>,
    /// The planner does nothing by itself at the moment.
    pub disabled: bool,
}

/// What a plan did with one machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct PastJson {
    /// The plan.
    pub plan: PlanSummaryJson,
    /// What it changed about the machine.
    pub changes: Vec<ChangeJson>,
}

/// Everything an explanation is made from.
#[derive(Debug, Clone, Copy)]
pub struct Explained<'a> {
    /// The machine.
    pub serial: &'a Serial,
    /// Whether it is in the registry of this server.
    pub registered: bool,
    /// What the next round says about it.
    pub standing: Option<&'a Standing>,
    /// The present configuration.
    pub current: Option<&'a Configuration>,
    /// What the next round would do.
    pub plan: &'a Plan,
    /// The planner does nothing by itself at the moment.
    pub disabled: bool,
    /// What was done with it, newest first.
    pub past: &'a [(KeptPlan, Vec<Change>)],
}

impl From<Explained<'_>> for ExplanationJson {
    fn from(explained: Explained<'_>) -> ExplanationJson {
        let Explained { serial, registered, standing, current, plan, disabled, past } = explained;
        let address = standing.and_then(|standing| standing.address).map(IpAddr::V4);
        // A machine that is not in the list may still be a node; its node says whose it is.
        let own = |node: &&Node| {
            Some(node.address) == address || node.annotations.get(SERIAL).is_some_and(|named| named == serial.as_str())
        };
        let node = current.iter().flat_map(|current| &current.nodes).find(own);
        let now = match node {
            Some(node) if node.control_plane => "control plane",
            Some(_) => "worker",
            None => "outside",
        };
        let selections = plan.report.selections.iter().filter(|selection| {
            let named = selection.chosen.iter().chain(&selection.others).chain(&selection.passed_over);
            named.into_iter().any(|candidate| candidate.serial == *serial)
        });
        ExplanationJson {
            serial: serial.to_string(),
            registered,
            standing: standing.map(StandingJson::from),
            now: now.to_owned(),
            next: next(plan, serial, node.map(|node| node.address), disabled),
            selections: selections.map(SelectionJson::from).collect(),
            past: past.iter().map(past_of).collect(),
        }
    }
}

/// `node`: the address of its node. A node whose machine is not in the list leaves under its address alone.
fn next(plan: &Plan, serial: &Serial, node: Option<IpAddr>, disabled: bool) -> NextJson {
    let (operation, changes, blocked) = match &plan.outcome {
        Outcome::Change(made) => {
            let is_own = |change: &&Change| match &change.serial {
                Some(named) => named == serial,
                None => Some(change.address) == node,
            };
            let own = made.changes.iter().filter(is_own);
            (Some(made.operation.as_str().to_owned()), own.map(ChangeJson::from).collect(), None)
        }
        Outcome::Nothing => (None, Vec::new(), None),
        Outcome::Blocked(blocked) => (None, Vec::new(), Some(BlockedJson::from(blocked))),
    };
    NextJson { outcome: outcome_word(&plan.outcome).to_owned(), operation, changes, blocked, disabled }
}

fn past_of((plan, changes): &(KeptPlan, Vec<Change>)) -> PastJson {
    PastJson { plan: plan.into(), changes: changes.iter().map(ChangeJson::from).collect() }
}

/// How the planner is doing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct ClusterStatusJson {
    /// Whether it works.
    pub enabled: bool,
    /// The server that plans; `null`: none does at the moment.
    pub leader: Option<String>,
    /// Whether there is a template.
    pub has_template: bool,
    /// Nodes of the configuration; `null`: there is none.
    pub nodes: Option<usize>,
    /// The last round of this server, if it leads or led.
    pub last_round: Option<RoundJson>,
    /// The newest plan that was kept.
    pub plan: Option<KeptPlanJson>,
}

/// What a round came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RoundJson {
    /// When, RFC 3339.
    pub at: String,
    /// `skipped`, `nothing`, `changed`, `blocked` or `overtaken` (something it was made from changed meanwhile; nothing was written).
    pub end: String,
    /// Why it was skipped or blocked.
    pub reason: Option<String>,
    /// The rule that made a change.
    pub operation: Option<String>,
    /// The number of the plan.
    pub plan: Option<u64>,
}
