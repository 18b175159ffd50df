//! The configuration that cleaning must leave as it was: reading it, and putting back what differs.

use std::collections::BTreeMap;

use sabakan_domain::provision::{
    boot::BootRequest,
    hardware::{Configuration, Volume},
};
use serde_json::{Map, Value, json};

use super::{
    Controller,
    inspect::is_fatal,
    limits::BIOS_SETTINGS_MAX,
    quirks::{boot_device, boot_mode},
    resources::{link_of, settings_link, task_of},
    volumes::NewVolume,
};
use crate::{DriverError, Finished, StepOutcome, TaskId};

impl Controller {
    pub(super) async fn read_configuration(&self) -> Result<Configuration, DriverError> {
        let system = self.system().await?.body;
        let boot = &system["Boot"];
        let is_permanent = boot["BootSourceOverrideEnabled"] == "Continuous";
        let secure_boot = known(self.connection.follow(&system, "SecureBoot").await, "secure boot")?;
        Ok(Configuration {
            volumes: known(self.read_volumes(&system).await, "volumes")?,
            bios: known(self.read_bios(&system).await, "bios")?,
            boot_mode: boot["BootSourceOverrideMode"].as_str().and_then(boot_mode),
            secure_boot: secure_boot.and_then(|resource| resource["SecureBootEnable"].as_bool()),
            boot_device: boot["BootSourceOverrideTarget"].as_str().filter(|_| is_permanent).and_then(boot_device),
        })
    }

    async fn read_bios(&self, system: &Value) -> Result<BTreeMap<String, String>, DriverError> {
        Ok(settings_of(&self.connection.follow(system, "Bios").await?["Attributes"]))
    }

    pub(super) async fn restore_configuration(&self, wanted: &Configuration) -> Result<StepOutcome, DriverError> {
        let Configuration { volumes, bios, boot_mode, secure_boot, boot_device } = wanted;
        let is = self.read_configuration().await?;
        let mut notes = Vec::new();
        let mut tasks = Vec::new();
        let missing = match (volumes, &is.volumes) {
            (Some(wanted), Some(is)) => missing(wanted, is),
            (None, _) => Vec::new(),
            (Some(_), None) => {
                let reason = "they cannot be read any more".to_owned();
                return Err(DriverError::Failed { what: "compare the volumes".to_owned(), reason });
            }
        };
        if !missing.is_empty() {
            let system = self.system().await?.body;
            tasks = self.create_volumes(&system, &missing).await?;
            notes.push(format!("{} volumes created again", missing.len()));
        }
        if let (Some(wanted), Some(is)) = (bios, &is.bios) {
            let changed = wanted.iter().filter(|(name, value)| is.get(*name).is_some_and(|now| now != *value));
            let changed: BTreeMap<_, _> = changed.map(|(name, value)| (name.clone(), value.clone())).collect();
            if !changed.is_empty() {
                tasks.extend(self.write_bios(&changed).await?);
                notes.push(format!("{} settings of the firmware set, in force after the next restart", changed.len()));
            }
        }
        if let Some(mode) = boot_mode.filter(|mode| is.boot_mode != Some(*mode)) {
            self.set_boot_mode(mode).await?;
            notes.push(format!("boot mode {} set", mode.as_str()));
        }
        if let Some(enable) = secure_boot.filter(|enable| is.secure_boot != Some(*enable)) {
            self.set_secure_boot(enable).await?;
            notes.push(format!("secure boot set to {enable}"));
        }
        if let Some(device) = boot_device.filter(|device| is.boot_device != Some(*device)) {
            self.override_boot(&BootRequest { device, persistent: true, http_uri: None }).await?;
            notes.push(format!("boot device {device} set"));
        }
        Ok(outcome(tasks, notes.join("; ")))
    }

    /// Sets settings of the firmware, each in the kind of value it has now.
    pub(super) async fn write_bios(&self, wanted: &BTreeMap<String, String>) -> Result<Option<TaskId>, DriverError> {
        let system = self.system().await?.body;
        let link = link_of(&system["Bios"]).ok_or_else(|| DriverError::Unsupported("Bios".to_owned()))?;
        let bios = self.connection.get_resource("Bios", &link).await?;
        let attributes = typed(wanted, &bios.body["Attributes"])?;
        let target = settings_link(&bios.body, &link);
        let etag = match target == link {
            true => bios.etag,
            false => self.connection.get_resource("Bios settings", &target).await.ok().and_then(|pending| pending.etag),
        };
        let body = json!({ "Attributes": attributes });
        let answer = self.connection.change("change settings of the firmware", &target, etag.as_deref(), &body).await?;
        Ok(task_of(&answer))
    }
}

