//! The catalogue, and what is decided from one scrape to the next. Whole answers are judged in the end-to-end suite.

use std::collections::BTreeSet;

use super::{catalogue::CATALOGUE, *};

#[test]
fn names_and_labels_follow_the_format() {
    let word = |text: &str| {
        let first = |c: char| c.is_ascii_lowercase();
        text.starts_with(first) && text.chars().all(|c| first(c) || c.is_ascii_digit() || c == '_')
    };
    let names: BTreeSet<_> = CATALOGUE.iter().map(|metric| metric.name).collect();
    assert_eq!(names.len(), CATALOGUE.len(), "no name comes twice");
    for metric in CATALOGUE {
        assert!(word(metric.name) && metric.labels.iter().all(|label| word(label)), "{}", metric.name);
        assert!(metric.help.ends_with('.') && !metric.labels.contains(&"le"), "{}", metric.name);
    }
}

#[test]
fn what_the_older_service_had_is_there_word_for_word() {
    let expected = [
        (
            "sabakan_machine_status",
            "gauge",
            "status,address,serial,rack,role,machine_type",
            "The machine status set by HTTP API.",
        ),
        ("sabakan_api_request_count", "counter", "code,path,verb", "The total count of API calls."),
        ("sabakan_assets_bytes_total", "gauge", "", "The total bytes of assets."),
        ("sabakan_assets_items_total", "gauge", "", "The total items of assets."),
        ("sabakan_images_bytes_total", "gauge", "", "The total bytes of Images."),
        ("sabakan_images_items_total", "gauge", "", "The total items of Images."),
    ];
    for (name, kind, labels, help) in expected {
        let metric = CATALOGUE.iter().find(|metric| metric.name == name).unwrap_or_else(|| panic!("{name} is missing"));
        assert_eq!((metric.kind.as_str(), metric.labels.join(",").as_str(), metric.help), (kind, labels, help));
    }
}

#[test]
fn a_view_is_stuck_from_the_first_look_that_finds_it_where_the_last_did() {
    let metrics = Metrics::new(MetricsOptions::default(), "1");
    let since = || metrics.behind.lock().expect("free").as_ref().map(|behind| behind.since);
    assert_eq!(metrics.stuck_for(Revision(5), Revision(5)), Duration::ZERO);
    assert_eq!(since(), None);
    metrics.stuck_for(Revision(5), Revision(6));
    let first = since().expect("behind");
    metrics.stuck_for(Revision(5), Revision(9));
    assert_eq!(since(), Some(first), "still at the same place");
    metrics.stuck_for(Revision(6), Revision(9));
    assert!(since().is_some_and(|second| second >= first), "it moved: counted anew");
    assert_eq!(metrics.stuck_for(Revision(9), Revision(9)), Duration::ZERO);
    assert_eq!(since(), None);
}

#[test]
fn tasks_say_when_they_last_did_their_work() {
    let metrics = Metrics::new(MetricsOptions::default(), "1");
    let clock = Arc::new(crate::FakeClock::new("2026-11-15T00:00:00Z".parse().expect("a time")));
    metrics.task(Task::Retention, clock).mark();
    let at = metrics.last_success.each_ref().map(|(task, at)| (*task, at.load(Ordering::Relaxed)));
    assert_eq!(at, [("compactor", 0), ("retention", 1_794_700_800)]);
}
