//! What the models of the store in `model_check` and `work_check` have in common: how a call is run against them, who makes it, and
//! what no call asks of a store.

use std::{
    collections::BTreeMap,
    future::ready,
    pin::pin,
    sync::{Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use jiff::Timestamp;
use sabakan_domain::{
    audit::Actor,
    machine::{NewMachine, NewMachineInput},
    words::Serial,
};
use sabakan_store::{StoreError, StoreFuture, keys::Keys, repo::audit::By};

/// Prefixes of the models' keys.
pub const PREFIX: &str = "/s/";
pub const PUBLISHED: &str = "/p/";

/// Now, for everything that is not too late.
pub const NOW: Timestamp = Timestamp::UNIX_EPOCH;

pub fn names() -> Keys {
    Keys::new(PREFIX, PUBLISHED)
}

pub fn by() -> By {
    By { actor: Actor::internal("model"), host: "model".to_owned(), now: NOW }
}

/// A store in which nothing is registered yet.
pub fn empty() -> BTreeMap<String, Bytes> {
    let ipam = r#"{"max-nodes-in-rack":28,"node-ipv4-pool":"10.69.0.0/16","node-ipv4-offset":"","node-ipv4-range-size":6,
        "node-ipv4-range-mask":26,"node-ip-per-node":3,"node-index-offset":3,"node-gateway-offset":1,
        "bmc-ipv4-pool":"10.72.16.0/20","bmc-ipv4-offset":"0.0.1.0","bmc-ipv4-range-size":5,"bmc-ipv4-range-mask":20,
        "bmc-ipv4-gateway-offset":1}"#;
    BTreeMap::from([(format!("{PREFIX}ipam"), Bytes::from_static(ipam.as_bytes()))])
}

/// A machine as it is registered.
pub fn new_machine(serial: &Serial) -> NewMachine {
    let input = NewMachineInput {
        serial: serial.to_string(),
        role: "worker".to_owned(),
        bmc_type: "iDRAC-9".to_owned(),
        ..NewMachineInput::default()
    };
    NewMachine::new(input).unwrap()
}

/// Runs a call as far as the store answers. `None`: it waits for an answer.
pub fn run<T>(call: impl Future<Output = T>) -> Option<T> {
    match pin!(call).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => Some(result),
        Poll::Pending => None,
    }
}

pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// No change of a machine, a key or a node does this; the models would have to learn it.
pub fn unused<'a, T: Send + 'a>() -> StoreFuture<'a, T> {
    Box::pin(ready(Err(StoreError::Invalid { reason: "not part of the model".to_owned() })))
}

/// The rest of an implementation of `Store` that can read and commit.
macro_rules! rest_of_the_store {
    () => {
        fn latest_commit(&self) -> sabakan_store::StoreFuture<'_, sabakan_store::Revision> {
            $crate::model::unused()
        }

        fn watch(&self, _: String, _: sabakan_store::Revision) -> sabakan_store::StoreFuture<'_, sabakan_store::Watch> {
            $crate::model::unused()
        }

        fn grant_lease(&self, _: std::time::Duration) -> sabakan_store::StoreFuture<'_, sabakan_store::LeaseId> {
            $crate::model::unused()
        }

        fn keep_alive(&self, _: sabakan_store::LeaseId) -> sabakan_store::StoreFuture<'_, bool> {
            $crate::model::unused()
        }

        fn revoke_lease(&self, _: sabakan_store::LeaseId) -> sabakan_store::StoreFuture<'_, ()> {
            $crate::model::unused()
        }

        fn compact(&self, _: sabakan_store::Revision) -> sabakan_store::StoreFuture<'_, ()> {
            $crate::model::unused()
        }

        fn limits(&self) -> sabakan_store::TxnLimits {
            sabakan_store::TxnLimits { ops_max: 128, bytes_max: 1 << 20, value_bytes_max: 1 << 20, hint: "" }
        }
    };
}

pub(crate) use rest_of_the_store;
