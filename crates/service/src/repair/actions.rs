//! What a step does: its command, or what this program does by itself through provisioning.

use std::{sync::Arc, time::Duration};

use jiff::SignedDuration;
use sabakan_domain::{
    lifecycle::{Force, HealthState},
    provision::{node::Severity, power::PowerTarget, states::Kind, verbs::Verb},
    repair::{
        entry::Entry,
        procedure::{Act, Action, Operation},
    },
    words::Serial,
};
use sabakan_store::repo::{
    leaders::Lead,
    repairs::{Switch, Under},
};
use tokio::time::Instant;

use super::{
    Repairs, tries,
    work::{LastTry, NotAgain, Outcome},
};
use crate::{Asked, Machines, Nodes, error_chain, limits};

impl Repairs {
    /// Carries a step out, as often as it may be tried and nothing speaks against another try. Says what it came to, for people.
    pub(super) async fn execute(&self, lead: &Lead, entry: &Entry, operation: &Operation, last: &LastTry) -> Outcome {
        let (Some(step), mut tries) = (operation.steps.get(entry.step), 0) else { return Outcome::Broken };
        loop {
            tries += 1;
            let done = match &step.act {
                Act::Command(command) => self.command(command, &[entry.address.to_string()], step.timeout).await,
                Act::Builtin(action) => self.act(lead, *action, entry, step.timeout).await,
            };
            let reason = match done {
                Ok(text) => return Outcome::Executed(Ok(text)),
                Err(reason) => reason,
            };
            // What a command printed is kept with the entry alone: it may be more than everybody shall read.
            tracing::warn!(index = entry.index, step = entry.step, tries, "a step of a repair failed");
            let failed = format!("step {} failed {tries} times", entry.step);
            let is_over = tries > step.retries;
            // The pause follows the last try too: whatever comes next finds the machine at rest.
            tokio::time::sleep(tries::pause(step.interval, is_over)).await;
            if is_over {
                return Outcome::Executed(Err(format!("{failed}, at last: {reason}")));
            }
            match self.not_again(lead, entry, operation, last).await {
                None => {}
                Some(NotAgain::Gone) => return Outcome::Cancelled,
                // Whether it stays so is asked once more before the entry ends.
                Some(NotAgain::Well) => {
                    let why = "it is not tried again, because nothing is left to repair";
                    return Outcome::Executed(Ok(format!("{failed}; {why}: {reason}")));
                }
                Some(NotAgain::Barred(why)) => {
                    return Outcome::Executed(Err(format!("{failed}; it is not tried again, because {why}: {reason}")));
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

    /// Services that write only as long as `under` holds: a server that was suspended after a step was written down must not act when
    /// another one leads. A reset of a controller is not written anywhere and, as a command, may come that late.
    pub(super) fn services(&self, under: Under<'_>) -> (Nodes, Machines) {
        let on = Arc::new(self.on.under(under));
        (self.nodes.on(Arc::clone(&on)), Machines::new(on))
    }

    /// Does something by itself.
    async fn act(&self, lead: &Lead, action: Action, entry: &Entry, limit: Option<Duration>) -> Result<String, String> {
        let serial = self.serial_of(entry).await?;
        let actor = self.actor();
        let (nodes, machines) = self.services(Under { lead: Some(lead), switch: Some(Switch::Queue) });
        let limit = limit.unwrap_or(limits::ACTION_TIME_MAX);
        let failed = |error| format!("{}: {}", action.as_str(), error_chain(&error));
        match action {
            Action::PowerCycle => self.power(&nodes, &serial, PowerTarget::Reboot, limit).await,
            Action::PowerOn => self.power(&nodes, &serial, PowerTarget::On, limit).await,
            Action::BmcReset => nodes.reset_bmc(&actor, &serial).await.map_err(failed),
            Action::Rebuild => return self.rebuild(&nodes, &serial, limit).await,
            Action::Retire => {
                let retiring = HealthState::Retiring;
                machines.set_state(&actor, &serial, retiring, Force::No).await.map(drop).map_err(failed)
            }
        }
        .map(|()| action.as_str().to_owned())
    }

    /// The machine of an entry. One made by hand may name an address alone.
    pub(super) async fn serial_of(&self, entry: &Entry) -> Result<Serial, String> {
        if let Some(serial) = &entry.serial {
            return Ok(serial.clone());
        }
        let snapshot = self.on.view.read().await.map_err(|error| error_chain(&error))?;
        let machine = snapshot.find_by_address(entry.address).map(|machine| machine.serial.clone());
        machine.ok_or_else(|| format!("no machine of the registry has the address {}", entry.address))
    }

    /// Has the power changed by whoever works on nodes, and waits for it.
    async fn power(&self, nodes: &Nodes, serial: &Serial, target: PowerTarget, limit: Duration) -> Result<(), String> {
        let text = |error| error_chain(&error);
        let time = SignedDuration::try_from(limit).unwrap_or(SignedDuration::MAX);
        let asked = nodes.set_power(&self.actor(), serial, target, Some(time)).await.map_err(text)?;
        let asked_at = asked.power.action.map(|action| action.asked_at);
        let deadline = Instant::now() + limit + limits::POWER_ANSWER_MAX;
        let mut moved = self.on.view.moved();
        loop {
            moved.mark_unchanged();
            let node = nodes.glance(serial.as_str()).await.map_err(text)?.node;
            if node.power.action.is_none() {
                // The error at the node may be an older one, even in the same words; its history tells them apart.
                let rows = nodes.history(serial).await.map_err(text)?;
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

    /// Has the workload put on a machine anew, and waits for it. What takes longer is not broken off, and no failure: the next step waits
    /// until provisioning has left the machine.
    async fn rebuild(&self, nodes: &Nodes, serial: &Serial, limit: Duration) -> Result<String, String> {
        let text = |error| format!("rebuild: {}", error_chain(&error));
        let asked = Asked { verb: Verb::Rebuild, steps: Vec::new(), disable_ramdisk: false };
        let deadline = Instant::now() + limit;
        let mut moved = self.on.view.moved();
        nodes.ask(&self.actor(), serial, &asked).await.map_err(text)?;
        loop {
            moved.mark_unchanged();
            let node = nodes.glance(serial.as_str()).await.map_err(text)?.node;
            match node.state.kind() {
                Kind::Stable => return Ok("rebuild: done".to_owned()),
                Kind::Failed => {
                    let reason = node.last_error.as_deref().unwrap_or("no reason is known");
                    return Err(format!("rebuild: its node is in state {}: {reason}", node.state));
                }
                Kind::Busy | Kind::Waiting | Kind::Holding => {}
            }
            if tokio::time::timeout_at(deadline, moved.changed()).await.is_err() {
                let seconds = limit.as_secs();
                return Ok(format!("rebuild: not done after {seconds} s, its node is in state {}", node.state));
            }
        }
    }
}
