//! What holds of the reboot queue whatever happens: control planes go away one at a time and alone, never more nodes than allowed, a
//! node that is held is not begun with, and once the world is quiet the queue becomes empty.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::Ipv4Addr,
};

use jiff::{SignedDuration, Timestamp};
use proptest::{prelude::*, test_runner::FileFailurePersistence};
use sabakan_domain::repair::{
    entry::Backoff,
    queue,
    reboot::{self, Act, Next, RebootEntry, RebootRules, RebootStatus},
};
use serde_json::json;

use super::machinery::{Facts, Machinery};

/// What is known when the reboot queue is worked on.
#[derive(Debug, Clone)]
pub struct RebootFacts {
    pub enabled: bool,
    pub rules: Option<RebootRules>,
    pub booted: BTreeSet<u64>,
    pub running: BTreeSet<u64>,
    pub unreachable: usize,
    pub unreachable_max: u32,
}

impl Default for RebootFacts {
    fn default() -> RebootFacts {
        let (booted, running) = Default::default();
        RebootFacts { enabled: true, rules: Some(rules(1)), booted, running, unreachable: 0, unreachable_max: 0 }
    }
}

/// As the template of a cluster says it.
pub fn rules(concurrent_max: u64) -> RebootRules {
    let reboot = json!({ "reboot_command": ["reboot"], "boot_check_command": ["check"], "max_concurrent_reboots": concurrent_max });
    RebootRules::of(json!({ "reboot": reboot }).as_object().expect("an object")).expect("both commands")
}

/// As a template that has one command only.
pub fn without_rules() -> Option<RebootRules> {
    RebootRules::of(json!({ "reboot": { "reboot_command": ["reboot"] } }).as_object().expect("an object"))
}

impl Machinery {
    /// What is done next with the reboot queue.
    pub fn next_reboots(
        &self,
        facts: &Facts,
        reboots: &RebootFacts,
        held: &BTreeMap<Ipv4Addr, String>,
        repair_active: bool,
        now: Timestamp,
    ) -> Next {
        let RebootFacts { enabled, rules, booted, running, unreachable, unreachable_max } = reboots;
        reboot::next(&reboot::Around {
            entries: &self.reboots,
            enabled: *enabled,
            rules: rules.as_ref(),
            nodes: &facts.nodes,
            drained: &facts.drained,
            gone: &BTreeMap::new(),
            lost: &BTreeMap::new(),
            booted,
            not_booted: &BTreeSet::new(),
            unreachable: *unreachable,
            unreachable_max: *unreachable_max,
            repair_active,
            repaired: &queue::control_planes_away(&self.queue(), &facts.nodes),
            running,
            blocked: facts.blocked.as_deref(),
            held,
            now,
        })
    }

    /// Writes down that an act begins.
    pub fn put_reboot(&mut self, index: u64, act: &Act, now: Timestamp, random: u64) {
        if matches!(act, Act::Remove { .. }) {
            self.reboots.retain(|entry| entry.index != index);
            return;
        }
        let Some(entry) = self.reboots.iter_mut().find(|entry| entry.index == index) else { return };
        entry.status = match act {
            Act::Remove { .. } | Act::Check => return,
            Act::StartDrain => RebootStatus::Draining,
            Act::GiveUpDrain { .. } => RebootStatus::Queued,
            Act::Reboot => RebootStatus::Rebooting,
        };
        entry.changed_at = Some(now);
        if matches!(act, Act::GiveUpDrain { .. }) {
            entry.backoff = entry.backoff_after_failure(now, random);
        }
        if *act == Act::StartDrain {
            self.cordoned.insert(entry.node);
        }
    }
}

const NODES: u8 = 8;

/// What happens next.
#[derive(Debug, Clone)]
enum Event {
    /// Somebody wants a node rebooted, or no longer.
    Add(u8),
    Cancel(u8),
    /// Time passes, or the clock jumps.
    Clock(i64),
    /// What is decided is done; of the acts those whose bit is set, for a server may die in between.
    Pass {
        done: u8,
        random: u64,
    },
    /// The command of an entry goes on, or has ended.
    Running(u8, bool),
    Drained(u8, bool),
    Booted(u8),
    /// A node becomes a control plane or a worker, leaves the cluster or comes back.
    Role(u8, Option<bool>),
    Held(u8, bool),
    Unreachable(usize),
    Repair(bool),
    Blocked(bool),
    Enable(bool),
    Max(Option<u64>),
}

