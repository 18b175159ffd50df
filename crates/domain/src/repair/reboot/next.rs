//! What is done next with the entries of the reboot queue. Takes everything that is known at one moment and says which entries are acted
//! on and how; carrying it out and writing it down is for the service.
//!
//! Workers go first, one more at a time, as many together as is allowed. A control plane goes when no worker is under way or could be,
//! and alone.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::Ipv4Addr,
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};

use super::{RebootEntry, RebootRules, RebootStatus, by_node};
use crate::limits::NAMES_SHOWN;

/// Everything the decision depends on.
#[derive(Debug, Clone, Copy)]
pub struct Around<'a> {
    /// Every entry.
    pub entries: &'a [RebootEntry],
    /// Whether new work may be begun.
    pub enabled: bool,
    /// How nodes are rebooted; `None`: the configuration does not say.
    pub rules: Option<&'a RebootRules>,
    /// Nodes of the cluster, and whether each is a control plane. Entries of others go: who cannot read the cluster must not ask.
    pub nodes: &'a BTreeMap<Ipv4Addr, bool>,
    /// Nodes from which all pods have gone.
    pub drained: &'a BTreeSet<Ipv4Addr>,
    /// Nodes that are gone, each with what proves it: their pods cannot leave, and nobody waits for them.
    pub gone: &'a BTreeMap<Ipv4Addr, String>,
    /// Nodes of which it is not known which Node of Kubernetes they are, and why: nobody can tell what runs on them.
    pub lost: &'a BTreeMap<Ipv4Addr, String>,
    /// Entries whose boot check said that the node has booted since, by index.
    pub booted: &'a BTreeSet<u64>,
    /// Entries whose boot check said that the node has not, by index.
    pub not_booted: &'a BTreeSet<u64>,
    /// How many nodes of the cluster cannot be contacted, not counting those that are under reboot.
    pub unreachable: usize,
    /// With more than this many of those no further node is taken away: `maximum-unreachable-nodes-for-reboot`.
    pub unreachable_max: u32,
    /// Machines are being repaired. Nothing new is begun meanwhile.
    pub repair_active: bool,
    /// Control planes that repair has begun with, also if nothing is done with them now.
    pub repaired: &'a BTreeSet<Ipv4Addr>,
    /// Entries something is being done with, by index. They keep their place, and nothing else is done with them.
    pub running: &'a BTreeSet<u64>,
    /// Why nothing that takes a node away is begun, if nothing is; such as Kubernetes that does not answer.
    pub blocked: Option<&'a str>,
    /// Nodes that failed together with others, and why they are left alone.
    pub held: &'a BTreeMap<Ipv4Addr, String>,
    /// Now.
    pub now: Timestamp,
}

/// What is done with one entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// It goes.
    Remove {
        /// Why, for people.
        because: String,
    },
    /// Pods are made to leave its node.
    StartDrain,
    /// Its drain is given up for a while; it is queued again.
    GiveUpDrain {
        /// Why, for people.
        because: String,
    },
    /// Its node, which is empty, is rebooted.
    Reboot,
    /// The node is asked whether it has booted.
    Check,
}

/// What is done next.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Next {
    /// What is done with entries, by index, in order.
    pub acts: Vec<(u64, Act)>,
    /// Why nothing is done with the others, by index.
    pub waits: BTreeMap<u64, String>,
}

impl Next {
    fn put(&mut self, entry: &RebootEntry, decided: Decided) {
        match decided {
            Decided::Act(act) => self.acts.push((entry.index, act)),
            Decided::Wait(reason) => drop(self.waits.insert(entry.index, reason)),
        }
    }
}

enum Decided {
    Act(Act),
    Wait(String),
}

