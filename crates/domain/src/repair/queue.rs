//! What is done next with the entries of the repair queue. Takes everything that is known at one moment and says which entries are
//! acted on and how; carrying it out and writing it down is for the service.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::Ipv4Addr,
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};

use super::{
    entry::{Entry, Status, StepStatus},
    hands_off::HandsOff,
    incident::Judgement,
    procedure::{NoStep, Procedures, Step},
    reboot::{self, RebootEntry, RebootStatus},
};
use crate::words::Serial;

/// Everything the decision depends on.
#[derive(Debug, Clone, Copy)]
pub struct Around<'a> {
    /// Every entry.
    pub entries: &'a [Entry],
    /// Whether new work may be begun.
    pub enabled: bool,
    /// What can be done.
    pub procedures: &'a Procedures,
    /// Nodes of the cluster, and whether each is a control plane.
    pub nodes: &'a BTreeMap<Ipv4Addr, bool>,
    /// Machines that are healthy, by address.
    pub healthy: &'a BTreeSet<Ipv4Addr>,
    /// Entries whose machine has not been asked yet, by index. Nothing is begun for them: it may be healthy.
    pub unchecked: &'a BTreeSet<u64>,
    /// Nodes from which all pods have gone.
    pub drained: &'a BTreeSet<Ipv4Addr>,
    /// Nodes that are gone, each with what proves it: their pods cannot leave, and nobody waits for them.
    pub gone: &'a BTreeMap<Ipv4Addr, String>,
    /// Nodes of the cluster of which it is not known which Node of Kubernetes they are, and why: nobody can tell what runs on them.
    pub lost: &'a BTreeMap<Ipv4Addr, String>,
    /// Nodes that we cordoned.
    pub cordoned: &'a BTreeSet<Ipv4Addr>,
    /// Entries of the reboot queue; empty when that is disabled.
    pub reboots: &'a [RebootEntry],
    /// What failed together. No step is begun for a machine that is held, however it came into the queue before that was known.
    pub judgement: &'a Judgement,
    /// Machines that automation leaves alone, and why, however they came into the queue before.
    pub hands_off: &'a BTreeMap<Serial, HandsOff>,
    /// Machines with a power change that repair asked for and that is not done. They are given back to nobody before it is, or is taken
    /// back: see [`unwanted_power`].
    pub powered: &'a BTreeSet<Ipv4Addr>,
    /// Entries whose command has not ended, by index. They keep their place, and nothing else is done with their machine.
    pub running: &'a BTreeSet<u64>,
    /// Why nothing that takes a node away is begun, if nothing is; such as etcd that is not in order.
    pub blocked: Option<&'a str>,
    /// Now.
    pub now: Timestamp,
}

/// What is done with one entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// It goes.
    Remove,
    /// It ends.
    Finish {
        /// The machine is healthy.
        healthy: bool,
        /// Why, for people.
        because: String,
    },
    /// Pods are made to leave its node, before the step with this number.
    StartDrain {
        /// The step.
        step: usize,
    },
    /// Its drain is given up for a while.
    GiveUpDrain {
        /// Why, for people.
        because: String,
    },
    /// Its watch begins anew: by the present clock it has not begun.
    WatchAgain,
    /// The step with this number is carried out.
    Execute {
        /// The step.
        step: usize,
    },
}

impl Act {
    /// What an entry is when this is written down; `random` chooses how long a drain is given up. One that is removed stays as it is
    /// until then. Only what the act owns is touched: a mark that somebody set meanwhile stays.
    pub fn written(&self, entry: &Entry, procedures: &Procedures, now: Timestamp, random: u64) -> Entry {
        match self {
            Act::Remove => entry.clone(),
            Act::Finish { healthy: true, because } => entry.ended(Status::Succeeded, because, now),
            Act::Finish { healthy: false, because } => {
                let failed = entry.ended(Status::Failed, because, now);
                // Running out of steps is told by a number that no step has.
                match procedures.operation(&entry.machine_type, &entry.operation) {
                    Ok(operation) => Entry { step: operation.steps.len(), step_status: StepStatus::Waiting, ..failed },
                    Err(_) => failed,
                }
            }
            Act::StartDrain { step } => entry.begun(*step, StepStatus::Draining, now),
            Act::GiveUpDrain { because } => entry.backed_off(because, now, random),
            Act::WatchAgain => Entry { changed_at: Some(now), ..entry.clone() },
            Act::Execute { step } => entry.begun(*step, StepStatus::Watching, now),
        }
    }
}

