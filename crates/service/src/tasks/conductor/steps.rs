//! Runs one step: those of this program here, those of drivers and ramdisks through their contract. What a step may do was decided
//! when it was put into the list.

use std::{sync::Arc, time::Duration};

use sabakan_domain::{
    mac::Mac,
    machine::Machine,
    provision::{
        boot::{BootDevice, BootRequest},
        builtin,
        engine::{Learned, Outcome},
        hardware::{Aspect, Configuration, Inventory},
        ids::PortId,
        node::{Node, Object, Operation, Phase, WaitOn, Work},
        power::{PowerState, PowerTarget},
        promises,
        running::{self, RamdiskTask},
        steps::{Place, Step},
    },
};
use sabakan_drivers::{Bmc, DriverError, StepOutcome, StepStart, TaskState, power};
use sabakan_store::repo::nodes::{self, Found, Held, WorkError};
use serde_json::json;

use super::{Conductor, poll, ramdisk};
use crate::{crypts::erase_record, error_chain, hardware::Chosen, inventory, limits};

/// What a step came to: the outcome to record and, after an inspection, what was found.
type Ran = (Option<Outcome>, Option<Found>);

/// Runs the step that is recorded as begun. Only a lost lease or a store that fails is an error; everything else is an outcome.
pub(super) async fn run(
    conductor: &Conductor,
    held: &Held,
    node: &Node,
    machine: Option<&Machine>,
) -> Result<Ran, WorkError> {
    let Some((operation, step)) = node.operation.as_ref().zip(node.current_step()) else { return Ok((None, None)) };
    if builtin::is(step, builtin::ERASE_KEYS) {
        return erase_keys(conductor, held, node).await;
    }
    let limit = left(conductor, operation);
    let running = async {
        let chosen = conductor.hardware.choose(node, machine).await;
        let chosen = chosen.map_err(|error| DriverError::settings("driver", error_chain(&error)))?;
        let bmc = chosen.connect()?;
        let at = At { conductor, node, machine, operation, step, chosen: &chosen, bmc };
        at.run().await
    };
    let ran = match tokio::time::timeout(limit, running).await {
        Ok(ran) => ran,
        Err(_) => Err(DriverError::Unreachable(format!("the step did not end within {} s", limit.as_secs()))),
    };
    Ok(match ran {
        Ok((outcome, found)) => (Some(outcome), found),
        Err(error) => (Some(Outcome::Failed(error.to_string())), None),
    })
}

/// How long a step may take: until the deadline of its state, and never longer than any step may.
fn left(conductor: &Conductor, operation: &Operation) -> Duration {
    let until = operation.deadline.map(|deadline| deadline.duration_since(conductor.on.clock.now()));
    let until = until.and_then(|left| Duration::try_from(left).ok()).unwrap_or(limits::STEP_MAX);
    until.min(limits::STEP_MAX)
}

async fn erase_keys(conductor: &Conductor, held: &Held, node: &Node) -> Result<Ran, WorkError> {
    let on = &conductor.on;
    let erased = nodes::erase_keys(&*on.store, &on.keys, held, &conductor.by(), erase_record).await?;
    let note = match erased {
        Some(count) => format!("{count} disk keys deleted, the machine is retired"),
        None => {
            let operation = node.operation.as_ref();
            let nothing = operation.and_then(|operation| promises::erases_nothing(node, operation, &conductor.rules));
            if let Some(reason) = nothing {
                return Ok((Some(Outcome::Failed(reason)), None));
            }
            "no keys to delete".to_owned()
        }
    };
    Ok((Some(done(&note)), None))
}

/// Changes the power of a node, without switching off one that must not be.
pub(super) async fn change_power(
    node: &Node,
    bmc: &dyn Bmc,
    target: PowerTarget,
    limit: Duration,
) -> Result<PowerState, DriverError> {
    if node.disable_power_off && target.restarts() {
        let read = tokio::time::timeout(limit, bmc.power()).await;
        let silent = |_| DriverError::Unreachable("no answer about the power state in time".to_owned());
        if read.map_err(silent)?? == Some(PowerState::On) {
            return power::restart(bmc, target, limit).await;
        }
    }
    power::change(bmc, target, limit).await
}