/// Says what is done next.
pub fn next(around: &Around<'_>) -> Next {
    let mut entries: Vec<&RebootEntry> = around.entries.iter().collect();
    entries.sort_by_key(|entry| entry.index);
    let first = by_node(around.entries);
    let mut next = Next::default();
    let (mut under_way, mut queued) = (Vec::new(), Vec::new());
    for entry in entries {
        // Whatever becomes of it, its node is in somebody's hands.
        if around.running.contains(&entry.index) {
            under_way.push(entry);
        } else if let Some(because) = goes(entry, around) {
            next.put(entry, Decided::Act(Act::Remove { because }));
        } else if let Some(other) = first.get(&entry.node).filter(|first| first.index != entry.index) {
            next.put(entry, Decided::Wait(format!("entry {} of the same node comes first", other.index)));
        } else if entry.is_under_way() {
            under_way.push(entry);
        } else {
            queued.push(entry);
        }
    }
    // Who has gone away already keeps its place before those that are only about to.
    under_way.sort_by_key(|entry| (entry.status == RebootStatus::Draining, entry.index));
    let mut places = Places { around, taken: Vec::new() };
    for entry in under_way {
        next.put(entry, go_on(entry, &places));
        places.taken.push(entry.node);
    }
    begin(&queued, &mut places, &mut next);
    next
}

/// How long a node may take to boot before it is told to reboot once more.
const BOOT_TIME: SignedDuration = SignedDuration::from_mins(15);

/// Why an entry goes, if it does; also while the queue is disabled.
fn goes(entry: &RebootEntry, around: &Around<'_>) -> Option<String> {
    let booted = entry.status == RebootStatus::Rebooting && around.booted.contains(&entry.index);
    match () {
        () if entry.status == RebootStatus::Cancelled => Some("it was cancelled".to_owned()),
        () if !around.nodes.contains_key(&entry.node) => Some("the node is no longer in the cluster".to_owned()),
        () if booted => Some("the node has booted".to_owned()),
        () => None,
    }
}

/// What becomes of an entry whose node is about to go away or has gone.
fn go_on(entry: &RebootEntry, places: &Places<'_>) -> Decided {
    let around = places.around;
    if around.running.contains(&entry.index) {
        return Decided::Wait(match entry.status {
            RebootStatus::Queued | RebootStatus::Draining => "pods are asked to leave its node".to_owned(),
            RebootStatus::Rebooting | RebootStatus::Cancelled => "its command is running".to_owned(),
        });
    }
    let give_up = |because: String| Decided::Act(Act::GiveUpDrain { because });
    let Some(rules) = around.rules else {
        return if entry.status == RebootStatus::Draining {
            give_up(NO_RULES.to_owned())
        } else {
            Decided::Wait(NO_RULES.to_owned())
        };
    };
    if entry.status == RebootStatus::Rebooting {
        // Whoever told the node to reboot stopped before it could say what came of it. The node is empty, and has not booted since.
        // It may still be booting.
        let long = entry.changed_at.is_none_or(|at| around.now.duration_since(at) >= BOOT_TIME);
        let unknown = entry.note.is_empty() && around.not_booted.contains(&entry.index) && long;
        let may = around.enabled && !around.held.contains_key(&entry.node) && around.hindered().is_none();
        return Decided::Act(if unknown && may { Act::Reboot } else { Act::Check });
    }
    if !around.enabled {
        return give_up("the queue is disabled".to_owned());
    }
    if let Some(reason) = around.held.get(&entry.node) {
        return give_up(reason.clone());
    }
    // Both were begun when neither was a control plane, or by somebody who knew less.
    if let Some(reason) = places.conflict(entry.node) {
        return give_up(reason);
    }
    let hindered = around.hindered();
    let drained = around.drained.contains(&entry.node) || around.gone.contains_key(&entry.node);
    if drained && hindered.is_none() {
        return Decided::Act(Act::Reboot);
    }
    let limit = SignedDuration::try_from(rules.drain.timeout).unwrap_or(SignedDuration::MAX);
    let elapsed = entry.changed_at.map(|began| (began, around.now.duration_since(began)));
    match (elapsed, hindered) {
        // Written by a clock that was set back since.
        (Some((began, elapsed)), _) if elapsed < -limit => give_up(format!("it began at {began}, which is not yet")),
        (Some((_, elapsed)), hindered) if elapsed <= limit => {
            let reason = hindered.filter(|_| drained);
            Decided::Wait(reason.unwrap_or_else(|| "pods leave its node".to_owned()))
        }
        // A drain of which nobody knows when it began must end as well.
        (_, hindered) => give_up(late(drained, hindered, rules.drain.timeout)),
    }
}

/// Why a drain has taken too long.
fn late(drained: bool, hindered: Option<String>, limit: Duration) -> String {
    let seconds = limit.as_secs();
    match hindered {
        Some(reason) if drained => format!("the node could not be rebooted within {seconds} s: {reason}"),
        _ => format!("pods are left after {seconds} s"),
    }
}

