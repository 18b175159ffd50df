//! How good a machine is for a place. Spreading over racks comes first, a long life second.

use jiff::Timestamp;

use crate::time::Moment;

/// A score, in its parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Score {
    /// How many machines of the same kind are in the rack already.
    pub in_rack: usize,
    /// Whole days until the machine should go, cut off towards zero.
    pub days: i64,
    /// Points for being healthy; counted only when a node is to leave.
    pub health: i64,
}

/// What being healthy is worth when a node is to leave: more than everything else together.
const HEALTH_POINTS: i64 = 1_000;

impl Score {
    /// A machine that is to be chosen.
    pub fn to_choose(in_rack: usize, days: i64) -> Score {
        Score { in_rack, days, health: 0 }
    }

    /// A node, one of which is to leave.
    pub fn to_leave(in_rack: usize, days: i64, healthy: bool) -> Score {
        Score { in_rack, days, health: if healthy { HEALTH_POINTS } else { 0 } }
    }

    /// Points for its rack: ten less for every machine there.
    pub fn rack_points(&self) -> i64 {
        // A rack does not hold 2^63 machines.
        (100 - i64::try_from(self.in_rack).unwrap_or(i64::MAX / 100)) * 10
    }

    /// Points for its lifetime, from -3 to 3.
    pub fn lifetime_points(&self) -> i64 {
        lifetime_points(self.days)
    }

    /// All points.
    pub fn total(&self) -> i64 {
        self.rack_points() + self.lifetime_points() + self.health
    }
}

/// Whole days until a machine should go, cut off towards zero.
pub fn days_left(retire_date: Moment, now: Timestamp) -> i64 {
    retire_date.timestamp().duration_since(now).as_hours() / 24
}

/// Points for the days a machine has left.
pub(super) fn lifetime_points(days: i64) -> i64 {
    [250, 500, 1_000].into_iter().map(|edge| i64::from(days > edge) - i64::from(days < -edge)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_for_a_lifetime() {
        for (days, points) in [
            (0, 0),
            (250, 0),
            (251, 1),
            (500, 1),
            (501, 2),
            (1_000, 2),
            (1_001, 3),
            (-250, 0),
            (-251, -1),
            (-500, -1),
            (-501, -2),
            (-1_000, -2),
            (-1_001, -3),
        ] {
            assert_eq!(lifetime_points(days), points, "{days}");
        }
    }

    #[test]
    fn totals_at_the_base_time() {
        let score = |in_rack, days| Score::to_choose(in_rack, days).total();
        for (days, total) in [(365, 1001), (548, 1002), (1096, 1003), (-365, 999), (-548, 998), (-1096, 997)] {
            assert_eq!(score(0, days), total, "{days}");
        }
        assert_eq!((score(3, 0), score(13, 0), score(9, 548)), (970, 870, 912));
        assert_eq!(Score::to_leave(9, 548, true).total(), 1912);
        assert_eq!(Score::to_leave(9, 548, false).total(), 912);
        assert!(score(150, 0) < 0);
    }

    #[test]
    fn days_are_cut_off_towards_zero() {
        let now: Timestamp = "2018-12-02T00:00:00Z".parse().expect("a time");
        for (date, days) in [
            ("2020-06-02T00:00:00Z", 548),
            ("2019-12-02T00:00:00Z", 365),
            ("2021-12-02T00:00:00Z", 1096),
            ("2018-12-02T23:59:59Z", 0),
            ("2018-12-01T00:00:01Z", 0),
            ("2018-11-30T00:00:00Z", -2),
        ] {
            assert_eq!(days_left(date.parse().expect("a date"), now), days, "{date}");
        }
    }
}
