//! Which machines a search has to look at: those under its most selective condition, or all. Made once for a search, and owned, so
//! that the search can go to another thread with it.

use std::net::Ipv4Addr;

use sabakan_domain::{
    lifecycle::HealthState,
    machine::Rack,
    query::{LabelCondition, Query},
    words::{BmcType, LabelName, LabelValue, Role},
};

use super::{Index, Slot, Snapshot};

/// How a search will find its machines.
#[derive(Debug)]
pub struct Plan {
    /// `None`: every machine is a candidate.
    lookup: Option<Lookup>,
    cost: usize,
}

impl Plan {
    /// How many machines the search looks at.
    pub fn cost(&self) -> usize {
        self.cost
    }
}

/// A condition that has an index, with its values.
#[derive(Debug)]
enum Lookup {
    Labels(Vec<(LabelName, LabelValue)>),
    Racks(Vec<Rack>),
    Ipv4(Vec<Ipv4Addr>),
    States(Vec<HealthState>),
    Roles(Vec<Role>),
    BmcTypes(Vec<BmcType>),
}

impl Snapshot {
    /// Decides how to search. Takes time for every value of the search.
    pub fn plan(&self, query: &Query) -> Plan {
        if let Some(serials) = &query.having.serials {
            return Plan { lookup: None, cost: serials.len() };
        }
        let best =
            lookups(query).into_iter().map(|lookup| (self.count(&lookup), lookup)).min_by_key(|(count, _)| *count);
        match best {
            // Sorting what is found costs more than walking all machines in order when most of them match.
            Some((cost, lookup)) if cost <= self.table.len() / 2 => Plan { lookup: Some(lookup), cost },
            _ => Plan { lookup: None, cost: self.table.len() },
        }
    }

    fn count(&self, lookup: &Lookup) -> usize {
        fn sum<K: Ord + Clone>(index: &Index<K>, keys: &[K]) -> usize {
            keys.iter().map(|key| index.count(key)).sum()
        }
        match lookup {
            Lookup::Labels(keys) => sum(&self.by_label, keys),
            Lookup::Racks(keys) => sum(&self.by_rack, keys),
            Lookup::Ipv4(keys) => sum(&self.by_ipv4, keys),
            Lookup::States(keys) => sum(&self.by_state, keys),
            Lookup::Roles(keys) => sum(&self.by_role, keys),
            Lookup::BmcTypes(keys) => sum(&self.by_bmc_type, keys),
        }
    }

    /// The candidates, some of them perhaps twice; `None`: every machine is one.
    pub(super) fn slots(&self, plan: Plan) -> Option<Vec<Slot>> {
        fn all<K: Ord + Clone>(index: &Index<K>, keys: &[K]) -> Vec<Slot> {
            keys.iter().flat_map(|key| index.find(key)).collect()
        }
        Some(match plan.lookup? {
            Lookup::Labels(keys) => all(&self.by_label, &keys),
            Lookup::Racks(keys) => all(&self.by_rack, &keys),
            Lookup::Ipv4(keys) => all(&self.by_ipv4, &keys),
            Lookup::States(keys) => all(&self.by_state, &keys),
            Lookup::Roles(keys) => all(&self.by_role, &keys),
            Lookup::BmcTypes(keys) => all(&self.by_bmc_type, &keys),
        })
    }
}

/// Every positive condition that has an index. What cannot be a value of any machine is not looked up.
fn lookups(query: &Query) -> Vec<Lookup> {
    fn parsed<T: std::str::FromStr>(list: &[String]) -> Vec<T> {
        list.iter().filter_map(|text| text.parse().ok()).collect()
    }
    let having = &query.having;
    let mut lookups = label_lookups(&having.labels);
    lookups.extend(having.racks.clone().map(Lookup::Racks));
    lookups.extend(having.ipv4.clone().map(Lookup::Ipv4));
    lookups.extend(having.states.clone().map(Lookup::States));
    lookups.extend(having.roles.as_deref().map(|list| Lookup::Roles(parsed(list))));
    lookups.extend(having.bmc_types.as_deref().map(|list| Lookup::BmcTypes(parsed(list))));
    lookups
}

/// Where a condition on labels can be looked up. Machines that have all of them are under each, so that any one lookup will do;
/// machines that have any of them are under the whole list only.
fn label_lookups(condition: &LabelCondition) -> Vec<Lookup> {
    let label = |(name, value): &(String, String)| name.parse().ok().zip(value.parse().ok());
    match condition {
        LabelCondition::AllOf(pairs) => {
            pairs.iter().map(|pair| Lookup::Labels(label(pair).into_iter().collect())).collect()
        }
        LabelCondition::AnyOf(pairs) if pairs.is_empty() => Vec::new(),
        LabelCondition::AnyOf(pairs) => vec![Lookup::Labels(pairs.iter().filter_map(label).collect())],
    }
}
