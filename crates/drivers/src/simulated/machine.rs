//! One simulated machine. It has no task of its own: what has become true since the last look is worked out at the next one
//! ([`State::settle`]), so that an idle machine costs its memory and nothing else.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use sabakan_domain::provision::{
    boot::BootDevice,
    hardware::Configuration,
    power::{PowerState, PowerTarget},
};
use tokio::{sync::Notify, task::AbortHandle, time::Instant};

use super::{
    calls::CallLog,
    fault::{Call, Fault, Point},
    fleet::FleetConfig,
    hardware::{Hardware, Identity},
    latency::{scatter, stretched},
    limits::{FAULTS_MAX, TASKS_KEPT},
    ramdisk::Session,
};
use crate::{Finished, TaskId, TaskState};

/// What runs on a simulated machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Running {
    /// It is off.
    Off,
    /// It has power and starts.
    Starting,
    /// The ramdisk.
    Ramdisk,
    /// What was deployed.
    Instance,
    /// It looked for a system on its disks and found none.
    Nothing,
}

pub(super) struct Machine {
    pub(super) serial: String,
    pub(super) config: Arc<FleetConfig>,
    /// Tells the one who sends heartbeats that there may be one sooner.
    pub(super) wake: Notify,
    state: Mutex<State>,
}

pub(super) struct State {
    pub(super) power: PowerState,
    /// The power that is coming, and when.
    pending: Option<(Instant, PowerState)>,
    pub(super) once: Option<BootDevice>,
    pub(super) every: BootDevice,
    runs: Runs,
    /// Starts so far; tells a ramdisk from the one before it.
    pub(super) boots: u32,
    /// The ramdisk that runs.
    pub(super) ramdisk: Option<Box<Session>>,
    pub(super) hardware: Hardware,
    tasks: Vec<Task>,
    task_number: u32,
    /// From the code.
    faults: Vec<Fault>,
    /// From `driver_info`, as of the last call.
    settings_faults: Arc<[Fault]>,
    flapped: bool,
    /// Until when the controller restarts.
    restarts_until: Option<Instant>,
    pub(super) log: CallLog,
    pub(super) heartbeats: Option<AbortHandle>,
}

#[derive(Debug, Clone, Copy)]
enum Runs {
    Nothing,
    Starting { until: Instant, network: bool },
    Ramdisk,
    Instance,
}

struct Task {
    number: u32,
    /// `None`: it never ends.
    ends: Option<Instant>,
    effect: Effect,
}

/// What a task does when it ends.
pub(super) enum Effect {
    Nothing,
    Fail(String),
    Firmware(String),
    Restore(Box<Configuration>),
}

/// How a step ends that does not end well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BadEnd {
    Never,
    Failure,
}

/// What stands in the way of a call.
pub(super) enum Obstacle {
    /// No answer comes; the caller waits for it in vain.
    Silence,
    /// There is nobody to connect to.
    NoConnection,
    Credentials,
    Failure,
}

impl Machine {
    pub(super) fn new(serial: &str, config: Arc<FleetConfig>) -> Machine {
        let state = State {
            power: PowerState::Off,
            pending: None,
            once: None,
            every: BootDevice::Disk,
            runs: Runs::Nothing,
            boots: 0,
            ramdisk: None,
            hardware: Hardware::default(),
            tasks: Vec::new(),
            task_number: 0,
            faults: Vec::new(),
            settings_faults: Arc::from([]),
            flapped: false,
            restarts_until: None,
            log: CallLog::default(),
            heartbeats: None,
        };
        Machine { serial: serial.to_owned(), config, wake: Notify::new(), state: Mutex::new(state) }
    }

    pub(super) fn id(&self) -> Identity<'_> {
        Identity { seed: self.config.seed, serial: &self.serial }
    }

    /// The machine as it is now.
    pub(super) fn look(&self) -> MutexGuard<'_, State> {
        // A panic of somebody else leaves a machine in some state, as a power cut would.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.settle(self, Instant::now());
        state
    }

    /// A duration, stretched for this machine and this moment of its life.
    pub(super) fn lasting(&self, duration: Duration, moment: u64) -> Duration {
        if duration.is_zero() { duration } else { stretched(duration, scatter(self.config.seed, &self.serial, moment)) }
    }
}

