//! What a step does: its command, or what this program does by itself through provisioning.

use std::time::Duration;

use jiff::SignedDuration;
use sabakan_domain::{
    lifecycle::{Force, HealthState},
    provision::{node::Severity, power::PowerTarget, verbs::Verb},
    repair::{
        entry::Entry,
        procedure::{Act, Action, Step},
    },
    words::Serial,
};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Repairs;
use crate::{Asked, error_chain, limits};

impl Repairs {
    /// Carries a step out, as often as it may be tried and nobody says that it was the `last` time. Says what it came to, for people.
    pub(super) async fn execute(&self, entry: &Entry, step: &Step, last: &CancellationToken) -> Result<String, String> {
        let mut tries = 0;
        loop {
            tries += 1;
            let done = match &step.act {
                Act::Command(command) => self.command(command, &[entry.address.to_string()], step.timeout).await,
                Act::Builtin(action) => self.act(*action, entry, step.timeout).await,
            };
            match done {
                Ok(text) => return Ok(text),
                Err(reason) => {
                    // What a command printed is kept with the entry alone: it may be more than everybody shall read.
                    tracing::warn!(index = entry.index, step = entry.step, tries, "a step of a repair failed");
                    // The pause follows the last try too: whatever comes next finds the machine at rest.
                    tokio::time::sleep(step.interval).await;
                    if tries > step.retries {
                        return Err(format!("step {} failed {tries} times, at last: {reason}", entry.step));
                    }
                    if last.is_cancelled() {
                        let held = "it is not tried again, because the queue was disabled or the machine is held";
                        return Err(format!("step {} failed {tries} times; {held}: {reason}", entry.step));
                    }
                }
            }
        }
    }

    /// Runs a command. What it printed last is part of what people are told.
    pub(super) async fn command(
        &self,
        command: &[String],
        added: &[String],
        limit: Option<Duration>,
    ) -> Result<String, String> {
        let program = command.first().map(String::as_str).unwrap_or_default();
        let limit = limit.unwrap_or(limits::COMMAND_TIME_MAX);
        match self.options.runner.run(command, added, Some(limit)).await {
            Ok(finished) if finished.is_success() => Ok(format!("{program}: {}", finished.summary())),
            Ok(finished) => Err(format!("{program}: {}", finished.summary())),
            Err(error) => Err(error_chain(&error)),
        }
    }

    /// Does something by itself.
    async fn act(&self, action: Action, entry: &Entry, limit: Option<Duration>) -> Result<String, String> {
        let serial = self.serial_of(entry).await?;
        let actor = self.actor();
        let limit = limit.unwrap_or(limits::ACTION_TIME_MAX);
        let failed = |error| format!("{}: {}", action.as_str(), error_chain(&error));
        match action {
            Action::PowerCycle => self.power(&serial, PowerTarget::Reboot, limit).await,
            Action::PowerOn => self.power(&serial, PowerTarget::On, limit).await,
            Action::BmcReset => self.nodes.reset_bmc(&actor, &serial).await.map_err(failed),
            Action::Rebuild => {
                let asked = Asked { verb: Verb::Rebuild, steps: Vec::new(), disable_ramdisk: false };
                self.nodes.ask(&actor, &serial, &asked).await.map(drop).map_err(failed)
            }
            Action::Retire => {
                let retiring = HealthState::Retiring;
                self.machines.set_state(&actor, &serial, retiring, Force::No).await.map(drop).map_err(failed)
            }
        }
        .map(|()| action.as_str().to_owned())
    }

    /// The machine of an entry. One made by hand may name an address alone.
    async fn serial_of(&self, entry: &Entry) -> Result<Serial, String> {
        if let Some(serial) = &entry.serial {
            return Ok(serial.clone());
        }
        let snapshot = self.on.view.read().await.map_err(|error| error_chain(&error))?;
        let machine = snapshot.find_by_address(entry.address).map(|machine| machine.serial.clone());
        machine.ok_or_else(|| format!("no machine of the registry has the address {}", entry.address))
    }

    /// Has the power changed by whoever works on nodes, and waits for it.
    async fn power(&self, serial: &Serial, target: PowerTarget, limit: Duration) -> Result<(), String> {
        let text = |error| error_chain(&error);
        let time = SignedDuration::try_from(limit).unwrap_or(SignedDuration::MAX);
        let asked = self.nodes.set_power(&self.actor(), serial, target, Some(time)).await.map_err(text)?;
        let asked_at = asked.power.action.map(|action| action.asked_at);
        let deadline = Instant::now() + limit + limits::POWER_ANSWER_MAX;
        let mut moved = self.on.view.moved();
        loop {
            moved.mark_unchanged();
            let node = self.nodes.glance(serial.as_str()).await.map_err(text)?.node;
            if node.power.action.is_none() {
                // The error at the node may be an older one, even in the same words; its history tells them apart.
                let rows = self.nodes.history(serial).await.map_err(text)?;
                let last = rows.into_iter().map(|(_, row)| row).rfind(|row| Some(row.at) >= asked_at);
                return match last.filter(|row| row.severity == Severity::Error) {
                    Some(row) => Err(row.text),
                    None => Ok(()),
                };
            }
            if tokio::time::timeout_at(deadline, moved.changed()).await.is_err() {
                return Err(format!(
                    "{target}: nobody did it within {} s; does a server work on nodes?",
                    limit.as_secs()
                ));
            }
        }
    }
}
