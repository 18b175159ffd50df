//! One table per kind of condition, for the rules of both APIs.

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

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect()
}

fn labels(list: &[(&str, &str)]) -> LabelCondition {
    LabelCondition::AllOf(pairs(list))
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

/// Each row: labels of the machine are product=R630 and datacenter=ty3; is it found by having the list, and is it left out by a list
/// it must not have? REST means all of them on both sides; GraphQL means all on the first side, any on the second.
#[test]
fn labels_group_as_each_api_says() {
    let check = |list: &[(&str, &str)], all: Option<bool>, any: Option<bool>| {
        let (all_of, any_of) = (LabelCondition::AllOf(pairs(list)), LabelCondition::AnyOf(pairs(list)));
        for (labels, holds) in [(all_of, all), (any_of, any)] {
            let criteria = Criteria { labels, ..Criteria::default() };
            let having = Query { having: criteria.clone(), ..Query::default() };
            let not_having = Query { not_having: criteria.clone(), ..Query::default() };
            // No condition means every machine, on either side.
            assert_eq!(having.matches(&machine()), holds.unwrap_or(true), "having {criteria:?}");
            assert_eq!(not_having.matches(&machine()), !holds.unwrap_or(false), "not having {criteria:?}");
        }
    };
    check(&[], None, None);
    check(&[("product", "R630")], Some(true), Some(true));
    check(&[("product", "R640")], Some(false), Some(false));
    check(&[("product", "R630"), ("datacenter", "ty3")], Some(true), Some(true));
    check(&[("product", "R630"), ("datacenter", "us")], Some(false), Some(true));
    check(&[("product", "R640"), ("datacenter", "us")], Some(false), Some(false));
    check(&[("nothing", "")], Some(false), Some(false));
}

#[test]
fn days_before_a_date_are_cut_off_towards_zero() {
    let check = |seconds: i64, days: i64| {
        let now = Timestamp::from_second(1_800_000_000).expect("a time");
        let date = Timestamp::from_second(1_800_000_000 + seconds).expect("a time");
        assert_eq!(days_before(date.into(), now), days, "{seconds} s");
        // The offset it was written with is none of the rule's business.
        let written: Moment =
            format!("{}+09:00", date.to_zoned(jiff::tz::TimeZone::fixed(jiff::tz::offset(9))).datetime())
                .parse()
                .expect("a moment");
        assert_eq!(days_before(written, now), days, "{written}");
    };
    const DAY: i64 = 24 * 60 * 60;
    for (seconds, days) in [(0, 0), (1, 0), (DAY - 1, 0), (DAY, 1), (2 * DAY - 1, 1), (2 * DAY, 2), (3650 * DAY, 3650)]
    {
        check(seconds, days);
        check(-seconds, -days);
    }
}

#[test]
fn days_left_are_at_least_so_many() {
    const DAY: i64 = 24 * 60 * 60;
    let check = |seconds: i64, at_least: i64, expected: bool| {
        let now = Timestamp::from_second(1_800_000_000).expect("a time");
        let date = Timestamp::from_second(1_800_000_000 + seconds).expect("a time");
        let machine = Machine { retire_date: date.into(), ..machine() };
        let criteria = Criteria { days_left: Some(DaysLeft { at_least, now }), ..Criteria::default() };
        let having = Query { having: criteria.clone(), ..Query::default() };
        let not_having = Query { not_having: criteria, ..Query::default() };
        assert_eq!(having.matches(&machine), expected, "{seconds} s, at least {at_least} days");
        assert_eq!(not_having.matches(&machine), !expected, "{seconds} s, not at least {at_least} days");
    };
    check(100 * DAY, 100, true);
    check(100 * DAY - 1, 100, false);
    check(100 * DAY, 101, false);
    check(0, 0, true);
    check(-1, 0, true); // less than a day late is day 0
    check(1 - DAY, 0, true);
    check(-DAY, 0, false);
    check(-DAY, -1, true);
    check(-2 * DAY, -1, false);
    check(0, i64::MAX, false);
    check(0, i64::MIN, true);
}

/// What conditions on labels mean, written down the slow way.
fn naive(condition: &LabelCondition, machine: &Machine) -> bool {
    let has = |(name, value): &(String, String)| machine.labels.find(name).is_some_and(|v| v.as_str() == value);
    match condition {
        LabelCondition::AllOf(pairs) => pairs.iter().all(has),
        LabelCondition::AnyOf(pairs) => pairs.is_empty() || pairs.iter().any(has),
    }
}

#[test]
fn labels_that_come_twice_and_more_than_a_machine_can_have() {
    let names = |count: usize| (0..count).map(|n| (format!("n{n:04}"), "v".to_owned())).collect::<Vec<_>>();
    let full = Machine { labels: Labels::new(names(LABELS_MAX)).expect("as many as allowed"), ..machine() };
    let twice = |pairs: &[(String, String)]| [pairs, pairs].concat();
    for list in [names(1), names(LABELS_MAX), names(LABELS_MAX + 1), twice(&names(LABELS_MAX)), twice(&names(300))] {
        for condition in [LabelCondition::AllOf(list.clone()), LabelCondition::AnyOf(list.clone())] {
            for machine in [machine(), full.clone()] {
                let expected = naive(&condition, &machine);
                let having = Criteria { labels: condition.clone(), ..Criteria::default() };
                let query = Query { having, not_having: Criteria::default() };
                assert_eq!(query.matches(&machine), expected, "{} labels", list.len());
            }
        }
    }
}

#[test]
fn every_value_counts() {
    let criteria = Criteria { racks: Some(vec![Rack(1); 3]), labels: labels(&[("a", "b")]), ..Criteria::default() };
    let query = Query { having: criteria.clone(), not_having: criteria };
    assert_eq!((query.value_count(), Query::default().value_count()), (8, 0));
}
