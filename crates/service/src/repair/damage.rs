//! Stored records that cannot be read. While there is one nothing is begun: it may be the repair of any machine. Whoever asks is told which
//! it is and what to do about it; entries of the queues can be discarded.

use sabakan_domain::audit::Actor;
use sabakan_store::{
    StoreError,
    repo::repairs::unreadable::{Queue, discard},
};

use super::Repairs;
use crate::ServiceError;

impl Repairs {
    /// Why nothing can be read, with what a person can do if a record is damaged.
    pub(super) fn unread(&self, error: StoreError) -> ServiceError {
        let StoreError::Corrupt { place, .. } = &error else { return error.into() };
        let way_out = match Queue::locate(&self.on.keys, place) {
            Some((Queue::Repairs, index)) => format!("`sabactl repair-queue delete {index}` discards it"),
            Some((Queue::Reboots, index)) => format!("`sabactl reboot-queue cancel {index}` discards it"),
            None => "see \"A record or the file is damaged\" in docs/operations/recovery.md".to_owned(),
        };
        let text = format!(
            "the stored record {place} cannot be read, and nothing is repaired or rebooted as long as it is there; {way_out}"
        );
        ServiceError::Damaged { text, source: error }
    }

    /// Discards an entry that somebody wants gone, if `done` came to nothing because it cannot be read.
    pub(super) async fn or_discard(
        &self,
        done: Result<(), ServiceError>,
        actor: &Actor,
        queue: Queue,
        index: u64,
    ) -> Result<(), ServiceError> {
        let Err(ServiceError::Internal(StoreError::Corrupt { .. })) = done else { return done };
        let on = &self.on;
        discard(&*on.store, &on.keys, &on.by(actor), queue, index).await?;
        tracing::warn!(?queue, index, user = actor.name, "an entry that could not be read was discarded");
        Ok(())
    }
}
