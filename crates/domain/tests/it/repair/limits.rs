//! G8: automation never starts more repairs than the limits allow, whatever is reported and however often it restarts. Also: one
//! machine is worked on once at a time, who is held is not enqueued, what is finished stays as it is, and every wait ends.
//!
//! Two servers work on one store. Each reads, decides and writes at moments of its own; it may lose its memory or its lead between
//! any two, and its clock is its own and may jump. A write is refused if the lead or a number it was decided with has changed, and so is
//! a second repair of one machine: that stores do so is tested with them.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::Ipv4Addr,
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use proptest::{prelude::*, test_runner::FileFailurePersistence};
use sabakan_domain::{
    lifecycle::HealthState,
    machine::Rack,
    repair::{
        entry::{Entry, Status, StepStatus},
        guard::{Census, Failure, SecondOpinion, Traits},
        incident::{Judgement, Phase},
        procedure::Procedures,
        queue::{Act, Next},
    },
    words::Serial,
};
use serde_json::json;

use super::{
    machinery::{Facts, Machinery, blank},
    procedures::{Operation, procedures},
};

const MACHINES: u8 = 24;

/// What happens next.
#[derive(Debug, Clone)]
enum Event {
    /// The monitor says that a machine is broken, healthy, or says it again.
    Report {
        machine: u8,
        state: Option<HealthState>,
    },
    /// A whole rack.
    RackReport {
        rack: u8,
        broken: bool,
    },
    /// Time passes, or all clocks jump.
    Clock {
        seconds: i64,
    },
    /// The clock of a server is so much ahead of the others from now on, or behind.
    Skew {
        server: u8,
        seconds: i64,
    },
    /// A server reads everything.
    Read {
        server: u8,
    },
    /// It decides what comes into the queue, from what it read, and writes. The list it got may be an old one, and hold machines twice.
    Round {
        server: u8,
        old: bool,
        twice: bool,
    },
    /// It decides what is done next, from what it read.
    Next {
        server: u8,
    },
    /// It writes the next of these acts.
    Act {
        server: u8,
        random: u64,
    },
    /// It forgets everything.
    Restart {
        server: u8,
    },
    /// The other server is elected.
    Elect,
    /// Pods leave a node; a machine works again; a node leaves the cluster or comes back.
    Drained {
        machine: u8,
    },
    Healthy {
        machine: u8,
        yes: bool,
    },
    /// What operators do.
    Delete {
        place: u8,
    },
    DeleteFinished,
    Add {
        machine: u8,
    },
    ResetBackoff,
    Acknowledge,
    Max {
        entries: u32,
    },
    FinishedCount {
        seconds: Option<u64>,
    },
    Concurrent {
        max: usize,
    },
    Enable {
        yes: bool,
    },
    Guard {
        yes: bool,
    },
}

fn events() -> impl Strategy<Value = Event> {
    let state = prop::option::of(prop::sample::select(vec![HealthState::Unhealthy, HealthState::Unreachable]));
    let server = 0..2_u8;
    prop_oneof![
        6 => (0..MACHINES, state).prop_map(|(machine, state)| Event::Report { machine, state }),
        1 => (0..3_u8, any::<bool>()).prop_map(|(rack, broken)| Event::RackReport { rack, broken }),
        6 => prop_oneof![4 => 1..900_i64, 1 => 900..100_000_i64, 1 => -100_000..0_i64].prop_map(|seconds| Event::Clock { seconds }),
        2 => (server.clone(), prop_oneof![-900..900_i64, -100_000..100_000_i64]).prop_map(|(server, seconds)| Event::Skew { server, seconds }),
        6 => server.clone().prop_map(|server| Event::Read { server }),
        6 => (server.clone(), any::<bool>(), any::<bool>()).prop_map(|(server, old, twice)| Event::Round { server, old, twice }),
        6 => server.clone().prop_map(|server| Event::Next { server }),
        12 => (server.clone(), any::<u64>()).prop_map(|(server, random)| Event::Act { server, random }),
        1 => server.prop_map(|server| Event::Restart { server }),
        1 => Just(Event::Elect),
        2 => (0..MACHINES).prop_map(|machine| Event::Drained { machine }),
        2 => (0..MACHINES, any::<bool>()).prop_map(|(machine, yes)| Event::Healthy { machine, yes }),
        1 => any::<u8>().prop_map(|place| Event::Delete { place }),
        1 => Just(Event::DeleteFinished),
        1 => (0..MACHINES).prop_map(|machine| Event::Add { machine }),
        1 => Just(Event::ResetBackoff),
        1 => Just(Event::Acknowledge),
        1 => (0..12_u32).prop_map(|entries| Event::Max { entries }),
        1 => prop::option::of(0..10_000_u64).prop_map(|seconds| Event::FinishedCount { seconds }),
        1 => (1..4_usize).prop_map(|max| Event::Concurrent { max }),
        1 => any::<bool>().prop_map(|yes| Event::Enable { yes }),
        1 => any::<bool>().prop_map(|yes| Event::Guard { yes }),
    ]
}

