//! One controller that speaks IPMI.

use std::sync::Arc;

use sabakan_domain::provision::{
    boot::{BootDevice, BootRequest},
    hardware::{Aspect, Configuration, HardwareHealth, Inventory, Sensor},
    power::{PowerState, PowerTarget},
    steps::{Flow, Interface, Place, Step, StepSpec},
};
use tokio::time::Instant;

use super::{
    failure::Failure,
    lane::{Lane, Problem, Yard},
    settings::Target,
    wire,
};
use crate::{Bmc, BmcFuture, DriverError, Finished, StepOutcome, TaskId, TaskState};

const RESET_BMC: &str = "reset_bmc";

/// Steps through IPMI.
pub const STEPS: &[StepSpec] = &[StepSpec {
    interface: Interface::Management,
    name: RESET_BMC,
    place: Place::OutOfBand,
    flows: &[Flow::Clean, Flow::Service],
    priority: 0,
    abortable: false,
    idempotent: true,
    disturbs: &[],
    args: &[],
    text: "Restarts the BMC itself (cold reset).",
}];

/// Parts of an inventory that IPMI has no word for.
const NOT_TOLD: &[&str] = &["bios_version", "cpu", "memory_mib", "interfaces", "disks", "boot_mode"];

/// A controller, its settings checked.
pub struct IpmiBmc {
    yard: Arc<Yard>,
    lane: Arc<Lane>,
    target: Target,
}

/// One call of the contract: every command of it ends before the same deadline.
struct Call<'a> {
    bmc: &'a IpmiBmc,
    deadline: Instant,
}

impl IpmiBmc {
    /// The controller these settings lead to.
    pub fn new(yard: &Arc<Yard>, target: Target) -> IpmiBmc {
        IpmiBmc { lane: yard.lane(&target), yard: Arc::clone(yard), target }
    }

    fn call(&self) -> Call<'_> {
        Call { bmc: self, deadline: Instant::now() + self.yard.options.call_max }
    }
}

