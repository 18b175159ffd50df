//! What a sound controller lets us do: reading, configuration, steps and tasks.

use std::collections::BTreeMap;

use http::Method;
use sabakan_domain::provision::{
    boot::{BootDevice, BootMode},
    hardware::{HardwareHealth, SensorKind, Volume},
    steps::{Args, Step},
};
use sabakan_drivers::{Bmc, Driver, DriverError, StepOutcome, TaskId, TaskState, redfish::Redfish};
use serde_json::{Value, json};

use super::{
    connect,
    double::{Double, Reply, SYSTEM, collection},
    impatient, pair,
};

const VOLUMES: &str = "/redfish/v1/Systems/1/Storage/1/Volumes";
const UPDATE: &str = "/redfish/v1/UpdateService/Actions/UpdateService.SimpleUpdate";
const TASK: &str = "/redfish/v1/TaskService/Tasks/7";

fn step(key: &str, args: &Value) -> Step {
    let args: Args =
        args.as_object().into_iter().flatten().map(|(name, value)| (name.clone(), value.clone())).collect();
    let driver = Redfish::new();
    let spec = driver.steps().iter().find(|spec| spec.key() == key).unwrap();
    spec.step(args, 0)
}

async fn run(bmc: &dyn Bmc, key: &str, args: Value) -> Result<StepOutcome, DriverError> {
    bmc.run_step(&step(key, &args)).await
}

#[tokio::test]
async fn inspection_reads_everything_the_controller_has() {
    let (bmc, _double) = pair().await;
    let inventory = bmc.inspect().await.unwrap();
    assert_eq!(inventory.unknown, BTreeMap::new());
    assert_eq!(inventory.serial.as_deref(), Some("SN-1"));
    assert_eq!(inventory.memory_mib, Some(96 * 1024));
    assert_eq!((inventory.cpu.count, inventory.cpu.architecture.as_deref()), (Some(32), Some("x86_64")));
    assert_eq!(inventory.disks.len(), 2);
    assert_eq!(inventory.interfaces[0].mac, "02:00:00:00:00:01");
    assert_eq!(inventory.boot_mode, Some(BootMode::Uefi));
    assert_eq!(inventory.bmc_mac.as_deref(), Some("02:00:00:00:00:ff"));
}

#[tokio::test]
async fn inspection_names_what_is_missing_or_fails() {
    let (bmc, double) = pair().await;
    double.set(SYSTEM, &json!({ "SerialNumber": null, "Processors": null }));
    double.rule(|seen, _| seen.path.ends_with("/Drives/d1").then_some(Reply::Error(404, "Base.1.8.X", "Gone.")));
    double.rule(|seen, _| seen.path.ends_with("/EthernetInterfaces/2").then_some(Reply::Raw("?".to_owned())));
    double.rule(|seen, _| seen.path.ends_with("/Managers/1").then_some(Reply::Error(403, "Base.1.8.X", "Not you.")));
    let inventory = bmc.inspect().await.unwrap();
    assert_eq!(inventory.product.as_deref(), Some("3500"));
    for (name, reason) in [
        ("serial", "does not say"),
        ("cpu", "not supported"),
        ("interfaces/2", "no JSON"),
        ("disks/d1", "Gone."),
        ("bmc_mac", "Not you."),
    ] {
        assert!(
            inventory.unknown.get(name).is_some_and(|text| text.contains(reason)),
            "{name}: {:?}",
            inventory.unknown
        );
    }
    assert_eq!((inventory.interfaces.len(), inventory.disks.len()), (1, 1), "what can be read is kept");

    double.rule(|seen, _| seen.path.ends_with("/Storage").then_some(Reply::Error(500, "Base.1.8.X", "Broken.")));
    let inventory = bmc.inspect().await.unwrap();
    assert!(inventory.unknown["disks"].contains("Broken."), "{:?}", inventory.unknown);
    let simple = "/redfish/v1/Systems/1/SimpleStorage";
    double.set(SYSTEM, &json!({ "SimpleStorage": { "@odata.id": simple } }));
    double.set(simple, &collection(&["/redfish/v1/Systems/1/SimpleStorage/1"]));
    double.set(
        "/redfish/v1/Systems/1/SimpleStorage/1",
        &json!({ "Devices": [{ "Name": "sda", "CapacityBytes": 1000 }] }),
    );
    let inventory = bmc.inspect().await.unwrap();
    assert_eq!(inventory.disks.iter().map(|disk| disk.name.as_str()).collect::<Vec<_>>(), ["sda"]);
    assert!(!inventory.unknown.contains_key("disks"));
}

