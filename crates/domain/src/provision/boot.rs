//! What a machine starts from.

use std::{fmt, str::FromStr};

/// A kind of boot device, in the words of the provisioning API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BootDevice {
    /// The network, by PXE.
    Pxe,
    /// The network, by UEFI HTTP boot.
    UefiHttp,
    /// The first disk.
    Disk,
    /// An optical or virtual one.
    Cdrom,
    /// The firmware's own set-up.
    Bios,
    /// The firmware's diagnostics or safe mode.
    Safe,
    /// A floppy or virtual one.
    Floppy,
}

/// Whether the legacy or the UEFI way of starting is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BootMode {
    /// UEFI.
    Uefi,
    /// Legacy BIOS.
    Bios,
}

/// What the machine shall start from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BootRequest {
    /// The device.
    pub device: BootDevice,
    /// Every time from now on; otherwise the next time only.
    pub persistent: bool,
    /// Where UEFI HTTP boot loads from, when the controller shall be told instead of DHCP.
    pub http_uri: Option<String>,
}

impl BootDevice {
    /// Every device.
    pub const ALL: [BootDevice; 7] = [
        BootDevice::Pxe,
        BootDevice::UefiHttp,
        BootDevice::Disk,
        BootDevice::Cdrom,
        BootDevice::Bios,
        BootDevice::Safe,
        BootDevice::Floppy,
    ];

    /// The word of the provisioning API.
    pub const fn as_str(self) -> &'static str {
        match self {
            BootDevice::Pxe => "pxe",
            BootDevice::UefiHttp => "uefihttp",
            BootDevice::Disk => "disk",
            BootDevice::Cdrom => "cdrom",
            BootDevice::Bios => "bios",
            BootDevice::Safe => "safe",
            BootDevice::Floppy => "floppy",
        }
    }
}

impl fmt::Display for BootDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for BootDevice {
    type Err = String;

    fn from_str(text: &str) -> Result<BootDevice, String> {
        let found = BootDevice::ALL.into_iter().find(|d| d.as_str() == text);
        found.ok_or_else(|| {
            format!("invalid boot device {text:?}; one of: {}", BootDevice::ALL.map(BootDevice::as_str).join(", "))
        })
    }
}

impl BootMode {
    /// Both, in the order of their words.
    pub const ALL: [BootMode; 2] = [BootMode::Bios, BootMode::Uefi];

    /// The word of the provisioning API.
    pub const fn as_str(self) -> &'static str {
        match self {
            BootMode::Uefi => "uefi",
            BootMode::Bios => "bios",
        }
    }
}

impl FromStr for BootMode {
    type Err = String;

    fn from_str(text: &str) -> Result<BootMode, String> {
        let found = BootMode::ALL.into_iter().find(|mode| mode.as_str() == text);
        found.ok_or_else(|| {
            format!(
                "Invalid boot mode {text} requested for node. Allowed boot modes are: {}",
                BootMode::ALL.map(BootMode::as_str).join(", ")
            )
        })
    }
}
