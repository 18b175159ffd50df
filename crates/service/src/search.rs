//! Runs searches, each where it belongs: small ones at once, large ones away from the threads that serve connections, a few at a time,
//! and none for a caller that has gone. What is found holds room until it is dropped, so that answers nobody reads are bounded.

use std::{ops::Deref, sync::Arc, time::Duration};

use sabakan_domain::{machine::Machine, query::Query};
use sabakan_store::{
    StoreError,
    view::{Plan, Snapshot},
};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, oneshot},
    time::timeout,
};

use crate::{ServiceError, limits};

/// Machines that were found, and the room they take.
#[derive(Debug)]
pub struct FoundMachines {
    machines: Vec<Arc<Machine>>,
    _room: Option<OwnedSemaphorePermit>,
}

impl Deref for FoundMachines {
    type Target = [Arc<Machine>];

    fn deref(&self) -> &[Arc<Machine>] {
        &self.machines
    }
}

/// Runs searches within bounds.
pub(crate) struct Searches {
    scans: Arc<Semaphore>,
    held: Arc<Semaphore>,
    wait_max: Duration,
}

impl Searches {
    pub(crate) fn new() -> Searches {
        Searches::with_bounds(limits::HELD_MACHINES_MAX, limits::SCAN_WAIT_MAX)
    }

    fn with_bounds(machines: usize, wait_max: Duration) -> Searches {
        let (scans, held) = (Semaphore::new(limits::SCANS_MAX), Semaphore::new(machines));
        Searches { scans: Arc::new(scans), held: Arc::new(held), wait_max }
    }

    pub(crate) async fn run(&self, snapshot: Arc<Snapshot>, query: &Query) -> Result<FoundMachines, ServiceError> {
        // Planning looks at every value, and is not done here when there are many.
        let values = query.value_count();
        let plan = (values <= limits::SEARCH_INLINE_MAX).then(|| snapshot.plan(query));
        match plan {
            Some(plan) if plan.cost() + values <= limits::SEARCH_INLINE_MAX => {
                let found = snapshot.search_while(query, plan, || true);
                self.hold(found.expect("nothing stops it"))
            }
            plan => self.hold(self.scan(snapshot, query.clone(), plan).await?),
        }
    }

    /// A search on a thread of its own, when it is its turn.
    async fn scan(
        &self,
        snapshot: Arc<Snapshot>,
        query: Query,
        plan: Option<Plan>,
    ) -> Result<Vec<Arc<Machine>>, ServiceError> {
        let turn = timeout(self.wait_max, Arc::clone(&self.scans).acquire_owned()).await;
        let Ok(Ok(turn)) = turn else {
            return Err(ServiceError::Crowded("too many searches through many machines at once"));
        };
        let (answer, answered) = oneshot::channel();
        tokio::task::spawn_blocking(move || {
            let plan = plan.unwrap_or_else(|| snapshot.plan(&query));
            // The place is given back when the work ends, not when its caller goes: that is what keeps the processors free.
            let found = snapshot.search_while(&query, plan, || !answer.is_closed());
            drop(turn);
            let _gone = found.map(|found| answer.send(found));
        });
        let stopped = |_| StoreError::Unavailable { reason: "the server is stopping".to_owned() };
        Ok(answered.await.map_err(stopped)?)
    }

    fn hold(&self, machines: Vec<Arc<Machine>>) -> Result<FoundMachines, ServiceError> {
        if machines.len() <= limits::HELD_FREE_MAX {
            return Ok(FoundMachines { machines, _room: None });
        }
        let units = u32::try_from(machines.len()).unwrap_or(u32::MAX);
        match Arc::clone(&self.held).try_acquire_many_owned(units) {
            Ok(room) => Ok(FoundMachines { machines, _room: Some(room) }),
            Err(_) => Err(ServiceError::Crowded("too many long answers are not read yet")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use jiff::Timestamp;
    use sabakan_domain::{
        lifecycle::HealthState,
        machine::{Bmc, Labels, Nic, Rack, Status},
        query::{Criteria, LabelCondition},
    };

    use super::*;

    const DEADLINE: Duration = Duration::from_secs(30);

    fn machine() -> Arc<Machine> {
        let nic = Nic { address: [10, 0, 0, 1].into(), maskbits: 24, gateway: [10, 0, 0, 254].into() };
        let since = Timestamp::UNIX_EPOCH;
        Arc::new(Machine {
            serial: "a".parse().expect("serial"),
            labels: Labels::default(),
            rack: Rack(0),
            index_in_rack: 3,
            role: "worker".parse().expect("role"),
            nics: [nic].into(),
            bmc: Bmc { kind: "IPMI-2.0".parse().expect("type"), nic },
            register_date: since,
            retire_date: since.into(),
            status: Status { state: HealthState::Healthy, since },
        })
    }

    /// A search with so many values that it is not made at once, whatever the number of machines.
    fn long() -> Query {
        let labels = LabelCondition::AnyOf(vec![("a".into(), "b".into()); limits::SEARCH_INLINE_MAX + 1]);
        Query { not_having: Criteria { labels, ..Criteria::default() }, ..Query::default() }
    }

    #[test]
    fn answers_hold_their_room_until_they_are_dropped() {
        let searches = Searches::with_bounds(1_000, DEADLINE);
        let list = |count: usize| vec![machine(); count];
        let first = searches.hold(list(600)).expect("room");
        let refused = searches.hold(list(600)).expect_err("no room").to_string();
        assert_eq!(refused, "too many long answers are not read yet; try again");
        let short = searches.hold(list(limits::HELD_FREE_MAX)).expect("short ones need none");
        assert_eq!((first.len(), short.len()), (600, limits::HELD_FREE_MAX));
        drop(first);
        searches.hold(list(600)).expect("room again");
    }

    #[tokio::test]
    async fn long_searches_wait_for_their_turn_but_not_for_ever() {
        let searches = Searches::with_bounds(1_000, Duration::from_millis(50));
        let snapshot = Arc::new(Snapshot::default());
        let turns = u32::try_from(limits::SCANS_MAX).expect("few");
        let turns = Arc::clone(&searches.scans).acquire_many_owned(turns).await.expect("all turns");
        let refused = searches.run(Arc::clone(&snapshot), &long()).await.expect_err("no turn").to_string();
        assert_eq!(refused, "too many searches through many machines at once; try again");
        searches.run(Arc::clone(&snapshot), &Query::default()).await.expect("a small one needs none");
        drop(turns);
        searches.run(snapshot, &long()).await.expect("a turn");
    }

    #[tokio::test]
    async fn turns_come_back_from_callers_that_went_away() {
        let searches = Searches::with_bounds(1_000, DEADLINE);
        let snapshot = Arc::new(Snapshot::default());
        for _ in 0..20 {
            let _gone = timeout(Duration::ZERO, searches.run(Arc::clone(&snapshot), &long())).await;
        }
        let deadline = Instant::now() + DEADLINE;
        while searches.scans.available_permits() < limits::SCANS_MAX {
            assert!(Instant::now() < deadline, "turns are not given back");
            tokio::task::yield_now().await;
        }
    }
}