/// What is done next.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Next {
    /// What is done with entries, by index, in order.
    pub acts: Vec<(u64, Act)>,
    /// Why nothing is done with the others, by index.
    pub waits: BTreeMap<u64, String>,
    /// Nodes that are given back to the scheduler first.
    pub uncordon: Vec<Ipv4Addr>,
    /// Repair has something to do or to wait for; nodes are not rebooted meanwhile.
    pub active: bool,
}

/// Says what is done next.
pub fn next(around: &Around<'_>) -> Next {
    let mut entries: Vec<&Entry> = around.entries.iter().collect();
    entries.sort_by_key(|entry| entry.index);
    let mut next = Next { uncordon: uncordon(around), ..Next::default() };
    let mut candidates = Vec::new();
    for entry in entries {
        match first_look(entry, around) {
            FirstLook::Act(act) => next.acts.push((entry.index, act)),
            FirstLook::Wait(reason) => drop(next.waits.insert(entry.index, reason)),
            FirstLook::Candidate => candidates.push(entry),
        }
    }
    let is_control_plane = |entry: &Entry| around.nodes.get(&entry.address) == Some(&true);
    // What is worked on keeps its place: a pause that ends must not put one more machine beside it.
    let begun = |entry: &Entry| match entry.status {
        _ if is_away(entry) => 0,
        Status::Processing => 1,
        _ => 2,
    };
    candidates.sort_by_key(|entry| (begun(entry), !is_control_plane(entry), entry.index));
    let mut slots = Slots::new(around);
    for entry in candidates {
        if let Some(reason) = slots.refuses(entry, is_control_plane(entry), around) {
            next.waits.insert(entry.index, reason);
            continue;
        }
        match act_on(entry, around) {
            // What cannot be repaired must not keep others from it: it takes no place.
            Acted::Misconfigured(reason) => {
                next.acts.push((entry.index, Act::Finish { healthy: false, because: reason.to_string() }));
            }
            Acted::Over(reason) => {
                next.acts.push((entry.index, Act::Finish { healthy: false, because: reason.to_string() }));
            }
            Acted::Idle(reason) => drop(next.waits.insert(entry.index, reason)),
            Acted::Wait(reason) => {
                slots.take(entry, is_control_plane(entry));
                next.active = true;
                next.waits.insert(entry.index, reason);
            }
            Acted::Act(act) => {
                slots.take(entry, is_control_plane(entry));
                next.active = true;
                let takes_nothing = matches!(act, Act::GiveUpDrain { .. } | Act::WatchAgain);
                match around.blocked.filter(|_| !takes_nothing) {
                    None => next.acts.push((entry.index, act)),
                    Some(reason) => {
                        next.waits.insert(entry.index, format!("nothing is taken from the cluster now: {reason}"));
                    }
                }
            }
        }
    }
    next
}

enum FirstLook {
    Act(Act),
    Wait(String),
    Candidate,
}

/// Whether repair has taken the machine of an entry away, or is about to, and has not given it back.
fn is_away(entry: &Entry) -> bool {
    entry.status == Status::Processing && matches!(entry.step_status, StepStatus::Draining | StepStatus::Watching)
}

/// Control planes that repair has begun with, until their repairs end. One whose next step is not begun because it is held, or because
/// the queue is disabled, is as far away as any other.
pub fn control_planes_away(entries: &[Entry], nodes: &BTreeMap<Ipv4Addr, bool>) -> BTreeSet<Ipv4Addr> {
    let away = entries.iter().filter(|entry| is_away(entry)).map(|entry| entry.address);
    away.filter(|address| nodes.get(address) == Some(&true)).collect()
}

/// What does not depend on other entries.
fn first_look(entry: &Entry, around: &Around<'_>) -> FirstLook {
    if around.running.contains(&entry.index) {
        return FirstLook::Candidate;
    }
    let is_healthy = !entry.is_finished() && around.healthy.contains(&entry.address);
    if (entry.deleted || is_healthy) && around.powered.contains(&entry.address) {
        return FirstLook::Wait("the power change that was begun for it has not ended".to_owned());
    }
    if entry.deleted {
        return FirstLook::Act(Act::Remove);
    }
    if entry.is_finished() {
        return FirstLook::Wait(format!("it has {}; `sabactl repair-queue delete {}`", entry.status, entry.index));
    }
    if is_healthy {
        let because = "the health check says that the machine is healthy".to_owned();
        return FirstLook::Act(Act::Finish { healthy: true, because });
    }
    let waits = entry.status == Status::Processing && entry.step_status == StepStatus::Waiting;
    match entry.backoff.until.filter(|_| waits && entry.backoff.holds(around.now)) {
        Some(until) => {
            FirstLook::Wait(format!("draining failed {} times; tried again at {until}", entry.backoff.count))
        }
        None => FirstLook::Candidate,
    }
}

