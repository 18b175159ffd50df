//! What controllers call things and where they deviate from the standard, as data. What cannot be known beforehand is learned from a
//! refusal and remembered for the controller.

use std::sync::atomic::{AtomicBool, Ordering};

use reqwest::StatusCode;
use sabakan_domain::provision::{
    boot::{BootDevice, BootMode},
    hardware::HardwareHealth,
    power::{PowerState, PowerTarget},
};

use super::http::Answer;

/// Boot devices and their names; the first is the standard's, the others are what some vendors want instead.
pub const BOOT_TARGETS: &[(BootDevice, &[&str])] = &[
    (BootDevice::Pxe, &["Pxe"]),
    (BootDevice::UefiHttp, &["UefiHttp"]),
    (BootDevice::Disk, &["Hdd"]),
    (BootDevice::Cdrom, &["Cd", "UsbCd"]),
    (BootDevice::Bios, &["BiosSetup"]),
    (BootDevice::Safe, &["Diags"]),
    (BootDevice::Floppy, &["Floppy"]),
];

/// Levels of logical volumes in our words: what `RAIDType` says, or `VolumeType` of older controllers.
const RAID_LEVELS: &[(&str, &str, &str)] = &[
    ("0", "RAID0", "NonRedundant"),
    ("1", "RAID1", "Mirrored"),
    ("5", "RAID5", "StripedWithParity"),
    ("6", "RAID6", ""),
    ("1+0", "RAID10", "SpannedMirrors"),
    ("5+0", "RAID50", "SpannedStripesWithParity"),
    ("6+0", "RAID60", ""),
    ("JBOD", "None", "RawDevice"),
];

/// Messages that mean "not now": a change during power-on self-test, or while another is being worked on.
const BUSY_MESSAGES: &[&str] =
    &["UnableToModifyDuringSystemPOST", "ResourceInUse", "ResourceInStandby", "ServiceTemporarilyUnavailable"];

/// What a controller turned out not to be able to do.
#[derive(Debug, Default)]
pub struct Remembered {
    /// Refuses a permanent boot device; it is set for the next boot each time instead.
    no_continuous: AtomicBool,
    /// Wants the second name of a boot device.
    other_names: AtomicBool,
    /// Refuses changes with `If-Match`.
    no_if_match: AtomicBool,
}

impl Remembered {
    pub fn no_continuous(&self) -> bool {
        self.no_continuous.load(Ordering::Relaxed)
    }

    pub fn learn_no_continuous(&self) {
        self.no_continuous.store(true, Ordering::Relaxed);
    }

    pub fn other_names(&self) -> bool {
        self.other_names.load(Ordering::Relaxed)
    }

    pub fn learn_other_names(&self) {
        self.other_names.store(true, Ordering::Relaxed);
    }

    pub fn no_if_match(&self) -> bool {
        self.no_if_match.load(Ordering::Relaxed)
    }

    pub fn learn_no_if_match(&self) {
        self.no_if_match.store(true, Ordering::Relaxed);
    }
}

/// Whether the same change may be accepted in a moment.
pub fn is_busy(answer: &Answer) -> bool {
    matches!(
        answer.status,
        StatusCode::CONFLICT | StatusCode::LOCKED | StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE
    ) || (!answer.is_success()
        && answer.message_ids().iter().any(|id| BUSY_MESSAGES.iter().any(|busy| id.ends_with(busy))))
}

/// Kinds of reset that bring the machine to the target, best first. Soft verbs never become hard ones: whoever asks softly has a
/// running system to protect.
pub const fn resets(target: PowerTarget) -> &'static [&'static str] {
    match target {
        PowerTarget::On => &["On", "ForceOn", "PushPowerButton"],
        PowerTarget::Off => &["ForceOff", "GracefulShutdown"],
        PowerTarget::Reboot => &["ForceRestart", "PowerCycle", "GracefulRestart"],
        PowerTarget::SoftOff => &["GracefulShutdown"],
        PowerTarget::SoftReboot => &["GracefulRestart"],
    }
}

/// A power state; anything in between counts as where it leads to, anything unknown as unknown.
pub fn power_state(word: &str) -> Option<PowerState> {
    match word {
        "On" | "PoweringOn" => Some(PowerState::On),
        "Off" | "PoweringOff" => Some(PowerState::Off),
        _ => None,
    }
}

/// A boot device by any of its names.
pub fn boot_device(name: &str) -> Option<BootDevice> {
    BOOT_TARGETS.iter().find(|(_, names)| names.contains(&name)).map(|(device, _)| *device)
}

/// Names of a boot device.
pub fn boot_names(device: BootDevice) -> &'static [&'static str] {
    BOOT_TARGETS.iter().find(|(known, _)| *known == device).map_or(&[], |(_, names)| names)
}

pub fn boot_mode(word: &str) -> Option<BootMode> {
    match word {
        "UEFI" => Some(BootMode::Uefi),
        "Legacy" => Some(BootMode::Bios),
        _ => None,
    }
}

pub const fn boot_mode_name(mode: BootMode) -> &'static str {
    match mode {
        BootMode::Uefi => "UEFI",
        BootMode::Bios => "Legacy",
    }
}

pub fn health(word: &str) -> Option<HardwareHealth> {
    HardwareHealth::ALL.into_iter().find(|health| health.as_str() == word)
}

/// The level of a volume; what is not known is shown as the controller says it.
pub fn raid_level(raid_type: Option<&str>, volume_type: Option<&str>) -> Option<String> {
    let known = |level: &&(&str, &str, &str)| match (raid_type, volume_type) {
        (Some(word), _) => level.1 == word,
        (None, word) => word == Some(level.2),
    };
    let level = RAID_LEVELS.iter().find(known).map(|level| level.0.to_owned());
    level.or_else(|| raid_type.or(volume_type).map(str::to_owned))
}

/// `RAIDType` of a level.
pub fn raid_type(level: &str) -> Option<&'static str> {
    RAID_LEVELS.iter().find(|known| known.0 == level).map(|known| known.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_boot_device_has_names_that_lead_back_to_it() {
        for device in BootDevice::ALL {
            assert!(!boot_names(device).is_empty(), "{device}");
            assert!(boot_names(device).iter().all(|name| boot_device(name) == Some(device)), "{device}");
        }
        assert_eq!(boot_device("None"), None);
    }

    #[test]
    fn soft_targets_never_become_hard_ones() {
        for target in PowerTarget::ALL.into_iter().filter(|target| target.is_soft()) {
            assert!(resets(target).iter().all(|reset| reset.starts_with("Graceful")), "{target}");
        }
    }

    #[test]
    fn power_that_is_not_known_is_not_off() {
        for (word, state) in
            [("PoweringOn", Some(PowerState::On)), ("PoweringOff", Some(PowerState::Off)), ("Paused", None)]
        {
            assert_eq!(power_state(word), state, "{word}");
        }
    }

    #[test]
    fn raid_levels_of_both_generations() {
        assert_eq!(raid_level(Some("RAID10"), None).as_deref(), Some("1+0"));
        assert_eq!(raid_level(None, Some("Mirrored")).as_deref(), Some("1"));
        assert_eq!(raid_level(Some("RAID1E"), Some("Mirrored")).as_deref(), Some("RAID1E"));
        assert_eq!(raid_level(None, None), None);
        assert_eq!(raid_type("6+0"), Some("RAID60"));
        assert_eq!(raid_type("7"), None);
    }
}
