//! What callers ask of the writer thread, and how each of them gets its answer.

use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::{LeaseId, Revision, StoreError, Txn, TxnOutcome};

/// A request in the queue.
#[derive(Debug)]
pub(super) enum Request {
    /// `room` is the memory it takes in the queue, given back with the answer.
    Commit {
        txn: Txn,
        answer: Answer<TxnOutcome>,
        room: OwnedSemaphorePermit,
    },
    Grant {
        ttl: Duration,
        answer: Answer<LeaseId>,
    },
    KeepAlive {
        lease: LeaseId,
        answer: Answer<bool>,
    },
    Revoke {
        lease: LeaseId,
        answer: Answer<()>,
    },
    Compact {
        revision: Revision,
        answer: Answer<()>,
    },
    /// Makes something durable that nobody reads, to see whether that works.
    Probe {
        answer: Answer<()>,
    },
    Stop {
        done: oneshot::Sender<()>,
    },
}

impl Request {
    /// How much it adds to a group.
    pub fn weight(&self) -> usize {
        match self {
            Request::Commit { txn, .. } => 1 + txn.when.len() + txn.then.len(),
            _ => 1,
        }
    }

    /// Sends the answer that was prepared, or the failure of the whole group.
    pub fn finish(self, failure: Option<&dyn Fn() -> StoreError>) {
        match self {
            Request::Commit { answer, room, .. } => {
                answer.send(failure);
                drop(room);
            }
            Request::Grant { answer, .. } => answer.send(failure),
            Request::KeepAlive { answer, .. } => answer.send(failure),
            Request::Revoke { answer, .. } | Request::Compact { answer, .. } | Request::Probe { answer } => {
                answer.send(failure);
            }
            Request::Stop { .. } => {}
        }
    }
}

/// A caller that waits, and what it will be told if the group becomes durable.
#[derive(Debug)]
pub(super) struct Answer<T> {
    to: oneshot::Sender<Result<T, StoreError>>,
    prepared: Option<Result<T, StoreError>>,
}

impl<T> Answer<T> {
    pub fn channel() -> (Answer<T>, oneshot::Receiver<Result<T, StoreError>>) {
        let (to, from) = oneshot::channel();
        (Answer { to, prepared: None }, from)
    }

    pub fn prepare(&mut self, result: Result<T, StoreError>) {
        self.prepared = Some(result);
    }

    fn send(self, failure: Option<&dyn Fn() -> StoreError>) {
        let result = match failure {
            Some(error) => Err(error()),
            None => self.prepared.expect("a group is only committed after each of its requests was applied"),
        };
        // A caller that stopped waiting does not want the answer.
        let _ = self.to.send(result);
    }
}
