//! Changes in the order they were made, for followers outside: the watch, decoded. Each revision comes with its audit entries and with
//! the machines it changed, as they were before and after. Disk keys and tokens are never looked at; their changes show only as the
//! entry.
//!
//! The feed remembers where it is and pulls: one that is not asked costs nothing.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use sabakan_domain::{audit::AuditEntry, machine::Machine};

use crate::{
    Event, KeyValue, Range, Revision, Store, StoreError, Watch,
    keys::{Keys, Known},
    limits,
    records::{self, AuditRecord},
};

/// Changes from a revision on.
pub struct Feed {
    store: Arc<dyn Store>,
    keys: Keys,
    watch: Watch,
    /// What the last batch of the watch holds and nobody has taken yet.
    pending: VecDeque<Event>,
    /// Where that batch ends.
    batch_end: Revision,
    reached: Revision,
    /// Machines as the feed saw them last: what they are before their next change. Saves the read for those that change often.
    seen: HashMap<String, Option<KeyValue>>,
}

/// What one transaction changed. Without an entry and without machines it only says how far the feed is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeedBatch {
    /// Everything up to here has been delivered.
    pub revision: Revision,
    /// Who did what, in the order it was written; none when somebody wrote past this program, or when it was housekeeping.
    pub entries: Vec<AuditEntry>,
    /// Machines it changed, in the order they were written.
    pub changes: Vec<MachineChange>,
}

/// One machine before and after.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineChange {
    /// Which.
    pub serial: String,
    /// As it was; `None`: there was none.
    pub before: Option<Machine>,
    /// As it is; `None`: it is gone.
    pub after: Option<Machine>,
}

impl Feed {
    /// Changes after a revision. `Compacted` when the store has forgotten them, or what was there before the first of them.
    pub async fn open(store: Arc<dyn Store>, keys: Keys, after: Revision) -> Result<Feed, StoreError> {
        probe(&*store, &keys, after).await?;
        let watch = store.watch(keys.prefix().to_owned(), after.next()).await?;
        let (pending, seen) = (VecDeque::new(), HashMap::new());
        Ok(Feed { store, keys, watch, pending, batch_end: after, reached: after, seen })
    }

    /// The next revision that changed something, or how far the store has come without. Nothing is lost when the caller stops
    /// waiting. After an error other than `Unavailable` the feed is over.
    pub async fn next(&mut self) -> Result<FeedBatch, StoreError> {
        if self.pending.is_empty() && self.reached >= self.batch_end {
            let batch = self.watch.next().await?;
            self.batch_end = batch.revision;
            let keys = &self.keys;
            self.pending = batch.events.into_iter().filter(|event| concerns(keys, event)).collect();
        }
        let Some(revision) = self.pending.front().map(Event::mod_revision) else {
            self.reached = self.batch_end;
            return Ok(FeedBatch { revision: self.batch_end, entries: Vec::new(), changes: Vec::new() });
        };
        let count = self.pending.iter().take_while(|event| event.mod_revision() == revision).count();
        let mut batch = FeedBatch { revision, entries: Vec::new(), changes: Vec::with_capacity(count) };
        let mut written = Vec::with_capacity(count);
        for event in self.pending.range(..count) {
            let Some(Known::Machine(serial)) = self.keys.recognise(event.key()) else {
                batch.entries.extend(entry_of(event));
                continue;
            };
            let before = before(&*self.store, &self.seen, event).await?;
            let after = match event {
                Event::Put(kv) => Some(kv.clone()),
                Event::Delete { .. } => None,
            };
            batch.changes.push(MachineChange {
                serial: serial.to_owned(),
                before: before.as_ref().and_then(decode),
                after: after.as_ref().and_then(decode),
            });
            written.push((event.key().to_owned(), after));
        }
        // Only now, behind the last wait, does the feed move on.
        self.pending.drain(..count);
        self.reached = revision;
        for (key, value) in written {
            self.remember(key, value);
        }
        Ok(batch)
    }

