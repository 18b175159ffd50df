//! Deletes audit entries that are older than the operator wants to keep them: one day for each hour the server has run, and never
//! because of the clock alone ([`sabakan_domain::retention`]).

use std::{
    mem::{self, Discriminant},
    sync::Arc,
    time::{Duration, Instant},
};

use jiff::{SignedDuration, Timestamp};
use sabakan_domain::{
    limits::AUDIT_ENTRIES_FLOOR,
    retention::{RetentionDecision, RetentionRefusal, decide_retention, log_time, oldest_day_kept},
};
use sabakan_store::{StoreError, repo::audit};
use tokio_util::sync::CancellationToken;

use crate::{Foundation, error_chain, metrics::Succeeded};

/// How often old entries are looked for, and how long a server runs before it deletes its first day: one that is started again and
/// again would otherwise delete a day each time.
const TICK: Duration = Duration::from_secs(60 * 60);

/// Looks, and deletes, until told to stop. Several servers on one store may do it, each at its own pace.
pub async fn run(on: Arc<Foundation>, days: u32, succeeded: Succeeded, stop: CancellationToken) {
    let mut retention = Retention::new(on, days);
    let begun = Instant::now();
    let mut may_delete = false;
    loop {
        match retention.pass(begun.elapsed(), may_delete).await {
            Ok(_) => succeeded.mark(),
            Err(error) => {
                tracing::warn!(error = error_chain(&error), task = "retention", "audit entries not deleted");
            }
        }
        may_delete = true;
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(TICK) => {}
        }
    }
}

/// What one server remembers between its looks.
struct Retention {
    on: Arc<Foundation>,
    days: u32,
    /// The newest entry that was found first, and how long the server had run by then. What this server writes later carries the
    /// time of its own clock and proves nothing about it.
    found: Option<(Timestamp, Duration)>,
    /// What was refused last, so that it is logged once and not every hour.
    refused: Option<(Discriminant<RetentionRefusal>, usize)>,
}

impl Retention {
    fn new(on: Arc<Foundation>, days: u32) -> Retention {
        Retention { on, days, found: None, refused: None }
    }

    /// One look, after the server has run for a while; what was decided. Without `may_delete` it is only decided.
    async fn pass(&mut self, running: Duration, may_delete: bool) -> Result<RetentionDecision, StoreError> {
        let (store, keys) = (&*self.on.store, &self.on.keys);
        if self.days == 0 {
            return Ok(RetentionDecision::Keep);
        }
        let now = self.on.clock.now();
        if self.found.is_none() {
            self.found = audit::newest(store, keys).await?.map(|newest| (newest, running));
        }
        let log = self.found.map(|(newest, since)| {
            let later = SignedDuration::try_from(running.saturating_sub(since)).unwrap_or(SignedDuration::MAX);
            log_time(newest, later)
        });
        let days = audit::days(store, keys, oldest_day_kept(now, self.days), AUDIT_ENTRIES_FLOOR).await?;
        let decision = decide_retention(&days, log, now, self.days);
        match &decision {
            RetentionDecision::Keep => self.refused = None,
            RetentionDecision::Delete { day, waiting } => {
                self.refused = None;
                if may_delete {
                    let count = audit::forget_day(store, keys, day.day).await?;
                    let (day, kept) = (day.day, self.days);
                    tracing::warn!(count, %day, days_waiting = waiting, days_kept = kept, task = "retention",
                        "a day of old audit entries deleted");
                }
            }
            RetentionDecision::Refuse(refusal) => self.tell(refusal),
        }
        Ok(decision)
    }

