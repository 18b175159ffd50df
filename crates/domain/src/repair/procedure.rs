//! What is done to repair a machine: by kind of machine, by what is wrong, step by step. Read from the `repair` part of a cluster's
//! configuration, which was checked when it was stored.

use std::time::Duration;

use serde_json::{Map, Value};

use super::selector::Selector;
use crate::{cluster::shape::Problem, lifecycle::HealthState, limits};

/// What a step can do by itself, instead of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// Off and on again, through the controller.
    PowerCycle,
    /// On, through the controller.
    PowerOn,
    /// Restarts the controller itself.
    BmcReset,
    /// Puts the workload on it anew.
    Rebuild,
    /// Declares it retiring: a person has to take it from there.
    Retire,
}

impl Action {
    /// Every action.
    pub const ALL: [Action; 5] =
        [Action::PowerCycle, Action::PowerOn, Action::BmcReset, Action::Rebuild, Action::Retire];

    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Action::PowerCycle => "power-cycle",
            Action::PowerOn => "power-on",
            Action::BmcReset => "bmc-reset",
            Action::Rebuild => "rebuild",
            Action::Retire => "retire",
        }
    }

    /// The action with this name.
    pub fn parse(name: &str) -> Option<Action> {
        Action::ALL.into_iter().find(|action| action.as_str() == name)
    }
}

/// How a step acts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// A program with its arguments; the address of the machine is added. No shell.
    Command(Vec<String>),
    /// Something this program does.
    Builtin(Action),
}

/// One attempt to repair a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// How.
    pub act: Act,
    /// How long one try may take; `None`: as long as it likes.
    pub timeout: Option<Duration>,
    /// How often it is tried again, [`limits::COMMAND_RETRIES_MAX`] times at most.
    pub retries: u32,
    /// The pause after each try that failed.
    pub interval: Duration,
    /// Pods leave the node first.
    pub need_drain: bool,
    /// How long the machine is given to become healthy.
    pub watch: Duration,
}

/// Who says whether a machine is healthy again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HealthCheck {
    /// A program with its arguments, which prints `true`; the address of the machine is added. No shell.
    Command(Vec<String>),
    /// The machine's state in the registry.
    Registry,
}

impl HealthCheck {
    /// The word for [`HealthCheck::Registry`] in a template.
    pub const REGISTRY: &'static str = "registry";
}

/// Whether nothing is left to repair, by the machine's state in the registry; `None`: it is not registered. A healthy machine is well.
/// One that is being retired, is retired or is gone is nobody's to repair any more: a step that ends in retirement ends the repair, and
/// a machine that is being emptied must not be power-cycled. *Uninitialized* and *updating* are on their way, not there.
pub fn is_well(state: Option<HealthState>) -> bool {
    match state {
        None | Some(HealthState::Healthy | HealthState::Retiring | HealthState::Retired) => true,
        Some(
            HealthState::Uninitialized | HealthState::Unhealthy | HealthState::Unreachable | HealthState::Updating,
        ) => false,
    }
}

/// What is done for one kind of trouble.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// The trouble.
    pub name: String,
    /// What is tried, in order.
    pub steps: Vec<Step>,
    /// Who says whether the machine is healthy.
    pub health_check: HealthCheck,
    /// How long the check may take; `None`: as long as it likes.
    pub health_check_timeout: Option<Duration>,
    /// Is run when the machine is healthy again.
    pub success_command: Option<Vec<String>>,
    /// How long that may take; `None`: as long as it likes.
    pub success_command_timeout: Option<Duration>,
}

/// Why a step is not begun, or not begun again, by the state of the machine alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NothingLeft {
    /// Nothing is left to repair.
    Well,
    /// It is being emptied, or is empty: whoever is asked about its health, it must not be power-cycled.
    Leaving(HealthState),
}

impl Operation {
    /// Why a step of it is not begun for a machine in this state; `None`: it may be. The state is `None` for one that is not registered.
    pub fn nothing_left(&self, state: Option<HealthState>) -> Option<NothingLeft> {
        match (&self.health_check, state) {
            (HealthCheck::Registry, state) => is_well(state).then_some(NothingLeft::Well),
            (HealthCheck::Command(_), Some(state @ (HealthState::Retiring | HealthState::Retired))) => {
                Some(NothingLeft::Leaving(state))
            }
            (HealthCheck::Command(_), _) => None,
        }
    }

    /// Whether it works on machines of the registry alone: it asks the registry for their health, or does a step through it.
    pub fn needs_registered(&self) -> bool {
        let by_itself = |step: &Step| matches!(step.act, Act::Builtin(_));
        self.health_check == HealthCheck::Registry || self.steps.iter().any(by_itself)
    }
}

/// What is done for some kinds of machines.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Procedure {
    machine_types: Vec<String>,
    operations: Vec<Operation>,
}