/// What a server remembers between two moments.
#[derive(Debug, Clone, Default)]
struct Memory {
    read: Option<Read>,
    next: Vec<(Entry, Act)>,
    /// Under which lead that was decided.
    reign: u64,
    /// How many machines might be worked on then.
    concurrent_max: usize,
    /// What that was decided with.
    judged: Judgement,
}

/// What it read, with the numbers that its writes are compared with.
#[derive(Debug, Clone)]
struct Read {
    stored: Machinery,
    settings: u64,
    reign: u64,
    judgement: Judgement,
}

struct World {
    now: Timestamp,
    /// By how much the clock of each server is ahead.
    skews: [SignedDuration; 2],
    /// Everybody's reports: what, and since when.
    reports: BTreeMap<u8, (HealthState, Timestamp)>,
    old_reports: BTreeMap<u8, (HealthState, Timestamp)>,
    stored: Machinery,
    /// Counts changes of what operators set.
    settings: u64,
    concurrent_max: usize,
    leader: u8,
    /// Counts elections: whoever is elected again has another lead than before.
    reign: u64,
    servers: [Memory; 2],
    facts: Facts,
    census: Census,
}

fn address(machine: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, machine)
}

fn traits(machine: u8) -> Traits {
    Traits {
        rack: Rack(u32::from(machine / 8)),
        role: "cs".into(),
        machine_type: "type1".into(),
        version: None,
        power_domain: None,
    }
}

/// Machines 0 to 3 are control planes; 20 and later are not in the cluster, and nobody knows how to repair 23.
fn world() -> World {
    let all: Vec<Traits> = (0..MACHINES).map(traits).collect();
    let nodes = (0..20).map(|machine| (address(machine), machine < 4)).collect();
    let facts = Facts { nodes, ..Facts::default() };
    World {
        now: "2026-01-01T00:00:00Z".parse().expect("a time"),
        skews: [SignedDuration::ZERO; 2],
        reports: BTreeMap::new(),
        old_reports: BTreeMap::new(),
        stored: Machinery::default(),
        settings: 0,
        concurrent_max: 2,
        leader: 0,
        reign: 0,
        servers: Default::default(),
        facts,
        census: Census::of(&all),
    }
}

impl World {
    fn procedures(&self) -> Procedures {
        let step = json!({ "action": "power-cycle", "watch_seconds": 600 });
        let drained = json!({ "action": "bmc-reset", "need_drain": true });
        let operation = |name: &str| Operation {
            machine_type: "type1".into(),
            name: name.into(),
            steps: vec![step.clone(), drained.clone(), step.clone()],
        };
        procedures(&[operation("unhealthy"), operation("unreachable")], self.concurrent_max)
    }

    /// What the clock of a server says.
    fn clock(&self, server: u8) -> Timestamp {
        self.now + self.skews[usize::from(server)]
    }

