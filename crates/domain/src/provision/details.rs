//! What callers note about a node, and how nodes and traits may be called. Nothing here decides what is done with a machine.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::{
    ids::{AllocationId, ChassisId},
    interfaces::Slot,
    node::{NodeId, Object},
};
use crate::limits;

/// What callers note about a node.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Details {
    /// What kind of machine it is when one is looked for.
    pub resource_class: Option<String>,
    /// Whose it is.
    pub owner: Option<String>,
    /// Who has it for a while.
    pub lessee: Option<String>,
    /// Which part of a divided fleet it belongs to.
    pub shard: Option<String>,
    /// For people.
    pub description: Option<String>,
    /// The workload on it, by the caller's UUID; gone with the workload.
    pub instance_uuid: Option<String>,
    /// The workload on it, by name; gone with the workload.
    pub instance_name: Option<String>,
    /// The allocation that chose this node for the workload; gone with the UUID of the workload.
    pub allocation: Option<AllocationId>,
    /// The node it is a part of.
    pub parent: Option<NodeId>,
    /// The chassis it is in.
    pub chassis: Option<ChassisId>,
    /// How its workload is connected.
    pub network_data: Object,
    /// Why it is to be retired.
    pub retired_reason: Option<String>,
    /// Implementations that were chosen; absent ones have the default of their driver.
    pub interfaces: BTreeMap<Slot, String>,
    /// What it can do, for those who look for a machine.
    pub traits: BTreeSet<String>,
    /// Logical volumes somebody wants.
    pub target_raid: Object,
    /// When any of this, or the settings of its driver, were changed last.
    pub edited_at: Option<Timestamp>,
}

impl Details {
    /// Forgets what belonged to the workload.
    pub fn clear_instance(&mut self) {
        self.clear_allocation();
        self.instance_name = None;
    }

    /// Forgets which workload it was chosen for.
    pub fn clear_allocation(&mut self) {
        self.instance_uuid = None;
        self.allocation = None;
    }
}

/// Why a text cannot name a node or a trait.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Letters, digits and `-._~` are safe in every URL.
    #[error("{0:?} cannot name a node: letters, digits and -._~ are allowed, at most {max} of them", max = limits::SERIAL_BYTES_MAX)]
    Characters(String),
    /// It would be taken for an identifier.
    #[error("{0:?} cannot name a node: it looks like a UUID")]
    Uuid(String),
    /// It would be taken for a part of the API.
    #[error("{0:?} cannot name a node: the API uses this word in its paths")]
    Reserved(String),
    /// Traits follow a pattern.
    #[error(
        "{0:?} is no trait: CUSTOM_ and capitals, digits or _ behind it, or a standard name such as HW_CPU_X86_VMX"
    )]
    Trait(String),
    /// More than [`limits::TRAITS_MAX`].
    #[error("a node has at most {max} traits", max = limits::TRAITS_MAX)]
    TooManyTraits,
}

/// Words that follow `/v1/nodes/` in paths.
pub const RESERVED_NAMES: &[&str] = &[
    "allocation",
    "bios",
    "children",
    "detail",
    "firmware",
    "history",
    "inventory",
    "maintenance",
    "management",
    "portgroups",
    "ports",
    "sabakan",
    "states",
    "traits",
    "validate",
    "vendor_passthru",
    "vifs",
    "vmedia",
    "volume",
];

/// Whether a text can stand in a path as it is.
pub fn fits_in_path(name: &str) -> bool {
    let letters = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_' | b'~');
    (1..=limits::SERIAL_BYTES_MAX).contains(&name.len()) && name.bytes().all(letters) && !matches!(name, "." | "..")
}

/// Checks the name a caller gives a node.
pub fn check_name(name: &str) -> Result<(), NameError> {
    if !fits_in_path(name) {
        return Err(NameError::Characters(name.to_owned()));
    }
    if name.parse::<NodeId>().is_ok() {
        return Err(NameError::Uuid(name.to_owned()));
    }
    if RESERVED_NAMES.contains(&name) {
        return Err(NameError::Reserved(name.to_owned()));
    }
    Ok(())
}

/// Checks a trait. Of the public standard list only the shape is known here: capitals with a prefix of that list.
pub fn check_trait(name: &str) -> Result<(), NameError> {
    const STANDARD: [&str; 4] = ["COMPUTE_", "HW_", "MISC_", "STORAGE_"];
    let shaped = name.len() <= limits::SERIAL_BYTES_MAX
        && name.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_');
    let known = STANDARD.iter().chain(&["CUSTOM_"]).any(|prefix| name.len() > prefix.len() && name.starts_with(prefix));
    if shaped && known { Ok(()) } else { Err(NameError::Trait(name.to_owned())) }
}

/// Checks all traits of a node.
pub fn check_traits<'a>(traits: impl IntoIterator<Item = &'a str>) -> Result<BTreeSet<String>, NameError> {
    let mut set = BTreeSet::new();
    for name in traits {
        check_trait(name)?;
        set.insert(name.to_owned());
    }
    if set.len() > limits::TRAITS_MAX { Err(NameError::TooManyTraits) } else { Ok(set) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_safe_in_paths_and_no_identifiers() {
        for (name, fits) in [
            ("a", true),
            ("metal3~host-0.rack_1", true),
            (&"x".repeat(255), true),
            (&"x".repeat(256), false),
            ("", false),
            (".", false),
            ("a b", false),
            ("a/b", false),
            ("ä", false),
            ("detail", false),
            ("states", false),
            ("11111111-0005-4000-8000-000000000001", false),
        ] {
            assert_eq!(check_name(name).is_ok(), fits, "{name}");
        }
    }

    #[test]
    fn traits_are_custom_or_standard() {
        for (name, fits) in [
            ("CUSTOM_FAST", true),
            ("HW_CPU_X86_VMX", true),
            ("CUSTOM_", false),
            ("CUSTOM_bad", false),
            ("FAST", false),
            ("not_a_trait", false),
        ] {
            assert_eq!(check_trait(name).is_ok(), fits, "{name}");
        }
        let many: Vec<String> = (0..=limits::TRAITS_MAX).map(|n| format!("CUSTOM_{n}")).collect();
        assert_eq!(check_traits(many.iter().map(String::as_str)), Err(NameError::TooManyTraits));
        assert_eq!(check_traits(many[1..].iter().map(String::as_str)).map(|set| set.len()), Ok(limits::TRAITS_MAX));
    }
}
