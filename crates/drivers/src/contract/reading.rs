//! Reads: what a controller tells, and that it tells the same thing twice.

use sabakan_domain::provision::hardware::Inventory;

use super::Subject;

/// Verifying is an authenticated read that yields the power state.
pub async fn verify_reads_power(subject: &Subject<'_>) {
    match subject.bmc().power().await {
        Ok(Some(_)) => {}
        Ok(None) => panic!("the controller of this machine knows its power state, but none was read"),
        Err(error) => panic!("the power state was not read with the right credentials: {error}"),
    }
}

/// An inspection succeeds even where a part cannot be read; what is missing has a name and a reason.
pub async fn inspection_is_tolerant(subject: &Subject<'_>) {
    let inventory = match subject.bmc().inspect().await {
        Ok(inventory) => inventory,
        Err(error) => panic!("the inspection failed as a whole: {error}"),
    };
    assert!(!subject.has_inventory || knows_something(&inventory), "the inventory is empty: {inventory:?}");
    for (part, reason) in &inventory.unknown {
        assert!(
            !part.is_empty() && !reason.is_empty(),
            "an unknown part needs a name and a reason: {part:?}: {reason:?}"
        );
    }
    for interface in &inventory.interfaces {
        assert!(is_mac(&interface.mac), "not a MAC in lower case with colons: {interface:?}");
    }
}

/// Readings have names, and are numbers.
pub async fn sensors_make_sense(subject: &Subject<'_>) {
    if !subject.has_sensors {
        return;
    }
    let sensors = match subject.bmc().sensors().await {
        Ok(sensors) => sensors,
        Err(error) => panic!("the sensors were not read: {error}"),
    };
    assert!(!sensors.is_empty(), "a machine with sensors gave no reading");
    for sensor in &sensors {
        assert!(!sensor.name.is_empty() && sensor.value.is_finite(), "not a reading: {sensor:?}");
    }
}

/// The verdict about the hardware is read, where there is one.
pub async fn health_is_read(subject: &Subject<'_>) {
    if !subject.has_health {
        return;
    }
    match subject.bmc().health().await {
        Ok(Some(_)) => {}
        Ok(None) => panic!("a controller with a verdict gave none"),
        Err(error) => panic!("the verdict about the hardware was not read: {error}"),
    }
}

/// Nothing happened between two reads, so nothing differs: otherwise cleaning would fail machines at random.
pub async fn configuration_is_read_twice_the_same(subject: &Subject<'_>) {
    let bmc = subject.bmc();
    let (first, second) = (bmc.configuration().await, bmc.configuration().await);
    let (Ok(first), Ok(second)) = (&first, &second) else {
        panic!("the configuration was not read twice: {first:?}, {second:?}");
    };
    let differences = first.differences(second, &[]);
    assert_eq!(differences, [], "two readings of an untouched machine differ");
    assert_eq!(first, second, "two readings of an untouched machine differ in what could be read");
}

fn knows_something(inventory: &Inventory) -> bool {
    let Inventory { manufacturer, product, serial, system_uuid, interfaces, disks, memory_mib, .. } = inventory;
    let texts = [manufacturer, product, serial, system_uuid];
    texts.iter().any(|text| text.is_some()) || memory_mib.is_some() || !interfaces.is_empty() || !disks.is_empty()
}

fn is_mac(text: &str) -> bool {
    let parts: Vec<&str> = text.split(':').collect();
    let is_octet = |part: &&str| part.len() == 2 && part.chars().all(|c| matches!(c, '0'..='9' | 'a'..='f'));
    parts.len() == 6 && parts.iter().all(is_octet)
}