/// Places for entries that are worked on.
struct Slots {
    left: usize,
    addresses: BTreeSet<Ipv4Addr>,
    control_plane: bool,
    /// Control planes that were begun with.
    away: BTreeSet<Ipv4Addr>,
    /// Control planes that are being rebooted.
    rebooting: Vec<Ipv4Addr>,
}

impl Slots {
    fn new(around: &Around<'_>) -> Slots {
        let is_control_plane = |address: &Ipv4Addr| around.nodes.get(address) == Some(&true);
        let under_way = |entry: &&RebootEntry| matches!(entry.status, RebootStatus::Draining | RebootStatus::Rebooting);
        let rebooting = reboot::by_node(around.reboots).into_values().filter(under_way).map(|entry| entry.node);
        Slots {
            left: around.procedures.concurrent_max,
            addresses: BTreeSet::new(),
            control_plane: false,
            away: control_planes_away(around.entries, around.nodes),
            rebooting: rebooting.filter(is_control_plane).collect(),
        }
    }

    fn refuses(&self, entry: &Entry, control_plane: bool, around: &Around<'_>) -> Option<String> {
        if self.left == 0 {
            let max = around.procedures.concurrent_max;
            let machines = if max == 1 { "machine is" } else { "machines are" };
            return Some(format!("{max} {machines} worked on, which is max_concurrent_repairs"));
        }
        if self.addresses.contains(&entry.address) {
            return Some("another repair of the same machine is worked on".to_owned());
        }
        // Of those that were begun with, however that came about, one goes on after the other.
        let beside = || !is_away(entry) && self.away.iter().any(|other| *other != entry.address);
        if control_plane && (self.control_plane || beside()) {
            return Some("another control plane is worked on".to_owned());
        }
        let alone = self.rebooting.is_empty() || self.rebooting == [entry.address];
        (control_plane && !alone).then(|| "another control plane is being rebooted".to_owned())
    }

    fn take(&mut self, entry: &Entry, control_plane: bool) {
        self.left -= 1;
        self.addresses.insert(entry.address);
        self.control_plane |= control_plane;
    }
}

enum Acted {
    Act(Act),
    /// It takes a place, and reboots wait as well.
    Wait(String),
    /// Nothing is begun for it: it takes no place from others.
    Idle(String),
    Over(NoStep),
    Misconfigured(NoStep),
}

fn act_on(entry: &Entry, around: &Around<'_>) -> Acted {
    if around.running.contains(&entry.index) {
        return Acted::Wait(match entry.step_status {
            StepStatus::Draining => "pods are asked to leave its node".to_owned(),
            StepStatus::Waiting | StepStatus::Watching => format!("the command of step {} is running", entry.step),
        });
    }
    let step = match around.procedures.step(&entry.machine_type, &entry.operation, entry.step) {
        Ok(step) => step,
        Err(over @ NoStep::Over(_)) => return Acted::Over(over),
        Err(missing) => return Acted::Misconfigured(missing),
    };
    let elapsed = around.now.duration_since(entry.since());
    let signed = |time: Duration| SignedDuration::try_from(time).unwrap_or(SignedDuration::MAX);
    let passed = |time| elapsed > signed(time);
    // Written by a clock that was set back since. Clocks of servers differ by less than any time that is waited for.
    let ahead = |time| elapsed < -signed(time);
    match entry.step_status {
        StepStatus::Waiting => begin(entry, entry.step, step, around),
        StepStatus::Draining if !around.enabled => {
            Acted::Act(Act::GiveUpDrain { because: "the queue is disabled".to_owned() })
        }
        StepStatus::Draining
            if let Some(because) = left_alone(entry, around).or_else(|| provisioned(entry, around)) =>
        {
            Acted::Act(Act::GiveUpDrain { because })
        }
        StepStatus::Draining
            if around.drained.contains(&entry.address)
                || around.gone.contains_key(&entry.address)
                || !around.nodes.contains_key(&entry.address) =>
        {
            unchecked(entry, around).unwrap_or(Acted::Act(Act::Execute { step: entry.step }))
        }
        StepStatus::Draining if passed(around.procedures.drain.timeout) => {
            let seconds = around.procedures.drain.timeout.as_secs();
            Acted::Act(Act::GiveUpDrain { because: format!("pods are left after {seconds} s") })
        }
        StepStatus::Draining if ahead(around.procedures.drain.timeout) => {
            Acted::Act(Act::GiveUpDrain { because: format!("it began at {}, which is not yet", entry.since()) })
        }
        StepStatus::Draining => Acted::Wait("pods leave its node".to_owned()),
        StepStatus::Watching if step.watch.is_zero() || passed(step.watch) => {
            let number = entry.step + 1;
            match around.procedures.step(&entry.machine_type, &entry.operation, number) {
                Ok(step) => begin(entry, number, step, around),
                Err(over) => unchecked(entry, around).unwrap_or(Acted::Over(over)),
            }
        }
        StepStatus::Watching if ahead(step.watch) => Acted::Act(Act::WatchAgain),
        StepStatus::Watching => {
            let seconds = step.watch.as_secs();
            Acted::Wait(format!("step {} was carried out; the machine is given {seconds} s", entry.step))
        }
    }
}

