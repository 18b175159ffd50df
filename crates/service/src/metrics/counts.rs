//! How many machines there are, by status, role and rack, as lines.

use std::collections::BTreeMap;

use sabakan_domain::lifecycle::HealthState;
use sabakan_store::view::{ByState, Snapshot};

use super::{
    catalogue::{self, Metric},
    text::Text,
};
use crate::limits;

/// What does not get series of its own. A role cannot be told from it if it is called the same; then they are added up.
const OTHER: &str = "other";

pub(super) fn write(text: &mut Text, snapshot: &Snapshot) {
    let counts = snapshot.counts();
    text.head(&catalogue::MACHINES);
    for (state, count) in HealthState::ALL.iter().zip(counts.by_state) {
        text.sample(&catalogue::MACHINES, &[state.as_str()], count);
    }
    let (roles, racks) = (limits::ROLES_COUNTED_MAX, limits::RACKS_COUNTED_MAX);
    write_groups(text, &catalogue::MACHINES_BY_ROLE, counts.by_role, roles, Zeros::Written);
    write_groups(text, &catalogue::MACHINES_BY_RACK, counts.by_rack, racks, Zeros::LeftOut);
    text.single(&catalogue::TAKEOVER_MACHINES, snapshot.marked().len());
    text.single(&catalogue::TAKEOVER_RAW_KEYS, snapshot.raw_keys().len());
    text.single(&catalogue::UNREADABLE_RECORDS, snapshot.unreadable().len());
}

/// What becomes of a status in which a group has no machine.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Zeros {
    /// A quotient of what is missing is missing as well: an alert about a role none of whose machines is healthy would be silent.
    Written,
    /// There are too many groups.
    LeftOut,
}

/// Writes the first `max` groups by name and the sum of the rest, if there is any.
fn write_groups<K: Ord + ToString>(
    text: &mut Text,
    metric: &Metric,
    groups: BTreeMap<K, ByState>,
    max: usize,
    zeros: Zeros,
) {
    text.head(metric);
    let mut rest = ByState::default();
    let mut shown = Vec::with_capacity(groups.len().min(max));
    for (key, counts) in groups {
        let name = key.to_string();
        if shown.len() < max && name != OTHER {
            shown.push((name, counts));
        } else {
            rest.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        }
    }
    if rest != ByState::default() {
        shown.push((OTHER.to_owned(), rest));
    }
    for (name, counts) in shown {
        for (state, count) in HealthState::ALL.iter().zip(counts) {
            if count > 0 || zeros == Zeros::Written {
                text.sample(metric, &[&name, state.as_str()], count);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_past_the_bound_are_added_up() {
        let one = |status: usize, count: u64| {
            let mut counts = ByState::default();
            counts[status] = count;
            counts
        };
        let check = |groups: &[(&str, ByState)], max: usize, expected: &[&str]| {
            let mut text = Text::default();
            let groups: BTreeMap<&str, ByState> = groups.iter().copied().collect();
            write_groups(&mut text, &catalogue::MACHINES_BY_ROLE, groups, max, Zeros::LeftOut);
            let text = String::from_utf8(text.0).expect("UTF-8");
            let samples = text.lines().filter_map(|line| line.strip_prefix("sabakan_machines_by_role"));
            assert_eq!(samples.collect::<Vec<_>>(), expected);
        };
        let (a, b, c) = (("a", one(1, 5)), ("b", one(0, 2)), ("c", one(1, 7)));
        let (a_line, b_line) = ("{role=\"a\",status=\"healthy\"} 5", "{role=\"b\",status=\"uninitialized\"} 2");
        check(&[], 2, &[]);
        check(&[b, a], 2, &[a_line, b_line]);
        check(&[c, b, a], 2, &[a_line, b_line, "{role=\"other\",status=\"healthy\"} 7"]);
        let rest = ["{role=\"other\",status=\"uninitialized\"} 2", "{role=\"other\",status=\"healthy\"} 7"];
        check(&[c, b, a], 1, &[a_line, rest[0], rest[1]]);
        check(&[("other", one(1, 1)), a, b, c], 2, &[a_line, b_line, "{role=\"other\",status=\"healthy\"} 8"]);
    }

    #[test]
    fn a_role_has_every_status() {
        let mut text = Text::default();
        let groups = BTreeMap::from([("a", ByState::default()), ("b", ByState::default())]);
        write_groups(&mut text, &catalogue::MACHINES_BY_ROLE, groups, 2, Zeros::Written);
        let text = String::from_utf8(text.0).expect("UTF-8");
        assert_eq!(text.lines().filter(|line| line.ends_with(" 0")).count(), 2 * HealthState::ALL.len(), "{text}");
    }
}