impl State {
    /// Makes true what has become true by `now`.
    pub(super) fn settle(&mut self, machine: &Machine, now: Instant) {
        if let Some((at, power)) = self.pending.filter(|(at, _)| *at <= now) {
            self.pending = None;
            self.take_power(machine, power, at);
        }
        if let Runs::Starting { until, network } = self.runs
            && until <= now
        {
            self.runs = match (network, self.hardware.has_image) {
                (true, _) => Runs::Ramdisk,
                (false, true) => Runs::Instance,
                (false, false) => Runs::Nothing,
            };
            // It calls as soon as it runs.
            self.ramdisk = network.then(|| Box::new(Session::new(until)));
        }
        self.settle_ramdisk(now);
        self.settle_tasks(machine, now);
    }

    fn settle_ramdisk(&mut self, now: Instant) {
        let Some(mut session) = self.ramdisk.take() else { return };
        let tears_down = self.has(&Fault::RaidLost);
        session.settle(now, &mut self.hardware, tears_down);
        self.ramdisk = Some(session);
    }

    fn settle_tasks(&mut self, machine: &Machine, now: Instant) {
        let with_volumes = !self.has(&Fault::RaidLost);
        for task in &mut self.tasks {
            if task.ends.is_none_or(|ends| ends > now) {
                continue;
            }
            match std::mem::replace(&mut task.effect, Effect::Nothing) {
                Effect::Nothing => {}
                Effect::Fail(reason) => task.effect = Effect::Fail(reason),
                Effect::Firmware(version) => self.hardware.firmware = Some(version),
                Effect::Restore(wanted) => {
                    self.hardware.restore(machine.id(), &wanted, with_volumes);
                    self.every = wanted.boot_device.unwrap_or(self.every);
                }
            }
        }
    }

    /// A power command arrived. Its effect comes later; a later command replaces one that is still to come.
    pub(super) fn command_power(&mut self, machine: &Machine, target: PowerTarget, now: Instant) {
        if self.has(&Fault::PowerStuck) {
            return;
        }
        let latencies = &machine.config.latencies;
        let off = if target.is_soft() { latencies.soft } else { latencies.power };
        let moment = self.log.total;
        match target {
            PowerTarget::On if self.power == PowerState::On => self.pending = None,
            PowerTarget::On => self.pending = Some((now + machine.lasting(latencies.power, moment), PowerState::On)),
            PowerTarget::Off | PowerTarget::SoftOff => {
                self.pending = Some((now + machine.lasting(off, moment), PowerState::Off));
            }
            PowerTarget::Reboot | PowerTarget::SoftReboot => {
                self.take_power(machine, PowerState::Off, now);
                self.pending = Some((now + machine.lasting(off, moment), PowerState::On));
            }
        }
        self.settle(machine, now);
    }

    /// The power is there, or gone, and with it what ran.
    pub(super) fn take_power(&mut self, machine: &Machine, power: PowerState, at: Instant) {
        if self.power == power {
            return;
        }
        self.power = power;
        self.ramdisk = None;
        self.runs = Runs::Nothing;
        if power == PowerState::On {
            let device = self.once.take().unwrap_or(self.every);
            self.boots += 1;
            let until = at + machine.lasting(machine.config.latencies.boot, u64::from(self.boots));
            self.runs = Runs::Starting { until, network: matches!(device, BootDevice::Pxe | BootDevice::UefiHttp) };
        }
    }

    /// The power as the controller tells it.
    pub(super) fn told_power(&mut self) -> PowerState {
        if self.has(&Fault::PowerFlaps) {
            self.flapped = !self.flapped;
            return if self.flapped { PowerState::On } else { PowerState::Off };
        }
        match (self.power, self.has(&Fault::PowerInverted)) {
            (PowerState::On, false) | (PowerState::Off, true) => PowerState::On,
            (PowerState::Off, false) | (PowerState::On, true) => PowerState::Off,
        }
    }

    pub(super) fn running(&self) -> Running {
        match self.runs {
            _ if self.power == PowerState::Off => Running::Off,
            Runs::Nothing => Running::Nothing,
            Runs::Starting { .. } => Running::Starting,
            Runs::Ramdisk => Running::Ramdisk,
            Runs::Instance => Running::Instance,
        }
    }

    /// When something happens that may lead to a heartbeat; `None`: nothing will until somebody commands it.
    pub(super) fn next_event(&self) -> Option<Instant> {
        if self.has(&Fault::RamdiskSilent) {
            return None;
        }
        match (self.pending, self.runs, &self.ramdisk) {
            (Some((at, PowerState::On)), _, _) => Some(at),
            (_, Runs::Starting { until, network: true }, _) => Some(until),
            (_, Runs::Ramdisk, Some(session)) => Some(session.next_event()),
            _ => None,
        }
    }

