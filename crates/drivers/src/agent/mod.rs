//! The agent of the service whose API we speak, on a machine that booted its ramdisk: commands over HTTP, answers polled.
//!
//! It is told where it may be reached by its own heartbeat; `domain::provision::agent` says which addresses are believed. It is given
//! the node it works on, without credentials. Not here: fetching its logs, setting a password for rescue.

mod http;
mod limits;
mod steps;

use sabakan_domain::provision::{
    agent::{COMMANDS, Offer, OfferedStep},
    node::Object,
    steps::{Args, Flow, Interface},
};
use serde_json::{Map, Value, json};

use self::http::{CommandAnswer, Http, shortened};
pub use self::{
    http::check_certificate,
    limits::Pace,
    steps::{WITH_IMAGE, WITHOUT_IMAGE},
};
use crate::{BmcFuture, DriverError, Finished, Ramdisk, Secret, StepStart, TaskState};

/// Where an agent is and how to speak to it.
#[derive(Debug, Clone)]
pub struct AgentAddress {
    /// Scheme, address and port.
    pub url: String,
    /// What both prove themselves with.
    pub token: Secret,
    /// The certificate it shows; `None`: one that the system trusts.
    pub verify_ca: Option<String>,
}

/// What an agent is wanted for.
#[derive(Debug, Clone)]
pub struct Errand {
    /// The kind of work its steps belong to.
    pub flow: Flow,
    /// The node, as agents know nodes. Holds no credential.
    pub node: Value,
    /// Its ports.
    pub ports: Value,
    /// Versions of what runs its steps, as it told them.
    pub managers: Object,
}

/// One agent.
pub struct Agent {
    http: Http,
    errand: Errand,
}

impl Agent {
    /// Speaks to an agent. Contacts nobody yet.
    pub fn new(address: AgentAddress, errand: Errand, pace: Pace) -> Result<Agent, DriverError> {
        let AgentAddress { url, token, verify_ca } = address;
        Ok(Agent { http: Http::new(&url, token, verify_ca.as_deref(), pace)?, errand })
    }

