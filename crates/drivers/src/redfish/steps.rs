//! Steps this driver offers, all on request only, and the tasks some of them leave with the controller.
//!
//! Not offered: `raid.create_configuration`, which needs the wanted volumes of the node; `raid.apply_configuration` takes them as an
//! argument. Choosing disks by hints is left to the caller, who names them.

use std::collections::BTreeMap;

use reqwest::{Method, StatusCode, Url};
use sabakan_domain::provision::{
    hardware::Aspect,
    steps::{ArgSpec, Args, Flow, Interface, Place, Step, StepSpec},
};
use serde_json::{Value, json};

use super::{
    Controller,
    configuration::outcome,
    http::{Answer, shortened},
    resources::{task_of, text},
    volumes::NewVolume,
};
use crate::{DriverError, Finished, StepOutcome, TaskId, TaskState};

const ALWAYS: &[Flow] = &[Flow::Clean, Flow::Deploy, Flow::Service];

const BASE: StepSpec = StepSpec {
    interface: Interface::Bios,
    name: "",
    place: Place::OutOfBand,
    flows: ALWAYS,
    priority: 0,
    abortable: false,
    idempotent: true,
    disturbs: &[],
    args: &[],
    text: "",
};

/// What this driver offers.
pub const OFFERED: &[StepSpec] = &[
    StepSpec {
        name: "apply_configuration",
        disturbs: &[Aspect::Bios, Aspect::BootMode],
        args: &[ArgSpec {
            name: "settings",
            required: true,
            text: "list of {name, value} of settings of the firmware",
        }],
        text: "Sets settings of the firmware; they are in force after the next restart.",
        ..BASE
    },
    StepSpec {
        name: "factory_reset",
        disturbs: &[Aspect::Bios, Aspect::BootMode, Aspect::SecureBoot, Aspect::BootDevice],
        text: "Puts all settings of the firmware back to the vendor's; they are in force after the next restart.",
        ..BASE
    },
    StepSpec {
        interface: Interface::Raid,
        name: "apply_configuration",
        idempotent: false,
        disturbs: &[Aspect::Raid],
        args: &[
            ArgSpec {
                name: "raid_config",
                required: true,
                text: "logical_disks: list of {volume_name, raid_level, size_gb or \"MAX\", physical_disks, controller}",
            },
            ArgSpec {
                name: "delete_existing",
                required: false,
                text: "delete all logical volumes before; default true",
            },
        ],
        text: "Creates logical volumes. What was on the disks is lost.",
        ..BASE
    },
    StepSpec {
        interface: Interface::Raid,
        name: "delete_configuration",
        disturbs: &[Aspect::Raid],
        text: "Deletes all logical volumes. What was on them is lost.",
        ..BASE
    },
    StepSpec {
        interface: Interface::Firmware,
        name: "update",
        flows: &[Flow::Clean, Flow::Service],
        idempotent: false,
        args: &[ArgSpec {
            name: "settings",
            required: true,
            text: "list of one {component, url}: where the BMC loads the image",
        }],
        text: "Lets the controller load and install one firmware image.",
        ..BASE
    },
];

impl Controller {
    pub(super) async fn execute(&self, step: &Step) -> Result<StepOutcome, DriverError> {
        match (step.interface, step.name.as_str()) {
            (Interface::Bios, "apply_configuration") => {
                let settings = bios_settings(&step.args)?;
                let task = self.write_bios(&settings).await?;
                let note = format!("{} settings of the firmware set, in force after the next restart", settings.len());
                Ok(outcome(task.into_iter().collect(), note))
            }
            (Interface::Bios, "factory_reset") => self.reset_bios().await,
            (Interface::Raid, "apply_configuration") => {
                let wanted = logical_disks(&step.args)?;
                self.apply_raid(&wanted, delete_existing(&step.args)?).await
            }
            (Interface::Raid, "delete_configuration") => {
                let system = self.system().await?.body;
                let tasks = self.delete_volumes(&system).await?;
                Ok(outcome(tasks, "all volumes deleted".to_owned()))
            }
            (Interface::Firmware, "update") => self.update_firmware(&firmware_image(&step.args)?).await,
            _ => Err(DriverError::Unsupported(format!("the step {}", step.key()))),
        }
    }

    async fn reset_bios(&self) -> Result<StepOutcome, DriverError> {
        let system = self.system().await?.body;
        let bios = self.connection.follow(&system, "Bios").await?;
        let target = bios["Actions"]["#Bios.ResetBios"]["target"].as_str();
        let target = target.ok_or_else(|| DriverError::Unsupported("resetting the firmware's settings".to_owned()))?;
        let answer = self.connection.post("reset the firmware's settings", target, &json!({})).await?;
        let note = "settings of the firmware reset, in force after the next restart".to_owned();
        Ok(outcome(task_of(&answer).into_iter().collect(), note))
    }

