//! Incidents and settings alone, for those who must know what failed together and decide nothing about repairs.

use std::collections::{BTreeMap, BTreeSet};

use sabakan_domain::repair::{incident::Incident, settings::RepairSettings};

use super::{all, revision_of};
use crate::{
    Compare, Revision, Store, StoreError,
    keys::Keys,
    limits,
    records::{self, IncidentRecord, RepairSettingsRecord},
};

/// What failed together, at one moment.
#[derive(Debug, Clone)]
pub struct IncidentState {
    /// Incidents, by number.
    pub incidents: Vec<Incident>,
    /// What an operator chose; the defaults if that cannot be read.
    pub settings: RepairSettings,
    /// What cannot be read, each with why. It is left out: whoever reads this has a preference to decide, not whether to repair.
    pub unreadable: Vec<String>,
    revisions: BTreeMap<u64, (String, Revision)>,
    compares: Vec<Compare>,
}

impl IncidentState {
    /// What must still be so when something is written that was decided with these incidents: that no other was opened, that the
    /// settings are the same, and that nothing became of those that were used.
    pub(in crate::repo) fn compares(&self, used: &BTreeSet<u64>) -> Vec<Compare> {
        let used = used.iter().filter_map(|number| self.revisions.get(number)).take(limits::INCIDENTS_COMPARED);
        let used = used.map(|(key, revision)| Compare::ModRevision(key.clone(), *revision));
        self.compares.iter().cloned().chain(used).collect()
    }
}

/// Reads incidents and settings, as of one moment.
pub async fn read(store: &dyn Store, keys: &Keys) -> Result<IncidentState, StoreError> {
    let (stored, at) = all(store, keys.incidents(), None).await?;
    let (automatic, _) = all(store, keys.auto_repair(), Some(at)).await?;
    let next = stored.iter().find(|kv| kv.key == keys.incidents_next());
    let settings = automatic.iter().find(|kv| kv.key == keys.auto_repair_settings());
    let mut unreadable = Vec::new();
    let mut state = IncidentState {
        incidents: Vec::new(),
        settings: RepairSettings::default(),
        unreadable: Vec::new(),
        revisions: BTreeMap::new(),
        compares: vec![
            Compare::ModRevision(keys.incidents_next(), revision_of(next)),
            Compare::ModRevision(keys.auto_repair_settings(), revision_of(settings)),
        ],
    };
    for kv in stored.iter().filter(|kv| kv.key.contains("/data/")) {
        match records::decode::<IncidentRecord, Incident>(kv) {
            Ok(incident) => {
                state.revisions.insert(incident.number, (kv.key.clone(), kv.mod_revision));
                state.incidents.push(incident);
            }
            Err(error) => unreadable.push(error.to_string()),
        }
    }
    match settings.map(records::decode::<RepairSettingsRecord, RepairSettings>).transpose() {
        Ok(found) => state.settings = found.unwrap_or_default(),
        Err(error) => unreadable.push(error.to_string()),
    }
    state.unreadable = unreadable;
    Ok(state)
}
