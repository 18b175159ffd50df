//! One transaction against the open SQLite transaction: first everything that may refuse it, then the writes. Once the first
//! row is written only SQLite itself can fail, and then the whole group is undone; so no savepoint is needed.

use std::{collections::HashSet, ops::ControlFlow};

use rusqlite::Connection;

use super::rows::{self, Head};
use crate::{Compare, Event, KeyValue, LeaseId, Op, Revision, StoreError, Txn};

/// What a transaction did.
#[derive(Debug)]
pub(super) enum Applied {
    /// Rows were written at the revision offered.
    Wrote(Vec<Event>),
    /// It held and changed nothing; the revision is still free.
    Nothing,
    /// A compare failed.
    Conflicted,
    /// It can never succeed as it is.
    Refused(StoreError),
}

/// Checks and applies one transaction at `revision`.
pub(super) fn apply(
    db: &Connection,
    revision: Revision,
    txn: Txn,
    is_live: impl Fn(LeaseId) -> bool,
) -> rusqlite::Result<Applied> {
    for compare in &txn.when {
        if !holds(db, compare)? {
            return Ok(Applied::Conflicted);
        }
    }
    for op in &txn.then {
        if let Op::Put { lease: Some(lease), .. } = op
            && !is_live(*lease)
        {
            let reason = format!("lease {} does not exist or has ended", lease.0);
            return Ok(Applied::Refused(StoreError::Invalid { reason }));
        }
    }
    let removed = expand_prefixes(db, &txn.then)?;
    let rows = txn.then.len() + removed.iter().map(Vec::len).sum::<usize>();
    if rows > rows::SEQUENCE_MAX {
        let refusal = StoreError::TooLarge { what: "keys changed", size: rows, limit: rows::SEQUENCE_MAX, hint: "" };
        return Ok(Applied::Refused(refusal));
    }
    let events = write(db, revision, txn.then, removed)?;
    Ok(if events.is_empty() { Applied::Nothing } else { Applied::Wrote(events) })
}

/// Removes the keys that still belong to `lease`, at `revision`.
pub(super) fn remove_leased(db: &Connection, revision: Revision, lease: LeaseId) -> rusqlite::Result<Vec<Event>> {
    let mut statement = db.prepare_cached("SELECT id, key FROM entry WHERE lease = ?1 ORDER BY key, id")?;
    let mut found = statement.query([lease.0])?;
    let mut rows = Rows { db, revision, events: Vec::new() };
    while let Some(row) = found.next()? {
        let (id, key): (i64, String) = (row.get(0)?, row.get(1)?);
        // Otherwise the key has been removed since, or put again, without this lease or with another row of it.
        if rows::head(db, &key)?.is_some_and(|head| head.id == id) {
            rows.remove(key)?;
        }
    }
    Ok(rows.events)
}

fn holds(db: &Connection, compare: &Compare) -> rusqlite::Result<bool> {
    Ok(match compare {
        Compare::ModRevision(key, revision) => {
            rows::head(db, key)?.map_or(Revision::NONE, |head| rows::revision_of(head.id)) == *revision
        }
        Compare::Missing(key) => rows::head(db, key)?.is_none(),
        Compare::Exists(key) => rows::head(db, key)?.is_some(),
        Compare::NoneWithPrefix(prefix) => {
            let mut found = false;
            rows::each_key(db, prefix, None, i64::MAX, |_, _| {
                found = true;
                Ok::<_, rusqlite::Error>(ControlFlow::Break(()))
            })?;
            !found
        }
    })
}

/// The keys each `DeletePrefix` removes, in order of the operations; a key that two of them cover is with the first.
fn expand_prefixes(db: &Connection, ops: &[Op]) -> rusqlite::Result<Vec<Vec<String>>> {
    let mut seen = HashSet::new();
    let mut expanded = Vec::new();
    for op in ops {
        if let Op::DeletePrefix(prefix) = op {
            let mut keys = Vec::new();
            rows::each_key(db, prefix, None, i64::MAX, |key, _| {
                if seen.insert(key.to_owned()) {
                    keys.push(key.to_owned());
                }
                Ok::<_, rusqlite::Error>(ControlFlow::Continue(()))
            })?;
            expanded.push(keys);
        }
    }
    Ok(expanded)
}

fn write(db: &Connection, revision: Revision, ops: Vec<Op>, removed: Vec<Vec<String>>) -> rusqlite::Result<Vec<Event>> {
    let mut removed = removed.into_iter();
    let mut rows = Rows { db, revision, events: Vec::with_capacity(ops.len()) };
    for op in ops {
        match op {
            Op::Put { key, value, lease } => {
                let head = rows::head(db, &key)?;
                rows.put(key, value, lease, head)?;
            }
            Op::Delete(key) => {
                if rows::head(db, &key)?.is_some() {
                    rows.remove(key)?;
                }
            }
            Op::DeletePrefix(_) => {
                for key in removed.next().into_iter().flatten() {
                    rows.remove(key)?;
                }
            }
        }
    }
    Ok(rows.events)
}

/// Appends the rows of one revision and collects them as events.
struct Rows<'a> {
    db: &'a Connection,
    revision: Revision,
    events: Vec<Event>,
}

impl Rows<'_> {
    fn next_id(&self) -> i64 {
        let sequence = u32::try_from(self.events.len()).expect("`apply` refuses more rows than a row id has room for");
        rows::row_id(self.revision, sequence)
    }

    fn put(
        &mut self,
        key: String,
        value: bytes::Bytes,
        lease: Option<LeaseId>,
        head: Option<Head>,
    ) -> rusqlite::Result<()> {
        let create_revision = head.map_or(self.revision, |head| head.create_revision);
        rows::append(self.db, self.next_id(), &key, create_revision, lease, Some(&value))?;
        self.events.push(Event::Put(KeyValue { key, value, create_revision, mod_revision: self.revision, lease }));
        Ok(())
    }

    fn remove(&mut self, key: String) -> rusqlite::Result<()> {
        rows::append(self.db, self.next_id(), &key, Revision::NONE, None, None)?;
        self.events.push(Event::Delete { key, mod_revision: self.revision });
        Ok(())
    }
}
