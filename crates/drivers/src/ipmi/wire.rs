//! Requests and answers as IPMI defines them, and the tables ipmitool prints. Pure.

use std::collections::BTreeMap;

use sabakan_domain::provision::{
    boot::BootDevice,
    hardware::{HardwareHealth, Sensor, SensorKind},
    power::{PowerState, PowerTarget},
};

/// Get Chassis Status (IPMI 2.0 section 28.2).
pub const CHASSIS_STATUS: &[u8] = &[0x00, 0x01];
/// Get Device ID (20.1).
pub const DEVICE_ID: &[u8] = &[0x06, 0x01];
/// Cold Reset (20.2).
pub const COLD_RESET: &[u8] = &[0x06, 0x02];
/// Get SDR Repository Info (33.9).
pub const SDR_INFO: &[u8] = &[0x0a, 0x20];
/// Get System GUID (22.14).
pub const SYSTEM_GUID: &[u8] = &[0x06, 0x37];
/// Get LAN Configuration Parameters, channel 14 (the one in use), parameter 5: the MAC address (23.2).
pub const LAN_MAC: &[u8] = &[0x0c, 0x02, 0x0e, 0x05, 0x00, 0x00];
/// Get System Boot Options, parameter 5: the boot flags (28.13).
pub const GET_BOOT_FLAGS: &[u8] = &[0x00, 0x09, 0x05, 0x00, 0x00];
/// Set System Boot Options, parameter 3: do not forget the flags when no restart follows within 60 s (28.12, table 28-14).
pub const KEEP_BOOT_FLAGS: &[u8] = &[0x00, 0x08, 0x03, 0x08];

const FLAGS_VALID: u8 = 0x80;
const FLAGS_PERSISTENT: u8 = 0x40;
const FLAGS_UEFI: u8 = 0x20;

/// Devices and their selectors, bits 5 to 2 of the second byte of the boot flags.
const SELECTORS: &[(BootDevice, u8)] = &[
    (BootDevice::Pxe, 0x1),
    (BootDevice::Disk, 0x2),
    (BootDevice::Safe, 0x3),
    (BootDevice::Cdrom, 0x5),
    (BootDevice::Bios, 0x6),
];

/// Selectors that are only ever read: remote media stand for what they pretend to be.
const READ_SELECTORS: &[(BootDevice, u8)] =
    &[(BootDevice::Floppy, 0x7), (BootDevice::Cdrom, 0x8), (BootDevice::Disk, 0xb), (BootDevice::Floppy, 0xf)];

/// Devices that can be set.
pub fn boot_devices() -> Vec<BootDevice> {
    SELECTORS.iter().map(|(device, _)| *device).collect()
}

/// Chassis Control (28.3). `None`: one command cannot do it.
pub const fn chassis_control(target: PowerTarget) -> Option<[u8; 3]> {
    let control = match target {
        PowerTarget::Off => 0x00,
        PowerTarget::On => 0x01,
        PowerTarget::Reboot => 0x03,
        PowerTarget::SoftOff => 0x05,
        PowerTarget::SoftReboot => return None,
    };
    Some([0x00, 0x02, control])
}

/// Chassis Control: an interrupt the operating system cannot mask.
pub const INTERRUPT: &[u8] = &[0x00, 0x02, 0x04];

/// Set System Boot Options, parameter 5. Always for UEFI, the only way our machines start. `None`: IPMI has no such device.
pub fn set_boot_flags(device: BootDevice, persistent: bool) -> Option<[u8; 8]> {
    let (_, selector) = SELECTORS.iter().find(|(candidate, _)| *candidate == device)?;
    let flags = FLAGS_VALID | FLAGS_UEFI | if persistent { FLAGS_PERSISTENT } else { 0 };
    Some([0x00, 0x08, 0x05, flags, selector << 2, 0, 0, 0])
}

/// The device and whether it counts every time, from the answer to [`GET_BOOT_FLAGS`]. `Ok(None)`: nothing is set, the firmware
/// decides. The bit "valid" is not looked at: controllers clear it once the flags were used, and ipmi_sim never sets it.
pub fn boot_flags(answer: &[u8]) -> Result<Option<(BootDevice, bool)>, String> {
    let [_version, _parameter, flags, devices, ..] = answer else {
        return Err(format!("{} bytes instead of 7", answer.len()));
    };
    let selector = (devices >> 2) & 0x0f;
    if selector == 0 {
        return Ok(None);
    }
    let found = SELECTORS.iter().chain(READ_SELECTORS).find(|(_, candidate)| *candidate == selector);
    let (device, _) = found.ok_or_else(|| format!("unknown boot device selector {selector:#x}"))?;
    Ok(Some((*device, flags & FLAGS_PERSISTENT != 0)))
}

/// What Get Chassis Status tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chassis {
    /// Whether it has power.
    pub power: PowerState,
    /// Whether it complains about power supply, drives or cooling.
    pub fault: bool,
}

