//! Reads what can be read of a damaged file into a small database in memory, and names what cannot. The file is not changed.
//!
//! A row is known from two places: its table, and the index of keys. If one of the two is whole, every key that was lost is known by
//! name. If both are damaged, a key that is not found may have been there: a server must not say "not found" of it, because a machine
//! formats its disk then.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    path::Path,
};

use rusqlite::{Connection, params};

use super::{
    OpenError,
    fault::{self, Fault},
    length, open,
    rows::{self, Row},
    structure::{self, Depth, FileFinding},
};
use crate::{Revision, StoreError, limits};

/// A key whose present value cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostKey {
    /// The key.
    pub key: String,
    /// When it was last changed.
    pub revision: Revision,
    /// Why it cannot be read.
    pub reason: String,
}

/// A page of the file that cannot be what was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DamagedPage {
    /// Its number; the first page of the file is 1.
    pub page: u64,
    /// The table or index, if known, and what is wrong.
    pub reason: String,
}

/// What could be read of a file, and what could not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SalvageReport {
    /// The newest revision that is known.
    pub revision: Revision,
    /// Keys that can be read.
    pub keys: u64,
    /// Keys that cannot.
    pub lost: Vec<LostKey>,
    /// Pages that are damaged.
    pub pages: Vec<DamagedPage>,
    /// Whether `lost` names every key that was lost. If not, there may be others, and a value may be older than the last one.
    pub names_all: bool,
}

impl SalvageReport {
    /// Whether everything could be read.
    pub fn is_whole(&self) -> bool {
        self.names_all && self.lost.is_empty()
    }
}

/// What can be read, as a database with the schema of the file. The row of a lost key is in it with a wrong checksum.
pub(super) struct Salvage {
    pub db: Connection,
    pub report: SalvageReport,
}

/// Reads what can be read.
pub(super) fn salvage(path: &Path) -> Result<Salvage, OpenError> {
    let sorted = |error| open::classify(path, error);
    let io = |error: std::io::Error| OpenError::Io { path: path.to_owned(), source: error.into() };
    let length = length::check(path).map_err(io)?;
    let db = open::open_damaged(path).map_err(sorted)?;
    let db = db.unchecked_transaction().map_err(sorted)?;
    if open::identify(path, &db)? {
        return Err(OpenError::NotOurs { path: path.to_owned(), reason: "it is empty".to_owned() });
    }
    let mut findings: Vec<FileFinding> = length.into_iter().collect();
    findings.extend(structure::examine(&db, Depth::Pages).map_err(sorted)?);
    let compacted = meta(&db, "compacted");
    let mut found = ReadableRows::default();
    found.walk_index(&db);
    found.walk_table(&db, compacted);
    found.fetch_the_rest(&db);
    found.judge(&findings);
    let damaged = findings.iter().filter(|finding| finding.tree.is_some() || !finding.text.contains("never used"));
    let pages = damaged.filter_map(|finding| Some(DamagedPage { page: finding.page?, reason: finding.to_string() }));
    found.into_salvage(compacted, pages.collect()).map_err(sorted)
}

/// Writes into the log what is lost.
pub(super) fn tell(report: &SalvageReport) {
    let SalvageReport { revision, keys, lost, pages, names_all } = report;
    for page in pages.iter().take(limits::CHECK_PROBLEMS_MAX) {
        tracing::error!(page = page.page, reason = page.reason, "a page of the data file is damaged");
    }
    for key in lost.iter().take(limits::CHECK_PROBLEMS_MAX) {
        tracing::error!(key = key.key, revision = %key.revision, reason = key.reason, "a record is lost");
    }
    let lost = lost.len();
    tracing::error!(%revision, keys, lost, names_all, "read what is readable of the damaged data file");
}

fn meta(db: &Connection, name: &str) -> Option<Revision> {
    let value = db.query_row("SELECT value FROM meta WHERE name = ?1", [name], |row| row.get::<_, i64>(0));
    value.ok().map(|value| Revision(value.cast_unsigned()))
}

/// What was found so far.
#[derive(Default)]
struct ReadableRows {
    /// Keys by row, as the index has them.
    index: HashMap<i64, String>,
    index_is_whole: bool,
    /// The newest readable row of each key.
    newest: BTreeMap<String, Row>,
    read: BTreeSet<i64>,
    /// Rows that are there and cannot be believed, with the reason.
    bad: BTreeMap<i64, String>,
    table_is_whole: bool,
}

impl ReadableRows {
    /// From both ends, so that one bad page hides only itself.
    fn walk_index(&mut self, db: &Connection) {
        self.index_is_whole = true;
        for order in ["key, id", "key DESC, id DESC"] {
            let sql = format!("SELECT key, id FROM entry INDEXED BY entry_by_key ORDER BY {order}");
            let walked = db.prepare(&sql).and_then(|mut statement| {
                let mut rows = statement.query([])?;
                while let Some(row) = rows.next()? {
                    match (row.get::<_, String>(0), row.get::<_, i64>(1)) {
                        (Ok(key), Ok(id)) => drop(self.index.insert(id, key)),
                        _ => self.index_is_whole = false,
                    }
                }
                Ok(())
            });
            if walked.is_ok() {
                return;
            }
            self.index_is_whole = false;
        }
    }