/// How machines are repaired.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Procedures {
    procedures: Vec<Procedure>,
    /// How many machines are worked on at the same time.
    pub concurrent_max: usize,
    /// How pods leave a node.
    pub drain: DrainRules,
}

/// How pods leave a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DrainRules {
    /// Labels of the namespaces whose pods are never deleted by force; `None`: all namespaces.
    pub protected_namespaces: Option<Selector>,
    /// Labels of the pods of jobs that are never deleted; `None`: all of them.
    pub protected_job_pods: Option<Selector>,
    /// How often the eviction of a pod is tried again.
    pub evict_retries: u32,
    /// The pause between.
    pub evict_interval: Duration,
    /// How long it may take until a node is empty.
    pub timeout: Duration,
}

impl DrainRules {
    /// From the members of a `repair` or `reboot` object.
    pub fn of(members: &Map<String, Value>) -> DrainRules {
        // What is empty protects everything. So does what is no selector, which would have been refused when it was stored.
        let selector = |name| members.get(name).and_then(Selector::of).filter(|selector| !selector.is_everything());
        DrainRules {
            protected_namespaces: selector("protected_namespaces"),
            protected_job_pods: selector("protected_job_pods"),
            evict_retries: count(members, "evict_retries"),
            evict_interval: seconds(members, "evict_interval", 0),
            timeout: seconds(members, "eviction_timeout_seconds", 600),
        }
    }
}

/// Why there is nothing to do for a machine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoStep {
    /// No procedure is for its type.
    #[error("no repair procedure is for machine type {0:?}; add one to the cluster template")]
    Procedure(String),
    /// The procedure for its type does not know the trouble.
    #[error(
        "the repair procedure for machine type {machine_type:?} has no operation {operation:?}; add one to the cluster template"
    )]
    Operation {
        /// The type.
        machine_type: String,
        /// The trouble.
        operation: String,
    },
    /// Every step was tried.
    #[error("all {0} steps were tried and the machine is not healthy")]
    Over(usize),
}

impl Procedures {
    /// From a cluster's configuration. Without a `repair` part nothing can be repaired.
    pub fn of(rest: &Map<String, Value>) -> Procedures {
        let empty = Map::new();
        let members = rest.get("repair").and_then(Value::as_object).unwrap_or(&empty);
        let procedures = items(members, "repair_procedures").filter_map(Value::as_object).map(procedure).collect();
        let concurrent_max = members.get("max_concurrent_repairs").and_then(Value::as_u64).unwrap_or(1);
        let concurrent_max = usize::try_from(concurrent_max).unwrap_or(usize::MAX);
        Procedures { procedures, concurrent_max, drain: DrainRules::of(members) }
    }

    /// What is done for a kind of machine and a kind of trouble.
    pub fn operation(&self, machine_type: &str, operation: &str) -> Result<&Operation, NoStep> {
        let is_for = |procedure: &&Procedure| procedure.machine_types.iter().any(|known| known == machine_type);
        let procedure = self.procedures.iter().find(is_for);
        let procedure = procedure.ok_or_else(|| NoStep::Procedure(machine_type.to_owned()))?;
        let found = procedure.operations.iter().find(|known| known.name == operation);
        found
            .ok_or_else(|| NoStep::Operation { machine_type: machine_type.to_owned(), operation: operation.to_owned() })
    }

    /// What is allowed but rarely meant: steps that cannot be undone, taken because nobody reported that the machine is well. A monitor
    /// that falls silent leaves the registry as it was.
    pub fn warnings(&self) -> Vec<Problem> {
        let mut warnings = Vec::new();
        for (place, procedure) in self.procedures.iter().enumerate() {
            let by_registry = |(_, operation): &(usize, &Operation)| operation.health_check == HealthCheck::Registry;
            for (number, operation) in procedure.operations.iter().enumerate().filter(by_registry) {
                let lasting = operation.steps.iter().enumerate().filter_map(|(step, known)| match known.act {
                    Act::Builtin(action @ (Action::Rebuild | Action::Retire)) => Some((step, action)),
                    Act::Builtin(Action::PowerCycle | Action::PowerOn | Action::BmcReset) | Act::Command(_) => None,
                });
                warnings.extend(lasting.map(|(step, action)| {
                    let path = format!(
                        "repair.repair_procedures[{place}].repair_operations[{number}].repair_steps[{step}].action"
                    );
                    let reason = format!(
                        "`{}` is done to a machine that works if the monitor falls silent: with `health_check: registry` it stays {:?} \
                         until somebody reports otherwise; a health_check_command asks the machine itself",
                        action.as_str(),
                        operation.name
                    );
                    Problem::new(path, reason)
                }));
            }
        }
        warnings
    }

