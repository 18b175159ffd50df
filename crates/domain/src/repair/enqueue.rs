//! Which broken machines come into the repair queue. Three limits of the founding text, the guard before them, and for every machine
//! that is not let in the reason and what would change it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    net::Ipv4Addr,
    time::Duration,
};

use jiff::Timestamp;

use super::{
    entry::{Backoff, Entry, Status, StepStatus},
    guard::{Failure, Group, GuardRules},
    hands_off::HandsOff,
    incident::{Held, Judgement, Settling},
    procedure::{NoStep, Procedures},
    reboot::{self, RebootEntry},
};
use crate::{lifecycle::HealthState, words::Serial};

/// What the limits look at.
#[derive(Debug, Clone, Copy)]
pub struct Limits<'a> {
    /// `maximum-repair-queue-entries`.
    pub entries_max: u32,
    /// `wait-seconds-to-repair-rebooting`.
    pub wait_rebooting: Duration,
    /// How long an entry counts after it ended; `None`: until somebody deletes it.
    pub finished_counts: Option<Duration>,
    /// The guard.
    pub guard: &'a GuardRules,
}

/// Everything the decision depends on.
#[derive(Debug, Clone, Copy)]
pub struct Around<'a> {
    /// Every entry of the queue, whatever its status.
    pub queue: &'a [Entry],
    /// Every entry of the reboot queue.
    pub reboots: &'a [RebootEntry],
    /// Addresses of the nodes of the cluster; `None`: there is no cluster, and nothing is repaired.
    pub cluster: Option<&'a BTreeSet<Ipv4Addr>>,
    /// What can be done.
    pub procedures: &'a Procedures,
    /// What failed together.
    pub judgement: &'a Judgement,
    /// The limits.
    pub limits: Limits<'a>,
    /// Now.
    pub now: Timestamp,
}

/// What becomes of one broken machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It comes into the queue.
    Enqueue,
    /// It has no address.
    NoAddress,
    /// Another machine of the list has the same address and comes first.
    SameAddress(Serial),
    /// It has an entry, or had one a short while ago.
    HasEntry {
        /// Which.
        index: u64,
        /// Where that is.
        status: Status,
    },
    /// Automation leaves it alone.
    HandsOff(HandsOff),
    /// It is being rebooted on purpose.
    Rebooting {
        /// For how much longer that is believed.
        left: Duration,
    },
    /// It is no node of the cluster, and may be rebooting.
    OutOfCluster {
        /// For how much longer that is believed.
        left: Duration,
    },
    /// It failed together with others.
    Held {
        /// The incident; `None`: opened now.
        incident: Option<u64>,
        /// Its group.
        group: Group,
    },
    /// Its group failed together and has just recovered; the last ones may still come back.
    Settling {
        /// The incident.
        incident: u64,
        /// For how much longer they are waited for.
        left: Duration,
    },
    /// It has only just failed; whether it failed alone is not known yet.
    Observed {
        /// For how much longer.
        left: Duration,
    },
    /// The report is so old that a person has to look.
    Stale,
    /// Nothing can be done for it.
    NoProcedure(NoStep),
    /// The queue is full.
    NoRoom {
        /// Entries that count.
        entries: usize,
        /// Machines that want in.
        new: usize,
        /// How many there may be together.
        max: u32,
    },
    /// There is no cluster.
    NoCluster,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Enqueue => f.write_str("it is repaired"),
            Verdict::NoAddress => f.write_str("it has no IPv4 address"),
            Verdict::SameAddress(other) => write!(f, "machine {other} has the same address"),
            Verdict::HasEntry { index, status } if matches!(status, Status::Succeeded | Status::Failed) => write!(
                f,
                "repair {index} of it has {status}; `sabactl repair-queue delete {index}` lets it be repaired again"
            ),
            Verdict::HasEntry { index, status } => write!(f, "repair {index} of it is {status}"),
            Verdict::HandsOff(reason) => reason.fmt(f),
            Verdict::Rebooting { left } => {
                write!(f, "it is being rebooted on purpose, and given {} s more", left.as_secs())
            }
            Verdict::OutOfCluster { left } => {
                write!(f, "it is not in the cluster and may be rebooting; given {} s more", left.as_secs())
            }
            Verdict::Held { incident, group } => Held { incident: *incident, group: group.clone() }.fmt(f),
            Verdict::Settling { incident, left } => Settling { incident: *incident, left: *left }.fmt(f),
            Verdict::Observed { left } => {
                write!(f, "it has only just failed; whether it failed alone is known in {} s", left.as_secs())
            }
            Verdict::Stale => f.write_str("the report is too old to act on; a person has to look at the machine"),
            Verdict::NoProcedure(reason) => reason.fmt(f),
            Verdict::NoRoom { entries, new, max } => write!(
                f,
                "{entries} repairs and {new} new failures are more than maximum-repair-queue-entries {max}; delete finished entries or \
                 raise it"
            ),
            Verdict::NoCluster => f.write_str("there is no cluster configuration, and nothing is repaired without one"),
        }
    }
}