    pub(super) fn start_task(&mut self, machine: &Machine, effect: Effect, hangs: bool, now: Instant) -> TaskId {
        if self.tasks.len() == TASKS_KEPT {
            self.tasks.remove(0);
        }
        self.task_number += 1;
        let ends = now + machine.lasting(machine.config.latencies.task, u64::from(self.task_number));
        self.tasks.push(Task { number: self.task_number, ends: (!hangs).then_some(ends), effect });
        TaskId(self.task_number.to_string())
    }

    pub(super) fn task(&self, id: &TaskId, now: Instant) -> Option<TaskState> {
        let task = self.tasks.iter().find(|task| task.number.to_string() == id.0)?;
        Some(match (task.ends, &task.effect) {
            (Some(ends), Effect::Fail(reason)) if ends <= now => TaskState::Failed(reason.clone()),
            (Some(ends), _) if ends <= now => TaskState::Done(Finished::default()),
            (Some(_) | None, _) => TaskState::Running(String::new()),
        })
    }

    pub(super) fn restart_controller(&mut self, machine: &Machine, now: Instant) {
        self.restarts_until = Some(now + machine.config.latencies.reset);
    }

    /// Adds a fault; one that says the same is there once.
    pub(super) fn add_fault(&mut self, fault: Fault) {
        let fault = match fault {
            Fault::DropAfter(calls) => Fault::DropAfter(self.log.total + calls),
            Fault::HangAfter(calls) => Fault::HangAfter(self.log.total + calls),
            other => other,
        };
        let replaces = |old: &Fault| match (old, &fault) {
            (Fault::Hang(_) | Fault::Fail(_) | Fault::LoseAnswer(_), _) => *old == fault,
            _ => std::mem::discriminant(old) == std::mem::discriminant(&fault),
        };
        self.faults.retain(|old| !replaces(old));
        assert!(self.faults.len() < FAULTS_MAX, "more than {FAULTS_MAX} faults on one simulated machine");
        self.faults.push(fault);
    }

    pub(super) fn clear_faults(&mut self) {
        self.faults.clear();
    }

    /// Takes the faults that `driver_info` asks for.
    pub(super) fn set_settings_faults(&mut self, faults: &Arc<[Fault]>) {
        self.settings_faults = Arc::clone(faults);
    }

    pub(super) fn faults(&self) -> impl Iterator<Item = &Fault> {
        self.faults.iter().chain(self.settings_faults.iter())
    }

    pub(super) fn hangs_at(&self, call: Call, step: Option<&str>) -> bool {
        self.faults().any(|fault| match fault {
            Fault::Hang(point) => point.covers(call, step),
            Fault::HangAfter(calls) => self.log.total > *calls,
            _ => false,
        })
    }

    pub(super) fn fails_at(&self, call: Call, step: Option<&str>) -> bool {
        self.faults().any(|fault| matches!(fault, Fault::Fail(point) if point.covers(call, step)))
    }

    pub(super) fn loses_answer_at(&self, call: Call, step: Option<&str>) -> bool {
        self.faults().any(|fault| matches!(fault, Fault::LoseAnswer(point) if point.covers(call, step)))
    }

    /// How a step that goes on after its answer ends, if not well.
    pub(super) fn bad_end(&self, key: &str) -> Option<BadEnd> {
        let named = |point: &Point| matches!(point, Point::Step(step) if step == key);
        let ends = |fault: &Fault| match fault {
            Fault::Hang(point) if named(point) => Some(BadEnd::Never),
            Fault::Fail(point) if named(point) => Some(BadEnd::Failure),
            _ => None,
        };
        self.faults().find_map(ends)
    }

    /// What stands between a caller and the controller. `accepted`: the password is the right one.
    pub(super) fn obstacle(&self, call: Call, step: Option<&str>, accepted: bool, now: Instant) -> Option<Obstacle> {
        let dropped = self.faults().any(|fault| matches!(fault, Fault::DropAfter(calls) if self.log.total > *calls));
        if dropped || self.restarts_until.is_some_and(|until| now < until) {
            Some(Obstacle::NoConnection)
        } else if self.hangs_at(call, step) {
            Some(Obstacle::Silence)
        } else if !accepted || self.has(&Fault::WrongPassword) {
            Some(Obstacle::Credentials)
        } else {
            self.fails_at(call, step).then_some(Obstacle::Failure)
        }
    }

    pub(super) fn delay(&self) -> Duration {
        self.faults().filter_map(|fault| if let Fault::Slow(delay) = fault { Some(*delay) } else { None }).sum()
    }

    fn has(&self, fault: &Fault) -> bool {
        self.faults().any(|known| known == fault)
    }
}
