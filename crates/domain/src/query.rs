//! Which machines a search means: conditions that must hold and conditions that must not. Pure matching; the store's view uses its
//! indexes only to look at fewer machines.

use std::{
    collections::HashSet,
    net::{Ipv4Addr, Ipv6Addr},
};

use jiff::Timestamp;

use crate::{
    lifecycle::HealthState,
    limits::LABELS_MAX,
    machine::{Machine, Rack},
    time::Moment,
    words::{LabelName, LabelValue},
};

/// Conditions on one machine. Each `Some` is a condition: one of the values must be the machine's. An empty list is a condition
/// nothing meets, as left by values that cannot be any machine's, such as a rack that is not a number.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Criteria {
    /// Serials.
    pub serials: Option<Vec<String>>,
    /// Racks.
    pub racks: Option<Vec<Rack>>,
    /// Positions in the rack.
    pub indices: Option<Vec<u32>>,
    /// Roles.
    pub roles: Option<Vec<String>>,
    /// Addresses of the operating system; those of controllers are not searched.
    pub ipv4: Option<Vec<Ipv4Addr>>,
    /// No machine has one yet.
    pub ipv6: Option<Vec<Ipv6Addr>>,
    /// BMC types.
    pub bmc_types: Option<Vec<String>>,
    /// States.
    pub states: Option<Vec<HealthState>>,
    /// Labels.
    pub labels: LabelCondition,
    /// How long it must stay.
    pub days_left: Option<DaysLeft>,
}

/// A condition on labels, names and values. An empty list is no condition. The two APIs group labels differently: in REST every list
/// means all of them, also a list of labels a machine must not have; in GraphQL such a list means any of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LabelCondition {
    /// The machine has every one.
    AllOf(Vec<(String, String)>),
    /// The machine has at least one.
    AnyOf(Vec<(String, String)>),
}

/// A condition on the retire date: at least so many days are left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DaysLeft {
    /// How many, at least. May be negative: a machine may be past its date.
    pub at_least: i64,
    /// Counted from here.
    pub now: Timestamp,
}

/// A search.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Query {
    /// Every condition must hold.
    pub having: Criteria,
    /// No condition may hold.
    pub not_having: Criteria,
}

impl Query {
    /// Prepared for looking at many machines: a value is found without walking its list.
    pub fn matcher(&self) -> Matcher<'_> {
        Matcher { having: Prepared::new(&self.having), not_having: Prepared::new(&self.not_having) }
    }

    /// Whether the search means this machine.
    pub fn matches(&self, machine: &Machine) -> bool {
        self.matcher().matches(machine)
    }

    /// How many values its conditions have. Preparing a search takes time for each, before any machine is looked at.
    pub fn value_count(&self) -> usize {
        self.having.value_count() + self.not_having.value_count()
    }
}

impl Criteria {
    fn value_count(&self) -> usize {
        fn len<T>(list: &Option<Vec<T>>) -> usize {
            list.as_ref().map_or(0, Vec::len)
        }
        let Criteria { serials, racks, indices, roles, ipv4, ipv6, bmc_types, states, labels, days_left } = self;
        let texts = len(serials) + len(roles) + len(bmc_types);
        let numbers = len(racks) + len(indices) + len(ipv4) + len(ipv6) + len(states);
        texts + numbers + labels.pairs().len() + usize::from(days_left.is_some())
    }
}

impl LabelCondition {
    /// Names and values, however they are grouped.
    pub fn pairs(&self) -> &[(String, String)] {
        let (LabelCondition::AllOf(pairs) | LabelCondition::AnyOf(pairs)) = self;
        pairs
    }
}

impl Default for LabelCondition {
    /// No condition.
    fn default() -> LabelCondition {
        LabelCondition::AllOf(Vec::new())
    }
}

impl DaysLeft {
    fn holds(self, retire_date: Moment) -> bool {
        days_before(retire_date, self.now) >= self.at_least
    }
}

/// Whole days from now to a date, cut off towards zero: within 24 hours before and after the date it is 0.
fn days_before(date: Moment, now: Timestamp) -> i64 {
    date.timestamp().duration_since(now).as_hours() / 24
}

/// A prepared search.
pub struct Matcher<'a> {
    having: Prepared<'a>,
    not_having: Prepared<'a>,
}

