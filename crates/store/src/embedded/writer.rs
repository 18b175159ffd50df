//! The writer thread: the only one that changes the file. It takes everything that waits, applies it in one SQLite transaction,
//! flushes once, then answers everybody (group commit). Between groups it ends leases that ran out and lets compaction take a
//! step.

use std::{
    sync::{Arc, PoisonError, atomic::Ordering},
    time::{Duration, Instant},
};

use rusqlite::{Connection, params};
use tokio::{
    runtime::Runtime,
    sync::{
        mpsc::{self, error::TryRecvError},
        oneshot, watch,
    },
};

use super::{
    Shared,
    apply::{self, Applied},
    fault,
    leases::Leases,
    open,
    recent::Change,
    request::{Answer, Request},
    rows,
    sweep::Sweep,
};
use crate::{LeaseId, Revision, StoreError, Txn, TxnOutcome, limits};

/// State of the writer thread.
pub(super) struct Writer {
    pub db: Connection,
    pub shared: Arc<Shared>,
    /// Wakes the watchers; closing it tells them that the store has stopped.
    pub published: watch::Sender<Revision>,
    pub revision: Revision,
    pub leases: Leases,
    pub sweep: Sweep,
    /// Only to wait for a request and a point in time at once.
    pub clock: Runtime,
    pub next_tick: Instant,
    pub sweep_not_before: Instant,
    pub next_probe: Instant,
    pub stopping: Vec<oneshot::Sender<()>>,
}

/// Why the writer woke up.
enum Wake {
    Request(Request),
    Due,
    Closed,
}

/// What a group will have changed once it is durable.
#[derive(Default)]
struct Group {
    revision: Revision,
    changes: Vec<Change>,
    granted: Vec<(LeaseId, Duration)>,
    ended: Vec<LeaseId>,
    compacted: Option<Revision>,
    commits: u64,
    probed: bool,
}

impl Group {
    fn changes_file(&self) -> bool {
        !self.changes.is_empty()
            || !self.granted.is_empty()
            || !self.ended.is_empty()
            || self.compacted.is_some()
            || self.probed
    }

    /// Takes over what was written at the next revision, if anything.
    fn add(&mut self, events: Vec<crate::Event>) {
        if !events.is_empty() {
            self.revision = self.revision.next();
            self.changes.push(Change::new(self.revision, events));
        }
    }
}

/// How a group failed: before the flush nothing happened, in the flush it may have.
enum Failure {
    Apply(rusqlite::Error),
    Flush(rusqlite::Error),
}

impl Failure {
    fn to_error(&self) -> StoreError {
        match self {
            Failure::Apply(error) => fault::write_error(error),
            Failure::Flush(error) => fault::flush_error(error),
        }
    }

    fn cause(&self) -> &rusqlite::Error {
        let (Failure::Apply(error) | Failure::Flush(error)) = self;
        error
    }
}

impl Writer {
    /// Works until the queue is closed and empty, then closes the file.
    pub fn run(mut self, mut inbox: mpsc::Receiver<Request>) {
        loop {
            let wake = self.wait(&mut inbox);
            let shared = Arc::clone(&self.shared);
            let _turn = shared.writable.turn();
            match wake {
                Wake::Request(Request::Stop { done }) => self.stop(done, &mut inbox),
                Wake::Request(request) => self.commit_group(request, &mut inbox),
                Wake::Due => {}
                Wake::Closed => break,
            }
            // A damaged file is not written to, not even to tidy up.
            if self.shared.writable.damage().is_none() {
                self.expire_leases();
                self.sweep_step();
                self.probe_step();
            }
        }
        self.close();
    }

    fn wait(&mut self, inbox: &mut mpsc::Receiver<Request>) -> Wake {
        let now = Instant::now();
        let tidies = self.shared.writable.damage().is_none();
        let times = [
            (tidies && !self.sweep.is_done()).then_some(self.sweep_not_before),
            (tidies && self.leases.len() > 0).then_some(self.next_tick),
            (tidies && self.shared.writable.is_in_trouble()).then_some(self.next_probe),
        ];
        match times.into_iter().flatten().min() {
            Some(due) if due <= now => match inbox.try_recv() {
                Ok(request) => Wake::Request(request),
                Err(TryRecvError::Empty) => Wake::Due,
                Err(TryRecvError::Disconnected) => Wake::Closed,
            },
            Some(due) => self.clock.block_on(async {
                match tokio::time::timeout_at(due.into(), inbox.recv()).await {
                    Ok(Some(request)) => Wake::Request(request),
                    Ok(None) => Wake::Closed,
                    Err(_) => Wake::Due,
                }
            }),
            None => inbox.blocking_recv().map_or(Wake::Closed, Wake::Request),
        }
    }

    fn stop(&mut self, done: oneshot::Sender<()>, inbox: &mut mpsc::Receiver<Request>) {
        // What is queued is still answered; nothing can be added.
        inbox.close();
        self.stopping.push(done);
    }