impl Call<'_> {
    async fn tool(&self, what: &str, command: &[&str]) -> Result<String, DriverError> {
        let command: Vec<String> = command.iter().map(|&word| word.to_owned()).collect();
        self.run(what, &command).await.map_err(|problem| problem.error)
    }

    async fn raw(&self, what: &str, request: &[u8]) -> Result<Vec<u8>, DriverError> {
        self.try_raw(what, request).await.map_err(|problem| problem.error)
    }

    /// For the few callers who go on after some failures.
    async fn try_raw(&self, what: &str, request: &[u8]) -> Result<Vec<u8>, Problem> {
        let bytes = request.iter().map(|byte| format!("{byte:#04x}"));
        let command: Vec<String> = std::iter::once("raw".to_owned()).chain(bytes).collect();
        let stdout = self.run(what, &command).await?;
        wire::hex(&stdout).map_err(|reason| not_understood(what, reason).into())
    }

    async fn run(&self, what: &str, command: &[String]) -> Result<String, Problem> {
        let IpmiBmc { yard, lane, target } = self.bmc;
        Ok(yard.run(lane, target, what, command, self.deadline).await?.stdout)
    }

    async fn chassis(&self) -> Result<wire::Chassis, DriverError> {
        let what = "read the power state";
        let answer = self.raw(what, wire::CHASSIS_STATUS).await?;
        wire::chassis(&answer).map_err(|reason| not_understood(what, reason))
    }

    async fn boot(&self) -> Result<Option<(BootDevice, bool)>, DriverError> {
        let what = "read the boot device";
        let answer = self.raw(what, wire::GET_BOOT_FLAGS).await?;
        wire::boot_flags(&answer).map_err(|reason| not_understood(what, reason))
    }

    async fn set_boot(&self, device: BootDevice, persistent: bool) -> Result<(), DriverError> {
        let flags = wire::set_boot_flags(device, persistent);
        let flags = flags.ok_or_else(|| DriverError::Unsupported(format!("the boot device {device}")))?;
        if self.bmc.target.disable_boot_timeout {
            let kept = self.try_raw("keep the boot device", wire::KEEP_BOOT_FLAGS).await;
            match kept {
                Ok(_) => {}
                // Many controllers lack the parameter. Setting the device is then still worth it: most starts follow within a minute.
                Err(Problem { failure: Some(Failure::Code(code)), .. }) if code != 0xd4 => {
                    tracing::debug!(code, "the BMC does not take the parameter that keeps boot flags");
                }
                Err(problem) => return Err(problem.error),
            }
        }
        self.raw("set the boot device", &flags).await?;
        Ok(())
    }

    async fn readings(&self) -> Result<(Vec<Sensor>, Option<HardwareHealth>), DriverError> {
        let what = "read the sensors";
        // ipmitool takes an empty repository for a broken one, erases it and writes a new one. A read must not write: ask first.
        // A controller without a repository cannot be harmed this way.
        match self.try_raw(what, wire::SDR_INFO).await {
            Ok(answer) if wire::has_no_records(&answer).map_err(|reason| not_understood(what, reason))? => {
                return Ok((Vec::new(), None));
            }
            Ok(_) | Err(Problem { failure: Some(Failure::Code(0xc1)), .. }) => {}
            Err(problem) => return Err(problem.error),
        }
        Ok(wire::sensors(&self.tool(what, &["-c", "sdr", "elist", "full"]).await?))
    }

    async fn configuration(&self) -> Result<Configuration, DriverError> {
        let boot_device = match self.boot().await {
            Ok(set) => set.filter(|(_, persistent)| *persistent).map(|(device, _)| device),
            Err(DriverError::Unsupported(_)) => None,
            Err(error) => return Err(error),
        };
        Ok(Configuration { boot_device, ..Configuration::default() })
    }

    async fn inspect(&self) -> Result<Inventory, DriverError> {
        let mut found = Inventory::default();
        let what = "identify itself";
        // The first answer proves that there is somebody to ask. From here on a part that fails is a part that is unknown.
        let maker =
            wire::maker(&self.raw(what, wire::DEVICE_ID).await?).map_err(|reason| not_understood(what, reason))?;
        for part in NOT_TOLD {
            found.unknown.insert((*part).to_owned(), "IPMI does not tell".to_owned());
        }
        let mut keep = |part: &str, read: Result<Option<String>, DriverError>| {
            let read = read.map_err(|error| error.to_string());
            let read = read.and_then(|value| value.ok_or_else(|| "not set in the BMC".to_owned()));
            read.map_err(|reason| found.unknown.insert(part.to_owned(), reason)).ok()
        };
        let guid = self.raw("tell the system's UUID", wire::SYSTEM_GUID).await;
        let system_uuid = keep("system_uuid", guid.map(|answer| wire::guid(&answer)));
        let mac = self.raw("tell its own MAC address", wire::LAN_MAC).await;
        let bmc_mac = keep("bmc_mac", mac.map(|answer| wire::mac(&answer)));
        let fru = self.tool("read the inventory (FRU)", &["fru", "print", "0"]).await.map(|stdout| wire::fru(&stdout));
        let mut member = |part: &str, names: [&str; 2]| {
            let read = fru.as_ref().map(|fru| names.iter().find_map(|name| fru.get(*name).cloned()));
            keep(part, read.map_err(DriverError::clone))
        };
        let manufacturer = member("manufacturer", ["Product Manufacturer", "Board Mfg"]);
        let product = member("product", ["Product Name", "Board Product"]);
        let serial = member("serial", ["Product Serial", "Chassis Serial"]);
        // The maker of the controller is known even where nobody filled in the machine's.
        let manufacturer = manufacturer.unwrap_or_else(|| format!("IANA enterprise {maker}"));
        found.unknown.remove("manufacturer");
        Ok(Inventory { manufacturer: Some(manufacturer), product, serial, system_uuid, bmc_mac, ..found })
    }
}

