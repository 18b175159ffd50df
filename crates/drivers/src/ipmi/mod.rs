//! IPMI 2.0 over LAN, for controllers without Redfish: power, boot device, sensors, and the little inventory it has.
//!
//! Runs `ipmitool`, one bounded process per command (`process`); there is no sound library, and a process is the least part of a
//! command that waits for a small controller. What it prints on errors is understood in one table (`failure`); requests are raw
//! bytes wherever a table would have to be read otherwise (`wire`). Calls to one controller take turns (`lane`).
//!
//! Not here: consoles, and version 1.5 of the protocol, which encrypts nothing.

mod bmc;
mod failure;
mod lane;
mod limits;
mod process;
mod settings;
mod wire;

use std::{path::PathBuf, sync::Arc};

use sabakan_domain::provision::steps::StepSpec;

use self::{bmc::IpmiBmc, lane::Yard, settings::Target};
pub use self::{lane::IpmiOptions, process::find_tool};
use crate::{Bmc, Driver, DriverError, Settings};

/// The driver `ipmi`.
pub struct IpmiDriver {
    yard: Arc<Yard>,
}

impl IpmiDriver {
    /// Runs this program, which [`find_tool`] finds, with the bounds for real controllers.
    pub fn new(tool: impl Into<PathBuf>) -> IpmiDriver {
        IpmiDriver::with_options(tool, IpmiOptions::default())
    }

    /// The same with other bounds.
    pub fn with_options(tool: impl Into<PathBuf>, options: IpmiOptions) -> IpmiDriver {
        IpmiDriver { yard: Arc::new(Yard::new(tool.into(), options)) }
    }
}

impl Driver for IpmiDriver {
    fn name(&self) -> &'static str {
        "ipmi"
    }

    /// Also fails where ipmitool is not installed, so that a validation says so before anything is started.
    fn connect(&self, settings: &Settings) -> Result<Arc<dyn Bmc>, DriverError> {
        let target = Target::new(settings)?;
        if !self.yard.tool.is_file() {
            return Err(process::missing(&self.yard.tool));
        }
        Ok(Arc::new(IpmiBmc::new(&self.yard, target)))
    }

    fn steps(&self) -> &'static [StepSpec] {
        bmc::STEPS
    }

    fn secret_settings(&self) -> &'static [&'static str] {
        settings::SECRETS
    }
}
