//! Ten thousand machines in one process.

use std::{collections::BTreeSet, time::Duration};

use sabakan_domain::provision::{
    boot::BootDevice,
    power::{PowerState, PowerTarget},
};
use sabakan_drivers::{
    Driver, Settings, power,
    simulated::{Fleet, FleetConfig, SimulatedDriver},
};
use tokio::{task::JoinSet, time::timeout};

use super::boot_once;

const MACHINES: usize = 10_000;

/// Generous: it takes about a second on a small machine.
const LONG: Duration = Duration::from_secs(120);

fn serial(n: usize) -> String {
    format!("sim-{n:05}")
}

async fn start_all(fleet: &Fleet, device: BootDevice) {
    let mut all = JoinSet::new();
    for n in 0..MACHINES {
        let driver = SimulatedDriver { fleet: fleet.clone() };
        all.spawn(async move {
            let settings = Settings { machine: serial(n), ..Settings::default() };
            let bmc = driver.connect(&settings).unwrap();
            bmc.set_boot(&boot_once(device)).await.unwrap();
            power::change(&*bmc, PowerTarget::On, LONG).await.unwrap()
        });
    }
    while let Some(reached) = all.join_next().await {
        assert_eq!(reached.unwrap(), PowerState::On);
    }
}

/// Memory of this process, where the system tells. Only printed: other tests of the process use memory, too.
fn resident_kib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_machines_are_switched_on_together() {
    let before = resident_kib();
    let fleet = Fleet::new(FleetConfig::instant());
    timeout(LONG, start_all(&fleet, BootDevice::Disk)).await.expect("all machines are switched on");
    assert_eq!(fleet.len(), MACHINES);
    let on = (0..MACHINES).filter(|n| fleet.power(&serial(*n)) == PowerState::On).count();
    assert_eq!(on, MACHINES);
    let tasks = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    assert!(tasks < 100, "{tasks} tasks for machines that are idle");
    if let (Some(before), Some(after)) = (before, resident_kib()) {
        println!("{} bytes per machine", after.saturating_sub(before) * 1024 / 10_000);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_ramdisks_are_all_heard() {
    let before = resident_kib();
    let fleet = Fleet::new(FleetConfig::instant());
    let mut calls = fleet.callbacks();
    let mut heard = BTreeSet::new();
    let all = async {
        let listening = async {
            while heard.len() < MACHINES {
                heard.insert(calls.recv().await.unwrap().machine);
            }
        };
        tokio::join!(start_all(&fleet, BootDevice::Pxe), listening);
    };
    timeout(LONG, all).await.expect("every ramdisk calls");
    if let (Some(before), Some(after)) = (before, resident_kib()) {
        println!("{} bytes per machine with its ramdisk", after.saturating_sub(before) * 1024 / 10_000);
    }
}
