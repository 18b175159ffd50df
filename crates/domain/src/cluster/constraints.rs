//! How large the cluster may be, and how much may be repaired at once.

use super::shape::Problem;

/// What a cluster must keep to. Names are those of [`Constraints::NAMES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Constraints {
    /// How many control planes, exactly.
    pub control_plane_count: u32,
    /// How many workers at least: in all when nodes are filled up, healthy ones when workers are added.
    pub minimum_workers: u32,
    /// How many workers at most; 0: no bound.
    pub maximum_workers: u32,
    /// How many nodes may be unreachable while others are rebooted.
    pub maximum_unreachable_nodes_for_reboot: u32,
    /// How many repairs there may be; 0: none is ever begun.
    pub maximum_repair_queue_entries: u32,
    /// How long an unreachable machine is given before it is repaired when it may be rebooting.
    pub wait_seconds_to_repair_rebooting: u32,
}

impl Default for Constraints {
    fn default() -> Constraints {
        Constraints {
            control_plane_count: 1,
            minimum_workers: 1,
            maximum_workers: 0,
            maximum_unreachable_nodes_for_reboot: 0,
            maximum_repair_queue_entries: 0,
            wait_seconds_to_repair_rebooting: 0,
        }
    }
}

/// A name that no constraint has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no constraint {0:?}; known: {known}", known = Constraints::NAMES.join(", "))]
pub struct UnknownConstraint(pub String);

impl Constraints {
    /// Every name, in the order of the fields.
    pub const NAMES: [&'static str; 6] = [
        "control-plane-count",
        "minimum-workers",
        "maximum-workers",
        "maximum-unreachable-nodes-for-reboot",
        "maximum-repair-queue-entries",
        "wait-seconds-to-repair-rebooting",
    ];

    /// Names and values, in the order of [`Constraints::NAMES`].
    pub fn entries(&self) -> [(&'static str, u32); 6] {
        let Constraints {
            control_plane_count,
            minimum_workers,
            maximum_workers,
            maximum_unreachable_nodes_for_reboot,
            maximum_repair_queue_entries,
            wait_seconds_to_repair_rebooting,
        } = *self;
        let [a, b, c, d, e, f] = Constraints::NAMES;
        [
            (a, control_plane_count),
            (b, minimum_workers),
            (c, maximum_workers),
            (d, maximum_unreachable_nodes_for_reboot),
            (e, maximum_repair_queue_entries),
            (f, wait_seconds_to_repair_rebooting),
        ]
    }

    /// The same with one changed.
    pub fn with(mut self, name: &str, value: u32) -> Result<Constraints, UnknownConstraint> {
        let field = match name {
            "control-plane-count" => &mut self.control_plane_count,
            "minimum-workers" => &mut self.minimum_workers,
            "maximum-workers" => &mut self.maximum_workers,
            "maximum-unreachable-nodes-for-reboot" => &mut self.maximum_unreachable_nodes_for_reboot,
            "maximum-repair-queue-entries" => &mut self.maximum_repair_queue_entries,
            "wait-seconds-to-repair-rebooting" => &mut self.wait_seconds_to_repair_rebooting,
            _ => return Err(UnknownConstraint(name.to_owned())),
        };
        *field = value;
        Ok(self)
    }

    /// What cannot be, all of it.
    pub fn check(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        if self.control_plane_count == 0 {
            problems
                .push(Problem::new("control-plane-count", "must be at least 1: a cluster without one cannot exist"));
        }
        if self.maximum_workers != 0 && self.minimum_workers > self.maximum_workers {
            let reason = format!(
                "{} is more than maximum-workers {}; raise maximum-workers first, or set it to 0 for no bound",
                self.minimum_workers, self.maximum_workers
            );
            problems.push(Problem::new("minimum-workers", reason));
        }
        problems
    }

    /// What is allowed but rarely meant.
    pub fn warnings(&self) -> Vec<Problem> {
        let count = self.control_plane_count;
        let even = count.is_multiple_of(2).then(|| {
            let reason = format!("{count} control planes survive no more failures than {}", count.saturating_sub(1));
            Problem::new("control-plane-count", reason)
        });
        even.into_iter().collect()
    }

    /// Whether one worker more is allowed.
    pub fn has_room(&self, workers: usize) -> bool {
        self.maximum_workers == 0 || workers < self.maximum_workers as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_sets_its_own_value() {
        let mut all = Constraints::default();
        for (value, name) in (10..).zip(Constraints::NAMES) {
            all = all.with(name, value).expect(name);
        }
        let expected: Vec<(&str, u32)> = Constraints::NAMES.into_iter().zip(10..).collect();
        assert_eq!(all.entries().to_vec(), expected);
        let error = Constraints::default().with("max-workers", 1).expect_err("unknown").to_string();
        assert!(error.contains("maximum-workers"), "{error}");
    }

    #[test]
    fn what_cannot_be() {
        let check = |cp, min, max, fields: &[&str]| {
            let constraints = Constraints {
                control_plane_count: cp,
                minimum_workers: min,
                maximum_workers: max,
                ..Constraints::default()
            };
            let problems = constraints.check();
            assert_eq!(problems.iter().map(|problem| problem.path.as_str()).collect::<Vec<_>>(), fields);
        };
        check(1, 1, 0, &[]);
        check(3, 5, 5, &[]);
        check(3, 6, 5, &["minimum-workers"]);
        check(0, 6, 5, &["control-plane-count", "minimum-workers"]);
        check(1, 0, 1, &[]);
    }

    #[test]
    fn an_even_number_of_control_planes_is_doubtful() {
        for (count, doubtful) in [(1, false), (2, true), (3, false), (4, true)] {
            let constraints = Constraints { control_plane_count: count, ..Constraints::default() };
            assert_eq!(!constraints.warnings().is_empty(), doubtful, "{count}");
        }
    }
}
