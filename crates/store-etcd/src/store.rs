//! The store interface in etcd's requests.
//!
//! **The head key.** A reader that must not miss an acknowledged write waits until its watch has reached that write's
//! revision. etcd's own current revision is no use for that: it also moves for keys of other users, of which our watch hears
//! nothing, and the progress notes etcd 3.4 offers instead can overtake the events they speak of. So every commit also puts
//! `<prefix>head`: its mod revision is the latest commit, and every watch gets an event for it. The key is ours alone: it does
//! not show up in lists and watches, and neither counts nor vanishes when a prefix that covers it is compared or deleted.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use bytes::Bytes;
use prost::Message;
use sabakan_store::{
    Compare, KeyValue, LeaseId, Op, Page, Range, Revision, Snapshot, Store, StoreError, StoreFuture, Txn, TxnLimits,
    TxnOutcome, Watch, check_limits,
};

use crate::{
    EtcdConfig,
    cluster::{Cluster, ONCE, ONE_ROUND, Patience, REPEATABLE},
    failure::{Failure, Refusal},
    limits,
    messages::{self as pb, path},
    range::KeyRange,
    watch::EtcdWatch,
    wide,
};

/// sabakan's store on an etcd cluster.
pub struct EtcdStore {
    cluster: Arc<Cluster>,
    head: String,
    max_txn_ops: usize,
    max_request_bytes: usize,
    limits: TxnLimits,
    /// When etcd last acknowledged a write; `None` after one that failed.
    wrote: Mutex<Option<Instant>>,
}

const HINT: &str = "; raise etcd's --max-request-bytes and sabakan's --etcd-max-request-bytes together";
const HINT_WIDTH: &str = "; raise etcd's --max-txn-ops and sabakan's --etcd-max-txn-ops together";
const HINT_LOWER: &str = " or less; etcd itself refused it, so its --max-txn-ops or --max-request-bytes is lower than \
                          sabakan's --etcd-max-txn-ops or --etcd-max-request-bytes says";

impl EtcdStore {
    /// Finds a member that answers. Fails if there is none within `connect_timeout`, or if it does not let us in.
    pub async fn connect(config: EtcdConfig) -> Result<EtcdStore, StoreError> {
        let cluster = Arc::new(Cluster::new(&config)?);
        let max_txn_ops = config.max_txn_ops.max(limits::HEAD_OPS + 1);
        let usual = max_txn_ops.max(limits::USUAL_TXN_OPS);
        let overhead = (usual * limits::OVERHEAD_PER_OP).min(config.max_request_bytes / 2);
        let bytes_max = config.max_request_bytes - overhead;
        let store = EtcdStore {
            cluster,
            head: format!("{}head", config.prefix),
            max_txn_ops,
            max_request_bytes: config.max_request_bytes,
            limits: TxnLimits {
                ops_max: wide::capacity(max_txn_ops).min(limits::WIDE_TXN_OPS_MAX.max(max_txn_ops)) - limits::HEAD_OPS,
                bytes_max,
                value_bytes_max: sabakan_store::limits::VALUE_BYTES_MAX.min(bytes_max),
                hint: HINT,
            },
            wrote: Mutex::new(None),
        };
        let patience = Patience { repeatable: true, window: config.connect_timeout, whole_round: true };
        store.read_head(patience).await.map_err(|failure| match failure {
            Failure::NotProcessed(reason) | Failure::Unanswered(reason) => {
                let seconds = config.connect_timeout.as_secs_f64();
                StoreError::Unavailable { reason: format!("no etcd member answered within {seconds} s: {reason}") }
            }
            other => other.into(),
        })?;
        Ok(store)
    }

    async fn read_head(&self, patience: Patience) -> Result<Revision, Failure> {
        let answer: pb::RangeResponse = self.cluster.call(path::RANGE, &self.head_range(), patience).await?;
        Ok(answer.kvs.first().map_or(Revision::NONE, |kv| revision(kv.mod_revision)))
    }

    fn head_range(&self) -> pb::RangeRequest {
        pb::RangeRequest { key: self.head.clone().into(), keys_only: true, ..Default::default() }
    }

    fn head_put(&self) -> pb::RequestOp {
        pb::Request::Put(pb::PutRequest { key: self.head.clone().into(), value: Bytes::new(), lease: 0 }).into()
    }