fn done(note: &str) -> Outcome {
    Outcome::Done(Learned { note: note.to_owned(), ..Learned::default() })
}

fn with_power(power: PowerState) -> Outcome {
    Outcome::Done(Learned { power: Some(power), ..Learned::default() })
}

/// One step with everything it needs.
struct At<'a> {
    conductor: &'a Conductor,
    node: &'a Node,
    machine: Option<&'a Machine>,
    operation: &'a Operation,
    step: &'a Step,
    chosen: &'a Chosen,
    bmc: Arc<dyn Bmc>,
}

impl At<'_> {
    async fn run(&self) -> Result<(Outcome, Option<Found>), DriverError> {
        if let Phase::Resumed { task, .. } = &self.operation.phase {
            return Ok((self.resume(task.as_deref()).await?, None));
        }
        match self.step.place {
            Place::Engine => self.run_own().await,
            Place::OutOfBand => Ok((after(self.bmc.run_step(self.step).await?, &self.step.key()), None)),
            Place::InBand => {
                // Not for the first time: whoever began it did not live to note the answer.
                let again = matches!(self.operation.phase, Phase::Started { attempt } if attempt > 1);
                Ok((self.start_in_band(again).await?, None))
            }
        }
    }

    /// Has the ramdisk begin the step. What it calls the command is recorded with the wait.
    async fn start_in_band(&self, again: bool) -> Result<Outcome, DriverError> {
        let step = self.step.key();
        let ramdisk = ramdisk::reach(self.conductor, self.node, self.machine, self.chosen).await?;
        let waits =
            |task: &RamdiskTask, reason: String| Outcome::Wait(WaitOn::Task { id: task.name(), ended: false }, reason);
        Ok(match ramdisk.start(&step, &self.step.args, again).await? {
            StepStart::Taken { command, state: TaskState::Running(_) } => {
                let reason = format!("the ramdisk runs {step}");
                waits(&RamdiskTask::Step { step, command }, reason)
            }
            StepStart::Taken { state: TaskState::Done(finished), .. } => done(&finished.note),
            StepStart::Taken { state: TaskState::Failed(reason), .. } => Outcome::Failed(reason),
            StepStart::Busy(text) => {
                let reason = format!("the ramdisk runs another command ({text}); {step} begins when that has ended");
                waits(&RamdiskTask::Turn { step }, reason)
            }
        })
    }

    /// The ramdisk has ended what kept it from beginning the step.
    async fn take_turn(&self) -> Result<Outcome, DriverError> {
        let lost = matches!(self.operation.phase, Phase::Resumed { attempt, .. } if attempt > 1);
        if lost && !self.step.idempotent {
            return Ok(Outcome::Failed(
                "the worker was lost when it began, and it must not be run twice; look at the machine before trying again"
                    .to_owned(),
            ));
        }
        self.start_in_band(lost).await
    }

    /// Looks at what came of a step that was waited for.
    async fn resume(&self, task: Option<&str>) -> Result<Outcome, DriverError> {
        let Some(task) = task else { return self.after_call().await };
        let in_band = match RamdiskTask::parse(task) {
            Some(RamdiskTask::Idle) => return self.run_power().await,
            Some(RamdiskTask::Turn { .. }) => return self.take_turn().await,
            Some(RamdiskTask::Step { .. }) => true,
            None => false,
        };
        let state = match poll::state_of(self.conductor, self.node, self.machine, task).await {
            // The step goes on whether or not its ramdisk can be asked at this moment. The deadline of the state ends this.
            Err(error) if in_band && error.is_retryable() => TaskState::Running(error.to_string()),
            state => state?,
        };
        match state {
            TaskState::Running(text) => {
                let on = WaitOn::Task { id: task.to_owned(), ended: false };
                Ok(Outcome::Wait(on, format!("{} goes on: {text}", self.step.key())))
            }
            TaskState::Done(_) if builtin::is(self.step, builtin::COMPARE) => self.compare(true).await,
            TaskState::Done(finished) => Ok(done(&finished.note)),
            TaskState::Failed(reason) => Ok(Outcome::Failed(reason)),
        }
    }

    /// The ramdisk called, or a pause is over. A ramdisk that has just booted is asked what it offers.
    async fn after_call(&self) -> Result<Outcome, DriverError> {
        let booted = builtin::is(self.step, builtin::BOOT_RAMDISK) || builtin::is(self.step, builtin::DEPLOY);
        let agent = self.conductor.hardware.has_agent(self.node, self.machine);
        if !booted || !agent || ramdisk::flow_of(self.operation.work).is_none() {
            return Ok(done(""));
        }
        let ramdisk = ramdisk::reach(self.conductor, self.node, self.machine, self.chosen).await?;
        let offer = match ramdisk.offer().await {
            Err(error) if error.is_retryable() && matches!(ramdisk.running().await, Ok(Some(_))) => {
                let reason = format!("the ramdisk runs another command and is asked again when it calls: {error}");
                return Ok(Outcome::Wait(WaitOn::Heartbeat { called: false }, reason));
            }
            offer => offer?,
        };
        let note = offer.as_ref().map(|offer| format!("the ramdisk offers {} steps", offer.steps.len()));
        Ok(Outcome::Done(Learned { note: note.unwrap_or_default(), offer, ..Learned::default() }))
    }

    /// Steps of this program.
    async fn run_own(&self) -> Result<(Outcome, Option<Found>), DriverError> {
        let own = |spec| builtin::is(self.step, spec);
        let outcome = if own(builtin::VERIFY) {
            let power = self.bmc.power().await?;
            Outcome::Done(Learned { power, verified: true, ..Learned::default() })
        } else if own(builtin::INSPECT) {
            let found = self.bmc.inspect().await?;
            let learned = Learned { inspected: Some(properties(&found)), ..Learned::default() };
            let found = Found { inventory: inventory::encode(&found), addresses: addresses(&found) };
            return Ok((Outcome::Done(learned), Some(found)));
        } else if own(builtin::RECORD) {
            self.record().await?
        } else if own(builtin::RESTORE) {
            after(self.restore().await?, "putting back what was torn down")
        } else if own(builtin::COMPARE) {
            self.compare(false).await?
        } else if own(builtin::VERIFY_CONFIGURATION) {
            self.verify_configuration().await?
        } else if own(builtin::HOLD) {
            Outcome::Wait(WaitOn::Hold, "a hold step: somebody has to say unhold".to_owned())
        } else if own(builtin::WAIT) {
            self.pause()
        } else if own(builtin::CLEAR_INSTANCE) {
            done("")
        } else {
            self.run_power().await?
        };
        Ok((outcome, None))
    }

    /// Steps that change power and boot settings.
    async fn run_power(&self) -> Result<Outcome, DriverError> {
        let own = |spec| builtin::is(self.step, spec);
        let offered = self.conductor.hardware.offered(self.node, self.machine);
        let ramdisk = offered.is_ok_and(|offered| !offered.ramdisk.is_empty());
        if own(builtin::POWER_ON) {
            return self.power(PowerTarget::On).await;
        }
        let cuts = own(builtin::POWER_OFF) || own(builtin::REBOOT) || own(builtin::END_RAMDISK);
        if cuts
            && let Some(reason) = ramdisk::postpones_power(self.conductor, self.node, self.machine, self.chosen).await
        {
            return Ok(Outcome::Wait(running::until_idle(false), reason));
        }
        if own(builtin::POWER_OFF) {
            return self.power(PowerTarget::Off).await;
        }
        if own(builtin::REBOOT) {
            return self.power(PowerTarget::Reboot).await;
        }
        if own(builtin::END_RAMDISK) {
            self.write_out().await;
            return self.power(PowerTarget::Off).await;
        }
        if own(builtin::CLEAR_BOOT) {
            return self.boot_from(BootDevice::Disk, true).await.map(|()| done(""));
        }
        if own(builtin::INSPECT_IN_BAND) {
            self.boot_from_network(false).await?;
            self.power(PowerTarget::Reboot).await?;
            let reason = "the ramdisk boots and has not told yet what it finds".to_owned();
            return Ok(Outcome::Wait(WaitOn::Inventory { arrived: false }, reason));
        }
        if own(builtin::BOOT_RAMDISK) || (own(builtin::DEPLOY) && ramdisk) {
            self.boot_from_network(false).await?;
            self.power(PowerTarget::Reboot).await?;
            let reason = "the ramdisk boots and has not called yet".to_owned();
            return Ok(Outcome::Wait(WaitOn::Heartbeat { called: false }, reason));
        }
        if own(builtin::DEPLOY) {
            self.boot_from_network(true).await?;
            return self.power(PowerTarget::Reboot).await;
        }
        if own(builtin::BOOT_INSTANCE) {
            if ramdisk {
                self.boot_from(BootDevice::Disk, true).await?;
            } else {
                self.boot_from_network(true).await?;
            }
            return self.power(PowerTarget::On).await;
        }
        Ok(Outcome::Failed(format!("this server does not know the step {}", self.step.key())))
    }

    /// What was written to the disks shall be there when the power is gone. A ramdisk that does not answer is switched off all the
    /// same: there is nobody else to ask.
    async fn write_out(&self) {
        let wrote = self.operation.work == Work::Deploy;
        let heard = self.operation.ramdisk.as_ref().is_some_and(|contact| contact.url.is_some());
        if !wrote || !heard || !self.conductor.hardware.has_agent(self.node, self.machine) {
            return;
        }
        let written =
            async { ramdisk::reach(self.conductor, self.node, self.machine, self.chosen).await?.sync().await };
        if let Err(error) = written.await {
            tracing::warn!(serial = %self.node.name, %error, "the ramdisk was not asked to write out its disks");
        }
    }

    async fn power(&self, target: PowerTarget) -> Result<Outcome, DriverError> {
        if target == PowerTarget::Off && self.node.disable_power_off {
            return Ok(done("left on: it must not be switched off"));
        }
        let limit = self.conductor.options.step_power;
        Ok(with_power(change_power(self.node, &*self.bmc, target, limit).await?))
    }

    async fn boot_from_network(&self, persistent: bool) -> Result<(), DriverError> {
        let devices = self.bmc.boot_devices().await?;
        let http = devices.contains(&BootDevice::UefiHttp);
        self.boot_from(if http { BootDevice::UefiHttp } else { BootDevice::Pxe }, persistent).await
    }

    async fn boot_from(&self, device: BootDevice, persistent: bool) -> Result<(), DriverError> {
        self.bmc.set_boot(&BootRequest { device, persistent, http_uri: None }).await
    }

    fn pause(&self) -> Outcome {
        let seconds = self.step.args.get("seconds").and_then(serde_json::Value::as_i64);
        match seconds.map(|seconds| seconds.clamp(0, 30)) {
            None => {
                Outcome::Wait(WaitOn::Heartbeat { called: false }, "a wait step: until the ramdisk calls".to_owned())
            }
            Some(seconds) => {
                let now = self.conductor.on.clock.now();
                let until = now.saturating_add(jiff::SignedDuration::from_secs(seconds)).unwrap_or(now);
                Outcome::Wait(WaitOn::Time(until), format!("a wait step of {seconds} s"))
            }
        }
    }

    async fn record(&self) -> Result<Outcome, DriverError> {
        let configuration = self.configuration().await?;
        let unknown: Vec<&str> = configuration.unknown().iter().map(|aspect| aspect.as_str()).collect();
        let note = match unknown.as_slice() {
            [] => String::new(),
            unknown => format!("the BMC cannot tell, hence not compared later: {}", unknown.join(", ")),
        };
        Ok(Outcome::Done(Learned { note, configuration: Some(configuration), ..Learned::default() }))
    }

    async fn configuration(&self) -> Result<Configuration, DriverError> {
        match self.bmc.configuration().await {
            Err(DriverError::Unsupported(_)) => Ok(Configuration::default()),
            read => read,
        }
    }

    async fn restore(&self) -> Result<StepOutcome, DriverError> {
        let wanted = self.operation.before.clone().unwrap_or_default();
        self.bmc.restore(&wanted).await
    }

    /// The machine has to look as before. What differs is put back once; what differs still fails the work.
    async fn compare(&self, restored: bool) -> Result<Outcome, DriverError> {
        let Some(before) = &self.operation.before else { return Ok(done("nothing was recorded to compare with")) };
        let differences = before.differences(&self.configuration().await?, &self.allowed());
        if differences.is_empty() {
            return Ok(done("the machine looks as before"));
        }
        let text = differences.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        if restored {
            return Ok(Outcome::Failed(format!("the machine does not look as before: {text}")));
        }
        match self.restore().await {
            Ok(StepOutcome::Running(task)) => {
                let reason = format!("putting back what differs: {text}");
                Ok(Outcome::Wait(WaitOn::Task { id: task.0, ended: false }, reason))
            }
            Ok(StepOutcome::Finished(_)) => Box::pin(self.compare(true)).await,
            Err(error) => Ok(Outcome::Failed(format!(
                "the machine does not look as before: {text}; putting it back failed: {error}"
            ))),
        }
    }

    /// In manual cleaning and service, what the caller's steps say they change may differ afterwards.
    fn allowed(&self) -> Vec<Aspect> {
        match self.operation.work {
            Work::ManualClean | Work::Service => {
                self.operation.steps.iter().flat_map(|step| step.disturbs.iter().copied()).collect()
            }
            _ => Vec::new(),
        }
    }

    /// The hardware has to be what the node's properties say. What either side does not know is not compared.
    async fn verify_configuration(&self) -> Result<Outcome, DriverError> {
        let found = match self.bmc.inspect().await {
            Err(DriverError::Unsupported(_)) => return Ok(done("the BMC cannot tell the hardware; not compared")),
            found => properties(&found?),
        };
        let differs = |(name, value): (&String, &serde_json::Value)| {
            let said = self.node.properties.get(name).filter(|said| *said != value)?;
            Some(format!("{name} is {value}, the node's properties say {said}"))
        };
        let differences: Vec<String> = found.iter().filter_map(differs).collect();
        Ok(match differences.as_slice() {
            [] => done(""),
            differences => {
                Outcome::Failed(format!("the hardware is not what it is said to be: {}", differences.join("; ")))
            }
        })
    }
}

