//! Finds nodes for allocations.
//!
//! Level, not edge: a change in the view only wakes it; what there is to do is every allocation that still wants a node. Several
//! servers on one store may look at the same time: the transaction that gives a node away decides who was first.

use std::{collections::BTreeSet, convert::Infallible, sync::Arc};

use sabakan_domain::{
    audit::Actor,
    provision::{
        accept::Options,
        allocation::{self, Allocation, Candidate, NotTaken, Progress},
    },
    words::Serial,
};
use sabakan_store::{
    StoreError,
    repo::{
        ChangeError,
        allocations::{self, AllocationTaken, NotClaimed},
        nodes::Facts,
    },
    view::Snapshot,
};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::{Foundation, error_chain, limits};

/// Finds nodes for allocations.
pub struct Allocator {
    on: Arc<Foundation>,
    rules: Arc<Options>,
    /// In the audit log and in histories.
    actor: Actor,
}

/// What became of an allocation that was looked at.
enum Outcome {
    /// It has this node.
    Got(Serial),
    /// It needs none any more, or gets none.
    Over,
    /// It has to be looked at again.
    Later,
}

impl Allocator {
    /// Works on a foundation under the name of a server.
    pub fn new(on: Arc<Foundation>, rules: Arc<Options>, name: &str) -> Allocator {
        Allocator { on, rules, actor: Actor::internal(name) }
    }

    /// Works until told to stop.
    pub async fn run(self, stop: CancellationToken) {
        let mut moved = self.on.view.moved();
        while !stop.is_cancelled() {
            let began = Instant::now();
            let mut pause = limits::CONDUCTOR_PAUSE;
            if let Err(error) = self.round().await {
                tracing::warn!(error = error_chain(&error), task = "allocator", "allocations have to wait");
                pause = limits::CONDUCTOR_RETRY;
            }
            // One that waits for a busy node is looked at after every change: at most a tenth of one core is spent on it.
            let pause = pause.max(began.elapsed() * 10);
            tokio::select! {
                () = stop.cancelled() => {}
                () = async {
                    tokio::time::sleep(pause).await;
                    let _woken_or_later = tokio::time::timeout(limits::ALLOCATOR_TICK, moved.changed()).await;
                } => {}
            }
        }
    }

    /// Looks once at every allocation that wants a node.
    async fn round(&self) -> Result<(), StoreError> {
        if self.on.view.latest_known().allocations().wanting().next().is_none() {
            return Ok(());
        }
        let snapshot = self.on.view.read().await?;
        let (mut gone, mut failed) = (BTreeSet::new(), None);
        for wanting in snapshot.allocations().wanting() {
            match self.look(&snapshot, wanting, &gone).await {
                Ok(Outcome::Got(node)) => {
                    tracing::info!(allocation = %wanting.id, serial = %node, task = "allocator", "node allocated");
                    gone.insert(node);
                }
                Ok(Outcome::Over | Outcome::Later) => {}
                // The next one would fare no better.
                Err(
                    error @ (StoreError::Unavailable { .. }
                    | StoreError::CannotWrite { .. }
                    | StoreError::OutcomeUnknown { .. }),
                ) => return Err(error),
                // It is about this one and its node; the others shall not wait until somebody has put it right.
                Err(error) => failed = Some(error),
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// Tries nodes for one allocation. `gone`: nodes given away since the snapshot was taken.
    async fn look(
        &self,
        snapshot: &Snapshot,
        wanting: &Allocation,
        gone: &BTreeSet<Serial>,
    ) -> Result<Outcome, StoreError> {
        let found = allocation::matching(wanting, candidates(snapshot), self.rules.strictness);
        if found.ready.is_empty() && !found.may_fit_soon() {
            // No transaction could compare that no node fits. It was so at the revision of the snapshot, which is later than the
            // wish: whoever makes a node available afterwards was too late for this one.
            let now = self.on.clock.now();
            return self.give_up(wanting, |allocation| allocation::fail(allocation, &found, now)).await;
        }
        for node in found.ready.iter().filter(|node| !gone.contains(*node)).take(limits::ALLOCATION_TRIES) {
            match self.claim(wanting, node).await {
                Ok(_) => return Ok(Outcome::Got(node.clone())),
                Err(ChangeError::Refused(NotClaimed::Rule(NotTaken::Unfit))) => {}
                Err(ChangeError::Refused(NotClaimed::Rule(NotTaken::Over)) | ChangeError::NotFound) => {
                    return Ok(Outcome::Over);
                }
                Err(ChangeError::Refused(taken @ NotClaimed::Instance(..))) => {
                    let now = self.on.clock.now();
                    let reason = taken.to_string();
                    return self.give_up(wanting, |found| allocation::fail_because(found, &reason, now)).await;
                }
                Err(ChangeError::Store(error)) => return Err(error),
            }
        }
        // Others were faster, or somebody works on the nodes that fit. The next snapshot shows what is left.
        Ok(Outcome::Later)
    }

    async fn claim(&self, wanting: &Allocation, node: &Serial) -> Result<Allocation, ChangeError<NotClaimed>> {
        let on = &self.on;
        let by = on.by(&self.actor);
        let decide = |allocation: &Allocation, facts: &Facts| {
            let candidate = Candidate {
                node: &facts.node,
                machine: facts.machine.as_ref().map(|machine| machine.status.state),
                locked: facts.lock.is_some(),
            };
            allocation::take(allocation, &candidate, self.rules.strictness, &self.actor.name, by.now)
        };
        allocations::claim(&*on.store, &on.keys, &by, wanting.id, node, decide).await
    }

    async fn give_up(
        &self,
        wanting: &Allocation,
        fail: impl Fn(&Allocation) -> Allocation,
    ) -> Result<Outcome, StoreError> {
        let on = &self.on;
        let by = on.by(&self.actor);
        let decide = |allocation: &Allocation| -> Result<Option<Allocation>, Infallible> {
            Ok((allocation.progress == Progress::Allocating).then(|| fail(allocation)))
        };
        match allocations::edit(&*on.store, &on.keys, &by, wanting.id, "fail-allocation", decide).await {
            Ok(_) | Err(ChangeError::NotFound) => Ok(Outcome::Over),
            Err(ChangeError::Store(error)) => Err(error),
            // Neither its name nor its UUID changes.
            Err(ChangeError::Refused(AllocationTaken::Refused(never))) => match never {},
            Err(ChangeError::Refused(_)) => Ok(Outcome::Later),
        }
    }
}

/// Every node an allocation could get. One that nobody asked anything about is in enroll.
fn candidates(snapshot: &Snapshot) -> impl Iterator<Item = Candidate<'_>> {
    snapshot.nodes().stored().map(|node| Candidate {
        node,
        machine: snapshot.find_machine(node.name.as_str()).map(|machine| machine.status.state),
        locked: snapshot.nodes().lock(node.name.as_str()).is_some(),
    })
}
