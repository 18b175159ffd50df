//! What may be broken on purpose: a rule that is shown a wrong fact, a compare or a write that is missing, a decision that forgets.

use sabakan_domain::{
    lifecycle::HealthState,
    provision::{
        engine::Changed,
        node::{Node, Phase},
        states::Kind,
        verbs::Verb,
    },
};
use sabakan_store::{Compare, KeyValue, Op, Revision, Txn};

use super::{clients::Action, world::Keys};
use sabakan_store::repo::nodes::Grip;

/// A deliberate defect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broken {
    Nothing,
    WriteComparesNoLock,
    WriteTrustsAnyLock,
    TakeIgnoresLock,
    TakeKeepsEpoch,
    AskComparesNoMachine,
    AskComparesNoNode,
    AskIgnoresLock,
    AskIgnoresLifecycle,
    NoticeIgnoresLock,
    RetireIgnoresWork,
    ReportIgnoresWork,
    ReportIsDropped,
    ReportIsForgotten,
    EraseSkipsRetiring,
    EraseStepComparesNoMachine,
    ArrivesWithKeys,
    ArrivesDeclared,
    TearDownForgetsMachine,
    AbortForgetsRamdisk,
    RunsTwice,
    StepGoesBack,
    NoDeadline,
    AttemptsForgotten,
    HoldsWhileWaiting,
    RowForgotten,
    NoReason,
    TargetForgotten,
    OperationForgotten,
    AuditForgotten,
}

impl Broken {
    /// Changes what a call gets to see: a rule that believes it is as good as one that does not look.
    pub fn show(self, action: Action, key: &str, value: &mut Option<KeyValue>) {
        let kind = Keys::of(key);
        match (self, action) {
            (Broken::TakeIgnoresLock, Action::Take { .. })
            | (Broken::AskIgnoresLock, Action::Ask(_))
            | (Broken::NoticeIgnoresLock, Action::Called | Action::TaskEnded)
                if kind == Keys::LOCK =>
            {
                *value = None;
            }
            (Broken::WriteTrustsAnyLock, Action::Write(_)) if kind == Keys::LOCK => {
                if let Some(kv) = value {
                    kv.mod_revision = Revision(3);
                }
            }
            (Broken::RetireIgnoresWork, Action::SetState { to: HealthState::Retired, .. })
            | (Broken::ReportIgnoresWork, Action::SetState { to: HealthState::Unhealthy, .. })
                if kind == Keys::NODE =>
            {
                *value = None;
            }
            (Broken::AskIgnoresLifecycle, Action::Ask(_)) if kind == Keys::MACHINE => {
                pretend(value, HealthState::Healthy);
            }
            (Broken::EraseSkipsRetiring, Action::EraseStep) if kind == Keys::MACHINE => {
                pretend(value, HealthState::Retiring);
            }
            _ => {}
        }
    }

    /// Changes what a call commits.
    pub fn send(self, action: Action, txn: &mut Txn) {
        let forget = match (self, action) {
            (Broken::WriteComparesNoLock | Broken::WriteTrustsAnyLock, Action::Write(_))
            | (Broken::TakeIgnoresLock, Action::Take { .. })
            | (Broken::AskIgnoresLock, Action::Ask(_))
            | (Broken::NoticeIgnoresLock, Action::Called | Action::TaskEnded) => Keys::LOCK,
            (Broken::AskComparesNoMachine, Action::Ask(_)) => Keys::MACHINE,
            (Broken::EraseStepComparesNoMachine, Action::EraseStep) => Keys::MACHINE,
            (Broken::AskComparesNoNode, Action::Ask(_))
            | (Broken::RetireIgnoresWork, Action::SetState { to: HealthState::Retired, .. })
            | (Broken::ReportIgnoresWork, Action::SetState { to: HealthState::Unhealthy, .. }) => Keys::NODE,
            (Broken::ArrivesWithKeys, Action::Write(_)) => Keys::CRYPTS,
            _ => Keys::NONE,
        };
        let lone = |compare: &Compare| Keys::compared(&Txn { when: vec![compare.clone()], then: vec![] });
        txn.when.retain(|compare| !(lone(compare) & forget).any());
        match (self, action) {
            (Broken::ReportIsDropped, Action::SetState { to: HealthState::Unhealthy, .. }) => {
                txn.then.retain(|op| !puts(op, "/nodes/"));
            }
            (Broken::RowForgotten, Action::Write(_)) => txn.then.retain(|op| !puts(op, "/node-history/")),
            (Broken::AuditForgotten, Action::Write(_)) => txn.then.retain(|op| !puts(op, "/audit/")),
            (Broken::TakeKeepsEpoch, Action::Take { .. }) => {
                for op in &mut txn.then {
                    if let Op::Put { key, value, .. } = op
                        && Keys::of(key) == Keys::NODE
                    {
                        let mut json: serde_json::Value = serde_json::from_slice(value).unwrap();
                        json["epoch"] = 0.into();
                        *value = serde_json::to_vec(&json).unwrap().into();
                    }
                }
            }
            _ => {}
        }
    }

    /// Changes what a verb is answered with.
    pub fn accepts(self, verb: Verb, changed: &mut Changed) {
        match self {
            Broken::TearDownForgetsMachine if verb == Verb::Deleted => changed.machine = None,
            Broken::AbortForgetsRamdisk if verb == Verb::Abort => {
                changed.node.operation.take_if(|operation| operation.work.clears_up());
            }
            Broken::TargetForgotten => changed.node.target = None,
            Broken::OperationForgotten if verb == Verb::Provide => changed.node.operation = None,
            _ => {}
        }
    }

    /// Changes what a worker that takes a node believes of the step it finds begun.
    pub fn finds(self, node: &Node) -> Node {
        let mut node = node.clone();
        let Some(operation) = &mut node.operation else { return node };
        match (self, &mut operation.phase) {
            (Broken::RunsTwice, Phase::Started { .. }) => {
                operation.steps.iter_mut().for_each(|step| step.idempotent = true);
            }
            (Broken::AttemptsForgotten, Phase::Started { attempt } | Phase::Resumed { attempt, .. }) => *attempt = 0,
            _ => {}
        }
        node
    }

    /// Changes what a worker writes.
    pub fn writes(self, before: &Node, changed: &mut Changed) {
        let node = &mut changed.node;
        match (self, &mut node.operation) {
            (Broken::ReportIsForgotten, _) if node.state.kind() == Kind::Failed => changed.machine = None,
            (Broken::NoReason, _) => node.last_error = None,
            (Broken::NoDeadline, Some(operation)) if node.state.kind() == Kind::Waiting => operation.deadline = None,
            (Broken::StepGoesBack, Some(operation)) => {
                let was = before.operation.as_ref().map_or(0, |operation| operation.index);
                if operation.index > 1 && operation.index > was {
                    operation.index = was.saturating_sub(1);
                }
            }
            _ => {}
        }
    }

    /// Changes whether a worker lets go.
    pub fn grip(self, grip: Grip) -> Grip {
        if self == Broken::HoldsWhileWaiting { Grip::Keep } else { grip }
    }
}

fn pretend(value: &mut Option<KeyValue>, state: HealthState) {
    let Some(kv) = value else { return };
    let mut json: serde_json::Value = serde_json::from_slice(&kv.value).unwrap();
    json["status"]["state"] = state.as_str().into();
    kv.value = serde_json::to_vec(&json).unwrap().into();
}

fn puts(op: &Op, part: &str) -> bool {
    matches!(op, Op::Put { key, .. } if key.contains(part))
}
