//! The Kubernetes cluster as stored: constraints, the configuration without its nodes, plans.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr},
};

use jiff::Timestamp;
use sabakan_domain::{
    cluster::{
        constraints::Constraints,
        history::{KeptPlan, KeptResult},
        report::{
            Candidate, Change, ChangeKind, Checked, Operation, Purpose, Ratio, Selection, Source, Totals, Verdict,
        },
        score::Score,
    },
    machine::Rack,
    words::Serial,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// `cluster/constraints`. What is absent has its default.
#[derive(Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ConstraintsRecord(BTreeMap<String, u32>);

impl From<&Constraints> for ConstraintsRecord {
    fn from(constraints: &Constraints) -> ConstraintsRecord {
        ConstraintsRecord(constraints.entries().into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }
}

impl TryFrom<ConstraintsRecord> for Constraints {
    type Error = String;

    fn try_from(record: ConstraintsRecord) -> Result<Constraints, String> {
        let set = |constraints: Constraints, (name, value): (&String, &u32)| constraints.with(name, *value);
        record.0.iter().try_fold(Constraints::default(), set).map_err(|error| error.to_string())
    }
}

/// `cluster/configuration`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ConfigurationRecord {
    /// The revision of the template it was made from; 0: written by hand before there was one.
    pub template_revision: u64,
    /// The plan that made it; absent: written by hand.
    pub plan: Option<u64>,
    /// How many keys hold its nodes.
    pub parts: usize,
    /// Everything but the nodes.
    pub rest: Map<String, Value>,
}

/// `cluster/plans`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanNumbersRecord {
    /// The first that is kept.
    pub first: u64,
    /// The next one to write.
    pub next: u64,
}

/// `cluster-plans/<number>`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct PlanRecord {
    number: u64,
    parent: Option<u64>,
    at: Timestamp,
    server: String,
    result: ResultRecord,
    checked: Vec<CheckedRecord>,
    selections: Vec<SelectionRecord>,
    selections_left_out: usize,
    warnings: Vec<String>,
    totals: TotalsRecord,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ResultRecord {
    #[serde(rename_all = "kebab-case")]
    Changed {
        operation: String,
        changes: Vec<ChangeRecord>,
        left_out: usize,
    },
    Blocked {
        kind: String,
        reason: String,
        remedies: Vec<String>,
    },
    Settled,
}

