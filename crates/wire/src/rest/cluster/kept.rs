//! Plans that were kept.

use sabakan_domain::cluster::history::{KeptPlan, KeptResult};
use serde::{Deserialize, Serialize};

use super::parts::{ChangeJson, CheckedJson, SelectionJson, TotalsJson};

/// A plan that was kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct KeptPlanJson {
    /// Its number.
    pub number: u64,
    /// The plan that was made before it; `null`: it is the first.
    pub parent: Option<u64>,
    /// When, RFC 3339.
    pub at: String,
    /// Which server made it.
    pub server: String,
    /// `changed`, `blocked` or `settled` (nothing to do after a plan that was blocked).
    pub outcome: String,
    /// The rule that made the change.
    pub operation: Option<String>,
    /// What changed, node by node; of a large plan the first.
    pub changes: Vec<ChangeJson>,
    /// How many changes are not kept.
    pub changes_left_out: usize,
    /// The kind of what blocked it.
    pub kind: Option<String>,
    /// What blocked it, for people.
    pub reason: Option<String>,
    /// What would have helped.
    pub remedies: Vec<String>,
    /// Rules that were looked at, in order.
    pub checked: Vec<CheckedJson>,
    /// Choices, in order; of a large plan the first.
    pub selections: Vec<SelectionJson>,
    /// How many choices are not kept.
    pub selections_left_out: usize,
    /// What was odd.
    pub warnings: Vec<String>,
    /// Numbers after the round.
    pub totals: TotalsJson,
}

/// The first lines of a plan that was kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct PlanSummaryJson {
    /// Its number.
    pub number: u64,
    /// The plan that was made before it; `null`: it is the first.
    pub parent: Option<u64>,
    /// When, RFC 3339.
    pub at: String,
    /// Which server made it.
    pub server: String,
    /// `changed`, `blocked` or `settled`.
    pub outcome: String,
    /// The rule that made the change.
    pub operation: Option<String>,
    /// How many nodes changed.
    pub changes: usize,
    /// What blocked it, for people.
    pub reason: Option<String>,
}

/// What came out, in the words of answers.
struct Told {
    outcome: &'static str,
    operation: Option<String>,
    changes: Vec<ChangeJson>,
    left_out: usize,
    kind: Option<String>,
    reason: Option<String>,
    remedies: Vec<String>,
}

fn told(result: &KeptResult) -> Told {
    let empty = |outcome| Told {
        outcome,
        operation: None,
        changes: Vec::new(),
        left_out: 0,
        kind: None,
        reason: None,
        remedies: Vec::new(),
    };
    match result {
        KeptResult::Settled => empty("settled"),
        KeptResult::Changed { operation, changes, left_out } => Told {
            operation: Some(operation.as_str().to_owned()),
            changes: changes.iter().map(ChangeJson::from).collect(),
            left_out: *left_out,
            ..empty("changed")
        },
        KeptResult::Blocked { kind, reason, remedies } => Told {
            kind: Some(kind.clone()),
            reason: Some(reason.clone()),
            remedies: remedies.clone(),
            ..empty("blocked")
        },
    }
}

impl From<&KeptPlan> for KeptPlanJson {
    fn from(plan: &KeptPlan) -> KeptPlanJson {
        let KeptPlan { number, parent, at, server, result, checked, selections, selections_left_out, warnings, totals } =
            plan;
        let Told { outcome, operation, changes, left_out, kind, reason, remedies } = told(result);
        KeptPlanJson {
            number: *number,
            parent: *parent,
            at: at.to_string(),
            server: server.clone(),
            outcome: outcome.to_owned(),
            operation,
            changes,
            changes_left_out: left_out,
            kind,
            reason,
            remedies,
            checked: checked.iter().map(CheckedJson::from).collect(),
            selections: selections.iter().map(SelectionJson::from).collect(),
            selections_left_out: *selections_left_out,
            warnings: warnings.clone(),
            totals: totals.into(),
        }
    }
}

impl From<&KeptPlan> for PlanSummaryJson {
    fn from(plan: &KeptPlan) -> PlanSummaryJson {
        let KeptPlanJson { number, parent, at, server, outcome, operation, changes, changes_left_out, reason, .. } =
            KeptPlanJson::from(&KeptPlan { checked: Vec::new(), selections: Vec::new(), ..plan.clone() });
        let changes = changes.len() + changes_left_out;
        PlanSummaryJson { number, parent, at, server, outcome, operation, changes, reason }
    }
}