    /// The step with a number.
    pub fn step(&self, machine_type: &str, operation: &str, number: usize) -> Result<&Step, NoStep> {
        let steps = &self.operation(machine_type, operation)?.steps;
        steps.get(number).ok_or(NoStep::Over(steps.len()))
    }
}

fn procedure(members: &Map<String, Value>) -> Procedure {
    Procedure {
        machine_types: texts(members, "machine_types").unwrap_or_default(),
        operations: items(members, "repair_operations").filter_map(Value::as_object).map(operation).collect(),
    }
}

fn operation(members: &Map<String, Value>) -> Operation {
    Operation {
        name: members.get("operation").and_then(Value::as_str).unwrap_or_default().to_owned(),
        steps: items(members, "repair_steps").filter_map(Value::as_object).map(step).collect(),
        health_check: health_check(members),
        health_check_timeout: bounded(members, "command_timeout_seconds", COMMAND_SECONDS),
        success_command: texts(members, "success_command").filter(|command| !command.is_empty()),
        success_command_timeout: bounded(members, "success_command_timeout", COMMAND_SECONDS),
    }
}

fn health_check(members: &Map<String, Value>) -> HealthCheck {
    let word = members.get("health_check").and_then(Value::as_str);
    match word {
        Some(HealthCheck::REGISTRY) => HealthCheck::Registry,
        _ => HealthCheck::Command(texts(members, "health_check_command").unwrap_or_default()),
    }
}

fn step(members: &Map<String, Value>) -> Step {
    let action = members.get("action").and_then(Value::as_str).and_then(Action::parse);
    // Nothing that writes disks is done within the time of a command.
    let usual = if action == Some(Action::Rebuild) { REBUILD_SECONDS } else { COMMAND_SECONDS };
    let command = || Act::Command(texts(members, "repair_command").unwrap_or_default());
    Step {
        act: action.map_or_else(command, Act::Builtin),
        timeout: bounded(members, "command_timeout_seconds", usual),
        retries: retries(members),
        interval: seconds(members, "command_interval", 0),
        need_drain: members.get("need_drain").and_then(Value::as_bool).unwrap_or(false),
        watch: seconds(members, "watch_seconds", 0),
    }
}

fn items<'a>(members: &'a Map<String, Value>, name: &str) -> impl Iterator<Item = &'a Value> {
    members.get(name).and_then(Value::as_array).into_iter().flatten()
}

pub(super) fn texts(members: &Map<String, Value>, name: &str) -> Option<Vec<String>> {
    let list = members.get(name)?.as_array()?;
    Some(list.iter().filter_map(Value::as_str).map(str::to_owned).collect())
}

fn number(members: &Map<String, Value>, name: &str) -> Option<u64> {
    members.get(name).and_then(Value::as_u64)
}

fn count(members: &Map<String, Value>, name: &str) -> u32 {
    u32::try_from(number(members, name).unwrap_or(0)).unwrap_or(u32::MAX)
}

pub(super) fn seconds(members: &Map<String, Value>, name: &str, default: u64) -> Duration {
    Duration::from_secs(number(members, name).unwrap_or(default))
}

/// How often a command is tried again. More was written down in templates before there was a most, and counts as the most.
pub(super) fn retries(members: &Map<String, Value>) -> u32 {
    count(members, "command_retries").min(limits::COMMAND_RETRIES_MAX)
}

/// How long a command may take unless said otherwise.
const COMMAND_SECONDS: u64 = 30;

/// How long a rebuild may take unless said otherwise.
const REBUILD_SECONDS: u64 = 3_600;

