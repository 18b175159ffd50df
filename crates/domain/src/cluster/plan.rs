//! One round of the planner: at most one kind of change, the smallest that is needed, and the reasons.
//!
//! The rules are looked at in the order of [`Operation`]; the first one that applies decides. Whatever it changes is then filled up
//! to what the constraints demand, all of it or nothing.

use std::net::IpAddr;

use super::{
    config::{Configuration, Taint},
    input::Input,
    reasons, render,
    report::{Blocked, Change, ChangeKind, Operation, Place, Report, Source, Verdict, Warning},
    working::{Among, Prudence, Working},
};
use crate::lifecycle::HealthState;

/// How long a worker is retired before it leaves, in seconds.
pub const RETIRED_WAIT_SECONDS: f64 = 300.0;

/// What one round comes to.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// What to do.
    pub outcome: Outcome,
    /// Why.
    pub report: Report,
}

/// What to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// This.
    Change(Made),
    /// Nothing; the cluster is as it should be, or as good as it can be.
    Nothing,
    /// Something, but it cannot be done.
    Blocked(Blocked),
}

/// A change.
#[derive(Debug, Clone, PartialEq)]
pub struct Made {
    /// Which rule made it.
    pub operation: Operation,
    /// The whole configuration.
    pub configuration: Configuration,
    /// What is different, node by node.
    pub changes: Vec<Change>,
}

impl Outcome {
    /// The change, if there is one.
    pub fn made(&self) -> Option<&Made> {
        match self {
            Outcome::Change(made) => Some(made),
            Outcome::Nothing | Outcome::Blocked(_) => None,
        }
    }
}

/// Plans one round. The order of the machines does not matter.
pub fn plan(input: Input<'_>) -> Plan {
    attempt(input, |working| match input.current {
        None => new(working).map(Some),
        Some(current) => update(working, current),
    })
}

/// Plans with cautions, and without them if that cannot be finished: a caution is a preference and must not block.
fn attempt<'a>(input: Input<'a>, round: impl Fn(&mut Working<'a>) -> Decided) -> Plan {
    let mut careful = Working::new(input, Prudence::Heeds);
    let decided = round(&mut careful);
    if decided.is_ok() || !careful.heeds_cautions() {
        return conclude(careful, decided);
    }
    let mut working = Working::new(input, Prudence::Ignores);
    let decided = round(&mut working);
    conclude(working, decided)
}

/// What a rule comes to: a configuration, nothing to do, or it cannot be done.
type Decided = Result<Option<(Operation, Configuration)>, Blocked>;

fn new(working: &mut Working<'_>) -> Result<(Operation, Configuration), Blocked> {
    finish(working, Operation::New, "there is no cluster yet".to_owned())
}

