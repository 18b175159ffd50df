//! What the machine starts from. Nothing is read back after a change: several controllers report another word than the one they
//! obey, and what counts is where the machine boots.

use reqwest::StatusCode;
use sabakan_domain::provision::boot::{BootDevice, BootMode, BootRequest};
use serde_json::{Map, Value, json};

use super::{
    Controller,
    http::Answer,
    quirks::{BOOT_TARGETS, boot_device, boot_mode, boot_mode_name, boot_names},
    resources::{link_of, settings_link},
};
use crate::DriverError;

const WHAT: &str = "set the boot device";

impl Controller {
    pub(super) async fn override_boot(&self, request: &BootRequest) -> Result<(), DriverError> {
        let itself = self.system_link().await?.to_owned();
        let mut system = self.system().await?;
        let link = settings_link(&system.body, &itself);
        let names = offered_names(&system.body["Boot"], request.device, self.connection.remembered.other_names())?;
        if link != itself {
            // What can be changed lives apart from what is; its version is its own. Where it cannot be read, what is counts.
            if let Ok(pending) = self.connection.get_resource("the system's settings", &link).await {
                system.etag = pending.etag;
                if pending.body["Boot"].is_object() {
                    system.body["Boot"] = pending.body["Boot"].clone();
                }
            } else {
                system.etag = None;
            }
        }
        let how_often: &[&str] = match (request.persistent, self.connection.remembered.no_continuous()) {
            (true, false) => &["Continuous", "Once"],
            (true, true) | (false, _) => &["Once"],
        };
        let mut refused: Option<Answer> = None;
        for enabled in how_often {
            for (nth, name) in names.iter().enumerate() {
                let current = &system.body["Boot"];
                match self.try_override(&link, system.etag.as_deref(), current, request, (enabled, name)).await? {
                    None => {
                        self.learn(request, enabled, nth);
                        return Ok(());
                    }
                    // Only a word the controller does not take is worth another word.
                    Some(answer) if !is_word_refused(&answer) => return Err(answer.refusal(WHAT)),
                    Some(answer) => refused = refused.or(Some(answer)),
                }
            }
        }
        Err(refused.map_or_else(|| unsupported(request.device), |answer| answer.refusal(WHAT)))
    }

    fn learn(&self, request: &BootRequest, enabled: &str, nth_name: usize) {
        if request.persistent && enabled == "Once" {
            tracing::info!(device = %request.device, "the BMC takes no permanent boot device, set for the next boot only");
            self.connection.remembered.learn_no_continuous();
        }
        if nth_name > 0 {
            self.connection.remembered.learn_other_names();
        }
    }

    /// Some refuse members that have their value already, others want all of them: first what changes, then everything. Gives the
    /// answer if both are refused.
    async fn try_override(
        &self,
        link: &str,
        etag: Option<&str>,
        current: &Value,
        request: &BootRequest,
        (enabled, name): (&str, &str),
    ) -> Result<Option<Answer>, DriverError> {
        let all = members(current, request, enabled, name);
        let changed: Map<String, Value> = all
            .iter()
            .filter(|(key, value)| current[key.as_str()] != **value)
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect();
        let is_there = changed.is_empty();
        if !is_there {
            let mut first = changed;
            // A target makes sense of the rest, and nobody minds it.
            first.insert("BootSourceOverrideTarget".to_owned(), json!(name));
            let answer = self.connection.patch(WHAT, link, etag, &json!({ "Boot": first })).await?;
            if answer.is_success() || !is_word_refused(&answer) || first == all {
                return Ok((!answer.is_success()).then_some(answer));
            }
        }
        let answer = self.connection.patch(WHAT, link, etag, &json!({ "Boot": all })).await?;
        // Refusing what is there already changes nothing.
        let is_fine = answer.is_success() || (is_there && is_word_refused(&answer));
        Ok((!is_fine).then_some(answer))
    }

    pub(super) async fn read_boot(&self) -> Result<(BootDevice, bool), DriverError> {
        let system = self.system().await?.body;
        let boot = &system["Boot"];
        let target = boot["BootSourceOverrideTarget"].as_str().filter(|target| *target != "None");
        match (boot["BootSourceOverrideEnabled"].as_str(), target) {
            (Some(enabled @ ("Once" | "Continuous")), Some(target)) => {
                let device = boot_device(target);
                let device = device.ok_or_else(|| DriverError::Unsupported(format!("the boot device {target}")))?;
                Ok((device, enabled == "Continuous"))
            }
            // Without an override the machine follows its boot order.
            _ => self.first_in_order(boot).await.map(|device| (device, true)),
        }
    }

    async fn first_in_order(&self, boot: &Value) -> Result<BootDevice, DriverError> {
        let unknown = || DriverError::Unsupported("reading a boot device that is not overridden".to_owned());
        let first = boot["BootOrder"][0].as_str().ok_or_else(unknown)?;
        let options = self.connection.members(boot, "BootOptions").await.map_err(|_| unknown())?;
        let option = options.iter().find(|option| option["BootOptionReference"] == first).ok_or_else(unknown)?;
        option["Alias"].as_str().and_then(boot_device).ok_or_else(unknown)
    }

    pub(super) async fn read_boot_devices(&self) -> Result<Vec<BootDevice>, DriverError> {
        let system = self.system().await?.body;
        let offered = &system["Boot"]["BootSourceOverrideTarget@Redfish.AllowableValues"];
        let Some(offered) = offered.as_array().filter(|offered| !offered.is_empty()) else {
            // What every controller that has the override at all takes.
            return Ok(vec![BootDevice::Pxe, BootDevice::Disk, BootDevice::Cdrom, BootDevice::Bios]);
        };
        let is_offered = |names: &[&str]| offered.iter().filter_map(Value::as_str).any(|word| names.contains(&word));
        Ok(BOOT_TARGETS.iter().filter(|(_, names)| is_offered(names)).map(|(device, _)| *device).collect())
    }

