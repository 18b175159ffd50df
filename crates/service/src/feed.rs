//! The event feed: every machine as it is now, then every change after that, each exactly once and in order (G11). A follower says
//! how far it got and goes on from there, on any server of the same store; where history is gone it is told so.
//!
//! Knows no format and keeps no queue: whoever sends the events asks for the next ones when the last have gone out.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use sabakan_domain::{
    audit::{Actor, AuditEntry},
    machine::Machine,
    query::Query,
};
use sabakan_store::{
    Range, Revision, StoreError,
    repo::feed::{self, Feed, FeedBatch, MachineChange},
};

use crate::{Foundation, ServiceError, error_chain};

/// Events handed over at once; about 200 KB as text.
const EVENTS_AT_ONCE: usize = 64;

/// Pause before a feed asks a store again that did not answer.
const RETRY: Duration = Duration::from_millis(500);

/// Opens feeds.
pub struct Feeds {
    on: Arc<Foundation>,
}

/// What a follower is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FeedEvent {
    /// A machine as it is at the revision of the snapshot.
    Snapshot {
        /// When the snapshot was taken, in the store's counting.
        revision: Revision,
        /// When, by the clock.
        at: Timestamp,
        /// The machine.
        machine: Arc<Machine>,
    },
    /// That was every machine; changes follow.
    SnapshotEnd {
        /// Go on after this.
        revision: Revision,
    },
    /// Something changed.
    Change(Box<Change>),
    /// Nothing more up to this revision.
    Progress {
        /// Go on after this.
        revision: Revision,
    },
    /// The store has forgotten what comes next. The feed is over.
    Gone {
        /// The last revision that was told completely.
        revision: Revision,
        /// The oldest revision to go on after.
        oldest: Revision,
    },
    /// The store failed. The feed is over.
    Failed {
        /// Go on after this.
        revision: Option<Revision>,
    },
}

/// One change of one thing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// When, in the store's counting. All changes of one transaction have the same.
    pub revision: Revision,
    /// When, by the clock of the server that made it; unknown when somebody wrote to the store past sabakan.
    pub at: Option<Timestamp>,
    /// `<category>.<action>` of the audit log.
    pub kind: String,
    /// The machine, or the instance of the audit log.
    pub serial: String,
    /// Who.
    pub actor: Option<Actor>,
    /// The machine before; `None`: it did not exist, or no machine changed.
    pub before: Option<Machine>,
    /// The machine after; `None`: it is gone, or no machine changed.
    pub after: Option<Machine>,
    /// Whether more of this revision follows; only behind the last is it told completely.
    pub more: bool,
}

/// The kind of a change that has no audit entry: somebody wrote to the store past sabakan.
const UNRECORDED: &str = "machines.unrecorded";

impl Feeds {
    /// Works on a foundation.
    pub fn new(on: Arc<Foundation>) -> Feeds {
        Feeds { on }
    }

    /// A feed of what happened after a revision, or, without one, of everything there is and then what happens. Without `follow` it
    /// ends with what has happened by now.
    pub async fn open(&self, after: Option<Revision>, follow: bool) -> Result<EventStream, ServiceError> {
        let on = Arc::clone(&self.on);
        let (after, snapshot, until) = match after {
            Some(after) => (after, None, self.present(after).await?),
            None => {
                let snapshot = on.view.read().await?;
                let revision = snapshot.revision();
                let machines = snapshot.search(&Query::default()).into_iter();
                (revision, Some(SnapshotPart { revision, at: on.clock.now(), machines }), revision)
            }
        };
        let feed = match Feed::open(Arc::clone(&on.store), on.keys.clone(), after).await {
            Ok(feed) => feed,
            Err(StoreError::Compacted { .. }) => {
                let oldest = feed::oldest(Arc::clone(&on.store), &on.keys, after).await?;
                return Err(ServiceError::Gone { requested: after.0, oldest: oldest.0 });
            }
            Err(error) => return Err(error.into()),
        };
        let reached = snapshot.is_none().then_some(after);
        let until = (!follow).then_some(until);
        Ok(EventStream { on, feed, snapshot, changes: None, reached, until, over: false })
    }

    /// The revision that is current now; refuses one that has not happened yet.
    async fn present(&self, after: Revision) -> Result<Revision, ServiceError> {
        let on = &self.on;
        let committed = on.store.latest_commit().await?;
        if after <= committed {
            return Ok(committed);
        }
        // A snapshot may show a revision that others made in a store we share.
        let newest = on.store.list(Range { limit: 1, ..Range::first(on.keys.prefix()) }).await?.revision;
        if after > newest {
            let text = format!("revision {after} has not happened yet, the newest is {newest}");
            return Err(ServiceError::Invalid(text));
        }
        Ok(committed)
    }
}

/// An open feed.
pub struct EventStream {
    on: Arc<Foundation>,
    feed: Feed,
    snapshot: Option<SnapshotPart>,
    changes: Option<ChangesPart>,
    reached: Option<Revision>,
    /// Ends here; `None`: never.
    until: Option<Revision>,
    over: bool,
}