/// A machine that comes into the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewEntry {
    /// The machine; `None`: somebody asks for an address that no machine of the registry has.
    pub serial: Option<Serial>,
    /// Its address.
    pub address: Ipv4Addr,
    /// Its BMC type.
    pub machine_type: String,
    /// What is wrong with it.
    pub operation: String,
}

impl NewEntry {
    /// Its entry, of which nothing has been done.
    pub fn queued(&self, index: u64, asked_by: String, now: Timestamp) -> Entry {
        let NewEntry { serial, address, machine_type, operation } = self.clone();
        Entry {
            index,
            address,
            serial,
            machine_type,
            operation,
            status: Status::Queued,
            step: 0,
            step_status: StepStatus::Waiting,
            deleted: false,
            changed_at: None,
            backoff: Backoff::default(),
            created_at: now,
            asked_by,
            note: String::new(),
        }
    }
}

/// The decision, with its reasons.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Decision {
    /// What comes into the queue, in order.
    pub enqueue: Vec<NewEntry>,
    /// What becomes of every broken machine, in the order they were given.
    pub verdicts: Vec<(Serial, Verdict)>,
    /// Entries that count.
    pub entries: usize,
    /// How many there may be.
    pub max: u32,
    /// Entries that have ended and still count. When they are all of the room, nothing is repaired until somebody deletes them.
    pub finished: usize,
    /// How many places must be free before any machine is let in: one with the guard, one for each that wants in without.
    pub needed: usize,
}

/// Decides which broken machines come into the queue.
///
/// Without the guard this is the founding text: if all that want in do not fit, none is let in. With it those that failed together
/// are held already, and the room that is left goes to the others, the surest first.
pub fn decide(failures: &[Failure], around: &Around<'_>) -> Decision {
    let counted: Vec<&Entry> = around.queue.iter().filter(|entry| counts(entry, around)).collect();
    let mut decision = Decision {
        entries: counted.len(),
        max: around.limits.entries_max,
        finished: counted.iter().filter(|entry| entry.is_finished()).count(),
        ..Decision::default()
    };
    let mut verdicts: Vec<Verdict> = Vec::with_capacity(failures.len());
    let mut taken: BTreeMap<Ipv4Addr, &Serial> = BTreeMap::new();
    let reboots = reboot::by_node(around.reboots);
    let entries = by_address(around.queue, &counted);
    for failure in failures {
        let verdict = look(failure, &entries, &taken, &reboots, around);
        if let (Verdict::Enqueue, Some(address)) = (&verdict, failure.address) {
            taken.insert(address, &failure.serial);
        }
        verdicts.push(verdict);
    }
    decision.needed = admit(failures, &mut verdicts, around, counted.len());
    for (failure, verdict) in failures.iter().zip(&verdicts) {
        if let (Verdict::Enqueue, Some(address)) = (verdict, failure.address) {
            decision.enqueue.push(NewEntry {
                serial: Some(failure.serial.clone()),
                address,
                machine_type: failure.traits.machine_type.clone(),
                operation: failure.state.as_str().to_owned(),
            });
        }
    }
    decision.verdicts = failures.iter().map(|failure| failure.serial.clone()).zip(verdicts).collect();
    decision
}

/// Whether an entry counts: always, unless it ended longer ago than finished ones count.
fn counts(entry: &Entry, around: &Around<'_>) -> bool {
    let Some(time) = around.limits.finished_counts.filter(|_| entry.is_finished()) else { return true };
    // An entry from the future is one of a server whose clock is ahead; it counts.
    let age = Duration::try_from(around.now.duration_since(entry.since())).unwrap_or_default();
    age < time
}