    /// Sets the mode alone, which lasts.
    pub(super) async fn set_boot_mode(&self, mode: BootMode) -> Result<(), DriverError> {
        let itself = self.system_link().await?.to_owned();
        let system = self.system().await?;
        let link = settings_link(&system.body, &itself);
        let body = json!({ "Boot": { "BootSourceOverrideMode": boot_mode_name(mode) } });
        self.connection
            .change("set the boot mode", &link, system.etag.filter(|_| link == itself).as_deref(), &body)
            .await?;
        Ok(())
    }

    pub(super) async fn set_secure_boot(&self, enable: bool) -> Result<(), DriverError> {
        let system = self.system().await?.body;
        let link = link_of(&system["SecureBoot"]).ok_or_else(|| DriverError::Unsupported("secure boot".to_owned()))?;
        let secure_boot = self.connection.get_resource("secure boot", &link).await?;
        let body = json!({ "SecureBootEnable": enable });
        self.connection.change("set secure boot", &link, secure_boot.etag.as_deref(), &body).await?;
        Ok(())
    }
}

fn unsupported(device: BootDevice) -> DriverError {
    DriverError::Unsupported(format!("the boot device {device}"))
}

fn is_word_refused(answer: &Answer) -> bool {
    matches!(answer.status, StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY)
}

/// Names of the device that the controller may take, the likeliest first.
fn offered_names(boot: &Value, device: BootDevice, prefer_other: bool) -> Result<Vec<&'static str>, DriverError> {
    let mut names = boot_names(device).to_vec();
    if prefer_other {
        names.reverse();
    }
    let offered = boot["BootSourceOverrideTarget@Redfish.AllowableValues"].as_array().filter(|words| !words.is_empty());
    // The list is that of the present mode, and HTTP boot changes the mode.
    let is_other_mode = device == BootDevice::UefiHttp && boot["BootSourceOverrideMode"] == "Legacy";
    if let Some(offered) = offered.filter(|_| !is_other_mode) {
        let listed: Vec<&str> = names.iter().copied().filter(|name| offered.iter().any(|word| word == name)).collect();
        if listed.is_empty() {
            return Err(unsupported(device));
        }
        // A list may still be wrong about which of the names works.
        names.sort_by_key(|name| !listed.contains(name));
    }
    Ok(names)
}

/// All members of the override.
fn members(current: &Value, request: &BootRequest, enabled: &str, name: &str) -> Map<String, Value> {
    let mut all = Map::new();
    all.insert("BootSourceOverrideTarget".to_owned(), json!(name));
    all.insert("BootSourceOverrideEnabled".to_owned(), json!(enabled));
    if request.device == BootDevice::UefiHttp {
        let mode = current["BootSourceOverrideMode"].as_str().and_then(boot_mode);
        // Some rewrite the firmware's variables whenever the mode is set, even to what it is.
        if mode != Some(BootMode::Uefi) {
            all.insert("BootSourceOverrideMode".to_owned(), json!(boot_mode_name(BootMode::Uefi)));
        }
        let stale = current["HttpBootUri"].as_str().is_some_and(|uri| uri.starts_with("http"));
        match &request.http_uri {
            Some(uri) => _ = all.insert("HttpBootUri".to_owned(), json!(uri)),
            // Left there, the machine would load what somebody asked for earlier.
            None if stale => _ = all.insert("HttpBootUri".to_owned(), Value::Null),
            None => {}
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn http(uri: Option<&str>) -> BootRequest {
        BootRequest { device: BootDevice::UefiHttp, persistent: false, http_uri: uri.map(str::to_owned) }
    }

    #[test]
    fn http_boot_sets_mode_and_place_only_where_they_differ() {
        let keys = |current: Value, request: &BootRequest| {
            members(&current, request, "Once", "UefiHttp").keys().cloned().collect::<Vec<_>>()
        };
        let base = ["BootSourceOverrideEnabled", "BootSourceOverrideTarget"];
        assert_eq!(keys(json!({ "BootSourceOverrideMode": "UEFI" }), &http(None)), base);
        assert_eq!(keys(json!({ "BootSourceOverrideMode": "UEFI", "HttpBootUri": "None" }), &http(None)), base);
        assert_eq!(keys(json!({}), &http(None)).len(), 3);
        let stale = json!({ "BootSourceOverrideMode": "UEFI", "HttpBootUri": "http://old/x" });
        assert_eq!(members(&stale, &http(None), "Once", "UefiHttp")["HttpBootUri"], Value::Null);
        assert_eq!(members(&stale, &http(Some("http://new/y")), "Once", "UefiHttp")["HttpBootUri"], "http://new/y");
    }

    #[test]
    fn names_follow_what_is_offered() {
        let offered = |words: &[&str]| json!({ "BootSourceOverrideTarget@Redfish.AllowableValues": words });
        assert_eq!(offered_names(&offered(&["UsbCd", "Pxe"]), BootDevice::Cdrom, false).unwrap(), ["UsbCd", "Cd"]);
        assert_eq!(offered_names(&json!({}), BootDevice::Cdrom, true).unwrap(), ["UsbCd", "Cd"]);
        assert!(offered_names(&offered(&["Pxe"]), BootDevice::Floppy, false).is_err());
        let mut legacy = offered(&["Pxe"]);
        legacy["BootSourceOverrideMode"] = json!("Legacy");
        assert!(offered_names(&legacy, BootDevice::UefiHttp, false).is_ok());
    }
}
