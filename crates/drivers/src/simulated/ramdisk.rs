//! The simulated ramdisk: runs steps, calls when one ended, and every now and then while nothing happens, like the real one. It is
//! gone with the power.

use std::sync::{Arc, Weak};

use sabakan_domain::provision::steps::Args;
use tokio::time::{Instant, sleep_until};

use super::{
    bmc::pause,
    calls::Command,
    fault::{ASKED_FOR, Call},
    fleet::{Heartbeat, Inner},
    hardware::Hardware,
    machine::{BadEnd, Machine, State},
    steps,
};
use crate::{BmcFuture, DriverError, Finished, Ramdisk, StepStart, TaskState};

/// What a ramdisk knows from its start to its end.
pub(super) struct Session {
    work: Option<Work>,
    next_heartbeat: Instant,
}

struct Work {
    key: String,
    args: Args,
    /// `None`: it never ends.
    ends: Option<Instant>,
    fails: bool,
    result: Option<Result<(), String>>,
}

/// What becomes of a step that somebody starts.
enum Begin {
    Begun,
    Running,
    Busy(String),
}

impl Session {
    pub(super) fn new(started: Instant) -> Session {
        Session { work: None, next_heartbeat: started }
    }

    pub(super) fn settle(&mut self, now: Instant, hardware: &mut Hardware, tears_down: bool) {
        let Some(work) = self.work.as_mut().filter(|work| work.result.is_none()) else { return };
        let Some(ends) = work.ends.filter(|ends| *ends <= now) else { return };
        work.result =
            Some(if work.fails { Err(ASKED_FOR.to_owned()) } else { finish(&work.key, hardware, tears_down) });
        // A step that ended is told at once.
        self.next_heartbeat = self.next_heartbeat.min(ends);
    }

    pub(super) fn next_event(&self) -> Instant {
        let ends = self.work.as_ref().filter(|work| work.result.is_none()).and_then(|work| work.ends);
        ends.map_or(self.next_heartbeat, |ends| ends.min(self.next_heartbeat))
    }

    /// Starts a step, unless the same one runs already.
    fn start(&mut self, step: &str, args: &Args, ends: Option<Instant>, fails: bool) -> Begin {
        match self.work.as_ref().filter(|work| work.result.is_none()) {
            // Whoever asks again did not hear the first answer. One run is what was wanted.
            Some(work) if work.key == step && work.args == *args => Begin::Running,
            Some(work) => Begin::Busy(format!("it is busy with {}", work.key)),
            None => {
                self.work = Some(Work { key: step.to_owned(), args: args.clone(), ends, fails, result: None });
                Begin::Begun
            }
        }
    }

    fn status(&self, step: &str) -> Option<TaskState> {
        let work = self.work.as_ref().filter(|work| work.key == step)?;
        Some(match &work.result {
            None => TaskState::Running(String::new()),
            Some(Ok(())) => TaskState::Done(Finished::default()),
            Some(Err(reason)) => TaskState::Failed(reason.clone()),
        })
    }

    fn running(&self) -> Option<String> {
        self.work.as_ref().filter(|work| work.result.is_none()).map(|work| work.key.clone())
    }
}

/// What a step leaves behind.
fn finish(key: &str, hardware: &mut Hardware, tears_down: bool) -> Result<(), String> {
    match key {
        "deploy.erase_devices" | "deploy.erase_devices_metadata" => {
            hardware.has_image = false;
            if tears_down {
                hardware.delete_volumes();
            }
            Ok(())
        }
        "deploy.write_image" => {
            hardware.has_image = true;
            Ok(())
        }
        "deploy.prepare_instance_boot" if !hardware.has_image => Err("there is no system on the disk".to_owned()),
        _ => Ok(()),
    }
}

/// The connection to one run of the ramdisk: after a restart of the machine nobody answers here any more.
pub(super) struct SimulatedRamdisk {
    pub(super) machine: Arc<Machine>,
    pub(super) boot: u32,
}

impl SimulatedRamdisk {
    async fn call<T>(
        &self,
        what: &str,
        step: Option<&str>,
        act: impl FnOnce(&mut State, &mut Session) -> Result<T, String> + Send,
    ) -> Result<T, DriverError> {
        let answer = self.arrive(&mut self.machine.look(), what, step, act);
        let latencies = &self.machine.config.latencies;
        pause(if answer.is_some() { latencies.call } else { latencies.limit }).await;
        answer.unwrap_or_else(|| Err(DriverError::Unreachable("the ramdisk does not answer".to_owned())))
    }

