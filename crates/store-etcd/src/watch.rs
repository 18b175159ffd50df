//! A watch that outlives its connections: it delivers whole revisions, and after a broken stream goes on at the next member
//! with the revision behind the last one delivered, so nothing is missed and nothing comes twice.
//!
//! **Which keys.** A batch is due for every commit, also for those that change other prefixes, so the watch must hear of the
//! head key as well. Two watchers on one stream would not do: each goes at its own pace, and after an event of one there is no
//! telling whether the other still has something for the same revision. So one watcher covers the smallest range that holds
//! both the prefix and the head key, and what lies between is dropped here. For prefixes of sabakan's own keys that range
//! holds nothing but sabakan's keys. For others, say `/states/`, it may also hold foreign keys, which costs bandwidth, and the
//! etcd user needs permission to read that range.

use std::{sync::Arc, time::Duration};

use sabakan_store::{Event, Revision, StoreError, StoreFuture, WatchBatch, WatchSource};
use tokio::time::{Instant, sleep_until};
use tonic::Status;
use tracing::warn;

use crate::{
    cluster::{Cluster, ONE_ROUND, Opened, Patience, REPEATABLE},
    failure::{Failure, classify},
    limits,
    messages::{self as pb, path},
    range::KeyRange,
    store::{key, key_value, number, revision},
};

pub struct EtcdWatch {
    cluster: Arc<Cluster>,
    prefix: String,
    head: String,
    /// The first revision not delivered yet.
    next: Revision,
    stream: Option<OpenStream>,
    /// Failures since something was last delivered.
    failures: u32,
    retry_at: Instant,
}

struct OpenStream {
    responses: Opened<pb::WatchRequest, pb::WatchResponse>,
    /// Events of a revision whose rest is still to come.
    pending: Vec<pb::Event>,
}

impl EtcdWatch {
    pub async fn open(
        cluster: Arc<Cluster>,
        prefix: String,
        head: String,
        from: Revision,
    ) -> Result<EtcdWatch, StoreError> {
        // To etcd a watch from 0 begins now; to us it begins at the beginning.
        let next = from.max(Revision(1));
        let mut watch = EtcdWatch { cluster, prefix, head, next, stream: None, failures: 0, retry_at: Instant::now() };
        watch.connect(REPEATABLE).await?;
        Ok(watch)
    }

    async fn connect(&mut self, patience: Patience) -> Result<(), Failure> {
        let range = KeyRange::of_prefix(&self.prefix).including(&self.head);
        let create = pb::WatchCreateRequest {
            key: range.key,
            range_end: range.end,
            start_revision: number(self.next),
            // Otherwise the history of a thousand revisions may arrive as one message, too large to accept.
            fragment: true,
        };
        let request = pb::WatchRequest { request_union: Some(pb::WatchRequestUnion::Create(create)) };
        let responses = self.cluster.open(path::WATCH, &request, patience, permitted).await?;
        self.stream = Some(OpenStream { responses, pending: Vec::new() });
        Ok(())
    }

    /// May be dropped and called again at any time: whatever was received but not returned stays in `self`.
    async fn next_batch(&mut self) -> Result<WatchBatch, StoreError> {
        loop {
            let Some(stream) = &mut self.stream else {
                sleep_until(self.retry_at).await;
                if let Err(failure) = self.connect(ONE_ROUND).await {
                    return Err(self.failed(failure));
                }
                continue;
            };
            let status = match stream.responses.next().await {
                Ok(Some(response)) if response.canceled && response.compact_revision > 0 => {
                    self.stream = None;
                    let compacted = revision(response.compact_revision - 1);
                    return Err(StoreError::Compacted { requested: self.next, compacted });
                }
                Ok(Some(response)) if response.canceled => Status::unavailable("etcd cancelled the watch"),
                Ok(Some(response)) => match self.take(response)? {
                    Some(batch) => return Ok(batch),
                    None => continue,
                },
                Ok(None) => Status::unavailable("the stream ended"),
                Err(status) => status,
            };
            let member = stream.responses.member;
            self.stream = None;
            self.cluster.leave(member, &status);
            // The first break is mended without a word to the caller.
            if self.failures == 0 {
                self.failures = 1;
                continue;
            }
            return Err(self.failed(classify(&status)));
        }
    }

