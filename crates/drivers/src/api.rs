//! The contract of a driver. `contract` (feature) is its executable description.

use std::{collections::BTreeMap, fmt, future::Future, pin::Pin, sync::Arc};

use sabakan_domain::provision::{
    agent::Offer,
    boot::{BootDevice, BootMode, BootRequest},
    control::{Indicator, VendorMethod},
    hardware::{Configuration, HardwareHealth, Inventory, Sensor},
    power::{PowerState, PowerTarget},
    steps::{Args, Step, StepSpec},
};
use zeroize::Zeroizing;

/// A text nobody shall read in a log: passwords of controllers. Has no `Debug` that shows it and is wiped when dropped.
#[derive(Clone)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Keeps a text secret.
    pub fn new(text: impl Into<String>) -> Secret {
        Secret(Zeroizing::new(text.into()))
    }

    /// The text itself, for the one place that sends it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

/// What a driver has to know to reach one controller, in the words of the provisioning API (`driver_info`). Secret members are kept
/// apart from the others, so that printing the others is harmless.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Everything that may be shown, by its key, such as `redfish_address`.
    pub values: BTreeMap<String, serde_json::Value>,
    /// Everything that may not, by its key, such as `redfish_password`.
    pub secrets: BTreeMap<String, Secret>,
    /// The machine's serial: what a simulated machine is found by, and what errors may say.
    pub machine: String,
}

impl Settings {
    /// A text setting; a number is taken for the text of it.
    pub fn text(&self, key: &str) -> Result<Option<String>, DriverError> {
        match self.values.get(key) {
            None | Some(serde_json::Value::Null) => Ok(None),
            Some(serde_json::Value::String(text)) => Ok(Some(text.clone())),
            Some(serde_json::Value::Number(number)) => Ok(Some(number.to_string())),
            Some(_) => Err(DriverError::settings(key, "must be a text")),
        }
    }
}

/// A task the controller works on after its answer, by the controller's own name for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskId(pub String);

/// How a step went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StepOutcome {
    /// It is done.
    Finished(Finished),
    /// The controller works on it; ask again with [`Bmc::task`].
    Running(TaskId),
}

/// What a finished step leaves to say.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Finished {
    /// For the history; may be empty.
    pub note: String,
}

/// How far a task is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskState {
    /// Not yet done; what the controller says about it, may be empty.
    Running(String),
    /// Done.
    Done(Finished),
    /// Ended without success; why.
    Failed(String),
}

/// Why a controller did not do it. Texts are for operators; they hold no credential.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DriverError {
    /// The settings cannot be used.
    #[error("invalid driver_info: {field}: {reason}")]
    Settings {
        /// Which key.
        field: String,
        /// What is wrong with it.
        reason: String,
    },
    /// No connection, or no answer in time. Whether a command arrived is not known.
    #[error("the BMC cannot be reached: {0}")]
    Unreachable(String),
    /// Its certificate is not one we trust.
    #[error("the BMC's certificate is not trusted: {0}")]
    Untrusted(String),
    /// It does not accept user name and password, or the user may not do this.
    #[error("the BMC refused the credentials: {0}")]
    Credentials(String),
    /// It understood and said no.
    #[error("the BMC refused to {what}: {reason}")]
    Rejected {
        /// What it was asked to do.
        what: String,
        /// Its answer.
        reason: String,
    },
    /// It failed to do it by its own account.
    #[error("the BMC failed to {what}: {reason}")]
    Failed {
        /// What it was asked to do.
        what: String,
        /// Its answer.
        reason: String,
    },
    /// This driver or this controller has no such function.
    #[error("{0} is not supported by this machine's driver or BMC")]
    Unsupported(String),
    /// This server lacks a program the driver needs. Says nothing about the machine, and stays so until somebody installs it.
    #[error("this server lacks what the driver needs: {0}")]
    Missing(String),
    /// Its answer makes no sense.
    #[error("the BMC's answer to {what} cannot be understood: {reason}")]
    Protocol {
        /// What it was asked.
        what: String,
        /// What is wrong with the answer.
        reason: String,
    },
}

impl DriverError {
    /// A setting that cannot be used.
    pub fn settings(field: &str, reason: impl Into<String>) -> DriverError {
        DriverError::Settings { field: field.to_owned(), reason: reason.into() }
    }

    /// Whether the same call may succeed later without anybody changing anything.
    pub fn is_retryable(&self) -> bool {
        matches!(self, DriverError::Unreachable(_) | DriverError::Failed { .. })
    }
}

/// A boxed future of a call to a controller, so that the engine can hold `Arc<dyn Bmc>`.
pub type BmcFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, DriverError>> + Send + 'a>>;

/// A kind of controller.
pub trait Driver: Send + Sync + 'static {
    /// Its name in the provisioning API (`driver`), such as `redfish`.
    fn name(&self) -> &'static str;

    /// Checks the settings and prepares to talk to one controller. Contacts nobody.
    fn connect(&self, settings: &Settings) -> Result<Arc<dyn Bmc>, DriverError>;

    /// Steps it offers, out of band.
    fn steps(&self) -> &'static [StepSpec];

    /// Steps its ramdisk offers; empty where it boots none.
    fn ramdisk_steps(&self) -> &'static [StepSpec] {
        &[]
    }

    /// The ramdisk that announced itself at `url`.
    fn ramdisk(&self, settings: &Settings, url: &str) -> Result<Arc<dyn Ramdisk>, DriverError> {
        let _none_here = (settings, url);
        Err(DriverError::Unsupported("the ramdisk".to_owned()))
    }

    /// What only its controllers can do, callable by name.
    fn vendor_methods(&self) -> &'static [VendorMethod] {
        &[]
    }

    /// Keys of `driver_info` whose values are secret.
    fn secret_settings(&self) -> &'static [&'static str];
}

