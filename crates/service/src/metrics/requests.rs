//! Requests: how many, with what answer, how long they took. Whatever clients send, the number of series stays bounded.

use std::{
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use super::{Metrics, catalogue, text::Text};
use crate::limits;

/// What is counted under no path of its own.
const OTHER: &str = "other";

/// Where a path names a disk of a machine, or a token: counted by route, whatever the operator chose.
const NEVER_RAW: [&str; 2] = ["/api/v1/crypts", "/api/v1/tokens"];

/// By answer, path and method. The order of fields is the order of the answer, not of the labels.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RequestKey {
    path: Box<str>,
    verb: &'static str,
    code: u16,
}

/// By route and method.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RouteKey {
    path: Box<str>,
    verb: &'static str,
}

/// A request under way, as far as it is counted.
#[derive(Debug)]
pub struct RequestSeen {
    route: Box<str>,
    raw: Option<Box<str>>,
    verb: &'static str,
    begun: Instant,
}

/// A method in a bounded vocabulary: clients may send any word.
pub fn verb(method: &str) -> &'static str {
    const VERBS: [&str; 9] = ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "CONNECT", "TRACE"];
    VERBS.into_iter().find(|verb| *verb == method).unwrap_or(OTHER)
}

impl Metrics {
    /// A request has come. `route`: the template its path matched, if any.
    pub fn request(&self, method: &str, path: &str, route: Option<&str>) -> RequestSeen {
        let nameless = |route: &str| NEVER_RAW.iter().any(|prefix| route.starts_with(prefix));
        // A path without a route is nobody's: a scanner must not fill the table with what it tries.
        let wanted = route.is_some_and(|route| self.options.raw_paths && !nameless(route));
        let shown = if path.len() <= limits::RAW_PATH_BYTES_MAX { path } else { OTHER };
        let raw = wanted.then_some(shown);
        RequestSeen {
            route: route.unwrap_or(OTHER).into(),
            raw: raw.map(Box::from),
            verb: verb(method),
            begun: Instant::now(),
        }
    }

    /// Its answer has begun.
    pub fn answered(&self, seen: RequestSeen, code: u16) {
        self.answered_after(seen, code, None);
    }

    /// Kinds of errors there may be. They are told from the start with 0: what grows from nothing to one does not seem to grow.
    pub fn declare_errors(&self, kinds: impl IntoIterator<Item = &'static str>) {
        kinds.into_iter().for_each(|kind| drop(self.errors.get(kind, |_| OTHER)));
    }

    /// A request was refused or failed.
    pub fn failed(&self, kind: &'static str) {
        self.errors.get(kind, |_| OTHER).fetch_add(1, Ordering::Relaxed);
    }

    /// Somebody was refused room for a connection, a body or a feed.
    pub fn refused(&self, room: &'static str, reason: &'static str) {
        self.refusals.get((room, reason), |_| (OTHER, OTHER)).fetch_add(1, Ordering::Relaxed);
    }

    /// Tells from the start, with 0, what may be refused.
    pub(super) fn declare_refusals(&self) {
        for room in ["bodies", "connections", "feeds"] {
            let slow = (room == "bodies").then_some("slow");
            for reason in ["address", "class", "full"].into_iter().chain(slow) {
                drop(self.refusals.get((room, reason), |_| (OTHER, OTHER)));
            }
        }
    }

    pub(super) fn write_refusals(&self, text: &mut Text) {
        text.head(&catalogue::REFUSALS);
        for ((room, reason), count) in self.refusals.all() {
            text.sample(&catalogue::REFUSALS, &[room, reason], count.load(Ordering::Relaxed));
        }
    }

    fn answered_after(&self, seen: RequestSeen, code: u16, time: Option<Duration>) {
        let RequestSeen { route, raw, verb, begun } = seen;
        let time = time.unwrap_or_else(|| begun.elapsed());
        let key = RequestKey { path: raw.unwrap_or_else(|| route.clone()), verb, code };
        let counter = self.requests.get(key, |key| RequestKey { path: OTHER.into(), ..key });
        counter.fetch_add(1, Ordering::Relaxed);
        let key = RouteKey { path: route, verb };
        self.durations.get(key, |key| RouteKey { path: OTHER.into(), ..key }).observe(time);
    }

