//! Which machines are being asked something: each at most once at a time. A controller that hangs would otherwise collect one
//! question after the other, until none is left for those that answer.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use sabakan_domain::words::Serial;

/// Machines that are being asked.
#[derive(Debug, Clone, Default)]
pub(super) struct InFlight(Arc<Mutex<HashSet<Serial>>>);

/// One question. Dropping it is the end of it, however it ended.
#[derive(Debug)]
pub(super) struct Question {
    among: InFlight,
    name: Serial,
}

impl InFlight {
    /// Begins a question; `None`: the machine is being asked already.
    pub(super) fn begin(&self, name: &Serial) -> Option<Question> {
        let new = self.names().insert(name.clone());
        new.then(|| Question { among: self.clone(), name: name.clone() })
    }

    fn names(&self) -> MutexGuard<'_, HashSet<Serial>> {
        // Nobody panics with this lock in hand, and a set of names cannot be half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Question {
    fn drop(&mut self) {
        self.among.names().remove(&self.name);
    }
}