    /// The list of broken machines, as a server counts their ages.
    fn failures(&self, server: u8, old: bool, twice: bool) -> Vec<Failure> {
        let reports = if old { &self.old_reports } else { &self.reports };
        let failure = |(machine, (state, since)): (&u8, &(HealthState, Timestamp))| {
            let mut traits = traits(*machine);
            if *machine == 23 {
                traits.machine_type = "type9".into();
            }
            Failure {
                serial: Serial::new(format!("m{machine}")).expect("a serial"),
                address: (*machine != 22).then(|| address(*machine)),
                state: *state,
                age: Duration::try_from(self.clock(server).duration_since(*since)).unwrap_or_default(),
                traits,
                opinion: SecondOpinion::default(),
                broken_before: Duration::ZERO,
                hands_off: None,
            }
        };
        let mut failures: Vec<Failure> = reports.iter().map(failure).collect();
        if twice {
            failures.extend(failures.clone());
        }
        failures
    }

    fn happen(&mut self, event: &Event) -> Result<(), TestCaseError> {
        let before = self.stored.entries.clone();
        match event {
            Event::Report { machine, state } => self.report(*machine, *state),
            Event::RackReport { rack, broken } => {
                (rack * 8..rack * 8 + 8)
                    .for_each(|machine| self.report(machine, broken.then_some(HealthState::Unreachable)));
            }
            Event::Clock { seconds } => self.now += SignedDuration::from_secs(*seconds),
            Event::Skew { server, seconds } => {
                self.skews[usize::from(*server)] = SignedDuration::from_secs(*seconds);
            }
            Event::Read { server } => self.read(*server),
            Event::Round { server, old, twice } => self.round(*server, *old, *twice)?,
            Event::Next { server } => self.next(*server)?,
            Event::Act { server, random } => self.act(*server, *random)?,
            Event::Restart { server } => self.servers[usize::from(*server)] = Memory::default(),
            Event::Elect => (self.leader, self.reign) = (1 - self.leader, self.reign + 1),
            other => self.operate(other),
        }
        self.check(&before)
    }

    fn report(&mut self, machine: u8, state: Option<HealthState>) {
        self.old_reports = self.reports.clone();
        match state {
            Some(state) if self.reports.get(&machine).is_none_or(|(known, _)| *known != state) => {
                self.reports.insert(machine, (state, self.now));
            }
            Some(_) => {}
            None => drop(self.reports.remove(&machine)),
        }
    }

    fn operate(&mut self, event: &Event) {
        let entries = &mut self.stored.entries;
        match event {
            Event::Drained { machine } => drop(self.facts.drained.insert(address(*machine))),
            Event::Healthy { machine, yes: true } => drop(self.facts.healthy.insert(address(*machine))),
            Event::Healthy { machine, yes: false } => drop(self.facts.healthy.remove(&address(*machine))),
            Event::Delete { place } => {
                let place = usize::from(*place) % entries.len().max(1);
                entries.values_mut().skip(place).take(1).for_each(|entry| entry.deleted = true);
            }
            Event::DeleteFinished => {
                entries.values_mut().filter(|entry| entry.is_finished()).for_each(|entry| entry.deleted = true);
            }
            Event::Add { machine } => {
                // The store refuses a second repair of one machine.
                let active = |entry: &Entry| entry.address == address(*machine) && !entry.is_finished();
                if !entries.values().any(active) {
                    let entry = blank(address(*machine), "type1".into(), "unhealthy".into(), self.now);
                    self.stored.add(entry);
                }
            }
            Event::ResetBackoff => entries
                .values_mut()
                .filter(|entry| !entry.is_finished())
                .for_each(|entry| entry.backoff = Default::default()),
            Event::Acknowledge => {
                if let Some(incident) = self.stored.incidents.iter_mut().find(|incident| incident.is_open()) {
                    let (by, reason) = Default::default();
                    incident.phase = Phase::Acknowledged { by, at: self.now, reason };
                }
            }
            other => {
                let settings = &mut self.stored.settings;
                match other {
                    Event::Max { entries } => settings.entries_max = *entries,
                    Event::FinishedCount { seconds } => settings.finished_counts = seconds.map(Duration::from_secs),
                    Event::Concurrent { max } => self.concurrent_max = *max,
                    Event::Enable { yes } => settings.enabled = *yes,
                    Event::Guard { yes } => settings.guard.enabled = *yes,
                    _ => {}
                }
                self.settings += 1;
            }
        }
    }