const NO_RULES: &str = "the cluster template has not both reboot.reboot_command and reboot.boot_check_command";

/// Begins with one more node, if any may be.
fn begin(queued: &[&RebootEntry], places: &mut Places<'_>, next: &mut Next) {
    let around = places.around;
    let mut ready = Vec::new();
    for entry in queued {
        match around.not_ready(entry) {
            Some(reason) => drop(next.waits.insert(entry.index, reason)),
            None => ready.push(*entry),
        }
    }
    // Workers first: a control plane goes when none of them is under way or could be.
    ready.sort_by_key(|entry| (around.is_control_plane(entry.node), entry.index));
    let mut begun: Option<Ipv4Addr> = None;
    for entry in ready {
        let in_turn = || begun.map(|node| format!("{node} is begun with in this pass; one node at a time"));
        let refusal = places.refuses(entry.node).or_else(in_turn);
        match refusal {
            Some(reason) => drop(next.waits.insert(entry.index, reason)),
            None => {
                next.acts.push((entry.index, Act::StartDrain));
                places.taken.push(entry.node);
                begun = Some(entry.node);
            }
        }
    }
}

impl Around<'_> {
    fn is_control_plane(&self, node: Ipv4Addr) -> bool {
        self.nodes.get(&node) == Some(&true)
    }

    /// Why no node is taken away now, whichever it is.
    fn hindered(&self) -> Option<String> {
        if self.repair_active {
            return Some("machines are being repaired; `sabactl repair-queue list`".to_owned());
        }
        self.blocked.map(|reason| format!("nothing is taken from the cluster now: {reason}"))
    }

    /// Why a node is not one that could be begun with.
    fn not_ready(&self, entry: &RebootEntry) -> Option<String> {
        if let Some(until) = entry.pauses_until(self.now) {
            return Some(format!("draining failed {} times; tried again at {until}", entry.backoff.count));
        }
        if self.rules.is_none() {
            return Some(NO_RULES.to_owned());
        }
        if !self.enabled {
            return Some("the queue is disabled; `sabactl reboot-queue enable`".to_owned());
        }
        if let Some(reason) = self.held.get(&entry.node) {
            return Some(reason.clone());
        }
        if let Some(reason) = self.hindered() {
            return Some(reason);
        }
        if let Some(lost) = self.lost.get(&entry.node).filter(|_| !self.gone.contains_key(&entry.node)) {
            return Some(format!("its node cannot be drained: {lost}"));
        }
        let (unreachable, max) = (self.unreachable, self.unreachable_max);
        (usize::try_from(max).is_ok_and(|max| unreachable > max))
            .then(|| format!("{unreachable} nodes cannot be contacted; maximum-unreachable-nodes-for-reboot is {max}"))
    }
}

/// Nodes that are under way.
struct Places<'a> {
    around: &'a Around<'a>,
    taken: Vec<Ipv4Addr>,
}

impl Places<'_> {
    /// Who must not be away together with a node.
    fn conflict(&self, node: Ipv4Addr) -> Option<String> {
        if self.around.is_control_plane(node) {
            if let Some(other) = self.around.repaired.iter().find(|other| **other != node) {
                return Some(format!("a control plane goes alone, and {other} is being repaired"));
            }
            return self.taken.first().map(|other| format!("a control plane goes alone, and {other} is under way"));
        }
        let control_plane = self.taken.iter().find(|other| self.around.is_control_plane(**other));
        control_plane.map(|other| format!("control plane {other} is under way, which goes alone"))
    }

    /// Why one more node is not begun with.
    fn refuses(&self, node: Ipv4Addr) -> Option<String> {
        if let Some(reason) = self.conflict(node) {
            return Some(reason);
        }
        let max = self.around.rules.map_or(0, |rules| rules.concurrent_max);
        (self.taken.len() >= max).then(|| {
            let mut names: Vec<String> = self.taken.iter().take(NAMES_SHOWN).map(ToString::to_string).collect();
            if let more @ 1.. = self.taken.len() - names.len() {
                names.push(format!("{more} more"));
            }
            format!("under way: {}; max_concurrent_reboots is {max}", names.join(", "))
        })
    }
}