fn after(outcome: StepOutcome, what: &str) -> Outcome {
    match outcome {
        StepOutcome::Finished(finished) => done(&finished.note),
        StepOutcome::Running(task) => {
            Outcome::Wait(WaitOn::Task { id: task.0, ended: false }, format!("the BMC works on {what}"))
        }
    }
}

/// Addresses to make ports for. What a controller calls an address and is none is passed over.
fn addresses(found: &Inventory) -> Vec<(PortId, Mac)> {
    let addresses = found.interfaces.iter().filter_map(|interface| interface.mac.parse().ok());
    addresses.map(|address| (PortId(uuid::Uuid::new_v4().as_u128()), address)).collect()
}

/// What an inventory says about a node, in the words of the provisioning API.
fn properties(found: &Inventory) -> Object {
    let mut properties = Object::new();
    let mut set = |name: &str, value: Option<serde_json::Value>| {
        properties.extend(value.map(|value| (name.to_owned(), value)));
    };
    set("cpu_arch", found.cpu.architecture.as_ref().map(|arch| json!(arch)));
    set("cpus", found.cpu.count.map(|count| json!(count)));
    set("memory_mb", found.memory_mib.map(|mib| json!(mib)));
    set("vendor", found.manufacturer.as_ref().map(|vendor| json!(vendor)));
    // The smallest disk an operating system fits on, less a gibibyte for alignment, as the service whose API we speak has it.
    let gib = 1_u64 << 30;
    let root = found.disks.iter().filter_map(|disk| disk.size).filter(|size| *size >= 4 * gib).min();
    set("local_gb", root.map(|size| json!(size / gib - 1)));
    properties
}