fn events() -> impl Strategy<Value = Event> {
    let yes = any::<bool>;
    prop_oneof![
        6 => (0..NODES).prop_map(Event::Add),
        1 => any::<u8>().prop_map(Event::Cancel),
        4 => prop_oneof![4 => 1..900_i64, 1 => 900..100_000_i64, 1 => -100_000..0_i64].prop_map(Event::Clock),
        14 => (prop_oneof![3 => Just(u8::MAX), 1 => any::<u8>()], any::<u64>()).prop_map(|(done, random)| Event::Pass { done, random }),
        2 => (any::<u8>(), yes()).prop_map(|(place, yes)| Event::Running(place, yes)),
        6 => (0..NODES, prop::bool::weighted(0.8)).prop_map(|(node, yes)| Event::Drained(node, yes)),
        4 => any::<u8>().prop_map(Event::Booted),
        1 => (0..NODES, prop::option::weighted(0.8, yes())).prop_map(|(node, role)| Event::Role(node, role)),
        1 => (0..NODES, yes()).prop_map(|(node, yes)| Event::Held(node, yes)),
        1 => (0..3_usize).prop_map(Event::Unreachable),
        1 => prop::bool::weighted(0.3).prop_map(Event::Repair),
        1 => prop::bool::weighted(0.3).prop_map(Event::Blocked),
        1 => prop::bool::weighted(0.8).prop_map(Event::Enable),
        1 => prop::option::weighted(0.9, 1..5_u64).prop_map(Event::Max),
    ]
}

fn address(node: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, node)
}

struct World {
    now: Timestamp,
    stored: Machinery,
    facts: Facts,
    reboots: RebootFacts,
    held: BTreeMap<Ipv4Addr, String>,
    repair_active: bool,
    next_index: u64,
}

/// Nodes 0, 1 and 2 are control planes to begin with.
fn world() -> World {
    let nodes = (0..NODES).map(|node| (address(node), node < 3)).collect();
    World {
        now: "2026-01-01T00:00:00Z".parse().expect("a time"),
        stored: Machinery::default(),
        facts: Facts { nodes, ..Facts::default() },
        reboots: RebootFacts { rules: Some(rules(2)), unreachable_max: 1, ..RebootFacts::default() },
        held: BTreeMap::new(),
        repair_active: false,
        next_index: 0,
    }
}

impl World {
    /// The entry at a place, counted round and round.
    fn entry(&mut self, place: u8) -> Option<&mut RebootEntry> {
        let count = self.stored.reboots.len();
        self.stored.reboots.get_mut(usize::from(place).checked_rem(count)?)
    }

    fn happen(&mut self, event: &Event) -> Result<(), TestCaseError> {
        match event {
            Event::Add(node) => {
                self.next_index += 1;
                let (index, node, status) = (self.next_index, address(*node), RebootStatus::Queued);
                let changed_at = Some(self.now);
                self.stored.reboots.push(RebootEntry {
                    index,
                    node,
                    status,
                    changed_at,
                    backoff: Backoff::default(),
                    note: String::new(),
                });
            }
            Event::Cancel(place) => {
                if let Some(entry) = self.entry(*place) {
                    entry.status = RebootStatus::Cancelled;
                }
            }
            Event::Clock(seconds) => self.now += SignedDuration::from_secs(*seconds),
            Event::Pass { done, random } => self.pass(*done, *random)?,
            Event::Running(place, yes) => {
                let found = self.entry(*place).filter(|entry| entry.is_under_way()).map(|entry| entry.index);
                if let Some(index) = found {
                    put(&mut self.reboots.running, index, *yes);
                }
            }
            Event::Drained(node, yes) => put(&mut self.facts.drained, address(*node), *yes),
            Event::Booted(place) => {
                let found = self.entry(*place).filter(|entry| entry.status == RebootStatus::Rebooting);
                if let Some(index) = found.map(|entry| entry.index) {
                    self.reboots.booted.insert(index);
                }
            }
            Event::Role(node, Some(control_plane)) => drop(self.facts.nodes.insert(address(*node), *control_plane)),
            Event::Role(node, None) => drop(self.facts.nodes.remove(&address(*node))),
            Event::Held(node, true) => drop(self.held.insert(address(*node), "its rack failed".to_owned())),
            Event::Held(node, false) => drop(self.held.remove(&address(*node))),
            Event::Unreachable(count) => self.reboots.unreachable = *count,
            Event::Repair(yes) => self.repair_active = *yes,
            Event::Blocked(yes) => self.facts.blocked = yes.then(|| "etcd is not in order".to_owned()),
            Event::Enable(yes) => self.reboots.enabled = *yes,
            Event::Max(max) => self.reboots.rules = max.map(rules),
        }
        Ok(())
    }