#[derive(Debug, Serialize, Deserialize)]
struct ChangeRecord {
    kind: String,
    address: IpAddr,
    serial: Option<Serial>,
    why: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct CheckedRecord {
    operation: String,
    verdict: String,
    because: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct SelectionRecord {
    purpose: String,
    source: String,
    role: Option<String>,
    ratios: Vec<RatioRecord>,
    chosen: Option<CandidateRecord>,
    others: Vec<CandidateRecord>,
    #[serde(default, rename = "passed-over", skip_serializing_if = "Option::is_none")]
    passed_over: Option<CandidateRecord>,
}

#[derive(Debug, Serialize, Deserialize)]
struct RatioRecord {
    role: Option<String>,
    count: usize,
    weight: f64,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct CandidateRecord {
    serial: Serial,
    address: Ipv4Addr,
    rack: u32,
    in_rack: usize,
    days: i64,
    health: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    caution: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct TotalsRecord {
    machines: usize,
    control_planes: usize,
    workers: BTreeMap<String, usize>,
    healthy_workers: usize,
    unused: usize,
}

impl From<&KeptPlan> for PlanRecord {
    fn from(plan: &KeptPlan) -> PlanRecord {
        let KeptPlan { number, parent, at, server, result, checked, selections, selections_left_out, warnings, totals } =
            plan;
        PlanRecord {
            number: *number,
            parent: *parent,
            at: *at,
            server: server.clone(),
            result: result.into(),
            checked: checked.iter().map(CheckedRecord::from).collect(),
            selections: selections.iter().map(SelectionRecord::from).collect(),
            selections_left_out: *selections_left_out,
            warnings: warnings.clone(),
            totals: totals.into(),
        }
    }
}

impl TryFrom<PlanRecord> for KeptPlan {
    type Error = String;

    fn try_from(record: PlanRecord) -> Result<KeptPlan, String> {
        let PlanRecord {
            number,
            parent,
            at,
            server,
            result,
            checked,
            selections,
            selections_left_out,
            warnings,
            totals,
        } = record;
        Ok(KeptPlan {
            number,
            parent,
            at,
            server,
            result: result.try_into()?,
            checked: checked.into_iter().map(Checked::try_from).collect::<Result<_, _>>()?,
            selections: selections.into_iter().map(Selection::try_from).collect::<Result<_, _>>()?,
            selections_left_out,
            warnings,
            totals: totals.into(),
        })
    }
}

impl From<&KeptResult> for ResultRecord {
    fn from(result: &KeptResult) -> ResultRecord {
        match result {
            KeptResult::Changed { operation, changes, left_out } => ResultRecord::Changed {
                operation: operation.as_str().to_owned(),
                changes: changes.iter().map(ChangeRecord::from).collect(),
                left_out: *left_out,
            },
            KeptResult::Blocked { kind, reason, remedies } => {
                ResultRecord::Blocked { kind: kind.clone(), reason: reason.clone(), remedies: remedies.clone() }
            }
            KeptResult::Settled => ResultRecord::Settled,
        }
    }
}

impl TryFrom<ResultRecord> for KeptResult {
    type Error = String;

    fn try_from(record: ResultRecord) -> Result<KeptResult, String> {
        Ok(match record {
            ResultRecord::Changed { operation, changes, left_out } => KeptResult::Changed {
                operation: named(Operation::ALL, Operation::as_str, &operation)?,
                changes: changes.into_iter().map(Change::try_from).collect::<Result<_, _>>()?,
                left_out,
            },
            ResultRecord::Blocked { kind, reason, remedies } => KeptResult::Blocked { kind, reason, remedies },
            ResultRecord::Settled => KeptResult::Settled,
        })
    }
}

impl From<&Change> for ChangeRecord {
    fn from(change: &Change) -> ChangeRecord {
        let Change { kind, address, serial, why } = change;
        ChangeRecord { kind: kind.as_str().to_owned(), address: *address, serial: serial.clone(), why: why.clone() }
    }
}

impl TryFrom<ChangeRecord> for Change {
    type Error = String;

    fn try_from(record: ChangeRecord) -> Result<Change, String> {
        let ChangeRecord { kind, address, serial, why } = record;
        Ok(Change { kind: named(ChangeKind::ALL, ChangeKind::as_str, &kind)?, address, serial, why })
    }
}

impl From<&Checked> for CheckedRecord {
    fn from(checked: &Checked) -> CheckedRecord {
        let Checked { operation, verdict, because } = checked;
        CheckedRecord {
            operation: operation.as_str().to_owned(),
            verdict: verdict.as_str().to_owned(),
            because: because.clone(),
        }
    }
}

impl TryFrom<CheckedRecord> for Checked {
    type Error = String;

    fn try_from(record: CheckedRecord) -> Result<Checked, String> {
        let CheckedRecord { operation, verdict, because } = record;
        Ok(Checked {
            operation: named(Operation::ALL, Operation::as_str, &operation)?,
            verdict: named(Verdict::ALL, Verdict::as_str, &verdict)?,
            because,
        })
    }
}

impl From<&Selection> for SelectionRecord {
    fn from(selection: &Selection) -> SelectionRecord {
        let Selection { purpose, source, role, ratios, chosen, others, passed_over } = selection;
        let ratio = |ratio: &Ratio| {
            let Ratio { role, count, weight } = ratio;
            RatioRecord { role: role.clone(), count: *count, weight: *weight }
        };
        SelectionRecord {
            purpose: purpose.as_str().to_owned(),
            source: source.as_str().to_owned(),
            role: role.clone(),
            ratios: ratios.iter().map(ratio).collect(),
            chosen: chosen.as_ref().map(CandidateRecord::from),
            others: others.iter().map(CandidateRecord::from).collect(),
            passed_over: passed_over.as_ref().map(CandidateRecord::from),
        }
    }
}

impl TryFrom<SelectionRecord> for Selection {
    type Error = String;

    fn try_from(record: SelectionRecord) -> Result<Selection, String> {
        let SelectionRecord { purpose, source, role, ratios, chosen, others, passed_over } = record;
        let ratio = |RatioRecord { role, count, weight }: RatioRecord| Ratio { role, count, weight };
        Ok(Selection {
            purpose: named(Purpose::ALL, Purpose::as_str, &purpose)?,
            source: named(Source::ALL, Source::as_str, &source)?,
            role,
            ratios: ratios.into_iter().map(ratio).collect(),
            chosen: chosen.map(Candidate::from),
            others: others.into_iter().map(Candidate::from).collect(),
            passed_over: passed_over.map(Candidate::from),
        })
    }
}

impl From<&Candidate> for CandidateRecord {
    fn from(candidate: &Candidate) -> CandidateRecord {
        let Candidate { serial, address, rack, score: Score { in_rack, days, health }, caution } = candidate;
        CandidateRecord {
            serial: serial.clone(),
            address: *address,
            rack: rack.0,
            in_rack: *in_rack,
            days: *days,
            health: *health,
            caution: caution.clone(),
        }
    }
}

impl From<CandidateRecord> for Candidate {
    fn from(record: CandidateRecord) -> Candidate {
        let CandidateRecord { serial, address, rack, in_rack, days, health, caution } = record;
        Candidate { serial, address, rack: Rack(rack), score: Score { in_rack, days, health }, caution }
    }
}

impl From<&Totals> for TotalsRecord {
    fn from(totals: &Totals) -> TotalsRecord {
        let Totals { machines, control_planes, workers, healthy_workers, unused } = totals.clone();
        TotalsRecord { machines, control_planes, workers, healthy_workers, unused }
    }
}

impl From<TotalsRecord> for Totals {
    fn from(record: TotalsRecord) -> Totals {
        let TotalsRecord { machines, control_planes, workers, healthy_workers, unused } = record;
        Totals { machines, control_planes, workers, healthy_workers, unused }
    }
}

/// The value with a name.
fn named<T: Copy>(all: impl IntoIterator<Item = T>, name: impl Fn(T) -> &'static str, text: &str) -> Result<T, String> {
    all.into_iter().find(|value| name(*value) == text).ok_or_else(|| format!("{text:?} is not known"))
}
