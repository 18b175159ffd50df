//! The simulated controller. A command takes effect when it arrives, before it is answered: a caller who does not live to hear the
//! answer has changed the machine all the same, as with a real one.

use std::{sync::Arc, time::Duration};

use sabakan_domain::provision::{
    boot::{BootDevice, BootRequest},
    control::Indicator,
    hardware::{Configuration, HardwareHealth, Inventory, Sensor},
    power::{PowerState, PowerTarget},
    steps::{Args, Step},
};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::{
    calls::Command,
    facts,
    fault::{ASKED_FOR, Call, Fault},
    fleet::Fleet,
    hardware::wanted_firmware,
    machine::{BadEnd, Effect, Machine, Obstacle, State},
    ramdisk, steps, vendor,
};
use crate::{Bmc, BmcFuture, DriverError, Finished, StepOutcome, TaskId, TaskState};

const BOOT_DEVICES: [BootDevice; 3] = [BootDevice::Pxe, BootDevice::UefiHttp, BootDevice::Disk];

pub(super) struct SimulatedBmc {
    pub(super) fleet: Fleet,
    pub(super) machine: Arc<Machine>,
    pub(super) faults: Arc<[Fault]>,
    /// Whether the password of the settings is the right one.
    pub(super) accepted: bool,
}

/// A call as it arrives.
struct Request<'a> {
    call: Call,
    what: &'a str,
    command: Option<Command>,
    /// How long it takes beside the answer.
    lasts: Duration,
}

