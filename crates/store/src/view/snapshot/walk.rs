//! Going over every machine, for whoever counts or exports them all: in the order they lie in memory, and from any place on, so that a
//! walk can be interrupted while what it found is sent.

use std::sync::Arc;

use sabakan_domain::machine::Machine;

use super::Snapshot;

impl Snapshot {
    /// Machines from a place on, each with its place; the next walk goes on behind the last. Starts at 0, in no useful order.
    pub fn walk(&self, from: usize) -> impl Iterator<Item = (usize, &Arc<Machine>)> {
        self.table.walk(from)
    }
}
