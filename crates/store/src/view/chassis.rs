//! Chassis in the view, by UUID.

use std::sync::Arc;

use sabakan_domain::provision::{chassis::Chassis, ids::ChassisId};

use super::{Snapshot, index::Index, table::Table};

/// Chassis at one revision.
#[derive(Debug, Clone, Default)]
pub struct ChassisTable {
    table: Table<Chassis>,
    by_id: Index<ChassisId>,
}

impl ChassisTable {
    /// Every chassis, by UUID.
    pub fn list(&self) -> impl Iterator<Item = &Arc<Chassis>> {
        self.by_id.slots().filter_map(|slot| self.table.get(slot))
    }

    /// One of them.
    pub fn find(&self, id: ChassisId) -> Option<&Arc<Chassis>> {
        self.by_id.find(&id).next().and_then(|slot| self.table.get(slot))
    }
}

impl Snapshot {
    /// Chassis.
    pub fn chassis(&self) -> &ChassisTable {
        &self.chassis
    }

    pub(super) fn put_chassis(&mut self, chassis: Chassis) {
        let (id, all) = (chassis.id, &mut self.chassis);
        let chassis = Arc::new(chassis);
        let known = all.by_id.find(&id).next();
        match known {
            Some(slot) => drop(all.table.replace(slot, Some(chassis))),
            None => all.by_id.insert(id, all.table.add(chassis)),
        }
    }

    pub(super) fn remove_chassis(&mut self, id: &str) {
        let Ok(id) = id.parse::<ChassisId>() else { return };
        let all = &mut self.chassis;
        let known = all.by_id.find(&id).next();
        if let Some(slot) = known {
            all.table.replace(slot, None);
            all.by_id.remove(id, slot);
        }
    }
}