struct SnapshotPart {
    revision: Revision,
    at: Timestamp,
    machines: std::vec::IntoIter<Arc<Machine>>,
}

/// The rest of one revision.
struct ChangesPart {
    revision: Revision,
    changes: std::vec::IntoIter<(Option<Arc<AuditEntry>>, MachineChange)>,
}

impl EventStream {
    /// The last revision told completely; `None` before the end of the snapshot. A follower goes on after it.
    pub fn reached(&self) -> Option<Revision> {
        self.reached
    }

    /// Waits for the next events, a bounded number, never none; `None` when the feed is over. Nothing is lost when the caller stops
    /// waiting.
    pub async fn next(&mut self) -> Option<Vec<FeedEvent>> {
        loop {
            if self.over {
                return None;
            }
            if let Some(part) = self.snapshot.take() {
                return Some(self.go_on_with_snapshot(part));
            }
            if let Some(part) = self.changes.take() {
                return Some(self.go_on_with_changes(part));
            }
            let reached = self.reached.unwrap_or_default();
            if self.until.is_some_and(|until| reached >= until) {
                self.over = true;
                return Some(vec![FeedEvent::Progress { revision: reached }]);
            }
            match self.feed.next().await {
                Ok(batch) => self.take(batch),
                Err(error) => {
                    if let Some(end) = self.failed(error).await {
                        self.over = true;
                        return Some(vec![end]);
                    }
                }
            }
        }
    }

    fn go_on_with_snapshot(&mut self, mut part: SnapshotPart) -> Vec<FeedEvent> {
        let (revision, at) = (part.revision, part.at);
        let machines = part.machines.by_ref().take(EVENTS_AT_ONCE);
        let mut events: Vec<_> = machines.map(|machine| FeedEvent::Snapshot { revision, at, machine }).collect();
        if part.machines.len() > 0 {
            self.snapshot = Some(part);
        } else {
            events.push(FeedEvent::SnapshotEnd { revision });
            self.reached = Some(revision);
            self.over = self.until.is_some();
        }
        events
    }

    fn go_on_with_changes(&mut self, mut part: ChangesPart) -> Vec<FeedEvent> {
        let mut events = Vec::with_capacity(EVENTS_AT_ONCE.min(part.changes.len()));
        while let Some((entry, changed)) = part.changes.next() {
            let more = part.changes.len() > 0;
            events.push(change(part.revision, entry.as_deref(), changed, more));
            if events.len() == EVENTS_AT_ONCE {
                break;
            }
        }
        if part.changes.len() > 0 {
            self.changes = Some(part);
        } else {
            self.reached = Some(part.revision);
        }
        events
    }

    fn take(&mut self, batch: FeedBatch) {
        let FeedBatch { revision, entries, changes } = batch;
        let told: Vec<_> = if changes.is_empty() {
            // What the entries tell of is no machine: configuration, a disk key, several machines that come into a queue together.
            let about = |entry: AuditEntry| {
                let unchanged = MachineChange { serial: entry.instance.clone(), before: None, after: None };
                (Some(Arc::new(entry)), unchanged)
            };
            entries.into_iter().map(about).collect()
        } else {
            // What was written last says what became of the machines.
            let entry = entries.into_iter().last().map(Arc::new);
            changes.into_iter().map(|changed| (entry.clone(), changed)).collect()
        };
        if told.is_empty() {
            self.reached = Some(revision);
        } else {
            self.changes = Some(ChangesPart { revision, changes: told.into_iter() });
        }
    }

    /// The end of the feed, unless the store may come back and the follower stays.
    async fn failed(&mut self, error: StoreError) -> Option<FeedEvent> {
        let revision = self.reached;
        match error {
            StoreError::Compacted { .. } => {
                let revision = revision.unwrap_or_default();
                let oldest = feed::oldest(Arc::clone(&self.on.store), &self.on.keys, revision).await;
                // A store that has forgotten and now does not answer: the present is certainly there when it does.
                Some(FeedEvent::Gone { revision, oldest: oldest.unwrap_or(revision.next()) })
            }
            StoreError::Unavailable { .. } if self.until.is_none() => {
                tracing::debug!(error = error_chain(&error), "an event feed cannot follow the store, trying again");
                tokio::time::sleep(RETRY).await;
                None
            }
            error => {
                tracing::error!(error = error_chain(&error), "an event feed ended early");
                Some(FeedEvent::Failed { revision })
            }
        }
    }
}

fn change(revision: Revision, entry: Option<&AuditEntry>, changed: MachineChange, more: bool) -> FeedEvent {
    let MachineChange { serial, before, after } = changed;
    let kind = entry.map(|entry| format!("{}.{}", entry.category.as_str(), entry.action));
    FeedEvent::Change(Box::new(Change {
        revision,
        at: entry.map(|entry| entry.at),
        kind: kind.unwrap_or_else(|| UNRECORDED.to_owned()),
        serial,
        actor: entry.map(|entry| entry.actor.clone()),
        before,
        after,
        more,
    }))
}
