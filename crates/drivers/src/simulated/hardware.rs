//! What of a simulated machine can be configured: volumes, firmware and its settings, and what is on the disks. Only what differs
//! from the delivered state takes memory.

use std::collections::BTreeMap;

use sabakan_domain::provision::{
    boot::{BootDevice, BootMode},
    hardware::{Configuration, Volume},
    steps::Args,
};
use serde_json::Value;

use super::facts;

/// Which machine, for everything that follows from it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Identity<'a> {
    pub(super) seed: u64,
    pub(super) serial: &'a str,
}

#[derive(Debug, Default)]
pub(super) struct Hardware {
    /// `None`: as delivered.
    volumes: Option<Vec<Volume>>,
    /// Settings that are not as delivered.
    bios: BTreeMap<String, String>,
    /// `None`: as delivered.
    pub(super) firmware: Option<String>,
    /// Whether there is a system on the disks.
    pub(super) has_image: bool,
}

impl Hardware {
    pub(super) fn configuration(&self, id: Identity<'_>, boot_device: BootDevice) -> Configuration {
        let mut bios = facts::bios();
        bios.extend(self.bios.clone());
        Configuration {
            volumes: Some(self.volumes(id)),
            bios: Some(bios),
            boot_mode: Some(BootMode::Uefi),
            secure_boot: Some(false),
            boot_device: Some(boot_device),
        }
    }

    /// Deletes all volumes, and with them what was on them.
    pub(super) fn delete_volumes(&mut self) {
        self.volumes = Some(Vec::new());
        self.has_image = false;
    }

    /// Puts volumes and settings back. What is on new volumes is nothing.
    pub(super) fn restore(&mut self, id: Identity<'_>, wanted: &Configuration, with_volumes: bool) {
        if let Some(volumes) = wanted.volumes.as_ref().filter(|volumes| with_volumes && **volumes != self.volumes(id)) {
            self.has_image = false;
            self.volumes = Some(volumes.clone());
        }
        if let Some(bios) = &wanted.bios {
            let delivered = facts::bios();
            self.bios = bios.iter().filter(|(name, value)| delivered.get(*name) != Some(*value)).map(pair).collect();
        }
    }

    /// Creates the volumes of `logical_disks`, or says what is wrong with them and creates none.
    pub(super) fn create_volumes(&mut self, id: Identity<'_>, args: &Args) -> Result<(), String> {
        let wanted = args.get("logical_disks").and_then(Value::as_array).ok_or("logical_disks must be a list")?;
        let mut volumes = self.volumes(id);
        for disk in wanted {
            let volume = new_volume(id, disk, &volumes)?;
            volumes.push(volume);
        }
        volumes.sort();
        self.volumes = Some(volumes);
        Ok(())
    }

    /// Changes the settings of `settings`, or says what is wrong with them and changes none.
    pub(super) fn apply_bios(&mut self, args: &Args) -> Result<(), String> {
        let wanted = args.get("settings").and_then(Value::as_array).ok_or("settings must be a list")?;
        let delivered = facts::bios();
        let mut bios = self.bios.clone();
        for setting in wanted {
            let (name, value) = (text(setting, "name")?, text(setting, "value")?);
            if !delivered.contains_key(&name) {
                return Err(format!("there is no setting {name:?}"));
            }
            bios.insert(name, value);
        }
        self.bios = bios;
        Ok(())
    }

    /// Sets the firmware's settings as delivered.
    pub(super) fn reset_bios(&mut self) {
        self.bios.clear();
    }

    fn volumes(&self, id: Identity<'_>) -> Vec<Volume> {
        self.volumes.clone().unwrap_or_else(|| facts::volumes(id.seed, id.serial))
    }
}

/// The version that a firmware update asks for: the last part of its address.
pub(super) fn wanted_firmware(args: &Args) -> Result<String, String> {
    let updates = args.get("settings").and_then(Value::as_array).ok_or("settings must be a list")?;
    let update = updates.first().ok_or("settings must name an update")?;
    let (_component, url) = (text(update, "component")?, text(update, "url")?);
    match url.rsplit('/').next() {
        Some(version) if !version.is_empty() => Ok(version.to_owned()),
        _ => Err(format!("url {url:?} names no file")),
    }
}

fn new_volume(id: Identity<'_>, wanted: &Value, existing: &[Volume]) -> Result<Volume, String> {
    let level = text(wanted, "raid_level")?;
    let (disks, usable) = match level.as_str() {
        "0" => (1, 1),
        "1" => (2, 1),
        "5" => (3, 2),
        "6" | "1+0" => (4, 2),
        _ => return Err(format!("raid_level {level:?} is not one of 0, 1, 5, 6, 1+0")),
    };
    let name = match wanted.get("volume_name") {
        None | Some(Value::Null) => format!("volume-{}", existing.len()),
        Some(_) => text(wanted, "volume_name")?,
    };
    if existing.iter().any(|volume| volume.name == name) {
        return Err(format!("there is a volume {name:?} already"));
    }
    let taken = |disk: &String| existing.iter().any(|volume| volume.members.contains(disk));
    let members: Vec<String> = match wanted.get("physical_disks").and_then(Value::as_array) {
        Some(named) => named.iter().filter_map(|disk| disk.as_str().map(str::to_owned)).collect(),
        None => facts::disk_names().filter(|disk| !taken(disk)).take(disks).collect(),
    };
    let exists = |disk: &String| facts::disk_names().any(|known| known == *disk);
    if members.len() < disks || members.iter().any(|disk| taken(disk) || !exists(disk)) {
        return Err(format!("level {level} needs {disks} free disks, there are only {members:?} to use"));
    }
    let room = facts::disk_gib(id.seed, id.serial) * usable;
    let size_gib = match wanted.get("size_gb") {
        Some(Value::Number(size)) => size.as_u64().filter(|size| (1..=room).contains(size)),
        Some(Value::String(text)) if text == "MAX" => Some(room),
        _ => None,
    };
    let size_gib = size_gib.ok_or_else(|| format!("size_gb must be \"MAX\" or a number up to {room}"))?;
    let boot = wanted.get("is_root_volume").and_then(Value::as_bool).unwrap_or(false);
    Ok(Volume { controller: facts::CONTROLLER.to_owned(), name, level, size_gib, members, boot })
}

fn text(value: &Value, key: &str) -> Result<String, String> {
    let text = value.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    text.map(str::to_owned).ok_or_else(|| format!("{key} must be a text"))
}

fn pair((name, value): (&String, &String)) -> (String, String) {
    (name.clone(), value.clone())
}