    /// From the oldest row on; a page that cannot be read is jumped over.
    fn walk_table(&mut self, db: &Connection, compacted: Option<Revision>) {
        self.table_is_whole = compacted.is_some();
        let mut from = 0;
        for _ in 0..limits::SALVAGE_JUMPS_MAX {
            let Err(error) = self.walk_table_from(db, from, compacted) else { return };
            self.table_is_whole = false;
            let reached = self.read.last().copied().unwrap_or(0).max(from);
            match fault::is_corruption(&error).then(|| next_readable(db, reached)).flatten() {
                Some(next) => from = next,
                None => return,
            }
        }
    }

    fn walk_table_from(&mut self, db: &Connection, from: i64, compacted: Option<Revision>) -> rusqlite::Result<()> {
        let mut statement = db.prepare_cached(rows::HISTORY)?;
        let mut found = statement.query(params![from, i64::MAX])?;
        let mut before: Option<i64> = None;
        while let Some(row) = found.next()? {
            let id: i64 = row.get(0)?;
            let revision = rows::revision_of(id);
            let follows = |before: i64| id == before + 1 || id == rows::row_id(rows::revision_of(before).next(), 0);
            if compacted.is_some_and(|compacted| revision > compacted.next()) && !before.is_some_and(follows) {
                self.table_is_whole = false;
            }
            before = Some(id);
            match Row::decode(row) {
                Ok(row) => self.take(row),
                Err(fault) => {
                    self.table_is_whole = false;
                    self.bad.insert(id, reason(fault));
                }
            }
        }
        Ok(())
    }

    /// Rows that only the index led to.
    fn fetch_the_rest(&mut self, db: &Connection) {
        let ids: Vec<i64> = self.index.keys().filter(|id| !self.read.contains(id)).copied().collect();
        for id in ids {
            match rows::fetch(db, id) {
                Ok(row) => self.take(row),
                Err(fault) => drop(self.bad.insert(id, reason(fault))),
            }
        }
    }

    fn take(&mut self, row: Row) {
        self.read.insert(row.id);
        self.bad.remove(&row.id);
        if self.newest.get(&row.key).is_none_or(|newest| newest.id < row.id) {
            self.newest.insert(row.key.clone(), row);
        }
    }

    /// Neither is whole if SQLite says otherwise, and the index only if it has all that the table has.
    fn judge(&mut self, findings: &[FileFinding]) {
        let is_named = |tree: &str| findings.iter().any(|finding| finding.tree.as_deref() == Some(tree));
        self.table_is_whole &= !is_named("entry");
        self.index_is_whole &= !is_named("entry_by_key") && self.read.iter().all(|id| self.index.contains_key(id));
    }

    fn into_salvage(self, compacted: Option<Revision>, pages: Vec<DamagedPage>) -> rusqlite::Result<Salvage> {
        let ReadableRows { index, index_is_whole, newest, read, bad, table_is_whole } = self;
        let last = read.last().copied().max(index.keys().max().copied()).filter(|_| index_is_whole || table_is_whole);
        let last = last.or(read.last().copied()).map_or(Revision::NONE, rows::revision_of);
        let revision = last.max(compacted.unwrap_or(Revision::NONE));
        let mut lost = BTreeMap::new();
        for (id, reason) in bad {
            let Some(key) = index.get(&id) else { continue };
            if newest.get(key).is_none_or(|newest| newest.id < id) {
                lost.insert(key.clone(), (id, reason));
            }
        }
        let mut db = Connection::open_in_memory()?;
        let transaction = db.transaction()?;
        transaction.execute_batch(rows::SCHEMA)?;
        // History before this cannot be read: only the present was saved.
        rows::set_meta(&transaction, "compacted", revision.0.cast_signed())?;
        rows::set_meta(&transaction, "swept", rows::end_of(revision) - 1)?;
        let mut keys = 0;
        for row in newest.values().filter(|row| !lost.contains_key(&row.key)) {
            // What lives under a lease says that a process is alive, and it cannot say so to this copy.
            if let (Some(value), None) = (&row.value, row.lease) {
                rows::append(&transaction, row.id, &row.key, row.create_revision, None, Some(value))?;
                keys += 1;
            }
        }
        for (key, (id, _)) in &lost {
            let sql = "INSERT INTO entry (id, key, create_revision, checksum, value) VALUES (?1, ?2, 1, -1, x'')";
            transaction.execute(sql, params![id, key])?;
        }
        transaction.commit()?;
        let lost = lost.into_iter().map(|(key, (id, reason))| LostKey { key, revision: rows::revision_of(id), reason });
        let names_all = index_is_whole || table_is_whole;
        Ok(Salvage { db, report: SalvageReport { revision, keys, lost: lost.collect(), pages, names_all } })
    }
}

/// The smallest row id after `after` from which a row can be read; found by doubling, then by halving.
fn next_readable(db: &Connection, after: i64) -> Option<i64> {
    let is_readable = |id: i64| {
        let first = db.prepare_cached("SELECT id FROM entry WHERE id >= ?1 ORDER BY id LIMIT 1");
        first.and_then(|mut first| first.query([id])?.next().map(drop)).is_ok()
    };
    let mut step: i64 = 1;
    while !is_readable(after.checked_add(step)?) {
        step = step.checked_mul(2)?;
    }
    let (mut low, mut high) = (step / 2, step);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if is_readable(after + middle) { high = middle } else { low = middle }
    }
    Some(after + high)
}

fn reason(fault: Fault) -> String {
    match fault {
        Fault::Sqlite(_) => "its page cannot be read".to_owned(),
        Fault::Store(StoreError::Corrupt { reason, .. }) => reason,
        Fault::Store(error) => error.to_string(),
    }
}