/// The entry that keeps a machine out of the queue. Two active repairs of one machine must never be, whatever counts.
fn by_address<'a>(queue: &'a [Entry], counted: &[&'a Entry]) -> BTreeMap<Ipv4Addr, &'a Entry> {
    let mut entries = BTreeMap::new();
    let active = queue.iter().filter(|entry| !entry.is_finished());
    for entry in active.chain(counted.iter().copied()) {
        entries.entry(entry.address).or_insert(entry);
    }
    entries
}

/// Everything but the room in the queue.
fn look(
    failure: &Failure,
    entries: &BTreeMap<Ipv4Addr, &Entry>,
    taken: &BTreeMap<Ipv4Addr, &Serial>,
    reboots: &BTreeMap<Ipv4Addr, &RebootEntry>,
    around: &Around<'_>,
) -> Verdict {
    let Some(cluster) = around.cluster else { return Verdict::NoCluster };
    let Some(address) = failure.address else { return Verdict::NoAddress };
    if let Some(entry) = entries.get(&address) {
        return Verdict::HasEntry { index: entry.index, status: entry.status };
    }
    if let Some(other) = taken.get(&address) {
        return Verdict::SameAddress((*other).clone());
    }
    if let Some(reason) = &failure.hands_off {
        return Verdict::HandsOff(reason.clone());
    }
    let wait = around.limits.wait_rebooting;
    if reboot::is_planned(failure, reboots, wait) {
        return Verdict::Rebooting { left: wait.saturating_sub(failure.age) };
    }
    if failure.state == HealthState::Unreachable && failure.age < wait && !cluster.contains(&address) {
        return Verdict::OutOfCluster { left: wait - failure.age };
    }
    if around.limits.guard.enabled {
        if let Some(Held { incident, group }) = around.judgement.held.get(&failure.serial) {
            return Verdict::Held { incident: *incident, group: group.clone() };
        }
        if let Some(Settling { incident, left }) = around.judgement.settling.get(&failure.serial) {
            return Verdict::Settling { incident: *incident, left: *left };
        }
        if let Some(left) = observed(failure, around.limits.guard) {
            return Verdict::Observed { left };
        }
        if failure.age > around.limits.guard.stale_after {
            return Verdict::Stale;
        }
    }
    match around.procedures.operation(&failure.traits.machine_type, failure.state.as_str()) {
        Ok(_) => Verdict::Enqueue,
        Err(reason) => Verdict::NoProcedure(reason),
    }
}

/// For how much longer a failure is watched. Somebody who was broken in another way before may yet be the first of a group to say so,
/// and is watched for a while all the same.
fn observed(failure: &Failure, guard: &GuardRules) -> Option<Duration> {
    let whole = guard.observe.saturating_sub(failure.broken_for());
    let anew = guard.observe.min(NEW_TROUBLE).saturating_sub(failure.age);
    Some(whole.max(anew)).filter(|left| !left.is_zero())
}

/// How long a new trouble of a broken machine is watched at least. Monitors take that long to see a whole rack.
const NEW_TROUBLE: Duration = Duration::from_secs(60);

/// The room in the queue: all or nothing without the guard, the surest first with it. How many places must be free for that.
fn admit(failures: &[Failure], verdicts: &mut [Verdict], around: &Around<'_>, entries: usize) -> usize {
    let mut new: Vec<usize> = (0..verdicts.len()).filter(|place| verdicts[*place] == Verdict::Enqueue).collect();
    let (wanted, max) = (new.len(), around.limits.entries_max);
    let room = (max as usize).saturating_sub(entries);
    let needed = if around.limits.guard.enabled { 1 } else { wanted.max(1) };
    if wanted <= room {
        return needed;
    }
    if around.limits.guard.enabled {
        new.sort_by(|a, b| surer(&failures[*a], &failures[*b]));
        new.drain(..room);
    }
    for place in new {
        verdicts[place] = Verdict::NoRoom { entries, new: wanted, max };
    }
    needed
}

/// Which of two is more surely broken, and more likely to be helped: whose controller answers, who did not renew a lease, who has
/// been broken for longer.
fn surer(a: &Failure, b: &Failure) -> std::cmp::Ordering {
    let key = |failure: &Failure| {
        (
            failure.opinion.lease_renewed == Some(true),
            failure.opinion.bmc_answers != Some(true),
            std::cmp::Reverse(failure.broken_for()),
        )
    };
    key(a).cmp(&key(b)).then_with(|| a.serial.cmp(&b.serial))
}

#[cfg(test)]
mod tests;
