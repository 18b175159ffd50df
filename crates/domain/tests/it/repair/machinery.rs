//! A small service around the rules of repair: what it stores, and how it writes down what the rules say. Commands and drains are
//! somebody else's; time and chance come from outside.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::Ipv4Addr,
    time::Duration,
};

use jiff::Timestamp;
use sabakan_domain::repair::{
    enqueue::{self, Decision, Limits, NewEntry},
    entry::Entry,
    guard::{Census, Failure, GuardRules},
    incident::{self, Incident, Judgement},
    procedure::Procedures,
    queue::{self, Act, Next},
    reboot::RebootEntry,
    round::{self, Round},
};

/// What operators set.
#[derive(Debug, Clone)]
pub struct Settings {
    pub entries_max: u32,
    pub wait_rebooting: Duration,
    pub finished_counts: Option<Duration>,
    pub guard: GuardRules,
    pub enabled: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            entries_max: 3,
            wait_rebooting: Duration::from_secs(300),
            finished_counts: None,
            guard: GuardRules::default(),
            enabled: true,
        }
    }
}

/// What is known of the outside when the queue is worked on.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// Nodes, and whether each is a control plane.
    pub nodes: BTreeMap<Ipv4Addr, bool>,
    pub healthy: BTreeSet<Ipv4Addr>,
    pub drained: BTreeSet<Ipv4Addr>,
    pub running: BTreeSet<u64>,
    /// Why nothing is taken from the cluster.
    pub blocked: Option<String>,
}

/// Everything that is stored.
#[derive(Debug, Clone, Default)]
pub struct Machinery {
    pub entries: BTreeMap<u64, Entry>,
    pub incidents: Vec<Incident>,
    pub reboots: Vec<RebootEntry>,
    pub cordoned: BTreeSet<Ipv4Addr>,
    pub settings: Settings,
    /// The numbers that the next entry and the next incident get.
    pub next_entry: u64,
    pub next_incident: u64,
}

impl Machinery {
    pub fn queue(&self) -> Vec<Entry> {
        self.entries.values().cloned().collect()
    }

    /// What failed together.
    pub fn judge(&self, failures: &[Failure], census: &Census, now: Timestamp) -> Judgement {
        let Settings { wait_rebooting, guard: rules, .. } = &self.settings;
        let (incidents, queue, reboots) = (self.incidents.as_slice(), &self.queue(), self.reboots.as_slice());
        let wait_rebooting = *wait_rebooting;
        incident::judge(failures, &incident::Around { census, incidents, queue, reboots, wait_rebooting, rules, now })
    }

    /// What comes into the queue.
    pub fn decide(
        &self,
        failures: &[Failure],
        judgement: &Judgement,
        cluster: Option<&BTreeSet<Ipv4Addr>>,
        procedures: &Procedures,
        now: Timestamp,
    ) -> Decision {
        let Settings { entries_max, wait_rebooting, finished_counts, guard, .. } = &self.settings;
        let limits = Limits {
            entries_max: *entries_max,
            wait_rebooting: *wait_rebooting,
            finished_counts: *finished_counts,
            guard,
        };
        let (queue, reboots) = (self.queue(), self.reboots.as_slice());
        enqueue::decide(
            failures,
            &enqueue::Around { queue: &queue, reboots, cluster, procedures, judgement, limits, now },
        )
    }

    /// Writes down what a round of the enqueuer decided. New incidents are answered.
    pub fn put_round(
        &mut self,
        failures: &[Failure],
        judgement: &Judgement,
        decision: &Decision,
        now: Timestamp,
    ) -> Vec<Incident> {
        let incidents = self.incidents.as_slice();
        let around = round::Around { judgement, decision, automatic: true, incidents, failures, now };
        let Round { enqueue, mut opened, changed } = Round::of(&around);
        for incident in changed {
            let place = self.incidents.iter().position(|known| known.number == incident.number);
            self.incidents[place.expect("one that is kept")] = incident;
        }
        for incident in &mut opened {
            self.next_incident += 1;
            incident.number = self.next_incident;
        }
        self.incidents.extend(opened.iter().cloned());
        for new in &enqueue {
            self.add(new.queued(0, "automatic repair".into(), now));
        }
        opened
    }

    /// Adds an entry under the next number.
    pub fn add(&mut self, entry: Entry) -> u64 {
        self.next_entry += 1;
        self.entries.insert(self.next_entry, Entry { index: self.next_entry, ..entry });
        self.next_entry
    }

    /// What is done next with the queue.
    pub fn next(&self, facts: &Facts, judgement: &Judgement, procedures: &Procedures, now: Timestamp) -> Next {
        let Facts { nodes, healthy, drained, running, blocked } = facts;
        queue::next(&queue::Around {
            entries: &self.queue(),
            enabled: self.settings.enabled,
            procedures,
            nodes,
            healthy,
            unchecked: &BTreeSet::new(),
            powered: &BTreeSet::new(),
            hands_off: &BTreeMap::new(),
            drained,
            gone: &BTreeMap::new(),
            lost: &BTreeMap::new(),
            cordoned: &self.cordoned,
            reboots: &self.reboots,
            judgement,
            running,
            blocked: blocked.as_deref(),
            now,
        })
    }

    /// Writes down that an act begins.
    pub fn put(&mut self, index: u64, act: &Act, procedures: &Procedures, now: Timestamp, random: u64) {
        if *act == Act::Remove {
            self.entries.remove(&index);
            return;
        }
        let Some(entry) = self.entries.get_mut(&index) else { return };
        *entry = act.written(entry, procedures, now, random);
        if matches!(act, Act::StartDrain { .. }) {
            self.cordoned.insert(entry.address);
        }
    }
}

/// An entry that nothing was done with.
pub fn blank(address: Ipv4Addr, machine_type: String, operation: String, now: Timestamp) -> Entry {
    NewEntry { serial: None, address, machine_type, operation }.queued(0, String::new(), now)
}