#[tokio::test]
async fn inspection_of_a_controller_that_goes_away_fails() {
    let double = Double::start().await;
    let bmc = connect(&Redfish::with_pace(impatient()), &double.settings());
    double.rule(|seen, _| seen.path.ends_with("/Storage").then_some(Reply::Silence));
    assert!(matches!(bmc.inspect().await, Err(DriverError::Unreachable(_))));
}

#[tokio::test]
async fn sensors_of_both_generations() {
    let (bmc, double) = pair().await;
    let kinds = |sensors: Vec<sabakan_domain::provision::hardware::Sensor>| {
        sensors.into_iter().map(|sensor| (sensor.kind, sensor.value)).collect::<Vec<_>>()
    };
    let expected = [
        (SensorKind::Temperature, 41.0),
        (SensorKind::Fan, 2100.0),
        (SensorKind::Voltage, 12.1),
        (SensorKind::Power, 230.5),
    ];
    assert_eq!(kinds(bmc.sensors().await.unwrap()), expected);

    let chassis = "/redfish/v1/Chassis/1";
    double.set(
        chassis,
        &json!({ "Thermal": null, "Power": null, "Sensors": { "@odata.id": "/redfish/v1/Chassis/1/Sensors" } }),
    );
    double.set("/redfish/v1/Chassis/1/Sensors", &collection(&["/redfish/v1/Chassis/1/Sensors/inlet"]));
    double.set(
        "/redfish/v1/Chassis/1/Sensors/inlet",
        &json!({ "Name": "Inlet", "ReadingType": "Temperature", "Reading": 22.5 }),
    );
    assert_eq!(kinds(bmc.sensors().await.unwrap()), [(SensorKind::Temperature, 22.5)]);

    double.service().resources.remove("/redfish/v1/Chassis/1/Sensors");
    assert!(matches!(bmc.sensors().await, Err(DriverError::Rejected { .. })));
}

#[tokio::test]
async fn health_is_that_of_all_parts_or_unknown() {
    let (bmc, double) = pair().await;
    assert_eq!(bmc.health().await.unwrap(), Some(HardwareHealth::Warning));
    double.set(SYSTEM, &json!({ "Status": { "HealthRollup": null } }));
    assert_eq!(bmc.health().await.unwrap(), Some(HardwareHealth::Ok));
    double.set(SYSTEM, &json!({ "Status": null }));
    assert_eq!(bmc.health().await.unwrap(), None);
}