impl<'a> Request<'a> {
    fn read(call: Call, what: &'a str) -> Request<'a> {
        Request { call, what, command: None, lasts: Duration::ZERO }
    }

    fn command(call: Call, what: &'a str, command: Command) -> Request<'a> {
        Request { command: Some(command), ..Request::read(call, what) }
    }
}

impl SimulatedBmc {
    async fn call<T>(
        &self,
        request: Request<'_>,
        act: impl FnOnce(&mut State) -> Result<T, DriverError> + Send,
    ) -> Result<T, DriverError> {
        let latencies = &self.machine.config.latencies;
        let lasts = request.lasts;
        let (answer, wait) = {
            let mut state = self.machine.look();
            let answer = self.arrive(&mut state, request, act);
            let answering = self.machine.lasting(latencies.call + lasts, state.log.total);
            (answer, answering + state.delay())
        };
        ramdisk::attend(&self.machine, &self.fleet.downgrade());
        match answer {
            Some(answer) if wait <= latencies.limit.max(lasts * 2) => {
                pause(wait).await;
                answer
            }
            _ => {
                pause(latencies.limit).await;
                Err(DriverError::Unreachable(format!("no answer within {:?}", latencies.limit)))
            }
        }
    }

    /// What comes of a call; `None`: no answer.
    fn arrive<T>(
        &self,
        state: &mut State,
        request: Request<'_>,
        act: impl FnOnce(&mut State) -> Result<T, DriverError>,
    ) -> Option<Result<T, DriverError>> {
        state.log.total += 1;
        state.set_settings_faults(&self.faults);
        let step = if let Some(Command::Step(key)) = &request.command { Some(key.as_str()) } else { None };
        let answer_lost = state.loses_answer_at(request.call, step);
        // Steps that go on after the answer fail or hang later.
        let step = step.filter(|key| !runs_as_task(key));
        let obstacle = state.obstacle(request.call, step, self.accepted, Instant::now());
        let refused = matches!(obstacle, Some(Obstacle::NoConnection | Obstacle::Credentials));
        if let Some(command) = request.command.filter(|_| !refused) {
            state.log.record(command);
        }
        match obstacle {
            Some(Obstacle::Silence) => None,
            Some(Obstacle::NoConnection) => {
                Some(Err(DriverError::Unreachable("the connection was refused".to_owned())))
            }
            Some(Obstacle::Credentials) => {
                Some(Err(DriverError::Credentials("user name or password is wrong".to_owned())))
            }
            Some(Obstacle::Failure) => {
                let (what, reason) = (request.what.to_owned(), ASKED_FOR.to_owned());
                Some(Err(DriverError::Failed { what, reason }))
            }
            None => Some(act(state)).filter(|_| !answer_lost),
        }
    }

    async fn run(&self, step: &Step) -> Result<StepOutcome, DriverError> {
        let key = step.key();
        if !steps::STEPS.iter().any(|spec| spec.key() == key) {
            return Err(DriverError::Unsupported(format!("the step {key}")));
        }
        let what = format!("run {key}");
        let request = Request::command(Call::Step, &what, Command::Step(key.clone()));
        let lasts = if runs_as_task(&key) { Duration::ZERO } else { self.machine.config.latencies.step };
        self.call(Request { lasts, ..request }, |state| self.execute(state, &key, step)).await
    }

    fn execute(&self, state: &mut State, key: &str, step: &Step) -> Result<StepOutcome, DriverError> {
        let id = self.machine.id();
        let rejected = |reason| DriverError::Rejected { what: format!("run {key}"), reason };
        let hardware = &mut state.hardware;
        match key {
            "raid.create_configuration" => hardware.create_volumes(id, &step.args).map_err(rejected)?,
            "raid.delete_configuration" | "raid.erase_members" => hardware.delete_volumes(),
            "bios.apply_configuration" => hardware.apply_bios(&step.args).map_err(rejected)?,
            "bios.factory_reset" => hardware.reset_bios(),
            "vendor.log_passthrough" => {}
            "firmware.update" => {
                let version = wanted_firmware(&step.args).map_err(rejected)?;
                return Ok(self.start_task(state, key, Effect::Firmware(version)));
            }
            "management.burn_in" => return Ok(self.start_task(state, key, Effect::Nothing)),
            _ => return Err(DriverError::Unsupported(format!("the step {key}"))),
        }
        Ok(StepOutcome::Finished(Finished::default()))
    }

    fn start_task(&self, state: &mut State, key: &str, effect: Effect) -> StepOutcome {
        let bad_end = state.bad_end(key);
        let effect = if bad_end == Some(BadEnd::Failure) { Effect::Fail(ASKED_FOR.to_owned()) } else { effect };
        let hangs = bad_end == Some(BadEnd::Never);
        StepOutcome::Running(state.start_task(&self.machine, effect, hangs, Instant::now()))
    }

    fn begin_restore(&self, state: &mut State, wanted: Configuration) -> StepOutcome {
        let is = state.hardware.configuration(self.machine.id(), state.every);
        if wanted.differences(&is, &[]).is_empty() {
            return StepOutcome::Finished(Finished { note: "nothing differs".to_owned() });
        }
        let effect = Effect::Restore(Box::new(wanted));
        StepOutcome::Running(state.start_task(&self.machine, effect, false, Instant::now()))
    }
}

impl Bmc for SimulatedBmc {
    fn power(&self) -> BmcFuture<'_, Option<PowerState>> {
        let request = Request::read(Call::Power, "tell the power state");
        Box::pin(self.call(request, |state| Ok(Some(state.told_power()))))
    }

    fn command_power(&self, target: PowerTarget) -> BmcFuture<'_, ()> {
        let request = Request::command(Call::CommandPower, target.as_str(), Command::Power(target));
        Box::pin(self.call(request, move |state| {
            state.command_power(&self.machine, target, Instant::now());
            Ok(())
        }))
    }

