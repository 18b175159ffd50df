//! Registering, finding, changing and removing machines.

use std::{convert::Infallible, sync::Arc};

use jiff::Timestamp;
use sabakan_domain::{
    audit::Actor,
    lifecycle::{Force, HealthState},
    machine::{LabelsError, Machine, NewMachine},
    query::Query,
    time::Moment,
    words::{LabelName, LabelValue, Serial},
};
use sabakan_store::{
    StoreError,
    repo::{ChangeError, machines},
};
use tokio::sync::{Mutex, MutexGuard};

use crate::{FoundMachines, Foundation, ServiceError, limits, search::Searches};

/// Registers, finds, changes and removes machines.
pub struct Machines {
    on: Arc<Foundation>,
    /// Changes of index lists in this process queue here instead of racing: a burst of registrations into one rack would otherwise
    /// lose most of its work to conflicts. Between servers the transaction decides.
    index_changes: Mutex<()>,
    searches: Searches,
}

impl Machines {
    /// Works on a foundation.
    pub fn new(on: Arc<Foundation>) -> Machines {
        Machines { on, index_changes: Mutex::new(()), searches: Searches::new() }
    }

    /// Registers machines, all or none.
    pub async fn register(&self, actor: &Actor, new: &[NewMachine]) -> Result<Vec<Machine>, ServiceError> {
        let _turn = self.turn().await?;
        let on = &self.on;
        let known = on.view.read().await?;
        let holder = |address| known.find_by_address(address).map(|machine| machine.serial.clone());
        let done = machines::register(&*on.store, &on.keys, &on.by(actor), new, on.outside_pool, holder).await;
        let done = done.map_err(|error| refine_size(error, new.len()))?;
        tracing::info!(count = done.machines.len(), user = actor.name, "machines registered");
        for rack in done.outside_pool {
            tracing::warn!(%rack, "addresses of this rack are outside of their pool");
        }
        Ok(done.machines)
    }

    /// Every machine a search means, in byte order of serials, and the time to show them at.
    pub async fn search(&self, query: &Query) -> Result<(FoundMachines, Timestamp), ServiceError> {
        let snapshot = self.on.view.read().await?;
        let now = self.on.clock.now();
        Ok((self.searches.run(snapshot, query).await?, now))
    }

    /// The time, for conditions that count from now.
    pub fn now(&self) -> Timestamp {
        self.on.clock.now()
    }

    /// One machine.
    pub async fn get(&self, serial: &Serial) -> Result<Arc<Machine>, ServiceError> {
        let snapshot = self.on.view.read().await?;
        snapshot.find_machine(serial.as_str()).cloned().ok_or(ServiceError::NotFound)
    }

    /// Moves a machine along its lifecycle.
    pub async fn set_state(
        &self,
        actor: &Actor,
        serial: &Serial,
        state: HealthState,
        force: Force,
    ) -> Result<Machine, ServiceError> {
        let on = &self.on;
        let machine = machines::set_state(&*on.store, &on.keys, &on.by(actor), serial, state, force).await?;
        tracing::info!(%serial, to = %state, forced = force == Force::Yes, user = actor.name, "state set");
        Ok(machine)
    }

    /// Sets a label. Setting it to the value it has writes nothing.
    pub async fn put_label(
        &self,
        actor: &Actor,
        serial: &Serial,
        name: &LabelName,
        value: &LabelValue,
    ) -> Result<(), ServiceError> {
        let on = &self.on;
        let decide = |machine: Machine| -> Result<_, LabelsError> {
            if machine.labels.find(name.as_str()) == Some(value) {
                return Ok(None);
            }
            let labels = machine.labels.with(name.clone(), value.clone())?;
            Ok(Some((Machine { labels, ..machine }, "put-label", format!("{name}/{value}"))))
        };
        Ok(machines::update(&*on.store, &on.keys, &on.by(actor), serial, decide).await?)
    }

    /// Takes a label away.
    pub async fn remove_label(&self, actor: &Actor, serial: &Serial, name: &LabelName) -> Result<(), ServiceError> {
        let on = &self.on;
        let decide = |machine: Machine| {
            let labels = machine.labels.without(name).ok_or(NoSuchLabel)?;
            Ok(Some((Machine { labels, ..machine }, "delete-label", name.to_string())))
        };
        match machines::update(&*on.store, &on.keys, &on.by(actor), serial, decide).await {
            Err(ChangeError::Refused(NoSuchLabel)) => Err(ServiceError::NotFound),
            Err(ChangeError::NotFound) => Err(ServiceError::NotFound),
            Err(ChangeError::Store(error)) => Err(error.into()),
            Ok(()) => Ok(()),
        }
    }

    /// Says when a machine should go.
    pub async fn set_retire_date(&self, actor: &Actor, serial: &Serial, date: Moment) -> Result<(), ServiceError> {
        let on = &self.on;
        let decide = |machine: Machine| -> Result<_, Infallible> {
            let detail = date.to_string();
            Ok(Some((Machine { retire_date: date, ..machine }, "set-retire-date", detail)))
        };
        Ok(machines::update(&*on.store, &on.keys, &on.by(actor), serial, decide).await?)
    }

    /// Waits for the turn, not for long: who has not begun has certainly changed nothing, and can be told so. A store that does
    /// not answer is found before, so that those behind each other do not wait for it one after the other.
    async fn turn(&self) -> Result<MutexGuard<'_, ()>, ServiceError> {
        self.on.store.latest_commit().await?;
        let waited = tokio::time::timeout(limits::TURN_WAIT_MAX, self.index_changes.lock()).await;
        waited.map_err(|_| ServiceError::Busy)
    }

    /// Removes a machine; refused unless it is retired.
    pub async fn remove(&self, actor: &Actor, serial: &Serial) -> Result<(), ServiceError> {
        let _turn = self.turn().await?;
        let on = &self.on;
        machines::remove(&*on.store, &on.keys, &on.by(actor), serial).await?;
        tracing::info!(%serial, user = actor.name, "machine removed");
        Ok(())
    }
}

/// Says of a registration that is too large how many machines would fit.
fn refine_size<R>(error: ChangeError<R>, machines: usize) -> ServiceError
where
    R: std::error::Error + 'static,
    ServiceError: From<ChangeError<R>>,
{
    match error {
        ChangeError::Store(StoreError::TooLarge { what, size, limit, hint }) if machines > 1 => {
            let fits = registrations_that_fit(machines, size, limit);
            let text = format!(
                "{machines} machines at once need {size} {what} in one transaction, the store accepts {limit}: about {fits} \
                 fit into one request{hint}"
            );
            ServiceError::TooManyAtOnce { text, fits }
        }
        error => error.into(),
    }
}

/// Records differ in size, so a twentieth is left free.
fn registrations_that_fit(machines: usize, size: usize, limit: usize) -> u64 {
    let fits = (machines as u128 * limit as u128 * 19) / (size.max(1) as u128 * 20);
    u64::try_from(fits).unwrap_or(u64::MAX).clamp(1, machines.saturating_sub(1).max(1) as u64)
}

/// The machine is there, the label is not.
#[derive(Debug, thiserror::Error)]
#[error("no such label")]
struct NoSuchLabel;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_is_less_than_what_did_not() {
        let check = |machines, size, limit, expected| {
            assert_eq!(registrations_that_fit(machines, size, limit), expected, "{machines} {size} {limit}");
        };
        check(1_000, 3_000, 1_500, 475);
        check(2, 1_000_001, 1_000_000, 1);
        check(10, 1_000, 1, 1);
        check(100, 1_001, 1_000, 94);
    }
}
