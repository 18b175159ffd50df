//! Identifiers of the provisioning API: UUIDs, each kind of thing with a type of its own.

use std::{fmt, str::FromStr};

/// A text that is no UUID.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a UUID")]
pub struct NotUuid(pub String);

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident,)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u128);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write(self.0, f)
            }
        }

        impl FromStr for $name {
            type Err = NotUuid;

            fn from_str(text: &str) -> Result<$name, NotUuid> {
                read(text).map($name)
            }
        }
    )*};
}

ids! {
    /// Identifies a node.
    NodeId,
    /// Identifies a port.
    PortId,
    /// Identifies a port group.
    PortGroupId,
    /// Identifies a chassis.
    ChassisId,
    /// Identifies an allocation.
    AllocationId,
    /// Identifies a deploy template or a runbook.
    RecipeId,
}

fn write(id: u128, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let hex = format!("{id:032x}");
    write!(f, "{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

fn read(text: &str) -> Result<u128, NotUuid> {
    let groups: Vec<&str> = text.split('-').collect();
    let shaped = groups.iter().map(|group| group.len()).eq([8, 4, 4, 4, 12]);
    let hex = groups.concat();
    if !shaped || !hex.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err(NotUuid(text.to_owned()));
    }
    u128::from_str_radix(&hex, 16).map_err(|_| NotUuid(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_are_read_as_they_are_written() {
        let text = "11111111-0005-4000-8000-00000000000f";
        assert_eq!(text.parse::<PortId>().expect("a UUID").to_string(), text);
        assert_eq!(text.to_uppercase().parse::<NodeId>().expect("a UUID").to_string(), text);
        for bad in ["", "x", "1111111-10005-4000-8000-00000000000f", "+1111111-0005-4000-8000-00000000000f"] {
            assert!(bad.parse::<ChassisId>().is_err(), "{bad}");
        }
    }
}
