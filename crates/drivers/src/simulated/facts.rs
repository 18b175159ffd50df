//! What a simulated machine is made of. Everything follows from the seed of the fleet and the serial, so that ten thousand machines
//! need no memory for it and a machine is the same after every restart.

use std::collections::BTreeMap;

use sabakan_domain::provision::{
    boot::BootMode,
    hardware::{Cpu, Disk, Interface, Inventory, Sensor, SensorKind, Volume},
    power::PowerState,
};

use super::latency::scatter;

/// Firmware machines are delivered with.
const BIOS_VERSION: &str = "2.10.0";

const GIB: u64 = 1 << 30;

/// The one RAID controller.
pub(super) const CONTROLLER: &str = "RAID.Slot.1";

/// A kind of machine: product, processor, threads, MHz, memory in GiB, size of a disk in GiB.
const MODELS: [(&str, &str, u32, u32, u64, u64); 3] = [
    ("SIM-1U compute", "Simulated 32-core processor", 64, 2450, 512, 960),
    ("SIM-2U storage", "Simulated 16-core processor", 32, 2900, 256, 7680),
    ("SIM-1U boot", "Simulated 8-core processor", 16, 3100, 128, 480),
];

/// Disks of every machine: two for the system, four for data.
const DISKS: usize = 6;

fn model(seed: u64, serial: &str) -> (&'static str, &'static str, u32, u32, u64, u64) {
    let index = usize::try_from(scatter(seed, serial, 0) % 3).unwrap_or(0);
    MODELS[index]
}

/// Names of the disks.
pub(super) fn disk_names() -> impl Iterator<Item = String> {
    (0..DISKS).map(|n| format!("Disk.Bay.{n}"))
}

/// Size of each disk in GiB.
pub(super) fn disk_gib(seed: u64, serial: &str) -> u64 {
    model(seed, serial).5
}

/// Volumes machines are delivered with: a mirror for the system, and one volume over the other disks.
pub(super) fn volumes(seed: u64, serial: &str) -> Vec<Volume> {
    let disks: Vec<String> = disk_names().collect();
    let size = disk_gib(seed, serial);
    let volume = |name: &str, level: &str, size_gib, members: &[String], boot| Volume {
        controller: CONTROLLER.to_owned(),
        name: name.to_owned(),
        level: level.to_owned(),
        size_gib,
        members: members.to_vec(),
        boot,
    };
    vec![volume("data", "5", size * 3, &disks[2..], false), volume("system", "1", size, &disks[..2], true)]
}

/// Settings of the firmware machines are delivered with.
pub(super) fn bios() -> BTreeMap<String, String> {
    let settings = [
        ("HyperThreading", "Enabled"),
        ("PowerProfile", "Performance"),
        ("SriovGlobalEnable", "Disabled"),
        ("TpmSecurity", "On"),
        ("Virtualization", "Enabled"),
    ];
    settings.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// The inventory, with the firmware that is on it now.
pub(super) fn inventory(seed: u64, serial: &str, firmware: Option<&str>) -> Inventory {
    let (product, processor, threads, mhz, memory_gib, disk_gib) = model(seed, serial);
    let interface = |n: u64| Interface {
        name: format!("NIC.{n}"),
        mac: mac(scatter(seed, serial, 10), n),
        has_carrier: Some(true),
        speed_mbps: Some(25_000),
    };
    let disk = |(n, name): (usize, String)| Disk {
        name,
        model: Some("Simulated SSD".to_owned()),
        serial: Some(format!("{serial}-{n}")),
        size: Some(disk_gib * GIB),
        rotational: Some(false),
    };
    Inventory {
        manufacturer: Some("Simulated".to_owned()),
        product: Some(product.to_owned()),
        serial: Some(serial.to_owned()),
        system_uuid: Some(uuid(scatter(seed, serial, 1), scatter(seed, serial, 2))),
        bios_version: Some(firmware.unwrap_or(BIOS_VERSION).to_owned()),
        cpu: Cpu {
            model: Some(processor.to_owned()),
            architecture: Some("x86_64".to_owned()),
            count: Some(threads),
            frequency_mhz: Some(mhz),
        },
        memory_mib: Some(memory_gib * 1024),
        interfaces: (0..2).map(interface).collect(),
        disks: disk_names().enumerate().map(disk).collect(),
        boot_mode: Some(BootMode::Uefi),
        bmc_mac: Some(mac(scatter(seed, serial, 10), 2)),
        unknown: BTreeMap::new(),
    }
}

/// The sensors. A machine that is off is cool and takes little; `moment` lets readings differ from call to call.
pub(super) fn sensors(seed: u64, serial: &str, power: PowerState, moment: u64) -> Vec<Sensor> {
    let noise = |n: u64| {
        f64::from(u32::try_from(scatter(seed, serial, moment.wrapping_add(n << 32)) % 100).unwrap_or(0)) / 100.0
    };
    let on = power == PowerState::On;
    let reading = |name: &str, kind, off: f64, running: f64, spread: f64, n| Sensor {
        name: name.to_owned(),
        kind,
        value: if on { running + spread * noise(n) } else { off },
    };
    vec![
        reading("Inlet", SensorKind::Temperature, 21.0, 22.0, 2.0, 1),
        reading("CPU 1", SensorKind::Temperature, 22.0, 48.0, 15.0, 2),
        reading("Fan 1", SensorKind::Fan, 0.0, 6200.0, 900.0, 3),
        reading("Fan 2", SensorKind::Fan, 0.0, 6200.0, 900.0, 4),
        reading("12 V", SensorKind::Voltage, 12.0, 11.9, 0.2, 5),
        reading("Input", SensorKind::Power, 14.0, 280.0, 120.0, 6),
    ]
}

/// A locally administered address, different for each machine and each of its interfaces.
fn mac(number: u64, interface: u64) -> String {
    let [a, b, c, d, e, ..] = (number & !0x07_u64).wrapping_add(interface).to_le_bytes();
    format!("02:{e:02x}:{d:02x}:{c:02x}:{b:02x}:{a:02x}")
}

/// In the form of a random UUID.
fn uuid(high: u64, low: u64) -> String {
    let (a, b, c) = (high >> 32, (high >> 16) & 0xffff, high & 0x0fff);
    let (d, e) = ((low >> 48) & 0x3fff | 0x8000, low & 0xffff_ffff_ffff);
    format!("{a:08x}-{b:04x}-4{c:03x}-{d:04x}-{e:012x}")
}
