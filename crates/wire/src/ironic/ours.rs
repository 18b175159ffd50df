//! `GET /v1/nodes/{id}/sabakan` and `GET /v1/sabakan`: what clients of the original API do not know. Why a node waits, who works on it,
//! how far it is.

use jiff::Timestamp;
use sabakan_domain::{
    lifecycle::HealthState,
    provision::node::{Node, Operation, Phase},
};
use serde::{Deserialize, Serialize};

/// What goes on with a node, for `sabactl` and for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeStatusJson {
    /// Its UUID.
    pub uuid: String,
    /// Its name.
    pub name: String,
    /// Where it is, in our own words: a failed verification has one of its own.
    pub state: String,
    /// Where it is heading.
    pub target: Option<String>,
    /// Since when it is there.
    pub since: Timestamp,
    /// The lifecycle state of its machine.
    pub machine_state: Option<String>,
    /// Why the last work failed.
    pub last_error: Option<String>,
    /// Why nothing happens right now, and what will change that.
    pub waiting: Option<WaitingJson>,
    /// The server that works on it.
    pub worker: Option<String>,
    /// Work under way.
    pub operation: Option<OperationJson>,
    /// Why its BMC did not answer when it was last asked, and since when.
    pub bmc_silent: Option<WaitingJson>,
    /// Verbs that would be accepted now, as far as its state decides.
    pub accepted: Vec<String>,
}

/// What goes on with every node that is not at rest: one page, by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeStatusesJson {
    /// The nodes.
    pub nodes: Vec<NodeStatusJson>,
    /// Where the next page is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// Why something waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitingJson {
    /// Why.
    pub reason: String,
    /// Since when.
    pub since: Timestamp,
    /// When it is given up; `None`: never.
    pub until: Option<Timestamp>,
}

/// Work under way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperationJson {
    /// Identifies it.
    pub id: String,
    /// What is done.
    pub work: String,
    /// Who asked.
    pub asked_by: String,
    /// When.
    pub asked_at: Timestamp,
    /// When the state it is in has lasted too long.
    pub deadline: Option<Timestamp>,
    /// The step that is next or under way, as `interface.step`.
    pub step: Option<String>,
    /// Its place, from 1.
    pub step_number: Option<usize>,
    /// How many there are.
    pub step_count: usize,
    /// All steps, in order.
    pub steps: Vec<StepJson>,
    /// Somebody wants it stopped.
    pub abort_by: Option<String>,
}

/// One step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepJson {
    /// Interface, dot, name.
    pub step: String,
    /// `done`, `ready`, `running`, `waiting` or `later`.
    pub state: String,
}

impl NodeStatusJson {
    /// What goes on with a node. `accepted`: verbs its state accepts.
    pub fn of(
        node: &Node,
        machine: Option<HealthState>,
        worker: Option<&str>,
        waiting: Option<WaitingJson>,
        accepted: Vec<String>,
    ) -> NodeStatusJson {
        let silent = node.power.silent.as_ref();
        NodeStatusJson {
            uuid: node.id.to_string(),
            name: node.name.to_string(),
            state: node.state.as_str().to_owned(),
            target: node.target.map(|state| state.as_str().to_owned()),
            since: node.since,
            machine_state: machine.map(|state| state.as_str().to_owned()),
            last_error: node.last_error.clone(),
            waiting,
            worker: worker.map(str::to_owned),
            operation: node.operation.as_ref().map(OperationJson::from),
            bmc_silent: silent.map(|s| WaitingJson { reason: s.reason.clone(), since: s.since, until: None }),
            accepted,
        }
    }
}

impl From<&Operation> for OperationJson {
    fn from(operation: &Operation) -> OperationJson {
        let Operation {
            id,
            work,
            asked_by,
            asked_at,
            steps,
            index,
            phase,
            deadline,
            before: _,  // a photograph, not a fact about the work
            ramdisk: _, // in `driver_internal_info`
            abort_by,
            power_forced_by: _, // in the history
            origin: _,          // whether it can be taken back is in `accepted`
        } = operation;
        let state = |n: usize| match (n.cmp(index), phase) {
            (std::cmp::Ordering::Less, _) => "done",
            (std::cmp::Ordering::Greater, _) => "later",
            (std::cmp::Ordering::Equal, Phase::Ready) => "ready",
            (std::cmp::Ordering::Equal, Phase::Started { .. } | Phase::Resumed { .. }) => "running",
            (std::cmp::Ordering::Equal, Phase::Waiting(_)) => "waiting",
        };
        let step = |(n, step): (usize, &sabakan_domain::provision::steps::Step)| StepJson {
            step: step.key(),
            state: state(n).to_owned(),
        };
        OperationJson {
            id: id.clone(),
            work: work.as_str().to_owned(),
            asked_by: asked_by.clone(),
            asked_at: *asked_at,
            deadline: *deadline,
            step: steps.get(*index).map(|step| step.key()),
            step_number: steps.get(*index).map(|_| index + 1),
            step_count: steps.len(),
            steps: steps.iter().enumerate().map(step).collect(),
            abort_by: abort_by.clone(),
        }
    }
}