    /// A small log that keeps its floor is ordinary; a clock that disagrees with the log is not.
    fn tell(&mut self, refusal: &RetentionRefusal) {
        let (days, entries) = match refusal {
            RetentionRefusal::ClockAhead { days, entries, .. } | RetentionRefusal::Floor { days, entries } => {
                (*days, *entries)
            }
        };
        let told = Some((mem::discriminant(refusal), days));
        if mem::replace(&mut self.refused, told) == told {
            return;
        }
        match refusal {
            RetentionRefusal::ClockAhead { .. } => tracing::warn!(days, entries, reason = %refusal, task = "retention",
                "old audit entries are kept, because clock and log disagree"),
            RetentionRefusal::Floor { .. } => {
                tracing::info!(days, entries, reason = %refusal, task = "retention", "old audit entries are kept");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::ToSpan;
    use sabakan_domain::{
        audit::{Actor, AuditEntry, Category},
        ipam::OutsidePool,
    };
    use sabakan_store::{Op, Txn, TxnOutcome, embedded::EmbeddedStore, keys::Keys, records::AuditRecord};
    use tempfile::TempDir;

    use super::*;
    use crate::{
        FakeClock,
        metrics::{Metrics, MetricsOptions, Task},
    };

    const HOUR: Duration = TICK;
    /// Days of the log, and entries of each.
    const DAYS: i32 = 100;
    const PER_DAY: usize = 30;

    struct Site {
        on: Arc<Foundation>,
        clock: Arc<FakeClock>,
        _dir: TempDir,
    }

    impl Site {
        /// A log of a hundred days that ends now.
        async fn new() -> Site {
            let now: Timestamp = "2026-11-15T12:00:00Z".parse().expect("a time");
            let dir = tempfile::tempdir().expect("a directory");
            let store = Arc::new(EmbeddedStore::open(&dir.path().join("s.db")).expect("a store"));
            let (clock, keys) = (Arc::new(FakeClock::new(now)), Keys::new("/sabakan/", "/states/"));
            let on = Foundation::open(store, keys, clock.clone(), OutsidePool::Refuse, "host".to_owned()).await;
            let site = Site { on: Arc::new(on.expect("a foundation")), clock, _dir: dir };
            for day in 0..DAYS {
                site.write(now - (24 * day).hours(), PER_DAY, Category::Machines).await;
            }
            site
        }

        async fn write(&self, at: Timestamp, count: usize, category: Category) {
            let entry = AuditEntry {
                at,
                actor: Actor::internal("test"),
                host: "host".to_owned(),
                category: category.clone(),
                instance: "m".to_owned(),
                action: "delete".to_owned(),
                detail: String::new(),
            };
            let value = serde_json::to_vec(&AuditRecord::from(&entry)).expect("JSON");
            let day = at.strftime("%Y%m%d").to_string();
            let key = |n: usize| format!("/sabakan/audit/{day}/{category:?}{n:08}");
            let then = (0..count).map(|n| Op::put(key(n), value.clone())).collect();
            let outcome = self.on.store.commit(Txn { when: vec![], then }).await.expect("committed");
            assert!(matches!(outcome, TxnOutcome::Committed(_)));
        }

        async fn count(&self) -> usize {
            let days = audit::days(&*self.on.store, &self.on.keys, jiff::civil::Date::MAX, 1).await.expect("days");
            days.iter().map(|day| day.entries).sum()
        }
    }

    const ALL: usize = 100 * PER_DAY;

    #[tokio::test]
    async fn a_start_with_the_clock_far_ahead_deletes_nothing() {
        let site = Site::new().await;
        site.clock.advance(SignedDuration::from_hours(100 * 24));
        let mut retention = Retention::new(Arc::clone(&site.on), 100);
        for hour in 0..5 {
            let decision = retention.pass(HOUR * hour, true).await.expect("a look");
            let refused = matches!(
                decision,
                RetentionDecision::Refuse(RetentionRefusal::ClockAhead { days: 99, entries, .. }) if entries == 99 * PER_DAY
            );
            assert!(refused, "{decision:?}");
            // Its own entries carry the time of the same clock.
            site.write(site.on.clock.now(), 1, Category::Cluster).await;
        }
        assert_eq!(site.count().await, ALL + 1);
    }

    #[tokio::test]
    async fn one_day_goes_each_hour_and_proofs_stay() {
        let site = Site::new().await;
        let oldest = site.on.clock.now() - (24 * (DAYS - 1)).hours();
        site.write(oldest, 2, Category::Crypts).await;
        let mut retention = Retention::new(Arc::clone(&site.on), 60);
        let decision = retention.pass(Duration::ZERO, false).await.expect("a look");
        assert!(matches!(decision, RetentionDecision::Delete { waiting: 38, .. }), "{decision:?}");
        assert_eq!(site.count().await, ALL + 2, "a start deletes nothing");
        for hour in 1..=3_u8 {
            site.clock.advance(SignedDuration::from_hours(1));
            retention.pass(HOUR * u32::from(hour), true).await.expect("a look");
            assert_eq!(site.count().await, ALL + 2 - usize::from(hour) * PER_DAY);
        }
    }

    #[tokio::test]
    async fn zero_days_keep_everything_and_a_start_deletes_nothing() {
        let site = Site::new().await;
        let mut retention = Retention::new(Arc::clone(&site.on), 0);
        assert_eq!(retention.pass(HOUR, true).await.expect("a look"), RetentionDecision::Keep);
        let metrics = Metrics::new(MetricsOptions::default(), "1");
        let stop = CancellationToken::new();
        stop.cancel();
        run(Arc::clone(&site.on), 60, metrics.task(Task::Retention, site.clock.clone()), stop).await;
        assert_eq!(site.count().await, ALL);
    }

    #[tokio::test]
    async fn the_newest_entry_is_found_among_days() {
        let site = Site::new().await;
        let (store, keys) = (&*site.on.store, &site.on.keys);
        let stray = Op::put("/sabakan/audit/zz/1", "x");
        let outcome = store.commit(Txn { when: vec![], then: vec![stray] }).await.expect("committed");
        assert!(matches!(outcome, TxnOutcome::Committed(_)));
        assert_eq!(audit::newest(store, keys).await.expect("an answer"), Some(site.on.clock.now()));
    }
}
