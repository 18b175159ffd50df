//! What every backend promises, as tests: the executable description of [`Store`], and of what rests on it most: that no number of
//! servers repairs more machines than allowed.
//!
//! A backend's own tests call [`run_all`], or take the [`cases`] one by one. A case assumes nothing about the store but that
//! nobody else writes under its prefix: the store may hold other data, revisions may start anywhere, others may write
//! meanwhile. One exception: `compaction` forgets history for everybody, so cases and [`random_operations`] must not run at
//! the same time against one server.

mod compaction;
mod concurrency;
mod leases;
mod model;
mod ranges;
mod repairs;
mod support;
mod txn;
mod watch;
mod wide;

use std::{pin::Pin, sync::Arc, time::Duration};

pub use self::model::random_operations;
use crate::Store;

/// Longest time of one case, on a slow and busy machine.
const CASE_MAX: Duration = Duration::from_secs(180);

type CaseFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// One promise. Running it panics when the backend breaks it.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    /// What is promised.
    pub name: &'static str,
    run: fn(Arc<dyn Store>, String) -> CaseFuture,
}

impl Case {
    /// Runs the case under a prefix nobody else uses. The error says what was expected and what came.
    pub async fn run(&self, store: Arc<dyn Store>, prefix: String) -> Result<(), String> {
        // In a task of its own, so that a failed assertion can be told together with the name of the case.
        let task = tokio::spawn((self.run)(store, prefix));
        let abort = task.abort_handle();
        match tokio::time::timeout(CASE_MAX, task).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(panic_text(error)),
            Err(_) => {
                abort.abort();
                Err(format!("not finished after {CASE_MAX:?}"))
            }
        }
    }
}

/// Runs every case, one after the other, each under its own part of `prefix`. Panics with the names and reasons of those that
/// failed.
pub async fn run_all(store: Arc<dyn Store>, prefix: &str) {
    let cases = cases();
    let mut failures = Vec::new();
    for case in &cases {
        let part = format!("{prefix}{}/", case.name);
        if let Err(reason) = case.run(Arc::clone(&store), part).await {
            failures.push(format!("{}: {reason}", case.name));
        }
    }
    assert!(failures.is_empty(), "{} of {} cases failed:\n{}", failures.len(), cases.len(), failures.join("\n"));
}

/// A list of cases, by module.
macro_rules! cases {
    ($($module:ident { $($case:ident),* $(,)? })*) => {
        vec![$($(Case {
            name: concat!(stringify!($module), "::", stringify!($case)),
            run: |store, prefix| Box::pin($module::$case(store, prefix)),
        }),*),*]
    };
}

/// Every case.
pub fn cases() -> Vec<Case> {
    let mut all = interface_cases();
    all.extend(repository_cases());
    all
}

/// What the interface promises.
fn interface_cases() -> Vec<Case> {
    cases! {
        txn {
            a_put_keeps_the_create_revision_until_the_key_is_removed,
            each_compare_holds_and_fails,
            all_compares_must_hold,
            a_conflict_writes_nothing,
            the_writes_share_one_revision,
            a_key_written_twice_is_refused,
            removing_what_is_absent_changes_nothing,
            values_are_any_bytes,
            a_value_of_the_largest_size_fits_and_a_larger_one_does_not,
            a_transaction_over_the_limits_is_refused,
        }
        ranges {
            a_prefix_is_exact_and_sorted_by_bytes,
            removing_a_prefix_is_exact,
            no_key_with_a_prefix_is_exact,
            pages_end_where_the_keys_end,
            pages_at_a_revision_are_consistent_while_writers_go_on,
            the_past_can_be_read,
            the_future_cannot_be_read,
            several_keys_are_read_in_the_order_asked,
            thousands_of_keys_are_listed_page_by_page,
        }
        watch {
            a_watch_from_the_past_sees_everything_since,
            a_watch_from_now_sees_what_comes,
            a_watch_sees_its_prefix_only,
            a_resumed_watch_has_no_gap_and_no_duplicate,
            a_batch_has_whole_transactions,
            a_watch_of_an_idle_prefix_reaches_the_present,
            a_watch_from_the_future_waits_for_it,
        }
        compaction {
            history_before_the_revision_is_gone,
            the_present_survives,
            a_watch_that_has_seen_everything_goes_on,
        }
        leases {
            keys_vanish_when_their_lease_runs_out,
            a_lease_kept_alive_lives,
            keys_vanish_when_their_lease_is_ended,
            a_key_put_again_follows_its_new_lease,
            an_unknown_lease_is_refused,
        }
        concurrency {
            no_increment_is_lost,
            writers_of_different_keys_all_succeed,
            an_acknowledged_commit_is_seen_by_every_later_read,
        }
        wide {
            many_writes_are_one_revision,
            one_compare_of_many_that_fails_stops_all_writes,
            many_compares_and_no_write_are_answered,
            many_writes_under_a_lost_lead_do_not_happen,
            many_keys_vanish_with_their_lease,
        }
    }
}

/// What repositories rest on when others write at the same time.
fn repository_cases() -> Vec<Case> {
    cases! {
        repairs {
            a_round_that_anything_changed_under_writes_nothing,
            a_round_under_a_lost_lead_writes_nothing,
            a_round_does_not_overwrite_what_a_person_said,
            nothing_begins_in_a_queue_that_was_disabled,
            no_step_begins_for_a_machine_that_was_just_mended,
            nobody_begins_anything_under_a_lost_lead,
            what_somebody_asked_for_meanwhile_stays,
            a_machine_is_repaired_once_at_a_time,
            the_last_place_is_taken_once,
            reboots_get_an_index_each,
            two_who_set_something_are_both_heard,
            the_log_says_what_changed,
        }
    }
}

fn panic_text(error: tokio::task::JoinError) -> String {
    let Ok(panic) = error.try_into_panic() else { return "it was cancelled".to_owned() };
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
        .unwrap_or_else(|| "it panicked".to_owned())
}
