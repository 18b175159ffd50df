//! What callers set and call on a machine besides verbs, power and boot device: how it boots, its console, its lights, wanted volumes,
//! and what only its vendor offers.

use std::future::Future;

use sabakan_domain::{
    audit::Actor,
    provision::{
        accept,
        boot::BootMode,
        control::{self, Indicator, VendorMethod},
        engine::Changed,
        interfaces::{self, Slot},
        node::{Node, Object, Severity},
        power::PowerState,
        raid,
        steps::Args,
    },
    words::Serial,
};
use sabakan_drivers::DriverError;
use sabakan_store::repo::nodes::{self, Facts};
use serde_json::Value;

use super::{AskRefusal, Nodes, Shown, control::within};
use crate::{ServiceError, hardware::Hardware};

/// A change of how a machine boots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BootChange {
    /// UEFI or legacy.
    Mode(BootMode),
    /// Whether only signed programs start.
    Secure(bool),
}

impl Nodes {
    /// Changes how a machine boots. Whether the controller took it is recorded with the node, as callers of this API expect: a
    /// controller that cannot is no error of the call.
    pub async fn change_boot(&self, actor: &Actor, name: &Serial, change: BootChange) -> Result<(), ServiceError> {
        let shown = self.glance(name.as_str()).await?;
        shown.check_unlocked()?;
        control::check_boot_change(&shown.node).map_err(AskRefusal::from).map_err(crate::error::Refusal::kind)?;
        let bmc = self.bmc(name).await?;
        let done = match change {
            BootChange::Mode(mode) => call(&shown, bmc.choose_boot_mode(mode)).await,
            BootChange::Secure(enable) => call(&shown, bmc.choose_secure_boot(enable)).await,
        };
        let done = done.map_err(|error| error.to_string());
        let on = &self.on;
        let by = on.by(actor);
        let decide = |facts: &Facts| -> Result<Option<(Changed, String)>, AskRefusal> {
            let mut changed = Changed::new(&facts.node);
            let (severity, text) = match &done {
                Ok(()) => (Severity::Info, change.done(&mut changed.node)),
                Err(reason) => (Severity::Error, change.failed(&mut changed.node, reason)),
            };
            changed.rows.push(accept::row(&changed.node, &actor.name, severity, text.clone(), by.now));
            Ok(Some((changed, text)))
        };
        nodes::ask(&*on.store, &on.keys, &by, name, "boot-settings", decide).await?;
        Ok(())
    }

    /// Interrupts the operating system of a machine in a way it cannot mask.
    pub async fn interrupt(&self, actor: &Actor, name: &Serial) -> Result<(), ServiceError> {
        let shown = self.glance(name.as_str()).await?;
        shown.check_unlocked()?;
        let bmc = self.bmc(name).await?;
        call(&shown, bmc.interrupt()).await?;
        tracing::info!(serial = %name, user = actor.name, "non-maskable interrupt sent");
        Ok(())
    }

    /// Restarts the controller of a machine. Not while somebody works on the machine: the work would lose it.
    pub async fn reset_bmc(&self, actor: &Actor, name: &Serial) -> Result<(), ServiceError> {
        let shown = self.glance(name.as_str()).await?;
        shown.check_unlocked()?;
        let bmc = self.bmc(name).await?;
        call(&shown, bmc.reset_bmc()).await?;
        tracing::info!(serial = %name, user = actor.name, "controller restarted");
        Ok(())
    }

    /// Asks the controller of a machine for its power, now; `None`: it does not say. What is kept with the node may be minutes old.
    pub async fn read_power(&self, name: &Serial) -> Result<Option<PowerState>, ServiceError> {
        let bmc = self.bmc(name).await?;
        within(bmc.power()).await
    }

    /// Whether the console of a node is on.
    pub async fn console(&self, name: &Serial) -> Result<bool, ServiceError> {
        let shown = self.glance(name.as_str()).await?;
        has(&shown, Slot::Console).map(|()| shown.node.controls.console_enabled)
    }

    /// Switches the console of a node on or off.
    pub async fn set_console(&self, actor: &Actor, name: &Serial, enabled: bool) -> Result<(), ServiceError> {
        has(&self.glance(name.as_str()).await?, Slot::Console)?;
        let write = |node: &Node| {
            let mut node = node.clone();
            node.controls.console_enabled = enabled;
            Ok(node)
        };
        self.edit(actor, name, "console", write).await.map(drop)
    }

    /// Lights of a machine.
    pub async fn indicators(&self, name: &Serial) -> Result<Vec<Indicator>, ServiceError> {
        let bmc = self.bmc(name).await?;
        within(bmc.indicators()).await
    }