    /// What comes of a call; `None`: no answer. One that is gone is noticed at once, as when nobody takes the connection.
    fn arrive<T>(
        &self,
        state: &mut State,
        what: &str,
        step: Option<&str>,
        act: impl FnOnce(&mut State, &mut Session) -> Result<T, String>,
    ) -> Option<Result<T, DriverError>> {
        state.log.total += 1;
        if state.boots == self.boot && state.hangs_at(Call::Ramdisk, None) {
            return None;
        }
        // Taken out for a moment, so that the rest of the machine can be changed beside it.
        let Some(mut session) = state.ramdisk.take_if(|_| state.boots == self.boot) else {
            return Some(Err(DriverError::Unreachable("the ramdisk is not there any more".to_owned())));
        };
        let answer = if state.fails_at(Call::Ramdisk, None) {
            Err(DriverError::Failed { what: what.to_owned(), reason: ASKED_FOR.to_owned() })
        } else {
            act(state, &mut session).map_err(|reason| DriverError::Rejected { what: what.to_owned(), reason })
        };
        state.ramdisk = Some(session);
        Some(answer).filter(|_| !state.loses_answer_at(Call::Ramdisk, step))
    }

    async fn start_step(&self, step: &str, args: &Args) -> Result<StepStart, DriverError> {
        let key = if step.contains('.') { step.to_owned() } else { format!("deploy.{step}") };
        if !steps::RAMDISK_STEPS.iter().any(|spec| spec.key() == key) {
            return Err(DriverError::Unsupported(format!("the step {key} of the ramdisk")));
        }
        let start = |state: &mut State, session: &mut Session| {
            let bad_end = state.bad_end(&key);
            let lasts = self.machine.lasting(self.machine.config.latencies.ramdisk_step, state.log.total);
            let ends = (bad_end != Some(BadEnd::Never)).then(|| Instant::now() + lasts);
            match session.start(&key, args, ends, bad_end == Some(BadEnd::Failure)) {
                Begin::Busy(text) => return Ok(StepStart::Busy(text)),
                Begin::Running => {}
                Begin::Begun => {
                    state.log.record(Command::RamdiskStep(key.clone()));
                    // The end of the step may come before the next heartbeat.
                    self.machine.wake.notify_one();
                }
            }
            Ok(StepStart::Taken { command: None, state: TaskState::Running(String::new()) })
        };
        self.call(&format!("start {key}"), Some(&key), start).await
    }
}

impl Ramdisk for SimulatedRamdisk {
    fn start(&self, step: &str, args: &Args, _again: bool) -> BmcFuture<'_, StepStart> {
        let (step, args) = (step.to_owned(), args.clone());
        Box::pin(async move { self.start_step(&step, &args).await })
    }

    fn status(&self, step: &str, _command: Option<&str>) -> BmcFuture<'_, Option<TaskState>> {
        let step = step.to_owned();
        Box::pin(self.call("tell about its step", None, move |_, session| Ok(session.status(&step))))
    }

    fn running(&self) -> BmcFuture<'_, Option<String>> {
        Box::pin(self.call("tell what it runs", None, |_, session| Ok(session.running())))
    }
}

/// Sees to it that somebody waits for the ramdisk and calls for it, if the machine is on the way to one. There is one such task per
/// running ramdisk, and none for any other machine.
pub(super) fn attend(machine: &Arc<Machine>, fleet: &Weak<Inner>) {
    let mut state = machine.look();
    if state.heartbeats.as_ref().is_some_and(|task| !task.is_finished()) {
        machine.wake.notify_one();
    } else if state.next_event().is_some() {
        let task = tokio::spawn(heartbeats(Arc::clone(machine), Weak::clone(fleet)));
        state.heartbeats = Some(task.abort_handle());
    }
}

enum Next {
    Call(Heartbeat),
    At(Instant),
    Nothing,
}

async fn heartbeats(machine: Arc<Machine>, fleet: Weak<Inner>) {
    loop {
        match next(&machine) {
            Next::Nothing => return,
            Next::At(when) => tokio::select! {
                () = sleep_until(when) => {}
                () = machine.wake.notified() => {}
            },
            Next::Call(heartbeat) => {
                let Some(sender) = fleet.upgrade().map(|fleet| fleet.sender()) else { return };
                // Nobody there, or no room within the pause: this call is lost and the next one says the same.
                if sender.send_timeout(heartbeat, machine.config.latencies.heartbeat).await.is_err() {
                    tracing::debug!(serial = %machine.serial, "heartbeat of a simulated ramdisk was not taken");
                }
            }
        }
    }
}

fn next(machine: &Machine) -> Next {
    let mut state = machine.look();
    let Some(when) = state.next_event() else {
        // Under the lock, so that whoever starts the next ramdisk does not count on this task.
        state.heartbeats = None;
        return Next::Nothing;
    };
    let boot = state.boots;
    match &mut state.ramdisk {
        Some(session) if session.next_heartbeat <= Instant::now() => {
            session.next_heartbeat = Instant::now() + machine.config.latencies.heartbeat;
            Next::Call(Heartbeat { machine: machine.serial.clone(), url: url(&machine.serial, boot) })
        }
        _ => Next::At(when),
    }
}

/// Where a ramdisk can be reached.
fn url(serial: &str, boot: u32) -> String {
    format!("simulated://{serial}/{boot}")
}

/// Which start of which machine an address belongs to.
pub(super) fn parse_url(url: &str) -> Option<(&str, u32)> {
    let (serial, boot) = url.strip_prefix("simulated://")?.rsplit_once('/')?;
    Some((serial, boot.parse().ok()?))
}