impl Bmc for IpmiBmc {
    fn power(&self) -> BmcFuture<'_, Option<PowerState>> {
        Box::pin(async { Ok(Some(self.call().chassis().await?.power)) })
    }

    fn command_power(&self, target: PowerTarget) -> BmcFuture<'_, ()> {
        Box::pin(async move {
            // Shutting down takes as long as the operating system likes; whoever waits for it switches on afterwards.
            let request = wire::chassis_control(target);
            let request = request.ok_or_else(|| DriverError::Unsupported(format!("{target} in one command")))?;
            self.call().raw(&format!("change the power ({target})"), &request).await?;
            Ok(())
        })
    }

    fn power_targets(&self) -> &'static [PowerTarget] {
        &PowerTarget::ALL
    }

    fn set_boot(&self, request: &BootRequest) -> BmcFuture<'_, ()> {
        let BootRequest { device, persistent, http_uri } = request.clone();
        Box::pin(async move {
            if http_uri.is_some() {
                return Err(DriverError::Unsupported("a URI to boot from".to_owned()));
            }
            self.call().set_boot(device, persistent).await
        })
    }

    fn boot(&self) -> BmcFuture<'_, (BootDevice, bool)> {
        Box::pin(async {
            let set = self.call().boot().await?;
            set.ok_or_else(|| DriverError::Rejected {
                what: "tell the boot device".to_owned(),
                reason: "none is set, the order of the firmware counts".to_owned(),
            })
        })
    }

    fn boot_devices(&self) -> BmcFuture<'_, Vec<BootDevice>> {
        Box::pin(async { Ok(wire::boot_devices()) })
    }

    fn inspect(&self) -> BmcFuture<'_, Inventory> {
        Box::pin(async { self.call().inspect().await })
    }

    fn sensors(&self) -> BmcFuture<'_, Vec<Sensor>> {
        Box::pin(async { Ok(self.call().readings().await?.0) })
    }

    fn health(&self) -> BmcFuture<'_, Option<HardwareHealth>> {
        Box::pin(async {
            let call = self.call();
            if call.chassis().await?.fault {
                return Ok(Some(HardwareHealth::Critical));
            }
            // Sensors that all have nothing to say are no verdict; neither is a chassis without fault, which may have no detector.
            Ok(call.readings().await?.1)
        })
    }

    fn configuration(&self) -> BmcFuture<'_, Configuration> {
        Box::pin(async { self.call().configuration().await })
    }

    fn restore(&self, wanted: &Configuration) -> BmcFuture<'_, StepOutcome> {
        let wanted = wanted.clone();
        Box::pin(async move {
            let call = self.call();
            let differences = wanted.differences(&call.configuration().await?, &[]);
            if let Some(other) = differences.iter().find(|difference| difference.aspect != Aspect::BootDevice) {
                return Err(DriverError::Unsupported(format!("to restore {}", other.aspect)));
            }
            let note = match wanted.boot_device {
                Some(device) if !differences.is_empty() => {
                    call.set_boot(device, true).await?;
                    format!("boot device set to {device}")
                }
                _ => "nothing differs".to_owned(),
            };
            Ok(StepOutcome::Finished(Finished { note }))
        })
    }

    fn run_step(&self, step: &Step) -> BmcFuture<'_, StepOutcome> {
        let (key, is_reset) = (step.key(), step.interface == Interface::Management && step.name == RESET_BMC);
        Box::pin(async move {
            if !is_reset {
                return Err(DriverError::Unsupported(format!("the step {key}")));
            }
            self.reset_bmc().await?;
            Ok(StepOutcome::Finished(Finished::default()))
        })
    }

    fn interrupt(&self) -> BmcFuture<'_, ()> {
        Box::pin(async { self.call().raw("interrupt the system", wire::INTERRUPT).await.map(drop) })
    }

    fn task(&self, task: &TaskId) -> BmcFuture<'_, TaskState> {
        let error = DriverError::Unsupported(format!("the task {:?}", task.0));
        Box::pin(async { Err(error) })
    }

    fn reset_bmc(&self) -> BmcFuture<'_, ()> {
        Box::pin(async {
            match self.call().try_raw("restart the BMC", wire::COLD_RESET).await {
                // It was there a moment ago, took the command and fell silent: that is what was asked for.
                Ok(_) | Err(Problem { failure: Some(Failure::NoReply), .. }) => Ok(()),
                Err(problem) => Err(problem.error),
            }
        })
    }
}

fn not_understood(what: &str, reason: String) -> DriverError {
    DriverError::Protocol { what: format!("the command to {what}"), reason }
}