    fn read(&mut self, server: u8) {
        let judgement = self.stored.judge(&self.failures(server, false, false), &self.census, self.clock(server));
        let read = Read { stored: self.stored.clone(), settings: self.settings, reign: self.reign, judgement };
        self.servers[usize::from(server)] = Memory { read: Some(read), ..Memory::default() };
    }

    /// A round of the enqueuer: what was read may be old, and so may the list of broken machines.
    fn round(&mut self, server: u8, old: bool, twice: bool) -> Result<(), TestCaseError> {
        let Some(Read { stored, settings, reign, .. }) = self.servers[usize::from(server)].read.clone() else {
            return Ok(());
        };
        let now = self.clock(server);
        let failures = self.failures(server, old, twice);
        let judgement = stored.judge(&failures, &self.census, now);
        let cluster: BTreeSet<Ipv4Addr> = self.facts.nodes.keys().copied().collect();
        let decision = stored.decide(&failures, &judgement, Some(&cluster), &self.procedures(), now);
        prop_assert_eq!(decision.verdicts.len(), failures.len(), "every machine has a verdict");
        let same = (self.stored.next_entry, self.stored.next_incident, self.settings, self.reign)
            == (stored.next_entry, stored.next_incident, settings, reign);
        if server != self.leader || !same {
            return Ok(());
        }
        self.stored.put_round(&failures, &judgement, &decision, now);
        if decision.enqueue.is_empty() {
            return Ok(());
        }
        let Machinery { entries, settings, incidents, .. } = &self.stored;
        let ended = |entry: &Entry| Duration::try_from(now.duration_since(entry.since())).unwrap_or_default();
        let counts =
            |entry: &&Entry| !entry.is_finished() || settings.finished_counts.is_none_or(|time| ended(entry) < time);
        let counted = entries.values().filter(counts).count();
        prop_assert!(counted <= settings.entries_max as usize, "{counted} entries, {} allowed", settings.entries_max);
        for new in &decision.enqueue {
            let machine = new.address.octets()[3];
            let open = incidents.iter().find(|incident| incident.is_open() && traits(machine).is_in(&incident.group));
            let held = open.filter(|_| settings.guard.enabled && machine != 23);
            let acknowledged = stored.incidents.iter().any(|incident| {
                matches!(incident.phase, Phase::Acknowledged { .. })
                    && new.serial.as_ref().is_some_and(|serial| incident.members.contains(serial))
            });
            prop_assert!(held.is_none() || acknowledged, "{:?} is held by {held:?}", new.serial);
        }
        Ok(())
    }

    fn next(&mut self, server: u8) -> Result<(), TestCaseError> {
        // Nobody decides twice on what was read once.
        let Some(Read { stored, judgement, reign, .. }) = self.servers[usize::from(server)].read.take() else {
            return Ok(());
        };
        let next = stored.next(&self.facts, &judgement, &self.procedures(), self.clock(server));
        self.every_entry_is_explained(&stored, &next)?;
        let entry = |(index, act): &(u64, Act)| (stored.entries[index].clone(), act.clone());
        let memory = &mut self.servers[usize::from(server)];
        memory.next = next.acts.iter().rev().map(entry).collect();
        memory.reign = reign;
        memory.concurrent_max = self.concurrent_max;
        memory.judged = judgement;
        Ok(())
    }

    fn every_entry_is_explained(&self, stored: &Machinery, next: &Next) -> Result<(), TestCaseError> {
        for index in stored.entries.keys() {
            let acts = next.acts.iter().filter(|(other, _)| other == index).count();
            prop_assert_eq!(acts + usize::from(next.waits.contains_key(index)), 1, "entry {}: {:?}", index, next);
        }
        Ok(())
    }