    /// Takes in one message and gives out the revisions that are whole, if the caller is to hear of them.
    fn take(&mut self, response: pb::WatchResponse) -> Result<Option<WatchBatch>, StoreError> {
        let Some(stream) = &mut self.stream else { return Ok(None) };
        stream.pending.extend(response.events);
        let whole = whole_revisions(&stream.pending, response.fragment);
        let Some(last) = whole.checked_sub(1).map(|at| mod_revision(&stream.pending[at])) else { return Ok(None) };
        let mut events = Vec::new();
        let mut commit = false;
        for event in stream.pending.drain(..whole) {
            let Some(kv) = event.kv else { continue };
            commit |= kv.key == self.head.as_bytes();
            if kv.key == self.head.as_bytes() || !kv.key.starts_with(self.prefix.as_bytes()) {
                continue;
            }
            events.push(if event.r#type == i32::from(pb::EventType::Delete) {
                Event::Delete { mod_revision: revision(kv.mod_revision), key: key(kv.key)? }
            } else {
                Event::Put(key_value(kv)?)
            });
        }
        self.next = last.next();
        self.failures = 0;
        // Nobody waits for the revision of a foreign key.
        Ok((commit || !events.is_empty()).then_some(WatchBatch { revision: last, events }))
    }

    fn failed(&mut self, failure: Failure) -> StoreError {
        let pause = pause(self.failures);
        self.failures = self.failures.saturating_add(1);
        self.retry_at = Instant::now() + pause;
        let error = StoreError::from(failure);
        warn!(revision = %self.next, pause_ms = pause.as_millis(), %error, "watch interrupted");
        error
    }
}

impl WatchSource for EtcdWatch {
    fn next(&mut self) -> StoreFuture<'_, WatchBatch> {
        Box::pin(self.next_batch())
    }
}

/// etcd answers a watch it does not permit, or whose token is too old, with a cancellation; which of the two it was, older
/// versions do not say. A new token settles it.
fn permitted(first: &pb::WatchResponse) -> Result<(), Status> {
    if first.canceled && first.compact_revision == 0 {
        return Err(Status::unauthenticated("the watch was not permitted"));
    }
    Ok(())
}

/// How many of the events belong to revisions that are complete: all, or, if the message continues in another one, all
/// before the last revision.
fn whole_revisions(events: &[pb::Event], continued: bool) -> usize {
    match events.last() {
        Some(last) if continued => events.iter().take_while(|event| mod_revision(event) < mod_revision(last)).count(),
        _ => events.len(),
    }
}

fn mod_revision(event: &pb::Event) -> Revision {
    event.kv.as_ref().map_or(Revision::NONE, |kv| revision(kv.mod_revision))
}

fn pause(failures: u32) -> Duration {
    limits::WATCH_PAUSE_MIN.saturating_mul(1 << failures.min(16)).min(limits::WATCH_PAUSE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revision_is_held_back_until_its_last_fragment() {
        let check = |revisions: &[i64], continued: bool, expected: usize| {
            let event = |at: &i64| pb::Event {
                kv: Some(pb::KeyValue { mod_revision: *at, ..Default::default() }),
                ..Default::default()
            };
            let events: Vec<_> = revisions.iter().map(event).collect();
            assert_eq!(whole_revisions(&events, continued), expected, "{revisions:?} {continued}");
        };
        check(&[], false, 0);
        check(&[], true, 0);
        check(&[5, 5, 6], false, 3);
        check(&[5, 5, 6], true, 2);
        check(&[5, 5], true, 0);
    }

    #[test]
    fn pauses_grow_and_are_bounded() {
        assert_eq!(pause(0), Duration::from_millis(100));
        assert_eq!(pause(3), Duration::from_millis(800));
        assert_eq!(pause(u32::MAX), limits::WATCH_PAUSE_MAX);
    }
}
