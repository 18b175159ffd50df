//! What the server tells about itself and its machines in figures: one [`Metrics`] made at start and handed to whoever counts. No
//! globals. `scrape` writes it as text, [`catalogue`] holds every name, help text and label.
//!
//! Written by hand instead of taken from a client library: two names of the older service (`sabakan_api_request_count` for a
//! counter, `…_total` for gauges) are not allowed in the only format such a library writes, and families of a library grow
//! without bound, while here the number of series is what has to be bounded.
//!
//! No secret comes here (G10): values of labels are words of the program, route templates, and what a list of machines shows.

pub mod catalogue;
mod cluster;
mod counts;
mod family;
mod machine_status;
mod process;
mod repair;
mod requests;
mod scrape;
mod store;
mod text;

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use sabakan_store::Revision;

use self::family::{Family, Histogram};
pub use self::{
    family::{Gauge, Held},
    requests::{RequestSeen, verb},
    scrape::{Scrape, Scrapes},
    store::MeasuredStore,
    text::CONTENT_TYPE,
};
use crate::{Clock, limits};

/// What an operator may choose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetricsOptions {
    /// Whether every machine has its seven series of `sabakan_machine_status`.
    pub machines: bool,
    /// Whether requests are counted by the path that was asked for instead of its route.
    pub raw_paths: bool,
}

impl Default for MetricsOptions {
    fn default() -> MetricsOptions {
        MetricsOptions { machines: true, raw_paths: false }
    }
}

/// Everything that is counted.
pub struct Metrics {
    options: MetricsOptions,
    version: &'static str,
    requests: Family<requests::RequestKey, AtomicU64>,
    durations: Family<requests::RouteKey, Histogram>,
    errors: Family<&'static str, AtomicU64>,
    store: store::StoreFigures,
    /// Connections that are open, over all listeners.
    pub connections: Gauge,
    /// Connections that may be open.
    pub connections_max: Gauge,
    /// Bytes of request bodies that are held.
    pub body_bytes: Gauge,
    /// Event feeds that are open.
    pub feeds: Gauge,
    refusals: Family<(&'static str, &'static str), AtomicU64>,
    shed: AtomicU64,
    last_success: [(&'static str, Arc<AtomicI64>); 2],
    behind: Mutex<Option<Behind>>,
}

/// Since when the view has stood at a revision although there is a newer one.
struct Behind {
    at: Revision,
    since: Instant,
}

/// The background tasks that report their successes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// Forgets history of the embedded store.
    Compactor,
    /// Forgets old audit entries.
    Retention,
}

impl Metrics {
    /// Nothing counted yet. `version` is the program's.
    pub fn new(options: MetricsOptions, version: &'static str) -> Metrics {
        let metrics = Metrics {
            options,
            version,
            requests: Family::new(limits::REQUEST_SERIES_MAX),
            durations: Family::new(limits::REQUEST_SERIES_MAX),
            errors: Family::new(limits::REQUEST_SERIES_MAX),
            store: store::StoreFigures::default(),
            connections: Gauge::default(),
            connections_max: Gauge::default(),
            body_bytes: Gauge::default(),
            refusals: Family::new(limits::REQUEST_SERIES_MAX),
            shed: AtomicU64::new(0),
            feeds: Gauge::default(),
            last_success: [("compactor", Arc::default()), ("retention", Arc::default())],
            behind: Mutex::new(None),
        };
        metrics.declare_refusals();
        metrics
    }

    /// An idle connection was closed to make room for another.
    pub fn shed(&self) {
        self.shed.fetch_add(1, Ordering::Relaxed);
    }

    /// Where a task reports its successes.
    pub fn task(&self, task: Task, clock: Arc<dyn Clock>) -> Succeeded {
        let at = match task {
            Task::Compactor => &self.last_success[0].1,
            Task::Retention => &self.last_success[1].1,
        };
        Succeeded { at: Arc::clone(at), clock }
    }

    /// How long the view has stood still although the store has something newer.
    fn stuck_for(&self, view: Revision, newest: Revision) -> Duration {
        let mut behind = self.behind.lock().expect("no holder of this lock panics");
        if view >= newest {
            *behind = None;
            return Duration::ZERO;
        }
        let begun = Behind { at: view, since: Instant::now() };
        match behind.take().filter(|before| before.at == view) {
            Some(before) => behind.insert(before).since.elapsed(),
            None => behind.insert(begun).since.elapsed(),
        }
    }
}

/// Takes down when a task last did its work.
pub struct Succeeded {
    at: Arc<AtomicI64>,
    clock: Arc<dyn Clock>,
}

impl Succeeded {
    /// Now.
    pub fn mark(&self) {
        self.at.store(self.clock.now().as_second(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
