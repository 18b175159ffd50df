//! What a controller tells about a machine: inventory, sensors, health, and the configuration that cleaning must leave as it was.

use std::{collections::BTreeMap, fmt};

use super::boot::{BootDevice, BootMode};

/// What an inspection found. Everything a controller may not know is optional; absent is "unknown", never "none".
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Inventory {
    /// Who made the machine.
    pub manufacturer: Option<String>,
    /// Its model.
    pub product: Option<String>,
    /// Its serial as the controller knows it.
    pub serial: Option<String>,
    /// Its SMBIOS UUID.
    pub system_uuid: Option<String>,
    /// Version of the firmware.
    pub bios_version: Option<String>,
    /// Processors.
    pub cpu: Cpu,
    /// Memory in MiB.
    pub memory_mib: Option<u64>,
    /// Network interfaces.
    pub interfaces: Vec<Interface>,
    /// Disks.
    pub disks: Vec<Disk>,
    /// How it boots.
    pub boot_mode: Option<BootMode>,
    /// Address of the controller's own interface.
    pub bmc_mac: Option<String>,
    /// What could not be read, and why; visible instead of silently missing.
    pub unknown: BTreeMap<String, String>,
}

/// Processors together.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Cpu {
    /// Model of the first.
    pub model: Option<String>,
    /// Architecture in the words of Linux, such as `x86_64`.
    pub architecture: Option<String>,
    /// How many threads, or cores where threads are not known.
    pub count: Option<u32>,
    /// MHz.
    pub frequency_mhz: Option<u32>,
}

/// One network interface.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Lower case, colons.
    pub mac: String,
    /// Whether it has a link.
    pub has_carrier: Option<bool>,
    /// Its speed.
    pub speed_mbps: Option<u32>,
}

/// One disk.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Disk {
    /// Its name.
    pub name: String,
    /// Model.
    pub model: Option<String>,
    /// Serial.
    pub serial: Option<String>,
    /// Bytes.
    pub size: Option<u64>,
    /// Whether it spins.
    pub rotational: Option<bool>,
}

/// One sensor.
#[derive(Debug, Clone, PartialEq)]
pub struct Sensor {
    /// Its name.
    pub name: String,
    /// What it measures.
    pub kind: SensorKind,
    /// The reading, in the unit of its kind.
    pub value: f64,
}

/// What a sensor measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SensorKind {
    /// Degrees Celsius.
    Temperature,
    /// Revolutions per minute, or per cent where the controller gives that.
    Fan,
    /// Volts.
    Voltage,
    /// Watts.
    Power,
    /// Anything else.
    Other,
}

/// The controller's own verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HardwareHealth {
    /// Nothing to report.
    Ok,
    /// Something degraded.
    Warning,
    /// Something failed.
    Critical,
}

impl HardwareHealth {
    /// Every verdict.
    pub const ALL: [HardwareHealth; 3] = [HardwareHealth::Ok, HardwareHealth::Warning, HardwareHealth::Critical];

    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            HardwareHealth::Ok => "OK",
            HardwareHealth::Warning => "Warning",
            HardwareHealth::Critical => "Critical",
        }
    }
}

/// A part of the configuration that a step may disturb and that is compared after cleaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Aspect {
    /// Logical volumes.
    Raid,
    /// Settings of the firmware.
    Bios,
    /// UEFI or legacy.
    BootMode,
    /// Whether only signed programs start.
    SecureBoot,
    /// What it starts from every time.
    BootDevice,
}

impl Aspect {
    /// Every aspect.
    pub const ALL: [Aspect; 5] = [Aspect::Raid, Aspect::Bios, Aspect::BootMode, Aspect::SecureBoot, Aspect::BootDevice];

    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Aspect::Raid => "raid",
            Aspect::Bios => "bios",
            Aspect::BootMode => "boot_mode",
            Aspect::SecureBoot => "secure_boot",
            Aspect::BootDevice => "boot_device",
        }
    }
}

impl fmt::Display for Aspect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A logical volume.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Volume {
    /// The controller it is on.
    pub controller: String,
    /// Its name.
    pub name: String,
    /// RAID level, such as `1` or `1+0`.
    pub level: String,
    /// GiB.
    pub size_gib: u64,
    /// Disks it is made of, sorted.
    pub members: Vec<String>,
    /// Whether the machine boots from it.
    pub boot: bool,
}