    /// One act is written, if the entry is where it was and the server still leads.
    fn act(&mut self, server: u8, random: u64) -> Result<(), TestCaseError> {
        let memory = &mut self.servers[usize::from(server)];
        let (reign, most) = (memory.reign, memory.concurrent_max);
        let Some((read, act)) = memory.next.pop() else { return Ok(()) };
        let place = |entry: &Entry| (entry.status, entry.step, entry.step_status, entry.deleted, entry.changed_at);
        let same = self.stored.entries.get(&read.index).is_some_and(|entry| place(entry) == place(&read));
        if server != self.leader || reign != self.reign || !same {
            return Ok(());
        }
        // A machine that is held between two steps takes no place from others.
        let judgement = memory.judged.clone();
        let rests = |entry: &Entry| {
            let held = entry.serial.as_ref().is_some_and(|serial| judgement.why_held(serial).is_some());
            held && entry.step_status == StepStatus::Watching
        };
        let busy = |stored: &Machinery| stored.entries.values().filter(|entry| is_busy(entry) && !rests(entry)).count();
        let before = busy(&self.stored);
        let (procedures, now) = (self.procedures(), self.clock(server));
        self.stored.put(read.index, &act, &procedures, now, random);
        // One machine more is worked on only if there was a place.
        let after = busy(&self.stored);
        prop_assert!(after <= before || after <= most, "{after} of {most} machines are worked on after {act:?}");
        Ok(())
    }

    fn check(&self, before: &BTreeMap<u64, Entry>) -> Result<(), TestCaseError> {
        let mut active = BTreeSet::new();
        for entry in self.stored.entries.values().filter(|entry| !entry.is_finished()) {
            prop_assert!(active.insert(entry.address), "two active entries of {}", entry.address);
        }
        for (index, old) in before.iter().filter(|(_, entry)| entry.is_finished()) {
            match self.stored.entries.get(index) {
                Some(new) => prop_assert_eq!(&Entry { deleted: old.deleted, ..new.clone() }, old),
                None => prop_assert!(old.deleted, "entry {} went although nobody deleted it", index),
            }
        }
        Ok(())
    }

    /// From here on the world is quiet: one server, one clock, nothing works again. Every drain and every watch ends in its time, and
    /// once pods leave their nodes every entry does.
    fn settle(&mut self) -> Result<(), TestCaseError> {
        self.skews = [SignedDuration::ZERO; 2];
        self.stored.settings.enabled = true;
        self.reports.clear();
        self.facts.healthy.clear();
        self.facts.drained.clear();
        let mut busy_since: BTreeMap<u64, (Entry, Timestamp)> = BTreeMap::new();
        for round in 0..500 {
            if round == 150 {
                self.facts.drained = self.facts.nodes.keys().copied().collect();
            }
            self.now += SignedDuration::from_mins(2);
            self.read(self.leader);
            self.round(self.leader, false, false)?;
            self.read(self.leader);
            self.next(self.leader)?;
            while !self.servers[usize::from(self.leader)].next.is_empty() {
                self.act(self.leader, round)?;
            }
            for entry in self.stored.entries.values().filter(|entry| is_busy(entry)) {
                let known = busy_since.entry(entry.index).or_insert_with(|| (entry.clone(), self.now));
                if known.0 != *entry {
                    *known = (entry.clone(), self.now);
                }
                // Waits of its own, and those of the ones before it: more than may be worked on were, before a limit was lowered.
                let time = self.now.duration_since(known.1);
                prop_assert!(time <= SignedDuration::from_mins(4 * 24), "{entry:?} has been so for {time}");
            }
        }
        let left: Vec<&Entry> = self.stored.entries.values().filter(|entry| !entry.is_finished()).collect();
        prop_assert!(left.is_empty(), "{left:?}");
        Ok(())
    }
}

fn is_busy(entry: &Entry) -> bool {
    entry.status == Status::Processing && entry.step_status != StepStatus::Waiting
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("regressions"))),
        ..ProptestConfig::with_cases(150)
    })]

    #[test]
    fn never_more_repairs_than_allowed(events in prop::collection::vec(events(), 1..200)) {
        let mut world = world();
        for event in &events {
            world.happen(event)?;
        }
        world.settle()?;
    }
}
