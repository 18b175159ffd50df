//! Logical volumes somebody wants: whether they can be wanted like this. Making them is a step of cleaning.

use serde_json::Value;

use super::node::Object;
use crate::limits;

/// Levels a volume can have.
pub const LEVELS: [&str; 9] = ["JBOD", "0", "1", "2", "5", "6", "1+0", "5+0", "6+0"];

/// What may be said about a logical volume, and what it means.
pub const PROPERTIES: &[(&str, &str)] = &[
    ("raid_level", "RAID level: one of JBOD, 0, 1, 2, 5, 6, 1+0, 5+0, 6+0. Required."),
    ("size_gb", "Size in GiB, or MAX for all that is left. Required."),
    ("volume_name", "Name of the volume; the controller finds one if there is none. Optional."),
    ("is_root_volume", "Whether the machine boots from it; false by default, true for one volume at most. Optional."),
    ("share_physical_disks", "Whether other volumes may use the same disks; false by default. Optional."),
    ("disk_type", "Kind of disks to use: hdd or ssd. Optional."),
    ("interface_type", "Interface of the disks to use: sata, scsi or sas. Optional."),
    ("number_of_physical_disks", "How many disks to use; as few as the level needs by default. Optional."),
    ("controller", "Controller to use. Optional."),
    ("physical_disks", "Disks to use, by the controller's names. Optional."),
];

/// Why volumes cannot be wanted like this.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("RAID configuration is not valid: {0}")]
pub struct RaidRefusal(pub String);

/// Checks the volumes somebody wants. Nothing at all is allowed: nobody wants any then.
pub fn check(wanted: &Object) -> Result<(), RaidRefusal> {
    let refuse = |text: String| Err(RaidRefusal(text));
    if wanted.is_empty() {
        return Ok(());
    }
    if let Some(other) = wanted.keys().find(|key| *key != "logical_disks") {
        return refuse(format!("{other:?} is not known; only logical_disks is"));
    }
    let Some(Value::Array(disks)) = wanted.get("logical_disks") else {
        return refuse("logical_disks is not a list".to_owned());
    };
    if disks.len() > limits::VOLUMES_MAX {
        return refuse(format!("{} logical disks, at most {} are allowed", disks.len(), limits::VOLUMES_MAX));
    }
    for (n, disk) in disks.iter().enumerate() {
        check_disk(disk).map_err(|reason| RaidRefusal(format!("logical disk {n}: {reason}")))?;
    }
    let roots = disks.iter().filter(|disk| disk["is_root_volume"] == true).count();
    if roots > 1 {
        return refuse("more than one logical disk has is_root_volume".to_owned());
    }
    Ok(())
}

fn check_disk(disk: &Value) -> Result<(), String> {
    let Value::Object(members) = disk else { return Err("it is not an object".to_owned()) };
    for (name, value) in members {
        let text = value.as_str();
        let fits = match name.as_str() {
            "raid_level" => text.is_some_and(|level| LEVELS.contains(&level)),
            "size_gb" => text == Some("MAX") || value.as_u64().is_some_and(|size| size > 0),
            "volume_name" | "controller" => text.is_some(),
            "is_root_volume" | "share_physical_disks" => value.is_boolean(),
            "disk_type" => matches!(text, Some("hdd" | "ssd")),
            "interface_type" => matches!(text, Some("sata" | "scsi" | "sas")),
            "number_of_physical_disks" => value.as_u64().is_some_and(|count| count > 0),
            // Software volumes name them by hints, which are objects.
            "physical_disks" => {
                value.as_array().is_some_and(|disks| disks.iter().all(|disk| disk.is_string() || disk.is_object()))
            }
            _ => return Err(format!("{name:?} is not known")),
        };
        if !fits {
            return Err(format!("{name} cannot be {value}"));
        }
    }
    match ["raid_level", "size_gb"].into_iter().find(|name| !members.contains_key(*name)) {
        Some(missing) => Err(format!("{missing} is missing")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn volumes_that_can_be_wanted() {
        let disk = json!({ "raid_level": "1", "size_gb": 100, "is_root_volume": true, "physical_disks": ["a", "b"] });
        let root = json!({ "raid_level": "0", "size_gb": "MAX", "is_root_volume": true });
        for (wanted, fits) in [
            (json!({}), true),
            (json!({ "logical_disks": [] }), true),
            (json!({ "logical_disks": [disk] }), true),
            (json!({ "logical_disks": [disk, root] }), false),
            (json!({ "logical_disks": {} }), false),
            (json!({ "logical_disks": ["x"] }), false),
            (json!({ "volumes": [] }), false),
            (json!({ "logical_disks": [{ "raid_level": "1" }] }), false),
            (json!({ "logical_disks": [{ "raid_level": "7", "size_gb": 1 }] }), false),
            (json!({ "logical_disks": [{ "raid_level": "1", "size_gb": 0 }] }), false),
            (json!({ "logical_disks": [{ "raid_level": "1", "size_gb": 1, "colour": "red" }] }), false),
            (
                json!({ "logical_disks": vec![json!({ "raid_level": "1", "size_gb": 1 }); limits::VOLUMES_MAX + 1] }),
                false,
            ),
        ] {
            let object: Object = serde_json::from_value(wanted.clone()).expect("an object");
            assert_eq!(check(&object).is_ok(), fits, "{wanted}");
        }
    }

    #[test]
    fn every_property_that_is_explained_is_understood() {
        for (name, text) in PROPERTIES {
            let answer = check_disk(&json!({ *name: {} })).expect_err("an object is no value of it");
            assert!(answer.starts_with(&format!("{name} cannot be")), "{answer}");
            assert_eq!(text.ends_with("Required."), matches!(*name, "raid_level" | "size_gb"), "{name}");
        }
    }
}