    async fn apply_raid(&self, wanted: &[NewVolume], delete_existing: bool) -> Result<StepOutcome, DriverError> {
        let system = self.system().await?.body;
        if delete_existing && let Some(TaskId(task)) = self.delete_volumes(&system).await?.into_iter().next() {
            // Creating has to wait for it, and only the caller can wait that long.
            return Err(DriverError::Failed {
                what: "delete the volumes at once".to_owned(),
                reason: format!(
                    "it works on it as a task ({}); run raid.delete_configuration, then this step with delete_existing false",
                    shortened(&task)
                ),
            });
        }
        let tasks = self.create_volumes(&system, wanted).await?;
        Ok(outcome(tasks, format!("{} volumes created", wanted.len())))
    }

    async fn update_firmware(&self, image: &str) -> Result<StepOutcome, DriverError> {
        let service = self.connection.follow(&self.root().await?, "UpdateService").await?;
        let action = &service["Actions"]["#UpdateService.SimpleUpdate"];
        let target = action["target"].as_str();
        let target = target.ok_or_else(|| DriverError::Unsupported("loading a firmware image".to_owned()))?;
        let answer = self.connection.post("update the firmware", target, &json!({ "ImageURI": image })).await?;
        Ok(outcome(
            task_of(&answer).into_iter().collect(),
            "the BMC took the image and named no task; whether it is installed shows in its version".to_owned(),
        ))
    }

    /// How far tasks are: failed if one is, running while one is, done when all are.
    pub(super) async fn read_tasks(&self, TaskId(links): &TaskId) -> Result<TaskState, DriverError> {
        let mut running = None;
        let mut note = String::new();
        for link in links.split(' ').filter(|link| !link.is_empty()) {
            let answer = self.connection.request("the task", Method::GET, link, None, None).await?;
            match task_state(&answer)? {
                TaskState::Failed(reason) => return Ok(TaskState::Failed(reason)),
                TaskState::Running(text) => running = Some(text),
                TaskState::Done(done) => note = done.note,
            }
        }
        Ok(running.map_or(TaskState::Done(Finished { note }), TaskState::Running))
    }
}

/// A task resource tells its state; a monitor answers 202 until it answers as the work itself would have.
fn task_state(answer: &Answer) -> Result<TaskState, DriverError> {
    let body = answer.json_if_any().unwrap_or_default();
    let messages = body["Messages"].as_array().cloned().unwrap_or_default();
    let last = messages.iter().rev().find_map(|message| text(&message["Message"])).map(|text| shortened(&text));
    let percent = body["PercentComplete"].as_u64().map(|percent| format!("{percent} %"));
    match (answer.status, body["TaskState"].as_str()) {
        (StatusCode::NOT_FOUND | StatusCode::GONE, _) => {
            Ok(TaskState::Failed("the BMC does not know the task any more; how it ended is not known".to_owned()))
        }
        (status, _)
            if status.is_client_error() && status != StatusCode::UNAUTHORIZED && status != StatusCode::FORBIDDEN =>
        {
            Ok(TaskState::Failed(answer.refusal("finish the task").to_string()))
        }
        (status, _) if !status.is_success() => Err(answer.refusal("show the task")),
        (_, Some("Completed")) if body["TaskStatus"] != "Critical" => {
            Ok(TaskState::Done(Finished { note: last.unwrap_or_default() }))
        }
        (_, Some(state @ ("Completed" | "Exception" | "Killed" | "Cancelled" | "Interrupted"))) => {
            Ok(TaskState::Failed(last.unwrap_or_else(|| format!("the BMC says {state}"))))
        }
        (_, Some(_)) | (StatusCode::ACCEPTED, None) => Ok(TaskState::Running(last.or(percent).unwrap_or_default())),
        (_, None) => Ok(TaskState::Done(Finished::default())),
    }
}

fn invalid(arg: &str, reason: &str) -> DriverError {
    DriverError::settings(arg, reason)
}

fn bios_settings(args: &Args) -> Result<BTreeMap<String, String>, DriverError> {
    let wrong = || invalid("settings", "must be a list of {\"name\": ..., \"value\": ...}");
    let list = args.get("settings").and_then(Value::as_array).filter(|list| !list.is_empty()).ok_or_else(wrong)?;
    let one = |entry: &Value| {
        let value = match &entry["value"] {
            Value::String(text) => Some(text.clone()),
            Value::Bool(_) | Value::Number(_) => Some(entry["value"].to_string()),
            Value::Null | Value::Array(_) | Value::Object(_) => None,
        };
        Some((text(&entry["name"])?, value?))
    };
    list.iter().map(|entry| one(entry).ok_or_else(wrong)).collect()
}

