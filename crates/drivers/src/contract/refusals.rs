//! What cannot be done is told by its kind, within its bound: somebody acts on each kind differently.

use std::collections::BTreeSet;

use sabakan_domain::provision::{
    boot::{BootDevice, BootRequest},
    power::PowerTarget,
    steps::{Args, Interface, Place, Step},
};
use tokio::time::timeout;

use super::{Subject, connect};
use crate::{DriverError, Settings, power};

/// A wrong password is told as such by reads and by commands, and a retry is not suggested: it would lock the account.
pub async fn wrong_credentials_are_told(subject: &Subject<'_>) {
    let bmc = connect(subject.driver, &subject.wrong_credentials);
    let read = bmc.power().await;
    assert!(matches!(read, Err(DriverError::Credentials(_))), "reading with a wrong password gave {read:?}");
    let commanded = bmc.command_power(PowerTarget::Off).await;
    assert!(
        matches!(commanded, Err(DriverError::Credentials(_))),
        "commanding with a wrong password gave {commanded:?}"
    );
    assert!(read.is_err_and(|error| !error.is_retryable()), "a wrong password does not become right by itself");
}

/// A controller that is not there is told as such, in time, and may be there later.
pub async fn unreachable_is_told(subject: &Subject<'_>) {
    let bmc = connect(subject.driver, &subject.unreachable);
    let Ok(read) = timeout(subject.unreachable_within, bmc.power()).await else {
        panic!("no answer about an unreachable controller within {:?}", subject.unreachable_within);
    };
    let Err(error) = read else { panic!("an unreachable controller gave {read:?}") };
    assert!(matches!(error, DriverError::Unreachable(_)), "an unreachable controller was told as {error:?}");
    assert!(error.is_retryable(), "an unreachable controller may be reachable later");
}

/// What driver or controller cannot do is refused as unsupported, not ignored and not failed half-way.
pub async fn unsupported_is_told(subject: &Subject<'_>) {
    let bmc = subject.bmc();
    for target in PowerTarget::ALL.into_iter().filter(|target| !bmc.power_targets().contains(target)) {
        let commanded = bmc.command_power(target).await;
        assert!(
            matches!(commanded, Err(DriverError::Unsupported(_))),
            "{target} is not offered, but gave {commanded:?}"
        );
        let changed = power::change(&*bmc, target, subject.power_within).await;
        assert!(matches!(changed, Err(DriverError::Unsupported(_))), "{target} is not offered, but gave {changed:?}");
    }
    let devices = bmc.boot_devices().await.unwrap_or_else(|error| panic!("the boot devices were not named: {error}"));
    for device in BootDevice::ALL.into_iter().filter(|device| !devices.contains(device)) {
        let set = bmc.set_boot(&BootRequest { device, persistent: false, http_uri: None }).await;
        assert!(matches!(set, Err(DriverError::Unsupported(_))), "{device} is not offered, but gave {set:?}");
    }
    let ran = bmc.run_step(&step_nobody_offers()).await;
    assert!(matches!(ran, Err(DriverError::Unsupported(_))), "a step nobody offers gave {ran:?}");
}

/// Settings that lead to no machine are refused before anybody is contacted, and the key that is missing has a name.
pub fn unusable_settings_are_told(subject: &Subject<'_>) {
    match subject.driver.connect(&Settings::default()) {
        Ok(_) => panic!("settings without anything in them were accepted"),
        Err(DriverError::Settings { field, .. }) => assert!(!field.is_empty(), "the missing setting has no name"),
        Err(error) => panic!("settings without anything in them were refused as {error:?}"),
    }
}

/// The tables of steps can be merged with others and shown to people.
pub fn step_tables_are_sound(subject: &Subject<'_>) {
    let (own, ramdisk) = (subject.driver.steps(), subject.driver.ramdisk_steps());
    let mut keys = BTreeSet::new();
    for spec in own.iter().chain(ramdisk) {
        assert!(keys.insert(spec.key()), "step {} is offered twice", spec.key());
        assert!(!spec.text.is_empty() && !spec.flows.is_empty(), "step {} has no text or no flow", spec.key());
    }
    assert!(own.iter().all(|spec| spec.place == Place::OutOfBand), "a step of the controller runs elsewhere: {own:?}");
    assert!(
        ramdisk.iter().all(|spec| spec.place == Place::InBand),
        "a step of the ramdisk runs elsewhere: {ramdisk:?}"
    );
}

fn step_nobody_offers() -> Step {
    Step {
        interface: Interface::Vendor,
        name: "no_such_step".to_owned(),
        place: Place::OutOfBand,
        args: Args::new(),
        priority: 0,
        abortable: false,
        idempotent: false,
        disturbs: Vec::new(),
    }
}
