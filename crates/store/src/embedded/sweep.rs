//! Compaction. Recording the revision makes older history unreadable at once; removing the rows follows in small steps between
//! commits, and goes on after a restart.
//!
//! It walks the rows that became old since the last time, oldest first. Each one supersedes the row of the same key before it,
//! and a tombstone is itself no longer needed. The work is therefore proportional to what changed, not to what is stored.

use rusqlite::{Connection, TransactionBehavior, params};

use super::rows;
use crate::{Revision, limits};

/// How far compaction has come.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sweep {
    /// History up to here is to go.
    pub compacted: Revision,
    /// Rows up to and including this id have been looked at.
    pub swept: i64,
}

impl Sweep {
    pub fn is_done(&self) -> bool {
        self.compacted == Revision::NONE || self.swept + 1 >= rows::end_of(self.compacted)
    }

    /// The revision up to which nothing is left to remove.
    pub fn revision(&self) -> Revision {
        match self.is_done() {
            true => self.compacted,
            // The walk may stand in the middle of a revision.
            false => Revision(rows::revision_of(self.swept).0.saturating_sub(1)),
        }
    }

    /// Removes what may go among the next `limits::SWEEP_ROWS` rows. On an error nothing has changed.
    pub fn step(&mut self, db: &mut Connection) -> rusqlite::Result<()> {
        let end = rows::end_of(self.compacted);
        let transaction = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let old = rows_between(&transaction, self.swept, end)?;
        // Fewer than asked for: the walk has reached the end.
        let swept = if old.len() < limits::SWEEP_ROWS { end - 1 } else { old.last().map_or(end - 1, |row| row.id) };
        {
            let mut remove_before = transaction.prepare_cached("DELETE FROM entry WHERE key = ?1 AND id < ?2")?;
            let mut remove = transaction.prepare_cached("DELETE FROM entry WHERE id = ?1")?;
            for row in old {
                remove_before.execute(params![row.key, row.id])?;
                if row.is_tombstone {
                    remove.execute([row.id])?;
                }
            }
        }
        rows::set_meta(&transaction, "swept", swept)?;
        transaction.commit()?;
        self.swept = swept;
        Ok(())
    }
}

struct Old {
    id: i64,
    key: String,
    is_tombstone: bool,
}

fn rows_between(db: &Connection, after: i64, end: i64) -> rusqlite::Result<Vec<Old>> {
    let mut statement = db.prepare_cached(
        "SELECT id, key, create_revision = 0 FROM entry WHERE id > ?1 AND id < ?2 ORDER BY id LIMIT ?3",
    )?;
    let limit = i64::try_from(limits::SWEEP_ROWS).unwrap_or(i64::MAX);
    let rows = statement.query_map(params![after, end, limit], |row| {
        Ok(Old { id: row.get(0)?, key: row.get(1)?, is_tombstone: row.get(2)? })
    })?;
    rows.collect()
}