fn delete_existing(args: &Args) -> Result<bool, DriverError> {
    match args.get("delete_existing") {
        None => Ok(true),
        Some(Value::Bool(delete)) => Ok(*delete),
        Some(_) => Err(invalid("delete_existing", "must be true or false")),
    }
}

fn logical_disks(args: &Args) -> Result<Vec<NewVolume>, DriverError> {
    let wrong = |reason: &str| invalid("raid_config", reason);
    let list =
        args.get("raid_config").and_then(|config| config["logical_disks"].as_array()).filter(|list| !list.is_empty());
    let list = list.ok_or_else(|| wrong("must hold a list logical_disks"))?;
    let one = |(n, disk): (usize, &Value)| {
        let members: Vec<String> = disk["physical_disks"].as_array().into_iter().flatten().filter_map(text).collect();
        if members.is_empty() {
            return Err(wrong("each logical disk must name its physical_disks; they are not chosen by hints"));
        }
        let size_gib = match &disk["size_gb"] {
            Value::String(word) if word == "MAX" => None,
            size => Some(size.as_u64().ok_or_else(|| wrong("size_gb must be a number or \"MAX\""))?),
        };
        Ok(NewVolume {
            controller: text(&disk["controller"]),
            name: text(&disk["volume_name"]).unwrap_or_else(|| format!("volume-{n}")),
            level: text(&disk["raid_level"]).ok_or_else(|| wrong("raid_level is missing"))?,
            size_gib,
            members,
        })
    };
    list.iter().enumerate().map(one).collect()
}

fn firmware_image(args: &Args) -> Result<String, DriverError> {
    let wrong = |reason: &str| invalid("settings", reason);
    let Some([one]) = args.get("settings").and_then(Value::as_array).map(Vec::as_slice) else {
        return Err(wrong("must be a list of one {\"component\": ..., \"url\": ...}; update one component per step"));
    };
    let url =
        text(&one["url"]).and_then(|url| Url::parse(&url).ok()).ok_or_else(|| wrong("url is missing or is none"))?;
    if !matches!(url.scheme(), "http" | "https") || !url.username().is_empty() || url.password().is_some() {
        return Err(wrong("url must begin with http:// or https:// and hold no user name or password"));
    }
    Ok(url.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(name: &str, value: Value) -> Args {
        Args::from([(name.to_owned(), value)])
    }

    #[test]
    fn arguments_that_make_no_sense_are_refused_by_name() {
        let disk = |disk: Value| args("raid_config", json!({ "logical_disks": [disk] }));
        for (result, name) in [
            (bios_settings(&args("settings", json!([]))).map(drop), "settings"),
            (bios_settings(&args("settings", json!([{ "name": "a" }]))).map(drop), "settings"),
            (delete_existing(&args("delete_existing", json!("yes"))).map(drop), "delete_existing"),
            (logical_disks(&disk(json!({ "raid_level": "1", "size_gb": "MAX" }))).map(drop), "raid_config"),
            (logical_disks(&disk(json!({ "raid_level": "1", "physical_disks": ["a"] }))).map(drop), "raid_config"),
            (firmware_image(&args("settings", json!([{ "url": "ftp://x/y" }]))).map(drop), "settings"),
            (firmware_image(&args("settings", json!([{ "url": "http://u:p@x/y" }]))).map(drop), "settings"),
            (firmware_image(&args("settings", json!([{}, {}]))).map(drop), "settings"),
        ] {
            assert!(matches!(&result, Err(DriverError::Settings { field, .. }) if field == name), "{result:?}");
        }
    }

    #[test]
    fn logical_disks_are_read() {
        let disk =
            json!({ "raid_level": "1+0", "size_gb": "MAX", "physical_disks": ["a", "b"], "volume_name": "root" });
        let found = logical_disks(&args("raid_config", json!({ "logical_disks": [disk] }))).unwrap();
        assert_eq!(found[0].level, "1+0");
        assert_eq!((found[0].size_gib, found[0].members.len()), (None, 2));
    }

    #[test]
    fn values_of_settings_may_be_of_any_simple_kind() {
        let list = json!([{ "name": "a", "value": 3 }, { "name": "b", "value": true }, { "name": "c", "value": "x" }]);
        let found = bios_settings(&args("settings", list)).unwrap();
        assert_eq!(found.values().map(String::as_str).collect::<Vec<_>>(), ["3", "true", "x"]);
    }
}