    fn remember(&mut self, key: String, value: Option<KeyValue>) {
        if self.seen.len() >= limits::FEED_SEEN_MAX {
            self.seen.clear();
        }
        // A copy of its own: a slice would keep the whole batch it came with.
        let own = |kv: KeyValue| KeyValue { value: Bytes::copy_from_slice(&kv.value), ..kv };
        self.seen.insert(key, value.map(own));
    }
}

/// The oldest revision a feed can be opened after, for one that found `after` gone.
pub async fn oldest(store: Arc<dyn Store>, keys: &Keys, after: Revision) -> Result<Revision, StoreError> {
    let mut gone = match probe(&*store, keys, after).await {
        Err(StoreError::Compacted { compacted, .. }) => compacted,
        other => return other.map(|()| after),
    };
    // One store tells at a read what it has kept, the other one only at a watch.
    let watched = async { store.watch(keys.prefix().to_owned(), after.next()).await?.next().await };
    if let Ok(Err(StoreError::Compacted { compacted, .. })) = tokio::time::timeout(TELL_WAIT, watched).await {
        gone = gone.max(compacted);
    }
    match probe(&*store, keys, gone).await {
        Ok(()) => Ok(gone),
        Err(StoreError::Compacted { .. }) => Ok(gone.next()),
        Err(error) => Err(error),
    }
}

/// How long a store may take to tell what it has kept. Without an answer the reader is told a revision that is too old, no more.
const TELL_WAIT: Duration = Duration::from_secs(1);

/// Whether the store still has what was there at a revision.
async fn probe(store: &dyn Store, keys: &Keys, at: Revision) -> Result<(), StoreError> {
    store.list(Range { at: Some(at.max(Revision(1))), limit: 1, ..Range::first(keys.machines()) }).await.map(drop)
}

/// A machine as it was before this change of it.
async fn before(
    store: &dyn Store,
    seen: &HashMap<String, Option<KeyValue>>,
    event: &Event,
) -> Result<Option<KeyValue>, StoreError> {
    if matches!(event, Event::Put(kv) if kv.create_revision == kv.mod_revision) {
        return Ok(None);
    }
    if let Some(seen) = seen.get(event.key()) {
        return Ok(seen.clone());
    }
    let at = Revision(event.mod_revision().0.saturating_sub(1));
    // A prefix read: the key itself, if it is there, comes before all that continue it.
    let page = store.list(Range { at: Some(at), limit: 1, ..Range::first(event.key()) }).await?;
    Ok(page.items.into_iter().find(|kv| kv.key == event.key()))
}

/// Machines and new audit entries; everything else has no place in memory here, sealed disk keys least of all.
fn concerns(keys: &Keys, event: &Event) -> bool {
    match keys.recognise(event.key()) {
        Some(Known::Machine(_)) => true,
        Some(
            Known::Ipam
            | Known::Dhcp
            | Known::Token(_)
            | Known::Node(_)
            | Known::Allocation(_)
            | Known::Recipe(..)
            | Known::Ports(_)
            | Known::Chassis(_)
            | Known::Lock(_)
            | Known::Conductor(_)
            | Known::Crypt(_),
        ) => false,
        None => matches!(event, Event::Put(kv) if kv.key.starts_with(&keys.audit())),
    }
}

fn entry_of(event: &Event) -> Option<AuditEntry> {
    let Event::Put(kv) = event else { return None };
    // One damaged entry must not end every feed that comes by it.
    let decoded = records::decode::<AuditRecord, _>(kv);
    decoded.inspect_err(|error| tracing::error!(%error, "an audit entry cannot be read and is left out")).ok()
}

/// As in the view: a record that cannot be read is no machine.
fn decode(kv: &KeyValue) -> Option<Machine> {
    let decoded = records::decode_machine(kv);
    decoded.inspect_err(|error| tracing::error!(%error, "a stored record cannot be read and is left out")).ok()
}
