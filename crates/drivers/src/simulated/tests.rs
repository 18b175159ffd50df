//! What a simulated machine is made of, and how it keeps track of time.

use std::{collections::BTreeSet, time::Duration};

use sabakan_domain::provision::power::{PowerState, PowerTarget};
use serde_json::{Value, json};
use tokio::time::{Instant, advance};

use super::{
    Fault, Fleet, FleetConfig, KEYS, Latencies, Point, RAMDISK_STEPS, STEPS, STEPS_ERASING_MEMBERS, calls::CallLog,
    fault::from_settings, latency::stretched, limits::COMMANDS_KEPT, ramdisk::parse_url, *,
};
use crate::Settings;

fn settings(key: &str, value: Value) -> Settings {
    Settings { values: [(key.to_owned(), value)].into(), machine: "m1".to_owned(), ..Settings::default() }
}

#[test]
fn each_key_of_driver_info_asks_for_its_fault() {
    let mut checked = BTreeSet::from(["fake_password"]);
    let mut check = |key: &'static str, value: Value, expected: Fault| {
        checked.insert(key);
        let found = from_settings(&settings(key, value));
        assert_eq!(found, Ok(vec![expected]), "{key}");
    };
    check("fake_wrong_password", json!(true), Fault::WrongPassword);
    check("fake_hang", json!("all"), Fault::Hang(Point::Every));
    check("fake_hang", json!("power"), Fault::Hang(Point::Call(Call::Power)));
    check("fake_fail", json!("deploy.erase_devices"), Fault::Fail(Point::Step("deploy.erase_devices".to_owned())));
    check("fake_fail", json!(["inspect"]), Fault::Fail(Point::Call(Call::Inspect)));
    check("fake_lose_answer", json!("step"), Fault::LoseAnswer(Point::Call(Call::Step)));
    check("fake_drop_after", json!(7), Fault::DropAfter(7));
    check("fake_drop_after", json!("7"), Fault::DropAfter(7));
    check("fake_delay_ms", json!(20), Fault::Slow(Duration::from_millis(20)));
    check("fake_power", json!("stuck"), Fault::PowerStuck);
    check("fake_power", json!("inverted"), Fault::PowerInverted);
    check("fake_power", json!("flapping"), Fault::PowerFlaps);
    check("fake_ramdisk", json!("silent"), Fault::RamdiskSilent);
    check("fake_raid", json!("lost"), Fault::RaidLost);
    check("fake_health", json!("Warning"), Fault::Health(sabakan_domain::provision::hardware::HardwareHealth::Warning));
    assert_eq!(checked, KEYS.iter().map(|(key, _)| *key).collect(), "the documented keys");
    assert_eq!(from_settings(&settings("fake_wrong_password", json!(false))), Ok(vec![]));
    assert_eq!(
        from_settings(&settings("deploy_kernel", json!("http://x"))),
        Ok(vec![]),
        "keys of others are left alone"
    );
}

#[test]
fn a_key_that_means_nothing_is_refused_by_name() {
    let mut cases: Vec<(&str, Value)> = KEYS.iter().map(|(key, _)| (*key, json!({"no": "meaning"}))).collect();
    cases.extend([
        ("fake_fial", json!("all")),
        ("fake_fail", json!("deploy.no_such_step")),
        ("fake_hang", json!("al")),
    ]);
    cases.push(("fake_fail", json!(vec!["power"; limits::FAULTS_MAX + 1])));
    for (key, value) in cases {
        let found = from_settings(&settings(key, value));
        let Err(DriverError::Settings { field, .. }) = found else { panic!("{key} was taken as {found:?}") };
        assert!(field == key || field == "fake_*", "{field} is blamed for {key}");
    }
}

#[test]
fn machines_differ_and_stay_the_same() {
    let serials: Vec<String> = (0..1000).map(|n| format!("sim-{n}")).collect();
    let mut seen = BTreeSet::new();
    for serial in &serials {
        let inventory = facts::inventory(1, serial, None);
        assert_eq!(inventory, facts::inventory(1, serial, None), "{serial} is another machine the second time");
        let macs = inventory.interfaces.into_iter().map(|interface| interface.mac).chain(inventory.bmc_mac);
        for unique in macs.chain(inventory.system_uuid) {
            assert!(seen.insert(unique.clone()), "{unique} is there twice");
        }
    }
    assert_eq!(seen.len(), serials.len() * 4);
    assert_ne!(facts::inventory(1, "sim-0", None), facts::inventory(2, "sim-0", None), "the seed makes no difference");
}

#[test]
fn latencies_are_stretched_by_a_quarter_at_most() {
    for number in 0..1000 {
        let stretched = stretched(Duration::from_secs(4), number);
        assert!((Duration::from_secs(3)..=Duration::from_secs(5)).contains(&stretched), "{number}: {stretched:?}");
    }
}

#[test]
fn the_log_forgets_the_oldest_and_says_so() {
    let mut log = CallLog::default();
    log.record(Command::Restore);
    for _ in 0..COMMANDS_KEPT {
        log.record(Command::ResetBmc);
    }
    let calls = log.read();
    assert_eq!((calls.commands.len(), calls.forgotten), (COMMANDS_KEPT, 1));
    assert_eq!(calls.count(&Command::Restore), 0, "the oldest is still there");
}

#[test]
fn only_the_fleet_that_erases_members_does_it_unasked() {
    let automatic =
        |specs: &[StepSpec]| specs.iter().filter(|spec| spec.priority > 0).map(StepSpec::key).collect::<Vec<_>>();
    assert_eq!(automatic(STEPS), [""; 0]);
    assert_eq!(automatic(STEPS_ERASING_MEMBERS), ["raid.erase_members"]);
    assert_eq!(STEPS.len(), STEPS_ERASING_MEMBERS.len());
    assert!(
        RAMDISK_STEPS.iter().any(|spec| !spec.idempotent),
        "tests need a step that must not run twice in band, too"
    );
}

#[test]
fn addresses_of_ramdisks_are_read_back() {
    assert_eq!(parse_url("simulated://m1/3"), Some(("m1", 3)));
    for wrong in ["http://m1/3", "simulated://m1", "simulated://m1/x", ""] {
        assert_eq!(parse_url(wrong), None, "{wrong}");
    }
}

#[tokio::test(start_paused = true)]
async fn power_and_boot_take_their_time() {
    let fleet = Fleet::new(FleetConfig::default());
    let Latencies { power, boot, .. } = fleet.config().latencies;
    let command = |target| {
        let machine = fleet.machine("m1");
        machine.look().command_power(&machine, target, Instant::now());
    };
    command(PowerTarget::On);
    assert_eq!(fleet.running("m1"), Running::Off, "switched on in no time");
    advance(power * 5 / 4).await;
    assert_eq!(fleet.running("m1"), Running::Starting);
    advance(boot * 5 / 4).await;
    assert_eq!(fleet.running("m1"), Running::Nothing, "a new machine has no system on its disks");
    command(PowerTarget::Off);
    command(PowerTarget::On);
    advance(power * 2).await;
    assert_eq!(fleet.power("m1"), PowerState::On, "a later command did not replace the one that was still to come");
    assert_eq!(fleet.machine("m1").look().boots, 1, "it was restarted although it was never off");
}
