//! Simulated machines: the contract, each fault and its effect, steps, the ramdisk, and many machines at once.

mod contract;
mod crowd;
mod faults;
mod ramdisk;
mod steps;

use std::{sync::Arc, time::Duration};

use sabakan_domain::provision::{
    boot::{BootDevice, BootRequest},
    steps::{Args, Step, StepSpec},
};
use sabakan_drivers::{
    Bmc, Driver, DriverError, Settings, StepOutcome, TaskState,
    simulated::{Fault, Fleet, FleetConfig, SimulatedDriver},
};
use serde_json::Value;

/// Longest time anything may take in these tests; on paused time it passes at once.
const SOON: Duration = Duration::from_secs(60);

/// One machine of a fleet in which nothing takes time.
struct Bench {
    fleet: Fleet,
    driver: SimulatedDriver,
}

impl Bench {
    fn new() -> Bench {
        Bench::with(FleetConfig::instant())
    }

    fn with(config: FleetConfig) -> Bench {
        let fleet = Fleet::new(config);
        Bench { driver: SimulatedDriver { fleet: fleet.clone() }, fleet }
    }

    fn with_fault(fault: Fault) -> Bench {
        let bench = Bench::new();
        bench.fleet.set_fault("m1", fault);
        bench
    }

    fn bmc(&self) -> Arc<dyn Bmc> {
        self.driver.connect(&settings(&[])).unwrap()
    }

    fn bmc_with(&self, key: &str, value: Value) -> Arc<dyn Bmc> {
        self.driver.connect(&settings(&[(key, value)])).unwrap()
    }
}

fn settings(values: &[(&str, Value)]) -> Settings {
    let values = values.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect();
    Settings { values, machine: "m1".to_owned(), ..Settings::default() }
}

fn step(specs: &[StepSpec], key: &str, args: &[(&str, Value)]) -> Step {
    let spec = specs.iter().find(|spec| spec.key() == key).unwrap();
    let args: Args = args.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    spec.step(args, spec.priority)
}

fn boot_once(device: BootDevice) -> BootRequest {
    BootRequest { device, persistent: false, http_uri: None }
}

/// The end of a task, asked for until there is one.
async fn end_of(bmc: &dyn Bmc, outcome: StepOutcome) -> Result<TaskState, DriverError> {
    let StepOutcome::Running(task) = outcome else { panic!("not a task: {outcome:?}") };
    let ended = async {
        loop {
            match bmc.task(&task).await? {
                TaskState::Running(_) => tokio::time::sleep(Duration::from_millis(100)).await,
                ended => return Ok(ended),
            }
        }
    };
    tokio::time::timeout(SOON * 60, ended).await.expect("the task ends")
}
