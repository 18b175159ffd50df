//! The look for damage while the server runs: the structure of the file and every checksum, on a connection of its own, slowly. Whoever
//! writes is not held up, and whoever stops the server is not either.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use rusqlite::{Connection, ErrorCode, params};

use super::{
    OpenError,
    fault::{self, Fault},
    open,
    rows::Row,
    structure::{self, Depth},
    writable::Writable,
};
use crate::limits;

/// What a look for damage came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inspection {
    /// Nothing is wrong.
    Sound,
    /// The file is damaged and is not written to any more.
    Damaged,
    /// It was told to stop, or took too long.
    Unfinished,
}

/// Rows from one id on, the columns of a row.
const ROWS: &str =
    "SELECT id, key, create_revision, lease, checksum, value FROM entry WHERE id >= ?1 ORDER BY id LIMIT ?2";

/// Looks at everything.
pub(super) fn inspect(
    path: &Path,
    writable: &Writable,
    go_on: impl Fn() -> bool + Send + 'static,
) -> Result<Inspection, OpenError> {
    let mut db = open::open_reader(path).map_err(|error| open::classify(path, error))?;
    let mut pace = WorkPace { go_on, until: Instant::now() + limits::INSPECTION_TIME_MAX, begun: Instant::now() };
    let stops = move || pace.stops();
    db.progress_handler(limits::INSPECTION_STEPS, Some(stops)).map_err(|error| open::classify(path, error))?;
    match look(&db) {
        Ok(None) => Ok(Inspection::Sound),
        Ok(Some(damage)) => {
            writable.condemn(&damage);
            Ok(Inspection::Damaged)
        }
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::OperationInterrupted) => Ok(Inspection::Unfinished),
        Err(error) => Err(open::classify(path, error)),
    }
}

/// The first thing that is wrong.
fn look(db: &Connection) -> rusqlite::Result<Option<String>> {
    if let Some(finding) = structure::examine(db, Depth::Indexes)?.first() {
        return Ok(Some(finding.to_string()));
    }
    let mut from = i64::MIN;
    let limit = i64::try_from(limits::INSPECTION_ROWS).unwrap_or(i64::MAX);
    loop {
        let mut statement = db.prepare_cached(ROWS)?;
        let mut rows = statement.query(params![from, limit])?;
        let mut seen = 0;
        while let Some(row) = rows.next()? {
            seen += 1;
            match Row::decode(row) {
                Ok(row) => from = row.id + 1,
                Err(Fault::Store(error)) => return Ok(Some(error.to_string())),
                Err(Fault::Sqlite(error)) if fault::is_corruption(&error) => return Ok(Some(error.to_string())),
                Err(Fault::Sqlite(error)) => return Err(error),
            }
        }
        if seen < limit {
            return Ok(None);
        }
    }
}

/// Work and rest.
struct WorkPace<F> {
    go_on: F,
    until: Instant,
    /// When it last began to work.
    begun: Instant,
}

impl<F: Fn() -> bool> WorkPace<F> {
    fn stops(&mut self) -> bool {
        if self.begun.elapsed() >= limits::INSPECTION_WORK {
            rest(limits::INSPECTION_PAUSE);
            self.begun = Instant::now();
        }
        !(self.go_on)() || Instant::now() >= self.until
    }
}

/// Leaves the processor to others. Waking early does no harm.
fn rest(time: Duration) {
    std::thread::park_timeout(time);
}