    async fn do_commit(&self, txn: Txn) -> Result<TxnOutcome, StoreError> {
        check_limits(&txn, &self.limits)?;
        let read_only = txn.then.is_empty();
        let (request, ops) = self.txn_request(txn)?;
        let bytes = request.encoded_len();
        if bytes + limits::ENVELOPE_BYTES > self.max_request_bytes {
            let limit = self.max_request_bytes - limits::ENVELOPE_BYTES.min(self.max_request_bytes);
            return Err(StoreError::TooLarge { what: "bytes", size: bytes, limit, hint: HINT });
        }
        let patience = if read_only { REPEATABLE } else { ONCE };
        let answer: pb::TxnResponse = match self.cluster.call(path::TXN, &request, patience).await {
            Ok(answer) => answer,
            // A guard did not hold; see `wide`.
            Err(Failure::Refused(Refusal::FutureRevision)) => return Ok(TxnOutcome::Conflicted),
            Err(failure) => return Err(self.commit_failed(failure, read_only, (ops, bytes))),
        };
        if !answer.succeeded {
            return Ok(TxnOutcome::Conflicted);
        }
        if !wide::all_held(&answer) {
            return Err(corrupt(b"etcd", "it wrote a transaction although one of its compares did not hold"));
        }
        if !read_only {
            self.note_write(true);
        }
        Ok(TxnOutcome::Committed(header_revision(answer.header.as_ref())))
    }

    /// The transaction in etcd's terms, nested if it is too wide, and how many operations it has.
    fn txn_request(&self, txn: Txn) -> Result<(pb::TxnRequest, usize), StoreError> {
        let read_only = txn.then.is_empty();
        let compares: Vec<_> = txn.when.into_iter().flat_map(|compare| self.compare(compare)).collect();
        let mut writes: Vec<_> = txn.then.into_iter().flat_map(|op| self.op(op)).collect();
        // Without a read in it etcd would answer an empty transaction from whatever this member knows, however old.
        writes.push(if read_only { pb::Request::Range(self.head_range()).into() } else { self.head_put() });
        let ops = compares.len().max(writes.len());
        let request = wide::pack(compares, writes, self.max_txn_ops, &self.head);
        let limit = self.limits.ops_max;
        let refused = || StoreError::TooLarge { what: "operations", size: ops, limit, hint: HINT_WIDTH };
        Ok((request.ok_or_else(refused)?, ops))
    }

    fn commit_failed(&self, failure: Failure, read_only: bool, (ops, bytes): (usize, usize)) -> StoreError {
        let lower = |what, size| StoreError::TooLarge { what, size, limit: size - 1, hint: HINT_LOWER };
        match failure {
            Failure::Refused(Refusal::TooManyOps) => lower("operations", ops),
            Failure::Refused(Refusal::RequestTooLarge) => lower("bytes", bytes),
            other if read_only => other.into(),
            Failure::Unanswered(reason) => {
                self.note_write(false);
                StoreError::OutcomeUnknown { reason }
            }
            other => match StoreError::from(other) {
                StoreError::Unavailable { reason } => {
                    self.note_write(false);
                    StoreError::CannotWrite { reason }
                }
                error => error,
            },
        }
    }

    /// Takes down how the last write went.
    fn note_write(&self, succeeded: bool) {
        *self.wrote.lock().unwrap_or_else(PoisonError::into_inner) = succeeded.then(Instant::now);
    }

    /// Writes the head key, as every commit does: only that shows a majority, a quota that is not used up, and the right to write.
    async fn do_check_writable(&self) -> Result<(), StoreError> {
        let wrote = *self.wrote.lock().unwrap_or_else(PoisonError::into_inner);
        if wrote.is_some_and(|at| at.elapsed() < limits::WRITE_PROOF_AGE_MAX) {
            return Ok(());
        }
        let request = pb::TxnRequest { success: vec![self.head_put()], ..Default::default() };
        // One round: whoever asks wants an answer within a second, and will ask again.
        match self.cluster.call::<_, pb::TxnResponse>(path::TXN, &request, ONE_ROUND).await {
            Ok(_) => {
                self.note_write(true);
                Ok(())
            }
            Err(failure) => Err(match StoreError::from(failure) {
                StoreError::Unavailable { reason } => StoreError::CannotWrite { reason },
                error => error,
            }),
        }
    }

    /// One condition; two if a prefix has the head key in its midst.
    fn compare(&self, compare: Compare) -> Vec<pb::Compare> {
        use pb::{CompareResult as Result, CompareTarget as Target, TargetUnion};
        let one = |key: String, result: Result, union| pb::Compare {
            result: result.into(),
            target: match union {
                TargetUnion::Version(_) => Target::Version.into(),
                TargetUnion::ModRevision(_) => Target::Mod.into(),
            },
            key: key.into(),
            target_union: Some(union),
            range_end: Vec::new(),
        };
        match compare {
            Compare::ModRevision(key, at) => {
                vec![one(key, Result::Equal, TargetUnion::ModRevision(number(at)))]
            }
            // An absent key has version 0, a present one counts its writes.
            Compare::Missing(key) => vec![one(key, Result::Equal, TargetUnion::Version(0))],
            Compare::Exists(key) => vec![one(key, Result::Greater, TargetUnion::Version(0))],
            Compare::NoneWithPrefix(prefix) => {
                let ranges = KeyRange::of_prefix(&prefix).without(&self.head).into_iter();
                let none = |range: KeyRange| pb::Compare {
                    key: range.key,
                    range_end: range.end,
                    ..one(String::new(), Result::Equal, TargetUnion::Version(0))
                };
                ranges.map(none).collect()
            }
        }
    }