    fn pass(&mut self, done: u8, random: u64) -> Result<(), TestCaseError> {
        let next = self.stored.next_reboots(&self.facts, &self.reboots, &self.held, self.repair_active, self.now);
        for entry in &self.stored.reboots {
            let acts = next.acts.iter().filter(|(index, _)| *index == entry.index).count();
            let waits = next.waits.get(&entry.index);
            prop_assert_eq!(acts, usize::from(waits.is_none()), "{:?}: {:?}", entry, waits);
            prop_assert!(acts == 0 || !self.reboots.running.contains(&entry.index), "{entry:?} is acted on twice");
        }
        for (place, (index, act)) in next.acts.iter().enumerate() {
            if done & (1 << (place % 8)) != 0 {
                self.check(*index, act)?;
                self.stored.put_reboot(*index, act, self.now, random);
            }
        }
        let left: BTreeSet<u64> = self.stored.reboots.iter().map(|entry| entry.index).collect();
        self.reboots.running.retain(|index| left.contains(index));
        Ok(())
    }

    /// What must be true when a node is taken away.
    fn check(&self, index: u64, act: &Act) -> Result<(), TestCaseError> {
        let takes_away = matches!(act, Act::StartDrain | Act::Reboot);
        let Some(entry) = self.stored.reboots.iter().find(|entry| entry.index == index && takes_away) else {
            return Ok(());
        };
        let others = self.stored.reboots.iter().filter(|other| other.index != index);
        // A node that has booted or is no longer in the cluster is not away, although its entry is still there. One that is drained
        // beside this one goes on only if it may; that is seen when it is rebooted.
        let is_away = |other: &&RebootEntry| {
            self.facts.nodes.contains_key(&other.node) && !self.reboots.booted.contains(&other.index)
        };
        let counts = |other: &&RebootEntry| match act {
            Act::StartDrain => is_away(other) && other.is_under_way(),
            _ => is_away(other) && other.status == RebootStatus::Rebooting,
        };
        let others: Vec<Ipv4Addr> = others.filter(counts).map(|other| other.node).collect();
        let is_control_plane = |node: &Ipv4Addr| self.facts.nodes.get(node) == Some(&true);
        prop_assert!(!others.contains(&entry.node), "{} is rebooted twice", entry.node);
        if is_control_plane(&entry.node) {
            prop_assert!(others.is_empty(), "control plane {} goes beside {others:?}", entry.node);
        }
        prop_assert!(!others.iter().any(is_control_plane), "{} goes beside a control plane: {others:?}", entry.node);
        prop_assert!(self.facts.nodes.contains_key(&entry.node), "{} is not in the cluster", entry.node);
        prop_assert!(!self.held.contains_key(&entry.node), "{} is held", entry.node);
        prop_assert!(self.reboots.enabled && !self.repair_active && self.facts.blocked.is_none());
        if *act == Act::StartDrain {
            let max = self.reboots.rules.as_ref().map_or(0, |rules| rules.concurrent_max);
            prop_assert!(others.len() < max, "{} of {max} are under way", others.len() + 1);
            prop_assert!(self.reboots.unreachable <= 1);
        }
        Ok(())
    }

    /// From here on everything works: pods leave, nodes boot, nobody asks for more.
    fn settle(&mut self) -> Result<(), TestCaseError> {
        let nodes = self.facts.nodes.clone();
        self.facts = Facts { drained: nodes.keys().copied().collect(), nodes, ..Facts::default() };
        self.reboots = RebootFacts { rules: Some(rules(2)), ..RebootFacts::default() };
        self.held.clear();
        self.repair_active = false;
        for _ in 0..600 {
            self.now += SignedDuration::from_mins(2);
            let rebooting = self.stored.reboots.iter().filter(|entry| entry.status == RebootStatus::Rebooting);
            self.reboots.booted = rebooting.map(|entry| entry.index).collect();
            self.pass(u8::MAX, 0)?;
            if self.stored.reboots.is_empty() {
                return Ok(());
            }
        }
        prop_assert!(false, "{:?} is left", self.stored.reboots);
        Ok(())
    }
}

fn put<T: Ord>(set: &mut BTreeSet<T>, item: T, yes: bool) {
    if yes {
        set.insert(item);
    } else {
        set.remove(&item);
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("regressions"))),
        ..ProptestConfig::with_cases(300)
    })]

    #[test]
    fn control_planes_go_alone_and_never_too_many_nodes(events in prop::collection::vec(events(), 1..150)) {
        let mut world = world();
        for event in &events {
            world.happen(event)?;
        }
        world.settle()?;
    }
}
