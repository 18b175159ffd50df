//! What people ask of the reboot queue, and what they are told about it.

use std::{collections::BTreeSet, net::Ipv4Addr};

use sabakan_domain::{
    audit::Actor,
    repair::{
        entry::Backoff,
        reboot::{RebootEntry, RebootStatus},
    },
};
use sabakan_store::repo::repairs::{self, Under, unreadable::Queue};

use super::Repairs;
use crate::ServiceError;

/// An entry of the reboot queue with what belongs to it.
#[derive(Debug, Clone)]
pub struct ShownReboot {
    /// The entry.
    pub entry: RebootEntry,
    /// Why nothing is done with it right now; `None`: something is, or this server does not know because another one leads.
    pub waits: Option<String>,
}

impl Repairs {
    /// Every entry of the reboot queue, by index.
    pub async fn reboots(&self) -> Result<Vec<ShownReboot>, ServiceError> {
        let state = self.state().await?;
        let waits = self.told().reboot_waits.clone();
        let show = |entry: RebootEntry| ShownReboot { waits: waits.get(&entry.index).cloned(), entry };
        Ok(state.reboots.into_iter().map(show).collect())
    }

    /// Adds nodes to the reboot queue, all of them or none; their indexes.
    pub async fn add_reboots(&self, actor: &Actor, nodes: &[Ipv4Addr]) -> Result<Vec<u64>, ServiceError> {
        let standing = self.standing().await?;
        let strangers: BTreeSet<String> =
            nodes.iter().filter(|node| !standing.nodes.contains_key(node)).map(ToString::to_string).collect();
        if !strangers.is_empty() {
            let strangers = strangers.into_iter().collect::<Vec<_>>().join(", ");
            return Err(ServiceError::Invalid(format!("not a node of the cluster: {strangers}")));
        }
        let on = &self.on;
        let added = repairs::add_reboots(&*on.store, &on.keys, &on.by(actor), nodes).await?;
        tracing::info!(count = added.len(), user = actor.name, "reboots asked for");
        Ok(added)
    }

    /// Cancels a reboot that has not ended. One that cannot be read goes at once.
    pub async fn cancel_reboot(&self, actor: &Actor, index: u64) -> Result<(), ServiceError> {
        let on = &self.on;
        let cancel = |entry: &RebootEntry| Some(cancelled(entry));
        let edited = repairs::edit_reboot(&*on.store, &on.keys, &on.by(actor), Under::default(), index, cancel).await;
        self.or_discard(edited.map(drop).map_err(ServiceError::from), actor, Queue::Reboots, index).await
    }

    /// Cancels all of them; which.
    pub async fn cancel_all_reboots(&self, actor: &Actor) -> Result<Vec<u64>, ServiceError> {
        self.change_reboots(actor, cancelled).await
    }

    /// Lets drains that failed be tried at once; of which entries.
    pub async fn reset_reboot_backoff(&self, actor: &Actor) -> Result<Vec<u64>, ServiceError> {
        self.change_reboots(actor, |entry| RebootEntry { backoff: Backoff::default(), ..entry.clone() }).await
    }

    /// Makes a change of all entries that it changes; which.
    async fn change_reboots(
        &self,
        actor: &Actor,
        change: impl Fn(&RebootEntry) -> RebootEntry,
    ) -> Result<Vec<u64>, ServiceError> {
        let (on, state) = (&self.on, self.state().await?);
        let concerned = state.reboots.iter().filter(|entry| change(entry) != **entry);
        let indexes: Vec<u64> = concerned.map(|entry| entry.index).collect();
        Ok(repairs::edit_reboots(&*on.store, &on.keys, &on.by(actor), &indexes, change).await?)
    }
}

fn cancelled(entry: &RebootEntry) -> RebootEntry {
    RebootEntry { status: RebootStatus::Cancelled, ..entry.clone() }
}