    /// One write; two if a prefix has the head key in its midst.
    fn op(&self, op: Op) -> Vec<pb::RequestOp> {
        match op {
            Op::Put { key, value, lease } => {
                let put = pb::PutRequest { key: key.into(), value, lease: lease.map_or(0, |lease| lease.0) };
                vec![pb::Request::Put(put).into()]
            }
            Op::Delete(key) => {
                let delete = pb::DeleteRangeRequest { key: key.into(), range_end: Vec::new() };
                vec![pb::Request::DeleteRange(delete).into()]
            }
            Op::DeletePrefix(prefix) => {
                let ranges = KeyRange::of_prefix(&prefix).without(&self.head).into_iter();
                let delete = |range: KeyRange| pb::DeleteRangeRequest { key: range.key, range_end: range.end };
                ranges.map(|range| pb::Request::DeleteRange(delete(range)).into()).collect()
            }
        }
    }

    async fn do_get_many(&self, keys: Vec<String>) -> Result<Snapshot, StoreError> {
        let mut values = Vec::with_capacity(keys.len());
        // The first chunk's: every value, later ones too, was current at it or after.
        let mut first = None;
        let mut chunk = self.max_txn_ops;
        while values.len() < keys.len() || first.is_none() {
            let part = &keys[values.len()..keys.len().min(values.len() + chunk)];
            let ranges = part.iter().map(|key| pb::RangeRequest { key: key.clone().into(), ..Default::default() });
            let mut reads: Vec<_> = ranges.map(|range| pb::Request::Range(range).into()).collect();
            if part.is_empty() {
                reads.push(pb::Request::Range(self.head_range()).into());
            }
            let request = pb::TxnRequest { success: reads, ..Default::default() };
            let answer: pb::TxnResponse = match self.cluster.call(path::TXN, &request, REPEATABLE).await {
                Err(Failure::Refused(Refusal::AnswerTooLarge | Refusal::TooManyOps)) if part.len() > 1 => {
                    chunk = part.len() / 2;
                    continue;
                }
                answer => answer?,
            };
            first.get_or_insert(header_revision(answer.header.as_ref()));
            let mut responses = answer.responses.into_iter();
            for _ in part {
                let Some(pb::Response::Range(range)) = responses.next().and_then(|answer| answer.response) else {
                    return Err(corrupt(b"etcd", "a read was answered with something else"));
                };
                values.push(range.kvs.into_iter().next().map(key_value).transpose()?);
            }
        }
        Ok(Snapshot { values, revision: first.unwrap_or_default() })
    }

    async fn do_list(&self, range: Range) -> Result<Page, StoreError> {
        let mut keys = KeyRange::of_prefix(&range.prefix);
        if let Some(after) = &range.after {
            keys = keys.after(after);
        }
        let hidden = usize::from(keys.contains(&self.head));
        let mut limit = range.limit.max(1);
        loop {
            let request = pb::RangeRequest {
                key: keys.key.clone(),
                range_end: keys.end.clone(),
                // One more where the head key may take a place.
                limit: i64::try_from(limit + hidden).unwrap_or(i64::MAX),
                // To etcd 0 means now. Its history begins with 1, when there is nothing yet.
                revision: range.at.map_or(0, |at| number(at).max(1)),
                keys_only: false,
            };
            let answer: pb::RangeResponse = match self.cluster.call(path::RANGE, &request, REPEATABLE).await {
                Err(Failure::Refused(Refusal::AnswerTooLarge)) if limit > 1 => {
                    limit /= 2;
                    continue;
                }
                // etcd does not say what it has kept; at least this much is gone.
                Err(Failure::Refused(Refusal::Compacted)) => {
                    let requested = range.at.unwrap_or_default();
                    return Err(StoreError::Compacted { requested, compacted: requested });
                }
                answer => answer?,
            };
            let kvs = answer.kvs.into_iter().filter(|kv| kv.key != self.head.as_bytes());
            let mut items = kvs.map(key_value).collect::<Result<Vec<_>, _>>()?;
            let more = answer.more || items.len() > limit;
            items.truncate(limit);
            let revision = range.at.unwrap_or_else(|| header_revision(answer.header.as_ref()));
            return Ok(Page { items, revision, more });
        }
    }

