//! Whether changes can be made durable: what the last attempt told, how old that is, and whether the file was found damaged. The
//! writer reports every attempt; whoever asks gets an answer without touching the disk unless the last one is too old.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use crate::{StoreError, limits};

/// What is known about writing to the file.
#[derive(Debug, Default)]
pub(super) struct Writable {
    state: Mutex<WriteState>,
    /// Held while the file is changed, and by whoever needs that it is not.
    turn: Mutex<()>,
}

#[derive(Debug, Default)]
struct WriteState {
    /// When a change was last made durable.
    proved: Option<Instant>,
    /// Why the last attempt failed; gone when one succeeds.
    trouble: Option<String>,
    /// What is wrong with the file. Stays until the file is opened anew: no write proves that the rest is sound.
    damage: Option<String>,
}

/// What can be said without trying.
#[derive(Debug)]
pub(super) enum WriteVerdict {
    /// A change was made durable a moment ago.
    Proved,
    /// Nobody has tried for a while.
    Stale,
    /// The last attempt failed, or the file is damaged.
    Refused(StoreError),
}

impl Writable {
    /// A change was made durable.
    pub fn prove(&self) {
        let mut state = self.lock();
        state.proved = Some(Instant::now());
        if state.trouble.take().is_some() {
            tracing::info!("the store writes again");
        }
    }

    /// A change could not be made durable.
    pub fn fail(&self, reason: String) {
        self.lock().trouble = Some(reason);
    }

    /// The file is damaged: nothing is written to it any more. The first finding is kept.
    pub fn condemn(&self, reason: &str) {
        let mut state = self.lock();
        if state.damage.is_none() {
            tracing::error!(
                reason,
                "the data file is damaged: nothing is written to it any more, reads go on; run `sabakan store check`"
            );
            state.damage = Some(reason.to_owned());
        }
    }

    /// Waits until nothing is written, and holds up what would be. The writer looks at `damage` after it has got its turn: whoever
    /// condemned the file before asking for one knows that nothing changes any more.
    pub fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is wrong with the file, if anything was found.
    pub fn damage(&self) -> Option<String> {
        self.lock().damage.clone()
    }

    /// Why nothing may be written to this file, if it is damaged.
    pub fn refusal(&self) -> Option<StoreError> {
        self.damage().map(|reason| StoreError::CannotWrite {
            reason: format!(
                "the data file is damaged ({reason}); save what is readable with `sabakan store export --salvage`, then \
                 import it or a backup into a new data directory"
            ),
        })
    }

    /// Whether the last attempt failed, so that the writer should try by itself.
    pub fn is_in_trouble(&self) -> bool {
        self.lock().trouble.is_some()
    }

    pub fn verdict(&self) -> WriteVerdict {
        if let Some(refusal) = self.refusal() {
            return WriteVerdict::Refused(refusal);
        }
        let state = self.lock();
        if let Some(reason) = &state.trouble {
            return WriteVerdict::Refused(StoreError::CannotWrite { reason: reason.clone() });
        }
        match state.proved {
            Some(at) if at.elapsed() < limits::WRITE_PROOF_AGE_MAX => WriteVerdict::Proved,
            _ => WriteVerdict::Stale,
        }
    }

    fn lock(&self) -> MutexGuard<'_, WriteState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(writable: &Writable) -> String {
        match writable.verdict() {
            WriteVerdict::Refused(error) => error.to_string(),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn trouble_ends_with_a_write_and_damage_does_not() {
        let writable = Writable::default();
        assert_eq!(refusal(&writable), "Stale");
        writable.prove();
        assert_eq!(refusal(&writable), "Proved");
        writable.fail("no space".to_owned());
        assert_eq!(refusal(&writable), "the store cannot write: no space; nothing was changed");
        assert!(writable.is_in_trouble());
        writable.prove();
        assert_eq!(refusal(&writable), "Proved");
        writable.condemn("page 7 is torn");
        writable.condemn("page 8 is torn");
        writable.prove();
        assert!(
            refusal(&writable).starts_with("the store cannot write: the data file is damaged (page 7 is torn); save")
        );
    }
}