    /// The word for a flow in names of commands.
    fn flow(&self) -> &'static str {
        match self.errand.flow {
            Flow::Clean => "clean",
            Flow::Deploy => "deploy",
            Flow::Service => "service",
        }
    }

    async fn offer(&self) -> Result<Offer, DriverError> {
        let (flow, what) = (self.flow(), "tell its steps");
        let params = json!({ "node": self.errand.node, "ports": self.errand.ports });
        let name = format!("{flow}.get_{flow}_steps");
        let answer = match self.http.command(what, &name, params, true).await? {
            CommandAnswer::Taken(answer) => answer,
            CommandAnswer::Busy(reason) => return Err(DriverError::Failed { what: what.to_owned(), reason }),
        };
        match state_of(&answer) {
            TaskState::Done(_) => read_offer(&answer["command_result"], flow)
                .map_err(|reason| DriverError::Protocol { what: what.to_owned(), reason }),
            TaskState::Running(_) => Err(DriverError::Failed { what: what.to_owned(), reason: "no end".to_owned() }),
            TaskState::Failed(reason) => Err(DriverError::Failed { what: what.to_owned(), reason }),
        }
    }

    async fn begin(&self, step: &str, args: &Args, again: bool) -> Result<StepStart, DriverError> {
        let what = format!("start {step}");
        let (name, params) = self.command_for(step, args)?;
        let answer = self.http.command(&what, &name, params, false).await;
        // An answer that was lost says nothing about the command: it may run.
        let unsure = matches!(answer, Err(DriverError::Unreachable(_)));
        let busy = matches!(answer, Ok(CommandAnswer::Busy(_)));
        if (busy && again) || unsure {
            // Agents run one command at a time, and nobody else gives them any: one of this name that runs is the one that was given.
            let last = self.last(step).await;
            if let Ok(Some(command)) = last
                && matches!(state_of(&command), TaskState::Running(_))
            {
                return Ok(taken(&command, step));
            }
        }
        Ok(match answer? {
            CommandAnswer::Taken(command) => taken(&command, step),
            CommandAnswer::Busy(reason) => StepStart::Busy(reason),
        })
    }

    /// The command that runs a step.
    fn command_for(&self, step: &str, args: &Args) -> Result<(String, Value), DriverError> {
        let Errand { node, ports, managers, .. } = &self.errand;
        if step == COMMANDS[0] {
            let image = image_info(node).map_err(|reason| DriverError::settings("instance_info", reason))?;
            let drive = &node["instance_info"]["configdrive"];
            return Ok(("standby.prepare_image".to_owned(), json!({ "image_info": image, "configdrive": drive })));
        }
        if step == COMMANDS[1] {
            let mode = node["boot_mode"].as_str().unwrap_or("uefi");
            let params = json!({
                "root_uuid": null,
                "efi_system_part_uuid": null,
                "prep_boot_part_uuid": null,
                "target_boot_mode": mode,
            });
            return Ok(("image.install_bootloader".to_owned(), params));
        }
        let (interface, name) = step.split_once('.').unwrap_or(("deploy", step));
        let flow = self.flow();
        let mut described = Map::from_iter([
            ("interface".to_owned(), json!(interface)),
            ("step".to_owned(), json!(name)),
            ("requires_ramdisk".to_owned(), json!(true)),
        ]);
        if !args.is_empty() {
            described.insert("args".to_owned(), json!(args));
        }
        let mut params = Map::from_iter([
            ("step".to_owned(), Value::Object(described)),
            ("node".to_owned(), node.clone()),
            ("ports".to_owned(), ports.clone()),
        ]);
        params.insert(format!("{flow}_version"), json!(managers));
        Ok((format!("{flow}.execute_{flow}_step"), Value::Object(params)))
    }

    /// Everything the agent was given since it started, oldest first.
    async fn commands(&self) -> Result<Vec<Value>, DriverError> {
        match self.http.commands().await?["commands"].take() {
            Value::Array(commands) => Ok(commands),
            _ => {
                let (what, reason) = ("its commands".to_owned(), "there is no list".to_owned());
                Err(DriverError::Protocol { what, reason })
            }
        }
    }

    /// The last command that may be the one that runs a step. Agents do not say which step a command runs before it has succeeded.
    async fn last(&self, step: &str) -> Result<Option<Value>, DriverError> {
        let name = self.command_name(step);
        let commands = self.commands().await?;
        let fits = |command: &&Value| {
            let told = command["command_name"].as_str().and_then(|name| name.rsplit('.').next());
            told == Some(name.as_str()) && step_named(command).is_none_or(|named| named == step)
        };
        Ok(commands.iter().rev().find(fits).cloned())
    }

    /// How the command goes that was given for a step.
    async fn look(&self, step: &str, command: Option<&str>) -> Result<Option<TaskState>, DriverError> {
        let known = match command {
            Some(id) => self.http.command_named(id).await?,
            None => None,
        };
        let known = match known {
            Some(known) => Some(known),
            None => self.last(step).await?,
        };
        Ok(known.map(|command| judged(&command, step)))
    }

    /// The command an agent runs now.
    async fn busy_with(&self) -> Result<Option<String>, DriverError> {
        let commands = self.commands().await?;
        let running = commands.iter().find(|command| matches!(state_of(command), TaskState::Running(_)));
        Ok(running.map(|command| shortened(command["command_name"].as_str().unwrap_or("a command"))))
    }

    /// What agents call the command that runs a step, without its first part, which they leave out.
    fn command_name(&self, step: &str) -> String {
        match step {
            _ if step == COMMANDS[0] => "prepare_image".to_owned(),
            _ if step == COMMANDS[1] => "install_bootloader".to_owned(),
            _ => format!("execute_{}_step", self.flow()),
        }
    }

    async fn write_out(&self) -> Result<(), DriverError> {
        self.http.command("write everything to its disks", "standby.sync", json!({}), true).await.map(drop)
    }
}

impl Ramdisk for Agent {
    fn start(&self, step: &str, args: &Args, again: bool) -> BmcFuture<'_, StepStart> {
        let (step, args) = (step.to_owned(), args.clone());
        Box::pin(async move { self.begin(&step, &args, again).await })
    }

    fn status(&self, step: &str, command: Option<&str>) -> BmcFuture<'_, Option<TaskState>> {
        let (step, command) = (step.to_owned(), command.map(str::to_owned));
        Box::pin(async move { self.look(&step, command.as_deref()).await })
    }

    fn running(&self) -> BmcFuture<'_, Option<String>> {
        Box::pin(self.busy_with())
    }

    fn offer(&self) -> BmcFuture<'_, Option<Offer>> {
        Box::pin(async { Agent::offer(self).await.map(Some) })
    }

    fn sync(&self) -> BmcFuture<'_, ()> {
        Box::pin(self.write_out())
    }
}

/// A command that was given for a step.
fn taken(command: &Value, step: &str) -> StepStart {
    // A name that is no name is as good as none: the list of commands has it.
    let id = command["id"].as_str().filter(|id| !id.is_empty() && id.len() <= limits::COMMAND_ID_BYTES_MAX);
    StepStart::Taken { command: id.map(str::to_owned), state: judged(command, step) }
}

