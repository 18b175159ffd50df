//! Redfish over HTTPS. Reads are tolerant: what a controller does not have is unknown, not an error. Changes are never assumed: power
//! is confirmed by [`crate::power::change`], longer work by its task.
//!
//! `settings` and `tls` say whom to talk to, `http` makes one exchange, `session` logs in and out, `hub` shares the connections,
//! `resources` reads and changes, `quirks` knows what vendors do differently; the others are the functions of the contract.

mod boot;
mod configuration;
mod http;
mod hub;
mod inspect;
pub mod limits;
mod power;
mod quirks;
mod resources;
mod sensors;
mod session;
mod settings;
mod steps;
pub(crate) mod tls;
mod volumes;

use std::sync::Arc;

use sabakan_domain::provision::{
    boot::{BootDevice, BootMode, BootRequest},
    hardware::{Configuration, HardwareHealth, Inventory, Sensor},
    power::{PowerState, PowerTarget},
    steps::{Step, StepSpec},
};
use serde_json::Value;
use tokio::sync::OnceCell;

use crate::{Bmc, BmcFuture, Driver, DriverError, Settings, StepOutcome, TaskId, TaskState};
use hub::Hub;
use limits::Pace;
use resources::{Resource, link_of};
use session::Connection;
use settings::Endpoint;

/// The driver `redfish`. One for the whole process: it keeps the sessions.
#[derive(Debug)]
pub struct Redfish {
    hub: Hub,
}

impl Redfish {
    /// With the pace of real controllers.
    pub fn new() -> Redfish {
        Redfish::with_pace(Pace::default())
    }

    /// With another pace, for tests.
    pub fn with_pace(pace: Pace) -> Redfish {
        Redfish { hub: Hub::new(pace) }
    }

    /// Logs out everywhere. To be called when the server stops: controllers allow few sessions.
    pub async fn close(&self) {
        self.hub.close().await;
    }
}

impl Default for Redfish {
    fn default() -> Redfish {
        Redfish::new()
    }
}

impl Driver for Redfish {
    fn name(&self) -> &'static str {
        "redfish"
    }

    fn connect(&self, settings: &Settings) -> Result<Arc<dyn Bmc>, DriverError> {
        let endpoint = Endpoint::read(settings)?;
        let connection = self.hub.connection(&endpoint)?;
        Ok(Arc::new(Controller { connection, wanted: endpoint.system, found: OnceCell::new() }))
    }

    fn steps(&self) -> &'static [StepSpec] {
        steps::OFFERED
    }

    fn secret_settings(&self) -> &'static [&'static str] {
        settings::SECRETS
    }
}

/// One system behind a controller.
struct Controller {
    connection: Arc<Connection>,
    /// Path of the system, if the settings name it.
    wanted: Option<String>,
    /// Path of the system, once it is known to be the only one.
    found: OnceCell<String>,
}

impl Controller {
    async fn system(&self) -> Result<Resource, DriverError> {
        let link = self.system_link().await?;
        self.connection.get_resource("the system", link).await
    }

    async fn system_link(&self) -> Result<&str, DriverError> {
        match &self.wanted {
            Some(wanted) => Ok(wanted),
            None => self.found.get_or_try_init(|| self.only_system()).await.map(String::as_str),
        }
    }

    async fn only_system(&self) -> Result<String, DriverError> {
        let root = self.root().await?;
        let systems = link_of(&root["Systems"]).unwrap_or_else(|| format!("{}Systems", self.connection.root_path()));
        let found = self.connection.member_links("the list of systems", &systems).await?;
        match <[String; 1]>::try_from(found) {
            Ok([only]) => Ok(only),
            Err(found) if found.is_empty() => {
                Err(DriverError::Protocol { what: "the list of systems".to_owned(), reason: "it is empty".to_owned() })
            }
            Err(found) => {
                let reason = format!("is missing, and the BMC has {} systems; name the path of one", found.len());
                Err(DriverError::settings("redfish_system_id", reason))
            }
        }
    }

    async fn root(&self) -> Result<Value, DriverError> {
        self.connection.get("the service root", self.connection.root_path()).await
    }