fn update(working: &mut Working<'_>, current: &Configuration) -> Decided {
    let gone = load(working, current);
    let rules: [&dyn Fn(&mut Working<'_>) -> Decided; 8] = [
        &|working| remove_non_existent(working, current, &gone),
        &increase_control_plane,
        &decrease_control_plane,
        &replace_control_plane,
        &increase_worker,
        &decrease_worker,
        &|working| taint_nodes(working, current),
        &regenerate,
    ];
    for rule in rules {
        if let Some(made) = rule(working)? {
            return Ok(Some(made));
        }
    }
    Ok(None)
}

/// Fills up and writes down what came out.
fn finish(
    working: &mut Working<'_>,
    operation: Operation,
    because: String,
) -> Result<(Operation, Configuration), Blocked> {
    match working.fill(operation) {
        Ok(configuration) => {
            working.check(operation, Verdict::Made, because);
            Ok((operation, configuration))
        }
        Err(blocked) => {
            working.check(operation, Verdict::Blocked, format!("{because}; {blocked}"));
            Err(blocked)
        }
    }
}

/// Seats the nodes of the present configuration. Those whose machine is not listed are returned.
fn load(working: &mut Working<'_>, current: &Configuration) -> Vec<(IpAddr, bool)> {
    let mut gone = Vec::new();
    for node in &current.nodes {
        match working.find(node.address) {
            Some(machine) if working.place(machine) == Place::Outside => {
                working.sit(machine, if node.control_plane { Place::ControlPlane } else { Place::Worker });
            }
            // The same address twice, which no stored configuration has.
            Some(_) => {}
            None => gone.push((node.address, node.control_plane)),
        }
    }
    working.remember();
    gone
}

fn remove_non_existent(working: &mut Working<'_>, current: &Configuration, gone: &[(IpAddr, bool)]) -> Decided {
    let operation = Operation::RemoveNonExistent;
    let before = current.nodes.iter().filter(|node| node.control_plane).count();
    if 2 * working.control_planes <= before {
        let gone = gone.iter().filter(|(_, control_plane)| *control_plane).map(|(address, _)| *address).collect();
        let blocked = Blocked::TooManyGone { gone, of: before };
        working.check(operation, Verdict::Blocked, blocked.to_string());
        return Err(blocked);
    }
    if gone.is_empty() {
        working.check(operation, Verdict::NotNeeded, "the machine of every node is listed");
        return Ok(None);
    }
    for (address, control_plane) in gone {
        let kind = if *control_plane {
            ChangeKind::NonExistentControlPlaneRemoved
        } else {
            ChangeKind::NonExistentWorkerRemoved
        };
        let why = "its machine is not in the list".to_owned();
        working.changes.push(Change { kind, address: *address, serial: None, why });
    }
    finish(working, operation, format!("the machines of {} nodes are not listed", gone.len())).map(Some)
}

fn increase_control_plane(working: &mut Working<'_>) -> Decided {
    let operation = Operation::IncreaseControlPlane;
    let (have, want) = (working.control_planes, working.input.constraints.control_plane_count);
    let because = format!("{have} control planes, control-plane-count is {want}");
    if have >= want as usize {
        working.check(operation, Verdict::NotNeeded, because);
        return Ok(None);
    }
    finish(working, operation, because).map(Some)
}

/// How many control planes may go in one round: a minority, and always one, because one at a time is how members of etcd are
/// changed safely.
fn may_leave(control_planes: usize) -> usize {
    (control_planes.saturating_sub(1) / 2).max(1)
}

fn decrease_control_plane(working: &mut Working<'_>) -> Decided {
    let operation = Operation::DecreaseControlPlane;
    let (have, want) = (working.control_planes, working.input.constraints.control_plane_count);
    let because = format!("{have} control planes, control-plane-count is {want}");
    if have <= want as usize {
        working.check(operation, Verdict::NotNeeded, because);
        return Ok(None);
    }
    let leave = (have - want as usize).min(may_leave(have));
    for _ in 0..leave {
        let (chosen, selection) = working.choose_to_leave();
        working.selections.push(selection);
        let Some(machine) = chosen else { break };
        if working.input.constraints.has_room(working.workers) {
            working.note(ChangeKind::ControlPlaneDemoted, machine, because.clone());
            working.sit(machine, Place::Worker);
        } else {
            let why = format!("{because}, and there are maximum-workers workers");
            working.note(ChangeKind::SurplusControlPlaneRemoved, machine, why);
            working.sit(machine, Place::Outside);
        }
    }
    let because = match have - want as usize - leave {
        0 => because,
        more => format!("{because}; {more} more leave in later rounds, so that a majority always stays"),
    };
    finish(working, operation, because).map(Some)
}

fn replace_control_plane(working: &mut Working<'_>) -> Decided {
    let operation = Operation::ReplaceControlPlane;
    if working.control_planes < 2 {
        working.check(operation, Verdict::NotNeeded, "the only control plane is never replaced");
        return Ok(None);
    }
    let seated = working.seated_control_planes();
    let bad = seated.into_iter().find_map(|machine| Some((machine, working.is_bad(machine)?)));
    let Some((machine, why)) = bad else {
        let because = "every control plane is healthy, updating or uninitialized, and untainted";
        working.check(operation, Verdict::NotNeeded, because);
        return Ok(None);
    };
    let because = format!("control plane {}: {why}", working.machines[machine].address);
    if working.input.constraints.has_room(working.workers) {
        working.note(ChangeKind::ControlPlaneDemoted, machine, why);
        working.sit(machine, Place::Worker);
        return finish(working, operation, because).map(Some);
    }
    working.send_away(machine);
    match choose_to_swap(working) {
        Some(worker) => {
            let swap = format!("takes the place of {}", working.machines[machine].address);
            working.note(ChangeKind::WorkerPromoted, worker, swap);
            working.sit(worker, Place::ControlPlane);
            working.note(ChangeKind::ControlPlaneDemoted, machine, why);
            working.sit(machine, Place::Worker);
        }
        None => working.note(ChangeKind::BadControlPlaneRemoved, machine, why),
    }
    finish(working, operation, because).map(Some)
}

/// The worker that changes places with a control plane. A cautioned one only if no unused machine is better off: then it is better to
/// lose a broken worker than to have a control plane where machines are failing.
fn choose_to_swap(working: &mut Working<'_>) -> Option<usize> {
    let clean = working.look_for_control_plane(Source::Workers, Among::Clean);
    if clean.is_some() || working.choose_control_plane(Source::Unused, Among::Clean).0.is_some() {
        return clean;
    }
    working.look_for_control_plane(Source::Workers, Among::Cautioned)
}

fn increase_worker(working: &mut Working<'_>) -> Decided {
    let operation = Operation::IncreaseWorker;
    let constraints = *working.input.constraints;
    let (healthy, minimum) = (working.healthy_workers, constraints.minimum_workers);
    let because = format!("{healthy} healthy workers, minimum-workers is {minimum}");
    let missing = (minimum as usize).saturating_sub(healthy);
    if missing == 0 {
        working.check(operation, Verdict::NotNeeded, because);
        return Ok(None);
    }
    let before = working.workers;
    let mut stopped = None;
    for _ in 0..missing {
        if !constraints.has_room(working.workers) {
            let maximum = constraints.maximum_workers;
            stopped = Some(format!("there are {} workers, maximum-workers is {maximum}", working.workers));
            break;
        }
        if !working.add_worker(because.clone()) {
            let due = &working.input.template.workers[working.due().0];
            let role = due.role.as_ref().map_or_else(String::new, |role| format!(" of role {role}, which is due,"));
            stopped = Some(format!("no unused healthy machine{role} is left"));
            break;
        }
    }
    if let Some(stopped) = &stopped {
        let (healthy, because) = (working.healthy_workers, stopped.clone());
        working.warnings.push(Warning::MinimumNotMet { healthy, minimum, because });
    }
    if working.workers == before {
        working.check(operation, Verdict::Passed, format!("{because}; {}", stopped.unwrap_or_default()));
        return Ok(None);
    }
    finish(working, operation, because).map(Some)
}

fn decrease_worker(working: &mut Working<'_>) -> Decided {
    let operation = Operation::DecreaseWorker;
    let long_retired = |machine: &usize| {
        let listed = working.machines[*machine].machine;
        listed.state == HealthState::Retired && listed.seconds_in_state > RETIRED_WAIT_SECONDS
    };
    let Some(machine) = working.seated_workers().into_iter().find(long_retired) else {
        let because = format!("no worker has been retired for more than {RETIRED_WAIT_SECONDS} seconds");
        working.check(operation, Verdict::NotNeeded, because);
        return Ok(None);
    };
    let address = working.machines[machine].address;
    let minimum = working.input.constraints.minimum_workers;
    let replaceable = working.choose_worker().0.is_some();
    if !replaceable && working.workers <= minimum as usize {
        let because = format!(
            "worker {address} is retired, but {} workers are not more than minimum-workers {minimum} and no unused machine can replace it",
            working.workers
        );
        working.check(operation, Verdict::Passed, because);
        return Ok(None);
    }
    let seconds = working.machines[machine].machine.seconds_in_state;
    working.note(ChangeKind::RetiredWorkerRemoved, machine, format!("its machine has been retired for {seconds:.0} s"));
    working.send_away(machine);
    finish(working, operation, format!("worker {address} has been retired for {seconds:.0} seconds")).map(Some)
}

fn taint_nodes(working: &mut Working<'_>, current: &Configuration) -> Decided {
    let operation = Operation::TaintNodes;
    let mut wrong = Vec::new();
    for node in &current.nodes {
        let Some(machine) = working.find(node.address) else { continue };
        let wanted = render::state_taint(working.machines[machine].machine.state);
        let present = node.state_taint();
        if present != wanted.as_ref() {
            wrong.push((machine, format!("{} -> {}", shown(present), shown(wanted.as_ref()))));
        }
    }
    if wrong.is_empty() {
        working.check(operation, Verdict::NotNeeded, "every node carries the taint that its machine's state demands");
        return Ok(None);
    }
    let because = format!("{} nodes carry another taint than the states of their machines demand", wrong.len());
    for (machine, why) in wrong {
        working.note(ChangeKind::TaintChanged, machine, why);
    }
    finish(working, operation, because).map(Some)
}

fn shown(taint: Option<&Taint>) -> String {
    taint.map_or_else(|| "none".to_owned(), |taint| format!("{}:{}", taint.value, taint.effect.as_str()))
}

/// Only reached when the machine of every node is listed: otherwise [`remove_non_existent`] would have decided.
fn regenerate(working: &mut Working<'_>) -> Decided {
    let operation = Operation::Regenerate;
    if !working.input.template_changed {
        working.check(operation, Verdict::NotNeeded, "the template is the one the configuration was made from");
        return Ok(None);
    }
    finish(working, operation, "the template changed".to_owned()).map(Some)
}

/// Renders the present nodes from a template that changed, and does nothing else. For the first round of a new leader.
pub fn regenerate_only(input: Input<'_>) -> Plan {
    attempt(input, |working| match input.current {
        Some(current) if input.template_changed => {
            let gone = load(working, current);
            if gone.is_empty() {
                finish(working, Operation::Regenerate, "the template changed".to_owned()).map(Some)
            } else {
                let blocked = Blocked::MissingMachines { gone: gone.into_iter().map(|(address, _)| address).collect() };
                working.check(Operation::Regenerate, Verdict::Blocked, blocked.to_string());
                Err(blocked)
            }
        }
        Some(_) | None => Ok(None),
    })
}

fn conclude(mut working: Working<'_>, decided: Decided) -> Plan {
    let report = reasons::report(&mut working, decided.is_err());
    let outcome = match decided {
        Ok(None) => Outcome::Nothing,
        Ok(Some((operation, configuration))) => {
            Outcome::Change(Made { operation, configuration, changes: working.changes })
        }
        Err(blocked) => Outcome::Blocked(blocked),
    };
    Plan { outcome, report }
}