/// The step a command ran; `None`: it does not say. Agents say it in the result, when it succeeded.
fn step_named(command: &Value) -> Option<String> {
    let result = &command["command_result"];
    let step = ["clean_step", "deploy_step", "service_step"].iter().map(|member| &result[*member]);
    let step = step.into_iter().find(|step| step.is_object())?;
    Some(format!("{}.{}", step["interface"].as_str()?, step["step"].as_str()?))
}

/// How the command for a step goes. One that names another step at its end proves nothing about this one.
fn judged(command: &Value, step: &str) -> TaskState {
    match (state_of(command), step_named(command)) {
        (TaskState::Done(_), Some(named)) if named != step => {
            TaskState::Failed(format!("the ramdisk reports the end of {} instead", shortened(&named)))
        }
        (state, _) => state,
    }
}

/// How a command goes.
fn state_of(command: &Value) -> TaskState {
    match command["command_status"].as_str() {
        Some("SUCCEEDED") => TaskState::Done(Finished::default()),
        Some("RUNNING") => TaskState::Running(String::new()),
        Some("CLEAN_VERSION_MISMATCH" | "VERSION_MISMATCH") => TaskState::Failed(
            "what runs the steps in the ramdisk is another version than when the work began; begin it again".to_owned(),
        ),
        status => TaskState::Failed(complaint(&command["command_error"]).unwrap_or_else(|| {
            format!("the ramdisk says {:?}", shortened(status.unwrap_or("nothing about how it went")))
        })),
    }
}

/// What an agent says went wrong.
fn complaint(error: &Value) -> Option<String> {
    let members = ["details", "message", "faultstring"];
    let text = error.as_str().or_else(|| members.iter().find_map(|member| error[*member].as_str()));
    text.map(shortened).filter(|text| !text.is_empty())
}

/// Reads what an agent offers. A step of an interface nobody knows is left out: nothing can ask for it.
fn read_offer(result: &Value, flow: &str) -> Result<Offer, String> {
    let managers = result[format!("{flow}_steps")].as_object().ok_or_else(|| format!("there are no {flow}_steps"))?;
    let mut steps = Vec::new();
    for step in managers.values().filter_map(Value::as_array).flatten() {
        let interface = step["interface"].as_str().unwrap_or("deploy").parse::<Interface>();
        let (Ok(interface), Some(name)) = (interface, step["step"].as_str()) else { continue };
        let priority = step["priority"].as_u64().and_then(|priority| u32::try_from(priority).ok()).unwrap_or(0);
        let abortable = step["abortable"].as_bool().unwrap_or(false);
        steps.push(OfferedStep { interface, name: shortened(name), priority, abortable });
    }
    if steps.len() > limits::STEPS_MAX {
        return Err(format!("there are more than {} steps", limits::STEPS_MAX));
    }
    // They are kept with the node and said back: texts and nothing else, or a ramdisk could make a record nobody can read.
    let versions = result["hardware_manager_version"].as_object().into_iter().flatten();
    let versions = versions.filter_map(|(name, version)| Some((shortened(name), json!(shortened(version.as_str()?)))));
    let managers: Object = versions.take(limits::MANAGERS_MAX + 1).collect();
    if managers.len() > limits::MANAGERS_MAX {
        return Err(format!("there are more than {} hardware managers", limits::MANAGERS_MAX));
    }
    Ok(Offer { steps, managers })
}

/// What an agent has to know to write an image.
fn image_info(node: &Value) -> Result<Value, String> {
    let info = &node["instance_info"];
    let text = |key: &str| info[key].as_str();
    let source = text("image_source").or(text("image_url")).ok_or("image_source is missing: what shall be written?")?;
    let url = source.strip_prefix("file://").is_none().then_some(source).filter(|url| url.starts_with("http"));
    let url = url.ok_or("image_source must begin with http:// or https://; no other place is known here")?;
    let mut image = json!({
        "id": url.rsplit('/').next().unwrap_or(url),
        "urls": [url],
        "disk_format": text("image_disk_format").unwrap_or("raw"),
        "container_format": "bare",
        "stream_raw_images": true,
        "image_type": "whole-disk-image",
        "node_uuid": node["uuid"],
    });
    match (text("image_checksum"), text("image_os_hash_algo"), text("image_os_hash_value")) {
        (_, Some(algorithm), Some(value)) => {
            image["os_hash_algo"] = json!(algorithm);
            image["os_hash_value"] = json!(value);
        }
        (Some(checksum), ..) => image["checksum"] = json!(checksum),
        (None, ..) => {
            return Err("image_checksum, or image_os_hash_algo with image_os_hash_value, is missing".to_owned());
        }
    }
    Ok(image)
}

#[cfg(test)]
mod tests;
