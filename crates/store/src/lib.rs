//! Where sabakan keeps what it knows: a small revisioned key-value interface with etcd's meaning ([`Store`]), the embedded
//! backend, the typed repositories above it and the in-memory [`view`] that answers reads.
//!
//! This crate knows keys, atomicity and stored formats. It knows no rule of the domain (those are in `sabakan-domain`), no
//! HTTP and no driver. Nobody above it sees a key string. The etcd backend is `sabakan-store-etcd`, apart because it brings
//! gRPC with it.
#![warn(missing_docs)]

mod api;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod embedded;
pub mod keys;
pub mod limits;
pub mod records;
pub mod repo;
pub mod transfer;
pub mod view;

pub use api::{
    Compare, Event, KeyValue, LeaseId, Op, Page, Range, Revision, Snapshot, Store, StoreError, StoreFuture, Txn,
    TxnLimits, TxnOutcome, Watch, WatchBatch, WatchSource, check_limits,
};
