//! Which machines a search means: conditions that must hold and conditions that must not. Pure matching; the store's view uses its
//! indexes only to look at fewer machines.

use std::{
    collections::HashSet,
    net::{Ipv4Addr, Ipv6Addr},
};

use crate::{
    lifecycle::HealthState,
    machine::{Machine, Rack},
};

/// Conditions on one machine. Each `Some` is a condition: one of the values must be the machine's (labels: all of them). An empty
/// list is a condition nothing meets, as left by values that cannot be any machine's, such as a rack that is not a number.
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
    /// Label names and values, all of which must be there. An empty list is no condition.
    pub labels: Vec<(String, String)>,
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
    labels: &'a [(String, String)],
}

impl<'a> Prepared<'a> {
    fn new(criteria: &'a Criteria) -> Prepared<'a> {
        fn texts(list: &Option<Vec<String>>) -> Option<HashSet<&str>> {
            list.as_ref().map(|list| list.iter().map(String::as_str).collect())
        }
        fn values<T: Copy + Eq + std::hash::Hash>(list: &Option<Vec<T>>) -> Option<HashSet<T>> {
            list.as_ref().map(|list| list.iter().copied().collect())
        }
        let Criteria { serials, racks, indices, roles, ipv4, ipv6, bmc_types, states, labels } = criteria;
        Prepared {
            serials: texts(serials),
            racks: values(racks),
            indices: values(indices),
            roles: texts(roles),
            ipv4: values(ipv4),
            ipv6: ipv6.as_ref().map(|_| ()),
            bmc_types: texts(bmc_types),
            states: values(states),
            labels,
        }
    }

    /// One verdict for each condition; `None` where there is none.
    fn verdicts(&self, machine: &Machine) -> [Option<bool>; 9] {
        let has_label = |(name, value): &(String, String)| {
            machine.labels.find(name).is_some_and(|present| present.as_str() == value)
        };
        [
            self.serials.as_ref().map(|serials| serials.contains(machine.serial.as_str())),
            self.racks.as_ref().map(|racks| racks.contains(&machine.rack)),
            self.indices.as_ref().map(|indices| indices.contains(&machine.index_in_rack)),
            self.roles.as_ref().map(|roles| roles.contains(machine.role.as_str())),
            self.ipv4.as_ref().map(|wanted| machine.ipv4().any(|address| wanted.contains(&address))),
            self.ipv6.map(|()| false),
            self.bmc_types.as_ref().map(|types| types.contains(machine.bmc.kind.as_str())),
            self.states.as_ref().map(|states| states.contains(&machine.status.state)),
            (!self.labels.is_empty()).then(|| self.labels.iter().all(has_label)),
        ]
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::machine::{Bmc, Labels, Nic, Status};

    fn machine() -> Machine {
        let nic =
            |last| Nic { address: Ipv4Addr::new(10, 0, 0, last), maskbits: 24, gateway: Ipv4Addr::new(10, 0, 0, 254) };
        Machine {
            serial: "s1".parse().expect("serial"),
            labels: Labels::new([("product", "R630"), ("datacenter", "ty3")]).expect("labels"),
            rack: Rack(1),
            index_in_rack: 4,
            role: "worker".parse().expect("role"),
            nics: [nic(1), nic(2)].into(),
            bmc: Bmc { kind: "iDRAC-9".parse().expect("type"), nic: nic(3) },
            register_date: Timestamp::UNIX_EPOCH,
            retire_date: Timestamp::UNIX_EPOCH.into(),
            status: Status { state: HealthState::Healthy, since: Timestamp::UNIX_EPOCH },
        }
    }

    fn texts(values: &[&str]) -> Option<Vec<String>> {
        Some(values.iter().map(|v| (*v).to_owned()).collect())
    }

    fn labels(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect()
    }

    /// Each row as a positive and as a negative condition: one is the opposite of the other.
    #[test]
    fn single_conditions() {
        let check = |set: &dyn Fn(&mut Criteria), expected: bool| {
            let mut criteria = Criteria::default();
            set(&mut criteria);
            let having = Query { having: criteria.clone(), not_having: Criteria::default() };
            let not_having = Query { having: Criteria::default(), not_having: criteria.clone() };
            assert_eq!(having.matches(&machine()), expected, "having {criteria:?}");
            assert_eq!(not_having.matches(&machine()), !expected, "not having {criteria:?}");
        };
        check(&|c| c.serials = texts(&["s1"]), true);
        check(&|c| c.serials = texts(&["s2", "s1"]), true);
        check(&|c| c.serials = texts(&["S1"]), false);
        check(&|c| c.racks = Some(vec![Rack(0), Rack(1)]), true);
        check(&|c| c.racks = Some(vec![Rack(2)]), false);
        check(&|c| c.racks = Some(vec![]), false);
        check(&|c| c.indices = Some(vec![4]), true);
        check(&|c| c.indices = Some(vec![5]), false);
        check(&|c| c.roles = texts(&["boot", "worker"]), true);
        check(&|c| c.roles = texts(&["boot"]), false);
        check(&|c| c.ipv4 = Some(vec![Ipv4Addr::new(10, 0, 0, 2)]), true);
        check(&|c| c.ipv4 = Some(vec![Ipv4Addr::new(10, 0, 0, 3)]), false); // the controller's
        check(&|c| c.ipv6 = Some(vec![Ipv6Addr::LOCALHOST]), false);
        check(&|c| c.bmc_types = texts(&["iDRAC-9"]), true);
        check(&|c| c.bmc_types = texts(&["IPMI-2.0"]), false);
        check(&|c| c.states = Some(vec![HealthState::Healthy]), true);
        check(&|c| c.states = Some(vec![HealthState::Retired]), false);
        check(&|c| c.labels = labels(&[("product", "R630")]), true);
        check(&|c| c.labels = labels(&[("product", "R630"), ("datacenter", "ty3")]), true);
        // All of them: one that is missing is enough, for either side.
        check(&|c| c.labels = labels(&[("product", "R630"), ("datacenter", "us")]), false);
        check(&|c| c.labels = labels(&[("rack", "1")]), false);
    }

    #[test]
    fn no_condition_means_every_machine() {
        assert!(Query::default().matches(&machine()));
    }

    #[test]
    fn positive_conditions_are_anded_and_one_negative_is_enough() {
        let having = Criteria { roles: texts(&["worker"]), racks: Some(vec![Rack(9)]), ..Criteria::default() };
        assert!(!Query { having, not_having: Criteria::default() }.matches(&machine()));
        let not_having = Criteria { roles: texts(&["boot"]), racks: Some(vec![Rack(1)]), ..Criteria::default() };
        assert!(!Query { having: Criteria::default(), not_having }.matches(&machine()));
    }
}
