//! What would let a blocked round go on. Nothing is guessed: a remedy is named only if planning again with it is not blocked.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    net::Ipv4Addr,
};

use jiff::SignedDuration;

use super::{
    caution::Cautions,
    constraints::Constraints,
    input::{Input, ListedMachine},
    plan::{Outcome, plan},
    report::{Blocked, Purpose, Shortage},
    template::Template,
};
use crate::{
    lifecycle::HealthState,
    limits,
    machine::{Labels, Rack},
    time::Moment,
    words::{Role, Serial},
};

/// One thing that would help. Each is enough alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Remedy {
    /// This machine becomes healthy.
    Heal(Serial),
    /// So many healthy machines more of each role, whatever else they are like; `None`: of any role.
    AddMachines(BTreeMap<Option<String>, usize>),
    /// A constraint gets another value.
    Constrain {
        /// Which.
        name: &'static str,
        /// Its value.
        value: u32,
    },
    /// Control planes may carry this taint.
    Tolerate(String),
    /// People have to decide: list the machines again, or write the configuration by hand.
    ByHand,
}

impl fmt::Display for Remedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Remedy::Heal(serial) => write!(f, "machine {serial} becomes healthy"),
            Remedy::AddMachines(needed) => {
                let more = |(role, count): (&Option<String>, &usize)| {
                    let role = role.as_ref().map_or_else(|| "any role".to_owned(), |role| format!("role {role}"));
                    format!("{count} of {role}")
                };
                let total: usize = needed.values().sum();
                let machines = if total == 1 { "machine" } else { "machines" };
                let more: Vec<String> = needed.iter().map(more).collect();
                write!(f, "more healthy {machines}: {}", more.join(", "))
            }
            Remedy::Constrain { name, value } => write!(f, "sabactl constraints set {name} {value}"),
            Remedy::Tolerate(key) => {
                write!(f, "add {key} to control_plane_tolerations of the template, or remove the taint from the node")
            }
            Remedy::ByHand => f.write_str(
                "make the missing machines appear in the list again (look at the query variables), or write the cluster by hand: \
                 sabactl cluster get, edit, sabactl cluster set",
            ),
        }
    }
}

/// What would help.
///
/// Tried without cautions: who is cautioned changes by the minute, and a round that can be finished without cautions never blocks.
pub fn remedies(input: Input<'_>, blocked: &Blocked) -> Vec<Remedy> {
    let nobody = Cautions::new();
    let input = Input { cautions: &nobody, ..input };
    match blocked {
        Blocked::TooManyGone { .. } | Blocked::MissingMachines { .. } | Blocked::NoTemplate { .. } => {
            vec![Remedy::ByHand]
        }
        Blocked::Invalid { .. } => Vec::new(),
        Blocked::NoMachine { shortage, .. } => {
            let helps = |remedy: &Remedy| helps(input, remedy);
            proposals(input, shortage).into_iter().filter(helps).take(limits::REMEDIES_SHOWN).collect()
        }
    }
}

/// What may help, the least intrusive first.
fn proposals(input: Input<'_>, shortage: &Shortage) -> Vec<Remedy> {
    let role = shortage.role.as_deref();
    let nodes: BTreeSet<_> = input.current.iter().flat_map(|current| &current.nodes).map(|node| node.address).collect();
    let mut broken: Vec<&ListedMachine> = input
        .machines
        .iter()
        .filter(|machine| !machine.is_healthy() && role.is_none_or(|role| machine.role.as_str() == role))
        .filter(|machine| machine.address.is_some_and(|address| !nodes.contains(&address.into())))
        .collect();
    broken.sort_by(|a, b| a.serial.cmp(&b.serial));
    let mut proposals: Vec<Remedy> =
        broken.iter().take(limits::REMEDIES_SHOWN).map(|machine| Remedy::Heal(machine.serial.clone())).collect();
    let missing = (shortage.want as usize).saturating_sub(shortage.have).max(1);
    proposals.extend(machines_to_add(input));
    let have = u32::try_from(shortage.have).unwrap_or(u32::MAX);
    let workers = match shortage.purpose {
        Purpose::Worker => Some(have),
        Purpose::ControlPlane | Purpose::LeaveControlPlane => match shortage.promotion {
            Some(super::report::Promotion::AtMinimum { workers, .. }) => {
                u32::try_from(workers.saturating_sub(missing)).ok()
            }
            Some(super::report::Promotion::NoneFits) | None => None,
        },
    };
    proposals.extend(workers.map(|value| Remedy::Constrain { name: "minimum-workers", value }));
    if shortage.purpose == Purpose::ControlPlane {
        let keys: BTreeSet<&String> = input.taints.values().flatten().collect();
        let unknown = keys.into_iter().filter(|key| !input.template.tolerations.contains(*key));
        proposals.extend(unknown.take(limits::REMEDIES_SHOWN).map(|key| Remedy::Tolerate(key.clone())));
        proposals.push(Remedy::Constrain { name: "control-plane-count", value: have });
    }
    proposals
}

/// Whether planning again with it is not blocked.
fn helps(input: Input<'_>, remedy: &Remedy) -> bool {
    let goes_on = |input: Input<'_>| !matches!(plan(input).outcome, Outcome::Blocked(_));
    match remedy {
        Remedy::Heal(serial) => {
            let mut machines = input.machines.to_vec();
            for machine in machines.iter_mut().filter(|machine| machine.serial == *serial) {
                machine.state = HealthState::Healthy;
            }
            goes_on(Input { machines: &machines, ..input })
        }
        Remedy::AddMachines(needed) => with_machines(input, needed).is_ok(),
        Remedy::Constrain { name, value } => {
            let changed: Option<Constraints> = input.constraints.with(name, *value).ok();
            changed.is_some_and(|constraints| {
                constraints != *input.constraints
                    && constraints.check().is_empty()
                    && goes_on(Input { constraints: &constraints, ..input })
            })
        }
        Remedy::Tolerate(key) => {
            let mut template: Template = input.template.clone();
            template.tolerations.insert(key.clone());
            goes_on(Input { template: &template, ..input })
        }
        Remedy::ByHand => true,
    }
}