/// How work ended, or how it goes on. Several tasks travel in one name.
pub(super) fn outcome(tasks: Vec<TaskId>, note: String) -> StepOutcome {
    if tasks.is_empty() {
        return StepOutcome::Finished(Finished { note });
    }
    StepOutcome::Running(TaskId(tasks.into_iter().map(|TaskId(link)| link).collect::<Vec<_>>().join(" ")))
}

/// An aspect the controller cannot tell is left out of the comparison, visibly.
fn known<T>(read: Result<T, DriverError>, aspect: &str) -> Result<Option<T>, DriverError> {
    match read {
        Ok(found) => Ok(Some(found)),
        Err(error) if is_fatal(&error) => Err(error),
        Err(error) => {
            tracing::info!(aspect, %error, "the BMC cannot tell this part of the configuration");
            Ok(None)
        }
    }
}

/// What has a value. Passwords are no part of a comparison, and nothing to keep.
fn settings_of(attributes: &Value) -> BTreeMap<String, String> {
    let attributes = attributes.as_object().into_iter().flatten();
    let known = attributes.filter(|(name, value)| !value.is_null() && !name.to_ascii_lowercase().contains("password"));
    known.map(|(name, value)| (name.clone(), shown(value))).take(BIOS_SETTINGS_MAX).collect()
}

fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn typed(wanted: &BTreeMap<String, String>, now: &Value) -> Result<Map<String, Value>, DriverError> {
    let mut typed = Map::new();
    for (name, text) in wanted {
        let refuse = |reason: &str| DriverError::Rejected {
            what: "change settings of the firmware".to_owned(),
            reason: format!("{name} {reason}"),
        };
        let value = match &now[name.as_str()] {
            Value::Null => return Err(refuse("is no setting of this machine")),
            Value::Bool(_) => json!(text.parse::<bool>().map_err(|_| refuse("is either true or false"))?),
            Value::Number(_) => {
                serde_json::from_str(text).ok().filter(Value::is_number).ok_or_else(|| refuse("is a number"))?
            }
            _ => json!(text),
        };
        typed.insert(name.clone(), value);
    }
    Ok(typed)
}

/// Volumes that are gone.
fn missing(wanted: &[Volume], is: &[Volume]) -> Vec<NewVolume> {
    let gone = wanted.iter().filter(|volume| !is.contains(volume));
    let new = |volume: &Volume| NewVolume {
        controller: Some(volume.controller.clone()),
        name: volume.name.clone(),
        level: volume.level.clone(),
        size_gib: Some(volume.size_gib),
        members: volume.members.clone(),
    };
    gone.map(new).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_keep_the_kind_they_have() {
        let now = json!({ "Boot": "Uefi", "Threads": 2, "Turbo": true });
        let wanted = |name: &str, value: &str| BTreeMap::from([(name.to_owned(), value.to_owned())]);
        for (name, value, expected) in
            [("Boot", "1", json!("1")), ("Threads", "4", json!(4)), ("Turbo", "false", json!(false))]
        {
            assert_eq!(typed(&wanted(name, value), &now).unwrap()[name], expected);
        }
        for (name, value) in [("Threads", "many"), ("Turbo", "2"), ("Other", "x")] {
            assert!(matches!(typed(&wanted(name, value), &now), Err(DriverError::Rejected { .. })), "{name}");
        }
    }

    #[test]
    fn passwords_are_no_part_of_the_configuration() {
        let found = settings_of(&json!({ "AdminPassword": "x", "SysPassword": "", "Turbo": true, "Unset": null }));
        assert_eq!(found, BTreeMap::from([("Turbo".to_owned(), "true".to_owned())]));
    }

    #[test]
    fn only_what_is_gone_is_created_again() {
        let volume = |name: &str| Volume {
            controller: "A".to_owned(),
            name: name.to_owned(),
            level: "1".to_owned(),
            size_gib: 10,
            members: vec!["d0".to_owned()],
            boot: false,
        };
        let names = |is: &[Volume]| {
            missing(&[volume("a"), volume("b")], is).into_iter().map(|volume| volume.name).collect::<Vec<_>>()
        };
        assert_eq!(names(&[volume("a"), volume("c")]), ["b"]);
        assert_eq!(names(&[volume("a"), volume("b")]), [""; 0]);
    }
}
