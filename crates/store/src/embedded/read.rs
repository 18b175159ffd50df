//! Reading the file: a few read-only connections, used on tokio's blocking threads. Each read is one SQLite read transaction,
//! so it sees one revision whatever the writer does meanwhile.

use std::{
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use rusqlite::{Connection, params};
use tokio::sync::Semaphore;

use super::{
    fault::{Fault, stopped},
    open,
    rows::{self, Row},
    salvage,
    writable::Writable,
};
use crate::{Event, Page, Range, Revision, Snapshot, StoreError, limits};

/// What a list does about a row that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OnDamage {
    /// Fails.
    Fail,
    /// Leaves the row out: the copy that was saved of a damaged file is read, and what is lost was told.
    LeaveOut,
}

/// The reading connections, and the copy in memory that takes their place when the file is found damaged.
#[derive(Debug)]
pub(super) struct Readers {
    path: PathBuf,
    permits: Arc<Semaphore>,
    idle: Mutex<Vec<Connection>>,
    writable: Arc<Writable>,
    /// Empty until damage is met; `None` if what is lost could not be told, so that the file itself must answer.
    saved: OnceLock<Option<Mutex<Connection>>>,
}

impl Readers {
    pub fn new(path: &Path, writable: Arc<Writable>) -> Readers {
        Readers {
            path: path.to_owned(),
            permits: Arc::new(Semaphore::new(limits::READERS)),
            idle: Mutex::new(Vec::new()),
            writable,
            saved: OnceLock::new(),
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// From now on the copy is read.
    pub fn read_from(&self, saved: Connection) {
        let _first = self.saved.set(Some(Mutex::new(saved)));
    }

    /// Runs `work` inside one read transaction.
    pub async fn run<T, F>(self: &Arc<Self>, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Fn(&Connection, OnDamage) -> Result<T, Fault> + Send + 'static,
    {
        let permit = self.permits.clone().acquire_owned().await.map_err(|_| stopped())?;
        let readers = Arc::clone(self);
        let task = tokio::task::spawn_blocking(move || {
            let result = readers.read(&work);
            drop(permit);
            result
        });
        match task.await {
            Ok(result) => result.map_err(StoreError::from),
            Err(error) => Err(StoreError::Unavailable { reason: format!("the read did not finish: {error}") }),
        }
    }

    /// Refuses reads from now on and closes what is idle; a read that runs closes its own connection.
    pub fn close(&self) {
        self.permits.close();
        self.lock_idle().clear();
    }

    fn read<T>(&self, work: &impl Fn(&Connection, OnDamage) -> Result<T, Fault>) -> Result<T, Fault> {
        if let Some(Some(saved)) = self.saved.get() {
            return work(&saved.lock().unwrap_or_else(PoisonError::into_inner), OnDamage::LeaveOut);
        }
        let result = self.read_file(work);
        let Err(damage) = result.as_ref().map_err(Fault::damage) else { return result };
        let Some(damage) = damage else { return result };
        self.writable.condemn(&format!("a read met {damage}"));
        match self.saved.get_or_init(|| self.save()) {
            Some(saved) => work(&saved.lock().unwrap_or_else(PoisonError::into_inner), OnDamage::LeaveOut),
            None => result,
        }
    }

    fn read_file<T>(&self, work: &impl Fn(&Connection, OnDamage) -> Result<T, Fault>) -> Result<T, Fault> {
        let idle = self.lock_idle().pop();
        let mut db = match idle {
            Some(db) => db,
            None => open::open_reader(&self.path)?,
        };
        let result = work(&*db.transaction()?, OnDamage::Fail);
        let mut idle = self.lock_idle();
        if !self.permits.is_closed() {
            idle.push(db);
        }
        result
    }

    /// Reads what is readable once the writer has stopped.
    fn save(&self) -> Option<Mutex<Connection>> {
        let _turn = self.writable.turn();
        match salvage::salvage(&self.path) {
            Ok(saved) => {
                salvage::tell(&saved.report);
                saved.report.names_all.then(|| Mutex::new(saved.db))
            }
            Err(error) => {
                tracing::error!(error = %error, "nothing can be saved of the damaged data file");
                None
            }
        }
    }

    fn lock_idle(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Several keys as they are now.
pub(super) fn get_many(db: &Connection, keys: &[String]) -> Result<Snapshot, Fault> {
    let revision = rows::extent(db)?.revision;
    let values = keys.iter().map(|key| match rows::head(db, key)? {
        Some(head) => Ok(rows::fetch(db, head.id)?.into_key_value()),
        None => Ok(None),
    });
    Ok(Snapshot { values: values.collect::<Result<_, Fault>>()?, revision })
}

/// One page of a prefix.
pub(super) fn list(db: &Connection, range: &Range, on_damage: OnDamage) -> Result<Page, Fault> {
    let extent = rows::extent(db)?;
    let revision = range.at.unwrap_or(extent.revision);
    if revision > extent.revision {
        let reason = format!("revision {revision} has not happened yet, the newest is {}", extent.revision);
        return Err(StoreError::Invalid { reason }.into());
    }
    if revision < extent.compacted {
        return Err(StoreError::Compacted { requested: revision, compacted: extent.compacted }.into());
    }
    let limit = range.limit.max(1);
    let mut page = Page { items: Vec::new(), revision, more: false };
    let mut bytes = 0;
    rows::each_key(db, &range.prefix, range.after.as_deref(), rows::end_of(revision), |_, id| {
        if page.items.len() == limit || bytes > limits::PAGE_BYTES_MAX {
            page.more = true;
            return Ok::<_, Fault>(ControlFlow::Break(()));
        }
        let item = match rows::fetch(db, id) {
            Err(fault) if on_damage == OnDamage::LeaveOut && fault.damage().is_some() => {
                return Ok(ControlFlow::Continue(()));
            }
            item => item?,
        };
        bytes += item.value.as_ref().map_or(0, bytes::Bytes::len);
        page.items.extend(item.into_key_value());
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(page)
}

/// Changes under `prefix` from `from` on, whole revisions, about `limits::HISTORY_ROWS` of them, and the revision they reach.
pub(super) fn history(db: &Connection, prefix: &str, from: Revision) -> Result<(Vec<Event>, Revision), Fault> {
    let extent = rows::extent(db)?;
    if from <= extent.compacted {
        return Err(StoreError::Compacted { requested: from, compacted: extent.compacted }.into());
    }
    let mut statement = db.prepare_cached(rows::HISTORY)?;
    let mut found = statement.query(params![rows::row_id(from, 0), rows::end_of(extent.revision)])?;
    let mut events = Vec::new();
    let mut reached = from;
    let (mut seen, mut bytes) = (0, 0);
    while let Some(row) = found.next()? {
        let row = Row::decode(row)?;
        let revision = rows::revision_of(row.id);
        if revision > reached {
            if seen >= limits::HISTORY_ROWS || bytes >= limits::RECENT_BYTES_MAX {
                return Ok((events, reached));
            }
            reached = revision;
        }
        seen += 1;
        bytes += row.value.as_ref().map_or(0, bytes::Bytes::len);
        if row.key.starts_with(prefix) {
            events.push(row.into_event());
        }
    }
    Ok((events, extent.revision))
}
