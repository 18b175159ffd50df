//! What a client of the model does: one call of a function of the product, run against recorded answers. A call is a function of
//! the answers it got, so that a call under way is its request and those answers: running it again leads to its next operation on
//! the store, or to its end.

use std::{
    collections::VecDeque,
    future::{pending, ready},
    sync::Mutex,
};

use bytes::Bytes;
use sabakan_domain::{
    crypt::DiskPath,
    ipam::OutsidePool,
    lifecycle::{Force, HealthState},
    words::Serial,
};
use sabakan_store::{
    KeyValue, Page, Range, Revision, Snapshot, Store, StoreFuture, Txn, TxnOutcome,
    repo::{crypts, machines},
};

use crate::model::{self, by, lock, names, new_machine, rest_of_the_store};

/// A request as a client makes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Request {
    SetState { machine: usize, to: HealthState, force: bool },
    PutKey { machine: usize, disk: usize },
    Erase { machine: usize },
    Remove { machine: usize },
    Register { machine: usize },
    Reseal,
}

/// A key as a client saw it. Revisions are only ever compared for equality with the present one, so it is enough to know whether
/// the key was written since.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Item {
    pub key: String,
    pub value: Bytes,
    pub fresh: bool,
}

/// What the store answered.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Reply {
    Values(Vec<Option<Item>>),
    Items { items: Vec<Item>, more: bool },
    Outcome { committed: bool },
}

/// An operation on the store.
#[derive(Debug, Clone)]
pub enum Asked {
    Get(Vec<String>),
    List(Range),
    Commit(Txn),
}

/// How far a call comes with the answers it has.
#[derive(Debug, Clone)]
pub enum Reached {
    Asks(Asked),
    Ends { acknowledged: bool },
}

/// The revision of a key that was not written since it was read.
pub const FRESH: Revision = Revision(2);
const STALE: Revision = Revision(1);

pub fn serial(machine: usize) -> Serial {
    Serial::new(format!("m{machine}")).unwrap()
}

/// Runs the product's function for a request as far as the answers reach.
pub fn run(request: Request, replies: &[Reply]) -> Reached {
    let store = Script { replies: Mutex::new(replies.iter().cloned().collect()), asked: Mutex::new(None) };
    match model::run(call(&store, request)) {
        Some(acknowledged) => Reached::Ends { acknowledged },
        None => Reached::Asks(lock(&store.asked).take().expect("only the store makes a call wait")),
    }
}

/// Whether it was acknowledged.
async fn call(store: &dyn Store, request: Request) -> bool {
    let (keys, by) = (names(), by());
    match request {
        Request::SetState { machine, to, force } => {
            let force = if force { Force::Yes } else { Force::No };
            machines::set_state(store, &keys, &by, &serial(machine), to, force).await.is_ok()
        }
        Request::PutKey { machine, disk } => {
            let disk = DiskPath::new(format!("d{disk}")).unwrap();
            crypts::put(store, &keys, &by, &serial(machine), &disk, &Bytes::from_static(b"key")).await.is_ok()
        }
        Request::Erase { machine } => {
            crypts::erase(store, &keys, &by, &serial(machine), |_| String::new()).await.is_ok()
        }
        Request::Remove { machine } => machines::remove(store, &keys, &by, &serial(machine)).await.is_ok(),
        Request::Register { machine } => {
            let new = new_machine(&serial(machine));
            machines::register(store, &keys, &by, &[new], OutsidePool::Refuse, |_| None).await.is_ok()
        }
        Request::Reseal => {
            let again = |_: &Serial, _: &DiskPath, sealed: &Bytes| Ok(Some(sealed.clone()));
            crypts::reseal_page(store, &keys, None, again).await.is_ok()
        }
    }
}

/// Gives the recorded answers, then notes what is asked next and never answers it.
struct Script {
    replies: Mutex<VecDeque<Reply>>,
    asked: Mutex<Option<Asked>>,
}

impl Script {
    fn answer<T: Send + 'static>(&self, asked: Asked, take: fn(Reply) -> Option<T>) -> StoreFuture<'_, T> {
        match lock(&self.replies).pop_front() {
            Some(reply) => Box::pin(ready(Ok(take(reply).expect("the answer belongs to what is asked")))),
            None => {
                *lock(&self.asked) = Some(asked);
                Box::pin(pending())
            }
        }
    }
}

impl Store for Script {
    fn commit(&self, txn: Txn) -> StoreFuture<'_, TxnOutcome> {
        self.answer(Asked::Commit(txn), |reply| match reply {
            Reply::Outcome { committed: true } => Some(TxnOutcome::Committed(FRESH)),
            Reply::Outcome { committed: false } => Some(TxnOutcome::Conflicted),
            Reply::Values(_) | Reply::Items { .. } => None,
        })
    }

    fn get_many(&self, keys: Vec<String>) -> StoreFuture<'_, Snapshot> {
        self.answer(Asked::Get(keys), |reply| match reply {
            Reply::Values(values) => {
                let values = values.into_iter().map(|item| item.map(stored)).collect();
                Some(Snapshot { values, revision: FRESH })
            }
            Reply::Items { .. } | Reply::Outcome { .. } => None,
        })
    }

    fn list(&self, range: Range) -> StoreFuture<'_, Page> {
        self.answer(Asked::List(range), |reply| match reply {
            Reply::Items { items, more } => {
                Some(Page { items: items.into_iter().map(stored).collect(), revision: FRESH, more })
            }
            Reply::Values(_) | Reply::Outcome { .. } => None,
        })
    }

    rest_of_the_store!();
}

fn stored(item: Item) -> KeyValue {
    let Item { key, value, fresh } = item;
    let mod_revision = if fresh { FRESH } else { STALE };
    KeyValue { key, value, create_revision: mod_revision, mod_revision, lease: None }
}
