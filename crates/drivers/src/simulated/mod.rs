//! Simulated machines: thousands of them in one process, each with power, boot device, volumes, firmware, sensors and a ramdisk that
//! calls back; and with faults on demand, from the code ([`Fleet::set_fault`]) or from `driver_info` ([`KEYS`]).
//!
//! For tests and the demo. Nothing here opens a socket, sleeps a thread or takes a random number: a machine follows from the seed of
//! its fleet and its serial, and time is tokio's, so that a test can move it. In the provisioning API the driver is called
//! `fake-hardware`, the name under which clients expect one that needs no settings.

mod bmc;
mod calls;
mod facts;
mod fault;
mod fleet;
mod hardware;
mod latency;
mod limits;
mod machine;
mod ramdisk;
mod steps;
#[cfg(test)]
mod tests;
mod vendor;

use std::sync::Arc;

use sabakan_domain::provision::{control::VendorMethod, steps::StepSpec};

use self::{bmc::SimulatedBmc, ramdisk::SimulatedRamdisk};
pub use self::{
    calls::{Calls, Command},
    fault::{Call, Fault, KEYS, Point},
    fleet::{Fleet, FleetConfig, Heartbeat},
    latency::Latencies,
    machine::Running,
    steps::{RAMDISK_STEPS, STEPS, STEPS_ERASING_MEMBERS},
};
use crate::{Bmc, Driver, DriverError, Ramdisk, Settings};

/// The driver of simulated machines. A machine is found by [`Settings::machine`].
pub struct SimulatedDriver {
    /// Its machines.
    pub fleet: Fleet,
}

impl Driver for SimulatedDriver {
    fn name(&self) -> &'static str {
        "fake-hardware"
    }

    fn connect(&self, settings: &Settings) -> Result<Arc<dyn Bmc>, DriverError> {
        if settings.machine.is_empty() {
            return Err(DriverError::settings(
                "machine",
                "a simulated machine is found by its serial, and there is none",
            ));
        }
        let faults = fault::from_settings(settings)?.into();
        let password = settings.secrets.get("fake_password");
        let accepted = password.is_none_or(|given| given.expose() == self.fleet.config().password.expose());
        let machine = self.fleet.machine(&settings.machine);
        Ok(Arc::new(SimulatedBmc { fleet: self.fleet.clone(), machine, faults, accepted }))
    }

    fn steps(&self) -> &'static [StepSpec] {
        if self.fleet.config().erases_members { STEPS_ERASING_MEMBERS } else { STEPS }
    }

    fn ramdisk_steps(&self) -> &'static [StepSpec] {
        RAMDISK_STEPS
    }

    fn ramdisk(&self, settings: &Settings, url: &str) -> Result<Arc<dyn Ramdisk>, DriverError> {
        match ramdisk::parse_url(url) {
            Some((serial, boot)) if serial == settings.machine => {
                Ok(Arc::new(SimulatedRamdisk { machine: self.fleet.machine(serial), boot }))
            }
            _ => {
                let reason = format!("{url:?} is not an address of a ramdisk on {}", settings.machine);
                Err(DriverError::Protocol { what: "where the ramdisk is".to_owned(), reason })
            }
        }
    }

    fn vendor_methods(&self) -> &'static [VendorMethod] {
        vendor::METHODS
    }

    fn secret_settings(&self) -> &'static [&'static str] {
        &["fake_password"]
    }
}