/// Reads the answer to [`CHASSIS_STATUS`].
pub fn chassis(answer: &[u8]) -> Result<Chassis, String> {
    let [power, _event, misc, ..] = answer else { return Err(format!("{} bytes instead of 3", answer.len())) };
    // Overload, power fault, control fault; drive fault, cooling fault.
    let fault = power & 0b1_1010 != 0 || misc & 0b1100 != 0;
    Ok(Chassis { power: if power & 1 == 1 { PowerState::On } else { PowerState::Off }, fault })
}

/// Bytes as `ipmitool raw` prints them.
pub fn hex(stdout: &str) -> Result<Vec<u8>, String> {
    let byte = |word: &str| u8::from_str_radix(word, 16).map_err(|_| format!("{word:?} is not a byte"));
    stdout.split_whitespace().map(byte).collect()
}

/// The number of the controller's maker in the list of enterprises, from the answer to [`DEVICE_ID`].
pub fn maker(answer: &[u8]) -> Result<u32, String> {
    let [_id, _revision, _major, _minor, _ipmi, _support, low, middle, high, ..] = *answer else {
        return Err(format!("{} bytes instead of 11", answer.len()));
    };
    Ok(u32::from_le_bytes([low, middle, high & 0x0f, 0]))
}

/// Whether there is no sensor record, from the answer to [`SDR_INFO`].
pub fn has_no_records(answer: &[u8]) -> Result<bool, String> {
    let [_version, low, high, ..] = answer else { return Err(format!("{} bytes instead of 14", answer.len())) };
    Ok((*low, *high) == (0, 0))
}

/// The MAC address in the answer to [`LAN_MAC`]; `None` if it is not set.
pub fn mac(answer: &[u8]) -> Option<String> {
    let bytes = answer.get(1..7)?;
    let text = bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":");
    bytes.iter().any(|byte| *byte != 0).then_some(text)
}

/// The text form of the answer to [`SYSTEM_GUID`]; `None` if it is not set. Controllers send what SMBIOS says in the order of memory,
/// so its first three fields are the other way round, as in SMBIOS.
pub fn guid(answer: &[u8]) -> Option<String> {
    let b: [u8; 16] = answer.get(..16)?.try_into().ok()?;
    let set = b.iter().any(|byte| *byte != 0) && b.iter().any(|byte| *byte != 0xff);
    let order = [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15];
    let mut text = String::with_capacity(36);
    for (n, at) in order.into_iter().enumerate() {
        if matches!(n, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push_str(&format!("{:02x}", b[at]));
    }
    set.then_some(text)
}

/// Members of `ipmitool fru print`, each once: the first counts.
pub fn fru(stdout: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for (name, value) in stdout.lines().filter_map(|line| line.split_once(" : ").or_else(|| line.split_once(": "))) {
        let (name, value) = (name.trim(), value.trim());
        if !value.is_empty() && !found.contains_key(name) {
            found.insert(name.to_owned(), value.to_owned());
        }
    }
    found
}

/// Sensors that have a reading, and the worst verdict among them, from `ipmitool -c sdr elist full`: name, reading, unit, verdict.
/// A sensor without a reading, such as a fan of a machine that is off, is not a sensor that reads zero.
pub fn sensors(stdout: &str) -> (Vec<Sensor>, Option<HardwareHealth>) {
    let mut sensors = Vec::new();
    let mut worst: Option<HardwareHealth> = None;
    for line in stdout.lines() {
        let Some((name, value, unit, verdict)) = sensor_row(line) else { continue };
        let (kind, value) = match unit {
            "degrees C" => (SensorKind::Temperature, value),
            "degrees F" => (SensorKind::Temperature, (value - 32.0) / 1.8),
            "degrees K" => (SensorKind::Temperature, value - 273.15),
            "RPM" => (SensorKind::Fan, value),
            "Volts" => (SensorKind::Voltage, value),
            "Watts" => (SensorKind::Power, value),
            _ => (SensorKind::Other, value),
        };
        sensors.push(Sensor { name: name.to_owned(), kind, value });
        let health = match verdict {
            "ok" => HardwareHealth::Ok,
            "nc" | "lnc" | "unc" => HardwareHealth::Warning,
            "cr" | "nr" | "lcr" | "ucr" | "lnr" | "unr" => HardwareHealth::Critical,
            _ => continue,
        };
        worst = Some(worst.map_or(health, |worst| if rank(health) > rank(worst) { health } else { worst }));
    }
    (sensors, worst)
}

/// Worse is higher.
pub fn rank(health: HardwareHealth) -> usize {
    HardwareHealth::ALL.iter().position(|candidate| *candidate == health).unwrap_or(0)
}

/// The name may hold commas, so the row is cut where reading and unit are: after the name there is a number.
fn sensor_row(line: &str) -> Option<(&str, f64, &str, &str)> {
    let mut at = 0;
    while let Some(comma) = line[at..].find(',') {
        let (name, rest) = (&line[..at + comma], &line[at + comma + 1..]);
        let mut fields = rest.split(',');
        let value = fields.next().and_then(|text| text.trim().parse::<f64>().ok()).filter(|value| value.is_finite());
        if let (Some(value), Some(unit), Some(verdict)) = (value, fields.next(), fields.next()) {
            return Some((name.trim(), value, unit.trim(), verdict.trim()));
        }
        at += comma + 1;
    }
    None
}

#[cfg(test)]
mod tests;