    /// The controller's own resource: what manages the system, or the only manager.
    async fn manager(&self, system: &Value) -> Result<Value, DriverError> {
        let managed_by = system["Links"]["ManagedBy"].as_array().and_then(|links| links.iter().find_map(link_of));
        let link = match managed_by {
            Some(link) => link,
            None => {
                let root = self.root().await?;
                let managers =
                    link_of(&root["Managers"]).ok_or_else(|| DriverError::Unsupported("Managers".to_owned()))?;
                let found = self.connection.member_links("the list of managers", &managers).await?;
                found.into_iter().next().ok_or_else(|| DriverError::Unsupported("Managers".to_owned()))?
            }
        };
        self.connection.get("the manager", &link).await
    }

    /// Values an action takes, where the controller says so: beside the action, or in a description of its own.
    async fn allowable(&self, action: &Value, parameter: &str) -> Option<Vec<String>> {
        let beside = &action[format!("{parameter}@Redfish.AllowableValues")];
        let texts = |values: &Value| -> Option<Vec<String>> {
            let values = values.as_array()?.iter().filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>();
            (!values.is_empty()).then_some(values)
        };
        if let Some(values) = texts(beside) {
            return Some(values);
        }
        let info = self.connection.get("the action", action["@Redfish.ActionInfo"].as_str()?).await.ok()?;
        info["Parameters"]
            .as_array()?
            .iter()
            .find(|p| p["Name"] == parameter)
            .and_then(|p| texts(&p["AllowableValues"]))
    }
}

impl Bmc for Controller {
    fn power(&self) -> BmcFuture<'_, Option<PowerState>> {
        Box::pin(self.read_power())
    }

    fn command_power(&self, target: PowerTarget) -> BmcFuture<'_, ()> {
        Box::pin(self.reset_system(target))
    }

    fn power_targets(&self) -> &'static [PowerTarget] {
        &PowerTarget::ALL
    }

    fn set_boot(&self, request: &BootRequest) -> BmcFuture<'_, ()> {
        let request = request.clone();
        Box::pin(async move { self.override_boot(&request).await })
    }

    fn boot(&self) -> BmcFuture<'_, (BootDevice, bool)> {
        Box::pin(self.read_boot())
    }

    fn boot_devices(&self) -> BmcFuture<'_, Vec<BootDevice>> {
        Box::pin(self.read_boot_devices())
    }

    fn inspect(&self) -> BmcFuture<'_, Inventory> {
        Box::pin(self.read_inventory())
    }

    fn sensors(&self) -> BmcFuture<'_, Vec<Sensor>> {
        Box::pin(self.read_sensors())
    }

    fn health(&self) -> BmcFuture<'_, Option<HardwareHealth>> {
        Box::pin(self.read_health())
    }

    fn configuration(&self) -> BmcFuture<'_, Configuration> {
        Box::pin(self.read_configuration())
    }

    fn restore(&self, wanted: &Configuration) -> BmcFuture<'_, StepOutcome> {
        let wanted = wanted.clone();
        Box::pin(async move { self.restore_configuration(&wanted).await })
    }

    fn run_step(&self, step: &Step) -> BmcFuture<'_, StepOutcome> {
        let step = step.clone();
        Box::pin(async move { self.execute(&step).await })
    }

    fn task(&self, task: &TaskId) -> BmcFuture<'_, TaskState> {
        let task = task.clone();
        Box::pin(async move { self.read_tasks(&task).await })
    }

    fn reset_bmc(&self) -> BmcFuture<'_, ()> {
        Box::pin(self.reset_manager())
    }

    fn choose_boot_mode(&self, mode: BootMode) -> BmcFuture<'_, ()> {
        Box::pin(self.set_boot_mode(mode))
    }

    fn choose_secure_boot(&self, enable: bool) -> BmcFuture<'_, ()> {
        Box::pin(self.set_secure_boot(enable))
    }

    fn interrupt(&self) -> BmcFuture<'_, ()> {
        Box::pin(self.interrupt_system())
    }
}
