//! Whether something that failed is tried again. A further try is something that begins: before it everything is asked that is asked before
//! a step, and the store last, so that nobody who was told that repair is off, or an entry gone, sees a command begin after that.

use std::{net::Ipv4Addr, time::Duration};

use sabakan_domain::repair::{
    entry::Entry,
    hands_off::HandsOff,
    procedure::{HealthCheck, NothingLeft, Operation},
    reboot::{RebootEntry, RebootStatus},
};
use sabakan_store::{
    repo::{
        leaders::Lead,
        repairs::{self, Bar, Switch, Under},
    },
    view::Snapshot,
};

use super::{
    Repairs, TASK,
    work::{LastTry, NotAgain, Outcome},
};
use crate::{ServiceError, error_chain, limits};

impl Repairs {
    /// Why a step is not tried again; `None`: it is.
    pub(super) async fn not_again(
        &self,
        lead: &Lead,
        entry: &Entry,
        operation: &Operation,
        last: &LastTry,
    ) -> Option<NotAgain> {
        let look = || async {
            if let Some(why) = self.why_not(&*self.on.view.read().await?, entry, operation) {
                return Ok(Some(why));
            }
            if let HealthCheck::Command(command) = &operation.health_check {
                let address = [entry.address.to_string()];
                let answer = self.check(command, &address, operation.health_check_timeout).await;
                if matches!(answer, Outcome::Checked(true, _)) {
                    return Ok(Some(NotAgain::Well));
                }
            }
            let on = &self.on;
            let under = Under { lead: Some(lead), switch: Some(Switch::Queue) };
            let found = repairs::find_under(&*on.store, &on.keys, under, entry.index).await?;
            let is_same = |found: &Entry| !found.deleted && !found.is_finished() && found.step == entry.step;
            Ok(not_begun(found, is_same).or_else(|| last.why()))
        };
        until_known(look).await
    }

    /// The same of the command of a reboot.
    pub(super) async fn no_reboot_again(&self, lead: &Lead, entry: &RebootEntry, last: &LastTry) -> Option<NotAgain> {
        let look = || async {
            let on = &self.on;
            if let Some(hands_off) = self.who_has(&*on.view.read().await?, entry.node) {
                return Ok(Some(NotAgain::Barred(hands_off.to_string())));
            }
            let under = Under { lead: Some(lead), switch: Some(Switch::Reboots) };
            let found = repairs::find_reboot_under(&*on.store, &on.keys, under, entry.index).await?;
            let is_same = |found: &RebootEntry| found.status == RebootStatus::Rebooting;
            Ok(not_begun(found, is_same).or_else(|| last.why()))
        };
        until_known(look).await
    }

    /// What the registry says against another try. Nothing is known here about machines of another one; what that says is heard in the
    /// next cycle.
    fn why_not(&self, snapshot: &Snapshot, entry: &Entry, operation: &Operation) -> Option<NotAgain> {
        if self.options.registry.is_some() {
            return None;
        }
        let machine = match &entry.serial {
            Some(serial) => snapshot.find_machine(serial.as_str()),
            None => snapshot.find_by_address(entry.address),
        };
        let is_there = machine.is_some_and(|machine| machine.ipv4().any(|address| address == entry.address));
        if entry.serial.is_some() && !is_there {
            // Whoever has the address now is somebody else. The entry ends because of it.
            return Some(NotAgain::Gone);
        }
        if let Some(hands_off) = self.who_has(snapshot, entry.address) {
            return Some(NotAgain::Barred(hands_off.to_string()));
        }
        match operation.nothing_left(machine.map(|machine| machine.status.state))? {
            NothingLeft::Well => Some(NotAgain::Well),
            NothingLeft::Leaving(state) => Some(NotAgain::Barred(format!("the machine is {state}"))),
        }
    }

    /// Who keeps automation off the machine with an address.
    fn who_has(&self, snapshot: &Snapshot, address: Ipv4Addr) -> Option<HandsOff> {
        let machine = snapshot.find_by_address(address).filter(|_| self.options.registry.is_none())?;
        HandsOff::of(&*snapshot.find_node(machine.serial.as_str())?)
    }
}

/// The pause before another try. Something that fails at once must not be begun as often as a processor can.
pub(super) fn pause(interval: Duration, is_over: bool) -> Duration {
    if is_over { interval } else { interval.max(limits::TRIES_PAUSE_MIN) }
}

/// What the store says against another try.
fn not_begun<T>(found: Result<T, Bar>, is_same: impl Fn(&T) -> bool) -> Option<NotAgain> {
    match found {
        Ok(entry) => (!is_same(&entry)).then_some(NotAgain::Gone),
        Err(Bar::Switch) => Some(NotAgain::Barred("the queue was disabled".to_owned())),
        Err(Bar::Lead | Bar::Gone) => Some(NotAgain::Gone),
    }
}

/// Asks until there is an answer: nothing begins before, and whoever asks is stopped when the lead is lost.
async fn until_known<F>(look: impl Fn() -> F) -> Option<NotAgain>
where
    F: Future<Output = Result<Option<NotAgain>, ServiceError>>,
{
    loop {
        match look().await {
            Ok(answer) => return answer,
            Err(error) => {
                let error = error_chain(&error);
                tracing::warn!(task = TASK, error, "whether something is tried again is not known, asking again");
                tokio::time::sleep(limits::REPAIR_RETRY).await;
            }
        }
    }
}