#[tokio::test]
async fn configuration_is_read_and_put_back() {
    let (bmc, double) = pair().await;
    bmc.set_boot(&sabakan_domain::provision::boot::BootRequest {
        device: BootDevice::Disk,
        persistent: true,
        http_uri: None,
    })
    .await
    .unwrap();
    let before = bmc.configuration().await.unwrap();
    let root = Volume {
        controller: "1".to_owned(),
        name: "root".to_owned(),
        level: "1".to_owned(),
        size_gib: 100,
        members: vec!["d0".to_owned(), "d1".to_owned()],
        boot: false,
    };
    assert_eq!(before.volumes.as_deref(), Some(&[root][..]));
    assert_eq!(before.bios.as_ref().map(|bios| bios["Threads"].as_str()), Some("2"));
    assert_eq!((before.secure_boot, before.boot_device), (Some(false), Some(BootDevice::Disk)));

    double.service().resources.remove(&format!("{VOLUMES}/root"));
    double.service().resources.insert(VOLUMES.to_owned(), collection(&[]));
    double.set("/redfish/v1/Systems/1/SecureBoot", &json!({ "SecureBootEnable": true }));
    double.set("/redfish/v1/Systems/1/Bios", &json!({ "Attributes": { "Threads": 1 } }));
    double.set(SYSTEM, &json!({ "Boot": { "BootSourceOverrideTarget": "Pxe", "BootSourceOverrideMode": "Legacy" } }));
    let outcome = bmc.restore(&before).await.unwrap();
    let StepOutcome::Finished(done) = outcome else { panic!("{outcome:?}") };
    for part in ["1 volumes", "1 settings", "boot mode uefi", "secure boot", "boot device disk"] {
        assert!(done.note.contains(part), "{}", done.note);
    }
    // Settings of the firmware wait for a restart, everything else is as it was.
    let pending = double.service().resources["/redfish/v1/Systems/1/Bios/Settings"]["Attributes"].clone();
    assert_eq!(pending, json!({ "Threads": 2 }));
    double.set("/redfish/v1/Systems/1/Bios", &json!({ "Attributes": pending }));
    assert_eq!(bmc.configuration().await.unwrap(), before);
}

#[tokio::test]
async fn configuration_that_cannot_be_read_is_unknown_and_not_created_again() {
    let (bmc, double) = pair().await;
    let before = bmc.configuration().await.unwrap();
    double.rule(|seen, _| seen.path.ends_with("/Storage").then_some(Reply::Error(500, "Base.1.8.X", "Broken.")));
    assert_eq!(bmc.configuration().await.unwrap().volumes, None);
    assert!(matches!(bmc.restore(&before).await, Err(DriverError::Failed { .. })));
    assert!(double.seen(&Method::POST, VOLUMES).is_empty());
}

#[tokio::test]
async fn settings_of_the_firmware_go_where_the_controller_wants_them() {
    let (bmc, double) = pair().await;
    let settings = json!({ "settings": [{ "name": "Threads", "value": 1 }, { "name": "Turbo", "value": "false" }] });
    run(&*bmc, "bios.apply_configuration", settings).await.unwrap();
    let pending = &double.service().resources["/redfish/v1/Systems/1/Bios/Settings"]["Attributes"].clone();
    assert_eq!(*pending, json!({ "Threads": 1, "Turbo": false }));
    let unknown = json!({ "settings": [{ "name": "Nothing", "value": 1 }] });
    assert!(matches!(run(&*bmc, "bios.apply_configuration", unknown).await, Err(DriverError::Rejected { .. })));
    run(&*bmc, "bios.factory_reset", json!({})).await.unwrap();
    assert_eq!(double.seen(&Method::POST, "/redfish/v1/Systems/1/Bios/Actions/Bios.ResetBios").len(), 1);
}

#[tokio::test]
async fn volumes_are_deleted_and_created() {
    let (bmc, double) = pair().await;
    let disk = json!({ "volume_name": "data", "raid_level": "0", "size_gb": "MAX", "physical_disks": ["d1"] });
    let wrong = json!({ "raid_config": { "logical_disks": [disk, { "raid_level": "1", "size_gb": 5, "physical_disks": ["d9"] }] },
        "delete_existing": false });
    assert!(matches!(run(&*bmc, "raid.apply_configuration", wrong).await, Err(DriverError::Failed { .. })));
    assert!(double.seen(&Method::POST, VOLUMES).is_empty(), "a list that cannot be done is not begun");
    run(&*bmc, "raid.delete_configuration", json!({})).await.unwrap();
    assert_eq!(double.seen(&Method::DELETE, &format!("{VOLUMES}/root")).len(), 1);
    double.service().resources.insert(VOLUMES.to_owned(), collection(&[]));
    run(&*bmc, "raid.apply_configuration", json!({ "raid_config": { "logical_disks": [disk] } })).await.unwrap();
    let volumes = bmc.configuration().await.unwrap().volumes.unwrap();
    assert_eq!((volumes[0].name.as_str(), volumes[0].level.as_str()), ("data", "0"));
}

