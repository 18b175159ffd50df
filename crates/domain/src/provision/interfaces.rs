//! Interfaces of a driver, as the provisioning API names them: thirteen slots, each with the implementations a hardware type knows.
//! What a driver really does is in `sabakan-drivers`; these are the words that clients write and read.

use std::{collections::BTreeMap, fmt, str::FromStr};

/// A slot of a node that a driver fills with one of its implementations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Slot {
    /// Firmware settings.
    Bios,
    /// How a temporary system is booted.
    Boot,
    /// Serial consoles.
    Console,
    /// How a workload gets onto it.
    Deploy,
    /// Firmware versions.
    Firmware,
    /// Reading the hardware.
    Inspect,
    /// Boot device, sensors.
    Management,
    /// Networks.
    Network,
    /// Power.
    Power,
    /// Logical volumes.
    Raid,
    /// Temporary systems for people.
    Rescue,
    /// Remote volumes.
    Storage,
    /// Whatever a vendor offers.
    Vendor,
}

/// What a driver knows, slot by slot; the first of each list is the default.
#[derive(Debug)]
pub struct HardwareType {
    /// The driver.
    pub driver: &'static str,
    implementations: [&'static [&'static str]; 13],
}

/// Why an implementation cannot be chosen.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{slot}_interface {wanted:?} is not known to driver {driver:?}; known: {known}")]
pub struct UnknownImplementation {
    /// Which slot.
    pub slot: Slot,
    /// What was wanted.
    pub wanted: String,
    /// The driver.
    pub driver: String,
    /// What there is.
    pub known: String,
}

// First what needs no agent: the machine starts its system from the network, and nothing is written to its disks.
const DEPLOY: &[&str] = &["ramdisk", "direct", "custom-agent"];

/// Every driver, in the order of [`Slot::ALL`].
const TYPES: &[HardwareType] = &[
    HardwareType {
        driver: "fake-hardware",
        implementations: [
            &["fake", "no-bios"],
            &["fake"],
            &["fake", "no-console"],
            &["fake", "direct", "ramdisk", "custom-agent"],
            &["fake", "no-firmware"],
            &["fake", "no-inspect", "agent"],
            &["fake", "noop"],
            &["noop", "flat"],
            &["fake"],
            &["fake", "no-raid"],
            &["fake", "no-rescue", "agent"],
            &["noop", "fake"],
            &["fake", "no-vendor"],
        ],
    },
    HardwareType {
        driver: "ipmi",
        implementations: [
            &["no-bios"],
            &["ipxe", "pxe", "http"],
            &["no-console"],
            DEPLOY,
            &["no-firmware"],
            &["no-inspect", "agent"],
            &["ipmitool", "noop"],
            &["noop", "flat"],
            &["ipmitool"],
            &["no-raid"],
            &["no-rescue", "agent"],
            &["noop"],
            &["no-vendor", "ipmitool"],
        ],
    },
    HardwareType {
        driver: "redfish",
        implementations: [
            &["redfish", "no-bios"],
            &["ipxe", "pxe", "http", "http-ipxe"],
            &["no-console"],
            DEPLOY,
            &["redfish", "no-firmware"],
            &["redfish", "agent", "no-inspect"],
            &["redfish"],
            &["noop", "flat"],
            &["redfish"],
            &["redfish", "no-raid"],
            &["no-rescue", "agent"],
            &["noop"],
            &["redfish", "no-vendor"],
        ],
    },
];

/// Implementations that clients know, that records may hold from before, and that nobody has built: what was chosen would be ignored.
const NOT_BUILT: &[(Slot, &str, &str)] = &[
    (
        Slot::Boot,
        "redfish-virtual-media",
        "is not built yet: the machine would be booted from the network instead; choose ipxe, pxe, http or http-ipxe",
    ),
    (
        Slot::Boot,
        "redfish-https",
        "is not built yet: the machine would be booted from the network instead; choose ipxe, pxe, http or http-ipxe",
    ),
    (
        Slot::Raid,
        "agent",
        "is not built yet: its steps would go to the storage service of the BMC and could delete hardware volumes; choose redfish or \
         no-raid",
    ),
];

/// Why an implementation cannot be chosen although clients know it; `None`: nothing is known against it.
pub fn not_built(slot: Slot, wanted: &str) -> Option<&'static str> {
    NOT_BUILT.iter().find(|(of, name, _)| *of == slot && *name == wanted).map(|(.., reason)| *reason)
}

