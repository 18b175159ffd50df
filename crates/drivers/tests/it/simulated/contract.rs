//! The contract, and that the contract can be broken.

use std::{future::Future, pin::Pin, time::Duration};

use sabakan_domain::provision::{boot::BootDevice, power::PowerState};
use sabakan_drivers::{
    Driver, Secret, Settings,
    contract::{self, Subject, Witness},
    simulated::{Fleet, FleetConfig, Latencies, SimulatedDriver},
};
use serde_json::{Value, json};

use super::settings;

struct Rack(Fleet);

impl Witness for Rack {
    fn power(&self) -> Pin<Box<dyn Future<Output = Option<PowerState>> + Send + '_>> {
        Box::pin(async { Some(self.0.power("m1")) })
    }
}

fn with_password(values: &[(&str, Value)], password: &str) -> Settings {
    Settings { secrets: [("fake_password".to_owned(), Secret::new(password))].into(), ..settings(values) }
}

/// A machine under test, with settings that ask for `fault`.
fn subject<'a>(
    driver: &'a SimulatedDriver,
    witness: &'a Rack,
    fault: &[(&str, Value)],
    unreachable: (&str, Value),
) -> Subject<'a> {
    let right = driver.fleet.config().password.expose();
    Subject {
        driver: driver as &dyn Driver,
        settings: with_password(fault, right),
        wrong_credentials: with_password(&[], "a-Wrong-1"),
        unreachable: with_password(&[unreachable], right),
        unreachable_within: Duration::from_secs(31),
        power_within: Duration::from_secs(60),
        obeys_soft: true,
        boot_devices: &[BootDevice::Pxe, BootDevice::UefiHttp, BootDevice::Disk],
        reads_boot: true,
        has_inventory: true,
        has_sensors: true,
        has_health: true,
        witness: Some(witness),
    }
}

async fn run(latencies: Latencies, fault: &[(&str, Value)], unreachable: (&str, Value)) {
    let fleet = Fleet::new(FleetConfig { latencies, ..FleetConfig::default() });
    let (driver, witness) = (SimulatedDriver { fleet: fleet.clone() }, Rack(fleet));
    contract::run_all(&subject(&driver, &witness, fault, unreachable)).await;
}

#[tokio::test(start_paused = true)]
async fn simulated_machines_keep_the_contract() {
    run(Latencies::none(), &[], ("fake_hang", json!("all"))).await;
    run(Latencies::realistic(), &[], ("fake_hang", json!("all"))).await;
    run(Latencies::realistic(), &[], ("fake_drop_after", json!(0))).await;
    run(Latencies::realistic(), &[("fake_delay_ms", json!(900))], ("fake_delay_ms", json!(3_600_000))).await;
}

/// A suite that passes everything proves nothing: each of these machines lies or fails in one way, and is found out.
#[tokio::test(start_paused = true)]
async fn the_contract_finds_machines_that_break_it() {
    let broken = [
        ("fake_power", json!("stuck"), "was not confirmed"),
        ("fake_power", json!("inverted"), "the machine itself says otherwise"),
        ("fake_power", json!("flapping"), "after power on was confirmed"),
        ("fake_wrong_password", json!(true), "was not read with the right credentials"),
        ("fake_fail", json!("power"), "the power state was not read"),
        ("fake_fail", json!("boot"), "boot devices were not named"),
        ("fake_fail", json!("set_boot"), "was not taken"),
        ("fake_fail", json!("inspect"), "the inspection failed"),
        ("fake_fail", json!("sensors"), "the sensors were not read"),
        ("fake_fail", json!("health"), "the verdict about the hardware was not read"),
        ("fake_fail", json!("configuration"), "the configuration was not read"),
    ];
    for (key, value, expected) in broken {
        let case = format!("{key}: {value}");
        let task = tokio::spawn(async move {
            run(Latencies::none(), &[(key, value)], ("fake_hang", json!("all"))).await;
        });
        let panic = task.await.expect_err(&format!("{case}: the contract was satisfied")).into_panic();
        let text = panic.downcast_ref::<String>().cloned().unwrap_or_default();
        assert!(text.contains(expected), "{case}: {text}");
    }
}
