//! Power of the system, and the restart of the controller itself.

use reqwest::{Method, StatusCode};
use sabakan_domain::provision::power::{PowerState, PowerTarget};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{
    Controller,
    http::Answer,
    quirks::{is_busy, power_state, resets},
    resources::link_of,
};
use crate::DriverError;

/// The kind of reset that is none.
const NMI: &str = "Nmi";

impl Controller {
    pub(super) async fn read_power(&self) -> Result<Option<PowerState>, DriverError> {
        let system = self.system().await?.body;
        Ok(system["PowerState"].as_str().and_then(power_state))
    }

    pub(super) async fn reset_system(&self, target: PowerTarget) -> Result<(), DriverError> {
        let system = self.system().await?.body;
        let state = system["PowerState"].as_str().and_then(power_state);
        let action = &system["Actions"]["#ComputerSystem.Reset"];
        let offered = self.allowable(action, "ResetType").await;
        let is_usable = |reset: &&&str| {
            let is_offered = offered.as_ref().is_none_or(|offered| offered.iter().any(|word| word == **reset));
            // The button is a toggle: on a machine that runs it means off.
            is_offered && (**reset != "PushPowerButton" || state == Some(PowerState::Off))
        };
        let link = match action["target"].as_str() {
            Some(link) => link.to_owned(),
            None => format!("{}/Actions/ComputerSystem.Reset", self.system_link().await?.trim_end_matches('/')),
        };
        let mut refused: Option<Answer> = None;
        for reset in resets(target).iter().filter(is_usable) {
            match self.reset(&link, reset, target).await? {
                None => return Ok(()),
                Some(answer) => {
                    let is_unknown_word = answer.status == StatusCode::BAD_REQUEST && offered.is_none();
                    refused = Some(answer);
                    if !is_unknown_word {
                        break;
                    }
                }
            }
        }
        Err(match refused {
            Some(answer) => answer.refusal(&describe(target)),
            None => DriverError::Unsupported(format!("the power target {target}")),
        })
    }

    pub(super) async fn interrupt_system(&self) -> Result<(), DriverError> {
        let system = self.system().await?.body;
        let action = &system["Actions"]["#ComputerSystem.Reset"];
        let offered = self.allowable(action, "ResetType").await;
        let link = action["target"].as_str().filter(|_| offered.is_none_or(|offered| offered.iter().any(|w| w == NMI)));
        let link = link.ok_or_else(|| DriverError::Unsupported("inject_nmi".to_owned()))?;
        self.connection.post("interrupt the system", link, &json!({ "ResetType": NMI })).await?;
        Ok(())
    }

    /// Asks for one kind of reset; gives the answer if it is a refusal that stands.
    async fn reset(&self, link: &str, reset: &str, target: PowerTarget) -> Result<Option<Answer>, DriverError> {
        let body = json!({ "ResetType": reset });
        for attempt in 1.. {
            let answer = self.connection.request(&describe(target), Method::POST, link, None, Some(&body)).await?;
            if answer.is_success() {
                return Ok(None);
            }
            let may_be_there = matches!(answer.status, StatusCode::BAD_REQUEST | StatusCode::CONFLICT);
            // Many refuse to go where they are, and many refuse a second command soon after the first.
            if may_be_there && !target.restarts() && self.read_power().await? == Some(target.result()) {
                return Ok(None);
            }
            if attempt >= self.connection.pace.busy_attempts || !is_busy(&answer) {
                return Ok(Some(answer));
            }
            tracing::debug!(%target, status = %answer.status, "the BMC takes no power command now, trying again");
            sleep(self.connection.pace.busy_pause).await;
        }
        unreachable!("the last attempt returns")
    }

    pub(super) async fn reset_manager(&self) -> Result<(), DriverError> {
        let system = self.system().await?.body;
        let manager = self.manager(&system).await?;
        let action = &manager["Actions"]["#Manager.Reset"];
        let unsupported = || DriverError::Unsupported("a restart of the BMC".to_owned());
        let link = action["target"].as_str().ok_or_else(unsupported)?;
        let offered = self.allowable(action, "ResetType").await;
        let wanted = ["GracefulRestart", "ForceRestart"];
        let is_offered = |word: &&str| offered.as_ref().is_none_or(|offered| offered.iter().any(|o| o == word));
        let reset = wanted.into_iter().find(is_offered).ok_or_else(unsupported)?;
        self.connection.post("restart itself", link, &json!({ "ResetType": reset })).await?;
        self.connection.forget().await;
        Ok(())
    }

    /// Links of the chassis the system is in.
    pub(super) async fn chassis_links(&self, system: &Value) -> Result<Vec<String>, DriverError> {
        let links =
            system["Links"]["Chassis"].as_array().map(|links| links.iter().filter_map(link_of).collect::<Vec<_>>());
        if let Some(links) = links.filter(|links| !links.is_empty()) {
            return Ok(links);
        }
        let chassis = link_of(&self.root().await?["Chassis"]);
        let chassis = chassis.ok_or_else(|| DriverError::Unsupported("Chassis".to_owned()))?;
        self.connection.member_links("the list of chassis", &chassis).await
    }
}

fn describe(target: PowerTarget) -> String {
    match target {
        PowerTarget::On => "power on",
        PowerTarget::Off => "power off",
        PowerTarget::Reboot => "restart the machine",
        PowerTarget::SoftOff => "shut the machine down",
        PowerTarget::SoftReboot => "restart the machine softly",
    }
    .to_owned()
}