impl Matcher<'_> {
    /// Whether the search means this machine.
    pub fn matches(&self, machine: &Machine) -> bool {
        self.having.verdicts(machine).into_iter().flatten().all(|holds| holds)
            && !self.not_having.verdicts(machine).into_iter().flatten().any(|holds| holds)
    }
}

struct Prepared<'a> {
    serials: Option<HashSet<&'a str>>,
    racks: Option<HashSet<Rack>>,
    indices: Option<HashSet<u32>>,
    roles: Option<HashSet<&'a str>>,
    ipv4: Option<HashSet<Ipv4Addr>>,
    ipv6: Option<()>,
    bmc_types: Option<HashSet<&'a str>>,
    states: Option<HashSet<HealthState>>,
    labels: PreparedLabels<'a>,
    days_left: Option<DaysLeft>,
}

/// Labels to look for, sorted, each once. A machine has few labels and a search may have many: those of the machine are looked up
/// among those of the search, so that a machine costs the same however many are asked for.
enum PreparedLabels<'a> {
    NoCondition,
    AllOf(Vec<(&'a str, &'a str)>),
    AnyOf(Vec<(&'a str, &'a str)>),
}

impl<'a> PreparedLabels<'a> {
    fn new(condition: &'a LabelCondition) -> PreparedLabels<'a> {
        let mut pairs: Vec<_> = condition.pairs().iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        pairs.sort_unstable();
        pairs.dedup();
        match condition {
            _ if pairs.is_empty() => PreparedLabels::NoCondition,
            LabelCondition::AllOf(_) => PreparedLabels::AllOf(pairs),
            LabelCondition::AnyOf(_) => PreparedLabels::AnyOf(pairs),
        }
    }

    /// Whether it holds; `None`: there is no condition.
    fn verdict(&self, machine: &Machine) -> Option<bool> {
        let labels = machine.labels.pairs();
        let wanted = |pairs: &[(&str, &str)], (name, value): &(LabelName, LabelValue)| {
            pairs.binary_search(&(name.as_str(), value.as_str())).is_ok()
        };
        match self {
            PreparedLabels::NoCondition => None,
            // No machine has more than it may have.
            PreparedLabels::AllOf(pairs) if pairs.len() > labels.len().min(LABELS_MAX) => Some(false),
            PreparedLabels::AllOf(pairs) => {
                Some(labels.iter().filter(|label| wanted(pairs, label)).count() == pairs.len())
            }
            PreparedLabels::AnyOf(pairs) => Some(labels.iter().any(|label| wanted(pairs, label))),
        }
    }
}

impl<'a> Prepared<'a> {
    fn new(criteria: &'a Criteria) -> Prepared<'a> {
        fn texts(list: &Option<Vec<String>>) -> Option<HashSet<&str>> {
            list.as_ref().map(|list| list.iter().map(String::as_str).collect())
        }
        fn values<T: Copy + Eq + std::hash::Hash>(list: &Option<Vec<T>>) -> Option<HashSet<T>> {
            list.as_ref().map(|list| list.iter().copied().collect())
        }
        let Criteria { serials, racks, indices, roles, ipv4, ipv6, bmc_types, states, labels, days_left } = criteria;
        Prepared {
            serials: texts(serials),
            racks: values(racks),
            indices: values(indices),
            roles: texts(roles),
            ipv4: values(ipv4),
            ipv6: ipv6.as_ref().map(|_| ()),
            bmc_types: texts(bmc_types),
            states: values(states),
            labels: PreparedLabels::new(labels),
            days_left: *days_left,
        }
    }

    /// One verdict for each condition; `None` where there is none.
    fn verdicts(&self, machine: &Machine) -> [Option<bool>; 10] {
        [
            self.serials.as_ref().map(|serials| serials.contains(machine.serial.as_str())),
            self.racks.as_ref().map(|racks| racks.contains(&machine.rack)),
            self.indices.as_ref().map(|indices| indices.contains(&machine.index_in_rack)),
            self.roles.as_ref().map(|roles| roles.contains(machine.role.as_str())),
            self.ipv4.as_ref().map(|wanted| machine.ipv4().any(|address| wanted.contains(&address))),
            self.ipv6.map(|()| false),
            self.bmc_types.as_ref().map(|types| types.contains(machine.bmc.kind.as_str())),
            self.states.as_ref().map(|states| states.contains(&machine.status.state)),
            self.labels.verdict(machine),
            self.days_left.map(|days| days.holds(machine.retire_date)),
        ]
    }
}

#[cfg(test)]
mod tests;
