//! Which machines the planner passes over while others exist: those of a group that failed together, those beside a machine that has
//! only just broken, and those that have only just come back. A dark rack looks like an empty one to a score that spreads nodes over
//! racks, so the score alone would move control planes into it.
//!
//! A caution never blocks: [`super::plan`] uses such machines when nobody else fits, and says so.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    fmt,
    time::Duration,
};

use jiff::Timestamp;

use super::input::ListedMachine;
use crate::{
    lifecycle::HealthState,
    repair::{
        guard::{Group, GroupKind, GuardRules, Traits},
        incident::{Incident, Phase},
    },
    words::Serial,
};

/// Why a machine is chosen only when nobody else fits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlannerCaution {
    /// A group that it belongs to failed together, and the incident is open.
    GroupFailed {
        /// The incident.
        incident: u64,
        /// The group.
        group: Group,
    },
    /// It was a member of an incident and has not been in its state for long.
    JustBack {
        /// The incident.
        incident: u64,
        /// Its group.
        group: Group,
        /// The name of the incident's [`Phase`].
        phase: &'static str,
        /// `observe-seconds`.
        observe: Duration,
    },
    /// A machine of its rack or power domain has only just broken: the guard waits for more reports before it judges.
    NeighbourBroken {
        /// What they have in common.
        group: Group,
        /// The machine that broke.
        serial: Serial,
        /// `observe-seconds`.
        observe: Duration,
    },
}

impl PlannerCaution {
    /// The incident that is the reason.
    pub fn incident(&self) -> Option<u64> {
        match self {
            PlannerCaution::GroupFailed { incident, .. } | PlannerCaution::JustBack { incident, .. } => Some(*incident),
            PlannerCaution::NeighbourBroken { .. } => None,
        }
    }
}

impl fmt::Display for PlannerCaution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlannerCaution::GroupFailed { incident, group } => {
                write!(f, "{group} failed together (incident {incident}, open)")
            }
            PlannerCaution::JustBack { incident, group, phase, observe } => write!(
                f,
                "it came back less than {} s ago after {group} failed together (incident {incident}, {phase})",
                observe.as_secs()
            ),
            PlannerCaution::NeighbourBroken { group, serial, observe } => {
                write!(f, "{serial} of {group} broke less than {} s ago", observe.as_secs())
            }
        }
    }
}

/// Machines that are chosen only when nobody else fits. Empty: the planner has nothing to be careful about.
pub type Cautions = BTreeMap<Serial, PlannerCaution>;

/// A machine and what it has in common with others.
#[derive(Debug, Clone)]
pub struct MachineTraits<'a> {
    /// The machine.
    pub machine: &'a ListedMachine,
    /// What the guard groups it by.
    pub traits: Traits,
}

/// Everything cautions depend on.
#[derive(Debug, Clone, Copy)]
pub struct CautionFacts<'a> {
    /// Without the guard nobody is cautioned.
    pub rules: &'a GuardRules,
    /// Every incident that is kept, in any order.
    pub incidents: &'a [Incident],
    /// Every machine that is known, in any order: those that may be chosen, and those that are broken. One may be there twice.
    pub machines: &'a [MachineTraits<'a>],
    /// Now.
    pub now: Timestamp,
}

/// Decides which machines are chosen only when nobody else fits. Machines that are not healthy are never chosen and need no caution.
pub fn decide_cautions(facts: &CautionFacts<'_>) -> Cautions {
    if !facts.rules.enabled {
        return Cautions::new();
    }
    let mut open: Vec<&Incident> = facts.incidents.iter().filter(|incident| incident.is_open()).collect();
    open.sort_by_key(|incident| incident.number);
    let (members, broken) = (members(facts), just_broken(facts));
    if open.is_empty() && members.is_empty() && broken.is_empty() {
        return Cautions::new();
    }
    let observe = facts.rules.observe;
    let caution = |MachineTraits { machine, traits }: &MachineTraits<'_>| {
        let held = open.iter().find(|incident| traits.is_in(&incident.group));
        if let Some(Incident { number, group, .. }) = held {
            return Some(PlannerCaution::GroupFailed { incident: *number, group: group.clone() });
        }
        let back = members.get(&machine.serial).filter(|_| in_state_for(machine) < observe);
        if let Some(Incident { number, group, phase, .. }) = back {
            let (group, phase) = (group.clone(), phase.as_str());
            return Some(PlannerCaution::JustBack { incident: *number, group, phase, observe });
        }
        let near = failing_together(traits).find_map(|group| broken.get(&group).map(|serial| (group, *serial)));
        near.map(|(group, serial)| PlannerCaution::NeighbourBroken { group, serial: serial.clone(), observe })
    };
    let healthy = facts.machines.iter().filter(|machine| machine.machine.is_healthy());
    healthy.filter_map(|machine| Some((machine.machine.serial.clone(), caution(machine)?))).collect()
}

/// Members of incidents that are not long over, each with the newest of its incidents.
fn members<'a>(facts: &CautionFacts<'a>) -> BTreeMap<&'a Serial, &'a Incident> {
    let mut members: BTreeMap<&Serial, &Incident> = BTreeMap::new();
    for incident in facts.incidents.iter().filter(|incident| is_recent(incident, facts)) {
        for serial in &incident.members {
            let newest = members.entry(serial).or_insert(incident);
            if newest.number < incident.number {
                *newest = incident;
            }
        }
    }
    members
}

fn is_recent(incident: &Incident, facts: &CautionFacts<'_>) -> bool {
    match incident.phase {
        Phase::Open | Phase::Acknowledged { .. } => true,
        // A time that is further ahead was written by a clock that has been set back since, and says nothing.
        Phase::Recovered { at } => facts.now.duration_since(at).unsigned_abs() < facts.rules.observe,
    }
}

/// Racks and power domains of which a machine has only just broken, each with the first such machine by serial.
fn just_broken<'a>(facts: &CautionFacts<'a>) -> BTreeMap<Group, &'a Serial> {
    let is_broken = |machine: &ListedMachine| {
        matches!(machine.state, HealthState::Unhealthy | HealthState::Unreachable)
            && in_state_for(machine) < facts.rules.observe
    };
    let mut groups: BTreeMap<Group, &Serial> = BTreeMap::new();
    for MachineTraits { machine, traits } in facts.machines.iter().filter(|known| is_broken(known.machine)) {
        for group in failing_together(traits) {
            match groups.entry(group) {
                Entry::Vacant(entry) => drop(entry.insert(&machine.serial)),
                Entry::Occupied(mut entry) if machine.serial < **entry.get() => drop(entry.insert(&machine.serial)),
                Entry::Occupied(_) => {}
            }
        }
    }
    groups
}

/// Groups that are dark at once when one breaker or switch fails. A role or a machine type takes longer to fail, and is most of the fleet.
fn failing_together(traits: &Traits) -> impl Iterator<Item = Group> {
    traits.groups().filter(|group| matches!(group.kind, GroupKind::Rack | GroupKind::PowerDomain))
}

/// For how long a machine has been in its state. A registry whose clock is behind counts negative times.
fn in_state_for(machine: &ListedMachine) -> Duration {
    Duration::try_from_secs_f64(machine.seconds_in_state.max(0.0)).unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests;
