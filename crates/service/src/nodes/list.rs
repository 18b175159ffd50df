//! Lists of nodes, page by page. Every node of a fleet is a candidate; only those of the page are put together.

use std::{cmp::Ordering, collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use sabakan_domain::{
    provision::{
        node::{Node, NodeId},
        search::{Candidate, Filter, SortKey},
        states::Kind,
    },
    words::Serial,
};
use sabakan_store::view::Snapshot;

use super::{Nodes, Shown, line, resolve};
use crate::ServiceError;

/// Which nodes a caller wants, in which order, and where its page begins.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// Which.
    pub filter: Filter,
    /// In which order.
    pub sort: SortKey,
    /// The other way round.
    pub descending: bool,
    /// The last node of the page before.
    pub after: Option<NodeId>,
    /// How many.
    pub limit: usize,
}

/// What a node is ordered by: the wanted member, when it was made, its name.
type Place = (Option<String>, Timestamp, Serial);

impl Nodes {
    /// One page of a list. What its nodes wait for is not looked up: that takes a look at the whole queue.
    pub async fn page(&self, wanted: &Wanted) -> Result<Vec<Shown>, ServiceError> {
        let snapshot = self.on.view.read().await?;
        let after = match wanted.after {
            None => None,
            Some(id) => Some(self.place_of(&snapshot, wanted, id)?),
        };
        let compare = |a: &Place, b: &Place| if wanted.descending { b.cmp(a) } else { a.cmp(b) };
        let mut places = self.places(&snapshot, wanted);
        if let Some(after) = &after {
            places.retain(|place| compare(place, after) == Ordering::Greater);
        }
        if places.len() > wanted.limit {
            places.select_nth_unstable_by(wanted.limit, compare);
            places.truncate(wanted.limit);
        }
        places.sort_unstable_by(compare);
        let nobody_waits = BTreeMap::new();
        Ok(places.iter().filter_map(|(_, _, name)| self.show(&snapshot, name.as_str(), &nobody_waits)).collect())
    }

    /// Every node that is not at rest, by name, from the one after `after` on, with what it waits for.
    pub async fn under_way(&self, after: Option<&str>, limit: usize) -> Result<Vec<Shown>, ServiceError> {
        let snapshot = self.on.view.read().await?;
        let nodes = snapshot.nodes();
        let under_way = |node: &&Arc<Node>| {
            node.state.kind() != Kind::Stable || node.power.action.is_some() || nodes.lock(node.name.as_str()).is_some()
        };
        let names = nodes.stored().filter(under_way).map(|node| node.name.as_str());
        let mut names: Vec<&str> = names.filter(|name| after.is_none_or(|after| *name > after)).collect();
        names.sort_unstable();
        names.truncate(limit);
        let line = line(&snapshot, self.on.clock.now());
        Ok(names.into_iter().filter_map(|name| self.show(&snapshot, name, &line)).collect())
    }

    /// One node, by name or UUID, without what it waits for.
    pub async fn glance(&self, id: &str) -> Result<Shown, ServiceError> {
        let snapshot = self.on.view.read().await?;
        let name = resolve(&snapshot, id).ok_or(ServiceError::NotFound)?;
        self.show(&snapshot, name.as_str(), &BTreeMap::new()).ok_or(ServiceError::NotFound)
    }

    /// Who works on a node, or would: any live server can, and the first of them by name speaks for all. As far as it is known here:
    /// whoever shows a node has just read or written it, and the answer to a change must not wait for another read.
    pub fn conductor(&self) -> Option<String> {
        self.on.view.latest_known().conductors().next().map(str::to_owned)
    }

    fn place_of(&self, snapshot: &Snapshot, wanted: &Wanted, id: NodeId) -> Result<Place, ServiceError> {
        let node = snapshot.find_node_by_id(id).ok_or(ServiceError::NotFound)?;
        Ok(self.place(snapshot, wanted.sort, &node))
    }

    fn place(&self, snapshot: &Snapshot, sort: SortKey, node: &Node) -> Place {
        let value = match sort {
            SortKey::Created => None,
            SortKey::Member(_) => self.with_candidate(snapshot, node, |candidate| sort.value(candidate)),
        };
        (value, node.created_at, node.name.clone())
    }

    /// Every node that meets the conditions, by what it is ordered by.
    fn places(&self, snapshot: &Snapshot, wanted: &Wanted) -> Vec<Place> {
        let stored = snapshot.nodes();
        let plain = wanted.filter.is_empty() && wanted.sort == SortKey::Created;
        let mut places: Vec<Place> = stored
            .stored()
            .filter(|node| self.meets(snapshot, &wanted.filter, node))
            .map(|node| self.place(snapshot, wanted.sort, node))
            .collect();
        for machine in snapshot.machines().filter(|machine| stored.find(machine.serial.as_str()).is_none()) {
            if plain {
                places.push((None, machine.register_date, machine.serial.clone()));
                continue;
            }
            let Some(node) = snapshot.find_node(machine.serial.as_str()) else { continue };
            if self.meets(snapshot, &wanted.filter, &node) {
                places.push(self.place(snapshot, wanted.sort, &node));
            }
        }
        places
    }

    fn meets(&self, snapshot: &Snapshot, filter: &Filter, node: &Arc<Node>) -> bool {
        self.with_candidate(snapshot, node, |candidate| filter.matches(candidate))
    }

    fn with_candidate<T>(&self, snapshot: &Snapshot, node: &Node, look: impl Fn(&Candidate<'_>) -> T) -> T {
        let name = node.name.as_str();
        let machine = snapshot.find_machine(name);
        let known = self.hardware.driver_of(node, machine.map(Arc::as_ref)).ok().map(|driver| driver.name());
        let holder = snapshot.nodes().lock(name).map(|lock| lock.record.holder.as_str());
        look(&Candidate {
            node,
            machine: machine.map(|machine| machine.status.state),
            driver: node.driver.as_deref().or(known),
            holder,
            conductor: holder.or_else(|| snapshot.conductors().next()),
        })
    }
}