    fn commit_group(&mut self, first: Request, inbox: &mut mpsc::Receiver<Request>) {
        if self.shared.writable.damage().is_some() {
            let writable = &self.shared.writable;
            first.finish(Some(&|| writable.refusal().expect("a file that is damaged stays so")));
            return;
        }
        let mut requests = vec![first];
        let mut group = Group { revision: self.revision, ..Group::default() };
        match self.fill(&mut group, &mut requests, inbox) {
            Ok(()) => {
                self.publish(group);
                requests.into_iter().for_each(|request| request.finish(None));
            }
            Err(failure) => {
                self.roll_back();
                self.note_failure(failure.cause());
                let error = || failure.to_error();
                tracing::error!(error = %error(), requests = requests.len(), "group of changes failed");
                requests.into_iter().for_each(|request| request.finish(Some(&error)));
            }
        }
    }

    /// Applies requests, those that arrive meanwhile too, and commits.
    fn fill(
        &mut self,
        group: &mut Group,
        requests: &mut Vec<Request>,
        inbox: &mut mpsc::Receiver<Request>,
    ) -> Result<(), Failure> {
        self.begin().map_err(Failure::Apply)?;
        let mut weight = 0;
        let mut next = 0;
        while let Some(request) = requests.get_mut(next) {
            weight += request.weight();
            next += 1;
            self.stage(group, request).map_err(Failure::Apply)?;
            while next == requests.len() && weight < limits::GROUP_OPS_MAX {
                match inbox.try_recv() {
                    Ok(Request::Stop { done }) => self.stop(done, inbox),
                    Ok(request) => requests.push(request),
                    Err(_) => break,
                }
            }
        }
        self.commit().map_err(Failure::Flush)
    }

    fn stage(&mut self, group: &mut Group, request: &mut Request) -> rusqlite::Result<()> {
        match request {
            Request::Commit { txn, answer, .. } => answer.prepare(self.stage_txn(group, std::mem::take(txn))?),
            Request::Grant { ttl, answer } => answer.prepare(self.stage_grant(group, *ttl)?),
            Request::KeepAlive { lease, answer } => {
                let lives = !group.ended.contains(lease) && self.leases.extend(*lease, Instant::now());
                answer.prepare(Ok(lives));
            }
            Request::Revoke { lease, answer } => {
                self.stage_end(group, *lease)?;
                answer.prepare(Ok(()));
            }
            Request::Compact { revision, answer } => self.stage_compact(group, *revision, answer)?,
            Request::Probe { answer } => {
                rows::touch(&self.db)?;
                group.probed = true;
                answer.prepare(Ok(()));
            }
            Request::Stop { .. } => {}
        }
        Ok(())
    }

    fn stage_txn(&self, group: &mut Group, txn: Txn) -> rusqlite::Result<Result<TxnOutcome, StoreError>> {
        let is_live = |lease| self.leases.contains(lease) && !group.ended.contains(&lease);
        let applied = apply::apply(&self.db, group.revision.next(), txn, is_live)?;
        match applied {
            Applied::Conflicted => return Ok(Ok(TxnOutcome::Conflicted)),
            Applied::Refused(error) => return Ok(Err(error)),
            Applied::Nothing => {}
            Applied::Wrote(events) => group.add(events),
        }
        group.commits += 1;
        Ok(Ok(TxnOutcome::Committed(group.revision)))
    }

    fn stage_grant(&self, group: &mut Group, ttl: Duration) -> rusqlite::Result<Result<LeaseId, StoreError>> {
        if self.leases.len() + group.granted.len() >= limits::LEASES_MAX {
            let reason = format!("{} leases live already", limits::LEASES_MAX);
            return Ok(Err(StoreError::Unavailable { reason }));
        }
        let seconds = ttl.as_secs().cast_signed();
        let lease =
            LeaseId(self.db.prepare_cached("INSERT INTO lease (ttl_seconds) VALUES (?1)")?.insert(params![seconds])?);
        group.granted.push((lease, ttl));
        Ok(Ok(lease))
    }

    fn stage_end(&self, group: &mut Group, lease: LeaseId) -> rusqlite::Result<()> {
        if self.leases.contains(lease) && !group.ended.contains(&lease) {
            group.add(apply::remove_leased(&self.db, group.revision.next(), lease)?);
            self.db.prepare_cached("DELETE FROM lease WHERE id = ?1")?.execute([lease.0])?;
            group.ended.push(lease);
        }
        Ok(())
    }

    fn stage_compact(&self, group: &mut Group, revision: Revision, answer: &mut Answer<()>) -> rusqlite::Result<()> {
        if revision > group.revision {
            let reason = format!("revision {revision} has not happened yet, the newest is {}", group.revision);
            answer.prepare(Err(StoreError::Invalid { reason }));
            return Ok(());
        }
        if revision > group.compacted.unwrap_or(self.sweep.compacted) {
            rows::set_meta(&self.db, "compacted", revision.0.cast_signed())?;
            group.compacted = Some(revision);
        }
        answer.prepare(Ok(()));
        Ok(())
    }

