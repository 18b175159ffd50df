//! Lives through the week: the monitor reports, repair decides and acts, and a person comes every morning.

use std::{collections::BTreeSet, net::Ipv4Addr, time::Duration};

use jiff::{SignedDuration, Timestamp};
use sabakan_domain::repair::{
    enqueue::Verdict,
    entry::{Backoff, Entry, Status, StepStatus},
    guard::{Census, Failure, GuardRules, Traits},
    incident::Judgement,
    procedure::Procedures,
    queue::Act,
    reboot::{RebootEntry, RebootStatus},
};
use serde_json::json;

use super::{
    super::{
        machinery::{Facts, Machinery, Settings},
        procedures::{Operation, procedures},
    },
    chance::{below, mixed},
    ledger::{Ledger, Outcome},
    place::{Cause, Cycle, DAY, MACHINES, Machine, Place},
};

/// Pods need so long to leave a node.
const DRAIN_MINUTES: i64 = 3;

struct Week {
    seed: u64,
    place: Place,
    machinery: Machinery,
    procedures: Procedures,
    census: Census,
    facts: Facts,
    cluster: BTreeSet<Ipv4Addr>,
    ledger: Ledger,
    /// Since when each machine that broke alone has been broken.
    seen: Vec<Option<u32>>,
}

/// Lives through the first days of a week.
pub fn live(seed: u64, days: u32, entries_max: u32, guard: bool) -> Ledger {
    let place = Place::new(seed);
    let all: Vec<Traits> = place.machines.iter().map(|machine| machine.traits.clone()).collect();
    let nodes = place.machines.iter().map(|machine| (machine.address, false)).collect();
    let facts = Facts { nodes, ..Facts::default() };
    let settings = Settings {
        entries_max,
        wait_rebooting: Duration::from_secs(15 * 60),
        guard: GuardRules { enabled: guard, ..GuardRules::default() },
        ..Settings::default()
    };
    let mut week = Week {
        seed,
        place,
        machinery: Machinery { settings, ..Machinery::default() },
        procedures: two_cycles(),
        census: Census::of(&all),
        cluster: facts.nodes.keys().copied().collect(),
        facts,
        ledger: Ledger::default(),
        seen: vec![None; MACHINES as usize],
    };
    for now in 0..days * DAY {
        week.minute(now);
    }
    week.end()
}

/// The power is cycled twice, each time with a quarter of an hour to come back; unhealthy machines are drained first.
fn two_cycles() -> Procedures {
    let step = |drain: bool| json!({ "action": "power-cycle", "need_drain": drain, "watch_seconds": 900 });
    let operation = |n: u32, name: &str, drain: bool| Operation {
        machine_type: format!("t{n}"),
        name: name.to_owned(),
        steps: vec![step(drain), step(drain)],
    };
    let all: Vec<Operation> =
        (0..4).flat_map(|n| [operation(n, "unreachable", false), operation(n, "unhealthy", true)]).collect();
    procedures(&all, 3)
}

fn clock(now: u32) -> Timestamp {
    let start: Timestamp = "2026-03-02T00:00:00Z".parse().expect("a time");
    start + SignedDuration::from_mins(i64::from(now))
}

impl Week {
    fn minute(&mut self, now: u32) {
        self.place.happen(now);
        self.reboots(now);
        self.place.monitor(now);
        self.person(now);
        let failures = self.place.failures(now);
        let judgement = self.machinery.judge(&failures, &self.census, clock(now));
        self.enqueue(&failures, &judgement, now);
        self.work(&judgement, now);
        self.observe(now);
    }

    /// About forty nodes a day are rebooted on purpose, between ten and four.
    fn reboots(&mut self, now: u32) {
        // The boot check asks the monitor as well.
        let place = &self.place;
        let under_way = |n: usize| place.is_booting(n, now) || place.is_reported(n);
        self.machinery.reboots.retain(|entry| under_way(Place::index(entry.node)));
        if !(10 * 60..16 * 60).contains(&(now % DAY)) || !now.is_multiple_of(9) {
            return;
        }
        let n = below(MACHINES, &[self.seed, 11, u64::from(now)]) as usize;
        if self.place.machines[n].fault.is_some() {
            return;
        }
        self.place.reboot(n, now);
        let node = self.place.machines[n].address;
        let (status, backoff) = (RebootStatus::Rebooting, Backoff::default());
        self.machinery.reboots.push(RebootEntry {
            index: u64::from(now),
            node,
            status,
            changed_at: Some(clock(now)),
            backoff,
            note: String::new(),
        });
    }

    /// From nine to five a person mends one machine every seven minutes: those whose repair failed, then those of open incidents and
    /// those that have been broken for a day. Its entry is deleted when the machine works; entries that succeeded are, at nine.
    fn person(&mut self, now: u32) {
        let failed = |entry: &Entry| entry.status == Status::Failed;
        for entry in self.machinery.entries.values_mut() {
            let works = !self.place.is_reported(Place::index(entry.address));
            let nine = now % DAY == 9 * 60 && entry.status == Status::Succeeded;
            entry.deleted |= nine || failed(entry) && works;
        }
        if !(9 * 60..17 * 60).contains(&(now % DAY)) || !now.is_multiple_of(7) {
            return;
        }
        let failed: BTreeSet<Ipv4Addr> =
            self.machinery.entries.values().filter(|entry| failed(entry)).map(|entry| entry.address).collect();
        let open = self.machinery.incidents.iter().filter(|incident| incident.is_open());
        let open: BTreeSet<_> = open.flat_map(|incident| &incident.members).collect();
        let waits = |machine: &Machine| {
            let since = machine.fault.filter(|fault| !matches!(fault.cause, Cause::Flap { .. }))?.since;
            let wanted = failed.contains(&machine.address) || open.contains(&machine.serial) || now - since >= DAY;
            wanted.then_some((!failed.contains(&machine.address), since))
        };
        let first = self.place.machines.iter().enumerate().filter_map(|(n, machine)| Some((waits(machine)?, n))).min();
        if let Some((_, n)) = first {
            let machine = &mut self.place.machines[n];
            machine.mend();
            self.ledger.by_hand += 1;
            let under_way = self.machinery.entries.values_mut().filter(|entry| entry.address == machine.address);
            under_way.filter(|entry| !entry.is_finished()).for_each(|entry| entry.deleted = true);
        }
    }