/// One controller. Calls are made one at a time per controller by whoever holds the machine's lease.
pub trait Bmc: Send + Sync {
    /// Proves the credentials: an authenticated read that yields the power state. `None`: the controller does not know it.
    fn power(&self) -> BmcFuture<'_, Option<PowerState>>;

    /// Issues a power command. Does not wait for its effect: [`crate::power::change`] does.
    fn command_power(&self, target: PowerTarget) -> BmcFuture<'_, ()>;

    /// Power targets it can issue.
    fn power_targets(&self) -> &'static [PowerTarget];

    /// Sets what the machine starts from.
    fn set_boot(&self, request: &BootRequest) -> BmcFuture<'_, ()>;

    /// What the machine starts from, and whether every time.
    fn boot(&self) -> BmcFuture<'_, (BootDevice, bool)>;

    /// Devices [`Bmc::set_boot`] takes.
    fn boot_devices(&self) -> BmcFuture<'_, Vec<BootDevice>>;

    /// Reads the inventory. What the controller does not have is absent and named in `unknown`.
    fn inspect(&self) -> BmcFuture<'_, Inventory>;

    /// Reads the sensors.
    fn sensors(&self) -> BmcFuture<'_, Vec<Sensor>>;

    /// The controller's verdict; `None`: it has none.
    fn health(&self) -> BmcFuture<'_, Option<HardwareHealth>>;

    /// Reads the configuration that cleaning must leave as it was.
    fn configuration(&self) -> BmcFuture<'_, Configuration>;

    /// Puts back what a step tore down: volumes and settings of `wanted` that differ.
    fn restore(&self, wanted: &Configuration) -> BmcFuture<'_, StepOutcome>;

    /// Runs one of the driver's own steps.
    fn run_step(&self, step: &Step) -> BmcFuture<'_, StepOutcome>;

    /// How far a task is.
    fn task(&self, task: &TaskId) -> BmcFuture<'_, TaskState>;

    /// Restarts the controller itself.
    fn reset_bmc(&self) -> BmcFuture<'_, ()>;

    /// Chooses between UEFI and legacy, from the next start on.
    fn choose_boot_mode(&self, mode: BootMode) -> BmcFuture<'_, ()> {
        let _not_here = mode;
        unsupported("set_boot_mode")
    }

    /// Lets only signed programs start, or all, from the next start on.
    fn choose_secure_boot(&self, enable: bool) -> BmcFuture<'_, ()> {
        let _not_here = enable;
        unsupported("set_secure_boot_state")
    }

    /// Interrupts the operating system in a way it cannot mask, so that it writes down what it did.
    fn interrupt(&self) -> BmcFuture<'_, ()> {
        unsupported("inject_nmi")
    }

    /// Lights of the machine; none where the controller tells of none.
    fn indicators(&self) -> BmcFuture<'_, Vec<Indicator>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    /// Calls one of [`Driver::vendor_methods`], which the caller has checked.
    fn call_vendor(&self, method: &str, args: &Args) -> BmcFuture<'_, serde_json::Value> {
        let _not_here = args;
        unsupported(method)
    }
}

/// What a driver answers to a call it does not have, in the words of the provisioning API.
fn unsupported<'a, T: 'a>(what: &str) -> BmcFuture<'a, T> {
    let error = DriverError::Unsupported(what.to_owned());
    Box::pin(async { Err(error) })
}

/// What came of asking a ramdisk to start a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StepStart {
    /// It was taken. It may have ended already.
    Taken {
        /// The ramdisk's own name for it; `None`: the step alone names it.
        command: Option<String>,
        /// How far it is.
        state: TaskState,
    },
    /// The ramdisk runs another command, and nothing was begun; what it says.
    Busy(String),
}

/// The temporary operating system on the machine, which runs steps in band and calls back when it is done.
pub trait Ramdisk: Send + Sync {
    /// Starts a step, named by interface, dot, name. It goes on after the answer; the ramdisk calls back when it ended. `again`: somebody
    /// may have started it before without living to note the answer; if it runs, that is what was wanted.
    fn start(&self, step: &str, args: &Args, again: bool) -> BmcFuture<'_, StepStart>;

    /// How a step goes that was started, by the ramdisk's name for it where it gave one; `None`: it was not started since it booted.
    fn status(&self, step: &str, command: Option<&str>) -> BmcFuture<'_, Option<TaskState>>;

    /// What it runs at the moment, for people; `None`: nothing.
    fn running(&self) -> BmcFuture<'_, Option<String>>;

    /// What it offers; `None`: what its driver says it does.
    fn offer(&self) -> BmcFuture<'_, Option<Offer>> {
        Box::pin(async { Ok(None) })
    }

    /// Writes everything to the disks, before the power goes.
    fn sync(&self) -> BmcFuture<'_, ()> {
        Box::pin(async { Ok(()) })
    }
}
