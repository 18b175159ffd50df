//! The data centre: what is really wrong with its machines, and what the monitor says.

use std::{collections::BTreeMap, net::Ipv4Addr, time::Duration};

use sabakan_domain::{
    lifecycle::HealthState,
    machine::Rack,
    repair::guard::{Failure, SecondOpinion, Traits},
    words::Serial,
};

use super::chance::{below, happens};

pub const RACKS: u32 = 100;
pub const PER_RACK: u32 = 28;
pub const MACHINES: u32 = RACKS * PER_RACK;
pub const DAY: u32 = 24 * 60;

/// The rack that loses power on the second day, and the one whose switch dies on the third.
const CUT_RACK: u32 = 17;
const CUT: std::ops::Range<u32> = DAY + 14 * 60..DAY + 14 * 60 + 40;
const SWITCH_RACK: u32 = 42;
const SWITCH: std::ops::Range<u32> = 2 * DAY + 3 * 60..2 * DAY + 5 * 60;
/// The firmware spreads on the fourth day, for eight hours.
const BATCH: std::ops::Range<u32> = 3 * DAY + 12 * 60..3 * DAY + 20 * 60;
const BATCH_SIZE: u32 = 60;
/// The monitor cannot see on the sixth day.
const BLIND: std::ops::Range<u32> = 5 * DAY + 11 * 60..5 * DAY + 11 * 60 + 30;

/// Why a machine does not work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// By itself.
    Alone,
    /// It comes and goes.
    Flap { until: u32 },
    /// The firmware: no power cycle helps.
    Batch,
}

/// What is really wrong with a machine.
#[derive(Debug, Clone, Copy)]
pub struct Fault {
    pub cause: Cause,
    pub since: u32,
    state: HealthState,
    /// A power cycle may help.
    pub curable: bool,
}

#[derive(Debug, Clone)]
pub struct Machine {
    pub serial: Serial,
    pub address: Ipv4Addr,
    pub traits: Traits,
    pub fault: Option<Fault>,
    booting_until: u32,
    /// What the monitor reports, and since when.
    reported: (HealthState, u32),
    /// What it is about to report.
    pending: Option<(HealthState, u32)>,
    /// How often its power was cycled.
    cycles: u64,
}

/// What a power cycle came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cycle {
    Cured,
    Useless,
    Harmful,
}

pub struct Place {
    seed: u64,
    pub machines: Vec<Machine>,
    /// What will break by itself, by minute.
    to_come: BTreeMap<u32, Vec<ToCome>>,
}

/// Which machine, why, what is seen of it, and whether a power cycle may help.
type ToCome = (u32, Cause, HealthState, bool);

/// Everything that breaks by itself in the week.
fn to_come(seed: u64) -> BTreeMap<u32, Vec<ToCome>> {
    let mut all: BTreeMap<u32, Vec<ToCome>> = BTreeMap::new();
    for (n, day) in (0..MACHINES).flat_map(|n| (0..7).map(move |day| (n, day))) {
        let about = |what: u64| [seed, what, u64::from(n), u64::from(day)];
        let mut add = |minute: u32, cause, state, curable| {
            all.entry(day * DAY + minute).or_default().push((n, cause, state, curable));
        };
        // One per cent a day; two of three can be helped by a power cycle.
        if happens(10_000, &about(1)) {
            let unreachable = happens(550_000, &about(2));
            let state = if unreachable { HealthState::Unreachable } else { HealthState::Unhealthy };
            add(below(DAY, &about(3)), Cause::Alone, state, happens(650_000, &about(4)));
        }
        // Eight machines flap six times a day, for up to 25 minutes.
        for flap in (0..6).filter(|_| n % 350 == 123) {
            let minute = below(DAY, &[about(5).as_slice(), &[flap]].concat());
            let until = day * DAY + minute + 4 + below(22, &[about(6).as_slice(), &[flap]].concat());
            add(minute, Cause::Flap { until }, HealthState::Unhealthy, false);
        }
    }
    for n in (0..MACHINES).filter(|n| is_of_batch(*n)) {
        let minute = BATCH.start + below(BATCH.end - BATCH.start, &[seed, 10, u64::from(n)]);
        all.entry(minute).or_default().push((n, Cause::Batch, HealthState::Unhealthy, false));
    }
    all
}

fn traits(n: u32) -> Traits {
    let place = n % PER_RACK;
    Traits {
        rack: Rack(n / PER_RACK),
        role: if place < 18 { "cs" } else { "ss" }.to_owned(),
        machine_type: format!("t{}", n % 4),
        version: Some(format!("v{}", n / 4 % 5)),
        power_domain: Some(format!("pdu{}", n / PER_RACK / 2)),
    }
}

impl Place {
    pub fn new(seed: u64) -> Place {
        let machine = |n: u32| Machine {
            serial: Serial::new(format!("m{n:04}")).expect("a serial"),
            address: Ipv4Addr::from(0x0a00_0000 + n),
            traits: traits(n),
            fault: None,
            booting_until: 0,
            reported: (HealthState::Healthy, 0),
            pending: None,
            cycles: 0,
        };
        Place { seed, machines: (0..MACHINES).map(machine).collect(), to_come: to_come(seed) }
    }

    pub fn index(address: Ipv4Addr) -> usize {
        (u32::from(address) - 0x0a00_0000) as usize
    }

    pub fn in_cut(&self, n: usize, now: u32) -> bool {
        self.machines[n].traits.rack == Rack(CUT_RACK) && CUT.contains(&now)
    }