/// What a machine looks like to whoever runs on it. `None`: the controller cannot tell, and the aspect is not compared.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Configuration {
    /// Logical volumes, sorted.
    pub volumes: Option<Vec<Volume>>,
    /// Settings of the firmware.
    pub bios: Option<BTreeMap<String, String>>,
    /// UEFI or legacy.
    pub boot_mode: Option<BootMode>,
    /// Whether only signed programs start.
    pub secure_boot: Option<bool>,
    /// What it starts from every time.
    pub boot_device: Option<BootDevice>,
}

/// One aspect that is not as it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Which.
    pub aspect: Aspect,
    /// What exactly, for people.
    pub text: String,
}

impl Configuration {
    /// Aspects nobody could read.
    pub fn unknown(&self) -> Vec<Aspect> {
        let Configuration { volumes, bios, boot_mode, secure_boot, boot_device } = self;
        let known = [
            (Aspect::Raid, volumes.is_some()),
            (Aspect::Bios, bios.is_some()),
            (Aspect::BootMode, boot_mode.is_some()),
            (Aspect::SecureBoot, secure_boot.is_some()),
            (Aspect::BootDevice, boot_device.is_some()),
        ];
        known.into_iter().filter(|(_, known)| !known).map(|(aspect, _)| aspect).collect()
    }

    /// What differs between this one, recorded before, and `after`. Aspects in `allowed` may differ; one that was known and no
    /// longer is counts as a difference, or a broken controller would hide a torn-down volume.
    pub fn differences(&self, after: &Configuration, allowed: &[Aspect]) -> Vec<Difference> {
        let mut found = Vec::new();
        let mut compare = |aspect: Aspect, text: Option<String>| {
            if let Some(text) = text.filter(|_| !allowed.contains(&aspect)) {
                found.push(Difference { aspect, text });
            }
        };
        compare(Aspect::Raid, changed(&self.volumes, &after.volumes, |a, b| volumes_text(a, b)));
        compare(Aspect::Bios, changed(&self.bios, &after.bios, settings_text));
        let mode = |a: &BootMode, b: &BootMode| format!("was {}, is {}", a.as_str(), b.as_str());
        compare(Aspect::BootMode, changed(&self.boot_mode, &after.boot_mode, mode));
        compare(Aspect::SecureBoot, changed(&self.secure_boot, &after.secure_boot, |a, b| format!("was {a}, is {b}")));
        compare(Aspect::BootDevice, changed(&self.boot_device, &after.boot_device, |a, b| format!("was {a}, is {b}")));
        found
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.aspect, self.text)
    }
}

fn changed<T: PartialEq>(before: &Option<T>, after: &Option<T>, text: impl Fn(&T, &T) -> String) -> Option<String> {
    match (before, after) {
        (None, _) => None,
        (Some(_), None) => Some("was known before and cannot be read any more".to_owned()),
        (Some(before), Some(after)) => (before != after).then(|| text(before, after)),
    }
}

fn volumes_text(before: &[Volume], after: &[Volume]) -> String {
    let describe = |v: &Volume| {
        let boot = if v.boot { ", boot" } else { "" };
        format!(
            "{} on {} (level {}, {} GiB, members {}{boot})",
            v.name,
            v.controller,
            v.level,
            v.size_gib,
            v.members.join(" ")
        )
    };
    let missing = before.iter().filter(|v| !after.contains(v)).map(|v| format!("missing {}", describe(v)));
    let added = after.iter().filter(|v| !before.contains(v)).map(|v| format!("new {}", describe(v)));
    missing.chain(added).collect::<Vec<_>>().join("; ")
}

fn settings_text(before: &BTreeMap<String, String>, after: &BTreeMap<String, String>) -> String {
    let names: std::collections::BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let value = |settings: &BTreeMap<String, String>, name: &String| {
        settings.get(name).map_or_else(|| "absent".to_owned(), |value| format!("{value:?}"))
    };
    let changed = names.into_iter().filter(|name| before.get(*name) != after.get(*name));
    changed
        .map(|name| format!("{name} was {}, is {}", value(before, name), value(after, name)))
        .collect::<Vec<_>>()
        .join("; ")
}

#[cfg(test)]
mod tests;