/// A time limit: the usual one unless said otherwise, and none for 0.
fn bounded(members: &Map<String, Value>, name: &str, usual: u64) -> Option<Duration> {
    let time = seconds(members, name, usual);
    (!time.is_zero()).then_some(time)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn procedures() -> Procedures {
        let document = json!({ "repair": {
            "max_concurrent_repairs": 2,
            "evict_retries": 3,
            "protected_namespaces": {},
            "repair_procedures": [
                { "machine_types": ["a", "b"], "repair_operations": [
                    { "operation": "unhealthy", "health_check_command": ["check"], "command_timeout_seconds": 0,
                      "success_command": ["hooray", "-v"],
                      "repair_steps": [
                          { "repair_command": ["reset"], "command_retries": 2, "command_interval": 30, "watch_seconds": 600 },
                          { "action": "power-cycle", "need_drain": true, "command_timeout_seconds": 300 },
                      ] },
                ] },
                { "machine_types": ["b"], "repair_operations": [
                    { "operation": "unreachable", "health_check_command": ["check"], "repair_steps": [{ "action": "retire" }] },
                ] },
                { "machine_types": ["d"], "repair_operations": [
                    { "operation": "unreachable", "health_check": "registry", "repair_steps": [{ "action": "retire" }] },
                ] },
            ],
        } });
        Procedures::of(document.as_object().expect("an object"))
    }

    #[test]
    fn what_cannot_be_undone_and_rests_on_the_monitor_alone_is_told() {
        let told = procedures().warnings();
        let paths: Vec<&str> = told.iter().map(|problem| problem.path.as_str()).collect();
        assert_eq!(paths, ["repair.repair_procedures[2].repair_operations[0].repair_steps[0].action"], "{told:?}");
        let of = |check: &str, steps: Value| {
            let operation = json!({ "operation": "unhealthy", check: "registry", "repair_steps": steps });
            let procedure = json!({ "machine_types": ["a"], "repair_operations": [operation] });
            let document = json!({ "repair": { "repair_procedures": [procedure] } });
            let warnings = Procedures::of(document.as_object().expect("an object")).warnings();
            warnings.iter().map(|problem| problem.reason[..9].to_owned()).collect::<Vec<_>>()
        };
        let all = json!(Action::ALL.map(|action| json!({ "action": action.as_str() })));
        assert_eq!(of("health_check", all.clone()), ["`rebuild`", "`retire` "]);
        assert!(of("health_check_command", all).is_empty());
        assert!(of("health_check", json!([{ "repair_command": ["retire"] }])).is_empty());
    }

    #[test]
    fn what_is_written_is_meant() {
        let procedures = procedures();
        assert_eq!((procedures.concurrent_max, procedures.drain.evict_retries), (2, 3));
        assert_eq!(procedures.drain.protected_namespaces, None, "an empty selector means all");
        assert_eq!(procedures.drain.timeout, Duration::from_secs(600));
        let operation = procedures.operation("a", "unhealthy").expect("known");
        assert_eq!(operation.health_check_timeout, None);
        assert_eq!(operation.health_check, HealthCheck::Command(vec!["check".to_owned()]));
        assert_eq!(operation.success_command_timeout, Some(Duration::from_secs(30)));
        assert_eq!(operation.success_command.as_deref(), Some(&["hooray".to_owned(), "-v".to_owned()][..]));
        let first = procedures.step("a", "unhealthy", 0).expect("a step");
        assert_eq!(first.act, Act::Command(vec!["reset".to_owned()]));
        assert_eq!(
            (first.retries, first.interval, first.watch),
            (2, Duration::from_secs(30), Duration::from_secs(600))
        );
        assert_eq!(first.timeout, Some(Duration::from_secs(30)));
        let second = procedures.step("a", "unhealthy", 1).expect("a step");
        assert_eq!((&second.act, second.need_drain), (&Act::Builtin(Action::PowerCycle), true));
        assert_eq!(second.timeout, Some(Duration::from_secs(300)));
    }

    #[test]
    fn what_a_step_is_given_has_bounds() {
        let of = |members: Value| step(members.as_object().expect("an object"));
        let without = |action: &str| of(json!({ "action": action })).timeout.map(|time| time.as_secs());
        assert_eq!((without("power-cycle"), without("rebuild")), (Some(30), Some(3_600)));
        assert_eq!(
            of(json!({ "action": "rebuild", "command_timeout_seconds": 60 })).timeout,
            Some(Duration::from_secs(60))
        );
        assert_eq!(of(json!({ "action": "rebuild", "command_timeout_seconds": 0 })).timeout, None);
        for (written, meant) in [(0, 0), (100, 100), (101, 100), (i32::MAX, 100)] {
            assert_eq!(of(json!({ "repair_command": ["x"], "command_retries": written })).retries, meant);
        }
    }

    #[test]
    fn who_says_whether_a_machine_is_healthy() {
        let procedures = procedures();
        let operation = procedures.operation("d", "unreachable").expect("known");
        assert_eq!(operation.health_check, HealthCheck::Registry);
        assert!(is_well(None));
        let well = HealthState::ALL.into_iter().filter(|state| is_well(Some(*state)));
        assert!(well.eq([HealthState::Healthy, HealthState::Retiring, HealthState::Retired]));
    }

    #[test]
    fn what_is_missing_is_told_apart() {
        let procedures = procedures();
        assert_eq!(procedures.step("a", "unhealthy", 2), Err(NoStep::Over(2)));
        assert_eq!(procedures.step("c", "unhealthy", 0), Err(NoStep::Procedure("c".to_owned())));
        // The first procedure for a type is the only one.
        let missing = procedures.step("b", "unreachable", 0).expect_err("not in the first procedure");
        assert!(matches!(missing, NoStep::Operation { .. }));
        let none = Procedures::of(&Map::new());
        assert_eq!(none.concurrent_max, 1);
        assert!(none.operation("a", "unhealthy").is_err());
    }
}