    pub(super) fn write_requests(&self, text: &mut Text) {
        text.head(&catalogue::REQUESTS);
        for (RequestKey { path, verb, code }, count) in self.requests.all() {
            text.sample(&catalogue::REQUESTS, &[&code.to_string(), &path, verb], count.load(Ordering::Relaxed));
        }
        text.head(&catalogue::DURATIONS);
        for (RouteKey { path, verb }, times) in self.durations.all() {
            times.write(text, &catalogue::DURATIONS, &[&path, verb]);
        }
        text.head(&catalogue::ERRORS);
        for (kind, count) in self.errors.all() {
            text.sample(&catalogue::ERRORS, &[kind], count.load(Ordering::Relaxed));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::MetricsOptions;

    fn counted(raw_paths: bool, requests: &[(&str, &str, Option<&str>, u16)]) -> String {
        let metrics = Metrics::new(MetricsOptions { raw_paths, machines: true }, "1");
        for (method, path, route, code) in requests {
            let seen = metrics.request(method, path, *route);
            metrics.answered_after(seen, *code, Some(Duration::from_millis(3)));
        }
        let mut text = Text::default();
        metrics.write_requests(&mut text);
        String::from_utf8(text.0).expect("UTF-8")
    }

    fn counts(text: &str) -> Vec<&str> {
        text.lines().filter_map(|line| line.strip_prefix("sabakan_api_request_count")).collect()
    }

    #[test]
    fn requests_are_counted_by_route_answer_and_method() {
        let route = Some("/api/v1/machines/{serial}");
        let text = counted(
            false,
            &[
                ("GET", "/api/v1/machines/a", route, 200),
                ("GET", "/api/v1/machines/b", route, 200),
                ("GET", "/api/v1/machines/c", route, 404),
                ("BREW", "/nowhere", None, 404),
            ],
        );
        assert_eq!(
            counts(&text),
            [
                "{code=\"200\",path=\"/api/v1/machines/{serial}\",verb=\"GET\"} 2",
                "{code=\"404\",path=\"/api/v1/machines/{serial}\",verb=\"GET\"} 1",
                "{code=\"404\",path=\"other\",verb=\"other\"} 1",
            ]
        );
        let times = "sabakan_api_request_duration_seconds_count{path=\"/api/v1/machines/{serial}\",verb=\"GET\"} 3\n";
        assert!(text.contains(times), "{text}");
    }

    #[test]
    fn raw_paths_are_those_of_routes_and_never_of_secrets() {
        let long = format!("/api/v1/machines/{}", "x".repeat(limits::RAW_PATH_BYTES_MAX));
        let machine = Some("/api/v1/machines/{serial}");
        let text = counted(
            true,
            &[
                ("GET", "/api/v1/machines/a", machine, 200),
                ("GET", &long, machine, 400),
                ("GET", "/api/v1/crypts/a/disk-by-path", Some("/api/v1/crypts/{serial}/{disk}"), 200),
                ("DELETE", "/api/v1/tokens/0123", Some("/api/v1/tokens/{id}"), 200),
                ("GET", "/anything", None, 404),
            ],
        );
        assert_eq!(
            counts(&text),
            [
                "{code=\"200\",path=\"/api/v1/crypts/{serial}/{disk}\",verb=\"GET\"} 1",
                "{code=\"200\",path=\"/api/v1/machines/a\",verb=\"GET\"} 1",
                "{code=\"200\",path=\"/api/v1/tokens/{id}\",verb=\"DELETE\"} 1",
                "{code=\"400\",path=\"other\",verb=\"GET\"} 1",
                "{code=\"404\",path=\"other\",verb=\"GET\"} 1",
            ]
        );
        assert!(!text.contains("duration_seconds_count{path=\"/api/v1/machines/a\""), "times go by route");
    }

    #[test]
    fn raw_paths_past_the_bound_are_counted_together() {
        let paths: Vec<_> = (0..limits::REQUEST_SERIES_MAX + 50).map(|n| format!("/api/v1/machines/{n}")).collect();
        let requests: Vec<_> =
            paths.iter().map(|path| ("GET", &**path, Some("/api/v1/machines/{serial}"), 404)).collect();
        let text = counted(true, &requests);
        let counts = counts(&text);
        assert_eq!(counts.len(), limits::REQUEST_SERIES_MAX + 1);
        assert_eq!(counts.last(), Some(&"{code=\"404\",path=\"other\",verb=\"GET\"} 50"));
    }
}
