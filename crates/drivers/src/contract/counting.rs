//! A controller between the suite and the real one, which counts what is commanded.

use std::sync::atomic::{AtomicU32, Ordering};

use sabakan_domain::provision::{
    boot::{BootDevice, BootRequest},
    hardware::{Configuration, HardwareHealth, Inventory, Sensor},
    power::{PowerState, PowerTarget},
    steps::Step,
};

use crate::{Bmc, BmcFuture, StepOutcome, TaskId, TaskState};

pub(super) struct Counting<'a> {
    inner: &'a dyn Bmc,
    power: AtomicU32,
}

impl<'a> Counting<'a> {
    pub(super) fn new(inner: &'a dyn Bmc) -> Counting<'a> {
        Counting { inner, power: AtomicU32::new(0) }
    }

    pub(super) fn power_commands(&self) -> u32 {
        self.power.load(Ordering::Relaxed)
    }
}

impl Bmc for Counting<'_> {
    fn power(&self) -> BmcFuture<'_, Option<PowerState>> {
        self.inner.power()
    }

    fn command_power(&self, target: PowerTarget) -> BmcFuture<'_, ()> {
        self.power.fetch_add(1, Ordering::Relaxed);
        self.inner.command_power(target)
    }

    fn power_targets(&self) -> &'static [PowerTarget] {
        self.inner.power_targets()
    }

    fn set_boot(&self, request: &BootRequest) -> BmcFuture<'_, ()> {
        self.inner.set_boot(request)
    }

    fn boot(&self) -> BmcFuture<'_, (BootDevice, bool)> {
        self.inner.boot()
    }

    fn boot_devices(&self) -> BmcFuture<'_, Vec<BootDevice>> {
        self.inner.boot_devices()
    }

    fn inspect(&self) -> BmcFuture<'_, Inventory> {
        self.inner.inspect()
    }

    fn sensors(&self) -> BmcFuture<'_, Vec<Sensor>> {
        self.inner.sensors()
    }

    fn health(&self) -> BmcFuture<'_, Option<HardwareHealth>> {
        self.inner.health()
    }

    fn configuration(&self) -> BmcFuture<'_, Configuration> {
        self.inner.configuration()
    }

    fn restore(&self, wanted: &Configuration) -> BmcFuture<'_, StepOutcome> {
        self.inner.restore(wanted)
    }

    fn run_step(&self, step: &Step) -> BmcFuture<'_, StepOutcome> {
        self.inner.run_step(step)
    }

    fn task(&self, task: &TaskId) -> BmcFuture<'_, TaskState> {
        self.inner.task(task)
    }

    fn reset_bmc(&self) -> BmcFuture<'_, ()> {
        self.inner.reset_bmc()
    }
}