    /// Notes which logical volumes somebody wants. Making them is a step of cleaning. `None`: the driver of the node has no RAID.
    pub async fn want_volumes(
        &self,
        actor: &Actor,
        name: &Serial,
        wanted: &Object,
    ) -> Result<Option<()>, ServiceError> {
        raid::check(wanted).map_err(|refusal| ServiceError::Invalid(refusal.to_string()))?;
        if has(&self.glance(name.as_str()).await?, Slot::Raid).is_err() {
            return Ok(None);
        }
        let now = self.on.clock.now();
        let write = |node: &Node| {
            let mut node = node.clone();
            if node.details.target_raid != *wanted {
                node.details.target_raid = wanted.clone();
                node.details.edited_at = Some(now);
            }
            Ok(node)
        };
        self.edit(actor, name, "raid", write).await.map(|_| Some(()))
    }

    /// What only the vendor of a node's machine offers.
    pub async fn vendor_methods(&self, name: &Serial) -> Result<&'static [VendorMethod], ServiceError> {
        let shown = self.glance(name.as_str()).await?;
        offered(&self.hardware, &shown)
    }

    /// Calls a vendor's method. `None`: it has no answer that the caller waits for.
    pub async fn call_vendor(
        &self,
        actor: &Actor,
        name: &Serial,
        method: &str,
        http: &str,
        args: &Args,
    ) -> Result<Option<Value>, ServiceError> {
        let shown = self.glance(name.as_str()).await?;
        let offered = offered(&self.hardware, &shown)?;
        let found = control::vendor_method(offered, method, http, args);
        let found = found.map_err(AskRefusal::from).map_err(crate::error::Refusal::kind)?;
        if found.exclusive {
            shown.check_unlocked()?;
        }
        let bmc = self.bmc(name).await?;
        let answer = call(&shown, bmc.call_vendor(found.name, args)).await?;
        tracing::info!(serial = %name, method = found.name, user = actor.name, "vendor method called");
        Ok((!found.asynchronous).then_some(answer))
    }
}

impl BootChange {
    /// The controller took it.
    fn done(self, node: &mut Node) -> String {
        match self {
            BootChange::Mode(mode) => {
                node.controls.boot_mode = Some(mode);
                format!("boot mode set to {}", mode.as_str())
            }
            BootChange::Secure(enable) => {
                node.controls.secure_boot = Some(enable);
                format!("secure boot {}", if enable { "switched on" } else { "switched off" })
            }
        }
    }

    /// The controller did not; what it had is left as it was known.
    fn failed(self, node: &mut Node, reason: &str) -> String {
        let text = match self {
            BootChange::Mode(mode) => format!("Failed to change boot_mode state to '{}': {reason}", mode.as_str()),
            BootChange::Secure(enable) => {
                let wanted = if enable { "True" } else { "False" };
                format!("Failed to change secure_boot state to '{wanted}': {reason}")
            }
        };
        node.last_error = Some(text.clone());
        text
    }
}

fn offered(hardware: &Hardware, shown: &Shown) -> Result<&'static [VendorMethod], ServiceError> {
    let driver = hardware.driver_of(&shown.node, shown.machine.as_deref())?;
    Ok(if has(shown, Slot::Vendor).is_ok() { driver.vendor_methods() } else { &[] })
}

/// Whether a slot of a node is filled with something.
fn has(shown: &Shown, slot: Slot) -> Result<(), ServiceError> {
    let driver = shown.node.driver.as_deref().or(shown.driver);
    let chosen = interfaces::effective(&shown.node.details.interfaces, driver, slot).unwrap_or_default();
    if chosen.is_empty() || chosen.starts_with("no-") {
        return Err(ServiceError::Invalid(no_such(driver, slot.as_str())));
    }
    Ok(())
}

/// A function that is missing, as callers of the provisioning API know it.
fn no_such(driver: Option<&str>, what: &str) -> String {
    format!("Driver {} does not support {what} (disabled or not implemented).", driver.unwrap_or("unknown"))
}

/// Calls a controller. A function it lacks is told in the words of the provisioning API.
async fn call<T>(shown: &Shown, work: impl Future<Output = Result<T, DriverError>>) -> Result<T, ServiceError> {
    let answer = within(async {
        match work.await {
            Err(DriverError::Unsupported(what)) => Ok(Err(what)),
            done => done.map(Ok),
        }
    });
    let driver = shown.node.driver.as_deref().or(shown.driver);
    answer.await?.map_err(|what| ServiceError::Invalid(no_such(driver, &what)))
}
