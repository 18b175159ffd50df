//! All simulated machines of a process.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use sabakan_domain::provision::{hardware::Configuration, power::PowerState};
use tokio::{sync::mpsc, time::Instant};

use super::{
    calls::Calls,
    fault::Fault,
    latency::Latencies,
    limits::CALLBACKS_MAX,
    machine::{Machine, Running},
    ramdisk,
};
use crate::Secret;

/// What all machines of a fleet have in common.
#[derive(Debug, Clone)]
pub struct FleetConfig {
    /// What machines are made of follows from this and their serials.
    pub seed: u64,
    /// How long things take.
    pub latencies: Latencies,
    /// The password of every controller. Settings without one are accepted, because a node of the simulated driver needs none.
    pub password: Secret,
    /// Automated cleaning erases the disks below the logical volumes, so that the volumes have to be rebuilt.
    pub erases_members: bool,
}

impl FleetConfig {
    /// For tests: nothing takes time.
    pub fn instant() -> FleetConfig {
        FleetConfig { latencies: Latencies::none(), ..FleetConfig::default() }
    }
}

impl Default for FleetConfig {
    fn default() -> FleetConfig {
        let password = Secret::new("sim-Pa55word");
        FleetConfig { seed: 0, latencies: Latencies::realistic(), password, erases_members: false }
    }
}

/// A call of a ramdisk: "I run here, and the step I was given has ended, if there was one".
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heartbeat {
    /// Serial of the machine.
    pub machine: String,
    /// Where the ramdisk can be reached; another one after every start.
    pub url: String,
}

/// All simulated machines of a process. Copies are the same fleet. Machines come into being when they are first named: there is one
/// for each node that uses the driver, which is what bounds them.
#[derive(Clone)]
pub struct Fleet(Arc<Inner>);

pub(super) struct Inner {
    config: Arc<FleetConfig>,
    machines: Mutex<HashMap<String, Arc<Machine>>>,
    callbacks: Mutex<mpsc::Sender<Heartbeat>>,
}

impl Fleet {
    /// A fleet without machines.
    pub fn new(config: FleetConfig) -> Fleet {
        let (callbacks, _nobody_yet) = mpsc::channel(1);
        let (config, callbacks) = (Arc::new(config), Mutex::new(callbacks));
        Fleet(Arc::new(Inner { config, machines: Mutex::default(), callbacks }))
    }

    /// What its machines have in common.
    pub fn config(&self) -> &FleetConfig {
        &self.0.config
    }

    /// Where the ramdisks call, from now on; whoever listened before hears nothing more. A call that nobody takes waits for room for
    /// as long as the pause between two calls, then it is lost and the next one says the same. So a slow listener is never flooded
    /// (one call per machine at most waits), and one who comes late or again misses nothing for longer than a pause.
    pub fn callbacks(&self) -> mpsc::Receiver<Heartbeat> {
        let (sender, receiver) = mpsc::channel(CALLBACKS_MAX);
        *unpoisoned(&self.0.callbacks) = sender;
        receiver
    }

    /// Adds a fault to a machine; one of the same kind is replaced, except that several places may fail or hang.
    pub fn set_fault(&self, serial: &str, fault: Fault) {
        self.machine(serial).look().add_fault(fault);
    }

    /// Takes away the faults that [`Fleet::set_fault`] added. Those from `driver_info` stay. A ramdisk that was silent calls again:
    /// like [`Fleet::set_power`] only within a runtime.
    pub fn clear_faults(&self, serial: &str) {
        let machine = self.machine(serial);
        machine.look().clear_faults();
        ramdisk::attend(&machine, &self.downgrade());
    }

    /// Somebody at the rack presses the button: the power changes and the controller was not asked.
    pub fn set_power(&self, serial: &str, power: PowerState) {
        let machine = self.machine(serial);
        machine.look().take_power(&machine, power, Instant::now());
        ramdisk::attend(&machine, &self.downgrade());
    }

    /// Whether a machine really has power, whatever its controller says.
    pub fn power(&self, serial: &str) -> PowerState {
        self.machine(serial).look().power
    }

    /// What runs on a machine.
    pub fn running(&self, serial: &str) -> Running {
        self.machine(serial).look().running()
    }

    /// How a machine really is configured.
    pub fn configuration(&self, serial: &str) -> Configuration {
        let machine = self.machine(serial);
        let state = machine.look();
        state.hardware.configuration(machine.id(), state.every)
    }

    /// What a machine was asked so far.
    pub fn calls(&self, serial: &str) -> Calls {
        self.machine(serial).look().log.read()
    }

    /// How many machines there are.
    pub fn len(&self) -> usize {
        unpoisoned(&self.0.machines).len()
    }

    /// Whether there is no machine.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn machine(&self, serial: &str) -> Arc<Machine> {
        let mut machines = unpoisoned(&self.0.machines);
        if let Some(machine) = machines.get(serial) {
            return Arc::clone(machine);
        }
        let machine = Arc::new(Machine::new(serial, Arc::clone(&self.0.config)));
        machines.insert(serial.to_owned(), Arc::clone(&machine));
        machine
    }

    pub(super) fn downgrade(&self) -> Weak<Inner> {
        Arc::downgrade(&self.0)
    }
}

impl Inner {
    pub(super) fn sender(&self) -> mpsc::Sender<Heartbeat> {
        unpoisoned(&self.callbacks).clone()
    }
}

fn unpoisoned<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
