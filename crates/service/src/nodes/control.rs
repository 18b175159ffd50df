//! What callers do with a controller directly: look whether its settings make sense, read and set the boot device.

use std::{collections::BTreeMap, future::Future, sync::Arc};

use sabakan_domain::{
    audit::Actor,
    provision::{
        boot::{BootDevice, BootRequest},
        interfaces::{self, Slot},
        promises::{self, UnmetWish},
    },
    words::Serial,
};
use sabakan_drivers::{Bmc, DriverError};

use sabakan_store::{repo::nodes, view::Lock};

use super::{Nodes, Shown};
use crate::{ServiceError, limits};

/// What an interface says to the settings of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// They can be used.
    Fine,
    /// They cannot; why.
    Wrong(String),
    /// The node does not have this interface.
    Absent(String),
}

impl Nodes {
    /// What each interface says to the settings of a node. Contacts nobody.
    pub async fn validate(&self, shown: &Shown) -> BTreeMap<Slot, Verdict> {
        let settings = match self.hardware.choose(&shown.node, shown.machine.as_deref()).await {
            Ok(chosen) => chosen.connect().map(drop).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        let driver = shown.node.driver.as_deref().or(shown.driver);
        let unmet = self.unmet(shown).await;
        let verdict = |slot: Slot| {
            let chosen = interfaces::effective(&shown.node.details.interfaces, driver, slot).unwrap_or_default();
            let contacts = matches!(
                slot,
                Slot::Power | Slot::Management | Slot::Inspect | Slot::Boot | Slot::Deploy | Slot::Raid | Slot::Bios
            );
            match &settings {
                _ if chosen.starts_with("no-") => {
                    Verdict::Absent(format!("the driver of this node has no {slot} interface ({chosen})"))
                }
                Err(reason) if contacts => Verdict::Wrong(reason.clone()),
                _ => match unmet.iter().find(|wish| wish.slot == slot) {
                    Some(wish) => Verdict::Wrong(wish.to_string()),
                    None => Verdict::Fine,
                },
            }
        };
        // Methods of vendors have no settings to look at.
        Slot::ALL.into_iter().filter(|slot| *slot != Slot::Vendor).map(|slot| (slot, verdict(slot))).collect()
    }

    /// What a node asks for and its interfaces cannot do: what its verbs would be refused with.
    async fn unmet(&self, shown: &Shown) -> Vec<UnmetWish> {
        let Ok(offered) = self.hardware.offered(&shown.node, shown.machine.as_deref()) else { return Vec::new() };
        // A store that does not answer is told by everything else; here it only means that no key is known of.
        let has_keys = nodes::has_keys(&*self.on.store, &self.on.keys, &shown.node.name).await.unwrap_or(false);
        promises::check_all(&shown.node, offered, has_keys, &self.options)
    }

    /// What a machine starts from, and whether every time.
    pub async fn boot_device(&self, name: &Serial) -> Result<(BootDevice, bool), ServiceError> {
        let bmc = self.bmc(name).await?;
        within(bmc.boot()).await
    }

    /// What a machine can be told to start from.
    pub async fn boot_devices(&self, name: &Serial) -> Result<Vec<BootDevice>, ServiceError> {
        let bmc = self.bmc(name).await?;
        within(bmc.boot_devices()).await
    }

    /// Tells a machine what to start from. Not while somebody works on it: the work decides then.
    pub async fn set_boot_device(
        &self,
        actor: &Actor,
        name: &Serial,
        request: &BootRequest,
    ) -> Result<(), ServiceError> {
        self.glance(name.as_str()).await?.check_unlocked()?;
        let bmc = self.bmc(name).await?;
        let offered = within(bmc.boot_devices()).await?;
        if !offered.contains(&request.device) {
            let known: Vec<_> = offered.into_iter().map(BootDevice::as_str).collect();
            return Err(ServiceError::Invalid(format!(
                "invalid boot device {} specified; this machine offers: {}",
                request.device,
                known.join(", ")
            )));
        }
        within(bmc.set_boot(request)).await?;
        tracing::info!(serial = %name, device = %request.device, user = actor.name, "boot device set");
        Ok(())
    }

    pub(super) async fn bmc(&self, name: &Serial) -> Result<Arc<dyn Bmc>, ServiceError> {
        let shown = self.glance(name.as_str()).await?;
        let chosen = self.hardware.choose(&shown.node, shown.machine.as_deref()).await?;
        chosen.connect().map_err(|error| kind(&error))
    }
}

impl Shown {
    /// Nobody else shall command a machine somebody works on.
    pub(super) fn check_unlocked(&self) -> Result<(), ServiceError> {
        match &self.lock {
            Some(Lock { record, .. }) => Err(ServiceError::Conflict(format!(
                "node {} is locked by {}, which works on it",
                self.node.name, record.holder
            ))),
            None => Ok(()),
        }
    }
}

/// Nobody waits for a controller for ever.
pub(super) async fn within<T>(call: impl Future<Output = Result<T, DriverError>>) -> Result<T, ServiceError> {
    match tokio::time::timeout(limits::BMC_REQUEST_MAX, call).await {
        Ok(answer) => answer.map_err(|error| kind(&error)),
        Err(_) => Err(ServiceError::Hardware("the BMC did not answer in time".to_owned())),
    }
}

fn kind(error: &DriverError) -> ServiceError {
    match error {
        DriverError::Settings { .. } | DriverError::Unsupported(_) | DriverError::Rejected { .. } => {
            ServiceError::Invalid(error.to_string())
        }
        DriverError::Unreachable(_)
        | DriverError::Untrusted(_)
        | DriverError::Credentials(_)
        | DriverError::Failed { .. }
        | DriverError::Missing(_)
        | DriverError::Protocol { .. } => ServiceError::Hardware(error.to_string()),
    }
}