    pub fn in_switch(&self, n: usize, now: u32) -> bool {
        self.machines[n].traits.rack == Rack(SWITCH_RACK) && SWITCH.contains(&now)
    }

    pub fn is_blind(now: u32) -> bool {
        BLIND.contains(&now)
    }

    /// What happens by itself in this minute.
    pub fn happen(&mut self, now: u32) {
        for machine in &mut self.machines {
            if let Some(Fault { cause: Cause::Flap { until }, .. }) = machine.fault
                && until <= now
            {
                machine.fault = None;
            }
        }
        if now == CUT.end {
            // Power returns; two stay dark, the others boot.
            let first = CUT_RACK * PER_RACK;
            for n in first..first + PER_RACK {
                let machine = &mut self.machines[n as usize];
                machine.booting_until = now + 3 + below(6, &[self.seed, 13, u64::from(n)]);
                if matches!(n % PER_RACK, 5 | 19) {
                    machine.breaks(Cause::Alone, now, HealthState::Unreachable, true);
                }
            }
        }
        for (n, cause, state, curable) in self.to_come.remove(&now).unwrap_or_default() {
            self.machines[n as usize].breaks(cause, now, state, curable);
        }
    }

    /// What the monitor sees and, a little later, reports.
    pub fn monitor(&mut self, now: u32) {
        let special = Place::is_blind(now) || CUT.contains(&now) || SWITCH.contains(&now);
        for n in 0..MACHINES {
            let (id, place) = (u64::from(n), n as usize);
            if !special && self.machines[place].is_quiet(now) {
                continue;
            }
            let unseen = Place::is_blind(now) && happens(950_000, &[self.seed, 6, id]);
            let dark =
                self.in_cut(place, now) || self.in_switch(place, now) || self.machines[place].booting_until > now;
            let machine = &mut self.machines[place];
            let seen = match machine.fault {
                _ if unseen || dark => HealthState::Unreachable,
                Some(fault) => fault.state,
                None => HealthState::Healthy,
            };
            // Reports of many trickle in over six minutes; that of one takes a minute.
            let delay = if special && seen != HealthState::Healthy { below(6, &[self.seed, 7, id]) } else { 1 };
            match machine.pending {
                _ if seen == machine.reported.0 => machine.pending = None,
                Some((state, at)) if state == seen && at <= now => {
                    (machine.reported, machine.pending) = ((seen, now), None);
                }
                Some((state, _)) if state == seen => {}
                _ if delay == 0 => (machine.reported, machine.pending) = ((seen, now), None),
                _ => machine.pending = Some((seen, now + delay)),
            }
        }
    }

    /// Machines that are reported as broken.
    pub fn failures(&self, now: u32) -> Vec<Failure> {
        let broken = self.machines.iter().filter(|machine| machine.reported.0 != HealthState::Healthy);
        let failure = |machine: &Machine| Failure {
            serial: machine.serial.clone(),
            address: Some(machine.address),
            state: machine.reported.0,
            age: Duration::from_secs(60 * u64::from(now - machine.reported.1)),
            traits: machine.traits.clone(),
            opinion: SecondOpinion::default(),
            broken_before: Duration::ZERO,
            hands_off: None,
        };
        broken.map(failure).collect()
    }

    pub fn is_reported(&self, n: usize) -> bool {
        self.machines[n].reported.0 != HealthState::Healthy
    }

    /// Repair cycles the power of a machine.
    pub fn cycle(&mut self, n: usize, now: u32) -> Cycle {
        let is_out = self.in_cut(n, now);
        let (seed, machine) = (self.seed, &mut self.machines[n]);
        machine.cycles += 1;
        if is_out {
            return Cycle::Useless;
        }
        machine.booting_until = now + 5;
        let luck = happens(700_000, &[seed, 8, n as u64, machine.cycles]);
        match machine.fault {
            None => Cycle::Harmful,
            Some(fault) if fault.curable && luck => {
                machine.fault = None;
                Cycle::Cured
            }
            Some(_) => Cycle::Useless,
        }
    }

    /// A node is rebooted on purpose; three of a hundred do not come back.
    pub fn reboot(&mut self, n: usize, now: u32) {
        let seed = self.seed;
        let machine = &mut self.machines[n];
        machine.booting_until = now + 8;
        if happens(30_000, &[seed, 9, n as u64, u64::from(now)]) {
            machine.breaks(Cause::Alone, now, HealthState::Unreachable, true);
        }
    }

    pub fn is_booting(&self, n: usize, now: u32) -> bool {
        self.machines[n].booting_until > now
    }
}

impl Machine {
    fn is_quiet(&self, now: u32) -> bool {
        let healthy = self.reported.0 == HealthState::Healthy && self.pending.is_none();
        healthy && self.fault.is_none() && self.booting_until <= now
    }

    /// Breaks, unless it is broken already.
    fn breaks(&mut self, cause: Cause, since: u32, state: HealthState, curable: bool) {
        if self.fault.is_none() {
            self.fault = Some(Fault { cause, since, state, curable });
        }
    }

    /// A person mends it.
    pub fn mend(&mut self) {
        (self.fault, self.booting_until) = (None, 0);
    }
}

/// The first sixty machines of type t2 with version v3 get the firmware.
fn is_of_batch(n: u32) -> bool {
    n % 20 == 14 && n / 20 < BATCH_SIZE * 2 && (n / 20).is_multiple_of(2)
}