    async fn do_revoke(&self, lease: LeaseId) -> Result<(), StoreError> {
        let request = pb::LeaseRevokeRequest { id: lease.0 };
        match self.cluster.call::<_, pb::Empty>(path::LEASE_REVOKE, &request, REPEATABLE).await {
            Ok(_) | Err(Failure::Refused(Refusal::LeaseNotFound)) => {}
            Err(failure) => return Err(failure.into()),
        }
        // The keys went without a commit of ours: say so, or a reader right behind us might still see them.
        let request = pb::TxnRequest { success: vec![self.head_put()], ..Default::default() };
        self.cluster.call::<_, pb::TxnResponse>(path::TXN, &request, REPEATABLE).await?;
        Ok(())
    }
}

impl Store for EtcdStore {
    fn commit(&self, txn: Txn) -> StoreFuture<'_, TxnOutcome> {
        Box::pin(self.do_commit(txn))
    }

    fn get_many(&self, keys: Vec<String>) -> StoreFuture<'_, Snapshot> {
        Box::pin(self.do_get_many(keys))
    }

    fn list(&self, range: Range) -> StoreFuture<'_, Page> {
        Box::pin(self.do_list(range))
    }

    fn latest_commit(&self) -> StoreFuture<'_, Revision> {
        Box::pin(async { Ok(self.read_head(REPEATABLE).await?) })
    }

    fn watch(&self, prefix: String, from: Revision) -> StoreFuture<'_, Watch> {
        Box::pin(async move {
            let watch = EtcdWatch::open(self.cluster.clone(), prefix, self.head.clone(), from).await?;
            Ok(Box::new(watch) as Watch)
        })
    }

    fn grant_lease(&self, ttl: Duration) -> StoreFuture<'_, LeaseId> {
        Box::pin(async move {
            let whole = ttl.as_secs() + u64::from(ttl.subsec_nanos() > 0);
            let request = pb::LeaseGrantRequest { ttl: i64::try_from(whole.max(1)).unwrap_or(i64::MAX) };
            // Granting twice leaves a lease without keys, which ends by itself.
            let answer: pb::LeaseGrantResponse = self.cluster.call(path::LEASE_GRANT, &request, REPEATABLE).await?;
            Ok(LeaseId(answer.id))
        })
    }

    fn keep_alive(&self, lease: LeaseId) -> StoreFuture<'_, bool> {
        Box::pin(async move {
            let request = pb::LeaseKeepAliveRequest { id: lease.0 };
            let accept = |_: &pb::LeaseKeepAliveResponse| Ok(());
            match self.cluster.open(path::LEASE_KEEP_ALIVE, &request, REPEATABLE, accept).await {
                Ok(stream) => Ok(stream.into_first().is_some_and(|answer| answer.ttl > 0)),
                Err(Failure::Refused(Refusal::LeaseNotFound)) => Ok(false),
                Err(failure) => Err(failure.into()),
            }
        })
    }

    fn revoke_lease(&self, lease: LeaseId) -> StoreFuture<'_, ()> {
        Box::pin(self.do_revoke(lease))
    }

    fn compact(&self, revision: Revision) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            let request = pb::CompactionRequest { revision: number(revision) };
            match self.cluster.call::<_, pb::Empty>(path::COMPACT, &request, REPEATABLE).await {
                // Already gone is what was asked for.
                Ok(_) | Err(Failure::Refused(Refusal::Compacted)) => Ok(()),
                Err(failure) => Err(failure.into()),
            }
        })
    }

    fn limits(&self) -> TxnLimits {
        self.limits
    }

    fn check_writable(&self) -> StoreFuture<'_, ()> {
        Box::pin(self.do_check_writable())
    }
}

/// etcd's revisions are signed and never negative.
pub fn revision(number: i64) -> Revision {
    Revision(u64::try_from(number).unwrap_or(0))
}

pub fn number(revision: Revision) -> i64 {
    i64::try_from(revision.0).unwrap_or(i64::MAX)
}

pub fn key_value(kv: pb::KeyValue) -> Result<KeyValue, StoreError> {
    Ok(KeyValue {
        key: key(kv.key)?,
        value: kv.value.into(),
        create_revision: revision(kv.create_revision),
        mod_revision: revision(kv.mod_revision),
        lease: (kv.lease != 0).then_some(LeaseId(kv.lease)),
    })
}

pub fn key(bytes: Vec<u8>) -> Result<String, StoreError> {
    String::from_utf8(bytes).map_err(|error| corrupt(error.as_bytes(), "the key is not UTF-8"))
}

fn header_revision(header: Option<&pb::ResponseHeader>) -> Revision {
    header.map_or(Revision::NONE, |header| revision(header.revision))
}

fn corrupt(place: &[u8], reason: &str) -> StoreError {
    StoreError::Corrupt { place: String::from_utf8_lossy(place).into_owned(), reason: reason.to_owned() }
}