#[tokio::test]
async fn tasks_are_followed_to_their_end() {
    let (bmc, double) = pair().await;
    let settings = json!({ "settings": [{ "component": "bmc", "url": "https://images.example/bmc.bin" }] });
    double.answer(Method::POST, UPDATE, 9, Reply::Header(202, "location", TASK.to_owned(), json!({})));
    let outcome = run(&*bmc, "firmware.update", settings).await.unwrap();
    assert_eq!(double.seen(&Method::POST, UPDATE)[0].body["ImageURI"], "https://images.example/bmc.bin");
    let task = TaskId(TASK.to_owned());
    assert_eq!(outcome, StepOutcome::Running(task.clone()));
    let message = |text: &str| json!([{ "Message": text }]);
    let done = |note: &str| TaskState::Done(sabakan_drivers::Finished { note: note.to_owned() });
    for (status, body, expected) in [
        (202, json!({}), TaskState::Running(String::new())),
        (200, json!({ "TaskState": "Running", "PercentComplete": 40 }), TaskState::Running("40 %".to_owned())),
        (200, json!({ "TaskState": "Completed", "TaskStatus": "OK", "Messages": message("Fine.") }), done("Fine.")),
        (
            200,
            json!({ "TaskState": "Completed", "TaskStatus": "Critical", "Messages": message("Bad.") }),
            TaskState::Failed("Bad.".to_owned()),
        ),
        (200, json!({ "TaskState": "Exception" }), TaskState::Failed("the BMC says Exception".to_owned())),
        (204, json!(null), done("")),
    ] {
        double.answer(Method::GET, TASK, 1, Reply::Json(status, body.clone()));
        assert_eq!(bmc.task(&task).await.unwrap(), expected, "{status} {body}");
    }
    // Gone, refused, and broken for the moment.
    assert!(matches!(bmc.task(&task).await.unwrap(), TaskState::Failed(text) if text.contains("not known")));
    double.answer(Method::GET, TASK, 1, Reply::Error(400, "Base.1.8.X", "Bad image."));
    assert!(matches!(bmc.task(&task).await.unwrap(), TaskState::Failed(text) if text.contains("Bad image.")));
    double.answer(Method::GET, TASK, 1, Reply::Error(503, "Base.1.8.X", "Starting."));
    assert!(bmc.task(&task).await.unwrap_err().is_retryable());
}

#[tokio::test]
async fn controller_is_restarted_and_asked_for_a_new_session_after_it() {
    let (bmc, double) = pair().await;
    bmc.reset_bmc().await.unwrap();
    let sent = double.seen(&Method::POST, "/redfish/v1/Managers/1/Actions/Manager.Reset");
    assert_eq!(sent[0].body, json!({ "ResetType": "ForceRestart" }));
    double.service().sessions.clear();
    bmc.power().await.unwrap();
    double.set("/redfish/v1/Managers/1", &json!({ "Actions": null }));
    assert!(matches!(bmc.reset_bmc().await, Err(DriverError::Unsupported(_))));
}

#[tokio::test]
async fn boot_without_an_override_follows_the_order() {
    let (bmc, double) = pair().await;
    assert!(matches!(bmc.boot().await, Err(DriverError::Unsupported(_))));
    double.set(
        SYSTEM,
        &json!({ "Boot": { "BootOrder": ["Boot0002"], "BootOptions": { "@odata.id": "/redfish/v1/Options" } } }),
    );
    double.set("/redfish/v1/Options", &collection(&["/redfish/v1/Options/2"]));
    double.set("/redfish/v1/Options/2", &json!({ "BootOptionReference": "Boot0002", "Alias": "Hdd" }));
    assert_eq!(bmc.boot().await.unwrap(), (BootDevice::Disk, true));
}