    /// Makes a durable group visible: to watchers first, then to `latest_commit`, last to its callers.
    fn publish(&mut self, group: Group) {
        if !group.changes_file() {
            return;
        }
        self.shared.writable.prove();
        let now = Instant::now();
        if self.leases.len() == 0 {
            self.next_tick = now + limits::LEASE_TICK;
        }
        for (lease, ttl) in group.granted {
            self.leases.add(lease, ttl, now);
        }
        group.ended.iter().for_each(|lease| self.leases.remove(*lease));
        if let Some(compacted) = group.compacted {
            self.sweep.compacted = compacted;
            self.shared.compacted.store(compacted.0, Ordering::Release);
        }
        let shared = &self.shared;
        shared.groups.fetch_add(1, Ordering::Relaxed);
        shared.commits.fetch_add(group.commits, Ordering::Relaxed);
        if group.revision > self.revision {
            self.revision = group.revision;
            let mut recent = shared.recent.lock().unwrap_or_else(PoisonError::into_inner);
            group.changes.into_iter().for_each(|change| recent.push(change));
            drop(recent);
            shared.latest.store(self.revision.0, Ordering::Release);
            self.published.send_replace(self.revision);
        }
    }

    /// Ends leases that ran out, each at a revision of its own.
    fn expire_leases(&mut self) {
        let now = Instant::now();
        if self.leases.len() == 0 || now < self.next_tick {
            return;
        }
        self.next_tick = now + limits::LEASE_TICK;
        let expired = self.leases.expired(now);
        if expired.is_empty() {
            return;
        }
        let mut group = Group { revision: self.revision, ..Group::default() };
        let outcome = self.begin().and_then(|()| {
            for lease in expired {
                self.stage_end(&mut group, lease)?;
            }
            self.commit()
        });
        match outcome {
            Ok(()) => self.publish(group),
            Err(error) => {
                // The leases are still overdue at the next tick.
                self.roll_back();
                self.note_failure(&error);
                tracing::error!(error = %fault::write_error(&error), "ending leases failed");
            }
        }
    }

    fn sweep_step(&mut self) {
        let start = Instant::now();
        if self.sweep.is_done() || start < self.sweep_not_before {
            return;
        }
        match self.sweep.step(&mut self.db) {
            Ok(()) => {
                self.sweep_not_before = Instant::now() + start.elapsed() * limits::SWEEP_PAUSE_FACTOR;
                self.shared.swept.store(self.sweep.revision().0, Ordering::Release);
            }
            Err(error) => {
                self.sweep_not_before = Instant::now() + limits::SWEEP_RETRY;
                self.note_failure(&error);
                tracing::warn!(error = %fault::write_error(&error), "compaction failed, trying again");
            }
        }
    }

    /// After a failed change, finds out by itself when the file can be written again: nobody may ask for a change meanwhile.
    fn probe_step(&mut self) {
        let now = Instant::now();
        if !self.shared.writable.is_in_trouble() || now < self.next_probe {
            return;
        }
        self.next_probe = now + limits::WRITE_RETRY;
        match self.begin().and_then(|()| rows::touch(&self.db)).and_then(|()| self.commit()) {
            Ok(()) => self.shared.writable.prove(),
            Err(error) => {
                self.roll_back();
                self.note_failure(&error);
            }
        }
    }

    /// Remembers why nothing could be made durable.
    fn note_failure(&mut self, error: &rusqlite::Error) {
        if fault::is_corruption(error) {
            self.shared.writable.condemn(&format!("a change met {error}"));
        } else {
            self.next_probe = Instant::now() + limits::WRITE_RETRY;
            self.shared.writable.fail(fault::reason(error));
        }
    }

    fn begin(&self) -> rusqlite::Result<()> {
        self.db.prepare_cached("BEGIN IMMEDIATE")?.execute([]).map(drop)
    }

    fn commit(&self) -> rusqlite::Result<()> {
        self.db.prepare_cached("COMMIT")?.execute([]).map(drop)
    }

    /// Undoes what is open. SQLite has already done so after some errors.
    fn roll_back(&self) {
        if !self.db.is_autocommit()
            && let Err(error) = self.db.execute_batch("ROLLBACK")
        {
            tracing::error!(error = %fault::store_error(&error), "undoing a group of changes failed");
        }
    }

    /// Brings everything into the main file, so that it can be copied alone, and lets go of it.
    fn close(self) {
        let Writer { db, published, stopping, shared, .. } = self;
        drop(published);
        let checkpoint = match shared.writable.damage() {
            // The log may be the better half of what is left.
            Some(_) => open::keep_log(&db, true),
            None => db
                .busy_timeout(limits::CLOSE_WAIT)
                .and_then(|()| db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))),
        };
        if let Err(error) = checkpoint {
            tracing::warn!(error = %fault::store_error(&error), "the write-ahead log stays for the next start");
        }
        if let Err((_, error)) = db.close() {
            tracing::warn!(error = %fault::store_error(&error), "closing the data file failed");
        }
        for done in stopping {
            let _ = done.send(());
        }
    }
}
