//! Everything a plan depends on, owned, and one round of it, compared with the slow planner each time.

use std::net::{IpAddr, Ipv4Addr};

use jiff::{SignedDuration, Timestamp};
use sabakan_domain::{
    cluster::{
        config::{Configuration, Effect, Node, STATE_TAINT, Taint},
        constraints::Constraints,
        input::{Input, ListedMachine, LiveTaints},
        plan::{Outcome, Plan, plan},
        report::Blocked,
        template::Template,
    },
    lifecycle::HealthState,
};
use serde_json::{Value, json};

use super::slow::{self, Answer, Choice};

/// Everything a plan depends on.
#[derive(Debug, Clone)]
pub struct World {
    pub machines: Vec<ListedMachine>,
    pub template: Template,
    pub template_changed: bool,
    pub constraints: Constraints,
    pub current: Option<Configuration>,
    pub taints: LiveTaints,
    pub now: Timestamp,
}

impl World {
    pub fn input(&self) -> Input<'_> {
        Input {
            machines: &self.machines,
            template: &self.template,
            template_changed: self.template_changed,
            constraints: &self.constraints,
            current: self.current.as_ref(),
            taints: &self.taints,
            now: self.now,
        }
    }

    /// Plans one round both ways. They must agree on everything: what is done or blocks, every byte of the configuration, and who
    /// was ranked how at every choice.
    pub fn plan(&self) -> (Plan, Vec<Choice>) {
        let planned = plan(self.input());
        let (answer, choices) = slow::plan(self.input());
        assert_eq!(summary(&planned.outcome), answer, "the two planners differ");
        if let (Outcome::Change(made), Answer::Change { document, .. }) = (&planned.outcome, &answer) {
            assert_eq!(made.configuration.document().to_string(), sorted(document).to_string());
        }
        compare_choices(&planned, &choices);
        (planned, choices)
    }

    /// Plans one round and carries it out.
    pub fn round(&mut self) -> Plan {
        let (planned, _) = self.plan();
        if let Outcome::Change(made) = &planned.outcome {
            self.current = Some(made.configuration.clone());
            self.template_changed = false;
        }
        planned
    }

    /// Lets time pass.
    pub fn wait(&mut self, seconds: u32) {
        self.now += SignedDuration::from_secs(i64::from(seconds));
        for machine in &mut self.machines {
            machine.seconds_in_state += f64::from(seconds);
        }
    }

    /// The machine that is taken to have an address.
    pub fn machine_at(&self, address: IpAddr) -> Option<&ListedMachine> {
        let has_it = |machine: &&ListedMachine| machine.address.map(IpAddr::V4) == Some(address);
        self.machines.iter().filter(has_it).min_by(|a, b| a.serial.cmp(&b.serial))
    }

    /// Taints on a node that control planes must not carry.
    pub fn intolerable(&self, address: IpAddr) -> Vec<String> {
        let template = &self.template;
        let tolerated = |key: &String| {
            key.starts_with("node.kubernetes.io/")
                || ["cke.cybozu.com/state", "cke.cybozu.com/master"].contains(&key.as_str())
                || template.tolerations.contains(key)
                || template.control_plane.taints.iter().any(|taint| taint.key == *key)
        };
        self.taints.get(&address).into_iter().flatten().filter(|key| !tolerated(key)).cloned().collect()
    }
}

/// A node of a stored cluster. Only its address, its kind and the taint of its state mean anything to the planner.
pub fn stored_node(address: Ipv4Addr, control_plane: bool, state: Option<HealthState>) -> Node {
    let value = match state {
        Some(HealthState::Retiring) => Some("retiring"),
        Some(HealthState::Retired) => Some("retired"),
        _ => None,
    };
    Node {
        address: IpAddr::V4(address),
        hostname: String::new(),
        user: "stored".to_owned(),
        control_plane,
        annotations: std::collections::BTreeMap::new(),
        labels: std::collections::BTreeMap::new(),
        taints: value.map(state_taint).into_iter().collect(),
    }
}

pub fn state_taint(value: &str) -> Taint {
    Taint { key: STATE_TAINT.to_owned(), value: value.to_owned(), effect: Effect::NoExecute }
}

/// The template with these nodes, parsed and checked as anybody's.
pub fn template(nodes: &[Value], tolerations: &[&str]) -> Template {
    let document = json!({
        "name": "cluster",
        "service_subnet": "10.68.0.0/16",
        "control_plane_tolerations": tolerations,
        "nodes": nodes,
    });
    Template::parse(document).unwrap_or_else(|problems| panic!("{problems:?}"))
}

/// What the slow planner would say.
fn summary(outcome: &Outcome) -> Answer {
    match outcome {
        Outcome::Nothing => Answer::Nothing,
        Outcome::Change(made) => {
            Answer::Change { operation: made.operation, document: sorted(&made.configuration.document()) }
        }
        Outcome::Blocked(Blocked::TooManyGone { .. }) => Answer::TooManyGone,
        Outcome::Blocked(Blocked::NoMachine { operation, shortage }) => Answer::NoMachine {
            operation: *operation,
            purpose: shortage.purpose,
            role: shortage.role.clone(),
            have: shortage.have,
            want: shortage.want,
        },
        Outcome::Blocked(Blocked::NoTemplate { serial, .. }) => Answer::NoTemplate(serial.clone()),
        Outcome::Blocked(Blocked::Invalid { .. }) => Answer::Invalid,
        Outcome::Blocked(other) => panic!("a whole round does not end so: {other}"),
    }
}

/// The same with the members of every object in the order of their names.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let members: std::collections::BTreeMap<String, Value> =
                members.iter().map(|(key, value)| (key.clone(), sorted(value))).collect();
            Value::Object(members.into_iter().collect())
        }
        Value::Array(items) => items.iter().map(sorted).collect(),
        other => other.clone(),
    }
}

/// Every choice of the report is one the slow planner made, in the same order, with the same scores down to the last one shown.
fn compare_choices(planned: &Plan, choices: &[Choice]) {
    let told: Vec<_> = planned.report.selections.iter().filter(|selection| selection.chosen.is_some()).collect();
    assert_eq!(told.len(), choices.len(), "{told:?}\n{choices:?}");
    for (selection, choice) in told.iter().zip(choices) {
        assert_eq!((selection.purpose, selection.source), (choice.purpose, choice.source));
        let shown = selection.chosen.iter().chain(&selection.others);
        let shown: Vec<_> = shown.map(|candidate| (candidate.serial.clone(), candidate.score.total())).collect();
        let most = choice.ranking.len().min(1 + sabakan_domain::limits::RUNNERS_UP_SHOWN);
        assert_eq!(shown, choice.ranking[..most]);
    }
}