/// Begins a step.
fn begin(entry: &Entry, number: usize, step: &Step, around: &Around<'_>) -> Acted {
    if !around.enabled {
        return Acted::Idle("the queue is disabled; `sabactl repair-queue enable`".to_owned());
    }
    if let Some(reason) = left_alone(entry, around) {
        return Acted::Idle(reason);
    }
    if let Some(reason) = provisioned(entry, around) {
        // Between two steps that is likely to be the work of the first.
        let between = entry.step_status == StepStatus::Watching;
        return if between { Acted::Wait(reason) } else { Acted::Idle(reason) };
    }
    if let Some(wait) = unchecked(entry, around) {
        return wait;
    }
    let drains =
        step.need_drain && around.nodes.contains_key(&entry.address) && !around.gone.contains_key(&entry.address);
    match around.lost.get(&entry.address).filter(|_| drains) {
        Some(lost) => Acted::Idle(format!("its node cannot be drained: {lost}")),
        None if drains => Acted::Act(Act::StartDrain { step: number }),
        None => Acted::Act(Act::Execute { step: number }),
    }
}

/// Its machine may be healthy meanwhile; nothing is done before it was asked.
fn unchecked(entry: &Entry, around: &Around<'_>) -> Option<Acted> {
    around.unchecked.contains(&entry.index).then(|| Acted::Wait("its health is being checked".to_owned()))
}

/// Why nothing is begun for its machine, if it failed together with others, or somebody works on it.
pub fn held(entry: &Entry, judgement: &Judgement, hands_off: &BTreeMap<Serial, HandsOff>) -> Option<String> {
    let serial = entry.serial.as_ref()?;
    let in_maintenance = || {
        let reason = hands_off.get(serial)?;
        matches!(reason, HandsOff::Maintenance(_)).then(|| reason.to_string())
    };
    judgement.why_held(serial).or_else(in_maintenance)
}

fn left_alone(entry: &Entry, around: &Around<'_>) -> Option<String> {
    held(entry, around.judgement, around.hands_off)
}

/// Why a step has to wait for provisioning. That may be at work for the step before, such as a rebuild, which therefore is not stopped.
fn provisioned(entry: &Entry, around: &Around<'_>) -> Option<String> {
    let reason = around.hands_off.get(entry.serial.as_ref()?)?;
    matches!(reason, HandsOff::Provisioning(_)).then(|| reason.to_string())
}

/// Nodes that we cordoned and nobody works on any more.
fn uncordon(around: &Around<'_>) -> Vec<Ipv4Addr> {
    let repairing = |address: &Ipv4Addr| {
        let works = |entry: &Entry| entry.address == *address && !entry.deleted && is_away(entry);
        around.entries.iter().any(works)
    };
    let reboots = reboot::by_node(around.reboots);
    let rebooting = |address: &Ipv4Addr| {
        let status = reboots.get(address).map(|entry| entry.status);
        matches!(status, Some(RebootStatus::Draining | RebootStatus::Rebooting))
    };
    let in_use = |address: &Ipv4Addr| repairing(address) || rebooting(address) || around.powered.contains(address);
    around.cordoned.iter().filter(|address| !in_use(address)).copied().collect()
}

/// Machines whose power change nobody wants any more: the entry it was asked for is gone, has ended or is about to.
pub fn unwanted_power(around: &Around<'_>) -> Vec<Ipv4Addr> {
    let wanted = |address: &Ipv4Addr| {
        let goes_on = |entry: &Entry| is_away(entry) && !entry.deleted && !around.healthy.contains(address);
        let wants = |entry: &Entry| around.running.contains(&entry.index) || goes_on(entry);
        around.entries.iter().any(|entry| entry.address == *address && wants(entry))
    };
    around.powered.iter().filter(|address| !wanted(address)).copied().collect()
}

#[cfg(test)]
mod tests;
