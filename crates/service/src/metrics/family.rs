//! Series of one metric by the values of their labels, never more than a bound; and the figures that are in them.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, RwLock,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
    time::Duration,
};

use super::{catalogue::Metric, text::Text};

/// Series by labels.
pub(super) struct Family<K, M> {
    series: RwLock<BTreeMap<K, Arc<M>>>,
    max: usize,
}

impl<K: Ord + Clone, M: Default> Family<K, M> {
    /// A family of at most `max` series, besides those that others overflow into.
    pub(super) fn new(max: usize) -> Family<K, M> {
        Family { series: RwLock::default(), max }
    }

    /// The series of these labels. Once the family is full, a new one is that of what `otherwise` makes of them.
    pub(super) fn get(&self, labels: K, otherwise: impl FnOnce(K) -> K) -> Arc<M> {
        {
            let series = self.series.read().expect("no holder of this lock panics");
            if let Some(found) = series.get(&labels) {
                return Arc::clone(found);
            }
        }
        let mut series = self.series.write().expect("no holder of this lock panics");
        let labels = if series.len() < self.max || series.contains_key(&labels) { labels } else { otherwise(labels) };
        Arc::clone(series.entry(labels).or_default())
    }

    /// Every series, copied, so that nobody who counts waits for whoever writes them down.
    pub(super) fn all(&self) -> Vec<(K, Arc<M>)> {
        let series = self.series.read().expect("no holder of this lock panics");
        series.iter().map(|(labels, figure)| (labels.clone(), Arc::clone(figure))).collect()
    }
}

/// How many of something there are now.
#[derive(Debug, Clone, Default)]
pub struct Gauge(Arc<AtomicI64>);

impl Gauge {
    /// One more, until the answer is dropped.
    pub fn hold(&self) -> Held {
        self.0.fetch_add(1, Ordering::Relaxed);
        Held(Arc::clone(&self.0))
    }

    /// So many, counted elsewhere.
    pub fn set(&self, count: i64) {
        self.0.store(count, Ordering::Relaxed);
    }

    /// How many.
    pub fn get(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Counts as one while it lives.
#[derive(Debug)]
pub struct Held(Arc<AtomicI64>);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Upper bounds of the buckets in microseconds, and as the format writes them in seconds. From a read in memory to the longest a
/// request may take.
const BUCKETS: [(u64, &str); 14] = [
    (250, "0.00025"),
    (1_000, "0.001"),
    (2_500, "0.0025"),
    (5_000, "0.005"),
    (10_000, "0.01"),
    (25_000, "0.025"),
    (50_000, "0.05"),
    (100_000, "0.1"),
    (250_000, "0.25"),
    (500_000, "0.5"),
    (1_000_000, "1"),
    (2_500_000, "2.5"),
    (5_000_000, "5"),
    (10_000_000, "10"),
];

/// Times, counted by length.
#[derive(Debug, Default)]
pub(super) struct Histogram {
    /// The last is for everything longer.
    counts: [AtomicU64; BUCKETS.len() + 1],
    nanoseconds: AtomicU64,
}

impl Histogram {
    pub(super) fn observe(&self, time: Duration) {
        let place = BUCKETS.partition_point(|(bound, _)| Duration::from_micros(*bound) < time);
        self.counts[place].fetch_add(1, Ordering::Relaxed);
        let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
    }

    /// How many there were.
    pub(super) fn count(&self) -> u64 {
        self.counts.iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }

    /// Its lines. The count is that of the buckets, so that the two agree while others go on counting.
    pub(super) fn write(&self, text: &mut Text, metric: &Metric, labels: &[&str]) {
        let bounds = BUCKETS.iter().map(|(_, bound)| *bound).chain(["+Inf"]);
        let mut count = 0;
        for (bound, in_bucket) in bounds.zip(&self.counts) {
            count += in_bucket.load(Ordering::Relaxed);
            text.line(metric, "_bucket", labels, Some(bound), count);
        }
        let sum = Duration::from_nanos(self.nanoseconds.load(Ordering::Relaxed)).as_secs_f64();
        text.line(metric, "_sum", labels, None, sum);
        text.line(metric, "_count", labels, None, count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::catalogue::Kind;

    #[test]
    fn a_full_family_counts_new_labels_under_another_name() {
        let family: Family<&str, AtomicU64> = Family::new(2);
        for labels in ["a", "b", "c", "d", "a"] {
            family.get(labels, |_| "other").fetch_add(1, Ordering::Relaxed);
        }
        let all: Vec<_> = family.all().into_iter().map(|(labels, n)| (labels, n.load(Ordering::Relaxed))).collect();
        assert_eq!(all, [("a", 2), ("b", 1), ("other", 2)]);
    }

    #[test]
    fn a_gauge_counts_what_is_held() {
        let gauge = Gauge::default();
        let held = [gauge.hold(), gauge.hold()];
        assert_eq!(gauge.get(), 2);
        drop(held);
        assert_eq!(gauge.get(), 0);
    }

    #[test]
    fn buckets_ascend_include_their_bound_and_are_written_in_seconds() {
        assert!(BUCKETS.is_sorted());
        for (bound, text) in BUCKETS {
            assert_eq!(Duration::from_micros(bound).as_secs_f64(), text.parse::<f64>().expect("a number"));
        }
        let histogram = Histogram::default();
        for time in [Duration::ZERO, Duration::from_millis(1), Duration::from_nanos(1_000_001), Duration::from_secs(60)]
        {
            histogram.observe(time);
        }
        let metric = Metric { name: "h", kind: Kind::Histogram, labels: &["a"], help: "", note: "" };
        let mut text = Text::default();
        histogram.write(&mut text, &metric, &["x"]);
        let text = String::from_utf8(text.0).expect("UTF-8");
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), BUCKETS.len() + 3);
        assert_eq!(lines[0], "h_bucket{a=\"x\",le=\"0.00025\"} 1");
        assert_eq!(lines[1], "h_bucket{a=\"x\",le=\"0.001\"} 2", "a bound belongs to its bucket");
        assert_eq!(lines[2], "h_bucket{a=\"x\",le=\"0.0025\"} 3");
        assert_eq!(lines[13], "h_bucket{a=\"x\",le=\"10\"} 3");
        assert_eq!(
            lines[14..],
            ["h_bucket{a=\"x\",le=\"+Inf\"} 4", "h_sum{a=\"x\"} 60.002000001", "h_count{a=\"x\"} 4"]
        );
        assert_eq!(histogram.count(), 4);
    }
}
