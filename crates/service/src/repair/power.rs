//! Power changes that repair asked for: whoever works on nodes carries them out, which may be long after the entry they were for has gone.

use std::{collections::BTreeMap, net::Ipv4Addr};

use sabakan_domain::{provision::node::PowerAction, words::Serial};
use sabakan_store::{
    repo::{leaders::Lead, repairs::Under},
    view::Snapshot,
};

use super::{ACTOR, Repairs, TASK};
use crate::ServiceError;

/// Machines with a power change that repair asked for, on whichever server, and that is not done.
pub(super) fn powered(snapshot: &Snapshot) -> BTreeMap<Ipv4Addr, Serial> {
    let asked = snapshot.nodes().with_work().filter(|node| node.power.action.as_ref().is_some_and(is_ours));
    let known = asked.filter_map(|node| {
        let machine = snapshot.find_machine(node.name.as_str())?;
        Some((machine.ipv4().next()?, node.name.clone()))
    });
    known.collect()
}

fn is_ours(action: &PowerAction) -> bool {
    action.asked_by.starts_with(ACTOR)
}

impl Repairs {
    /// Takes power changes back that nobody wants any more, those of them that nobody has begun with: what is begun has to be waited for.
    /// Who goes on is seen in the next cycle.
    pub(super) async fn withdraw_power(
        &self,
        lead: &Lead,
        powered: &BTreeMap<Ipv4Addr, Serial>,
        unwanted: &[Ipv4Addr],
    ) -> Result<(), ServiceError> {
        let (nodes, _) = self.services(Under::lead(lead));
        for serial in unwanted.iter().filter_map(|address| powered.get(address)) {
            if nodes.withdraw_power(&self.actor(), serial, is_ours).await? {
                tracing::info!(task = TASK, %serial, "a power change is not wanted any more and was taken back");
            }
        }
        Ok(())
    }
}