    fn power_targets(&self) -> &'static [PowerTarget] {
        &PowerTarget::ALL
    }

    fn set_boot(&self, request: &BootRequest) -> BmcFuture<'_, ()> {
        let BootRequest { device, persistent, http_uri: _ } = *request;
        if !BOOT_DEVICES.contains(&device) {
            return Box::pin(async move { Err(DriverError::Unsupported(format!("the boot device {device}"))) });
        }
        let request = Request::command(Call::SetBoot, "set the boot device", Command::Boot(device, persistent));
        Box::pin(self.call(request, move |state| {
            state.once = (!persistent).then_some(device);
            state.every = if persistent { device } else { state.every };
            Ok(())
        }))
    }

    fn boot(&self) -> BmcFuture<'_, (BootDevice, bool)> {
        let request = Request::read(Call::Boot, "tell the boot device");
        Box::pin(self.call(request, |state| Ok(state.once.map_or((state.every, true), |device| (device, false)))))
    }

    fn boot_devices(&self) -> BmcFuture<'_, Vec<BootDevice>> {
        Box::pin(self.call(Request::read(Call::Boot, "name boot devices"), |_| Ok(BOOT_DEVICES.to_vec())))
    }

    fn inspect(&self) -> BmcFuture<'_, Inventory> {
        let id = self.machine.id();
        let request = Request::read(Call::Inspect, "tell the inventory");
        Box::pin(
            self.call(request, move |state| {
                Ok(facts::inventory(id.seed, id.serial, state.hardware.firmware.as_deref()))
            }),
        )
    }

    fn sensors(&self) -> BmcFuture<'_, Vec<Sensor>> {
        let id = self.machine.id();
        let request = Request::read(Call::Sensors, "tell the sensors");
        Box::pin(self.call(request, move |state| Ok(facts::sensors(id.seed, id.serial, state.power, state.log.total))))
    }

    fn health(&self) -> BmcFuture<'_, Option<HardwareHealth>> {
        let told = |fault: &Fault| if let Fault::Health(health) = fault { Some(*health) } else { None };
        let request = Request::read(Call::Health, "tell the health");
        Box::pin(self.call(request, move |state| Ok(Some(state.faults().find_map(told).unwrap_or(HardwareHealth::Ok)))))
    }

    fn configuration(&self) -> BmcFuture<'_, Configuration> {
        let request = Request::read(Call::Configuration, "tell the configuration");
        Box::pin(self.call(request, |state| Ok(state.hardware.configuration(self.machine.id(), state.every))))
    }

    fn restore(&self, wanted: &Configuration) -> BmcFuture<'_, StepOutcome> {
        let wanted = wanted.clone();
        let request = Request::command(Call::Restore, "put the configuration back", Command::Restore);
        Box::pin(self.call(request, |state| Ok(self.begin_restore(state, wanted))))
    }

    fn run_step(&self, step: &Step) -> BmcFuture<'_, StepOutcome> {
        let step = step.clone();
        Box::pin(async move { self.run(&step).await })
    }

    fn task(&self, task: &TaskId) -> BmcFuture<'_, TaskState> {
        let task = task.clone();
        Box::pin(self.call(Request::read(Call::Task, "tell about a task"), move |state| {
            let (what, reason) = ("tell about a task".to_owned(), format!("there is no task {}", task.0));
            state.task(&task, Instant::now()).ok_or(DriverError::Rejected { what, reason })
        }))
    }

    fn indicators(&self) -> BmcFuture<'_, Vec<Indicator>> {
        Box::pin(async { Ok(vendor::indicators()) })
    }

    fn call_vendor(&self, method: &str, args: &Args) -> BmcFuture<'_, Value> {
        let answer = vendor::answer(method, args);
        Box::pin(async { answer })
    }

    fn reset_bmc(&self) -> BmcFuture<'_, ()> {
        let request = Request::command(Call::ResetBmc, "restart", Command::ResetBmc);
        Box::pin(self.call(request, |state| {
            state.restart_controller(&self.machine, Instant::now());
            Ok(())
        }))
    }
}

/// Waits, and does not even look at the clock for nothing.
pub(super) async fn pause(duration: Duration) {
    if !duration.is_zero() {
        sleep(duration).await;
    }
}

fn runs_as_task(key: &str) -> bool {
    matches!(key, "firmware.update" | "management.burn_in")
}
