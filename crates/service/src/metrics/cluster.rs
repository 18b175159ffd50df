//! Figures of the planner of the Kubernetes cluster. The first four have the names that programs around CKE know.

use super::{
    catalogue::{
        CLUSTER_APPLIED_AT, CLUSTER_CHANGES, CLUSTER_MINIMUM_MET, CLUSTER_NODES_FAILED, CLUSTER_NODES_MISSING,
        CLUSTER_NODES_WANTED, CLUSTER_PLAN_SECONDS, CLUSTER_PLANNED_AT, CLUSTER_QUERY_FAILURES, CLUSTER_SUCCESSFUL,
        CLUSTER_UNUSED, CLUSTER_WORKERS,
    },
    text::Text,
};
use crate::cluster::{Figures, kubernetes::Progress};

/// Writes them. A server that does not plan has counters alone: figures of another server's cluster would be old.
pub(super) fn write(text: &mut Text, figures: &Figures) {
    let Figures { last, workers, unused, minimum_met, seconds, query_failures, changes } = figures;
    if let Some((successful, at)) = last {
        text.single(&CLUSTER_SUCCESSFUL, u8::from(*successful));
        text.single(&CLUSTER_PLANNED_AT, at.as_second());
        text.head(&CLUSTER_WORKERS);
        for (role, count) in workers {
            text.sample(&CLUSTER_WORKERS, &[role], count);
        }
        text.single(&CLUSTER_UNUSED, unused);
        text.single(&CLUSTER_MINIMUM_MET, u8::from(*minimum_met));
        text.single(&CLUSTER_PLAN_SECONDS, seconds);
    }
    text.single(&CLUSTER_QUERY_FAILURES, query_failures);
    text.single(&CLUSTER_CHANGES, changes);
}

/// Writes how applying goes. Only the server that does it knows.
pub(super) fn write_applying(text: &mut Text, progress: &Progress) {
    if !progress.leading || progress.last_round.is_none() {
        return;
    }
    text.single(&CLUSTER_NODES_WANTED, progress.as_wanted);
    text.single(&CLUSTER_NODES_MISSING, progress.missing);
    text.single(&CLUSTER_NODES_FAILED, progress.failed);
    if let Some(at) = progress.last_success {
        text.single(&CLUSTER_APPLIED_AT, at.as_second());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_does_not_plan_tells_nothing_about_the_cluster() {
        let shown = |figures: &Figures| {
            let mut text = Text::default();
            write(&mut text, figures);
            String::from_utf8(text.0).expect("text")
        };
        assert!(!shown(&Figures::default()).contains("cke_"));
        let at = "2026-11-15T00:00:00Z".parse().expect("a time");
        let workers = [("cs".to_owned(), 3)].into();
        let text = shown(&Figures { last: Some((true, at)), workers, unused: 2, ..Figures::default() });
        for line in [
            "cke_sabakan_integration_successful 1",
            "cke_sabakan_integration_timestamp_seconds 1794700800",
            "cke_sabakan_workers{role=\"cs\"} 3",
            "cke_sabakan_unused_machines 2",
            "sabakan_cluster_minimum_workers_met 0",
            "sabakan_cluster_query_failures_total 0",
        ] {
            assert!(text.lines().any(|shown| shown == line), "{line} in {text}");
        }
    }

    #[test]
    fn only_the_server_that_applies_tells_how_it_goes() {
        let shown = |progress: &Progress| {
            let mut text = Text::default();
            write_applying(&mut text, progress);
            String::from_utf8(text.0).expect("text")
        };
        let at = "2026-11-15T00:00:00Z".parse().expect("a time");
        let mut progress =
            Progress { as_wanted: 3, missing: 2, failed: 1, last_round: Some(at), ..Progress::default() };
        assert_eq!(shown(&progress), "");
        progress.leading = true;
        let text = shown(&progress);
        for line in
            ["sabakan_cluster_nodes_as_wanted 3", "sabakan_cluster_nodes_missing 2", "sabakan_cluster_nodes_failed 1"]
        {
            assert!(text.lines().any(|shown| shown == line), "{line} in {text}");
        }
        assert!(!text.contains("last_success"), "there was none yet");
        progress.last_success = Some(at);
        assert!(shown(&progress).contains("sabakan_cluster_apply_last_success_timestamp_seconds 1794700800"));
    }
}
