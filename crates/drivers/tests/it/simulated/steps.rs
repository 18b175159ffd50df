//! Steps of the simulated controller.

use std::time::Duration;

use sabakan_domain::provision::hardware::Aspect;
use sabakan_drivers::{
    DriverError, StepOutcome, TaskId, TaskState,
    simulated::{Fleet, FleetConfig, STEPS, STEPS_ERASING_MEMBERS},
};
use serde_json::json;
use tokio::time::timeout;

use super::{Bench, end_of, step};

#[tokio::test(start_paused = true)]
async fn volumes_are_deleted_created_and_not_created_twice() {
    let bench = Bench::new();
    let bmc = bench.bmc();
    let disks = json!([{"volume_name": "root", "raid_level": "1", "size_gb": "MAX", "is_root_volume": true},
                       {"volume_name": "rest", "raid_level": "6", "size_gb": 100}]);
    let create = step(STEPS, "raid.create_configuration", &[("logical_disks", disks)]);
    let refused = bmc.run_step(&create).await;
    assert!(matches!(refused, Err(DriverError::Rejected { .. })), "all disks are in use: {refused:?}");

    bmc.run_step(&step(STEPS, "raid.delete_configuration", &[])).await.unwrap();
    assert_eq!(bench.fleet.configuration("m1").volumes, Some(vec![]));
    bmc.run_step(&create).await.unwrap();
    let volumes = bench.fleet.configuration("m1").volumes.unwrap();
    let seen: Vec<_> = volumes.iter().map(|v| (v.name.as_str(), v.level.as_str(), v.members.len(), v.boot)).collect();
    assert_eq!(seen, [("rest", "6", 4, false), ("root", "1", 2, true)]);
    assert!(matches!(bmc.run_step(&create).await, Err(DriverError::Rejected { .. })), "created twice");
    assert_eq!(bench.fleet.calls("m1").steps("raid.create_configuration"), 3, "each of them arrived");
}

#[tokio::test(start_paused = true)]
async fn firmware_settings_change_and_go_back() {
    let bench = Bench::new();
    let (bmc, before) = (bench.bmc(), bench.fleet.configuration("m1"));
    let apply = |name: &str, value: &str| {
        step(STEPS, "bios.apply_configuration", &[("settings", json!([{"name": name, "value": value}]))])
    };
    bmc.run_step(&apply("HyperThreading", "Disabled")).await.unwrap();
    let differences = before.differences(&bench.fleet.configuration("m1"), &[]);
    assert_eq!(differences.iter().map(|d| d.aspect).collect::<Vec<_>>(), [Aspect::Bios]);
    let unknown = bmc.run_step(&apply("NoSuchSetting", "x")).await;
    assert!(matches!(unknown, Err(DriverError::Rejected { .. })), "{unknown:?}");
    bmc.run_step(&step(STEPS, "bios.factory_reset", &[])).await.unwrap();
    assert_eq!(bench.fleet.configuration("m1"), before);
    assert_eq!(bmc.restore(&before).await, Ok(StepOutcome::Finished(finished("nothing differs"))));
}

#[tokio::test(start_paused = true)]
async fn firmware_is_updated_by_a_task() {
    let bench = Bench::with(FleetConfig::default());
    let bmc = bench.bmc();
    let updates = json!([{"component": "bios", "url": "http://files.example/bios/3.1.4"}]);
    let outcome = bmc.run_step(&step(STEPS, "firmware.update", &[("settings", updates)])).await.unwrap();
    let StepOutcome::Running(task) = outcome.clone() else { panic!("{outcome:?}") };
    assert!(matches!(bmc.task(&task).await, Ok(TaskState::Running(_))));
    assert_ne!(bmc.inspect().await.unwrap().bios_version.as_deref(), Some("3.1.4"), "updated before the task ended");
    assert!(matches!(end_of(&*bmc, outcome).await, Ok(TaskState::Done(_))));
    assert_eq!(bmc.inspect().await.unwrap().bios_version.as_deref(), Some("3.1.4"));
    let unknown = bmc.task(&TaskId("99".to_owned())).await;
    assert!(matches!(unknown, Err(DriverError::Rejected { .. })), "{unknown:?}");
}

#[tokio::test(start_paused = true)]
async fn whoever_runs_a_step_need_not_live_to_hear_of_it() {
    let bench = Bench::with(FleetConfig::default());
    let (bmc, delete) = (bench.bmc(), step(STEPS, "raid.delete_configuration", &[]));
    let cut_short = timeout(Duration::from_millis(1), bmc.run_step(&delete)).await;
    assert!(cut_short.is_err(), "the answer was quicker than the one who waited for it");
    assert_eq!(bench.fleet.configuration("m1").volumes, Some(vec![]));
    assert_eq!(bench.fleet.calls("m1").steps("raid.delete_configuration"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_step_that_lacks_its_arguments_is_refused_by_the_machine_too() {
    let bench = Bench::new();
    let (bmc, before) = (bench.bmc(), bench.fleet.configuration("m1"));
    for key in ["raid.create_configuration", "bios.apply_configuration", "firmware.update"] {
        let ran = bmc.run_step(&step(STEPS, key, &[])).await;
        assert!(matches!(ran, Err(DriverError::Rejected { .. })), "{key}: {ran:?}");
    }
    assert_eq!(bench.fleet.configuration("m1"), before);
}

#[test]
fn the_fleet_decides_whether_cleaning_erases_members() {
    use sabakan_drivers::{Driver, simulated::SimulatedDriver};
    let driver = |erases_members| SimulatedDriver {
        fleet: Fleet::new(FleetConfig { erases_members, ..FleetConfig::instant() }),
    };
    assert_eq!(driver(false).steps(), STEPS);
    assert_eq!(driver(true).steps(), STEPS_ERASING_MEMBERS);
}

fn finished(note: &str) -> sabakan_drivers::Finished {
    sabakan_drivers::Finished { note: note.to_owned() }
}
