//! Power of a machine as its controller sees it, and what may be asked of it.

use std::{fmt, str::FromStr};

/// Whether a machine has power. There is no guess: a controller that does not answer leaves no state behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PowerState {
    /// It runs.
    On,
    /// It does not.
    Off,
}

/// What may be asked of the power of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PowerTarget {
    /// Switch on.
    On,
    /// Switch off at once.
    Off,
    /// Off and on again, or a restart by the controller.
    Reboot,
    /// Ask the operating system to shut down.
    SoftOff,
    /// Ask the operating system to shut down, then switch on.
    SoftReboot,
}

/// A word that names no power target.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid power target {0:?}; one of: {names}", names = names())]
pub struct UnknownPowerTarget(pub String);

fn names() -> String {
    PowerTarget::ALL.map(PowerTarget::as_str).join(", ")
}

impl PowerState {
    /// Both.
    pub const ALL: [PowerState; 2] = [PowerState::On, PowerState::Off];

    /// The words of the provisioning API.
    pub const fn as_str(self) -> &'static str {
        match self {
            PowerState::On => "power on",
            PowerState::Off => "power off",
        }
    }
}

impl PowerTarget {
    /// Every target.
    pub const ALL: [PowerTarget; 5] =
        [PowerTarget::On, PowerTarget::Off, PowerTarget::Reboot, PowerTarget::SoftOff, PowerTarget::SoftReboot];

    /// The words of the provisioning API.
    pub const fn as_str(self) -> &'static str {
        match self {
            PowerTarget::On => "power on",
            PowerTarget::Off => "power off",
            PowerTarget::Reboot => "rebooting",
            PowerTarget::SoftOff => "soft power off",
            PowerTarget::SoftReboot => "soft rebooting",
        }
    }

    /// Where it leads.
    pub const fn result(self) -> PowerState {
        match self {
            PowerTarget::On | PowerTarget::Reboot | PowerTarget::SoftReboot => PowerState::On,
            PowerTarget::Off | PowerTarget::SoftOff => PowerState::Off,
        }
    }

    /// Whether the machine passes through off: being there already is then no reason to do nothing.
    pub const fn restarts(self) -> bool {
        matches!(self, PowerTarget::Reboot | PowerTarget::SoftReboot)
    }

    /// Whether the operating system has to obey.
    pub const fn is_soft(self) -> bool {
        matches!(self, PowerTarget::SoftOff | PowerTarget::SoftReboot)
    }
}

impl fmt::Display for PowerState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for PowerTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for PowerState {
    type Err = String;

    fn from_str(text: &str) -> Result<PowerState, String> {
        PowerState::ALL.into_iter().find(|s| s.as_str() == text).ok_or_else(|| format!("invalid power state {text:?}"))
    }
}

impl FromStr for PowerTarget {
    type Err = UnknownPowerTarget;

    fn from_str(text: &str) -> Result<PowerTarget, UnknownPowerTarget> {
        PowerTarget::ALL.into_iter().find(|t| t.as_str() == text).ok_or_else(|| UnknownPowerTarget(text.to_owned()))
    }
}