    fn enqueue(&mut self, failures: &[Failure], judgement: &Judgement, now: u32) {
        let decision = self.machinery.decide(failures, judgement, Some(&self.cluster), &self.procedures, clock(now));
        for new in &decision.enqueue {
            let n = Place::index(new.address);
            let unhelpful = self.place.in_cut(n, now) || self.place.in_switch(n, now);
            let unseen = Place::is_blind(now) && self.place.machines[n].fault.is_none();
            self.ledger.let_in += usize::from(unhelpful || unseen);
        }
        for (failure, (_, verdict)) in failures.iter().zip(&decision.verdicts) {
            let n = Place::index(failure.address.expect("every machine has one"));
            let alone = self.place.machines[n].fault.filter(|fault| fault.cause == Cause::Alone);
            match verdict {
                Verdict::Held { .. } => {
                    self.ledger.held.insert(u32::try_from(n).expect("small"));
                    self.ledger.alone_held_minutes += u64::from(alone.is_some());
                }
                Verdict::NoRoom { .. } => {
                    self.ledger.no_room_minutes += u64::from(alone.is_some_and(|fault| fault.curable));
                }
                _ => {}
            }
        }
        for opened in self.machinery.put_round(failures, judgement, &decision, clock(now)) {
            let (day, hour, minute) = (now / DAY + 1, now % DAY / 60, now % 60);
            let line = format!("{}, day {day} {hour:02}:{minute:02}: {}", opened.group, opened.because);
            self.ledger.incidents.push(line);
        }
    }

    fn work(&mut self, judgement: &Judgement, now: u32) {
        let time = clock(now);
        let (mut healthy, mut drained) = (BTreeSet::new(), BTreeSet::new());
        for entry in self.machinery.entries.values().filter(|entry| !entry.is_finished()) {
            // The health check asks the registry, and so the monitor.
            if !self.place.is_reported(Place::index(entry.address)) {
                healthy.insert(entry.address);
            }
            let gone = time.duration_since(entry.since()) >= SignedDuration::from_mins(DRAIN_MINUTES);
            if entry.step_status == StepStatus::Draining && gone {
                drained.insert(entry.address);
            }
        }
        (self.facts.healthy, self.facts.drained) = (healthy, drained);
        let next = self.machinery.next(&self.facts, judgement, &self.procedures, time);
        self.machinery.cordoned.retain(|address| !next.uncordon.contains(address));
        for (index, act) in &next.acts {
            let n = Place::index(self.machinery.entries[index].address);
            self.machinery.put(*index, act, &self.procedures, time, mixed(&[self.seed, 12, *index, u64::from(now)]));
            if matches!(act, Act::Execute { .. }) {
                self.execute(*index, n, now);
            }
        }
    }

    fn execute(&mut self, index: u64, n: usize, now: u32) {
        let ledger = &mut self.ledger;
        if !ledger.outcomes.contains_key(&index) {
            ledger.in_cut += usize::from(self.place.in_cut(n, now));
            ledger.in_switch += usize::from(self.place.in_switch(n, now));
            let fault = self.place.machines[n].fault;
            ledger.while_blind += usize::from(Place::is_blind(now) && fault.is_none());
            ledger.of_batch += usize::from(fault.is_some_and(|fault| fault.cause == Cause::Batch));
        }
        let outcome = match self.place.cycle(n, now) {
            Cycle::Cured => Outcome::Useful,
            Cycle::Useless => Outcome::Useless,
            Cycle::Harmful => Outcome::Harmful,
        };
        let known = ledger.outcomes.entry(index).or_insert(outcome);
        *known = (*known).max(outcome);
    }

    /// Counts how long what broke alone stays broken.
    fn observe(&mut self, now: u32) {
        for (n, machine) in self.place.machines.iter().enumerate() {
            let broken = machine.fault.filter(|fault| fault.cause == Cause::Alone).map(|fault| fault.since);
            match (broken, self.seen[n]) {
                (Some(_), None) => self.ledger.broke_alone += 1,
                (None, Some(since)) => self.ledger.minutes.push(now - since),
                _ => {}
            }
            self.seen[n] = broken;
        }
    }

    fn end(mut self) -> Ledger {
        let waits = |entry: &&Entry| entry.status == Status::Failed;
        let failed: BTreeSet<Ipv4Addr> =
            self.machinery.entries.values().filter(waits).map(|entry| entry.address).collect();
        let broken = self.place.machines.iter().filter(|machine| machine.fault.is_some());
        self.ledger.waiting = broken.filter(|machine| failed.contains(&machine.address)).count();
        self.ledger.close();
        self.ledger
    }
}
