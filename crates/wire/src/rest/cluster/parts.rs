//! What plans are made of, whether they are made now or were kept: changes, rules, choices, numbers.

use std::collections::BTreeMap;

use sabakan_domain::cluster::{
    report::{Candidate, Change, Checked, Promotion, Ratio, Selection, Shortage, Totals},
    score::Score,
};
use serde::{Deserialize, Serialize};

/// One node that changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ChangeJson {
    /// What happens to it.
    #[schema(example = "worker added")]
    pub kind: String,
    /// Its address.
    pub address: String,
    /// The serial of its machine; `null`: the machine is not in the list.
    pub serial: Option<String>,
    /// Why.
    pub why: String,
}

impl From<&Change> for ChangeJson {
    fn from(change: &Change) -> ChangeJson {
        let Change { kind, address, serial, why } = change;
        ChangeJson {
            kind: kind.as_str().to_owned(),
            address: address.to_string(),
            serial: serial.as_ref().map(ToString::to_string),
            why: why.clone(),
        }
    }
}

/// One rule that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct CheckedJson {
    /// Which.
    #[schema(example = "replace control plane")]
    pub operation: String,
    /// `not needed`, `passed over` (needed, cannot be done, later rules were looked at), `made`, or `blocked` (nothing else is tried).
    pub verdict: String,
    /// The facts it looked at.
    pub because: String,
}

impl From<&Checked> for CheckedJson {
    fn from(checked: &Checked) -> CheckedJson {
        let Checked { operation, verdict, because } = checked;
        CheckedJson {
            operation: operation.as_str().to_owned(),
            verdict: verdict.as_str().to_owned(),
            because: because.clone(),
        }
    }
}

/// A score in its parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct ScoreJson {
    /// All points.
    pub total: i64,
    /// Points for its rack: 1000, and ten less for every machine of the same kind there.
    pub rack: i64,
    /// Points for its lifetime, from -3 to 3.
    pub lifetime: i64,
    /// Points for being healthy; only where a node is to leave.
    pub health: i64,
    /// How many machines of the same kind are in the rack already.
    pub in_rack: usize,
    /// Whole days until it should go.
    pub days: i64,
}

impl From<&Score> for ScoreJson {
    fn from(score: &Score) -> ScoreJson {
        let Score { in_rack, days, health } = *score;
        ScoreJson {
            total: score.total(),
            rack: score.rack_points(),
            lifetime: score.lifetime_points(),
            health,
            in_rack,
            days,
        }
    }
}

/// A machine that may be chosen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct CandidateJson {
    /// Its serial.
    pub serial: String,
    /// Its address.
    pub address: String,
    /// Where it is.
    pub rack: u32,
    /// How good it is.
    pub score: ScoreJson,
    /// Why it is chosen only when nobody else fits; absent where nothing speaks against it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caution: Option<String>,
}

impl From<&Candidate> for CandidateJson {
    fn from(candidate: &Candidate) -> CandidateJson {
        let Candidate { serial, address, rack, score, caution } = candidate;
        CandidateJson {
            serial: serial.to_string(),
            address: address.to_string(),
            rack: rack.0,
            score: score.into(),
            caution: caution.clone(),
        }
    }
}

/// How well the share of a worker template is met. The smallest ratio is due.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RatioJson {
    /// The role of the template; `null`: any.
    pub role: Option<String>,
    /// Workers with it.
    pub count: usize,
    /// Its share.
    pub weight: f64,
    /// Workers for each unit of its share.
    pub ratio: f64,
}

impl From<&Ratio> for RatioJson {
    fn from(ratio: &Ratio) -> RatioJson {
        let Ratio { role, count, weight } = ratio;
        RatioJson { role: role.clone(), count: *count, weight: *weight, ratio: ratio.value() }
    }
}

/// One choice.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct SelectionJson {
    /// What for: `control plane`, `worker`, or `leave control plane`, where the lowest score is taken.
    pub purpose: String,
    /// Among which machines: `unused machines`, `workers` or `control planes`.
    pub source: String,
    /// The role that was wanted; `null`: any.
    pub role: Option<String>,
    /// Why this role: the shares of all worker templates. Empty where there is no choice.
    pub ratios: Vec<RatioJson>,
    /// Who was chosen; `null`: nobody could be.
    pub chosen: Option<CandidateJson>,
    /// Who would have been chosen otherwise.
    pub runner_up: Option<CandidateJson>,
    /// Those that came next, the runner-up first.
    pub others: Vec<CandidateJson>,
    /// Who would have been chosen here but for its caution; absent where nobody was passed over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passed_over: Option<CandidateJson>,
}

impl SelectionJson {
    /// Whether a machine is named in it.
    pub fn names(&self, serial: &str) -> bool {
        self.chosen.iter().chain(&self.others).chain(&self.passed_over).any(|candidate| candidate.serial == serial)
    }
}

impl From<&Selection> for SelectionJson {
    fn from(selection: &Selection) -> SelectionJson {
        let Selection { purpose, source, role, ratios, chosen, others, passed_over } = selection;
        SelectionJson {
            purpose: purpose.as_str().to_owned(),
            source: source.as_str().to_owned(),
            role: role.clone(),
            ratios: ratios.iter().map(RatioJson::from).collect(),
            chosen: chosen.as_ref().map(CandidateJson::from),
            runner_up: selection.runner_up().map(CandidateJson::from),
            others: others.iter().map(CandidateJson::from).collect(),
            passed_over: passed_over.as_ref().map(CandidateJson::from),
        }
    }
}

/// Who is missing, and why nobody fits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct ShortageJson {
    /// What for.
    pub purpose: String,
    /// The role that is due; `null`: any.
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
    /// Why no worker became a control plane; `null` where that was not asked.
    pub promotion: Option<PromotionJson>,
}

/// Why no worker became a control plane.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "kebab-case", tag = "reason")]
pub enum PromotionJson {
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

impl From<&Shortage> for ShortageJson {
    fn from(shortage: &Shortage) -> ShortageJson {
        let Shortage { purpose, role, have, want, not_healthy, other_role, tainted, promotion } = shortage;
        let promotion = promotion.map(|promotion| match promotion {
            Promotion::AtMinimum { workers, minimum } => PromotionJson::AtMinimum { workers, minimum },
            Promotion::NoneFits => PromotionJson::NoneFits,
        });
        ShortageJson {
            purpose: purpose.as_str().to_owned(),
            role: role.clone(),
            have: *have,
            want: *want,
            not_healthy: *not_healthy,
            other_role: *other_role,
            tainted: *tainted,
            promotion,
        }
    }
}

/// Numbers after the round.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct TotalsJson {
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

impl From<&Totals> for TotalsJson {
    fn from(totals: &Totals) -> TotalsJson {
        let Totals { machines, control_planes, workers, healthy_workers, unused } = totals;
        TotalsJson {
            machines: *machines,
            control_planes: *control_planes,
            workers: workers.clone(),
            healthy_workers: *healthy_workers,
            unused: *unused,
        }
    }
}
