//! `store check`: reads the whole file and says what is wrong with it. It changes nothing and needs no lock, so it may also
//! look at the file of a running server.

use std::{collections::HashMap, path::Path};

use rusqlite::{Connection, params};

use super::{
    OpenError,
    fault::Fault,
    length, open,
    rows::{self, Row},
    structure::{self, Depth},
};
use crate::{Revision, StoreError, limits};

/// What `check` found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckReport {
    /// The newest revision.
    pub revision: Revision,
    /// History up to here is gone.
    pub compacted: Revision,
    /// Changes in the file.
    pub rows: u64,
    /// Keys that exist.
    pub keys: u64,
    /// What is wrong, in words; at most `limits::CHECK_PROBLEMS_MAX` of them.
    pub problems: Vec<String>,
    /// How many problems there are.
    pub problem_count: u64,
}

impl CheckReport {
    /// Whether nothing is wrong.
    pub fn is_clean(&self) -> bool {
        self.problem_count == 0
    }

    fn problem(&mut self, text: String) {
        self.problem_count += 1;
        if self.problems.len() < limits::CHECK_PROBLEMS_MAX {
            self.problems.push(text);
        }
    }
}

/// Checks the structure of the file, every checksum, and that no change is missing since the last compaction.
pub fn check(path: &Path) -> Result<CheckReport, OpenError> {
    if let Err(error) = std::fs::metadata(path) {
        return Err(OpenError::Io { path: path.to_owned(), source: error.into() });
    }
    let io = |error: std::io::Error| OpenError::Io { path: path.to_owned(), source: error.into() };
    let length = length::check(path).map_err(io)?;
    let db = open::open_damaged(path).map_err(|error| open::classify(path, error))?;
    // One read transaction: a running server may go on writing, we see one moment.
    let db = db.unchecked_transaction().map_err(|error| open::classify(path, error))?;
    if open::identify(path, &db)? {
        return Err(OpenError::NotOurs { path: path.to_owned(), reason: "it is empty".to_owned() });
    }
    // Of a file so damaged that this cannot be told, the rest is told.
    let extent = rows::extent(&db);
    let rows::Extent { revision, compacted } =
        extent.as_ref().copied().unwrap_or(rows::Extent { revision: Revision::NONE, compacted: Revision::NONE });
    let mut report = CheckReport { revision, compacted, rows: 0, keys: 0, problems: Vec::new(), problem_count: 0 };
    if let Some(finding) = length {
        report.problem(finding.to_string());
    }
    match structure::examine(&db, Depth::Indexes) {
        Ok(findings) => findings.iter().for_each(|finding| report.problem(finding.to_string())),
        Err(error) => report.problem(format!("reading the structure: {error}")),
    }
    if let Err(fault) = extent.map_err(Fault::from).and_then(|_| check_rows(&db, &mut report)) {
        report.problem(format!("reading the changes: {}", StoreError::from(fault)));
    }
    Ok(report)
}

/// What the walk remembers about a key: when its newest row so far says it was created; 0 after a tombstone.
type Created = HashMap<String, Revision>;

fn check_rows(db: &Connection, report: &mut CheckReport) -> Result<(), Fault> {
    let mut statement = db.prepare(rows::HISTORY)?;
    let mut found = statement.query(params![i64::MIN, i64::MAX])?;
    let mut created = Created::new();
    // History before this may have holes; after it, every change must be there.
    let mut expected = (report.compacted.next(), 0);
    while let Some(row) = found.next()? {
        report.rows += 1;
        let id: i64 = row.get(0)?;
        check_order(id, &mut expected, report);
        match Row::decode(row) {
            Ok(row) => check_row(&row, &mut created, report),
            Err(Fault::Store(error)) => report.problem(error.to_string()),
            Err(error @ Fault::Sqlite(_)) => return Err(error),
        }
    }
    report.keys = created.values().filter(|revision| **revision != Revision::NONE).count() as u64;
    Ok(())
}

fn check_order(id: i64, expected: &mut (Revision, u64), report: &mut CheckReport) {
    let (revision, sequence) = (rows::revision_of(id), rows::sequence_of(id));
    if revision <= report.compacted {
        return;
    }
    let is_next = (revision, sequence) == *expected || (revision, sequence) == (expected.0.next(), 0) && expected.1 > 0;
    if !is_next {
        report.problem(format!("changes are missing before change {sequence} of revision {revision}"));
    }
    *expected = (revision, sequence + 1);
}

fn check_row(row: &Row, created: &mut Created, report: &mut CheckReport) {
    let revision = rows::revision_of(row.id);
    if row.value.is_none() != (row.create_revision == Revision::NONE) {
        report.problem(format!("key {} at revision {revision} is neither a value nor a removal", row.key));
    }
    let before = created.insert(row.key.clone(), row.create_revision);
    if row.create_revision == Revision::NONE {
        return;
    }
    let expected = match before {
        Some(before) if before != Revision::NONE => before,
        // The rows before it may be gone.
        None if row.create_revision <= report.compacted => return,
        _ => revision,
    };
    if row.create_revision != expected {
        let found = row.create_revision;
        report.problem(format!("key {} at revision {revision} was created at {expected}, not at {found}", row.key));
    }
}