/// Machines by role; `None`: of any role.
type Needed = BTreeMap<Option<String>, usize>;

/// The fewest machines that are enough.
fn machines_to_add(input: Input<'_>) -> Option<Remedy> {
    let mut needed = Needed::new();
    // Every role may be short once, and once more after another has taken its machines.
    for _ in 0..2 * (1 + input.template.workers.len()) {
        match with_machines(input, &needed) {
            Ok(()) => return Some(Remedy::AddMachines(fewest(input, needed))),
            Err(Blocked::NoMachine { shortage, .. }) => {
                let missing = (shortage.want as usize).saturating_sub(shortage.have).max(1);
                *needed.entry(shortage.role).or_insert(0) += missing;
                if needed.values().sum::<usize>() > limits::REMEDY_MACHINES_MAX {
                    return None;
                }
            }
            Err(_) => return None,
        }
    }
    None
}

/// What was needed at first counts all that were missing as one role; what is left out here is not needed.
fn fewest(input: Input<'_>, mut needed: Needed) -> Needed {
    let roles: Vec<Option<String>> = needed.keys().cloned().collect();
    for role in roles {
        let (mut too_few, mut enough) = (0, needed.remove(&role).unwrap_or(0));
        if with_machines(input, &needed).is_ok() {
            continue;
        }
        while enough - too_few > 1 {
            let middle = usize::midpoint(too_few, enough);
            needed.insert(role.clone(), middle);
            if with_machines(input, &needed).is_ok() {
                enough = middle;
            } else {
                too_few = middle;
            }
        }
        needed.insert(role, enough);
    }
    needed
}

/// Plans again with machines that do not exist. Nobody has seen them, so where control planes may have any role, some of one role may be
/// better than all the others and become control planes, whichever role it is and however many; it has to work all the same.
fn with_machines(input: Input<'_>, needed: &Needed) -> Result<(), Blocked> {
    let any = if needed.contains_key(&None) { any_role(input.template) } else { vec!["any"] };
    let of_any_role = input.template.control_plane.role.is_none();
    let places = (input.constraints.control_plane_count as usize).min(limits::REMEDY_CONTROL_PLANES_MAX);
    let better = needed.iter().filter(|_| of_any_role);
    let better = better.flat_map(|(role, count)| (1..=(*count).min(places)).map(move |some| Some((role, some))));
    let best: Vec<Option<(&Option<String>, usize)>> = std::iter::once(None).chain(better).collect();
    for any in any {
        for best in &best {
            let machines = [input.machines, &imagined(input, needed, any, *best)].concat();
            if let Outcome::Blocked(blocked) = plan(Input { machines: &machines, ..input }).outcome {
                return Err(blocked);
            }
        }
    }
    Ok(())
}

/// A role that the template names, and one that it does not.
fn any_role(template: &Template) -> Vec<&str> {
    let named = std::iter::once(&template.control_plane).chain(&template.workers).find_map(|node| node.role.as_deref());
    named.into_iter().chain(["another-role"]).collect()
}

/// Machines that do not exist: so many of the `best` role each alone in a rack and with a long life, the others all in the rack that is
/// fullest already and long overdue.
fn imagined(
    input: Input<'_>,
    needed: &Needed,
    any: &str,
    best: Option<(&Option<String>, usize)>,
) -> Vec<ListedMachine> {
    let taken: BTreeSet<_> = input.machines.iter().filter_map(|machine| machine.address).collect();
    let mut in_rack: BTreeMap<Rack, usize> = BTreeMap::new();
    for machine in input.machines {
        *in_rack.entry(machine.rack).or_insert(0) += 1;
    }
    let last = in_rack.keys().next_back().map_or(0, |rack| rack.0);
    let fullest = in_rack.iter().max_by_key(|(_, count)| **count).map_or(Rack(0), |(rack, _)| *rack);
    let life = SignedDuration::from_hours(24 * 2_000);
    let late = Moment::from(input.now.checked_add(life).unwrap_or(input.now));
    let overdue = Moment::from(input.now.checked_sub(life).unwrap_or(input.now));
    // The end of the address space is no machine's.
    let free = (1..=u32::MAX).map(|n| Ipv4Addr::from(u32::MAX - n)).filter(|address| !taken.contains(address));
    let roles = needed.iter().flat_map(|(role, count)| std::iter::repeat_n(role, *count).zip(0..));
    let machine = |((address, n), (role, place)): ((Ipv4Addr, u32), (&Option<String>, usize))| {
        let is_best = best.is_some_and(|(best, some)| best == role && place < some);
        Some(ListedMachine {
            serial: Serial::new(format!("new-{address}")).ok()?,
            labels: Labels::default(),
            rack: if is_best { Rack(last.saturating_add(n)) } else { fullest },
            index_in_rack: u32::MAX,
            role: Role::new(role.as_deref().unwrap_or(any)).ok()?,
            address: Some(address),
            register_date: Moment::from(input.now),
            retire_date: if is_best { late } else { overdue },
            state: HealthState::Healthy,
            machine_type: String::new(),
            seconds_in_state: 0.0,
        })
    };
    free.zip(1..).zip(roles).filter_map(machine).collect()
}