/// The words of a driver; `None`: nobody knows it.
pub fn hardware_type(driver: &str) -> Option<&'static HardwareType> {
    TYPES.iter().find(|known| known.driver == driver)
}

impl HardwareType {
    /// Implementations of a slot, the default first.
    pub fn implementations(&self, slot: Slot) -> &'static [&'static str] {
        self.implementations[slot as usize]
    }

    /// What a slot has unless something else is chosen.
    pub fn default_of(&self, slot: Slot) -> &'static str {
        self.implementations(slot).first().copied().unwrap_or_default()
    }

    /// Checks a choice.
    pub fn check(&self, slot: Slot, wanted: &str) -> Result<(), UnknownImplementation> {
        let known = self.implementations(slot);
        if known.contains(&wanted) {
            return Ok(());
        }
        let (wanted, driver) = (wanted.to_owned(), self.driver.to_owned());
        Err(UnknownImplementation { slot, wanted, driver, known: known.join(", ") })
    }
}

/// What a slot of a node has: what was chosen, or the default of its driver. `None`: its driver is not known.
pub fn effective<'a>(chosen: &'a BTreeMap<Slot, String>, driver: Option<&str>, slot: Slot) -> Option<&'a str> {
    chosen.get(&slot).map(String::as_str).or_else(|| Some(hardware_type(driver?)?.default_of(slot)))
}

impl Slot {
    /// Every slot, in the order of their names.
    pub const ALL: [Slot; 13] = [
        Slot::Bios,
        Slot::Boot,
        Slot::Console,
        Slot::Deploy,
        Slot::Firmware,
        Slot::Inspect,
        Slot::Management,
        Slot::Network,
        Slot::Power,
        Slot::Raid,
        Slot::Rescue,
        Slot::Storage,
        Slot::Vendor,
    ];

    /// The word for it, without `_interface`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Slot::Bios => "bios",
            Slot::Boot => "boot",
            Slot::Console => "console",
            Slot::Deploy => "deploy",
            Slot::Firmware => "firmware",
            Slot::Inspect => "inspect",
            Slot::Management => "management",
            Slot::Network => "network",
            Slot::Power => "power",
            Slot::Raid => "raid",
            Slot::Rescue => "rescue",
            Slot::Storage => "storage",
            Slot::Vendor => "vendor",
        }
    }

    /// The member of a node that shows it.
    pub const fn field(self) -> &'static str {
        match self {
            Slot::Bios => "bios_interface",
            Slot::Boot => "boot_interface",
            Slot::Console => "console_interface",
            Slot::Deploy => "deploy_interface",
            Slot::Firmware => "firmware_interface",
            Slot::Inspect => "inspect_interface",
            Slot::Management => "management_interface",
            Slot::Network => "network_interface",
            Slot::Power => "power_interface",
            Slot::Raid => "raid_interface",
            Slot::Rescue => "rescue_interface",
            Slot::Storage => "storage_interface",
            Slot::Vendor => "vendor_interface",
        }
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Slot {
    type Err = String;

    fn from_str(text: &str) -> Result<Slot, String> {
        Slot::ALL.into_iter().find(|slot| slot.as_str() == text).ok_or_else(|| format!("there is no slot {text:?}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_driver_fills_every_slot() {
        for known in TYPES {
            for slot in Slot::ALL {
                assert_eq!(slot.as_str().parse(), Ok(slot));
                assert_eq!(format!("{slot}_interface"), slot.field());
                let default = known.default_of(slot);
                assert!(!default.is_empty() && known.check(slot, default).is_ok(), "{} {slot}", known.driver);
                assert!(known.check(slot, "nobody").is_err());
            }
        }
        assert_eq!(hardware_type("redfish").map(|known| known.default_of(Slot::Power)), Some("redfish"));
        for (slot, name, reason) in NOT_BUILT {
            assert!(TYPES.iter().all(|known| known.check(*slot, name).is_err()), "{slot} {name} is offered");
            assert_eq!(not_built(*slot, name), Some(*reason));
        }
        assert_eq!(not_built(Slot::Boot, "ipxe"), None);
        let chosen = BTreeMap::from([(Slot::Raid, "agent".to_owned())]);
        assert_eq!(effective(&chosen, Some("redfish"), Slot::Raid), Some("agent"));
        assert_eq!(effective(&chosen, Some("redfish"), Slot::Bios), Some("redfish"));
        assert_eq!(effective(&chosen, None, Slot::Bios), None);
    }
}
