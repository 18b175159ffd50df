//! What every driver promises, as tests: the executable description of [`Driver`] and [`Bmc`].
//!
//! A driver's own tests describe one machine as a [`Subject`] and call [`run_all`], or take the cases one by one. Each case assumes
//! only that nobody else commands the machine meanwhile, and leaves it switched off. A case that the machine cannot show (no
//! sensors, a boot device that cannot be read back) is only left out where the subject says so.

mod boot;
mod counting;
mod power;
mod reading;
mod refusals;
mod secrets;

use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

use sabakan_domain::provision::{boot::BootDevice, power::PowerState};

pub use self::{
    boot::boot_device_is_set_and_read_back,
    power::{power_changes, what_is_there_already_is_not_commanded},
    reading::{
        configuration_is_read_twice_the_same, health_is_read, inspection_is_tolerant, sensors_make_sense,
        verify_reads_power,
    },
    refusals::{
        step_tables_are_sound, unreachable_is_told, unsupported_is_told, unusable_settings_are_told,
        wrong_credentials_are_told,
    },
    secrets::secrets_are_not_shown,
};
use crate::{Bmc, Driver, Settings};

/// A look at the machine that does not go through the driver under test: the emulator's own interface, or its process table. `None`:
/// it cannot tell.
pub trait Witness: Send + Sync {
    /// Whether the machine really has power.
    fn power(&self) -> Pin<Box<dyn Future<Output = Option<PowerState>> + Send + '_>>;
}

/// One machine, how its controller is reached in the right way and in two wrong ways, and what it can show.
pub struct Subject<'a> {
    /// The driver under test.
    pub driver: &'a dyn Driver,
    /// Reach the controller.
    pub settings: Settings,
    /// The same, with a password that is not the right one.
    pub wrong_credentials: Settings,
    /// Lead nowhere: a port on which nobody listens, or nobody answers.
    pub unreachable: Settings,
    /// Longest time until the driver has to say that the controller is unreachable; its own bound and a little more.
    pub unreachable_within: Duration,
    /// Longest time of one change of power until its confirmation.
    pub power_within: Duration,
    /// Whether something on the machine obeys a soft shutdown.
    pub obeys_soft: bool,
    /// Devices to set; each must be among those the controller names.
    pub boot_devices: &'a [BootDevice],
    /// Whether the controller tells what was set.
    pub reads_boot: bool,
    /// Whether it has an inventory: at least one fact about the hardware.
    pub has_inventory: bool,
    /// Whether it has sensors.
    pub has_sensors: bool,
    /// Whether it gives a verdict about the hardware.
    pub has_health: bool,
    /// A second look at the power, so that a driver cannot confirm itself.
    pub witness: Option<&'a dyn Witness>,
}

impl Subject<'_> {
    fn bmc(&self) -> Arc<dyn Bmc> {
        connect(self.driver, &self.settings)
    }
}

/// Runs every case, one after the other. Panics at the first promise that is broken, saying which.
pub async fn run_all(subject: &Subject<'_>) {
    step_tables_are_sound(subject);
    unusable_settings_are_told(subject);
    verify_reads_power(subject).await;
    wrong_credentials_are_told(subject).await;
    unreachable_is_told(subject).await;
    unsupported_is_told(subject).await;
    power_changes(subject).await;
    what_is_there_already_is_not_commanded(subject).await;
    boot_device_is_set_and_read_back(subject).await;
    inspection_is_tolerant(subject).await;
    sensors_make_sense(subject).await;
    health_is_read(subject).await;
    configuration_is_read_twice_the_same(subject).await;
    secrets_are_not_shown(subject).await;
}

/// Settings that are well-formed must be accepted without contacting anybody, also when they lead nowhere.
fn connect(driver: &dyn Driver, settings: &Settings) -> Arc<dyn Bmc> {
    match driver.connect(settings) {
        Ok(bmc) => bmc,
        Err(error) => panic!("{}: well-formed settings were refused: {error}", driver.name()),
    }
}
